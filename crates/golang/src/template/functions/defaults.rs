//! Defaults and flow: `default empty coalesce ternary all any fail`.

use super::super::context::Context;
use super::super::error::Failure;
use super::super::value::Value;
use super::Function;
use super::Parameter::{Any, Bool, Text};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::variadic("default", &[Any], Any, |context, arguments| {
        let given = arguments.any(1);
        Ok(if is_empty(context, given) { arguments.any(0).clone() } else { given.clone() })
    }),
    Function::new("empty", &[Any], |context, arguments| Ok(is_empty(context, arguments.any(0)).into())),
    Function::variadic("coalesce", &[], Any, |context, arguments| {
        let first = arguments.from(0).iter().find(|value| !is_empty(context, value));
        Ok(first.cloned().unwrap_or(Value::Nil))
    }),
    Function::variadic("all", &[], Any, |context, arguments| {
        Ok((!arguments.from(0).iter().any(|value| is_empty(context, value))).into())
    }),
    Function::variadic("any", &[], Any, |context, arguments| {
        Ok(arguments.from(0).iter().any(|value| !is_empty(context, value)).into())
    }),
    Function::new("ternary", &[Any, Any, Bool], |_, arguments| {
        Ok(arguments.any(usize::from(!arguments.bool(2))).clone())
    }),
    Function::new("fail", &[Text], |_, arguments| Err(Failure::new(arguments.text(0)))),
    Function::new("hello", &[], |_, _| Ok("Hello!".into())),
];

/// What sprig calls empty: zero values, and values without elements.
pub(super) fn is_empty<'a>(context: &Context<'a>, value: &Value<'a>) -> bool {
    !context.heap.truth(value)
}
