//! Why a Go regular expression is refused, in the words of Go's `regexp/syntax`.

/// Why a pattern is not a [`Regex`](super::Regex).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RegexError {
    /// The pattern does not follow the syntax; `expression` is the part of it that Go would quote.
    #[error("error parsing regexp: {fault}: `{expression}`")]
    Syntax { fault: Fault, expression: String },
    /// Groups and repetitions are nested beyond Go's limit, or deeper than there is memory for.
    #[error("error parsing regexp: expression nests too deeply: `{0}`")]
    TooDeep(String),
    /// The pattern has more of something than we take.
    #[error("error parsing regexp: expression too large: {count} {unit}, the limit is {limit}")]
    TooLong { count: usize, unit: &'static str, limit: usize },
    /// The compiled program would be larger than we allow.
    #[error("error parsing regexp: expression too large: `{expression}` compiles to more than {limit} bytes")]
    TooLarge { expression: String, limit: usize },
    /// The compiled program would have more states than we allow.
    #[error("error parsing regexp: expression too large: `{expression}` compiles to more than {limit} states")]
    TooManyStates { expression: String, limit: usize },
    /// The engine refuses what we made of a valid pattern.
    #[error("regexp `{expression}` is beyond the engine")]
    Engine { expression: String, reason: String },
}

/// What is wrong with the syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("invalid character class range")]
    CharacterRange,
    #[error("invalid escape sequence")]
    Escape,
    #[error("invalid named capture")]
    NamedCapture,
    #[error("invalid or unsupported Perl syntax")]
    PerlSyntax,
    #[error("invalid nested repetition operator")]
    NestedRepetition,
    #[error("invalid repeat count")]
    RepeatCount,
    #[error("missing closing ]")]
    MissingBracket,
    #[error("missing closing )")]
    MissingParenthesis,
    #[error("missing argument to repetition operator")]
    MissingRepeatArgument,
    #[error("trailing backslash at end of expression")]
    TrailingBackslash,
    #[error("unexpected )")]
    UnexpectedParenthesis,
}

impl Fault {
    /// The error that quotes `expression`.
    pub(super) fn at(self, expression: &str) -> RegexError {
        RegexError::Syntax { fault: self, expression: expression.to_string() }
    }

    /// The error that quotes `text` as far as it was read, `rest` being the unread part.
    pub(super) fn between(self, text: &str, rest: &str) -> RegexError {
        self.at(&text[..text.len() - rest.len()])
    }
}
