//! Permissions of the controllers of a provider (CT-16.3, CT-16.5), by the roles that the files bind.

use serde_json::Value;

use super::access::VERBS;
use super::definition::{ProviderDefinition, ProviderRole, text};
use super::finding::{ContractFinding, Level};
use super::grants::Grants;
use model::hub::GROUP;

const READ: [&str; 3] = ["get", "list", "watch"];

/// The combined permissions of the bound roles; `None` if a bound role is not in the files.
#[derive(Debug, Default)]
pub(super) struct OwnAccess(Option<Grants>);

impl OwnAccess {
    /// Reads roles and bindings among manifests.
    pub(super) fn from_manifests(manifests: &[&Value]) -> Self {
        let kind = |value: &Value, kinds: [&str; 2]| kinds.contains(&text(value, "/kind"));
        let bindings = manifests.iter().filter(|one| kind(one, ["ClusterRoleBinding", "RoleBinding"]));
        let roles: Vec<&Value> = manifests.iter().copied().filter(|one| kind(one, ["ClusterRole", "Role"])).collect();
        let mut bound = Vec::new();
        for binding in bindings {
            let (kind, name) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
            // Built-in roles, which do not concern provider kinds.
            if name.starts_with("system:") {
                continue;
            }
            let is_meant = |role: &&&Value| text(role, "/kind") == kind && text(role, "/metadata/name") == name;
            let Some(role) = roles.iter().find(is_meant) else { return OwnAccess(None) };
            bound.push(*role);
            bound.extend(roles.iter().copied().filter(|other| adds_to(other, role)));
        }
        OwnAccess(Some(Grants::from_roles(bound)))
    }

    /// Checks the permissions that the role of a kind requires. Kinds without any bound role are not checked: access
    /// may be granted elsewhere.
    pub(super) fn check(
        &self,
        definition: &ProviderDefinition<'_>,
        role: ProviderRole,
        findings: &mut Vec<ContractFinding>,
    ) {
        let resource = text(definition.manifest, "/spec/names/plural");
        let Some(grants) = self.0.as_ref().filter(|grants| grants.name(definition.group, resource)) else { return };
        if definition.template_of().is_some() {
            return;
        }
        findings.extend(work(grants, definition.group, resource, role));
        findings.extend(finalizers(grants, definition.group, resource, role));
    }
}

/// Whether a ClusterRole has labels that another one aggregates.
fn adds_to(role: &Value, collecting: &Value) -> bool {
    let selectors = collecting.pointer("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array);
    let labels = role.pointer("/metadata/labels");
    selectors.into_iter().flatten().any(|selector| {
        let wanted = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
        wanted.into_iter().all(|(name, value)| labels.and_then(|labels| labels.get(name)) == Some(value))
    })
}

/// Permissions for the kinds, their status, and reading (CT-16.5).
fn work(grants: &Grants, group: &str, resource: &str, role: ProviderRole) -> Option<ContractFinding> {
    let own = grants.missing(group, resource, &VERBS);
    let status = format!("{resource}/status");
    let of_status = grants.missing(group, &status, &["patch", "update"]);
    let mut missing = Vec::new();
    let mut others = Vec::new();
    missing.extend((!own.is_empty()).then(|| format!("{} of {resource}", own.join(", "))));
    // One of the two suffices for writing.
    others.extend((of_status.len() == 2).then(|| format!("patch of {status}")));
    for (group, resource, verbs) in surroundings(role) {
        let verbs = grants.missing(group, resource, verbs);
        others.extend((!verbs.is_empty()).then(|| format!("{} of {resource}", verbs.join(", "))));
    }
    let writes = !(own.contains(&"patch") && own.contains(&"update"));
    let level = if others.is_empty() && writes && !READ.iter().any(|verb| own.contains(verb)) {
        Level::Warning
    } else {
        Level::Error
    };
    missing.extend(others);
    (!missing.is_empty()).then(|| {
        let message = format!("the roles that the files bind do not grant {}", missing.join("; "));
        let remediation = "add the verbs to a role of the provider's controller";
        ContractFinding {
            level,
            ..ContractFinding::error("CT-16.5", "spec.group", message).with_remediation(remediation)
        }
    })
}

/// Permissions for related objects and created Secrets. The status of an object is read with the object.
fn surroundings(role: ProviderRole) -> Vec<(&'static str, &'static str, &'static [&'static str])> {
    let mut all: Vec<(_, _, &'static [&'static str])> = vec![(GROUP, "clusters", &READ)];
    match role {
        ProviderRole::InfrastructureCluster | ProviderRole::InfrastructureMachinePool => {}
        ProviderRole::InfrastructureMachine => all.push((GROUP, "machines", &READ)),
        ProviderRole::BootstrapConfig | ProviderRole::ControlPlane => {
            all.push((GROUP, "machines", &READ));
            all.push(("", "secrets", &["create", "get"]));
        }
    }
    all
}

/// Permissions for finalizers of kinds that control other objects (CT-16.3).
fn finalizers(grants: &Grants, group: &str, resource: &str, role: ProviderRole) -> Option<ContractFinding> {
    let finalizers = format!("{resource}/finalizers");
    let makes = matches!(role, ProviderRole::BootstrapConfig | ProviderRole::ControlPlane);
    (makes && !grants.missing(group, &finalizers, &["update"]).is_empty()).then(|| {
        let message = format!(
            "the roles that the files bind do not grant update of {finalizers}, which owner references with \
             blockOwnerDeletion need if the admission plugin OwnerReferencesPermissionEnforcement is on"
        );
        let remediation = format!("add {finalizers} with the verb update to a role of the provider's controller");
        ContractFinding::warning("CT-16.3", "spec.group", message).with_remediation(remediation)
    })
}
