//! Which API version a referenced kind has: the labels of its CustomResourceDefinition say so (UPG-021).
//!
//! Definitions are asked for one by one and only when an object is converted to v1beta1, so nothing has to be listed
//! before the first conversion is answered.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZero;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use lru::LruCache;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::address::{self, ObjectApi};
use super::describe;
use model::hub::contract::{definition_name, newest_version};
use model::wire::conversion::{KindKey, KindVersions, UnknownKindVersion};

/// How long an answer counts. A new version of a provider serves the former ones as well.
const FRESH: Duration = Duration::from_mins(1);
/// How long it counts that there is no answer.
const ABSENT: Duration = Duration::from_secs(1);
/// How long the API server may take, which is waiting for the conversion itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// The API versions of kinds.
pub struct ApiVersions {
    client: kube::Client,
    /// Kinds that have a version, and those that have none: who asks for the latter does not displace the former.
    known: Mutex<[LruCache<KindKey, KnownVersions>; 2]>,
    /// Turns at the API server, for kinds that had a version and for others.
    turns: [Semaphore; 2],
}

/// How many kinds are remembered, of those that have a version and of the others.
const REMEMBERED: NonZero<usize> = NonZero::new(1024).expect("more than zero");

/// How many kinds are asked for at a time, of those that had a version and of the others.
const ASKED: usize = 4;

impl fmt::Debug for ApiVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiVersions").finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
struct KnownVersions {
    version: Result<String, UnknownKindVersion>,
    until: Instant,
}

impl ApiVersions {
    /// The versions that a cluster has.
    pub fn for_cluster(client: kube::Client) -> Self {
        let known = Mutex::new([LruCache::new(REMEMBERED), LruCache::new(REMEMBERED)]);
        ApiVersions { client, known, turns: [Semaphore::new(ASKED), Semaphore::new(ASKED)] }
    }

    /// The version of each kind, or why there is none.
    pub async fn find(&self, kinds: Vec<KindKey>) -> KindVersions {
        let mut all = KindVersions::new();
        for kind in kinds {
            let version = self.version(&kind).await;
            all.insert(kind, version);
        }
        all
    }

    async fn version(&self, kind: &KindKey) -> Result<String, UnknownKindVersion> {
        if kind.1.is_empty() {
            return Err(UnknownKindVersion::NoKind);
        }
        let name = definition_name(&kind.0, &kind.1);
        let definition = address::one_of_cluster::<CustomResourceDefinition>(self.client.clone(), &name);
        // What cannot be a kind is not remembered.
        let definition = definition.map_err(|malformed| UnknownKindVersion::InvalidName(malformed.to_string()))?;
        let former = self.known().iter_mut().find_map(|known| known.get(kind).cloned());
        if let Some(known) = former.as_ref().filter(|known| Instant::now() < known.until) {
            return known.version.clone();
        }
        let turns = &self.turns[usize::from(former.as_ref().is_none_or(|known| known.version.is_err()))];
        let lookup = timeout(PATIENCE, async {
            let _turn = turns.acquire().await;
            ask(definition, &name).await
        });
        let too_late = || (Err(UnknownKindVersion::TimedOut { definition: name.clone() }), false);
        let (version, is_certain) = lookup.await.unwrap_or_else(|_| too_late());
        let version = match (former, version) {
            // An answer that is a minute old is better than none.
            (Some(KnownVersions { version: Ok(former), .. }), Err(_)) if !is_certain => Ok(former),
            (_, version) => version,
        };
        let lasts = if is_certain && version.is_ok() { FRESH } else { ABSENT };
        let (is_absent, known) =
            (version.is_err(), KnownVersions { version: version.clone(), until: Instant::now() + lasts });
        let [present, absent] = &mut *self.known();
        let (gets, loses) = if is_absent { (absent, present) } else { (present, absent) };
        loses.pop(kind);
        gets.put(kind.clone(), known);
        version
    }

    fn known(&self) -> MutexGuard<'_, [LruCache<KindKey, KnownVersions>; 2]> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer of the API server, and whether it is one.
async fn ask(
    definition: ObjectApi<CustomResourceDefinition>,
    name: &str,
) -> (Result<String, UnknownKindVersion>, bool) {
    match definition.get_metadata_opt().await {
        Ok(Some(definition)) => (newest(name, definition.metadata.labels.unwrap_or_default()), true),
        Ok(None) => (Err(UnknownKindVersion::NoDefinition { definition: name.to_owned() }), true),
        Err(error) => {
            let (definition, reason) = (name.to_owned(), describe(&error));
            (Err(UnknownKindVersion::Unreadable { definition, reason }), false)
        }
    }
}

fn newest(name: &str, labels: BTreeMap<String, String>) -> Result<String, UnknownKindVersion> {
    let version = newest_version(&labels).map(str::to_owned);
    version.ok_or_else(|| UnknownKindVersion::NoContract { definition: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubernetes::scripted::{Script, ScriptedAnswer};

    fn kind(kind: &str) -> KindKey {
        ("infrastructure.cluster.x-k8s.io".to_owned(), kind.to_owned())
    }

    const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/devs.infrastructure.cluster.x-k8s.io";

    fn definition(labels: &serde_json::Value) -> ScriptedAnswer {
        ScriptedAnswer::ok(json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": {"name": "devs.infrastructure.cluster.x-k8s.io", "labels": labels}}))
    }

    async fn find(versions: &ApiVersions) -> Result<String, UnknownKindVersion> {
        versions.find(vec![kind("Dev")]).await.remove(&kind("Dev")).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_definition_is_requested_once_a_minute_and_outlives_a_server_that_fails() {
        let script = Script::default();
        script.get(PATH, &[], definition(&json!({"cluster.x-k8s.io/v1beta2": "v1beta1_v1beta2"})));
        let versions = ApiVersions::for_cluster(script.client());
        assert_eq!(find(&versions).await.as_deref(), Ok("v1beta2"));
        tokio::time::advance(Duration::from_millis(59_999)).await;
        assert_eq!(find(&versions).await.as_deref(), Ok("v1beta2"));
        assert_eq!(script.left(), 0, "one request was enough");

        tokio::time::advance(Duration::from_millis(1)).await;
        script.get(PATH, &[], ScriptedAnswer::error(500, "InternalError"));
        assert_eq!(find(&versions).await.as_deref(), Ok("v1beta2"), "it was true a minute ago");
        tokio::time::advance(ABSENT).await;
        script.get(PATH, &[], ScriptedAnswer::error(404, "NotFound"));
        assert!(
            find(&versions).await.unwrap_err().to_string().ends_with("infrastructure.cluster.x-k8s.io does not exist")
        );
        tokio::time::advance(ABSENT).await;
        script.get(PATH, &[], definition(&json!({"cluster.x-k8s.io/v1beta1": "v1"})));
        assert_eq!(find(&versions).await.as_deref(), Ok("v1"), "an installation is seen within a second");
    }

    #[tokio::test(start_paused = true)]
    async fn kinds_that_do_not_exist_neither_add_up_nor_displace_others() {
        let script = Script::default();
        script.get(PATH, &[], definition(&json!({"cluster.x-k8s.io/v1beta2": "v1beta2"})));
        let versions = ApiVersions::for_cluster(script.client());
        assert_eq!(find(&versions).await.as_deref(), Ok("v1beta2"));
        let huge = "K".repeat(1 << 20);
        assert!(versions.find(vec![kind(&huge), kind("a/../b")]).await.values().all(Result::is_err));
        assert_eq!(versions.known()[1].len(), 0, "what cannot be a kind is not remembered");
        for i in 0..REMEMBERED.get() + 10 {
            let path = format!(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/k{i}s.infrastructure.cluster.x-k8s.io"
            );
            script.get(&path, &[], ScriptedAnswer::error(404, "NotFound"));
            assert!(versions.find(vec![kind(&format!("K{i}"))]).await.values().all(Result::is_err));
        }
        assert_eq!(versions.known().each_ref().map(LruCache::len), [1, REMEMBERED.get()]);
        assert_eq!(find(&versions).await.as_deref(), Ok("v1beta2"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_malformed_answer_gives_a_reason() {
        for (answer, words) in [
            (definition(&json!({})), "has no contract label"),
            (ScriptedAnswer::error(403, "Forbidden"), "cannot be read: scripted Forbidden"),
            (ScriptedAnswer::Silence, "could not be read: timed out"),
        ] {
            let script = Script::default();
            script.get(PATH, &[], answer);
            let error = find(&ApiVersions::for_cluster(script.client())).await.unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
        let nameless = ApiVersions::for_cluster(Script::default().client()).find(vec![kind("")]).await;
        assert_eq!(nameless[&kind("")], Err(UnknownKindVersion::NoKind));
    }
}
