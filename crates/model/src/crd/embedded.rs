//! The kinds of the embedded provider, whose machines exist in memory only (CT-19).
//!
//! v1beta1 follows the contract v1beta2 (CT-6 to CT-13) and is stored; v1alpha1 follows the contract v1beta1, and
//! `/convert` converts (CONV-017). Beyond the contract they have startup durations of the parts of a machine, and a
//! small bootstrap configuration. Here a [`SchemaVersion`] selects the contract.

use super::blocks::{
    API_VERSION, ClusterPart, KIND, SUBDOMAIN, addresses, contract_reference, control_plane_endpoint, deletion,
    failure_domains, gates, generations, metadata, observed_generation, replica_counts, taints, versions,
};
use super::column::AGE;
use super::column::Column::{self, Always, Wide};
use super::machine::provider_id;
use super::machine_pool::provider_ids;
use super::resource::{CrdBuilder, ScaleSubresource};
use super::schema::{SchemaBuilder, boolean, date_time, int_or_string, int32, list, map_of, object, string};
use crate::wire::SchemaVersion::{self, V1Beta1, V1Beta2};
use crate::wire::conversion::embedded::{BOOTSTRAP, CONTROL_PLANE, EmbeddedVersion, INFRASTRUCTURE};

/// A duration as Go writes it, such as `1m30s`.
const DURATION: &str = r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$";
/// A fraction from 0 to 1.
const FRACTION: &str = r"^(0(\.[0-9]+)?|1(\.0+)?)$";
/// The reason of a condition.
const REASON: &str = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
/// The mode of a file, in octal.
const MODE: &str = r"^0?[0-7]{3,4}$";

const CLUSTER: Column = Always("Cluster", "string", r".metadata.labels['cluster\.x-k8s\.io/cluster-name']");
const PROVISIONED: Column = Always("Provisioned", "boolean", ".status.initialization.provisioned");
const READY: Column = Always("Ready", "string", r#".status.conditions[?(@.type=="Ready")].status"#);

/// The kinds, a kind before its template.
pub(super) fn resources() -> Vec<CrdBuilder> {
    resources_of(V1Beta2).into_iter().zip(resources_of(V1Beta1)).map(|(kind, older)| kind.older(older)).collect()
}

fn resources_of(v: SchemaVersion) -> Vec<CrdBuilder> {
    vec![
        cluster(v),
        template(v, INFRASTRUCTURE, "EmbeddedClusterTemplate", cluster_spec(v)),
        machine(v),
        template(v, INFRASTRUCTURE, "EmbeddedMachineTemplate", machine_spec()).status(capacity()),
        machine_pool(v),
        template(v, INFRASTRUCTURE, "EmbeddedMachinePoolTemplate", machine_pool_spec()),
        config(v),
        template(v, BOOTSTRAP, "EmbeddedConfigTemplate", config_spec()),
        control_plane(v),
        template(v, CONTROL_PLANE, "EmbeddedControlPlaneTemplate", control_plane_template_spec(v)),
    ]
}

/// The version that follows a contract.
fn version(v: SchemaVersion) -> &'static str {
    v.pick(EmbeddedVersion::V1Beta1, EmbeddedVersion::V1Alpha1).name()
}

/// A template: the cloned object is under `spec.template` (CT-7.1, CT-9.1, CT-11.1, CT-12.8, CT-13.3).
///
/// The schema does not forbid changes in place (CT-9.2): a rule could not recognise the dry run by which a topology
/// checks whether a template must be rotated.
fn template(v: SchemaVersion, group: &'static str, kind: &'static str, spec: SchemaBuilder) -> CrdBuilder {
    const COLUMNS: &[Column] = &[AGE];
    let template = object().optional("metadata", metadata(V1Beta2)).required("spec", spec);
    CrdBuilder::new(group, version(v), kind, object().required("template", template)).columns(COLUMNS)
}

/// An infrastructure cluster (CT-6).
fn cluster(v: SchemaVersion) -> CrdBuilder {
    const COLUMNS: &[Column] = &[
        CLUSTER,
        PROVISIONED,
        READY,
        Always("Endpoint", "string", ".spec.controlPlaneEndpoint.host"),
        Wide("Port", "integer", ".spec.controlPlaneEndpoint.port"),
        AGE,
    ];
    let status = status(v, object(), "provisioned").optional("failureDomains", domains(v));
    CrdBuilder::new(INFRASTRUCTURE, version(v), "EmbeddedCluster", cluster_spec(v)).status(status).columns(COLUMNS)
}

fn cluster_spec(v: SchemaVersion) -> SchemaBuilder {
    object()
        .optional("backend", backend(start_up().optional("failure", failure())))
        .optional("controlPlaneEndpoint", endpoint(v))
        .optional("failureDomains", failure_domains(V1Beta2))
}

/// A machine (CT-8).
fn machine(v: SchemaVersion) -> CrdBuilder {
    const COLUMNS: &[Column] = &[
        CLUSTER,
        Always("Machine", "string", r#".metadata.ownerReferences[?(@.kind=="Machine")].name"#),
        Wide("Provider ID", "string", ".spec.providerID"),
        PROVISIONED,
        READY,
        AGE,
    ];
    let spec = machine_spec().optional("providerID", provider_id());
    let status = status(v, object(), "provisioned")
        .optional("addresses", addresses())
        .optional("failureDomain", string().len(1..=256));
    CrdBuilder::new(INFRASTRUCTURE, version(v), "EmbeddedMachine", spec).status(status).columns(COLUMNS)
}

fn machine_spec() -> SchemaBuilder {
    const PARTS: &[&str] = &["bootstrap", "infrastructure", "node", "nodeReady"];
    let failure = failure().optional("part", string().one_of(PARTS));
    let parts = ["apiServer", "etcd", "node", "vm"];
    let in_memory =
        parts.into_iter().fold(object().optional("failure", failure), |all, part| all.optional(part, start_up()));
    object().optional("backend", backend(in_memory))
}

/// Capacity of a machine of a template, for autoscalers that scale from zero (CT-9.4).
fn capacity() -> SchemaBuilder {
    let node = object()
        .props(1..)
        .optional("architecture", string().one_of(&["amd64", "arm64", "s390x", "ppc64le"]))
        .optional("operatingSystem", string().len(1..));
    object().props(1..).optional("capacity", map_of(int_or_string())).optional("nodeInfo", node)
}

/// A pool of machines (CT-13).
fn machine_pool(v: SchemaVersion) -> CrdBuilder {
    const COLUMNS: &[Column] = &[CLUSTER, Always("Replicas", "integer", ".status.replicas"), PROVISIONED, READY, AGE];
    let spec = machine_pool_spec().optional("providerIDList", provider_ids());
    let status = status(v, object(), "provisioned")
        .optional("infrastructureMachineKind", string().len(1..=63))
        .optional("replicas", int32());
    CrdBuilder::new(INFRASTRUCTURE, version(v), "EmbeddedMachinePool", spec).status(status).columns(COLUMNS)
}

/// Machines of a pool do not belong to a control plane.
fn machine_pool_spec() -> SchemaBuilder {
    object().optional("backend", backend(object().optional("node", start_up()).optional("vm", start_up())))
}

/// Bootstrap data of one machine (CT-12).
fn config(v: SchemaVersion) -> CrdBuilder {
    const COLUMNS: &[Column] = &[
        CLUSTER,
        Always("Data", "boolean", ".status.initialization.dataSecretCreated"),
        Wide("Secret", "string", ".status.dataSecretName"),
        READY,
        AGE,
    ];
    let status = status(v, object(), "dataSecretCreated").optional("dataSecretName", string().len(1..=253));
    CrdBuilder::new(BOOTSTRAP, version(v), "EmbeddedConfig", config_spec()).status(status).columns(COLUMNS)
}

fn config_spec() -> SchemaBuilder {
    let file = object()
        .required("content", string().len(..=10240))
        .optional("owner", string().len(1..=256))
        .required("path", string().len(1..=512))
        .optional("permissions", string().len(1..=5).matches(MODE));
    let argument = object().required("name", string().len(1..=256)).optional("value", string().len(..=1024));
    object()
        .optional("commands", list(string().len(1..=10240)).items(..=1000).atomic())
        .optional("files", list(file).items(..=200).atomic())
        .optional("format", string().one_of(&["cloud-config", "ignition"]))
        .optional("kubeletExtraArgs", list(argument).items(..=100).atomic())
}

/// A control plane made of Machines (CT-10).
fn control_plane(v: SchemaVersion) -> CrdBuilder {
    const COLUMNS: &[Column] = &[
        CLUSTER,
        Always("Available", "string", r#".status.conditions[?(@.type=="Available")].status"#),
        Always("Initialized", "boolean", ".status.initialization.controlPlaneInitialized"),
        Always("Desired", "integer", ".spec.replicas"),
        Always("Current", "integer", ".status.replicas"),
        Always("Ready", "integer", ".status.readyReplicas"),
        Always("Available", "integer", ".status.availableReplicas"),
        Always("Up-to-date", "integer", ".status.upToDateReplicas"),
        AGE,
        Always("Version", "string", ".spec.version"),
    ];
    let machines = machine_settings(v).required("infrastructureRef", reference(v));
    let machines = match v {
        V1Beta2 => object().required("spec", machines),
        V1Beta1 => machines,
    };
    let spec = control_plane_spec(machines)
        .optional("controlPlaneEndpoint", endpoint(v))
        .optional("replicas", int32().value(0..))
        .required("version", string().len(1..=256));
    let status = match v {
        V1Beta2 => status(v, object(), "controlPlaneInitialized").with(replica_counts()),
        V1Beta1 => status(v, object().optional("availableReplicas", int32()), "controlPlaneInitialized")
            .with(older_replica_counts()),
    };
    let status = status
        .optional("externalManagedControlPlane", boolean())
        .optional("selector", string().len(1..))
        .optional("version", string().len(1..=256))
        .optional("versions", versions());
    CrdBuilder::new(CONTROL_PLANE, version(v), "EmbeddedControlPlane", spec)
        .status(status)
        .scale(ScaleSubresource::Selected)
        .columns(COLUMNS)
}

/// The topology sets replicas, version and the machine template (CT-11.1).
fn control_plane_template_spec(v: SchemaVersion) -> SchemaBuilder {
    let machines = machine_settings(v);
    control_plane_spec(match v {
        V1Beta2 => object().optional("spec", machines),
        V1Beta1 => machines,
    })
}

/// Common fields of a control plane and its template, around the machine template.
fn control_plane_spec(machines: SchemaBuilder) -> SchemaBuilder {
    object()
        .optional("bootstrap", config_spec())
        .optional("machineTemplate", machines.optional("metadata", metadata(V1Beta2)))
        .optional("rollout", object().props(1..).optional("after", date_time()))
}

/// Fields handed down unchanged to the Machines of a control plane (CT-10.13).
fn machine_settings(v: SchemaVersion) -> SchemaBuilder {
    let deletion = match v {
        V1Beta2 => deletion(v, ClusterPart::ControlPlane),
        V1Beta1 => TIMEOUTS.into_iter().fold(object(), |all, name| all.optional(name, string().matches(DURATION))),
    };
    object().with(deletion).optional("readinessGates", gates(V1Beta2)).optional("taints", taints())
}

/// The place where an object exists; there is one such place.
fn backend(in_memory: SchemaBuilder) -> SchemaBuilder {
    object().required("inMemory", in_memory)
}

/// Startup time of a part: `startupDuration`, plus up to `startupJitter` times as much (CT-19.4).
fn start_up() -> SchemaBuilder {
    let provisioning = object()
        .required("startupDuration", string().len(1..=32).matches(DURATION))
        .optional("startupJitter", string().len(1..=16).matches(FRACTION));
    object().optional("provisioning", provisioning)
}

/// A simulated failure with the reason and message that the object reports. Without a part the infrastructure itself
/// fails.
fn failure() -> SchemaBuilder {
    object().optional("message", string().len(1..=10240)).optional("reason", string().len(1..=256).matches(REASON))
}

/// A status with conditions and the flag of its contract; `current` are the fields beside the newer conditions in the
/// older contract. Terminal failures exist in the older contract only (CT-6.7).
fn status(v: SchemaVersion, current: SchemaBuilder, flag: &'static str) -> SchemaBuilder {
    let legacy =
        object().optional("failureMessage", string().len(..=10240)).optional("failureReason", string().len(..=256));
    let status = generations(v, current, legacy).optional("observedGeneration", observed_generation(V1Beta2));
    match (v, flag) {
        (V1Beta2, _) => status.props(1..).optional("initialization", object().props(1..).optional(flag, boolean())),
        // CT-10.9: an initialized control plane need not be ready.
        (V1Beta1, "controlPlaneInitialized") => status.optional("initialized", boolean()).optional("ready", boolean()),
        (V1Beta1, _) => status.optional("ready", boolean()),
    }
}

/// Timeouts of Machines, which are durations in the older contract (CT-5.7).
const TIMEOUTS: [&str; 3] = ["nodeDeletionTimeout", "nodeDrainTimeout", "nodeVolumeDetachTimeout"];

/// Replica counters of the older contract (CT-10.3).
fn older_replica_counts() -> SchemaBuilder {
    ["readyReplicas", "replicas", "unavailableReplicas", "updatedReplicas"]
        .into_iter()
        .fold(object(), |all, name| all.optional(name, int32()))
}

/// Address of the API server; unknown members are empty in the older contract (CT-6.2).
fn endpoint(v: SchemaVersion) -> SchemaBuilder {
    match v {
        V1Beta2 => control_plane_endpoint(v),
        V1Beta1 => object().optional("host", string().len(..=512)).optional("port", int32().value(0..=65535)),
    }
}

/// Failure domains in the form of the contract; there is no empty list (CT-5.10, CT-5.11).
fn domains(v: SchemaVersion) -> SchemaBuilder {
    v.pick(failure_domains(V1Beta2), failure_domains(V1Beta1).props(1..=100))
}

/// The infrastructure template of Machines (CT-4.1, CT-5.6).
fn reference(v: SchemaVersion) -> SchemaBuilder {
    match v {
        V1Beta2 => contract_reference(v),
        V1Beta1 => object()
            .required("apiVersion", string().len(1..=317).matches(API_VERSION))
            .required("kind", string().len(1..=63).matches(KIND))
            .required("name", string().len(1..=253).matches(SUBDOMAIN))
            .optional("namespace", string().len(..=63)),
    }
}
