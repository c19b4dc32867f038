//! Variables that extensions define.

use serde_json::{Value, json};

use super::{Site, message};
use crate::harness::extension::{Reply, patched, variable};
use crate::machines::server::{cluster, condition, workers};

const CONFIG: &str = "spec.template.spec.bootstrap.configRef";

fn defined(name: &str, schema: &Value) -> Value {
    json!({"name": name, "required": false, "schema": {"openAPIV3Schema": schema}})
}

fn format_variable() -> Value {
    defined("format", &json!({"type": "string", "enum": ["cloud-config", "ignition"], "default": "cloud-config"}))
}

#[test]
fn a_discovered_variable_is_checked_defaulted_and_sent_to_its_extension() {
    // RH-11.3, RH-16.1, RH-16.2, RH-17.1, RH-17.2, RH-17.6, RH-17.9, CCR-01, CCR-07
    let site = Site::start();
    site.lab.on("DiscoverVariables", "discover", |_| Reply::success(json!({"variables": [format_variable()]})));
    site.lab
        .on("GeneratePatches", "generate", |request| patched(request, CONFIG, "format", &variable(request, "format")));
    site.register(&json!({}));
    let external = json!({"generatePatchesExtension": "generate.lab", "discoverVariablesExtension": "discover.lab",
        "settings": {"colour": "green"}});
    site.patch_class(&[("remote", external)]);
    let class = site.class();
    let names: Vec<&Value> = class["status"]["variables"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, [&json!("failing"), &json!("format"), &json!("motd")]);
    let definition = &class["status"]["variables"][1]["definitions"];
    assert_eq!((definition.as_array().unwrap().len(), &definition[0]["from"]), (1, &json!("remote")));
    assert_eq!(site.lab.requests_of("discover")[0]["settings"], json!({"colour": "green"}));
    let mut demo = cluster(1, &json!([workers("a", 1)]), &json!([]));
    demo["spec"]["topology"]["variables"] = json!([{"name": "format", "value": "tar"}]);
    let refused = site.server.kubectl.try_give(&demo, &["create"]);
    assert!(refused.err.contains("spec.topology.variables[format].value"), "{refused:?}");
    demo["spec"]["topology"]["variables"] = json!([{"name": "format", "value": "ignition"}]);
    site.server.run_cluster(&demo);
    let request = &site.lab.requests_of("generate")[0];
    let sent: Vec<&Value> = request["variables"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(sent, [&json!("format"), &json!("builtin")], "variables of others are not sent");
    let templates = site.server.list("embeddedconfigtemplates");
    assert!(templates.iter().any(|one| one["spec"]["template"]["spec"]["format"] == "ignition"), "{templates:?}");
    let calls = site.lab.count("discover");
    site.server.kubectl.out(&["annotate", "clusterclass/swift", "round=1"]);
    site.server.until_quiet("clusterclass/swift");
    assert_eq!(site.lab.count("discover"), calls, "the answer is remembered (RH-9.1)");
    site.lab.on("DiscoverVariables", "discover", |_| {
        Reply::success(json!({"variables": [format_variable(), defined("more", &json!({"type": "string"}))]}))
    });
    site.server.merge("extensionconfig/lab", &json!({"spec": {"settings": {"new": "yes"}}}));
    site.server.until("a changed ExtensionConfig is asked again (RH-16.7)", || {
        site.class()["status"]["variables"].as_array().unwrap().len() == 4
    });
}

#[test]
fn clusters_that_new_definitions_break_are_counted_and_named() {
    let site = Site::start();
    site.lab.on("DiscoverVariables", "discover", |_| Reply::success(json!({"variables": [format_variable()]})));
    site.lab.on("ValidateTopology", "validate", |_| Reply::done());
    site.register(&json!({}));
    let external = json!({"validateTopologyExtension": "validate.lab", "discoverVariablesExtension": "discover.lab"});
    site.patch_class(&[("remote", external)]);
    for (name, format) in [("demo", "ignition"), ("other", "cloud-config")] {
        let mut one = cluster(1, &json!([]), &json!([]));
        one["metadata"]["name"] = json!(name);
        one["spec"]["topology"]["variables"] = json!([{"name": "format", "value": format}]);
        site.server.run_cluster(&one);
    }
    let narrow = defined("format", &json!({"type": "string", "enum": ["cloud-config"]}));
    site.lab.on("DiscoverVariables", "discover", move |_| Reply::success(json!({"variables": [narrow.clone()]})));
    site.server.merge("extensionconfig/lab", &json!({"spec": {"settings": {"new": "yes"}}}));
    let broken = || -> Vec<String> {
        let events = site.server.list("events").into_iter();
        let of_class = events
            .filter(|event| event["involvedObject"]["kind"] == "ClusterClass" && event["reason"] == "TopologyBroken");
        of_class
            .map(|event| format!("{} {}", event["type"].as_str().unwrap(), event["message"].as_str().unwrap()))
            .collect()
    };
    site.server.until("the class has an event", || !broken().is_empty());
    let reported = "Warning the variables that extensions define now do not fit 1 Cluster: default/demo; the first of \
        them: spec.topology.variables[format].value: supported values: \"cloud-config\"";
    assert_eq!(broken(), [reported]);
    assert_eq!(site.server.topologist.metric("topologist_broken_by_discovery_total"), Some(1.0));
}

#[test]
fn definitions_that_differ_hold_clusters_until_they_agree() {
    // RH-17.3, RH-17.5, RH-17.7, CCR-08, CCR-10
    let site = Site::start();
    let conflicting = || defined("motd", &json!({"type": "integer"}));
    site.lab.on("DiscoverVariables", "discover", move |_| Reply::success(json!({"variables": [conflicting()]})));
    site.lab.on("GeneratePatches", "generate", |_| Reply::done());
    site.register(&json!({}));
    site.server.run_cluster(&cluster(1, &json!([]), &json!([])));
    let mut patches = site.class()["spec"]["patches"].as_array().unwrap().clone();
    let external = json!({"generatePatchesExtension": "generate.lab", "discoverVariablesExtension": "discover.lab"});
    patches.push(json!({"name": "remote", "external": external}));
    site.server.merge("clusterclass/swift", &json!({"spec": {"patches": patches}}));
    site.server.until("the conflict is reported", || {
        message(&site.class(), "VariablesReady").ends_with("conflicting definitions: motd")
    });
    let class = site.class();
    assert_eq!(condition(&class, "VariablesReady"), ("False".to_owned(), "VariableDiscoveryFailed".to_owned()));
    let motd = class["status"]["variables"].as_array().unwrap().iter().find(|one| one["name"] == "motd").unwrap();
    assert_eq!((&motd["definitionsConflict"], motd["definitions"].as_array().unwrap().len()), (&json!(true), 2));
    assert_ne!(class["status"]["observedGeneration"], class["metadata"]["generation"]);
    site.wait_for("TopologyReconciled", "ReconcileFailed", "");
    site.lab.on("DiscoverVariables", "discover", |_| Reply::done());
    site.server.merge("extensionconfig/lab", &json!({"spec": {"settings": {"new": "yes"}}}));
    site.server.until("the definitions agree", || condition(&site.class(), "VariablesReady").0 == "True");
    site.server.until("the Cluster goes on", || condition(&site.cluster(), "TopologyReconciled").0 == "True");
}

#[test]
fn variables_that_are_invalid_or_not_to_be_had_leave_the_old_ones() {
    // RH-16.3, RH-16.4, RH-16.6
    let site = Site::start();
    site.lab.on("DiscoverVariables", "discover", |_| Reply::success(json!({"variables": [format_variable()]})));
    site.lab.on("GeneratePatches", "generate", |_| Reply::done());
    site.register(&json!({}));
    let external = json!({"generatePatchesExtension": "generate.lab", "discoverVariablesExtension": "discover.lab"});
    site.patch_class(&[("remote", external)]);
    let before = site.class()["status"]["variables"].clone();
    let wrong = |variables: Value| Reply::success(json!({"variables": variables}));
    let replies = [
        (wrong(json!([defined("builtin", &json!({"type": "string"}))])), "is reserved"),
        (wrong(json!([defined("a", &json!({"type": "text"}))])), "Unsupported value"),
        (Reply::failure("closed"), "handler \"discover\" answered Failure: closed"),
        (Reply::Code(503, "busy"), "status 503: busy"),
    ];
    for (round, (reply, words)) in replies.into_iter().enumerate() {
        site.lab.on("DiscoverVariables", "discover", move |_| reply.clone());
        site.server.merge("extensionconfig/lab", &json!({"spec": {"settings": {"round": round.to_string()}}}));
        site.server.until(words, || {
            let reported = message(&site.class(), "VariablesReady");
            reported.starts_with("VariableDiscovery failed: patch \"remote\": ") && reported.contains(words)
        });
        assert_eq!(site.class()["status"]["variables"], before, "{words}");
    }
}

#[test]
fn every_patch_that_defines_a_variable_gets_its_value() {
    // RH-17.1, RH-17.2, RH-17.8, RH-11.4
    let site = Site::start();
    for (patch, more) in [("one", "first"), ("two", "second")] {
        let own = defined(more, &json!({"type": "string", "default": more}));
        site.lab.on("DiscoverVariables", &format!("discover-{patch}"), move |_| {
            Reply::success(json!({"variables": [format_variable(), own.clone()]}))
        });
        site.lab.on("GeneratePatches", &format!("generate-{patch}"), |_| Reply::done());
    }
    site.register(&json!({}));
    let external = |patch: &str| {
        json!({"generatePatchesExtension": format!("generate-{patch}.lab"),
            "discoverVariablesExtension": format!("discover-{patch}.lab")})
    };
    site.patch_class(&[("one", external("one")), ("two", external("two"))]);
    let class = site.class();
    let all = class["status"]["variables"].as_array().unwrap();
    let format = all.iter().find(|one| one["name"] == "format").unwrap();
    let from: Vec<&Value> = format["definitions"].as_array().unwrap().iter().map(|one| &one["from"]).collect();
    assert_eq!((from, &format["definitionsConflict"]), (vec![&json!("one"), &json!("two")], &json!(false)));
    let mut demo = cluster(1, &json!([]), &json!([]));
    demo["spec"]["topology"]["variables"] = json!([{"name": "format", "value": "ignition"}]);
    site.server.run_cluster(&demo);
    for (patch, own, other) in [("one", "first", "second"), ("two", "second", "first")] {
        let request = &site.lab.requests_of(&format!("generate-{patch}"))[0];
        assert_eq!(variable(request, "format"), "ignition");
        assert_eq!((variable(request, own), variable(request, other)), (json!(own), Value::Null));
    }
}
