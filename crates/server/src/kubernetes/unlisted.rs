//! Caches that cannot answer yet. Objects that they do not hold may exist, so no conclusions are drawn (DEC-100).

use std::collections::BTreeSet;
use std::fmt;

use super::templates::ObjectKind;
use schema::field::shortened;

/// A cache that has not been filled since this process began to lead.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unlisted {
    /// The objects of a kind.
    Kind(ObjectKind),
    /// The CustomResourceDefinitions.
    Definitions,
    /// The ExtensionConfigs.
    ExtensionConfigs,
    /// An ExtensionConfig that has not been called for the first time.
    Extension(String),
}

impl fmt::Display for Unlisted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unlisted::Kind(ObjectKind { group, version, kind }) => {
                let name = format!("{kind}s of {group}/{version}");
                write!(f, "{} are not listed yet", shortened(&name))
            }
            Unlisted::Definitions => f.write_str("CustomResourceDefinitions are not listed yet"),
            Unlisted::ExtensionConfigs => f.write_str("ExtensionConfigs are not listed yet"),
            Unlisted::Extension(name) => write!(f, "ExtensionConfig {name:?} has not been called yet"),
        }
    }
}

/// Joins several of them in a sentence.
pub fn join(unlisted: &BTreeSet<Unlisted>) -> String {
    let all: Vec<String> = unlisted.iter().map(ToString::to_string).collect();
    all.join("; ")
}
