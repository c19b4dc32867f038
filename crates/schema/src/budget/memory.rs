//! Memory shared by computations: each leases its part before it starts and returns it at the end (DEC-58).
//!
//! A large computation waits in the order of arrival. Small computations do not wait behind it: an eighth of the memory
//! is reserved for them, and while a large one waits they get no more than that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Stop;

/// Divisor of the pool: the share reserved for small computations.
const RESERVED: usize = 8;
/// Divisor of the pool: the maximum size of a small computation.
const SMALL: usize = 16;

/// A pool of memory shared by computations.
#[derive(Debug)]
pub struct MemoryPool {
    size: usize,
    /// Called by a waiting thread between two attempts.
    pause: fn(),
    state: Mutex<MemoryState>,
}

#[derive(Debug, Default)]
struct MemoryState {
    used: usize,
    /// The part of it that small computations use.
    used_by_small: usize,
    next: u64,
    /// Waiting large computations in the order of arrival, with the memory they need.
    waiting: BTreeMap<u64, usize>,
    refusals: u64,
}

/// A leased part of a pool, returned on drop.
#[derive(Debug)]
pub struct Lease {
    pool: Arc<MemoryPool>,
    bytes: usize,
    is_small: bool,
}

/// A request for a part of a pool. It keeps its place in the queue until it is dropped.
#[derive(Debug)]
pub struct LeaseRequest {
    pool: Arc<MemoryPool>,
    bytes: usize,
    /// The queue number of a large computation.
    place: Option<u64>,
    is_granted: bool,
}

impl MemoryPool {
    /// Creates a pool of `size` bytes.
    pub fn new(size: usize) -> Self {
        MemoryPool { size, pause: std::thread::yield_now, state: Mutex::default() }
    }

    /// Sets the function that a waiting thread calls between two attempts.
    #[must_use]
    pub fn with_pause(self, pause: fn()) -> Self {
        MemoryPool { pause, ..self }
    }

    /// A pool without a limit, for a process that computes one topology after another.
    pub fn unlimited() -> Self {
        MemoryPool::new(usize::MAX)
    }

    /// The largest lease that one computation can get.
    pub const fn capacity(&self) -> usize {
        self.size - self.size / RESERVED
    }

    /// The bytes of all computations together.
    pub const fn size(&self) -> usize {
        self.size
    }

    /// The bytes in use.
    pub fn used(&self) -> usize {
        self.state().used
    }

    /// How many computations did not get the memory that they asked for: before they began, or for more of it.
    pub fn refusals(&self) -> u64 {
        self.state().refusals
    }

    /// A request for memory. More than [`MemoryPool::most`] is never granted.
    pub fn request(self: &Arc<Self>, bytes: usize) -> LeaseRequest {
        let place = (bytes > self.size / SMALL).then(|| {
            let mut state = self.state();
            let place = state.next;
            state.next += 1;
            state.waiting.insert(place, bytes);
            place
        });
        LeaseRequest { pool: self.clone(), bytes, place, is_granted: false }
    }

    /// Waits on this thread for memory; `None` if `stop` is due first.
    pub fn take(self: &Arc<Self>, bytes: usize, stop: &Stop) -> Option<Lease> {
        let mut request = self.request(bytes);
        loop {
            if let Some(lease) = request.try_take() {
                return Some(lease);
            }
            if bytes > self.capacity() || stop.is_due() {
                return None;
            }
            (self.pause)();
        }
    }

    fn state(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeaseRequest {
    /// The lease, if the memory is free and no other request precedes this one.
    pub fn try_take(&mut self) -> Option<Lease> {
        let (size, bytes) = (self.pool.size, self.bytes);
        let mut state = self.pool.state();
        let of_small = size / RESERVED;
        let is_free = if let Some(place) = self.place {
            let is_first = state.waiting.first_key_value().is_some_and(|(first, _)| *first == place);
            // Memory of small computations beyond their reserve is not available.
            let used = state.used - state.used_by_small + state.used_by_small.max(of_small);
            is_first && used.saturating_add(bytes) <= size
        } else {
            let left = if state.waiting.is_empty() { size } else { of_small.saturating_sub(state.used_by_small) };
            bytes <= left.min(size - state.used)
        };
        if !is_free {
            return None;
        }
        state.used += bytes;
        let is_small = self.place.is_none();
        if is_small {
            state.used_by_small += bytes;
        }
        if let Some(place) = self.place.take() {
            state.waiting.remove(&place);
        }
        drop(state);
        self.is_granted = true;
        let bytes = std::mem::take(&mut self.bytes);
        Some(Lease { pool: self.pool.clone(), bytes, is_small })
    }
}

impl Drop for LeaseRequest {
    fn drop(&mut self) {
        if self.is_granted {
            return;
        }
        let mut state = self.pool.state();
        state.refusals += 1;
        if let Some(place) = self.place {
            state.waiting.remove(&place);
        }
    }
}

impl Lease {
    /// Enlarges the lease without waiting, since the computation would wait for itself.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let mut state = self.pool.state();
        let is_free = state.used.saturating_add(bytes) <= self.pool.size;
        if is_free {
            state.used += bytes;
            if self.is_small {
                state.used_by_small += bytes;
            }
            self.bytes += bytes;
        } else {
            state.refusals += 1;
        }
        is_free
    }

    /// Returns all but `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.give_back(less);
        self.bytes -= less;
    }

    fn give_back(&self, bytes: usize) {
        let mut state = self.pool.state();
        state.used -= bytes;
        if self.is_small {
            state.used_by_small -= bytes;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

/// The lease of a computation, shared by its parts; `None` if memory is unlimited.
#[derive(Clone, Debug, Default)]
pub struct SharedLease(Option<Arc<Mutex<Lease>>>);

impl SharedLease {
    /// Shares a lease among the parts of a computation; the last one returns it.
    pub fn new(lease: Lease) -> Self {
        SharedLease(Some(Arc::new(Mutex::new(lease))))
    }

    /// Returns all but `bytes`, when the remaining work needs less.
    pub fn shrink_to(&self, bytes: usize) {
        if let Some(lease) = &self.0 {
            lease.lock().unwrap_or_else(PoisonError::into_inner).shrink_to(bytes);
        }
    }

    /// Enlarges the lease; false if there is not enough memory.
    pub fn grow(&self, bytes: usize) -> bool {
        let grow = |lease: &Arc<Mutex<Lease>>| lease.lock().unwrap_or_else(PoisonError::into_inner).grow(bytes);
        bytes == 0 || self.0.as_ref().is_none_or(grow)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn pool() -> Arc<MemoryPool> {
        Arc::new(MemoryPool::new(1_600))
    }

    #[test]
    fn all_leases_together_stay_within_the_pool() {
        // DEC-58
        let pool = pool();
        assert_eq!(pool.capacity(), 1_400);
        let mut large = pool.request(1_400).try_take().unwrap();
        assert!(pool.request(101).try_take().is_none(), "the rest is for small ones");
        let small = [100, 100].map(|bytes| pool.request(bytes).try_take().unwrap());
        assert!(pool.request(1).try_take().is_none());
        assert!(!large.grow(1));
        drop(small);
        assert!(large.grow(200) && !large.grow(1));
        large.shrink_to(500);
        assert_eq!(pool.used(), 500);
        assert!(pool.request(900).try_take().is_some());
        drop(large);
        assert_eq!(pool.used(), 0);
        assert!(pool.request(1_401).try_take().is_none());
        assert!(pool.take(1_401, &Stop::never()).is_none(), "it would wait for ever");
    }

    #[test]
    fn computations_that_do_not_get_memory_are_counted_once() {
        // DEC-58
        let pool = pool();
        let mut held = pool.request(1_000).try_take().unwrap();
        assert_eq!((pool.size(), pool.used(), pool.refusals()), (1_600, 1_000, 0));
        let mut waits = pool.request(600);
        assert!(waits.try_take().is_none() && waits.try_take().is_none());
        assert_eq!(pool.refusals(), 0, "it goes on waiting");
        drop(waits);
        assert_eq!(pool.refusals(), 1);
        assert!(held.grow(600) && !held.grow(1));
        assert_eq!(pool.refusals(), 2);
        drop(held);
        assert!(pool.take(1_401, &Stop::never()).is_none());
        assert_eq!((pool.used(), pool.refusals()), (0, 3));
    }

    #[test]
    fn a_large_request_waits_in_its_turn_and_small_ones_pass_in_their_part() {
        // DEC-58
        let pool = pool();
        let many: Vec<Lease> = (0..10).map(|_| pool.request(100).try_take().unwrap()).collect();
        let mut first = pool.request(1_000);
        let mut second = pool.request(200);
        assert!(first.try_take().is_none());
        assert!(second.try_take().is_none(), "it came later, although it fits");
        assert!(pool.request(100).try_take().is_none(), "small ones have used their part");
        drop(many);
        let small = pool.request(100).try_take().unwrap();
        let first = first.try_take().unwrap();
        let second = second.try_take().unwrap();
        assert!(pool.request(100).try_take().is_some());
        drop((small, first, second));
        let mut given_up = pool.request(1_000);
        let _other = pool.request(900).try_take();
        assert!(given_up.try_take().is_some());
        drop(given_up);
        let abandoned = pool.request(1_000);
        drop(abandoned);
        assert!(pool.request(1_200).try_take().is_some());
    }

    #[test]
    fn a_thread_waits_until_memory_is_free_or_it_has_to_stop() {
        // DEC-58
        let pool = pool();
        let held = pool.take(1_000, &Stop::never()).unwrap();
        let other = std::thread::spawn({
            let pool = pool.clone();
            move || pool.take(1_000, &Stop::never()).is_some()
        });
        let looks = AtomicUsize::new(0);
        let stop = Stop::when(move || looks.fetch_add(1, Ordering::Relaxed) == 2);
        assert!(pool.take(1_000, &stop).is_none());
        drop(held);
        assert!(other.join().unwrap());
    }
}
