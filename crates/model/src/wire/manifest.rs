//! Objects in manifest files.

use serde_json::{Value, json};

use super::WireVersion;
use crate::hub::{Kind, Object, ObjectKey, group_of};
use golang::yaml::YamlDocument;
use schema::field::closest;

/// An object of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub line: usize,
    pub api_version: String,
    pub kind: String,
    pub key: ObjectKey,
    pub value: Value,
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
    if kind.ends_with("List")
        && let Some(Value::Array(items)) = value.get_mut("items").map(Value::take)
    {
        let items = items.into_iter().map(|value| objects(YamlDocument { line, value, repeated: Vec::new() }));
        return Ok(items.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect());
    }
    let metadata = value.get("metadata").cloned().unwrap_or_default();
    let namespace = match text(&metadata, "namespace") {
        empty if empty.is_empty() => DEFAULT_NAMESPACE.to_owned(),
        namespace => namespace,
    };
    let key = ObjectKey::new(namespace, text(&metadata, "name"));
    Ok(vec![Manifest { line, api_version, kind, key, value }])
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
    use golang::yaml::documents;

    fn read(text: &str) -> Result<Vec<Manifest>, ManifestError> {
        documents(text)
            .into_iter()
            .map(|document| objects(document.unwrap()))
            .collect::<Result<Vec<_>, _>>()
            .map(|all| all.concat())
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
