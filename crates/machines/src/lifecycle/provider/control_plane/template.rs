//! Machine settings of a control plane, in the layout of its contract (CT-5.4).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::context::ProviderContext;
use crate::lifecycle::context::StepError;
use crate::lifecycle::fields::{text, texts};
use golang::calendar::go_duration;
use model::hub::contract::Contract;
use model::hub::{ContractRef, Object, group_of, paths};

/// The infrastructure template of its Machines; `None` for a control plane without Machines. An incomplete reference is
/// an error (CT-5.6).
pub(super) fn infrastructure(ctx: &ProviderContext<'_>) -> Result<Option<ContractRef>, StepError> {
    let (path, group) = match ctx.context.contract(ctx.object) {
        Contract::V1Beta1 => (paths::control_plane::MACHINE_INFRASTRUCTURE_REF_V1BETA1, "apiVersion"),
        Contract::V1Beta2 => (paths::control_plane::MACHINE_INFRASTRUCTURE_REF, "apiGroup"),
    };
    let object = ctx.object;
    if object.members_at(path)?.is_none() {
        return Ok(None);
    }
    let read = |name: &str| object.text(&format!("{path}.{name}")).map(Option::unwrap_or_default);
    let (written, kind, name) = (read(group)?, read("kind")?, read("name")?);
    if [written, kind, name].contains(&"") {
        let text = format!("{} {}: {path} needs {group}, kind and name", object.kind(), object.key());
        return Err(StepError::failed(text));
    }
    let api_group = if group == "apiVersion" { group_of(written) } else { written };
    Ok(Some(ContractRef { api_group: api_group.to_owned(), kind: kind.to_owned(), name: name.to_owned() }))
}

/// Desired number of Machines.
pub(super) fn replicas(object: &Object) -> usize {
    let replicas = object.replicas().unwrap_or(1);
    usize::try_from(replicas).unwrap_or_default()
}

/// Labels or annotations of its Machines.
pub(super) fn metadata(object: &Object, what: &str) -> BTreeMap<String, String> {
    texts(object, &format!("spec.machineTemplate.metadata.{what}"))
}

/// Settings of a Machine from the template besides labels and annotations, by path in the Machine; `None` if the
/// template does not set it (CT-10.13).
pub(super) fn settings(object: &Object, contract: Contract) -> Vec<(&'static str, Option<Value>)> {
    let below = match contract {
        Contract::V1Beta1 => "spec.machineTemplate",
        Contract::V1Beta2 => "spec.machineTemplate.spec",
    };
    let plain = |name: &str| object.at(&format!("{below}.{name}")).cloned();
    let timeout = |name: &str| match contract {
        Contract::V1Beta2 => plain(&format!("deletion.{name}Seconds")),
        Contract::V1Beta1 => seconds(text(object, &format!("{below}.{name}"))),
    };
    vec![
        (paths::machine::NODE_DRAIN_TIMEOUT, timeout("nodeDrainTimeout")),
        (paths::machine::NODE_VOLUME_DETACH_TIMEOUT, timeout("nodeVolumeDetachTimeout")),
        (paths::machine::NODE_DELETION_TIMEOUT, timeout("nodeDeletionTimeout")),
        (paths::machine::MIN_READY_SECONDS, plain("minReadySeconds")),
        (paths::machine::READINESS_GATES, plain("readinessGates")),
        (paths::TAINTS, plain("taints")),
    ]
}

/// Whole seconds of a duration (CT-5.7).
fn seconds(text: &str) -> Option<Value> {
    Some(json!(go_duration(text)? / golang::calendar::SECOND))
}
