//! Answers to the Needs of reviews.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::cache::Cache;
use super::impact_facts::{ImpactFacts, ImpactWatches};
use super::live::LiveReader;
use crate::telemetry::metrics::Metrics;
use model::hub::ObjectKey;
use model::world::{Answer, Ask, Class, Found, Need, World, is_settled};

/// Maximum time for which a review waits for an absent class, which may be created at the same time (CL-V-050, DEC-2).
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of waiting reviews; others get the current answer.
const WAITERS: usize = 64;

/// Maximum number of needs of one question that are gathered concurrently.
const AT_A_TIME: usize = 16;

/// Gathers facts from the cache, waiting for those that may still arrive, and reads from the API server what is not
/// watched.
#[derive(Debug)]
pub struct Gatherer {
    cache: Arc<Cache>,
    waiters: Semaphore,
    live: Option<LiveReader>,
    impact_facts: ImpactFacts,
}

impl Gatherer {
    /// A gatherer of the facts of the cache only.
    pub fn new(cache: Arc<Cache>) -> Self {
        let impact_facts = ImpactFacts::Complete(cache.clone());
        Gatherer { cache, waiters: Semaphore::new(WAITERS), live: None, impact_facts }
    }

    /// A gatherer that reads from the API server what the cache does not hold.
    pub fn with_api_server(cache: Arc<Cache>, client: kube::Client, metrics: Arc<Metrics>) -> Self {
        let (live, impact_facts) = (Some(LiveReader::new(client, metrics)), ImpactFacts::Unwatched);
        Gatherer { live, impact_facts, ..Gatherer::new(cache) }
    }

    /// The same, with the watches for impacts.
    #[must_use]
    pub fn watching(self, watched: Arc<ImpactWatches>) -> Self {
        Gatherer { impact_facts: ImpactFacts::Watched(watched), ..self }
    }

    /// The same; objects of the API server keep the record of their field managers (DEC-43).
    #[must_use]
    pub fn with_owners(self) -> Self {
        Gatherer { live: self.live.map(LiveReader::with_owners), ..self }
    }

    /// A world with the current facts. Without an API server, these facts are complete.
    pub fn world(&self) -> World {
        match self.live {
            Some(_) => World::new(self.cache.facts()),
            None => World::closed(self.cache.facts()),
        }
    }

    /// The answers to needs, gathered concurrently, at `deadline` at the latest.
    pub async fn gather_all(
        &self,
        needs: impl IntoIterator<Item = Need, IntoIter: Send>,
        deadline: Instant,
    ) -> Vec<(Need, Answer)> {
        side_by_side(needs, |need| async move { (self.gather(&need, deadline).await, need) }).await
    }

    /// The facts of impacts, for which no request is sent (DEC-57).
    pub fn impact_facts(&self) -> ImpactFacts {
        self.impact_facts.clone()
    }

    /// The workload clusters from which Nodes are read.
    #[cfg(test)]
    pub(super) fn workloads(&self) -> Option<Arc<super::workload::Workloads>> {
        self.live.as_ref().map(LiveReader::workloads)
    }

    /// Closes connections to workload clusters whose Clusters are deleted; never ends.
    pub fn follow_clusters(&self) -> impl Future<Output = ()> + Send + use<> {
        let (cache, workloads) = (self.cache.clone(), self.live.as_ref().map(LiveReader::workloads));
        async move {
            let Some(workloads) = workloads else { return std::future::pending().await };
            let mut follower = cache.follow();
            loop {
                let changed = follower.next().await;
                let facts = cache.facts();
                // What is not listed or cannot be read is there.
                let is_gone = |key: &ObjectKey| facts.cluster(key) == Found::Absent;
                if changed.clusters.iter().any(is_gone) {
                    workloads.keep_only(|key| !is_gone(key));
                }
            }
        }
    }

    /// The cache behind the gatherer.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// The answer to a need, at `deadline` at the latest.
    pub async fn gather(&self, need: &Need, deadline: Instant) -> Answer {
        match (need, &self.live) {
            (Need::Class(class), _) => class.answer(self.settled_class(&class.0, deadline).await),
            (need, Some(live)) => live.answer(need, deadline).await,
            (need, None) => self.cache.facts().answer(need),
        }
    }

    async fn settled_class(&self, key: &ObjectKey, deadline: Instant) -> Found<Arc<Class>> {
        let deadline = deadline.min(Instant::now() + PATIENCE);
        let mut changes = self.cache.changes();
        let Ok(_waiting) = self.waiters.try_acquire() else { return self.class(key) };
        loop {
            match self.class(key) {
                Found::Yes(class) if is_settled(&class) => return Found::Yes(class),
                _ if tokio::time::timeout_at(deadline, changes.changed()).await.is_err() => return self.class(key),
                _ => {}
            }
        }
    }

    fn class(&self, key: &ObjectKey) -> Found<Arc<Class>> {
        self.cache.facts().class(key)
    }
}

/// The answers to needs, a few at a time.
pub(super) async fn side_by_side<A, F: Future<Output = (A, Need)>>(
    needs: impl IntoIterator<Item = Need>,
    answer: impl Fn(Need) -> F,
) -> Vec<(Need, A)> {
    let answers = stream::iter(needs.into_iter().map(answer)).buffer_unordered(AT_A_TIME);
    answers.map(|(answer, need)| (need, answer)).collect().await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubernetes::scripted::{Script, ScriptedAnswer};
    use model::hub::ClusterClass;
    use model::world::{DefinitionName, Facts, Record, SettledClass};

    fn class(name: &str) -> ClusterClass {
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": name}})).unwrap()
    }

    fn need(name: &str) -> Need {
        Need::Class(SettledClass(ObjectKey::new("ns", name)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_class_that_arrives_in_time_is_found_at_once() {
        // CL-V-050
        let gatherer = Arc::new(Gatherer::new(Arc::new(Cache::new(Facts::complete([], [])))));
        let started = Instant::now();
        let waiting = tokio::spawn({
            let gatherer = gatherer.clone();
            async move { gatherer.gather(&need("late"), Instant::now() + Duration::from_secs(10)).await }
        });
        tokio::time::sleep(Duration::from_millis(700)).await;
        gatherer
            .cache()
            .update(|facts| facts.put_class(ObjectKey::new("ns", "other"), Record::readable(class("other"))));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!waiting.is_finished(), "another class is not the one that is waited for");
        gatherer.cache().update(|facts| facts.put_class(ObjectKey::new("ns", "late"), Record::readable(class("late"))));
        assert!(matches!(waiting.await.unwrap(), Answer::Class(Found::Yes(_))));
        assert_eq!(started.elapsed(), Duration::from_millis(800));
    }

    #[tokio::test(start_paused = true)]
    async fn needs_are_gathered_in_parallel_and_before_the_deadline() {
        let script = Script::default();
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/";
        for name in ["a.b", "c.d", "e.f"] {
            script.get(&format!("{path}{name}"), &[], ScriptedAnswer::Silence);
        }
        let cache = Arc::new(Cache::new(Facts::complete([], [])));
        let gatherer = Gatherer::with_api_server(cache, script.client(), Arc::default());
        let needs = ["a.b", "c.d", "e.f"].map(|name| Need::Definition(DefinitionName(name.to_owned())));
        let started = Instant::now();
        let answers = gatherer.gather_all(needs, started + Duration::from_millis(1_500)).await;
        assert_eq!((answers.len(), started.elapsed()), (3, Duration::from_millis(1_500)));
        let late = Answer::Definition(Found::Unreadable("the API server did not answer in time".to_owned()));
        assert!(answers.iter().all(|(_, answer)| *answer == late), "{answers:?}");
        assert!(!gatherer.world().is_closed());
    }

    #[tokio::test]
    async fn without_an_api_server_the_cache_is_the_world() {
        // DEC-18
        assert!(Gatherer::new(Arc::new(Cache::new(Facts::complete([], [])))).world().is_closed());
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends_after_two_seconds_or_before_the_callers() {
        // CL-V-050
        let gatherer = Gatherer::new(Arc::new(Cache::new(Facts::complete([], []))));
        for (deadline, want) in [(10_000, 2_000), (300, 300), (0, 0)] {
            let started = Instant::now();
            let deadline = started + Duration::from_millis(deadline);
            assert_eq!(gatherer.gather(&need("absent"), deadline).await, Answer::Class(Found::Absent));
            assert_eq!(started.elapsed(), Duration::from_millis(want));
        }
    }
}
