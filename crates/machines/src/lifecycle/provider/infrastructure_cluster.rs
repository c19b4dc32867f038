//! Infrastructure clusters (CT-6, CT-18.1, CT-18.2, CT-19.2).

use serde_json::{Map, Value, json};

use super::context::ProviderContext;
use super::delays::delay;
use super::failures::by_spec;
use super::infrastructure_machine::report_failure;
use crate::lifecycle::conditions::{ConditionState, put, reason};
use crate::lifecycle::context::StepError;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::{items, remove_finalizer, set};
use crate::lifecycle::settings::FailingPart;
use crate::lifecycle::step::{ObjectWrite, Reconciliation};
use model::hub::contract::Contract;
use model::hub::{Object, annotation, paths};

/// Finalizer of infrastructure clusters until their workload cluster is gone.
pub(super) const FINALIZER: &str = "lifecycle.topologist.dev/infrastructure-cluster";
const READY: &str = "Ready";

/// The next step of an infrastructure cluster, in the order of CT-18.1.
pub(super) fn step(ctx: &ProviderContext<'_>, step: &mut Reconciliation) -> Result<(), StepError> {
    let is_managed = ctx.object.annotation(annotation::MANAGED_BY).is_some();
    if is_managed && !ctx.context.settings.plays_managed {
        return Ok(());
    }
    let Some(mut after) = ctx.begin(Some(FINALIZER), step) else { return Ok(()) };
    if ctx.object.is_being_deleted() {
        delete(ctx, after, step);
        return Ok(());
    }
    if Flag::Provisioned.read(ctx.context, &after)? || is_up(ctx, &mut after, step) {
        provide(ctx, &mut after, step)?;
    }
    step.update(ctx.object, after);
    Ok(())
}

/// Whether the provisioning delay has passed; never for a failing one (CT-6.7).
fn is_up(ctx: &ProviderContext<'_>, after: &mut Object, step: &mut Reconciliation) -> bool {
    if let Some(failure) = by_spec(ctx.object, FailingPart::Infrastructure) {
        report_failure(ctx, after, &failure);
        if reason(after, READY) != failure.reason {
            step.warn("ProvisioningFailed", format!("Failed to provision infrastructure: {}", failure.message));
        }
        put(after, READY, &ConditionState::new(false, failure.reason, failure.message), ctx.context.now);
        return false;
    }
    let settings = ctx.context.settings;
    let lasts = delay(settings, ctx.object, paths::embedded::BACKEND, ("cluster", settings.timings.cluster));
    ctx.is_over(after, READY, lasts, step)
}

/// Endpoint, flag and failure domains (CT-6.2, CT-6.5, CT-6.6).
fn provide(ctx: &ProviderContext<'_>, after: &mut Object, step: &mut Reconciliation) -> Result<(), StepError> {
    if !after.has_control_plane_endpoint() && !ctx.cluster.has_control_plane_endpoint() {
        let endpoint = &ctx.context.settings.endpoint;
        set(after, paths::cluster::CONTROL_PLANE_ENDPOINT, json!({"host": endpoint.host, "port": endpoint.port}));
    }
    if !Flag::Provisioned.read(ctx.context, after)? {
        Flag::Provisioned.raise(ctx.context, after);
        step.event("Provisioned", "Provisioned the infrastructure of the Cluster");
    }
    let domains = items(after, paths::embedded::FAILURE_DOMAINS);
    if !domains.is_empty() {
        let domains = failure_domains(domains, ctx.context.contract(ctx.object));
        set(after, paths::status::FAILURE_DOMAINS, domains);
    }
    ctx.done(after, READY);
    Ok(())
}

/// Failure domains in the form of a contract: a map or a list (CT-5.10 to CT-5.12).
fn failure_domains(domains: &[Value], contract: Contract) -> Value {
    if contract == Contract::V1Beta2 {
        return Value::Array(domains.to_vec());
    }
    let entry = |domain: &Value| {
        let mut members = domain.as_object()?.clone();
        let name = members.remove("name")?.as_str()?.to_owned();
        Some((name, Value::Object(members)))
    };
    Value::Object(domains.iter().filter_map(entry).collect::<Map<_, _>>())
}

/// Deletes the workload cluster, then, after a delay, removes the finalizer (CT-18.2, CT-19.2).
fn delete(ctx: &ProviderContext<'_>, mut after: Object, step: &mut Reconciliation) {
    if ctx.is_hosted() {
        step.require(ObjectWrite::Connect { workload: ctx.cluster_key(), up: false });
    }
    match ctx.left_since_deletion(ctx.context.settings.timings.deletion) {
        Some(left) => step.requeue_after(left),
        None => remove_finalizer(&mut after, FINALIZER),
    }
    step.update(ctx.object, after);
}
