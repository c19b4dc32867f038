//! What a run looks for, and the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Class, Found};
use crate::hub::{Definition, Object, ObjectKey, ObjectRef};

/// A fact that has to be gathered before a run can count.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// A ClusterClass that is absent, or whose variables are still being discovered, and may be about to arrive
    /// (CL-V-050). The gatherer decides how long to wait.
    Class(ObjectKey),
    /// An object, in this version of its kind.
    Object(ObjectRef),
    /// The objects of a kind in a namespace that carry labels.
    List(Selection),
    /// The CustomResourceDefinition of that name (CT-2.1).
    Definition(String),
    /// These Nodes of the workload cluster of a Cluster; without names, whether it can be reached.
    Nodes { cluster: ObjectKey, names: BTreeSet<String> },
}

/// Nodes by name; those that do not exist are left out.
pub type Nodes = BTreeMap<String, Arc<Object>>;

/// Objects of a kind in a namespace that carry all of these labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selection {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
}

/// What a need comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Class(Found<Arc<Class>>),
    Object(Found<Arc<Object>>),
    /// By name.
    List(Found<Vec<Arc<Object>>>),
    Definition(Found<Arc<Definition>>),
    Nodes(Found<Nodes>),
}

impl Need {
    /// The answer that nothing can be said, and why.
    pub fn unanswered(&self, reason: impl Into<String>) -> Answer {
        let reason = reason.into();
        match self {
            Need::Class(_) => Answer::Class(Found::Unreadable(reason)),
            Need::Object(_) => Answer::Object(Found::Unreadable(reason)),
            Need::List(_) => Answer::List(Found::Unreadable(reason)),
            Need::Definition(_) => Answer::Definition(Found::Unreadable(reason)),
            Need::Nodes { .. } => Answer::Nodes(Found::Unreadable(reason)),
        }
    }
}
