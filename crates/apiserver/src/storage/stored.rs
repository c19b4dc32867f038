//! StoredEntry objects: JSON text, and the few fields that the store reads.
//!
//! A parsed object takes about seven times the memory of its text. It is parsed when a request reads its fields; most
//! reads and watches only copy the text, so an object is encoded once per version.

use bytes::Bytes;
use serde_json::Value;

use model::garbage::{Collectable, OwnerReference};
use model::hub::label::CLUSTER_NAME;

/// Approximate overhead of an object in bytes: its extracted fields, version, and index entries.
const OVERHEAD: usize = 512;

/// An object in its storage version, including its resourceVersion.
#[derive(Debug)]
pub(crate) struct StoredEntry {
    text: Bytes,
    pub version: u64,
    pub api_version: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
    labels: Box<[(Box<str>, Box<str>)]>,
    pub owners: Box<[OwnerEntry]>,
    pub holds: DeletionState,
}

/// An entry of `ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnerEntry {
    pub api_version: Box<str>,
    pub kind: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
    pub blocks_deletion: bool,
}

/// Deletion state of an object, and its finalizers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeletionState {
    pub is_being_deleted: bool,
    pub finalizers: Box<[Box<str>]>,
    /// Finalizers in the spec of a namespace.
    pub spec_finalizers: Box<[Box<str>]>,
}

impl StoredEntry {
    pub(super) fn new(object: &Value, version: u64) -> Self {
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let labels = metadata.get("labels").and_then(Value::as_object).into_iter().flatten();
        let label = |(name, value): (&String, &Value)| Some((name.as_str().into(), value.as_str()?.into()));
        StoredEntry {
            text: object.to_string().into_bytes().into_boxed_slice().into(),
            version,
            api_version: text(object, "apiVersion"),
            name: text(metadata, "name"),
            uid: text(metadata, "uid"),
            labels: labels.filter_map(label).collect(),
            owners: entries(metadata, "ownerReferences")
                .iter()
                .map(|entry| OwnerEntry::new(OwnerReference::read(entry)))
                .collect(),
            holds: DeletionState::read(object),
        }
    }

    /// The object as JSON.
    pub(crate) fn text(&self) -> &Bytes {
        &self.text
    }

    /// The parsed object.
    pub(crate) fn decode(&self) -> Value {
        // The text was written from a value within the nesting limit of a decoder (`shape::shaped`).
        serde_json::from_slice(&self.text).unwrap_or_default()
    }

    /// Approximate memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        OVERHEAD + self.text.len()
    }

    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| **label == *name).map(|(_, value)| &**value)
    }

    /// The Cluster in the label.
    pub(super) fn cluster(&self) -> Option<&str> {
        self.label(CLUSTER_NAME)
    }
}

impl Collectable for StoredEntry {
    fn name(&self) -> &str {
        &self.name
    }

    fn uid(&self) -> &str {
        &self.uid
    }

    fn owners(&self) -> impl Iterator<Item = OwnerReference<'_>> {
        self.owners.iter().map(OwnerEntry::reference)
    }

    fn is_being_deleted(&self) -> bool {
        self.holds.is_being_deleted
    }

    fn is_held(&self) -> bool {
        self.holds.any()
    }

    fn has_finalizer(&self, name: &str) -> bool {
        self.holds.has(name)
    }
}

impl OwnerEntry {
    fn new(reference: OwnerReference<'_>) -> Self {
        let OwnerReference { api_version, kind, name, uid, blocks_deletion } = reference;
        let [api_version, kind, name, uid] = [api_version, kind, name, uid].map(Into::into);
        OwnerEntry { api_version, kind, name, uid, blocks_deletion }
    }

    fn reference(&self) -> OwnerReference<'_> {
        let OwnerEntry { api_version, kind, name, uid, blocks_deletion } = self;
        OwnerReference { api_version, kind, name, uid, blocks_deletion: *blocks_deletion }
    }
}

impl DeletionState {
    pub(crate) fn read(object: &Value) -> Self {
        let member = |name: &str| object.get(name).unwrap_or(&Value::Null);
        let (metadata, spec) = (member("metadata"), member("spec"));
        let texts = |entries: &[Value]| entries.iter().filter_map(|entry| entry.as_str().map(Into::into)).collect();
        let is_namespace = *text(object, "apiVersion") == *"v1" && *text(object, "kind") == *"Namespace";
        DeletionState {
            is_being_deleted: metadata.get("deletionTimestamp").is_some_and(|time| !time.is_null()),
            finalizers: texts(entries(metadata, "finalizers")),
            spec_finalizers: if is_namespace { texts(entries(spec, "finalizers")) } else { Box::default() },
        }
    }

    /// Whether the object stays when it is deleted.
    pub(crate) fn any(&self) -> bool {
        !self.finalizers.is_empty() || !self.spec_finalizers.is_empty()
    }

    pub(super) fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|name| **name == *finalizer)
    }
}

fn text(object: &Value, name: &str) -> Box<str> {
    object.get(name).and_then(Value::as_str).unwrap_or_default().into()
}

fn entries<'v>(object: &'v Value, name: &str) -> &'v [Value] {
    object.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_decoded_as_it_was_and_its_main_fields_are_known_without_that() {
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": "a", "uid": "u", "labels": {"x": "y", CLUSTER_NAME: "c"}, "finalizers": ["f"],
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{"apiVersion": "v1", "kind": "B", "name": "b", "uid": "w", "blockOwnerDeletion": true}, {}],
            },
            "spec": {"finalizers": ["kubernetes"], "numbers": [1, -1, 1.0, 0.1, 1e300, u64::MAX, i64::MIN], "null": null, "text": "ä\u{0}\"\n"},
        });
        let stored = StoredEntry::new(&object, 7);
        assert_eq!(stored.decode(), object);
        assert_eq!((&*stored.api_version, &*stored.name, &*stored.uid, stored.version), ("v1", "a", "u", 7));
        assert_eq!((stored.label("x"), stored.label("z"), stored.cluster()), (Some("y"), None, Some("c")));
        let owner = |name: &str, uid: &str| (Box::from(name), Box::from(uid));
        let owners: Vec<_> = stored.owners.iter().map(|owner| (owner.name.clone(), owner.uid.clone())).collect();
        assert_eq!(owners, [owner("b", "w"), owner("", "")]);
        assert!(stored.owners[0].blocks_deletion && !stored.owners[1].blocks_deletion);
        assert!(stored.holds.is_being_deleted && stored.holds.any());
        assert!(stored.holds.has("f") && !stored.holds.has("kubernetes"));
        assert_eq!(stored.holds.spec_finalizers, ["kubernetes".into()].into());
    }

    #[test]
    fn the_spec_of_other_kinds_holds_no_object() {
        let object = json!({"apiVersion": "x.dev/v1", "kind": "Namespace", "metadata": {}, "spec": {"finalizers": ["kubernetes"]}});
        assert!(!DeletionState::read(&object).any());
    }
}
