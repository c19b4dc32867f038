//! The fields that the controllers read and write in objects of providers, by role and contract (CT-5.4).

use super::bounds;
use super::definition::{Definition, Role, Version};
use super::finding::{Finding, Level};
use super::holds::Holds::{Boolean, Integer, List, Object, ObjectMap, Objects, Text, TextMap, Texts};
use super::holds::{Holds, Member, Place, find};
use crate::lifecycle::contract::Flag;
use model::hub::contract::Contract::{self, V1Beta1, V1Beta2};

/// A field, what it holds, and the rule that says so.
type Field = (&'static str, Holds, &'static str);

/// An endpoint (CT-6.2).
const ENDPOINT: Holds = Object(&[("host", Text, true), ("port", Integer, true)]);
/// Conditions, of either contract (CT-15.9).
const CONDITIONS: Holds =
    Objects(&[("type", Text, true), ("status", Text, true), ("reason", Text, false), ("message", Text, false)]);
const DOMAIN: &[Member] = &[("controlPlane", Boolean, false), ("attributes", TextMap, false)];
const NAMED_DOMAIN: &[Member] =
    &[("name", Text, true), ("controlPlane", Boolean, false), ("attributes", TextMap, false)];
/// Addresses of a machine (CT-8.4).
const ADDRESSES: Holds = Objects(&[("type", Text, true), ("address", Text, true)]);
/// Versions of a control plane (CT-5.14).
const VERSIONS: Holds = Objects(&[("version", Text, true), ("replicas", Integer, false)]);
/// Failures that a provider does not recover from (CT-6.7).
const FAILURES: [Field; 2] = [("status.failureReason", Text, "CT-6.7"), ("status.failureMessage", Text, "CT-6.7")];

/// Checks the schema of the version in which objects are read.
pub(super) fn check(definition: &Definition<'_>, role: Role, findings: &mut Vec<Finding>) {
    let Some((contract, version)) = definition.read() else { return };
    let Some(schema) = Schema::of(version, findings) else { return };
    let mut found = Vec::new();
    found.extend(schema.flag(role, contract));
    required(role).iter().for_each(|field| found.extend(schema.needs(*field)));
    for field in optional(role, contract).iter().chain(&FAILURES) {
        found.extend(schema.may_have(*field));
    }
    found.extend(schema.conditions(role));
    found.extend(schema.failures(contract));
    match role {
        Role::InfrastructureCluster => found.extend(bounds::check(schema.openapi, contract)),
        Role::ControlPlane => found.extend(schema.control_plane(contract)),
        _ => {}
    }
    findings.extend(found.into_iter().map(|finding| finding.of_version(version.name)));
}

/// Fields that objects of a role have in either contract.
fn required(role: Role) -> &'static [Field] {
    match role {
        Role::InfrastructureMachine => &[("spec.providerID", Text, "CT-8.1")],
        Role::InfrastructureMachinePool => {
            &[("spec.providerIDList", Texts, "CT-13.1"), ("status.replicas", Integer, "CT-13.1")]
        }
        Role::BootstrapConfig => &[("status.dataSecretName", Text, "CT-12.1")],
        Role::InfrastructureCluster | Role::ControlPlane => &[],
    }
}

/// Fields that objects of a role may have; if they do, this is what the fields hold.
fn optional(role: Role, contract: Contract) -> Vec<Field> {
    match (role, contract) {
        (Role::InfrastructureCluster, V1Beta1) => {
            vec![
                ("spec.controlPlaneEndpoint", ENDPOINT, "CT-6.2"),
                ("status.failureDomains", ObjectMap(DOMAIN), "CT-5.10"),
            ]
        }
        (Role::InfrastructureCluster, V1Beta2) => vec![
            ("spec.controlPlaneEndpoint", ENDPOINT, "CT-6.2"),
            ("status.failureDomains", Objects(NAMED_DOMAIN), "CT-5.11"),
        ],
        (Role::InfrastructureMachine, _) => vec![
            ("status.addresses", ADDRESSES, "CT-8.4"),
            ("status.failureDomain", Text, "CT-8.3"),
            ("spec.failureDomain", Text, "CT-8.3"),
            ("status.interruptible", Boolean, "CT-8.5"),
        ],
        (Role::InfrastructureMachinePool, _) => vec![("status.infrastructureMachineKind", Text, "CT-13.2")],
        (Role::BootstrapConfig, _) => Vec::new(),
        (Role::ControlPlane, contract) => {
            let both: [Field; 4] = [
                ("spec.controlPlaneEndpoint", ENDPOINT, "CT-6.2"),
                ("status.externalManagedControlPlane", Boolean, "CT-10.16"),
                ("spec.machineTemplate.metadata.labels", TextMap, "CT-10.13"),
                ("spec.machineTemplate.metadata.annotations", TextMap, "CT-10.13"),
            ];
            [&both[..], machine_settings(contract)].concat()
        }
    }
}

/// What a control plane hands down to its Machines (CT-10.13).
const fn machine_settings(contract: Contract) -> &'static [Field] {
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

/// Counters that a control plane with replicas has (CT-10.2).
const fn counters(contract: Contract) -> [Field; 5] {
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

/// The reference to the template of the machines (CT-11.2).
const fn machine_template(contract: Contract) -> Field {
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
struct Schema<'a> {
    openapi: &'a serde_json::Value,
    version: &'a Version<'a>,
}

impl<'a> Schema<'a> {
    fn of(version: &'a Version<'a>, findings: &mut Vec<Finding>) -> Option<Self> {
        if version.schema.is_none() {
            let finding =
                Finding::error("CT-1.3", "schema.openAPIV3Schema", "the version has no schema, so no field is kept");
            findings.push(finding.of_version(version.name).way_out("give the version a schema"));
        }
        Some(Schema { openapi: version.schema?, version })
    }

    fn has(&self, path: &str) -> bool {
        find(self.openapi, path) != Place::Missing
    }

    /// Whether the schema says what the field holds.
    fn describes(&self, path: &str) -> bool {
        matches!(find(self.openapi, path), Place::Known(_))
    }

    /// A field that must be there.
    fn needs(&self, (path, holds, rule): Field) -> Option<Finding> {
        let missing = || {
            Finding::error(rule, path, "the schema does not have this field, so the API server drops its value")
                .way_out(format!("add it as {}", holds.words()))
        };
        if self.has(path) { self.may_have((path, holds, rule)) } else { Some(missing()) }
    }

    /// A field that holds what the contract says if it is there.
    fn may_have(&self, (path, holds, rule): Field) -> Option<Finding> {
        let Place::Known(node) = find(self.openapi, path) else { return None };
        let (place, difference) = holds.mismatch(node, path)?;
        let way_out = format!("make {path} {}", holds.words());
        Some(Finding::error(rule, place, difference).way_out(way_out))
    }

    /// The flag that the object is ready for what comes next; a message names the flag of the other contract if there is one.
    fn flag(&self, role: Role, contract: Contract) -> Option<Finding> {
        let flag = match role {
            Role::ControlPlane => Flag::ControlPlaneInitialized,
            Role::BootstrapConfig => Flag::DataSecretCreated,
            _ => Flag::Provisioned,
        };
        let (path, another) = match contract {
            V1Beta1 => (flag.path(V1Beta1), flag.path(V1Beta2)),
            V1Beta2 => (flag.path(V1Beta2), flag.path(V1Beta1)),
        };
        let mut finding = self.needs((path, Boolean, role.mandatory()))?;
        if !self.has(path) && role == Role::InfrastructureMachinePool {
            POOL_FLAGS.clone_into(&mut finding.way_out);
            if self.has(another) {
                finding.level = Level::Warning;
                finding.message = format!("the schema has {another} alone");
            }
        } else if !self.has(path) && self.has(another) {
            finding.message.push_str(&format!("; {another} belongs to the other contract and is not read"));
        }
        Some(finding)
    }

    /// Where conditions are read (CT-15.9): they are recommended, and have a form.
    fn conditions(&self, role: Role) -> Option<Finding> {
        let path = ["status.v1beta2.conditions", "status.conditions"].into_iter().find(|path| self.has(path));
        let Some(path) = path else {
            let (wanted, target) = match role {
                Role::InfrastructureCluster => ("Ready", "InfrastructureReady of the Cluster"),
                Role::ControlPlane => ("Available", "ControlPlaneAvailable of the Cluster"),
                Role::BootstrapConfig => ("Ready", "BootstrapConfigReady of the Machine"),
                _ => ("Ready", "InfrastructureReady of the Machine"),
            };
            let message = format!("there are no conditions, so {target} cannot say what the provider waits for");
            let way_out = format!("add a list of conditions, and report the condition {wanted}");
            return Some(Finding::warning("CT-15.8", "status.conditions", message).way_out(way_out));
        };
        self.may_have((path, CONDITIONS, "CT-15.9"))
    }

    /// In the newer contract a failure has no effect on the lifecycle (CT-6.7).
    fn failures(&self, contract: Contract) -> Option<Finding> {
        let (path, ..) =
            FAILURES.into_iter().find(|(path, ..)| self.describes(path)).filter(|_| contract == V1Beta2)?;
        let message = "terminal failures are not part of contract v1beta2";
        Some(Finding::warning("CT-20.2", path, message).way_out("report failures in a condition"))
    }

    fn control_plane(&self, contract: Contract) -> Vec<Finding> {
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

    /// The version that is wanted, and the one that runs (CT-10.1, CT-10.4).
    fn versions(&self) -> Vec<Finding> {
        let is_wanted = self.has("spec.version");
        let runs = ["status.versions", "status.version"].into_iter().any(|path| self.has(path));
        let mut found = Vec::new();
        if !is_wanted && !runs {
            let message = "there is no version, so a topology cannot set or upgrade the Kubernetes version";
            found.push(
                Finding::warning("CT-10.4", "spec.version", message).way_out("add spec.version and status.version"),
            );
        } else if !is_wanted {
            found.extend(self.needs(("spec.version", Text, "CT-10.1")));
        } else if !runs {
            let message = "there is spec.version but no status.version, so an upgrade never counts as finished";
            found.push(Finding::error("CT-10.1", "status.version", message).way_out("add it as a string"));
        }
        let fields = [
            ("spec.version", Text, "CT-10.1"),
            ("status.version", Text, "CT-10.1"),
            ("status.versions", VERSIONS, "CT-5.14"),
        ];
        found.extend(fields.into_iter().filter(|(path, ..)| self.has(path)).filter_map(|field| self.may_have(field)));
        found
    }

    fn scale(&self) -> Option<Finding> {
        let scale = self.version.subresources.and_then(|subresources| subresources.get("scale"));
        let path = |name: &str| scale.and_then(|scale| scale.get(name)).and_then(serde_json::Value::as_str);
        let (name, wanted) = SCALE.into_iter().find(|(name, wanted)| path(name) != Some(*wanted))?;
        let field = format!("subresources.scale.{name}");
        let message =
            format!("the scale subresource has {}, but the contract has {wanted}", path(name).unwrap_or("nothing"));
        Some(Finding::error("CT-10.2", field, message).way_out(format!("set it to {wanted}")))
    }
}
