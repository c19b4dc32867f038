//! The order in which what belongs to a Cluster is deleted (MA-27.15).

use std::sync::Arc;

use core::time::Duration;

use super::scene::{Referenced, Scene};
use crate::lifecycle::fields::{is_to, owners};
use crate::lifecycle::step::Step;
use model::hub::{Object, annotation};

/// How soon workers that are being deleted are looked at again.
const WORKERS: Duration = Duration::from_secs(5);
/// How many names a message has.
const SHOWN: usize = 5;

/// How far the deletion is: reason and message of the condition `Deleting`.
pub(super) struct Stage {
    pub reason: &'static str,
    pub message: String,
}

impl Stage {
    /// Whether nothing is left that has to go before the Cluster.
    pub(super) fn is_over(&self) -> bool {
        self.reason == COMPLETED
    }
}

const COMPLETED: &str = "DeletionCompleted";

/// Deletes what may go now, and says what the deletion waits for.
pub(super) fn go_on(scene: &Scene<'_>, step: &mut Step) -> Stage {
    if waits_for_hook(scene) {
        let message = "Waiting for the extensions of the hook BeforeClusterDelete".to_owned();
        return Stage { reason: "WaitingForBeforeDeleteHook", message };
    }
    let workers = Workers::of(scene);
    workers.delete_owned(scene, step);
    if let Some(message) = workers.names() {
        step.look_again(WORKERS);
        return Stage { reason: "WaitingForWorkersDeletion", message };
    }
    let parts = [
        (&scene.control_plane, "WaitingForControlPlaneDeletion"),
        (&scene.infrastructure, "WaitingForInfrastructureDeletion"),
    ];
    for (part, reason) in parts {
        if let Some(message) = delete(part, step) {
            return Stage { reason, message };
        }
    }
    Stage { reason: COMPLETED, message: "Deletion completed".to_owned() }
}

/// Whether an extension may still have something to do before anything is deleted.
fn waits_for_hook(scene: &Scene<'_>) -> bool {
    let has_hooks = scene.has_topology && scene.context.settings.runtime_hooks;
    has_hooks && scene.cluster.annotation(annotation::OK_TO_DELETE).is_none()
}

/// Deletes the object of a reference; says so while it is there.
fn delete(part: &Referenced, step: &mut Step) -> Option<String> {
    let found = part.found.as_ref()?;
    if !found.is_being_deleted() {
        step.tell("Deleting", format!("Deleting {} {}", found.kind(), found.name()));
    }
    step.delete(found);
    Some(format!("Waiting for {} {} to be deleted", found.kind(), found.name()))
}

/// What goes before the control plane, in the order in which it is deleted.
struct Workers<'a>([(&'static str, &'a [Arc<Object>]); 5]);

impl<'a> Workers<'a> {
    fn of(scene: &'a Scene<'_>) -> Self {
        // A control plane object deletes its machines itself.
        let machines = if scene.control_plane.is_set() { &[] } else { &*scene.control_plane_machines };
        Workers([
            ("MachinePools", &scene.pools),
            ("MachineDeployments", &scene.deployments),
            ("MachineSets", &scene.sets),
            ("worker Machines", &scene.worker_machines),
            ("control plane Machines", machines),
        ])
    }

    /// Deletes those that the Cluster owns itself; their owners delete the others.
    fn delete_owned(&self, scene: &Scene<'_>, step: &mut Step) {
        let is_owned = |object: &&Arc<Object>| owners(object).iter().any(|owner| is_to(owner, scene.cluster));
        let owned = self.0.iter().flat_map(|(_, objects)| objects.iter()).filter(is_owned);
        for object in owned.filter(|object| !object.is_being_deleted()) {
            step.tell("Deleting", format!("Deleting {} {}", object.kind(), object.name()));
            step.delete(object);
        }
    }

    /// Those that are there, by kind; nothing when none is.
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
    use crate::lifecycle::fold::Fold;
    use crate::lifecycle::objects::{GroupKind, ObjectId};
    use crate::lifecycle::testing::{CLUSTER, core};

    /// An object with a finalizer, which the test takes away when the object may go.
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

    /// Lets an object go that is being deleted.
    fn let_go(fold: &mut Fold, object: &Object) {
        fold.edit(object, |object| set(object, "metadata.finalizers", Value::Null));
        fold.settle(100);
    }

    fn deleted(fold: &Fold, of: &GroupKind) -> Vec<String> {
        let all = fold.all(of).into_iter().filter(|object| object.is_being_deleted());
        all.map(|object| object.name().to_owned()).collect()
    }

    fn stage(fold: &mut Fold) -> String {
        condition(&settled(fold), "Deleting").1
    }

    #[test]
    fn workers_go_first_then_the_control_plane_then_the_infrastructure() {
        // MA-27.15, MA-27.10, MA-27.13, CT-10.20
        let mut fold = cluster(references());
        let made = fold.core("Cluster", CLUSTER);
        let infra = fold.make(held(GOOD_INFRA(), None, &Value::Null));
        let control_plane = fold.make(held(GOOD_CONTROL_PLANE(), None, &Value::Null));
        let mine = ["MachinePool", "MachineDeployment", "MachineSet", "Machine"].map(|kind| {
            fold.make(worker(kind, "theirs", None));
            fold.make(worker(kind, "mine", Some(&made)))
        });
        fold.make(control_plane_machine("cp", Some(&made)));
        fold.delete(&ObjectId::of(&made));
        assert_eq!(stage(&mut fold), "WaitingForWorkersDeletion");
        for object in mine {
            assert_eq!(deleted(&fold, &GroupKind::of(&object)), ["mine"], "only what the Cluster owns itself");
            let_go(&mut fold, &object);
        }
        for kind in ["MachinePool", "MachineDeployment", "MachineSet", "Machine"] {
            assert_eq!(stage(&mut fold), "WaitingForWorkersDeletion", "{kind} of another owner");
            let theirs = fold.core(kind, "theirs");
            let_go(&mut fold, &theirs);
            fold.delete(&ObjectId::of(&theirs));
        }
        assert_eq!(stage(&mut fold), "WaitingForControlPlaneDeletion");
        assert_eq!(deleted(&fold, &GroupKind::of(&infra)), [""; 0]);
        let_go(&mut fold, &control_plane);
        assert_eq!(stage(&mut fold), "WaitingForInfrastructureDeletion");
        let cluster = fold.core("Cluster", CLUSTER);
        assert_eq!(condition(&cluster, "ControlPlaneAvailable"), no("ObjectDeleted"));
        assert_eq!(condition(&cluster, "Available"), no("NotAvailable"));
        let_go(&mut fold, &infra);
        assert!(fold.find(&GroupKind::core("Cluster"), CLUSTER).is_none());
        assert!(fold.events.iter().any(|(_, _, event)| event.reason == "DeletionCompleted"));
    }

    #[test]
    fn machines_of_a_control_plane_without_an_object_go_with_the_workers() {
        // MA-27.15
        let mut fold = cluster(json!({}));
        let made = fold.core("Cluster", CLUSTER);
        let machine = fold.make(control_plane_machine("cp", Some(&made)));
        fold.delete(&ObjectId::of(&made));
        assert_eq!(stage(&mut fold), "WaitingForWorkersDeletion");
        assert_eq!(deleted(&fold, &GroupKind::of(&machine)), ["cp"]);
        let_go(&mut fold, &machine);
        assert!(fold.find(&GroupKind::core("Cluster"), CLUSTER).is_none());
    }

    #[test]
    fn the_completion_is_in_the_status_before_the_finalizer_goes() {
        // MA-27.15
        let mut fold = cluster(json!({}));
        let made = fold.core("Cluster", CLUSTER);
        fold.edit(&made, |cluster| set(cluster, "metadata.finalizers", json!([super::super::FINALIZER, "other"])));
        fold.delete(&ObjectId::of(&made));
        assert_eq!(stage(&mut fold), "DeletionCompleted");
        let left = fold.core("Cluster", CLUSTER);
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
            let mut fold = alone();
            fold.settings.runtime_hooks = hooks;
            fold.make(core("ClusterClass", "k", json!({})));
            let mut cluster = core("Cluster", CLUSTER, spec.clone());
            if agreed {
                set(&mut cluster, "metadata.annotations", json!({annotation::OK_TO_DELETE: ""}));
            }
            let made = fold.make(cluster);
            fold.settle(50);
            let set = fold.make(worker("MachineSet", "s", Some(&made)));
            fold.delete(&ObjectId::of(&made));
            let want = if waits { "WaitingForBeforeDeleteHook" } else { "WaitingForWorkersDeletion" };
            assert_eq!(stage(&mut fold), want, "{hooks} {spec} {agreed}");
            assert_eq!(deleted(&fold, &GroupKind::of(&set)).is_empty(), waits);
        }
    }

    #[test]
    fn objects_that_never_came_do_not_hold_a_deletion() {
        // MA-27.15, MA-27.3
        let mut fold = cluster(references());
        let made = fold.core("Cluster", CLUSTER);
        fold.delete(&ObjectId::of(&made));
        fold.settle(50);
        assert!(fold.find(&GroupKind::core("Cluster"), CLUSTER).is_none());
    }
}
