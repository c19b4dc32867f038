//! Machines on a real kube-apiserver: the binary with the permissions of the component `lifecycle` and the embedded
//! provider, and kube-controller-manager, which collects garbage.
//!
//! ```text
//!  kubectl ─────► kube-apiserver ◄──── kube-controller-manager: garbage
//!                    │    ▲  ▲
//!            reviews ▼    │  └──────── topologist of a story, in its namespace: --lifecycle=on
//!        topologist: guard of all namespaces
//! ```
//!
//! The stories of `tests/machines` run here and in `stories`, on the embedded API.

#[path = "../../machines/mod.rs"]
mod both;
mod component;
mod leaders;
mod backend;
mod server;
mod simulated;
mod story;
