use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::*;
use crate::topology::testing::Scene;
use crate::topology::{Failure, Interrupted};
use model::wire::{Decode, WireVersion};
use schema::budget::{MemoryPool, SharedLease, Stop};

fn worker_sets(count: usize) -> Value {
    (0..count).map(|number| json!({"name": format!("set-{number}"), "class": "smith"})).collect()
}

fn scene(sets: usize) -> Scene {
    Scene::new().at("Cluster", "/spec/topology/workers/machineDeployments", worker_sets(sets))
}

/// A text of this many bytes in the bootstrap template of the worker sets.
fn with_text(scene: Scene, bytes: usize) -> Scene {
    scene.at("KubeadmConfigTemplate smith", "/spec/template/spec/text", json!("x".repeat(bytes)))
}

fn size(scene: &Scene) -> TopologySize {
    Blueprint::read(&scene.cluster(), &scene.world()).unwrap().size()
}

#[test]
fn each_worker_set_counts_with_its_templates() {
    // DEC-58
    let [one, three] = [1, 3].map(|sets| size(&with_text(scene(sets), 10_000)));
    assert_eq!(three.objects - one.objects, 6, "a set and its two templates");
    let of_each = (three.weight.text - one.weight.text) / 2;
    assert!((11_000..13_000).contains(&of_each), "{of_each}");
    let [small, large] = [100, 100_100].map(|bytes| size(&with_text(scene(2), bytes)));
    assert_eq!(large.weight.text - small.weight.text, 200_000);
    assert_eq!(large.memory() - small.memory(), 200_000 * COPIES);
}

#[test]
fn what_each_worker_set_gets_besides_its_templates_counts() {
    // DEC-58: metadata, variables that patches see, conditions of health checks
    let text = json!("y".repeat(50_000));
    let patches = json!([{"name": "p", "definitions": []}]);
    let conditions: Vec<Value> = vec![json!({"type": "Ready", "status": "False", "timeoutSeconds": 1}); 500];
    let cases = [
        (
            "labels of the class",
            "ClusterClass",
            "/spec/workers/machineDeployments/0/metadata",
            json!({"labels": {"a": text}}),
            2,
        ),
        ("annotations of the Cluster", "Cluster", "/metadata/annotations", json!({"a": text}), 1),
        ("variables", "Cluster", "/spec/topology/variables", json!([{"name": "v", "value": text}]), 1),
        (
            "health checks",
            "ClusterClass",
            "/spec/workers/machineDeployments/0/healthCheck",
            json!({"checks": {"unhealthyNodeConditions": conditions}}),
            0,
        ),
    ];
    for (what, object, path, value, copies) in cases {
        let sizes = [1, 101].map(|sets| {
            let scene =
                scene(sets).at("ClusterClass", "/spec/patches", patches.clone()).at(object, path, value.clone());
            let class =
                ClusterClass::decode(WireVersion::V1Beta2, &scene.document("ClusterClass").to_string()).unwrap();
            let cluster = scene.cluster();
            ClassSize::from_edited(&class, |_| Weight::default()).topology(&cluster)
        });
        let of_each = (sizes[1].weight.text - sizes[0].weight.text) / 100;
        let least = if copies == 0 { 30_000 } else { 50_000 * copies };
        assert!((least..least + 30_000).contains(&of_each), "{what}: {of_each}");
    }
}

#[test]
fn nothing_is_computed_of_a_topology_that_is_too_large() {
    // DEC-58
    let scene = with_text(scene(20), 60_000);
    let limit = SizeLimit::for_text(1 << 20);
    let message = |limit| {
        let mut fold = scene.simulator_within(limit);
        match fold.roll_out(&scene.cluster().metadata.key()).failure {
            Some(failure @ Failure::TooLarge(_)) => failure.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        message(limit),
        "the 66 objects of the topology and their variables come to 2 MiB, more than the limit of 1 MiB; use fewer \
         worker sets, or smaller templates and variables, or raise the limit (--computation-limit), see \
         spec.topology.workers"
    );
    let text = message(SizeLimit::NONE.with_memory(4 << 20));
    assert!(text.contains(" MiB of memory to compute, more than the limit of 4 MiB; use fewer"), "{text}");
    assert!(text.ends_with("or raise the memory limit of topologist, see spec.topology.workers"), "{text}");
    let fold = scene.simulator_within(SizeLimit::for_text(2 << 20));
    assert!(fold.compute(&scene.cluster().metadata.key()).is_ok());
}

#[test]
fn patches_may_not_enlarge_objects_beyond_the_limit() {
    // DEC-58: each set gets 100 KB, which its template does not have.
    let value = json!("z".repeat(100_000));
    let patch = json!([{"name": "large", "definitions": [{
        "selector": {"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfigTemplate",
            "matchResources": {"machineDeploymentClass": {"names": ["smith"]}}},
        "jsonPatches": [{"op": "add", "path": "/spec/template/spec/large", "value": value}],
    }]}]);
    let scene = scene(20).at("ClusterClass", "/spec/patches", patch);
    let compute = |limit| scene.simulator_within(SizeLimit::for_text(limit)).compute(&scene.cluster().metadata.key());
    assert!(compute(3 << 20).is_ok());
    let failure = compute(1 << 20).unwrap_err().to_string();
    assert!(failure.starts_with("the objects of the topology, enlarged by patches, come to 2 MiB"), "{failure}");
    // A value that takes the place of another adds nothing.
    let replaced = json!([
        {"op": "add", "path": "/spec/template/spec/large", "value": value},
        {"op": "replace", "path": "/spec/template/spec/large", "value": "small"},
    ]);
    let scene = scene.at("ClusterClass", "/spec/patches/0/definitions/0/jsonPatches", replaced);
    let fold = scene.simulator_within(SizeLimit::for_text(1 << 20));
    assert!(fold.compute(&scene.cluster().metadata.key()).is_ok());
}

#[test]
fn a_computation_ends_when_it_has_to_stop_or_its_memory_is_used_by_others() {
    // DEC-58
    let large = json!([{"name": "large", "definitions": [{
        "selector": {"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfigTemplate",
            "matchResources": {"machineDeploymentClass": {"names": ["smith"]}}},
        "jsonPatches": [{"op": "add", "path": "/spec/template/spec/large", "value": "z".repeat(10_000)}],
    }]}]);
    let scene = scene(20).at("ClusterClass", "/spec/patches", large);
    let key = scene.cluster().metadata.key();
    for last in [0, 1, 5, 20] {
        let looks = AtomicUsize::new(0);
        let stop = Stop::when(move || looks.fetch_add(1, Ordering::Relaxed) == last);
        let failure = scene.simulator_within(SizeLimit::NONE).until(stop).compute(&key).unwrap_err();
        assert_eq!(failure, Failure::Interrupted(Interrupted::Stopped), "{last}");
    }
    let compute = |bytes| {
        let lease = Arc::new(MemoryPool::new(bytes)).request(0).try_take().unwrap();
        scene.simulator_within(SizeLimit::NONE).leasing(SharedLease::new(lease)).compute(&key)
    };
    assert_eq!(compute(100_000).unwrap_err(), Failure::Interrupted(Interrupted::NoMemory));
    assert!(compute(10 << 20).is_ok());
}

#[test]
fn a_rollout_may_not_write_objects_again_and_again() {
    // DEC-58: every plan of a chained upgrade writes the sets.
    let scene = scene(3);
    let limit = SizeLimit::for_text(1_000);
    assert!(limit.check_written(Weight { text: 4_000, memory: 0 }).is_ok());
    let text = limit.check_written(Weight { text: 4_001, memory: 0 }).unwrap_err().to_string();
    assert!(text.starts_with("the objects that the rollout writes come to 4 KiB"), "{text}");
    let mut fold = scene
        .simulator_within(SizeLimit::NONE)
        .leasing(SharedLease::new(Arc::new(MemoryPool::new(1)).request(0).try_take().unwrap()));
    assert_eq!(
        fold.roll_out(&scene.cluster().metadata.key()).failure,
        None,
        "the memory of the first plan was taken before"
    );
}
