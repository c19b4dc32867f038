//! MachineHealthCheck.

use super::blocks::{ClusterPart, cluster_name, generations, health_check, label_selector, observed_generation};
use super::column::Column::{self, Always, Wide};
use super::column::{AGE, PAUSED};
use super::resource::CrdBuilder;
use super::schema::{SchemaBuilder, int32, list, object, string};
use super::{GROUP, MACHINE_VERSION};
use crate::wire::SchemaVersion::V1Beta2;

const COLUMNS: &[Column] = &[
    Always("Cluster", "string", ".spec.clusterName"),
    Wide("MaxUnhealthy", "string", ".spec.remediation.triggerIf.unhealthyLessThanOrEqualTo"),
    Always("ExpectedMachines", "integer", ".status.expectedMachines"),
    Always("CurrentHealthy", "integer", ".status.currentHealthy"),
    PAUSED,
    AGE,
];

pub(super) fn resource() -> CrdBuilder {
    CrdBuilder::new(GROUP, MACHINE_VERSION, "MachineHealthCheck", spec()).short("mhc").status(status()).columns(COLUMNS)
}

fn spec() -> SchemaBuilder {
    object()
        .required("clusterName", cluster_name())
        .required("selector", label_selector())
        // The deployment of the machines limits how many are replaced at a time.
        .with(health_check(V1Beta2, ClusterPart::ControlPlane))
}

/// Selected machines and their health (MA-19.6, MA-19.7).
fn status() -> SchemaBuilder {
    object()
        .props(1..)
        .with(generations(V1Beta2, object(), object()))
        .optional("currentHealthy", int32().value(0..))
        .optional("expectedMachines", int32().value(0..))
        .optional("observedGeneration", observed_generation(V1Beta2))
        .optional("remediationsAllowed", int32().value(0..))
        .optional("targets", list(string().len(1..=253)).items(..=10000).atomic())
}
