//! The progress of `serve --embedded` at its start: one line on standard error, on a terminal, that is replaced.

use super::output;

/// The line, on a terminal; nothing elsewhere. Dropping it erases the line.
#[derive(Debug)]
pub(super) struct StatusLine {
    is_shown: bool,
}

impl StatusLine {
    /// A line if it is wanted and standard error is a terminal.
    pub(super) fn new(wanted: bool) -> Self {
        StatusLine { is_shown: wanted && output::has_terminal_for_messages() }
    }

    pub(super) fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// Replaces the line.
    pub(super) fn step(&self, text: &str) {
        if self.is_shown {
            output::progress(text);
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if self.is_shown {
            output::progress("");
        }
    }
}
