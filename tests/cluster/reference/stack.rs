//! The processes that the stories share, and the namespace of one story.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use super::managers::{Manager, Part, Program};
use super::site::{Machines, Site, cluster};
use crate::harness::controller_manager::ControllerManager;
use crate::harness::kubectl::{Outcome, program};
use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{overlay_with, permissions, stream, variables, webhooks_at};
use crate::harness::server::{Topologist, command, make_certificates};

/// kube-apiserver, kube-controller-manager, Cluster API's managers and, after a take-over, topologist.
pub(crate) struct Stack {
    /// Is dropped, and so killed, before what it connects to.
    topologist: Mutex<Option<Topologist>>,
    managers: Mutex<Vec<Manager>>,
    _controller_manager: ControllerManager,
    parts: Vec<Part>,
    pub(crate) kubernetes: Kubernetes,
    /// Certificates of all webhooks, and logs of the managers.
    folder: TempDir,
}

impl Stack {
    /// The stack of the stories: topologist has taken over from Cluster API's core manager.
    pub(crate) async fn shared() -> Arc<Self> {
        Midway::shared().await.site.stack.clone()
    }

    /// Cluster API without topologist. Every process is ready.
    pub(crate) async fn alone() -> Arc<Self> {
        let kubernetes = Kubernetes::start_with_audit_log();
        let folder = tempfile::tempdir().unwrap();
        make_certificates(folder.path());
        let authority = std::fs::read(folder.path().join("ca.crt")).unwrap();
        let parts = Program::ALL.map(Part::new);
        for part in &parts {
            kubernetes.apply_yaml(&stream(&part.objects(&authority))).await;
        }
        let controller_manager = ControllerManager::start(&kubernetes).await;
        let mut managers = Vec::new();
        for part in &parts {
            managers.push(part.start(&kubernetes, folder.path(), true).await);
        }
        for manager in &mut managers {
            manager.wait_until_ready().await;
        }
        for part in &parts {
            kubernetes.apply_yaml(&stream(&part.webhooks(&authority))).await;
        }
        let (topologist, managers, parts) = (Mutex::default(), Mutex::new(managers), parts.into());
        Arc::new(Stack { topologist, managers, _controller_manager: controller_manager, parts, kubernetes, folder })
    }

    /// A new namespace with the class `quick`.
    pub(crate) async fn site(self: &Arc<Self>, prefix: &str) -> Site {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        Site::create(self.clone(), format!("{prefix}-{}", COUNT.fetch_add(1, Ordering::Relaxed))).await
    }

    /// Steps 2 to 5 of the take-over in docs/operations.md.
    pub(crate) async fn take_over(&self) {
        self.run_printed("for name in mutating validating; do\n     kubectl get ${name}webhookconfiguration capi-");
        self.restart_core(false).await;
        self.kubernetes.apply_yaml(&stream(&permissions(manifests("take-over")))).await;
        self.start_topologist("take-over").await;
    }

    /// The way back in docs/operations.md: Cluster API's core manager reconciles topologies again, and topologist runs
    /// beside it. Returns the Clusters whose deletion topologist held, in a line each.
    pub(crate) async fn give_back(&self) -> String {
        let held = self.run_printed("kubectl get clusters -A -o json | jq -r '.items[] | select(.metadata.annotations");
        self.kubernetes.apply_yaml(&stream(&permissions(manifests("beside")))).await;
        self.start_topologist("beside").await;
        let core = self.restart_core(true).await;
        let authority = std::fs::read(self.folder.path().join("ca.crt")).unwrap();
        self.kubernetes.apply_yaml(&stream(&core.webhooks(&authority))).await;
        self.run_printed("while read -r namespace name; do");
        held
    }

    /// Starts Cluster API's core manager anew, with or without its gate for topologies.
    async fn restart_core(&self, has_topologies: bool) -> &Part {
        let core = self.parts.iter().find(|part| part.program == Program::Core).unwrap();
        self.managers().retain(|manager| manager.program != Program::Core);
        let mut manager = core.start(&self.kubernetes, self.folder.path(), has_topologies).await;
        manager.wait_until_ready().await;
        self.managers().push(manager);
        core
    }

    /// Runs the block of docs/operations.md that begins with these words, as it is printed, and returns its output.
    fn run_printed(&self, first: &str) -> String {
        let page = include_str!("../../../docs/operations.md");
        let places: Vec<usize> = page.match_indices(first).map(|(place, _)| place).collect();
        let [start] = places[..] else { panic!("{first}: {places:?}") };
        let block = &page[start..start + page[start..].find("```").unwrap()];
        let mut shell = Command::new("bash");
        let path = format!("{}:{}", program().parent().unwrap().display(), std::env::var("PATH").unwrap());
        shell.args(["-euo", "pipefail", "-c", block]).env("PATH", path).env("KUBECONFIG", self.kubernetes.kubeconfig());
        shell.current_dir(self.folder.path());
        let outcome = Outcome::of(shell);
        assert_eq!(outcome.code, 0, "{outcome:#?}");
        outcome.out
    }

    /// Starts topologist as an overlay does, or starts it again, and sends it the reviews.
    async fn start_topologist(&self, name: &str) {
        let manifests = manifests(name);
        let kubeconfig = self.kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
        let file = |name: &str| self.folder.path().join(name).display().to_string();
        let (cert, key, kubeconfig) = (file("tls.crt"), file("tls.key"), kubeconfig.display().to_string());
        let own = ["--kubeconfig", &kubeconfig, "--tls-cert", &cert, "--tls-key", &key];
        let ports = ["--webhook-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
        let mut start = command(&[&["serve"], &own[..], &ports].concat());
        start.envs(variables(&manifests)).env_remove("TOPOLOGIST_MANAGE_CERTIFICATES");
        // As in Cluster API's core manager.
        start.env("TOPOLOGIST_FEATURE_GATES", "MachineTaintPropagation=true");
        start.env("TOPOLOGIST_DELETION_HOLD_TIME", "5s");
        let topologist = Topologist::launch(start);
        topologist.wait_until_ready();
        let authority = std::fs::read(file("ca.crt")).unwrap();
        let webhooks = webhooks_at(manifests, &topologist.webhook, &authority);
        self.kubernetes.apply_yaml(&stream(&webhooks)).await;
        *self.topologist() = Some(topologist);
    }

    /// Kills topologist once another process answers the reviews, so that stories that run at the same moment notice
    /// nothing.
    pub(crate) async fn replace_topologist(&self) {
        let old = self.topologist().take();
        self.start_topologist("take-over").await;
        // kube-apiserver sends some more reviews to the old address.
        tokio::time::sleep(Duration::from_secs(2)).await;
        drop(old);
    }

    /// The process; `None` while it is stopped.
    pub(crate) fn topologist(&self) -> MutexGuard<'_, Option<Topologist>> {
        self.topologist.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn managers(&self) -> MutexGuard<'_, Vec<Manager>> {
        self.managers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last lines of every process, for the message of a failing story; topologist's lines about one namespace.
    pub(crate) fn logs(&self, namespace: &str) -> String {
        let topologist = self.topologist().as_ref().map(Topologist::log_text).unwrap_or_default();
        let concerned: Vec<&str> = topologist.lines().filter(|line| line.contains(namespace)).collect();
        let last = concerned[concerned.len().saturating_sub(100)..].join("\n");
        let managers: String = self.managers().iter().map(Manager::log_tail).collect();
        format!("{managers}{}--- topologist\n{last}\n", self.kubernetes.log_tail())
    }
}

/// The objects of an overlay that also reviews edits of templates, as each kind of edit is compared.
fn manifests(overlay: &str) -> Vec<Value> {
    overlay_with(overlay, &["templates"], &[])
}

/// A Cluster whose upgrade has begun when topologist takes over.
pub(super) struct Midway {
    pub(super) site: Site,
    /// Its Machines before the upgrade.
    pub(super) before: Machines,
    /// Its Machines when Cluster API's core manager stopped to reconcile topologies.
    pub(super) between: Machines,
}

impl Midway {
    pub(super) async fn shared() -> &'static Self {
        static SHARED: OnceCell<Midway> = OnceCell::const_new();
        SHARED.get_or_init(Midway::start).await
    }

    /// Starts Cluster API, makes the Cluster and begins its upgrade; then topologist takes over.
    pub(super) async fn start() -> Self {
        let stack = Stack::alone().await;
        let site = stack.site("midway").await;
        site.apply(&cluster("one", "v1.33.0", 1, &[("md-0", 2)]));
        let before = site.settled("one").await;
        site.merge("one", &json!({"spec": {"topology": {"version": "v1.34.0"}}}));
        site.until("a Machine is made", async || site.lives("one").len() > before.len()).await;
        let between = site.machines("one");
        stack.take_over().await;
        Midway { site, before, between }
    }
}
