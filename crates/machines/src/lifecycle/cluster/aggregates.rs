//! Conditions of a Cluster that aggregate those of many objects (MA-27.11).

use std::sync::Arc;

use core::time::Duration;

use serde_json::{Value, json};

use super::context::ClusterContext;
use crate::lifecycle::conditions::{ConditionState, Fallback, Reasons, aggregate, is_false, mirror, put, status};
use crate::lifecycle::fields::{created, remaining};
use crate::lifecycle::step::Reconciliation;
use model::hub::{Object, paths};

/// Maximum age of a machine without the condition `UpToDate`.
const YOUNG: Duration = Duration::from_secs(10);

/// Writes all aggregated conditions.
pub(super) fn write(ctx: &ClusterContext<'_>, after: &mut Object, step: &mut Reconciliation) {
    let now = ctx.context.now;
    put(after, "WorkersAvailable", &workers_available(ctx), now);
    for (ready, up_to_date, machines) in [
        ("ControlPlaneMachinesReady", "ControlPlaneMachinesUpToDate", &ctx.control_plane_machines),
        ("WorkerMachinesReady", "WorkerMachinesUpToDate", &ctx.worker_machines),
    ] {
        put(after, ready, &of_machines(refs(machines), "Ready", ["NotReady", "ReadyUnknown", "Ready"]), now);
        let grown = machines.iter().filter(|machine| counts(ctx, machine, step)).map(|machine| &**machine);
        let reasons = ["NotUpToDate", "UpToDateUnknown", "UpToDate"];
        put(after, up_to_date, &of_machines(grown, "UpToDate", reasons), now);
    }
    put(after, "RollingOut", &progress(ctx, "RollingOut", ["RollingOut", "RollingOutUnknown", "NotRollingOut"]), now);
    put(after, "ScalingUp", &progress(ctx, "ScalingUp", ["ScalingUp", "ScalingUpUnknown", "NotScalingUp"]), now);
    let reasons = ["ScalingDown", "ScalingDownUnknown", "NotScalingDown"];
    put(after, "ScalingDown", &progress(ctx, "ScalingDown", reasons), now);
    put(after, "Remediating", &remediating(ctx), now);
}

fn refs(objects: &[Arc<Object>]) -> impl Iterator<Item = &Object> {
    objects.iter().map(|object| &**object)
}

/// Whether workers are available: deployments, and pools that report it.
fn workers_available(ctx: &ClusterContext<'_>) -> ConditionState {
    let pools = refs(&ctx.pools).filter(|pool| status(pool, "Available").is_some());
    let mut workers = refs(&ctx.deployments).chain(pools).peekable();
    if workers.peek().is_none() {
        return ConditionState::new(true, "NoWorkers", "");
    }
    aggregate(workers, "Available", false, ["NotAvailable", "AvailableUnknown", "Available"])
}

fn of_machines<'a>(machines: impl Iterator<Item = &'a Object>, source: &str, reasons: Reasons<'_>) -> ConditionState {
    let mut machines = machines.peekable();
    if machines.peek().is_none() {
        return ConditionState::new(true, "NoReplicas", "");
    }
    aggregate(machines, source, false, reasons)
}

/// Whether a machine has the condition `UpToDate`, or should have it by now.
fn counts(ctx: &ClusterContext<'_>, machine: &Object, step: &mut Reconciliation) -> bool {
    if status(machine, "UpToDate").is_some() {
        return true;
    }
    let left = created(machine).and_then(|created| remaining(created, YOUNG, ctx.context.now));
    if let Some(left) = left {
        step.requeue_after(left);
    }
    left.is_none()
}

/// Whether anything rolls out or scales: the control plane if it reports the condition, deployments, and, for scaling,
/// stand-alone sets.
fn progress(ctx: &ClusterContext<'_>, name: &str, reasons: Reasons<'_>) -> ConditionState {
    let control_plane = ctx.control_plane.found.as_ref().and_then(|object| excerpt(object, name));
    let sets = ctx.stand_alone_sets().filter(|_| name != "RollingOut").map(|set| &**set);
    let pools = refs(&ctx.pools).filter(|pool| status(pool, name).is_some());
    let mut all = control_plane.iter().chain(pools).chain(refs(&ctx.deployments)).chain(sets).peekable();
    if all.peek().is_none() {
        return ConditionState::new(false, reasons[2], "");
    }
    aggregate(all, name, true, reasons)
}

/// A provider object reduced to its name and one condition, from either of two places (CT-15.9); `None` without the
/// condition.
fn excerpt(object: &Object, name: &str) -> Option<Object> {
    let list =
        object.at(paths::status::V1BETA2_CONDITIONS).or_else(|| object.at(paths::status::CONDITIONS))?.as_array()?;
    list.iter().find(|entry| entry.get("type").is_some_and(|it| it == name))?;
    let found = mirror(object, name, Fallback { flag: false, path: "", reasons: (name, name) });
    let ConditionState { status, reason, message, since } = found;
    let condition = json!({
        "type": name, "status": status.name(), "reason": reason, "message": message, "lastTransitionTime": since,
    });
    let excerpt = json!({
        "apiVersion": object.api_version(),
        "kind": object.kind(),
        "metadata": {"name": object.name()},
        "status": {"conditions": [condition]},
    });
    match excerpt {
        Value::Object(members) => Some(Object::from(members)),
        _ => None,
    }
}

/// Whether machines are being remediated, with the messages of their owners.
fn remediating(ctx: &ClusterContext<'_>) -> ConditionState {
    let all = refs(&ctx.control_plane_machines).chain(refs(&ctx.worker_machines));
    let (chosen, unhealthy): (Vec<&Object>, Vec<&Object>) = all
        .filter(|machine| is_false(machine, "HealthCheckSucceeded"))
        .partition(|machine| is_false(machine, "OwnerRemediated"));
    if chosen.is_empty() {
        let message = match unhealthy.len() {
            0 => String::new(),
            1 => "1 unhealthy Machine is not to be remediated by its owner".to_owned(),
            many => format!("{many} unhealthy Machines are not to be remediated by their owners"),
        };
        return ConditionState::new(false, "NotRemediating", message);
    }
    let merged = aggregate(chosen, "OwnerRemediated", false, ["", "", ""]);
    ConditionState::new(true, "Remediating", merged.message)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::*;
    use crate::lifecycle::conditions::{ConditionStatus, get};
    use crate::lifecycle::fields::set;
    use crate::lifecycle::testing::{CLUSTER, core};
    use model::hub::Object;

    /// An object of the Cluster with conditions.
    fn part(kind: &str, name: &str, found: &[(&str, &str)]) -> Object {
        with_status(core(kind, name, json!({"clusterName": CLUSTER})), conditions(found))
    }

    fn of_control_plane(machine: Object) -> Object {
        let labels = json!({"cluster.x-k8s.io/cluster-name": CLUSTER, "cluster.x-k8s.io/control-plane": ""});
        with(machine, "metadata.labels", labels)
    }

    fn of_deployment(set: Object) -> Object {
        let owner = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "name": "d", "uid": "d",
        });
        with(set, "metadata.ownerReferences", json!([owner]))
    }

    type AggregateCase = (&'static str, &'static str, Vec<Object>, (ConditionStatus, String));

    #[test]
    fn conditions_of_many_objects_become_one_of_the_cluster() {
        // MA-27.11, MA-27.7
        let good = |kind: &str| part(kind, "x", &[("Available", "True"), ("Ready", "True"), ("UpToDate", "True")]);
        let bad = |kind: &str| part(kind, "y", &[("Available", "False"), ("Ready", "False"), ("UpToDate", "False")]);
        let scales =
            |kind: &str| part(kind, "z", &[("ScalingUp", "True"), ("ScalingDown", "True"), ("RollingOut", "True")]);
        let rests =
            |kind: &str| part(kind, "r", &[("ScalingUp", "False"), ("ScalingDown", "False"), ("RollingOut", "False")]);
        let remediated = part("Machine", "m", &[("HealthCheckSucceeded", "False"), ("OwnerRemediated", "False")]);
        let unhealthy = part("Machine", "m", &[("HealthCheckSucceeded", "False")]);
        let cases: Vec<AggregateCase> = vec![
            ("no workers", "WorkersAvailable", vec![], yes("NoWorkers")),
            ("good", "WorkersAvailable", vec![good("MachineDeployment")], yes("Available")),
            ("bad", "WorkersAvailable", vec![good("MachineDeployment"), bad("MachineDeployment")], no("NotAvailable")),
            ("no word", "WorkersAvailable", vec![part("MachineDeployment", "d", &[])], unknown("AvailableUnknown")),
            ("pool without a word", "WorkersAvailable", vec![part("MachinePool", "p", &[])], yes("NoWorkers")),
            ("bad pool", "WorkersAvailable", vec![bad("MachinePool")], no("NotAvailable")),
            ("none", "WorkerMachinesReady", vec![of_control_plane(bad("Machine"))], yes("NoReplicas")),
            ("worker", "WorkerMachinesReady", vec![bad("Machine")], no("NotReady")),
            ("control plane", "ControlPlaneMachinesReady", vec![of_control_plane(bad("Machine"))], no("NotReady")),
            ("ready", "ControlPlaneMachinesReady", vec![of_control_plane(good("Machine"))], yes("Ready")),
            ("outdated", "WorkerMachinesUpToDate", vec![bad("Machine")], no("NotUpToDate")),
            ("current", "ControlPlaneMachinesUpToDate", vec![of_control_plane(good("Machine"))], yes("UpToDate")),
            ("nothing", "RollingOut", vec![], no("NotRollingOut")),
            ("rolls out", "RollingOut", vec![scales("MachineDeployment")], yes("RollingOut")),
            ("rests", "RollingOut", vec![rests("MachineDeployment")], no("NotRollingOut")),
            ("sets do not roll out", "RollingOut", vec![scales("MachineSet")], no("NotRollingOut")),
            ("unknown", "ScalingUp", vec![part("MachineDeployment", "d", &[])], unknown("ScalingUpUnknown")),
            ("set", "ScalingUp", vec![scales("MachineSet")], yes("ScalingUp")),
            ("owned set", "ScalingUp", vec![of_deployment(scales("MachineSet"))], no("NotScalingUp")),
            ("down", "ScalingDown", vec![rests("MachineDeployment"), scales("MachineSet")], yes("ScalingDown")),
            ("healthy", "Remediating", vec![good("Machine")], no("NotRemediating")),
            ("left alone", "Remediating", vec![unhealthy], no("NotRemediating")),
            ("remediated", "Remediating", vec![remediated], yes("Remediating")),
        ];
        for (case, name, objects, want) in cases {
            let mut simulator = cluster(json!({}));
            objects.into_iter().for_each(|object| drop(simulator.make(object)));
            assert_eq!(condition(&settled(&mut simulator), name), want, "{case}: {name}");
        }
    }

    #[test]
    fn the_control_plane_counts_if_it_reports_the_condition() {
        // MA-27.11, CT-10.18
        let older = |status: &str| json!({"v1beta2": conditions(&[("RollingOut", status)])});
        for (status, want) in [
            (json!({}), no("NotRollingOut")),
            (conditions(&[("RollingOut", "True")]), yes("RollingOut")),
            (older("Unknown"), unknown("RollingOutUnknown")),
        ] {
            let mut simulator = cluster(references());
            simulator.make(control_plane(json!({}), status.clone()));
            simulator.run(core::time::Duration::from_secs(30));
            assert_eq!(condition(&settled(&mut simulator), "RollingOut"), want, "{status}");
        }
    }

    #[test]
    fn a_new_machine_has_ten_seconds_to_say_whether_it_is_up_to_date() {
        // MA-27.11
        let mut simulator = cluster(json!({}));
        simulator.make(part("Machine", "m", &[]));
        assert_eq!(condition(&settled(&mut simulator), "WorkerMachinesUpToDate"), yes("NoReplicas"));
        simulator.run(core::time::Duration::from_secs(11));
        assert_eq!(condition(&settled(&mut simulator), "WorkerMachinesUpToDate"), unknown("UpToDateUnknown"));
    }

    /// A Cluster with a healthy topology apart from the changes of a case; `gates` are those of its class.
    fn available(gates: &Value, changes: &[(&str, Value)]) -> (ConditionStatus, String) {
        let mut simulator = alone();
        simulator.make(core("ClusterClass", "k", json!({"availabilityGates": gates})));
        let mut spec = references();
        spec["topology"] = json!({"classRef": {"name": "k"}});
        let found = conditions(&[("TopologyReconciled", "True"), ("Gate", "True"), ("Other", "True")]);
        let mut made = with_status(core("Cluster", CLUSTER, spec), found);
        let all = made.at("status.conditions").cloned().unwrap();
        for (path, value) in changes {
            match path.strip_prefix("condition.") {
                None => set(&mut made, path, value.clone()),
                Some(name) => {
                    let others = all.as_array().into_iter().flatten().filter(|it| it.get("type") != Some(&json!(name)));
                    let mut others: Vec<Value> = others.cloned().collect();
                    others.extend((!value.is_null()).then(|| value.clone()));
                    set(&mut made, "status.conditions", json!(others));
                }
            }
        }
        simulator.objects.workload_mut(&crate::lifecycle::testing::cluster_key()).is_reachable = true;
        simulator.make(GOOD_INFRA());
        simulator.make(GOOD_CONTROL_PLANE());
        simulator.make(made);
        condition(&settled(&mut simulator), "Available")
    }

    #[test]
    fn a_cluster_is_available_when_all_its_parts_and_gates_are() {
        // MA-27.13
        let reconciled = |reason: &str| {
            json!({"type": "TopologyReconciled", "status": "False", "reason": reason, "message": "",
                "lastTransitionTime": "2030-01-01T00:00:00Z"})
        };
        let gate = |name: &str, polarity: &str| json!([{"conditionType": name, "polarity": polarity}]);
        let good = || yes("Available");
        let bad = || no("NotAvailable");
        for (case, gates, changes, want) in [
            ("all good", Value::Null, vec![], good()),
            ("upgrading", Value::Null, vec![("condition.TopologyReconciled", reconciled("ClusterUpgrading"))], good()),
            ("failed", Value::Null, vec![("condition.TopologyReconciled", reconciled("ReconcileFailed"))], bad()),
            (
                "class",
                Value::Null,
                vec![("condition.TopologyReconciled", reconciled("ClusterClassNotReconciled"))],
                bad(),
            ),
            ("no word", Value::Null, vec![("condition.TopologyReconciled", Value::Null)], unknown("AvailableUnknown")),
            ("gate", gate("Gate", "Positive"), vec![], good()),
            ("negative gate", gate("Gate", "Negative"), vec![], bad()),
            ("missing gate", gate("Missing", "Positive"), vec![], unknown("AvailableUnknown")),
            (
                "own gates win",
                gate("Missing", "Positive"),
                vec![("spec.availabilityGates", gate("Other", "Positive"))],
                good(),
            ),
            ("own empty gates win", gate("Missing", "Positive"), vec![("spec.availabilityGates", json!([]))], good()),
        ] {
            assert_eq!(available(&gates, &changes), want, "{case}");
        }
    }

    #[test]
    fn a_missing_topology_condition_says_nothing_without_a_topology() {
        // MA-27.13
        let mut simulator = cluster(json!({}));
        simulator.objects.workload_mut(&crate::lifecycle::testing::cluster_key()).is_reachable = true;
        simulator.take(&crate::lifecycle::ObjectId::core("Cluster", "ns", CLUSTER));
        let cluster = settled(&mut simulator);
        assert_eq!(condition(&cluster, "Available"), yes("Available"));
        assert!(get(&cluster, "TopologyReconciled").is_none());
    }
}
