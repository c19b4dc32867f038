//! Machines, and the fields of machine templates (MA-1.1, MA-1.2).

use super::blocks::{
    ClusterPart, addresses, cluster_name, contract_reference, deletion, gates, generations, metadata,
    min_ready_seconds, observed_generation, taints,
};
use super::column::Column::{self, Always, Wide};
use super::column::{AGE, PAUSED};
use super::resource::CrdBuilder;
use super::schema::{SchemaBuilder, boolean, date_time, object, string};
use super::{GROUP, MACHINE_VERSION};
use crate::hub::NODE_INFO;
use crate::wire::SchemaVersion::V1Beta2;

const PHASES: &[&str] =
    &["Pending", "Provisioning", "Provisioned", "Running", "Updating", "Deleting", "Deleted", "Failed", "Unknown"];

/// The reasons of two conditions replace status fields of the first design (DEC-7).
const COLUMNS: &[Column] = &[
    Always("Cluster", "string", ".spec.clusterName"),
    Always("Node Name", "string", ".status.nodeRef.name"),
    Wide("Provider ID", "string", ".spec.providerID"),
    Always("Ready", "string", r#".status.conditions[?(@.type=="Ready")].status"#),
    Always("Available", "string", r#".status.conditions[?(@.type=="Available")].status"#),
    Always("Up-to-date", "string", r#".status.conditions[?(@.type=="UpToDate")].status"#),
    Wide("Bootstrap", "string", r#".status.conditions[?(@.type=="BootstrapConfigReady")].reason"#),
    Wide("Infrastructure", "string", r#".status.conditions[?(@.type=="InfrastructureReady")].reason"#),
    Wide("Internal-IP", "string", r#".status.addresses[?(@.type=="InternalIP")].address"#),
    Wide("External-IP", "string", r#".status.addresses[?(@.type=="ExternalIP")].address"#),
    Wide("OS-Image", "string", ".status.nodeInfo.osImage"),
    PAUSED,
    Always("Phase", "string", ".status.phase"),
    AGE,
    Always("Version", "string", ".spec.version"),
];

pub(super) fn resource() -> CrdBuilder {
    CrdBuilder::new(GROUP, MACHINE_VERSION, "Machine", spec()).short("ma").status(status()).columns(COLUMNS)
}

/// The spec of a Machine (MA-1.1).
fn spec() -> SchemaBuilder {
    let bootstrap =
        object().optional("configRef", contract_reference(V1Beta2)).optional("dataSecretName", string().len(..=253));
    object()
        .required("clusterName", cluster_name())
        .required("bootstrap", bootstrap)
        .required("infrastructureRef", contract_reference(V1Beta2))
        .optional("version", string().len(1..=256))
        .optional("providerID", provider_id())
        .optional("failureDomain", string().len(1..=256))
        .optional("minReadySeconds", min_ready_seconds(V1Beta2))
        .optional("readinessGates", gates(V1Beta2))
        .with(deletion(V1Beta2, ClusterPart::ControlPlane))
        .optional("taints", taints())
}

/// The machine template: labels, annotations, and the spec.
pub(super) fn template() -> SchemaBuilder {
    object().optional("metadata", metadata(V1Beta2)).required("spec", spec())
}

/// The provider ID of a machine, which is also that of its Node (CT-8.2).
pub(super) fn provider_id() -> SchemaBuilder {
    string().len(1..=512)
}

/// The status of a Machine (MA-1.2).
fn status() -> SchemaBuilder {
    let legacy = object().optional("failureMessage", string().len(1..=10240)).optional("failureReason", string());
    object()
        .props(1..)
        .with(generations(V1Beta2, object(), legacy))
        .optional("addresses", addresses())
        .optional("certificatesExpiryDate", date_time())
        .optional("deletion", progress_of_deletion())
        .optional("failureDomain", string().len(1..=256))
        .optional("initialization", initialization())
        .optional("lastUpdated", date_time())
        .optional("nodeInfo", node_info())
        .optional("nodeRef", object().required("name", string().len(1..=253)))
        .optional("observedGeneration", observed_generation(V1Beta2))
        .optional("phase", string().one_of(PHASES))
}

/// Initialization flags of a Machine or a pool; never reset.
pub(super) fn initialization() -> SchemaBuilder {
    object()
        .props(1..)
        .optional("bootstrapDataSecretCreated", boolean())
        .optional("infrastructureProvisioned", boolean())
}

fn progress_of_deletion() -> SchemaBuilder {
    object()
        .props(1..)
        .optional("nodeDrainStartTime", date_time())
        .optional("waitForNodeVolumeDetachStartTime", date_time())
        .optional("waitForPreDrainHookStartTime", date_time())
        .optional("waitForPreTerminateHookStartTime", date_time())
}

/// Node information as reported by Nodes. No field is required: a Node that has just joined may not report all.
fn node_info() -> SchemaBuilder {
    NODE_INFO.into_iter().fold(object(), |node, field| node.optional(field, string()))
}
