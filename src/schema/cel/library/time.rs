//! Durations and points in time.

use std::fmt;

use super::{Function, function, method, one, tenths, unfit};
use crate::schema::cel::fault::Fault;
use crate::schema::cel::value::Val;
use crate::schema::format;

/// A point in time, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::schema) struct Moment {
    /// Since 1970.
    pub seconds: i64,
    pub nanos: u32,
}

const SECOND: i64 = 1_000_000_000;

/// 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z.
const RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

impl Moment {
    /// A point so many seconds and nanoseconds after the beginning of 1970, within the years 1 to 9999.
    pub(in crate::schema::cel) fn new(seconds: i64, nanos: i64) -> Option<Moment> {
        Moment { seconds, nanos: 0 }.plus(nanos)
    }

    /// The point so many nanoseconds later, within the years 1 to 9999.
    pub(super) fn plus(self, nanos: i64) -> Option<Moment> {
        let total = i128::from(self.seconds) * i128::from(SECOND) + i128::from(self.nanos) + i128::from(nanos);
        let seconds = i64::try_from(total.div_euclid(i128::from(SECOND))).ok()?;
        let nanos = u32::try_from(total.rem_euclid(i128::from(SECOND))).ok()?;
        RANGE.contains(&seconds).then_some(Moment { seconds, nanos })
    }

    /// The nanoseconds since another point.
    pub(super) fn since(self, other: Moment) -> Option<i64> {
        let seconds = self.seconds.checked_sub(other.seconds)?.checked_mul(SECOND)?;
        seconds.checked_add(i64::from(self.nanos) - i64::from(other.nanos))
    }

    /// Year, month and day of the month.
    fn date(self) -> (i64, i64, i64) {
        // Days of a year that begins in March, so that the leap day comes last (the proleptic Gregorian calendar).
        let days = self.seconds.div_euclid(86_400) + 719_468;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        (year + era * 400 + i64::from(month <= 2), month, day)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.date();
        let second = self.seconds.rem_euclid(86_400);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if self.nanos > 0 {
            let digits = format!("{:09}", self.nanos);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

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
                [Val::Int(_)] => Err(Fault::of("timestamp overflow")),
                [Val::Text(text)] => match format::date_time(text.as_str()) {
                    Some((seconds, nanos)) => Ok(Val::Timestamp(Moment { seconds, nanos })),
                    None => Err(Fault::of("type conversion error to timestamp")),
                },
                _ => Err(unfit(args)),
            }
        }),
        method("getFullYear", PART_OF_TIME, one, |_, args| part(args, |at| at.date().0)),
        method("getMonth", PART_OF_TIME, one, |_, args| part(args, |at| at.date().1 - 1)),
        method("getDate", PART_OF_TIME, one, |_, args| part(args, |at| at.date().2)),
        method("getDayOfMonth", PART_OF_TIME, one, |_, args| part(args, |at| at.date().2 - 1)),
        method("getDayOfWeek", PART_OF_TIME, one, |_, args| {
            part(args, |at| (at.seconds.div_euclid(86_400) + 4).rem_euclid(7))
        }),
        method("getDayOfYear", PART_OF_TIME, one, |_, args| {
            part(args, |at| {
                let (year, ..) = at.date();
                let begin = format::days(year, 1, 1);
                at.seconds.div_euclid(86_400) - begin
            })
        }),
        method("getHours", PART_OF_BOTH, one, |_, args| match args {
            [Val::Duration(nanos)] => Ok(Val::Int(nanos / (3600 * SECOND))),
            _ => part(args, |at| at.seconds.rem_euclid(86_400) / 3600),
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

fn read_duration<'v>(text: &str) -> Result<Val<'v>, Fault> {
    format::go_duration(text).map(Val::Duration).ok_or_else(|| Fault::of("type conversion error to duration"))
}

fn part<'v>(args: &[Val<'v>], of: fn(Moment) -> i64) -> Result<Val<'v>, Fault> {
    match args {
        [Val::Timestamp(at)] => Ok(Val::Int(of(*at))),
        [Val::Timestamp(at), Val::Text(zone)] => {
            let shift = zone_seconds(zone.as_str()).ok_or_else(|| Fault::of("unknown time zone"))?;
            Ok(Val::Int(of(Moment { seconds: at.seconds.saturating_add(shift), ..*at })))
        }
        _ => Err(unfit(args)),
    }
}

/// The distance of a zone from UTC: `UTC` or `+02:00`. There is no table of named zones.
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
    fn points_in_time_have_their_dates() {
        for (seconds, want) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (-62_135_596_800, "0001-01-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
            (1_704_164_645, "2024-01-02T03:04:05Z"),
        ] {
            assert_eq!(Moment { seconds, nanos: 0 }.to_string(), want);
        }
        assert_eq!(Moment { seconds: 0, nanos: 500_000_000 }.to_string(), "1970-01-01T00:00:00.5Z");
        assert_eq!(Moment { seconds: 253_402_300_799, nanos: 0 }.plus(SECOND), None);
        assert_eq!(seconds(-1_500_000_000), "-1.5s");
        assert_eq!(zone_seconds("-01:30"), Some(-5400));
    }
}
