//! MachineDeployment (MA-1.4).

use super::blocks::{max_in_flight, strategy};
use super::column::Column::{self, Always};
use super::column::{AGE, PAUSED};
use super::resource::{CrdBuilder, ScaleSubresource};
use super::schema::{SchemaBuilder, boolean, date_time, int32, object, string};
use super::{GROUP, MACHINE_VERSION, machine_set};
use crate::wire::SchemaVersion::V1Beta2;

const PHASES: &[&str] = &["ScalingUp", "ScalingDown", "Running", "Failed", "Unknown"];

const COLUMNS: &[Column] = &[
    Always("Cluster", "string", ".spec.clusterName"),
    Always("Available", "string", r#".status.conditions[?(@.type=="Available")].status"#),
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
    let legacy = object()
        .optional("availableReplicas", int32())
        .optional("readyReplicas", int32())
        .optional("unavailableReplicas", int32())
        .optional("updatedReplicas", int32());
    let status = machine_set::status(legacy).optional("phase", string().one_of(PHASES));
    CrdBuilder::new(GROUP, MACHINE_VERSION, "MachineDeployment", spec())
        .short("md")
        .status(status)
        .scale(ScaleSubresource::Selected)
        .columns(COLUMNS)
}

fn spec() -> SchemaBuilder {
    let rollout = object().props(1..).optional("after", date_time()).optional("strategy", strategy(V1Beta2));
    machine_set::spec()
        .optional("paused", boolean())
        .optional("remediation", max_in_flight().props(1..))
        .optional("rollout", rollout)
}
