//! Adoption of a running cluster for a simulation: translates the state of other providers into that of the simulated
//! one.
//!
//! The contracts report whether a machine exists and which Node it has. They do not define how a provider tracks the
//! parts of a machine, names Nodes, or what its finalizers wait for. Those are replaced, so that the simulated provider
//! can continue from the current state.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::context::PROVISIONED;
use super::delays::BOOTSTRAPPED;
use super::infrastructure_machine::parts;
use super::infrastructure_pool::bring_up;
use super::virtual_node::provider_id;
use crate::lifecycle::conditions::{ConditionState, get, put};
use crate::lifecycle::fields::{is_of_kind, map_mut, set, set_annotation};
use crate::lifecycle::objects::{GroupKind, ObjectId};
use golang::calendar::Moment;
use model::hub::{GROUP, Object, ObjectKey, label, paths};

/// Finalizers of Cluster API's controllers, which the steps remove.
const OF_CLUSTER_API: &str = "cluster.x-k8s.io";
/// Finalizers of the simulated provider.
const OF_PROVIDER: &str = "lifecycle.topologist.dev/";

/// The existing parts of an infrastructure object.
enum AdoptedObject {
    Machine {
        is_control_plane: bool,
        has_node: bool,
    },
    /// Number and version of instances.
    Pool {
        version: String,
        instances: usize,
    },
}

/// Prepares the objects of a Cluster from an API server for a simulation.
pub fn adopt(objects: &mut Vec<Object>, now: Moment) {
    leave_out_machines_of_pools(objects);
    let mut adopted = BTreeMap::new();
    for object in objects.iter_mut() {
        keep_known_finalizers(object);
        if object.group() == GROUP {
            adopted.extend(match object.kind() {
                "Machine" => machine(object),
                "MachinePool" => pool(object),
                _ => None,
            });
        }
    }
    for object in objects.iter_mut() {
        match adopted.get(&ObjectId::for_object(object)) {
            Some(AdoptedObject::Machine { is_control_plane, has_node }) => {
                bring_up_machine(object, parts(*is_control_plane), *has_node, now);
            }
            Some(AdoptedObject::Pool { version, instances }) => bring_up(object, version, *instances, now),
            None => {}
        }
    }
}

/// Removes the Machines of pools with the objects that they control: the simulated provider has as many instances as
/// the pool reports instead.
fn leave_out_machines_of_pools(objects: &mut Vec<Object>) {
    let is_of_pool = |object: &Object| {
        GroupKind::for_object(object).is_core("Machine")
            && object.controller().is_some_and(|owner| is_of_kind(owner, &GroupKind::core("MachinePool")))
    };
    let of_pools: BTreeSet<String> =
        objects.iter().filter(|one| is_of_pool(one)).map(|machine| machine.uid().to_owned()).collect();
    if of_pools.is_empty() {
        return;
    }
    objects.retain(|object| {
        let owner = object.controller().and_then(|owner| owner.get("uid")).and_then(Value::as_str);
        !of_pools.contains(object.uid()) && !owner.is_some_and(|owner| of_pools.contains(owner))
    });
}

/// Removes finalizers that no simulated controller removes.
fn keep_known_finalizers(object: &mut Object) {
    let is_of_cluster_api = object.group() == GROUP;
    let metadata = map_mut(object, "metadata");
    if let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") {
        finalizers.retain(|name| {
            let name = name.as_str().unwrap_or_default();
            name.starts_with(OF_PROVIDER)
                || (is_of_cluster_api && name.split('/').next().is_some_and(|name| name.ends_with(OF_CLUSTER_API)))
        });
    }
}

/// A Machine: its Node gets the name and provider ID of the simulated provider.
fn machine(object: &mut Object) -> Option<(ObjectId, AdoptedObject)> {
    if !object.is_infrastructure_provisioned() {
        return None;
    }
    let infrastructure = infrastructure(object, paths::INFRASTRUCTURE_REF);
    let has_node = !object.node_name().is_empty();
    let is_control_plane = object.label(label::CONTROL_PLANE).is_some();
    set(object, paths::PROVIDER_ID, json!(provider_id(&infrastructure.key.name)));
    if has_node {
        set(object, paths::machine::NODE_NAME, json!(infrastructure.key.name));
    }
    Some((infrastructure, AdoptedObject::Machine { is_control_plane, has_node }))
}

fn pool(object: &mut Object) -> Option<(ObjectId, AdoptedObject)> {
    if !object.is_infrastructure_provisioned() {
        return None;
    }
    let instances = usize::try_from(object.status_replicas().unwrap_or(0)).unwrap_or_default();
    let version = object.machine_version().to_owned();
    Some((infrastructure(object, paths::worker::INFRASTRUCTURE_REF), AdoptedObject::Pool { version, instances }))
}

fn infrastructure(object: &Object, path: &str) -> ObjectId {
    let to = object.contract_ref_at(path);
    ObjectId::new(GroupKind::for_reference(&to), ObjectKey::new(object.namespace(), &*to.name))
}

/// An infrastructure machine with the parts that its Machine reports.
fn bring_up_machine(object: &mut Object, parts: &[&str], has_node: bool, now: Moment) {
    let is_own = parts.iter().any(|part| get(object, part).is_some());
    let id = provider_id(object.name());
    set(object, paths::PROVIDER_ID, json!(id));
    if is_own {
        return;
    }
    let started = if has_node { parts } else { &parts[..1] };
    for part in started {
        put(object, part, &ConditionState::new(true, PROVISIONED, ""), now);
    }
    if has_node {
        set_annotation(object, BOOTSTRAPPED, "true");
    }
}
