//! Executes plans with server-side apply.
//!
//! ```text
//!  Plan ─► shim.rs ─► steps in their order (RS-12) ─► written, and what went wrong
//!                        │   ├─ cluster.rs: the Cluster, by patches of a few fields
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

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Value, json};
use tracing::{info, warn};

use self::cluster::ClusterField;
pub use self::errors::ApplyError;
use super::events::{EventReason, LONGEST_MESSAGE, QueuedEvent, Recorder};
use super::untyped;
use engine::topology::plan::{Plan, PlanStep, StepAction, TopologyPart};
use engine::topology::shim::Shim;
use engine::topology::templates_in_use::MachineOwner;
use engine::topology::worker::{API_VERSION, WorkerKind};
use model::hub::{Object, ObjectKey, ObjectRef, label, paths};
use model::world::{Scope, Selection};

/// Who reports the events.
const REPORTER: &str = "topology/cluster-controller";

/// The reason of an event, and the first word of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TopologyEvent {
    reason: EventReason,
    verb: &'static str,
}

const CREATED: TopologyEvent = TopologyEvent { reason: EventReason::normal("TopologyCreate"), verb: "Created" };
const UPDATED: TopologyEvent = TopologyEvent { reason: EventReason::normal("TopologyUpdate"), verb: "Updated" };
const DELETED: TopologyEvent = TopologyEvent { reason: EventReason::normal("TopologyDelete"), verb: "Deleted" };
/// What separates the objects of a message.
const SEPARATOR: &str = ", ";
/// A template is not rotated any more (DEC-35).
const ROTATION_HELD: EventReason = EventReason::warning("TopologyRotationHeld");

/// Whether a Cluster, by its name and uid, is still there and is to stay.
type GoesOn = Box<dyn Fn(&ObjectKey, &str) -> bool + Send + Sync>;

/// Writes what topologies ask for.
pub struct Applier {
    client: kube::Client,
    goes_on: GoesOn,
    /// The scope of the controller that removes the finalizers of MachineDeployments; `None` if it does not run.
    finalizes: Option<Scope>,
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
    /// The Cluster from which the plan was computed.
    pub base: &'a Object,
    pub plan: &'a Plan,
    /// The uid of the shim, if an earlier run of this process created it.
    pub shim: Option<&'a str>,
    /// The kinds of workers of which the plan has considered all that exist.
    pub known_workers: &'a BTreeSet<WorkerKind>,
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
    /// The kinds of workers of which all that exist are known, unless the error leaves open whether it was written (RS-27).
    pub known_workers: BTreeSet<WorkerKind>,
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
        let recorder = Recorder::new(client.clone(), REPORTER);
        Applier { recorder, client, goes_on: Box::new(|_, _| true), finalizes: None }
    }

    /// One that creates MachineDeployments with the finalizer of topologies, beside the controller that removes it from
    /// those in this scope (DEC-119).
    #[must_use]
    pub(crate) fn with_finalizers(self, scope: Scope) -> Self {
        Applier { finalizes: Some(scope), ..self }
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
            finalizes: self.finalizes.as_ref(),
            run,
            base: Cow::Borrowed(run.base),
            current: BTreeMap::new(),
            incomplete: BTreeSet::new(),
            made: Vec::new(),
            events: RunEvents::default(),
            outcome: AppliedPlan { known_workers: run.known_workers.clone(), ..AppliedPlan::default() },
        };
        let error = work.carry_out().await.err();
        let (events, mut outcome) = (work.events, work.outcome);
        outcome.known_workers.extend(work.current.into_keys().filter(|kind| !work.incomplete.contains(kind)));
        let cluster = ObjectRef::new(API_VERSION, "Cluster", run.cluster.clone());
        self.recorder.write(events.about(&cluster, run.base.uid())).await;
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
    finalizes: Option<&'a Scope>,
    run: PlanRun<'a>,
    /// The Cluster as the last write left it.
    base: Cow<'a, Object>,
    /// The topology names of existing workers, once they are listed (RS-27).
    current: BTreeMap<WorkerKind, BTreeSet<String>>,
    /// Kinds with a worker that the plan did not know.
    incomplete: BTreeSet<WorkerKind>,
    /// Objects that were created or replaced in this run.
    made: Vec<CreatedObject>,
    events: RunEvents,
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
        let PlanRun { cluster, base, plan, shim, .. } = self.run;
        let cluster_uid = base.uid();
        match plan.shim {
            Shim::Create => {
                let shim = shim::create(self.client, cluster, cluster_uid).await?;
                // It comes before everything else, so no earlier run has created anything.
                if shim.is_new && !base.infrastructure_ref().is_defined() && !base.control_plane_ref().is_defined() {
                    self.outcome.known_workers.extend(WorkerKind::ALL);
                }
                self.outcome.shim = Some(shim.uid);
            }
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
        if step.action == StepAction::Create && !(self.goes_on)(self.run.cluster, self.run.base.uid()) {
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
        if self.has_finalizer(step, &sent) {
            sent.set(paths::metadata::FINALIZERS, json!([MachineOwner::Deployment.finalizer()]))?;
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
        self.record_event(step);
        Ok(())
    }

    /// Whether a step applies a MachineDeployment with the finalizer of topologies: a new one, so that it does not have
    /// to be added, or one that has it, since server-side apply removes what its manager does not apply any more
    /// (DEC-119).
    fn has_finalizer(&self, step: &PlanStep, sent: &Object) -> bool {
        if !matches!(step.part, TopologyPart::Worker(WorkerKind::MachineDeployment, _)) {
            return false;
        }
        let finalizer = MachineOwner::Deployment.finalizer();
        if let Some(current) = step.current.as_deref() {
            return !current.is_being_deleted() && current.has_finalizer(finalizer);
        }
        let is_removed = |scope: &Scope| scope.has_label(|name| sent.label(name));
        step.action == StepAction::Create && self.finalizes.is_some_and(is_removed)
    }

    /// Writes places of the Cluster (RS-22, RS-23). Records have no event, and a run that creates the infrastructure
    /// cluster has one about that (EV-07, EV-09).
    async fn write_cluster(&mut self, step: &PlanStep, places: Vec<ClusterField<'_>>) -> Result<(), ApplyError> {
        if places.is_empty() {
            return Ok(());
        }
        let written = cluster::write(self.client, &step.object, &self.base, &places).await?;
        self.note(step, &written);
        let is_creation = self.made.iter().any(|made| made.part == TopologyPart::Infrastructure);
        if !is_creation && !places.iter().all(ClusterField::is_record) {
            self.record_event(step);
        }
        self.base = Cow::Owned(written.clone());
        self.outcome.cluster = Some(written);
        Ok(())
    }

    /// Deletes an object, unless another has taken its name; that it is gone already is fine.
    async fn delete(&mut self, step: &PlanStep) -> Result<(), ApplyError> {
        let deleted = untyped::delete(self.client, &step.object, step.uid.as_deref()).await;
        if deleted.map_err(|error| ApplyError::delete(&step.object, error))? {
            info!(object = %step.object, reason = step.reason, "Deleted an object");
            self.record_event(step);
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
        // The record of the inputs is about all objects (DEC-59).
        let is_true =
            |place: &ClusterField<'_>| !place.is_rolled_out() && (has_control_plane || !place.is_control_plane());
        let places = places.filter(is_true).collect();
        match self.write_cluster(step, places).await {
            Ok(()) => error,
            Err(other) => ApplyError::Several(vec![error, other]),
        }
    }

    /// Whether a worker to create exists already, with all its parts, although the watch that the plan was made from has
    /// not shown it yet (RS-27). The workers that exist are listed once, and again after a write of which it is not
    /// known whether it was stored.
    async fn is_there_already(&mut self, part: &TopologyPart) -> Result<bool, ApplyError> {
        let Some((kind, name)) = part.worker() else { return Ok(false) };
        let is_new = |step: &PlanStep| {
            step.action == StepAction::Create
                && matches!(&step.part, TopologyPart::Worker(of, one) if (*of, &**one) == (kind, name))
        };
        if self.outcome.known_workers.contains(&kind) || !self.run.plan.steps.iter().any(is_new) {
            return Ok(false);
        }
        if !self.current.contains_key(&kind) {
            let names = self.names_of(kind).await?;
            self.current.insert(kind, names);
        }
        let is_there = self.current.get(&kind).is_some_and(|names| names.contains(name));
        if is_there {
            self.incomplete.insert(kind);
        }
        Ok(is_there)
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

    /// Records the event of a step.
    fn record_event(&mut self, step: &PlanStep) {
        if let Some((event, part)) = event_part(step) {
            self.events.0.entry(event.verb).or_insert_with(|| (event, Vec::new())).1.push(part);
        }
    }
}

/// The events of a run about its Cluster: one for each reason, with everything that it did (DEC-117).
#[derive(Debug, Default)]
struct RunEvents(BTreeMap<&'static str, (TopologyEvent, Vec<String>)>);

impl RunEvents {
    /// The events to write. What does not fit in one message is in another.
    fn about(self, cluster: &ObjectRef, uid: &str) -> Vec<QueuedEvent> {
        let mut queued = Vec::new();
        // Names of one object have a namespace, as in the events of Cluster API; all are in that of the Cluster.
        let namespace = format!("\"{}/", cluster.key.namespace);
        for (event, mut parts) in self.0.into_values() {
            if parts.len() > 1 {
                parts.iter_mut().for_each(|part| *part = part.replacen(&namespace, "\"", 1));
            }
            let mut messages: Vec<String> = Vec::new();
            for part in parts {
                match messages.last_mut().filter(|last| last.len() + part.len() + SEPARATOR.len() <= LONGEST_MESSAGE) {
                    Some(last) => last.extend([SEPARATOR, &part]),
                    None => messages.push(format!("{} {part}", event.verb)),
                }
            }
            queued.extend(messages.into_iter().map(|message| QueuedEvent::now(cluster, uid, event.reason, message)));
        }
        queued
    }
}

/// The event of a step, and what follows the verb in its message (EV-01 to EV-09). A control plane template that is
/// deleted has none.
fn event_part(step: &PlanStep) -> Option<(TopologyEvent, String)> {
    let PlanStep { action, part, object, replaces, .. } = step;
    let what = format!("{} \"{}\"", object.kind, object.key);
    let is_template = matches!(
        part,
        TopologyPart::ControlPlaneMachines
            | TopologyPart::Bootstrap(WorkerKind::MachineDeployment, _)
            | TopologyPart::WorkerInfrastructure(WorkerKind::MachineDeployment, _)
    );
    Some(match action {
        StepAction::Create => (CREATED, what),
        StepAction::Apply if is_template => (UPDATED, format!("{what} (metadata changes)")),
        StepAction::Apply => (UPDATED, format!("{what}{}", version_change(step))),
        StepAction::Rotate => {
            let old = replaces.as_deref().unwrap_or_default();
            (CREATED, format!("{what} as a replacement for \"{old}\" (template rotation)"))
        }
        StepAction::Delete if is_template => return None,
        StepAction::Delete => (DELETED, what),
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
