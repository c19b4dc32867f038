//! Processes die at every write, and wires break: in the end everything is as if nothing had happened.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use futures::StreamExt;
use regex::Regex;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::layer::{Trouble, Wire};
use super::site::{CORE, INFRASTRUCTURE, MADE, Manager, Site, text};
use crate::harness::quiet::{Observed, PROVIDERS};

/// How many sites are at work at a time.
const SIDE_BY_SIDE: usize = 4;

/// What somebody asks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wish {
    Create,
    /// New templates for the control plane and for workers, and changes in place.
    Rotate,
    Upgrade,
    /// More machines here, a worker set less, another more, a health check less.
    Workers,
}

impl Wish {
    /// Everything that has to be there before.
    async fn prepare(self, site: &Site) {
        if matches!(self, Wish::Create) {
            return;
        }
        let manager = Manager::start(site, &Wire::new(Trouble::None));
        site.apply_file("cluster.yaml").await;
        at_rest(site, &manager).await;
        drop(manager);
    }

    pub(super) async fn apply_to(self, site: &Site) {
        match self {
            Wish::Create => site.apply_file("cluster.yaml").await,
            Wish::Rotate => {
                let slower = json!({"spec": {"template": {"spec": {"backend": {"inMemory": {"etcd": {"provisioning":
                    {"startupDuration": "9s"}}}}}}}});
                site.merge(INFRASTRUCTURE, "EmbeddedMachineTemplate", "embedded-control-plane-machine", slower).await;
                site.change("demo", |topology| topology["variables"][0]["value"] = json!("other")).await;
            }
            Wish::Upgrade => site.change("demo", |topology| topology["version"] = json!("v1.34.0")).await,
            Wish::Workers => {
                let red = json!({"class": "default-worker", "name": "red", "replicas": 1});
                site.change("demo", |topology| {
                    let workers = topology["workers"]["machineDeployments"].as_array_mut().unwrap();
                    workers[0]["replicas"] = json!(5);
                    workers[0]["healthCheck"] = json!({"enabled": false});
                    workers[1] = red;
                })
                .await;
            }
        }
    }
}

/// Waits until a Cluster is reconciled, its last step is over, and nothing is left to do.
pub(super) async fn at_rest(site: &Site, topologist: &impl Observed) {
    site.reconciled("demo").await;
    site.until("the last step is over", || async {
        let cluster = site.cluster("demo").await;
        let step = &cluster["metadata"]["annotations"]["topology.internal.cluster.x-k8s.io/upgrade-step"];
        let has_shim = site.get("v1", "ConfigMap", "demo-shim").await.is_some();
        (step.is_null() && !has_shim).then_some(())
    })
    .await;
    written(site, topologist).await;
    site.reconciled("demo").await;
}

/// Waits until neither topologist nor the provider of the test has anything left to do; returns the versions of all
/// objects.
pub(super) async fn written(site: &Site, topologist: &impl Observed) -> Vec<String> {
    loop {
        let before = site.versions().await;
        site.until_quiet(topologist, "demo").await;
        tokio::time::sleep(PROVIDERS).await;
        if site.versions().await == before {
            return before;
        }
    }
}

/// Everything that is there, but for what differs each time: uids, times, versions and the random ends of names.
pub(super) async fn everything(site: &Site) -> Vec<String> {
    static ENDS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("(demo(?:-[a-z]+)?)-[bcdfghjklmnpqrstvwxz2456789]{5}\\b").unwrap());
    static UIDS: LazyLock<Regex> = LazyLock::new(|| Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap());
    static TIMES: LazyLock<Regex> = LazyLock::new(|| Regex::new("\\d{4}-\\d\\d-\\d\\dT[0-9:]+Z").unwrap());
    let mut all = Vec::new();
    for (api_version, kind) in
        MADE.into_iter().chain([(CORE, "MachineHealthCheck"), (CORE, "Cluster"), ("v1", "ConfigMap")])
    {
        for mut object in site.list(api_version, kind).await {
            let metadata = object["metadata"].as_object_mut().unwrap();
            metadata.remove("resourceVersion");
            let entries = metadata.remove("managedFields");
            // Of others the test's provider is one, whose timing differs.
            let mut managers: Vec<String> = entries
                .iter()
                .filter_map(|entries| entries.as_array().cloned())
                .flatten()
                .filter(|entry| entry["manager"] == "capi-topology")
                .map(|entry| format!("{} {}", text(&entry, "/operation"), entry["fieldsV1"]))
                .collect();
            managers.sort();
            // What rolls twice is written twice. The Cluster is written whenever a run goes on.
            if kind == "Cluster" {
                metadata.remove("generation");
                // It is written last, and may still be about to be.
                metadata
                    .get_mut("annotations")
                    .and_then(Value::as_object_mut)
                    .map(|all| all.remove("topologist.dev/rolled-out"));
                managers.clear();
                let upgrade = object["status"]["controlPlane"]["upgradePlan"].take();
                object["status"] = json!({"upgradePlan": upgrade});
            }
            let line = format!("{kind} {object} {managers:?}");
            let line = TIMES.replace_all(&line, "<time>");
            let line = UIDS.replace_all(&line, "<uid>");
            all.push(ENDS.replace_all(&line, "$1-*").into_owned());
        }
    }
    all.sort();
    all
}

/// What comes of a wish when there is trouble, and how many writes it took until the first trouble or the end.
async fn comes_of(wish: Wish, trouble: Trouble) -> (Vec<String>, usize) {
    let site = Site::embedded().await;
    site.provide().await;
    wish.prepare(&site).await;
    wish.apply_to(&site).await;
    let wire = Wire::new(trouble);
    let mut manager = Manager::start(&site, &wire);
    tokio::select! {
        () = at_rest(&site, &manager) => {}
        () = wire.died.notified() => {
            drop(manager);
            manager = Manager::start(&site, &Wire::new(Trouble::None));
            at_rest(&site, &manager).await;
        }
    }
    if matches!(trouble, Trouble::Chaos(_)) {
        wire.mend();
        at_rest(&site, &manager).await;
    }
    let found = everything(&site).await;
    manager.stop().await;
    (found, wire.writes().len())
}

/// Compares line by line, so that a failure can be read.
pub(super) fn compare(what: &str, found: &[String], wanted: &[String]) {
    let count = |lines: &[String]| {
        lines.iter().fold(BTreeMap::new(), |mut counts: BTreeMap<String, usize>, line| {
            *counts.entry(line.clone()).or_default() += 1;
            counts
        })
    };
    let (found, wanted) = (count(found), count(wanted));
    let too_much: Vec<_> = found.iter().filter(|(line, times)| wanted.get(*line) != Some(times)).collect();
    let missing: Vec<_> = wanted.iter().filter(|(line, times)| found.get(*line) != Some(times)).collect();
    let firsts = too_much.iter().zip(&missing).map(|((a, _), (b, _))| {
        let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count().saturating_sub(100);
        format!("{}\n…{}\n…{}", a.split(' ').next().unwrap_or_default(), &a[same..], &b[same..])
    });
    let firsts: Vec<String> = firsts.collect();
    assert!(
        too_much.is_empty() && missing.is_empty(),
        "{what}: {firsts:#?}\nthere is {too_much:#?}\nand should be {missing:#?}"
    );
}

async fn dies_at_every_write(wish: Wish) {
    let (wanted, writes) = comes_of(wish, Trouble::None).await;
    assert!(writes > 3, "{writes} writes");
    let wanted = Arc::new(wanted);
    // Death before a write is death after the one before.
    let outcomes = futures::stream::iter((1..=writes).map(|write| {
        let wanted = wanted.clone();
        // A runtime may not move what waits for conditions from thread to thread.
        let runtime = Handle::current();
        tokio::task::spawn_blocking(move || {
            let (found, _) = runtime.block_on(comes_of(wish, Trouble::DiesAt { write }));
            compare(&format!("{wish:?}, dead after write {write} of {writes}"), &found, &wanted);
        })
    }));
    let failed =
        outcomes.buffer_unordered(SIDE_BY_SIDE).filter(|ended| std::future::ready(ended.is_err())).count().await;
    assert_eq!(failed, 0, "of {writes} deaths");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_creation_that_dies_at_any_write_is_finished_by_the_next_process() {
    // RS-37, RS-38, ROT-11, PERF-11
    dies_at_every_write(Wish::Create).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_that_dies_at_any_write_is_finished_and_leaves_no_template_behind() {
    // RS-37, ROT-06, ROT-11
    dies_at_every_write(Wish::Rotate).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_that_dies_at_any_write_is_continued() {
    // RS-37, HK-03, UP-47
    dies_at_every_write(Wish::Upgrade).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_are_created_updated_and_deleted_even_if_the_process_dies() {
    // RS-26, RS-28, RS-33, RS-35, RS-37
    dies_at_every_write(Wish::Workers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_fails_delays_and_reorders_gives_the_same_result() {
    // RS-09, RS-13, RS-36, RS-37
    for wish in [Wish::Create, Wish::Rotate, Wish::Upgrade, Wish::Workers] {
        let (wanted, _) = comes_of(wish, Trouble::None).await;
        let outcomes = (1..=3).map(|seed| async move { (seed, comes_of(wish, Trouble::Chaos(seed)).await.0) });
        for (seed, found) in futures::future::join_all(outcomes).await {
            compare(&format!("{wish:?}, chaos {seed}"), &found, &wanted);
        }
    }
}

#[test]
fn differences_are_listed() {
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    compare("same", &lines(&["a", "a", "b"]), &lines(&["a", "b", "a"]));
    let differs = std::panic::catch_unwind(|| compare("leak", &lines(&["a", "a"]), &lines(&["a"])));
    assert!(differs.is_err());
}
