//! Common parts of the steps of all roles: Cluster, pause, finalizer, and delays recorded in conditions.

use std::sync::Arc;

use core::time::Duration;

use crate::lifecycle::conditions::{self, ConditionState, put, put_paused};
use crate::lifecycle::context::StepContext;
use crate::lifecycle::fields::{add_finalizer, paused, remaining};
use crate::lifecycle::step::Reconciliation;
use model::hub::{Object, ObjectKey, paths};

/// Reason of conditions of parts that are starting.
pub(super) const PROVISIONING: &str = "Provisioning";
/// Reason of conditions of parts that are ready.
pub(super) const PROVISIONED: &str = "Provisioned";

/// One object of a provider with its Cluster.
pub(super) struct ProviderContext<'a> {
    pub(super) context: &'a StepContext<'a>,
    pub(super) object: &'a Arc<Object>,
    pub(super) cluster: Arc<Object>,
}

impl ProviderContext<'_> {
    /// The beginning of every role: a paused object is not reconciled (CT-15.12), and the finalizer comes first
    /// (CT-15.6). `None` when the step ends here.
    pub(super) fn begin(&self, finalizer: Option<&str>, step: &mut Reconciliation) -> Option<Object> {
        let mut after = (**self.object).clone();
        let cause = paused(&self.cluster, self.object);
        // An object that was never paused continues immediately: definitions of some kinds drop conditions.
        let is_known = conditions::status(self.object, "Paused").is_some();
        let has_changed = put_paused(&mut after, cause.as_deref(), self.context.now) && is_known;
        if has_changed || cause.is_some() {
            step.update(self.object, after);
            return None;
        }
        if finalizer.is_some_and(|name| add_finalizer(&mut after, name)) {
            step.update(self.object, after);
            return None;
        }
        Some(after)
    }

    pub(super) fn cluster_key(&self) -> ObjectKey {
        self.cluster.key()
    }

    /// Whether the infrastructure of the Cluster is provisioned.
    pub(super) fn has_infrastructure(&self) -> bool {
        self.cluster.is_infrastructure_provisioned()
    }

    /// Whether the control plane of the Cluster is initialized.
    pub(super) fn is_initialized(&self) -> bool {
        self.cluster.is_control_plane_initialized()
    }

    /// Whether the API server of the workload cluster responds.
    pub(super) fn is_connected(&self) -> bool {
        self.context.workload(&self.cluster_key()).is_some()
    }

    /// Whether the API server of the workload cluster is in this process, and responds.
    pub(super) fn is_hosted(&self) -> bool {
        self.is_connected() && !self.context.is_followed(&self.cluster_key())
    }

    /// Reports why a part does not start yet.
    pub(super) fn wait(&self, after: &mut Object, name: &str, reason: &str, message: &str) {
        put(after, name, &ConditionState::new(false, reason, message), self.context.now);
    }

    /// Whether a delay has passed that starts now unless the condition records its start (CT-19.4, CT-19.5). The
    /// transition time is the start time, since nothing else survives a restart.
    pub(super) fn is_over(&self, after: &mut Object, name: &str, lasts: Duration, step: &mut Reconciliation) -> bool {
        if !conditions::is_false(after, name) || conditions::reason(after, name) != PROVISIONING {
            conditions::remove(after, name);
            put(after, name, &ConditionState::new(false, PROVISIONING, ""), self.context.now);
        }
        let now = self.context.now;
        let begun = conditions::since(after, name).unwrap_or(now);
        let left = remaining(begun, lasts, now);
        left.into_iter().for_each(|left| step.requeue_after(left));
        left.is_none()
    }

    /// Reports that a part is ready.
    pub(super) fn done(&self, after: &mut Object, name: &str) {
        put(after, name, &ConditionState::new(true, PROVISIONED, ""), self.context.now);
    }

    /// Remaining part of a delay since the object was deleted.
    pub(super) fn left_since_deletion(&self, lasts: Duration) -> Option<Duration> {
        let begun = crate::lifecycle::fields::time(self.object, paths::metadata::DELETION_TIMESTAMP)?;
        remaining(begun, lasts, self.context.now)
    }
}

/// An object from its JSON; empty if it is not a map.
pub(super) fn made(json: serde_json::Value) -> Object {
    match json {
        serde_json::Value::Object(members) => Object::from(members),
        _ => Object::default(),
    }
}
