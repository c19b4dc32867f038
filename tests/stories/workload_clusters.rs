//! The APIs of workload clusters as clients use them: kubectl, and the reader of tenants' kubeconfigs.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use topologist::embedded::workloads::WorkloadApis;
use topologist::embedded::{ApiOptions, Embedded};
use topologist::hub::ObjectKey;
use topologist::kubernetes::cache::Cache;
use topologist::kubernetes::gather::Gatherer;
use topologist::telemetry::metrics::Metrics;
use topologist::tls::authority::IssuedCertificate;
use topologist::tls::identity::ServerIdentity;
use topologist::tls::pair::CertificateFiles;
use topologist::webhook::server::{ConnectionLimits, HttpServer};
use topologist::world::{Answer, Facts, Found, Need, NodesOf};

use crate::harness::kubectl::Kubectl;

/// Workload clusters behind a listener with TLS.
pub struct Served {
    pub workloads: WorkloadApis,
    address: SocketAddr,
    authority: String,
}

impl Served {
    pub async fn start() -> Self {
        let workloads = WorkloadApis::new(ApiOptions::default()).unwrap();
        let issued = IssuedCertificate::generate(&["127.0.0.1".to_owned()], 1).unwrap();
        let metrics = Arc::new(Metrics::default());
        let identity = Arc::new(ServerIdentity::new(None, metrics.clone()));
        let files = CertificateFiles { certificate: "tls.crt".into(), key: "tls.key".into() };
        identity.install(&issued.pair(), &files).unwrap();
        let any = "127.0.0.1:0".parse().unwrap();
        let server = HttpServer::bind(any, Some(identity), ConnectionLimits::default(), metrics).await.unwrap();
        let address = server.local_address().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(server.serve(workloads.router(stop.clone()), stop));
        Served { workloads, address, authority: issued.authority }
    }

    /// The kubeconfig of a Cluster that has an API from now on.
    pub fn kubeconfig(&self, cluster: &ObjectKey) -> String {
        self.workloads.open(cluster).unwrap();
        self.workloads.kubeconfig(cluster, self.address, &self.authority).unwrap()
    }
}

fn key() -> ObjectKey {
    // No number, although YAML would read it as one.
    ObjectKey::new("default", "1e3")
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "spec": {"providerID": format!("a://{name}")},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.33.0"}}})
}

fn pod(name: &str, node: &str, owner: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "kube-system", "ownerReferences": owner},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "example.com/a:1"}]}})
}

#[test]
fn kubectl_lists_describes_cordons_and_drains() {
    // CT-19.11
    let runtime = Runtime::new().unwrap();
    let served = runtime.block_on(Served::start());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    std::fs::write(&file, served.kubeconfig(&key())).unwrap();
    let kubectl = Kubectl::within(file, "kube-system".to_owned());
    for name in ["n1", "n2"] {
        kubectl.give(&node(name), &["create"]);
    }
    let labels = json!({"app": "proxy"});
    let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "proxy", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": "example.com/proxy:1"}]}}}});
    kubectl.give(&set, &["create"]);
    let uid = kubectl.out(&["get", "daemonset", "proxy", "-n", "kube-system", "-o", "jsonpath={.metadata.uid}"]);
    let owner = |kind: &str, uid: &str| {
        json!([{"apiVersion": "apps/v1", "kind": kind, "name": "proxy", "uid": uid,
            "controller": true}])
    };
    kubectl.give(&pod("proxy-1", "n1", &owner("DaemonSet", &uid)), &["create"]);
    // A server cannot tell whether the owner of a kind that it does not serve exists.
    for (name, on) in [("web-1", "n1"), ("web-2", "n2"), ("web-3", "n2")] {
        kubectl.give(&pod(name, on, &owner("ReplicaSet", "1-2-3")), &["create"]);
    }

    let nodes = kubectl.out(&["get", "nodes"]);
    let rows: Vec<Vec<&str>> = nodes.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]);
    assert_eq!((rows[1][..3].to_vec(), rows[1][4]), (vec!["n1", "Ready", "<none>"], "v1.33.0"));
    let on_n1 = ["get", "pods", "-n", "kube-system", "--field-selector", "spec.nodeName=n1", "-o", "name"];
    assert_eq!(kubectl.out(&on_n1), "pod/proxy-1\npod/web-1\n");
    assert!(kubectl.out(&["get", "pods", "-A"]).contains("web-2"));
    let described = kubectl.out(&["describe", "node", "n1"]);
    assert!(described.contains("web-1") && described.contains("a://n1"), "{described}");
    assert!(kubectl.out(&["explain", "node.spec.providerID"]).contains("VERSION:    v1"));
    assert!(kubectl.out(&["api-resources"]).contains("daemonsets"));

    kubectl.out(&["cordon", "n2"]);
    assert!(kubectl.out(&["get", "node", "n2"]).contains("Ready,SchedulingDisabled"));
    kubectl.out(&["uncordon", "n2"]);
    assert_eq!(kubectl.field("node/n2", ".spec.unschedulable"), "");
    let drained = kubectl.out(&["drain", "n1", "--ignore-daemonsets", "--timeout=20s"]);
    assert!(drained.contains("pod/web-1 evicted") && drained.contains("node/n1 drained"), "{drained}");
    assert_eq!(kubectl.out(&on_n1), "pod/proxy-1\n");
    kubectl.out(&["delete", "pod", "web-2", "-n", "kube-system", "--timeout=20s"]);
    assert!(kubectl.err(&["get", "pod", "web-2", "-n", "kube-system"]).contains("NotFound"));
    kubectl.out(&["delete", "node", "n2", "--timeout=20s"]);
    assert_eq!(kubectl.out(&["get", "nodes", "-o", "name"]), "node/n1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn live_checks_read_nodes_with_the_kubeconfig_of_the_cluster() {
    // DEC-40, DEC-54
    let served = Served::start().await;
    let management = Embedded::new(ApiOptions::default());
    let metadata = json!({"name": "1e3-kubeconfig"});
    let data = json!({"value": STANDARD.encode(served.kubeconfig(&key()))});
    let secret: Secret = serde_json::from_value(json!({"metadata": metadata, "data": data})).unwrap();
    let secrets: Api<Secret> = Api::default_namespaced(management.client());
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let workload = served.workloads.open(&key()).unwrap();
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(workload.embedded.client());
    nodes.create(&PostParams::default(), &serde_json::from_value(node("n1")).unwrap()).await.unwrap();

    let gatherer =
        Gatherer::with_api_server(Arc::new(Cache::new(Facts::default())), management.client(), Arc::default());
    let names = ["n1", "n2"].map(str::to_owned).into();
    let need = Need::Nodes(NodesOf { cluster: key(), names });
    let answer = gatherer.gather(&need, Instant::now() + Duration::from_secs(20)).await;
    let Answer::Nodes(Found::Yes(nodes)) = answer else { panic!("{answer:?}") };
    assert_eq!(nodes.keys().collect::<Vec<_>>(), ["n1"]);
}

/// The most memory in KB that an API without objects of its own takes: half as much again as it does.
const MOST: usize = 30;
const CHILD: &str = "WORKLOAD_CLUSTERS_ALONE";

#[test]
fn a_thousand_workload_clusters_take_little_memory() {
    if std::env::var_os(CHILD).is_some() {
        return print_memory_of_an_api();
    }
    // In a process where no other test allocates.
    let name = "workload_clusters::a_thousand_workload_clusters_take_little_memory";
    let mut alone = Command::new(std::env::current_exe().unwrap());
    let output = alone.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap();
    let message = String::from_utf8(output.stdout).unwrap();
    let bytes = message.lines().find_map(|line| line.split_once("bytes per API: ")?.1.parse().ok());
    let bytes: usize = bytes.unwrap_or_else(|| panic!("{message}"));
    assert!(bytes > 0 && bytes < MOST * 1024, "{bytes} bytes per API");
}

fn print_memory_of_an_api() {
    const CLUSTERS: usize = 1_000;
    let workloads = WorkloadApis::new(ApiOptions::default()).unwrap();
    // The first one compiles the schemas that all of them share.
    workloads.open(&key()).unwrap();
    let before = private_bytes();
    for number in 0..CLUSTERS {
        workloads.open(&ObjectKey::new("default", format!("c{number}"))).unwrap();
    }
    println!("\nbytes per API: {}", (private_bytes() - before) / CLUSTERS);
}

/// Resident memory of this process that is not a mapped file.
fn private_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<usize>().unwrap() * 1024
}
