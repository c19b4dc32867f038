//! Conditions in isolation.

use serde_json::{Value, json};

use super::*;
use crate::lifecycle::testing::core;

fn at(text: &str) -> Moment {
    Moment::parse(text).unwrap()
}

fn now() -> Moment {
    at("2030-01-01T00:00:00.9Z")
}

fn with(conditions: Value) -> Object {
    let mut object = core("Machine", "m", json!({}));
    set(&mut object, "status.conditions", conditions);
    object
}

fn entry(name: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": name, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2029-01-01T00:00:00Z"})
}

#[test]
fn a_condition_keeps_its_time_while_its_status_stays() {
    // MA-13.1
    let mut object = core("Machine", "m", json!({}));
    set(&mut object, "metadata.generation", json!(7));
    let time = |object: &Object| object.conditions()[0]["lastTransitionTime"].clone();
    put(&mut object, "Ready", &ConditionState::new(false, "A", ""), now());
    assert_eq!(time(&object), "2030-01-01T00:00:00Z");
    assert_eq!(object.conditions()[0]["observedGeneration"], 7);
    let later = at("2030-01-02T00:00:00Z");
    put(&mut object, "Ready", &ConditionState::new(false, "B", "new"), later);
    assert_eq!((time(&object), reason(&object, "Ready")), (json!("2030-01-01T00:00:00Z"), "B".to_owned()));
    put(&mut object, "Ready", &ConditionState::new(true, "C", ""), later);
    assert_eq!(time(&object), "2030-01-02T00:00:00Z");
    let given =
        ConditionState { since: Some("2029-05-05T05:05:05.5Z".to_owned()), ..ConditionState::new(false, "D", "") };
    put(&mut object, "Ready", &given, later);
    assert_eq!(time(&object), "2029-05-05T05:05:05Z");
}

#[test]
fn conditions_stand_in_a_fixed_order() {
    // MA-13.2
    let mut object = core("Machine", "m", json!({}));
    for name in ["Deleting", "Zeta", "Paused", "MachinesReady", "Alpha", "Ready", "Available", "NodeHealthy"] {
        put(&mut object, name, &ConditionState::new(true, "Test", ""), now());
    }
    let names: Vec<&str> = object.conditions().iter().map(|entry| entry["type"].as_str().unwrap()).collect();
    assert_eq!(names, ["Available", "Ready", "NodeHealthy", "MachinesReady", "Alpha", "Zeta", "Paused", "Deleting"]);
    remove(&mut object, "Alpha");
    remove(&mut object, "Absent");
    assert_eq!(object.conditions().len(), 7);
}

#[test]
fn a_condition_of_another_object_is_mirrored() {
    // CT-15.8, CT-15.9, CT-15.10, CT-15.11
    let mirrored = |status: Value, flag: bool| {
        let mut object = core("TestMachine", "m", json!({}));
        set(&mut object, "status", status);
        let fallback = Fallback { flag, path: "status.initialization.provisioned", reasons: ("Ready", "NotReady") };
        let found = mirror(&object, "Ready", fallback);
        (found.status.name(), found.reason, found.message, found.since)
    };
    let text = str::to_owned;
    let time = Some("2029-01-01T00:00:00Z".to_owned());
    let ready = entry("Ready", "False", "Broken", "it is");
    for (case, status, flag, want) in [
        ("as it is", json!({"conditions": [ready]}), true, ("False", text("Broken"), text("it is"), time.clone())),
        (
            "the newer list wins",
            json!({"conditions": [ready], "v1beta2": {"conditions": [entry("Ready", "True", "Fine", "")]}}),
            true,
            ("True", text("Fine"), text(""), time.clone()),
        ),
        (
            "the newer list wins even if it is empty",
            json!({"conditions": [ready], "v1beta2": {"conditions": []}}),
            true,
            ("True", text("Ready"), text(""), None),
        ),
        (
            "without reason",
            json!({"conditions": [{"type": "Ready", "status": "False", "severity": "Error"}]}),
            true,
            ("False", text("NoReasonReported"), text(""), None),
        ),
        (
            "without reason, and true",
            json!({"conditions": [{"type": "Ready", "status": "True"}]}),
            true,
            ("True", text("Ready"), text(""), None),
        ),
        (
            "from the flag",
            json!({"conditions": [entry("Other", "True", "", "")]}),
            false,
            ("False", text("NotReady"), text("TestMachine status.initialization.provisioned is false"), None),
        ),
    ] {
        assert_eq!(mirrored(status, flag), want, "{case}");
    }
    for broken in
        [json!("none"), json!([{"type": "Ready"}]), json!([ready, {"type": "Other", "status": "Maybe"}]), json!([1])]
    {
        let found = mirrored(json!({"conditions": broken}), true);
        assert_eq!((found.0, &*found.1), ("Unknown", "InvalidConditionReported"), "{broken}");
    }
}

#[test]
fn a_summary_is_as_bad_as_its_worst_part() {
    // MA-14.1, MA-14.2, MA-14.3, MA-14.4
    let parts = [
        SummaryPart::negative("Deleting"),
        SummaryPart::positive("A"),
        SummaryPart::positive("B"),
        SummaryPart::positive("C").ignorable(),
    ];
    let good = || {
        vec![
            entry("Deleting", "False", "NotDeleting", ""),
            entry("A", "True", "Fine", ""),
            entry("B", "True", "Fine", ""),
        ]
    };
    let but = |at: usize, other: Value| {
        let mut all = good();
        all[at] = other;
        all
    };
    for (case, conditions, want, message) in [
        ("all good", good(), ("True", "Info"), ""),
        (
            "a good one has something to say",
            but(1, entry("A", "True", "Fine", "it is")),
            ("True", "Info"),
            "* A: it is",
        ),
        (
            "a negative one is true",
            but(0, entry("Deleting", "True", "Draining", "")),
            ("False", "Issue"),
            "* Deleting: Draining",
        ),
        ("one is unknown", but(2, entry("B", "Unknown", "Lost", "lost")), ("Unknown", "Unknown"), "* B: lost"),
        ("one is missing", good()[..2].to_vec(), ("Unknown", "Unknown"), "* B: Condition B not yet reported"),
        (
            "an issue and an unknown one, in the order of the parts",
            vec![
                entry("B", "False", "Bad", "bad"),
                entry("A", "Unknown", "Lost", "lost"),
                entry("Deleting", "False", "No", "said"),
            ],
            ("False", "Issue"),
            "* A: lost\n* B: bad",
        ),
    ] {
        let found = summary(&with(json!(conditions)), &parts, ["Issue", "Unknown", "Info"], |_, _, _| {});
        assert_eq!((found.status.name(), &*found.reason, &*found.message), (want.0, want.1, message), "{case}");
    }
    let object = with(json!(but(1, entry("A", "False", "Bad", "bad"))));
    let changed = summary(&object, &parts, REPORTED, |name, _, priority| {
        if name == "A" {
            *priority = Priority::Info;
        }
    });
    assert_eq!((changed.status, &*changed.reason), (ConditionStatus::True, "InfoReported"));
}

#[test]
fn messages_of_several_lines_go_below_their_name() {
    // MA-14.6
    for (text, want) in [
        ("plain", "* A: plain"),
        ("* one", "* A:\n  * one"),
        ("two\nlines", "* A:\n  two\n  lines"),
        ("* one\nother\n  * below", "* A:\n  * one\n  * other\n    * below"),
    ] {
        assert_eq!(bullet("A", text), want);
    }
}

fn reporter(kind: &str, name: &str, is_control_plane: bool, status: &str, message: &str) -> Object {
    let mut object = core(kind, name, json!({}));
    if is_control_plane {
        super::super::fields::set_label(&mut object, "cluster.x-k8s.io/control-plane", "");
    }
    if !status.is_empty() {
        set(&mut object, "status.conditions", json!([entry("Ready", status, "Because", message)]));
    }
    object
}

fn aggregated(objects: &[Object], is_negative: bool) -> (&'static str, String, String) {
    let found = aggregate(objects, "Ready", is_negative, REPORTED);
    (found.status.name(), found.reason, found.message)
}

#[test]
fn an_aggregate_names_who_says_what() {
    // MA-14.5
    let workers = |status: &str, message: &str, names: &[&str]| -> Vec<Object> {
        names.iter().map(|name| reporter("Machine", name, false, status, message)).collect()
    };
    let mut objects = workers("False", "bad", &["w1", "w2", "w3", "w4", "w5"]);
    let want = "* Machines w1, w2, w3, ... (2 more): bad";
    assert_eq!(aggregated(&objects, false), ("False", "IssuesReported".into(), want.into()));
    objects.push(reporter("Machine", "z", true, "Unknown", "lost"));
    objects.extend(workers("True", "never shown", &["w6"]));
    objects.push(reporter("Machine", "w7", false, "", ""));
    let want =
        "* Machine z: lost\n* Machines w1, w2, w3, ... (2 more): bad\n* Machine w7: Condition Ready not yet reported";
    assert_eq!(aggregated(&objects, false).2, want);
    objects.extend(workers("False", "another", &["w8"]));
    objects.extend(workers("Unknown", "other", &["w9", "x"]));
    let want = "* Machine z: lost\n* Machines w1, w2, w3, ... (2 more): bad\n* Machine w8: another\n\
                And 3 more objects with unknown Ready";
    assert_eq!(aggregated(&objects, false).2, want);
}

#[test]
fn an_aggregate_is_as_bad_as_its_worst_reporter() {
    // MA-14.2, MA-14.3, MA-14.5
    for (case, objects, is_negative, want) in [
        ("nothing to say", vec![reporter("Machine", "a", false, "True", "")], false, ("True", "InfoReported", "")),
        (
            "info",
            vec![reporter("Machine", "a", false, "True", "fine")],
            false,
            ("True", "InfoReported", "* Machine a: fine"),
        ),
        (
            "a reason for a message",
            vec![reporter("Machine", "a", false, "False", "")],
            false,
            ("False", "IssuesReported", "* Machine a: Because"),
        ),
        (
            "negative, bad",
            vec![reporter("MachineSet", "s", false, "True", "rolls")],
            true,
            ("True", "IssuesReported", "* MachineSet s: rolls"),
        ),
        ("negative, good", vec![reporter("MachineSet", "s", false, "False", "")], true, ("False", "InfoReported", "")),
        (
            "negative, unknown",
            vec![reporter("MachineSet", "s", false, "", "")],
            true,
            ("Unknown", "UnknownReported", "* MachineSet s: Condition Ready not yet reported"),
        ),
        (
            "kind by kind",
            vec![
                reporter("MachineSet", "a", false, "False", "x"),
                reporter("MachineDeployment", "z", false, "Unknown", "y"),
            ],
            false,
            ("False", "IssuesReported", "* MachineDeployment z: y\n* MachineSet a: x"),
        ),
    ] {
        let (status, reason, message) = aggregated(&objects, is_negative);
        assert_eq!((status, &*reason, &*message), want, "{case}");
    }
}

#[test]
fn a_pause_is_told_before_anything_else() {
    // CT-15.12
    let mut object = core("Machine", "m", json!({}));
    let mut step = |cause: Option<&str>| (put_paused(&mut object, cause, now()), reason(&object, "Paused"));
    assert_eq!(step(None), (true, "NotPaused".to_owned()));
    assert_eq!(step(None), (false, "NotPaused".to_owned()));
    assert_eq!(step(Some("it says so")), (true, "Paused".to_owned()));
    assert_eq!(step(Some("it says so")), (false, "Paused".to_owned()));
}

#[test]
fn texts_of_a_provider_are_stored() {
    // DEC-64
    let long = "é".repeat(condition::MESSAGE);
    for (reason, message, want, start) in [
        ("NoQuota", "no quota", "NoQuota", "no quota"),
        ("NoQuota", "a\r\u{1b}[2J\u{9b}\u{202e}", "NoQuota", r"a\r\u{1b}[2J\u{9b}\u{202e}"),
        ("NoQuota", &*long, "NoQuota", "éé"),
        ("no quota", "", "InvalidReasonReported", ""),
        ("\u{1b}[2J", "* a\n* b", "InvalidReasonReported", "* a\n* b"),
    ] {
        let mut source = core("TestMachine", "t", json!({}));
        let reported = json!([{"type": "Ready", "status": "False", "reason": reason, "message": message}]);
        set(&mut source, "status.conditions", reported);
        let fallback = Fallback { flag: false, path: "status.ready", reasons: ("Ready", "NotReady") };
        let mut object = with(json!([]));
        put(&mut object, "InfrastructureReady", &mirror(&source, "Ready", fallback), now());
        let stored = get(&object, "InfrastructureReady").unwrap();
        assert_eq!(stored.reason, want);
        assert!(stored.message.starts_with(start) && stored.message.len() <= condition::MESSAGE, "{}", stored.message);
        // The next step writes nothing.
        let before = object.clone();
        put(&mut object, "InfrastructureReady", &mirror(&source, "Ready", fallback), at("2030-01-02T00:00:00Z"));
        assert_eq!(object, before);
    }
}
