//! Clusters that are deleted without what belongs to them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::demo::{collects_and_reconciles, name_of, new_objects, own_all, rolled_out, unowned};
use super::story::{Server, Story};
use crate::rollout::site::{bundle, text};

on_both![
    a_cluster_that_is_deleted_without_its_objects_can_be_made_again_and_has_them_then,
    orphans_go_when_they_are_deleted,
];

/// The uids of objects by their names.
fn uids(objects: &[Value]) -> BTreeMap<String, String> {
    objects.iter().map(|object| (name_of(object), text(object, "/metadata/uid"))).collect()
}

/// What belonged to the Cluster, without those that belong to the Cluster of [`collects_and_reconciles`].
fn of_demo(story: &Story, before: &[String]) -> Vec<Value> {
    let mut objects = new_objects(story, before);
    objects.retain(|object| {
        object["kind"] != "Cluster" && object["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == "demo"
    });
    objects
}

async fn a_cluster_that_is_deleted_without_its_objects_can_be_made_again_and_has_them_then(server: Server) {
    // DEL-01, LBL-06, DEC-20
    let (story, before) = rolled_out(server).await;
    // As docs/controllers.md has it.
    story.kubectl.out(&["patch", "cluster", "demo", "--type=merge", "-p", r#"{"spec":{"paused":true}}"#]);
    let paused = r#"--for=jsonpath={.status.conditions[?(@.type=="TopologyReconciled")].reason}=Paused"#;
    story.kubectl.out(&["wait", "cluster", "demo", paused, "--timeout=60s"]);
    let (cluster, made) = (story.site.cluster("demo").await, of_demo(&story, &before));
    story.kubectl.out(&["delete", "cluster", "demo", "--cascade=orphan", "--timeout=60s"]);
    collects_and_reconciles(&story).await;
    let left = of_demo(&story, &before);
    assert_eq!(uids(&left), uids(&made), "nothing is deleted, and nothing is made");
    for object in &left {
        assert!(object["metadata"]["deletionTimestamp"].is_null(), "{object}");
        let owners = object["metadata"]["ownerReferences"].to_string();
        assert!(!owners.contains(&text(&cluster, "/metadata/uid")), "{object}");
    }

    let mut again = bundle("cluster.yaml").remove(0);
    for reference in ["infrastructureRef", "controlPlaneRef"] {
        again["spec"][reference] = cluster["spec"][reference].clone();
    }
    story.site.create(again).await;
    story.site.reconciled("demo").await;
    own_all(&story, "demo").await;
    story
        .until("the Cluster owns everything", async || {
            let unowned = unowned(&story, &before);
            unowned.iter().all(|name| name.contains("/probe"))
        })
        .await;
    assert_eq!(uids(&of_demo(&story, &before)), uids(&made), "no machine is replaced");
    story.kubectl.out(&["delete", "cluster", "demo", "probe", "--timeout=60s"]);
    story.until("nothing but the class and its templates is left", async || story.contents() == before).await;
    story.nothing_was_forbidden();
}

async fn orphans_go_when_they_are_deleted(server: Server) {
    // DEL-05 to DEL-07
    let (story, before) = rolled_out(server).await;
    story.kubectl.out(&["delete", "cluster", "demo", "--cascade=orphan", "--timeout=60s"]);
    // First the machine deployment alone, so that its set is an orphan as well.
    let blue = super::demo::deployment(&story, "blue").await.unwrap();
    let blue = text(&blue, "/metadata/name");
    story.kubectl.out(&["delete", "machinedeployment", &blue, "--cascade=orphan", "--timeout=60s"]);
    let labels = "cluster.x-k8s.io/cluster-name=demo";
    story.kubectl.out(&["delete", "machinesets,machinedeployments,machinepools", "-l", labels, "--timeout=60s"]);
    story.kubectl.out(&["delete", &story.kinds, "-l", labels, "--timeout=60s"]);
    story.until("nothing but the class and its templates is left", async || story.contents() == before).await;
    story.nothing_was_forbidden();
}
