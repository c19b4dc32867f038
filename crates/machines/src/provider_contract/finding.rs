//! One finding: what does not hold, where, and what to do.

pub use schema::field::Level;

/// What does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    /// The id of the rule of the contract, such as `CT-8.1`.
    pub rule: &'static str,
    /// The version of the kind whose schema the field is in; none for fields of the definition itself.
    pub version: Option<String>,
    /// Such as `spec.providerID`, or `metadata.name` of the definition.
    pub field: String,
    pub message: String,
    pub way_out: String,
}

impl Finding {
    /// Something that the contract requires, about a field of the definition.
    pub(super) fn error(rule: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        let (field, message) = (field.into(), message.into());
        Finding { level: Level::Error, rule, version: None, field, message, way_out: String::new() }
    }

    /// Something that the contract recommends.
    pub(super) fn warning(rule: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Finding { level: Level::Warning, ..Finding::error(rule, field, message) }
    }

    /// What to do about it.
    pub(super) fn way_out(mut self, way_out: impl Into<String>) -> Self {
        self.way_out = way_out.into();
        self
    }

    /// The version whose schema it is about.
    pub(super) fn of_version(mut self, version: &str) -> Self {
        self.version = Some(version.to_owned());
        self
    }
}

/// What rules are sorted by: `CT-10.2` comes before `CT-10.10`.
pub fn order(rule: &str) -> Vec<u32> {
    rule.split(['-', '.']).filter_map(|part| part.parse().ok()).collect()
}
