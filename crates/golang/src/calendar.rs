//! Civil dates, points in time and durations, in the formats of [RFC 3339](https://www.rfc-editor.org/rfc/rfc3339) and
//! [Go](https://pkg.go.dev/time#ParseDuration). Uses nothing of the crate.

mod civil;
#[cfg(test)]
mod comparison_with_jiff;
mod duration;
mod moment;

pub use civil::{DAY, civil, date, days};
pub use duration::{duration, format_seconds, go_duration, is_duration, whole_seconds};
pub use moment::{Moment, RANGE, SECOND, in_utc};
