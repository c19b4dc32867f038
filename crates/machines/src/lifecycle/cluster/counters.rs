//! How many machines a Cluster has, and how many of them are as they should be (MA-27.14).

use std::sync::Arc;

use serde_json::{Value, json};

use super::scene::Scene;
use crate::lifecycle::conditions::is_true;
use crate::lifecycle::context::Fault;
use crate::lifecycle::fields::{controller, number, set};
use model::hub::Object;
use model::hub::contract::Contract;

/// The counters in the status of the Cluster.
const NAMES: [&str; 5] = ["desiredReplicas", "replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"];
/// Where workers have theirs.
const OF_WORKERS: [&str; 5] =
    ["spec.replicas", "status.replicas", "status.readyReplicas", "status.availableReplicas", "status.upToDateReplicas"];

/// A number for each name; `None` where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters([Option<i64>; 5]);

impl Counters {
    fn read(object: &Object, paths: [&str; 5]) -> Self {
        Counters(paths.map(|path| number(object, path)))
    }

    /// Of machines, one by one.
    fn of_machines<'m>(machines: impl Iterator<Item = &'m Arc<Object>>) -> Self {
        machines.fold(Counters::default(), |sum, machine| {
            let counts = |name: &str| Some(i64::from(is_true(machine, name)));
            sum.plus(Counters([Some(1), Some(1), counts("Ready"), counts("Available"), counts("UpToDate")]))
        })
    }

    fn plus(self, other: Counters) -> Self {
        let mut sum = self.0;
        for (known, more) in sum.iter_mut().zip(other.0) {
            *known = match (*known, more) {
                (None, None) => None,
                (known, more) => Some(known.unwrap_or_default() + more.unwrap_or_default()),
            };
        }
        Counters(sum)
    }

    /// Writes the counters below a path, and leaves what else is there alone (the upgrade plan of the topology).
    fn write(self, after: &mut Object, path: &str) {
        for (name, number) in NAMES.into_iter().zip(self.0) {
            let path = format!("{path}.{name}");
            if number.is_some() || after.at(&path).is_some() {
                set(after, &path, number.map_or(Value::Null, |number| json!(number)));
            }
        }
        if after.at(path).and_then(Value::as_object).is_some_and(serde_json::Map::is_empty) {
            after.remove(path);
        }
    }
}

/// Writes `status.controlPlane` and `status.workers`.
///
/// # Errors
/// When a counter of the control plane is not a number.
pub(super) fn write(scene: &Scene<'_>, after: &mut Object) -> Result<(), Fault> {
    of_workers(scene).write(after, "status.workers");
    of_control_plane(scene)?.write(after, "status.controlPlane");
    Ok(())
}

/// What the control plane reports, or its machines where there is no such object.
fn of_control_plane(scene: &Scene<'_>) -> Result<Counters, Fault> {
    if !scene.control_plane.is_set() {
        return Ok(Counters::of_machines(scene.control_plane_machines.iter()));
    }
    let Some(object) = &scene.control_plane.found else { return Ok(Counters::default()) };
    let [desired, replicas, ready, _, _] = OF_WORKERS;
    let desired = object.integer(desired)?;
    let (available, up_to_date) = match scene.context.contract(object) {
        Contract::V1Beta2 => (object.integer("status.availableReplicas")?, "status.upToDateReplicas"),
        Contract::V1Beta1 => {
            let unavailable = object.integer("status.unavailableReplicas")?.unwrap_or_default();
            (desired.map(|desired| (desired - unavailable).max(0)), "status.updatedReplicas")
        }
    };
    Ok(Counters([desired, object.integer(replicas)?, object.integer(ready)?, available, object.integer(up_to_date)?]))
}

/// Pools, deployments, and sets and machines that belong to none of them.
fn of_workers(scene: &Scene<'_>) -> Counters {
    let groups = scene.pools.iter().chain(&scene.deployments).chain(scene.stand_alone_sets());
    let groups = groups.fold(Counters::default(), |sum, group| sum.plus(Counters::read(group, OF_WORKERS)));
    groups.plus(Counters::of_machines(scene.worker_machines.iter().filter(|machine| controller(machine).is_none())))
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::lifecycle::testing::{CLUSTER, core};

    fn group(kind: &str, name: &str, replicas: u32, owner: &Value) -> Object {
        let object = core(kind, name, json!({"clusterName": CLUSTER, "replicas": replicas}));
        let counted = json!({"replicas": 2, "readyReplicas": 1, "availableReplicas": 1, "upToDateReplicas": 2});
        with(with_status(object, counted), "metadata.ownerReferences", owner.clone())
    }

    fn machine(name: &str, role: &Value, owner: &Value) -> Object {
        let machine = core("Machine", name, json!({"clusterName": CLUSTER}));
        let machine = with_status(machine, conditions(&[("Ready", "True"), ("UpToDate", "True")]));
        let mut labels = json!({"cluster.x-k8s.io/cluster-name": CLUSTER});
        if !role.is_null() {
            labels["cluster.x-k8s.io/control-plane"] = role.clone();
        }
        with(with(machine, "metadata.labels", labels), "metadata.ownerReferences", owner.clone())
    }

    #[test]
    fn machines_are_counted_once() {
        // MA-27.14
        let mut fold = cluster(json!({}));
        let owned_by = |owner: &Object| {
            json!([{
                "apiVersion": owner.api_version(), "kind": owner.kind(), "name": owner.name(), "uid": owner.uid(),
                "controller": true,
            }])
        };
        let cluster = fold.core("Cluster", CLUSTER);
        fold.make(group("MachinePool", "p", 1, &Value::Null));
        let deployment = fold.make(group("MachineDeployment", "d", 10, &Value::Null));
        let set = fold.make(group("MachineSet", "owned", 100, &owned_by(&deployment)));
        fold.make(group("MachineSet", "alone", 1000, &owned_by(&cluster)));
        fold.make(machine("owned", &Value::Null, &owned_by(&set)));
        fold.make(machine("alone", &Value::Null, &Value::Null));
        fold.make(machine("cp", &json!(""), &Value::Null));
        let cluster = settled(&mut fold);
        let want = json!({
            "desiredReplicas": 1012, "replicas": 7, "readyReplicas": 4, "availableReplicas": 3, "upToDateReplicas": 7,
        });
        assert_eq!(cluster.at("status.workers"), Some(&want));
        let want = json!({
            "desiredReplicas": 1, "replicas": 1, "readyReplicas": 1, "availableReplicas": 0, "upToDateReplicas": 1,
        });
        assert_eq!(cluster.at("status.controlPlane"), Some(&want));
    }

    #[test]
    fn counters_of_the_control_plane_go_with_it_and_upgrade_plans_stay() {
        // MA-27.14
        let mut fold = cluster(references());
        let counted = json!({"replicas": 3, "readyReplicas": 2, "availableReplicas": 1, "upToDateReplicas": 0});
        let made = fold.make(control_plane(json!({"replicas": 3}), counted));
        fold.edit(&fold.core("Cluster", CLUSTER), |cluster| {
            set(cluster, "status.controlPlane", json!({"upgradePlan": [{"version": "v1.35.0"}]}));
            set(cluster, "status.workers", json!({"upgradePlan": []}));
        });
        let want = json!({
            "desiredReplicas": 3, "replicas": 3, "readyReplicas": 2, "availableReplicas": 1, "upToDateReplicas": 0,
            "upgradePlan": [{"version": "v1.35.0"}],
        });
        let cluster = settled(&mut fold);
        assert_eq!(cluster.at("status.controlPlane"), Some(&want));
        assert_eq!(cluster.at("status.workers"), Some(&json!({"upgradePlan": []})));
        fold.delete(&crate::lifecycle::ObjectId::of(&made));
        let left = json!({"upgradePlan": [{"version": "v1.35.0"}]});
        assert_eq!(settled(&mut fold).at("status.controlPlane"), Some(&left));
    }
}
