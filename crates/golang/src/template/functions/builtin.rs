//! Go's own functions on values: `and or not len index slice print printf println call` (TPL-010).

use super::super::context::Context;
use super::super::error::Failure;
use super::super::print::{sprint, sprintf, sprintln};
use super::super::value::{List, Value, int};
use super::Parameter::{Any, Raw, Text};
use super::{Action, Arguments, Function};

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "and", parameters: &[Raw], further: Some(Raw), action: Action::And },
    Function { name: "or", parameters: &[Raw], further: Some(Raw), action: Action::Or },
    Function::new("not", &[Raw], |context, arguments| Ok((!context.heap.truth(arguments.any(0))).into())),
    Function::new("len", &[Raw], length),
    Function::variadic("index", &[Raw], Raw, index),
    Function::variadic("slice", &[Raw], Raw, slice),
    Function::variadic("print", &[], Any, |context, arguments| {
        let text = sprint(&context.heap, arguments.from(0), context.left())?;
        context.text(text)
    }),
    Function::variadic("println", &[], Any, |context, arguments| {
        let text = sprintln(&context.heap, arguments.from(0), context.left())?;
        context.text(text)
    }),
    Function::variadic("printf", &[Text], Any, |context, arguments| {
        let text = sprintf(&context.heap, arguments.text(0), arguments.from(1), context.left())?;
        context.text(text)
    }),
    Function::variadic("call", &[Raw], Raw, call),
];

fn length<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    match arguments.any(0) {
        Value::Text(text) => Ok(int(text.len())),
        Value::List(list) => Ok(int(context.heap.list_len(*list))),
        Value::Map(map) => Ok(int(context.heap.map_len(*map))),
        Value::Nil => Err(Failure::new("len of nil pointer")),
        Value::Missing => Err(Failure::new("reflect: call of reflect.Value.Type on zero Value")),
        Value::Version(_) => Err(Failure::new("len of type semver.Version")),
        other => Err(Failure::new(format!("len of type {}", context.heap.type_name(other)))),
    }
}

/// The position that an argument of `index` or `slice` names, at most `limit`.
fn position<'a>(context: &Context<'a>, index: &Value<'a>, limit: usize) -> Result<usize, Failure> {
    let position = match index {
        Value::Int(number) | Value::Int64(number) => i128::from(*number),
        Value::Uint64(number) => i128::from(*number),
        Value::Byte(number) => i128::from(*number),
        Value::Missing | Value::Nil => return Err(Failure::new("cannot index slice/array with nil")),
        other => {
            let name = context.heap.type_name(other);
            return Err(Failure::new(format!("cannot index slice/array with type {name}")));
        }
    };
    match usize::try_from(position) {
        Ok(position) if position <= limit => Ok(position),
        _ => Err(Failure::new(format!("index out of range: {position}"))),
    }
}

fn index<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    let mut item = arguments.any(0).clone();
    if item.is_nil_interface() {
        return Err(Failure::new("index of untyped nil"));
    }
    for index in arguments.from(1) {
        item = match &item {
            Value::Nil | Value::Missing => return Err(Failure::new("index of nil pointer")),
            Value::List(list) => {
                let at = position(context, index, context.heap.list_len(*list))?;
                context.heap.item(*list, at).ok_or_else(|| Failure::new("reflect: slice index out of range"))?
            }
            Value::Text(text) => {
                let at = position(context, index, text.len())?;
                let byte = text.as_bytes().get(at).copied();
                Value::Byte(byte.ok_or_else(|| Failure::new("reflect: string index out of range"))?)
            }
            Value::Map(map) => match index {
                Value::Text(key) if context.heap.holds_text(*map) => {
                    context.heap.get(*map, key).unwrap_or_else(|| Value::from(""))
                }
                Value::Text(key) => context.heap.get(*map, key).unwrap_or(Value::Nil),
                Value::Missing | Value::Nil => return Err(Failure::new("value is nil; should be of type string")),
                other => {
                    let name = context.heap.type_name(other);
                    return Err(Failure::new(format!("value has type {name}; should be string")));
                }
            },
            Value::Version(_) => return Err(Failure::new("can't index item of type semver.Version")),
            other => {
                let name = context.heap.type_name(other);
                return Err(Failure::new(format!("can't index item of type {name}")));
            }
        };
    }
    Ok(item)
}

fn slice<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    let item = arguments.any(0);
    let indexes = arguments.from(1);
    let length = match item {
        Value::Missing | Value::Nil => return Err(Failure::new("slice of untyped nil")),
        _ if indexes.len() > 3 => return Err(Failure::new(format!("too many slice indexes: {}", indexes.len()))),
        Value::Text(_) if indexes.len() == 3 => return Err(Failure::new("cannot 3-index slice a string")),
        Value::Text(text) => text.len(),
        Value::List(list) => context.heap.list_len(*list),
        other => {
            let name = context.heap.type_name(other);
            return Err(Failure::new(format!("can't slice item of type {name}")));
        }
    };
    let mut bounds = [0, length, length];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = position(context, index, length)?;
    }
    let [from, to, capacity] = bounds;
    for (low, high) in [(from, to), (to, if indexes.len() == 3 { capacity } else { length })] {
        if low > high {
            return Err(Failure::new(format!("invalid slice index: {low} > {high}")));
        }
    }
    match item {
        Value::Text(text) => context.text(byte_range(text, from, to)),
        Value::List(list) => part(context, *list, from, to),
        _ => Ok(Value::Missing),
    }
}

/// Bytes of a text; a character cut in two becomes U+FFFD.
pub(super) fn byte_range(text: &str, from: usize, to: usize) -> String {
    String::from_utf8_lossy(text.as_bytes().get(from..to).unwrap_or_default()).into_owned()
}

/// Elements of a list, as a list of the same type.
pub(super) fn part<'a>(
    context: &mut Context<'a>,
    list: List<'a>,
    from: usize,
    to: usize,
) -> Result<Value<'a>, Failure> {
    let elements = context.heap.elements(list);
    let items = (from..to).map_while(|index| context.heap.item(list, index)).collect();
    context.list(elements, items)
}

/// There are no function values in the data.
fn call<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    match arguments.any(0) {
        Value::Missing | Value::Nil => Err(Failure::new("call of nil")),
        other => Err(Failure::new(format!("non-function of type {}", context.heap.type_name(other)))),
    }
}
