//! Throughput of reviews over TLS, against the least that a server could do.
//!
//! The yardstick is a bare axum handler behind the same listener code that decodes the same review into a JSON value
//! and answers `allowed`. Both servers are processes of their own, so that their processor time can be told apart from
//! the client's; they take turns in short rounds, so that a change in the machine's speed meets both.
//!
//! Budgets: at 20 KB at least 0.8 of the yardstick's throughput, and at most 100 µs more processor time per review.
//!
//! `cargo bench --profile dist --bench admission -- [--quick]`; exit code 1 when a budget is missed by more than the
//! tolerance.

#![allow(clippy::unwrap_used, clippy::disallowed_macros, unreachable_pub, reason = "a benchmark")]
#![allow(clippy::cast_precision_loss, reason = "counts and times are small")]

mod support {
    pub mod budgets;
    pub mod fleet;
    pub mod server;
}
#[path = "../tests/harness/tls_client.rs"]
mod tls_client;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use topologist::telemetry::metrics::Metrics;
use topologist::tls::identity::ServerIdentity;
use topologist::tls::pair::CertificateFiles;
use topologist::webhook::server::{ConnectionLimits, HttpServer};

use support::budgets::{Budget, Budgets};
use support::fleet;
use support::server::{Process, certificates};
use tls_client::{Connection, Protocol};

const END_POINTS: [(&str, &str); 2] = [
    ("mutating", "/mutate-cluster-x-k8s-io-v1beta2-cluster"),
    ("validating", "/validate-cluster-x-k8s-io-v1beta2-cluster"),
];

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(folder) = arguments.iter().find_map(|argument| argument.strip_prefix("--bare-server=")) {
        return bare_server(Path::new(folder));
    }
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let (rounds, round) = if quick { (2, Duration::from_millis(200)) } else { (5, Duration::from_millis(400)) };
    let folder = tempfile::tempdir().unwrap();
    let authority = certificates(folder.path());
    let ours = topologist(folder.path());
    let bare = bare(folder.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    println!("Reviews over TLS 1.3 and HTTP/2, keep-alive; medians of {rounds} rounds of {round:?} each, in turns.\n");
    println!(
        "{:>8} {:>11} {:>6} {:>10} {:>10} {:>6} {:>12} {:>12} {:>8}",
        "object", "end point", "conns", "bare /s", "ours /s", "ratio", "bare CPU µs", "ours CPU µs", "more µs"
    );
    let mut held = Vec::new();
    for size in [2, 20, 200] {
        let body: Bytes = fleet::review(&fleet::cluster_of_size(size)).into();
        for (end_point, path) in END_POINTS {
            for connections in [1, 8, 64] {
                let mut results = [Vec::new(), Vec::new()];
                for _ in 0..rounds {
                    for (process, results) in [&bare, &ours].into_iter().zip(&mut results) {
                        let load = load(process, authority.as_bytes(), path, &body, connections, round);
                        results.push(runtime.block_on(load));
                    }
                }
                let [bare, ours] = results.map(Measured::median);
                let (ratio, more) = (ours.per_second / bare.per_second, ours.cpu_micros - bare.cpu_micros);
                println!(
                    "{:>8} {end_point:>11} {connections:>6} {:>10.0} {:>10.0} {ratio:>6.2} {:>12.1} {:>12.1} \
                     {more:>8.1}",
                    format!("{size} KB"),
                    bare.per_second,
                    ours.per_second,
                    bare.cpu_micros,
                    ours.cpu_micros
                );
                if size == 20 {
                    held.push((format!("{end_point}, {connections} connections"), ratio, more));
                }
            }
        }
    }
    drop((ours, bare));
    let mut budgets =
        Budgets::titled("Reviews of a 20 KB Cluster with a class of 20 variables over TLS, against a bare handler");
    for (what, ratio, more) in held {
        budgets.note(&format!("{what}: throughput"), "×", Budget::AtLeast(0.8), ratio);
        budgets.note(&format!("{what}: more processor time"), "µs", Budget::AtMost(100.0), more);
    }
    budgets.finish();
}

/// The binary, with a class for the reviews to find.
fn topologist(folder: &Path) -> Process {
    let world = folder.join("class.json");
    std::fs::write(&world, fleet::class(0).to_string()).unwrap();
    Process::topologist(
        folder,
        &["--embedded", "--controllers=none", "--admin-addr=127.0.0.1:0", "--load", world.to_str().unwrap()],
    )
}

/// The yardstick.
fn bare(folder: &Path) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    Process::start(command.arg(format!("--bare-server={}", folder.display())), &folder.join("log-of-bare"))
}

/// What one round showed.
#[derive(Clone, Copy, Debug)]
struct Measured {
    per_second: f64,
    /// Processor time of the server per review.
    cpu_micros: f64,
}

impl Measured {
    fn median(all: Vec<Measured>) -> Measured {
        let middle = |value: fn(&Measured) -> f64| {
            let mut values: Vec<f64> = all.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        Measured { per_second: middle(|m| m.per_second), cpu_micros: middle(|m| m.cpu_micros) }
    }
}

/// Sends reviews one after the other on each connection until the time is up.
async fn load(
    process: &Process,
    authority: &[u8],
    path: &'static str,
    body: &Bytes,
    connections: usize,
    time: Duration,
) -> Measured {
    let mut open = Vec::new();
    for _ in 0..connections {
        let mut connection = Connection::open(&process.address, authority, Protocol::Http2).await.unwrap();
        connection.post(path, body.clone()).await.unwrap();
        open.push(connection);
    }
    let (cpu, started) = (process.cpu(), Instant::now());
    let workers: Vec<_> = open
        .into_iter()
        .map(|mut connection| {
            let body = body.clone();
            tokio::spawn(async move {
                let mut answered = 0_u64;
                while started.elapsed() < time {
                    let (code, answer) = connection.post(path, body.clone()).await.unwrap();
                    assert!(code == 200 && answer.contains("\"allowed\":true"), "{answer}");
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    let mut answered = 0;
    for worker in workers {
        answered += worker.await.unwrap();
    }
    let (elapsed, cpu) = (started.elapsed(), process.cpu() - cpu);
    Measured { per_second: answered as f64 / elapsed.as_secs_f64(), cpu_micros: cpu * 1e6 / answered as f64 }
}

/// What the yardstick does.
fn bare_server(folder: &Path) {
    let files = CertificateFiles { certificate: folder.join("tls.crt"), key: folder.join("tls.key") };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let metrics = Arc::new(Metrics::default());
        let identity = Arc::new(ServerIdentity::new(None, metrics.clone()));
        identity.install(&files.read().unwrap(), &files).unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        let server = HttpServer::bind(address, Some(identity), ConnectionLimits::default(), metrics).await.unwrap();
        println!("https://{}", server.local_address().unwrap());
        let router = END_POINTS.into_iter().fold(Router::new(), |router, (_, path)| router.route(path, post(allow)));
        let router = router.layer(axum::extract::DefaultBodyLimit::max(7 << 20));
        server.serve(router, CancellationToken::new()).await;
    });
}

async fn allow(body: Bytes) -> Vec<u8> {
    let review: Value = serde_json::from_slice(&body).unwrap();
    let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": true}});
    serde_json::to_vec(&answer).unwrap()
}
