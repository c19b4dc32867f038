//! Stories on a real kube-apiserver and etcd.

mod admission;
#[path = "../support/kubernetes.rs"]
mod kubernetes;
#[path = "../support/process.rs"]
mod process;
