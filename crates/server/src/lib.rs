//! The webhook, the controllers, and their client of an API server: everything with sockets, files, time and
//! randomness.
//!
//! ```text
//!  kube-apiserver ─► webhook ─► engine                certificates   those that are presented and accepted
//!        ▲              │ gather                      telemetry      logs and metrics
//!        ├── kubernetes ┘   watches, caches, apply    extension_client ─► Runtime Extensions
//!        └── reconciler ─► engine, machines
//! ```
//!
//! A module asks the engine for a verdict or a plan, and carries it out. No module here decides what a topology looks
//! like.

pub mod telemetry;
pub mod extension_client;
pub mod kubernetes;
pub mod certificates;
pub mod webhook;
pub mod reconciler;
