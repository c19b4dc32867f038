//! Go's own functions on values: `and or not len index slice print printf println call` (TPL-010).

use super::super::context::RenderContext;
use super::super::error::RenderFailure;
use super::super::print::{sprint, sprintf, sprintln};
use super::super::value::{ListRef, TemplateValue, int};
use super::Parameter::{Any, Raw, Text};
use super::{CallArguments, FunctionKind, TemplateFunction};

pub(super) const FUNCTIONS: &[TemplateFunction] = &[
    TemplateFunction { name: "and", parameters: &[Raw], further: Some(Raw), action: FunctionKind::And },
    TemplateFunction { name: "or", parameters: &[Raw], further: Some(Raw), action: FunctionKind::Or },
    TemplateFunction::new("not", &[Raw], |context, arguments| Ok((!context.heap.truth(arguments.any(0))).into())),
    TemplateFunction::new("len", &[Raw], length),
    TemplateFunction::variadic("index", &[Raw], Raw, index),
    TemplateFunction::variadic("slice", &[Raw], Raw, slice),
    TemplateFunction::variadic("print", &[], Any, |context, arguments| {
        let text = sprint(&context.heap, arguments.from(0), context.left())?;
        context.text(text)
    }),
    TemplateFunction::variadic("println", &[], Any, |context, arguments| {
        let text = sprintln(&context.heap, arguments.from(0), context.left())?;
        context.text(text)
    }),
    TemplateFunction::variadic("printf", &[Text], Any, |context, arguments| {
        let text = sprintf(&context.heap, arguments.text(0), arguments.from(1), context.left())?;
        context.text(text)
    }),
    TemplateFunction::variadic("call", &[Raw], Raw, call),
];

fn length<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    match arguments.any(0) {
        TemplateValue::Text(text) => Ok(int(text.len())),
        TemplateValue::List(list) => Ok(int(context.heap.list_len(*list))),
        TemplateValue::Map(map) => Ok(int(context.heap.map_len(*map))),
        TemplateValue::Nil => Err(RenderFailure::new("len of nil pointer")),
        TemplateValue::Missing => Err(RenderFailure::new("reflect: call of reflect.Value.Type on zero Value")),
        TemplateValue::Version(_) => Err(RenderFailure::new("len of type semver.Version")),
        other => Err(RenderFailure::new(format!("len of type {}", context.heap.type_name(other)))),
    }
}

/// The position given by an argument of `index` or `slice`, at most `limit`.
fn position<'a>(context: &RenderContext<'a>, index: &TemplateValue<'a>, limit: usize) -> Result<usize, RenderFailure> {
    let position = match index {
        TemplateValue::Int(number) | TemplateValue::Int64(number) => i128::from(*number),
        TemplateValue::Uint64(number) => i128::from(*number),
        TemplateValue::Byte(number) => i128::from(*number),
        TemplateValue::Missing | TemplateValue::Nil => {
            return Err(RenderFailure::new("cannot index slice/array with nil"));
        }
        other => {
            let name = context.heap.type_name(other);
            return Err(RenderFailure::new(format!("cannot index slice/array with type {name}")));
        }
    };
    match usize::try_from(position) {
        Ok(position) if position <= limit => Ok(position),
        _ => Err(RenderFailure::new(format!("index out of range: {position}"))),
    }
}

fn index<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let mut item = arguments.any(0).clone();
    if item.is_nil_interface() {
        return Err(RenderFailure::new("index of untyped nil"));
    }
    for index in arguments.from(1) {
        item = match &item {
            TemplateValue::Nil | TemplateValue::Missing => return Err(RenderFailure::new("index of nil pointer")),
            TemplateValue::List(list) => {
                let at = position(context, index, context.heap.list_len(*list))?;
                context.heap.item(*list, at).ok_or_else(|| RenderFailure::new("reflect: slice index out of range"))?
            }
            TemplateValue::Text(text) => {
                let at = position(context, index, text.len())?;
                let byte = text.as_bytes().get(at).copied();
                TemplateValue::Byte(byte.ok_or_else(|| RenderFailure::new("reflect: string index out of range"))?)
            }
            TemplateValue::Map(map) => match index {
                TemplateValue::Text(key) if context.heap.holds_text(*map) => {
                    context.heap.get(*map, key).unwrap_or_else(|| TemplateValue::from(""))
                }
                TemplateValue::Text(key) => context.heap.get(*map, key).unwrap_or(TemplateValue::Nil),
                TemplateValue::Missing | TemplateValue::Nil => {
                    return Err(RenderFailure::new("value is nil; should be of type string"));
                }
                other => {
                    let name = context.heap.type_name(other);
                    return Err(RenderFailure::new(format!("value has type {name}; should be string")));
                }
            },
            TemplateValue::Version(_) => return Err(RenderFailure::new("can't index item of type semver.Version")),
            other => {
                let name = context.heap.type_name(other);
                return Err(RenderFailure::new(format!("can't index item of type {name}")));
            }
        };
    }
    Ok(item)
}

fn slice<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let item = arguments.any(0);
    let indexes = arguments.from(1);
    let length = match item {
        TemplateValue::Missing | TemplateValue::Nil => return Err(RenderFailure::new("slice of untyped nil")),
        _ if indexes.len() > 3 => return Err(RenderFailure::new(format!("too many slice indexes: {}", indexes.len()))),
        TemplateValue::Text(_) if indexes.len() == 3 => {
            return Err(RenderFailure::new("cannot 3-index slice a string"));
        }
        TemplateValue::Text(text) => text.len(),
        TemplateValue::List(list) => context.heap.list_len(*list),
        other => {
            let name = context.heap.type_name(other);
            return Err(RenderFailure::new(format!("can't slice item of type {name}")));
        }
    };
    let mut bounds = [0, length, length];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = position(context, index, length)?;
    }
    let [from, to, capacity] = bounds;
    for (low, high) in [(from, to), (to, if indexes.len() == 3 { capacity } else { length })] {
        if low > high {
            return Err(RenderFailure::new(format!("invalid slice index: {low} > {high}")));
        }
    }
    match item {
        TemplateValue::Text(text) => context.text(byte_range(text, from, to)),
        TemplateValue::List(list) => part(context, *list, from, to),
        _ => Ok(TemplateValue::Missing),
    }
}

/// Bytes of a text; a character cut in two becomes U+FFFD.
pub(super) fn byte_range(text: &str, from: usize, to: usize) -> String {
    String::from_utf8_lossy(text.as_bytes().get(from..to).unwrap_or_default()).into_owned()
}

/// Elements of a list, as a list of the same type.
pub(super) fn part<'a>(
    context: &mut RenderContext<'a>,
    list: ListRef<'a>,
    from: usize,
    to: usize,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let elements = context.heap.elements(list);
    let items = (from..to).map_while(|index| context.heap.item(list, index)).collect();
    context.list(elements, items)
}

/// There are no function values in the data.
fn call<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    match arguments.any(0) {
        TemplateValue::Missing | TemplateValue::Nil => Err(RenderFailure::new("call of nil")),
        other => Err(RenderFailure::new(format!("non-function of type {}", context.heap.type_name(other)))),
    }
}
