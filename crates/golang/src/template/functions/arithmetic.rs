//! Numbers: integers as sprig casts them, and decimal arithmetic on floats.

use super::super::context::Context;
use super::super::error::Failure;
use super::super::number::{parse_float, parse_integer};
use super::super::value::{Elements, Value};
use super::Parameter::{Any, Float, Int, Text};
use super::comparison::to_text;
use super::{Arguments, Function};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("atoi", &[Text], |_, arguments| {
        let text = arguments.text(0);
        let is_decimal = text.trim_start_matches(['+', '-']).bytes().all(|byte| byte.is_ascii_digit());
        Ok(Value::Int(if is_decimal { text.parse().unwrap_or(0) } else { 0 }))
    }),
    Function::new("int64", &[Any], |_, arguments| Ok(Value::Int64(integer(arguments.any(0))))),
    Function::new("int", &[Any], |_, arguments| Ok(Value::Int(integer(arguments.any(0))))),
    Function::new("float64", &[Any], |_, arguments| Ok(Value::Float(float(arguments.any(0))))),
    Function::new("toDecimal", &[Any], |context, arguments| {
        let text = to_text(context, arguments.any(0))?;
        Ok(Value::Int64(octal(&text)))
    }),
    Function::variadic("seq", &[], Int, sequence),
    Function::new("until", &[Int], |context, arguments| {
        let end = arguments.int(0);
        numbers(context, 0, end, if end < 0 { -1 } else { 1 })
    }),
    Function::new("untilStep", &[Int, Int, Int], |context, arguments| {
        numbers(context, arguments.int(0), arguments.int(1), arguments.int(2))
    }),
    Function::new("add1", &[Any], |_, arguments| Ok(Value::Int64(integer(arguments.any(0)).wrapping_add(1)))),
    Function::variadic("add", &[], Any, |_, arguments| {
        Ok(Value::Int64(arguments.from(0).iter().map(integer).fold(0, i64::wrapping_add)))
    }),
    Function::new("sub", &[Any, Any], |_, arguments| Ok(Value::Int64(pair(arguments, i64::wrapping_sub)))),
    Function::new("div", &[Any, Any], |_, arguments| divided(arguments, i64::wrapping_div)),
    Function::new("mod", &[Any, Any], |_, arguments| divided(arguments, i64::wrapping_rem)),
    Function::variadic("mul", &[Any], Any, |_, arguments| {
        Ok(Value::Int64(arguments.from(0).iter().map(integer).fold(1, i64::wrapping_mul)))
    }),
    Function::variadic("max", &[Any], Any, |_, arguments| Ok(largest(arguments))),
    Function::variadic("biggest", &[Any], Any, |_, arguments| Ok(largest(arguments))),
    Function::variadic("min", &[Any], Any, |_, arguments| {
        Ok(Value::Int64(arguments.from(0).iter().map(integer).min().unwrap_or(0)))
    }),
    Function::variadic("maxf", &[Any], Any, |_, arguments| Ok(extreme(arguments, |one, other| one > other))),
    Function::variadic("minf", &[Any], Any, |_, arguments| Ok(extreme(arguments, |one, other| one < other))),
    Function::new("ceil", &[Any], |_, arguments| Ok(Value::Float(float(arguments.any(0)).ceil()))),
    Function::new("floor", &[Any], |_, arguments| Ok(Value::Float(float(arguments.any(0)).floor()))),
    Function::variadic("round", &[Any, Int], Float, |_, arguments| Ok(Value::Float(rounded(arguments)))),
    Function::new("add1f", &[Any], |_, arguments| {
        Ok(decimals(float(arguments.any(0)), &[Value::Float(1.0)], Operation::Add))
    }),
    Function::variadic("addf", &[], Any, |_, arguments| Ok(decimals(0.0, arguments.from(0), Operation::Add))),
    Function::variadic("subf", &[Any], Any, |_, arguments| {
        Ok(decimals(float(arguments.any(0)), arguments.from(1), Operation::Subtract))
    }),
    Function::variadic("divf", &[Any], Any, |_, arguments| {
        if arguments.from(1).iter().any(|value| float(value) == 0.0) {
            return Err(Failure::new("decimal division by 0"));
        }
        Ok(decimals(float(arguments.any(0)), arguments.from(1), Operation::Divide))
    }),
    Function::variadic("mulf", &[Any], Any, |_, arguments| {
        Ok(decimals(float(arguments.any(0)), arguments.from(1), Operation::Multiply))
    }),
];

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// As `cast.ToInt64` casts: what is no number is zero.
pub(super) fn integer(value: &Value<'_>) -> i64 {
    match value {
        Value::Int(number) | Value::Int64(number) => *number,
        #[allow(clippy::cast_possible_wrap, reason = "as Go converts it")]
        Value::Uint64(number) => *number as i64,
        Value::Byte(number) => i64::from(*number),
        #[allow(clippy::cast_possible_truncation, reason = "checked")]
        Value::Float(number) if (-TWO_TO_63..TWO_TO_63).contains(number) => *number as i64,
        Value::Float(_) => i64::MIN,
        Value::Text(text) => parse_integer(without_zero_decimals(text)).unwrap_or(0),
        Value::Bool(truth) => i64::from(*truth),
        _ => 0,
    }
}

/// `5.00` without its decimals.
fn without_zero_decimals(text: &str) -> &str {
    let trimmed = text.trim_end_matches('0');
    match trimmed.strip_suffix('.') {
        Some(whole) if trimmed.len() < text.len() => whole,
        _ => text,
    }
}

/// As `cast.ToFloat64` casts.
#[allow(clippy::cast_precision_loss, reason = "as Go converts it")]
pub(super) fn float(value: &Value<'_>) -> f64 {
    match value {
        Value::Float(number) => *number,
        Value::Int(number) | Value::Int64(number) => *number as f64,
        Value::Uint64(number) => *number as f64,
        Value::Byte(number) => f64::from(*number),
        Value::Text(text) => parse_float(text).unwrap_or(0.0),
        Value::Bool(truth) => f64::from(u8::from(*truth)),
        _ => 0.0,
    }
}

fn octal(text: &str) -> i64 {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    match digits.starts_with(['+', '-']) {
        true => 0,
        false => i64::from_str_radix(text, 8).unwrap_or(0),
    }
}

fn pair(arguments: &Arguments<'_, '_>, operation: fn(i64, i64) -> i64) -> i64 {
    operation(integer(arguments.any(0)), integer(arguments.any(1)))
}

fn divided<'a>(arguments: &Arguments<'_, 'a>, operation: fn(i64, i64) -> i64) -> Result<Value<'a>, Failure> {
    match integer(arguments.any(1)) {
        0 => Err(Failure::new("runtime error: integer divide by zero")),
        _ => Ok(Value::Int64(pair(arguments, operation))),
    }
}

fn largest<'a>(arguments: &Arguments<'_, 'a>) -> Value<'a> {
    Value::Int64(arguments.from(0).iter().map(integer).max().unwrap_or(0))
}

/// The float that `beats` all others; NaN beats everything, as in Go's `math.Max`.
fn extreme<'a>(arguments: &Arguments<'_, 'a>, beats: fn(f64, f64) -> bool) -> Value<'a> {
    let chosen = arguments
        .from(0)
        .iter()
        .map(float)
        .reduce(|best, next| if best.is_nan() || !next.is_nan() && !beats(next, best) { best } else { next });
    Value::Float(chosen.unwrap_or(0.0))
}

/// `start` up or down to before `end`.
fn steps(start: i64, end: i64, step: i64, most: usize) -> Result<Vec<i64>, Failure> {
    let mut made = Vec::new();
    let mut next = start;
    let goes_up = end >= start;
    if goes_up && step <= 0 || !goes_up && step >= 0 {
        return Ok(made);
    }
    while if goes_up { next < end } else { next > end } {
        if made.len() >= most {
            return Err(Failure::Limit { what: "numbers in a row", limit: most });
        }
        made.push(next);
        let Some(after) = next.checked_add(step) else { break };
        next = after;
    }
    Ok(made)
}

/// The longest list of numbers.
const MOST_NUMBERS: usize = 50_000;

fn numbers<'a>(context: &mut Context<'a>, start: i64, end: i64, step: i64) -> Result<Value<'a>, Failure> {
    let numbers = steps(start, end, step, MOST_NUMBERS)?;
    context.list(Elements::Int, numbers.into_iter().map(Value::Int).collect())
}

fn sequence<'a>(context: &mut Context<'a>, arguments: &Arguments<'_, 'a>) -> Result<Value<'a>, Failure> {
    let direction = |start: i64, end: i64| if end < start { -1 } else { 1 };
    let (start, end, step) = match arguments.0.len() {
        1 => (1, arguments.int(0), direction(1, arguments.int(0))),
        2 => (arguments.int(0), arguments.int(1), direction(arguments.int(0), arguments.int(1))),
        3 => (arguments.int(0), arguments.int(2), arguments.int(1)),
        _ => return Ok("".into()),
    };
    if end < start && step > 0 {
        return Ok("".into());
    }
    let numbers = steps(start, end.saturating_add(direction(start, end)), step, MOST_NUMBERS)?;
    context.text(numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" "))
}

fn rounded(arguments: &Arguments<'_, '_>) -> f64 {
    let on = match arguments.any(2) {
        Value::Float(on) => *on,
        _ => 0.5,
    };
    let places = i32::try_from(arguments.int(1)).unwrap_or(i32::MAX);
    let power = 10f64.powi(places);
    let digits = power * float(arguments.any(0));
    let rounded = if digits.fract() >= on { digits.ceil() } else { digits.floor() };
    rounded / power
}

#[derive(Clone, Copy)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// `coefficient` × 10^-`scale`
#[derive(Clone, Copy)]
struct Decimal {
    coefficient: i128,
    scale: u32,
}

impl Decimal {
    /// The decimal with the shortest digits of the float, if it is of common size.
    fn of(value: f64) -> Option<Self> {
        let text = format!("{value}");
        if text.len() > 36 || !value.is_finite() {
            return None;
        }
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let coefficient = format!("{whole}{fraction}").parse().ok()?;
        Some(Self { coefficient, scale: u32::try_from(fraction.len()).ok()? })
    }

    fn scaled(self, scale: u32) -> Option<i128> {
        self.coefficient.checked_mul(10i128.checked_pow(scale - self.scale)?)
    }

    fn apply(self, operation: Operation, other: Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        let coefficient = match operation {
            Operation::Add => self.scaled(scale)?.checked_add(other.scaled(scale)?)?,
            Operation::Subtract => self.scaled(scale)?.checked_sub(other.scaled(scale)?)?,
            Operation::Multiply => {
                let coefficient = self.coefficient.checked_mul(other.coefficient)?;
                return Some(Self { coefficient, scale: self.scale + other.scale });
            }
            Operation::Divide => return self.divided_by(other),
        };
        Some(Self { coefficient, scale })
    }

    /// Rounded to sixteen decimals, halves away from zero.
    fn divided_by(self, other: Self) -> Option<Self> {
        const DECIMALS: u32 = 16;
        let scale = self.scale.max(other.scale);
        let (dividend, divisor) = (self.scaled(scale)?.checked_mul(10i128.pow(DECIMALS))?, other.scaled(scale)?);
        let (quotient, rest) = (dividend.checked_div(divisor)?, dividend.checked_rem(divisor)?);
        let rounds = rest.unsigned_abs().checked_mul(2)? >= divisor.unsigned_abs();
        let away = if (dividend < 0) == (divisor < 0) { 1 } else { -1 };
        Some(Self { coefficient: quotient + if rounds { away } else { 0 }, scale: DECIMALS })
    }

    fn to_float(self) -> f64 {
        format!("{}e-{}", self.coefficient, self.scale).parse().unwrap_or(f64::NAN)
    }
}

/// Decimal arithmetic, so that 0.1 and 0.2 add up to 0.3; binary where the numbers are out of its range.
fn decimals<'a>(first: f64, others: &[Value<'a>], operation: Operation) -> Value<'a> {
    let exact = others.iter().try_fold(Decimal::of(first), |sum, value| {
        Some(sum.and_then(|sum| sum.apply(operation, Decimal::of(float(value))?)))
    });
    Value::Float(match exact.flatten() {
        Some(exact) => exact.to_float(),
        None => others.iter().map(float).fold(first, |sum, value| match operation {
            Operation::Add => sum + value,
            Operation::Subtract => sum - value,
            Operation::Multiply => sum * value,
            Operation::Divide => sum / value,
        }),
    })
}
