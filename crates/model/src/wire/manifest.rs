//! Objects in manifest files.

use serde_json::{Value, json};

use super::WireVersion;
use crate::hub::{Kind, Object, ObjectKey, group_of};
use golang::yaml::{LocatedValue, Positions, YamlDocument};
use schema::field::closest;

/// An object of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub line: usize,
    /// The positions of the fields in the file; none for an object that comes from elsewhere.
    pub positions: Positions,
    pub api_version: String,
    pub kind: String,
    pub key: ObjectKey,
    pub value: Value,
    /// The object as the file has it, if the value was changed afterwards.
    written: Option<Box<Value>>,
}

/// Reason why a document is not an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:1: {reason}")]
pub struct ManifestError {
    pub line: usize,
    pub reason: &'static str,
}

/// The default namespace of an object.
const DEFAULT_NAMESPACE: &str = "default";

/// Cluster-scoped kinds of the core group.
const CLUSTER_SCOPED: [&str; 3] = ["Namespace", "Node", "PersistentVolume"];

/// The objects of a document: itself, or the items of a List.
///
/// # Errors
/// When the document is not a Kubernetes object.
pub fn objects(document: YamlDocument) -> Result<Vec<Manifest>, ManifestError> {
    let line = document.line;
    let failure = |reason| ManifestError { line, reason };
    let mut value = document.value;
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&value, "apiVersion"), text(&value, "kind"));
    if !value.is_object() {
        return Err(failure("the document is not an object with apiVersion and kind"));
    }
    if api_version.is_empty() || kind.is_empty() {
        return Err(failure("the object has no apiVersion or no kind"));
    }
    if kind.ends_with("List") {
        let mut positions = item_positions(&document.positions, &value).into_iter();
        if let Some(Value::Array(items)) = value.get_mut("items").map(Value::take) {
            let items = items.into_iter().map(|value| {
                let positions = positions.next().unwrap_or_default();
                objects(YamlDocument { line, value, positions, ..YamlDocument::default() })
            });
            return Ok(items.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect());
        }
    }
    let metadata = value.get("metadata").cloned().unwrap_or_default();
    let namespace = match text(&metadata, "namespace") {
        empty if empty.is_empty() => DEFAULT_NAMESPACE.to_owned(),
        namespace => namespace,
    };
    let key = ObjectKey::new(namespace, text(&metadata, "name"));
    Ok(vec![Manifest { line, positions: document.positions, api_version, kind, key, value, written: None }])
}

/// The positions of the items of a List.
fn item_positions(positions: &Positions, list: &Value) -> Vec<Positions> {
    let items = positions.locate(list).and_then(|list| list.member("items"));
    items.into_iter().flat_map(LocatedValue::children).map(LocatedValue::to_positions).collect()
}

/// A step of a field path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathStep<'p> {
    /// `.name`
    Member(&'p str),
    /// `[0]`, `[name]`
    Entry(&'p str),
}

/// The steps of the text of a field path.
struct PathSteps<'p>(&'p str);

impl<'p> Iterator for PathSteps<'p> {
    type Item = PathStep<'p>;

    fn next(&mut self) -> Option<PathStep<'p>> {
        let text = self.0.strip_prefix('.').unwrap_or(self.0);
        let (step, rest) = if let Some(inner) = text.strip_prefix('[') {
            let (key, rest) = inner.split_once(']')?;
            (PathStep::Entry(key), rest)
        } else {
            let (name, rest) = text.split_at(text.find(['.', '[']).unwrap_or(text.len()));
            (PathStep::Member(name), rest)
        };
        self.0 = rest;
        (!text.is_empty()).then_some(step)
    }
}

/// The value that a step leads to. Rules name entries of lists by position or by name.
fn follow<'a>(value: LocatedValue<'a>, step: PathStep<'_>) -> Option<LocatedValue<'a>> {
    let (PathStep::Member(name) | PathStep::Entry(name)) = step;
    if !value.value().is_array() {
        return value.member(name);
    }
    let is_named = |entry: &LocatedValue<'_>| {
        let of = |member: &str| entry.value().get(member).and_then(Value::as_str);
        ["name", "class"].into_iter().any(|member| of(member) == Some(name))
    };
    match name.parse::<usize>() {
        Ok(index) => value.children().nth(index),
        Err(_) => value.children().find(is_named),
    }
}

/// A field of an object in a file.
#[derive(Clone, Debug)]
pub struct LocatedField<'a> {
    pub value: LocatedValue<'a>,
    /// Its name; `None` for the object itself and for entries of lists.
    pub key: Option<String>,
    /// Whether it is the field that was asked for, and not one above it.
    pub is_exact: bool,
}

impl Manifest {
    /// The kind, if the admission rules know it; its version may be unknown.
    pub fn admitted_kind(&self) -> Option<Kind> {
        let group = self.api_version.split_once('/').map(|(group, _)| group);
        (group == Some(crate::hub::GROUP)).then(|| Kind::from_name(&self.kind)).flatten()
    }

    /// Group, kind and key, equal in all versions of an object.
    pub fn identity(&self) -> (&str, &str, &ObjectKey) {
        (group_of(&self.api_version), &self.kind, &self.key)
    }

    /// The wire version of an object of our group.
    pub fn version(&self) -> Option<WireVersion> {
        WireVersion::from_api_version(&self.api_version)
    }

    /// The kind of ours that this one most likely misspells, with its `apiVersion`; such an object would not be checked
    /// otherwise.
    pub fn meant(&self) -> Option<(Kind, String)> {
        if self.admitted_kind().is_some() {
            return None;
        }
        let (group, version) = self.api_version.split_once('/').unwrap_or((&self.api_version, ""));
        let is_ours = group == crate::hub::GROUP || closest(group, [crate::hub::GROUP]).is_some();
        let name = Kind::from_name(&self.kind).map(Kind::name);
        let name = name.or_else(|| closest(&self.kind, Kind::ALL.map(Kind::name))).filter(|_| is_ours)?;
        let written = format!("{}/{}", crate::hub::GROUP, version.to_ascii_lowercase());
        let version = WireVersion::from_api_version(&written).unwrap_or(WireVersion::V1Beta2);
        Some((Kind::from_name(name)?, format!("{}/{version}", crate::hub::GROUP)))
    }

    /// The object as the file has it.
    fn written(&self) -> &Value {
        self.written.as_deref().unwrap_or(&self.value)
    }

    /// Keeps the object as the file has it, before its value is changed: positions are those of the file.
    pub fn keep_written(&mut self) {
        self.written.get_or_insert_with(|| Box::new(self.value.clone()));
    }

    /// The field at a path, such as `spec.variables[region].value`, or the nearest one above it that is in the file; `None`
    /// without positions.
    pub fn locate(&self, path: &str) -> Option<LocatedField<'_>> {
        let root = self.positions.locate(self.written())?;
        let mut found = LocatedField { value: root, key: None, is_exact: true };
        for step in PathSteps(path) {
            match follow(found.value, step) {
                Some(below) => {
                    let (PathStep::Member(name) | PathStep::Entry(name)) = step;
                    let key = found.value.value().is_object().then(|| name.to_owned());
                    found = LocatedField { value: below, key, is_exact: true };
                }
                None => return Some(LocatedField { is_exact: false, ..found }),
            }
        }
        Some(found)
    }

    /// A path with the names of patches, variables and workers in place of their positions:
    /// `spec.patches[network].enabledIf`.
    pub fn named_path(&self, path: &str) -> String {
        let (mut named, mut value) = (String::with_capacity(path.len()), Some(self.written()));
        for step in PathSteps(path) {
            let (PathStep::Member(name) | PathStep::Entry(name)) = step;
            let below = match value {
                Some(Value::Array(entries)) => name.parse().ok().and_then(|position: usize| entries.get(position)),
                Some(value) => value.get(name),
                None => None,
            };
            let of = |member: &str| below?.get(member)?.as_str().filter(|name| !name.is_empty() && name.len() < 64);
            match step {
                PathStep::Member(name) => {
                    named.extend((!named.is_empty()).then_some('.'));
                    named.push_str(name);
                }
                PathStep::Entry(position) => {
                    let name =
                        if value.is_some_and(Value::is_array) { of("name").or_else(|| of("class")) } else { None };
                    named.push_str(&format!("[{}]", name.unwrap_or(position)));
                }
            }
            value = below;
        }
        named
    }

    /// Whether the file sets the namespace.
    pub fn names_its_namespace(&self) -> bool {
        self.value.pointer("/metadata/namespace").is_some_and(|namespace| namespace != "")
    }

    /// The object as JSON, with its namespace.
    pub fn text(&self) -> String {
        self.in_its_namespace().to_string()
    }

    /// The object with its namespace, without one if its kind is known to be cluster-scoped.
    pub fn object(&self) -> Option<Object> {
        let is_in_none = self.api_version == "v1" && CLUSTER_SCOPED.contains(&&*self.kind);
        Object::try_from(if is_in_none { self.value.clone() } else { self.in_its_namespace() }).ok()
    }

    fn in_its_namespace(&self) -> Value {
        let mut value = self.value.clone();
        if let Some(metadata) =
            value.as_object_mut().map(|object| object.entry("metadata").or_insert_with(|| json!({})))
            && let Some(metadata) = metadata.as_object_mut()
        {
            metadata.insert("namespace".to_owned(), self.key.namespace.clone().into());
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use golang::yaml::{Position, documents};

    fn read(text: &str) -> Result<Vec<Manifest>, ManifestError> {
        documents(text)
            .into_iter()
            .map(|document| objects(document.unwrap()))
            .collect::<Result<Vec<_>, _>>()
            .map(|all| all.concat())
    }

    #[test]
    fn a_path_has_the_position_of_its_key_or_of_the_nearest_one_above_it() {
        let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: cluster.x-k8s.io/v1beta2\n  kind: Cluster\n  \
                    metadata:\n    name: a\n    labels:\n      a.b/c: d\n  spec:\n    topology:\n      variables:\n      \
                    - name: region\n        value: {x: 1}\n      - {name: other}\n";
        let cluster = &read(text).unwrap()[0];
        for (path, line, column) in [
            ("metadata.labels[a.b/c]", 9, 7),
            ("spec.topology.variables[region].value.x", 14, 17),
            ("spec.topology.variables[1].value", 15, 9),
            ("spec.topology.variables[none]", 12, 7),
            ("spec.topology.workers.machineDeployments[0]", 11, 5),
            ("[]", 4, 3),
            ("", 4, 3),
        ] {
            let found = cluster.locate(path).unwrap();
            assert_eq!(found.value.key_position(), Position { line, column }, "{path}");
        }
        let steps: Vec<_> = PathSteps("a.b[c.d/e][0].f[g").collect();
        let (member, entry) = (PathStep::Member, PathStep::Entry);
        assert_eq!(steps, [member("a"), member("b"), entry("c.d/e"), entry("0"), member("f")]);
    }

    #[test]
    fn a_path_names_entries_of_lists() {
        let text = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass\nmetadata: {name: a, labels: {\"0\": b}}\n\
                    spec: {patches: [{name: network, definitions: [{jsonPatches: [{}]}]}, {name: \"\"}], workers: \
                    {machineDeployments: [{class: small}]}}\n";
        let class = &read(text).unwrap()[0];
        for (path, want) in [
            (
                "spec.patches[0].definitions[0].jsonPatches[0].path",
                "spec.patches[network].definitions[0].jsonPatches[0].path",
            ),
            ("spec.patches[1].enabledIf", "spec.patches[1].enabledIf"),
            ("spec.patches[2]", "spec.patches[2]"),
            ("spec.patches[network]", "spec.patches[network]"),
            ("spec.workers.machineDeployments[0].class", "spec.workers.machineDeployments[small].class"),
            ("metadata.labels[0]", "metadata.labels[0]"),
            ("", ""),
        ] {
            assert_eq!(class.named_path(path), want);
        }
    }

    #[test]
    fn a_field_is_found_with_its_key_or_the_nearest_one_above() {
        let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nspec:\n  list: [{name: b, value: 1}]\n";
        let object = &read(text).unwrap()[0];
        for (path, key, is_exact) in [
            ("spec.list[b].value", Some("value"), true),
            ("spec.list[0]", None, true),
            ("spec.list[0].other", None, false),
            ("spec.other.value", Some("spec"), false),
            ("", None, true),
        ] {
            let found = object.locate(path).unwrap();
            assert_eq!((found.key.as_deref(), found.is_exact), (key, is_exact), "{path}");
        }
    }

    #[test]
    fn lists_are_split_into_their_items() {
        let text = "apiVersion: v1\nkind: List\nitems:\n\
                    - {apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, metadata: {name: a}}\n\
                    - {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: c}}\n";
        let all = read(text).unwrap();
        let seen: Vec<_> = all.iter().map(|one| (one.admitted_kind(), one.version(), one.key.to_string())).collect();
        assert_eq!(
            seen,
            [(Some(Kind::Cluster), Some(WireVersion::V1Beta1), "default/a".into()), (None, None, "c/b".into())]
        );
        assert!(all[0].text().contains("\"namespace\":\"default\""));
    }

    #[test]
    fn a_misspelled_kind_or_group_finds_the_closest_kind() {
        let ours = |version: &str| format!("cluster.x-k8s.io/{version}");
        for (api_version, kind, want) in [
            ("cluster.x-k8s.io/v1beta2", "Clustre", Some(("Cluster", ours("v1beta2")))),
            ("cluster.x-k8s.io/v1beta1", "clusterclass", Some(("ClusterClass", ours("v1beta1")))),
            ("cluster.x-k8s.oi/v1beta1", "Cluster", Some(("Cluster", ours("v1beta1")))),
            ("Cluster.X-k8s.io/V1beta1", "Cluster", Some(("Cluster", ours("v1beta1")))),
            ("cluster.x-k8s.io", "Cluster", Some(("Cluster", ours("v1beta2")))),
            ("cluster.x-k8s.io/v1beta2", "Cluster", None),
            ("cluster.x-k8s.io/v1beta2", "MachinePool", None),
            ("cluster.x-k8s.io/v1beta2", "MachineDeployment", None),
            ("infrastructure.cluster.x-k8s.io/v1beta2", "Clustre", None),
            ("apps/v1", "Deployment", None),
        ] {
            let text = format!("{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: a}}}}");
            let meant = read(&text).unwrap().remove(0).meant();
            let meant = meant.as_ref().map(|(kind, api_version)| (kind.name(), api_version.clone()));
            assert_eq!(meant, want, "{kind} of {api_version}");
        }
    }

    #[test]
    fn objects_are_in_a_namespace_unless_their_kind_is_in_none() {
        let read = |text: &str| read(text).unwrap().remove(0).object().unwrap().key().to_string();
        assert_eq!(read("{apiVersion: v1, kind: Secret, metadata: {name: a}}"), "default/a");
        assert_eq!(read("{apiVersion: v1, kind: Node, metadata: {name: a}}"), "/a");
        assert_eq!(read("{apiVersion: example.com/v1, kind: Node, metadata: {name: a, namespace: b}}"), "b/a");
    }

    #[test]
    fn documents_that_are_no_objects_are_rejected_with_their_line() {
        for (text, reason) in [
            ("\n- a\n", "the document is not an object with apiVersion and kind"),
            ("a: 1", "the object has no apiVersion or no kind"),
            ("apiVersion: v1\nkind: List\nitems: [5]", "the document is not an object with apiVersion and kind"),
        ] {
            assert_eq!(read(text).unwrap_err().reason, reason);
        }
        assert_eq!(read("\n- a\n").unwrap_err().line, 2);
    }
}
