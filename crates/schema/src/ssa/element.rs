//! Steps of paths into objects, and paths of such steps.

use std::fmt;
use std::num::ParseIntError;

use serde_json::{Map, Value};

use super::ListKey;
use crate::field::Path;

/// One step of a path, ordered as in `managedFields`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// A field of a map: `f:name`.
    Field(String),
    /// The entry of a keyed list with these keys, sorted by name: `k:{"name":"x"}`.
    Key(Vec<(String, ListKey)>),
    /// An entry of a set: `v:"x"`.
    Value(ListKey),
    /// An entry of a list by its position: `i:0`.
    Index(i64),
}

/// An invalid step of `fieldsV1`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad path element {element:?}: {fault}")]
pub struct PathElementError {
    element: String,
    #[source]
    fault: PathElementFault,
}

/// The fault of a step of `fieldsV1`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum PathElementFault {
    #[error("no type")]
    MissingType,
    #[error("{0}")]
    InvalidJson(String),
    #[error(transparent)]
    InvalidIndex(ParseIntError),
    #[error("the keys are no object")]
    KeysNotObject,
}

impl PathElement {
    /// A field of a map.
    pub fn field(name: &str) -> Self {
        PathElement::Field(name.to_owned())
    }

    /// Parses a step of `fieldsV1`; `None` for an unknown type.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, PathElementError> {
        let wrong = |fault| PathElementError { element: text.to_owned(), fault };
        let json =
            |text| golang::json::value(text).map_err(|error| wrong(PathElementFault::InvalidJson(error.to_string())));
        let Some((kind, rest)) = text.split_once(':') else { return Err(wrong(PathElementFault::MissingType)) };
        Ok(match kind {
            "f" => Some(PathElement::field(rest)),
            "v" => Some(PathElement::Value(ListKey(json(rest)?))),
            "i" => {
                Some(PathElement::Index(rest.parse().map_err(|error| wrong(PathElementFault::InvalidIndex(error)))?))
            }
            "k" => match json(rest)? {
                Value::Object(keys) => Some(PathElement::keys(keys)),
                _ => return Err(wrong(PathElementFault::KeysNotObject)),
            },
            _ => None,
        })
    }

    /// The entry of a keyed list with these keys.
    pub(super) fn keys(keys: impl IntoIterator<Item = (String, Value)>) -> Self {
        let mut keys: Vec<_> = keys.into_iter().map(|(name, value)| (name, ListKey(value))).collect();
        keys.sort_by(|left, right| left.0.cmp(&right.0));
        PathElement::Key(keys)
    }

    /// The step as `fieldsV1` writes it.
    pub(super) fn encoded(&self) -> String {
        match self {
            PathElement::Field(name) => format!("f:{name}"),
            PathElement::Key(keys) => {
                let keys: Map<String, Value> =
                    keys.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect();
                format!("k:{}", ListKey(Value::Object(keys)).go_json())
            }
            PathElement::Value(value) => format!("v:{}", value.go_json()),
            PathElement::Index(position) => format!("i:{position}"),
        }
    }

    /// The path with this step appended, in readable form: `spec.taints[key=x]`.
    pub(super) fn onto(&self, path: &Path) -> Path {
        match self {
            PathElement::Field(name) => path.member(name),
            PathElement::Key(keys) => {
                let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={}", bare(value))).collect();
                path.key(&keys.join(","))
            }
            PathElement::Value(value) => path.key(&bare(value)),
            PathElement::Index(position) => path.key(&position.to_string()),
        }
    }
}

fn bare(value: &ListKey) -> String {
    value.0.as_str().map_or_else(|| value.0.to_string(), str::to_owned)
}

/// The step in messages of a server: `.replicas`, `[name="x"]`, `[="x"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(f, ".{name}"),
            PathElement::Key(keys) => {
                let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "[{}]", keys.join(","))
            }
            PathElement::Value(value) => write!(f, "[={value}]"),
            PathElement::Index(position) => write!(f, "[{position}]"),
        }
    }
}

/// A path into an object, displayed as in messages of a server: `.spec.containers[name="x"].image`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ElementPath(pub Vec<PathElement>);

impl ElementPath {
    /// A path of map fields.
    pub fn from_fields(names: &[&str]) -> Self {
        ElementPath(names.iter().map(|name| PathElement::field(name)).collect())
    }

    /// The path in the form of field errors: `spec.containers[name=x].image`.
    pub fn to_path(&self) -> Path {
        self.0.iter().fold(Path::ROOT, |path, element| element.onto(&path))
    }
}

impl fmt::Display for ElementPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_and_written_as_the_server_does() {
        for (text, shown) in [
            ("f:a.b/c", ".a.b/c"),
            (r#"k:{"containerPort":80,"protocol":"TCP"}"#, r#"[containerPort=80,protocol="TCP"]"#),
            (r#"v:"x""#, r#"[="x"]"#),
            ("v:3", "[=3]"),
            ("i:7", "[7]"),
        ] {
            let element = PathElement::parse(text).unwrap().unwrap();
            assert_eq!((element.encoded().as_str(), element.to_string().as_str()), (text, shown));
        }
        assert_eq!(PathElement::parse("x:new").unwrap(), None);
        for text in ["", "name", "k:", "k:[1]", "k:{", "v:", "i:one"] {
            assert!(PathElement::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_path_reads_like_those_of_field_errors() {
        let mut path = ElementPath::from_fields(&["spec", "taints"]);
        path.0.push(PathElement::parse(r#"k:{"effect":"NoSchedule","key":"x"}"#).unwrap().unwrap());
        assert_eq!(path.to_path().as_str(), "spec.taints[effect=NoSchedule,key=x]");
        assert_eq!(
            ElementPath::from_fields(&["metadata", "labels", "a.b/c"]).to_path().as_str(),
            "metadata.labels[a.b/c]"
        );
        assert_eq!(ElementPath::default().to_path().to_string(), "[]");
    }
}
