//! Answers to Needs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::cache::Cache;
use crate::hub::ObjectKey;
use crate::world::{Answer, Class, Found, Need, is_settled};

/// How long a review waits for a class that may be about to arrive (CL-V-050, DEC-2).
const PATIENCE: Duration = Duration::from_secs(2);
/// How many reviews may wait at a time; others get the answer of the moment.
const WAITERS: usize = 64;

/// Gathers facts from the cache, waiting for those that may still arrive.
#[derive(Debug)]
pub struct Gatherer {
    cache: Arc<Cache>,
    waiters: Semaphore,
}

impl Gatherer {
    /// A gatherer with nobody waiting.
    pub fn new(cache: Arc<Cache>) -> Self {
        Gatherer { cache, waiters: Semaphore::new(WAITERS) }
    }

    /// The cache behind the gatherer.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// The answer to a need, at `deadline` at the latest.
    pub async fn gather(&self, need: &Need, deadline: Instant) -> Answer {
        match need {
            Need::Class(key) => Answer::Class(self.settled_class(key, deadline).await),
            other => other.unanswered("it is not among what the webhook reads"),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::hub::ClusterClass;
    use crate::world::{Facts, Record};

    fn class(name: &str) -> ClusterClass {
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": name}})).unwrap()
    }

    fn need(name: &str) -> Need {
        Need::Class(ObjectKey::new("ns", name))
    }

    #[tokio::test(start_paused = true)]
    async fn a_class_that_arrives_in_time_is_found_at_once() {
        // CL-V-050
        let gatherer = Arc::new(Gatherer::new(Arc::new(Cache::new(Facts::of([], [])))));
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
    async fn patience_ends_after_two_seconds_or_before_the_callers() {
        // CL-V-050
        let gatherer = Gatherer::new(Arc::new(Cache::new(Facts::of([], []))));
        for (deadline, want) in [(10_000, 2_000), (300, 300), (0, 0)] {
            let started = Instant::now();
            let deadline = started + Duration::from_millis(deadline);
            assert_eq!(gatherer.gather(&need("absent"), deadline).await, Answer::Class(Found::Absent));
            assert_eq!(started.elapsed(), Duration::from_millis(want));
        }
    }
}
