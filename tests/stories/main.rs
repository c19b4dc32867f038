//! Everything that is tested through the public interface, one file per story.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub, reason = "tests")]

mod admission_fixtures;
mod advisories;
#[path = "../../benches/support/api.rs"]
mod api;
mod authors;
mod commands;
mod connections;
mod conversion_fixtures;
mod documents;
mod exports;
mod faults;
#[path = "../../benches/support/fleet.rs"]
mod fleet;
mod fleet_plans;
mod floods;
#[path = "../support/gadgets.rs"]
mod gadgets;
#[path = "../support/judge.rs"]
mod judge;
mod kubectl;
#[path = "../support/kubectl.rs"]
mod kubectl_client;
#[path = "../support/kustomize.rs"]
mod kustomize;
mod layering;
mod manifests;
mod memory;
mod mistakes;
mod monitoring;
mod newcomer;
mod offline;
mod plans;
#[path = "../support/process.rs"]
mod process;
mod properties;
mod proposals;
mod rule_costs;
mod rules_documentation;
mod samples;
mod second_opinion;
mod secrets;
mod security;
mod serving;
mod sums;
mod templates;
#[path = "../support/tls_client.rs"]
mod tls_client;
mod topology_fixtures;
