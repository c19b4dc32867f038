//! Why nothing could be computed.

use super::patches::{PatchError, told};
use crate::field::FieldError;
use crate::hub::{ObjectKey, ObjectRef, WrongType};

/// Why a topology could not be computed; nothing is written then.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// A fact has not been gathered: what was computed is void, and the needs of the world say what to gather.
    #[error("a fact has not been gathered yet")]
    NotAsked,
    /// Something exists, or may, and cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// BP-01.
    #[error("ClusterClass {0} was not found")]
    NoClass(ObjectKey),
    /// BP-02.
    #[error("ClusterClass {class} is not ready: {expected}")]
    ClassNotReady { class: ObjectKey, expected: String },
    /// BP-03: a variable does not fit the class.
    #[error("the variables of the Cluster do not fit its class: {}", crate::field::join(.0))]
    InvalidCluster(Vec<FieldError>),
    /// BP-07, CS-02 to CS-12.
    #[error("{what} {object} was not found")]
    NotFound { what: &'static str, object: ObjectRef },
    /// CS-13.
    #[error(
        "{object} does not carry the label topology.cluster.x-k8s.io/owned: it is not part of the topology, and has to be resolved by hand"
    )]
    Foreign { object: ObjectRef },
    /// CS-04, CS-10, CS-12, DS-11, DS-14.
    #[error("{object} has no complete reference at {path}")]
    NoReference { object: ObjectRef, path: &'static str },
    /// CS-09, CS-12.
    #[error("{object} has no label {label}")]
    NoTopologyName { object: ObjectRef, label: &'static str },
    /// CS-09, CS-12.
    #[error("{kind}s {first} and {second} both have the topology name {topology_name:?}")]
    SameTopologyName { kind: &'static str, first: ObjectKey, second: ObjectKey, topology_name: String },
    /// CS-10, DS-24.
    #[error("the class {class:?} of {kind} {topology_name:?} is not among the {kind} classes of the ClusterClass")]
    NoWorkerClass { kind: &'static str, topology_name: String, class: String },
    /// CT-4.6.
    #[error("CustomResourceDefinition {definition} was not found")]
    NoDefinition { definition: String },
    /// CS-08.
    #[error(
        "CustomResourceDefinition {definition} lists version {version} for no contract in its labels cluster.x-k8s.io/<contract>"
    )]
    NoContract { definition: String, version: String },
    /// CS-08.
    #[error("CustomResourceDefinition {definition} names no version for contract v1beta2 or v1beta1 in its labels")]
    NoVersion { definition: String },
    /// PE-11 to PE-29: all that is wrong with one patch.
    #[error("{}", told(.0))]
    Patches(Vec<PatchError>),
    /// CT-5.1.
    #[error(transparent)]
    WrongType(#[from] WrongType),
}
