//! A place where topologies are rolled out: an API server, a namespace of its own, and whoever acts there.

use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use topologist::budget::MemoryPool;
use topologist::embedded::{self, Embedded};
use topologist::kubernetes::lease::Candidacy;
use topologist::reconciler::controller::ClassController;
use topologist::reconciler::extensions::ExtensionController;
use topologist::reconciler::setup::Setup;
use topologist::reconciler::topology::{Deletions, TopologyController};
use topologist::topology::Options;
use topologist::world::Scope;

use super::layer::Wire;
use super::provider;
use crate::harness::controllers::{Controllers, LEASE};
use crate::harness::kubernetes::Kubernetes;
use crate::harness::objects::Objects;
pub(crate) use crate::harness::objects::{api, bundle, text};
use crate::harness::quiet::{self, Observed};
use crate::harness::{kustomize, wait};

pub(crate) const CORE: &str = "cluster.x-k8s.io/v1beta2";
pub(crate) const INFRASTRUCTURE: &str = "infrastructure.topologist.dev/v1beta1";
pub(crate) const CONTROL_PLANE: &str = "controlplane.topologist.dev/v1beta1";
pub(crate) const BOOTSTRAP: &str = "bootstrap.topologist.dev/v1beta1";

/// Everything that a topology of the bundle is made of.
pub(crate) const MADE: [(&str, &str); 8] = [
    (INFRASTRUCTURE, "EmbeddedCluster"),
    (INFRASTRUCTURE, "EmbeddedMachineTemplate"),
    (INFRASTRUCTURE, "EmbeddedMachinePool"),
    (CONTROL_PLANE, "EmbeddedControlPlane"),
    (BOOTSTRAP, "EmbeddedConfigTemplate"),
    (BOOTSTRAP, "EmbeddedConfig"),
    (CORE, "MachineDeployment"),
    (CORE, "MachinePool"),
];

/// An API server and a namespace.
pub(crate) struct Site {
    /// The namespace, as tests and their provider read and write it.
    objects: Objects,
    /// Whether what belongs to something that is gone goes as well.
    pub collects_garbage: bool,
    provider: Mutex<JoinSet<()>>,
}

impl Deref for Site {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        &self.objects
    }
}

impl Site {
    /// A namespace on the in-memory API.
    pub(crate) async fn embedded() -> Self {
        let embedded = Embedded::new(embedded::ApiOptions::default());
        embedded.load(topologist::crd::definitions()).unwrap();
        let client = embedded.client();
        Site { collects_garbage: true, ..Site::on(client, "rollout".to_owned()).await }
    }

    /// A namespace on a kube-apiserver, which all stories share.
    pub(crate) async fn real() -> Self {
        static DEFINED: OnceLock<Mutex<bool>> = OnceLock::new();
        let kubernetes = kubernetes();
        let mut defined = DEFINED.get_or_init(Mutex::default).lock().await;
        if !std::mem::replace(&mut *defined, true) {
            let definitions = topologist::crd::definitions().into_iter().map(without_conversion);
            kubernetes.apply_yaml(&kustomize::stream(&definitions.collect::<Vec<_>>())).await;
        }
        drop(defined);
        let namespace = kubernetes.namespace("rollout").await;
        Site::on(kubernetes.client(), namespace).await
    }

    /// A namespace on a server on which all kinds are defined.
    pub(crate) async fn on(client: kube::Client, namespace: String) -> Self {
        let objects = Objects { client, namespace };
        let site = Site { objects, collects_garbage: false, provider: Mutex::default() };
        if site.get("v1", "Namespace", &site.namespace).await.is_none() {
            site.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": site.namespace}})).await;
        }
        site.apply_file("class.yaml").await;
        site
    }

    /// The provider and the machine controllers, which answer at once, until this is dropped.
    pub(crate) async fn provide(&self) {
        self.provider.lock().await.spawn(provider::run(self.client.clone(), self.namespace.clone(), true));
    }

    /// The same where topologist makes Clusters owners of what their topologies made.
    pub(crate) async fn provide_without_owners(&self) {
        self.provider.lock().await.spawn(provider::run(self.client.clone(), self.namespace.clone(), false));
    }

    /// Stops the provider and the machine controllers.
    pub(crate) async fn stop_providing(&self) {
        self.provider.lock().await.shutdown().await;
    }

    /// Applies every object of a file of the bundle, in the namespace.
    pub(crate) async fn apply_file(&self, name: &str) {
        for object in bundle(name) {
            self.create(object).await;
        }
    }

    pub(crate) async fn cluster(&self, name: &str) -> Value {
        self.get(CORE, "Cluster", name).await.unwrap_or_default()
    }

    /// The Cluster of the bundle with changes.
    pub(crate) async fn change(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut cluster = self.cluster(name).await;
        change(&mut cluster["spec"]["topology"]);
        let topology = cluster["spec"]["topology"].take();
        let patch = json!([{"op": "replace", "path": "/spec/topology", "value": topology}]);
        let patch = Patch::Json::<()>(serde_json::from_value(patch).unwrap());
        self.api(CORE, "Cluster").patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until something holds, and shows everything when it does not.
    pub(crate) async fn until<T, F: Future<Output = Option<T>>>(&self, what: &str, holds: impl Fn() -> F) -> T {
        wait::until_some_async(what, wait::ROLLOUT, async || holds().await, async || self.state().await).await
    }

    /// Waits until the topology of a Cluster as it is now is reconciled.
    pub(crate) async fn reconciled(&self, name: &str) {
        self.until(&format!("Cluster {name} is reconciled"), || async {
            is_reconciled(&self.cluster(name).await).then_some(())
        })
        .await;
    }

    /// Waits until topologist has seen a Cluster as it is now, and has nothing left to do.
    pub(crate) async fn until_quiet(&self, topologist: &impl Observed, cluster: &str) {
        quiet::until_quiet_async(topologist, &self.cluster(cluster).await).await;
    }

    /// What the condition of a Cluster says: reason and message.
    pub(crate) async fn reported(&self, name: &str) -> (String, String) {
        let cluster = self.cluster(name).await;
        let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|condition| condition["type"] == "TopologyReconciled");
        let found = found.unwrap_or_default();
        (text(&found, "/reason"), text(&found, "/message"))
    }

    /// Everything of interest, for the message of a failing test.
    pub(crate) async fn state(&self) -> String {
        let mut all = String::new();
        for cluster in self.list(CORE, "Cluster").await {
            let name = text(&cluster, "/metadata/name");
            all.push_str(&format!("{name}: {:?}\n", self.reported(&name).await));
        }
        for (api_version, kind) in MADE.into_iter().chain([(CORE, "Cluster"), (CORE, "ClusterClass"), ("v1", "Event")])
        {
            for mut object in self.list(api_version, kind).await {
                if let Some(metadata) = object["metadata"].as_object_mut() {
                    metadata.remove("managedFields");
                }
                if kind == "ClusterClass" {
                    object["spec"].take();
                    object["status"]["variables"].take();
                }
                all.push_str(&format!("{kind}: {object}\n"));
            }
        }
        all
    }

    /// Versions of everything that a topology made and of the Clusters: what is written changes one of them.
    pub(crate) async fn versions(&self) -> Vec<String> {
        let mut versions = Vec::new();
        for (api_version, kind) in MADE.into_iter().chain([
            (CORE, "Cluster"),
            (CORE, "ClusterClass"),
            (CORE, "MachineHealthCheck"),
            ("v1", "ConfigMap"),
        ]) {
            for object in self.list(api_version, kind).await {
                let (name, version) = (text(&object, "/metadata/name"), text(&object, "/metadata/resourceVersion"));
                versions.push(format!("{kind} {name} {version}"));
            }
        }
        versions
    }
}

/// Our controllers, as one process would run them; dropping it is a kill.
pub(super) struct Manager(Controllers);

impl Deref for Manager {
    type Target = Controllers;

    fn deref(&self) -> &Controllers {
        &self.0
    }
}

impl Manager {
    /// Controllers of a namespace, whose requests go over a wire.
    pub(super) fn start(site: &Site, wire: &Arc<Wire>) -> Self {
        let scope = Scope::new(std::slice::from_ref(&site.namespace), None).unwrap();
        // A killed process does not come back, so the next need not wait for its lease to end.
        let candidacy = Candidacy::new(&*site.namespace, "placeholder", LEASE);
        let candidacy = Candidacy { name: candidacy.identity.to_lowercase().replace('_', "-"), ..candidacy };
        Manager(Controllers::start(wire.client(&site.client), scope, candidacy, |setup, extensions, definitions| {
            let setup = Setup { extensions: Some(extensions.clone()), ..setup };
            let discovery = Arc::new(ExtensionController { setup: setup.clone(), extensions });
            let classes = Arc::new(ClassController(setup.clone()));
            let topologies = Arc::new(TopologyController {
                setup,
                options: Options::new(true),
                workers: 10,
                awaits_finalizer: false,
                has_template_controllers: false,
                deletions: Deletions::default(),
                memory: Arc::new(MemoryPool::unlimited()),
            });
            Box::pin(async move {
                tokio::select! {
                    () = classes.run(definitions.clone()) => {}
                    () = topologies.run(definitions) => {}
                    () = discovery.run() => {}
                }
            })
        }))
    }

    /// Ends it in good order.
    pub(super) async fn stop(self) {
        self.0.stop().await;
    }

    /// Waits until it has nothing left to do.
    pub(super) async fn until_idle(&self) {
        quiet::until_idle_async(self).await;
    }

    /// Waits until runs that fail have been tried twice more.
    pub(super) async fn until_retried(&self) {
        quiet::until_retried(self, "topology/cluster").await;
    }
}

impl Observed for Manager {
    fn render(&self) -> String {
        self.0.render()
    }
}

/// A kube-apiserver that all stories of rollouts share, and nobody else: the webhooks of others would judge their
/// Clusters.
pub(crate) fn kubernetes() -> &'static Kubernetes {
    static SERVER: OnceLock<Kubernetes> = OnceLock::new();
    SERVER.get_or_init(Kubernetes::start)
}

/// Whether the topology of a Cluster as it is now is reconciled.
pub(crate) fn is_reconciled(cluster: &Value) -> bool {
    let conditions = cluster["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| {
        condition["type"] == "TopologyReconciled"
            && condition["status"] == "True"
            && condition["observedGeneration"] == cluster["metadata"]["generation"]
    })
}

/// A definition whose versions are stored as they come, for a server on which nobody converts.
pub(crate) fn without_conversion(mut definition: Value) -> Value {
    definition["spec"].as_object_mut().unwrap().remove("conversion");
    definition
}
