//! Many Clusters: restarts of the API server and of topologist write nothing, and the leader keeps its Lease while more
//! are created.
//!
//! ```text
//! one Cluster, rolled out ──► etcd: copies of its objects, with names and uids of their own ──► kube-apiserver ──► topologist
//! ```
//!
//! `TOPOLOGIST_TEST_CLUSTERS` sets the number of copies; a fifth of it is created afterwards.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::crash::at_rest;
use super::process::Installation;
use super::site::{CORE, Site, bundle, is_reconciled, text};
use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{USER, overlay};
use crate::harness::server::Topologist;
use crate::harness::{quiet, wait};

/// The API groups of a topology, as etcd has them in its keys.
const GROUPS: [&str; 4] =
    ["cluster.x-k8s.io", "infrastructure.topologist.dev", "controlplane.topologist.dev", "bootstrap.topologist.dev"];
/// Maximum number of lists of a restart.
const LISTS: usize = 50;
/// Number of objects in one transaction of etcd, which takes 128 of them or 1.5 MB.
const TOGETHER: usize = 40;
/// How long the controllers may take for each Cluster on a busy machine, besides two minutes for their start.
const OF_A_CLUSTER: Duration = Duration::from_millis(500);

/// An object in etcd.
struct Stored {
    key: String,
    object: String,
}

impl Stored {
    /// The object of another Cluster: of the same name but for that of the Cluster, and with another uid.
    fn copy(&self, uids: &[String], number: usize) -> Stored {
        let name = format!("c{number:05}");
        // A variable of the topology says "welcome to demo", and what was rolled out is recorded with its variables.
        let mut object = self.object.replace("to demo", "to \u{0}").replace("demo", &name).replace('\u{0}', "demo");
        for uid in uids {
            let (_, end) = uid.split_at(8);
            object = object.replace(uid, &format!("{number:08x}{end}"));
        }
        Stored { key: self.key.replace("demo", &name), object }
    }
}

/// The objects of the Cluster `demo`.
fn stored(installation: &Installation) -> Vec<Stored> {
    let mut all = Vec::new();
    for group in GROUPS {
        let (first, end) = (format!("/registry/{group}/"), format!("/registry/{group}0"));
        let answer = installation
            .kubernetes
            .etcd("range", &json!({"key": STANDARD.encode(first), "range_end": STANDARD.encode(end)}));
        for one in answer["kvs"].as_array().into_iter().flatten() {
            let [key, object] = ["key", "value"].map(|part| {
                let bytes = STANDARD.decode(one[part].as_str().expect("it is in base64")).expect("it is in base64");
                String::from_utf8(bytes).expect("custom resources are JSON")
            });
            let metadata =
                serde_json::from_str::<Value>(&object).expect("custom resources are JSON")["metadata"].take();
            if metadata["name"] == "demo" || metadata["labels"]["cluster.x-k8s.io/cluster-name"] == "demo" {
                all.push(Stored { key, object });
            }
        }
    }
    all
}

/// Stores copies of the Cluster `demo`, and of everything that belongs to it.
fn store_copies(installation: &Installation, clusters: usize) {
    let originals = stored(installation);
    let uid = |one: &Stored| text(&serde_json::from_str(&one.object).expect("it is JSON"), "/metadata/uid");
    let uids: Vec<String> = originals.iter().map(uid).collect();
    assert!(originals.len() > 8, "a topology has more objects than {}", originals.len());
    let copies = (1..=clusters).flat_map(|number| originals.iter().map(move |one| (one, number)));
    let copies: Vec<Stored> = copies.map(|(one, number)| one.copy(&uids, number)).collect();
    for some in copies.chunks(TOGETHER) {
        let put = |one: &Stored| {
            json!({"requestPut": {"key": STANDARD.encode(&one.key),
                "value": STANDARD.encode(&one.object)}})
        };
        let puts: Vec<Value> = some.iter().map(put).collect();
        transact(installation, &puts);
    }
    // A list of kube-apiserver may end after the first object of the last revision. This revision has no object.
    transact(installation, &[json!({"requestPut": {"key": STANDARD.encode("/copies-are-stored"), "value": ""}})]);
}

fn transact(installation: &Installation, puts: &[Value]) {
    let answer = installation.kubernetes.etcd("txn", &json!({"success": puts}));
    assert_eq!(answer["succeeded"], true, "{answer}");
}

/// What a list says of the Clusters: their versions.
async fn versions(site: &Site) -> BTreeMap<String, String> {
    let clusters = site.list(CORE, "Cluster").await;
    clusters
        .iter()
        .map(|cluster| (text(cluster, "/metadata/name"), text(cluster, "/metadata/resourceVersion")))
        .collect()
}

/// How often Clusters were reconciled, by outcome.
fn reconciliations(topologist: &Topologist) -> BTreeMap<String, u64> {
    let (_, metrics) = topologist.admin_get("/metrics");
    let of_topologies = |line: &str| {
        let (labels, value) =
            line.strip_prefix("topologist_reconciles_total{controller=\"topology/cluster\",")?.split_once("} ")?;
        Some((labels.to_owned(), value.parse().ok()?))
    };
    metrics.lines().filter_map(of_topologies).collect()
}

/// How long the controllers may take for so many Clusters.
pub(super) fn limit(clusters: usize) -> Duration {
    Duration::from_mins(2) + OF_A_CLUSTER * u32::try_from(clusters).expect("a small number")
}

/// Creates Clusters like that of the bundle.
pub(super) async fn create(site: &Site, clusters: usize) {
    let mut cluster = bundle("cluster.yaml").remove(0);
    for number in 0..clusters {
        let name = format!("more-{number}");
        cluster["metadata"]["name"] = json!(name);
        let params = PatchParams::apply("a-user").force();
        site.api(CORE, "Cluster").patch(&name, &params, &Patch::Apply(&cluster)).await.expect("it is created");
    }
}

/// Waits until so many of the Clusters that were created are reconciled.
pub(super) async fn reconciled(site: &Site, clusters: usize, limit: Duration) {
    let is_new = |cluster: &&Value| text(cluster, "/metadata/name").starts_with("more-");
    let count = async || {
        let all = site.list(CORE, "Cluster").await;
        all.iter().filter(is_new).filter(|cluster| is_reconciled(cluster)).count()
    };
    let state = async || format!("{} of {clusters}", count().await);
    wait::until_async("the new Clusters are reconciled", limit, async || count().await == clusters, state).await;
}

/// Waits until so many Clusters were reconciled, and until nothing is left to do.
pub(super) async fn settled(topologist: &Topologist, clusters: usize) {
    let (started, limit) = (Instant::now(), limit(clusters));
    // A run that waits for lists is postponed.
    let is_run = |(outcome, _): &(&String, &u64)| !outcome.contains("postponed");
    let count = || reconciliations(topologist).iter().filter(is_run).map(|(_, count)| count).sum::<u64>();
    let are_reconciled = async || count() >= clusters as u64;
    let state = async || format!("{} of {clusters}\n{}", count(), topologist.warnings());
    wait::until_async("all Clusters were reconciled", limit, are_reconciled, state).await;
    quiet::until_idle_async(topologist).await;
    println!("{clusters} Clusters settled after {:?}: {:?}", started.elapsed(), reconciliations(topologist));
}

/// Ends a process, which releases its Lease.
pub(super) fn terminate(mut topologist: Topologist) {
    topologist.signal("TERM");
    assert!(topologist.wait().success(), "{}", topologist.log_text());
}

/// What topologist and kube-apiserver did in a part of the test.
struct Part<'a> {
    installation: &'a Installation,
    requests: usize,
    api_server: f64,
    /// The processor time of a process that ran before.
    leader: f64,
}

impl<'a> Part<'a> {
    fn begin(installation: &'a Installation, topologist: Option<&Topologist>) -> Self {
        let requests = installation.kubernetes.audited_requests().len();
        let leader = topologist.map_or(0.0, |topologist| topologist.figures().expect("it runs").processor_time);
        let api_server = installation.kubernetes.api_server_figures().processor_time;
        Part { installation, requests, api_server, leader }
    }

    /// Prints the figures; returns how many lists and how many writes but those of Leases topologist has sent.
    fn end(self, what: &str, topologist: &Topologist) -> (usize, usize) {
        let kubernetes = &self.installation.kubernetes;
        let requests = kubernetes.audited_requests().split_off(self.requests);
        let of_topologist = requests.iter().filter(|request| request.user == USER && request.resource != "leases");
        let verbs: Vec<&str> = of_topologist.map(|request| &*request.verb).collect();
        let lists = verbs.iter().filter(|verb| **verb == "list").count();
        let writes = verbs.iter().filter(|verb| !["list", "get", "watch"].contains(verb)).count();
        let api_server = kubernetes.api_server_figures().processor_time - self.api_server;
        let mut leader = topologist.figures().expect("it runs");
        leader.processor_time -= self.leader;
        println!("{what}: {lists} lists, {writes} writes; leader: {leader}; kube-apiserver: {api_server:.2} s");
        (lists, writes)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_write_nothing_and_the_lease_is_kept_while_clusters_are_created() {
    // DEC-100
    let clusters = std::env::var("TOPOLOGIST_TEST_CLUSTERS").map_or(40, |number| number.parse().expect("a number"));
    let installation = Installation::on(Kubernetes::start_with_audit_log(), overlay("alone"), &[]).await;
    let site = Site::on(installation.kubernetes.client(), "default".to_owned()).await;
    let topologist = installation.start_with(&[]);
    site.provide().await;
    site.apply_file("cluster.yaml").await;
    at_rest(&site, &topologist).await;
    terminate(topologist);
    site.stop_providing().await;
    store_copies(&installation, clusters);
    let before = versions(&site).await;
    assert_eq!(before.len(), clusters + 1);

    // A warm restart: each kind is listed once by each of its watches, however many objects it has (DEC-116).
    let (part, started) = (Part::begin(&installation, None), Instant::now());
    let topologist = installation.start_with(&[]);
    wait::until("it is ready", limit(clusters), || topologist.admin_get("/readyz").0 == 200, || topologist.warnings());
    println!("{} Clusters are served after {:?}", clusters + 1, started.elapsed());
    settled(&topologist, clusters + 1).await;
    let (lists, writes) = part.end("restart", &topologist);
    assert!(lists <= LISTS && writes == 0, "{lists} lists, {writes} writes\n{}", topologist.warnings());
    assert_eq!(versions(&site).await, before, "{}", topologist.warnings());
    terminate(topologist);
    // Both start together: kube-apiserver is ready before it has read the kinds of definitions.
    installation.kubernetes.kill_api_server();
    installation.kubernetes.start_api_server();
    let topologist = installation.start_with(&[]);
    settled(&topologist, clusters + 1).await;
    assert_eq!(versions(&site).await, before, "{}", topologist.warnings());

    // More Clusters are created.
    let more = clusters / 5;
    site.provide().await;
    let (part, started) = (Part::begin(&installation, Some(&topologist)), Instant::now());
    create(&site, more).await;
    reconciled(&site, more, limit(clusters)).await;
    println!("{more} more Clusters are reconciled after {:?}", started.elapsed());
    part.end("creation", &topologist);
    let lost = topologist.metric("topologist_lease_transitions_total{outcome=\"lost\"}").unwrap_or_default();
    assert!(lost == 0.0, "{}", topologist.warnings());
    let after = versions(&site).await;
    assert!(before.iter().all(|(name, version)| after.get(name) == Some(version)), "{}", topologist.warnings());
}
