//! The parts of a schema that server-side apply needs: which maps and lists are merged, and by which keys.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};

use super::{Element, FieldSet, ManagedFields};

/// The type of an object, compiled from the schema of a CRD; clones share it.
#[derive(Clone, Debug)]
pub struct Schema(pub(super) Type);

/// The type of a value.
#[derive(Clone, Debug)]
pub(super) enum Type {
    /// Any value: maps are merged, lists are not.
    Deduced,
    /// Any value, as a whole.
    Atomic,
    Known(Arc<Atom>),
}

/// What a value may be, and how each of it is merged.
#[derive(Clone, Debug, Default)]
pub(super) struct Atom {
    pub(super) map: Option<MapType>,
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<ListType>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Any,
    Text,
    Number,
    Boolean,
}

#[derive(Clone, Debug)]
pub(super) struct MapType {
    /// Fields that the schema declares by name.
    pub(super) fields: BTreeMap<String, Type>,
    /// The type of all others; none when there may be none.
    pub(super) others: Option<Type>,
    pub(super) atomic: bool,
}

impl MapType {
    pub(super) fn field(&self, name: &str) -> Option<&Type> {
        self.fields.get(name).or(self.others.as_ref())
    }
}

#[derive(Clone, Debug)]
pub(super) struct ListType {
    pub(super) items: Type,
    pub(super) merge: ListMerge,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ListMerge {
    Atomic,
    Set,
    /// Entries are told apart by these keys, which may have defaults.
    Keyed(Vec<(String, Option<Value>)>),
}

/// Which of the things that a type may be a value is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape<'a> {
    Map(&'a MapType),
    Scalar(Scalar),
    List(&'a ListType),
}

impl Shape<'_> {
    pub(super) fn is_like(&self, other: &Shape<'_>) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

static DEDUCED: LazyLock<Atom> = LazyLock::new(|| Atom {
    map: Some(MapType { fields: BTreeMap::new(), others: Some(Type::Deduced), atomic: false }),
    scalar: Some(Scalar::Any),
    list: Some(ListType { items: Type::Atomic, merge: ListMerge::Atomic }),
});

static ATOMIC: LazyLock<Atom> = LazyLock::new(|| Atom {
    map: Some(MapType { fields: BTreeMap::new(), others: Some(Type::Atomic), atomic: true }),
    scalar: Some(Scalar::Any),
    list: Some(ListType { items: Type::Atomic, merge: ListMerge::Atomic }),
});

/// The type of `metadata`, which is the same for every kind.
static METADATA: LazyLock<Type> = LazyLock::new(|| {
    let text = || json!({"type": "string"});
    let texts = || json!({"type": "object", "additionalProperties": text()});
    let number = || json!({"type": "integer"});
    let owner = json!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {"apiVersion": text(), "kind": text(), "name": text(), "uid": text(),
            "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"}},
    });
    let entry = json!({
        "type": "object",
        "properties": {"apiVersion": text(), "fieldsType": text(), "fieldsV1": {"type": "object"}, "manager": text(),
            "operation": text(), "subresource": text(), "time": text()},
    });
    let metadata = json!({
        "type": "object",
        "properties": {
            "annotations": texts(), "creationTimestamp": text(), "deletionGracePeriodSeconds": number(),
            "deletionTimestamp": text(), "generateName": text(), "generation": number(), "labels": texts(),
            "finalizers": {"type": "array", "x-kubernetes-list-type": "set", "items": text()},
            "managedFields": {"type": "array", "x-kubernetes-list-type": "atomic", "items": entry},
            "ownerReferences": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid"], "items": owner},
            "name": text(), "namespace": text(), "resourceVersion": text(), "selfLink": text(), "uid": text(),
        },
    });
    Type::compiled(&metadata, false)
});

impl Schema {
    /// The type of a kind with the `openAPIV3Schema` of one version of its CRD.
    ///
    /// The schema is taken as the API server accepts it; what cannot be understood counts as a value of any type.
    pub fn of_definition(schema: &Value) -> Self {
        let loose = is_true(schema, "x-kubernetes-preserve-unknown-fields");
        Schema(Type::Known(Arc::new(Atom { map: Some(resource(schema, loose)), ..Atom::default() })))
    }

    /// The type of an object of which only the metadata is known: other maps are merged, other lists are atomic.
    pub fn unknown() -> Self {
        static UNKNOWN: LazyLock<Schema> =
            LazyLock::new(|| Schema::of_definition(&json!({"x-kubernetes-preserve-unknown-fields": true})));
        UNKNOWN.clone()
    }

    /// The type of an object without a definition, as far as the record of its owners shows it: which lists are merged, by
    /// which keys, and which maps are wholes. What no entry of `api_version` lists is as with [`Schema::unknown`].
    pub fn of_record(managers: &[ManagedFields], api_version: &str, live: &Value) -> Self {
        let entries = managers.iter().filter(|entry| entry.api_version == api_version);
        let fields = entries.fold(FieldSet::default(), |all, entry| all.union(&entry.fields));
        let mut schema = Schema::unknown();
        if let (Type::Known(atom), Type::Known(recorded)) = (&mut schema.0, Type::recorded(&fields, Some(live)))
            && let (Some(map), Some(recorded)) = (&mut Arc::make_mut(atom).map, &recorded.map)
        {
            let others = recorded.fields.iter().filter(|(name, _)| !map.fields.contains_key(*name));
            let others: Vec<_> = others.map(|(name, of)| (name.clone(), of.clone())).collect();
            map.fields.extend(others);
        }
        schema
    }

    /// The type of any value: maps are merged, lists are atomic.
    #[cfg(test)]
    pub(super) fn deduced() -> Self {
        Schema(Type::Deduced)
    }
}

impl Type {
    pub(super) fn atom(&self) -> &Atom {
        match self {
            Type::Deduced => &DEDUCED,
            Type::Atomic => &ATOMIC,
            Type::Known(atom) => atom,
        }
    }

    /// The shape in which the value is handled; null and absent ones as a map where maps may be.
    pub(super) fn shape(&self, value: Option<&Value>) -> Shape<'_> {
        let atom = self.atom();
        let map = atom.map.as_ref().map(Shape::Map);
        let scalar = atom.scalar.map(Shape::Scalar);
        let list = atom.list.as_ref().map(Shape::List);
        let fitting = match value {
            Some(Value::Object(_)) => map,
            Some(Value::Array(_)) => list,
            Some(Value::String(_) | Value::Number(_) | Value::Bool(_)) => scalar,
            Some(Value::Null) | None => None,
        };
        fitting.or(map).or(scalar).or(list).unwrap_or(Shape::Scalar(Scalar::Any))
    }

    /// Whether the value is owned as a whole although it may have parts.
    pub(super) fn is_atomic(&self) -> bool {
        // A type that is only deduced does not say so.
        !matches!(self, Type::Deduced)
            && match self.shape(None) {
                Shape::Map(map) => map.atomic && !matches!((map.fields.len(), &map.others), (0, Some(Type::Deduced))),
                Shape::List(list) => list.merge == ListMerge::Atomic,
                Shape::Scalar(_) => false,
            }
    }

    /// The type of a value of which these fields are recorded. Entries of one list share a type.
    fn recorded(fields: &FieldSet, live: Option<&Value>) -> Self {
        let Some((first, _)) = fields.nodes().next() else {
            let is_whole = live.and_then(Value::as_object).is_some_and(|members| !members.is_empty());
            return if is_whole { Type::Atomic } else { Type::Deduced };
        };
        let list = |merge, items| Atom { list: Some(ListType { items, merge }), ..DEDUCED.clone() };
        let atom = match first {
            Element::Field(_) => {
                let below = |name: &str| live.and_then(|live| live.get(name));
                let fields = fields.nodes().filter_map(|(step, node)| match step {
                    Element::Field(name) => Some((name.clone(), Type::recorded(&node.below, below(name)))),
                    _ => None,
                });
                let map = MapType { fields: fields.collect(), others: Some(Type::Deduced), atomic: false };
                Atom { map: Some(map), ..DEDUCED.clone() }
            }
            Element::Key(keys) => {
                let entries = fields.nodes().fold(FieldSet::default(), |all, (_, node)| all.union(&node.below));
                let keys = keys.iter().map(|(name, _)| (name.clone(), None));
                list(ListMerge::Keyed(keys.collect()), Type::recorded(&entries, None))
            }
            Element::Value(_) => list(ListMerge::Set, Type::Deduced),
            Element::Index(_) => return Type::Deduced,
        };
        Type::Known(Arc::new(atom))
    }

    /// `loose` when unknown fields are preserved here, which then holds for everything below too.
    fn compiled(schema: &Value, loose: bool) -> Self {
        let loose = loose || is_true(schema, "x-kubernetes-preserve-unknown-fields");
        let embedded = is_true(schema, "x-kubernetes-embedded-resource");
        let map = || Some(if embedded { resource(schema, loose) } else { map(schema, loose) });
        let atom = match schema.get("type").and_then(Value::as_str) {
            Some("object") => Atom { map: map(), ..Atom::default() },
            Some("array") => Atom { list: Some(list(schema, loose)), ..Atom::default() },
            Some("string") => Atom { scalar: Some(Scalar::Text), ..Atom::default() },
            Some("integer" | "number") => Atom { scalar: Some(Scalar::Number), ..Atom::default() },
            Some("boolean") => Atom { scalar: Some(Scalar::Boolean), ..Atom::default() },
            _ => Atom { map: map(), scalar: Some(Scalar::Any), list: Some(list(schema, loose)) },
        };
        Type::Known(Arc::new(atom))
    }
}

/// A map that is an object of its own, or holds one: its type and metadata are known.
fn resource(schema: &Value, loose: bool) -> MapType {
    let mut map = map(schema, loose);
    if map.fields.is_empty() && !loose && schema.get("additionalProperties").is_none() {
        map.others = None;
    }
    for name in ["apiVersion", "kind"] {
        map.fields.insert(name.to_owned(), Type::compiled(&json!({"type": "string"}), false));
    }
    map.fields.insert("metadata".to_owned(), METADATA.clone());
    map
}

fn map(schema: &Value, loose: bool) -> MapType {
    let properties = schema.get("properties").and_then(Value::as_object);
    let field = |(name, schema): (&String, _)| (name.clone(), Type::compiled(schema, loose));
    let fields: BTreeMap<String, Type> = properties.into_iter().flatten().map(field).collect();
    let others = match schema.get("additionalProperties") {
        Some(additional @ Value::Object(_)) => Some(Type::compiled(additional, loose)),
        Some(Value::Bool(false)) => None,
        Some(_) => Some(Type::Deduced),
        None => (fields.is_empty() || loose).then_some(Type::Deduced),
    };
    MapType { fields, others, atomic: text(schema, "x-kubernetes-map-type") == Some("atomic") }
}

fn list(schema: &Value, loose: bool) -> ListType {
    let items = schema.get("items").map_or(Type::Atomic, |items| Type::compiled(items, loose));
    let merge = match text(schema, "x-kubernetes-list-type") {
        Some("set") => ListMerge::Set,
        Some("map") => ListMerge::Keyed(keys(schema)),
        _ => ListMerge::Atomic,
    };
    ListType { items, merge }
}

/// The keys of a keyed list with the defaults that the schema of its entries gives them.
fn keys(schema: &Value) -> Vec<(String, Option<Value>)> {
    let names = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array).into_iter().flatten();
    let properties: Option<&Map<String, Value>> =
        schema.get("items").and_then(|items| items.get("properties")).and_then(Value::as_object);
    let default = |name: &str| properties?.get(name)?.get("default").cloned();
    names.filter_map(Value::as_str).map(|name| (name.to_owned(), default(name))).collect()
}

fn is_true(schema: &Value, keyword: &str) -> bool {
    schema.get(keyword) == Some(&Value::Bool(true))
}

fn text<'a>(schema: &'a Value, keyword: &str) -> Option<&'a str> {
    schema.get(keyword).and_then(Value::as_str)
}
