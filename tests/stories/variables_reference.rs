//! Variables of composed classes and Clusters, beside those that Cluster API refuses (VAR-S, VAR-V, CEL-009, CEL-024).
//!
//! Schemas and values are composed from a seed. The reason and the path of each error have to be the same. A rule that
//! cannot be compiled is besides reported at the rule, where Cluster API names only the default that waits for it.
//!
//! Not composed, since the answers differ on purpose or depend on the processor (DEC-51): rules of a variable that is
//! an array, transition rules of arrays, bounds of 64 bits for numbers that are not integers, and formats and rules of
//! nodes that have no type.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use topologist::admission::{AdmissionSettings, DecodedRequest, Operation, Phase, RawRequest};
use topologist::hub::{ClusterClass, Kind};
use topologist::topology::class_status;
use topologist::wire::{Decode, WireVersion};
use topologist::world::Facts;

use crate::harness::chance::Chance;
use crate::harness::objects::template_ref;
use crate::harness::reference;

/// The number of composed pairs of a class and a Cluster.
const PAIRS: u64 = 20_000;

/// Maximum number of differences in a message.
const SHOWN: usize = 5;

/// Numbers as they are written, since a JSON library would change them.
const NUMBERS: [&str; 21] = [
    "0",
    "1",
    "3",
    "-1",
    "1.5",
    "2.0",
    "-0.0",
    "1e3",
    "1.0000000000001",
    "0.0000000001",
    "2147483648",
    "-2147483649",
    "9007199254740993",
    "9007199254740994.0",
    "9223372036854775295",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "1e17",
    "1e39",
    "1e300",
];

const TEXTS: [&str; 35] = [
    "",
    "a",
    "b",
    "abcdef",
    "\u{e9}\u{e9}\u{e9}",
    "1",
    "1.5",
    "2024-02-30",
    "2024-02-29",
    "2024-02-29t10:00:00z",
    "2024-02-29T10:00:60Z",
    "1h",
    "1 day",
    "5m3",
    "1 DAYS",
    "abc5sdef",
    "99999999999999999999s",
    "9999999999999h",
    "3 hrs x",
    ".5w",
    "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    "7dec11d0-a765-41a0-891e-6bf600000000",
    "02:00:5e:10:00:00",
    "0200.5e10.0000.0001",
    "02005e100000",
    "02005e1000000001",
    "02005e10",
    "10.0.0.1",
    "10.0.0.0/8",
    "fe80::1",
    "a@example.com",
    "https://a.example/b",
    "/a",
    "YQ==",
    "#fff",
];

const FORMATS: [&str; 24] = [
    "date-time",
    "date",
    "duration",
    "mac",
    "uuid",
    "uuid4",
    "ipv4",
    "ipv6",
    "cidr",
    "email",
    "uri",
    "byte",
    "hostname",
    "hexcolor",
    "password",
    "k8s-short-name",
    "k8s-long-name",
    "int32",
    "int64",
    "float",
    "double",
    "uint32",
    "bogus",
    "isbn",
];

/// A class, a Cluster, and the Cluster before an update, as JSON.
struct Pair {
    class: String,
    cluster: String,
    old: Option<String>,
}

/// Reasons and paths of errors.
type Causes = BTreeSet<(String, String)>;

#[test]
fn the_same_definitions_and_values_are_refused() {
    let pairs: Vec<Pair> = (0..PAIRS).map(|seed| compose(&mut Chance(seed))).collect();
    let answers = reference::ask_texts("variables", pairs.iter().map(Pair::to_text));
    let (mut differences, mut denied_classes, mut denied_clusters) = (Vec::new(), 0, 0);
    for (pair, answer) in pairs.iter().zip(answers) {
        let theirs = |of: &str| causes(&answer["causes"][of]);
        let (class, cluster) = (theirs("class"), theirs("cluster"));
        let ours = pair.refused_definitions();
        if ours != with_rules(&class, &ours) {
            differences.push(format!("{}\nclass: ours {ours:?}\ntheirs {class:?}", pair.class));
        }
        denied_classes += u64::from(!class.is_empty());
        if class.is_empty() && ours.is_empty() {
            let ours = pair.refused_values();
            if ours != cluster {
                differences.push(format!("{}\nCluster: ours {ours:?}\ntheirs {cluster:?}", pair.to_text()));
            }
            denied_clusters += u64::from(!cluster.is_empty());
        }
    }
    assert!((PAIRS / 20..PAIRS / 2).contains(&denied_classes), "{denied_classes}");
    assert!((PAIRS / 5..PAIRS * 4 / 5).contains(&denied_clusters), "{denied_clusters}");
    let shown = &differences[..differences.len().min(SHOWN)];
    assert!(shown.is_empty(), "{} differences:\n{}", differences.len(), shown.join("\n"));
}

fn causes(all: &Value) -> Causes {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all = all.as_array().unwrap_or_else(|| panic!("{all}"));
    all.iter().map(|cause| (text(&cause["reason"]), text(&cause["field"]))).collect()
}

/// Cluster API's causes, and our causes at rules if it refuses a default.
fn with_rules(theirs: &Causes, ours: &Causes) -> Causes {
    let refuses_default = theirs.iter().any(|(_, path)| path.contains(".default"));
    let at_rules = ours.iter().filter(|(_, path)| refuses_default && path.contains("x-kubernetes-validations"));
    theirs.iter().chain(at_rules).cloned().collect()
}

impl Pair {
    fn to_text(&self) -> String {
        let old = self.old.as_ref().map(|old| format!(",\"old\":{old}")).unwrap_or_default();
        format!("{{\"class\":{},\"cluster\":{}{old}}}", self.class, self.cluster)
    }

    fn refused_definitions(&self) -> Causes {
        refused(Kind::ClusterClass, &self.class, None, Facts::default(), "spec.variables[")
    }

    fn refused_values(&self) -> Causes {
        let class = ClusterClass::decode(WireVersion::V1Beta2, &class_status::with_status(&self.class)).unwrap();
        let facts = Facts::complete([], [class]);
        refused(Kind::Cluster, &self.cluster, self.old.as_deref(), facts, "spec.topology.variables[")
    }
}

/// The errors of a review whose paths begin with a prefix.
fn refused(kind: Kind, object: &str, old: Option<&str>, facts: Facts, prefix: &str) -> Causes {
    let request = RawRequest {
        // Values are checked together with their defaults.
        phase: if kind == Kind::Cluster { Phase::Default } else { Phase::Validate },
        kind,
        version: WireVersion::V1Beta2,
        operation: if old.is_some() { Operation::Update } else { Operation::Create },
        name: "x",
        object: Some(object),
        old_object: old,
        old_version: WireVersion::V1Beta2,
    };
    let decoded = DecodedRequest::decode(&request).unwrap_or_else(|verdict| panic!("{verdict:?}"));
    let verdict = decoded.settle(&Arc::new(facts), &AdmissionSettings::default());
    let errors = verdict.errors().iter().map(|error| (error.kind.reason().to_owned(), error.path.to_string()));
    errors.filter(|(_, path)| path.starts_with(prefix)).collect()
}

fn compose(chance: &mut Chance) -> Pair {
    let mut schema = schema(chance, 2);
    if schema["type"] == "array" {
        remove_rules(&mut schema);
    }
    let class = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
    "metadata": {"name": "class", "namespace": "ns"}, "spec": {
        "infrastructure": template_ref("infrastructure", "DevClusterTemplate"),
        "controlPlane": template_ref("controlplane", "KubeadmControlPlaneTemplate"),
        "variables": [{"name": "v", "required": false, "schema": {"openAPIV3Schema": schema}}],
    }});
    let (is_given, is_update) = (chance.percent(85), chance.percent(30));
    let mut cluster = |is_given| {
        let values = if is_given { json!([{"name": "v", "value": value(chance, &schema, 3)}]) } else { json!([]) };
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "x", "namespace": "ns"},
            "spec": {"topology": {"classRef": {"name": "class"}, "version": "v1.33.1", "variables": values}}})
    };
    let (new, old) = (cluster(is_given), is_update.then(|| cluster(true)));
    Pair { class: text(&class), cluster: text(&new), old: old.as_ref().map(text) }
}

/// Removes the rules of a node and of all below it.
fn remove_rules(node: &mut Value) {
    match node {
        Value::Object(members) => {
            members.remove("x-kubernetes-validations");
            members.values_mut().for_each(remove_rules);
        }
        Value::Array(elements) => elements.iter_mut().for_each(remove_rules),
        _ => {}
    }
}

/// A number as it is written.
fn number(chance: &mut Chance) -> Value {
    json!(format!("@{}", chance.pick(&NUMBERS)))
}

/// An object as JSON, with numbers as they are written.
fn text(object: &Value) -> String {
    NUMBERS.iter().fold(object.to_string(), |text, number| text.replace(&format!("\"@{number}\""), number))
}

fn schema(chance: &mut Chance, depth: usize) -> Value {
    let types = ["string", "integer", "number", "boolean", "int-or-string", "any", "object", "array"];
    let kind = chance.pick(&types[..if depth > 0 { 8 } else { 6 }]);
    let mut node = match kind {
        "int-or-string" => json!({"x-kubernetes-int-or-string": true}),
        "any" => json!({"x-kubernetes-preserve-unknown-fields": true}),
        kind => json!({"type": kind}),
    };
    match kind {
        "object" if chance.percent(30) => node["additionalProperties"] = schema(chance, depth - 1),
        "object" => {
            let names = ["a", "b"];
            let properties: Map<_, _> =
                names.iter().map(|name| ((*name).to_owned(), schema(chance, depth - 1))).collect();
            node["properties"] = properties.into();
            if chance.percent(30) {
                node["required"] = json!(chance.some(&names));
            }
            if chance.percent(15) {
                node["x-kubernetes-preserve-unknown-fields"] = json!(true);
            }
        }
        "array" => {
            node["items"] = schema(chance, depth - 1);
            if chance.percent(20) {
                node["maxItems"] = json!(chance.below(3));
            }
        }
        _ => {}
    }
    if chance.percent(40) && ["string", "integer", "number"].contains(&kind) {
        node["format"] = json!(chance.pick(&FORMATS));
    }
    constrain(chance, &mut node);
    if chance.percent(15) {
        let default = value(chance, &node, 2);
        // Cluster API lets a list pass for a text with any format here, unlike in a Cluster.
        if !(default.is_array() && node["format"].is_string()) {
            node["default"] = default;
        }
    }
    if chance.percent(10) {
        let mut junctor = json!({});
        constrain(chance, &mut junctor);
        match chance.pick(&["allOf", "anyOf", "oneOf", "not"]) {
            "not" => node["not"] = junctor,
            name => {
                let mut second = json!({});
                constrain(chance, &mut second);
                node[name] = json!([junctor, second]);
            }
        }
    }
    let is_open = node.to_string().contains("x-kubernetes-preserve-unknown-fields");
    if chance.percent(15) && !is_open {
        node["x-kubernetes-validations"] = json!([rule(chance, kind)]);
    }
    node
}

/// Bounds, patterns and enums.
fn constrain(chance: &mut Chance, node: &mut Value) {
    if chance.percent(20) {
        let bounds = [1, 3, 4_294_967_295, i64::MAX, i64::MIN];
        let known = if node["type"] == "integer" { &bounds[..] } else { &bounds[..3] };
        node[chance.pick(&["minimum", "maximum"])] = json!(chance.pick(known));
    }
    if chance.percent(10) {
        node[chance.pick(&["minLength", "maxLength"])] = json!(chance.below(7));
    }
    if chance.percent(10) {
        node["pattern"] = json!(chance.pick(&["^a", "[0-9]+", "^.$"]));
    }
    if chance.percent(10) {
        let candidates = match node["type"].as_str() {
            Some("integer") => vec![json!(1), json!(3)],
            Some("number") => vec![json!(1), json!("@1.5")],
            Some("string") => vec![json!("a"), json!("b"), json!("1")],
            _ => Vec::new(),
        };
        if !candidates.is_empty() {
            node["enum"] = json!(candidates);
        }
    }
}

fn rule(chance: &mut Chance, kind: &str) -> Value {
    let rules = match kind {
        "string" => ["self == oldSelf", "self.size() > 1", "self == 'a' || oldSelf == 'b'", "self.foo > 1"],
        "integer" | "number" => ["self == oldSelf", "self > 1", "self >= oldSelf", "self.size() > 1"],
        "object" => ["self == oldSelf", "has(self.a)", "!has(oldSelf.a) || has(self.a)", "self.nothing"],
        "array" => ["self.size() == 1", "self.size() > 1", "self.all(x, x == x)", "self.foo"],
        _ => ["self == oldSelf", "self == self", "true", "1"],
    };
    json!({"rule": chance.pick(&rules)})
}

/// A value that often has the type of a node.
fn value(chance: &mut Chance, node: &Value, depth: usize) -> Value {
    let types = ["string", "integer", "boolean", "null", "object", "array"];
    let kind = match node["type"].as_str() {
        Some(kind) if chance.percent(80) => kind,
        _ => chance.pick(&types[..if depth > 0 { 6 } else { 4 }]),
    };
    match kind {
        "integer" | "number" if chance.percent(60) => number(chance),
        "integer" | "number" => json!(chance.pick(&["@1", "@3"])),
        "boolean" => json!(chance.percent(50)),
        "null" => Value::Null,
        "object" if depth > 0 => {
            let names = chance.some(&["a", "b", "c"]);
            let below = |name: &str| match &node["properties"][name] {
                Value::Null => node["additionalProperties"].clone(),
                known => known.clone(),
            };
            names.iter().map(|name| ((*name).to_owned(), value(chance, &below(name), depth - 1))).collect()
        }
        "array" if depth > 0 => (0..chance.below(3)).map(|_| value(chance, &node["items"], depth - 1)).collect(),
        _ => json!(chance.pick(&TEXTS)),
    }
}
