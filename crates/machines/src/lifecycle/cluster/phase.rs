//! The phase of a Cluster (MA-27.8, DEC-6). It is derived, and no controller reads it.

use serde_json::json;

use super::context::ClusterContext;
use crate::lifecycle::contract::has_failed;
use crate::lifecycle::fields::set;
use crate::lifecycle::step::Reconciliation;
use model::hub::{Object, paths};

/// Transitions of the phase: from, to, and condition. The phase of a new Cluster is empty.
pub const CLUSTER_TRANSITIONS: &[(&str, &str, &str)] = &[
    ("", "Pending", "neither spec.infrastructureRef nor spec.controlPlaneRef is set"),
    ("", "Provisioning", "one of the references is set"),
    ("", "Provisioned", "the infrastructure is provisioned and the endpoint is valid"),
    ("", "Failed", "a provider has reported a terminal failure"),
    ("", "Deleting", "the Cluster is deleted"),
    ("Pending", "Provisioning", "one of the references is set"),
    ("Pending", "Provisioned", "the infrastructure is provisioned and the endpoint is valid"),
    ("Pending", "Failed", "a provider has reported a terminal failure"),
    ("Pending", "Deleting", "the Cluster is deleted"),
    ("Provisioning", "Provisioned", "the infrastructure is provisioned and the endpoint is valid"),
    ("Provisioning", "Failed", "a provider has reported a terminal failure"),
    ("Provisioning", "Deleting", "the Cluster is deleted"),
    ("Provisioned", "Failed", "a provider has reported a terminal failure"),
    ("Provisioned", "Deleting", "the Cluster is deleted"),
    ("Failed", "Deleting", "the Cluster is deleted"),
];

/// Writes the phase, and emits an event on a change.
pub(super) fn write(ctx: Option<&ClusterContext<'_>>, after: &mut Object, step: &mut Reconciliation) {
    let parts = ctx.into_iter().flat_map(|ctx| [&ctx.infrastructure, &ctx.control_plane].map(|part| (ctx, part)));
    let mut found = parts.filter_map(|(ctx, part)| Some((ctx, part.found.as_ref()?)));
    let phase = compute_phase(after, found.any(|(ctx, part)| has_failed(ctx.context, part)));
    if after.phase() != phase {
        set(after, paths::status::PHASE, json!(phase));
        step.event(phase, format!("The Cluster is now {phase}"));
    }
}

/// The phase: the last of these that holds. A failure is permanent, even if the provider withdraws it.
fn compute_phase(cluster: &Object, has_failed: bool) -> &'static str {
    let is_set = |path: &str| cluster.contract_ref_at(path).is_defined();
    let steps = [
        ("Provisioning", is_set(paths::INFRASTRUCTURE_REF) || is_set(paths::cluster::CONTROL_PLANE_REF)),
        ("Provisioned", cluster.is_infrastructure_provisioned() && cluster.has_control_plane_endpoint()),
        ("Failed", has_failed || cluster.phase() == "Failed"),
        ("Deleting", cluster.is_being_deleted()),
    ];
    steps.into_iter().rfind(|(_, holds)| *holds).map_or("Pending", |(phase, _)| phase)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::lifecycle::testing::core;

    /// A Cluster with some of the facts that determine the phase, one bit each.
    fn cluster(facts: u8) -> Object {
        let mut cluster = core("Cluster", "demo", json!({}));
        let reference = json!({"apiGroup": "g.io", "kind": "FooCluster", "name": "x"});
        let all = [
            ("spec.infrastructureRef", reference),
            (paths::status::INFRASTRUCTURE_PROVISIONED, json!(true)),
            ("spec.controlPlaneEndpoint", json!({"host": "h", "port": 1})),
            ("status.phase", json!("Failed")),
            ("metadata.deletionTimestamp", json!("2030-01-01T00:00:00Z")),
        ];
        for (bit, (path, value)) in all.into_iter().enumerate() {
            if facts & (1 << bit) != 0 {
                set(&mut cluster, path, value);
            }
        }
        cluster
    }

    #[test]
    fn the_last_phase_that_holds_wins() {
        // MA-27.8, DEC-6
        for (facts, want) in [
            (0b00000, "Pending"),
            (0b00001, "Provisioning"),
            (0b00010, "Pending"),
            (0b00011, "Provisioning"),
            (0b00111, "Provisioned"),
            (0b00110, "Provisioned"),
            (0b01111, "Failed"),
            (0b01001, "Failed"),
            (0b11111, "Deleting"),
            (0b10000, "Deleting"),
        ] {
            assert_eq!(compute_phase(&cluster(facts), false), want, "{facts:05b}");
            assert_eq!(
                compute_phase(&cluster(facts & 0b10111), facts & 0b01000 > 0),
                want,
                "{facts:05b}, when it fails"
            );
        }
    }

    #[test]
    fn the_table_has_every_change_of_the_phase() {
        // Facts are only added, and a failure needs a reference.
        let good = |facts: u8| facts & 0b01000 == 0 || facts & 1 == 1;
        let mut seen: BTreeSet<(&str, &str)> =
            (0..32).filter(|to| good(*to)).map(|to| ("", compute_phase(&cluster(to), false))).collect();
        for (from, to) in (0..32).flat_map(|from| (0..32).map(move |to| (from, to))) {
            let (before, after) = (compute_phase(&cluster(from), false), compute_phase(&cluster(to), false));
            if from & to == from && good(from) && good(to) && before != after {
                seen.insert((before, after));
            }
        }
        let listed: BTreeSet<(&str, &str)> = CLUSTER_TRANSITIONS.iter().map(|(from, to, _)| (*from, *to)).collect();
        assert_eq!(seen, listed);
    }
}
