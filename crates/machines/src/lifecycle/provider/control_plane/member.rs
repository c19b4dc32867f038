//! The Machines of a control plane, with what is known of each.

use std::sync::Arc;

use super::super::infrastructure_machine::API_SERVER;
use super::super::scene::Scene;
use crate::lifecycle::conditions::{get, is_false, is_true};
use crate::lifecycle::context::Fault;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::{created, reference, text};
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::wake::is_controlled_by;
use model::hub::Object;

/// A Machine of a control plane.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) machine: Arc<Object>,
    pub(super) infrastructure: Option<Arc<Object>>,
    pub(super) config: Option<Arc<Object>>,
    has_api_server: bool,
}

/// The Machines that the control plane controls, the oldest first.
pub(super) fn members(scene: &Scene<'_>) -> Result<Vec<Member>, Fault> {
    let mut machines = scene.context.of_cluster(&GroupKind::core("Machine"), &scene.cluster_key())?;
    machines.retain(|machine| is_controlled_by(machine, scene.object));
    machines.sort_by_key(|machine| (created(machine), machine.name().to_owned()));
    machines.into_iter().map(|machine| member(scene, machine)).collect()
}

fn member(scene: &Scene<'_>, machine: Arc<Object>) -> Result<Member, Fault> {
    let find = |path: &str| scene.context.referenced(&reference(&machine, path), machine.namespace());
    let (infrastructure, config) = (find("spec.infrastructureRef")?, find("spec.bootstrap.configRef")?);
    let has_api_server = match &infrastructure {
        Some(found) => has_api_server(scene, found)?,
        None => false,
    };
    Ok(Member { machine, infrastructure, config, has_api_server })
}

/// Whether the API server on a machine answers. Other providers say no more than that the machine is provisioned.
fn has_api_server(scene: &Scene<'_>, infrastructure: &Object) -> Result<bool, Fault> {
    if get(infrastructure, "VMProvisioned").is_some() {
        return Ok(is_true(infrastructure, API_SERVER));
    }
    Flag::Provisioned.read(scene.context, infrastructure)
}

impl Member {
    /// Whether its API server answers.
    pub(super) fn has_api_server(&self) -> bool {
        self.has_api_server && !self.machine.is_being_deleted()
    }

    /// Whether its Node is known and its API server answered last, even if it is being deleted.
    pub(super) fn runs(&self) -> bool {
        self.has_node() && self.has_api_server
    }

    /// Whether the control plane on it runs: its Node is known and its API server answers.
    pub(super) fn is_healthy(&self) -> bool {
        self.has_node() && self.has_api_server()
    }

    /// Whether its Node was found.
    pub(super) fn has_node(&self) -> bool {
        !text(&self.machine, "status.nodeRef.name").is_empty()
    }

    /// Its version.
    pub(super) fn version(&self) -> &str {
        text(&self.machine, "spec.version")
    }

    /// Whether a health check asks its owner to replace it (MA-19.10).
    pub(super) fn needs_remediation(&self) -> bool {
        is_false(&self.machine, "HealthCheckSucceeded")
            && is_false(&self.machine, "OwnerRemediated")
            && !self.machine.is_being_deleted()
    }
}
