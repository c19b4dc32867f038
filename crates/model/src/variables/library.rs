//! The cache of compiled classes, by content and limited in bytes.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use lru::LruCache;
use ring::digest;

use super::Variables;
use super::definitions::{Charge, Content, Variable};
use crate::hub::StatusVariable;
use schema::openapi::{SchemaAllowance, SchemaError};

/// How many bytes of compiled classes are kept, unless something else is said. An installation has some dozens of classes of
/// some dozens of variables each, most of them the same; each takes some hundred kilobytes.
const CAPACITY: usize = 256 << 20;

/// After how many entries those of variables that are gone are looked for.
const SWEEP: usize = 1024;

/// Compiled variables by what defines them and nothing else (DEC-39): versions of a class have most of them in common.
///
/// Names of classes, uids and generations say nothing: a review that is denied may carry those of a real class. What is
/// looked up for a review is not kept. What is compiled of stored classes is kept by bytes, and the class that was used least
/// recently loses it first (DEC-44); it is compiled again when it is used.
pub struct Library {
    kept: Mutex<Kept>,
    /// Bytes of everything compiled that is alive, for reviews as well.
    live: Arc<AtomicUsize>,
    capacity: usize,
    slots: AtomicU64,
}

struct Kept {
    /// By a digest of what defines them, which takes as little for a large definition as for a small one.
    variables: HashMap<Digest, Weak<Variable>>,
    /// By the number of the class's slot.
    classes: LruCache<u64, Entry>,
    sweep_at: usize,
}

/// The SHA-256 digest of what defines a variable.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Digest([u8; 32]);

impl Digest {
    fn of(content: &Content) -> Self {
        let mut hasher = Sha256(digest::Context::new(&digest::SHA256));
        content.hash(&mut hasher);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(hasher.0.finish().as_ref());
        Digest(bytes)
    }
}

/// Takes what is hashed, as it is hashed.
struct Sha256(digest::Context);

impl Hasher for Sha256 {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Never asked: the digest is longer.
    fn finish(&self) -> u64 {
        0
    }
}

/// What is compiled of a class.
#[derive(Default)]
struct Entry {
    variables: Option<Arc<Variables>>,
    /// What the layer above has compiled, with its memory.
    more: Option<(Arc<dyn Any + Send + Sync>, Charge)>,
}

/// The place of one class in a [`Library`]; what is compiled of it goes with the place.
pub struct Slot {
    number: u64,
    library: Arc<Library>,
}

impl Slot {
    /// A place for a class.
    pub fn of(library: &Arc<Library>) -> Self {
        Slot { number: library.slots.fetch_add(1, Ordering::Relaxed), library: library.clone() }
    }

    /// The compiled variables of the class, if they are kept.
    pub fn variables(&self) -> Option<Arc<Variables>> {
        self.library.with(|kept| kept.classes.get(&self.number)?.variables.clone())
    }

    /// Compiles the variables of the class, and keeps them.
    ///
    /// # Errors
    /// When the allowance does not suffice.
    pub fn compile(
        &self,
        definitions: &[StatusVariable],
        allowance: &mut SchemaAllowance,
    ) -> Result<Arc<Variables>, SchemaError> {
        let compiled = self.library.compiled(definitions, allowance, true)?;
        self.library.keep(self.number, |entry| entry.variables = Some(compiled.clone()));
        Ok(compiled)
    }

    /// What the layer above has compiled of the class, which takes about so many bytes.
    pub fn more<T: Send + Sync + 'static>(&self, bytes: usize, compile: impl FnOnce() -> T) -> Arc<T> {
        let kept = self.library.with(|kept| Some(kept.classes.get(&self.number)?.more.as_ref()?.0.clone()));
        if let Some(Ok(kept)) = kept.map(Arc::downcast) {
            return kept;
        }
        let compiled = Arc::new(compile());
        let more = (compiled.clone() as Arc<dyn Any + Send + Sync>, Charge::new(&self.library.live, bytes));
        self.library.keep(self.number, |entry| entry.more = Some(more));
        compiled
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // What is compiled is dropped after the lock is.
        let _entry = self.library.with(|kept| kept.classes.pop(&self.number));
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.number).finish()
    }
}

impl Library {
    /// A library that keeps at most so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        let kept = Kept { variables: HashMap::new(), classes: LruCache::unbounded(), sweep_at: SWEEP };
        Library { kept: Mutex::new(kept), live: Arc::default(), capacity: bytes, slots: AtomicU64::new(0) }
    }

    /// The compiled form of definitions that may never be stored; what is not known is compiled, and not kept.
    ///
    /// # Errors
    /// When the allowance does not suffice.
    pub fn look_up(
        &self,
        definitions: &[StatusVariable],
        allowance: &mut SchemaAllowance,
    ) -> Result<Arc<Variables>, SchemaError> {
        self.compiled(definitions, allowance, false)
    }

    fn compiled(
        &self,
        definitions: &[StatusVariable],
        allowance: &mut SchemaAllowance,
        is_stored: bool,
    ) -> Result<Arc<Variables>, SchemaError> {
        let compiled = Variables::compile_with(definitions, allowance, |content, allowance| {
            let digest = Digest::of(&content);
            if let Some(known) = self.with(|kept| kept.variables.get(&digest).and_then(Weak::upgrade)) {
                allowance.take(known.footprint)?;
                return Ok(known);
            }
            let variable = Arc::new(Variable::compile(&content, &self.live, allowance)?);
            if is_stored {
                self.note(digest, &variable);
            }
            Ok(variable)
        });
        compiled.map(Arc::new)
    }

    /// Bytes of everything compiled that is alive.
    pub fn bytes(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Lets others find a variable for as long as it is in use.
    fn note(&self, digest: Digest, variable: &Arc<Variable>) {
        self.with(|kept| {
            kept.variables.insert(digest, Arc::downgrade(variable));
            if kept.variables.len() >= kept.sweep_at {
                kept.variables.retain(|_, variable| variable.strong_count() > 0);
                kept.sweep_at = (kept.variables.len() * 2).max(SWEEP);
            }
        });
    }

    /// Changes the entry of a class, and evicts the least recently used entries while there is too much.
    fn keep(&self, slot: u64, change: impl FnOnce(&mut Entry)) {
        self.with(|kept| change(kept.classes.get_or_insert_mut(slot, Entry::default)));
        while self.bytes() > self.capacity {
            let least = self.with(|kept| if kept.classes.len() > 1 { kept.classes.pop_lru() } else { None });
            match least {
                // It frees nothing before it is dropped, which happens outside of the lock.
                Some((_, entry)) => drop(entry),
                None => break,
            }
        }
    }

    fn with<R>(&self, act: impl FnOnce(&mut Kept) -> R) -> R {
        act(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Default for Library {
    fn default() -> Self {
        Library::with_capacity(CAPACITY)
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let classes = self.with(|kept| kept.classes.len());
        f.debug_struct("Library").field("classes", &classes).field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::hub::ClusterClass;
    use schema::budget::Stop;

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

    fn keep(library: &Arc<Library>, definitions: &[StatusVariable]) -> (Slot, Arc<Variables>) {
        let slot = Slot::of(library);
        let compiled = slot.compile(definitions, &mut SchemaAllowance::new(Stop::never())).unwrap();
        (slot, compiled)
    }

    fn look_up(library: &Library, definitions: &[StatusVariable]) -> Arc<Variables> {
        library.look_up(definitions, &mut SchemaAllowance::new(Stop::never())).unwrap()
    }

    #[test]
    fn equal_definitions_are_compiled_once_and_a_review_caches_nothing() {
        // DEC-39
        let library = Arc::new(Library::default());
        drop(look_up(&library, &definitions(1)));
        assert_eq!(library.bytes(), 0, "what was looked up is not kept");
        assert_eq!(library.with(|kept| kept.variables.len()), 0, "nor is what defines it");
        let (_slot, kept) = keep(&library, &definitions(1));
        let (_other_slot, again) = keep(&library, &definitions(1));
        assert!(shares("size", &kept, &again));
        assert!(shares("size", &kept, &look_up(&library, &definitions(1))), "and what is kept is found");
        let (_third_slot, other) = keep(&library, &definitions(2));
        assert!(!shares("size", &kept, &other));
        assert!(shares("zone", &kept, &other), "classes that differ have the rest in common");
    }

    #[test]
    fn required_is_part_of_the_content_of_a_definition() {
        // DEC-39
        let library = Arc::new(Library::default());
        let (_slot, kept) = keep(&library, &definitions(1));
        let mut definitions = definitions(1);
        definitions[0].definitions[0].required = true;
        definitions[1].name = "area".to_owned();
        let (_other_slot, other) = keep(&library, &definitions);
        assert!(other.get("size").unwrap().required && !kept.get("size").unwrap().required);
        assert!(other.get("area").is_some() && other.get("zone").is_none());
    }

    #[test]
    fn the_least_recently_used_class_is_evicted_when_the_cache_is_full() {
        // DEC-39, DEC-44
        let (_, one) = keep(&Arc::new(Library::default()), &definitions(0));
        let each: usize = one.iter().map(|variable| variable.footprint.bytes()).sum();
        let library = Arc::new(Library::with_capacity(each * 10));
        let (first, _) = keep(&library, &definitions(0));
        let (second, _) = keep(&library, &definitions(1));
        let mut slots = Vec::new();
        for default in 2..200 {
            slots.push(keep(&library, &definitions(default)).0);
            assert!(first.variables().is_some(), "in use, however many come");
            assert!(library.bytes() <= each * 10, "{}", library.bytes());
        }
        assert!(second.variables().is_none(), "the oldest unused one is gone");
        second.compile(&definitions(1), &mut SchemaAllowance::new(Stop::never())).unwrap();
        assert!(second.variables().is_some(), "and comes back when it is used");
        drop((slots, first, second));
        assert_eq!(library.bytes(), 0, "a class that is gone takes nothing");
    }

    #[test]
    fn everything_compiled_for_a_class_counts_for_the_cache() {
        // DEC-44
        let library = Arc::new(Library::with_capacity(100));
        let (one, two) = (Slot::of(&library), Slot::of(&library));
        assert_eq!((*one.more(60, || 1), *one.more(60, || 2), library.bytes()), (1, 1, 60));
        assert_eq!((*two.more(60, || 3), library.bytes()), (3, 60));
        assert_eq!(*one.more(60, || 4), 4, "it was not kept");
    }
}
