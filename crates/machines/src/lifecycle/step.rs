//! The result of one reconcile step.

use std::collections::BTreeSet;
use std::sync::Arc;

use core::time::Duration;

use super::context::StepError;
use super::fields::set;
use super::objects::GroupKind;
use model::hub::{Object, ObjectKey, paths};

/// A change of stored objects.
#[derive(Clone, Debug)]
pub enum ObjectWrite {
    /// Creates objects atomically: those already created are deleted if one fails. An existing object is a failure.
    Create { workload: Option<ObjectKey>, objects: Vec<Object> },
    /// Creates an object unless its name exists; an existing object is unchanged.
    CreateIfAbsent { workload: Option<ObjectKey>, object: Object },
    /// Updates an object unless it has changed since: metadata and spec first, then the status.
    Update { workload: Option<ObjectKey>, before: Arc<Object>, after: Object },
    /// Deletes an object, unless another one has taken its name.
    Delete { workload: Option<ObjectKey>, object: Arc<Object> },
    /// Evicts a Pod of a workload cluster; `grace` overrides the termination period of its spec, in seconds.
    Evict { workload: ObjectKey, pod: Arc<Object>, grace: Option<u32> },
    /// Connects a workload cluster of the embedded provider, or disconnects it and removes its objects.
    Connect { workload: ObjectKey, up: bool },
    /// Connects a workload cluster by the Secret `<cluster>-kubeconfig`, because its control plane is external, or
    /// disconnects it.
    Follow { workload: ObjectKey, on: bool },
}

impl ObjectWrite {
    /// The workload cluster of the objects; `None` for those of the management cluster.
    pub fn workload(&self) -> Option<&ObjectKey> {
        match self {
            ObjectWrite::Create { workload, .. }
            | ObjectWrite::CreateIfAbsent { workload, .. }
            | ObjectWrite::Update { workload, .. }
            | ObjectWrite::Delete { workload, .. } => workload.as_ref(),
            ObjectWrite::Evict { workload, .. }
            | ObjectWrite::Connect { workload, .. }
            | ObjectWrite::Follow { workload, .. } => Some(workload),
        }
    }

    /// The object that is written; the first one of several.
    pub fn object(&self) -> Option<&Object> {
        match self {
            ObjectWrite::Create { objects, .. } => objects.first(),
            ObjectWrite::CreateIfAbsent { object, .. } => Some(object),
            ObjectWrite::Update { before: object, .. }
            | ObjectWrite::Delete { object, .. }
            | ObjectWrite::Evict { pod: object, .. } => Some(object),
            ObjectWrite::Connect { .. } | ObjectWrite::Follow { .. } => None,
        }
    }

    /// The same write by a step with failures: an update whose status does not say that the generation is observed.
    #[must_use]
    pub fn without_observation(mut self) -> Self {
        if let ObjectWrite::Update { before, after, .. } = &mut self
            && before.observed_generation() != after.observed_generation()
        {
            match before.at(paths::status::OBSERVED_GENERATION) {
                Some(known) => set(after, paths::status::OBSERVED_GENERATION, known.clone()),
                None => drop(after.remove(paths::status::OBSERVED_GENERATION)),
            }
        }
        self
    }
}

/// A part of the writes of a step.
#[derive(Clone, Debug)]
pub enum StepWrite {
    /// A failure ends the step.
    Required(ObjectWrite),
    /// Writes of other objects, in order until one fails. A refusal is a failure of the step but does not end it, so
    /// that the step continues with other objects and the status. A conflict ends it, since the step has been computed
    /// from outdated objects.
    Attempted(Vec<ObjectWrite>),
}

/// An event for users of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepEvent {
    pub is_warning: bool,
    /// In CamelCase, such as `SuccessfulCreate`.
    pub reason: &'static str,
    pub message: String,
}

/// The result of one reconcile step.
#[derive(Debug, Default)]
pub struct Reconciliation {
    /// Writes in order.
    pub writes: Vec<StepWrite>,
    /// Events about the object of the step.
    pub events: Vec<StepEvent>,
    /// The delay after which the object is reconciled again without a change.
    pub requeue_after: Option<Duration>,
    /// Failures. Writes are applied nevertheless, and the object is retried with backoff.
    pub errors: Vec<String>,
}

impl Reconciliation {
    /// Requests a repetition after that time, or sooner if requested already.
    pub(crate) fn requeue_after(&mut self, after: Duration) {
        self.requeue_after = Some(self.requeue_after.map_or(after, |known| known.min(after)));
    }

    /// Emits a normal event.
    pub fn event(&mut self, reason: &'static str, message: impl Into<String>) {
        self.events.push(StepEvent { is_warning: false, reason, message: message.into() });
    }

    /// Emits a warning event.
    pub fn warn(&mut self, reason: &'static str, message: impl Into<String>) {
        self.events.push(StepEvent { is_warning: true, reason, message: message.into() });
    }

    /// Records the failure of a part; other parts continue (MA-4.3).
    ///
    /// # Errors
    /// When a kind is not listed yet, which stops the step.
    pub fn collect_error<T>(&mut self, part: Result<T, StepError>) -> Result<Option<T>, StepError> {
        match part {
            Ok(value) => Ok(Some(value)),
            Err(StepError::Failed(error)) => {
                self.errors.push(error);
                Ok(None)
            }
            Err(not_listed) => Err(not_listed),
        }
    }

    /// Adds a write whose failure ends the step.
    pub fn require(&mut self, write: ObjectWrite) {
        self.writes.push(StepWrite::Required(write));
    }

    /// Adds writes whose failure does not end the step; a failed one ends this sequence.
    pub fn attempt(&mut self, writes: impl IntoIterator<Item = ObjectWrite>) {
        self.writes.push(StepWrite::Attempted(writes.into_iter().collect()));
    }

    /// Creates objects of the management cluster atomically.
    pub fn create(&mut self, objects: Vec<Object>) {
        self.require(ObjectWrite::Create { workload: None, objects });
    }

    /// Updates an object of the management cluster if it differs.
    pub fn update(&mut self, before: &Arc<Object>, after: Object) {
        if **before != after {
            self.require(ObjectWrite::Update { workload: None, before: before.clone(), after });
        }
    }

    /// Updates another object than that of the step if it differs; a refusal does not end the step.
    pub fn update_other(&mut self, before: &Arc<Object>, after: Object) {
        if **before != after {
            self.attempt([ObjectWrite::Update { workload: None, before: before.clone(), after }]);
        }
    }

    /// Deletes an object of the management cluster, unless it is being deleted; a refusal does not end the step.
    pub fn delete(&mut self, object: &Arc<Object>) {
        if !object.is_being_deleted() {
            self.attempt([ObjectWrite::Delete { workload: None, object: object.clone() }]);
        }
    }
}

/// The outcome of a step.
#[derive(Debug)]
pub enum StepOutcome {
    Done(Reconciliation),
    /// Nothing is written: these kinds must be listed first.
    Needs(BTreeSet<GroupKind>),
}
