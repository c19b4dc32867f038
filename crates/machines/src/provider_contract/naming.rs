//! Name, scope, labels and versions of a definition (CT-1.3, CT-1.4, CT-2, CT-3, CT-7.2).

use super::definition::{Definition, text};
use super::finding::Finding;
use model::hub::contract::{CONTRACTS, definition_name, plural};

/// The beginning of labels that list versions.
const LABEL: &str = "cluster.x-k8s.io/";

/// Checks what the controllers use to find a kind and to choose its version.
pub(super) fn check(definition: &Definition<'_>, findings: &mut Vec<Finding>) {
    findings.extend(scope(definition));
    findings.extend(name(definition));
    findings.extend(list_kind(definition));
    findings.extend(labels(definition));
    findings.extend(versions(definition));
    findings.extend(status_subresource(definition));
}

fn scope(definition: &Definition<'_>) -> Option<Finding> {
    let scope = text(definition.manifest, "/spec/scope");
    (scope != "Namespaced").then(|| {
        let message = format!("the scope is {scope:?}, but objects are looked up in the namespace of the Cluster");
        Finding::error("CT-1.3", "spec.scope", message).way_out("set it to Namespaced")
    })
}

fn name(definition: &Definition<'_>) -> Option<Finding> {
    let wanted = definition_name(definition.group, definition.kind);
    (definition.name != wanted).then(|| {
        // CT-2.10: the name of a template is made in the same way.
        let rule = if definition.template_of().is_some() { "CT-2.10" } else { "CT-2.1" };
        let message = format!("the controllers look for a definition named {wanted}, so they do not find this one");
        let way_out = format!("set spec.names.plural to {} and metadata.name to {wanted}", plural(definition.kind));
        Finding::error(rule, "metadata.name", message).way_out(way_out)
    })
}

fn list_kind(definition: &Definition<'_>) -> Option<Finding> {
    let (list, wanted) = (text(definition.manifest, "/spec/names/listKind"), format!("{}List", definition.kind));
    (!list.is_empty() && list != wanted).then(|| {
        Finding::error("CT-1.4", "spec.names.listKind", format!("the kind of lists is {list}, not {wanted}"))
            .way_out(format!("set it to {wanted}, or leave it out"))
    })
}

fn labels(definition: &Definition<'_>) -> Option<Finding> {
    definition.choice().is_none().then(|| {
        let message = "no label says which versions follow a contract, so objects of this kind cannot be read";
        let newest = definition.versions.last().map_or("v1beta1", |version| version.name);
        let way_out = format!(
            "add the label {LABEL}v1beta2: {newest}, with all versions that follow the contract, separated by _; \
             if kustomize adds the labels, check its output"
        );
        Finding::error("CT-3.5", "metadata.labels", message).way_out(way_out)
    })
}

/// Versions that labels list and the definition does not serve.
fn versions(definition: &Definition<'_>) -> Vec<Finding> {
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
            Finding::error("CT-3.4", format!("metadata.labels[{label}]"), message)
                .way_out(format!("remove {name} from the label, or serve the version"))
        };
        unknown.map(finding).collect::<Vec<_>>()
    };
    contracts.flat_map(of_label).collect()
}

/// Status is written apart from the spec, so that a flag and its object do not overwrite each other.
fn status_subresource(definition: &Definition<'_>) -> Option<Finding> {
    let (role, (_, version)) = (definition.role?, definition.read()?);
    let has = version.subresources.is_some_and(|subresources| subresources.get("status").is_some());
    (definition.template_of().is_none() && !has).then(|| {
        let message = "there is no status subresource, so a write of the spec can overwrite the status";
        Finding::error(role.mandatory(), "subresources.status", message)
            .of_version(version.name)
            .way_out("add status: {} to the subresources of the version")
    })
}
