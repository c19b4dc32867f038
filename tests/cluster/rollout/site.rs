//! A place where topologies are rolled out: an API server, a namespace of its own, and whoever acts there.

use std::future::Future;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use topologist::budget::MemoryPool;
use topologist::embedded::{self, Embedded};
use topologist::extension_client::Clients;
use topologist::kubernetes::cache::Cache;
use topologist::kubernetes::contract::Definitions;
use topologist::kubernetes::extensions::Extensions;
use topologist::kubernetes::lease::{Candidacy, Election};
use topologist::kubernetes::watch;
use topologist::reconciler::controller::ClassController;
use topologist::reconciler::extensions::ExtensionController;
use topologist::reconciler::setup::Setup;
use topologist::reconciler::topology::{Deletions, TopologyController};
use topologist::telemetry::metrics::Metrics;
use topologist::topology::Options;
use topologist::world::{Facts, Scope};
use topologist::yaml;

use super::layer::Wire;
use super::provider;
use crate::kubernetes::Kubernetes;

/// How long anything may take on a busy machine.
const LIMIT: Duration = Duration::from_mins(2);
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
    /// What tests do, and what the provider of a test does.
    pub client: kube::Client,
    pub namespace: String,
    /// Whether what belongs to something that is gone goes as well.
    pub collects_garbage: bool,
    provider: Mutex<JoinSet<()>>,
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
            kubernetes.apply_yaml(&crate::kustomize::stream(&definitions.collect::<Vec<_>>())).await;
        }
        drop(defined);
        let namespace = kubernetes.namespace("rollout").await;
        Site::on(kubernetes.client(), namespace).await
    }

    /// A namespace on a server on which all kinds are defined.
    pub(crate) async fn on(client: kube::Client, namespace: String) -> Self {
        let site = Site { client, namespace, collects_garbage: false, provider: Mutex::default() };
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

    pub(crate) fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        api(&self.client, &self.namespace, api_version, kind)
    }

    pub(crate) async fn create(&self, mut object: Value) -> Value {
        let (api_version, kind) = (text(&object, "/apiVersion"), text(&object, "/kind"));
        if kind != "Namespace" {
            object["metadata"]["namespace"] = json!(self.namespace);
        }
        let name = text(&object, "/metadata/name");
        let params = PatchParams::apply("a-user").force();
        let made = self.api(&api_version, &kind).patch(&name, &params, &Patch::Apply(&object)).await;
        serde_json::to_value(made.unwrap_or_else(|error| panic!("{kind} {name}: {error}"))).unwrap()
    }

    pub(crate) async fn get(&self, api_version: &str, kind: &str, name: &str) -> Option<Value> {
        let found = self.api(api_version, kind).get_opt(name).await.unwrap();
        found.map(|found| serde_json::to_value(found).unwrap())
    }

    /// The objects of a kind by name.
    pub(crate) async fn list(&self, api_version: &str, kind: &str) -> Vec<Value> {
        let list = self.api(api_version, kind).list(&ListParams::default()).await.unwrap();
        let mut items: Vec<Value> = list.items.into_iter().map(|item| serde_json::to_value(item).unwrap()).collect();
        items.sort_by_key(|item| text(item, "/metadata/name"));
        items
    }

    pub(crate) async fn merge(&self, api_version: &str, kind: &str, name: &str, patch: Value) -> Value {
        let params = PatchParams { field_manager: Some("a-user".to_owned()), ..PatchParams::default() };
        let patched = self.api(api_version, kind).patch(name, &params, &Patch::Merge(patch)).await;
        serde_json::to_value(patched.unwrap_or_else(|error| panic!("{kind} {name}: {error}"))).unwrap()
    }

    pub(crate) async fn delete(&self, api_version: &str, kind: &str, name: &str) {
        self.api(api_version, kind).delete(name, &DeleteParams::background()).await.unwrap();
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
        let started = Instant::now();
        loop {
            if let Some(found) = holds().await {
                return found;
            }
            let state = if started.elapsed() > LIMIT { self.state().await } else { String::new() };
            assert!(
                state.is_empty(),
                "{what} did not come true
{state}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until the topology of a Cluster as it is now is reconciled.
    pub(crate) async fn reconciled(&self, name: &str) {
        self.until(&format!("Cluster {name} is reconciled"), || async {
            is_reconciled(&self.cluster(name).await).then_some(())
        })
        .await;
    }

    /// What the condition of a Cluster says: reason and message.
    pub(crate) async fn told(&self, name: &str) -> (String, String) {
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
            all.push_str(&format!("{name}: {:?}\n", self.told(&name).await));
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
pub(super) struct Manager {
    pub metrics: Arc<Metrics>,
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl Manager {
    /// Controllers of a namespace, whose requests go over a wire.
    pub(super) fn start(site: &Site, wire: &Arc<Wire>) -> Self {
        let client = wire.client(&site.client);
        let metrics = Arc::new(Metrics::default());
        let scope = Scope::new(std::slice::from_ref(&site.namespace), None).unwrap();
        let cache = Arc::new(Cache::new(Facts::not_listed(&watch::WATCHED).within(scope)));
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        // A killed process does not come back, so the next need not wait for its lease to end.
        let candidacy = Candidacy::new(&*site.namespace, "placeholder", Duration::from_secs(6));
        let candidacy = Candidacy { name: candidacy.identity.to_lowercase().replace('_', "-"), ..candidacy };
        let (election, leadership) = Election::new(client.clone(), candidacy, metrics.clone());
        tasks.spawn(watch::keep_current(client.clone(), cache.clone(), metrics.clone()));
        let stopping = stop.clone();
        tasks.spawn(async move { election.run(stopping).await });
        let extensions = Arc::new(Extensions::new(client.clone(), Clients::new(None), metrics.clone()));
        let (leads, counted) = (leadership.clone(), metrics.clone());
        let setup = Setup {
            client: client.clone(),
            leadership: leads,
            cache,
            extensions: Some(extensions.clone()),
            metrics: counted,
        };
        let discovery = Arc::new(ExtensionController { setup: setup.clone(), extensions });
        let classes = ClassController(setup.clone());
        let topologies = TopologyController {
            setup,
            options: Options::new(true),
            workers: 10,
            awaits_finalizer: false,
            deletions: Deletions::default(),
            memory: Arc::new(MemoryPool::unlimited()),
        };
        let (classes, topologies, own) = (Arc::new(classes), Arc::new(topologies), metrics.clone());
        let both = move || {
            let (classes, topologies, discovery) = (classes.clone(), topologies.clone(), discovery.clone());
            Definitions::beside(client.clone(), own.clone(), async move |definitions| {
                tokio::select! {
                    () = classes.run(definitions.clone()) => {}
                    () = topologies.run(definitions) => {}
                    () = discovery.run() => {}
                }
            })
        };
        tasks.spawn(async move { leadership.while_leading(both).await });
        Manager { metrics, tasks, stop }
    }

    /// Ends it in good order.
    pub(super) async fn stop(mut self) {
        self.stop.cancel();
        tokio::time::sleep(Duration::from_millis(200)).await;
        self.tasks.shutdown().await;
    }
}

/// A kube-apiserver that all stories of rollouts share, and nobody else: the webhooks of others would judge their Clusters.
pub(crate) fn kubernetes() -> &'static Kubernetes {
    static SERVER: OnceLock<Kubernetes> = OnceLock::new();
    SERVER.get_or_init(Kubernetes::start)
}

/// Objects of a kind in a namespace, or with an empty one in all namespaces.
pub(crate) fn api(client: &kube::Client, namespace: &str, api_version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let resource = match kind {
        "ClusterClass" => ApiResource::from_gvk_with_plural(&gvk, "clusterclasses"),
        _ => ApiResource::from_gvk(&gvk),
    };
    match kind {
        kind if kind == "Namespace" || namespace.is_empty() => Api::all_with(client.clone(), &resource),
        _ => Api::namespaced_with(client.clone(), namespace, &resource),
    }
}

/// The objects of a file of the bundle.
pub(crate) fn bundle(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/embedded").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    yaml::documents(&text).into_iter().map(|document| document.unwrap().value).collect()
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

/// A text of an object; empty where there is none.
pub(crate) fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A definition whose versions are stored as they come, for a server on which nobody converts.
pub(crate) fn without_conversion(mut definition: Value) -> Value {
    definition["spec"].as_object_mut().unwrap().remove("conversion");
    definition
}
