//! Pipelines, commands and operands (TPL-005 to TPL-007).

use super::super::characters::{quote, unquote};
use super::super::functions;
use super::super::lexer::{Keyword, Token, TokenKind};
use super::super::number::Number;
use super::super::tree::{Operand, Pipeline, PipelineCommand, Term};
use super::{MAX_PARENTHESES, ParseFault, Result, TemplateParser};

impl TemplateParser<'_> {
    /// A pipeline up to `end`, which is read.
    pub(super) fn pipeline(&mut self, context: &str, end: TokenKind) -> Result<Pipeline> {
        let position = self.peek_position();
        let mut pipeline = Pipeline { position, variables: Vec::new(), assigns: false, commands: Vec::new() };
        self.declarations(&mut pipeline, context)?;
        loop {
            let token = self.next_but_space();
            if token.kind == end {
                self.check(&pipeline, context)?;
                return Ok(pipeline);
            }
            if !starts_operand(token.kind) {
                return Self::unexpected(&token, context);
            }
            self.push_back(token);
            let command = self.command()?;
            pipeline.commands.push(command);
        }
    }

    /// `$x :=`, `$x =`, and in a range `$i, $x :=`.
    fn declarations(&mut self, pipeline: &mut Pipeline, context: &str) -> Result<()> {
        while self.peek_but_space() == TokenKind::Variable {
            let variable = self.next_but_space();
            let behind = self.next();
            let next = if behind.kind == TokenKind::Space { self.next_but_space() } else { behind.clone() };
            match next.kind {
                TokenKind::Assign | TokenKind::Declare => {
                    pipeline.assigns = next.kind == TokenKind::Assign;
                    self.declare(pipeline, &variable);
                    return Ok(());
                }
                TokenKind::Other if next.text == "," => {
                    self.declare(pipeline, &variable);
                    if context != "range" || pipeline.variables.len() > 1 {
                        return self.fault(format!("too many declarations in {context}"));
                    }
                    let follows = self.peek_but_space();
                    if !matches!(follows, TokenKind::Variable | TokenKind::RightDelimiter | TokenKind::RightParenthesis)
                    {
                        return self.fault("range can only initialize variables");
                    }
                }
                _ => {
                    self.push_back(next);
                    if behind.kind == TokenKind::Space {
                        self.push_back(behind);
                    }
                    self.push_back(variable);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn declare(&mut self, pipeline: &mut Pipeline, variable: &Token<'_>) {
        pipeline.variables.push(variable.text.to_string());
        self.body().variables.push(variable.text.to_string());
    }

    fn check(&self, pipeline: &Pipeline, context: &str) -> Result<()> {
        if pipeline.commands.is_empty() {
            return self.fault(format!("missing value for {context}"));
        }
        let is_constant =
            |term: &Term| matches!(term, Term::Bool(_) | Term::Dot | Term::Nil | Term::Number(_) | Term::Text { .. });
        match pipeline.commands.iter().skip(1).position(|command| is_constant(&command.first.term)) {
            Some(index) => self.fault(format!("non executable command in pipeline stage {}", index + 2)),
            None => Ok(()),
        }
    }

    fn command(&mut self) -> Result<PipelineCommand> {
        let position = self.peek_position();
        let mut operands = Vec::new();
        loop {
            operands.extend(self.operand()?);
            let token = self.next();
            match token.kind {
                TokenKind::Space => {}
                TokenKind::RightDelimiter | TokenKind::RightParenthesis => {
                    self.push_back(token);
                    break;
                }
                TokenKind::Pipe => break,
                _ => return Self::unexpected(&token, "operand"),
            }
        }
        let mut operands = operands.into_iter();
        match operands.next() {
            Some(first) => Ok(PipelineCommand { position, first, arguments: operands.collect() }),
            None => self.fault("empty command"),
        }
    }

    fn operand(&mut self) -> Result<Option<Operand>> {
        let Some(mut operand) = self.term()? else { return Ok(None) };
        if self.peek().kind != TokenKind::Field {
            return Ok(Some(operand));
        }
        let position = self.peek().position;
        let mut fields = Vec::new();
        while self.peek().kind == TokenKind::Field {
            fields.push(self.next().text.trim_start_matches('.').to_owned());
        }
        match &mut operand.term {
            Term::Field(names) | Term::Variable(_, names) => {
                names.extend(fields);
                operand.position = position;
            }
            Term::Bool(_) | Term::Text { .. } | Term::Number(_) | Term::Nil | Term::Dot => {
                return self.fault(format!("unexpected . after term {}", quote(&operand.to_string())));
            }
            Term::Function(_) | Term::Pipeline(_) | Term::Chain(..) => {
                operand = Operand { position, term: Term::Chain(Box::new(operand), fields) };
            }
        }
        Ok(Some(operand))
    }

    fn term(&mut self) -> Result<Option<Operand>> {
        let token = self.next_but_space();
        let text = &*token.text;
        let term = match token.kind {
            TokenKind::Identifier => match functions::find(self.functions, text) {
                Some(function) => Term::Function(function),
                None => return self.fault(format!("function {} not defined", quote(text))),
            },
            TokenKind::Dot => Term::Dot,
            TokenKind::Keyword(Keyword::Nil) => Term::Nil,
            TokenKind::Variable if self.body().variables.iter().any(|known| known == text) => {
                Term::Variable(text.to_owned(), Vec::new())
            }
            TokenKind::Variable => return self.fault(format!("undefined variable {}", quote(text))),
            TokenKind::Field => Term::Field(vec![text.trim_start_matches('.').to_owned()]),
            TokenKind::Bool => Term::Bool(text == "true"),
            TokenKind::Character => Term::Number(
                Number::character(text).map_err(|error| ParseFault::at(token.position, error.to_string()))?,
            ),
            TokenKind::Number => {
                Term::Number(Number::parse(text).map_err(|error| ParseFault::at(token.position, error.to_string()))?)
            }
            TokenKind::Quoted => match unquote(text) {
                Some(unquoted) => Term::Text { quoted: text.to_owned(), text: unquoted },
                None => return self.fault("invalid syntax"),
            },
            TokenKind::LeftParenthesis => return self.parenthesised().map(Some),
            _ => {
                self.push_back(token);
                return Ok(None);
            }
        };
        Ok(Some(Operand { position: token.position, term }))
    }

    fn parenthesised(&mut self) -> Result<Operand> {
        if self.parentheses >= MAX_PARENTHESES {
            return self
                .fault(format!("max expression depth exceeded: parentheses nest deeper than {MAX_PARENTHESES}"));
        }
        self.parentheses += 1;
        let pipeline = self.pipeline("parenthesized pipeline", TokenKind::RightParenthesis)?;
        self.parentheses -= 1;
        Ok(Operand { position: pipeline.position, term: Term::Pipeline(Box::new(pipeline)) })
    }
}

fn starts_operand(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Bool
            | TokenKind::Character
            | TokenKind::Dot
            | TokenKind::Field
            | TokenKind::Identifier
            | TokenKind::Number
            | TokenKind::Keyword(Keyword::Nil)
            | TokenKind::Quoted
            | TokenKind::Variable
            | TokenKind::LeftParenthesis
    )
}
