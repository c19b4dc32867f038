//! Text and actions cut into tokens (TPL-001 to TPL-004).

use super::characters::{is_identifier, is_print, quote};

const LEFT: &str = "{{";
const RIGHT: &str = "}}";

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// The text is an error message.
    Error,
    End,
    Text,
    LeftDelimiter,
    RightDelimiter,
    LeftParenthesis,
    RightParenthesis,
    Space,
    Assign,
    Declare,
    Pipe,
    Bool,
    Character,
    Number,
    Quoted,
    Field,
    Variable,
    Identifier,
    Dot,
    Keyword(Keyword),
    /// Any other printable ASCII character.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyword {
    Block,
    Break,
    Continue,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

impl Keyword {
    fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "block" => Self::Block,
            "break" => Self::Break,
            "continue" => Self::Continue,
            "define" => Self::Define,
            "else" => Self::Else,
            "end" => Self::End,
            "if" => Self::If,
            "nil" => Self::Nil,
            "range" => Self::Range,
            "template" => Self::Template,
            "with" => Self::With,
            _ => return None,
        })
    }
}

/// A piece of a template and where it starts, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token<'t> {
    pub(super) kind: TokenKind,
    pub(super) text: std::borrow::Cow<'t, str>,
    pub(super) position: usize,
}

impl Token<'_> {
    /// The token as error messages name it.
    pub(super) fn described(&self) -> String {
        match self.kind {
            TokenKind::End => "EOF".to_owned(),
            TokenKind::Keyword(_) | TokenKind::Dot => format!("<{}>", self.text),
            _ if self.text.len() > 10 => {
                format!("{}...", quote(&self.text.chars().take(10).collect::<String>()))
            }
            _ => quote(&self.text),
        }
    }
}

pub(super) struct Lexer<'t> {
    input: &'t str,
    position: usize,
    inside_action: bool,
    parentheses: usize,
    failed: bool,
}

/// The end of an action: `}}`, or ` -}}` with the white space after it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    None,
    Plain,
    Trimming,
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn starts_with_blank(text: &str) -> bool {
    text.starts_with(is_blank)
}

fn trims_before(behind_delimiter: &str) -> bool {
    behind_delimiter.strip_prefix('-').is_some_and(starts_with_blank)
}

fn ending(text: &str) -> Ending {
    let trimming = text.strip_prefix(is_blank).and_then(|rest| rest.strip_prefix('-'));
    match trimming.is_some_and(|rest| rest.starts_with(RIGHT)) {
        true => Ending::Trimming,
        false if text.starts_with(RIGHT) => Ending::Plain,
        false => Ending::None,
    }
}

impl<'t> Lexer<'t> {
    pub(super) fn new(input: &'t str) -> Self {
        Self { input, position: 0, inside_action: false, parentheses: 0, failed: false }
    }

    fn rest(&self) -> &'t str {
        &self.input[self.position..]
    }

    fn token(&mut self, kind: TokenKind, length: usize) -> Token<'t> {
        let position = self.position;
        self.position += length;
        Token { kind, text: self.input[position..self.position].into(), position }
    }

    fn error(&mut self, position: usize, message: String) -> Token<'t> {
        self.failed = true;
        Token { kind: TokenKind::Error, text: message.into(), position }
    }

    /// The next token; after an error or the end, the end.
    pub(super) fn next(&mut self) -> Token<'t> {
        if self.failed {
            return Token { kind: TokenKind::End, text: "".into(), position: self.input.len() };
        }
        if self.inside_action { self.in_action() } else { self.in_text() }
    }

    fn in_text(&mut self) -> Token<'t> {
        loop {
            let rest = self.rest();
            let Some(delimiter) = rest.find(LEFT) else {
                return self.token(if rest.is_empty() { TokenKind::End } else { TokenKind::Text }, rest.len());
            };
            let behind = &rest[delimiter + LEFT.len()..];
            if delimiter > 0 {
                let text = &rest[..delimiter];
                let kept = if trims_before(behind) { text.trim_end_matches(is_blank).len() } else { delimiter };
                let token = self.token(TokenKind::Text, kept);
                self.position += delimiter - kept;
                if kept > 0 {
                    return token;
                }
            }
            let marker = if trims_before(behind) { 2 } else { 0 };
            if !behind[marker..].starts_with("/*") {
                let token = self.token(TokenKind::LeftDelimiter, LEFT.len());
                self.position += marker;
                self.inside_action = true;
                self.parentheses = 0;
                return token;
            }
            if let Err(error) = self.skip_comment(LEFT.len() + marker) {
                return error;
            }
        }
    }

    fn skip_comment(&mut self, opening: usize) -> Result<(), Token<'t>> {
        let start = self.position + opening;
        let Some(length) = self.input[start..].find("*/") else {
            return Err(self.error(start, "unclosed comment".to_owned()));
        };
        self.position = start + length + 2;
        match ending(self.rest()) {
            Ending::None => Err(self.error(start, "comment ends before closing delimiter".to_owned())),
            ending => {
                self.close(ending);
                Ok(())
            }
        }
    }

    /// Moves past the end of an action or comment.
    fn close(&mut self, ending: Ending) {
        self.position += RIGHT.len();
        if ending == Ending::Trimming {
            self.position += 2;
            self.position += self.rest().len() - self.rest().trim_start_matches(is_blank).len();
        }
    }

    fn in_action(&mut self) -> Token<'t> {
        let rest = self.rest();
        let ending = ending(rest);
        if ending != Ending::None {
            return self.right_delimiter(ending);
        }
        let Some(first) = rest.chars().next() else {
            return self.error(self.position, "unclosed action".to_owned());
        };
        match first {
            _ if is_blank(first) => self.space(),
            '=' => self.token(TokenKind::Assign, 1),
            ':' if rest.starts_with(":=") => self.token(TokenKind::Declare, 2),
            ':' => self.error(self.position, "expected :=".to_owned()),
            '|' => self.token(TokenKind::Pipe, 1),
            '"' => self.delimited('"', TokenKind::Quoted, "unterminated quoted string"),
            '\'' => self.delimited('\'', TokenKind::Character, "unterminated character constant"),
            '`' => match rest[1..].find('`') {
                Some(length) => self.token(TokenKind::Quoted, length + 2),
                None => self.error(self.position, "unterminated raw quoted string".to_owned()),
            },
            '$' => self.word(1, TokenKind::Variable),
            '.' if !rest[1..].starts_with(|c: char| c.is_ascii_digit()) && rest.len() > 1 => {
                let token = self.word(1, TokenKind::Field);
                if token.text == "." { Token { kind: TokenKind::Dot, ..token } } else { token }
            }
            '.' | '+' | '-' | '0'..='9' => self.number(),
            '(' => {
                self.parentheses += 1;
                self.token(TokenKind::LeftParenthesis, 1)
            }
            ')' if self.parentheses == 0 => self.error(self.position, "unexpected right paren".to_owned()),
            ')' => {
                self.parentheses -= 1;
                self.token(TokenKind::RightParenthesis, 1)
            }
            _ if is_identifier(first) => self.identifier(),
            _ if first.is_ascii() && is_print(first) => self.token(TokenKind::Other, 1),
            _ => self.error(self.position, format!("unrecognized character in action: {}", described(first))),
        }
    }

    fn right_delimiter(&mut self, ending: Ending) -> Token<'t> {
        if self.parentheses > 0 {
            return self.error(self.position, "unclosed left paren".to_owned());
        }
        let position = self.position;
        self.close(ending);
        self.inside_action = false;
        Token { kind: TokenKind::RightDelimiter, text: RIGHT.into(), position }
    }

    /// Blanks; the last one belongs to ` -}}` where that follows.
    fn space(&mut self) -> Token<'t> {
        let rest = self.rest();
        let length = rest.len() - rest.trim_start_matches(is_blank).len();
        let is_marker = rest[length..].strip_prefix('-').is_some_and(|rest| rest.starts_with(RIGHT));
        self.token(TokenKind::Space, if is_marker { length - 1 } else { length })
    }

    fn delimited(&mut self, mark: char, kind: TokenKind, unterminated: &str) -> Token<'t> {
        let mut escaped = false;
        for (at, c) in self.rest().char_indices().skip(1) {
            match c {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                _ if c == mark => return self.token(kind, at + 1),
                _ => {}
            }
        }
        self.error(self.position, unterminated.to_owned())
    }

    /// A word after `prefix` bytes, which a terminator must follow.
    fn word(&mut self, prefix: usize, kind: TokenKind) -> Token<'t> {
        let rest = self.rest();
        let length = rest[prefix..].find(|c| !is_identifier(c)).map_or(rest.len(), |length| prefix + length);
        match rest[length..].chars().next() {
            Some(next) if !(is_blank(next) || ".,|:()".contains(next) || rest[length..].starts_with(RIGHT)) => {
                self.error(self.position, format!("bad character {}", described(next)))
            }
            _ => self.token(kind, length),
        }
    }

    fn identifier(&mut self) -> Token<'t> {
        let token = self.word(0, TokenKind::Identifier);
        let kind = match &*token.text {
            _ if token.kind == TokenKind::Error => TokenKind::Error,
            "true" | "false" => TokenKind::Bool,
            word => Keyword::from_word(word).map_or(TokenKind::Identifier, TokenKind::Keyword),
        };
        Token { kind, ..token }
    }

    fn number(&mut self) -> Token<'t> {
        let rest = self.rest();
        let mut length = number_length(rest);
        let mut is_good = !rest[length..].starts_with(is_identifier);
        if is_good && rest[length..].starts_with(['+', '-']) {
            length += number_length(&rest[length..]);
            is_good = rest[..length].ends_with('i') && !rest[length..].starts_with(is_identifier);
        }
        if is_good {
            return self.token(TokenKind::Number, length);
        }
        let shown = length + rest[length..].chars().next().filter(|&c| is_identifier(c)).map_or(0, char::len_utf8);
        self.error(self.position, format!("bad number syntax: {}", quote(&rest[..shown])))
    }
}

/// The length of the longest possible number; its syntax is checked later.
fn number_length(text: &str) -> usize {
    let skip = |at: usize, wanted: &str| at + usize::from(text[at..].starts_with(|c| wanted.contains(c)));
    let run = |at: usize, wanted: &str| at + text[at..].find(|c| !wanted.contains(c)).unwrap_or(text.len() - at);
    let mut at = skip(0, "+-");
    let mut digits = "0123456789_";
    let mut exponent = "eE";
    if text[at..].starts_with('0') {
        at += 1;
        let behind = at;
        at = skip(at, "xXoObB");
        (digits, exponent) = match text[behind..at].to_ascii_lowercase().as_str() {
            "x" => ("0123456789abcdefABCDEF_", "pP"),
            "o" => ("01234567_", ""),
            "b" => ("01_", ""),
            _ => (digits, exponent),
        };
    }
    at = run(at, digits);
    if text[at..].starts_with('.') {
        at = run(at + 1, digits);
    }
    let behind = skip(at, exponent);
    if behind > at {
        at = run(skip(behind, "+-"), "0123456789_");
    }
    skip(at, "i")
}

/// A character as Go's `%#U` prints it.
fn described(c: char) -> String {
    let code = format!("U+{:04X}", u32::from(c));
    if is_print(c) { format!("{code} '{c}'") } else { code }
}
