//! The facts of one step.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::objects::{GroupKind, ObjectId, Objects, Workload};
use super::settings::Settings;
use golang::calendar::Moment;
use model::hub::contract::Contract;
use model::hub::{ContractRef, Object, ObjectKey, WrongType};

/// Why a step, or a part of it, did not come to an end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The objects of a kind are not known yet: the step runs again when they are.
    #[error("{0} is not listed yet")]
    NotListed(GroupKind),
    /// What the object's status or the log says; the step runs again after a while.
    #[error("{0}")]
    Failed(String),
}

impl From<WrongType> for Fault {
    fn from(error: WrongType) -> Self {
        Fault::Failed(error.to_string())
    }
}

impl Fault {
    /// A failure with this text.
    pub fn because(text: impl Into<String>) -> Self {
        Fault::Failed(text.into())
    }
}

/// What a step may look at.
#[derive(Debug)]
pub struct Context<'a> {
    objects: &'a Objects,
    pub settings: &'a Settings,
    pub now: Moment,
    /// Kinds that were asked for and are not listed.
    needs: RefCell<BTreeSet<GroupKind>>,
}

impl<'a> Context<'a> {
    /// Facts at a point in time.
    pub fn new(objects: &'a Objects, settings: &'a Settings, now: Moment) -> Self {
        Context { objects, settings, now, needs: RefCell::default() }
    }

    /// The time that generated names follow from.
    pub(super) fn time_of_names(&self) -> Moment {
        let began = self.settings.began.map_or(0, |began| began.seconds);
        Moment { seconds: self.now.seconds - began, nanos: self.now.nanos }
    }

    /// The kinds that a step asked for and that are not listed.
    pub(crate) fn into_needs(self) -> BTreeSet<GroupKind> {
        self.needs.into_inner()
    }

    fn require(&self, kind: &GroupKind) -> Result<(), Fault> {
        // There are no objects of an empty reference.
        if kind.kind.is_empty() || self.objects.is_listed(kind) {
            return Ok(());
        }
        self.needs.borrow_mut().insert(kind.clone());
        Err(Fault::NotListed(kind.clone()))
    }

    /// One object of the management cluster.
    ///
    /// # Errors
    /// When the kind is not listed yet.
    pub fn get(&self, kind: &GroupKind, key: &ObjectKey) -> Result<Option<Arc<Object>>, Fault> {
        self.require(kind)?;
        Ok(self.objects.get(&ObjectId::new(kind.clone(), key.clone())).cloned())
    }

    /// One object of Cluster API itself.
    ///
    /// # Errors
    /// When the kind is not listed yet.
    pub fn core(&self, kind: &str, namespace: &str, name: &str) -> Result<Option<Arc<Object>>, Fault> {
        self.get(&GroupKind::core(kind), &ObjectKey::new(namespace, name))
    }

    /// The object of a reference; nothing when the reference is empty.
    ///
    /// # Errors
    /// When the kind is not listed yet.
    pub fn referenced(&self, reference: &ContractRef, namespace: &str) -> Result<Option<Arc<Object>>, Fault> {
        if !reference.is_defined() {
            return Ok(None);
        }
        self.get(&GroupKind::to(reference), &ObjectKey::new(namespace, &*reference.name))
    }

    /// The objects of a kind that belong to a Cluster, by name.
    ///
    /// # Errors
    /// When the kind is not listed yet.
    pub fn of_cluster(&self, kind: &GroupKind, cluster: &ObjectKey) -> Result<Vec<Arc<Object>>, Fault> {
        self.require(kind)?;
        Ok(self.objects.of_cluster(kind, cluster))
    }

    /// The objects of a kind in a namespace.
    ///
    /// # Errors
    /// When the kind is not listed yet.
    pub fn in_namespace(&self, kind: &GroupKind, namespace: &str) -> Result<Vec<Arc<Object>>, Fault> {
        self.require(kind)?;
        Ok(self.objects.all(kind).filter(|object| object.namespace() == namespace).cloned().collect())
    }

    /// What an object owns of a kind.
    ///
    /// # Errors
    /// When the kind is not listed yet.
    pub fn owned(&self, kind: &GroupKind, uid: &str) -> Result<Vec<Arc<Object>>, Fault> {
        self.require(kind)?;
        let ids = self.objects.owned_by(uid).filter(|id| id.kind == *kind);
        Ok(ids.filter_map(|id| self.objects.get(id).cloned()).collect())
    }

    /// The contract that objects of a kind follow (CT-3.5); the newer one for kinds that are asked about before they are listed.
    pub fn contract(&self, object: &Object) -> Contract {
        self.objects.contract(&GroupKind::of(object)).unwrap_or(Contract::V1Beta2)
    }

    /// The workload cluster of a Cluster, if it is connected.
    pub fn workload(&self, cluster: &ObjectKey) -> Option<&'a Workload> {
        self.objects.workload(cluster).filter(|workload| workload.is_reachable)
    }

    /// Whether the workload cluster of a Cluster is reached by the Secret of its kubeconfig.
    pub(super) fn is_followed(&self, cluster: &ObjectKey) -> bool {
        self.objects.workload(cluster).is_some_and(|workload| workload.is_followed)
    }

    /// Why the workload cluster of a Cluster is not connected, if that is known.
    pub(super) fn problem(&self, cluster: &ObjectKey) -> Option<&'a str> {
        self.objects.workload(cluster)?.problem.as_deref()
    }
}
