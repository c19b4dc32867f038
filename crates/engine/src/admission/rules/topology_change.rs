//! The change of a topology in a review, and paths in a topology.

use crate::admission::AdmissionSettings;
use model::hub::{Cluster, ClusterClass, ObjectKey, Topology, paths};
use model::world::World;
use schema::field::Path;

/// A Cluster with a defined topology that is created or updated.
pub(super) struct TopologyChange<'a> {
    pub new: &'a Cluster,
    pub topology: &'a Topology,
    pub old: Option<&'a Cluster>,
    pub world: &'a World,
    pub settings: &'a AdmissionSettings,
}

/// A topology together with its class.
pub(super) struct ClassifiedChange<'a> {
    pub change: &'a TopologyChange<'a>,
    pub key: &'a ObjectKey,
    pub class: &'a ClusterClass,
}

/// The path of the class in Cluster API's messages, which is not that of a v1beta2 field (DEC-4).
pub(super) fn class() -> Path {
    Path::new(paths::cluster::TOPOLOGY_CLASS_V1BETA1)
}

pub(super) fn version_path() -> Path {
    Path::new(paths::cluster::TOPOLOGY_VERSION)
}
