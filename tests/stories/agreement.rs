//! `simulate` ends where the controllers of `serve --embedded` end, by the same steps: on generated topologies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;
use serde_json::{Value, json};
use topologist::yaml;

use crate::machines::ground::{Ground, cluster, fixture, name, workers};
use crate::process::command;

/// The kinds whose objects are compared at the end.
const KINDS: &str = "clusters,machinedeployments,machinesets,machines,machinepools,machinehealthchecks,\
    embeddedclusters,embeddedcontrolplanes,embeddedmachines,embeddedmachinetemplates,embeddedmachinepools,\
    embeddedconfigs,embeddedconfigtemplates";

/// How long a rollout over two minors may take on a busy machine.
const LONG: Duration = Duration::from_mins(3);

/// What is random or a time: ends of names, hashes, uids.
static RANDOM: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("-[bcdfghjklmnpqrstvwxz2456789]{5}(?:-|,|$)|\\b[0-9]{6,}\\b").unwrap());
static TIME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$").unwrap());

/// A text without its random parts.
fn masked(text: &str) -> String {
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

/// Fields that differ from one server to another, and what follows from how many writes there were, names and times.
const OF_A_SERVER: [&str; 9] = [
    "begun",
    "controlPlaneEndpoint",
    "creationTimestamp",
    "generation",
    "madeFrom",
    "managedFields",
    "observedGeneration",
    "resourceVersion",
    "uid",
];

/// Whether a text is a finalizer of the controller that deletes unused templates: `simulate` keeps these.
fn is_of_templates(entry: &Value) -> bool {
    entry.as_str().is_some_and(|text| text.ends_with(".topology.cluster.x-k8s.io"))
}

/// A value without what is random, a time, or of a server.
fn comparable(value: &Value) -> Value {
    match value {
        // Annotations may hold JSON.
        Value::String(text) => match serde_json::from_str(text) {
            Ok(written @ (Value::Array(_) | Value::Object(_))) => comparable(&written),
            _ => json!(masked(text)),
        },
        Value::Array(all) => all.iter().filter(|entry| !is_of_templates(entry)).map(comparable).collect(),
        Value::Object(members) => {
            let is_empty = |value: &Value| value == &json!({});
            let kept = members.iter().filter(|(name, value)| !OF_A_SERVER.contains(&name.as_str()) && !is_empty(value));
            kept.map(|(name, value)| (masked(name), comparable(value))).collect::<serde_json::Map<_, _>>().into()
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

/// Numbers that follow from a seed.
struct Seed(u64);

impl Seed {
    fn below(&mut self, bound: u64) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % bound).unwrap()
    }
}

/// A topology, and another one for the same Cluster: its next version, or two minors on, and other numbers of machines.
fn generated(seed: u64) -> (Value, Value) {
    let mut seed = Seed(seed);
    let control_plane = [1, 3][seed.below(2)];
    let names = &["a", "b"][..=seed.below(2)];
    let pools =
        json!((0..seed.below(2)).map(|_| json!({"class": "pool", "name": "p", "replicas": 2})).collect::<Vec<_>>());
    let mut topology = || json!(names.iter().map(|name| workers(name, 1 + seed.below(3))).collect::<Vec<_>>());
    let (before, after) = (topology(), topology());
    let before = cluster(control_plane, &before, &pools);
    let mut after = cluster(control_plane, &after, &pools);
    after["spec"]["topology"]["version"] = json!(["v1.33.0", "v1.34.0"][seed.below(2)]);
    (before, after)
}

/// What was written to one object, one after the other: versions or phases.
type Orders = BTreeMap<String, Vec<Vec<String>>>;

/// The values of a field of each object that is new, without repetitions, by kind and name without random parts.
fn orders(events: &[(String, Value)], field: &str, known: &BTreeSet<String>) -> Orders {
    let mut each: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    for (kind, object) in events.iter().filter(|(_, object)| !known.contains(&name(object))) {
        let of = format!("{} {}", object["kind"].as_str().unwrap(), masked(&name(object)));
        let (_, values) = each.entry(name(object)).or_insert_with(|| (of, Vec::new()));
        let value = object.pointer(field).and_then(Value::as_str).unwrap_or_default();
        let value = if kind == "DELETED" { "gone" } else { value };
        if !value.is_empty() && values.last().is_none_or(|last| last != value) {
            values.push(value.to_owned());
        }
    }
    let mut all = Orders::new();
    each.into_values().for_each(|(of, values)| all.entry(of).or_default().push(values));
    all.values_mut().for_each(|same| same.sort());
    all
}

/// The phases of Machines that are new, as `simulate` tells them.
fn simulated(report: &Value, known: &BTreeSet<String>) -> Orders {
    let mut each: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in report["clusters"][0]["events"].as_array().unwrap() {
        let (name, what) = (event["name"].as_str().unwrap(), event["what"].as_str().unwrap());
        if event["kind"] == "Machine" && !known.contains(name) && what != "created" && what != "deleted" {
            each.entry(name.to_owned()).or_default().push(what.to_owned());
        }
    }
    let mut all = Orders::new();
    each.into_iter()
        .for_each(|(name, values)| all.entry(format!("Machine {}", masked(&name))).or_default().push(values));
    all.values_mut().for_each(|same| same.sort());
    all
}

/// The objects whose version changes, in order, with the version.
fn simulated_versions(report: &Value) -> Vec<(String, String)> {
    let change = Regex::new(r"version (\S+) → ([^\s,)]+)").unwrap();
    let events = report["clusters"][0]["events"].as_array().unwrap().iter();
    let changed = events.filter(|event| event["what"] == "changed").filter_map(|event| {
        let versions = change.captures(event["because"].as_str().unwrap())?;
        Some((masked(event["name"].as_str().unwrap()), versions[2].to_owned()))
    });
    changed.collect()
}

/// The same from what was written to an API server, in the order of its resource versions.
fn written_versions(events: &[(String, Value)]) -> Vec<(String, String)> {
    let version = |object: &Value| -> Option<String> {
        let at = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        at("/spec/version").or_else(|| at("/spec/template/spec/version"))
    };
    let number = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    let mut in_order: Vec<&Value> = events.iter().map(|(_, object)| object).collect();
    in_order.sort_by_key(|object| number(object));
    let (mut now, mut changes) = (BTreeMap::new(), Vec::new());
    for object in in_order {
        let Some(version) = version(object) else { continue };
        let before = now.insert(name(object), version.clone());
        if before.is_some_and(|before| before != version) {
            changes.push((masked(&name(object)), version));
        }
    }
    changes
}

/// Lets the controllers carry a change out, and simulates it; both must be the same.
fn agree(seed: u64) {
    let (before, after) = generated(seed);
    let ground = Ground::start(&[]);
    ground.run_cluster(&before);
    let known: BTreeSet<String> = ground.names("machines").into_iter().collect();
    let machines = ground.history("machines");
    let has_pools = before["spec"]["topology"]["workers"]["machinePools"].is_array();
    let pools = has_pools.then_some("machinepools");
    let others = ["embeddedcontrolplanes", "machinedeployments"].into_iter().chain(pools);
    let others: Vec<_> = others.map(|kind| ground.history(kind)).collect();
    ground.edit_topology(&after["spec"]["topology"]);
    let version = after["spec"]["topology"]["version"].as_str().unwrap();
    let wanted = |machine: &Value| machine["spec"]["version"] == version && machine["status"]["phase"] == "Running";
    let count = |entry: &Value| entry["replicas"].as_u64().unwrap();
    let topology = &after["spec"]["topology"];
    let workers: u64 = topology["workers"]["machineDeployments"].as_array().unwrap().iter().map(count).sum();
    let total = usize::try_from(count(&topology["controlPlane"]) + workers).unwrap();
    ground.until_within(LONG, "all machines have the last version", || {
        let machines = ground.list("machines");
        machines.len() == total && machines.iter().all(wanted)
    });
    // The step of an upgrade stands in an annotation until the upgrade ends.
    ground.until_within(LONG, "the upgrade ends", || {
        let step =
            &ground.list("clusters")[0]["metadata"]["annotations"]["topology.internal.cluster.x-k8s.io/upgrade-step"];
        step.is_null()
    });
    ground.wait("cluster/demo", "condition=TopologyReconciled");
    ground.wait("cluster/demo", "condition=RollingOut=False");
    ground.wait("cluster/demo", "condition=Available");

    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let class = fs::read_to_string(fixture("swift.yaml")).unwrap();
    let (a, b) =
        (file("a.yaml", format!("{class}\n---\n{before}\n")), file("b.yaml", format!("{class}\n---\n{after}\n")));
    let objects = folder.path().join("objects.yaml");
    let timings = ground.timings();
    let arguments = ["simulate", &a, "--to", &b, "--timings", &timings, "-o", "json", "--objects"];
    let output = command(&arguments).arg(&objects).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();

    let stream = fs::read_to_string(&objects).unwrap();
    let ours: Vec<Value> = yaml::documents(&stream).into_iter().map(|document| document.unwrap().value).collect();
    let of_cluster = |object: &Value| {
        object["kind"] == "Cluster" || object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == "demo"
    };
    let theirs: Vec<Value> = ground.list(KINDS).into_iter().filter(of_cluster).collect();
    let kinds: BTreeSet<String> = theirs.iter().map(|object| object["kind"].as_str().unwrap().to_owned()).collect();
    let ours: Vec<Value> = ours.into_iter().filter(|object| kinds.contains(object["kind"].as_str().unwrap())).collect();
    let (ours, theirs) = (end_state(&ours), end_state(&theirs));
    let ids = |all: &BTreeMap<String, Vec<String>>| -> Vec<String> {
        all.iter().map(|(id, same)| format!("{} {id}", same.len())).collect()
    };
    assert_eq!(ids(&ours), ids(&theirs), "seed {seed}");
    let differences: String = ours
        .iter()
        .filter(|(id, same)| theirs[*id] != **same)
        .map(|(id, same)| format!("{id}\n{}", difference(same, &theirs[id])))
        .collect();
    assert!(differences.is_empty(), "seed {seed}:\n{differences}");

    let machines_before = report["clusters"][0]["machines"].as_array().unwrap().iter();
    let of_before = machines_before.filter(|machine| machine["made"].is_null());
    let of_before = of_before.map(|machine| machine["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(simulated(&report, &of_before), orders(&machines.events(), "/status/phase", &known), "seed {seed}");
    let written: Vec<(String, Value)> = others.iter().flat_map(crate::machines::ground::History::events).collect();
    assert_eq!(simulated_versions(&report), written_versions(&written), "seed {seed}");
}

#[test]
fn a_simulation_ends_as_the_controllers_do() {
    (1..=3).for_each(agree);
}
