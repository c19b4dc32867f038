//! All controllers on an API server in memory, in the process of the test.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, DynamicObject};
use serde_json::json;
use topologist::budget::MemoryPool;
use topologist::embedded::workloads::WorkloadApis;
use topologist::embedded::{ApiOptions, Embedded};
use topologist::hub::ObjectKey;
use topologist::kubernetes::contract::Definitions;
use topologist::kubernetes::extensions::ExtensionCaller;
use topologist::kubernetes::lease::Candidacy;
use topologist::lifecycle::MachineSettings;
use topologist::lifecycle::settings::Timings;
use topologist::reconciler::controller::ClassController;
use topologist::reconciler::extensions::ExtensionController;
use topologist::reconciler::lifecycle::LifecycleController;
use topologist::reconciler::lifecycle::workloads::{WorkloadCluster, WorkloadClusters, WorkloadOpenError};
use topologist::reconciler::setup::Setup;
use topologist::reconciler::templates::TemplatesController;
use topologist::reconciler::topology::{Deletions, TopologyController};
use topologist::world::Scope;
use topologist::{crd, topology};

use super::wire::Wire;
use crate::harness::controllers::{Controllers, LEASE};
use crate::harness::objects::{Objects, api, bundle};
use crate::harness::wait;

pub(super) const CORE: &str = "cluster.x-k8s.io/v1beta2";
pub(super) const RUNTIME: &str = "runtime.cluster.x-k8s.io/v1beta2";
pub(super) const INFRASTRUCTURE: &str = "infrastructure.topologist.dev/v1beta1";
const NAMESPACE: &str = "default";

/// The API servers, and the controllers between them.
pub(super) struct Installation {
    /// The objects as the test reads and writes them, which does not use the wire.
    objects: Objects,
    pub wire: Arc<Wire>,
    workloads: WorkloadApis,
    controllers: Controllers,
}

impl Deref for Installation {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        &self.objects
    }
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
    fn open(&self, cluster: &ObjectKey) -> Result<WorkloadCluster, WorkloadOpenError> {
        self.workloads.open(cluster).map_err(|error| WorkloadOpenError::NotCreated(error.into()))?;
        self.get(cluster).ok_or_else(|| WorkloadOpenError::Gone(cluster.clone()))
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

impl Installation {
    /// Answers to writes are delayed by this.
    pub(super) async fn start(delay: Duration) -> Self {
        let embedded = Embedded::new(ApiOptions::default());
        embedded.load(crd::definitions()).unwrap();
        let wire = Wire::new(delay);
        let workloads = WorkloadApis::new(ApiOptions::default()).unwrap();
        let remote = Arc::new(Remote { workloads: workloads.clone(), wire: wire.clone() });
        let candidacy = Candidacy::new(NAMESPACE, "topologist", LEASE);
        let client = wire.client(&embedded.client());
        let controllers =
            Controllers::start(client, Scope::default(), candidacy, move |setup, extensions, definitions| {
                Box::pin(Term::new(&setup, remote.clone(), extensions).run(definitions))
            });
        let objects = Objects { client: embedded.client(), namespace: NAMESPACE.to_owned() };
        let installation = Installation { objects, wire, workloads, controllers };
        for object in bundle("class.yaml") {
            installation.create(object).await;
        }
        installation
    }

    /// The registered ExtensionConfigs.
    pub(super) fn extensions(&self) -> &ExtensionCaller {
        &self.controllers.extensions
    }

    /// Makes a Cluster of the bundle's class.
    pub(super) async fn create_cluster(&self, name: &str, control_planes: u32, workers: u32) {
        let mut cluster = bundle("cluster.yaml").remove(0);
        cluster["metadata"]["name"] = json!(name);
        let topology = &mut cluster["spec"]["topology"];
        topology["controlPlane"]["replicas"] = json!(control_planes);
        topology["workers"] = json!({"machineDeployments":
            [{"class": "default-worker", "name": "blue", "replicas": workers}]});
        self.create(cluster).await;
    }

    /// Objects of the workload cluster of a Cluster; nothing while it has none.
    pub(super) fn in_workload(&self, cluster: &str, kind: &str) -> Option<Api<DynamicObject>> {
        let found = self.workloads.get(&ObjectKey::new(NAMESPACE, cluster))?;
        Some(api(&found.embedded.client(), NAMESPACE, "v1", kind))
    }

    /// Waits until something holds.
    pub(super) async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        wait::until_async(what, wait::ROLLOUT, holds, async || self.state().await).await;
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
        let text = self.controllers.metrics.render();
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
struct Term {
    classes: Arc<ClassController>,
    topologies: Arc<TopologyController>,
    templates: Arc<TemplatesController>,
    machines: Arc<LifecycleController>,
    extensions: Arc<ExtensionController>,
}

impl Term {
    fn new(setup: &Setup, workloads: Arc<Remote>, extensions: Arc<ExtensionCaller>) -> Self {
        let settings = MachineSettings { timings: Timings::NONE, runtime_hooks: false, ..MachineSettings::default() };
        let topologies = TopologyController {
            setup: setup.clone(),
            options: topology::Options::new(false),
            workers: 10,
            awaits_finalizer: true,
            has_template_controllers: true,
            deletions: Deletions::default(),
            memory: Arc::new(MemoryPool::unlimited()),
        };
        Term {
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
