//! Version changes of a topology (UPG). One minor version at a time is the
//! [version skew policy](https://kubernetes.io/releases/version-skew-policy/) of Kubernetes.

use super::topology_change::{ClassifiedChange, version_path};
use super::upgrade::{self, Upgrade};
use crate::admission::ListedRule;
use crate::admission::rule::{Rule, listed, rules};
use golang::version::KubeVersion;
use model::hub::{Cluster, Kind, annotation};
use schema::field::{Findings, Path, RuleId};

/// A change of a topology's version.
struct VersionChange<'a> {
    change: &'a ClassifiedChange<'a>,
    from: &'a KubeVersion,
    to: &'a KubeVersion,
}

type VersionRule = Rule<fn(&VersionChange<'_>, &mut Findings)>;

const PARSES: RuleId = "UPG-001";
const SWITCHED_OFF: RuleId = "UPG-003";

/// The first of these that fails ends the version rules (UPG-002).
const STEPS: &[VersionRule] = rules![
    "UPG-005" => version_never_goes_back,
    "UPG-006" => minor_versions_are_not_skipped,
    "UPG-007" => previous_upgrade_is_finished,
];

const REMARKS: &[VersionRule] = rules!["DEC-28" => prereleases_do_not_go_back_unnoticed];

/// The rules of this file in the order in which they run.
pub(super) fn listed_rules() -> impl Iterator<Item = ListedRule> {
    let cluster = Some(Kind::Cluster);
    [
        ListedRule { id: PARSES, name: "versions_can_be_compared", kind: cluster },
        ListedRule { id: SWITCHED_OFF, name: "version_check_is_switched_on", kind: cluster },
    ]
    .into_iter()
    .chain(listed(Kind::Cluster, STEPS))
    .chain(upgrade::listed_rules())
    .chain(listed(Kind::Cluster, REMARKS))
}

/// Validates a version change, in the order of the rules. `not_checked` gets rules about the running cluster that
/// cannot be checked.
///
/// With a version list in the class any listed version that is no decrease may be the target, and with a plan extension
/// any version that is no decrease: the controller upgrades through the intermediate versions (UPG-018).
pub(super) fn validate(
    change: &ClassifiedChange<'_>,
    old: &Cluster,
    found: &mut Findings,
    not_checked: &mut Vec<RuleId>,
) {
    let to = compared(&change.change.topology.version, found);
    let from = compared(&old.spec.topology.version, found);
    let is_switched_off = found.run(SWITCHED_OFF, |found| switched_off(change.change.new, found));
    if is_switched_off == Some(true) || from == to {
        // UPG-004: the same version in another spelling is no change.
        return;
    }
    let change = VersionChange { change, from: &from, to: &to };
    for step in STEPS {
        let before = found.error_count();
        found.run(step.id, |found| (step.check)(&change, found));
        if found.error_count() > before {
            return;
        }
    }
    let (world, class) = (change.change.change.world, change.change.class);
    let upgrade = Upgrade { world, old, class, from: &from, to: &change.change.change.topology.version };
    let before = found.error_count();
    upgrade::validate(&upgrade, found, not_checked);
    if found.error_count() > before {
        return;
    }
    for remark in REMARKS {
        found.run(remark.id, |found| (remark.check)(&change, found));
    }
}

/// A version for comparisons; one that cannot be read is reported and counts as 0.0.0 (UPG-001).
fn compared(text: &str, found: &mut Findings) -> KubeVersion {
    KubeVersion::parse_tolerant(text).unwrap_or_else(|error| {
        found.run(PARSES, |found| found.invalid(version_path(), text, format!("cannot be compared: {error}")));
        KubeVersion::ZERO
    })
}

/// The annotation that switches version checks off is effective, with a warning each time (UPG-003).
fn switched_off(new: &Cluster, found: &mut Findings) -> bool {
    let is_off = new.annotation(annotation::DISABLE_VERSION_CHECK).is_some();
    if is_off {
        let name = annotation::DISABLE_VERSION_CHECK;
        let text = format!("version changes of this Cluster are not checked because of the annotation {name}");
        found.warn_about(Path::new("metadata.annotations").key(name), text);
    }
    is_off
}

/// A topology keeps its release or raises it; prereleases and builds do not count (UPG-005).
fn version_never_goes_back(change: &VersionChange<'_>, found: &mut Findings) {
    let unknown = |version: &KubeVersion| version.precedence(&KubeVersion::ZERO).is_eq();
    if !unknown(change.from) && !unknown(change.to) && change.to.release_order(change.from).is_lt() {
        refuse(change, format!("is lower than the current version {}", change.from), found);
    }
}

/// Without a list of versions or an upgrade plan, a topology moves by at most one minor version (UPG-006, UPG-018).
fn minor_versions_are_not_skipped(change: &VersionChange<'_>, found: &mut Findings) {
    let class = &change.change.class.spec;
    if !class.kubernetes_versions.is_empty() || !class.upgrade.external.generate_upgrade_plan_extension.is_empty() {
        return;
    }
    let next = change.from.minor().saturating_add(1);
    let limit = KubeVersion::new(change.from.major(), next.saturating_add(1), 0);
    if change.to.release_order(&limit).is_ge() {
        refuse(
            change,
            format!(
                "is more than one minor version above {}: go to a v{}.{next} version first",
                change.from,
                change.from.major()
            ),
            found,
        );
    }
}

/// An upgrade starts when no hook of the one before blocks (UPG-007).
///
/// The text begins with that of Cluster API, which clients look for.
fn previous_upgrade_is_finished(change: &VersionChange<'_>, found: &mut Findings) {
    let pending = change.change.change.new.annotation(annotation::PENDING_HOOKS).unwrap_or_default();
    if pending.split(',').any(|hook| hook == "AfterClusterUpgrade") {
        let detail = "version cannot be changed when the \"AfterClusterUpgrade\" hook is still blocking: the message \
                      of the condition TopologyReconciled says what the previous upgrade waits for";
        refuse(change, detail.to_owned(), found);
    }
}

/// A change from a release to one of its prereleases is allowed with a warning (DEC-28).
fn prereleases_do_not_go_back_unnoticed(change: &VersionChange<'_>, found: &mut Findings) {
    if change.to.is_prerelease() && change.to.precedence(change.from).is_lt() {
        let text = format!(
            "{} is an earlier version than the current {}: only prereleases differ, so it is allowed",
            change.to, change.from
        );
        found.warn_about(version_path(), text);
    }
}

fn refuse(change: &VersionChange<'_>, detail: String, found: &mut Findings) {
    found.invalid(version_path(), &*change.change.change.topology.version, detail);
}
