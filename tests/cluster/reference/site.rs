//! The namespace of one story: its Clusters, and their Machines by uid.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::history::{History, Life};
use super::stack::Stack;
use crate::harness::kubectl::{Kubectl, Outcome};
use crate::harness::wait;

pub(crate) const CORE: &str = "cluster.x-k8s.io/v1beta2";
const CLASS: &str = include_str!("class.yaml");
/// How long a rollout may take on a busy machine.
const LIMIT: Duration = Duration::from_mins(4);
const POLL: Duration = Duration::from_millis(500);
/// A Cluster is settled once it has not changed for this time: the managers look at each other's results within a
/// second.
const QUIET: Duration = Duration::from_secs(3);
/// Within this time something would have happened if anything were to happen.
const LONG_QUIET: Duration = Duration::from_secs(20);

/// A namespace with the class `quick`.
pub(crate) struct Site {
    pub(crate) stack: Arc<Stack>,
    pub(crate) kubectl: Kubectl,
    history: History,
}

/// A Machine at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) name: String,
    /// The name of its MachineDeployment in the topology; `None` for a Machine of the control plane.
    pub(crate) set: Option<String>,
    pub(crate) version: String,
    pub(crate) is_deleted: bool,
}

impl Machine {
    /// The uid of an object, and what is of interest in it.
    pub(super) fn read(object: &Value) -> (String, Self) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let metadata = &object["metadata"];
        let machine = Machine {
            name: text(&metadata["name"]).unwrap(),
            set: text(&metadata["labels"]["topology.cluster.x-k8s.io/deployment-name"]),
            version: text(&object["spec"]["version"]).unwrap_or_default(),
            is_deleted: !metadata["deletionTimestamp"].is_null(),
        };
        (text(&metadata["uid"]).unwrap(), machine)
    }
}

/// Machines by uid.
pub(crate) type Machines = BTreeMap<String, Machine>;

impl Site {
    pub(super) async fn create(stack: Arc<Stack>, namespace: String) -> Self {
        let kubectl = Kubectl::within(stack.kubernetes.kubeconfig().to_owned(), namespace.clone());
        kubectl.out(&["create", "namespace", &namespace]);
        let history = History::start(&kubectl);
        let site = Site { stack, kubectl, history };
        site.until("the class is accepted", async || site.kubectl.with_input(CLASS, &["apply", "-f", "-"]).code == 0)
            .await;
        site
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.kubectl.namespace
    }

    /// Applies an object as a user, with `kubectl apply`.
    #[track_caller]
    pub(crate) fn apply(&self, object: &Value) -> Outcome {
        let outcome = self.kubectl.try_give(object, &["apply"]);
        assert_eq!(outcome.code, 0, "{outcome:#?}");
        outcome
    }

    /// Merges fields into a Cluster.
    #[track_caller]
    pub(crate) fn merge(&self, cluster: &str, patch: &Value) {
        self.kubectl.out(&["patch", "cluster", cluster, "--type=merge", "-p", &patch.to_string()]);
    }

    /// Sets a variable of a Cluster.
    #[track_caller]
    pub(crate) fn set_variable(&self, cluster: &str, name: &str, value: &str) {
        let variables = json!([{"name": name, "value": value}]);
        self.merge(cluster, &json!({"spec": {"topology": {"variables": variables}}}));
    }

    /// The objects of a Cluster, of one resource or of several with commas between them.
    pub(crate) fn list(&self, resources: &str, cluster: &str) -> Vec<Value> {
        let label = format!("cluster.x-k8s.io/cluster-name={cluster}");
        let list = self.kubectl.out(&["get", resources, "-l", &label, "-o", "json"]);
        let mut list: Value = serde_json::from_str(&list).unwrap();
        std::mem::take(list["items"].as_array_mut().unwrap())
    }

    /// The object, unless it does not exist.
    pub(crate) fn get(&self, object: &str) -> Option<Value> {
        let text = self.kubectl.out(&["get", object, "--ignore-not-found", "-o", "json"]);
        (!text.is_empty()).then(|| serde_json::from_str(&text).unwrap())
    }

    /// An object as it was applied, for another edit.
    pub(super) fn applied(&self, object: &str) -> Value {
        let object = self.get(object).unwrap();
        let applied = &object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
        serde_json::from_str(applied.as_str().unwrap()).unwrap()
    }

    /// kubectl for the API server of a Cluster.
    pub(super) fn workload(&self, cluster: &str) -> Kubectl {
        let secret = self.get(&format!("secret/{cluster}-kubeconfig")).unwrap();
        let kubeconfig = self.kubectl.folder.path().join(format!("{cluster}.kubeconfig"));
        std::fs::write(&kubeconfig, STANDARD.decode(secret["data"]["value"].as_str().unwrap()).unwrap()).unwrap();
        Kubectl::new(kubeconfig)
    }

    pub(crate) fn machines(&self, cluster: &str) -> Machines {
        self.list("machines", cluster).iter().map(Machine::read).collect()
    }

    /// Every Machine that a Cluster has ever had, in the order in which they were made.
    pub(crate) fn lives(&self, cluster: &str) -> Vec<Life> {
        self.history.lives(cluster)
    }

    /// Waits until something holds, and shows the objects and the logs when it does not.
    pub(crate) async fn until(&self, fact: &str, holds: impl AsyncFn() -> bool) {
        let look = async || {
            let asked = Instant::now();
            let is_so = holds().await;
            if !is_so {
                // A command of kubectl takes long, and should not keep the processor from what is waited for.
                tokio::time::sleep(asked.elapsed() * 2).await;
            }
            is_so
        };
        wait::until_async(fact, LIMIT, look, async || self.state()).await;
    }

    /// Waits until every controller has done its part for a Cluster, and returns its Machines.
    pub(crate) async fn settled(&self, cluster: &str) -> Machines {
        let started = Instant::now();
        let mut last = (Instant::now(), self.progress(cluster));
        loop {
            match (&last.1, self.progress(cluster)) {
                (Ok(before), Ok(now)) if *before == now => {
                    if last.0.elapsed() >= QUIET {
                        return now;
                    }
                }
                (_, now) => last = (Instant::now(), now),
            }
            let is_late = started.elapsed() > LIMIT;
            assert!(!is_late, "{cluster} does not settle: {:?}\n{}", last.1.as_ref().err(), self.state());
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until no Machine of a Cluster has come or gone for a while.
    pub(super) async fn quiet(&self, cluster: &str) {
        let mut last = (Instant::now(), self.machines(cluster));
        while last.0.elapsed() < LONG_QUIET {
            tokio::time::sleep(POLL).await;
            let now = self.machines(cluster);
            if now != last.1 {
                last = (Instant::now(), now);
            }
        }
    }

    /// The Machines of a Cluster on which nothing is left to do; otherwise what is left.
    fn progress(&self, cluster: &str) -> Result<Machines, String> {
        // One command, as each takes a twentieth of a second of processor time. A Cluster of a topology has its own label.
        let mut all = self.list("clusters,kubeadmcontrolplanes,machinedeployments,machines", cluster);
        let mut take = |kind: &str| all.extract_if(.., |object| object["kind"] == kind).collect::<Vec<_>>();
        let [clusters, planes] = ["Cluster", "KubeadmControlPlane"].map(&mut take);
        let [sets, machines] = ["MachineDeployment", "Machine"].map(&mut take);
        let object = clusters.first().ok_or("there is no such Cluster")?;
        is_current(object, "TopologyReconciled")?;
        let wanted = object["spec"]["topology"]["workers"]["machineDeployments"].as_array().map_or(0, Vec::len);
        if planes.len() != 1 || sets.len() != wanted {
            return Err(format!("{} control planes and {} sets", planes.len(), sets.len()));
        }
        let mut replicas = 0;
        for object in planes.iter().chain(&sets) {
            replicas += rolled_out(object)?;
        }
        let machines: Machines = machines.iter().map(Machine::read).collect();
        match machines.values().find(|machine| machine.is_deleted) {
            Some(machine) => Err(format!("{} is being deleted", machine.name)),
            None if machines.len() as u64 != replicas => Err(format!("{} Machines of {replicas}", machines.len())),
            None => Ok(machines),
        }
    }

    /// The objects of the namespace and the logs.
    pub(crate) fn state(&self) -> String {
        let kinds = "clusters,kubeadmcontrolplanes,machinedeployments,machinesets,machines,devmachines,devclusters";
        let objects = self.kubectl.run(&["get", kinds, "-o", "wide"]);
        let clusters = self.kubectl.run(&["get", "clusters", "-o", "yaml"]);
        format!("{}\n{}\n{}{}", objects.out, objects.err, clusters.out, self.stack.logs(self.namespace()))
    }
}

/// Whether a condition is true of the present generation.
fn is_current(object: &Value, condition: &str) -> Result<(), String> {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.into_iter().find(|one| one["type"] == condition).ok_or(format!("no {condition}"))?;
    let is_current = found["status"] == "True" && found["observedGeneration"] == object["metadata"]["generation"];
    if is_current { Ok(()) } else { Err(format!("{condition}: {found}")) }
}

/// The replicas of a control plane or set of which each is current and available.
fn rolled_out(object: &Value) -> Result<u64, String> {
    let (status, name) = (&object["status"], &object["metadata"]["name"]);
    let wanted = object["spec"]["replicas"].as_u64().unwrap_or(0);
    if status["observedGeneration"] != object["metadata"]["generation"] {
        return Err(format!("{name} is not observed"));
    }
    for member in ["replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"] {
        let there = status[member].as_u64().unwrap_or(0);
        if there != wanted {
            return Err(format!("{name} has {there} {member} of {wanted}"));
        }
    }
    Ok(wanted)
}

/// A Cluster of the class `quick` with control plane Machines and with sets of one worker class.
pub(crate) fn cluster(name: &str, version: &str, planes: u32, sets: &[(&str, u32)]) -> Value {
    let set = |(name, replicas): &(&str, u32)| json!({"class": "worker", "name": name, "replicas": replicas});
    let sets: Vec<Value> = sets.iter().map(set).collect();
    let topology = json!({
        "classRef": {"name": "quick"}, "version": version,
        "controlPlane": {"replicas": planes}, "workers": {"machineDeployments": sets},
    });
    let network = json!({"pods": {"cidrBlocks": ["192.168.0.0/16"]}, "services": {"cidrBlocks": ["10.128.0.0/12"]}});
    json!({"apiVersion": CORE, "kind": "Cluster", "metadata": {"name": name},
        "spec": {"clusterNetwork": network, "topology": topology}})
}
