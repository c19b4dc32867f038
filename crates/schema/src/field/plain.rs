//! Texts from outside, without characters that a terminal, log or reader interprets (DEC-64).

use std::borrow::Cow;

/// A text on one line, in which characters that a terminal, log or reader interprets are escaped as in Rust: `\n`,
/// `\u{1b}`, `\u{202e}`.
///
/// These are control characters (C0, DEL and C1), line and paragraph separators, characters that change the text
/// direction (UAX #9), and invisible characters. Joiners of emoji and of some scripts stay.
pub fn plain(text: &str) -> Cow<'_, str> {
    escaped(text, is_acted_on)
}

/// As [`plain`], for a text of several lines, such as the message of a condition: line feeds stay.
pub fn plain_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c != '\n' && is_acted_on(c))
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_escaped(c) { escaped.extend(c.escape_default()) } else { escaped.push(c) }
    }
    Cow::Owned(escaped)
}

fn is_acted_on(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_acts_on_is_written_out() {
        // DEC-64
        for (text, want) in [
            ("one two", "one two"),
            ("größe 大 👩‍🚀", "größe 大 👩‍🚀"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{1b}[2J\u{7f}\u{9b}31m", "\\u{1b}[2J\\u{7f}\\u{9b}31m"),
            ("a\u{202e}b\u{2066}c\u{200f}", "a\\u{202e}b\\u{2066}c\\u{200f}"),
            ("a\u{2028}b\u{feff}\u{e0041}", "a\\u{2028}b\\u{feff}\\u{e0041}"),
        ] {
            assert_eq!(plain(text), want);
        }
        assert!(matches!(plain("one"), Cow::Borrowed(_)));
        assert_eq!(plain_lines("* a\r\n* b\u{1b}[2J"), "* a\\r\n* b\\u{1b}[2J");
    }
}
