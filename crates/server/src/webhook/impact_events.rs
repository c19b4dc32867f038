//! Events on classes whose edits do something to machines.
//!
//! A review writes nothing, and does not see whether its edit is stored. So the event is written when the watch shows
//! the class as the review has seen it, and never if it does not.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::kubernetes::cache::Cache;
use crate::kubernetes::events::{EventReason, QueuedEvent, Recorder};
use engine::impact::Impact;
use model::hub::{ClusterClass, GROUP, Kind, ObjectRef};
use model::wire::WireVersion;
use model::world::Found;

/// The reporting controller of the events.
const REPORTER: &str = "topologist";
const REPLACES: EventReason = EventReason::normal("MachinesAffected");
const BREAKS: EventReason = EventReason::warning("TopologyBroken");
/// Maximum time from the review of an edit to its appearance in the watch.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of edits that wait for the watch; classes of further edits get no event.
const EDITS: usize = 16;

/// The content of an event about an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImpactEvent {
    message: String,
    breaks: bool,
}

impl ImpactEvent {
    /// The event about an impact; `None` when it replaces or removes no machine.
    pub(super) fn from_impact(impact: &Impact) -> Option<Self> {
        let warnings: Vec<_> = impact.warnings().into_iter().map(|warning| warning.text).collect();
        (!warnings.is_empty()).then(|| ImpactEvent { message: warnings.join("; "), breaks: impact.failing > 0 })
    }
}

/// Writes events on classes.
pub(super) struct ImpactEventWriter {
    recorder: Recorder,
    cache: Arc<Cache>,
    places: Arc<Semaphore>,
}

impl fmt::Debug for ImpactEventWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Announcer")
    }
}

impl ImpactEventWriter {
    pub(super) fn new(client: kube::Client, cache: Arc<Cache>) -> Self {
        ImpactEventWriter { recorder: Recorder::new(client, REPORTER), cache, places: Arc::new(Semaphore::new(EDITS)) }
    }

    /// Writes the event of an edit when the watch shows the class as `reviewed`; gives up after [`PATIENCE`].
    pub(super) fn write_when_stored(self: &Arc<Self>, reviewed: Arc<ClusterClass>, announcement: ImpactEvent) {
        let Ok(place) = self.places.clone().try_acquire_owned() else { return };
        let this = self.clone();
        tokio::spawn(async move {
            let _place = place;
            if timeout(PATIENCE, this.stored(&reviewed)).await.is_ok() {
                this.recorder.write(vec![event(&reviewed, announcement)]).await;
            }
        });
    }

    /// Waits until the class is stored as it was reviewed.
    async fn stored(&self, reviewed: &ClusterClass) {
        let mut changes = self.cache.changes();
        let mut seen = None;
        // Most changes are of other objects, and a spec is large.
        let mut is_stored = || match self.cache.facts().class(&reviewed.metadata.key()) {
            Found::Yes(class) if seen.as_ref().is_none_or(|seen| !Arc::ptr_eq(seen, &class)) => {
                let is_so = class.metadata.uid == reviewed.metadata.uid && class.spec == reviewed.spec;
                seen = Some(class);
                is_so
            }
            _ => false,
        };
        while !is_stored() {
            // The cache is borrowed, so its changes do not end.
            let _ = changes.changed().await;
        }
    }
}

fn event(class: &ClusterClass, ImpactEvent { message, breaks }: ImpactEvent) -> QueuedEvent {
    let api_version = format!("{GROUP}/{}", WireVersion::V1Beta2.name());
    let object = ObjectRef::new(api_version, Kind::ClusterClass.name(), class.metadata.key());
    QueuedEvent::now(&object, &class.metadata.uid, if breaks { BREAKS } else { REPLACES }, message)
}
