//! Node fields that follow Machines, and conditions about Nodes.

use super::*;

fn edit_node(simulator: &mut MachineSimulator, change: impl FnOnce(&mut Object)) {
    edit_workload(simulator, &node_id("n1"), change);
    settle(simulator);
}

fn annotation(simulator: &MachineSimulator, name: &str) -> String {
    node_now(simulator, "n1").unwrap().annotation(name).unwrap_or("-").to_owned()
}

fn edit_machine(simulator: &mut MachineSimulator, change: impl FnOnce(&mut Object)) {
    edit(simulator, &GroupKind::core("Machine"), "m1", change);
    settle(simulator);
}

#[test]
fn a_node_names_its_machine() {
    // MA-8.5
    let mut simulator = running();
    for (name, want) in [
        ("cluster.x-k8s.io/cluster-name", CLUSTER),
        ("cluster.x-k8s.io/cluster-namespace", NAMESPACE),
        ("cluster.x-k8s.io/machine", "m1"),
        ("cluster.x-k8s.io/owner-kind", "-"),
    ] {
        assert_eq!(annotation(&simulator, name), want, "{name}");
    }
    let set = simulator.make(core("MachineSet", "s", json!({})));
    edit_machine(&mut simulator, |machine| set_owner(machine, &set));
    assert_eq!(annotation(&simulator, "cluster.x-k8s.io/owner-kind"), "MachineSet");
    assert_eq!(annotation(&simulator, "cluster.x-k8s.io/owner-name"), "s");
}

fn set_owner(machine: &mut Object, set: &Object) {
    fields::set_owner(machine, fields::owner(set, true), set);
}

#[test]
fn labels_and_annotations_for_nodes_are_kept_in_step() {
    // MA-8.5, MA-8.6, MA-8.7, CT-8.5
    let mut simulator = running();
    edit_node(&mut simulator, |node| fields::set_label(node, "own", "1"));
    edit(&mut simulator, &infrastructure(), "m1", |it| set(it, "status.interruptible", json!(true)));
    edit_machine(&mut simulator, |machine| {
        for label in [
            "node-role.kubernetes.io/worker",
            "sub.node-role.kubernetes.io/no",
            "node-restriction.kubernetes.io/a",
            "sub.node-restriction.kubernetes.io/b",
            "x.node.cluster.x-k8s.io/c",
            "xnode.cluster.x-k8s.io/no",
            "plain",
        ] {
            fields::set_label(machine, label, "v");
        }
        for annotation in ["node.cluster.x-k8s.io/a", "sub.node.cluster.x-k8s.io/b", "plain"] {
            fields::set_annotation(machine, annotation, "v");
        }
    });
    let labels = [
        "cluster.x-k8s.io/interruptible",
        "node-restriction.kubernetes.io/a",
        "node-role.kubernetes.io/worker",
        "sub.node-restriction.kubernetes.io/b",
        "x.node.cluster.x-k8s.io/c",
    ];
    assert_eq!(annotation(&simulator, "cluster.x-k8s.io/labels-from-machine"), labels.join(","));
    let known: Vec<String> =
        fields::texts(&node_now(&simulator, "n1").unwrap(), "metadata.labels").into_keys().collect();
    let mut want = labels.to_vec();
    want.push("own");
    want.sort_unstable();
    assert_eq!(known, want);
    let annotations = "node.cluster.x-k8s.io/a,sub.node.cluster.x-k8s.io/b";
    assert_eq!(annotation(&simulator, "cluster.x-k8s.io/annotations-from-machine"), annotations);
    assert_eq!(
        (annotation(&simulator, "node.cluster.x-k8s.io/a"), annotation(&simulator, "plain")),
        ("v".into(), "-".into())
    );
    edit_machine(&mut simulator, |machine| {
        machine.remove("metadata.annotations");
        set(machine, "metadata.labels", json!({"cluster.x-k8s.io/cluster-name": CLUSTER}));
    });
    let node = node_now(&simulator, "n1").unwrap();
    let left: Vec<String> = fields::texts(&node, "metadata.labels").into_keys().collect();
    assert_eq!((left, node.annotation("node.cluster.x-k8s.io/a")), (vec![labels[0].to_owned(), "own".into()], None));
}

#[test]
fn taints_of_machines_are_kept_on_nodes() {
    // MA-8.8, CT-12.6
    let mut simulator = setup();
    let taint = |key: &str, propagation: &str| {
        json!({"key": key, "value": "1", "effect": "NoSchedule",
            "propagation": propagation})
    };
    let mut made = machine("m1");
    set(&mut made, "spec.taints", json!([taint("always", "Always"), taint("first", "OnInitialization")]));
    simulator.make(external(INFRASTRUCTURE, "TestMachine", "m1"));
    simulator.make(made);
    provision(&mut simulator);
    let mut node = node("n1", ID);
    set(
        &mut node,
        "spec.taints",
        json!([
            {"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"},
            {"key": "own", "effect": "NoExecute"},
        ]),
    );
    simulator.create(Some(&cluster_key()), node).unwrap();
    settle(&mut simulator);
    let keys = |simulator: &MachineSimulator| -> Vec<String> {
        items(&node_now(simulator, "n1").unwrap(), "spec.taints")
            .iter()
            .map(|it| it["key"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(keys(&simulator), ["own", "always", "first"]);
    assert_eq!(annotation(&simulator, "cluster.x-k8s.io/taints-from-machine"), "always:NoSchedule");
    // Taints for initialization only may be removed.
    edit_node(&mut simulator, |node| set(node, "spec.taints", json!([{"key": "own", "effect": "NoExecute"}])));
    assert_eq!(keys(&simulator), ["own", "always"]);
    edit_machine(&mut simulator, |machine| set(machine, "spec.taints", json!([taint("first", "OnInitialization")])));
    assert_eq!(
        (keys(&simulator), annotation(&simulator, "cluster.x-k8s.io/taints-from-machine")),
        (vec!["own".to_owned()], String::new())
    );
}

/// A Machine of a MachineSet `s` of a MachineDeployment `d`, with these templates.
fn owned(set_spec: Value, deployment_spec: Value) -> MachineSimulator {
    let mut simulator = running();
    let mut set = core("MachineSet", "s", set_spec);
    fields::set_label(&mut set, "cluster.x-k8s.io/deployment-name", "d");
    fields::set_annotation(&mut set, "machinedeployment.clusters.x-k8s.io/revision", "1");
    let set = simulator.make(set);
    let mut deployment = core("MachineDeployment", "d", deployment_spec);
    fields::set_annotation(&mut deployment, "machinedeployment.clusters.x-k8s.io/revision", "1");
    simulator.make(deployment);
    edit_machine(&mut simulator, |machine| {
        set_owner(machine, &set);
        fields::set_label(machine, "cluster.x-k8s.io/deployment-name", "d");
    });
    simulator
}

#[test]
fn a_node_of_an_older_revision_is_avoided() {
    // MA-8.9
    let mut simulator = owned(json!({}), json!({}));
    let is_tainted = |simulator: &MachineSimulator| {
        items(&node_now(simulator, "n1").unwrap(), "spec.taints")
            .iter()
            .any(|taint| taint["key"] == "node.cluster.x-k8s.io/outdated-revision")
    };
    assert!(!is_tainted(&simulator));
    for (revision, want) in [("2", true), ("1", false)] {
        edit(&mut simulator, &GroupKind::core("MachineDeployment"), "d", |it| {
            fields::set_annotation(it, "machinedeployment.clusters.x-k8s.io/revision", revision);
        });
        settle(&mut simulator);
        assert_eq!(is_tainted(&simulator), want, "{revision}");
    }
}

#[test]
fn a_node_that_is_in_step_is_not_written() {
    // MA-8.10
    let mut simulator = running();
    let version = text(&node_now(&simulator, "n1").unwrap(), "metadata.resourceVersion").to_owned();
    simulator.take(&ObjectId::core("Machine", NAMESPACE, "m1"));
    assert_eq!(text(&node_now(&simulator, "n1").unwrap(), "metadata.resourceVersion"), version);
}

#[test]
fn a_provider_id_has_one_node() {
    // MA-8.3, MA-13.5
    let mut simulator = running();
    simulator.create(Some(&cluster_key()), node("n2", ID)).unwrap();
    settle(&mut simulator);
    assert_eq!(failure(&simulator), "several Nodes have the provider ID test://m1: n1, n2");
    assert_eq!(condition(&simulator, "NodeHealthy"), ("Unknown", "InternalError".into()));
}

#[test]
fn a_node_that_is_lost_is_an_error_and_the_machine_keeps_running() {
    // MA-8.3, MA-8.4, MA-13.5, MA-3.4
    let mut simulator = running();
    simulator.delete(&node_id("n1"));
    settle(&mut simulator);
    assert_eq!(failure(&simulator), "Node n1 of Machine ns/m1 does not exist any more");
    assert_eq!(
        (condition(&simulator, "NodeReady"), phase(&simulator)),
        (("False", "NodeDeleted".into()), "Running".into())
    );
    simulator.create(Some(&cluster_key()), node("n2", ID)).unwrap();
    settle(&mut simulator);
    assert_eq!((field(&simulator, "status.nodeRef.name"), condition(&simulator, "NodeReady").0), ("n1".into(), "True"));
}

#[test]
fn a_connection_is_expected_once_the_control_plane_is_initialized() {
    // MA-8.1, MA-8.2, MA-13.5
    for (is_initialized, want, reason) in
        [("True", "workload cluster ns/demo is not connected", "ConnectionDown"), ("False", "", "InspectionFailed")]
    {
        let mut simulator = setup();
        let cluster = simulator.core("Cluster", CLUSTER);
        simulator.edit(&cluster, |cluster| put(cluster, "ControlPlaneInitialized", is_initialized));
        simulator.objects.workload_mut(&cluster_key()).is_reachable = false;
        begin(&mut simulator);
        provision(&mut simulator);
        assert_eq!((failure(&simulator), condition(&simulator, "NodeReady")), (want, ("Unknown", reason.into())));
    }
}

#[test]
fn before_there_is_a_node_conditions_say_what_is_waited_for() {
    // MA-13.5
    let mut simulator = setup();
    begin(&mut simulator);
    assert!(message(&simulator, "NodeHealthy").contains("report the provider ID"));
    provision(&mut simulator);
    assert_eq!(condition(&simulator, "NodeHealthy"), ("Unknown", "InspectionFailed".into()));
    assert_eq!(message(&simulator, "NodeHealthy"), "Waiting for a Node with the provider ID test://m1");
    let cluster = simulator.core("Cluster", CLUSTER);
    for (path, want) in [("status.conditions", "control plane"), ("status.initialization", "infrastructure")] {
        simulator.edit(&cluster, |cluster| drop(cluster.remove(path)));
        edit_machine(&mut simulator, |machine| fields::set_annotation(machine, "touched", path));
        assert!(
            message(&simulator, "NodeReady").starts_with(&format!("Waiting for the {want} of the Cluster")),
            "{want}"
        );
    }
}

#[test]
fn a_node_is_healthy_when_all_its_conditions_are_good() {
    // MA-13.5
    for (case, conditions, want, text) in [
        ("not ready", vec![("Ready", "False")], ("False", "NodeNotHealthy"), "* Node.Ready: Test"),
        (
            "bad ones that say the same",
            vec![("Ready", "False"), ("DiskPressure", "True")],
            ("False", "NodeNotHealthy"),
            "* Node.AllConditions: Test",
        ),
        ("unknown", vec![("PIDPressure", "Unknown")], ("Unknown", "NodeHealthyUnknown"), "* Node.PIDPressure: Test"),
        ("fine", vec![], ("True", "NodeHealthy"), ""),
    ] {
        let mut simulator = running();
        let not_ready = conditions.iter().any(|(name, _)| *name == "Ready");
        edit_node(&mut simulator, |node| conditions.iter().for_each(|(name, status)| put(node, name, status)));
        assert_eq!(condition(&simulator, "NodeHealthy"), (want.0, want.1.to_owned()), "{case}");
        assert_eq!(message(&simulator, "NodeHealthy"), text, "{case}");
        let ready = if not_ready { ("False", "NodeNotReady".to_owned()) } else { ("True", "NodeReady".into()) };
        assert_eq!(condition(&simulator, "NodeReady"), ready, "{case}");
    }
    let mut simulator = running();
    edit_node(&mut simulator, |node| set(node, "status.conditions", json!([])));
    assert_eq!(condition(&simulator, "NodeReady"), ("Unknown", "NodeReadyUnknown".into()));
}

#[test]
fn a_lost_connection_counts_after_a_while() {
    // MA-13.5
    let mut simulator = running();
    simulator.objects.workload_mut(&cluster_key()).is_reachable = false;
    let cluster = simulator.core("Cluster", CLUSTER);
    simulator.edit(&cluster, |cluster| put(cluster, "RemoteConnectionProbe", "False"));
    settle(&mut simulator);
    assert_eq!(condition(&simulator, "NodeHealthy").0, "True");
    pass(&mut simulator, 299);
    assert_eq!(condition(&simulator, "NodeHealthy").0, "True");
    pass(&mut simulator, 60);
    assert_eq!(condition(&simulator, "NodeHealthy"), ("Unknown", "ConnectionDown".into()));
}

#[test]
fn a_machine_is_up_to_date_with_its_deployment() {
    // MA-13.8, MA-21.1, MA-21.2
    let template = |change: fn(&mut Value)| {
        let mut spec = json!({"template": {"spec": {
            "version": "v1.34.0",
            "bootstrap": {"configRef": {"apiGroup": "g", "kind": "TestConfigTemplate", "name": "a"}},
            "infrastructureRef": {"apiGroup": "g", "kind": "TestMachineTemplate", "name": "a"},
            "failureDomain": "a",
        }}});
        change(&mut spec);
        spec
    };
    for (case, deployment, want, text) in [
        ("the same", template(|_| {}), "UpToDate", ""),
        (
            "minReadySeconds do not count",
            template(|it| it["template"]["spec"]["minReadySeconds"] = json!(5)),
            "UpToDate",
            "",
        ),
        (
            "empty is as absent",
            template(|it| {
                it["template"]["spec"]["bootstrap"]["dataSecretName"] = json!("");
                it["template"]["spec"]["infrastructureRef"]["apiVersion"] = json!("");
            }),
            "UpToDate",
            "",
        ),
        (
            "version",
            template(|it| it["template"]["spec"]["version"] = json!("v1.35.0")),
            "NotUpToDate",
            "* Version v1.34.0, v1.35.0 required",
        ),
        (
            "templates and failure domain",
            template(|it| {
                it["template"]["spec"]["bootstrap"]["configRef"]["name"] = json!("b");
                it["template"]["spec"]["infrastructureRef"]["name"] = json!("b");
                it["template"]["spec"]["failureDomain"] = json!("b");
            }),
            "NotUpToDate",
            "* TestConfig is not up-to-date\n* TestMachine is not up-to-date\n* Failure domain a, b required",
        ),
        (
            "a rollout that was due before the set was made",
            template(|it| it["rollout"] = json!({"after": "2029-01-01T00:00:00Z"})),
            "UpToDate",
            "",
        ),
    ] {
        let simulator = owned(template(|_| {}), deployment);
        assert_eq!(condition(&simulator, "UpToDate").1, want, "{case}");
        assert_eq!(message(&simulator, "UpToDate"), text, "{case}");
    }
    let mut simulator =
        owned(template(|_| {}), template(|it| it["rollout"] = json!({"after": "2030-01-01T00:01:00Z"})));
    assert_eq!(condition(&simulator, "UpToDate").1, "UpToDate");
    pass(&mut simulator, 60);
    assert_eq!(message(&simulator, "UpToDate"), "* spec.rollout.after of MachineDeployment d has passed");
    let mut simulator = owned(template(|_| {}), template(|_| {}));
    edit(&mut simulator, &GroupKind::core("MachineDeployment"), "d", |it| {
        set(it, "spec.template.spec.failureDomain", json!("c"));
    });
    settle(&mut simulator);
    assert_eq!(message(&simulator, "UpToDate"), "* Failure domain a, c required");
}

#[test]
fn a_machine_whose_kubelet_is_older_is_updating() {
    // MA-13.8
    let mut simulator = owned(json!({}), json!({}));
    edit_machine(&mut simulator, |machine| set(machine, "spec.version", json!("v1.35.0")));
    assert_eq!(condition(&simulator, "UpToDate"), ("False", "Updating".into()));
    // DEC-71
    edit_machine(&mut simulator, |machine| set(machine, "spec.version", json!("v1.34.0+k0s.0")));
    assert_eq!(condition(&simulator, "UpToDate").0, "True");
    let mut simulator = running();
    edit_machine(&mut simulator, |machine| put(machine, "UpToDate", "False"));
    assert_eq!(condition(&simulator, "UpToDate"), ("False", "Test".into()));
}

#[test]
fn a_machine_is_available_after_it_was_ready_for_a_while() {
    // MA-13.11
    let mut simulator = setup();
    let mut made = machine("m1");
    set(&mut made, "spec.minReadySeconds", json!(30));
    simulator.make(external(INFRASTRUCTURE, "TestMachine", "m1"));
    simulator.make(external(BOOTSTRAP, "TestConfig", "m1"));
    simulator.make(made);
    bootstrap(&mut simulator);
    provision(&mut simulator);
    assert_eq!(condition(&simulator, "Available"), ("False", "NotReady".into()));
    simulator.create(Some(&cluster_key()), node("n1", ID)).unwrap();
    settle(&mut simulator);
    assert_eq!(condition(&simulator, "Available"), ("False", "WaitingForMinReadySeconds".into()));
    pass(&mut simulator, 30);
    assert_eq!(condition(&simulator, "Available"), ("True", "Available".into()));
}

#[test]
fn gates_and_health_checks_count_for_readiness() {
    // MA-13.9, MA-13.10, MA-13.12
    let mut simulator = running();
    edit_machine(&mut simulator, |machine| {
        set(
            machine,
            "spec.readinessGates",
            json!([{"conditionType": "Mine"}, {"conditionType": "Bad", "polarity": "Negative"}]),
        );
        put(machine, "Bad", "False");
    });
    assert_eq!(
        (condition(&simulator, "Ready"), message(&simulator, "Ready")),
        (("Unknown", "ReadyUnknown".into()), "* Mine: Condition Mine not yet reported".into())
    );
    edit_machine(&mut simulator, |machine| {
        put(machine, "Mine", "True");
        put(machine, "HealthCheckSucceeded", "False");
    });
    assert_eq!(message(&simulator, "Ready"), "* HealthCheckSucceeded: Test");
    let components = ["APIServerPodHealthy", "SchedulerPodHealthy", "EtcdMemberHealthy"];
    edit_machine(&mut simulator, |machine| {
        put(machine, "HealthCheckSucceeded", "True");
        set(machine, "spec.readinessGates", json!(components.map(|name| json!({"conditionType": name}))));
        components.iter().for_each(|name| put(machine, name, "False"));
    });
    assert_eq!(message(&simulator, "Ready"), "* Control plane components: Test\n* EtcdMemberHealthy: Test");
}
