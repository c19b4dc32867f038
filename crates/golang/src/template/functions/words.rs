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
    let (length, width) = (text.len(), size(width));
    if width < 4 || length <= width {
        return text.to_owned();
    }
    // What is left for the text next to three dots, and where the end of the text begins to fit.
    let room = width - 3;
    let tail = length - room;
    match size(offset).min(tail) {
        0..=4 => byte_range(text, 0, room) + "...",
        _ if width < 7 => String::new(),
        from if from == tail => format!("...{}", byte_range(text, tail, length)),
        from => format!("...{}...", byte_range(text, from, from + room - 3)),
    }
}

/// Capitals for small letters, and the other way round.
fn swapped(text: &str) -> String {
    let swap = |c: char| match c {
        _ if is_lower(c) => upper(c),
        _ if is_upper(c) || is_title(c) => lower(c),
        _ => c,
    };
    text.chars().map(swap).collect()
}

fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || is_space(c)
}

/// How long the characters at the beginning are for which something holds, in bytes.
fn span(text: &str, holds: impl Fn(char) -> bool) -> usize {
    text.find(|c| !holds(c)).unwrap_or(text.len())
}

/// Pascal case: words without what connects them, each with a capital.
///
/// Connectors in front and behind stay, and so do all but one between two words; a text of nothing else gets another one.
fn pascal(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (gap, after) = rest.split_at(span(rest, is_connector));
        let (word, behind) = after.split_at(span(after, |c| !is_connector(c)));
        let is_between = rest.len() < text.len() && !word.is_empty();
        let dropped = if is_between { gap.chars().next_back().map_or(0, char::len_utf8) } else { 0 };
        written.push_str(&gap[..gap.len() - dropped]);
        push_capitalised(&mut written, word);
        if rest.len() == text.len() && word.is_empty() {
            written.extend(gap.chars().next_back());
        }
        rest = behind;
    }
    written
}

/// A word with a capital; of several capitals in front the others become small.
fn push_capitalised(written: &mut String, word: &str) {
    let capitals = word.chars().take_while(|c| is_upper(*c)).count();
    written.extend(word.chars().enumerate().map(|(at, c)| match at {
        0 => upper(c),
        at if at < capitals => lower(c),
        _ => c,
    }));
}

/// What a piece of a text consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Connector,
    Punctuation,
    /// Capitals, or one with the small letters behind it.
    Capitals,
    Letters,
    Number,
    Other,
}

/// A letter of a script with cases.
fn is_cased(c: char) -> bool {
    is_letter(c) && (is_upper(c) || is_lower(c) || is_title(c))
}

impl Piece {
    fn beginning_with(c: char) -> Piece {
        match c {
            _ if is_connector(c) => Piece::Connector,
            _ if is_punctuation(c) => Piece::Punctuation,
            _ if is_upper(c) => Piece::Capitals,
            _ if is_cased(c) => Piece::Letters,
            _ if is_number(c) => Piece::Number,
            _ => Piece::Other,
        }
    }

    /// How long the piece at the beginning of `text` is, in bytes.
    fn length(self, text: &str) -> usize {
        let is_small = |c: char| is_cased(c) && !is_upper(c);
        match self {
            Piece::Connector => span(text, is_connector),
            Piece::Punctuation => span(text, is_punctuation),
            Piece::Letters => span(text, is_small),
            Piece::Number => span(text, is_number),
            Piece::Other => span(text, |c| Piece::beginning_with(c) == Piece::Other),
            Piece::Capitals => {
                let capitals = span(text, is_upper);
                let last = text[..capitals].chars().next_back().map_or(0, char::len_utf8);
                match span(&text[capitals..], is_small) {
                    0 => capitals,
                    small if last == capitals => capitals + small,
                    // The last capital begins the next word.
                    _ => capitals - last,
                }
            }
        }
    }

    /// Whether no connector is put next to it.
    fn is_gap(self) -> bool {
        matches!(self, Piece::Connector | Piece::Punctuation)
    }
}

fn pieces(text: &str) -> Vec<(Piece, &str)> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let piece = Piece::beginning_with(first);
        let (this, after) = rest.split_at(piece.length(rest));
        pieces.push((piece, this));
        rest = after;
    }
    pieces
}

/// Snake and kebab case: words in small letters with connectors between them.
///
/// A number belongs to the word in front of it, unless small letters follow: then it begins a word, which goes on with
/// letters and numbers.
fn connected(text: &str, connector: char) -> String {
    let mut written = String::with_capacity(text.len() + 8);
    let pieces = pieces(text);
    let (mut before, mut is_numbered) = (None::<Piece>, false);
    for (at, (piece, word)) in pieces.iter().enumerate() {
        let next = pieces.get(at + 1).map(|(piece, _)| *piece);
        let is_apart = before.is_none_or(Piece::is_gap) || piece.is_gap();
        let belongs = match piece {
            Piece::Letters | Piece::Number if is_numbered => true,
            Piece::Number => next != Some(Piece::Letters),
            _ => false,
        };
        if !is_apart && !belongs {
            written.push(connector);
        }
        is_numbered = match piece {
            Piece::Number => is_numbered || is_apart || !belongs,
            Piece::Letters => is_numbered,
            _ => false,
        };
        match piece {
            Piece::Capitals | Piece::Connector => {
                written.extend(word.chars().map(|c| if is_connector(c) { connector } else { lower(c) }));
            }
            _ => written.push_str(word),
        }
        before = Some(*piece);
    }
    written
}

/// Lines of at most `width` bytes, broken at blanks, long words only where `breaks_words`.
fn wrapped(limit: usize, text: &str, width: i64, separator: &str, breaks_words: bool) -> Result<String, Failure> {
    let width = usize::try_from(width).unwrap_or(1).max(1);
    let mut written = Output::new(limit);
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(line) = first_line(bytes.get(from..).unwrap_or_default(), width, breaks_words) {
        from += line.start;
        if let Some((end, next)) = line.broken_at {
            written.push(&byte_range(text, from, from + end))?;
            written.push(separator)?;
            from += next;
        } else {
            written.push(&byte_range(text, from, bytes.len()))?;
            break;
        }
    }
    Ok(written.into_text())
}

/// Where a line begins in what is left of a text, and from there where it ends and where the next one begins.
struct Line {
    start: usize,
    broken_at: Option<(usize, usize)>,
}

/// The first line; `None` behind the end. Blanks in front are left out while more than a line is left.
fn first_line(text: &[u8], width: usize, breaks_words: bool) -> Option<Line> {
    let blanks = text.iter().take_while(|byte| **byte == b' ').count();
    let start = blanks.min(text.len().saturating_sub(width));
    let text = text.get(start..)?;
    if text.len() <= width {
        return Some(Line { start, broken_at: None });
    }
    let (line, rest) = text.split_at(width + 1);
    let is_blank = |byte: &u8| *byte == b' ';
    let at_blank = |end: usize| (end, end + 1);
    let broken_at = match line.iter().rposition(is_blank) {
        Some(end) => Some(at_blank(end)),
        None if breaks_words => Some((width, width)),
        None => rest.iter().position(is_blank).map(|behind| at_blank(width + 1 + behind)),
    };
    Some(Line { start, broken_at })
}
