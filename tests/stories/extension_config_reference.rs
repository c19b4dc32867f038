//! The fields of ExtensionConfigs that admission refuses, beside those that Cluster API refuses (RH-2.5).

use std::collections::BTreeSet;

use serde_json::{Value, json};
use topologist::extensions::config::{ConfigError, check};
use topologist::hub::Object;

use crate::harness::chance::Chance;
use crate::harness::reference;

/// The number of composed ExtensionConfigs.
const CONFIGS: u64 = 4_000;

/// URLs, and whether they are refused here and accepted by Cluster API (DEC-93).
const URLS: [(&str, bool); 22] = [
    ("", false),
    ("https://a", false),
    ("https://a.example:9443/base", false),
    ("https://[::1]:1/", false),
    ("https://a/?x=y", false),
    ("https://a:", false),
    ("https://a/%20b", false),
    ("http://a", false),
    ("ftp://a", false),
    ("a", false),
    ("/a", false),
    ("https://a:x", false),
    ("https://a/%zz", false),
    ("https://a b", false),
    ("://a", false),
    ("HTTPS://a", false),
    ("https://u:p@a", true),
    ("https://a#f", true),
    ("https:///x", true),
    ("https:a", true),
    ("https://\u{e9}", true),
    ("https://a:70000", true),
];

const NAMES: [&str; 6] = ["", "lab", "S", "1a", "a.b", "a-"];
const PATHS: [&str; 5] = ["", "/a", "a", "/%zz", "/%20"];
const PORTS: [i64; 5] = [1, 443, 65_535, 65_536, 0];
const LABELS: [&str; 5] = ["", "a", "a b", "example.com/a", "a/b/c"];
const OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Near", ""];

#[test]
fn the_same_fields_are_refused() {
    let configs: Vec<(Value, bool)> = (0..CONFIGS).map(|seed| compose(&mut Chance(seed))).collect();
    let answers = reference::ask("validate", configs.iter().map(|(config, _)| config));
    let (mut differences, mut denied) = (Vec::new(), 0_u64);
    for ((config, is_stricter), answer) in configs.iter().zip(answers) {
        let ours = refused(config);
        let theirs = causes(&answer);
        denied += u64::from(!theirs.is_empty());
        let more: Vec<_> = ours.difference(&theirs).collect();
        let is_expected = more.iter().all(|(_, path)| path == "spec.clientConfig.url") && *is_stricter;
        if !theirs.is_subset(&ours) || !(more.is_empty() || is_expected) {
            differences.push(format!("{config}\nours   {ours:?}\ntheirs {theirs:?}"));
        }
    }
    assert!((CONFIGS / 10..CONFIGS).contains(&denied), "{denied}");
    let shown = &differences[..differences.len().min(5)];
    assert!(shown.is_empty(), "{} differences:\n{}", differences.len(), shown.join("\n"));
}

/// Reasons and paths of refused fields.
fn refused(config: &Value) -> BTreeSet<(String, String)> {
    match check(&Object::try_from(config.clone()).unwrap()) {
        Ok(()) => BTreeSet::new(),
        Err(ConfigError::Invalid(errors)) => {
            errors.iter().map(|error| (error.kind.reason().to_owned(), error.path.to_string())).collect()
        }
        Err(error) => panic!("{config}: {error}"),
    }
}

/// What Cluster API says; a missing text is only that, and not invalid besides.
fn causes(answer: &Value) -> BTreeSet<(String, String)> {
    let all = answer["causes"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all: BTreeSet<_> = all.iter().map(|cause| (text(&cause["reason"]), text(&cause["field"]))).collect();
    let required = |path: &String| all.contains(&("FieldValueRequired".to_owned(), path.clone()));
    all.iter().filter(|(reason, path)| reason != "FieldValueInvalid" || !required(path)).cloned().collect()
}

/// An ExtensionConfig, and whether its URL is one that only Cluster API accepts.
fn compose(chance: &mut Chance) -> (Value, bool) {
    let mut client = json!({});
    let mut is_stricter = false;
    if chance.percent(60) {
        let (url, stricter) = chance.pick(&URLS);
        (client["url"], is_stricter) = (json!(url), stricter);
    }
    if chance.percent(60) {
        let mut service = json!({"name": chance.pick(&NAMES), "namespace": chance.pick(&NAMES)});
        if chance.percent(50) {
            service["path"] = json!(chance.pick(&PATHS));
        }
        if chance.percent(50) {
            service["port"] = json!(chance.pick(&PORTS));
        }
        client["service"] = chance.pick(&[service.clone(), service, json!({})]);
    }
    let mut config = json!({"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
        "metadata": {"name": chance.pick(&["lab", "lab", "Lab", "a.b"])}, "spec": {"clientConfig": client}});
    if chance.percent(80) {
        config["spec"]["namespaceSelector"] = selector(chance);
    }
    (config, is_stricter)
}

fn selector(chance: &mut Chance) -> Value {
    let mut selector = json!({});
    if chance.percent(30) {
        selector["matchLabels"] = json!({chance.pick(&LABELS): chance.pick(&LABELS)});
    }
    if chance.percent(30) {
        let values = chance.some(&LABELS);
        selector["matchExpressions"] =
            json!([{"key": chance.pick(&LABELS), "operator": chance.pick(&OPERATORS), "values": values}]);
    }
    selector
}
