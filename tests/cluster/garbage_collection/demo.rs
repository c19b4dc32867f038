//! The Cluster of the bundle, and what belongs to it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::story::{Server, Story};
use crate::rollout::site::{BOOTSTRAP, CORE, INFRASTRUCTURE, bundle, text};

/// Every kind of object that a Cluster of the bundle brings along.
const KINDS: [&str; 13] = [
    "Cluster",
    "EmbeddedCluster",
    "EmbeddedConfig",
    "EmbeddedConfigTemplate",
    "EmbeddedControlPlane",
    "EmbeddedMachine",
    "EmbeddedMachinePool",
    "EmbeddedMachineTemplate",
    "Machine",
    "MachineDeployment",
    "MachineHealthCheck",
    "MachinePool",
    "MachineSet",
];

/// The Cluster of the bundle, reconciled, with the machines of one of its MachineDeployments; and what was there
/// before.
pub(super) async fn rolled_out(server: Server) -> (Story, Vec<String>) {
    let story = Story::begin(server).await;
    let before = story.contents();
    story.site.apply_file("cluster.yaml").await;
    story.site.reconciled("demo").await;
    make_machines(&story, &deployment(&story, "blue").await.unwrap(), "blue-set").await;
    own_all(&story, "demo").await;
    story.until("the Cluster owns everything", async || unowned(&story, &before).is_empty()).await;
    without_shim(&story).await;
    let made: BTreeSet<String> = new_objects(&story, &before).iter().map(|object| text(object, "/kind")).collect();
    assert_eq!(made.iter().map(String::as_str).collect::<Vec<_>>(), KINDS);
    (story, before)
}

/// `kind/name` as kubectl writes it.
pub(super) fn name_of(object: &Value) -> String {
    let (group, _) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or_default();
    let dot = if group.is_empty() { "" } else { "." };
    format!("{}{dot}{group}/{}", text(object, "/kind").to_lowercase(), text(object, "/metadata/name"))
}

pub(super) fn new_objects(story: &Story, before: &[String]) -> Vec<Value> {
    let mut objects = story.objects();
    objects.retain(|object| !before.contains(&name_of(object)));
    objects
}

/// What would stay behind for ever: objects of the Cluster without an owner, or with one that is about to go.
pub(super) fn unowned(story: &Story, before: &[String]) -> Vec<String> {
    let is_owned = |object: &Value| {
        let owners = object["metadata"]["ownerReferences"].as_array();
        owners.is_some_and(|owners| owners.iter().any(|owner| owner["kind"] != "ConfigMap"))
    };
    let objects = new_objects(story, before);
    objects.iter().filter(|one| one["kind"] != "Cluster" && !is_owned(one)).map(name_of).collect()
}

/// Waits until the shim of a new Cluster is gone.
pub(super) async fn without_shim(story: &Story) {
    story.until("the shim is gone", async || !story.contents().contains(&"configmap/demo-shim".to_owned())).await;
}

/// Pauses the Cluster, and waits until topologist knows.
pub(super) async fn pause(story: &Story) {
    let site = &story.site;
    site.merge(CORE, "Cluster", "demo", json!({"spec": {"paused": true}})).await;
    site.until("topologist knows", || async { (site.reported("demo").await.0 == "Paused").then_some(()) }).await;
}

/// Waits until the garbage collector and topologist have dealt with what happened before: both do something newer.
pub(super) async fn collects_and_reconciles(story: &Story) {
    story.collected().await;
    let mut cluster = bundle("cluster.yaml").remove(0);
    cluster["metadata"]["name"] = json!("probe");
    story.site.create(cluster).await;
    story.site.reconciled("probe").await;
    own_all(story, "probe").await;
}

/// Makes a Cluster the owner of the objects of its topology, as Cluster API's controllers do (MA-20.2, MA-27.3,
/// MA-27.4).
pub(super) async fn own_all(story: &Story, name: &str) {
    let cluster = story.site.cluster(name).await;
    let is_of = |object: &&Value| object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == name;
    for object in story.objects().iter().filter(is_of) {
        let kind = text(object, "/kind");
        let mut owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        if kind == "Cluster" || owners.iter().any(|owner| owner["kind"] != "ConfigMap") {
            continue;
        }
        let mut owner = owner(&cluster);
        if !["EmbeddedCluster", "EmbeddedControlPlane"].contains(&&*kind) {
            let owner = owner.as_object_mut().unwrap();
            owner.retain(|member, _| !["controller", "blockOwnerDeletion"].contains(&&**member));
        }
        owners.push(owner);
        let metadata = json!({"metadata": {"ownerReferences": owners}});
        story.site.merge(&text(object, "/apiVersion"), &kind, &text(object, "/metadata/name"), metadata).await;
    }
}

/// The machine deployment of a name in the topology.
pub(super) async fn deployment(story: &Story, name: &str) -> Option<Value> {
    let all = story.site.list(CORE, "MachineDeployment").await;
    all.into_iter().find(|one| one["metadata"]["labels"]["topology.cluster.x-k8s.io/deployment-name"] == name)
}

/// A MachineSet with a Machine, as Cluster API's controllers would make them for a machine deployment as it is.
pub(super) async fn make_machines(story: &Story, deployment: &Value, name: &str) {
    let (site, labels) = (&story.site, set_labels(deployment));
    let spec = json!({"clusterName": "demo", "replicas": 1, "selector": deployment["spec"]["selector"],
        "template": deployment["spec"]["template"]});
    let owner = owner(deployment);
    let metadata = json!({"name": name, "labels": labels, "ownerReferences": [owner]});
    let set = site.create(json!({"apiVersion": CORE, "kind": "MachineSet", "metadata": metadata, "spec": spec})).await;
    let mut spec = deployment["spec"]["template"]["spec"].clone();
    spec["infrastructureRef"] =
        json!({"apiGroup": "infrastructure.topologist.dev", "kind": "EmbeddedMachine", "name": name});
    spec["bootstrap"] =
        json!({"configRef": {"apiGroup": "bootstrap.topologist.dev", "kind": "EmbeddedConfig", "name": name}});
    let metadata = json!({"name": name, "labels": labels, "ownerReferences": [self::owner(&set)]});
    let machine = site.create(json!({"apiVersion": CORE, "kind": "Machine", "metadata": metadata, "spec": spec})).await;
    for (api_version, kind) in [(INFRASTRUCTURE, "EmbeddedMachine"), (BOOTSTRAP, "EmbeddedConfig")] {
        let metadata = json!({"name": name, "labels": labels, "ownerReferences": [self::owner(&machine)]});
        site.create(json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {}})).await;
    }
    let finalizer = json!("machineset.topology.cluster.x-k8s.io");
    site.until(&format!("{name} has a finalizer"), || async {
        let set = site.get(CORE, "MachineSet", name).await?;
        set["metadata"]["finalizers"].as_array()?.contains(&finalizer).then_some(())
    })
    .await;
}

fn set_labels(deployment: &Value) -> Value {
    let mut labels = deployment["metadata"]["labels"].clone();
    labels["cluster.x-k8s.io/deployment-name"] = deployment["metadata"]["name"].clone();
    labels
}

/// A reference to the controller of an object.
fn owner(of: &Value) -> Value {
    let (name, uid) = (&of["metadata"]["name"], &of["metadata"]["uid"]);
    json!({"apiVersion": of["apiVersion"], "kind": of["kind"], "name": name, "uid": uid, "controller": true,
        "blockOwnerDeletion": true})
}
