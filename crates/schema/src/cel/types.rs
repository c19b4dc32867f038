//! Types of expressions, and declarations of values.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::parse;

/// The type of an expression.
#[derive(Clone, Debug)]
pub(crate) enum CelType {
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
    List(Arc<CelType>),
    Map(Arc<(CelType, CelType)>),
    Optional(Arc<CelType>),
    Object(Arc<ObjectDecl>),
    /// A type variable, or a parameter of a signature.
    Open(u32),
}

impl CelType {
    pub(crate) fn list(of: CelType) -> CelType {
        CelType::List(Arc::new(of))
    }

    pub(crate) fn map(key: CelType, value: CelType) -> CelType {
        CelType::Map(Arc::new((key, value)))
    }

    pub(super) fn optional(of: CelType) -> CelType {
        CelType::Optional(Arc::new(of))
    }

    /// Types without parameters, by name.
    pub(super) const PLAIN: [(&'static str, CelType); 17] = [
        ("dyn", CelType::Dyn),
        ("null_type", CelType::Null),
        ("bool", CelType::Bool),
        ("int", CelType::Int),
        ("uint", CelType::Uint),
        ("double", CelType::Double),
        ("string", CelType::Text),
        ("bytes", CelType::Bytes),
        ("google.protobuf.Duration", CelType::Duration),
        ("google.protobuf.Timestamp", CelType::Timestamp),
        ("type", CelType::Kind),
        ("net.IP", CelType::Ip),
        ("net.CIDR", CelType::Cidr),
        ("kubernetes.URL", CelType::Url),
        ("kubernetes.Quantity", CelType::Quantity),
        ("kubernetes.Semver", CelType::Semver),
        ("kubernetes.NamedFormat", CelType::Format),
    ];

    /// Whether `%s` accepts values of the type.
    pub(super) fn has_text(&self) -> bool {
        match self {
            CelType::Null
            | CelType::Bool
            | CelType::Int
            | CelType::Uint
            | CelType::Double
            | CelType::Text
            | CelType::Bytes
            | CelType::Duration
            | CelType::Timestamp
            | CelType::Kind
            | CelType::List(_)
            | CelType::Map(_)
            | CelType::Dyn
            | CelType::Open(_) => true,
            CelType::Ip
            | CelType::Cidr
            | CelType::Url
            | CelType::Quantity
            | CelType::Semver
            | CelType::Format
            | CelType::Optional(_)
            | CelType::Object(_) => false,
        }
    }

    /// Parses a type of a signature: `list(A)`, `map(string,A)`, `optional(A)`.
    pub(super) fn read(text: &str) -> CelType {
        let inside = |open: &str| text.strip_prefix(open).and_then(|rest| rest.strip_suffix(')'));
        if let Some(of) = inside("list(") {
            return CelType::list(CelType::read(of));
        }
        if let Some(of) = inside("optional(") {
            return CelType::optional(CelType::read(of));
        }
        if let Some((key, value)) = inside("map(").and_then(|of| of.split_once(',')) {
            return CelType::map(CelType::read(key), CelType::read(value));
        }
        match text {
            "A" => CelType::Open(0),
            "B" => CelType::Open(1),
            "duration" => CelType::Duration,
            "timestamp" => CelType::Timestamp,
            "null" => CelType::Null,
            "ip" => CelType::Ip,
            "cidr" => CelType::Cidr,
            "url" => CelType::Url,
            "quantity" => CelType::Quantity,
            "semver" => CelType::Semver,
            "format" => CelType::Format,
            name => {
                CelType::PLAIN.into_iter().find(|(known, _)| *known == name).map_or(CelType::Dyn, |(_, known)| known)
            }
        }
    }
}

impl PartialEq for CelType {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (CelType::List(a), CelType::List(b)) | (CelType::Optional(a), CelType::Optional(b)) => a == b,
            (CelType::Map(a), CelType::Map(b)) => a == b,
            (CelType::Object(a), CelType::Object(b)) => Arc::ptr_eq(a, b),
            (CelType::Open(a), CelType::Open(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }
}

impl fmt::Display for CelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CelType::List(of) => write!(f, "list({of})"),
            CelType::Map(parts) => write!(f, "map({}, {})", parts.0, parts.1),
            CelType::Optional(of) => write!(f, "optional({of})"),
            CelType::Object(_) => f.write_str("object"),
            CelType::Open(_) => f.write_str("unknown"),
            CelType::Duration => f.write_str("duration"),
            CelType::Timestamp => f.write_str("timestamp"),
            plain => {
                let named = CelType::PLAIN.into_iter().find(|(_, known)| known == plain);
                f.write_str(named.map_or("dyn", |(name, _)| name))
            }
        }
    }
}

/// The properties of an object, by their names in expressions (CEL-027).
#[derive(Debug, Default)]
pub(crate) struct ObjectDecl {
    pub fields: BTreeMap<String, FieldDecl>,
}

impl ObjectDecl {
    /// The property with this name in expressions. A reserved word names its property with and without underscores
    /// (CEL-027).
    pub(super) fn field(&self, name: &str) -> Option<&FieldDecl> {
        self.entry(name).map(|(_, field)| field)
    }

    /// The property with this name, and the name under which it is declared.
    pub(super) fn entry(&self, name: &str) -> Option<(&String, &FieldDecl)> {
        let reserved = || parse::RESERVED.contains(&name).then(|| format!("__{name}__"));
        self.fields.get_key_value(name).or_else(|| self.fields.get_key_value(&reserved()?))
    }
}

/// A property.
#[derive(Debug)]
pub(crate) struct FieldDecl {
    /// Name in the value.
    pub name: String,
    pub decl: Decl,
}

/// Interpretation of a JSON string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextEncoding {
    Plain,
    Bytes,
    Duration,
    Date,
    DateTime,
}

/// The declaration of a value for expressions.
#[derive(Debug, Clone)]
pub(crate) struct Decl {
    pub ty: CelType,
    pub reading: TextEncoding,
    /// Minimum serialised size in bytes (CEL-014).
    pub min_size: u64,
    /// Maximum number of elements or characters (CEL-014).
    pub max_elements: u64,
    /// The declaration of list elements or map values.
    pub element: Option<Arc<Decl>>,
}

/// Assumed maximum size of a request, in bytes.
pub(crate) const MAX_REQUEST: u64 = 3_145_728;

impl Decl {
    pub(crate) fn scalar(ty: CelType, min_size: u64, max_elements: u64) -> Decl {
        Decl { ty, reading: TextEncoding::Plain, min_size, max_elements, element: None }
    }

    /// The structure of an object.
    pub(super) fn structure(&self) -> Option<&ObjectDecl> {
        match &self.ty {
            CelType::Object(structure) => Some(structure),
            _ => None,
        }
    }
}

/// The name of a property as a field, if it can be written as one (CEL-027).
pub(crate) fn escaped(name: &str) -> Option<String> {
    let mut chars = name.chars();
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/');
    // The first character may be escaped as well.
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
