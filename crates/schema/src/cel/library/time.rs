//! Durations and points in time.

use super::{Function, function, method, one, tenths, unfit};
use crate::cel::fault::EvalError;
use crate::cel::value::Val;
use golang::calendar::{DAY, Moment, RANGE, SECOND, days, go_duration};

/// A duration in seconds: `1.5s`.
pub(super) fn seconds(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let (whole, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    match rest {
        0 => format!("{sign}{whole}s"),
        rest => format!("{sign}{whole}.{}s", format!("{rest:09}").trim_end_matches('0')),
    }
}

const PART_OF_TIME: &[&str] = &["timestamp->int", "timestamp string->int"];
const PART_OF_BOTH: &[&str] = &["timestamp->int", "timestamp string->int", "duration->int"];

pub(super) const FUNCTIONS: &[Function] =
    &[
        function("duration", &["duration->duration", "int->duration"], one, |_, args| match args {
            [Val::Duration(nanos) | Val::Int(nanos)] => Ok(Val::Duration(*nanos)),
            [Val::Text(text)] => read_duration(text.as_str()),
            _ => Err(unfit(args)),
        }),
        function(
            "duration",
            &["string->duration"],
            |size| tenths(1, size(0)).min(1),
            |_, args| match args {
                [Val::Text(text)] => read_duration(text.as_str()),
                [Val::Duration(nanos) | Val::Int(nanos)] => Ok(Val::Duration(*nanos)),
                _ => Err(unfit(args)),
            },
        ),
        function("timestamp", &["timestamp->timestamp", "int->timestamp", "string->timestamp"], one, |_, args| {
            match args {
                [Val::Timestamp(at)] => Ok(Val::Timestamp(*at)),
                [Val::Int(seconds)] if RANGE.contains(seconds) => {
                    Ok(Val::Timestamp(Moment { seconds: *seconds, nanos: 0 }))
                }
                [Val::Int(_)] => Err(EvalError::failed("timestamp overflow")),
                [Val::Text(text)] => match Moment::parse(text.as_str()) {
                    Some(at) => Ok(Val::Timestamp(at)),
                    None => Err(EvalError::failed("type conversion error to timestamp")),
                },
                _ => Err(unfit(args)),
            }
        }),
        method("getFullYear", PART_OF_TIME, one, |_, args| part(args, |at| at.date().0)),
        method("getMonth", PART_OF_TIME, one, |_, args| part(args, |at| at.date().1 - 1)),
        method("getDate", PART_OF_TIME, one, |_, args| part(args, |at| at.date().2)),
        method("getDayOfMonth", PART_OF_TIME, one, |_, args| part(args, |at| at.date().2 - 1)),
        method("getDayOfWeek", PART_OF_TIME, one, |_, args| {
            part(args, |at| (at.seconds.div_euclid(DAY) + 4).rem_euclid(7))
        }),
        method("getDayOfYear", PART_OF_TIME, one, |_, args| {
            part(args, |at| {
                let (year, ..) = at.date();
                let begin = days(year, 1, 1);
                at.seconds.div_euclid(DAY) - begin
            })
        }),
        method("getHours", PART_OF_BOTH, one, |_, args| match args {
            [Val::Duration(nanos)] => Ok(Val::Int(nanos / (3600 * SECOND))),
            _ => part(args, |at| at.seconds.rem_euclid(DAY) / 3600),
        }),
        method("getMinutes", PART_OF_BOTH, one, |_, args| match args {
            [Val::Duration(nanos)] => Ok(Val::Int(nanos / (60 * SECOND))),
            _ => part(args, |at| at.seconds.rem_euclid(3600) / 60),
        }),
        method("getSeconds", PART_OF_BOTH, one, |_, args| match args {
            [Val::Duration(nanos)] => Ok(Val::Int(nanos / SECOND)),
            _ => part(args, |at| at.seconds.rem_euclid(60)),
        }),
        method("getMilliseconds", PART_OF_BOTH, one, |_, args| match args {
            [Val::Duration(nanos)] => Ok(Val::Int(nanos / 1_000_000)),
            _ => part(args, |at| i64::from(at.nanos / 1_000_000)),
        }),
    ];

fn read_duration<'v>(text: &str) -> Result<Val<'v>, EvalError> {
    go_duration(text).map(Val::Duration).ok_or_else(|| EvalError::failed("type conversion error to duration"))
}

fn part<'v>(args: &[Val<'v>], of: fn(Moment) -> i64) -> Result<Val<'v>, EvalError> {
    match args {
        [Val::Timestamp(at)] => Ok(Val::Int(of(*at))),
        [Val::Timestamp(at), Val::Text(zone)] => {
            let shift = zone_seconds(zone.as_str()).ok_or_else(|| EvalError::failed("unknown time zone"))?;
            Ok(Val::Int(of(Moment { seconds: at.seconds.saturating_add(shift), ..*at })))
        }
        _ => Err(unfit(args)),
    }
}

/// UTC offset of a zone: `UTC` or `+02:00`. Named zones are not supported.
fn zone_seconds(zone: &str) -> Option<i64> {
    if zone.is_empty() || zone == "UTC" || zone == "Z" {
        return Some(0);
    }
    let (sign, rest) = match zone.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, zone.strip_prefix('+').unwrap_or(zone)),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let (hours, minutes) = (hours.parse::<u32>().ok()?, minutes.parse::<u32>().ok()?);
    (hours <= 23 && minutes <= 59).then(|| sign * i64::from(hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_zones_are_seconds() {
        assert_eq!(seconds(-1_500_000_000), "-1.5s");
        assert_eq!(zone_seconds("-01:30"), Some(-5400));
    }
}
