//! Untyped objects: those of providers, and those that topologies consist of.
//!
//! They are read by path, with the three outcomes of CT-5.1: a value, nothing, or a value of the wrong JSON type.

mod fields;
mod shared;

use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::{ContractRef, ObjectKey};
use golang::json::Weight;
use schema::ssa;
use shared::SharedParts;
pub use shared::SharedValues;

/// An object of any kind, as JSON. Copies share their content until one of them is modified.
#[derive(Clone, Debug)]
pub struct Object(Arc<ObjectContent>);

/// The members of an object, and what is computed of them once it was asked for.
struct ObjectContent {
    /// The object without its shared parts.
    value: Value,
    shared: SharedParts,
    /// The object with its shared parts.
    whole: OnceLock<Value>,
    weight: OnceLock<Weight>,
    derived: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl ObjectContent {
    const fn new(value: Value) -> Self {
        ObjectContent::sharing(value, SharedParts::NONE)
    }

    const fn sharing(value: Value, shared: SharedParts) -> Self {
        ObjectContent { value, shared, whole: OnceLock::new(), weight: OnceLock::new(), derived: OnceLock::new() }
    }

    /// The object as one value, which is kept.
    fn whole(&self) -> &Value {
        if self.shared.is_empty() { &self.value } else { self.whole.get_or_init(|| self.to_value().into_owned()) }
    }

    /// The object as one value.
    fn to_value(&self) -> Cow<'_, Value> {
        if self.shared.is_empty() {
            return Cow::Borrowed(&self.value);
        }
        if let Some(whole) = self.whole.get() {
            return Cow::Borrowed(whole);
        }
        let mut value = self.value.clone();
        self.shared.put_into(&mut value);
        Cow::Owned(value)
    }

    /// The value that a dotted path begins in, and the path from there.
    fn start<'p>(&self, path: &'p str) -> (&Value, Option<&'p str>) {
        match self.shared.at(path) {
            Some((value, rest)) => (value, Some(rest).filter(|rest| !rest.is_empty())),
            None if self.shared.are_below(path) => (self.whole(), Some(path)),
            None => (&self.value, Some(path)),
        }
    }

    /// What is computed of the content is not valid any more.
    fn forget(&mut self) {
        (self.whole, self.weight, self.derived) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
    }
}

impl fmt::Debug for ObjectContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}

impl Clone for ObjectContent {
    /// The copy is about to be modified.
    fn clone(&self) -> Self {
        ObjectContent::sharing(self.value.clone(), self.shared.clone())
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        let (one, other) = (&self.0, &other.0);
        Arc::ptr_eq(one, other)
            || match one.shared.has_places_of(&other.shared) {
                true => one.value == other.value && one.shared == other.shared,
                false => one.to_value() == other.to_value(),
            }
    }
}

impl Object {
    /// Whether both have the same members, apart from some of their metadata.
    pub fn is_same_besides(&self, other: &Self, metadata: &[&str]) -> bool {
        let (one, other) = (&self.0, &other.0);
        Arc::ptr_eq(one, other)
            || match one.shared.has_places_of(&other.shared) {
                true => is_same_value(&one.value, &other.value, metadata) && one.shared == other.shared,
                false => is_same_value(&one.to_value(), &other.to_value(), metadata),
            }
    }

    /// Whether the object consists of what is at and above these paths, see [`ssa::is_reduced`].
    pub fn is_reduced(&self, allowed: &[&[&str]]) -> bool {
        ssa::is_reduced(&self.0.value, allowed) && self.0.shared.are_at(allowed)
    }
}

fn is_same_value(one: &Value, other: &Value, metadata: &[&str]) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else { return one == other };
    let is_compared = |(name, _): &(&String, &Value)| !metadata.contains(&name.as_str());
    one.len() == other.len()
        && one.iter().all(|(name, value)| match (&**name, value, other.get(name)) {
            ("metadata", Value::Object(value), Some(Value::Object(other))) => {
                value.iter().filter(is_compared).eq(other.iter().filter(is_compared))
            }
            (_, value, other) => other == Some(value),
        })
}

/// Identifies an object: API version, kind, namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// `group/version`, or `version` for the core group.
    pub api_version: String,
    pub kind: String,
    pub key: ObjectKey,
}

impl ObjectRef {
    /// A reference.
    pub fn new(api_version: impl Into<String>, kind: impl Into<String>, key: ObjectKey) -> Self {
        ObjectRef { api_version: api_version.into(), kind: kind.into(), key }
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        group_of(&self.api_version)
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key)
    }
}

/// A value with an unexpected JSON type (CT-5.1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {path} is {found} where {wanted} was expected")]
pub struct WrongType {
    pub object: String,
    pub path: String,
    pub wanted: &'static str,
    pub found: &'static str,
}

/// The group of an `apiVersion`; empty for the core group.
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// The version of an `apiVersion`.
pub fn version_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or(api_version, |(_, version)| version)
}

impl TryFrom<Value> for Object {
    type Error = &'static str;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        if value.is_object() { Ok(Object(Arc::new(ObjectContent::new(value)))) } else { Err(type_of(&value)) }
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Value {
        let ObjectContent { mut value, shared, .. } = Arc::unwrap_or_clone(object.0);
        shared.put_into(&mut value);
        value
    }
}

impl From<Map<String, Value>> for Object {
    fn from(members: Map<String, Value>) -> Self {
        Object(Arc::new(ObjectContent::new(Value::Object(members))))
    }
}

impl Default for Object {
    fn default() -> Self {
        Object(Arc::new(ObjectContent::new(Value::Object(Map::new()))))
    }
}

impl AsRef<Value> for Object {
    /// The object as one value, which is kept where parts of it are shared: see [`Object::to_value`].
    fn as_ref(&self) -> &Value {
        self.0.whole()
    }
}

impl Object {
    /// The members of the object. Where parts of it are shared, they are copied, and the copy is kept as long as the
    /// object.
    ///
    /// # Panics
    /// Never: the content is always an object.
    pub fn members(&self) -> &Map<String, Value> {
        self.0.whole().as_object().expect("nothing but an object is ever put here")
    }

    /// The object as one value: a copy that is not kept, where parts of it are shared.
    pub fn to_value(&self) -> Cow<'_, Value> {
        self.0.to_value()
    }

    /// The same object, whose copies go on sharing its spec when they are changed elsewhere.
    #[must_use]
    pub fn with_shared_spec(self: &Arc<Self>) -> Arc<Self> {
        if self.0.shared.has_spec() {
            return self.clone();
        }
        let mut content = ObjectContent::clone(&self.0);
        content.shared.take_spec(&mut content.value);
        content.weight = self.weight().into();
        Arc::new(Object(Arc::new(content)))
    }

    /// Makes the object share its spec and the record of its field managers with others that have equal ones.
    pub fn share(&mut self, among: &mut SharedValues) {
        let content = Arc::make_mut(&mut self.0);
        content.shared.share(&mut content.value, among);
        content.whole = OnceLock::new();
    }

    /// The members of the object, mutable. Shared content is copied first.
    ///
    /// # Panics
    /// Never: the content is always an object.
    pub fn members_mut(&mut self) -> &mut Map<String, Value> {
        self.restored("")
    }

    /// The members of the object without shared parts, except that those at this path are with them again.
    fn restored(&mut self, path: &str) -> &mut Map<String, Value> {
        let content = Arc::make_mut(&mut self.0);
        content.forget();
        content.shared.restore(&mut content.value, path);
        content.value.as_object_mut().expect("nothing but an object is ever put here")
    }

    /// About how many bytes the object takes if it shares nothing; computed once, until it is changed.
    pub fn weight(&self) -> Weight {
        *self.0.weight.get_or_init(|| Weight::from_value(&self.0.to_value()))
    }

    /// What a reader of objects computes of this one, kept until it is changed. All readers in a process must derive one
    /// type: an object keeps that of its first reader, and for any other type this is `None`.
    pub fn derived<T: Default + Any + Send + Sync>(&self) -> Option<&T> {
        self.0.derived.get_or_init(|| Box::new(T::default())).downcast_ref()
    }

    /// `apiVersion`.
    pub fn api_version(&self) -> &str {
        self.text_or_empty("apiVersion")
    }

    /// `kind`.
    pub fn kind(&self) -> &str {
        self.text_or_empty("kind")
    }

    /// The group of the `apiVersion`.
    pub fn group(&self) -> &str {
        group_of(self.api_version())
    }

    /// Namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace(), self.name())
    }

    /// A reference to the object.
    pub fn reference(&self) -> ObjectRef {
        ObjectRef::new(self.api_version(), self.kind(), self.key())
    }

    /// A reference to the object without a version (CT-4.7).
    pub fn contract_ref(&self) -> ContractRef {
        ContractRef { api_group: self.group().to_owned(), kind: self.kind().to_owned(), name: self.name().to_owned() }
    }

    /// The value at a dotted path; `null` counts as absent (CT-5.3).
    pub fn at(&self, path: &str) -> Option<&Value> {
        self.find(path).filter(|value| !value.is_null())
    }

    /// Whether there is a `null` at a dotted path.
    pub fn has_null(&self, path: &str) -> bool {
        self.find(path).is_some_and(Value::is_null)
    }

    fn find(&self, path: &str) -> Option<&Value> {
        let (mut here, rest) = self.0.start(path);
        for name in rest.into_iter().flat_map(names) {
            here = here.as_object()?.get(name)?;
        }
        Some(here)
    }

    /// The value at a dotted path; a member of a value that is not an object is an error (CT-5.1). A missing value is
    /// `None`, which callers treat as false, empty or absent (CT-5.2).
    ///
    /// # Errors
    /// When a value on the path is neither absent nor an object.
    pub fn read(&self, path: &str) -> Result<Option<&Value>, WrongType> {
        let (mut here, rest) = self.0.start(path);
        for name in rest.into_iter().flat_map(names) {
            match here {
                Value::Object(members) => match members.get(name) {
                    Some(next) => here = next,
                    None => return Ok(None),
                },
                Value::Null => return Ok(None),
                other => return Err(self.wrong_type(path, "an object on the way", other)),
            }
        }
        Ok((!here.is_null()).then_some(here))
    }

    /// The string at a dotted path.
    ///
    /// # Errors
    /// When it has another type.
    pub fn text(&self, path: &str) -> Result<Option<&str>, WrongType> {
        self.read(path)?.map(|value| value.as_str().ok_or_else(|| self.wrong_type(path, "a string", value))).transpose()
    }

    /// The integer at a dotted path.
    ///
    /// # Errors
    /// When it has another type.
    pub fn integer(&self, path: &str) -> Result<Option<i64>, WrongType> {
        let wrong = |value| self.wrong_type(path, "an integer", value);
        self.read(path)?.map(|value| value.as_i64().ok_or_else(|| wrong(value))).transpose()
    }

    /// The list at a dotted path.
    ///
    /// # Errors
    /// When it has another type.
    pub fn list(&self, path: &str) -> Result<Option<&Vec<Value>>, WrongType> {
        self.read(path)?.map(|value| value.as_array().ok_or_else(|| self.wrong_type(path, "a list", value))).transpose()
    }

    /// The map of strings at a dotted path, such as labels; empty if absent.
    ///
    /// # Errors
    /// When it has another type.
    pub fn texts(&self, path: &str) -> Result<BTreeMap<String, String>, WrongType> {
        let Some(value) = self.read(path)? else { return Ok(BTreeMap::new()) };
        let Value::Object(members) = value else { return Err(self.wrong_type(path, "a map of strings", value)) };
        let text = |(name, value): (&String, &Value)| match value {
            Value::String(text) => Ok((name.clone(), text.clone())),
            other => Err(self.wrong_type(&format!("{path}.{name}"), "a string", other)),
        };
        members.iter().map(text).collect()
    }

    /// The members of the object at a dotted path.
    ///
    /// # Errors
    /// When it has another type.
    pub fn members_at(&self, path: &str) -> Result<Option<&Map<String, Value>>, WrongType> {
        self.read(path)?
            .map(|value| value.as_object().ok_or_else(|| self.wrong_type(path, "an object", value)))
            .transpose()
    }

    /// Sets the value at a dotted path, creating objects on the path.
    ///
    /// # Errors
    /// When a value on the path is neither absent nor an object.
    pub fn set(&mut self, path: &str, value: Value) -> Result<(), WrongType> {
        let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
        let content = Arc::make_mut(&mut self.0);
        content.shared.restore_around(&mut content.value, path);
        self.members_restored_at(parents, path)?.insert(last.to_owned(), value);
        Ok(())
    }

    /// The members of the object at a dotted path, mutable, creating objects on the path. The empty path is the object
    /// itself.
    ///
    /// # Errors
    /// When a value on the path is neither absent nor an object.
    pub fn members_mut_at(&mut self, path: &str) -> Result<&mut Map<String, Value>, WrongType> {
        self.members_restored_at(path, path)
    }

    /// The members of the object at a dotted path, where what is at the path `changed` is about to change.
    fn members_restored_at(&mut self, path: &str, changed: &str) -> Result<&mut Map<String, Value>, WrongType> {
        if let Some(found) = obstacle(self.restored(changed), path) {
            let object = format!("{} {}", self.kind(), self.name());
            return Err(WrongType { object, path: path.to_owned(), wanted: "an object", found });
        }
        let mut here = self.restored(changed);
        for name in names(path).filter(|_| !path.is_empty()) {
            let next = here.entry(name).or_insert(Value::Null);
            if next.is_null() {
                *next = Value::Object(Map::new());
            }
            here = next.as_object_mut().expect("other values are obstacles");
        }
        Ok(here)
    }

    /// Removes the value at a dotted path.
    pub fn remove(&mut self, path: &str) -> Option<Value> {
        self.find(path)?;
        let (parents, last) = path.rsplit_once('.').map_or((None, path), |(parents, last)| (Some(parents), last));
        let mut here = self.restored(path);
        for name in parents.into_iter().flat_map(|parents| parents.split('.')) {
            here = here.get_mut(name)?.as_object_mut()?;
        }
        here.remove(last)
    }

    fn wrong_type(&self, path: &str, wanted: &'static str, value: &Value) -> WrongType {
        let object = format!("{} {}", self.kind(), self.key());
        WrongType { object, path: path.to_owned(), wanted, found: type_of(value) }
    }
}

/// The first value on a dotted path that is neither absent nor an object, by its type.
fn obstacle(members: &Map<String, Value>, path: &str) -> Option<&'static str> {
    let mut here = members;
    for name in names(path).filter(|_| !path.is_empty()) {
        match here.get(name)? {
            Value::Object(members) => here = members,
            Value::Null => return None,
            other => return Some(type_of(other)),
        }
    }
    None
}

/// The names of a dotted path. Paths are short, so a bytewise scan is faster than a search for the separator.
fn names(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(path);
    std::iter::from_fn(move || {
        let text = rest?;
        let (name, others) = match text.bytes().position(|byte| byte == b'.') {
            Some(dot) => (text.get(..dot)?, text.get(dot + 1..)),
            None => (text, None),
        };
        rest = others;
        Some(name)
    })
}

/// The JSON type of a value, with an article.
pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        Object::try_from(value).unwrap()
    }

    #[test]
    fn a_path_leads_to_a_value_to_nothing_or_to_the_wrong_type() {
        // CT-5.1, CT-5.2, CT-5.3
        let object = object(json!({"spec": {"version": "v1", "replicas": 3, "none": null, "list": [1]}}));
        assert_eq!(object.text("spec.version"), Ok(Some("v1")));
        assert_eq!(object.integer("spec.replicas"), Ok(Some(3)));
        for nothing in ["spec.x", "x.y", "spec.none", "spec.none.x", "status"] {
            assert_eq!(object.read(nothing), Ok(None), "{nothing}");
        }
        assert!(object.text("spec.replicas").is_err() && object.integer("spec.version").is_err());
        assert!(object.read("spec.version.x").is_err() && object.texts("spec").is_err());
        assert_eq!(object.list("spec.list").unwrap().map(Vec::len), Some(1));
        assert_eq!(object.at("spec.version.x"), None);
    }

    #[test]
    fn objects_are_the_same_besides_some_of_their_metadata() {
        let applied =
            json!({"kind": "T", "metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"template": {"n": 1}}});
        let mut stored = applied.clone();
        stored["metadata"]["uid"] = json!("u");
        let with = |pointer: &str, value: Value| {
            let mut object = stored.clone();
            *object.pointer_mut(pointer).unwrap() = value;
            object
        };
        let besides = |one: &Value, other: &Value| {
            let [one, other] = [one, other].map(|value| Arc::new(object(value.clone())));
            let shared = other.with_shared_spec();
            let plain = one.is_same_besides(&other, &["uid"]);
            assert_eq!(
                (one.is_same_besides(&shared, &["uid"]), shared.is_same_besides(&one, &["uid"])),
                (plain, plain)
            );
            assert_eq!(one.with_shared_spec().is_same_besides(&shared, &["uid"]), plain);
            plain
        };
        assert!(besides(&applied, &stored) && besides(&stored, &applied));
        for other in [
            with("/metadata/labels", json!({"x": "z"})),
            with("/metadata/name", json!("b")),
            with("/spec/template/n", json!(2)),
            with("/kind", json!("U")),
        ] {
            assert!(!besides(&applied, &other), "{other}");
        }
        let mut more = stored.clone();
        more["status"] = json!({});
        assert!(!besides(&applied, &more) && !besides(&more, &applied));
    }

    #[test]
    fn set_fields_are_found_and_removed_fields_are_not() {
        let mut object = object(json!({"spec": {"text": "a", "none": null}}));
        object.set("spec.none.deep.down", json!(1)).unwrap();
        object.set("kind", json!("Thing")).unwrap();
        assert_eq!((object.kind(), object.at("spec.none.deep.down")), ("Thing", Some(&json!(1))));
        let refused = object.set("spec.text.x", json!(1)).unwrap_err();
        assert_eq!(refused.to_string(), "Thing : spec.text is a string where an object was expected");
        assert_eq!(object.remove("spec.none.deep"), Some(json!({"down": 1})));
        assert_eq!((object.remove("spec.none.deep"), object.at("spec.none.deep")), (None, None));
    }

    #[test]
    fn shared_parts_are_read_and_changed_as_if_they_were_not_shared() {
        let value = |name: &str| {
            json!({
                "apiVersion": "g.io/v1", "kind": "A", "spec": {"a": {"b": 1}, "c": null},
                "metadata": {"name": name, "managedFields": [{"manager": "m"}]},
            })
        };
        let mut values = SharedValues::default();
        let [plain, other] = ["a", "b"].map(|name| object(value(name)));
        let [one, two] = [&plain, &other].map(|plain| {
            let mut shared = plain.clone();
            shared.share(&mut values);
            shared
        });
        assert!(std::ptr::eq(one.at("spec.a").unwrap(), two.at("spec.a").unwrap()));
        assert!(std::ptr::eq(
            one.list("metadata.managedFields").unwrap().unwrap(),
            two.list("metadata.managedFields").unwrap().unwrap()
        ));
        assert_eq!((&one, &plain, one.weight()), (&plain, &one, plain.weight()));
        assert!(one != two && one != other);
        for path in [
            "spec",
            "spec.a.b",
            "spec.c",
            "spec.c.d",
            "spec.x",
            "metadata",
            "metadata.name",
            "metadata.managedFields",
            "kind",
        ] {
            assert_eq!((one.at(path), one.read(path)), (plain.at(path), plain.read(path)), "{path}");
        }
        assert_eq!(one.read("spec.a.b.c"), plain.read("spec.a.b.c"));
        let (kept, named): (&[&[&str]], _) = (&[&["apiVersion"], &["kind"], &["spec"]], ["metadata", "name"]);
        for (more, is_all) in [(&["metadata"][..], true), (&named, false), (&["metadata", "managedFields"], false)] {
            let allowed = [kept, &[more]].concat();
            assert_eq!((one.is_reduced(&allowed), plain.is_reduced(&allowed)), (is_all, is_all), "{more:?}");
        }
        let all_of_metadata = [&["metadata", "managedFields"][..], &named, &["apiVersion"], &["kind"]];
        assert!(one.is_reduced(&[&all_of_metadata[..], &[&["spec"]]].concat()) && !one.is_reduced(&all_of_metadata));
        assert_eq!((one.members(), &*two.to_value()), (plain.members(), other.as_ref()));
        assert_eq!(Value::from(one.clone()), value("a"));
        let edits: [fn(&mut Object); 9] = [
            |object| object.set("spec.a.b", json!(2)).unwrap(),
            |object| object.set("spec.c.d", json!(2)).unwrap(),
            |object| object.set("spec", json!(2)).unwrap(),
            |object| object.set("metadata", json!({"name": "c"})).unwrap(),
            |object| object.set("metadata.uid", json!("u")).unwrap(),
            |object| drop(object.remove("spec.a")),
            |object| drop(object.remove("metadata.managedFields")),
            |object| drop(object.members_mut_at("metadata").unwrap().remove("managedFields")),
            |object| drop(object.members_mut().remove("spec")),
        ];
        for edit in edits {
            let (mut changed, mut want) = (one.clone(), plain.clone());
            edit(&mut changed);
            edit(&mut want);
            assert_eq!((changed.members(), changed.weight()), (want.members(), want.weight()));
        }
        assert_eq!((one.as_ref(), two.as_ref()), (plain.as_ref(), other.as_ref()), "copies have changed");
    }

    #[test]
    fn a_shared_value_lives_as_long_as_an_object_has_it() {
        let mut values = SharedValues::default();
        let mut shared = object(json!({"spec": {"a": 1}}));
        shared.share(&mut values);
        assert_eq!(values.len(), 1);
        drop(shared);
        assert_eq!(values.len(), 0);
    }

    #[test]
    fn a_reference_of_the_contract_has_no_version_and_is_defined_by_any_of_its_fields() {
        // CT-4.3, CT-4.7
        let made = object(json!({"apiVersion": "g.io/v1", "kind": "A", "metadata": {"namespace": "n", "name": "a"}}));
        let reference = made.contract_ref();
        assert_eq!(Value::from(&reference), json!({"apiGroup": "g.io", "kind": "A", "name": "a"}));
        assert!(reference.is_defined() && !ContractRef::default().is_defined());
        for field in ["apiGroup", "kind", "name"] {
            let mut one = ContractRef::default();
            match field {
                "apiGroup" => one.api_group = "x".into(),
                "kind" => one.kind = "x".into(),
                _ => one.name = "x".into(),
            }
            assert!(one.is_defined(), "{field}");
        }
    }

    #[test]
    fn an_object_has_its_kind_namespace_and_name() {
        let object = object(json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"namespace": "ns", "name": "n"}}));
        assert_eq!(object.reference(), ObjectRef::new("g/v1", "K", ObjectKey::new("ns", "n")));
        assert_eq!((object.group(), object.reference().group()), ("g", "g"));
        assert_eq!((group_of("v1"), version_of("v1"), version_of("g/v2")), ("", "v1", "v2"));
    }
}
