//! The progress of a simulation: a bar on standard error, only on a terminal, and only after a second.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::report::span;

/// Faster work ends before a user could read the bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar that appears when the work takes long.
pub(super) struct Progress {
    bar: ProgressBar,
    started: Instant,
}

impl Progress {
    /// Of so many Clusters.
    pub(super) fn of(clusters: usize) -> Self {
        let bar = ProgressBar::with_draw_target(u64::try_from(clusters).ok(), ProgressDrawTarget::hidden());
        let template =
            if clusters == 1 { "{spinner} {msg} simulated" } else { "{wide_bar} {pos} of {len} Clusters, {eta} left" };
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Progress { bar, started: Instant::now() }
    }

    /// One Cluster more is done.
    pub(super) fn add(&self) {
        self.bar.inc(1);
        self.show();
    }

    /// A simulation has come so far; told where there is one Cluster only.
    pub(super) fn reach(&self, seconds: i64) {
        if self.bar.length() != Some(1) {
            return;
        }
        self.bar.set_message(span(seconds));
        self.show();
    }

    fn show(&self) {
        if self.started.elapsed() > PATIENCE && self.bar.is_hidden() {
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
