//! Infrastructure of machine pools (CT-13): instances with Nodes, replaced one at a time when their source changes
//! (ROLL-15).

use std::sync::Arc;

use core::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::context::ProviderContext;
use super::delays::delay;
use super::virtual_node::{NodeDescription, provider_id};
use crate::lifecycle::conditions::{ConditionState, put};
use crate::lifecycle::context::StepError;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::{remaining, remove_finalizer, set, set_annotation, stamp, text};
use crate::lifecycle::names;
use crate::lifecycle::step::{ObjectWrite, Reconciliation};
use golang::calendar::Moment;
use model::hub::{Object, paths, prefixed_name};

/// Finalizer of pool infrastructure until its instances are gone.
pub(super) const FINALIZER: &str = "lifecycle.topologist.dev/infrastructure-pool";
/// Annotation of pool infrastructure with its instances.
const INSTANCES: &str = "lifecycle.topologist.dev/instances";
const READY: &str = "Ready";
/// Maximum number of instances of a pool. One step creates and lists all of them.
const MOST: usize = 10_000;

/// One instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredInstance {
    name: String,
    begun: String,
    /// Hash of its source; empty for one adopted by a simulation, which counts as up to date.
    made_from: String,
    version: String,
}

/// An instance of a pool, which has no Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolInstance {
    pub name: String,
    pub version: String,
    /// Whether the pool lists its provider ID.
    pub runs: bool,
}

/// The instances of pool infrastructure in a simulation; empty for other objects.
pub fn instances(object: &Object) -> Vec<PoolInstance> {
    let reported = object.provider_id_list();
    let instance = |StoredInstance { name, version, .. }: StoredInstance| {
        let runs = reported.contains(&json!(provider_id(&name)));
        PoolInstance { name, version, runs }
    };
    known(object).into_iter().map(instance).collect()
}

/// The next step of the infrastructure of a pool.
pub(super) fn step(ctx: &ProviderContext<'_>, pool: &Arc<Object>, step: &mut Reconciliation) -> Result<(), StepError> {
    let Some(mut after) = ctx.begin(Some(FINALIZER), step) else { return Ok(()) };
    if ctx.object.is_being_deleted() {
        match ctx.left_since_deletion(ctx.context.settings.timings.deletion) {
            Some(left) => step.requeue_after(left),
            None => remove_finalizer(&mut after, FINALIZER),
        }
        step.update(ctx.object, after);
        return Ok(());
    }
    if may_begin(ctx, pool, &mut after) {
        provide(ctx, pool, &mut after, step)?;
    }
    step.update(ctx.object, after);
    Ok(())
}

/// Whether the prerequisites of instances exist (CT-18.3).
fn may_begin(ctx: &ProviderContext<'_>, pool: &Object, after: &mut Object) -> bool {
    let (reason, message) = if !ctx.has_infrastructure() {
        ("WaitingForClusterInfrastructure", "the infrastructure of the Cluster is not provisioned yet")
    } else if text(pool, paths::worker::BOOTSTRAP_DATA_SECRET).is_empty() {
        ("WaitingForBootstrapData", "the MachinePool has no bootstrap data yet")
    } else if !ctx.is_connected() {
        ("WaitingForControlPlaneInitialized", "the API server of the workload cluster does not answer yet")
    } else {
        return true;
    };
    ctx.wait(after, READY, reason, message);
    false
}

/// Reconciles the instances, and the status (CT-13.1).
fn provide(
    ctx: &ProviderContext<'_>,
    pool: &Arc<Object>,
    after: &mut Object,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    let wanted = usize::try_from(pool.replicas().unwrap_or(1)).unwrap_or_default();
    if wanted > MOST {
        let message = format!("spec.replicas of the MachinePool is {wanted}; a pool has {MOST} instances at most");
        put(after, READY, &ConditionState::new(false, "TooManyInstances", message), ctx.context.now);
        return Ok(());
    }
    let made_from = made_from(ctx, pool)?;
    let mut instances = known(ctx.object);
    for adopted in instances.iter_mut().filter(|instance| instance.made_from.is_empty()) {
        adopted.made_from.clone_from(&made_from);
    }
    if wait(ctx, &instances, step) == 0 {
        change(ctx, pool, &mut instances, wanted, &made_from, step);
        wait(ctx, &instances, step);
    }
    set_annotation(after, INSTANCES, &serde_json::to_string(&instances).unwrap_or_default());
    let up: Vec<&StoredInstance> = instances.iter().filter(|instance| left(ctx, instance).is_none()).collect();
    register(ctx, &up, step);
    let ids: Vec<Value> = up.iter().map(|instance| json!(provider_id(&instance.name))).collect();
    match ids.is_empty() {
        true => drop(after.remove(paths::PROVIDER_ID_LIST)),
        false => set(after, paths::PROVIDER_ID_LIST, Value::Array(ids)),
    }
    set(after, paths::status::REPLICAS, json!(up.len()));
    if up.len() >= wanted {
        if !Flag::Provisioned.read(ctx.context, after)? {
            Flag::Provisioned.raise(ctx.context, after);
            step.event("Provisioned", "Provisioned the instances of the pool");
        }
        ctx.done(after, READY);
    } else {
        let message = format!("{} of {wanted} instances run", up.len());
        put(after, READY, &ConditionState::new(false, "Provisioning", message), ctx.context.now);
    }
    Ok(())
}

fn known(object: &Object) -> Vec<StoredInstance> {
    object.annotation(INSTANCES).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// Pool infrastructure with running instances of another provider.
pub(super) fn bring_up(object: &mut Object, version: &str, count: usize, now: Moment) {
    if object.annotation(INSTANCES).is_some() {
        return;
    }
    let instance = |number: usize| StoredInstance {
        name: prefixed_name(&format!("{}-", object.name()), &number.to_string()),
        begun: crate::lifecycle::fields::created(object).map_or_else(|| now.to_string(), |time| time.to_string()),
        made_from: String::new(),
        version: version.to_owned(),
    };
    let instances: Vec<StoredInstance> = (0..count).map(instance).collect();
    let ids = instances.iter().map(|instance| json!(provider_id(&instance.name))).collect();
    set(object, paths::PROVIDER_ID_LIST, Value::Array(ids));
    set_annotation(object, INSTANCES, &serde_json::to_string(&instances).unwrap_or_default());
}

/// The source of new instances: version, bootstrap configuration, and infrastructure spec.
fn made_from(ctx: &ProviderContext<'_>, pool: &Object) -> Result<String, StepError> {
    let config = pool.contract_ref_at(paths::worker::BOOTSTRAP_CONFIG_REF);
    let config = ctx.context.referenced(&config, pool.namespace())?;
    let mut own = (**ctx.object).clone();
    own.remove(paths::PROVIDER_ID_LIST);
    let parts = json!([
        pool.machine_version(),
        text(pool, paths::worker::BOOTSTRAP_DATA_SECRET),
        config.as_ref().and_then(|config| config.at("spec")),
        own.at("spec"),
    ]);
    Ok(format!("{:08x}", names::short_hash(&parts.to_string())))
}

/// Remaining startup time of an instance. A running one takes no time again (CT-19.7).
fn left(ctx: &ProviderContext<'_>, instance: &StoredInstance) -> Option<Duration> {
    if ctx.object.provider_id_list().contains(&json!(provider_id(&instance.name))) {
        return None;
    }
    let (settings, timings) = (ctx.context.settings, &ctx.context.settings.timings);
    let part = |name: &str, timing: (&str, Duration)| {
        delay(settings, ctx.object, &format!("spec.backend.inMemory.{name}"), timing)
    };
    let lasts = part("vm", ("infrastructure", timings.infrastructure)) + part("node", ("node", timings.node));
    let lasts = lasts + timings.controllers;
    remaining(Moment::parse(&instance.begun)?, lasts, ctx.context.now)
}

/// Number of instances that do not run yet; requeues for the next one.
fn wait(ctx: &ProviderContext<'_>, instances: &[StoredInstance], step: &mut Reconciliation) -> usize {
    let waits: Vec<Duration> = instances.iter().filter_map(|instance| left(ctx, instance)).collect();
    waits.iter().for_each(|wait| step.requeue_after(*wait));
    waits.len()
}

/// Creates or deletes instances; an outdated one is deleted after its replacement runs.
fn change(
    ctx: &ProviderContext<'_>,
    pool: &Object,
    instances: &mut Vec<StoredInstance>,
    wanted: usize,
    made_from: &str,
    step: &mut Reconciliation,
) {
    let is_old = |instance: &StoredInstance| instance.made_from != made_from;
    let old = instances.iter().filter(|instance| is_old(instance)).count();
    let most = wanted + usize::from(old > 0 && wanted > 0);
    let before = instances.len();
    while instances.len() < most {
        instances.push(made(ctx, pool, instances, made_from));
    }
    if before < most {
        step.event("CreatedInstances", format!("Created {} instances", most - before));
    } else if before > wanted {
        let surplus = before - wanted;
        instances.sort_by_key(|instance| (!is_old(instance), instance.begun.clone(), instance.name.clone()));
        instances.drain(..surplus);
        step.event("DeletedInstances", format!("Deleted {surplus} instances"));
        if old > surplus {
            step.requeue_after(Duration::ZERO);
        }
    }
    instances.sort_by(|one, other| one.name.cmp(&other.name));
}

fn made(ctx: &ProviderContext<'_>, pool: &Object, instances: &[StoredInstance], made_from: &str) -> StoredInstance {
    let known: Vec<&str> = instances.iter().map(|instance| &*instance.name).collect();
    let end = names::name_suffix(ctx.object, &known.join(","), instances.len(), ctx.context.now);
    StoredInstance {
        name: prefixed_name(&format!("{}-", ctx.object.name()), &end),
        begun: stamp(ctx.context.now).as_str().unwrap_or_default().to_owned(),
        made_from: made_from.to_owned(),
        version: pool.machine_version().to_owned(),
    }
}

/// Registers Nodes of newly running instances.
fn register(ctx: &ProviderContext<'_>, up: &[&StoredInstance], step: &mut Reconciliation) {
    let reported = ctx.object.provider_id_list();
    for instance in up.iter().filter(|one| !reported.contains(&json!(provider_id(&one.name)))) {
        let object = node(instance, ctx.context.now);
        step.require(ObjectWrite::CreateIfAbsent { workload: Some(ctx.cluster_key()), object });
    }
}

/// The Nodes of the reported instances.
pub(super) fn registered(ctx: &ProviderContext<'_>) -> Vec<Object> {
    let reported = ctx.object.provider_id_list();
    let instances = known(ctx.object).into_iter();
    let is_reported = |one: &StoredInstance| reported.contains(&json!(provider_id(&one.name)));
    instances.filter(is_reported).map(|one| node(&one, ctx.context.now)).collect()
}

fn node(instance: &StoredInstance, now: Moment) -> Object {
    let described = NodeDescription {
        name: &instance.name,
        provider_id: provider_id(&instance.name),
        version: &instance.version,
        is_control_plane: false,
        is_ready: true,
    };
    described.node(now)
}
