//! Phases in generated sequences of events.

use super::*;
use crate::lifecycle::machine::{MachinePhase, TRANSITIONS};

/// Pseudo-random numbers from a seed.
struct SeededNumbers(u64);

impl SeededNumbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Applies one event around a Machine.
fn happen(simulator: &mut MachineSimulator, what: u64) {
    let external = |simulator: &mut MachineSimulator, kind: &GroupKind, path: &str, value: Value| {
        if simulator.find(kind, "m1").is_some() {
            edit(simulator, kind, "m1", |object| set(object, path, value));
        }
    };
    match what {
        0 => external(
            simulator,
            &config(),
            "status",
            json!({"dataSecretName": "s", "initialization": {"dataSecretCreated": true}}),
        ),
        1 => external(simulator, &infrastructure(), "status.ready", json!(true)),
        2 => external(simulator, &infrastructure(), "spec.providerID", json!(ID)),
        3 => drop(simulator.create(Some(&cluster_key()), node("n1", ID))),
        4 | 5 if node_now(simulator, "n1").is_some() => {
            edit_workload(simulator, &node_id("n1"), |node| {
                put(node, "Ready", if what == 4 { "True" } else { "False" });
            });
        }
        6 => simulator.delete(&node_id("n1")),
        7 => external(simulator, &infrastructure(), "status.failureMessage", json!("broken")),
        8 => simulator.delete(&ObjectId::core("Machine", NAMESPACE, "m1")),
        9 => external(simulator, &infrastructure(), "metadata.finalizers", json!([])),
        10 => external(simulator, &config(), "metadata.finalizers", json!([])),
        _ => simulator.objects.workload_mut(&cluster_key()).is_reachable = what.is_multiple_of(2),
    }
}

#[test]
fn phases_change_along_the_table_alone() {
    // MA-3.2, DEC-6
    let mut seen = std::collections::BTreeSet::new();
    let id = ObjectId::core("Machine", NAMESPACE, "m1");
    for seed in 0..30 {
        let mut numbers = SeededNumbers(seed);
        let mut simulator = setup();
        simulator.make(external(INFRASTRUCTURE, "TestMachine", "m1"));
        // Only this contract has terminal failures.
        simulator.objects.set_listed(&infrastructure(), Some(Contract::V1Beta1));
        simulator.make(external(BOOTSTRAP, "TestConfig", "m1"));
        simulator.make(machine("m1"));
        let mut before = None;
        for _ in 0..60 {
            // Failures and deletions are rarer than other events.
            let what = numbers.below(40);
            happen(&mut simulator, if what > 12 { numbers.below(7) } else { what });
            for _ in 0..numbers.below(4) {
                simulator.take(&id);
                let now = if is_there(&simulator) { MachinePhase::parse(&phase(&simulator)) } else { None };
                let (Some(from), Some(to)) = (before, now) else {
                    before = now;
                    continue;
                };
                if from != to {
                    assert!(TRANSITIONS.iter().any(|(a, b, _)| (*a, *b) == (from, to)), "seed {seed}: {from} to {to}");
                    seen.insert((from, to));
                }
                before = now;
            }
        }
    }
    let missing: Vec<_> = TRANSITIONS.iter().filter(|(from, to, _)| !seen.contains(&(*from, *to))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
