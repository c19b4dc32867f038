//! `semver` and `semverCompare`, as Masterminds/semver 3.4 decides.

use std::rc::Rc;

use super::super::context::Context;
use super::super::error::Failure;
use super::super::value::Value;
use super::Parameter::Text;
use super::{Arguments, Function};
use crate::version::{Constraint, LooseVersion};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("semver", &[Text], |_, arguments| Ok(Value::Version(Rc::new(parsed(arguments.text(0))?)))),
    Function::new("semverCompare", &[Text, Text], compare),
];

fn parsed(text: &str) -> Result<LooseVersion, Failure> {
    LooseVersion::parse(text).map_err(|error| Failure::new(error.to_string()))
}

fn compare<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    // Reading one takes quadratic time.
    context.work(arguments.text(0).len().saturating_pow(2) / 16)?;
    let constraint = Constraint::parse(arguments.text(0)).map_err(|error| Failure::new(error.to_string()))?;
    Ok(constraint.matches(&parsed(arguments.text(1))?).into())
}
