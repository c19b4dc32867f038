//! Bootstrap data of Machines and MachinePools (CT-12, MA-30.2).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::failures::{self, by_settings, by_spec, is_numbered};
use super::scene::{Scene, made};
use crate::lifecycle::conditions::{Condition, put};
use crate::lifecycle::context::Fault;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::{created, later, owner, reference, set, set_annotation, stamp, text};
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::settings::FailingPart;
use crate::lifecycle::step::{Step, Write};
use model::hub::{Object, label};

const READY: &str = "Ready";
/// On the configuration of a control plane machine: when its certificates expire (MA-4.5).
const EXPIRY: &str = "machine.cluster.x-k8s.io/certificates-expiry";
/// How long certificates last.
const YEAR: core::time::Duration = core::time::Duration::from_hours(365 * 24);

/// The next step of a bootstrap configuration, in the order of CT-12.9. It has no finalizer: what it makes is a Secret that it
/// owns.
pub(super) fn step(scene: &Scene<'_>, owner: &Arc<Object>, step: &mut Step) -> Result<(), Fault> {
    let Some(mut after) = scene.begin(None, step) else { return Ok(()) };
    if scene.object.is_being_deleted() {
        step.update(scene.object, after);
        return Ok(());
    }
    if Flag::DataSecretCreated.read(scene.context, &after)? {
        scene.done(&mut after, READY);
    } else if may_begin(scene, owner, &mut after)? {
        if !is_numbered(scene, owner, step)? {
            return Ok(());
        }
        generate(scene, owner, &mut after, step)?;
    }
    step.update(scene.object, after);
    Ok(())
}

/// Whether what the data needs is there: a worker joins a control plane that is initialized (CT-12.7).
fn may_begin(scene: &Scene<'_>, owner: &Object, after: &mut Object) -> Result<bool, Fault> {
    let wait = if !scene.has_infrastructure() {
        ("WaitingForClusterInfrastructure", "the infrastructure of the Cluster is not provisioned yet")
    } else if !scene.is_initialized() && !initializes(scene, owner)? {
        ("WaitingForControlPlaneInitialized", "the control plane of the Cluster is not initialized yet")
    } else {
        return Ok(true);
    };
    scene.wait(after, READY, wait.0, wait.1);
    Ok(false)
}

/// Whether it is the Machine that initializes the control plane: the oldest one of it.
fn initializes(scene: &Scene<'_>, owner: &Object) -> Result<bool, Fault> {
    if owner.kind() != "Machine" || owner.label(label::CONTROL_PLANE).is_none() {
        return Ok(false);
    }
    let machines = scene.context.of_cluster(&GroupKind::core("Machine"), &scene.cluster_key())?;
    let ours = machines.iter().filter(|one| one.label(label::CONTROL_PLANE).is_some() && !one.is_being_deleted());
    Ok(ours.min_by_key(|one| (created(one), one.name().to_owned())).is_some_and(|first| first.name() == owner.name()))
}

/// Secret, name and flag, in this order (CT-12.3), after the time that it takes.
fn generate(scene: &Scene<'_>, owner: &Arc<Object>, after: &mut Object, step: &mut Step) -> Result<(), Fault> {
    if let Some(failure) = failure(scene, owner)? {
        let wanted = Condition::new(false, failure.reason, failure.message);
        if crate::lifecycle::conditions::reason(after, READY) != wanted.reason {
            step.warn("DataSecretFailed", format!("Failed to generate bootstrap data: {}", wanted.message));
        }
        put(after, READY, &wanted, scene.context.now);
        return Ok(());
    }
    if !scene.is_over(after, READY, scene.context.settings.timings.bootstrap, step) {
        return Ok(());
    }
    step.writes.push(Write::CreateIfAbsent { workload: None, object: secret(scene) });
    if owner.label(label::CONTROL_PLANE).is_some() {
        set_annotation(after, EXPIRY, stamp(later(scene.context.now, YEAR)).as_str().unwrap_or_default());
    }
    set(after, "status.dataSecretName", json!(scene.object.name()));
    Flag::DataSecretCreated.raise(scene.context, after);
    scene.done(after, READY);
    step.tell("DataSecretCreated", format!("Created Secret {} with bootstrap data", scene.object.name()));
    Ok(())
}

/// Why the data never comes: as the settings say, or as the infrastructure of the same Machine says.
fn failure(scene: &Scene<'_>, owner: &Object) -> Result<Option<failures::Failure>, Fault> {
    if owner.kind() != "Machine" {
        return Ok(None);
    }
    let part = FailingPart::Bootstrap;
    if let Some(failure) = by_settings(scene, owner, part) {
        return Ok(Some(failure));
    }
    let infrastructure = reference(owner, "spec.infrastructureRef");
    let found = scene.context.referenced(&infrastructure, owner.namespace())?;
    Ok(found.and_then(|found| by_spec(&found, part)))
}

/// The Secret, named like the configuration that controls it (CT-12.2).
fn secret(scene: &Scene<'_>) -> Object {
    let config = scene.object;
    let format = [text(config, "spec.format"), "cloud-config"].into_iter().find(|format| !format.is_empty());
    made(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {
            "namespace": config.namespace(), "name": config.name(),
            "labels": {label::CLUSTER_NAME: scene.cluster.name()},
            "ownerReferences": [owner(config, true)],
        },
        "data": {"format": STANDARD.encode(format.unwrap_or_default()), "value": STANDARD.encode(payload(config))},
    }))
}

/// What a machine would run: the files and commands of its configuration, and the mark of success (CT-12.5).
fn payload(config: &Object) -> String {
    let list = |path: &str| config.at(path).and_then(Value::as_array).cloned().unwrap_or_default();
    let kubeadm = ["preKubeadmCommands", "postKubeadmCommands"].map(|name| list(&format!("spec.{name}"))).concat();
    let mut commands: Vec<Value> = list("spec.commands").into_iter().chain(kubeadm).collect();
    commands.push(json!("mkdir -p /run/cluster-api && touch /run/cluster-api/bootstrap-success.complete"));
    let data = json!({"write_files": list("spec.files"), "runcmd": commands});
    format!("#cloud-config\n{data}\n")
}
