//! Findings: a broken rule with its place and remediation.

pub use schema::field::Level;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContractFinding {
    pub level: Level,
    /// Id of the contract rule, such as `CT-8.1`.
    pub rule: &'static str,
    /// The version whose schema contains the field; `None` for fields of the definition itself.
    pub version: Option<String>,
    /// Path such as `spec.providerID`, or `metadata.name` of the definition.
    pub field: String,
    pub message: String,
    pub remediation: String,
}

impl ContractFinding {
    /// A broken requirement, about a field of the definition.
    pub(super) fn error(rule: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        let (field, message) = (field.into(), message.into());
        ContractFinding { level: Level::Error, rule, version: None, field, message, remediation: String::new() }
    }

    /// A broken recommendation.
    pub(super) fn warning(rule: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        ContractFinding { level: Level::Warning, ..ContractFinding::error(rule, field, message) }
    }

    /// Sets the remediation.
    pub(super) fn with_remediation(mut self, remediation: impl Into<String>) -> Self {
        self.remediation = remediation.into();
        self
    }

    /// Sets the version whose schema it is about.
    pub(super) fn of_version(mut self, version: &str) -> Self {
        self.version = Some(version.to_owned());
        self
    }
}

/// Sort key of rules: `CT-10.2` precedes `CT-10.10`.
pub fn order(rule: &str) -> Vec<u32> {
    rule.split(['-', '.']).filter_map(|part| part.parse().ok()).collect()
}
