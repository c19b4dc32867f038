//! The objects that an edit leaves, without what differs from one run to the next.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::site::Site;

/// The kinds that a topology controller writes.
const KINDS: [&str; 7] = [
    "clusters",
    "devclusters",
    "kubeadmcontrolplanes",
    "machinedeployments",
    "machinehealthchecks",
    "devmachinetemplates",
    "kubeadmconfigtemplates",
];
/// What an API server sets, and what controllers of Machines report.
const OF_A_RUN: [&str; 6] = ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "status"];
/// What topologist alone writes on Clusters (docs/impact.md).
const OWN: &str = "topologist.dev/rolled-out";
/// The ports of the API servers of Clusters.
const PORTS: std::ops::Range<u64> = 20_000..21_000;

/// Objects by kind, part of the Cluster and place among those of that part.
pub(super) type Remains = BTreeMap<String, Value>;

/// The objects of the Cluster `one`.
pub(super) fn remains(site: &Site) -> Remains {
    let mut objects = Vec::new();
    for kind in KINDS {
        let mut list: Value = serde_json::from_str(&site.kubectl.out(&["get", kind, "-o", "json"])).unwrap();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut items = std::mem::take(list["items"].as_array_mut().unwrap());
        items.retain(|object| {
            kind == "clusters" || object["metadata"]["labels"].get("cluster.x-k8s.io/cluster-name").is_some()
        });
        // Those that were made first come first, so that both runs agree on the places.
        items.sort_by_key(|object| object["metadata"]["creationTimestamp"].to_string());
        for object in items {
            let set = object["metadata"]["labels"]["topology.cluster.x-k8s.io/deployment-name"].as_str();
            let part = format!("{kind}/{}", set.unwrap_or("-"));
            let count = counts.entry(part.clone()).or_default();
            *count += 1;
            objects.push((format!("{part}/{count}"), object));
        }
    }
    let mut names: Vec<(String, String)> = objects
        .iter()
        .filter(|(place, _)| !place.starts_with("clusters/"))
        .map(|(place, object)| (object["metadata"]["name"].as_str().unwrap().to_owned(), format!("<{place}>")))
        .chain([(site.namespace().to_owned(), "<namespace>".to_owned())])
        .collect();
    // A name may be the beginning of another.
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    let plain = |(place, object): (String, Value)| (place, without_run(object, &names));
    objects.into_iter().map(plain).collect()
}

fn without_run(value: Value, names: &[(String, String)]) -> Value {
    match value {
        Value::Object(members) => {
            let is_kept = |name: &str| name != OWN && !OF_A_RUN.contains(&name);
            let members = members.into_iter().filter(|(name, _)| is_kept(name));
            let members = members.map(|(name, value)| {
                let mut value = without_run(value, names);
                // Two controllers add theirs at the same time.
                if let ("finalizers", Value::Array(finalizers)) = (&*name, &mut value) {
                    finalizers.sort_by_key(Value::to_string);
                }
                (name, value)
            });
            members.collect()
        }
        Value::Array(items) => items.into_iter().map(|item| without_run(item, names)).collect(),
        Value::String(text) if text.parse::<jiff::Timestamp>().is_ok() => json!("<time>"),
        // The object as it was applied; a text with JSON in it.
        Value::String(text) if text.starts_with('{') => json!("<applied>"),
        Value::String(text) => {
            json!(names.iter().fold(text, |text, (name, place)| text.replace(name, place)))
        }
        Value::Number(number) if number.as_u64().is_some_and(|number| PORTS.contains(&number)) => json!("<port>"),
        value => value,
    }
}

/// The JSON pointers at which the objects of two runs differ, with both values.
pub(super) fn differences(with_topologist: &Remains, alone: &Remains) -> Vec<String> {
    let mut found = Vec::new();
    let places = with_topologist.keys().chain(alone.keys()).collect::<std::collections::BTreeSet<_>>();
    for place in places {
        compare(place, with_topologist.get(place), alone.get(place), &mut found);
    }
    found
}

fn compare(at: &str, left: Option<&Value>, right: Option<&Value>, found: &mut Vec<String>) {
    match (left, right) {
        (left, right) if left == right => {}
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let names = left.keys().chain(right.keys()).collect::<std::collections::BTreeSet<_>>();
            names.into_iter().for_each(|name| compare(&format!("{at}.{name}"), left.get(name), right.get(name), found));
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            let mut item = |place| compare(&format!("{at}[{place}]"), left.get(place), right.get(place), found);
            (0..left.len().max(right.len())).for_each(&mut item);
        }
        (left, right) => {
            let text = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
            found.push(format!("{at}: {} with topologist, {} alone", text(left), text(right)));
        }
    }
}
