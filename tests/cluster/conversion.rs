//! Clients of both versions on one API server, which asks topologist to convert.
//!
//! The binary runs as the ServiceAccount of the manifests and is started before its CRDs exist: conversions are
//! answered before any cache is filled, since the watches that fill the caches may need them.

use std::sync::OnceLock;

use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use topologist::hub::Kind;

use crate::admission::{causes, denial, pairs};
use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{definitions_at, overlay, permissions, stream, webhooks_at};
use crate::harness::server::{Topologist, make_certificates};
use crate::harness::wait;
use crate::harness::wait::SOON;

const ANNOTATION: &str = "cluster.x-k8s.io/conversion-data";

/// An API server, and a topologist that has been told of no CRDs yet.
struct Installation {
    topologist: Topologist,
    authority: Vec<u8>,
    _folder: TempDir,
    kubernetes: Kubernetes,
}

impl Installation {
    async fn start() -> Self {
        let kubernetes = Kubernetes::start();
        kubernetes.apply_yaml(&stream(&permissions(overlay("alone")))).await;
        let kubeconfig = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
        let folder = tempfile::tempdir().unwrap();
        make_certificates(folder.path());
        let file = |name: &str| folder.path().join(name).display().to_string();
        let (cert, key) = (file("tls.crt"), file("tls.key"));
        let topologist =
            Topologist::serve(&["--kubeconfig", kubeconfig.to_str().unwrap(), "--tls-cert", &cert, "--tls-key", &key]);
        let authority = std::fs::read(file("ca.crt")).unwrap();
        Installation { topologist, authority, _folder: folder, kubernetes }
    }

    fn definitions(&self) -> Vec<Value> {
        definitions_at(overlay("alone"), &self.topologist.conversions, &self.authority)
    }

    /// The kinds of providers, one of which follows a contract.
    async fn install_providers(&self) {
        let definition = |kind: &str, labels: Value| {
            let plural = format!("{}s", kind.to_lowercase());
            let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            let version = |name: &str, storage: bool| {
                json!({"name": name, "served": true, "storage": storage,
                    "schema": {"openAPIV3Schema": schema}})
            };
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{plural}.infrastructure.cluster.x-k8s.io"), "labels": labels},
                "spec": {"group": "infrastructure.cluster.x-k8s.io", "scope": "Namespaced",
                    "names": {"kind": kind, "plural": plural},
                    "versions": [version("v1beta1", false), version("v1beta2", true)]}})
        };
        let labels = json!({"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"});
        let all = [definition("DevCluster", labels), definition("OtherCluster", json!({}))];
        self.kubernetes.apply_yaml(&stream(&all)).await;
    }

    fn api(&self, kind: Kind, version: &str, namespace: &str) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", version, kind.name());
        let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural());
        Api::namespaced_with(self.kubernetes.client(), namespace, &resource)
    }
}

/// The installation that most tests share, with CRDs and webhooks.
fn shared() -> &'static Installation {
    static INSTALLATION: OnceLock<Installation> = OnceLock::new();
    INSTALLATION.get_or_init(|| {
        // A runtime of its own: the tests' runtimes come and go.
        std::thread::spawn(|| tokio::runtime::Runtime::new().unwrap().block_on(install())).join().unwrap()
    })
}

async fn install() -> Installation {
    let installation = Installation::start().await;
    installation.kubernetes.apply_yaml(&stream(&installation.definitions())).await;
    installation.install_providers().await;
    installation.topologist.wait_until_ready();
    let webhooks = webhooks_at(overlay("alone"), &installation.topologist.webhook, &installation.authority);
    installation.kubernetes.apply_yaml(&stream(&webhooks)).await;
    let clusters = installation.api(Kind::Cluster, "v1beta2", "default");
    let nothing = object(Kind::Cluster, "v1beta2", &json!({"metadata": {"name": "probe"}, "spec": {"paused": true}}));
    let classes = installation.api(Kind::ClusterClass, "v1beta1", "default");
    let wrong = object(Kind::ClusterClass, "v1beta1", &class_elsewhere("probe"));
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    until("all webhooks are called", async || {
        clusters.create(&dry, &nothing).await.is_err() && classes.create(&dry, &wrong).await.is_err()
    })
    .await;
    installation
}

async fn until(fact: &str, holds: impl AsyncFnMut() -> bool) {
    wait::until_async(fact, SOON, holds, wait::nothing).await;
}

/// A namespace, with both kinds in both versions.
struct Objects {
    namespace: String,
    old: [Api<DynamicObject>; 2],
    new: [Api<DynamicObject>; 2],
}

impl Objects {
    async fn fresh(prefix: &str) -> Self {
        let installation = shared();
        let namespace = installation.kubernetes.namespace(prefix).await;
        let in_version = |version: &str| Kind::ALL.map(|kind| installation.api(kind, version, &namespace));
        let (old, new) = (in_version("v1beta1"), in_version("v1beta2"));
        Objects { namespace, old, new }
    }

    fn v1beta1(&self, kind: Kind) -> &Api<DynamicObject> {
        &self.old[kind as usize]
    }

    fn v1beta2(&self, kind: Kind) -> &Api<DynamicObject> {
        &self.new[kind as usize]
    }

    async fn create_old(&self, kind: Kind, value: &Value) -> Result<DynamicObject, kube::Error> {
        self.v1beta1(kind).create(&PostParams::default(), &object(kind, "v1beta1", value)).await
    }

    async fn create_new(&self, kind: Kind, value: &Value) -> Result<DynamicObject, kube::Error> {
        self.v1beta2(kind).create(&PostParams::default(), &object(kind, "v1beta2", value)).await
    }
}

fn object(kind: Kind, version: &str, value: &Value) -> DynamicObject {
    let mut value = value.clone();
    value["apiVersion"] = json!(format!("cluster.x-k8s.io/{version}"));
    value["kind"] = json!(kind.name());
    serde_json::from_value(value).unwrap()
}

fn template(group: &str, kind: &str) -> Value {
    json!({"apiVersion": format!("{group}.cluster.x-k8s.io/v1beta2"), "kind": kind, "name": "t"})
}

/// A class in v1beta1 with something of all that moves; its references have this namespace, or none.
fn class(name: &str, namespace: Option<&str>) -> Value {
    let reference = |group: &str, kind: &str| {
        let mut reference = template(group, kind);
        if let Some(namespace) = namespace {
            reference["namespace"] = json!(namespace);
        }
        json!({ "ref": reference })
    };
    let mut control_plane = reference("controlplane", "KubeadmControlPlaneTemplate");
    control_plane["machineInfrastructure"] = reference("infrastructure", "DevMachineTemplate");
    control_plane["nodeDrainTimeout"] = json!("1m30s");
    control_plane["namingStrategy"] = json!({"template": "{{ .cluster.name }}-cp"});
    let selector = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevClusterTemplate",
        "matchResources": {"infrastructureCluster": true}});
    json!({"metadata": {"name": name}, "spec": {
        "infrastructure": reference("infrastructure", "DevClusterTemplate"),
        "controlPlane": control_plane,
        "workers": {"machineDeployments": [{"class": "small",
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "deletePolicy": "Oldest"},
                "remediation": {"maxInFlight": "20%"}},
            "machineHealthCheck": {"maxUnhealthy": "40%", "nodeStartupTimeout": "10m0s",
                "unhealthyConditions": [{"type": "Ready", "status": "False", "timeout": "5m0s"}]},
            "template": {"metadata": {"labels": {"a": "b"}},
                "bootstrap": reference("bootstrap", "KubeadmConfigTemplate"),
                "infrastructure": reference("infrastructure", "DevMachineTemplate")}}]},
        "variables": [{"name": "replicas", "required": true, "metadata": {"labels": {"a": "b"}},
            "schema": {"openAPIV3Schema": {"type": "object",
                "properties": {"a": {"type": "number", "default": 0.1}}}}}],
        "patches": [{"name": "p", "enabledIf": "{{ true }}", "definitions": [{"selector": selector,
            "jsonPatches": [{"op": "add", "path": "/spec/template/spec/x", "value": {"a": [1, 2.5]}}]}]}],
    }})
}

fn class_elsewhere(name: &str) -> Value {
    class(name, Some("elsewhere"))
}

/// A Cluster in v1beta1.
fn cluster(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "infrastructureRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevCluster",
            "name": "i"},
        "clusterNetwork": {"pods": {"cidrBlocks": ["10.0.0.0/8"]}},
        "topology": {"class": "base", "version": "v1.33.0",
            "controlPlane": {"replicas": 3, "nodeDrainTimeout": "2m0s"},
            "workers": {"machineDeployments": [{"class": "small", "name": "md-0", "replicas": 1,
                "strategy": {"type": "OnDelete"}, "machineHealthCheck": {"enable": true}}]},
            "variables": [{"name": "replicas", "value": {"a": 0.1 + 0.2}}]},
    }})
}

#[tokio::test]
async fn clients_of_both_versions_read_back_the_written_object() {
    let objects = Objects::fresh("both").await;
    let wrote = class("base", Some(&objects.namespace));
    objects.create_old(Kind::ClusterClass, &wrote).await.unwrap();
    let read = objects.v1beta1(Kind::ClusterClass).get("base").await.unwrap();
    assert_eq!(read.data["spec"], wrote["spec"]);
    let preserved = &read.metadata.annotations.as_ref().unwrap()[ANNOTATION];
    let new = objects.v1beta2(Kind::ClusterClass).get("base").await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(preserved).unwrap()["spec"], new.data["spec"]);
    assert_eq!(new.metadata.annotations, None);
    let worker = &new.data["spec"]["workers"]["machineDeployments"][0];
    assert_eq!(
        worker["healthCheck"],
        json!({"checks": {"nodeStartupTimeoutSeconds": 600,
            "unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": 300}]},
            "remediation": {"maxInFlight": "20%", "triggerIf": {"unhealthyLessThanOrEqualTo": "40%"}}})
    );
    assert_eq!(worker["bootstrap"], json!({"templateRef": template("bootstrap", "KubeadmConfigTemplate")}));

    let wrote = cluster("one");
    objects.create_old(Kind::Cluster, &wrote).await.unwrap();
    let read = objects.v1beta1(Kind::Cluster).get("one").await.unwrap();
    let mut want = wrote["spec"].clone();
    // CONV-005
    want["infrastructureRef"]["namespace"] = json!(objects.namespace);
    assert_eq!(read.data["spec"], want);
    let new = objects.v1beta2(Kind::Cluster).get("one").await.unwrap();
    assert_eq!(
        new.data["spec"]["infrastructureRef"],
        json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevCluster", "name": "i"})
    );
    assert_eq!(new.data["spec"]["topology"]["classRef"], json!({"name": "base"}));
    // A full update by each, of what it read, changes nothing.
    let before = new.metadata.generation;
    objects.v1beta1(Kind::Cluster).replace("one", &PostParams::default(), &read).await.unwrap();
    let after = objects.v1beta2(Kind::Cluster).get("one").await.unwrap();
    assert_eq!((after.metadata.generation, &after.data["spec"]), (before, &new.data["spec"]));
    for (api, version) in [(objects.v1beta1(Kind::Cluster), "v1beta1"), (objects.v1beta2(Kind::Cluster), "v1beta2")] {
        let list = api.list(&ListParams::default()).await.unwrap();
        let versions: Vec<_> = list.items.iter().map(|item| item.types.as_ref().unwrap().api_version.clone()).collect();
        assert_eq!(versions, [format!("cluster.x-k8s.io/{version}")]);
    }
}

#[tokio::test]
async fn an_explicit_false_of_v1beta2_survives_an_update_in_v1beta1() {
    // CONV-002, CONV-013
    let objects = Objects::fresh("false").await;
    objects.create_old(Kind::ClusterClass, &class("base", None)).await.unwrap();
    let patch = Patch::Merge(json!({"spec": {"patches": [{"name": "p", "definitions": [{
        "selector": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevClusterTemplate",
            "matchResources": {"infrastructureCluster": true, "controlPlane": false}},
        "jsonPatches": [{"op": "add", "path": "/spec/template/spec/x", "value": 1}]}]}]}}));
    objects.v1beta2(Kind::ClusterClass).patch("base", &PatchParams::default(), &patch).await.unwrap();
    let mut read = objects.v1beta1(Kind::ClusterClass).get("base").await.unwrap();
    // As a client with types writes it.
    let matched = "/spec/patches/0/definitions/0/selector/matchResources";
    read.data.pointer_mut(matched).unwrap().as_object_mut().unwrap().remove("controlPlane").unwrap();
    read.data["spec"]["controlPlane"]["nodeDrainTimeout"] = json!("3m0s");
    objects.v1beta1(Kind::ClusterClass).replace("base", &PostParams::default(), &read).await.unwrap();
    let new = objects.v1beta2(Kind::ClusterClass).get("base").await.unwrap();
    assert_eq!(new.data.pointer(matched).unwrap()["controlPlane"], false);
    assert_eq!(new.data["spec"]["controlPlane"]["deletion"], json!({"nodeDrainTimeoutSeconds": 180}));
}

#[tokio::test]
async fn patches_and_applied_objects_of_both_versions_meet_in_one_object() {
    let objects = Objects::fresh("patches").await;
    let (old, new) = (objects.v1beta1(Kind::Cluster), objects.v1beta2(Kind::Cluster));
    objects.create_old(Kind::ClusterClass, &class("base", None)).await.unwrap();
    let apply = |manager: &str| PatchParams::apply(manager);
    let mut applied = cluster("one");
    applied["apiVersion"] = json!("cluster.x-k8s.io/v1beta1");
    applied["kind"] = json!("Cluster");
    old.patch("one", &apply("old"), &Patch::Apply(&applied)).await.unwrap();
    let first = new.get("one").await.unwrap();

    // Applying the same again changes nothing.
    let again = old.patch("one", &apply("old"), &Patch::Apply(&applied)).await.unwrap();
    assert_eq!(again.metadata.generation, first.metadata.generation);

    // Each version sets a field of its own, and sees that of the other.
    let part = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "one"},
        "spec": {"topology": {"classRef": {"name": "base"}, "version": "v1.33.0",
            "controlPlane": {"deletion": {"nodeVolumeDetachTimeoutSeconds": 60}}}}});
    let both = new.patch("one", &apply("new"), &Patch::Apply(&part)).await.unwrap();
    let deletion = json!({"nodeDrainTimeoutSeconds": 120, "nodeVolumeDetachTimeoutSeconds": 60});
    assert_eq!(both.data["spec"]["topology"]["controlPlane"]["deletion"], deletion);
    let control_plane = old.get("one").await.unwrap().data["spec"]["topology"]["controlPlane"].clone();
    assert_eq!(control_plane, json!({"replicas": 3, "nodeDrainTimeout": "2m0s", "nodeVolumeDetachTimeout": "1m0s"}));

    // Both want the same field.
    let mut other = part.clone();
    other["spec"]["topology"]["controlPlane"] = json!({"deletion": {"nodeDrainTimeoutSeconds": 1}});
    let conflict = denial(new.patch("one", &apply("third"), &Patch::Apply(&other)).await);
    assert_eq!((conflict.code, &*conflict.reason), (409, "Conflict"));
    assert!(conflict.message.contains("\"old\""), "{}", conflict.message);

    // Whoever applies without a field that it had gives it up.
    applied["spec"]["topology"]["controlPlane"] = json!({"replicas": 3});
    old.patch("one", &apply("old"), &Patch::Apply(&applied)).await.unwrap();
    let deletion = new.get("one").await.unwrap().data["spec"]["topology"]["controlPlane"]["deletion"].clone();
    assert_eq!(deletion, json!({"nodeVolumeDetachTimeoutSeconds": 60}));

    let merge = Patch::Merge(json!({"spec": {"topology": {"controlPlane": {"nodeDeletionTimeout": "90s"}}}}));
    old.patch("one", &PatchParams::default(), &merge).await.unwrap();
    let replace = json!([{"op": "replace", "path": "/spec/topology/workers/machineDeployments/0/rollout/strategy/type",
        "value": "RollingUpdate"}]);
    let replace: json_patch::Patch = serde_json::from_value(replace).unwrap();
    new.patch("one", &PatchParams::default(), &Patch::Json::<()>(replace)).await.unwrap();
    let last = new.get("one").await.unwrap();
    let deletion = &last.data["spec"]["topology"]["controlPlane"]["deletion"];
    assert_eq!(*deletion, json!({"nodeDeletionTimeoutSeconds": 90, "nodeVolumeDetachTimeoutSeconds": 60}));
    let strategy =
        &old.get("one").await.unwrap().data["spec"]["topology"]["workers"]["machineDeployments"][0]["strategy"];
    assert_eq!(*strategy, json!({"type": "RollingUpdate"}));
}

#[tokio::test]
async fn references_of_v1beta1_get_the_namespace_of_the_class_and_no_other() {
    // DEC-3
    let objects = Objects::fresh("namespaces").await;
    let status = denial(objects.create_old(Kind::ClusterClass, &class_elsewhere("wrong")).await);
    let got = causes(&status);
    let prefixes = [
        "spec.infrastructure",
        "spec.controlPlane",
        "spec.controlPlane.machineInfrastructure",
        "spec.workers.machineDeployments[0].template.bootstrap",
        "spec.workers.machineDeployments[0].template.infrastructure",
    ];
    let want: Vec<_> = prefixes.iter().map(|path| format!("{path}.ref.namespace")).collect();
    assert_eq!(got, pairs(&want.iter().map(|path| ("FieldValueInvalid", &**path)).collect::<Vec<_>>()));
    let stored = objects.create_old(Kind::ClusterClass, &class("right", None)).await.unwrap();
    assert_eq!(stored.data["spec"], class("right", Some(&objects.namespace))["spec"]);
}

#[tokio::test]
async fn a_client_gets_the_reason_of_a_failed_conversion() {
    let objects = Objects::fresh("failing").await;
    // Classes of v1beta1 are reviewed before they are converted, Clusters after.
    let mut soon = class("soon", None);
    soon["spec"]["controlPlane"]["nodeDrainTimeout"] = json!("soon");
    let status = denial(objects.create_old(Kind::ClusterClass, &soon).await);
    let error = "nodeDrainTimeout: \"soon\" is not a duration such as 5m30s";
    assert!(status.message.contains(&format!("does not decode: spec.controlPlane.{error}")), "{}", status.message);
    let mut soon = cluster("soon");
    soon["spec"]["topology"]["controlPlane"]["nodeDrainTimeout"] = json!("soon");
    let status = denial(objects.create_old(Kind::Cluster, &soon).await);
    let message = format!(
        "objects[0]: Cluster {}/soon (cluster.x-k8s.io/v1beta1) cannot be converted to v1beta2: \
         spec.topology.controlPlane.{error}",
        objects.namespace
    );
    assert!(status.message.contains(&message), "{}", status.message);

    // Nothing says what version its kind has; nothing else is held up by it.
    let reference = |kind: &str| json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": kind, "name": "o"});
    let of =
        |name: &str, kind: &str| json!({"metadata": {"name": name}, "spec": {"infrastructureRef": reference(kind)}});
    objects.create_new(Kind::Cluster, &of("other", "OtherCluster")).await.unwrap();
    objects.create_new(Kind::Cluster, &of("absent", "AbsentCluster")).await.unwrap();
    objects.create_new(Kind::Cluster, &of("fine", "DevCluster")).await.unwrap();
    for (name, reason) in [
        ("other", "CustomResourceDefinition otherclusters.infrastructure.cluster.x-k8s.io has no contract label"),
        ("absent", "CustomResourceDefinition absentclusters.infrastructure.cluster.x-k8s.io does not exist"),
    ] {
        let error = objects.v1beta1(Kind::Cluster).get(name).await.unwrap_err().to_string();
        assert!(error.contains("spec.infrastructureRef: the API version of") && error.contains(reason), "{error}");
        objects.v1beta2(Kind::Cluster).get(name).await.unwrap();
    }
    let fine = objects.v1beta1(Kind::Cluster).get("fine").await.unwrap();
    assert_eq!(fine.data["spec"]["infrastructureRef"]["apiVersion"], "infrastructure.cluster.x-k8s.io/v1beta2");
    assert!(shared().topologist.metric("topologist_conversions_total{kind=\"Cluster\",outcome=\"failure\"}").is_some());
    // The v1beta1 caches of the API server would go on asking about them.
    for name in ["other", "absent"] {
        objects.v1beta2(Kind::Cluster).delete(name, &DeleteParams::default()).await.unwrap();
    }
}

#[tokio::test]
async fn the_largest_allowed_class_is_read_in_v1beta1() {
    // CONV-013: with its whole v1beta2 form in the annotation the API server would refuse it.
    let objects = Objects::fresh("large").await;
    let mut large = class("large", Some(&objects.namespace));
    let patch = large["spec"]["patches"][0].clone();
    let patches = (0..60).map(|i| {
        let mut patch = patch.clone();
        patch["name"] = json!(format!("patch-{i}"));
        patch["definitions"][0]["jsonPatches"][0]["value"] = json!({"text": "x".repeat(10_000)});
        patch
    });
    large["spec"]["patches"] = patches.collect();
    objects.create_old(Kind::ClusterClass, &large).await.unwrap();
    let read = objects.v1beta1(Kind::ClusterClass).get("large").await.unwrap();
    assert_eq!(read.data["spec"], large["spec"]);
    let again = objects.v1beta1(Kind::ClusterClass).replace("large", &PostParams::default(), &read).await.unwrap();
    assert_eq!(again.metadata.generation, read.metadata.generation);
}

#[tokio::test]
async fn objects_that_were_stored_in_v1beta1_are_listed_in_v1beta2() {
    let installation = Installation::start().await;
    let mut definitions = installation.definitions();
    let is_ours = |definition: &&mut Value| {
        definition["spec"].get("conversion").is_some() && definition["spec"]["group"] == "cluster.x-k8s.io"
    };
    for definition in definitions.iter_mut().filter(is_ours) {
        for version in definition["spec"]["versions"].as_array_mut().unwrap() {
            version["storage"] = json!(version["name"] == "v1beta1");
        }
    }
    installation.kubernetes.apply_yaml(&stream(&definitions)).await;
    installation.install_providers().await;
    let namespace = installation.kubernetes.namespace("stored").await;
    let create = async |kind: Kind, value: Value| {
        let api = installation.api(kind, "v1beta1", &namespace);
        api.create(&PostParams::default(), &object(kind, "v1beta1", &value)).await.unwrap();
    };
    create(Kind::ClusterClass, class("base", None)).await;
    for i in 0..5 {
        create(Kind::Cluster, cluster(&format!("c{i}"))).await;
    }

    installation.kubernetes.apply_yaml(&stream(&installation.definitions())).await;
    let clusters = installation.api(Kind::Cluster, "v1beta2", &namespace);
    let has_moved = async || {
        let list = clusters.list(&ListParams::default()).await.unwrap();
        assert_eq!(list.items.len(), 5);
        list.items.iter().all(|cluster| cluster.data["spec"]["topology"]["classRef"]["name"] == "base")
    };
    until("the new storage version is in force", has_moved).await;
    installation.topologist.wait_until_ready();
    let objects = |kind: &str| installation.topologist.metric(&format!("topologist_cache_objects{{kind=\"{kind}\"}}"));
    until("topologist knows all of them", async || {
        (objects("Cluster"), objects("ClusterClass")) == (Some(5.0), Some(1.0))
    })
    .await;
    assert_eq!(installation.topologist.metric("topologist_unreadable_objects_total{kind=\"Cluster\"}"), None);

    // A write stores the new version; nothing is lost on the way.
    let touch = Patch::Merge(json!({"metadata": {"labels": {"touched": "yes"}}}));
    clusters.patch("c0", &PatchParams::default(), &touch).await.unwrap();
    let old = installation.api(Kind::Cluster, "v1beta1", &namespace).get("c0").await.unwrap();
    let mut want = cluster("c0")["spec"].clone();
    want["infrastructureRef"]["namespace"] = json!(namespace);
    assert_eq!(old.data["spec"], want);
}

#[tokio::test]
async fn without_conversions_clients_of_v1beta2_keep_working() {
    let mut installation = Installation::start().await;
    installation.kubernetes.apply_yaml(&stream(&installation.definitions())).await;
    let namespace = installation.kubernetes.namespace("alone").await;
    let old = installation.api(Kind::ClusterClass, "v1beta1", &namespace);
    let new = installation.api(Kind::ClusterClass, "v1beta2", &namespace);
    for name in ["mixed", "third"] {
        let class = object(Kind::ClusterClass, "v1beta1", &class(name, None));
        old.create(&PostParams::default(), &class).await.unwrap();
    }
    let mut pure = new.get("mixed").await.unwrap();
    pure.metadata = serde_json::from_value(json!({"name": "pure"})).unwrap();
    new.create(&PostParams::default(), &pure).await.unwrap();
    installation.topologist.signal("INT");
    installation.topologist.signal("INT");
    installation.topologist.wait();

    let error = old.get("pure").await.unwrap_err().to_string();
    assert!(error.contains("conversion webhook for cluster.x-k8s.io/v1beta2, Kind=ClusterClass failed"), "{error}");
    assert_eq!(new.list(&ListParams::default()).await.unwrap().items.len(), 3);
    let merge = Patch::Merge(json!({"spec": {"kubernetesVersions": ["v1.33.0"]}}));
    let merge = async |name: &str| new.patch(name, &PatchParams::default(), &merge).await.unwrap();
    let part = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
        "metadata": {"labels": {"a": "b"}}});
    let apply = async |name: &str| new.patch(name, &PatchParams::apply("story"), &Patch::Apply(&part)).await;
    merge("pure").await;
    let applied = apply("pure").await.unwrap();
    assert_eq!(applied.data["spec"]["kubernetesVersions"], json!(["v1.33.0"]));

    // Who owns a field in v1beta1 can only be found out by conversion, as docs/operations.md has it.
    let error = apply("third").await.unwrap_err().to_string();
    assert!(error.contains("conversion webhook for cluster.x-k8s.io/v1beta2"), "{error}");
    let merged = merge("mixed").await;
    assert_eq!(merged.data["spec"]["kubernetesVersions"], json!(["v1.33.0"]));
    assert_eq!(merged.metadata.managed_fields, None, "the API server forgets who owns what");
    for name in ["mixed", "pure", "third"] {
        new.delete(name, &DeleteParams::default()).await.unwrap();
    }
}

#[tokio::test]
async fn kinds_of_the_embedded_provider_are_read_and_written_in_both_contracts() {
    // CONV-017, CT-5.4
    let installation = shared();
    let definitions = definitions_at(
        topologist::crd::embedded_provider(),
        &installation.topologist.conversions,
        &installation.authority,
    );
    installation.kubernetes.apply_yaml(&stream(&definitions)).await;
    let namespace = installation.kubernetes.namespace("embedded").await;
    let api = |version: &str| -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("controlplane.topologist.dev", version, "EmbeddedControlPlane");
        Api::namespaced_with(installation.kubernetes.client(), &namespace, &ApiResource::from_gvk(&kind))
    };
    let (old, new) = (api("v1alpha1"), api("v1beta1"));
    let reference = json!({"apiVersion": "infrastructure.topologist.dev/v1beta1", "kind": "EmbeddedMachineTemplate",
        "name": "m", "namespace": namespace});
    let applied = json!({"apiVersion": "controlplane.topologist.dev/v1alpha1", "kind": "EmbeddedControlPlane",
        "metadata": {"name": "one"}, "spec": {"replicas": 3, "version": "v1.33.0",
            "machineTemplate": {"infrastructureRef": reference, "nodeDrainTimeout": "90s"}}});
    let mut apply = PatchParams::apply("story").force();
    old.patch("one", &apply, &Patch::Apply(&applied)).await.unwrap();
    let stored = new.get("one").await.unwrap();
    let machines = &stored.data["spec"]["machineTemplate"]["spec"];
    assert_eq!(machines["deletion"], json!({"nodeDrainTimeoutSeconds": 90}));
    let wanted = json!({"apiGroup": "infrastructure.topologist.dev", "kind": "EmbeddedMachineTemplate", "name": "m"});
    assert_eq!(machines["infrastructureRef"], wanted);

    let status = json!({"status": {"initialization": {"controlPlaneInitialized": true}, "replicas": 3,
        "readyReplicas": 2,
        "availableReplicas": 2, "upToDateReplicas": 3, "version": "v1.33.0"}});
    new.patch_status("one", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    let seen = old.get("one").await.unwrap();
    assert_eq!(seen.data["spec"], applied["spec"], "spec is as it was written, although the status has changed");
    let wanted = json!({"initialized": true, "ready": true, "replicas": 3, "readyReplicas": 2, "unavailableReplicas": 1,
        "updatedReplicas": 3, "version": "v1.33.0", "v1beta2": {"availableReplicas": 2}});
    assert_eq!(seen.data["status"], wanted);
    assert!(seen.metadata.annotations.unwrap_or_default().is_empty());

    apply.dry_run = true;
    let again = old.patch("one", &apply, &Patch::Apply(&applied)).await.unwrap();
    assert_eq!(again.metadata.resource_version, seen.metadata.resource_version, "nothing is left to apply");
    let mut wrong = applied;
    wrong["spec"]["machineTemplate"]["nodeDrainTimeout"] = json!("soon");
    let refused = old.patch("one", &apply, &Patch::Apply(&wrong)).await.unwrap_err();
    assert!(refused.to_string().contains("nodeDrainTimeout"), "{refused}");
}
