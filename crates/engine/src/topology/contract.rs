//! The version in which a kind is read, and its contract.

use std::collections::BTreeMap;

use super::Failure;
use model::hub::contract::{
    Contract, assumed, assumed_contract, definition_name, listed, names_contracts, newest_version,
};
use model::hub::{Object, ResourceDefinition, version_of};
use model::world::{Found, World};

/// The contract of an object's version, and whether it is assumed because no definition names contracts (DEC-17).
///
/// # Errors
/// When the definition lists the version for no contract (CS-08), or cannot be read.
pub(super) fn contract_of(object: &Object, world: &World) -> Result<(Contract, bool), Failure> {
    let (group, kind, version) = (object.group(), object.kind(), version_of(object.api_version()));
    match labels(group, kind, world)? {
        Some(labels) => {
            let contract = listed(&labels, version).ok_or_else(|| Failure::NoContract {
                definition: definition_name(group, kind),
                version: version.to_owned(),
            })?;
            Ok((contract, false))
        }
        None => Ok((assumed(group, kind, version), true)),
    }
}

/// The version in which objects of a kind are read if no template of the class determines it (CS-07); `None` if the
/// kind is unknown, which only happens without an API server.
///
/// # Errors
/// When the definition names no version for a supported contract, or cannot be read.
pub(super) fn version_to_read(group: &str, kind: &str, world: &World) -> Result<Option<String>, Failure> {
    let Some(labels) = labels(group, kind, world)? else { return Ok(None) };
    let newest = newest_version(&labels).map(str::to_owned);
    newest.map(Some).ok_or_else(|| Failure::NoVersion { definition: definition_name(group, kind) })
}

/// The labels of the definition of a kind; `None` when there is no definition among files, or a manifest without
/// contracts.
fn labels(group: &str, kind: &str, world: &World) -> Result<Option<BTreeMap<String, String>>, Failure> {
    let name = definition_name(group, kind);
    match world.definition(&name) {
        Found::Yes(definition) if world.is_offline() && is_manifest_without_contracts(&definition) => Ok(None),
        Found::Yes(definition) => Ok(Some(definition.labels.clone())),
        Found::Absent if world.is_offline() => Ok(None),
        Found::Absent => Err(Failure::NoDefinition { definition: name }),
        Found::Unreadable(reason) => Err(Failure::Unreadable(reason)),
        Found::NotAsked => Err(Failure::NotAsked),
    }
}

/// Whether a definition gets its contract labels later in an installation, as those in `config/crd/bases`. A stored
/// definition without labels is invalid (CS-08).
fn is_manifest_without_contracts(definition: &ResourceDefinition) -> bool {
    !definition.is_stored && !names_contracts(&definition.labels)
}

/// A note that the contract of an object is assumed, because its definition among the files names none.
pub(super) fn note_without_label(object: &Object, world: &World) -> Option<String> {
    let (group, kind, version) = (object.group(), object.kind(), version_of(object.api_version()));
    let definition = definition_name(group, kind);
    let Found::Yes(found) = world.definition(&definition) else { return None };
    let contract = assumed_contract(group, kind, version);
    is_manifest_without_contracts(&found).then(|| {
        format!(
            "CustomResourceDefinition {definition} has no label cluster.x-k8s.io/<contract>: contract {contract} is \
             assumed for version {version}"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use model::world::{Answer, Facts, Need, ObjectSet};

    fn world(labels: Option<&[(&str, &str)]>) -> World {
        let mut objects = ObjectSet::default();
        if let Some(labels) = labels {
            let labels =
                labels.iter().map(|(name, value)| (format!("cluster.x-k8s.io/{name}"), (*value).to_owned())).collect();
            let definition = ResourceDefinition { labels, ..ResourceDefinition::default() };
            objects.put_definition("controlplanes.controlplane.cluster.x-k8s.io".to_owned(), Arc::new(definition));
        }
        World::new(Arc::new(Facts::default().with_objects(objects)))
    }

    fn control_plane(version: &str) -> Object {
        let version = format!("controlplane.cluster.x-k8s.io/{version}");
        Object::try_from(json!({"apiVersion": version, "kind": "ControlPlane"})).unwrap()
    }

    #[test]
    fn the_contract_is_the_one_whose_label_lists_the_version() {
        // CS-08, CT-3.9
        for (labels, version, want) in [
            (vec![("v1beta1", "v1_v2"), ("v1beta2", "v3")], "v2", Some(Contract::V1Beta1)),
            (vec![("v1beta1", "v1_v2"), ("v1beta2", "v2_v3")], "v2", Some(Contract::V1Beta2)),
            (vec![("v1beta7", "v2")], "v2", Some(Contract::V1Beta2)),
            (vec![("v1beta1", "v1")], "v2", None),
        ] {
            let found = contract_of(&control_plane(version), &world(Some(&labels)));
            match want {
                Some(contract) => assert_eq!(found.unwrap(), (contract, false), "{labels:?}"),
                None => assert!(matches!(found, Err(Failure::NoContract { .. })), "{labels:?}"),
            }
        }
    }

    #[test]
    fn without_a_definition_the_contract_is_assumed() {
        // DEC-17
        let assumed = |version| contract_of(&control_plane(version), &world(None)).unwrap();
        assert_eq!(assumed("v1beta2"), (Contract::V1Beta2, true));
        assert_eq!(assumed("v1beta1"), (Contract::V1Beta1, true));
        assert_eq!(assumed("v1"), (Contract::V1Beta1, true));
        assert_eq!(
            model::hub::contract::assumed("controlplane.cluster.x-k8s.io", "AWSManagedControlPlane", "v1beta2"),
            Contract::V1Beta1
        );
        assert_eq!(
            model::hub::contract::assumed("controlplane.topologist.dev", "EmbeddedControlPlane", "v1beta1"),
            Contract::V1Beta2
        );
    }

    #[test]
    fn a_definition_without_contracts_is_none_in_files_and_an_error_in_a_cluster() {
        // DEC-17, CS-08
        let object = control_plane("v1beta2");
        let files = world(Some(&[("provider", "x")]));
        assert_eq!(contract_of(&object, &files).unwrap(), (Contract::V1Beta2, true));
        let note = note_without_label(&object, &files).unwrap();
        assert!(note.ends_with("contract v1beta2 is assumed for version v1beta2"), "{note}");
        assert_eq!(note_without_label(&object, &world(None)), None);
        assert_eq!(note_without_label(&object, &world(Some(&[("v1beta1", "v1beta2")]))), None);
        let stored = Arc::new(ResourceDefinition { is_stored: true, ..ResourceDefinition::default() });
        let mut objects = ObjectSet::default();
        objects.put_definition("controlplanes.controlplane.cluster.x-k8s.io".to_owned(), stored);
        let exported = World::new(Arc::new(Facts::default().with_objects(objects)));
        assert!(matches!(contract_of(&object, &exported), Err(Failure::NoContract { .. })), "exported from a cluster");
        let mut live = World::new(Arc::new(Facts::default()));
        let need =
            Need::Definition(model::world::DefinitionName("controlplanes.controlplane.cluster.x-k8s.io".to_owned()));
        live.pin(need, Answer::Definition(Found::Yes(Arc::default())));
        assert!(matches!(contract_of(&object, &live), Err(Failure::NoContract { .. })));
    }

    #[test]
    fn objects_are_read_in_the_newest_version_of_the_newest_contract() {
        // CS-07
        let read = |labels| version_to_read("controlplane.cluster.x-k8s.io", "ControlPlane", &world(labels));
        assert_eq!(read(Some(&[("v1beta1", "v1_v2")])).unwrap(), Some("v2".to_owned()));
        assert_eq!(read(None).unwrap(), None);
        assert_eq!(read(Some(&[])).unwrap(), None, "a definition in files without contracts");
        assert!(matches!(read(Some(&[("v1beta7", "v1")])), Err(Failure::NoVersion { .. })));
        let live = World::new(Arc::new(Facts::default()));
        assert!(matches!(version_to_read("g", "K", &live), Err(Failure::NotAsked)));
    }
}
