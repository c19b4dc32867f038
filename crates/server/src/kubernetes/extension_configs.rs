//! The ExtensionConfigs for reviews: which hooks may block the deletion of Clusters (DEC-56), and whether an extension
//! may update machines in place (RH-1.2).
//!
//! Each replica answers reviews, and only the leader discovers extensions. So each replica follows the
//! ExtensionConfigs, whose status lists their handlers, and a review sends no request (DEC-57).

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt;
use kube::api::DynamicObject;

use super::WatchSelection;
use super::address::Resource;
use super::observations::{self, Observation, WatchedKind, key_of};
use crate::telemetry::metrics::Metrics;
use engine::extensions::config::{CONFIG_GROUP, CONFIG_KIND, CONFIG_VERSION, may_handle};
use engine::extensions::{ExtensionConfig, Selector};
use engine::topology::plan::updates_in_place;
use model::hub::{Hook, Object, paths};

/// Delay before the list is retried on a server that does not serve the kind.
const UNSERVED: Duration = Duration::from_mins(1);

/// The ExtensionConfigs of a cluster.
#[derive(Debug, Default)]
pub struct ExtensionConfigs {
    /// By name; `None` until they are listed.
    known: RwLock<Option<BTreeMap<String, Handlers>>>,
}

/// The handlers of an ExtensionConfig that matter to reviews.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Handlers {
    /// The namespaces in which they may hold deletions.
    deletions: Option<Selector>,
    updates_in_place: bool,
}

impl ExtensionConfigs {
    /// The selectors of those that may have handlers of `BeforeClusterDelete`; `None` until they are listed.
    pub(super) fn deletion_hooks(&self) -> Option<Vec<Selector>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        Some(known.as_ref()?.values().filter_map(|handlers| handlers.deletions.clone()).collect())
    }

    /// The first one with an extension that may update machines in place, as far as that is known.
    pub(super) fn updater(&self) -> Option<String> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.as_ref()?.iter().find(|(_, handlers)| handlers.updates_in_place).map(|(name, _)| name.clone())
    }

    /// Keeps them current; never ends. If the kind is not served, there are none.
    pub async fn follow(self: Arc<Self>, client: kube::Client, metrics: Arc<Metrics>) {
        let resource = Resource::known(CONFIG_GROUP, CONFIG_VERSION, CONFIG_KIND);
        loop {
            let api = resource.anywhere::<DynamicObject>(client.clone());
            let watched = WatchedKind {
                ends_if_unserved: true,
                ..WatchedKind::own(CONFIG_KIND, &format!("{CONFIG_GROUP}/{CONFIG_VERSION}"))
            };
            let mut seen = observations::follow(api, WatchSelection::default(), watched, metrics.clone());
            let mut listed = BTreeMap::new();
            while let Some(seen) = seen.next().await {
                self.take(seen, &mut listed);
            }
            *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(BTreeMap::new());
            tokio::time::sleep(UNSERVED).await;
        }
    }

    /// Applies an observation. The objects of the first list count once it is complete; until then they are in
    /// `listed`.
    fn take(&self, seen: Observation<DynamicObject>, listed: &mut BTreeMap<String, Handlers>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let configs = known.as_mut().unwrap_or(&mut *listed);
        match seen {
            Observation::There { object, .. } => {
                let name = key_of(&object).name;
                match handlers(&object) {
                    Some(handlers) => drop(configs.insert(name, handlers)),
                    None => drop(configs.remove(&name)),
                }
            }
            Observation::Gone(object) => drop(configs.remove(&key_of(&object).name)),
            Observation::Listed { keys, .. } => {
                configs.retain(|name, _| keys.iter().any(|key| key.name == *name));
                if known.is_none() {
                    *known = Some(std::mem::take(listed));
                }
            }
            Observation::Alive | Observation::Failed(_) => {}
        }
    }
}

/// The handlers of an ExtensionConfig that matter to reviews; `None` without any.
fn handlers(config: &DynamicObject) -> Option<Handlers> {
    let object = Object::try_from(serde_json::to_value(config).ok()?).ok()?;
    let updates_in_place = updates_in_place(object.at(paths::extension_config::HANDLERS));
    // One that cannot be read cannot be registered either.
    let deletions = may_handle(&object, Hook::BeforeClusterDelete)
        .then(|| ExtensionConfig::from_object(&object).ok())
        .flatten()
        .map(|config| config.selector);
    (updates_in_place || deletions.is_some()).then_some(Handlers { deletions, updates_in_place })
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;
    use crate::kubernetes::observations::ListProgress;

    #[test]
    fn the_extension_that_updates_machines_in_place_follows_the_watch() {
        // RH-1.2, DEC-57
        let config = |name: &str, hook: &str| -> DynamicObject {
            let handlers = json!([{"name": "one", "requestHook": {"apiVersion": "v1alpha1", "hook": hook}}]);
            serde_json::from_value(json!({"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
                "metadata": {"name": name}, "status": {"handlers": handlers}}))
            .unwrap()
        };
        let (configs, mut lists, mut listed) = (ExtensionConfigs::default(), ListProgress::default(), BTreeMap::new());
        let mut see = |event| {
            configs.take(lists.seen(event), &mut listed);
            configs.updater()
        };
        assert_eq!(see(Event::Init), None);
        assert_eq!(see(Event::InitApply(config("lab", "UpdateMachine"))), None, "the list is not complete");
        assert_eq!(see(Event::InitDone).as_deref(), Some("lab"));
        assert_eq!(see(Event::Apply(config("lab", "BeforeClusterDelete"))), None);
        assert_eq!(see(Event::Apply(config("bench", "CanUpdateMachineSet"))).as_deref(), Some("bench"));
        assert_eq!(see(Event::Delete(config("bench", "CanUpdateMachineSet"))), None);
        assert_eq!(see(Event::Apply(config("bench", "CanUpdateMachine"))).as_deref(), Some("bench"));
        [Event::Init, Event::InitDone].into_iter().for_each(|event| drop(see(event)));
        assert_eq!(configs.updater(), None, "a list without it");
    }
}
