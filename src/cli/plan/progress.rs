//! The progress bar of a plan: on standard error, only on a terminal, and only after a second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Faster work ends before a user could read the bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar that appears when the work takes long.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    started: Instant,
    is_shown: AtomicBool,
}

impl Progress {
    /// Of so many Clusters, in a work that began at `started`.
    pub(super) fn of(clusters: usize, started: Instant) -> Self {
        let bar = ProgressBar::with_draw_target(u64::try_from(clusters).ok(), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} Clusters, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Progress { bar, started, is_shown: AtomicBool::new(false) }
    }

    /// So many Clusters more are done.
    pub(super) fn add(&self, clusters: usize) {
        self.bar.inc(u64::try_from(clusters).unwrap_or_default());
        if self.started.elapsed() > PATIENCE && !self.is_shown.swap(true, Ordering::Relaxed) {
            // Hidden as well where standard error is no terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
