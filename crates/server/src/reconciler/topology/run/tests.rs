use serde_json::{Value, json};

use super::*;
use crate::kubernetes::contract::Definitions;
use crate::kubernetes::lease::{Candidacy, Election};
use crate::kubernetes::scripted::Script;
use model::hub::{ClusterClass, Metadata};
use model::world::{Facts, PatchCall, PatchHook};

/// A reconciler whose API server is asked nothing.
fn reconciler() -> TopologyReconciler {
    let (client, metrics) = (Script::default().client(), Arc::new(Metrics::default()));
    let candidacy = Candidacy::new("ns", "lease", Duration::from_secs(15));
    let managed = Arc::new(ManagedObjects::new(client.clone(), None, metrics.clone(), |_| {}));
    let (definitions, _) = Definitions::follow(client.clone(), metrics.clone());
    TopologyReconciler {
        leadership: Election::new(client.clone(), candidacy, metrics.clone()).1,
        writer: client.clone(),
        cache: Arc::new(Cache::new(Facts::default())),
        gatherer: TopologyGatherer::new(
            client.clone(),
            client.clone(),
            managed.clone(),
            definitions,
            None,
            metrics.clone(),
        ),
        managed,
        applier: Applier::new(client.clone()),
        events: Recorder::new(client, "test"),
        options: Options::new(true),
        awaits_finalizer: true,
        deletions: Deletions::default(),
        history: RunHistory::default(),
        backoff: Backoff::default(),
        postponed: Postponed::new("test"),
        rotations: Mutex::default(),
        turns: Semaphore::new(1),
        memory: Arc::new(MemoryPool::unlimited()),
        began: Instant::now(),
        metrics,
    }
}

#[tokio::test]
async fn nothing_is_made_for_a_cluster_that_would_be_gone_at_once() {
    // MA-1.8, MA-27.15: it would leave machine deployments behind, which it does not own yet.
    let mut reconciler = reconciler();
    let class = ClusterClass {
        metadata: Metadata { name: "base".into(), namespace: "n".into(), ..Metadata::default() },
        ..ClusterClass::default()
    };
    reconciler.cache = Arc::new(Cache::new(Facts::complete([], [class])));
    let cluster = |finalizers: Value, deleted: Value| {
        let metadata = json!({"namespace": "n", "name": "c", "finalizers": finalizers, "deletionTimestamp": deleted});
        let spec = json!({"topology": {"classRef": {"name": "base"}, "version": "v1.34.0"}});
        Object::try_from(json!({"apiVersion": API_VERSION, "kind": "Cluster", "metadata": metadata, "spec": spec}))
            .unwrap()
    };
    let decoded = |raw: &Object| Cluster::decode(WireVersion::V1Beta2, &raw.as_ref().to_string()).unwrap();
    let cases = [
        (cluster(Value::Null, Value::Null), true),
        (cluster(json!(["other"]), Value::Null), true),
        (cluster(json!(["other", "cluster.cluster.x-k8s.io"]), Value::Null), false),
        (cluster(json!(["other"]), json!("2030-01-01T00:00:00Z")), false),
    ];
    for (raw, want) in &cases {
        assert_eq!(reconciler.is_too_early(raw, &decoded(raw)), *want, "{raw:?}");
    }
    let mut without_class = cases[0].0.clone();
    without_class.set("spec.topology.classRef.name", json!("absent")).unwrap();
    assert!(!reconciler.is_too_early(&without_class, &decoded(&without_class)), "the finalizer cannot come");
    reconciler.awaits_finalizer = false;
    assert!(!cases.iter().any(|(raw, _)| reconciler.is_too_early(raw, &decoded(raw))), "others look after machines");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_concluded_without_the_caches() {
    // DEC-100: the API server would refuse to be written to, since it expects no request.
    let mut reconciler = reconciler();
    let template = |kind: &str| json!({"templateRef": {"apiVersion": "g.io/v1", "kind": kind, "name": "t"}});
    let class = json!({
        "apiVersion": API_VERSION, "kind": "ClusterClass",
        "metadata": {"namespace": "n", "name": "base", "generation": 1},
        "spec": {"infrastructure": template("ITemplate"), "controlPlane": template("ATemplate")},
        "status": {"observedGeneration": 1, "conditions": [{"type": "VariablesReady", "status": "True"}]},
    });
    let class = ClusterClass::decode(WireVersion::V1Beta2, &class.to_string()).unwrap();
    reconciler.cache = Arc::new(Cache::new(Facts::complete([], [class])));
    let raw = Object::try_from(json!({
        "apiVersion": API_VERSION, "kind": "Cluster",
        "metadata": {"namespace": "n", "name": "c", "uid": "u", "resourceVersion": "1"},
        "spec": {"topology": {"classRef": {"name": "base"}, "version": "v1.34.0"}},
    }))
    .unwrap();
    let cluster = Arc::new(Cluster::decode(WireVersion::V1Beta2, &raw.as_ref().to_string()).unwrap());
    let findings = reconciler.roll_out(&cluster, Arc::new(raw)).await;
    assert!(!findings.unlisted.is_empty(), "{:?}", findings.error);
    let outcome = reconciler.conclude(&cluster.metadata.key(), &cluster, findings).await;
    assert!(matches!(&outcome, Err(TopologyRunError::Unlisted(unlisted)) if !unlisted.is_empty()), "{outcome:?}");
}

/// Calls one extension after the other, as each has answered; returns how many there are.
fn chain(world: &World, length: usize) -> Result<usize, Failure> {
    for number in 0..length {
        let (extension, cluster) = (format!("e{number}"), ObjectKey::new("ns", "one"));
        let request = "secret".to_owned();
        let call = PatchCall { hook: PatchHook::GeneratePatches, extension, cluster, request };
        if world.ask(&call) == Found::NotAsked {
            return Err(Failure::NotAsked);
        }
    }
    Ok(length)
}

#[tokio::test]
async fn a_run_ends_when_facts_are_still_missing_after_the_last_round() {
    let reconciler = reconciler();
    let requested = async |length| {
        let gathered = reconciler.gathered(World::new(Arc::default()), move |world| chain(world, length)).await;
        gathered.map(|(found, mut world)| (found, chain(&world, length), world.take_needs().len()))
    };
    assert_eq!(requested(255).await, Ok((255, Ok(255), 0)), "the world comes back with all answers");
    let endless = requested(256).await.unwrap_err().to_string();
    assert_eq!(endless, "facts are still missing after 256 rounds: GeneratePatches of e255 for Cluster ns/one");
    assert_eq!(reconciler.turns.available_permits(), 1);
}
