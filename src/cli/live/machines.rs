//! The machines of topologies, and what they refer to.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::{ClusterReading, list};
use model::hub::contract::{definition_name, newest_version};
use model::hub::{ContractRef, GROUP, Object, label, paths};
use server::kubernetes::address::{self, Resource};

/// The kinds of Cluster API that are below a Cluster.
const KINDS: [&str; 5] = ["MachineDeployment", "MachineSet", "Machine", "MachinePool", "MachineHealthCheck"];
/// Their fields with references to objects of providers.
const REFERENCES: [&str; 4] = [
    paths::machine::BOOTSTRAP_CONFIG_REF,
    paths::INFRASTRUCTURE_REF,
    paths::worker::BOOTSTRAP_CONFIG_REF,
    paths::worker::INFRASTRUCTURE_REF,
];

/// Reads all objects of the kinds below Clusters, and those of the kinds that they refer to which name a Cluster by
/// their label.
pub(super) async fn read(reading: &mut ClusterReading) -> Result<()> {
    let mut kinds = BTreeSet::new();
    for kind in KINDS {
        let resource = Resource::known(GROUP, "v1beta2", kind);
        for object in labelled(reading, &resource, kind).await? {
            kinds.extend(REFERENCES.into_iter().filter_map(|path| referenced(&object, path)));
            reading.keep_object(object);
        }
    }
    for (group, kind) in kinds {
        let Some(version) = served(reading, &group, &kind).await? else { continue };
        // Names of kinds come from objects that tenants write.
        let resource = Resource::new(&group, &version, &kind)?;
        for object in labelled(reading, &resource, &kind).await? {
            reading.keep_object(object);
        }
    }
    Ok(())
}

/// The group and the kind that a reference names; none where nothing is referred to.
fn referenced(object: &Object, path: &str) -> Option<(String, String)> {
    let reference = object.at(path)?;
    let text = |name: &str| reference.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let to = ContractRef { api_group: text("apiGroup"), kind: text("kind"), name: text("name") };
    to.is_defined().then_some((to.api_group, to.kind))
}

/// The version of a kind that is read: the newest one that follows a contract; none for a kind without definition.
async fn served(reading: &ClusterReading, group: &str, kind: &str) -> Result<Option<String>> {
    let name = definition_name(group, kind);
    let one = address::one_of_cluster::<CustomResourceDefinition>(reading.client.clone(), &name)?;
    let definition = one.get_opt().await.with_context(|| format!("cannot read {name}"))?;
    let labels = definition.and_then(|definition| definition.metadata.labels).unwrap_or_default();
    Ok(newest_version(&labels).map(str::to_owned))
}

/// The objects of a kind that belong to a Cluster; none of a kind that is not served.
async fn labelled(reading: &ClusterReading, resource: &Resource, kind: &str) -> Result<Vec<Object>> {
    let objects = match list(&reading.client, resource, Some(label::CLUSTER_NAME)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        objects => objects.with_context(|| format!("cannot list objects of kind {kind}"))?,
    };
    Ok(objects.into_iter().filter_map(|object| Object::try_from(object).ok()).collect())
}

impl ClusterReading {
    /// Keeps an object, unless a topology has looked at it already.
    fn keep_object(&mut self, object: Object) {
        let id = (object.group().to_owned(), object.kind().to_owned(), object.key());
        self.definitions.insert(definition_name(&id.0, &id.1));
        self.objects.entry(id).or_insert_with(|| Arc::new(object));
    }
}
