//! Fields of machine deployments that machine pools lack or have elsewhere.

use serde_json::json;

use super::layers::{Layers, rfc3339};
use super::machine_pool::add_timeouts;
use super::{DesiredInputs, DesiredObject};
use crate::topology::Failure;
use crate::topology::origin::Origin;
use model::hub::{MachineDeploymentClass, MachineDeploymentTopology, RolloutSpec, RolloutStrategy, label, paths};

/// The fields of a machine deployment (DS-26, DS-28). Without `replicas`, another controller sets them (DS-31, DEC-24).
pub(super) fn add_fields(
    worker: &mut DesiredObject,
    topology: &MachineDeploymentTopology,
    class: &MachineDeploymentClass,
    layers: Layers<'_>,
    basis: DesiredInputs<'_>,
) -> Result<(), Failure> {
    let selector = json!({
        label::CLUSTER_NAME: basis.cluster_name(), label::OWNED: "", label::DEPLOYMENT_NAME: topology.name,
    });
    // A selector prevents the default of admission (DS-30).
    worker.set(paths::worker::MATCH_LABELS, selector, Origin::Topology)?;
    layers.set_from_topology(worker, paths::REPLICAS, "replicas", &topology.replicas)?;
    let of_control_plane = &basis.blueprint.topology().control_plane.rollout;
    add_rollout(worker, &topology.rollout, &class.rollout, of_control_plane, layers)?;
    let (ours, theirs) = (&topology.deletion, &class.deletion);
    layers.set(worker, paths::worker::DELETION_ORDER, "deletion.order", &ours.order, &theirs.order)?;
    add_timeouts(worker, ours, theirs, layers)?;
    let from = "healthCheck.remediation.maxInFlight";
    let (ours, theirs) = (&topology.health_check.remediation, &class.health_check.remediation);
    layers.set(worker, paths::worker::MAX_IN_FLIGHT, from, &ours.max_in_flight, &theirs.max_in_flight)?;
    let (ours, theirs) = (&topology.failure_domain, &class.failure_domain);
    layers.set(worker, paths::worker::FAILURE_DOMAIN, "failureDomain", ours, theirs)?;
    let (ours, theirs) = (&topology.min_ready_seconds, &class.min_ready_seconds);
    layers.set(worker, paths::worker::MIN_READY_SECONDS, "minReadySeconds", ours, theirs)?;
    let (ours, theirs) = (&topology.readiness_gates, &class.readiness_gates);
    layers.set(worker, paths::worker::READINESS_GATES, "readinessGates", ours, theirs)?;
    layers.set(worker, paths::worker::TAINTS, "taints", &topology.taints, &class.taints)
}

/// Sets the rollout: that of the topology if it has any field, else the strategy of the class (DS-27).
fn add_rollout(
    worker: &mut DesiredObject,
    topology: &RolloutSpec,
    class: &RolloutSpec,
    of_control_plane: &RolloutSpec,
    layers: Layers<'_>,
) -> Result<(), Failure> {
    let nothing = RolloutStrategy::default();
    let (ours, theirs) = if *topology == RolloutSpec::default() || is_time_of_all(topology, of_control_plane) {
        (&nothing, &class.strategy)
    } else {
        (&topology.strategy, &nothing)
    };
    layers.set_from_topology(worker, paths::worker::ROLLOUT_AFTER, "rollout.after", &rfc3339(&topology.after))?;
    layers.set(worker, paths::worker::ROLLOUT_STRATEGY, "rollout.strategy.type", &ours.r#type, &theirs.r#type)?;
    let (ours, theirs) = (&ours.rolling_update, &theirs.rolling_update);
    let from = "rollout.strategy.rollingUpdate.maxSurge";
    layers.set(worker, paths::worker::MAX_SURGE, from, &ours.max_surge, &theirs.max_surge)?;
    let (path, from) = (paths::worker::MAX_UNAVAILABLE, "rollout.strategy.rollingUpdate.maxUnavailable");
    layers.set(worker, path, from, &ours.max_unavailable, &theirs.max_unavailable)
}

/// Whether a rollout only has the `after` of the control plane: `topology.rolloutAfter` of v1beta1 is converted to
/// this, and leaves the strategy to the class (DEC-21).
fn is_time_of_all(topology: &RolloutSpec, of_control_plane: &RolloutSpec) -> bool {
    topology.strategy == RolloutStrategy::default() && topology.after == of_control_plane.after
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::topology::testing::Scene;

    fn rollout(topology: Value, class: Value) -> Option<Value> {
        let scene = Scene::new().at("ClusterClass", "/spec/workers/machineDeployments/0/rollout", class).at(
            "Cluster",
            "/spec/topology/workers/machineDeployments/0/rollout",
            topology,
        );
        scene.desired().machine_deployments[0].worker.object.at("spec.rollout").cloned()
    }

    #[test]
    fn a_rollout_of_the_topology_replaces_that_of_the_class() {
        // DS-27
        let update =
            |surge: Value| json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}}});
        let unavailable = json!({"strategy": {"rollingUpdate": {"maxUnavailable": "10%"}}});
        let on_delete = json!({"strategy": {"type": "OnDelete"}});
        let after = |text: &str| json!({"after": text});
        for (topology, class, want) in [
            (json!(null), json!(null), None),
            (json!(null), update(json!(1)), Some(update(json!(1)))),
            (json!({}), unavailable.clone(), Some(unavailable.clone())),
            (on_delete.clone(), update(json!(1)), Some(on_delete)),
            (update(json!("5%")), unavailable.clone(), Some(update(json!("5%")))),
            (unavailable.clone(), update(json!(1)), Some(unavailable)),
            (after("2030-01-01T01:00:00+01:00"), update(json!(1)), Some(after("2030-01-01T00:00:00Z"))),
            // A class has no such time.
            (json!(null), after("2030-01-01T00:00:00Z"), None),
        ] {
            assert_eq!(rollout(topology.clone(), class.clone()), want, "{topology} over {class}");
        }
    }

    #[test]
    fn rollout_after_of_a_v1beta1_topology_keeps_the_strategy_of_the_class() {
        // DEC-21
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3}});
        let time = "2030-01-01T00:00:00Z";
        let rollout = |topology: Value| {
            let scene = Scene::new()
                .at("ClusterClass", "/spec/workers/machineDeployments/0/rollout", json!({"strategy": strategy}))
                .at("Cluster", "/spec/topology/controlPlane", json!({"rollout": {"after": time}}))
                .at("Cluster", "/spec/topology/workers/machineDeployments/0/rollout", topology);
            scene.desired().machine_deployments[0].worker.object.at("spec.rollout").cloned().unwrap()
        };
        assert_eq!(rollout(json!({"after": time})), json!({"after": time, "strategy": strategy}));
        let own = json!({"after": time, "strategy": {"type": "OnDelete"}});
        assert_eq!(rollout(own.clone()), own);
        let other = json!({"after": "2031-01-01T00:00:00Z"});
        assert_eq!(rollout(other.clone()), other);
    }
}
