//! All controllers on an API server in memory, in the process of the test.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use topologist::budget::MemoryPool;
use topologist::embedded::workloads::WorkloadApis;
use topologist::embedded::{ApiOptions, Embedded};
use topologist::extension_client::Clients;
use topologist::hub::ObjectKey;
use topologist::kubernetes::cache::Cache;
use topologist::kubernetes::contract::Definitions;
use topologist::kubernetes::extensions::Extensions;
use topologist::kubernetes::lease::{Candidacy, Election};
use topologist::kubernetes::watch;
use topologist::lifecycle::MachineSettings;
use topologist::lifecycle::settings::Timings;
use topologist::reconciler::controller::ClassController;
use topologist::reconciler::extensions::ExtensionController;
use topologist::reconciler::lifecycle::LifecycleController;
use topologist::reconciler::lifecycle::workloads::{WorkloadCluster, WorkloadClusters};
use topologist::reconciler::setup::Setup;
use topologist::reconciler::templates::TemplatesController;
use topologist::reconciler::topology::{Deletions, TopologyController};
use topologist::telemetry::metrics::Metrics;
use topologist::world::Facts;
use topologist::{crd, topology, yaml};

use super::wire::Wire;

pub(super) const CORE: &str = "cluster.x-k8s.io/v1beta2";
pub(super) const RUNTIME: &str = "runtime.cluster.x-k8s.io/v1beta2";
pub(super) const INFRASTRUCTURE: &str = "infrastructure.topologist.dev/v1beta1";
const NAMESPACE: &str = "default";
/// How long a step may take on a busy machine: much less than a resync.
const LIMIT: Duration = Duration::from_mins(2);
/// The duration of the lease.
const LEASE: Duration = Duration::from_secs(6);

/// The API servers, and the controllers between them.
pub(super) struct Ground {
    /// The client of the test, which does not use the wire.
    pub client: kube::Client,
    pub wire: Arc<Wire>,
    /// What is registered of ExtensionConfigs.
    pub extensions: Arc<Extensions>,
    metrics: Arc<Metrics>,
    workloads: WorkloadApis,
    _tasks: JoinSet<()>,
}

/// The workload clusters, reached over the wire.
struct Remote {
    workloads: WorkloadApis,
    wire: Arc<Wire>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Remote")
    }
}

impl WorkloadClusters for Remote {
    fn open(&self, cluster: &ObjectKey) -> Result<WorkloadCluster, String> {
        self.workloads.open(cluster).map_err(|error| error.to_string())?;
        self.get(cluster).ok_or_else(|| "it is gone".to_owned())
    }

    fn get(&self, cluster: &ObjectKey) -> Option<WorkloadCluster> {
        let api = self.workloads.get(cluster)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 6444));
        let kubeconfig = self.workloads.kubeconfig(cluster, address, "")?;
        Some(WorkloadCluster { client: self.wire.client(&api.embedded.client()), kubeconfig })
    }

    fn forget(&self, cluster: &ObjectKey) {
        self.workloads.forget(cluster);
    }

    fn forget_all(&self) {
        self.workloads.forget_all();
    }
}

impl Ground {
    /// Answers to writes are delayed by this.
    pub(super) async fn start(delay: Duration) -> Self {
        let embedded = Embedded::new(ApiOptions::default());
        embedded.load(crd::definitions()).unwrap();
        let (wire, metrics) = (Wire::new(delay), Arc::<Metrics>::default());
        let client = wire.client(&embedded.client());
        let cache = Arc::new(Cache::new(Facts::not_listed(&watch::WATCHED)));
        let candidacy = Candidacy::new(NAMESPACE, "topologist", LEASE);
        let (election, leadership) = Election::new(client.clone(), candidacy, metrics.clone());
        let setup = Setup {
            client: client.clone(),
            leadership: leadership.clone(),
            cache: cache.clone(),
            extensions: None,
            metrics: metrics.clone(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(watch::keep_current(client.clone(), cache, metrics.clone()));
        tasks.spawn(election.run(CancellationToken::new()));
        let workloads = WorkloadApis::new(ApiOptions::default()).unwrap();
        let remote = Arc::new(Remote { workloads: workloads.clone(), wire: wire.clone() });
        let extensions = Arc::new(Extensions::new(client.clone(), Clients::new(None), metrics.clone()));
        let (counted, registered) = (metrics.clone(), extensions.clone());
        let lead = move || {
            let work = Controllers::new(&setup, remote.clone(), registered.clone());
            Definitions::beside(client.clone(), counted.clone(), async move |definitions| work.run(definitions).await)
        };
        tasks.spawn(async move { leadership.while_leading(lead).await });
        let ground = Ground { client: embedded.client(), wire, extensions, metrics, workloads, _tasks: tasks };
        for object in bundle("class.yaml") {
            ground.apply(&object).await;
        }
        ground
    }

    /// Makes a Cluster of the bundle's class.
    pub(super) async fn create_cluster(&self, name: &str, control_planes: u32, workers: u32) {
        let mut cluster = bundle("cluster.yaml").remove(0);
        cluster["metadata"]["name"] = json!(name);
        let topology = &mut cluster["spec"]["topology"];
        topology["controlPlane"]["replicas"] = json!(control_planes);
        topology["workers"] = json!({"machineDeployments":
            [{"class": "default-worker", "name": "blue", "replicas": workers}]});
        self.apply(&cluster).await;
    }

    pub(super) fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        api(&self.client, api_version, kind)
    }

    /// Objects of the workload cluster of a Cluster; nothing while it has none.
    pub(super) fn in_workload(&self, cluster: &str, kind: &str) -> Option<Api<DynamicObject>> {
        let found = self.workloads.get(&ObjectKey::new(NAMESPACE, cluster))?;
        Some(api(&found.embedded.client(), "v1", kind))
    }

    pub(super) async fn list(&self, api_version: &str, kind: &str) -> Vec<Value> {
        list(&self.api(api_version, kind)).await
    }

    pub(super) async fn get(&self, api_version: &str, kind: &str, name: &str) -> Option<Value> {
        let found = self.api(api_version, kind).get_opt(name).await.unwrap();
        found.map(|found| serde_json::to_value(found).unwrap())
    }

    pub(super) async fn apply(&self, object: &Value) {
        let text = |name: &str| object.pointer(name).and_then(Value::as_str).unwrap().to_owned();
        let (api_version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        let params = PatchParams::apply("a-user").force();
        let made = self.api(&api_version, &kind).patch(&name, &params, &Patch::Apply(object)).await;
        made.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
    }

    pub(super) async fn merge(&self, api_version: &str, kind: &str, name: &str, patch: Value) {
        let made = self.api(api_version, kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        made.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
    }

    pub(super) async fn delete(&self, api_version: &str, kind: &str, name: &str) {
        self.api(api_version, kind).delete(name, &DeleteParams::background()).await.unwrap();
    }

    /// Waits until something holds.
    pub(super) async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let started = Instant::now();
        while !holds().await {
            assert!(started.elapsed() <= LIMIT, "{what} did not come true\n{}", self.state().await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until this many Machines of a Cluster run.
    pub(super) async fn until_running(&self, cluster: &str, machines: usize) {
        self.until(&format!("{machines} Machines of {cluster} run"), async || {
            let all = self.list(CORE, "Machine").await;
            let of_it = all.iter().filter(|machine| machine["spec"]["clusterName"] == cluster);
            of_it.filter(|machine| machine["status"]["phase"] == "Running").count() == machines
        })
        .await;
    }

    /// How many runs of each controller had nothing to write, or left a paused object alone.
    pub(super) fn runs(&self) -> BTreeMap<String, u64> {
        let text = self.metrics.render();
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        for run in text.lines().filter_map(|line| line.strip_prefix("topologist_reconciles_total{controller=\"")) {
            let (controller, outcome) = run.split_once("\",outcome=\"").unwrap();
            if let Some(("unchanged" | "left-alone", count)) = outcome.split_once("\"} ") {
                *all.entry(controller.to_owned()).or_default() += count.parse::<u64>().unwrap();
            }
        }
        all
    }

    /// What is left, for the message of a failing test.
    async fn state(&self) -> String {
        let mut all = String::new();
        for kind in ["Cluster", "MachineDeployment", "MachineSet", "Machine"] {
            for mut object in self.list(CORE, kind).await {
                object["metadata"].as_object_mut().unwrap().remove("managedFields");
                all.push_str(&format!("{kind}: {object}\n"));
            }
        }
        all
    }
}

/// The controllers of one term.
struct Controllers {
    classes: Arc<ClassController>,
    topologies: Arc<TopologyController>,
    templates: Arc<TemplatesController>,
    machines: Arc<LifecycleController>,
    extensions: Arc<ExtensionController>,
}

impl Controllers {
    fn new(setup: &Setup, workloads: Arc<Remote>, extensions: Arc<Extensions>) -> Self {
        let settings = MachineSettings { timings: Timings::NONE, runtime_hooks: false, ..MachineSettings::default() };
        let topologies = TopologyController {
            setup: setup.clone(),
            options: topology::Options::new(false),
            workers: 10,
            awaits_finalizer: true,
            deletions: Deletions::default(),
            memory: Arc::new(MemoryPool::unlimited()),
        };
        Controllers {
            classes: Arc::new(ClassController(setup.clone())),
            topologies: Arc::new(topologies),
            templates: Arc::new(TemplatesController(setup.clone())),
            machines: Arc::new(LifecycleController { setup: setup.clone(), settings, workloads }),
            extensions: Arc::new(ExtensionController { setup: setup.clone(), extensions }),
        }
    }

    async fn run(self, definitions: Definitions) {
        tokio::select! {
            () = self.classes.run(definitions.clone()) => {}
            () = self.topologies.run(definitions.clone()) => {}
            () = self.templates.run(definitions.clone()) => {}
            () = self.machines.run(definitions) => {}
            () = self.extensions.run() => {}
        }
    }
}

fn api(client: &kube::Client, api_version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let gvk = GroupVersionKind::gvk(group, version, kind);
    match kind {
        "ClusterClass" => {
            Api::namespaced_with(client.clone(), NAMESPACE, &ApiResource::from_gvk_with_plural(&gvk, "clusterclasses"))
        }
        "Node" | "ExtensionConfig" => Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk)),
        _ => Api::namespaced_with(client.clone(), NAMESPACE, &ApiResource::from_gvk(&gvk)),
    }
}

pub(super) async fn list(api: &Api<DynamicObject>) -> Vec<Value> {
    let list = api.list(&ListParams::default()).await.unwrap();
    list.items.into_iter().map(|item| serde_json::to_value(item).unwrap()).collect()
}

fn bundle(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/embedded").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    yaml::documents(&text).into_iter().map(|document| document.unwrap().value).collect()
}
