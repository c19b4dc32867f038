//! Regular expressions and schema blocks shared by several kinds.
//!
//! Where a table says that v1beta1 is "unconstrained" or has `items ..n` instead of `items 1..n`, the lower bound is
//! [`SchemaVersion::least`].

use super::schema::{
    SchemaBuilder, any_json, boolean, date_time, int_or_string, int32, int64, list, map_of, object, string,
};
use crate::wire::SchemaVersion::{self, V1Beta1, V1Beta2};

pub(super) const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
pub(super) const LABEL: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
pub(super) const KIND: &str = r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$";
pub(super) const API_VERSION: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[a-z]([-a-z0-9]*[a-z0-9])?$";
const CONDITION_TYPE: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
const TAINT_KEY: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
const TAINT_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
const RANGE: &str = r"^\[[0-9]+-[0-9]+\]$";
const REASON: &str = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

/// Machine conditions set by Cluster API itself, which health checks must not use.
pub(super) const OWN_CONDITIONS: [&str; 5] =
    ["Ready", "Available", "HealthCheckSucceeded", "OwnerRemediated", "ExternallyRemediated"];
/// The rule that excludes [`OWN_CONDITIONS`].
pub(super) const NOT_OWN_CONDITION: &str =
    "!(self in ['Ready','Available','HealthCheckSucceeded','OwnerRemediated','ExternallyRemediated'])";
pub(super) const NOT_OWN_CONDITION_MESSAGE: &str =
    "type must not be one of: Ready, Available, HealthCheckSucceeded, OwnerRemediated, ExternallyRemediated";

const STATUSES: &[&str] = &["True", "False", "Unknown"];

/// The part of a cluster that a block belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ClusterPart {
    ControlPlane,
    MachineDeployment,
    MachinePool,
}

/// Labels and annotations (F-META).
pub(super) fn metadata(v: SchemaVersion) -> SchemaBuilder {
    object().props(v.least()..).optional("labels", map_of(string())).optional("annotations", map_of(string()))
}

/// Taints (F-TAINT).
pub(super) fn taints() -> SchemaBuilder {
    let taint = object()
        .required("key", string().len(1..=317).matches(TAINT_KEY))
        .optional("value", string().len(1..=63).matches(TAINT_VALUE))
        .required("effect", string().one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"]))
        .required("propagation", string().one_of(&["Always", "OnInitialization"]));
    list(taint).items(1..=64).map_by(&["key", "effect"])
}

/// Readiness gates (F-GATE).
pub(super) fn gates(v: SchemaVersion) -> SchemaBuilder {
    let gate = object()
        .required("conditionType", string().len(1..=316).matches(CONDITION_TYPE))
        .optional("polarity", string().one_of(&["Positive", "Negative"]));
    list(gate).items(v.least()..=32).map_by(&["conditionType"])
}

/// The field `deletion` (F-DEL); in v1beta1 only the timeouts, since the order is part of the strategy.
pub(super) fn deletion(v: SchemaVersion, part: ClusterPart) -> SchemaBuilder {
    let timeouts = object()
        .optional(v.pick("nodeDrainTimeoutSeconds", "nodeDrainTimeout"), timeout(v))
        .optional(v.pick("nodeVolumeDetachTimeoutSeconds", "nodeVolumeDetachTimeout"), timeout(v))
        .optional(v.pick("nodeDeletionTimeoutSeconds", "nodeDeletionTimeout"), timeout(v));
    match (v, part) {
        (V1Beta1, _) => timeouts,
        (V1Beta2, ClusterPart::MachineDeployment) => {
            object().optional("deletion", timeouts.props(1..).optional("order", deletion_of_machines()))
        }
        (V1Beta2, _) => object().optional("deletion", timeouts.props(1..)),
    }
}

/// The order in which surplus machines are deleted.
pub(super) fn deletion_of_machines() -> SchemaBuilder {
    string().one_of(&["Random", "Newest", "Oldest"])
}

/// A timeout in seconds; a duration in v1beta1.
fn timeout(v: SchemaVersion) -> SchemaBuilder {
    v.pick(int32().value(0..), string())
}

/// The strategy of a machine deployment; v1beta1 includes the deletion order and the remediation limit.
pub(super) fn strategy(v: SchemaVersion) -> SchemaBuilder {
    let rolling_update = object()
        .props(v.least()..)
        .optional("maxSurge", int_or_string())
        .optional("maxUnavailable", int_or_string())
        .in_v1beta1(v, |it| it.optional("deletePolicy", deletion_of_machines()));
    object()
        .props(v.least()..)
        .required_in_v1beta2(v, "type", string().one_of(&["RollingUpdate", "OnDelete"]))
        .optional("rollingUpdate", rolling_update)
        .in_v1beta1(v, |it| it.optional("remediation", max_in_flight()))
}

/// Health checks (F-HC), without the field `enabled` of Clusters.
pub(super) fn health_check(v: SchemaVersion, part: ClusterPart) -> SchemaBuilder {
    match v {
        V1Beta2 => object()
            .props(1..)
            .optional("checks", checks(v).props(1..))
            .optional("remediation", remediation(v, part).props(1..)),
        V1Beta1 => checks(v).with(remediation(v, part)),
    }
}

fn checks(v: SchemaVersion) -> SchemaBuilder {
    let node_conditions = list(unhealthy_node_condition(v)).items(v.least()..=100).in_v1beta2(v, SchemaBuilder::atomic);
    object()
        .optional(v.pick("nodeStartupTimeoutSeconds", "nodeStartupTimeout"), timeout(v))
        .optional(v.pick("unhealthyNodeConditions", "unhealthyConditions"), node_conditions)
        .optional("unhealthyMachineConditions", list(unhealthy_machine_condition(v)).items(1..=100).atomic())
}

fn unhealthy_node_condition(v: SchemaVersion) -> SchemaBuilder {
    object()
        .required("type", string().len(1..))
        .required("status", string().len(1..))
        .required(v.pick("timeoutSeconds", "timeout"), timeout(v))
}

fn unhealthy_machine_condition(v: SchemaVersion) -> SchemaBuilder {
    let kind = string().len(1..=316).matches(CONDITION_TYPE).rule(NOT_OWN_CONDITION, NOT_OWN_CONDITION_MESSAGE);
    object()
        .required("type", kind)
        .required("status", string().one_of(STATUSES))
        .required(v.pick("timeoutSeconds", "timeout"), timeout(v))
}

fn remediation(v: SchemaVersion, part: ClusterPart) -> SchemaBuilder {
    let trigger = object()
        .optional(v.pick("unhealthyLessThanOrEqualTo", "maxUnhealthy"), int_or_string())
        .optional(v.pick("unhealthyInRange", "unhealthyRange"), string().len(1..=32).matches(RANGE));
    let remediation = match v {
        V1Beta2 => object().optional("triggerIf", trigger.props(1..)),
        V1Beta1 => trigger,
    };
    remediation
        .optional(v.pick("templateRef", "remediationTemplate"), template_reference(v))
        .in_v1beta2(v, |it| if part == ClusterPart::MachineDeployment { it.with(max_in_flight()) } else { it })
}

/// Maximum number of unhealthy machines that are replaced at a time.
pub(super) fn max_in_flight() -> SchemaBuilder {
    object().optional("maxInFlight", int_or_string())
}

/// Template references (F-TREF).
fn template_reference(v: SchemaVersion) -> SchemaBuilder {
    match v {
        V1Beta2 => object()
            .required("apiVersion", string().len(1..=317).matches(API_VERSION))
            .required("kind", string().len(1..=63).matches(KIND))
            .required("name", string().len(1..=253).matches(SUBDOMAIN)),
        V1Beta1 => object_reference(),
    }
}

/// An object with a required template reference only.
pub(super) fn template(v: SchemaVersion) -> SchemaBuilder {
    object().required(v.pick("templateRef", "ref"), template_reference(v))
}

/// References by contract (F-CREF, CT-4.1, CT-4.2).
pub(super) fn contract_reference(v: SchemaVersion) -> SchemaBuilder {
    match v {
        V1Beta2 => object()
            .required("apiGroup", string().len(1..=253).matches(SUBDOMAIN))
            .required("kind", string().len(1..=63).matches(KIND))
            .required("name", string().len(1..=253).matches(SUBDOMAIN)),
        V1Beta1 => object_reference(),
    }
}

/// Object references of v1beta1.
pub(super) fn object_reference() -> SchemaBuilder {
    object()
        .optional("apiVersion", string())
        .optional("kind", string())
        .optional("namespace", string())
        .optional("name", string())
        .optional("uid", string())
        .optional("resourceVersion", string())
        .optional("fieldPath", string())
}

/// Variable values (F-VAR).
pub(super) fn variable_values(v: SchemaVersion) -> SchemaBuilder {
    let value = object()
        .required("name", string().len(1..=256))
        .required("value", any_json())
        .in_v1beta1(v, |it| it.optional("definitionFrom", string().len(..=256)));
    list(value).items(v.least()..=1000).map_by(&["name"])
}

/// Versions of `upgradePlan[]` (F-VERS).
pub(super) fn upgrade_plan() -> SchemaBuilder {
    list(version()).items(1..=32).atomic()
}

/// Versions of `versions[]` (F-VERS).
pub(super) fn versions() -> SchemaBuilder {
    list(version().optional("replicas", int32().value(1..))).items(1..=32).atomic()
}

fn version() -> SchemaBuilder {
    object().required("version", string().len(1..=256))
}

/// The conditions of both generations, with `current` beside the new and `legacy` beside the old ones.
///
/// v1beta2 has the legacy fields under `deprecated.v1beta1`, v1beta1 the current ones under `v1beta2`.
pub(super) fn generations(v: SchemaVersion, current: SchemaBuilder, legacy: SchemaBuilder) -> SchemaBuilder {
    let current = current.optional("conditions", conditions());
    let legacy = legacy.optional("conditions", list(legacy_condition()));
    match v {
        V1Beta2 => current.optional("deprecated", object().optional("v1beta1", legacy)),
        V1Beta1 => legacy.optional("v1beta2", current),
    }
}

/// The conditions of the current generation.
pub(super) fn conditions() -> SchemaBuilder {
    list(condition()).items(..=32).map_by(&["type"])
}

/// Conditions (F-COND).
fn condition() -> SchemaBuilder {
    object()
        .required("type", string().len(..=316).matches(CONDITION_TYPE))
        .required("status", string().one_of(STATUSES))
        .required("reason", string().len(1..=1024).matches(REASON))
        .required("message", string().len(..=32768))
        .required("lastTransitionTime", date_time())
        .optional("observedGeneration", int64().value(0..))
}

/// Conditions of the previous generation (F-OLDCOND).
fn legacy_condition() -> SchemaBuilder {
    object()
        .required("type", string().len(1..=256))
        .required("status", string())
        .optional("severity", string().len(..=32))
        .optional("reason", string().len(1..=256))
        .optional("message", string().len(1..=10240))
        .required("lastTransitionTime", date_time())
}

/// The root of a variable's schema (F-SCHEMA). Nested schemas are arbitrary JSON here.
pub(super) fn variable_schema(v: SchemaVersion) -> SchemaBuilder {
    let required = list(string().len(1..=256)).items(v.least()..=1000).in_v1beta2(v, SchemaBuilder::atomic);
    object()
        .props(v.least()..)
        .optional("description", string().len(1..=4096))
        .optional("example", any_json())
        .optional("type", string().one_of(&["object", "array", "string", "integer", "number", "boolean"]))
        .optional("properties", any_json())
        .optional("additionalProperties", any_json())
        .optional("maxProperties", int64())
        .optional("minProperties", int64())
        .optional("required", required)
        .optional("items", any_json())
        .optional("maxItems", int64())
        .optional("minItems", int64())
        .optional("uniqueItems", boolean())
        .optional("format", string().len(1..=32))
        .optional("maxLength", int64())
        .optional("minLength", int64())
        .optional("pattern", string().len(1..=512))
        .optional("maximum", int64())
        .optional("minimum", int64())
        .optional("exclusiveMaximum", boolean())
        .optional("exclusiveMinimum", boolean())
        .optional("x-kubernetes-preserve-unknown-fields", boolean())
        .optional("enum", list(any_json()).items(..=100).in_v1beta2(v, SchemaBuilder::atomic))
        .optional("default", any_json())
        .optional("x-kubernetes-validations", list(validation_rule()).items(v.least()..=100).map_by(&["rule"]))
        .optional("x-metadata", metadata(v))
        .optional("x-kubernetes-int-or-string", boolean())
        .optional("allOf", any_json())
        .optional("oneOf", any_json())
        .optional("anyOf", any_json())
        .optional("not", any_json())
}

/// CEL rules, `x-kubernetes-validations[]` (F-SCHEMA).
fn validation_rule() -> SchemaBuilder {
    let reasons = &["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"];
    object()
        .required("rule", string().len(1..=4096))
        .optional("message", string().len(1..=512))
        .optional("messageExpression", string().len(1..=1024))
        .optional("reason", string().one_of(reasons).default_to("FieldValueInvalid"))
        .optional("fieldPath", string().len(1..=512))
}

/// Minimum time for which a machine must be ready to be available.
pub(super) fn min_ready_seconds(v: SchemaVersion) -> SchemaBuilder {
    int32().in_v1beta2(v, |it| it.value(0..))
}

/// The observed generation of a status.
pub(super) fn observed_generation(v: SchemaVersion) -> SchemaBuilder {
    int64().in_v1beta2(v, |it| it.value(1..))
}

/// The name of a Cluster, which is also a label value.
pub(super) fn cluster_name() -> SchemaBuilder {
    string().len(1..=63)
}

/// A label selector; clients replace it as a whole.
pub(super) fn label_selector() -> SchemaBuilder {
    let expression =
        object().required("key", string()).required("operator", string()).optional("values", list(string()).atomic());
    object()
        .optional("matchExpressions", list(expression).atomic())
        .optional("matchLabels", map_of(string()))
        .atomic_map()
}

/// Addresses of a machine (CT-8.4).
pub(super) fn addresses() -> SchemaBuilder {
    let kinds = &["Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"];
    let address = object().required("address", string().len(1..=256)).required("type", string().one_of(kinds));
    list(address).items(..=256).atomic()
}

/// Address of the API server of a cluster (CT-6.2).
pub(super) fn control_plane_endpoint(v: SchemaVersion) -> SchemaBuilder {
    object().props(v.least()..).optional("host", string().len(v.least()..=512)).optional("port", port(v))
}

/// A TCP port.
pub(super) fn port(v: SchemaVersion) -> SchemaBuilder {
    int32().in_v1beta2(v, |it| it.value(1..=65535))
}

/// Failure domains of an infrastructure (CT-6.6, CT-5.10, CT-5.11).
pub(super) fn failure_domains(v: SchemaVersion) -> SchemaBuilder {
    let domain = object().optional("attributes", map_of(string())).optional("controlPlane", boolean());
    match v {
        V1Beta2 => list(domain.required("name", string().len(1..=256))).items(1..=100).map_by(&["name"]),
        V1Beta1 => map_of(domain),
    }
}

/// Replica counters of a status (CT-10.3).
pub(super) fn replica_counts() -> SchemaBuilder {
    object()
        .optional("availableReplicas", int32())
        .optional("readyReplicas", int32())
        .optional("replicas", int32())
        .optional("upToDateReplicas", int32())
}
