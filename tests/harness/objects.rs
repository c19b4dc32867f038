//! Objects of any kind through a client, and fixtures.

use std::path::{Path, PathBuf};

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use topologist::yaml;

/// The kinds that have no namespace.
const CLUSTER_SCOPED: [&str; 4] = ["Namespace", "Node", "ExtensionConfig", "CustomResourceDefinition"];

/// The member of a ClusterClass that refers to a template `t` of an API group of Cluster API.
pub fn template_ref(group: &str, kind: &str) -> Value {
    let api_version = format!("{group}.cluster.x-k8s.io/v1beta2");
    json!({"templateRef": {"apiVersion": api_version, "kind": kind, "name": "t"}})
}

/// The objects of a namespace, as a user reads and writes them.
pub struct Objects {
    pub client: kube::Client,
    pub namespace: String,
}

impl Objects {
    pub fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        api(&self.client, &self.namespace, api_version, kind)
    }

    /// Applies an object in the namespace.
    pub async fn create(&self, mut object: Value) -> Value {
        let (api_version, kind) = (text(&object, "/apiVersion"), text(&object, "/kind"));
        if !CLUSTER_SCOPED.contains(&&*kind) {
            object["metadata"]["namespace"] = json!(self.namespace);
        }
        let name = text(&object, "/metadata/name");
        let params = PatchParams::apply("a-user").force();
        let made = self.api(&api_version, &kind).patch(&name, &params, &Patch::Apply(&object)).await;
        serde_json::to_value(made.unwrap_or_else(|error| panic!("{kind} {name}: {error}"))).unwrap()
    }

    pub async fn get(&self, api_version: &str, kind: &str, name: &str) -> Option<Value> {
        let found = self.api(api_version, kind).get_opt(name).await.unwrap();
        found.map(|found| serde_json::to_value(found).unwrap())
    }

    /// The objects of a kind by name.
    pub async fn list(&self, api_version: &str, kind: &str) -> Vec<Value> {
        let mut items = list(&self.api(api_version, kind)).await;
        items.sort_by_key(|item| text(item, "/metadata/name"));
        items
    }

    pub async fn merge(&self, api_version: &str, kind: &str, name: &str, patch: Value) -> Value {
        let params = PatchParams { field_manager: Some("a-user".to_owned()), ..PatchParams::default() };
        let patched = self.api(api_version, kind).patch(name, &params, &Patch::Merge(patch)).await;
        serde_json::to_value(patched.unwrap_or_else(|error| panic!("{kind} {name}: {error}"))).unwrap()
    }

    pub async fn delete(&self, api_version: &str, kind: &str, name: &str) {
        self.api(api_version, kind).delete(name, &DeleteParams::background()).await.unwrap();
    }
}

/// Objects of a kind in a namespace, or with an empty one in all namespaces.
pub fn api(client: &kube::Client, namespace: &str, api_version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let resource = match kind {
        "ClusterClass" => ApiResource::from_gvk_with_plural(&gvk, "clusterclasses"),
        _ => ApiResource::from_gvk(&gvk),
    };
    if namespace.is_empty() || CLUSTER_SCOPED.contains(&kind) {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), namespace, &resource)
    }
}

/// All objects.
pub async fn list(api: &Api<DynamicObject>) -> Vec<Value> {
    let list = api.list(&ListParams::default()).await.unwrap();
    list.items.into_iter().map(|item| serde_json::to_value(item).unwrap()).collect()
}

/// A client for the user of a kubeconfig.
pub async fn client(kubeconfig: &Path) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// A file of `fixtures`.
pub fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(path)
}

/// The objects of a file of the bundle for the embedded provider.
pub fn bundle(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(fixture("embedded").join(name)).unwrap();
    yaml::documents(&text).into_iter().map(|document| document.unwrap().value).collect()
}

/// A text of an object; empty where there is none.
pub fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
