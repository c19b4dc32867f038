//! The labels of CustomResourceDefinitions, which name the contract of each version (CT-2.2, CS-08). Nothing else of
//! them is read or kept (PERF-07).

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use futures::channel::mpsc;
use kube::api::ApiResource;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::WatchSelection;
use super::address::Resource;
use super::metadata::{self, ObjectMetadata};
use super::observations::{StoreChange, WatchedKind};
use super::unlisted::Unlisted;
use crate::telemetry::metrics::Metrics;

/// Why the definition of a kind cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// No error about the object that was asked for, which may exist for all we know (CT-4.6).
    #[error("CustomResourceDefinition {0} does not exist")]
    Missing(String),
    #[error("{}", Unlisted::Definitions)]
    NotListed,
}

/// The definitions of a cluster, by the names that the provider contract prescribes.
#[derive(Clone, Debug)]
pub struct Definitions {
    store: Store<ObjectMetadata>,
    resource: ApiResource,
    listeners: Arc<Mutex<Vec<mpsc::UnboundedSender<Option<String>>>>>,
    /// Whether all are listed. The store of kube wakes one waiter only.
    is_listed: watch::Receiver<bool>,
}

impl Definitions {
    /// Runs work with the definitions, and keeps them current meanwhile. All controllers of a process share them.
    pub async fn beside<W: Future<Output = ()>>(
        client: kube::Client,
        metrics: Arc<Metrics>,
        work: impl FnOnce(Definitions) -> W,
    ) {
        let (definitions, follow) = Definitions::follow(client, metrics);
        tokio::select! {
            () = work(definitions) => {}
            () = follow => {}
        }
    }

    /// The definitions, and the future that keeps them current. It gets, lists and watches CustomResourceDefinitions
    /// (CT-16.4).
    pub fn follow(client: kube::Client, metrics: Arc<Metrics>) -> (Self, impl Future<Output = ()> + Send) {
        let served = Resource::known("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let (api, resource) = (served.anywhere(client), served.as_api().clone());
        let listeners: Arc<Mutex<Vec<mpsc::UnboundedSender<Option<String>>>>> = Arc::default();
        let watched = WatchedKind::own("CustomResourceDefinition", &resource.api_version);
        let (listed, is_listed) = watch::channel(false);
        let changed = {
            let listeners = listeners.clone();
            move |change: StoreChange<'_, ObjectMetadata>| {
                let name = match change {
                    StoreChange::One(definition) => Some(definition.metadata.name.clone().unwrap_or_default()),
                    StoreChange::All => {
                        listed.send_replace(true);
                        None
                    }
                };
                let mut listeners = listeners.lock().unwrap_or_else(PoisonError::into_inner);
                listeners.retain(|listener| listener.unbounded_send(name.clone()).is_ok());
            }
        };
        let (objects, follow) =
            metadata::follow(api, resource.clone(), WatchSelection::default(), watched, metrics, changed);
        (Definitions { store: objects.store().clone(), resource, listeners, is_listed }, follow)
    }

    /// The names of definitions that change after this call; `None` when any of them may have changed.
    pub fn changes(&self) -> mpsc::UnboundedReceiver<Option<String>> {
        let (listener, changes) = mpsc::unbounded();
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
        changes
    }

    /// Whether all are listed, as a receiver of changes.
    pub fn listed(&self) -> watch::Receiver<bool> {
        self.is_listed.clone()
    }

    /// The labels of a definition; waits for the first list until `deadline` at the latest.
    ///
    /// # Errors
    /// When there is no such definition, or none is known yet.
    pub async fn labels(&self, name: &str, deadline: Instant) -> Result<BTreeMap<String, String>, DefinitionError> {
        let mut is_listed = self.is_listed.clone();
        match timeout_at(deadline, is_listed.wait_for(|is_listed| *is_listed)).await {
            Ok(Ok(_)) => {}
            _ => return Err(DefinitionError::NotListed),
        }
        let found = self.get(name)?.ok_or_else(|| DefinitionError::Missing(name.to_owned()))?;
        Ok(found.metadata.labels.clone().unwrap_or_default())
    }

    /// The current metadata of a definition.
    ///
    /// # Errors
    /// When the definitions are not listed yet.
    pub fn get(&self, name: &str) -> Result<Option<Arc<ObjectMetadata>>, DefinitionError> {
        if !*self.is_listed.borrow() {
            return Err(DefinitionError::NotListed);
        }
        Ok(self.store.get(&ObjectRef::new_with(name, self.resource.clone())))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::kubernetes::scripted::{Script, ScriptedAnswer};

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_for_the_first_list_go_on_as_soon_as_it_is_there() {
        // CT-2.2
        let (script, name) = (Script::default(), "machines.cluster.x-k8s.io");
        let metadata = json!({"name": name, "labels": {"a": "b"}, "resourceVersion": "1"});
        let list = json!({"metadata": {"resourceVersion": "1"}, "items": [{"metadata": metadata}]});
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        script.get(path, &[], ScriptedAnswer::ok(list));
        script.get(path, &["watch=true"], ScriptedAnswer::Silence);
        let (definitions, follow) = Definitions::follow(script.client(), Arc::default());
        let started = Instant::now();
        let waiting = [(); 5].map(|()| {
            let definitions = definitions.clone();
            tokio::spawn(async move { definitions.labels(name, started + Duration::from_secs(5)).await })
        });
        // They wait before the list is asked for.
        tokio::task::yield_now().await;
        let all = async {
            for one in waiting {
                assert_eq!(one.await.unwrap().unwrap()["a"], "b");
            }
        };
        tokio::select! {
            () = all => {}
            () = follow => panic!("the watch has ended"),
        }
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    }
}
