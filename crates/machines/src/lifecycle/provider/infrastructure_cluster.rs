//! Infrastructure clusters (CT-6, CT-18.1, CT-18.2, CT-19.2).

use serde_json::{Map, Value, json};

use super::delays::delay;
use super::failures::by_spec;
use super::infrastructure_machine::report_failure;
use super::scene::{Scene, has_endpoint};
use crate::lifecycle::conditions::{Condition, put, reason};
use crate::lifecycle::context::Fault;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::{items, remove_finalizer, set};
use crate::lifecycle::settings::FailingPart;
use crate::lifecycle::step::{Step, Write};
use model::hub::contract::Contract;
use model::hub::{Object, annotation};

/// On infrastructure clusters until their workload cluster is gone.
pub(super) const FINALIZER: &str = "lifecycle.topologist.dev/infrastructure-cluster";
const READY: &str = "Ready";

/// The next step of an infrastructure cluster, in the order of CT-18.1.
pub(super) fn step(scene: &Scene<'_>, step: &mut Step) -> Result<(), Fault> {
    let is_managed = scene.object.annotation(annotation::MANAGED_BY).is_some();
    if is_managed && !scene.context.settings.plays_managed {
        return Ok(());
    }
    let Some(mut after) = scene.begin(Some(FINALIZER), step) else { return Ok(()) };
    if scene.object.is_being_deleted() {
        delete(scene, after, step);
        return Ok(());
    }
    if Flag::Provisioned.read(scene.context, &after)? || is_up(scene, &mut after, step) {
        provide(scene, &mut after, step)?;
    }
    step.update(scene.object, after);
    Ok(())
}

/// Whether the time is over that the infrastructure takes; one that fails never comes (CT-6.7).
fn is_up(scene: &Scene<'_>, after: &mut Object, step: &mut Step) -> bool {
    if let Some(failure) = by_spec(scene.object, FailingPart::Infrastructure) {
        report_failure(scene, after, &failure);
        if reason(after, READY) != failure.reason {
            step.warn("ProvisioningFailed", format!("Failed to provision infrastructure: {}", failure.message));
        }
        put(after, READY, &Condition::new(false, failure.reason, failure.message), scene.context.now);
        return false;
    }
    let settings = scene.context.settings;
    let lasts = delay(settings, scene.object, "spec.backend.inMemory", ("cluster", settings.timings.cluster));
    scene.is_over(after, READY, lasts, step)
}

/// Endpoint, flag and failure domains (CT-6.2, CT-6.5, CT-6.6).
fn provide(scene: &Scene<'_>, after: &mut Object, step: &mut Step) -> Result<(), Fault> {
    if !has_endpoint(after) && !has_endpoint(&scene.cluster) {
        let endpoint = &scene.context.settings.endpoint;
        set(after, "spec.controlPlaneEndpoint", json!({"host": endpoint.host, "port": endpoint.port}));
    }
    if !Flag::Provisioned.read(scene.context, after)? {
        Flag::Provisioned.raise(scene.context, after);
        step.tell("Provisioned", "Provisioned the infrastructure of the Cluster");
    }
    let domains = items(after, "spec.failureDomains");
    if !domains.is_empty() {
        let domains = failure_domains(domains, scene.context.contract(scene.object));
        set(after, "status.failureDomains", domains);
    }
    scene.done(after, READY);
    Ok(())
}

/// Failure domains as a contract has them: a map, or a list (CT-5.10 to CT-5.12).
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

/// The workload cluster goes, after a while the finalizer (CT-18.2, CT-19.2).
fn delete(scene: &Scene<'_>, mut after: Object, step: &mut Step) {
    if scene.is_hosted() {
        step.writes.push(Write::Connect { workload: scene.cluster_key(), up: false });
    }
    match scene.left_since_deletion(scene.context.settings.timings.deletion) {
        Some(left) => step.look_again(left),
        None => remove_finalizer(&mut after, FINALIZER),
    }
    step.update(scene.object, after);
}
