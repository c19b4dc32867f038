//! The parts of a schema that server-side apply needs: merged maps and lists, and their keys.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value, json};

use super::{FieldSet, ManagedFields, PathElement};

/// The type of an object, compiled from the schema of a CRD; clones share it.
#[derive(Clone, Debug)]
pub struct MergeSchema(pub(super) MergeType);

/// The type of a value.
#[derive(Clone, Debug)]
pub(super) enum MergeType {
    /// Any value: maps are merged, lists are atomic.
    Deduced,
    /// Any value, treated as a whole.
    Atomic,
    Known(Arc<Atom>),
}

/// The possible shapes of a value, and how each is merged.
#[derive(Clone, Debug, Default)]
pub(super) struct Atom {
    pub(super) map: Option<MapType>,
    pub(super) scalar: Option<ScalarType>,
    pub(super) list: Option<ListType>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScalarType {
    Any,
    Text,
    Number,
    Boolean,
}

#[derive(Clone, Debug)]
pub(super) struct MapType {
    /// Fields declared by name.
    pub(super) fields: BTreeMap<String, MergeType>,
    /// The type of other fields; `None` if there may be none.
    pub(super) others: Option<MergeType>,
    pub(super) atomic: bool,
}

impl MapType {
    pub(super) fn field(&self, name: &str) -> Option<&MergeType> {
        self.fields.get(name).or(self.others.as_ref())
    }
}

#[derive(Clone, Debug)]
pub(super) struct ListType {
    pub(super) items: MergeType,
    pub(super) merge: ListMerge,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ListMerge {
    Atomic,
    Set,
    /// Entries are identified by these keys, which may have defaults.
    Keyed(Vec<(String, Option<Value>)>),
}

/// The shape in which a value is handled.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueShape<'a> {
    Map(&'a MapType),
    Scalar(ScalarType),
    List(&'a ListType),
}

impl ValueShape<'_> {
    pub(super) fn is_like(&self, other: &ValueShape<'_>) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

static DEDUCED: LazyLock<Atom> = LazyLock::new(|| Atom {
    map: Some(MapType { fields: BTreeMap::new(), others: Some(MergeType::Deduced), atomic: false }),
    scalar: Some(ScalarType::Any),
    list: Some(ListType { items: MergeType::Atomic, merge: ListMerge::Atomic }),
});

static ATOMIC: LazyLock<Atom> = LazyLock::new(|| Atom {
    map: Some(MapType { fields: BTreeMap::new(), others: Some(MergeType::Atomic), atomic: true }),
    scalar: Some(ScalarType::Any),
    list: Some(ListType { items: MergeType::Atomic, merge: ListMerge::Atomic }),
});

/// The type of `metadata`, equal for every kind.
static METADATA: LazyLock<MergeType> = LazyLock::new(|| {
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
    MergeType::compiled(&metadata, false)
});

impl MergeSchema {
    /// The type of a kind, from the `openAPIV3Schema` of a version of its CRD.
    ///
    /// The schema is assumed to be accepted by an API server; unsupported parts are of any type.
    pub fn from_openapi(schema: &Value) -> Self {
        let loose = is_true(schema, "x-kubernetes-preserve-unknown-fields");
        MergeSchema(MergeType::Known(Arc::new(Atom { map: Some(resource(schema, loose)), ..Atom::default() })))
    }

    /// The type of an object with known metadata only: other maps are merged, other lists are atomic.
    pub fn unknown() -> Self {
        static UNKNOWN: LazyLock<MergeSchema> =
            LazyLock::new(|| MergeSchema::from_openapi(&json!({"x-kubernetes-preserve-unknown-fields": true})));
        UNKNOWN.clone()
    }

    /// The type of an object without a definition, derived from its managed fields: merged lists with their keys, and
    /// atomic maps. Fields that no entry of `api_version` lists are as in [`MergeSchema::unknown`].
    pub fn from_managed_fields(managers: &[ManagedFields], api_version: &str, live: &Value) -> Self {
        let entries = managers.iter().filter(|entry| entry.api_version == api_version);
        let fields = entries.fold(FieldSet::default(), |all, entry| all.union(&entry.fields));
        let mut schema = MergeSchema::unknown();
        if let (MergeType::Known(atom), MergeType::Known(recorded)) =
            (&mut schema.0, MergeType::recorded(&fields, Some(live)))
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
        MergeSchema(MergeType::Deduced)
    }
}

impl MergeType {
    pub(super) fn atom(&self) -> &Atom {
        match self {
            MergeType::Deduced => &DEDUCED,
            MergeType::Atomic => &ATOMIC,
            MergeType::Known(atom) => atom,
        }
    }

    /// The shape in which the value is handled; null and absent ones as a map where maps are allowed.
    pub(super) fn shape(&self, value: Option<&Value>) -> ValueShape<'_> {
        let atom = self.atom();
        let map = atom.map.as_ref().map(ValueShape::Map);
        let scalar = atom.scalar.map(ValueShape::Scalar);
        let list = atom.list.as_ref().map(ValueShape::List);
        let fitting = match value {
            Some(Value::Object(_)) => map,
            Some(Value::Array(_)) => list,
            Some(Value::String(_) | Value::Number(_) | Value::Bool(_)) => scalar,
            Some(Value::Null) | None => None,
        };
        fitting.or(map).or(scalar).or(list).unwrap_or(ValueShape::Scalar(ScalarType::Any))
    }

    /// Whether the value is owned as a whole although it may have parts.
    pub(super) fn is_atomic(&self) -> bool {
        // A deduced type is not explicitly atomic.
        !matches!(self, MergeType::Deduced)
            && match self.shape(None) {
                ValueShape::Map(map) => {
                    map.atomic && !matches!((map.fields.len(), &map.others), (0, Some(MergeType::Deduced)))
                }
                ValueShape::List(list) => list.merge == ListMerge::Atomic,
                ValueShape::Scalar(_) => false,
            }
    }

    /// The type of a value with these recorded fields. Entries of one list share a type.
    fn recorded(fields: &FieldSet, live: Option<&Value>) -> Self {
        let Some((first, _)) = fields.nodes().next() else {
            let is_whole = live.and_then(Value::as_object).is_some_and(|members| !members.is_empty());
            return if is_whole { MergeType::Atomic } else { MergeType::Deduced };
        };
        let list = |merge, items| Atom { list: Some(ListType { items, merge }), ..DEDUCED.clone() };
        let atom = match first {
            PathElement::Field(_) => {
                let below = |name: &str| live.and_then(|live| live.get(name));
                let fields = fields.nodes().filter_map(|(step, node)| match step {
                    PathElement::Field(name) => Some((name.clone(), MergeType::recorded(&node.below, below(name)))),
                    _ => None,
                });
                let map = MapType { fields: fields.collect(), others: Some(MergeType::Deduced), atomic: false };
                Atom { map: Some(map), ..DEDUCED.clone() }
            }
            PathElement::Key(keys) => {
                let entries = fields.nodes().fold(FieldSet::default(), |all, (_, node)| all.union(&node.below));
                let keys = keys.iter().map(|(name, _)| (name.clone(), None));
                list(ListMerge::Keyed(keys.collect()), MergeType::recorded(&entries, None))
            }
            PathElement::Value(_) => list(ListMerge::Set, MergeType::Deduced),
            PathElement::Index(_) => return MergeType::Deduced,
        };
        MergeType::Known(Arc::new(atom))
    }

    /// `loose` if unknown fields are preserved here, which then holds for all descendants.
    fn compiled(schema: &Value, loose: bool) -> Self {
        let loose = loose || is_true(schema, "x-kubernetes-preserve-unknown-fields");
        let embedded = is_true(schema, "x-kubernetes-embedded-resource");
        let map = || Some(if embedded { resource(schema, loose) } else { map(schema, loose) });
        let atom = match schema.get("type").and_then(Value::as_str) {
            Some("object") => Atom { map: map(), ..Atom::default() },
            Some("array") => Atom { list: Some(list(schema, loose)), ..Atom::default() },
            Some("string") => Atom { scalar: Some(ScalarType::Text), ..Atom::default() },
            Some("integer" | "number") => Atom { scalar: Some(ScalarType::Number), ..Atom::default() },
            Some("boolean") => Atom { scalar: Some(ScalarType::Boolean), ..Atom::default() },
            _ => Atom { map: map(), scalar: Some(ScalarType::Any), list: Some(list(schema, loose)) },
        };
        MergeType::Known(Arc::new(atom))
    }
}

/// A map that is or contains an embedded object with known type and metadata.
fn resource(schema: &Value, loose: bool) -> MapType {
    let mut map = map(schema, loose);
    if map.fields.is_empty() && !loose && schema.get("additionalProperties").is_none() {
        map.others = None;
    }
    for name in ["apiVersion", "kind"] {
        map.fields.insert(name.to_owned(), MergeType::compiled(&json!({"type": "string"}), false));
    }
    map.fields.insert("metadata".to_owned(), METADATA.clone());
    map
}

fn map(schema: &Value, loose: bool) -> MapType {
    let properties = schema.get("properties").and_then(Value::as_object);
    let field = |(name, schema): (&String, _)| (name.clone(), MergeType::compiled(schema, loose));
    let fields: BTreeMap<String, MergeType> = properties.into_iter().flatten().map(field).collect();
    let others = match schema.get("additionalProperties") {
        Some(additional @ Value::Object(_)) => Some(MergeType::compiled(additional, loose)),
        Some(Value::Bool(false)) => None,
        Some(_) => Some(MergeType::Deduced),
        None => (fields.is_empty() || loose).then_some(MergeType::Deduced),
    };
    MapType { fields, others, atomic: text(schema, "x-kubernetes-map-type") == Some("atomic") }
}

fn list(schema: &Value, loose: bool) -> ListType {
    let items = schema.get("items").map_or(MergeType::Atomic, |items| MergeType::compiled(items, loose));
    let merge = match text(schema, "x-kubernetes-list-type") {
        Some("set") => ListMerge::Set,
        Some("map") => ListMerge::Keyed(keys(schema)),
        _ => ListMerge::Atomic,
    };
    ListType { items, merge }
}

/// The keys of a keyed list with their defaults in the schema of its entries.
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
