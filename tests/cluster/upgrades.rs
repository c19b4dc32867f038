//! A version change is judged by the running cluster, through the API server and with the permissions of the manifests.

use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use topologist::tls::authority::IssuedCertificate;

use crate::admission::{Objects, causes, class, cluster, denial, dry, pairs, webhooks_elsewhere};
use crate::harness::kubernetes::Kubernetes;
use crate::harness::wait::{self, SOON};

const OLD: &str = "v1.33.0";
const NEW: &str = "v1.34.0";
const CONTROL_PLANES: &str = "controlplane.cluster.x-k8s.io";

/// The kinds of providers that a version change looks at, with a status of their own.
pub(crate) fn definitions() -> Vec<Value> {
    let version = |name: &str, storage: bool| {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        json!({"name": name, "served": true, "storage": storage, "schema": schema, "subresources": {"status": {}}})
    };
    let definition = |group: &str, kind: &str, versions: Value| {
        let plural = format!("{}s", kind.to_lowercase());
        let labels = json!({"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}"), "labels": labels},
            "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                "versions": versions},
        })
    };
    let both = json!([version("v1beta1", false), version("v1beta2", true)]);
    vec![definition(CONTROL_PLANES, "KubeadmControlPlane", both)]
}

fn machine_spec() -> Value {
    let reference = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": "some"});
    json!({"clusterName": "one", "version": OLD, "bootstrap": {}, "infrastructureRef": reference})
}

/// The parts of a running cluster, in a namespace.
pub(crate) struct Running {
    client: kube::Client,
    namespace: String,
}

impl Running {
    pub(crate) fn new(client: kube::Client, namespace: &str) -> Self {
        Running { client, namespace: namespace.to_owned() }
    }

    fn api(&self, group: &str, kind: &str) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(group, "v1beta2", kind);
        Api::namespaced_with(self.client.clone(), &self.namespace, &ApiResource::from_gvk(&gvk))
    }

    /// Writes an object and its status.
    async fn put(&self, group: &str, kind: &str, metadata: Value, spec: Value, status: Value) {
        let name = metadata["name"].as_str().unwrap().to_owned();
        let types = json!({"apiVersion": format!("{group}/v1beta2"), "kind": kind});
        let mut object = types.clone();
        (object["metadata"], object["spec"]) = (metadata, spec);
        let (api, apply) = (self.api(group, kind), PatchParams::apply("story").force());
        api.patch(&name, &apply, &Patch::Apply(&object)).await.unwrap();
        let mut object = types;
        object["status"] = status;
        if object["status"] != json!({}) {
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&object)).await.unwrap();
        }
    }

    /// A control plane that wants the old version, and what runs in it.
    pub(crate) async fn control_plane(&self, cluster: &str, runs: &str) {
        let status = json!({"version": runs, "versions": [{"version": runs, "replicas": 3}]});
        let metadata = json!({"name": format!("{cluster}-cp")});
        self.put(CONTROL_PLANES, "KubeadmControlPlane", metadata, json!({"version": OLD}), status).await;
    }

    async fn worker(&self, kind: &str, name: &str, status: Value) {
        let labels = json!({"cluster.x-k8s.io/cluster-name": "one", "topology.cluster.x-k8s.io/owned": ""});
        let mut spec = json!({"clusterName": "one", "template": {"spec": machine_spec()}});
        if kind == "MachineDeployment" {
            spec["selector"] = json!({"matchLabels": {"set": name}});
        }
        self.put("cluster.x-k8s.io", kind, json!({"name": name, "labels": labels}), spec, status).await;
    }

    async fn machine(&self, name: &str, set: &str, kubelet: &str) {
        let metadata = json!({"name": name, "labels": {"set": set}});
        let status = json!({"nodeInfo": {"kubeletVersion": kubelet}});
        self.put("cluster.x-k8s.io", "Machine", metadata, machine_spec(), status).await;
    }
}

/// The reference that the topology controller would have made.
pub(crate) fn with_control_plane(name: &str) -> Patch<Value> {
    let name = format!("{name}-cp");
    let reference = json!({"apiGroup": CONTROL_PLANES, "kind": "KubeadmControlPlane", "name": name});
    Patch::Merge(json!({"spec": {"controlPlaneRef": reference}}))
}

/// A Cluster `one` with a control plane that is ready.
async fn ready(prefix: &str) -> (Objects, Running) {
    let objects = Objects::fresh(prefix).await;
    let running = Running::new(Kubernetes::shared().client(), &objects.namespace);
    objects.create("ClusterClass", &class("base")).await.unwrap();
    objects.create("Cluster", &cluster("one", "base")).await.unwrap();
    running.control_plane("one", OLD).await;
    objects.clusters.patch("one", &PatchParams::default(), &with_control_plane("one")).await.unwrap();
    (objects, running)
}

/// Tries to change the version.
async fn change(objects: &Objects) -> kube::Result<DynamicObject> {
    let next = Patch::Merge(json!({"spec": {"topology": {"version": NEW}}}));
    objects.clusters.patch("one", &PatchParams::default().dry_run(), &next).await
}

/// Why the version cannot be changed.
async fn reason(objects: &Objects) -> String {
    let status = denial(change(objects).await);
    assert_eq!(causes(&status), pairs(&[("FieldValueInvalid", "spec.topology.version")]), "{}", status.message);
    status.message
}

#[tokio::test]
async fn a_version_change_waits_for_the_control_plane() {
    // UPG-009, UPG-010, UPG-011
    let objects = Objects::fresh("control-plane").await;
    let running = Running::new(Kubernetes::shared().client(), &objects.namespace);
    objects.create("ClusterClass", &class("base")).await.unwrap();
    objects.create("Cluster", &cluster("one", "base")).await.unwrap();
    assert!(reason(&objects).await.contains("the Cluster has no controlPlaneRef yet"));
    objects.clusters.patch("one", &PatchParams::default(), &with_control_plane("one")).await.unwrap();
    let name = format!("KubeadmControlPlane {}/one-cp", objects.namespace);
    assert!(reason(&objects).await.contains(&format!("{name} does not exist")));
    running.control_plane("one", "").await;
    assert!(reason(&objects).await.contains("status.versions[0].version \"\" is not a version"));
    running.control_plane("one", "v1.32.9").await;
    assert!(reason(&objects).await.contains(&format!("{name} is upgrading to {OLD}: v1.32.9 runs in it")));
    running.control_plane("one", OLD).await;
    assert_eq!(change(&objects).await.unwrap().data["spec"]["topology"]["version"], NEW);
}

#[tokio::test]
async fn a_version_change_waits_for_the_machines_of_machine_deployments() {
    // UPG-012, UPG-014
    let (objects, running) = ready("machines").await;
    running.worker("MachineDeployment", "md-a", json!({})).await;
    running.worker("MachineDeployment", "md-b", json!({})).await;
    running.machine("a-1", "md-a", OLD).await;
    running.machine("b-1", "md-b", OLD).await;
    running.machine("b-2", "md-b", "v1.32.9").await;
    running.machine("other", "md-other", "v1.32.9").await;
    assert!(reason(&objects).await.ends_with(": MachineDeployment md-b is upgrading"));
    running.machine("b-2", "md-b", OLD).await;
    change(&objects).await.unwrap();
}

/// What leads to an API server as an administrator.
fn kubeconfig(kubernetes: &Kubernetes) -> Value {
    serde_json::from_slice(&std::fs::read(kubernetes.kubeconfig()).unwrap()).unwrap()
}

/// A Cluster `one` of everything that a version change looks at, ready for one.
pub(crate) async fn run_one(kubernetes: &Kubernetes, namespace: &str) {
    let running = Running::new(kubernetes.client(), namespace);
    running.control_plane("one", OLD).await;
    running.worker("MachineDeployment", "md-a", json!({})).await;
    running.machine("a-1", "md-a", OLD).await;
    running.worker("MachinePool", "mp-a", json!({})).await;
    put_kubeconfig(kubernetes.client(), namespace, &kubeconfig(kubernetes)).await;
}

/// The Secret of the Cluster `one` with a kubeconfig.
async fn put_kubeconfig(client: kube::Client, namespace: &str, kubeconfig: &Value) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one-kubeconfig"},
        "data": {"value": STANDARD.encode(kubeconfig.to_string())}});
    let secrets: Api<Secret> = Api::namespaced(client, namespace);
    secrets.patch("one-kubeconfig", &PatchParams::apply("story").force(), &Patch::Apply(&secret)).await.unwrap();
}

/// A Node with a kubelet of that version.
async fn put_node(name: &str, kubelet: &str) {
    let nodes: Api<Node> = Api::all(Kubernetes::shared().client());
    if nodes.get_opt(name).await.unwrap().is_none() {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        nodes.create(&PostParams::default(), &Node { metadata, ..Node::default() }).await.unwrap();
    }
    let status = Patch::Merge(json!({"status": {"nodeInfo": {"kubeletVersion": kubelet}}}));
    nodes.patch_status(name, &PatchParams::default(), &status).await.unwrap();
}

#[tokio::test]
async fn a_version_change_waits_for_the_nodes_of_machine_pools() {
    // UPG-015, UPG-017, DEC-40: the API server is the workload cluster too.
    let (objects, running) = ready("nodes").await;
    let node = format!("{}-node", objects.namespace);
    running.worker("MachinePool", "mp-a", json!({"nodeRefs": [{"name": node}]})).await;
    let secret = format!("Secret {}/one-kubeconfig", objects.namespace);
    assert!(reason(&objects).await.contains(&format!("{secret} does not exist")));

    let kubeconfig = kubeconfig(Kubernetes::shared());
    let mut exec = kubeconfig.clone();
    exec["users"][0]["user"]["exec"] = json!({"command": "touch", "args": ["pwned"]});
    put_kubeconfig(Kubernetes::shared().client(), &objects.namespace, &exec).await;
    assert!(reason(&objects).await.contains("is not used: exec is not allowed: external programs are not run"));

    put_kubeconfig(Kubernetes::shared().client(), &objects.namespace, &kubeconfig).await;
    assert!(reason(&objects).await.ends_with(&format!(": Node {node} does not exist")));
    put_node(&node, "v1.32.9").await;
    assert!(reason(&objects).await.ends_with(": MachinePool mp-a is upgrading"));
    put_node(&node, OLD).await;
    change(&objects).await.unwrap();
}

#[tokio::test]
async fn a_silent_workload_cluster_delays_no_other_review() {
    // DEC-40
    let (objects, running) = ready("silent").await;
    running.worker("MachinePool", "mp-a", json!({})).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
        }
    });
    let authority = STANDARD.encode(IssuedCertificate::generate(&["127.0.0.1".to_owned()], 1).unwrap().authority);
    let kubeconfig = json!({
        "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": "x", "user": {"token": "t"}}],
    });
    put_kubeconfig(Kubernetes::shared().client(), &objects.namespace, &kubeconfig).await;
    let started = Instant::now();
    assert!(reason(&objects).await.contains("it did not answer in time"));
    assert!((3..9).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());

    // A webhook whose caller waits for two seconds only is answered before that, and so first.
    let namespace = &objects.namespace;
    let hurried = webhooks_elsewhere(namespace, &format!("hurried-{namespace}"), 2);
    Kubernetes::shared().apply_yaml(&hurried.to_string()).await;
    let mut wrong = cluster("wrong", "base");
    wrong["spec"]["topology"]["version"] = json!("v1.33");
    let message =
        async || denial(objects.clusters.create(&dry(), &crate::admission::object("Cluster", &wrong)).await).message;
    let is_called = async || message().await.contains("hurried");
    wait::until_async("the second webhook is called", SOON, is_called, message).await;
    let message = denial(change(&objects).await).message;
    assert!(message.contains("hurried") && message.contains("it did not answer in time"), "{message}");
}
