//! The output of commands for errors of verdicts.

use serde::Serialize;

use engine::admission::{AdmissionOutcome, Verdict};
use engine::topology::problems::TopologyProblem;
use golang::yaml::Position;
use model::hub::GROUP;
use model::wire::WireVersion;
use model::wire::manifest::Manifest;
use schema::field::{ErrorKind, FieldError, FieldPart, Path, RuleId, enumerated};

/// An error in the output of `-o json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ErrorRow {
    pub rule: RuleId,
    r#type: &'static str,
    pub field: String,
    detail: String,
    /// Line and column of the field in the file, or of the nearest one above it, from 1.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    place: Option<ErrorPlace>,
    #[serde(skip)]
    pub rendered: String,
    /// The part of the field that is wrong.
    #[serde(skip)]
    pub part: FieldPart,
}

/// A position in a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct ErrorPlace {
    line: usize,
    column: usize,
}

impl ErrorRow {
    pub(super) fn from_error(error: &FieldError) -> Self {
        ErrorRow {
            rule: error.rule,
            r#type: error.kind.reason(),
            field: error.path.to_string(),
            detail: error.detail.clone(),
            place: None,
            rendered: error.to_string(),
            part: if error.kind.shows_value() { FieldPart::Value } else { FieldPart::Key },
        }
    }

    /// A problem of a topology, by its field in the object that causes it.
    pub(super) fn from_problem(problem: &TopologyProblem) -> Self {
        let TopologyProblem { rule, path, message, .. } = problem;
        ErrorRow {
            rule,
            r#type: ErrorKind::Invalid.reason(),
            field: path.clone(),
            detail: message.clone(),
            place: None,
            rendered: message.clone(),
            part: FieldPart::Value,
        }
    }

    /// Adds the position of the field in the file of its object.
    pub(super) fn locate(&mut self, object: &Manifest) {
        let place = object.locate(&self.field).map(|found| found.value.key_position());
        self.place = place.map(|Position { line, column }| ErrorPlace { line, column });
    }

    /// The error without its path.
    pub(super) fn message(&self) -> &str {
        let rest = self.rendered.strip_prefix(&*self.field).and_then(|rest| rest.strip_prefix(": "));
        rest.filter(|_| !self.field.is_empty()).unwrap_or(&self.rendered)
    }

    /// The error of an object of `version` whose fields have the names of another version (DEC-32).
    pub(super) fn other_version(version: WireVersion, misplaced: &[String]) -> Self {
        let other = version.other();
        let detail = format!(
            "these fields belong to {other}, and the file says {version}: change apiVersion to {GROUP}/{other}, or \
             rename the fields: {}",
            enumerated(misplaced)
        );
        let error = FieldError {
            rule: "DEC-32",
            kind: ErrorKind::Invalid,
            path: Path::ROOT.child("apiVersion"),
            value: format!("{GROUP}/{version}").into(),
            detail,
        };
        ErrorRow::from_error(&error)
    }

    /// Whether the error goes away when fields get the names of the object's version: it is about one of these fields,
    /// or about a field that is missing beside one.
    pub(super) fn follows_from(&self, misplaced: &[String]) -> bool {
        let parent = |path: &str| path.rsplit_once('.').map_or("", |(parent, _)| parent).to_owned();
        misplaced.iter().any(|field| {
            let is_below =
                self.field.strip_prefix(&**field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
            is_below || (self.r#type == ErrorKind::Required.reason() && parent(&self.field) == parent(field))
        })
    }
}

/// The errors of a verdict.
pub(super) fn shown(verdict: &Verdict) -> Vec<ErrorRow> {
    let whole = |rule, r#type, message: &str| {
        let (field, detail, rendered) = (String::new(), message.to_owned(), message.to_owned());
        vec![ErrorRow { rule, r#type, field, detail, place: None, rendered, part: FieldPart::Key }]
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
