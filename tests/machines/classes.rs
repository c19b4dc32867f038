//! Clusters of one class: they differ by their variables, and change alone or together.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::server::{TestServer, cluster, condition, deployment, is_control_plane, name, workers};

const INFRASTRUCTURE: &str = "infrastructure.topologist.dev/v1beta1";

/// Makes the class "shaped": "swift" with a variable that only the control plane uses, and one that gives the
/// infrastructure another shape.
fn make_shaped_class(server: &TestServer) {
    let mut class: Value =
        serde_json::from_str(&server.kubectl.out(&["get", "clusterclass", "swift", "-o", "json"])).unwrap();
    class["metadata"] = json!({"name": "shaped"});
    class.as_object_mut().unwrap().remove("status");
    let variable =
        |name: &str, schema: Value| json!({"name": name, "required": false, "schema": {"openAPIV3Schema": schema}});
    let variables = class["spec"]["variables"].as_array_mut().unwrap();
    variables.push(variable("controlPlaneStartup", json!({"type": "string", "default": "10ms"})));
    variables.push(variable("domains", json!({"type": "array", "items": {"type": "string"}, "default": []})));
    let selector =
        |kind: &str, matched: Value| json!({"apiVersion": INFRASTRUCTURE, "kind": kind, "matchResources": matched});
    let patches = class["spec"]["patches"].as_array_mut().unwrap();
    let startup = "inMemory:\n  vm:\n    provisioning:\n      startupDuration: {{ .controlPlaneStartup }}\n";
    patches.push(json!({"name": "controlPlaneStartup", "definitions": [{
        "selector": selector("EmbeddedMachineTemplate", json!({"controlPlane": true})),
        "jsonPatches": [{"op": "add", "path": "/spec/template/spec/backend", "valueFrom": {"template": startup}}]}]}));
    let domains = "{{ range .domains }}\n- name: {{ . }}\n  controlPlane: true\n{{ end }}";
    patches.push(json!({"name": "domains", "enabledIf": "{{ gt (len .domains) 0 }}", "definitions": [{
        "selector": selector("EmbeddedClusterTemplate", json!({"infrastructureCluster": true})),
        "jsonPatches": [{"op": "add", "path": "/spec/template/spec/failureDomains", "valueFrom": {"template": domains}}]}]}));
    server.kubectl.give(&class, &["create"]);
    server.wait("clusterclass/shaped", "condition=VariablesReady");
}

/// A Cluster of a class with two MachineDeployments and these variables.
fn of_class(class: &str, called: &str, variables: Value) -> Value {
    let mut made = cluster(1, &json!([workers("a", 1), workers("b", 1)]), &json!([]));
    made["metadata"]["name"] = json!(called);
    made["spec"]["topology"]["classRef"]["name"] = json!(class);
    made["spec"]["topology"]["variables"] = variables;
    made
}

/// The objects of a kind that belong to a Cluster.
fn of_cluster(server: &TestServer, kind: &str, cluster: &str) -> Vec<Value> {
    let all = server.list(kind).into_iter();
    all.filter(|one| one["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == cluster).collect()
}

/// The Machines of a Cluster: the uid of each, and whether it belongs to the control plane.
fn machines(server: &TestServer, cluster: &str) -> BTreeMap<String, bool> {
    let uid = |machine: &Value| machine["metadata"]["uid"].as_str().unwrap().to_owned();
    of_cluster(server, "machines", cluster).iter().map(|machine| (uid(machine), is_control_plane(machine))).collect()
}

/// The uids of the Machines of the control plane, or of all others.
fn of_role(machines: &BTreeMap<String, bool>, is_control_plane: bool) -> Vec<&String> {
    machines.iter().filter(|(_, role)| **role == is_control_plane).map(|(uid, _)| uid).collect()
}

/// Waits until no change is left to do, and all Machines of a Cluster run.
#[track_caller]
fn settled(server: &TestServer, cluster: &str, number: usize) {
    server.until(&format!("Cluster {cluster} has {number} Machines that run"), || {
        let all = of_cluster(server, "machines", cluster);
        let done = |one: &Value| one["status"]["phase"] == "Running" && one["metadata"]["deletionTimestamp"].is_null();
        all.len() == number && all.iter().all(done)
    });
    server.until("the topology is reconciled", || {
        let all = server.list("clusters");
        condition(all.iter().find(|one| name(one) == cluster).unwrap(), "TopologyReconciled").0 == "True"
    });
}

#[test]
fn clusters_of_one_class_differ_by_their_variables_and_scale_and_change_alone() {
    // stories 1, 3, 5, 6 and 7 of the proposal of managed topologies
    let server = TestServer::start(&[]);
    make_shaped_class(&server);
    let values = |motd: &str| json!([{"name": "motd", "value": motd}]);
    let [demo, mut other] = ["demo", "other"].map(|called| of_class("shaped", called, values(&format!("in {called}"))));
    let domains = json!({"name": "domains", "value": ["north", "south"]});
    other["spec"]["topology"]["variables"].as_array_mut().unwrap().push(domains);
    server.run_cluster(&demo);
    server.run_cluster(&other);

    // The values arrive at the machines of each Cluster.
    for called in ["demo", "other"] {
        let configs = of_cluster(&server, "embeddedconfigs", called);
        let greeted: Vec<&Value> = configs.iter().filter(|one| one["spec"]["files"].is_array()).collect();
        assert_eq!(greeted.len(), 2, "{configs:#?}");
        let content = format!("in {called}");
        assert!(greeted.iter().all(|one| one["spec"]["files"][1]["content"] == *content), "{greeted:#?}");
    }
    // One Cluster has another shape.
    let in_domain = |called: &str| -> Vec<String> {
        let all = of_cluster(&server, "machines", called).into_iter().filter(is_control_plane);
        all.map(|one| one["spec"]["failureDomain"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(in_domain("demo"), [""]);
    assert!(["north", "south"].contains(&&*in_domain("other")[0]), "{:?}", in_domain("other"));
    let seen = server.kubectl.field("cluster/other", ".status.failureDomains[*].name");
    assert_eq!(seen, "north south");

    // One edit scales two sets of workers, and replaces no Machine.
    let (before, others) = (machines(&server, "demo"), machines(&server, "other"));
    server.edit_topology(&json!({"workers": {"machineDeployments": [workers("a", 3), workers("b", 2)]}}));
    settled(&server, "demo", 6);
    let after = machines(&server, "demo");
    assert!(before.keys().all(|uid| after.contains_key(uid)), "{before:?} {after:?}");
    let all = of_cluster(&server, "machines", "demo");
    let count = |wanted: &str| all.iter().filter(|one| deployment(one) == wanted).count();
    assert_eq!((count("a"), count("b")), (3, 2));

    // A variable of the control plane replaces machines of the control plane alone.
    let startup = json!([{"name": "motd", "value": "in demo"}, {"name": "controlPlaneStartup", "value": "20ms"}]);
    let old = after;
    server.edit_topology(&json!({"variables": startup}));
    server.until("the machine of the control plane is another one", || {
        let now = machines(&server, "demo");
        of_role(&now, true).iter().all(|uid| !old.contains_key(*uid)) && of_role(&now, true).len() == 1
    });
    settled(&server, "demo", 6);
    assert_eq!(of_role(&machines(&server, "demo"), false), of_role(&old, false));
    assert_eq!(machines(&server, "other"), others, "the other Cluster stays as it is");
}

#[test]
fn a_changed_class_rolls_all_its_clusters() {
    // story 4 of the proposal of managed topologies; ROLL-1
    let server = TestServer::start(&[]);
    for called in ["demo", "other"] {
        server.run_cluster(&of_class("swift", called, json!([])));
    }
    let before = ["demo", "other"].map(|called| machines(&server, called));
    let template = json!({"apiVersion": "bootstrap.topologist.dev/v1beta1", "kind": "EmbeddedConfigTemplate",
        "metadata": {"name": "swift-worker-2"},
        "spec": {"template": {"spec": {"files": [{"path": "/etc/issue", "content": "another worker"}]}}}});
    server.kubectl.give(&template, &["create"]);
    let place = "/spec/workers/machineDeployments/0/bootstrap/templateRef/name";
    let edit = json!([{"op": "replace", "path": place, "value": "swift-worker-2"}]).to_string();
    server.kubectl.out(&["patch", "clusterclass", "swift", "--type=json", "-p", &edit]);
    for (called, before) in ["demo", "other"].into_iter().zip(&before) {
        server.until("all workers are others", || {
            let now = machines(&server, called);
            of_role(&now, false).iter().all(|uid| !before.contains_key(*uid)) && of_role(&now, false).len() == 2
        });
        settled(&server, called, 3);
        assert_eq!(of_role(&machines(&server, called), true), of_role(before, true), "{called}");
        let configs = of_cluster(&server, "embeddedconfigs", called);
        let of_workers: Vec<&Value> = configs.iter().filter(|one| one["spec"]["files"].is_array()).collect();
        assert!(of_workers.iter().all(|one| one["spec"]["files"][0]["content"] == "another worker"), "{of_workers:#?}");
    }
}
