//! Topologies whose classes call Runtime Extensions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};

use super::layer::{Trouble, Wire};
use super::site::{BOOTSTRAP, CONTROL_PLANE, CORE, INFRASTRUCTURE, Manager, Site, text};
use crate::harness::extension::{Reply, TestExtension, patched};
use crate::harness::extension_hooks;

on_both![
    an_extension_patches_defines_variables_and_refuses,
    hooks_hold_creation_each_step_of_an_upgrade_and_deletion,
    while_a_hook_blocks_other_changes_go_on_and_a_new_process_asks_again,
    a_certificate_of_another_authority_is_refused,
    definitions_that_conflict_hold_clusters,
    an_ignored_failure_is_an_answer_without_patches,
    a_process_that_begins_to_lead_waits_for_the_extensions_that_were_there,
    every_way_to_fail_is_reported_and_changes_nothing,
    a_controller_that_replaces_each_result_is_not_fought,
];

/// An extension that sees this namespace only.
struct Extension<'s> {
    lab: TestExtension,
    site: &'s Site,
}

fn api(site: &Site) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("runtime.cluster.x-k8s.io", "v1beta2", "ExtensionConfig");
    Api::all_with(site.client.clone(), &ApiResource::from_gvk(&kind))
}

impl<'s> Extension<'s> {
    fn new(site: &'s Site) -> Self {
        Extension { lab: TestExtension::start(), site }
    }

    async fn register(&self) {
        let name = &self.site.namespace;
        let labels = json!({"metadata": {"labels": {"story": name}}});
        self.site.merge("v1", "Namespace", name, labels).await;
        let selector = json!({"matchLabels": {"story": name}});
        let config = self.lab.config(name, &json!({"namespaceSelector": selector}));
        api(self.site).patch(name, &PatchParams::apply("a-user").force(), &Patch::Apply(config)).await.unwrap();
        self.discovered().await;
    }

    async fn discovered(&self) {
        self.site
            .until("the extension is discovered", || async {
                let config = api(self.site).get(&self.site.namespace).await.unwrap();
                let conditions = config.data["status"]["conditions"].as_array()?.clone();
                let is_so = |one: &Value| one["type"] == "Discovered" && one["status"] == "True";
                conditions.iter().any(is_so).then_some(())
            })
            .await;
    }

    async fn unregister(&self) {
        api(self.site).delete(&self.site.namespace, &DeleteParams::default()).await.unwrap();
    }

    /// The name that a handler is registered by.
    fn named(&self, handler: &str) -> String {
        format!("{handler}.{}", self.site.namespace)
    }
}

async fn class(site: &Site) -> Value {
    site.list(CORE, "ClusterClass").await.remove(0)
}

/// Adds an external patch to the class, and waits until its controller has seen it.
async fn patch_class(site: &Site, external: Value) {
    let before = class(site).await;
    let mut patches = before["spec"]["patches"].as_array().cloned().unwrap_or_default();
    patches.push(json!({"name": "remote", "external": external}));
    site.merge(CORE, "ClusterClass", &text(&before, "/metadata/name"), json!({"spec": {"patches": patches}})).await;
    site.until("the class is reconciled", || async {
        let class = class(site).await;
        (class["status"]["observedGeneration"] == class["metadata"]["generation"]).then_some(())
    })
    .await;
}

async fn an_extension_patches_defines_variables_and_refuses(site: Site) {
    // RH-7.2, RH-12.6, RH-15.4, RH-16.1, RH-17.1, PE-23, PE-29
    let extension = Extension::new(&site);
    let lab = &extension.lab;
    let field_path = "spec.template.spec.bootstrap.configRef";
    lab.on("GeneratePatches", "generate", move |request| patched(request, field_path, "format", &json!("ignition")));
    lab.on("ValidateTopology", "validate", |_| Reply::done());
    lab.on("DiscoverVariables", "discover", |_| {
        let schema = json!({"openAPIV3Schema": {"type": "string", "default": "cellar"}});
        Reply::success(json!({"variables": [{"name": "place", "required": false, "schema": schema}]}))
    });
    site.provide().await;
    let manager = Manager::start(&site, &Wire::new(Trouble::None));
    extension.register().await;
    let names = ["generate", "validate", "discover"].map(|name| extension.named(name));
    patch_class(
        &site,
        json!({"generatePatchesExtension": names[0], "validateTopologyExtension": names[1],
            "discoverVariablesExtension": names[2]}),
    )
    .await;
    let status = class(&site).await["status"]["variables"].clone();
    assert!(status.as_array().unwrap().iter().any(|one| one["name"] == "place"), "{status}");
    site.apply_file("cluster.yaml").await;
    site.reconciled("demo").await;
    let configs = site.list(BOOTSTRAP, "EmbeddedConfigTemplate").await;
    let owned = |one: &&Value| one["metadata"]["labels"]["topology.cluster.x-k8s.io/owned"].is_string();
    let formats: Vec<_> = configs.iter().filter(owned).map(|one| text(one, "/spec/template/spec/format")).collect();
    assert!(!formats.is_empty() && formats.iter().all(|format| format == "ignition"), "{formats:?}");
    let sent = &lab.requests_of("generate")[0];
    assert!(sent["variables"].to_string().contains("cellar"), "{sent}");
    lab.on("ValidateTopology", "validate", |_| Reply::failure("the cellar is full"));
    site.change("demo", |topology| topology["controlPlane"]["replicas"] = json!(5)).await;
    site.until("the refusal is told", || async {
        let (reason, message) = site.reported("demo").await;
        (reason == "ReconcileFailed" && message.contains("the cellar is full")).then_some(())
    })
    .await;
    extension.unregister().await;
    manager.stop().await;
}

async fn every_way_to_fail_is_reported_and_changes_nothing(site: Site) {
    // RH-4.6, RH-4.8, RH-4.9, RH-4.10, RH-5.3, RH-7.4, RH-12.4
    let mut extension = Extension::new(&site);
    extension.lab.on("GeneratePatches", "generate", |_| Reply::done());
    site.provide().await;
    let manager = Manager::start(&site, &Wire::new(Trouble::None));
    extension.register().await;
    patch_class(&site, json!({"generatePatchesExtension": extension.named("generate")})).await;
    site.apply_file("cluster.yaml").await;
    site.reconciled("demo").await;
    let before = site.list(BOOTSTRAP, "EmbeddedConfigTemplate").await;
    let item = |patch: &str| json!([{"uid": "none", "patchType": "JSONMergePatch", "patch": patch}]);
    let fails = async |round: &str, words: &str| {
        // A new question, and the start of a new run.
        site.merge(CORE, "Cluster", "demo", json!({"metadata": {"labels": {"round": round}}})).await;
        site.until(words, || async {
            let (reason, message) = site.reported("demo").await;
            (reason == "ReconcileFailed" && message.contains(words)).then_some(())
        })
        .await;
    };
    for (round, way, words) in [
        ("code", Reply::Code(500, "out of order"), "status 500: out of order"),
        ("garbage", Reply::Garbage, "expected value"),
        ("redirect", Reply::Redirect, "status 307"),
        ("hang", Reply::Hang, "no answer within 2s"),
        ("size", Reply::TooMuch, "longer than 20971520 bytes"),
        ("status", Reply::Json(json!({"status": "Fine"})), "unknown status \"Fine\""),
        ("lie", Reply::success(json!({"items": item("e30=")})), "no item of the request has the uid"),
        ("base64", Reply::success(json!({"items": item("?")})), "items[0].patch is not base64"),
    ] {
        extension.lab.on("GeneratePatches", "generate", move |_| way.clone());
        fails(round, words).await;
    }
    // One operation fails, and the one before it is dropped with it.
    extension.lab.on("GeneratePatches", "generate", |request| {
        let operations = json!([{"op": "add", "path": "/spec/template/spec/format", "value": "ignition"},
            {"op": "remove", "path": "/spec/template/spec/absent"}]);
        let uid = &request["items"][3]["uid"];
        let patch = STANDARD.encode(operations.to_string());
        Reply::success(json!({"items": [{"uid": uid, "patchType": "JSONPatch", "patch": patch}]}))
    });
    fails("operation", "/spec/template/spec/absent").await;
    assert_eq!(extension.lab.count("elsewhere"), 0, "a redirect is not followed");
    extension.lab.stop();
    fails("gone", "generate.").await;
    assert_eq!(site.list(BOOTSTRAP, "EmbeddedConfigTemplate").await, before);
    extension.unregister().await;
    manager.stop().await;
}

async fn hooks_hold_creation_each_step_of_an_upgrade_and_deletion(site: Site) {
    // RH-18.4, RH-19.1, RH-19.3, RH-19.5, RH-19.6, RH-19.7, RH-19.8, RH-19.9, RH-19.10, HK-11, HK-14, HK-22
    let extension = Extension::new(&site);
    let [create, delete] = ["BeforeClusterCreate", "BeforeClusterDelete"];
    for hook in [create, delete] {
        extension.lab.on(hook, &hook.to_lowercase(), |_| Reply::wait(1, "a person decides"));
    }
    let holds = extension_hooks::holds(&extension.lab, "v1.33.0", "v1.34.2");
    let open = |hook: &str| extension.lab.on(hook, &hook.to_lowercase(), |_| Reply::done());
    let waits = async |words: &str| {
        site.until(words, || async { site.reported("demo").await.1.contains(words).then_some(()) }).await;
    };
    site.provide().await;
    let manager = Manager::start(&site, &Wire::new(Trouble::None));
    extension.register().await;
    site.apply_file("cluster.yaml").await;
    waits(&format!("{create}: a person decides")).await;
    assert!(site.list(INFRASTRUCTURE, "EmbeddedCluster").await.is_empty());
    open(create);
    site.reconciled("demo").await;
    site.change("demo", |topology| topology["version"] = json!("v1.34.2")).await;
    for hold in holds {
        waits(&hold.words).await;
        let mut workers = site.list(CORE, "MachineDeployment").await;
        workers.extend(site.list(CORE, "MachinePool").await);
        let versions = |objects: Vec<Value>, path: &str| -> Vec<Value> {
            objects.iter().map(|object| json!(text(object, path))).collect()
        };
        let control_plane = versions(site.list(CONTROL_PLANE, "EmbeddedControlPlane").await, "/spec/version");
        hold.check(&control_plane, &versions(workers, "/spec/template/spec/version"));
        hold.open();
    }
    site.reconciled("demo").await;
    site.merge(CORE, "Cluster", "demo", json!({"metadata": {"finalizers": ["story.example.com/look"]}})).await;
    site.delete(CORE, "Cluster", "demo").await;
    waits(&format!("{delete}: a person decides")).await;
    let permitted =
        |cluster: &Value| cluster["metadata"]["annotations"]["runtime.cluster.x-k8s.io/ok-to-delete"].is_string();
    assert!(!permitted(&site.cluster("demo").await));
    open(delete);
    site.until("the deletion is permitted", || async { permitted(&site.cluster("demo").await).then_some(()) }).await;
    extension.unregister().await;
    manager.stop().await;
}

async fn while_a_hook_blocks_other_changes_go_on_and_a_new_process_asks_again(site: Site) {
    // RH-9.4, RH-9.7, RH-18.6, RH-18.7
    const HOOK: &str = "BeforeClusterUpgrade";
    let extension = Extension::new(&site);
    let calls = || extension.lab.count("gate");
    extension.lab.on(HOOK, "gate", |_| Reply::wait(3_600, "a person decides"));
    let blocks = async || {
        let words = format!("{HOOK}: a person decides");
        site.until(&words, || async { site.reported("demo").await.1.contains(&words).then_some(()) }).await;
        let control_plane = site.list(CONTROL_PLANE, "EmbeddedControlPlane").await.remove(0);
        assert_eq!(text(&control_plane, "/spec/version"), "v1.33.0");
    };
    let check = async |enabled: bool, version: &str, checks: usize| {
        site.change("demo", |topology| {
            topology["version"] = json!(version);
            topology["workers"]["machineDeployments"][0]["healthCheck"] = json!({"enabled": enabled});
        })
        .await;
        site.until("the worker set has another health check", || async {
            (site.list(CORE, "MachineHealthCheck").await.len() == checks).then_some(())
        })
        .await;
    };
    site.provide().await;
    let manager = Manager::start(&site, &Wire::new(Trouble::None));
    extension.register().await;
    site.apply_file("cluster.yaml").await;
    site.reconciled("demo").await;
    site.change("demo", |topology| topology["version"] = json!("v1.34.0")).await;
    blocks().await;
    let checks = site.list(CORE, "MachineHealthCheck").await.len();
    check(false, "v1.34.0", checks - 1).await;
    check(true, "v1.34.2", checks).await;
    blocks().await;
    assert_eq!(calls(), 1, "a new target waits as well");
    manager.stop().await;

    let manager = Manager::start(&site, &Wire::new(Trouble::None));
    site.until("the next process asks", || async { (calls() == 2).then_some(()) }).await;
    blocks().await;
    manager.stop().await;

    extension.lab.on(HOOK, "gate", |_| Reply::done());
    let manager = Manager::start(&site, &Wire::new(Trouble::None));
    site.until("the upgrade goes on", || async {
        let control_plane = site.list(CONTROL_PLANE, "EmbeddedControlPlane").await.remove(0);
        (text(&control_plane, "/spec/version") == "v1.34.2").then_some(())
    })
    .await;
    site.reconciled("demo").await;
    extension.unregister().await;
    manager.stop().await;
}

async fn a_certificate_of_another_authority_is_refused(site: Site) {
    // RH-4.7, RH-2.6
    let extension = Extension::new(&site);
    extension.lab.on("BeforeClusterCreate", "gate", |_| Reply::done());
    let other = TestExtension::start();
    let manager = Manager::start(&site, &Wire::new(Trouble::None));
    let name = &site.namespace;
    let config = extension.lab.config(
        name,
        &json!({"namespaceSelector": {},
            "clientConfig": {"url": extension.lab.url(), "caBundle": STANDARD.encode(&other.ca)}}),
    );
    api(&site).patch(name, &PatchParams::apply("a-user").force(), &Patch::Apply(config)).await.unwrap();
    site.until("the certificate is refused", || async {
        let config = api(&site).get(name).await.unwrap();
        let conditions = config.data["status"]["conditions"].as_array()?.clone();
        let found = conditions.into_iter().find(|one| one["type"] == "Discovered")?;
        let is_so = found["status"] == "False" && text(&found, "/message").contains("invalid peer certificate");
        is_so.then_some(())
    })
    .await;
    assert_eq!(extension.lab.requests().len(), 0);
    extension.unregister().await;
    manager.stop().await;
}

async fn definitions_that_conflict_hold_clusters(site: Site) {
    // RH-17.3, RH-17.5, RH-17.7, CCR-08
    let extension = Extension::new(&site);
    let defined = |schema: Value| json!({"variables": [{"name": "motd", "schema": {"openAPIV3Schema": schema}}]});
    let conflicting = defined(json!({"type": "integer"}));
    extension.lab.on("DiscoverVariables", "discover", move |_| Reply::success(conflicting.clone()));
    extension.lab.on("GeneratePatches", "generate", |_| Reply::done());
    site.provide().await;
    let manager = Manager::start(&site, &Wire::new(Trouble::None));
    extension.register().await;
    let before = class(&site).await;
    let mut patches = before["spec"]["patches"].as_array().cloned().unwrap_or_default();
    let external = json!({"generatePatchesExtension": extension.named("generate"),
        "discoverVariablesExtension": extension.named("discover")});
    patches.push(json!({"name": "remote", "external": external}));
    site.merge(CORE, "ClusterClass", &text(&before, "/metadata/name"), json!({"spec": {"patches": patches}})).await;
    let ready = async || {
        let conditions = class(&site).await["status"]["conditions"].as_array()?.clone();
        conditions.into_iter().find(|one| one["type"] == "VariablesReady")
    };
    site.until("the conflict is reported", || async {
        let found = ready().await?;
        let is_so = found["status"] == "False" && text(&found, "/message").ends_with("conflicting definitions: motd");
        is_so.then_some(())
    })
    .await;
    let all = class(&site).await["status"]["variables"].as_array().cloned().unwrap_or_default();
    let motd = all.iter().find(|one| one["name"] == "motd").unwrap();
    assert_eq!((&motd["definitionsConflict"], motd["definitions"].as_array().unwrap().len()), (&json!(true), 2));
    site.apply_file("cluster.yaml").await;
    site.until("the Cluster waits", || async { (site.reported("demo").await.0 == "ReconcileFailed").then_some(()) })
        .await;
    assert!(site.list(INFRASTRUCTURE, "EmbeddedCluster").await.is_empty());
    extension.lab.on("DiscoverVariables", "discover", |_| Reply::done());
    let settings = json!({"spec": {"settings": {"new": "yes"}}});
    api(&site).patch(&site.namespace, &PatchParams::default(), &Patch::Merge(settings)).await.unwrap();
    site.reconciled("demo").await;
    extension.unregister().await;
    manager.stop().await;
}

async fn an_ignored_failure_is_an_answer_without_patches(site: Site) {
    // RH-7.3, RH-7.5, RH-15.4
    let extension = Extension::new(&site);
    extension.lab.on_with("GeneratePatches", "generate", "Ignore", |_| Reply::Code(500, "out of order"));
    extension.lab.on_with("ValidateTopology", "validate", "Ignore", |_| Reply::Garbage);
    site.provide().await;
    let manager = Manager::start(&site, &Wire::new(Trouble::None));
    extension.register().await;
    let external = json!({"generatePatchesExtension": extension.named("generate"),
        "validateTopologyExtension": extension.named("validate")});
    patch_class(&site, external).await;
    site.apply_file("cluster.yaml").await;
    site.reconciled("demo").await;
    assert!(extension.lab.count("generate") > 0 && extension.lab.count("validate") > 0);
    extension.lab.on_with("ValidateTopology", "validate", "Ignore", |_| Reply::failure("the cellar is full"));
    site.change("demo", |topology| topology["controlPlane"]["replicas"] = json!(5)).await;
    site.until("a refusal is not ignored", || async {
        let (reason, message) = site.reported("demo").await;
        (reason == "ReconcileFailed" && message.contains("the cellar is full")).then_some(())
    })
    .await;
    extension.unregister().await;
    manager.stop().await;
}

async fn a_process_that_begins_to_lead_waits_for_the_extensions_that_were_there(site: Site) {
    // RH-3.6, RH-3.7
    let mut extension = Extension::new(&site);
    extension.lab.on("BeforeClusterCreate", "gate", |_| Reply::done());
    let manager = Manager::start(&site, &Wire::new(Trouble::None));
    extension.register().await;
    manager.stop().await;
    extension.lab.stop();
    site.provide().await;
    let manager = Manager::start(&site, &Wire::new(Trouble::None));
    site.apply_file("cluster.yaml").await;
    let words = format!("ExtensionConfig {:?} has not been discovered", site.namespace);
    site.until(&words, || async { site.reported("demo").await.1.contains(&words).then_some(()) }).await;
    assert!(site.list(INFRASTRUCTURE, "EmbeddedCluster").await.is_empty(), "nothing is done without the hook");
    extension.unregister().await;
    site.reconciled("demo").await;
    manager.stop().await;
}

async fn a_controller_that_replaces_each_result_is_not_fought(site: Site) {
    // DEC-92: as the core manager in a take-over, which reaches an extension that topologist does not reach.
    let wire = Wire::new(Trouble::None);
    let manager = Manager::start(&site, &wire);
    let (name, configs) = (site.namespace.clone(), api(&site));
    let config = json!({"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
        "metadata": {"name": name}, "spec": {"clientConfig": {"url": "https://127.0.0.1:1"}}});
    configs.patch(&name, &PatchParams::apply("a-user").force(), &Patch::Apply(config)).await.unwrap();
    let discovered = |config: &DynamicObject| {
        let conditions = config.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|one| one["type"] == "Discovered" && one["status"] == "True")
    };
    let (deadline, mut replaced) = (std::time::Instant::now() + std::time::Duration::from_secs(20), 0);
    while std::time::Instant::now() < deadline {
        let found = configs.get(&name).await.unwrap();
        if found.data["status"]["conditions"].is_array() && !discovered(&found) {
            let condition = json!({"type": "Discovered", "status": "True", "reason": "Discovered", "message": "",
                "lastTransitionTime": "2030-01-01T00:00:00Z"});
            let status = json!({"status": {"conditions": [condition]}});
            configs.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
            replaced += 1;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let path = format!("/extensionconfigs/{name}/status");
    let writes = wire.writes().iter().filter(|write| write.path.ends_with(&path)).count();
    assert!(replaced >= 1 && writes <= 2, "{writes} writes, {replaced} of them replaced");
    configs.delete(&name, &DeleteParams::default()).await.unwrap();
    manager.stop().await;
}
