//! The rollout by the binary itself, as the ServiceAccount of the manifests, and what becomes of a leader that stands
//! still.

use std::time::{Duration, Instant};

use regex::Regex;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::crash::{Wish, at_rest, compare, everything};
use super::site::{BOOTSTRAP, CORE, INFRASTRUCTURE, Site, without_conversion};
use crate::harness::faulty_api::{Faulty, Mood};
use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{overlay, overlay_with, permissions, scope, stream, variables, webhooks_at};
use crate::harness::server::{Topologist, command, make_certificates};

/// A kube-apiserver of our own, on which all kinds are defined: processes look at all namespaces.
pub(super) struct Installation {
    pub(super) kubernetes: Kubernetes,
    kubeconfig: String,
    certificates: TempDir,
}

impl Installation {
    pub(super) async fn new() -> Self {
        Installation::with(overlay("alone"), &[]).await
    }

    /// With the permissions of these manifests, in these namespaces.
    pub(super) async fn with(manifests: Vec<Value>, namespaces: &[&str]) -> Self {
        Installation::on(Kubernetes::start(), manifests, namespaces).await
    }

    /// On a server without definitions, with the permissions of these manifests.
    pub(super) async fn on(kubernetes: Kubernetes, manifests: Vec<Value>, namespaces: &[&str]) -> Self {
        let definitions = topologist::crd::definitions().into_iter().map(without_conversion);
        kubernetes.apply_yaml(&stream(&definitions.collect::<Vec<_>>())).await;
        for name in namespaces {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            kubernetes.apply_yaml(&namespace.to_string()).await;
        }
        kubernetes.apply_yaml(&stream(&permissions(manifests))).await;
        let kubeconfig = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
        let certificates = tempfile::tempdir().unwrap();
        make_certificates(certificates.path());
        Installation { kubernetes, kubeconfig: kubeconfig.display().to_string(), certificates }
    }

    /// A process with all controllers, and with a Lease of three seconds.
    fn start(&self) -> Topologist {
        self.start_with(&["--lease-duration", "3s"])
    }

    /// A process with all controllers and these flags.
    pub(super) fn start_with(&self, more: &[&str]) -> Topologist {
        self.start_as(&self.kubeconfig, more)
    }

    /// The same with another kubeconfig.
    pub(super) fn start_as(&self, kubeconfig: &str, more: &[&str]) -> Topologist {
        let file = |name: &str| self.certificates.path().join(name).display().to_string();
        let (cert, key) = (file("tls.crt"), file("tls.key"));
        let common = ["--kubeconfig", kubeconfig, "--tls-cert", &cert, "--tls-key", &key, "--shutdown-grace", "0s"];
        Topologist::serve(&[&common[..], &["--controllers", "all"], more].concat())
    }

    /// A process with the variables of the Deployment of these manifests, which manages its certificates as well.
    fn start_as_deployed(&self, manifests: &[Value]) -> Topologist {
        self.start_as_deployed_with(manifests, &[])
    }

    /// The same with more flags.
    fn start_as_deployed_with(&self, manifests: &[Value], more: &[&str]) -> Topologist {
        let addresses = ["--webhook-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
        let mut start = command(&[&["serve", "--kubeconfig", &self.kubeconfig], &addresses[..], more].concat());
        start.envs(variables(manifests));
        Topologist::launch(start)
    }
}

impl Installation {
    /// A process with the variables of the Deployment, to which kube-apiserver sends the reviews of these manifests.
    pub(super) async fn start_behind_webhooks(&self, manifests: &[Value], more: &[&str]) -> Topologist {
        let file = |name: &str| self.certificates.path().join(name).display().to_string();
        let (cert, key) = (file("tls.crt"), file("tls.key"));
        let addresses =
            ["--webhook-addr", "127.0.0.1:0", "--conversion-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
        let own = ["serve", "--kubeconfig", &self.kubeconfig, "--tls-cert", &cert, "--tls-key", &key];
        let mut start = command(&[&own[..], &addresses, more].concat());
        start.envs(variables(manifests)).env_remove("TOPOLOGIST_MANAGE_CERTIFICATES");
        let topologist = Topologist::launch(start);
        topologist.wait_until_ready();
        let authority = std::fs::read(self.certificates.path().join("ca.crt")).unwrap();
        let webhooks = webhooks_at(manifests.to_vec(), &topologist.webhook, &authority);
        self.kubernetes.apply_yaml(&stream(&webhooks)).await;
        topologist
    }
}

/// Changes that need every permission of the reconciler: rotations, and workers that go.
async fn change_much(site: &Site) {
    site.change("demo", |topology| {
        topology["variables"][0]["value"] = json!("other");
        topology["workers"]["machineDeployments"].as_array_mut().unwrap().pop();
        topology["workers"].as_object_mut().unwrap().remove("machinePools");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_one_namespace_roles_are_enough_to_reconcile_alone_and_after_take_over() {
    // DEC-37, DEC-47
    for way in ["alone", "take-over"] {
        let file = scope("team-a");
        let manifests = overlay_with(way, &["namespaced"], &[("scope.yaml", &file)]);
        let installation = Installation::with(manifests.clone(), &["team-a"]).await;
        let topologist = installation.start_as_deployed(&manifests);
        topologist.wait_until_ready();
        let elsewhere = Site::on(installation.kubernetes.client(), "team-b".to_owned()).await;
        elsewhere.apply_file("cluster.yaml").await;
        let site = Site::on(installation.kubernetes.client(), "team-a".to_owned()).await;
        site.provide().await;
        site.apply_file("cluster.yaml").await;
        at_rest(&site, &topologist).await;
        change_much(&site).await;
        at_rest(&site, &topologist).await;
        let cluster = elsewhere.cluster("demo").await;
        assert!(cluster["spec"]["infrastructureRef"].is_null() && cluster["status"].is_null(), "{way}: {cluster}");
        assert!(elsewhere.list(INFRASTRUCTURE, "EmbeddedCluster").await.is_empty(), "{way}");
        assert!(elsewhere.list("v1", "ConfigMap").await.is_empty(), "{way}");
        site.delete(CORE, "Cluster", "demo").await;
        site.until("the Cluster may go", || async {
            let cluster = site.cluster("demo").await;
            (!cluster.to_string().contains("topology.cluster.x-k8s.io/finalizer")).then_some(())
        })
        .await;
        let log = topologist.log_text();
        assert!(!log.to_lowercase().contains("forbidden") && !log.contains("Watch failed"), "{way}: {log}");
    }
}

/// Nothing takes time.
const AT_ONCE: &str = "cluster: 0s\ninfrastructure: 0s\nbootstrap: 0s\nnode: 0s\netcd: 0s\napiServer: 0s\ncontrolPlane: 0s\ndrain: 0s\ndeletion: 0s\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_component_for_machines_grants_what_it_takes_to_run_and_delete_them() {
    // CT-16.2, CT-16.5, DEC-37
    let file = scope("team-a");
    let manifests = overlay_with("alone", &["namespaced", "lifecycle"], &[("scope.yaml", &file)]);
    let installation = Installation::with(manifests.clone(), &["team-a"]).await;
    let timings = installation.certificates.path().join("timings.yaml");
    std::fs::write(&timings, AT_ONCE).unwrap();
    let more = ["--workload-addr", "127.0.0.1:0", "--timings", &*timings.display().to_string()];
    let topologist = installation.start_as_deployed_with(&manifests, &more);
    topologist.wait_until_ready();
    let site = Site::on(installation.kubernetes.client(), "team-a".to_owned()).await;
    site.apply_file("cluster.yaml").await;
    let machines = || async {
        let machines = site.list(CORE, "Machine").await;
        let running = machines.iter().filter(|machine| machine["status"]["phase"] == "Running").count();
        // Three of the control plane, two blue ones and a green one.
        (running == 6 && machines.len() == 6).then_some(())
    };
    site.until("all Machines run", machines).await;
    let secret = site.get("v1", "Secret", "demo-kubeconfig").await;
    assert!(secret.is_some(), "the workload cluster can be reached");
    change_much(&site).await;
    site.delete(CORE, "Cluster", "demo").await;
    site.until("the Cluster is gone", || async { site.get(CORE, "Cluster", "demo").await.is_none().then_some(()) })
        .await;
    assert!(site.list(CORE, "Machine").await.is_empty());
    let log = topologist.log_text();
    assert!(!log.to_lowercase().contains("forbidden") && !log.contains("Watch failed"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_killed_is_replaced_within_its_lease_and_two_seconds() {
    let installation = Installation::new().await;
    let mut leader = installation.start();
    leader.wait_for_log("Acquired the Lease");
    let site = Site::on(installation.kubernetes.client(), "default".to_owned()).await;
    site.provide().await;
    site.apply_file("cluster.yaml").await;
    at_rest(&site, &leader).await;
    // The lease of `Installation::start`.
    let limit = Duration::from_secs(3 + 2);
    let mut reconciled = Vec::new();
    for turn in 0..4 {
        let mut follower = installation.start();
        follower.wait_for_log("The holder of the Lease changed");
        // At another moment between two renewals each time.
        tokio::time::sleep(Duration::from_millis(1_000 + 130 * turn)).await;
        leader.signal("KILL");
        let killed = Instant::now();
        leader.wait();
        let value = format!("value-{turn}");
        site.change("demo", |topology| topology["variables"][0]["value"] = json!(value)).await;
        follower.wait_for_log("Acquired the Lease");
        let acquired = killed.elapsed();
        // Replaced means that the next leader does its work, not only that it holds the lease.
        site.until("the next leader reconciles", || async {
            let templates = site.list(BOOTSTRAP, "EmbeddedConfigTemplate").await;
            templates.iter().any(|template| template.to_string().contains(&value)).then_some(())
        })
        .await;
        reconciled.push(killed.elapsed());
        assert!(acquired <= limit, "turn {turn}: after {acquired:?}\n{}", follower.log_text());
        at_rest(&site, &follower).await;
        leader = follower;
    }
    // Lists are read and topologies computed in what is left; other tests may have the CPU for longer than that, but
    // not always.
    assert!(reconciled.iter().min().is_some_and(|fastest| *fastest <= limit), "{reconciled:?}");
}

/// Everything that is there, without the namespace and how often it was edited: edits that follow each other closely
/// are one write, or two.
async fn comparable(site: &Site) -> Vec<String> {
    let generations = Regex::new("\"generation\":\\d+,").unwrap();
    let plain = |line: String| generations.replace(&line.replace(&site.namespace, "<namespace>"), "").into_owned();
    everything(site).await.into_iter().map(plain).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_rollout_finishes_although_the_api_server_is_restarted() {
    // RS-38
    let mut installation = Installation::new().await;
    let faulty = Faulty::start(installation.kubeconfig.as_ref(), installation.certificates.path()).await;
    installation.kubeconfig = faulty.kubeconfig.display().to_string();
    let topologist = installation.start();
    let mut wanted: Vec<Vec<String>> = Vec::new();
    for code in [None, Some(500), Some(429), Some(410)] {
        let site = Site::on(installation.kubernetes.client(), installation.kubernetes.namespace("faulty").await).await;
        site.provide().await;
        faulty.set(code.map_or(Mood::Well, |code| Mood::ComesAndGoes { code }));
        let before = faulty.failures();
        for (position, wish) in [Wish::Create, Wish::Upgrade].into_iter().enumerate() {
            wish.apply_to(&site).await;
            at_rest(&site, &topologist).await;
            let found = comparable(&site).await;
            match wanted.get(position) {
                None => wanted.push(found),
                Some(wanted) => compare(&format!("{wish:?}, with {code:?}"), &found, wanted),
            }
        }
        assert!(
            code.is_none() || faulty.failures() > before + 10,
            "{code:?} came {} times",
            faulty.failures() - before
        );
    }
    let log = topologist.log_text();
    assert!(!log.contains("panic"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_work_of_killed_processes_is_finished_by_the_next_one() {
    // RS-37, RS-38, ROT-06, ROT-11, UP-47
    let installation = Installation::new().await;
    let mut leader = installation.start();
    let mut wanted: Vec<Vec<String>> = Vec::new();
    for delay in [None, Some(40), Some(250)] {
        let site = Site::on(installation.kubernetes.client(), installation.kubernetes.namespace("killed").await).await;
        site.provide().await;
        for (position, wish) in [Wish::Create, Wish::Rotate, Wish::Workers, Wish::Upgrade].into_iter().enumerate() {
            wish.apply_to(&site).await;
            if let Some(delay) = delay {
                tokio::time::sleep(Duration::from_millis(delay)).await;
                leader.signal("KILL");
                leader.wait();
                leader = installation.start();
            }
            at_rest(&site, &leader).await;
            let found = comparable(&site).await;
            match wanted.get(position) {
                None => wanted.push(found),
                Some(wanted) => compare(&format!("{wish:?}, killed after {delay:?} ms"), &found, wanted),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_and_continued_leader_writes_nothing_more_and_no_permission_is_missing() {
    // RS-37, DEL-05, DEL-06
    let installation = Installation::new().await;
    let first = installation.start();
    let site = Site::on(installation.kubernetes.client(), "default".to_owned()).await;
    site.apply_file("cluster.yaml").await;
    site.until("the first objects are there", || async {
        (!site.list(INFRASTRUCTURE, "EmbeddedCluster").await.is_empty()).then_some(())
    })
    .await;
    first.signal("STOP");
    site.provide().await;
    let second = installation.start();
    at_rest(&site, &second).await;
    let before = site.versions().await;
    first.signal("CONT");
    site.until("the first leader knows that it leads no longer", || async {
        (first.metric("topologist_leader") == Some(0.0)).then_some(())
    })
    .await;
    for topologist in [&first, &second] {
        site.until_quiet(topologist, "demo").await;
    }
    assert_eq!(site.versions().await, before);
    assert_eq!((first.metric("topologist_leader"), second.metric("topologist_leader")), (Some(0.0), Some(1.0)));
    // Everything else that asks for permissions: rotations, workers that go.
    change_much(&site).await;
    at_rest(&site, &second).await;
    for topologist in [&first, &second] {
        let log = topologist.log_text();
        assert!(!log.to_lowercase().contains("forbidden"), "{log}");
    }
}
