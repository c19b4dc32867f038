//! Dates from explicit input. What depends on the clock is among the impossible functions.

use super::super::context::Context;
use super::super::dates::{Time, ZERO};
use super::super::error::Failure;
use super::super::value::Value;
use super::Parameter::{self, Any, Text};
use super::{Arguments, Function};
use crate::calendar::{go_duration, of_seconds};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("toDate", &[Text, Text], |_, arguments| {
        Ok(Value::Time(Time::parse(arguments.text(0), arguments.text(1)).unwrap_or(ZERO)))
    }),
    Function::new("mustToDate", &[Text, Text], |_, arguments| {
        Time::parse(arguments.text(0), arguments.text(1)).map(Value::Time).map_err(Failure::new)
    }),
    Function::new("unixEpoch", &[Parameter::Time], |_, arguments| Ok(time(arguments, 0).seconds.to_string().into())),
    Function::new("must_date_modify", &[Text, Parameter::Time], modify),
    Function::new("mustDateModify", &[Text, Parameter::Time], modify),
    Function::new("duration", &[Any], |_, arguments| {
        let seconds = match arguments.any(0) {
            Value::Text(text) => text.parse().unwrap_or(0),
            Value::Int64(seconds) => *seconds,
            _ => 0,
        };
        Ok(of_seconds(seconds).into())
    }),
    Function::new("durationRound", &[Any], round),
];

fn time(arguments: &Arguments<'_, '_>, index: usize) -> Time {
    match arguments.any(index) {
        Value::Time(time) => *time,
        _ => ZERO,
    }
}

fn modify<'a>(_: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    let text = arguments.text(0);
    let shift = go_duration(text);
    let shift = shift
        .ok_or_else(|| Failure::new(format!("time: invalid duration {}", super::super::characters::quote(text))))?;
    Ok(Value::Time(time(arguments, 1).plus(shift)))
}

/// The largest unit that a duration exceeds.
fn round<'a>(_: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
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
        Value::Text(text) => go_duration(text).unwrap_or(0),
        Value::Int64(nanoseconds) => *nanoseconds,
        Value::Time(_) => return Err(Failure::NotDeterministic("durationRound of a time")),
        _ => 0,
    };
    let size = nanoseconds.unsigned_abs();
    let unit = UNITS.iter().find(|(_, unit)| size > *unit);
    Ok(unit.map_or_else(|| "0s".into(), |(name, unit)| format!("{}{name}", size / unit).into()))
}
