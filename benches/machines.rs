//! The controllers of machines: how long a fleet takes from nothing to running Machines, what it holds in memory, and
//! how many steps each Machine takes.
//!
//! One process, `serve --embedded`, in which nothing takes time. Each Cluster has three Machines of the control plane
//! and two MachineDeployments of five. `cargo bench --profile dist --bench machines -- [--quick]`; exit code 1 when a
//! Cluster of a large fleet costs more than one of a small fleet by more than the tolerance. Numbers among the
//! arguments are sizes of fleets to measure instead of the usual ones.

#![allow(clippy::unwrap_used, clippy::disallowed_macros, unreachable_pub, reason = "a benchmark")]

mod support {
    pub mod budgets;
    pub mod metrics;
    pub mod server;
}

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::budgets::{Budget, Budgets};
use support::metrics::{free_port, metrics, sum};
use support::server::{Process, certificates};
use topologist::yaml;

/// How long a fleet may take before the benchmark gives up.
const PATIENCE: Duration = Duration::from_mins(20);
/// How much more a Cluster of a large fleet may take than one of a small fleet, as a factor.
const GROWTH: f64 = 1.2;
/// Of each Cluster.
const MACHINES: usize = 3 + 2 * 5;
/// The controllers of machines, as metrics call them.
const CONTROLLERS: [&str; 7] =
    ["cluster", "machinedeployment", "machineset", "machine", "machinepool", "machinehealthcheck", "provider"];
/// Nothing takes time.
const TIMINGS: &str = "cluster: 0s\ninfrastructure: 0s\nbootstrap: 0s\nnode: 0s\netcd: 0s\napiServer: 0s\ncontrolPlane: 0s\n\
    drain: 0s\ndeletion: 0s\n";

fn main() {
    let mut sizes: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    if sizes.is_empty() {
        let quick = std::env::args().any(|argument| argument == "--quick");
        sizes = if quick { vec![20, 100] } else { vec![100, 1000] };
    }
    let mut budgets =
        Budgets::titled("A fleet and its Machines: 3 of the control plane and 2 × 5 workers for each Cluster");
    let mut first = None;
    for clusters in sizes {
        let each = measure(clusters, &mut budgets);
        let Some((smallest, of_smallest)) = first else {
            first = Some((clusters, each));
            continue;
        };
        for (of, each, smaller) in [
            ("processor time", each.cpu, of_smallest.cpu),
            ("memory", each.memory, of_smallest.memory),
            ("steps", each.steps, of_smallest.steps),
        ] {
            let what = format!("{clusters} Clusters: {of} for each, compared with {smallest}");
            budgets.note(&what, "times", Budget::AtMost(GROWTH), each / smaller);
        }
    }
    budgets.finish();
}

/// What one Cluster takes.
#[derive(Clone, Copy)]
struct Each {
    cpu: f64,
    memory: f64,
    steps: f64,
}

#[allow(clippy::cast_precision_loss, reason = "a few thousand Clusters")]
fn measure(clusters: usize, budgets: &mut Budgets) -> Each {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let (empty, _) = run(folder.path(), 0);
    let (taken, steps) = run(folder.path(), clusters);
    let machines = (clusters * MACHINES) as f64;
    let what = |text: &str| format!("{clusters} Clusters: {text}");
    let mut note = |text: &str, unit: &str, figure: f64| budgets.note(&what(text), unit, Budget::None, figure);
    note("until all Machines run", "s", taken.seconds);
    note("processor time for each Cluster", "ms", taken.cpu * 1000.0 / clusters as f64);
    note("the most memory (VmHWM)", "MB", taken.memory);
    let all: f64 = steps.values().sum();
    note("steps of a second", "", all / taken.seconds);
    note("steps for each Machine", "", all / machines);
    for (name, number) in steps {
        note(&format!("of these {name}"), "", number / machines);
    }
    let memory = (taken.memory - empty.memory) / clusters as f64;
    Each { cpu: (taken.cpu - empty.cpu) / clusters as f64, memory, steps: all / clusters as f64 }
}

/// What a process took.
struct Taken {
    seconds: f64,
    cpu: f64,
    memory: f64,
}

/// Brings a fleet up; returns what that took, and how many steps there were by controller and outcome.
#[allow(clippy::cast_precision_loss, reason = "a few thousand Clusters")]
fn run(folder: &Path, clusters: usize) -> (Taken, BTreeMap<String, f64>) {
    let (fleet, timings) = (folder.join("fleet.json"), folder.join("timings.yaml"));
    std::fs::write(&fleet, fleet_of(clusters).to_string()).unwrap();
    std::fs::write(&timings, TIMINGS).unwrap();
    let admin = free_port();
    let arguments = [
        "--embedded".to_owned(),
        format!("--admin-addr=127.0.0.1:{admin}"),
        format!("--load={}", fleet.display()),
        format!("--timings={}", timings.display()),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let started = Instant::now();
    let process = Process::topologist(folder, &arguments);
    let running = (clusters * MACHINES) as f64;
    while sum(&metrics(admin), "topologist_machines{phase=\"Running\"}") < running {
        assert!(started.elapsed() < PATIENCE, "{}", metrics(admin));
        std::thread::sleep(Duration::from_millis(200));
    }
    let seconds = started.elapsed().as_secs_f64();
    let steps = steps(&metrics(admin));
    (Taken { seconds, cpu: process.cpu(), memory: process.megabytes("VmHWM") }, steps)
}

/// The bundle of the repository with so many Clusters, whose machines start at once.
fn fleet_of(clusters: usize) -> Value {
    let read = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/embedded").join(name);
        let documents = yaml::documents(&std::fs::read_to_string(path).unwrap());
        documents.into_iter().map(|document| document.unwrap().value).collect::<Vec<_>>()
    };
    let (mut items, mut cluster) = (read("class.yaml"), read("cluster.yaml").remove(0));
    items.iter_mut().for_each(|item| start_at_once(&mut item["spec"]));
    let topology = &mut cluster["spec"]["topology"];
    let worker = |name: &str| json!({"class": "default-worker", "name": name, "replicas": 5});
    topology["workers"] = json!({"machineDeployments": [worker("blue"), worker("green")]});
    topology["variables"] = json!([{"name": "workerStartup", "value": "0s"}]);
    items.extend((0..clusters).map(|i| {
        let mut cluster = cluster.clone();
        cluster["metadata"]["name"] = json!(format!("fleet-{i}"));
        cluster
    }));
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn start_at_once(value: &mut Value) {
    match value {
        Value::Object(members) => members.iter_mut().for_each(|(name, member)| match name.as_str() {
            "startupDuration" => *member = json!("0s"),
            "patches" | "variables" => {}
            _ => start_at_once(member),
        }),
        Value::Array(elements) => elements.iter_mut().for_each(start_at_once),
        _ => {}
    }
}

/// How many steps there were, by what metrics call the controller, and how many of them wrote something.
fn steps(metrics: &str) -> BTreeMap<String, f64> {
    let mut steps = BTreeMap::new();
    for line in metrics.lines().filter_map(|line| line.strip_prefix("topologist_reconciles_total{")) {
        let Some((labels, number)) = line.rsplit_once("} ") else { continue };
        let label = |name: &str| labels.split(',').find_map(|label| label.strip_prefix(name)?.strip_prefix('='));
        let (controller, outcome) = (label("controller").unwrap_or_default(), label("outcome").unwrap_or_default());
        let controller = controller.trim_matches('"');
        if CONTROLLERS.contains(&controller) {
            let kind = if outcome == "\"changed\"" { "with writes" } else { "without writes" };
            *steps.entry(format!("{controller}, {kind}")).or_default() += number.parse().unwrap_or(0.0);
        }
    }
    steps
}
