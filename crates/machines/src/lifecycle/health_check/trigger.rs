//! Limits on the number of unhealthy machines for remediation (MA-19.7).

use crate::lifecycle::context::StepError;
use model::hub::{IntOrString, RemediationTrigger};

/// Whether remediation is allowed, and for how many more machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trigger {
    pub is_allowed: bool,
    /// The number of further machines that may become unhealthy.
    pub remaining: usize,
    /// The reason why remediation is not allowed; empty if it is.
    pub message: String,
}

impl Trigger {
    /// Compares the number of unhealthy machines with a range, or with a limit.
    ///
    /// # Errors
    /// When the range or the limit cannot be read.
    pub(super) fn evaluate(wanted: &RemediationTrigger, expected: usize, unhealthy: usize) -> Result<Self, StepError> {
        let (least, most, bound) = match &*wanted.unhealthy_in_range {
            "" => {
                let default = IntOrString::String("100%".to_owned());
                let limit = wanted.unhealthy_less_than_or_equal_to.as_ref().unwrap_or(&default);
                let most = scaled(limit, expected)?;
                (0, most, format!("at most {most}"))
            }
            range => {
                let (least, most) = read_range(range)?;
                (least, most, format!("from {least} to {most}"))
            }
        };
        if (least..=most).contains(&unhealthy) {
            return Ok(Trigger { is_allowed: true, remaining: most - unhealthy, message: String::new() });
        }
        let message = format!(
            "{unhealthy} of {expected} Machines are not healthy; remediation is allowed only if the number is {bound}"
        );
        Ok(Trigger { is_allowed: false, remaining: 0, message })
    }
}

/// A number, or a percentage of the expected machines, rounded down.
fn scaled(value: &IntOrString, of: usize) -> Result<usize, StepError> {
    let number = match value {
        IntOrString::Int(number) => usize::try_from(*number).ok(),
        IntOrString::String(text) => {
            let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<usize>().ok());
            percent.and_then(|percent| percent.checked_mul(of)).map(|product| product / 100)
        }
    };
    number.ok_or_else(|| StepError::failed("unhealthyLessThanOrEqualTo is neither a number nor a percentage"))
}

/// The bounds of `[a-b]`.
fn read_range(text: &str) -> Result<(usize, usize), StepError> {
    let bounds = || {
        let (least, most) = text.strip_prefix('[')?.strip_suffix(']')?.split_once('-')?;
        let (least, most) = (least.parse().ok()?, most.parse().ok()?);
        (least <= most).then_some((least, most))
    };
    bounds().ok_or_else(|| StepError::failed(format!("unhealthyInRange {text} is not a range such as [1-3]")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn remediation_stops_when_too_many_machines_are_unhealthy() {
        // MA-19.7
        let limit = |value: Value| json!({"unhealthyLessThanOrEqualTo": value});
        let range = |text: &str| json!({"unhealthyInRange": text, "unhealthyLessThanOrEqualTo": 0});
        for (wanted, expected, unhealthy, want) in [
            (json!({}), 3, 3, Some((true, 0))),
            (json!({}), 0, 0, Some((true, 0))),
            (limit(json!(2)), 9, 2, Some((true, 0))),
            (limit(json!(2)), 9, 0, Some((true, 2))),
            (limit(json!(2)), 9, 3, Some((false, 0))),
            (limit(json!("40%")), 4, 1, Some((true, 0))),
            (limit(json!("40%")), 4, 2, Some((false, 0))),
            (limit(json!("x")), 4, 2, None),
            (limit(json!(-1)), 4, 2, None),
            (range("[2-3]"), 9, 1, Some((false, 0))),
            (range("[2-3]"), 9, 2, Some((true, 1))),
            (range("[2-3]"), 9, 3, Some((true, 0))),
            (range("[2-3]"), 9, 4, Some((false, 0))),
            (range("[3-2]"), 9, 3, None),
            (range("2-3"), 9, 3, None),
        ] {
            let trigger = serde_json::from_value(wanted.clone()).unwrap();
            let found = Trigger::evaluate(&trigger, expected, unhealthy).ok();
            assert_eq!(found.as_ref().map(|it| (it.is_allowed, it.remaining)), want, "{wanted} {unhealthy}");
            assert!(found.is_none_or(|it| it.is_allowed == it.message.is_empty()));
        }
    }
}
