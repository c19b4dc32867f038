//! Topologies that are too large to compute, and computations that wait for memory (DEC-58).

use super::*;
use schema::budget::Lease;

const CLUSTER: &str = "/validate-cluster-x-k8s-io-v1beta2-cluster";

fn limited_to(scene: &Scene, computation_limit: usize) -> Arc<ReviewHandler> {
    let cache = Arc::new(Cache::new(scene.simulator().facts().clone()));
    let settings = AdmissionSettings { computation_limit, ..AdmissionSettings::default() };
    Arc::new(ReviewHandler::new(Gatherer::new(cache), settings, patient(), Arc::new(Metrics::default())))
}

fn with_memory(scene: &Scene, limits: ReviewLimits, memory: &Arc<MemoryPool>) -> Arc<ReviewHandler> {
    let cache = Arc::new(Cache::new(scene.simulator().facts().clone()));
    let handler =
        ReviewHandler::new(Gatherer::new(cache), AdmissionSettings::default(), limits, Arc::new(Metrics::default()));
    Arc::new(handler.with_memory(memory.clone()))
}

fn with_sets(scene: &Scene, count: usize) -> Scene {
    let set = |number: usize| json!({"name": format!("set-{number}"), "class": "smith", "replicas": 1});
    let sets: Value = (0..count).map(set).collect();
    scene.clone().at("Cluster", "/spec/topology/workers/machineDeployments", sets)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_too_large_is_invalid_at_its_workers() {
    let (small, large) = (scene(), with_sets(&scene(), 200));
    let memory = Arc::new(MemoryPool::new(4 << 20));
    for handler in [limited_to(&small, 100_000), with_memory(&small, patient(), &memory)] {
        for old in [&Value::Null, small.document("Cluster")] {
            let answer = review(&handler, CLUSTER, old, large.document("Cluster")).await;
            assert_eq!((&answer["allowed"], &answer["status"]["code"]), (&json!(false), &json!(422)), "{answer}");
            let causes = answer["status"]["details"]["causes"].as_array().unwrap();
            let [cause] = &**causes else { panic!("{answer}") };
            assert_eq!(
                (&cause["field"], &cause["reason"]),
                (&json!("spec.topology.workers"), &json!("FieldValueInvalid"))
            );
            let message = cause["message"].as_str().unwrap();
            assert!(
                message.starts_with("Invalid value: \"200 worker sets\": the 603 objects of the topology"),
                "{message}"
            );
        }
        let more = large.clone().at("Cluster", "/spec/topology/controlPlane/replicas", json!(5));
        let answer = review(&handler, CLUSTER, large.document("Cluster"), more.document("Cluster")).await;
        assert_eq!(answer["allowed"], true, "{answer}");
        let warnings = answer["warnings"].as_array().unwrap();
        let is_reported =
            |warning: &Value| warning.as_str().unwrap().starts_with("spec.topology.workers: the 603 objects");
        assert!(warnings.iter().any(is_reported), "{answer}");
        let answer = review(&handler, CLUSTER, &Value::Null, small.document("Cluster")).await;
        assert_eq!(answer["allowed"], true, "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_a_template_may_not_make_stored_clusters_too_large() {
    let before = with_sets(&scene(), 20);
    let text = json!("x".repeat(50_000));
    let after = before.clone().at("ForgeMachineTemplate smith", "/spec/template/spec/text", text);
    let template = |scene: &Scene| scene.document("ForgeMachineTemplate smith").clone();
    let handler = limited_to(&before, 500_000);
    for old in [Value::Null, template(&before)] {
        let answer = review(&handler, templates::PATH, &old, &template(&after)).await;
        assert_eq!((&answer["allowed"], &answer["status"]["code"]), (&json!(false), &json!(422)), "{answer}");
        let message = answer["status"]["message"].as_str().unwrap();
        assert!(message.contains("would break Cluster ns/blade at spec.topology.workers: the 63 objects"), "{message}");
    }
    let answer = review(&limited_to(&before, 5_000_000), templates::PATH, &template(&before), &template(&after)).await;
    assert_eq!(answer["allowed"], true, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_is_not_known_while_others_use_the_memory() {
    let (before, after) = (scene(), with_other_workers(&scene()));
    let memory = Arc::new(MemoryPool::new(16 << 20));
    let answer = of_class(&with_memory(&before, patient(), &memory), &before, &after).await;
    assert_eq!(answer["warnings"][0], "replaces 4 machines in 1 of 1 Cluster (class ns/forge)");
    assert_eq!(memory.used(), 0);
    let others: Vec<Lease> = std::iter::from_fn(|| memory.request(64 << 10).try_take()).collect();
    let hasty = ReviewLimits { impact: Duration::from_millis(200), ..patient() };
    let answer = of_class(&with_memory(&before, hasty, &memory), &before, &after).await;
    let warning = answer["warnings"][0].as_str().unwrap();
    assert!(
        answer["allowed"] == true && warning.starts_with("the number of replaced machines is not known: "),
        "{warning}"
    );
    // A ceiling waits longer, and counts all machines then.
    let held = ReviewLimits { max_replaced_machines: Some(3), time: Duration::from_secs(2), ..hasty };
    let rolled_out = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "ForgeCluster", "name": "blade-x"});
    let before = before.at("Cluster", "/spec/infrastructureRef", rolled_out);
    let answer = of_class(&with_memory(&before, held, &memory), &before, &after).await;
    assert_eq!((&answer["allowed"], &answer["status"]["code"]), (&json!(false), &json!(422)), "{answer}");
    let message = answer["status"]["message"].as_str().unwrap();
    assert!(message.contains("may replace or remove up to 7 machines"), "{message}");
    drop(others);
    assert_eq!(memory.used(), 0);
}
