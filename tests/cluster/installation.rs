//! The manifests on a real API server: what it accepts, what it allows, whom it asks, and what goes on without an
//! answer.

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::response::Status;
use serde_json::{Value, json};
use topologist::crd;
use topologist::hub::Kind;

use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{
    OVERLAYS, find, overlay, overlay_with, permissions, render, render_own, scope, stream, variables, webhooks_at,
};
use crate::harness::server::{Topologist, command, make_certificates};
use crate::harness::wait;
use crate::harness::wait::SOON;
use crate::harness::webhook::Recorder;
use crate::upgrades;

const NAMESPACE: &str = "topologist-system";

fn dry() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

fn objects(client: &kube::Client, kind: Kind, version: &str, namespace: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", version, kind.name());
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk_with_plural(&gvk, kind.plural()))
}

fn configurations(client: &kube::Client, kind: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
    Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk))
}

const CONFIGURATIONS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// The answer of the API server when it did not do as asked.
fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> Status {
    match result {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// Asks again until something holds.
async fn eventually<T>(fact: &str, mut ask: impl AsyncFnMut() -> Result<T, String>) -> T {
    let mut last = String::new();
    let answered = async || ask().await.map_err(|error| last = error).ok();
    wait::until_some_async(fact, SOON, answered, wait::nothing).await
}

/// A pod as the Deployment would make it.
fn pod(objects: &[Value]) -> Value {
    let template = &find(objects, "Deployment", "topologist")["spec"]["template"];
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "topologist-0", "labels": template["metadata"]["labels"]},
        "spec": template["spec"],
    })
}

/// Does for quotas what the controller manager would do; until then no critical pod is admitted.
async fn count_pods(client: &kube::Client) {
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), NAMESPACE);
    for quota in quotas.list(&ListParams::default()).await.unwrap() {
        let hard = quota.spec.unwrap().hard;
        let used = json!({"status": {"hard": hard, "used": {"pods": "0"}}});
        quotas.patch_status(&quota.metadata.name.unwrap(), &PatchParams::default(), &Patch::Merge(used)).await.unwrap();
    }
}

#[tokio::test]
async fn every_overlay_is_accepted_and_so_are_its_pods() {
    let kubernetes = Kubernetes::start();
    let client = kubernetes.client();
    kubernetes.apply_yaml(include_str!("look-alikes.yaml")).await;
    // One after the other, as in a change from one way to another, and each again, as in an upgrade.
    for name in OVERLAYS.into_iter().flat_map(|name| [name, name]) {
        let objects = overlay(name);
        kubernetes.apply_yaml(&stream(&objects)).await;
        count_pods(&client).await;
        let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        let create = async |pod: Value| pods.create(&dry(), &serde_json::from_value(pod).unwrap()).await;
        let accepted = eventually("pods are admitted", async || create(pod(&objects)).await.map_err(|e| e.to_string()));
        let priority = accepted.await.spec.unwrap().priority;
        assert!(priority.is_some_and(|priority| priority >= 1_000_000_000), "{name}: {priority:?}");
        for (pointer, value) in [
            ("/spec/containers/0/securityContext/allowPrivilegeEscalation", json!(true)),
            ("/spec/securityContext/runAsUser", json!(0)),
            ("/spec/containers/0/securityContext/capabilities/drop", json!([])),
            ("/spec/securityContext/seccompProfile/type", json!("Unconfined")),
        ] {
            let mut loose = pod(&objects);
            *loose.pointer_mut(pointer).unwrap() = value;
            let status = refusal(create(loose).await);
            assert!(
                status.message.contains("violates PodSecurity \"restricted"),
                "{name}, {pointer}: {}",
                status.message
            );
        }
    }
    kubernetes.apply_yaml(&stream(&render("monitoring"))).await;
}

/// Whether the ServiceAccount of the manifests may do something; `what` is `verb resource.group[/subresource] [name]`.
async fn may(client: &kube::Client, namespace: &str, what: &str) -> bool {
    let mut words = what.split(' ');
    let (verb, resource, name) = (words.next().unwrap(), words.next().unwrap(), words.next());
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let account = format!("system:serviceaccount:{NAMESPACE}:topologist");
    let groups = ["system:serviceaccounts", "system:authenticated"];
    let review = json!({"metadata": {}, "spec": {"user": account, "groups": groups, "resourceAttributes": {
        "namespace": namespace, "verb": verb, "group": group, "resource": resource, "subresource": subresource,
        "name": name.unwrap_or_default(),
    }}});
    let review: SubjectAccessReview = serde_json::from_value(review).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &review).await.unwrap().status.unwrap().allowed
}

#[tokio::test]
async fn the_account_may_do_what_it_needs_and_no_more() {
    let guard = [
        ("any", "list clusters.cluster.x-k8s.io", true),
        ("any", "watch clusterclasses.cluster.x-k8s.io", true),
        ("any", "list machines.cluster.x-k8s.io", true),
        ("any", "watch machinedeployments.cluster.x-k8s.io", true),
        ("any", "create events", true),
        ("any", "get kubeadmcontrolplanes.controlplane.cluster.x-k8s.io one", true),
        ("any", "get azuremanagedcontrolplanes.infrastructure.cluster.x-k8s.io one", true),
        ("", "get customresourcedefinitions.apiextensions.k8s.io one", true),
        ("", "watch customresourcedefinitions.apiextensions.k8s.io", true),
        ("", "watch extensionconfigs.runtime.cluster.x-k8s.io", true),
        ("any", "get secrets one-kubeconfig", false),
        (NAMESPACE, "get secrets one-kubeconfig", false),
        ("any", "patch clusterclasses.cluster.x-k8s.io one", false),
        (NAMESPACE, "create secrets", true),
        (NAMESPACE, "update secrets topologist-certificates", true),
        (NAMESPACE, "watch secrets another", false),
        (NAMESPACE, "list secrets", false),
        ("any", "watch secrets topologist-certificates", false),
        (NAMESPACE, "update leases.coordination.k8s.io topologist", true),
        (NAMESPACE, "update leases.coordination.k8s.io another", false),
        ("kube-system", "update leases.coordination.k8s.io topologist", false),
        ("", "patch validatingwebhookconfigurations.admissionregistration.k8s.io topologist", true),
        ("", "patch validatingwebhookconfigurations.admissionregistration.k8s.io another", false),
        (
            "",
            "patch customresourcedefinitions.apiextensions.k8s.io embeddedmachines.infrastructure.topologist.dev",
            true,
        ),
        ("", "patch customresourcedefinitions.apiextensions.k8s.io machines.cluster.x-k8s.io", false),
        ("", "delete mutatingwebhookconfigurations.admissionregistration.k8s.io topologist", false),
        ("", "create clusterrolebindings.rbac.authorization.k8s.io", false),
        (NAMESPACE, "create pods", false),
        // DEC-47
        ("any", "create secrets", false),
        ("any", "delete secrets one-shim", false),
    ];
    // What the reconciler may do besides, and the guard may not.
    let reconciler = [
        ("any", "patch clusterclasses.cluster.x-k8s.io/status one"),
        ("any", "patch clusters.cluster.x-k8s.io one"),
        ("any", "patch clusters.cluster.x-k8s.io/status one"),
        ("any", "delete machinedeployments.cluster.x-k8s.io one"),
        ("any", "watch machines.cluster.x-k8s.io"),
        ("any", "create configmaps"),
        ("any", "delete configmaps one-shim"),
        ("", "patch extensionconfigs.runtime.cluster.x-k8s.io one"),
        ("", "patch extensionconfigs.runtime.cluster.x-k8s.io/status one"),
        ("", "get namespaces one"),
        ("any", "patch dockermachinetemplates.infrastructure.cluster.x-k8s.io one"),
        ("any", "get kubeadmconfigs.bootstrap.cluster.x-k8s.io one"),
        ("any", "watch kubeadmconfigtemplates.bootstrap.cluster.x-k8s.io"),
        ("capi-system", "watch leases.coordination.k8s.io controller-leader-election-capi"),
    ];
    let kubernetes = Kubernetes::start();
    let client = kubernetes.client();
    // Applying the manifests of another way takes away what the former one granted.
    for (name, reconciles) in [("beside", false), ("alone", true), ("beside", false)] {
        kubernetes.apply_yaml(&stream(&overlay(name))).await;
        let more = reconciler.map(|(namespace, what)| (namespace, what, reconciles));
        let mut all: Vec<_> = guard.into_iter().chain(more).collect();
        // A new role is seen a moment later, so what is granted comes first.
        all.sort_by_key(|(.., want)| !want);
        for (namespace, what, want) in all {
            eventually(&format!("{name}: {what} in {namespace:?}: {want}"), async || {
                match may(&client, namespace, what).await == want {
                    true => Ok(()),
                    false => Err(format!("{}", !want)),
                }
            })
            .await;
        }
    }
}

/// An API server that asks the binary, which runs with the account, the permissions and the variables of these
/// manifests.
struct Guarded {
    /// Fields end in this order: the process first, so that it does not outlive its API server.
    topologist: Topologist,
    _folder: tempfile::TempDir,
    kubernetes: Kubernetes,
}

impl Guarded {
    async fn by(manifests: Vec<Value>, namespaces: &[&str]) -> Self {
        let kubernetes = Kubernetes::start();
        kubernetes.apply_yaml(&stream(&crd::definitions())).await;
        kubernetes.apply_yaml(&stream(&upgrades::definitions())).await;
        for name in namespaces {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            kubernetes.apply_yaml(&namespace.to_string()).await;
        }
        kubernetes.apply_yaml(&stream(&permissions(manifests.clone()))).await;
        let kubeconfig = kubernetes.service_account_kubeconfig(NAMESPACE, "topologist").await;
        let folder = tempfile::tempdir().unwrap();
        make_certificates(folder.path());
        let file = |name: &str| folder.path().join(name).display().to_string();
        let (cert, key) = (file("tls.crt"), file("tls.key"));
        let own = ["--tls-cert", &cert, "--tls-key", &key, "--kubeconfig", kubeconfig.to_str().unwrap()];
        let more = ["--webhook-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
        let mut start = command(&[&["serve"], &own[..], &more].concat());
        start.envs(variables(&manifests)).env_remove("TOPOLOGIST_MANAGE_CERTIFICATES");
        let topologist = Topologist::launch(start);
        topologist.wait_until_ready();
        let authority = std::fs::read(file("ca.crt")).unwrap();
        kubernetes.apply_yaml(&stream(&webhooks_at(manifests, &topologist.webhook, &authority))).await;
        Guarded { topologist, _folder: folder, kubernetes }
    }

    fn client(&self) -> kube::Client {
        self.kubernetes.client()
    }

    /// Waits until a wrong Cluster in a namespace is denied.
    async fn until_guarded(&self, namespace: &str) {
        let wrong = object(Kind::Cluster, "v1beta2", &json!({"metadata": {"name": "wrong"}, "spec": {"paused": true}}));
        let clusters = objects(&self.client(), Kind::Cluster, "v1beta2", namespace);
        eventually(&format!("{namespace} is guarded"), async || match clusters.create(&dry(), &wrong).await {
            Err(kube::Error::Api(status)) if status.code == 422 => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }

    /// A wrong Cluster in a namespace is no business of this installation, which is not even asked.
    async fn is_not_called_for(&self, namespace: &str) {
        let reviews = || self.topologist.metric("topologist_admission_duration_seconds_count");
        let before = reviews();
        let wrong = object(Kind::Cluster, "v1beta2", &json!({"metadata": {"name": "wrong"}, "spec": {"paused": true}}));
        objects(&self.client(), Kind::Cluster, "v1beta2", namespace).create(&dry(), &wrong).await.unwrap();
        assert_eq!(reviews(), before, "{namespace}");
    }

    /// Changes the version of a Cluster with everything that a version change looks at (UPG-008); returns the warnings.
    async fn change_version(&self, namespace: &str) -> Vec<String> {
        let client = self.client();
        upgrades::run_one(&self.kubernetes, namespace).await;
        let create_one = async |kind: Kind, value: &Value| {
            let api = objects(&client, kind, "v1beta2", namespace);
            api.create(&PostParams::default(), &object(kind, "v1beta2", value)).await.unwrap()
        };
        create_one(Kind::ClusterClass, &class("v1beta2", "base")).await;
        create_one(Kind::Cluster, &cluster("v1beta2", "one")).await;
        let clusters = objects(&client, Kind::Cluster, "v1beta2", namespace);
        clusters.patch("one", &PatchParams::default(), &upgrades::with_control_plane("one")).await.unwrap();
        let next = json!({"spec": {"topology": {"version": "v1.34.0"}}});
        let path = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/clusters/one");
        let request = http::Request::patch(path).header("content-type", "application/merge-patch+json");
        let request = request.body(kube::client::Body::from(next.to_string().into_bytes())).unwrap();
        let response = client.send(request).await.unwrap();
        assert_eq!(response.status(), 200, "{}", self.topologist.log_text());
        let warnings = response.headers().get_all("warning").iter();
        let mut warnings: Vec<String> = warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect();
        // Templates are watched only by the component `templates` and by controllers.
        let key = format!("KubeadmControlPlaneTemplate {namespace}/t");
        let uncounted =
            format!("the number of replaced machines is not known: cannot read {key}: templates are not watched");
        let last = warnings.pop().unwrap_or_default();
        assert!(last.contains(&uncounted), "{last} {warnings:?}");
        warnings
    }

    /// Every one of the changed versions came to a read of Nodes that ended so, and none ended otherwise. There may be
    /// more reads than changes: an API server whose cache is behind asks a second time.
    fn nodes_were(&self, outcome: &str, changes: f64) {
        let reads = |outcome: &str| {
            let metric = format!("topologist_live_reads_total{{what=\"nodes\",outcome=\"{outcome}\"}}");
            self.topologist.metric(&metric).unwrap_or_default()
        };
        for other in [
            "found",
            "forbidden",
            "no_kubeconfig",
            "refused",
            "resting",
            "unreachable",
            "timed_out",
            "failed",
            "answered",
        ] {
            let read = reads(other);
            let is_right = if other == outcome { read >= changes } else { read == 0.0 };
            assert!(is_right, "{read} reads of Nodes were {other}, with {changes} changes");
        }
    }

    fn was_never_forbidden(&self) {
        let log = self.topologist.log_text();
        assert!(!log.to_lowercase().contains("forbidden") && !log.contains("Watch failed"), "{log}");
    }
}

#[tokio::test]
async fn a_role_in_one_namespace_is_enough_to_guard_it() {
    // DEC-37, UPG-008: everything that a version change looks at may be read.
    let file = scope("team-a");
    let files = [("scope.yaml", &*file)];
    let manifests = overlay_with("beside", &["workload-clusters", "namespaced"], &files);
    let guarded = Guarded::by(manifests, &["team-a"]).await;
    guarded.until_guarded("team-a").await;
    let none: [String; 0] = [];
    assert_eq!(guarded.change_version("team-a").await, none);
    guarded.nodes_were("found", 1.0);
    guarded.is_not_called_for("kube-public").await;
    guarded.was_never_forbidden();
}

#[tokio::test]
async fn without_permission_to_read_secrets_machine_pools_are_a_warning() {
    // DEC-47, UPG-015 to UPG-017
    let guarded = Guarded::by(overlay("namespaced"), &[]).await;
    guarded.until_guarded("default").await;
    let warnings = guarded.change_version("default").await;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let words = ["machine pools were not checked (UPG-015, UPG-016, UPG-017)", "Secret default/one-kubeconfig"];
    assert!(words.iter().all(|word| warnings[0].contains(word)), "{warnings:?}");
    guarded.nodes_were("forbidden", 1.0);
    guarded.was_never_forbidden();
}

#[tokio::test]
async fn a_list_of_namespaces_is_guarded_and_no_other() {
    // DEC-37
    let own = "resources: [manifests/examples/list]\ncomponents: [manifests/components/workload-clusters]\n";
    let guarded = Guarded::by(render_own(own, &[]), &["team-a", "team-b", "team-c"]).await;
    let none: [String; 0] = [];
    for namespace in ["team-a", "team-b"] {
        guarded.until_guarded(namespace).await;
        assert_eq!(guarded.change_version(namespace).await, none);
    }
    guarded.nodes_were("found", 2.0);
    guarded.is_not_called_for("team-c").await;
    let client = guarded.client();
    for (namespace, want) in [("team-a", true), ("team-b", true), ("team-c", false)] {
        assert_eq!(may(&client, namespace, "get secrets one-kubeconfig").await, want, "{namespace}");
        let machines = "list machines.cluster.x-k8s.io";
        assert_eq!(may(&client, namespace, machines).await, want, "{namespace}");
    }
    // A namespace that goes takes its Roles with it, and nothing else.
    let roles = Api::<k8s_openapi::api::rbac::v1::RoleBinding>::namespaced(client.clone(), "team-b");
    roles.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    guarded.until_guarded("team-a").await;
    assert_eq!(guarded.topologist.admin_get("/readyz").0, 200);
    guarded.was_never_forbidden();
}

#[tokio::test]
async fn namespaces_with_a_prefix_are_guarded_also_new_ones() {
    // DEC-37
    let guarded = Guarded::by(render("examples/prefix"), &["team-a", "other-team-a"]).await;
    guarded.until_guarded("team-a").await;
    guarded.is_not_called_for("other-team-a").await;
    guarded.is_not_called_for("default").await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-later"}});
    guarded.kubernetes.apply_yaml(&namespace.to_string()).await;
    guarded.until_guarded("team-later").await;
    assert_eq!(guarded.change_version("team-later").await.len(), 1, "DEC-47");
    guarded.was_never_forbidden();
}

#[tokio::test]
async fn applying_again_does_not_change_the_bundle() {
    let kubernetes = Kubernetes::start();
    let client = kubernetes.client();
    kubernetes.apply_yaml(&stream(&overlay("beside"))).await;
    for kind in CONFIGURATIONS {
        let api = configurations(&client, kind);
        let written = api.get("topologist").await.unwrap().data["webhooks"].as_array().unwrap().len();
        let operations: Vec<_> = (0..written)
            .map(|i| json!({"op": "add", "path": format!("/webhooks/{i}/clientConfig/caBundle"), "value": "YQ=="}))
            .collect();
        let patch: json_patch::Patch = serde_json::from_value(json!(operations)).unwrap();
        api.patch("topologist", &PatchParams::default(), &Patch::Json::<()>(patch)).await.unwrap();
    }
    kubernetes.apply_yaml(&stream(&overlay("beside"))).await;
    for kind in CONFIGURATIONS {
        let now = configurations(&client, kind).get("topologist").await.unwrap();
        for webhook in now.data["webhooks"].as_array().unwrap() {
            assert_eq!(webhook["clientConfig"]["caBundle"], "YQ==", "{kind}");
            assert_eq!(webhook["clientConfig"]["service"]["port"], 443, "{kind}");
        }
    }
}

/// The definition of a kind without anybody who converts: only the version of an object is changed.
fn unconverted(kind: Kind) -> Value {
    let mut definition = crd::definition(kind);
    definition["spec"]["conversion"] = json!({"strategy": "None"});
    definition
}

fn object(kind: Kind, version: &str, value: &Value) -> DynamicObject {
    let mut value = value.clone();
    value["apiVersion"] = json!(format!("cluster.x-k8s.io/{version}"));
    value["kind"] = json!(kind.name());
    serde_json::from_value(value).unwrap()
}

/// A class with templates, in the shape of a version.
fn class(version: &str, name: &str) -> Value {
    let template = |group: &str, kind: &str| {
        let reference = json!({"apiVersion": format!("{group}.cluster.x-k8s.io/v1beta2"), "kind": kind, "name": "t"});
        match version {
            "v1beta1" => {
                let mut reference = reference;
                reference["namespace"] = json!("elsewhere");
                json!({ "ref": reference })
            }
            _ => json!({ "templateRef": reference }),
        }
    };
    json!({"metadata": {"name": name}, "spec": {
        "infrastructure": template("infrastructure", "DevClusterTemplate"),
        "controlPlane": template("controlplane", "KubeadmControlPlaneTemplate"),
    }})
}

fn cluster(version: &str, name: &str) -> Value {
    let topology = match version {
        "v1beta1" => json!({"class": "base", "version": "v1.33.0"}),
        _ => json!({"classRef": {"name": "base"}, "version": "v1.33.0"}),
    };
    json!({"metadata": {"name": name}, "spec": {"topology": topology}})
}

#[tokio::test]
async fn each_request_is_reviewed_once_per_end_point() {
    // DEC-3
    let kubernetes = Kubernetes::start();
    let (client, recorder) = (kubernetes.client(), Recorder::start().await);
    kubernetes.apply_yaml(&stream(&Kind::ALL.map(unconverted))).await;
    let webhooks = webhooks_at(overlay("beside"), &recorder.address, recorder.authority.as_bytes());
    kubernetes.apply_yaml(&stream(&webhooks)).await;
    let create = async |kind, version: &str, value: &Value| {
        let api = objects(&client, kind, version, "default");
        api.create(&dry(), &object(kind, version, value)).await.unwrap();
        recorder.take()
    };
    for kind in Kind::ALL {
        let value = if kind == Kind::Cluster { cluster("v1beta1", "probe") } else { class("v1beta1", "probe") };
        eventually("all webhooks are called", async || match create(kind, "v1beta1", &value).await.len() {
            2 => Ok(()),
            calls => Err(format!("{calls} calls")),
        })
        .await;
    }

    let text = |calls: &[(String, Value)]| -> Vec<(String, String)> {
        let version = |request: &Value| request["kind"]["version"].as_str().unwrap().to_owned();
        calls.iter().map(|(path, request)| (path.clone(), version(request))).collect()
    };
    let pair = |path: &str, version: &str| (format!("/{path}"), version.to_owned());

    let raw = create(Kind::ClusterClass, "v1beta1", &class("v1beta1", "raw")).await;
    let want = [
        pair("mutate-cluster-x-k8s-io-v1beta1-clusterclass", "v1beta1"),
        pair("validate-cluster-x-k8s-io-v1beta2-clusterclass", "v1beta1"),
    ];
    assert_eq!(text(&raw), want);
    for (path, request) in &raw {
        assert_eq!(request["object"]["spec"]["infrastructure"]["ref"]["namespace"], "elsewhere", "{path}");
    }

    let new = create(Kind::ClusterClass, "v1beta2", &class("v1beta2", "new")).await;
    assert_eq!(text(&new), [pair("validate-cluster-x-k8s-io-v1beta2-clusterclass", "v1beta2")]);

    for version in ["v1beta1", "v1beta2"] {
        let calls = create(Kind::Cluster, version, &cluster(version, "one")).await;
        let want = [
            pair("mutate-cluster-x-k8s-io-v1beta2-cluster", "v1beta2"),
            pair("validate-cluster-x-k8s-io-v1beta2-cluster", "v1beta2"),
        ];
        assert_eq!(text(&calls), want, "{version}");
    }
}

/// A class as large as the API server takes them.
fn large_class(name: &str) -> Value {
    let mut class = class("v1beta2", name);
    class["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let template = "x".repeat(10_000);
    let patches = (0..100).map(|i| {
        let selector = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevClusterTemplate",
            "matchResources": {"infrastructureCluster": true}});
        let add = json!({"op": "add", "path": "/spec/template/spec/x", "valueFrom": {"template": template}});
        json!({"name": format!("patch-{i}"), "definitions": [{"selector": selector, "jsonPatches": [add]}]})
    });
    class["spec"]["patches"] = patches.collect();
    class
}

#[tokio::test]
async fn while_the_webhook_is_down_only_clusters_and_classes_are_blocked_and_deletions_finish() {
    let kubernetes = Kubernetes::start();
    let client = kubernetes.client();
    kubernetes.apply_yaml(&stream(&overlay("alone"))).await;
    for kind in CONFIGURATIONS {
        configurations(&client, kind).delete("topologist", &DeleteParams::default()).await.unwrap();
    }
    let (clusters, classes) = (
        objects(&client, Kind::Cluster, "v1beta2", NAMESPACE),
        objects(&client, Kind::ClusterClass, "v1beta2", NAMESPACE),
    );
    let mut held = cluster("v1beta2", "held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let held = object(Kind::Cluster, "v1beta2", &held);
    eventually("the guard is off", async || {
        clusters.create(&dry(), &held).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    clusters.create(&PostParams::default(), &held).await.unwrap();
    classes
        .create(&PostParams::default(), &object(Kind::ClusterClass, "v1beta2", &large_class("large")))
        .await
        .unwrap();
    clusters.delete("held", &DeleteParams::default()).await.unwrap();
    classes.delete("large", &DeleteParams::default()).await.unwrap();

    // Nothing listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let webhooks = webhooks_at(overlay("alone"), &port.to_string(), b"");
    kubernetes.apply_yaml(&stream(&webhooks)).await;
    let new = object(Kind::Cluster, "v1beta2", &cluster("v1beta2", "new"));
    eventually("the guard is on", async || match clusters.create(&dry(), &new).await {
        Ok(_) => Err("a Cluster is still created".to_owned()),
        Err(_) => Ok(()),
    })
    .await;
    let status = refusal(clusters.create(&PostParams::default(), &new).await);
    assert_eq!((status.code, &*status.reason), (500, "InternalError"));
    assert!(status.message.contains("failed calling webhook \"default.cluster.topologist.dev\""), "{}", status.message);
    assert!(clusters.get_opt("new").await.unwrap().is_none(), "nothing is stored that was not judged");

    // What this cluster runs on.
    for namespace in [NAMESPACE, "kube-system"] {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let map = serde_json::from_value(json!({"metadata": {"name": "free"}})).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    kubernetes.apply_yaml(&stream(&[find(&overlay("alone"), "Deployment", "topologist").clone()])).await;

    // DEC-16
    let respec = Patch::Merge(json!({"spec": {"paused": true}}));
    let status = refusal(clusters.patch("held", &PatchParams::default(), &respec).await);
    assert!(status.message.contains("failed calling webhook"), "{}", status.message);
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    clusters.patch("held", &PatchParams::default(), &release).await.unwrap();
    classes.patch("large", &PatchParams::default(), &release).await.unwrap();
    assert!(clusters.get_opt("held").await.unwrap().is_none() && classes.get_opt("large").await.unwrap().is_none());

    // The alert goes by this figure of the API server.
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let metrics = client.request_text(request).await.unwrap();
    let is_it = |line: &&str| {
        [
            "apiserver_admission_webhook_rejection_count{",
            "name=\"default.cluster.topologist.dev\"",
            "error_type=\"calling_webhook_error\"",
        ]
        .iter()
        .all(|part| line.contains(part))
    };
    assert!(metrics.lines().any(|line| is_it(&line)), "the API server does not count failed calls under this name");

    // Break-glass, as docs/operations.md has it.
    for kind in CONFIGURATIONS {
        configurations(&client, kind).delete("topologist", &DeleteParams::default()).await.unwrap();
    }
    eventually("Clusters can be written again", async || {
        clusters.create(&dry(), &new).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
}
