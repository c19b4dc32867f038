//! The lists of variable values of a Cluster.

use super::workers::worker_sets;
use model::hub::{Topology, VariableOverrides, VariableValue, paths};
use model::variables::SettleMode;
use schema::field::Path;

/// A list of values, with its error path and its place in the object.
pub(super) struct Values<'a> {
    pub values: &'a [VariableValue],
    /// Whether the list exists, even if it is empty.
    pub is_present: bool,
    pub path: Path,
    /// The JSON pointer of the list.
    pub pointer: String,
    pub mode: SettleMode,
}

/// The list of the whole Cluster, followed by existing overrides.
pub(super) fn lists(topology: &Topology) -> impl Iterator<Item = Values<'_>> {
    let whole = Values {
        values: &topology.variables,
        is_present: topology.variables.is_present(),
        path: Path::new(paths::cluster::TOPOLOGY_VARIABLES),
        pointer: "/spec/topology/variables".to_owned(),
        mode: SettleMode::Create,
    };
    let control_plane = overrides(
        &topology.control_plane.variables,
        || Path::new(paths::cluster::TOPOLOGY_CONTROL_PLANE),
        || "/spec/topology/controlPlane".to_owned(),
    );
    let sets = worker_sets(&topology.workers);
    let sets = sets.filter_map(|set| overrides(set.variables, || set.path(), || set.pointer()));
    [whole].into_iter().chain(control_plane).chain(sets)
}

/// The overrides of the part at `path` and `pointer`, if any.
fn overrides(
    variables: &VariableOverrides,
    path: impl FnOnce() -> Path,
    pointer: impl FnOnce() -> String,
) -> Option<Values<'_>> {
    let values = &variables.overrides;
    (!values.is_empty()).then(|| Values {
        values,
        is_present: true,
        path: path().child("variables.overrides"),
        pointer: pointer() + "/variables/overrides",
        mode: SettleMode::ExistingOnly,
    })
}
