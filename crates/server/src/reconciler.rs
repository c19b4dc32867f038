//! Reconcilers: the writes of the leading process to the API server.
//!
//! ```text
//! kubernetes::lease: the leader ─► Leadership ─► every write checks may_write() first
//!                                    │
//!                                    ├─► controller.rs, users.rs: watches and queue of ClusterClasses ─► class.rs: one run
//!                                    ├─► extensions/: watch and queue of ExtensionConfigs ─► one discovery
//!                                    ├─► topology/: watches and queue of Clusters ─► one run
//!                                    ├─► templates/: watches and queues of MachineDeployments and MachineSets ─► one run
//!                                    └─► lifecycle/: watches of all kinds around machines and queue of their objects ─► one step
//! ```

use jiff::Timestamp;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation};
use kube::api::PatchParams;
use serde_json::Value;

/// Makes a type stand for the objects of a kind of Cluster API, whose metadata it has in a field.
macro_rules! resource {
    ($type:ty, $kind:expr, $metadata:tt) => {
        impl kube::Resource for $type {
            type DynamicType = ();
            type Scope = kube::core::NamespaceResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                $kind.name().into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                model::hub::GROUP.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                model::wire::WireVersion::V1Beta2.name().into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $kind.plural().into()
            }

            fn meta(&self) -> &kube::api::ObjectMeta {
                &self.$metadata
            }

            fn meta_mut(&mut self) -> &mut kube::api::ObjectMeta {
                &mut self.$metadata
            }
        }
    };
}

mod class;
pub mod extensions;
pub mod lifecycle;
pub mod controller;
pub mod names;
mod backoff;
mod due;
mod postponed;
mod raw;
mod runs;
pub mod setup;
pub mod templates;
pub mod topology;
mod users;

/// The current time in the format of conditions.
fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The field manager of writes of Clusters and classes. Topologies apply other objects with another field manager
/// (SSA-19, SSA-21).
fn in_our_name() -> PatchParams {
    PatchParams { field_manager: Some("topologist".to_owned()), ..PatchParams::default() }
}

fn add<const N: usize>(path: [&str; N], value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation { path: PointerBuf::from_tokens(path), value })
}
