//! Executes plans with server-side apply.
//!
//! ```text
//!  Plan ─► shim.rs ─► steps in their order (RS-12) ─► written, and what went wrong
//!                        │   ├─ cluster.rs: the Cluster, by merge patches
//!                        │   └─ unchanged.rs: objects that exist, unless they have changed
//!                        ├─ creation.rs: new objects, or existing ones that have no other owner
//!                        ├─ a write fails ─► cleaning.rs: templates made for nothing go again
//!                        └─ ../events.rs: Events about the writes, sent when the run is over
//! ```
//!
//! Nothing is taken back but those templates: the next run goes on from what is there (RS-37).

mod cleaning;
mod cluster;
mod creation;
mod errors;
mod shim;
#[cfg(test)]
mod tests;
mod unchanged;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Value, json};
use tracing::{info, warn};

use self::cluster::ClusterField;
pub use self::errors::ApplyError;
use super::events::{EventReason, QueuedEvent, Recorder};
use super::untyped;
use engine::topology::plan::{Plan, PlanStep, StepAction, TopologyPart};
use engine::topology::shim::Shim;
use engine::topology::worker::{API_VERSION, WorkerKind};
use model::hub::{Object, ObjectKey, ObjectRef, label, paths};
use model::world::Selection;

/// Who reports the events.
const REPORTER: &str = "topology/cluster-controller";

/// The reasons of the events.
const CREATED: EventReason = EventReason::normal("TopologyCreate");
const UPDATED: EventReason = EventReason::normal("TopologyUpdate");
const DELETED: EventReason = EventReason::normal("TopologyDelete");
/// A template is not rotated any more (DEC-35).
const ROTATION_HELD: EventReason = EventReason::warning("TopologyRotationHeld");

/// Whether a Cluster, by its name and uid, is still there and is to stay.
type GoesOn = Box<dyn Fn(&ObjectKey, &str) -> bool + Send + Sync>;

/// Writes what topologies ask for.
pub struct Applier {
    client: kube::Client,
    goes_on: GoesOn,
    recorder: Recorder,
}

impl fmt::Debug for Applier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Applier")
    }
}

/// A plan, and the Cluster that it was made for.
#[derive(Clone, Copy, Debug)]
pub struct PlanRun<'a> {
    pub cluster: &'a ObjectKey,
    pub cluster_uid: &'a str,
    /// The `resourceVersion` of the Cluster from which the plan was computed.
    pub cluster_version: &'a str,
    pub plan: &'a Plan,
    /// The uid of the shim, if an earlier run of this process created it.
    pub shim: Option<&'a str>,
}

/// The result of a plan. Everything that was written stays, even if a later write fails.
#[derive(Debug, Default)]
pub struct AppliedPlan {
    /// In the order in which it was written (RS-11).
    pub written: Vec<WriteRecord>,
    /// The slots that have templates of new names (DEC-35).
    pub rotated: Vec<TopologyPart>,
    /// The Cluster as the last write left it; `None` when it was not written.
    pub cluster: Option<Object>,
    /// The uid of the shim, when it was created or found (RS-14).
    pub shim: Option<String>,
    /// Whether the deletion of the shim succeeded; another object of its name counts as success.
    pub has_deleted_shim: bool,
    pub error: Option<ApplyError>,
}

/// An object that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRecord {
    pub object: ObjectRef,
    /// Its `resourceVersion` after the write.
    pub version: String,
}

impl Applier {
    /// One that writes with `client`, which should refuse when this process does not lead.
    pub fn new(client: kube::Client) -> Self {
        Applier { recorder: Recorder::new(client.clone(), REPORTER), client, goes_on: Box::new(|_, _| true) }
    }

    /// One that makes objects only while their Cluster goes on. The Cluster may be deleted while a plan is executed,
    /// and what is made after its controller has deleted everything would stay (MA-27.15).
    #[must_use]
    pub(crate) fn only_while(self, goes_on: impl Fn(&ObjectKey, &str) -> bool + Send + Sync + 'static) -> Self {
        Applier { goes_on: Box::new(goes_on), ..self }
    }

    /// Executes a plan in its order (RS-12), until the first error.
    pub async fn apply(&self, run: PlanRun<'_>) -> AppliedPlan {
        let mut work = PlanExecution {
            client: &self.client,
            goes_on: &self.goes_on,
            run,
            version: run.cluster_version.to_owned(),
            current: BTreeMap::new(),
            made: Vec::new(),
            events: Vec::new(),
            outcome: AppliedPlan::default(),
        };
        let error = work.carry_out().await.err();
        let (events, outcome) = (work.events, work.outcome);
        self.recorder.write(events).await;
        AppliedPlan { error, ..outcome }
    }

    /// Writes a Warning event about a Cluster whose template is no longer rotated (DEC-35).
    pub(crate) async fn report_held_rotation(&self, cluster: &ObjectKey, uid: &str, message: String) {
        let cluster = ObjectRef::new(API_VERSION, "Cluster", cluster.clone());
        self.recorder.write(vec![QueuedEvent::now(&cluster, uid, ROTATION_HELD, message)]).await;
    }
}

/// The execution of a plan.
struct PlanExecution<'a> {
    client: &'a kube::Client,
    goes_on: &'a GoesOn,
    run: PlanRun<'a>,
    /// The `resourceVersion` of the Cluster as it is now.
    version: String,
    /// The topology names of existing workers, once they are listed (RS-27).
    current: BTreeMap<WorkerKind, BTreeSet<String>>,
    /// Objects that were created or replaced in this run.
    made: Vec<CreatedObject>,
    events: Vec<QueuedEvent>,
    outcome: AppliedPlan,
}

/// An object that was created.
struct CreatedObject {
    part: TopologyPart,
    object: ObjectRef,
    uid: String,
}

impl PlanExecution<'_> {
    async fn carry_out(&mut self) -> Result<(), ApplyError> {
        let PlanRun { cluster, cluster_uid, plan, shim, .. } = self.run;
        match plan.shim {
            Shim::Create => self.outcome.shim = Some(shim::create(self.client, cluster, cluster_uid).await?),
            Shim::Delete => {
                shim::delete(self.client, cluster, cluster_uid, shim).await?;
                self.outcome.has_deleted_shim = true;
            }
            Shim::Keep => {}
        }
        for (position, step) in plan.steps.iter().enumerate() {
            if let Err(error) = self.take(step).await {
                self.clean_up_after(step, &error).await;
                let (done, left) = plan.steps.split_at(position);
                // Without a response, the Cluster may have the marks of the failed step.
                let may_be_marked = step.part == TopologyPart::Cluster && error.may_have_written();
                let marking = plan.steps.get(..position + usize::from(may_be_marked)).unwrap_or(done);
                self.unmark_hooks(marking, left).await;
                return Err(self.note_infrastructure(step, left, error).await);
            }
        }
        Ok(())
    }

    async fn take(&mut self, step: &PlanStep) -> Result<(), ApplyError> {
        if step.action == StepAction::Create && !(self.goes_on)(self.run.cluster, self.run.cluster_uid) {
            let cluster = ObjectRef::new(API_VERSION, "Cluster", self.run.cluster.clone());
            return Err(ApplyError::Changed { object: Box::new(cluster) });
        }
        if step.action == StepAction::Create && self.is_there_already(&step.part).await? {
            info!(part = %step.part, "Skipped a worker that already exists");
            return Ok(());
        }
        match (&step.applied, &step.part) {
            (None, _) => self.delete(step).await,
            (Some(_), TopologyPart::Cluster) => {
                self.write_cluster(step, step.changes.iter().map(ClusterField::for_change).collect()).await
            }
            (Some(sent), _) => self.write(step, sent).await,
        }
    }

    /// Creates or applies an object. What went meanwhile is not made again, since the uid of what is updated is sent
    /// (SSA-05), and what another write has changed is not overwritten (SSA-24).
    async fn write(&mut self, step: &PlanStep, sent: &Object) -> Result<(), ApplyError> {
        let is_new = matches!(step.action, StepAction::Create | StepAction::Rotate);
        let mut sent = sent.clone();
        if let (StepAction::Create, TopologyPart::Infrastructure | TopologyPart::ControlPlane, Some(uid)) =
            (step.action, &step.part, &self.outcome.shim)
        {
            sent.set(paths::metadata::OWNER_REFERENCES, json!([shim::owner(self.run.cluster, uid)]))?;
        }
        let written = match &step.current {
            Some(current) => unchanged::apply(self.client, sent, current).await,
            None if is_new => self.create(step, &sent).await,
            None => {
                untyped::apply(self.client, &sent, false).await.map_err(|error| ApplyError::update(&step.object, error))
            }
        };
        let written = written.inspect_err(|error| {
            if !error.is_conflict() {
                warn!(object = %step.object, action = step.action.name(), %error, "Failed to write an object");
            }
        })?;
        self.note(step, &written);
        if is_new {
            let (part, object) = (step.part.clone(), step.object.clone());
            self.made.push(CreatedObject { part, object, uid: written.uid().to_owned() });
        }
        if step.action == StepAction::Rotate {
            self.outcome.rotated.push(step.part.clone());
        }
        self.record_events(step, written.uid());
        Ok(())
    }

    /// Writes places of the Cluster (RS-22, RS-23). Pending hooks have no event (EV-07, EV-09).
    async fn write_cluster(&mut self, step: &PlanStep, places: Vec<ClusterField<'_>>) -> Result<(), ApplyError> {
        if places.is_empty() {
            return Ok(());
        }
        let uid = self.run.cluster_uid;
        let written = cluster::write(self.client, &step.object, uid, &self.version, &places).await?;
        self.note(step, &written);
        if !places.iter().all(ClusterField::is_of_hooks) {
            self.record_events(step, uid);
        }
        self.version = written.text(paths::metadata::RESOURCE_VERSION)?.unwrap_or_default().to_owned();
        self.outcome.cluster = Some(written);
        Ok(())
    }

    /// Deletes an object, unless another has taken its name; that it is gone already is fine.
    async fn delete(&mut self, step: &PlanStep) -> Result<(), ApplyError> {
        let deleted = untyped::delete(self.client, &step.object, step.uid.as_deref()).await;
        if deleted.map_err(|error| ApplyError::delete(&step.object, error))? {
            info!(object = %step.object, reason = step.reason, "Deleted an object");
            self.record_events(step, step.uid.as_deref().unwrap_or_default());
        }
        Ok(())
    }

    /// When the control plane fails and the infrastructure cluster is new, its reference is written all the same: it
    /// must not be lost. That of a control plane which is not there is left out (RS-18).
    async fn note_infrastructure(&mut self, failed: &PlanStep, left: &[PlanStep], error: ApplyError) -> ApplyError {
        let is_of_control_plane = matches!(
            failed.part,
            TopologyPart::ControlPlane | TopologyPart::ControlPlaneMachines | TopologyPart::ControlPlaneHealthCheck
        );
        let is_made = |part: &TopologyPart| self.made.iter().any(|made| made.part == *part);
        let Some(step) = left.iter().find(|step| step.part == TopologyPart::Cluster) else { return error };
        if !is_of_control_plane || !is_made(&TopologyPart::Infrastructure) {
            return error;
        }
        let has_control_plane = is_made(&TopologyPart::ControlPlane);
        let places = step.changes.iter().map(ClusterField::for_change);
        let places = places.filter(|place| has_control_plane || !place.is_control_plane()).collect();
        match self.write_cluster(step, places).await {
            Ok(()) => error,
            Err(other) => ApplyError::Several(vec![error, other]),
        }
    }

    /// Whether a worker to create exists already, with all its parts, although the list that the plan was made
    /// of does not know it yet (RS-27).
    async fn is_there_already(&mut self, part: &TopologyPart) -> Result<bool, ApplyError> {
        let Some((kind, name)) = part.worker() else { return Ok(false) };
        let is_new = |step: &PlanStep| {
            step.action == StepAction::Create
                && matches!(&step.part, TopologyPart::Worker(of, one) if (*of, &**one) == (kind, name))
        };
        if !self.run.plan.steps.iter().any(is_new) {
            return Ok(false);
        }
        if !self.current.contains_key(&kind) {
            let names = self.names_of(kind).await?;
            self.current.insert(kind, names);
        }
        Ok(self.current.get(&kind).is_some_and(|names| names.contains(name)))
    }

    /// The topology names of the workers of a kind, as the API server has them now (CS-09).
    async fn names_of(&self, kind: WorkerKind) -> Result<BTreeSet<String>, ApplyError> {
        let cluster = self.run.cluster;
        let labels = [(label::CLUSTER_NAME, &*cluster.name), (label::OWNED, "")];
        let selection = Selection {
            api_version: API_VERSION.to_owned(),
            kind: kind.name().to_owned(),
            namespace: cluster.namespace.clone(),
            labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        };
        let found = untyped::list_metadata(self.client, &selection).await;
        let found = found.map_err(|source| ApplyError::List { kind: kind.name(), source: Box::new(source) })?;
        Ok(found.iter().filter_map(|worker| worker.label(kind.label())).map(str::to_owned).collect())
    }

    /// Notes that an object was written (RS-11).
    fn note(&mut self, step: &PlanStep, written: &Object) {
        let (action, reason, changes) = (step.action.name(), &step.reason, step.changes.len());
        info!(object = %step.object, action, reason, changes, "Wrote an object");
        let version = written.resource_version();
        self.outcome.written.push(WriteRecord { object: step.object.clone(), version: version.to_owned() });
    }

    /// Records the events of a step.
    fn record_events(&mut self, step: &PlanStep, uid: &str) {
        let Some((reason, message)) = message(step) else { return };
        let of_itself = matches!(step.part, TopologyPart::ControlPlaneHealthCheck | TopologyPart::WorkerHealthCheck(_));
        let cluster = ObjectRef::new(API_VERSION, "Cluster", self.run.cluster.clone());
        let events = match of_itself {
            true => QueuedEvent::now(&step.object, uid, reason, message),
            false => QueuedEvent::now(&cluster, self.run.cluster_uid, reason, message),
        };
        self.events.push(events);
    }
}

/// The events of a step (EV-01 to EV-09). A control plane template that is deleted has none.
fn message(step: &PlanStep) -> Option<(EventReason, String)> {
    let PlanStep { action, part, object, replaces, .. } = step;
    let what = format!("{} \"{}\"", object.kind, object.key);
    let is_template = matches!(
        part,
        TopologyPart::ControlPlaneMachines
            | TopologyPart::Bootstrap(WorkerKind::MachineDeployment, _)
            | TopologyPart::WorkerInfrastructure(WorkerKind::MachineDeployment, _)
    );
    Some(match action {
        StepAction::Create => (CREATED, format!("Created {what}")),
        StepAction::Apply if is_template => (UPDATED, format!("Updated {what} (metadata changes)")),
        StepAction::Apply => (UPDATED, format!("Updated {what}{}", version_change(step))),
        StepAction::Rotate => {
            let old = replaces.as_deref().unwrap_or_default();
            let message = format!("Created {what} as a replacement for \"{old}\" (template rotation)");
            (CREATED, message)
        }
        StepAction::Delete if is_template => return None,
        StepAction::Delete => (DELETED, format!("Deleted {what}")),
    })
}

/// The versions of a control plane or of workers, if they change (EV-03).
fn version_change(step: &PlanStep) -> String {
    let path = match step.part {
        TopologyPart::ControlPlane => paths::VERSION,
        TopologyPart::Worker(..) => paths::worker::VERSION,
        _ => return String::new(),
    };
    let change = step.changes.iter().find(|change| change.path == path);
    let text = |value: &Option<Value>| value.as_ref().and_then(Value::as_str).map(str::to_owned);
    match change.map(|change| (text(&change.from), text(&change.to))) {
        Some((Some(from), Some(to))) => format!(" with version change from {from} to {to}"),
        _ => String::new(),
    }
}
