//! JSON types of schemas.

/// The values of `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueType {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
    /// A word that is not a type; no value satisfies it.
    Unknown,
}

impl ValueType {
    pub(super) const NAMES: [(&'static str, ValueType); 6] = [
        ("array", ValueType::Array),
        ("boolean", ValueType::Boolean),
        ("integer", ValueType::Integer),
        ("number", ValueType::Number),
        ("object", ValueType::Object),
        ("string", ValueType::String),
    ];

    pub(super) fn from_name(name: &str) -> Option<ValueType> {
        match name {
            "" => None,
            name => Some(
                ValueType::NAMES
                    .into_iter()
                    .find(|(known, _)| *known == name)
                    .map_or(ValueType::Unknown, |(_, kind)| kind),
            ),
        }
    }

    pub(super) fn name(self) -> &'static str {
        ValueType::NAMES.into_iter().find(|(_, kind)| *kind == self).map_or("unknown", |(name, _)| name)
    }
}
