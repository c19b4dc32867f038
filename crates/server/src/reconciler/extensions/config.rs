//! ExtensionConfigs as the API server returns them.

use std::borrow::Cow;
use std::collections::BTreeSet;

use kube::api::ObjectMeta;
use kube::core::ClusterResourceScope;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::hooks_of;
use engine::extensions::config::{CONFIG_GROUP, CONFIG_KIND, CONFIG_VERSION};
use engine::extensions::{ExtensionConfig, Selector};
use golang::json::PlainValue;
use model::hub::{Object, ObjectKey, ObjectRef, paths};

/// An ExtensionConfig with its metadata as a type of the client.
#[derive(Clone, Debug)]
pub(super) struct RawConfig {
    metadata: ObjectMeta,
    /// Without managed fields.
    pub(super) object: Object,
}

impl RawConfig {
    /// Its key, without a namespace.
    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey::new("", self.object.name())
    }

    /// The reference for Events.
    pub(super) fn reference(&self) -> ObjectRef {
        ObjectRef::new(format!("{CONFIG_GROUP}/{CONFIG_VERSION}"), CONFIG_KIND, self.key())
    }

    /// The resourceVersion.
    pub(super) fn version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }

    /// The object as JSON.
    pub(super) fn value(&self) -> &Value {
        self.object.as_ref()
    }

    /// The hooks of its handlers by the last discovery.
    pub(super) fn hooks(&self) -> BTreeSet<String> {
        hooks_of(self.value().get("status"))
    }

    /// Its namespace selector; one that selects nothing if it cannot be read, since it cannot be registered either.
    pub(super) fn selector(&self) -> Selector {
        ExtensionConfig::from_object(&self.object).map_or(Selector::Nothing, |config| config.selector)
    }

    /// The part of the ExtensionConfig that a registration depends on: a changed status is no reason for another
    /// discovery.
    pub(super) fn revision(&self) -> Revision {
        Revision {
            uid: self.metadata.uid.clone().unwrap_or_default(),
            generation: self.metadata.generation.unwrap_or_default(),
            annotations: self.metadata.annotations.clone().unwrap_or_default().into_iter().collect(),
        }
    }
}

/// An ExtensionConfig without its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Revision {
    uid: String,
    generation: i64,
    annotations: Vec<(String, String)>,
}

impl<'de> Deserialize<'de> for RawConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let PlainValue(value) = Deserialize::deserialize(deserializer)?;
        let mut object = Object::try_from(value).map_err(D::Error::custom)?;
        object.remove(paths::metadata::MANAGED_FIELDS);
        let metadata = object.at("metadata").ok_or_else(|| D::Error::custom("the object has no metadata"))?;
        let metadata = ObjectMeta::deserialize(metadata).map_err(D::Error::custom)?;
        Ok(RawConfig { metadata, object })
    }
}

impl kube::Resource for RawConfig {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        CONFIG_KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        CONFIG_GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        CONFIG_VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "extensionconfigs".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
