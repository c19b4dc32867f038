//! Throughput of reviews over TLS, against the least that a server could do.
//!
//! The yardstick is a bare axum handler behind the same listener code that decodes the same review into a JSON value and
//! answers `allowed`. Both servers are processes of their own, so that their processor time can be told apart from the
//! client's; they take turns in short rounds, so that a change in the machine's speed meets both.
//!
//! Budgets: at 20 KB at least 0.8 of the yardstick's throughput, and at most 100 µs more processor time per review.
//!
//! `cargo bench --bench admission -- [--quick]`; exit code 1 when a budget is missed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, unreachable_pub, reason = "a benchmark")]
#![allow(clippy::cast_precision_loss, reason = "counts and times are small")]

#[path = "../tests/support/tls_client.rs"]
mod tls_client;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use topologist::telemetry::metrics::Metrics;
use topologist::webhook::server::{Limits, Server};
use topologist::webhook::tls::{Files, Identity};

use tls_client::{Connection, Protocol};

const PATH: &str = "/validate-cluster-x-k8s-io-v1beta2-cluster";
const VARIABLES: usize = 20;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(folder) = arguments.iter().find_map(|argument| argument.strip_prefix("--bare-server=")) {
        return bare_server(Path::new(folder));
    }
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let (rounds, round) = if quick { (2, Duration::from_millis(200)) } else { (5, Duration::from_millis(600)) };
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let authority = std::fs::read(folder.path().join("ca.crt")).unwrap();
    let ours = Process::topologist(folder.path());
    let bare = Process::bare(folder.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    println!("Reviews over TLS 1.3 and HTTP/2, keep-alive; medians of {rounds} rounds of {round:?} each, in turns.\n");
    println!(
        "{:>8} {:>6} {:>12} {:>12} {:>7} {:>12} {:>12} {:>10}",
        "body", "conns", "bare /s", "ours /s", "ratio", "bare CPU µs", "ours CPU µs", "more µs"
    );
    let mut missed = Vec::new();
    for size in [2, 20, 200] {
        let body: Bytes = review(size * 1024).into();
        for connections in [1, 8, 64] {
            let mut results = [Vec::new(), Vec::new()];
            for _ in 0..rounds {
                for (process, results) in [&bare, &ours].into_iter().zip(&mut results) {
                    results.push(runtime.block_on(load(process, &authority, &body, connections, round)));
                }
            }
            let [bare, ours] = results.map(Measured::median);
            let (ratio, more) = (ours.per_second / bare.per_second, ours.cpu_micros - bare.cpu_micros);
            println!(
                "{:>8} {connections:>6} {:>12.0} {:>12.0} {ratio:>7.2} {:>12.1} {:>12.1} {more:>10.1}",
                format!("{size} KB"),
                bare.per_second,
                ours.per_second,
                bare.cpu_micros,
                ours.cpu_micros
            );
            if size == 20 && (ratio < 0.8 || more > 100.0) {
                missed.push(format!(
                    "20 KB, {connections} connections: ratio {ratio:.2} (at least 0.8), {more:.0} µs more (at most 100)"
                ));
            }
        }
    }
    drop((ours, bare));
    if missed.is_empty() {
        println!("\nBudget met: at 20 KB at least 0.8 of the bare throughput, at most 100 µs more processor time.");
    } else {
        println!("\nBudget missed:\n  {}", missed.join("\n  "));
        std::process::exit(1);
    }
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
async fn load(process: &Process, authority: &[u8], body: &Bytes, connections: usize, time: Duration) -> Measured {
    let mut open = Vec::new();
    for _ in 0..connections {
        let mut connection = Connection::open(&process.address, authority, Protocol::Http2).await.unwrap();
        connection.post(PATH, body.clone()).await.unwrap();
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
                    let (code, answer) = connection.post(PATH, body.clone()).await.unwrap();
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

/// A server in a process of its own.
struct Process {
    child: Child,
    address: String,
}

impl Process {
    fn topologist(folder: &Path) -> Self {
        let file = |name: &str| folder.join(name).display().to_string();
        let child = Command::new(env!("CARGO_BIN_EXE_topologist"))
            .args(["serve", "--embedded", "--webhook-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0"])
            .args(["--load", &file("world"), "--tls-cert", &file("tls.crt"), "--tls-key", &file("tls.key")])
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(folder.join("log")).unwrap())
            .spawn()
            .unwrap();
        Self::announced(child, "https://")
    }

    fn bare(folder: &Path) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .arg(format!("--bare-server={}", folder.display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self::announced(child, "https://")
    }

    fn announced(mut child: Child, before: &str) -> Self {
        let out = child.stdout.take().unwrap();
        let line = BufReader::new(out).lines().map_while(Result::ok).find(|line| line.contains(before)).unwrap();
        let address = line.split(before).nth(1).unwrap();
        let address = address.chars().take_while(|c| !matches!(c, ',' | ' ')).collect();
        Process { child, address }
    }

    /// Processor time so far, user and system, in seconds.
    fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        // USER_HZ, which Linux fixes at 100 for programs.
        ticks / 100.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The yardstick.
fn bare_server(folder: &Path) {
    let files = Files { certificate: folder.join("tls.crt"), key: folder.join("tls.key") };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let metrics = Arc::new(Metrics::default());
        let identity = Arc::new(Identity::new(None, metrics.clone()));
        identity.take_on(&files.read().unwrap(), &files).unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        let server = Server::bind(address, Some(identity), Limits::default(), metrics).await.unwrap();
        println!("https://{}", server.local_address().unwrap());
        let router = Router::new().route(PATH, post(allow)).layer(axum::extract::DefaultBodyLimit::max(7 << 20));
        server.serve(router, CancellationToken::new()).await;
    });
}

async fn allow(body: Bytes) -> Vec<u8> {
    let review: Value = serde_json::from_slice(&body).unwrap();
    let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": true}});
    serde_json::to_vec(&answer).unwrap()
}

/// Certificates, and a class for the reviews to find.
fn prepare(folder: &Path) {
    let issued = topologist::webhook::tls::Issued::make(&["localhost".into(), "127.0.0.1".into()], 1).unwrap();
    std::fs::write(folder.join("ca.crt"), issued.authority).unwrap();
    std::fs::write(folder.join("tls.crt"), issued.certificate).unwrap();
    std::fs::write(folder.join("tls.key"), issued.key).unwrap();
    std::fs::create_dir(folder.join("world")).unwrap();
    std::fs::write(folder.join("world/class.json"), class().to_string()).unwrap();
}

fn class() -> Value {
    let template = |group: &str, kind: &str| json!({"apiVersion": format!("{group}.cluster.x-k8s.io/v1beta2"), "kind": kind, "name": "t"});
    let variables: Vec<Value> = (0..VARIABLES)
        .map(|i| json!({"name": format!("variable{i}"), "required": false, "schema": {"openAPIV3Schema": {"type": "string"}}}))
        .collect();
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": {"name": "bench", "namespace": "default"},
        "spec": {
            "infrastructure": {"templateRef": template("infrastructure", "DevClusterTemplate")},
            "controlPlane": {"templateRef": template("controlplane", "KubeadmControlPlaneTemplate")},
            "workers": {"machineDeployments": [{"class": "worker",
                "bootstrap": {"templateRef": template("bootstrap", "KubeadmConfigTemplate")},
                "infrastructure": {"templateRef": template("infrastructure", "DevMachineTemplate")}}]},
            "variables": variables}})
}

/// A create review whose object has about this many bytes; most of it are variable values, objects with lists of files.
fn review(size: usize) -> String {
    let file = |i: usize| {
        json!({"path": format!("/etc/kubernetes/file-{i}.yaml"), "owner": "root:root", "mode": 420,
        "content": "apiVersion: v1 and a few words more, as files have them"})
    };
    let files = size.saturating_sub(1200) / VARIABLES / file(0).to_string().len();
    let value = json!({"enabled": true, "tag": "v1.2.3", "files": (0..files).map(file).collect::<Vec<_>>()});
    let variables: Vec<Value> =
        (0..VARIABLES).map(|i| json!({"name": format!("variable{i}"), "value": value})).collect();
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "cluster.x-k8s.io", "version": "v1beta2", "kind": "Cluster"},
        "resource": {"group": "cluster.x-k8s.io", "version": "v1beta2", "resource": "clusters"},
        "name": "bench", "namespace": "default", "operation": "CREATE", "userInfo": {"username": "admin", "groups": ["system:masters"]},
        "object": {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "bench", "namespace": "default"},
            "spec": {"clusterNetwork": {"pods": {"cidrBlocks": ["192.168.0.0/16"]}, "services": {"cidrBlocks": ["10.96.0.0/12"]}},
                "topology": {"classRef": {"name": "bench"}, "version": "v1.33.0", "controlPlane": {"replicas": 3},
                    "workers": {"machineDeployments": [{"class": "worker", "name": "md-0", "replicas": 3}]},
                    "variables": variables}}},
        "oldObject": null, "dryRun": false, "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}}})
    .to_string()
}
