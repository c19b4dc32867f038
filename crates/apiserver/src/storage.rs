//! Served kinds and stored objects.
//!
//! ```text
//! load.rs (files) ─► store.rs, stored.rs, index.rs ◄─ collect.rs: what follows from a write; log.rs, expiry.rs, retention.rs: what is kept
//!                      ▲ kinds
//!       registry.rs ◄─ kinds.rs, workload_kinds.rs, definition.rs ─► structure.rs, metadata.rs: what objects look like
//! ```

pub(super) mod builtin;
pub(super) mod collect;
pub(super) mod definition;
mod expiry;
mod index;
mod kinds;
mod load;
mod log;
pub(super) mod metadata;
pub(super) mod random;
pub(super) mod registry;
mod retention;
#[cfg(test)]
pub(super) mod sample;
pub(super) mod shape;
pub(super) mod status;
pub(super) mod store;
pub(super) mod stored;
pub(super) mod kind_schema;
mod workload_kinds;

pub use builtin::Builtin;
pub use kind_schema::KindSchema;
pub use load::LoadError;
pub use registry::{KindRegistry, PrinterColumn, ScalePaths, ServedResource};
pub use retention::Retention;

pub(crate) use kinds::management_registry;
pub(crate) use load::make_namespaces;
pub(crate) use store::StoreState;
pub(crate) use workload_kinds::workload_registry;
