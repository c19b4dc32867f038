//! Control planes on a virtual clock.

mod cleanup;

use std::collections::BTreeSet;
use std::sync::Arc;

use core::time::Duration;

use serde_json::{Value, json};

use super::super::tests::{BOOTSTRAP, INFRASTRUCTURE, make_cluster, play, play_with, scene, seconds};
use crate::lifecycle::conditions::{self, Condition, is_true};
use crate::lifecycle::fields::{self, number, set, text};
use crate::lifecycle::fold::Fold;
use crate::lifecycle::objects::{GroupKind, ObjectId};
use crate::lifecycle::settings::Timings;
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
fn start(timings: Timings, of: (&str, &str), contract: Contract, spec: Value) -> Fold {
    let mut fold = scene(timings);
    fold.objects.set_listed(&kind(of), Some(contract));
    make_cluster(
        &mut fold,
        json!({"failureDomains": [
            {"name": "a", "controlPlane": true}, {"name": "b", "controlPlane": true}, {"name": "w"},
        ]}),
    );
    let cluster = fold.core("Cluster", CLUSTER);
    let reference = json!({"apiGroup": &*kind(of).group, "kind": of.1, "name": "cp"});
    fold.edit(&cluster, |it| set(it, "spec.controlPlaneRef", reference));
    for name in ["small", "large"] {
        let template = json!({"template": {"metadata": {"labels": {"size": name}}, "spec": {}}});
        fold.make(object(&format!("{INFRASTRUCTURE}/v1beta1"), "EmbeddedMachineTemplate", name, template));
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
    fold.make(object(of.0, of.1, "cp", whole));
    fold
}

/// The same, once it is up.
fn up(of: (&str, &str), contract: Contract, spec: Value) -> Fold {
    let mut fold = start(Timings::NONE, of, contract, spec);
    play(&mut fold, 60);
    fold
}

fn control_plane(fold: &Fold, of: (&str, &str)) -> Arc<Object> {
    fold.find(&kind(of), "cp").unwrap()
}

fn edit(fold: &mut Fold, of: (&str, &str), change: impl FnOnce(&mut Object)) {
    let object = control_plane(fold, of);
    fold.edit(&object, change);
}

fn machines(fold: &Fold) -> Vec<Arc<Object>> {
    fold.all(&GroupKind::core("Machine"))
}

fn names(fold: &Fold) -> BTreeSet<String> {
    machines(fold).iter().map(|machine| machine.name().to_owned()).collect()
}

/// How many Machines are replaced after a change, and how many there were at most and at least meanwhile.
fn replaced(fold: &mut Fold, of: (&str, &str), change: impl FnOnce(&mut Object)) -> (usize, usize, usize) {
    let before = names(fold);
    edit(fold, of, change);
    let (mut most, mut least) = (0, usize::MAX);
    play_with(fold, 600, &mut |fold| {
        let running = machines(fold).iter().filter(|machine| !machine.is_being_deleted()).count();
        (most, least) = (most.max(machines(fold).len()), least.min(running));
    });
    (names(fold).difference(&before).count(), most, least)
}

#[test]
fn machines_come_one_after_the_other_and_the_first_one_initializes() {
    // CT-10.1, CT-10.2, CT-10.3, CT-10.4, CT-10.9, CT-10.12, CT-10.14, CT-10.15, CT-10.18, MA-30.3, MA-30.6
    for of in [KUBEADM, EMBEDDED, OTHER] {
        let mut fold =
            start(Timings { node: Duration::from_secs(10), ..Timings::NONE }, of, Contract::V1Beta2, json!({}));
        let mut made = Vec::new();
        play_with(&mut fold, 600, &mut |fold| {
            let count = machines(fold).len();
            if made.last().is_none_or(|(_, known)| *known != count) {
                made.push((seconds(fold), count));
            }
        });
        assert_eq!(made, [(0, 0), (0, 1), (10, 2), (20, 3)], "{of:?}");
        let object = control_plane(&fold, of);
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
            machines(&fold).iter().map(|machine| text(machine, "spec.failureDomain").to_owned()).collect();
        domains.sort();
        assert_eq!(domains, ["a", "a", "b"]);
        for machine in machines(&fold) {
            assert_eq!(machine.label(label::CONTROL_PLANE), Some(""));
            assert_eq!(machine.label("cluster.x-k8s.io/control-plane-name"), Some("cp"));
            assert!(fields::controller(&machine).is_some_and(|owner| owner["name"] == "cp"));
            assert!(is_true(&machine, "UpToDate"));
        }
        assert!(fold.objects.workload(&cluster_key()).is_some_and(|workload| workload.is_reachable));
    }
}

#[test]
fn machines_are_named_by_the_template_of_the_control_plane() {
    // MA-15.9, CT-10.12
    let template = json!({"template": "{{ .cluster.name }}-brain-{{ .kubeadmControlPlane.name }}-{{ .random }}"});
    for (contract, field) in [(Contract::V1Beta1, "machineNamingStrategy"), (Contract::V1Beta2, "machineNaming")] {
        let fold = up(KUBEADM, contract, json!({field: template}));
        let names = names(&fold);
        assert_eq!(names.len(), 3, "{contract:?}");
        for name in &names {
            let end = name.strip_prefix("demo-brain-cp-").unwrap_or_else(|| panic!("{contract:?}: {name}"));
            assert_eq!(end.len(), 5, "{name}");
            assert!(fold.find(&GroupKind::new(INFRASTRUCTURE, "EmbeddedMachine"), name).is_some(), "{name}");
        }
    }
    for (template, want) in [
        ("{{ .machineSet.name }}", "spec.machineNaming.template: "),
        ("{{ .cluster.name }}", "found no free name for a Machine"),
    ] {
        let fold = up(KUBEADM, Contract::V1Beta2, json!({"machineNaming": {"template": template}}));
        let failure = fold.failure(&ObjectId::of(&control_plane(&fold, KUBEADM))).unwrap_or_default();
        assert!(failure.contains(want), "{template}: {failure}");
    }
}

#[test]
fn the_older_contract_counts_and_refers_in_its_own_way() {
    // CT-5.4, CT-5.6, CT-5.7, CT-10.3, CT-10.13, CT-20.1
    let fold = up(KUBEADM, Contract::V1Beta1, json!({}));
    let object = control_plane(&fold, KUBEADM);
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
    let mut fold = fold;
    edit(&mut fold, KUBEADM, |it| set(it, "spec.machineTemplate.nodeDrainTimeout", json!("1m30s")));
    play(&mut fold, 60);
    for machine in machines(&fold) {
        assert_eq!(number(&machine, "spec.deletion.nodeDrainTimeoutSeconds"), Some(90));
    }
    edit(&mut fold, KUBEADM, |it| set(it, "spec.machineTemplate.infrastructureRef.name", json!("")));
    play(&mut fold, 1);
    let failure = fold.failure(&ObjectId::of(&control_plane(&fold, KUBEADM))).unwrap_or_default();
    assert!(failure.contains("spec.machineTemplate.infrastructureRef needs apiVersion, kind and name"), "{failure}");
}

#[test]
fn what_replaces_machines_is_what_the_rows_say() {
    // ROLL-1, ROLL-2, ROLL-3, ROLL-4, ROLL-5, ROLL-7, ROLL-8, ROLL-14, CT-10.13, CT-10.19
    type Change = fn(&mut Object);
    /// Name, kind, spec, change, and how many machines are replaced.
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
        let mut fold = up(of, Contract::V1Beta2, spec.clone());
        assert_eq!(machines(&fold).len(), 3, "{case}");
        let (replaced, most, least) = replaced(&mut fold, of, change);
        assert_eq!(replaced, want, "{case} of {}", of.1);
        assert!(most <= 4 && least >= 3, "{case}: {least} to {most} machines");
        assert_eq!(text(&control_plane(&fold, of), "status.version"), text(&control_plane(&fold, of), "spec.version"));
        assert!(!is_true(&control_plane(&fold, of), "RollingOut"));
    }
}

#[test]
fn without_surge_a_machine_goes_first() {
    // ROLL-8
    let spec = json!({"rollout": {"strategy": {"rollingUpdate": {"maxSurge": 0}}}});
    let mut fold = up(KUBEADM, Contract::V1Beta2, spec);
    let counts = replaced(&mut fold, KUBEADM, |it| set(it, "spec.version", json!("v1.32.0")));
    assert_eq!(counts, (3, 3, 2));
}

#[test]
fn machines_are_replaced_at_the_time_that_is_set() {
    // ROLL-6
    let mut fold = up(KUBEADM, Contract::V1Beta2, json!({}));
    let before = names(&fold);
    edit(&mut fold, KUBEADM, |it| set(it, "spec.rollout.after", json!("2030-01-01T01:00:00Z")));
    play(&mut fold, 3599);
    assert_eq!(names(&fold), before, "nothing is due before");
    play(&mut fold, 3600);
    assert_eq!((names(&fold).intersection(&before).count(), machines(&fold).len()), (0, 3));
    for machine in machines(&fold) {
        fold.edit(&machine, |it| set(it, "status.certificatesExpiryDate", json!("2030-03-01T00:00:00Z")));
    }
    let known = names(&fold);
    edit(&mut fold, KUBEADM, |it| set(it, "spec.rollout.before.certificatesExpiryDays", json!(7)));
    play(&mut fold, 50 * 86_400);
    assert_eq!(names(&fold), known);
    play(&mut fold, 60 * 86_400);
    assert_eq!((names(&fold).intersection(&known).count(), machines(&fold).len()), (0, 3));
}

#[test]
fn labels_timeouts_gates_and_taints_go_to_running_machines_and_go_with_the_template() {
    // CT-10.13, ROLL-7
    let mut fold = up(EMBEDDED, Contract::V1Beta2, json!({}));
    edit(&mut fold, EMBEDDED, |it| {
        set(it, "spec.machineTemplate.metadata", json!({"labels": {"team": "a"}, "annotations": {"note": "b"}}));
        set(it, "spec.machineTemplate.spec.taints", json!([{"key": "k", "effect": "NoSchedule"}]));
        set(it, "spec.machineTemplate.spec.readinessGates", json!([{"conditionType": "Foo"}]));
    });
    play(&mut fold, 60);
    let everything = |fold: &Fold| {
        let made = [GroupKind::new(INFRASTRUCTURE, "EmbeddedMachine"), GroupKind::new(BOOTSTRAP, "EmbeddedConfig")];
        let made: Vec<Arc<Object>> = made.iter().flat_map(|kind| fold.all(kind)).collect();
        [machines(fold), made].concat()
    };
    assert_eq!(everything(&fold).len(), 9);
    for one in everything(&fold) {
        assert_eq!((one.label("team"), one.annotation("note")), (Some("a"), Some("b")), "{}", one.kind());
    }
    for machine in machines(&fold) {
        assert_eq!(fields::items(&machine, "spec.taints").len(), 1);
        assert_eq!(fields::items(&machine, "spec.readinessGates").len(), 1);
    }
    edit(&mut fold, EMBEDDED, |it| {
        it.remove("spec.machineTemplate.metadata");
        it.remove("spec.machineTemplate.spec.taints");
    });
    play(&mut fold, 60);
    for one in everything(&fold) {
        assert_eq!((one.label("team"), one.annotation("note")), (None, None), "{}", one.kind());
        assert_eq!(one.at("spec.taints"), None);
        assert_eq!(one.label(label::CLUSTER_NAME), Some(CLUSTER));
    }
}

#[test]
fn replicas_scale_one_by_one_and_the_marked_machine_goes_first() {
    // ROLL-7, CT-10.2
    let mut fold = up(KUBEADM, Contract::V1Beta2, json!({}));
    let marked = machines(&fold).pop().unwrap();
    fold.edit(&marked, |it| fields::set_annotation(it, "cluster.x-k8s.io/delete-machine", ""));
    let (new, _, least) = replaced(&mut fold, KUBEADM, |it| set(it, "spec.replicas", json!(1)));
    assert_eq!((new, least, machines(&fold).len()), (0, 1, 1));
    let mut fold = up(KUBEADM, Contract::V1Beta2, json!({}));
    let marked = machines(&fold).pop().unwrap();
    fold.edit(&marked, |it| fields::set_annotation(it, "cluster.x-k8s.io/delete-machine", ""));
    replaced(&mut fold, KUBEADM, |it| set(it, "spec.replicas", json!(2)));
    assert!(!names(&fold).contains(marked.name()));
    let (new, most, _) = replaced(&mut fold, KUBEADM, |it| set(it, "spec.replicas", json!(5)));
    assert_eq!((new, most), (3, 5));
}

#[test]
fn an_unhealthy_machine_is_replaced_unless_too_few_others_run() {
    // MA-19.10, MA-19.13
    let mark = |fold: &mut Fold, machine: &Object| {
        let now = fold.now();
        fold.edit(machine, |it| {
            conditions::put(it, "HealthCheckSucceeded", &Condition::new(false, "UnhealthyNode", ""), now);
            conditions::put(it, "OwnerRemediated", &Condition::new(false, "WaitingForRemediation", ""), now);
        });
    };
    let mut fold = up(KUBEADM, Contract::V1Beta2, json!({}));
    let unhealthy = machines(&fold).remove(0);
    mark(&mut fold, &unhealthy);
    fold.settle(1000);
    let marked = fold.core("Machine", unhealthy.name());
    assert_eq!(conditions::reason(&marked, "OwnerRemediated"), "MachineDeleting");
    play(&mut fold, 60);
    assert!(!names(&fold).contains(unhealthy.name()) && machines(&fold).len() == 3);
    let mut fold = up(KUBEADM, Contract::V1Beta2, json!({"replicas": 1}));
    let only = machines(&fold).remove(0);
    mark(&mut fold, &only);
    play(&mut fold, 60);
    let kept = fold.core("Machine", only.name());
    assert_eq!(conditions::reason(&kept, "OwnerRemediated"), "RemediationDeferred");
    assert!(is_true(&control_plane(&fold, KUBEADM), "Remediating"));
}

#[test]
fn a_deleted_control_plane_goes_after_its_machines() {
    // CT-10.20, CT-15.7
    let mut fold = up(EMBEDDED, Contract::V1Beta2, json!({}));
    let id = ObjectId::of(&control_plane(&fold, EMBEDDED));
    fold.delete(&id);
    fold.settle(1000);
    assert!(fold.objects.get(&id).is_some_and(|it| is_true(it, "Deleting")));
    play(&mut fold, 60);
    assert!(fold.objects.get(&id).is_none() && machines(&fold).is_empty());
}

#[test]
fn without_machines_flag_and_version_follow_after_a_while() {
    // CT-10.5, CT-10.16, ROLL-14
    let mut fold = scene(Timings { control_plane: Duration::from_mins(1), ..Timings::NONE });
    make_cluster(&mut fold, json!({}));
    let cluster = fold.core("Cluster", CLUSTER);
    let reference = json!({"apiGroup": &*kind(OTHER).group, "kind": OTHER.1, "name": "cp"});
    fold.edit(&cluster, |it| set(it, "spec.controlPlaneRef", reference));
    fold.make(object(OTHER.0, OTHER.1, "cp", json!({"version": "v1.31.0", "replicas": 2})));
    fold.settle(1000);
    play(&mut fold, 1);
    assert_eq!(text(&control_plane(&fold, OTHER), "status.version"), "", "it is provisioning");
    play(&mut fold, 60);
    let object = control_plane(&fold, OTHER);
    assert_eq!(seconds(&fold), 60);
    assert_eq!(object.at("status.externalManagedControlPlane"), Some(&json!(true)));
    assert_eq!(object.at("status.initialization.controlPlaneInitialized"), Some(&json!(true)));
    assert_eq!((text(&object, "status.version"), number(&object, "status.readyReplicas")), ("v1.31.0", Some(2)));
    edit(&mut fold, OTHER, |it| set(it, "spec.version", json!("v1.32.0")));
    fold.settle(1000);
    let object = control_plane(&fold, OTHER);
    assert_eq!((text(&object, "status.version"), is_true(&object, "RollingOut")), ("v1.31.0", true));
    play(&mut fold, 60);
    let object = control_plane(&fold, OTHER);
    assert_eq!((text(&object, "status.version"), is_true(&object, "RollingOut")), ("v1.32.0", false));
    assert_eq!((seconds(&fold), machines(&fold).len()), (120, 0));
}

#[test]
fn a_control_plane_without_an_infrastructure_cluster_gives_the_endpoint() {
    // CT-10.17, CT-6.3
    let mut fold = scene(Timings::NONE);
    let reference = json!({"apiGroup": &*kind(OTHER).group, "kind": OTHER.1, "name": "cp"});
    let cluster = fold.make(crate::lifecycle::testing::core("Cluster", CLUSTER, json!({"controlPlaneRef": reference})));
    fold.edit(&cluster, |it| set(it, "status.initialization.infrastructureProvisioned", json!(true)));
    fold.make(object(OTHER.0, OTHER.1, "cp", json!({"version": "v1.31.0"})));
    play(&mut fold, 60);
    let endpoint = control_plane(&fold, OTHER).at("spec.controlPlaneEndpoint").cloned();
    assert_eq!(endpoint, Some(json!({"host": "127.0.0.1", "port": 6443})));
}
