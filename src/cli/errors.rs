//! Errors of verdicts, as commands print them.

use serde::Serialize;

use crate::admission::{Outcome, Verdict};
use crate::field::{FieldError, RuleId};

/// One error, as `-o json` prints it.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Shown {
    pub rule: RuleId,
    r#type: &'static str,
    field: String,
    detail: String,
    #[serde(skip)]
    pub rendered: String,
}

impl Shown {
    pub(super) fn of(error: &FieldError) -> Self {
        Shown {
            rule: error.rule,
            r#type: error.kind.reason(),
            field: error.path.to_string(),
            detail: error.detail.clone(),
            rendered: error.to_string(),
        }
    }
}

/// The errors of a verdict.
pub(super) fn shown(verdict: &Verdict) -> Vec<Shown> {
    let whole = |rule, r#type, message: &str| {
        vec![Shown { rule, r#type, field: String::new(), detail: message.to_owned(), rendered: message.to_owned() }]
    };
    match &verdict.outcome {
        Outcome::Allowed => Vec::new(),
        Outcome::Invalid(errors) => errors.iter().map(Shown::of).collect(),
        Outcome::Forbidden { rule, message, .. } => whole(rule, "Forbidden", message),
        Outcome::Undecodable(message) => whole("ADM-003", "BadRequest", message),
        Outcome::Unknown { rule, message } => whole(rule, "InternalError", message),
    }
}
