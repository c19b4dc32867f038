//! The steps of a plan in the order of their execution (RS-12).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::difference::{Comparison, ObjectDifference, sent};
use super::{AppliedState, Certainty, ChangedField, Plan, PlanStep, StepAction, TopologyPart};
use crate::topology::current::{Current, CurrentControlPlane, CurrentWorker};
use crate::topology::desired::{Desired, DesiredCluster, DesiredControlPlane, DesiredObject, DesiredWorker};
use crate::topology::failure::DeniedChange;
use crate::topology::field_path::INFRASTRUCTURE_REF;
use crate::topology::holds::{HeldPart, HeldReason};
use crate::topology::hooks::HookTracker;
use crate::topology::origin::{Origin, Origins};
use crate::topology::ownership::Unavailable;
use crate::topology::shim;
use crate::topology::upgrade::Tracker;
use crate::topology::worker::{API_VERSION, WorkerKind};
use crate::topology::{Computation, Failure, ObservedState};
use model::hub::contract::Contract;
use model::hub::names::{Names, prefixed};
use model::hub::{Cluster, Object, ObjectRef, annotation, label, paths};
use model::world::{Found, Selection, World};

impl Plan {
    /// The steps from the current to the desired state. An object that cannot reach its desired state ends the plan
    /// with a failure; earlier steps stay.
    ///
    /// # Errors
    /// [`Failure::NotAsked`] when `world` has needs that must be gathered first.
    pub fn from_computation(
        computation: &Computation,
        world: &World,
        applied: &AppliedState,
        names: &mut dyn Names,
    ) -> Result<Plan, Failure> {
        let Computation { observed, desired, tracker, contract, unavailable, .. } = computation;
        let ObservedState { blueprint, current } = &**observed;
        let cluster = &blueprint.cluster;
        let comparison = Comparison { world, applied };
        let (steps, held) = (Vec::new(), tracker.held(&cluster.metadata.name));
        let mut planner = Planner { cluster, current, tracker, comparison, names, unavailable, steps, held };
        let failure = planner.plan_all(desired, *contract).err();
        let Planner { steps, held, .. } = planner;
        if world.has_needs() {
            return Err(Failure::NotAsked);
        }
        Ok(Plan { steps, held, failure, shim: shim::decide(cluster, current) })
    }
}

struct Planner<'a> {
    cluster: &'a Cluster,
    current: &'a Current,
    tracker: &'a Tracker,
    comparison: Comparison<'a>,
    names: &'a mut dyn Names,
    /// Why objects cannot be created.
    unavailable: &'a [Unavailable],
    steps: Vec<PlanStep>,
    held: Vec<HeldPart>,
}

/// The paths at which a control plane refers to the template of its machines, by contract.
const MACHINES_REFS: [&str; 2] = [INFRASTRUCTURE_REF.at(Contract::V1Beta2), INFRASTRUCTURE_REF.at(Contract::V1Beta1)];

impl Planner<'_> {
    /// Plans all objects in the order in which they are written (RS-12).
    fn plan_all(&mut self, desired: &Desired, contract: Contract) -> Result<(), Failure> {
        let Desired { infrastructure, control_plane, cluster, machine_deployments, machine_pools } = desired;
        let mut cluster = Cow::Borrowed(cluster);
        let marked = self.mark_hooks();
        self.object(TopologyPart::Infrastructure, infrastructure, self.current.infrastructure.as_ref())?;
        let of_control_plane = self.control_plane(control_plane, contract);
        if of_control_plane.is_err() {
            // The Cluster must refer to a new infrastructure cluster nevertheless (RS-18).
            if self.current.infrastructure.is_some() {
                return of_control_plane;
            }
            cluster.to_mut().control_plane_ref.clone_from(&marked.control_plane_ref);
        }
        self.cluster(&marked, &cluster, "it references objects of the topology");
        of_control_plane?;
        self.workers(WorkerKind::MachineDeployment, machine_deployments)?;
        self.workers(WorkerKind::MachinePool, machine_pools)
    }

    /// Runs `steps` all or nothing: no template is created for an owner that cannot refer to it (RS-21, RS-29, RS-32).
    fn all_or_nothing(&mut self, steps: impl FnOnce(&mut Self) -> Result<(), Failure>) -> Result<(), Failure> {
        let before = self.steps.len();
        let outcome = steps(self);
        if outcome.is_err() {
            self.steps.truncate(before);
        }
        outcome
    }

    /// Plans an object that is always changed in place (RS-24, ROT-10), such as the infrastructure cluster (RS-17); its
    /// name and kind never change (RS-25). Without a difference there is no step (RS-39).
    fn object(
        &mut self,
        part: TopologyPart,
        desired: &DesiredObject,
        current: Option<&Arc<Object>>,
    ) -> Result<(), Failure> {
        let DesiredObject { object, origins } = desired;
        let mut sent = sent(object)?;
        let Some(current) = current else {
            return self.create(part, sent, origins);
        };
        check_identity(current, &sent)?;
        keep_uid(&mut sent, current)?;
        let difference = match self.refers_to_new_template(&part) {
            true => self.comparison.compare_certain(current, &sent, origins)?,
            false => self.comparison.compare(current, &sent, origins)?,
        };
        if !difference.is_empty() {
            self.comparison.is_allowed(current, &sent, &difference, DeniedChange::Update)?;
            let reason = update_reason(&difference);
            self.update(PlannedWrite { part, sent, origins, difference, reason }, current);
        }
        Ok(())
    }

    /// Plans a template of machines (ROT-01). A changed spec rotates it to a new name, which is returned (ROT-02 to
    /// ROT-05, ROT-07, ROT-08). The new template is always created; no existing one is reused (ROT-12). A deleted
    /// template that an owner still refers to is replaced as well (ROT-13).
    fn template(
        &mut self,
        part: TopologyPart,
        desired: &DesiredObject,
        current: Option<&Arc<Object>>,
    ) -> Result<Option<String>, Failure> {
        let DesiredObject { object, origins } = desired;
        let mut sent = sent(object)?;
        let Some(current) = current else {
            let Some(lost) = self.lost_template(&part) else {
                self.create(part, sent, origins)?;
                return Ok(None);
            };
            let name = self.successor(&part, &lost);
            sent.set(paths::metadata::NAME, json!(name))?;
            self.replace_lost(part, sent, origins, lost);
            return Ok(Some(name));
        };
        let is_of_another_kind = (current.group(), current.kind()) != (sent.group(), sent.kind());
        if is_of_another_kind && !matches!(part, TopologyPart::Bootstrap(..)) {
            return Err(Failure::Incompatible {
                current: current.reference().into(),
                desired: sent.reference().into(),
            });
        }
        let mut difference = if is_of_another_kind {
            ObjectDifference::between_kinds(current, &sent, origins)
        } else {
            keep_uid(&mut sent, current)?;
            self.comparison.compare(current, &sent, origins)?
        };
        if !difference.is_in_spec {
            if !difference.is_empty() {
                let reason = "only its metadata changes, no machine is replaced".to_owned();
                self.update(PlannedWrite { part, sent, origins, difference, reason }, current);
            }
            return Ok(None);
        }
        if !is_of_another_kind {
            self.comparison.is_allowed(current, &sent, &difference, DeniedChange::Replace)?;
            difference.add(self.comparison.lost(current, &sent)?);
        }
        let old = current.name().to_owned();
        let name = self.successor(&part, &old);
        sent.set(paths::metadata::NAME, json!(name))?;
        sent.remove(paths::metadata::UID);
        let reason = "its spec changes; templates are replaced, not updated".to_owned();
        self.write(StepAction::Rotate, PlannedWrite { part, sent, origins, difference, reason });
        if let Some(step) = self.steps.last_mut() {
            step.replaces = Some(old);
        }
        Ok(Some(name))
    }

    /// Whether this plan replaces a template to which a part refers.
    fn refers_to_new_template(&self, part: &TopologyPart) -> bool {
        let refers = |template: &TopologyPart| match part {
            TopologyPart::ControlPlane => *template == TopologyPart::ControlPlaneMachines,
            TopologyPart::Worker(..) => template.worker() == part.worker(),
            _ => false,
        };
        self.steps.iter().any(|step| step.action == StepAction::Rotate && refers(&step.part))
    }

    /// The name of the template that replaces another one.
    fn successor(&mut self, part: &TopologyPart, old: &str) -> String {
        let end = self.names.suffix(&self.cluster.metadata.key(), &format!("{part}/{old}"));
        prefixed(&template_prefix(&self.cluster.metadata.name, part), &end)
    }

    /// Creates a template that replaces a deleted one (ROT-13).
    fn replace_lost(&mut self, part: TopologyPart, sent: Object, origins: &Origins, lost: String) {
        let reason = format!("{lost:?} is referenced and does not exist");
        let difference = ObjectDifference::none();
        self.write(StepAction::Rotate, PlannedWrite { part, sent, origins, difference, reason });
        if let Some(step) = self.steps.last_mut() {
            step.replaces = Some(lost);
        }
    }

    /// The name of a deleted template that the owner of a slot still refers to.
    fn lost_template(&self, part: &TopologyPart) -> Option<String> {
        let worker = |kind: &WorkerKind, name: &String| self.current.workers(*kind).get(name);
        let (owner, paths, current): (_, &[&str], _) = match part {
            TopologyPart::ControlPlaneMachines => {
                let CurrentControlPlane { object, machines, .. } = &self.current.control_plane;
                (object.as_ref()?, &MACHINES_REFS, machines)
            }
            TopologyPart::Bootstrap(kind, name) => {
                let CurrentWorker { object, bootstrap, .. } = worker(kind, name)?;
                (object, &[paths::worker::BOOTSTRAP_CONFIG_REF], bootstrap)
            }
            TopologyPart::WorkerInfrastructure(kind, name) => {
                let CurrentWorker { object, infrastructure, .. } = worker(kind, name)?;
                (object, &[paths::worker::INFRASTRUCTURE_REF], infrastructure)
            }
            _ => return None,
        };
        let name = |path: &&str| owner.text(&format!("{path}.name")).ok().flatten().map(str::to_owned);
        if current.is_none() { paths.iter().find_map(name) } else { None }
    }

    /// Plans the control plane: its health check always, the rest unless an upgrade holds it (RS-19 to RS-21, UP-30,
    /// ROT-09). The replaced template is deleted immediately (ROT-06).
    fn control_plane(&mut self, desired: &DesiredControlPlane, contract: Contract) -> Result<(), Failure> {
        let current = &self.current.control_plane;
        self.health_check(
            TopologyPart::ControlPlaneHealthCheck,
            desired.health_check.as_ref(),
            current.health_check.as_ref(),
        )?;
        // The hold may wait for machines, which cannot be created without their template.
        let has_lost = desired.machines.is_some() && self.lost_template(&TopologyPart::ControlPlaneMachines).is_some();
        if self.tracker.is_control_plane_frozen() && !has_lost {
            return Ok(());
        }
        let mut control_plane = Cow::Borrowed(&desired.control_plane);
        self.all_or_nothing(|planner| {
            let mut replaced = None;
            if let Some(machines) = &desired.machines {
                let renamed =
                    planner.template(TopologyPart::ControlPlaneMachines, machines, current.machines.as_ref())?;
                if let Some(name) = renamed {
                    control_plane
                        .to_mut()
                        .object
                        .set(&format!("{}.name", INFRASTRUCTURE_REF.at(contract)), json!(name))?;
                    replaced = current.machines.as_ref();
                }
            }
            planner.object(TopologyPart::ControlPlane, &control_plane, current.object.as_ref())?;
            if let Some(old) = replaced {
                planner.delete(TopologyPart::ControlPlaneMachines, old, "another template replaces it");
            }
            planner.delete_orphaned_templates()
        })
    }

    /// Deletes templates of control plane machines that an earlier, interrupted run replaced without deleting them
    /// (ROT-06, DEL-13). No object refers to them, and they would stay until the Cluster is deleted.
    fn delete_orphaned_templates(&mut self) -> Result<(), Failure> {
        let metadata = &self.cluster.metadata;
        let Some(current) = &self.current.control_plane.machines else { return Ok(()) };
        let labels = [(label::CLUSTER_NAME, &*metadata.name), (label::OWNED, "")];
        let selection = Selection {
            api_version: current.api_version().to_owned(),
            kind: current.kind().to_owned(),
            namespace: metadata.namespace.clone(),
            labels: labels.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        };
        let found = match self.comparison.world.list(&selection) {
            Found::Yes(found) => found,
            // The world has a need, so that the plan is discarded.
            Found::Absent | Found::NotAsked => return Ok(()),
            Found::Unreadable(reason) => return Err(Failure::Unreadable(reason)),
        };
        let is_of_workers = |object: &Object| {
            [label::DEPLOYMENT_NAME, label::POOL_NAME].iter().any(|name| object.label(name).is_some())
        };
        let is_ours = |object: &Object| {
            let mut owners = object.owner_references().iter().map(|owner| owner["uid"].as_str().unwrap_or_default());
            !metadata.uid.is_empty() && owners.any(|uid| uid == metadata.uid)
        };
        let is_in_use = |object: &Object| {
            let of_plan =
                self.steps.iter().any(|step| step.object.kind == object.kind() && step.object.key == object.key());
            object.name() == current.name() || of_plan
        };
        let forgotten = found
            .iter()
            .filter(|one| !is_of_workers(one) && is_ours(one) && !is_in_use(one) && !one.is_being_deleted());
        for template in forgotten.cloned().collect::<Vec<_>>() {
            self.delete(TopologyPart::ControlPlaneMachines, &template, "another template replaced it before");
        }
        Ok(())
    }

    /// Marks the hooks of a control plane step as pending before the step is executed: a crash in between would lose
    /// them (HK-03). Hooks of a new Cluster are marked together with its references. Returns the Cluster with the
    /// marks.
    fn mark_hooks(&mut self) -> DesiredCluster {
        let Cluster { metadata, spec, .. } = self.cluster;
        let is = DesiredCluster {
            labels: metadata.labels.to_map(),
            annotations: metadata.annotations.to_map(),
            infrastructure_ref: spec.infrastructure_ref.clone(),
            control_plane_ref: spec.control_plane_ref.clone(),
        };
        let hooks = &self.tracker.hooks;
        let is_marked = hooks.pending().is_subset(HookTracker::for_cluster(self.cluster).pending());
        if is_marked || self.current.control_plane.object.is_none() {
            return is;
        }
        let mut marked = is.clone();
        let value = hooks.annotation().map(|value| (annotation::PENDING_HOOKS.to_owned(), value));
        marked.annotations.extend(value);
        self.cluster(&is, &marked, "hooks are marked as pending before their action begins");
        marked
    }

    /// Plans labels, annotations and references of the Cluster (RS-22, RS-23).
    fn cluster(&mut self, is: &DesiredCluster, desired: &DesiredCluster, reason: &str) {
        let cluster = self.cluster;
        let mut changes = Vec::new();
        let mut patch = Object::default();
        let metadata =
            [("labels", &is.labels, &desired.labels), ("annotations", &is.annotations, &desired.annotations)];
        for (field, before, after) in metadata {
            for name in before.keys().chain(after.keys().filter(|name| !before.contains_key(*name))) {
                let (from, to) = (before.get(name), after.get(name));
                if from != to {
                    let text = |value: Option<&String>| value.map(|value| json!(value));
                    changes.push(engine_change(format!("metadata.{field}[{name}]"), text(from), text(to)));
                }
            }
        }
        let references = [
            (paths::INFRASTRUCTURE_REF, &is.infrastructure_ref, &desired.infrastructure_ref),
            (paths::cluster::CONTROL_PLANE_REF, &is.control_plane_ref, &desired.control_plane_ref),
        ];
        for (path, from, to) in references {
            if from != to {
                let from = from.is_defined().then(|| Value::from(from));
                changes.push(engine_change(path.to_owned(), from, Some(to.into())));
            }
        }
        if changes.is_empty() {
            return;
        }
        for (path, value) in [
            (paths::metadata::LABELS, json!(desired.labels)),
            (paths::metadata::ANNOTATIONS, json!(desired.annotations)),
            (paths::INFRASTRUCTURE_REF, Value::from(&desired.infrastructure_ref)),
            (paths::cluster::CONTROL_PLANE_REF, Value::from(&desired.control_plane_ref)),
        ] {
            // This cannot fail: the patch was empty, so all parents are objects.
            let _ = patch.set(path, value);
        }
        self.steps.push(PlanStep {
            action: StepAction::Apply,
            part: TopologyPart::Cluster,
            object: ObjectRef::new(API_VERSION, "Cluster", cluster.metadata.key()),
            uid: Some(cluster.metadata.uid.clone()).filter(|uid| !uid.is_empty()),
            current: None,
            replaces: None,
            applied: Some(Arc::new(patch)),
            origins: Arc::default(),
            changes,
            reason: reason.to_owned(),
            certainty: Certainty::Exact,
        });
    }

    /// Plans the workers of a kind: creations before updates before deletions (RS-26).
    fn workers(&mut self, kind: WorkerKind, desired: &[DesiredWorker]) -> Result<(), Failure> {
        let current = self.current.workers(kind);
        let wanted: BTreeSet<&str> = desired.iter().map(|worker| &*worker.topology_name).collect();
        let gone: Vec<_> = current.iter().filter(|(name, _)| !wanted.contains(name.as_str())).collect();
        // The first worker of each generated name.
        let names: BTreeMap<&str, &str> =
            gone.iter().rev().map(|&(name, worker)| (worker.object.name(), name.as_str())).collect();
        let (existing, new): (Vec<_>, Vec<_>) =
            desired.iter().partition(|worker| current.contains_key(&worker.topology_name));
        for worker in new {
            if !self.tracker.is_pending_create(kind, &worker.topology_name)
                && !self.waits_for_name(kind, worker, &names)
            {
                self.all_or_nothing(|planner| planner.create_worker(kind, worker))?;
            }
        }
        for worker in existing {
            if let Some(current) = current.get(&worker.topology_name) {
                self.update_worker(kind, worker, current)?;
            }
        }
        let mut gone = gone;
        gone.sort_by_key(|(_, worker)| worker.object.name());
        for (name, worker) in gone {
            self.delete_worker(kind, name, worker);
        }
        Ok(())
    }

    /// Whether a removed worker still has the generated name of a new one, which is then created after the deletion
    /// (DEC-36). `gone` contains the removed workers by generated name.
    fn waits_for_name(&mut self, kind: WorkerKind, worker: &DesiredWorker, gone: &BTreeMap<&str, &str>) -> bool {
        let Some(holder) = gone.get(worker.worker.object.name()) else { return false };
        let reason = HeldReason::NameInUse { kind, holder: (*holder).to_owned() };
        let (kind, name) = (kind.name().to_owned(), worker.topology_name.clone());
        self.held.push(HeldPart { kind, name, reason });
        true
    }

    /// Creates infrastructure, bootstrap, the worker and its health check (RS-28, RS-34).
    fn create_worker(&mut self, kind: WorkerKind, worker: &DesiredWorker) -> Result<(), Failure> {
        let name = &worker.topology_name;
        self.object(TopologyPart::WorkerInfrastructure(kind, name.clone()), &worker.infrastructure, None)?;
        self.object(TopologyPart::Bootstrap(kind, name.clone()), &worker.bootstrap, None)?;
        self.object(TopologyPart::Worker(kind, name.clone()), &worker.worker, None)?;
        match &worker.health_check {
            Some(check) => self.object(TopologyPart::WorkerHealthCheck(name.clone()), check, None),
            None => Ok(()),
        }
    }

    /// Updates the health check always; its templates and the worker itself unless the worker is being deleted or an
    /// upgrade holds it, with all changes of the worker in one write (RS-30, RS-31, RS-34, UP-39, UP-40, ROT-09).
    /// Replaced templates stay for the machine sets that use them (ROT-06).
    fn update_worker(
        &mut self,
        kind: WorkerKind,
        desired: &DesiredWorker,
        current: &CurrentWorker,
    ) -> Result<(), Failure> {
        let name = &desired.topology_name;
        let is_deployment = kind == WorkerKind::MachineDeployment;
        if is_deployment {
            let part = TopologyPart::WorkerHealthCheck(name.clone());
            self.health_check(part, desired.health_check.as_ref(), current.health_check.as_ref())?;
        }
        let is_leaving = is_deployment && current.object.is_being_deleted();
        let has_lost = current.infrastructure.is_none() || current.bootstrap.is_none();
        if is_leaving || (self.tracker.is_worker_frozen(kind, current.object.name()) && !has_lost) {
            return Ok(());
        }
        let (infrastructure, bootstrap) = (&desired.infrastructure, &desired.bootstrap);
        let mut worker = Cow::Borrowed(&desired.worker);
        self.all_or_nothing(|planner| {
            let of_infrastructure = TopologyPart::WorkerInfrastructure(kind, name.clone());
            let of_bootstrap = TopologyPart::Bootstrap(kind, name.clone());
            let (was_infrastructure, was_bootstrap) = (current.infrastructure.as_ref(), current.bootstrap.as_ref());
            if is_deployment {
                if let Some(new) = planner.template(of_infrastructure, infrastructure, was_infrastructure)? {
                    worker.to_mut().object.set(&format!("{}.name", paths::worker::INFRASTRUCTURE_REF), json!(new))?;
                }
                if let Some(new) = planner.template(of_bootstrap, bootstrap, was_bootstrap)? {
                    worker.to_mut().object.set(&format!("{}.name", paths::worker::BOOTSTRAP_CONFIG_REF), json!(new))?;
                }
            } else {
                planner.object(of_infrastructure, infrastructure, was_infrastructure)?;
                planner.object(of_bootstrap, bootstrap, was_bootstrap)?;
            }
            planner.object(TopologyPart::Worker(kind, name.clone()), &worker, Some(&current.object))
        })
    }

    /// Deletes a worker that is no longer in the topology, its health check first (RS-33, RS-34, DEL-03, DEL-04).
    fn delete_worker(&mut self, kind: WorkerKind, name: &str, worker: &CurrentWorker) {
        let reason = "the topology no longer defines it";
        if let Some(health_check) = &worker.health_check {
            self.delete(TopologyPart::WorkerHealthCheck(name.to_owned()), health_check, reason);
        }
        if !worker.object.is_being_deleted() {
            self.delete(TopologyPart::Worker(kind, name.to_owned()), &worker.object, reason);
        }
    }

    /// Creates, updates or deletes a health check according to its definition (RS-35).
    fn health_check(
        &mut self,
        part: TopologyPart,
        desired: Option<&DesiredObject>,
        current: Option<&Arc<Object>>,
    ) -> Result<(), Failure> {
        match (desired, current) {
            (Some(desired), current) => self.object(part, desired, current),
            (None, Some(current)) => {
                self.delete(part, current, "the topology no longer defines a health check");
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    /// Creates an object, or adopts an existing object of the same name without another owner (RS-13, DEC-36).
    fn create(&mut self, part: TopologyPart, sent: Object, origins: &Origins) -> Result<(), Failure> {
        let object = sent.reference();
        let is_same =
            |other: &ObjectRef| (other.group(), &other.kind, &other.key) == (object.group(), &object.kind, &object.key);
        if let Some(unavailable) = self.unavailable.iter().find(|one| is_same(one.object())) {
            return Err(unavailable.clone().into());
        }
        let difference = ObjectDifference::none();
        let reason = "it does not exist yet".to_owned();
        self.write(StepAction::Create, PlannedWrite { part, sent, origins, difference, reason });
        Ok(())
    }

    /// Changes an object in place. The API server rejects the write if `current` has changed meanwhile (SSA-24).
    fn update(&mut self, write: PlannedWrite<'_>, current: &Arc<Object>) {
        self.write(StepAction::Apply, write);
        if let Some(step) = self.steps.last_mut() {
            step.current = (!self.comparison.world.is_offline()).then(|| current.clone());
        }
    }

    fn write(&mut self, action: StepAction, write: PlannedWrite<'_>) {
        let PlannedWrite { part, sent, origins, difference, reason } = write;
        self.steps.push(PlanStep {
            action,
            part,
            object: sent.reference(),
            uid: uid_of(&sent),
            current: None,
            replaces: None,
            applied: Some(Arc::new(sent)),
            origins: Arc::new(origins.clone()),
            changes: difference.changes,
            reason,
            certainty: difference.certainty,
        });
    }

    fn delete(&mut self, part: TopologyPart, object: &Object, reason: &str) {
        self.steps.push(PlanStep {
            action: StepAction::Delete,
            part,
            object: object.reference(),
            uid: uid_of(object),
            current: None,
            replaces: None,
            applied: None,
            origins: Arc::default(),
            changes: Vec::new(),
            reason: reason.to_owned(),
            certainty: Certainty::Exact,
        });
    }
}

/// The write of an object.
struct PlannedWrite<'o> {
    part: TopologyPart,
    sent: Object,
    origins: &'o Origins,
    difference: ObjectDifference,
    reason: String,
}

/// A change that the engine makes by itself.
fn engine_change(path: String, from: Option<Value>, to: Option<Value>) -> ChangedField {
    ChangedField { path, from, to, because: Some(Origin::Topology), was: None, is_sensitive: false }
}

/// Name, group, kind and namespace of an object never change (RS-25).
fn check_identity(current: &Object, desired: &Object) -> Result<(), Failure> {
    let identity = |object: &Object| (object.group().to_owned(), object.kind().to_owned(), object.key());
    match identity(current) == identity(desired) {
        true => Ok(()),
        false => {
            Err(Failure::Incompatible { current: current.reference().into(), desired: desired.reference().into() })
        }
    }
}

/// Sets the uid of an updated object, so that a deleted object is not created again (SSA-05).
fn keep_uid(sent: &mut Object, current: &Object) -> Result<(), Failure> {
    if !current.uid().is_empty() {
        sent.set(paths::metadata::UID, json!(current.uid()))?;
    }
    Ok(())
}

fn uid_of(object: &Object) -> Option<String> {
    Some(object.uid().to_owned()).filter(|uid| !uid.is_empty())
}

/// The prefix of the names of templates (NAM-06).
fn template_prefix(cluster: &str, part: &TopologyPart) -> String {
    match part {
        TopologyPart::Bootstrap(_, name) | TopologyPart::WorkerInfrastructure(_, name) => format!("{cluster}-{name}-"),
        _ => format!("{cluster}-"),
    }
}

fn update_reason(difference: &ObjectDifference) -> String {
    match difference.changes.len() {
        0 => "its managedFields need repair".to_owned(),
        1 => "a field changes".to_owned(),
        many => format!("{many} fields change"),
    }
}
