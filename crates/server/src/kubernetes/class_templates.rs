//! The watches of the templates that classes name (DEC-57).
//!
//! Each version of a kind that a class names is watched, from the first class that names it to the last. Copies that
//! belong to Clusters are left out: there are many, and classes do not name them. A template that carries their label
//! by mistake is read once for each change of a class that names it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt, stream};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::WatchSelection;
use super::address::InvalidSegment;
use super::cache::Cache;
use super::class_uses::{ClassUses, next_classes};
use super::contract::Definitions;
use super::observations::{self, WatchedKind};
use super::raw_object::RawObject;
use super::template_store::{TemplateKey, TemplateReadError, TemplateStore};
use super::templates::{MOST_KINDS, NOT_OWNED, ObjectKind};
use crate::telemetry::metrics::{self, Metrics};
use engine::topology::class_references::{group_version, references};
use model::hub::contract::{definition_name, is_template_kind};
use model::hub::{ClusterClass, Object, ObjectKey, ObjectRef};
use model::world::Found;

/// Timeout of the request for one template.
const PATIENCE: Duration = Duration::from_secs(5);
/// Delay before an unreadable template is requested again.
const RETRY: Duration = Duration::from_secs(10);
/// Maximum number of concurrent reads of templates.
const READERS: usize = 4;
/// Delay before a kind that is not served is watched again, unless its definition changes before.
const UNSERVED: Duration = Duration::from_mins(1);

/// The templates that classes name.
pub(super) struct ClassTemplates {
    client: kube::Client,
    cache: Arc<Cache>,
    definitions: Definitions,
    metrics: Arc<Metrics>,
    store: Mutex<TemplateStore>,
    /// Told when templates have to be read.
    unread: Notify,
}

impl fmt::Debug for ClassTemplates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClassTemplates")
    }
}

impl ClassTemplates {
    /// An empty store, which [`ClassTemplates::follow`] fills. All templates together take `most_bytes` at most
    /// (DEC-44).
    pub(super) fn new(
        client: kube::Client,
        cache: Arc<Cache>,
        definitions: Definitions,
        most_bytes: usize,
        metrics: Arc<Metrics>,
    ) -> Self {
        let store = Mutex::new(TemplateStore::new(most_bytes));
        ClassTemplates { client, cache, definitions, metrics, store, unread: Notify::new() }
    }

    /// A template, as far as it is known. It is decoded if no review has asked for it before.
    pub(super) fn get(&self, reference: &ObjectRef) -> Found<Arc<Object>> {
        let found = self.store().get(reference);
        match found {
            Found::Yes(template) => match template.object() {
                Ok(object) => Found::Yes(object),
                Err(error) => Found::Unreadable(error.to_string()),
            },
            Found::Absent => Found::Absent,
            Found::Unreadable(reason) => Found::Unreadable(reason),
            Found::NotAsked => Found::NotAsked,
        }
    }

    /// Whether no list or read of the templates of all classes is in progress.
    pub(super) fn is_settled(&self) -> bool {
        let facts = self.cache.facts();
        let store = self.store();
        let is_settled = |class: &ObjectKey| match facts.class(class) {
            Found::Yes(class) => store.is_settled(&templates_of(&class)),
            _ => true,
        };
        facts.class_keys().all(is_settled)
    }

    /// Follows the templates of all classes; never ends.
    pub(super) async fn follow(self: Arc<Self>) {
        tokio::select! {
            () = self.clone().follow_classes() => {}
            () = self.read_all() => {}
        }
    }

    /// Starts and stops watches as classes come and go.
    async fn follow_classes(self: Arc<Self>) {
        let mut changed = self.cache.follow();
        let mut uses = ClassUses::new(templates_of);
        let mut watches: BTreeMap<ObjectKind, AbortOnDropHandle<()>> = BTreeMap::new();
        let facts = self.cache.facts();
        let mut classes: BTreeSet<ObjectKey> = facts.class_keys().cloned().collect();
        drop(facts);
        loop {
            for class in &classes {
                let change = uses.update(&self.cache, class);
                let mut store = self.store();
                change.unused.iter().for_each(|key| store.release(key));
                change.used.iter().for_each(|key| store.name(key));
            }
            self.watch_only(&uses.all().map(|(kind, _)| kind.clone()).collect(), &mut watches);
            self.unread.notify_one();
            classes = next_classes(&mut changed).await;
        }
    }

    /// Watches these kinds and no others.
    fn watch_only(
        self: &Arc<Self>,
        kinds: &BTreeSet<ObjectKind>,
        watches: &mut BTreeMap<ObjectKind, AbortOnDropHandle<()>>,
    ) {
        watches.retain(|kind, _| {
            let is_used = kinds.contains(kind);
            if !is_used {
                self.store().end(kind);
            }
            is_used
        });
        for kind in kinds {
            if watches.contains_key(kind) {
                continue;
            }
            if watches.len() >= MOST_KINDS {
                kind.log_limit();
                continue;
            }
            self.store().begin(kind);
            let watch = tokio::spawn(self.clone().watch(kind.clone()));
            watches.insert(kind.clone(), AbortOnDropHandle::new(watch));
        }
        let count = i64::try_from(watches.len()).unwrap_or(i64::MAX);
        self.metrics.watched_kinds.get_or_create(&metrics::Kind { kind: "ClassTemplate" }).set(count);
    }

    /// Watches a kind; never ends. One that is not served is retried after [`UNSERVED`], or when its definition
    /// changes.
    async fn watch(self: Arc<Self>, kind: ObjectKind) {
        let definition = definition_name(&kind.group, &kind.kind);
        loop {
            match self.watch_once(&kind).await {
                Ok(()) => {
                    let ObjectKind { group, version, kind: name } = &kind;
                    self.store().fail(&kind, format!("the API server does not serve {name} in {group}/{version}"));
                }
                // The kind or the group cannot be a part of a path.
                Err(malformed) => return self.store().fail(&kind, malformed.to_string()),
            }
            // While the watch is open, changes of definitions would add up in the channel.
            let mut definitions = self.definitions.changes();
            let changed = async {
                while let Some(one) = definitions.next().await {
                    if one.is_none_or(|one| one == definition) {
                        return;
                    }
                }
                std::future::pending::<()>().await;
            };
            let _ = timeout(UNSERVED, changed).await;
        }
    }

    async fn watch_once(&self, kind: &ObjectKind) -> Result<(), InvalidSegment> {
        let resource = kind.resource()?;
        let facts = self.cache.facts();
        let api = resource.api::<RawObject>(self.client.clone(), facts.scope().only_namespace())?;
        drop(facts);
        let watched = WatchedKind {
            metric: "Template",
            kind: kind.kind.clone(),
            version: resource.as_api().api_version.clone(),
            ends_if_unserved: true,
        };
        let selection = WatchSelection::by_labels(NOT_OWNED);
        let mut seen = observations::follow(api, selection, watched, self.metrics.clone());
        while let Some(seen) = seen.next().await {
            if self.store().see(kind, seen) {
                self.unread.notify_one();
            }
        }
        Ok(())
    }

    /// Reads the templates that the watches leave out, whenever there are any.
    async fn read_all(&self) {
        loop {
            let unread = self.store().unread();
            stream::iter(unread).for_each_concurrent(READERS, |key| self.read(key)).await;
            let has_failed = !self.store().unread().is_empty();
            tokio::select! {
                () = self.unread.notified() => {}
                () = tokio::time::sleep(RETRY), if has_failed => {}
            }
        }
    }

    async fn read(&self, (kind, key): TemplateKey) {
        let answer = timeout(PATIENCE, self.answer(&kind, &key)).await;
        let answer = answer.unwrap_or_else(|_| Err(TemplateReadError::TimedOut));
        let outcome = match &answer {
            Ok(Some(_)) => "found",
            Ok(None) => "absent",
            Err(_) => "failed",
        };
        self.metrics.live_reads.get_or_create(&metrics::Read { what: "template", outcome }).inc();
        self.store().read(&(kind, key), answer);
    }

    async fn answer(&self, kind: &ObjectKind, key: &ObjectKey) -> Result<Option<RawObject>, TemplateReadError> {
        let one = kind.resource()?.one::<RawObject>(self.client.clone(), key)?;
        one.get_opt().await.map_err(TemplateReadError::Api)
    }

    fn store(&self) -> MutexGuard<'_, TemplateStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The templates that a class names. Reviews of the class report other wrong references; a kind that is not a template,
/// such as Secret, is never watched.
fn templates_of(class: &ClusterClass) -> BTreeSet<TemplateKey> {
    let templates = references(&class.spec).into_iter().filter(|reference| is_template_kind(&reference.kind));
    let named = templates.filter_map(|reference| {
        let (group, version) = group_version(reference).ok()?;
        let (group, version) = (group.to_owned(), version.to_owned());
        let key = ObjectKey::new(&class.metadata.namespace, &reference.name);
        Some((ObjectKind { group, version, kind: reference.kind.clone() }, key))
    });
    named.collect()
}
