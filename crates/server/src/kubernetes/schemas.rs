//! The schemas of the kinds of objects in topologies: read outside reviews, once for each generation of their
//! definition, compiled, and cached while a class needs them (DEC-57).
//!
//! ```text
//! ClusterClasses: which versions of kinds ─┐
//! CustomResourceDefinitions: generations ──┴─► read what is new ─► compile ─► known schemas ◄── review
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt, stream};
use serde_json::Value;
use tokio::task::JoinError;
use tokio::time::timeout;
use tracing::{debug, warn};

use super::address::{InvalidSegment, Resource};
use super::cache::Cache;
use super::class_uses::{ClassUses, next_classes};
use super::contract::Definitions;
use super::describe;
use super::raw_object::RawObject;
use crate::telemetry::metrics::{self, Metrics};
use engine::topology::class_references::created_kinds;
use golang::json::{self, in_memory};
use model::hub::contract::definition_name;
use model::hub::{ClusterClass, LazySchema, ObjectKey, ResourceDefinition, group_of, version_of};
use model::world::Found;
use schema::openapi::without_descriptions;

/// Timeout of the request for one definition.
const PATIENCE: Duration = Duration::from_secs(5);
/// Delay before an unreadable definition is requested again.
const RETRY: Duration = Duration::from_secs(10);
/// Maximum number of concurrent reads of definitions.
const READERS: usize = 4;
/// Memory of a compiled schema and its text, per byte of the text.
const COMPILED: usize = 4;
/// Maximum number of cached versions of kinds.
const MOST_KINDS: usize = 256;
/// Maximum number of versions of kinds of one Cluster.
const MOST_KINDS_OF_CLUSTER: usize = 32;

/// The name of a definition, and a version.
type KindVersion = (String, String);

/// Schemas by kind and version.
pub(super) struct SchemaCache {
    client: kube::Client,
    cache: Arc<Cache>,
    definitions: Definitions,
    metrics: Arc<Metrics>,
    most_bytes: usize,
    /// By the names of definitions.
    known: Mutex<BTreeMap<String, CachedDefinition>>,
}

/// A cached definition.
#[derive(Debug)]
struct CachedDefinition {
    stamp: DefinitionGeneration,
    /// The schemas of the versions that classes name; `None` for one that is not served, or has no schema that can be
    /// read.
    versions: BTreeMap<String, Option<Arc<LazySchema>>>,
    bytes: usize,
}

/// The uid and the generation of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DefinitionGeneration {
    uid: Option<String>,
    generation: Option<i64>,
}

/// A definition that has to be read.
struct MissingDefinition {
    name: String,
    versions: BTreeSet<String>,
}

impl fmt::Debug for SchemaCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.known().keys()).finish()
    }
}

impl SchemaCache {
    /// An empty cache, which [`SchemaCache::follow`] fills. All schemas together take `most_bytes` at most (DEC-44).
    pub(super) fn new(
        client: kube::Client,
        cache: Arc<Cache>,
        definitions: Definitions,
        most_bytes: usize,
        metrics: Arc<Metrics>,
    ) -> Self {
        SchemaCache { client, cache, definitions, metrics, most_bytes, known: Mutex::default() }
    }

    /// Definitions, by name, with only the schemas of these versions of kinds (`apiVersion` and kind): those that are
    /// known and of the current generation.
    pub(super) fn for_kinds(&self, kinds: &BTreeSet<(String, String)>) -> BTreeMap<String, ResourceDefinition> {
        let known = self.known();
        let mut found: BTreeMap<String, ResourceDefinition> = BTreeMap::new();
        for (api_version, kind) in kinds.iter().take(MOST_KINDS_OF_CLUSTER) {
            let (name, version) = key(api_version, kind);
            let of_now = known.get(&name).filter(|known| self.stamp(&name).as_ref() == Some(&known.stamp));
            if let Some(schema) = of_now.and_then(|known| known.versions.get(&version)?.clone()) {
                found.entry(name).or_default().compiled.insert(version, schema);
            }
        }
        found
    }

    /// Whether the schemas of all classes are known, or the limit of kinds is reached. An unreadable one is never
    /// known.
    pub(super) fn is_settled(&self) -> bool {
        let (facts, known) = (self.cache.facts(), self.known());
        let is_known = |(name, version): &KindVersion| match self.stamp(name) {
            Some(stamp) => {
                known.get(name).is_some_and(|known| known.stamp == stamp && known.versions.contains_key(version))
            }
            None => true,
        };
        let is_settled = |class: &ObjectKey| match facts.class(class) {
            Found::Yes(class) => kinds_of(&class).iter().all(is_known),
            _ => true,
        };
        known.len() >= MOST_KINDS || facts.class_keys().all(is_settled)
    }

    /// Keeps the schemas of all kinds of objects in topologies current; never ends.
    pub(super) async fn follow(&self) {
        let (mut changed, mut definitions) = (self.cache.follow(), self.definitions.changes());
        let mut uses = ClassUses::new(kinds_of);
        let facts = self.cache.facts();
        facts.class_keys().for_each(|class| drop(uses.update(&self.cache, class)));
        drop(facts);
        loop {
            let has_failed = !self.read_all(&uses).await;
            tokio::select! {
                classes = next_classes(&mut changed) => {
                    for class in &classes {
                        uses.update(&self.cache, class);
                    }
                }
                Some(_) = definitions.next() => {}
                () = tokio::time::sleep(RETRY), if has_failed => {}
            }
            // Definitions come in numbers when a provider is installed.
            while definitions.try_recv().is_ok() {}
        }
    }

    /// Reads the missing schemas of classes; returns whether all could be read.
    async fn read_all(&self, uses: &ClassUses<KindVersion>) -> bool {
        let wanted = self.wanted(uses);
        let read = stream::iter(wanted).map(|wanted| self.read(wanted)).buffer_unordered(READERS);
        read.fold(true, async |all, succeeded| all && succeeded).await
    }

    /// The definitions that have to be read. Drops those that are deleted or that no class uses any more.
    fn wanted(&self, uses: &ClassUses<KindVersion>) -> Vec<MissingDefinition> {
        let mut versions: BTreeMap<&String, BTreeSet<String>> = BTreeMap::new();
        for (name, version) in uses.all().take(MOST_KINDS) {
            versions.entry(name).or_default().insert(version.clone());
        }
        let mut known = self.known();
        known.retain(|name, known| {
            let is_used =
                versions.get(name).is_some_and(|wanted| known.versions.keys().any(|one| wanted.contains(one)));
            is_used && self.stamp(name).is_some()
        });
        let is_known = |name: &String, wanted: &BTreeSet<String>, stamp: &DefinitionGeneration| {
            let has_all = |known: &CachedDefinition| wanted.iter().all(|version| known.versions.contains_key(version));
            known.get(name).is_some_and(|known| known.stamp == *stamp && has_all(known))
        };
        let wanted = versions.into_iter().filter_map(|(name, versions)| {
            let stamp = self.stamp(name)?;
            (!is_known(name, &versions, &stamp)).then(|| MissingDefinition { name: name.clone(), versions })
        });
        wanted.collect()
    }

    /// The current generation of a definition; `None` while it does not exist or is not known.
    fn stamp(&self, name: &str) -> Option<DefinitionGeneration> {
        let metadata = self.definitions.get(name).ok().flatten()?;
        Some(DefinitionGeneration { uid: metadata.metadata.uid.clone(), generation: metadata.metadata.generation })
    }

    /// Reads and compiles the schemas of a definition.
    async fn read(&self, wanted: MissingDefinition) -> bool {
        let answer = timeout(PATIENCE, read_definition(&self.client, &wanted)).await;
        let outcome = match &answer {
            Ok(Ok(_)) => "found",
            Ok(Err(_)) => "failed",
            Err(_) => "timed_out",
        };
        self.metrics.live_reads.get_or_create(&metrics::Read { what: "schema", outcome }).inc();
        match answer {
            Ok(Ok(known)) => {
                self.put(wanted.name, known);
                true
            }
            Ok(Err(error)) => {
                debug!(
                    definition = wanted.name,
                    error = error.to_string(),
                    "Failed to read a CustomResourceDefinition"
                );
                false
            }
            Err(_) => false,
        }
    }

    /// Caches the schemas of a definition, or the fact that there is no room for them.
    fn put(&self, name: String, mut read: CachedDefinition) {
        let mut known = self.known();
        known.remove(&name);
        let bytes: usize = known.values().map(|known| known.bytes).sum();
        if bytes.saturating_add(read.bytes) > self.most_bytes {
            warn!(definition = name, limit = self.most_bytes, "No memory left for the schemas of a definition");
            read.versions.values_mut().for_each(|schema| *schema = None);
            read.bytes = 0;
        }
        known.insert(name, read);
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, CachedDefinition>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The versions of kinds of the objects of Clusters of a class.
fn kinds_of(class: &ClusterClass) -> BTreeSet<KindVersion> {
    created_kinds(&class.spec).iter().map(|(api_version, kind)| key(api_version, kind)).collect()
}

fn key(api_version: &str, kind: &str) -> KindVersion {
    (definition_name(group_of(api_version), kind), version_of(api_version).to_owned())
}

/// Why the schemas of a definition are not known.
#[derive(Debug, thiserror::Error)]
enum SchemaReadError {
    #[error(transparent)]
    InvalidSegment(#[from] InvalidSegment),
    #[error("{}", describe(.0))]
    Api(#[source] kube::Error),
    #[error("it does not exist")]
    Missing,
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("its schema cannot be compiled")]
    Uncompiled(#[source] JoinError),
}

/// The compiled schemas of a definition. The response may have another generation than the requested one.
///
/// # Errors
/// When it cannot be read, is deleted, or does not decode.
async fn read_definition(
    client: &kube::Client,
    wanted: &MissingDefinition,
) -> Result<CachedDefinition, SchemaReadError> {
    let resource = Resource::known("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let one = resource.one_of_cluster::<RawObject>(client.clone(), &wanted.name)?;
    let found = one.get_opt().await.map_err(SchemaReadError::Api)?.ok_or(SchemaReadError::Missing)?;
    let versions = wanted.versions.clone();
    let compile = move || Ok(compiled(&json::value(found.text())?, &versions));
    tokio::task::spawn_blocking(compile).await.map_err(SchemaReadError::Uncompiled)?
}

/// The compiled schemas of these versions of a definition.
fn compiled(definition: &Value, versions: &BTreeSet<String>) -> CachedDefinition {
    let metadata = |name: &str| definition.pointer(&format!("/metadata/{name}"));
    let stamp = DefinitionGeneration {
        uid: metadata("uid").and_then(Value::as_str).map(str::to_owned),
        generation: metadata("generation").and_then(Value::as_i64),
    };
    let mut known = CachedDefinition { stamp, versions: BTreeMap::new(), bytes: 0 };
    let stored = definition.pointer("/spec/versions").and_then(Value::as_array);
    for version in versions {
        let is_it = |one: &&Value| {
            one.get("name").and_then(Value::as_str) == Some(version) && one.get("served") == Some(&Value::Bool(true))
        };
        let found = stored.into_iter().flatten().find(is_it);
        let schema = found.and_then(|one| one.pointer("/schema/openAPIV3Schema")).map(without_descriptions);
        known.bytes += schema.as_ref().map_or(0, |schema| in_memory(schema).saturating_mul(COMPILED));
        let schema = schema.map(|schema| LazySchema::new(&Arc::new(schema)));
        let mut compiled = ResourceDefinition::default();
        compiled.compiled.extend(schema.clone().map(|schema| (version.clone(), schema)));
        // The result stays with the schema.
        let _ = compiled.resource_schema(version);
        known.versions.insert(version.clone(), schema);
    }
    known
}
