//! Kubernetes quantities: `1.5Gi`, `100m`, `1e3`.

use std::cmp::Ordering;

use super::{Function, function, method, one, tenths, unfit};
use crate::cel::extended::{MOST, Quantity, UNIT};
use crate::cel::fault::EvalError;
use crate::cel::value::Val;

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
            value.integer().map(Val::Int).ok_or_else(|| EvalError::failed("cannot convert value to integer"))
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

fn read(text: &str) -> Result<Quantity, EvalError> {
    Quantity::read(text)
        .ok_or_else(|| EvalError::failed("quantity parse error: quantities must match a number with a suffix"))
}

fn sum(a: Quantity, billionths: i128, b: Quantity) -> Quantity {
    let billionths = (a.billionths + billionths).clamp(-MOST, MOST);
    Quantity { billionths, is_simple: a.is_simple && b.is_simple }
}

fn operands(args: &[Val<'_>]) -> Result<(Quantity, Quantity), EvalError> {
    match args {
        [Val::Quantity(a), Val::Quantity(b)] => Ok((*a, *b)),
        [Val::Quantity(a), Val::Int(b)] => Ok((*a, Quantity { billionths: i128::from(*b) * UNIT, is_simple: true })),
        _ => Err(unfit(args)),
    }
}

fn compare(args: &[Val<'_>]) -> Result<Ordering, EvalError> {
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
