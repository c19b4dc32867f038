//! Conditions and remediation requests of checked machines (MA-19.8, MA-19.9).

use std::sync::Arc;

use super::health::MachineHealth;
use super::scope::CheckScope;
use crate::lifecycle::clone::{CloneExtras, clone};
use crate::lifecycle::conditions::{ConditionState, is_false, put};
use crate::lifecycle::context::{StepContext, StepError};
use crate::lifecycle::fields::owner;
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::step::{ObjectWrite, Reconciliation};
use model::hub::contract::object_kind;
use model::hub::{Object, ObjectKey, group_of};

const HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";
const OWNER_REMEDIATED: &str = "OwnerRemediated";
const EXTERNALLY_REMEDIATED: &str = "ExternallyRemediated";

/// Writes the results of a health check.
pub(super) struct Marker<'a> {
    pub context: &'a StepContext<'a>,
    pub scope: &'a CheckScope,
    /// Whether remediation is requested.
    pub acts: bool,
}

impl Marker<'_> {
    /// Writes the conditions of a machine, and requests its remediation or withdraws the request.
    ///
    /// # Errors
    /// When a kind is not listed yet, or the template of the request is missing.
    pub(super) fn mark(
        &self,
        machine: &Arc<Object>,
        verdict: &MachineHealth,
        step: &mut Reconciliation,
    ) -> Result<(), StepError> {
        let mut after = (**machine).clone();
        let end = match verdict {
            MachineHealth::Pending(_) => return Ok(()),
            MachineHealth::Healthy => {
                put(
                    &mut after,
                    HEALTH_CHECK_SUCCEEDED,
                    &ConditionState::new(true, HEALTH_CHECK_SUCCEEDED, ""),
                    self.context.now,
                );
                if self.acts { self.withdraw(machine, step) } else { Ok(()) }
            }
            MachineHealth::Unhealthy { reason, message } => {
                if !is_false(machine, HEALTH_CHECK_SUCCEEDED) {
                    step.warn("MachineUnhealthy", format!("Machine {}: {message}", machine.name()));
                }
                put(
                    &mut after,
                    HEALTH_CHECK_SUCCEEDED,
                    &ConditionState::new(false, *reason, &**message),
                    self.context.now,
                );
                if self.acts { self.request(machine, &mut after, step) } else { Ok(()) }
            }
        };
        step.update_other(machine, after);
        end
    }

    /// Kind of the template of remediation requests; `None` if the owner of a machine remediates it.
    fn template_kind(&self) -> Option<GroupKind> {
        let template = &self.scope.remediation.template_ref;
        (!template.name.is_empty()).then(|| GroupKind::new(group_of(&template.api_version), &template.kind))
    }

    /// The remediation request of a machine, which has the same name.
    fn find_request(&self, template: &GroupKind, machine: &Object) -> Result<Option<Arc<Object>>, StepError> {
        self.context.get(&GroupKind::new(&template.group, object_kind(&template.kind)), &machine.key())
    }

    /// Deletes the request of a machine that is healthy again.
    fn withdraw(&self, machine: &Object, step: &mut Reconciliation) -> Result<(), StepError> {
        let Some(kind) = self.template_kind() else { return Ok(()) };
        if let Some(request) = self.find_request(&kind, machine)? {
            step.delete(&request);
        }
        Ok(())
    }

    /// Requests remediation from the owner of the machine, or from an external controller.
    fn request(&self, machine: &Object, after: &mut Object, step: &mut Reconciliation) -> Result<(), StepError> {
        let waiting = ConditionState::new(false, "WaitingForRemediation", "Waiting for remediation");
        let Some(kind) = self.template_kind() else {
            // The state of a remediation written by its owner is kept.
            if !machine.is_being_deleted() && !is_false(machine, OWNER_REMEDIATED) {
                put(after, OWNER_REMEDIATED, &waiting, self.context.now);
            }
            return Ok(());
        };
        if self.find_request(&kind, machine)?.is_none() {
            let made = self.make_request(&kind, machine);
            if let Err(StepError::Failed(text)) = &made {
                let missing = ConditionState::new(false, "RemediationTemplateNotAvailable", &**text);
                put(after, EXTERNALLY_REMEDIATED, &missing, self.context.now);
            }
            step.attempt([ObjectWrite::CreateIfAbsent { workload: None, object: made? }]);
            // The next step marks the machine, when the request exists.
            return Ok(());
        }
        if crate::lifecycle::conditions::reason(machine, EXTERNALLY_REMEDIATED) != waiting.reason {
            step.event("RemediationRequested", format!("Requested external remediation of Machine {}", machine.name()));
        }
        put(after, EXTERNALLY_REMEDIATED, &waiting, self.context.now);
        Ok(())
    }

    fn make_request(&self, kind: &GroupKind, machine: &Object) -> Result<Object, StepError> {
        let name = &self.scope.remediation.template_ref.name;
        let key = ObjectKey::new(machine.namespace(), &**name);
        let Some(template) = self.context.get(kind, &key)? else {
            return Err(StepError::failed(format!("{} {key} does not exist", kind.kind)));
        };
        let extra = CloneExtras { owner: Some(owner(machine, false)), ..CloneExtras::default() };
        Ok(clone(&template, machine.name(), self.scope.cluster.name(), extra))
    }
}
