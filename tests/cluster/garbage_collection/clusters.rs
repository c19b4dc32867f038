//! Clusters that are deleted, and finalizers that hold them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::demo::{collects_and_reconciles, deployment, name_of, pause, rolled_out};
use super::story::{Server, Story};
use crate::rollout::site::{INFRASTRUCTURE, text};

on_both![
    nothing_of_a_cluster_is_left_that_is_deleted_in_the_background,
    a_cluster_that_is_deleted_in_the_foreground_waits_for_its_infrastructure,
    what_waits_for_a_paused_cluster_goes_when_that_is_deleted,
    a_cluster_that_a_finalizer_holds_keeps_its_objects_and_gets_no_new_ones,
    a_held_cluster_that_is_deleted_in_the_foreground_loses_its_objects_for_good,
];

/// Everything of the Cluster goes, then the class can be deleted with its templates.
async fn nothing_is_left(story: &Story, before: &[String]) {
    story.until("nothing but the class and its templates is left", async || story.contents() == before).await;
    // The guard learns of the end of the Cluster some milliseconds later.
    story.kubectl.eventually(&["delete", "clusterclass", "embedded"]);
    story.until("nothing at all is left", async || story.contents().is_empty()).await;
    story.nothing_was_forbidden();
}

async fn nothing_of_a_cluster_is_left_that_is_deleted_in_the_background(server: Server) {
    // DEL-01, DEL-04, DEL-06, DEL-07, DEL-13, MA-27.16, CC-V-140
    let (story, before) = rolled_out(server).await;
    let refused = story.kubectl.err(&["delete", "clusterclass", "embedded"]);
    assert!(refused.contains("cannot be deleted because it is used by"), "{refused}");
    story.kubectl.out(&["delete", "cluster", "demo", "--timeout=60s"]);
    nothing_is_left(&story, &before).await;
}

async fn a_cluster_that_is_deleted_in_the_foreground_waits_for_its_infrastructure(server: Server) {
    // DEL-01, MA-27.3, CT-15.1
    let (story, before) = rolled_out(server).await;
    let cluster = story.site.cluster("demo").await;
    let infrastructure = text(&cluster, "/spec/infrastructureRef/name");
    let hold = |value: Value| story.site.merge(INFRASTRUCTURE, "EmbeddedCluster", &infrastructure, value);
    hold(json!({"metadata": {"finalizers": ["example.com/infrastructure"]}})).await;
    story.kubectl.out(&["delete", "cluster", "demo", "--cascade=foreground", "--wait=false"]);
    let kept = [name_of(&cluster), format!("embeddedcluster.infrastructure.topologist.dev/{infrastructure}")];
    let left: BTreeSet<String> = before.iter().cloned().chain(kept).collect();
    story.until("the rest is gone", async || BTreeSet::from_iter(story.contents()) == left).await;
    story.collected().await;
    assert_eq!(story.site.cluster("demo").await["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    hold(json!({"metadata": {"finalizers": null}})).await;
    nothing_is_left(&story, &before).await;
}

async fn what_waits_for_a_paused_cluster_goes_when_that_is_deleted(server: Server) {
    // DEL-05
    let (story, before) = rolled_out(server).await;
    pause(&story).await;
    let blue = text(&deployment(&story, "blue").await.unwrap(), "/metadata/name");
    story.kubectl.out(&["delete", "machinedeployment", &blue, "--wait=false"]);
    story.collected().await;
    assert!(deployment(&story, "blue").await.is_some(), "its templates stay as long as the Cluster is paused");
    story.kubectl.out(&["delete", "cluster", "demo", "--timeout=60s"]);
    nothing_is_left(&story, &before).await;
}

const HOLD: &str = r#"{"metadata":{"finalizers":["example.com/hold"]}}"#;

/// A Cluster that is deleted and held by a finalizer of another controller, once topologist knows of the deletion.
async fn held(story: &Story, cascade: &str) {
    story.kubectl.out(&["patch", "cluster", "demo", "--type=merge", "-p", HOLD]);
    story.kubectl.out(&["delete", "cluster", "demo", cascade, "--wait=false"]);
    story
        .until("topologist knows of the deletion", async || {
            let cluster = story.site.cluster("demo").await;
            cluster["metadata"]["annotations"]["runtime.cluster.x-k8s.io/ok-to-delete"].is_string()
        })
        .await;
}

async fn release(story: &Story) {
    story
        .until("only the finalizer of the other controller is left", async || {
            story.site.cluster("demo").await["metadata"]["finalizers"] == json!(["example.com/hold"])
        })
        .await;
    story.kubectl.out(&["patch", "cluster", "demo", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
}

async fn a_cluster_that_a_finalizer_holds_keeps_its_objects_and_gets_no_new_ones(server: Server) {
    // DEL-01, DEL-14, RS-05
    let (story, before) = rolled_out(server).await;
    held(&story, "--cascade=background").await;
    let (mut all, green) = (story.contents(), deployment(&story, "green").await.unwrap());
    // What is deleted by hand goes with its templates and its health check, and does not come back.
    let green = text(&green, "/metadata/name");
    story.kubectl.out(&["delete", "machinedeployment", &green, "--timeout=60s"]);
    all.retain(|name| !name.contains("/demo-green-"));
    story.site.change("demo", |topology| topology["workers"]["machineDeployments"][0]["replicas"] = json!(7)).await;
    collects_and_reconciles(&story).await;
    let of_demo = || -> Vec<String> { story.contents().into_iter().filter(|name| !name.contains("/probe")).collect() };
    assert_eq!(of_demo(), all);
    assert_eq!(deployment(&story, "blue").await.unwrap()["spec"]["replicas"], 2);

    story.kubectl.out(&["delete", "cluster", "probe", "--timeout=60s"]);
    release(&story).await;
    nothing_is_left(&story, &before).await;
}

async fn a_held_cluster_that_is_deleted_in_the_foreground_loses_its_objects_for_good(server: Server) {
    // DEL-01, RS-05
    let (story, before) = rolled_out(server).await;
    let all: BTreeSet<String> = story.contents().into_iter().collect();
    held(&story, "--cascade=foreground").await;
    story
        .until("infrastructure and control plane are gone", async || {
            let mut left = story.contents().into_iter();
            !left.any(|name| name.starts_with("embeddedcluster.") || name.starts_with("embeddedcontrolplane."))
        })
        .await;
    collects_and_reconciles(&story).await;
    let left = story.contents().into_iter().filter(|name| !name.contains("/probe"));
    let new: Vec<String> = left.filter(|name| !all.contains(name)).collect();
    assert!(new.is_empty(), "{new:?}");
    story.kubectl.out(&["delete", "cluster", "probe", "--timeout=60s"]);
    release(&story).await;
    nothing_is_left(&story, &before).await;
}
