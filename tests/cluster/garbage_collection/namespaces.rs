//! Namespaces that are deleted with everything in them.

use serde_json::{Value, json};

use super::demo::{own_all, pause, rolled_out, without_shim};
use super::story::{Server, Story};
use crate::rollout::site::bundle;

on_both![a_namespace_goes_with_its_cluster_and_class, a_namespace_goes_although_its_cluster_is_paused,];

/// How often topologist may fail for one namespace until it is gone. Templates go in any order, and each that goes
/// before its class and its Cluster fails a run or two; a loop without pauses fails hundreds of times.
const FEW: usize = 20;

/// Deletes the namespace of a story without waiting for its end.
fn delete_namespace(story: &Story) {
    story.kubectl.out(&["delete", "namespace", &story.site.namespace, "--wait=false"]);
}

async fn is_gone(story: &Story) {
    let name = &story.site.namespace;
    let find = ["get", "namespace", name, "--ignore-not-found", "-o", "name"];
    story.until("the namespace is gone", async || story.kubectl.out(&find).is_empty()).await;
    let log = story.log();
    let failures = log.lines().filter(|line| line.contains(" not reconciled") || line.contains(" not cleaned up"));
    let failures: Vec<&str> = failures.collect();
    assert!(failures.len() <= FEW, "{} failures: {failures:#?}", failures.len());
    story.nothing_was_forbidden();
}

async fn a_namespace_goes_with_its_cluster_and_class(server: Server) {
    // CC-V-140, DEL-05 to DEL-07
    let (story, _) = rolled_out(server).await;
    delete_namespace(&story);
    is_gone(&story).await;
}

async fn a_namespace_goes_although_its_cluster_is_paused(server: Server) {
    // DEL-05
    let (story, _) = rolled_out(server).await;
    pause(&story).await;
    delete_namespace(&story);
    is_gone(&story).await;
}

/// Not on the embedded API: it asks no webhook about what follows from a deletion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_waits_for_the_clusters_of_other_namespaces_that_use_its_class() {
    // CC-V-140
    let server = Server::Real;
    let (of_class, _) = rolled_out(server).await;
    let story = Story::begin(server).await;
    let mut cluster = bundle("cluster.yaml").remove(0);
    cluster["spec"]["topology"]["classRef"]["namespace"] = json!(of_class.site.namespace);
    story.site.create(cluster).await;
    story.site.reconciled("demo").await;
    own_all(&story, "demo").await;
    without_shim(&story).await;
    let before = story.contents();
    delete_namespace(&of_class);
    let why = format!("cannot be deleted because it is used by {}/demo", story.site.namespace);
    of_class.until("the namespace says what holds it", async || conditions(&of_class).to_string().contains(&why)).await;
    assert_eq!(of_class.contents(), ["clusterclass.cluster.x-k8s.io/embedded"]);
    assert_eq!(story.contents(), before, "the Cluster keeps everything");
    story.kubectl.out(&["delete", "cluster", "demo", "--timeout=60s"]);
    let find = ["get", "namespace", &of_class.site.namespace, "--ignore-not-found", "-o", "name"];
    story.until("the namespace is gone", async || story.kubectl.out(&find).is_empty()).await;
}

fn conditions(story: &Story) -> Value {
    let namespace = story.kubectl.out(&["get", "namespace", &story.site.namespace, "-o", "json"]);
    serde_json::from_str::<Value>(&namespace).unwrap()["status"]["conditions"].take()
}
