//! Deletions of the objects of a topology (DEC-56): they wait for the hooks of the Cluster.
//!
//! A hold keeps Cluster API's core from deleting. The garbage collector ignores it when a Cluster is deleted in the
//! foreground. So its request is denied, and it tries again later. Nothing is written here.

use bytes::Bytes;
use kube::api::DynamicObject;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::holds::Holds;
use super::limits::LAST_ROUND;
use super::plain_review::{PlainReview, log_response};
use super::rejection::Rejection;
use super::review::ReviewHandler;
use crate::kubernetes::address::Resource;
use crate::kubernetes::describe;
use crate::telemetry::metrics;
use golang::json;
use model::hub::{Cluster, ContractRef, GROUP, Kind, Metadata, ObjectKey, annotation, label};
use model::wire::review::{AdmissionRequest, AdmissionResponse, AdmissionStatus, StatusDetails};
use model::wire::{Decode, WireVersion};
use model::world::Scope;

/// The path of reviews of deletions of managed objects.
pub const PATH: &str = "/validate-deletions";
/// The kind of these reviews in metrics.
const METRIC: &str = "ManagedObject";

/// Why a deletion is denied.
#[derive(Debug, PartialEq, Eq)]
enum DeletionDenial {
    /// The Cluster waits for its hooks.
    Waits(ObjectKey),
    /// The Cluster cannot be read.
    Unknown(String),
}

impl DeletionDenial {
    fn parts(&self) -> (u16, &'static str, &'static str, String) {
        match self {
            DeletionDenial::Waits(cluster) => (
                403,
                "Forbidden",
                "forbidden",
                format!(
                    "the Cluster {cluster} is being deleted, and its hooks BeforeClusterDelete have not passed: they \
                     come before the deletion of its objects; try again"
                ),
            ),
            DeletionDenial::Unknown(reason) => (500, "InternalError", "unknown", reason.clone()),
        }
    }
}

/// Reviews of deletions of managed objects.
#[derive(Clone, Copy)]
pub(super) struct DeletionReview;

impl PlainReview for DeletionReview {
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
        let denial = match &handler.holds {
            Some(holds) if review.operation == "DELETE" => {
                holds.denial(review, handler.gatherer.cache().facts().scope(), deadline).await
            }
            _ => None,
        };
        let outcome = denial.as_ref().map_or("allowed", |denial| denial.parts().2);
        let labels = metrics::Review { kind: METRIC, operation: "DELETE", outcome };
        handler.metrics.admission_requests.get_or_create(&labels).inc();
        let response = response(denial, review);
        log_response(review, &response, "a managed object");
        Ok(response)
    }
}

impl Holds {
    /// Why an object of a topology cannot be deleted yet. The Cluster is read from the API server: the garbage
    /// collector may have seen its deletion before our watch.
    async fn denial(&self, review: &AdmissionRequest<'_>, scope: &Scope, deadline: Instant) -> Option<DeletionDenial> {
        let deadline = deadline.checked_sub(LAST_ROUND).unwrap_or(deadline);
        let object: TopologyObject = json::decode(review.old_object?.get()).ok()?;
        object.metadata.labels.get(label::OWNED)?;
        let cluster = ObjectKey::new(&object.metadata.namespace, object.metadata.labels.get(label::CLUSTER_NAME)?);
        if !self.hooks().may_block(&cluster.namespace, deadline).await {
            return None;
        }
        let unknown =
            |reason: String| DeletionDenial::Unknown(format!("the Cluster {cluster} cannot be read: {reason}"));
        let resource = Resource::known(GROUP, "v1beta2", Kind::Cluster.name());
        // A label that is no name of a Cluster belongs to none.
        let one = resource.one::<DynamicObject>(self.client(), &cluster).ok()?;
        let found = match timeout_at(deadline, one.get_opt()).await {
            Ok(Ok(found)) => found?,
            Ok(Err(error)) => return Some(unknown(describe(&error))),
            Err(_) => return Some(unknown("timed out".to_owned())),
        };
        let text = serde_json::to_string(&found).ok()?;
        let found = match Cluster::decode(WireVersion::V1Beta2, &text) {
            Ok(cluster) => cluster,
            // It can be deleted with all its objects, and no hook is called (DEC-103).
            Err(reason) => {
                self.log_unreadable(&found.metadata, &reason);
                return None;
            }
        };
        let waits = scope.has(&found.metadata) && waits(&found) && is_part(&found, review, &object.metadata);
        waits.then_some(DeletionDenial::Waits(cluster))
    }
}

/// The fields of a managed object that are read.
#[derive(Deserialize)]
struct TopologyObject {
    metadata: Metadata,
}

/// Whether the objects of a Cluster wait for its hooks.
fn waits(cluster: &Cluster) -> bool {
    let has = |name| cluster.annotation(name).is_some();
    cluster.metadata.is_being_deleted()
        && cluster.topology().is_some()
        && !has(annotation::OK_TO_DELETE)
        && !has(annotation::SKIP_DELETE_HOOKS)
}

/// Whether an object is deleted first: a worker, the control plane or the infrastructure of the Cluster.
fn is_part(cluster: &Cluster, review: &AdmissionRequest<'_>, object: &Metadata) -> bool {
    let (group, kind) = (&*review.kind.group, &*review.kind.kind);
    let is = |reference: &ContractRef| {
        (&*reference.api_group, &*reference.kind, &*reference.name) == (group, kind, &*object.name)
    };
    let is_worker = group == GROUP && matches!(kind, "MachineDeployment" | "MachinePool");
    is_worker || is(&cluster.spec.control_plane_ref) || is(&cluster.spec.infrastructure_ref)
}

fn response<'a>(denial: Option<DeletionDenial>, review: &'a AdmissionRequest<'_>) -> AdmissionResponse<'a> {
    let mut response =
        AdmissionResponse { uid: &review.uid, allowed: denial.is_none(), ..AdmissionResponse::default() };
    if let Some(denial) = denial {
        let (code, reason, _, message) = denial.parts();
        let mut status = AdmissionStatus::failure(code, reason, message);
        status.details = Some(StatusDetails::from(review));
        response.status = Some(status);
    }
    response
}

#[cfg(test)]
mod tests;
