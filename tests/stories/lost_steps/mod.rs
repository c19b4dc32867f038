//! No step is lost (DEC-60): each is carried out although an answer is late, or a watch had a gap.

mod ground;
mod wire;

use std::collections::BTreeMap;
use std::time::Duration;

use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use self::ground::{CORE, Ground, INFRASTRUCTURE, RUNTIME, list};
use crate::lab::{Lab, Reply};

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
                ground.delete(CORE, "Cluster", name).await;
            }
            for (api_version, kind) in PARTS {
                ground
                    .until(&format!("no {kind} is left"), async || ground.list(api_version, kind).await.is_empty())
                    .await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extension_configs_come_and_go_although_watches_show_writes_before_their_answers() {
    // RH-3.1
    let (ground, lab) = (Ground::start(Duration::from_millis(20)).await, Lab::start());
    let names: Vec<String> = (0..8).map(|number| format!("e{number}")).collect();
    for round in 0..3 {
        for name in &names {
            ground.apply(&lab.config(name, &json!({"settings": {"round": "first"}}))).await;
        }
        let hook = format!("more{round}");
        lab.on("GeneratePatches", &hook, |_| Reply::done());
        for name in &names {
            let settings = json!({"settings": {"round": round.to_string()}});
            ground.merge(RUNTIME, "ExtensionConfig", name, json!({"spec": settings})).await;
        }
        for name in &names {
            until_discovered(&ground, name, &hook).await;
        }
        for name in &names {
            ground.delete(RUNTIME, "ExtensionConfig", name).await;
            ground.until("it is not registered", async || ground.extensions.registered(name).is_none()).await;
        }
        // One of the same name that comes at once is another one.
        assert_eq!(ground.list(RUNTIME, "ExtensionConfig").await, Vec::<Value>::new());
    }
}

/// Waits until an ExtensionConfig has a handler, in its status and in the registry.
async fn until_discovered(ground: &Ground, config: &str, handler: &str) {
    ground
        .until(&format!("{config} has the handler {handler}"), async || {
            let stored = ground.get(RUNTIME, "ExtensionConfig", config).await.unwrap();
            let registered = ground.extensions.registered(config);
            let is_registered = registered.is_some_and(|found| {
                found.registration.handlers().any(|(name, _)| name.starts_with(&format!("{handler}.")))
            });
            has_handler(&stored, handler) && is_registered
        })
        .await;
}

/// Whether the status of an ExtensionConfig has a handler.
fn has_handler(config: &Value, handler: &str) -> bool {
    let handlers = config["status"]["handlers"].as_array();
    let name = |one: &Value| one["name"].as_str().unwrap().to_owned();
    handlers.is_some_and(|all| all.iter().any(|one| name(one).starts_with(&format!("{handler}."))))
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
    lab: Lab,
    deployment: String,
    worker: String,
    generation: Value,
}

impl Edits {
    async fn make(ground: &Ground) -> Self {
        let (deployment, worker) = one_cluster(ground).await;
        let class = ground.get(CORE, "ClusterClass", "embedded").await.unwrap();
        let lab = Lab::start();
        lab.on("GeneratePatches", "patch", |_| Reply::done());
        for name in ["lab", "leaving"] {
            ground.apply(&lab.config(name, &json!({}))).await;
            until_discovered(ground, name, "patch").await;
        }
        let edits = Edits { lab, deployment, worker, generation: class["metadata"]["generation"].clone() };
        edits.wait(ground, false).await;
        edits
    }

    /// Edits the class, the topology, the finalizers of the MachineDeployment and an ExtensionConfig, and deletes a worker and another
    /// ExtensionConfig.
    async fn carry_out(&self, ground: &Ground) {
        ground.merge(CORE, "ClusterClass", "embedded", json!({"spec": {"kubernetesVersions": ["v1.33.0"]}})).await;
        let cluster = ground.get(CORE, "Cluster", "demo").await.unwrap();
        let mut topology = cluster["spec"]["topology"].clone();
        topology["workers"]["machineDeployments"][0]["metadata"] = json!({"labels": {"edited": "yes"}});
        ground.merge(CORE, "Cluster", "demo", json!({"spec": {"topology": topology}})).await;
        let kept = json!(["cluster.x-k8s.io/machinedeployment"]);
        ground.merge(CORE, "MachineDeployment", &self.deployment, json!({"metadata": {"finalizers": kept}})).await;
        ground.delete(CORE, "Machine", &self.worker).await;
        self.lab.on("GeneratePatches", "another", |_| Reply::done());
        ground.merge(RUNTIME, "ExtensionConfig", "lab", json!({"spec": {"settings": {"edited": "yes"}}})).await;
        ground.delete(RUNTIME, "ExtensionConfig", "leaving").await;
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
        let extension = async || {
            let config = ground.get(RUNTIME, "ExtensionConfig", "lab").await.unwrap();
            has_handler(&config, "another")
        };
        let leaving = async || ground.extensions.registered("leaving").is_none();
        if are_done {
            ground.until("the status of the class is that of its spec", class).await;
            ground.until("the label of the topology is on the MachineDeployment", topology).await;
            ground.until("the finalizer is there again", templates).await;
            ground.until("the deleted Machine is gone", machines).await;
            ground.until_running("demo", 3).await;
            ground.until("the status of the ExtensionConfig is that of its spec", extension).await;
            ground.until("the deleted ExtensionConfig is not registered", leaving).await;
        } else {
            assert!(!class().await && !topology().await && !machines().await);
            assert!(!extension().await && !leaving().await);
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
    ground.delete(CORE, "Machine", &worker).await;
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
    // It is paused, since the time of this test does not wait for an extension.
    let paused = json!({"apiVersion": RUNTIME, "kind": "ExtensionConfig",
        "metadata": {"name": "lab", "annotations": {"cluster.x-k8s.io/paused": ""}},
        "spec": {"clientConfig": {"url": "https://127.0.0.1:1"}}});
    ground.apply(&paused).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let (before, _) = (ground.runs(), ground.wire.take_requests());
    tokio::time::sleep(Duration::from_mins(25)).await;
    assert_eq!(ground.wire.take_requests(), Vec::<String>::new());
    let after = ground.runs();
    for controller in [
        "clusterclass",
        "extensionconfig",
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

#[tokio::test(start_paused = true)]
async fn a_step_that_keeps_failing_shows_on_its_object_until_it_succeeds() {
    // DEC-60
    let ground = Ground::start(Duration::ZERO).await;
    one_cluster(&ground).await;
    let reconciled = async || {
        let set = ground.list(CORE, "MachineSet").await.remove(0);
        let conditions = set["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == "Reconciled")
    };
    let reported = async || {
        let events = ground.list("v1", "Event").await.into_iter();
        let of_set = events.filter(|event| event["involvedObject"]["kind"] == "MachineSet");
        of_set.filter(|event| event["reason"] == "ReconcileFailed").collect::<Vec<_>>()
    };
    ground.wire.refuse(Some("/embeddedmachines"));
    let cluster = ground.get(CORE, "Cluster", "demo").await.unwrap();
    let mut topology = cluster["spec"]["topology"].clone();
    topology["workers"]["machineDeployments"][0]["replicas"] = json!(3);
    ground.merge(CORE, "Cluster", "demo", json!({"spec": {"topology": topology}})).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((reconciled().await, reported().await), (None, vec![]), "a failure that may pass");
    ground.wire.take_requests();
    tokio::time::sleep(Duration::from_mins(30)).await;
    // What a failed step takes back does not wake it at once.
    let attempts = ground.wire.take_requests().iter().filter(|one| one.contains("/embeddedmachines")).count();
    assert!((3..=200).contains(&attempts), "{attempts}");
    let condition = reconciled().await.unwrap();
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("StepFailed")));
    assert!(condition["message"].as_str().unwrap().contains("the wire is broken"), "{condition}");
    let events = reported().await;
    assert_eq!((events.len(), &events[0]["count"], &events[0]["type"]), (1, &json!(1), &json!("Warning")));
    ground.wire.refuse(None);
    // The longest pause between two steps is 1000 s.
    tokio::time::sleep(Duration::from_mins(18)).await;
    ground.until_running("demo", 4).await;
    ground.until("the condition is gone", async || reconciled().await.is_none()).await;
}
