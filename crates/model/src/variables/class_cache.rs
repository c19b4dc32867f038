//! Cache of compiled classes, keyed by content and limited in bytes.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use lru::LruCache;
use ring::digest;

use super::CompiledVariables;
use super::definitions::{CompiledVariable, MemoryCharge, VariableContent};
use crate::hub::StatusVariable;
use schema::openapi::{SchemaAllowance, SchemaError};

/// Default capacity in bytes. An installation has some dozens of classes with some dozens of variables each, mostly
/// shared; each takes some hundred kilobytes.
const CAPACITY: usize = 256 << 20;

/// Number of insertions between two cleanups of dropped variables.
const SWEEP: usize = 1024;

/// Compiled variables, keyed by the content of their definitions (DEC-39): versions of a class share most of them.
///
/// Names of classes, uids and generations are not part of the key: a denied review may carry those of a real class.
/// Lookups for reviews are not cached. Compiled stored classes are cached up to the capacity, with eviction of the
/// least recently used (DEC-44), and compiled again on use.
pub struct ClassCache {
    kept: Mutex<CacheState>,
    /// Bytes of all live compiled parts, including those of reviews.
    live: Arc<AtomicUsize>,
    capacity: usize,
    slots: AtomicU64,
}

struct CacheState {
    /// By a digest of the definition, which is small even for a large definition.
    variables: HashMap<VariableDigest, Weak<CompiledVariable>>,
    /// By slot number of the class.
    classes: LruCache<u64, ClassEntry>,
    sweep_at: usize,
}

/// SHA-256 digest of the definition of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct VariableDigest([u8; 32]);

impl VariableDigest {
    fn from_content(content: &VariableContent) -> Self {
        let mut hasher = Sha256(digest::Context::new(&digest::SHA256));
        content.hash(&mut hasher);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(hasher.0.finish().as_ref());
        VariableDigest(bytes)
    }
}

/// Hashes the written bytes.
struct Sha256(digest::Context);

impl Hasher for Sha256 {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Unused: the digest is longer.
    fn finish(&self) -> u64 {
        0
    }
}

/// The compiled parts of a class.
#[derive(Default)]
struct ClassEntry {
    variables: Option<Arc<CompiledVariables>>,
    /// The compiled part of the layer above, with its memory.
    more: Option<(Arc<dyn Any + Send + Sync>, MemoryCharge)>,
}

/// The slot of a class in a [`ClassCache`]; dropping it evicts the class.
pub struct ClassSlot {
    number: u64,
    library: Arc<ClassCache>,
}

impl ClassSlot {
    /// Allocates a slot for a class.
    pub fn new(library: &Arc<ClassCache>) -> Self {
        ClassSlot { number: library.slots.fetch_add(1, Ordering::Relaxed), library: library.clone() }
    }

    /// The cached variables of the class.
    pub fn variables(&self) -> Option<Arc<CompiledVariables>> {
        self.library.with(|kept| kept.classes.get(&self.number)?.variables.clone())
    }

    /// Compiles and caches the variables of the class.
    ///
    /// # Errors
    /// When the allowance does not suffice.
    pub fn compile(
        &self,
        definitions: &[StatusVariable],
        allowance: &mut SchemaAllowance,
    ) -> Result<Arc<CompiledVariables>, SchemaError> {
        let compiled = self.library.compiled(definitions, allowance, true)?;
        self.library.keep(self.number, |entry| entry.variables = Some(compiled.clone()));
        Ok(compiled)
    }

    /// The cached part of the layer above, of about `bytes`; compiled if absent.
    pub fn more<T: Send + Sync + 'static>(&self, bytes: usize, compile: impl FnOnce() -> T) -> Arc<T> {
        let kept = self.library.with(|kept| Some(kept.classes.get(&self.number)?.more.as_ref()?.0.clone()));
        if let Some(Ok(kept)) = kept.map(Arc::downcast) {
            return kept;
        }
        let compiled = Arc::new(compile());
        let more = (compiled.clone() as Arc<dyn Any + Send + Sync>, MemoryCharge::new(&self.library.live, bytes));
        self.library.keep(self.number, |entry| entry.more = Some(more));
        compiled
    }
}

impl Drop for ClassSlot {
    fn drop(&mut self) {
        // The entry is dropped after the lock is released.
        let _entry = self.library.with(|kept| kept.classes.pop(&self.number));
    }
}

impl fmt::Debug for ClassSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.number).finish()
    }
}

impl ClassCache {
    /// A cache with a capacity in bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        let kept = CacheState { variables: HashMap::new(), classes: LruCache::unbounded(), sweep_at: SWEEP };
        ClassCache { kept: Mutex::new(kept), live: Arc::default(), capacity: bytes, slots: AtomicU64::new(0) }
    }

    /// The compiled form of definitions that may never be stored; missing variables are compiled, and not cached.
    ///
    /// # Errors
    /// When the allowance does not suffice.
    pub fn look_up(
        &self,
        definitions: &[StatusVariable],
        allowance: &mut SchemaAllowance,
    ) -> Result<Arc<CompiledVariables>, SchemaError> {
        self.compiled(definitions, allowance, false)
    }

    fn compiled(
        &self,
        definitions: &[StatusVariable],
        allowance: &mut SchemaAllowance,
        is_stored: bool,
    ) -> Result<Arc<CompiledVariables>, SchemaError> {
        let compiled = CompiledVariables::compile_with(definitions, allowance, |content, allowance| {
            let digest = VariableDigest::from_content(&content);
            if let Some(known) = self.with(|kept| kept.variables.get(&digest).and_then(Weak::upgrade)) {
                allowance.take(known.footprint)?;
                return Ok(known);
            }
            let variable = Arc::new(CompiledVariable::compile(&content, &self.live, allowance)?);
            if is_stored {
                self.note(digest, &variable);
            }
            Ok(variable)
        });
        compiled.map(Arc::new)
    }

    /// Bytes of all live compiled parts.
    pub fn bytes(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Registers a variable, so that it is found while it is in use.
    fn note(&self, digest: VariableDigest, variable: &Arc<CompiledVariable>) {
        self.with(|kept| {
            kept.variables.insert(digest, Arc::downgrade(variable));
            if kept.variables.len() >= kept.sweep_at {
                kept.variables.retain(|_, variable| variable.strong_count() > 0);
                kept.sweep_at = (kept.variables.len() * 2).max(SWEEP);
            }
        });
    }

    /// Changes the entry of a class, and evicts the least recently used entries above the capacity.
    fn keep(&self, slot: u64, change: impl FnOnce(&mut ClassEntry)) {
        self.with(|kept| change(kept.classes.get_or_insert_mut(slot, ClassEntry::default)));
        while self.bytes() > self.capacity {
            let least = self.with(|kept| if kept.classes.len() > 1 { kept.classes.pop_lru() } else { None });
            match least {
                // Memory is freed when it is dropped, which happens outside the lock.
                Some((_, entry)) => drop(entry),
                None => break,
            }
        }
    }

    fn with<R>(&self, act: impl FnOnce(&mut CacheState) -> R) -> R {
        act(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Default for ClassCache {
    fn default() -> Self {
        ClassCache::with_capacity(CAPACITY)
    }
}

impl fmt::Debug for ClassCache {
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
            {"name": "size", "definitions": [{"from": "inline",
                "schema": {"openAPIV3Schema": {"type": "integer", "default": default}}}]},
            {"name": "zone", "definitions": [{"from": "inline", "schema": {"openAPIV3Schema": {"type": "string"}}}]},
        ]}}))
        .unwrap();
        class.status.variables.to_vec()
    }

    /// Whether both share one compiled variable.
    fn shares(name: &str, one: &CompiledVariables, other: &CompiledVariables) -> bool {
        std::ptr::eq(one.get(name).unwrap(), other.get(name).unwrap())
    }

    fn keep(library: &Arc<ClassCache>, definitions: &[StatusVariable]) -> (ClassSlot, Arc<CompiledVariables>) {
        let slot = ClassSlot::new(library);
        let compiled = slot.compile(definitions, &mut SchemaAllowance::new(Stop::never())).unwrap();
        (slot, compiled)
    }

    fn look_up(library: &ClassCache, definitions: &[StatusVariable]) -> Arc<CompiledVariables> {
        library.look_up(definitions, &mut SchemaAllowance::new(Stop::never())).unwrap()
    }

    #[test]
    fn equal_definitions_are_compiled_once_and_a_review_caches_nothing() {
        // DEC-39
        let library = Arc::new(ClassCache::default());
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
        let library = Arc::new(ClassCache::default());
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
        let (_, one) = keep(&Arc::new(ClassCache::default()), &definitions(0));
        let each: usize = one.iter().map(|variable| variable.footprint.bytes()).sum();
        let library = Arc::new(ClassCache::with_capacity(each * 10));
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
        let library = Arc::new(ClassCache::with_capacity(100));
        let (one, two) = (ClassSlot::new(&library), ClassSlot::new(&library));
        assert_eq!((*one.more(60, || 1), *one.more(60, || 2), library.bytes()), (1, 1, 60));
        assert_eq!((*two.more(60, || 3), library.bytes()), (3, 60));
        assert_eq!(*one.more(60, || 4), 4, "it was not kept");
    }
}
