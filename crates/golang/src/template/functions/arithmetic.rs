//! Numbers: integers as sprig casts them, and decimal arithmetic on floats.

use super::super::context::RenderContext;
use super::super::error::RenderFailure;
use super::super::number::{parse_float, parse_integer};
use super::super::value::{ElementType, TemplateValue};
use super::Parameter::{Any, Float, Int, Text};
use super::comparison::to_text;
use super::{CallArguments, TemplateFunction};

pub(super) const FUNCTIONS: &[TemplateFunction] = &[
    TemplateFunction::new("atoi", &[Text], |_, arguments| {
        let text = arguments.text(0);
        let is_decimal = text.trim_start_matches(['+', '-']).bytes().all(|byte| byte.is_ascii_digit());
        Ok(TemplateValue::Int(if is_decimal { text.parse().unwrap_or(0) } else { 0 }))
    }),
    TemplateFunction::new("int64", &[Any], |_, arguments| Ok(TemplateValue::Int64(integer(arguments.any(0))))),
    TemplateFunction::new("int", &[Any], |_, arguments| Ok(TemplateValue::Int(integer(arguments.any(0))))),
    TemplateFunction::new("float64", &[Any], |_, arguments| Ok(TemplateValue::Float(float(arguments.any(0))))),
    TemplateFunction::new("toDecimal", &[Any], |context, arguments| {
        let text = to_text(context, arguments.any(0))?;
        Ok(TemplateValue::Int64(octal(&text)))
    }),
    TemplateFunction::variadic("seq", &[], Int, sequence),
    TemplateFunction::new("until", &[Int], |context, arguments| {
        let end = arguments.int(0);
        numbers(context, 0, end, if end < 0 { -1 } else { 1 })
    }),
    TemplateFunction::new("untilStep", &[Int, Int, Int], |context, arguments| {
        numbers(context, arguments.int(0), arguments.int(1), arguments.int(2))
    }),
    TemplateFunction::new("add1", &[Any], |_, arguments| {
        Ok(TemplateValue::Int64(integer(arguments.any(0)).wrapping_add(1)))
    }),
    TemplateFunction::variadic("add", &[], Any, |_, arguments| {
        Ok(TemplateValue::Int64(arguments.from(0).iter().map(integer).fold(0, i64::wrapping_add)))
    }),
    TemplateFunction::new("sub", &[Any, Any], |_, arguments| {
        Ok(TemplateValue::Int64(pair(arguments, i64::wrapping_sub)))
    }),
    TemplateFunction::new("div", &[Any, Any], |_, arguments| divided(arguments, i64::wrapping_div)),
    TemplateFunction::new("mod", &[Any, Any], |_, arguments| divided(arguments, i64::wrapping_rem)),
    TemplateFunction::variadic("mul", &[Any], Any, |_, arguments| {
        Ok(TemplateValue::Int64(arguments.from(0).iter().map(integer).fold(1, i64::wrapping_mul)))
    }),
    TemplateFunction::variadic("max", &[Any], Any, |_, arguments| Ok(largest(arguments))),
    TemplateFunction::variadic("biggest", &[Any], Any, |_, arguments| Ok(largest(arguments))),
    TemplateFunction::variadic("min", &[Any], Any, |_, arguments| {
        Ok(TemplateValue::Int64(arguments.from(0).iter().map(integer).min().unwrap_or(0)))
    }),
    TemplateFunction::variadic("maxf", &[Any], Any, |_, arguments| Ok(extreme(arguments, |one, other| one > other))),
    TemplateFunction::variadic("minf", &[Any], Any, |_, arguments| Ok(extreme(arguments, |one, other| one < other))),
    TemplateFunction::new("ceil", &[Any], |_, arguments| Ok(TemplateValue::Float(float(arguments.any(0)).ceil()))),
    TemplateFunction::new("floor", &[Any], |_, arguments| Ok(TemplateValue::Float(float(arguments.any(0)).floor()))),
    TemplateFunction::variadic("round", &[Any, Int], Float, |_, arguments| {
        Ok(TemplateValue::Float(rounded(arguments)))
    }),
    TemplateFunction::new("add1f", &[Any], |_, arguments| {
        Ok(decimals(float(arguments.any(0)), &[TemplateValue::Float(1.0)], DecimalOperation::Add))
    }),
    TemplateFunction::variadic("addf", &[], Any, |_, arguments| {
        Ok(decimals(0.0, arguments.from(0), DecimalOperation::Add))
    }),
    TemplateFunction::variadic("subf", &[Any], Any, |_, arguments| {
        Ok(decimals(float(arguments.any(0)), arguments.from(1), DecimalOperation::Subtract))
    }),
    TemplateFunction::variadic("divf", &[Any], Any, |_, arguments| {
        if arguments.from(1).iter().any(|value| float(value) == 0.0) {
            return Err(RenderFailure::new("decimal division by 0"));
        }
        Ok(decimals(float(arguments.any(0)), arguments.from(1), DecimalOperation::Divide))
    }),
    TemplateFunction::variadic("mulf", &[Any], Any, |_, arguments| {
        Ok(decimals(float(arguments.any(0)), arguments.from(1), DecimalOperation::Multiply))
    }),
];

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// As `cast.ToInt64` casts: a value that is not a number becomes zero.
pub(super) fn integer(value: &TemplateValue<'_>) -> i64 {
    match value {
        TemplateValue::Int(number) | TemplateValue::Int64(number) => *number,
        #[allow(clippy::cast_possible_wrap, reason = "as Go converts it")]
        TemplateValue::Uint64(number) => *number as i64,
        TemplateValue::Byte(number) => i64::from(*number),
        #[allow(clippy::cast_possible_truncation, reason = "checked")]
        TemplateValue::Float(number) if (-TWO_TO_63..TWO_TO_63).contains(number) => *number as i64,
        TemplateValue::Float(_) => i64::MIN,
        TemplateValue::Text(text) => parse_integer(without_zero_decimals(text)).unwrap_or(0),
        TemplateValue::Bool(truth) => i64::from(*truth),
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
pub(super) fn float(value: &TemplateValue<'_>) -> f64 {
    match value {
        TemplateValue::Float(number) => *number,
        TemplateValue::Int(number) | TemplateValue::Int64(number) => *number as f64,
        TemplateValue::Uint64(number) => *number as f64,
        TemplateValue::Byte(number) => f64::from(*number),
        TemplateValue::Text(text) => parse_float(text).unwrap_or(0.0),
        TemplateValue::Bool(truth) => f64::from(u8::from(*truth)),
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

fn pair(arguments: &CallArguments<'_, '_>, operation: fn(i64, i64) -> i64) -> i64 {
    operation(integer(arguments.any(0)), integer(arguments.any(1)))
}

fn divided<'a>(
    arguments: &CallArguments<'_, 'a>,
    operation: fn(i64, i64) -> i64,
) -> Result<TemplateValue<'a>, RenderFailure> {
    match integer(arguments.any(1)) {
        0 => Err(RenderFailure::new("runtime error: integer divide by zero")),
        _ => Ok(TemplateValue::Int64(pair(arguments, operation))),
    }
}

fn largest<'a>(arguments: &CallArguments<'_, 'a>) -> TemplateValue<'a> {
    TemplateValue::Int64(arguments.from(0).iter().map(integer).max().unwrap_or(0))
}

/// The float that `beats` all others; NaN beats all, as in Go's `math.Max`.
fn extreme<'a>(arguments: &CallArguments<'_, 'a>, beats: fn(f64, f64) -> bool) -> TemplateValue<'a> {
    let chosen = arguments
        .from(0)
        .iter()
        .map(float)
        .reduce(|best, next| if best.is_nan() || !next.is_nan() && !beats(next, best) { best } else { next });
    TemplateValue::Float(chosen.unwrap_or(0.0))
}

/// Numbers from `start`, up or down, to before `end`.
fn steps(start: i64, end: i64, step: i64, most: usize) -> Result<Vec<i64>, RenderFailure> {
    let mut made = Vec::new();
    let mut next = start;
    let goes_up = end >= start;
    if goes_up && step <= 0 || !goes_up && step >= 0 {
        return Ok(made);
    }
    while if goes_up { next < end } else { next > end } {
        if made.len() >= most {
            return Err(RenderFailure::Limit { what: "numbers in a row", limit: most });
        }
        made.push(next);
        let Some(after) = next.checked_add(step) else { break };
        next = after;
    }
    Ok(made)
}

/// Maximum length of a list of numbers.
const MOST_NUMBERS: usize = 50_000;

fn numbers<'a>(
    context: &mut RenderContext<'a>,
    start: i64,
    end: i64,
    step: i64,
) -> Result<TemplateValue<'a>, RenderFailure> {
    let numbers = steps(start, end, step, MOST_NUMBERS)?;
    context.list(ElementType::Int, numbers.into_iter().map(TemplateValue::Int).collect())
}

fn sequence<'a>(
    context: &mut RenderContext<'a>,
    arguments: &CallArguments<'_, 'a>,
) -> Result<TemplateValue<'a>, RenderFailure> {
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

fn rounded(arguments: &CallArguments<'_, '_>) -> f64 {
    let on = match arguments.any(2) {
        TemplateValue::Float(on) => *on,
        _ => 0.5,
    };
    let places = i32::try_from(arguments.int(1)).unwrap_or(i32::MAX);
    let power = 10f64.powi(places);
    let digits = power * float(arguments.any(0));
    let rounded = if digits.fract() >= on { digits.ceil() } else { digits.floor() };
    rounded / power
}

#[derive(Clone, Copy)]
enum DecimalOperation {
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
    fn from_float(value: f64) -> Option<Self> {
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

    fn apply(self, operation: DecimalOperation, other: Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        let coefficient = match operation {
            DecimalOperation::Add => self.scaled(scale)?.checked_add(other.scaled(scale)?)?,
            DecimalOperation::Subtract => self.scaled(scale)?.checked_sub(other.scaled(scale)?)?,
            DecimalOperation::Multiply => {
                let coefficient = self.coefficient.checked_mul(other.coefficient)?;
                return Some(Self { coefficient, scale: self.scale + other.scale });
            }
            DecimalOperation::Divide => return self.divided_by(other),
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
fn decimals<'a>(first: f64, others: &[TemplateValue<'a>], operation: DecimalOperation) -> TemplateValue<'a> {
    let exact = others.iter().try_fold(Decimal::from_float(first), |sum, value| {
        Some(sum.and_then(|sum| sum.apply(operation, Decimal::from_float(float(value))?)))
    });
    TemplateValue::Float(match exact.flatten() {
        Some(exact) => exact.to_float(),
        None => others.iter().map(float).fold(first, |sum, value| match operation {
            DecimalOperation::Add => sum + value,
            DecimalOperation::Subtract => sum - value,
            DecimalOperation::Multiply => sum * value,
            DecimalOperation::Divide => sum / value,
        }),
    })
}
