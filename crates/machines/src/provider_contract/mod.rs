//! The contract between Cluster API's controllers and providers, as checks of what a provider ships: CustomResourceDefinitions,
//! roles and release metadata.
//!
//! ```text
//! manifests ─► definition.rs: kind, role, contract, schemas ─┬─► naming.rs      name, scope, labels, versions
//!                                                            ├─► fields.rs      fields of the contract, with holds.rs and bounds.rs
//!                                                            ├─► templates.rs   shape; comparison.rs: template and object
//!                                                            ├─► access.rs      what the controllers may do
//!                                                            ├─► own_access.rs  what the provider may do, with grants.rs
//!                                                            └─► packaging.rs   label and metadata of a release
//!                                                                     └─► finding.rs
//! ```
//!
//! What a provider does over time is not in its manifests: behavior.rs judges the changes of its objects.
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
mod holds;
mod naming;
mod own_access;
mod packaging;
mod templates;
#[cfg(test)]
mod tests;

use serde_json::Value;

use self::access::Access;
use self::definition::Definition;
pub use self::definition::Role;
pub use self::finding::{Finding, Level, order};
use self::own_access::OwnAccess;
use self::packaging::Release;

/// The findings about one CustomResourceDefinition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Which of the manifests it is.
    pub index: usize,
    pub name: String,
    pub kind: String,
    /// None for kinds that no contract is about, such as identities: they are not checked.
    pub role: Option<Role>,
    pub is_template: bool,
    /// The contract that is used, and the version in which objects are read (CT-3.5).
    pub contract: Option<String>,
    pub version: Option<String>,
    /// Sorted by their rules.
    pub findings: Vec<Finding>,
}

/// What each definition is checked with.
struct Files<'a> {
    definitions: Vec<&'a Definition<'a>>,
    access: Access,
    own_access: OwnAccess,
    release: Release<'a>,
}

/// Checks the CustomResourceDefinitions among manifests, with the roles and the release metadata among them, in the order of the
/// manifests.
pub fn check(manifests: &[&Value]) -> Vec<Checked> {
    let definitions: Vec<(usize, Definition<'_>)> =
        manifests.iter().enumerate().filter_map(|(i, manifest)| Some((i, Definition::of(manifest)?))).collect();
    let all: Vec<&Definition<'_>> = definitions.iter().map(|(_, definition)| definition).collect();
    let files = Files {
        access: Access::of(manifests),
        own_access: OwnAccess::of(manifests),
        release: Release::of(manifests, &all),
        definitions: all,
    };
    definitions.iter().map(|(index, definition)| checked(*index, definition, &files)).collect()
}

fn checked(index: usize, definition: &Definition<'_>, files: &Files<'_>) -> Checked {
    let choice = definition.choice();
    let mut findings = Vec::new();
    if let Some(role) = definition.role {
        naming::check(definition, &mut findings);
        match definition.template_of() {
            Some(kind) => templates::check(definition, role, &kind, &files.definitions, &mut findings),
            None => fields::check(definition, role, &mut findings),
        }
        files.access.check(definition, &mut findings);
        files.own_access.check(definition, role, &mut findings);
        files.release.check(definition, &mut findings);
    }
    findings.sort_by_key(|finding| order(finding.rule));
    Checked {
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
