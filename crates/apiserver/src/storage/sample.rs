//! Kinds for tests.

use super::registry::ServedResource;

/// A namespaced kind without special behavior.
pub(crate) fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ServedResource {
    ServedResource {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        is_namespaced: true,
        has_status: false,
        scale: None,
        columns: Vec::new(),
        schema: None,
        is_served: true,
        is_storage: true,
        storage_version: version.to_owned(),
        deprecation: None,
        selectable_fields: Vec::new(),
        builtin: None,
    }
}
