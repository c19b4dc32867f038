//! `simulate` over fleets: an upgrade of Clusters with three control plane machines and ten workers each, on all
//! processors.
//!
//! Clusters that differ in nothing but their names are simulated once; where machines start with a jitter, each Cluster
//! is.
//!
//! `cargo bench --profile dist --bench simulate -- [--quick]`; exit code 1 when a budget is missed by more than the
//! tolerance. Numbers among the arguments are sizes of fleets to measure instead of the usual ones.

#![allow(clippy::unwrap_used, clippy::disallowed_macros, unreachable_pub, reason = "a benchmark")]
#![allow(clippy::cast_precision_loss, reason = "counts and times are small")]

mod support {
    pub mod budgets;
}

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use support::budgets::{Budget, Budgets};
use topologist::yaml;

/// How much more a Cluster of a large fleet may take than one of a small fleet, as a factor.
const GROWTH: f64 = 1.2;
/// How much more a worker may take among many in one Cluster than among few, as a factor.
const WORKERS: f64 = 3.0;
/// How long the rollout and the upgrade of 1,000 Clusters may take.
const THOUSAND: Budget = Budget::AtMost(60.0);

fn main() {
    let given: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let quick = std::env::args().any(|argument| argument == "--quick");
    let mut budgets = Budgets::titled("Simulated upgrades: Clusters of thirteen machines each");
    for (has_jitter, what, usual) in [(false, "equal Clusters", [100, 1000]), (true, "different Clusters", [50, 200])] {
        let sizes = match (given.is_empty(), quick) {
            (false, _) => given.clone(),
            (true, true) => vec![10],
            (true, false) => usual.to_vec(),
        };
        let mut first = None;
        for clusters in sizes {
            let seconds = upgrade(clusters, has_jitter);
            let budget = if clusters == 1000 { THOUSAND } else { Budget::None };
            budgets.note(&format!("{clusters} {what}"), "s", budget, seconds);
            let each = seconds / clusters as f64;
            let (smallest, of_smallest) = *first.get_or_insert((clusters, each));
            if clusters > smallest {
                let what = format!("{clusters} {what}: time for each, compared with {smallest}");
                budgets.note(&what, "times", Budget::AtMost(GROWTH), each / of_smallest);
            }
        }
    }
    if given.is_empty() {
        let sizes = if quick { [5, 10] } else { [50, 200] };
        let [few, many] = sizes.map(|workers| upgrade_of_one(workers) / workers as f64);
        let [small, large] = sizes;
        let what = format!("time for each of {large} workers of one Cluster, compared with {small}");
        budgets.note(&what, "times", Budget::AtMost(WORKERS), many / few);
    }
    budgets.finish();
}

/// How many seconds it takes to roll a fleet out and to upgrade it.
fn upgrade(clusters: usize, has_jitter: bool) -> f64 {
    simulated(|version| fleet(clusters, version, 5, has_jitter))
}

/// The same for one Cluster with so many workers, in two sets.
fn upgrade_of_one(workers: usize) -> f64 {
    simulated(|version| fleet(1, version, workers / 2, false))
}

fn simulated(files: impl Fn(&str) -> Value) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let [before, after] = ["v1.33.0", "v1.34.0"].map(|version| {
        let path = folder.path().join(format!("{version}.json"));
        std::fs::write(&path, files(version).to_string()).unwrap();
        path
    });
    let started = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_topologist"));
    command.args(["simulate", "--now", "2030-01-01T00:00:00Z"]).arg(before).arg("--to").arg(after);
    let status = command.stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "all Clusters are upgraded");
    started.elapsed().as_secs_f64()
}

/// The class of the repository, with so many Clusters of two MachineDeployments.
fn fleet(clusters: usize, version: &str, workers: usize, has_jitter: bool) -> Value {
    let read = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/embedded").join(name);
        let text = std::fs::read_to_string(path).unwrap();
        yaml::documents(&text).into_iter().map(|document| document.unwrap().value).collect::<Vec<_>>()
    };
    let (mut items, mut cluster) = (read("class.yaml"), read("cluster.yaml").remove(0));
    if !has_jitter {
        for item in &mut items {
            for part in ["vm", "node", "etcd", "apiServer"] {
                let place = format!("/spec/template/spec/backend/inMemory/{part}/provisioning");
                if let Some(Value::Object(times)) = item.pointer_mut(&place) {
                    times.remove("startupJitter");
                }
            }
        }
    }
    let workers = ["blue", "green"].map(|name| json!({"class": "default-worker", "name": name, "replicas": workers}));
    let topology = &mut cluster["spec"]["topology"];
    topology["version"] = json!(version);
    topology["workers"] = json!({"machineDeployments": workers});
    items.extend((0..clusters).map(|i| {
        let mut cluster = cluster.clone();
        cluster["metadata"]["name"] = json!(format!("fleet-{i:04}"));
        cluster
    }));
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}
