//! Memory of the guard: 1,000 Clusters and 50 classes in its caches, and 100,000 reviews.
//!
//! The binary runs in a process of its own and follows an API server, which here is a few lines that serve two lists and
//! never change. Memory is what Linux counts as resident (VmRSS). `cargo bench --bench memory -- [--quick]`; exit code 1
//! when a budget is missed by more than the tolerance.

#![allow(clippy::unwrap_used, clippy::print_stdout, unreachable_pub, reason = "a benchmark")]

#[path = "support/budgets.rs"]
mod budgets;
#[path = "support/fleet.rs"]
mod fleet;
#[path = "support/server.rs"]
mod server;
#[path = "../tests/support/tls_client.rs"]
mod tls_client;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::get;
use bytes::Bytes;
use futures::stream;
use serde_json::{Value, json};

use budgets::{Budget, Budgets};
use fleet::Written;
use server::{Process, certificates};
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
    let address = runtime.block_on(api_server());
    let folder = tempfile::tempdir().unwrap();
    let authority = certificates(folder.path());
    let guard = serve(folder.path(), address);
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

/// The binary, which follows the API server at this address.
fn serve(folder: &Path, server: SocketAddr) -> Process {
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": format!("http://{server}")}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "users": [{"name": "bench", "user": {}}]});
    let path = folder.join("kubeconfig");
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    Process::topologist(folder, &["--admin-addr=127.0.0.1:0", "--kubeconfig", path.to_str().unwrap()])
}

/// An API server with a list of classes and a list of Clusters, page by page, and watches on which nothing happens.
async fn api_server() -> SocketAddr {
    let classes = (0..CLASSES).map(fleet::class).collect();
    let clusters = (0..CLUSTERS).map(|i| fleet::cluster(i, i % CLASSES, Written::Completely)).collect();
    let router = Router::new()
        .route("/apis/cluster.x-k8s.io/v1beta2/clusterclasses", collection("ClusterClassList", classes))
        .route("/apis/cluster.x-k8s.io/v1beta2/clusters", collection("ClusterList", clusters));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = hyper_util::service::TowerToHyperService::new(router.clone());
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(hyper_util::rt::TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    address
}

fn collection(kind: &'static str, objects: Vec<Value>) -> axum::routing::MethodRouter {
    let objects: std::sync::Arc<[Value]> = objects.into();
    get(async move |request: Request| {
        let query: BTreeMap<&str, &str> =
            request.uri().query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('=')).collect();
        if query.contains_key("watch") {
            return Response::new(Body::from_stream(stream::pending::<Result<Bytes, Infallible>>()));
        }
        let number = |name: &str| query.get(name).and_then(|text| text.parse::<usize>().ok());
        let start = number("continue").unwrap_or(0).min(objects.len());
        let end = objects.len().min(start + number("limit").unwrap_or(usize::MAX).min(objects.len()));
        let more = if end < objects.len() { end.to_string() } else { String::new() };
        let list = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"resourceVersion": "1", "continue": more}, "items": objects[start..end]});
        Response::new(list.to_string().into())
    })
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
