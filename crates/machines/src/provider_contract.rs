//! Checks of a provider's manifests against the contract between Cluster API's controllers and providers:
//! CustomResourceDefinitions, roles and release metadata.
//!
//! ```text
//! manifests ─► definition.rs: kind, role, contract, schemas ─┬─► naming.rs      name, scope, labels, versions
//!                                                            ├─► fields.rs      fields of the contract (field_types.rs, bounds.rs)
//!                                                            ├─► templates.rs   schema; comparison.rs: template and object
//!                                                            ├─► access.rs      permissions of the controllers
//!                                                            ├─► own_access.rs  permissions of the provider (grants.rs)
//!                                                            └─► packaging.rs   label and metadata of a release
//!                                                                     └─► finding.rs
//! ```
//!
//! Manifests do not show the behavior over time: behavior.rs checks the changes of objects.
//!
//! The contract is that of [Cluster API](https://cluster-api.sigs.k8s.io/developer/providers/contracts/overview).

mod access;
pub mod behavior;
mod bounds;
mod comparison;
mod definition;
mod fields;
mod finding;
mod grants;
mod field_types;
mod naming;
mod own_access;
mod packaging;
mod templates;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use self::access::Access;
use self::definition::ProviderDefinition;
pub use self::definition::{Kustomization, ProviderRole};
pub use self::finding::{ContractFinding, Level, order};
use self::own_access::OwnAccess;
use self::packaging::Release;

/// The findings about one CustomResourceDefinition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedDefinition {
    /// Index among the manifests.
    pub index: usize,
    pub name: String,
    pub kind: String,
    /// `None` for kinds without a contract, such as identities, which are not checked.
    pub role: Option<ProviderRole>,
    pub is_template: bool,
    /// The contract in use, and the version in which objects are read (CT-3.5).
    pub contract: Option<String>,
    pub version: Option<String>,
    /// Sorted by their rules.
    pub findings: Vec<ContractFinding>,
}

/// Inputs for checking each definition.
struct ManifestContext<'a> {
    definitions: Vec<&'a ProviderDefinition<'a>>,
    access: Access,
    own_access: OwnAccess,
    release: Release<'a>,
}

/// Checks the CustomResourceDefinitions among manifests, together with the roles and release metadata, in order.
/// `kustomizations` are those beside the files of the manifests, by index.
pub fn check(manifests: &[&Value], kustomizations: &BTreeMap<usize, Arc<Kustomization>>) -> Vec<CheckedDefinition> {
    let (mut indices, mut definitions) = (Vec::new(), Vec::new());
    for (index, manifest) in manifests.iter().enumerate() {
        let kustomization = kustomizations.get(&index).map(|kustomization| &**kustomization);
        if let Some(definition) = ProviderDefinition::from_manifest(manifest, kustomization) {
            indices.push(index);
            definitions.push(definition);
        }
    }
    let assumed: Vec<_> = definitions.iter().map(|definition| definition.assumption(&definitions)).collect();
    definitions.iter_mut().zip(assumed).for_each(|(definition, assumed)| definition.assumed = assumed);
    let all: Vec<&ProviderDefinition<'_>> = definitions.iter().collect();
    let files = ManifestContext {
        access: Access::from_manifests(manifests),
        own_access: OwnAccess::from_manifests(manifests),
        release: Release::from_manifests(manifests, &all),
        definitions: all,
    };
    indices.iter().zip(&definitions).map(|(index, definition)| checked(*index, definition, &files)).collect()
}

fn checked(index: usize, definition: &ProviderDefinition<'_>, files: &ManifestContext<'_>) -> CheckedDefinition {
    let choice = definition.choice();
    let mut findings = Vec::new();
    if let Some(role) = definition.role {
        naming::check(definition, &files.definitions, &mut findings);
        match definition.template_of() {
            Some(kind) => templates::check(definition, role, &kind, &files.definitions, &mut findings),
            None => fields::check(definition, role, &mut findings),
        }
        files.access.check(definition, &mut findings);
        files.own_access.check(definition, role, &mut findings);
        files.release.check(definition, &mut findings);
    }
    findings.sort_by_key(|finding| order(finding.rule));
    CheckedDefinition {
        index,
        name: definition.name.to_owned(),
        kind: definition.kind.to_owned(),
        role: definition.role,
        is_template: definition.template_of().is_some(),
        contract: choice.map(|(contract, _)| contract.to_owned()),
        version: choice.map(|(_, version)| version.to_owned()),
        findings,
    }
}
