//! The types of values.

/// What `type` may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
    /// A word that no value satisfies.
    Unknown,
}

impl Kind {
    pub(super) const NAMES: [(&'static str, Kind); 6] = [
        ("array", Kind::Array),
        ("boolean", Kind::Boolean),
        ("integer", Kind::Integer),
        ("number", Kind::Number),
        ("object", Kind::Object),
        ("string", Kind::String),
    ];

    pub(super) fn from_name(name: &str) -> Option<Kind> {
        match name {
            "" => None,
            name => {
                Some(Kind::NAMES.into_iter().find(|(known, _)| *known == name).map_or(Kind::Unknown, |(_, kind)| kind))
            }
        }
    }

    pub(super) fn name(self) -> &'static str {
        Kind::NAMES.into_iter().find(|(_, kind)| *kind == self).map_or("unknown", |(name, _)| name)
    }
}
