//! A Machine (MA-28.1), and checks of machine templates.

use super::shared;
use crate::admission::rule::{Rule, rules, run};
use crate::admission::{AdmissionSettings, ListedRule, Verdict};
use golang::version::KubeVersion;
use model::hub::{Kind, Machine, MachineSpec, label, paths};
use schema::field::{Findings, Path, RuleId};

/// A Machine that is created (`old` is `None`) or updated.
struct MachineChange<'a> {
    new: &'a Machine,
    old: Option<&'a Machine>,
    settings: &'a AdmissionSettings,
}

type MachineRule = Rule<fn(&MachineChange<'_>, &mut Findings)>;

const RULES: &[MachineRule] = rules![
    "MA-28.1.4" => bootstrap_is_given,
    "MA-28.1.5" => cluster_name_never_changes,
    "MA-28.1.6" => version_is_one_of_kubernetes,
    "MA-28.1.7" => taints_may_be_set,
];

const CONTROL_PLANE_TAINT: RuleId = "MA-28.1.8";
/// The taint of control plane machines.
const CONTROL_PLANE_TAINT_KEY: &str = "node-role.kubernetes.io/control-plane";

/// The rules of this kind in the order in which they run; other kinds have some of them as well.
pub(in crate::admission) fn listed_rules() -> impl Iterator<Item = ListedRule> {
    let rule = |rule: &'static MachineRule| {
        let kind = (rule.id == "MA-28.1.4").then_some(Kind::Machine);
        ListedRule { id: rule.id, name: rule.name, kind }
    };
    let taint = ListedRule { id: CONTROL_PLANE_TAINT, name: "control_plane_taint_is_for_control_planes", kind: None };
    RULES.iter().map(rule).chain([taint])
}

/// The validating end point for Machines on create and update.
pub(in crate::admission) fn validate(new: &Machine, old: Option<&Machine>, settings: &AdmissionSettings) -> Verdict {
    let mut found = Findings::without(settings.silenced);
    run(RULES, &MachineChange { new, old, settings }, &mut found);
    Verdict::from_findings(Kind::Machine, found)
}

/// A Machine has a source of bootstrap data, except for a Machine of a pool, which has it.
fn bootstrap_is_given(change: &MachineChange<'_>, found: &mut Findings) {
    let bootstrap = &change.new.spec.bootstrap;
    let is_of_pool = change.new.metadata.labels.contains_key(label::MACHINE_POOL_NAME);
    if !is_of_pool && !bootstrap.config_ref.is_defined() && bootstrap.data_secret_name.is_empty() {
        found.required(Path::new(paths::machine::BOOTSTRAP), "set configRef or dataSecretName");
    }
}

fn cluster_name_never_changes(change: &MachineChange<'_>, found: &mut Findings) {
    let old = change.old.map(|old| &*old.spec.cluster_name);
    cluster_name_is_that_of(old, &change.new.spec.cluster_name, found);
}

fn version_is_one_of_kubernetes(change: &MachineChange<'_>, found: &mut Findings) {
    version(&change.new.spec, Path::new(paths::VERSION), found);
}

fn taints_may_be_set(change: &MachineChange<'_>, found: &mut Findings) {
    let is_of_control_plane = change.new.metadata.labels.contains_key(label::CONTROL_PLANE);
    taints(&change.new.spec, is_of_control_plane, &Path::new(paths::TAINTS), change.settings, found);
}

/// The Cluster of an object never changes (MA-28.1.5).
pub(super) fn cluster_name_is_that_of(old: Option<&str>, new: &str, found: &mut Findings) {
    if old.is_some_and(|old| old != new) {
        found.forbidden(Path::new(paths::CLUSTER_NAME), "cannot be changed");
    }
}

/// A version of machines is `v` and a semantic version (MA-28.1.6).
pub(super) fn version(spec: &MachineSpec, path: Path, found: &mut Findings) {
    let version = &spec.version;
    if version.is_empty() {
        return;
    }
    if version.strip_prefix('v').is_none_or(|version| KubeVersion::parse_strict(version).is_err()) {
        found.invalid(path, &**version, "must be a semantic version with v in front, such as v1.33.0");
    }
}

/// Taints of machines may be set (MA-28.1.7), and workers do not take the one of control planes (MA-28.1.8).
pub(super) fn taints(
    spec: &MachineSpec,
    is_of_control_plane: bool,
    path: &Path,
    settings: &AdmissionSettings,
    found: &mut Findings,
) {
    shared::taints(&spec.taints, path, settings, found);
    found.run(CONTROL_PLANE_TAINT, |found| {
        let taken = spec.taints.iter().enumerate().filter(|(_, taint)| taint.key == CONTROL_PLANE_TAINT_KEY);
        for (i, taint) in taken.filter(|_| !is_of_control_plane) {
            let path = path.index(i).child("key");
            found.invalid(path, &*taint.key, "this taint is for machines of control planes");
        }
    });
}
