//! Go regular expressions (package `regexp`: RE2 with Perl's extensions) on the `regex` crate.
//!
//! ```text
//!  Go pattern ──parse──► pattern of the regex crate ──build──► Regex
//!                 └────► RegexError, in Go's words
//! ```
//!
//! Both engines are automata with leftmost-first matches; they differ in syntax and in what classes hold. So a pattern
//! is read as Go reads it, errors and limits included, and written anew with nothing left to interpretation.
//!
//! Known differences from Go 1.26:
//!
//! * Unicode classes and case folding follow the newer edition of the `regex` crate (Go: 15.0).
//! * Go 1.25 and 1.26 do not find scripts of several words (`\p{Old_Italic}`), although documented; they are known here.
//! * A pattern may have [`MAX_LENGTH`] bytes and [`MAX_UNICODE_CLASSES`], and compile to [`MAX_COMPILED`]; Go allows
//!   more, and repeats large classes more often (`\pL{1000}`).
//! * The height of an expression may be measured a little differently next to Go's limit of 1000.
//!
//! The syntax: <https://pkg.go.dev/regexp/syntax>. Uses std and the `regex` crate with its Unicode tables of cases,
//! categories and scripts.

use std::sync::Arc;

use regex::RegexBuilder;

mod class;
mod emit;
mod error;
mod escape;
mod group;
mod parse;
mod shape;
mod unicode;

pub use error::{Fault, RegexError};
use parse::Translation;

/// The longest pattern that is read, in bytes.
pub const MAX_LENGTH: usize = 64 << 10;

/// The most Unicode classes (`\pL`) that a pattern may have: folding one takes a good part of a millisecond.
pub const MAX_UNICODE_CLASSES: usize = 500;

/// The largest compiled program, in bytes.
pub const MAX_COMPILED: usize = 10 << 20;

/// What a search may cache, in bytes; beyond it searches are slower but stay linear.
const SEARCH_CACHE: usize = 2 << 20;

/// Expressions up to this height are compiled on the caller's stack. Compiling recurses, at up to 16 KiB a level in
/// a debug build.
const MAX_HEIGHT_IN_PLACE: usize = 40;

/// The stack on which higher expressions are compiled.
const DEEP_STACK: usize = 64 << 20;

/// A compiled Go regular expression. Clone is cheap.
#[derive(Clone, Debug)]
pub struct Regex {
    pattern: Arc<str>,
    names: Arc<[Option<Box<str>>]>,
    inner: regex::Regex,
}

impl Regex {
    /// Parses as Go does and compiles.
    pub fn new(pattern: &str) -> Result<Self, RegexError> {
        Self::within(pattern, MAX_COMPILED)
    }

    /// As [`Regex::new`], for patterns that compile to at most so many bytes: time to compile grows with them.
    pub fn within(pattern: &str, compiled: usize) -> Result<Self, RegexError> {
        at_most(MAX_LENGTH, pattern.len(), "bytes")?;
        let translation = parse::translate(pattern)?;
        at_most(MAX_UNICODE_CLASSES, translation.pattern.matches(r"\p{").count(), "Unicode classes")?;
        let inner = compile(pattern, &translation, compiled)?;
        Ok(Self { pattern: pattern.into(), names: translation.names.into(), inner })
    }

    /// Whether `text` contains a match.
    pub fn is_match(&self, text: &str) -> bool {
        self.inner.is_match(text)
    }

    /// The Go pattern.
    pub fn as_str(&self) -> &str {
        &self.pattern
    }

    /// The engine, for finding and replacing. Its groups are numbered as in Go but have no names.
    ///
    /// A group that cannot take part in a match, as in `(a){0}`, may be missing at the end.
    pub fn inner(&self) -> &regex::Regex {
        &self.inner
    }

    /// The name of each capturing group, from group 1 on. Go lets several groups share one name.
    pub fn group_names(&self) -> impl ExactSizeIterator<Item = Option<&str>> {
        self.names.iter().map(Option::as_deref)
    }
}

fn at_most(limit: usize, count: usize, unit: &'static str) -> Result<(), RegexError> {
    if count > limit { Err(RegexError::TooLong { count, unit, limit }) } else { Ok(()) }
}

fn compile(pattern: &str, translation: &Translation, limit: usize) -> Result<regex::Regex, RegexError> {
    let build = || build(&translation.pattern, limit).map_err(|error| refusal(pattern, error));
    if translation.height <= MAX_HEIGHT_IN_PLACE {
        return build();
    }
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(DEEP_STACK);
        let thread = builder.spawn_scoped(scope, build).map_err(|_| RegexError::TooDeep(pattern.to_string()))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Nesting needs no limit here: what is left of it after groups that do not capture is bounded by the parser.
fn build(pattern: &str, limit: usize) -> Result<regex::Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(limit).dfa_size_limit(SEARCH_CACHE).nest_limit(u32::MAX).build()
}

fn refusal(pattern: &str, error: regex::Error) -> RegexError {
    let expression = pattern.to_string();
    match error {
        regex::Error::CompiledTooBig(limit) => RegexError::TooLarge { expression, limit },
        source => RegexError::Engine { expression, source },
    }
}

#[cfg(test)]
mod tests;
