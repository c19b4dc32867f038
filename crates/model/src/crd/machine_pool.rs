//! MachinePool.

use super::blocks::{cluster_name, generations, object_reference, observed_generation, replica_counts, versions};
use super::column::Column::{self, Always};
use super::column::{AGE, PAUSED};
use super::machine::{initialization, provider_id, template};
use super::resource::{CrdBuilder, ScaleSubresource};
use super::schema::{SchemaBuilder, int32, list, object, string};
use super::{GROUP, MACHINE_VERSION};
use crate::wire::SchemaVersion::V1Beta2;

const PHASES: &[&str] = &[
    "Pending",
    "Provisioning",
    "Provisioned",
    "Running",
    "ScalingUp",
    "ScalingDown",
    "Scaling",
    "Deleting",
    "Failed",
    "Unknown",
];

const COLUMNS: &[Column] = &[
    Always("Cluster", "string", ".spec.clusterName"),
    Always("Desired", "integer", ".spec.replicas"),
    Always("Current", "integer", ".status.replicas"),
    Always("Ready", "integer", ".status.readyReplicas"),
    Always("Available", "integer", ".status.availableReplicas"),
    Always("Up-to-date", "integer", ".status.upToDateReplicas"),
    PAUSED,
    Always("Phase", "string", ".status.phase"),
    AGE,
    Always("Version", "string", ".spec.template.spec.version"),
];

pub(super) fn resource() -> CrdBuilder {
    CrdBuilder::new(GROUP, MACHINE_VERSION, "MachinePool", spec())
        .short("mp")
        .status(status())
        .scale(ScaleSubresource::Replicas)
        .columns(COLUMNS)
}

fn spec() -> SchemaBuilder {
    object()
        .required("clusterName", cluster_name())
        .optional("failureDomains", list(string().len(1..=256)).items(1..=100).atomic())
        .optional("providerIDList", provider_ids())
        .optional("replicas", int32())
        .required("template", template())
}

/// Provider IDs of the instances of a pool.
pub(super) fn provider_ids() -> SchemaBuilder {
    list(provider_id()).items(..=10000).atomic()
}

fn status() -> SchemaBuilder {
    let legacy = object()
        .optional("availableReplicas", int32())
        .optional("failureMessage", string().len(1..=10240))
        .optional("failureReason", string())
        .optional("readyReplicas", int32())
        .optional("unavailableReplicas", int32());
    object()
        .props(1..)
        .with(generations(V1Beta2, object(), legacy))
        .with(replica_counts())
        .optional("initialization", initialization())
        .optional("nodeRefs", list(object_reference()).items(..=10000).atomic())
        .optional("observedGeneration", observed_generation(V1Beta2))
        .optional("phase", string().one_of(PHASES))
        .optional("versions", versions())
}
