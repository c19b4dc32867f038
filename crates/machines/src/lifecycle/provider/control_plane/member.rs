//! Machines of a control plane with their state.

use std::sync::Arc;

use super::super::context::ProviderContext;
use super::super::infrastructure_machine::API_SERVER;
use crate::lifecycle::conditions::{get, is_false, is_true};
use crate::lifecycle::context::StepError;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::dependents::is_controlled_by;
use crate::lifecycle::fields::created;
use crate::lifecycle::objects::GroupKind;
use model::hub::{Object, paths};

/// A Machine of a control plane.
#[derive(Clone, Debug)]
pub(super) struct ControlPlaneMachine {
    pub(super) machine: Arc<Object>,
    pub(super) infrastructure: Option<Arc<Object>>,
    pub(super) config: Option<Arc<Object>>,
    has_api_server: bool,
}

/// The Machines controlled by the control plane, oldest first.
pub(super) fn members(ctx: &ProviderContext<'_>) -> Result<Vec<ControlPlaneMachine>, StepError> {
    let mut machines = ctx.context.of_cluster(&GroupKind::core("Machine"), &ctx.cluster_key())?;
    machines.retain(|machine| is_controlled_by(machine, ctx.object));
    machines.sort_by_key(|machine| (created(machine), machine.name().to_owned()));
    machines.into_iter().map(|machine| member(ctx, machine)).collect()
}

fn member(ctx: &ProviderContext<'_>, machine: Arc<Object>) -> Result<ControlPlaneMachine, StepError> {
    let find = |path: &str| ctx.context.referenced(&machine.contract_ref_at(path), machine.namespace());
    let (infrastructure, config) = (find(paths::INFRASTRUCTURE_REF)?, find(paths::machine::BOOTSTRAP_CONFIG_REF)?);
    let has_api_server = match &infrastructure {
        Some(found) => has_api_server(ctx, found)?,
        None => false,
    };
    Ok(ControlPlaneMachine { machine, infrastructure, config, has_api_server })
}

/// Whether the API server on a machine responds. Other providers only report that the machine is provisioned.
fn has_api_server(ctx: &ProviderContext<'_>, infrastructure: &Object) -> Result<bool, StepError> {
    if get(infrastructure, "VMProvisioned").is_some() {
        return Ok(is_true(infrastructure, API_SERVER));
    }
    Flag::Provisioned.read(ctx.context, infrastructure)
}

impl ControlPlaneMachine {
    /// Whether its API server responds.
    pub(super) fn has_api_server(&self) -> bool {
        self.has_api_server && !self.machine.is_being_deleted()
    }

    /// Whether its Node is known and its API server responded last, even if it is being deleted.
    pub(super) fn runs(&self) -> bool {
        self.has_node() && self.has_api_server
    }

    /// Whether its control plane runs: its Node is known and its API server responds.
    pub(super) fn is_healthy(&self) -> bool {
        self.has_node() && self.has_api_server()
    }

    /// Whether its Node was found.
    pub(super) fn has_node(&self) -> bool {
        !self.machine.node_name().is_empty()
    }

    /// Its version.
    pub(super) fn version(&self) -> &str {
        self.machine.version()
    }

    /// Whether a health check requests its remediation (MA-19.10).
    pub(super) fn needs_remediation(&self) -> bool {
        is_false(&self.machine, "HealthCheckSucceeded")
            && is_false(&self.machine, "OwnerRemediated")
            && !self.machine.is_being_deleted()
    }
}
