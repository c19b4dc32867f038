//! The verdict on a request, independent of its transport and output.

use std::collections::BTreeSet;

use json_patch::Patch;

use model::hub::{GROUP, Kind};
use model::wire::review::{AdmissionResponse, AdmissionStatus, StatusCause, StatusDetails};
use model::world::Unsettled;
use schema::field::{FieldError, Findings, RuleId, Warning, join, shortened};

/// Whether a request is allowed, or the reason of its denial.
#[derive(Clone, Debug, PartialEq)]
pub enum AdmissionOutcome {
    Allowed,
    /// Fields are wrong: code 422, one cause per error (ADM-004).
    Invalid(Vec<FieldError>),
    /// Not allowed in the current state, such as a class in use: code 403 (ADM-005).
    Forbidden {
        rule: RuleId,
        message: String,
        names_object: bool,
    },
    /// The request or its object does not decode: code 400 (ADM-003).
    Undecodable(String),
    /// A fact could not be read: code 500 (ADM-005).
    Unknown {
        rule: RuleId,
        message: String,
    },
}

/// An outcome with the common parts of all answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub kind: Kind,
    /// The object's name in the answer.
    pub name: String,
    pub outcome: AdmissionOutcome,
    /// Warnings, for allowed and denied requests (ADM-006).
    pub warnings: Vec<Warning>,
    /// The changes of the mutating end point (ADM-007). Empty if the request is denied.
    pub patch: Patch,
    /// The same changes for printing, if they contain passwords (DEC-34).
    pub printed_patch: Option<Patch>,
    /// Rules that did not run because facts are missing.
    pub not_checked: Vec<RuleId>,
    /// The impact on machines as JSON, for the audit log; `None` if it is unknown or zero.
    pub impact: Option<String>,
    /// The denial that `--enforce=warn` turned into warnings (DEC-38).
    pub would_be: Option<AdmissionOutcome>,
}

/// Maximum number of errors that become separate warnings.
const SOFT_WARNINGS: usize = 10;

/// The audit annotation of a request that would be denied without `--enforce=warn`.
const WOULD_DENY: &str = "would-deny";

/// The audit annotation of an edit that replaces or removes machines.
const IMPACT: &str = "impact";

impl Verdict {
    /// The verdict if not all facts could be gathered (ADM-009).
    pub fn unsettled(kind: Kind, name: &str, unsettled: &Unsettled) -> Self {
        Verdict::plain(kind, name, AdmissionOutcome::Unknown { rule: "ADM-009", message: unsettled.to_string() })
    }

    /// The verdict that follows from the findings of rules.
    pub(super) fn from_findings(kind: Kind, found: Findings) -> Self {
        let (errors, warnings) = found.into_parts();
        let outcome = if errors.is_empty() { AdmissionOutcome::Allowed } else { AdmissionOutcome::Invalid(errors) };
        Verdict { warnings, ..Verdict::plain(kind, "", outcome) }
    }

    /// A verdict without warnings and without changes.
    pub fn plain(kind: Kind, name: impl Into<String>, outcome: AdmissionOutcome) -> Self {
        Verdict {
            kind,
            name: name.into(),
            outcome,
            warnings: Vec::new(),
            patch: Patch::default(),
            printed_patch: None,
            not_checked: Vec::new(),
            impact: None,
            would_be: None,
        }
    }

    /// The verdict with `--enforce=warn` (DEC-38): a denial becomes warnings, and an allowed request stays allowed.
    /// Warnings contain fields and rules, but no values.
    #[must_use]
    pub fn softened(mut self) -> Self {
        if self.is_allowed() {
            return self;
        }
        let texts: Vec<Warning> = match &self.outcome {
            AdmissionOutcome::Invalid(errors) => errors.iter().map(would_be_error).collect(),
            AdmissionOutcome::Forbidden { rule, message, .. } | AdmissionOutcome::Unknown { rule, message } => {
                vec![would_be_denied(rule, message)]
            }
            AdmissionOutcome::Undecodable(message) => vec![would_be_denied("ADM-003", message)],
            AdmissionOutcome::Allowed => Vec::new(),
        };
        let more = texts.len().saturating_sub(SOFT_WARNINGS);
        self.warnings.extend(texts.into_iter().take(SOFT_WARNINGS));
        if more > 0 {
            self.warnings.push(would_be_denied("DEC-38", &format!("and {more} more errors")));
        }
        self.patch = Patch::default();
        self.printed_patch = None;
        self.would_be = Some(std::mem::replace(&mut self.outcome, AdmissionOutcome::Allowed));
        self
    }

    /// The audit annotation for a denial that became warnings: the rules and the number of errors.
    fn audit(&self) -> Option<String> {
        let rules = |errors: &[FieldError]| {
            let ids: BTreeSet<RuleId> = errors.iter().map(|error| error.rule).collect();
            ids.into_iter().collect::<Vec<_>>().join(",")
        };
        Some(match self.would_be.as_ref()? {
            AdmissionOutcome::Invalid(errors) => format!("{} errors: {}", errors.len(), rules(errors)),
            AdmissionOutcome::Forbidden { rule, .. } | AdmissionOutcome::Unknown { rule, .. } => {
                format!("1 error: {rule}")
            }
            AdmissionOutcome::Undecodable(_) => "1 error: ADM-003".to_owned(),
            AdmissionOutcome::Allowed => return None,
        })
    }

    /// Whether the request may proceed.
    pub fn is_allowed(&self) -> bool {
        self.outcome == AdmissionOutcome::Allowed
    }

    /// The patch for output, without passwords (DEC-34). It cannot be applied.
    pub fn printed_patch(&self) -> &Patch {
        self.printed_patch.as_ref().unwrap_or(&self.patch)
    }

    /// The field errors of a denied request.
    pub fn errors(&self) -> &[FieldError] {
        match &self.outcome {
            AdmissionOutcome::Invalid(errors) => errors,
            _ => &[],
        }
    }

    /// The message of a denial.
    pub fn message(&self) -> Option<String> {
        match &self.outcome {
            AdmissionOutcome::Allowed => None,
            AdmissionOutcome::Invalid(errors) => {
                Some(format!("{}.{GROUP} {:?} is invalid: {}", self.kind.name(), self.name, join(errors)))
            }
            AdmissionOutcome::Forbidden { message, .. }
            | AdmissionOutcome::Undecodable(message)
            | AdmissionOutcome::Unknown { message, .. } => Some(message.clone()),
        }
    }

    /// The HTTP status code that belongs to the outcome.
    pub fn code(&self) -> u16 {
        match &self.outcome {
            AdmissionOutcome::Allowed => 200,
            AdmissionOutcome::Invalid(_) => 422,
            AdmissionOutcome::Forbidden { .. } => 403,
            AdmissionOutcome::Undecodable(_) => 400,
            AdmissionOutcome::Unknown { .. } => 500,
        }
    }

    /// The rules that denied the request, or would have denied it.
    pub fn denied_by(&self) -> Vec<RuleId> {
        match self.would_be.as_ref().unwrap_or(&self.outcome) {
            AdmissionOutcome::Invalid(errors) => errors.iter().map(|error| error.rule).collect(),
            AdmissionOutcome::Forbidden { rule, .. } | AdmissionOutcome::Unknown { rule, .. } => vec![rule],
            AdmissionOutcome::Allowed | AdmissionOutcome::Undecodable(_) => Vec::new(),
        }
    }

    /// The verdict in the form of an API server's review.
    ///
    /// # Errors
    /// When a patch cannot be serialized.
    pub fn response<'a>(&'a self, uid: &'a str) -> Result<AdmissionResponse<'a>, serde_json::Error> {
        let mut response = AdmissionResponse { uid, allowed: self.is_allowed(), ..AdmissionResponse::default() };
        response.warnings = self.warnings.iter().map(|warning| warning.text.clone()).collect();
        let would_deny = self.audit().map(|text| (WOULD_DENY, text));
        response.audit_annotations =
            would_deny.into_iter().chain(self.impact.clone().map(|text| (IMPACT, text))).collect();
        response.status = self.message().map(|message| self.status(message));
        if self.is_allowed() {
            response.set_patch(&self.patch)?;
        }
        Ok(response)
    }

    fn status(&self, message: String) -> AdmissionStatus<'_> {
        let (reason, details) = match &self.outcome {
            AdmissionOutcome::Invalid(errors) => ("Invalid", Some(self.details(errors))),
            AdmissionOutcome::Forbidden { names_object: true, .. } => ("Forbidden", Some(self.details(&[]))),
            AdmissionOutcome::Forbidden { .. } => ("Forbidden", None),
            AdmissionOutcome::Undecodable(_) => ("BadRequest", None),
            AdmissionOutcome::Allowed | AdmissionOutcome::Unknown { .. } => ("InternalError", None),
        };
        let mut status = AdmissionStatus::failure(self.code(), reason, message);
        status.details = details;
        status
    }

    fn details(&self, errors: &[FieldError]) -> StatusDetails<'_> {
        let cause = |error: &FieldError| StatusCause {
            reason: error.kind.reason(),
            message: error.message(),
            field: error.path.to_string(),
        };
        StatusDetails {
            name: &self.name,
            group: GROUP,
            kind: self.kind.name(),
            retry_after_seconds: None,
            causes: errors.iter().map(cause).collect(),
        }
    }
}

fn would_be_error(error: &FieldError) -> Warning {
    let detail = if error.detail.is_empty() { String::new() } else { format!(": {}", error.detail) };
    would_be_denied(error.rule, &format!("{}: {}{detail}", error.path, error.kind.words()))
}

fn would_be_denied(rule: RuleId, text: &str) -> Warning {
    Warning::new(rule, format!("would be denied: {}", shortened(text)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use schema::field::{Findings, Path};

    fn json(verdict: &Verdict) -> Value {
        serde_json::to_value(verdict.response("u-1").unwrap().into_review()).unwrap()
    }

    fn invalid() -> Verdict {
        let mut found = Findings::default();
        found.forbidden(Path::new("spec"), "no");
        found.forbidden(Path::new("spec"), "no");
        found.invalid(Path::new("spec.topology.version"), "1", "must start with v");
        Verdict::plain(Kind::Cluster, "c", AdmissionOutcome::Invalid(found.into_parts().0))
    }

    #[test]
    fn field_errors_become_causes_and_one_message() {
        // ADM-004
        assert_eq!(
            json(&invalid()),
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "response": {"uid": "u-1", "allowed": false, "status": {
            "metadata": {}, "status": "Failure", "code": 422, "reason": "Invalid",
            "message": "Cluster.cluster.x-k8s.io \"c\" is invalid: [spec: Forbidden: no, spec.topology.version: Invalid value: \"1\": must start with v]",
            "details": {"name": "c", "group": "cluster.x-k8s.io", "kind": "Cluster", "causes": [
                {"reason": "FieldValueForbidden", "message": "Forbidden: no", "field": "spec"},
                {"reason": "FieldValueForbidden", "message": "Forbidden: no", "field": "spec"},
                {"reason": "FieldValueInvalid", "message": "Invalid value: \"1\": must start with v",
                    "field": "spec.topology.version"},
            ]}}}})
        );
    }

    #[test]
    fn other_denials_have_codes_of_their_own() {
        // ADM-003, ADM-005
        for (outcome, want) in [
            (
                AdmissionOutcome::Forbidden { rule: "CC-V-001", message: "m".into(), names_object: false },
                json!({"code": 403, "reason": "Forbidden"}),
            ),
            (
                AdmissionOutcome::Forbidden { rule: "CC-V-140", message: "m".into(), names_object: true },
                json!({"code": 403, "reason": "Forbidden",
                    "details": {"name": "c", "group": "cluster.x-k8s.io", "kind": "ClusterClass"}}),
            ),
            (AdmissionOutcome::Undecodable("m".into()), json!({"code": 400, "reason": "BadRequest"})),
            (
                AdmissionOutcome::Unknown { rule: "CC-V-140", message: "m".into() },
                json!({"code": 500, "reason": "InternalError"}),
            ),
        ] {
            let mut want = want;
            want["metadata"] = json!({});
            want["status"] = json!("Failure");
            want["message"] = json!("m");
            let answer = json(&Verdict::plain(Kind::ClusterClass, "c", outcome));
            assert_eq!(answer["response"], json!({"uid": "u-1", "allowed": false, "status": want}));
        }
    }

    #[test]
    fn a_denial_with_enforce_warn_is_allowed_and_names_the_rules() {
        // DEC-38
        let mut denied = invalid();
        denied.patch = serde_json::from_value(json!([{"op": "add", "path": "/a", "value": 1}])).unwrap();
        let softened = denied.softened();
        assert_eq!(softened.denied_by(), invalid().denied_by());
        let answer = json(&softened)["response"].clone();
        assert_eq!(
            answer,
            json!({"uid": "u-1", "allowed": true, "auditAnnotations": {"would-deny": "3 errors: "}, "warnings": [
                "would be denied: spec: Forbidden: no",
                "would be denied: spec: Forbidden: no",
                "would be denied: spec.topology.version: Invalid value: must start with v",
            ]})
        );
        for (outcome, warning, audit) in [
            (
                AdmissionOutcome::Forbidden { rule: "CC-V-001", message: "m".into(), names_object: false },
                "m",
                "1 error: CC-V-001",
            ),
            (AdmissionOutcome::Unknown { rule: "CC-V-140", message: "m".into() }, "m", "1 error: CC-V-140"),
            (AdmissionOutcome::Undecodable("m".into()), "m", "1 error: ADM-003"),
        ] {
            let answer = json(&Verdict::plain(Kind::Cluster, "c", outcome).softened())["response"].clone();
            let want = json!({"uid": "u-1", "allowed": true, "warnings": [format!("would be denied: {warning}")],
                "auditAnnotations": {"would-deny": audit}});
            assert_eq!(answer, want);
        }
        let allowed = Verdict::plain(Kind::Cluster, "c", AdmissionOutcome::Allowed);
        assert_eq!(allowed.clone().softened(), allowed);
        let mut found = Findings::default();
        (0..12).for_each(|_| found.forbidden(Path::new("spec"), ""));
        let many = Verdict::plain(Kind::Cluster, "c", AdmissionOutcome::Invalid(found.into_parts().0)).softened();
        assert_eq!((many.warnings.len(), &*many.warnings[10].text), (11, "would be denied: and 2 more errors"));
    }

    #[test]
    fn warnings_are_given_with_every_verdict_and_patches_with_allowed_ones() {
        // ADM-006, ADM-007
        let with = |mut verdict: Verdict| {
            verdict.warnings = vec![Warning::new("CL-V-052", "look")];
            let add = json!([{"op": "add", "path": "/spec/topology/version", "value": "v1.33.0"}]);
            verdict.patch = serde_json::from_value(add).unwrap();
            json(&verdict)["response"].clone()
        };
        let allowed = with(Verdict::plain(Kind::Cluster, "c", AdmissionOutcome::Allowed));
        assert_eq!(allowed["warnings"], json!(["look"]));
        assert_eq!(allowed["patchType"], json!("JSONPatch"));
        let patch = "W3sib3AiOiJhZGQiLCJwYXRoIjoiL3NwZWMvdG9wb2xvZ3kvdmVyc2lvbiIsInZhbHVlIjoidjEuMzMuMCJ9XQ==";
        assert_eq!(allowed["patch"], json!(patch));
        let denied = with(invalid());
        assert_eq!((&denied["warnings"], &denied["patch"]), (&json!(["look"]), &Value::Null));
        let unchanged = json(&Verdict::plain(Kind::Cluster, "c", AdmissionOutcome::Allowed));
        assert_eq!(unchanged["response"], json!({"uid": "u-1", "allowed": true}));
    }
}
