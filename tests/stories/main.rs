//! Everything that is tested through the public interface, one file per story.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub, reason = "tests")]

mod admission_fixtures;
#[path = "../../benches/support/api.rs"]
mod api;
mod commands;
mod conversion_fixtures;
#[path = "../../benches/support/fleet.rs"]
mod fleet;
#[path = "../support/kustomize.rs"]
mod kustomize;
mod layering;
mod manifests;
mod memory;
mod mistakes;
mod monitoring;
mod offline;
mod plans;
#[path = "../support/process.rs"]
mod process;
mod proposals;
mod rules_documentation;
mod second_opinion;
mod serving;
#[path = "../support/tls_client.rs"]
mod tls_client;
mod topology_fixtures;
