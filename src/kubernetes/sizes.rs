//! The watch of MachineDeployments, of which only the number of replicas is kept: an autoscaler decides it where a topology does not
//! (DEC-53).

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde::Deserialize;

use super::address::Resource;
use super::cache::Cache;
use super::follow::{self, Observation, WatchedKind};
use super::list_watch::Selection;
use super::written::Written;
use crate::hub::{GROUP, ObjectKey, label};
use crate::json::StringMap;
use crate::telemetry::metrics::Metrics;
use crate::wire::Version;
use crate::world::WorkerSet;

const KIND: &str = "MachineDeployment";
/// How long until an API server that does not serve the kind is asked again.
const PAUSE: Duration = Duration::from_mins(1);

/// Keeps the numbers of machines of worker sets current, for ever. Nothing waits for the first list: a number that is not known yet
/// is the least one.
pub async fn keep_current(client: kube::Client, cache: Arc<Cache>, metrics: Arc<Metrics>) {
    loop {
        follow(client.clone(), &cache, metrics.clone()).await;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Applies what the watch shows to the cache, until nothing serves the kind.
async fn follow(client: kube::Client, cache: &Cache, metrics: Arc<Metrics>) {
    let resource = Resource::known(GROUP, Version::V1Beta2.name(), KIND);
    let api = resource.in_scope::<Written>(client, cache.facts().scope());
    let selection = Selection { labels: Some(label::OWNED.to_owned()), fields: None };
    let own = WatchedKind::own(KIND, &resource.as_api().api_version);
    let kind = WatchedKind { ends_if_unserved: true, ..own };
    let mut seen = follow::follow(api, selection, kind, metrics);
    while let Some(seen) = seen.next().await {
        take(cache, seen);
    }
}

fn take(cache: &Cache, seen: Observation<Written>) {
    match seen {
        Observation::There { object, .. } => put(cache, object.key(), size(&object)),
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

/// Most events change other fields, and the facts stay as they are.
fn put(cache: &Cache, deployment: ObjectKey, size: Option<(WorkerSet, i64)>) {
    let facts = cache.facts();
    let known = facts.sized_set(&deployment).and_then(|set| Some((set.clone(), facts.worker_size(set)?)));
    match size {
        size if size == known => {}
        Some((set, replicas)) => cache.update(|facts| facts.put_worker_size(deployment, set, replicas)),
        None => cache.update(|facts| facts.remove_worker_size(&deployment)),
    }
}

/// The worker set that a MachineDeployment is, and its number of replicas; `None` for one that belongs to no topology.
fn size(deployment: &Written) -> Option<(WorkerSet, i64)> {
    #[derive(Deserialize)]
    struct Deployment {
        metadata: Metadata,
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default)]
        labels: StringMap,
    }
    #[derive(Deserialize)]
    struct Spec {
        replicas: i64,
    }

    let Deployment { metadata: Metadata { labels }, spec } = serde_json::from_str(deployment.text()).ok()?;
    let cluster = ObjectKey::new(&deployment.key().namespace, labels.get(label::CLUSTER_NAME)?);
    let name = labels.get(label::DEPLOYMENT_NAME)?.to_owned();
    Some((WorkerSet { cluster, name }, spec.replicas))
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};

    use super::*;
    use crate::kubernetes::follow::Lists;
    use crate::world::Facts;

    fn deployment(name: &str, replicas: Value) -> Written {
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
        let (cache, mut lists) = (Cache::new(Facts::default()), Lists::default());
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
}
