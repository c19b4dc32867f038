//! No step is lost (DEC-60): each is carried out although an answer is late, or a watch had a gap.

mod ground;
mod wire;

use std::collections::BTreeMap;
use std::time::Duration;

use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use self::ground::{CORE, Ground, INFRASTRUCTURE, list};

/// The kinds that belong to a Cluster.
const PARTS: [(&str, &str); 7] = [
    (CORE, "Cluster"),
    (CORE, "MachineDeployment"),
    (CORE, "MachineSet"),
    (CORE, "Machine"),
    (INFRASTRUCTURE, "EmbeddedCluster"),
    (INFRASTRUCTURE, "EmbeddedMachine"),
    ("controlplane.topologist.dev/v1beta1", "EmbeddedControlPlane"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_come_and_go_although_watches_show_writes_before_their_answers() {
    let is_soak = std::env::var_os("TOPOLOGIST_TEST_SOAK").is_some();
    let (clusters, rounds) = if is_soak { (60, 3) } else { (8, 1) };
    let ground = Ground::start(Duration::from_millis(20)).await;
    for round in 0..rounds {
        let names: Vec<String> = (0..clusters).map(|number| format!("c{round}-{number}")).collect();
        for some in names.chunks(8) {
            for name in some {
                ground.create_cluster(name, 1, 1).await;
            }
            for name in some {
                ground.until_running(name, 2).await;
            }
            for name in some {
                ground.delete("Cluster", name).await;
            }
            for (api_version, kind) in PARTS {
                ground
                    .until(&format!("no {kind} is left"), async || ground.list(api_version, kind).await.is_empty())
                    .await;
            }
        }
    }
}

/// A name in a list.
fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// The Cluster of a story: its MachineDeployment, and a worker.
async fn one_cluster(ground: &Ground) -> (String, String) {
    ground.create_cluster("demo", 1, 2).await;
    ground.until_running("demo", 3).await;
    ground
        .until("the templates have their finalizers", async || {
            let deployments = ground.list(CORE, "MachineDeployment").await;
            deployments.iter().all(|one| one["metadata"]["finalizers"].to_string().contains(TEMPLATES))
        })
        .await;
    let deployment = name(&ground.list(CORE, "MachineDeployment").await[0]);
    let machines = ground.list(CORE, "Machine").await;
    let worker = machines.iter().find(|machine| machine["metadata"]["labels"].to_string().contains(&deployment));
    (deployment, name(worker.unwrap()))
}

/// The finalizer of the controllers of templates.
const TEMPLATES: &str = "machinedeployment.topology.cluster.x-k8s.io";

/// Changes that concern every controller.
struct Edits {
    deployment: String,
    worker: String,
    generation: Value,
}

impl Edits {
    async fn make(ground: &Ground) -> Self {
        let (deployment, worker) = one_cluster(ground).await;
        let class = ground.get(CORE, "ClusterClass", "embedded").await.unwrap();
        let edits = Edits { deployment, worker, generation: class["metadata"]["generation"].clone() };
        edits.wait(ground, false).await;
        edits
    }

    /// Edits the class, the topology, the finalizers of the MachineDeployment, and deletes a worker.
    async fn carry_out(&self, ground: &Ground) {
        ground.merge(CORE, "ClusterClass", "embedded", json!({"spec": {"kubernetesVersions": ["v1.33.0"]}})).await;
        let cluster = ground.get(CORE, "Cluster", "demo").await.unwrap();
        let mut topology = cluster["spec"]["topology"].clone();
        topology["workers"]["machineDeployments"][0]["metadata"] = json!({"labels": {"edited": "yes"}});
        ground.merge(CORE, "Cluster", "demo", json!({"spec": {"topology": topology}})).await;
        let kept = json!(["cluster.x-k8s.io/machinedeployment"]);
        ground.merge(CORE, "MachineDeployment", &self.deployment, json!({"metadata": {"finalizers": kept}})).await;
        ground.delete("Machine", &self.worker).await;
    }

    /// Waits until every controller has answered, or checks that none has.
    async fn wait(&self, ground: &Ground, are_done: bool) {
        let class = async || {
            let class = ground.get(CORE, "ClusterClass", "embedded").await.unwrap();
            class["status"]["observedGeneration"] != self.generation
        };
        let topology = async || {
            let deployment = ground.get(CORE, "MachineDeployment", &self.deployment).await.unwrap();
            deployment["metadata"]["labels"]["edited"] == "yes"
        };
        let templates = async || {
            let deployment = ground.get(CORE, "MachineDeployment", &self.deployment).await.unwrap();
            deployment["metadata"]["finalizers"].to_string().contains(TEMPLATES)
        };
        let machines = async || ground.get(CORE, "Machine", &self.worker).await.is_none();
        if are_done {
            ground.until("the status of the class is that of its spec", class).await;
            ground.until("the label of the topology is on the MachineDeployment", topology).await;
            ground.until("the finalizer is there again", templates).await;
            ground.until("the deleted Machine is gone", machines).await;
            ground.until_running("demo", 3).await;
        } else {
            assert!(!class().await && !topology().await && !machines().await);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_controller_does_its_work_after_a_gap_in_its_watches() {
    let ground = Ground::start(Duration::ZERO).await;
    let edits = Edits::make(&ground).await;
    ground.wire.begin_gap();
    edits.carry_out(&ground).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    edits.wait(&ground, false).await;
    ground.wire.end_gap();
    edits.wait(&ground, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_ends_although_its_pods_were_deleted_in_a_gap_of_the_watch() {
    // MA-10.4
    let ground = Ground::start(Duration::ZERO).await;
    let (_, worker) = one_cluster(&ground).await;
    let machine = ground.get(CORE, "Machine", &worker).await.unwrap();
    let node = machine["status"]["nodeRef"]["name"].as_str().unwrap();
    let pods = ground.in_workload("demo", "Pod").unwrap();
    for number in 0..3 {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("p{number}"), "finalizers": ["example.com/held"]},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }
    ground.delete("Machine", &worker).await;
    ground
        .until("the drain evicts the Pods", async || {
            let all = list(&pods).await;
            let held = all.iter().filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
            held.count() == 3
        })
        .await;
    ground.wire.begin_gap();
    for number in 0..3 {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        pods.patch(&format!("p{number}"), &PatchParams::default(), &patch).await.unwrap();
    }
    let is_held = |pod: &Value| name(pod).starts_with('p');
    ground.until("the Pods are gone", async || !list(&pods).await.iter().any(is_held)).await;
    ground.wire.end_gap();
    ground.until("the Machine is gone", async || ground.get(CORE, "Machine", &worker).await.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn every_object_is_reconciled_every_ten_minutes_without_a_request() {
    let ground = Ground::start(Duration::ZERO).await;
    one_cluster(&ground).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let (before, _) = (ground.runs(), ground.wire.take_requests());
    tokio::time::sleep(Duration::from_mins(25)).await;
    assert_eq!(ground.wire.take_requests(), Vec::<String>::new());
    let after = ground.runs();
    for controller in [
        "clusterclass",
        "topology/cluster",
        "topology/machinedeployment",
        "topology/machineset",
        "cluster",
        "machinedeployment",
        "machineset",
        "machine",
        "provider",
    ] {
        let of = |runs: &BTreeMap<String, u64>| runs.get(controller).copied().unwrap_or_default();
        assert!(of(&after) >= of(&before) + 2, "{controller}: {before:?}, then {after:?}");
    }
}
