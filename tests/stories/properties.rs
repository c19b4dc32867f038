//! Whatever comes in: an answer goes out, and the same one again.
//!
//! `docs/testing.md` lists these properties with those inside the library, and says how to run them for hours.

use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};
use topologist::admission::{AdmissionSettings, DecodedRequest, Operation, Phase, RawRequest, Verdict};
use topologist::budget::Stop;
use topologist::field::{Findings, Path as FieldPath};
use topologist::hub::{Cluster, ClusterClass, Kind};
use topologist::openapi::{FastVerdict, Schema, SchemaAllowance, SchemaDefinition, ValidationEffort, check};
use topologist::wire::review::AdmissionReview;
use topologist::wire::{Decode, WireVersion};
use topologist::world::Facts;
use topologist::yaml;

use crate::harness::verdicts::errors_of_class;

/// So many cases, unless `PROPTEST_CASES` asks for others.
fn cases(usual: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    let is_requested = std::env::var_os("PROPTEST_CASES").is_some();
    ProptestConfig { cases: if is_requested { config.cases } else { usual }, ..config }
}

/// A class and a Cluster of each provider's shape.
static BUNDLES: LazyLock<Vec<[Value; 2]>> = LazyLock::new(|| {
    let read = |name| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/providers").join(name);
        let text = fs::read_to_string(folder.join("bundle.yaml")).unwrap();
        let objects: Vec<Value> = yaml::documents(&text).into_iter().map(|object| object.unwrap().value).collect();
        ["ClusterClass", "Cluster"].map(|kind| {
            let mut object = objects.iter().find(|object| object["kind"] == kind).unwrap().clone();
            object["metadata"]["namespace"] = json!("default");
            object
        })
    };
    ["aws", "azure", "docker", "in-memory", "vsphere"].map(read).to_vec()
});

/// What nobody expects.
fn oddity() -> impl Strategy<Value = Value> {
    let text = select(vec![
        "",
        " ",
        "*",
        "builtin",
        "inline",
        "v1.34.0",
        "v99.0.0",
        "{{",
        "{{ . }}",
        "{{ .a",
        "/spec/0",
        "a/b/c",
        "self == oldSelf",
        "self.all(x, x)",
        "(",
        "\u{0}",
        "é",
        "1e999",
        "-",
        "50%",
        "Template",
        "string",
        "array",
        "object",
        "password",
        "10m",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        select(vec![json!(0), json!(-1), json!(30), json!(u64::MAX), json!(i64::MIN), json!(1.5), json!(1e300)]),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let name =
            select(vec!["name", "value", "type", "default", "items", "properties", "rule", "x", "metadata", "ref"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..3).prop_map(|members| {
                Value::from(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
            }),
        ]
    })
}

/// Every node of a value, as a JSON pointer.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| pointers(item, &format!("{at}/{i}"), all));
        }
        Value::Object(members) => {
            let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
            members.iter().for_each(|(name, member)| pointers(member, &format!("{at}/{}", escaped(name)), all));
        }
        _ => {}
    }
}

/// The object with oddities in the place of some of its nodes, or twice what was there once.
fn disturbed(mut object: Value, oddities: &[(Index, Option<Value>)]) -> Value {
    for (index, oddity) in oddities {
        let mut all = Vec::new();
        pointers(&object["spec"], "/spec", &mut all);
        let Some(node) = object.pointer_mut(index.get(&all).as_str()) else { continue };
        match (oddity, node) {
            (Some(oddity), node) => *node = oddity.clone(),
            (None, Value::Array(items)) => items.extend(items.clone()),
            (None, node) => *node = Value::Null,
        }
    }
    object
}

fn version_of(object: &Value) -> WireVersion {
    WireVersion::from_api_version(object["apiVersion"].as_str().unwrap()).unwrap()
}

fn answer(phase: Phase, kind: Kind, new: &Value, old: Option<&Value>, facts: &Arc<Facts>) -> Verdict {
    let (object, old_object) = (new.to_string(), old.map(Value::to_string));
    let request = RawRequest {
        phase,
        kind,
        version: version_of(new),
        operation: if old.is_some() { Operation::Update } else { Operation::Create },
        name: "x",
        object: Some(&object),
        old_object: old_object.as_deref(),
        old_version: version_of(new),
    };
    match DecodedRequest::decode(&request) {
        Ok(question) => question.settle(facts, &AdmissionSettings::default()),
        Err(verdict) => *verdict,
    }
}

/// Names of fields, whole and in pieces, and other letters.
fn pieces(of: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::collection::vec(select(of), 0..10).prop_map(|pieces| pieces.concat())
}

const PATHS: &[&str] = &[
    "/",
    "spec",
    "template",
    "0",
    "-",
    "1",
    "-1",
    "+0",
    "00",
    "~0",
    "~1",
    "~",
    "é",
    " ",
    "/spec",
    ".",
    "9223372036854775808",
];

const EXPRESSIONS: &[&str] =
    &["builtin", ".", "cluster", "name", "[", "]", "0", "size", "é", " ", "..", "[0]", "labels"];

/// What PAT-011 and PAT-012 say of an addition, put differently: everything but a zero is a wrong position.
fn is_addition_refused(path: &str) -> bool {
    let is_number = |segment: &str| {
        let digits = segment.strip_prefix(['+', '-']).unwrap_or(segment);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) && segment.parse::<i64>().is_ok()
    };
    let is_zero = |segment: &str| segment.trim_start_matches(['+', '-']).bytes().all(|byte| byte == b'0');
    !path.starts_with("/spec") || path.split('/').any(|segment| is_number(segment) && !is_zero(segment))
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn a_disturbed_object_gets_an_answer_and_the_same_again(
        bundle in any::<Index>(),
        of_class in prop::collection::vec((any::<Index>(), proptest::option::of(oddity())), 0..3),
        of_cluster in prop::collection::vec((any::<Index>(), proptest::option::of(oddity())), 0..3),
    ) {
        let [class, cluster] = bundle.get(&BUNDLES).clone();
        let (new_class, new_cluster) = (disturbed(class.clone(), &of_class), disturbed(cluster.clone(), &of_cluster));
        let stored = ClusterClass::decode(version_of(&new_class), &new_class.to_string());
        let user = Cluster::decode(version_of(&cluster), &cluster.to_string()).unwrap();
        let facts = Arc::new(Facts::complete(vec![user], stored));
        for phase in [Phase::Default, Phase::Validate] {
            for (kind, new, old) in [(Kind::ClusterClass, &new_class, &class), (Kind::Cluster, &new_cluster, &cluster)] {
                for old in [None, Some(old)] {
                    let verdict = answer(phase, kind, new, old, &facts);
                    prop_assert_eq!(&verdict, &answer(phase, kind, new, old, &facts));
                    let review = verdict.response("uid").unwrap().into_review();
                    prop_assert!(serde_json::to_string(&review).is_ok());
                    let mut changed = new.clone();
                    prop_assert!(json_patch::patch(&mut changed, &verdict.patch).is_ok(), "{:?}", verdict.patch);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn any_bytes_get_an_answer(
        mut bytes in prop::collection::vec(any::<u8>(), 0..64),
        at in any::<Index>(),
        cut in any::<Index>(),
    ) {
        let _ = serde_json::from_slice::<AdmissionReview<'_>>(&bytes);
        // The same in the middle of a good one.
        let good = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u",
            "kind": {"group": "cluster.x-k8s.io", "version": "v1beta2", "kind": "Cluster"}, "operation": "CREATE",
            "object": {"metadata": {"name": "é\n\u{1}"}, "spec": {}}, "oldObject": null, "dryRun": true}})
        .to_string();
        let mut review = good.into_bytes();
        let at = at.index(review.len());
        let end = at + cut.index(review.len() - at);
        review.splice(at..end, bytes.drain(..));
        if let Ok(review) = serde_json::from_slice::<AdmissionReview<'_>>(&review)
            && let Some(object) = review.request.and_then(|request| request.object)
        {
            let _ = Cluster::decode(WireVersion::V1Beta2, object.get());
        }
    }

    #[test]
    fn a_valid_schema_validates_any_value_and_defaults_are_idempotent(schema in oddity(), more in oddity(), value in oddity()) {
        let mut node = json!({"type": "object", "properties": {"a": schema, "b": {"type": "array", "items": more}}});
        for (name, member) in schema.as_object().into_iter().flatten() {
            node[name] = member.clone();
        }
        let Ok(definition) = serde_json::from_value::<SchemaDefinition>(node) else { return Ok(()) };
        let mut found = Findings::default();
        let checked = check(&definition, &FieldPath::new("schema"), &mut SchemaAllowance::unlimited(), &mut found);
        prop_assert_eq!(checked.is_some(), found.error_count() == 0);
        let Ok(compiled) = Schema::compile(&definition) else { return Ok(()) };
        for value in [value.clone(), json!({"a": value, "b": [value, null]})] {
            let mut completed = value.clone();
            compiled.complete(&mut completed);
            let once = completed.clone();
            compiled.complete(&mut completed);
            prop_assert_eq!(&completed, &once, "defaults are applied once");
            let unknown = compiled.unknown_fields(&completed);
            compiled.meant_by(&completed, &unknown);
            if compiled.fast_check(&completed.to_string(), &ValidationEffort::unlimited(&Stop::never())) == FastVerdict::Whole {
                prop_assert!(unknown.is_empty() && compiled.violations(&completed).is_empty());
            }
            compiled.rule_violations(&completed, Some(&value));
        }
    }

    #[test]
    fn any_path_and_any_expression_of_a_patch_gets_an_answer(path in pieces(PATHS), variable in pieces(EXPRESSIONS)) {
        let selector = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevClusterTemplate",
            "matchResources": {"infrastructureCluster": true}});
        let size = json!({"name": "size", "required": false, "schema": {"openAPIV3Schema": {"type": "string"}}});
        let errors = errors_of_class(&json!({"variables": [size], "patches": [{"name": "p", "definitions": [{
            "selector": selector,
            "jsonPatches": [{"op": "add", "path": path, "value": 1},
                {"op": "add", "path": "/spec/a", "valueFrom": {"variable": variable}}],
        }]}]}));
        let is_refused = errors.iter().any(|(_, field)| field.ends_with("jsonPatches[0].path"));
        prop_assert_eq!(is_refused, is_addition_refused(&path), "{} {:?}", path, errors);
        let name = variable.split(['.', '[']).find(|piece| !piece.is_empty());
        let unknown = errors.iter().any(|(_, field)| field.ends_with("valueFrom.variable"));
        let is_known = if variable.starts_with("builtin.") {
            ["builtin.cluster", "builtin.cluster.name", "builtin.cluster.metadata.labels"].contains(&&*variable)
        } else {
            name == Some("size")
        };
        prop_assert!(variable.is_empty() || unknown != is_known, "{} {:?}", variable, errors);
    }
}
