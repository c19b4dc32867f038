//! [Provider contracts](https://cluster-api.sigs.k8s.io/developer/providers/contracts/overview): the name of the
//! CustomResourceDefinition of a kind, the newest version in its labels for a contract, and the layout of its fields
//! (CT-2, CT-3, CS-08).

use std::cmp::Ordering;
use std::collections::BTreeMap;

pub use super::plural::plural;

/// The layout of the fields of a provider object (CS-08). An object is read and written in one layout (CT-20.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contract {
    V1Beta1,
    V1Beta2,
}

/// Kinds of version `v1beta2` that follow the older contract, by group and prefix of the kind (DEC-17).
const OLDER_CONTRACT: [(&str, &str); 9] = [
    ("controlplane.cluster.x-k8s.io", "AWSManaged"),
    ("controlplane.cluster.x-k8s.io", "ROSA"),
    ("controlplane.cluster.x-k8s.io", "KThrees"),
    ("bootstrap.cluster.x-k8s.io", "EKSConfig"),
    ("bootstrap.cluster.x-k8s.io", "KThrees"),
    ("infrastructure.cluster.x-k8s.io", "AWS"),
    ("infrastructure.cluster.x-k8s.io", "IBM"),
    ("infrastructure.cluster.x-k8s.io", "OCI"),
    ("infrastructure.cluster.x-k8s.io", "ROSA"),
];

/// Suffix of the groups of the embedded provider, and its version for the older contract; others follow the newer one
/// (DEC-17).
const EMBEDDED: (&str, &str) = (".topologist.dev", "v1alpha1");

/// The supported contracts, newest first (CT-3.1, CT-3.2).
pub const CONTRACTS: [&str; 2] = ["v1beta2", "v1beta1"];

/// Suffix of the kinds of templates (CT-1.2).
const TEMPLATE_SUFFIX: &str = "Template";

/// The kind of the objects cloned from a template: `DockerMachine` for `DockerMachineTemplate` (CT-1.2). `None` for
/// kinds that are not templates.
pub fn cloned_kind(kind: &str) -> Option<&str> {
    kind.strip_suffix(TEMPLATE_SUFFIX)
}

/// A kind without the suffix of templates: [`cloned_kind`] of templates, and any other kind itself.
pub fn object_kind(kind: &str) -> &str {
    cloned_kind(kind).unwrap_or(kind)
}

/// Whether a kind is that of templates (CT-1.2).
pub fn is_template_kind(kind: &str) -> bool {
    cloned_kind(kind).is_some()
}

/// The name of the CustomResourceDefinition of a kind (CT-2.1).
pub fn definition_name(group: &str, kind: &str) -> String {
    format!("{}.{group}", plural(kind))
}

/// Whether the labels of a definition list versions for any contract (CT-3.3). Those of `config/crd/bases` do not: an
/// installation adds them.
pub fn names_contracts(labels: &BTreeMap<String, String>) -> bool {
    labels.keys().any(|name| name.strip_prefix("cluster.x-k8s.io/").and_then(rank).is_some())
}

/// The newest version of a kind for the newest contract in the labels of its definition (CS-08, CT-3.5).
pub fn newest_version(labels: &BTreeMap<String, String>) -> Option<&str> {
    chosen(labels).map(|(_, version)| version)
}

/// The newest contract in the labels of a definition, and its newest version; the order in the label is irrelevant
/// (CT-1.6, CT-3.5, CT-3.7, CT-3.8, CT-3.11).
pub fn chosen(labels: &BTreeMap<String, String>) -> Option<(&'static str, &str)> {
    CONTRACTS.iter().find_map(|contract| {
        let listed = labels.get(&format!("cluster.x-k8s.io/{contract}"))?;
        let versions = listed.split('_').filter(|version| !version.is_empty());
        Some((*contract, versions.max_by(|a, b| compare_versions(a, b))?))
    })
}

/// Orders API versions: invalid ones first, then `v2alpha3`, `v2beta1`, `v1` (CT-3.6).
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (None, None) => b.cmp(a),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// Stability, major and minor of `v1`, `v1beta2`, `v1alpha3`.
fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(digits);
    let number = |text: &str| text.bytes().all(|c| c.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    let (stability, minor) = match (rest.strip_prefix("alpha"), rest.strip_prefix("beta")) {
        _ if rest.is_empty() => (2, 0),
        (Some(minor), _) => (0, number(minor)?),
        (_, Some(minor)) => (1, number(minor)?),
        _ => return None,
    };
    Some((stability, number(major)?, minor))
}

/// The newest contract whose label lists the version (CT-3.9, CT-3.10). Only `v1beta1` selects the older layout.
pub fn listed(labels: &BTreeMap<String, String>, version: &str) -> Option<Contract> {
    let lists = |contract: &str| {
        let label = labels.get(&format!("cluster.x-k8s.io/{contract}"));
        label.is_some_and(|versions| versions.split('_').any(|one| one == version))
    };
    let another = || {
        let mut others = labels.iter().filter(|(name, _)| name.starts_with("cluster.x-k8s.io/"));
        others.any(|(_, versions)| versions.split('_').any(|one| one == version))
    };
    match () {
        () if lists("v1beta2") => Some(Contract::V1Beta2),
        () if lists("v1beta1") => Some(Contract::V1Beta1),
        () if another() => Some(Contract::V1Beta2),
        () => None,
    }
}

/// The assumed contract of a version of a kind without a definition (DEC-17).
pub fn assumed_contract(group: &str, kind: &str, version: &str) -> &'static str {
    match assumed(group, kind, version) {
        Contract::V1Beta1 => "v1beta1",
        Contract::V1Beta2 => "v1beta2",
    }
}

/// The assumed layout of a kind without a definition (DEC-17).
pub fn assumed(group: &str, kind: &str, version: &str) -> Contract {
    let is_older = OLDER_CONTRACT.iter().any(|(known, start)| *known == group && kind.starts_with(start));
    let (embedded, older) = EMBEDDED;
    let is_newer = if group.ends_with(embedded) { version != older } else { version == "v1beta2" && !is_older };
    if is_newer { Contract::V1Beta2 } else { Contract::V1Beta1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
        labels.iter().map(|(key, value)| (format!("cluster.x-k8s.io/{key}"), (*value).to_owned())).collect()
    }

    #[test]
    fn the_newest_version_of_the_newest_contract_counts() {
        // CS-08, CT-1.6, CT-3.1, CT-3.7, CT-3.8, CT-3.11
        for (given, want) in [
            (vec![("v1beta1", "v1alpha1_v1alpha2"), ("v1beta2", "v1alpha3_v1alpha4")], Some("v1alpha4")),
            (vec![("v1beta1", "v1alpha1_v1alpha2")], Some("v1alpha2")),
            (vec![("v1beta2", ""), ("v1beta1", "v1")], Some("v1")),
            (vec![("v1beta2", "_"), ("v1beta1", "v1")], Some("v1")),
            (vec![("v1beta2", "v1_v2beta1")], Some("v1")),
            (vec![("v1beta1", "v1beta1_v1alpha4")], Some("v1beta1")),
            (vec![("v1beta2", "v1beta2_v1beta1")], Some("v1beta2")),
            (vec![("v1beta3", "v1"), ("v1alpha4", "v1")], None),
            (vec![], None),
        ] {
            assert_eq!(newest_version(&labels(&given)), want, "{given:?}");
        }
    }

    #[test]
    fn versions_are_ordered_by_stability_and_number() {
        // CT-3.6
        let ascending = [
            "v",
            "foo",
            "bar",
            "v1alpha1",
            "v2alpha2",
            "v10alpha1",
            "v1beta9",
            "v1beta10",
            "v2beta1",
            "v1",
            "v2",
            "v11",
        ];
        for (at, one) in ascending.iter().enumerate() {
            for (other_at, other) in ascending.iter().enumerate() {
                assert_eq!(compare_versions(one, other), at.cmp(&other_at), "{one} {other}");
            }
        }
        for text in ["v1gamma1", "v1beta", "v1beta+1", "1", "v1beta1x", "v99999999999999999999999"] {
            assert_eq!(rank(text), None, "{text}");
        }
    }

    #[test]
    fn definitions_are_named_after_the_plural() {
        // CT-2.1
        assert_eq!(
            definition_name("infrastructure.cluster.x-k8s.io", "DevMachineTemplate"),
            "devmachinetemplates.infrastructure.cluster.x-k8s.io"
        );
    }
}
