//! Go regular expressions (package `regexp`: RE2 with Perl's extensions) on the engine of the `regex` crate.
//!
//! ```text
//!  Go pattern ──parse──► pattern of the regex crate ──build──► Regex
//!                 └────► RegexError, in Go's words
//! ```
//!
//! Both engines are automata with leftmost-first matches. They differ in syntax and in the characters of classes. So a
//! pattern is parsed as Go parses it, with Go's errors and limits, and translated to a pattern that the crate reads in
//! the same way.
//!
//! Known differences from Go 1.26:
//!
//! * Unicode classes and case folding follow the newer edition of the `regex` crate (Go: 15.0).
//! * Go 1.25 and 1.26 do not find scripts of several words (`\p{Old_Italic}`), although documented; they are known
//!   here.
//! * A pattern may have [`MAX_LENGTH`] bytes and [`MAX_UNICODE_CLASSES`], and compile to [`MAX_COMPILED`]; Go allows
//!   more, and repeats large classes more often (`\pL{1000}`).
//! * The height of an expression may be measured a little differently next to Go's limit of 1000.
//!
//! The engine is used through `regex-automata`, which says how much memory a compiled pattern takes
//! ([`Regex::footprint`]).
//!
//! The syntax: <https://github.com/google/re2/wiki/Syntax>, as <https://pkg.go.dev/regexp/syntax> implements it. Uses
//! std and the `regex` crate with its Unicode tables of cases, categories and scripts.

use std::ops::Range;
use std::sync::Arc;

use regex_automata::meta;
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;

mod class;
mod emit;
mod error;
mod escape;
mod group;
mod parse;
mod sample;
mod shape;
mod unicode;

pub use error::{RegexError, SyntaxErrorKind};
use parse::Translation;
pub use sample::SampleRequest;

/// The longest pattern that is read, in bytes.
pub const MAX_LENGTH: usize = 64 << 10;

/// The most Unicode classes (`\pL`) that a pattern may have: folding one takes a good part of a millisecond.
pub(crate) const MAX_UNICODE_CLASSES: usize = 500;

/// The largest compiled program, in bytes.
pub(crate) const MAX_COMPILED: usize = 10 << 20;

/// What each of the two lazy automata of a pattern may cache while it searches, in bytes; beyond it searches are slower
/// but stay linear. The automata need some 27 bytes for each state of the program to work at all.
const SEARCH_CACHE: usize = 64 << 10;
const SEARCH_CACHE_OF_STATE: usize = 40;
const MAX_SEARCH_CACHE: usize = 1 << 20;

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
    inner: meta::Regex,
    footprint: usize,
    states: usize,
}

impl Regex {
    /// Parses as Go does and compiles.
    pub fn new(pattern: &str) -> Result<Self, RegexError> {
        Self::within(pattern, MAX_COMPILED)
    }

    /// As [`Regex::new`], with a limit on the compiled size in bytes.
    pub fn within(pattern: &str, bytes: usize) -> Result<Self, RegexError> {
        Self::bounded(pattern, bytes, usize::MAX)
    }

    /// As [`Regex::new`], with limits on the compiled bytes and states. A state takes up to two microseconds.
    pub fn bounded(pattern: &str, bytes: usize, states: usize) -> Result<Self, RegexError> {
        at_most(MAX_LENGTH, pattern.len(), "bytes")?;
        let translation = parse::translate(pattern)?;
        at_most(MAX_UNICODE_CLASSES, translation.pattern.matches(r"\p{").count(), "Unicode classes")?;
        let (inner, states) = compile(pattern, &translation, bytes, states)?;
        let caches = inner.create_cache().memory_usage() + 2 * search_cache(states);
        let footprint = pattern.len() + inner.memory_usage() + caches;
        Ok(Self { pattern: pattern.into(), names: translation.names.into(), inner, footprint, states })
    }

    /// The number of states of the compiled program.
    pub fn states(&self) -> usize {
        self.states
    }

    /// Maximum number of steps of a search in a text: where the automata give up, each byte leads every state of the
    /// program to others. A step takes some nanoseconds.
    pub fn steps(&self, text: &str) -> usize {
        text.len().saturating_mul(self.states + 1)
    }

    /// Memory of the pattern in bytes: the compiled program, and the largest cache of one search at a time.
    pub fn footprint(&self) -> usize {
        self.footprint
    }

    /// Whether `text` contains a match.
    pub fn is_match(&self, text: &str) -> bool {
        self.inner.is_match(text)
    }

    /// The Go pattern.
    pub fn as_str(&self) -> &str {
        &self.pattern
    }

    /// The first match in `text`.
    pub fn find<'t>(&self, text: &'t str) -> Option<Match<'t>> {
        self.inner.find(text).map(|found| Match { text, range: found.range() })
    }

    /// All matches in `text` that do not overlap.
    pub fn find_iter<'t>(&self, text: &'t str) -> impl Iterator<Item = Match<'t>> {
        self.inner.find_iter(text).map(move |found| Match { text, range: found.range() })
    }

    /// All matches in `text` that do not overlap, with their groups.
    pub fn captures_iter<'t>(&self, text: &'t str) -> impl Iterator<Item = Captures<'t>> {
        self.inner.captures_iter(text).map(move |groups| Captures { text, groups })
    }

    /// The name of each capturing group, from group 1 on. Go lets several groups share one name.
    pub(crate) fn group_names(&self) -> impl ExactSizeIterator<Item = Option<&str>> {
        self.names.iter().map(Option::as_deref)
    }
}

/// A piece of a text that matches.
#[derive(Clone, Debug)]
pub struct Match<'t> {
    text: &'t str,
    range: Range<usize>,
}

impl<'t> Match<'t> {
    /// Start of the match, in bytes.
    pub fn start(&self) -> usize {
        self.range.start
    }

    /// End of the match, in bytes.
    pub fn end(&self) -> usize {
        self.range.end
    }

    /// Whether the match has no characters.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The matched text.
    pub fn as_str(&self) -> &'t str {
        &self.text[self.range.clone()]
    }
}

/// A match with its groups, which are numbered as in Go.
#[derive(Clone, Debug)]
pub struct Captures<'t> {
    text: &'t str,
    groups: regex_automata::util::captures::Captures,
}

impl<'t> Captures<'t> {
    /// A group; 0 is the whole match.
    ///
    /// A group that cannot take part in a match, as in `(a){0}`, may be missing at the end.
    pub fn get(&self, group: usize) -> Option<Match<'t>> {
        self.groups.get_group(group).map(|span| Match { text: self.text, range: span.range() })
    }
}

fn at_most(limit: usize, count: usize, unit: &'static str) -> Result<(), RegexError> {
    if count > limit { Err(RegexError::TooLong { count, unit, limit }) } else { Ok(()) }
}

fn search_cache(states: usize) -> usize {
    states.saturating_mul(SEARCH_CACHE_OF_STATE).saturating_add(SEARCH_CACHE).min(MAX_SEARCH_CACHE)
}

/// The compiled pattern and the number of its states.
fn compile(
    pattern: &str,
    translation: &Translation,
    bytes: usize,
    states: usize,
) -> Result<(meta::Regex, usize), RegexError> {
    let build = || build(pattern, &translation.pattern, bytes, states);
    if translation.height <= MAX_HEIGHT_IN_PLACE {
        return build();
    }
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(DEEP_STACK);
        let thread = builder.spawn_scoped(scope, build).map_err(|_| RegexError::TooDeep(pattern.to_string()))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Nesting needs no limit here: groups that do not capture add none, and the parser bounds the rest.
fn build(pattern: &str, translated: &str, limit: usize, most: usize) -> Result<(meta::Regex, usize), RegexError> {
    let refusal = |size_limit: Option<usize>, reason: String| {
        let expression = pattern.to_string();
        match size_limit {
            Some(limit) => RegexError::TooLarge { expression, limit },
            None => RegexError::Engine { expression, reason },
        }
    };
    let syntax = syntax::Config::new().nest_limit(u32::MAX);
    let parsed = syntax::parse_with(translated, &syntax).map_err(|error| refusal(None, error.to_string()))?;
    // The engine does not report its number of states. A program that is too large is found here, before it is built
    // twice.
    let bounds = thompson::Config::new().nfa_size_limit(Some(limit)).which_captures(thompson::WhichCaptures::None);
    let program = thompson::Compiler::new().configure(bounds).build_from_hir(&parsed);
    let states = program.map_err(|error| refusal(error.size_limit(), error.to_string()))?.states().len();
    if states > most {
        return Err(RegexError::TooManyStates { expression: pattern.to_string(), limit: most });
    }
    let bounds = meta::Config::new().nfa_size_limit(Some(limit)).hybrid_cache_capacity(search_cache(states));
    let built = meta::Builder::new().configure(bounds).build_from_hir(&parsed);
    Ok((built.map_err(|error| refusal(error.size_limit(), error.to_string()))?, states))
}

#[cfg(test)]
mod tests;
