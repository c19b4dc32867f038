//! Fields of a stored Cluster that stay when a file is applied: fields that neither this file nor the one before
//! contains.

use serde_json::{Value, json};

use model::hub::{TOPOLOGY_MANAGER, annotation, group_of, version_of};
use model::wire::WireVersion;
use model::wire::manifest::Manifest;

const VARIABLES: &str = "/spec/topology/variables";

/// Copies missing references that a controller set from the old state of a Cluster, in the form of the new version.
pub fn keep_references(new: &mut Manifest, old: &Manifest) {
    let is_v1beta2 = new.version() == Some(WireVersion::V1Beta2);
    for name in ["infrastructureRef", "controlPlaneRef"] {
        let Some(written) = old.value.pointer(&format!("/spec/{name}")).filter(|written| written.is_object()) else {
            continue;
        };
        let is_in_file = |applied: &Value| applied["spec"].get(name).is_some();
        let is_owned = |spec: &Value| spec.get(format!("f:{name}")).is_some();
        if was_in_file(&old.value, is_in_file, is_owned) == Some(true) {
            continue;
        }
        let text = |key: &str| written.get(key).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = match text("apiVersion") {
            "" => (text("apiGroup"), "v1beta2"),
            api_version => (group_of(api_version), version_of(api_version)),
        };
        let reference = match is_v1beta2 {
            true => json!({"apiGroup": group, "kind": text("kind"), "name": text("name")}),
            false => json!({"apiVersion": format!("{group}/{version}"), "kind": text("kind"), "name": text("name"),
                "namespace": new.key.namespace}),
        };
        if let Some(spec) = new.value.get_mut("spec").and_then(Value::as_object_mut) {
            spec.entry(name).or_insert(reference);
        }
    }
}

/// The variables that stay: those that were set by default when the Cluster was stored. `stored` is the old Cluster
/// after its defaults, `defaulted` the Cluster after those of `new`.
pub fn kept_variables(new: &Value, old: &Value, stored: &Value, defaulted: &Value) -> Vec<Value> {
    let mut all = variables(stored).to_vec();
    all.retain(|variable| {
        let name = &variable["name"];
        find(new, name).is_none() && !was_applied(old, name, variable, defaulted)
    });
    all
}

/// Whether the value of a variable was in an applied file, as far as this is known.
fn was_applied(old: &Value, name: &Value, stored: &Value, defaulted: &Value) -> bool {
    let Some(mentioned) = find(old, name) else { return false };
    let key = format!("k:{}", json!({"name": name}));
    let is_in_file = |applied: &Value| find(applied, name).is_some();
    let is_owned = |spec: &Value| spec["f:topology"]["f:variables"].get(&key).is_some();
    if let Some(applied) = was_in_file(old, is_in_file, is_owned) {
        return applied;
    }
    let is_default = find(defaulted, name).is_some_and(|default| default["value"] == stored["value"]);
    !(is_exported(old) && is_default && mentioned["value"] == stored["value"])
}

/// Whether an object is exported, without owners of fields: files that are written by hand have no such field.
fn is_exported(object: &Value) -> bool {
    object.pointer("/metadata/resourceVersion").is_some() || object.pointer("/metadata/uid").is_some()
}

/// Whether a field was in an applied file, by the annotation of `kubectl apply` or the owners of fields of the spec;
/// unknown without both.
fn was_in_file(old: &Value, is_in_file: impl Fn(&Value) -> bool, is_owned: impl Fn(&Value) -> bool) -> Option<bool> {
    let annotations = old.pointer("/metadata/annotations");
    let applied = annotations.and_then(|all| all.get(annotation::LAST_APPLIED)).and_then(Value::as_str);
    if let Some(applied) = applied.and_then(|text| serde_json::from_str::<Value>(text).ok()) {
        return Some(is_in_file(&applied));
    }
    let entries = old.pointer("/metadata/managedFields").and_then(Value::as_array)?;
    // The manager that applies the references of a topology is a controller.
    let mut files =
        entries.iter().filter(|entry| entry["operation"] == "Apply" && entry["manager"] != TOPOLOGY_MANAGER);
    Some(files.any(|entry| is_owned(&entry["fieldsV1"]["f:spec"])))
}

fn variables(cluster: &Value) -> &[Value] {
    cluster.pointer(VARIABLES).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn find<'a>(cluster: &'a Value, name: &Value) -> Option<&'a Value> {
    variables(cluster).iter().find(|variable| variable["name"] == *name)
}

/// Adds variables to a Cluster.
pub fn add_variables(cluster: &mut Value, kept: Vec<Value>) {
    let Some(topology) = cluster.pointer_mut("/spec/topology").and_then(Value::as_object_mut) else { return };
    let list = topology.entry("variables").or_insert_with(|| json!([]));
    if let Value::Array(list) = list {
        list.extend(kept);
    }
}

/// The same Cluster without some variables.
pub fn without_variables(cluster: &Value, of: &Value) -> Value {
    let mut cluster = cluster.clone();
    if let Some(Value::Array(list)) = cluster.pointer_mut(VARIABLES) {
        list.retain(|variable| find(of, &variable["name"]).is_some());
    }
    cluster
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(variables: Value) -> Value {
        json!({"metadata": {}, "spec": {"topology": {"variables": variables}}})
    }

    fn kept(old: &Value, stored: &Value, new: &Value, defaulted: &Value) -> Vec<String> {
        let kept = kept_variables(new, old, stored, defaulted);
        kept.iter().map(|variable| variable["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn only_values_that_were_never_applied_stay() {
        let set = |name: &str| json!({"name": name, "value": "x"});
        let stored = cluster(json!([set("applied"), set("default")]));
        let (nothing, file) = (cluster(json!([])), cluster(json!([set("applied")])));
        let defaults = cluster(json!([set("default"), {"name": "applied", "value": "y"}]));
        assert_eq!(kept(&file, &stored, &nothing, &defaults), ["default"], "the file says what it applied");
        assert_eq!(kept(&file, &stored, &stored, &defaults), [""; 0], "what is mentioned counts");
        let mut exported = stored.clone();
        exported["metadata"]["uid"] = json!("u");
        assert_eq!(kept(&exported, &stored, &nothing, &defaults), ["default"], "it has the value of the default");
        assert_eq!(kept(&exported, &stored, &nothing, &stored), ["applied", "default"], "so have both");
        let fields = json!({"f:spec": {"f:topology": {"f:variables": {"k:{\"name\":\"applied\"}": {}}}}});
        exported["metadata"]["managedFields"] =
            json!([{"manager": "a-user", "operation": "Apply", "fieldsV1": fields}]);
        assert_eq!(kept(&exported, &stored, &nothing, &stored), ["default"], "the record says who applied it");
        exported["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": cluster(json!([set("default")])).to_string()});
        assert_eq!(kept(&exported, &stored, &nothing, &stored), ["applied"], "kubectl says what it applied");
    }
}
