//! The hook that a KubeadmControlPlane removes from its Machines (CT-10.21).

use super::*;
use crate::lifecycle::hooks::{CLEANUP, PRE_TERMINATE_START, PRE_TERMINATE_WAITS};

const OTHER_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/volumes";

/// A running control plane, whose members take five seconds to leave etcd from now on.
fn running(spec: Value) -> Fold {
    let mut fold = up(KUBEADM, Contract::V1Beta2, spec);
    fold.settings.timings.etcd_removal = Duration::from_secs(5);
    fold
}

/// Deletes a Machine; its controller, which is not there, has come to the hooks.
fn wait_for_hooks(fold: &mut Fold, machine: &Object) {
    fold.delete(&ObjectId::of(machine));
    let now = fold.now();
    fold.edit(machine, |it| {
        set(it, PRE_TERMINATE_START, fields::stamp(now));
        conditions::put(it, "Deleting", &Condition::new(true, PRE_TERMINATE_WAITS, ""), now);
    });
    fold.settle(1000);
}

fn has_hook(fold: &Fold, machine: &Object) -> bool {
    fold.core("Machine", machine.name()).annotation(CLEANUP).is_some()
}

/// Lets the time pass until something is due.
fn pass(fold: &mut Fold) {
    fold.advance();
    fold.settle(1000);
}

#[test]
fn hooks_go_one_after_the_other_in_the_order_of_the_deletions() {
    let mut fold = running(json!({}));
    let all = machines(&fold);
    let [one, other] = [&all[1], &all[0]];
    assert!(all.iter().all(|machine| has_hook(&fold, machine)), "new Machines have the hook");
    fold.edit(one, |it| fields::set_annotation(it, OTHER_HOOK, ""));
    fold.delete(&ObjectId::of(one));
    fold.settle(1000);
    pass(&mut fold);
    assert!(has_hook(&fold, one), "its controller has not come to the hooks");
    wait_for_hooks(&mut fold, one);
    edit(&mut fold, KUBEADM, |it| set(it, "spec.rollout.after", json!("2030-01-01T01:00:00Z")));
    fold.settle(1000);
    pass(&mut fold);
    wait_for_hooks(&mut fold, other);
    pass(&mut fold);
    assert!(has_hook(&fold, one) && has_hook(&fold, other), "another hook goes first, and another Machine");
    fold.edit(one, |it| fields::remove_text(it, "metadata.annotations", OTHER_HOOK));
    fold.settle(1000);
    assert!(!has_hook(&fold, one), "its five seconds are over");
    pass(&mut fold);
    assert!(has_hook(&fold, other), "one Machine at a time");
    fold.edit(one, |it| set(it, "metadata.finalizers", json!([])));
    fold.settle(1000);
    assert!(fold.objects.get(&ObjectId::of(one)).is_none());
    pass(&mut fold);
    assert!(!has_hook(&fold, other));
}

#[test]
fn a_hook_goes_after_a_while_and_if_enough_of_the_others_run() {
    type Change = fn(&mut Fold, &Object, &Object);
    let break_other: Change = |fold, _, other| {
        fold.settings.timings.api_server = Duration::from_hours(1);
        let infrastructure = fold.find(&GroupKind::new(INFRASTRUCTURE, "EmbeddedMachine"), other.name()).unwrap();
        let now = fold.now();
        fold.edit(&infrastructure, |it| {
            fields::remove_text(it, "metadata.annotations", "lifecycle.topologist.dev/bootstrapped");
            conditions::put(it, "APIServerProvisioned", &Condition::new(false, "Broken", ""), now);
        });
    };
    let forget_node: Change = |fold, one, _| {
        fold.edit(one, |it| drop(it.remove("status.nodeRef")));
    };
    let external = json!({"kubeadmConfigSpec": {"clusterConfiguration": {"etcd": {"external": {"endpoints": ["e"]}}}}});
    let cases: [(&str, Value, &[Change], Option<i64>); 6] = [
        ("all others run", json!({}), &[], Some(5)),
        ("one of two others runs", json!({}), &[break_other], None),
        ("three of four others run", json!({"replicas": 5}), &[break_other], Some(5)),
        ("etcd is elsewhere", external, &[break_other], Some(5)),
        ("it has no Node, and so no member", json!({}), &[break_other, forget_node], Some(5)),
        ("it is the last Machine", json!({"replicas": 1}), &[], Some(0)),
    ];
    for (case, spec, changes, want) in cases {
        let mut fold = running(spec);
        let all = machines(&fold);
        let (one, other) = (&all[0], all.last().unwrap());
        changes.iter().for_each(|change| change(&mut fold, one, other));
        let began = seconds(&fold);
        let end = fields::later(fold.now(), Duration::from_mins(1));
        wait_for_hooks(&mut fold, one);
        while has_hook(&fold, one) && fold.next_due().is_some_and(|due| due < end) {
            pass(&mut fold);
        }
        let went = (!has_hook(&fold, one)).then(|| seconds(&fold) - began);
        assert_eq!(went, want, "{case}");
    }
}

#[test]
fn a_deleted_control_plane_takes_the_hook_off_all_its_machines() {
    let mut fold = running(json!({}));
    let id = ObjectId::of(&control_plane(&fold, KUBEADM));
    fold.delete(&id);
    fold.settle(1000);
    let all = machines(&fold);
    assert!(all.len() == 3 && all.iter().all(|machine| machine.is_being_deleted() && !has_hook(&fold, machine)));
}

#[test]
fn other_control_planes_neither_set_nor_remove_the_hook() {
    let mut fold = up(OTHER, Contract::V1Beta2, json!({}));
    let machine = machines(&fold).remove(0);
    assert_eq!(machine.annotation(CLEANUP), None);
    fold.edit(&machine, |it| fields::set_annotation(it, CLEANUP, ""));
    wait_for_hooks(&mut fold, &machine);
    assert!(has_hook(&fold, &machine));
}
