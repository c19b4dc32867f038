//! Data about Clusters that is kept between runs. It may be lost at any time (PERF-11).

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use engine::topology::shim::Shim;
use engine::topology::worker::WorkerKind;
use model::hub::{ObjectKey, ObjectRef};

/// Two runs for one Cluster start at least this long apart (RS-10).
pub(super) const APART: Duration = Duration::from_secs(1);
/// Maximum time to wait for a watch to show a written object: it may have been deleted, and a new list does not contain
/// it.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// The records of the last runs, by Cluster.
#[derive(Debug, Default)]
pub(super) struct RunHistory(Mutex<HashMap<ObjectKey, RunRecord>>);

#[derive(Debug, Default)]
struct RunRecord {
    started: Option<Instant>,
    written: Vec<UnseenWrite>,
    /// The uid of the shim that this process created.
    shim: Option<String>,
    /// Runs in a row that ended in a write conflict.
    conflicts: u32,
    /// The kinds of workers of which the watches have shown all that exist, once they have shown the writes above, and
    /// the uid of the Cluster.
    known_workers: (String, BTreeSet<WorkerKind>),
    /// The shim is deleted, even if owner references still name it: garbage collection drops those.
    has_dropped_shim: bool,
}

/// A write that a watch has to show before the next run (RS-11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnseenWrite {
    pub object: ObjectRef,
    pub version: String,
    at: Instant,
}

impl RunHistory {
    /// Notes that a run starts now, or returns how long it has to wait (RS-10).
    pub(super) fn start(&self, key: &ObjectKey) -> Result<(), Duration> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = all.entry(key.clone()).or_default();
        let wait = memory.started.map_or(Duration::ZERO, |started| APART.saturating_sub(started.elapsed()));
        if !wait.is_zero() {
            return Err(wait);
        }
        memory.started = Some(Instant::now());
        Ok(())
    }

    /// Notes whether a run ended in a write conflict; returns the number of consecutive ones.
    pub(super) fn conflicts(&self, key: &ObjectKey, conflict: bool) -> u32 {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = all.entry(key.clone()).or_default();
        memory.conflicts = if conflict { memory.conflicts.saturating_add(1) } else { 0 };
        memory.conflicts
    }

    /// Notes what a run wrote.
    pub(super) fn wrote(&self, key: &ObjectKey, writes: impl IntoIterator<Item = (ObjectRef, String)>) {
        let at = Instant::now();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = all.entry(key.clone()).or_default();
        memory.written.extend(writes.into_iter().map(|(object, version)| UnseenWrite { object, version, at }));
    }

    /// The kinds whose watches have not shown the last writes yet. Writes that were shown are removed (RS-11).
    pub(super) fn unseen(&self, key: &ObjectKey, has_seen: impl Fn(&UnseenWrite) -> bool) -> Vec<String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(memory) = all.get_mut(key) else { return Vec::new() };
        memory.written.retain(|write| !has_seen(write));
        let unseen = memory.written.len();
        memory.written.retain(|write| write.at.elapsed() < FORGOTTEN);
        if memory.written.len() < unseen {
            memory.known_workers.1.clear();
        }
        memory.written.iter().map(|write| write.object.kind.clone()).collect()
    }

    /// Removes the writes that a run waits for: the Cluster is being deleted (RS-05).
    pub(super) fn clear_writes(&self, key: &ObjectKey) {
        if let Some(memory) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(key) {
            memory.written.clear();
        }
    }

    /// The kinds of workers of which a run that begins to write knows all that exist (RS-27). Without another note the
    /// next run knows none.
    pub(super) fn take_known_workers(&self, key: &ObjectKey, uid: &str) -> BTreeSet<WorkerKind> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, known) = all.get_mut(key).map(|memory| std::mem::take(&mut memory.known_workers)).unwrap_or_default();
        if of == uid { known } else { BTreeSet::new() }
    }

    /// Notes the kinds of workers of which the next run knows all that exist.
    pub(super) fn knows_workers(&self, key: &ObjectKey, uid: &str, kinds: BTreeSet<WorkerKind>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(key.clone()).or_default().known_workers = (uid.to_owned(), kinds);
    }

    /// The next action on the shim, which is deleted once (RS-14).
    pub(super) fn shim(&self, key: &ObjectKey, wanted: Shim) -> Shim {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = all.entry(key.clone()).or_default();
        memory.has_dropped_shim &= wanted == Shim::Delete;
        if memory.has_dropped_shim { Shim::Keep } else { wanted }
    }

    /// Notes that a run deleted the shim. The next run retries a failed deletion.
    pub(super) fn dropped_shim(&self, key: &ObjectKey) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(key.clone()).or_default().has_dropped_shim = true;
    }

    /// Notes the uid of the shim that a run created.
    pub(super) fn made_shim(&self, key: &ObjectKey, uid: String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(key.clone()).or_default().shim = Some(uid);
    }

    /// The uid of the shim, if this process created it.
    pub(super) fn shim_uid(&self, key: &ObjectKey) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key)?.shim.clone()
    }

    /// Drops the record of a deleted Cluster.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ObjectKey {
        ObjectKey::new("ns", "c")
    }

    fn deployment(version: &str) -> (ObjectRef, String) {
        let object = ObjectRef::new("cluster.x-k8s.io/v1beta2", "MachineDeployment", ObjectKey::new("ns", "md"));
        (object, version.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn runs_for_one_cluster_start_a_second_apart() {
        // RS-10
        let history = RunHistory::default();
        assert_eq!(history.start(&key()), Ok(()));
        tokio::time::advance(Duration::from_millis(300)).await;
        assert_eq!(history.start(&key()), Err(Duration::from_millis(700)));
        assert_eq!(history.start(&ObjectKey::new("ns", "d")), Ok(()));
        tokio::time::advance(Duration::from_millis(700)).await;
        assert_eq!(history.start(&key()), Ok(()));
        history.forget(&key());
        assert_eq!(history.start(&key()), Ok(()));
    }

    #[test]
    fn a_shim_is_deleted_until_that_succeeds_and_then_not_again() {
        // RS-14
        let history = RunHistory::default();
        let wanted = |all: &[Shim]| all.iter().map(|wanted| history.shim(&key(), *wanted)).collect::<Vec<_>>();
        assert_eq!(wanted(&[Shim::Create, Shim::Delete, Shim::Delete]), [Shim::Create, Shim::Delete, Shim::Delete]);
        history.dropped_shim(&key());
        assert_eq!(wanted(&[Shim::Delete, Shim::Keep, Shim::Delete]), [Shim::Keep, Shim::Keep, Shim::Delete]);
        assert_eq!(history.shim_uid(&key()), None);
        history.made_shim(&key(), "uid".to_owned());
        assert_eq!(
            (history.shim_uid(&key()).as_deref(), history.shim_uid(&ObjectKey::new("ns", "d"))),
            (Some("uid"), None)
        );
    }

    #[test]
    fn conflicts_are_counted_until_a_run_has_none() {
        let history = RunHistory::default();
        let counted = [true, true, false, true].map(|conflict| history.conflicts(&key(), conflict));
        assert_eq!(counted, [1, 2, 0, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_waits_until_the_watches_show_the_last_write() {
        // RS-11, PERF-02
        let history = RunHistory::default();
        history.wrote(&key(), [deployment("7"), deployment("9")]);
        assert_eq!(history.unseen(&key(), |write| write.version == "7"), ["MachineDeployment"]);
        assert_eq!(history.unseen(&key(), |write| write.version == "7"), ["MachineDeployment"]);
        assert!(history.unseen(&key(), |_| true).is_empty() && history.unseen(&key(), |_| false).is_empty());
        history.wrote(&key(), [deployment("11")]);
        history.clear_writes(&key());
        assert!(history.unseen(&key(), |_| false).is_empty());
        history.wrote(&key(), [deployment("12")]);
        tokio::time::advance(FORGOTTEN).await;
        assert!(history.unseen(&key(), |_| false).is_empty(), "an object that was deleted is not waited for");
    }

    #[tokio::test(start_paused = true)]
    async fn workers_are_not_known_after_a_write_that_no_watch_has_shown() {
        // RS-27
        let history = RunHistory::default();
        let known: BTreeSet<WorkerKind> = WorkerKind::ALL.into();
        assert!(history.take_known_workers(&key(), "u").is_empty());
        history.knows_workers(&key(), "u", known.clone());
        history.wrote(&key(), [deployment("7")]);
        assert!(history.unseen(&key(), |_| true).is_empty());
        assert_eq!(history.take_known_workers(&key(), "u"), known);
        assert!(history.take_known_workers(&key(), "u").is_empty(), "the run has not ended");
        history.knows_workers(&key(), "u", known.clone());
        assert!(history.take_known_workers(&key(), "another").is_empty());
        history.knows_workers(&key(), "u", known);
        history.wrote(&key(), [deployment("8")]);
        tokio::time::advance(FORGOTTEN).await;
        assert!(history.unseen(&key(), |_| false).is_empty());
        assert!(history.take_known_workers(&key(), "u").is_empty());
    }
}
