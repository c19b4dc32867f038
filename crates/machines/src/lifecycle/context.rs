//! The facts available to one step.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::objects::{GroupKind, MachineCache, WorkloadObjects};
use super::settings::MachineSettings;
use golang::calendar::Moment;
use model::hub::contract::Contract;
use model::hub::{ContractRef, Object, ObjectKey, WrongType};

/// Reason why a step, or a part of it, did not complete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The objects of a kind are not known yet: the step is repeated when they are.
    #[error("{0} is not listed yet")]
    NotListed(GroupKind),
    /// A failure for the status or the log; the step is retried later.
    #[error("{0}")]
    Failed(String),
}

impl From<WrongType> for StepError {
    fn from(error: WrongType) -> Self {
        StepError::Failed(error.to_string())
    }
}

impl StepError {
    /// A failure with a message.
    pub fn failed(text: impl Into<String>) -> Self {
        StepError::Failed(text.into())
    }
}

/// The inputs of a step.
#[derive(Debug)]
pub struct StepContext<'a> {
    objects: &'a MachineCache,
    pub settings: &'a MachineSettings,
    pub now: Moment,
    /// Requested kinds that are not listed.
    needs: RefCell<BTreeSet<GroupKind>>,
}

impl<'a> StepContext<'a> {
    /// A context at a point in time.
    pub fn new(objects: &'a MachineCache, settings: &'a MachineSettings, now: Moment) -> Self {
        StepContext { objects, settings, now, needs: RefCell::default() }
    }

    /// The time that seeds generated names.
    pub(super) fn time_of_names(&self) -> Moment {
        let began = self.settings.began.map_or(0, |began| began.seconds);
        Moment { seconds: self.now.seconds - began, nanos: self.now.nanos }
    }

    /// The requested kinds that are not listed.
    pub(crate) fn into_needs(self) -> BTreeSet<GroupKind> {
        self.needs.into_inner()
    }

    fn require(&self, kind: &GroupKind) -> Result<(), StepError> {
        // An empty reference has no objects.
        if kind.kind.is_empty() || self.objects.is_listed(kind) {
            return Ok(());
        }
        self.needs.borrow_mut().insert(kind.clone());
        Err(StepError::NotListed(kind.clone()))
    }

    /// Whether the objects of a kind are known. Unlike a lookup, it does not make the step wait for them.
    pub(crate) fn is_listed(&self, kind: &GroupKind) -> bool {
        self.objects.is_listed(kind)
    }

    /// One object of the management cluster.
    ///
    /// # Errors
    /// When the kind is not listed yet.
    pub fn get(&self, kind: &GroupKind, key: &ObjectKey) -> Result<Option<Arc<Object>>, StepError> {
        self.require(kind)?;
        Ok(self.objects.find(kind, key).cloned())
    }

    /// One object of Cluster API itself.
    ///
    /// # Errors
    /// When the kind is not listed yet.
    pub fn core(&self, kind: &str, namespace: &str, name: &str) -> Result<Option<Arc<Object>>, StepError> {
        self.get(&GroupKind::core(kind), &ObjectKey::new(namespace, name))
    }

    /// The referenced object; `None` for an empty reference.
    ///
    /// # Errors
    /// When the kind is not listed yet.
    pub fn referenced(&self, reference: &ContractRef, namespace: &str) -> Result<Option<Arc<Object>>, StepError> {
        if !reference.is_defined() {
            return Ok(None);
        }
        self.get(&GroupKind::for_reference(reference), &ObjectKey::new(namespace, &*reference.name))
    }

    /// The objects of a kind that belong to a Cluster, sorted by name.
    ///
    /// # Errors
    /// When the kind is not listed yet.
    pub fn of_cluster(&self, kind: &GroupKind, cluster: &ObjectKey) -> Result<Vec<Arc<Object>>, StepError> {
        self.require(kind)?;
        Ok(self.objects.of_cluster(kind, cluster))
    }

    /// The objects of a kind in a namespace.
    ///
    /// # Errors
    /// When the kind is not listed yet.
    pub fn in_namespace(&self, kind: &GroupKind, namespace: &str) -> Result<Vec<Arc<Object>>, StepError> {
        self.require(kind)?;
        Ok(self.objects.all(kind).filter(|object| object.namespace() == namespace).cloned().collect())
    }

    /// The objects of a kind with this owner.
    ///
    /// # Errors
    /// When the kind is not listed yet.
    pub fn owned(&self, kind: &GroupKind, uid: &str) -> Result<Vec<Arc<Object>>, StepError> {
        self.require(kind)?;
        let ids = self.objects.owned_by(uid).filter(|id| id.kind == *kind);
        Ok(ids.filter_map(|id| self.objects.get(id).cloned()).collect())
    }

    /// The contract of a kind's objects (CT-3.5); the newer one for kinds that are not listed yet.
    pub fn contract(&self, object: &Object) -> Contract {
        self.objects.contract(&GroupKind::for_object(object)).unwrap_or(Contract::V1Beta2)
    }

    /// The workload cluster of a Cluster, if it is connected.
    pub fn workload(&self, cluster: &ObjectKey) -> Option<&'a WorkloadObjects> {
        self.objects.workload(cluster).filter(|workload| workload.is_reachable)
    }

    /// The workload cluster if it is connected, or hosted by this process: before it is connected, it has the objects
    /// that the first control plane machine has registered.
    pub(super) fn known_workload(&self, cluster: &ObjectKey) -> Option<&'a WorkloadObjects> {
        self.objects.workload(cluster).filter(|workload| workload.is_reachable || !workload.is_followed)
    }

    /// Whether the workload cluster is connected by the Secret of its kubeconfig.
    pub(super) fn is_followed(&self, cluster: &ObjectKey) -> bool {
        self.objects.workload(cluster).is_some_and(|workload| workload.is_followed)
    }

    /// The reason why the workload cluster is not connected, if known.
    pub(super) fn problem(&self, cluster: &ObjectKey) -> Option<&'a str> {
        self.objects.workload(cluster)?.problem.as_deref()
    }
}
