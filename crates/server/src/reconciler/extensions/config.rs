//! ExtensionConfigs as the API server has them.

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
use model::hub::{Object, ObjectKey, ObjectRef};

/// An ExtensionConfig with its metadata as the client knows it.
#[derive(Clone, Debug)]
pub(super) struct RawConfig {
    metadata: ObjectMeta,
    /// Without managed fields.
    pub(super) object: Object,
}

impl RawConfig {
    /// Its key; it is in no namespace.
    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey::new("", self.object.name())
    }

    /// What Events are about.
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

    /// The hooks that it had handlers for when it was discovered last.
    pub(super) fn hooks(&self) -> BTreeSet<String> {
        hooks_of(self.value().get("status"))
    }

    /// What it selects; nothing if it cannot be read, since then it cannot be registered either.
    pub(super) fn selector(&self) -> Selector {
        ExtensionConfig::from_object(&self.object).map_or(Selector::Nothing, |config| config.selector)
    }

    /// What a registration depends on, besides what the extension answers: a status that changes is no reason to ask again.
    pub(super) fn revision(&self) -> Revision {
        Revision {
            uid: self.metadata.uid.clone().unwrap_or_default(),
            generation: self.metadata.generation.unwrap_or_default(),
            annotations: self.metadata.annotations.clone().unwrap_or_default().into_iter().collect(),
        }
    }
}

/// What an ExtensionConfig is like, its status left out.
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
        object.remove("metadata.managedFields");
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
