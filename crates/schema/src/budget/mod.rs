//! Budgets for sums, and deadlines that stop work (DEC-44).
//!
//! A [`Pool`] is deterministic: the same input takes the same amount from it, so running out of it is a mistake of the input. Time
//! is not deterministic: a [`Stop`] is set by an edge, the core asks it between parts, and a result that was cut short by it is
//! no result. A [`MemoryPool`] is shared by work that goes on at the same time, which waits for it.

mod memory;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use memory::{Lease, LeaseRequest, MemoryPool, SharedLease};

/// An amount that several parts share.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    /// What is counted, for messages.
    what: &'static str,
    limit: usize,
    left: usize,
}

/// More was asked of a [`Pool`] than was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("exceeds the limit of {limit} {what}")]
pub struct Exceeded {
    /// What is counted.
    pub what: &'static str,
    /// The size of the full pool.
    pub limit: usize,
}

impl Pool {
    /// A full pool of `limit` units; `what` names them in messages.
    pub const fn new(limit: usize, what: &'static str) -> Self {
        Pool { what, limit, left: limit }
    }

    /// A pool that never runs out, for input that is trusted.
    pub const fn unlimited() -> Self {
        Pool::new(usize::MAX, "units")
    }

    /// Takes an amount.
    ///
    /// # Errors
    /// When less is left; then nothing is left.
    pub fn take(&mut self, amount: usize) -> Result<(), Exceeded> {
        match self.left.checked_sub(amount) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(self.exhaust()),
        }
    }

    /// Leaves nothing in the pool, and says that it is exceeded.
    pub(crate) fn exhaust(&mut self) -> Exceeded {
        self.left = 0;
        Exceeded { what: self.what, limit: self.limit }
    }

    /// What is left.
    pub fn left(&self) -> usize {
        self.left
    }

    /// The amount taken.
    pub fn taken(&self) -> usize {
        self.limit - self.left
    }
}

/// Whether work should end although it is not finished: its deadline is over, or its caller has gone.
#[derive(Clone, Default)]
pub struct Stop(Option<Arc<Asked>>);

struct Asked {
    is_over: Box<dyn Fn() -> bool + Send + Sync>,
    has_stopped: AtomicBool,
}

impl Stop {
    /// Work that is never stopped.
    pub const fn never() -> Self {
        Stop(None)
    }

    /// Work that is stopped once `is_over` says so. It is asked often, so it should answer within a microsecond.
    pub fn when(is_over: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Stop(Some(Arc::new(Asked { is_over: Box::new(is_over), has_stopped: AtomicBool::new(false) })))
    }

    /// Whether to end now. Once it has said yes it never says no.
    pub fn is_due(&self) -> bool {
        self.0.as_ref().is_some_and(|asked| {
            let is_due = asked.has_stopped.load(Ordering::Relaxed) || (asked.is_over)();
            if is_due {
                asked.has_stopped.store(true, Ordering::Relaxed);
            }
            is_due
        })
    }

    /// Whether some part was told to end, so that the result is no result.
    pub fn has_stopped(&self) -> bool {
        self.0.as_ref().is_some_and(|asked| asked.has_stopped.load(Ordering::Relaxed))
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stop").field("has_stopped", &self.has_stopped()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn a_pool_bounds_the_sum_of_its_parts() {
        // DEC-44
        let mut pool = Pool::new(10, "nodes");
        assert_eq!((pool.take(6), pool.take(4), pool.left(), pool.taken()), (Ok(()), Ok(()), 0, 10));
        let mut pool = Pool::new(10, "nodes");
        assert_eq!(pool.take(6), Ok(()));
        let error = pool.take(5).unwrap_err();
        assert_eq!((error.to_string().as_str(), pool.left()), ("exceeds the limit of 10 nodes", 0));
        assert!(pool.take(1).is_err(), "nothing fits after the part that did not");
        assert_eq!(Pool::unlimited().take(usize::MAX), Ok(()));
    }

    #[test]
    fn a_stop_remembers_that_it_was_due() {
        // DEC-44
        let asked = Arc::new(AtomicUsize::new(0));
        let stop = Stop::when({
            let asked = asked.clone();
            move || asked.fetch_add(1, Ordering::Relaxed) == 1
        });
        assert!(!stop.is_due() && !stop.has_stopped());
        assert!(stop.clone().is_due() && stop.has_stopped() && stop.is_due());
        assert_eq!(asked.load(Ordering::Relaxed), 2, "it is not asked again");
        assert!(!Stop::never().is_due() && !Stop::default().has_stopped());
    }
}
