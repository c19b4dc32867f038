//! Rendering: executes the code of a template.
//!
//! ```text
//!  code ──► instruction ──► expressions (eval) ──► values ──► output
//!             │      ▲
//!             └ frames: open scopes, ranges and calls, innermost last
//! ```
//!
//! Frames and variables live on the heap; only parentheses recurse, in [`super::eval`].

use super::Template;
use super::context::{RenderContext, RenderLimits};
use super::error::{RenderError, RenderFailure, line_and_column, shortened};
use super::print::{BoundedText, MAX_DEPTH, display};
use super::tree::{Code, Instruction, Operand, Pipeline, PipelineCommand, TemplateCall};
use super::value::{ListRef, MapRef, TemplateValue, TextValue, int};

/// Maximum depth of template calls.
const MAX_CALLS: usize = 1000;

/// The value of dot, and whether it has the type `interface {}`, which error messages depend on.
#[derive(Clone, Debug)]
pub(super) struct Dot<'a> {
    pub(super) value: TemplateValue<'a>,
    pub(super) as_interface: bool,
}

/// The piece that is being evaluated, for error messages.
#[derive(Clone, Copy, Debug)]
pub(super) enum CurrentPiece<'a> {
    Operand(&'a Operand),
    Command(&'a PipelineCommand),
    Pipeline(&'a Pipeline),
    Call(&'a TemplateCall),
}

impl CurrentPiece<'_> {
    fn position(&self) -> usize {
        match self {
            CurrentPiece::Operand(operand) => operand.position,
            CurrentPiece::Command(command) => command.position,
            CurrentPiece::Pipeline(pipeline) => pipeline.position,
            CurrentPiece::Call(call) => call.position,
        }
    }
}

impl std::fmt::Display for CurrentPiece<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CurrentPiece::Operand(operand) => operand.fmt(f),
            CurrentPiece::Command(command) => command.fmt(f),
            CurrentPiece::Pipeline(pipeline) => pipeline.fmt(f),
            CurrentPiece::Call(call) => call.fmt(f),
        }
    }
}

/// Items that a `range` has yet to visit.
#[derive(Debug)]
enum RangeItems<'a> {
    List { list: ListRef<'a>, next: usize },
    Map { map: MapRef<'a>, keys: std::vec::IntoIter<TextValue<'a>> },
    Numbers { value: TemplateValue<'a>, next: i64 },
}

#[derive(Debug)]
enum Frame<'a> {
    Scope {
        variables: usize,
        dot: Dot<'a>,
    },
    Range {
        variables: usize,
        dot: Dot<'a>,
        rounds: Option<RangeItems<'a>>,
        over: &'a Pipeline,
        next: usize,
        close: usize,
    },
    Call {
        code: &'a Code,
        at: usize,
        variables: Vec<(&'a str, TemplateValue<'a>)>,
        dot: Dot<'a>,
        executing: &'a str,
    },
}

pub(super) struct Executor<'a> {
    pub(super) template: &'a Template,
    pub(super) context: RenderContext<'a>,
    pub(super) dot: Dot<'a>,
    pub(super) piece: Option<CurrentPiece<'a>>,
    /// The failed function.
    pub(super) failed_call: Option<&'static str>,
    variables: Vec<(&'a str, TemplateValue<'a>)>,
    frames: Vec<Frame<'a>>,
    code: &'a Code,
    at: usize,
    executing: &'a str,
    calls: usize,
    output: BoundedText,
}

impl<'a> Executor<'a> {
    pub(super) fn new(template: &'a Template, data: TemplateValue<'a>, limits: RenderLimits) -> Self {
        Self {
            template,
            context: RenderContext::new(limits),
            dot: Dot { value: data.clone(), as_interface: false },
            piece: None,
            failed_call: None,
            variables: vec![("$", data)],
            frames: Vec::new(),
            code: &template.parsed.code,
            at: 0,
            executing: &template.name,
            calls: 0,
            output: BoundedText::new(limits.output),
        }
    }

    /// Runs the code to the end.
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

    fn steps(&mut self) -> Result<(), RenderFailure> {
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

    fn execute(&mut self, instruction: &'a Instruction) -> Result<(), RenderFailure> {
        match instruction {
            Instruction::Text(text) => self.write(text),
            Instruction::Print(pipeline) => {
                let value = self.pipeline(pipeline)?;
                match (pipeline.variables.is_empty(), &value) {
                    (false, _) => Ok(()),
                    (true, TemplateValue::Missing | TemplateValue::Nil) => self.write("<no value>"),
                    (true, TemplateValue::Text(text)) => self.write(text),
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

    fn write(&mut self, text: &str) -> Result<(), RenderFailure> {
        self.output.push(text).map_err(|failure| match failure {
            RenderFailure::Limit { limit, .. } => RenderFailure::Limit { what: "bytes of output", limit },
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

    /// Closes the scopes inside the current round and leaves the round; with `for_good`, the whole range.
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

    fn range(&mut self, over: &'a Pipeline, otherwise: usize, next: usize, close: usize) -> Result<(), RenderFailure> {
        let (variables, dot) = (self.variables.len(), self.dot.clone());
        self.frames.push(Frame::Range { variables, dot, rounds: None, over, next, close });
        let value = self.pipeline(over)?;
        let rounds = match value {
            TemplateValue::List(list) => Some(RangeItems::List { list, next: 0 }),
            TemplateValue::Map(map) => {
                let keys = self.context.heap.keys(map);
                self.context.work(keys.len() * 16)?;
                Some(RangeItems::Map { map, keys: keys.into_iter() })
            }
            TemplateValue::Int(_) | TemplateValue::Int64(_) | TemplateValue::Uint64(_) | TemplateValue::Byte(_) => {
                if over.variables.len() > 1 {
                    let shown = display(&self.context.heap, &value, self.context.left())?;
                    let message = format!("can't use {shown} to iterate over more than one variable");
                    return Err(RenderFailure::new(message));
                }
                Some(RangeItems::Numbers { value, next: 0 })
            }
            TemplateValue::Missing | TemplateValue::Nil => None,
            other => {
                let shown = match &other {
                    TemplateValue::Text(text) => text.chars().take(MAX_DEPTH).collect(),
                    other => display(&self.context.heap, other, self.context.left())?,
                };
                return Err(RenderFailure::new(format!("range can't iterate over {shown}")));
            }
        };
        // Variables that the pipeline declares stay for all rounds.
        let declared = if over.assigns { 0 } else { over.variables.len() };
        debug_assert!(self.variables.len() >= variables + declared);
        if let Some(Frame::Range { rounds: place, .. }) = self.frames.last_mut() {
            *place = rounds;
        }
        let starts = self.next_round()?;
        self.jump_unless(starts, otherwise);
        Ok(())
    }

    /// Sets dot and variables for the next round of the innermost range; false if there is none.
    fn next_round(&mut self) -> Result<bool, RenderFailure> {
        self.context.step()?;
        let Some(Frame::Range { variables, rounds, over, dot, .. }) = self.frames.last_mut() else {
            return Ok(false);
        };
        let heap = &self.context.heap;
        let round = match rounds {
            Some(RangeItems::List { list, next }) => {
                *next += 1;
                let is_any = heap.elements(*list) == super::value::ElementType::Any;
                heap.item(*list, *next - 1).map(|item| (int(*next - 1), item, is_any))
            }
            Some(RangeItems::Map { map, keys }) => keys.next().map(|key| {
                let member = heap.get(*map, &key).unwrap_or(TemplateValue::Nil);
                (TemplateValue::Text(key), member, !heap.holds_text(*map))
            }),
            Some(RangeItems::Numbers { value, next }) => {
                *next += 1;
                number(value, *next - 1).map(|number| (TemplateValue::Missing, number, false))
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

    fn call(&mut self, call: &'a TemplateCall) -> Result<(), RenderFailure> {
        self.piece = Some(CurrentPiece::Call(call));
        let Some((name, code)) = self.template.parsed.definitions.get_key_value(&call.name) else {
            return self.call_itself(call);
        };
        self.enter(call, name, code)
    }

    /// The template of the file can be called by name, like any other.
    fn call_itself(&mut self, call: &'a TemplateCall) -> Result<(), RenderFailure> {
        if call.name == self.template.name {
            return self.enter(call, &self.template.name, &self.template.parsed.code);
        }
        Err(RenderFailure::new(format!("template {} not defined", super::characters::quote(&call.name))))
    }

    fn enter(&mut self, call: &'a TemplateCall, name: &'a str, code: &'a Code) -> Result<(), RenderFailure> {
        if self.calls >= MAX_CALLS {
            return Err(RenderFailure::new(format!("exceeded maximum template depth ({MAX_CALLS})")));
        }
        self.calls += 1;
        let value = match &call.argument {
            Some(argument) => self.pipeline(argument)?,
            None => TemplateValue::Missing,
        };
        let variables = std::mem::replace(&mut self.variables, vec![("$", value.clone())]);
        let dot = std::mem::replace(&mut self.dot, Dot { value, as_interface: false });
        let (code, executing) = (std::mem::replace(&mut self.code, code), std::mem::replace(&mut self.executing, name));
        self.frames.push(Frame::Call { code, at: self.at, variables, dot, executing });
        self.at = 0;
        Ok(())
    }

    /// Declares a variable.
    pub(super) fn declare(&mut self, name: &'a str, value: TemplateValue<'a>) -> Result<(), RenderFailure> {
        self.context.work(size_of::<(&str, TemplateValue<'_>)>())?;
        self.variables.push((name, value));
        Ok(())
    }

    /// Assigns a value to a variable.
    pub(super) fn assign(&mut self, name: &str, value: TemplateValue<'a>) -> Result<(), RenderFailure> {
        let index = self.position(name)?;
        if let Some(variable) = self.variables.get_mut(index) {
            variable.1 = value;
        }
        Ok(())
    }

    pub(super) fn variable(&mut self, name: &str) -> Result<TemplateValue<'a>, RenderFailure> {
        let index = self.position(name)?;
        Ok(self.variables.get(index).map_or(TemplateValue::Missing, |(_, value)| value.clone()))
    }

    /// The position of the last declared variable of that name. A long search counts as steps.
    fn position(&mut self, name: &str) -> Result<usize, RenderFailure> {
        let found = self.variables.iter().rposition(|(known, _)| *known == name).ok_or_else(|| undefined(name))?;
        self.context.steps((self.variables.len() - found) / 16)?;
        Ok(found)
    }
}

/// The parser accepts an assignment in place of a declaration; the missing declaration is found while rendering.
fn undefined(name: &str) -> RenderFailure {
    RenderFailure::new(format!("undefined variable: {name}"))
}

/// The index of a round, with the type of the ranged value.
fn number<'a>(count: &TemplateValue<'a>, index: i64) -> Option<TemplateValue<'a>> {
    match count {
        TemplateValue::Int(count) => (index < *count).then_some(TemplateValue::Int(index)),
        TemplateValue::Int64(count) => (index < *count).then_some(TemplateValue::Int64(index)),
        TemplateValue::Uint64(count) => {
            let index = u64::try_from(index).ok()?;
            (index < *count).then_some(TemplateValue::Uint64(index))
        }
        TemplateValue::Byte(count) => u8::try_from(index).ok().filter(|index| index < count).map(TemplateValue::Byte),
        _ => None,
    }
}

/// Maximum length of the failing piece in error messages, in bytes.
const SHOWN: usize = 200;
