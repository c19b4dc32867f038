//! The section "Break glass" of docs/operations.md: its commands, run as they are printed, on a real API server.
//!
//! ```text
//!  docs/operations.md ──► bash, kubectl ──► kube-apiserver ──► Service (an ExternalName: localhost) ──► Balancer
//!                                              ▲    │ Deployment                                           │
//!                                              │    └────► Nodes ──── starts, stops ────► replicas of the binary
//!                                              └────────────────────────────────────────────────┘
//! ```
//!
//! The control plane of the tests has no Deployment controller and no kubelet. Commands change the Deployment object,
//! and [`nodes::Nodes`] stands in for both: it runs the binary with the variables of the Deployment, and writes its
//! status.

mod guide;
mod nodes;
mod site;
mod stories;
