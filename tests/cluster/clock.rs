//! A system clock that jumps, for a replica that manages the certificates.
//!
//! The clock is that of libfaketime, which reads a file. Time that only goes forward (`CLOCK_MONOTONIC`) is left alone,
//! as it is when an administrator or a time server sets the clock.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::json;
use tempfile::TempDir;

use crate::harness::wait;
use crate::harness::wait::SOON;
use crate::load::{Load, clusters, good, until};
use crate::self_managed::Site;

/// The system clock of a process.
struct Clock {
    folder: TempDir,
}

impl Clock {
    fn new() -> Self {
        let clock = Clock { folder: tempfile::tempdir().unwrap() };
        clock.set("+0");
        clock
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("offset")
    }

    /// The clock is as far from the right time as this says (`-1h`, `+30d`).
    fn set(&self, offset: &str) {
        let fresh = self.folder.path().join("fresh");
        std::fs::write(&fresh, offset).unwrap();
        std::fs::rename(fresh, self.file()).unwrap();
    }

    fn give_to(&self, process: &mut Command) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/harness/faketime");
        let output = Command::new(script).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        process.env("LD_PRELOAD", String::from_utf8(output.stdout).unwrap().trim());
        process.env("FAKETIME_TIMESTAMP_FILE", self.file());
        process.envs([("FAKETIME_NO_CACHE", "1"), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")]);
    }
}

/// A guard with one replica, which runs all controllers, and the clock of that.
async fn guarded() -> (Site, Clock) {
    let (mut site, clock) = (Site::start().await, Clock::new());
    site.serve_where(&["--controllers", "all"], |process| clock.give_to(process));
    site.use_newest();
    site.until_guarded().await;
    (site, clock)
}

/// By how many days the certificate that is served ends after the right time.
fn days_left(site: &Site) -> f64 {
    let ends = site.replicas[0].metric("topologist_tls_certificate_expiry_timestamp_seconds").unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    (ends - now) / 86_400.0
}

/// The finalizer of the controller of templates.
const FINALIZER: &str = "machinedeployment.topology.cluster.x-k8s.io";

fn api(site: &Site, kind: &str) -> Api<DynamicObject> {
    let (client, group) = (site.kubernetes.client(), "cluster.x-k8s.io");
    let resource = |group: &str, plural: &str| {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1beta2", kind), plural)
    };
    match kind {
        "ClusterClass" => Api::namespaced_with(client, "default", &resource(group, "clusterclasses")),
        "ExtensionConfig" => Api::all_with(client, &resource("runtime.cluster.x-k8s.io", "extensionconfigs")),
        _ => Api::namespaced_with(client, "default", &resource(group, &format!("{}s", kind.to_lowercase()))),
    }
}

async fn merge(site: &Site, kind: &str, name: &str, patch: serde_json::Value) {
    api(site, kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// Edits an object of each controller: pauses a class, an ExtensionConfig and a Cluster, or unpauses them, and removes
/// a finalizer.
async fn edit(site: &Site, is_paused: bool) {
    let value = is_paused.then_some("");
    let paused = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": value}}});
    merge(site, "ClusterClass", "base", paused.clone()).await;
    merge(site, "ExtensionConfig", "lab", paused).await;
    merge(site, "Cluster", "probe", json!({"spec": {"paused": is_paused}})).await;
    merge(site, "MachineDeployment", "workers", json!({"metadata": {"finalizers": null}})).await;
}

/// Whether an object has a condition of which this is so.
async fn has(site: &Site, kind: &str, name: &str, holds: impl Fn(&serde_json::Value) -> bool) -> bool {
    let object = api(site, kind).get(name).await.unwrap();
    object.data["status"]["conditions"].as_array().is_some_and(|conditions| conditions.iter().any(holds))
}

/// Waits until each controller has answered.
async fn until_answered(site: &Site, is_paused: bool) {
    let wanted = if is_paused { "True" } else { "False" };
    let answered = async || {
        let is_answered = |one: &serde_json::Value| one["type"] == "Paused" && one["status"] == wanted;
        let is_topology = |one: &serde_json::Value| one["type"] == "TopologyReconciled";
        let deployment = api(site, "MachineDeployment").get("workers").await.unwrap();
        [
            has(site, "ClusterClass", "base", is_answered).await,
            has(site, "ExtensionConfig", "lab", is_answered).await,
            has(site, "Cluster", "probe", |one| is_topology(one) && (one["reason"] == "Paused") == is_paused).await,
            deployment.metadata.finalizers.unwrap_or_default().iter().any(|name| name == FINALIZER),
        ]
    };
    let state =
        async || format!("class, ExtensionConfig, Cluster, MachineDeployment: {:?}\n{}", answered().await, site.logs());
    wait::until_async("each controller has answered", SOON, async || answered().await == [true; 4], state).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn edits_right_after_a_clock_jump_are_carried_out() {
    // DEC-60
    let (site, clock) = guarded().await;
    clusters(&site.kubernetes).create(&PostParams::default(), &good("probe")).await.unwrap();
    let labels = json!({"cluster.x-k8s.io/cluster-name": "probe", "topology.cluster.x-k8s.io/owned": ""});
    let reference = |kind: &str| json!({"apiGroup": "example.com", "kind": kind, "name": "t"});
    let machine = json!({"clusterName": "probe", "bootstrap": {"configRef": reference("BootstrapTemplate")},
        "infrastructureRef": reference("MachineTemplate")});
    let workers = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
        "metadata": {"name": "workers", "labels": labels},
        "spec": {"clusterName": "probe", "replicas": 0, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": machine}}});
    let workers = serde_json::from_value(workers).unwrap();
    // Nothing answers there, which its status says.
    let extension = json!({"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
        "metadata": {"name": "lab"}, "spec": {"clientConfig": {"url": "https://127.0.0.1:1"}}});
    let extension = serde_json::from_value(extension).unwrap();
    api(&site, "ExtensionConfig").create(&PostParams::default(), &extension).await.unwrap();
    api(&site, "MachineDeployment").create(&PostParams::default(), &workers).await.unwrap();
    until_answered(&site, false).await;
    for (turn, offset) in ["+1h", "+2h", "+3h", "+4h", "+5h", "+6h"].into_iter().enumerate() {
        // Between two renewals: until the next one, nothing may be written.
        clock.set(offset);
        let is_paused = turn % 2 == 0;
        edit(&site, is_paused).await;
        until_answered(&site, is_paused).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_request_is_lost_when_the_clock_jumps_and_the_replica_leads_again_within_its_lease() {
    let (site, clock) = guarded().await;
    let load = Load::start(|| clusters(&site.kubernetes));
    for offset in ["+1h", "-1h", "+30d", "-30d", "+0"] {
        clock.set(offset);
        load.more(50).await;
        // Longer than the lease, so that it was renewed by the new clock.
        tokio::time::sleep(Duration::from_secs(4)).await;
        until("the replica leads", || site.replicas[0].metric("topologist_leader") == Some(1.0)).await;
    }
    let lost = load.stop().await;
    assert!(lost.is_empty(), "{lost:#?}\n{}", site.logs());
    assert_eq!(site.actions("make_all"), 1, "certificates of 90 days do not depend on it\n{}", site.logs());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn certificates_that_expire_by_a_clock_jump_are_renewed_at_once() {
    let (site, clock) = guarded().await;
    let authority = site.secret("ca.crt").await;
    // Beyond the end of the authority, which is made for five years.
    clock.set("+3000d");
    until("there are certificates for the time to come", || days_left(&site) > 3000.0).await;
    clock.set("+0");
    until("there are certificates for the present", || (80.0..91.0).contains(&days_left(&site))).await;
    site.until_guarded().await;
    assert_ne!(site.secret("ca.crt").await, authority);
}
