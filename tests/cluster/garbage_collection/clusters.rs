//! Clusters that are deleted, and finalizers that hold them.

use super::demo::rolled_out;

async fn nothing_of_a_deleted_cluster_is_left(cascade: &str) {
    // DEL-01, DEL-04, DEL-06, DEL-07, DEL-13, MA-27.16, CC-V-140
    let (story, before) = rolled_out().await;
    let refused = story.kubectl.err(&["delete", "clusterclass", "embedded"]);
    assert!(refused.contains("cannot be deleted because it is used by"), "{refused}");
    story.kubectl.out(&["delete", "cluster", "demo", cascade, "--timeout=60s"]);
    story.until("nothing but the class and its templates is left", async || story.contents() == before).await;
    // The guard learns of the end of the Cluster some milliseconds later.
    story.kubectl.eventually(&["delete", "clusterclass", "embedded", cascade]);
    story.until("nothing at all is left", async || story.contents().is_empty()).await;
    story.nothing_was_forbidden();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_cluster_is_left_that_is_deleted_in_the_background() {
    nothing_of_a_deleted_cluster_is_left("--cascade=background").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_cluster_is_left_that_is_deleted_in_the_foreground() {
    nothing_of_a_deleted_cluster_is_left("--cascade=foreground").await;
}
