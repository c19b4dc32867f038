//! Name, scope, labels and versions of a definition (CT-1.3, CT-1.4, CT-2, CT-3, CT-7.2).

use super::definition::{ProviderDefinition, text};
use super::finding::{ContractFinding, Level};
use model::hub::contract::{CONTRACTS, compare_versions, definition_name, plural};
use schema::field::enumerated;

/// Prefix of labels that list versions.
const LABEL: &str = "cluster.x-k8s.io/";

/// Checks the fields by which the controllers find a kind and choose its version.
pub(super) fn check(
    definition: &ProviderDefinition<'_>,
    all: &[&ProviderDefinition<'_>],
    findings: &mut Vec<ContractFinding>,
) {
    findings.extend(scope(definition));
    findings.extend(name(definition));
    findings.extend(list_kind(definition));
    findings.extend(labels(definition, all));
    findings.extend(versions(definition, all));
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

fn labels(definition: &ProviderDefinition<'_>, all: &[&ProviderDefinition<'_>]) -> Option<ContractFinding> {
    let field = "metadata.labels";
    let (contract, version) = match (definition.kustomization, definition.assumed) {
        (None, None) if definition.choice().is_some() => return None,
        (Some(kustomization), _) if definition.choice().is_some() => {
            let message = format!("no label says which versions follow a contract; {} adds labels", kustomization.file);
            let remediation = "give what kustomize prints, to check what is installed";
            let finding = ContractFinding::warning("CT-3.5", field, message).with_remediation(remediation);
            return is_first(definition, all).then_some(finding);
        }
        (_, assumed) => assumed.unwrap_or((CONTRACTS[0], definition.newest_version().unwrap_or("v1beta1"))),
    };
    let remediation = format!(
        "add the label {LABEL}{contract}: {version}, with all versions that follow the contract, separated by _; \
         if kustomize adds the labels, check its output"
    );
    let missing = "no label says which versions follow a contract";
    // In sources no definition has labels, because kustomize adds them to all.
    let is_source =
        definition.assumed.is_some() && !all.iter().any(|other| other.role.is_some() && other.is_labelled());
    let finding = match is_source {
        true if !is_first(definition, all) => return None,
        true => {
            let message = format!("{missing}; the contract {contract} is assumed, for all definitions without one");
            ContractFinding::warning("CT-3.5", field, message)
        }
        false => ContractFinding::error("CT-3.5", field, format!("{missing}, so objects of this kind cannot be read")),
    };
    Some(finding.with_remediation(remediation))
}

/// Whether a definition is the first one whose manifest has no label: a finding about all of them is reported there.
fn is_first(definition: &ProviderDefinition<'_>, all: &[&ProviderDefinition<'_>]) -> bool {
    let first = all.iter().find(|other| other.role.is_some() && !other.is_labelled());
    first.is_some_and(|first| std::ptr::eq(*first, definition))
}

/// Versions in labels that the definition does not serve. Only the newest version of a label is read.
fn versions(definition: &ProviderDefinition<'_>, all: &[&ProviderDefinition<'_>]) -> Vec<ContractFinding> {
    let contracts = CONTRACTS.iter().filter_map(|contract| {
        let label = format!("{LABEL}{contract}");
        let listed = definition.labels.get(&label)?;
        Some((label, listed))
    });
    let of_label = |(label, listed): (String, &String)| {
        let listed = || listed.split('_').filter(|name| !name.is_empty());
        let newest = listed().max_by(|a, b| compare_versions(a, b));
        let is_unserved = |name: &&str| definition.version(name).is_none_or(|version| !version.is_served);
        let (read, older): (Vec<&str>, Vec<&str>) =
            listed().filter(is_unserved).partition(|name| Some(*name) == newest);
        let finding = |level, names: &[&str]| {
            let what = if names.len() == 1 { "version" } else { "versions" };
            let names = enumerated(names);
            let message = format!("the label lists {what} {names}, which the definition does not serve");
            let remediation = format!("remove {names} from the label, or serve the {what}");
            let field = format!("metadata.labels[{label}]");
            ContractFinding { level, ..ContractFinding::error("CT-3.4", field, message) }.with_remediation(remediation)
        };
        // The labels of a kustomization are the same for all definitions.
        let is_left_out = older.is_empty() || (definition.kustomization.is_some() && !is_first(definition, all));
        let read = (!read.is_empty()).then(|| finding(Level::Error, &read));
        read.into_iter().chain((!is_left_out).then(|| finding(Level::Warning, &older))).collect::<Vec<_>>()
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
