//! A progress bar on standard error, only on a terminal, and only after a second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressDrawTarget, ProgressStyle};

/// Delay before the bar is shown: faster work ends before a user could read it.
const PATIENCE: Duration = Duration::from_secs(1);
/// The template of the bar for work on several Clusters.
pub(super) const OF_CLUSTERS: &str = "{wide_bar} {pos} of {len} Clusters, {eta} left";

/// A progress bar that is shown when the work takes long.
#[derive(Debug)]
pub(super) struct ProgressBar {
    bar: indicatif::ProgressBar,
    started: Instant,
    is_shown: AtomicBool,
}

impl ProgressBar {
    /// A bar of `length` parts of work that began at `started`, in the form of a template of `indicatif`.
    pub(super) fn new(length: usize, template: &str, started: Instant) -> Self {
        let bar = indicatif::ProgressBar::with_draw_target(u64::try_from(length).ok(), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        ProgressBar { bar, started, is_shown: AtomicBool::new(false) }
    }

    /// Adds completed parts.
    pub(super) fn add(&self, parts: usize) {
        self.bar.inc(u64::try_from(parts).unwrap_or_default());
        self.show();
    }

    /// Replaces the message of a bar of one part; others show none.
    pub(super) fn set_message(&self, message: impl FnOnce() -> String) {
        if self.bar.length() != Some(1) {
            return;
        }
        self.bar.set_message(message());
        self.show();
    }

    fn show(&self) {
        if self.started.elapsed() > PATIENCE && !self.is_shown.swap(true, Ordering::Relaxed) {
            // Hidden as well where standard error is no terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
