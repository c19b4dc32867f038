//! The rollout by the binary itself, as the ServiceAccount of the manifests, and what becomes of a leader that stands still.

use serde_json::json;

use super::crash::at_rest;
use super::site::{INFRASTRUCTURE, Site, without_conversion};
use crate::kubernetes::Kubernetes;
use crate::kustomize::{overlay, permissions, stream};
use crate::process::{Topologist, make_certificates};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_and_continued_leader_writes_nothing_more_and_no_permission_is_missing() {
    // RS-37, DEL-05, DEL-06
    let kubernetes = Kubernetes::start();
    let definitions = topologist::crd::definitions().into_iter().map(without_conversion);
    kubernetes.apply_yaml(&stream(&definitions.collect::<Vec<_>>())).await;
    kubernetes.apply_yaml(&stream(&permissions(overlay("alone")))).await;
    let kubeconfig = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
    let certificates = tempfile::tempdir().unwrap();
    make_certificates(certificates.path());
    let file = |name: &str| certificates.path().join(name).display().to_string();
    let (cert, key, kubeconfig) = (file("tls.crt"), file("tls.key"), kubeconfig.display().to_string());
    let start = || {
        let common = ["--kubeconfig", &kubeconfig, "--tls-cert", &cert, "--tls-key", &key, "--shutdown-grace", "0s"];
        Topologist::serve(&[&common[..], &["--controllers", "all", "--lease-duration", "3s"]].concat())
    };
    let first = start();
    let site = Site::on(kubernetes.client(), "default".to_owned()).await;
    site.apply_file("cluster.yaml").await;
    site.until("the first objects are there", || async {
        (!site.list(INFRASTRUCTURE, "EmbeddedCluster").await.is_empty()).then_some(())
    })
    .await;
    first.signal("STOP");
    site.provide().await;
    let second = start();
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
