//! Everything that is tested through the public interface, one file per story.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_macros, unreachable_pub, reason = "tests")]

mod admission_fixtures;
mod advisories;
mod agreement;
mod authors;
mod ceilings;
mod check_provider;
mod commands;
mod connections;
mod consoles;
mod conversion_fixtures;
mod conversion_reference;
mod definitions;
mod documents;
mod english;
mod exports;
mod extension_config_reference;
mod extensions;
mod faults;
mod files;
mod findings;
mod fleet_plans;
mod floods;
mod forecasts;
mod format_schemas;
mod garbage;
mod held_edits;
mod hostile_texts;
mod included_definitions;
mod kubectl;
mod layering;
mod lost_steps;
mod machines;
mod manifests;
mod memory;
mod mistakes;
mod mutants;
mod monitoring;
mod newcomer;
mod offline;
mod plans;
mod prerequisites;
mod properties;
mod proposals;
mod rule_costs;
mod rules_documentation;
mod runtime_extensions;
mod samples;
mod scaling;
mod second_opinion;
mod secrets;
mod security;
mod serving;
mod simulate;
mod specifications;
mod sums;
mod templates;
mod terminal;
mod topology_fixtures;
mod workload_clusters;
mod transitions;
mod variables_reference;

#[path = "../harness/mod.rs"]
mod harness;
#[path = "../../benches/support"]
mod benches {
    pub mod api;
    pub mod fleet;
}
use benches::{api, fleet};
