//! Words: their cases, abbreviations and lines.

use super::super::characters::{
    is_letter, is_lower, is_number, is_punctuation, is_space, is_title, is_upper, lower, upper,
};
use super::super::error::Failure;
use super::super::print::Output;
use super::Function;
use super::Parameter::{Int, Text};
use super::builtin::byte_range;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("abbrev", &[Int, Text], |context, arguments| {
        context.text(abbreviated(arguments.text(1), 0, arguments.int(0)))
    }),
    Function::new("abbrevboth", &[Int, Int, Text], |context, arguments| {
        let (left, right, text) = (arguments.int(0), arguments.int(1), arguments.text(2));
        let too_narrow = right < 4 || left > 0 && right < 7;
        context.text(if too_narrow { text.to_owned() } else { abbreviated(text, left, right) })
    }),
    Function::new("initials", &[Text], |context, arguments| {
        let mut behind_gap = true;
        let text = latin(arguments.text(0)).filter(|c| {
            let starts = behind_gap && !is_space(*c);
            behind_gap = is_space(*c);
            starts
        });
        context.text(text.collect())
    }),
    Function::new("nospace", &[Text], |context, arguments| {
        let text = arguments.text(0);
        match latin(text).any(is_space) {
            true => context.text(latin(text).filter(|c| !is_space(*c)).collect()),
            false => Ok(arguments.shared(0)),
        }
    }),
    Function::new("swapcase", &[Text], |context, arguments| context.text(swapped(arguments.text(0)))),
    Function::new("untitle", &[Text], |context, arguments| {
        let mut behind_gap = true;
        let text = arguments.text(0).chars().map(|c| {
            let starts = behind_gap && !is_space(c);
            behind_gap = is_space(c);
            if starts { lower(c) } else { c }
        });
        context.text(text.collect())
    }),
    Function::new("snakecase", &[Text], |context, arguments| context.text(connected(arguments.text(0), '_'))),
    Function::new("kebabcase", &[Text], |context, arguments| context.text(connected(arguments.text(0), '-'))),
    Function::new("camelcase", &[Text], |context, arguments| context.text(pascal(arguments.text(0)))),
    Function::new("wrap", &[Int, Text], |context, arguments| {
        let text = wrapped(context.left(), arguments.text(1), arguments.int(0), "\n", false)?;
        context.text(text)
    }),
    Function::new("wrapWith", &[Int, Text, Text], |context, arguments| {
        let separator = if arguments.text(1).is_empty() { "\n" } else { arguments.text(1) };
        let text = wrapped(context.left(), arguments.text(2), arguments.int(0), separator, true)?;
        context.text(text)
    }),
];

/// Each byte as a character, which is how goutils reads texts.
fn latin(text: &str) -> impl Iterator<Item = char> {
    text.bytes().map(char::from)
}

/// The text from `offset` on in at most `width` bytes, `...` where it is cut.
fn abbreviated(text: &str, offset: i64, width: i64) -> String {
    let size = |number: i64| usize::try_from(number).unwrap_or(0);
    let (length, width, mut offset) = (text.len(), size(width), size(offset));
    if width < 4 || length <= width {
        return text.to_owned();
    }
    offset = offset.min(length);
    if length - offset < width - 3 {
        offset = length - (width - 3);
    }
    if offset <= 4 {
        return format!("{}...", byte_range(text, 0, width - 3));
    }
    if width < 7 {
        return String::new();
    }
    if offset + width - 3 < length {
        let rest = byte_range(text, offset, length);
        let inner = i64::try_from(width - 3).unwrap_or(i64::MAX);
        return format!("...{}", abbreviated_once(&rest, inner));
    }
    format!("...{}", byte_range(text, length - (width - 3), length))
}

fn abbreviated_once(text: &str, width: i64) -> String {
    if width < 4 { String::new() } else { abbreviated(text, 0, width) }
}

fn swapped(text: &str) -> String {
    let mut behind_gap = true;
    let swap = |c: char| {
        if is_upper(c) || is_title(c) {
            behind_gap = false;
            lower(c)
        } else if is_lower(c) {
            behind_gap = false;
            upper(c)
        } else {
            behind_gap = is_space(c);
            c
        }
    };
    text.chars().map(swap).collect()
}

fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || is_space(c)
}

/// xstrings' Pascal case: words without their connectors, each with a capital.
fn pascal(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut chars = text.chars();
    let mut current = None;
    let mut behind_upper = false;
    for c in chars.by_ref() {
        if !is_connector(c) {
            behind_upper = is_upper(c);
            current = Some(upper(c));
            break;
        }
        written.push(c);
    }
    let Some(mut current) = current else {
        // xstrings writes the last one of nothing but connectors twice.
        written.extend(text.chars().next_back());
        return written;
    };
    for next in chars {
        let previous = std::mem::replace(&mut current, next);
        if is_connector(next) && is_connector(previous) {
            written.push(previous);
        } else if is_connector(previous) {
            behind_upper = is_upper(next);
            current = upper(next);
        } else {
            if behind_upper && is_upper(next) {
                current = lower(next);
            } else {
                behind_upper = false;
            }
            written.push(previous);
        }
    }
    written.push(current);
    written
}

/// What a run of characters is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    None,
    Number,
    Upper,
    Letters,
    Connector,
    Punctuation,
    Other,
}

fn is_alphabet(c: char) -> bool {
    // CJK and other scripts without cases are no alphabets to xstrings.
    is_letter(c) && (is_upper(c) || is_lower(c) || is_title(c))
}

/// The first word of `text`, and what follows.
fn next_word(text: &str) -> (Word, &str, &str) {
    let run = |from: usize, holds: &dyn Fn(char) -> bool| {
        text[from..].find(|c| !holds(c)).map_or(text.len(), |length| from + length)
    };
    let Some(first) = text.chars().next() else { return (Word::None, "", "") };
    let size = first.len_utf8();
    let (word, end) = match first {
        _ if is_connector(first) => (Word::Connector, run(0, &is_connector)),
        _ if is_punctuation(first) => (Word::Punctuation, run(0, &is_punctuation)),
        _ if is_upper(first) => (Word::Upper, upper_end(text, size, &run)),
        _ if is_alphabet(first) => (Word::Letters, run(0, &|c| is_alphabet(c) && !is_upper(c))),
        _ if is_number(first) => (Word::Number, run(0, &is_number)),
        _ => {
            let ends = |c: char| is_connector(c) || is_alphabet(c) || is_number(c) || is_punctuation(c);
            (Word::Other, run(size, &|c| !ends(c)))
        }
    };
    (word, &text[..end], &text[end..])
}

/// The end of the characters from a position on for which something holds.
type Run<'r> = &'r dyn Fn(usize, &dyn Fn(char) -> bool) -> usize;

/// Capitals, without the last one where small letters follow it; or one capital and its small letters.
fn upper_end(text: &str, size: usize, run: Run<'_>) -> usize {
    match text[size..].chars().next() {
        Some(second) if is_upper(second) => {
            let end = run(0, &is_upper);
            let follows = text[end..].chars().next();
            let last = text[..end].chars().next_back().map_or(0, char::len_utf8);
            if follows.is_some_and(is_alphabet) { end - last } else { end }
        }
        Some(second) if is_alphabet(second) => run(size, &|c| is_alphabet(c) && !is_upper(c)),
        _ => size,
    }
}

/// xstrings' snake and kebab case.
fn connected(text: &str, connector: char) -> String {
    let mut written = String::with_capacity(text.len() + 8);
    let (mut kind, mut word, mut rest) = next_word(text);
    while !rest.is_empty() {
        if kind != Word::Connector {
            push_lower(&mut written, kind, word, connector);
        }
        let (previous, last) = (kind, word);
        (kind, word, rest) = next_word(rest);
        match previous {
            Word::Number => {
                while matches!(kind, Word::Letters | Word::Number) {
                    push_lower(&mut written, kind, word, connector);
                    (kind, word, rest) = next_word(rest);
                }
                if !matches!(kind, Word::None | Word::Punctuation | Word::Connector) {
                    written.push(connector);
                }
            }
            Word::Connector => push_lower(&mut written, previous, last, connector),
            Word::Punctuation => {}
            _ if kind != Word::Number => {
                if !matches!(kind, Word::Connector | Word::Punctuation) {
                    written.push(connector);
                }
            }
            _ if rest.is_empty() => {}
            _ => {
                let number = word;
                (kind, word, rest) = next_word(rest);
                if kind != Word::Letters {
                    push_lower(&mut written, Word::Number, number, connector);
                    if !matches!(kind, Word::Connector | Word::Punctuation) {
                        written.push(connector);
                    }
                    continue;
                }
                written.push(connector);
                push_lower(&mut written, Word::Number, number, connector);
                while matches!(kind, Word::Letters | Word::Number) {
                    push_lower(&mut written, kind, word, connector);
                    (kind, word, rest) = next_word(rest);
                }
                if !matches!(kind, Word::None | Word::Connector | Word::Punctuation) {
                    written.push(connector);
                }
            }
        }
    }
    push_lower(&mut written, kind, word, connector);
    written
}

fn push_lower(written: &mut String, kind: Word, word: &str, connector: char) {
    match kind {
        Word::Upper | Word::Connector => {
            written.extend(word.chars().map(|c| if is_connector(c) { connector } else { lower(c) }));
        }
        _ => written.push_str(word),
    }
}

/// Lines of at most `width` bytes, broken at blanks, long words only where `breaks_words`.
fn wrapped(limit: usize, text: &str, width: i64, separator: &str, breaks_words: bool) -> Result<String, Failure> {
    let width = usize::try_from(width).unwrap_or(1).max(1);
    let mut written = Output::new(limit);
    let bytes = text.as_bytes();
    let mut offset = 0;
    while bytes.len() - offset > width {
        if bytes.get(offset) == Some(&b' ') {
            offset += 1;
            continue;
        }
        let line = bytes.get(offset..=offset + width).unwrap_or_default();
        let end = match line.iter().rposition(|byte| *byte == b' ') {
            Some(blank) => offset + blank,
            None if breaks_words => {
                written.push(&byte_range(text, offset, offset + width))?;
                written.push(separator)?;
                offset += width;
                continue;
            }
            None => match bytes[offset + width..].iter().position(|byte| *byte == b' ') {
                Some(blank) => offset + width + blank,
                None => break,
            },
        };
        written.push(&byte_range(text, offset, end))?;
        written.push(separator)?;
        offset = end + 1;
    }
    written.push(&byte_range(text, offset, bytes.len()))?;
    Ok(written.into_text())
}
