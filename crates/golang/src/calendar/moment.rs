//! Points in time, in UTC.

use std::fmt;
use std::sync::LazyLock;

use regex::Regex;

use super::civil::{DAY, civil, date};

static TIME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})([.][0-9]+)?([zZ]|[+-]([0-9]{2}):([0-9]{2}))$")
        .expect("the expression is a constant")
});

/// A point in time, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Since 1970.
    pub seconds: i64,
    /// Besides the seconds.
    pub nanos: u32,
}

/// The nanoseconds of a second.
pub const SECOND: i64 = 1_000_000_000;

/// The seconds from 0001-01-01T00:00:00Z to 9999-12-31T23:59:59Z.
pub const RANGE: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

impl Moment {
    /// Parses RFC 3339; rejects leap seconds.
    pub fn parse(text: &str) -> Option<Moment> {
        let (day, time) = text.split_once(['T', 't'])?;
        if let Some(second) = whole_second_of_day(time) {
            return Some(Moment { seconds: date(day)? * DAY + second, nanos: 0 });
        }
        let parts = TIME.captures(time)?;
        let number = |at: usize, most: i64| match parts.get(at) {
            Some(part) => part.as_str().parse::<i64>().ok().filter(|number| *number <= most),
            None => Some(0),
        };
        let (hour, minute, second) = (number(1, 23)?, number(2, 59)?, number(3, 59)?);
        let shift = number(6, 23)? * 3600 + number(7, 59)? * 60;
        let shift = if parts.get(5).is_some_and(|zone| zone.as_str().starts_with('-')) { -shift } else { shift };
        let digits = parts.get(4).map_or("", |fraction| fraction.as_str().trim_start_matches('.'));
        let nanos = format!("{digits:0<9.9}").parse().ok()?;
        Some(Moment { seconds: date(day)? * DAY + hour * 3600 + minute * 60 + second - shift, nanos })
    }

    /// The time `seconds` and `nanos` after 1970-01-01T00:00:00Z; `None` outside the years 1 to 9999.
    pub fn new(seconds: i64, nanos: i64) -> Option<Moment> {
        Moment { seconds, nanos: 0 }.plus(nanos)
    }

    /// This time plus `nanos` nanoseconds; `None` outside the years 1 to 9999.
    pub fn plus(self, nanos: i64) -> Option<Moment> {
        let total = i128::from(self.seconds) * i128::from(SECOND) + i128::from(self.nanos) + i128::from(nanos);
        let seconds = i64::try_from(total.div_euclid(i128::from(SECOND))).ok()?;
        let nanos = u32::try_from(total.rem_euclid(i128::from(SECOND))).ok()?;
        RANGE.contains(&seconds).then_some(Moment { seconds, nanos })
    }

    /// The nanoseconds since another point.
    pub fn since(self, other: Moment) -> Option<i64> {
        let seconds = self.seconds.checked_sub(other.seconds)?.checked_mul(SECOND)?;
        seconds.checked_add(i64::from(self.nanos) - i64::from(other.nanos))
    }

    /// Year, month and day of the month.
    pub fn date(self) -> (i64, i64, i64) {
        civil(self.seconds.div_euclid(DAY))
    }
}

/// The second of the day of a time such as `03:04:05Z`, the form in which Kubernetes writes nearly all times; `None`
/// for other forms and invalid times.
fn whole_second_of_day(time: &str) -> Option<i64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2, b'Z'] = *time.as_bytes() else { return None };
    let number = |tens: u8, ones: u8, most: i64| {
        let both = tens.is_ascii_digit() && ones.is_ascii_digit();
        let number = i64::from(tens.wrapping_sub(b'0')) * 10 + i64::from(ones.wrapping_sub(b'0'));
        (both && number <= most).then_some(number)
    };
    Some(number(h1, h2, 23)? * 3600 + number(m1, m2, 59)? * 60 + number(s1, s2, 59)?)
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.date();
        let second = self.seconds.rem_euclid(DAY);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if self.nanos > 0 {
            let digits = format!("{:09}", self.nanos);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

/// A date and time of RFC 3339 in UTC without fractions of a second, as Kubernetes writes it; `None` for any other
/// text.
pub fn in_utc(text: &str) -> Option<String> {
    Some(Moment { nanos: 0, ..Moment::parse(text)? }.to_string())
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
    }

    #[test]
    fn the_usual_spelling_of_a_time_is_read_as_all_others_are() {
        for time in
            ["00:00:00", "03:04:05", "23:59:59", "24:00:00", "23:60:00", "23:59:60", "1a:00:00", "-1:00:00", "01:00:0:"]
        {
            for day in ["2030-01-02", "2028-02-29", "2030-02-29", "30-01-02", "2030-01", "2030-01-02-03"] {
                let read = |zone: &str| Moment::parse(&format!("{day}T{time}{zone}"));
                assert_eq!(read("Z"), read("+00:00"), "{day}T{time}");
            }
        }
        assert_eq!(Moment::parse("1970-01-02T01:02:03Z"), Some(Moment { seconds: 90_123, nanos: 0 }));
        assert_eq!(Moment::parse("2030-01-02T23:59:60Z"), None);
    }

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
