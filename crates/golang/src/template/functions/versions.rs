//! `semver` and `semverCompare`, as Masterminds/semver 3.4 decides.

use std::rc::Rc;

use super::super::context::RenderContext;
use super::super::error::RenderFailure;
use super::super::value::TemplateValue;
use super::Parameter::Text;
use super::{CallArguments, TemplateFunction};
use crate::version::{Constraint, LooseVersion};

pub(super) const FUNCTIONS: &[TemplateFunction] = &[
    TemplateFunction::new("semver", &[Text], |_, arguments| {
        Ok(TemplateValue::Version(Rc::new(parsed(arguments.text(0))?)))
    }),
    TemplateFunction::new("semverCompare", &[Text, Text], compare),
];

fn parsed(text: &str) -> Result<LooseVersion, RenderFailure> {
    LooseVersion::parse(text).map_err(|error| RenderFailure::new(error.to_string()))
}

fn compare<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    // Reading one takes quadratic time.
    context.work(arguments.text(0).len().saturating_pow(2) / 16)?;
    let constraint = Constraint::parse(arguments.text(0)).map_err(|error| RenderFailure::new(error.to_string()))?;
    Ok(constraint.matches(&parsed(arguments.text(1))?).into())
}
