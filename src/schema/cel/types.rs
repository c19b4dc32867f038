//! Types of expressions, and what a schema declares.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use super::parse;
use crate::schema::Definition;

/// The type of an expression.
#[derive(Clone, Debug)]
pub(super) enum Type {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    Kind,
    Ip,
    Cidr,
    Url,
    Quantity,
    Semver,
    Format,
    List(Arc<Type>),
    Map(Arc<(Type, Type)>),
    Optional(Arc<Type>),
    Object(Arc<Structure>),
    /// A type that is not known yet, or a parameter of a signature.
    Open(u32),
}

impl Type {
    pub(super) fn list(of: Type) -> Type {
        Type::List(Arc::new(of))
    }

    pub(super) fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new((key, value)))
    }

    pub(super) fn optional(of: Type) -> Type {
        Type::Optional(Arc::new(of))
    }

    /// Types without parts, by name.
    pub(super) const PLAIN: [(&'static str, Type); 17] = [
        ("dyn", Type::Dyn),
        ("null_type", Type::Null),
        ("bool", Type::Bool),
        ("int", Type::Int),
        ("uint", Type::Uint),
        ("double", Type::Double),
        ("string", Type::Text),
        ("bytes", Type::Bytes),
        ("google.protobuf.Duration", Type::Duration),
        ("google.protobuf.Timestamp", Type::Timestamp),
        ("type", Type::Kind),
        ("net.IP", Type::Ip),
        ("net.CIDR", Type::Cidr),
        ("kubernetes.URL", Type::Url),
        ("kubernetes.Quantity", Type::Quantity),
        ("kubernetes.Semver", Type::Semver),
        ("kubernetes.NamedFormat", Type::Format),
    ];

    /// Whether `%s` writes values of the type.
    pub(super) fn has_text(&self) -> bool {
        match self {
            Type::Null
            | Type::Bool
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::Text
            | Type::Bytes
            | Type::Duration
            | Type::Timestamp
            | Type::Kind
            | Type::List(_)
            | Type::Map(_)
            | Type::Dyn
            | Type::Open(_) => true,
            Type::Ip
            | Type::Cidr
            | Type::Url
            | Type::Quantity
            | Type::Semver
            | Type::Format
            | Type::Optional(_)
            | Type::Object(_) => false,
        }
    }

    /// Reads a type as signatures write it: `list(A)`, `map(string,A)`, `optional(A)`.
    pub(super) fn read(text: &str) -> Type {
        let inside = |open: &str| text.strip_prefix(open).and_then(|rest| rest.strip_suffix(')'));
        if let Some(of) = inside("list(") {
            return Type::list(Type::read(of));
        }
        if let Some(of) = inside("optional(") {
            return Type::optional(Type::read(of));
        }
        if let Some((key, value)) = inside("map(").and_then(|of| of.split_once(',')) {
            return Type::map(Type::read(key), Type::read(value));
        }
        match text {
            "A" => Type::Open(0),
            "B" => Type::Open(1),
            "duration" => Type::Duration,
            "timestamp" => Type::Timestamp,
            "null" => Type::Null,
            "ip" => Type::Ip,
            "cidr" => Type::Cidr,
            "url" => Type::Url,
            "quantity" => Type::Quantity,
            "semver" => Type::Semver,
            "format" => Type::Format,
            name => Type::PLAIN.into_iter().find(|(known, _)| *known == name).map_or(Type::Dyn, |(_, known)| known),
        }
    }
}

impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => a == b,
            (Type::Map(a), Type::Map(b)) => a == b,
            (Type::Object(a), Type::Object(b)) => Arc::ptr_eq(a, b),
            (Type::Open(a), Type::Open(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::List(of) => write!(f, "list({of})"),
            Type::Map(parts) => write!(f, "map({}, {})", parts.0, parts.1),
            Type::Optional(of) => write!(f, "optional({of})"),
            Type::Object(_) => f.write_str("object"),
            Type::Open(_) => f.write_str("unknown"),
            Type::Duration => f.write_str("duration"),
            Type::Timestamp => f.write_str("timestamp"),
            plain => {
                let named = Type::PLAIN.into_iter().find(|(_, known)| known == plain);
                f.write_str(named.map_or("dyn", |(name, _)| name))
            }
        }
    }
}

/// The properties of an object, by the names under which expressions see them (CEL-027).
#[derive(Debug, Default)]
pub(super) struct Structure {
    pub fields: BTreeMap<String, Field>,
}

/// A property.
#[derive(Debug)]
pub(super) struct Field {
    /// Its name in the value.
    pub name: String,
    pub decl: Decl,
}

/// How a text is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Plain,
    Bytes,
    Duration,
    Date,
    DateTime,
}

/// What a schema node is to an expression.
#[derive(Debug, Clone)]
pub(super) struct Decl {
    pub ty: Type,
    pub reading: Reading,
    /// The smallest serialised size, in bytes (CEL-014).
    pub min_size: u64,
    /// The most elements or characters (CEL-014).
    pub max_elements: u64,
    /// Of the elements of a list or the values of a map.
    pub element: Option<Arc<Decl>>,
}

/// The size that a request is assumed to have at most, in bytes.
pub(in crate::schema) const MAX_REQUEST: u64 = 3_145_728;

impl Decl {
    fn scalar(ty: Type, min_size: u64, max_elements: u64) -> Decl {
        Decl { ty, reading: Reading::Plain, min_size, max_elements, element: None }
    }

    /// The declaration of a node; none when it has no type (CEL-007).
    pub(super) fn of(node: &Definition) -> Option<Decl> {
        let limit = |limit: Option<i64>| limit.map(|limit| u64::try_from(limit).unwrap_or(0));
        let most_text = limit(node.max_length).map_or(MAX_REQUEST - 2, |most| most.saturating_mul(4));
        if node.int_or_string {
            return Some(Decl::scalar(Type::Dyn, 1, most_text));
        }
        match &*node.r#type {
            "boolean" => Some(Decl::scalar(Type::Bool, 4, 1)),
            "integer" => Some(Decl::scalar(Type::Int, 1, 1)),
            "number" => Some(Decl::scalar(Type::Double, 1, 1)),
            "string" => Some(Decl::of_text(node, most_text, limit(node.max_length))),
            "array" => {
                let element = Decl::of(node.items.as_deref()?)?;
                let most = limit(node.max_items).unwrap_or((MAX_REQUEST - 2) / (element.min_size + 1));
                let ty = Type::list(element.ty.clone());
                Some(Decl { element: Some(Arc::new(element)), ..Decl::scalar(ty, 2, most) })
            }
            "object" => match &node.additional_properties {
                Some(value) => {
                    let element = Decl::of(value)?;
                    let most = limit(node.max_properties).unwrap_or((MAX_REQUEST - 2) / (element.min_size + 6));
                    let ty = Type::map(Type::Text, element.ty.clone());
                    Some(Decl { element: Some(Arc::new(element)), ..Decl::scalar(ty, 2, most) })
                }
                None => Some(Decl::of_object(node, &BTreeMap::new())),
            },
            _ => None,
        }
    }

    /// Whether a node has a declaration.
    pub(super) fn is_of(node: &Definition) -> bool {
        node.int_or_string
            || match &*node.r#type {
                "boolean" | "integer" | "number" | "string" => true,
                "array" => node.items.as_deref().is_some_and(Decl::is_of),
                "object" => node.additional_properties.as_deref().is_none_or(Decl::is_of),
                _ => false,
            }
    }

    fn of_text(node: &Definition, most: u64, max_length: Option<u64>) -> Decl {
        let read = |ty, reading, min_size, most| Decl { reading, ..Decl::scalar(ty, min_size, most) };
        match &*node.format {
            "byte" => read(Type::Bytes, Reading::Bytes, 2, max_length.unwrap_or(MAX_REQUEST - 2)),
            "duration" => read(Type::Duration, Reading::Duration, 3, 32),
            "date" => read(Type::Timestamp, Reading::Date, 12, 12),
            "date-time" => read(Type::Timestamp, Reading::DateTime, 21, 32),
            _ => {
                let entries = node.r#enum.iter().filter_map(|entry| serde_json::from_str::<String>(entry.get()).ok());
                let longest = entries.map(|entry| u64::try_from(entry.len()).unwrap_or(u64::MAX)).max();
                let most = longest.filter(|_| max_length.is_none()).unwrap_or(most);
                Decl::scalar(Type::Text, 2, most)
            }
        }
    }

    /// The declaration of an object with fields; `instead` has those that are declared otherwise than the node says, or besides.
    fn of_object(node: &Definition, instead: &BTreeMap<&str, Definition>) -> Decl {
        let mut min_size = 2_u64;
        let required: HashSet<&str> = node.required.iter().map(String::as_str).collect();
        let own = node.each_property().filter(|(name, _)| !instead.contains_key(name));
        let all = own.chain(instead.iter().map(|(name, child)| (*name, child)));
        let fields = all.filter_map(|(name, child)| {
            let decl = Decl::of(child)?;
            let has_default = child.default.as_ref().is_some_and(|default| default.get() != "null");
            if required.contains(name) && !has_default {
                min_size = min_size.saturating_add(name.len() as u64 + decl.min_size + 4);
            }
            Some((escaped(name)?, Field { name: name.to_owned(), decl }))
        });
        let structure = Structure { fields: fields.collect() };
        Decl::scalar(Type::Object(Arc::new(structure)), min_size, 1)
    }

    /// The declaration with the fields that every Kubernetes object has, for a root of type object (CEL-008).
    pub(super) fn with_pseudo_fields(node: &Definition) -> Option<Decl> {
        let has_fields = node.r#type == "object" && !node.int_or_string && node.additional_properties.is_none();
        if has_fields { Some(Decl::of_object(node, &pseudo_fields(node))) } else { Decl::of(node) }
    }

    /// The structure of an object.
    pub(super) fn structure(&self) -> Option<&Structure> {
        match &self.ty {
            Type::Object(structure) => Some(structure),
            _ => None,
        }
    }
}

/// The fields that every Kubernetes object has, as far as a node does not have them itself.
fn pseudo_fields(node: &Definition) -> BTreeMap<&'static str, Definition> {
    let text = || Definition { r#type: "string".to_owned(), ..Definition::default() };
    let own = |name: &str| node.each_property().filter(|(own, _)| *own == name).map(|(_, own)| own).last();
    let texts = ["apiVersion", "kind"].into_iter().filter(|name| own(name).is_none_or(|own| own.r#type != "string"));
    let mut fields: BTreeMap<_, _> = texts.map(|name| (name, text())).collect();
    let is_open = |own: &&Definition| own.r#type == "object" && own.additional_properties.is_none();
    let object = || Definition { r#type: "object".to_owned(), ..Definition::default() };
    let mut metadata = own("metadata").filter(is_open).cloned().unwrap_or_else(object);
    let mut members: BTreeMap<Box<str>, Definition> = metadata.properties.take().into_iter().flatten().collect();
    for name in ["name", "generateName"] {
        members.entry(name.into()).or_insert_with(text);
    }
    metadata.properties = Some(members.into_iter().collect());
    fields.insert("metadata", metadata);
    fields
}

/// The name of a property as a field, if it can be one (CEL-027).
pub(super) fn escaped(name: &str) -> Option<String> {
    let mut chars = name.chars();
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/');
    // What stands first may be escaped as well.
    if !chars.next().is_some_and(|c| is_start(c) || matches!(c, '.' | '-' | '/')) || !chars.all(is_plain) {
        return None;
    }
    if ["true", "false", "null", "in"].contains(&name) || parse::RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let (taken, written) = match c {
            '_' if rest.starts_with("__") => ("__", "__underscores__"),
            '.' => (".", "__dot__"),
            '-' => ("-", "__dash__"),
            '/' => ("/", "__slash__"),
            _ => (rest.get(..1).unwrap_or_default(), rest.get(..1).unwrap_or_default()),
        };
        escaped.push_str(written);
        rest = rest.get(taken.len()..).unwrap_or_default();
    }
    Some(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_kubernetes_does() {
        // CEL-027
        for (name, want) in [
            ("a", Some("a")),
            ("a-b", Some("a__dash__b")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("a__b", Some("a__underscores__b")),
            ("_a_", Some("_a_")),
            ("namespace", Some("__namespace__")),
            ("in", Some("__in__")),
            ("int", Some("int")),
            ("1a", None),
            ("a b", None),
            ("ä", None),
            ("", None),
        ] {
            assert_eq!(escaped(name).as_deref(), want, "{name}");
        }
    }

    #[test]
    fn sizes_follow_from_the_schema() {
        // CEL-014
        for (schema, min, most) in [
            (r#"{"x-kubernetes-int-or-string":true}"#, 1, 3_145_726),
            (r#"{"type":"string","maxLength":5}"#, 2, 20),
            (r#"{"type":"string","enum":["a","bcd"]}"#, 2, 3),
            (r#"{"type":"string"}"#, 2, 3_145_726),
            (r#"{"type":"string","format":"byte","maxLength":5}"#, 2, 5),
            (r#"{"type":"string","format":"duration"}"#, 3, 32),
            (r#"{"type":"string","format":"date"}"#, 12, 12),
            (r#"{"type":"string","format":"date-time"}"#, 21, 32),
            (r#"{"type":"array","items":{"type":"string"}}"#, 2, 1_048_575),
            (r#"{"type":"array","maxItems":7,"items":{"type":"string"}}"#, 2, 7),
            (r#"{"type":"object","additionalProperties":{"type":"boolean"}}"#, 2, 314_572),
            (
                r#"{"type":"object","required":["ab","c"],"properties":{"ab":{"type":"boolean"},
                "c":{"type":"string","default":"x"}}}"#,
                2 + 2 + 4 + 4,
                1,
            ),
        ] {
            let decl = Decl::of(&serde_json::from_str(schema).unwrap()).unwrap();
            assert_eq!((decl.min_size, decl.max_elements), (min, most), "{schema}");
        }
        for schema in ["{}", r#"{"type":"array","items":{}}"#, r#"{"type":"object","additionalProperties":{}}"#] {
            let node = serde_json::from_str(schema).unwrap();
            assert!(Decl::of(&node).is_none() && !Decl::is_of(&node), "CEL-007 {schema}");
        }
    }
}
