//! Object metadata, object keys, and the annotations that rules read.

use std::fmt;

use golang::json::{StringMap, lenient};

lenient! {
    /// ObjectMeta, reduced to the fields that are read.
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

/// Identifies an object within its kind; displayed as `namespace/name`.
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

/// Names of labels.
pub mod label {
    /// On all objects of a Cluster: its name.
    pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
    /// On all objects created by a topology; the value is empty.
    pub const OWNED: &str = "topology.cluster.x-k8s.io/owned";
    /// On objects of a machine deployment: its name in the topology.
    pub const DEPLOYMENT_NAME: &str = "topology.cluster.x-k8s.io/deployment-name";
    /// On objects of a machine pool: its name in the topology.
    pub const POOL_NAME: &str = "topology.cluster.x-k8s.io/pool-name";
    /// On a MachineSet and its machines: the name of their MachineDeployment.
    pub const MACHINE_DEPLOYMENT_NAME: &str = "cluster.x-k8s.io/deployment-name";
    /// On a Machine: the name of its MachineSet.
    pub const SET_NAME: &str = "cluster.x-k8s.io/set-name";
    /// On a Machine: the name of its MachinePool.
    pub const MACHINE_POOL_NAME: &str = "cluster.x-k8s.io/pool-name";
    /// On machines of a control plane; the value is empty.
    pub const CONTROL_PLANE: &str = "cluster.x-k8s.io/control-plane";
}

/// Names of annotations.
pub mod annotation {
    /// On an object that was cloned: the name of its template.
    pub const CLONED_FROM_NAME: &str = "cluster.x-k8s.io/cloned-from-name";
    /// On an object that was cloned: kind and group of its template, as `Kind.group`.
    pub const CLONED_FROM_KIND: &str = "cluster.x-k8s.io/cloned-from-groupkind";
    /// On an object: controllers do not reconcile it.
    pub const PAUSED: &str = "cluster.x-k8s.io/paused";
    /// On an infrastructure cluster that is managed externally.
    pub const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";
    /// In the metadata of a worker topology: it and later ones are not upgraded.
    pub const HOLD_UPGRADE_SEQUENCE: &str = "topology.cluster.x-k8s.io/hold-upgrade-sequence";
    /// In the metadata of a worker topology: it is not upgraded.
    pub const DEFER_UPGRADE: &str = "topology.cluster.x-k8s.io/defer-upgrade";
    /// On a Cluster that is being upgraded: the current target version of its control plane (DS-23).
    pub const UPGRADE_STEP: &str = "topology.internal.cluster.x-k8s.io/upgrade-step";
    /// On a Cluster: annotations with this prefix hold an upgrade before it starts (HK-13).
    pub const BEFORE_UPGRADE_PREFIX: &str = "before-upgrade.hook.cluster.cluster.x-k8s.io";
    /// What `kubectl apply` noted.
    pub use schema::ssa::LAST_APPLIED;
    /// On a Cluster: a topology or another class may be set although there was none.
    pub const DISABLE_CLASS_NAME_CHECK: &str = "unsafe.topology.cluster.x-k8s.io/disable-update-class-name-check";
    /// On a Cluster: version changes are not checked.
    pub const DISABLE_VERSION_CHECK: &str = "unsafe.topology.cluster.x-k8s.io/disable-update-version-check";
    /// On a Cluster: maximum number of machine deployments that upgrade concurrently.
    pub const UPGRADE_CONCURRENCY: &str = "topology.cluster.x-k8s.io/upgrade-concurrency";
    /// On a Cluster: hooks that are yet to be called, comma-separated.
    pub const PENDING_HOOKS: &str = "runtime.cluster.x-k8s.io/pending-hooks";
    /// On a Cluster that is being deleted: no hook blocks the deletion (any more).
    pub const OK_TO_DELETE: &str = "runtime.cluster.x-k8s.io/ok-to-delete";
    /// On a Cluster: it is deleted without calling its hooks `BeforeClusterDelete` (DEC-56).
    pub const SKIP_DELETE_HOOKS: &str = "unsafe.topologist.dev/skip-delete-hooks";
    /// On a Cluster: a record of the sources of its objects at the last rollout (DEC-59).
    pub const ROLLED_OUT: &str = "topologist.dev/rolled-out";
    /// On a ClusterClass: changes that break Clusters are allowed, with a warning for each (DEC-1).
    pub const ALLOW_BREAKING_CLUSTERS: &str = "unsafe.topologist.dev/allow-breaking-clusters";
    /// On a template: it can be deleted although a ClusterClass in use refers to it (DEC-110).
    pub const DELETE_TEMPLATE_IN_USE: &str = "unsafe.topologist.dev/delete-template-in-use";
    /// On an object moved by `clusterctl move`: it is deleted in the source cluster.
    pub const DELETE_FOR_MOVE: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
    /// On an object of v1beta1: the data that only its v1beta2 form has (CONV-013).
    pub const CONVERSION_DATA: &str = "cluster.x-k8s.io/conversion-data";
    /// On objects of a dry run: webhooks of providers allow changes of immutable fields (SSA-08).
    pub const DRY_RUN: &str = "topology.cluster.x-k8s.io/dry-run";
    /// On a MachineDeployment or MachineSet: preflight checks that are skipped.
    pub const SKIP_PREFLIGHT_CHECKS: &str = "machineset.cluster.x-k8s.io/skip-preflight-checks";
    /// In the metadata of a machine deployment: the autoscaler's lower bound.
    pub const AUTOSCALER_MIN_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
    /// In the metadata of a machine deployment: the autoscaler's upper bound.
    pub const AUTOSCALER_MAX_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
}
