//! One step of a path into an object, and paths of such steps.

use std::fmt;

use serde_json::{Map, Value};

use super::Literal;
use crate::field::Path;

/// One step of a path; steps are ordered as `managedFields` lists them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// A field of a map: `f:name`.
    Field(String),
    /// The entry of a keyed list with these keys, sorted by name: `k:{"name":"x"}`.
    Key(Vec<(String, Literal)>),
    /// An entry of a set: `v:"x"`.
    Value(Literal),
    /// An entry of a list by its position: `i:0`.
    Index(i64),
}

impl Element {
    /// A field of a map.
    pub fn field(name: &str) -> Self {
        Element::Field(name.to_owned())
    }

    /// Reads a step as `fieldsV1` writes it; none when its type is not known (yet).
    pub(super) fn parse(text: &str) -> Result<Option<Self>, String> {
        let wrong = |what: &dyn fmt::Display| format!("bad path element {text:?}: {what}");
        let Some((kind, rest)) = text.split_once(':') else { return Err(wrong(&"no type")) };
        Ok(match kind {
            "f" => Some(Element::field(rest)),
            "v" => Some(Element::Value(Literal(golang::json::value(rest).map_err(|error| wrong(&error))?))),
            "i" => Some(Element::Index(rest.parse().map_err(|error| wrong(&error))?)),
            "k" => match golang::json::value(rest).map_err(|error| wrong(&error))? {
                Value::Object(keys) => Some(Element::keys(keys)),
                _ => return Err(wrong(&"the keys are no object")),
            },
            _ => None,
        })
    }

    /// The entry of a keyed list with these keys.
    pub(super) fn keys(keys: impl IntoIterator<Item = (String, Value)>) -> Self {
        let mut keys: Vec<_> = keys.into_iter().map(|(name, value)| (name, Literal(value))).collect();
        keys.sort_by(|left, right| left.0.cmp(&right.0));
        Element::Key(keys)
    }

    /// The step as `fieldsV1` writes it.
    pub(super) fn encoded(&self) -> String {
        match self {
            Element::Field(name) => format!("f:{name}"),
            Element::Key(keys) => {
                let keys: Map<String, Value> =
                    keys.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect();
                format!("k:{}", Literal(Value::Object(keys)).go_json())
            }
            Element::Value(value) => format!("v:{}", value.go_json()),
            Element::Index(position) => format!("i:{position}"),
        }
    }

    /// The path with this step appended, as it is written for people: `spec.taints[key=x]`.
    pub(super) fn onto(&self, path: &Path) -> Path {
        match self {
            Element::Field(name) => path.member(name),
            Element::Key(keys) => {
                let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={}", bare(value))).collect();
                path.key(&keys.join(","))
            }
            Element::Value(value) => path.key(&bare(value)),
            Element::Index(position) => path.key(&position.to_string()),
        }
    }
}

fn bare(value: &Literal) -> String {
    value.0.as_str().map_or_else(|| value.0.to_string(), str::to_owned)
}

/// A step as the messages of a server show it: `.replicas`, `[name="x"]`, `[="x"]`, `[0]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(f, ".{name}"),
            Element::Key(keys) => {
                let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "[{}]", keys.join(","))
            }
            Element::Value(value) => write!(f, "[={value}]"),
            Element::Index(position) => write!(f, "[{position}]"),
        }
    }
}

/// A path into an object; it displays as the messages of a server show it: `.spec.containers[name="x"].image`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(pub Vec<Element>);

impl FieldPath {
    /// A path of fields of maps.
    pub fn of(names: &[&str]) -> Self {
        FieldPath(names.iter().map(|name| Element::field(name)).collect())
    }

    /// The path as field errors show it: `spec.containers[name=x].image`.
    pub fn to_path(&self) -> Path {
        self.0.iter().fold(Path::ROOT, |path, element| element.onto(&path))
    }
}

impl fmt::Display for FieldPath {
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
            let element = Element::parse(text).unwrap().unwrap();
            assert_eq!((element.encoded().as_str(), element.to_string().as_str()), (text, shown));
        }
        assert_eq!(Element::parse("x:new").unwrap(), None);
        for text in ["", "name", "k:", "k:[1]", "k:{", "v:", "i:one"] {
            assert!(Element::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_path_reads_like_those_of_field_errors() {
        let mut path = FieldPath::of(&["spec", "taints"]);
        path.0.push(Element::parse(r#"k:{"effect":"NoSchedule","key":"x"}"#).unwrap().unwrap());
        assert_eq!(path.to_path().as_str(), "spec.taints[effect=NoSchedule,key=x]");
        assert_eq!(FieldPath::of(&["metadata", "labels", "a.b/c"]).to_path().as_str(), "metadata.labels[a.b/c]");
        assert_eq!(FieldPath::default().to_path().to_string(), "[]");
    }
}
