//! ClusterClasses as the API server returns them.

use std::sync::Arc;

use kube::api::ObjectMeta;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::kubernetes::observations::key_of;
use engine::admission::Oversize;
use golang::json::PlainValue;
use model::hub::{ClusterClass, Kind, Metadata, ObjectKey};
use model::wire::{Decode, WireVersion};

/// Why a class cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ClassReadError {
    #[error("its {} {}", .0.part, .0.reason())]
    TooLarge(Oversize),
    #[error("{0}")]
    Undecodable(String),
}

/// A ClusterClass: its unchanged JSON and the decoded class.
#[derive(Clone, Debug)]
pub(super) struct RawClass {
    metadata: ObjectMeta,
    /// The object in v1beta2, without managed fields.
    pub value: Value,
    /// The object as the program reads it, or why it cannot.
    pub hub: Result<Arc<ClusterClass>, ClassReadError>,
}

impl RawClass {
    /// Namespace and name.
    pub(super) fn key(&self) -> ObjectKey {
        key_of(self)
    }

    /// The decoded metadata.
    pub(super) fn labels(&self) -> Metadata {
        let metadata = self.value.get("metadata").map(Metadata::deserialize);
        metadata.and_then(Result::ok).unwrap_or_default()
    }

    /// The resourceVersion.
    pub(super) fn version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }

    /// The metadata as a type of the client.
    pub(super) fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl<'de> Deserialize<'de> for RawClass {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let PlainValue(mut value) = Deserialize::deserialize(deserializer)?;
        let metadata = value.get_mut("metadata").and_then(Value::as_object_mut);
        let metadata = metadata.ok_or_else(|| D::Error::custom("the object has no metadata"))?;
        metadata.remove("managedFields");
        let metadata = ObjectMeta::deserialize(&*metadata).map_err(D::Error::custom)?;
        let hub = read(&value.to_string()).map(Arc::new);
        Ok(RawClass { metadata, value, hub })
    }
}

/// The decoded class. It has to be within the limits that reviews enforce (DEC-44).
fn read(text: &str) -> Result<ClusterClass, ClassReadError> {
    match Oversize::find(text) {
        Some(oversize) => Err(ClassReadError::TooLarge(oversize)),
        None => ClusterClass::decode(WireVersion::V1Beta2, text).map_err(ClassReadError::Undecodable),
    }
}

resource!(RawClass, Kind::ClusterClass, metadata);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_class_that_the_guard_does_not_read_is_not_read_here_either() {
        // DEC-44
        let class = |nulls: usize| -> RawClass {
            let schema = json!({"openAPIV3Schema": {"type": "string", "allOf": vec![Value::Null; nulls]}});
            let spec = json!({"variables": [{"name": "v", "schema": schema}]});
            serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "c"}, "spec": spec})).unwrap()
        };
        assert!(class(1).hub.is_ok());
        let reason = class(30_000).hub.unwrap_err().to_string();
        assert!(reason.starts_with("its spec has 30") && reason.contains("JSON objects"), "{reason}");
    }
}
