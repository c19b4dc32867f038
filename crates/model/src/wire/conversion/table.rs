//! Where v1beta1 and v1beta2 keep the same value: one table, read in both directions.
//!
//! A place is an object (or each entry of a list); its rows say what stands where below it. Places are worked through
//! in order, inner ones first. What no row names stands at the same path in both versions, unknown fields included.

use Form::{Conditions, Contract, Domains, Explicit, NonZero, Object, Same, Seconds, Template, Text};

use crate::hub::Kind;

/// What of an object differs between the versions.
pub(super) struct FieldTable {
    /// `spec.workers.machineDeployments[]`
    pub(super) path: &'static str,
    pub(super) rows: &'static [&'static [Row]],
    /// What only v1beta1 has: gone once its rows are moved, and without meaning in v1beta2.
    pub(super) old: &'static [&'static str],
    /// What only v1beta2 has: gone once its rows are moved, and without meaning in v1beta1.
    pub(super) new: &'static [&'static str],
    /// What v1beta1 has and the way up drops (CONV-012).
    pub(super) dropped: &'static [&'static str],
}

/// A value: its path in v1beta1, its path in v1beta2, and how it is written.
pub(super) struct Row {
    pub(super) old: &'static str,
    pub(super) new: &'static str,
    pub(super) form: Form,
}

/// How the versions write a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Alike.
    Same,
    /// Text that is absent where it is empty (CONV-010, CONV-014).
    Text,
    /// A number that is absent where it is zero (CONV-014).
    NonZero,
    /// An object that is absent where it is empty (CONV-009, CONV-015).
    Object,
    /// A boolean that is always written (CONV-003).
    Explicit,
    /// A duration in v1beta1, seconds in v1beta2 (CONV-004).
    Seconds,
    /// A list of unhealthy conditions, each with a timeout (CONV-004).
    Conditions,
    /// A reference to a template, which in v1beta1 has a namespace; `always` there in v1beta1, be it empty (CONV-006).
    Template { always: bool },
    /// A reference whose version only v1beta1 has (CONV-005).
    Contract,
    /// A map by name in v1beta1, a list in v1beta2 (CONV-003, CONV-016).
    Domains,
}

/// The places of a kind.
pub(super) fn places(kind: Kind) -> &'static [FieldTable] {
    match kind {
        Kind::Cluster => CLUSTER,
        Kind::ClusterClass => CLUSTER_CLASS,
        // They are never converted.
        Kind::MachineDeployment | Kind::MachineSet | Kind::Machine | Kind::MachineHealthCheck => &[],
    }
}

/// What kinds of the embedded provider are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Cluster,
    /// Their status differs in flag, failures and conditions alone.
    Machine,
    MachinePool,
    Config,
    ControlPlane,
    ClusterTemplate,
    ControlPlaneTemplate,
    /// Templates whose versions are alike.
    OtherTemplate,
}

/// The places of a kind of the embedded provider: v1alpha1 is the older form, v1beta1 the newer one (CT-5.4).
pub(super) fn places_of_provider(part: Part) -> &'static [FieldTable] {
    match part {
        Part::Cluster => EMBEDDED_CLUSTER,
        Part::Machine | Part::MachinePool => EMBEDDED_MACHINE,
        Part::Config => EMBEDDED_CONFIG,
        Part::ControlPlane => EMBEDDED_CONTROL_PLANE,
        Part::ClusterTemplate => EMBEDDED_CLUSTER_TEMPLATE,
        Part::ControlPlaneTemplate => EMBEDDED_CONTROL_PLANE_TEMPLATE,
        Part::OtherTemplate => &[],
    }
}

const fn row(old: &'static str, new: &'static str, form: Form) -> Row {
    Row { old, new, form }
}

/// A value that does not move.
const fn stays(path: &'static str, form: Form) -> Row {
    row(path, path, form)
}

const fn place(path: &'static str, rows: &'static [&'static [Row]]) -> FieldTable {
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

const TIMEOUTS: &[Row] = &[
    row("nodeDrainTimeout", "deletion.nodeDrainTimeoutSeconds", Seconds),
    row("nodeVolumeDetachTimeout", "deletion.nodeVolumeDetachTimeoutSeconds", Seconds),
    row("nodeDeletionTimeout", "deletion.nodeDeletionTimeoutSeconds", Seconds),
];

/// CONV-009; `enabled` is one of topologies only.
const HEALTH_CHECK: &[Row] = &[
    row("machineHealthCheck.enable", "healthCheck.enabled", Same),
    row("machineHealthCheck.nodeStartupTimeout", "healthCheck.checks.nodeStartupTimeoutSeconds", Seconds),
    row("machineHealthCheck.unhealthyConditions", "healthCheck.checks.unhealthyNodeConditions", Conditions),
    row("machineHealthCheck.unhealthyMachineConditions", "healthCheck.checks.unhealthyMachineConditions", Conditions),
    row("machineHealthCheck.maxUnhealthy", "healthCheck.remediation.triggerIf.unhealthyLessThanOrEqualTo", Same),
    row("machineHealthCheck.unhealthyRange", "healthCheck.remediation.triggerIf.unhealthyInRange", Text),
    row("machineHealthCheck.remediationTemplate", "healthCheck.remediation.templateRef", Template { always: false }),
];

/// CONV-008
const STRATEGY: &[Row] = &[
    row("strategy.type", "rollout.strategy.type", Same),
    row("strategy.rollingUpdate.maxSurge", "rollout.strategy.rollingUpdate.maxSurge", Same),
    row("strategy.rollingUpdate.maxUnavailable", "rollout.strategy.rollingUpdate.maxUnavailable", Same),
    row("strategy.rollingUpdate.deletePolicy", "deletion.order", Same),
    row("strategy.remediation.maxInFlight", "healthCheck.remediation.maxInFlight", Same),
];

const NAMING: &[Row] = &[row("namingStrategy.template", "naming.template", Text)];

/// CONV-006
const TEMPLATE: &[Row] = &[row("ref", "templateRef", Template { always: true })];
const OPTIONAL_TEMPLATE: &[Row] = &[row("ref", "templateRef", Template { always: false })];

/// CONV-011: v1beta2 has no level `template`.
const WORKER_CLASS: &[Row] = &[
    row("template.metadata", "metadata", Object),
    row("template.bootstrap.ref", "bootstrap.templateRef", Template { always: true }),
    row("template.infrastructure.ref", "infrastructure.templateRef", Template { always: true }),
];

/// What topologies of machines have at the same path.
const TOPOLOGY_PART: &[Row] = &[stays("metadata", Object), stays("variables", Object)];
const METADATA: &[Row] = &[stays("metadata", Object)];
const FAILURE_DOMAIN: &[Row] = &[stays("failureDomain", Text)];

/// CONV-011
const VARIABLE: &[Row] = &[row("metadata", "deprecatedV1Beta1Metadata", Object), stays("required", Explicit)];

/// CONV-016: legacy conditions move aside for those that v1beta1 keeps under `v1beta2`.
const CONDITIONS: &[Row] =
    &[row("conditions", "deprecated.v1beta1.conditions", Same), row("v1beta2.conditions", "conditions", Same)];
const CLUSTER_STATUS: &[Row] = &[
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

/// CT-6.2: a member of an endpoint that is not known yet is empty, or 0, in the older contract.
const ENDPOINT: &[Row] = &[stays("host", Text), stays("port", NonZero)];
const HAS_ENDPOINT: &[Row] = &[stays("controlPlaneEndpoint", Object)];

/// CT-6.7: the newer contract has no terminal failures.
const FAILURE: &[Row] = &[
    row("failureReason", "deprecated.v1beta1.failureReason", Text),
    row("failureMessage", "deprecated.v1beta1.failureMessage", Text),
];
const PROVISIONED: &[Row] = &[row("ready", "initialization.provisioned", Same)];

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

/// CT-5.4: what the older contract has beside the metadata of the machines, the newer one has in their spec.
const MACHINES: &[Row] = &[
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
