//! What there is at the end, without what is random, a time, or of a server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use crate::machines::server::name;

/// What is random: ends of names, hashes.
static RANDOM: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("-[bcdfghjklmnpqrstvwxz2456789]{5}(?:-|,|$)|\\b[0-9]{6,}\\b").unwrap());
static TIME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$").unwrap());

/// Fields that differ from one server to another, and what follows from how many writes there were, names and times.
const OF_A_SERVER: [&str; 11] = [
    "begun",
    "controlPlaneEndpoint",
    "creationTimestamp",
    "generation",
    "lifecycle.topologist.dev/made-from",
    "madeFrom",
    "managedFields",
    "observedGeneration",
    "resourceVersion",
    // The controller's record of what it has rolled out; a simulation keeps none.
    "topologist.dev/rolled-out",
    "uid",
];

/// A text without its random parts.
pub fn masked(text: &str) -> String {
    if TIME.is_match(text) {
        return "<time>".to_owned();
    }
    let mut text = text.to_owned();
    // The parts of a name may follow each other.
    loop {
        let next = RANDOM.replace_all(&text, |found: &regex::Captures<'_>| {
            let next = found[0].chars().last().filter(|last| ['-', ','].contains(last));
            next.map_or("-*".to_owned(), |next| format!("-*{next}"))
        });
        if next == text {
            return text;
        }
        text = next.into_owned();
    }
}

/// Controllers add their finalizers in any order.
fn of_member(name: &str, value: &Value) -> Value {
    let mut value = comparable(value);
    if name == "finalizers" {
        value.as_array_mut().into_iter().for_each(|all| all.sort_by_key(Value::to_string));
    }
    value
}

/// A value without what is random, a time, or of a server.
fn comparable(value: &Value) -> Value {
    match value {
        // Annotations may hold JSON.
        Value::String(text) => match serde_json::from_str(text) {
            Ok(written @ (Value::Array(_) | Value::Object(_))) => comparable(&written),
            _ => json!(masked(text)),
        },
        Value::Array(all) => all.iter().map(comparable).collect(),
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, _)| !OF_A_SERVER.contains(&name.as_str()));
            let kept = kept.map(|(name, value)| (masked(name), of_member(name, value)));
            kept.filter(|(_, value)| value != &json!({})).collect::<serde_json::Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// Objects by kind and name without random parts; equal names are in the order of their contents.
fn end_state(objects: &[Value]) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for object in objects {
        let id = format!("{} {}", object["kind"].as_str().unwrap(), masked(&name(object)));
        all.entry(id).or_default().push(serde_json::to_string_pretty(&comparable(object)).unwrap());
    }
    all.values_mut().for_each(|same| same.sort());
    all
}

/// The lines that only one of two texts has.
fn difference(ours: &[String], theirs: &[String]) -> String {
    let lines = |texts: &[String]| -> BTreeSet<String> {
        texts.iter().flat_map(|text| text.lines()).map(str::to_owned).collect()
    };
    let (ours, theirs) = (lines(ours), lines(theirs));
    let only = |sign: &str, a: &BTreeSet<String>, b: &BTreeSet<String>| -> String {
        a.difference(b).map(|line| format!("  {sign} {line}\n")).collect()
    };
    only("simulate", &ours, &theirs) + &only("API", &theirs, &ours)
}

/// Both must have the same objects with the same contents.
#[track_caller]
pub fn must_be_the_same(of: &str, simulated: &[Value], stored: &[Value]) {
    let (ours, theirs) = (end_state(simulated), end_state(stored));
    let ids = |all: &BTreeMap<String, Vec<String>>| -> Vec<String> {
        all.iter().map(|(id, same)| format!("{} {id}", same.len())).collect()
    };
    assert_eq!(ids(&ours), ids(&theirs), "{of}: simulate and the API");
    let differences: String = ours
        .iter()
        .filter(|(id, same)| theirs[*id] != **same)
        .map(|(id, same)| format!("{id}\n{}", difference(same, &theirs[id])))
        .collect();
    assert!(differences.is_empty(), "{of}:\n{differences}");
}
