//! A ClusterClass by itself, and its deletion (CC-V).

use std::collections::{BTreeMap, BTreeSet};

use super::class_change::{ClassChange, control_plane_health_check, machine_deployment};
use super::definitions::{
    rules_are_not_at_the_root_of_arrays, schemas_are_not_nullable, variable_definitions_are_usable,
};
use super::names::naming_templates_make_names;
use super::patches::patches_are_usable;
use super::{definitions, dependents, names, patches, references, shared};
use crate::admission::rule::{Rule, listed, rules, run};
use crate::admission::workers::worker_classes;
use crate::admission::{AdmissionOutcome, AdmissionSettings, ListedRule, Verdict};
use golang::version::{BuildOrder, KubeVersion};
use model::hub::{ClusterClass, Kind, paths};
use model::wire::Reference;
use model::world::World;
use schema::field::{ErrorValue, Findings, Path, RuleId, a_few};
use schema::openapi::{AllowanceUsage, Breach, Violation};

type ClassRule = Rule<fn(&ClassChange<'_>, &mut Findings)>;

/// Values of a v1beta1 object that exceed the limits of v1beta2, in the new and the old object (DEC-44).
#[derive(Debug, Default)]
pub(in crate::admission) struct OversizedValues {
    pub new: Vec<OversizedValue>,
    pub old: Vec<OversizedValue>,
}

/// A text, list or map that is larger than v1beta2 allows.
#[derive(Debug)]
pub(in crate::admission) struct OversizedValue {
    pub violation: Violation,
    /// The number of its characters, elements or members.
    pub size: usize,
}

/// With the gate off, every create and update is forbidden without field errors (ADM-005).
const GATE: RuleId = "CC-V-001";

const RULES: &[ClassRule] = rules![
    "CC-V-002" => template_references_are_complete,
    "DEC-3" => references_stay_in_the_namespace_of_the_class,
    "CC-V-010" => machine_deployment_classes_have_names_of_their_own,
    "CC-V-011" => machine_pool_classes_have_names_of_their_own,
    "CC-V-020" => rollouts_can_proceed,
    "CC-V-030" => control_plane_health_check_is_usable,
    "CC-V-031" => control_plane_health_check_has_machines,
    "CC-V-032" => machine_deployment_health_checks_are_usable,
    "CC-V-040" => naming_templates_make_names,
    "CC-V-050" => taints_may_be_set,
    "CC-V-060" => variable_definitions_are_usable,
    "DEC-23" => schemas_are_not_nullable,
    "DEC-51" => rules_are_not_at_the_root_of_arrays,
    "CC-V-070" => patches_are_usable,
    "CC-V-080" => metadata_is_well_formed,
    "DEC-72" => autoscaler_sizes_are_numbers,
    "CC-V-090" => kubernetes_versions_rise_without_gaps,
];

/// The budget of all parts of a class.
const BUDGET: RuleId = "DEC-44";

const IN_USE: RuleId = "CC-V-140";

/// Maximum number of Clusters in the denial of a deletion.
const NAMED_CLUSTERS: usize = 3;

/// The rules of this kind in the order in which they run.
pub(in crate::admission) fn listed_rules() -> impl Iterator<Item = ListedRule> {
    let single = |id, name| ListedRule { id, name, kind: Some(Kind::ClusterClass) };
    [single(GATE, "classes_are_switched_on")]
        .into_iter()
        .chain(listed(Kind::ClusterClass, RULES))
        .chain(names::listed_rules())
        .chain(definitions::listed_rules())
        .chain(patches::listed_rules())
        .chain(dependents::listed_rules())
        .chain([single(IN_USE, "a_class_in_use_is_not_deleted")])
}

/// A ClusterClass as it was written.
pub(in crate::admission) struct WrittenClass<'a> {
    pub new: &'a ClusterClass,
    pub old: Option<&'a ClusterClass>,
    pub references: &'a [Reference],
    pub sizes: &'a OversizedValues,
}

/// The validating end point for ClusterClasses on create and update.
pub(in crate::admission) fn validate(
    written: WrittenClass<'_>,
    world: &World,
    settings: &AdmissionSettings,
) -> Verdict {
    let WrittenClass { new, old, references, sizes } = written;
    let mut found = Findings::without(settings.silenced);
    let change = ClassChange::new(new, old, references, world, settings);
    found.run(GATE, |found| classes_are_switched_on(&change, found));
    if found.error_count() > 0 {
        let message = found.into_parts().0.iter().map(ToString::to_string).collect();
        return Verdict::plain(
            Kind::ClusterClass,
            "",
            AdmissionOutcome::Forbidden { rule: GATE, message, names_object: false },
        );
    }
    found.run(BUDGET, |found| parts_are_as_small_as_in_v1beta2(sizes, found));
    if found.error_count() > 0 {
        // Other checks are skipped, because they could take long.
        return Verdict::from_findings(Kind::ClusterClass, found);
    }
    run(RULES, &change, &mut found);
    found.run(BUDGET, |found| class_keeps_its_budget(&change, old, found));
    found.run(references::RULE, |found| references_can_be_part_of_a_url(&change, found));
    if let Some(old) = old {
        dependents::validate(&change, old, &mut found);
    }
    Verdict::from_findings(Kind::ClusterClass, found)
}

/// A class in v1beta1 has no text, list or map that is larger than v1beta2 allows, unless the old class had one of at
/// least that size at such a path (DEC-44).
fn parts_are_as_small_as_in_v1beta2(sizes: &OversizedValues, found: &mut Findings) {
    let mut before: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for OversizedValue { violation, size } in &sizes.old {
        before.entry(without_positions(&violation.place)).or_default().push(*size);
    }
    before.values_mut().for_each(|sizes| sizes.sort_unstable());
    for OversizedValue { violation, size } in &sizes.new {
        let path = Path::ROOT.place(violation.place.trim_start_matches('.'));
        let left = before.get_mut(&without_positions(&violation.place));
        let as_large = left.and_then(|left| {
            let at = left.partition_point(|before| before < size);
            (at < left.len()).then(|| left.remove(at))
        });
        if as_large.is_some() {
            found.warn_at(&path, format!("{}, as before; v1beta2 does not allow it", violation.detail));
        } else {
            found.error(violation.kind, path, ErrorValue::NOTHING, violation.detail.clone());
        }
    }
}

/// A path in a class without the indexes of elements, which change when one is inserted.
fn without_positions(place: &str) -> String {
    place.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest)).collect()
}

/// The compiled form of a class stays within a budget (DEC-44).
///
/// A class that exceeded it before may still exceed it: it is stored, unreadable, and may become smaller step by step.
/// In such a class, only changed variables and patches are checked, which have a separate budget and may not take more
/// than the old ones.
fn class_keeps_its_budget(change: &ClassChange<'_>, old: Option<&ClusterClass>, found: &mut Findings) {
    const SMALLER: &str = "make its schemas, patterns and defaults smaller";
    let Some(Breach { path, exceeded }) = change.allowance.borrow().breach().cloned() else { return };
    let before = |old: &&ClusterClass| {
        cost(ClassChange::new(old, None, &[], change.world, change.settings), &mut Findings::default()).is_err()
    };
    let Some(old) = old.filter(before) else {
        return found.invalid(path, "", format!("the ClusterClass {exceeded}; {SMALLER}"));
    };
    let mut wrong = Findings::without(change.settings.silenced);
    let added = cost(change.beside(change.new, old), &mut wrong);
    let removed = cost(change.beside(old, change.new), &mut Findings::default());
    match (added, removed) {
        (Err(breach), _) => {
            let Breach { path, exceeded } = *breach;
            found.invalid(path, "", format!("the changes of the ClusterClass alone: {exceeded}; {SMALLER}"));
        }
        (Ok(added), Ok(removed)) if added.exceeds(removed) => {
            found.invalid(path, "", format!("the ClusterClass {exceeded}, as before, and becomes larger; {SMALLER}"));
        }
        _ => {
            let detail = format!(
                "the ClusterClass {exceeded}; until it is smaller, its Clusters can change neither class, version nor \
                 variables"
            );
            found.warn_at(&path, detail);
        }
    }
    found.add_errors(wrong);
}

/// The usage of the variables and patches of a class.
///
/// # Errors
/// The part that exceeds the budget.
fn cost(change: ClassChange<'_>, found: &mut Findings) -> Result<AllowanceUsage, Box<Breach>> {
    variable_definitions_are_usable(&change, found);
    patches_are_usable(&change, found);
    let allowance = change.allowance.into_inner();
    allowance.breach().map_or(Ok(allowance.taken()), |breach| Err(Box::new(breach.clone())))
}

/// The validating end point for ClusterClasses on delete: a class in use stays (CC-V-140).
pub(crate) fn validate_delete(old: &ClusterClass, world: &World, settings: &AdmissionSettings) -> Verdict {
    let outcome = Findings::without(settings.silenced).run(IN_USE, |_| deletion(old, world));
    Verdict::plain(Kind::ClusterClass, "", outcome.unwrap_or(AdmissionOutcome::Allowed))
}

/// A class in use stays (CC-V-140).
fn deletion(old: &ClusterClass, world: &World) -> AdmissionOutcome {
    let key = old.metadata.key();
    match world.clusters_of(&key) {
        Err(reason) => {
            let message = format!("cannot determine which Clusters use ClusterClass {key}: {reason}");
            AdmissionOutcome::Unknown { rule: IN_USE, message }
        }
        Ok(clusters) if clusters.is_empty() => AdmissionOutcome::Allowed,
        Ok(clusters) => {
            let names: Vec<String> = clusters.iter().map(|cluster| cluster.metadata.key().to_string()).collect();
            let message =
                format!("ClusterClass {key} cannot be deleted because it is used by {}", a_few(&names, NAMED_CLUSTERS));
            AdmissionOutcome::Forbidden { rule: IN_USE, message, names_object: true }
        }
    }
}

/// ClusterClasses are refused while the feature is off (CC-V-001).
fn classes_are_switched_on(change: &ClassChange<'_>, found: &mut Findings) {
    if !change.settings.gates.cluster_topology {
        found.forbidden(Path::new("spec"), "ClusterClasses need the feature gate ClusterTopology");
    }
}

/// Every template reference can be followed (CC-V-002).
fn template_references_are_complete(change: &ClassChange<'_>, found: &mut Findings) {
    let spec = change.spec();
    shared::template_reference(
        &spec.infrastructure.template_ref,
        &Path::new(paths::cluster_class::INFRASTRUCTURE),
        found,
    );
    shared::template_reference(
        &spec.control_plane.template_ref,
        &Path::new(paths::cluster_class::CONTROL_PLANE),
        found,
    );
    if spec.has_control_plane_machines() {
        let path = Path::new(paths::cluster_class::CONTROL_PLANE_MACHINES);
        shared::template_reference(&spec.control_plane.machine_infrastructure.template_ref, &path, found);
    }
    for (i, class) in spec.workers.machine_deployments.iter().enumerate() {
        let path = Path::new(paths::cluster_class::MACHINE_DEPLOYMENTS).index(i).child("template");
        shared::template_reference(&class.bootstrap.template_ref, &path.child("bootstrap"), found);
        shared::template_reference(&class.infrastructure.template_ref, &path.child("infrastructure"), found);
    }
    for (i, class) in spec.workers.machine_pools.iter().enumerate() {
        let path = Path::new(paths::cluster_class::MACHINE_POOLS).index(i).child("template");
        shared::template_reference(&class.bootstrap.template_ref, &path.child("bootstrap"), found);
        shared::template_reference(&class.infrastructure.template_ref, &path.child("infrastructure"), found);
    }
}

/// References of a class can be part of a URL (DEC-45).
fn references_can_be_part_of_a_url(change: &ClassChange<'_>, found: &mut Findings) {
    let old = change.old.map(references::malformed_in_class).unwrap_or_default();
    references::can_be_part_of_a_url(references::malformed_in_class(change.new), &old, found);
}

/// Templates are in the namespace of their class, unlike v1beta1 references may claim (DEC-3).
fn references_stay_in_the_namespace_of_the_class(change: &ClassChange<'_>, found: &mut Findings) {
    let own = &change.new.metadata.namespace;
    for reference in change.references {
        if let Some(namespace) = reference.namespace.as_ref().filter(|namespace| *namespace != own) {
            let detail = format!("must be {own:?}, the namespace of the ClusterClass, or absent");
            found.invalid(reference.path.child("namespace"), &**namespace, detail);
        }
    }
}

/// No two machine deployment classes share a name (CC-V-010).
fn machine_deployment_classes_have_names_of_their_own(change: &ClassChange<'_>, found: &mut Findings) {
    let names = change.spec().workers.machine_deployments.iter().map(|class| &*class.class);
    unique(names, &Path::new(paths::cluster_class::MACHINE_DEPLOYMENTS), found);
}

/// No two machine pool classes share a name (CC-V-011).
fn machine_pool_classes_have_names_of_their_own(change: &ClassChange<'_>, found: &mut Findings) {
    let names = change.spec().workers.machine_pools.iter().map(|class| &*class.class);
    unique(names, &Path::new(paths::cluster_class::MACHINE_POOLS), found);
}

fn unique<'a>(names: impl Iterator<Item = &'a str>, path: &Path, found: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (i, name) in names.enumerate() {
        if !seen.insert(name) {
            found.invalid(path.index(i).child("class"), name, "another class of this list has the same name");
        }
    }
}

/// Rollouts of machine deployment classes have bounds that let them proceed (CC-V-020).
fn rollouts_can_proceed(change: &ClassChange<'_>, found: &mut Findings) {
    for class in &change.spec().workers.machine_deployments {
        shared::rollout_strategy(
            &class.rollout.strategy,
            &machine_deployment(&class.class).child("rollout.strategy"),
            found,
        );
    }
}

/// The control plane health check is usable (CC-V-030).
fn control_plane_health_check_is_usable(change: &ClassChange<'_>, found: &mut Findings) {
    let check = &change.spec().control_plane.health_check;
    if check.is_defined() {
        shared::health_check(check, &control_plane_health_check(), change.settings, found);
    }
}

/// A control plane health check has machines to check (CC-V-031).
fn control_plane_health_check_has_machines(change: &ClassChange<'_>, found: &mut Findings) {
    if change.spec().control_plane.health_check.is_defined() && !change.spec().has_control_plane_machines() {
        found.forbidden(
            control_plane_health_check(),
            "needs spec.controlPlane.machineInfrastructure: without it there are no machines to check",
        );
    }
}

/// Health checks of machine deployment classes are usable (CC-V-032).
fn machine_deployment_health_checks_are_usable(change: &ClassChange<'_>, found: &mut Findings) {
    for class in change.spec().workers.machine_deployments.iter().filter(|class| class.health_check.is_defined()) {
        let path = machine_deployment(&class.class).child("healthCheck");
        shared::health_check(&class.health_check, &path, change.settings, found);
        shared::remediation_in_flight(&class.health_check, &path.child("remediation"), found);
    }
}

/// Taints may be set, with keys that are free (CC-V-050).
fn taints_may_be_set(change: &ClassChange<'_>, found: &mut Findings) {
    let (spec, settings) = (change.spec(), change.settings);
    shared::taints(&spec.control_plane.taints, &Path::new(paths::cluster_class::CONTROL_PLANE_TAINTS), settings, found);
    for class in worker_classes(&spec.workers) {
        shared::taints(class.taints, &class.path().child("taints"), settings, found);
    }
}

/// Labels and annotations of the control plane and of worker classes are well-formed (CC-V-080).
fn metadata_is_well_formed(change: &ClassChange<'_>, found: &mut Findings) {
    let spec = change.spec();
    shared::metadata(&spec.control_plane.metadata, &Path::new(paths::cluster_class::CONTROL_PLANE_METADATA), found);
    for class in worker_classes(&spec.workers) {
        shared::metadata(class.metadata, &class.path().child("template.metadata"), found);
    }
}

/// The sizes of an autoscaler at worker classes can be used (DEC-72).
fn autoscaler_sizes_are_numbers(change: &ClassChange<'_>, found: &mut Findings) {
    let old = change.old.map(|old| &old.spec.workers);
    let before = old.into_iter().flat_map(worker_classes).map(|class| (class.key(), class.metadata));
    let classes = worker_classes(&change.spec().workers);
    let classes = classes.map(|class| (class.key(), class.metadata, move || class.path().child("template.metadata")));
    shared::autoscaler_sizes(classes, before, found);
}

/// Listed versions can be read, rise, and leave out no minor version (CC-V-090).
fn kubernetes_versions_rise_without_gaps(change: &ClassChange<'_>, found: &mut Findings) {
    let mut previous: Option<KubeVersion> = None;
    for (i, text) in change.spec().kubernetes_versions.iter().enumerate() {
        // The established path is in the singular (DEC-4).
        let path = || Path::new("spec.kubernetesVersion").index(i);
        let version = match KubeVersion::parse_tolerant(text) {
            Ok(version) => version,
            Err(error) => {
                found.invalid(path(), &**text, format!("is not a version: {error}"));
                continue;
            }
        };
        if let Some(previous) = &previous {
            if matches!(version.build_order(previous), BuildOrder::Lower | BuildOrder::Same) {
                found.invalid(path(), &**text, format!("must be higher than the entry before it, {previous}"));
            }
            let next = previous.minor().saturating_add(1);
            if version.minor() != previous.minor() && version.minor() != next {
                let detail = format!("must have minor version {} or {next} to follow {previous}", previous.minor());
                found.invalid(path(), &**text, detail);
            }
        }
        previous = Some(version);
    }
}
