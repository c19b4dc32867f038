//! The record of the inputs of a Cluster's objects. After a pause, it shows whether pending edits replace machines
//! (DEC-59).

use std::hash::{DefaultHasher, Hash, Hasher};

use super::blueprint::Blueprint;
use model::hub::Object;

/// Records of other versions of topologist are not compared: they may contain other fields.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The value of the annotation [`ROLLED_OUT`](model::hub::annotation::ROLLED_OUT) for the objects of this blueprint.
pub fn record(blueprint: &Blueprint) -> String {
    let mut hasher = DefaultHasher::new();
    let spec = &blueprint.cluster.spec;
    (&spec.topology, &spec.cluster_network, &blueprint.class.spec).hash(&mut hasher);
    let deployments = blueprint.machine_deployments.values();
    let workers =
        deployments.chain(blueprint.machine_pools.values()).flat_map(|one| [&one.bootstrap, &one.infrastructure]);
    let own =
        [&blueprint.infrastructure, &blueprint.control_plane].into_iter().chain(&blueprint.control_plane_machines);
    let text = |template: &Object| template.at("spec").map(ToString::to_string);
    own.chain(workers).for_each(|template| (template.kind(), template.name(), text(template)).hash(&mut hasher));
    format!("{VERSION}-{:016x}", hasher.finish())
}

/// Whether a record is of this version of topologist.
pub(crate) fn is_comparable(record: &str) -> bool {
    record.rsplit_once('-').is_some_and(|(version, _)| version == VERSION)
}
