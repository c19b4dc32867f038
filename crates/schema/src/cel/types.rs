//! Types of expressions, and declarations of values.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::parse;

/// The type of an expression.
#[derive(Clone, Debug)]
pub(crate) enum Type {
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
    pub(crate) fn list(of: Type) -> Type {
        Type::List(Arc::new(of))
    }

    pub(crate) fn map(key: Type, value: Type) -> Type {
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
pub(crate) struct Structure {
    pub fields: BTreeMap<String, Field>,
}

/// A property.
#[derive(Debug)]
pub(crate) struct Field {
    /// Its name in the value.
    pub name: String,
    pub decl: Decl,
}

/// How to read a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Plain,
    Bytes,
    Duration,
    Date,
    DateTime,
}

/// What a value is to an expression.
#[derive(Debug, Clone)]
pub(crate) struct Decl {
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
pub(crate) const MAX_REQUEST: u64 = 3_145_728;

impl Decl {
    pub(crate) fn scalar(ty: Type, min_size: u64, max_elements: u64) -> Decl {
        Decl { ty, reading: Reading::Plain, min_size, max_elements, element: None }
    }

    /// The structure of an object.
    pub(super) fn structure(&self) -> Option<&Structure> {
        match &self.ty {
            Type::Object(structure) => Some(structure),
            _ => None,
        }
    }
}

/// The name of a property as a field, if it can be one (CEL-027).
pub(crate) fn escaped(name: &str) -> Option<String> {
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
}
