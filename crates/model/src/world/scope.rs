//! The scope of an installation: its namespaces and label value.

use crate::hub::Metadata;
use crate::hub::naming::dns_label_faults;

/// The label that assigns an object to an installation.
const WATCH_FILTER: &str = "cluster.x-k8s.io/watch-filter";

/// The objects that an installation manages; defaults to all (DEC-37).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    namespaces: Vec<NamespacePattern>,
    watch_filter: Option<String>,
}

/// A namespace, or a prefix of namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NamespacePattern {
    Name(String),
    Prefix(String),
}

/// A namespace of a scope that is neither a name nor a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a namespace nor the beginning of one and \"*\"")]
pub struct InvalidNamespace(pub String);

impl Scope {
    /// A scope of the objects in `namespaces`, each a name or a prefix followed by `*`, whose label
    /// `cluster.x-k8s.io/watch-filter` is `watch_filter` (CT-15.14). An empty list means all namespaces, and `None` any
    /// label or none.
    ///
    /// # Errors
    /// Names the invalid entry.
    pub fn new(namespaces: &[String], watch_filter: Option<String>) -> Result<Self, InvalidNamespace> {
        let namespaces = namespaces.iter().map(|text| NamespacePattern::parse(text)).collect::<Result<_, _>>()?;
        Ok(Scope { namespaces, watch_filter })
    }

    /// Whether objects of a namespace may be in scope.
    pub fn has_namespace(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|pattern| pattern.matches(namespace))
    }

    /// Whether an object is in scope.
    pub fn has(&self, metadata: &Metadata) -> bool {
        self.has_namespace(&metadata.namespace) && self.has_labels(metadata)
    }

    /// Whether the labels of an object are in scope.
    pub fn has_labels(&self, metadata: &Metadata) -> bool {
        self.has_label(|name| metadata.labels.get(name))
    }

    /// As [`Scope::has_labels`], for labels that are looked up by name.
    pub fn has_label<'l>(&self, label: impl FnOnce(&str) -> Option<&'l str>) -> bool {
        self.watch_filter.as_ref().is_none_or(|wanted| label(WATCH_FILTER) == Some(wanted))
    }

    /// Whether labels restrict the scope.
    pub fn filters_labels(&self) -> bool {
        self.watch_filter.is_some()
    }

    /// The only namespace in scope, if there is exactly one.
    pub fn only_namespace(&self) -> Option<&str> {
        match self.namespaces.as_slice() {
            [NamespacePattern::Name(name)] => Some(name),
            _ => None,
        }
    }
}

impl NamespacePattern {
    fn parse(text: &str) -> Result<Self, InvalidNamespace> {
        let (name, is_prefix) = text.strip_suffix('*').map_or((text, false), |prefix| (prefix, true));
        let is_plain = match is_prefix {
            true => name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
            false => dns_label_faults(name).is_empty(),
        };
        match (is_plain, is_prefix) {
            (true, true) => Ok(NamespacePattern::Prefix(name.to_owned())),
            (true, false) => Ok(NamespacePattern::Name(name.to_owned())),
            (false, _) => Err(InvalidNamespace(text.to_owned())),
        }
    }

    fn matches(&self, namespace: &str) -> bool {
        match self {
            NamespacePattern::Name(name) => name == namespace,
            NamespacePattern::Prefix(prefix) => namespace.starts_with(&**prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scope(namespaces: &[&str], watch_filter: Option<&str>) -> Result<Scope, InvalidNamespace> {
        let namespaces: Vec<String> = namespaces.iter().map(|text| (*text).to_owned()).collect();
        Scope::new(&namespaces, watch_filter.map(str::to_owned))
    }

    #[test]
    fn a_scope_is_made_of_namespaces_and_a_label() {
        // DEC-37, CT-15.14
        let object = |namespace: &str, label: Option<&str>| -> Metadata {
            let labels = label.map(|label| json!({WATCH_FILTER: label}));
            serde_json::from_value(json!({"name": "x", "namespace": namespace, "labels": labels})).unwrap()
        };
        for (namespaces, filter, object, want) in [
            (&[][..], None, object("a", None), true),
            (&[], None, object("a", Some("v")), true),
            (&["a", "team-*"], None, object("a", None), true),
            (&["a", "team-*"], None, object("ab", None), false),
            (&["a", "team-*"], None, object("team-", None), true),
            (&["a", "team-*"], None, object("team-x", None), true),
            (&["a", "team-*"], None, object("my-team-x", None), false),
            (&["*"], None, object("any", None), true),
            (&[], Some("v"), object("a", Some("v")), true),
            (&[], Some("v"), object("a", Some("w")), false),
            (&[], Some("v"), object("a", None), false),
            (&["b"], Some("v"), object("a", Some("v")), false),
        ] {
            assert_eq!(scope(namespaces, filter).unwrap().has(&object), want, "{namespaces:?} {filter:?} {object:?}");
        }
    }

    #[test]
    fn one_namespace_alone_can_be_listed_by_itself() {
        for (namespaces, want) in [(&[][..], None), (&["a"], Some("a")), (&["a*"], None), (&["a", "b"], None)] {
            assert_eq!(scope(namespaces, None).unwrap().only_namespace(), want);
        }
        for wrong in ["", "a b", "*a", "a**", "A", "a/b"] {
            assert!(scope(&[wrong], None).is_err(), "{wrong}");
        }
    }
}
