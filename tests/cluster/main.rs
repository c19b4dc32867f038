//! Stories on a real kube-apiserver and etcd.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_macros, unreachable_pub, reason = "tests")]

mod admission;
mod apply;
mod break_glass;
mod client_certificates;
mod clock;
mod controller;
mod conversion;
mod embedded_api;
mod extension_configs;
mod external_control_planes;
mod faults;
mod garbage_collection;
mod impact;
mod included_definitions;
mod installation;
mod kinds;
mod kubectl;
mod lifecycle;
mod load;
mod machines;
mod network;
mod new_ports;
mod outages;
mod overload;
mod plan_live;
mod port_forward;
mod reference;
mod replicas;
mod rollout;
mod rule_costs;
mod self_managed;
mod server_side_apply;
mod template_finalizers;
mod upgrades;
mod variables;

#[path = "../harness/mod.rs"]
mod harness;
