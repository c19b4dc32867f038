use std::sync::Arc;

use serde_json::{Value, json};

use super::{DESIRED, FINALIZER, MAX, REVISION};
use crate::lifecycle::conditions;
use crate::lifecycle::dependents::is_controlled_by;
use crate::lifecycle::fields::{created, items, number, owner_name, set, set_annotation, set_label, text};
use crate::lifecycle::machine_set::testing::{
    INFRASTRUCTURE, drive, finish, group, machine_spec, machines, mark, setup,
};
use crate::lifecycle::objects::{GroupKind, ObjectId};
use crate::lifecycle::simulator::MachineSimulator;
use crate::lifecycle::testing::{CLUSTER, core};
use model::hub::Object;

const UNIQUE: &str = "machine-template-hash";

fn with_deployment(replicas: i64, change: impl FnOnce(&mut Object)) -> MachineSimulator {
    let mut simulator = setup();
    let mut made = group("MachineDeployment", "md", replicas);
    change(&mut made);
    simulator.make(made);
    finish(&mut simulator);
    simulator
}

fn the_deployment(simulator: &MachineSimulator) -> Arc<Object> {
    simulator.core("MachineDeployment", "md")
}

fn edit(simulator: &mut MachineSimulator, change: impl FnOnce(&mut Object)) {
    simulator.edit(&the_deployment(simulator), change);
    assert!(simulator.settle(1_000));
}

/// The sets, sorted by revision.
fn sets(simulator: &MachineSimulator) -> Vec<Arc<Object>> {
    let mut sets = simulator.all(&GroupKind::core("MachineSet"));
    sets.sort_by_key(|set| set.annotation(REVISION).and_then(|text| text.parse::<i64>().ok()));
    sets
}

fn sizes(simulator: &MachineSimulator) -> Vec<i64> {
    sets(simulator).iter().map(|set| number(set, "spec.replicas").unwrap()).collect()
}

fn failure(simulator: &MachineSimulator) -> Option<&str> {
    simulator.failure(&ObjectId::for_object(&the_deployment(simulator)))
}

fn reason(simulator: &MachineSimulator, name: &str) -> String {
    conditions::reason(&the_deployment(simulator), name)
}

fn message(simulator: &MachineSimulator, name: &str) -> String {
    conditions::get(&the_deployment(simulator), name).unwrap().message
}

fn to_version(simulator: &mut MachineSimulator, version: &str) {
    edit(simulator, |it| set(it, "spec.template.spec.version", json!(version)));
}

fn versions(simulator: &MachineSimulator) -> Vec<String> {
    let mut all: Vec<String> = machines(simulator).iter().map(|it| text(it, "spec.version").to_owned()).collect();
    all.sort();
    all
}

#[test]
fn a_deployment_makes_a_set_of_its_template() {
    // MA-20.1, MA-20.2, MA-20.3, MA-21.5, MA-21.6, MA-21.7, MA-21.8, MA-21.9, MA-21.10
    let simulator = with_deployment(3, |it| {
        set_annotation(it, "note", "1");
        set_annotation(it, "kubectl.kubernetes.io/last-applied-configuration", "{}");
        set(it, "spec.template.spec.minReadySeconds", json!(0));
        set(it, "spec.deletion.order", json!("Oldest"));
    });
    assert_eq!(failure(&simulator), None);
    let deployment = the_deployment(&simulator);
    assert!(deployment.has_finalizer(FINALIZER));
    assert_eq!((owner_name(&deployment, "Cluster"), deployment.annotation(REVISION)), (Some(CLUSTER), Some("1")));
    let [made]: [Arc<Object>; 1] = sets(&simulator).try_into().unwrap();
    let unique = made.label(UNIQUE).unwrap().to_owned();
    let (hash, end) = unique.split_once('-').unwrap();
    assert!(hash.parse::<u32>().is_ok() && made.name() == format!("md-{end}"), "{unique} {}", made.name());
    assert!(is_controlled_by(&made, &deployment));
    assert_eq!(
        made.at("metadata.labels"),
        Some(&json!({
            "app": "md", UNIQUE: unique,
            "cluster.x-k8s.io/cluster-name": CLUSTER, "cluster.x-k8s.io/deployment-name": "md",
        }))
    );
    let labels = json!({"app": "md", UNIQUE: unique, "cluster.x-k8s.io/cluster-name": CLUSTER});
    assert_eq!(made.at("spec.template.metadata.labels"), Some(&labels));
    assert_eq!(made.at("spec.selector.matchLabels"), Some(&labels));
    assert_eq!(text(&made, "spec.deletion.order"), "Oldest");
    for (name, want) in [
        ("note", Some("1")),
        ("kubectl.kubernetes.io/last-applied-configuration", None),
        (DESIRED, Some("3")),
        (MAX, Some("4")),
        (REVISION, Some("1")),
        ("cluster.x-k8s.io/disable-machine-create", Some("false")),
    ] {
        assert_eq!(made.annotation(name), want, "{name}");
    }
    assert_eq!(machines(&simulator).len(), 3);
    assert!(machines(&simulator).iter().all(|it| it.label("cluster.x-k8s.io/deployment-name") == Some("md")));
    let template = simulator.find(&GroupKind::new(INFRASTRUCTURE, "FooMachineTemplate"), "a").unwrap();
    assert_eq!(owner_name(&template, "Cluster"), Some(CLUSTER));
}

#[test]
fn a_deployment_needs_its_templates_replicas_selector_and_strategy() {
    // MA-20.2, MA-20.3, MA-20.4, MA-21.5
    type Change = fn(&mut Object);
    let cases: [(&str, Change); 4] = [
        ("FooConfigTemplate missing does not exist", |it| {
            set(it, "spec.template.spec.bootstrap.configRef.name", json!("missing"));
        }),
        ("spec.replicas is not set", |it| set(it, "spec.replicas", Value::Null)),
        ("spec.selector is empty", |it| set(it, "spec.selector", json!({}))),
        ("unknown rollout strategy \"Now\"", |it| set(it, "spec.rollout.strategy.type", json!("Now"))),
    ];
    for (words, change) in cases {
        let mut simulator = setup();
        let mut made = group("MachineDeployment", "md", 1);
        change(&mut made);
        simulator.make(made);
        assert!(simulator.settle(1_000));
        assert!(failure(&simulator).unwrap_or_default().contains(words), "{words}: {:?}", failure(&simulator));
        assert!(sets(&simulator).is_empty(), "{words}");
        assert_eq!(the_deployment(&simulator).at("status.observedGeneration"), None, "{words}");
    }
}

#[test]
fn sets_that_a_deployment_selects_are_adopted_and_those_of_others_are_left_alone() {
    // MA-20.3, MA-21.3, MA-21.8
    let set_of = |name: &str, owners: Value| {
        let mut made = group("MachineSet", name, 1);
        for path in ["metadata.labels", "spec.template.metadata.labels", "spec.selector.matchLabels"] {
            let labels = json!({"app": "md", UNIQUE: name, "cluster.x-k8s.io/cluster-name": CLUSTER});
            set(&mut made, path, labels);
        }
        set(&mut made, "metadata.ownerReferences", owners);
        made
    };
    let mut simulator = setup();
    simulator.make(set_of("free", json!([])));
    let owner = json!([{"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "x", "controller": true}]);
    simulator.make(set_of("theirs", owner));
    simulator.make(group("MachineDeployment", "md", 2));
    finish(&mut simulator);
    assert!(is_controlled_by(&simulator.core("MachineSet", "free"), &the_deployment(&simulator)));
    assert_eq!(simulator.core("MachineSet", "theirs").label("cluster.x-k8s.io/deployment-name"), None);
    assert_eq!(number(&simulator.core("MachineSet", "free"), "spec.replicas"), Some(2), "its template is equal");
    assert_eq!(sets(&simulator).len(), 2);

    let mut simulator = setup();
    let mut unlabelled = set_of("free", json!([]));
    unlabelled.remove("metadata.labels.machine-template-hash");
    simulator.make(unlabelled);
    simulator.make(group("MachineDeployment", "md", 2));
    assert!(simulator.settle(1_000));
    assert!(failure(&simulator).unwrap().contains("MachineSet ns/free has no label machine-template-hash"));
}

#[test]
fn a_new_version_replaces_machines_within_the_limits() {
    // MA-21.12, MA-22.3, MA-26.6, MA-30.5
    let mut simulator = with_deployment(3, |_| {});
    let first = sets(&simulator)[0].name().to_owned();
    let first_made = machines(&simulator).iter().map(|it| it.name().to_owned()).collect::<Vec<_>>();
    simulator.advance();
    to_version(&mut simulator, "v1.32.0");
    let mut seen = vec![sizes(&simulator)];
    for _ in 0..40 {
        let there = machines(&simulator);
        let available =
            there.iter().filter(|it| conditions::is_true(it, "Available") && !it.is_being_deleted()).count();
        assert!(available >= 3 && there.len() <= 4, "{available} of {} are available", there.len());
        drive(&mut simulator);
        if seen.last() != Some(&sizes(&simulator)) {
            seen.push(sizes(&simulator));
        }
    }
    let want: Vec<Vec<i64>> = vec![vec![3, 1], vec![2, 1], vec![2, 2], vec![1, 2], vec![1, 3], vec![0, 3], vec![3]];
    assert_eq!(seen, want, "old and new set; the old one is deleted at last");
    assert_eq!(versions(&simulator), ["v1.32.0"; 3]);
    assert!(
        sets(&simulator)[0].name() != first
            && machines(&simulator).iter().all(|it| !first_made.contains(&it.name().to_owned()))
    );
    assert_eq!(the_deployment(&simulator).annotation(REVISION), Some("2"));
    assert_eq!(failure(&simulator), None);
}

#[test]
fn going_back_uses_the_former_set_again() {
    // MA-21.3, MA-21.10
    let mut simulator = with_deployment(3, |_| {});
    let first = sets(&simulator)[0].name().to_owned();
    simulator.advance();
    to_version(&mut simulator, "v1.32.0");
    assert_eq!(sizes(&simulator), [3, 1]);
    to_version(&mut simulator, "v1.31.0");
    let used = simulator.core("MachineSet", &first);
    assert_eq!(
        (used.annotation(REVISION), used.annotation("machinedeployment.clusters.x-k8s.io/revision-history")),
        (Some("3"), Some("1"))
    );
    finish(&mut simulator);
    assert_eq!((sizes(&simulator), sets(&simulator)[0].name()), (vec![3], &*first));
}

#[test]
fn machines_of_sets_made_before_a_point_in_time_are_replaced_once_it_has_come() {
    // MA-21.3, ROLL-10
    let mut simulator = with_deployment(1, |it| set(it, "spec.rollout.after", json!("2030-01-01T01:00:00Z")));
    let first = sets(&simulator)[0].name().to_owned();
    simulator.run(core::time::Duration::from_mins(59));
    assert_eq!((sets(&simulator).len(), sets(&simulator)[0].name()), (1, &*first));
    simulator.run(core::time::Duration::from_mins(1));
    assert_eq!(sets(&simulator).len(), 2, "the time wakes the deployment");
    finish(&mut simulator);
    assert_eq!(sets(&simulator).len(), 1);
    assert!(
        sets(&simulator)[0].name() != first && created(&sets(&simulator)[0]) > created(&the_deployment(&simulator))
    );
}

#[test]
fn fields_that_replace_nothing_reach_all_sets() {
    // MA-15.11, MA-21.1, MA-21.7, MA-21.9, MA-21.12
    let mut simulator = with_deployment(3, |it| set_annotation(it, "note", "1"));
    simulator.advance();
    to_version(&mut simulator, "v1.32.0");
    assert_eq!(sizes(&simulator), [3, 1]);
    edit(&mut simulator, |it| {
        let labels = json!({"app": "md", "extra": "1", "cluster.x-k8s.io/cluster-name": CLUSTER});
        set(it, "spec.template.metadata.labels", labels);
        set(it, "spec.template.metadata.annotations", json!({"of": "template"}));
        set(it, "spec.template.spec.deletion.nodeDrainTimeoutSeconds", json!(8));
        set(it, "spec.machineNaming.template", json!("x-{{ .random }}"));
        set_annotation(it, "other", "2");
        it.remove("metadata.annotations.note");
    });
    assert_eq!(sets(&simulator).len(), 2);
    for (made, version) in sets(&simulator).iter().zip(["v1.31.0", "v1.32.0"]) {
        assert_eq!(
            (made.label("extra"), made.annotation("other"), made.annotation("note")),
            (Some("1"), Some("2"), None)
        );
        assert_eq!(made.at("spec.template.metadata.labels").unwrap()["extra"], "1");
        assert_eq!(text(made, "spec.template.spec.version"), version);
        assert_eq!(number(made, "spec.template.spec.deletion.nodeDrainTimeoutSeconds"), Some(8));
        assert_eq!(text(made, "spec.machineNaming.template"), "x-{{ .random }}");
    }
    for machine in machines(&simulator) {
        assert_eq!((machine.label("extra"), machine.annotation("of")), (Some("1"), Some("template")));
        assert_eq!(number(&machine, "spec.deletion.nodeDrainTimeoutSeconds"), Some(8));
    }
    edit(&mut simulator, |it| {
        set(it, "spec.template.metadata.labels", json!({"app": "md", "cluster.x-k8s.io/cluster-name": CLUSTER}));
    });
    assert!(sets(&simulator).iter().all(|it| it.label("extra").is_none()));
    assert!(machines(&simulator).iter().all(|it| it.label("extra").is_none()));
}

#[test]
fn on_delete_replaces_what_users_delete() {
    // MA-21.9, MA-23.1, MA-23.2, MA-23.4, ROLL-11
    let mut simulator = with_deployment(2, |it| set(it, "spec.rollout.strategy.type", json!("OnDelete")));
    simulator.advance();
    to_version(&mut simulator, "v1.32.0");
    finish(&mut simulator);
    assert_eq!(versions(&simulator), ["v1.31.0"; 2]);
    assert_eq!(sets(&simulator)[0].annotation("cluster.x-k8s.io/disable-machine-create"), Some("true"));
    assert_eq!(sets(&simulator)[1].annotation("cluster.x-k8s.io/disable-machine-create"), Some("false"));
    let id = ObjectId::for_object(&machines(&simulator)[0]);
    simulator.delete(&id);
    finish(&mut simulator);
    assert_eq!(
        (versions(&simulator), sizes(&simulator)),
        (vec!["v1.31.0".to_owned(), "v1.32.0".to_owned()], vec![1, 1])
    );
    edit(&mut simulator, |it| set(it, "spec.replicas", json!(1)));
    finish(&mut simulator);
    assert_eq!(versions(&simulator), ["v1.32.0"], "old machines go first when fewer are wanted");
}

#[test]
fn a_paused_deployment_scales_and_does_not_roll_out() {
    // MA-24.1, MA-24.2, MA-24.4, MA-21.5, MA-21.11, ROLL-18
    let mut simulator = with_deployment(2, |_| {});
    edit(&mut simulator, |it| {
        set(it, "spec.paused", json!(true));
        set(it, "spec.template.spec.version", json!("v1.32.0"));
        set(it, "spec.template.spec.minReadySeconds", json!(4));
        set(it, "spec.replicas", json!(5));
    });
    finish(&mut simulator);
    assert_eq!((versions(&simulator), sizes(&simulator)), (vec!["v1.31.0".to_owned(); 5], vec![5]));
    assert_eq!(the_deployment(&simulator).annotation(REVISION), Some("1"));
    assert_eq!(number(&sets(&simulator)[0], "spec.template.spec.minReadySeconds"), Some(4));
    edit(&mut simulator, |it| set(it, "spec.paused", json!(false)));
    assert_eq!(sizes(&simulator), [5, 1]);
    edit(&mut simulator, |it| {
        set(it, "spec.paused", json!(true));
        set(it, "spec.replicas", json!(11));
    });
    assert_eq!(sizes(&simulator), [10, 2], "each set grows by its part of what there might have been");
}

#[test]
fn a_deployment_that_is_deleted_goes_after_its_sets() {
    // MA-20.5, MA-26.2
    let mut simulator = with_deployment(2, |_| {});
    let id = ObjectId::for_object(&the_deployment(&simulator));
    simulator.delete(&id);
    assert!(simulator.settle(1_000));
    assert!(sets(&simulator)[0].is_being_deleted() && machines(&simulator).iter().all(|it| it.is_being_deleted()));
    assert_eq!(
        (reason(&simulator, "Deleting"), text(&the_deployment(&simulator), "status.phase")),
        ("Deleting".to_owned(), "ScalingDown")
    );
    assert!(message(&simulator, "Deleting").contains("md-"));
    finish(&mut simulator);
    assert!(simulator.objects.get(&id).is_none() && sets(&simulator).is_empty() && machines(&simulator).is_empty());
}

#[test]
fn the_status_says_how_far_a_rollout_is() {
    // MA-26.1, MA-26.2, MA-26.3, MA-26.4, MA-26.5
    let mut simulator = setup();
    simulator.make(group("MachineDeployment", "md", 2));
    assert!(simulator.settle(1_000));
    assert_eq!(
        (reason(&simulator, "Available"), reason(&simulator, "MachinesReady")),
        ("NotAvailable".to_owned(), "ReadyUnknown".to_owned())
    );
    finish(&mut simulator);
    let deployment = the_deployment(&simulator);
    for (name, want) in [("replicas", 2), ("readyReplicas", 2), ("availableReplicas", 2), ("upToDateReplicas", 2)] {
        assert_eq!(number(&deployment, &format!("status.{name}")), Some(want), "{name}");
    }
    assert_eq!(items(&deployment, "status.versions"), [json!({"version": "v1.31.0", "replicas": 2})]);
    assert_eq!(number(&deployment, "status.observedGeneration"), number(&deployment, "metadata.generation"));
    assert_eq!(text(&deployment, "status.selector"), "app=md");
    assert_eq!(text(&deployment, "status.phase"), "Running");
    for (name, want) in [
        ("Available", "Available"),
        ("RollingOut", "NotRollingOut"),
        ("ScalingUp", "NotScalingUp"),
        ("ScalingDown", "NotScalingDown"),
        ("MachinesReady", "Ready"),
        ("MachinesUpToDate", "UpToDate"),
        ("Remediating", "NotRemediating"),
        ("Deleting", "NotDeleting"),
        ("Paused", "NotPaused"),
    ] {
        assert_eq!(reason(&simulator, name), want, "{name}");
    }
    let now = simulator.now();
    for (machine, text) in machines(&simulator)
        .iter()
        .zip(["* Failure domain a, b required\n* Version v1, v2 required", "* Version v1, v2 required"])
    {
        let outdated = conditions::ConditionState::new(false, "NotUpToDate", text);
        simulator.edit(machine, |it| conditions::put(it, "UpToDate", &outdated, now));
    }
    let first = machines(&simulator)[0].clone();
    mark(&mut simulator, &first, "Available", false, "No");
    edit(&mut simulator, |it| set(it, "spec.replicas", json!(5)));
    assert_eq!(
        message(&simulator, "RollingOut"),
        "Rolling out 2 not up-to-date replicas\n* Version v1, v2 required\n* Failure domain a, b required"
    );
    assert_eq!(text(&the_deployment(&simulator), "status.phase"), "Running", "the machines are there");
    assert_eq!(message(&simulator, "Available"), "1 available replicas, at least 5 required");
    edit(&mut simulator, |it| set(it, "spec.replicas", json!(1)));
    assert_eq!(
        (text(&the_deployment(&simulator), "status.phase"), &*reason(&simulator, "ScalingDown")),
        ("ScalingDown", "ScalingDown")
    );
}

#[test]
fn only_the_current_set_remediates_and_as_many_machines_as_allowed() {
    // MA-19.11, MA-19.12
    let fail = |simulator: &mut MachineSimulator, version: &str| {
        for machine in machines(simulator).iter().filter(|it| text(it, "spec.version") == version) {
            mark(simulator, machine, "HealthCheckSucceeded", false, "UnhealthyNode");
            mark(simulator, machine, "OwnerRemediated", false, "WaitingForRemediation");
        }
        assert!(simulator.settle(1_000));
    };
    let reasons = |simulator: &MachineSimulator| -> Vec<String> {
        let mut all: Vec<String> = machines(simulator)
            .iter()
            .map(|it| conditions::reason(it, "OwnerRemediated"))
            .filter(|it| !it.is_empty())
            .collect();
        all.sort();
        all
    };
    for (limit, want) in [
        (json!("34%"), vec!["MachineDeleting", "MachineDeleting", "RemediationDeferred"]),
        (json!(1), vec!["MachineDeleting", "RemediationDeferred", "RemediationDeferred"]),
        (json!(0), vec!["RemediationDeferred"; 3]),
        (Value::Null, vec!["MachineDeleting"; 3]),
    ] {
        let mut simulator = with_deployment(3, |it| set(it, "spec.remediation.maxInFlight", limit.clone()));
        let requested = machines(&simulator)[2].clone();
        simulator.edit(&requested, |it| set_annotation(it, "cluster.x-k8s.io/remediate-machine", ""));
        fail(&mut simulator, "v1.31.0");
        assert_eq!(reasons(&simulator), want, "{limit}");
        if limit != json!(0) {
            assert!(
                simulator.core("Machine", requested.name()).is_being_deleted(),
                "{limit}: the one with the annotation is first"
            );
        }
    }
    let mut simulator = with_deployment(3, |_| {});
    simulator.advance();
    to_version(&mut simulator, "v1.32.0");
    fail(&mut simulator, "v1.31.0");
    assert_eq!(reasons(&simulator), ["CannotBeRemediated"; 3]);
}

#[test]
fn an_old_set_may_lose_its_templates() {
    // MA-15.3
    let mut simulator = with_deployment(2, |_| {});
    simulator.advance();
    edit(&mut simulator, |it| set(it, "spec.template.spec", machine_spec("b")));
    assert_eq!(sizes(&simulator), [2, 1]);
    let template = simulator.find(&GroupKind::new(INFRASTRUCTURE, "FooMachineTemplate"), "a").unwrap();
    simulator.delete(&ObjectId::for_object(&template));
    finish(&mut simulator);
    assert_eq!(simulator.failure(&ObjectId::for_object(&sets(&simulator)[0])), None);
    assert_eq!(sizes(&simulator), [2]);
}

#[test]
fn a_deployment_and_its_sets_come_to_rest() {
    // MA-30.1, MA-30.6: the same input gives the same objects
    let names =
        |simulator: &MachineSimulator| machines(simulator).iter().map(|it| it.name().to_owned()).collect::<Vec<_>>();
    let simulator = with_deployment(4, |it| set_label(it, "x", "y"));
    let again = with_deployment(4, |it| set_label(it, "x", "y"));
    assert_eq!(names(&simulator), names(&again));
    let mut simulator = simulator;
    let before = the_deployment(&simulator);
    simulator.make(core("MachineHealthCheck", "unrelated", json!({})));
    assert!(simulator.settle(1_000));
    assert_eq!(the_deployment(&simulator), before);
}
