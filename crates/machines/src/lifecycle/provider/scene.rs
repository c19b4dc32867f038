//! What the steps of all roles have in common: the Cluster, the pause, the finalizer, and waits that conditions tell of.

use std::sync::Arc;

use core::time::Duration;

use crate::lifecycle::conditions::{self, Condition, put, put_paused};
use crate::lifecycle::context::Context;
use crate::lifecycle::fields::{add_finalizer, flag, paused, remaining, text};
use crate::lifecycle::step::Step;
use model::hub::{Object, ObjectKey};

/// The reason of conditions of parts that are on their way.
pub(super) const PROVISIONING: &str = "Provisioning";
/// The reason of conditions of parts that are there.
pub(super) const PROVISIONED: &str = "Provisioned";

/// One object of a provider with its Cluster.
pub(super) struct Scene<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) object: &'a Arc<Object>,
    pub(super) cluster: Arc<Object>,
}

impl Scene<'_> {
    /// What every role begins with: a paused object is left alone (CT-15.12), and a finalizer comes before anything else
    /// (CT-15.6). `None` when the step ends here.
    pub(super) fn begin(&self, finalizer: Option<&str>, step: &mut Step) -> Option<Object> {
        let mut after = (**self.object).clone();
        let cause = paused(&self.cluster, self.object);
        // An object that never was paused goes on at once: the definitions of some kinds drop conditions.
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

    /// Whether the infrastructure of the Cluster is there.
    pub(super) fn has_infrastructure(&self) -> bool {
        flag(&self.cluster, "status.initialization.infrastructureProvisioned")
    }

    /// Whether the control plane of the Cluster is initialized.
    pub(super) fn is_initialized(&self) -> bool {
        flag(&self.cluster, "status.initialization.controlPlaneInitialized")
    }

    /// Whether the API server of the workload cluster answers.
    pub(super) fn is_connected(&self) -> bool {
        self.context.workload(&self.cluster_key()).is_some()
    }

    /// Whether the API server of the workload cluster is in this process, and answers.
    pub(super) fn is_hosted(&self) -> bool {
        self.is_connected() && !self.context.is_followed(&self.cluster_key())
    }

    /// Says why something does not begin yet.
    pub(super) fn wait(&self, after: &mut Object, name: &str, reason: &str, message: &str) {
        put(after, name, &Condition::new(false, reason, message), self.context.now);
    }

    /// Whether a time is over that begins now unless the condition says that it has begun (CT-19.4, CT-19.5). Its transition time
    /// tells when, since no other place survives a restart.
    pub(super) fn is_over(&self, after: &mut Object, name: &str, lasts: Duration, step: &mut Step) -> bool {
        if !conditions::is_false(after, name) || conditions::reason(after, name) != PROVISIONING {
            conditions::remove(after, name);
            put(after, name, &Condition::new(false, PROVISIONING, ""), self.context.now);
        }
        let now = self.context.now;
        let begun = conditions::since(after, name).unwrap_or(now);
        let left = remaining(begun, lasts, now);
        left.into_iter().for_each(|left| step.look_again(left));
        left.is_none()
    }

    /// Says that something is there.
    pub(super) fn done(&self, after: &mut Object, name: &str) {
        put(after, name, &Condition::new(true, PROVISIONED, ""), self.context.now);
    }

    /// How much is left of a time that began when the object was deleted.
    pub(super) fn left_since_deletion(&self, lasts: Duration) -> Option<Duration> {
        let begun = crate::lifecycle::fields::time(self.object, "metadata.deletionTimestamp")?;
        remaining(begun, lasts, self.context.now)
    }
}

/// Whether the endpoint at `spec.controlPlaneEndpoint` is valid (CT-6.4).
pub(super) fn has_endpoint(object: &Object) -> bool {
    let port = crate::lifecycle::fields::number(object, "spec.controlPlaneEndpoint.port").unwrap_or_default();
    !text(object, "spec.controlPlaneEndpoint.host").is_empty() && port != 0
}

/// An object from its JSON; something else than a map is an empty object.
pub(super) fn made(json: serde_json::Value) -> Object {
    match json {
        serde_json::Value::Object(members) => Object::from(members),
        _ => Object::default(),
    }
}
