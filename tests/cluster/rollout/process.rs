//! The rollout by the binary itself, as the ServiceAccount of the manifests, and what becomes of a leader that stands still.

use regex::Regex;
use serde_json::json;

use super::crash::{Wish, at_rest, compare, everything};
use super::site::{INFRASTRUCTURE, Site, without_conversion};
use crate::kubernetes::Kubernetes;
use crate::kustomize::{overlay, permissions, stream};
use crate::process::{Topologist, make_certificates};

/// A kube-apiserver of our own, on which all kinds are defined: processes look at all namespaces.
struct Ground {
    kubernetes: Kubernetes,
    kubeconfig: String,
    certificates: tempfile::TempDir,
}

impl Ground {
    async fn new() -> Self {
        let kubernetes = Kubernetes::start();
        let definitions = topologist::crd::definitions().into_iter().map(without_conversion);
        kubernetes.apply_yaml(&stream(&definitions.collect::<Vec<_>>())).await;
        kubernetes.apply_yaml(&stream(&permissions(overlay("alone")))).await;
        let kubeconfig = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
        let certificates = tempfile::tempdir().unwrap();
        make_certificates(certificates.path());
        Ground { kubernetes, kubeconfig: kubeconfig.display().to_string(), certificates }
    }

    /// A process with all controllers.
    fn start(&self) -> Topologist {
        let file = |name: &str| self.certificates.path().join(name).display().to_string();
        let (cert, key, kubeconfig) = (file("tls.crt"), file("tls.key"), &self.kubeconfig);
        let common = ["--kubeconfig", kubeconfig, "--tls-cert", &cert, "--tls-key", &key, "--shutdown-grace", "0s"];
        Topologist::serve(&[&common[..], &["--controllers", "all", "--lease-duration", "3s"]].concat())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_are_killed_are_followed_by_one_that_finishes_their_work() {
    // RS-37, RS-38, ROT-06, ROT-11, UP-47
    let ground = Ground::new().await;
    let mut leader = ground.start();
    let mut wanted: Vec<Vec<String>> = Vec::new();
    // Edits that follow each other closely are one write, or two.
    let generations = Regex::new("\"generation\":\\d+,").unwrap();
    for delay in [None, Some(40), Some(250)] {
        let site = Site::on(ground.kubernetes.client(), ground.kubernetes.namespace("killed").await).await;
        site.provide().await;
        for (position, wish) in [Wish::Create, Wish::Rotate, Wish::Workers, Wish::Upgrade].into_iter().enumerate() {
            wish.say(&site).await;
            if let Some(delay) = delay {
                tokio::time::sleep(std::time::Duration::from_millis(delay)).await;
                leader.signal("KILL");
                leader.wait();
                leader = ground.start();
            }
            at_rest(&site).await;
            let found = everything(&site).await;
            let plain =
                |line: &String| generations.replace(&line.replace(&site.namespace, "<namespace>"), "").into_owned();
            let found: Vec<String> = found.iter().map(plain).collect();
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
    let ground = Ground::new().await;
    let first = ground.start();
    let site = Site::on(ground.kubernetes.client(), "default".to_owned()).await;
    site.apply_file("cluster.yaml").await;
    site.until("the first objects are there", || async {
        (!site.list(INFRASTRUCTURE, "EmbeddedCluster").await.is_empty()).then_some(())
    })
    .await;
    first.signal("STOP");
    site.provide().await;
    let second = ground.start();
    at_rest(&site).await;
    let before = site.versions().await;
    first.signal("CONT");
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert_eq!(site.versions().await, before);
    assert_eq!((first.metric("topologist_leader"), second.metric("topologist_leader")), (Some(0.0), Some(1.0)));
    // Everything else that asks for permissions: rotations, workers that go.
    site.change("demo", |topology| {
        topology["variables"][0]["value"] = json!("other");
        topology["workers"]["machineDeployments"].as_array_mut().unwrap().pop();
        topology["workers"].as_object_mut().unwrap().remove("machinePools");
    })
    .await;
    at_rest(&site).await;
    for topologist in [&first, &second] {
        let log = topologist.log_text();
        assert!(!log.to_lowercase().contains("forbidden"), "{log}");
    }
}
