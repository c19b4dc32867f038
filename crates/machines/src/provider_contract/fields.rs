//! Fields that the controllers read and write in provider objects, by role and contract (CT-5.4).

use super::bounds;
use super::definition::{DefinitionVersion, ProviderDefinition, ProviderRole};
use super::field_types::FieldType::{Boolean, Integer, List, Object, ObjectMap, Objects, Text, TextMap, Texts};
use super::field_types::{FieldLookup, FieldType, ObjectMember, find};
use super::finding::{ContractFinding, Level};
use crate::lifecycle::contract::Flag;
use model::hub::contract::Contract::{self, V1Beta1, V1Beta2};

/// A field with its type and rule.
type ContractField = (&'static str, FieldType, &'static str);

/// Endpoints (CT-6.2).
const ENDPOINT: FieldType = Object(&[("host", Text, true), ("port", Integer, true)]);
/// Conditions, of either contract (CT-15.9).
const CONDITIONS: FieldType =
    Objects(&[("type", Text, true), ("status", Text, true), ("reason", Text, false), ("message", Text, false)]);
const DOMAIN: &[ObjectMember] = &[("controlPlane", Boolean, false), ("attributes", TextMap, false)];
const NAMED_DOMAIN: &[ObjectMember] =
    &[("name", Text, true), ("controlPlane", Boolean, false), ("attributes", TextMap, false)];
/// Machine addresses (CT-8.4).
const ADDRESSES: FieldType = Objects(&[("type", Text, true), ("address", Text, true)]);
/// Control plane versions (CT-5.14).
const VERSIONS: FieldType = Objects(&[("version", Text, true), ("replicas", Integer, false)]);
/// Terminal failures (CT-6.7).
const FAILURES: [ContractField; 2] =
    [("status.failureReason", Text, "CT-6.7"), ("status.failureMessage", Text, "CT-6.7")];

/// Checks the schema of the version in which objects are read.
pub(super) fn check(definition: &ProviderDefinition<'_>, role: ProviderRole, findings: &mut Vec<ContractFinding>) {
    let Some((contract, version)) = definition.read() else { return };
    let Some(schema) = FieldSchema::for_version(version, findings) else { return };
    let mut found = Vec::new();
    found.extend(schema.flag(role, contract));
    required(role).iter().for_each(|field| found.extend(schema.needs(*field)));
    for field in optional(role, contract).iter().chain(&FAILURES) {
        found.extend(schema.may_have(*field));
    }
    found.extend(schema.conditions(role));
    found.extend(schema.failures(contract));
    match role {
        ProviderRole::InfrastructureCluster => found.extend(bounds::check(schema.openapi, contract)),
        ProviderRole::ControlPlane => found.extend(schema.control_plane(contract)),
        _ => {}
    }
    findings.extend(found.into_iter().map(|finding| finding.of_version(version.name)));
}

/// Mandatory fields of a role in either contract.
fn required(role: ProviderRole) -> &'static [ContractField] {
    match role {
        ProviderRole::InfrastructureMachine => &[("spec.providerID", Text, "CT-8.1")],
        ProviderRole::InfrastructureMachinePool => {
            &[("spec.providerIDList", Texts, "CT-13.1"), ("status.replicas", Integer, "CT-13.1")]
        }
        ProviderRole::BootstrapConfig => &[("status.dataSecretName", Text, "CT-12.1")],
        ProviderRole::InfrastructureCluster | ProviderRole::ControlPlane => &[],
    }
}

/// Optional fields of a role, with their types.
fn optional(role: ProviderRole, contract: Contract) -> Vec<ContractField> {
    match (role, contract) {
        (ProviderRole::InfrastructureCluster, V1Beta1) => {
            vec![
                ("spec.controlPlaneEndpoint", ENDPOINT, "CT-6.2"),
                ("status.failureDomains", ObjectMap(DOMAIN), "CT-5.10"),
            ]
        }
        (ProviderRole::InfrastructureCluster, V1Beta2) => vec![
            ("spec.controlPlaneEndpoint", ENDPOINT, "CT-6.2"),
            ("status.failureDomains", Objects(NAMED_DOMAIN), "CT-5.11"),
        ],
        (ProviderRole::InfrastructureMachine, _) => vec![
            ("status.addresses", ADDRESSES, "CT-8.4"),
            ("status.failureDomain", Text, "CT-8.3"),
            ("spec.failureDomain", Text, "CT-8.3"),
            ("status.interruptible", Boolean, "CT-8.5"),
        ],
        (ProviderRole::InfrastructureMachinePool, _) => vec![("status.infrastructureMachineKind", Text, "CT-13.2")],
        (ProviderRole::BootstrapConfig, _) => Vec::new(),
        (ProviderRole::ControlPlane, contract) => {
            let both: [ContractField; 4] = [
                ("spec.controlPlaneEndpoint", ENDPOINT, "CT-6.2"),
                ("status.externalManagedControlPlane", Boolean, "CT-10.16"),
                ("spec.machineTemplate.metadata.labels", TextMap, "CT-10.13"),
                ("spec.machineTemplate.metadata.annotations", TextMap, "CT-10.13"),
            ];
            [&both[..], machine_settings(contract)].concat()
        }
    }
}

/// Machine settings of a control plane (CT-10.13).
const fn machine_settings(contract: Contract) -> &'static [ContractField] {
    match contract {
        V1Beta1 => &[
            ("spec.machineTemplate.nodeDrainTimeout", Text, "CT-10.13"),
            ("spec.machineTemplate.nodeVolumeDetachTimeout", Text, "CT-10.13"),
            ("spec.machineTemplate.nodeDeletionTimeout", Text, "CT-10.13"),
            ("spec.machineTemplate.readinessGates", List, "CT-10.13"),
            ("spec.machineTemplate.taints", List, "CT-10.13"),
        ],
        V1Beta2 => &[
            ("spec.machineTemplate.spec.deletion.nodeDrainTimeoutSeconds", Integer, "CT-10.13"),
            ("spec.machineTemplate.spec.deletion.nodeVolumeDetachTimeoutSeconds", Integer, "CT-10.13"),
            ("spec.machineTemplate.spec.deletion.nodeDeletionTimeoutSeconds", Integer, "CT-10.13"),
            ("spec.machineTemplate.spec.readinessGates", List, "CT-10.13"),
            ("spec.machineTemplate.spec.taints", List, "CT-10.13"),
            ("spec.rollout.after", Text, "CT-5.4"),
        ],
    }
}

/// Counters of a control plane with replicas (CT-10.2).
const fn counters(contract: Contract) -> [ContractField; 5] {
    let (available, updated) = match contract {
        V1Beta1 => ("status.unavailableReplicas", "status.updatedReplicas"),
        V1Beta2 => ("status.availableReplicas", "status.upToDateReplicas"),
    };
    [
        ("status.selector", Text, "CT-10.2"),
        ("status.replicas", Integer, "CT-10.2"),
        ("status.readyReplicas", Integer, "CT-10.2"),
        (available, Integer, "CT-10.2"),
        (updated, Integer, "CT-10.2"),
    ]
}

/// The flags of a machine pool (CT-13.1, CT-20.1).
const POOL_FLAGS: &str = "add both, as booleans, and report both: topologist reads status.ready and status.initialization.provisioned of machine \
     pools, Cluster API v1.14 only status.ready";

/// The scale subresource of a control plane with replicas (CT-10.2).
const SCALE: [(&str, &str); 3] = [
    ("specReplicasPath", ".spec.replicas"),
    ("statusReplicasPath", ".status.replicas"),
    ("labelSelectorPath", ".status.selector"),
];

/// The machine template reference (CT-11.2).
const fn machine_template(contract: Contract) -> ContractField {
    match contract {
        V1Beta1 => (
            "spec.machineTemplate.infrastructureRef",
            Object(&[
                ("apiVersion", Text, true),
                ("kind", Text, true),
                ("name", Text, true),
                ("namespace", Text, true),
            ]),
            "CT-11.2",
        ),
        V1Beta2 => (
            "spec.machineTemplate.spec.infrastructureRef",
            Object(&[("apiGroup", Text, true), ("kind", Text, true), ("name", Text, true)]),
            "CT-11.2",
        ),
    }
}

/// The schema of one version.
struct FieldSchema<'a> {
    openapi: &'a serde_json::Value,
    version: &'a DefinitionVersion<'a>,
}

impl<'a> FieldSchema<'a> {
    fn for_version(version: &'a DefinitionVersion<'a>, findings: &mut Vec<ContractFinding>) -> Option<Self> {
        if version.schema.is_none() {
            let finding = ContractFinding::error(
                "CT-1.3",
                "schema.openAPIV3Schema",
                "the version has no schema, so no field is kept",
            );
            findings.push(finding.of_version(version.name).with_remediation("give the version a schema"));
        }
        Some(FieldSchema { openapi: version.schema?, version })
    }

    fn has(&self, path: &str) -> bool {
        find(self.openapi, path) != FieldLookup::Missing
    }

    /// Whether the schema describes the field.
    fn describes(&self, path: &str) -> bool {
        matches!(find(self.openapi, path), FieldLookup::Known(_))
    }

    /// Checks a mandatory field.
    fn needs(&self, (path, holds, rule): ContractField) -> Option<ContractFinding> {
        let missing = || {
            ContractFinding::error(rule, path, "the schema does not have this field, so the API server drops its value")
                .with_remediation(format!("add it as {}", holds.words()))
        };
        if self.has(path) { self.may_have((path, holds, rule)) } else { Some(missing()) }
    }

    /// Checks the type of an optional field.
    fn may_have(&self, (path, holds, rule): ContractField) -> Option<ContractFinding> {
        let FieldLookup::Known(node) = find(self.openapi, path) else { return None };
        let (place, difference) = holds.mismatch(node, path)?;
        let remediation = format!("make {path} {}", holds.words());
        Some(ContractFinding::error(rule, place, difference).with_remediation(remediation))
    }

    /// Checks the flag of the object; a message names the flag of the other contract if present.
    fn flag(&self, role: ProviderRole, contract: Contract) -> Option<ContractFinding> {
        let flag = match role {
            ProviderRole::ControlPlane => Flag::ControlPlaneInitialized,
            ProviderRole::BootstrapConfig => Flag::DataSecretCreated,
            _ => Flag::Provisioned,
        };
        let (path, another) = match contract {
            V1Beta1 => (flag.path(V1Beta1), flag.path(V1Beta2)),
            V1Beta2 => (flag.path(V1Beta2), flag.path(V1Beta1)),
        };
        let mut finding = self.needs((path, Boolean, role.mandatory()))?;
        if !self.has(path) && role == ProviderRole::InfrastructureMachinePool {
            POOL_FLAGS.clone_into(&mut finding.remediation);
            if self.has(another) {
                finding.level = Level::Warning;
                finding.message = format!("the schema has {another} alone");
            }
        } else if !self.has(path) && self.has(another) {
            finding.message.push_str(&format!("; {another} belongs to the other contract and is not read"));
        }
        Some(finding)
    }

    /// Checks the conditions, which are recommended (CT-15.9).
    fn conditions(&self, role: ProviderRole) -> Option<ContractFinding> {
        let path = ["status.v1beta2.conditions", "status.conditions"].into_iter().find(|path| self.has(path));
        let Some(path) = path else {
            let (wanted, target) = match role {
                ProviderRole::InfrastructureCluster => ("Ready", "InfrastructureReady of the Cluster"),
                ProviderRole::ControlPlane => ("Available", "ControlPlaneAvailable of the Cluster"),
                ProviderRole::BootstrapConfig => ("Ready", "BootstrapConfigReady of the Machine"),
                _ => ("Ready", "InfrastructureReady of the Machine"),
            };
            let message = format!("there are no conditions, so {target} cannot say what the provider waits for");
            let remediation = format!("add a list of conditions, and report the condition {wanted}");
            return Some(
                ContractFinding::warning("CT-15.8", "status.conditions", message).with_remediation(remediation),
            );
        };
        self.may_have((path, CONDITIONS, "CT-15.9"))
    }

    /// Checks failures, which have no effect in the newer contract (CT-6.7).
    fn failures(&self, contract: Contract) -> Option<ContractFinding> {
        let (path, ..) =
            FAILURES.into_iter().find(|(path, ..)| self.describes(path)).filter(|_| contract == V1Beta2)?;
        let message = "terminal failures are not part of contract v1beta2";
        Some(ContractFinding::warning("CT-20.2", path, message).with_remediation("report failures in a condition"))
    }

    fn control_plane(&self, contract: Contract) -> Vec<ContractFinding> {
        let mut found = self.versions();
        if self.describes("spec.replicas") {
            found.extend(self.may_have(("spec.replicas", Integer, "CT-10.2")));
            found.extend(counters(contract).into_iter().filter_map(|field| self.needs(field)));
            found.extend(self.scale());
        }
        if self.has("spec.machineTemplate") {
            found.extend(self.needs(machine_template(contract)));
        }
        found
    }

    /// Checks the desired and the current version (CT-10.1, CT-10.4).
    fn versions(&self) -> Vec<ContractFinding> {
        let is_wanted = self.has("spec.version");
        let runs = ["status.versions", "status.version"].into_iter().any(|path| self.has(path));
        let mut found = Vec::new();
        if !is_wanted && !runs {
            let message = "there is no version, so a topology cannot set or upgrade the Kubernetes version";
            found.push(
                ContractFinding::warning("CT-10.4", "spec.version", message)
                    .with_remediation("add spec.version and status.version"),
            );
        } else if !is_wanted {
            found.extend(self.needs(("spec.version", Text, "CT-10.1")));
        } else if !runs {
            let message = "there is spec.version but no status.version, so an upgrade never counts as finished";
            found.push(
                ContractFinding::error("CT-10.1", "status.version", message).with_remediation("add it as a string"),
            );
        }
        let fields = [
            ("spec.version", Text, "CT-10.1"),
            ("status.version", Text, "CT-10.1"),
            ("status.versions", VERSIONS, "CT-5.14"),
        ];
        found.extend(fields.into_iter().filter(|(path, ..)| self.has(path)).filter_map(|field| self.may_have(field)));
        found
    }

    fn scale(&self) -> Option<ContractFinding> {
        let scale = self.version.subresources.and_then(|subresources| subresources.get("scale"));
        let path = |name: &str| scale.and_then(|scale| scale.get(name)).and_then(serde_json::Value::as_str);
        let (name, wanted) = SCALE.into_iter().find(|(name, wanted)| path(name) != Some(*wanted))?;
        let field = format!("subresources.scale.{name}");
        let message =
            format!("the scale subresource has {}, but the contract has {wanted}", path(name).unwrap_or("nothing"));
        Some(ContractFinding::error("CT-10.2", field, message).with_remediation(format!("set it to {wanted}")))
    }
}
