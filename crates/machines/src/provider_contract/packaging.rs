//! Provider label and release metadata (CT-17.1, CT-17.2).

use serde_json::Value;

use super::definition::{ProviderDefinition, text};
use super::finding::ContractFinding;

const LABEL: &str = "cluster.x-k8s.io/provider";
/// Provider types, which precede the name.
const TYPES: [&str; 6] = ["infrastructure", "bootstrap", "control-plane", "ipam", "runtime-extension", "addon"];

/// The release that the files belong to, if known.
#[derive(Debug, Default)]
pub(super) struct Release<'a> {
    /// Whether any definition of a provider has the label.
    is_labelled: bool,
    /// The metadata; `None` if there are none, or several.
    metadata: Option<&'a Value>,
}

impl<'a> Release<'a> {
    /// Reads the release metadata among manifests.
    pub(super) fn from_manifests(manifests: &[&'a Value], definitions: &[&ProviderDefinition<'_>]) -> Self {
        let is_metadata = |value: &Value| {
            text(value, "/kind") == "Metadata" && text(value, "/apiVersion").starts_with("clusterctl.cluster.x-k8s.io/")
        };
        let mut found = manifests.iter().copied().filter(|manifest| is_metadata(manifest));
        Release {
            is_labelled: definitions.iter().any(|one| one.role.is_some() && one.labels.contains_key(LABEL)),
            metadata: found.next().filter(|_| found.next().is_none()),
        }
    }

    /// Checks a definition of the release.
    pub(super) fn check(&self, definition: &ProviderDefinition<'_>, findings: &mut Vec<ContractFinding>) {
        findings.extend(self.label(definition));
        findings.extend(self.metadata.and_then(|metadata| agrees(metadata, definition)));
    }

    /// Either no definition has the label, as in sources, or all have a valid one.
    fn label(&self, definition: &ProviderDefinition<'_>) -> Option<ContractFinding> {
        let message = match definition.labels.get(LABEL) {
            None if self.is_labelled => "other definitions have this label, and this one does not".to_owned(),
            Some(value) if !is_good(value) => format!("{value:?} is not a type and a name"),
            _ => return None,
        };
        let remediation = format!("set it to <type>-<name> on all objects; the types are {}", TYPES.join(", "));
        Some(
            ContractFinding::warning("CT-17.1", format!("metadata.labels[{LABEL}]"), message)
                .with_remediation(remediation),
        )
    }
}

fn is_good(value: &str) -> bool {
    let name = |kind: &&str| value.strip_prefix(*kind).and_then(|rest| rest.strip_prefix('-'));
    TYPES.iter().find_map(name).is_some_and(|name| !name.is_empty())
}

/// Whether the definition has a label for the contract of the newest release series.
fn agrees(metadata: &Value, definition: &ProviderDefinition<'_>) -> Option<ContractFinding> {
    let series = metadata.get("releaseSeries").and_then(Value::as_array).into_iter().flatten();
    let number = |series: &Value, name: &str| series.get(name).and_then(Value::as_u64);
    let newest = series.max_by_key(|series| (number(series, "major"), number(series, "minor")));
    let message = match newest.map(|series| text(series, "/contract")) {
        None => "the release metadata in the files list no release series".to_owned(),
        Some(contract) => {
            // Sources have no labels yet.
            if definition.assumed.is_some() {
                return None;
            }
            let label = definition.labels.get(&format!("cluster.x-k8s.io/{contract}"));
            if label.is_some_and(|versions| !versions.is_empty()) {
                return None;
            }
            format!("the newest series of the release metadata has contract {contract:?}, for which there is no label")
        }
    };
    let remediation = "give the newest series in releaseSeries the contract of the labels, or add the label";
    Some(ContractFinding::error("CT-17.2", "metadata.labels", message).with_remediation(remediation))
}
