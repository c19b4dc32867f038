//! Lists and sets.

use std::cmp::Ordering;

use super::{
    ArgumentSizes, ELEMENT, EvalResult, Function, RESULT, first, function, method, one, square_of_first, tenths, unfit,
};
use crate::cel::fault::EvalError;
use crate::cel::meter::{Meter, PER_ELEMENT};
use crate::cel::value::{CelList, Val, equal, numbers, order};

const ORDERED: &[&str] = &[
    "list(bool)->bool",
    "list(int)->bool",
    "list(uint)->bool",
    "list(double)->bool",
    "list(string)->bool",
    "list(bytes)->bool",
    "list(duration)->bool",
    "list(timestamp)->bool",
];
const EXTREMES: &[&str] = &[
    "list(bool)->bool",
    "list(int)->int",
    "list(uint)->uint",
    "list(double)->double",
    "list(string)->string",
    "list(bytes)->bytes",
    "list(duration)->duration",
    "list(timestamp)->timestamp",
];
const SORTED: &[&str] = &[
    "list(bool)->list(bool)",
    "list(int)->list(int)",
    "list(uint)->list(uint)",
    "list(double)->list(double)",
    "list(string)->list(string)",
    "list(bytes)->list(bytes)",
    "list(duration)->list(duration)",
    "list(timestamp)->list(timestamp)",
];
const PAIR: &[&str] = &["list(A) list(A)->bool"];

pub(super) const FUNCTIONS: &[Function] = &[
    method("isSorted", ORDERED, each, |meter, args| {
        let elements = elements(meter, args.first())?;
        for pair in elements.windows(2) {
            if let [a, b] = pair
                && order(a, b, meter)?.is_gt()
            {
                return Ok(Val::Bool(false));
            }
        }
        Ok(Val::Bool(true))
    }),
    method(
        "sum",
        &["list(int)->int", "list(uint)->uint", "list(double)->double", "list(duration)->duration"],
        |size| size(0),
        sum,
    ),
    method("min", EXTREMES, each, |meter, args| extreme(meter, args, Ordering::Less)),
    method("max", EXTREMES, each, |meter, args| extreme(meter, args, Ordering::Greater)),
    method("indexOf", &["list(A) A->int"], each, |meter, args| find(meter, args, false)),
    method("lastIndexOf", &["list(A) A->int"], each, |meter, args| find(meter, args, true)),
    method("slice", &["list(A) int int->list(A)"], made, slice),
    method(
        "flatten",
        &["list(list(A))->list(A)", "list(dyn)->list(dyn)"],
        |size| 12_u64.saturating_add(size(0)),
        |meter, args| flatten(meter, args, 1),
    )
    .sized(first),
    method(
        "flatten",
        &["list(dyn) int->list(dyn)"],
        |size| 12_u64.saturating_add(size(0).saturating_mul(size(1).max(1))),
        |meter, args| match args.get(1) {
            Some(Val::Int(depth)) if *depth >= 0 => flatten(meter, args, *depth),
            _ => Err(EvalError::failed("level must be non-negative")),
        },
    )
    .sized(first),
    method("sort", SORTED, compared, |meter, args| {
        let elements = elements(meter, args.first())?;
        let keys = elements.clone();
        sorted_by(elements, keys, meter)
    })
    .sized(square_of_first),
    method("distinct", &["list(A)->list(A)"], squared, distinct).sized(square_of_first),
    method("reverse", &["list(A)->list(A)"], made, |meter, args| {
        let mut elements = elements(meter, args.first())?;
        elements.reverse();
        Ok(Val::list(elements))
    })
    .sized(first),
    function(
        "lists.range",
        &["int->list(int)"],
        |size| 11_u64.saturating_add(size(RESULT)),
        |meter, args| {
            let [Val::Int(count)] = args else { return Err(unfit(args)) };
            meter.work(usize::try_from(*count).unwrap_or(0).saturating_mul(PER_ELEMENT))?;
            Ok(Val::list((0..*count).map(Val::Int).collect()))
        },
    ),
    method("first", &["list(A)->optional(A)"], one, |meter, args| end(meter, args, false)),
    method("last", &["list(A)->optional(A)"], one, |meter, args| end(meter, args, true)),
    function("sets.contains", PAIR, product, |meter, args| {
        let (a, b) = sets(args)?;
        Ok(Val::Bool(contains_all(a, b, meter)?))
    }),
    function(
        "sets.equivalent",
        PAIR,
        |size| product(size).saturating_mul(2).saturating_sub(1),
        |meter, args| {
            let (a, b) = sets(args)?;
            Ok(Val::Bool(contains_all(a, b, meter)? && contains_all(b, a, meter)?))
        },
    ),
    function("sets.intersects", PAIR, product, |meter, args| {
        let (a, b) = sets(args)?;
        for at in 0..a.len() {
            let element = a.at(at, meter)?;
            if holds(b, &element, meter)? {
                return Ok(Val::Bool(true));
            }
        }
        Ok(Val::Bool(false))
    }),
];

fn made(size: ArgumentSizes<'_>) -> u64 {
    11_u64.saturating_add(size(RESULT))
}

/// One unit per element.
fn each(size: ArgumentSizes<'_>) -> u64 {
    size(0).saturating_mul(1_u64.saturating_add(tenths(1, size(ELEMENT))))
}

/// Cost of comparing elements with each other; strings cost slightly more.
fn compared(size: ArgumentSizes<'_>) -> u64 {
    let pairs = size(0).saturating_mul(size(0));
    squared(size).saturating_add(if size(ELEMENT) > 0 { tenths(1, pairs) } else { 0 })
}

fn squared(size: ArgumentSizes<'_>) -> u64 {
    11_u64.saturating_add(size(0).saturating_mul(size(0)).saturating_mul(2))
}

fn product(size: ArgumentSizes<'_>) -> u64 {
    1_u64.saturating_add(size(0).saturating_mul(size(1)))
}

fn elements<'v>(meter: &mut Meter, list: Option<&Val<'v>>) -> Result<Vec<Val<'v>>, EvalError> {
    let Some(Val::List(list)) = list else { return Err(EvalError::failed("no such overload")) };
    meter.work(list.len().saturating_mul(PER_ELEMENT))?;
    let mut elements = Vec::with_capacity(list.len());
    for at in 0..list.len() {
        elements.push(list.at(at, meter)?);
    }
    Ok(elements)
}

fn sum<'v>(meter: &mut Meter, args: &[Val<'v>]) -> EvalResult<'v> {
    let elements = elements(meter, args.first())?;
    let overflow = || EvalError::failed("integer overflow");
    let mut sum: Option<Val<'v>> = None;
    for element in elements {
        sum = Some(match (sum, element) {
            (None, element) => element,
            (Some(Val::Int(a)), Val::Int(b)) => Val::Int(a.checked_add(b).ok_or_else(overflow)?),
            (Some(Val::Uint(a)), Val::Uint(b)) => Val::Uint(a.checked_add(b).ok_or_else(overflow)?),
            (Some(Val::Double(a)), Val::Double(b)) => Val::Double(a + b),
            (Some(Val::Duration(a)), Val::Duration(b)) => Val::Duration(a.checked_add(b).ok_or_else(overflow)?),
            (Some(a), b) => return Err(unfit(&[a, b])),
        });
    }
    // The sum of an empty list depends on its element type, which is unknown here; zero equals the zero of every type.
    Ok(sum.unwrap_or(Val::Int(0)))
}

fn extreme<'v>(meter: &mut Meter, args: &[Val<'v>], wanted: Ordering) -> EvalResult<'v> {
    let mut elements = elements(meter, args.first())?.into_iter();
    let Some(mut best) = elements.next() else {
        return Err(EvalError::failed("min() and max() need at least one element"));
    };
    for element in elements {
        if order(&element, &best, meter)? == wanted {
            best = element;
        }
    }
    Ok(best)
}

fn find<'v>(meter: &mut Meter, args: &[Val<'v>], from_end: bool) -> EvalResult<'v> {
    let [Val::List(list), wanted] = args else { return Err(unfit(args)) };
    let mut found = None;
    for at in 0..list.len() {
        if equal(&list.at(at, meter)?, wanted, meter)? {
            found = Some(at);
            if !from_end {
                break;
            }
        }
    }
    Ok(found.map_or(Val::Int(-1), Val::size))
}

fn slice<'v>(meter: &mut Meter, args: &[Val<'v>]) -> EvalResult<'v> {
    let [Val::List(list), Val::Int(from), Val::Int(to)] = args else { return Err(unfit(args)) };
    let (Ok(start), Ok(end)) = (usize::try_from(*from), usize::try_from(*to)) else {
        return Err(EvalError::failed("negative indexes are not supported"));
    };
    if start > end || end > list.len() {
        return Err(EvalError::failed("the range of slice() is outside the list"));
    }
    meter.work((end - start).saturating_mul(PER_ELEMENT))?;
    let mut elements = Vec::with_capacity(end - start);
    for at in start..end {
        elements.push(list.at(at, meter)?);
    }
    Ok(Val::list(elements))
}

fn flatten<'v>(meter: &mut Meter, args: &[Val<'v>], depth: i64) -> EvalResult<'v> {
    let mut current = elements(meter, args.first())?;
    for _ in 0..depth {
        let mut next = Vec::with_capacity(current.len());
        let mut is_flat = true;
        for element in current {
            match element {
                Val::List(inner) => {
                    is_flat = false;
                    meter.work(inner.len().saturating_mul(PER_ELEMENT))?;
                    for at in 0..inner.len() {
                        next.push(inner.at(at, meter)?);
                    }
                }
                other => next.push(other),
            }
        }
        current = next;
        if is_flat {
            break;
        }
    }
    Ok(Val::list(current))
}

fn distinct<'v>(meter: &mut Meter, args: &[Val<'v>]) -> EvalResult<'v> {
    let all = elements(meter, args.first())?;
    let mut kept: Vec<Val<'v>> = Vec::new();
    for element in all {
        let mut is_new = true;
        for other in &kept {
            if equal(other, &element, meter)? {
                is_new = false;
                break;
            }
        }
        if is_new {
            kept.push(element);
        }
    }
    Ok(Val::list(kept))
}

/// Elements sorted by their keys; the sort is stable.
pub(in crate::cel) fn sorted_by<'v>(elements: Vec<Val<'v>>, keys: Vec<Val<'v>>, meter: &mut Meter) -> EvalResult<'v> {
    let count = elements.len();
    meter.work(count.saturating_mul(100))?;
    let mut pairs: Vec<(Val<'v>, Val<'v>)> = keys.into_iter().zip(elements).collect();
    let mut fault = None;
    let mut compare = |a: &Val<'v>, b: &Val<'v>| match order(a, b, meter) {
        Ok(order) => order,
        Err(problem) => {
            fault.get_or_insert(problem);
            Ordering::Equal
        }
    };
    // Incomparable keys are found before sorting, since a sort needs a consistent order.
    let comparable = pairs.windows(2).all(|pair| match pair {
        [a, b] => same_kind(&a.0, &b.0) && !is_nan(&a.0) && !is_nan(&b.0),
        _ => true,
    });
    if !comparable {
        return Err(EvalError::failed("the list has elements that cannot be compared"));
    }
    pairs.sort_by(|a, b| compare(&a.0, &b.0));
    match fault {
        Some(fault) => Err(fault),
        None => Ok(Val::List(CelList::Made(std::rc::Rc::new(pairs.into_iter().map(|(_, element)| element).collect())))),
    }
}

fn is_nan(value: &Val<'_>) -> bool {
    matches!(value, Val::Double(value) if value.is_nan())
}

fn same_kind(a: &Val<'_>, b: &Val<'_>) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b) || numbers(a, b).is_some()
}

fn end<'v>(meter: &mut Meter, args: &[Val<'v>], from_end: bool) -> EvalResult<'v> {
    let [Val::List(list)] = args else { return Err(unfit(args)) };
    match list.get(if from_end { list.len().wrapping_sub(1) } else { 0 }, meter) {
        Some(element) => Ok(Val::some(element?)),
        None => Ok(Val::Optional(None)),
    }
}

fn sets<'a, 'v>(args: &'a [Val<'v>]) -> Result<(&'a CelList<'v>, &'a CelList<'v>), EvalError> {
    match args {
        [Val::List(a), Val::List(b)] => Ok((a, b)),
        _ => Err(unfit(args)),
    }
}

fn holds<'v>(list: &CelList<'v>, wanted: &Val<'v>, meter: &mut Meter) -> Result<bool, EvalError> {
    for at in 0..list.len() {
        if equal(&list.at(at, meter)?, wanted, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn contains_all<'v>(list: &CelList<'v>, wanted: &CelList<'v>, meter: &mut Meter) -> Result<bool, EvalError> {
    for at in 0..wanted.len() {
        let element = wanted.at(at, meter)?;
        if !holds(list, &element, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}
