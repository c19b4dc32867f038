//! Providers on a virtual clock. The controllers of Clusters and Machines are played by hand, so that each test fails for a reason
//! that lies in the providers.

use std::sync::Arc;

use core::time::Duration;

use serde_json::{Value, json};

use super::flow::{CLUSTER_FLOW, MACHINE_FLOW};
use crate::lifecycle::conditions::{self, Condition, is_true};
use crate::lifecycle::fields::{self, flag, owner, reference, set, set_annotation, set_label, set_owner, text};
use crate::lifecycle::fold::Fold;
use crate::lifecycle::objects::{GroupKind, ObjectId};
use crate::lifecycle::settings::{FailingPart, InjectedFailure, Settings, Timings};
use crate::lifecycle::testing::{CLUSTER, NAMESPACE, cluster_key, core, fold_with, object};
use golang::calendar::SECOND;
use model::hub::contract::Contract;
use model::hub::{GROUP, Object, ObjectKey, label};

pub(super) const INFRASTRUCTURE: &str = "infrastructure.topologist.dev";
pub(super) const BOOTSTRAP: &str = "bootstrap.topologist.dev";

/// A fold in which the controllers of Cluster API do nothing, since `play` does what they would.
pub(super) fn scene(timings: Timings) -> Fold {
    let external = ["Cluster", "Machine", "MachinePool"].map(str::to_owned).into();
    fold_with(Settings { timings, external, ..Settings::default() })
}

pub(super) fn seconds(fold: &Fold) -> i64 {
    fold.now().seconds - 1_893_456_000
}

/// Makes steps until nothing changes, or that time is over.
pub(super) fn play(fold: &mut Fold, seconds: i64) {
    play_with(fold, seconds, &mut |_| {});
}

/// The same, with a look at each state.
pub(super) fn play_with(fold: &mut Fold, seconds: i64, look: &mut dyn FnMut(&Fold)) {
    let end = fold.now().plus(seconds * SECOND).unwrap();
    loop {
        assert!(fold.settle(10_000), "steps come to rest");
        look(fold);
        let is_over = fold.next_due().is_none_or(|due| due > end);
        if !play_core(fold) && (is_over || !fold.advance()) {
            return;
        }
    }
}

fn play_core(fold: &mut Fold) -> bool {
    let mut has_changed = false;
    for cluster in fold.all(&GroupKind::core("Cluster")) {
        has_changed |= play_cluster(fold, &cluster);
    }
    for machine in fold.all(&GroupKind::core("Machine")) {
        has_changed |= play_machine(fold, &machine);
    }
    has_changed
}

fn change(fold: &mut Fold, object: &Object, change: impl FnOnce(&mut Object)) -> bool {
    let Some(known) = fold.objects.get(&ObjectId::of(object)).cloned() else { return false };
    let mut after = (*known).clone();
    change(&mut after);
    let differs = after != *known;
    if differs {
        fold.update(None, &known, after).unwrap();
    }
    differs
}

fn referenced(fold: &Fold, object: &Object, path: &str) -> Option<Arc<Object>> {
    let reference = reference(object, path);
    fold.find(&GroupKind::to(&reference), &reference.name)
}

fn is_set(object: &Object, paths: [&str; 2]) -> bool {
    paths.iter().any(|path| flag(object, path))
}

fn play_cluster(fold: &mut Fold, cluster: &Object) -> bool {
    let found = ["spec.infrastructureRef", "spec.controlPlaneRef"].map(|path| referenced(fold, cluster, path));
    let mut has_changed = false;
    for part in found.iter().flatten() {
        has_changed |= change(fold, part, |part| set_owner(part, owner(cluster, false), cluster));
    }
    let [infrastructure, control_plane] = found;
    change(fold, cluster, |cluster| {
        if let Some(infrastructure) = &infrastructure
            && is_set(infrastructure, ["status.ready", "status.initialization.provisioned"])
        {
            set(cluster, "status.initialization.infrastructureProvisioned", json!(true));
            set(
                cluster,
                "status.failureDomains",
                infrastructure.at("status.failureDomains").cloned().unwrap_or_default(),
            );
        }
        if control_plane
            .is_some_and(|it| is_set(&it, ["status.initialized", "status.initialization.controlPlaneInitialized"]))
        {
            set(cluster, "status.initialization.controlPlaneInitialized", json!(true));
        }
    }) || has_changed
}

fn play_machine(fold: &mut Fold, machine: &Object) -> bool {
    let found = ["spec.infrastructureRef", "spec.bootstrap.configRef"].map(|path| referenced(fold, machine, path));
    let mut has_changed = false;
    for part in found.iter().flatten() {
        has_changed |= change(fold, part, |part| set(part, "metadata.ownerReferences", json!([owner(machine, true)])));
    }
    if machine.is_being_deleted() {
        for part in found.iter().flatten().filter(|part| !part.is_being_deleted()) {
            fold.delete(&ObjectId::of(part));
            has_changed = true;
        }
        let is_gone = found.iter().all(Option::is_none);
        return is_gone && change(fold, machine, |it| drop(it.remove("metadata.finalizers"))) || has_changed;
    }
    let [infrastructure, config] = found;
    let node = node_of(fold, machine);
    change(fold, machine, |machine| {
        if let Some(config) =
            config.filter(|it| is_set(it, ["status.ready", "status.initialization.dataSecretCreated"]))
        {
            set(machine, "spec.bootstrap.dataSecretName", config.at("status.dataSecretName").cloned().unwrap());
        }
        if let Some(found) =
            infrastructure.filter(|it| is_set(it, ["status.ready", "status.initialization.provisioned"]))
        {
            set(machine, "spec.providerID", found.at("spec.providerID").cloned().unwrap_or_default());
        }
        if let Some(node) = node {
            see(machine, &node);
        }
    }) || has_changed
}

fn node_of(fold: &Fold, machine: &Object) -> Option<Arc<Object>> {
    let workload = fold.objects.workload(&cluster_key()).filter(|workload| workload.is_reachable)?;
    let id = text(machine, "spec.providerID");
    workload
        .all(&GroupKind::new("", "Node"))
        .find(|node| !id.is_empty() && text(node, "spec.providerID") == id)
        .cloned()
}

fn see(machine: &mut Object, node: &Object) {
    set(machine, "status.nodeRef.name", json!(node.name()));
    set(machine, "status.nodeInfo", node.at("status.nodeInfo").cloned().unwrap());
    let conditions = fields::items(node, "status.conditions");
    let is_ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
    let now = golang::calendar::Moment::parse("2030-01-01T00:00:00Z").unwrap();
    for name in ["NodeReady", "Ready", "Available"] {
        conditions::put(machine, name, &Condition::new(is_ready, "Played", ""), now);
    }
}

/// The Cluster with an infrastructure cluster.
pub(super) fn make_cluster(fold: &mut Fold, spec: Value) {
    let reference = json!({"apiGroup": INFRASTRUCTURE, "kind": "EmbeddedCluster", "name": CLUSTER});
    fold.make(core("Cluster", CLUSTER, json!({"infrastructureRef": reference})));
    fold.make(object(&format!("{INFRASTRUCTURE}/v1beta1"), "EmbeddedCluster", CLUSTER, spec));
}

/// A Machine with its infrastructure and its configuration.
pub(super) fn make_machine(fold: &mut Fold, name: &str, is_control_plane: bool, spec: Value) {
    let mut machine = core(
        "Machine",
        name,
        json!({
            "clusterName": CLUSTER, "version": "v1.31.0", "failureDomain": "a",
            "bootstrap": {"configRef": {"apiGroup": BOOTSTRAP, "kind": "EmbeddedConfig", "name": name}},
            "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "EmbeddedMachine", "name": name},
        }),
    );
    set(&mut machine, "metadata.finalizers", json!(["machine.cluster.x-k8s.io"]));
    if is_control_plane {
        set_label(&mut machine, label::CONTROL_PLANE, "");
    }
    fold.make(machine);
    fold.make(object(&format!("{BOOTSTRAP}/v1beta1"), "EmbeddedConfig", name, json!({})));
    fold.make(object(&format!("{INFRASTRUCTURE}/v1beta1"), "EmbeddedMachine", name, spec));
}

pub(super) fn embedded(fold: &Fold, kind: &str, name: &str) -> Arc<Object> {
    let group = if kind == "EmbeddedConfig" { BOOTSTRAP } else { INFRASTRUCTURE };
    fold.find(&GroupKind::new(group, kind), name).unwrap_or_else(|| panic!("there is no {kind} {name}"))
}

fn in_workload(fold: &Fold, kind: &str, namespace: &str, name: &str) -> Option<Arc<Object>> {
    let workload = fold.objects.workload(&cluster_key())?;
    workload.get(&GroupKind::new("", kind), &ObjectKey::new(namespace, name)).cloned()
}

fn node(fold: &Fold, name: &str) -> Option<Arc<Object>> {
    in_workload(fold, "Node", "", name)
}

fn older(fold: &mut Fold, kinds: &[(&str, &str)]) {
    for (group, kind) in kinds {
        fold.objects.set_listed(&GroupKind::new(group, kind), Some(Contract::V1Beta1));
    }
}

const SLOW: Timings = Timings {
    cluster: Duration::from_secs(5),
    infrastructure: Duration::from_secs(20),
    bootstrap: Duration::from_secs(10),
    node: Duration::from_secs(7),
    etcd: Duration::from_secs(3),
    api_server: Duration::from_secs(2),
    control_plane: Duration::from_mins(1),
    drain: Duration::ZERO,
    deletion: Duration::from_secs(4),
    ..Timings::NONE
};

#[test]
fn an_infrastructure_cluster_gets_what_its_contract_asks_for_after_a_while() {
    // CT-5.12, CT-6.2, CT-6.4, CT-6.5, CT-6.6, CT-15.6, CT-18.1, CT-20.2
    let domains = json!([{"name": "a", "controlPlane": true}, {"name": "b"}]);
    for (contract, path, want) in [
        (Contract::V1Beta1, "status.ready", json!({"a": {"controlPlane": true}, "b": {}})),
        (Contract::V1Beta2, "status.initialization.provisioned", domains.clone()),
    ] {
        let mut fold = scene(SLOW);
        fold.objects.set_listed(&GroupKind::new(INFRASTRUCTURE, "EmbeddedCluster"), Some(contract));
        make_cluster(&mut fold, json!({"failureDomains": domains}));
        play(&mut fold, 1);
        let cluster = embedded(&fold, "EmbeddedCluster", CLUSTER);
        assert!(fields::has_finalizer(&cluster, super::infrastructure_cluster::FINALIZER), "{contract:?}");
        play(&mut fold, 60);
        assert_eq!(seconds(&fold), 5, "{contract:?}");
        let cluster = embedded(&fold, "EmbeddedCluster", CLUSTER);
        assert!(flag(&cluster, path), "{contract:?}");
        assert_eq!(cluster.at("spec.controlPlaneEndpoint"), Some(&json!({"host": "127.0.0.1", "port": 6443})));
        assert_eq!(cluster.at("status.failureDomains"), Some(&want));
        assert!(is_true(&cluster, "Ready"));
    }
}

#[test]
fn an_infrastructure_cluster_is_left_alone_for_these_reasons() {
    // CT-6.3, CT-15.12, CT-15.13, CT-18.1
    type Change = fn(&mut Fold);
    let cases: [(&str, Change, &str, bool); 4] = [
        ("managed", |fold| edit_it(fold, |it| set_annotation(it, "cluster.x-k8s.io/managed-by", "x")), "", false),
        ("paused", |fold| edit_it(fold, |it| set_annotation(it, "cluster.x-k8s.io/paused", "")), "Paused", false),
        ("no owner", |fold| fold.delete(&ObjectId::core("Cluster", NAMESPACE, CLUSTER)), "", false),
        (
            "another endpoint",
            |fold| {
                let cluster = fold.core("Cluster", CLUSTER);
                fold.edit(&cluster, |it| set(it, "spec.controlPlaneEndpoint", json!({"host": "h", "port": 1})));
            },
            "NotPaused",
            true,
        ),
    ];
    for (case, change, paused, is_provisioned) in cases {
        let mut fold = scene(Timings::NONE);
        make_cluster(&mut fold, json!({}));
        change(&mut fold);
        play(&mut fold, 10);
        let cluster = embedded(&fold, "EmbeddedCluster", CLUSTER);
        assert_eq!(conditions::reason(&cluster, "Paused"), paused, "{case}");
        assert_eq!(flag(&cluster, "status.initialization.provisioned"), is_provisioned, "{case}");
        assert_eq!(cluster.at("spec.controlPlaneEndpoint"), None, "{case}");
    }
}

fn edit_it(fold: &mut Fold, change: fn(&mut Object)) {
    let object = embedded(fold, "EmbeddedCluster", CLUSTER);
    fold.edit(&object, change);
}

#[test]
fn a_deleted_infrastructure_cluster_takes_its_workload_cluster_with_it() {
    // CT-18.2, CT-19.2
    let mut fold = scene(SLOW);
    make_cluster(&mut fold, json!({}));
    play(&mut fold, 10);
    fold.objects.workload_mut(&cluster_key()).is_reachable = true;
    let id = ObjectId::of(&embedded(&fold, "EmbeddedCluster", CLUSTER));
    fold.delete(&id);
    fold.settle(100);
    assert!(fold.objects.workload(&cluster_key()).is_none());
    assert!(fold.objects.get(&id).is_some(), "its deletion takes a while");
    play(&mut fold, 10);
    assert!(fold.objects.get(&id).is_none());
}

#[test]
fn a_changed_spec_leaves_a_machine_that_exists_as_it_is() {
    // CT-8.7
    for annotation in [None, Some("in-place-updates.internal.cluster.x-k8s.io/update-in-progress")] {
        let mut fold = scene(Timings::NONE);
        make_cluster(&mut fold, json!({}));
        make_machine(&mut fold, "m", true, json!({}));
        play(&mut fold, 10);
        let (before, its_node) = (embedded(&fold, "EmbeddedMachine", "m"), node(&fold, "m"));
        assert!(flag(&before, "status.initialization.provisioned") && its_node.is_some());
        fold.edit(&before, |it| {
            annotation.into_iter().for_each(|name| set_annotation(it, name, ""));
            let vm = json!({"provisioning": {"startupDuration": "1h"}});
            set(it, "spec.backend", json!({"inMemory": {"vm": vm, "failure": {"message": "no"}}}));
        });
        play(&mut fold, 10);
        let after = embedded(&fold, "EmbeddedMachine", "m");
        for path in ["spec.providerID", "status.addresses", "status.failureDomain", "status.initialization"] {
            assert_eq!(after.at(path), before.at(path), "{path}");
        }
        for name in ["Ready", "VMProvisioned", "NodeProvisioned", "APIServerProvisioned"] {
            assert!(is_true(&after, name), "{name}");
        }
        assert_eq!(node(&fold, "m"), its_node);
    }
}

#[test]
fn an_object_that_is_deleted_without_an_owner_loses_its_finalizer() {
    // CT-18.2, CT-19.10
    let mut fold = scene(SLOW);
    let mut machine = object(&format!("{INFRASTRUCTURE}/v1beta1"), "EmbeddedMachine", "m", json!({}));
    set(&mut machine, "metadata.finalizers", json!([super::infrastructure_machine::FINALIZER, "other"]));
    let id = ObjectId::of(&fold.make(machine));
    fold.delete(&id);
    fold.settle(100);
    assert_eq!(fields::items(&fold.objects.get(&id).unwrap().clone(), "metadata.finalizers"), [json!("other")]);
}

#[test]
fn a_control_plane_machine_comes_up_part_by_part() {
    // CT-8.2, CT-8.3, CT-8.4, CT-8.6, CT-12.2, CT-12.3, CT-12.5, CT-12.7, CT-12.9, CT-18.3, CT-19.3, CT-19.4, CT-19.5, CT-19.6,
    // CT-19.7, CT-19.8, CT-19.12, MA-30.2, MA-30.4
    let mut fold = scene(SLOW);
    make_cluster(&mut fold, json!({}));
    make_machine(&mut fold, "m", true, json!({}));
    let mut seen: Vec<(i64, String)> = Vec::new();
    play_with(&mut fold, 300, &mut |fold| {
        let machine = embedded(fold, "EmbeddedMachine", "m");
        let parts = ["VMProvisioned", "NodeProvisioned", "EtcdProvisioned", "APIServerProvisioned", "Ready"];
        let config = embedded(fold, "EmbeddedConfig", "m");
        let parts = parts.iter().filter(|part| is_true(&machine, part)).copied();
        for part in parts.chain(is_true(&config, "Ready").then_some("data")) {
            if seen.iter().all(|(_, known)| known != part) {
                seen.push((seconds(fold), part.to_owned()));
            }
        }
    });
    let want = [
        (15, "data"),
        (35, "VMProvisioned"),
        (42, "NodeProvisioned"),
        (45, "EtcdProvisioned"),
        (47, "APIServerProvisioned"),
        (47, "Ready"),
    ];
    assert_eq!(seen, want.map(|(at, part)| (at, part.to_owned())));
    let machine = embedded(&fold, "EmbeddedMachine", "m");
    assert_eq!(text(&machine, "spec.providerID"), "in-memory://m");
    assert_eq!(text(&machine, "status.failureDomain"), "a");
    assert_eq!(fields::items(&machine, "status.addresses").len(), 2);
    assert!(machine.annotation(super::delays::BOOTSTRAPPED).is_some());
    let made = node(&fold, "m").unwrap();
    assert_eq!(text(&made, "spec.providerID"), "in-memory://m");
    assert_eq!(text(&made, "status.nodeInfo.kubeletVersion"), "v1.31.0");
    assert_eq!(made.label("node-role.kubernetes.io/control-plane"), Some(""));
    for pod in ["etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"] {
        assert!(in_workload(&fold, "Pod", "kube-system", &format!("{pod}-m")).is_some(), "{pod}");
    }
    let machine = fold.find(&GroupKind::new(GROUP, "Machine"), "m").unwrap();
    fold.edit(&machine, |it| set(it, "spec.version", json!("v1.32.0")));
    play(&mut fold, 300);
    let same = node(&fold, "m").unwrap();
    assert_eq!(text(&same, "status.nodeInfo.kubeletVersion"), "v1.31.0", "a kubelet is not replaced in place");
    let secret = fold.find(&GroupKind::new("", "Secret"), "m").unwrap();
    assert_eq!(secret.label(label::CLUSTER_NAME), Some(CLUSTER));
    assert!(fields::controller(&secret).is_some_and(|owner| owner["kind"] == "EmbeddedConfig"));
    assert!(!text(&secret, "data.value").is_empty());
}

#[test]
fn a_machine_says_what_it_waits_for() {
    // CT-12.7, CT-18.3, CT-18.6, CT-19.3
    let mut fold = scene(Timings { bootstrap: Duration::from_secs(100), ..Timings::NONE });
    make_machine(&mut fold, "w", false, json!({}));
    let cluster = fold.make(core("Cluster", CLUSTER, json!({})));
    let reasons = |fold: &Fold| {
        let reason = |kind: &str, name: &str| conditions::reason(&embedded(fold, kind, "w"), name);
        [reason("EmbeddedConfig", "Ready"), reason("EmbeddedMachine", "VMProvisioned")]
    };
    play(&mut fold, 1);
    assert_eq!(reasons(&fold), ["WaitingForClusterInfrastructure", "WaitingForClusterInfrastructure"]);
    fold.edit(&cluster, |it| set(it, "status.initialization.infrastructureProvisioned", json!(true)));
    play(&mut fold, 1);
    assert_eq!(reasons(&fold), ["WaitingForControlPlaneInitialized", "WaitingForControlPlaneInitialized"]);
    fold.edit(&cluster, |it| set(it, "status.initialization.controlPlaneInitialized", json!(true)));
    assert!(fold.settle(100));
    assert_eq!(reasons(&fold), ["Provisioning", "WaitingForBootstrapData"]);
    play(&mut fold, 100);
    assert!(is_true(&embedded(&fold, "EmbeddedMachine", "w"), "VMProvisioned"));
    assert!(node(&fold, "w").is_none(), "no Node registers where no API server answers");
    fold.objects.workload_mut(&cluster_key()).is_reachable = true;
    fold.edit(&cluster, |it| set(it, "metadata.annotations.note", json!("x")));
    play(&mut fold, 1);
    let taints = node(&fold, "w").unwrap().at("spec.taints").cloned();
    // CT-12.6
    assert_eq!(taints, Some(json!([{"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"}])));
}

#[test]
fn what_is_asked_to_fail_fails_in_the_words_of_the_contract() {
    // CT-6.7, CT-8.1, CT-19.8, CT-20.2, CONV-017
    let kept_for_the_older = |object: &Object| text(object, "status.deprecated.v1beta1.failureReason").to_owned();
    let failure = json!({"part": "infrastructure", "reason": "NoCapacity", "message": "no capacity left"});
    let spec = json!({"backend": {"inMemory": {"failure": failure}}});
    for (contract, want) in [(Contract::V1Beta1, "NoCapacity"), (Contract::V1Beta2, "")] {
        let mut fold = scene(Timings::NONE);
        if contract == Contract::V1Beta1 {
            older(&mut fold, &[(INFRASTRUCTURE, "EmbeddedMachine"), (INFRASTRUCTURE, "EmbeddedCluster")]);
        }
        make_cluster(&mut fold, json!({}));
        make_machine(&mut fold, "m", true, spec.clone());
        play(&mut fold, 60);
        let machine = embedded(&fold, "EmbeddedMachine", "m");
        assert_eq!(text(&machine, "status.failureReason"), want, "{contract:?}");
        let kept = if contract == Contract::V1Beta2 { "NoCapacity" } else { "" };
        assert_eq!(kept_for_the_older(&machine), kept, "{contract:?}");
        assert_eq!(
            ["VMProvisioned", "Ready"].map(|name| conditions::reason(&machine, name)),
            ["NoCapacity", "NoCapacity"]
        );
        assert_eq!(machine.at("spec.providerID"), None);
        assert_eq!(fold.events.iter().filter(|(_, _, event)| event.is_warning).count(), 1, "{contract:?}");
        let mut fold = scene(Timings::NONE);
        if contract == Contract::V1Beta1 {
            older(&mut fold, &[(INFRASTRUCTURE, "EmbeddedCluster")]);
        }
        make_cluster(&mut fold, spec.clone());
        play(&mut fold, 60);
        let cluster = embedded(&fold, "EmbeddedCluster", CLUSTER);
        assert_eq!(text(&cluster, "status.failureReason"), want, "{contract:?}");
        assert_eq!(kept_for_the_older(&cluster), kept, "{contract:?}");
        assert!(conditions::is_false(&cluster, "Ready"));
    }
}

#[test]
fn the_settings_name_the_machine_and_the_part_that_fails() {
    for (what, data, vm, has_node, is_ready) in [
        (FailingPart::Infrastructure, true, false, false, false),
        (FailingPart::Bootstrap, false, false, false, false),
        (FailingPart::Node, true, true, false, false),
        (FailingPart::NodeReady, true, true, true, false),
    ] {
        let mut fold = scene(Timings::NONE);
        fold.settings.failures = vec![InjectedFailure { cluster: None, machine: Some(2), what }];
        make_cluster(&mut fold, json!({}));
        make_machine(&mut fold, "a", true, json!({}));
        play(&mut fold, 10);
        let cluster = fold.core("Cluster", CLUSTER);
        fold.edit(&cluster, |it| set(it, "status.initialization.controlPlaneInitialized", json!(true)));
        make_machine(&mut fold, "b", false, json!({}));
        play(&mut fold, 10);
        let state = |name: &str| {
            let machine = embedded(&fold, "EmbeddedMachine", name);
            let node = node(&fold, name);
            let is_ready =
                node.as_ref().is_some_and(|node| node.at("status.conditions").unwrap()[3]["status"] == "True");
            let data = is_true(&embedded(&fold, "EmbeddedConfig", name), "Ready");
            (data, is_true(&machine, "VMProvisioned"), node.is_some(), is_ready)
        };
        assert_eq!(state("a"), (true, true, true, true), "{what:?}: the first one is fine");
        assert_eq!(state("b"), (data, vm, has_node, is_ready), "{what:?}");
    }
}

#[test]
fn machines_have_numbers_in_the_order_in_which_they_were_made() {
    let mut fold = scene(Timings::NONE);
    fold.settings.failures =
        vec![InjectedFailure { cluster: None, machine: Some(3), what: FailingPart::Infrastructure }];
    make_cluster(&mut fold, json!({}));
    for name in ["z", "y", "x", "w"] {
        make_machine(&mut fold, name, true, json!({}));
        fold.advance_by(Duration::from_secs(1));
    }
    play(&mut fold, 10);
    let cluster = fold.core("Cluster", CLUSTER);
    assert_eq!(cluster.annotation("lifecycle.topologist.dev/numbered-machines"), Some("z,y,x"));
    fold.edit(&cluster, |it| set(it, "status.initialization.controlPlaneInitialized", json!(true)));
    play(&mut fold, 10);
    let reasons =
        ["z", "y", "x", "w"].map(|name| conditions::reason(&embedded(&fold, "EmbeddedMachine", name), "Ready"));
    assert_eq!(reasons, ["Ready", "Ready", "InjectedFailure", "Ready"]);
}

#[test]
fn what_runs_on_a_machine_goes_with_it_and_another_etcd_member_leads() {
    // CT-18.4, CT-19.6, CT-19.9
    let mut fold = scene(SLOW);
    make_cluster(&mut fold, json!({}));
    make_machine(&mut fold, "a", true, json!({}));
    play(&mut fold, 100);
    let cluster = fold.core("Cluster", CLUSTER);
    fold.edit(&cluster, |it| set(it, "status.initialization.controlPlaneInitialized", json!(true)));
    make_machine(&mut fold, "b", true, json!({}));
    play(&mut fold, 100);
    let member = |fold: &Fold, name: &str, what: &str| {
        let pod = in_workload(fold, "Pod", "kube-system", &format!("etcd-{name}"))?;
        pod.annotation(&format!("etcd.topologist.dev/{what}")).map(str::to_owned)
    };
    assert_eq!(member(&fold, "a", "cluster-id"), member(&fold, "b", "cluster-id"));
    assert_ne!(member(&fold, "a", "member-id"), member(&fold, "b", "member-id"));
    assert_eq!((member(&fold, "a", "leader").is_some(), member(&fold, "b", "leader").is_some()), (true, false));
    let id = ObjectId::core("Machine", NAMESPACE, "a");
    let before = seconds(&fold);
    fold.delete(&id);
    play(&mut fold, 60);
    assert_eq!(seconds(&fold) - before, 4);
    assert!(fold.objects.get(&id).is_none() && node(&fold, "a").is_none());
    assert_eq!((member(&fold, "a", "leader").is_some(), member(&fold, "b", "leader").is_some()), (false, true));
}

#[test]
fn flags_are_where_the_contract_of_each_kind_says() {
    // CT-5.4, CT-20.1
    for contract in [Contract::V1Beta1, Contract::V1Beta2] {
        let mut fold = scene(Timings::NONE);
        for (group, kind) in
            [(INFRASTRUCTURE, "EmbeddedCluster"), (INFRASTRUCTURE, "EmbeddedMachine"), (BOOTSTRAP, "EmbeddedConfig")]
        {
            fold.objects.set_listed(&GroupKind::new(group, kind), Some(contract));
        }
        make_cluster(&mut fold, json!({}));
        make_machine(&mut fold, "m", true, json!({}));
        play(&mut fold, 60);
        for (kind, name, newer) in [
            ("EmbeddedCluster", CLUSTER, "status.initialization.provisioned"),
            ("EmbeddedMachine", "m", "status.initialization.provisioned"),
            ("EmbeddedConfig", "m", "status.initialization.dataSecretCreated"),
        ] {
            let object = embedded(&fold, kind, name);
            let want = (contract == Contract::V1Beta1, contract == Contract::V1Beta2);
            assert_eq!((flag(&object, "status.ready"), flag(&object, newer)), want, "{kind} {contract:?}");
        }
    }
}

#[test]
fn a_machine_takes_as_long_as_its_spec_says_and_fails_where_it_says() {
    // CT-17.4, CT-18.5, CT-19.4, CT-19.7
    let slow = |duration: &str| json!({"provisioning": {"startupDuration": duration}});
    let backend = json!({"vm": slow("1m"), "node": slow("2m"), "etcd": slow("3m"), "apiServer": slow("4m")});
    let mut fold = scene(SLOW);
    make_cluster(&mut fold, json!({}));
    make_machine(&mut fold, "m", true, json!({"backend": {"inMemory": backend}}));
    play(&mut fold, 3600);
    assert_eq!(seconds(&fold), 5 + 10 + (1 + 2 + 3 + 4) * 60);
    // A machine whose status is lost does not wait again.
    let machine = embedded(&fold, "EmbeddedMachine", "m");
    fold.edit(&machine, |it| drop(it.remove("status")));
    assert!(fold.settle(1000));
    assert!(is_true(&embedded(&fold, "EmbeddedMachine", "m"), "APIServerProvisioned"));
    assert!(flag(&embedded(&fold, "EmbeddedMachine", "m"), "status.initialization.provisioned"));
    for (part, data, vm, has_node) in [
        ("infrastructure", true, false, false),
        ("bootstrap", false, false, false),
        ("node", true, true, false),
        ("nodeReady", true, true, true),
    ] {
        let mut fold = scene(Timings::NONE);
        make_cluster(&mut fold, json!({}));
        make_machine(&mut fold, "m", true, json!({"backend": {"inMemory": {"failure": {"part": part}}}}));
        play(&mut fold, 60);
        let machine = embedded(&fold, "EmbeddedMachine", "m");
        let config = embedded(&fold, "EmbeddedConfig", "m");
        let state = (is_true(&config, "Ready"), is_true(&machine, "VMProvisioned"), node(&fold, "m").is_some());
        assert_eq!(state, (data, vm, has_node), "{part}");
    }
}

/// What a step of an object does to it, in the words of the flows.
fn done(fold: &mut Fold, kind: &str, condition: &str) -> String {
    let (id, before) = {
        let object = embedded(fold, kind, "x");
        (ObjectId::of(&object), object)
    };
    fold.take(&id);
    let Some(after) = fold.objects.get(&id).cloned() else { return "remove the finalizer".to_owned() };
    let count = |object: &Object| fields::items(object, "metadata.finalizers").len();
    if count(&after) > count(&before) {
        return "add the finalizer, stop".to_owned();
    }
    if is_true(&after, "Paused") {
        return "set the condition Paused, stop".to_owned();
    }
    if flag(&after, "status.initialization.provisioned") {
        return "then the flag".to_owned();
    }
    match &*conditions::reason(&after, condition) {
        "" => "stop".to_owned(),
        reason => format!("set the reason {reason}, "),
    }
}

/// An infrastructure cluster and an infrastructure machine, both named x, for which no question ends the step.
fn walked() -> Fold {
    let mut fold = scene(Timings::NONE);
    let reference = |kind: &str| json!({"apiGroup": INFRASTRUCTURE, "kind": kind, "name": "x"});
    let cluster = fold.make(core("Cluster", CLUSTER, json!({"infrastructureRef": reference("EmbeddedCluster")})));
    fold.edit(&cluster, |it| {
        set(it, "status.initialization", json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true}));
    });
    let spec = json!({"clusterName": CLUSTER, "bootstrap": {"dataSecretName": "s"}, "infrastructureRef": reference("EmbeddedMachine")});
    let machine = fold.make(core("Machine", "m", spec));
    for (kind, finalizer, owner) in [
        ("EmbeddedCluster", super::infrastructure_cluster::FINALIZER, owner(&cluster, true)),
        ("EmbeddedMachine", super::infrastructure_machine::FINALIZER, owner(&machine, true)),
    ] {
        let mut object = object(&format!("{INFRASTRUCTURE}/v1beta1"), kind, "x", json!({}));
        set(&mut object, "metadata.finalizers", json!([finalizer]));
        set(&mut object, "metadata.ownerReferences", json!([owner]));
        fold.make(object);
    }
    fold
}

/// Makes a question end the step of the object named x of a kind.
fn end_at(fold: &mut Fold, kind: &str, question: &str) {
    let it = embedded(fold, kind, "x");
    let (cluster, machine) = (fold.core("Cluster", CLUSTER), fold.core("Machine", "m"));
    match question {
        "owner" => fold.edit(&it, |it| drop(it.remove("metadata.ownerReferences"))),
        "managed" => fold.edit(&it, |it| set_annotation(it, "cluster.x-k8s.io/managed-by", "me")),
        "paused" => fold.edit(&it, |it| set_annotation(it, "cluster.x-k8s.io/paused", "")),
        "finalizer" => fold.edit(&it, |it| drop(it.remove("metadata.finalizers"))),
        "deleted" => fold.delete(&ObjectId::of(&it)),
        "infrastructure" => fold.edit(&cluster, |it| drop(it.remove("status.initialization"))),
        "initialized" => {
            fold.edit(&cluster, |it| set(it, "status.initialization.controlPlaneInitialized", json!(false)));
        }
        "data" => fold.edit(&machine, |it| set(it, "spec.bootstrap.dataSecretName", Value::Null)),
        _ => fold.settings.timings = SLOW,
    }
}

#[test]
fn steps_ask_the_questions_of_the_flows_in_their_order() {
    // CT-18.1, CT-18.2, CT-18.3, CT-18.4
    let of_cluster = ["owner", "managed", "paused", "finalizer", "deleted", "instance"];
    let of_machine = ["owner", "paused", "finalizer", "deleted", "infrastructure", "initialized", "data", "instance"];
    for (kind, condition, flow, names) in [
        ("EmbeddedCluster", "Ready", CLUSTER_FLOW, &of_cluster[..]),
        ("EmbeddedMachine", "VMProvisioned", MACHINE_FLOW, &of_machine),
    ] {
        assert!(flow.ends.ends_with(&done(&mut walked(), kind, condition)), "{kind}: no question ends the step");
        assert_eq!(flow.questions.len(), names.len(), "{kind}");
        for (number, question) in flow.questions.iter().enumerate() {
            let mut fold = walked();
            // What stands further down would end the step as well. Deletion is looked at by itself: it ends with the finalizer.
            let others = names[number + 1..].iter().filter(|name| !["finalizer", "deleted"].contains(*name));
            let others = others.filter(|name| names[number] != "deleted" || **name != "instance");
            // Without data the question about the control plane is asked.
            let data = ["data"].iter().filter(|_| names[number] == "initialized");
            for name in others.chain(data).chain([&names[number]]) {
                end_at(&mut fold, kind, name);
            }
            let done = done(&mut fold, kind, condition);
            assert!(question.then.contains(&done), "{kind}: {}: {done}, want {}", question.asks, question.then);
        }
        let mut fold = walked();
        end_at(&mut fold, kind, "deleted");
        end_at(&mut fold, kind, "owner");
        assert_eq!(done(&mut fold, kind, condition), "remove the finalizer", "{kind} without an owner");
    }
}
