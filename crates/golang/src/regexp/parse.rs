//! From Go's syntax to that of the `regex` crate, in one pass.
//!
//! ```text
//!  pattern ──► step ──┬─► class, escape, group, unicode   read one thing
//!    ▲                ├─► out                             written at once, complete in itself
//!    └──── rest ──────┴─► open levels of Shape            what repetitions and limits ask about
//! ```
//!
//! Items that depend on flags are written with them (`(?i:k)`), every operand is one item, and repetitions are always
//! counted (`a{0,}`), which the crate lets one stack where Go does: `a*(?i)?` is `a{0,}{0,1}`.

use std::mem;

use super::error::{RegexError, SyntaxErrorKind};
use super::group::{self, Opening, RegexFlags};
use super::shape::{AlternativesShape, ExpressionShape, SequenceShape};
use super::{class, emit, escape};

/// Go's limits on the height of an expression and on the product of nested repeat counts.
const MAX_HEIGHT: usize = 1000;
const MAX_COPIES: u32 = 1000;

/// A Go pattern in the syntax of the `regex` crate.
#[derive(Debug)]
pub(super) struct Translation {
    pub(super) pattern: String,
    /// The names of the capturing groups; none is named in `pattern`.
    pub(super) names: Vec<Option<Box<str>>>,
    pub(super) height: usize,
}

pub(super) fn translate(pattern: &str) -> Result<Translation, RegexError> {
    let mut parser = PatternParser { whole: pattern, ..PatternParser::default() };
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let repetition = parser.repetition.take();
        rest = parser.step(first, rest, repetition)?;
    }
    parser.finish()
}

#[derive(Debug, Default)]
struct PatternParser<'a> {
    whole: &'a str,
    flags: RegexFlags,
    level: OpenGroup,
    outer: Vec<OpenGroup>,
    names: Vec<Option<Box<str>>>,
    /// The pattern from the last repetition on, if nothing was read after it.
    repetition: Option<&'a str>,
    out: String,
}

/// The items of an open group, or of the pattern outside of groups.
#[derive(Debug, Default)]
struct OpenGroup {
    sequence: SequenceShape,
    branches: AlternativesShape,
    captures: bool,
    flags_before: RegexFlags,
}

impl<'a> PatternParser<'a> {
    /// Reads one item of the pattern; returns what follows it.
    fn step(&mut self, first: char, text: &'a str, repetition: Option<&'a str>) -> Result<&'a str, RegexError> {
        let rest = &text[first.len_utf8()..];
        match first {
            '(' => return self.open(text),
            ')' => self.close()?,
            '|' => self.next_branch()?,
            '^' => self.assertion(if self.flags.lines { "(?m:^)" } else { r"\A" }),
            '$' => self.assertion(if self.flags.lines { "(?m:$)" } else { r"\z" }),
            '.' => self.class(if self.flags.dot_all { "(?s:.)" } else { r"[^\n]" }),
            '[' => return self.bracketed(text),
            '*' => return self.repeat(0, None, text, rest, repetition),
            '+' => return self.repeat(1, None, text, rest, repetition),
            '?' => return self.repeat(0, Some(1), text, rest, repetition),
            '{' => return self.counted(text, repetition),
            '\\' => return self.escaped(text),
            letter => self.letter(u32::from(letter)),
        }
        Ok(rest)
    }

    fn finish(mut self) -> Result<Translation, RegexError> {
        let shape = self.end_level()?;
        if !self.outer.is_empty() {
            return Err(SyntaxErrorKind::MissingParenthesis.at(self.whole));
        }
        Ok(Translation { pattern: self.out, names: self.names, height: shape.height })
    }

    fn letter(&mut self, code: u32) {
        emit::literal(code, self.flags.fold, &mut self.out);
        self.level.sequence.push(ExpressionShape::letter(self.flags.fold));
    }

    fn assertion(&mut self, written: &str) {
        self.out.push_str(written);
        self.level.sequence.push(ExpressionShape::empty());
    }

    fn class(&mut self, written: &str) {
        self.out.push_str(written);
        self.level.sequence.push(ExpressionShape::class());
    }

    /// A class whose characters match in any case, if the flags say so.
    fn folded_class(&mut self, written: &str) {
        if self.flags.fold {
            self.class(&format!("(?i:{written})"));
        } else {
            self.class(written);
        }
    }

    fn bracketed(&mut self, text: &'a str) -> Result<&'a str, RegexError> {
        let (written, rest) = class::bracketed(text)?;
        self.folded_class(&written);
        Ok(rest)
    }

    fn escaped(&mut self, text: &'a str) -> Result<&'a str, RegexError> {
        if let Some(quoted) = text.strip_prefix(r"\Q") {
            return Ok(self.quoted(quoted));
        }
        self.assertion(match text.get(..2) {
            Some(r"\A") => r"\A",
            Some(r"\z") => r"\z",
            Some(r"\b") => r"(?-u:\b)",
            Some(r"\B") => r"(?-u:\B)",
            _ => return self.escaped_character(text),
        });
        Ok(&text[2..])
    }

    /// A class such as `\d`, or one character.
    fn escaped_character(&mut self, text: &'a str) -> Result<&'a str, RegexError> {
        if let Some((written, rest)) = class::escaped(text)? {
            self.folded_class(&written);
            return Ok(rest);
        }
        let (code, rest) = escape::code_point(text)?;
        self.letter(code);
        Ok(rest)
    }

    /// Letters up to `\E` or the end of the pattern.
    fn quoted(&mut self, text: &'a str) -> &'a str {
        let (letters, rest) = text.split_once(r"\E").unwrap_or((text, ""));
        letters.chars().for_each(|letter| self.letter(u32::from(letter)));
        rest
    }

    fn open(&mut self, text: &'a str) -> Result<&'a str, RegexError> {
        let (opening, rest) = group::opening(text, self.flags)?;
        match opening {
            Opening::Change(flags) => self.flags = flags,
            Opening::Group(flags) => {
                self.push_level(false);
                self.flags = flags;
                self.out.push_str("(?:");
            }
            Opening::Capture(name) => {
                self.push_level(true);
                self.names.push(name.map(Box::from));
                self.out.push('(');
            }
        }
        Ok(rest)
    }

    fn push_level(&mut self, captures: bool) {
        let level = OpenGroup { captures, flags_before: self.flags, ..OpenGroup::default() };
        self.outer.push(mem::replace(&mut self.level, level));
    }

    fn close(&mut self) -> Result<(), RegexError> {
        let inner = self.end_level()?;
        let outer = self.outer.pop().ok_or_else(|| SyntaxErrorKind::UnexpectedParenthesis.at(self.whole))?;
        let closed = mem::replace(&mut self.level, outer);
        self.flags = closed.flags_before;
        self.out.push(')');
        let shape = if closed.captures { bounded(inner.captured(), self.whole)? } else { inner };
        self.level.sequence.push(shape);
        Ok(())
    }

    fn next_branch(&mut self) -> Result<(), RegexError> {
        self.end_branch()?;
        self.out.push('|');
        Ok(())
    }

    fn end_branch(&mut self) -> Result<(), RegexError> {
        let shape = bounded(mem::take(&mut self.level.sequence).finish(), self.whole)?;
        self.level.branches.push(shape);
        Ok(())
    }

    fn end_level(&mut self) -> Result<ExpressionShape, RegexError> {
        self.end_branch()?;
        bounded(mem::take(&mut self.level.branches).finish(), self.whole)
    }

    /// A counted repetition, or a literal brace.
    fn counted(&mut self, text: &'a str, previous: Option<&'a str>) -> Result<&'a str, RegexError> {
        let Some((min, max, rest)) = bounds(text) else {
            self.letter(u32::from('{'));
            return Ok(&text[1..]);
        };
        if min > MAX_COPIES || max.is_some_and(|max| max > MAX_COPIES || max < min) {
            return Err(SyntaxErrorKind::RepeatCount.between(text, rest));
        }
        self.repeat(min, max, text, rest, previous)
    }

    /// Repeats the last item; the operator stands between `text` and `rest`.
    fn repeat(
        &mut self,
        min: u32,
        max: Option<u32>,
        text: &'a str,
        rest: &'a str,
        previous: Option<&'a str>,
    ) -> Result<&'a str, RegexError> {
        let swapped = rest.strip_prefix('?');
        let (lazy, rest) = (self.flags.lazy != swapped.is_some(), swapped.unwrap_or(rest));
        if let Some(previous) = previous {
            return Err(SyntaxErrorKind::NestedRepetition.between(previous, rest));
        }
        let operand =
            self.level.sequence.last().ok_or_else(|| SyntaxErrorKind::MissingRepeatArgument.between(text, rest))?;
        let shape = bounded(operand.repeated(min, max), self.whole)?;
        if shape.copies > MAX_COPIES {
            return Err(SyntaxErrorKind::RepeatCount.between(text, rest));
        }
        self.level.sequence.replace_last(shape);
        self.write_repetition(min, max, lazy);
        self.repetition = Some(text);
        Ok(rest)
    }

    fn write_repetition(&mut self, min: u32, max: Option<u32>, lazy: bool) {
        let max = max.map_or_else(String::new, |max| max.to_string());
        self.out.push_str(&format!("{{{min},{max}}}{}", if lazy { "?" } else { "" }));
    }
}

fn bounded(shape: ExpressionShape, pattern: &str) -> Result<ExpressionShape, RegexError> {
    if shape.height > MAX_HEIGHT { Err(RegexError::TooDeep(pattern.to_string())) } else { Ok(shape) }
}

/// `{2}`, `{2,}` or `{2,5}` at the start of `text`, and the rest; `None` where Go sees no repetition.
fn bounds(text: &str) -> Option<(u32, Option<u32>, &str)> {
    let (min, rest) = number(text.strip_prefix('{')?)?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((min, Some(min), rest));
    }
    let rest = rest.strip_prefix(',')?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((min, None, rest));
    }
    let (max, rest) = number(rest)?;
    Some((min, Some(max), rest.strip_prefix('}')?))
}

/// A decimal number without leading zeros; one that is too large becomes the largest.
fn number(text: &str) -> Option<(u32, &str)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(length);
    if digits.is_empty() || digits.len() > 1 && digits.starts_with('0') {
        return None;
    }
    Some((digits.parse().unwrap_or(u32::MAX), rest))
}
