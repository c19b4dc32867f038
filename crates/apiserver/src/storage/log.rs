//! Recent changes of a kind, for watches and paged lists that start in the past.

use std::collections::VecDeque;

use jiff::Timestamp;

/// Approximate overhead of an entry in bytes, besides its object.
const ENTRY: usize = 256;

/// Changes in the order of their versions.
#[derive(Debug)]
pub(super) struct ChangeLog<T> {
    changes: VecDeque<LogEntry<T>>,
    bytes: usize,
    /// Changes up to this version are not available any more.
    forgotten: u64,
}

#[derive(Debug)]
struct LogEntry<T> {
    change: T,
    version: u64,
    bytes: usize,
    at: Timestamp,
}

impl<T> ChangeLog<T> {
    /// A log without changes up to a version.
    pub(super) fn since(forgotten: u64) -> Self {
        ChangeLog { changes: VecDeque::new(), bytes: 0, forgotten }
    }

    /// Bytes of objects kept only for this log. The state after a change is the stored object, or the state before the
    /// next change.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Adds a change. `bytes` is the size of the object that it keeps alive.
    pub(super) fn push(&mut self, change: T, version: u64, bytes: usize, at: Timestamp) {
        let bytes = bytes + ENTRY;
        self.bytes += bytes;
        self.changes.push_back(LogEntry { change, version, bytes, at });
    }

    /// Drops the oldest change; returns whether there was one.
    pub(super) fn drop_oldest(&mut self) -> bool {
        let Some(oldest) = self.changes.pop_front() else { return false };
        self.bytes -= oldest.bytes;
        self.forgotten = oldest.version;
        true
    }

    /// Drops the oldest changes beyond a number, and those before a time.
    pub(super) fn keep(&mut self, number: usize, since: Timestamp) {
        while self.changes.len() > number || self.changes.front().is_some_and(|oldest| oldest.at < since) {
            self.drop_oldest();
        }
        if self.changes.capacity() > 64 && self.changes.len() < self.changes.capacity() / 4 {
            self.changes.shrink_to(self.changes.len() * 2);
        }
    }

    /// The changes after a version.
    pub(super) fn after(&self, version: u64) -> impl DoubleEndedIterator<Item = &T> {
        let first = self.changes.partition_point(|entry| entry.version <= version);
        self.changes.range(first..).map(|entry| &entry.change)
    }
}
