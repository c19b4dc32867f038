//! The watch of MachineDeployments. It stores the number of replicas, which an autoscaler sets if a topology does not
//! (DEC-53), and how many of them are outdated (DEC-59).

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;

use super::address::Resource;
use super::cache::Cache;
use super::list_watch::WatchSelection;
use super::observations::{self, Observation, WatchedKind};
use super::raw_object::RawObject;
use crate::telemetry::metrics::Metrics;
use engine::impact::worker_state;
use model::hub::{GROUP, ObjectKey, label};
use model::wire::WireVersion;
use model::world::{WorkerSet, WorkerState};

const KIND: &str = "MachineDeployment";
/// Delay before the watch is retried on an API server that does not serve the kind.
const PAUSE: Duration = Duration::from_mins(1);

/// Keeps the numbers of machines of worker sets current; never ends. Nothing waits for the first list: until then, the
/// minimum is assumed.
pub async fn keep_current(client: kube::Client, cache: Arc<Cache>, metrics: Arc<Metrics>) {
    loop {
        follow(client.clone(), &cache, metrics.clone()).await;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Applies the observations of the watch to the cache, until the kind is not served.
async fn follow(client: kube::Client, cache: &Cache, metrics: Arc<Metrics>) {
    let resource = Resource::known(GROUP, WireVersion::V1Beta2.name(), KIND);
    let api = resource.in_scope::<RawObject>(client, cache.facts().scope());
    let selection = WatchSelection::by_labels(label::OWNED);
    let own = WatchedKind::own(KIND, &resource.as_api().api_version);
    let kind = WatchedKind { ends_if_unserved: true, ..own };
    let mut seen = observations::follow(api, selection, kind, metrics);
    while let Some(seen) = seen.next().await {
        take(cache, seen);
    }
}

fn take(cache: &Cache, seen: Observation<RawObject>) {
    match seen {
        Observation::There { object, .. } => put(cache, object.key(), state(&object)),
        Observation::Gone(object) => put(cache, object.key(), None),
        Observation::Listed { keys, .. } => {
            let facts = cache.facts();
            let gone: Vec<_> = facts.sized_deployments().filter(|key| !keys.contains(key)).cloned().collect();
            for key in gone {
                put(cache, key, None);
            }
        }
        Observation::Alive | Observation::Failed(_) => {}
    }
}

/// Updates the cache only if the state differs: most events change other fields.
fn put(cache: &Cache, deployment: ObjectKey, state: Option<(WorkerSet, WorkerState)>) {
    let facts = cache.facts();
    let known = facts.sized_set(&deployment).and_then(|set| Some((set.clone(), facts.worker_state(set)?.clone())));
    match state {
        state if state == known => {}
        Some((set, state)) => cache.update(|facts| facts.put_worker_state(deployment, set, state)),
        None => cache.update(|facts| facts.remove_worker_state(&deployment)),
    }
}

/// The worker set of a MachineDeployment, and its state; `None` without a topology.
fn state(deployment: &RawObject) -> Option<(WorkerSet, WorkerState)> {
    worker_state(&deployment.key().namespace, deployment.text())
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};

    use super::*;
    use crate::kubernetes::observations::ListProgress;
    use model::world::Facts;

    fn deployment(name: &str, replicas: Value) -> RawObject {
        let labels = json!({
            "cluster.x-k8s.io/cluster-name": "blue",
            "topology.cluster.x-k8s.io/deployment-name": name,
            "topology.cluster.x-k8s.io/owned": "",
        });
        let metadata = json!({"namespace": "ns", "name": format!("blue-{name}-x"), "labels": labels});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"replicas": replicas}})).unwrap()
    }

    #[test]
    fn replicas_of_worker_sets_follow_their_deployments() {
        // DEC-53
        let (cache, mut lists) = (Cache::new(Facts::default()), ListProgress::default());
        let mut seen = |event| take(&cache, lists.seen(event));
        let sizes = || {
            let of = |name: &str| WorkerSet { cluster: ObjectKey::new("ns", "blue"), name: name.to_owned() };
            ["a", "b", "c"].map(|name| cache.facts().worker_size(&of(name)))
        };
        let mut alone = deployment("c", json!(1));
        alone = serde_json::from_str(&alone.text().replace("topology.cluster.x-k8s.io/deployment-name", "n")).unwrap();
        let first = [deployment("a", json!(3)), deployment("b", json!(5)), alone].map(Event::InitApply);
        std::iter::once(Event::Init).chain(first).chain([Event::InitDone]).for_each(&mut seen);
        assert_eq!(sizes(), [Some(3), Some(5), None], "the last one belongs to no topology");
        let mut changes = cache.changes();
        seen(Event::Apply(deployment("a", json!(3))));
        assert!(!changes.has_changed().unwrap(), "readers are not woken for other fields");
        seen(Event::Apply(deployment("a", json!(4))));
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        seen(Event::Apply(deployment("b", Value::Null)));
        assert_eq!(sizes(), [Some(4), None, None]);
        seen(Event::Apply(deployment("b", json!(6))));
        seen(Event::Delete(deployment("a", json!(4))));
        assert_eq!(sizes(), [None, Some(6), None]);
        [Event::Init, Event::InitDone].into_iter().for_each(&mut seen);
        assert_eq!(sizes(), [None; 3], "a list without them");
    }

    #[test]
    fn outdated_machines_are_known_once_the_controller_has_seen_the_last_change() {
        // DEC-59
        let of = |generation: i64, status: Value| {
            let mut written: Value = serde_json::from_str(deployment("a", json!(3)).text()).unwrap();
            written["metadata"]["generation"] = json!(generation);
            written["spec"]["template"] = json!({"spec": {"version": "v1.33.0"}});
            written["status"] = status;
            state(&serde_json::from_value(written).unwrap()).unwrap().1
        };
        let status = json!({"observedGeneration": 4, "replicas": 3, "upToDateReplicas": 1});
        let want = |outdated| WorkerState { replicas: 3, outdated, version: "v1.33.0".into() };
        assert_eq!(of(4, status.clone()), want(Some(2)));
        assert_eq!(of(5, status), want(None));
        assert_eq!(of(4, json!({"observedGeneration": 4})), want(None));
        assert_eq!(of(4, json!({"observedGeneration": 4, "replicas": 1, "upToDateReplicas": 3})), want(Some(0)));
    }
}
