//! Topologies whose classes call Runtime Extensions.

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};

use super::layer::{Trouble, Wire};
use super::site::{BOOTSTRAP, CONTROL_PLANE, CORE, INFRASTRUCTURE, Manager, Site, text};
use crate::lab::{Lab, Reply, patched};

on_both![
    an_extension_patches_defines_variables_and_refuses,
    hooks_hold_creation_upgrade_and_deletion,
    a_process_that_begins_to_lead_waits_for_the_extensions_that_were_there,
    every_way_to_fail_is_told_and_changes_nothing,
];

/// An extension that sees this namespace only.
struct Extension<'s> {
    lab: Lab,
    site: &'s Site,
}

fn api(site: &Site) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("runtime.cluster.x-k8s.io", "v1beta2", "ExtensionConfig");
    Api::all_with(site.client.clone(), &ApiResource::from_gvk(&kind))
}

impl<'s> Extension<'s> {
    fn new(site: &'s Site) -> Self {
        Extension { lab: Lab::start(), site }
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
        let (reason, message) = site.told("demo").await;
        (reason == "ReconcileFailed" && message.contains("the cellar is full")).then_some(())
    })
    .await;
    extension.unregister().await;
    manager.stop().await;
}

async fn every_way_to_fail_is_told_and_changes_nothing(site: Site) {
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
            let (reason, message) = site.told("demo").await;
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
        ("base64", Reply::success(json!({"items": item("?")})), "patch"),
    ] {
        extension.lab.on("GeneratePatches", "generate", move |_| way.clone());
        fails(round, words).await;
    }
    assert_eq!(extension.lab.count("elsewhere"), 0, "a redirect is not followed");
    extension.lab.stop();
    fails("gone", "generate.").await;
    assert_eq!(site.list(BOOTSTRAP, "EmbeddedConfigTemplate").await, before);
    extension.unregister().await;
    manager.stop().await;
}

async fn hooks_hold_creation_upgrade_and_deletion(site: Site) {
    // RH-19.1, RH-19.3, RH-19.10, RH-18.4, HK-11, HK-14, HK-22
    let extension = Extension::new(&site);
    let hooks = ["BeforeClusterCreate", "BeforeClusterUpgrade", "BeforeClusterDelete"];
    for hook in hooks {
        extension.lab.on(hook, &hook.to_lowercase(), |_| Reply::wait(1, "a person decides"));
    }
    let open = |hook: &str| extension.lab.on(hook, &hook.to_lowercase(), |_| Reply::done());
    let waits = async |hook: &str| {
        let words = format!("{hook}: a person decides");
        site.until(&words, || async { site.told("demo").await.1.contains(&words).then_some(()) }).await;
    };
    site.provide().await;
    let manager = Manager::start(&site, &Wire::new(Trouble::None));
    extension.register().await;
    site.apply_file("cluster.yaml").await;
    waits(hooks[0]).await;
    assert!(site.list(INFRASTRUCTURE, "EmbeddedCluster").await.is_empty());
    open(hooks[0]);
    site.reconciled("demo").await;
    let version = |object: Value| text(&object, "/spec/version");
    let before = version(site.list(CONTROL_PLANE, "EmbeddedControlPlane").await.remove(0));
    site.change("demo", |topology| topology["version"] = json!("v1.34.2")).await;
    waits(hooks[1]).await;
    assert_eq!(version(site.list(CONTROL_PLANE, "EmbeddedControlPlane").await.remove(0)), before);
    open(hooks[1]);
    site.reconciled("demo").await;
    assert_eq!(version(site.list(CONTROL_PLANE, "EmbeddedControlPlane").await.remove(0)), "v1.34.2");
    site.merge(CORE, "Cluster", "demo", json!({"metadata": {"finalizers": ["story.example.com/look"]}})).await;
    site.delete(CORE, "Cluster", "demo").await;
    waits(hooks[2]).await;
    let permitted =
        |cluster: &Value| cluster["metadata"]["annotations"]["runtime.cluster.x-k8s.io/ok-to-delete"].is_string();
    assert!(!permitted(&site.cluster("demo").await));
    open(hooks[2]);
    site.until("the deletion is permitted", || async { permitted(&site.cluster("demo").await).then_some(()) }).await;
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
    site.until(&words, || async { site.told("demo").await.1.contains(&words).then_some(()) }).await;
    assert!(site.list(INFRASTRUCTURE, "EmbeddedCluster").await.is_empty(), "nothing is done without the hook");
    extension.unregister().await;
    site.reconciled("demo").await;
    manager.stop().await;
}
