//! Durations: Go's `1h15m30.918s`, and the longer units of schema formats, `1 day 12 hours`.

use std::sync::LazyLock;

use regex::Regex;

/// A whole number and the word behind it.
static COUNTED_UNIT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)").expect("the expression is a constant"));

static GO_DURATION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[+-]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$")
        .expect("the expression is a constant")
});

/// Whether a text is a duration of either form.
pub fn is_duration(text: &str) -> bool {
    duration(text).is_some()
}

/// A Go duration, or else the sum of all whole numbers in the text that stand in front of a unit, in nanoseconds
/// (VAR-V-024). Like Go's arithmetic, the sum wraps at 64 bits.
pub fn duration(text: &str) -> Option<i64> {
    if let Some(nanoseconds) = go_duration(text) {
        return Some(nanoseconds);
    }
    let mut total = None;
    for counted in COUNTED_UNIT.captures_iter(text) {
        let (_, [count, unit]) = counted.extract();
        let count: i64 = count.parse().ok()?;
        if let Some(unit) = nanoseconds_of(&unit.to_lowercase()) {
            total = Some(total.unwrap_or(0_i64).wrapping_add(count.wrapping_mul(unit)));
        }
    }
    total
}

/// A duration as Go prints and reads it (`1h30m`), in nanoseconds; none beyond 64 bits.
pub fn go_duration(text: &str) -> Option<i64> {
    GO_DURATION.is_match(text).then(|| nanoseconds(text))?
}

/// The sum of the numbers with units in a Go duration.
fn nanoseconds(text: &str) -> Option<i64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut total = 0_i128;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        let tail = tail.trim_start();
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.' || c == ' ').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let unit = i128::from(nanoseconds_of(unit)?);
        let whole = if whole.is_empty() { 0 } else { whole.parse::<i128>().ok()? };
        total = total.checked_add(whole.checked_mul(unit)?)?;
        let fraction = fraction.get(..fraction.len().min(18)).unwrap_or_default();
        if !fraction.is_empty() {
            let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
            total = total.checked_add(fraction.parse::<i128>().ok()? * unit / scale)?;
        }
        rest = tail.trim_start();
    }
    i64::try_from(sign * total).ok()
}

/// The length of a unit: a short name, or a word that begins with the long one.
fn nanoseconds_of(unit: &str) -> Option<i64> {
    const SECOND: i64 = 1_000_000_000;
    Some(match unit {
        "" | "ns" => 1,
        "us" | "µs" | "μs" => 1000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" | "hr" => 3600 * SECOND,
        "d" => 86_400 * SECOND,
        "w" | "wk" => 604_800 * SECOND,
        word => LONG_UNITS.into_iter().find(|(long, _)| word.starts_with(long))?.1,
    })
}

/// Long names of units, which may have any ending.
const LONG_UNITS: [(&str, i64); 8] = [
    ("nano", 1),
    ("micro", 1000),
    ("milli", 1_000_000),
    ("sec", 1_000_000_000),
    ("min", 60_000_000_000),
    ("hour", 3_600_000_000_000),
    ("day", 86_400_000_000_000),
    ("week", 604_800_000_000_000),
];

/// Whole seconds of a duration, cut toward zero and capped at the largest 32-bit number (CONV-004); `None` if the text
/// is not a duration of at most 64 bits of nanoseconds.
pub fn whole_seconds(text: &str) -> Option<i32> {
    let seconds = go_duration(text).filter(|nanoseconds| *nanoseconds > i64::MIN)? / 1_000_000_000;
    i32::try_from(seconds.clamp(i32::MIN.into(), i32::MAX.into())).ok()
}

/// Formats a number of seconds as a Go duration: `1h15m30s`, `5m0s`, `0s` (CONV-004).
pub fn format_seconds(seconds: i64) -> String {
    let sign = if seconds < 0 { "-" } else { "" };
    let all = seconds.unsigned_abs();
    let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, _) => format!("{sign}{minutes}m{seconds}s"),
        _ => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::{format_seconds, whole_seconds};

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
            assert_eq!(format_seconds(seconds.into()), want);
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
