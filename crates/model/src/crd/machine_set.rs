//! MachineSets, and their common fields with MachineDeployments (MA-1.3).

use super::blocks::{
    cluster_name, deletion_of_machines, generations, label_selector, observed_generation, replica_counts, versions,
};
use super::column::Column::{self, Always};
use super::column::{AGE, PAUSED};
use super::resource::{CrdBuilder, ScaleSubresource};
use super::schema::{SchemaBuilder, int32, object, string};
use super::{GROUP, MACHINE_VERSION, machine};
use crate::wire::SchemaVersion::V1Beta2;

const COLUMNS: &[Column] = &[
    Always("Cluster", "string", ".spec.clusterName"),
    Always("Desired", "integer", ".spec.replicas"),
    Always("Current", "integer", ".status.replicas"),
    Always("Ready", "integer", ".status.readyReplicas"),
    Always("Available", "integer", ".status.availableReplicas"),
    Always("Up-to-date", "integer", ".status.upToDateReplicas"),
    PAUSED,
    AGE,
    Always("Version", "string", ".spec.template.spec.version"),
];

pub(super) fn resource() -> CrdBuilder {
    let legacy = object()
        .optional("availableReplicas", int32())
        .optional("failureMessage", string().len(1..=10240))
        .optional("failureReason", string())
        .optional("fullyLabeledReplicas", int32())
        .optional("readyReplicas", int32());
    CrdBuilder::new(GROUP, MACHINE_VERSION, "MachineSet", spec())
        .short("ms")
        .status(status(legacy))
        .scale(ScaleSubresource::Selected)
        .columns(COLUMNS)
}

/// The spec of a MachineSet, which is part of that of a MachineDeployment (MA-1.4).
pub(super) fn spec() -> SchemaBuilder {
    let naming = object().props(1..).optional("template", string().len(1..=256));
    object()
        .required("clusterName", cluster_name())
        .optional("deletion", object().props(1..).optional("order", deletion_of_machines()))
        .optional("machineNaming", naming)
        .optional("replicas", int32())
        .required("selector", label_selector())
        .required("template", machine::template())
}

/// The status of kinds that count machines.
pub(super) fn status(legacy: SchemaBuilder) -> SchemaBuilder {
    object()
        .props(1..)
        .with(generations(V1Beta2, object(), legacy))
        .with(replica_counts())
        .optional("observedGeneration", observed_generation(V1Beta2))
        .optional("selector", string().len(1..))
        .optional("versions", versions())
}
