//! Creation of a control plane Machine with its configuration and infrastructure, atomically (CT-10.12, CT-10.14).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::context::{ProviderContext, made};
use super::cleanup;
use super::member::ControlPlaneMachine;
use super::outdated::{MADE_FROM, made_from_now};
use super::propagation::{hand_down_metadata, hand_down_settings};
use crate::lifecycle::clone::{CloneExtras, clone};
use crate::lifecycle::context::StepError;
use crate::lifecycle::fields::{items, owner, reference_value, set, set_annotation, set_label};
use crate::lifecycle::hooks::CLEANUP;
use crate::lifecycle::names;
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::step::Reconciliation;
use model::hub::contract::Contract;
use model::hub::{ContractRef, NameSubject, Object, label, paths, version_of};

/// The finalizer of Machines (MA-1.7).
const MACHINE_FINALIZER: &str = "machine.cluster.x-k8s.io";
/// On a Machine: the name of its control plane.
const CONTROL_PLANE_NAME: &str = "cluster.x-k8s.io/control-plane-name";
/// Maximum length of a label value.
const LONGEST_LABEL: usize = 63;

/// Creates one Machine.
pub(super) fn make(
    ctx: &ProviderContext<'_>,
    template: &ContractRef,
    members: &[ControlPlaneMachine],
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    let object = ctx.object;
    let Some(found) = ctx.context.referenced(template, object.namespace())? else {
        let text = format!("{} {}: {} {} was not found", object.kind(), object.key(), template.kind, template.name);
        return Err(StepError::failed(text));
    };
    let name = name(ctx, members)?;
    let owner = Some(owner(object, false));
    let mut infrastructure = clone(&found, &name, ctx.cluster.name(), CloneExtras { owner, ..CloneExtras::default() });
    hand_down_metadata(object, &mut infrastructure);
    let mut bootstrap = bootstrap(ctx, &name, members.is_empty())?;
    hand_down_metadata(object, &mut bootstrap);
    let machine = machine(ctx, &name, &bootstrap, &infrastructure, members);
    step.event("CreatedMachine", format!("Created Machine {name} of version {}", object.version()));
    step.create(vec![bootstrap, infrastructure, machine]);
    Ok(())
}

/// The name, by the naming template of the control plane if it has one. Its random suffix depends on the existing
/// Machines, so that it is not repeated (MA-30.6).
fn name(ctx: &ProviderContext<'_>, members: &[ControlPlaneMachine]) -> Result<String, StepError> {
    let object = ctx.object;
    let known: Vec<&str> = members.iter().map(|member| member.machine.name()).collect();
    let known = known.join(",");
    let mut count = members.len();
    let end = || {
        count += 1;
        names::name_suffix(object, &known, count - 1, ctx.context.time_of_names())
    };
    let path = match ctx.context.contract(object) {
        Contract::V1Beta1 => "spec.machineNamingStrategy.template",
        Contract::V1Beta2 => paths::MACHINE_NAMING,
    };
    names::machine_name(ctx.context, object, NameSubject::ControlPlaneMachine(object.name()), path, end)
}

/// The Machine (CT-10.12), in the failure domain with the fewest Machines.
fn machine(
    ctx: &ProviderContext<'_>,
    name: &str,
    bootstrap: &Object,
    infrastructure: &Object,
    members: &[ControlPlaneMachine],
) -> Object {
    let object = ctx.object;
    let data = match bootstrap.kind() {
        "Secret" => json!({"dataSecretName": bootstrap.name()}),
        _ => json!({"configRef": reference_value(&bootstrap.contract_ref())}),
    };
    let mut machine = made(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {
            "namespace": object.namespace(), "name": name,
            "finalizers": [MACHINE_FINALIZER],
            "ownerReferences": [owner(object, true)],
        },
        "spec": {
            "clusterName": ctx.cluster.name(),
            "version": object.version(),
            "bootstrap": data,
            "infrastructureRef": reference_value(&infrastructure.contract_ref()),
        },
    }));
    if let Some(domain) = failure_domain(ctx, members) {
        set(&mut machine, paths::FAILURE_DOMAIN, json!(domain));
    }
    hand_down_metadata(object, &mut machine);
    hand_down_settings(ctx, &mut machine);
    set_label(&mut machine, label::CLUSTER_NAME, ctx.cluster.name());
    set_label(&mut machine, label::CONTROL_PLANE, "");
    set_label(&mut machine, CONTROL_PLANE_NAME, &label_value(object.name()));
    set_annotation(&mut machine, MADE_FROM, &made_from_now(object));
    if cleanup::is_used_by(object) {
        set_annotation(&mut machine, CLEANUP, "");
    }
    machine
}

/// A name as a label value: itself, or a hash if it is too long.
fn label_value(name: &str) -> String {
    if name.len() > LONGEST_LABEL { format!("hash-{:08x}", names::short_hash(name)) } else { name.to_owned() }
}

/// The failure domain for control planes with the fewest Machines, first by name (CT-10.14).
fn failure_domain(ctx: &ProviderContext<'_>, members: &[ControlPlaneMachine]) -> Option<String> {
    let is_fit = |domain: &&Value| domain.get("controlPlane") == Some(&Value::Bool(true));
    let domains = items(&ctx.cluster, paths::status::FAILURE_DOMAINS).iter().filter(is_fit);
    let mut number: BTreeMap<&str, usize> =
        domains.filter_map(|domain| Some((domain.get("name")?.as_str()?, 0))).collect();
    for member in members {
        if let Some(known) = number.get_mut(member.machine.failure_domain()) {
            *known += 1;
        }
    }
    number.into_iter().min_by_key(|(name, number)| (*number, *name)).map(|(name, _)| name.to_owned())
}

/// The bootstrap configuration of a machine: for kubeadm, for the embedded provider, or only a Secret for other control
/// planes.
fn bootstrap(ctx: &ProviderContext<'_>, name: &str, is_first: bool) -> Result<Object, StepError> {
    let object = ctx.object;
    let (group, kind, spec) = match object.kind() {
        kind if kind.starts_with("Kubeadm") => {
            ("bootstrap.cluster.x-k8s.io", "KubeadmConfig", kubeadm_config(object, is_first))
        }
        "EmbeddedControlPlane" => {
            ("bootstrap.topologist.dev", "EmbeddedConfig", object.at("spec.bootstrap").cloned().unwrap_or(json!({})))
        }
        _ => return Ok(secret(ctx, name)),
    };
    let known = ctx.context.of_cluster(&GroupKind::new(group, kind), &ctx.cluster_key())?;
    let version = match known.first() {
        Some(known) => version_of(known.api_version()).to_owned(),
        None if kind == "EmbeddedConfig" => "v1beta1".to_owned(),
        None => version_of(object.api_version()).to_owned(),
    };
    Ok(made(json!({
        "apiVersion": format!("{group}/{version}"), "kind": kind,
        "metadata": metadata(ctx, name),
        "spec": spec,
    })))
}

fn metadata(ctx: &ProviderContext<'_>, name: &str) -> Value {
    json!({
        "namespace": ctx.object.namespace(), "name": name,
        "labels": {label::CLUSTER_NAME: ctx.cluster.name(), label::CONTROL_PLANE: ""},
        "ownerReferences": [owner(ctx.object, false)],
    })
}

/// The first machine runs `kubeadm init`, the others join (ROLL-3).
fn kubeadm_config(object: &Object, is_first: bool) -> Value {
    let mut spec = made(object.at(paths::control_plane::KUBEADM_CONFIG).cloned().unwrap_or(json!({})));
    if is_first {
        spec.remove("joinConfiguration");
        return spec.into();
    }
    spec.remove("initConfiguration");
    if spec.at("joinConfiguration.controlPlane").is_none() {
        set(&mut spec, "joinConfiguration.controlPlane", json!({}));
    }
    spec.into()
}

fn secret(ctx: &ProviderContext<'_>, name: &str) -> Object {
    made(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": metadata(ctx, name),
        "data": {"value": STANDARD.encode("")},
    }))
}
