//! The origins of the fields of computed objects (provenance).

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The origin of a field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The template of the class that the object was cloned from.
    Template { kind: Arc<str>, name: Arc<str> },
    /// A field of the ClusterClass, by its dotted path.
    Class(Cow<'static, str>),
    /// A field of the Cluster, by its dotted path.
    Cluster(Cow<'static, str>),
    /// The engine itself: names, references, owners, labels of topologies, the version of an upgrade step.
    Topology,
    /// An operation of a patch.
    Patch(PatchOrigin),
}

/// An operation of a patch with its variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchOrigin {
    pub patch: Arc<str>,
    /// The position of the definition in the patch; `None` for an external patch.
    pub definition: Option<usize>,
    /// The position of the operation in the definition, or in the answer of the extension.
    pub operation: usize,
    /// The sorted names of the variables that the value depends on.
    pub variables: Arc<[String]>,
    /// Whether one of these variables is a secret, so that the value is never shown (DEC-34).
    pub is_sensitive: bool,
}

/// A dotted path of an object with the origin of the values at and below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub path: Cow<'static, str>,
    pub origin: Origin,
}

/// The origins of the fields of one object: later marks override earlier ones at and below their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins(Vec<Mark>);

impl Origins {
    /// Sets the origin of all values at and below a path.
    pub fn mark(&mut self, path: impl Into<Cow<'static, str>>, origin: Origin) {
        self.0.push(Mark { path: path.into(), origin });
    }

    /// All marks, the earliest first.
    pub fn marks(&self) -> &[Mark] {
        &self.0
    }

    /// The marks above, at and below `path`, which determine its value; the last one overrides the others.
    pub fn marks_at<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Mark> {
        self.0.iter().filter(move |mark| is_below(path, &mark.path) || is_below(&mark.path, path))
    }

    /// The origin that determines the value at `path`.
    pub(super) fn decisive(&self, path: &str) -> Option<&Origin> {
        let decides = |mark: &&Mark| is_below(path, &mark.path) || is_below(&mark.path, path);
        self.0.iter().rfind(decides).map(|mark| &mark.origin)
    }

    /// Whether the value at `path` contains a secret (DEC-34).
    pub fn is_sensitive(&self, path: &str) -> bool {
        self.marks_at(path).any(|mark| matches!(&mark.origin, Origin::Patch(made_by) if made_by.is_sensitive))
    }
}

/// Whether `path` equals `above` or is below it.
pub(in crate::topology) fn is_below(path: &str, above: &str) -> bool {
    above.is_empty()
        || path
            .strip_prefix(above)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with('['))
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Template { kind, name } => write!(f, "{kind} {name}"),
            Origin::Class(path) => write!(f, "ClusterClass {path}"),
            Origin::Cluster(path) => write!(f, "Cluster {path}"),
            Origin::Topology => f.write_str("the topology itself"),
            Origin::Patch(patch) => write!(f, "{patch}"),
        }
    }
}

impl fmt::Display for PatchOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "patch {:?}", self.patch)?;
        if let Some(definition) = self.definition {
            write!(f, " definitions[{definition}].jsonPatches[{}]", self.operation)?;
        }
        if !self.variables.is_empty() {
            write!(f, " with {}", self.variables.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mark_at_or_above_a_path_decides() {
        let mut origins = Origins::default();
        origins.mark("", Origin::Topology);
        origins.mark("spec", Origin::Class("a".into()));
        origins.mark("spec.version", Origin::Cluster("b".into()));
        origins.mark("spec.versions", Origin::Cluster("c".into()));
        assert_eq!(origins.decisive("metadata.name"), Some(&Origin::Topology));
        assert_eq!(origins.decisive("spec.replicas"), Some(&Origin::Class("a".into())));
        assert_eq!(origins.decisive("spec.version"), Some(&Origin::Cluster("b".into())));
        assert_eq!(origins.decisive("spec.version[0].x"), Some(&Origin::Cluster("b".into())));
        assert_eq!(origins.marks_at("spec").count(), 4, "a whole has the origins of its parts");
        assert_eq!(origins.marks_at("spec.version").count(), 3);
    }
}
