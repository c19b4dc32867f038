//! The labels of MachinePools, which are not watched.

use std::fmt;

use kube::api::DynamicObject;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::kubernetes::address::Resource;
use engine::topology::worker::WorkerKind;
use model::hub::{GROUP, ObjectKey, label};
use model::wire::WireVersion;
use model::world::WorkerSet;

/// Maximum number of concurrent reads of MachinePools; other reviews have no warning.
const READERS: usize = 16;

/// Reads the worker sets of MachinePools, which are not watched.
pub(super) struct PoolReader {
    client: kube::Client,
    readers: Semaphore,
}

impl fmt::Debug for PoolReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PoolReader")
    }
}

impl PoolReader {
    pub(super) fn new(client: kube::Client) -> Self {
        PoolReader { client, readers: Semaphore::new(READERS) }
    }

    /// The worker set of a MachinePool; `None` if it has no topology or cannot be read in time.
    pub(super) async fn worker_set(&self, key: &ObjectKey, deadline: Instant) -> Option<WorkerSet> {
        let _reader = self.readers.try_acquire().ok()?;
        let kind = WorkerKind::MachinePool;
        let resource = Resource::known(GROUP, WireVersion::V1Beta2.name(), kind.name());
        let one = resource.one::<DynamicObject>(self.client.clone(), key).ok()?;
        let pool = timeout_at(deadline, one.get_metadata_opt()).await.ok()?.ok()??;
        let labels = pool.metadata.labels?;
        labels.get(label::OWNED)?;
        let cluster = ObjectKey::new(&key.namespace, labels.get(label::CLUSTER_NAME)?);
        Some(WorkerSet { cluster, name: labels.get(kind.label())?.clone() })
    }
}
