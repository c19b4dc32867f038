//! No step is lost (DEC-60): each is carried out although an answer is late, or a watch had a gap.

mod installation;
mod wire;

use std::collections::BTreeMap;
use std::time::Duration;

use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use self::installation::{CORE, INFRASTRUCTURE, Installation, RUNTIME};
use crate::harness::extension::{Reply, TestExtension};
use crate::harness::objects::list;

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
    let installation = Installation::start(Duration::from_millis(20)).await;
    for round in 0..rounds {
        let names: Vec<String> = (0..clusters).map(|number| format!("c{round}-{number}")).collect();
        for some in names.chunks(8) {
            for name in some {
                installation.create_cluster(name, 1, 1).await;
            }
            for name in some {
                installation.until_running(name, 2).await;
            }
            for name in some {
                installation.delete(CORE, "Cluster", name).await;
            }
            for (api_version, kind) in PARTS {
                installation
                    .until(&format!("no {kind} is left"), async || {
                        installation.list(api_version, kind).await.is_empty()
                    })
                    .await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extension_configs_come_and_go_although_watches_show_writes_before_their_answers() {
    // RH-3.1
    let (installation, lab) = (Installation::start(Duration::from_millis(20)).await, TestExtension::start());
    let names: Vec<String> = (0..8).map(|number| format!("e{number}")).collect();
    for round in 0..3 {
        for name in &names {
            installation.create(lab.config(name, &json!({"settings": {"round": "first"}}))).await;
        }
        let hook = format!("more{round}");
        lab.on("GeneratePatches", &hook, |_| Reply::done());
        for name in &names {
            let settings = json!({"settings": {"round": round.to_string()}});
            installation.merge(RUNTIME, "ExtensionConfig", name, json!({"spec": settings})).await;
        }
        for name in &names {
            until_discovered(&installation, name, &hook).await;
        }
        for name in &names {
            installation.delete(RUNTIME, "ExtensionConfig", name).await;
            installation
                .until("it is not registered", async || installation.extensions().registered(name).is_none())
                .await;
        }
        // One of the same name that comes at once is another one.
        assert_eq!(installation.list(RUNTIME, "ExtensionConfig").await, Vec::<Value>::new());
    }
}

/// Waits until an ExtensionConfig has a handler, in its status and in the registry.
async fn until_discovered(installation: &Installation, config: &str, handler: &str) {
    installation
        .until(&format!("{config} has the handler {handler}"), async || {
            let stored = installation.get(RUNTIME, "ExtensionConfig", config).await.unwrap();
            let registered = installation.extensions().registered(config);
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
async fn one_cluster(installation: &Installation) -> (String, String) {
    installation.create_cluster("demo", 1, 2).await;
    installation.until_running("demo", 3).await;
    installation
        .until("the templates have their finalizers", async || {
            let deployments = installation.list(CORE, "MachineDeployment").await;
            deployments.iter().all(|one| one["metadata"]["finalizers"].to_string().contains(TEMPLATES))
        })
        .await;
    let deployment = name(&installation.list(CORE, "MachineDeployment").await[0]);
    let machines = installation.list(CORE, "Machine").await;
    let worker = machines.iter().find(|machine| machine["metadata"]["labels"].to_string().contains(&deployment));
    (deployment, name(worker.unwrap()))
}

/// The finalizer of the controllers of templates.
const TEMPLATES: &str = "machinedeployment.topology.cluster.x-k8s.io";

/// Changes that concern every controller.
struct Edits {
    lab: TestExtension,
    deployment: String,
    worker: String,
    generation: Value,
}

impl Edits {
    async fn make(installation: &Installation) -> Self {
        let (deployment, worker) = one_cluster(installation).await;
        let class = installation.get(CORE, "ClusterClass", "embedded").await.unwrap();
        let lab = TestExtension::start();
        lab.on("GeneratePatches", "patch", |_| Reply::done());
        for name in ["lab", "leaving"] {
            installation.create(lab.config(name, &json!({}))).await;
            until_discovered(installation, name, "patch").await;
        }
        let edits = Edits { lab, deployment, worker, generation: class["metadata"]["generation"].clone() };
        edits.wait(installation, false).await;
        edits
    }

    /// Edits the class, the topology, the finalizers of the MachineDeployment and an ExtensionConfig, and deletes a
    /// worker and another ExtensionConfig.
    async fn carry_out(&self, installation: &Installation) {
        installation
            .merge(CORE, "ClusterClass", "embedded", json!({"spec": {"kubernetesVersions": ["v1.33.0"]}}))
            .await;
        let cluster = installation.get(CORE, "Cluster", "demo").await.unwrap();
        let mut topology = cluster["spec"]["topology"].clone();
        topology["workers"]["machineDeployments"][0]["metadata"] = json!({"labels": {"edited": "yes"}});
        installation.merge(CORE, "Cluster", "demo", json!({"spec": {"topology": topology}})).await;
        let kept = json!(["cluster.x-k8s.io/machinedeployment"]);
        installation
            .merge(CORE, "MachineDeployment", &self.deployment, json!({"metadata": {"finalizers": kept}}))
            .await;
        installation.delete(CORE, "Machine", &self.worker).await;
        self.lab.on("GeneratePatches", "another", |_| Reply::done());
        installation.merge(RUNTIME, "ExtensionConfig", "lab", json!({"spec": {"settings": {"edited": "yes"}}})).await;
        installation.delete(RUNTIME, "ExtensionConfig", "leaving").await;
    }

    /// Waits until every controller has answered, or checks that none has.
    async fn wait(&self, installation: &Installation, are_done: bool) {
        let class = async || {
            let class = installation.get(CORE, "ClusterClass", "embedded").await.unwrap();
            class["status"]["observedGeneration"] != self.generation
        };
        let topology = async || {
            let deployment = installation.get(CORE, "MachineDeployment", &self.deployment).await.unwrap();
            deployment["metadata"]["labels"]["edited"] == "yes"
        };
        let templates = async || {
            let deployment = installation.get(CORE, "MachineDeployment", &self.deployment).await.unwrap();
            deployment["metadata"]["finalizers"].to_string().contains(TEMPLATES)
        };
        let machines = async || installation.get(CORE, "Machine", &self.worker).await.is_none();
        let extension = async || {
            let config = installation.get(RUNTIME, "ExtensionConfig", "lab").await.unwrap();
            has_handler(&config, "another")
        };
        let leaving = async || installation.extensions().registered("leaving").is_none();
        if are_done {
            installation.until("the status of the class is that of its spec", class).await;
            installation.until("the label of the topology is on the MachineDeployment", topology).await;
            installation.until("the finalizer is there again", templates).await;
            installation.until("the deleted Machine is gone", machines).await;
            installation.until_running("demo", 3).await;
            installation.until("the status of the ExtensionConfig is that of its spec", extension).await;
            installation.until("the deleted ExtensionConfig is not registered", leaving).await;
        } else {
            assert!(!class().await && !topology().await && !machines().await);
            assert!(!extension().await && !leaving().await);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_controller_does_its_work_after_a_gap_in_its_watches() {
    let installation = Installation::start(Duration::ZERO).await;
    let edits = Edits::make(&installation).await;
    installation.wire.begin_gap();
    edits.carry_out(&installation).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    edits.wait(&installation, false).await;
    installation.wire.end_gap();
    edits.wait(&installation, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_ends_although_its_pods_were_deleted_in_a_gap_of_the_watch() {
    // MA-10.4
    let installation = Installation::start(Duration::ZERO).await;
    let (_, worker) = one_cluster(&installation).await;
    let machine = installation.get(CORE, "Machine", &worker).await.unwrap();
    let node = machine["status"]["nodeRef"]["name"].as_str().unwrap();
    let pods = installation.in_workload("demo", "Pod").unwrap();
    for number in 0..3 {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("p{number}"), "finalizers": ["example.com/held"]},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }
    installation.delete(CORE, "Machine", &worker).await;
    installation
        .until("the drain evicts the Pods", async || {
            let all = list(&pods).await;
            let held = all.iter().filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
            held.count() == 3
        })
        .await;
    installation.wire.begin_gap();
    for number in 0..3 {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        pods.patch(&format!("p{number}"), &PatchParams::default(), &patch).await.unwrap();
    }
    let is_held = |pod: &Value| name(pod).starts_with('p');
    installation.until("the Pods are gone", async || !list(&pods).await.iter().any(is_held)).await;
    installation.wire.end_gap();
    installation
        .until("the Machine is gone", async || installation.get(CORE, "Machine", &worker).await.is_none())
        .await;
}

#[tokio::test(start_paused = true)]
async fn every_object_is_reconciled_every_ten_minutes_without_a_request() {
    let installation = Installation::start(Duration::ZERO).await;
    one_cluster(&installation).await;
    // It is paused, since the time of this test does not wait for an extension.
    let paused = json!({"apiVersion": RUNTIME, "kind": "ExtensionConfig",
        "metadata": {"name": "lab", "annotations": {"cluster.x-k8s.io/paused": ""}},
        "spec": {"clientConfig": {"url": "https://127.0.0.1:1"}}});
    installation.create(paused).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let (before, _) = (installation.runs(), installation.wire.take_requests());
    tokio::time::sleep(Duration::from_mins(25)).await;
    assert_eq!(installation.wire.take_requests(), Vec::<String>::new());
    let after = installation.runs();
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
    let installation = Installation::start(Duration::ZERO).await;
    one_cluster(&installation).await;
    let reconciled = async || {
        let set = installation.list(CORE, "MachineSet").await.remove(0);
        let conditions = set["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == "Reconciled")
    };
    let reported = async || {
        let events = installation.list("v1", "Event").await.into_iter();
        let of_set = events.filter(|event| event["involvedObject"]["kind"] == "MachineSet");
        of_set.filter(|event| event["reason"] == "ReconcileFailed").collect::<Vec<_>>()
    };
    installation.wire.refuse(Some("/embeddedmachines"));
    let cluster = installation.get(CORE, "Cluster", "demo").await.unwrap();
    let mut topology = cluster["spec"]["topology"].clone();
    topology["workers"]["machineDeployments"][0]["replicas"] = json!(3);
    installation.merge(CORE, "Cluster", "demo", json!({"spec": {"topology": topology}})).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((reconciled().await, reported().await), (None, vec![]), "a failure that may pass");
    installation.wire.take_requests();
    tokio::time::sleep(Duration::from_mins(30)).await;
    // What a failed step takes back does not wake it at once.
    let attempts = installation.wire.take_requests().iter().filter(|one| one.contains("/embeddedmachines")).count();
    assert!((3..=200).contains(&attempts), "{attempts}");
    let condition = reconciled().await.unwrap();
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("StepFailed")));
    assert!(condition["message"].as_str().unwrap().contains("the wire is broken"), "{condition}");
    let events = reported().await;
    assert_eq!((events.len(), &events[0]["count"], &events[0]["type"]), (1, &json!(1), &json!("Warning")));
    installation.wire.refuse(None);
    // The longest pause between two steps is 1000 s.
    tokio::time::sleep(Duration::from_mins(18)).await;
    installation.until_running("demo", 4).await;
    installation.until("the condition is gone", async || reconciled().await.is_none()).await;
}
