//! Deletion order of the objects of a Cluster (MA-27.15).

use std::sync::Arc;

use core::time::Duration;

use super::context::{ClusterContext, ReferencedObject};
use crate::lifecycle::conditions::DELETION_COMPLETED;
use crate::lifecycle::fields::is_to;
use crate::lifecycle::step::Reconciliation;
use model::hub::{Object, annotation};

/// Requeue interval while workers are being deleted.
const WORKERS: Duration = Duration::from_secs(5);
/// Maximum number of names in a message.
const SHOWN: usize = 5;

/// Stage of a deletion: reason and message of the condition `Deleting`.
pub(super) struct DeletionStage {
    pub reason: &'static str,
    pub message: String,
}

impl DeletionStage {
    /// Whether everything that must be deleted before the Cluster is gone.
    pub(super) fn is_over(&self) -> bool {
        self.reason == DELETION_COMPLETED
    }
}

/// Deletes the objects whose turn it is, and returns what the deletion waits for.
pub(super) fn delete_next(ctx: &ClusterContext<'_>, step: &mut Reconciliation) -> DeletionStage {
    if waits_for_hook(ctx) {
        let message = "Waiting for the extensions of the hook BeforeClusterDelete".to_owned();
        return DeletionStage { reason: "WaitingForBeforeDeleteHook", message };
    }
    let workers = ClusterWorkers::new(ctx);
    workers.delete_owned(ctx, step);
    if let Some(message) = workers.names() {
        step.requeue_after(WORKERS);
        return DeletionStage { reason: "WaitingForWorkersDeletion", message };
    }
    let parts = [
        (&ctx.control_plane, "WaitingForControlPlaneDeletion"),
        (&ctx.infrastructure, "WaitingForInfrastructureDeletion"),
    ];
    for (part, reason) in parts {
        if let Some(message) = delete(part, step) {
            return DeletionStage { reason, message };
        }
    }
    DeletionStage { reason: DELETION_COMPLETED, message: "Deletion completed".to_owned() }
}

/// Whether an extension may block the deletion.
fn waits_for_hook(ctx: &ClusterContext<'_>) -> bool {
    let has_hooks = ctx.has_topology && ctx.context.settings.runtime_hooks;
    has_hooks && ctx.cluster.annotation(annotation::OK_TO_DELETE).is_none()
}

/// Deletes a referenced object; returns a message while it exists.
fn delete(part: &ReferencedObject, step: &mut Reconciliation) -> Option<String> {
    let found = part.found.as_ref()?;
    if !found.is_being_deleted() {
        step.event("Deleting", format!("Deleting {} {}", found.kind(), found.name()));
    }
    step.delete(found);
    Some(format!("Waiting for {} {} to be deleted", found.kind(), found.name()))
}

/// Objects that are deleted before the control plane, in deletion order.
struct ClusterWorkers<'a>([(&'static str, &'a [Arc<Object>]); 5]);

impl<'a> ClusterWorkers<'a> {
    fn new(ctx: &'a ClusterContext<'_>) -> Self {
        // A control plane object deletes its machines itself.
        let machines = if ctx.control_plane.is_set() { &[] } else { &*ctx.control_plane_machines };
        ClusterWorkers([
            ("MachinePools", &ctx.pools),
            ("MachineDeployments", &ctx.deployments),
            ("MachineSets", &ctx.sets),
            ("worker Machines", &ctx.worker_machines),
            ("control plane Machines", machines),
        ])
    }

    /// Deletes the objects owned by the Cluster; their owners delete the others.
    fn delete_owned(&self, ctx: &ClusterContext<'_>, step: &mut Reconciliation) {
        let is_owned = |object: &&Arc<Object>| object.owner_references().iter().any(|owner| is_to(owner, ctx.cluster));
        let owned = self.0.iter().flat_map(|(_, objects)| objects.iter()).filter(is_owned);
        for object in owned.filter(|object| !object.is_being_deleted()) {
            step.event("Deleting", format!("Deleting {} {}", object.kind(), object.name()));
            step.delete(object);
        }
    }

    /// The remaining objects by kind; `None` if there are none.
    fn names(&self) -> Option<String> {
        let lines = self.0.iter().filter(|(_, objects)| !objects.is_empty()).map(|(kind, objects)| {
            let names: Vec<&str> = objects.iter().take(SHOWN).map(|object| object.name()).collect();
            let more = match objects.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!(", ... ({more} more)"),
            };
            format!("* Waiting for {kind} to be deleted: {}{more}", names.join(", "))
        });
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::*;
    use super::*;
    use crate::lifecycle::fields::{owner, set};
    use crate::lifecycle::objects::{GroupKind, ObjectId};
    use crate::lifecycle::simulator::MachineSimulator;
    use crate::lifecycle::testing::{CLUSTER, core};

    /// An object with a finalizer, which the test removes to let the object go.
    fn held(mut object: Object, cluster: Option<&Object>, labels: &Value) -> Object {
        set(&mut object, "metadata.finalizers", json!(["test"]));
        if let Some(cluster) = cluster {
            set(&mut object, "metadata.ownerReferences", json!([owner(cluster, false)]));
        }
        if !labels.is_null() {
            set(&mut object, "metadata.labels", labels.clone());
        }
        object
    }

    fn worker(kind: &str, name: &str, cluster: Option<&Object>) -> Object {
        held(core(kind, name, json!({"clusterName": CLUSTER})), cluster, &Value::Null)
    }

    fn control_plane_machine(name: &str, cluster: Option<&Object>) -> Object {
        let labels = json!({"cluster.x-k8s.io/cluster-name": CLUSTER, "cluster.x-k8s.io/control-plane": ""});
        held(core("Machine", name, json!({"clusterName": CLUSTER})), cluster, &labels)
    }

    /// Removes the finalizers of an object that is being deleted.
    fn let_go(simulator: &mut MachineSimulator, object: &Object) {
        simulator.edit(object, |object| set(object, "metadata.finalizers", Value::Null));
        simulator.settle(100);
    }

    fn deleted(simulator: &MachineSimulator, of: &GroupKind) -> Vec<String> {
        let all = simulator.all(of).into_iter().filter(|object| object.is_being_deleted());
        all.map(|object| object.name().to_owned()).collect()
    }

    fn stage(simulator: &mut MachineSimulator) -> String {
        condition(&settled(simulator), "Deleting").1
    }

    #[test]
    fn workers_go_first_then_the_control_plane_then_the_infrastructure() {
        // MA-27.15, MA-27.10, MA-27.13, CT-10.20
        let mut simulator = cluster(references());
        let made = simulator.core("Cluster", CLUSTER);
        let infra = simulator.make(held(GOOD_INFRA(), None, &Value::Null));
        let control_plane = simulator.make(held(GOOD_CONTROL_PLANE(), None, &Value::Null));
        let mine = ["MachinePool", "MachineDeployment", "MachineSet", "Machine"].map(|kind| {
            simulator.make(worker(kind, "theirs", None));
            simulator.make(worker(kind, "mine", Some(&made)))
        });
        simulator.make(control_plane_machine("cp", Some(&made)));
        simulator.delete(&ObjectId::for_object(&made));
        assert_eq!(stage(&mut simulator), "WaitingForWorkersDeletion");
        for object in mine {
            assert_eq!(
                deleted(&simulator, &GroupKind::for_object(&object)),
                ["mine"],
                "only what the Cluster owns itself"
            );
            let_go(&mut simulator, &object);
        }
        for kind in ["MachinePool", "MachineDeployment", "MachineSet", "Machine"] {
            assert_eq!(stage(&mut simulator), "WaitingForWorkersDeletion", "{kind} of another owner");
            let theirs = simulator.core(kind, "theirs");
            let_go(&mut simulator, &theirs);
            simulator.delete(&ObjectId::for_object(&theirs));
        }
        assert_eq!(stage(&mut simulator), "WaitingForControlPlaneDeletion");
        assert_eq!(deleted(&simulator, &GroupKind::for_object(&infra)), [""; 0]);
        let_go(&mut simulator, &control_plane);
        assert_eq!(stage(&mut simulator), "WaitingForInfrastructureDeletion");
        let cluster = simulator.core("Cluster", CLUSTER);
        assert_eq!(condition(&cluster, "ControlPlaneAvailable"), no("ObjectDeleted"));
        assert_eq!(condition(&cluster, "Available"), no("NotAvailable"));
        let_go(&mut simulator, &infra);
        assert!(simulator.find(&GroupKind::core("Cluster"), CLUSTER).is_none());
        assert!(simulator.events.iter().any(|(_, _, event)| event.reason == "DeletionCompleted"));
    }

    #[test]
    fn machines_of_a_control_plane_without_an_object_go_with_the_workers() {
        // MA-27.15
        let mut simulator = cluster(json!({}));
        let made = simulator.core("Cluster", CLUSTER);
        let machine = simulator.make(control_plane_machine("cp", Some(&made)));
        simulator.delete(&ObjectId::for_object(&made));
        assert_eq!(stage(&mut simulator), "WaitingForWorkersDeletion");
        assert_eq!(deleted(&simulator, &GroupKind::for_object(&machine)), ["cp"]);
        let_go(&mut simulator, &machine);
        assert!(simulator.find(&GroupKind::core("Cluster"), CLUSTER).is_none());
    }

    #[test]
    fn the_completion_is_in_the_status_before_the_finalizer_goes() {
        // MA-27.15
        let mut simulator = cluster(json!({}));
        let made = simulator.core("Cluster", CLUSTER);
        simulator.edit(&made, |cluster| set(cluster, "metadata.finalizers", json!([super::super::FINALIZER, "other"])));
        simulator.delete(&ObjectId::for_object(&made));
        assert_eq!(stage(&mut simulator), "DeletionCompleted");
        let left = simulator.core("Cluster", CLUSTER);
        assert_eq!(left.at("metadata.finalizers"), Some(&json!(["other"])));
        assert_eq!(left.at("status.phase"), Some(&json!("Deleting")));
    }

    #[test]
    fn extensions_are_waited_for_with_a_topology_and_hooks() {
        // MA-27.15
        let topology = json!({"topology": {"classRef": {"name": "k"}}});
        for (hooks, spec, agreed, waits) in [
            (true, topology.clone(), false, true),
            (true, topology.clone(), true, false),
            (false, topology, false, false),
            (true, json!({}), false, false),
        ] {
            let mut simulator = alone();
            simulator.settings.runtime_hooks = hooks;
            simulator.make(core("ClusterClass", "k", json!({})));
            let mut cluster = core("Cluster", CLUSTER, spec.clone());
            if agreed {
                set(&mut cluster, "metadata.annotations", json!({annotation::OK_TO_DELETE: ""}));
            }
            let made = simulator.make(cluster);
            simulator.settle(50);
            let set = simulator.make(worker("MachineSet", "s", Some(&made)));
            simulator.delete(&ObjectId::for_object(&made));
            let want = if waits { "WaitingForBeforeDeleteHook" } else { "WaitingForWorkersDeletion" };
            assert_eq!(stage(&mut simulator), want, "{hooks} {spec} {agreed}");
            assert_eq!(deleted(&simulator, &GroupKind::for_object(&set)).is_empty(), waits);
        }
    }

    #[test]
    fn objects_that_never_came_do_not_hold_a_deletion() {
        // MA-27.15, MA-27.3
        let mut simulator = cluster(references());
        let made = simulator.core("Cluster", CLUSTER);
        simulator.delete(&ObjectId::for_object(&made));
        simulator.settle(50);
        assert!(simulator.find(&GroupKind::core("Cluster"), CLUSTER).is_none());
    }
}
