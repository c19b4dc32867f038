//! Sanitized texts of extensions for conditions, logs and terminals (DEC-64).

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::{MESSAGE, cut};
use schema::field::plain;

/// Parts of messages that differ between two calls with the same result: UUIDs, identifiers of requests and traces,
/// addresses of memory, local ports, points in time, and measured durations.
static VOLATILE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?x)
        \b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b
        | \b\d{4}[-/]\d\d[-/]\d\d[T\x20]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:\x20?(?:Z|UTC|[+-]\d\d:?\d\d))?\b
        | \b\d\d:\d\d:\d\d(?:[.,]\d+)?\b
        | \b0x[0-9a-fA-F]{6,16}\b
        | \b[0-9a-fA-F]{16,32}\b
        | \b\d{10,19}(?:\.\d+)?\b
        | \b(?:\d+h)?(?:\d+m)?\d+\.\d+(?:ns|µs|us|ms|s)\b
        | :\d+->",
    )
    .expect("it is a constant that tests use")
});

/// A text of an extension or an API server in one line of plain characters, equal for calls with the same result: a
/// condition that is written after each failed call would otherwise change endlessly. Volatile parts are replaced by
/// `…`.
pub fn sanitize(text: &str) -> String {
    let text = plain(cut(text, MESSAGE));
    let replaced = VOLATILE.replace_all(&text, |found: &Captures<'_>| match found[0].starts_with(':') {
        true => ":…->",
        false => "…",
    });
    cut(&replaced, MESSAGE).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_between_calls_is_left_out() {
        // DEC-64
        for (text, want) in [
            ("no quota left in zone-1", "no quota left in zone-1"),
            ("request 0b5c3a52-7d0e-4c39-9f0a-3a5f7e0c1d2e failed", "request … failed"),
            ("2026-11-25T23:45:10.123Z: at 2026/11/25 23:45:10 no, 23:45:10.1 no", "…: at … no, … no"),
            ("trace 4bf92f3577b34da6a3ce929d0e0e4736, span 00f067aa0ba902b7", "trace …, span …"),
            ("object 0xc000123456 at 1764114310.5", "object … at …"),
            ("took 1.234567s, 1m2.5s and 12.5ms; retry in 30s", "took …, … and …; retry in 30s"),
            ("read tcp 10.0.0.1:43512->10.0.0.2:443: i/o timeout", "read tcp 10.0.0.1:…->10.0.0.2:443: i/o timeout"),
            (
                "version v1.33.1+k0s.0, 3 of 5, port 8443, 2026-11-25",
                "version v1.33.1+k0s.0, 3 of 5, port 8443, 2026-11-25",
            ),
        ] {
            assert_eq!(sanitize(text), want);
        }
        let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
        assert_eq!(sanitize(&digest), digest);
    }

    #[test]
    fn a_text_is_one_line_of_plain_characters() {
        // DEC-64
        assert_eq!(sanitize("a\n::error::b\r\u{1b}[2J\u{9b}\u{202e}"), r"a\n::error::b\r\u{1b}[2J\u{9b}\u{202e}");
        assert_eq!(sanitize(&"\u{1b}".repeat(2 * MESSAGE)).chars().count(), MESSAGE);
    }
}
