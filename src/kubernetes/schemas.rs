//! The schemas of the kinds that topologies are made of: read when a review needs them, compiled once, and kept as long as the
//! definition does not change.
//!
//! ```text
//! review ─► known and fresh? ─► schema
//!              └─ no ─► task: metadata of the definition (same resourceVersion?) ─► the definition ─► schema
//!                         └─ goes on when the review cannot wait any longer
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::debug;

use super::address::Requests;
use super::describe;
use crate::hub::contract::definition_name;
use crate::hub::{Compiled, Definition, group_of, version_of};
use crate::json::in_memory;
use crate::schema::without_descriptions;

/// How long a schema is used before its definition is asked for again.
const FRESH: Duration = Duration::from_mins(1);
/// How long the API server may take for one definition.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many definitions are read at a time.
const READERS: usize = 4;
/// How many bytes all schemas may take, where nothing else is asked for (DEC-44).
const MOST_BYTES: usize = 32 << 20;
/// How many bytes a compiled schema takes for each byte of its text in memory, together with that.
const COMPILED: usize = 4;
/// How many versions of kinds are kept, known or not.
const MOST_KINDS: usize = 256;

/// How many versions of kinds of one Cluster are looked at.
const MOST_KINDS_OF_CLUSTER: usize = 32;

/// The name of a definition, and a version.
type Key = (String, String);

/// Schemas by kind and version.
pub(super) struct Schemas {
    client: kube::Client,
    known: Arc<Mutex<BTreeMap<Key, Known>>>,
    readers: Arc<Semaphore>,
    most_bytes: usize,
}

/// What is known of a version of a kind.
#[derive(Clone)]
struct Known {
    /// When it was asked for.
    since: Instant,
    used: Instant,
    read: Arc<OnceCell<Read>>,
    /// The result of the reading before this one.
    before: Option<Read>,
}

impl Known {
    fn bytes(&self) -> usize {
        self.read.get().or(self.before.as_ref()).map_or(0, |read| read.bytes)
    }
}

/// What a definition says of a version.
#[derive(Clone, Debug, Default)]
struct Read {
    resource_version: String,
    /// `None` if there is no schema, or none that can be read.
    schema: Option<Arc<Compiled>>,
    bytes: usize,
}

impl fmt::Debug for Schemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(locked(&self.known).keys()).finish()
    }
}

impl Schemas {
    pub(super) fn new(client: kube::Client) -> Self {
        Schemas { client, known: Arc::default(), readers: Arc::new(Semaphore::new(READERS)), most_bytes: MOST_BYTES }
    }

    /// The same, with another bound of memory.
    pub(super) fn keeping(self, bytes: usize) -> Self {
        Schemas { most_bytes: bytes, ..self }
    }

    /// Definitions with nothing but the schemas of these versions of kinds (`apiVersion` and kind), by name: those that are known at
    /// `deadline`.
    pub(super) async fn of(
        &self,
        kinds: impl IntoIterator<Item = &(String, String)>,
        deadline: Instant,
    ) -> BTreeMap<String, Definition> {
        let keys = kinds.into_iter().take(MOST_KINDS_OF_CLUSTER).map(|(api_version, kind)| {
            (definition_name(group_of(api_version), kind), version_of(api_version).to_owned())
        });
        let asked = keys.map(|key| async move { (self.one(&key, deadline).await, key) });
        let mut found: BTreeMap<String, Definition> = BTreeMap::new();
        for (schema, (name, version)) in join_all(asked).await {
            if let Some(schema) = schema {
                found.entry(name).or_default().compiled.insert(version, schema);
            }
        }
        found
    }

    async fn one(&self, key: &Key, deadline: Instant) -> Option<Arc<Compiled>> {
        let known = self.entry(key);
        if let Some(read) = known.read.get() {
            return read.schema.clone();
        }
        // The task goes on without the review that began it.
        let reading = tokio::spawn(self.reading(key.clone(), known));
        timeout_at(deadline, reading).await.ok()?.ok()?.schema
    }

    /// What is known of a kind, or the place for it if it was asked for too long ago.
    fn entry(&self, key: &Key) -> Known {
        let now = Instant::now();
        let mut all = locked(&self.known);
        let last = all.get(key);
        let next = if let Some(fresh) = last.filter(|last| now.duration_since(last.since) < FRESH) {
            Known { used: now, ..fresh.clone() }
        } else {
            let before = last.and_then(|last| last.read.get().or(last.before.as_ref()).cloned());
            Known { since: now, used: now, read: Arc::default(), before }
        };
        all.insert(key.clone(), next.clone());
        next
    }

    /// Reads a definition, unless another task does so already.
    fn reading(&self, key: Key, Known { read, before, .. }: Known) -> impl Future<Output = Read> + use<> {
        let (client, readers, known, most) =
            (self.client.clone(), self.readers.clone(), self.known.clone(), self.most_bytes);
        async move {
            let ask = async || {
                let Ok(_reader) = readers.acquire().await else { return Read::default() };
                timeout(PATIENCE, read_definition(&client, &key, before)).await.unwrap_or_default().unwrap_or_default()
            };
            let read = read.get_or_init(ask).await.clone();
            trim(&mut locked(&known), most);
            read
        }
    }
}

fn locked(known: &Mutex<BTreeMap<Key, Known>>) -> MutexGuard<'_, BTreeMap<Key, Known>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drops the least recently used entries, until everything fits.
fn trim(known: &mut BTreeMap<Key, Known>, most_bytes: usize) {
    let mut bytes: usize = known.values().map(Known::bytes).sum();
    while bytes > most_bytes || known.len() > MOST_KINDS {
        let oldest = known.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
        let Some(entry) = oldest.and_then(|key| known.remove(&key)) else { return };
        bytes = bytes.saturating_sub(entry.bytes());
    }
}

/// What a definition says of a version: that of `before`, if it has not changed since. Nothing if it cannot be read, which is no
/// reason to warn.
async fn read_definition(client: &kube::Client, (name, version): &Key, before: Option<Read>) -> Option<Read> {
    let requests = Requests::of_cluster::<CustomResourceDefinition>();
    let ask = async |request: Result<http::Request<Vec<u8>>, kube::Error>| {
        let answer = client.request::<Value>(request?).await;
        answer.inspect_err(|error| debug!(definition = &**name, error = describe(error), "Cannot read definition"))
    };
    let resource_version = |object: &Value| {
        object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    if let Some(before) = before.filter(|before| !before.resource_version.is_empty()) {
        let metadata = ask(requests.get_metadata(name)).await.ok()?;
        if resource_version(&metadata) == before.resource_version {
            return Some(before);
        }
    }
    let found = ask(requests.get(name)).await.ok()?;
    if found.pointer("/metadata/name").and_then(Value::as_str) != Some(name) {
        return None;
    }
    let versions = found.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let mut own = versions.filter(|one| one.get("name").and_then(Value::as_str) == Some(version));
    let schema = own.next().and_then(|one| one.pointer("/schema/openAPIV3Schema"));
    let schema = schema.map(|schema| Arc::new(without_descriptions(schema)));
    let bytes = schema.as_ref().map_or(0, |schema| in_memory(schema).saturating_mul(COMPILED));
    let schema = schema.filter(|_| bytes <= MOST_BYTES);
    Some(Read { resource_version: resource_version(&found), schema: schema.map(|schema| Compiled::of(&schema)), bytes })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubernetes::scripted::{Answer as Said, Script};

    const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.g.io";

    fn kind(version: &str) -> [(String, String); 1] {
        [(format!("g.io/{version}"), "Thing".to_owned())]
    }

    fn definition(resource_version: &str, r#type: &str) -> Value {
        let spec = json!({"type": "object", "properties": {"size": {"type": r#type, "description": "how large"}}});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
        json!({"kind": "CustomResourceDefinition",
            "metadata": {"name": "things.g.io", "resourceVersion": resource_version},
            "spec": {"versions": [{"name": "v1", "schema": schema}, {"name": "v2"}]}})
    }

    /// How many things are wrong with an object, by the schema that is known.
    async fn faults(schemas: &Schemas, version: &str) -> Option<usize> {
        let found = schemas.of(&kind(version), Instant::now() + Duration::from_millis(100)).await;
        let schema = found.get("things.g.io")?.resource_schema(version)?.unwrap();
        Some(schema.faults(&json!({"spec": {"size": 1}}), None).len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_schema_is_read_once_and_again_when_its_definition_has_changed() {
        let script = Script::default();
        let schemas = Schemas::new(script.client());
        script.get(PATH, &[], Said::ok(definition("1", "string")));
        assert_eq!((faults(&schemas, "v1").await, script.left()), (Some(1), 0));
        assert_eq!(faults(&schemas, "v1").await, Some(1), "it is still fresh");
        tokio::time::advance(FRESH).await;
        let metadata =
            |version: &str| Said::ok(json!({"metadata": {"name": "things.g.io", "resourceVersion": version}}));
        script.get(PATH, &[], metadata("1"));
        assert_eq!((faults(&schemas, "v1").await, script.left()), (Some(1), 0), "the definition is the same");
        tokio::time::advance(FRESH).await;
        script.get(PATH, &[], metadata("2")).get(PATH, &[], Said::ok(definition("2", "integer")));
        assert_eq!((faults(&schemas, "v1").await, script.left()), (Some(0), 0));
        script.get(PATH, &[], Said::ok(definition("2", "integer")));
        assert_eq!(faults(&schemas, "v2").await, None, "it has no schema");
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_read_is_unknown_and_delays_no_review() {
        let script = Script::default();
        let schemas = Schemas::new(script.client());
        script.get(PATH, &[], Said::error(403, "Forbidden"));
        assert_eq!(faults(&schemas, "v1").await, None);
        assert_eq!(faults(&schemas, "v1").await, None, "it is not asked again at once");
        tokio::time::advance(FRESH).await;
        script.get(PATH, &[], Said::Silence);
        let started = Instant::now();
        assert_eq!((faults(&schemas, "v1").await, started.elapsed()), (None, Duration::from_millis(100)));
    }

    #[tokio::test(start_paused = true)]
    async fn all_schemas_together_are_bounded() {
        // DEC-44
        let script = Script::default();
        let schemas = Schemas::new(script.client()).keeping(1);
        script.get(PATH, &[], Said::ok(definition("1", "string")));
        assert_eq!(faults(&schemas, "v1").await, Some(1));
        assert!(locked(&schemas.known).is_empty(), "it does not fit");
        let entry = |bytes| Known {
            since: Instant::now(),
            used: Instant::now(),
            read: Arc::new(OnceCell::from(Read { bytes, ..Read::default() })),
            before: None,
        };
        let key = |number: usize| (format!("k{number:03}"), "v1".to_owned());
        let mut known: BTreeMap<Key, Known> = (0..=MOST_KINDS).map(|number| (key(number), entry(0))).collect();
        known.insert(key(0), Known { used: Instant::now() + FRESH, ..entry(10) });
        trim(&mut known, 10);
        assert_eq!((known.len(), known.contains_key(&key(0)), known.contains_key(&key(1))), (MOST_KINDS, true, false));
        known.insert(key(1), Known { used: Instant::now() + 2 * FRESH, ..entry(5) });
        trim(&mut known, 10);
        assert_eq!(known.keys().collect::<Vec<_>>(), [&key(1)], "the most recently used entry is kept");
    }
}
