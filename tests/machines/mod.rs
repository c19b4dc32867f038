//! Stories about machines that topologist's controllers drive, by kubectl: `stories` runs them on the embedded API, and
//! `cluster` on a real kube-apiserver.

mod classes;
mod creation;
mod deletion;
mod failures;
pub mod server;
mod hybrid;
mod own_data;
mod rollouts;
mod upgrades;
