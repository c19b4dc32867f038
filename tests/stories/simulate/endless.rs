//! Rollouts without an end are recognized after a number of machines that follows from the size of the Cluster.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{Story, Told, cluster, world};

/// The number of machines that a simulation makes before it stops.
fn made(outcome: &Told) -> usize {
    outcome.json()["clusters"][0]["machines"].as_array().unwrap().len()
}

#[test]
fn certificates_that_expire_before_they_are_issued_do_not_replace_machines_for_ever() {
    let story = Story::new();
    let start = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/quick-start");
    for file in ["class.yaml", "cluster.yaml", "templates.yaml"] {
        let text = fs::read_to_string(start.join(file)).unwrap();
        let kubeadm = "  template:\n    spec:\n      kubeadmConfigSpec:\n        clusterConfiguration:\n";
        let expiring = kubeadm.replace(
            "spec:\n      kubeadm",
            "spec:\n      rollout: {before: {certificatesExpiryDays: 9999}}\n      kubeadm",
        );
        assert!(file != "templates.yaml" || text.contains(kubeadm));
        story.file(file, text.replace(kubeadm, &expiring));
    }
    let outcome = story.run(&["class.yaml", "cluster.yaml", "templates.yaml"]);
    assert_eq!(outcome.code, 1, "{}", outcome.err);
    let stuck = outcome.out.lines().find(|line| line.contains("Stuck: ")).unwrap_or_else(|| panic!("{}", outcome.out));
    assert!(stuck.contains("the machines of demo-") && stuck.ends_with(", without end"), "{stuck}");
    assert!(stuck.contains(" are replaced every "), "{stuck}");
    assert!(outcome.out.contains("help: look at health checks that no machine passes"), "{}", outcome.out);
    let outcome = story.run(&["class.yaml", "cluster.yaml", "templates.yaml", "-o", "json"]);
    assert!(made(&outcome) < 200, "{}", made(&outcome));
}

#[test]
fn a_health_check_that_no_machine_passes_does_not_replace_machines_for_ever() {
    let story = Story::new();
    let checked = |replicas: i64| {
        let mut cluster = cluster("blue", replicas);
        cluster["spec"]["topology"]["workers"]["machineDeployments"][0]["healthCheck"] = json!({
            "enabled": true,
            "checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "True", "timeoutSeconds": 30}]},
            "remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": "100%"}},
        });
        cluster
    };
    story.file("a.yaml", world(&[checked(2)]));
    story.file("b.yaml", world(&[cluster("blue", 2)]));
    let outcome = story.run(&["a.yaml"]);
    assert_eq!(outcome.code, 1, "{}", outcome.err);
    let want = "Stuck: the machines of blue are replaced every ";
    assert!(outcome.out.lines().any(|line| line.contains(want) && line.ends_with(", without end")), "{}", outcome.out);
    // The state before a change may be that of a Cluster whose machines come and go; the change ends it.
    let outcome = story.run(&["a.yaml", "--to", "b.yaml", "-o", "json"]);
    assert!(
        outcome.err.contains("is not rolled out before the change: the machines of blue are replaced"),
        "{}",
        outcome.err
    );
    let report: Value = outcome.json();
    assert_eq!((outcome.code, &report["clusters"][0]["outcome"]), (0, &json!("converged")), "{report}");
}

#[test]
fn a_time_limit_stops_a_simulation() {
    let story = Story::new();
    story.file("a.yaml", world(&[cluster("blue", 2)]));
    let outcome = story.run(&["a.yaml", "--time-limit", "1ms"]);
    assert_eq!(outcome.code, 1, "{}{}", outcome.out, outcome.err);
    for line in [
        "  Stuck: its simulation was stopped before the end",
        "  help: the time of --time-limit is over; a longer one may be enough",
    ] {
        assert!(outcome.out.lines().any(|found| found == line), "{line}: {}", outcome.out);
    }
    let (free, limited) = (story.run(&["a.yaml"]), story.run(&["a.yaml", "--time-limit", "1h"]));
    assert_eq!((limited.code, limited.out), (0, free.out));
    assert_eq!(story.run(&["a.yaml", "--time-limit", "0s"]).code, 2);
}
