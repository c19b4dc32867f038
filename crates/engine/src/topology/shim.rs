//! The ConfigMap that owns infrastructure cluster and control plane until the Cluster does.
//!
//! If the process dies after creating them and before the Cluster refers to them, they are garbage-collected with the
//! ConfigMap, and the ConfigMap with the Cluster (RS-14, DEL-02). Cluster API and earlier versions of topologist use a
//! Secret of the same name: owner references to it are kept (DS-10), and it is left to garbage collection, so that no
//! permission on Secrets is needed (DEC-47).

use serde_json::Value;

use super::current::Current;
use model::hub::{Cluster, Object};

/// The kind of the shim.
pub const KIND: &str = "ConfigMap";
/// The kind of shims that Cluster API and earlier versions created.
const FORMER_KIND: &str = "Secret";

/// The action on the ConfigMap that owns infrastructure cluster and control plane until the Cluster does (RS-14,
/// DEC-47).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shim {
    #[default]
    Keep,
    /// It is created before the first object, and owns the created objects.
    Create,
    Delete,
}

/// The name of the ConfigMap of a Cluster.
pub fn name(cluster: &str) -> String {
    format!("{cluster}-shim")
}

/// Whether an owner reference names the shim of a Cluster, or one that Cluster API created; uid, group and version are
/// not compared (LBL-06).
pub(crate) fn is_shim(owner: &Value, cluster: &str) -> bool {
    [KIND, FORMER_KIND].into_iter().any(|kind| owner["kind"] == kind) && owner["name"] == *name(cluster)
}

/// Decides about the ConfigMap: it is created with the first of the two objects, and deleted once the Cluster owns both
/// (RS-14, RS-38).
pub(super) fn decide(cluster: &Cluster, current: &Current) -> Shim {
    let (Some(infrastructure), Some(control_plane)) = (&current.infrastructure, &current.control_plane.object) else {
        return Shim::Create;
    };
    let (cluster, shim) = (&cluster.metadata.name, name(&cluster.metadata.name));
    let both = [infrastructure, control_plane];
    let are_owned = both.iter().all(|object| is_owned_by(object, "Cluster", cluster));
    let is_needed_no_more = are_owned && both.iter().any(|object| is_owned_by(object, KIND, &shim));
    if is_needed_no_more { Shim::Delete } else { Shim::Keep }
}

/// Whether an object has an owner of that kind and name; uid, group and version are not compared (LBL-06).
fn is_owned_by(object: &Object, kind: &str, name: &str) -> bool {
    object.owner_references().iter().any(|owner| owner["kind"] == kind && owner["name"] == name)
}
