//! Topologies rolled out by our controllers, on the in-memory API and on a real kube-apiserver: the same stories.
//!
//! ```text
//! a user (site.rs) ──────► API server ◄──── wire (layer.rs) ──── our controllers (site.rs: Manager)
//! provider (provider.rs) ──────┘
//! ```

mod agreement;
mod crash;
mod foreseen;
mod layer;
mod process;
pub(crate) mod provider;
pub(crate) mod site;
mod stories;
mod templates;
