//! Reviews of the scale of worker sets.
//!
//! If the topology of a Cluster sets the number of replicas, its controller undoes a scale: a warning says where the
//! number is set. Nothing is denied, and the failure policy is `Ignore`.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use tokio::time::Instant;

use super::limits::LAST_ROUND;
use super::plain_review::{PlainReview, log_response};
use super::rejection::Rejection;
use super::review::{ReviewHandler, operation_label};
use crate::telemetry::metrics;
use engine::topology::worker::WorkerKind;
use golang::json;
use model::hub::{Cluster, GROUP, ObjectKey, paths};
use model::wire::review::{AdmissionRequest, AdmissionResponse};
use model::world::Found;
use schema::field::Path;

/// The path of reviews of scales.
pub const PATH: &str = "/validate-scales";
/// The kind of these reviews in metrics.
const METRIC: &str = "Scale";
/// Timeout of the read of a MachinePool.
const PATIENCE: Duration = Duration::from_secs(1);

/// Reviews of scales.
#[derive(Clone, Copy)]
pub(super) struct ScaleReview;

impl PlainReview for ScaleReview {
    fn path(self) -> &'static str {
        PATH
    }

    async fn respond<'r>(
        self,
        handler: &ReviewHandler,
        review: &'r AdmissionRequest<'_>,
        _: &Bytes,
        deadline: Instant,
    ) -> Result<AdmissionResponse<'r>, Rejection> {
        let warning = handler.scale_warning(review, deadline).await;
        let labels = metrics::Review { kind: METRIC, operation: operation_label(review), outcome: "allowed" };
        handler.metrics.admission_requests.get_or_create(&labels).inc();
        let warnings = warning.into_iter().collect();
        let response = AdmissionResponse { uid: &review.uid, allowed: true, warnings, ..AdmissionResponse::default() };
        log_response(review, &response, "a scale");
        Ok(response)
    }
}

impl ReviewHandler {
    /// The warning for a scale that will be undone.
    async fn scale_warning(&self, review: &AdmissionRequest<'_>, deadline: Instant) -> Option<String> {
        let deadline = deadline.checked_sub(LAST_ROUND).unwrap_or(deadline).min(Instant::now() + PATIENCE);
        let kind = match (&*review.resource.group, &*review.resource.resource) {
            (GROUP, "machinedeployments") => WorkerKind::MachineDeployment,
            (GROUP, "machinepools") => WorkerKind::MachinePool,
            _ => return None,
        };
        let wanted = json::decode::<Scale>(review.object?.get()).ok()?.spec.replicas;
        let key = ObjectKey::new(review.namespace.as_deref()?, review.name.as_deref()?);
        let facts = self.gatherer.cache().facts();
        let set = match (kind, &self.pools) {
            (WorkerKind::MachineDeployment, _) => facts.sized_set(&key)?.clone(),
            (WorkerKind::MachinePool, pools) => pools.as_ref()?.worker_set(&key, deadline).await?,
        };
        let Found::Yes(cluster) = facts.cluster(&set.cluster) else { return None };
        let replicas = replicas(&cluster, kind, &set.name).filter(|replicas| i64::from(*replicas) != wanted)?;
        if cluster.metadata.is_being_deleted() {
            return None;
        }
        let when = if cluster.is_paused() { " once the Cluster is no longer paused" } else { "" };
        facts.scope().has(&cluster.metadata).then(|| {
            let field = match kind {
                WorkerKind::MachineDeployment => paths::cluster::TOPOLOGY_MACHINE_DEPLOYMENTS,
                WorkerKind::MachinePool => paths::cluster::TOPOLOGY_MACHINE_POOLS,
            };
            let field = Path::new(field).key(&set.name).child("replicas");
            format!(
                "the replicas of {} {key} will be {replicas} again{when}, as the topology of Cluster {} sets them: \
                 change {field} of the Cluster instead",
                kind.name(),
                set.cluster
            )
        })
    }
}

/// The replicas that a topology sets for a worker set.
fn replicas(cluster: &Cluster, kind: WorkerKind, name: &str) -> Option<i32> {
    let workers = &cluster.topology()?.workers;
    match kind {
        WorkerKind::MachineDeployment => workers.machine_deployments.iter().find(|set| set.name == name)?.replicas,
        WorkerKind::MachinePool => workers.machine_pools.iter().find(|set| set.name == name)?.replicas,
    }
}

/// The fields of an `autoscaling/v1` Scale that are read.
#[derive(Deserialize)]
struct Scale {
    #[serde(default)]
    spec: ScaleSpec,
}

#[derive(Default, Deserialize)]
struct ScaleSpec {
    /// Zero is left out.
    #[serde(default)]
    replicas: i64,
}

#[cfg(test)]
mod tests;
