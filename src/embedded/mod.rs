//! An in-memory Kubernetes API: the REST subset that the program and kubectl need, in the process itself.
//!
//! ```text
//! http request ─► request.rs ─► read.rs, watch.rs ────────────────────► answer
//!                     │              ▲ snapshots
//!                     │          store.rs ◄─ collect.rs: what follows from a write
//!                     │              ▲ commit, or once more if the object has moved
//!                     └─► write.rs ──┴─ decode ─► patch ─► managers ─► admission ─► validation
//!                         discovery.rs, table.rs: what clients ask besides
//! ```
//!
//! [`Embedded`] is a handle; clones share one store. It is for trying, testing and simulating: nothing outlives the
//! process. What a server leaves to controllers (namespaces, kinds, garbage) happens within the write from which it
//! follows.

mod admission;
mod builtin;
mod collect;
mod decode;
mod definition;
mod discovery;
mod metadata;
mod registry;
mod request;
mod selector;
mod status;
mod store;
mod structure;
mod table;

pub use admission::{Admission, Asked, Phase, Webhook};
pub use builtin::Builtin;
pub use registry::{Column, Registry, Resource, Scale};
pub use structure::Structure;
