//! External patches and validation in the controller of topologies.

use serde_json::{Value, json};

use super::Site;
use crate::harness::extension::{Reply, patched};
use crate::machines::server::{cluster, workers};

const CONFIG: &str = "spec.template.spec.bootstrap.configRef";

fn external() -> Value {
    json!({"generatePatchesExtension": "generate.lab", "validateTopologyExtension": "validate.lab"})
}

/// The extension sets the format of bootstrap data.
fn patching() -> Site {
    let site = Site::start();
    site.lab.on("GeneratePatches", "generate", |request| patched(request, CONFIG, "format", &json!("ignition")));
    site.lab.on("ValidateTopology", "validate", |_| Reply::done());
    site.register(&json!({"settings": {"place": "cellar"}}));
    site.patch_class(&[("remote", external())]);
    site
}

fn demo() -> Value {
    cluster(1, &json!([workers("a", 1), workers("b", 1)]), &json!([]))
}

#[test]
fn patches_reach_the_objects_and_are_requested_once() {
    // RH-3.5, RH-8.1, RH-12.6, RH-23.5, PE-23, PE-29
    let site = patching();
    site.server.run_cluster(&demo());
    let templates = site.server.list("embeddedconfigtemplates");
    let made = templates.iter().filter(|one| one["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == "demo");
    let formats: Vec<&Value> = made.map(|one| &one["spec"]["template"]["spec"]["format"]).collect();
    assert_eq!(formats, [&json!("ignition"), &json!("ignition")]);
    let request = &site.lab.requests_of("generate")[0];
    assert_eq!(request["settings"], json!({"place": "cellar"}));
    assert_eq!(request["items"].as_array().unwrap().len(), 7, "three of the cluster, and two for each deployment");
    let calls = (site.lab.count("generate"), site.lab.count("validate"));
    // Equal questions have been answered: annotations of the Cluster are part of none.
    for round in 0..3 {
        site.server.kubectl.out(&["label", "machinedeployments", "--all", "--overwrite", &format!("round={round}")]);
        for deployment in site.server.names("machinedeployments") {
            site.server.until_quiet(&format!("machinedeployment/{deployment}"));
        }
    }
    assert_eq!((site.lab.count("generate"), site.lab.count("validate")), calls);
    site.server.edit_topology(&json!({"controlPlane": {"replicas": 3}}));
    site.server.wait("cluster/demo", "jsonpath={.status.controlPlane.readyReplicas}=3");
    let after = (site.lab.count("generate"), site.lab.count("validate"));
    assert!(after.0 > calls.0, "the replicas are a variable of the request");
    let seen: std::collections::BTreeSet<String> =
        site.lab.requests_of("generate").iter().map(Value::to_string).collect();
    assert_eq!(seen.len(), after.0, "no request is sent twice");
}

#[test]
fn a_refusal_is_reported_and_changes_nothing() {
    // RH-5.4, RH-12.7, RH-15.4, RH-24.1
    let site = patching();
    site.server.run_cluster(&demo());
    site.lab.on("ValidateTopology", "validate", |_| Reply::failure("the cellar is full"));
    site.server.edit_topology(&json!({"controlPlane": {"replicas": 3}}));
    site.wait_for("TopologyReconciled", "ReconcileFailed", "the cellar is full");
    site.wait_for("TopologyReconciled", "ReconcileFailed", "remote");
    assert_eq!(site.cluster()["status"]["controlPlane"]["desiredReplicas"], 1);
    site.lab.on("ValidateTopology", "validate", |_| Reply::done());
    site.server.wait("cluster/demo", "jsonpath={.status.controlPlane.readyReplicas}=3");
}

#[test]
fn every_way_to_fail_is_in_the_condition() {
    // RH-4.6, RH-4.8, RH-4.9, RH-4.10, RH-5.3, RH-7.4
    let site = patching();
    site.server.run_cluster(&cluster(1, &json!([]), &json!([])));
    let ways = [
        (Reply::Code(500, "out of order"), "status 500: out of order"),
        (Reply::Garbage, "expected value"),
        (Reply::Redirect, "status 307"),
        (Reply::Hang, "no answer within 2s"),
        (Reply::TooMuch, "longer than 20971520 bytes"),
        (Reply::Json(json!({"status": "Fine"})), "unknown status \"Fine\""),
    ];
    for (round, (way, words)) in ways.into_iter().enumerate() {
        site.lab.on("GeneratePatches", "generate", move |_| way.clone());
        // A new question, and the start of a new run.
        site.server.merge("cluster/demo", &json!({"metadata": {"labels": {"round": round.to_string()}}}));
        site.wait_for("TopologyReconciled", "ReconcileFailed", words);
    }
    assert_eq!(site.lab.count("elsewhere"), 0, "a redirect is not followed");
}

#[test]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are small")]
fn calls_are_counted_by_hook_and_outcome() {
    // PERF-10
    let site = patching();
    site.server.run_cluster(&demo());
    let counted = |labels: &str| {
        let value = site.server.topologist.metric(&format!("topologist_extension_requests_total{{{labels}}}"));
        value.unwrap_or_default() as usize
    };
    let answered = |hook: &str| counted(&format!("hook=\"{hook}\",outcome=\"answered\""));
    assert_eq!(answered("Discovery"), site.lab.count("discovery"));
    assert_eq!(answered("GeneratePatches"), site.lab.count("generate"));
    assert_eq!(answered("ValidateTopology"), site.lab.count("validate"));
    let duration = |hook: &str| {
        site.server
            .topologist
            .metric(&format!("topologist_extension_request_duration_seconds_count{{hook=\"{hook}\"}}"))
    };
    assert_eq!(duration("GeneratePatches").unwrap_or_default() as usize, site.lab.count("generate"));
    let before = site.lab.count("generate");
    site.lab.on("GeneratePatches", "generate", |_| Reply::Code(500, "out of order"));
    site.server.merge("cluster/demo", &json!({"metadata": {"labels": {"round": "1"}}}));
    site.wait_for("TopologyReconciled", "ReconcileFailed", "status 500");
    assert!(site.lab.count("generate") > before);
    let (_, metrics) = site.server.topologist.admin_get("/metrics");
    let failed = |line: &&str| {
        line.starts_with("topologist_extension_requests_total{hook=\"GeneratePatches\"") && !line.contains("answered")
    };
    assert!(metrics.lines().any(|line| failed(&line)), "{metrics}");
}
