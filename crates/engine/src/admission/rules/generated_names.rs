//! Names that the naming templates of a class generate for the parts of a Cluster (DEC-36).

use std::collections::BTreeMap;

use super::topology_change::ClassifiedChange;
use crate::admission::ListedRule;
use model::hub::{
    Cluster, ClusterClassSpec, GROUP, HealthCheck, Kind, MachineDeploymentTopology, NameParts, NameSubject, label,
    name_from, paths,
};
use model::world::{Found, Selection, World};
use schema::field::{Findings, Path, RuleId};

const RULE: RuleId = "DEC-36";

/// The rules of this file in the order in which they run.
pub(super) fn listed_rules() -> impl Iterator<Item = ListedRule> {
    [ListedRule { id: RULE, name: "generated_names_differ", kind: Some(Kind::Cluster) }].into_iter()
}

/// The parts of a Cluster get different names from the naming templates of the class (DEC-36).
///
/// Existing parts may have names from an earlier template, so at least one of two parts must be new.
pub(super) fn validate(change: &ClassifiedChange<'_>, found: &mut Findings) {
    found.run(RULE, |found| generated_names_differ(change, found));
}

fn generated_names_differ(change: &ClassifiedChange<'_>, found: &mut Findings) {
    let old = change.change.old.filter(|old| old.topology().is_some());
    for list in [NameList::deployments(change), NameList::pools(change)] {
        let mut seen: BTreeMap<&str, &GeneratedName<'_>> = BTreeMap::new();
        for one in &list.names {
            let Some(first) = seen.insert(&one.name, one) else { continue };
            if is_conflict(old, &list, [first, one], change.change.world) {
                let detail = format!(
                    "{} {:?} and {:?} both get the name {:?}: the naming template of ClusterClass {} must use .random \
                     or .{}.topologyName",
                    list.kind, first.topology_name, one.topology_name, one.name, change.key, list.variable
                );
                found.invalid(list.path.key(one.topology_name).child("name"), one.topology_name, detail);
            }
        }
    }
    health_checks_are_not_shared(change, old, found);
}

/// Workers of one kind whose names are not random.
struct NameList<'a> {
    kind: &'static str,
    label: &'static str,
    variable: &'static str,
    path: Path,
    names: Vec<GeneratedName<'a>>,
}

/// A name that is determined by Cluster and topology.
struct GeneratedName<'a> {
    topology_name: &'a str,
    name: String,
}

impl<'a> NameList<'a> {
    fn deployments(change: &ClassifiedChange<'a>) -> Self {
        let entries = change.change.topology.workers.machine_deployments.iter();
        let names = entries.filter_map(|entry| {
            let class = change.class.spec.machine_deployment_class(&entry.class)?;
            let named = NameSubject::MachineDeployment(&entry.name);
            GeneratedName::new(&class.naming.template, named, &entry.name, &change.change.new.metadata.name)
        });
        NameList {
            kind: "MachineDeployments",
            label: label::DEPLOYMENT_NAME,
            variable: "machineDeployment",
            path: Path::new(paths::cluster::TOPOLOGY_MACHINE_DEPLOYMENTS),
            names: names.collect(),
        }
    }

    fn pools(change: &ClassifiedChange<'a>) -> Self {
        let entries = change.change.topology.workers.machine_pools.iter();
        let names = entries.filter_map(|entry| {
            let class = change.class.spec.machine_pool_class(&entry.class)?;
            let named = NameSubject::MachinePool(&entry.name);
            GeneratedName::new(&class.naming.template, named, &entry.name, &change.change.new.metadata.name)
        });
        NameList {
            kind: "MachinePools",
            label: label::POOL_NAME,
            variable: "machinePool",
            path: Path::new(paths::cluster::TOPOLOGY_MACHINE_POOLS),
            names: names.collect(),
        }
    }
}

impl<'a> GeneratedName<'a> {
    /// The name from a template; `None` if it is random or cannot be rendered (NAM-001).
    fn new(template: &str, named: NameSubject<'_>, topology_name: &'a str, cluster: &str) -> Option<Self> {
        let name = fixed_name(template, named, cluster)?;
        Some(GeneratedName { topology_name, name })
    }
}

/// The name from a template without random parts.
fn fixed_name(template: &str, named: NameSubject<'_>, cluster: &str) -> Option<String> {
    let is_fixed = !template.is_empty() && !NameParts::from_template(template, named)?.random;
    is_fixed.then(|| name_from(template, cluster, named, String::new).ok()).flatten()
}

/// Whether two workers with the same generated name conflict: an existing one may have another name.
fn is_conflict(old: Option<&Cluster>, list: &NameList<'_>, both: [&GeneratedName<'_>; 2], world: &World) -> bool {
    let is_old = |one: &GeneratedName<'_>| {
        let Some(topology) = old.and_then(Cluster::topology) else { return false };
        match list.label {
            label::DEPLOYMENT_NAME => {
                topology.workers.machine_deployments.iter().any(|entry| entry.name == one.topology_name)
            }
            _ => topology.workers.machine_pools.iter().any(|entry| entry.name == one.topology_name),
        }
    };
    match both.map(is_old) {
        [true, true] => false,
        [false, false] => true,
        [first_is_old, _] => {
            let (existing, cluster) = (both[usize::from(!first_is_old)], old);
            cluster.is_none_or(|cluster| has_its_name(cluster, list, existing, world))
        }
    }
}

/// Whether an existing worker has the name from its current template, or will get it.
fn has_its_name(cluster: &Cluster, list: &NameList<'_>, existing: &GeneratedName<'_>, world: &World) -> bool {
    let metadata = &cluster.metadata;
    let labels = [(label::CLUSTER_NAME, &*metadata.name), (label::OWNED, ""), (list.label, existing.topology_name)];
    let selection = Selection {
        api_version: format!("{GROUP}/v1beta2"),
        kind: list.kind.trim_end_matches('s').to_owned(),
        namespace: metadata.namespace.clone(),
        labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
    };
    match world.list(&selection) {
        Found::Yes(objects) => objects.first().is_none_or(|object| object.name() == existing.name),
        Found::Absent => true,
        // The controller detects the conflict when it creates the object.
        Found::NotAsked | Found::Unreadable(_) => false,
    }
}

/// A health check has the name of its target, so a control plane and a machine deployment of the same name would share
/// it.
fn health_checks_are_not_shared(change: &ClassifiedChange<'_>, old: Option<&Cluster>, found: &mut Findings) {
    let spec: &ClusterClassSpec = &change.class.spec;
    let topology = change.change.topology;
    let cluster = &change.change.new.metadata.name;
    let Some(name) = fixed_name(&spec.control_plane.naming.template, NameSubject::Cluster, cluster) else { return };
    let of_control_plane = is_checked(&topology.control_plane.health_check, &spec.control_plane.health_check)
        && spec.has_control_plane_machines();
    let is_new = |entry: &MachineDeploymentTopology| {
        let before = old.and_then(Cluster::topology).map(|topology| &topology.workers.machine_deployments);
        before.is_none_or(|before| before.iter().all(|other| other.name != entry.name))
    };
    for entry in topology.workers.machine_deployments.iter().filter(|entry| is_new(entry)) {
        let Some(class) = spec.machine_deployment_class(&entry.class) else { continue };
        let named = NameSubject::MachineDeployment(&entry.name);
        let is_same = fixed_name(&class.naming.template, named, cluster).as_ref() == Some(&name);
        if is_same && (of_control_plane || is_checked(&entry.health_check, &class.health_check)) {
            let path = Path::new(paths::cluster::TOPOLOGY_MACHINE_DEPLOYMENTS).key(&entry.name).child("name");
            let detail = format!(
                "gets the name {name:?}, as the control plane does, so both would have one MachineHealthCheck; change \
                 a naming template of ClusterClass {}",
                change.key
            );
            found.invalid(path, &*entry.name, detail);
        }
    }
}

/// Whether there is a health check (BP-10 to BP-12).
fn is_checked(own: &HealthCheck, of_class: &HealthCheck) -> bool {
    (own.is_defined() || of_class.is_defined()) && own.enabled != Some(false)
}
