//! [Label selectors](https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors) and
//! [field selectors](https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/) of lists and
//! watches.

use serde_json::Value;

use crate::storage::builtin;
use crate::storage::registry::{self, KindRegistry, ServedResource, at_path};
use crate::storage::shape::viewed;
use crate::storage::status::ApiError;
use crate::storage::stored::StoredEntry;
use model::hub::LabelRequirements;
use model::hub::label::CLUSTER_NAME;

/// Path of the name of an object.
const NAME: &str = ".metadata.name";

/// Label and field selectors of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectSelector {
    labels: LabelRequirements,
    fields: Vec<FieldRequirement>,
}

#[derive(Clone, Debug, PartialEq)]
struct FieldRequirement {
    path: String,
    value: String,
    equals: bool,
    /// Value of an absent field.
    absent: &'static str,
}

impl ObjectSelector {
    /// Reads the selectors of a query.
    ///
    /// # Errors
    /// 400 for an invalid selector, and for a field that the kind does not support.
    pub(super) fn parse(resource: &ServedResource, labels: &str, fields: &str) -> Result<Self, ApiError> {
        let unable = |why: String| {
            ApiError::bad_request(format!(
                "Unable to find {:?} that match label selector {labels:?}, field selector {fields:?}: {why}",
                registry::qualified(&resource.plural, &resource.group)
            ))
        };
        let parsed = LabelRequirements::parse(labels).ok_or_else(|| {
            ApiError::bad_request(format!("unable to parse requirement: {labels:?} is no label selector"))
        })?;
        let mut selector = ObjectSelector { labels: parsed, fields: Vec::new() };
        for term in fields.split(',').filter(|term| !term.trim().is_empty()) {
            let (name, value, equals) = field_term(term)
                .ok_or_else(|| unable(format!("invalid selector: '{fields}'; can't understand '{term}'")))?;
            let path = field_path(resource, name)
                .ok_or_else(|| ApiError::bad_request(format!("field label not supported: {name}")))?;
            let absent = resource.builtin.map_or("", |builtin| builtin.absent(name));
            selector.fields.push(FieldRequirement { path, value: value.to_owned(), equals, absent });
        }
        Ok(selector)
    }

    /// Whether every object matches.
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The Cluster label that the selector requires; `None` if other objects match as well.
    pub(super) fn cluster(&self) -> Option<&str> {
        self.labels.value_of(CLUSTER_NAME)
    }

    /// Whether an object matches. Most objects need not be decoded.
    pub(super) fn selects(&self, registry: &KindRegistry, resource: &ServedResource, stored: &StoredEntry) -> bool {
        if !self.labels.hold(|name| stored.label(name)) {
            return false;
        }
        let (by_name, others): (Vec<_>, Vec<_>) = self.fields.iter().partition(|requirement| requirement.path == NAME);
        if !by_name.iter().all(|requirement| requirement.is_met_by(&stored.name)) {
            return false;
        }
        if others.is_empty() {
            return true;
        }
        let object = viewed(registry, resource, stored);
        others.iter().all(|requirement| requirement.holds(&object))
    }
}

impl FieldRequirement {
    fn holds(&self, object: &Value) -> bool {
        match at_path(object, &self.path) {
            None | Some(Value::Null) => self.is_met_by(self.absent),
            Some(Value::String(text)) => self.is_met_by(text),
            Some(other) => self.is_met_by(&other.to_string()),
        }
    }

    fn is_met_by(&self, value: &str) -> bool {
        (self.value == value) == self.equals
    }
}

/// `name=value`, `name==value` or `name!=value`.
fn field_term(term: &str) -> Option<(&str, &str, bool)> {
    let (name, value, equals) = match (term.split_once("!="), term.split_once("=="), term.split_once('=')) {
        (Some((name, value)), _, _) => (name, value, false),
        (None, Some((name, value)), _) | (None, None, Some((name, value))) => (name, value, true),
        (None, None, None) => return None,
    };
    Some((name.trim(), value.trim(), equals))
}

/// Path of a selectable field.
fn field_path(resource: &ServedResource, name: &str) -> Option<String> {
    match name {
        "metadata.name" => return Some(NAME.to_owned()),
        "metadata.namespace" if resource.is_namespaced || resource.builtin.is_none() => {
            return Some(".metadata.namespace".to_owned());
        }
        _ => {}
    }
    let builtin = resource.builtin.map(builtin::Builtin::selectable).unwrap_or_default();
    if let Some((_, path)) = builtin.iter().find(|(known, _)| *known == name) {
        return Some((*path).to_owned());
    }
    let is_selectable = resource.selectable_fields.iter().any(|path| path.trim_start_matches('.') == name);
    is_selectable.then(|| format!(".{name}"))
}
