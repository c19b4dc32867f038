//! Compiled variables, kept by content.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;

use super::Variables;
use crate::hub::StatusVariable;

/// How many sets of definitions are kept; an installation has some dozens of classes.
const KEPT: NonZeroUsize = NonZeroUsize::new(1024).expect("it is not 0");

/// Compiled variables by their definitions and nothing else (DEC-39).
///
/// Names, uids and generations say nothing: a review that is denied may carry those of a real class. What is looked up
/// for a review is not kept; only definitions that are stored get a place, the least recently used go first.
pub struct Library {
    entries: Mutex<LruCache<Arc<[StatusVariable]>, Arc<Variables>>>,
}

impl Library {
    /// The compiled form of definitions that are stored; compiles what is not known, and keeps it.
    pub fn keep(&self, definitions: &[StatusVariable]) -> Arc<Variables> {
        self.known(definitions).unwrap_or_else(|| {
            let compiled = Arc::new(Variables::compile(definitions));
            self.with(|entries| entries.put(definitions.into(), compiled.clone()));
            compiled
        })
    }

    /// The compiled form of definitions that may never be stored; compiles what is not known, and forgets it.
    pub fn look_up(&self, definitions: &[StatusVariable]) -> Arc<Variables> {
        self.known(definitions).unwrap_or_else(|| Arc::new(Variables::compile(definitions)))
    }

    fn known(&self, definitions: &[StatusVariable]) -> Option<Arc<Variables>> {
        self.with(|entries| entries.get(definitions).cloned())
    }

    fn with<R>(&self, act: impl FnOnce(&mut LruCache<Arc<[StatusVariable]>, Arc<Variables>>) -> R) -> R {
        act(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Default for Library {
    fn default() -> Self {
        Library { entries: Mutex::new(LruCache::new(KEPT)) }
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("entries", &self.with(|entries| entries.len())).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::hub::ClusterClass;

    fn definitions(default: usize) -> Vec<StatusVariable> {
        let class: ClusterClass = serde_json::from_value(json!({"status": {"variables": [
            {"name": "size", "definitions": [{"from": "inline", "schema": {"openAPIV3Schema": {"type": "integer", "default": default}}}]},
        ]}}))
        .unwrap();
        class.status.variables.to_vec()
    }

    #[test]
    fn equal_definitions_are_compiled_once_and_a_review_keeps_nothing() {
        // DEC-39
        let library = Library::default();
        let looked_up = library.look_up(&definitions(1));
        let kept = library.keep(&definitions(1));
        assert!(!Arc::ptr_eq(&looked_up, &kept), "what was looked up is not kept");
        assert!(Arc::ptr_eq(&kept, &library.keep(&definitions(1))));
        assert!(Arc::ptr_eq(&kept, &library.look_up(&definitions(1))), "and what is kept is found");
        assert!(!Arc::ptr_eq(&kept, &library.keep(&definitions(2))));
    }

    #[test]
    fn the_least_recently_used_go_first() {
        // DEC-39
        let library = Library::default();
        let first = library.keep(&definitions(0));
        for default in 1..=KEPT.get() {
            library.keep(&definitions(default));
            assert!(Arc::ptr_eq(&first, &library.look_up(&definitions(0))), "in use, however many come");
        }
        assert_eq!(format!("{library:?}"), format!("Library {{ entries: {KEPT} }}"));
        let second = library.look_up(&definitions(1));
        assert!(!Arc::ptr_eq(&second, &library.look_up(&definitions(1))), "the oldest unused one is gone");
    }
}
