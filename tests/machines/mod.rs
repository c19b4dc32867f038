//! Stories about machines that topologist's controllers drive, by kubectl: `stories` runs them on the embedded API, and `cluster` on a
//! real kube-apiserver.

mod creation;
mod deletion;
mod failures;
pub mod ground;
mod rollouts;
mod upgrades;
