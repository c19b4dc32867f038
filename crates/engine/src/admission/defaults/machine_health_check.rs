//! Defaults of a MachineHealthCheck (MA-28.5).

use serde_json::Value;

use super::edits::PatchBuilder;
use crate::admission::{AdmissionOutcome, AdmissionSettings, ListedRule, Verdict};
use model::hub::{Kind, MachineHealthCheck};
use schema::field::{Findings, RuleId};

/// Default node startup timeout.
const NODE_STARTUP_TIMEOUT_SECONDS: i32 = 600;

const STARTUP: RuleId = "MA-28.5.1";

/// The defaults of this file.
pub(in crate::admission) fn listed_rules() -> impl Iterator<Item = ListedRule> {
    let kind = Some(Kind::MachineHealthCheck);
    [ListedRule { id: STARTUP, name: "node_startup_has_a_timeout", kind }].into_iter()
}

/// The mutating end point for MachineHealthChecks on create and update.
pub(in crate::admission) fn default(check: &MachineHealthCheck, raw: Value, settings: &AdmissionSettings) -> Verdict {
    let mut edits = PatchBuilder::new(raw);
    Findings::without(settings.silenced).run(STARTUP, |_| {
        if check.spec.checks.node_startup_timeout_seconds.is_none() {
            edits.set(&["spec", "checks", "nodeStartupTimeoutSeconds"], NODE_STARTUP_TIMEOUT_SECONDS);
        }
    });
    Verdict { patch: edits.into_patch(), ..Verdict::plain(Kind::MachineHealthCheck, "", AdmissionOutcome::Allowed) }
}
