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
mod self_managed;
mod server_side_apply;
mod template_finalizers;
mod upgrades;
mod variables;

#[path = "../support"]
mod support {
    pub mod balancer;
    pub mod controller_manager;
    pub mod cut;
    pub mod deletions;
    pub mod faulty;
    pub mod gadgets;
    pub mod kubectl;
    pub mod kubernetes;
    pub mod kustomize;
    pub mod lab;
    pub mod process;
    pub mod recorder;
    pub mod tls_client;
    pub mod upgrade_hooks;
}
use support::{
    balancer, controller_manager, cut, deletions, faulty, gadgets, kubectl as kubectl_client, kubernetes, kustomize,
    lab, process, recorder, tls_client, upgrade_hooks,
};
