//! Stories on a real kube-apiserver and etcd.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub, reason = "tests")]

mod admission;
mod apply;
#[path = "../support/balancer.rs"]
mod balancer;
mod break_glass;
mod client_certificates;
mod clock;
mod controller;
#[path = "../support/controller_manager.rs"]
mod controller_manager;
mod conversion;
mod embedded_api;
mod faults;
#[path = "../support/faulty.rs"]
mod faulty;
#[path = "../support/gadgets.rs"]
mod gadgets;
mod garbage_collection;
mod installation;
mod kinds;
mod kubectl;
#[path = "../support/kubectl.rs"]
mod kubectl_client;
#[path = "../support/kubernetes.rs"]
mod kubernetes;
#[path = "../support/kustomize.rs"]
mod kustomize;
mod load;
mod machines;
mod new_ports;
mod overload;
mod plan_live;
#[path = "../support/process.rs"]
mod process;
#[path = "../support/recorder.rs"]
mod recorder;
mod replicas;
mod rollout;
mod self_managed;
mod server_side_apply;
mod template_finalizers;
mod upgrades;
mod variables;
