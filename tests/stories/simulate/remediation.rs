//! Machines that health checks replace while an upgrade goes through several minor versions.

use serde_json::{Value, json};

use super::{Story, at, cluster, embedded, written};

/// The versions on offer. Workers are at most three minor versions behind, so they stop at the last one but one.
const VERSIONS: [&str; 5] = ["v1.30.0", "v1.31.0", "v1.32.0", "v1.33.0", "v1.34.0"];

/// A Cluster at a version, of a class that offers these.
fn world(version: &str) -> String {
    let mut objects = embedded("class.yaml");
    let class = objects.iter_mut().find(|object| object["kind"] == "ClusterClass").unwrap();
    class["spec"]["kubernetesVersions"] = json!(VERSIONS);
    objects.push(at(cluster("blue", 2), version));
    written(&objects)
}

/// The machines of the report in the order in which they were made.
fn machines(report: &Value) -> Vec<Value> {
    let mut machines = report["clusters"][0]["machines"].as_array().unwrap().clone();
    machines.sort_by_key(|machine| (machine["made"].as_i64(), machine["name"].as_str().unwrap().to_owned()));
    machines
}

#[test]
fn a_machine_that_fails_between_the_steps_of_an_upgrade_is_replaced() {
    // MA-17.2, UP-17
    let story = Story::new();
    story.file("a.yaml", world("v1.30.0"));
    story.file("b.yaml", world("v1.34.0"));
    let run = |more: &[&str]| {
        let outcome = story.run(&[&["a.yaml", "--to", "b.yaml", "-o", "json"], more].concat());
        assert_eq!(outcome.code, 0, "{}{}", outcome.out, outcome.err);
        machines(&outcome.json())
    };
    let healthy = run(&[]);
    for is_control_plane in [false, true] {
        let is_between =
            |machine: &Value| machine["version"] == "v1.33.0" && machine["controlPlane"] == is_control_plane;
        let between = |machines: &[Value]| machines.iter().filter(|machine| is_between(machine)).count();
        // When the machine that fails is gone; it has the same name in both runs.
        let gone = |machines: &[Value]| machines.iter().find(|machine| is_between(machine)).unwrap()["gone"].as_i64();
        let number = 1 + healthy.iter().position(is_between).expect("workers stop at v1.33.0");
        story.file("timings.yaml", format!("failures: [{{machine: {number}, what: nodeReady}}]\n"));
        let replaced = run(&["--timings", "timings.yaml"]);
        if is_control_plane {
            // Its health check fires when the workers have followed: it is replaced by one of the last version.
            assert!(gone(&replaced) < gone(&healthy), "{replaced:?}");
        } else {
            assert_eq!(between(&replaced), between(&healthy) + 1);
        }
        let newest = |machine: &&Value| machine["gone"].is_null() && machine["version"] == "v1.34.0";
        assert_eq!(replaced.iter().filter(newest).count(), 5, "control plane: {is_control_plane}");
    }
}
