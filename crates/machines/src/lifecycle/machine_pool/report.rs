//! Counters, conditions and phase of a pool.

use std::sync::Arc;

use serde_json::json;

use super::nodes::PoolNodes;
use super::objects::PoolObjects;
use super::phase;
use crate::lifecycle::conditions::{ConditionState, Fallback, mirror, observe_generation, put};
use crate::lifecycle::context::StepContext;
use crate::lifecycle::fields::set;
use crate::lifecycle::step::Reconciliation;
use model::hub::{Object, paths};

/// Writes the status. Unreadable fields keep their values, and the generation is not observed (MA-1.9). While Nodes are
/// unknown, as after a restart, so do the fields about Nodes.
pub(super) fn report(
    context: &StepContext<'_>,
    parts: &PoolObjects,
    nodes: Option<&PoolNodes>,
    after: &mut Object,
    is_whole: bool,
    step: &mut Reconciliation,
) {
    if let Some(nodes) = nodes {
        count(nodes, after);
    }
    conditions(context, parts, after);
    let (wanted, there) = (after.replicas().unwrap_or(1), after.status_replicas().unwrap_or(0));
    for (name, not, is) in
        [("ScalingUp", "NotScalingUp", there < wanted), ("ScalingDown", "NotScalingDown", there > wanted)]
    {
        let reason = if is { name } else { not };
        let message = if is { format!("Scaling from {there} to {wanted} replicas") } else { String::new() };
        put(after, name, &ConditionState::new(is, reason, message), context.now);
    }
    put(after, "Deleting", &ConditionState::new(false, "NotDeleting", ""), context.now);
    phase::set_phase(after, parts.have_failed(context), step);
    if is_whole {
        observe_generation(after);
    }
}

/// Writes the references to the Nodes and the counters of them.
fn count(nodes: &PoolNodes, after: &mut Object) {
    let version = after.machine_version().to_owned();
    nodes.write_refs(after);
    let ready = nodes.ready();
    for (path, value) in [
        (paths::status::READY_REPLICAS, ready),
        (paths::status::AVAILABLE_REPLICAS, ready),
        (paths::status::UP_TO_DATE_REPLICAS, nodes.of_version(&version)),
    ] {
        set(after, path, json!(value));
    }
}

/// Conditions mirrored from the objects of the pool (MA-13.3, MA-13.4).
fn conditions(context: &StepContext<'_>, parts: &PoolObjects, after: &mut Object) {
    let of = |part: &Option<Arc<Object>>, path: &str, is_done: bool, missing: &str| match part {
        Some(part) => mirror(part, "Ready", Fallback { flag: is_done, path, reasons: ("Ready", "NotReady") }),
        None => ConditionState::new(false, missing, ""),
    };
    let (has_data, is_provisioned) = (after.is_bootstrap_data_created(), after.is_infrastructure_provisioned());
    let data = match parts.has_config_ref {
        true => of(&parts.config, "status.initialization.dataSecretCreated", has_data, missing(has_data)),
        false => ConditionState::new(true, "DataSecretProvided", ""),
    };
    put(after, "BootstrapConfigReady", &data, context.now);
    let path = "status.initialization.provisioned";
    let infrastructure = of(&parts.infrastructure, path, is_provisioned, missing(is_provisioned));
    put(after, "InfrastructureReady", &infrastructure, context.now);
}

const fn missing(was_there: bool) -> &'static str {
    if was_there { "ObjectDeleted" } else { "ObjectDoesNotExist" }
}
