//! Object metadata, object keys, and the annotations that rules read.

use std::fmt;

use crate::json::{StringMap, lenient};

lenient! {
    /// The part of ObjectMeta that the program reads.
    pub struct Metadata {
        pub name: String,
        pub generate_name: String,
        pub namespace: String,
        pub uid: String,
        pub resource_version: String,
        pub generation: i64,
        pub deletion_timestamp: Option<String>,
        pub labels: StringMap,
        pub annotations: StringMap,
    }
}

impl Metadata {
    /// Namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// Whether the object is being deleted.
    pub fn is_being_deleted(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}

/// Names an object within its kind; renders as `namespace/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    pub namespace: String,
    pub name: String,
}

impl ObjectKey {
    /// A key of two parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        ObjectKey { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Names of annotations.
pub mod annotation {
    /// On a Cluster: a topology or another class may be set although there was none.
    pub const DISABLE_CLASS_NAME_CHECK: &str = "unsafe.topology.cluster.x-k8s.io/disable-update-class-name-check";
    /// On a Cluster: version changes are not checked.
    pub const DISABLE_VERSION_CHECK: &str = "unsafe.topology.cluster.x-k8s.io/disable-update-version-check";
    /// On a Cluster: how many machine deployments upgrade at once.
    pub const UPGRADE_CONCURRENCY: &str = "topology.cluster.x-k8s.io/upgrade-concurrency";
    /// On a Cluster: hooks that the controller still has to call, comma-separated.
    pub const PENDING_HOOKS: &str = "runtime.cluster.x-k8s.io/pending-hooks";
    /// On a ClusterClass: a change may break Clusters that use it; warnings say which (DEC-1).
    pub const ALLOW_BREAKING_CLUSTERS: &str = "unsafe.topologist.dev/allow-breaking-clusters";
    /// On an object of v1beta1: what only its v1beta2 form has (CONV-013).
    pub const CONVERSION_DATA: &str = "cluster.x-k8s.io/conversion-data";
    /// In the metadata of a machine deployment: the autoscaler's lower bound.
    pub const AUTOSCALER_MIN_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
    /// In the metadata of a machine deployment: the autoscaler's upper bound.
    pub const AUTOSCALER_MAX_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
}
