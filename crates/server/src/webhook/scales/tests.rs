use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::kubernetes::cache::Cache;
use crate::kubernetes::gather::Gatherer;
use crate::kubernetes::scripted::{Script, ScriptedAnswer};
use crate::telemetry::metrics::Metrics;
use crate::webhook::limits::ReviewLimits;
use crate::webhook::routes::router;
use crate::webhook::testing::post_review;
use engine::admission::AdmissionSettings;
use engine::topology::testing::Scene;
use model::world::{WorkerSet, WorkerState};

const POOL: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machinepools/pool";

/// The replicas that the topology sets for its set and its pool.
fn scene(replicas: &Value) -> Scene {
    let workers = |name: &str, class: &str| json!([{"name": name, "class": class, "replicas": replicas}]);
    Scene::new().at("Cluster", "/spec/topology/workers/machineDeployments", workers("md", "smith")).at(
        "Cluster",
        "/spec/topology/workers/machinePools",
        workers("mp", "crew"),
    )
}

fn pool_labels(labels: Value) -> ScriptedAnswer {
    ScriptedAnswer::ok(json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": "pool", "namespace": "ns", "labels": labels}}))
}

fn of_cluster(scene: &Scene) -> Value {
    let cluster = scene.simulator().facts().cluster_keys().next().unwrap().name.clone();
    json!({"cluster.x-k8s.io/cluster-name": cluster, "topology.cluster.x-k8s.io/owned": "",
        "topology.cluster.x-k8s.io/pool-name": "mp"})
}

/// The response to a scale of a resource to these replicas.
async fn answer(scene: &Scene, script: Script, resource: &str, replicas: Value) -> Value {
    let mut facts = scene.simulator().facts().clone();
    let cluster = facts.cluster_keys().next().unwrap().clone();
    let state = WorkerState { replicas: 1, outdated: None, version: "".into() };
    facts.put_worker_state(ObjectKey::new("ns", "deployment"), WorkerSet { cluster, name: "md".to_owned() }, state);
    let gatherer = Gatherer::new(Arc::new(Cache::new(facts)));
    let settings = AdmissionSettings::default();
    let handler = ReviewHandler::new(gatherer, settings, ReviewLimits::default(), Arc::new(Metrics::default()));
    let handler = Arc::new(handler.with_pools(script.client()));
    let name = if resource == "machinepools" { "pool" } else { "deployment" };
    let request = json!({
        "uid": "u", "operation": "UPDATE", "namespace": "ns", "name": name, "subResource": "scale",
        "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "resource": {"group": "cluster.x-k8s.io", "version": "v1beta2", "resource": resource},
        "object": {"metadata": {"name": name, "namespace": "ns"}, "spec": replicas},
    });
    let response = post_review(router(handler), PATH, &request).await;
    assert_eq!(script.left(), 0);
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("u"), &json!(true)));
    response["warnings"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_scale_that_the_topology_undoes_is_warned_of() {
    // DEC-113
    let set = scene(&json!(3));
    let cluster = set.simulator().facts().cluster_keys().next().unwrap().clone();
    let warned = |object: &str, field: &str| {
        json!([format!(
            "the replicas of {object} will be 3 again, as the topology of Cluster {cluster} sets them: change \
             spec.topology.workers.{field}.replicas of the Cluster instead"
        )])
    };
    let of_deployment = warned("MachineDeployment ns/deployment", "machineDeployments[md]");
    let of_pool = warned("MachinePool ns/pool", "machinePools[mp]");
    for replicas in [json!({"replicas": 5}), json!({})] {
        assert_eq!(answer(&set, Script::default(), "machinedeployments", replicas.clone()).await, of_deployment);
        let script = Script::default();
        script.get(POOL, &[], pool_labels(of_cluster(&set)));
        assert_eq!(answer(&set, script, "machinepools", replicas).await, of_pool);
    }
    let paused = set.clone().at("Cluster", "/spec/paused", json!(true));
    let warned = answer(&paused, Script::default(), "machinedeployments", json!({"replicas": 5})).await;
    assert!(
        warned[0].as_str().unwrap().contains("will be 3 again once the Cluster is no longer paused, as"),
        "{warned}"
    );
    let deleted = set.clone().at("Cluster", "/metadata/deletionTimestamp", json!("2030-01-01T00:00:00Z"));
    assert_eq!(answer(&deleted, Script::default(), "machinedeployments", json!({"replicas": 5})).await, Value::Null);
    // The number that the topology sets is kept.
    assert_eq!(answer(&set, Script::default(), "machinedeployments", json!({"replicas": 3})).await, Value::Null);
    assert_eq!(answer(&set, Script::default(), "machinesets", json!({"replicas": 5})).await, Value::Null);
}

#[tokio::test(start_paused = true)]
async fn without_replicas_in_the_topology_a_scale_stays() {
    // DEC-113
    let free = scene(&Value::Null);
    assert_eq!(answer(&free, Script::default(), "machinedeployments", json!({"replicas": 5})).await, Value::Null);
    let script = Script::default();
    script.get(POOL, &[], pool_labels(of_cluster(&free)));
    assert_eq!(answer(&free, script, "machinepools", json!({"replicas": 5})).await, Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_pool_without_topology_or_without_answer_has_no_warning() {
    // DEC-113
    let set = scene(&json!(3));
    for response in [
        pool_labels(json!({"cluster.x-k8s.io/cluster-name": "one"})),
        ScriptedAnswer::error(404, "NotFound"),
        ScriptedAnswer::error(403, "Forbidden"),
        ScriptedAnswer::Silence,
    ] {
        let script = Script::default();
        script.get(POOL, &[], response);
        assert_eq!(answer(&set, script, "machinepools", json!({"replicas": 5})).await, Value::Null);
    }
}
