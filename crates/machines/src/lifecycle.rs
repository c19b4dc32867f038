//! Lifecycle of machines and their providers, from a Cluster to its Nodes, as pure step functions: the counterpart of
//! Cluster API's machine controllers and providers.
//!
//! The states are those of Cluster API's
//! [machine states](https://github.com/kubernetes-sigs/cluster-api/blob/main/docs/proposals/20190610-machine-states-preboot-bootstrapping.md)
//! and of the [provider contracts](https://cluster-api.sigs.k8s.io/developer/providers/contracts/overview).
//!
//! ```text
//! objects.rs: known objects ─► context.rs: facts for one step ─► next(id) ─► step.rs: writes, events, requeue time
//!      ▲                            │                                            │
//!      │                            └─ Needs: kinds that are not listed yet       │
//!      └── simulator.rs (a virtual clock) or the controllers (an API server) ◄────┘
//! dispatch.rs: the step function of each kind; dependents.rs: objects affected by a change
//! workload_connection.rs: workload clusters with an external control plane
//! ```
//!
//! A step reads one object and the objects around it. It has no clock, randomness or sockets: time and settings
//! (delays, failures) are arguments, and generated names follow from uids. Steps are repeated until none has writes,
//! and again after the requested requeue time.

mod begin;
mod cluster;
mod condition_status;
pub mod conditions;
mod clone;
mod context;
pub mod contract;
mod digest;
mod fields;
mod workload_connection;
pub mod simulator;
mod health_check;
pub mod hooks;
mod machine;
mod machine_deployment;
mod machine_pool;
mod machine_set;
mod names;
mod dispatch;
pub mod objects;
mod provider;
pub mod settings;
mod selector;
mod step;
#[cfg(test)]
mod testing;
pub mod dependents;

pub use cluster::{CLUSTER_TRANSITIONS, FINALIZER as CLUSTER_FINALIZER};
pub use context::{StepContext, StepError};
pub use dispatch::next;
pub use machine::{MachinePhase, TRANSITIONS};
pub use machine_set::CHECK_FAILED;
pub use objects::{GroupKind, MachineCache, ObjectId, RefusedEviction};
pub use provider::adoption::adopt;
pub use provider::delays::STARTUP_JITTER;
pub use provider::flow::{CLUSTER_FLOW, Flow, MACHINE_FLOW};
pub use provider::infrastructure_pool::{PoolInstance, instances};
pub use settings::MachineSettings;
pub use step::{ObjectWrite, Reconciliation, StepEvent, StepOutcome, StepWrite};

use model::hub::{Object, ObjectKey};

/// Sets the value at a dotted path of an object; `null` removes it.
pub fn set_field(object: &mut Object, path: &str, value: serde_json::Value) {
    fields::set(object, path, value);
}

/// Sets an annotation of an object.
pub fn annotate(object: &mut Object, name: &str, value: &str) {
    fields::set_annotation(object, name, value);
}

/// The owning Cluster of an object.
pub fn owning_cluster(object: &Object) -> Option<ObjectKey> {
    Some(ObjectKey::new(object.namespace(), fields::owner_name(object, "Cluster")?))
}

pub use fields::{cluster_key, later, owner_name};
