//! The deletion of a Machine: hooks, drain, volumes, and what is deleted in which order.

use super::*;
use crate::lifecycle::context::Context;
use crate::lifecycle::step::{Step, Write};

/// A running Machine in a Cluster with a control plane machine, so that its Node is handled.
fn worker() -> Fold {
    let mut fold = running();
    other_machine(&mut fold);
    fold
}

fn other_machine(fold: &mut Fold) {
    let mut other = machine("cp");
    fields::set_label(&mut other, "cluster.x-k8s.io/control-plane", "");
    fold.make(other);
    settle(fold);
}

fn stage(fold: &Fold) -> String {
    let (status, reason) = condition(fold, "Deleting");
    assert_eq!(status, "True");
    reason
}

fn pod(fold: &mut Fold, name: &str, change: impl FnOnce(&mut Object)) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"nodeName": "n1"},
    });
    let mut pod = Object::try_from(pod).unwrap();
    change(&mut pod);
    fold.create(Some(&cluster_key()), pod).unwrap();
}

/// A Pod that takes a while to go.
fn slow_pod(fold: &mut Fold, name: &str, change: impl FnOnce(&mut Object)) {
    pod(fold, name, |pod| {
        set(pod, "metadata.finalizers", json!(["test/finalizer"]));
        change(pod);
    });
}

fn pod_id(name: &str) -> ObjectId {
    ObjectId { workload: Some(cluster_key()), kind: GroupKind::new("", "Pod"), key: ObjectKey::new("default", name) }
}

fn pods(fold: &Fold) -> Vec<String> {
    let workload = fold.objects.workload(&cluster_key()).unwrap();
    workload.all(&GroupKind::new("", "Pod")).map(|pod| pod.name().to_owned()).collect()
}

fn others(fold: &mut Fold, workload_object: Value) {
    fold.create(Some(&cluster_key()), Object::try_from(workload_object).unwrap()).unwrap();
}

fn rule(name: &str, spec: Value) -> Object {
    core("MachineDrainRule", name, spec)
}

#[test]
fn a_deletion_goes_stage_by_stage() {
    // MA-9.1, MA-9.2, MA-9.10, MA-9.11, MA-9.12, MA-9.13, MA-13.6, DEC-6
    let mut fold = worker();
    pod(&mut fold, "p", |_| {});
    delete(&mut fold);
    assert_eq!((phase(&fold), stage(&fold)), ("Deleting".into(), "WaitingForInfrastructureDeletion".into()));
    assert_eq!(pods(&fold), Vec::<String>::new());
    // MA-10.1
    assert_eq!(node_now(&fold, "n1").unwrap().at("spec.unschedulable"), Some(&json!(true)));
    assert!(!fold.find(&config(), "m1").unwrap().is_being_deleted());
    release(&mut fold, &infrastructure());
    assert_eq!(stage(&fold), "WaitingForBootstrapDeletion");
    assert!(node_now(&fold, "n1").is_some());
    release(&mut fold, &config());
    assert!(node_now(&fold, "n1").is_none() && !is_there(&fold));
    let told: Vec<&str> = fold.events.iter().map(|(_, _, event)| event.reason).collect();
    for reason in ["DrainingNode", "DeletingNode", "Deleted", "DeletionCompleted"] {
        assert!(told.contains(&reason), "{reason}: {told:?}");
    }
}

#[test]
fn the_status_says_deleted_before_the_machine_is_gone() {
    // DEC-6, MA-9.13
    let mut fold = scene();
    fold.make(machine("m1"));
    settle(&mut fold);
    let id = ObjectId::core("Machine", NAMESPACE, "m1");
    fold.delete(&id);
    let mut seen = Vec::new();
    while is_there(&fold) && seen.len() < 9 {
        fold.take(&id);
        seen.extend(is_there(&fold).then(|| phase(&fold)));
    }
    assert_eq!(seen, ["Deleting", "Deleted"]);
}

#[test]
fn a_machine_that_has_nothing_is_deleted_at_once() {
    // MA-3.4, MA-6.2, MA-7.1
    let mut fold = scene();
    fold.make(machine("m1"));
    settle(&mut fold);
    delete(&mut fold);
    assert!(!is_there(&fold));
}

#[test]
fn the_node_is_left_alone_when_it_goes_with_its_cluster() {
    // MA-9.3, MA-9.4
    let plane = |change: fn(&mut Object)| {
        let mut plane = external("controlplane.cluster.x-k8s.io/v1beta2", "TestPlane", "p");
        change(&mut plane);
        plane
    };
    let refer = |cluster: &mut Object| {
        set(
            cluster,
            "spec.controlPlaneRef",
            json!({"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "TestPlane", "name": "p"}),
        );
    };
    for (case, has_other, control_plane, is_handled) in [
        ("a control plane machine stays", true, None, true),
        ("none stays", false, None, false),
        ("the control plane object is missing", true, Some(None), true),
        ("the control plane object stays", true, Some(Some(plane(|_| {}))), true),
        (
            "it is being deleted",
            true,
            Some(Some(plane(|it| set(it, "metadata.deletionTimestamp", json!("2030-01-01T00:00:00Z"))))),
            false,
        ),
        (
            "it is managed elsewhere",
            false,
            Some(Some(plane(|it| set(it, "status.externalManagedControlPlane", json!(true))))),
            true,
        ),
    ] {
        let mut fold = running();
        if has_other {
            other_machine(&mut fold);
        }
        if let Some(control_plane) = control_plane {
            let cluster = fold.core("Cluster", CLUSTER);
            fold.edit(&cluster, refer);
            control_plane.into_iter().for_each(|plane| drop(fold.make(plane)));
        }
        delete(&mut fold);
        release(&mut fold, &infrastructure());
        release(&mut fold, &config());
        assert!(!is_there(&fold), "{case}");
        assert_eq!(node_now(&fold, "n1").is_none(), is_handled, "{case}");
    }
}

#[test]
fn a_cluster_whose_deletion_begins_ends_the_drain() {
    // MA-9.4
    let mut fold = worker();
    slow_pod(&mut fold, "p", |_| {});
    delete(&mut fold);
    assert_eq!(stage(&fold), "DrainingNode");
    let cluster = fold.core("Cluster", CLUSTER);
    fold.edit(&cluster, |cluster| set(cluster, "metadata.finalizers", json!(["cluster.cluster.x-k8s.io"])));
    fold.delete(&ObjectId::of(&cluster));
    settle(&mut fold);
    assert_eq!(stage(&fold), "WaitingForInfrastructureDeletion");
}

#[test]
fn a_node_that_was_not_noted_is_found_by_its_provider_id() {
    // MA-9.3
    let mut fold = scene();
    begin(&mut fold);
    other_machine(&mut fold);
    fold.create(Some(&cluster_key()), node("n1", ID)).unwrap();
    edit(&mut fold, &infrastructure(), "m1", |it| set(it, "spec.providerID", json!(ID)));
    delete(&mut fold);
    assert_eq!(field(&fold, "status.nodeRef.name"), "");
    assert_eq!(node_now(&fold, "n1").unwrap().at("spec.unschedulable"), Some(&json!(true)));
}

#[test]
fn hooks_hold_a_deletion() {
    // MA-9.5, MA-9.9
    let mut fold = worker();
    pod(&mut fold, "p", |_| {});
    let (drain, terminate) =
        ("pre-drain.delete.hook.machine.cluster.x-k8s.io/b", "pre-terminate.delete.hook.machine.cluster.x-k8s.io");
    for name in [drain, "pre-drain.delete.hook.machine.cluster.x-k8s.io/a", terminate] {
        annotate(&mut fold, name, "");
    }
    delete(&mut fold);
    assert_eq!((stage(&fold), pods(&fold).len()), ("WaitingForPreDrainHook".into(), 1));
    assert!(message(&fold, "Deleting").ends_with("/a, pre-drain.delete.hook.machine.cluster.x-k8s.io/b"));
    assert_eq!(field(&fold, "status.deletion.waitForPreDrainHookStartTime"), "2030-01-01T00:00:00Z");
    edit(&mut fold, &GroupKind::core("Machine"), "m1", |it| {
        set(it, "metadata.annotations", json!({terminate: ""}));
    });
    settle(&mut fold);
    assert_eq!((stage(&fold), pods(&fold).len()), ("WaitingForPreTerminateHook".into(), 0));
    assert_eq!(field(&fold, "status.deletion.waitForPreTerminateHookStartTime"), "2030-01-01T00:00:00Z");
    assert!(!fold.find(&infrastructure(), "m1").unwrap().is_being_deleted());
    edit(&mut fold, &GroupKind::core("Machine"), "m1", |it| drop(it.remove("metadata.annotations")));
    settle(&mut fold);
    assert_eq!(stage(&fold), "WaitingForInfrastructureDeletion");
}

#[test]
fn a_drain_can_be_left_out_and_has_a_limit() {
    // MA-9.6, MA-9.7
    for (case, annotation, timeout, seconds, want) in [
        ("no limit", "", 0, 86_400, "DrainingNode"),
        ("within the limit", "", 60, 59, "DrainingNode"),
        ("at the limit", "", 60, 80, "WaitingForInfrastructureDeletion"),
        ("left out", "machine.cluster.x-k8s.io/exclude-node-draining", 0, 0, "WaitingForInfrastructureDeletion"),
    ] {
        let mut fold = worker();
        slow_pod(&mut fold, "p", |_| {});
        edit(&mut fold, &GroupKind::core("Machine"), "m1", |it| {
            set(it, "spec.deletion.nodeDrainTimeoutSeconds", json!(timeout));
            if !annotation.is_empty() {
                fields::set_annotation(it, annotation, "");
            }
        });
        delete(&mut fold);
        pass(&mut fold, seconds);
        assert_eq!(stage(&fold), want, "{case}");
        let begun = field(&fold, "status.deletion.nodeDrainStartTime");
        assert_eq!(begun.is_empty(), case == "left out", "{case}");
    }
}

#[test]
fn infrastructure_that_goes_first_ends_the_drain() {
    // MA-9.6
    let mut fold = worker();
    slow_pod(&mut fold, "p", |_| {});
    fold.delete(&ObjectId::new(infrastructure(), ObjectKey::new(NAMESPACE, "m1")));
    delete(&mut fold);
    assert_eq!(stage(&fold), "WaitingForInfrastructureDeletion");
}

#[test]
fn a_drain_takes_as_long_as_it_is_told() {
    let mut fold = timings(Timings { drain: Duration::from_secs(5), ..Timings::NONE });
    fold = running_in(fold);
    other_machine(&mut fold);
    delete(&mut fold);
    assert_eq!(stage(&fold), "DrainingNode");
    pass(&mut fold, 4);
    assert_eq!(stage(&fold), "DrainingNode");
    pass(&mut fold, 1);
    assert_eq!(stage(&fold), "WaitingForInfrastructureDeletion");
}

#[test]
fn pods_are_drained_or_not() {
    // MA-10.3, MA-10.5, MA-10.7
    let owner = |kind: &str, name: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true}]);
    let mut fold = worker();
    others(
        &mut fold,
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"namespace": "default", "name": "agent"}}),
    );
    pod(&mut fold, "a-daemon", |it| set(it, "metadata.ownerReferences", owner("DaemonSet", "agent")));
    pod(&mut fold, "b-finished-daemon", |it| {
        set(it, "metadata.ownerReferences", owner("DaemonSet", "agent"));
        set(it, "status.phase", json!("Succeeded"));
    });
    pod(&mut fold, "c-orphaned-daemon", |it| set(it, "metadata.ownerReferences", owner("DaemonSet", "gone")));
    pod(&mut fold, "d-mirror", |it| fields::set_annotation(it, "kubernetes.io/config.mirror", "x"));
    pod(&mut fold, "e-skip", |it| fields::set_label(it, "cluster.x-k8s.io/drain", "Skip"));
    pod(&mut fold, "f-wait", |it| fields::set_label(it, "cluster.x-k8s.io/drain", "Wait-Completed"));
    pod(&mut fold, "g-plain", |_| {});
    pod(&mut fold, "h-elsewhere", |it| set(it, "spec.nodeName", json!("n2")));
    delete(&mut fold);
    assert_eq!(stage(&fold), "DrainingNode");
    assert_eq!(pods(&fold), ["a-daemon", "d-mirror", "e-skip", "f-wait", "h-elsewhere"]);
    assert!(message(&fold, "Deleting").contains("* Pod default/f-wait: waiting until they complete"));
    fold.delete(&pod_id("f-wait"));
    settle(&mut fold);
    assert_eq!(stage(&fold), "WaitingForInfrastructureDeletion");
}

#[test]
fn what_is_lost_with_a_pod_is_told() {
    // MA-10.3
    let mut fold = worker();
    pod(&mut fold, "a", |it| set(it, "spec.volumes", json!([{"name": "v", "emptyDir": {}}])));
    pod(&mut fold, "b", |_| {});
    delete(&mut fold);
    let warned: Vec<&str> =
        fold.events.iter().filter(|(_, _, event)| event.is_warning).map(|(_, _, event)| &*event.message).collect();
    assert!(warned.contains(&"Evicting Pod default/a: the data in its emptyDir volumes is lost"), "{warned:?}");
    assert!(warned.contains(&"Evicting Pod default/b: no controller creates it again"), "{warned:?}");
}

#[test]
fn terminating_pods_are_waited_for_and_not_evicted_again() {
    // MA-10.5, MA-10.7, MA-10.8
    let mut fold = worker();
    for name in ["a", "b", "c", "d"] {
        slow_pod(&mut fold, name, |_| {});
    }
    delete(&mut fold);
    pass(&mut fold, 100);
    let line = "* Pods default/a, default/b, default/c, ... (1 more): deletionTimestamp set, but still on the Node";
    assert!(message(&fold, "Deleting").contains(line), "{}", message(&fold, "Deleting"));
    assert_eq!(fold.events.iter().filter(|(_, _, event)| event.reason == "EvictingPod").count(), 4);
}

#[test]
fn pods_that_may_not_be_evicted_yet_are_named_with_the_reason() {
    // MA-10.6, MA-10.8
    let mut fold = worker();
    for number in 0..8 {
        pod(&mut fold, &format!("p{number}"), |_| {});
        let reason = (number > 0).then(|| format!("budget {}", number.max(2)));
        fold.objects.note_eviction(&cluster_key(), &ObjectKey::new("default", format!("p{number}")), reason);
    }
    fold.objects.note_eviction(&cluster_key(), &ObjectKey::new("default", "gone"), Some("x".to_owned()));
    let id = ObjectId::core("Machine", NAMESPACE, "m1");
    fold.delete(&id);
    while !pods(&fold).is_empty() {
        fold.take(&id);
    }
    let seen = message(&fold, "Deleting");
    let lines: Vec<&str> = seen.lines().skip(1).collect();
    let want = [
        "* Pod default/p0: being evicted",
        "* Pods default/p1, default/p2: cannot be evicted yet: budget 2",
        "* Pod default/p3: cannot be evicted yet: budget 3",
        "* Pod default/p4: cannot be evicted yet: budget 4",
        "* Pod default/p5: cannot be evicted yet: budget 5",
        "* Pod default/p6: cannot be evicted yet: budget 6",
    ];
    assert_eq!(lines, want, "at most five reasons");
    let workload = fold.objects.workload(&cluster_key()).unwrap();
    for name in ["p1", "gone"] {
        assert_eq!(
            workload.refusal(&ObjectKey::new("default", name)),
            None,
            "nothing is remembered of Pods that are gone"
        );
    }
}

#[test]
fn pods_of_a_node_that_is_lost_are_not_waited_for() {
    // MA-10.2
    for (ready, want) in [("Unknown", "WaitingForInfrastructureDeletion"), ("False", "DrainingNode")] {
        let mut fold = worker();
        slow_pod(&mut fold, "p", |_| {});
        edit_workload(&mut fold, &node_id("n1"), |node| put(node, "Ready", ready));
        delete(&mut fold);
        assert_eq!(stage(&fold), "DrainingNode", "{ready}");
        pass(&mut fold, 21);
        assert_eq!(stage(&fold), want, "{ready}");
    }
}

#[test]
fn pods_of_a_node_that_is_lost_have_a_second_to_end() {
    // MA-10.2
    let id = ObjectId::core("Machine", NAMESPACE, "m1");
    for (ready, want) in [("Unknown", Some(1)), ("True", None)] {
        let mut fold = worker();
        pod(&mut fold, "p", |_| {});
        edit_workload(&mut fold, &node_id("n1"), |node| put(node, "Ready", ready));
        fold.delete(&id);
        let mut graces = Vec::new();
        for _ in 0..10 {
            let context = Context::new(&fold.objects, &fold.settings, fold.now());
            let (machine, mut step) = (fold.core("Machine", "m1"), Step::default());
            // Kinds that are not listed yet stop the step, which leaves nothing.
            let _ = super::super::step(&context, &machine, &mut step);
            graces.extend(step.writes.into_iter().filter_map(|write| match write {
                Write::Evict { grace, .. } => Some(grace),
                _ => None,
            }));
            fold.take(&id);
        }
        assert_eq!(graces, [want], "{ready}");
    }
}

#[test]
fn rules_decide_about_pods_and_their_order() {
    // MA-10.4, MA-10.5
    let mut fold = worker();
    others(
        &mut fold,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "a"}}}),
    );
    let of = |app: &str| json!([{"selector": {"matchLabels": {"app": app}}, "namespaceSelector": {"matchLabels": {"team": "a"}}}]);
    fold.make(rule(
        "a-other-machines",
        json!({"drain": {"behavior": "Skip"}, "machines": [{"selector": {"matchLabels": {"x": "y"}}}]}),
    ));
    fold.make(rule("b-last", json!({"drain": {"behavior": "Drain", "order": 10}, "pods": of("last")})));
    fold.make(rule("c-skip", json!({"drain": {"behavior": "Skip"}, "pods": of("skip"), "machines": [{"selector": {}, "clusterSelector": {}}]})));
    fold.make(rule("d-other-order", json!({"drain": {"behavior": "Drain", "order": -10}, "pods": of("last")})));
    fold.make(rule("e-wait", json!({"drain": {"behavior": "WaitCompleted"}, "pods": of("wait")})));
    for name in ["last", "skip", "wait"] {
        pod(&mut fold, name, |it| fields::set_label(it, "app", name));
    }
    slow_pod(&mut fold, "first", |_| {});
    delete(&mut fold);
    assert_eq!(pods(&fold), ["first", "last", "skip", "wait"]);
    let text = message(&fold, "Deleting");
    assert!(text.contains("default/first: deletion") && text.contains("default/wait: waiting"), "{text}");
    assert!(text.ends_with("* 1 Pods of order 10 are drained afterwards"), "{text}");
    fold.delete(&pod_id("wait"));
    edit_workload(&mut fold, &pod_id("first"), |it| set(it, "metadata.finalizers", json!([])));
    settle(&mut fold);
    assert_eq!((pods(&fold), stage(&fold)), (vec!["skip".to_owned()], "WaitingForInfrastructureDeletion".into()));
}

#[test]
fn unusable_rules_are_failures_of_the_drain() {
    // MA-10.4, MA-9.7
    for (spec, want) in [
        (
            json!({"drain": {"behavior": "Skip"}, "pods": [{"selector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}]}),
            "invalid selector",
        ),
        (
            json!({"drain": {"behavior": "Skip"}, "pods": [{"namespaceSelector": {}}]}),
            "Namespace default of Pod p is not known",
        ),
        (json!({"drain": {"behavior": "Guess"}}), "unknown behavior"),
    ] {
        let mut fold = worker();
        pod(&mut fold, "p", |_| {});
        fold.make(rule("r", spec));
        delete(&mut fold);
        assert_eq!(stage(&fold), "DrainingNode");
        assert!(failure(&fold).contains(want), "{}", failure(&fold));
    }
}

#[test]
fn volumes_are_detached_before_the_infrastructure_goes() {
    // MA-9.8, MA-11.1, MA-11.2, MA-11.3
    let volume = |name: &str, claim: Value| {
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
        "csi": {"driver": "disk.test", "volumeHandle": format!("handle-{name}")}, "claimRef": claim}})
    };
    let claim = json!({"namespace": "default", "name": "c"});
    let attached =
        |it: &mut Object, name: &str| set(it, "status.volumesAttached", json!([{"name": name, "devicePath": ""}]));
    let csi = "kubernetes.io/csi/disk.test^handle-v";
    for (case, is_known, claim, is_ignored, name, want) in [
        ("claimed", true, claim.clone(), false, csi, "WaitingForVolumeDetach"),
        ("by its name", true, claim.clone(), false, "v", "WaitingForVolumeDetach"),
        ("of a Pod that stays", true, claim, true, csi, "WaitingForInfrastructureDeletion"),
        ("without claim", true, Value::Null, true, csi, "WaitingForVolumeDetach"),
        ("without volume", false, Value::Null, true, csi, "WaitingForVolumeDetach"),
    ] {
        let mut fold = worker();
        if is_known {
            others(&mut fold, volume("v", claim));
        }
        pod(&mut fold, "stays", |it| {
            fields::set_label(it, "cluster.x-k8s.io/drain", "skip");
            let claim = if is_ignored { "c" } else { "d" };
            set(it, "spec.volumes", json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]));
        });
        edit_workload(&mut fold, &node_id("n1"), |it| attached(it, name));
        delete(&mut fold);
        assert_eq!(stage(&fold), want, "{case}");
        edit_workload(&mut fold, &node_id("n1"), |it| drop(it.remove("status.volumesAttached")));
        settle(&mut fold);
        assert_eq!(stage(&fold), "WaitingForInfrastructureDeletion", "{case}");
    }
}

#[test]
fn the_wait_for_volumes_has_its_own_guards() {
    // MA-9.8, MA-11.1, MA-11.2
    let attachment = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "va"},
        "spec": {"nodeName": "n1", "source": {"persistentVolumeName": "v"}}, "status": {"attached": true}});
    let gone = "WaitingForInfrastructureDeletion";
    for (case, annotation, timeout, ready, want) in [
        ("waits", "", 0, "True", "WaitingForVolumeDetach"),
        ("left out", "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach", 0, "True", gone),
        ("too long", "", 30, "True", gone),
        ("lost", "", 0, "Unknown", gone),
    ] {
        let mut fold = worker();
        others(&mut fold, attachment.clone());
        edit_workload(&mut fold, &node_id("n1"), |node| put(node, "Ready", ready));
        edit(&mut fold, &GroupKind::core("Machine"), "m1", |it| {
            set(it, "spec.deletion.nodeVolumeDetachTimeoutSeconds", json!(timeout));
            if !annotation.is_empty() {
                fields::set_annotation(it, annotation, "");
            }
        });
        delete(&mut fold);
        pass(&mut fold, 60);
        assert_eq!(stage(&fold), want, "{case}");
    }
}

#[test]
fn a_node_that_cannot_be_deleted_is_left_behind() {
    // MA-9.12
    for (timeout, is_left) in [(json!(10), true), (json!(0), false), (Value::Null, false)] {
        let mut fold = worker();
        edit(&mut fold, &GroupKind::core("Machine"), "m1", |it| {
            set(it, "spec.deletion.nodeDeletionTimeoutSeconds", timeout.clone());
            fields::set_annotation(it, "machine.cluster.x-k8s.io/exclude-node-draining", "");
            fields::set_annotation(it, "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach", "");
        });
        delete(&mut fold);
        fold.objects.workload_mut(&cluster_key()).is_reachable = false;
        release(&mut fold, &infrastructure());
        release(&mut fold, &config());
        assert_eq!(stage(&fold), "DeletingNode", "{timeout}");
        assert!(failure(&fold).contains("is not connected"));
        pass(&mut fold, 200);
        assert_eq!(is_there(&fold), !is_left, "{timeout}");
    }
}

#[test]
fn a_deletion_that_takes_long_says_so() {
    // MA-13.9
    let mut fold = worker();
    slow_pod(&mut fold, "p", |_| {});
    delete(&mut fold);
    let short = "* Deleting: Machine deletion in progress, stage: DrainingNode";
    assert_eq!((condition(&fold, "Ready"), message(&fold, "Ready")), (("False", "NotReady".into()), short.into()));
    pass(&mut fold, 5 * 60);
    assert!(message(&fold, "Ready").contains("PodDisruptionBudget"), "{}", message(&fold, "Ready"));
    assert!(!message(&fold, "Ready").contains("15 minutes"));
    pass(&mut fold, 10 * 60);
    assert!(message(&fold, "Ready").contains("more than 15 minutes"), "{}", message(&fold, "Ready"));
}

#[test]
fn what_is_gone_does_not_count_while_a_machine_is_deleted() {
    // MA-13.3, MA-13.4, MA-13.5, MA-13.9
    let mut fold = running();
    annotate(&mut fold, "pre-terminate.delete.hook.machine.cluster.x-k8s.io", "");
    delete(&mut fold);
    for kind in [infrastructure(), config()] {
        fold.delete(&ObjectId::new(kind.clone(), ObjectKey::new(NAMESPACE, "m1")));
        release(&mut fold, &kind);
    }
    fold.delete(&node_id("n1"));
    settle(&mut fold);
    for (name, reason) in [
        ("BootstrapConfigReady", "ObjectDeleted"),
        ("InfrastructureReady", "ObjectDeleted"),
        ("NodeHealthy", "NodeDeleted"),
    ] {
        assert_eq!(condition(&fold, name), ("False", reason.into()), "{name}");
    }
    assert_eq!(message(&fold, "Ready").lines().count(), 1, "{}", message(&fold, "Ready"));
}
