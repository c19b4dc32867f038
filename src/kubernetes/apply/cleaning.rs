//! Deletion of templates whose owner could not be written (RS-21, RS-29, RS-32, RS-34).

use tracing::{info, warn};

use super::{ApplyError, Made, Work};
use crate::hub::ObjectRef;
use crate::kubernetes::untyped::{self, RequestError, WriteFailure};
use crate::topology::plan::{Action, Part, Step};

impl Work<'_> {
    /// Deletes the templates that were created in this run for what has just failed, as well as it can be done: no object refers
    /// to them, and the next run makes others.
    ///
    /// What failed may have been written all the same, when the API server said nothing or that it does not know, or by an attempt
    /// before one that met a conflict; then a template is kept as long as it may be referred to. It is deleted with the Cluster at the latest (ROT-11).
    pub(super) async fn clean_up_after(&mut self, failed: &Step, error: &ApplyError) {
        let made = self.made_for(failed);
        if made.is_empty() {
            return;
        }
        let is_owner = matches!(failed.part, Part::ControlPlane | Part::Worker(..));
        let failure = match error {
            // An earlier attempt may be what has changed the owner.
            _ if error.is_conflict() => WriteFailure::ServerError,
            _ => error.source_of().map_or(WriteFailure::Rejected, RequestError::write_failure),
        };
        for made in made {
            let is_free = !is_owner
                || match failure {
                    WriteFailure::Rejected => true,
                    WriteFailure::ServerError => !self.may_refer(&failed.object, &made.object).await,
                    WriteFailure::NoAnswer => false,
                };
            let object = &made.object;
            if !is_free {
                warn!(%object, owner = %failed.object, "Kept a new object because another object may reference it");
                continue;
            }
            match untyped::delete(self.client, object, Some(&made.uid)).await {
                Ok(_) => info!(%object, "Deleted an unused new object"),
                Err(error) => warn!(%object, %error, "Failed to delete an unused new object"),
            }
        }
    }

    /// Templates that were created in this run only as references of the object that failed. A failed health check, or a failed
    /// deletion of an old template, reverts nothing.
    fn made_for(&mut self, failed: &Step) -> Vec<Made> {
        if failed.action == Action::Delete || matches!(failed.part, Part::WorkerHealthCheck(_)) {
            return Vec::new();
        }
        let belongs = |made: &mut Made| match (&failed.part, &made.part) {
            (Part::ControlPlane | Part::ControlPlaneMachines, Part::ControlPlaneMachines) => true,
            (failed, Part::Bootstrap(..) | Part::WorkerInfrastructure(..)) => failed.worker() == made.part.worker(),
            _ => false,
        };
        self.made.extract_if(.., belongs).collect()
    }

    /// Whether an owner may refer to a template; so it does when this is unknown.
    async fn may_refer(&self, owner: &ObjectRef, template: &ObjectRef) -> bool {
        match untyped::get(self.client, owner).await {
            Ok(None) => false,
            Ok(Some(found)) => found.at("spec").is_some_and(|spec| spec.to_string().contains(&template.key.name)),
            Err(_) => true,
        }
    }
}
