//! Optional values.

use super::{Function, function, method, one, unfit};
use crate::cel::fault::EvalError;
use crate::cel::meter::{Meter, PER_ELEMENT};
use crate::cel::value::Val;

pub(super) const FUNCTIONS: &[Function] = &[
    function("optional.of", &["A->optional(A)"], one, |_, args| match args {
        [value] => Ok(Val::some(value.clone())),
        _ => Err(unfit(args)),
    }),
    function("optional.ofNonZeroValue", &["A->optional(A)"], one, |_, args| match args {
        [value] if value.is_zero() => Ok(Val::Optional(None)),
        [value] => Ok(Val::some(value.clone())),
        _ => Err(unfit(args)),
    }),
    function("optional.none", &["->optional(A)"], one, |_, _| Ok(Val::Optional(None))),
    method("hasValue", &["optional(A)->bool"], one, |_, args| match args {
        [Val::Optional(value)] => Ok(Val::Bool(value.is_some())),
        _ => Err(unfit(args)),
    }),
    method("value", &["optional(A)->A"], one, |_, args| match args {
        [Val::Optional(Some(value))] => Ok((**value).clone()),
        [Val::Optional(None)] => Err(EvalError::failed("optional.none() dereference")),
        _ => Err(unfit(args)),
    }),
    method("or", &["optional(A) optional(A)->optional(A)"], one, |_, args| match args {
        [Val::Optional(None), other @ Val::Optional(_)] => Ok(other.clone()),
        [value @ Val::Optional(Some(_)), Val::Optional(_)] => Ok(value.clone()),
        _ => Err(unfit(args)),
    }),
    method("orValue", &["optional(A) A->A"], one, |_, args| match args {
        [Val::Optional(Some(value)), _] => Ok((**value).clone()),
        [Val::Optional(None), other] => Ok(other.clone()),
        _ => Err(unfit(args)),
    }),
    function("optional.unwrap", &["list(optional(A))->list(A)"], one, unwrap),
    method("unwrapOpt", &["list(optional(A))->list(A)"], one, unwrap),
];

fn unwrap<'v>(meter: &mut Meter, args: &[Val<'v>]) -> Result<Val<'v>, EvalError> {
    let [Val::List(list)] = args else { return Err(unfit(args)) };
    meter.work(list.len() * 2 * PER_ELEMENT)?;
    let mut elements = Vec::new();
    for at in 0..list.len() {
        match list.at(at, meter)? {
            Val::Optional(Some(value)) => elements.push((*value).clone()),
            Val::Optional(None) => {}
            other => return Err(unfit(&[other])),
        }
    }
    Ok(Val::list(elements))
}
