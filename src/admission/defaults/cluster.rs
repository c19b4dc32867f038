//! Defaults of a Cluster (CL-D).

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation};

use crate::admission::{Outcome, Settings, Verdict};
use crate::field::{Findings, Path};
use crate::hub::{Cluster, Kind, Topology};

/// The mutating end point for Clusters on create and update. Feature gates are not consulted (CL-D-010).
pub(crate) fn default(cluster: &Cluster, settings: &Settings) -> Verdict {
    let mut found = Findings::without(settings.silenced);
    let mut patch = Vec::new();
    // CL-D-001: without a defined topology there is nothing to do.
    if let Some(topology) = cluster.topology() {
        patch.extend(found.run("CL-D-002", |_| version_starts_with_v(topology)).flatten());
        found.run("CL-D-003", |found| class_is_named(topology, found));
    }
    let (errors, warnings) = found.into_parts();
    // CL-D-009: an error denies, and then nothing is changed.
    let (outcome, patch) = match errors.is_empty() {
        true => (Outcome::Allowed, Patch(patch)),
        false => (Outcome::Invalid(errors), Patch::default()),
    };
    Verdict { warnings, patch, ..Verdict::plain(Kind::Cluster, "", outcome) }
}

/// A version starts with a lower-case `v`; one is put in front where it does not, and nothing else is changed (CL-D-002).
fn version_starts_with_v(topology: &Topology) -> Option<PatchOperation> {
    if topology.version.starts_with('v') {
        return None;
    }
    // `add` also replaces a member that is already there.
    let path = PointerBuf::from_tokens(["spec", "topology", "version"]);
    Some(PatchOperation::Add(AddOperation { path, value: format!("v{}", topology.version).into() }))
}

/// A topology names its class (CL-D-003).
fn class_is_named(topology: &Topology, found: &mut Findings) {
    if topology.class_ref.name.is_empty() {
        found.required(Path::of("spec.topology.classRef.name"), "name the ClusterClass of this topology");
    }
}
