//! Machine health checks.

use serde_json::Value;

use super::draft::labels_of_all;
use super::layers::{Given as _, Shape, members};
use super::{Basis, DesiredObject};
use crate::hub::{HealthCheck, MachineDeploymentClass, MachineDeploymentTopology, RemediationTrigger, TemplateRef};
use crate::hub::{UnhealthyCondition, label};
use crate::topology::Failure;
use crate::topology::origin::Origin;
use crate::topology::worker::API_VERSION;

/// How long a node may take to come up when nobody says so, as admission would fill in (DS-33).
const NODE_STARTUP_TIMEOUT: i32 = 600;

/// The health check of the control plane, if it is to have one (BP-09, BP-11).
pub(super) fn of_control_plane(basis: Basis<'_>, target: &str) -> Result<Option<DesiredObject>, Failure> {
    if basis.blueprint.control_plane_machines.is_none() {
        return Ok(None);
    }
    let topology = &basis.blueprint.topology().control_plane.health_check;
    let class = &basis.blueprint.class.spec.control_plane.health_check;
    let paths = ("spec.topology.controlPlane", "spec.controlPlane");
    let Some(source) = Source::of(topology, class, paths) else { return Ok(None) };
    let labels = vec![(label::OWNED, ""), (label::CONTROL_PLANE, "")];
    source.check(basis, target, &labels).map(Some)
}

/// The health check of a machine deployment, if it is to have one (BP-12, DS-32). `paths` say where it stands in the Cluster
/// and its class in the ClusterClass.
pub(super) fn of_machine_deployment(
    basis: Basis<'_>,
    target: &str,
    topology: &MachineDeploymentTopology,
    class: &MachineDeploymentClass,
    paths: (&str, &str),
) -> Result<Option<DesiredObject>, Failure> {
    let Some(source) = Source::of(&topology.health_check, &class.health_check, paths) else { return Ok(None) };
    let labels = vec![(label::OWNED, ""), (label::DEPLOYMENT_NAME, &*topology.name)];
    source.check(basis, target, &labels).map(Some)
}

/// What a health check is made from, which is one of two and never a bit of both (BP-13).
struct Source<'a> {
    health_check: &'a HealthCheck,
    origin: Origin,
}

impl<'a> Source<'a> {
    /// `None` where there is to be no health check (BP-11, BP-12).
    fn of(topology: &'a HealthCheck, class: &'a HealthCheck, paths: (&str, &str)) -> Option<Self> {
        let (in_topology, in_class) = (format!("{}.healthCheck", paths.0), format!("{}.healthCheck", paths.1));
        let source = match (topology.is_defined(), class.is_defined()) {
            (true, _) => Source { health_check: topology, origin: Origin::Cluster(in_topology.into()) },
            (false, true) => Source { health_check: class, origin: Origin::Class(in_class.into()) },
            (false, false) => return None,
        };
        topology.enabled.unwrap_or(true).then_some(source)
    }

    /// The health check of the target of this name, for the machines with these labels (DS-33, DS-34).
    fn check(&self, basis: Basis<'_>, target: &str, labels: &[(&str, &str)]) -> Result<DesiredObject, Failure> {
        let mut object = DesiredObject::new(API_VERSION, "MachineHealthCheck", target, basis);
        object.overlay("metadata.labels", &labels_of_all(basis))?;
        object.own(&basis.blueprint.cluster)?;
        object.set("spec.clusterName", basis.cluster_name(), Origin::Topology)?;
        let labels: Value = labels.iter().map(|(name, value)| (*name, *value)).collect();
        object.set("spec.selector.matchLabels", labels, Origin::Topology)?;
        let checks = &self.health_check.checks;
        let fields = [
            ("spec.checks.unhealthyNodeConditions", checks.unhealthy_node_conditions.given()),
            ("spec.checks.unhealthyMachineConditions", checks.unhealthy_machine_conditions.given()),
            ("spec.remediation.triggerIf", trigger(&self.health_check.remediation.trigger_if)),
            ("spec.remediation.templateRef", template(&self.health_check.remediation.template_ref)),
        ];
        for (path, value) in fields {
            // DS-03
            if let Some(value) = value.filter(|value| value.as_array().is_none_or(|list| !list.is_empty())) {
                object.set(path, value, self.origin.clone())?;
            }
        }
        let path = "spec.checks.nodeStartupTimeoutSeconds";
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

impl Shape for UnhealthyCondition {
    fn shape(&self) -> Value {
        members([
            ("type", self.r#type.given()),
            ("status", self.status.given()),
            ("timeoutSeconds", self.timeout_seconds.given()),
        ])
    }
}
