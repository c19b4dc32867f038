//! A stored object: its JSON text, and the few fields that the store itself reads.
//!
//! As a tree an object takes about seven times as much memory as its text. It is decoded when a request reads its
//! fields; most reads and watches only send the text on, so that an object is encoded once for each of its versions.

use bytes::Bytes;
use serde_json::Value;

use model::garbage::{Collectable, OwnerReference};
use model::hub::label::CLUSTER_NAME;

/// About what an object takes besides its text: the fields that are kept, its version, and its place in the maps.
const OVERHEAD: usize = 512;

/// An object in its storage version, with its resourceVersion in it.
#[derive(Debug)]
pub(crate) struct Stored {
    text: Bytes,
    pub version: u64,
    pub api_version: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
    labels: Box<[(Box<str>, Box<str>)]>,
    pub owners: Box<[Owner]>,
    pub holds: Holds,
}

/// An entry of `ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    pub api_version: Box<str>,
    pub kind: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
    pub blocks_deletion: bool,
}

/// Whether an object is being deleted, and what keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holds {
    pub is_being_deleted: bool,
    pub finalizers: Box<[Box<str>]>,
    /// Those in the spec of a namespace.
    pub spec_finalizers: Box<[Box<str>]>,
}

impl Stored {
    pub(super) fn new(object: &Value, version: u64) -> Self {
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let labels = metadata.get("labels").and_then(Value::as_object).into_iter().flatten();
        let label = |(name, value): (&String, &Value)| Some((name.as_str().into(), value.as_str()?.into()));
        Stored {
            text: object.to_string().into_bytes().into_boxed_slice().into(),
            version,
            api_version: text(object, "apiVersion"),
            name: text(metadata, "name"),
            uid: text(metadata, "uid"),
            labels: labels.filter_map(label).collect(),
            owners: entries(metadata, "ownerReferences")
                .iter()
                .map(|entry| Owner::new(OwnerReference::read(entry)))
                .collect(),
            holds: Holds::read(object),
        }
    }

    /// The object as JSON.
    pub(crate) fn text(&self) -> &Bytes {
        &self.text
    }

    /// The object, decoded.
    pub(crate) fn decode(&self) -> Value {
        // The text was written from a value that is nested less deeply than a decoder accepts (`shape::shaped`).
        serde_json::from_slice(&self.text).unwrap_or_default()
    }

    /// About how many bytes it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        OVERHEAD + self.text.len()
    }

    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| **label == *name).map(|(_, value)| &**value)
    }

    /// The Cluster that the label names.
    pub(super) fn cluster(&self) -> Option<&str> {
        self.label(CLUSTER_NAME)
    }
}

impl Collectable for Stored {
    fn name(&self) -> &str {
        &self.name
    }

    fn uid(&self) -> &str {
        &self.uid
    }

    fn owners(&self) -> impl Iterator<Item = OwnerReference<'_>> {
        self.owners.iter().map(Owner::reference)
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

impl Owner {
    fn new(reference: OwnerReference<'_>) -> Self {
        let OwnerReference { api_version, kind, name, uid, blocks_deletion } = reference;
        let [api_version, kind, name, uid] = [api_version, kind, name, uid].map(Into::into);
        Owner { api_version, kind, name, uid, blocks_deletion }
    }

    fn reference(&self) -> OwnerReference<'_> {
        let Owner { api_version, kind, name, uid, blocks_deletion } = self;
        OwnerReference { api_version, kind, name, uid, blocks_deletion: *blocks_deletion }
    }
}

impl Holds {
    pub(crate) fn read(object: &Value) -> Self {
        let member = |name: &str| object.get(name).unwrap_or(&Value::Null);
        let (metadata, spec) = (member("metadata"), member("spec"));
        let texts = |entries: &[Value]| entries.iter().filter_map(|entry| entry.as_str().map(Into::into)).collect();
        let is_namespace = *text(object, "apiVersion") == *"v1" && *text(object, "kind") == *"Namespace";
        Holds {
            is_being_deleted: metadata.get("deletionTimestamp").is_some_and(|time| !time.is_null()),
            finalizers: texts(entries(metadata, "finalizers")),
            spec_finalizers: if is_namespace { texts(entries(spec, "finalizers")) } else { Box::default() },
        }
    }

    /// Whether the object stays after its deletion.
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
        let stored = Stored::new(&object, 7);
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
        assert!(!Holds::read(&object).any());
    }
}
