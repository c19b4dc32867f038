//! A change that keeps and one that breaks each rule.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::provider_contract::ProviderRole::{
    BootstrapConfig, ControlPlane, InfrastructureCluster, InfrastructureMachine, InfrastructureMachinePool,
};
use model::hub::contract::Contract::{V1Beta1, V1Beta2};

/// An object with an owner of this kind and a finalizer, and the fields of a case.
fn object(owner: &str, more: &Value) -> Object {
    let mut object = json!({
        "apiVersion": "g.io/v1", "kind": "Thing",
        "metadata": {
            "namespace": "default", "name": "one", "uid": "own", "finalizers": ["g.io/mine"],
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": owner, "name": "o", "uid": "u"}],
        },
        "spec": {}, "status": {},
    });
    json_patch::merge(&mut object, more);
    Object::try_from(object).unwrap()
}

fn owner_of(role: ProviderRole) -> &'static str {
    match role {
        InfrastructureCluster | ControlPlane => "Cluster",
        InfrastructureMachinePool => "MachinePool",
        _ => "Machine",
    }
}

/// A Machine of a control plane, with a uid and the fields of a case.
fn machine(uid: &str, more: &Value) -> Object {
    let machine = json!({
        "kind": "Machine",
        "metadata": {"name": uid, "uid": uid, "finalizers": null, "labels": {"cluster.x-k8s.io/control-plane": "",
            "cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/control-plane-name": "one"}},
        "spec": {"clusterName": "c", "version": "v1.34.0", "infrastructureRef": {"name": "i"},
            "bootstrap": {"configRef": {"name": "b"}}},
        "status": {"conditions": [{"type": "UpToDate", "status": "True", "reason": "R"}]},
    });
    object("", &with(machine, more))
}

/// The metadata of a Secret controlled by the object, and the fields of a case.
fn secret(is_of_the_type: bool, more: &Value) -> Secret {
    let secret = json!({"kind": "Secret", "metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "c"},
        "ownerReferences": [{"apiVersion": "g.io/v1", "kind": "Thing", "name": "one", "uid": "own",
            "controller": true}]}});
    Secret::There { metadata: object("", &with(secret, more)), is_of_the_type: Some(is_of_the_type) }
}

/// Related objects that satisfy every rule.
fn around(role: ProviderRole) -> RelatedObjects {
    let cluster = json!({"status": {"initialization":
        {"infrastructureProvisioned": true, "controlPlaneInitialized": true}}});
    RelatedObjects {
        cluster: Some(object("", &cluster)),
        owner: Some(object("", &json!({"kind": owner_of(role), "spec": {"bootstrap": {"dataSecretName": "data"}}}))),
        machines: Some(Vec::new()),
        instances: None,
        secret: secret(true, &json!({})),
    }
}

/// Kept and broken rules of a change; warnings end in a question mark.
fn checked(
    role: ProviderRole,
    contract: Contract,
    states: [Option<Value>; 2],
    now: &RelatedObjects,
) -> [Vec<String>; 2] {
    judged_with(role, contract, states, [now, now])
}

/// As [`checked`], with the related objects at the previous change.
fn judged_with(
    role: ProviderRole,
    contract: Contract,
    [before, after]: [Option<Value>; 2],
    surroundings: [&RelatedObjects; 2],
) -> [Vec<String>; 2] {
    let objects = [before, after].map(|one| one.map(|more| object(owner_of(role), &more)));
    let change =
        ObservedChange { role, contract, before: objects[0].as_ref(), after: objects[1].as_ref(), surroundings };
    let verdicts = check_change(&change);
    for verdict in &verdicts {
        let can_be_kept = shown(role, contract).contains(&verdict.rule);
        let can_be_broken = can_be_kept || only_broken(role, contract).contains(&verdict.rule);
        let is_listed = if verdict.broken.is_none() { can_be_kept } else { can_be_broken };
        assert!(is_listed, "{} is not in the list for {}", verdict.rule, role.name());
        assert!(!verdict.message.is_empty());
        assert!(verdict.broken.as_ref().is_none_or(|broken| !broken.remediation.is_empty()));
    }
    assert!(verdicts.is_sorted_by_key(|verdict| order(verdict.rule)), "{verdicts:?}");
    let mut found = [Vec::new(), Vec::new()];
    for RuleVerdict { rule, broken, .. } in verdicts {
        match broken {
            None => found[0].push(rule.to_owned()),
            Some(RuleBreach { level: Level::Error, .. }) => found[1].push(rule.to_owned()),
            Some(_) => found[1].push(format!("{rule}?")),
        }
    }
    found
}

fn ready(contract: Contract, role: ProviderRole) -> Value {
    let flag = match (role, contract) {
        (ControlPlane, V1Beta1) => json!({"initialized": true}),
        (_, V1Beta1) => json!({"ready": true}),
        (ControlPlane, V1Beta2) => json!({"initialization": {"controlPlaneInitialized": true}}),
        (BootstrapConfig, V1Beta2) => json!({"initialization": {"dataSecretCreated": true}}),
        (_, V1Beta2) => json!({"initialization": {"provisioned": true}}),
    };
    let mut status = json!({"conditions": [
        {"type": "Ready", "status": "True", "reason": "R"}, {"type": "Available", "status": "True", "reason": "R"}]});
    json_patch::merge(&mut status, &flag);
    json!({"status": status})
}

fn with(mut one: Value, more: &Value) -> Value {
    json_patch::merge(&mut one, more);
    one
}

#[test]
fn a_provider_that_keeps_the_contract_breaks_no_rule() {
    for contract in [V1Beta1, V1Beta2] {
        for (role, more, want) in [
            (
                InfrastructureCluster,
                json!({"spec": {"controlPlaneEndpoint": {"host": "h", "port": 6443}},
                    "status": {"failureDomains": [{"name": "a"}, {"name": "b"}]}}),
                &["CT-6.3", "CT-6.5", "CT-6.6", "CT-15.8"][..],
            ),
            (
                InfrastructureMachine,
                json!({"spec": {"providerID": "p"}}),
                &["CT-8.2", "CT-8.6", "CT-15.8", "CT-18.3", "CT-18.3"],
            ),
            (
                InfrastructureMachinePool,
                json!({"spec": {"providerIDList": ["p", "q"]}, "status": {"replicas": 2}}),
                &["CT-8.6", "CT-13.1", "CT-13.1", "CT-15.8"],
            ),
            (
                BootstrapConfig,
                json!({"status": {"dataSecretName": "d"}}),
                &["CT-12.2", "CT-12.3", "CT-12.3", "CT-12.7", "CT-15.8"],
            ),
            (
                ControlPlane,
                json!({"spec": {"replicas": 1, "version": "v1.34.0"},
                    "status": {"replicas": 1, "selector": "a=b", "version": "v1.34.0"}}),
                &["CT-10.2", "CT-10.4", "CT-10.9", "CT-10.10", "CT-15.8"],
            ),
        ] {
            let after = with(ready(contract, role), &more);
            let [kept, broken] = checked(role, contract, [Some(json!({})), Some(after.clone())], &around(role));
            assert_eq!((&kept.iter().map(String::as_str).collect::<Vec<_>>()[..], broken), (want, vec![]), "{role:?}");
            let [kept, broken] = checked(role, contract, [Some(after.clone()), Some(after)], &around(role));
            assert_eq!((kept.len(), broken.len()), (0, 0), "{role:?}: nothing has changed");
        }
    }
}

/// The broken rules of a change.
fn broken(role: ProviderRole, contract: Contract, before: Value, after: Value, now: &RelatedObjects) -> Vec<String> {
    let [_, broken] = checked(role, contract, [Some(before), Some(after)], now);
    broken
}

/// A change from one state to another, and the rules that it breaks.
type ChangeCase = (&'static str, ProviderRole, Value, Value, &'static [&'static str]);

fn all_broken(cases: Vec<ChangeCase>) {
    for (case, role, before, after, want) in cases {
        assert_eq!(broken(role, V1Beta2, before, after, &around(role)), want, "{case}");
    }
}

#[test]
fn rules_of_machines_and_clusters_are_broken_by_changes_against_them() {
    let flag = |role| ready(V1Beta2, role);
    let id = json!({"spec": {"providerID": "p"}});
    let endpoint = |host: &str| json!({"spec": {"controlPlaneEndpoint": {"host": host, "port": 6443}}});
    let machine = with(flag(InfrastructureMachine), &id);
    let cases: Vec<ChangeCase> = vec![
        ("a flag that turns false", InfrastructureCluster, flag(InfrastructureCluster), json!({}), &["CT-6.5"]),
        ("a flag of a machine", InfrastructureMachine, machine.clone(), id.clone(), &["CT-8.6"]),
        ("no provider id", InfrastructureMachine, json!({}), flag(InfrastructureMachine), &["CT-8.2"]),
        ("another provider id", InfrastructureMachine, id.clone(), json!({"spec": {"providerID": "q"}}), &["CT-8.2"]),
        ("no provider id any more", InfrastructureMachine, id.clone(), json!({}), &["CT-8.2"]),
        (
            "no finalizer",
            InfrastructureMachine,
            id.clone(),
            with(machine, &json!({"metadata": {"finalizers": []}})),
            &["CT-15.6"],
        ),
        (
            "a finalizer before the owner",
            InfrastructureMachine,
            json!({"metadata": {"finalizers": null, "ownerReferences": null}}),
            json!({"metadata": {"ownerReferences": null}}),
            &["CT-15.6"],
        ),
        (
            "an owner of another group",
            InfrastructureMachine,
            json!({"metadata": {"finalizers": null}}),
            json!({"metadata": {"ownerReferences": [{"apiVersion": "g.io/v1", "kind": "Machine", "name": "o"}]}}),
            &["CT-15.6"],
        ),
        (
            "no condition",
            InfrastructureMachine,
            id.clone(),
            with(id.clone(), &json!({"status": {"initialization": {"provisioned": true}}})),
            &["CT-15.8?"],
        ),
        ("another endpoint", InfrastructureCluster, endpoint("a"), endpoint("b"), &["CT-6.3"]),
        ("no endpoint any more", ControlPlane, endpoint("a"), json!({}), &["CT-6.3"]),
        (
            "the same failure domain twice",
            InfrastructureCluster,
            json!({}),
            with(
                flag(InfrastructureCluster),
                &json!({"status": {"failureDomains": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}}),
            ),
            &["CT-6.6"],
        ),
        (
            "an annotation that is removed",
            InfrastructureCluster,
            json!({"metadata": {"annotations": {"cluster.x-k8s.io/managed-by": ""}}}),
            json!({}),
            &["CT-15.13"],
        ),
        (
            "a failure in the newer contract",
            InfrastructureMachine,
            json!({}),
            json!({"status": {"failureReason": "R", "failureMessage": "m"}}),
            &["CT-20.2?"],
        ),
    ];
    all_broken(cases);
}

#[test]
fn rules_of_pools_data_and_control_planes_are_broken_by_changes_against_them() {
    let flag = |role| ready(V1Beta2, role);
    let pool = json!({"spec": {"providerIDList": ["p"]}, "status": {"replicas": 1}});
    all_broken(vec![
        (
            "no instances",
            InfrastructureMachinePool,
            json!({}),
            with(flag(InfrastructureMachinePool), &json!({"status": {"replicas": 1}})),
            &["CT-13.1"],
        ),
        (
            "no number of instances",
            InfrastructureMachinePool,
            json!({}),
            with(flag(InfrastructureMachinePool), &json!({"spec": {"providerIDList": ["p"]}})),
            &["CT-13.1"],
        ),
        (
            "an instance twice",
            InfrastructureMachinePool,
            pool.clone(),
            with(pool, &json!({"spec": {"providerIDList": ["p", "p"]}})),
            &["CT-13.1"],
        ),
        ("no name of a Secret", BootstrapConfig, json!({}), flag(BootstrapConfig), &["CT-12.3"]),
        (
            "another name of a Secret",
            BootstrapConfig,
            json!({"status": {"dataSecretName": "a"}}),
            json!({"status": {"dataSecretName": "b"}}),
            &["CT-12.4"],
        ),
        ("a control plane that is not initialized any more", ControlPlane, flag(ControlPlane), json!({}), &["CT-10.9"]),
        (
            "no selector",
            ControlPlane,
            json!({}),
            with(flag(ControlPlane), &json!({"spec": {"replicas": 1}, "status": {"replicas": 1}})),
            &["CT-10.2"],
        ),
        (
            "a version above the requested one",
            ControlPlane,
            json!({"spec": {"version": "v1.33.0"}}),
            json!({"spec": {"version": "v1.33.0"}, "status": {"version": "v1.34.0"}}),
            &["CT-10.4"],
        ),
    ]);
    let half = json!({"status": {"failureReason": "R"}});
    let now = around(InfrastructureMachine);
    assert_eq!(
        broken(InfrastructureMachine, V1Beta1, json!({}), half, &now),
        ["CT-6.7"],
        "a failure without a message"
    );
}

#[test]
fn what_is_around_an_object_decides_too() {
    let role = InfrastructureMachine;
    let up = with(ready(V1Beta2, role), &json!({"spec": {"providerID": "p"}}));
    let mut early = around(role);
    early.cluster = Some(object("", &json!({})));
    assert_eq!(broken(role, V1Beta2, json!({}), up.clone(), &early), ["CT-18.3"], "no infrastructure of the Cluster");
    early = around(role);
    early.owner = Some(object("", &json!({"kind": "Machine"})));
    assert_eq!(broken(role, V1Beta2, json!({}), up.clone(), &early), ["CT-18.3"], "no bootstrap data");
    let mut placed = around(role);
    let spec = json!({"spec": {"bootstrap": {"dataSecretName": "data"}, "failureDomain": "a"}});
    placed.owner = Some(object("", &spec));
    let of = |domain: &str| with(up.clone(), &json!({"status": {"failureDomain": domain}}));
    assert_eq!(broken(role, V1Beta2, json!({}), of("b"), &placed), ["CT-8.3"], "another failure domain");
    assert_eq!(broken(role, V1Beta2, json!({}), up.clone(), &placed), ["CT-8.3?"], "an unknown one");
    let [kept, none] = checked(role, V1Beta2, [Some(json!({})), Some(of("a"))], &placed);
    assert!(kept.contains(&"CT-8.3".to_owned()) && none.is_empty());

    let data = with(ready(V1Beta2, BootstrapConfig), &json!({"status": {"dataSecretName": "d"}}));
    let mut early = around(BootstrapConfig);
    early.cluster = Some(object("", &json!({})));
    assert_eq!(broken(BootstrapConfig, V1Beta2, json!({}), data.clone(), &early), ["CT-12.7"]);
    let label = json!({"kind": "Machine", "metadata": {"labels": {"cluster.x-k8s.io/control-plane": ""}}});
    early.owner = Some(object("", &label));
    assert_eq!(broken(BootstrapConfig, V1Beta2, json!({}), data, &early), [""; 0], "the first machine joins nothing");

    let mut known = around(InfrastructureCluster);
    let endpoint = |host: &str| json!({"spec": {"controlPlaneEndpoint": {"host": host, "port": 6443}}});
    known.cluster = Some(object("", &endpoint("a")));
    assert_eq!(broken(InfrastructureCluster, V1Beta2, json!({}), endpoint("b"), &known), ["CT-6.3"]);
    assert_eq!(broken(InfrastructureCluster, V1Beta2, json!({}), endpoint("a"), &known), [""; 0]);
}

#[test]
fn what_providers_make_has_its_form() {
    let mut now = around(BootstrapConfig);
    let data = with(ready(V1Beta2, BootstrapConfig), &json!({"status": {"dataSecretName": "d"}}));
    let unlabelled = json!({"metadata": {"labels": null}});
    let no_controller =
        json!({"metadata": {"ownerReferences": [{"apiVersion": "g.io/v1", "kind": "Thing", "uid": "own"}]}});
    let alone = json!({"metadata": {"ownerReferences": null}});
    let bare = json!({"metadata": {"labels": null, "ownerReferences": null}});
    for (case, secret, want) in [
        ("no Secret", Secret::Absent, &["CT-12.3"][..]),
        ("all at once", secret(true, &bare), &["CT-12.2", "CT-12.2"]),
        ("no label", secret(true, &unlabelled), &["CT-12.2"]),
        ("a plain owner", secret(true, &no_controller), &["CT-12.2"]),
        ("unknown", Secret::Unknown, &[]),
        ("another type", secret(false, &json!({})), &[]),
    ] {
        now.secret = secret;
        assert_eq!(broken(BootstrapConfig, V1Beta2, json!({}), data.clone(), &now), want, "{case}");
    }
    let mut now = around(ControlPlane);
    for (case, secret, want) in [
        ("no Secret", Secret::Absent, &["CT-10.10"][..]),
        ("another type", secret(false, &json!({})), &["CT-10.10"]),
        ("no label", secret(true, &unlabelled), &["CT-10.10"]),
        ("no owner", secret(true, &alone), &["CT-10.10?"]),
        ("all at once", secret(false, &bare), &["CT-10.10", "CT-10.10", "CT-10.10?"]),
        ("a plain owner", secret(true, &no_controller), &[]),
        ("unknown", Secret::Unknown, &[]),
    ] {
        now.secret = secret;
        assert_eq!(broken(ControlPlane, V1Beta2, json!({}), ready(V1Beta2, ControlPlane), &now), want, "{case}");
    }
}

/// Kept and broken rules about Machines for a change of a control plane.
fn of_machines(before: &[Object], after: &[Object], domains: &Value, states: [Option<Value>; 2]) -> [Vec<String>; 2] {
    let with_machines = |machines: &[Object]| {
        let mut around = around(ControlPlane);
        around.machines = Some(machines.to_vec());
        around.cluster = Some(object("", &json!({"status": {"failureDomains": domains}})));
        around
    };
    judged_with(ControlPlane, V1Beta2, states, [&with_machines(before), &with_machines(after)])
}

#[test]
fn a_new_machine_of_a_control_plane_is_complete_and_in_a_fit_failure_domain() {
    let no_change = || [Some(json!({})), Some(json!({}))];
    let absent = |path: &str| path.rsplit('/').fold(Value::Null, |inner, step| json!({step: inner}));
    for (case, more, want) in [
        (
            "no label of control planes",
            json!({"metadata": {"labels": {"cluster.x-k8s.io/control-plane": null}}}),
            "CT-10.12",
        ),
        (
            "a label that is not empty",
            json!({"metadata": {"labels": {"cluster.x-k8s.io/control-plane": "x"}}}),
            "CT-10.12",
        ),
        ("no Cluster", json!({"metadata": {"labels": {"cluster.x-k8s.io/cluster-name": null}}}), "CT-10.12"),
        ("no name of a Cluster", absent("spec/clusterName"), "CT-10.12"),
        ("no version", absent("spec/version"), "CT-10.12"),
        ("no infrastructure", absent("spec/infrastructureRef"), "CT-10.12"),
        ("no bootstrap data", absent("spec/bootstrap"), "CT-10.12"),
        ("no name", json!({"metadata": {"labels": {"cluster.x-k8s.io/control-plane-name": null}}}), "CT-10.12?"),
        ("another name", json!({"metadata": {"labels": {"cluster.x-k8s.io/control-plane-name": "x"}}}), "CT-10.12?"),
    ] {
        let [_, broken] = of_machines(&[], &[machine("m", &more)], &Value::Null, no_change());
        assert_eq!(broken, [want], "{case}");
        let same = [machine("m", &more)];
        let [kept, broken] = of_machines(&same, &same, &Value::Null, no_change());
        assert!(kept.is_empty() && broken.is_empty(), "{case}: it is not new");
    }
    let domains = json!([{"name": "a", "controlPlane": true}, {"name": "b", "controlPlane": false}]);
    let in_domain = |domain: &str| [machine("m", &json!({"spec": {"failureDomain": domain}}))];
    let none = [machine("m", &json!({}))];
    let rows = |machines: &[Object], domains: &Value| of_machines(&[], machines, domains, no_change());
    assert_eq!(rows(&in_domain("a"), &domains), [vec!["CT-10.12", "CT-10.14"], vec![]]);
    assert_eq!(rows(&in_domain("b"), &domains), [vec!["CT-10.12"], vec!["CT-10.14"]]);
    assert_eq!(rows(&none, &domains), [vec!["CT-10.12"], vec!["CT-10.14"]]);
    assert_eq!(rows(&none, &json!([{"name": "b"}])), [vec!["CT-10.12"], vec![]], "no domain is for control planes");
}

#[test]
fn machines_of_a_control_plane_are_counted_with_a_condition_and_go_first() {
    let counted = |number: u32| Some(json!({"status": {"upToDateReplicas": number}}));
    let [good, bad] = [json!({}), json!({"status": {"conditions": null}})].map(|more| [machine("m", &more)]);
    let rows = |before: &[Object], after: &[Object], states| of_machines(before, after, &Value::Null, states);
    assert_eq!(rows(&good, &good, [counted(0), counted(1)]), [vec!["CT-10.15"], vec![]]);
    assert_eq!(rows(&bad, &bad, [counted(0), counted(1)]), [vec![""; 0], vec![]], "the condition may come next");
    assert_eq!(rows(&bad, &bad, [counted(1), counted(0)]), [vec![], vec!["CT-10.15?"]]);
    let both = [good[0].clone(), machine("other", &json!({"status": {"conditions": null}}))];
    assert_eq!(rows(&both, &both, [counted(1), counted(2)]), [vec![""; 0], vec![]]);
    assert_eq!(rows(&both, &both, [counted(2), counted(1)]), [vec![], vec!["CT-10.15?"]]);
    assert_eq!(rows(&bad, &bad, [counted(1), counted(1)]), [vec![""; 0], vec![]], "no change is about it");
    assert_eq!(rows(&[], &bad, [counted(0), counted(1)]), [vec!["CT-10.12"], vec![]], "it is new");
    let with_flag = with(ready(V1Beta2, ControlPlane), &json!({"status": {"upToDateReplicas": 1}}));
    let [kept, broken] = rows(&bad, &bad, [counted(1), Some(with_flag)]);
    assert!(!kept.contains(&"CT-10.15".to_owned()) && broken == ["CT-10.15?"], "the flag is about it");
    assert_eq!(rows(&good, &good, [Some(json!({})), None]), [vec![], vec!["CT-10.20"]]);
    assert_eq!(rows(&good, &[], [Some(json!({})), None]), [vec!["CT-10.20"], vec![]]);
}

#[test]
fn a_pool_that_names_a_kind_makes_an_object_for_each_instance() {
    let pool = |replicas: u32| Some(json!({"spec": {"providerIDList": ["p"]}, "status": {"replicas": replicas}}));
    let rows = |instances, states| {
        checked(
            InfrastructureMachinePool,
            V1Beta2,
            states,
            &RelatedObjects { instances, ..around(InfrastructureMachinePool) },
        )
    };
    assert_eq!(rows(Some(1), [pool(0), pool(1)]), [vec!["CT-13.2"], vec![]]);
    assert_eq!(rows(Some(0), [pool(0), pool(1)]), [vec![], vec!["CT-13.2"]]);
    for (case, instances, states) in [
        ("no kind", None, [pool(0), pool(1)]),
        ("no instance", Some(0), [pool(1), pool(0)]),
        ("no change", Some(0), [pool(1), pool(1)]),
    ] {
        assert_eq!(rows(instances, states), [vec![""; 0], vec![]], "{case}");
    }
}

#[test]
fn a_paused_object_is_left_alone() {
    let role = InfrastructureMachine;
    let paused = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}});
    let says = json!({"status": {"conditions": [{"type": "Paused", "status": "True", "reason": "Paused"}]}});
    let works = json!({"status": {"addresses": []}});
    let all = around(role);
    let after = with(paused.clone(), &works);
    assert_eq!(broken(role, V1Beta2, paused.clone(), after.clone(), &all), ["CT-15.12"]);
    assert_eq!(broken(role, V1Beta2, json!({}), after, &all), [""; 0], "it may have begun before");
    let [kept, none] = checked(role, V1Beta2, [Some(paused.clone()), Some(with(paused, &says))], &all);
    assert_eq!((kept, none.len()), (vec!["CT-15.12".to_owned()], 0), "the condition says so");
    let mut of_cluster = around(role);
    of_cluster.cluster = Some(object("", &json!({"spec": {"paused": true}})));
    let finalizer = json!({"metadata": {"finalizers": ["g.io/mine", "g.io/more"]}});
    assert_eq!(broken(role, V1Beta2, json!({}), finalizer, &of_cluster), ["CT-15.12"]);
}

const ROLES: [ProviderRole; 5] =
    [InfrastructureCluster, InfrastructureMachine, InfrastructureMachinePool, BootstrapConfig, ControlPlane];

/// All pairs of a role and a contract.
fn pairs() -> impl Iterator<Item = (ProviderRole, Contract)> {
    ROLES.into_iter().flat_map(|role| [V1Beta1, V1Beta2].map(|contract| (role, contract)))
}

#[test]
fn the_rules_of_a_role_are_sorted_by_number_and_in_one_list() {
    for (role, contract) in pairs() {
        let (kept, broken) = (shown(role, contract), only_broken(role, contract));
        for rules in [kept, broken] {
            assert!(rules.is_sorted_by_key(|rule| order(rule)), "{rules:?}");
        }
        assert!(!broken.iter().any(|rule| kept.contains(rule)), "{role:?}");
    }
    let control_plane = shown(ControlPlane, V1Beta2);
    let at = |wanted: &str| control_plane.iter().position(|rule| *rule == wanted).unwrap();
    assert!(at("CT-10.2") < at("CT-10.10"));
    // These can only be broken: no change shows that they are kept.
    assert_eq!(only_broken(InfrastructureCluster, V1Beta2), ["CT-15.13", "CT-20.2"]);
    assert_eq!(only_broken(BootstrapConfig, V1Beta2), ["CT-12.4"]);
}

#[test]
fn every_rule_of_a_role_is_in_the_documents() {
    let lists = pairs().flat_map(|(role, contract)| [shown(role, contract), only_broken(role, contract)]);
    let all: BTreeSet<&str> = lists.flatten().copied().collect();
    let document = std::fs::read_to_string(testing::fixture("../docs/check-provider.md")).unwrap();
    for rule in all {
        assert!(document.contains(rule), "docs/check-provider.md does not name {rule}");
    }
}
