//! Machine counters of a Cluster (MA-27.14).

use std::sync::Arc;

use serde_json::{Value, json};

use super::context::ClusterContext;
use crate::lifecycle::conditions::is_true;
use crate::lifecycle::context::StepError;
use crate::lifecycle::digest::digest;
use crate::lifecycle::fields::{number, set};
use model::hub::contract::Contract;
use model::hub::{Object, paths};

/// Names of the counters in the status of the Cluster.
const NAMES: [&str; 5] = ["desiredReplicas", "replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"];
/// Paths of the counters of workers.
const OF_WORKERS: [&str; 5] = [
    paths::REPLICAS,
    paths::status::REPLICAS,
    paths::status::READY_REPLICAS,
    paths::status::AVAILABLE_REPLICAS,
    paths::status::UP_TO_DATE_REPLICAS,
];

/// A number for each name; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters([Option<i64>; 5]);

impl Counters {
    fn read(object: &Object, paths: [&str; 5]) -> Self {
        Counters(paths.map(|path| number(object, path)))
    }

    /// Counts single machines.
    fn count_machines<'m>(machines: impl Iterator<Item = &'m Arc<Object>>) -> Self {
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

    /// Writes the counters below a path, and keeps other members (the upgrade plan of the topology).
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
pub(super) fn write(ctx: &ClusterContext<'_>, after: &mut Object) -> Result<(), StepError> {
    of_workers(ctx).write(after, paths::cluster::STATUS_WORKERS);
    of_control_plane(ctx)?.write(after, paths::cluster::STATUS_CONTROL_PLANE);
    Ok(())
}

/// The counters of the control plane object, or of its machines if there is no such object.
fn of_control_plane(ctx: &ClusterContext<'_>) -> Result<Counters, StepError> {
    if !ctx.control_plane.is_set() {
        return Ok(Counters::count_machines(ctx.control_plane_machines.iter()));
    }
    let Some(object) = &ctx.control_plane.found else { return Ok(Counters::default()) };
    let [desired, replicas, ready, _, _] = OF_WORKERS;
    let desired = object.integer(desired)?;
    let (available, up_to_date) = match ctx.context.contract(object) {
        Contract::V1Beta2 => (object.integer(paths::status::AVAILABLE_REPLICAS)?, paths::status::UP_TO_DATE_REPLICAS),
        Contract::V1Beta1 => {
            let unavailable = object.integer(paths::control_plane::UNAVAILABLE_REPLICAS)?.unwrap_or_default();
            (desired.map(|desired| (desired - unavailable).max(0)), paths::control_plane::UPDATED_REPLICAS)
        }
    };
    Ok(Counters([desired, object.integer(replicas)?, object.integer(ready)?, available, object.integer(up_to_date)?]))
}

/// The counters of pools, deployments, stand-alone sets and stand-alone machines.
fn of_workers(ctx: &ClusterContext<'_>) -> Counters {
    let groups = ctx.pools.iter().chain(&ctx.deployments).chain(ctx.stand_alone_sets());
    let groups = groups.fold(Counters::default(), |sum, group| sum.plus(Counters::read(group, OF_WORKERS)));
    groups.plus(Counters::count_machines(
        ctx.worker_machines.iter().filter(|machine| digest(machine).controller_uid(machine).is_none()),
    ))
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
        let mut simulator = cluster(json!({}));
        let owned_by = |owner: &Object| {
            json!([{
                "apiVersion": owner.api_version(), "kind": owner.kind(), "name": owner.name(), "uid": owner.uid(),
                "controller": true,
            }])
        };
        let cluster = simulator.core("Cluster", CLUSTER);
        simulator.make(group("MachinePool", "p", 1, &Value::Null));
        let deployment = simulator.make(group("MachineDeployment", "d", 10, &Value::Null));
        let set = simulator.make(group("MachineSet", "owned", 100, &owned_by(&deployment)));
        simulator.make(group("MachineSet", "alone", 1000, &owned_by(&cluster)));
        simulator.make(machine("owned", &Value::Null, &owned_by(&set)));
        simulator.make(machine("alone", &Value::Null, &Value::Null));
        simulator.make(machine("cp", &json!(""), &Value::Null));
        let cluster = settled(&mut simulator);
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
        let mut simulator = cluster(references());
        let counted = json!({"replicas": 3, "readyReplicas": 2, "availableReplicas": 1, "upToDateReplicas": 0});
        let made = simulator.make(control_plane(json!({"replicas": 3}), counted));
        simulator.edit(&simulator.core("Cluster", CLUSTER), |cluster| {
            set(cluster, "status.controlPlane", json!({"upgradePlan": [{"version": "v1.35.0"}]}));
            set(cluster, "status.workers", json!({"upgradePlan": []}));
        });
        let want = json!({
            "desiredReplicas": 3, "replicas": 3, "readyReplicas": 2, "availableReplicas": 1, "upToDateReplicas": 0,
            "upgradePlan": [{"version": "v1.35.0"}],
        });
        let cluster = settled(&mut simulator);
        assert_eq!(cluster.at("status.controlPlane"), Some(&want));
        assert_eq!(cluster.at("status.workers"), Some(&json!({"upgradePlan": []})));
        simulator.delete(&crate::lifecycle::ObjectId::for_object(&made));
        let left = json!({"upgradePlan": [{"version": "v1.35.0"}]});
        assert_eq!(settled(&mut simulator).at("status.controlPlane"), Some(&left));
    }
}
