//! Types of contract fields, compared with schemas.

use serde_json::Value;

/// The type of a field in the contract.
#[derive(Clone, Copy, Debug)]
pub(super) enum FieldType {
    Boolean,
    Integer,
    Text,
    /// A list of strings.
    Texts,
    /// A list of any values.
    List,
    /// A map of strings.
    TextMap,
    /// A map of quantities, such as `cpu: 2`.
    Quantities,
    Object(&'static [ObjectMember]),
    /// A list of objects.
    Objects(&'static [ObjectMember]),
    /// A map of objects.
    ObjectMap(&'static [ObjectMember]),
}

/// A member of an object, and whether it is required.
pub(super) type ObjectMember = (&'static str, FieldType, bool);

/// The schema of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FieldLookup<'s> {
    Known(&'s Value),
    /// Arbitrary values are preserved.
    Open,
    Missing,
}

/// The schema of a field at a dotted path.
pub(super) fn find<'s>(schema: &'s Value, path: &str) -> FieldLookup<'s> {
    let mut node = schema;
    for step in path.split('.') {
        let named = node.get("properties").and_then(|properties| properties.get(step));
        let any = || node.get("additionalProperties").filter(|schema| schema.is_object());
        match named.or_else(any) {
            Some(found) => node = found,
            None if is_open(node) => return FieldLookup::Open,
            None => return FieldLookup::Missing,
        }
    }
    FieldLookup::Known(node)
}

/// Whether a schema preserves unknown fields.
pub(super) fn is_open(node: &Value) -> bool {
    let is_true = |keyword: &str| node.get(keyword) == Some(&Value::Bool(true));
    is_true("x-kubernetes-preserve-unknown-fields") || is_true("additionalProperties")
}

impl FieldType {
    /// Description in a remediation.
    pub(super) const fn words(self) -> &'static str {
        match self {
            FieldType::Boolean => "a boolean",
            FieldType::Integer => "an integer",
            FieldType::Text => "a string",
            FieldType::Texts => "a list of strings",
            FieldType::List => "a list",
            FieldType::TextMap => "a map of strings",
            FieldType::Quantities => "a map of quantities",
            FieldType::Object(_) => "an object",
            FieldType::Objects(_) => "a list of objects",
            FieldType::ObjectMap(_) => "a map of objects",
        }
    }

    const fn json_type(self) -> &'static str {
        match self {
            FieldType::Boolean => "boolean",
            FieldType::Integer => "integer",
            FieldType::Text => "string",
            FieldType::Texts | FieldType::List | FieldType::Objects(_) => "array",
            FieldType::TextMap | FieldType::Quantities | FieldType::Object(_) | FieldType::ObjectMap(_) => "object",
        }
    }

    /// The first difference in a schema: place and description.
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
            FieldType::Boolean | FieldType::Integer | FieldType::Text | FieldType::List | FieldType::Quantities => None,
            FieldType::Texts => FieldType::Text.mismatch(entries("items")?, &format!("{path}[]")),
            FieldType::TextMap => {
                self.of_map(node, &|entry| FieldType::Text.mismatch(entry, &format!("{path}[*]")), path)
            }
            FieldType::Object(members) => of_members(node, members, path),
            FieldType::Objects(members) => of_members(entries("items")?, members, &format!("{path}[]")),
            FieldType::ObjectMap(members) => {
                self.of_map(node, &|entry| of_members(entry, members, &format!("{path}[*]")), path)
            }
        }
    }

    /// A map schema describes its entries, or preserves all.
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

fn of_members(node: &Value, members: &[ObjectMember], path: &str) -> Option<(String, String)> {
    members.iter().find_map(|(name, holds, is_needed)| {
        let place = format!("{path}.{name}");
        match find(node, name) {
            FieldLookup::Known(node) => holds.mismatch(node, &place),
            FieldLookup::Missing if *is_needed => Some((
                place,
                format!("the schema does not have this field, which is {} in the contract", holds.words()),
            )),
            FieldLookup::Open | FieldLookup::Missing => None,
        }
    })
}
