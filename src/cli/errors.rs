//! The output of commands for errors of verdicts.

use serde::Serialize;

use engine::admission::{AdmissionOutcome, Verdict};
use schema::field::{FieldError, RuleId};

/// An error in the output of `-o json`.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct ErrorRow {
    pub rule: RuleId,
    r#type: &'static str,
    field: String,
    detail: String,
    #[serde(skip)]
    pub rendered: String,
}

impl ErrorRow {
    pub(super) fn from_error(error: &FieldError) -> Self {
        ErrorRow {
            rule: error.rule,
            r#type: error.kind.reason(),
            field: error.path.to_string(),
            detail: error.detail.clone(),
            rendered: error.to_string(),
        }
    }
}

/// The errors of a verdict.
pub(super) fn shown(verdict: &Verdict) -> Vec<ErrorRow> {
    let whole = |rule, r#type, message: &str| {
        vec![ErrorRow { rule, r#type, field: String::new(), detail: message.to_owned(), rendered: message.to_owned() }]
    };
    match &verdict.outcome {
        AdmissionOutcome::Allowed => Vec::new(),
        AdmissionOutcome::Invalid(errors) => errors.iter().map(ErrorRow::from_error).collect(),
        AdmissionOutcome::Forbidden { rule, message, .. } => whole(rule, "Forbidden", message),
        AdmissionOutcome::Undecodable(message) => whole("ADM-003", "BadRequest", message),
        AdmissionOutcome::Unknown { rule, message } => whole(rule, "InternalError", message),
    }
}

#[cfg(test)]
mod tests {
    use schema::field::chain;

    #[test]
    fn a_cause_is_not_repeated() {
        let missing = std::io::Error::from_raw_os_error(2);
        let (cause, code) = ("No such file or directory", "(os error 2)");
        let wrapped = anyhow::Error::new(missing).context(format!("failed: {cause} {code}")).context("cannot read a");
        assert_eq!(chain(wrapped.as_ref()), format!("cannot read a: failed: {cause} {code}"));
    }
}
