//! Control planes on a virtual clock.

mod cleanup;

use std::collections::BTreeSet;
use std::sync::Arc;

use core::time::Duration;

use serde_json::{Value, json};

use super::super::tests::{BOOTSTRAP, INFRASTRUCTURE, make_cluster, play, play_with, seconds, setup};
use crate::lifecycle::conditions::{self, ConditionState, is_true};
use crate::lifecycle::fields::{self, number, set, text};
use crate::lifecycle::objects::{GroupKind, ObjectId};
use crate::lifecycle::settings::Timings;
use crate::lifecycle::simulator::MachineSimulator;
use crate::lifecycle::testing::{CLUSTER, cluster_key, object};
use model::hub::contract::Contract;
use model::hub::{Object, label};

const KUBEADM: (&str, &str) = ("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane");
const EMBEDDED: (&str, &str) = ("controlplane.topologist.dev/v1beta1", "EmbeddedControlPlane");
const OTHER: (&str, &str) = ("controlplane.example.com/v1", "FooControlPlane");

fn kind((api_version, kind): (&str, &str)) -> GroupKind {
    GroupKind::new(model::hub::group_of(api_version), kind)
}

/// A Cluster with a control plane of three Machines.
fn start(timings: Timings, of: (&str, &str), contract: Contract, spec: Value) -> MachineSimulator {
    let mut simulator = setup(timings);
    simulator.objects.set_listed(&kind(of), Some(contract));
    make_cluster(
        &mut simulator,
        json!({"failureDomains": [
            {"name": "a", "controlPlane": true}, {"name": "b", "controlPlane": true}, {"name": "w"},
        ]}),
    );
    let cluster = simulator.core("Cluster", CLUSTER);
    let reference = json!({"apiGroup": &*kind(of).group, "kind": of.1, "name": "cp"});
    simulator.edit(&cluster, |it| set(it, "spec.controlPlaneRef", reference));
    for name in ["small", "large"] {
        let template = json!({"template": {"metadata": {"labels": {"size": name}}, "spec": {}}});
        simulator.make(object(&format!("{INFRASTRUCTURE}/v1beta1"), "EmbeddedMachineTemplate", name, template));
    }
    let infrastructure = match contract {
        Contract::V1Beta1 => json!({"infrastructureRef": {
            "apiVersion": format!("{INFRASTRUCTURE}/v1beta1"), "kind": "EmbeddedMachineTemplate", "name": "small",
            "namespace": "ns",
        }}),
        Contract::V1Beta2 => json!({"spec": {"infrastructureRef": {
            "apiGroup": INFRASTRUCTURE, "kind": "EmbeddedMachineTemplate", "name": "small",
        }}}),
    };
    let mut whole = json!({"replicas": 3, "version": "v1.31.0", "machineTemplate": infrastructure});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    simulator.make(object(of.0, of.1, "cp", whole));
    simulator
}

/// A running Cluster with a control plane of three Machines.
fn up(of: (&str, &str), contract: Contract, spec: Value) -> MachineSimulator {
    let mut simulator = start(Timings::NONE, of, contract, spec);
    play(&mut simulator, 60);
    simulator
}

fn control_plane(simulator: &MachineSimulator, of: (&str, &str)) -> Arc<Object> {
    simulator.find(&kind(of), "cp").unwrap()
}

fn edit(simulator: &mut MachineSimulator, of: (&str, &str), change: impl FnOnce(&mut Object)) {
    let object = control_plane(simulator, of);
    simulator.edit(&object, change);
}

fn machines(simulator: &MachineSimulator) -> Vec<Arc<Object>> {
    simulator.all(&GroupKind::core("Machine"))
}

fn names(simulator: &MachineSimulator) -> BTreeSet<String> {
    machines(simulator).iter().map(|machine| machine.name().to_owned()).collect()
}

/// Number of replaced Machines after a change, with the maximum and minimum meanwhile.
fn replaced(
    simulator: &mut MachineSimulator,
    of: (&str, &str),
    change: impl FnOnce(&mut Object),
) -> (usize, usize, usize) {
    let before = names(simulator);
    edit(simulator, of, change);
    let (mut most, mut least) = (0, usize::MAX);
    play_with(simulator, 600, &mut |simulator| {
        let running = machines(simulator).iter().filter(|machine| !machine.is_being_deleted()).count();
        (most, least) = (most.max(machines(simulator).len()), least.min(running));
    });
    (names(simulator).difference(&before).count(), most, least)
}

#[test]
fn machines_come_one_after_the_other_and_the_first_one_initializes() {
    // CT-10.1, CT-10.2, CT-10.3, CT-10.4, CT-10.9, CT-10.12, CT-10.14, CT-10.15, CT-10.18, MA-30.3, MA-30.6
    for of in [KUBEADM, EMBEDDED, OTHER] {
        let mut simulator =
            start(Timings { node: Duration::from_secs(10), ..Timings::NONE }, of, Contract::V1Beta2, json!({}));
        let mut made = Vec::new();
        play_with(&mut simulator, 600, &mut |simulator| {
            let count = machines(simulator).len();
            if made.last().is_none_or(|(_, known)| *known != count) {
                made.push((seconds(simulator), count));
            }
        });
        assert_eq!(made, [(0, 0), (0, 1), (10, 2), (20, 3)], "{of:?}");
        let object = control_plane(&simulator, of);
        assert_eq!(object.at("status.initialization.controlPlaneInitialized"), Some(&json!(true)));
        for counter in ["replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"] {
            assert_eq!(number(&object, &format!("status.{counter}")), Some(3), "{of:?}: {counter}");
        }
        assert_eq!(text(&object, "status.version"), "v1.31.0");
        assert_eq!(object.at("status.versions"), Some(&json!([{"version": "v1.31.0", "replicas": 3}])));
        for (name, is) in [("Available", true), ("Initialized", true), ("RollingOut", false), ("ScalingUp", false)] {
            assert_eq!(is_true(&object, name), is, "{of:?}: {name}");
        }
        let mut domains: Vec<String> =
            machines(&simulator).iter().map(|machine| text(machine, "spec.failureDomain").to_owned()).collect();
        domains.sort();
        assert_eq!(domains, ["a", "a", "b"]);
        for machine in machines(&simulator) {
            assert_eq!(machine.label(label::CONTROL_PLANE), Some(""));
            assert_eq!(machine.label("cluster.x-k8s.io/control-plane-name"), Some("cp"));
            assert!(machine.controller().is_some_and(|owner| owner["name"] == "cp"));
            assert!(is_true(&machine, "UpToDate"));
        }
        assert!(simulator.objects.workload(&cluster_key()).is_some_and(|workload| workload.is_reachable));
    }
}

#[test]
fn machines_are_named_by_the_template_of_the_control_plane() {
    // MA-15.9, CT-10.12
    let template = json!({"template": "{{ .cluster.name }}-brain-{{ .kubeadmControlPlane.name }}-{{ .random }}"});
    for (contract, field) in [(Contract::V1Beta1, "machineNamingStrategy"), (Contract::V1Beta2, "machineNaming")] {
        let simulator = up(KUBEADM, contract, json!({field: template}));
        let names = names(&simulator);
        assert_eq!(names.len(), 3, "{contract:?}");
        for name in &names {
            let end = name.strip_prefix("demo-brain-cp-").unwrap_or_else(|| panic!("{contract:?}: {name}"));
            assert_eq!(end.len(), 5, "{name}");
            assert!(simulator.find(&GroupKind::new(INFRASTRUCTURE, "EmbeddedMachine"), name).is_some(), "{name}");
        }
    }
    for (template, want) in [
        ("{{ .machineSet.name }}", "spec.machineNaming.template: "),
        ("{{ .cluster.name }}", "found no free name for a Machine"),
    ] {
        let simulator = up(KUBEADM, Contract::V1Beta2, json!({"machineNaming": {"template": template}}));
        let failure = simulator.failure(&ObjectId::for_object(&control_plane(&simulator, KUBEADM))).unwrap_or_default();
        assert!(failure.contains(want), "{template}: {failure}");
    }
}

#[test]
fn the_older_contract_counts_and_refers_in_its_own_way() {
    // CT-5.4, CT-5.6, CT-5.7, CT-10.3, CT-10.13, CT-20.1
    let simulator = up(KUBEADM, Contract::V1Beta1, json!({}));
    let object = control_plane(&simulator, KUBEADM);
    assert_eq!(object.at("status.initialized"), Some(&json!(true)));
    assert_eq!(object.at("status.initialization"), None);
    for (counter, want) in [
        ("replicas", Some(3)),
        ("readyReplicas", Some(3)),
        ("updatedReplicas", Some(3)),
        ("unavailableReplicas", Some(0)),
    ] {
        assert_eq!(number(&object, &format!("status.{counter}")), want, "{counter}");
    }
    assert_eq!(number(&object, "status.upToDateReplicas"), None);
    let mut simulator = simulator;
    edit(&mut simulator, KUBEADM, |it| set(it, "spec.machineTemplate.nodeDrainTimeout", json!("1m30s")));
    play(&mut simulator, 60);
    for machine in machines(&simulator) {
        assert_eq!(number(&machine, "spec.deletion.nodeDrainTimeoutSeconds"), Some(90));
    }
    edit(&mut simulator, KUBEADM, |it| set(it, "spec.machineTemplate.infrastructureRef.name", json!("")));
    play(&mut simulator, 1);
    let failure = simulator.failure(&ObjectId::for_object(&control_plane(&simulator, KUBEADM))).unwrap_or_default();
    assert!(failure.contains("spec.machineTemplate.infrastructureRef needs apiVersion, kind and name"), "{failure}");
}

#[test]
fn what_replaces_machines_is_what_the_rows_say() {
    // ROLL-1, ROLL-2, ROLL-3, ROLL-4, ROLL-5, ROLL-7, ROLL-8, ROLL-14, CT-10.13, CT-10.19
    type Change = fn(&mut Object);
    /// Name, kind, spec, change, and number of replaced machines.
    type Case<'a> = (&'a str, (&'a str, &'a str), &'a Value, Change, usize);
    let config = json!({"kubeadmConfigSpec": {"joinConfiguration": {"nodeRegistration": {"name": "n"}}}});
    let same = json!({"kubeadmConfigSpec": {
        "initConfiguration": {"nodeRegistration": {"name": "n"}},
        "joinConfiguration": {"nodeRegistration": {"name": "n"}},
    }});
    let version: Change = |it| set(it, "spec.version", json!("v1.32.0"));
    let template: Change = |it| set(it, "spec.machineTemplate.spec.infrastructureRef.name", json!("large"));
    let init: Change = |it| set(it, "spec.kubeadmConfigSpec.initConfiguration.nodeRegistration.name", json!("m"));
    let cases: [Case<'_>; 17] = [
        ("version", KUBEADM, &config, version, 3),
        ("version", EMBEDDED, &json!({}), version, 3),
        ("version", OTHER, &json!({}), version, 3),
        ("template", KUBEADM, &config, template, 3),
        ("template", EMBEDDED, &json!({}), template, 3),
        ("files", KUBEADM, &config, |it| set(it, "spec.kubeadmConfigSpec.files", json!([{"path": "/x"}])), 3),
        ("no files", KUBEADM, &config, |it| set(it, "spec.kubeadmConfigSpec.files", json!([])), 0),
        (
            "the default format",
            KUBEADM,
            &config,
            |it| set(it, "spec.kubeadmConfigSpec.format", json!("cloud-config")),
            0,
        ),
        ("init", KUBEADM, &config, init, 1),
        ("init that is as join", KUBEADM, &same, init, 0),
        (
            "dns",
            KUBEADM,
            &config,
            |it| set(it, "spec.kubeadmConfigSpec.clusterConfiguration.dns", json!({"a": "b"})),
            0,
        ),
        (
            "discovery",
            KUBEADM,
            &config,
            |it| set(it, "spec.kubeadmConfigSpec.joinConfiguration.discovery", json!({"a": "b"})),
            0,
        ),
        (
            "CA path",
            KUBEADM,
            &config,
            |it| set(it, "spec.kubeadmConfigSpec.joinConfiguration.caCertPath", json!("/x")),
            2,
        ),
        ("files", EMBEDDED, &json!({}), |it| set(it, "spec.bootstrap.files", json!([{"path": "/x"}])), 3),
        ("a field", OTHER, &json!({}), |it| set(it, "spec.foo", json!(1)), 3),
        ("labels", EMBEDDED, &json!({}), |it| set(it, "spec.machineTemplate.metadata.labels", json!({"a": "b"})), 0),
        (
            "timeouts",
            KUBEADM,
            &config,
            |it| {
                set(it, "spec.machineTemplate.spec.deletion.nodeDrainTimeoutSeconds", json!(7));
            },
            0,
        ),
    ];
    for (case, of, spec, change, want) in cases {
        let mut simulator = up(of, Contract::V1Beta2, spec.clone());
        assert_eq!(machines(&simulator).len(), 3, "{case}");
        let (replaced, most, least) = replaced(&mut simulator, of, change);
        assert_eq!(replaced, want, "{case} of {}", of.1);
        assert!(most <= 4 && least >= 3, "{case}: {least} to {most} machines");
        assert_eq!(
            text(&control_plane(&simulator, of), "status.version"),
            text(&control_plane(&simulator, of), "spec.version")
        );
        assert!(!is_true(&control_plane(&simulator, of), "RollingOut"));
    }
}

#[test]
fn without_surge_a_machine_goes_first() {
    // ROLL-8
    let spec = json!({"rollout": {"strategy": {"rollingUpdate": {"maxSurge": 0}}}});
    let mut simulator = up(KUBEADM, Contract::V1Beta2, spec);
    let counts = replaced(&mut simulator, KUBEADM, |it| set(it, "spec.version", json!("v1.32.0")));
    assert_eq!(counts, (3, 3, 2));
}

#[test]
fn machines_are_replaced_at_the_time_that_is_set() {
    // ROLL-6
    let mut simulator = up(KUBEADM, Contract::V1Beta2, json!({}));
    let before = names(&simulator);
    edit(&mut simulator, KUBEADM, |it| set(it, "spec.rollout.after", json!("2030-01-01T01:00:00Z")));
    play(&mut simulator, 3599);
    assert_eq!(names(&simulator), before, "nothing is due before");
    play(&mut simulator, 3600);
    assert_eq!((names(&simulator).intersection(&before).count(), machines(&simulator).len()), (0, 3));
    for machine in machines(&simulator) {
        simulator.edit(&machine, |it| set(it, "status.certificatesExpiryDate", json!("2030-03-01T00:00:00Z")));
    }
    let known = names(&simulator);
    edit(&mut simulator, KUBEADM, |it| set(it, "spec.rollout.before.certificatesExpiryDays", json!(7)));
    play(&mut simulator, 50 * 86_400);
    assert_eq!(names(&simulator), known);
    play(&mut simulator, 60 * 86_400);
    assert_eq!((names(&simulator).intersection(&known).count(), machines(&simulator).len()), (0, 3));
}

#[test]
fn labels_timeouts_gates_and_taints_go_to_running_machines_and_go_with_the_template() {
    // CT-10.13, ROLL-7
    let mut simulator = up(EMBEDDED, Contract::V1Beta2, json!({}));
    edit(&mut simulator, EMBEDDED, |it| {
        set(it, "spec.machineTemplate.metadata", json!({"labels": {"team": "a"}, "annotations": {"note": "b"}}));
        set(it, "spec.machineTemplate.spec.taints", json!([{"key": "k", "effect": "NoSchedule"}]));
        set(it, "spec.machineTemplate.spec.readinessGates", json!([{"conditionType": "Foo"}]));
    });
    play(&mut simulator, 60);
    let everything = |simulator: &MachineSimulator| {
        let made = [GroupKind::new(INFRASTRUCTURE, "EmbeddedMachine"), GroupKind::new(BOOTSTRAP, "EmbeddedConfig")];
        let made: Vec<Arc<Object>> = made.iter().flat_map(|kind| simulator.all(kind)).collect();
        [machines(simulator), made].concat()
    };
    assert_eq!(everything(&simulator).len(), 9);
    for one in everything(&simulator) {
        assert_eq!((one.label("team"), one.annotation("note")), (Some("a"), Some("b")), "{}", one.kind());
    }
    for machine in machines(&simulator) {
        assert_eq!(fields::items(&machine, "spec.taints").len(), 1);
        assert_eq!(fields::items(&machine, "spec.readinessGates").len(), 1);
    }
    edit(&mut simulator, EMBEDDED, |it| {
        it.remove("spec.machineTemplate.metadata");
        it.remove("spec.machineTemplate.spec.taints");
    });
    play(&mut simulator, 60);
    for one in everything(&simulator) {
        assert_eq!((one.label("team"), one.annotation("note")), (None, None), "{}", one.kind());
        assert_eq!(one.at("spec.taints"), None);
        assert_eq!(one.label(label::CLUSTER_NAME), Some(CLUSTER));
    }
}

#[test]
fn replicas_scale_one_by_one_and_the_marked_machine_goes_first() {
    // ROLL-7, CT-10.2
    let mut simulator = up(KUBEADM, Contract::V1Beta2, json!({}));
    let marked = machines(&simulator).pop().unwrap();
    simulator.edit(&marked, |it| fields::set_annotation(it, "cluster.x-k8s.io/delete-machine", ""));
    let (new, _, least) = replaced(&mut simulator, KUBEADM, |it| set(it, "spec.replicas", json!(1)));
    assert_eq!((new, least, machines(&simulator).len()), (0, 1, 1));
    let mut simulator = up(KUBEADM, Contract::V1Beta2, json!({}));
    let marked = machines(&simulator).pop().unwrap();
    simulator.edit(&marked, |it| fields::set_annotation(it, "cluster.x-k8s.io/delete-machine", ""));
    replaced(&mut simulator, KUBEADM, |it| set(it, "spec.replicas", json!(2)));
    assert!(!names(&simulator).contains(marked.name()));
    let (new, most, _) = replaced(&mut simulator, KUBEADM, |it| set(it, "spec.replicas", json!(5)));
    assert_eq!((new, most), (3, 5));
}

#[test]
fn an_unhealthy_machine_is_replaced_unless_too_few_others_run() {
    // MA-19.10, MA-19.13
    let mark = |simulator: &mut MachineSimulator, machine: &Object| {
        let now = simulator.now();
        simulator.edit(machine, |it| {
            conditions::put(it, "HealthCheckSucceeded", &ConditionState::new(false, "UnhealthyNode", ""), now);
            conditions::put(it, "OwnerRemediated", &ConditionState::new(false, "WaitingForRemediation", ""), now);
        });
    };
    let mut simulator = up(KUBEADM, Contract::V1Beta2, json!({}));
    let unhealthy = machines(&simulator).remove(0);
    mark(&mut simulator, &unhealthy);
    simulator.settle(1000);
    let marked = simulator.core("Machine", unhealthy.name());
    assert_eq!(conditions::reason(&marked, "OwnerRemediated"), "MachineDeleting");
    play(&mut simulator, 60);
    assert!(!names(&simulator).contains(unhealthy.name()) && machines(&simulator).len() == 3);
    let mut simulator = up(KUBEADM, Contract::V1Beta2, json!({"replicas": 1}));
    let only = machines(&simulator).remove(0);
    mark(&mut simulator, &only);
    play(&mut simulator, 60);
    let kept = simulator.core("Machine", only.name());
    assert_eq!(conditions::reason(&kept, "OwnerRemediated"), "RemediationDeferred");
    assert!(is_true(&control_plane(&simulator, KUBEADM), "Remediating"));
}

#[test]
fn a_deleted_control_plane_goes_after_its_machines() {
    // CT-10.20, CT-15.7
    let mut simulator = up(EMBEDDED, Contract::V1Beta2, json!({}));
    let id = ObjectId::for_object(&control_plane(&simulator, EMBEDDED));
    simulator.delete(&id);
    simulator.settle(1000);
    assert!(simulator.objects.get(&id).is_some_and(|it| is_true(it, "Deleting")));
    play(&mut simulator, 60);
    assert!(simulator.objects.get(&id).is_none() && machines(&simulator).is_empty());
}

#[test]
fn without_machines_flag_and_version_follow_after_a_while() {
    // CT-10.5, CT-10.16, ROLL-14
    let mut simulator = setup(Timings { control_plane: Duration::from_mins(1), ..Timings::NONE });
    make_cluster(&mut simulator, json!({}));
    let cluster = simulator.core("Cluster", CLUSTER);
    let reference = json!({"apiGroup": &*kind(OTHER).group, "kind": OTHER.1, "name": "cp"});
    simulator.edit(&cluster, |it| set(it, "spec.controlPlaneRef", reference));
    simulator.make(object(OTHER.0, OTHER.1, "cp", json!({"version": "v1.31.0", "replicas": 2})));
    simulator.settle(1000);
    play(&mut simulator, 1);
    assert_eq!(text(&control_plane(&simulator, OTHER), "status.version"), "", "it is provisioning");
    play(&mut simulator, 60);
    let object = control_plane(&simulator, OTHER);
    assert_eq!(seconds(&simulator), 60);
    assert_eq!(object.at("status.externalManagedControlPlane"), Some(&json!(true)));
    assert_eq!(object.at("status.initialization.controlPlaneInitialized"), Some(&json!(true)));
    assert_eq!((text(&object, "status.version"), number(&object, "status.readyReplicas")), ("v1.31.0", Some(2)));
    edit(&mut simulator, OTHER, |it| set(it, "spec.version", json!("v1.32.0")));
    simulator.settle(1000);
    let object = control_plane(&simulator, OTHER);
    assert_eq!((text(&object, "status.version"), is_true(&object, "RollingOut")), ("v1.31.0", true));
    play(&mut simulator, 60);
    let object = control_plane(&simulator, OTHER);
    assert_eq!((text(&object, "status.version"), is_true(&object, "RollingOut")), ("v1.32.0", false));
    assert_eq!((seconds(&simulator), machines(&simulator).len()), (120, 0));
}

#[test]
fn a_control_plane_without_an_infrastructure_cluster_gives_the_endpoint() {
    // CT-10.17, CT-6.3
    let mut simulator = setup(Timings::NONE);
    let reference = json!({"apiGroup": &*kind(OTHER).group, "kind": OTHER.1, "name": "cp"});
    let cluster =
        simulator.make(crate::lifecycle::testing::core("Cluster", CLUSTER, json!({"controlPlaneRef": reference})));
    simulator.edit(&cluster, |it| set(it, "status.initialization.infrastructureProvisioned", json!(true)));
    simulator.make(object(OTHER.0, OTHER.1, "cp", json!({"version": "v1.31.0"})));
    play(&mut simulator, 60);
    let endpoint = control_plane(&simulator, OTHER).at("spec.controlPlaneEndpoint").cloned();
    assert_eq!(endpoint, Some(json!({"host": "127.0.0.1", "port": 6443})));
}
