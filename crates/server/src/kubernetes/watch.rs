//! Watches that fill the cache.
//!
//! Objects are isolated: one that does not decode is logged, counted and kept as unreadable; it never empties the
//! cache.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures::StreamExt;
use serde_json::value::RawValue;
use tracing::{debug, warn};

use super::address::Resource;
use super::cache::Cache;
use super::observations::{Observation, WatchedKind};
use super::raw_object::RawObject;
use super::{WatchSelection, observations};
use crate::telemetry::metrics::{self, Metrics};
use engine::admission::Oversize;
use model::hub::{Cluster, ClusterClass, GROUP, Kind, Metadata, ObjectKey};
use model::wire::{Decode, WireVersion};
use model::world::{CLASSES, CLUSTERS, Class, Facts, Record, Scope};

/// The kinds that are watched, as facts and probes name them.
pub const WATCHED: [&str; 2] = [CLASSES, CLUSTERS];

/// What metrics call a watched kind.
pub fn label(watched: &'static str) -> &'static str {
    match watched {
        CLASSES => Kind::ClusterClass.name(),
        CLUSTERS => Kind::Cluster.name(),
        other => other,
    }
}

/// Keeps the ClusterClasses and Clusters of a cache current; ends only when a watch ends, which it never should.
pub async fn keep_current(client: kube::Client, cache: Arc<Cache>, metrics: Arc<Metrics>) {
    let classes = follow::<ClusterClass>(client.clone(), cache.clone(), metrics.clone());
    let clusters = follow::<Cluster>(client, cache, metrics);
    tokio::select! {
        () = classes => {}
        () = clusters => {}
    }
}

/// A kind whose objects go into the facts.
trait WatchableKind: Decode + Clone + Send + 'static {
    const PLURAL: &'static str;
    /// Up to how many bytes an object is read in less than a millisecond, on the current thread.
    const INLINE: usize;
    /// The object with everything done that a review should find done.
    type Prepared: Send + Sync + 'static;

    fn prepare(self, facts: &Facts) -> Record<Self::Prepared>;
    fn put(facts: &mut Facts, key: ObjectKey, record: Record<Self::Prepared>);
    fn remove(facts: &mut Facts, key: &ObjectKey);
    fn keys(facts: &Facts) -> Vec<ObjectKey>;
    fn count(facts: &Facts) -> usize;
    fn unreadable(facts: &Facts) -> usize;
    /// What an object that does not decode still says of the class that it uses.
    fn class_of(text: &str) -> Option<ObjectKey>;
}

impl WatchableKind for ClusterClass {
    const PLURAL: &'static str = CLASSES;
    /// Compiling can take long, so it is no business of the async threads.
    const INLINE: usize = 0;
    type Prepared = Class;

    fn prepare(self, facts: &Facts) -> Record<Class> {
        facts.compile(self)
    }

    fn put(facts: &mut Facts, key: ObjectKey, record: Record<Class>) {
        facts.put_compiled(key, record);
    }

    fn remove(facts: &mut Facts, key: &ObjectKey) {
        facts.remove_class(key);
    }

    fn keys(facts: &Facts) -> Vec<ObjectKey> {
        facts.class_keys().cloned().collect()
    }

    fn count(facts: &Facts) -> usize {
        facts.class_keys().len()
    }

    fn unreadable(facts: &Facts) -> usize {
        facts.unreadable_classes()
    }

    fn class_of(_: &str) -> Option<ObjectKey> {
        None
    }
}

impl WatchableKind for Cluster {
    const PLURAL: &'static str = CLUSTERS;
    const INLINE: usize = 256 * 1024;
    type Prepared = Cluster;

    fn prepare(self, _: &Facts) -> Record<Cluster> {
        Record::readable(self)
    }

    fn put(facts: &mut Facts, key: ObjectKey, record: Record<Cluster>) {
        facts.put_cluster(key, record);
    }

    fn remove(facts: &mut Facts, key: &ObjectKey) {
        facts.remove_cluster(key);
    }

    fn keys(facts: &Facts) -> Vec<ObjectKey> {
        facts.cluster_keys().cloned().collect()
    }

    fn count(facts: &Facts) -> usize {
        facts.cluster_keys().len()
    }

    fn unreadable(facts: &Facts) -> usize {
        facts.unreadable_clusters()
    }

    fn class_of(text: &str) -> Option<ObjectKey> {
        let at = |pointer: &[&str]| text_at(text, pointer).filter(|text| !text.is_empty());
        let name = at(&["spec", "topology", "classRef", "name"])?;
        let namespace =
            at(&["spec", "topology", "classRef", "namespace"]).or_else(|| at(&["metadata", "namespace"]))?;
        Some(ObjectKey::new(&namespace, &name))
    }
}

/// The text at a place of an object, without reading anything else of it.
fn text_at(object: &str, path: &[&str]) -> Option<String> {
    let Some((name, rest)) = path.split_first() else { return serde_json::from_str(object).ok() };
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(object).ok()?;
    text_at(members.get(*name)?.get(), rest)
}

/// Applies what one watch shows to the cache, for ever.
async fn follow<T: WatchableKind>(client: kube::Client, cache: Arc<Cache>, metrics: Arc<Metrics>) {
    let resource = Resource::known(GROUP, WireVersion::V1Beta2.name(), T::KIND.name());
    let api = resource.in_scope::<RawObject>(client, cache.facts().scope());
    let watched = WatchedKind::own(T::KIND.name(), &resource.as_api().api_version);
    let mut seen = observations::follow(api, WatchSelection::default(), watched, metrics.clone());
    while let Some(seen) = seen.next().await {
        if let Observation::Failed(fault) = &seen {
            cache.note_trouble(T::PLURAL, fault.to_string());
            continue;
        }
        if !matches!(seen, Observation::Alive) {
            apply::<T>(seen, &cache, &metrics).await;
            count::<T>(&cache.facts(), &metrics);
        }
        cache.note_alive(T::PLURAL);
    }
}

fn count<T: WatchableKind>(facts: &Facts, metrics: &Metrics) {
    let kind = metrics::Kind { kind: T::KIND.name() };
    let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    metrics.cache_objects.get_or_create(&kind).set(number(T::count(facts)));
    metrics.cache_unreadable_objects.get_or_create(&kind).set(number(T::unreadable(facts)));
}

/// Puts what a watch has shown into the facts. What a list did not show is gone at its end.
async fn apply<T: WatchableKind>(seen: Observation<RawObject>, cache: &Arc<Cache>, metrics: &Metrics) {
    match seen {
        Observation::There { object, .. } if !is_looked_after(&object, cache.facts().scope()) => {
            cache.update(|facts| T::remove(facts, &object.key()));
        }
        Observation::There { object, in_list } => {
            let key = store::<T>(object, cache, metrics).await;
            if !in_list {
                debug!(kind = T::KIND.name(), object = %key, "Object changed");
            }
        }
        Observation::Gone(object) => {
            let key = object.key();
            debug!(kind = T::KIND.name(), object = %key, "Object deleted");
            cache.update(|facts| T::remove(facts, &key));
        }
        Observation::Listed { keys, .. } => cache.update(|facts| {
            let gone = T::keys(facts).into_iter().filter(|key| !keys.contains(key));
            gone.collect::<Vec<_>>().iter().for_each(|key| T::remove(facts, key));
            facts.listed(T::PLURAL);
        }),
        Observation::Alive | Observation::Failed(_) => {}
    }
}

/// Puts an object into the facts; the next event waits until that is done, so their order stays.
async fn store<T: WatchableKind>(object: RawObject, cache: &Arc<Cache>, metrics: &Metrics) -> ObjectKey {
    let (key, facts) = (object.key(), cache.facts());
    let record = if object.text().len() <= T::INLINE {
        // A list brings many at once, and others want their turn. Threads are not worth their while, nor their memory.
        tokio::task::yield_now().await;
        record::<T>(&object, &facts)
    } else {
        let work = tokio::task::spawn_blocking(move || record::<T>(&object, &facts));
        // Only the end of the process can come in between.
        let Ok(record) = work.await else { return key };
        record
    };
    if let Record::Unreadable { reason, .. } = &record {
        metrics.unreadable_objects.get_or_create(&metrics::Kind { kind: T::KIND.name() }).inc();
        warn!(kind = T::KIND.name(), object = %key, error = &**reason, "Cannot read a stored object");
    }
    cache.update(|facts| T::put(facts, key.clone(), record));
    key
}

fn record<T: WatchableKind>(object: &RawObject, facts: &Facts) -> Record<T::Prepared> {
    // Lists that were read have room to grow, and what is read stays among what reading needed. A copy is kept, which
    // is as large as it has to be.
    let compact = |read: T| T::clone(&read);
    if let Some(oversize) = Oversize::find(object.text()) {
        let reason = format!("its {} {}", oversize.part, oversize.reason()).into();
        return Record::Unreadable { reason, class: T::class_of(object.text()) };
    }
    let prepare = || T::decode(WireVersion::V1Beta2, object.text()).map(compact).map(|object| object.prepare(facts));
    let prepared = AssertUnwindSafe(prepare);
    match catch_unwind(prepared).unwrap_or_else(|_| Err("panicked while decoding".to_owned())) {
        Ok(prepared) => prepared,
        Err(reason) => Record::Unreadable { reason: reason.into(), class: T::class_of(object.text()) },
    }
}

/// Whether an object belongs into the cache (DEC-37); what cannot be read does.
fn is_looked_after(object: &RawObject, scope: &Scope) -> bool {
    #[derive(serde::Deserialize)]
    struct OnlyMetadata {
        metadata: Metadata,
    }
    let metadata = || serde_json::from_str::<OnlyMetadata>(object.text());
    *scope == Scope::default() || metadata().map_or(true, |object| scope.has(&object.metadata))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};

    use super::*;
    use crate::kubernetes::observations::ListProgress;
    use model::world::Found;

    /// What a watch says.
    #[derive(Default)]
    struct Watch(ListProgress);

    impl Watch {
        async fn apply<T: WatchableKind>(&mut self, event: Event<RawObject>, cache: &Arc<Cache>, metrics: &Metrics) {
            super::apply::<T>(self.0.seen(event), cache, metrics).await;
        }
    }

    fn object(name: &str, spec: Value) -> RawObject {
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": name}, "spec": spec})).unwrap()
    }

    #[tokio::test]
    async fn an_object_that_does_not_decode_is_unreadable_and_does_not_affect_others() {
        let (cache, metrics) = (Arc::new(Cache::new(Facts::not_listed(&WATCHED))), Metrics::default());
        let mut list = Watch::default();
        list.apply::<ClusterClass>(Event::Init, &cache, &metrics).await;
        list.apply::<ClusterClass>(Event::InitApply(object("good", json!({}))), &cache, &metrics).await;
        list.apply::<ClusterClass>(Event::InitApply(object("broken", json!({"patches": 5}))), &cache, &metrics).await;
        list.apply::<ClusterClass>(Event::InitDone, &cache, &metrics).await;
        list.apply::<Cluster>(Event::InitDone, &cache, &metrics).await;
        let facts = cache.facts();
        assert!(matches!(facts.class(&ObjectKey::new("ns", "good")), Found::Yes(_)));
        assert!(matches!(facts.class(&ObjectKey::new("ns", "broken")), Found::Unreadable(_)));
        assert_eq!(metrics.unreadable_objects.get_or_create(&metrics::Kind { kind: "ClusterClass" }).get(), 1);
        let user = json!({"paused": "no", "topology": {"classRef": {"name": "good"}}});
        list.apply::<Cluster>(Event::Apply(object("user", user)), &cache, &metrics).await;
        let world = model::world::World::new(cache.facts());
        assert!(
            world
                .clusters_of(&ObjectKey::new("ns", "good"))
                .unwrap_err()
                .to_string()
                .contains("ns/user cannot be read")
        );
    }

    #[tokio::test]
    async fn clusters_are_kept_wherever_they_are_read() {
        let (cache, metrics) = (Arc::new(Cache::new(Facts::not_listed(&WATCHED))), Metrics::default());
        let mut list = Watch::default();
        let user = |name: &str, bytes: usize| {
            let topology = json!({"classRef": {"name": "c"}, "variables": [{"name": "v", "value": "x".repeat(bytes)}]});
            object(name, json!({"topology": topology}))
        };
        let large = user("large", Cluster::INLINE);
        assert!(large.text().len() > Cluster::INLINE);
        for object in [user("small", 1), large, object("broken", json!({"paused": "x".repeat(Cluster::INLINE)}))] {
            list.apply::<Cluster>(Event::InitApply(object), &cache, &metrics).await;
        }
        list.apply::<Cluster>(Event::InitDone, &cache, &metrics).await;
        let world = model::world::World::new(cache.facts());
        let users = world.clusters_of(&ObjectKey::new("ns", "c")).unwrap();
        let sizes = users.iter().map(|user| user.spec.topology.variables[0].value.as_ref().unwrap().get().len() - 2);
        assert_eq!(sizes.collect::<Vec<_>>(), [Cluster::INLINE, 1]);
        assert_eq!(metrics.unreadable_objects.get_or_create(&metrics::Kind { kind: "Cluster" }).get(), 1);
    }

    #[tokio::test]
    async fn objects_of_others_are_not_kept() {
        // DEC-37
        let ours = || Scope::new(&["ns".to_owned()], Some("ours".to_owned())).unwrap();
        let labelled_in = |namespace: &str, name: &str, label: &str| -> RawObject {
            let labels = json!({"cluster.x-k8s.io/watch-filter": label});
            let metadata = json!({"namespace": namespace, "name": name, "labels": labels});
            serde_json::from_value(json!({"metadata": metadata})).unwrap()
        };
        let labelled = |name: &str, label: &str| labelled_in("ns", name, label);
        let (cache, metrics) = (Arc::new(Cache::new(Facts::not_listed(&WATCHED).within(ours()))), Metrics::default());
        let mut list = Watch::default();
        let elsewhere = labelled_in("other", "elsewhere", "ours");
        for object in [labelled("a", "ours"), labelled("b", "theirs"), elsewhere, object("plain", json!({}))] {
            list.apply::<ClusterClass>(Event::InitApply(object), &cache, &metrics).await;
        }
        list.apply::<ClusterClass>(Event::InitDone, &cache, &metrics).await;
        let names = |cache: &Cache| cache.facts().class_keys().map(|key| key.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&cache), ["a"]);
        list.apply::<ClusterClass>(Event::Apply(labelled("b", "ours")), &cache, &metrics).await;
        list.apply::<ClusterClass>(Event::Apply(labelled("a", "theirs")), &cache, &metrics).await;
        assert_eq!(names(&cache), ["b"], "labels change hands");
        let outside = cache.facts().class(&ObjectKey::new("other", "elsewhere"));
        assert!(matches!(outside, Found::Unreadable(reason) if reason.contains("outside the namespaces")));
    }

    #[tokio::test]
    async fn objects_missing_in_a_new_list_are_dropped_at_its_end() {
        let (cache, metrics) = (Arc::new(Cache::new(Facts::not_listed(&[CLASSES]))), Metrics::default());
        let key = |name: &str| ObjectKey::new("ns", name);
        let mut list = Watch::default();
        for name in ["a", "b"] {
            list.apply::<ClusterClass>(Event::InitApply(object(name, json!({}))), &cache, &metrics).await;
        }
        assert!(!cache.facts().gaps().is_empty());
        list.apply::<ClusterClass>(Event::InitDone, &cache, &metrics).await;
        assert!(cache.facts().gaps().is_empty());
        list.apply::<ClusterClass>(Event::Init, &cache, &metrics).await;
        list.apply::<ClusterClass>(Event::InitApply(object("b", json!({}))), &cache, &metrics).await;
        assert!(
            matches!(cache.facts().class(&key("a")), Found::Yes(_)),
            "the old list holds until the new one is complete"
        );
        list.apply::<ClusterClass>(Event::InitDone, &cache, &metrics).await;
        assert_eq!(cache.facts().class(&key("a")), Found::Absent);
        list.apply::<ClusterClass>(Event::Delete(object("b", json!({}))), &cache, &metrics).await;
        assert_eq!(cache.facts().class(&key("b")), Found::Absent);
    }

    #[tokio::test]
    async fn a_class_that_compiles_slowly_does_not_delay_other_objects() {
        let (cache, metrics) = (Arc::new(Cache::new(Facts::not_listed(&[CLASSES]))), Metrics::default());
        let variable = |index: usize| {
            let schema = json!({"type": "string", "pattern": format!("{index}[\\pL\\pN]{{90}}")});
            let definition = json!({"from": "inline", "required": false, "schema": {"openAPIV3Schema": schema}});
            json!({"name": format!("v{index}"), "definitions": [definition]})
        };
        let hostile = |generation: u64, variables: Value| {
            let object = json!({"metadata": {"namespace": "ns", "name": "c", "generation": generation}, "spec": {},
                "status": {"observedGeneration": generation, "variables": variables,
                    "conditions": [{"type": "VariablesReady", "status": "True"}]}});
            Event::Apply(serde_json::from_value(object).unwrap())
        };
        let slow = hostile(1, (0..4).map(variable).collect());
        let mut list = Watch::default();
        let following = async {
            list.apply::<ClusterClass>(slow, &cache, &metrics).await;
            list.apply::<ClusterClass>(hostile(2, json!([])), &cache, &metrics).await;
        };
        let mut following = pin!(following);
        let (started, mut longest) = (std::time::Instant::now(), std::time::Duration::ZERO);
        loop {
            // This test has one thread: while it compiles, nothing else moves.
            let polled = std::time::Instant::now();
            tokio::select! {
                biased;
                () = &mut following => break,
                () = tokio::task::yield_now() => longest = longest.max(polled.elapsed()),
            }
        }
        assert!(longest < started.elapsed() / 2, "{longest:?} of {:?}", started.elapsed());
        let Found::Yes(class) = cache.facts().class(&ObjectKey::new("ns", "c")) else { panic!("the class is there") };
        assert_eq!(class.variables().map(|variables| variables.names().count()), Some(0), "the later event counts");
    }

    #[test]
    fn a_cluster_that_holds_too_much_to_be_read_still_uses_its_class() {
        // DEC-44
        let many = vec![json!({}); 30_000];
        let topology = |class_ref: Value| json!({"topology": {"classRef": class_ref, "variables": many}});
        for (class_ref, want) in [
            (json!({"name": "large"}), Some(ObjectKey::new("ns", "large"))),
            (json!({"name": "large", "namespace": "other"}), Some(ObjectKey::new("other", "large"))),
            (json!({}), None),
        ] {
            let record = record::<Cluster>(&object("one", topology(class_ref)), &Facts::default());
            let Record::Unreadable { reason, class } = record else { panic!("it holds too much") };
            assert!(reason.starts_with("its spec has 3000"), "{reason}");
            assert_eq!(class, want);
        }
    }
}
