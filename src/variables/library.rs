//! Compiled variables, kept by content.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;

use super::Variables;
use super::definitions::{Content, Variable};
use crate::hub::StatusVariable;

/// How many variables are kept; an installation has some dozens of classes of some dozens each, most of them the same.
const KEPT: NonZeroUsize = NonZeroUsize::new(4096).expect("it is not 0");

/// Compiled variables by what defines them and nothing else (DEC-39): versions of a class have most of them in common.
///
/// Names of classes, uids and generations say nothing: a review that is denied may carry those of a real class. What is
/// looked up for a review is not kept; only definitions that are stored get a place, the least recently used go first.
pub struct Library {
    entries: Mutex<LruCache<Content, Arc<Variable>>>,
}

impl Library {
    /// The compiled form of definitions that are stored; compiles what is not known, and keeps it.
    pub fn keep(&self, definitions: &[StatusVariable]) -> Arc<Variables> {
        Arc::new(Variables::compile_with(definitions, |content| {
            self.known(&content).unwrap_or_else(|| {
                let compiled = Arc::new(Variable::compile(&content));
                self.with(|entries| entries.put(content, compiled.clone()));
                compiled
            })
        }))
    }

    /// The compiled form of definitions that may never be stored; compiles what is not known, and forgets it.
    pub fn look_up(&self, definitions: &[StatusVariable]) -> Arc<Variables> {
        Arc::new(Variables::compile_with(definitions, |content| {
            self.known(&content).unwrap_or_else(|| Arc::new(Variable::compile(&content)))
        }))
    }

    fn known(&self, content: &Content) -> Option<Arc<Variable>> {
        self.with(|entries| entries.get(content).cloned())
    }

    fn with<R>(&self, act: impl FnOnce(&mut LruCache<Content, Arc<Variable>>) -> R) -> R {
        act(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Default for Library {
    fn default() -> Self {
        Library { entries: Mutex::new(LruCache::sparse(KEPT)) }
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
            {"name": "zone", "definitions": [{"from": "inline", "schema": {"openAPIV3Schema": {"type": "string"}}}]},
        ]}}))
        .unwrap();
        class.status.variables.to_vec()
    }

    /// Whether a variable was compiled once for both.
    fn shares(name: &str, one: &Variables, other: &Variables) -> bool {
        std::ptr::eq(one.get(name).unwrap(), other.get(name).unwrap())
    }

    #[test]
    fn equal_definitions_are_compiled_once_and_a_review_keeps_nothing() {
        // DEC-39
        let library = Library::default();
        let looked_up = library.look_up(&definitions(1));
        let kept = library.keep(&definitions(1));
        assert!(!shares("size", &looked_up, &kept), "what was looked up is not kept");
        assert!(shares("size", &kept, &library.keep(&definitions(1))));
        assert!(shares("size", &kept, &library.look_up(&definitions(1))), "and what is kept is found");
        let other = library.keep(&definitions(2));
        assert!(!shares("size", &kept, &other));
        assert!(shares("zone", &kept, &other), "classes that differ have the rest in common");
    }

    #[test]
    fn what_is_required_of_a_variable_belongs_to_its_content() {
        // DEC-39
        let library = Library::default();
        let kept = library.keep(&definitions(1));
        let mut definitions = definitions(1);
        definitions[0].definitions[0].required = true;
        definitions[1].name = "area".to_owned();
        let other = library.keep(&definitions);
        assert!(other.get("size").unwrap().required && !kept.get("size").unwrap().required);
        assert!(other.get("area").is_some() && other.get("zone").is_none());
    }

    #[test]
    fn the_least_recently_used_go_first() {
        // DEC-39
        let library = Library::default();
        let first = library.keep(&definitions(0));
        for default in 1..=KEPT.get() {
            library.keep(&definitions(default));
            assert!(shares("size", &first, &library.look_up(&definitions(0))), "in use, however many come");
        }
        assert_eq!(format!("{library:?}"), format!("Library {{ entries: {KEPT} }}"));
        let second = library.look_up(&definitions(1));
        assert!(!shares("size", &second, &library.look_up(&definitions(1))), "the oldest unused one is gone");
    }
}
