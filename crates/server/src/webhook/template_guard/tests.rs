use serde_json::{Value, json};

use super::*;
use crate::kubernetes::scripted::{Script, ScriptedAnswer};
use engine::topology::testing::Scene;
use model::hub::Cluster;
use model::world::{Record, Scope};

const TIME: &str = "2030-01-01T00:00:00Z";
const DENIED: &str = "ForgeMachineTemplate ns/smith cannot be deleted because it is used by ClusterClass ns/forge \
                      (1 Cluster); to delete it anyway, set the annotation unsafe.topologist.dev/delete-template-in-use on it";

/// A review of the deletion of a template with this metadata.
fn review_of(kind: &str, name: &str, metadata: &Value) -> Value {
    let mut template = json!({"metadata": {"name": name, "namespace": "ns"}});
    json_patch::merge(&mut template["metadata"], metadata);
    json!({"uid": "u", "kind": {"group": "infrastructure.cluster.x-k8s.io", "version": "v1beta1", "kind": kind},
        "namespace": "ns", "name": name, "operation": "DELETE", "object": null, "oldObject": template})
}

fn cache(scene: &Scene) -> Cache {
    Cache::new(scene.simulator().facts().clone())
}

async fn denial_by(guard: &TemplateGuard, cache: &Cache, review: &Value) -> Option<String> {
    let text = review.to_string();
    let review: AdmissionRequest<'_> = serde_json::from_str(&text).unwrap();
    guard.denial(&review, cache, Instant::now() + Duration::from_secs(9)).await
}

/// Why template `smith` cannot be deleted, without an API server.
async fn denial(scene: &Scene, metadata: Value) -> Option<String> {
    let review = review_of("ForgeMachineTemplate", "smith", &metadata);
    denial_by(&TemplateGuard::new(None), &cache(scene), &review).await
}

#[tokio::test(start_paused = true)]
async fn templates_of_classes_with_clusters_stay() {
    // DEC-110
    assert_eq!(denial(&Scene::new(), json!({})).await.as_deref(), Some(DENIED));
    for (kind, name, want) in [
        ("ForgeClusterTemplate", "ground", true),
        ("ForgeMachineTemplate", "brain", true),
        ("ForgeMachinePoolTemplate", "crew", true),
        ("ForgeMachineTemplate", "other", false),
        ("OtherMachineTemplate", "smith", false),
    ] {
        let review = review_of(kind, name, &json!({}));
        let denied = denial_by(&TemplateGuard::new(None), &cache(&Scene::new()), &review).await;
        assert_eq!(denied.is_some(), want, "{kind} {name}: {denied:?}");
    }
    let mut of_collection = review_of("ForgeMachineTemplate", "smith", &json!({}));
    of_collection.as_object_mut().unwrap().remove("name");
    let denied = denial_by(&TemplateGuard::new(None), &cache(&Scene::new()), &of_collection).await;
    assert_eq!(denied.as_deref(), Some(DENIED));
    let mut elsewhere = review_of("ForgeMachineTemplate", "smith", &json!({"namespace": "other"}));
    elsewhere["namespace"] = json!("other");
    assert_eq!(denial_by(&TemplateGuard::new(None), &cache(&Scene::new()), &elsewhere).await, None);
}

#[tokio::test(start_paused = true)]
async fn clones_moved_templates_and_templates_with_the_annotation_can_be_deleted() {
    // DEC-110
    for exempt in [
        json!({"labels": {"topology.cluster.x-k8s.io/owned": ""}}),
        json!({"annotations": {"cluster.x-k8s.io/cloned-from-name": "smith"}}),
        json!({"annotations": {"cluster.x-k8s.io/cloned-from-groupkind": "ForgeMachineTemplate.infrastructure.cluster.x-k8s.io"}}),
        json!({"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}),
        json!({"annotations": {"unsafe.topologist.dev/delete-template-in-use": ""}}),
        json!({"deletionTimestamp": TIME}),
    ] {
        assert_eq!(denial(&Scene::new(), exempt.clone()).await, None, "{exempt}");
    }
    for other in [json!({"labels": {"a": ""}, "annotations": {"b": ""}}), json!({"finalizers": ["c"]})] {
        assert_eq!(denial(&Scene::new(), other.clone()).await.as_deref(), Some(DENIED), "{other}");
    }
}

#[tokio::test(start_paused = true)]
async fn templates_go_with_their_class_and_with_its_clusters() {
    // DEC-110
    let scene = Scene::new();
    let deleted = |kind: &str| scene.clone().at(kind, "/metadata/deletionTimestamp", json!(TIME));
    for (case, scene) in [
        ("the class is being deleted", deleted("ClusterClass")),
        ("all its Clusters are being deleted", deleted("Cluster")),
        ("it has no Clusters", scene.clone().without("Cluster")),
        ("there is no class", scene.clone().without("ClusterClass")),
        ("its Cluster has left it", scene.clone().at("Cluster", "/spec/topology/classRef/name", json!("other"))),
    ] {
        assert_eq!(denial(&scene, json!({})).await, None, "{case}");
    }
    let mut other = scene.document("Cluster").clone();
    other["metadata"]["name"] = json!("other");
    assert_eq!(denial(&deleted("Cluster").with(other), json!({})).await.as_deref(), Some(DENIED), "one Cluster stays");
}

#[tokio::test(start_paused = true)]
async fn a_denial_waits_for_the_watches() {
    // DEC-110: `kubectl delete -f` deletes the Cluster some milliseconds before its templates.
    let (scene, guard) = (Scene::new(), TemplateGuard::new(None));
    let cache = cache(&scene);
    let deleted = scene.clone().at("Cluster", "/metadata/deletionTimestamp", json!(TIME));
    let deleted: Cluster = serde_json::from_value(deleted.document("Cluster").clone()).unwrap();
    let review = review_of("ForgeMachineTemplate", "smith", &json!({}));
    let watch = async {
        tokio::time::sleep(PATIENCE / 2).await;
        cache.update(|facts| facts.put_cluster(deleted.metadata.key(), Record::readable(deleted.clone())));
    };
    let began = Instant::now();
    let (denied, ()) = tokio::join!(denial_by(&guard, &cache, &review), watch);
    assert_eq!((denied, began.elapsed()), (None, PATIENCE / 2));

    // Not for ever, and not in any number.
    let cache = self::cache(&scene);
    let began = Instant::now();
    assert!(denial_by(&guard, &cache, &review).await.is_some());
    assert_eq!(began.elapsed(), PATIENCE);
    let all = guard.waiters.try_acquire_many(WAITERS.try_into().unwrap()).unwrap();
    assert!(denial_by(&guard, &cache, &review).await.is_some());
    assert_eq!(began.elapsed(), PATIENCE);
    drop(all);
}

#[tokio::test(start_paused = true)]
async fn everything_can_be_deleted_in_a_namespace_that_is_being_deleted() {
    // DEC-110
    let namespace = |metadata: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    let review = review_of("ForgeMachineTemplate", "smith", &json!({}));
    for (answer, want) in [
        (ScriptedAnswer::ok(namespace(json!({"name": "ns", "deletionTimestamp": TIME}))), None),
        (ScriptedAnswer::error(404, "NotFound"), None),
        (ScriptedAnswer::ok(namespace(json!({"name": "ns"}))), Some(DENIED)),
        (ScriptedAnswer::error(403, "Forbidden"), Some(DENIED)),
    ] {
        let script = Script::default();
        script.get("/api/v1/namespaces/ns", &[], answer);
        let guard = TemplateGuard::new(Some(script.client()));
        assert_eq!(denial_by(&guard, &cache(&Scene::new()), &review).await.as_deref(), want);
        assert_eq!(script.left(), 0);
    }
    // A template that is not in use takes no request: the script expects none.
    let guard = TemplateGuard::new(Some(Script::default().client()));
    assert_eq!(denial_by(&guard, &cache(&Scene::new().without("Cluster")), &review).await, None);
}

#[tokio::test(start_paused = true)]
async fn templates_outside_the_scope_are_left_alone() {
    // DEC-37, DEC-110
    let review = review_of("ForgeMachineTemplate", "smith", &json!({}));
    for (namespace, want) in [("ns", Some(DENIED)), ("other", None)] {
        let facts = Scene::new().simulator().facts().clone().within(Scope::new(&[namespace.to_owned()], None).unwrap());
        let denied = denial_by(&TemplateGuard::new(None), &Cache::new(facts), &review).await;
        assert_eq!(denied.as_deref(), want, "{namespace}");
    }
}
