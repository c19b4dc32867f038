//! What is left when Clusters, classes and namespaces are deleted, where a real garbage collector runs.
//!
//! ```text
//!  kubectl delete ──► kube-apiserver ◄──── kube-controller-manager: garbage, namespaces
//!                        │    ▲  ▲
//!                reviews ▼    │  └──────── provider of the tests: status
//!                      topologist: all controllers, --lifecycle=on
//! ```
//!
//! All stories share these processes, on a kube-apiserver that no other test uses; each has a namespace of its own.

mod clusters;
mod demo;
mod ground;
mod namespaces;
mod orphans;
mod templates;
