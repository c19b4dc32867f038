//! Deletions that wait for their hooks after a take-over: every version of a Cluster that kube-apiserver has stored.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions, WatchEvent, WatchParams};
use serde_json::{Value, json};

use super::process::Installation;
use super::site::{CORE, Site};
use crate::harness::extension::{Reply, TestExtension};
use crate::harness::kustomize::overlay;

const PAUSED: &str = "/metadata/annotations/cluster.x-k8s.io~1paused";
const OK_TO_DELETE: &str = "/metadata/annotations/runtime.cluster.x-k8s.io~1ok-to-delete";
const FLAGS: [&str; 4] = ["--lease-duration", "3s", "--deletion-hold-time", "3s"];

/// Every version of the Clusters of a namespace from now on.
fn versions(site: &Site) -> Arc<Mutex<Vec<Value>>> {
    let all = Arc::new(Mutex::new(Vec::new()));
    let (api, seen) = (site.api(CORE, "Cluster"), all.clone());
    tokio::spawn(async move {
        let mut events = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
        while let Some(Ok(event)) = events.next().await {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) = event {
                seen.lock().unwrap().push(serde_json::to_value(object).unwrap());
            }
        }
    });
    all
}

fn is_held(cluster: &Value) -> bool {
    let hold =
        format!("topologist.dev/before-cluster-delete uid={} since=", cluster["metadata"]["uid"].as_str().unwrap());
    cluster.pointer(PAUSED).and_then(Value::as_str).is_some_and(|value| value.starts_with(&hold))
}

/// A Cluster with the finalizer of Cluster API's core, which nothing else plays here, and an extension that blocks its
/// deletion.
async fn provided(installation: &Installation) -> (Site, TestExtension) {
    let site = Site::on(installation.kubernetes.client(), "team-a".to_owned()).await;
    site.provide().await;
    let lab = TestExtension::start();
    lab.on("BeforeClusterDelete", "before", |_| Reply::wait(1, "backup"));
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": "team-a"}});
    let config = lab.config("lab", &json!({"namespaceSelector": selector}));
    installation.kubernetes.apply_yaml(&config.to_string()).await;
    site.apply_file("cluster.yaml").await;
    site.reconciled("demo").await;
    site.merge(CORE, "Cluster", "demo", json!({"metadata": {"finalizers": ["cluster.cluster.x-k8s.io"]}})).await;
    (site, lab)
}

async fn delete(site: &Site, params: DeleteParams) -> Result<(), (u16, String)> {
    match site.api(CORE, "Cluster").delete("demo", &params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
        Err(error) => panic!("{error}"),
    }
}

async fn delete_set(site: &Site) -> Result<(), (u16, String)> {
    let sets = site.list(CORE, "MachineDeployment").await;
    let name = sets[0]["metadata"]["name"].as_str().unwrap();
    let params = DeleteParams { dry_run: true, ..DeleteParams::default() };
    match site.api(CORE, "MachineDeployment").delete(name, &params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
        Err(error) => panic!("{error}"),
    }
}

/// Merges annotations as a user, and returns the Cluster as it was stored.
async fn annotate(site: &Site, annotations: Value) -> Value {
    site.merge(CORE, "Cluster", "demo", json!({"metadata": {"annotations": annotations}})).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_being_deleted_is_held_until_its_hooks_have_passed() {
    // DEC-56, HK-22
    let manifests = overlay("take-over");
    let installation = Installation::with(manifests.clone(), &["team-a"]).await;
    let topologist = installation.start_behind_webhooks(&manifests, &FLAGS).await;
    let (site, lab) = provided(&installation).await;
    let stored = versions(&site);

    delete(&site, DeleteParams { dry_run: true, ..DeleteParams::default() }).await.unwrap();
    assert_eq!(site.cluster("demo").await.pointer(PAUSED), None, "a dry run writes nothing");
    assert_eq!(delete_set(&site).await, Ok(()), "the Cluster is not being deleted");

    // A client that names a version gets one conflict: the hold is a write.
    let version = site.cluster("demo").await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let preconditions = |version| Some(Preconditions { resource_version: Some(version), uid: None });
    let params = DeleteParams { preconditions: preconditions(version), ..DeleteParams::default() };
    let (code, message) = delete(&site, params).await.unwrap_err();
    assert_eq!(code, 409, "{message}");
    assert!(is_held(&site.cluster("demo").await));
    delete(&site, DeleteParams::background()).await.unwrap();

    let calls = |more: usize| {
        let (lab, site, before) = (&lab, &site, lab.count("before"));
        site.until("the hook is called again and again", move || async move {
            (lab.count("before") >= before + more).then_some(())
        })
    };
    calls(3).await;
    let cluster = site.cluster("demo").await;
    assert!(is_held(&cluster) && cluster["metadata"]["deletionTimestamp"].is_string(), "{cluster}");
    let (code, message) = delete_set(&site).await.unwrap_err();
    assert!(code == 403 && message.contains("hooks BeforeClusterDelete have not passed"), "{code} {message}");

    // An update cannot remove the hold. A pause by a user replaces it, and gives it back.
    assert!(is_held(&annotate(&site, json!({"cluster.x-k8s.io/paused": null})).await));
    let paused = annotate(&site, json!({"cluster.x-k8s.io/paused": "by me"})).await;
    assert_eq!(paused.pointer(PAUSED), Some(&json!("by me")));
    assert!(is_held(&annotate(&site, json!({"cluster.x-k8s.io/paused": null})).await));

    // The process is killed: neither the hold nor the deletion is lost, and finalizers can be removed meanwhile.
    drop(topologist);
    annotate(&site, json!({"while": "no process answers"})).await;
    assert!(is_held(&site.cluster("demo").await));
    let _topologist = installation.start_behind_webhooks(&manifests, &FLAGS).await;
    calls(2).await;
    assert!(is_held(&site.cluster("demo").await));
    lab.on("BeforeClusterDelete", "before", |_| Reply::done());
    let permitted = || async {
        let cluster = site.cluster("demo").await;
        cluster.pointer(OK_TO_DELETE).is_some().then_some(cluster)
    };
    let cluster = site.until("the Cluster may be deleted", permitted).await;
    assert_eq!(cluster.pointer(PAUSED), None);
    assert_eq!(delete_set(&site).await, Ok(()));

    // Cluster API's core deletes on any version that has a deletion timestamp and no such annotation.
    let last = cluster["metadata"]["resourceVersion"].clone();
    let seen =
        || async { stored.lock().unwrap().iter().any(|one| one["metadata"]["resourceVersion"] == last).then_some(()) };
    site.until("the watch has shown all versions", seen).await;
    let mut leaving = 0;
    for version in stored.lock().unwrap().iter().filter(|one| one["metadata"]["deletionTimestamp"].is_string()) {
        let is_permitted = version.pointer(OK_TO_DELETE).is_some();
        assert_eq!(version.pointer(PAUSED).is_none(), is_permitted, "{version}");
        leaving += 1;
    }
    assert!(leaving >= 5, "{leaving}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_without_a_deletion_goes_and_hooks_can_be_skipped() {
    // DEC-56
    let manifests = overlay("take-over");
    let installation = Installation::with(manifests.clone(), &["team-a"]).await;
    let _topologist = installation.start_behind_webhooks(&manifests, &FLAGS).await;
    let (site, lab) = provided(&installation).await;
    let denying = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "denies"},
        "webhooks": [{
            "name": "denies.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{"apiGroups": ["cluster.x-k8s.io"], "apiVersions": ["v1beta2"], "operations": ["DELETE"],
                "resources": ["clusters"]}],
        }],
    });
    installation.kubernetes.apply_yaml(&denying.to_string()).await;
    let denied = || async {
        let params = DeleteParams { dry_run: true, ..DeleteParams::default() };
        delete(&site, params).await.is_err().then_some(())
    };
    site.until("the other webhook denies", denied).await;
    let (_, message) = delete(&site, DeleteParams::background()).await.unwrap_err();
    assert!(message.contains("denies.example.com"), "{message}");
    assert!(is_held(&site.cluster("demo").await));
    let dropped = || async { site.cluster("demo").await.pointer(PAUSED).is_none().then_some(()) };
    site.until("the hold is dropped", dropped).await;
    assert_eq!(site.reported("demo").await.0, "ReconcileSucceeded", "the hold is no pause");
    assert_eq!(lab.count("before"), 0, "the Cluster is not being deleted");
    let patch = Patch::Merge(json!({"webhooks": []}));
    let kind = kube::api::ApiResource::from_gvk(&kube::api::GroupVersionKind::gvk(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
    ));
    let configurations = kube::Api::<DynamicObject>::all_with(site.client.clone(), &kind);
    configurations.patch("denies", &PatchParams::default(), &patch).await.unwrap();

    let deleted = || async { delete(&site, DeleteParams::background()).await.is_ok().then_some(()) };
    site.until("the deletion is allowed", deleted).await;
    assert!(is_held(&site.cluster("demo").await));
    let called = || async { (lab.count("before") >= 2).then_some(()) };
    site.until("the hook blocks", called).await;
    annotate(&site, json!({"unsafe.topologist.dev/skip-delete-hooks": ""})).await;
    let permitted = || async {
        let cluster = site.cluster("demo").await;
        (cluster.pointer(OK_TO_DELETE).is_some() && cluster.pointer(PAUSED).is_none()).then_some(())
    };
    site.until("the Cluster may be deleted although the hook blocks", permitted).await;
}
