//! Kubernetes quantities: `1.5Gi`, `100m`, `1e3`.

use std::cmp::Ordering;

use super::{Function, function, method, one, tenths, unfit};
use crate::cel::fault::Fault;
use crate::cel::value::Val;

/// An amount in billionths; what is finer is rounded up, away from zero.
#[derive(Debug, Clone, Copy)]
pub(in crate::cel) struct Quantity {
    billionths: i128,
    /// Whether the number is kept as an integer. Kubernetes keeps fractions of binary units otherwise, and then does not
    /// take them for integers, regardless of their value.
    is_simple: bool,
}

const UNIT: i128 = 1_000_000_000;

/// The largest amount: 2^63 - 1 units.
const MOST: i128 = 9_223_372_036_854_775_807 * UNIT;

impl Quantity {
    fn read(text: &str) -> Option<Quantity> {
        let (sign, rest) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (base, exponent) = factor(suffix)?;
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        let magnitude = scaled(digits, base, exponent, fraction.len())?;
        let is_simple = (base == 10 || fraction.is_empty()) && digits.len() <= 18;
        Some(Quantity { billionths: sign * magnitude.min(MOST), is_simple })
    }

    pub(in crate::cel) fn cmp(&self, other: &Quantity) -> Ordering {
        self.billionths.cmp(&other.billionths)
    }

    fn integer(self) -> Option<i64> {
        let is_whole = self.is_simple && self.billionths % UNIT == 0;
        is_whole.then(|| i64::try_from(self.billionths / UNIT).ok()).flatten()
    }
}

/// What a suffix multiplies by: a power of 2 or of 10.
fn factor(suffix: &str) -> Option<(u32, i32)> {
    let known = [
        ("n", 10, -9),
        ("u", 10, -6),
        ("m", 10, -3),
        ("", 10, 0),
        ("k", 10, 3),
        ("M", 10, 6),
        ("G", 10, 9),
        ("T", 10, 12),
        ("P", 10, 15),
        ("E", 10, 18),
        ("Ki", 2, 10),
        ("Mi", 2, 20),
        ("Gi", 2, 30),
        ("Ti", 2, 40),
        ("Pi", 2, 50),
        ("Ei", 2, 60),
    ];
    if let Some((_, base, exponent)) = known.into_iter().find(|(name, ..)| *name == suffix) {
        return Some((base, exponent));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let is_number = !exponent.trim_start_matches(['+', '-']).is_empty() && exponent.len() <= 6;
    is_number.then(|| exponent.parse().ok()).flatten().map(|exponent| (10, exponent))
}

/// Digits with a factor and `places` behind the point, in billionths, rounded up; at least [`MOST`] when it is too large.
fn scaled(digits: &str, base: u32, exponent: i32, places: usize) -> Option<i128> {
    if digits.is_empty() {
        return Some(0);
    }
    let places = i32::try_from(places).ok()?;
    let multiplier: i128 = if base == 2 { 1 << exponent } else { 1 };
    // The power of ten by which the digits have to be multiplied.
    let mut power = 9 - places + if base == 10 { exponent } else { 0 };
    // Digits that cannot matter are cut off, so that everything fits into 128 bits.
    let kept = digits.get(..digits.len().min(19)).unwrap_or(digits);
    let cut = digits.get(kept.len()..).unwrap_or_default();
    power += i32::try_from(cut.len()).ok()?;
    let mut value = kept.parse::<i128>().ok()?.checked_mul(multiplier)?;
    let mut rounds = cut.bytes().any(|digit| digit != b'0');
    for _ in 0..power.max(0) {
        if value >= MOST {
            return Some(MOST);
        }
        value = value.checked_mul(10)?;
    }
    for _ in 0..(-power).max(0) {
        if value == 0 {
            break;
        }
        rounds |= value % 10 != 0;
        value /= 10;
    }
    Some(if rounds && power <= 0 { value + 1 } else { value })
}

pub(super) const FUNCTIONS: &[Function] = &[
    function(
        "quantity",
        &["string->quantity"],
        |size| tenths(1, size(0)),
        |meter, args| match args {
            [Val::Text(text)] => {
                meter.work(text.as_str().len())?;
                read(text.as_str()).map(Val::Quantity)
            }
            _ => Err(unfit(args)),
        },
    ),
    function(
        "isQuantity",
        &["string->bool"],
        |size| tenths(1, size(0)),
        |meter, args| match args {
            [Val::Text(text)] => {
                meter.work(text.as_str().len())?;
                Ok(Val::Bool(Quantity::read(text.as_str()).is_some()))
            }
            _ => Err(unfit(args)),
        },
    ),
    function("sign", &["quantity->int"], one, |_, args| match args {
        [Val::Quantity(value)] => Ok(Val::Int(i64::try_from(value.billionths.signum()).unwrap_or_default())),
        _ => Err(unfit(args)),
    }),
    method("isInteger", &["quantity->bool"], one, |_, args| match args {
        [Val::Quantity(value)] => Ok(Val::Bool(value.integer().is_some())),
        _ => Err(unfit(args)),
    }),
    method("asInteger", &["quantity->int"], one, |_, args| match args {
        [Val::Quantity(value)] => {
            value.integer().map(Val::Int).ok_or_else(|| Fault::of("cannot convert value to integer"))
        }
        _ => Err(unfit(args)),
    }),
    method("asApproximateFloat", &["quantity->double"], one, |_, args| match args {
        #[allow(clippy::cast_precision_loss, reason = "it is approximate")]
        [Val::Quantity(value)] => Ok(Val::Double(value.billionths as f64 / UNIT as f64)),
        _ => Err(unfit(args)),
    }),
    method("add", &["quantity quantity->quantity", "quantity int->quantity"], one, |_, args| {
        let (a, b) = operands(args)?;
        Ok(Val::Quantity(sum(a, b.billionths, b)))
    }),
    method("sub", &["quantity quantity->quantity", "quantity int->quantity"], one, |_, args| {
        let (a, b) = operands(args)?;
        Ok(Val::Quantity(sum(a, -b.billionths, b)))
    }),
    method("compareTo", &["quantity quantity->int", "semver semver->int"], one, |_, args| {
        compare(args).map(|order| {
            Val::Int(match order {
                Ordering::Less => -1,
                Ordering::Equal => 0,
                Ordering::Greater => 1,
            })
        })
    }),
    method("isLessThan", &["quantity quantity->bool", "semver semver->bool"], one, |_, args| {
        compare(args).map(|order| Val::Bool(order.is_lt()))
    }),
    method("isGreaterThan", &["quantity quantity->bool", "semver semver->bool"], one, |_, args| {
        compare(args).map(|order| Val::Bool(order.is_gt()))
    }),
];

fn read(text: &str) -> Result<Quantity, Fault> {
    Quantity::read(text).ok_or_else(|| Fault::of("quantity parse error: quantities must match a number with a suffix"))
}

fn sum(a: Quantity, billionths: i128, b: Quantity) -> Quantity {
    let billionths = (a.billionths + billionths).clamp(-MOST, MOST);
    Quantity { billionths, is_simple: a.is_simple && b.is_simple }
}

fn operands(args: &[Val<'_>]) -> Result<(Quantity, Quantity), Fault> {
    match args {
        [Val::Quantity(a), Val::Quantity(b)] => Ok((*a, *b)),
        [Val::Quantity(a), Val::Int(b)] => Ok((*a, Quantity { billionths: i128::from(*b) * UNIT, is_simple: true })),
        _ => Err(unfit(args)),
    }
}

fn compare(args: &[Val<'_>]) -> Result<Ordering, Fault> {
    match args {
        [Val::Quantity(a), Val::Quantity(b)] => Ok(a.cmp(b)),
        [Val::Semver(a), Val::Semver(b)] => Ok(a.cmp_precedence(b)),
        _ => Err(unfit(args)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        let amount = |text: &str| Quantity::read(text).map(|quantity| quantity.billionths);
        for (text, want) in [
            ("1", UNIT),
            ("-1.5", -UNIT * 3 / 2),
            ("1Ki", 1024 * UNIT),
            ("0.5Gi", 536_870_912 * UNIT),
            ("100m", UNIT / 10),
            ("1e3", 1000 * UNIT),
            ("1E", 1_000_000_000_000_000_000 * UNIT),
            ("0.1n", 1),
            (".5", UNIT / 2),
            ("1.", UNIT),
            ("1e99", MOST),
            ("1e-99", 1),
            ("99999999999999999999999999", MOST),
        ] {
            assert_eq!(amount(text), Some(want), "{text}");
        }
        for text in ["", "-", ".", "1.2.3", "1 Gi", "1ki", "Gi", "1e", "1e1.5", "1K", "١"] {
            assert_eq!(amount(text), None, "{text}");
        }
    }
}
