//! Which objects a change concerns.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::conditions;
use super::fields::{controller, flag, owners, text};
use super::objects::{GroupKind, ObjectId, Objects, cluster_of};
use model::hub::{GROUP, Object, ObjectKey, group_of};

/// What of a Cluster concerns all objects that belong to it.
const OF_ALL: [&str; 8] = [
    "metadata.deletionTimestamp",
    "metadata.annotations",
    "spec.paused",
    "spec.infrastructureRef",
    "spec.controlPlaneRef",
    "spec.topology.version",
    "status.initialization",
    "status.failureDomains",
];

/// The conditions of a Cluster whose status concerns all objects that belong to it.
const CONDITIONS_OF_ALL: [&str; 2] = ["ControlPlaneInitialized", "RemoteConnectionProbe"];
/// The kinds of owners whose status the objects that they own do not read.
const OWNERS: [&str; 4] = ["Cluster", "Machine", "MachineDeployment", "MachineSet"];
/// What of a MachineDeployment concerns its Machines: whether they are up to date, and of the latest revision.
const OF_MACHINES: [&str; 2] = ["spec", "metadata.annotations"];

/// The objects whose next step may be another one after a change, besides the changed object itself.
pub fn concerned(
    objects: &Objects,
    id: &ObjectId,
    before: Option<&Object>,
    after: Option<&Object>,
) -> BTreeSet<ObjectId> {
    let mut all = BTreeSet::new();
    let Some(object) = after.or(before) else { return all };
    if let Some(cluster) = &id.workload {
        machines_of(objects, cluster, object, &mut all);
        // Conditions of Nodes that their machines do not repeat count as well (MA-19.3).
        if object.kind() == "Node" {
            let machines: Vec<&Arc<Object>> = all.iter().filter_map(|id| objects.get(id)).collect();
            let checks: Vec<ObjectId> =
                machines.into_iter().flat_map(|machine| checks_of(objects, cluster, machine)).collect();
            all.extend(checks);
        }
        return all;
    }
    for one in [before, after].into_iter().flatten() {
        owners(one).iter().filter_map(|owner| owner_id(owner, &id.key.namespace)).for_each(|owner| {
            all.extend(control_plane_of(objects, &owner));
            all.extend(parts_of_pool(objects, &owner));
            all.insert(owner);
        });
    }
    if !before.zip(after).is_some_and(|(before, after)| is_the_same_to_dependents(&id.kind, before, after)) {
        all.extend(objects.owned_by(object.uid()).cloned());
    }
    if id.kind.is_core("Cluster") {
        let differs = |path: &str| before.and_then(|it| it.at(path)) != after.and_then(|it| it.at(path));
        let status = |object: Option<&Object>, name: &str| object.and_then(|it| conditions::status(it, name));
        let turns = |name: &str| status(before, name) != status(after, name);
        if OF_ALL.into_iter().any(differs) || CONDITIONS_OF_ALL.into_iter().any(turns) {
            all.extend(objects.everything_of(&id.key).iter().map(|object| ObjectId::of(object)));
        }
        return all;
    }
    if &*id.kind.group == GROUP {
        if let Some(cluster) = cluster_of(object) {
            all.insert(ObjectId::core("Cluster", &cluster.namespace, &cluster.name));
            if id.kind.is_core("Machine") {
                let seen = before.into_iter().chain(after);
                all.extend(seen.flat_map(|machine| checks_of(objects, &cluster, machine)));
            }
        }
        if id.kind.is_core("MachineDeployment") {
            all.extend(machines_of_deployment(objects, before, after));
        }
        if let Some(deployment) = object.label(model::hub::label::MACHINE_DEPLOYMENT_NAME) {
            all.insert(ObjectId::core("MachineDeployment", &id.key.namespace, deployment));
        }
    }
    all
}

/// The Machines of a MachineDeployment, if it has changed in what concerns them.
fn machines_of_deployment(objects: &Objects, before: Option<&Object>, after: Option<&Object>) -> Vec<ObjectId> {
    let (Some(before), Some(after)) = (before, after) else { return Vec::new() };
    let is_same = OF_MACHINES.iter().all(|path| before.at(path) == after.at(path));
    let Some(cluster) = cluster_of(after).filter(|_| !is_same) else { return Vec::new() };
    let is_its = |machine: &Object| machine.label(model::hub::label::MACHINE_DEPLOYMENT_NAME) == Some(after.name());
    let machines = objects.of_cluster(&GroupKind::core("Machine"), &cluster);
    machines.iter().filter(|machine| is_its(machine)).map(|machine| ObjectId::of(machine)).collect()
}

/// The control plane that controls a Machine: it waits for what the Machine owns, such as an API server on an infrastructure machine.
fn control_plane_of(objects: &Objects, owner: &ObjectId) -> Option<ObjectId> {
    if !owner.kind.is_core("Machine") {
        return None;
    }
    let machine = objects.get(owner).filter(|machine| machine.label(model::hub::label::CONTROL_PLANE).is_some())?;
    owner_id(controller(machine)?, &owner.key.namespace)
}

/// The parts of a MachinePool: its instances are made from its bootstrap configuration too.
fn parts_of_pool(objects: &Objects, owner: &ObjectId) -> Vec<ObjectId> {
    let pool = if owner.kind.is_core("MachinePool") { objects.get(owner) } else { None };
    pool.into_iter().flat_map(|pool| objects.owned_by(pool.uid())).cloned().collect()
}

/// Whether the objects that an owner has need not look at it again: those of `OWNERS` and of control planes read nothing of its status, apart
/// from what `OF_ALL` lists of a Cluster, and whether a control plane is managed externally.
fn is_the_same_to_dependents(kind: &GroupKind, before: &Object, after: &Object) -> bool {
    let is_control_plane = kind.kind.ends_with("ControlPlane");
    let is_external = |object| flag(object, "status.externalManagedControlPlane");
    (is_control_plane && is_external(before) == is_external(after)
        || OWNERS.into_iter().any(|owner| kind.is_core(owner)))
        && differ_in_status_alone(before, after)
}

/// Whether two states of an object differ in its status alone.
pub fn differ_in_status_alone(before: &Object, after: &Object) -> bool {
    is_same_besides(
        members_at(before, "metadata"),
        members_at(after, "metadata"),
        &["resourceVersion", "managedFields"],
    ) && is_same_besides(Some(before.members()), Some(after.members()), &["metadata", "status"])
}

/// Whether two states of an object differ in its conditions alone, those of the deprecated form included.
pub fn differ_in_conditions_alone(before: &Object, after: &Object) -> bool {
    const CONDITIONS: [&str; 3] = ["conditions", "deprecated", "v1beta2"];
    is_same_besides(members_at(before, "status"), members_at(after, "status"), &CONDITIONS)
        && differ_in_status_alone(before, after)
}

fn members_at<'a>(object: &'a Object, path: &str) -> Option<&'a Map<String, Value>> {
    object.members_at(path).ok().flatten()
}

/// Whether there are members in both, the same but for some.
fn is_same_besides(one: Option<&Map<String, Value>>, other: Option<&Map<String, Value>>, besides: &[&str]) -> bool {
    let counts = |(name, _): &(&String, &Value)| !besides.contains(&name.as_str());
    one.zip(other).is_some_and(|(one, other)| one.iter().filter(counts).eq(other.iter().filter(counts)))
}

/// The health checks that may select a Machine.
fn checks_of(objects: &Objects, cluster: &ObjectKey, machine: &Object) -> Vec<ObjectId> {
    let checks = objects.of_cluster(&GroupKind::core("MachineHealthCheck"), cluster);
    let may_select = |check: &&Arc<Object>| {
        let labels = check.at("spec.selector.matchLabels").and_then(Value::as_object);
        labels.into_iter().flatten().all(|(name, value)| machine.label(name) == value.as_str())
    };
    checks.iter().filter(may_select).map(|check| ObjectId::of(check)).collect()
}

/// The machines that an object of a workload cluster is about: those of a Node, and those that wait for Pods on it.
fn machines_of(objects: &Objects, cluster: &ObjectKey, object: &Object, all: &mut BTreeSet<ObjectId>) {
    let node = if object.kind() == "Node" { object.name() } else { text(object, "spec.nodeName") };
    let provider_id = text(object, "spec.providerID");
    for machine in objects.of_cluster(&GroupKind::core("Machine"), cluster) {
        let is_its = text(&machine, "status.nodeRef.name") == node
            || (!provider_id.is_empty() && text(&machine, "spec.providerID") == provider_id);
        if is_its {
            all.insert(ObjectId::of(&machine));
        }
    }
    all.extend(objects.of_cluster(&GroupKind::core("MachinePool"), cluster).iter().map(|pool| ObjectId::of(pool)));
}

fn owner_id(owner: &Value, namespace: &str) -> Option<ObjectId> {
    let member = |name: &str| owner.get(name).and_then(Value::as_str);
    let kind = GroupKind::new(group_of(member("apiVersion")?), member("kind")?);
    Some(ObjectId::new(kind, ObjectKey::new(namespace, member("name")?)))
}

/// Whether an object has a controller that is this one.
pub fn is_controlled_by(object: &Object, owner: &Object) -> bool {
    controller(object).is_some_and(|it| it.get("uid").is_some_and(|uid| uid == owner.uid()))
}

/// Whether a Cluster is paused as a whole.
pub fn is_paused(cluster: &Object) -> bool {
    flag(cluster, "spec.paused")
}
