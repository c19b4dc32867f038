//! The needs that a computation can have, and their answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::hub::{Hook, Object, ObjectKey, ObjectRef};

/// The ClusterClass of that name, once it is settled.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SettledClass(pub ObjectKey);

/// The name of a CustomResourceDefinition.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DefinitionName(pub String);

/// These Nodes of the workload cluster of a Cluster; without names, whether it can be reached.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodesOf {
    pub cluster: ObjectKey,
    pub names: BTreeSet<String>,
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
    /// The JSON body. The sender completes it: equal requests make equal needs, so its items have no `uid` yet, and
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
    /// In the order of applying.
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

/// Nodes by name; those that do not exist are left out.
pub type Nodes = BTreeMap<String, Arc<Object>>;

/// Objects of a kind in a namespace that carry all of these labels.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selection {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
}

/// How messages and logs name a question. Requests and objects hold values of variables, which are shown nowhere (DEC-34).
macro_rules! named {
    ($($question:ident $fields:tt => $words:literal $(, $more:expr)?;)*) => {
        $(impl fmt::Display for $question {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $question $fields = self;
                write!(f, $words $(, $more)?)
            }
        }

        impl fmt::Debug for $question {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        })*
    };
}

named! {
    SettledClass(key) => "ClusterClass {key}";
    DefinitionName(name) => "CustomResourceDefinition {name}";
    NodesOf { cluster, names } => "Nodes {names:?} of Cluster {cluster}";
    Selection { kind, namespace, labels, .. } => "{kind}s in namespace {namespace} with labels {labels:?}";
    HookCall { hook, cluster, .. } => "{hook} for Cluster {cluster}";
    PlanCall { extension, cluster, .. } => "GenerateUpgradePlan of {extension} for Cluster {cluster}";
    PatchCall { hook, extension, cluster, .. } => "{} of {extension} for Cluster {cluster}", hook.name();
    DryRunCall { object, version, .. } => "dry run of {object} at resourceVersion {version}";
}
