//! Machine health checks.

use serde_json::Value;

use super::draft::labels_of_all;
use super::layers::{ListElement, OptionalField as _, members};
use super::{DesiredInputs, DesiredObject};
use crate::topology::Failure;
use crate::topology::origin::Origin;
use crate::topology::worker::API_VERSION;
use model::hub::{
    HealthCheck, MachineDeploymentClass, MachineDeploymentTopology, RemediationTrigger, TemplateRef, paths,
};
use model::hub::{UnhealthyCondition, label};

/// Default node startup timeout, the same as that of admission (DS-33).
const NODE_STARTUP_TIMEOUT: i32 = 600;

/// The health check of the control plane, if it has one (BP-09, BP-11).
pub(super) fn for_control_plane(basis: DesiredInputs<'_>, target: &str) -> Result<Option<DesiredObject>, Failure> {
    if basis.blueprint.control_plane_machines.is_none() {
        return Ok(None);
    }
    let topology = &basis.blueprint.topology().control_plane.health_check;
    let class = &basis.blueprint.class.spec.control_plane.health_check;
    let paths = (paths::cluster::TOPOLOGY_CONTROL_PLANE, paths::cluster_class::CONTROL_PLANE);
    let Some(source) = HealthCheckSource::choose(topology, class, paths) else { return Ok(None) };
    let labels = vec![(label::OWNED, ""), (label::CONTROL_PLANE, "")];
    source.check(basis, target, &labels).map(Some)
}

/// The health check of a machine deployment, if it has one (BP-12, DS-32). `paths` are those of the machine deployment
/// in the Cluster and of its class in the ClusterClass.
pub(super) fn for_machine_deployment(
    basis: DesiredInputs<'_>,
    target: &str,
    topology: &MachineDeploymentTopology,
    class: &MachineDeploymentClass,
    paths: (&str, &str),
) -> Result<Option<DesiredObject>, Failure> {
    let Some(source) = HealthCheckSource::choose(&topology.health_check, &class.health_check, paths) else {
        return Ok(None);
    };
    let labels = vec![(label::OWNED, ""), (label::DEPLOYMENT_NAME, &*topology.name)];
    source.check(basis, target, &labels).map(Some)
}

/// The definition of a health check: that of the topology or that of the class, never a mix (BP-13). `enabled` alone
/// defines no health check (BP-10).
struct HealthCheckSource<'a> {
    health_check: &'a HealthCheck,
    origin: Origin,
}

impl<'a> HealthCheckSource<'a> {
    /// `None` for no health check (BP-11, BP-12).
    fn choose(topology: &'a HealthCheck, class: &'a HealthCheck, paths: (&str, &str)) -> Option<Self> {
        let (in_topology, in_class) = (format!("{}.healthCheck", paths.0), format!("{}.healthCheck", paths.1));
        let source = match (topology.is_defined(), class.is_defined()) {
            (true, _) => HealthCheckSource { health_check: topology, origin: Origin::Cluster(in_topology.into()) },
            (false, true) => HealthCheckSource { health_check: class, origin: Origin::Class(in_class.into()) },
            (false, false) => return None,
        };
        topology.enabled.unwrap_or(true).then_some(source)
    }

    /// The health check with the name of its target, for the machines with these labels (DS-33, DS-34).
    fn check(&self, basis: DesiredInputs<'_>, target: &str, labels: &[(&str, &str)]) -> Result<DesiredObject, Failure> {
        let mut object = DesiredObject::new(API_VERSION, "MachineHealthCheck", target, basis);
        object.overlay(paths::metadata::LABELS, &labels_of_all(basis))?;
        object.own(&basis.blueprint.cluster)?;
        object.set(paths::CLUSTER_NAME, basis.cluster_name(), Origin::Topology)?;
        let labels: Value = labels.iter().map(|(name, value)| (*name, *value)).collect();
        object.set(paths::worker::MATCH_LABELS, labels, Origin::Topology)?;
        let checks = &self.health_check.checks;
        let fields = [
            (paths::health_check::UNHEALTHY_NODE_CONDITIONS, checks.unhealthy_node_conditions.given()),
            (paths::health_check::UNHEALTHY_MACHINE_CONDITIONS, checks.unhealthy_machine_conditions.given()),
            (paths::health_check::REMEDIATION_TRIGGER, trigger(&self.health_check.remediation.trigger_if)),
            (paths::health_check::REMEDIATION_TEMPLATE, template(&self.health_check.remediation.template_ref)),
        ];
        for (path, value) in fields {
            // DS-03
            if let Some(value) = value.filter(|value| value.as_array().is_none_or(|list| !list.is_empty())) {
                object.set(path, value, self.origin.clone())?;
            }
        }
        let path = paths::health_check::NODE_STARTUP_TIMEOUT;
        match checks.node_startup_timeout_seconds {
            Some(seconds) => object.set(path, seconds, self.origin.clone())?,
            None => object.set(path, NODE_STARTUP_TIMEOUT, Origin::Topology)?,
        }
        Ok(object)
    }
}

fn trigger(trigger: &RemediationTrigger) -> Option<Value> {
    let RemediationTrigger { unhealthy_less_than_or_equal_to, unhealthy_in_range } = trigger;
    (*trigger != RemediationTrigger::default()).then(|| {
        members([
            ("unhealthyLessThanOrEqualTo", unhealthy_less_than_or_equal_to.given()),
            ("unhealthyInRange", unhealthy_in_range.given()),
        ])
    })
}

fn template(reference: &TemplateRef) -> Option<Value> {
    let TemplateRef { api_version, kind, name } = reference;
    let members = || members([("apiVersion", api_version.given()), ("kind", kind.given()), ("name", name.given())]);
    reference.is_defined().then(members)
}

impl ListElement for UnhealthyCondition {
    fn to_value(&self) -> Value {
        members([
            ("type", self.r#type.given()),
            ("status", self.status.given()),
            ("timeoutSeconds", self.timeout_seconds.given()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::topology::testing::Scene;

    const CONDITION: &str = r#"[{"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}]"#;

    fn json_of(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    /// A health check with content, another one without, and one that only sets `enabled`.
    fn defined(seconds: i32) -> Value {
        json!({"checks": {"nodeStartupTimeoutSeconds": seconds}})
    }

    fn switched(enabled: bool, mut health_check: Value) -> Value {
        health_check["enabled"] = json!(enabled);
        health_check
    }

    fn scene(topology: &Value, class: &Value) -> Scene {
        Scene::new()
            .at("ClusterClass", "/spec/controlPlane/healthCheck", class.clone())
            .at("ClusterClass", "/spec/workers/machineDeployments/0/healthCheck", class.clone())
            .at("Cluster", "/spec/topology/controlPlane", json!({"healthCheck": topology}))
            .at("Cluster", "/spec/topology/workers/machineDeployments/0/healthCheck", topology.clone())
    }

    /// The health checks of control plane and machine deployment.
    fn both(topology: &Value, class: &Value) -> [Option<DesiredObject>; 2] {
        let mut desired = scene(topology, class).desired();
        [desired.control_plane.health_check, desired.machine_deployments.remove(0).health_check]
    }

    fn startup(check: &DesiredObject) -> Option<i64> {
        check.object.integer("spec.checks.nodeStartupTimeoutSeconds").unwrap()
    }

    #[test]
    fn there_is_a_health_check_when_it_is_defined_and_not_switched_off() {
        // BP-09 to BP-12
        let nothing = json!(null);
        for (topology, class, want) in [
            (nothing.clone(), nothing.clone(), None),
            (switched(true, json!({})), nothing.clone(), None),
            (nothing.clone(), switched(true, json!({})), None),
            (nothing.clone(), defined(1), Some(1)),
            (defined(2), nothing.clone(), Some(2)),
            (defined(2), defined(1), Some(2)),
            (switched(false, json!({})), defined(1), None),
            (switched(false, defined(2)), defined(1), None),
            (switched(true, json!({})), defined(1), Some(1)),
            // Only the topology switches.
            (nothing, switched(false, defined(1)), Some(1)),
        ] {
            for check in both(&topology, &class) {
                assert_eq!(check.as_ref().and_then(startup), want, "{topology} over {class}");
            }
        }
    }

    #[test]
    fn a_control_plane_without_machines_of_the_class_has_no_health_check() {
        // BP-09, BP-11
        let scene = scene(&json!(null), &defined(1)).at(
            "ClusterClass",
            "/spec/controlPlane/machineInfrastructure",
            json!(null),
        );
        let desired = scene.desired();
        assert_eq!(desired.control_plane.health_check, None);
        assert!(desired.machine_deployments[0].health_check.is_some());
    }

    #[test]
    fn a_health_check_comes_from_topology_or_class_as_a_whole() {
        // BP-13, DS-33
        let trigger = json!({"unhealthyLessThanOrEqualTo": "40%"});
        let class =
            json!({"checks": {"unhealthyNodeConditions": json_of(CONDITION)}, "remediation": {"triggerIf": trigger}});
        for check in both(&json!(null), &class) {
            let check = check.unwrap();
            assert_eq!(check.object.at("spec.checks.unhealthyNodeConditions"), Some(&json_of(CONDITION)));
            assert_eq!(check.object.at("spec.remediation"), Some(&json!({"triggerIf": trigger})));
            assert_eq!(startup(&check), Some(600));
        }
        for check in both(&defined(5), &class) {
            let check = check.unwrap().object;
            assert_eq!(check.at("spec.checks"), Some(&json!({"nodeStartupTimeoutSeconds": 5})));
            assert_eq!(check.at("spec.remediation"), None);
        }
        // Odd, and established: so little defines a health check of a machine deployment, and none of a control plane.
        let [control_plane, deployment] = both(&json!({"remediation": {"maxInFlight": 1}}), &class);
        let deployment = deployment.unwrap().object;
        assert_eq!(deployment.at("spec.checks"), Some(&json!({"nodeStartupTimeoutSeconds": 600})), "BP-10");
        assert_eq!(deployment.at("spec.remediation"), None);
        assert!(control_plane.unwrap().object.at("spec.checks.unhealthyNodeConditions").is_some());
    }

    #[test]
    fn a_health_check_has_the_shape_of_its_target() {
        // DS-32 to DS-34, LBL-01
        let reference = json!({"apiVersion": "g/v1", "kind": "RepairTemplate", "name": "r"});
        let class = json!({
            "checks": {
                "nodeStartupTimeoutSeconds": 0,
                "unhealthyNodeConditions": json_of(CONDITION), "unhealthyMachineConditions": json_of(CONDITION),
            },
            "remediation": {"triggerIf": {"unhealthyInRange": "[1-2]"}, "templateRef": reference},
        });
        let desired = scene(&json!(null), &class).desired();
        let [deployment] = &*desired.machine_deployments else { panic!("one machine deployment") };
        for (check, target, label, value) in [
            (
                &desired.control_plane.health_check,
                &desired.control_plane.control_plane,
                "cluster.x-k8s.io/control-plane",
                "",
            ),
            (&deployment.health_check, &deployment.worker, "topology.cluster.x-k8s.io/deployment-name", "md"),
        ] {
            let want = json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
                "metadata": {
                    "name": target.object.name(), "namespace": "ns",
                    "labels": {"cluster.x-k8s.io/cluster-name": "blade", "topology.cluster.x-k8s.io/owned": ""},
                    "ownerReferences": [
                        {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "blade",
                            "uid": "uid-of-blade"},
                    ],
                },
                "spec": {
                    "clusterName": "blade",
                    "selector": {"matchLabels": {"topology.cluster.x-k8s.io/owned": "", label: value}},
                    "checks": class["checks"], "remediation": class["remediation"],
                },
            });
            assert_eq!(json!(check.as_ref().unwrap().object.members()), want);
        }
    }

    #[test]
    fn machine_pools_have_no_health_check() {
        // BP-12
        let desired = Scene::new().at("ClusterClass", "/spec/workers/machinePools/0/healthCheck", defined(1)).desired();
        assert_eq!(desired.machine_pools[0].health_check, None);
    }

    #[test]
    fn lists_without_entries_are_not_written() {
        // DS-03
        let class = json!({"checks": {"unhealthyNodeConditions": [], "unhealthyMachineConditions": []}});
        for check in both(&json!(null), &class) {
            let checks = json!({"nodeStartupTimeoutSeconds": 600});
            assert_eq!(check.unwrap().object.at("spec.checks"), Some(&checks));
        }
    }

    #[test]
    fn a_health_check_says_where_it_comes_from() {
        let [control_plane, deployment] = both(&json!(null), &defined(1)).map(Option::unwrap);
        let [overriding, _] = both(&defined(1), &json!(null)).map(Option::unwrap);
        for (check, want) in [
            (control_plane, "ClusterClass spec.controlPlane.healthCheck"),
            (deployment, "ClusterClass spec.workers.machineDeployments[smith].healthCheck"),
            (overriding, "Cluster spec.topology.controlPlane.healthCheck"),
        ] {
            assert_eq!(check.origins.decisive("spec.checks.nodeStartupTimeoutSeconds").unwrap().to_string(), want);
        }
    }
}
