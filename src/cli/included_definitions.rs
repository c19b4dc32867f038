//! The CustomResourceDefinitions by which objects are checked if the files of a command have no definition of their kind:
//! of Cluster API's Kubeadm providers, and of the embedded provider.
//!
//! `make definitions` writes the former from Cluster API's module, without descriptions. Cluster API is licensed under the
//! Apache License 2.0, like this program.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde_json::Value;

use model::crd;
use model::hub::ResourceDefinition;

/// The file of one definition.
#[derive(Deserialize)]
struct IncludedDefinition {
    /// The version of Cluster API that it was taken from.
    release: String,
    definition: Value,
}

type Definition = LazyLock<Option<Arc<ResourceDefinition>>>;

/// The definitions by name, read on first use.
static DEFINITIONS: [(&str, Definition); 4] = [
    (
        "kubeadmconfigs.bootstrap.cluster.x-k8s.io",
        LazyLock::new(|| read(include_str!("included_definitions/kubeadmconfigs.json"))),
    ),
    (
        "kubeadmconfigtemplates.bootstrap.cluster.x-k8s.io",
        LazyLock::new(|| read(include_str!("included_definitions/kubeadmconfigtemplates.json"))),
    ),
    (
        "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io",
        LazyLock::new(|| read(include_str!("included_definitions/kubeadmcontrolplanes.json"))),
    ),
    (
        "kubeadmcontrolplanetemplates.controlplane.cluster.x-k8s.io",
        LazyLock::new(|| read(include_str!("included_definitions/kubeadmcontrolplanetemplates.json"))),
    ),
];

/// The definitions of the embedded provider by name.
static EMBEDDED: LazyLock<BTreeMap<String, Arc<ResourceDefinition>>> = LazyLock::new(|| {
    let named = |definition: Value| {
        let name = definition.pointer("/metadata/name")?.as_str()?.to_owned();
        Some((name, Arc::new(ResourceDefinition::from_object(&definition)?)))
    };
    crd::embedded_provider().into_iter().filter_map(named).collect()
});

/// The definition with that name; `None` if it is not included.
pub(super) fn by_name(name: &str) -> Option<Arc<ResourceDefinition>> {
    match DEFINITIONS.iter().find(|(known, _)| *known == name) {
        Some((_, definition)) => (**definition).clone(),
        None if name.ends_with(".topologist.dev") => EMBEDDED.get(name).cloned(),
        None => None,
    }
}

fn read(text: &str) -> Option<Arc<ResourceDefinition>> {
    let IncludedDefinition { release, definition } = serde_json::from_str(text).ok()?;
    let release = Some(format!("Cluster API {release}"));
    Some(Arc::new(ResourceDefinition { release, ..ResourceDefinition::from_object(&definition)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_of_every_definition_can_be_used() {
        for (name, _) in &DEFINITIONS {
            let definition = by_name(name).unwrap();
            assert!(
                definition.release.as_ref().is_some_and(|release| release.starts_with("Cluster API v1.")),
                "{name}"
            );
            let versions: Vec<&String> = definition.schemas.keys().collect();
            assert_eq!(versions, ["v1beta1", "v1beta2"], "{name}");
            for version in versions {
                definition
                    .resource_schema(version)
                    .unwrap()
                    .unwrap_or_else(|error| panic!("{name} {version}: {error}"));
            }
        }
        let machines = by_name("embeddedmachinetemplates.infrastructure.topologist.dev").unwrap();
        assert_eq!((machines.schemas.len(), machines.release.is_none()), (2, true));
        assert!(by_name("devclusters.infrastructure.cluster.x-k8s.io").is_none());
    }
}
