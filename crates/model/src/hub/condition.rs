//! Texts of conditions in the form that API servers store and `kubectl` shows (DEC-64).

use std::borrow::Cow;

use schema::field::plain_lines;

/// Maximum length of a condition message, in bytes. The API server counts characters, of which there are no more.
pub const MESSAGE: usize = 32_768;
/// Maximum length of messages in v1beta1 (F-OLDCOND).
pub const LEGACY_MESSAGE: usize = 10_240;
/// Maximum length of a reason.
const REASON: usize = 1024;

/// A message cut to `most` bytes, with control characters escaped; line feeds stay.
pub fn message(text: &str, most: usize) -> Cow<'_, str> {
    match plain_lines(text) {
        text if text.len() <= most => text,
        text => {
            let end = text.floor_char_boundary(most - "…".len());
            Cow::Owned(format!("{}…", &text[..end]))
        }
    }
}

/// A reason that the API server accepts: `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`, at most 1,024 characters. An
/// invalid one is replaced.
pub fn reason(reason: &str) -> &str {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_valid = reason.len() <= REASON
        && reason.starts_with(|c: char| c.is_ascii_alphabetic())
        && reason.ends_with(is_word)
        && reason.chars().all(|c| is_word(c) || c == ',' || c == ':');
    match reason {
        reason if is_valid => reason,
        "" => "NoReasonReported",
        _ => "InvalidReasonReported",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_fit_and_are_plain() {
        // DEC-64
        assert_eq!(message("* a\n* b", 100), "* a\n* b");
        assert_eq!(message("a\u{1b}[2J\u{9b}\r\u{202e}", 100), r"a\u{1b}[2J\u{9b}\r\u{202e}");
        for text in ["a".repeat(MESSAGE + 1), "é".repeat(MESSAGE), "\u{1b}".repeat(MESSAGE / 2)] {
            let stored = message(&text, MESSAGE);
            assert!(stored.len() <= MESSAGE && stored.len() > MESSAGE - 8 && stored.ends_with('…'), "{}", stored.len());
        }
        assert_eq!(message(&"a".repeat(MESSAGE), MESSAGE).len(), MESSAGE);
    }

    #[test]
    fn a_reason_that_no_api_server_accepts_is_replaced() {
        // DEC-64
        let long = "a".repeat(REASON + 1);
        for (given, want) in [
            ("Ready", "Ready"),
            ("A", "A"),
            ("a_1,b:c", "a_1,b:c"),
            ("", "NoReasonReported"),
            ("1a", "InvalidReasonReported"),
            ("a b", "InvalidReasonReported"),
            ("a:", "InvalidReasonReported"),
            ("a-b", "InvalidReasonReported"),
            ("é", "InvalidReasonReported"),
            ("a\u{1b}b", "InvalidReasonReported"),
            (&*long, "InvalidReasonReported"),
            (&long[1..], &long[1..]),
        ] {
            assert_eq!(reason(given), want, "{given:?}");
        }
    }
}
