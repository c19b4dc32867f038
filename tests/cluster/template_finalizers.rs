//! Templates of machines that no topology uses any more, on a real API server and as the ServiceAccount of the
//! manifests.

use std::path::PathBuf;

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};
use topologist::crd;

use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{overlay, permissions, stream};
use crate::harness::server::{Topologist, make_certificates};
use crate::harness::wait;
use crate::harness::wait::SOON;

const CORE: &str = "cluster.x-k8s.io/v1beta2";
const BOOTSTRAP: &str = "bootstrap.topologist.dev/v1beta1";
const INFRASTRUCTURE: &str = "infrastructure.topologist.dev/v1beta1";
const OF_DEPLOYMENT: &str = "machinedeployment.topology.cluster.x-k8s.io";
const OF_SET: &str = "machineset.topology.cluster.x-k8s.io";

/// An API server of our own, and a process with these controllers alone.
struct Ground {
    topologist: Topologist,
    kubernetes: Kubernetes,
    _certificates: tempfile::TempDir,
}

impl Ground {
    async fn new() -> Self {
        let kubernetes = Kubernetes::start();
        let mut objects = overlay("alone");
        objects.retain(|object| object["kind"] == "CustomResourceDefinition");
        objects.extend(crd::embedded_provider());
        kubernetes.apply_yaml(&stream(&objects)).await;
        kubernetes.apply_yaml(&stream(&permissions(overlay("alone")))).await;
        let kubeconfig: PathBuf = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
        let certificates = tempfile::tempdir().unwrap();
        make_certificates(certificates.path());
        let file = |name: &str| certificates.path().join(name).display().to_string();
        let (cert, key, kubeconfig) = (file("tls.crt"), file("tls.key"), kubeconfig.display().to_string());
        let common = ["--kubeconfig", &kubeconfig, "--tls-cert", &cert, "--tls-key", &key, "--shutdown-grace", "0s"];
        let own = ["--controllers", "topology-templates", "--lease-duration", "3s"];
        let topologist = Topologist::serve(&[&common[..], &own].concat());
        Ground { topologist, kubernetes, _certificates: certificates }
    }

    fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.kubernetes.client(), "default", &resource)
    }

    async fn apply(&self, object: Value) {
        let api = self.api(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let params = PatchParams::apply("story").force().validation_strict();
        api.patch(&name, &params, &Patch::Apply(&object)).await.unwrap_or_else(|error| panic!("{object}: {error}"));
    }

    async fn templates(&self, names: &[&str]) {
        for name in names {
            let (api_version, kind) = template(name);
            let spec = json!({"template": {"spec": {}}});
            self.apply(json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}))
                .await;
        }
    }

    async fn cluster(&self, name: &str, paused: bool) {
        let spec = json!({"paused": paused, "clusterNetwork": {"serviceDomain": "cluster.local"}});
        self.apply(json!({"apiVersion": CORE, "kind": "Cluster", "metadata": {"name": name}, "spec": spec})).await;
    }

    /// A MachineDeployment, or a MachineSet of `md`, with two templates.
    async fn maker(&self, kind: &str, name: &str, cluster: &str, templates: (&str, &str), is_ours: bool) {
        let mut labels = json!({"cluster.x-k8s.io/cluster-name": cluster});
        let mut metadata = json!({"name": name});
        if is_ours {
            labels["topology.cluster.x-k8s.io/owned"] = json!("");
        }
        if kind == "MachineSet" {
            labels["cluster.x-k8s.io/deployment-name"] = json!("md");
            let uid = self.api(CORE, "MachineDeployment").get("md").await.unwrap().metadata.uid;
            metadata["ownerReferences"] = json!([{"apiVersion": CORE, "kind": "MachineDeployment", "name": "md",
                "uid": uid, "controller": true}]);
        }
        metadata["labels"] = labels;
        let reference = |name: &str| {
            let (api_version, kind) = template(name);
            json!({"apiGroup": api_version.split('/').next(), "kind": kind, "name": name})
        };
        let machine = json!({"clusterName": cluster, "bootstrap": {"configRef": reference(templates.0)},
            "infrastructureRef": reference(templates.1)});
        let spec = json!({"clusterName": cluster, "replicas": 1, "selector": {"matchLabels": {"set": "a"}},
            "template": {"metadata": {"labels": {"set": "a"}}, "spec": machine}});
        self.apply(json!({"apiVersion": CORE, "kind": kind, "metadata": metadata, "spec": spec})).await;
    }

    /// Deletes an object and leaves what it owns to itself: nobody collects garbage here.
    async fn delete(&self, kind: &str, name: &str) {
        self.api(CORE, kind).delete(name, &DeleteParams::default()).await.unwrap();
    }

    async fn finalizers(&self, kind: &str, name: &str) -> Vec<String> {
        self.api(CORE, kind).get(name).await.unwrap().metadata.finalizers.unwrap_or_default()
    }

    async fn is_there(&self, api_version: &str, kind: &str, name: &str) -> bool {
        self.api(api_version, kind).get_opt(name).await.unwrap().is_some()
    }

    /// Which of these templates exist.
    async fn existing<'a>(&self, names: &[&'a str]) -> Vec<&'a str> {
        let mut existing = Vec::new();
        for name in names {
            let (api_version, kind) = template(name);
            if self.is_there(api_version, kind, name).await {
                existing.push(*name);
            }
        }
        existing
    }

    async fn eventually(&self, fact: &str, holds: impl AsyncFn() -> bool) {
        wait::until_async(fact, SOON, holds, async || self.topologist.log_text()).await;
    }
}

/// Version and kind of a template, by the first letter of its name.
fn template(name: &str) -> (&'static str, &'static str) {
    match name.starts_with('b') {
        true => (BOOTSTRAP, "EmbeddedConfigTemplate"),
        false => (INFRASTRUCTURE, "EmbeddedMachineTemplate"),
    }
}

#[tokio::test]
async fn templates_are_deleted_with_their_last_user() {
    // DEL-05 to DEL-11
    const ALL: [&str; 4] = ["b1", "i1", "i2", "b9"];
    let ground = Ground::new().await;
    ground.templates(&ALL).await;
    ground.cluster("one", false).await;
    ground.maker("MachineDeployment", "md", "one", ("b1", "i2"), true).await;
    ground.maker("MachineDeployment", "theirs", "one", ("b9", "i2"), false).await;
    ground.maker("MachineSet", "old", "one", ("b1", "i1"), true).await;
    ground.maker("MachineSet", "new", "one", ("b1", "i2"), true).await;
    let check = json!({"clusterName": "one", "selector": {"matchLabels": {"set": "a"}}});
    let check = json!({"apiVersion": CORE, "kind": "MachineHealthCheck", "metadata": {"name": "md"}, "spec": check});
    ground.apply(check).await;
    for (kind, name, finalizer) in
        [("MachineDeployment", "md", OF_DEPLOYMENT), ("MachineSet", "old", OF_SET), ("MachineSet", "new", OF_SET)]
    {
        let fact = format!("{kind} {name} has its finalizer");
        ground.eventually(&fact, async || ground.finalizers(kind, name).await == [finalizer]).await;
    }
    assert!(ground.finalizers("MachineDeployment", "theirs").await.is_empty());

    // After a rotation the old set goes: what the new one has stays.
    ground.delete("MachineSet", "old").await;
    ground.eventually("the old set is gone", async || !ground.is_there(CORE, "MachineSet", "old").await).await;
    assert_eq!(ground.existing(&ALL).await, ["b1", "i2", "b9"]);

    // What a set still has survives the deployment, and goes with the set.
    ground.delete("MachineDeployment", "theirs").await;
    ground.delete("MachineDeployment", "md").await;
    ground.eventually("the deployment is gone", async || !ground.is_there(CORE, "MachineDeployment", "md").await).await;
    assert_eq!(ground.existing(&ALL).await, ["b1", "i2", "b9"]);
    assert!(!ground.is_there(CORE, "MachineHealthCheck", "md").await);
    ground.delete("MachineSet", "new").await;
    ground.eventually("the new set is gone", async || !ground.is_there(CORE, "MachineSet", "new").await).await;
    assert_eq!(ground.existing(&ALL).await, ["b9"], "those of somebody else stay");
}

#[tokio::test]
async fn objects_of_a_paused_cluster_stay_until_it_is_unpaused() {
    // DEL-05
    let ground = Ground::new().await;
    ground.templates(&["b1", "i1"]).await;
    ground.cluster("one", true).await;
    ground.maker("MachineDeployment", "md", "one", ("b1", "i1"), true).await;
    let finalizers = async || ground.finalizers("MachineDeployment", "md").await;
    ground.eventually("there is a finalizer", async || finalizers().await == [OF_DEPLOYMENT]).await;
    ground.delete("MachineDeployment", "md").await;
    let left_alone = "topologist_reconciles_total{controller=\"topology/machinedeployment\",outcome=\"left-alone\"}";
    let is_left_alone = async || ground.topologist.metric(left_alone).is_some_and(|runs| runs >= 1.0);
    ground.eventually("the deployment is left alone", is_left_alone).await;
    assert_eq!(finalizers().await, [OF_DEPLOYMENT]);
    assert_eq!(ground.existing(&["b1", "i1"]).await, ["b1", "i1"]);
    ground.cluster("one", false).await;
    ground.eventually("the deployment is gone", async || !ground.is_there(CORE, "MachineDeployment", "md").await).await;
    assert!(ground.existing(&["b1", "i1"]).await.is_empty());
}
