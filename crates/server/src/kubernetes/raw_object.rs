//! Objects in the unchanged text of the API server.

use std::borrow::Cow;

use kube::api::{ApiResource, ObjectMeta};
use kube::core::DynamicResourceScope;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use model::hub::ObjectKey;

/// The unchanged text of an object, with the metadata that a watch needs.
///
/// Only the text is kept until it is read: as a tree an object takes seven times its size. So it is read from JSON only, where its type comes first in events, as it does in those of API servers.
#[derive(Clone, Debug)]
pub(super) struct RawObject {
    /// Name, namespace and resourceVersion, and nothing else.
    metadata: ObjectMeta,
    text: Box<RawValue>,
}

impl RawObject {
    /// Namespace and name.
    pub(super) fn key(&self) -> ObjectKey {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        ObjectKey::new(part(&self.metadata.namespace), part(&self.metadata.name))
    }

    /// The whole object.
    pub(super) fn text(&self) -> &str {
        self.text.get()
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct RawMetadata {
            metadata: ObjectNames,
        }

        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ObjectNames {
            name: Option<String>,
            namespace: Option<String>,
            resource_version: Option<String>,
        }

        let text: Box<RawValue> = Deserialize::deserialize(deserializer)?;
        let RawMetadata { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let ObjectNames { name, namespace, resource_version } = metadata;
        let metadata = ObjectMeta { name, namespace, resource_version, ..ObjectMeta::default() };
        Ok(RawObject { metadata, text })
    }
}

impl kube::Resource for RawObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        (&*resource.group).into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        (&*resource.version).into()
    }

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        (&*resource.kind).into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        (&*resource.plural).into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use kube::api::{ObjectList, WatchEvent};
    use kube::{Resource, ResourceExt};

    use super::*;

    const OBJECT: &str = r#"{"kind":"Cluster", "metadata":{"name":"a","resourceVersion":"7","managedFields":[{}]},
        "spec":{"b":1e999,"a":1.50,"$serde_json::private::RawValue":5}}"#;

    #[test]
    fn objects_stay_as_they_are_written_and_nothing_is_kept_twice() {
        let list = format!(r#"{{"kind":"ClusterList","apiVersion":"v1","metadata":{{}},"items":[{OBJECT}]}}"#);
        let list: ObjectList<RawObject> = serde_json::from_str(&list).unwrap();
        let event = format!(r#"{{"type":"ADDED","object":{OBJECT}}}"#);
        let Ok(WatchEvent::Added(added)) = serde_json::from_str::<WatchEvent<RawObject>>(&event) else { panic!() };
        for object in [&list.items[0], &added] {
            assert_eq!((object.text(), object.key().to_string().as_str()), (OBJECT, "/a"));
            assert_eq!(object.resource_version().as_deref(), Some("7"));
            assert!(object.meta().managed_fields.is_none());
        }
    }

    #[test]
    fn a_text_without_readable_metadata_is_no_object() {
        for wrong in ["{}", "[]", r#"{"metadata":5}"#, r#"{"metadata":{"name":5}}"#] {
            assert!(serde_json::from_str::<RawObject>(wrong).is_err(), "{wrong}");
        }
    }
}
