//! Budgets for amounts, and deadlines that stop work (DEC-44).
//!
//! A [`Budget`] is deterministic: the same input takes the same amount, so an exceeded budget is an error of the input.
//! Time is not deterministic: an edge sets a [`Stop`], the core polls it between steps, and a result that was cut short
//! is discarded. Concurrent work shares a [`MemoryPool`] and waits for it.

mod memory;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use memory::{Lease, LeaseRequest, MemoryPool, SharedLease};

/// An amount shared by several parts of a computation.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// The counted unit, for messages.
    what: &'static str,
    limit: usize,
    left: usize,
}

/// The error of a [`Budget`] that has too little left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("exceeds the limit of {limit} {what}")]
pub struct Exceeded {
    /// The counted unit.
    pub what: &'static str,
    /// The full amount.
    pub limit: usize,
}

impl Budget {
    /// A budget of `limit` units; `what` names them in messages.
    pub const fn new(limit: usize, what: &'static str) -> Self {
        Budget { what, limit, left: limit }
    }

    /// A budget without a limit, for trusted input.
    pub const fn unlimited() -> Self {
        Budget::new(usize::MAX, "units")
    }

    /// Takes an amount.
    ///
    /// # Errors
    /// When less is left; the budget is then empty.
    pub fn take(&mut self, amount: usize) -> Result<(), Exceeded> {
        match self.left.checked_sub(amount) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(self.exhaust()),
        }
    }

    /// Empties the budget and returns the error.
    pub(crate) fn exhaust(&mut self) -> Exceeded {
        self.left = 0;
        Exceeded { what: self.what, limit: self.limit }
    }

    /// The remaining amount.
    pub fn left(&self) -> usize {
        self.left
    }

    /// The amount taken.
    pub fn taken(&self) -> usize {
        self.limit - self.left
    }
}

/// A signal to end work early: its deadline has passed, or its caller has disconnected.
#[derive(Clone, Default)]
pub struct Stop(Option<Arc<StopState>>);

struct StopState {
    is_over: Box<dyn Fn() -> bool + Send + Sync>,
    has_stopped: AtomicBool,
}

impl Stop {
    /// A signal that is never due.
    pub const fn never() -> Self {
        Stop(None)
    }

    /// A signal that is due once `is_over` returns true. It is polled often, so `is_over` should return within a
    /// microsecond.
    pub fn when(is_over: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Stop(Some(Arc::new(StopState { is_over: Box::new(is_over), has_stopped: AtomicBool::new(false) })))
    }

    /// Whether to end now. Stays true once it is true.
    pub fn is_due(&self) -> bool {
        self.0.as_ref().is_some_and(|state| {
            let is_due = state.has_stopped.load(Ordering::Relaxed) || (state.is_over)();
            if is_due {
                state.has_stopped.store(true, Ordering::Relaxed);
            }
            is_due
        })
    }

    /// Whether the signal was due when it was polled, so that the result must be discarded.
    pub fn has_stopped(&self) -> bool {
        self.0.as_ref().is_some_and(|state| state.has_stopped.load(Ordering::Relaxed))
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
        let mut pool = Budget::new(10, "nodes");
        assert_eq!((pool.take(6), pool.take(4), pool.left(), pool.taken()), (Ok(()), Ok(()), 0, 10));
        let mut pool = Budget::new(10, "nodes");
        assert_eq!(pool.take(6), Ok(()));
        let error = pool.take(5).unwrap_err();
        assert_eq!((error.to_string().as_str(), pool.left()), ("exceeds the limit of 10 nodes", 0));
        assert!(pool.take(1).is_err(), "nothing fits after the part that did not");
        assert_eq!(Budget::unlimited().take(usize::MAX), Ok(()));
    }

    #[test]
    fn a_stop_remembers_that_it_was_due() {
        // DEC-44
        let polls = Arc::new(AtomicUsize::new(0));
        let stop = Stop::when({
            let polls = polls.clone();
            move || polls.fetch_add(1, Ordering::Relaxed) == 1
        });
        assert!(!stop.is_due() && !stop.has_stopped());
        assert!(stop.clone().is_due() && stop.has_stopped() && stop.is_due());
        assert_eq!(polls.load(Ordering::Relaxed), 2, "it is not asked again");
        assert!(!Stop::never().is_due() && !Stop::default().has_stopped());
    }
}
