//! Templates parsed as Go's `text/template/parse` does (TPL-001 to TPL-008), without recursion on control structures.
//!
//! ```text
//!  Bodies:  one open body per {{define}} or {{block}}, the file's own at the bottom
//!    Body:  code so far, declared variables, open blocks (if, with, range), innermost last
//! ```

mod expression;

use std::collections::BTreeMap;

use super::Functions;
use super::characters::unquote;
use super::error::{MAX_MESSAGE, ParseError, line_and_column, shortened};
use super::lexer::{Keyword, Lexer, Token, TokenKind};
use super::tree::{Code, Instruction, Pipeline, TemplateCall};

/// How deep control structures may be nested; each `else if` nests one level.
pub(super) const MAX_BLOCKS: usize = 1000;

/// How deep parentheses may be nested: parsing and rendering recurse on them.
pub(super) const MAX_PARENTHESES: usize = 100;

/// The longest template that is read, in bytes. Parsed, one may take a hundred times its length; the API allows 10240
/// characters, which are 40 KiB at most.
pub(super) const MAX_LENGTH: usize = 64 << 10;

/// A text's own code, and the templates defined in it.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) code: Code,
    pub(super) definitions: BTreeMap<String, Code>,
}

/// Parses `text`.
pub(super) fn parse(name: &str, text: &str, functions: Functions) -> Result<Parsed, ParseError> {
    let mut parser = TemplateParser {
        lexer: Lexer::new(text),
        pushed_back: Vec::new(),
        last: 0,
        functions,
        parentheses: 0,
        bodies: vec![OpenBody::new(BodyOwner::File)],
        definitions: BTreeMap::new(),
    };
    let parsed = match text.len() {
        ..=MAX_LENGTH => parser.file(),
        length => Err(ParseFault::at(0, format!("template of {length} bytes is longer than {MAX_LENGTH}"))),
    };
    parsed.map_err(|ParseFault { position, message }| {
        let (line, column) = line_and_column(text, position);
        ParseError { name: name.to_owned(), line, column, message: shortened(message, MAX_MESSAGE) }
    })?;
    let code = parser.bodies.pop().map(|body| body.code).unwrap_or_default();
    Ok(Parsed { code: Code(code), definitions: parser.definitions })
}

/// An error and its position.
pub(super) struct ParseFault {
    position: usize,
    message: String,
}

impl ParseFault {
    fn at(position: usize, message: impl Into<String>) -> Self {
        Self { position, message: message.into() }
    }
}

type Result<T, E = ParseFault> = std::result::Result<T, E>;

struct TemplateParser<'t> {
    lexer: Lexer<'t>,
    /// Tokens to read again, next one last.
    pushed_back: Vec<Token<'t>>,
    /// Start of the last token.
    last: usize,
    functions: Functions,
    parentheses: usize,
    /// Never empty.
    bodies: Vec<OpenBody>,
    definitions: BTreeMap<String, Code>,
}

/// The owner of an open body.
enum BodyOwner {
    File,
    Define(String),
    /// A block, called at its position.
    Block(String, Box<TemplateCall>),
}

struct OpenBody {
    owner: BodyOwner,
    code: Vec<Instruction>,
    variables: Vec<String>,
    blocks: Vec<ControlBlock>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ControlStructure {
    If,
    With,
    Range,
}

/// An open `if`, `with` or `range`.
struct ControlBlock {
    structure: ControlStructure,
    /// Position of its instruction.
    start: usize,
    /// The jump over the else part, once it has begun.
    jump: Option<usize>,
    /// Number of variables before it.
    variables: usize,
    /// Opened by `else if` or `else with`: closes together with the block around it.
    implied: bool,
}

impl OpenBody {
    fn new(owner: BodyOwner) -> Self {
        Self { owner, code: Vec::new(), variables: vec!["$".to_owned()], blocks: Vec::new() }
    }

    /// Whether rendering it has no effect; such definitions may be repeated.
    fn is_empty(&self) -> bool {
        let is_blank = |instruction: &Instruction| match instruction {
            Instruction::Text(text) => text.trim().is_empty(),
            _ => false,
        };
        self.code.iter().all(is_blank)
    }

    fn in_range(&self) -> bool {
        self.blocks.iter().any(|block| block.structure == ControlStructure::Range && block.jump.is_none())
    }
}

impl<'t> TemplateParser<'t> {
    fn next(&mut self) -> Token<'t> {
        let token = self.pushed_back.pop().unwrap_or_else(|| self.lexer.next());
        self.last = token.position;
        token
    }

    fn next_but_space(&mut self) -> Token<'t> {
        loop {
            let token = self.next();
            if token.kind != TokenKind::Space {
                return token;
            }
        }
    }

    fn push_back(&mut self, token: Token<'t>) {
        self.pushed_back.push(token);
    }

    fn peek(&mut self) -> &Token<'t> {
        let token = self.next();
        self.pushed_back.push(token);
        self.pushed_back.last().expect("pushed just now")
    }

    fn peek_but_space(&mut self) -> TokenKind {
        let token = self.next_but_space();
        let kind = token.kind;
        self.push_back(token);
        kind
    }

    fn fault<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(ParseFault::at(self.last, message))
    }

    fn unexpected<T>(token: &Token<'_>, context: &str) -> Result<T> {
        let message = match token.kind {
            TokenKind::Error => token.text.to_string(),
            _ => format!("unexpected {} in {context}", token.described()),
        };
        Err(ParseFault::at(token.position, message))
    }

    fn expect(&mut self, kind: TokenKind, context: &str) -> Result<()> {
        let token = self.next_but_space();
        if token.kind == kind { Ok(()) } else { Self::unexpected(&token, context) }
    }

    fn body(&mut self) -> &mut OpenBody {
        self.bodies.last_mut().expect("the file's body stays to the end")
    }

    fn emit(&mut self, instruction: Instruction) {
        self.body().code.push(instruction);
    }

    fn here(&mut self) -> usize {
        self.body().code.len()
    }

    fn file(&mut self) -> Result<()> {
        loop {
            let token = self.next_but_space();
            match token.kind {
                TokenKind::Text => self.emit(Instruction::Text(token.text.into_owned())),
                TokenKind::LeftDelimiter => self.action()?,
                TokenKind::End if self.bodies.len() > 1 || !self.body().blocks.is_empty() => {
                    return self.fault("unexpected EOF");
                }
                TokenKind::End => return Ok(()),
                _ => return Self::unexpected(&token, "input"),
            }
        }
    }

    fn action(&mut self) -> Result<()> {
        let token = self.next_but_space();
        let at_top = self.bodies.len() == 1 && self.body().blocks.is_empty();
        match token.kind {
            TokenKind::Keyword(Keyword::Block) => self.block(),
            TokenKind::Keyword(Keyword::Break) => self.leave_round(Instruction::Break, "{{break}}"),
            TokenKind::Keyword(Keyword::Continue) => self.leave_round(Instruction::Continue, "{{continue}}"),
            TokenKind::Keyword(Keyword::Define) if at_top => self.define(),
            TokenKind::Keyword(Keyword::Else) => self.otherwise(),
            TokenKind::Keyword(Keyword::End) => self.end(),
            TokenKind::Keyword(Keyword::If) => self.open(ControlStructure::If, false),
            TokenKind::Keyword(Keyword::Range) => self.open(ControlStructure::Range, false),
            TokenKind::Keyword(Keyword::Template) => self.call(),
            TokenKind::Keyword(Keyword::With) => self.open(ControlStructure::With, false),
            _ => {
                self.push_back(token);
                let pipeline = self.pipeline("command", TokenKind::RightDelimiter)?;
                self.emit(Instruction::Print(pipeline));
                Ok(())
            }
        }
    }

    fn leave_round(&mut self, instruction: Instruction, name: &str) -> Result<()> {
        self.expect(TokenKind::RightDelimiter, name)?;
        if !self.body().in_range() {
            return self.fault(format!("{name} outside {{{{range}}}}"));
        }
        self.emit(instruction);
        Ok(())
    }

    fn open(&mut self, structure: ControlStructure, implied: bool) -> Result<()> {
        if self.bodies.iter().map(|body| body.blocks.len() + 1).sum::<usize>() > MAX_BLOCKS {
            return self.fault(format!("control structures nest deeper than {MAX_BLOCKS}"));
        }
        let (start, variables) = (self.here(), self.body().variables.len());
        let (context, otherwise) = match structure {
            ControlStructure::If => ("if", 0),
            ControlStructure::With => ("with", 0),
            ControlStructure::Range => ("range", 0),
        };
        let pipeline = self.pipeline(context, TokenKind::RightDelimiter)?;
        self.emit(match structure {
            ControlStructure::If => Instruction::If { condition: pipeline, otherwise },
            ControlStructure::With => Instruction::With { value: pipeline, otherwise },
            ControlStructure::Range => Instruction::Range { over: pipeline, otherwise, next: 0, close: 0 },
        });
        self.body().blocks.push(ControlBlock { structure, start, jump: None, variables, implied });
        Ok(())
    }

    fn otherwise(&mut self) -> Result<()> {
        let position = self.last;
        let follows = self.peek_but_space();
        let is_chained = matches!(follows, TokenKind::Keyword(Keyword::If | Keyword::With));
        if !is_chained {
            self.expect(TokenKind::RightDelimiter, "else")?;
        }
        self.last = position;
        let Some(mut block) = self.body().blocks.pop() else {
            return self.fault(format!("unexpected {{{{else}}}}{}", self.context()));
        };
        if block.jump.is_some() {
            return self.fault("expected end; found {{else}}");
        }
        let next = self.here();
        if block.structure == ControlStructure::Range {
            self.emit(Instruction::Next { body: block.start + 1 });
        }
        block.jump = Some(self.here());
        self.emit(Instruction::Jump(0));
        let otherwise = self.here();
        self.patch(block.start, otherwise, next, 0);
        let structure = block.structure;
        self.body().blocks.push(block);
        match (structure, follows) {
            (ControlStructure::If, TokenKind::Keyword(Keyword::If))
            | (ControlStructure::With, TokenKind::Keyword(Keyword::With)) => {
                self.next_but_space();
                self.open(structure, true)
            }
            _ => Ok(()),
        }
    }

    /// The context in error messages: the file, or the definition being read.
    fn context(&self) -> &'static str {
        match self.bodies.last().map(|body| &body.owner) {
            Some(BodyOwner::Define(_)) => " in define clause",
            Some(BodyOwner::Block(..)) => " in block clause",
            Some(BodyOwner::File) | None => "",
        }
    }

    fn end(&mut self) -> Result<()> {
        let position = self.last;
        self.expect(TokenKind::RightDelimiter, "end")?;
        loop {
            let Some(block) = self.body().blocks.pop() else {
                self.last = position;
                return self.end_of_body();
            };
            self.close(&block);
            if !block.implied {
                return Ok(());
            }
        }
    }

    fn close(&mut self, block: &ControlBlock) {
        let next = self.here();
        if block.jump.is_none() && block.structure == ControlStructure::Range {
            self.emit(Instruction::Next { body: block.start + 1 });
        }
        let close = self.here();
        self.emit(Instruction::Close);
        match block.jump {
            Some(jump) => {
                self.patch(jump, close, 0, 0);
                self.patch(block.start, 0, 0, close);
            }
            None => self.patch(block.start, close, next, close),
        }
        self.body().variables.truncate(block.variables);
    }

    /// Sets the targets of the instruction at `at`; zero means no target.
    fn patch(&mut self, at: usize, target: usize, next_round: usize, end: usize) {
        let fill = |place: &mut usize, value: usize| {
            if value > 0 {
                *place = value;
            }
        };
        let fill_once = |place: &mut usize, value: usize| fill(place, if *place == 0 { value } else { 0 });
        match self.body().code.get_mut(at) {
            Some(Instruction::If { otherwise, .. } | Instruction::With { otherwise, .. }) => {
                fill_once(otherwise, target);
            }
            Some(Instruction::Range { otherwise, next, close, .. }) => {
                fill_once(otherwise, target);
                fill(next, next_round);
                fill(close, end);
            }
            Some(Instruction::Jump(place)) => fill(place, target),
            _ => {}
        }
    }

    fn template_name(&mut self, context: &str) -> Result<String> {
        let token = self.next_but_space();
        match token.kind {
            TokenKind::Quoted => unquote(&token.text).map_or_else(|| self.fault("invalid syntax"), Ok),
            _ => Self::unexpected(&token, context),
        }
    }

    fn call(&mut self) -> Result<()> {
        let context = "template clause";
        let position = self.peek_position();
        let name = self.template_name(context)?;
        let token = self.next_but_space();
        let mut argument = None;
        if token.kind != TokenKind::RightDelimiter {
            self.push_back(token);
            argument = Some(self.pipeline(context, TokenKind::RightDelimiter)?);
        }
        self.emit(Instruction::Call(TemplateCall { position, name, argument }));
        Ok(())
    }

    fn peek_position(&mut self) -> usize {
        let token = self.next_but_space();
        let position = token.position;
        self.push_back(token);
        position
    }

    fn define(&mut self) -> Result<()> {
        let context = "define clause";
        let name = self.template_name(context)?;
        self.expect(TokenKind::RightDelimiter, context)?;
        self.bodies.push(OpenBody::new(BodyOwner::Define(name)));
        Ok(())
    }

    fn block(&mut self) -> Result<()> {
        let context = "block clause";
        if self.bodies.len() > MAX_BLOCKS {
            return self.fault(format!("control structures nest deeper than {MAX_BLOCKS}"));
        }
        let position = self.peek_position();
        let name = self.template_name(context)?;
        let argument: Option<Pipeline> = Some(self.pipeline(context, TokenKind::RightDelimiter)?);
        let call = TemplateCall { position, name: name.clone(), argument };
        self.bodies.push(OpenBody::new(BodyOwner::Block(name, Box::new(call))));
        Ok(())
    }

    fn end_of_body(&mut self) -> Result<()> {
        if self.bodies.len() == 1 {
            return self.fault("unexpected {{end}}");
        }
        let body = self.bodies.pop().expect("there are two");
        let is_empty = body.is_empty();
        let (name, call) = match body.owner {
            BodyOwner::Block(name, call) => (name, Some(*call)),
            BodyOwner::Define(name) => (name, None),
            BodyOwner::File => return self.fault("unexpected {{end}}"),
        };
        let code = Code(body.code);
        let is_defined = self.definitions.get(&name).is_some_and(|code| !is_blank(code));
        if is_defined && !is_empty {
            return self.fault(format!("template: multiple definition of template {name:?}"));
        }
        if !is_defined {
            self.definitions.insert(name, code);
        }
        if let Some(call) = call {
            self.emit(Instruction::Call(call));
        }
        Ok(())
    }
}

fn is_blank(code: &Code) -> bool {
    code.0.iter().all(|instruction| matches!(instruction, Instruction::Text(text) if text.trim().is_empty()))
}
