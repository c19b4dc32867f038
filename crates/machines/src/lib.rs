//! Controllers of machines and providers, as pure step functions.
//!
//! ```text
//!  objects, time ─► lifecycle            one step of one object ─► writes, events, when to look again
//!  definitions, roles, objects ─► provider_contract ─► findings about a provider
//! ```
//!
//! Implements Cluster API's contracts and the phases of a Machine; topologies are unknown here. A step has no sockets,
//! files, clocks or random sources: the caller passes the time.

pub mod lifecycle;
pub mod provider_contract;
