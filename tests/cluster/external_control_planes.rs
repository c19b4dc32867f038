//! A control plane that the story plays, of a kind of its own, whose workload cluster is another kube-apiserver:
//! topologist reaches it by the Secret `<cluster>-kubeconfig`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use topologist::yaml;

use crate::harness::controller_manager::ControllerManager;
use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{definitions_at, overlay_with, permissions, stream, webhooks_at};
use crate::harness::server::{Topologist, make_certificates};
use crate::harness::wait;
use crate::rollout::site::{CORE, Site, text, without_conversion};

const GROUP: &str = "controlplane.cluster.x-k8s.io";
const STORY: &str = "controlplane.cluster.x-k8s.io/v1";
/// Everything is short.
const TIMINGS: &str = "cluster: 10ms\ninfrastructure: 10ms\nbootstrap: 10ms\nnode: 10ms\ndrain: 0s\ndeletion: 10ms\n";

/// The kinds of the control plane of the story.
fn definitions() -> Vec<Value> {
    let of = |kind: &str| {
        let (plural, schema) = (
            format!("{}s", kind.to_lowercase()),
            json!({"openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true}}),
        );
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{GROUP}"), "labels": {"cluster.x-k8s.io/v1beta2": "v1"}},
            "spec": {"group": GROUP, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema,
                    "subresources": {"status": {}}}]}})
    };
    ["StoryControlPlane", "StoryControlPlaneTemplate"].map(of).to_vec()
}

/// The class "swift" with a control plane of the story.
fn class() -> Vec<Value> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/machines/swift.yaml");
    let documents = yaml::documents(&std::fs::read_to_string(path).unwrap());
    let mut all: Vec<Value> = documents.into_iter().map(|document| document.unwrap().value).collect();
    for object in &mut all {
        object["metadata"].as_object_mut().unwrap().remove("namespace");
        if object["kind"] == "EmbeddedControlPlaneTemplate" {
            (object["apiVersion"], object["kind"]) = (json!(STORY), json!("StoryControlPlaneTemplate"));
        }
        if object["kind"] == "ClusterClass" {
            let template = json!({"apiVersion": STORY, "kind": "StoryControlPlaneTemplate", "name": "swift"});
            object["spec"]["controlPlane"] = json!({"templateRef": template});
        }
    }
    all
}

struct Scene {
    site: Site,
    topologist: Topologist,
    _management: Kubernetes,
    _controller_manager: ControllerManager,
    _folder: tempfile::TempDir,
}

impl Scene {
    async fn start() -> Self {
        let manifests = overlay_with("alone", &["lifecycle"], &[]);
        let management = Kubernetes::start();
        let own = topologist::crd::definitions().into_iter().map(without_conversion);
        management.apply_yaml(&stream(&own.chain(definitions()).collect::<Vec<_>>())).await;
        management.apply_yaml(&stream(&permissions(manifests.clone()))).await;
        let kubeconfig = management.service_account_kubeconfig("topologist-system", "topologist").await;
        let folder = tempfile::tempdir().unwrap();
        make_certificates(folder.path());
        let file = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(file("timings.yaml"), TIMINGS).unwrap();
        let (cert, key, timings, kubeconfig) =
            (file("tls.crt"), file("tls.key"), file("timings.yaml"), kubeconfig.display().to_string());
        let topologist = Topologist::serve(&[
            "--kubeconfig",
            &kubeconfig,
            "--tls-cert",
            &cert,
            "--tls-key",
            &key,
            "--shutdown-grace",
            "0s",
            "--controllers",
            "all",
            "--lifecycle",
            "on",
            "--lease-duration",
            "3s",
            "--timings",
            &timings,
        ]);
        topologist.wait_until_ready();
        let authority = std::fs::read(file("ca.crt")).unwrap();
        management.apply_yaml(&stream(&webhooks_at(manifests, &topologist.webhook, &authority))).await;
        let embedded = definitions_at(topologist::crd::embedded_provider(), &topologist.conversions, &authority);
        management.apply_yaml(&stream(&embedded)).await;
        let controller_manager = ControllerManager::start(&management).await;
        let site = Site::on(management.client(), management.namespace("external").await).await;
        for object in class() {
            site.create(object).await;
        }
        Scene { site, topologist, _management: management, _controller_manager: controller_manager, _folder: folder }
    }

    async fn write_secret(&self, kubeconfig: &str) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "demo-kubeconfig"},
            "type": "cluster.x-k8s.io/secret", "data": {"value": STANDARD.encode(kubeconfig)}});
        self.site.create(secret).await;
    }

    /// Waits until something holds, and shows the log and the status of the Machines when it does not.
    async fn until<T, F: Future<Output = Option<T>>>(&self, what: &str, holds: impl Fn() -> F) -> T {
        let state = async || {
            let machines = self.site.list(CORE, "Machine").await;
            let shown: String = machines.iter().map(|one| format!("{}\n", one["status"])).collect();
            format!("{shown}\n{}\n{}", self.topologist.warnings(), self.site.cluster("demo").await)
        };
        wait::until_some_async(what, wait::ROLLOUT, async || holds().await, state).await
    }

    async fn until_running(&self, kubelet: &str) -> Vec<Value> {
        self.until(&format!("two workers run {kubelet}"), || async {
            let machines = self.site.list(CORE, "Machine").await;
            let is_done = |machine: &Value| {
                machine["status"]["phase"] == "Running" && machine["status"]["nodeInfo"]["kubeletVersion"] == kubelet
            };
            (machines.len() == 2 && machines.iter().all(is_done)).then_some(machines)
        })
        .await
    }

    async fn until_probe(&self, status: &str, message: &str) {
        self.until(&format!("RemoteConnectionProbe {status}: {message}"), || async {
            let cluster = self.site.cluster("demo").await;
            let all = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is_it = |one: &Value| one["type"] == "RemoteConnectionProbe" && one["status"] == status;
            let found = all.into_iter().find(is_it)?;
            text(&found, "/message").contains(message).then_some(())
        })
        .await;
    }
}

/// The kubeconfig of the administrator of a server.
fn kubeconfig(server: &Kubernetes) -> String {
    std::fs::read_to_string(server.kubeconfig()).unwrap()
}

fn made<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_of_a_control_plane_of_its_own_kind_have_their_nodes_on_its_kube_apiserver() {
    // MA-2.6, MA-8.1, MA-8.2, MA-8.10, MA-10.6, MA-27.12, CT-16.2, DEC-40
    use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
    let (scene, one, two) = (Scene::start().await, Kubernetes::start(), Kubernetes::start());
    let site = &scene.site;
    let workers = json!({"machineDeployments": [{"class": "worker", "name": "a", "replicas": 2}]});
    site.create(json!({"apiVersion": CORE, "kind": "Cluster", "metadata": {"name": "demo"},
        "spec": {"topology": {"classRef": {"name": "swift"}, "version": "v1.32.0", "workers": workers}}}))
        .await;
    let control_plane = scene
        .until("there is a control plane", || async {
            let all = site.list(STORY, "StoryControlPlane").await;
            all.first().map(|one| text(one, "/metadata/name"))
        })
        .await;
    scene.write_secret(&kubeconfig(&one).replace("\"user\":{", "\"user\":{\"exec\":{\"command\":\"touch\"},")).await;
    let status = json!({"version": "v1.32.0", "externalManagedControlPlane": true,
        "initialization": {"controlPlaneInitialized": true}});
    let control_planes = site.api(STORY, "StoryControlPlane");
    let patch = kube::api::Patch::Merge(json!({"status": status}));
    control_planes.patch_status(&control_plane, &kube::api::PatchParams::default(), &patch).await.unwrap();
    scene.until_probe("False", "exec is not allowed: external programs are not run").await;

    scene.write_secret(&kubeconfig(&one)).await;
    let machines = scene.until_running("v1.32.0").await;
    scene.until_probe("True", "").await;
    let nodes: Api<Node> = Api::all(one.client());
    let name = |machine: &Value| text(machine, "/status/nodeRef/name");
    for machine in &machines {
        let node = nodes.get(&name(machine)).await.unwrap();
        let noted = node.metadata.annotations.unwrap_or_default();
        assert_eq!(noted.get("cluster.x-k8s.io/machine"), Some(&text(machine, "/metadata/name")));
        let taints = node.spec.unwrap().taints.unwrap_or_default();
        assert!(taints.iter().all(|taint| taint.key != "node.cluster.x-k8s.io/uninitialized"), "{taints:?}");
    }

    let (params, node) = (PostParams::default(), name(&machines[0]));
    let accounts: Api<ServiceAccount> = Api::namespaced(one.client(), "default");
    let _ = accounts.create(&params, &made(json!({"metadata": {"name": "default"}}))).await;
    let pods: Api<Pod> = Api::namespaced(one.client(), "default");
    let pod = json!({"metadata": {"name": "web"}, "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": false, "containers": [{"name": "main", "image": "example.com/a:1"}]}});
    pods.create(&params, &made(pod)).await.unwrap();
    site.delete(CORE, "Machine", &text(&machines[0], "/metadata/name")).await;
    scene.until("the Node is gone", || async { nodes.get_opt(&node).await.unwrap().is_none().then_some(()) }).await;
    assert!(pods.get_opt("web").await.unwrap().is_none(), "the Pod is evicted");
    let machines = scene.until_running("v1.32.0").await;

    // Another kube-apiserver with the same Nodes, of another version.
    let others: Api<Node> = Api::all(two.client());
    for machine in &machines {
        let node = json!({"metadata": {"name": name(machine)}, "spec": {"providerID": machine["spec"]["providerID"]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {
                "architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.32.9", "machineID": "", "operatingSystem": "linux", "osImage": "",
                "systemUUID": ""}}});
        others.create(&params, &made(node)).await.unwrap();
    }
    scene.write_secret(&kubeconfig(&two)).await;
    scene.until_running("v1.32.9").await;
    scene.until_probe("True", "").await;

    let log = scene.topologist.log_text();
    let refused: Vec<&str> = log.lines().filter(|line| line.to_lowercase().contains("forbidden")).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}
