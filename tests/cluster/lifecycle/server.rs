//! The processes that stories share: a kube-apiserver, a guard, a reconciler of some namespaces, and a garbage
//! collector.

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::harness::controller_manager::ControllerManager;
use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{definitions_at, overlay_with, permissions, stream, webhooks_at};
use crate::harness::server::{Topologist, make_certificates};
use crate::rollout::site::without_conversion;

/// Everything is short, and the third machine of the Cluster `failing` fails.
const TIMINGS: &str = "cluster: 100ms\ninfrastructure: 100ms\nbootstrap: 100ms\nnode: 100ms\netcd: 0s\napiServer: 0s\n\
    controlPlane: 0s\ndrain: 0s\ndeletion: 100ms\nfailures:\n- {cluster: failing, machine: 3, what: infrastructure}\n";

/// Namespaces of the stories that share a reconciler start with this.
pub(super) const SHARED: &str = "lifecycle";

/// A kube-apiserver with the definitions, the permissions of the component, and files for processes.
pub(super) struct Installation {
    pub kubernetes: Kubernetes,
    kubeconfig: String,
    folder: TempDir,
    manifests: Vec<Value>,
}

impl Installation {
    pub(super) async fn new() -> Self {
        let manifests = overlay_with("alone", &["lifecycle"], &[]);
        let kubernetes = Kubernetes::start();
        let definitions = topologist::crd::definitions().into_iter().map(without_conversion);
        kubernetes.apply_yaml(&stream(&definitions.collect::<Vec<_>>())).await;
        kubernetes.apply_yaml(&stream(&permissions(manifests.clone()))).await;
        let kubeconfig = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
        let folder = tempfile::tempdir().unwrap();
        make_certificates(folder.path());
        std::fs::write(folder.path().join("timings.yaml"), TIMINGS).unwrap();
        Installation { kubernetes, kubeconfig: kubeconfig.display().to_string(), folder, manifests }
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// A process of topologist with the controllers of machines on.
    fn serve(&self, own: &[&str]) -> Topologist {
        let (cert, key) = (self.file("tls.crt"), self.file("tls.key"));
        let common =
            ["--kubeconfig", &self.kubeconfig, "--tls-cert", &cert, "--tls-key", &key, "--shutdown-grace", "0s"];
        Topologist::serve(&[&common[..], &["--lifecycle", "on"], own].concat())
    }

    /// A process with all controllers.
    pub(super) fn start(&self) -> Topologist {
        self.start_with(&[])
    }

    fn start_with(&self, more: &[&str]) -> Topologist {
        let timings = self.file("timings.yaml");
        let own = ["--controllers", "all", "--lease-duration", "3s", "--timings", &timings];
        self.serve(&[&own[..], more].concat())
    }

    /// A process with all controllers that looks at one namespace, where its Lease is as well.
    pub(super) async fn start_within(&self, namespace: &str, more: &[&str]) -> Topologist {
        let group = "rbac.authorization.k8s.io";
        let metadata = json!({"name": "leader", "namespace": namespace});
        let rules = json!([{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
            "verbs": ["create", "get", "update"]}]);
        let subject = json!({"kind": "ServiceAccount", "name": "topologist", "namespace": "topologist-system"});
        let objects = [
            json!({"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata, "rules": rules}),
            json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
                "subjects": [subject],
                "roleRef": {"apiGroup": group, "kind": "Role", "name": "leader"}}),
        ];
        self.kubernetes.apply_yaml(&stream(&objects)).await;
        let own = ["--controllers", "all", "--namespace", namespace, "--lease-namespace", namespace];
        self.serve(&[&own[..], more].concat())
    }
}

/// What the stories share.
pub(super) struct Shared {
    /// The reconciler of the namespaces `lifecycle-*`.
    pub topologist: Topologist,
    pub installation: Installation,
    pub controller_manager: ControllerManager,
    /// Judges and converts the objects of all namespaces.
    _guard: Topologist,
}

impl Shared {
    pub(super) async fn get() -> &'static Self {
        static SHARED: OnceCell<Shared> = OnceCell::const_new();
        SHARED.get_or_init(Shared::start).await
    }

    async fn start() -> Self {
        let installation = Installation::new().await;
        let guard = installation.serve(&["--controllers", "none"]);
        let topologist = installation.start_with(&["--namespace", &format!("{SHARED}-*")]);
        guard.wait_until_ready();
        topologist.wait_until_ready();
        let authority = std::fs::read(installation.file("ca.crt")).unwrap();
        let webhooks = webhooks_at(installation.manifests.clone(), &guard.webhook, &authority);
        installation.kubernetes.apply_yaml(&stream(&webhooks)).await;
        let embedded = definitions_at(topologist::crd::embedded_provider(), &guard.conversions, &authority);
        installation.kubernetes.apply_yaml(&stream(&embedded)).await;
        let controller_manager = ControllerManager::start(&installation.kubernetes).await;
        Shared { topologist, installation, controller_manager, _guard: guard }
    }
}
