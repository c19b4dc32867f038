//! Objects of a running cluster for a simulation: what other providers have brought up, in the terms of this one.
//!
//! The contracts tell that a machine is there and which Node it has. They do not tell how a provider keeps count of the parts of a
//! machine, how it names Nodes, or what its finalizers wait for. Those are replaced, so that the simulated provider goes on where the
//! real one is.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::delays::BOOTSTRAPPED;
use super::infrastructure_machine::parts;
use super::infrastructure_pool::bring_up;
use super::scene::PROVISIONED;
use super::virtual_node::provider_id;
use crate::lifecycle::conditions::{Condition, get, put};
use crate::lifecycle::fields::{controller, flag, is_of_kind, map_mut, number, reference, set, set_annotation, text};
use crate::lifecycle::objects::{GroupKind, ObjectId};
use golang::calendar::Moment;
use model::hub::{GROUP, Object, ObjectKey, label};

/// The finalizers of Cluster API's own controllers, which the steps take away again.
const OF_CLUSTER_API: &str = "cluster.x-k8s.io";
/// Those of the simulated provider.
const OF_PROVIDER: &str = "lifecycle.topologist.dev/";

/// What is there of an infrastructure object.
enum Adopted {
    Machine {
        is_control_plane: bool,
        has_node: bool,
    },
    /// So many instances of a version.
    Pool {
        version: String,
        instances: usize,
    },
}

/// Prepares the objects of a Cluster, as an API server has them, for a simulation.
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
        match adopted.get(&ObjectId::of(object)) {
            Some(Adopted::Machine { is_control_plane, has_node }) => {
                bring_up_machine(object, *is_control_plane, *has_node, now);
            }
            Some(Adopted::Pool { version, instances }) => bring_up(object, version, *instances, now),
            None => {}
        }
    }
}

/// Removes the Machines of pools with what they control: the simulated provider has instances in their place, as many as the pool
/// reports.
fn leave_out_machines_of_pools(objects: &mut Vec<Object>) {
    let is_of_pool = |object: &Object| {
        GroupKind::of(object).is_core("Machine")
            && controller(object).is_some_and(|owner| is_of_kind(owner, &GroupKind::core("MachinePool")))
    };
    let of_pools: BTreeSet<String> =
        objects.iter().filter(|one| is_of_pool(one)).map(|machine| machine.uid().to_owned()).collect();
    if of_pools.is_empty() {
        return;
    }
    objects.retain(|object| {
        let owner = controller(object).and_then(|owner| owner.get("uid")).and_then(Value::as_str);
        !of_pools.contains(object.uid()) && !owner.is_some_and(|owner| of_pools.contains(owner))
    });
}

/// Takes away finalizers that nothing in a simulation would take away.
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

/// A Machine: its Node has the name and the provider id that the simulated provider gives it.
fn machine(object: &mut Object) -> Option<(ObjectId, Adopted)> {
    if !flag(object, "status.initialization.infrastructureProvisioned") {
        return None;
    }
    let infrastructure = infrastructure(object, "spec.infrastructureRef");
    let has_node = !text(object, "status.nodeRef.name").is_empty();
    let is_control_plane = object.label(label::CONTROL_PLANE).is_some();
    set(object, "spec.providerID", json!(provider_id(&infrastructure.key.name)));
    if has_node {
        set(object, "status.nodeRef.name", json!(infrastructure.key.name));
    }
    Some((infrastructure, Adopted::Machine { is_control_plane, has_node }))
}

fn pool(object: &mut Object) -> Option<(ObjectId, Adopted)> {
    if !flag(object, "status.initialization.infrastructureProvisioned") {
        return None;
    }
    let instances = usize::try_from(number(object, "status.replicas").unwrap_or(0)).unwrap_or_default();
    let version = text(object, "spec.template.spec.version").to_owned();
    Some((infrastructure(object, "spec.template.spec.infrastructureRef"), Adopted::Pool { version, instances }))
}

fn infrastructure(object: &Object, path: &str) -> ObjectId {
    let to = reference(object, path);
    ObjectId::new(GroupKind::to(&to), ObjectKey::new(object.namespace(), &*to.name))
}

/// An infrastructure machine whose parts are there, as far as its Machine tells.
fn bring_up_machine(object: &mut Object, is_control_plane: bool, has_node: bool, now: Moment) {
    let is_own = parts(is_control_plane).iter().any(|part| get(object, part).is_some());
    let id = provider_id(object.name());
    set(object, "spec.providerID", json!(id));
    if is_own {
        return;
    }
    let there = if has_node { parts(is_control_plane) } else { &parts(is_control_plane)[..1] };
    for part in there {
        put(object, part, &Condition::new(true, PROVISIONED, ""), now);
    }
    if has_node {
        set_annotation(object, BOOTSTRAPPED, "true");
    }
}
