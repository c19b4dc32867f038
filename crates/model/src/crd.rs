//! The CustomResourceDefinitions of Cluster API's kinds and of the embedded provider's: the constraints that the API
//! server checks by itself.
//!
//! ```text
//! schema.rs ──► blocks.rs ──► cluster.rs, cluster_class.rs ──► schema(kind, version) ──► definition(kind)
//! language      shared rows   the rows of one kind             what a version accepts    what gets installed
//!                    │                                           │                             ▲
//!                    │                             layer.rs ◄────┘  the same constraints,      │
//!                    │                                              without an API server      │
//!                    └──────► machine.rs, …, extension_config.rs, embedded.rs ──► resource.rs  one version, or two
//! ```
//!
//! It builds JSON from constants; from the hub it uses the list of kinds and the syntax of names.

mod blocks;
mod cluster;
mod cluster_class;
mod column;
mod descriptions;
mod embedded;
mod extension_config;
mod layer;
mod machine;
mod machine_deployment;
mod machine_health_check;
mod machine_pool;
mod machine_set;
mod renamed;
mod resource;
mod schema;

pub use layer::{check, oversized};
pub use renamed::instead;

use serde_json::{Value, json};

use column::columns;
use resource::CrdBuilder;
use schema::{object, string};

use crate::hub::{GROUP, Kind};
use crate::wire::{SchemaVersion, conversion_review};

impl SchemaVersion {
    fn pick<T>(self, v1beta2: T, v1beta1: T) -> T {
        match self {
            SchemaVersion::V1Beta2 => v1beta2,
            SchemaVersion::V1Beta1 => v1beta1,
        }
    }

    /// Minimum size of values that must not be empty in v1beta2 and may be in v1beta1.
    fn least(self) -> u32 {
        self.pick(1, 0)
    }
}

/// The `openAPIV3Schema` of one kind in one version; the kinds of machines have one version.
pub fn schema(kind: Kind, version: SchemaVersion) -> Value {
    let (spec, status) = match kind {
        Kind::Cluster => (cluster::spec(version), cluster::status(version)),
        Kind::ClusterClass => (cluster_class::spec(version), cluster_class::status(version)),
        Kind::MachineDeployment => return machine_deployment::resource().into_schema(),
        Kind::MachineSet => return machine_set::resource().into_schema(),
        Kind::Machine => return machine::resource().into_schema(),
        Kind::MachineHealthCheck => return machine_health_check::resource().into_schema(),
    };
    object()
        .optional("apiVersion", string())
        .optional("kind", string())
        .optional("metadata", object())
        .required_in_v1beta2(version, "spec", spec)
        .optional("status", status)
        .into()
}

/// The only version of the kinds of machines.
const MACHINE_VERSION: &str = "v1beta2";

/// Namespace and name of the Service that converts objects.
const CONVERSION_SERVICE: (&str, &str) = ("topologist-system", "topologist-conversion");

/// The CustomResourceDefinition of one kind.
pub fn definition(kind: Kind) -> Value {
    match kind {
        Kind::Cluster => converted(kind, "cl"),
        Kind::ClusterClass => converted(kind, "cc"),
        Kind::MachineDeployment => machine_deployment::resource().definition(),
        Kind::MachineSet => machine_set::resource().definition(),
        Kind::Machine => machine::resource().definition(),
        Kind::MachineHealthCheck => machine_health_check::resource().definition(),
    }
}

/// The definition of a kind with both versions, of which v1beta2 is stored.
fn converted(kind: Kind, short_name: &str) -> Value {
    let plural = kind.plural();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind.name(),
                "listKind": format!("{}List", kind.name()),
                "plural": plural,
                "singular": kind.name().to_lowercase(),
                "shortNames": [short_name],
                "categories": ["cluster-api"],
            },
            "scope": "Namespaced",
            "conversion": conversion(),
            "versions": [version(kind, SchemaVersion::V1Beta2), version(kind, SchemaVersion::V1Beta1)],
        },
    })
}

/// The conversion webhook of a kind. Its `caBundle` is not here: the manager of the certificates sets it.
fn conversion() -> Value {
    let (namespace, service) = CONVERSION_SERVICE;
    json!({
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": namespace, "name": service, "path": conversion_review::PATH}},
        },
    })
}

/// One version of a definition.
fn version(kind: Kind, shape: SchemaVersion) -> Value {
    let mut schema = schema(kind, shape);
    descriptions::describe(kind.name(), &mut schema);
    let mut version = json!({
        "name": shape.pick("v1beta2", "v1beta1"),
        "served": true,
        "storage": shape == SchemaVersion::V1Beta2,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns(kind, shape),
    });
    if shape == SchemaVersion::V1Beta1 {
        version["deprecated"] = json!(true);
        version["deprecationWarning"] =
            json!(format!("{GROUP}/v1beta1 {} is deprecated; use {GROUP}/v1beta2 {0}", kind.name()));
    }
    version
}

/// The definitions of all kinds: Cluster API's, the Cluster first, then those of the embedded provider.
pub fn definitions() -> Vec<Value> {
    [cluster_api(), embedded_provider()].concat()
}

/// The definitions of Cluster API's kinds that are validated, created or deleted here.
///
/// The kinds of machines are served in v1beta2 only and never converted. ExtensionConfigs are served in two versions.
pub fn cluster_api() -> Vec<Value> {
    let others = [machine_pool::resource().definition(), extension_config::definition()];
    Kind::ALL.into_iter().chain(Kind::OF_MACHINES).map(definition).chain(others).collect()
}

/// The definitions of the embedded provider, each with a version and a label for both contracts.
pub fn embedded_provider() -> Vec<Value> {
    embedded::resources().into_iter().map(CrdBuilder::definition).collect()
}

#[cfg(test)]
mod tests;
