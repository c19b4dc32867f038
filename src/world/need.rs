//! What a run looks for, and the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Class, Found};
use crate::hub::{Definition, Hook, Object, ObjectKey, ObjectRef};

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
    /// What all extensions of a lifecycle hook answer (HK-04, HK-07).
    Hook(HookCall),
    /// What an extension plans for an upgrade (UP-15).
    GenerateUpgradePlan(PlanCall),
}

/// A call of all extensions that are registered for a lifecycle hook.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HookCall {
    pub hook: Hook,
    pub cluster: ObjectKey,
    /// The JSON body, without the settings of extensions.
    pub request: String,
}

/// What the extensions of a lifecycle hook say together; there are some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookAnswer {
    /// Go on.
    Done,
    /// Wait, and ask again.
    Retry { after_seconds: u32, message: String },
}

/// A call of the extension that plans upgrades of a class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlanCall {
    /// The name that the extension is registered by.
    pub extension: String,
    pub cluster: ObjectKey,
    /// The JSON body, without the settings of the extension.
    pub request: String,
}

/// The versions that an upgrade goes through, each in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpgradePlan {
    pub control_plane: Vec<String>,
    pub workers: Vec<String>,
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
    /// Absent when no extension is registered for the hook; unreadable when a call failed.
    Hook(Found<HookAnswer>),
    /// Unreadable when the call failed.
    GenerateUpgradePlan(Found<UpgradePlan>),
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
            Need::Hook(_) => Answer::Hook(Found::Unreadable(reason)),
            Need::GenerateUpgradePlan(_) => Answer::GenerateUpgradePlan(Found::Unreadable(reason)),
        }
    }
}
