//! Dates from explicit input. What depends on the clock is among the impossible functions.

use super::super::context::RenderContext;
use super::super::dates::{Time, ZERO};
use super::super::error::RenderFailure;
use super::super::value::TemplateValue;
use super::Parameter::{self, Any, Text};
use super::{CallArguments, TemplateFunction};
use crate::calendar::{format_seconds, go_duration};

pub(super) const FUNCTIONS: &[TemplateFunction] = &[
    TemplateFunction::new("toDate", &[Text, Text], |_, arguments| {
        Ok(TemplateValue::Time(Time::parse(arguments.text(0), arguments.text(1)).unwrap_or(ZERO)))
    }),
    TemplateFunction::new("mustToDate", &[Text, Text], |_, arguments| {
        Time::parse(arguments.text(0), arguments.text(1))
            .map(TemplateValue::Time)
            .map_err(|error| RenderFailure::new(error.to_string()))
    }),
    TemplateFunction::new("unixEpoch", &[Parameter::Time], |_, arguments| {
        Ok(time(arguments, 0).seconds.to_string().into())
    }),
    TemplateFunction::new("must_date_modify", &[Text, Parameter::Time], modify),
    TemplateFunction::new("mustDateModify", &[Text, Parameter::Time], modify),
    TemplateFunction::new("duration", &[Any], |_, arguments| {
        let seconds = match arguments.any(0) {
            TemplateValue::Text(text) => text.parse().unwrap_or(0),
            TemplateValue::Int64(seconds) => *seconds,
            _ => 0,
        };
        Ok(format_seconds(seconds).into())
    }),
    TemplateFunction::new("durationRound", &[Any], round),
];

fn time(arguments: &CallArguments<'_, '_>, index: usize) -> Time {
    match arguments.any(index) {
        TemplateValue::Time(time) => *time,
        _ => ZERO,
    }
}

fn modify<'a>(
    _: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let text = arguments.text(0);
    let shift = go_duration(text);
    let shift = shift.ok_or_else(|| {
        RenderFailure::new(format!("time: invalid duration {}", super::super::characters::quote(text)))
    })?;
    Ok(TemplateValue::Time(time(arguments, 1).plus(shift)))
}

/// The largest unit that a duration exceeds.
fn round<'a>(_: &mut RenderContext<'a>, arguments: &CallArguments<'_, 'a>) -> Result<TemplateValue<'a>, RenderFailure> {
    const SECOND: u64 = 1_000_000_000;
    const UNITS: [(&str, u64); 6] = [
        ("y", 365 * 86_400 * SECOND),
        ("mo", 30 * 86_400 * SECOND),
        ("d", 86_400 * SECOND),
        ("h", 3600 * SECOND),
        ("m", 60 * SECOND),
        ("s", SECOND),
    ];
    let nanoseconds = match arguments.any(0) {
        TemplateValue::Text(text) => go_duration(text).unwrap_or(0),
        TemplateValue::Int64(nanoseconds) => *nanoseconds,
        TemplateValue::Time(_) => return Err(RenderFailure::NotDeterministic("durationRound of a time")),
        _ => 0,
    };
    let size = nanoseconds.unsigned_abs();
    let unit = UNITS.iter().find(|(_, unit)| size > *unit);
    Ok(unit.map_or_else(|| "0s".into(), |(name, unit)| format!("{}{name}", size / unit).into()))
}
