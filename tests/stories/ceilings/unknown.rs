//! Edits whose effect is not computed: all machines of the Clusters count.

use super::*;

const TEMPLATE: &str = "embeddedconfigtemplate/swift-worker";

/// Adds a patch that no template fits.
fn break_class(class: &mut Value) {
    let selector = json!({
        "apiVersion": "bootstrap.topologist.dev/v1beta1", "kind": "EmbeddedConfigTemplate",
        "matchResources": {"machineDeploymentClass": {"names": ["worker"]}},
    });
    let operations = json!([{"op": "remove", "path": "/spec/template/spec/nothing"}]);
    let broken = json!({"name": "broken", "definitions": [{"selector": selector, "jsonPatches": operations}]});
    class["spec"]["patches"].as_array_mut().unwrap().push(broken);
}

#[test]
fn a_class_that_is_corrected_with_another_change_is_held() {
    // E8: DEC-59
    let fleet = Fleet::start();
    let before = fleet.machines("a");
    let message = held(&fleet.edit(CLASS, break_class));
    assert!(message.contains("may replace or remove up to 3 machines in 1 Cluster"), "{message}");
    assert!(
        message.contains("the topology of Cluster default/demo cannot be computed: ") && message.contains("broken"),
        "{message}"
    );
    assert!(message.contains("topologist.dev/approved-impact: \"3 <reason>\""), "{message}");
    fleet.server.until_quiet("cluster/demo");
    fleet.approve(CLASS, "3 CHG0001", break_class);
    let restored = fleet.dry_run(CLASS, |class| drop(class["spec"]["patches"].as_array_mut().unwrap().pop()));
    assert_eq!(restored.code, 0, "it is what was rolled out: {restored:#?}");
    let corrected = |class: &mut Value| {
        class["spec"]["patches"].as_array_mut().unwrap().pop();
        greets(class, "another");
    };
    let message = held(&fleet.edit(CLASS, corrected));
    assert!(message.contains("its approval is that of an earlier edit"), "{message}");
    assert_eq!(fleet.machines("a"), before);
    fleet.approve(CLASS, "3 CHG0002", corrected);
    fleet.until_replaced("a", &before);
}

#[test]
fn a_class_that_names_a_missing_template_is_held_and_so_is_the_template() {
    // E9: DEC-59
    let fleet = Fleet::start();
    let before = fleet.machines("a");
    let names_missing = |class: &mut Value| {
        class["spec"]["workers"]["machineDeployments"][0]["bootstrap"]["templateRef"]["name"] = json!("missing");
    };
    let message = held(&fleet.edit(CLASS, names_missing));
    assert!(
        message.contains("up to 3 machines") && message.contains("EmbeddedConfigTemplate default/missing"),
        "{message}"
    );
    fleet.approve(CLASS, "3 CHG0001", names_missing);
    let mut missing = fleet.stored(TEMPLATE);
    missing["metadata"] = json!({"name": "missing"});
    missing["spec"]["template"]["spec"]["files"] = json!([{"path": "/etc/issue", "content": "another"}]);
    let message = held(&fleet.server.kubectl.try_give(&missing, &["create"]));
    assert!(message.contains("EmbeddedConfigTemplate default/missing in the same edit"), "{message}");
    missing["metadata"]["annotations"] = json!({APPROVAL: "3 CHG0002"});
    fleet.server.kubectl.give(&missing, &["create"]);
    fleet.until_replaced("a", &before);
}

#[test]
fn a_template_that_is_created_anew_with_other_content_is_held() {
    // E10: DEC-59
    let fleet = Fleet::start();
    let before = fleet.machines("a");
    let mut template = fleet.stored(TEMPLATE);
    fleet.server.until_quiet("cluster/demo");
    let unsafe_deletion = "unsafe.topologist.dev/delete-template-in-use=";
    fleet.server.kubectl.out(&["annotate", TEMPLATE, unsafe_deletion]);
    fleet.server.kubectl.out(&["delete", TEMPLATE]);
    template["metadata"] = json!({"name": "swift-worker"});
    let same = fleet.server.kubectl.try_give(&template, &["create", "--dry-run=server"]);
    assert_eq!(same.code, 0, "it is what was rolled out: {same:#?}");
    template["spec"]["template"]["spec"]["files"] = json!([{"path": "/etc/issue", "content": "another"}]);
    let message = held(&fleet.server.kubectl.try_give(&template, &["create"]));
    assert!(message.contains("up to 3 machines in 1 Cluster"), "{message}");
    template["metadata"]["annotations"] = json!({APPROVAL: "3 CHG0001"});
    fleet.server.kubectl.give(&template, &["create"]);
    fleet.until_replaced("a", &before);
}

#[test]
fn with_warnings_alone_for_what_is_not_known_nothing_of_it_is_held() {
    // DEC-59
    let server =
        TestServer::start(&["--max-replaced-machines", "1", "--impact-time", "20s", "--impact-unknown", "warn"]);
    server.run_cluster(&cluster(1, &json!([workers("a", 2)]), &json!([])));
    let fleet = Fleet { server };
    let outcome = fleet.edit(CLASS, break_class);
    assert!(outcome.code == 0 && outcome.err.contains("breaks the topology of 1 Cluster"), "{outcome:#?}");
    assert!(outcome.err.contains("Warning: Cluster default/demo: "), "the reason: {outcome:#?}");
}
