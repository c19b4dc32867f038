//! The status of a condition.

use serde_json::Value;

/// `status` of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

impl ConditionStatus {
    /// The value of `status`.
    pub const fn name(self) -> &'static str {
        match self {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        }
    }

    pub(super) fn from_value(value: Option<&Value>) -> Option<ConditionStatus> {
        match value?.as_str()? {
            "True" => Some(ConditionStatus::True),
            "False" => Some(ConditionStatus::False),
            "Unknown" => Some(ConditionStatus::Unknown),
            _ => None,
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(is_true: bool) -> Self {
        if is_true { ConditionStatus::True } else { ConditionStatus::False }
    }
}

/// The type of the entry of a condition.
pub(super) fn type_of(entry: &Value) -> Option<&str> {
    let members = entry.as_object()?;
    // Members are sorted by name, so the type is usually the last one.
    let found = match members.iter().next_back() {
        Some((name, value)) if name == "type" => Some(value),
        _ => members.get("type"),
    };
    found?.as_str()
}
