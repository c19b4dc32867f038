//! Bootstrap data of Machines and MachinePools (CT-12, MA-30.2).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::context::{ProviderContext, made};
use super::failures::{self, by_settings, by_spec, is_numbered};
use crate::lifecycle::conditions::{ConditionState, put};
use crate::lifecycle::context::StepError;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::{created, later, owner, set, set_annotation, stamp, text};
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::settings::FailingPart;
use crate::lifecycle::step::{ObjectWrite, Reconciliation};
use model::hub::{Object, label, paths};

const READY: &str = "Ready";
/// On the configuration of a control plane machine: expiry of its certificates (MA-4.5).
const EXPIRY: &str = "machine.cluster.x-k8s.io/certificates-expiry";
/// Lifetime of certificates.
const YEAR: core::time::Duration = core::time::Duration::from_hours(365 * 24);

/// The next step of a bootstrap configuration, in the order of CT-12.9. It needs no finalizer: it only creates a Secret
/// that it owns.
pub(super) fn step(ctx: &ProviderContext<'_>, owner: &Arc<Object>, step: &mut Reconciliation) -> Result<(), StepError> {
    let Some(mut after) = ctx.begin(None, step) else { return Ok(()) };
    if ctx.object.is_being_deleted() {
        step.update(ctx.object, after);
        return Ok(());
    }
    if Flag::DataSecretCreated.read(ctx.context, &after)? {
        ctx.done(&mut after, READY);
    } else if may_begin(ctx, owner, &mut after)? {
        if !is_numbered(ctx, owner, step)? {
            return Ok(());
        }
        generate(ctx, owner, &mut after, step)?;
    }
    step.update(ctx.object, after);
    Ok(())
}

/// Whether the prerequisites of the data exist: a worker joins an initialized control plane (CT-12.7).
fn may_begin(ctx: &ProviderContext<'_>, owner: &Object, after: &mut Object) -> Result<bool, StepError> {
    let wait = if !ctx.has_infrastructure() {
        ("WaitingForClusterInfrastructure", "the infrastructure of the Cluster is not provisioned yet")
    } else if !ctx.is_initialized() && !initializes(ctx, owner)? {
        ("WaitingForControlPlaneInitialized", "the control plane of the Cluster is not initialized yet")
    } else {
        return Ok(true);
    };
    ctx.wait(after, READY, wait.0, wait.1);
    Ok(false)
}

/// Whether this is the Machine that initializes the control plane: its oldest one.
fn initializes(ctx: &ProviderContext<'_>, owner: &Object) -> Result<bool, StepError> {
    if owner.kind() != "Machine" || owner.label(label::CONTROL_PLANE).is_none() {
        return Ok(false);
    }
    let machines = ctx.context.of_cluster(&GroupKind::core("Machine"), &ctx.cluster_key())?;
    let ours = machines.iter().filter(|one| one.label(label::CONTROL_PLANE).is_some() && !one.is_being_deleted());
    Ok(ours.min_by_key(|one| (created(one), one.name().to_owned())).is_some_and(|first| first.name() == owner.name()))
}

/// Secret, name and flag in this order (CT-12.3), after the configured delay.
fn generate(
    ctx: &ProviderContext<'_>,
    owner: &Arc<Object>,
    after: &mut Object,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    if let Some(failure) = failure(ctx, owner)? {
        let wanted = ConditionState::new(false, failure.reason, failure.message);
        if crate::lifecycle::conditions::reason(after, READY) != wanted.reason {
            step.warn("DataSecretFailed", format!("Failed to generate bootstrap data: {}", wanted.message));
        }
        put(after, READY, &wanted, ctx.context.now);
        return Ok(());
    }
    if !ctx.is_over(after, READY, ctx.context.settings.timings.bootstrap, step) {
        return Ok(());
    }
    step.require(ObjectWrite::CreateIfAbsent { workload: None, object: secret(ctx) });
    if owner.label(label::CONTROL_PLANE).is_some() {
        set_annotation(after, EXPIRY, stamp(later(ctx.context.now, YEAR)).as_str().unwrap_or_default());
    }
    set(after, paths::bootstrap::DATA_SECRET, json!(ctx.object.name()));
    Flag::DataSecretCreated.raise(ctx.context, after);
    ctx.done(after, READY);
    step.event("DataSecretCreated", format!("Created Secret {} with bootstrap data", ctx.object.name()));
    Ok(())
}

/// The injected failure of the data, from the settings or from the infrastructure of the same Machine.
fn failure(ctx: &ProviderContext<'_>, owner: &Object) -> Result<Option<failures::InjectedFault>, StepError> {
    if owner.kind() != "Machine" {
        return Ok(None);
    }
    let part = FailingPart::Bootstrap;
    if let Some(failure) = by_settings(ctx, owner, part) {
        return Ok(Some(failure));
    }
    let infrastructure = owner.infrastructure_ref();
    let found = ctx.context.referenced(&infrastructure, owner.namespace())?;
    Ok(found.and_then(|found| by_spec(&found, part)))
}

/// The Secret, named like its configuration (CT-12.2).
fn secret(ctx: &ProviderContext<'_>) -> Object {
    let config = ctx.object;
    let format = [text(config, paths::embedded::FORMAT), "cloud-config"].into_iter().find(|format| !format.is_empty());
    made(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {
            "namespace": config.namespace(), "name": config.name(),
            "labels": {label::CLUSTER_NAME: ctx.cluster.name()},
            "ownerReferences": [owner(config, true)],
        },
        "data": {"format": STANDARD.encode(format.unwrap_or_default()), "value": STANDARD.encode(payload(config))},
    }))
}

/// Cloud-init of a machine: files and commands of its configuration, and the success marker (CT-12.5).
fn payload(config: &Object) -> String {
    let list = |path: &str| config.at(path).and_then(Value::as_array).cloned().unwrap_or_default();
    let kubeadm = ["preKubeadmCommands", "postKubeadmCommands"].map(|name| list(&format!("spec.{name}"))).concat();
    let mut commands: Vec<Value> = list(paths::embedded::COMMANDS).into_iter().chain(kubeadm).collect();
    commands.push(json!("mkdir -p /run/cluster-api && touch /run/cluster-api/bootstrap-success.complete"));
    let data = json!({"write_files": list(paths::embedded::FILES), "runcmd": commands});
    format!("#cloud-config\n{data}\n")
}
