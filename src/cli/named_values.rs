//! The values of flags whose types belong to other crates.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use ::server::telemetry::log::Format;
use engine::admission::{Dependents, Deprecated, Enforce};
use engine::impact::UnknownImpact;

/// A value with its name and its description in `--help`.
pub(super) type NamedValue<T> = (&'static str, &'static str, T);

pub(super) const DEPENDENTS: &[NamedValue<Dependents>] = &[
    ("deny", "Deny the change", Dependents::Deny),
    ("warn", "Allow the change with warnings", Dependents::Warn),
    ("off", "Do not check the Clusters", Dependents::Off),
];
pub(super) const DEPRECATED: &[NamedValue<Deprecated>] = &[
    ("warn", "Allow the Cluster with warnings", Deprecated::Warn),
    ("deny", "Deny new uses; warn about uses that the Cluster had before", Deprecated::Deny),
];
pub(super) const ENFORCE: &[NamedValue<Enforce>] = &[
    ("deny", "Deny the request", Enforce::Deny),
    ("warn", "Allow the request, with the denial as a warning", Enforce::Warn),
];
pub(super) const UNKNOWN_IMPACT: &[NamedValue<UnknownImpact>] = &[
    ("bound", "Count all machines that may go", UnknownImpact::Bound),
    ("warn", "Count none of them, with a warning", UnknownImpact::Warn),
];
pub(super) const LOG_FORMAT: &[NamedValue<Format>] =
    &[("text", "Human-readable text", Format::Text), ("json", "One JSON object per line", Format::Json)];

/// Parses the name of one of the values.
pub(super) fn named<T: Copy + Send + Sync + 'static>(
    values: &'static [NamedValue<T>],
) -> impl TypedValueParser<Value = T> {
    let names = values.iter().map(|(name, help, _)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(names).try_map(|given| {
        let value = values.iter().find(|(name, ..)| *name == given);
        value.map(|(.., value)| *value).ok_or("it is none of the values")
    })
}
