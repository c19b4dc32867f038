//! The current facts, for everybody who asks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::world::Facts;

/// Facts that change under watch events. Readers take a snapshot in O(1); writers take turns.
pub struct Cache {
    facts: ArcSwap<Facts>,
    turn: Mutex<()>,
    /// Why a kind cannot be followed at the moment.
    trouble: Mutex<BTreeMap<&'static str, String>>,
    changes: watch::Sender<()>,
}

impl Cache {
    /// A cache that starts with these facts.
    pub fn new(facts: Facts) -> Self {
        Cache {
            facts: ArcSwap::from_pointee(facts),
            turn: Mutex::new(()),
            trouble: Mutex::default(),
            changes: watch::Sender::new(()),
        }
    }

    /// The facts as they are now; they do not change in the reader's hands.
    pub fn facts(&self) -> Arc<Facts> {
        self.facts.load_full()
    }

    /// Changes the facts, and tells those who wait for a change.
    pub fn update(&self, change: impl FnOnce(&mut Facts)) {
        {
            let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            let mut facts = Facts::clone(&self.facts.load());
            change(&mut facts);
            self.facts.store(Arc::new(facts));
        }
        self.changes.send_replace(());
    }

    /// Notes why a kind cannot be followed, or that it can.
    pub fn note_trouble(&self, kind: &'static str, reason: Option<String>) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match reason {
            Some(reason) => drop(trouble.insert(kind, reason)),
            None => drop(trouble.remove(kind)),
        }
    }

    /// Why a kind cannot be followed at the moment, if that is so.
    pub fn trouble(&self, kind: &str) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).get(kind).cloned()
    }

    /// Becomes ready when the facts change after this call.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = self.facts();
        let (classes, clusters) = (facts.class_keys().len(), facts.cluster_keys().len());
        f.debug_struct("Cache").field("classes", &classes).field("clusters", &clusters).finish_non_exhaustive()
    }
}
