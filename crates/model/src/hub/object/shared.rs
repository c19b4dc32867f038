//! Parts of objects of which equal objects have one copy.
//!
//! Objects that are made of one template differ in their names and labels. What takes memory are their specs and the
//! records of their field managers, and these are mostly equal.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Weak};

use serde_json::{Map, Value};

/// A place whose value can be shared: a member of the object, or a member of that.
type Place = (&'static str, Option<&'static str>);

const SPEC: Place = ("spec", None);
const MANAGED_FIELDS: Place = ("metadata", Some("managedFields"));

/// The shared parts of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SharedParts {
    spec: Option<Arc<Value>>,
    managed_fields: Option<Arc<Value>>,
}

/// Values that objects share, as long as an object has them.
#[derive(Clone, Debug, Default)]
pub struct SharedValues {
    by_hash: HashMap<u64, Weak<Value>>,
}

impl SharedValues {
    /// The copy of a value that all share.
    fn one_of(&mut self, value: Value) -> Arc<Value> {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        let slot = self.by_hash.entry(hasher.finish()).or_default();
        match slot.upgrade() {
            Some(shared) if *shared == value => shared,
            _ => {
                let shared = Arc::new(value);
                *slot = Arc::downgrade(&shared);
                shared
            }
        }
    }

    /// How many values are shared now.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_hash.values().filter(|value| value.strong_count() > 0).count()
    }
}

impl SharedParts {
    pub(super) const NONE: SharedParts = SharedParts { spec: None, managed_fields: None };

    pub(super) const fn is_empty(&self) -> bool {
        self.spec.is_none() && self.managed_fields.is_none()
    }

    /// Whether both objects share values of the same places.
    pub(super) const fn has_places_of(&self, other: &SharedParts) -> bool {
        self.spec.is_some() == other.spec.is_some() && self.managed_fields.is_some() == other.managed_fields.is_some()
    }

    /// The shared value that a dotted path leads to or through, with the rest of the path.
    pub(super) fn at<'p>(&self, path: &'p str) -> Option<(&Value, &'p str)> {
        self.parts().find_map(|(place, value)| Some((&**value, below(place, path)?)))
    }

    /// Whether what a dotted path leads to has shared parts, and not all of it is in one of them.
    pub(super) fn are_below(&self, path: &str) -> bool {
        self.parts().any(|((member, inner), _)| inner.is_some() && path == member)
    }

    /// Whether all shared parts are at or below these paths.
    pub(super) fn are_at(&self, paths: &[&[&str]]) -> bool {
        self.parts().all(|((member, inner), _)| {
            let place = [Some(member), inner];
            let place = || place.into_iter().flatten();
            paths.iter().any(|path| path.len() <= place().count() && path.iter().copied().eq(place().take(path.len())))
        })
    }

    /// Puts the shared parts back into the rest of their object.
    pub(super) fn put_into(&self, value: &mut Value) {
        for (place, part) in self.parts() {
            put(value, place, Value::clone(part));
        }
    }

    pub(super) const fn has_spec(&self) -> bool {
        self.spec.is_some()
    }

    /// Takes the spec of an object, for copies of the object.
    pub(super) fn take_spec(&mut self, object: &mut Value) {
        if let Some(spec) = take(object, SPEC) {
            self.spec = Some(Arc::new(spec));
        }
    }

    /// Moves the parts of an object that can be shared into this value.
    pub(super) fn share(&mut self, object: &mut Value, among: &mut SharedValues) {
        for (place, shared) in [(SPEC, &mut self.spec), (MANAGED_FIELDS, &mut self.managed_fields)] {
            if let Some(value) = take(object, place) {
                *shared = Some(among.one_of(value));
            }
        }
    }

    /// Puts back the parts that a dotted path leads to or through, since they are about to change.
    pub(super) fn restore(&mut self, object: &mut Value, path: &str) {
        for (place, shared) in [(SPEC, &mut self.spec), (MANAGED_FIELDS, &mut self.managed_fields)] {
            let (member, inner) = place;
            let is_touched = path.is_empty() || (inner.is_some() && path == member) || below(place, path).is_some();
            if let Some(value) = shared.take_if(|_| is_touched) {
                put(object, place, Arc::unwrap_or_clone(value));
            }
        }
    }

    /// Puts back a spec that others share without the value at a dotted path, which is about to be replaced.
    pub(super) fn restore_around(&mut self, object: &mut Value, path: &str) {
        if let Some(rest) = below(SPEC, path).filter(|rest| !rest.is_empty())
            && let Some(spec) = self.spec.take_if(|spec| Arc::get_mut(spec).is_none())
        {
            put(object, SPEC, copy_around(&spec, rest));
        }
    }

    fn parts(&self) -> impl Iterator<Item = (Place, &Arc<Value>)> {
        let spec = self.spec.iter().map(|value| (SPEC, value));
        spec.chain(self.managed_fields.iter().map(|value| (MANAGED_FIELDS, value)))
    }
}

/// The rest of a path at a place, where it is empty, or below it; nothing if the path leads elsewhere.
fn below((member, inner): Place, path: &str) -> Option<&str> {
    let rest = after(member, path)?;
    inner.map_or(Some(rest), |inner| after(inner, rest))
}

/// The rest of a path after its first name.
fn after<'p>(name: &str, path: &'p str) -> Option<&'p str> {
    let rest = path.strip_prefix(name)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('.') }
}

/// The map that has a place, and its name there.
fn holder(object: &mut Value, (member, inner): Place) -> Option<(&mut Map<String, Value>, &'static str)> {
    let members = object.as_object_mut()?;
    match inner {
        None => Some((members, member)),
        Some(inner) => Some((members.get_mut(member)?.as_object_mut()?, inner)),
    }
}

/// A copy of a value without the one at a dotted path.
fn copy_around(value: &Value, path: &str) -> Value {
    let Value::Object(members) = value else { return value.clone() };
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let copied = members.iter().filter_map(|(member, value)| match rest {
        _ if member != name => Some((member.clone(), value.clone())),
        Some(rest) => Some((member.clone(), copy_around(value, rest))),
        None => None,
    });
    Value::Object(copied.collect())
}

fn take(object: &mut Value, place: Place) -> Option<Value> {
    let (members, name) = holder(object, place)?;
    members.remove(name)
}

/// Puts back what [`take`] has taken: the object that holds it is still there.
fn put(object: &mut Value, place: Place, value: Value) {
    if let Some((members, name)) = holder(object, place) {
        members.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_value_at_a_path_is_not_copied() {
        let value = json!({"a": {"b": {"c": 1}, "d": [2]}, "e": null});
        for (path, want) in [
            ("a", json!({"e": null})),
            ("a.b", json!({"a": {"d": [2]}, "e": null})),
            ("a.b.c", json!({"a": {"b": {}, "d": [2]}, "e": null})),
            ("a.d.x", json!({"a": {"b": {"c": 1}, "d": [2]}, "e": null})),
            ("e.x", value.clone()),
            ("x.y", value.clone()),
        ] {
            assert_eq!(copy_around(&value, path), want, "{path}");
        }
    }

    #[test]
    fn a_path_leads_to_a_place_through_it_or_elsewhere() {
        for (path, of_spec, of_managers) in [
            ("spec", Some(""), None),
            ("spec.a.b", Some("a.b"), None),
            ("special", None, None),
            ("metadata", None, None),
            ("metadata.name", None, None),
            ("metadata.managedFields", None, Some("")),
            ("metadata.managedFields.x", None, Some("x")),
            ("metadata.managedFieldsX", None, None),
            ("", None, None),
        ] {
            assert_eq!((below(SPEC, path), below(MANAGED_FIELDS, path)), (of_spec, of_managers), "{path}");
        }
    }
}
