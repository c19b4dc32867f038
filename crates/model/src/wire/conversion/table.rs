//! Where v1beta1 and v1beta2 store the same value: one table for both directions.
//!
//! A place is an object (or each entry of a list); its rows map values below it. Places are processed in order, inner
//! ones first. Values without a row have the same path in both versions, including unknown fields.

use ValueForm::{Conditions, Contract, Domains, Explicit, NonZero, Object, Same, Seconds, Template, Text};

use crate::hub::Kind;

/// The differences of an object between the versions.
pub(super) struct FieldTable {
    /// `spec.workers.machineDeployments[]`
    pub(super) path: &'static str,
    pub(super) rows: &'static [&'static [FieldMapping]],
    /// Members of v1beta1 only: removed once their rows are moved, and meaningless in v1beta2.
    pub(super) old: &'static [&'static str],
    /// Members of v1beta2 only: removed once their rows are moved, and meaningless in v1beta1.
    pub(super) new: &'static [&'static str],
    /// Members of v1beta1 that the upgrade drops (CONV-012).
    pub(super) dropped: &'static [&'static str],
}

/// A value: its path in v1beta1, its path in v1beta2, and its form.
pub(super) struct FieldMapping {
    pub(super) old: &'static str,
    pub(super) new: &'static str,
    pub(super) form: ValueForm,
}

/// The forms of a value in the two versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueForm {
    /// The same form.
    Same,
    /// A text that is absent if empty (CONV-010, CONV-014).
    Text,
    /// A number that is absent if zero (CONV-014).
    NonZero,
    /// An object that is absent if empty (CONV-009, CONV-015).
    Object,
    /// A boolean that is always written (CONV-003).
    Explicit,
    /// A duration in v1beta1, seconds in v1beta2 (CONV-004).
    Seconds,
    /// A list of unhealthy conditions, each with a timeout (CONV-004).
    Conditions,
    /// A reference to a template, with a namespace in v1beta1; `always` present in v1beta1, even if empty (CONV-006).
    Template { always: bool },
    /// A reference with a version in v1beta1 only (CONV-005).
    Contract,
    /// A map by name in v1beta1, a list in v1beta2 (CONV-003, CONV-016).
    Domains,
}

/// The tables of a kind.
pub(super) fn places(kind: Kind) -> &'static [FieldTable] {
    match kind {
        Kind::Cluster => CLUSTER,
        Kind::ClusterClass => CLUSTER_CLASS,
        // These kinds are never converted.
        Kind::MachineDeployment | Kind::MachineSet | Kind::Machine | Kind::MachineHealthCheck => &[],
    }
}

/// Groups of kinds of the embedded provider with equal tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EmbeddedRole {
    Cluster,
    /// Their status differs only in flag, failures and conditions.
    Machine,
    MachinePool,
    Config,
    ControlPlane,
    ClusterTemplate,
    ControlPlaneTemplate,
    /// Templates with equal versions.
    OtherTemplate,
}

/// The tables of a kind of the embedded provider: v1alpha1 is the older form, v1beta1 the newer one (CT-5.4).
pub(super) fn places_of_provider(part: EmbeddedRole) -> &'static [FieldTable] {
    match part {
        EmbeddedRole::Cluster => EMBEDDED_CLUSTER,
        EmbeddedRole::Machine | EmbeddedRole::MachinePool => EMBEDDED_MACHINE,
        EmbeddedRole::Config => EMBEDDED_CONFIG,
        EmbeddedRole::ControlPlane => EMBEDDED_CONTROL_PLANE,
        EmbeddedRole::ClusterTemplate => EMBEDDED_CLUSTER_TEMPLATE,
        EmbeddedRole::ControlPlaneTemplate => EMBEDDED_CONTROL_PLANE_TEMPLATE,
        EmbeddedRole::OtherTemplate => &[],
    }
}

const fn row(old: &'static str, new: &'static str, form: ValueForm) -> FieldMapping {
    FieldMapping { old, new, form }
}

/// A value with the same path in both versions.
const fn stays(path: &'static str, form: ValueForm) -> FieldMapping {
    row(path, path, form)
}

const fn place(path: &'static str, rows: &'static [&'static [FieldMapping]]) -> FieldTable {
    FieldTable { path, rows, old: &[], new: &[], dropped: &[] }
}

impl FieldTable {
    const fn only(mut self, old: &'static [&'static str], new: &'static [&'static str]) -> Self {
        self.old = old;
        self.new = new;
        self
    }

    const fn dropping(mut self, dropped: &'static [&'static str]) -> Self {
        self.dropped = dropped;
        self
    }
}

const TIMEOUTS: &[FieldMapping] = &[
    row("nodeDrainTimeout", "deletion.nodeDrainTimeoutSeconds", Seconds),
    row("nodeVolumeDetachTimeout", "deletion.nodeVolumeDetachTimeoutSeconds", Seconds),
    row("nodeDeletionTimeout", "deletion.nodeDeletionTimeoutSeconds", Seconds),
];

/// Health checks (CONV-009); only topologies have `enabled`.
const HEALTH_CHECK: &[FieldMapping] = &[
    row("machineHealthCheck.enable", "healthCheck.enabled", Same),
    row("machineHealthCheck.nodeStartupTimeout", "healthCheck.checks.nodeStartupTimeoutSeconds", Seconds),
    row("machineHealthCheck.unhealthyConditions", "healthCheck.checks.unhealthyNodeConditions", Conditions),
    row("machineHealthCheck.unhealthyMachineConditions", "healthCheck.checks.unhealthyMachineConditions", Conditions),
    row("machineHealthCheck.maxUnhealthy", "healthCheck.remediation.triggerIf.unhealthyLessThanOrEqualTo", Same),
    row("machineHealthCheck.unhealthyRange", "healthCheck.remediation.triggerIf.unhealthyInRange", Text),
    row("machineHealthCheck.remediationTemplate", "healthCheck.remediation.templateRef", Template { always: false }),
];

/// Strategies (CONV-008).
const STRATEGY: &[FieldMapping] = &[
    row("strategy.type", "rollout.strategy.type", Same),
    row("strategy.rollingUpdate.maxSurge", "rollout.strategy.rollingUpdate.maxSurge", Same),
    row("strategy.rollingUpdate.maxUnavailable", "rollout.strategy.rollingUpdate.maxUnavailable", Same),
    row("strategy.rollingUpdate.deletePolicy", "deletion.order", Same),
    row("strategy.remediation.maxInFlight", "healthCheck.remediation.maxInFlight", Same),
];

const NAMING: &[FieldMapping] = &[row("namingStrategy.template", "naming.template", Text)];

/// Templates (CONV-006).
const TEMPLATE: &[FieldMapping] = &[row("ref", "templateRef", Template { always: true })];
const OPTIONAL_TEMPLATE: &[FieldMapping] = &[row("ref", "templateRef", Template { always: false })];

/// Worker classes: v1beta2 has no level `template` (CONV-011).
const WORKER_CLASS: &[FieldMapping] = &[
    row("template.metadata", "metadata", Object),
    row("template.bootstrap.ref", "bootstrap.templateRef", Template { always: true }),
    row("template.infrastructure.ref", "infrastructure.templateRef", Template { always: true }),
];

/// Members of machine topologies at the same path.
const TOPOLOGY_PART: &[FieldMapping] = &[stays("metadata", Object), stays("variables", Object)];
const METADATA: &[FieldMapping] = &[stays("metadata", Object)];
const FAILURE_DOMAIN: &[FieldMapping] = &[stays("failureDomain", Text)];

/// Variables (CONV-011).
const VARIABLE: &[FieldMapping] = &[row("metadata", "deprecatedV1Beta1Metadata", Object), stays("required", Explicit)];

/// Legacy conditions, which make room for those that v1beta1 has under `v1beta2` (CONV-016).
const CONDITIONS: &[FieldMapping] =
    &[row("conditions", "deprecated.v1beta1.conditions", Same), row("v1beta2.conditions", "conditions", Same)];
const CLUSTER_STATUS: &[FieldMapping] = &[
    row("failureReason", "deprecated.v1beta1.failureReason", Text),
    row("failureMessage", "deprecated.v1beta1.failureMessage", Text),
    row("v1beta2.controlPlane", "controlPlane", Same),
    row("v1beta2.workers", "workers", Same),
    row("controlPlaneReady", "initialization.controlPlaneInitialized", Same),
    row("infrastructureReady", "initialization.infrastructureProvisioned", Same),
    stays("failureDomains", Domains),
];

const VALUES_OF_A_CLUSTER: [&str; 4] = [
    "spec.topology.variables[]",
    "spec.topology.controlPlane.variables.overrides[]",
    "spec.topology.workers.machineDeployments[].variables.overrides[]",
    "spec.topology.workers.machinePools[].variables.overrides[]",
];
const DEFINITION_FROM: &[&str] = &["definitionFrom"];

const CLUSTER: &[FieldTable] = &[
    place(VALUES_OF_A_CLUSTER[0], &[]).dropping(DEFINITION_FROM),
    place(VALUES_OF_A_CLUSTER[1], &[]).dropping(DEFINITION_FROM),
    place(VALUES_OF_A_CLUSTER[2], &[]).dropping(DEFINITION_FROM),
    place(VALUES_OF_A_CLUSTER[3], &[]).dropping(DEFINITION_FROM),
    place("spec.topology.controlPlane", &[TIMEOUTS, HEALTH_CHECK, TOPOLOGY_PART])
        .only(&["machineHealthCheck"], &["healthCheck", "deletion"]),
    place(
        "spec.topology.workers.machineDeployments[]",
        &[TIMEOUTS, HEALTH_CHECK, STRATEGY, TOPOLOGY_PART, FAILURE_DOMAIN],
    )
    .only(&["machineHealthCheck", "strategy"], &["healthCheck", "deletion", "rollout.strategy"]),
    place("spec.topology.workers.machinePools[]", &[TIMEOUTS, TOPOLOGY_PART]).only(&[], &["deletion"]),
    place(
        "spec.topology",
        &[
            &[row("class", "classRef.name", Text), row("classNamespace", "classRef.namespace", Text)],
            &[stays("controlPlane", Object), stays("workers", Object)],
        ],
    )
    .only(&[], &["classRef"]),
    place(
        "spec.clusterNetwork",
        &[&[
            stays("apiServerPort", NonZero),
            stays("pods", Object),
            stays("services", Object),
            stays("serviceDomain", Text),
        ]],
    ),
    place("spec.controlPlaneEndpoint", &[&[stays("host", Text), stays("port", NonZero)]]),
    place(
        "spec",
        &[&[
            stays("clusterNetwork", Object),
            stays("controlPlaneEndpoint", Object),
            stays("controlPlaneRef", Contract),
            stays("infrastructureRef", Contract),
            stays("topology", Object),
        ]],
    ),
    place("status", &[CONDITIONS, CLUSTER_STATUS])
        .only(&["v1beta2"], &["deprecated", "initialization", "controlPlane", "workers"]),
];

const CLUSTER_CLASS: &[FieldTable] = &[
    place("spec.infrastructure", &[TEMPLATE]).only(&[], &["templateRef"]),
    place("spec.controlPlane.machineInfrastructure", &[OPTIONAL_TEMPLATE]).only(&[], &["templateRef"]),
    place(
        "spec.controlPlane",
        &[TEMPLATE, NAMING, TIMEOUTS, HEALTH_CHECK, METADATA, &[stays("machineInfrastructure", Object)]],
    )
    .only(&["machineHealthCheck", "namingStrategy"], &["templateRef", "naming", "healthCheck", "deletion"]),
    place(
        "spec.workers.machineDeployments[]",
        &[WORKER_CLASS, NAMING, TIMEOUTS, HEALTH_CHECK, STRATEGY, FAILURE_DOMAIN],
    )
    .only(
        &["template", "namingStrategy", "machineHealthCheck", "strategy"],
        &["metadata", "bootstrap", "infrastructure", "naming", "healthCheck", "deletion", "rollout"],
    ),
    place("spec.workers.machinePools[]", &[WORKER_CLASS, NAMING, TIMEOUTS])
        .only(&["template", "namingStrategy"], &["metadata", "bootstrap", "infrastructure", "naming", "deletion"]),
    place("spec.variables[].schema.openAPIV3Schema", &[&[stays("x-metadata", Object)]]),
    place("spec.variables[]", &[VARIABLE]).only(&[], &["deprecatedV1Beta1Metadata"]),
    place(
        "spec.patches[].definitions[].jsonPatches[].valueFrom",
        &[&[stays("variable", Text), stays("template", Text)]],
    ),
    place(
        "spec.patches[].external",
        &[&[
            row("generateExtension", "generatePatchesExtension", Text),
            row("validateExtension", "validateTopologyExtension", Text),
            stays("discoverVariablesExtension", Text),
        ]],
    )
    .only(&[], &["generatePatchesExtension", "validateTopologyExtension"]),
    place("spec.patches[]", &[&[stays("enabledIf", Text)]]),
    place(
        "spec",
        &[&[
            row("infrastructureNamingStrategy.template", "infrastructure.naming.template", Text),
            stays("workers", Object),
        ]],
    )
    .only(&["infrastructureNamingStrategy"], &["infrastructure.naming"]),
    place("status.variables[].definitions[].schema.openAPIV3Schema", &[&[stays("x-metadata", Object)]]),
    place("status.variables[].definitions[]", &[VARIABLE]).only(&[], &["deprecatedV1Beta1Metadata"]),
    place("status", &[CONDITIONS]).only(&["v1beta2"], &["deprecated"]),
];

/// Endpoints: unknown members are empty or 0 in the older contract (CT-6.2).
const ENDPOINT: &[FieldMapping] = &[stays("host", Text), stays("port", NonZero)];
const HAS_ENDPOINT: &[FieldMapping] = &[stays("controlPlaneEndpoint", Object)];

/// Terminal failures, which the newer contract lacks (CT-6.7).
const FAILURE: &[FieldMapping] = &[
    row("failureReason", "deprecated.v1beta1.failureReason", Text),
    row("failureMessage", "deprecated.v1beta1.failureMessage", Text),
];
const PROVISIONED: &[FieldMapping] = &[row("ready", "initialization.provisioned", Same)];

const EMBEDDED_CLUSTER: &[FieldTable] = &[
    place("spec.controlPlaneEndpoint", &[ENDPOINT]),
    place("spec", &[HAS_ENDPOINT]),
    place("status", &[CONDITIONS, FAILURE, PROVISIONED, &[stays("failureDomains", Domains)]])
        .only(&["v1beta2"], &["deprecated", "initialization"]),
];

const EMBEDDED_CLUSTER_TEMPLATE: &[FieldTable] =
    &[place("spec.template.spec.controlPlaneEndpoint", &[ENDPOINT]), place("spec.template.spec", &[HAS_ENDPOINT])];

const EMBEDDED_MACHINE: &[FieldTable] =
    &[place("status", &[CONDITIONS, FAILURE, PROVISIONED]).only(&["v1beta2"], &["deprecated", "initialization"])];

const EMBEDDED_CONFIG: &[FieldTable] =
    &[place("status", &[CONDITIONS, FAILURE, &[row("ready", "initialization.dataSecretCreated", Same)]])
        .only(&["v1beta2"], &["deprecated", "initialization"])];

/// Machine settings: beside the machine metadata in the older contract, in the machine spec in the newer one (CT-5.4).
const MACHINES: &[FieldMapping] = &[
    row("infrastructureRef", "spec.infrastructureRef", Contract),
    row("nodeDrainTimeout", "spec.deletion.nodeDrainTimeoutSeconds", Seconds),
    row("nodeVolumeDetachTimeout", "spec.deletion.nodeVolumeDetachTimeoutSeconds", Seconds),
    row("nodeDeletionTimeout", "spec.deletion.nodeDeletionTimeoutSeconds", Seconds),
    row("readinessGates", "spec.readinessGates", Same),
    row("taints", "spec.taints", Same),
];

const EMBEDDED_CONTROL_PLANE: &[FieldTable] = &[
    place("spec.machineTemplate", &[MACHINES]).only(&[], &["spec"]),
    place("spec.controlPlaneEndpoint", &[ENDPOINT]),
    place("spec", &[HAS_ENDPOINT]),
    place(
        "status",
        &[
            CONDITIONS,
            FAILURE,
            &[
                row("initialized", "initialization.controlPlaneInitialized", Same),
                row("updatedReplicas", "upToDateReplicas", Same),
                row("v1beta2.availableReplicas", "availableReplicas", Same),
            ],
        ],
    )
    .only(&["v1beta2"], &["deprecated", "initialization"])
    .dropping(&["ready", "unavailableReplicas"]),
];

const EMBEDDED_CONTROL_PLANE_TEMPLATE: &[FieldTable] =
    &[place("spec.template.spec.machineTemplate", &[MACHINES]).only(&[], &["spec"])];
