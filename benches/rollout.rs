//! A leader that rolls fleets out: how long it takes from nothing, what it holds in memory then, and what it asks for
//! when nothing changes.
//!
//! Two processes: the in-memory API of one, without controllers, and the leader under test, which follows it over HTTPS
//! as it follows kube-apiserver. Each Cluster comes to sixteen objects. The last fleet has a class with two external
//! patches, and an extension over HTTPS that counts its calls.
//! `cargo bench --profile dist --bench rollout -- [--quick]`; exit code 1 when a budget is missed by more than the
//! tolerance. Numbers among the arguments are sizes of fleets to measure instead of the usual ones.

#![allow(clippy::unwrap_used, clippy::disallowed_macros, unreachable_pub, reason = "a benchmark")]

mod support {
    pub mod budgets;
    pub mod extension;
    pub mod metrics;
    pub mod server;
}

use std::collections::BTreeSet;
use std::path::Path;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures::StreamExt;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};
use support::budgets::{Budget, Budgets};
use support::extension::Counting;
use support::metrics::{free_port, metrics, sum};
use support::server::{Process, certificates};
use topologist::yaml;

/// How long a fleet may take before the benchmark gives up.
const PATIENCE: Duration = Duration::from_mins(10);
/// How much more a Cluster of a large fleet may take than one of a small fleet, as a factor.
const GROWTH: f64 = 1.2;
/// How long nothing is to happen.
const CALM: Duration = Duration::from_secs(20);

fn main() {
    let mut sizes: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    if sizes.is_empty() {
        let quick = std::env::args().any(|argument| argument == "--quick");
        sizes = if quick { vec![100] } else { vec![100, 1000, 3000] };
    }
    let mut budgets = Budgets::titled("A leader and its fleet: Clusters of sixteen objects each");
    let mut first = None;
    let fleet_with_extension = sizes.iter().copied().filter(|size| *size <= 1000).max();
    for clusters in sizes {
        let each = measure(clusters, None, &mut budgets);
        let Some((smallest, of_smallest)) = first else {
            first = Some((clusters, each));
            continue;
        };
        for (whose, each, smaller) in [("leader", each.leader, of_smallest.leader), ("API", each.api, of_smallest.api)]
        {
            let what = format!("{clusters} Clusters: processor time of the {whose} for each, compared with {smallest}");
            budgets.note(&what, "times", Budget::AtMost(GROWTH), each / smaller);
        }
    }
    if let Some(clusters) = fleet_with_extension {
        measure(clusters, Some(&Counting::start()), &mut budgets);
    }
    budgets.finish();
}

/// The processor time that is taken for each Cluster, in milliseconds.
#[derive(Clone, Copy)]
struct Each {
    leader: f64,
    api: f64,
}

#[allow(clippy::cast_precision_loss, reason = "a few thousand Clusters")]
fn measure(clusters: usize, extension: Option<&Counting>, budgets: &mut Budgets) -> Each {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (of_api, of_leader) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for folder in [&of_api, &of_leader] {
        certificates(folder.path());
    }
    let fleet = of_api.path().join("fleet.json");
    std::fs::write(&fleet, fleet_of(clusters, extension).to_string()).unwrap();
    let load = ["--embedded", "--controllers=none", "--admin-addr=127.0.0.1:0", "--load", fleet.to_str().unwrap()];
    let api = Process::topologist(of_api.path(), &load);
    let kubeconfig = of_api.path().join("kubeconfig");
    let client = runtime.block_on(client(&kubeconfig));
    let admin = free_port();
    let arguments = [
        format!("--admin-addr=127.0.0.1:{admin}"),
        format!("--kubeconfig={}", kubeconfig.display()),
        "--controllers=all".into(),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let start = || Process::topologist(of_leader.path(), &arguments);
    let started = Instant::now();
    let leader = start();
    runtime.block_on(until_reconciled(&client, clusters));
    let patches = if extension.is_some() { " with two external patches" } else { "" };
    let what = |text: &str| format!("{clusters} Clusters{patches}: {text}");
    let calls = || extension.map_or(0, Counting::calls) as f64;
    budgets.note(&what("rolled out from nothing"), "s", Budget::None, started.elapsed().as_secs_f64());
    let settled = at_rest(admin);
    let each = |cpu: f64| cpu * 1000.0 / clusters as f64;
    let of_rollout = calls();
    if extension.is_some() {
        let runs = sum(&metrics(admin), "topologist_reconciles_total{controller=\"topology/cluster\"");
        budgets.note(&what("runs for each"), "", Budget::None, runs / clusters as f64);
        budgets.note(&what("calls of the extension for each"), "", Budget::None, of_rollout / clusters as f64);
        budgets.note(&what("calls for each run"), "", Budget::AtMost(2.0), of_rollout / runs);
    }
    let taken = Each { leader: each(leader.cpu()), api: each(api.cpu()) };
    budgets.note(&what("processor time of the leader for each"), "ms", Budget::None, taken.leader);
    budgets.note(&what("processor time of the API for each"), "ms", Budget::None, taken.api);
    let most = if clusters == 1000 { Budget::AtMost(300.0) } else { Budget::None };
    budgets.note(&what("memory of the leader (VmRSS)"), "MB", most, leader.megabytes("VmRSS"));
    budgets.note(&what("the most there was on the way"), "MB", Budget::None, leader.megabytes("VmHWM"));
    let cpu = leader.cpu();
    std::thread::sleep(CALM);
    budgets.note(&what("runs, dry runs and reads of a calm time"), "", Budget::AtMost(0.0), requests(admin) - settled);
    if extension.is_some() {
        budgets.note(&what("calls in that time"), "", Budget::AtMost(0.0), calls() - of_rollout);
    }
    budgets.note(
        &what("its processor time, of a second"),
        "ms",
        Budget::None,
        (leader.cpu() - cpu) * 1000.0 / CALM.as_secs_f64(),
    );
    drop(leader);
    let of_first = calls();
    // The lease of a leader that was killed has to end first.
    let again = start();
    wait_for_runs(admin, clusters);
    at_rest(admin);
    budgets.note(&what("dry runs and reads of a new leader"), "", Budget::AtMost(0.0), dry_runs_and_reads(admin));
    budgets.note(&what("its processor time until all are looked at"), "s", Budget::None, again.cpu());
    if extension.is_some() {
        // One of Discovery, and one for each patch.
        let most = Budget::AtMost(2.0 + 1.0 / clusters as f64);
        budgets.note(&what("its calls for each"), "", most, (calls() - of_first) / clusters as f64);
    }
    drop(api);
    taken
}

/// The bundle of the repository with so many Clusters, and with the patches of an extension.
fn fleet_of(clusters: usize, extension: Option<&Counting>) -> Value {
    let read = |name: &str| {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/embedded").join(name))
            .unwrap();
        yaml::documents(&text).into_iter().map(|document| document.unwrap().value).collect::<Vec<_>>()
    };
    let (mut items, cluster) = (read("class.yaml"), read("cluster.yaml").remove(0));
    if let Some(extension) = extension {
        let class = items.iter_mut().find(|item| item["kind"] == "ClusterClass").unwrap();
        class["spec"]["patches"].as_array_mut().unwrap().extend(Counting::patches());
        items.push(extension.config());
    }
    items.extend((0..clusters).map(|i| {
        let mut cluster = cluster.clone();
        cluster["metadata"]["name"] = json!(format!("fleet-{i}"));
        cluster
    }));
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

async fn client(kubeconfig: &Path) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// Follows the Clusters instead of listing them again and again, so that waiting costs the API the same for each
/// Cluster however many there are.
async fn until_reconciled(client: &kube::Client, clusters: usize) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster"));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut changes = pin!(watcher(api, watcher::Config::default()).default_backoff().applied_objects());
    let mut done = BTreeSet::new();
    let all_done = async {
        while done.len() < clusters {
            // What fails is tried again.
            if let Some(Ok(cluster)) = changes.next().await
                && is_reconciled(&cluster)
            {
                done.insert(cluster.metadata.name);
            }
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, all_done).await.is_ok();
    assert!(in_time, "{} of {clusters} Clusters after {PATIENCE:?}", done.len());
}

fn is_reconciled(cluster: &DynamicObject) -> bool {
    let conditions = cluster.data.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|one| one["type"] == "TopologyReconciled" && one["status"] == "True")
}

/// Waits until the leader does nothing any more, and returns what it has asked for.
fn at_rest(admin: u16) -> f64 {
    let mut before = requests(admin);
    loop {
        std::thread::sleep(Duration::from_secs(4));
        let now = requests(admin);
        if (now - before).abs() < f64::EPSILON {
            return now;
        }
        before = now;
    }
}

fn wait_for_runs(admin: u16, runs: usize) {
    let deadline = Instant::now() + PATIENCE;
    while sum(&metrics(admin), "topologist_reconciles_total{controller=\"topology/cluster\"")
        < f64::from(u32::try_from(runs).unwrap())
    {
        assert!(Instant::now() < deadline, "the new leader does nothing");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Everything that a leader does.
fn requests(admin: u16) -> f64 {
    let metrics = metrics(admin);
    sum(&metrics, "topologist_reconciles_total{") + dry_runs_and_reads(admin)
}

fn dry_runs_and_reads(admin: u16) -> f64 {
    let metrics = metrics(admin);
    sum(&metrics, "topologist_ssa_cache_misses_total") + sum(&metrics, "topologist_live_reads_total")
}
