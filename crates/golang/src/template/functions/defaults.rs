//! Defaults and flow: `default empty coalesce ternary all any fail`.

use super::super::context::RenderContext;
use super::super::error::RenderFailure;
use super::super::value::TemplateValue;
use super::Parameter::{Any, Bool, Text};
use super::TemplateFunction;

pub(super) const FUNCTIONS: &[TemplateFunction] = &[
    TemplateFunction::variadic("default", &[Any], Any, |context, arguments| {
        let given = arguments.any(1);
        Ok(if is_empty(context, given) { arguments.any(0).clone() } else { given.clone() })
    }),
    TemplateFunction::new("empty", &[Any], |context, arguments| Ok(is_empty(context, arguments.any(0)).into())),
    TemplateFunction::variadic("coalesce", &[], Any, |context, arguments| {
        let first = arguments.from(0).iter().find(|value| !is_empty(context, value));
        Ok(first.cloned().unwrap_or(TemplateValue::Nil))
    }),
    TemplateFunction::variadic("all", &[], Any, |context, arguments| {
        Ok((!arguments.from(0).iter().any(|value| is_empty(context, value))).into())
    }),
    TemplateFunction::variadic("any", &[], Any, |context, arguments| {
        Ok(arguments.from(0).iter().any(|value| !is_empty(context, value)).into())
    }),
    TemplateFunction::new("ternary", &[Any, Any, Bool], |_, arguments| {
        Ok(arguments.any(usize::from(!arguments.bool(2))).clone())
    }),
    TemplateFunction::new("fail", &[Text], |_, arguments| Err(RenderFailure::new(arguments.text(0)))),
    TemplateFunction::new("hello", &[], |_, _| Ok("Hello!".into())),
];

/// What sprig calls empty: zero values, and values without elements.
pub(super) fn is_empty<'a>(context: &RenderContext<'a>, value: &TemplateValue<'a>) -> bool {
    !context.heap.truth(value)
}
