//! What `simulate --live` foresees of a running Cluster.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::server::{History, TestServer, cluster, condition, is_control_plane, name, version, workers};
use crate::harness::server::command;

/// What `simulate --live` says of the demo Cluster: without a file, of what is still to come.
pub fn foreseen(server: &TestServer, to: Option<&Value>) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let (file, kubeconfig) = (folder.path().join("to.json"), server.kubeconfig.display().to_string());
    let timings = server.timings();
    let mut command =
        command(&["simulate", "--live", "--kubeconfig", &kubeconfig, "--timings", &timings, "-o", "json"]);
    if let Some(to) = to {
        std::fs::write(&file, to.to_string()).unwrap();
        command.arg("--to").arg(&file);
    }
    let output = command.output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}{}", String::from_utf8_lossy(&output.stdout));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["clusters"][0].clone()
}

/// The versions of machines that are new, and how many go: of the control plane, and of workers.
fn changes(foreseen: &Value) -> [(Vec<String>, usize); 2] {
    [true, false].map(|of_control_plane| {
        let machines = foreseen["machines"].as_array().unwrap().iter();
        // Instances of the pool have no Machines.
        let is_counted = |one: &&Value| one["controlPlane"] == of_control_plane && one["owner"] != "p";
        let machines: Vec<&Value> = machines.filter(is_counted).collect();
        let new = machines.iter().filter(|one| one["made"].is_i64());
        let mut new: Vec<(i64, String)> =
            new.map(|one| (one["made"].as_i64().unwrap(), one["version"].as_str().unwrap().to_owned())).collect();
        new.sort();
        let gone = machines.iter().filter(|one| one["gone"].is_i64()).count();
        (new.into_iter().map(|(_, version)| version).collect(), gone)
    })
}

#[test]
fn what_is_foreseen_of_a_running_cluster_then_happens() {
    let server = TestServer::start(&[]);
    let before = cluster(1, &json!([workers("a", 2)]), &json!([{"class": "pool", "name": "p", "replicas": 2}]));
    server.run_cluster(&before);
    server.until_quiet("cluster/demo");
    let versions = || -> BTreeMap<String, String> {
        let all = ["clusters", "machines", "machinesets", "machinedeployments", "embeddedmachines"];
        let of = |kind: &&str| server.list(kind);
        let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        all.iter().flat_map(of).map(|object| (name(&object), version(&object))).collect()
    };
    let stored = versions();
    assert_eq!(foreseen(&server, None)["events"], json!([]), "nothing is left to do");
    let mut after = before;
    after["metadata"]["namespace"] = json!(server.namespace);
    after["spec"]["topology"]["version"] = json!("v1.34.0");
    let foreseen = changes(&foreseen(&server, Some(&after)));
    assert_eq!(versions(), stored, "nothing is written");
    let machines = server.history("machines");
    server.edit_topology(&json!({"version": "v1.34.0"}));
    server.until("all machines have the last version", || {
        server.list("machines").iter().all(|machine| version(machine) == "v1.34.0")
    });
    server.wait("embeddedcontrolplanes --all", "jsonpath={.status.version}=v1.34.0");
    server.wait("cluster/demo", "condition=TopologyReconciled");
    assert!(foreseen.iter().all(|(new, _)| !new.is_empty()));
    assert_eq!(foreseen, seen(&machines, [1, 2]));
}

/// The same as [`changes`], of what has happened; a history begins with the machines that were there.
fn seen(machines: &History, known: [usize; 2]) -> [(Vec<String>, usize); 2] {
    let events = machines.events();
    let of = |kind: &str, of_control_plane: bool| -> Vec<String> {
        let of = events.iter().filter(|(what, one)| what == kind && is_control_plane(one) == of_control_plane);
        of.map(|(_, machine)| version(machine).to_owned()).collect()
    };
    let [of_control_plane, of_workers] = known;
    [(true, of_control_plane), (false, of_workers)]
        .map(|(is_it, known)| (of("ADDED", is_it).split_off(known), of("DELETED", is_it).len()))
}

#[test]
fn templates_that_are_gone_get_successors_as_foreseen() {
    // ROT-13
    let server = TestServer::start(&[]);
    let before = cluster(1, &json!([workers("a", 2)]), &json!([]));
    server.run_cluster(&before);
    server.wait("cluster/demo", "condition=TopologyReconciled");
    server.merge("cluster/demo", &json!({"spec": {"paused": true}}));
    let is_paused = || condition(&server.list("clusters")[0], "TopologyReconciled").1 == "Paused";
    server.until("the Cluster is paused", is_paused);
    let references = || {
        let paths = [
            ("embeddedcontrolplanes", "/spec/machineTemplate/spec/infrastructureRef/name"),
            ("machinedeployments", "/spec/template/spec/infrastructureRef/name"),
            ("machinedeployments", "/spec/template/spec/bootstrap/configRef/name"),
        ];
        paths.map(|(kind, path)| server.list(kind)[0].pointer(path).unwrap().as_str().unwrap().to_owned())
    };
    let gone = references();
    for (kind, name) in
        ["embeddedmachinetemplates", "embeddedmachinetemplates", "embeddedconfigtemplates"].iter().zip(&gone)
    {
        server.kubectl.out(&["delete", kind, name]);
    }
    let mut after = before;
    after["metadata"]["namespace"] = json!(server.namespace);
    after["spec"]["paused"] = json!(false);
    let foreseen = changes(&foreseen(&server, Some(&after)));
    assert_eq!(foreseen.each_ref().map(|(new, gone)| (new.len(), *gone)), [(1, 1), (2, 2)]);
    let plan = planned(&server, &after);
    for name in &gone {
        assert!(plan.contains(&format!("{name:?} is referenced and does not exist")), "{plan}");
    }
    let (old, machines) = (server.names("machines"), server.history("machines"));
    server.merge("cluster/demo", &json!({"spec": {"paused": false}}));
    server.until("all machines are replaced", || {
        let all = server.list("machines");
        all.len() == 3 && all.iter().all(|one| one["status"]["phase"] == "Running" && !old.contains(&name(one)))
    });
    server.wait("cluster/demo", "condition=TopologyReconciled");
    assert_eq!(foreseen, seen(&machines, [1, 2]));
    assert!(references().iter().zip(&gone).all(|(new, old)| new != old));
}

/// What `plan --live` says of the change of the demo Cluster.
fn planned(server: &TestServer, to: &Value) -> String {
    let file = server.path("to.json");
    std::fs::write(&file, to.to_string()).unwrap();
    let kubeconfig = server.kubeconfig.display().to_string();
    let output = command(&["plan", "--live", "--kubeconfig", &kubeconfig, "--to", &file]).output().unwrap();
    let message = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.code().is_some_and(|code| code != 1 && code != 2), "{message}");
    message
}
