//! Machine pools with the embedded provider on a virtual clock; the controller of Clusters is played by hand.

use std::collections::BTreeSet;
use std::sync::Arc;

use core::time::Duration;

use serde_json::{Value, json};

use crate::lifecycle::conditions;
use crate::lifecycle::fields::{self, flag, items, number, set, text};
use crate::lifecycle::fold::Fold;
use crate::lifecycle::objects::{GroupKind, ObjectId};
use crate::lifecycle::settings::{Settings, Timings};
use crate::lifecycle::testing::{CLUSTER, NAMESPACE, cluster_key, core, fold_with, object};
use model::hub::contract::Contract;
use model::hub::{Object, ObjectKey, label};

const INFRASTRUCTURE: &str = "infrastructure.topologist.dev";
const BOOTSTRAP: &str = "bootstrap.topologist.dev";

/// A pool of two in a Cluster that is up.
fn scene(timings: Timings, spec: Value) -> Fold {
    let external = ["Cluster"].map(str::to_owned).into();
    let mut fold = fold_with(Settings { timings, external, ..Settings::default() });
    let cluster = fold.make(core("Cluster", CLUSTER, json!({})));
    let flags = json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true});
    fold.edit(&cluster, |it| set(it, "status.initialization", flags));
    fold.objects.workload_mut(&cluster_key()).is_reachable = true;
    fold.make(object(&format!("{INFRASTRUCTURE}/v1beta1"), "EmbeddedMachinePool", "p", spec));
    fold.make(object(&format!("{BOOTSTRAP}/v1beta1"), "EmbeddedConfig", "p", json!({})));
    fold.make(core(
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
    fold
}

fn up() -> Fold {
    let mut fold = scene(Timings::NONE, json!({}));
    assert!(fold.run(Duration::from_mins(1)));
    fold
}

fn pool(fold: &Fold) -> Arc<Object> {
    fold.core("MachinePool", "p")
}

fn nodes(fold: &Fold) -> Vec<Arc<Object>> {
    fold.objects.workload(&cluster_key()).unwrap().all(&GroupKind::new("", "Node")).cloned().collect()
}

fn names(fold: &Fold) -> BTreeSet<String> {
    nodes(fold).iter().map(|node| node.name().to_owned()).collect()
}

#[test]
fn the_flag_of_either_contract_says_that_a_pool_is_provisioned() {
    // CT-20.1, CT-20.3
    for flag in ["status.ready", "status.initialization.provisioned"] {
        let mut fold = scene(Timings::NONE, json!({}));
        fold.settings.external.insert("EmbeddedMachinePool".to_owned());
        let infrastructure = fold.find(&GroupKind::new(INFRASTRUCTURE, "EmbeddedMachinePool"), "p").unwrap();
        fold.edit(&infrastructure, |it| set(it, flag, json!(true)));
        assert!(fold.run(Duration::from_mins(1)));
        assert_eq!(pool(&fold).at("status.initialization.infrastructureProvisioned"), Some(&json!(true)), "{flag}");
    }
}

#[test]
fn a_pool_gets_data_instances_and_nodes() {
    // CT-13.1, CT-12.6, MA-5.2, MA-5.3, MA-6.3, MA-6.5, MA-6.6, MA-7.3, MA-8.5, MA-8.8, MA-3.2, MA-13.3, MA-13.4
    let seconds = Duration::from_secs;
    let timings = Timings { bootstrap: seconds(10), infrastructure: seconds(20), node: seconds(5), ..Timings::NONE };
    let mut fold = scene(timings, json!({}));
    let mut phases: Vec<(i64, String)> = Vec::new();
    for _ in 0..20 {
        assert!(fold.settle(1000));
        let phase = text(&pool(&fold), "status.phase").to_owned();
        if phases.last().is_none_or(|(_, known)| *known != phase) {
            phases.push((fold.now().seconds - 1_893_456_000, phase));
        }
        fold.advance();
    }
    let want = [(0, "Pending"), (10, "Provisioning"), (35, "Running")];
    assert_eq!(phases, want.map(|(at, phase)| (at, phase.to_owned())));
    let pool = pool(&fold);
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
    for node in nodes(&fold) {
        assert_eq!(text(&node, "status.nodeInfo.kubeletVersion"), "v1.31.0");
        assert_eq!(node.annotation("cluster.x-k8s.io/owner-kind"), Some("MachinePool"));
        assert!(items(&node, "spec.taints").is_empty());
    }
}

#[test]
fn a_pool_with_too_many_instances_says_so_and_keeps_those_it_has() {
    // CT-13.1
    let mut fold = up();
    let before = names(&fold);
    fold.edit(&pool(&fold), |it| set(it, "spec.replicas", json!(2_000_000_000)));
    fold.run(Duration::from_mins(1));
    assert_eq!(names(&fold), before);
    let said = conditions::get(&pool(&fold), "InfrastructureReady").unwrap();
    assert_eq!((said.status, &*said.reason), (conditions::Status::False, "TooManyInstances"));
    assert!(
        said.message.contains("2000000000") && said.message.contains("10000 instances at most"),
        "{}",
        said.message
    );
    fold.edit(&pool(&fold), |it| set(it, "spec.replicas", json!(3)));
    assert!(fold.run(Duration::from_mins(1)));
    assert_eq!(names(&fold).len(), 3);
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
        let mut fold = up();
        let before = names(&fold);
        assert_eq!(before.len(), 2, "{case}");
        let group = match kind {
            "MachinePool" => model::hub::GROUP,
            "EmbeddedConfig" => BOOTSTRAP,
            _ => INFRASTRUCTURE,
        };
        let object = fold.find(&GroupKind::new(group, kind), "p").unwrap();
        fold.edit(&object, change);
        assert!(fold.run(Duration::from_mins(1)), "{case}");
        assert_eq!(names(&fold).difference(&before).count(), want, "{case}");
        let wanted = number(&pool(&fold), "spec.replicas");
        assert_eq!(i64::try_from(names(&fold).len()).ok(), wanted, "{case}");
        assert_eq!(number(&pool(&fold), "status.upToDateReplicas"), wanted, "{case}");
    }
}

#[test]
fn a_deleted_pool_takes_parts_and_nodes_with_it() {
    // MA-9.1, CT-15.7
    let mut fold = up();
    fold.delete(&ObjectId::core("MachinePool", NAMESPACE, "p"));
    assert!(fold.run(Duration::from_mins(1)));
    assert!(names(&fold).is_empty());
    for (group, kind) in
        [(model::hub::GROUP, "MachinePool"), (INFRASTRUCTURE, "EmbeddedMachinePool"), (BOOTSTRAP, "EmbeddedConfig")]
    {
        let id = ObjectId::new(GroupKind::new(group, kind), ObjectKey::new(NAMESPACE, "p"));
        assert!(fold.objects.get(&id).is_none(), "{kind}");
    }
}

/// Reasons and messages of the events of the pool, warnings with a mark.
fn told(fold: &Fold) -> Vec<String> {
    let of_pool = fold.events.iter().filter(|(_, id, _)| id.kind == GroupKind::core("MachinePool"));
    let mark = |is_warning: bool| if is_warning { "!" } else { "" };
    of_pool.map(|(_, _, event)| format!("{}{}: {}", mark(event.is_warning), event.reason, event.message)).collect()
}

#[test]
fn each_change_of_the_phase_is_told() {
    // MA-3.2
    let mut fold = up();
    let phases =
        |fold: &Fold| told(fold).into_iter().filter(|text| text.contains("MachinePool is ")).collect::<Vec<_>>();
    let started = phases(&fold);
    assert_eq!(started.first().map(String::as_str), Some("Pending: MachinePool is Pending"));
    assert_eq!(started.last().map(String::as_str), Some("Running: MachinePool is Running"));
    fold.delete(&ObjectId::core("MachinePool", NAMESPACE, "p"));
    assert!(fold.run(Duration::from_mins(1)));
    assert_eq!(phases(&fold)[started.len()..], ["Deleting: MachinePool is Deleting"]);
}

#[test]
fn a_failure_of_a_pool_is_told_once_and_final_under_the_older_contract() {
    // MA-5.4, CT-5.5, CT-20.2, DEC-6
    for (contract, want) in [(Contract::V1Beta1, "Failed"), (Contract::V1Beta2, "Running")] {
        let mut fold = up();
        let kind = GroupKind::new(INFRASTRUCTURE, "EmbeddedMachinePool");
        let infrastructure = fold.find(&kind, "p").unwrap();
        fold.objects.set_listed(&kind, Some(contract));
        let before = told(&fold).len();
        fold.edit(&infrastructure, |it| {
            set(it, "status.failureReason", json!("NoQuota"));
            set(it, "status.failureMessage", json!("ask for more"));
        });
        assert!(fold.run(Duration::from_mins(1)), "{contract:?}");
        assert_eq!(text(&pool(&fold), "status.phase"), want, "{contract:?}");
        let failure =
            json!({"failureReason": "NoQuota", "failureMessage": "EmbeddedMachinePool p failed: ask for more"});
        assert_eq!(pool(&fold).at("status.deprecated.v1beta1"), Some(&failure), "{contract:?}");
        let mut since = told(&fold).split_off(before);
        assert_eq!(since.remove(0), "!ProviderFailure: EmbeddedMachinePool p failed: ask for more", "{contract:?}");
        assert_eq!(since, ["!Failed: MachinePool is Failed"][..usize::from(want == "Failed")], "{contract:?}");
        fold.edit(&infrastructure, |it| {
            it.remove("status.failureReason");
            it.remove("status.failureMessage");
        });
        assert!(fold.run(Duration::from_mins(1)), "{contract:?}");
        assert_eq!(text(&pool(&fold), "status.phase"), want, "{contract:?}: it stays");
    }
}
