//! Reports on an object that its steps keep failing (DEC-60): one Event, and a condition until a step succeeds.

use std::sync::Arc;

use tracing::debug;

use super::Runner;
use crate::kubernetes::events::QueuedEvent;
use crate::kubernetes::moment;
use crate::reconciler::backoff::FailedRun;
use crate::reconciler::runs::{RECONCILE_FAILED, failing};
use machines::lifecycle::conditions::{self, ConditionState};
use machines::lifecycle::{ObjectId, ObjectWrite, StepWrite};
use model::hub::contract::Contract;
use model::hub::{GROUP, Object};
use schema::field::shortened;

/// The condition of an object whose steps keep failing; other objects do not have it.
const RECONCILED: &str = "Reconciled";
/// Its reason.
const STEP_FAILED: &str = "StepFailed";

impl Runner {
    /// Reports a persistent failure.
    pub(super) async fn report_failure(&self, id: &ObjectId, object: &Object, run: FailedRun, error: &str) {
        if run.is_reported {
            let message = failing(run.failures, error);
            let event = QueuedEvent::now(&object.reference(), object.uid(), RECONCILE_FAILED, message);
            self.recorder.write(vec![event]).await;
        }
        if run.is_shown {
            let failed = ConditionState::new(false, STEP_FAILED, shortened(error));
            self.change_condition(id, |object| conditions::put(object, RECONCILED, &failed, moment())).await;
        }
    }

    /// Removes the condition after a step that succeeded.
    pub(super) async fn clear_failure(&self, id: &ObjectId, object: &Object) {
        if conditions::status(object, RECONCILED).is_some() {
            self.change_condition(id, |object| conditions::remove(object, RECONCILED)).await;
        }
    }

    /// Changes a condition of an object whose kind has conditions in the form of v1beta2. A failure is retried with the
    /// next step.
    async fn change_condition(&self, id: &ObjectId, change: impl FnOnce(&mut Object)) {
        let found = self.store.with(|objects| {
            let has_conditions = &*id.kind.group == GROUP || objects.contract(&id.kind) == Some(Contract::V1Beta2);
            objects.get(id).filter(|_| has_conditions && id.workload.is_none()).cloned()
        });
        let Some(before) = found else { return };
        let mut after = Object::clone(&before);
        change(&mut after);
        if Arc::as_ref(&before) == &after {
            return;
        }
        if let Err(error) =
            self.writer.write(vec![StepWrite::Required(ObjectWrite::Update { workload: None, before, after })]).await
        {
            debug!(object = %id, %error, "Cannot write a condition");
        }
    }
}
