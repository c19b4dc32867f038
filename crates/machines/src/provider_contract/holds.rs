//! What a field holds, and whether a schema agrees.

use serde_json::Value;

/// What a field holds by the contract.
#[derive(Clone, Copy, Debug)]
pub(super) enum Holds {
    Boolean,
    Integer,
    Text,
    /// A list of texts.
    Texts,
    /// A list of any values.
    List,
    /// A map of texts.
    TextMap,
    /// A map of numbers with units, such as `cpu: 2`.
    Quantities,
    Object(&'static [Member]),
    /// A list of objects.
    Objects(&'static [Member]),
    /// A map of objects.
    ObjectMap(&'static [Member]),
}

/// A field of an object, and whether it must be there.
pub(super) type Member = (&'static str, Holds, bool);

/// What a schema says of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place<'s> {
    Known(&'s Value),
    /// The field is kept with any value.
    Open,
    Missing,
}

/// The schema of a field, by a dotted path.
pub(super) fn find<'s>(schema: &'s Value, path: &str) -> Place<'s> {
    let mut node = schema;
    for step in path.split('.') {
        let named = node.get("properties").and_then(|properties| properties.get(step));
        let any = || node.get("additionalProperties").filter(|schema| schema.is_object());
        match named.or_else(any) {
            Some(found) => node = found,
            None if is_open(node) => return Place::Open,
            None => return Place::Missing,
        }
    }
    Place::Known(node)
}

/// Whether a schema keeps fields that it does not describe.
pub(super) fn is_open(node: &Value) -> bool {
    let is_true = |keyword: &str| node.get(keyword) == Some(&Value::Bool(true));
    is_true("x-kubernetes-preserve-unknown-fields") || is_true("additionalProperties")
}

impl Holds {
    /// As a way out describes it.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Holds::Boolean => "a boolean",
            Holds::Integer => "an integer",
            Holds::Text => "a string",
            Holds::Texts => "a list of strings",
            Holds::List => "a list",
            Holds::TextMap => "a map of strings",
            Holds::Quantities => "a map of quantities",
            Holds::Object(_) => "an object",
            Holds::Objects(_) => "a list of objects",
            Holds::ObjectMap(_) => "a map of objects",
        }
    }

    const fn json_type(self) -> &'static str {
        match self {
            Holds::Boolean => "boolean",
            Holds::Integer => "integer",
            Holds::Text => "string",
            Holds::Texts | Holds::List | Holds::Objects(_) => "array",
            Holds::TextMap | Holds::Quantities | Holds::Object(_) | Holds::ObjectMap(_) => "object",
        }
    }

    /// Where a schema differs, and how: the first difference.
    pub(super) fn mismatch(self, node: &Value, path: &str) -> Option<(String, String)> {
        let found = node.get("type").and_then(Value::as_str);
        match found {
            None if is_open(node) => return None,
            Some(found) if found == self.json_type() => {}
            _ => {
                let found = found.unwrap_or("no type");
                return Some((
                    path.to_owned(),
                    format!("the schema has {found}, but the contract has {}", self.words()),
                ));
            }
        }
        let entries = |keyword: &str| node.get(keyword).filter(|schema| schema.is_object());
        match self {
            Holds::Boolean | Holds::Integer | Holds::Text | Holds::List | Holds::Quantities => None,
            Holds::Texts => Holds::Text.mismatch(entries("items")?, &format!("{path}[]")),
            Holds::TextMap => self.of_map(node, &|entry| Holds::Text.mismatch(entry, &format!("{path}[*]")), path),
            Holds::Object(members) => of_members(node, members, path),
            Holds::Objects(members) => of_members(entries("items")?, members, &format!("{path}[]")),
            Holds::ObjectMap(members) => {
                self.of_map(node, &|entry| of_members(entry, members, &format!("{path}[*]")), path)
            }
        }
    }

    /// A map describes its entries, or keeps all.
    fn of_map(
        self,
        node: &Value,
        entry: &dyn Fn(&Value) -> Option<(String, String)>,
        path: &str,
    ) -> Option<(String, String)> {
        match node.get("additionalProperties") {
            Some(schema) if schema.is_object() => entry(schema),
            _ if is_open(node) => None,
            _ => Some((path.to_owned(), format!("the schema has named fields, but the contract has {}", self.words()))),
        }
    }
}

fn of_members(node: &Value, members: &[Member], path: &str) -> Option<(String, String)> {
    members.iter().find_map(|(name, holds, is_needed)| {
        let place = format!("{path}.{name}");
        match find(node, name) {
            Place::Known(node) => holds.mismatch(node, &place),
            Place::Missing if *is_needed => Some((
                place,
                format!("the schema does not have this field, which is {} in the contract", holds.words()),
            )),
            Place::Open | Place::Missing => None,
        }
    })
}
