//! Lists. Functions make new ones; each has a `must` form, which fails in the same way.

use super::super::context::RenderContext;
use super::super::error::RenderFailure;
use super::super::value::{ElementType, ListRef, TemplateValue};
use super::Parameter::{Any, Int};
use super::arithmetic::integer;
use super::builtin::part;
use super::comparison::{deep_equal, to_text};
use super::defaults::is_empty;
use super::{CallArguments, TemplateFunction};

pub(super) const FUNCTIONS: &[TemplateFunction] = &[
    TemplateFunction::variadic("list", &[], Any, |context, arguments| context.any_list(arguments.from(0).to_vec())),
    TemplateFunction::variadic("tuple", &[], Any, |context, arguments| context.any_list(arguments.from(0).to_vec())),
    TemplateFunction::new("append", &[Any, Any], push),
    TemplateFunction::new("mustAppend", &[Any, Any], push),
    TemplateFunction::new("push", &[Any, Any], push),
    TemplateFunction::new("mustPush", &[Any, Any], push),
    TemplateFunction::new("prepend", &[Any, Any], prepend),
    TemplateFunction::new("mustPrepend", &[Any, Any], prepend),
    TemplateFunction::new("first", &[Any], first),
    TemplateFunction::new("mustFirst", &[Any], first),
    TemplateFunction::new("rest", &[Any], rest),
    TemplateFunction::new("mustRest", &[Any], rest),
    TemplateFunction::new("last", &[Any], last),
    TemplateFunction::new("mustLast", &[Any], last),
    TemplateFunction::new("initial", &[Any], initial),
    TemplateFunction::new("mustInitial", &[Any], initial),
    TemplateFunction::new("reverse", &[Any], reverse),
    TemplateFunction::new("mustReverse", &[Any], reverse),
    TemplateFunction::new("uniq", &[Any], uniq),
    TemplateFunction::new("mustUniq", &[Any], uniq),
    TemplateFunction::variadic("without", &[Any], Any, without),
    TemplateFunction::variadic("mustWithout", &[Any], Any, without),
    TemplateFunction::new("has", &[Any, Any], has),
    TemplateFunction::new("mustHas", &[Any, Any], has),
    TemplateFunction::new("compact", &[Any], compact),
    TemplateFunction::new("mustCompact", &[Any], compact),
    TemplateFunction::variadic("slice", &[Any], Any, slice),
    TemplateFunction::variadic("mustSlice", &[Any], Any, slice),
    TemplateFunction::variadic("concat", &[], Any, concat),
    TemplateFunction::new("chunk", &[Int, Any], chunk),
    TemplateFunction::new("mustChunk", &[Int, Any], chunk),
    TemplateFunction::new("sortAlpha", &[Any], sort_alpha),
];

/// The list argument, or the error with its actual type.
fn list_of<'a>(arguments: &CallArguments<'_, 'a>, index: usize, message: &str) -> Result<ListRef<'a>, RenderFailure> {
    match arguments.any(index) {
        TemplateValue::List(list) => Ok(*list),
        TemplateValue::Missing | TemplateValue::Nil => {
            Err(RenderFailure::new("runtime error: invalid memory address or nil pointer dereference"))
        }
        other => Err(RenderFailure::new(format!("{message} {}", other.kind()))),
    }
}

/// The elements of the list argument.
fn items_of<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
    index: usize,
    message: &str,
) -> Result<Vec<TemplateValue<'a>>, RenderFailure> {
    let list = list_of(arguments, index, message)?;
    context.work(context.heap.list_len(list).saturating_mul(32))?;
    Ok(context.heap.items(list))
}

fn push<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let mut items = items_of(context, arguments, 0, "Cannot push on type")?;
    items.push(arguments.any(1).clone());
    context.any_list(items)
}

fn prepend<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let mut items = items_of(context, arguments, 0, "Cannot prepend on type")?;
    items.insert(0, arguments.any(1).clone());
    context.any_list(items)
}

fn first<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let list = list_of(arguments, 0, "Cannot find first on type")?;
    Ok(context.heap.item(list, 0).unwrap_or(TemplateValue::Nil))
}

fn last<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let list = list_of(arguments, 0, "Cannot find last on type")?;
    let length = context.heap.list_len(list);
    Ok(length.checked_sub(1).and_then(|index| context.heap.item(list, index)).unwrap_or(TemplateValue::Nil))
}

fn rest<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let mut items = items_of(context, arguments, 0, "Cannot find rest on type")?;
    if items.is_empty() {
        return Ok(context.heap.nil_list());
    }
    items.remove(0);
    context.any_list(items)
}

fn initial<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let mut items = items_of(context, arguments, 0, "Cannot find initial on type")?;
    match items.pop() {
        None => Ok(context.heap.nil_list()),
        Some(_) => context.any_list(items),
    }
}

fn reverse<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let mut items = items_of(context, arguments, 0, "Cannot find reverse on type")?;
    items.reverse();
    context.any_list(items)
}

fn contains<'a>(
    context: &mut RenderContext<'a>,
    items: &[TemplateValue<'a>],
    wanted: &TemplateValue<'a>,
) -> Result<bool, RenderFailure> {
    for item in items {
        if deep_equal(context, wanted, item, 0)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn uniq<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let mut kept = Vec::new();
    for item in items_of(context, arguments, 0, "Cannot find uniq on type")? {
        if !contains(context, &kept, &item)? {
            kept.push(item);
        }
    }
    context.any_list(kept)
}

fn without<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let mut kept = Vec::new();
    for item in items_of(context, arguments, 0, "Cannot find without on type")? {
        if !contains(context, arguments.from(1), &item)? {
            kept.push(item);
        }
    }
    context.any_list(kept)
}

fn has<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    if arguments.any(1).is_nil_interface() {
        return Ok(false.into());
    }
    let items = items_of(context, arguments, 1, "Cannot find has on type")?;
    contains(context, &items, arguments.any(0)).map(TemplateValue::from)
}

fn compact<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let mut items = items_of(context, arguments, 0, "Cannot compact on type")?;
    items.retain(|item| !is_empty(context, item));
    context.any_list(items)
}

fn slice<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let list = list_of(arguments, 0, "list should be type of slice or array but")?;
    let length = context.heap.list_len(list);
    if length == 0 {
        return Ok(TemplateValue::Nil);
    }
    let bound = |index: usize, otherwise: usize| match arguments.0.get(index) {
        Some(value) => usize::try_from(integer(value)).ok(),
        None => Some(otherwise),
    };
    match (bound(1, 0), bound(2, length)) {
        (Some(from), Some(to)) if from <= to && to <= length => part(context, list, from, to),
        _ => Err(RenderFailure::new("reflect.Value.Slice: slice index out of bounds")),
    }
}

fn concat<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let mut joined = Vec::new();
    for (index, value) in arguments.from(0).iter().enumerate() {
        match value {
            TemplateValue::List(_) => joined.extend(items_of(context, arguments, index, "")?),
            TemplateValue::Missing | TemplateValue::Nil => {
                return Err(RenderFailure::new("runtime error: invalid memory address or nil pointer dereference"));
            }
            other => return Err(RenderFailure::new(format!("Cannot concat type {} as list", other.kind()))),
        }
    }
    if joined.is_empty() { Ok(context.heap.nil_list()) } else { context.any_list(joined) }
}

fn chunk<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let items = items_of(context, arguments, 1, "Cannot chunk type")?;
    let size = usize::try_from(arguments.int(0)).ok().filter(|size| *size > 0);
    let size = size.ok_or_else(|| RenderFailure::new("runtime error: makeslice: len out of range"))?;
    let mut chunks = Vec::new();
    for chunk in items.chunks(size) {
        chunks.push(context.any_list(chunk.to_vec())?);
    }
    context.list(ElementType::Lists, chunks)
}

/// The elements as texts, nils left out; anything else is a list of one.
pub(super) fn texts<'a>(
    context: &mut RenderContext<'a>,
    value: &TemplateValue<'a>,
) -> Result<Vec<String>, RenderFailure> {
    let items = match value {
        TemplateValue::Missing | TemplateValue::Nil => Vec::new(),
        TemplateValue::List(list) => context.heap.items(*list),
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

fn sort_alpha<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let mut sorted = match arguments.any(0) {
        TemplateValue::Missing | TemplateValue::Nil => vec!["<nil>".to_owned()],
        other => texts(context, other)?,
    };
    sorted.sort_unstable();
    context.text_list(sorted)
}
