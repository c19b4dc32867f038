//! Machine pools with the embedded provider on a virtual clock; the test plays the controller of Clusters.

use std::collections::BTreeSet;
use std::sync::Arc;

use core::time::Duration;

use serde_json::{Value, json};

use crate::lifecycle::conditions;
use crate::lifecycle::fields::{self, flag, items, number, set, text};
use crate::lifecycle::objects::{GroupKind, ObjectId};
use crate::lifecycle::settings::{MachineSettings, Timings};
use crate::lifecycle::simulator::MachineSimulator;
use crate::lifecycle::step::ObjectWrite;
use crate::lifecycle::testing::{CLUSTER, NAMESPACE, cluster_key, core, fold_with, object};
use model::hub::contract::Contract;
use model::hub::{Object, ObjectKey, label};

const INFRASTRUCTURE: &str = "infrastructure.topologist.dev";
const BOOTSTRAP: &str = "bootstrap.topologist.dev";

/// A pool of two instances in a running Cluster.
fn setup(timings: Timings, spec: Value) -> MachineSimulator {
    let external = ["Cluster"].map(str::to_owned).into();
    let mut simulator = fold_with(MachineSettings { timings, external, ..MachineSettings::default() });
    let cluster = simulator.make(core("Cluster", CLUSTER, json!({})));
    let flags = json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true});
    simulator.edit(&cluster, |it| set(it, "status.initialization", flags));
    simulator.objects.workload_mut(&cluster_key()).is_reachable = true;
    simulator.make(object(&format!("{INFRASTRUCTURE}/v1beta1"), "EmbeddedMachinePool", "p", spec));
    simulator.make(object(&format!("{BOOTSTRAP}/v1beta1"), "EmbeddedConfig", "p", json!({})));
    simulator.make(core(
        "MachinePool",
        "p",
        json!({
            "clusterName": CLUSTER, "replicas": 2,
            "template": {"spec": {
                "clusterName": CLUSTER, "version": "v1.31.0",
                "bootstrap": {"configRef": {"apiGroup": BOOTSTRAP, "kind": "EmbeddedConfig", "name": "p"}},
                "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "EmbeddedMachinePool", "name": "p"},
            }},
        }),
    ));
    simulator
}

fn up() -> MachineSimulator {
    let mut simulator = setup(Timings::NONE, json!({}));
    assert!(simulator.run(Duration::from_mins(1)));
    simulator
}

fn pool(simulator: &MachineSimulator) -> Arc<Object> {
    simulator.core("MachinePool", "p")
}

fn nodes(simulator: &MachineSimulator) -> Vec<Arc<Object>> {
    simulator.objects.workload(&cluster_key()).unwrap().all(&GroupKind::new("", "Node")).cloned().collect()
}

fn names(simulator: &MachineSimulator) -> BTreeSet<String> {
    nodes(simulator).iter().map(|node| node.name().to_owned()).collect()
}

#[test]
fn the_flag_of_either_contract_says_that_a_pool_is_provisioned() {
    // CT-20.1, CT-20.3
    for flag in ["status.ready", "status.initialization.provisioned"] {
        let mut simulator = setup(Timings::NONE, json!({}));
        simulator.settings.external.insert("EmbeddedMachinePool".to_owned());
        let infrastructure = simulator.find(&GroupKind::new(INFRASTRUCTURE, "EmbeddedMachinePool"), "p").unwrap();
        simulator.edit(&infrastructure, |it| set(it, flag, json!(true)));
        assert!(simulator.run(Duration::from_mins(1)));
        assert_eq!(
            pool(&simulator).at("status.initialization.infrastructureProvisioned"),
            Some(&json!(true)),
            "{flag}"
        );
    }
}

#[test]
fn a_pool_gets_data_instances_and_nodes() {
    // CT-13.1, CT-12.6, MA-5.2, MA-5.3, MA-6.3, MA-6.5, MA-6.6, MA-7.3, MA-8.5, MA-8.8, MA-3.2, MA-13.3, MA-13.4
    let seconds = Duration::from_secs;
    let timings = Timings { bootstrap: seconds(10), infrastructure: seconds(20), node: seconds(5), ..Timings::NONE };
    let mut simulator = setup(timings, json!({}));
    let mut phases: Vec<(i64, String)> = Vec::new();
    for _ in 0..20 {
        assert!(simulator.settle(1000));
        let phase = text(&pool(&simulator), "status.phase").to_owned();
        if phases.last().is_none_or(|(_, known)| *known != phase) {
            phases.push((simulator.now().seconds - 1_893_456_000, phase));
        }
        simulator.advance();
    }
    let want = [(0, "Pending"), (10, "Provisioning"), (35, "Running")];
    assert_eq!(phases, want.map(|(at, phase)| (at, phase.to_owned())));
    let pool = pool(&simulator);
    assert_eq!(text(&pool, "spec.template.spec.bootstrap.dataSecretName"), "p");
    assert!(flag(&pool, "status.initialization.bootstrapDataSecretCreated"));
    assert!(fields::owner_name(&pool, "Cluster").is_some() && pool.label(label::CLUSTER_NAME) == Some(CLUSTER));
    assert_eq!((items(&pool, "spec.providerIDList").len(), items(&pool, "status.nodeRefs").len()), (2, 2));
    for counter in ["replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"] {
        assert_eq!(number(&pool, &format!("status.{counter}")), Some(2), "{counter}");
    }
    for condition in ["BootstrapConfigReady", "InfrastructureReady"] {
        assert!(conditions::is_true(&pool, condition), "{condition}");
    }
    for node in nodes(&simulator) {
        assert_eq!(text(&node, "status.nodeInfo.kubeletVersion"), "v1.31.0");
        assert_eq!(node.annotation("cluster.x-k8s.io/owner-kind"), Some("MachinePool"));
        assert!(items(&node, "spec.taints").is_empty());
    }
}

#[test]
fn a_pool_with_too_many_instances_says_so_and_keeps_those_it_has() {
    // CT-13.1
    let mut simulator = up();
    let before = names(&simulator);
    simulator.edit(&pool(&simulator), |it| set(it, "spec.replicas", json!(2_000_000_000)));
    simulator.run(Duration::from_mins(1));
    assert_eq!(names(&simulator), before);
    let ready = conditions::get(&pool(&simulator), "InfrastructureReady").unwrap();
    assert_eq!((ready.status, &*ready.reason), (conditions::ConditionStatus::False, "TooManyInstances"));
    assert!(
        ready.message.contains("2000000000") && ready.message.contains("10000 instances at most"),
        "{}",
        ready.message
    );
    simulator.edit(&pool(&simulator), |it| set(it, "spec.replicas", json!(3)));
    assert!(simulator.run(Duration::from_mins(1)));
    assert_eq!(names(&simulator).len(), 3);
}

#[test]
fn instances_are_replaced_when_what_they_are_made_from_changes() {
    // ROLL-15, CT-13.1
    type Change = fn(&mut Object);
    let edits: [(&str, &str, Change, usize); 5] = [
        ("MachinePool", "version", |it| set(it, "spec.template.spec.version", json!("v1.32.0")), 2),
        ("EmbeddedConfig", "files", |it| set(it, "spec.files", json!([{"path": "/x", "content": ""}])), 2),
        ("EmbeddedMachinePool", "backend", |it| set(it, "spec.backend.inMemory.vm", json!({})), 2),
        ("MachinePool", "more", |it| set(it, "spec.replicas", json!(3)), 1),
        ("MachinePool", "fewer", |it| set(it, "spec.replicas", json!(1)), 0),
    ];
    for (kind, case, change, want) in edits {
        let mut simulator = up();
        let before = names(&simulator);
        assert_eq!(before.len(), 2, "{case}");
        let group = match kind {
            "MachinePool" => model::hub::GROUP,
            "EmbeddedConfig" => BOOTSTRAP,
            _ => INFRASTRUCTURE,
        };
        let object = simulator.find(&GroupKind::new(group, kind), "p").unwrap();
        simulator.edit(&object, change);
        assert!(simulator.run(Duration::from_mins(1)), "{case}");
        assert_eq!(names(&simulator).difference(&before).count(), want, "{case}");
        let wanted = number(&pool(&simulator), "spec.replicas");
        assert_eq!(i64::try_from(names(&simulator).len()).ok(), wanted, "{case}");
        assert_eq!(number(&pool(&simulator), "status.upToDateReplicas"), wanted, "{case}");
    }
}

#[test]
fn a_deleted_pool_takes_parts_and_nodes_with_it() {
    // MA-9.1, CT-15.7
    let mut simulator = up();
    simulator.delete(&ObjectId::core("MachinePool", NAMESPACE, "p"));
    assert!(simulator.run(Duration::from_mins(1)));
    assert!(names(&simulator).is_empty());
    for (group, kind) in
        [(model::hub::GROUP, "MachinePool"), (INFRASTRUCTURE, "EmbeddedMachinePool"), (BOOTSTRAP, "EmbeddedConfig")]
    {
        let id = ObjectId::new(GroupKind::new(group, kind), ObjectKey::new(NAMESPACE, "p"));
        assert!(simulator.objects.get(&id).is_none(), "{kind}");
    }
}

/// Reasons and messages of the events of the pool; warnings are marked.
fn reported_events(simulator: &MachineSimulator) -> Vec<String> {
    let of_pool = simulator.events.iter().filter(|(_, id, _)| id.kind == GroupKind::core("MachinePool"));
    let mark = |is_warning: bool| if is_warning { "!" } else { "" };
    of_pool.map(|(_, _, event)| format!("{}{}: {}", mark(event.is_warning), event.reason, event.message)).collect()
}

#[test]
fn each_change_of_the_phase_is_told() {
    // MA-3.2
    let mut simulator = up();
    let phases = |simulator: &MachineSimulator| {
        reported_events(simulator).into_iter().filter(|text| text.contains("MachinePool is ")).collect::<Vec<_>>()
    };
    let started = phases(&simulator);
    assert_eq!(started.first().map(String::as_str), Some("Pending: MachinePool is Pending"));
    assert_eq!(started.last().map(String::as_str), Some("Running: MachinePool is Running"));
    simulator.delete(&ObjectId::core("MachinePool", NAMESPACE, "p"));
    assert!(simulator.run(Duration::from_mins(1)));
    assert_eq!(phases(&simulator)[started.len()..], ["Deleting: MachinePool is Deleting"]);
}

#[test]
fn a_failure_of_a_pool_is_told_once_and_final_under_the_older_contract() {
    // MA-5.4, CT-5.5, CT-20.2, DEC-6
    for (contract, want) in [(Contract::V1Beta1, "Failed"), (Contract::V1Beta2, "Running")] {
        let mut simulator = up();
        let kind = GroupKind::new(INFRASTRUCTURE, "EmbeddedMachinePool");
        let infrastructure = simulator.find(&kind, "p").unwrap();
        simulator.objects.set_listed(&kind, Some(contract));
        let before = reported_events(&simulator).len();
        simulator.edit(&infrastructure, |it| {
            set(it, "status.failureReason", json!("NoQuota"));
            set(it, "status.failureMessage", json!("ask for more"));
        });
        assert!(simulator.run(Duration::from_mins(1)), "{contract:?}");
        assert_eq!(text(&pool(&simulator), "status.phase"), want, "{contract:?}");
        let failure =
            json!({"failureReason": "NoQuota", "failureMessage": "EmbeddedMachinePool p failed: ask for more"});
        assert_eq!(pool(&simulator).at("status.deprecated.v1beta1"), Some(&failure), "{contract:?}");
        let mut since = reported_events(&simulator).split_off(before);
        assert_eq!(since.remove(0), "!ProviderFailure: EmbeddedMachinePool p failed: ask for more", "{contract:?}");
        assert_eq!(since, ["!Failed: MachinePool is Failed"][..usize::from(want == "Failed")], "{contract:?}");
        simulator.edit(&infrastructure, |it| {
            it.remove("status.failureReason");
            it.remove("status.failureMessage");
        });
        assert!(simulator.run(Duration::from_mins(1)), "{contract:?}");
        assert_eq!(text(&pool(&simulator), "status.phase"), want, "{contract:?}: it stays");
    }
}

/// Number of referenced Nodes, the counters of Nodes, and the phase.
fn reported(simulator: &MachineSimulator) -> (usize, [Option<i64>; 3], String) {
    let pool = pool(simulator);
    let counters = ["readyReplicas", "availableReplicas", "upToDateReplicas"];
    let counters = counters.map(|name| number(&pool, &format!("status.{name}")));
    (items(&pool, "status.nodeRefs").len(), counters, text(&pool, "status.phase").to_owned())
}

#[test]
fn what_is_known_of_nodes_stays_while_the_cluster_is_not_connected() {
    // MA-1.9, UP-22: the references to Nodes say whether the pool is upgrading.
    let mut simulator = up();
    simulator.objects.forget_workload(&cluster_key());
    simulator.edit(&pool(&simulator), |it| set(it, "metadata.labels.seen", json!("1")));
    assert!(simulator.run(Duration::from_mins(1)));
    assert_eq!(reported(&simulator), (2, [Some(2); 3], "Running".to_owned()));
}

#[test]
fn the_nodes_of_a_deleted_pool_are_deleted_when_its_cluster_is_connected_or_given_up() {
    // MA-9.12
    for (timeout, is_given_up) in [(Value::Null, true), (json!(0), false), (json!(300), true)] {
        let mut simulator = up();
        simulator.edit(&pool(&simulator), |it| {
            set(it, "spec.template.spec.deletion.nodeDeletionTimeoutSeconds", timeout.clone());
        });
        assert!(simulator.run(Duration::from_mins(1)));
        simulator.objects.workload_mut(&cluster_key()).is_reachable = false;
        let id = ObjectId::core("MachinePool", NAMESPACE, "p");
        simulator.delete(&id);
        simulator.run(Duration::from_secs(5));
        let deleting = conditions::get(&pool(&simulator), "Deleting").unwrap();
        assert_eq!(&*deleting.reason, "DeletingNodes", "{timeout}");
        assert!(deleting.message.contains("is not connected") && simulator.failure(&id).is_some(), "{timeout}");
        simulator.run(Duration::from_mins(10));
        assert_eq!(simulator.objects.get(&id).is_none(), is_given_up, "{timeout}");
        if simulator.objects.get(&id).is_some() {
            simulator.objects.workload_mut(&cluster_key()).is_reachable = true;
            assert!(simulator.run(Duration::from_mins(10)));
            assert!(simulator.objects.get(&id).is_none() && names(&simulator).is_empty(), "{timeout}");
        }
    }
}

#[test]
fn a_node_that_cannot_be_deleted_does_not_hold_the_others_of_its_pool() {
    // MA-9.12
    let mut simulator = up();
    simulator.edit(&pool(&simulator), |it| {
        set(it, "spec.template.spec.deletion.nodeDeletionTimeoutSeconds", json!(0));
    });
    let first = nodes(&simulator).remove(0);
    let id = ObjectId { workload: Some(cluster_key()), ..ObjectId::for_object(&first) };
    let mut marked = (*first).clone();
    set(&mut marked, "metadata.labels.is-refused", json!(""));
    simulator.update(Some(&cluster_key()), &first, marked).unwrap();
    simulator.refuses = |write| write.object().is_some_and(|object| object.label("is-refused").is_some());
    simulator.delete(&ObjectId::core("MachinePool", NAMESPACE, "p"));
    simulator.run(Duration::from_mins(1));
    assert_eq!(names(&simulator), [first.name().to_owned()].into());
    let deleting = conditions::get(&pool(&simulator), "Deleting").unwrap();
    assert_eq!((&*deleting.reason, &*deleting.message), ("DeletingNodes", "Waiting for 1 Nodes to be deleted"));
    assert!(!reported_events(&simulator).iter().any(|event| event.starts_with("Deleted:")));
    simulator.refuses = |_| false;
    simulator.run(Duration::from_mins(2));
    assert!(simulator.objects.get(&id).is_none() && names(&simulator).is_empty());
}

#[test]
fn a_node_that_cannot_be_changed_does_not_hold_the_status() {
    // MA-1.9, MA-4.4
    let mut simulator = setup(Timings::NONE, json!({}));
    simulator.refuses = |write| matches!(write, ObjectWrite::Update { before, .. } if before.kind() == "Node");
    simulator.run(Duration::from_mins(1));
    assert_eq!(reported(&simulator), (2, [Some(2); 3], "Running".to_owned()));
    let id = ObjectId::core("MachinePool", NAMESPACE, "p");
    assert!(simulator.failure(&id).is_some_and(|text| text.contains("is refused")));
    assert!(pool(&simulator).observed_generation() != pool(&simulator).generation(), "the failure is not hidden");
    simulator.refuses = |_| false;
    assert!(simulator.run(Duration::from_mins(10)));
    assert_eq!(pool(&simulator).observed_generation(), pool(&simulator).generation());
}
