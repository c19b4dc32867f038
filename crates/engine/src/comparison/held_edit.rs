//! Edits that a ceiling holds, as data (DEC-59).

use serde::Serialize;

use schema::field::{FieldError, counted};

/// An edit that replaces or removes more machines than a ceiling allows, and that is not approved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeldEdit {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub machines: i64,
    /// The annotation that approves the edit.
    pub annotation: &'static str,
    /// The detail of the denial.
    pub message: String,
    #[serde(skip)]
    pub error: FieldError,
}

impl HeldEdit {
    /// Kind, namespace and name of the edited object.
    pub fn object(&self) -> (&str, &str, &str) {
        (&self.kind, &self.namespace, &self.name)
    }

    /// `180 machines; add topologist.dev/approved-impact: "180 <reason>" to ClusterClass default/quick-start`.
    pub fn text(&self) -> String {
        let HeldEdit { kind, namespace, name, machines, annotation, .. } = self;
        let number = counted(usize::try_from(*machines).unwrap_or(usize::MAX), "machine");
        format!("{number}; add {annotation}: \"{machines} <reason>\" to {kind} {namespace}/{name}")
    }
}
