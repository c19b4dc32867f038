use std::sync::Arc;

use serde_json::json;

use super::*;
use model::world::{Answer, Facts, Need, Nodes, ObjectSet};

fn object(value: Value) -> Arc<Object> {
    Arc::new(Object::try_from(value).unwrap())
}

fn workers(kind: &str, spec: Value, status: Value) -> BTreeMap<String, CurrentWorker> {
    let metadata = json!({"namespace": "ns", "name": "w"});
    let value = json!({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec, "status": status});
    let worker = CurrentWorker { object: object(value), bootstrap: None, infrastructure: None, health_check: None };
    BTreeMap::from([("w".to_owned(), worker)])
}

/// Whether a deployment at v1.31.0 is upgrading that has such a selector and these machines.
fn deployment(selector: Value, machines: &[(Value, Value)]) -> Result<bool, String> {
    let mut objects = ObjectSet::default();
    for (index, (labels, rest)) in machines.iter().enumerate() {
        let metadata = json!({"namespace": "ns", "name": format!("m{index}"), "labels": labels});
        let mut machine = json!({"apiVersion": API_VERSION, "kind": "Machine", "metadata": metadata});
        json_patch::merge(&mut machine, rest);
        objects.put(object(machine));
    }
    let world = World::new(Arc::new(Facts::default().with_objects(objects)));
    let spec = json!({"selector": selector, "template": {"spec": {"version": "v1.31.0"}}});
    let upgrading = upgrading_deployments(&workers("MachineDeployment", spec, json!({})), &world);
    upgrading.map(|names| names.contains("w")).map_err(|failure| failure.to_string())
}

#[test]
fn a_deployment_upgrades_while_a_machine_or_its_kubelet_has_another_version() {
    // UP-21
    let selector = json!({"matchLabels": {"set": "1"}});
    let machine = |version: &str, kubelet: &str| {
        let status = json!({"nodeInfo": {"kubeletVersion": kubelet}});
        (json!({"set": "1"}), json!({"spec": {"version": version}, "status": status}))
    };
    for (machines, want) in [
        (vec![], false),
        (vec![machine("v1.31.0", ""), machine("v1.31.0", "v1.31.0")], false),
        (vec![machine("v1.31.0", "v1.31.0"), machine("v1.30.0", "")], true),
        (vec![machine("v1.31.0", "v1.30.0")], true),
        // DEC-71
        (vec![machine("v1.31.0", "v1.31.0+k0s")], false),
        (vec![machine("v1.31.0+k0s.0", "v1.31.0")], true),
        // As texts, and higher ones too.
        (vec![machine("1.31.0", "")], true),
        (vec![machine("v1.32.0", "")], true),
        (vec![(json!({"set": "2"}), json!({"spec": {"version": "v1.30.0"}}))], false),
    ] {
        assert_eq!(deployment(selector.clone(), &machines), Ok(want), "{machines:?}");
    }
    let none = deployment(selector, &[(json!({"set": "1"}), json!({}))]);
    let want = "Machine ns/m0 has no spec.version to compare with the version of MachineDeployment ns/w";
    assert_eq!(none, Err(want.to_owned()));
}

#[test]
fn a_selector_is_labels_or_expressions_that_come_to_labels() {
    // UP-21
    let of = |selector: Value| deployment(selector, &[(json!({"set": "1"}), json!({"spec": {"version": "v1.30.0"}}))]);
    let expressions = |list: Value| json!({"matchLabels": {"set": "1"}, "matchExpressions": list});
    let one = |operator: &str, values: Value| json!([{"key": "set", "operator": operator, "values": values}]);
    assert_eq!(of(expressions(one("In", json!(["1"])))), Ok(true));
    for refused in [
        one("In", json!(["1", "2"])),
        one("In", json!(["2"])),
        one("In", json!([])),
        one("NotIn", json!(["2"])),
        one("Exists", json!(null)),
        json!([{}]),
    ] {
        let error = of(expressions(refused.clone())).unwrap_err();
        assert!(
            error.starts_with("cannot convert the selector of MachineDeployment ns/w to a label selector"),
            "{refused}: {error}"
        );
    }
}

#[test]
fn a_deployment_without_a_version_is_not_upgrading_and_asks_for_nothing() {
    // UP-21
    let mut world = World::new(Arc::new(Facts::default()));
    let upgrading = upgrading_deployments(&workers("MachineDeployment", json!({}), json!({})), &world);
    assert_eq!((upgrading, world.take_needs().len()), (Ok(BTreeSet::new()), 0));
}

#[test]
fn nodes_are_looked_at_where_a_pool_has_some() {
    // UP-22
    let cluster = ObjectKey::new("ns", "c");
    let spec = || json!({"template": {"spec": {"version": "v1.31.0"}}});
    let pool = |status: Value| workers("MachinePool", spec(), status);
    let live = || World::new(Arc::new(Facts::default()));
    let mut world = live();
    let without = upgrading_pools(&pool(json!({})), &cluster, &world);
    assert_eq!((without, world.take_needs().len()), (Ok(BTreeSet::new()), 0));
    let two = pool(json!({"nodeRefs": [{"name": "a"}, {"name": "b"}]}));
    assert_eq!(upgrading_pools(&two, &cluster, &world), Err(Failure::NotAsked));
    let need = Need::Nodes(NodesOf { cluster: cluster.clone(), names: ["a".to_owned(), "b".to_owned()].into() });
    assert_eq!(world.take_needs(), BTreeSet::from([need.clone()]));
    let answered = |nodes: Found<Nodes>| {
        let mut world = live();
        world.pin(need.clone(), Answer::Nodes(nodes));
        upgrading_pools(&two, &cluster, &world).map(|names| names.len())
    };
    let nodes = |versions: &[(&str, &str)]| {
        let node = |version: &str| object(json!({"status": {"nodeInfo": {"kubeletVersion": version}}}));
        Found::Yes(versions.iter().map(|(name, version)| ((*name).to_owned(), node(version))).collect())
    };
    assert_eq!(answered(nodes(&[("a", "v1.31.0"), ("b", "v1.31.0")])), Ok(0));
    assert_eq!(answered(nodes(&[("a", "v1.31.0"), ("b", "v1.31.0+k0s")])), Ok(0), "DEC-71");
    assert_eq!(answered(nodes(&[("a", "v1.31.0"), ("b", "v1.30.0")])), Ok(1));
    assert_eq!(answered(nodes(&[("a", "v1.31.0"), ("b", "")])), Ok(1));
    let missing = answered(nodes(&[("a", "v1.31.0")])).unwrap_err();
    assert_eq!(missing.to_string(), "Node b of MachinePool ns/w was not found in the workload cluster");
    assert_eq!(answered(Found::Unreadable("no route".to_owned())), Err(Failure::Unreadable("no route".to_owned())));
    // DEC-47: without permission to read kubeconfigs pools hold nothing up.
    assert_eq!(answered(Found::Absent), Ok(0));
    // Files that hold no Nodes say nothing of pools.
    let files = World::new(Arc::new(Facts::default().with_objects(ObjectSet::default())));
    assert_eq!(upgrading_pools(&two, &cluster, &files), Ok(BTreeSet::new()));
}
