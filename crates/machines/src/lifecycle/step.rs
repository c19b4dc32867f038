//! What one step comes to.

use std::collections::BTreeSet;
use std::sync::Arc;

use core::time::Duration;

use super::context::Fault;
use super::objects::GroupKind;
use model::hub::{Object, ObjectKey};

/// A change of the stored objects.
#[derive(Clone, Debug)]
pub enum Write {
    /// Makes objects, all or none: those that were made are deleted again if one of them cannot be made. One that is there
    /// already is a failure.
    Create { workload: Option<ObjectKey>, objects: Vec<Object> },
    /// Makes an object unless there is one of its name, which stays as it is.
    CreateIfAbsent { workload: Option<ObjectKey>, object: Object },
    /// Changes an object, provided that it still is what it was: metadata and spec first, then the status.
    Update { workload: Option<ObjectKey>, before: Arc<Object>, after: Object },
    /// Deletes an object, unless another one has taken its name.
    Delete { workload: Option<ObjectKey>, object: Arc<Object> },
    /// Evicts a Pod of a workload cluster; it has this many seconds to end, or as many as its spec says.
    Evict { workload: ObjectKey, pod: Arc<Object>, grace: Option<u32> },
    /// Connects a workload cluster of the embedded provider, or disconnects it and forgets what is in it.
    Connect { workload: ObjectKey, up: bool },
    /// Follows a workload cluster by the Secret `<cluster>-kubeconfig`, because another controller runs its control plane, or no longer
    /// does so.
    Follow { workload: ObjectKey, on: bool },
}

/// Something to tell the people who look at an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub is_warning: bool,
    /// One word, such as `SuccessfulCreate`.
    pub reason: &'static str,
    pub message: String,
}

/// What one step comes to.
#[derive(Debug, Default)]
pub struct Step {
    /// In this order; the first that fails ends the step.
    pub writes: Vec<Write>,
    /// About the object of the step.
    pub events: Vec<Event>,
    /// After which time the object is due again if nothing happens.
    pub again: Option<Duration>,
    /// What failed. The writes are carried out nevertheless, and the object is tried again after a while that grows.
    pub errors: Vec<String>,
}

impl Step {
    /// Looks again after that time, or sooner if something else asks for it.
    pub(crate) fn look_again(&mut self, after: Duration) {
        self.again = Some(self.again.map_or(after, |known| known.min(after)));
    }

    /// Tells something that is as it should be.
    pub fn tell(&mut self, reason: &'static str, message: impl Into<String>) {
        self.events.push(Event { is_warning: false, reason, message: message.into() });
    }

    /// Tells something that should not be.
    pub fn warn(&mut self, reason: &'static str, message: impl Into<String>) {
        self.events.push(Event { is_warning: true, reason, message: message.into() });
    }

    /// Keeps what a part of the step came to; its failure does not stop the other parts (MA-4.3).
    ///
    /// # Errors
    /// When a kind is not listed yet, which stops all of them.
    pub fn keep<T>(&mut self, part: Result<T, Fault>) -> Result<Option<T>, Fault> {
        match part {
            Ok(value) => Ok(Some(value)),
            Err(Fault::Failed(error)) => {
                self.errors.push(error);
                Ok(None)
            }
            Err(not_listed) => Err(not_listed),
        }
    }

    /// Makes objects of the management cluster, all or none.
    pub fn create(&mut self, objects: Vec<Object>) {
        self.writes.push(Write::Create { workload: None, objects });
    }

    /// Changes an object of the management cluster if there is a difference.
    pub fn update(&mut self, before: &Arc<Object>, after: Object) {
        if **before != after {
            self.writes.push(Write::Update { workload: None, before: before.clone(), after });
        }
    }

    /// Deletes an object of the management cluster, unless it is being deleted.
    pub fn delete(&mut self, object: &Arc<Object>) {
        if !object.is_being_deleted() {
            self.writes.push(Write::Delete { workload: None, object: object.clone() });
        }
    }
}

/// What became of a step.
#[derive(Debug)]
pub enum Outcome {
    Done(Step),
    /// Nothing is written: these kinds have to be listed first.
    Needs(BTreeSet<GroupKind>),
}
