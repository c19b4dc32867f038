//! OpenAPI v3 schemas of variables: checked when they are written, compiled once, applied to values often.
//!
//! ```text
//! Definition (as written) ─► check.rs ─► Schema (compiled) ─► acquit.rs    sees at a glance that all is well, or else
//!                              └─ Findings                 ├► default.rs   fills what is missing
//!                                                          ├► validate.rs  says what is wrong
//!                                                          ├► unknown.rs   names what nobody knows
//!                                                          ├► cel/         runs rules on what is right so far
//!                                                          └► sample.rs    makes a small value that is valid
//! ```
//!
//! The dialect is that of Kubernetes: no `$ref`, no `nullable`, RE2 patterns, `x-kubernetes-…` extensions. A *core* node is
//! reached through `properties`, `additionalProperties` and `items` only; a *junctor* node stands below `allOf`, `anyOf`,
//! `oneOf` or `not`. Nothing here knows Cluster API.

mod acquit;
mod allowance;
mod cel;
mod check;
mod default;
mod definition;
mod format;
mod node;
mod rules;
mod sample;
mod unknown;
mod validate;

pub use acquit::Sight;
pub use allowance::{Allowance, Breach, Effort, Extent, Footprint, Growth};
pub use cel::CelCost;
pub use check::check;
pub use definition::{Definition, Metadata, Step, ValidationRule};
pub use node::{SENSITIVE, Schema, Unusable};
pub use sample::{Breadth, NoSample};
pub use validate::Violation;

/// A date and time of RFC 3339 in UTC and without fractions of a second, as Kubernetes writes one that it has read; `None`
/// for another text.
pub fn in_utc(text: &str) -> Option<String> {
    let (seconds, _) = format::date_time(text)?;
    Some(cel::Moment { seconds, nanos: 0 }.to_string())
}

#[cfg(test)]
mod tests {
    use super::in_utc;

    #[test]
    fn a_moment_is_written_in_utc_to_the_second() {
        for (text, want) in [
            ("2030-01-02T03:04:05Z", Some("2030-01-02T03:04:05Z")),
            ("2030-01-02T03:04:05.999+02:30", Some("2030-01-02T00:34:05Z")),
            ("2029-12-31t23:00:00-01:00", Some("2030-01-01T00:00:00Z")),
            ("2030-01-02", None),
            ("soon", None),
        ] {
            assert_eq!(in_utc(text).as_deref(), want, "{text}");
        }
    }
}
