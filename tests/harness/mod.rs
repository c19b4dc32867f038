//! What stories, cluster tests, image tests and the search for expensive inputs share.
//!
//! | module | what |
//! |---|---|
//! | `server` | the binary as a process: `topologist serve`, its log, probes and metrics |
//! | `kubectl` | kubectl for an API server |
//! | `programs` | programs that are built for tests |
//! | `reference` | what Cluster API's own functions make of objects |
//! | `wait` | waiting for a condition, with a message when it does not come true |
//! | `quiet` | the moment when topologist has seen everything and has nothing left to do |
//! | `controllers` | the controllers in the process of the test |
//! | `objects` | objects of any kind through a client, and fixtures |
//! | `extension`, `extension_hooks` | a Runtime Extension whose handlers do what a test says |
//! | `webhook` | a webhook that allows everything and keeps its requests |
//! | `tls_server`, `tls_client` | HTTPS for a router; a client that shows what a server does |
//! | `kubernetes`, `controller_manager` | a real kube-apiserver with etcd; a real kube-controller-manager |
//! | `kustomize` | manifests as `kubectl apply -k` sends them |
//! | `balancer`, `network`, `faulty_api` | what stands between topologist and an API server: a Service, a network that fails, an API server that fails |
//! | `kubectl_stories` | stories about kubectl, for any API server |
//! | `deletions` | deletions of objects that own each other, for any store |
//! | `chance` | random choices that a seed determines |
//! | `verdicts` | verdicts of the admission engine |
#![allow(dead_code, unused_macros, unused_imports, reason = "each test binary uses a part of the harness")]

pub mod balancer;
pub mod chance;
pub mod controller_manager;
pub mod controllers;
pub mod deletions;
pub mod extension;
pub mod extension_hooks;
pub mod faulty_api;
pub mod kubectl;
pub mod kubectl_stories;
pub mod kubernetes;
pub mod kustomize;
pub mod network;
pub mod objects;
pub mod programs;
pub mod quiet;
pub mod reference;
pub mod server;
pub mod tls_client;
pub mod tls_server;
pub mod verdicts;
pub mod wait;
pub mod webhook;
