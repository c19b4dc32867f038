//! The facts of impacts and field checks, all in memory: a review requests none of them from the API server (DEC-57).
//!
//! ```text
//! definitions (labels) ─────────────► contract.rs ──────────┐
//! definitions (schemas) ─► schemas.rs                       ├─► ImpactFacts ◄── review
//! templates that classes name ─► class_templates.rs         │     what is not there yet is not known
//! ExtensionConfigs ─► extension_configs.rs ─────────────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::cache::Cache;
use super::class_templates::ClassTemplates;
use super::contract::{DefinitionError, Definitions};
use super::extension_configs::ExtensionConfigs;
use super::schemas::SchemaCache;
use crate::telemetry::metrics::Metrics;
use engine::topology::plan::updater;
use model::hub::contract::definition_name;
use model::hub::{Object, ObjectRef, ResourceDefinition, group_of};
use model::world::{Answer, Ask, DefinitionName, Found, Need};

/// Interval in which completeness is checked.
const SETTLING: Duration = Duration::from_millis(5);

/// The source of the facts.
#[derive(Clone, Debug)]
pub enum ImpactFacts {
    /// The cache holds everything there is, as with files.
    Complete(Arc<Cache>),
    /// Nothing is watched.
    Unwatched,
    Watched(Arc<ImpactWatches>),
}

/// The watches for impacts.
#[derive(Debug)]
pub struct ImpactWatches {
    definitions: Definitions,
    schemas: SchemaCache,
    templates: Option<Arc<ClassTemplates>>,
    configs: Arc<ExtensionConfigs>,
}

/// Memory limits of the facts, in bytes (DEC-44).
#[derive(Clone, Copy, Debug)]
pub struct FactLimits {
    pub schemas: usize,
    /// `None` if templates are not watched.
    pub templates: Option<usize>,
}

impl ImpactWatches {
    /// Facts from these watches, which the caller keeps current, and from those of [`Watched::follow`].
    pub fn new(
        client: &kube::Client,
        cache: &Arc<Cache>,
        definitions: Definitions,
        configs: Arc<ExtensionConfigs>,
        bounds: FactLimits,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let templates = bounds.templates.map(|bytes| {
            let (client, cache) = (client.clone(), cache.clone());
            Arc::new(ClassTemplates::new(client, cache, definitions.clone(), bytes, metrics.clone()))
        });
        let schemas =
            SchemaCache::new(client.clone(), cache.clone(), definitions.clone(), bounds.schemas, metrics.clone());
        ImpactWatches { definitions, schemas, templates, configs }
    }

    /// Keeps schemas and templates current; never ends.
    pub async fn follow(self: Arc<Self>) {
        let templates = async {
            match &self.templates {
                Some(templates) => templates.clone().follow().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.schemas.follow() => {}
            () = templates => {}
        }
    }

    /// Waits until the facts of all classes of the cache are known.
    pub async fn settled(&self) {
        let is_settled = || {
            let has_templates = self.templates.as_ref().is_none_or(|templates| templates.is_settled());
            *self.definitions.listed().borrow() && has_templates && self.schemas.is_settled()
        };
        while !is_settled() {
            tokio::time::sleep(SETTLING).await;
        }
    }

    fn answer(&self, need: &Need) -> Answer {
        match need {
            Need::Object(reference) => reference.answer(self.template(reference)),
            Need::Definition(name) => name.answer(self.definition(name)),
            need => need.unanswered("it is not watched"),
        }
    }

    fn template(&self, reference: &ObjectRef) -> Found<Arc<Object>> {
        match &self.templates {
            Some(templates) => templates.get(reference),
            None => Found::Unreadable("templates are not watched (--watch-templates)".to_owned()),
        }
    }

    fn definition(&self, DefinitionName(name): &DefinitionName) -> Found<Arc<ResourceDefinition>> {
        match self.definitions.get(name) {
            Ok(Some(found)) => {
                let labels = found.metadata.labels.clone().unwrap_or_default();
                Found::Yes(Arc::new(ResourceDefinition { labels, ..ResourceDefinition::default() }))
            }
            Ok(None) => Found::Absent,
            Err(error @ (DefinitionError::NotListed | DefinitionError::Missing(_))) => {
                Found::Unreadable(error.to_string())
            }
        }
    }
}

impl ImpactFacts {
    /// The answers to needs. Decodes templates that no review has read before.
    pub fn answers(&self, needs: impl IntoIterator<Item = Need>) -> Vec<(Need, Answer)> {
        let answer = |need: &Need| match self {
            ImpactFacts::Complete(cache) => cache.facts().answer(need),
            ImpactFacts::Unwatched => need.unanswered("it is not watched"),
            ImpactFacts::Watched(watched) => watched.answer(need),
        };
        let answered = |need| {
            let answer = answer(&need);
            (need, answer)
        };
        needs.into_iter().map(answered).collect()
    }

    /// The known schemas of these versions of kinds (`apiVersion` and kind), by the names of their definitions, which
    /// have no other parts.
    pub fn schemas(&self, kinds: &BTreeSet<(String, String)>) -> BTreeMap<String, Arc<ResourceDefinition>> {
        let shared = |(name, definition)| (name, Arc::new(definition));
        match self {
            ImpactFacts::Complete(cache) => held(cache, kinds).into_iter().map(shared).collect(),
            ImpactFacts::Unwatched => BTreeMap::new(),
            ImpactFacts::Watched(watched) => watched.schemas.for_kinds(kinds).into_iter().map(shared).collect(),
        }
    }

    /// A known ExtensionConfig of an extension that may update machines in place.
    pub fn updater(&self) -> Option<String> {
        match self {
            ImpactFacts::Complete(cache) => cache.facts().objects().and_then(updater),
            ImpactFacts::Unwatched => None,
            ImpactFacts::Watched(watched) => watched.configs.updater(),
        }
    }
}

/// The schemas that a cache holds.
fn held(cache: &Cache, kinds: &BTreeSet<(String, String)>) -> BTreeMap<String, ResourceDefinition> {
    let facts = cache.facts();
    let names = kinds.iter().map(|(version, kind)| definition_name(group_of(version), kind));
    let found = names.filter_map(|name| match facts.objects()?.definition(&name) {
        Found::Yes(found) => {
            Some((name, ResourceDefinition { compiled: found.compiled.clone(), ..ResourceDefinition::default() }))
        }
        _ => None,
    });
    found.collect()
}

#[cfg(test)]
mod tests;
