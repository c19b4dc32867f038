//! `simulate` ends where the controllers of `serve --embedded` end, by the same steps: a new Cluster, a change of it,
//! and its deletion, on generated topologies and for every shape of provider.

mod ends;
mod orders;

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use regex::Regex;
use serde_json::{Value, json};
use topologist::yaml;

use crate::harness::quiet::{until_idle, until_quiet};
use crate::harness::server::command;
use crate::machines::server::{History, TestServer, cluster, fixture, name, workers};
use crate::plans::bundle;

/// How long a rollout over two minors may take on a busy machine.
const LONG: Duration = Duration::from_mins(3);
const STEP: &str = "topology.internal.cluster.x-k8s.io/upgrade-step";
/// The range of seeds of the property, such as `100..200`.
const SEEDS: &str = "TOPOLOGIST_AGREEMENT_SEEDS";
/// A file with one more bundle: a class with its templates and one Cluster.
const BUNDLE: &str = "TOPOLOGIST_AGREEMENT_BUNDLE";

/// A Cluster of a class, and the same Cluster after a change.
struct Case {
    called: String,
    /// Its class and its templates.
    class: Vec<Value>,
    /// Whether all servers of stories have the class.
    is_known: bool,
    before: Value,
    after: Value,
    /// What fails, in the form of `--timings`.
    failures: Value,
}

/// A server on which the case happens, and what was written there.
struct Scene<'a> {
    case: &'a Case,
    server: TestServer,
    /// The kinds of which everything that is written counts.
    watched: BTreeSet<String>,
    histories: Vec<History>,
    folder: tempfile::TempDir,
}

fn documents(text: &str) -> Vec<Value> {
    yaml::documents(text).into_iter().map(|document| document.unwrap().value).collect()
}

fn stream<'a>(objects: impl IntoIterator<Item = &'a Value>) -> String {
    let texts: Vec<String> = objects.into_iter().map(ToString::to_string).collect();
    texts.join("\n---\n")
}

/// Whether the controller of an object of Cluster API has seen its last change.
fn is_seen(object: &Value) -> bool {
    let generation = &object["metadata"]["generation"];
    let of_topology = object["status"]["conditions"].as_array().into_iter().flatten();
    let of_topology = of_topology.filter(|condition| condition["type"] == "TopologyReconciled");
    let mut all = of_topology.chain([&object["status"]]).map(|status| &status["observedGeneration"]);
    all.all(|seen| seen.is_null() || seen == generation)
}

/// The objects of a bundle: all but the Clusters, and the only Cluster.
fn parts(text: &str) -> (Vec<Value>, Value) {
    let (clusters, mut class): (Vec<_>, Vec<_>) = documents(text).into_iter().partition(|one| one["kind"] == "Cluster");
    // What resource sets apply to workload clusters is not part of a topology.
    class.retain(|object| object["apiVersion"].as_str().unwrap().contains('/'));
    for object in class.iter_mut().filter(|object| object["metadata"]["namespace"].is_null()) {
        object["metadata"]["namespace"] = json!("default");
    }
    (class, clusters.into_iter().next().unwrap())
}

impl<'a> Scene<'a> {
    fn start(case: &'a Case) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let class = folder.path().join("class.yaml");
        fs::write(&class, stream(&case.class)).unwrap();
        let load = class.display().to_string();
        let more = ["--load", &*load];
        let failures = json!({"failures": case.failures});
        let server = TestServer::start_with(&failures, if case.is_known { &[] } else { &more });
        let class = case.class.iter().find(|object| object["kind"] == "ClusterClass").unwrap();
        let mut watched: Vec<(String, String)> = ["Cluster", "Machine", "MachineDeployment", "MachinePool"]
            .map(|kind| ("cluster.x-k8s.io/v1beta2".to_owned(), kind.to_owned()))
            .into();
        for part in ["infrastructure", "controlPlane"] {
            let part = &class["spec"][part];
            let reference = part.get("templateRef").unwrap_or(&part["ref"]);
            let text = |field: &str| reference[field].as_str().unwrap();
            watched.push((text("apiVersion").to_owned(), text("kind").trim_end_matches("Template").to_owned()));
        }
        let histories = watched.iter().map(|(version, kind)| {
            server.history_from_now(&format!("{version}/namespaces/default/{}s", kind.to_lowercase()))
        });
        let histories = histories.collect();
        let watched = watched.into_iter().map(|(_, kind)| kind).collect();
        Scene { case, server, watched, histories, folder }
    }

    /// The objects of the Cluster.
    fn stored(&self) -> Vec<Value> {
        let kinds = self.server.kubectl.out(&["api-resources", "--namespaced", "--verbs=list", "-o", "name"]);
        let is_ours = |kind: &&str| kind.ends_with("cluster.x-k8s.io") || kind.ends_with("topologist.dev");
        let kinds: Vec<&str> = kinds.lines().filter(is_ours).collect();
        let called = name(&self.case.before);
        let is_given = |object: &Value| {
            self.case.class.iter().any(|one| one["kind"] == object["kind"] && name(one) == name(object))
        };
        let of_cluster = |object: &Value| {
            let label = &object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"];
            (object["kind"] == "Cluster" && name(object) == called) || *label == *called
        };
        self.server
            .list(&kinds.join(","))
            .into_iter()
            .filter(|object| of_cluster(object) && !is_given(object))
            .collect()
    }

    /// Waits until the objects are as a condition says, and nothing is written any more.
    #[track_caller]
    fn until(&self, what: &str, is_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let last = std::cell::RefCell::new(Vec::new());
        self.server.until_within(LONG, &format!("{}: {what}", self.case.called), || {
            let before = self.stored();
            if !is_so(&before) {
                return false;
            }
            match before.iter().find(|object| object["kind"] == "Cluster") {
                Some(cluster) => until_quiet(&self.server.topologist, cluster),
                None => until_idle(&self.server.topologist),
            }
            last.replace(self.stored());
            *last.borrow() == before
        });
        last.into_inner()
    }

    /// Waits until a Cluster is as its topology asks for.
    #[track_caller]
    fn until_done(&self, wanted: &Value) -> Vec<Value> {
        let topology = &wanted["spec"]["topology"];
        let count = |entry: &Value| entry["replicas"].as_u64().unwrap();
        let deployments = topology["workers"]["machineDeployments"].as_array().into_iter().flatten();
        let class = self.case.class.iter().find(|object| object["kind"] == "ClusterClass").unwrap();
        let has_machines = !class["spec"]["controlPlane"]["machineInfrastructure"].is_null();
        let of_control_plane = if has_machines { count(&topology["controlPlane"]) } else { 0 };
        let total = deployments.map(count).sum::<u64>() + of_control_plane;
        let is_done = |cluster: &Value| {
            let is = |kind: &str, status: &str| {
                let all = cluster["status"]["conditions"].as_array();
                all.into_iter().flatten().any(|one| one["type"] == kind && one["status"] == status)
            };
            is("TopologyReconciled", "True")
                && is("RollingOut", "False")
                && is("Available", "True")
                && cluster["metadata"]["annotations"].get(STEP).is_none()
        };
        self.until("all is as the topology asks for", |objects| {
            let of = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
            let runs = |machine: &Value| {
                machine["spec"]["version"] == topology["version"] && machine["status"]["phase"] == "Running"
            };
            let is_there = of("Machine").count() as u64 == total && of("Machine").all(runs);
            is_there && of("Cluster").all(is_done) && objects.iter().all(is_seen)
        })
    }

    /// The worker sets whose size changes, and those that there are only once.
    fn resized(&self) -> BTreeSet<String> {
        let sets = |of: &Value| -> BTreeSet<(String, u64)> {
            let sets = of["spec"]["topology"]["workers"]["machineDeployments"].as_array().into_iter().flatten();
            sets.map(|set| (set["name"].as_str().unwrap().to_owned(), set["replicas"].as_u64().unwrap())).collect()
        };
        let (before, after) = (sets(&self.case.before), sets(&self.case.after));
        before.symmetric_difference(&after).map(|(name, _)| name.clone()).collect()
    }

    /// A file of the simulation.
    fn file(&self, called: &str, objects: &[&Value]) -> String {
        let path = self.folder.path().join(called);
        fs::write(&path, stream(self.case.class.iter().chain(objects.iter().copied()))).unwrap();
        path.display().to_string()
    }

    /// Simulates a rollout or a change, and compares it with what the controllers did.
    #[track_caller]
    fn compare(&self, step: &str, paths: &[&str], before: &[Value], after: &[Value]) {
        let of = format!("{}, {step}", self.case.called);
        let objects = self.folder.path().join("objects.yaml");
        let mut simulate = command(&["simulate", "-o", "json", "--timings", &self.server.timings(), "--objects"]);
        let output = simulate.arg(&objects).args(paths).output().unwrap();
        let message = [&output.stderr, &output.stdout].map(|text| String::from_utf8_lossy(text));
        assert!(output.status.success(), "{of}: {message:#?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();

        let kinds: BTreeSet<&str> = after.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        let mut ours = documents(&fs::read_to_string(&objects).unwrap());
        ours.retain(|object| kinds.contains(object["kind"].as_str().unwrap()));
        ends::must_be_the_same(&of, &ours, after);
        let events: Vec<(String, Value)> = self.histories.iter().flat_map(History::take).collect();
        let mut simulated = orders::simulated(&report["clusters"][0], &self.watched);
        let mut written = orders::written(&events, before);
        [&mut simulated, &mut written].into_iter().for_each(|orders| orders.forget_order_of(&self.resized()));
        orders::must_be_the_same(&of, &simulated, &written);
    }
}

/// Lets the controllers carry out a rollout, a change and a deletion, and simulates each; both must be the same.
fn agree(case: &Case) {
    let scene = Scene::start(case);
    let (first, second) = (scene.file("a.yaml", &[&case.before]), scene.file("b.yaml", &[&case.after]));
    let none = scene.file("none.yaml", &[]);
    scene.server.kubectl.give(&case.before, &["create"]);
    let before = scene.until_done(&case.before);
    scene.compare("a new Cluster", &[&first], &[], &before);
    let cluster = format!("cluster/{}", name(&case.before));
    scene.server.merge(&cluster, &json!({"spec": {"topology": case.after["spec"]["topology"]}}));
    let after = scene.until_done(&case.after);
    scene.compare("a change", &[&first, "--to", &second], &before, &after);
    scene.server.kubectl.out(&["delete", &cluster, "--timeout=60s"]);
    let gone = scene.until("nothing is left", <[Value]>::is_empty);
    scene.compare("a deletion", &[&second, "--to", &none], &after, &gone);
}

/// Numbers that follow from a seed.
struct Seed(u64);

impl Seed {
    fn below(&mut self, bound: u64) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % bound).unwrap()
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64)].clone()
    }
}

/// Worker sets of these classes, which the class of a name follows: their number, their machines, and how they are
/// replaced.
fn deployments(seed: &mut Seed, classes: [&str; 2]) -> Value {
    let sets = [("a", classes[0]), ("b", classes[1])];
    let strategy = |surge: u64, unavailable: u64| {
        json!({"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
    };
    let sets = &sets[..=seed.below(2)];
    let mut set = |(name, class): &(&str, &str)| {
        let mut set = workers(name, seed.below(4));
        set["class"] = json!(class);
        let strategy = seed.one_of(&[None, None, Some(strategy(0, 1)), Some(strategy(2, 0))]);
        if let Some(strategy) = strategy {
            set["rollout"] = json!({"strategy": strategy});
        }
        set
    };
    sets.iter().map(&mut set).collect()
}

/// A topology, and another one for the same Cluster: with other worker sets, and at another version or with another
/// variable.
fn generated(number: u64) -> Case {
    let mut seed = Seed(number);
    let is_hybrid = seed.below(4) == 3;
    let (class, classes, versions): (_, [_; 2], _) = match is_hybrid {
        true => ("hybrid", ["docker", "vsphere"], ["v1.33.0", "v1.34.0", "v1.34.0"]),
        false => ("swift", ["worker", "worker"], ["v1.32.0", "v1.33.0", "v1.34.0"]),
    };
    let control_plane = seed.one_of(&[1, 3]);
    let pools = if is_hybrid { 0 } else { seed.below(2) };
    let pools = json!((0..pools).map(|_| json!({"class": "pool", "name": "p", "replicas": 2})).collect::<Vec<_>>());
    let mut topology = || cluster(control_plane, &deployments(&mut seed, classes), &pools);
    let (mut before, mut after) = (topology(), topology());
    for one in [&mut before, &mut after] {
        let topology = &mut one["spec"]["topology"];
        (topology["classRef"]["name"], topology["version"]) = (json!(class), json!(versions[0]));
    }
    after["spec"]["topology"]["version"] = json!(seed.one_of(&versions));
    if !is_hybrid && seed.below(3) == 0 {
        after["spec"]["topology"]["variables"] = json!([{"name": "motd", "value": "good morning"}]);
    }
    let class = documents(&fs::read_to_string(fixture(&format!("{class}.yaml"))).unwrap());
    Case { called: format!("seed {number}"), class, is_known: true, before, after, failures: json!([]) }
}

#[test]
fn a_simulation_goes_and_ends_as_the_controllers_do() {
    let seeds = std::env::var(SEEDS).unwrap_or("1..4".to_owned());
    let (from, until) = seeds.split_once("..").unwrap();
    let mut failed = Vec::new();
    for seed in from.parse().unwrap()..until.parse().unwrap() {
        failed.extend(std::panic::catch_unwind(|| agree(&generated(seed))).is_err().then_some(seed));
    }
    assert!(failed.is_empty(), "seeds {failed:?}");
}

#[test]
fn a_machine_that_a_health_check_replaces_goes_as_the_controllers_do_it() {
    // MA-19.3, MA-19.8, MA-19.10
    let of = |replicas: usize| cluster(1, &json!([workers("a", replicas)]), &json!([]));
    let class = documents(&fs::read_to_string(fixture("swift.yaml")).unwrap());
    // One of the three that the change makes; which one it is makes no difference.
    let failures = json!([{"machine": 3, "what": "nodeReady"}]);
    agree(&Case { called: "remediation".to_owned(), class, is_known: true, before: of(1), after: of(4), failures });
}

/// The bundle of a provider, and its Cluster at the next minor version.
fn of_bundle(called: &str, text: &str) -> Case {
    let (class, before) = parts(text);
    let version = before["spec"]["topology"]["version"].as_str().unwrap();
    let minor: u32 = version.split('.').nth(1).unwrap().parse().unwrap();
    let mut after = before.clone();
    after["spec"]["topology"]["version"] = json!(format!("v1.{}.0", minor + 1));
    Case { called: called.to_owned(), class, is_known: false, before, after, failures: json!([]) }
}

#[test]
fn clusters_of_every_provider_go_and_end_as_the_controllers_do() {
    // Machines with start-up times of their own are as fast as the others.
    let duration = Regex::new("(startupDuration: )\"\\d+s\"").unwrap();
    let agree = |called: &str, text: &str| agree(&of_bundle(called, &duration.replace_all(text, "${1}20ms")));
    if let Ok(path) = std::env::var(BUNDLE) {
        return agree(&path, &fs::read_to_string(&path).unwrap());
    }
    for called in ["aws", "azure", "docker", "in-memory", "vsphere"] {
        agree(called, &bundle(called));
    }
}
