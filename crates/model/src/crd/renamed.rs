//! Fields with a different name in another API version, or in the API proposals.

use crate::wire::SchemaVersion::{self, V1Beta1, V1Beta2};

/// The versions that lack a field, the end of its path without positions, and its replacement.
type RenamedField = (&'static [SchemaVersion], &'static str, &'static str);

const BOTH: &[SchemaVersion] = &[V1Beta1, V1Beta2];
const OLD: &[SchemaVersion] = &[V1Beta1];
const NEW: &[SchemaVersion] = &[V1Beta2];

/// The first matching entry counts.
const ROWS: &[RenamedField] = &[
    // Names in the proposals.
    (BOTH, "workers.deployments", "machineDeployments"),
    (BOTH, "controlPlane.labels", "metadata.labels"),
    (BOTH, "controlPlane.annotations", "metadata.annotations"),
    (BOTH, "machineDeployments.labels", "metadata.labels"),
    (BOTH, "machineDeployments.annotations", "metadata.annotations"),
    // v1beta1 names in v1beta2.
    (NEW, "topology.class", "classRef.name"),
    (NEW, "topology.classNamespace", "classRef.namespace"),
    (NEW, "topology.rolloutAfter", "rollout.after of the control plane and of each machine deployment"),
    (NEW, "infrastructureRef.apiVersion", "apiGroup"),
    (NEW, "controlPlaneRef.apiVersion", "apiGroup"),
    (NEW, "ref", "templateRef"),
    (NEW, "machineDeployments.template", "bootstrap, infrastructure and metadata without template around them"),
    (NEW, "machinePools.template", "bootstrap, infrastructure and metadata without template around them"),
    (NEW, "spec.infrastructureNamingStrategy", "infrastructure.naming"),
    (NEW, "namingStrategy", "naming"),
    (NEW, "strategy", "rollout.strategy"),
    (NEW, "nodeDrainTimeout", "deletion.nodeDrainTimeoutSeconds"),
    (NEW, "nodeVolumeDetachTimeout", "deletion.nodeVolumeDetachTimeoutSeconds"),
    (NEW, "nodeDeletionTimeout", "deletion.nodeDeletionTimeoutSeconds"),
    (NEW, "machineHealthCheck", "healthCheck"),
    (NEW, "healthCheck.enable", "enabled"),
    (NEW, "healthCheck.nodeStartupTimeout", "checks.nodeStartupTimeoutSeconds"),
    (NEW, "healthCheck.unhealthyConditions", "checks.unhealthyNodeConditions"),
    (NEW, "healthCheck.unhealthyMachineConditions", "checks.unhealthyMachineConditions"),
    (NEW, "healthCheck.maxUnhealthy", "remediation.triggerIf.unhealthyLessThanOrEqualTo"),
    (NEW, "healthCheck.unhealthyRange", "remediation.triggerIf.unhealthyInRange"),
    (NEW, "healthCheck.remediationTemplate", "remediation.templateRef"),
    (NEW, "external.generateExtension", "generatePatchesExtension"),
    (NEW, "external.validateExtension", "validateTopologyExtension"),
    (NEW, "spec.variables.metadata", "deprecatedV1Beta1Metadata"),
    // v1beta2 names in v1beta1 and v1alpha4.
    (OLD, "topology.classRef", "class"),
    (OLD, "infrastructureRef.apiGroup", "apiVersion"),
    (OLD, "controlPlaneRef.apiGroup", "apiVersion"),
    (OLD, "templateRef", "ref"),
    (OLD, "machineDeployments.bootstrap", "template.bootstrap"),
    (OLD, "machineDeployments.infrastructure", "template.infrastructure"),
    (OLD, "machineDeployments.metadata", "template.metadata"),
    (OLD, "machinePools.bootstrap", "template.bootstrap"),
    (OLD, "machinePools.infrastructure", "template.infrastructure"),
    (OLD, "machinePools.metadata", "template.metadata"),
    (OLD, "spec.infrastructure.naming", "spec.infrastructureNamingStrategy"),
    (OLD, "naming", "namingStrategy"),
    (OLD, "machineDeployments.rollout", "strategy"),
    (OLD, "rollout.strategy", "strategy"),
    (OLD, "deletion", "nodeDrainTimeout, nodeVolumeDetachTimeout and nodeDeletionTimeout"),
    (OLD, "healthCheck", "machineHealthCheck"),
    (OLD, "machineHealthCheck.enabled", "enable"),
    (OLD, "external.generatePatchesExtension", "generateExtension"),
    (OLD, "external.validateTopologyExtension", "validateExtension"),
    (OLD, "spec.variables.deprecatedV1Beta1Metadata", "metadata"),
];

/// The replacement of an unknown field in a version; `field` is a path such as `spec.workers.a[0].b`.
pub fn instead(version: SchemaVersion, field: &str) -> Option<&'static str> {
    let field: String = field.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest)).collect();
    let is_end = |end: &str| field.strip_suffix(end).is_some_and(|start| start.is_empty() || start.ends_with('.'));
    ROWS.iter().find(|(versions, end, _)| versions.contains(&version) && is_end(end)).map(|(_, _, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::crd::schema;
    use crate::hub::Kind;

    /// The paths of all spec fields of a version, without positions.
    fn fields(version: SchemaVersion) -> BTreeSet<String> {
        fn walk(node: &Value, path: &str, fields: &mut BTreeSet<String>) {
            for (name, field) in node["properties"].as_object().into_iter().flatten() {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                walk(field, &path, fields);
                walk(&field["items"], &path, fields);
                fields.insert(path);
            }
        }
        let mut fields = BTreeSet::new();
        for kind in Kind::ALL {
            walk(&schema(kind, version)["properties"]["spec"], "spec", &mut fields);
        }
        fields
    }

    #[test]
    fn fields_of_other_versions_have_a_name_in_this_one() {
        for (version, field, want) in [
            (V1Beta2, "spec.topology.class", Some("classRef.name")),
            (
                V1Beta2,
                "spec.workers.machineDeployments[0].template",
                Some("bootstrap, infrastructure and metadata without template around them"),
            ),
            (V1Beta2, "spec.workers.deployments", Some("machineDeployments")),
            (V1Beta1, "spec.topology.workers.machineDeployments[3].labels", Some("metadata.labels")),
            (V1Beta1, "spec.workers.machineDeployments[3].bootstrap", Some("template.bootstrap")),
            (V1Beta1, "spec.topology.myClassRef", None),
            (V1Beta1, "spec.topology.controlPlane.replica", None),
        ] {
            assert_eq!(instead(version, field), want, "{version:?} {field}");
        }
    }

    #[test]
    fn the_replacement_of_a_renamed_field_exists() {
        for version in [V1Beta1, V1Beta2] {
            let fields = fields(version);
            let known = |end: &str| fields.iter().any(|field| field.ends_with(&format!(".{end}")) || field == end);
            for (_, end, instead) in ROWS.iter().filter(|(versions, ..)| versions.contains(&version)) {
                for name in instead.split(", ").flat_map(|names| names.split(" and ")) {
                    let name = name.split(' ').next().unwrap_or_default();
                    assert!(known(name) || name == "of", "{version:?} {end}: {name}");
                }
            }
        }
    }

    #[test]
    fn a_row_is_about_a_field_of_the_other_version() {
        let leaf = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
        let leaves = |version| fields(version).iter().map(|field| leaf(field)).collect::<BTreeSet<_>>();
        for (versions, end, _) in ROWS.iter().filter(|(versions, ..)| versions.len() == 1) {
            let other = if versions.contains(&V1Beta1) { V1Beta2 } else { V1Beta1 };
            assert!(leaves(other).contains(&leaf(end)), "{other:?} has no {end}");
        }
    }
}
