//! Rendering: a machine that runs a template's code.
//!
//! ```text
//!  code ──► instruction ──► expressions (eval) ──► values ──► output
//!             │      ▲
//!             └ frames: open scopes, ranges and calls, innermost last
//! ```
//!
//! Frames and variables live on the heap; only parentheses recurse, in [`super::eval`].

use super::Template;
use super::context::{Context, Limits};
use super::error::{Failure, RenderError, line_and_column, shortened};
use super::print::{MAX_DEPTH, Output, display};
use super::tree::{Call, Code, Command, Instruction, Operand, Pipeline};
use super::value::{List, Map, Text, Value, int};

/// How many templates may be in the middle of calling one another.
const MAX_CALLS: usize = 1000;

/// The value of dot, and whether it came as an `interface {}`, which error messages tell.
#[derive(Clone, Debug)]
pub(super) struct Dot<'a> {
    pub(super) value: Value<'a>,
    pub(super) as_interface: bool,
}

/// The piece that is being evaluated, for error messages.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece<'a> {
    Operand(&'a Operand),
    Command(&'a Command),
    Pipeline(&'a Pipeline),
    Call(&'a Call),
}

impl Piece<'_> {
    fn position(&self) -> usize {
        match self {
            Piece::Operand(operand) => operand.position,
            Piece::Command(command) => command.position,
            Piece::Pipeline(pipeline) => pipeline.position,
            Piece::Call(call) => call.position,
        }
    }
}

impl std::fmt::Display for Piece<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Piece::Operand(operand) => operand.fmt(f),
            Piece::Command(command) => command.fmt(f),
            Piece::Pipeline(pipeline) => pipeline.fmt(f),
            Piece::Call(call) => call.fmt(f),
        }
    }
}

/// What is still to be ranged over.
#[derive(Debug)]
enum Rounds<'a> {
    List { list: List<'a>, next: usize },
    Map { map: Map<'a>, keys: std::vec::IntoIter<Text<'a>> },
    Numbers { value: Value<'a>, next: i64 },
}

#[derive(Debug)]
enum Frame<'a> {
    Scope { variables: usize, dot: Dot<'a> },
    Range { variables: usize, dot: Dot<'a>, rounds: Option<Rounds<'a>>, over: &'a Pipeline, next: usize, close: usize },
    Call { code: &'a Code, at: usize, variables: Vec<(&'a str, Value<'a>)>, dot: Dot<'a>, executing: &'a str },
}

pub(super) struct Machine<'a> {
    pub(super) template: &'a Template,
    pub(super) context: Context<'a>,
    pub(super) dot: Dot<'a>,
    pub(super) piece: Option<Piece<'a>>,
    /// The function that failed.
    pub(super) failed_call: Option<&'static str>,
    variables: Vec<(&'a str, Value<'a>)>,
    frames: Vec<Frame<'a>>,
    code: &'a Code,
    at: usize,
    executing: &'a str,
    calls: usize,
    output: Output,
}

impl<'a> Machine<'a> {
    pub(super) fn new(template: &'a Template, data: Value<'a>, limits: Limits) -> Self {
        Self {
            template,
            context: Context::new(limits),
            dot: Dot { value: data.clone(), as_interface: false },
            piece: None,
            failed_call: None,
            variables: vec![("$", data)],
            frames: Vec::new(),
            code: &template.parsed.code,
            at: 0,
            executing: &template.name,
            calls: 0,
            output: Output::new(limits.output),
        }
    }

    /// Runs the code to its end.
    pub(super) fn run(mut self) -> Result<String, RenderError> {
        match self.steps() {
            Ok(()) => Ok(self.output.into_text()),
            Err(failure) => {
                let position = self.piece.map_or(0, |piece| piece.position());
                let (line, column) = line_and_column(&self.template.text, position);
                Err(RenderError {
                    name: self.template.name.as_str().into(),
                    line,
                    column,
                    executing: self.executing.into(),
                    piece: self.piece.map(|piece| shortened(piece.to_string(), SHOWN).into()).unwrap_or_default(),
                    call: self.failed_call,
                    failure,
                })
            }
        }
    }

    fn steps(&mut self) -> Result<(), Failure> {
        loop {
            while let Some(instruction) = self.code.0.get(self.at) {
                self.context.step()?;
                self.at += 1;
                self.execute(instruction)?;
            }
            match self.frames.pop() {
                Some(Frame::Call { code, at, variables, dot, executing }) => {
                    (self.code, self.at, self.variables) = (code, at, variables);
                    (self.dot, self.executing) = (dot, executing);
                    self.calls -= 1;
                }
                _ => return Ok(()),
            }
        }
    }

    fn execute(&mut self, instruction: &'a Instruction) -> Result<(), Failure> {
        match instruction {
            Instruction::Text(text) => self.write(text),
            Instruction::Print(pipeline) => {
                let value = self.pipeline(pipeline)?;
                match (pipeline.variables.is_empty(), &value) {
                    (false, _) => Ok(()),
                    (true, Value::Missing | Value::Nil) => self.write("<no value>"),
                    (true, Value::Text(text)) => self.write(text),
                    (true, other) => {
                        let text = display(&self.context.heap, other, self.context.left())?;
                        self.context.work(text.len())?;
                        self.write(&text)
                    }
                }
            }
            Instruction::If { condition, otherwise } => {
                self.open_scope();
                let value = self.pipeline(condition)?;
                self.jump_unless(self.context.heap.truth(&value), *otherwise);
                Ok(())
            }
            Instruction::With { value, otherwise } => {
                self.open_scope();
                let value = self.pipeline(value)?;
                let truth = self.context.heap.truth(&value);
                if truth {
                    self.dot = Dot { value, as_interface: false };
                }
                self.jump_unless(truth, *otherwise);
                Ok(())
            }
            Instruction::Range { over, otherwise, next, close } => self.range(over, *otherwise, *next, *close),
            Instruction::Next { body } => {
                if self.next_round()? {
                    self.at = *body;
                }
                Ok(())
            }
            Instruction::Jump(target) => {
                self.at = *target;
                Ok(())
            }
            Instruction::Close => {
                self.close();
                Ok(())
            }
            Instruction::Break => {
                self.leave_round(true);
                Ok(())
            }
            Instruction::Continue => {
                self.leave_round(false);
                Ok(())
            }
            Instruction::Call(call) => self.call(call),
        }
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        self.output.push(text).map_err(|failure| match failure {
            Failure::Limit { limit, .. } => Failure::Limit { what: "bytes of output", limit },
            other => other,
        })
    }

    fn open_scope(&mut self) {
        self.frames.push(Frame::Scope { variables: self.variables.len(), dot: self.dot.clone() });
    }

    fn jump_unless(&mut self, truth: bool, otherwise: usize) {
        if !truth {
            self.at = otherwise;
        }
    }

    fn close(&mut self) {
        if let Some(Frame::Scope { variables, dot } | Frame::Range { variables, dot, .. }) = self.frames.pop() {
            self.variables.truncate(variables);
            self.dot = dot;
        }
    }

    /// Closes scopes inside the current round and leaves that, with `for_good` all rounds.
    ///
    /// As in Go, a break in the else part of a range ends that part, but a continue belongs to the range around it.
    fn leave_round(&mut self, for_good: bool) {
        while let Some(frame) = self.frames.last_mut() {
            match frame {
                Frame::Range { rounds, close, .. } if for_good => {
                    *rounds = None;
                    self.at = *close;
                    return;
                }
                Frame::Range { rounds: Some(_), next, .. } => {
                    self.at = *next;
                    return;
                }
                _ => self.close(),
            }
        }
    }

    fn range(&mut self, over: &'a Pipeline, otherwise: usize, next: usize, close: usize) -> Result<(), Failure> {
        let (variables, dot) = (self.variables.len(), self.dot.clone());
        self.frames.push(Frame::Range { variables, dot, rounds: None, over, next, close });
        let value = self.pipeline(over)?;
        let rounds = match value {
            Value::List(list) => Some(Rounds::List { list, next: 0 }),
            Value::Map(map) => {
                let keys = self.context.heap.keys(map);
                self.context.work(keys.len() * 16)?;
                Some(Rounds::Map { map, keys: keys.into_iter() })
            }
            Value::Int(_) | Value::Int64(_) | Value::Uint64(_) | Value::Byte(_) => {
                if over.variables.len() > 1 {
                    let shown = display(&self.context.heap, &value, self.context.left())?;
                    let message = format!("can't use {shown} to iterate over more than one variable");
                    return Err(Failure::new(message));
                }
                Some(Rounds::Numbers { value, next: 0 })
            }
            Value::Missing | Value::Nil => None,
            other => {
                let shown = match &other {
                    Value::Text(text) => text.chars().take(MAX_DEPTH).collect(),
                    other => display(&self.context.heap, other, self.context.left())?,
                };
                return Err(Failure::new(format!("range can't iterate over {shown}")));
            }
        };
        // The variables that the pipeline declared stay for all rounds.
        let declared = if over.assigns { 0 } else { over.variables.len() };
        debug_assert!(self.variables.len() >= variables + declared);
        if let Some(Frame::Range { rounds: place, .. }) = self.frames.last_mut() {
            *place = rounds;
        }
        let starts = self.next_round()?;
        self.jump_unless(starts, otherwise);
        Ok(())
    }

    /// Sets dot and variables for the next round of the innermost range, if there is one.
    fn next_round(&mut self) -> Result<bool, Failure> {
        self.context.step()?;
        let Some(Frame::Range { variables, rounds, over, dot, .. }) = self.frames.last_mut() else {
            return Ok(false);
        };
        let heap = &self.context.heap;
        let round = match rounds {
            Some(Rounds::List { list, next }) => {
                *next += 1;
                let is_any = heap.elements(*list) == super::value::Elements::Any;
                heap.item(*list, *next - 1).map(|item| (int(*next - 1), item, is_any))
            }
            Some(Rounds::Map { map, keys }) => keys.next().map(|key| {
                let member = heap.get(*map, &key).unwrap_or(Value::Nil);
                (Value::Text(key), member, !heap.holds_text(*map))
            }),
            Some(Rounds::Numbers { value, next }) => {
                *next += 1;
                number(value, *next - 1).map(|number| (Value::Missing, number, false))
            }
            None => None,
        };
        let declared = if over.assigns { 0 } else { over.variables.len() };
        let kept = *variables + declared;
        let Some((key, item, as_interface)) = round else {
            *rounds = None;
            let dot = dot.clone();
            self.variables.truncate(kept);
            self.dot = dot;
            return Ok(false);
        };
        let over = *over;
        self.variables.truncate(kept);
        let names = over.variables.iter().zip(match over.variables.len() {
            2 => vec![key, item.clone()],
            _ => vec![item.clone()],
        });
        for (offset, (name, value)) in names.enumerate() {
            if over.assigns {
                self.assign(name, value)?;
            } else if let Some(variable) = self.variables.get_mut(kept - declared + offset) {
                variable.1 = value;
            }
        }
        self.dot = Dot { value: item, as_interface };
        Ok(true)
    }

    fn call(&mut self, call: &'a Call) -> Result<(), Failure> {
        self.piece = Some(Piece::Call(call));
        let Some((name, code)) = self.template.parsed.definitions.get_key_value(&call.name) else {
            return self.call_itself(call);
        };
        self.enter(call, name, code)
    }

    /// The file's own template can be called by its name, like any other.
    fn call_itself(&mut self, call: &'a Call) -> Result<(), Failure> {
        if call.name == self.template.name {
            return self.enter(call, &self.template.name, &self.template.parsed.code);
        }
        Err(Failure::new(format!("template {} not defined", super::characters::quote(&call.name))))
    }

    fn enter(&mut self, call: &'a Call, name: &'a str, code: &'a Code) -> Result<(), Failure> {
        if self.calls >= MAX_CALLS {
            return Err(Failure::new(format!("exceeded maximum template depth ({MAX_CALLS})")));
        }
        self.calls += 1;
        let value = match &call.argument {
            Some(argument) => self.pipeline(argument)?,
            None => Value::Missing,
        };
        let variables = std::mem::replace(&mut self.variables, vec![("$", value.clone())]);
        let dot = std::mem::replace(&mut self.dot, Dot { value, as_interface: false });
        let (code, executing) = (std::mem::replace(&mut self.code, code), std::mem::replace(&mut self.executing, name));
        self.frames.push(Frame::Call { code, at: self.at, variables, dot, executing });
        self.at = 0;
        Ok(())
    }

    /// Declares a variable.
    pub(super) fn declare(&mut self, name: &'a str, value: Value<'a>) -> Result<(), Failure> {
        self.context.work(size_of::<(&str, Value<'_>)>())?;
        self.variables.push((name, value));
        Ok(())
    }

    /// Gives a variable another value.
    pub(super) fn assign(&mut self, name: &str, value: Value<'a>) -> Result<(), Failure> {
        let index = self.position(name)?;
        if let Some(variable) = self.variables.get_mut(index) {
            variable.1 = value;
        }
        Ok(())
    }

    pub(super) fn variable(&mut self, name: &str) -> Result<Value<'a>, Failure> {
        let index = self.position(name)?;
        Ok(self.variables.get(index).map_or(Value::Missing, |(_, value)| value.clone()))
    }

    /// Where the variable declared last by that name stands. Looking far back counts.
    fn position(&mut self, name: &str) -> Result<usize, Failure> {
        let found = self.variables.iter().rposition(|(known, _)| *known == name).ok_or_else(|| undefined(name))?;
        self.context.steps((self.variables.len() - found) / 16)?;
        Ok(found)
    }
}

/// The parser takes an assignment for a declaration; only rendering finds that there was none.
fn undefined(name: &str) -> Failure {
    Failure::new(format!("undefined variable: {name}"))
}

/// The number of a round, in the type of what is ranged over.
fn number<'a>(count: &Value<'a>, index: i64) -> Option<Value<'a>> {
    match count {
        Value::Int(count) => (index < *count).then_some(Value::Int(index)),
        Value::Int64(count) => (index < *count).then_some(Value::Int64(index)),
        Value::Uint64(count) => {
            let index = u64::try_from(index).ok()?;
            (index < *count).then_some(Value::Uint64(index))
        }
        Value::Byte(count) => u8::try_from(index).ok().filter(|index| index < count).map(Value::Byte),
        _ => None,
    }
}

/// Error messages show this much of the failing piece, in bytes.
const SHOWN: usize = 200;
