//! The hook that a KubeadmControlPlane removes from its Machines (CT-10.21).

use super::*;
use crate::lifecycle::hooks::{CLEANUP, PRE_TERMINATE_START, PRE_TERMINATE_WAITS};

const OTHER_HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/volumes";

/// A running control plane, whose members take five seconds to leave etcd.
fn running(spec: Value) -> MachineSimulator {
    let mut simulator = up(KUBEADM, Contract::V1Beta2, spec);
    simulator.settings.timings.etcd_removal = Duration::from_secs(5);
    simulator
}

/// Deletes a Machine, and plays its controller up to the hooks.
fn wait_for_hooks(simulator: &mut MachineSimulator, machine: &Object) {
    simulator.delete(&ObjectId::for_object(machine));
    let now = simulator.now();
    simulator.edit(machine, |it| {
        set(it, PRE_TERMINATE_START, fields::stamp(now));
        conditions::put(it, "Deleting", &ConditionState::new(true, PRE_TERMINATE_WAITS, ""), now);
    });
    simulator.settle(1000);
}

fn has_hook(simulator: &MachineSimulator, machine: &Object) -> bool {
    simulator.core("Machine", machine.name()).annotation(CLEANUP).is_some()
}

/// Lets time pass until an object is due.
fn pass(simulator: &mut MachineSimulator) {
    simulator.advance();
    simulator.settle(1000);
}

#[test]
fn hooks_go_one_after_the_other_in_the_order_of_the_deletions() {
    let mut simulator = running(json!({}));
    let all = machines(&simulator);
    let [one, other] = [&all[1], &all[0]];
    assert!(all.iter().all(|machine| has_hook(&simulator, machine)), "new Machines have the hook");
    simulator.edit(one, |it| fields::set_annotation(it, OTHER_HOOK, ""));
    simulator.delete(&ObjectId::for_object(one));
    simulator.settle(1000);
    pass(&mut simulator);
    assert!(has_hook(&simulator, one), "its controller has not come to the hooks");
    wait_for_hooks(&mut simulator, one);
    edit(&mut simulator, KUBEADM, |it| set(it, "spec.rollout.after", json!("2030-01-01T01:00:00Z")));
    simulator.settle(1000);
    pass(&mut simulator);
    wait_for_hooks(&mut simulator, other);
    pass(&mut simulator);
    assert!(has_hook(&simulator, one) && has_hook(&simulator, other), "another hook goes first, and another Machine");
    simulator.edit(one, |it| fields::remove_text(it, "metadata.annotations", OTHER_HOOK));
    simulator.settle(1000);
    assert!(!has_hook(&simulator, one), "its five seconds are over");
    pass(&mut simulator);
    assert!(has_hook(&simulator, other), "one Machine at a time");
    simulator.edit(one, |it| set(it, "metadata.finalizers", json!([])));
    simulator.settle(1000);
    assert!(simulator.objects.get(&ObjectId::for_object(one)).is_none());
    pass(&mut simulator);
    assert!(!has_hook(&simulator, other));
}

#[test]
fn a_hook_goes_after_a_while_and_if_enough_of_the_others_run() {
    type Change = fn(&mut MachineSimulator, &Object, &Object);
    let break_other: Change = |simulator, _, other| {
        simulator.settings.timings.api_server = Duration::from_hours(1);
        let infrastructure = simulator.find(&GroupKind::new(INFRASTRUCTURE, "EmbeddedMachine"), other.name()).unwrap();
        let now = simulator.now();
        simulator.edit(&infrastructure, |it| {
            fields::remove_text(it, "metadata.annotations", "lifecycle.topologist.dev/bootstrapped");
            conditions::put(it, "APIServerProvisioned", &ConditionState::new(false, "Broken", ""), now);
        });
    };
    let forget_node: Change = |simulator, one, _| {
        simulator.edit(one, |it| drop(it.remove("status.nodeRef")));
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
        let mut simulator = running(spec);
        let all = machines(&simulator);
        let (one, other) = (&all[0], all.last().unwrap());
        changes.iter().for_each(|change| change(&mut simulator, one, other));
        let began = seconds(&simulator);
        let end = fields::later(simulator.now(), Duration::from_mins(1));
        wait_for_hooks(&mut simulator, one);
        while has_hook(&simulator, one) && simulator.next_due().is_some_and(|due| due < end) {
            pass(&mut simulator);
        }
        let went = (!has_hook(&simulator, one)).then(|| seconds(&simulator) - began);
        assert_eq!(went, want, "{case}");
    }
}

#[test]
fn a_deleted_control_plane_takes_the_hook_off_all_its_machines() {
    let mut simulator = running(json!({}));
    let id = ObjectId::for_object(&control_plane(&simulator, KUBEADM));
    simulator.delete(&id);
    simulator.settle(1000);
    let all = machines(&simulator);
    assert!(all.len() == 3 && all.iter().all(|machine| machine.is_being_deleted() && !has_hook(&simulator, machine)));
}

#[test]
fn other_control_planes_neither_set_nor_remove_the_hook() {
    let mut simulator = up(OTHER, Contract::V1Beta2, json!({}));
    let machine = machines(&simulator).remove(0);
    assert_eq!(machine.annotation(CLEANUP), None);
    simulator.edit(&machine, |it| fields::set_annotation(it, CLEANUP, ""));
    wait_for_hooks(&mut simulator, &machine);
    assert!(has_hook(&simulator, &machine));
}
