//! Durations as Go writes them, `1h15m30.918s`, and whole seconds.

/// Nanoseconds of each unit, longest names first where one is a prefix of another.
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Whole seconds of a duration, cut toward zero and capped at the largest 32-bit number (CONV-004); `None` if the text
/// is not a duration of at most 64 bits of nanoseconds.
pub(super) fn whole_seconds(text: &str) -> Option<i32> {
    let seconds = nanoseconds(text)? / 1_000_000_000;
    i32::try_from(seconds.clamp(i32::MIN.into(), i32::MAX.into())).ok()
}

/// The duration of this many seconds: `1h15m30s`, `5m0s`, `0s` (CONV-004).
pub fn of_seconds(seconds: i32) -> String {
    let sign = if seconds < 0 { "-" } else { "" };
    let all = seconds.unsigned_abs();
    let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, _) => format!("{sign}{minutes}m{seconds}s"),
        _ => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

fn nanoseconds(text: &str) -> Option<i128> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (amount, after) = term(rest)?;
        total += amount;
        rest = after;
        if total > i128::from(i64::MAX) {
            return None;
        }
    }
    Some(sign * total)
}

/// One number with its unit: `1.5h`.
fn term(text: &str) -> Option<(i128, &str)> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(after) => digits(after),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (_, unit) = UNITS.into_iter().find(|(name, _)| *name == &rest[..end])?;
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()?.into() };
    Some((whole.checked_mul(unit)? + part_of(fraction, unit), &rest[end..]))
}

/// The digits after the point as a part of `unit`; digits below a nanosecond are dropped.
fn part_of(fraction: &str, unit: i128) -> i128 {
    let digits = &fraction[..fraction.len().min(18)];
    let scale = 10_i128.pow(u32::try_from(digits.len()).unwrap_or(0));
    digits.parse::<i128>().map_or(0, |digits| digits * unit / scale)
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::{of_seconds, whole_seconds};

    #[test]
    fn seconds_become_durations_that_read_the_same() {
        // CONV-004
        for (seconds, want) in [
            (0, "0s"),
            (59, "59s"),
            (300, "5m0s"),
            (3600, "1h0m0s"),
            (4530, "1h15m30s"),
            (-90, "-1m30s"),
            (i32::MAX, "596523h14m7s"),
            (i32::MIN, "-596523h14m8s"),
        ] {
            assert_eq!(of_seconds(seconds), want);
            assert_eq!(whole_seconds(want), Some(seconds), "{want}");
        }
    }

    #[test]
    fn durations_become_whole_seconds() {
        // CONV-004
        for (text, want) in [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("10s", Some(10)),
            ("1h15m30.918s", Some(4530)),
            ("1.5h", Some(5400)),
            (".5m", Some(30)),
            ("500ms", Some(0)),
            ("999999µs", Some(0)),
            ("-1.9s", Some(-1)),
            ("+2s", Some(2)),
            ("1000000h", Some(i32::MAX)),
            ("-1000000h", Some(i32::MIN)),
            ("", None),
            ("-", None),
            ("10", None),
            ("10 s", None),
            ("1d", None),
            (".s", None),
            ("1..5s", None),
            ("9223372036854775808ns", None),
            ("99999999999999999999h", None),
        ] {
            assert_eq!(whole_seconds(text), want, "{text:?}");
        }
    }
}
