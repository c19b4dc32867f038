//! `eq ne lt le gt ge`, and equality of values as a whole.

use std::cmp::Ordering;
use std::rc::Rc;

use super::super::context::RenderContext;
use super::super::error::RenderFailure;
use super::super::print::{MAX_DEPTH, display, with_verb};
use super::super::value::TemplateValue;
use super::Parameter::Raw;
use super::{CallArguments, TemplateFunction};

pub(super) const FUNCTIONS: &[TemplateFunction] = &[
    TemplateFunction::variadic("eq", &[Raw], Raw, |context, arguments| {
        if arguments.from(1).is_empty() {
            return Err(RenderFailure::new("missing argument for comparison"));
        }
        for other in arguments.from(1) {
            if equal(context, arguments.any(0), other)? {
                return Ok(true.into());
            }
        }
        Ok(false.into())
    }),
    TemplateFunction::new("ne", &[Raw, Raw], |context, arguments| {
        Ok((!equal(context, arguments.any(0), arguments.any(1))?).into())
    }),
    TemplateFunction::new("lt", &[Raw, Raw], |context, arguments| Ok(less(context, arguments)?.into())),
    TemplateFunction::new("le", &[Raw, Raw], |context, arguments| Ok(at_most(context, arguments)?.into())),
    TemplateFunction::new("gt", &[Raw, Raw], |context, arguments| Ok((!at_most(context, arguments)?).into())),
    TemplateFunction::new("ge", &[Raw, Raw], |context, arguments| Ok((!less(context, arguments)?).into())),
];

/// Classes of comparable values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Basic {
    Bool,
    Complex,
    Int,
    Float,
    Text,
    Unsigned,
    Other,
}

fn basic(value: &TemplateValue<'_>) -> Basic {
    match value {
        TemplateValue::Bool(_) => Basic::Bool,
        TemplateValue::Complex(..) => Basic::Complex,
        TemplateValue::Int(_) | TemplateValue::Int64(_) => Basic::Int,
        TemplateValue::Float(_) => Basic::Float,
        TemplateValue::Text(_) => Basic::Text,
        TemplateValue::Uint64(_) | TemplateValue::Byte(_) => Basic::Unsigned,
        _ => Basic::Other,
    }
}

/// Signed and unsigned integers alike.
fn integer(value: &TemplateValue<'_>) -> Option<i128> {
    match value {
        TemplateValue::Int(number) | TemplateValue::Int64(number) => Some(i128::from(*number)),
        TemplateValue::Uint64(number) => Some(i128::from(*number)),
        TemplateValue::Byte(number) => Some(i128::from(*number)),
        _ => None,
    }
}

fn incompatible<'a>(context: &RenderContext<'a>, left: &TemplateValue<'a>, right: &TemplateValue<'a>) -> RenderFailure {
    let (left, right) = (context.heap.type_name(left), context.heap.type_name(right));
    RenderFailure::new(format!("incompatible types for comparison: {left} and {right}"))
}

fn equal<'a>(
    context: &mut RenderContext<'a>,
    left: &TemplateValue<'a>,
    right: &TemplateValue<'a>,
) -> Result<bool, RenderFailure> {
    if let (TemplateValue::Text(left), TemplateValue::Text(right)) = (left, right) {
        context.work(left.len().min(right.len()))?;
        return Ok(**left == **right);
    }
    if let (Some(left), Some(right)) = (integer(left), integer(right)) {
        return Ok(left == right);
    }
    match (left, right) {
        (TemplateValue::Bool(left), TemplateValue::Bool(right)) => Ok(left == right),
        (TemplateValue::Float(left), TemplateValue::Float(right)) => {
            Ok(left.partial_cmp(right) == Some(Ordering::Equal))
        }
        (TemplateValue::Complex(a, b), TemplateValue::Complex(c, d)) => Ok((a, b) == (c, d)),
        _ if basic(left) == Basic::Other && basic(right) == Basic::Other => equal_composites(context, left, right),
        _ if left.is_nil_interface() || right.is_nil_interface() => Ok(false),
        _ => Err(incompatible(context, left, right)),
    }
}

/// Equality of values that are neither text nor number: nil, or the same version or time.
fn equal_composites<'a>(
    context: &RenderContext<'a>,
    left: &TemplateValue<'a>,
    right: &TemplateValue<'a>,
) -> Result<bool, RenderFailure> {
    let name = |value: &TemplateValue<'a>| context.heap.type_name(value);
    let written = |value: &TemplateValue<'a>, verb| with_verb(&context.heap, verb, value, context.left());
    if left.kind() != right.kind() && !left.is_nil_interface() && !right.is_nil_interface() {
        let (left_text, right_text) = (written(left, 's')?, written(right, 'v')?);
        let message = format!("non-comparable types {left_text}: {}, {}: {right_text}", name(left), name(right));
        return Err(RenderFailure::new(message));
    }
    let is_nil = |value: &TemplateValue<'a>| match value {
        TemplateValue::Missing | TemplateValue::Nil => true,
        TemplateValue::List(list) => context.heap.is_nil_list(*list),
        _ => false,
    };
    match (left, right) {
        _ if is_nil(left) || is_nil(right) => Ok(is_nil(left) == is_nil(right)),
        (TemplateValue::Version(left), TemplateValue::Version(right)) => Ok(Rc::ptr_eq(left, right)),
        (TemplateValue::Time(left), TemplateValue::Time(right)) => Ok(left == right),
        _ => Err(RenderFailure::new(format!("non-comparable type {}: {}", written(right, 's')?, name(right)))),
    }
}

fn order<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<Option<Ordering>, RenderFailure> {
    let (left, right) = (arguments.any(0), arguments.any(1));
    if basic(left) == Basic::Other || basic(right) == Basic::Other {
        return Err(RenderFailure::new("invalid type for comparison"));
    }
    if let (Some(left), Some(right)) = (integer(left), integer(right)) {
        return Ok(Some(left.cmp(&right)));
    }
    match (left, right) {
        (TemplateValue::Text(left), TemplateValue::Text(right)) => {
            context.work(left.len().min(right.len()))?;
            Ok(Some(left.as_bytes().cmp(right.as_bytes())))
        }
        (TemplateValue::Float(left), TemplateValue::Float(right)) => Ok(left.partial_cmp(right)),
        _ if basic(left) == basic(right) => Err(RenderFailure::new("invalid type for comparison")),
        _ => Err(incompatible(context, left, right)),
    }
}

fn less<'a>(context: &mut RenderContext<'a>, arguments: &CallArguments<'_, 'a>) -> Result<bool, RenderFailure> {
    Ok(order(context, arguments)? == Some(Ordering::Less))
}

fn at_most<'a>(context: &mut RenderContext<'a>, arguments: &CallArguments<'_, 'a>) -> Result<bool, RenderFailure> {
    Ok(matches!(order(context, arguments)?, Some(Ordering::Less | Ordering::Equal)))
}

/// Go's `reflect.DeepEqual`: the same type and the same contents.
pub(in super::super) fn deep_equal<'a>(
    context: &mut RenderContext<'a>,
    left: &TemplateValue<'a>,
    right: &TemplateValue<'a>,
    depth: usize,
) -> Result<bool, RenderFailure> {
    context.step()?;
    if depth > MAX_DEPTH {
        return Err(RenderFailure::Limit { what: "levels of a value to compare", limit: MAX_DEPTH });
    }
    if context.heap.type_name(left) != context.heap.type_name(right) {
        return Ok(false);
    }
    match (left, right) {
        (TemplateValue::List(left), TemplateValue::List(right)) => {
            let length = context.heap.list_len(*left);
            let same_nil = context.heap.is_nil_list(*left) == context.heap.is_nil_list(*right);
            if !same_nil || length != context.heap.list_len(*right) {
                return Ok(false);
            }
            for index in 0..length {
                let (one, other) = (context.heap.item(*left, index), context.heap.item(*right, index));
                let (Some(one), Some(other)) = (one, other) else { return Ok(false) };
                if !deep_equal(context, &one, &other, depth + 1)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (TemplateValue::Map(left), TemplateValue::Map(right)) => {
            if context.heap.map_len(*left) != context.heap.map_len(*right) {
                return Ok(false);
            }
            for (key, one) in context.heap.members(*left) {
                let Some(other) = context.heap.get(*right, &key) else { return Ok(false) };
                if !deep_equal(context, &one, &other, depth + 1)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (TemplateValue::Version(left), TemplateValue::Version(right)) => Ok(left == right),
        (TemplateValue::Missing | TemplateValue::Nil, _) => Ok(true),
        _ => equal(context, left, right),
    }
}

/// A value as sprig's `toString` writes it.
pub(in super::super) fn to_text<'a>(
    context: &RenderContext<'a>,
    value: &TemplateValue<'a>,
) -> Result<String, RenderFailure> {
    display(&context.heap, value, context.left())
}
