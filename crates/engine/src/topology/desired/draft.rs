//! Builder for desired objects: each value is set together with its origin.

use std::sync::Arc;

use serde_json::{Value, json};

use super::metadata::MetadataEntry;
use super::{DesiredInputs, DesiredObject};
use crate::topology::Failure;
use crate::topology::origin::{Origin, Origins};
use crate::topology::shim::is_shim;
use crate::topology::worker::API_VERSION;
use model::hub::{Cluster, Object, label, paths};
use schema::field::Path;

impl DesiredObject {
    /// A new object in the namespace of the Cluster.
    pub(super) fn new(api_version: &str, kind: &str, name: &str, basis: DesiredInputs<'_>) -> Self {
        let metadata = json!({"name": name, "namespace": basis.namespace()});
        let mut origins = Origins::default();
        origins.mark("", Origin::Topology);
        let members = [
            ("apiVersion".to_owned(), api_version.into()),
            ("kind".to_owned(), kind.into()),
            ("metadata".to_owned(), metadata),
        ];
        DesiredObject { object: Object::from(serde_json::Map::from_iter(members)), origins }
    }

    /// Sets a value.
    pub(super) fn set(&mut self, path: &'static str, value: impl Into<Value>, origin: Origin) -> Result<(), Failure> {
        self.object.set(path, value.into())?;
        self.origins.mark(path, origin);
        Ok(())
    }

    /// Adds labels or annotations to the map at a path; without entries, the map stays unchanged.
    pub(super) fn overlay(&mut self, path: &'static str, entries: &[MetadataEntry<'_>]) -> Result<(), Failure> {
        if entries.is_empty() {
            return Ok(());
        }
        let members = self.object.members_mut_at(path)?;
        for MetadataEntry { key, value, origin } in entries {
            members.insert((*key).to_owned(), (*value).into());
            self.origins.mark(Path::new(path).member(key).into_text(), origin.clone());
        }
        Ok(())
    }

    /// Makes the Cluster the only owner.
    pub(super) fn own(&mut self, cluster: &Cluster) -> Result<(), Failure> {
        let mut owner = json!({"apiVersion": API_VERSION, "kind": "Cluster", "name": cluster.metadata.name});
        // Files may contain Clusters without a uid.
        if !cluster.metadata.uid.is_empty() {
            owner["uid"] = cluster.metadata.uid.as_str().into();
        }
        self.set(paths::metadata::OWNER_REFERENCES, vec![owner], Origin::Topology)
    }

    /// Keeps the shim as an owner, regardless of the version that created it (DS-10). Owners are compared by kind and
    /// name (LBL-06).
    pub(super) fn keep_shim(&mut self, current: Option<&Arc<Object>>, basis: DesiredInputs<'_>) -> Result<(), Failure> {
        let Some(current) = current else { return Ok(()) };
        let owners = current.list(paths::metadata::OWNER_REFERENCES)?.into_iter().flatten();
        let shims: Vec<Value> = owners.filter(|owner| is_shim(owner, basis.cluster_name())).cloned().collect();
        if shims.is_empty() { Ok(()) } else { self.set(paths::metadata::OWNER_REFERENCES, shims, Origin::Topology) }
    }
}

/// The labels of all objects of a topology (LBL-01).
pub(super) fn labels_of_all(basis: DesiredInputs<'_>) -> [MetadataEntry<'_>; 2] {
    [
        MetadataEntry::from_engine(label::CLUSTER_NAME, basis.cluster_name()),
        MetadataEntry::from_engine(label::OWNED, ""),
    ]
}

/// A reference without a version.
pub(super) fn contract_ref(object: &Object) -> Value {
    Value::from(&object.contract_ref())
}
