//! A new Machine of a control plane with its configuration and its infrastructure, all or none (CT-10.12, CT-10.14).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::scene::{Scene, made};
use super::cleanup;
use super::handed_down::{hand_down_metadata, hand_down_settings};
use super::member::Member;
use super::outdated::{MADE_FROM, made_from_now};
use crate::lifecycle::clone::{Extra, clone};
use crate::lifecycle::context::Fault;
use crate::lifecycle::fields::{items, owner, reference_value, set, set_annotation, set_label, text};
use crate::lifecycle::hooks::CLEANUP;
use crate::lifecycle::names;
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::step::Step;
use model::hub::contract::Contract;
use model::hub::{ContractRef, NameSubject, Object, label, version_of};

/// The finalizer of Machines (MA-1.7).
const MACHINE_FINALIZER: &str = "machine.cluster.x-k8s.io";
/// On a Machine: the control plane that made it.
const CONTROL_PLANE_NAME: &str = "cluster.x-k8s.io/control-plane-name";
/// The longest value of a label.
const LONGEST_LABEL: usize = 63;

/// Makes one Machine.
pub(super) fn make(
    scene: &Scene<'_>,
    template: &ContractRef,
    members: &[Member],
    step: &mut Step,
) -> Result<(), Fault> {
    let object = scene.object;
    let Some(found) = scene.context.referenced(template, object.namespace())? else {
        let text = format!("{} {}: {} {} was not found", object.kind(), object.key(), template.kind, template.name);
        return Err(Fault::because(text));
    };
    let name = name(scene, members)?;
    let owner = Some(owner(object, false));
    let mut infrastructure = clone(&found, &name, scene.cluster.name(), Extra { owner, ..Extra::default() });
    hand_down_metadata(object, &mut infrastructure);
    let mut bootstrap = bootstrap(scene, &name, members.is_empty())?;
    hand_down_metadata(object, &mut bootstrap);
    let machine = machine(scene, &name, &bootstrap, &infrastructure, members);
    step.tell("CreatedMachine", format!("Created Machine {name} of version {}", text(object, "spec.version")));
    step.create(vec![bootstrap, infrastructure, machine]);
    Ok(())
}

/// The name, by the naming template of the control plane if it has one. Its random characters follow from the Machines that there
/// are, so that none comes twice (MA-30.6).
fn name(scene: &Scene<'_>, members: &[Member]) -> Result<String, Fault> {
    let object = scene.object;
    let known: Vec<&str> = members.iter().map(|member| member.machine.name()).collect();
    let known = known.join(",");
    let mut count = members.len();
    let end = || {
        count += 1;
        names::end(object, &known, count - 1, scene.context.time_of_names())
    };
    let path = match scene.context.contract(object) {
        Contract::V1Beta1 => "spec.machineNamingStrategy.template",
        Contract::V1Beta2 => "spec.machineNaming.template",
    };
    names::of_machine(scene.context, object, NameSubject::ControlPlaneMachine(object.name()), path, end)
}

/// The Machine (CT-10.12), in the failure domain that has the fewest.
fn machine(scene: &Scene<'_>, name: &str, bootstrap: &Object, infrastructure: &Object, members: &[Member]) -> Object {
    let object = scene.object;
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
            "clusterName": scene.cluster.name(),
            "version": text(object, "spec.version"),
            "bootstrap": data,
            "infrastructureRef": reference_value(&infrastructure.contract_ref()),
        },
    }));
    if let Some(domain) = failure_domain(scene, members) {
        set(&mut machine, "spec.failureDomain", json!(domain));
    }
    hand_down_metadata(object, &mut machine);
    hand_down_settings(scene, &mut machine);
    set_label(&mut machine, label::CLUSTER_NAME, scene.cluster.name());
    set_label(&mut machine, label::CONTROL_PLANE, "");
    set_label(&mut machine, CONTROL_PLANE_NAME, &label_value(object.name()));
    set_annotation(&mut machine, MADE_FROM, &made_from_now(object));
    if cleanup::is_used_by(object) {
        set_annotation(&mut machine, CLEANUP, "");
    }
    machine
}

/// A name as the value of a label: itself, or a hash of it when it is long.
fn label_value(name: &str) -> String {
    if name.len() > LONGEST_LABEL { format!("hash-{:08x}", names::short_hash(name)) } else { name.to_owned() }
}

/// The failure domain for control planes with the fewest Machines, by name (CT-10.14).
fn failure_domain(scene: &Scene<'_>, members: &[Member]) -> Option<String> {
    let is_fit = |domain: &&Value| domain.get("controlPlane") == Some(&Value::Bool(true));
    let domains = items(&scene.cluster, "status.failureDomains").iter().filter(is_fit);
    let mut number: BTreeMap<&str, usize> =
        domains.filter_map(|domain| Some((domain.get("name")?.as_str()?, 0))).collect();
    for member in members {
        if let Some(known) = number.get_mut(text(&member.machine, "spec.failureDomain")) {
            *known += 1;
        }
    }
    number.into_iter().min_by_key(|(name, number)| (*number, *name)).map(|(name, _)| name.to_owned())
}

/// The configuration of a machine: of kubeadm, of the embedded provider, or no more than a Secret for other control planes.
fn bootstrap(scene: &Scene<'_>, name: &str, is_first: bool) -> Result<Object, Fault> {
    let object = scene.object;
    let (group, kind, spec) = match object.kind() {
        kind if kind.starts_with("Kubeadm") => {
            ("bootstrap.cluster.x-k8s.io", "KubeadmConfig", kubeadm_config(object, is_first))
        }
        "EmbeddedControlPlane" => {
            ("bootstrap.topologist.dev", "EmbeddedConfig", object.at("spec.bootstrap").cloned().unwrap_or(json!({})))
        }
        _ => return Ok(secret(scene, name)),
    };
    let known = scene.context.of_cluster(&GroupKind::new(group, kind), &scene.cluster_key())?;
    let version = match known.first() {
        Some(known) => version_of(known.api_version()).to_owned(),
        None if kind == "EmbeddedConfig" => "v1beta1".to_owned(),
        None => version_of(object.api_version()).to_owned(),
    };
    Ok(made(json!({
        "apiVersion": format!("{group}/{version}"), "kind": kind,
        "metadata": metadata(scene, name),
        "spec": spec,
    })))
}

fn metadata(scene: &Scene<'_>, name: &str) -> Value {
    json!({
        "namespace": scene.object.namespace(), "name": name,
        "labels": {label::CLUSTER_NAME: scene.cluster.name(), label::CONTROL_PLANE: ""},
        "ownerReferences": [owner(scene.object, false)],
    })
}

/// The first machine runs `kubeadm init`, the others join (ROLL-3).
fn kubeadm_config(object: &Object, is_first: bool) -> Value {
    let mut spec = made(object.at("spec.kubeadmConfigSpec").cloned().unwrap_or(json!({})));
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

fn secret(scene: &Scene<'_>, name: &str) -> Object {
    made(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": metadata(scene, name),
        "data": {"value": STANDARD.encode("")},
    }))
}
