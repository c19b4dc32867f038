//! Cluster API's own managers: core, kubeadm control plane and bootstrap, and the development provider, whose machines
//! exist in its memory. topologist has taken over the topologies.
//!
//! ```text
//!  kubectl ─────► kube-apiserver ◄──── kube-controller-manager: garbage, namespaces, aggregated roles
//!                    │    ▲  ▲
//!            reviews ▼    │  └──────── core (ClusterTopology=false), control-plane, bootstrap, provider
//!              topologist ┘                        │ ports 20000…                      ▲
//!          overlays/take-over                      └──── API servers of the Clusters ──┘
//! ```
//!
//! The programs and their manifests are those of the modules that `tests/kubernetes/reference/go.mod` pins. All stories
//! share these processes; each has a namespace of its own.

mod deletions;
mod extension;
mod history;
mod hooks;
mod managers;
mod returns;
mod site;
mod specs;
mod stack;
mod stories;
mod table;
