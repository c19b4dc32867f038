use serde_json::json;

use super::super::class_variables::{Discovered, VariableDiscoveryError};
use super::*;
use model::hub::ClusterClass;
use model::variables::status_variables;
use model::wire::Decode;

const EARLIER: &str = "2026-01-01T00:00:00Z";
const NOW: &str = "2026-02-02T00:00:00Z";

fn class(spec: Value, status: Value) -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
        "metadata": {"name": "c", "namespace": "ns", "generation": 3}, "spec": spec, "status": status})
}

fn hub(class: &Value) -> ClusterClass {
    let version = WireVersion::from_api_version(class["apiVersion"].as_str().unwrap()).unwrap();
    ClusterClass::decode(version, &class.to_string()).unwrap()
}

fn settled(class: &Value) -> ClassVariables {
    ClassVariables::from_class(class, &[])
}

fn up_to_date() -> References {
    References::Checked(Vec::new())
}

fn find<'a>(list: &'a Value, r#type: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|entry| entry["type"] == r#type).unwrap()
}

/// Variables in no order, one of them twice, with what only raw JSON keeps.
fn variables() -> Value {
    json!([
        {"name": "b", "required": true, "schema": {"openAPIV3Schema": {"type": "object",
            "x-of-tomorrow": {"z": 1, "a": [null]}, "default": {"n": null, "f": 1.5}}}},
        {"name": "a", "required": false, "deprecatedV1Beta1Metadata": {"labels": {"l": "1"}},
            "schema": {"openAPIV3Schema": {"type": "string", "enum": ["x", null]}}},
        {"name": "b", "required": false, "schema": {"openAPIV3Schema": {"type": "integer"}}},
    ])
}

#[test]
fn inline_variables_are_copied_to_the_letter_and_sorted() {
    // CCR-06, CCR-09
    let class = class(json!({"variables": variables()}), json!(null));
    let status = reconciled(&class, &up_to_date(), &settled(&class), NOW);
    let want = json!([
        {"name": "a", "definitionsConflict": false, "definitions": [{"from": "inline", "required": false,
            "deprecatedV1Beta1Metadata": {"labels": {"l": "1"}},
            "schema": {"openAPIV3Schema": {"type": "string", "enum": ["x", null]}}}]},
        {"name": "b", "definitionsConflict": false, "definitions": [{"from": "inline", "required": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-of-tomorrow": {"z": 1, "a": [null]},
                "default": {"n": null, "f": 1.5}}}}]},
    ]);
    assert_eq!(status["variables"], want);
}

#[test]
fn the_written_status_equals_the_one_that_admission_computes() {
    // CCR-06, DEC-2
    for spec in [json!({"variables": variables()}), json!({}), json!({"variables": null}), json!({"variables": [{}]})] {
        let mut class = class(spec, json!({"variables": [{"name": "former"}]}));
        let computed = status_variables(&hub(&class).spec);
        class["status"] = reconciled(&class, &up_to_date(), &settled(&class), NOW);
        assert_eq!(&*hub(&class).status.variables, &*computed, "{class}");
        assert!(hub(&class).is_reconciled());
    }
}

#[test]
fn success_is_reported_in_both_forms() {
    // CCR-10, CCR-11, CCR-12
    let class = class(json!({}), json!({}));
    let status = reconciled(&class, &up_to_date(), &settled(&class), NOW);
    let want = json!({
        "observedGeneration": 3,
        "conditions": [
            {"type": "VariablesReady", "status": "True", "reason": "VariablesReady", "message": "",
                "observedGeneration": 3, "lastTransitionTime": NOW},
            {"type": "RefVersionsUpToDate", "status": "True", "reason": "RefVersionsUpToDate", "message": "",
                "observedGeneration": 3, "lastTransitionTime": NOW},
        ],
        "deprecated": {"v1beta1": {"conditions": [
            {"type": "VariablesReconciled", "status": "True", "lastTransitionTime": NOW},
            {"type": "RefVersionsUpToDate", "status": "True", "lastTransitionTime": NOW},
        ]}},
    });
    assert_eq!(status, want);
}

#[test]
fn outdated_references_are_named_and_block_nothing() {
    // CCR-05, CCR-10, CCR-11, CT-4.5
    let outdated = |name: &str| OutdatedReference {
        kind: "ATemplate".into(),
        name: name.into(),
        current: "v1beta1".into(),
        latest: "v1beta2".into(),
    };
    let class = class(json!({}), json!({}));
    let references = References::Checked(vec![outdated("b"), outdated("a")]);
    let status = reconciled(&class, &references, &settled(&class), NOW);
    let message = "The following references do not name the latest version:\n\
        * ATemplate b: current: v1beta1, latest: v1beta2\n* ATemplate a: current: v1beta1, latest: v1beta2";
    let want = json!({"type": "RefVersionsUpToDate", "status": "False", "reason": "RefVersionsNotUpToDate",
        "message": message, "observedGeneration": 3, "lastTransitionTime": NOW});
    assert_eq!(find(&status["conditions"], "RefVersionsUpToDate"), &want);
    let want = json!({"type": "RefVersionsUpToDate", "status": "False", "severity": "Warning",
        "reason": "OutdatedRefVersions", "message": message, "lastTransitionTime": NOW});
    assert_eq!(find(&status["deprecated"]["v1beta1"]["conditions"], "RefVersionsUpToDate"), &want);
    assert_eq!(status["observedGeneration"], 3);
}

#[test]
fn references_that_fail_keep_the_observed_generation() {
    // CCR-10, CCR-11
    let class = class(json!({"variables": variables()}), json!({"observedGeneration": 2}));
    let status = reconciled(&class, &failed(&[], true), &settled(&class), NOW);
    assert_eq!(status["observedGeneration"], 2);
    let condition = find(&status["conditions"], "RefVersionsUpToDate");
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("Unknown"), &json!("InternalError")));
    let legacy = find(&status["deprecated"]["v1beta1"]["conditions"], "RefVersionsUpToDate");
    assert_eq!((&legacy["status"], &legacy["reason"]), (&json!("Unknown"), &json!("InternalError")));
    assert_eq!(condition["message"], "Please check the logs of the controller for errors");
    assert_eq!(find(&status["conditions"], "VariablesReady")["status"], "True");
    assert_eq!(status["variables"].as_array().unwrap().len(), 2);
    // What does not exist is named.
    let missing = ["CustomResourceDefinition a.example.com does not exist", "b"];
    let status = reconciled(&class, &failed(&missing, false), &settled(&class), NOW);
    let message = "Some references cannot be resolved: CustomResourceDefinition a.example.com does not exist; b";
    for conditions in [&status["conditions"], &status["deprecated"]["v1beta1"]["conditions"]] {
        assert_eq!(find(conditions, "RefVersionsUpToDate")["message"], message);
    }
    let status = reconciled(&class, &failed(&["a"], true), &settled(&class), NOW);
    let message = "Some references cannot be resolved: a. For others, see the log of the controller";
    assert_eq!(find(&status["conditions"], "RefVersionsUpToDate")["message"], message);
}

/// References of which these do not exist.
fn failed(missing: &[&str], has_others: bool) -> References {
    References::Failed { missing: missing.iter().map(|reason| (*reason).to_owned()).collect(), has_others }
}

#[test]
fn classes_with_discovered_variables_keep_their_old_variables() {
    // CCR-07, CCR-09, CCR-10, CCR-12
    let external = |extension: &str| json!({"name": "p", "external": {"discoverVariablesExtension": extension}});
    let spec = json!({"variables": variables(), "patches": [external("discover.x"), {"name": "q"}, external("")]});
    let old = json!([{"name": "old", "definitions": [{"from": "p", "required": false, "schema": {}}]}]);
    let class = class(spec, json!({"observedGeneration": 2, "variables": old}));
    let discovered =
        [Discovered { patch: "p".to_owned(), variables: Err(VariableDiscoveryError::NoAnswer("refused".to_owned())) }];
    let status = reconciled(&class, &up_to_date(), &ClassVariables::from_class(&class, &discovered), NOW);
    assert_eq!((&status["observedGeneration"], &status["variables"]), (&json!(2), &old));
    let message = "VariableDiscovery failed: patch \"p\": refused";
    let condition = find(&status["conditions"], "VariablesReady");
    assert_eq!(condition["status"], "False");
    assert_eq!((&condition["reason"], &condition["message"]), (&json!("VariableDiscoveryFailed"), &json!(message)));
    let want = json!({"type": "VariablesReconciled", "status": "False", "severity": "Error",
        "reason": "VariableDiscoveryFailed", "message": message, "lastTransitionTime": NOW});
    assert_eq!(find(&status["deprecated"]["v1beta1"]["conditions"], "VariablesReconciled"), &want);
    assert_eq!(find(&status["conditions"], "RefVersionsUpToDate")["status"], "True");
}

#[test]
fn reconciling_again_changes_nothing_and_times_are_those_of_changes() {
    let mut class = class(json!({"variables": variables()}), json!({}));
    class["status"] = reconciled(&class, &failed(&[], true), &settled(&class), EARLIER);
    let failed = failed(&[], true);
    assert_eq!(reconciled(&class, &failed, &settled(&class), NOW), class["status"], "nothing changed");
    class["status"] = reconciled(&class, &up_to_date(), &settled(&class), NOW);
    let times = |list: &Value, names: [&str; 2]| names.map(|name| find(list, name)["lastTransitionTime"].clone());
    let conditions = &class["status"]["conditions"];
    assert_eq!(times(conditions, ["VariablesReady", "RefVersionsUpToDate"]), [EARLIER, NOW]);
    let legacy = &class["status"]["deprecated"]["v1beta1"]["conditions"];
    assert_eq!(times(legacy, ["VariablesReconciled", "RefVersionsUpToDate"]), [EARLIER, NOW]);
    // A new generation is noted without being a transition.
    class["metadata"]["generation"] = json!(4);
    let status = reconciled(&class, &up_to_date(), &settled(&class), "2026-03-03T00:00:00Z");
    let ready = find(&status["conditions"], "VariablesReady");
    assert_eq!((&ready["observedGeneration"], &ready["lastTransitionTime"]), (&json!(4), &json!(EARLIER)));
    assert_eq!(status["observedGeneration"], 4);
}

#[test]
fn a_status_that_was_written_down_without_false_booleans_is_the_same() {
    // CONV-002
    let class = class(json!({"variables": variables()}), json!(null));
    let status = reconciled(&class, &up_to_date(), &settled(&class), NOW);
    let mut stored = status.clone();
    stored["variables"][0].as_object_mut().unwrap().remove("definitionsConflict");
    assert!(is_equivalent(Some(&stored), &status));
    stored["variables"][0]["definitionsConflict"] = json!(true);
    assert!(!is_equivalent(Some(&stored), &status));
    assert!(!is_equivalent(None, &status));
    assert!(is_equivalent(None, &json!({})) && is_equivalent(Some(&Value::Null), &json!({})));
}

#[test]
fn fields_of_others_in_the_status_stay() {
    let theirs = json!({"type": "Theirs", "status": "False", "reason": "R", "message": "m",
        "lastTransitionTime": EARLIER, "odd": 1});
    let class = class(
        json!({}),
        json!({"ofTomorrow": {"a": [1]}, "conditions": [theirs],
            "deprecated": {"v1beta1": {"conditions": [theirs], "x": 1}, "v0": {}}}),
    );
    let status = reconciled(&class, &up_to_date(), &settled(&class), NOW);
    assert_eq!(status["ofTomorrow"], json!({"a": [1]}));
    assert_eq!(status["conditions"][0], theirs);
    assert_eq!((&status["deprecated"]["v1beta1"]["x"], &status["deprecated"]["v0"]), (&json!(1), &json!({})));
    assert_eq!(status["deprecated"]["v1beta1"]["conditions"][0], theirs);
}

#[test]
fn paused_is_reported_and_a_new_generation_does_not_change_its_time() {
    // CCR-02, CT-15.12
    let mut class = class(json!({}), json!({}));
    assert!(!is_paused(&class) && !reports_paused(&class));
    class["status"] = with_paused(&class, EARLIER);
    assert!(reports_paused(&class));
    let condition = find(&class["status"]["conditions"], "Paused");
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("NotPaused")));
    class["metadata"]["generation"] = json!(9);
    assert!(reports_paused(&class));
    let status = reconciled(&class, &up_to_date(), &settled(&class), NOW);
    let condition = find(&status["conditions"], "Paused");
    assert_eq!((&condition["observedGeneration"], &condition["lastTransitionTime"]), (&json!(9), &json!(EARLIER)));
    class["metadata"]["annotations"] = json!({PAUSED_ANNOTATION: ""});
    assert!(is_paused(&class) && !reports_paused(&class));
    class["status"] = with_paused(&class, NOW);
    let want = json!({"type": "Paused", "status": "True", "reason": "Paused", "observedGeneration": 9,
        "message": "ClusterClass has the cluster.x-k8s.io/paused annotation", "lastTransitionTime": NOW});
    assert_eq!(find(&class["status"]["conditions"], "Paused"), &want);
    assert!(class["status"].get("deprecated").is_none());
}

#[test]
fn messages_fit_the_limit_of_the_api() {
    let outdated = (0..500).map(|n| OutdatedReference {
        kind: "K".repeat(63),
        name: format!("name-{n}"),
        current: "v1beta1".into(),
        latest: "v1beta2".into(),
    });
    let class = class(json!({}), json!({}));
    let status = reconciled(&class, &References::Checked(outdated.collect()), &settled(&class), NOW);
    let message = find(&status["conditions"], "RefVersionsUpToDate")["message"].as_str().unwrap();
    assert!(message.len() <= 10_240 && message.len() > 10_000, "{}", message.len());
    assert!(message.ends_with(" more)"), "{message}");
    let status = reconciled(&class, &up_to_date(), &ClassVariables::Undiscovered("ä".repeat(20_000)), NOW);
    let message = find(&status["conditions"], "VariablesReady")["message"].as_str().unwrap();
    assert!(message.len() <= 10_240 && message.ends_with('…'), "{}", message.len());
}

#[test]
fn a_class_beyond_its_budget_says_so_and_keeps_the_old_variables() {
    // DEC-44
    let old = json!([{"name": "old", "definitions": [{"from": "inline", "required": false, "schema": {}}]}]);
    let class = class(json!({"variables": variables()}), json!({"observedGeneration": 2, "variables": old}));
    let excess = ClassVariables::Unreadable("variables[a] has too many values".to_owned());
    let status = reconciled(&class, &up_to_date(), &excess, NOW);
    assert_eq!((&status["observedGeneration"], &status["variables"]), (&json!(2), &old));
    let message = "ClusterClass cannot be read: variables[a] has too many values";
    for (conditions, r#type) in [
        (&status["conditions"], "VariablesReady"),
        (&status["deprecated"]["v1beta1"]["conditions"], "VariablesReconciled"),
    ] {
        let condition = find(conditions, r#type);
        let said = (&condition["status"], &condition["reason"], &condition["message"]);
        assert_eq!(said, (&json!("False"), &json!("ClusterClassUnreadable"), &json!(message)));
    }
}

#[test]
fn a_status_of_any_shape_causes_no_panic() {
    for status in [
        json!(5),
        json!("x"),
        json!([]),
        json!({"conditions": 5, "deprecated": [], "variables": "x"}),
        json!({"conditions": [5, null, {"type": 5}], "deprecated": {"v1beta1": {"conditions": {"a": 1}}}}),
    ] {
        let class = json!({"metadata": {}, "spec": {"variables": [5, {"name": 5}, {"schema": 1}]}, "status": status});
        let _ = reconciled(&class, &failed(&[], true), &ClassVariables::Settled(Vec::new()), NOW);
        let _ = (with_paused(&class, NOW), reports_paused(&class), is_paused(&class));
        let _ = with_status(&class.to_string());
    }
}

#[test]
fn a_class_of_a_file_is_reconciled_in_every_version() {
    // CCR-06, CCR-10
    for (version, metadata) in
        [("v1beta2", "deprecatedV1Beta1Metadata"), ("v1beta1", "metadata"), ("v1alpha4", "metadata")]
    {
        let mut variables = variables();
        variables[1] = json!({"name": "a", "required": true, "schema": {"openAPIV3Schema": {"type": "string"}}});
        variables[1][metadata] = json!({"labels": {"l": "1"}});
        let mut class = json!({"apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "ClusterClass",
            "metadata": {"name": "c"}, "spec": {"variables": variables}});
        for generation in [None, Some(7)] {
            class["metadata"]["generation"] = json!(generation);
            let before = hub(&class);
            assert!(!before.is_reconciled());
            let after: Value = serde_json::from_str(&with_status(&class.to_string())).unwrap();
            let after = hub(&after);
            assert!(after.is_reconciled(), "{version}");
            assert_eq!(&*after.status.variables, &*status_variables(&before.spec), "{version}");
        }
    }
}

#[test]
fn the_spec_in_a_file_overrides_the_status_in_it() {
    let stale = json!({"observedGeneration": 3, "variables": [{"name": "gone", "definitions": []}],
        "conditions": [{"type": "VariablesReady", "status": "False"}]});
    let class = class(json!({"variables": variables()}), stale);
    let text = class.to_string();
    let after: Value = serde_json::from_str(&with_status(&text)).unwrap();
    assert_eq!(hub(&after).status.variables.len(), 2);
    assert!(hub(&after).is_reconciled());
    let again = after.to_string();
    assert_eq!(with_status(&again), again, "once is enough");
}

#[test]
fn a_class_in_a_file_is_unchanged_if_its_status_cannot_be_computed() {
    let discovers = json!({"patches": [{"name": "p", "external": {"discoverVariablesExtension": "x"}}]});
    for text in [
        class(discovers, json!({})).to_string(),
        class(json!({}), json!({"conditions": 5})).to_string(),
        class(json!({}), json!(5)).to_string(),
        json!({"apiVersion": "cluster.x-k8s.io/v9", "spec": {}}).to_string(),
        "{".to_owned(),
    ] {
        assert_eq!(with_status(&text), text);
    }
}
