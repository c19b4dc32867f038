//! The common dependencies of controllers, and the watch of worker objects.

use std::fmt;
use std::sync::Arc;

use crate::kubernetes::WatchSelection;
use crate::kubernetes::address::Resource;
use crate::kubernetes::cache::Cache;
use crate::kubernetes::extensions::ExtensionCaller;
use crate::kubernetes::lease::Leadership;
use crate::kubernetes::metadata::{self, MetadataStore, ObjectMetadata};
use crate::kubernetes::observations::{StoreChange, WatchedKind};
use crate::telemetry::metrics::Metrics;
use engine::topology::worker::API_VERSION;
use model::hub::{GROUP, label};

/// The dependencies that the controllers of a process share.
#[derive(Clone)]
pub struct Setup {
    pub client: kube::Client,
    /// Controllers write only while it says so.
    pub leadership: Leadership,
    /// Facts, which the caller must keep current. Controllers reconcile the objects in their scope.
    pub cache: Arc<Cache>,
    /// Runtime Extensions; `None` while the feature gate is off.
    pub extensions: Option<Arc<ExtensionCaller>>,
    pub metrics: Arc<Metrics>,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup").field("leadership", &self.leadership).finish_non_exhaustive()
    }
}

impl Setup {
    /// A client that writes only while this process leads.
    pub(super) fn writer(&self) -> kube::Client {
        self.leadership.writer(self.client.clone())
    }

    /// The objects of one kind of Cluster API that belong to topologies, and the future that keeps them current.
    pub(super) fn follow_owned<F: Fn(StoreChange<'_, ObjectMetadata>) + Send>(
        &self,
        kind: &'static str,
        changed: F,
    ) -> (MetadataStore, impl Future<Output = ()> + Send + use<F>) {
        let served = Resource::known(GROUP, "v1beta2", kind);
        let api = served.in_scope(self.client.clone(), self.cache.facts().scope());
        let selection = WatchSelection::by_labels(label::OWNED);
        let watched = WatchedKind::own(kind, API_VERSION);
        metadata::follow(api, served.as_api().clone(), selection, watched, self.metrics.clone(), changed)
    }
}
