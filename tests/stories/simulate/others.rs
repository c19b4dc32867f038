//! Machines that have no Machines, and infrastructure that other controllers manage.

use std::fs;

use serde_json::{Value, json};

use super::{Story, at, cluster, count, documents, embedded, run_up, world, written};

/// A Cluster with three control plane machines and a pool of four.
fn with_pool() -> Value {
    let mut cluster = cluster("demo", 0);
    cluster["spec"]["topology"]["workers"] =
        json!({"machinePools": [{"class": "default-pool", "name": "pool", "replicas": 4}]});
    cluster
}

fn of_pool(machine: &Value) -> bool {
    machine["owner"] == "pool" && machine["controlPlane"] == false
}

#[test]
fn instances_of_pools_are_machines() {
    let story = Story::new();
    story.file("a.yaml", world(&[at(with_pool(), "v1.33.0")]));
    story.file("b.yaml", world(&[at(with_pool(), "v1.34.0")]));
    let created = story.run(&["a.yaml", "-o", "json"]).json();
    assert_eq!(created["summary"]["peakMachines"], 7);
    assert_eq!(count(&created, |machine| of_pool(machine) && machine["running"].is_i64()), 4);
    let upgraded = story.run(&["a.yaml", "--to", "b.yaml", "-o", "json"]).json();
    assert_eq!(upgraded["clusters"][0]["outcome"], "converged");
    for (field, version) in [("gone", "v1.33.0"), ("made", "v1.34.0")] {
        let found = count(&upgraded, |one| of_pool(one) && one[field].is_i64() && one["version"] == version);
        assert_eq!(found, 4, "{field}");
    }
    assert_eq!(upgraded["summary"]["peakMachines"], 8, "one instance more at a time");
    let is_instance = |name: &Value| {
        upgraded["clusters"][0]["machines"].as_array().unwrap().iter().any(|one| of_pool(one) && one["name"] == *name)
    };
    let events = upgraded["clusters"][0]["events"].as_array().unwrap();
    let took = events.iter().filter(|event| is_instance(&event["name"])).map(|event| event["t"].as_i64().unwrap());
    let (first, last) = (took.clone().min().unwrap(), took.max().unwrap());
    assert!(last - first >= 4 * 6, "four instances, one after the other: {first} to {last}");
}

#[test]
fn machines_of_a_pool_that_runs_are_its_instances() {
    let story = Story::new();
    story.file("a.yaml", world(&[at(with_pool(), "v1.33.0")]));
    story.file("b.yaml", world(&[at(with_pool(), "v1.34.0")]));
    run_up(&story, "a.yaml");
    let text = fs::read_to_string(story.folder.path().join("running.yaml")).unwrap();
    let mut objects = documents(&text);
    let pool = objects.iter().find(|object| object["kind"] == "MachinePool").unwrap().clone();
    for object in &mut objects {
        if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
            annotations.retain(|name, _| !name.starts_with("lifecycle.topologist.dev/instances"));
        }
    }
    for number in 0..4 {
        let name = format!("pool-{number}");
        let owner = json!({"apiVersion": pool["apiVersion"], "kind": "MachinePool", "name": pool["metadata"]["name"],
            "uid": pool["metadata"]["uid"], "controller": true});
        let labels = json!({"cluster.x-k8s.io/cluster-name": "demo", "topology.cluster.x-k8s.io/pool-name": "pool"});
        objects.push(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"namespace": "default", "name": name, "uid": format!("uid-of-{name}"), "labels": labels,
                "ownerReferences": [owner]},
            "spec": {"clusterName": "demo", "version": "v1.33.0", "infrastructureRef": {
                "apiGroup": "infrastructure.topologist.dev", "kind": "EmbeddedMachine", "name": name}},
        }));
    }
    story.file("running.yaml", written(&objects));
    let outcome = story.run(&["running.yaml", "--to", "b.yaml", "-o", "json"]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.err, outcome.out);
    let report = outcome.json();
    assert_eq!(count(&report, |machine| of_pool(machine) && machine["made"].is_null()), 4);
    assert_eq!(count(&report, |machine| of_pool(machine) && machine["gone"].is_i64()), 4);
    assert_eq!(report["summary"]["peakMachines"], 8);
}

#[test]
fn infrastructure_of_another_controller_comes_up() {
    // CT-15.13
    let story = Story::new();
    let mut objects = embedded("class.yaml");
    for object in objects.iter_mut().filter(|object| object["kind"] == "EmbeddedClusterTemplate") {
        object["spec"]["template"]["metadata"] = json!({"annotations": {"cluster.x-k8s.io/managed-by": "others"}});
    }
    objects.push(cluster("demo", 1));
    story.file("a.yaml", written(&objects));
    let outcome = story.run(&["a.yaml", "-o", "json"]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.err, outcome.out);
    assert_eq!(outcome.json()["summary"]["peakMachines"], 4);
}
