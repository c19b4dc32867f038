//! kube-apiserver asks about ExtensionConfigs.

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};

use crate::admission::{dry, webhooks_for_extension_configs};
use crate::harness::kubernetes::Kubernetes;
use crate::harness::kustomize::stream;
use crate::harness::wait::{self, SOON};

const STORY: &str = "extension-configs";

fn config(name: &str, client: &Value) -> DynamicObject {
    let object = json!({"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
        "metadata": {"name": name, "labels": {"story": STORY}}, "spec": {"clientConfig": client}});
    serde_json::from_value(object).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_config_is_completed_or_denied() {
    // RH-2.4, RH-2.5
    let kubernetes = Kubernetes::shared();
    kubernetes.apply_yaml(&stream(&webhooks_for_extension_configs(STORY))).await;
    let kind = GroupVersionKind::gvk("runtime.cluster.x-k8s.io", "v1beta2", "ExtensionConfig");
    let api: Api<DynamicObject> = Api::all_with(kubernetes.client(), &ApiResource::from_gvk(&kind));
    // The definition allows this name.
    let dotted = config("story.with.dots", &json!({"url": "https://localhost"}));
    let denial = async || match api.create(&dry(), &dotted).await {
        Err(kube::Error::Api(status)) => Some(status),
        _ => None,
    };
    let denied = wait::until_some_async("the webhook is called", SOON, denial, wait::nothing).await;
    let words =
        "denied the request: ExtensionConfig.runtime.cluster.x-k8s.io \"story.with.dots\" is invalid: metadata.name: ";
    assert!(denied.code == 422 && denied.message.contains(words), "{denied:?}");
    let user = config("story", &json!({"url": "https://me@localhost"}));
    let denied = api.create(&PostParams::default(), &user).await.unwrap_err().to_string();
    assert!(denied.contains("must have neither a user name nor a fragment"), "{denied}");
    let service = config("story", &json!({"service": {"namespace": "ns", "name": "lab"}}));
    let stored = api.create(&PostParams::default(), &service).await.unwrap();
    let spec = &stored.data["spec"];
    assert_eq!((&spec["namespaceSelector"], &spec["clientConfig"]["service"]["port"]), (&json!({}), &json!(443)));
    api.delete("story", &DeleteParams::default()).await.unwrap();
}
