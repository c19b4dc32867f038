//! What is reverted when an object could not be written: templates that were created for it (RS-21, RS-29, RS-32,
//! RS-34), and hooks that were marked for it (HK-20).

use std::borrow::Cow;

use serde_json::{Value, json};
use tracing::{info, warn};

use super::cluster::{self, ClusterField};
use super::{ApplyError, CreatedObject, PlanExecution, WriteRecord};
use crate::kubernetes::untyped::{self, ApiRequestError, WriteFailure};
use engine::topology::plan::{PlanStep, StepAction, TopologyPart};
use engine::topology::worker::API_VERSION;
use model::hub::{Hook, ObjectRef, paths};

/// The hooks that follow a step of the control plane (HK-20).
const OF_STEP: [Hook; 3] = [Hook::AfterControlPlaneUpgrade, Hook::BeforeWorkersUpgrade, Hook::AfterWorkersUpgrade];

impl PlanExecution<'_> {
    /// Deletes the templates that were created in this run for what has just failed, as well as it can be done: no
    /// object refers to them, and the next run makes others.
    ///
    /// What failed may have been written all the same, when the API server said nothing or that it does not know, or by
    /// an attempt before one that met a conflict; then a template is kept as long as it may be referred to. It is
    /// deleted with the Cluster at the latest (ROT-11).
    pub(super) async fn clean_up_after(&mut self, failed: &PlanStep, error: &ApplyError) {
        let made = self.made_for(failed);
        if made.is_empty() {
            return;
        }
        let is_owner = matches!(failed.part, TopologyPart::ControlPlane | TopologyPart::Worker(..));
        let failure = match error {
            // An earlier attempt may be what has changed the owner.
            _ if error.is_conflict() => WriteFailure::ServerError,
            _ => error.source_of().map_or(WriteFailure::Rejected, ApiRequestError::write_failure),
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

    /// Removes the marks of the hooks that follow an upgrade of the control plane, if that is among the steps that are
    /// `left` after a failure: the next run would call them before the control plane is upgraded (HK-20). The mark of
    /// the hook at the end of the upgrade stays.
    pub(super) async fn unmark_hooks(&mut self, done: &[PlanStep], left: &[PlanStep]) {
        let is_upgrade = |step: &&PlanStep| {
            step.part == TopologyPart::ControlPlane && step.changes.iter().any(|change| change.path == paths::VERSION)
        };
        let Some(upgrade) = left.iter().find(is_upgrade) else { return };
        let Some(current) = &upgrade.current else { return };
        let changes = done.iter().filter(|step| step.part == TopologyPart::Cluster).flat_map(|step| &step.changes);
        let Some(marked) = changes.map(ClusterField::for_change).find(ClusterField::is_of_hooks) else { return };
        let stored = untyped::get(self.client, &upgrade.object).await;
        // A write without an answer may have begun the step.
        if !stored
            .is_ok_and(|stored| stored.is_some_and(|stored| stored.at(paths::VERSION) == current.at(paths::VERSION)))
        {
            return;
        }
        let left = hooks_without_step(marked.from(), marked.to());
        let cluster = ObjectRef::new(API_VERSION, "Cluster", self.run.cluster.clone());
        let unmarked = marked.changed_to(left.as_ref());
        match cluster::write(self.client, &cluster, &self.base, &[unmarked]).await {
            Ok(written) => {
                info!(%cluster, "Unmarked the hooks of a step that the control plane did not take");
                let version = written.resource_version().to_owned();
                self.base = Cow::Owned(written.clone());
                self.outcome.written.push(WriteRecord { object: cluster, version });
                self.outcome.cluster = Some(written);
            }
            Err(error) => {
                warn!(%cluster, %error, "Failed to unmark the hooks of a step that the control plane did not take");
            }
        }
    }

    /// Templates that were created in this run only as references of the object that failed. A failed health check, or
    /// a failed deletion of an old template, reverts nothing.
    fn made_for(&mut self, failed: &PlanStep) -> Vec<CreatedObject> {
        if failed.action == StepAction::Delete || matches!(failed.part, TopologyPart::WorkerHealthCheck(_)) {
            return Vec::new();
        }
        let belongs = |made: &mut CreatedObject| match (&failed.part, &made.part) {
            (TopologyPart::ControlPlane | TopologyPart::ControlPlaneMachines, TopologyPart::ControlPlaneMachines) => {
                true
            }
            (failed, TopologyPart::Bootstrap(..) | TopologyPart::WorkerInfrastructure(..)) => {
                failed.worker() == made.part.worker()
            }
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

/// The annotation with the hooks in `to`, without those of a step that are not in `from` as well; `None` if no hook is
/// left.
fn hooks_without_step(from: Option<&Value>, to: Option<&Value>) -> Option<Value> {
    let names = |value: Option<&Value>| -> Vec<String> {
        let text = value.and_then(Value::as_str).unwrap_or_default();
        text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let (former, mut names) = (names(from), names(to));
    names.retain(|name| former.contains(name) || !OF_STEP.iter().any(|hook| hook.name() == name));
    (!names.is_empty()).then(|| json!(names.join(",")))
}
