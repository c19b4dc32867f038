//! Which deletions of Clusters may have to wait for a hook `BeforeClusterDelete` (DEC-56).
//!
//! Each replica answers reviews, and only the leader discovers extensions. So each replica follows the ExtensionConfigs, whose status
//! lists their handlers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt;
use kube::api::DynamicObject;
use tokio::time::Instant;

use super::Selection;
use super::address::Resource;
use super::follow::{self, Observation, WatchedKind, key_of};
use super::namespaces::NamespaceLabels;
use crate::extensions::config::{CONFIG_GROUP, CONFIG_KIND, CONFIG_VERSION, may_handle};
use crate::extensions::{ExtensionConfig, Selector};
use crate::hub::{Hook, Object};
use crate::telemetry::metrics::Metrics;

/// How long a server that does not know the kind is left alone.
const UNSERVED: Duration = Duration::from_mins(1);

/// The ExtensionConfigs that may have handlers of `BeforeClusterDelete`.
pub struct DeletionHooks {
    client: kube::Client,
    namespaces: NamespaceLabels,
    /// What each selects, by name; `None` until they are listed.
    selectors: RwLock<Option<BTreeMap<String, Selector>>>,
    metrics: Arc<Metrics>,
}

impl fmt::Debug for DeletionHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeletionHooks").field("selectors", &self.selectors).finish_non_exhaustive()
    }
}

impl DeletionHooks {
    /// Nothing is listed yet.
    pub fn new(client: kube::Client, metrics: Arc<Metrics>) -> Self {
        let namespaces = NamespaceLabels::new(client.clone());
        DeletionHooks { client, namespaces, selectors: RwLock::default(), metrics }
    }

    /// Whether a hook may block the deletion of Clusters in a namespace. What is not known counts as a hook: the leader knows, and
    /// ends a hold for which there is none.
    pub async fn may_block(&self, namespace: &str, deadline: Instant) -> bool {
        for selector in self.selectors() {
            if self.namespaces.are_selected(&selector, namespace, deadline).await.unwrap_or(true) {
                return true;
            }
        }
        false
    }

    fn selectors(&self) -> Vec<Selector> {
        match &*self.selectors.read().unwrap_or_else(PoisonError::into_inner) {
            Some(known) => known.values().cloned().collect(),
            None => vec![Selector::Everything],
        }
    }

    /// Keeps the ExtensionConfigs current, for ever. Where the kind is not served there is none.
    pub async fn follow(self: Arc<Self>) {
        let resource = Resource::known(CONFIG_GROUP, CONFIG_VERSION, CONFIG_KIND);
        loop {
            let api = resource.anywhere::<DynamicObject>(self.client.clone());
            let watched = WatchedKind {
                ends_if_unserved: true,
                ..WatchedKind::own(CONFIG_KIND, &format!("{CONFIG_GROUP}/{CONFIG_VERSION}"))
            };
            let mut seen = follow::follow(api, Selection::default(), watched, self.metrics.clone());
            let mut listed = BTreeMap::new();
            while let Some(seen) = seen.next().await {
                self.take(seen, &mut listed);
            }
            *self.selectors.write().unwrap_or_else(PoisonError::into_inner) = Some(BTreeMap::new());
            tokio::time::sleep(UNSERVED).await;
        }
    }

    /// Takes over what the watch has shown. What the first list has counts once it is complete; until then it is in `listed`.
    fn take(&self, seen: Observation<DynamicObject>, listed: &mut BTreeMap<String, Selector>) {
        let mut known = self.selectors.write().unwrap_or_else(PoisonError::into_inner);
        let selectors = known.as_mut().unwrap_or(&mut *listed);
        match seen {
            Observation::There { object, .. } => {
                let name = key_of(&object).name;
                match selector(&object) {
                    Some(selector) => drop(selectors.insert(name, selector)),
                    None => drop(selectors.remove(&name)),
                }
            }
            Observation::Gone(object) => drop(selectors.remove(&key_of(&object).name)),
            Observation::Listed { keys, .. } => {
                selectors.retain(|name, _| keys.iter().any(|key| key.name == *name));
                if known.is_none() {
                    *known = Some(std::mem::take(listed));
                }
            }
            Observation::Alive | Observation::Failed(_) => {}
        }
    }
}

/// What an ExtensionConfig selects that may have handlers of the hook.
fn selector(config: &DynamicObject) -> Option<Selector> {
    let object = Object::try_from(serde_json::to_value(config).ok()?).ok()?;
    // One that cannot be read cannot be registered either.
    may_handle(&object, Hook::BeforeClusterDelete)
        .then(|| ExtensionConfig::of(&object).ok())?
        .map(|config| config.selector)
}
