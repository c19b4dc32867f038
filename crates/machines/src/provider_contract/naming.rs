//! Name, scope, labels and versions of a definition (CT-1.3, CT-1.4, CT-2, CT-3, CT-7.2).

use super::definition::{ProviderDefinition, text};
use super::finding::ContractFinding;
use model::hub::contract::{CONTRACTS, definition_name, plural};

/// Prefix of labels that list versions.
const LABEL: &str = "cluster.x-k8s.io/";

/// Checks the fields by which the controllers find a kind and choose its version.
pub(super) fn check(definition: &ProviderDefinition<'_>, findings: &mut Vec<ContractFinding>) {
    findings.extend(scope(definition));
    findings.extend(name(definition));
    findings.extend(list_kind(definition));
    findings.extend(labels(definition));
    findings.extend(versions(definition));
    findings.extend(status_subresource(definition));
}

fn scope(definition: &ProviderDefinition<'_>) -> Option<ContractFinding> {
    let scope = text(definition.manifest, "/spec/scope");
    (scope != "Namespaced").then(|| {
        let message = format!("the scope is {scope:?}, but objects are looked up in the namespace of the Cluster");
        ContractFinding::error("CT-1.3", "spec.scope", message).with_remediation("set it to Namespaced")
    })
}

fn name(definition: &ProviderDefinition<'_>) -> Option<ContractFinding> {
    let wanted = definition_name(definition.group, definition.kind);
    (definition.name != wanted).then(|| {
        // CT-2.10: names of templates are formed in the same way.
        let rule = if definition.template_of().is_some() { "CT-2.10" } else { "CT-2.1" };
        let message = format!("the controllers look for a definition named {wanted}, so they do not find this one");
        let remediation = format!("set spec.names.plural to {} and metadata.name to {wanted}", plural(definition.kind));
        ContractFinding::error(rule, "metadata.name", message).with_remediation(remediation)
    })
}

fn list_kind(definition: &ProviderDefinition<'_>) -> Option<ContractFinding> {
    let (list, wanted) = (text(definition.manifest, "/spec/names/listKind"), format!("{}List", definition.kind));
    (!list.is_empty() && list != wanted).then(|| {
        ContractFinding::error("CT-1.4", "spec.names.listKind", format!("the kind of lists is {list}, not {wanted}"))
            .with_remediation(format!("set it to {wanted}, or leave it out"))
    })
}

fn labels(definition: &ProviderDefinition<'_>) -> Option<ContractFinding> {
    definition.choice().is_none().then(|| {
        let message = "no label says which versions follow a contract, so objects of this kind cannot be read";
        let newest = definition.versions.last().map_or("v1beta1", |version| version.name);
        let remediation = format!(
            "add the label {LABEL}v1beta2: {newest}, with all versions that follow the contract, separated by _; \
             if kustomize adds the labels, check its output"
        );
        ContractFinding::error("CT-3.5", "metadata.labels", message).with_remediation(remediation)
    })
}

/// Versions in labels that the definition does not serve.
fn versions(definition: &ProviderDefinition<'_>) -> Vec<ContractFinding> {
    let contracts = CONTRACTS.iter().filter_map(|contract| {
        let label = format!("{LABEL}{contract}");
        let listed = definition.labels.get(&label)?;
        Some((label, listed))
    });
    let of_label = |(label, listed): (String, &String)| {
        let unknown = listed.split('_').filter(|name| !name.is_empty());
        let unknown = unknown.filter(|name| definition.version(name).is_none_or(|version| !version.is_served));
        let finding = |name: &str| {
            let message = format!("the label lists version {name}, which the definition does not serve");
            ContractFinding::error("CT-3.4", format!("metadata.labels[{label}]"), message)
                .with_remediation(format!("remove {name} from the label, or serve the version"))
        };
        unknown.map(finding).collect::<Vec<_>>()
    };
    contracts.flat_map(of_label).collect()
}

/// The status is a subresource, so that flag and spec do not overwrite each other.
fn status_subresource(definition: &ProviderDefinition<'_>) -> Option<ContractFinding> {
    let (role, (_, version)) = (definition.role?, definition.read()?);
    let has = version.subresources.is_some_and(|subresources| subresources.get("status").is_some());
    (definition.template_of().is_none() && !has).then(|| {
        let message = "there is no status subresource, so a write of the spec can overwrite the status";
        ContractFinding::error(role.mandatory(), "subresources.status", message)
            .of_version(version.name)
            .with_remediation("add status: {} to the subresources of the version")
    })
}
