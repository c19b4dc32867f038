//! What a run looks for, and the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
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
    /// These Nodes of the workload cluster of a Cluster; without names, whether it can be reached. Absent when its kubeconfig
    /// may not be read (DEC-47).
    Nodes { cluster: ObjectKey, names: BTreeSet<String> },
    /// What all extensions of a lifecycle hook answer (HK-04, HK-07).
    Hook(HookCall),
    /// What an extension plans for an upgrade (UP-15).
    GenerateUpgradePlan(PlanCall),
    /// What an extension does to the templates of a topology, or says of them (PE-23, PE-29).
    Patch(PatchCall),
    /// Whether applying something would change anything, as an API server sees it (SSA-06 to SSA-14).
    DryRun(DryRunCall),
}

/// A call of all extensions that are registered for a lifecycle hook.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
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
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
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

/// A call of the extension of a patch.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PatchCall {
    pub hook: PatchHook,
    /// The name that the extension is registered by.
    pub extension: String,
    pub cluster: ObjectKey,
    /// The JSON body. Whoever sends it completes it: equal requests make equal needs, so its items have no `uid` yet, and
    /// its settings are only those of the patch.
    pub request: String,
}

/// A hook that patches call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PatchHook {
    GeneratePatches,
    ValidateTopology,
}

impl PatchHook {
    /// The name of the hook.
    pub const fn name(self) -> &'static str {
        match self {
            PatchHook::GeneratePatches => "GeneratePatches",
            PatchHook::ValidateTopology => "ValidateTopology",
        }
    }
}

/// What the extension of a patch answered. An error that its failure policy ignores is an answer without patches, or the
/// answer that all is in order (HK-25).
#[derive(Clone, Debug, PartialEq)]
pub enum PatchAnswer {
    /// In the order in which they are to be applied.
    Patches(Arc<[ItemPatch]>),
    /// The topology is in order.
    Valid,
    /// The status `Failure`, with its message.
    Failure(String),
}

/// A patch of one item of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemPatch {
    /// The position of the item in the request, whose `uid` the answer named.
    pub item: usize,
    /// `JSONPatch`, `JSONMergePatch`.
    pub patch_type: String,
    /// The patch as it was sent, decoded from base64.
    pub patch: Vec<u8>,
}

/// A request holds values of variables, which are shown nowhere (DEC-34).
impl fmt::Debug for HookCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HookCall { hook, cluster, request } = self;
        write!(f, "{hook} for Cluster {cluster} ({} bytes)", request.len())
    }
}

/// As a hook's.
impl fmt::Debug for PlanCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PlanCall { extension, cluster, request } = self;
        write!(f, "GenerateUpgradePlan of {extension} for Cluster {cluster} ({} bytes)", request.len())
    }
}

/// As a hook's.
impl fmt::Debug for PatchCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PatchCall { hook, extension, cluster, request } = self;
        write!(f, "{} of {extension} for Cluster {cluster} ({} bytes)", hook.name(), request.len())
    }
}

/// A question that only an API server can answer: whether an object would change if something were applied (DEC-15).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DryRunCall {
    /// What would be applied to.
    pub object: ObjectRef,
    /// The `resourceVersion` of the object as it is.
    pub version: String,
    /// The object as it is, as JSON, with the entries of `metadata.managedFields` that the manager of topologies has.
    pub current: String,
    /// What would be applied, as JSON.
    pub sent: String,
}

/// What applying something comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum DryRun {
    /// Nothing changes.
    Same,
    /// What an API server would store of the object as it is now, and of what would be applied. Both hold nothing but what
    /// topologies send, and which fields their manager owns (SSA-11).
    Differs { current: Arc<Object>, desired: Arc<Object> },
}

/// Objects may hold values of variables, which are shown nowhere.
impl fmt::Debug for DryRunCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DryRunCall { object, version, current, sent } = self;
        write!(f, "dry run of {object} at {version} ({} and {} bytes)", current.len(), sent.len())
    }
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
    /// Unreadable when the call failed and that is not ignored.
    Patch(Found<PatchAnswer>),
    /// Unreadable when the API server refused it.
    DryRun(Found<DryRun>),
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
            Need::Patch(_) => Answer::Patch(Found::Unreadable(reason)),
            Need::DryRun(_) => Answer::DryRun(Found::Unreadable(reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_show_no_values() {
        // DEC-34
        let (cluster, request) = (ObjectKey::new("ns", "c"), "secret".to_owned());
        let hook = HookCall { hook: Hook::BeforeClusterCreate, cluster: cluster.clone(), request: request.clone() };
        let extension = "e".to_owned();
        let plan = PlanCall { extension: extension.clone(), cluster: cluster.clone(), request: request.clone() };
        let patch_hook = PatchHook::GeneratePatches;
        let patch = PatchCall { hook: patch_hook, extension, cluster: cluster.clone(), request: request.clone() };
        let object = ObjectRef::new("a/v1", "Thing", cluster);
        let dry_run = DryRunCall { object, version: "1".to_owned(), current: request.clone(), sent: request };
        for need in [Need::Hook(hook), Need::GenerateUpgradePlan(plan), Need::Patch(patch), Need::DryRun(dry_run)] {
            let shown = format!("{need:?}");
            assert!(!shown.contains("secret") && shown.contains("ns/c"), "{shown}");
        }
    }
}
