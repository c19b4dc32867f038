//! The Cluster itself.

use super::{Basis, DesiredCluster};
use crate::hub::{Object, annotation, label};
use crate::topology::field_path;
use crate::topology::upgrade::Upgrade;

/// What the engine decides of the Cluster (DS-22).
pub(super) fn compute(
    basis: Basis<'_>,
    infrastructure: &Object,
    control_plane: &Object,
    upgrade: &Upgrade<'_>,
) -> DesiredCluster {
    let metadata = &basis.blueprint.cluster.metadata;
    let mut labels = (*metadata.labels).clone();
    labels.insert(label::CLUSTER_NAME.to_owned(), metadata.name.clone());
    labels.insert(label::OWNED.to_owned(), String::new());
    let mut annotations = (*metadata.annotations).clone();
    let mut put = |name: &str, value: Option<String>| match value {
        Some(value) => drop(annotations.insert(name.to_owned(), value)),
        None => drop(annotations.remove(name)),
    };
    put(annotation::UPGRADE_STEP, step(control_plane, upgrade));
    put(annotation::PENDING_HOOKS, pending_hooks(upgrade));
    let (infrastructure_ref, control_plane_ref) = (infrastructure.contract_ref(), control_plane.contract_ref());
    DesiredCluster { labels, annotations, infrastructure_ref, control_plane_ref }
}

/// The version that machines may be made for while the topology is on its way to another (DS-23).
fn step(control_plane: &Object, upgrade: &Upgrade<'_>) -> Option<String> {
    let version = || control_plane.at(field_path::VERSION)?.as_str().map(str::to_owned);
    upgrade.marks_a_step().then(version).flatten()
}

/// The hooks that still have to be called, sorted (HK-02).
fn pending_hooks(upgrade: &Upgrade<'_>) -> Option<String> {
    let hooks: Vec<String> = upgrade.pending_hooks().into_iter().collect();
    (!hooks.is_empty()).then(|| hooks.join(","))
}
