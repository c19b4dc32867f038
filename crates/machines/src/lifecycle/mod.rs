//! Machines and what they need, from a Cluster to its Nodes, as pure step functions: what Cluster API's machine controllers and its
//! providers do.
//!
//! The states are those of Cluster API's
//! [machine states](https://github.com/kubernetes-sigs/cluster-api/blob/main/docs/proposals/20190610-machine-states-preboot-bootstrapping.md)
//! and of the [provider contracts](https://cluster-api.sigs.k8s.io/developer/providers/contracts/overview).
//!
//! ```text
//! objects.rs: what there is ─► context.rs: facts for one step ─► next(id) ─► step.rs: writes, events, when to look again
//!      ▲                            │                                                  │
//!      │                            └─ Needs: kinds that are not listed yet             │
//!      └── fold.rs (a virtual clock) or the controllers (an API server) ◄──────────────┘
//! next.rs: which function looks after which kind; wake.rs: which objects a change concerns; following.rs: which workload clusters are
//! those of others
//! ```
//!
//! A step looks at one object and the objects around it. It has no clock, no randomness and no sockets: the time, and the
//! settings from which delays and failures come, are arguments, and generated names follow from uids. Steps are repeated until
//! none has anything to write, and again when a time has passed that one has named.

mod begin;
mod cluster;
pub mod conditions;
mod clone;
mod context;
pub mod contract;
mod fields;
mod following;
pub mod fold;
mod health_check;
pub mod hooks;
mod machine;
mod machine_deployment;
mod machine_pool;
mod machine_set;
mod names;
mod next;
pub mod objects;
mod provider;
pub mod settings;
mod step;
#[cfg(test)]
mod testing;
pub mod wake;

pub use cluster::{CLUSTER_TRANSITIONS, FINALIZER as CLUSTER_FINALIZER};
pub use context::{Context, Fault};
pub use machine::{Phase, TRANSITIONS};
pub use machine_set::CHECK_FAILED;
pub use next::next;
pub use objects::{GroupKind, ObjectId, Objects};
pub use provider::adopted::adopt;
pub use provider::delays::STARTUP_JITTER;
pub use provider::flow::{CLUSTER_FLOW, Flow, MACHINE_FLOW};
pub use provider::infrastructure_pool::{PoolInstance, instances};
pub use settings::Settings;
pub use step::{Event, Outcome, Step, Write};

use model::hub::{Object, ObjectKey};

/// Puts a value at a dotted path of an object; `null` takes away what is there.
pub fn put_at(object: &mut Object, path: &str, value: serde_json::Value) {
    fields::set(object, path, value);
}

/// Sets an annotation of an object.
pub fn annotate(object: &mut Object, name: &str, value: &str) {
    fields::set_annotation(object, name, value);
}

/// The Cluster that is an owner of an object.
pub fn owning_cluster(object: &Object) -> Option<ObjectKey> {
    Some(ObjectKey::new(object.namespace(), fields::owner_name(object, "Cluster")?))
}

pub use fields::{cluster_key, later, owner_name};
