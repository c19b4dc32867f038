//! Writing single characters and ranges for the `regex` crate.
//!
//! Everything but ASCII letters, digits and readable non-ASCII text is written as `\x{…}`, so nothing here depends on
//! what is special where. Go knows surrogates as characters; they never occur in UTF-8, so here they match nothing.

use std::ops::RangeInclusive;

/// A class that matches nothing; also good as an item of another class.
pub(super) const NOTHING: &str = r"[^\x{0}-\x{10FFFF}]";

/// A class as it is written, and the pattern that follows it.
pub(super) type Read<'a> = (String, &'a str);

const SURROGATES: RangeInclusive<u32> = 0xD800..=0xDFFF;

/// Writes one character outside a class, matching all its cases if `fold` is set.
pub(super) fn literal(code: u32, fold: bool, out: &mut String) {
    let Some(c) = char::from_u32(code) else { return out.push_str(NOTHING) };
    let cased = fold && (c.is_ascii_alphabetic() || !c.is_ascii());
    out.push_str(if cased { "(?i:" } else { "" });
    character(c, out);
    out.push_str(if cased { ")" } else { "" });
}

/// Writes the characters from `first` to `last` as items of a class.
pub(super) fn range(first: u32, last: u32, out: &mut String) {
    let below = scalars(first, last.min(SURROGATES.start() - 1));
    let above = scalars(first.max(SURROGATES.end() + 1), last);
    if below.is_none() && above.is_none() {
        out.push_str(NOTHING);
    }
    for (low, high) in below.into_iter().chain(above) {
        character(low, out);
        if low != high {
            out.push('-');
            character(high, out);
        }
    }
}

/// Both ends as characters, unless there are none in between.
fn scalars(first: u32, last: u32) -> Option<(char, char)> {
    if first > last { None } else { char::from_u32(first).zip(char::from_u32(last)) }
}

fn character(c: char, out: &mut String) {
    if c.is_ascii_alphanumeric() || (!c.is_ascii() && c.is_alphanumeric()) {
        out.push(c);
    } else {
        out.push_str(&format!("\\x{{{:X}}}", u32::from(c)));
    }
}
