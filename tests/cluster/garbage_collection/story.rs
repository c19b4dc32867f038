//! The processes that all stories share, and the namespace of one story.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::harness::controller_manager::ControllerManager;
use crate::harness::kubectl::Kubectl;
use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{definitions_at, overlay_with, permissions, stream, webhooks_at};
use crate::harness::server::{Topologist, make_certificates};
use crate::harness::{objects, wait};
use crate::rollout::site::{CORE, Site, without_conversion};

/// Which API server a story runs on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Server {
    /// kube-apiserver with kube-controller-manager.
    Real,
    /// That of `serve --embedded`, which collects garbage by itself.
    Embedded,
}

/// An API server with topologist.
struct Installation {
    topologist: Topologist,
    kubeconfig: PathBuf,
    /// What runs besides, and files.
    real: Option<(Kubernetes, ControllerManager)>,
    _folder: tempfile::TempDir,
}

impl Installation {
    async fn shared(server: Server) -> &'static Self {
        static REAL: OnceCell<Installation> = OnceCell::const_new();
        static EMBEDDED: OnceCell<Installation> = OnceCell::const_new();
        match server {
            Server::Real => REAL.get_or_init(Installation::real).await,
            Server::Embedded => EMBEDDED.get_or_init(async || Installation::embedded()).await,
        }
    }

    /// Everything of the overlay `alone` and the guard of templates, as a user would have it after the installation.
    async fn real() -> Self {
        let kubernetes = Kubernetes::start();
        let manifests = manifests();
        let definitions = topologist::crd::definitions().into_iter().map(without_conversion);
        kubernetes.apply_yaml(&stream(&definitions.collect::<Vec<_>>())).await;
        kubernetes.apply_yaml(&stream(&permissions(manifests.clone()))).await;
        let account = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
        let folder = tempfile::tempdir().unwrap();
        make_certificates(folder.path());
        let file = |name: &str| folder.path().join(name).display().to_string();
        let (cert, key, account) = (file("tls.crt"), file("tls.key"), account.display().to_string());
        let common = ["--kubeconfig", &account, "--tls-cert", &cert, "--tls-key", &key, "--shutdown-grace", "0s"];
        // The stories play the controllers of machines.
        let own = ["--controllers", "all", "--lifecycle", "off", "--lease-duration", "3s"];
        let topologist = Topologist::serve(&[&common[..], &own, &LOG].concat());
        topologist.wait_until_ready();
        let authority = std::fs::read(file("ca.crt")).unwrap();
        let definitions = definitions_at(manifests.clone(), &topologist.conversions, &authority);
        kubernetes.apply_yaml(&stream(&definitions)).await;
        kubernetes.apply_yaml(&stream(&webhooks_at(manifests, &topologist.webhook, &authority))).await;
        let controller_manager = ControllerManager::start(&kubernetes).await;
        let kubeconfig = kubernetes.kubeconfig().to_owned();
        Installation { topologist, kubeconfig, real: Some((kubernetes, controller_manager)), _folder: folder }
    }

    fn embedded() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let arguments = ["--embedded", "--lifecycle", "off", "--state-dir", &state.display().to_string()];
        let topologist = Topologist::serve(&[&arguments[..], &LOG].concat());
        topologist.wait_until_ready();
        Installation { topologist, kubeconfig: state.join("kubeconfig"), real: None, _folder: folder }
    }

    /// A client of the current runtime.
    async fn client(&self) -> kube::Client {
        objects::client(&self.kubeconfig).await
    }
}

/// The component `templates` reviews templates of usual providers; those of the embedded provider are in groups of
/// their own.
fn manifests() -> Vec<Value> {
    let mut objects = overlay_with("alone", &["templates"], &[]);
    let webhooks = objects.iter_mut().filter_map(|object| object.get_mut("webhooks")?.as_array_mut()).flatten();
    let of_templates = webhooks.filter(|webhook| webhook["name"].as_str().unwrap().contains(".templates."));
    for groups in of_templates.filter_map(|webhook| webhook["rules"][0]["apiGroups"].as_array_mut()) {
        groups.extend(
            ["infrastructure", "controlplane", "bootstrap"].map(|group| json!(format!("{group}.topologist.dev"))),
        );
    }
    objects
}

const LOG: [&str; 2] = ["--log", "topologist=debug"];

/// A namespace with a class and its templates.
pub(super) struct Story {
    pub site: Site,
    pub kubectl: Kubectl,
    /// The kinds of objects in namespaces, in the form that kubectl takes.
    pub kinds: String,
    installation: &'static Installation,
}

impl Story {
    pub(super) async fn begin(server: Server) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let installation = Installation::shared(server).await;
        let namespace = format!("garbage-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let kubectl = Kubectl::within(installation.kubeconfig.clone(), namespace.clone());
        let listed = kubectl.out(&["api-resources", "--namespaced", "--verbs=list,delete", "-o", "name"]);
        let kinds: Vec<&str> = listed.lines().filter(|kind| !kind.starts_with("events")).collect();
        let site = Site::on(installation.client().await, namespace).await;
        let story = Story { site, kubectl, kinds: kinds.join(","), installation };
        story.until("the guard judges", async || story.denies_what_is_wrong()).await;
        story.site.provide_without_owners().await;
        story
    }

    /// A client of the real server, and its controller manager.
    pub(super) async fn real_cluster() -> (kube::Client, &'static ControllerManager) {
        let installation = Installation::shared(Server::Real).await;
        let (_, controller_manager) = installation.real.as_ref().unwrap();
        (installation.client().await, controller_manager)
    }

    pub(super) async fn make_namespace(client: &kube::Client, name: &str) {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
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
        let manager = || self.installation.real.as_ref().map(|(_, manager)| manager.log()).unwrap_or_default();
        let state = async || format!("{:#?}\n{}\n{}", self.contents(), self.log(), manager());
        wait::until_async(fact, wait::ROLLOUT, holds, state).await;
    }

    /// Waits until the garbage collector has deleted an object that became garbage after everything so far.
    pub(super) async fn collected(&self) {
        // The embedded API collects within the write from which it follows.
        if let Some((_, controller_manager)) = &self.installation.real {
            controller_manager.collects_garbage(self.site.client.clone(), &self.site.namespace).await;
        }
    }

    /// What topologist has logged of this namespace.
    pub(super) fn log(&self) -> String {
        let log = self.installation.topologist.log_text();
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
