//! Operators and conversions.

use std::cmp::Ordering;

use super::time;
use super::{ArgumentSizes, EvalResult, Function, SizeRange, both, function, method, one, tenths, unfit};
use crate::cel::fault::EvalError;
use crate::cel::meter::{Meter, PER_ELEMENT};
use crate::cel::value::{Val, equal, order};

const ORDERED: &[&str] = &[
    "bool bool->bool",
    "int int->bool",
    "int uint->bool",
    "int double->bool",
    "uint int->bool",
    "uint uint->bool",
    "uint double->bool",
    "double int->bool",
    "double uint->bool",
    "double double->bool",
    "timestamp timestamp->bool",
    "duration duration->bool",
];

const TEXTS: &[&str] = &["string string->bool", "bytes bytes->bool"];

const SIZES: &[&str] = &["string->int", "bytes->int", "list(A)->int", "map(A,B)->int"];

pub(super) const FUNCTIONS: &[Function] = &[
    function("==", &["A A->bool"], comparison, |meter, args| Ok(Val::Bool(equality(meter, args)?))),
    function("!=", &["A A->bool"], comparison, |meter, args| Ok(Val::Bool(!equality(meter, args)?))),
    function("<", ORDERED, one, |meter, args| ordered(meter, args, Ordering::is_lt)),
    function("<", TEXTS, comparison, |meter, args| ordered(meter, args, Ordering::is_lt)),
    function("<=", ORDERED, one, |meter, args| ordered(meter, args, Ordering::is_le)),
    function("<=", TEXTS, comparison, |meter, args| ordered(meter, args, Ordering::is_le)),
    function(">", ORDERED, one, |meter, args| ordered(meter, args, Ordering::is_gt)),
    function(">", TEXTS, comparison, |meter, args| ordered(meter, args, Ordering::is_gt)),
    function(">=", ORDERED, one, |meter, args| ordered(meter, args, Ordering::is_ge)),
    function(">=", TEXTS, comparison, |meter, args| ordered(meter, args, Ordering::is_ge)),
    function("in", &["A list(A)->bool"], |size| size(1), contains),
    function("in", &["A map(A,B)->bool"], one, contains),
    function("!_", &["bool->bool"], one, |_, args| match args {
        [Val::Bool(value)] => Ok(Val::Bool(!value)),
        _ => Err(unfit(args)),
    }),
    function("-_", &["int->int", "double->double"], one, |_, args| match args {
        [Val::Int(value)] => value.checked_neg().map(Val::Int).ok_or_else(overflow),
        [Val::Double(value)] => Ok(Val::Double(-value)),
        _ => Err(unfit(args)),
    }),
    function(
        "+",
        &[
            "int int->int",
            "uint uint->uint",
            "double double->double",
            "duration duration->duration",
            "timestamp duration->timestamp",
            "duration timestamp->timestamp",
        ],
        one,
        add,
    ),
    function("+", &["string string->string", "bytes bytes->bytes"], |size| tenths(1, joined(size)), add).sized(both),
    function("+", &["list(A) list(A)->list(A)"], one, add).sized(both),
    function(
        "-",
        &[
            "int int->int",
            "uint uint->uint",
            "double double->double",
            "duration duration->duration",
            "timestamp duration->timestamp",
            "timestamp timestamp->duration",
        ],
        one,
        subtract,
    ),
    function("*", &["int int->int", "uint uint->uint", "double double->double"], one, |_, args| match args {
        [Val::Int(a), Val::Int(b)] => a.checked_mul(*b).map(Val::Int).ok_or_else(overflow),
        [Val::Uint(a), Val::Uint(b)] => a.checked_mul(*b).map(Val::Uint).ok_or_else(overflow),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a * b)),
        _ => Err(unfit(args)),
    }),
    function("/", &["int int->int", "uint uint->uint", "double double->double"], one, |_, args| match args {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => Err(EvalError::failed("division by zero")),
        [Val::Int(a), Val::Int(b)] => a.checked_div(*b).map(Val::Int).ok_or_else(overflow),
        [Val::Uint(a), Val::Uint(b)] => a.checked_div(*b).map(Val::Uint).ok_or_else(overflow),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a / b)),
        _ => Err(unfit(args)),
    }),
    function("%", &["int int->int", "uint uint->uint"], one, |_, args| match args {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => Err(EvalError::failed("modulus by zero")),
        [Val::Int(a), Val::Int(b)] => a.checked_rem(*b).map(Val::Int).ok_or_else(overflow),
        [Val::Uint(a), Val::Uint(b)] => a.checked_rem(*b).map(Val::Uint).ok_or_else(overflow),
        _ => Err(unfit(args)),
    }),
    function("size", SIZES, one, size),
    method("size", SIZES, one, size),
    function("dyn", &["A->dyn"], |_| 0, |_, args| args.first().cloned().ok_or_else(|| unfit(args))),
    function("type", &["A->type"], one, |_, args| match args {
        [value] => Ok(Val::Type(value.type_name())),
        _ => Err(unfit(args)),
    }),
    function(
        "int",
        &["int->int", "uint->int", "double->int", "string->int", "timestamp->int", "duration->int"],
        one,
        to_int,
    ),
    function("uint", &["uint->uint", "int->uint", "double->uint", "string->uint"], one, to_uint),
    function("double", &["double->double", "int->double", "uint->double", "string->double"], one, to_double),
    function("bool", &["bool->bool", "string->bool"], one, |_, args| match args {
        [Val::Bool(value)] => Ok(Val::Bool(*value)),
        [Val::Text(text)] => match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
            _ => Err(unconverted("bool")),
        },
        _ => Err(unfit(args)),
    }),
    function(
        "string",
        &[
            "string->string",
            "bool->string",
            "int->string",
            "uint->string",
            "double->string",
            "duration->string",
            "timestamp->string",
            "ip->string",
            "cidr->string",
        ],
        one,
        to_text,
    ),
    // At least four bytes of UTF-8 are a character.
    function("string", &["bytes->string"], |size| tenths(1, size(0)).max(1), to_text)
        .sized(|size| SizeRange { min: size(0).min / 4, max: size(0).max }),
    function("bytes", &["bytes->bytes"], one, to_bytes),
    function("bytes", &["string->bytes"], |size| tenths(1, size(0)).max(1), to_bytes)
        .sized(|size| SizeRange { min: size(0).min, max: size(0).max.saturating_mul(4) }),
];

/// Work to parse a number.
fn read(args: &[Val<'_>]) -> usize {
    args.first().map_or(0, Val::text_bytes).saturating_mul(2)
}

fn comparison(size: ArgumentSizes<'_>) -> u64 {
    tenths(1, size(0).min(size(1)))
}

fn joined(size: ArgumentSizes<'_>) -> u64 {
    size(0).saturating_add(size(1))
}

fn overflow() -> EvalError {
    EvalError::failed("integer overflow")
}

fn unconverted(to: &'static str) -> EvalError {
    EvalError::failed(format!("type conversion error to {to}"))
}

fn equality(meter: &mut Meter, args: &[Val<'_>]) -> Result<bool, EvalError> {
    match args {
        [a, b] => equal(a, b, meter),
        _ => Err(unfit(args)),
    }
}

fn ordered<'v>(meter: &mut Meter, args: &[Val<'v>], fits: fn(Ordering) -> bool) -> EvalResult<'v> {
    match args {
        // NaN is neither less nor greater than any number.
        [Val::Double(a), b] | [b, Val::Double(a)]
            if a.is_nan() && matches!(b, Val::Int(_) | Val::Uint(_) | Val::Double(_)) =>
        {
            Ok(Val::Bool(false))
        }
        [Val::Double(a), Val::Double(b)] if a.is_nan() || b.is_nan() => Ok(Val::Bool(false)),
        [a, b] => order(a, b, meter).map(|order| Val::Bool(fits(order))),
        _ => Err(unfit(args)),
    }
}

fn contains<'v>(meter: &mut Meter, args: &[Val<'v>]) -> EvalResult<'v> {
    match args {
        [wanted, Val::List(list)] => {
            for at in 0..list.len() {
                if equal(&list.at(at, meter)?, wanted, meter)? {
                    return Ok(Val::Bool(true));
                }
            }
            Ok(Val::Bool(false))
        }
        [key, Val::Map(map)] => map.has(key, meter).map(Val::Bool),
        _ => Err(unfit(args)),
    }
}

fn add<'v>(meter: &mut Meter, args: &[Val<'v>]) -> EvalResult<'v> {
    match args {
        [Val::Int(a), Val::Int(b)] => a.checked_add(*b).map(Val::Int).ok_or_else(overflow),
        [Val::Uint(a), Val::Uint(b)] => a.checked_add(*b).map(Val::Uint).ok_or_else(overflow),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a + b)),
        [Val::Text(a), Val::Text(b)] => {
            let (a, b) = (a.as_str(), b.as_str());
            meter.work(a.len() + b.len())?;
            Ok(Val::made([a, b].concat()))
        }
        [Val::Bytes(a), Val::Bytes(b)] => {
            meter.work(a.len() + b.len())?;
            Ok(Val::Bytes([&**a, &**b].concat().into()))
        }
        [Val::List(a), Val::List(b)] => {
            meter.work((a.len() + b.len()) * PER_ELEMENT)?;
            let mut elements = Vec::with_capacity(a.len() + b.len());
            for list in [a, b] {
                for at in 0..list.len() {
                    elements.push(list.at(at, meter)?);
                }
            }
            Ok(Val::list(elements))
        }
        [Val::Duration(a), Val::Duration(b)] => a.checked_add(*b).map(Val::Duration).ok_or_else(overflow),
        [Val::Timestamp(at), Val::Duration(by)] | [Val::Duration(by), Val::Timestamp(at)] => {
            at.plus(*by).map(Val::Timestamp).ok_or_else(overflow)
        }
        _ => Err(unfit(args)),
    }
}

fn subtract<'v>(_: &mut Meter, args: &[Val<'v>]) -> EvalResult<'v> {
    match args {
        [Val::Int(a), Val::Int(b)] => a.checked_sub(*b).map(Val::Int).ok_or_else(overflow),
        [Val::Uint(a), Val::Uint(b)] => a.checked_sub(*b).map(Val::Uint).ok_or_else(overflow),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a - b)),
        [Val::Duration(a), Val::Duration(b)] => a.checked_sub(*b).map(Val::Duration).ok_or_else(overflow),
        [Val::Timestamp(at), Val::Duration(by)] => {
            by.checked_neg().and_then(|by| at.plus(by)).map(Val::Timestamp).ok_or_else(overflow)
        }
        [Val::Timestamp(a), Val::Timestamp(b)] => a.since(*b).map(Val::Duration).ok_or_else(overflow),
        _ => Err(unfit(args)),
    }
}

fn size<'v>(meter: &mut Meter, args: &[Val<'v>]) -> EvalResult<'v> {
    match args {
        [value @ (Val::Text(_) | Val::Bytes(_) | Val::List(_) | Val::Map(_))] => {
            if let Val::Text(text) = value {
                meter.work(text.as_str().len() / 8)?;
            }
            Ok(Val::Int(i64::try_from(value.extent()).unwrap_or(i64::MAX)))
        }
        _ => Err(unfit(args)),
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the range is checked before")]
fn to_int<'v>(meter: &mut Meter, args: &[Val<'v>]) -> EvalResult<'v> {
    meter.work(read(args))?;
    match args {
        [Val::Int(value)] => Ok(Val::Int(*value)),
        [Val::Uint(value)] => i64::try_from(*value).map(Val::Int).map_err(|_| overflow()),
        [Val::Double(value)] if value.abs() < 9_223_372_036_854_775_807.0 => Ok(Val::Int(*value as i64)),
        [Val::Double(_)] => Err(overflow()),
        [Val::Text(text)] => text.as_str().parse().map(Val::Int).map_err(|_| unconverted("int")),
        [Val::Timestamp(at)] => Ok(Val::Int(at.seconds)),
        [Val::Duration(nanos)] => Ok(Val::Int(*nanos)),
        _ => Err(unfit(args)),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked before")]
fn to_uint<'v>(meter: &mut Meter, args: &[Val<'v>]) -> EvalResult<'v> {
    meter.work(read(args))?;
    match args {
        [Val::Uint(value)] => Ok(Val::Uint(*value)),
        [Val::Int(value)] => u64::try_from(*value).map(Val::Uint).map_err(|_| overflow()),
        [Val::Double(value)] if *value >= 0.0 && *value < 18_446_744_073_709_551_615.0 => Ok(Val::Uint(*value as u64)),
        [Val::Double(_)] => Err(overflow()),
        [Val::Text(text)] => text.as_str().parse().map(Val::Uint).map_err(|_| unconverted("uint")),
        _ => Err(unfit(args)),
    }
}

#[allow(clippy::cast_precision_loss, reason = "the conversion rounds")]
fn to_double<'v>(meter: &mut Meter, args: &[Val<'v>]) -> EvalResult<'v> {
    meter.work(read(args))?;
    match args {
        [Val::Double(value)] => Ok(Val::Double(*value)),
        [Val::Int(value)] => Ok(Val::Double(*value as f64)),
        [Val::Uint(value)] => Ok(Val::Double(*value as f64)),
        [Val::Text(text)] => text.as_str().parse().map(Val::Double).map_err(|_| unconverted("double")),
        _ => Err(unfit(args)),
    }
}

fn to_text<'v>(meter: &mut Meter, args: &[Val<'v>]) -> EvalResult<'v> {
    meter.work(50)?;
    Ok(match args {
        [Val::Text(text)] => Val::Text(text.clone()),
        [Val::Bool(value)] => Val::made(value.to_string()),
        [Val::Int(value)] => Val::made(value.to_string()),
        [Val::Uint(value)] => Val::made(value.to_string()),
        [Val::Double(value)] => Val::made(double(*value)),
        [Val::Duration(nanos)] => Val::made(time::seconds(*nanos)),
        [Val::Timestamp(at)] => Val::made(at.to_string()),
        [Val::Ip(ip)] => Val::made(ip.to_string()),
        [Val::Cidr(cidr)] => Val::made(cidr.to_string()),
        [Val::Bytes(bytes)] => {
            meter.work(bytes.len())?;
            let text = std::str::from_utf8(bytes).map_err(|_| EvalError::failed("invalid UTF-8 in bytes"))?;
            Val::made(text)
        }
        _ => return Err(unfit(args)),
    })
}

/// A float as Go's shortest form prints it.
pub(super) fn double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if value == 0.0 || (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn to_bytes<'v>(meter: &mut Meter, args: &[Val<'v>]) -> EvalResult<'v> {
    match args {
        [Val::Bytes(bytes)] => Ok(Val::Bytes(bytes.clone())),
        [Val::Text(text)] => {
            meter.work(text.as_str().len())?;
            Ok(Val::Bytes(text.as_str().as_bytes().into()))
        }
        _ => Err(unfit(args)),
    }
}
