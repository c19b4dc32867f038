//! The processes that all stories share, and the namespace of one story.

use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::controller_manager::ControllerManager;
use crate::kubectl_client::Kubectl;
use crate::kubernetes::Kubernetes;
use crate::kustomize::{definitions_at, overlay, permissions, stream, webhooks_at};
use crate::process::{Topologist, make_certificates};
use crate::rollout::site::{CORE, Site, without_conversion};

/// An API server with topologist and kube-controller-manager.
struct Ground {
    topologist: Topologist,
    controller_manager: ControllerManager,
    kubernetes: Kubernetes,
    _certificates: tempfile::TempDir,
}

impl Ground {
    async fn shared() -> &'static Self {
        static SHARED: OnceCell<Ground> = OnceCell::const_new();
        SHARED.get_or_init(Ground::start).await
    }

    /// Everything of the overlay `alone`, as a user would have it after the installation.
    async fn start() -> Self {
        let kubernetes = Kubernetes::start();
        let definitions = topologist::crd::definitions().into_iter().map(without_conversion);
        kubernetes.apply_yaml(&stream(&definitions.collect::<Vec<_>>())).await;
        kubernetes.apply_yaml(&stream(&permissions(overlay("alone")))).await;
        let kubeconfig = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
        let certificates = tempfile::tempdir().unwrap();
        make_certificates(certificates.path());
        let file = |name: &str| certificates.path().join(name).display().to_string();
        let (cert, key, kubeconfig) = (file("tls.crt"), file("tls.key"), kubeconfig.display().to_string());
        let common = ["--kubeconfig", &kubeconfig, "--tls-cert", &cert, "--tls-key", &key, "--shutdown-grace", "0s"];
        let own = ["--controllers", "all", "--lifecycle", "on", "--lease-duration", "3s", "--log", "topologist=debug"];
        let topologist = Topologist::serve(&[&common[..], &own].concat());
        topologist.wait_until_ready();
        let authority = std::fs::read(file("ca.crt")).unwrap();
        let definitions = definitions_at(overlay("alone"), &topologist.conversions, &authority);
        kubernetes.apply_yaml(&stream(&definitions)).await;
        kubernetes.apply_yaml(&stream(&webhooks_at(overlay("alone"), &topologist.webhook, &authority))).await;
        let controller_manager = ControllerManager::start(&kubernetes).await;
        Ground { topologist, controller_manager, kubernetes, _certificates: certificates }
    }
}

/// A namespace with a class and its templates.
pub(super) struct Story {
    pub site: Site,
    pub kubectl: Kubectl,
    /// The kinds of objects in namespaces, in the form that kubectl takes.
    pub kinds: String,
    ground: &'static Ground,
}

impl Story {
    pub(super) async fn begin() -> Self {
        let ground = Ground::shared().await;
        let namespace = ground.kubernetes.namespace("garbage").await;
        let kubectl = Kubectl::within(ground.kubernetes.kubeconfig().to_owned(), namespace.clone());
        let listed = kubectl.out(&["api-resources", "--namespaced", "--verbs=list,delete", "-o", "name"]);
        let kinds: Vec<&str> = listed.lines().filter(|kind| !kind.starts_with("events")).collect();
        let site = Site::on(ground.kubernetes.client(), namespace).await;
        let story = Story { site, kubectl, kinds: kinds.join(","), ground };
        story.until("the guard judges", async || story.denies_what_is_wrong()).await;
        story.site.provide_without_owners().await;
        story
    }

    fn denies_what_is_wrong(&self) -> bool {
        let spec = json!({"topology": {"classRef": {"name": "embedded"}, "version": "latest"}});
        let wrong = json!({"apiVersion": CORE, "kind": "Cluster", "metadata": {"name": "wrong"}, "spec": spec});
        self.kubectl.try_give(&wrong, &["create", "--dry-run=server"]).code != 0
    }

    /// Everything in the namespace besides Events, as `kind/name`.
    pub(super) fn contents(&self) -> Vec<String> {
        let names = self.kubectl.out(&["get", &self.kinds, "-o", "name", "--ignore-not-found"]);
        let mut names: Vec<String> = names.lines().map(str::to_owned).collect();
        names.sort();
        names
    }

    /// The same as whole objects.
    pub(super) fn objects(&self) -> Vec<Value> {
        let list = self.kubectl.out(&["get", &self.kinds, "-o", "json", "--ignore-not-found"]);
        let list: Value = serde_json::from_str(&list).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// Waits until something holds, and shows everything when it does not.
    pub(super) async fn until(&self, fact: &str, holds: impl AsyncFn() -> bool) {
        let started = std::time::Instant::now();
        while !holds().await {
            assert!(
                started.elapsed() < 3 * crate::process::SOON,
                "it does not come to hold that {fact}: {:#?}\n{}\n{}",
                self.contents(),
                self.log(),
                self.ground.controller_manager.log(),
            );
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    }

    /// Waits until the garbage collector has deleted what was garbage after everything so far.
    pub(super) async fn collected(&self) {
        self.ground.controller_manager.collects_garbage(self.site.client.clone(), &self.site.namespace).await;
    }

    /// What topologist has logged of this namespace.
    pub(super) fn log(&self) -> String {
        let log = self.ground.topologist.log_text();
        log.lines().filter(|line| line.contains(&self.site.namespace)).map(|line| format!("{line}\n")).collect()
    }

    /// Fails when topologist may not do what it tried to do. What is refused since the namespace is being deleted is
    /// something else.
    pub(super) fn nothing_was_forbidden(&self) {
        let log = self.log();
        let refused: Vec<&str> =
            log.lines().filter(|line| line.contains("forbidden") && line.contains("cannot ")).collect();
        assert!(refused.is_empty(), "{refused:#?}");
    }
}
