//! Edits whose machines go at a time that is to come, by what machines report, or by labels.

use super::*;

const CONTROL_PLANE: &str = "embeddedcontrolplanetemplate/swift";
const CLUSTER: &str = "cluster/demo";

/// A point in time that many seconds from now.
fn in_seconds(seconds: i64) -> String {
    let time = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[test]
fn a_time_of_a_control_plane_template_that_is_to_come_is_held() {
    // E1: DEC-59, ROLL-6
    let fleet = Fleet::start_with(&cluster(3, &json!([workers("a", 2)]), &json!([])));
    let before = fleet.machines("");
    let soon = in_seconds(5);
    let later = |template: &mut Value| template["spec"]["template"]["spec"]["rollout"] = json!({"after": soon});
    let message = held(&fleet.edit(CONTROL_PLANE, later));
    assert!(message.contains("replaces or removes 3 machines in 1 of 1 Cluster"), "{message}");
    fleet.approve(CONTROL_PLANE, "3 CHG0001", later);
    fleet.until_replaced("", &before);
}

#[test]
fn a_time_of_a_topology_that_is_to_come_is_held() {
    // E2: DEC-59, ROLL-6, ROLL-10
    let fleet = Fleet::start_with(&cluster(3, &json!([workers("a", 2)]), &json!([])));
    let before = [fleet.machines(""), fleet.machines("a")];
    let soon = in_seconds(5);
    let later = |cluster: &mut Value| {
        let topology = &mut cluster["spec"]["topology"];
        topology["controlPlane"]["rollout"] = json!({"after": soon});
        topology["workers"]["machineDeployments"][0]["rollout"] = json!({"after": soon});
    };
    let message = held(&fleet.edit(CLUSTER, later));
    assert!(message.contains("replaces or removes 5 machines in 1 of 1 Cluster"), "{message}");
    fleet.approve(CLUSTER, "5 CHG0001", later);
    fleet.until_replaced("", &before[0]);
    fleet.until_replaced("a", &before[1]);
}

#[test]
fn a_label_of_cluster_api_that_a_patch_reads_is_held() {
    // E5: DEC-59
    let fleet = Fleet::start();
    let before = fleet.machines("a");
    let label = "site.cluster.x-k8s.io/name";
    let template =
        format!("path: /etc/motd\ncontent: 'at {{{{ index .builtin.cluster.metadata.labels \"{label}\" }}}}'\n");
    let reads = |class: &mut Value| {
        class["spec"]["patches"][0]["definitions"][0]["jsonPatches"][0]["valueFrom"] = json!({"template": template});
    };
    fleet.approve(CLASS, "2 CHG0001", reads);
    fleet.until_replaced("a", &before);
    fleet.server.wait("machinedeployments --all", "jsonpath={.status.upToDateReplicas}=2");
    let before = fleet.machines("a");
    let labelled = |cluster: &mut Value| cluster["metadata"]["labels"][label] = json!("north");
    let message = held(&fleet.edit(CLUSTER, labelled));
    assert!(message.contains("replaces or removes 2 machines in 1 of 1 Cluster"), "{message}");
    fleet.approve(CLUSTER, "2 CHG0002", labelled);
    fleet.until_replaced("a", &before);
}

#[test]
fn a_health_check_that_calls_all_nodes_unhealthy_is_held() {
    // E4: DEC-59, ROLL-17
    let fleet = Fleet::start();
    let unhealthy = |class: &mut Value| {
        let check = &mut class["spec"]["workers"]["machineDeployments"][0]["healthCheck"];
        check["checks"]["unhealthyNodeConditions"] = json!([{"type": "Ready", "status": "True", "timeoutSeconds": 0}]);
        check["remediation"]["triggerIf"]["unhealthyLessThanOrEqualTo"] = json!("100%");
    };
    let message = held(&fleet.edit(CLASS, unhealthy));
    assert!(message.contains("2 machines in 1"), "{message}");
    let before = fleet.machines("a");
    fleet.approve(CLASS, "2 CHG0001", unhealthy);
    fleet.server.until("a machine is remediated", || !before.is_subset(&fleet.machines("a")));
}
