//! Errors of Go regular expressions, with the messages of Go's `regexp/syntax`.

/// Reason why a pattern is not a [`Regex`](super::Regex).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RegexError {
    /// The pattern has a syntax error; `expression` is the part that Go quotes.
    #[error("error parsing regexp: {fault}: `{expression}`")]
    Syntax { fault: SyntaxErrorKind, expression: String },
    /// Groups and repetitions are nested deeper than Go allows, or deeper than the stack allows.
    #[error("error parsing regexp: expression nests too deeply: `{0}`")]
    TooDeep(String),
    /// The pattern exceeds a limit on a count.
    #[error("error parsing regexp: expression too large: {count} {unit}, the limit is {limit}")]
    TooLong { count: usize, unit: &'static str, limit: usize },
    /// The compiled program exceeds the size limit.
    #[error("error parsing regexp: expression too large: `{expression}` compiles to more than {limit} bytes")]
    TooLarge { expression: String, limit: usize },
    /// The compiled program exceeds the limit on states.
    #[error("error parsing regexp: expression too large: `{expression}` compiles to more than {limit} states")]
    TooManyStates { expression: String, limit: usize },
    /// The engine rejects the translation of a valid pattern.
    #[error("regexp `{expression}` is beyond the engine")]
    Engine { expression: String, reason: String },
}

/// Kinds of syntax errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxErrorKind {
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

impl SyntaxErrorKind {
    /// The error with `expression` as its quoted part.
    pub(super) fn at(self, expression: &str) -> RegexError {
        RegexError::Syntax { fault: self, expression: expression.to_string() }
    }

    /// The error that quotes `text` up to the unread `rest`.
    pub(super) fn between(self, text: &str, rest: &str) -> RegexError {
        self.at(&text[..text.len() - rest.len()])
    }
}
