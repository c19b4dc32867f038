//! Hooks that hold the deletion of Machines in a running cluster (CT-10.21, MA-9.5, MA-9.9).

use std::fs;

use serde_json::{Value, json};

use super::{Story, count, documents, next_minor, of_others, run_up, written};

const CLEANUP: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup";

fn is_of_control_plane(object: &Value) -> bool {
    object["kind"] == "Machine" && object["metadata"]["labels"].get("cluster.x-k8s.io/control-plane").is_some()
}

/// A running Cluster of KubeadmControlPlane as its provider leaves it, in `running.yaml`, and its next minor version in
/// `after.yaml`.
fn running(hook: impl Fn(&mut Value)) -> Story {
    let story = Story::new();
    let (before, after) = next_minor("docker");
    story.file("before.yaml", before);
    story.file("after.yaml", after);
    run_up(&story, "before.yaml");
    let text = fs::read_to_string(story.folder.path().join("running.yaml")).unwrap();
    let mut objects: Vec<Value> = documents(&text).into_iter().map(of_others).collect();
    for object in objects.iter_mut().filter(|object| object["kind"] == "Machine") {
        if is_of_control_plane(object) {
            object["metadata"]["annotations"][CLEANUP] = json!("");
        }
        hook(object);
    }
    story.file("running.yaml", written(&objects));
    story
}

#[test]
fn a_kubeadm_control_plane_lets_its_machines_go() {
    let story = running(|_| {});
    let outcome = story.run(&["running.yaml", "--to", "after.yaml", "-o", "json"]);
    assert_eq!(outcome.code, 0, "{}{}", outcome.err, outcome.out);
    let of_control_plane = |machine: &Value| machine["controlPlane"] == true;
    let report = outcome.json();
    let [gone, made] = ["gone", "made"].map(|field| count(&report, |it| of_control_plane(it) && it[field].is_i64()));
    assert!(gone > 0 && gone == made, "{gone} are gone, {made} are made");
}

#[test]
fn a_hook_of_another_controller_holds_and_the_reason_names_who_removes_it() {
    for (hook, value, who) in [
        ("pre-drain.delete.hook.machine.cluster.x-k8s.io/backup", "backup-operator", "\"backup-operator\" has"),
        ("pre-terminate.delete.hook.machine.cluster.x-k8s.io/volumes", "", "the controller that has set it has"),
    ] {
        let story = running(|machine| {
            if is_of_control_plane(machine) {
                machine["metadata"]["annotations"][hook] = json!(value);
            }
        });
        let outcome = story.run(&["running.yaml", "--to", "after.yaml", "-o", "json", "--now", "2030-01-01T00:00:00Z"]);
        assert_eq!(outcome.code, 1, "{hook}: {}{}", outcome.err, outcome.out);
        let report = outcome.json();
        let cluster = &report["clusters"][0];
        let reason = cluster["reason"].as_str().unwrap();
        let holds = format!("the annotation {hook} holds its deletion since 2030-01-01T00:0");
        assert!(reason.starts_with("Machine ") && reason.contains(&holds), "{reason}");
        assert!(reason.ends_with(&format!("; {who} to remove it")), "{reason}");
        let way_out = cluster["wayOut"].as_str().unwrap();
        assert!(way_out.contains("the controller that removes the annotation"), "{way_out}");
    }
}
