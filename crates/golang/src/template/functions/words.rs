//! Words: their cases, abbreviations and lines.

use super::super::characters::{
    is_letter, is_lower, is_number, is_punctuation, is_space, is_title, is_upper, lower, upper,
};
use super::super::error::RenderFailure;
use super::super::print::BoundedText;
use super::Parameter::{Int, Text};
use super::TemplateFunction;
use super::builtin::byte_range;

pub(super) const FUNCTIONS: &[TemplateFunction] = &[
    TemplateFunction::new("abbrev", &[Int, Text], |context, arguments| {
        context.text(abbreviated(arguments.text(1), 0, arguments.int(0)))
    }),
    TemplateFunction::new("abbrevboth", &[Int, Int, Text], |context, arguments| {
        let (left, right, text) = (arguments.int(0), arguments.int(1), arguments.text(2));
        let too_narrow = right < 4 || left > 0 && right < 7;
        context.text(if too_narrow { text.to_owned() } else { abbreviated(text, left, right) })
    }),
    TemplateFunction::new("initials", &[Text], |context, arguments| {
        let mut behind_gap = true;
        let text = latin(arguments.text(0)).filter(|c| {
            let starts = behind_gap && !is_space(*c);
            behind_gap = is_space(*c);
            starts
        });
        context.text(text.collect())
    }),
    TemplateFunction::new("nospace", &[Text], |context, arguments| {
        let text = arguments.text(0);
        match latin(text).any(is_space) {
            true => context.text(latin(text).filter(|c| !is_space(*c)).collect()),
            false => Ok(arguments.shared(0)),
        }
    }),
    TemplateFunction::new("swapcase", &[Text], |context, arguments| context.text(swapped(arguments.text(0)))),
    TemplateFunction::new("untitle", &[Text], |context, arguments| {
        let mut behind_gap = true;
        let text = arguments.text(0).chars().map(|c| {
            let starts = behind_gap && !is_space(c);
            behind_gap = is_space(c);
            if starts { lower(c) } else { c }
        });
        context.text(text.collect())
    }),
    TemplateFunction::new("snakecase", &[Text], |context, arguments| context.text(connected(arguments.text(0), '_'))),
    TemplateFunction::new("kebabcase", &[Text], |context, arguments| context.text(connected(arguments.text(0), '-'))),
    TemplateFunction::new("camelcase", &[Text], |context, arguments| context.text(pascal(arguments.text(0)))),
    TemplateFunction::new("wrap", &[Int, Text], |context, arguments| {
        let text = wrapped(context.left(), arguments.text(1), arguments.int(0), "\n", false)?;
        context.text(text)
    }),
    TemplateFunction::new("wrapWith", &[Int, Text, Text], |context, arguments| {
        let separator = if arguments.text(1).is_empty() { "\n" } else { arguments.text(1) };
        let text = wrapped(context.left(), arguments.text(2), arguments.int(0), separator, true)?;
        context.text(text)
    }),
];

/// Each byte as a character, as goutils reads texts.
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
    // The space for the text next to an ellipsis, and the first offset at which the end of the text fits.
    let room = width - 3;
    let tail = length - room;
    match size(offset).min(tail) {
        0..=4 => byte_range(text, 0, room) + "...",
        _ if width < 7 => String::new(),
        from if from == tail => format!("...{}", byte_range(text, tail, length)),
        from => format!("...{}...", byte_range(text, from, from + room - 3)),
    }
}

/// Upper case for lower case letters, and vice versa.
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

/// The length of the longest prefix whose characters all satisfy `holds`, in bytes.
fn span(text: &str, holds: impl Fn(char) -> bool) -> usize {
    text.find(|c| !holds(c)).unwrap_or(text.len())
}

/// Pascal case: words without connectors, each capitalised.
///
/// Connectors at both ends stay, and so do all but one between two words; a text of connectors alone gets one more.
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

/// A word with an initial capital; of several capitals at its start, the others become lower case.
fn push_capitalised(written: &mut String, word: &str) {
    let capitals = word.chars().take_while(|c| is_upper(*c)).count();
    written.extend(word.chars().enumerate().map(|(at, c)| match at {
        0 => upper(c),
        at if at < capitals => lower(c),
        _ => c,
    }));
}

/// Kinds of pieces of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WordPiece {
    Connector,
    Punctuation,
    /// Capitals, or one capital and the lower case letters after it.
    Capitals,
    Letters,
    Number,
    Other,
}

/// A letter of a script with cases.
fn is_cased(c: char) -> bool {
    is_letter(c) && (is_upper(c) || is_lower(c) || is_title(c))
}

impl WordPiece {
    fn beginning_with(c: char) -> WordPiece {
        match c {
            _ if is_connector(c) => WordPiece::Connector,
            _ if is_punctuation(c) => WordPiece::Punctuation,
            _ if is_upper(c) => WordPiece::Capitals,
            _ if is_cased(c) => WordPiece::Letters,
            _ if is_number(c) => WordPiece::Number,
            _ => WordPiece::Other,
        }
    }

    /// The length of the piece at the start of `text`, in bytes.
    fn length(self, text: &str) -> usize {
        let is_small = |c: char| is_cased(c) && !is_upper(c);
        match self {
            WordPiece::Connector => span(text, is_connector),
            WordPiece::Punctuation => span(text, is_punctuation),
            WordPiece::Letters => span(text, is_small),
            WordPiece::Number => span(text, is_number),
            WordPiece::Other => span(text, |c| WordPiece::beginning_with(c) == WordPiece::Other),
            WordPiece::Capitals => {
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

    /// Whether connectors beside it are omitted.
    fn is_gap(self) -> bool {
        matches!(self, WordPiece::Connector | WordPiece::Punctuation)
    }
}

fn pieces(text: &str) -> Vec<(WordPiece, &str)> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let piece = WordPiece::beginning_with(first);
        let (this, after) = rest.split_at(piece.length(rest));
        pieces.push((piece, this));
        rest = after;
    }
    pieces
}

/// Snake and kebab case: lower case words joined by connectors.
///
/// A number belongs to the word before it, unless lower case letters follow: then it begins a word of letters and
/// numbers.
fn connected(text: &str, connector: char) -> String {
    let mut written = String::with_capacity(text.len() + 8);
    let pieces = pieces(text);
    let (mut before, mut is_numbered) = (None::<WordPiece>, false);
    for (at, (piece, word)) in pieces.iter().enumerate() {
        let next = pieces.get(at + 1).map(|(piece, _)| *piece);
        let is_apart = before.is_none_or(WordPiece::is_gap) || piece.is_gap();
        let belongs = match piece {
            WordPiece::Letters | WordPiece::Number if is_numbered => true,
            WordPiece::Number => next != Some(WordPiece::Letters),
            _ => false,
        };
        if !is_apart && !belongs {
            written.push(connector);
        }
        is_numbered = match piece {
            WordPiece::Number => is_numbered || is_apart || !belongs,
            WordPiece::Letters => is_numbered,
            _ => false,
        };
        match piece {
            WordPiece::Capitals | WordPiece::Connector => {
                written.extend(word.chars().map(|c| if is_connector(c) { connector } else { lower(c) }));
            }
            _ => written.push_str(word),
        }
        before = Some(*piece);
    }
    written
}

/// Lines of at most `width` bytes, broken at blanks, long words only where `breaks_words`.
fn wrapped(limit: usize, text: &str, width: i64, separator: &str, breaks_words: bool) -> Result<String, RenderFailure> {
    let width = usize::try_from(width).unwrap_or(1).max(1);
    let mut written = BoundedText::new(limit);
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

/// The bounds of a line in the rest of a text: its start, its end, and the start of the next line.
struct LineBounds {
    start: usize,
    broken_at: Option<(usize, usize)>,
}

/// The first line; `None` at the end. Leading blanks are skipped while more than one line remains.
fn first_line(text: &[u8], width: usize, breaks_words: bool) -> Option<LineBounds> {
    let blanks = text.iter().take_while(|byte| **byte == b' ').count();
    let start = blanks.min(text.len().saturating_sub(width));
    let text = text.get(start..)?;
    if text.len() <= width {
        return Some(LineBounds { start, broken_at: None });
    }
    let (line, rest) = text.split_at(width + 1);
    let is_blank = |byte: &u8| *byte == b' ';
    let at_blank = |end: usize| (end, end + 1);
    let broken_at = match line.iter().rposition(is_blank) {
        Some(end) => Some(at_blank(end)),
        None if breaks_words => Some((width, width)),
        None => rest.iter().position(is_blank).map(|behind| at_blank(width + 1 + behind)),
    };
    Some(LineBounds { start, broken_at })
}
