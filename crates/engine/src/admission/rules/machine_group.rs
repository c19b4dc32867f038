//! MachineDeployments and MachineSets (MA-28.4).

use super::{machine, shared};
use crate::admission::rule::{Rule, rules, run};
use crate::admission::{AdmissionSettings, ListedRule, Verdict};
use model::hub::naming::{label_value_faults, subdomain_faults};
use model::hub::{Kind, MachineGroup, NameSubject, annotation, name_from, paths};
use schema::field::{Findings, Path};

/// A group that is created (`old` is `None`) or updated.
struct MachineGroupChange<'a> {
    new: &'a MachineGroup,
    old: Option<&'a MachineGroup>,
    settings: &'a AdmissionSettings,
}

type GroupRule = Rule<fn(&MachineGroupChange<'_>, &mut Findings)>;

/// Rules that Machines have as well are listed there.
const OF_MACHINES: &[GroupRule] = rules![
    "MA-28.1.5" => cluster_name_never_changes,
    "MA-28.1.6" => version_is_one_of_kubernetes,
    "MA-28.1.7" => taints_may_be_set,
];

const RULES: &[GroupRule] = rules![
    "MA-28.4.1" => selector_selects_the_template,
    "MA-28.4.2" => clusters_are_the_same,
    "MA-28.4.3" => machines_can_be_named,
    "MA-28.4.4" => metadata_is_well_formed,
    "MA-28.4.5" => preflight_checks_are_known,
];

const OF_DEPLOYMENTS: &[GroupRule] = rules![
    "MA-28.4.6" => name_is_a_label_value,
    "MA-28.4.7" => strategy_is_usable,
];

/// Preflight checks that may be skipped before a machine is created (MA-17.6).
const PREFLIGHT_CHECKS: [&str; 5] =
    ["All", "ControlPlaneIsStable", "ControlPlaneVersionSkew", "KubeadmVersionSkew", "KubernetesVersionSkew"];

/// Placeholder for the random part of a name.
const RANDOM: &str = "bcdfg";

/// The rules of this file in the order in which they run.
pub(in crate::admission) fn listed_rules() -> impl Iterator<Item = ListedRule> {
    let of_both = RULES.iter().map(|rule| ListedRule { id: rule.id, name: rule.name, kind: None });
    let kind = Some(Kind::MachineDeployment);
    of_both.chain(OF_DEPLOYMENTS.iter().map(move |rule| ListedRule { id: rule.id, name: rule.name, kind }))
}

/// The validating end point for MachineDeployments and MachineSets on create and update.
pub(in crate::admission) fn validate(
    kind: Kind,
    new: &MachineGroup,
    old: Option<&MachineGroup>,
    settings: &AdmissionSettings,
) -> Verdict {
    let mut found = Findings::without(settings.silenced);
    let change = MachineGroupChange { new, old, settings };
    run(OF_MACHINES, &change, &mut found);
    run(RULES, &change, &mut found);
    if kind == Kind::MachineDeployment {
        run(OF_DEPLOYMENTS, &change, &mut found);
    }
    Verdict::from_findings(kind, found)
}

fn cluster_name_never_changes(change: &MachineGroupChange<'_>, found: &mut Findings) {
    let old = change.old.map(|old| &*old.spec.cluster_name);
    machine::cluster_name_is_that_of(old, &change.new.spec.cluster_name, found);
}

fn version_is_one_of_kubernetes(change: &MachineGroupChange<'_>, found: &mut Findings) {
    machine::version(&change.new.spec.template.spec, Path::new(paths::worker::VERSION), found);
}

/// Machines of groups are workers.
fn taints_may_be_set(change: &MachineGroupChange<'_>, found: &mut Findings) {
    let path = Path::new(paths::worker::TAINTS);
    machine::taints(&change.new.spec.template.spec, false, &path, change.settings, found);
}

/// A group selects the machines that it creates, but not all machines.
fn selector_selects_the_template(change: &MachineGroupChange<'_>, found: &mut Findings) {
    let spec = &change.new.spec;
    let path = Path::new(paths::worker::SELECTOR);
    if spec.selector.is_empty() {
        return found.required(path, "no default selector is set for an object without a name; set matchLabels");
    }
    match spec.selector.matches(&spec.template.metadata.labels) {
        Ok(true) => {}
        Ok(false) => {
            let labels: serde_json::Value = spec.template.metadata.labels.iter().collect();
            found.invalid(
                Path::new(paths::worker::MACHINE_LABELS),
                labels,
                "must be labels that spec.selector selects",
            );
        }
        Err(reason) => found.invalid(path.child("matchExpressions"), serde_json::Value::Null, reason),
    }
}

/// The machines of a group are of the Cluster of the group.
fn clusters_are_the_same(change: &MachineGroupChange<'_>, found: &mut Findings) {
    let (own, of_machines) = (&change.new.spec.cluster_name, &change.new.spec.template.spec.cluster_name);
    if own != of_machines {
        let path = Path::new(paths::worker::MACHINE_CLUSTER_NAME);
        found.invalid(path, &**of_machines, format!("must be {own:?}, as in spec.clusterName"));
    }
}

/// A naming template generates a unique and valid name for each machine (MA-15.9).
fn machines_can_be_named(change: &MachineGroupChange<'_>, found: &mut Findings) {
    let template = &*change.new.spec.machine_naming.template;
    if template.is_empty() {
        return;
    }
    let path = Path::new(paths::MACHINE_NAMING);
    if !has_random_part(template) {
        found.invalid(path.clone(), template, "must contain {{ .random }}, which makes machine names unique");
    }
    match name_from(template, "cluster", NameSubject::Machine("machineset"), || RANDOM.to_owned()) {
        Err(reason) => {
            let known = "this template can use .cluster.name, .machineSet.name and .random";
            found.invalid(path, template, format!("{reason}; {known}"));
        }
        Ok(name) => {
            for fault in subdomain_faults(&name) {
                found.invalid(path.clone(), template, format!("gives a name such as {name:?}, which {fault}"));
            }
        }
    }
}

/// Whether one of the actions of a template is `.random`.
fn has_random_part(template: &str) -> bool {
    let actions = template.split("{{").skip(1).filter_map(|rest| rest.split_once("}}"));
    actions.into_iter().any(|(action, _)| action.trim_matches(['-', ' ', '\t', '\n']) == ".random")
}

/// Labels and annotations of the object and of its machines are well-formed.
fn metadata_is_well_formed(change: &MachineGroupChange<'_>, found: &mut Findings) {
    let spec = &change.new.spec;
    shared::metadata(&spec.template.metadata, &Path::new(paths::worker::MACHINE_METADATA), found);
}

/// Skipped checks are known checks (MA-17.6).
fn preflight_checks_are_known(change: &MachineGroupChange<'_>, found: &mut Findings) {
    let Some(list) = change.new.metadata.annotations.get(annotation::SKIP_PREFLIGHT_CHECKS) else { return };
    let unknown = list.split(',').map(str::trim).filter(|name| !name.is_empty() && !PREFLIGHT_CHECKS.contains(name));
    for name in unknown {
        let path = Path::new(paths::metadata::ANNOTATIONS).key(annotation::SKIP_PREFLIGHT_CHECKS);
        found.invalid(path, name, format!("is not a preflight check; known checks: {}", PREFLIGHT_CHECKS.join(", ")));
    }
}

/// The name of a deployment is the value of a label of its machines.
fn name_is_a_label_value(change: &MachineGroupChange<'_>, found: &mut Findings) {
    let name = &change.new.metadata.name;
    for fault in label_value_faults(name) {
        let detail = format!("the name of a MachineDeployment is a label value, which {fault}");
        found.invalid(Path::new(paths::metadata::NAME), &**name, detail);
    }
}

/// A rolling update has bounds that let it proceed; percentages that round to zero do not.
fn strategy_is_usable(change: &MachineGroupChange<'_>, found: &mut Findings) {
    shared::rollout_strategy(
        &change.new.spec.rollout.strategy,
        &Path::new(paths::worker::ROLLOUT_STRATEGY_SETTINGS),
        found,
    );
}
