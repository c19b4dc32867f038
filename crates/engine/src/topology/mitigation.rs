//! Repair of lost `metadata.managedFields` (SSA-20 to SSA-23).
//!
//! Under some conditions an API server loses `metadata.managedFields`. The next apply would then add an entry beside
//! one of `before-first-apply`, which owns all earlier fields, and the engine could not remove these fields. So the
//! entries are repaired first.

use serde_json::{Map, Value, json};

use super::plan::MANAGER;
use model::hub::{Object, paths};

/// The manager to which an API server assigns all fields that existed before the first apply.
const BEFORE: &str = "before-first-apply";

/// Paths of arguments in a KubeadmControlPlane. Without `managedFields`, arguments that a topology no longer sets could
/// never be removed.
const EXTRA_ARGS: [&str; 6] = [
    "spec.kubeadmConfigSpec.clusterConfiguration.apiServer.extraArgs",
    "spec.kubeadmConfigSpec.clusterConfiguration.controllerManager.extraArgs",
    "spec.kubeadmConfigSpec.clusterConfiguration.scheduler.extraArgs",
    "spec.kubeadmConfigSpec.clusterConfiguration.etcd.local.extraArgs",
    "spec.kubeadmConfigSpec.initConfiguration.nodeRegistration.kubeletExtraArgs",
    "spec.kubeadmConfigSpec.joinConfiguration.nodeRegistration.kubeletExtraArgs",
];

/// The missing entries of a Cluster, if any (SSA-21): it is never applied, so topologist owns none of its fields.
pub fn repaired_for_cluster(cluster: &Object) -> Option<Vec<Value>> {
    let entries = entries(cluster);
    let is_kept = |entry: &Value| !is_of(entry, BEFORE) && !is_of(entry, MANAGER);
    if !entries.is_empty() && entries.iter().all(is_kept) {
        return None;
    }
    let mut kept: Vec<Value> = entries.iter().filter(|entry| is_kept(entry)).cloned().collect();
    if kept.is_empty() {
        kept.push(entry("manager", "Update", cluster.api_version(), name()));
    }
    Some(kept)
}

/// The missing entries of an object of a topology, if any (SSA-22).
pub fn repaired_for_object(object: &Object) -> Option<Vec<Value>> {
    let entries = entries(object);
    if !entries.is_empty() && !entries.iter().any(|entry| is_of(entry, BEFORE)) {
        return None;
    }
    let mut kept: Vec<Value> = entries.iter().filter(|entry| !is_of(entry, BEFORE)).cloned().collect();
    if !kept.iter().any(|entry| is_of(entry, MANAGER)) {
        kept.push(entry(MANAGER, "Apply", object.api_version(), fields(object)));
    }
    Some(kept)
}

fn entries(object: &Object) -> &[Value] {
    object.at(paths::metadata::MANAGED_FIELDS).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn is_of(entry: &Value, manager: &str) -> bool {
    entry.get("manager").and_then(Value::as_str) == Some(manager)
}

fn entry(manager: &str, operation: &str, api_version: &str, fields: Value) -> Value {
    json!({"manager": manager, "operation": operation, "apiVersion": api_version, "fieldsType": "FieldsV1",
        "fieldsV1": fields})
}

/// An entry must own a field.
fn name() -> Value {
    json!({"f:metadata": {"f:name": {}}})
}

/// The fields of an object that the manager of topologies must own.
fn fields(object: &Object) -> Value {
    let mut fields = Map::new();
    for path in EXTRA_ARGS.iter().filter(|_| object.kind() == "KubeadmControlPlane") {
        let arguments = arguments(object.at(path));
        if !arguments.is_empty() {
            put(&mut fields, path, arguments);
        }
    }
    if fields.is_empty() { name() } else { Value::Object(fields) }
}

/// All arguments as fields: entries of a keyed list in v1beta2, of a map in v1beta1.
fn arguments(arguments: Option<&Value>) -> Map<String, Value> {
    match arguments {
        Some(Value::Array(items)) => items.iter().filter_map(argument).collect(),
        Some(Value::Object(members)) => members.keys().map(|name| (format!("f:{name}"), json!({}))).collect(),
        _ => Map::new(),
    }
}

fn argument(item: &Value) -> Option<(String, Value)> {
    let (name, value) = (item.get("name")?, item.get("value")?);
    let key = json!({"name": name, "value": value});
    Some((format!("k:{key}"), json!({".": {}, "f:name": {}, "f:value": {}})))
}

fn put(fields: &mut Map<String, Value>, path: &str, members: Map<String, Value>) {
    let mut here = fields;
    for name in path.split('.') {
        let next = here.entry(format!("f:{name}")).or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(next) = next else { return };
        here = next;
    }
    *here = members;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, managers: &[(&str, &str)], spec: Value) -> Object {
        let entries: Vec<Value> = managers
            .iter()
            .map(|(manager, operation)| entry(manager, operation, "g/v1", json!({"f:spec": {}})))
            .collect();
        let mut object = json!({"apiVersion": "g/v1", "kind": kind, "metadata": {"name": "n"}, "spec": spec});
        if !entries.is_empty() {
            object["metadata"]["managedFields"] = json!(entries);
        }
        Object::try_from(object).unwrap()
    }

    fn managers(entries: Option<Vec<Value>>) -> Option<Vec<String>> {
        let shown =
            |entry: &Value| format!("{} {}", entry["manager"].as_str().unwrap(), entry["operation"].as_str().unwrap());
        entries.map(|entries| entries.iter().map(shown).collect())
    }

    #[test]
    fn a_cluster_is_never_applied() {
        // SSA-21
        let repaired =
            |entries: &[(&str, &str)]| managers(repaired_for_cluster(&object("Cluster", entries, json!({}))));
        let text = |text: &str| Some(vec![text.to_owned()]);
        assert_eq!(repaired(&[]), text("manager Update"));
        assert_eq!(repaired(&[("kubectl", "Update")]), None);
        assert_eq!(repaired(&[("kubectl", "Update"), (BEFORE, "Update")]), text("kubectl Update"));
        assert_eq!(repaired(&[("capi-topology", "Apply"), (BEFORE, "Update")]), text("manager Update"));
        let made = repaired_for_cluster(&object("Cluster", &[], json!({}))).unwrap();
        assert_eq!((&made[0]["apiVersion"], &made[0]["fieldsV1"]), (&json!("g/v1"), &name()));
    }

    #[test]
    fn an_object_without_managed_fields_gets_an_entry_of_the_engine() {
        // SSA-22
        let repaired = |entries: &[(&str, &str)]| managers(repaired_for_object(&object("Forge", entries, json!({}))));
        let list = |all: &[&str]| Some(all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
        assert_eq!(repaired(&[]), list(&["capi-topology Apply"]));
        assert_eq!(repaired(&[("provider", "Update")]), None);
        assert_eq!(repaired(&[("capi-topology", "Apply"), ("provider", "Update")]), None);
        assert_eq!(
            repaired(&[("provider", "Update"), (BEFORE, "Update")]),
            list(&["provider Update", "capi-topology Apply"])
        );
        assert_eq!(repaired(&[("capi-topology", "Apply"), (BEFORE, "Update")]), list(&["capi-topology Apply"]));
    }

    #[test]
    fn extra_args_of_a_kubeadm_control_plane_belong_to_the_engine() {
        // SSA-22
        let fields = |spec: Value| {
            let made =
                repaired_for_object(&object("KubeadmControlPlane", &[], json!({"kubeadmConfigSpec": spec}))).unwrap();
            made[0]["fieldsV1"].clone()
        };
        let item = json!({"name": "v", "value": "1"});
        let own = json!({"k:{\"name\":\"v\",\"value\":\"1\"}": {".": {}, "f:name": {}, "f:value": {}}});
        for (path, field) in [
            ("/clusterConfiguration/apiServer", "f:extraArgs"),
            ("/clusterConfiguration/controllerManager", "f:extraArgs"),
            ("/clusterConfiguration/scheduler", "f:extraArgs"),
            ("/clusterConfiguration/etcd/local", "f:extraArgs"),
            ("/initConfiguration/nodeRegistration", "f:kubeletExtraArgs"),
            ("/joinConfiguration/nodeRegistration", "f:kubeletExtraArgs"),
        ] {
            let nested = |leaf: &Value, prefix: &str| {
                let names = path.split('/').skip(1).collect::<Vec<_>>();
                names.iter().rev().fold(leaf.clone(), |below, name| json!({format!("{prefix}{name}"): below}))
            };
            let name = field.trim_start_matches("f:");
            let wrapped = |own: &Value| json!({"f:spec": {"f:kubeadmConfigSpec": nested(&json!({field: own}), "f:")}});
            assert_eq!(fields(nested(&json!({name: [item]}), "")), wrapped(&own), "{path}");
            let map = json!({name: {"v": "1"}});
            assert_eq!(fields(nested(&map, "")), wrapped(&json!({"f:v": {}})), "{path} in v1beta1");
        }
        assert_eq!(fields(json!({"format": "x", "clusterConfiguration": {"apiServer": {"extraArgs": []}}})), name());
    }
}
