//! Workers of a Cluster are scaled.

use serde_json::json;

use crate::machines::server::{TestServer, cluster, workers};

#[test]
fn workers_follow_the_topology_and_a_label_makes_no_machines() {
    let server = TestServer::start(&[]);
    server.run_cluster(&cluster(1, &json!([workers("a", 2)]), &json!([])));
    server.edit_topology(&json!({"workers": {"machineDeployments": [workers("a", 3)]}}));
    server.wait("cluster/demo", "jsonpath={.status.workers.readyReplicas}=3");
    let before = server.names("machines");
    server.merge("cluster/demo", &json!({"metadata": {"labels": {"team": "blue"}}}));
    server.until_quiet("cluster/demo");
    assert_eq!(server.names("machines"), before);
}
