//! The kinds of Cluster API, their wire versions, and facts about them.
//!
//! ```text
//!  wire ──► hub ◄── variables ◄── world      requests and files become the one model; facts answer questions about it
//!  crd ──► wire                               the definitions that are installed
//!  rollouts ──► hub                           which changes replace machines
//!  garbage ──► hub                            which objects a deletion takes with it
//! ```
//!
//! Nothing is decided here: rules are in the engine, controller steps in `machines`. There are no sockets, files,
//! clocks or random sources.

pub mod garbage;
pub mod hooks;
pub mod hub;
pub mod wire;
pub mod crd;
pub mod variables;
pub mod world;
pub mod rollouts;
