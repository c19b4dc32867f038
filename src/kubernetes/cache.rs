//! The current facts, for everybody who asks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::world::Facts;

/// How the watch of a kind is doing.
#[derive(Debug, Default)]
struct Pulse {
    heard: Option<Instant>,
    trouble: Option<String>,
}

/// Facts that change under watch events. Readers take a snapshot in O(1); writers take turns.
pub struct Cache {
    facts: ArcSwap<Facts>,
    turn: Mutex<()>,
    pulses: Mutex<BTreeMap<&'static str, Pulse>>,
    changes: watch::Sender<()>,
}

impl Cache {
    /// A cache that starts with these facts.
    pub fn new(facts: Facts) -> Self {
        Cache {
            facts: ArcSwap::from_pointee(facts),
            turn: Mutex::new(()),
            pulses: Mutex::default(),
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

    /// Notes that the API server has just spoken of a kind, and so that its facts are current.
    pub fn note_alive(&self, kind: &'static str) {
        *self.pulses().entry(kind).or_default() = Pulse { heard: Some(Instant::now()), trouble: None };
    }

    /// Notes why a kind cannot be followed at the moment.
    pub fn note_trouble(&self, kind: &'static str, reason: String) {
        self.pulses().entry(kind).or_default().trouble = Some(reason);
    }

    /// Why a kind cannot be followed at the moment, if that is so.
    pub fn trouble(&self, kind: &str) -> Option<String> {
        self.pulses().get(kind)?.trouble.clone()
    }

    /// How long ago the API server last spoke of each kind that is watched.
    pub fn ages(&self) -> Vec<(&'static str, Duration)> {
        let pulses = self.pulses();
        pulses.iter().filter_map(|(kind, pulse)| Some((*kind, pulse.heard?.elapsed()))).collect()
    }

    fn pulses(&self) -> MutexGuard<'_, BTreeMap<&'static str, Pulse>> {
        self.pulses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until every kind that is watched has been listed once.
    pub async fn listed(&self) {
        let mut changes = self.changes();
        while !self.facts().gaps().is_empty() {
            // The cache is borrowed, so its changes do not end.
            let _ = changes.changed().await;
        }
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
