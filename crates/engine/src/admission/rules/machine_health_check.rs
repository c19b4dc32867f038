//! A MachineHealthCheck (MA-28.5).

use super::{machine, references, shared};
use crate::admission::rule::{Rule, rules, run};
use crate::admission::{AdmissionSettings, ListedRule, Verdict};
use model::hub::{HealthCheck, Kind, MachineHealthCheck};
use schema::field::{Findings, Path};

/// A health check that is created (`old` is `None`) or updated.
struct HealthCheckChange<'a> {
    new: &'a MachineHealthCheck,
    old: Option<&'a MachineHealthCheck>,
    settings: &'a AdmissionSettings,
}

type CheckRule = Rule<fn(&HealthCheckChange<'_>, &mut Findings)>;

/// That Machines have as well.
const OF_MACHINES: &[CheckRule] = rules!["MA-28.1.5" => cluster_name_never_changes];

const RULES: &[CheckRule] = rules!["MA-28.5.2" => checks_are_usable];

/// The rules of this file in the order in which they run.
pub(in crate::admission) fn listed_rules() -> impl Iterator<Item = ListedRule> {
    let kind = Some(Kind::MachineHealthCheck);
    RULES.iter().map(move |rule| ListedRule { id: rule.id, name: rule.name, kind })
}

/// The validating end point for MachineHealthChecks on create and update.
pub(in crate::admission) fn validate(
    new: &MachineHealthCheck,
    old: Option<&MachineHealthCheck>,
    settings: &AdmissionSettings,
) -> Verdict {
    let mut found = Findings::without(settings.silenced);
    let change = HealthCheckChange { new, old, settings };
    run(OF_MACHINES, &change, &mut found);
    run(RULES, &change, &mut found);
    found.run(references::RULE, |found| reference_can_be_part_of_a_url(&change, found));
    Verdict::from_findings(Kind::MachineHealthCheck, found)
}

fn cluster_name_never_changes(change: &HealthCheckChange<'_>, found: &mut Findings) {
    let old = change.old.map(|old| &*old.spec.cluster_name);
    machine::cluster_name_is_that_of(old, &change.new.spec.cluster_name, found);
}

/// The reference to the remediation template can be part of a URL (DEC-45).
fn reference_can_be_part_of_a_url(change: &HealthCheckChange<'_>, found: &mut Findings) {
    let old = change.old.map(references::malformed_in_health_check).unwrap_or_default();
    references::can_be_part_of_a_url(references::malformed_in_health_check(change.new), &old, found);
}

/// A startup timeout is long enough or switched off, and the trigger is a number of machines.
fn checks_are_usable(change: &HealthCheckChange<'_>, found: &mut Findings) {
    let spec = &change.new.spec;
    let check = HealthCheck { enabled: None, checks: spec.checks.clone(), remediation: spec.remediation.clone() };
    shared::health_check(&check, &Path::new("spec"), change.settings, found);
}
