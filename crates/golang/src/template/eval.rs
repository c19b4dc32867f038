//! Evaluation of expressions: pipelines, calls, fields and conversions of arguments.

use super::context::Context;
use super::error::Failure;
use super::exec::{Dot, Machine, Piece};
use super::functions::{Action, Arguments, Function, Parameter};
use super::methods;
use super::number::Number;
use super::tree::{Command, Operand, Pipeline, Term};
use super::value::{Text, Value};

/// What a pipeline passes to the next command; nothing to the first.
type Passed<'a> = Option<Value<'a>>;

impl<'a> Machine<'a> {
    pub(super) fn pipeline(&mut self, pipeline: &'a Pipeline) -> Result<Value<'a>, Failure> {
        self.piece = Some(Piece::Pipeline(pipeline));
        let mut passed: Passed<'a> = None;
        for command in &pipeline.commands {
            let value = self.command(command, passed)?.value;
            passed = Some(value.out_of_interface());
        }
        let value = passed.unwrap_or(Value::Missing);
        for name in &pipeline.variables {
            match pipeline.assigns {
                true => self.assign(name, value.clone())?,
                false => self.declare(name, value.clone())?,
            }
        }
        Ok(value)
    }

    fn command(&mut self, command: &'a Command, passed: Passed<'a>) -> Result<Dot<'a>, Failure> {
        self.context.step()?;
        let first = &command.first;
        let arguments = &command.arguments;
        match &first.term {
            Term::Field(_) | Term::Chain(..) | Term::Variable(..) => self.fields(first, arguments, passed),
            Term::Function(function) => {
                self.piece = Some(Piece::Operand(first));
                self.call_function(function, Piece::Command(command), arguments, passed)
            }
            Term::Pipeline(pipeline) => {
                takes_no_arguments(first, arguments, passed.as_ref())?;
                self.pipeline(pipeline).map(concrete)
            }
            Term::Nil => {
                self.piece = Some(Piece::Operand(first));
                takes_no_arguments(first, arguments, passed.as_ref())?;
                Err(Failure::new("nil is not a command"))
            }
            _ => {
                self.piece = Some(Piece::Operand(first));
                takes_no_arguments(first, arguments, passed.as_ref())?;
                self.operand(first)
            }
        }
    }

    /// An operand on its own, as an `interface {}`.
    fn operand(&mut self, operand: &'a Operand) -> Result<Dot<'a>, Failure> {
        self.context.step()?;
        self.piece = Some(Piece::Operand(operand));
        match &operand.term {
            Term::Bool(value) => Ok(concrete(Value::Bool(*value))),
            Term::Number(number) => ideal(number).map(concrete),
            Term::Text { text, .. } => Ok(concrete(Value::Text(Text::Borrowed(text)))),
            Term::Nil => Ok(concrete(Value::Nil)),
            Term::Dot => Ok(self.dot.clone()),
            Term::Field(_) | Term::Variable(..) | Term::Chain(..) => self.fields(operand, &[], None),
            Term::Function(function) => self.call_function(function, Piece::Operand(operand), &[], None),
            Term::Pipeline(pipeline) => self.pipeline(pipeline).map(concrete),
        }
    }

    /// A field, variable or chain; arguments go to its last part.
    fn fields(
        &mut self,
        operand: &'a Operand,
        arguments: &'a [Operand],
        passed: Passed<'a>,
    ) -> Result<Dot<'a>, Failure> {
        self.piece = Some(Piece::Operand(operand));
        let (mut receiver, names) = match &operand.term {
            Term::Field(names) => (self.dot.clone(), names),
            Term::Variable(name, names) => (concrete(self.variable(name)?), names),
            Term::Chain(inner, names) => {
                if matches!(inner.term, Term::Nil) {
                    return Err(Failure::new(format!("indirection through explicit nil in {operand}")));
                }
                (concrete(self.operand(inner)?.value), names)
            }
            _ => return Ok(concrete(Value::Missing)),
        };
        let Some((last, path)) = names.split_last() else {
            takes_no_arguments(operand, arguments, passed.as_ref())?;
            return Ok(receiver);
        };
        for name in path {
            receiver = self.field(name, receiver, Piece::Operand(operand), &[], None)?;
        }
        self.field(last, receiver, Piece::Operand(operand), arguments, passed)
    }

    fn field(
        &mut self,
        name: &'a str,
        receiver: Dot<'a>,
        piece: Piece<'a>,
        arguments: &'a [Operand],
        passed: Passed<'a>,
    ) -> Result<Dot<'a>, Failure> {
        self.context.step()?;
        let has_arguments = !arguments.is_empty() || passed.is_some();
        let type_name = match receiver.as_interface {
            true => "interface {}",
            false => self.context.heap.type_name(&receiver.value),
        };
        match &receiver.value {
            Value::Missing if self.template.strict => {
                Err(Failure::new(format!("nil data; no entry for key {}", super::characters::quote(name))))
            }
            Value::Missing => Ok(receiver),
            Value::Nil => Err(Failure::new(format!("nil pointer evaluating interface {{}}.{name}"))),
            Value::Map(_) if has_arguments => Err(Failure::new(format!("{name} is not a method but has arguments"))),
            Value::Map(map) => match self.context.heap.get(*map, name) {
                Some(value) => {
                    let as_interface = !self.context.heap.holds_text(*map);
                    Ok(Dot { value, as_interface })
                }
                None if self.template.strict => {
                    Err(Failure::new(format!("map has no entry for key {}", super::characters::quote(name))))
                }
                None => Ok(concrete(Value::Missing)),
            },
            Value::Version(_) | Value::Time(_) => match methods::find(&receiver.value, name) {
                Some(method) => self.call_method(method, receiver.value, name, piece, arguments, passed),
                None => Err(Failure::new(format!("can't evaluate field {name} in type {type_name}"))),
            },
            _ => Err(Failure::new(format!("can't evaluate field {name} in type {type_name}"))),
        }
    }

    fn call_method(
        &mut self,
        method: &'static Function,
        receiver: Value<'a>,
        name: &str,
        piece: Piece<'a>,
        operands: &'a [Operand],
        passed: Passed<'a>,
    ) -> Result<Dot<'a>, Failure> {
        let given = operands.len() + usize::from(passed.is_some());
        // The receiver is the first parameter.
        if given + 1 != method.parameters.len() {
            let want = method.parameters.len() - 1;
            return Err(Failure::new(format!("wrong number of args for {name}: want {want} got {given}")));
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
        function: &'static Function,
        piece: Piece<'a>,
        operands: &'a [Operand],
        passed: Passed<'a>,
    ) -> Result<Dot<'a>, Failure> {
        let given = operands.len() + usize::from(passed.is_some());
        check_count(function, operands.len(), given)?;
        if let Action::And | Action::Or = function.action {
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

    /// `and` and `or` evaluate no more than they need, and return an argument.
    fn short_circuit(
        &mut self,
        function: &'static Function,
        operands: &'a [Operand],
        passed: Passed<'a>,
    ) -> Result<Value<'a>, Failure> {
        let stops_at = matches!(function.action, Action::Or);
        let mut value = Value::Missing;
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
        function: &'static Function,
        piece: Piece<'a>,
        arguments: &[Value<'a>],
    ) -> Result<Value<'a>, Failure> {
        let result = read(&mut self.context, arguments).and_then(|()| match function.action {
            Action::Call(body) => body(&mut self.context, &Arguments(arguments)),
            Action::And | Action::Or => Ok(Value::Missing),
        });
        if result.is_err() {
            self.piece = Some(piece);
            self.failed_call = Some(function.name);
        }
        result
    }

    /// An operand as a parameter takes it. Constants are converted, as Go's ideal constants are.
    fn argument(&mut self, operand: &'a Operand, parameter: Parameter) -> Result<Value<'a>, Failure> {
        self.context.step()?;
        self.piece = Some(Piece::Operand(operand));
        let wants_anything = matches!(parameter, Parameter::Any | Parameter::Raw);
        match &operand.term {
            Term::Nil if parameter == Parameter::Any => Ok(Value::Nil),
            Term::Nil if matches!(parameter, Parameter::Raw | Parameter::Map) => Ok(Value::Missing),
            Term::Nil => Err(Failure::new(format!("cannot assign nil to {}", parameter.name()))),
            Term::Bool(_) | Term::Number(_) | Term::Text { .. } if !wants_anything => constant(operand, parameter),
            _ => {
                let value = self.operand(operand)?.value;
                parameter.accept(value, &self.context)
            }
        }
    }
}

/// A number constant in the type that it has on its own.
fn ideal<'a>(number: &Number) -> Result<Value<'a>, Failure> {
    if let Some((real, imaginary)) = number.complex {
        return Ok(Value::Complex(real, imaginary));
    }
    match (number.float, number.integer) {
        (Some(float), _) if number.is_written_as_float() => Ok(Value::Float(float)),
        (_, Some(integer)) => Ok(Value::Int(integer)),
        _ => Err(Failure::new(format!("{} overflows int", number.text))),
    }
}

fn takes_no_arguments(first: &Operand, arguments: &[Operand], passed: Option<&Value<'_>>) -> Result<(), Failure> {
    if arguments.is_empty() && passed.is_none() {
        return Ok(());
    }
    Err(Failure::new(format!("can't give argument to non-function {first}")))
}

fn concrete(value: Value<'_>) -> Dot<'_> {
    Dot { value, as_interface: false }
}

/// Counts what a function is given to read.
fn read<'a>(context: &mut Context<'a>, arguments: &[Value<'a>]) -> Result<(), Failure> {
    let mut bytes = 0usize;
    for argument in arguments {
        bytes = bytes.saturating_add(match argument {
            Value::Text(text) => text.len(),
            Value::List(list) => context.heap.list_len(*list) * 8,
            _ => 0,
        });
    }
    context.work(bytes)
}

fn check_count(function: &Function, written: usize, given: usize) -> Result<(), Failure> {
    let (name, fixed) = (function.name, function.parameters.len());
    match function.further {
        Some(_) if given < fixed => {
            Err(Failure::new(format!("wrong number of args for {name}: want at least {fixed} got {written}")))
        }
        None if given != fixed => {
            Err(Failure::new(format!("wrong number of args for {name}: want {fixed} got {given}")))
        }
        _ => Ok(()),
    }
}

fn constant(operand: &Operand, parameter: Parameter) -> Result<Value<'_>, Failure> {
    let expected = match (&operand.term, parameter) {
        (Term::Bool(value), Parameter::Bool) => return Ok(Value::Bool(*value)),
        (Term::Text { text, .. }, Parameter::Text) => return Ok(Value::Text(Text::Borrowed(text))),
        (Term::Number(number), Parameter::Int) if number.integer.is_some() => {
            return Ok(Value::Int(number.integer.unwrap_or(0)));
        }
        (Term::Number(number), Parameter::Float) if number.float.is_some() => {
            return Ok(Value::Float(number.float.unwrap_or(0.0)));
        }
        (_, Parameter::Bool) => "bool",
        (_, Parameter::Text) => "string",
        (_, Parameter::Int) => "integer",
        (_, Parameter::Float) => "float",
        _ => return Err(Failure::new(format!("can't handle {operand} for arg of type {}", parameter.name()))),
    };
    Err(Failure::new(format!("expected {expected}; found {operand}")))
}
