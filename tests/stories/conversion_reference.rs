//! Conversions from the older version of a kind, beside those of Cluster API (CONV-015).
//!
//! Objects are composed from a seed and the schemas of the older versions, with many empty values. A converted object
//! may violate the schema of the newer version only where Cluster API's does too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value, json};
use topologist::hub::Kind;
use topologist::wire::WireVersion;
use topologist::wire::conversion::{KindVersions, convert, extension_config};
use topologist::yaml;

use crate::harness::chance::Chance;
use crate::harness::{programs, reference};

/// The number of composed objects.
const OBJECTS: u64 = 10_000;

/// Maximum number of differences in a message.
const SHOWN: usize = 5;

const LIST: &str = include_str!("../../crates/model/src/wire/conversion/omitted_fields.txt");

const KINDS: [(&str, &str, &str, &str); 3] = [
    ("Cluster", "cluster.x-k8s.io_clusters", "cluster.x-k8s.io/v1beta1", "cluster.x-k8s.io/v1beta2"),
    ("ClusterClass", "cluster.x-k8s.io_clusterclasses", "cluster.x-k8s.io/v1beta1", "cluster.x-k8s.io/v1beta2"),
    (
        "ExtensionConfig",
        "runtime.cluster.x-k8s.io_extensionconfigs",
        "runtime.cluster.x-k8s.io/v1alpha1",
        "runtime.cluster.x-k8s.io/v1beta2",
    ),
];

/// Texts that fields may have.
const TEXTS: [&str; 12] = [
    "",
    "a",
    "Ready",
    "True",
    "x.example.com/v1",
    "[1-2]",
    "2026-01-01T00:00:00Z",
    "Oldest",
    "10s",
    "YQ==",
    "https://a.example",
    "v1.31.0",
];

#[test]
fn the_list_of_omitted_fields_is_that_of_the_types() {
    let output = Command::new(reference::program()).arg("fields").output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), LIST);
}

#[test]
fn converted_objects_violate_the_newer_schema_only_where_those_of_cluster_api_do() {
    let kinds: Vec<ComparedKind> = KINDS.iter().map(|kind| ComparedKind::read(*kind)).collect();
    let objects: Vec<(usize, Value)> = (0..OBJECTS)
        .map(|seed| {
            let mut chance = Chance(seed);
            let at = chance.below(kinds.len());
            (at, kinds[at].compose(&mut chance))
        })
        .collect();
    let answers = reference::ask("convert", objects.iter().map(|(_, object)| object));
    let (mut differences, mut refused, mut equal) = (Vec::new(), 0, 0);
    for ((at, old), answer) in objects.into_iter().zip(answers) {
        let kind = &kinds[at];
        let mut ours = old.clone();
        let outcome = kind.convert(&mut ours);
        let Some(theirs) = answer.get("object") else {
            let error = answer["error"].as_str().unwrap();
            assert!(
                outcome.is_err() || error.starts_with("panic: "),
                "{old} is converted, but Cluster API says: {error}"
            );
            refused += 1;
            continue;
        };
        assert_eq!(outcome, Ok(()), "{old}");
        equal += usize::from(ours == *theirs);
        let violations = kind.violations(&ours);
        let violations = unique(&violations, &kind.violations(theirs));
        if !violations.is_empty() {
            differences.push(format!("{violations:#?}\nfrom {old}\nto   {ours}\nnot  {theirs}"));
        }
    }
    println!("{equal} of {OBJECTS} are equal, {refused} are refused");
    assert!(refused < OBJECTS / 10, "{refused}");
    let shown = &differences[..differences.len().min(SHOWN)];
    assert!(shown.is_empty(), "{} differences:\n{}", differences.len(), shown.join("\n"));
}

/// A kind whose conversions are compared.
struct ComparedKind {
    name: &'static str,
    old: &'static str,
    new: &'static str,
    schema: Value,
    newer: Validator,
}

impl ComparedKind {
    fn read((name, file, old, new): (&'static str, &str, &'static str, &'static str)) -> Self {
        let path = programs::folder("reference").join(format!("core.config/crd/bases/{file}.yaml"));
        let definition = yaml::documents(&fs::read_to_string(path).unwrap()).remove(0).unwrap().value;
        let schema = |api_version: &str| {
            let mut versions = definition["spec"]["versions"].as_array().unwrap().iter();
            let name = api_version.split_once('/').unwrap().1;
            versions.find(|version| version["name"] == name).unwrap()["schema"]["openAPIV3Schema"].clone()
        };
        let newer = jsonschema::draft4::new(&schema(new)).unwrap();
        ComparedKind { name, old, new, schema: schema(old), newer }
    }

    fn compose(&self, chance: &mut Chance) -> Value {
        let mut object = value(chance, "", &self.schema);
        object["apiVersion"] = json!(self.old);
        object["kind"] = json!(self.name);
        object["metadata"] = json!({"name": "x", "namespace": "ns"});
        object
    }

    fn convert(&self, object: &mut Value) -> Result<(), String> {
        let converted = match Kind::from_name(self.name) {
            Some(kind) => convert(kind, object, WireVersion::V1Beta2, &KindVersions::new()),
            None => extension_config::convert(object, self.new),
        };
        converted.map_err(|error| error.to_string())
    }

    /// Paths at which an object violates the newer schema.
    fn violations(&self, object: &Value) -> BTreeSet<String> {
        let path = |error: ValidationError<'_>| match error.kind() {
            ValidationErrorKind::Required { property } => {
                format!("{}/{}", error.instance_path(), property.as_str().unwrap())
            }
            _ => error.instance_path().to_string(),
        };
        self.newer.iter_errors(object).map(path).collect()
    }
}

/// Paths of the one that are neither among the others nor above one of them: instead of an object that lacks required
/// fields, the object may be missing.
fn unique<'a>(ours: &'a BTreeSet<String>, theirs: &BTreeSet<String>) -> Vec<&'a String> {
    let is_above = |path: &str, other: &str| other.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
    ours.iter().filter(|path| !theirs.iter().any(|other| *path == other || is_above(path, other))).collect()
}

/// A value that a schema accepts, but for its formats and patterns.
fn value(chance: &mut Chance, name: &str, schema: &Value) -> Value {
    if let Some(values) = schema["enum"].as_array() {
        return chance.pick(values);
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return chance.pick(&[json!(0), json!(1), json!("40%")]);
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == true || schema.get("type").is_none() {
        return free(chance, name);
    }
    match schema["type"].as_str().unwrap() {
        "object" => object(chance, schema),
        "array" => list(chance, schema),
        "boolean" => json!(chance.percent(50)),
        "integer" | "number" => json!(chance.pick(&[0, 0, 1, 7])),
        _ if schema["format"] == "date-time" => json!("2026-01-01T00:00:00Z"),
        _ if schema["format"] == "byte" => json!(chance.pick(&["", "YQ=="])),
        _ if name.ends_with("imeout") => json!(chance.pick(&["0s", "5m0s", "500ms"])),
        _ => {
            let least = schema["minLength"].as_u64().unwrap_or(0);
            let fit = |text: &&str| text.len() as u64 >= least;
            json!(chance.pick(&TEXTS.into_iter().filter(fit).collect::<Vec<_>>()))
        }
    }
}

fn object(chance: &mut Chance, schema: &Value) -> Value {
    if let Some(values) = schema.get("additionalProperties") {
        let names = chance.some(&["a", "b"]);
        return names.into_iter().map(|name| (name.to_owned(), value(chance, "", values))).collect();
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let fields: BTreeMap<_, _> = schema["properties"].as_object().into_iter().flatten().collect();
    // An object with nothing that is not required is the emptiest.
    let percent = chance.pick(&[0, 20, 60]);
    let mut members = Map::new();
    for (name, field) in fields {
        if required.iter().any(|one| one == name) || chance.percent(percent) {
            members.insert(name.clone(), value(chance, name, field));
        }
    }
    Value::Object(members)
}

fn list(chance: &mut Chance, schema: &Value) -> Value {
    let least = usize::try_from(schema["minItems"].as_u64().unwrap_or(0)).unwrap();
    let length = least.max(chance.below(3));
    // Cluster API does not convert two variables of the same name.
    let keys = match schema["x-kubernetes-list-map-keys"].as_array() {
        Some(keys) => keys.clone(),
        None => ["name", "from"].into_iter().map(Value::from).filter(|key| is_field(schema, key)).collect(),
    };
    let mut seen = BTreeSet::new();
    let mut entries: Vec<Value> = (0..length).map(|_| value(chance, "", &schema["items"])).collect();
    entries.retain(|entry| {
        let key = |name: &Value| entry[name.as_str().unwrap()].to_string();
        keys.is_empty() || seen.insert(keys.iter().map(key).collect::<Vec<_>>())
    });
    Value::Array(entries)
}

fn is_field(schema: &Value, name: &Value) -> bool {
    schema["items"]["properties"].get(name.as_str().unwrap()).is_some()
}

/// A value of a field without a schema; schemas of variables are such fields.
fn free(chance: &mut Chance, name: &str) -> Value {
    match name {
        "properties" => json!({"a": node(chance), "uniqueItems": node(chance)}),
        "items" | "additionalProperties" | "not" => node(chance),
        "allOf" | "oneOf" | "anyOf" => (0..chance.below(3)).map(|_| node(chance)).collect(),
        _ => chance.pick(&[json!(""), json!(0), json!(false), json!([]), json!({}), json!({"a": "", "paused": false})]),
    }
}

/// A schema within the schema of a variable.
fn node(chance: &mut Chance) -> Value {
    let mut node = chance.pick(&[
        json!({}),
        json!({"type": "", "default": ""}),
        json!({"type": "object", "required": [], "description": ""}),
        json!({"uniqueItems": false, "x-metadata": {"labels": {}}, "enum": []}),
    ]);
    if chance.percent(30) {
        node["items"] = self::node(chance);
    }
    node
}
