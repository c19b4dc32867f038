//! The functions of templates: [Go's own](https://pkg.go.dev/text/template#hdr-Functions), and the hermetic ones of
//! [sprig](https://masterminds.github.io/sprig/) (TPL-010, TPL-011, DEC-31).
//!
//! One file per subject, each with a table of its functions: name, parameter types as Go declares them, and body.
//! Arguments have been checked against the types before the body runs, as `text/template` does.

mod arithmetic;
mod builtin;
mod comparison;
mod dates;
mod defaults;
mod dicts;
mod encoding;
mod escaping;
mod impossible;
mod json;
mod lists;
mod paths;
mod regex;
mod strings;
mod types;
mod urls;
mod versions;
mod words;

use super::Functions;
use super::context::RenderContext;
use super::error::RenderFailure;
use super::value::{MapRef, TemplateValue, TextValue};

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parameter {
    /// `interface{}`
    Any,
    /// `reflect.Value`: distinguishes a missing key from null.
    Raw,
    Text,
    Int,
    Float,
    Bool,
    /// `map[string]interface{}`
    Map,
    /// `time.Time`
    Time,
}

impl Parameter {
    pub(super) fn name(self) -> &'static str {
        match self {
            Parameter::Any => "interface {}",
            Parameter::Raw => "reflect.Value",
            Parameter::Text => "string",
            Parameter::Int => "int",
            Parameter::Float => "float64",
            Parameter::Bool => "bool",
            Parameter::Map => "map[string]interface {}",
            Parameter::Time => "time.Time",
        }
    }

    /// The argument converted to the parameter's type.
    pub(super) fn accept<'a>(
        self,
        value: TemplateValue<'a>,
        context: &RenderContext<'a>,
    ) -> Result<TemplateValue<'a>, RenderFailure> {
        let fits = match (self, &value) {
            (Parameter::Any, _) => return Ok(value.into_interface()),
            (_, TemplateValue::Missing) if !matches!(self, Parameter::Raw | Parameter::Map) => {
                return Err(RenderFailure::new(format!("invalid value; expected {}", self.name())));
            }
            (Parameter::Map, TemplateValue::Map(map)) => !context.heap.holds_text(*map),
            (Parameter::Raw, _)
            | (Parameter::Map, TemplateValue::Missing)
            | (Parameter::Text, TemplateValue::Text(_))
            | (Parameter::Int, TemplateValue::Int(_))
            | (Parameter::Float, TemplateValue::Float(_))
            | (Parameter::Bool, TemplateValue::Bool(_))
            | (Parameter::Time, TemplateValue::Time(_)) => true,
            _ => false,
        };
        if fits {
            return Ok(value);
        }
        let given = if matches!(value, TemplateValue::Nil) { "interface {}" } else { context.heap.type_name(&value) };
        Err(RenderFailure::new(format!("wrong type for value; expected {}; got {given}", self.name())))
    }
}

type FunctionBody =
    for<'a> fn(&mut RenderContext<'a>, &CallArguments<'_, 'a>) -> Result<TemplateValue<'a>, RenderFailure>;

/// Kinds of functions by how they evaluate their arguments.
#[derive(Clone, Copy, Debug)]
pub(super) enum FunctionKind {
    Call(FunctionBody),
    /// `and`: the first false argument, later ones not evaluated.
    And,
    /// `or`: the first true argument, later ones not evaluated.
    Or,
}

/// A function that templates can call.
#[derive(Debug)]
pub(super) struct TemplateFunction {
    pub(super) name: &'static str,
    pub(super) parameters: &'static [Parameter],
    /// The type of any further arguments.
    pub(super) further: Option<Parameter>,
    pub(super) action: FunctionKind,
}

impl TemplateFunction {
    const fn new(name: &'static str, parameters: &'static [Parameter], body: FunctionBody) -> Self {
        Self { name, parameters, further: None, action: FunctionKind::Call(body) }
    }

    const fn variadic(
        name: &'static str,
        parameters: &'static [Parameter],
        further: Parameter,
        body: FunctionBody,
    ) -> Self {
        Self { name, parameters, further: Some(further), action: FunctionKind::Call(body) }
    }

    /// The type of the argument at `index`.
    pub(super) fn parameter(&self, index: usize) -> Parameter {
        self.parameters.get(index).copied().or(self.further).unwrap_or(Parameter::Any)
    }
}

/// Checked arguments.
pub(super) struct CallArguments<'v, 'a>(pub(super) &'v [TemplateValue<'a>]);

impl<'v, 'a> CallArguments<'v, 'a> {
    fn any(&self, index: usize) -> &'v TemplateValue<'a> {
        self.0.get(index).unwrap_or(&TemplateValue::Missing)
    }

    fn from(&self, index: usize) -> &'v [TemplateValue<'a>] {
        self.0.get(index..).unwrap_or_default()
    }

    fn text(&self, index: usize) -> &'v str {
        match self.any(index) {
            TemplateValue::Text(text) => text,
            _ => "",
        }
    }

    fn shared(&self, index: usize) -> TemplateValue<'a> {
        match self.any(index) {
            TemplateValue::Text(text) => TemplateValue::Text(text.clone()),
            _ => TemplateValue::Text(TextValue::Borrowed("")),
        }
    }

    fn int(&self, index: usize) -> i64 {
        match self.any(index) {
            TemplateValue::Int(number) => *number,
            _ => 0,
        }
    }

    fn bool(&self, index: usize) -> bool {
        matches!(self.any(index), TemplateValue::Bool(true))
    }

    /// None for Go's nil map.
    fn map(&self, index: usize) -> Option<MapRef<'a>> {
        match self.any(index) {
            TemplateValue::Map(map) => Some(*map),
            _ => None,
        }
    }
}

/// Sprig's tables; its `slice` replaces Go's.
const SPRIG: [&[TemplateFunction]; 15] = [
    arithmetic::FUNCTIONS,
    dates::FUNCTIONS,
    defaults::FUNCTIONS,
    dicts::FUNCTIONS,
    encoding::FUNCTIONS,
    impossible::FUNCTIONS,
    json::FUNCTIONS,
    lists::FUNCTIONS,
    paths::FUNCTIONS,
    regex::FUNCTIONS,
    strings::FUNCTIONS,
    types::FUNCTIONS,
    urls::FUNCTIONS,
    versions::FUNCTIONS,
    words::FUNCTIONS,
];

const BUILTIN: [&[TemplateFunction]; 3] = [builtin::FUNCTIONS, comparison::FUNCTIONS, escaping::FUNCTIONS];

/// The function of that name.
pub(super) fn find(functions: Functions, name: &str) -> Option<&'static TemplateFunction> {
    let tables = |tables: &'static [&'static [TemplateFunction]]| tables.iter().copied().flatten();
    let sprig: &'static [&'static [TemplateFunction]] = match functions {
        Functions::Builtin => &[],
        Functions::Sprig => &SPRIG,
    };
    tables(sprig).chain(tables(&BUILTIN)).find(|function| function.name == name)
}

/// The names of a set of functions, sorted.
pub(super) fn names(functions: Functions) -> Vec<&'static str> {
    let sprig: &'static [&'static [TemplateFunction]] = match functions {
        Functions::Builtin => &[],
        Functions::Sprig => &SPRIG,
    };
    let mut names: Vec<_> = sprig.iter().chain(&BUILTIN).copied().flatten().map(|function| function.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}
