//! Permissions of the controllers for the kinds of a provider (CT-1.5, CT-16.1, CT-16.2).

use serde_json::Value;

use super::definition::{ProviderDefinition, text};
use super::finding::ContractFinding;
use super::grants::Grants;

/// Label that aggregates a ClusterRole into that of the controllers (CT-16.1).
const AGGREGATES: &str = "cluster.x-k8s.io/aggregate-to-manager";

/// Groups whose kinds the controllers may always read and write (CT-1.5).
const GRANTED: [&str; 3] =
    ["bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"];
/// Suffix of the groups of the embedded provider, which topologist's roles name.
const EMBEDDED: &str = ".topologist.dev";
/// Verbs that the controllers use for objects and templates (CT-16.2).
pub(super) const VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];

/// The ClusterRoles of a provider.
#[derive(Debug, Default)]
pub(super) struct Access {
    has_roles: bool,
    /// Permissions aggregated into the role of the controllers.
    grants: Grants,
}

impl Access {
    /// Reads the ClusterRoles among manifests.
    pub(super) fn from_manifests(manifests: &[&Value]) -> Self {
        let roles: Vec<&&Value> =
            manifests.iter().filter(|manifest| text(manifest, "/kind") == "ClusterRole").collect();
        let adds = |role: &&Value| {
            let labels = role.pointer("/metadata/labels");
            labels.and_then(|labels| labels.get(AGGREGATES)).and_then(Value::as_str) == Some("true")
        };
        Access { has_roles: !roles.is_empty(), grants: Grants::from_roles(roles.into_iter().copied().filter(adds)) }
    }

    /// Checks that the controllers have the required permissions for a kind.
    pub(super) fn check(&self, definition: &ProviderDefinition<'_>, findings: &mut Vec<ContractFinding>) {
        let group = definition.group;
        if GRANTED.contains(&group) || group.ends_with(EMBEDDED) {
            return;
        }
        let resource = text(definition.manifest, "/spec/names/plural");
        let missing = self.grants.missing(group, resource, &VERBS);
        findings.extend((!missing.is_empty()).then(|| self.finding(group, resource, &missing)));
    }

    fn finding(&self, group: &str, resource: &str, missing: &[&str]) -> ContractFinding {
        let remediation = format!(
            "add a ClusterRole with the label {AGGREGATES}: \"true\" and a rule for {resource} of {group} with the \
             verbs {}",
            VERBS.join(", ")
        );
        if !self.has_roles {
            let message = format!(
                "not checked: the controllers have no access to group {group} by themselves, and the files have no \
                 ClusterRole"
            );
            return ContractFinding::warning("CT-16.1", "spec.group", message).with_remediation(remediation);
        }
        let (rule, message) = match self.grants.name(group, resource) {
            true => {
                ("CT-16.2", format!("the ClusterRoles with the label {AGGREGATES} do not grant {}", missing.join(", ")))
            }
            false => (
                "CT-16.1",
                format!("no ClusterRole with the label {AGGREGATES} grants access to {resource} of {group}"),
            ),
        };
        ContractFinding::error(rule, "spec.group", message).with_remediation(remediation)
    }
}
