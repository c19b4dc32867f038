//! Control planes that the story plays: topologist reaches their workload clusters by the Secret
//! `<cluster>-kubeconfig`.

use std::net::TcpListener;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use topologist::hub::ObjectKey;

use super::server::{TestServer, cluster, name, workers};
use crate::harness::kubectl::Kubectl;
use crate::workload_clusters::Served;

/// A server with a control plane of the story, and API servers for its workload cluster.
struct Scene {
    server: TestServer,
    workloads: Served,
    _runtime: Runtime,
}

impl Scene {
    /// The control plane of the Cluster with so many workers is initialized, and its Secret has this kubeconfig.
    fn start(workers_of_it: usize, kubeconfig: impl FnOnce(&Served) -> String) -> Self {
        let runtime = Runtime::new().unwrap();
        let workloads = runtime.block_on(Served::start());
        let server = TestServer::start(&["--external-kinds", "EmbeddedControlPlane"]);
        let scene = Scene { server, workloads, _runtime: runtime };
        let server = &scene.server;
        server.kubectl.give(&cluster(1, &json!([workers("a", workers_of_it)]), &json!([])), &["create"]);
        server.until("the control plane waits for its provider", || server.list("embeddedcontrolplanes").len() == 1);
        scene.write_secret("create", &kubeconfig(&scene.workloads));
        let control_plane = format!("embeddedcontrolplane/{}", server.names("embeddedcontrolplanes")[0]);
        let numbers = json!({"version": "v1.32.0", "replicas": 1, "readyReplicas": 1, "availableReplicas": 1,
            "upToDateReplicas": 1, "externalManagedControlPlane": true,
            "initialization": {"controlPlaneInitialized": true}});
        server.merge_status(&control_plane, &numbers);
        scene
    }

    fn write_secret(&self, how: &str, kubeconfig: &str) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "demo-kubeconfig"},
            "type": "cluster.x-k8s.io/secret", "data": {"value": STANDARD.encode(kubeconfig)}});
        self.server.kubectl.give(&secret, &[how]);
    }

    /// kubectl for one of the API servers.
    fn workload(&self, server: &str) -> Kubectl {
        let path = self.server.path(&format!("{server}.kubeconfig"));
        std::fs::write(&path, self.workloads.kubeconfig(&key(server))).unwrap();
        Kubectl::new(path.into())
    }

    #[track_caller]
    fn until_running(&self, number: usize) -> Vec<Value> {
        let is_running = |machine: &Value| machine["status"]["phase"] == "Running";
        self.server.until("all workers run", || {
            let machines = self.server.list("machines");
            machines.len() == number && machines.iter().all(is_running)
        });
        self.server.list("machines")
    }

    /// Status and message of the condition about the connection.
    fn probe(&self) -> (String, String) {
        let cluster = self.server.list("clusters").remove(0);
        let all = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = all.into_iter().find(|one| one["type"] == "RemoteConnectionProbe").unwrap_or_default();
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        (text("status"), text("message"))
    }

    #[track_caller]
    fn until_probe(&self, status: &str, message: &str) {
        self.server.until(&format!("the connection: {status} {message}"), || {
            let (is, reported) = self.probe();
            is == status && reported.contains(message)
        });
    }
}

fn key(server: &str) -> ObjectKey {
    ObjectKey::new("default", server)
}

/// A Pod of a ReplicaSet on a Node.
fn pod(node: &str) -> Value {
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1-2-3", "controller": true}]);
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-1", "namespace": "default", "ownerReferences": owner},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "example.com/a:1"}]}})
}

#[test]
fn workers_of_a_control_plane_of_somebody_else_run_are_drained_and_follow_its_kubeconfig() {
    // MA-2.6, MA-8.1, MA-8.2, MA-8.5, MA-10.6, MA-27.12
    let scene = Scene::start(2, |workloads| workloads.kubeconfig(&key("one")));
    let machines = scene.until_running(2);
    scene.until_probe("True", "");
    let one = scene.workload("one");
    let nodes: Vec<Value> = serde_json::from_str::<Value>(&one.out(&["get", "nodes", "-o", "json"])).unwrap()["items"]
        .as_array()
        .unwrap()
        .clone();
    assert_eq!(nodes.len(), 2, "the embedded machines have registered there");
    let machine_of = |node: &Value| node["metadata"]["annotations"]["cluster.x-k8s.io/machine"].clone();
    assert!(nodes.iter().all(|node| machines.iter().any(|one| machine_of(node) == name(one))), "{nodes:#?}");
    let data = scene.server.kubectl.field("secret/demo-kubeconfig", ".data.value");
    assert_eq!(data, STANDARD.encode(scene.workloads.kubeconfig(&key("one"))), "topologist publishes nothing");

    let drained = &machines[0];
    let node = drained["status"]["nodeRef"]["name"].as_str().unwrap();
    one.give(&pod(node), &["create"]);
    scene.server.kubectl.out(&["delete", "machine", &name(drained), "--timeout=60s"]);
    assert!(one.err(&["get", "pod", "web-1"]).contains("NotFound"), "it is evicted");
    assert!(one.err(&["get", "node", node]).contains("NotFound"));
    let machines = scene.until_running(2);

    // Another API server with the same Nodes, of another version.
    scene.workloads.kubeconfig(&key("two"));
    let two = scene.workload("two");
    for machine in &machines {
        let node = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": machine["status"]["nodeRef"]["name"]},
            "spec": {"providerID": machine["spec"]["providerID"]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                "nodeInfo": {"kubeletVersion": "v1.32.9"}}});
        two.give(&node, &["create"]);
    }
    scene.write_secret("apply", &scene.workloads.kubeconfig(&key("two")));
    scene.server.until("the Machines have what the other API server says", || {
        let kubelet = |machine: &Value| machine["status"]["nodeInfo"]["kubeletVersion"] == "v1.32.9";
        scene.server.list("machines").iter().all(kubelet)
    });
    scene.until_probe("True", "");
    scene.server.kubectl.out(&["delete", "cluster", "demo", "--timeout=60s"]);
}

#[test]
fn a_kubeconfig_that_is_refused_or_leads_nowhere_is_shown_on_the_cluster() {
    // MA-8.2, MA-27.12, DEC-40
    let scene = Scene::start(1, |workloads| {
        workloads.kubeconfig(&key("one")).replace("token:", "exec: {command: touch}\n    token:")
    });
    scene.until_probe("False", "exec is not allowed: external programs are not run");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let good = scene.workloads.kubeconfig(&key("one"));
    let server =
        good.lines().find_map(|line| line.trim().strip_prefix("server: ")).unwrap().trim_matches('"').to_owned();
    scene.write_secret("apply", &good.replace(&server, &format!("https://{silent}")));
    scene.until_probe("False", "it cannot be reached; see the log of topologist");
    assert!(scene.server.list("machines").iter().all(|one| one["status"]["phase"] != "Running"));
    scene.write_secret("apply", &good);
    scene.until_running(1);
    scene.until_probe("True", "");
    scene.server.kubectl.out(&["delete", "secret", "demo-kubeconfig"]);
    scene.until_probe("False", "lost: Secret default/demo-kubeconfig does not exist");
}
