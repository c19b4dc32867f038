use super::*;
use crate::topology::upgrade::testing::{Fleet, MD, MP};

const V31: &str = "v1.31.0";
const V32: &str = "v1.32.0";

/// A Cluster of which nothing has been created.
fn new_cluster() -> Fleet {
    let mut fleet = Fleet::at(V31, &[], &[]);
    let spec = fleet.cluster["spec"].as_object_mut().unwrap();
    spec.retain(|name, _| name == "topology");
    fleet.control_plane = None;
    fleet
}

fn wait(after_seconds: u32, message: &str) -> HookAnswer {
    HookAnswer::Retry { after_seconds, message: message.to_owned() }
}

fn before_create(hooks: &HookCaller<'_>, tracker: &mut HookTracker) -> Result<Gate, Failure> {
    hooks.before_cluster_create(tracker)
}

fn after_initialized(hooks: &HookCaller<'_>, tracker: &mut HookTracker) -> Result<(), Failure> {
    hooks.after_control_plane_initialized(tracker)
}

fn before_delete(hooks: &HookCaller<'_>, tracker: &mut HookTracker) -> Result<Deletion, Failure> {
    hooks.before_cluster_delete(tracker)
}

#[test]
fn the_annotation_is_a_sorted_list_and_is_removed_with_its_last_name() {
    // HK-02
    let of = |value: &str| {
        let fleet = new_cluster().annotated(annotation::PENDING_HOOKS, value);
        HookTracker::for_cluster(&serde_json::from_value(fleet.cluster).unwrap())
    };
    assert_eq!(
        of("AfterWorkersUpgrade,,AfterClusterUpgrade,AfterWorkersUpgrade").annotation().unwrap(),
        "AfterClusterUpgrade,AfterWorkersUpgrade"
    );
    assert_eq!(of("").annotation(), None);
    let mut tracker = of("Unheard");
    tracker.mark(Hook::AfterClusterUpgrade);
    assert_eq!(tracker.annotation().unwrap(), "AfterClusterUpgrade,Unheard");
    tracker.unmark(Hook::AfterClusterUpgrade);
    assert_eq!(tracker.annotation().unwrap(), "Unheard");
}

#[test]
fn blocking_hooks_are_named_and_the_shortest_retry_counts() {
    // HK-09, HK-10
    let mut tracker = HookTracker::default();
    assert_eq!((tracker.message("upgrade"), tracker.requeue_after_seconds()), (None, None));
    tracker.block(Hook::BeforeWorkersUpgrade, 30, String::new());
    tracker.block(Hook::AfterControlPlaneUpgrade, 60, "not yet".to_owned());
    let want = "Following hooks are blocking upgrade: AfterControlPlaneUpgrade: not yet; BeforeWorkersUpgrade";
    assert_eq!((tracker.message("upgrade").as_deref(), tracker.requeue_after_seconds()), (Some(want), Some(30)));
}

#[test]
fn nothing_is_created_while_a_hook_blocks() {
    // HK-01, HK-11
    let ask = |fleet: &mut Fleet| fleet.ask(before_create).unwrap();
    let mut fleet = new_cluster();
    assert_eq!((ask(&mut fleet).0, fleet.calls.len()), (Gate::Open, 1));
    fleet.extensions.insert(Hook::BeforeClusterCreate, wait(5, "quota"));
    let (gate, tracker) = ask(&mut fleet);
    assert_eq!((gate, tracker.blocks(Hook::BeforeClusterCreate), tracker.annotation()), (Gate::Blocked, true, None));
    fleet.extensions.insert(Hook::BeforeClusterCreate, wait(0, "done"));
    assert_eq!(ask(&mut fleet).0, Gate::Open);
    fleet.failing = Some(Hook::BeforeClusterCreate);
    let failure = fleet.ask(before_create).unwrap_err();
    assert_eq!(failure.to_string(), "hook BeforeClusterCreate failed: out of order");
    for reference in ["infrastructureRef", "controlPlaneRef"] {
        let mut fleet = new_cluster();
        fleet.cluster["spec"][reference] = json!({"kind": "X", "name": "x"});
        assert_eq!((ask(&mut fleet).0, fleet.calls.len()), (Gate::Open, 0), "{reference}");
    }
    let mut fleet = new_cluster();
    fleet.has_hooks = false;
    assert_eq!((ask(&mut fleet).0, fleet.calls.len()), (Gate::Open, 0));
}

#[test]
fn the_hook_after_control_plane_initialization_is_called_once() {
    // HK-12
    let hook = "AfterControlPlaneInitialized";
    let ask = |fleet: &mut Fleet| fleet.ask(after_initialized).map(|((), tracker)| tracker.annotation());
    let mut fleet = new_cluster();
    assert_eq!((ask(&mut fleet).unwrap().as_deref(), fleet.calls.len()), (Some(hook), 0));
    let mut fleet = Fleet::at(V31, &[], &[]);
    assert_eq!(ask(&mut fleet).unwrap(), None);
    fleet = fleet.annotated(annotation::PENDING_HOOKS, hook);
    for (status, is_called) in [("False", false), ("Unknown", false), ("True", true)] {
        fleet.calls.clear();
        fleet.cluster["status"] = json!({"conditions": [{"type": "ControlPlaneInitialized", "status": status}]});
        let left = ask(&mut fleet).unwrap();
        assert_eq!((left.is_none(), fleet.calls.len() == 1), (is_called, is_called), "{status}");
    }
    // It never blocks; an error is one.
    fleet.extensions.insert(Hook::AfterControlPlaneInitialized, wait(9, ""));
    let ((), tracker) = fleet.ask(after_initialized).unwrap();
    assert_eq!((tracker.annotation(), tracker.requeue_after_seconds()), (None, None));
    fleet.failing = Some(Hook::AfterControlPlaneInitialized);
    assert!(ask(&mut fleet).is_err());
}

#[test]
fn a_deletion_is_permitted_once_no_hook_blocks() {
    // HK-22
    let mut fleet = Fleet::at(V31, &[], &[]);
    fleet.extensions.insert(Hook::BeforeClusterDelete, wait(11, "backup"));
    let (deletion, tracker) = fleet.ask(before_delete).unwrap();
    assert_eq!((deletion, tracker.requeue_after_seconds()), (Deletion::Blocked, Some(11)));
    fleet.extensions.clear();
    assert_eq!(fleet.ask(before_delete).unwrap().0, Deletion::Permit);
    let mut without = fleet.clone();
    without.has_hooks = false;
    assert_eq!(without.ask(before_delete).unwrap().0, Deletion::Free);
    let mut permitted = fleet.annotated(annotation::OK_TO_DELETE, "");
    permitted.calls.clear();
    assert_eq!((permitted.ask(before_delete).unwrap().0, permitted.calls.len()), (Deletion::Free, 0));
}

#[test]
fn an_annotation_skips_the_hook_of_a_deletion() {
    // DEC-56
    let mut fleet = Fleet::at(V31, &[], &[]);
    fleet.extensions.insert(Hook::BeforeClusterDelete, wait(11, "backup"));
    let mut skipped = fleet.annotated(annotation::SKIP_DELETE_HOOKS, "");
    skipped.calls.clear();
    assert_eq!((skipped.ask(before_delete).unwrap().0, skipped.calls.len()), (Deletion::Permit, 0));
}

#[test]
fn annotations_hold_an_upgrade_before_it_begins_without_a_call() {
    // HK-13, HK-14
    let name = |end: &str| format!("{}/{end}", annotation::BEFORE_UPGRADE_PREFIX);
    let mut fleet = Fleet::at(V31, &[], &["md-a"]).to(V32).annotated(&name("b"), "");
    let round = fleet.decide().unwrap();
    let block = |round: &crate::topology::upgrade::testing::Round| {
        round.tracker.hooks.blocking().map(|(hook, block)| (hook, block.clone())).collect::<Vec<_>>()
    };
    let blocks = |message: &str| {
        let block = Block { retry_after_seconds: 1200, message: message.to_owned() };
        vec![(Hook::BeforeClusterUpgrade, block)]
    };
    assert_eq!((&*round.control_plane, block(&round)), (V31, blocks(&format!("annotation {} is set", name("b")))));
    assert!(fleet.calls.is_empty() && round.tracker.is_control_plane_frozen());
    let mut both = fleet.clone().annotated(&name("a"), "x");
    let round = both.decide().unwrap();
    assert_eq!(block(&round), blocks(&format!("annotations {}, {} are set", name("a"), name("b"))));
    // An upgrade that has begun is past it.
    let mut begun = fleet.clone().annotated(annotation::PENDING_HOOKS, "AfterClusterUpgrade");
    assert_eq!(begun.decide().unwrap().control_plane, V32);
    assert_eq!(begun.calls.iter().map(|(hook, _)| *hook).collect::<Vec<_>>(), [Hook::BeforeControlPlaneUpgrade]);
    fleet.has_hooks = false;
    assert_eq!(fleet.decide().unwrap().control_plane, V32);
}

#[test]
fn requests_contain_the_cluster_and_the_remaining_steps() {
    // HK-06, HK-14, HK-15, HK-19, RH-18.1, RH-18.2
    let mut fleet = Fleet::at(V31, &[V31, V32, "v1.33.0"], &["md-a"]).to("v1.33.0");
    fleet.cluster["status"] = json!({"phase": "Provisioned"});
    fleet.cluster["metadata"]["managedFields"] = json!([{}]);
    fleet.cluster["spec"]["unheard"] = json!(1);
    fleet.cluster["spec"]["topology"]["variables"] = json!([{"name": "v", "value": {"a": [1]}}]);
    fleet = fleet
        .annotated(annotation::LAST_APPLIED, "{}")
        .annotated(annotation::CONVERSION_DATA, "{}")
        .annotated("kept", "1");
    let before = fleet.cluster.clone();
    fleet.decide().unwrap();
    assert_eq!(fleet.cluster, before);
    let (hook, request) = &fleet.calls[0];
    assert_eq!(*hook, Hook::BeforeClusterUpgrade);
    assert_eq!(request["apiVersion"], "hooks.runtime.cluster.x-k8s.io/v1alpha1");
    assert_eq!(request["kind"], "BeforeClusterUpgradeRequest");
    assert_eq!((&request["fromKubernetesVersion"], &request["toKubernetesVersion"]), (&json!(V31), &json!("v1.33.0")));
    assert_eq!(request["controlPlaneUpgrades"], json!([{"version": V32}, {"version": "v1.33.0"}]));
    assert_eq!(request["workersUpgrades"], json!([{"version": "v1.33.0"}]));
    let sent = &request["cluster"];
    assert_eq!((&sent["apiVersion"], &sent["kind"]), (&json!("cluster.x-k8s.io/v1beta2"), &json!("Cluster")));
    assert_eq!(sent["metadata"], json!({"namespace": "ns", "name": "c", "annotations": {"kept": "1"}}));
    assert_eq!((sent.get("status"), &sent["spec"]["unheard"]), (None, &json!(1)));
    assert_eq!(sent["spec"]["topology"]["variables"], json!([{"name": "v", "value": {"a": [1]}}]));
    let (hook, request) = &fleet.calls[1];
    assert_eq!((*hook, &request["toKubernetesVersion"]), (Hook::BeforeControlPlaneUpgrade, &json!(V32)));
    // The mark of the hook before is on the Cluster that this one sees.
    assert_eq!(request["cluster"]["metadata"]["annotations"][annotation::PENDING_HOOKS], "AfterClusterUpgrade");
}

#[test]
fn requests_carry_the_plan_of_pools_where_no_deployment_has_one() {
    // HK-16, HK-17, HK-18, HK-19
    let pending = "AfterClusterUpgrade,AfterControlPlaneUpgrade,AfterWorkersUpgrade,BeforeWorkersUpgrade";
    let mut fleet =
        Fleet::at(V32, &[V31, V32], &[]).with_worker(MP, "mp-a", V31).annotated(annotation::PENDING_HOOKS, pending);
    fleet.step();
    let (hook, request) = &fleet.calls[0];
    assert_eq!((*hook, &request["kubernetesVersion"]), (Hook::AfterControlPlaneUpgrade, &json!(V32)));
    assert_eq!((request.get("controlPlaneUpgrades"), &request["workersUpgrades"]), (None, &json!([{"version": V32}])));
    let (hook, request) = &fleet.calls[1];
    let versions = (&request["fromKubernetesVersion"], &request["toKubernetesVersion"]);
    assert_eq!((*hook, versions), (Hook::BeforeWorkersUpgrade, (&json!(V31), &json!(V32))));
    fleet.finish("mp-a");
    fleet.calls.clear();
    fleet.step();
    let (hook, request) = &fleet.calls[0];
    assert_eq!((*hook, &request["kubernetesVersion"]), (Hook::AfterWorkersUpgrade, &json!(V32)));
    assert_eq!((fleet.calls[1].0, &fleet.calls[1].1["kubernetesVersion"]), (Hook::AfterClusterUpgrade, &json!(V32)));
}

#[test]
fn variables_have_their_defaults_in_requests() {
    // HK-06
    let value = |value: i64| json!([{"name": "v", "value": value}]);
    let topology = |one: i64| {
        json!({
            "classRef": {"name": "class"}, "version": V31, "variables": value(one),
            "controlPlane": {"variables": {"overrides": value(one)}},
            "workers": {"machineDeployments": [
                {"name": "md-a", "class": "w"},
                {"name": "md-b", "class": "w", "variables": {"overrides": value(one)}},
            ]},
        })
    };
    let mut fleet = Fleet::at(V31, &[], &[]);
    fleet.cluster["spec"]["topology"] = topology(2);
    let defaulted: Cluster = serde_json::from_value(fleet.cluster.clone()).unwrap();
    fleet.cluster["spec"]["topology"] = topology(1);
    let mut stored = Object::try_from(fleet.cluster).unwrap();
    set_variables(&mut stored, &defaulted).unwrap();
    assert_eq!(stored.at("spec.topology"), Some(&topology(2)));
}

#[test]
fn the_hook_after_an_upgrade_is_called_once_no_step_is_left() {
    // HK-21
    let mut fleet = Fleet::at(V32, &[V31, V32], &["md-a"]).annotated(annotation::PENDING_HOOKS, "AfterClusterUpgrade");
    let called = |fleet: &mut Fleet| {
        fleet.calls.clear();
        let round = fleet.decide().unwrap();
        (fleet.calls.iter().any(|(hook, _)| *hook == Hook::AfterClusterUpgrade), round.condition.is_true)
    };
    assert_eq!(called(&mut fleet), (true, true));
    fleet.extensions.insert(Hook::AfterClusterUpgrade, wait(3, "soak"));
    assert_eq!(called(&mut fleet), (true, false));
    fleet.extensions.insert(Hook::AfterWorkersUpgrade, wait(3, "check"));
    let mut waiting = fleet.clone().annotated(annotation::PENDING_HOOKS, "AfterClusterUpgrade,AfterWorkersUpgrade");
    assert_eq!(called(&mut waiting), (false, false));
    let mut rolling = fleet.clone();
    rolling.worker_mut("md-a").machines = vec![V31.to_owned()];
    assert_eq!(called(&mut rolling), (false, false));
    let mut deferred = Fleet::at(V32, &[V31, V32], &[]).with_worker(MD, "md-a", V31);
    deferred = deferred.annotated(annotation::PENDING_HOOKS, "AfterClusterUpgrade");
    deferred.annotate(MD, "md-a", annotation::DEFER_UPGRADE, true);
    assert_eq!(called(&mut deferred), (false, false));
    // Without hooks a mark that is left stays, and says that the upgrade is not over (HK-01).
    fleet.has_hooks = false;
    assert_eq!(called(&mut fleet), (false, false));
}
