//! Faults around the process: an API server that answers with errors, and files that cannot be written.

use std::time::Duration;

use kube::api::DynamicObject;
use serde_json::json;
use tempfile::TempDir;

use crate::harness::faulty_api::{Faulty, Mood};
use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{definitions_and_permissions, overlay, stream, webhooks_at};
use crate::harness::server::{READ_ONLY, Topologist, after, make_certificates};
use crate::harness::wait;
use crate::harness::wait::SOON;
use crate::load::{CLASS, Load, clusters, dry};
use crate::self_managed;

/// A guard with all controllers, which reaches its API server through a proxy that fails; the API server calls the
/// guard directly.
struct Site {
    topologist: Topologist,
    faulty: Faulty,
    kubernetes: Kubernetes,
    _certificates: TempDir,
}

impl Site {
    async fn start() -> Self {
        let kubernetes = Kubernetes::start();
        let objects = overlay("alone");
        kubernetes.apply_yaml(&stream(&definitions_and_permissions(objects.clone()))).await;
        kubernetes.apply_yaml(CLASS).await;
        let certificates = tempfile::tempdir().unwrap();
        make_certificates(certificates.path());
        let kubeconfig = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
        let faulty = Faulty::start(&kubeconfig, certificates.path()).await;
        let file = |name: &str| certificates.path().join(name).display().to_string();
        let (cert, key, kubeconfig) = (file("tls.crt"), file("tls.key"), faulty.kubeconfig.display().to_string());
        let common = ["--kubeconfig", &kubeconfig, "--tls-cert", &cert, "--tls-key", &key, "--shutdown-grace", "0s"];
        let topologist = Topologist::serve(&[&common[..], &["--controllers", "all"]].concat());
        topologist.wait_until_ready();
        let authority = std::fs::read(file("ca.crt")).unwrap();
        kubernetes.apply_yaml(&stream(&webhooks_at(objects, &topologist.webhook, &authority))).await;
        Site { topologist, faulty, kubernetes, _certificates: certificates }
    }

    /// Creates a class that offers one version, and returns when a Cluster of it with another version is refused.
    async fn learns_of_a_class(&self, name: &str) {
        let mut class = topologist::yaml::value(CLASS).unwrap();
        class["metadata"]["name"] = json!(name);
        class["spec"]["kubernetesVersions"] = json!(["v1.32.0"]);
        self.kubernetes.apply_yaml(&class.to_string()).await;
        let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "probe"},
            "spec": {"topology": {"classRef": {"name": name}, "version": "v1.33.0"}}});
        let cluster: DynamicObject = serde_json::from_value(cluster).unwrap();
        let clusters = clusters(&self.kubernetes);
        let is_known = async || clusters.create(&dry(), &cluster).await.is_err();
        wait::until_async(&format!("{name} is known"), 2 * SOON, is_known, async || self.topologist.log_text()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn reviews_are_answered_while_the_api_server_answers_with_errors_and_it_is_not_flooded() {
    let site = Site::start().await;
    site.learns_of_a_class("early").await;
    let load = Load::start(|| clusters(&site.kubernetes));
    let seconds = std::env::var("TOPOLOGIST_FAULT_SECONDS").map_or(15_usize, |seconds| seconds.parse().unwrap());
    for (code, retry_after) in [(429, Some(2)), (500, None), (410, None)] {
        let (requests, failures) = (site.faulty.requests(), site.faulty.failures());
        site.faulty.set(Mood::Fails { code, retry_after });
        tokio::time::sleep(Duration::from_secs(seconds as u64)).await;
        load.more(50).await;
        let (requests, failures) = (site.faulty.requests() - requests, site.faulty.failures() - failures);
        println!("{code}: {requests} requests, {failures} of them failed, in {seconds} s");
        assert!(failures > 5 && requests < 10 * seconds, "{code}: {requests} requests, {failures} failed");
        site.faulty.set(Mood::Well);
        site.learns_of_a_class(&format!("after-{code}")).await;
    }
    let lost = load.stop().await;
    assert!(lost.is_empty(), "{lost:#?}\n{}", site.topologist.log_text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_into_files() {
    let mut site = self_managed::Site::start().await;
    site.serve_where(&["--controllers", "all"], |command| *command = after(READ_ONLY, command));
    site.use_newest();
    site.until_guarded().await;
    assert!(!site.logs().contains("Read-only file system"), "{}", site.logs());
}
