//! The latest changes of the objects of a kind, from which watches that begin in the past and lists of pages are
//! answered.

use std::collections::VecDeque;

use jiff::Timestamp;

/// About what an entry takes besides the object that it keeps.
const ENTRY: usize = 256;

/// Changes in the order of their versions.
#[derive(Debug)]
pub(super) struct Log<T> {
    changes: VecDeque<Entry<T>>,
    bytes: usize,
    /// Changes up to this version are not known any more.
    forgotten: u64,
}

#[derive(Debug)]
struct Entry<T> {
    change: T,
    version: u64,
    bytes: usize,
    at: Timestamp,
}

impl<T> Log<T> {
    /// A log that knows of no change up to a version.
    pub(super) fn since(forgotten: u64) -> Self {
        Log { changes: VecDeque::new(), bytes: 0, forgotten }
    }

    /// How many bytes of objects are kept for the sake of this log. The state after a change is the stored object, or
    /// the state before the next change.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Adds a change. `bytes` is the size of the object that is kept because of it.
    pub(super) fn push(&mut self, change: T, version: u64, bytes: usize, at: Timestamp) {
        let bytes = bytes + ENTRY;
        self.bytes += bytes;
        self.changes.push_back(Entry { change, version, bytes, at });
    }

    /// Drops the oldest change; says whether there was one.
    pub(super) fn drop_oldest(&mut self) -> bool {
        let Some(oldest) = self.changes.pop_front() else { return false };
        self.bytes -= oldest.bytes;
        self.forgotten = oldest.version;
        true
    }

    /// Drops the oldest changes beyond a number, and those from before a moment.
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
