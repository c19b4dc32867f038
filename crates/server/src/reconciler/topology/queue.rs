//! The queue of Clusters to reconcile.

use std::sync::{Mutex, PoisonError};

use futures::channel::mpsc;
use kube::api::ObjectMeta;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::Event;

use crate::kubernetes::observations::key_of;
use model::hub::{Kind, ObjectKey};

/// The name of a Cluster, as an object for the queue of kube.
#[derive(Clone, Debug)]
pub(super) struct ClusterName(ObjectMeta);

impl ClusterName {
    fn for_key(key: &ObjectKey) -> Self {
        let (name, namespace) = (Some(key.name.clone()), Some(key.namespace.clone()));
        ClusterName(ObjectMeta { name, namespace, ..ObjectMeta::default() })
    }

    /// Namespace and name.
    pub(super) fn key(&self) -> ObjectKey {
        key_of(self)
    }
}

resource!(ClusterName, Kind::Cluster, 0);

/// Queues Clusters by name, whether they exist or not.
pub(super) struct ClusterQueue {
    names: Mutex<Writer<ClusterName>>,
    store: Store<ClusterName>,
    wake: mpsc::UnboundedSender<ObjectRef<ClusterName>>,
}

impl ClusterQueue {
    /// A queue and its receiver.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<ObjectRef<ClusterName>>) {
        let (wake, woken) = mpsc::unbounded();
        let mut names = Writer::default();
        names.apply_watcher_event(&Event::Init);
        names.apply_watcher_event(&Event::InitDone);
        (ClusterQueue { store: names.as_reader(), names: Mutex::new(names), wake }, woken)
    }

    /// The queued names that were not removed.
    pub(super) fn names(&self) -> Store<ClusterName> {
        self.store.clone()
    }

    /// Queues a Cluster.
    pub(super) fn wake(&self, key: &ObjectKey) {
        let woken = ObjectRef::new(&key.name).within(&key.namespace);
        {
            let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            if self.store.get(&woken).is_none() {
                names.apply_watcher_event(&Event::Apply(ClusterName::for_key(key)));
            }
        }
        // The receiver is gone when this process no longer leads.
        let _ = self.wake.unbounded_send(woken);
    }

    /// Removes a Cluster for which `is_gone` returns `true`, unless it was queued since.
    pub(super) fn forget(&self, key: &ObjectKey, is_gone: impl FnOnce() -> bool) -> bool {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let is_gone = is_gone();
        if is_gone {
            names.apply_watcher_event(&Event::Delete(ClusterName::for_key(key)));
        }
        is_gone
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    #[tokio::test]
    async fn a_queued_cluster_is_known_until_it_is_removed() {
        let (queue, mut woken) = ClusterQueue::new();
        let key = ObjectKey::new("ns", "c");
        queue.wake(&key);
        queue.wake(&key);
        let named = woken.next().await.unwrap();
        assert_eq!(queue.names().get(&named).unwrap().key(), key);
        assert!(!queue.forget(&key, || false));
        assert!(queue.names().get(&named).is_some(), "it came back meanwhile");
        assert!(queue.forget(&key, || true));
        assert!(queue.names().get(&named).is_none());
    }
}
