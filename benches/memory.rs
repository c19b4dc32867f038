//! Memory of the guard: 1,000 Clusters and 50 classes in its caches, and 100,000 reviews.
//!
//! The binary runs in a process of its own and follows an API server, which here is a few lines that serve two lists
//! and never change. Memory is what Linux counts as resident (VmRSS).
//! `cargo bench --profile dist --bench memory -- [--quick]`; exit code 1 when a budget is missed by more than the
//! tolerance.

#![allow(clippy::unwrap_used, clippy::disallowed_macros, unreachable_pub, reason = "a benchmark")]

mod support {
    pub mod api;
    pub mod budgets;
    pub mod fleet;
    pub mod server;
}
#[path = "../tests/harness/tls_client.rs"]
mod tls_client;

use std::time::Duration;

use bytes::Bytes;

use support::api;
use support::budgets::{Budget, Budgets};
use support::fleet::{self, Written};
use support::server::{Process, certificates};
use tls_client::{Connection, Protocol};

const CLUSTERS: usize = 1000;
const CLASSES: usize = 50;
const CONNECTIONS: usize = 8;
const PATHS: [&str; 2] = ["/mutate-cluster-x-k8s-io-v1beta2-cluster", "/validate-cluster-x-k8s-io-v1beta2-cluster"];

/// What a hundred thousand reviews may leave behind, in MB: 50 bytes per review would be a leak.
const GROWTH: f64 = 5.0;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let reviews = if quick { 10_000 } else { 100_000 };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let classes = (0..CLASSES).map(fleet::class).collect();
    let clusters = (0..CLUSTERS).map(|i| fleet::cluster(i, i % CLASSES, Written::Completely)).collect();
    let address = runtime.block_on(api::serve(classes, clusters));
    let folder = tempfile::tempdir().unwrap();
    let authority = certificates(folder.path());
    let kubeconfig = api::kubeconfig(folder.path(), address);
    let arguments = ["--admin-addr=127.0.0.1:0", "--kubeconfig", kubeconfig.to_str().unwrap()];
    let guard = Process::topologist(folder.path(), &arguments);
    let mut budgets = Budgets::titled(&format!(
        "Memory of the guard: {CLUSTERS} Clusters of 20 KB and {CLASSES} classes in its caches"
    ));
    let send = |count: usize| runtime.block_on(reviewed(&guard.address, authority.as_bytes(), count));
    guard.wait_for("Listed objects", 2);
    // What is freed goes back to the system a little later.
    std::thread::sleep(Duration::from_secs(2));
    let filled = guard.megabytes("VmRSS");
    budgets.note("resident, once the caches are filled", "MB", Budget::AtMost(100.0), filled);
    budgets.note("the most there was while they were filled", "MB", Budget::None, guard.megabytes("VmHWM"));
    // What buffers and heaps need under load is there after a while.
    send(reviews / 5);
    let warm = guard.megabytes("VmRSS");
    budgets.note(&format!("resident, after {} reviews", reviews / 5), "MB", Budget::AtMost(100.0), warm);
    send(reviews);
    let end = guard.megabytes("VmRSS");
    budgets.note(&format!("resident, after {reviews} more"), "MB", Budget::AtMost(100.0), end);
    budgets.note(&format!("what these {reviews} reviews left behind"), "MB", Budget::AtMost(GROWTH), end - warm);
    drop(guard);
    budgets.finish();
}

/// Sends so many reviews of many Clusters, to both end points in turns, over a few connections.
async fn reviewed(address: &str, authority: &[u8], count: usize) {
    let bodies: std::sync::Arc<[Bytes]> =
        (0..CLASSES).map(|i| fleet::review(&fleet::cluster(i, i, Written::ByHand)).into()).collect();
    let mut workers = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut connection = Connection::open(address, authority, Protocol::Http2).await.unwrap();
        let bodies = bodies.clone();
        workers.push(tokio::spawn(async move {
            for i in 0..count / CONNECTIONS {
                let (code, answer) = connection.post(PATHS[i % 2], bodies[i % CLASSES].clone()).await.unwrap();
                assert!(code == 200 && answer.contains("\"allowed\":true"), "{answer}");
            }
        }));
    }
    for worker in workers {
        worker.await.unwrap();
    }
}
