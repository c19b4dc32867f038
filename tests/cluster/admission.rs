//! kube-apiserver asks topologist, and clients see its answers.
//!
//! One installation serves all tests: the CRDs that the binary prints, the webhook configurations and the permissions
//! of `manifests/`, and the binary itself as the ServiceAccount that they name. Each test has a namespace of its own.

use std::sync::OnceLock;

use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::core::response::Status;
use serde_json::{Value, json};

use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{overlay, overlay_with, permissions, stream, webhooks_at};
use crate::harness::objects::template_ref;
use crate::harness::server::{Topologist, command, make_certificates};
use crate::harness::wait::{self, SOON};
use crate::upgrades::{self, Running, with_control_plane};

struct Installation {
    topologist: Topologist,
    authority: Vec<u8>,
}

/// The installation, made once for all tests of this process.
fn installation() -> &'static Installation {
    static INSTALLATION: OnceLock<Installation> = OnceLock::new();
    INSTALLATION.get_or_init(|| {
        // A runtime of its own: the tests' runtimes come and go.
        std::thread::spawn(|| tokio::runtime::Runtime::new().unwrap().block_on(install())).join().unwrap()
    })
}

async fn install() -> Installation {
    let kubernetes = Kubernetes::shared();
    let crds = command(&["crds"]).output().unwrap();
    assert!(crds.status.success());
    kubernetes.apply_yaml(&String::from_utf8(crds.stdout).unwrap()).await;
    kubernetes.apply_yaml(&stream(&upgrades::definitions())).await;
    kubernetes.apply_yaml(&stream(&permissions(overlay_with("beside", &["workload-clusters"], &[])))).await;
    let kubeconfig = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
    // Beside the kubeconfig, which goes away with the API server.
    let certificates = kubernetes.kubeconfig().parent().unwrap().join("certificates");
    make_certificates(&certificates);
    let file = |name: &str| certificates.join(name).display().to_string();
    let (cert, key) = (file("tls.crt"), file("tls.key"));
    let topologist =
        Topologist::serve(&["--kubeconfig", kubeconfig.to_str().unwrap(), "--tls-cert", &cert, "--tls-key", &key]);
    topologist.wait_until_ready();
    let authority = std::fs::read(file("ca.crt")).unwrap();
    let webhooks = webhooks_at(overlay("beside"), &topologist.webhook, &authority);
    kubernetes.apply_yaml(&stream(&webhooks)).await;
    let installed = Installation { topologist, authority };
    wait_until_guarded().await;
    installed
}

/// A new webhook configuration takes effect some milliseconds after it is stored.
async fn wait_until_guarded() {
    let api = Objects::new("default");
    let nothing = json!({"metadata": {"name": "probe"}, "spec": {"paused": true}});
    let is_denied = async || api.clusters.create(&dry(), &object("Cluster", &nothing)).await.is_err();
    wait::until_async("the webhook is called", SOON, is_denied, wait::nothing).await;
}

pub(crate) fn dry() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

/// The two kinds in one namespace.
pub(crate) struct Objects {
    pub(crate) namespace: String,
    pub(crate) clusters: Api<DynamicObject>,
    pub(crate) classes: Api<DynamicObject>,
}

impl Objects {
    fn new(namespace: &str) -> Self {
        let client: Client = Kubernetes::shared().client();
        let api = |kind: &str, plural: &str| {
            let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", kind);
            Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk_with_plural(&gvk, plural))
        };
        Objects {
            namespace: namespace.to_owned(),
            clusters: api("Cluster", "clusters"),
            classes: api("ClusterClass", "clusterclasses"),
        }
    }

    pub(crate) async fn fresh(prefix: &str) -> Self {
        installation();
        Self::new(&Kubernetes::shared().namespace(prefix).await)
    }

    pub(crate) async fn create(&self, kind: &str, value: &Value) -> Result<DynamicObject, kube::Error> {
        let api = if kind == "Cluster" { &self.clusters } else { &self.classes };
        api.create(&PostParams::default(), &object(kind, value)).await
    }
}

/// The webhook for Clusters of a namespace once more, under another name and with another timeout in seconds.
pub(crate) fn webhooks_elsewhere(namespace: &str, name: &str, timeout: u32) -> Value {
    let installation = installation();
    let mut configurations = webhooks_at(overlay("beside"), &installation.topologist.webhook, &installation.authority);
    configurations.retain(|configuration| configuration["kind"] == "ValidatingWebhookConfiguration");
    let mut configuration = configurations.remove(0);
    let webhooks = configuration["webhooks"].as_array_mut().unwrap();
    webhooks.retain(|webhook| webhook["rules"][0]["resources"][0] == "clusters");
    webhooks[0]["name"] = json!(format!("{name}.topologist.dev"));
    webhooks[0]["timeoutSeconds"] = json!(timeout);
    webhooks[0]["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    configuration["metadata"]["name"] = json!(name);
    configuration
}

/// The webhooks for ExtensionConfigs with a label, under another name.
pub(crate) fn webhooks_for_extension_configs(name: &str) -> Vec<Value> {
    let installation = installation();
    let manifests = overlay_with("beside", &["extensions"], &[]);
    let mut configurations = webhooks_at(manifests, &installation.topologist.webhook, &installation.authority);
    for configuration in &mut configurations {
        configuration["metadata"]["name"] = json!(name);
        let webhooks = configuration["webhooks"].as_array_mut().unwrap();
        webhooks.retain(|webhook| webhook["rules"][0]["resources"][0] == "extensionconfigs");
        webhooks.iter_mut().for_each(|webhook| webhook["objectSelector"] = json!({"matchLabels": {"story": name}}));
    }
    configurations
}

pub(crate) fn object(kind: &str, value: &Value) -> DynamicObject {
    let mut value = value.clone();
    value["apiVersion"] = json!("cluster.x-k8s.io/v1beta2");
    value["kind"] = json!(kind);
    serde_json::from_value(value).unwrap()
}

pub(crate) fn class(name: &str) -> Value {
    let mut control_plane = template_ref("controlplane", "KubeadmControlPlaneTemplate");
    control_plane["machineInfrastructure"] = template_ref("infrastructure", "DevMachineTemplate");
    json!({"metadata": {"name": name}, "spec": {
        "infrastructure": template_ref("infrastructure", "DevClusterTemplate"),
        "controlPlane": control_plane,
        "workers": {"machineDeployments": [{"class": "small",
            "bootstrap": template_ref("bootstrap", "KubeadmConfigTemplate"),
            "infrastructure": template_ref("infrastructure", "DevMachineTemplate")}]},
    }})
}

pub(crate) fn cluster(name: &str, class: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"topology": {"classRef": {"name": class}, "version": "v1.33.0",
        "workers": {"machineDeployments": [{"class": "small", "name": "md-0", "replicas": 1}]}}}})
}

/// The status of a denial.
pub(crate) fn denial<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> Status {
    match result {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("expected a denial, got {other:?}"),
    }
}

/// Reason and field of each cause.
pub(crate) fn causes(status: &Status) -> Vec<(String, String)> {
    let causes = status.details.as_ref().map(|details| details.causes.clone()).unwrap_or_default();
    causes.into_iter().map(|cause| (cause.reason, cause.field)).collect()
}

pub(crate) fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(reason, field)| ((*reason).to_owned(), (*field).to_owned())).collect()
}

#[tokio::test]
async fn a_good_class_and_cluster_are_stored_with_defaults() {
    let objects = Objects::fresh("stored").await;
    objects.create("ClusterClass", &class("base")).await.unwrap();
    let mut wanted = cluster("one", "base");
    wanted["spec"]["topology"]["version"] = json!("1.33.0");
    let stored = objects.create("Cluster", &wanted).await.unwrap();
    assert_eq!(stored.data["spec"]["topology"]["version"], "v1.33.0", "CL-D-002");
    Running::new(Kubernetes::shared().client(), &objects.namespace).control_plane("one", "v1.33.0").await;
    objects.clusters.patch("one", &PatchParams::default(), &with_control_plane("one")).await.unwrap();
    let next = Patch::Merge(json!({"spec": {"topology": {"version": "1.34.1"}}}));
    let updated = objects.clusters.patch("one", &PatchParams::default(), &next).await.unwrap();
    assert_eq!(updated.data["spec"]["topology"]["version"], "v1.34.1");
}

#[tokio::test]
async fn a_denied_object_shows_all_its_causes() {
    let objects = Objects::fresh("denied").await;
    objects.create("ClusterClass", &class("base")).await.unwrap();
    let mut wrong = cluster("two", "base");
    wrong["spec"]["clusterNetwork"] = json!({"pods": {"cidrBlocks": ["10.0.0.0"]}});
    wrong["spec"]["topology"]["version"] = json!("v1.33");
    wrong["spec"]["topology"]["workers"]["machineDeployments"][0]["class"] = json!("huge");
    let status = denial(objects.create("Cluster", &wrong).await);
    assert_eq!((status.code, &*status.reason), (422, "Invalid"));
    let want = [
        ("FieldValueInvalid", "spec.clusterNetwork.pods.cidrBlocks[0]"),
        ("FieldValueInvalid", "spec.topology.version"),
        ("FieldValueInvalid", "spec.topology.workers.machineDeployments[0].class"),
    ];
    assert_eq!(causes(&status), pairs(&want));
    assert!(status.message.contains(r#"Cluster.cluster.x-k8s.io "two" is invalid"#), "{}", status.message);
    let mut class = class("broken");
    class["spec"]["infrastructure"]["templateRef"]["kind"] = json!("DevCluster");
    let status = denial(objects.create("ClusterClass", &class).await);
    assert_eq!(causes(&status), pairs(&[("FieldValueInvalid", "spec.infrastructure.ref.kind")]));
}

#[tokio::test]
async fn the_api_servers_own_schema_errors_come_first() {
    let objects = Objects::fresh("schema").await;
    objects.create("ClusterClass", &class("base")).await.unwrap();
    let mut wrong = cluster("three", "base");
    wrong["spec"]["clusterNetwork"] = json!({"apiServerPort": 70_000, "pods": {"cidrBlocks": ["10.0.0.0"]}});
    let status = denial(objects.create("Cluster", &wrong).await);
    assert_eq!(causes(&status), pairs(&[("FieldValueInvalid", "spec.clusterNetwork.apiServerPort")]));
}

#[tokio::test]
async fn updates_server_side_apply_and_dry_runs_are_judged() {
    let objects = Objects::fresh("updates").await;
    objects.create("ClusterClass", &class("base")).await.unwrap();
    objects.create("Cluster", &cluster("four", "base")).await.unwrap();
    Running::new(Kubernetes::shared().client(), &objects.namespace).control_plane("four", "v1.33.0").await;
    objects.clusters.patch("four", &PatchParams::default(), &with_control_plane("four")).await.unwrap();

    let back = Patch::Merge(json!({"spec": {"topology": {"version": "v1.32.0"}}}));
    let status = denial(objects.clusters.patch("four", &PatchParams::default(), &back).await);
    assert_eq!(causes(&status), pairs(&[("FieldValueInvalid", "spec.topology.version")]));

    let mut applied = cluster("four", "base");
    applied["apiVersion"] = json!("cluster.x-k8s.io/v1beta2");
    applied["kind"] = json!("Cluster");
    applied["spec"]["topology"]["version"] = json!("v1.35.0");
    let apply = PatchParams::apply("story").force();
    let status = denial(objects.clusters.patch("four", &apply, &Patch::Apply(&applied)).await);
    assert_eq!(causes(&status), pairs(&[("FieldValueInvalid", "spec.topology.version")]));
    applied["spec"]["topology"]["version"] = json!("v1.34.0");

    let stored = objects.clusters.patch("four", &apply.clone().dry_run(), &Patch::Apply(&applied)).await.unwrap();
    assert_eq!(stored.data["spec"]["topology"]["version"], "v1.34.0");
    assert_eq!(
        objects.clusters.get("four").await.unwrap().data["spec"]["topology"]["version"],
        "v1.33.0",
        "a dry run stores nothing"
    );
    objects.clusters.patch("four", &apply, &Patch::Apply(&applied)).await.unwrap();

    let status = denial(
        objects
            .clusters
            .create(&dry(), &object("Cluster", &json!({"metadata": {"name": "dry"}, "spec": {"paused": true}})))
            .await,
    );
    assert_eq!(causes(&status), pairs(&[("FieldValueForbidden", "spec")]));
}

#[tokio::test]
async fn a_class_in_use_cannot_be_deleted_or_broken() {
    let objects = Objects::fresh("in-use").await;
    objects.create("ClusterClass", &class("base")).await.unwrap();
    objects.create("Cluster", &cluster("five", "base")).await.unwrap();

    // The watch needs a moment to show the Cluster.
    let dry_run = DeleteParams { dry_run: true, ..DeleteParams::default() };
    let is_denied = async || objects.classes.delete("base", &dry_run).await.is_err();
    wait::until_async("the webhook has seen the Cluster", SOON, is_denied, wait::nothing).await;
    let status = denial(objects.classes.delete("base", &DeleteParams::default()).await);
    assert_eq!((status.code, &*status.reason), (403, "Forbidden"));
    let message = format!("is used by {}/five", objects.namespace);
    assert!(status.message.contains(&message), "{}", status.message);

    let without_workers = Patch::Merge(json!({"spec": {"workers": null}}));
    let status = denial(objects.classes.patch("base", &PatchParams::default(), &without_workers).await);
    assert_eq!(causes(&status), pairs(&[("FieldValueForbidden", "spec.workers.machineDeployments")]));

    objects.clusters.delete("five", &DeleteParams::default()).await.unwrap();
    let delete = async || objects.classes.delete("base", &DeleteParams::default()).await;
    let error = async || format!("{:?}", delete().await);
    wait::until_async("the class can be deleted", SOON, async || delete().await.is_ok(), error).await;
}

#[tokio::test]
async fn a_class_that_is_created_just_after_its_cluster_is_found() {
    // CL-V-050
    // A review waits for two seconds. An attempt in which the class was stored too late says nothing.
    for attempt in 1..=5 {
        let objects = Objects::fresh(&format!("order-{attempt}")).await;
        let second = async {
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            objects.create("ClusterClass", &class("late")).await.map(|_| std::time::Instant::now())
        };
        let mut wrong = cluster("six", "late");
        wrong["spec"]["topology"]["workers"]["machineDeployments"][0]["class"] = json!("huge");
        let begun_at = std::time::Instant::now();
        let (first, stored) = tokio::join!(objects.create("Cluster", &wrong), second);
        if stored.unwrap() - begun_at > std::time::Duration::from_secs(1) {
            continue;
        }
        let want = [("FieldValueInvalid", "spec.topology.workers.machineDeployments[0].class")];
        assert_eq!(
            causes(&denial(first)),
            pairs(&want),
            "the class that arrived while the review waited was looked at"
        );
        return;
    }
    panic!("in five attempts the API server never stored a class within a second");
}

#[tokio::test]
async fn a_cluster_that_is_being_deleted_can_lose_its_finalizers() {
    // DEC-16
    let objects = Objects::fresh("finalizers").await;
    let mut held = json!({"metadata": {"name": "seven", "finalizers": ["example.com/hold"]}, "spec": {}});
    held["spec"] = cluster("seven", "absent")["spec"].clone();
    objects.create("Cluster", &held).await.unwrap();
    objects.clusters.delete("seven", &DeleteParams::default()).await.unwrap();
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    // Its class does not exist, so any other update of it would be refused (CL-V-054).
    objects.clusters.patch("seven", &PatchParams::default(), &release).await.unwrap();
    assert!(objects.clusters.get_opt("seven").await.unwrap().is_none());
}

#[tokio::test]
async fn the_permissions_of_the_manifests_are_enough() {
    let objects = Objects::fresh("rbac").await;
    objects.create("ClusterClass", &class("base")).await.unwrap();
    let installation = installation();
    for kind in ["Cluster", "ClusterClass"] {
        let errors = installation.topologist.metric(&format!("topologist_watch_errors_total{{kind=\"{kind}\"}}"));
        assert_eq!(errors, None, "a watch was refused:\n{}", installation.topologist.log_text());
    }
    let log = installation.topologist.log_text();
    assert!(!log.contains("Watch failed"), "{log}");
}

#[tokio::test]
async fn every_event_renews_the_age_of_its_cache() {
    let objects = Objects::fresh("age").await;
    let age = |kind: &str| {
        let name = format!("topologist_cache_age_seconds{{kind=\"{kind}\"}}");
        installation().topologist.metric(&name).unwrap()
    };
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    objects.create("ClusterClass", &class("base")).await.unwrap();
    wait::until_async("the event renews the age", SOON, async || age("ClusterClass") < 0.3, wait::nothing).await;
    assert!(age("Cluster") < 120.0);
}

#[tokio::test]
async fn a_server_without_list_permission_is_not_ready_and_gives_the_reason() {
    installation();
    let kubernetes = Kubernetes::shared();
    let kubeconfig = kubernetes.service_account_kubeconfig("default", "nobody").await;
    let folder = kubernetes.kubeconfig().parent().unwrap().join("certificates");
    let file = |name: &str| folder.join(name).display().to_string();
    let (cert, key) = (file("tls.crt"), file("tls.key"));
    let mut topologist =
        Topologist::serve(&["--kubeconfig", kubeconfig.to_str().unwrap(), "--tls-cert", &cert, "--tls-key", &key]);
    topologist.wait_for_log_where("Watch failed, retrying", |entry| entry["kind"] == "Cluster");
    let (code, reason) = topologist.admin_get("/readyz");
    assert_eq!(code, 503);
    assert!(reason.contains("Clusters cannot be listed") && reason.contains("forbidden"), "{reason}");
}
