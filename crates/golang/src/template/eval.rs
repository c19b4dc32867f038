//! Evaluation of expressions: pipelines, calls, fields and conversions of arguments.

use super::context::RenderContext;
use super::error::RenderFailure;
use super::exec::{CurrentPiece, Dot, Executor};
use super::functions::{CallArguments, FunctionKind, Parameter, TemplateFunction};
use super::methods;
use super::number::Number;
use super::tree::{Operand, Pipeline, PipelineCommand, Term};
use super::value::{TemplateValue, TextValue};

/// The value that a pipeline passes to the next command; `None` for the first.
type PipedValue<'a> = Option<TemplateValue<'a>>;

impl<'a> Executor<'a> {
    pub(super) fn pipeline(&mut self, pipeline: &'a Pipeline) -> Result<TemplateValue<'a>, RenderFailure> {
        self.piece = Some(CurrentPiece::Pipeline(pipeline));
        let mut passed: PipedValue<'a> = None;
        for command in &pipeline.commands {
            let value = self.command(command, passed)?.value;
            passed = Some(value.out_of_interface());
        }
        let value = passed.unwrap_or(TemplateValue::Missing);
        for name in &pipeline.variables {
            match pipeline.assigns {
                true => self.assign(name, value.clone())?,
                false => self.declare(name, value.clone())?,
            }
        }
        Ok(value)
    }

    fn command(&mut self, command: &'a PipelineCommand, passed: PipedValue<'a>) -> Result<Dot<'a>, RenderFailure> {
        self.context.step()?;
        let first = &command.first;
        let arguments = &command.arguments;
        match &first.term {
            Term::Field(_) | Term::Chain(..) | Term::Variable(..) => self.fields(first, arguments, passed),
            Term::Function(function) => {
                self.piece = Some(CurrentPiece::Operand(first));
                self.call_function(function, CurrentPiece::Command(command), arguments, passed)
            }
            Term::Pipeline(pipeline) => {
                takes_no_arguments(first, arguments, passed.as_ref())?;
                self.pipeline(pipeline).map(concrete)
            }
            Term::Nil => {
                self.piece = Some(CurrentPiece::Operand(first));
                takes_no_arguments(first, arguments, passed.as_ref())?;
                Err(RenderFailure::new("nil is not a command"))
            }
            _ => {
                self.piece = Some(CurrentPiece::Operand(first));
                takes_no_arguments(first, arguments, passed.as_ref())?;
                self.operand(first)
            }
        }
    }

    /// An operand by itself, as an `interface {}`.
    fn operand(&mut self, operand: &'a Operand) -> Result<Dot<'a>, RenderFailure> {
        self.context.step()?;
        self.piece = Some(CurrentPiece::Operand(operand));
        match &operand.term {
            Term::Bool(value) => Ok(concrete(TemplateValue::Bool(*value))),
            Term::Number(number) => ideal(number).map(concrete),
            Term::Text { text, .. } => Ok(concrete(TemplateValue::Text(TextValue::Borrowed(text)))),
            Term::Nil => Ok(concrete(TemplateValue::Nil)),
            Term::Dot => Ok(self.dot.clone()),
            Term::Field(_) | Term::Variable(..) | Term::Chain(..) => self.fields(operand, &[], None),
            Term::Function(function) => self.call_function(function, CurrentPiece::Operand(operand), &[], None),
            Term::Pipeline(pipeline) => self.pipeline(pipeline).map(concrete),
        }
    }

    /// A field, variable or chain; arguments go to its last part.
    fn fields(
        &mut self,
        operand: &'a Operand,
        arguments: &'a [Operand],
        passed: PipedValue<'a>,
    ) -> Result<Dot<'a>, RenderFailure> {
        self.piece = Some(CurrentPiece::Operand(operand));
        let (mut receiver, names) = match &operand.term {
            Term::Field(names) => (self.dot.clone(), names),
            Term::Variable(name, names) => (concrete(self.variable(name)?), names),
            Term::Chain(inner, names) => {
                if matches!(inner.term, Term::Nil) {
                    return Err(RenderFailure::new(format!("indirection through explicit nil in {operand}")));
                }
                (concrete(self.operand(inner)?.value), names)
            }
            _ => return Ok(concrete(TemplateValue::Missing)),
        };
        let Some((last, path)) = names.split_last() else {
            takes_no_arguments(operand, arguments, passed.as_ref())?;
            return Ok(receiver);
        };
        for name in path {
            receiver = self.field(name, receiver, CurrentPiece::Operand(operand), &[], None)?;
        }
        self.field(last, receiver, CurrentPiece::Operand(operand), arguments, passed)
    }

    fn field(
        &mut self,
        name: &'a str,
        receiver: Dot<'a>,
        piece: CurrentPiece<'a>,
        arguments: &'a [Operand],
        passed: PipedValue<'a>,
    ) -> Result<Dot<'a>, RenderFailure> {
        self.context.step()?;
        let has_arguments = !arguments.is_empty() || passed.is_some();
        let type_name = match receiver.as_interface {
            true => "interface {}",
            false => self.context.heap.type_name(&receiver.value),
        };
        match &receiver.value {
            TemplateValue::Missing if self.template.strict => {
                Err(RenderFailure::new(format!("nil data; no entry for key {}", super::characters::quote(name))))
            }
            TemplateValue::Missing => Ok(receiver),
            TemplateValue::Nil => Err(RenderFailure::new(format!("nil pointer evaluating interface {{}}.{name}"))),
            TemplateValue::Map(_) if has_arguments => {
                Err(RenderFailure::new(format!("{name} is not a method but has arguments")))
            }
            TemplateValue::Map(map) => match self.context.heap.get(*map, name) {
                Some(value) => {
                    let as_interface = !self.context.heap.holds_text(*map);
                    Ok(Dot { value, as_interface })
                }
                None if self.template.strict => {
                    Err(RenderFailure::new(format!("map has no entry for key {}", super::characters::quote(name))))
                }
                None => Ok(concrete(TemplateValue::Missing)),
            },
            TemplateValue::Version(_) | TemplateValue::Time(_) => match methods::find(&receiver.value, name) {
                Some(method) => self.call_method(method, receiver.value, piece, arguments, passed),
                None => Err(RenderFailure::new(format!("can't evaluate field {name} in type {type_name}"))),
            },
            _ => Err(RenderFailure::new(format!("can't evaluate field {name} in type {type_name}"))),
        }
    }

    fn call_method(
        &mut self,
        method: &'static TemplateFunction,
        receiver: TemplateValue<'a>,
        piece: CurrentPiece<'a>,
        operands: &'a [Operand],
        passed: PipedValue<'a>,
    ) -> Result<Dot<'a>, RenderFailure> {
        let given = operands.len() + usize::from(passed.is_some());
        // The receiver is the first parameter.
        if given + 1 != method.parameters.len() {
            let (name, want) = (method.name, method.parameters.len() - 1);
            return Err(RenderFailure::new(format!("wrong number of args for {name}: want {want} got {given}")));
        }
        let mut arguments = vec![receiver];
        for (index, operand) in operands.iter().enumerate() {
            arguments.push(self.argument(operand, method.parameter(index + 1))?);
        }
        if let Some(passed) = passed {
            arguments.push(method.parameter(given).accept(passed, &self.context)?);
        }
        self.apply(method, piece, &arguments).map(concrete)
    }

    fn call_function(
        &mut self,
        function: &'static TemplateFunction,
        piece: CurrentPiece<'a>,
        operands: &'a [Operand],
        passed: PipedValue<'a>,
    ) -> Result<Dot<'a>, RenderFailure> {
        let given = operands.len() + usize::from(passed.is_some());
        check_count(function, operands.len(), given)?;
        if let FunctionKind::And | FunctionKind::Or = function.action {
            return self.short_circuit(function, operands, passed).map(concrete);
        }
        let mut arguments = Vec::with_capacity(given);
        for (index, operand) in operands.iter().enumerate() {
            arguments.push(self.argument(operand, function.parameter(index))?);
        }
        if let Some(passed) = passed {
            arguments.push(function.parameter(given - 1).accept(passed, &self.context)?);
        }
        let returns_element = function.name == "index";
        let value = self.apply(function, piece, &arguments)?;
        Ok(Dot { value, as_interface: returns_element })
    }

    /// `and` and `or` evaluate only as many arguments as needed, and return one of them.
    fn short_circuit(
        &mut self,
        function: &'static TemplateFunction,
        operands: &'a [Operand],
        passed: PipedValue<'a>,
    ) -> Result<TemplateValue<'a>, RenderFailure> {
        let stops_at = matches!(function.action, FunctionKind::Or);
        let mut value = TemplateValue::Missing;
        for operand in operands {
            value = self.argument(operand, Parameter::Raw)?;
            if self.context.heap.truth(&value) == stops_at {
                return Ok(value);
            }
        }
        Ok(passed.unwrap_or(value))
    }

    fn apply(
        &mut self,
        function: &'static TemplateFunction,
        piece: CurrentPiece<'a>,
        arguments: &[TemplateValue<'a>],
    ) -> Result<TemplateValue<'a>, RenderFailure> {
        let result = read(&mut self.context, arguments).and_then(|()| match function.action {
            FunctionKind::Call(body) => body(&mut self.context, &CallArguments(arguments)),
            FunctionKind::And | FunctionKind::Or => Ok(TemplateValue::Missing),
        });
        if result.is_err() {
            self.piece = Some(piece);
            self.failed_call = Some(function.name);
        }
        result
    }

    /// An operand converted for a parameter. Constants convert like Go's ideal constants.
    fn argument(&mut self, operand: &'a Operand, parameter: Parameter) -> Result<TemplateValue<'a>, RenderFailure> {
        self.context.step()?;
        self.piece = Some(CurrentPiece::Operand(operand));
        let wants_anything = matches!(parameter, Parameter::Any | Parameter::Raw);
        match &operand.term {
            Term::Nil if parameter == Parameter::Any => Ok(TemplateValue::Nil),
            Term::Nil if matches!(parameter, Parameter::Raw | Parameter::Map) => Ok(TemplateValue::Missing),
            Term::Nil => Err(RenderFailure::new(format!("cannot assign nil to {}", parameter.name()))),
            Term::Bool(_) | Term::Number(_) | Term::Text { .. } if !wants_anything => constant(operand, parameter),
            _ => {
                let value = self.operand(operand)?.value;
                parameter.accept(value, &self.context)
            }
        }
    }
}

/// A number constant with its default type.
fn ideal<'a>(number: &Number) -> Result<TemplateValue<'a>, RenderFailure> {
    if let Some((real, imaginary)) = number.complex {
        return Ok(TemplateValue::Complex(real, imaginary));
    }
    match (number.float, number.integer) {
        (Some(float), _) if number.is_written_as_float() => Ok(TemplateValue::Float(float)),
        (_, Some(integer)) => Ok(TemplateValue::Int(integer)),
        _ => Err(RenderFailure::new(format!("{} overflows int", number.text))),
    }
}

fn takes_no_arguments(
    first: &Operand,
    arguments: &[Operand],
    passed: Option<&TemplateValue<'_>>,
) -> Result<(), RenderFailure> {
    if arguments.is_empty() && passed.is_none() {
        return Ok(());
    }
    Err(RenderFailure::new(format!("can't give argument to non-function {first}")))
}

fn concrete(value: TemplateValue<'_>) -> Dot<'_> {
    Dot { value, as_interface: false }
}

/// Charges the bytes that a function reads.
fn read<'a>(context: &mut RenderContext<'a>, arguments: &[TemplateValue<'a>]) -> Result<(), RenderFailure> {
    let mut bytes = 0usize;
    for argument in arguments {
        bytes = bytes.saturating_add(match argument {
            TemplateValue::Text(text) => text.len(),
            TemplateValue::List(list) => context.heap.list_len(*list) * 8,
            _ => 0,
        });
    }
    context.work(bytes)
}

fn check_count(function: &TemplateFunction, written: usize, given: usize) -> Result<(), RenderFailure> {
    let (name, fixed) = (function.name, function.parameters.len());
    match function.further {
        Some(_) if given < fixed => {
            Err(RenderFailure::new(format!("wrong number of args for {name}: want at least {fixed} got {written}")))
        }
        None if given != fixed => {
            Err(RenderFailure::new(format!("wrong number of args for {name}: want {fixed} got {given}")))
        }
        _ => Ok(()),
    }
}

fn constant(operand: &Operand, parameter: Parameter) -> Result<TemplateValue<'_>, RenderFailure> {
    let expected = match (&operand.term, parameter) {
        (Term::Bool(value), Parameter::Bool) => return Ok(TemplateValue::Bool(*value)),
        (Term::Text { text, .. }, Parameter::Text) => return Ok(TemplateValue::Text(TextValue::Borrowed(text))),
        (Term::Number(number), Parameter::Int) if number.integer.is_some() => {
            return Ok(TemplateValue::Int(number.integer.unwrap_or(0)));
        }
        (Term::Number(number), Parameter::Float) if number.float.is_some() => {
            return Ok(TemplateValue::Float(number.float.unwrap_or(0.0)));
        }
        (_, Parameter::Bool) => "bool",
        (_, Parameter::Text) => "string",
        (_, Parameter::Int) => "integer",
        (_, Parameter::Float) => "float",
        _ => return Err(RenderFailure::new(format!("can't handle {operand} for arg of type {}", parameter.name()))),
    };
    Err(RenderFailure::new(format!("expected {expected}; found {operand}")))
}
