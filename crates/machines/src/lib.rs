//! What controllers of machines and providers do, as steps that are ordinary functions.
//!
//! ```text
//!  objects, time ─► lifecycle            one step of one object ─► writes, events, when to look again
//!  definitions, roles, objects ─► provider_contract ─► findings about a provider
//! ```
//!
//! The contracts of Cluster API and the phases of a Machine are here. Nothing here knows topologies. A step has no sockets, files, clocks or
//! random sources: who runs it passes the time.

pub mod lifecycle;
pub mod provider_contract;
