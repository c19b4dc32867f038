//! Providers on a virtual clock. The test plays the controllers of Clusters and Machines, so that a failure is caused
//! by the providers.

use std::sync::Arc;

use core::time::Duration;

use serde_json::{Value, json};

use super::flow::{CLUSTER_FLOW, MACHINE_FLOW};
use crate::lifecycle::conditions::{self, ConditionState, is_true};
use crate::lifecycle::fields::{self, flag, owner, set, set_annotation, set_label, set_owner, text};
use crate::lifecycle::objects::{GroupKind, ObjectId};
use crate::lifecycle::settings::{FailingPart, InjectedFailure, MachineSettings, Timings};
use crate::lifecycle::simulator::MachineSimulator;
use crate::lifecycle::testing::{CLUSTER, NAMESPACE, cluster_key, core, fold_with, object};
use golang::calendar::SECOND;
use model::hub::contract::Contract;
use model::hub::{GROUP, Object, ObjectKey, label};

pub(super) const INFRASTRUCTURE: &str = "infrastructure.topologist.dev";
pub(super) const BOOTSTRAP: &str = "bootstrap.topologist.dev";

/// A simulator without controllers of Cluster API, which `play` replaces.
pub(super) fn setup(timings: Timings) -> MachineSimulator {
    let external = ["Cluster", "Machine", "MachinePool"].map(str::to_owned).into();
    fold_with(MachineSettings { timings, external, ..MachineSettings::default() })
}

pub(super) fn seconds(simulator: &MachineSimulator) -> i64 {
    simulator.now().seconds - 1_893_456_000
}

/// Runs steps until nothing changes, or a period has passed.
pub(super) fn play(simulator: &mut MachineSimulator, seconds: i64) {
    play_with(simulator, seconds, &mut |_| {});
}

/// As [`play`], calling `look` for each state.
pub(super) fn play_with(simulator: &mut MachineSimulator, seconds: i64, look: &mut dyn FnMut(&MachineSimulator)) {
    let end = simulator.now().plus(seconds * SECOND).unwrap();
    loop {
        assert!(simulator.settle(10_000), "steps come to rest");
        look(simulator);
        let is_over = simulator.next_due().is_none_or(|due| due > end);
        if !play_core(simulator) && (is_over || !simulator.advance()) {
            return;
        }
    }
}

fn play_core(simulator: &mut MachineSimulator) -> bool {
    let mut has_changed = false;
    for cluster in simulator.all(&GroupKind::core("Cluster")) {
        has_changed |= play_cluster(simulator, &cluster);
    }
    for machine in simulator.all(&GroupKind::core("Machine")) {
        has_changed |= play_machine(simulator, &machine);
    }
    has_changed
}

fn change(simulator: &mut MachineSimulator, object: &Object, change: impl FnOnce(&mut Object)) -> bool {
    let Some(known) = simulator.objects.get(&ObjectId::for_object(object)).cloned() else { return false };
    let mut after = (*known).clone();
    change(&mut after);
    let differs = after != *known;
    if differs {
        simulator.update(None, &known, after).unwrap();
    }
    differs
}

fn referenced(simulator: &MachineSimulator, object: &Object, path: &str) -> Option<Arc<Object>> {
    let reference = object.contract_ref_at(path);
    simulator.find(&GroupKind::for_reference(&reference), &reference.name)
}

fn is_set(object: &Object, paths: [&str; 2]) -> bool {
    paths.iter().any(|path| flag(object, path))
}

fn play_cluster(simulator: &mut MachineSimulator, cluster: &Object) -> bool {
    let found = ["spec.infrastructureRef", "spec.controlPlaneRef"].map(|path| referenced(simulator, cluster, path));
    let mut has_changed = false;
    for part in found.iter().flatten() {
        has_changed |= change(simulator, part, |part| set_owner(part, owner(cluster, false), cluster));
    }
    let [infrastructure, control_plane] = found;
    change(simulator, cluster, |cluster| {
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

fn play_machine(simulator: &mut MachineSimulator, machine: &Object) -> bool {
    let found = ["spec.infrastructureRef", "spec.bootstrap.configRef"].map(|path| referenced(simulator, machine, path));
    let mut has_changed = false;
    for part in found.iter().flatten() {
        has_changed |=
            change(simulator, part, |part| set(part, "metadata.ownerReferences", json!([owner(machine, true)])));
    }
    if machine.is_being_deleted() {
        for part in found.iter().flatten().filter(|part| !part.is_being_deleted()) {
            simulator.delete(&ObjectId::for_object(part));
            has_changed = true;
        }
        let is_gone = found.iter().all(Option::is_none);
        return is_gone && change(simulator, machine, |it| drop(it.remove("metadata.finalizers"))) || has_changed;
    }
    let [infrastructure, config] = found;
    let node = node_of(simulator, machine);
    change(simulator, machine, |machine| {
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

fn node_of(simulator: &MachineSimulator, machine: &Object) -> Option<Arc<Object>> {
    let workload = simulator.objects.workload(&cluster_key()).filter(|workload| workload.is_reachable)?;
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
        conditions::put(machine, name, &ConditionState::new(is_ready, "Played", ""), now);
    }
}

/// The Cluster with an infrastructure cluster.
pub(super) fn make_cluster(simulator: &mut MachineSimulator, spec: Value) {
    let reference = json!({"apiGroup": INFRASTRUCTURE, "kind": "EmbeddedCluster", "name": CLUSTER});
    simulator.make(core("Cluster", CLUSTER, json!({"infrastructureRef": reference})));
    simulator.make(object(&format!("{INFRASTRUCTURE}/v1beta1"), "EmbeddedCluster", CLUSTER, spec));
}

/// A Machine with its infrastructure and its configuration.
pub(super) fn make_machine(simulator: &mut MachineSimulator, name: &str, is_control_plane: bool, spec: Value) {
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
    simulator.make(machine);
    simulator.make(object(&format!("{BOOTSTRAP}/v1beta1"), "EmbeddedConfig", name, json!({})));
    simulator.make(object(&format!("{INFRASTRUCTURE}/v1beta1"), "EmbeddedMachine", name, spec));
}

pub(super) fn embedded(simulator: &MachineSimulator, kind: &str, name: &str) -> Arc<Object> {
    let group = if kind == "EmbeddedConfig" { BOOTSTRAP } else { INFRASTRUCTURE };
    simulator.find(&GroupKind::new(group, kind), name).unwrap_or_else(|| panic!("there is no {kind} {name}"))
}

fn in_workload(simulator: &MachineSimulator, kind: &str, namespace: &str, name: &str) -> Option<Arc<Object>> {
    let workload = simulator.objects.workload(&cluster_key())?;
    workload.get(&GroupKind::new("", kind), &ObjectKey::new(namespace, name)).cloned()
}

fn node(simulator: &MachineSimulator, name: &str) -> Option<Arc<Object>> {
    in_workload(simulator, "Node", "", name)
}

fn older(simulator: &mut MachineSimulator, kinds: &[(&str, &str)]) {
    for (group, kind) in kinds {
        simulator.objects.set_listed(&GroupKind::new(group, kind), Some(Contract::V1Beta1));
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
        let mut simulator = setup(SLOW);
        simulator.objects.set_listed(&GroupKind::new(INFRASTRUCTURE, "EmbeddedCluster"), Some(contract));
        make_cluster(&mut simulator, json!({"failureDomains": domains}));
        play(&mut simulator, 1);
        let cluster = embedded(&simulator, "EmbeddedCluster", CLUSTER);
        assert!(cluster.has_finalizer(super::infrastructure_cluster::FINALIZER), "{contract:?}");
        play(&mut simulator, 60);
        assert_eq!(seconds(&simulator), 5, "{contract:?}");
        let cluster = embedded(&simulator, "EmbeddedCluster", CLUSTER);
        assert!(flag(&cluster, path), "{contract:?}");
        assert_eq!(cluster.at("spec.controlPlaneEndpoint"), Some(&json!({"host": "127.0.0.1", "port": 6443})));
        assert_eq!(cluster.at("status.failureDomains"), Some(&want));
        assert!(is_true(&cluster, "Ready"));
    }
}

#[test]
fn an_infrastructure_cluster_is_left_alone_for_these_reasons() {
    // CT-6.3, CT-15.12, CT-15.13, CT-18.1
    type Change = fn(&mut MachineSimulator);
    let cases: [(&str, Change, &str, bool); 4] = [
        (
            "managed",
            |simulator| edit_it(simulator, |it| set_annotation(it, "cluster.x-k8s.io/managed-by", "x")),
            "",
            false,
        ),
        (
            "paused",
            |simulator| edit_it(simulator, |it| set_annotation(it, "cluster.x-k8s.io/paused", "")),
            "Paused",
            false,
        ),
        ("no owner", |simulator| simulator.delete(&ObjectId::core("Cluster", NAMESPACE, CLUSTER)), "", false),
        (
            "another endpoint",
            |simulator| {
                let cluster = simulator.core("Cluster", CLUSTER);
                simulator.edit(&cluster, |it| set(it, "spec.controlPlaneEndpoint", json!({"host": "h", "port": 1})));
            },
            "NotPaused",
            true,
        ),
    ];
    for (case, change, paused, is_provisioned) in cases {
        let mut simulator = setup(Timings::NONE);
        make_cluster(&mut simulator, json!({}));
        change(&mut simulator);
        play(&mut simulator, 10);
        let cluster = embedded(&simulator, "EmbeddedCluster", CLUSTER);
        assert_eq!(conditions::reason(&cluster, "Paused"), paused, "{case}");
        assert_eq!(flag(&cluster, "status.initialization.provisioned"), is_provisioned, "{case}");
        assert_eq!(cluster.at("spec.controlPlaneEndpoint"), None, "{case}");
    }
}

fn edit_it(simulator: &mut MachineSimulator, change: fn(&mut Object)) {
    let object = embedded(simulator, "EmbeddedCluster", CLUSTER);
    simulator.edit(&object, change);
}

#[test]
fn a_deleted_infrastructure_cluster_takes_its_workload_cluster_with_it() {
    // CT-18.2, CT-19.2
    let mut simulator = setup(SLOW);
    make_cluster(&mut simulator, json!({}));
    play(&mut simulator, 10);
    simulator.objects.workload_mut(&cluster_key()).is_reachable = true;
    let id = ObjectId::for_object(&embedded(&simulator, "EmbeddedCluster", CLUSTER));
    simulator.delete(&id);
    simulator.settle(100);
    assert!(simulator.objects.workload(&cluster_key()).is_none());
    assert!(simulator.objects.get(&id).is_some(), "its deletion takes a while");
    play(&mut simulator, 10);
    assert!(simulator.objects.get(&id).is_none());
}

#[test]
fn a_changed_spec_leaves_a_machine_that_exists_as_it_is() {
    // CT-8.7
    for annotation in [None, Some("in-place-updates.internal.cluster.x-k8s.io/update-in-progress")] {
        let mut simulator = setup(Timings::NONE);
        make_cluster(&mut simulator, json!({}));
        make_machine(&mut simulator, "m", true, json!({}));
        play(&mut simulator, 10);
        let (before, its_node) = (embedded(&simulator, "EmbeddedMachine", "m"), node(&simulator, "m"));
        assert!(flag(&before, "status.initialization.provisioned") && its_node.is_some());
        simulator.edit(&before, |it| {
            annotation.into_iter().for_each(|name| set_annotation(it, name, ""));
            let vm = json!({"provisioning": {"startupDuration": "1h"}});
            set(it, "spec.backend", json!({"inMemory": {"vm": vm, "failure": {"message": "no"}}}));
        });
        play(&mut simulator, 10);
        let after = embedded(&simulator, "EmbeddedMachine", "m");
        for path in ["spec.providerID", "status.addresses", "status.failureDomain", "status.initialization"] {
            assert_eq!(after.at(path), before.at(path), "{path}");
        }
        for name in ["Ready", "VMProvisioned", "NodeProvisioned", "APIServerProvisioned"] {
            assert!(is_true(&after, name), "{name}");
        }
        assert_eq!(node(&simulator, "m"), its_node);
    }
}

#[test]
fn an_object_that_is_deleted_without_an_owner_loses_its_finalizer() {
    // CT-18.2, CT-19.10
    let mut simulator = setup(SLOW);
    let mut machine = object(&format!("{INFRASTRUCTURE}/v1beta1"), "EmbeddedMachine", "m", json!({}));
    set(&mut machine, "metadata.finalizers", json!([super::infrastructure_machine::FINALIZER, "other"]));
    let id = ObjectId::for_object(&simulator.make(machine));
    simulator.delete(&id);
    simulator.settle(100);
    assert_eq!(fields::items(&simulator.objects.get(&id).unwrap().clone(), "metadata.finalizers"), [json!("other")]);
}

#[test]
fn a_control_plane_machine_comes_up_part_by_part() {
    // CT-8.2, CT-8.3, CT-8.4, CT-8.6, CT-12.2, CT-12.3, CT-12.5, CT-12.7, CT-12.9, CT-18.3, CT-19.3, CT-19.4, CT-19.5,
    // CT-19.6, CT-19.7, CT-19.8, CT-19.12, MA-30.2, MA-30.4
    let mut simulator = setup(SLOW);
    make_cluster(&mut simulator, json!({}));
    make_machine(&mut simulator, "m", true, json!({}));
    let mut seen: Vec<(i64, String)> = Vec::new();
    play_with(&mut simulator, 300, &mut |simulator| {
        let machine = embedded(simulator, "EmbeddedMachine", "m");
        let parts = ["VMProvisioned", "NodeProvisioned", "EtcdProvisioned", "APIServerProvisioned", "Ready"];
        let config = embedded(simulator, "EmbeddedConfig", "m");
        let parts = parts.iter().filter(|part| is_true(&machine, part)).copied();
        for part in parts.chain(is_true(&config, "Ready").then_some("data")) {
            if seen.iter().all(|(_, known)| known != part) {
                seen.push((seconds(simulator), part.to_owned()));
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
    let machine = embedded(&simulator, "EmbeddedMachine", "m");
    assert_eq!(text(&machine, "spec.providerID"), "in-memory://m");
    assert_eq!(text(&machine, "status.failureDomain"), "a");
    assert_eq!(fields::items(&machine, "status.addresses").len(), 2);
    assert!(machine.annotation(super::delays::BOOTSTRAPPED).is_some());
    let made = node(&simulator, "m").unwrap();
    assert_eq!(text(&made, "spec.providerID"), "in-memory://m");
    assert_eq!(text(&made, "status.nodeInfo.kubeletVersion"), "v1.31.0");
    assert_eq!(made.label("node-role.kubernetes.io/control-plane"), Some(""));
    for pod in ["etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"] {
        assert!(in_workload(&simulator, "Pod", "kube-system", &format!("{pod}-m")).is_some(), "{pod}");
    }
    let machine = simulator.find(&GroupKind::new(GROUP, "Machine"), "m").unwrap();
    simulator.edit(&machine, |it| set(it, "spec.version", json!("v1.32.0")));
    play(&mut simulator, 300);
    let same = node(&simulator, "m").unwrap();
    assert_eq!(text(&same, "status.nodeInfo.kubeletVersion"), "v1.31.0", "a kubelet is not replaced in place");
    let secret = simulator.find(&GroupKind::new("", "Secret"), "m").unwrap();
    assert_eq!(secret.label(label::CLUSTER_NAME), Some(CLUSTER));
    assert!(secret.controller().is_some_and(|owner| owner["kind"] == "EmbeddedConfig"));
    assert!(!text(&secret, "data.value").is_empty());
}

#[test]
fn a_control_plane_machine_that_is_deleted_before_the_connection_leaves_nothing() {
    // CT-19.9
    let mut simulator = setup(SLOW);
    make_cluster(&mut simulator, json!({}));
    make_machine(&mut simulator, "m", true, json!({}));
    play(&mut simulator, 46);
    assert!(node(&simulator, "m").is_some() && in_workload(&simulator, "Pod", "kube-system", "etcd-m").is_some());
    assert!(!simulator.objects.workload(&cluster_key()).unwrap().is_reachable);
    simulator.delete(&ObjectId::for_object(&embedded(&simulator, "EmbeddedMachine", "m")));
    assert!(simulator.settle(100));
    let workload = simulator.objects.workload(&cluster_key()).unwrap();
    assert_eq!(workload.all(&GroupKind::new("", "Node")).count(), 0);
    assert_eq!(workload.all(&GroupKind::new("", "Pod")).count(), 0);
}

#[test]
fn the_next_machine_initializes_the_control_plane_when_the_oldest_one_leaves() {
    // CT-12.7
    let mut simulator = setup(SLOW);
    make_cluster(&mut simulator, json!({}));
    make_machine(&mut simulator, "a", true, json!({}));
    make_machine(&mut simulator, "b", true, json!({}));
    play(&mut simulator, 16);
    let has_data =
        |simulator: &MachineSimulator, name: &str| is_true(&embedded(simulator, "EmbeddedConfig", name), "Ready");
    assert!(has_data(&simulator, "a") && !has_data(&simulator, "b"), "the first one initializes the control plane");
    let first = simulator.core("Machine", "a");
    simulator.edit(&first, |machine| set(machine, "metadata.finalizers", json!(["test/stays"])));
    simulator.delete(&ObjectId::for_object(&first));
    play(&mut simulator, 20);
    assert!(has_data(&simulator, "b"));
}

#[test]
fn a_machine_says_what_it_waits_for() {
    // CT-12.7, CT-18.3, CT-18.6, CT-19.3
    let mut simulator = setup(Timings { bootstrap: Duration::from_secs(100), ..Timings::NONE });
    make_machine(&mut simulator, "w", false, json!({}));
    let cluster = simulator.make(core("Cluster", CLUSTER, json!({})));
    let reasons = |simulator: &MachineSimulator| {
        let reason = |kind: &str, name: &str| conditions::reason(&embedded(simulator, kind, "w"), name);
        [reason("EmbeddedConfig", "Ready"), reason("EmbeddedMachine", "VMProvisioned")]
    };
    play(&mut simulator, 1);
    assert_eq!(reasons(&simulator), ["WaitingForClusterInfrastructure", "WaitingForClusterInfrastructure"]);
    simulator.edit(&cluster, |it| set(it, "status.initialization.infrastructureProvisioned", json!(true)));
    play(&mut simulator, 1);
    assert_eq!(reasons(&simulator), ["WaitingForControlPlaneInitialized", "WaitingForControlPlaneInitialized"]);
    simulator.edit(&cluster, |it| set(it, "status.initialization.controlPlaneInitialized", json!(true)));
    assert!(simulator.settle(100));
    assert_eq!(reasons(&simulator), ["Provisioning", "WaitingForBootstrapData"]);
    play(&mut simulator, 100);
    assert!(is_true(&embedded(&simulator, "EmbeddedMachine", "w"), "VMProvisioned"));
    assert!(node(&simulator, "w").is_none(), "no Node registers where no API server answers");
    simulator.objects.workload_mut(&cluster_key()).is_reachable = true;
    simulator.edit(&cluster, |it| set(it, "metadata.annotations.note", json!("x")));
    play(&mut simulator, 1);
    let taints = node(&simulator, "w").unwrap().at("spec.taints").cloned();
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
        let mut simulator = setup(Timings::NONE);
        if contract == Contract::V1Beta1 {
            older(&mut simulator, &[(INFRASTRUCTURE, "EmbeddedMachine"), (INFRASTRUCTURE, "EmbeddedCluster")]);
        }
        make_cluster(&mut simulator, json!({}));
        make_machine(&mut simulator, "m", true, spec.clone());
        play(&mut simulator, 60);
        let machine = embedded(&simulator, "EmbeddedMachine", "m");
        assert_eq!(text(&machine, "status.failureReason"), want, "{contract:?}");
        let kept = if contract == Contract::V1Beta2 { "NoCapacity" } else { "" };
        assert_eq!(kept_for_the_older(&machine), kept, "{contract:?}");
        assert_eq!(
            ["VMProvisioned", "Ready"].map(|name| conditions::reason(&machine, name)),
            ["NoCapacity", "NoCapacity"]
        );
        assert_eq!(machine.at("spec.providerID"), None);
        assert_eq!(simulator.events.iter().filter(|(_, _, event)| event.is_warning).count(), 1, "{contract:?}");
        let mut simulator = setup(Timings::NONE);
        if contract == Contract::V1Beta1 {
            older(&mut simulator, &[(INFRASTRUCTURE, "EmbeddedCluster")]);
        }
        make_cluster(&mut simulator, spec.clone());
        play(&mut simulator, 60);
        let cluster = embedded(&simulator, "EmbeddedCluster", CLUSTER);
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
        let mut simulator = setup(Timings::NONE);
        simulator.settings.failures = vec![InjectedFailure { cluster: None, machine: Some(2), what }];
        make_cluster(&mut simulator, json!({}));
        make_machine(&mut simulator, "a", true, json!({}));
        play(&mut simulator, 10);
        let cluster = simulator.core("Cluster", CLUSTER);
        simulator.edit(&cluster, |it| set(it, "status.initialization.controlPlaneInitialized", json!(true)));
        make_machine(&mut simulator, "b", false, json!({}));
        play(&mut simulator, 10);
        let state = |name: &str| {
            let machine = embedded(&simulator, "EmbeddedMachine", name);
            let node = node(&simulator, name);
            let is_ready =
                node.as_ref().is_some_and(|node| node.at("status.conditions").unwrap()[3]["status"] == "True");
            let data = is_true(&embedded(&simulator, "EmbeddedConfig", name), "Ready");
            (data, is_true(&machine, "VMProvisioned"), node.is_some(), is_ready)
        };
        assert_eq!(state("a"), (true, true, true, true), "{what:?}: the first one is fine");
        assert_eq!(state("b"), (data, vm, has_node, is_ready), "{what:?}");
    }
}

#[test]
fn machines_have_numbers_in_the_order_in_which_they_were_made() {
    let mut simulator = setup(Timings::NONE);
    simulator.settings.failures =
        vec![InjectedFailure { cluster: None, machine: Some(3), what: FailingPart::Infrastructure }];
    make_cluster(&mut simulator, json!({}));
    for name in ["z", "y", "x", "w"] {
        make_machine(&mut simulator, name, true, json!({}));
        simulator.advance_by(Duration::from_secs(1));
    }
    play(&mut simulator, 10);
    let cluster = simulator.core("Cluster", CLUSTER);
    assert_eq!(cluster.annotation("lifecycle.topologist.dev/numbered-machines"), Some("z,y,x"));
    simulator.edit(&cluster, |it| set(it, "status.initialization.controlPlaneInitialized", json!(true)));
    play(&mut simulator, 10);
    let reasons =
        ["z", "y", "x", "w"].map(|name| conditions::reason(&embedded(&simulator, "EmbeddedMachine", name), "Ready"));
    assert_eq!(reasons, ["Ready", "Ready", "InjectedFailure", "Ready"]);
}

#[test]
fn what_runs_on_a_machine_goes_with_it_and_another_etcd_member_leads() {
    // CT-18.4, CT-19.6, CT-19.9
    let mut simulator = setup(SLOW);
    make_cluster(&mut simulator, json!({}));
    make_machine(&mut simulator, "a", true, json!({}));
    play(&mut simulator, 100);
    let cluster = simulator.core("Cluster", CLUSTER);
    simulator.edit(&cluster, |it| set(it, "status.initialization.controlPlaneInitialized", json!(true)));
    make_machine(&mut simulator, "b", true, json!({}));
    play(&mut simulator, 100);
    let member = |simulator: &MachineSimulator, name: &str, what: &str| {
        let pod = in_workload(simulator, "Pod", "kube-system", &format!("etcd-{name}"))?;
        pod.annotation(&format!("etcd.topologist.dev/{what}")).map(str::to_owned)
    };
    assert_eq!(member(&simulator, "a", "cluster-id"), member(&simulator, "b", "cluster-id"));
    assert_ne!(member(&simulator, "a", "member-id"), member(&simulator, "b", "member-id"));
    assert_eq!(
        (member(&simulator, "a", "leader").is_some(), member(&simulator, "b", "leader").is_some()),
        (true, false)
    );
    let id = ObjectId::core("Machine", NAMESPACE, "a");
    let before = seconds(&simulator);
    simulator.delete(&id);
    play(&mut simulator, 60);
    assert_eq!(seconds(&simulator) - before, 4);
    assert!(simulator.objects.get(&id).is_none() && node(&simulator, "a").is_none());
    assert_eq!(
        (member(&simulator, "a", "leader").is_some(), member(&simulator, "b", "leader").is_some()),
        (false, true)
    );
}

#[test]
fn flags_are_where_the_contract_of_each_kind_says() {
    // CT-5.4, CT-20.1
    for contract in [Contract::V1Beta1, Contract::V1Beta2] {
        let mut simulator = setup(Timings::NONE);
        for (group, kind) in
            [(INFRASTRUCTURE, "EmbeddedCluster"), (INFRASTRUCTURE, "EmbeddedMachine"), (BOOTSTRAP, "EmbeddedConfig")]
        {
            simulator.objects.set_listed(&GroupKind::new(group, kind), Some(contract));
        }
        make_cluster(&mut simulator, json!({}));
        make_machine(&mut simulator, "m", true, json!({}));
        play(&mut simulator, 60);
        for (kind, name, newer) in [
            ("EmbeddedCluster", CLUSTER, "status.initialization.provisioned"),
            ("EmbeddedMachine", "m", "status.initialization.provisioned"),
            ("EmbeddedConfig", "m", "status.initialization.dataSecretCreated"),
        ] {
            let object = embedded(&simulator, kind, name);
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
    let mut simulator = setup(SLOW);
    make_cluster(&mut simulator, json!({}));
    make_machine(&mut simulator, "m", true, json!({"backend": {"inMemory": backend}}));
    play(&mut simulator, 3600);
    assert_eq!(seconds(&simulator), 5 + 10 + (1 + 2 + 3 + 4) * 60);
    // A machine whose status is lost does not take time again.
    let machine = embedded(&simulator, "EmbeddedMachine", "m");
    simulator.edit(&machine, |it| drop(it.remove("status")));
    assert!(simulator.settle(1000));
    assert!(is_true(&embedded(&simulator, "EmbeddedMachine", "m"), "APIServerProvisioned"));
    assert!(flag(&embedded(&simulator, "EmbeddedMachine", "m"), "status.initialization.provisioned"));
    for (part, data, vm, has_node) in [
        ("infrastructure", true, false, false),
        ("bootstrap", false, false, false),
        ("node", true, true, false),
        ("nodeReady", true, true, true),
    ] {
        let mut simulator = setup(Timings::NONE);
        make_cluster(&mut simulator, json!({}));
        make_machine(&mut simulator, "m", true, json!({"backend": {"inMemory": {"failure": {"part": part}}}}));
        play(&mut simulator, 60);
        let machine = embedded(&simulator, "EmbeddedMachine", "m");
        let config = embedded(&simulator, "EmbeddedConfig", "m");
        let state = (is_true(&config, "Ready"), is_true(&machine, "VMProvisioned"), node(&simulator, "m").is_some());
        assert_eq!(state, (data, vm, has_node), "{part}");
    }
}

/// The effect of a step on an object, in the terms of the flows.
fn done(simulator: &mut MachineSimulator, kind: &str, condition: &str) -> String {
    let (id, before) = {
        let object = embedded(simulator, kind, "x");
        (ObjectId::for_object(&object), object)
    };
    simulator.take(&id);
    let Some(after) = simulator.objects.get(&id).cloned() else { return "remove the finalizer".to_owned() };
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

/// An infrastructure cluster and an infrastructure machine, both named x, whose steps run to the end.
fn walked() -> MachineSimulator {
    let mut simulator = setup(Timings::NONE);
    let reference = |kind: &str| json!({"apiGroup": INFRASTRUCTURE, "kind": kind, "name": "x"});
    let cluster = simulator.make(core("Cluster", CLUSTER, json!({"infrastructureRef": reference("EmbeddedCluster")})));
    simulator.edit(&cluster, |it| {
        set(it, "status.initialization", json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true}));
    });
    let spec = json!({"clusterName": CLUSTER, "bootstrap": {"dataSecretName": "s"},
        "infrastructureRef": reference("EmbeddedMachine")});
    let machine = simulator.make(core("Machine", "m", spec));
    for (kind, finalizer, owner) in [
        ("EmbeddedCluster", super::infrastructure_cluster::FINALIZER, owner(&cluster, true)),
        ("EmbeddedMachine", super::infrastructure_machine::FINALIZER, owner(&machine, true)),
    ] {
        let mut object = object(&format!("{INFRASTRUCTURE}/v1beta1"), kind, "x", json!({}));
        set(&mut object, "metadata.finalizers", json!([finalizer]));
        set(&mut object, "metadata.ownerReferences", json!([owner]));
        simulator.make(object);
    }
    simulator
}

/// Makes a question end the step of the object x of a kind.
fn end_at(simulator: &mut MachineSimulator, kind: &str, question: &str) {
    let it = embedded(simulator, kind, "x");
    let (cluster, machine) = (simulator.core("Cluster", CLUSTER), simulator.core("Machine", "m"));
    match question {
        "owner" => simulator.edit(&it, |it| drop(it.remove("metadata.ownerReferences"))),
        "managed" => simulator.edit(&it, |it| set_annotation(it, "cluster.x-k8s.io/managed-by", "me")),
        "paused" => simulator.edit(&it, |it| set_annotation(it, "cluster.x-k8s.io/paused", "")),
        "finalizer" => simulator.edit(&it, |it| drop(it.remove("metadata.finalizers"))),
        "deleted" => simulator.delete(&ObjectId::for_object(&it)),
        "infrastructure" => simulator.edit(&cluster, |it| drop(it.remove("status.initialization"))),
        "initialized" => {
            simulator.edit(&cluster, |it| set(it, "status.initialization.controlPlaneInitialized", json!(false)));
        }
        "data" => simulator.edit(&machine, |it| set(it, "spec.bootstrap.dataSecretName", Value::Null)),
        _ => simulator.settings.timings = SLOW,
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
            let mut simulator = walked();
            // Later questions would end the step as well. Deletion is tested separately: it ends with the finalizer.
            let others = names[number + 1..].iter().filter(|name| !["finalizer", "deleted"].contains(*name));
            let others = others.filter(|name| names[number] != "deleted" || **name != "instance");
            // Without data the control plane is checked.
            let data = ["data"].iter().filter(|_| names[number] == "initialized");
            for name in others.chain(data).chain([&names[number]]) {
                end_at(&mut simulator, kind, name);
            }
            let done = done(&mut simulator, kind, condition);
            assert!(question.then.contains(&done), "{kind}: {}: {done}, want {}", question.asks, question.then);
        }
        let mut simulator = walked();
        end_at(&mut simulator, kind, "deleted");
        end_at(&mut simulator, kind, "owner");
        assert_eq!(done(&mut simulator, kind, condition), "remove the finalizer", "{kind} without an owner");
    }
}
