//! A ClusterClass against its predecessor and against the Clusters that use it (CC-V).
//!
//! A worker class that no Cluster uses may be removed (DEC-26). Health checks of the Clusters are validated at the next
//! change of the Cluster (CC-V-130); their variables are validated here (DEC-1).

use std::sync::Arc;

use super::breakage::clusters_still_fit;
use super::class_change::{ClassChange, control_plane_health_check, machine_deployment};
use super::shared;
use crate::admission::ListedRule;
use crate::admission::rule::{Rule, listed, rules, run};
use model::hub::{Cluster, ClusterClass, ClusterClassSpec, Kind, compatibility, paths};
use schema::field::{Findings, Path, RuleId};

/// A class that is updated, with the Clusters that use it.
struct DependentsChange<'a> {
    new: &'a ClusterClassSpec,
    old: &'a ClusterClassSpec,
    clusters: &'a [Arc<Cluster>],
}

type DependentsRule = Rule<fn(&DependentsChange<'_>, &mut Findings)>;

const COMPATIBLE: RuleId = "CC-V-101";
const KNOWN: RuleId = "CC-V-100";
const FITTING: RuleId = "DEC-1";

const RULES: &[DependentsRule] = rules![
    "CC-V-110" => versions_in_use_stay_listed,
    "CC-V-111" => machine_deployment_classes_in_use_stay,
    "CC-V-112" => machine_pool_classes_in_use_stay,
    "CC-V-113" => control_plane_health_check_in_use_stays,
    "CC-V-114" => machine_deployment_health_checks_in_use_stay,
    "CC-V-120" => autoscaled_machine_deployments_leave_replicas_alone,
];

/// The rules of this file in the order in which they run.
pub(super) fn listed_rules() -> impl Iterator<Item = ListedRule> {
    let single = |id, name| ListedRule { id, name, kind: Some(Kind::ClusterClass) };
    [single(COMPATIBLE, "new_class_is_compatible_with_the_old_one"), single(KNOWN, "dependent_clusters_are_known")]
        .into_iter()
        .chain(listed(Kind::ClusterClass, RULES))
        .chain([single(FITTING, "clusters_still_fit")])
}

/// Validates an update of a class against its old state and its Clusters.
pub(super) fn validate(change: &ClassChange<'_>, old: &ClusterClass, found: &mut Findings) {
    found.run(COMPATIBLE, |found| compatibility::check(&old.spec, &change.new.spec, found));
    let clusters = match change.world.clusters_of(&change.new.metadata.key()) {
        Ok(clusters) => clusters,
        Err(reason) => {
            found.run(KNOWN, |found| {
                found.internal(Path::ROOT, format!("cannot determine which Clusters use this ClusterClass: {reason}"));
            });
            return;
        }
    };
    run(RULES, &DependentsChange { new: &change.new.spec, old: &old.spec, clusters: &clusters }, found);
    found.run(FITTING, |found| clusters_still_fit(change, old, &clusters, found));
}

/// A version that a Cluster runs stays in the list (CC-V-110).
fn versions_in_use_stay_listed(change: &DependentsChange<'_>, found: &mut Findings) {
    let offered = &change.new.kubernetes_versions;
    if offered.is_empty() {
        return;
    }
    for cluster in change.clusters.iter().filter(|cluster| !offered.contains(&cluster.spec.topology.version)) {
        let detail =
            format!("must contain {:?}, which Cluster {} uses", cluster.spec.topology.version, cluster.metadata.key());
        found.forbidden(Path::new(paths::cluster_class::KUBERNETES_VERSIONS), detail);
    }
}

/// A machine deployment class that a Cluster uses is not removed (CC-V-111).
fn machine_deployment_classes_in_use_stay(change: &DependentsChange<'_>, found: &mut Findings) {
    let names = |spec: &ClusterClassSpec| -> Vec<String> {
        spec.workers.machine_deployments.iter().map(|class| class.class.clone()).collect()
    };
    let used = |cluster: &Cluster, class: &str| {
        let entries = &cluster.spec.topology.workers.machine_deployments;
        entries.iter().filter(|entry| entry.class == class).count()
    };
    classes_in_use_stay(change, names, used, paths::cluster_class::MACHINE_DEPLOYMENTS, found);
}

/// A machine pool class that a Cluster uses is not removed (CC-V-112).
fn machine_pool_classes_in_use_stay(change: &DependentsChange<'_>, found: &mut Findings) {
    let names = |spec: &ClusterClassSpec| -> Vec<String> {
        spec.workers.machine_pools.iter().map(|class| class.class.clone()).collect()
    };
    let used = |cluster: &Cluster, class: &str| {
        let entries = &cluster.spec.topology.workers.machine_pools;
        entries.iter().filter(|entry| entry.class == class).count()
    };
    classes_in_use_stay(change, names, used, paths::cluster_class::MACHINE_POOLS, found);
}

/// Reports every use of a removed class, once for each entry of a topology.
fn classes_in_use_stay(
    change: &DependentsChange<'_>,
    names: impl Fn(&ClusterClassSpec) -> Vec<String>,
    uses: impl Fn(&Cluster, &str) -> usize,
    path: &'static str,
    found: &mut Findings,
) {
    let kept = names(change.new);
    for class in names(change.old).iter().filter(|class| !kept.contains(class)) {
        for cluster in change.clusters {
            for _ in 0..uses(cluster, class) {
                let detail =
                    format!("class {class:?} cannot be removed because Cluster {} uses it", cluster.metadata.key());
                found.forbidden(Path::new(path), detail);
            }
        }
    }
}

/// The control plane health check stays while a Cluster relies on it (CC-V-113).
fn control_plane_health_check_in_use_stays(change: &DependentsChange<'_>, found: &mut Findings) {
    let (old, new) = (&change.old.control_plane.health_check, &change.new.control_plane.health_check);
    if !old.is_defined() {
        return;
    }
    let relies = |cluster: &Cluster| shared::lacks_health_check(&cluster.spec.topology.control_plane.health_check, new);
    health_check_in_use(change.clusters, relies, control_plane_health_check(), found);
}

/// The health check of a machine deployment class stays while a Cluster relies on it (CC-V-114).
fn machine_deployment_health_checks_in_use_stay(change: &DependentsChange<'_>, found: &mut Findings) {
    for old in change.old.workers.machine_deployments.iter().filter(|old| old.health_check.is_defined()) {
        let Some(new) = change.new.machine_deployment_class(&old.class) else { continue };
        let relies = |cluster: &Cluster| {
            let mut users =
                cluster.spec.topology.workers.machine_deployments.iter().filter(|entry| entry.class == old.class);
            users.any(|entry| shared::lacks_health_check(&entry.health_check, &new.health_check))
        };
        health_check_in_use(change.clusters, relies, machine_deployment(&old.class).child("healthCheck"), found);
    }
}

fn health_check_in_use(clusters: &[Arc<Cluster>], relies: impl Fn(&Cluster) -> bool, path: Path, found: &mut Findings) {
    let names: Vec<String> =
        clusters.iter().filter(|cluster| relies(cluster)).map(|cluster| cluster.metadata.key().to_string()).collect();
    if !names.is_empty() {
        found.forbidden(
            path,
            format!(
                "cannot be removed because it is switched on by Clusters that do not define one: {}",
                names.join(", ")
            ),
        );
    }
}

/// Replicas that Clusters set do not meet an autoscaler of the new class (CC-V-120).
fn autoscaled_machine_deployments_leave_replicas_alone(change: &DependentsChange<'_>, found: &mut Findings) {
    for cluster in change.clusters {
        shared::autoscaled_replicas(cluster, Some(change.new), &shared::whose(cluster), found);
    }
}
