//! `eq ne lt le gt ge`, and equality of values as a whole.

use std::cmp::Ordering;
use std::rc::Rc;

use super::super::context::Context;
use super::super::error::Failure;
use super::super::print::{MAX_DEPTH, display, with_verb};
use super::super::value::Value;
use super::Parameter::Raw;
use super::{Arguments, Function};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::variadic("eq", &[Raw], Raw, |context, arguments| {
        if arguments.from(1).is_empty() {
            return Err(Failure::new("missing argument for comparison"));
        }
        for other in arguments.from(1) {
            if equal(context, arguments.any(0), other)? {
                return Ok(true.into());
            }
        }
        Ok(false.into())
    }),
    Function::new("ne", &[Raw, Raw], |context, arguments| {
        Ok((!equal(context, arguments.any(0), arguments.any(1))?).into())
    }),
    Function::new("lt", &[Raw, Raw], |context, arguments| Ok(less(context, arguments)?.into())),
    Function::new("le", &[Raw, Raw], |context, arguments| Ok(at_most(context, arguments)?.into())),
    Function::new("gt", &[Raw, Raw], |context, arguments| Ok((!at_most(context, arguments)?).into())),
    Function::new("ge", &[Raw, Raw], |context, arguments| Ok((!less(context, arguments)?).into())),
];

/// What can be compared with what.
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

fn basic(value: &Value<'_>) -> Basic {
    match value {
        Value::Bool(_) => Basic::Bool,
        Value::Complex(..) => Basic::Complex,
        Value::Int(_) | Value::Int64(_) => Basic::Int,
        Value::Float(_) => Basic::Float,
        Value::Text(_) => Basic::Text,
        Value::Uint64(_) | Value::Byte(_) => Basic::Unsigned,
        _ => Basic::Other,
    }
}

/// Signed and unsigned integers alike.
fn integer(value: &Value<'_>) -> Option<i128> {
    match value {
        Value::Int(number) | Value::Int64(number) => Some(i128::from(*number)),
        Value::Uint64(number) => Some(i128::from(*number)),
        Value::Byte(number) => Some(i128::from(*number)),
        _ => None,
    }
}

fn incompatible<'a>(context: &Context<'a>, left: &Value<'a>, right: &Value<'a>) -> Failure {
    let (left, right) = (context.heap.type_name(left), context.heap.type_name(right));
    Failure::new(format!("incompatible types for comparison: {left} and {right}"))
}

fn equal<'a>(context: &mut Context<'a>, left: &Value<'a>, right: &Value<'a>) -> Result<bool, Failure> {
    if let (Value::Text(left), Value::Text(right)) = (left, right) {
        context.work(left.len().min(right.len()))?;
        return Ok(**left == **right);
    }
    if let (Some(left), Some(right)) = (integer(left), integer(right)) {
        return Ok(left == right);
    }
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => Ok(left == right),
        (Value::Float(left), Value::Float(right)) => Ok(left.partial_cmp(right) == Some(Ordering::Equal)),
        (Value::Complex(a, b), Value::Complex(c, d)) => Ok((a, b) == (c, d)),
        _ if basic(left) == Basic::Other && basic(right) == Basic::Other => equal_composites(context, left, right),
        _ if left.is_nil_interface() || right.is_nil_interface() => Ok(false),
        _ => Err(incompatible(context, left, right)),
    }
}

/// Equality of what is neither text nor number: nil, or the very same version or time.
fn equal_composites<'a>(context: &Context<'a>, left: &Value<'a>, right: &Value<'a>) -> Result<bool, Failure> {
    let name = |value: &Value<'a>| context.heap.type_name(value);
    let written = |value: &Value<'a>, verb| with_verb(&context.heap, verb, value, context.left());
    if left.kind() != right.kind() && !left.is_nil_interface() && !right.is_nil_interface() {
        let (left_text, right_text) = (written(left, 's')?, written(right, 'v')?);
        let message = format!("non-comparable types {left_text}: {}, {}: {right_text}", name(left), name(right));
        return Err(Failure::new(message));
    }
    let is_nil = |value: &Value<'a>| match value {
        Value::Missing | Value::Nil => true,
        Value::List(list) => context.heap.is_nil_list(*list),
        _ => false,
    };
    match (left, right) {
        _ if is_nil(left) || is_nil(right) => Ok(is_nil(left) == is_nil(right)),
        (Value::Version(left), Value::Version(right)) => Ok(Rc::ptr_eq(left, right)),
        (Value::Time(left), Value::Time(right)) => Ok(left == right),
        _ => Err(Failure::new(format!("non-comparable type {}: {}", written(right, 's')?, name(right)))),
    }
}

fn order<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Option<Ordering>, Failure> {
    let (left, right) = (arguments.any(0), arguments.any(1));
    if basic(left) == Basic::Other || basic(right) == Basic::Other {
        return Err(Failure::new("invalid type for comparison"));
    }
    if let (Some(left), Some(right)) = (integer(left), integer(right)) {
        return Ok(Some(left.cmp(&right)));
    }
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => {
            context.work(left.len().min(right.len()))?;
            Ok(Some(left.as_bytes().cmp(right.as_bytes())))
        }
        (Value::Float(left), Value::Float(right)) => Ok(left.partial_cmp(right)),
        _ if basic(left) == basic(right) => Err(Failure::new("invalid type for comparison")),
        _ => Err(incompatible(context, left, right)),
    }
}

fn less<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<bool, Failure> {
    Ok(order(context, arguments)? == Some(Ordering::Less))
}

fn at_most<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<bool, Failure> {
    Ok(matches!(order(context, arguments)?, Some(Ordering::Less | Ordering::Equal)))
}

/// Go's `reflect.DeepEqual`: the same type and the same contents.
pub(in super::super) fn deep_equal<'a>(
    context: &mut Context<'a>,
    left: &Value<'a>,
    right: &Value<'a>,
    depth: usize,
) -> Result<bool, Failure> {
    context.step()?;
    if depth > MAX_DEPTH {
        return Err(Failure::Limit { what: "levels of a value to compare", limit: MAX_DEPTH });
    }
    if context.heap.type_name(left) != context.heap.type_name(right) {
        return Ok(false);
    }
    match (left, right) {
        (Value::List(left), Value::List(right)) => {
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
        (Value::Map(left), Value::Map(right)) => {
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
        (Value::Version(left), Value::Version(right)) => Ok(left == right),
        (Value::Missing | Value::Nil, _) => Ok(true),
        _ => equal(context, left, right),
    }
}

/// A value as sprig's `toString` writes it.
pub(in super::super) fn to_text<'a>(context: &Context<'a>, value: &Value<'a>) -> Result<String, Failure> {
    display(&context.heap, value, context.left())
}
