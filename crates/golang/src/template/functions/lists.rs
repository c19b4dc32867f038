//! Lists. Functions make new ones; each has a `must` form, which fails in the same way.

use super::super::context::Context;
use super::super::error::Failure;
use super::super::value::{Elements, List, Value};
use super::Parameter::{Any, Int};
use super::arithmetic::integer;
use super::builtin::part;
use super::comparison::{deep_equal, to_text};
use super::defaults::is_empty;
use super::{Arguments, Function};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::variadic("list", &[], Any, |context, arguments| context.any_list(arguments.from(0).to_vec())),
    Function::variadic("tuple", &[], Any, |context, arguments| context.any_list(arguments.from(0).to_vec())),
    Function::new("append", &[Any, Any], push),
    Function::new("mustAppend", &[Any, Any], push),
    Function::new("push", &[Any, Any], push),
    Function::new("mustPush", &[Any, Any], push),
    Function::new("prepend", &[Any, Any], prepend),
    Function::new("mustPrepend", &[Any, Any], prepend),
    Function::new("first", &[Any], first),
    Function::new("mustFirst", &[Any], first),
    Function::new("rest", &[Any], rest),
    Function::new("mustRest", &[Any], rest),
    Function::new("last", &[Any], last),
    Function::new("mustLast", &[Any], last),
    Function::new("initial", &[Any], initial),
    Function::new("mustInitial", &[Any], initial),
    Function::new("reverse", &[Any], reverse),
    Function::new("mustReverse", &[Any], reverse),
    Function::new("uniq", &[Any], uniq),
    Function::new("mustUniq", &[Any], uniq),
    Function::variadic("without", &[Any], Any, without),
    Function::variadic("mustWithout", &[Any], Any, without),
    Function::new("has", &[Any, Any], has),
    Function::new("mustHas", &[Any, Any], has),
    Function::new("compact", &[Any], compact),
    Function::new("mustCompact", &[Any], compact),
    Function::variadic("slice", &[Any], Any, slice),
    Function::variadic("mustSlice", &[Any], Any, slice),
    Function::variadic("concat", &[], Any, concat),
    Function::new("chunk", &[Int, Any], chunk),
    Function::new("mustChunk", &[Int, Any], chunk),
    Function::new("sortAlpha", &[Any], sort_alpha),
];

/// The list among the arguments, or the error that says what it is instead.
fn list_of<'a>(arguments: &Arguments<'_, 'a>, index: usize, message: &str) -> Result<List<'a>, Failure> {
    match arguments.any(index) {
        Value::List(list) => Ok(*list),
        Value::Missing | Value::Nil => {
            Err(Failure::new("runtime error: invalid memory address or nil pointer dereference"))
        }
        other => Err(Failure::new(format!("{message} {}", other.kind()))),
    }
}

/// The elements of the list among the arguments.
fn items_of<'a>(
    context: &mut Context<'a>,
    arguments: &Arguments<'_, 'a>,
    index: usize,
    message: &str,
) -> Result<Vec<Value<'a>>, Failure> {
    let list = list_of(arguments, index, message)?;
    context.work(context.heap.list_len(list).saturating_mul(32))?;
    Ok(context.heap.items(list))
}

fn push<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    let mut items = items_of(context, arguments, 0, "Cannot push on type")?;
    items.push(arguments.any(1).clone());
    context.any_list(items)
}

fn prepend<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    let mut items = items_of(context, arguments, 0, "Cannot prepend on type")?;
    items.insert(0, arguments.any(1).clone());
    context.any_list(items)
}

fn first<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    let list = list_of(arguments, 0, "Cannot find first on type")?;
    Ok(context.heap.item(list, 0).unwrap_or(Value::Nil))
}

fn last<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    let list = list_of(arguments, 0, "Cannot find last on type")?;
    let length = context.heap.list_len(list);
    Ok(length.checked_sub(1).and_then(|index| context.heap.item(list, index)).unwrap_or(Value::Nil))
}

fn rest<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    let mut items = items_of(context, arguments, 0, "Cannot find rest on type")?;
    if items.is_empty() {
        return Ok(context.heap.nil_list());
    }
    items.remove(0);
    context.any_list(items)
}

fn initial<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    let mut items = items_of(context, arguments, 0, "Cannot find initial on type")?;
    match items.pop() {
        None => Ok(context.heap.nil_list()),
        Some(_) => context.any_list(items),
    }
}

fn reverse<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    let mut items = items_of(context, arguments, 0, "Cannot find reverse on type")?;
    items.reverse();
    context.any_list(items)
}

fn contains<'a>(context: &mut Context<'a>, items: &[Value<'a>], wanted: &Value<'a>) -> Result<bool, Failure> {
    for item in items {
        if deep_equal(context, wanted, item, 0)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn uniq<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    let mut kept = Vec::new();
    for item in items_of(context, arguments, 0, "Cannot find uniq on type")? {
        if !contains(context, &kept, &item)? {
            kept.push(item);
        }
    }
    context.any_list(kept)
}

fn without<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    let mut kept = Vec::new();
    for item in items_of(context, arguments, 0, "Cannot find without on type")? {
        if !contains(context, arguments.from(1), &item)? {
            kept.push(item);
        }
    }
    context.any_list(kept)
}

fn has<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    if arguments.any(1).is_nil_interface() {
        return Ok(false.into());
    }
    let items = items_of(context, arguments, 1, "Cannot find has on type")?;
    contains(context, &items, arguments.any(0)).map(Value::from)
}

fn compact<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    let mut items = items_of(context, arguments, 0, "Cannot compact on type")?;
    items.retain(|item| !is_empty(context, item));
    context.any_list(items)
}

fn slice<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    let list = list_of(arguments, 0, "list should be type of slice or array but")?;
    let length = context.heap.list_len(list);
    if length == 0 {
        return Ok(Value::Nil);
    }
    let bound = |index: usize, otherwise: usize| match arguments.0.get(index) {
        Some(value) => usize::try_from(integer(value)).ok(),
        None => Some(otherwise),
    };
    match (bound(1, 0), bound(2, length)) {
        (Some(from), Some(to)) if from <= to && to <= length => part(context, list, from, to),
        _ => Err(Failure::new("reflect.Value.Slice: slice index out of bounds")),
    }
}

fn concat<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    let mut joined = Vec::new();
    for (index, value) in arguments.from(0).iter().enumerate() {
        match value {
            Value::List(_) => joined.extend(items_of(context, arguments, index, "")?),
            Value::Missing | Value::Nil => {
                return Err(Failure::new("runtime error: invalid memory address or nil pointer dereference"));
            }
            other => return Err(Failure::new(format!("Cannot concat type {} as list", other.kind()))),
        }
    }
    if joined.is_empty() { Ok(context.heap.nil_list()) } else { context.any_list(joined) }
}

fn chunk<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    let items = items_of(context, arguments, 1, "Cannot chunk type")?;
    let size = usize::try_from(arguments.int(0)).ok().filter(|size| *size > 0);
    let size = size.ok_or_else(|| Failure::new("runtime error: makeslice: len out of range"))?;
    let mut chunks = Vec::new();
    for chunk in items.chunks(size) {
        chunks.push(context.any_list(chunk.to_vec())?);
    }
    context.list(Elements::Lists, chunks)
}

/// The elements as texts, nils left out; anything else is a list of one.
pub(super) fn texts<'a>(context: &mut Context<'a>, value: &Value<'a>) -> Result<Vec<String>, Failure> {
    let items = match value {
        Value::Missing | Value::Nil => Vec::new(),
        Value::List(list) => context.heap.items(*list),
        other => vec![other.clone()],
    };
    let mut texts = Vec::with_capacity(items.len());
    for item in items.iter().filter(|item| !item.is_nil_interface()) {
        let text = to_text(context, item)?;
        context.work(text.len() + 16)?;
        texts.push(text);
    }
    Ok(texts)
}

fn sort_alpha<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    let mut sorted = match arguments.any(0) {
        Value::Missing | Value::Nil => vec!["<nil>".to_owned()],
        other => texts(context, other)?,
    };
    sorted.sort_unstable();
    context.text_list(sorted)
}
