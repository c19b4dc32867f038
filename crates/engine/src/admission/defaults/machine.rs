//! Defaults of a Machine, and those that it shares with the kinds that create Machines (MA-28.1).

use serde_json::Value;

use super::edits::PatchBuilder;
use crate::admission::{AdmissionOutcome, AdmissionSettings, ListedRule, Verdict};
use model::hub::machine_defaults::NODE_DELETION_TIMEOUT_SECONDS;
use model::hub::{Kind, Machine, Metadata, label};
use schema::field::{Findings, RuleId};

const CLUSTER_LABEL: RuleId = "MA-28.1.1";
const VERSION: RuleId = "MA-28.1.2";
const DELETION: RuleId = "MA-28.1.3";

/// The defaults of this file in the order in which they are set.
pub(in crate::admission) fn listed_rules() -> impl Iterator<Item = ListedRule> {
    [
        ListedRule { id: CLUSTER_LABEL, name: "label_names_the_cluster", kind: None },
        ListedRule { id: VERSION, name: "version_starts_with_v", kind: None },
        ListedRule { id: DELETION, name: "node_deletion_has_a_timeout", kind: Some(Kind::Machine) },
    ]
    .into_iter()
}

/// The mutating end point for Machines on create and update.
pub(in crate::admission) fn default(machine: &Machine, raw: Value, settings: &AdmissionSettings) -> Verdict {
    let mut found = Findings::without(settings.silenced);
    let (mut edits, spec) = (PatchBuilder::new(raw), &machine.spec);
    label_names_the_cluster(&machine.metadata, &spec.cluster_name, &mut edits, &mut found);
    version_starts_with_v(&spec.version, &["spec", "version"], &mut edits, &mut found);
    found.run(DELETION, |_| {
        if spec.deletion.node_deletion_timeout_seconds.is_none() {
            edits.set(&["spec", "deletion", "nodeDeletionTimeoutSeconds"], NODE_DELETION_TIMEOUT_SECONDS);
        }
    });
    Verdict { patch: edits.into_patch(), ..Verdict::plain(Kind::Machine, "", AdmissionOutcome::Allowed) }
}

/// Objects of a Cluster have its name as a label.
pub(super) fn label_names_the_cluster(
    metadata: &Metadata,
    cluster: &str,
    edits: &mut PatchBuilder,
    found: &mut Findings,
) {
    found.run(CLUSTER_LABEL, |_| {
        if !cluster.is_empty() && metadata.labels.get(label::CLUSTER_NAME) != Some(cluster) {
            edits.set(&["metadata", "labels", label::CLUSTER_NAME], cluster);
        }
    });
}

/// A version starts with a lower-case `v`; one is put in front where it does not.
pub(super) fn version_starts_with_v(version: &str, path: &[&str], edits: &mut PatchBuilder, found: &mut Findings) {
    found.run(VERSION, |_| {
        if !version.is_empty() && !version.starts_with('v') {
            edits.set(path, format!("v{version}"));
        }
    });
}
