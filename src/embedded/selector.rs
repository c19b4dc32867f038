//! Selectors of lists and watches.

use serde_json::Value;

use super::registry::{Resource, at_path};
use super::status::Failure;

/// Which objects a request is about.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    labels: Vec<LabelRequirement>,
    fields: Vec<FieldRequirement>,
}

#[derive(Clone, Debug, PartialEq)]
enum LabelRequirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
    /// Above, or below when the flag is not set.
    Compared(String, bool, i64),
}

#[derive(Clone, Debug, PartialEq)]
struct FieldRequirement {
    path: String,
    value: String,
    equals: bool,
}

impl Selector {
    /// Reads the selectors of a query.
    ///
    /// # Errors
    /// 400 for what is no selector, and for a field by which objects of the kind cannot be selected.
    pub(super) fn parse(resource: &Resource, labels: &str, fields: &str) -> Result<Self, Failure> {
        let unable = |why: String| {
            Failure::bad_request(format!(
                "Unable to find {:?} that match label selector {labels:?}, field selector {fields:?}: {why}",
                super::registry::qualified(&resource.plural, &resource.group)
            ))
        };
        let parsed = label_requirements(labels).ok_or_else(|| {
            Failure::bad_request(format!("unable to parse requirement: {labels:?} is no label selector"))
        })?;
        let mut selector = Selector { labels: parsed, fields: Vec::new() };
        for term in fields.split(',').filter(|term| !term.trim().is_empty()) {
            let (name, value, equals) = field_term(term)
                .ok_or_else(|| unable(format!("invalid selector: '{fields}'; can't understand '{term}'")))?;
            let path = field_path(resource, name)
                .ok_or_else(|| Failure::bad_request(format!("field label not supported: {name}")))?;
            selector.fields.push(FieldRequirement { path, value: value.to_owned(), equals });
        }
        Ok(selector)
    }

    /// Whether every object is selected.
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object is selected.
    pub(super) fn selects(&self, object: &Value) -> bool {
        if self.is_everything() {
            return true;
        }
        let labels = object.get("metadata").and_then(|metadata| metadata.get("labels"));
        let label = |name: &str| labels.and_then(|labels| labels.get(name)).and_then(Value::as_str);
        self.labels.iter().all(|requirement| requirement.holds(&label))
            && self.fields.iter().all(|requirement| requirement.holds(object))
    }
}

impl LabelRequirement {
    fn holds<'v>(&self, label: &impl Fn(&str) -> Option<&'v str>) -> bool {
        match self {
            LabelRequirement::In(name, values) => {
                label(name).is_some_and(|found| values.iter().any(|value| value == found))
            }
            LabelRequirement::NotIn(name, values) => {
                label(name).is_none_or(|found| values.iter().all(|value| value != found))
            }
            LabelRequirement::Exists(name) => label(name).is_some(),
            LabelRequirement::Absent(name) => label(name).is_none(),
            LabelRequirement::Compared(name, above, bound) => {
                let found = label(name).and_then(|found| found.parse::<i64>().ok());
                found.is_some_and(|found| if *above { found > *bound } else { found < *bound })
            }
        }
    }
}

impl FieldRequirement {
    fn holds(&self, object: &Value) -> bool {
        let is_equal = match at_path(object, &self.path) {
            None | Some(Value::Null) => self.value.is_empty(),
            Some(Value::String(text)) => *text == self.value,
            Some(other) => *self.value == *other.to_string(),
        };
        is_equal == self.equals
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

/// Where a field stands by which objects can be selected.
fn field_path(resource: &Resource, name: &str) -> Option<String> {
    match name {
        "metadata.name" => return Some(".metadata.name".to_owned()),
        "metadata.namespace" if resource.is_namespaced || resource.builtin.is_none() => {
            return Some(".metadata.namespace".to_owned());
        }
        _ => {}
    }
    let builtin = resource.builtin.map(super::builtin::Builtin::selectable).unwrap_or_default();
    if let Some((_, path)) = builtin.iter().find(|(known, _)| *known == name) {
        return Some((*path).to_owned());
    }
    let is_selectable = resource.selectable_fields.iter().any(|path| path.trim_start_matches('.') == name);
    is_selectable.then(|| format!(".{name}"))
}

/// The requirements of `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`; none for what is no selector.
fn label_requirements(text: &str) -> Option<Vec<LabelRequirement>> {
    let mut requirements = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (requirement, after) = label_requirement(rest)?;
        requirements.push(requirement);
        rest = after.trim_start();
        match rest.strip_prefix(',') {
            Some(after) if !after.trim().is_empty() => rest = after.trim_start(),
            None if rest.is_empty() => {}
            _ => return None,
        }
    }
    Some(requirements)
}

fn label_requirement(text: &str) -> Option<(LabelRequirement, &str)> {
    if let Some(rest) = text.strip_prefix('!') {
        let (name, rest) = word(rest.trim_start())?;
        return Some((LabelRequirement::Absent(name.to_owned()), rest));
    }
    let (name, rest) = word(text)?;
    let name = name.to_owned();
    let rest = rest.trim_start();
    let value = |rest: &str| -> (String, usize) {
        let rest_trimmed = rest.trim_start();
        let found = word(rest_trimmed).map_or("", |(found, _)| found);
        (found.to_owned(), rest.len() - rest_trimmed.len() + found.len())
    };
    for (operator, is_in) in [("notin", false), ("in", true)] {
        let Some(after) = rest.strip_prefix(operator) else { continue };
        let (values, after) = after.trim_start().strip_prefix('(')?.split_once(')')?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        let requirement =
            if is_in { LabelRequirement::In(name, values) } else { LabelRequirement::NotIn(name, values) };
        return Some((requirement, after));
    }
    for (operator, equals) in [("==", true), ("!=", false), ("=", true)] {
        let Some(after) = rest.strip_prefix(operator) else { continue };
        let (value, used) = value(after);
        let values = vec![value];
        let requirement =
            if equals { LabelRequirement::In(name, values) } else { LabelRequirement::NotIn(name, values) };
        return Some((requirement, after.get(used..)?));
    }
    for (operator, above) in [('>', true), ('<', false)] {
        let Some(after) = rest.strip_prefix(operator) else { continue };
        let (value, used) = value(after);
        return Some((LabelRequirement::Compared(name, above, value.parse().ok()?), after.get(used..)?));
    }
    Some((LabelRequirement::Exists(name), rest))
}

/// The label name or value with which a text begins.
fn word(text: &str) -> Option<(&str, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let end = text.find(|c: char| !is_part(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selects(text: &str) -> Option<bool> {
        let object = json!({"metadata": {"labels": {"a": "1", "x.y/b": "two", "e": ""}}});
        let selector = Selector { labels: label_requirements(text)?, fields: Vec::new() };
        Some(selector.selects(&object))
    }

    #[test]
    fn labels_are_selected_by_equality_and_by_sets() {
        for (text, want) in [
            ("", Some(true)),
            ("a=1", Some(true)),
            ("a==1,x.y/b=two", Some(true)),
            ("a=2", Some(false)),
            ("a!=2", Some(true)),
            ("c!=2", Some(true)),
            ("e=", Some(true)),
            ("e=,a=1", Some(true)),
            ("a in (1, 2)", Some(true)),
            ("a in (2),a", Some(false)),
            ("a notin (1,2)", Some(false)),
            ("c notin (1)", Some(true)),
            ("a , !c", Some(true)),
            ("!a", Some(false)),
            ("a>0,a<2", Some(true)),
            ("a>1", Some(false)),
            ("a>x", None),
            ("a=1,", None),
            ("a in 1", None),
            (",", None),
            ("a b", None),
            ("é", None),
        ] {
            assert_eq!(selects(text), want, "{text}");
        }
    }
}
