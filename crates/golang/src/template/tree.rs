//! The parsed form of a template: flat code with jumps, and expressions.
//!
//! ```text
//!  {{if a}}x{{else}}y{{end}}   ──►   0 If(a, else 3)  1 Text(x)  2 Jump(4)  3 Text(y)  4 Close
//! ```
//!
//! Control structures are jumps, so that neither parsing nor rendering nor dropping recurses on their depth. Only
//! parentheses nest in memory, and the parser bounds them.

use std::fmt;

use super::functions::TemplateFunction;
use super::number::Number;

/// The instructions of a template's body.
#[derive(Clone, Debug, Default)]
pub(super) struct Code(pub(super) Vec<Instruction>);

/// One step of rendering. Targets are positions in the [`Code`].
#[derive(Clone, Debug)]
pub(super) enum Instruction {
    Text(String),
    /// Evaluates, and prints unless it declares or assigns.
    Print(Pipeline),
    /// Opens a scope, and jumps when the value is false.
    If {
        condition: Pipeline,
        otherwise: usize,
    },
    /// Opens a scope in which dot is the value, or jumps when that is false.
    With {
        value: Pipeline,
        otherwise: usize,
    },
    /// Opens a scope and starts the first round, or jumps when there is none.
    Range {
        over: Pipeline,
        otherwise: usize,
        next: usize,
        close: usize,
    },
    /// Starts another round at `body`, or goes on.
    Next {
        body: usize,
    },
    Jump(usize),
    /// Leaves the scope.
    Close,
    Break,
    Continue,
    Call(TemplateCall),
}

/// `{{template "name" pipeline}}`.
#[derive(Clone, Debug)]
pub(super) struct TemplateCall {
    pub(super) position: usize,
    pub(super) name: String,
    pub(super) argument: Option<Pipeline>,
}

/// Commands whose results are passed on, and the variables that receive the last one.
#[derive(Clone, Debug)]
pub(super) struct Pipeline {
    pub(super) position: usize,
    pub(super) variables: Vec<String>,
    pub(super) assigns: bool,
    pub(super) commands: Vec<PipelineCommand>,
}

/// A function, field or constant and its arguments; never empty.
#[derive(Clone, Debug)]
pub(super) struct PipelineCommand {
    pub(super) position: usize,
    pub(super) first: Operand,
    pub(super) arguments: Vec<Operand>,
}

#[derive(Clone, Debug)]
pub(super) struct Operand {
    pub(super) position: usize,
    pub(super) term: Term,
}

#[derive(Clone, Debug)]
pub(super) enum Term {
    Bool(bool),
    Number(Number),
    Text {
        quoted: String,
        text: String,
    },
    Nil,
    Dot,
    /// `.a.b`
    Field(Vec<String>),
    /// `$x.a.b`
    Variable(String, Vec<String>),
    Function(&'static TemplateFunction),
    Pipeline(Box<Pipeline>),
    /// `(pipeline).a.b`, `function.a.b`
    Chain(Box<Operand>, Vec<String>),
}

struct Dotted<'t>(&'t [String]);

impl fmt::Display for Dotted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|name| write!(f, ".{name}"))
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.term {
            Term::Bool(value) => write!(f, "{value}"),
            Term::Number(number) => f.write_str(&number.text),
            Term::Text { quoted, .. } => f.write_str(quoted),
            Term::Nil => f.write_str("nil"),
            Term::Dot => f.write_str("."),
            Term::Field(names) => write!(f, "{}", Dotted(names)),
            Term::Variable(name, fields) => write!(f, "{name}{}", Dotted(fields)),
            Term::Function(function) => f.write_str(function.name),
            Term::Pipeline(pipeline) => write!(f, "{pipeline}"),
            Term::Chain(operand, fields) => write!(f, "{}{}", Argument(operand), Dotted(fields)),
        }
    }
}

/// An operand where pipelines stand in parentheses.
struct Argument<'t>(&'t Operand);

impl fmt::Display for Argument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.term {
            Term::Pipeline(_) => write!(f, "({})", self.0),
            _ => write!(f, "{}", self.0),
        }
    }
}

impl fmt::Display for PipelineCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Argument(&self.first))?;
        self.arguments.iter().try_for_each(|operand| write!(f, " {}", Argument(operand)))
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.variables.is_empty() {
            write!(f, "{} {} ", self.variables.join(", "), if self.assigns { "=" } else { ":=" })?;
        }
        for (index, command) in self.commands.iter().enumerate() {
            write!(f, "{}{command}", if index > 0 { " | " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for TemplateCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{{template {}", super::characters::quote(&self.name))?;
        if let Some(argument) = &self.argument {
            write!(f, " {argument}")?;
        }
        f.write_str("}}")
    }
}
