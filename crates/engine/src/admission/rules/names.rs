//! Naming templates of a ClusterClass (NAM). They need not use `random` or the name of the Cluster (NAM-003), but get a
//! warning without them (NAM-004).

use super::class_change::{ClassChange, machine_deployment, machine_pool};
use super::hints;
use crate::admission::ListedRule;
use golang::template::{Functions, Template};
use model::hub::naming::subdomain_faults;
use model::hub::{Kind, NameParts, NameSubject, name_from, paths};
use schema::field::{Findings, Path};

/// Placeholder for the name of the Cluster.
const CLUSTER: &str = "cluster";
const RANDOM: &str = "bcdfg";

/// The rules of this file in the order in which they run.
pub(super) fn listed_rules() -> impl Iterator<Item = ListedRule> {
    [
        ("NAM-001", "naming_template_can_be_rendered"),
        ("NAM-002", "naming_template_makes_names"),
        ("NAM-004", "naming_template_makes_different_names"),
    ]
    .into_iter()
    .map(|(id, name)| ListedRule { id, name, kind: Some(Kind::ClusterClass) })
}

/// Naming templates make names (CC-V-040, NAM-07).
pub(super) fn naming_templates_make_names(change: &ClassChange<'_>, found: &mut Findings) {
    let spec = &change.new.spec;
    makes_names(
        &spec.infrastructure.naming.template,
        NameSubject::Cluster,
        &Path::new(paths::cluster_class::INFRASTRUCTURE),
        found,
    );
    makes_names(
        &spec.control_plane.naming.template,
        NameSubject::Cluster,
        &Path::new(paths::cluster_class::CONTROL_PLANE),
        found,
    );
    for class in &spec.workers.machine_deployments {
        let named = NameSubject::MachineDeployment("mdtopology");
        makes_names(&class.naming.template, named, &machine_deployment(&class.class), found);
    }
    for class in &spec.workers.machine_pools {
        makes_names(&class.naming.template, NameSubject::MachinePool("mptopology"), &machine_pool(&class.class), found);
    }
}

/// A hint for a naming template.
fn hint(template: &str, named: NameSubject<'_>) -> String {
    let parsed = Template::parse("name", template, Functions::Builtin);
    let hint = parsed.err().and_then(|error| {
        hints::template_hint(&error, template, Functions::Builtin, ["cluster", "random"].into_iter())
    });
    let of_worker = match named {
        NameSubject::Cluster => "",
        NameSubject::MachineDeployment(_) => " and .machineDeployment.topologyName",
        NameSubject::MachinePool(_) => " and .machinePool.topologyName",
        NameSubject::Machine(_) => " and .machineSet.name",
        NameSubject::ControlPlaneMachine(_) => " and .kubeadmControlPlane.name",
    };
    hint.unwrap_or_else(|| format!("this template can use .cluster.name, .random{of_worker}"))
}

/// A template gives the objects of two users different names (NAM-004). A user is a Cluster or, for workers, an entry
/// of its topology.
fn makes_different_names(template: &str, named: NameSubject<'_>, path: &Path, found: &mut Findings) {
    let Some(parts) = NameParts::from_template(template, named).filter(|parts| !parts.random) else { return };
    let (kind, variable) = match named {
        NameSubject::Cluster => ("", ""),
        NameSubject::MachineDeployment(_) => ("MachineDeployments", ".machineDeployment.topologyName"),
        NameSubject::MachinePool(_) => ("MachinePools", ".machinePool.topologyName"),
        NameSubject::Machine(_) | NameSubject::ControlPlaneMachine(_) => return,
    };
    let (of_clusters, of_workers) = (!parts.cluster, !parts.worker && !kind.is_empty());
    let (what, add) = match (of_clusters, of_workers) {
        (false, false) => return,
        (true, false) => ("two Clusters of a namespace".to_owned(), ".cluster.name".to_owned()),
        (false, true) => (format!("two {kind} of a Cluster"), variable.to_owned()),
        (true, true) => (
            format!("two Clusters of a namespace, and two {kind} of a Cluster,"),
            format!(".cluster.name and {variable}"),
        ),
    };
    let detail =
        format!("{template:?} gives {what} the same name, and only one of them can be created; add {add}, or .random");
    found.warn_at(path, detail);
}

/// A template can be rendered with an example (NAM-001), and the result is a valid name (NAM-002).
fn makes_names(template: &str, named: NameSubject<'_>, owner: &Path, found: &mut Findings) {
    if template.is_empty() {
        return;
    }
    let path = owner.child("naming.template");
    match name_from(template, CLUSTER, named, || RANDOM.to_owned()) {
        Err(reason) => {
            found.run("NAM-001", |found| {
                let hint = match found.is_worth_hints() {
                    true => format!("; {}", hint(template, named)),
                    false => String::new(),
                };
                found.invalid(path, template, format!("{reason}{hint}"));
            });
        }
        Ok(name) => {
            let faults = subdomain_faults(&name);
            let is_usable = faults.is_empty();
            found.run("NAM-002", |found| {
                for fault in faults {
                    found.invalid(path.clone(), template, format!("gives a name such as {name:?}, which {fault}"));
                }
            });
            if is_usable {
                found.run("NAM-004", |found| makes_different_names(template, named, &path, found));
            }
        }
    }
}
