//! Stories on a real kube-apiserver and etcd.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub, reason = "tests")]

mod admission;
mod client_certificates;
mod installation;
#[path = "../support/kubernetes.rs"]
mod kubernetes;
#[path = "../support/kustomize.rs"]
mod kustomize;
#[path = "../support/process.rs"]
mod process;
mod variables;
#[path = "../support/recorder.rs"]
mod recorder;
