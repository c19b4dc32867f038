//! Phases along generated sequences of events.

use super::*;
use crate::lifecycle::machine::{Phase, TRANSITIONS};

/// Numbers that follow from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Something that happens around a Machine.
fn happen(fold: &mut Fold, what: u64) {
    let external = |fold: &mut Fold, kind: &GroupKind, path: &str, value: Value| {
        if fold.find(kind, "m1").is_some() {
            edit(fold, kind, "m1", |object| set(object, path, value));
        }
    };
    match what {
        0 => external(
            fold,
            &config(),
            "status",
            json!({"dataSecretName": "s", "initialization": {"dataSecretCreated": true}}),
        ),
        1 => external(fold, &infrastructure(), "status.ready", json!(true)),
        2 => external(fold, &infrastructure(), "spec.providerID", json!(ID)),
        3 => drop(fold.create(Some(&cluster_key()), node("n1", ID))),
        4 | 5 if node_now(fold, "n1").is_some() => {
            edit_workload(fold, &node_id("n1"), |node| put(node, "Ready", if what == 4 { "True" } else { "False" }));
        }
        6 => fold.delete(&node_id("n1")),
        7 => external(fold, &infrastructure(), "status.failureMessage", json!("broken")),
        8 => fold.delete(&ObjectId::core("Machine", NAMESPACE, "m1")),
        9 => external(fold, &infrastructure(), "metadata.finalizers", json!([])),
        10 => external(fold, &config(), "metadata.finalizers", json!([])),
        _ => fold.objects.workload_mut(&cluster_key()).is_reachable = what.is_multiple_of(2),
    }
}

#[test]
fn phases_change_along_the_table_alone() {
    // MA-3.2, DEC-6
    let mut seen = std::collections::BTreeSet::new();
    let id = ObjectId::core("Machine", NAMESPACE, "m1");
    for seed in 0..30 {
        let mut numbers = Numbers(seed);
        let mut fold = scene();
        fold.make(external(INFRASTRUCTURE, "TestMachine", "m1"));
        // Failures are part of this contract alone.
        fold.objects.set_listed(&infrastructure(), Some(Contract::V1Beta1));
        fold.make(external(BOOTSTRAP, "TestConfig", "m1"));
        fold.make(machine("m1"));
        let mut before = None;
        for _ in 0..60 {
            // Failures and deletions are rarer than the rest.
            let what = numbers.below(40);
            happen(&mut fold, if what > 12 { numbers.below(7) } else { what });
            for _ in 0..numbers.below(4) {
                fold.take(&id);
                let now = if is_there(&fold) { Phase::read(&phase(&fold)) } else { None };
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
