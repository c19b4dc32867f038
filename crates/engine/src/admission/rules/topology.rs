//! The topology of a Cluster: by itself, and against its class (CL-V).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::topology_change::{ClassifiedChange, TopologyChange, class, version_path};
use super::{deprecation, generated_names, rebase, shared, version};
use crate::admission::ListedRule;
use crate::admission::lists::lists;
use crate::admission::rule::{Rule, listed, rules, run};
use crate::admission::workers::{worker_classes, worker_sets};
use golang::version::KubeVersion;
use model::hub::naming::decimal_integer;
use model::hub::{Cluster, Kind, ObjectKey, Topology, VariableValue, annotation, paths};
use model::world::{Class, Found, is_settled};
use schema::field::{Findings, Path, RuleId, a_few};

type TopologyRule = Rule<fn(&TopologyChange<'_>, &mut Findings)>;
type ClassifiedRule = Rule<fn(&ClassifiedChange<'_>, &mut Findings)>;
type LookupRule = Rule<fn(&ClassLookup<'_>, &mut Findings)>;

/// Without the gate, no other rule runs.
const GATE: &[TopologyRule] = rules!["CL-V-010" => topologies_are_switched_on];

/// Without a class name, the class cannot be looked up.
const CLASS_NAME: &[TopologyRule] = rules!["CL-V-011" => class_has_a_name];

const BY_ITSELF: &[TopologyRule] = rules![
    "CL-V-012" => version_has_a_v,
    "CL-V-013" => version_is_semver,
    "CL-V-030" => metadata_is_well_formed,
    "CL-V-031" => rollouts_can_proceed,
    "CL-V-032" => taints_may_be_set,
    "CL-V-040" => upgrade_concurrency_is_a_positive_integer,
    "DEC-72" => autoscaler_sizes_are_numbers,
    "DEC-20" => references_are_left_to_the_topology,
];

const LOOKUP: &[LookupRule] = rules![
    "CL-V-052" => class_is_there_and_reconciled,
    "CL-V-053" => class_can_be_read,
    "CL-V-054" => class_of_an_existing_cluster_is_there,
];

const AGAINST_CLASS: &[ClassifiedRule] = rules![
    "CL-V-055" => version_is_offered_by_the_class,
    "CL-V-056" => machine_deployments_have_a_class_and_a_name,
    "CL-V-057" => machine_pools_have_a_class_and_a_name,
    "CL-V-058" => control_plane_health_check_can_work,
    "CL-V-059" => machine_deployment_health_checks_can_work,
    "DEC-114" => replicas_are_left_to_an_autoscaler,
];

const AUTOSCALER: RuleId = "CL-V-070";

/// The rules of this file in the order in which they run.
pub(super) fn listed_rules() -> impl Iterator<Item = ListedRule> {
    listed(Kind::Cluster, GATE)
        .chain(listed(Kind::Cluster, CLASS_NAME))
        .chain(listed(Kind::Cluster, BY_ITSELF))
        .chain(listed(Kind::Cluster, LOOKUP))
        .chain(listed(Kind::Cluster, AGAINST_CLASS))
        .chain(generated_names::listed_rules())
        .chain([ListedRule {
            id: AUTOSCALER,
            name: "autoscaled_machine_deployments_leave_replicas_alone",
            kind: Some(Kind::Cluster),
        }])
        .chain(deprecation::listed_rules())
}

/// Validates a defined topology, in the order of the rules.
pub(super) fn validate(change: &TopologyChange<'_>, found: &mut Findings, not_checked: &mut Vec<RuleId>) {
    if !run(GATE, change, found) || !run(CLASS_NAME, change, found) {
        return;
    }
    run(BY_ITSELF, change, found);
    let Some(key) = change.new.class_key() else { return };
    // The mutating end point waits for a class that may be created soon; this one does not wait again (DEC-2).
    let answer = change.world.class_at_once(&key);
    if change.world.is_unreadable(&key)
        && change.old.is_some_and(|old| leaves_alone_what_the_class_says(change.new, old))
    {
        found.run("DEC-44", |found| class_is_not_asked(&answer, found));
        return;
    }
    run(LOOKUP, &ClassLookup { change, key: &key, answer: &answer }, found);
    let class = match &answer {
        Found::Yes(class) => Some(class),
        Found::Absent => None,
        Found::Unreadable(_) | Found::NotAsked => return,
    };
    if let Some(class) = class {
        let change = ClassifiedChange { change, key: &key, class };
        run(AGAINST_CLASS, &change, found);
        generated_names::validate(&change, found);
    }
    found.run(AUTOSCALER, |found| shared::autoscaled_replicas(change.new, class.map(|class| &class.spec), "", found));
    if let Some(class) = class {
        deprecation::validate(change, class, found);
    }
    if let (Some(class), Some(old)) = (class, change.old) {
        let change = ClassifiedChange { change, key: &key, class };
        if !rebase::starts_from_a_topology(&change, old, found) {
            return;
        }
        version::validate(&change, old, found, not_checked);
        rebase::validate(&change, old, found);
    }
}

/// The sizes of an autoscaler at machine deployments and machine pools can be used (DEC-72).
fn autoscaler_sizes_are_numbers(change: &TopologyChange<'_>, found: &mut Findings) {
    let old = change.old.and_then(Cluster::topology).map(|topology| &topology.workers);
    let before = old.into_iter().flat_map(worker_sets).map(|set| (set.key(), set.metadata));
    let sets = worker_sets(&change.topology.workers);
    let sets = sets.map(|set| (set.key(), set.metadata, move || set.path().child("metadata")));
    shared::autoscaler_sizes(sets, before, found);
}

/// A new Cluster with a topology has no references to infrastructure and control plane, which the topology creates
/// (DEC-20).
///
/// A moved or restored Cluster has references, and must be accepted.
fn references_are_left_to_the_topology(change: &TopologyChange<'_>, found: &mut Findings) {
    if change.old.is_some() {
        return;
    }
    let spec = &change.new.spec;
    let references = [
        (paths::INFRASTRUCTURE_REF, &spec.infrastructure_ref),
        (paths::cluster::CONTROL_PLANE_REF, &spec.control_plane_ref),
    ];
    for (path, _) in references.into_iter().filter(|(_, reference)| reference.is_defined()) {
        if change.settings.refuse_refs_with_topology {
            found
                .forbidden(Path::new(path), "cannot be set together with a topology, which creates this object itself");
        } else {
            let text = format!(
                "{path} is set together with a topology: the topology adopts or replaces the referenced object"
            );
            found.warn_about(Path::new(path), text);
        }
    }
}

/// The result of looking up the class (CL-V-050).
struct ClassLookup<'a> {
    change: &'a TopologyChange<'a>,
    key: &'a ObjectKey,
    answer: &'a Found<Arc<Class>>,
}

/// A topology is refused while the feature is off (CL-V-010).
fn topologies_are_switched_on(change: &TopologyChange<'_>, found: &mut Findings) {
    if !change.settings.gates.cluster_topology {
        found.forbidden(topology(), "topologies need the feature gate ClusterTopology");
    }
}

/// A topology names its class (CL-V-011).
fn class_has_a_name(change: &TopologyChange<'_>, found: &mut Findings) {
    if change.topology.class_ref.name.is_empty() {
        found.required(class(), "name the ClusterClass of this topology");
    }
}

/// A version starts with `v` (CL-V-012).
fn version_has_a_v(change: &TopologyChange<'_>, found: &mut Findings) {
    let text = &change.topology.version;
    if !text.starts_with('v') {
        found.invalid(version_path(), &**text, "must start with \"v\", as in v1.33.0");
    }
}

/// A version is strict semver behind its `v` (CL-V-013).
fn version_is_semver(change: &TopologyChange<'_>, found: &mut Findings) {
    let text = &change.topology.version;
    let number = text.strip_prefix('v').unwrap_or(text);
    if let Err(error) = KubeVersion::parse_strict(number) {
        let detail = match number {
            // Defaulting turns an empty version into this one (CL-D-002).
            "" => "set a version that begins with \"v\", such as v1.33.0".to_owned(),
            _ => format!("must be a full semantic version such as v1.33.0: {error}"),
        };
        found.invalid(version_path(), &**text, detail);
    }
}

/// Labels and annotations of the control plane and of workers are well-formed (CL-V-030).
fn metadata_is_well_formed(change: &TopologyChange<'_>, found: &mut Findings) {
    shared::metadata(&change.topology.control_plane.metadata, &control_plane().child("metadata"), found);
    for set in worker_sets(&change.topology.workers) {
        shared::metadata(set.metadata, &set.path().child("metadata"), found);
    }
}

/// Rollouts of machine deployments have bounds that let them proceed (CL-V-031).
fn rollouts_can_proceed(change: &TopologyChange<'_>, found: &mut Findings) {
    for deployment in &change.topology.workers.machine_deployments {
        let path = machine_deployment(&deployment.name).child("rollout.strategy");
        shared::rollout_strategy(&deployment.rollout.strategy, &path, found);
    }
}

/// Taints may be set, with keys that are free (CL-V-032).
fn taints_may_be_set(change: &TopologyChange<'_>, found: &mut Findings) {
    let settings = change.settings;
    shared::taints(&change.topology.control_plane.taints, &control_plane().child("taints"), settings, found);
    for set in worker_sets(&change.topology.workers) {
        shared::taints(set.taints, &set.path().child("taints"), settings, found);
    }
}

/// The number of machine deployments that upgrade at once is at least 1 (CL-V-040).
fn upgrade_concurrency_is_a_positive_integer(change: &TopologyChange<'_>, found: &mut Findings) {
    let Some(text) = change.new.annotation(annotation::UPGRADE_CONCURRENCY) else { return };
    if decimal_integer(text).is_none_or(|number| number < 1) {
        let path = Path::new(paths::metadata::ANNOTATIONS).child(annotation::UPGRADE_CONCURRENCY);
        found.invalid(path, text, "must be an integer of at least 1");
    }
}

/// A missing or unreconciled class gets a warning: objects may arrive in any order (CL-V-052).
fn class_is_there_and_reconciled(lookup: &ClassLookup<'_>, found: &mut Findings) {
    let key = lookup.key;
    match lookup.answer {
        Found::Absent => {
            let text = format!(
                "ClusterClass {key} does not exist: the topology could not be fully validated. Create it before this \
                 Cluster is used"
            );
            found.warn_about(Path::new(paths::cluster::TOPOLOGY_CLASS_NAME), text);
        }
        Found::Yes(class) if !is_settled(class) => {
            let text = format!(
                "ClusterClass {key} is not reconciled: the topology could not be fully validated. See the status of \
                 the ClusterClass"
            );
            found.warn_about(Path::new(paths::cluster::TOPOLOGY_CLASS_NAME), text);
        }
        Found::Yes(_) | Found::Unreadable(_) | Found::NotAsked => {}
    }
}

/// An unreadable class does not prevent its Clusters from being scaled (DEC-44).
fn class_is_not_asked(answer: &Found<Arc<Class>>, found: &mut Findings) {
    if let Found::Unreadable(reason) = answer {
        let text = format!(
            "{reason}; the update is allowed, because it leaves class, version and variables as they were, and is not \
             checked against the ClusterClass"
        );
        found.warn_about(Path::new(paths::cluster::TOPOLOGY_CLASS_NAME), text);
    }
}

/// Whether an update of a Cluster does not change its class, version and variables, including overrides.
///
/// The overrides of a removed worker set do not count.
pub(in crate::admission) fn leaves_alone_what_the_class_says(new: &Cluster, old: &Cluster) -> bool {
    let (Some(after), Some(before)) = (new.topology(), old.topology()) else { return false };
    let (workers, mut kept) = (&after.workers, before.clone());
    let names: BTreeSet<&str> = workers.machine_deployments.iter().map(|worker| &*worker.name).collect();
    let mut deployments = kept.workers.machine_deployments.into_vec();
    deployments.retain(|worker| names.contains(&*worker.name));
    kept.workers.machine_deployments = deployments.into();
    let names: BTreeSet<&str> = workers.machine_pools.iter().map(|worker| &*worker.name).collect();
    let mut pools = kept.workers.machine_pools.into_vec();
    pools.retain(|worker| names.contains(&*worker.name));
    kept.workers.machine_pools = pools.into();
    let values = |topology: &Topology| -> BTreeMap<String, Vec<VariableValue>> {
        lists(topology).map(|list| (list.path.to_string(), list.values.to_vec())).collect()
    };
    new.class_key() == old.class_key() && after.version == before.version && values(after) == values(&kept)
}

/// An existing class can be read (CL-V-053).
fn class_can_be_read(lookup: &ClassLookup<'_>, found: &mut Findings) {
    if let Found::Unreadable(reason) = lookup.answer {
        found.internal(class(), reason);
    }
}

/// The class of an existing Cluster exists (CL-V-054).
fn class_of_an_existing_cluster_is_there(lookup: &ClassLookup<'_>, found: &mut Findings) {
    if lookup.change.old.is_some() && *lookup.answer == Found::Absent {
        found.internal(class(), format!("ClusterClass {} does not exist", lookup.key));
    }
}

/// A class that lists versions offers no others; texts are compared, not versions (CL-V-055).
fn version_is_offered_by_the_class(change: &ClassifiedChange<'_>, found: &mut Findings) {
    let offered = &change.class.spec.kubernetes_versions;
    let version = &change.change.topology.version;
    if !offered.is_empty() && !offered.contains(version) {
        let detail = format!("ClusterClass {} offers {}", change.key, a_few(offered, SHOWN_NAMES));
        found.invalid(version_path(), &**version, detail);
    }
}

/// Each machine deployment has an existing class and a unique name (CL-V-056).
fn machine_deployments_have_a_class_and_a_name(change: &ClassifiedChange<'_>, found: &mut Findings) {
    let classes: Vec<&str> = change.class.spec.workers.machine_deployments.iter().map(|class| &*class.class).collect();
    let entries = change.change.topology.workers.machine_deployments.iter().map(|entry| (&*entry.class, &*entry.name));
    workers(entries, &Path::new(paths::cluster::TOPOLOGY_MACHINE_DEPLOYMENTS), &classes, change.key, found);
}

/// Each machine pool has an existing class and a unique name (CL-V-057).
fn machine_pools_have_a_class_and_a_name(change: &ClassifiedChange<'_>, found: &mut Findings) {
    let classes: Vec<&str> = change.class.spec.workers.machine_pools.iter().map(|class| &*class.class).collect();
    let entries = change.change.topology.workers.machine_pools.iter().map(|entry| (&*entry.class, &*entry.name));
    workers(entries, &Path::new(paths::cluster::TOPOLOGY_MACHINE_POOLS), &classes, change.key, found);
}

/// Worker sets keep the number of their machines when the topology no longer sets it (DEC-114). Admission gives a set
/// without replicas one machine, unless it has both sizes of an autoscaler.
fn replicas_are_left_to_an_autoscaler(change: &ClassifiedChange<'_>, found: &mut Findings) {
    let ClassifiedChange { change, class, .. } = change;
    let Some(old) = change.old.and_then(Cluster::topology).map(|topology| &topology.workers) else { return };
    for set in worker_sets(&change.topology.workers).filter(|set| set.replicas.is_none()) {
        let before = worker_sets(old).find(|before| before.key() == set.key());
        let Some(had) = before.and_then(|before| before.replicas).filter(|had| *had != 1) else { continue };
        let class = worker_classes(&class.spec.workers).find(|class| class.key() == (set.list, set.class));
        if class.is_some_and(|class| !shared::has_both_sizes([set.metadata, class.metadata])) {
            let [least, most] = shared::SIZES;
            let detail = format!(
                "without replicas the set gets 1 machine instead of {had}: keep replicas, or leave them to an \
                 autoscaler with the annotations {least} and {most}"
            );
            found.warn_at(&set.path(), detail);
        }
    }
}

fn workers<'a>(
    entries: impl Iterator<Item = (&'a str, &'a str)>,
    path: &Path,
    classes: &[&str],
    key: &ObjectKey,
    found: &mut Findings,
) {
    let mut names = BTreeSet::new();
    for (i, (class, name)) in entries.enumerate() {
        if !classes.contains(&class) {
            let detail = format!("class {class:?} does not exist in ClusterClass {key}, which has {}", quoted(classes));
            found.invalid(path.index(i).child("class"), class, detail);
        }
        if name.is_empty() {
            found.required(path.index(i).child("name"), "give this entry a name");
        } else if !names.insert(name) {
            found.invalid(path.index(i).child("name"), name, "another entry of this list has the same name");
        }
    }
}

/// Maximum number of names in a message.
const SHOWN_NAMES: usize = 20;

fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    if names.is_empty() { "none".to_owned() } else { a_few(&names, SHOWN_NAMES) }
}

/// A control plane health check has machines to check, and exists when it is switched on (CL-V-058).
fn control_plane_health_check_can_work(change: &ClassifiedChange<'_>, found: &mut Findings) {
    let check = &change.change.topology.control_plane.health_check;
    let path = control_plane().child("healthCheck");
    if check.is_defined() {
        if !change.class.spec.has_control_plane_machines() {
            let detail = format!(
                "ClusterClass {} has no spec.controlPlane.machineInfrastructure, so there are no machines to check",
                change.key
            );
            found.forbidden(path.clone(), detail);
        }
        shared::health_check(check, &path, change.change.settings, found);
    }
    if shared::lacks_health_check(check, &change.class.spec.control_plane.health_check) {
        found.forbidden(
            path.child("enable"),
            format!("neither this topology nor ClusterClass {} defines a health check", change.key),
        );
    }
}

/// Health checks of machine deployments are usable, and exist where they are switched on (CL-V-059).
fn machine_deployment_health_checks_can_work(change: &ClassifiedChange<'_>, found: &mut Findings) {
    for deployment in &change.change.topology.workers.machine_deployments {
        let check = &deployment.health_check;
        let path = machine_deployment(&deployment.name).child("healthCheck");
        if check.is_defined() {
            shared::health_check(check, &path, change.change.settings, found);
            shared::remediation_in_flight(check, &path.child("remediation"), found);
        }
        let class = change.class.spec.machine_deployment_class(&deployment.class);
        if class.is_some_and(|class| shared::lacks_health_check(check, &class.health_check)) {
            let detail = format!(
                "neither this topology nor class {:?} of ClusterClass {} defines a health check",
                deployment.class, change.key
            );
            found.forbidden(path.child("enable"), detail);
        }
    }
}

fn topology() -> Path {
    Path::new(paths::cluster::TOPOLOGY)
}

fn control_plane() -> Path {
    Path::new(paths::cluster::TOPOLOGY_CONTROL_PLANE)
}

fn machine_deployment(name: &str) -> Path {
    Path::new(paths::cluster::TOPOLOGY_MACHINE_DEPLOYMENTS).key(name)
}
