//! The ClusterClass controller on a real API server, as the ServiceAccount of the manifests.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::{definitions_at, overlay, permissions, stream, webhooks_at};
use crate::harness::server::{Topologist, command, make_certificates};
use crate::harness::wait;
use crate::harness::wait::SOON;

/// The group of the templates.
const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// An API server of our own with the definitions of two kinds of templates: controllers look at everything there is.
struct Ground {
    kubernetes: Kubernetes,
    kubeconfig: PathBuf,
    certificates: tempfile::TempDir,
}

/// A kind of template whose definition lists contract versions.
fn definition(kind: &str, plural: &str, contract: &str) -> Value {
    let version = |name: &str, storage: bool| {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        json!({"name": name, "served": true, "storage": storage, "schema": schema})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}"), "labels": {"cluster.x-k8s.io/v1beta2": contract}},
        "spec": {"group": GROUP, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [version("v1beta1", false), version("v1beta2", true)]},
    })
}

impl Ground {
    async fn new() -> Self {
        let kubernetes = Kubernetes::start();
        let objects = overlay("alone");
        let definitions = objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition").cloned();
        let mut definitions: Vec<_> = definitions.collect();
        definitions.push(definition("DevClusterTemplate", "devclustertemplates", "v1beta1_v1beta2"));
        definitions.push(definition("DevMachineTemplate", "devmachinetemplates", "v1beta2"));
        kubernetes.apply_yaml(&stream(&definitions)).await;
        kubernetes.apply_yaml(&stream(&permissions(objects))).await;
        let kubeconfig = kubernetes.service_account_kubeconfig("topologist-system", "topologist").await;
        let certificates = tempfile::tempdir().unwrap();
        make_certificates(certificates.path());
        Ground { kubernetes, kubeconfig, certificates }
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let file = |name: &str| self.certificates.path().join(name).display().to_string();
        let (cert, key) = (file("tls.crt"), file("tls.key"));
        let kubeconfig = self.kubeconfig.to_str().unwrap();
        let common = ["--kubeconfig", kubeconfig, "--tls-cert", &cert, "--tls-key", &key, "--shutdown-grace", "0s"];
        common.into_iter().chain(more.iter().copied()).map(str::to_owned).collect()
    }

    fn start(&self, more: &[&str]) -> Topologist {
        let arguments = self.arguments(more);
        Topologist::serve(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// A process with all controllers.
    fn controller(&self) -> Topologist {
        self.start(&["--controllers", "all", "--lease-duration", "3s"])
    }

    fn api(&self, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap();
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let plural = if kind == "ClusterClass" { "clusterclasses".to_owned() } else { kind.to_lowercase() + "s" };
        let resource = ApiResource::from_gvk_with_plural(&gvk, &plural);
        Api::namespaced_with(self.kubernetes.client(), namespace, &resource)
    }

    fn classes(&self, namespace: &str) -> Api<DynamicObject> {
        self.api("cluster.x-k8s.io/v1beta2", "ClusterClass", namespace)
    }

    fn templates(&self, namespace: &str) -> Api<DynamicObject> {
        self.api("infrastructure.cluster.x-k8s.io/v1beta2", "DevClusterTemplate", namespace)
    }

    async fn create(&self, namespace: &str, value: Value) -> DynamicObject {
        let api = self.api(value["apiVersion"].as_str().unwrap(), value["kind"].as_str().unwrap(), namespace);
        api.create(&PostParams::default(), &serde_json::from_value(value).unwrap()).await.unwrap()
    }

    /// A namespace with every template that a class refers to.
    async fn namespace(&self) -> String {
        let namespace = self.kubernetes.namespace("classes").await;
        self.create(&namespace, template("DevClusterTemplate", "infra")).await;
        self.create(&namespace, template("DevClusterTemplate", "plane")).await;
        self.create(&namespace, template("DevMachineTemplate", "machine")).await;
        namespace
    }

    async fn lease(&self) -> Option<Lease> {
        let leases: Api<Lease> = Api::namespaced(self.kubernetes.client(), "topologist-system");
        leases.get_opt("topologist").await.unwrap()
    }

    async fn holder(&self) -> String {
        let spec = self.lease().await.and_then(|lease| lease.spec);
        spec.and_then(|spec| spec.holder_identity).unwrap_or_default()
    }
}

fn template(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}})
}

fn reference(version: &str, kind: &str, name: &str) -> Value {
    json!({"templateRef": {"apiVersion": format!("{GROUP}/{version}"), "kind": kind, "name": name}})
}

/// A class that refers to the templates of [`Ground::namespace`].
fn class(name: &str) -> Value {
    let mut control_plane = reference("v1beta2", "DevClusterTemplate", "plane");
    control_plane["machineInfrastructure"] = reference("v1beta2", "DevMachineTemplate", "machine");
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "ClusterClass",
        "metadata": {"name": name},
        "spec": {
            "infrastructure": reference("v1beta2", "DevClusterTemplate", "infra"),
            "controlPlane": control_plane,
            "variables": [
                {"name": "zone", "required": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "enum": [{}, {"a": null}],
                    "default": {"a": null}, "x-kubernetes-preserve-unknown-fields": true}}},
                {"name": "count", "required": false, "schema": {"openAPIV3Schema": {"type": "integer", "default": 3}}},
            ],
        },
    })
}

/// Asks until there is an answer.
async fn until<T>(fact: &str, topologist: &Topologist, ask: impl AsyncFnMut() -> Option<T>) -> T {
    wait::until_some_async(fact, SOON, ask, async || topologist.log_text()).await
}

fn condition<'a>(object: &'a DynamicObject, r#type: &str) -> &'a Value {
    let conditions = object.data["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|condition| condition["type"] == r#type).unwrap_or(&Value::Null)
}

/// Waits until a class has a condition with this status for its present generation.
async fn with_condition(
    ground: &Ground,
    topologist: &Topologist,
    key: (&str, &str),
    r#type: &str,
    status: &str,
) -> DynamicObject {
    let classes = ground.classes(key.0);
    until(&format!("{type} is {status}"), topologist, async || {
        let class = classes.get(key.1).await.unwrap();
        let found = condition(&class, r#type);
        let is_it = found["status"] == status && found["observedGeneration"] == json!(class.metadata.generation);
        is_it.then_some(class)
    })
    .await
}

/// Names of the owners of a template, with the API versions.
async fn owners(templates: &Api<DynamicObject>, name: &str) -> Vec<String> {
    let owners = templates.get_metadata(name).await.unwrap().metadata.owner_references.unwrap_or_default();
    owners.iter().map(|owner| format!("{} {} {}", owner.api_version, owner.kind, owner.name)).collect()
}

#[tokio::test]
async fn a_class_gets_its_variables_its_conditions_and_its_templates() {
    // CCR-02, CCR-04, CCR-06, CCR-10, CCR-11, CCR-12
    let ground = Ground::new().await;
    let namespace = ground.namespace().await;
    let foreign = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "1"});
    let former = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "ClusterClass", "name": "base", "uid": "x"});
    let templates = ground.templates(&namespace);
    let patch = Patch::Merge(json!({"metadata": {"ownerReferences": [foreign, former]}}));
    templates.patch("infra", &PatchParams::default(), &patch).await.unwrap();
    let topologist = ground.controller();
    topologist.wait_until_ready();
    ground.create(&namespace, class("base")).await;
    let stored = with_condition(&ground, &topologist, (&namespace, "base"), "RefVersionsUpToDate", "True").await;
    let status = &stored.data["status"];
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(condition(&stored, "VariablesReady")["status"], "True");
    assert_eq!(condition(&stored, "Paused")["status"], "False");
    let legacy: Vec<_> =
        status["deprecated"]["v1beta1"]["conditions"].as_array().unwrap().iter().map(|c| c["type"].clone()).collect();
    assert_eq!(legacy, ["VariablesReconciled", "RefVersionsUpToDate"]);
    let names: Vec<_> =
        status["variables"].as_array().unwrap().iter().map(|variable| variable["name"].clone()).collect();
    assert_eq!(names, ["count", "zone"]);
    let schema = &status["variables"][1]["definitions"][0]["schema"];
    assert_eq!(schema, &stored.data["spec"]["variables"][0]["schema"]);
    assert_eq!(schema["openAPIV3Schema"]["default"], json!({"a": null}), "nulls are kept");
    assert_eq!(owners(&templates, "infra").await, ["v1 ConfigMap other", "cluster.x-k8s.io/v1beta2 ClusterClass base"]);
    assert_eq!(owners(&templates, "plane").await, ["cluster.x-k8s.io/v1beta2 ClusterClass base"]);

    // Another class owns the same templates besides.
    ground.create(&namespace, class("second")).await;
    with_condition(&ground, &topologist, (&namespace, "second"), "RefVersionsUpToDate", "True").await;
    let both = ["cluster.x-k8s.io/v1beta2 ClusterClass base", "cluster.x-k8s.io/v1beta2 ClusterClass second"];
    assert_eq!(owners(&templates, "plane").await, both);

    // A new generation gets new variables.
    let patch = Patch::Merge(json!({"spec": {"variables": null}}));
    ground.classes(&namespace).patch("base", &PatchParams::default(), &patch).await.unwrap();
    let stored = with_condition(&ground, &topologist, (&namespace, "base"), "VariablesReady", "True").await;
    assert_eq!(stored.data["status"]["observedGeneration"], 2);
    assert!(stored.data["status"].get("variables").is_none());
    assert_eq!(topologist.metric("topologist_leader"), Some(1.0));
    let failed = "topologist_reconciles_total{controller=\"clusterclass\",outcome=\"failed\"}";
    assert_eq!(topologist.metric(failed), None, "{}", topologist.log_text());
    assert!(!topologist.log_text().contains("orbidden"), "{}", topologist.log_text());
}

#[tokio::test]
async fn wrong_references_are_reported_and_not_changed() {
    // CCR-04, CCR-05, CCR-10, CCR-11
    let ground = Ground::new().await;
    let namespace = ground.namespace().await;
    let mut old = class("old");
    old["spec"]["infrastructure"] = reference("v1beta1", "DevClusterTemplate", "infra");
    ground.create(&namespace, old.clone()).await;
    let mut missing = class("missing");
    missing["spec"]["infrastructure"] = reference("v1beta2", "DevClusterTemplate", "late");
    ground.create(&namespace, missing).await;
    let mut unknown = class("unknown");
    unknown["spec"]["controlPlane"]["templateRef"]["kind"] = json!("NowhereTemplate");
    ground.create(&namespace, unknown).await;
    let topologist = ground.controller();

    let stored = with_condition(&ground, &topologist, (&namespace, "old"), "RefVersionsUpToDate", "False").await;
    let message = condition(&stored, "RefVersionsUpToDate")["message"].as_str().unwrap();
    assert!(message.ends_with("\n* DevClusterTemplate infra: current: v1beta1, latest: v1beta2"), "{message}");
    assert_eq!(stored.data["status"]["observedGeneration"], 1);
    assert_eq!(stored.data["spec"]["infrastructure"], old["spec"]["infrastructure"]);

    for (name, reason) in [
        ("missing", "DevClusterTemplate late does not exist in version v1beta2"),
        ("unknown", "CustomResourceDefinition nowheretemplates.infrastructure.cluster.x-k8s.io does not exist"),
    ] {
        let stored = with_condition(&ground, &topologist, (&namespace, name), "RefVersionsUpToDate", "Unknown").await;
        let message = &condition(&stored, "RefVersionsUpToDate")["message"];
        assert_eq!(message, &json!(format!("Some references cannot be resolved: {reason}")));
        assert!(stored.data["status"].get("observedGeneration").is_none(), "{name}");
        assert_eq!(condition(&stored, "VariablesReady")["status"], "True", "{name}");
    }
    // Errors of one reference do not stop the others.
    let all =
        owners(&ground.api("infrastructure.cluster.x-k8s.io/v1beta2", "DevMachineTemplate", &namespace), "machine")
            .await;
    assert_eq!(all.len(), 3, "{all:?}");
    // What appears is noticed, sooner than by trying again.
    ground.create(&namespace, template("DevClusterTemplate", "late")).await;
    let stored = with_condition(&ground, &topologist, (&namespace, "missing"), "RefVersionsUpToDate", "True").await;
    assert_eq!(stored.data["status"]["observedGeneration"], 1);
    let nowhere = definition("NowhereTemplate", "nowheretemplates", "v1beta2");
    ground.kubernetes.apply_yaml(&nowhere.to_string()).await;
    ground.create(&namespace, template("NowhereTemplate", "plane")).await;
    with_condition(&ground, &topologist, (&namespace, "unknown"), "RefVersionsUpToDate", "True").await;
}

#[tokio::test]
async fn a_class_with_discovered_variables_has_a_condition() {
    // CCR-07, CCR-09, CCR-12
    let ground = Ground::new().await;
    let namespace = ground.namespace().await;
    let mut discovers = class("discovers");
    discovers["spec"]["patches"] = json!([{"name": "p", "external": {"discoverVariablesExtension": "discover.x"}}]);
    ground.create(&namespace, discovers).await;
    let topologist = ground.controller();
    let stored = with_condition(&ground, &topologist, (&namespace, "discovers"), "VariablesReady", "False").await;
    let condition = condition(&stored, "VariablesReady");
    assert_eq!(condition["reason"], "VariableDiscoveryFailed");
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains("no extension is registered as \"discover.x\""), "{condition}");
    let status = &stored.data["status"];
    assert!(status.get("observedGeneration").is_none() && status.get("variables").is_none(), "{status}");
}

#[tokio::test]
async fn a_paused_class_is_skipped_until_it_is_unpaused() {
    // CCR-02
    let ground = Ground::new().await;
    let namespace = ground.namespace().await;
    let mut paused = class("paused");
    paused["metadata"]["annotations"] = json!({"cluster.x-k8s.io/paused": ""});
    ground.create(&namespace, paused).await;
    let topologist = ground.controller();
    let stored = with_condition(&ground, &topologist, (&namespace, "paused"), "Paused", "True").await;
    let left_alone = "topologist_reconciles_total{controller=\"clusterclass\",outcome=\"left-alone\"}";
    until("it is left alone", &topologist, async || topologist.metric(left_alone)).await;
    assert_eq!(condition(&stored, "VariablesReady"), &Value::Null);
    assert!(owners(&ground.templates(&namespace), "infra").await.is_empty());
    let go_on = Patch::Merge(json!({"metadata": {"annotations": null}}));
    ground.classes(&namespace).patch("paused", &PatchParams::default(), &go_on).await.unwrap();
    let stored = with_condition(&ground, &topologist, (&namespace, "paused"), "RefVersionsUpToDate", "True").await;
    assert_eq!(condition(&stored, "Paused")["status"], "False");
}

#[tokio::test]
async fn a_reconciled_class_causes_no_more_requests() {
    let ground = Ground::new().await;
    let namespace = ground.namespace().await;
    ground.create(&namespace, class("quiet")).await;
    let topologist = ground.controller();
    let stored = with_condition(&ground, &topologist, (&namespace, "quiet"), "RefVersionsUpToDate", "True").await;
    let unchanged = "topologist_reconciles_total{controller=\"clusterclass\",outcome=\"unchanged\"}";
    until("a run finds nothing to do", &topologist, async || topologist.metric(unchanged)).await;
    let runs = topologist.metric(unchanged);
    // An edit of a template in place wakes the class, and there is still nothing to write (CCR-13).
    let edit = Patch::Merge(json!({"spec": {"template": {}}}));
    ground.templates(&namespace).patch("infra", &PatchParams::default(), &edit).await.unwrap();
    until("the edit is looked at", &topologist, async || (topologist.metric(unchanged) > runs).then_some(())).await;
    let now = ground.classes(&namespace).get("quiet").await.unwrap();
    assert_eq!(now.metadata.resource_version, stored.metadata.resource_version);
}

/// Two processes, of which the first leads.
fn leader_and_follower(ground: &Ground) -> (Topologist, Topologist) {
    let mut leader = ground.controller();
    leader.wait_for_log("Acquired the Lease");
    let mut follower = ground.controller();
    follower.wait_for_log("The holder of the Lease changed");
    follower.wait_until_ready();
    (leader, follower)
}

#[tokio::test]
async fn another_process_takes_over_from_a_leader_that_is_killed() {
    let ground = Ground::new().await;
    let namespace = ground.namespace().await;
    let (leader, mut follower) = leader_and_follower(&ground);
    assert_eq!(follower.metric("topologist_leader"), Some(0.0));
    leader.signal("KILL");
    ground.create(&namespace, class("after")).await;
    follower.wait_for_log("Acquired the Lease");
    with_condition(&ground, &follower, (&namespace, "after"), "RefVersionsUpToDate", "True").await;
    let transitions = ground.lease().await.unwrap().spec.unwrap().lease_transitions;
    assert_eq!(transitions, Some(2));
}

#[tokio::test]
async fn a_leader_that_is_stopped_hands_over_at_once() {
    let ground = Ground::new().await;
    // So long that nobody would wait for it to run out.
    let start = || ground.start(&["--controllers", "all", "--lease-duration", "2m"]);
    let mut leader = start();
    leader.wait_for_log("Acquired the Lease");
    let mut follower = start();
    follower.wait_for_log("The holder of the Lease changed");
    leader.signal("TERM");
    assert!(leader.wait().success());
    leader.wait_for_log("Released the Lease");
    assert_eq!(ground.holder().await, "", "it is given back before the process ends");
    follower.wait_for_log("Acquired the Lease");
}

#[tokio::test]
async fn a_paused_leader_process_writes_nothing_once_another_leads() {
    let ground = Ground::new().await;
    let namespace = ground.namespace().await;
    let (mut leader, mut follower) = leader_and_follower(&ground);
    let names: Vec<_> = (0..10).map(|number| format!("class-{number}")).collect();
    for name in &names {
        ground.create(&namespace, class(name)).await;
        with_condition(&ground, &leader, (&namespace, name), "RefVersionsUpToDate", "True").await;
    }
    leader.signal("STOP");
    follower.wait_for_log("Acquired the Lease");
    // Whatever is written while the new leader stands still is written by the old one.
    follower.signal("STOP");
    let classes = ground.classes(&namespace);
    let spec = Patch::Merge(json!({"spec": {"variables": null}}));
    let mut edited = Vec::new();
    for name in &names {
        edited.push(classes.patch(name, &PatchParams::default(), &spec).await.unwrap().metadata.resource_version);
    }
    leader.signal("CONT");
    leader.wait_for_log("Lost the Lease");
    for (name, edited) in names.iter().zip(edited) {
        let after = classes.get(name).await.unwrap().metadata.resource_version;
        assert_eq!(after, edited, "{}", leader.log_text());
    }
    assert_eq!(leader.metric("topologist_leader"), Some(0.0));
    assert_eq!(leader.admin_get("/readyz").0, 200, "it goes on serving");
    follower.signal("CONT");
    for name in &names {
        with_condition(&ground, &follower, (&namespace, name), "VariablesReady", "True").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn controllers_do_not_start_beside_those_of_cluster_api() {
    let ground = Ground::new().await;
    let namespace = ground.kubernetes.namespace("capi").await;
    let leases: Api<Lease> = Api::namespaced(ground.kubernetes.client(), &namespace);
    let lease = json!({"metadata": {"name": "controller-leader-election-capi"},
        "spec": {"holderIdentity": "capi-pod", "leaseDurationSeconds": 3, "renewTime": "2026-01-01T00:00:00.000000Z"}});
    leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
    let renewing = tokio::spawn({
        let leases = leases.clone();
        async move {
            for turn in 0_u32.. {
                let time = format!("2026-01-01T00:{:02}:{:02}.000000Z", turn / 60 % 60, turn % 60);
                let renewal = json!({"spec": {"renewTime": time}});
                leases
                    .patch("controller-leader-election-capi", &PatchParams::default(), &Patch::Merge(renewal))
                    .await
                    .unwrap();
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        }
    });
    let mut arguments = vec!["serve".to_owned()];
    arguments.extend(ground.arguments(&[
        "--controllers",
        "all",
        "--admin-addr",
        "127.0.0.1:0",
        "--webhook-addr",
        "127.0.0.1:0",
    ]));
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let run = command(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let output = tokio::task::spawn_blocking(|| run.wait_with_output().unwrap()).await.unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains(&format!("capi-pod holds the lease {namespace}/controller-leader-election-capi")), "{text}");
    assert!(text.contains("--take-over"), "{text}");
    assert!(ground.lease().await.is_none(), "it did not take part in the election");

    let mut topologist = ground.start(&["--controllers", "all", "--take-over"]);
    topologist.wait_for_log("Starting controllers");
    drop(topologist);

    // One that nobody renews any more is no obstacle.
    renewing.abort();
    let mut topologist = ground.controller();
    topologist.wait_for_log("Starting controllers");
}

/// A v1beta1 class with this reference to its infrastructure, and others that are what they should be.
fn older_class(name: &str, (api_version, kind, template): (&str, &str, &str)) -> Value {
    let good = json!({"apiVersion": format!("{GROUP}/v1beta2"), "kind": "DevClusterTemplate", "name": "plane"});
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": "ClusterClass",
        "metadata": {"name": name},
        "spec": {
            "infrastructure": {"ref": {"apiVersion": api_version, "kind": kind, "name": template}},
            "controlPlane": {"ref": good},
        },
    })
}

#[tokio::test]
async fn a_reference_cannot_lead_into_another_namespace() {
    // DEC-45
    let ground = Ground::new().await;
    let namespace = ground.namespace().await;
    let victim = ground.kubernetes.namespace("victim").await;
    let prod = ground.create(&victim, template("DevClusterTemplate", "prod")).await;
    let topologist = ground.controller();
    topologist.wait_until_ready();
    // Both versions are served, and admission is not installed yet.
    let authority = std::fs::read(ground.certificates.path().join("ca.crt")).unwrap();
    let definitions = definitions_at(overlay("alone"), &topologist.webhook, &authority);
    ground.kubernetes.apply_yaml(&stream(&definitions)).await;
    let (good, traversal) = (
        format!("{GROUP}/v1beta2"),
        format!("{GROUP}/v1beta2%2Fnamespaces%2F{victim}%2Fdevclustertemplates%2Fprod?x="),
    );
    let path = format!("../../{victim}/devclustertemplates/prod?x=");
    let spelling = format!("{GROUP}/v1b%65ta2");
    let attacks = [
        ("version", (&*traversal, "DevClusterTemplate", "infra"), "the version \"v1beta2%2Fnamespaces%2F"),
        ("spelling", (&*spelling, "DevClusterTemplate", "infra"), "the version \"v1b%65ta2\""),
        ("kind", (&*good, "%2E%2E/xTemplate", "infra"), "the kind \"%2E%2E/xTemplate\""),
        ("name", (&*good, "DevClusterTemplate", &*path), "the name \"../../"),
        ("dots", (&*good, "DevClusterTemplate", ".."), "the name \"..\""),
    ];
    let older = ground.api("cluster.x-k8s.io/v1beta1", "ClusterClass", &namespace);
    for (name, attack, words) in attacks {
        ground.create(&namespace, older_class(name, attack)).await;
        let stored = with_condition(&ground, &topologist, (&namespace, name), "RefVersionsUpToDate", "Unknown").await;
        let reported = condition(&stored, "RefVersionsUpToDate");
        assert_eq!(reported["reason"], "MalformedReferences", "{name}");
        assert!(reported["message"].as_str().unwrap().contains(words), "{name}: {reported}");
    }
    // The class owns the template that it may refer to, and nobody owns the one of the other namespace.
    until("the other template is owned", &topologist, async || {
        (owners(&ground.templates(&namespace), "plane").await.len() == attacks.len()).then_some(())
    })
    .await;
    let now = ground.templates(&victim).get("prod").await.unwrap();
    assert_eq!(now.metadata.resource_version, prod.metadata.resource_version);
    assert!(owners(&ground.templates(&victim), "prod").await.is_empty());
    assert_eq!(topologist.metric("topologist_watched_kinds{kind=\"Template\"}"), Some(1.0), "and one watch for all");

    // With admission such classes are denied, and those that are there can be changed.
    ground.kubernetes.apply_yaml(&stream(&webhooks_at(overlay("alone"), &topologist.webhook, &authority))).await;
    for (name, attack, _) in attacks {
        let denied: DynamicObject = serde_json::from_value(older_class(&format!("new-{name}"), attack)).unwrap();
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        // A new webhook configuration takes effect some milliseconds after it is stored.
        let message = until("it is denied", &topologist, async || match older.create(&dry, &denied).await {
            Err(kube::Error::Api(status)) => Some(status.message.clone()),
            _ => None,
        })
        .await;
        assert!(message.contains("spec.infrastructure.ref."), "{name}: {message}");
    }
    for (name, ..) in attacks {
        let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
        older.patch(name, &PatchParams::default(), &label).await.unwrap();
    }
}
