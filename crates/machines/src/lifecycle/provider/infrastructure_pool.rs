//! Infrastructure of machine pools (CT-13): instances, each with a Node, that are replaced one by one when what they are made from
//! changes (ROLL-15).

use std::sync::Arc;

use core::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::delays::delay;
use super::scene::Scene;
use super::virtual_node::{Described, provider_id};
use crate::lifecycle::conditions::{Condition, put};
use crate::lifecycle::context::Fault;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::{
    items, number, reference, remaining, remove_finalizer, set, set_annotation, stamp, text,
};
use crate::lifecycle::names;
use crate::lifecycle::step::{Step, Write};
use golang::calendar::Moment;
use model::hub::{Object, prefixed_name};

/// On the infrastructure of pools until their instances are gone.
pub(super) const FINALIZER: &str = "lifecycle.topologist.dev/infrastructure-pool";
/// On the infrastructure of a pool: its instances.
const INSTANCES: &str = "lifecycle.topologist.dev/instances";
const READY: &str = "Ready";
/// How many instances a pool has at most. One step makes and lists all of them.
const MOST: usize = 10_000;

/// One instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Instance {
    name: String,
    begun: String,
    /// A hash of what it is made from; empty in a simulation that took it over: it is as the pool asks for then.
    made_from: String,
    version: String,
}

/// An instance of a pool, which is a machine without a Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolInstance {
    pub name: String,
    pub version: String,
    /// Whether the pool lists its provider id.
    pub runs: bool,
}

/// The instances that the infrastructure of a pool has in a simulation; none for other objects.
pub fn instances(object: &Object) -> Vec<PoolInstance> {
    let reported = items(object, "spec.providerIDList");
    let instance = |Instance { name, version, .. }: Instance| {
        let runs = reported.contains(&json!(provider_id(&name)));
        PoolInstance { name, version, runs }
    };
    known(object).into_iter().map(instance).collect()
}

/// The next step of the infrastructure of a pool.
pub(super) fn step(scene: &Scene<'_>, pool: &Arc<Object>, step: &mut Step) -> Result<(), Fault> {
    let Some(mut after) = scene.begin(Some(FINALIZER), step) else { return Ok(()) };
    if scene.object.is_being_deleted() {
        match scene.left_since_deletion(scene.context.settings.timings.deletion) {
            Some(left) => step.look_again(left),
            None => remove_finalizer(&mut after, FINALIZER),
        }
        step.update(scene.object, after);
        return Ok(());
    }
    if may_begin(scene, pool, &mut after) {
        provide(scene, pool, &mut after, step)?;
    }
    step.update(scene.object, after);
    Ok(())
}

/// Whether what instances need is there (CT-18.3).
fn may_begin(scene: &Scene<'_>, pool: &Object, after: &mut Object) -> bool {
    let (reason, message) = if !scene.has_infrastructure() {
        ("WaitingForClusterInfrastructure", "the infrastructure of the Cluster is not provisioned yet")
    } else if text(pool, "spec.template.spec.bootstrap.dataSecretName").is_empty() {
        ("WaitingForBootstrapData", "the MachinePool has no bootstrap data yet")
    } else if !scene.is_connected() {
        ("WaitingForControlPlaneInitialized", "the API server of the workload cluster does not answer yet")
    } else {
        return true;
    };
    scene.wait(after, READY, reason, message);
    false
}

/// Instances as they should be, and what there is to report (CT-13.1).
fn provide(scene: &Scene<'_>, pool: &Arc<Object>, after: &mut Object, step: &mut Step) -> Result<(), Fault> {
    let wanted = usize::try_from(number(pool, "spec.replicas").unwrap_or(1)).unwrap_or_default();
    if wanted > MOST {
        let message = format!("spec.replicas of the MachinePool is {wanted}; a pool has {MOST} instances at most");
        put(after, READY, &Condition::new(false, "TooManyInstances", message), scene.context.now);
        return Ok(());
    }
    let made_from = made_from(scene, pool)?;
    let mut instances = known(scene.object);
    for adopted in instances.iter_mut().filter(|instance| instance.made_from.is_empty()) {
        adopted.made_from.clone_from(&made_from);
    }
    if wait(scene, &instances, step) == 0 {
        change(scene, pool, &mut instances, wanted, &made_from, step);
        wait(scene, &instances, step);
    }
    set_annotation(after, INSTANCES, &serde_json::to_string(&instances).unwrap_or_default());
    let up: Vec<&Instance> = instances.iter().filter(|instance| left(scene, instance).is_none()).collect();
    register(scene, &up, step);
    let ids: Vec<Value> = up.iter().map(|instance| json!(provider_id(&instance.name))).collect();
    match ids.is_empty() {
        true => drop(after.remove("spec.providerIDList")),
        false => set(after, "spec.providerIDList", Value::Array(ids)),
    }
    set(after, "status.replicas", json!(up.len()));
    if up.len() >= wanted {
        if !Flag::Provisioned.read(scene.context, after)? {
            Flag::Provisioned.raise(scene.context, after);
            step.tell("Provisioned", "Provisioned the instances of the pool");
        }
        scene.done(after, READY);
    } else {
        let message = format!("{} of {wanted} instances run", up.len());
        put(after, READY, &Condition::new(false, "Provisioning", message), scene.context.now);
    }
    Ok(())
}

fn known(object: &Object) -> Vec<Instance> {
    object.annotation(INSTANCES).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The infrastructure of a pool with so many instances that run, made by another provider.
pub(super) fn bring_up(object: &mut Object, version: &str, count: usize, now: Moment) {
    if object.annotation(INSTANCES).is_some() {
        return;
    }
    let instance = |number: usize| Instance {
        name: prefixed_name(&format!("{}-", object.name()), &number.to_string()),
        begun: crate::lifecycle::fields::created(object).map_or_else(|| now.to_string(), |time| time.to_string()),
        made_from: String::new(),
        version: version.to_owned(),
    };
    let instances: Vec<Instance> = (0..count).map(instance).collect();
    let ids = instances.iter().map(|instance| json!(provider_id(&instance.name))).collect();
    set(object, "spec.providerIDList", Value::Array(ids));
    set_annotation(object, INSTANCES, &serde_json::to_string(&instances).unwrap_or_default());
}

/// What instances are made from now: the version, the bootstrap configuration, and the spec of the infrastructure.
fn made_from(scene: &Scene<'_>, pool: &Object) -> Result<String, Fault> {
    let config = reference(pool, "spec.template.spec.bootstrap.configRef");
    let config = scene.context.referenced(&config, pool.namespace())?;
    let mut own = (**scene.object).clone();
    own.remove("spec.providerIDList");
    let parts = json!([
        text(pool, "spec.template.spec.version"),
        text(pool, "spec.template.spec.bootstrap.dataSecretName"),
        config.as_ref().and_then(|config| config.at("spec")),
        own.at("spec"),
    ]);
    Ok(format!("{:08x}", names::short_hash(&parts.to_string())))
}

/// How much is left until an instance runs. One that runs already takes no time again (CT-19.7).
fn left(scene: &Scene<'_>, instance: &Instance) -> Option<Duration> {
    if items(scene.object, "spec.providerIDList").contains(&json!(provider_id(&instance.name))) {
        return None;
    }
    let (settings, timings) = (scene.context.settings, &scene.context.settings.timings);
    let part = |name: &str, timing: (&str, Duration)| {
        delay(settings, scene.object, &format!("spec.backend.inMemory.{name}"), timing)
    };
    let lasts = part("vm", ("infrastructure", timings.infrastructure)) + part("node", ("node", timings.node));
    let lasts = lasts + timings.controllers;
    remaining(Moment::parse(&instance.begun)?, lasts, scene.context.now)
}

/// How many instances do not run yet; the step is made again when the next one does.
fn wait(scene: &Scene<'_>, instances: &[Instance], step: &mut Step) -> usize {
    let waits: Vec<Duration> = instances.iter().filter_map(|instance| left(scene, instance)).collect();
    waits.iter().for_each(|wait| step.look_again(*wait));
    waits.len()
}

/// More instances, or fewer; an outdated one goes after another one has come.
fn change(
    scene: &Scene<'_>,
    pool: &Object,
    instances: &mut Vec<Instance>,
    wanted: usize,
    made_from: &str,
    step: &mut Step,
) {
    let is_old = |instance: &Instance| instance.made_from != made_from;
    let old = instances.iter().filter(|instance| is_old(instance)).count();
    let most = wanted + usize::from(old > 0 && wanted > 0);
    let before = instances.len();
    while instances.len() < most {
        instances.push(made(scene, pool, instances, made_from));
    }
    if before < most {
        step.tell("CreatedInstances", format!("Created {} instances", most - before));
    } else if before > wanted {
        let surplus = before - wanted;
        instances.sort_by_key(|instance| (!is_old(instance), instance.begun.clone(), instance.name.clone()));
        instances.drain(..surplus);
        step.tell("DeletedInstances", format!("Deleted {surplus} instances"));
        if old > surplus {
            step.look_again(Duration::ZERO);
        }
    }
    instances.sort_by(|one, other| one.name.cmp(&other.name));
}

fn made(scene: &Scene<'_>, pool: &Object, instances: &[Instance], made_from: &str) -> Instance {
    let known: Vec<&str> = instances.iter().map(|instance| &*instance.name).collect();
    let end = names::end(scene.object, &known.join(","), instances.len(), scene.context.now);
    Instance {
        name: prefixed_name(&format!("{}-", scene.object.name()), &end),
        begun: stamp(scene.context.now).as_str().unwrap_or_default().to_owned(),
        made_from: made_from.to_owned(),
        version: text(pool, "spec.template.spec.version").to_owned(),
    }
}

/// Nodes of instances that run now and were not reported before.
fn register(scene: &Scene<'_>, up: &[&Instance], step: &mut Step) {
    let reported = items(scene.object, "spec.providerIDList");
    for instance in up.iter().filter(|one| !reported.contains(&json!(provider_id(&one.name)))) {
        let object = node(instance, scene.context.now);
        step.writes.push(Write::CreateIfAbsent { workload: Some(scene.cluster_key()), object });
    }
}

/// The Nodes of the instances that are reported.
pub(super) fn registered(scene: &Scene<'_>) -> Vec<Object> {
    let reported = items(scene.object, "spec.providerIDList");
    let instances = known(scene.object).into_iter();
    let is_reported = |one: &Instance| reported.contains(&json!(provider_id(&one.name)));
    instances.filter(is_reported).map(|one| node(&one, scene.context.now)).collect()
}

fn node(instance: &Instance, now: Moment) -> Object {
    let described = Described {
        name: &instance.name,
        provider_id: provider_id(&instance.name),
        version: &instance.version,
        is_control_plane: false,
        is_ready: true,
    };
    described.node(now)
}
