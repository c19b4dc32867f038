//! Dependents of a change: the objects that must be reconciled because of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::conditions;
use super::fields::{flag, text};
use super::objects::{GroupKind, MachineCache, ObjectId, cluster_of};
use model::hub::{GROUP, Object, ObjectKey, group_of, paths};

/// Fields of a Cluster that all its objects depend on.
const OF_ALL: [&str; 8] = [
    paths::metadata::DELETION_TIMESTAMP,
    paths::metadata::ANNOTATIONS,
    paths::PAUSED,
    paths::INFRASTRUCTURE_REF,
    paths::cluster::CONTROL_PLANE_REF,
    paths::cluster::TOPOLOGY_VERSION,
    "status.initialization",
    paths::status::FAILURE_DOMAINS,
];

/// Conditions of a Cluster that all its objects depend on.
const CONDITIONS_OF_ALL: [&str; 2] = ["ControlPlaneInitialized", "RemoteConnectionProbe"];
const HEALTH_CHECK: &str = "MachineHealthCheck";
/// Kinds of owners whose status is not read by owned objects.
const OWNERS: [&str; 4] = ["Cluster", "Machine", "MachineDeployment", "MachineSet"];
/// Metadata that change with each write.
const UNREAD_METADATA: [&str; 3] = ["resourceVersion", "managedFields", "generation"];

/// The objects to reconcile after a change, besides the changed object itself.
pub fn dependents(
    objects: &MachineCache,
    id: &ObjectId,
    before: Option<&Object>,
    after: Option<&Object>,
) -> BTreeSet<ObjectId> {
    let mut all = BTreeSet::new();
    let Some(object) = after.or(before) else { return all };
    if let Some(cluster) = &id.workload {
        machines_of(objects, cluster, object, &mut all);
        // Conditions of Nodes that their machines do not mirror count as well (MA-19.3).
        if object.kind() == "Node" {
            let machines: Vec<&Arc<Object>> = all.iter().filter_map(|id| objects.get(id)).collect();
            let checks: Vec<ObjectId> =
                machines.into_iter().flat_map(|machine| selecting(objects, HEALTH_CHECK, cluster, machine)).collect();
            all.extend(checks);
        }
        return all;
    }
    for one in [before, after].into_iter().flatten() {
        one.owner_references().iter().filter_map(|owner| owner_id(owner, &id.key.namespace)).for_each(|owner| {
            all.extend(control_plane_of(objects, &owner));
            all.extend(parts_of_pool(objects, &owner));
            if before.is_none() || after.is_none() {
                all.extend(checks_of_owner(objects, &owner));
            }
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
            all.extend(objects.everything_of(&id.key).iter().map(|object| ObjectId::for_object(object)));
        }
        if turns("InfrastructureReady") {
            let checks = objects.of_cluster(&GroupKind::core(HEALTH_CHECK), &id.key);
            all.extend(checks.iter().map(|check| ObjectId::for_object(check)));
        }
        return all;
    }
    if &*id.kind.group == GROUP {
        if let Some(cluster) = cluster_of(object) {
            all.insert(ObjectId::core("Cluster", &cluster.namespace, &cluster.name));
            if id.kind.is_core("Machine") {
                let seen = before.into_iter().chain(after);
                all.extend(seen.flat_map(|machine| selecting(objects, HEALTH_CHECK, &cluster, machine)));
                // A set adopts it (MA-15.4).
                let orphan = after.filter(|machine| machine.controller().is_none());
                all.extend(orphan.into_iter().flat_map(|it| selecting(objects, "MachineSet", &cluster, it)));
                all.extend(configs_beside(objects, &cluster, before, after));
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

/// The Machines of a MachineDeployment, if fields that they depend on have changed.
fn machines_of_deployment(objects: &MachineCache, before: Option<&Object>, after: Option<&Object>) -> Vec<ObjectId> {
    let (Some(before), Some(after)) = (before, after) else { return Vec::new() };
    // Their revision and whether they are up to date depend on it.
    let is_same = before.at(paths::metadata::ANNOTATIONS) == after.at(paths::metadata::ANNOTATIONS)
        && is_same_besides(members_at(before, "spec"), members_at(after, "spec"), &["replicas"]);
    let Some(cluster) = cluster_of(after).filter(|_| !is_same) else { return Vec::new() };
    let is_its = |machine: &Object| machine.label(model::hub::label::MACHINE_DEPLOYMENT_NAME) == Some(after.name());
    let machines = objects.of_cluster(&GroupKind::core("Machine"), &cluster);
    machines.iter().filter(|machine| is_its(machine)).map(|machine| ObjectId::for_object(machine)).collect()
}

/// The control plane of a Machine: it waits for objects of the Machine, such as an API server on an infrastructure
/// machine.
fn control_plane_of(objects: &MachineCache, owner: &ObjectId) -> Option<ObjectId> {
    if !owner.kind.is_core("Machine") {
        return None;
    }
    let machine = objects.get(owner).filter(|machine| machine.label(model::hub::label::CONTROL_PLANE).is_some())?;
    owner_id(machine.controller()?, &owner.key.namespace)
}

/// The objects of a MachinePool: its instances depend on its bootstrap configuration too.
fn parts_of_pool(objects: &MachineCache, owner: &ObjectId) -> Vec<ObjectId> {
    let pool = if owner.kind.is_core("MachinePool") { objects.get(owner) } else { None };
    pool.into_iter().flat_map(|pool| objects.owned_by(pool.uid())).cloned().collect()
}

/// Whether a change of an owner is irrelevant to owned objects: the status of `OWNERS` and of control planes is not
/// read, apart from the fields of a Cluster in `OF_ALL`, and whether a control plane is managed externally.
fn is_the_same_to_dependents(kind: &GroupKind, before: &Object, after: &Object) -> bool {
    let is_control_plane = kind.kind.ends_with("ControlPlane");
    let is_external = |object| flag(object, paths::control_plane::IS_EXTERNAL);
    // Machines do not read the number of their set. Sets read that of their MachineDeployment (MA-19.12).
    let is_scalable = kind.is_core("MachineSet");
    (is_control_plane && is_external(before) == is_external(after)
        || OWNERS.into_iter().any(|owner| kind.is_core(owner)))
        && (differ_in_status_alone(before, after) || is_scalable && are_same_besides_number(before, after))
}

/// Whether two states of an owner of machines differ only in status and number of machines.
fn are_same_besides_number(before: &Object, after: &Object) -> bool {
    is_same_besides(members_at(before, "metadata"), members_at(after, "metadata"), &UNREAD_METADATA)
        && is_same_besides(Some(before.members()), Some(after.members()), &["metadata", "spec", "status"])
        && is_same_besides(members_at(before, "spec"), members_at(after, "spec"), &["replicas"])
}

/// Whether two states of an object differ only in status.
pub fn differ_in_status_alone(before: &Object, after: &Object) -> bool {
    is_same_besides(
        members_at(before, "metadata"),
        members_at(after, "metadata"),
        &["resourceVersion", "managedFields"],
    ) && is_same_besides(Some(before.members()), Some(after.members()), &["metadata", "status"])
}

/// Whether two states of an object differ only in conditions, including deprecated ones.
pub fn differ_in_conditions_alone(before: &Object, after: &Object) -> bool {
    const CONDITIONS: [&str; 3] = ["conditions", "deprecated", "v1beta2"];
    is_same_besides(members_at(before, "status"), members_at(after, "status"), &CONDITIONS)
        && differ_in_status_alone(before, after)
}

fn members_at<'a>(object: &'a Object, path: &str) -> Option<&'a Map<String, Value>> {
    object.members_at(path).ok().flatten()
}

/// Whether both have members that are equal apart from some.
fn is_same_besides(one: Option<&Map<String, Value>>, other: Option<&Map<String, Value>>, besides: &[&str]) -> bool {
    let counts = |(name, _): &(&String, &Value)| !besides.contains(&name.as_str());
    one.zip(other).is_some_and(|(one, other)| one.iter().filter(counts).eq(other.iter().filter(counts)))
}

/// The objects of a kind that may select a Machine by its labels.
fn selecting(objects: &MachineCache, kind: &str, cluster: &ObjectKey, machine: &Object) -> Vec<ObjectId> {
    let all = objects.of_cluster(&GroupKind::core(kind), cluster);
    let may_select = |one: &&Arc<Object>| {
        let labels = one.at(paths::worker::MATCH_LABELS).and_then(Value::as_object);
        labels.into_iter().flatten().all(|(name, value)| machine.label(name) == value.as_str())
    };
    all.iter().filter(may_select).map(|one| ObjectId::for_object(one)).collect()
}

/// The health checks of the owner of a new or deleted object, which may be a remediation request (MA-19.8).
fn checks_of_owner(objects: &MachineCache, owner: &ObjectId) -> Vec<ObjectId> {
    let machine = if owner.kind.is_core("Machine") { objects.get(owner) } else { None };
    let cluster = machine.and_then(|machine| Some((machine, cluster_of(machine)?)));
    cluster.map_or_else(Vec::new, |(machine, cluster)| selecting(objects, HEALTH_CHECK, &cluster, machine))
}

/// The objects of the other control plane Machines, if one of them leaves: the oldest one initializes the control plane
/// (CT-12.7).
fn configs_beside(
    objects: &MachineCache,
    cluster: &ObjectKey,
    before: Option<&Object>,
    after: Option<&Object>,
) -> Vec<ObjectId> {
    let is_of_control_plane = |machine: &Object| machine.label(model::hub::label::CONTROL_PLANE).is_some();
    let stayed = before.is_some_and(|machine| is_of_control_plane(machine) && !machine.is_being_deleted());
    if !stayed || after.is_some_and(|machine| !machine.is_being_deleted()) {
        return Vec::new();
    }
    let machines = objects.of_cluster(&GroupKind::core("Machine"), cluster);
    let others = machines.iter().filter(|machine| is_of_control_plane(machine));
    others.flat_map(|machine| objects.owned_by(machine.uid())).cloned().collect()
}

/// The machines that an object of a workload cluster concerns: those of a Node, and those that wait for Pods on it.
fn machines_of(objects: &MachineCache, cluster: &ObjectKey, object: &Object, all: &mut BTreeSet<ObjectId>) {
    let node = if object.kind() == "Node" { object.name() } else { text(object, paths::pod::NODE_NAME) };
    let provider_id = object.provider_id();
    for machine in objects.of_cluster(&GroupKind::core("Machine"), cluster) {
        let is_its = machine.node_name() == node || (!provider_id.is_empty() && machine.provider_id() == provider_id);
        if is_its {
            all.insert(ObjectId::for_object(&machine));
        }
    }
    all.extend(
        objects.of_cluster(&GroupKind::core("MachinePool"), cluster).iter().map(|pool| ObjectId::for_object(pool)),
    );
}

fn owner_id(owner: &Value, namespace: &str) -> Option<ObjectId> {
    let member = |name: &str| owner.get(name).and_then(Value::as_str);
    let kind = GroupKind::new(group_of(member("apiVersion")?), member("kind")?);
    Some(ObjectId::new(kind, ObjectKey::new(namespace, member("name")?)))
}

/// Whether an object is controlled by another one.
pub fn is_controlled_by(object: &Object, owner: &Object) -> bool {
    object.controller().is_some_and(|it| it.get("uid").is_some_and(|uid| uid == owner.uid()))
}

/// Whether a Cluster is paused as a whole.
pub fn is_paused(cluster: &Object) -> bool {
    cluster.is_paused()
}
