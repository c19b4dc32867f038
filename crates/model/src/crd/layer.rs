//! Schema validation as by the API server, for objects in files (DEC-32).
//!
//! ```text
//! object ─► nulls of typed fields dropped ─► types, bounds, patterns, enums ─► keys of lists ─► unknown fields
//! ```
//!
//! Paths are those of the object's version. `status` is ignored, since a write through the main resource does not store
//! it.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::blocks::{NOT_OWN_CONDITION, NOT_OWN_CONDITION_MESSAGE, OWN_CONDITIONS};
use super::{SchemaVersion, schema};
use crate::hub::Kind;
use crate::hub::naming::{label_key_faults, label_value_faults, subdomain_faults};
use ::schema::field::{ErrorKind, ErrorValue, Findings, Path, RuleId};
use ::schema::openapi::{Schema, SchemaDefinition, Violation};

/// The rule id of every error of this layer.
const LAYER: RuleId = "DEC-32";

/// The schema of one kind in one version, as JSON and compiled.
struct ApiSchema {
    raw: Value,
    compiled: Schema,
}

impl ApiSchema {
    fn new(kind: Kind, version: SchemaVersion) -> Self {
        let mut raw = schema(kind, version);
        // Metadata is checked separately, and status is not stored.
        raw["properties"]["metadata"] = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let mut checked = raw.clone();
        say_places(&mut checked);
        let definition: SchemaDefinition =
            serde_json::from_value(checked).expect("our schemas have the shape of schemas");
        let compiled = Schema::compile(&definition).expect("our patterns compile");
        ApiSchema { raw, compiled }
    }

    fn for_kind(kind: Kind, version: SchemaVersion) -> &'static ApiSchema {
        static CLUSTER1: LazyLock<ApiSchema> = LazyLock::new(|| ApiSchema::new(Kind::Cluster, SchemaVersion::V1Beta1));
        static CLUSTER2: LazyLock<ApiSchema> = LazyLock::new(|| ApiSchema::new(Kind::Cluster, SchemaVersion::V1Beta2));
        static CLASS1: LazyLock<ApiSchema> =
            LazyLock::new(|| ApiSchema::new(Kind::ClusterClass, SchemaVersion::V1Beta1));
        static CLASS2: LazyLock<ApiSchema> =
            LazyLock::new(|| ApiSchema::new(Kind::ClusterClass, SchemaVersion::V1Beta2));
        static DEPLOYMENT: LazyLock<ApiSchema> =
            LazyLock::new(|| ApiSchema::new(Kind::MachineDeployment, SchemaVersion::V1Beta2));
        static SET: LazyLock<ApiSchema> = LazyLock::new(|| ApiSchema::new(Kind::MachineSet, SchemaVersion::V1Beta2));
        static MACHINE: LazyLock<ApiSchema> = LazyLock::new(|| ApiSchema::new(Kind::Machine, SchemaVersion::V1Beta2));
        static CHECK: LazyLock<ApiSchema> =
            LazyLock::new(|| ApiSchema::new(Kind::MachineHealthCheck, SchemaVersion::V1Beta2));
        match (kind, version) {
            (Kind::Cluster, SchemaVersion::V1Beta1) => &CLUSTER1,
            (Kind::Cluster, SchemaVersion::V1Beta2) => &CLUSTER2,
            (Kind::ClusterClass, SchemaVersion::V1Beta1) => &CLASS1,
            (Kind::ClusterClass, SchemaVersion::V1Beta2) => &CLASS2,
            (Kind::MachineDeployment, _) => &DEPLOYMENT,
            (Kind::MachineSet, _) => &SET,
            (Kind::Machine, _) => &MACHINE,
            (Kind::MachineHealthCheck, _) => &CHECK,
        }
    }
}

/// Rewrites formats and junctors, whose errors are reported at the whole value, as keywords whose errors are reported
/// at the field: 32-bit integers as bounds, and int-or-string without `anyOf`.
fn say_places(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            if keywords.get("format").is_some_and(|format| format == "int32") {
                keywords.remove("format");
                keywords.entry("minimum").or_insert_with(|| i32::MIN.into());
                keywords.entry("maximum").or_insert_with(|| i32::MAX.into());
            }
            if keywords.get("x-kubernetes-int-or-string").is_some_and(|flag| flag == true) {
                keywords.remove("anyOf");
            }
            keywords.values_mut().for_each(say_places);
        }
        Value::Array(nodes) => nodes.iter_mut().for_each(say_places),
        _ => {}
    }
}

/// Reports errors that prevent storing, and returns the paths of fields that would be pruned.
pub fn check(kind: Kind, version: SchemaVersion, object: &Value, found: &mut Findings) -> Vec<String> {
    let layer = ApiSchema::for_kind(kind, version);
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
    drop_nulls(&mut object, &layer.raw);
    let reported = found.run(LAYER, |found| {
        metadata_is_well_formed(&object, found);
        // Of a number that is no integer, the error at its place is enough.
        let is_repeated = |violation: &Violation| violation.rule == "VAR-V-023" && violation.kind == ErrorKind::Invalid;
        for violation in layer.compiled.violations(&object).into_iter().filter(|violation| !is_repeated(violation)) {
            let path = Path::ROOT.place(violation.place.trim_start_matches('.'));
            let value =
                object.pointer(&violation.pointer).map_or(ErrorValue::NOTHING, |value| shown(&violation.place, value));
            found.error(violation.kind, path, value, violation.detail);
        }
        walk(&layer.raw, &object, &Path::ROOT, found);
        layer.compiled.unknown_fields(&object)
    });
    reported.unwrap_or_default()
}

/// Values that exceed the upper bounds of the v1beta2 schema: texts, lists and maps. Nothing else is checked (DEC-44).
///
/// Objects in v1beta1 have looser schemas, or the CustomResourceDefinitions of another installation.
pub fn oversized(kind: Kind, object: &Value) -> Vec<Violation> {
    static CLASS: LazyLock<Schema> = LazyLock::new(|| maxima(Kind::ClusterClass));
    static CLUSTER: LazyLock<Schema> = LazyLock::new(|| maxima(Kind::Cluster));
    let spec = json!({"spec": object["spec"]});
    match kind {
        Kind::ClusterClass => CLASS.violations(&spec),
        Kind::Cluster => CLUSTER.violations(&spec),
        _ => Vec::new(),
    }
}

/// The v1beta2 schema of a kind, reduced to the upper bounds of sizes.
fn maxima(kind: Kind) -> Schema {
    let mut raw = schema(kind, SchemaVersion::V1Beta2);
    keep_maxima(&mut raw);
    let definition: SchemaDefinition = serde_json::from_value(raw).expect("our schemas have the shape of schemas");
    Schema::compile(&definition).expect("bounds compile")
}

fn keep_maxima(schema: &mut Value) {
    const BOUNDS: [&str; 3] = ["maxItems", "maxLength", "maxProperties"];
    const BELOW: [&str; 3] = ["properties", "items", "additionalProperties"];
    let Some(keywords) = schema.as_object_mut() else { return };
    keywords.retain(|name, value| BOUNDS.contains(&&**name) || (BELOW.contains(&&**name) && value.is_object()));
    for (name, value) in keywords {
        match (&**name, value) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(keep_maxima),
            ("items" | "additionalProperties", node) => keep_maxima(node),
            _ => {}
        }
    }
}

/// A value in an error. Values of variables, or parts of them, may be passwords and are not shown (DEC-34); names,
/// numbers and booleans are.
fn shown(place: &str, value: &Value) -> ErrorValue {
    let may_be_secret = match value {
        Value::String(_) => !place.ends_with("name") && !place.contains(".schema."),
        Value::Array(_) | Value::Object(_) => true,
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    };
    if may_be_secret && place.contains("variables") {
        ErrorValue::from("(not shown)")
    } else {
        ErrorValue::bounded(value)
    }
}

/// A null in a typed field counts as absent, unless the field has a default, as in structural schemas.
fn drop_nulls(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(members) => {
            let node = |name: &str| schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
            let is_typed = |name: &str| node(name).is_some_and(|node| node.get("type").is_some());
            members.retain(|name, member| !member.is_null() || !is_typed(name));
            for (name, member) in members {
                if let Some(node) = node(name) {
                    drop_nulls(member, node);
                }
            }
        }
        Value::Array(elements) => {
            if let Some(node) = schema.get("items") {
                elements.iter_mut().for_each(|element| drop_nulls(element, node));
            }
        }
        _ => {}
    }
}

/// Checks name, namespace, labels and annotations of any kind.
fn metadata_is_well_formed(object: &Value, found: &mut Findings) {
    let metadata = &object["metadata"];
    let text = |name: &str| metadata[name].as_str().unwrap_or_default();
    let name = text("name");
    if name.is_empty() && text("generateName").is_empty() {
        found.required(Path::new("metadata.name"), "name or generateName is required");
    } else if !name.is_empty() {
        subdomain_faults(name).into_iter().for_each(|fault| found.invalid(Path::new("metadata.name"), name, fault));
    }
    let entries = |name: &str| metadata[name].as_object().cloned().unwrap_or_default();
    strings(&entries("labels"), &Path::new("metadata.labels"), found, |key, value, path, found| {
        label_key_faults(key).into_iter().for_each(|fault| found.invalid(path.clone(), key, fault));
        label_value_faults(value).into_iter().for_each(|fault| found.invalid(path.clone(), value, fault));
    });
    strings(&entries("annotations"), &Path::new("metadata.annotations"), found, |key, _, path, found| {
        let faults = label_key_faults(&key.to_lowercase());
        faults.into_iter().for_each(|fault| found.invalid(path.clone(), key, fault));
    });
}

/// Checks each string entry; other types are reported.
fn strings(
    entries: &Map<String, Value>,
    path: &Path,
    found: &mut Findings,
    judge: impl Fn(&str, &str, &Path, &mut Findings),
) {
    for (key, value) in entries {
        match value {
            Value::String(text) => judge(key, text, path, found),
            other => found.error(
                ErrorKind::TypeInvalid,
                path.key(key),
                ErrorValue::bounded(other),
                "must be a string; write it in quotes",
            ),
        }
    }
}

/// Checks keys of lists, and the one CEL rule of these schemas.
fn walk(schema: &Value, value: &Value, path: &Path, found: &mut Findings) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if let Some(node) = schema["properties"].get(name) {
                    walk(node, member, &path.child(name), found);
                } else if let Some(node) = schema.get("additionalProperties") {
                    walk(node, member, &path.key(name), found);
                }
            }
        }
        Value::Array(elements) => {
            keys_are_unique(schema, elements, path, found);
            for (i, element) in elements.iter().enumerate() {
                walk(&schema["items"], element, &path.index(i), found);
            }
        }
        Value::String(text) => {
            for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
                if rule["rule"] == NOT_OWN_CONDITION && OWN_CONDITIONS.contains(&&**text) {
                    found.invalid(path.clone(), &**text, NOT_OWN_CONDITION_MESSAGE);
                }
            }
        }
        _ => {}
    }
}

/// Entries of a map list have unique keys.
fn keys_are_unique(schema: &Value, elements: &[Value], path: &Path, found: &mut Findings) {
    let names: Vec<&str> =
        schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if names.is_empty() {
        return;
    }
    let mut seen = BTreeSet::new();
    for (i, element) in elements.iter().enumerate() {
        let key: Map<String, Value> =
            names.iter().filter_map(|name| Some(((*name).to_owned(), element.get(*name)?.clone()))).collect();
        if !seen.insert(Value::Object(key.clone()).to_string()) {
            found.error(ErrorKind::Duplicate, path.index(i), Value::Object(key), "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(kind: Kind, version: SchemaVersion, object: &Value) -> Vec<(String, String)> {
        let mut found = Findings::default();
        check(kind, version, object, &mut found);
        let (errors, _) = found.into_parts();
        errors.iter().map(|error| (error.kind.reason().to_owned(), error.path.to_string())).collect()
    }

    fn cluster(topology: Value) -> Value {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "c", "namespace": "ns"},
            "spec": {"topology": topology}, "status": {"phase": 5}})
    }

    fn topology(part: &str, value: Value) -> Value {
        let mut topology = json!({"classRef": {"name": "class"}, "version": "v1.33.0"});
        topology[part] = value;
        cluster(topology)
    }

    #[test]
    fn the_layer_gives_the_errors_of_the_api_server() {
        // DEC-32; paths and types as kube-apiserver gives them.
        let deployments = |list: Value| topology("workers", json!({"machineDeployments": list}));
        for (object, want) in [
            (topology("controlPlane", json!({"replicas": 3, "metadata": null})), vec![]),
            (cluster(json!({"version": "v1.33.0"})), vec![("FieldValueRequired", "spec.topology.classRef")]),
            (topology("version", json!(1.33)), vec![("FieldValueTypeInvalid", "spec.topology.version")]),
            (
                topology("classRef", json!({"name": "UPPER"})),
                vec![("FieldValueInvalid", "spec.topology.classRef.name")],
            ),
            (
                topology("controlPlane", json!({"replicas": "3"})),
                vec![("FieldValueTypeInvalid", "spec.topology.controlPlane.replicas")],
            ),
            (
                deployments(json!([{"class": "a", "name": "x"}, {"class": "b", "name": "x"}])),
                vec![("FieldValueDuplicate", "spec.topology.workers.machineDeployments[1]")],
            ),
            (
                topology("controlPlane", json!({"replicas": 2_147_483_648_i64})),
                vec![("FieldValueInvalid", "spec.topology.controlPlane.replicas")],
            ),
            (
                deployments(json!([{"class": "a", "name": "x",
                    "rollout": {"strategy": {"type": "OnDelete", "rollingUpdate": {"maxSurge": true}}}}])),
                vec![(
                    "FieldValueTypeInvalid",
                    "spec.topology.workers.machineDeployments[0].rollout.strategy.rollingUpdate.maxSurge",
                )],
            ),
            (deployments(json!([])), vec![("FieldValueInvalid", "spec.topology.workers.machineDeployments")]),
            (
                topology("variables", json!([{"name": "x".repeat(257), "value": {"any": null}}])),
                vec![("FieldValueTooLong", "spec.topology.variables[0].name")],
            ),
            (
                topology(
                    "controlPlane",
                    json!({"healthCheck": {"checks": {"unhealthyMachineConditions": [
                    {"type": "Ready", "status": "False", "timeoutSeconds": 5}]}}}),
                ),
                vec![(
                    "FieldValueInvalid",
                    "spec.topology.controlPlane.healthCheck.checks.unhealthyMachineConditions[0].type",
                )],
            ),
        ] {
            let want: Vec<_> = want.into_iter().map(|(kind, path)| (kind.to_owned(), path.to_owned())).collect();
            assert_eq!(errors(Kind::Cluster, SchemaVersion::V1Beta2, &object), want, "{object}");
        }
    }

    #[test]
    fn upper_bounds_of_sizes_can_be_checked_alone() {
        // DEC-44: all maxima of api-types, and no other bounds.
        let places = |spec: Value| -> Vec<String> {
            let found = oversized(Kind::ClusterClass, &json!({"spec": spec, "status": {"variables": vec![1; 2000]}}));
            found.into_iter().map(|violation| violation.place).collect()
        };
        let root = |schema: Value| json!({"variables": [{"name": "v", "schema": {"openAPIV3Schema": schema}}]});
        let at = |field: &str| vec![format!(".spec.variables[0].schema.openAPIV3Schema.{field}")];
        assert_eq!(places(root(json!({"enum": vec![1; 101]}))), at("enum"));
        assert_eq!(places(root(json!({"enum": vec![1; 100], "pattern": "", "type": 5}))), [""; 0]);
        assert_eq!(places(root(json!({"pattern": "x".repeat(513)}))), at("pattern"));
        assert_eq!(places(root(json!({"required": vec!["a"; 1001]}))), at("required"));
        assert_eq!(places(json!({"variables": vec![json!({}); 1001]})), [".spec.variables"]);
        let template = json!([{"valueFrom": {"template": "x".repeat(10241)}}]);
        let patches = json!([{"definitions": [{"jsonPatches": template}]}]);
        assert_eq!(
            places(json!({"patches": patches})),
            [".spec.patches[0].definitions[0].jsonPatches[0].valueFrom.template"]
        );
        assert_eq!(places(json!({})), [""; 0]);
        assert_eq!(places(json!(null)), [""; 0]);
    }

    #[test]
    fn paths_and_limits_are_those_of_the_version() {
        // DEC-32
        let object = json!({"metadata": {"name": "c"},
            "spec": {"topology": {"class": "", "version": "v1", "workers": {"machineDeployments": []}}}});
        let want = [("FieldValueInvalid".to_owned(), "spec.topology.class".to_owned())];
        assert_eq!(errors(Kind::Cluster, SchemaVersion::V1Beta1, &object), want);
    }

    #[test]
    fn unknown_fields_are_named_and_metadata_is_checked_separately() {
        // DEC-32
        let mut object = topology("controlPlane", json!({"replica": 3}));
        object["metadata"] =
            json!({"name": "Upper", "labels": {"a b": "c d", "n": 5}, "annotations": {"x y": "z"}, "foo": 1});
        let mut found = Findings::default();
        let unknown = check(Kind::Cluster, SchemaVersion::V1Beta2, &object, &mut found);
        assert_eq!(unknown, ["spec.topology.controlPlane.replica"]);
        let paths: Vec<_> = found.into_parts().0.iter().map(|error| error.path.to_string()).collect();
        let want =
            ["metadata.name", "metadata.labels", "metadata.labels", "metadata.labels[n]", "metadata.annotations"];
        assert_eq!(paths, want);
        let nameless = json!({"metadata": {}, "spec": {"paused": true}});
        let want = [("FieldValueRequired".to_owned(), "metadata.name".to_owned())];
        assert_eq!(errors(Kind::Cluster, SchemaVersion::V1Beta1, &nameless), want);
    }

    #[test]
    fn the_rule_names_the_conditions_that_it_keeps_out() {
        let quoted: Vec<String> = OWN_CONDITIONS.iter().map(|name| format!("'{name}'")).collect();
        assert_eq!(NOT_OWN_CONDITION, format!("!(self in [{}])", quoted.join(",")));
        assert_eq!(NOT_OWN_CONDITION_MESSAGE, format!("type must not be one of: {}", OWN_CONDITIONS.join(", ")));
    }
}
