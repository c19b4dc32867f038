//! Needs of computations, and their answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::hub::{Hook, Object, ObjectKey, ObjectRef};

/// The ClusterClass with that key, once it is settled.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SettledClass(pub ObjectKey);

/// The name of a CustomResourceDefinition.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DefinitionName(pub String);

/// Nodes of the workload cluster of a Cluster; without names, the question whether it is reachable.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodesOf {
    pub cluster: ObjectKey,
    pub names: BTreeSet<String>,
}

/// A call of all extensions registered for a lifecycle hook.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HookCall {
    pub hook: Hook,
    pub cluster: ObjectKey,
    /// The JSON body, without the settings of extensions.
    pub request: String,
}

/// The combined answer of the extensions of a lifecycle hook; there is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookAnswer {
    /// Proceed.
    Done,
    /// Wait, and call again.
    Retry { after_seconds: u32, message: String },
}

/// A call of the extension that plans upgrades of a class.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlanCall {
    /// The registered name of the extension.
    pub extension: String,
    pub cluster: ObjectKey,
    /// The JSON body, without the settings of the extension.
    pub request: String,
}

/// The intermediate versions of an upgrade, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedVersions {
    pub control_plane: Vec<String>,
    pub workers: Vec<String>,
}

/// A call of the extension of a patch.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PatchCall {
    pub hook: PatchHook,
    /// The registered name of the extension.
    pub extension: String,
    pub cluster: ObjectKey,
    /// The JSON body. The sender completes it: equal requests are equal needs, so items have no `uid` yet, and settings
    /// are those of the patch only.
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

/// The answer of the extension of a patch. An error ignored by the failure policy counts as an answer without patches,
/// or as a valid topology (HK-25).
#[derive(Clone, Debug, PartialEq)]
pub enum PatchAnswer {
    /// In the order of application.
    Patches(Arc<[ItemPatch]>),
    /// The topology is valid.
    Valid,
    /// The status `Failure` with its message.
    Failure(String),
}

/// A patch of one item of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemPatch {
    /// Position in the request of the item that the answer identified by `uid`.
    pub item: usize,
    /// `JSONPatch`, `JSONMergePatch`.
    pub patch_type: String,
    /// The patch, decoded from base64.
    pub patch: Vec<u8>,
}

/// A question for an API server: whether applying something would change an object (DEC-15).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DryRunCall {
    /// The object to be changed.
    pub object: ObjectRef,
    /// The current `resourceVersion` of the object.
    pub version: String,
    /// The current object as JSON, with the entries of `metadata.managedFields` of the topology manager.
    pub current: String,
    /// The configuration to be applied, as JSON.
    pub sent: String,
}

/// The result of a dry run.
#[derive(Clone, Debug, PartialEq)]
pub enum DryRun {
    /// Nothing changes.
    Same,
    /// The object as an API server would store it now and after the apply. Both are reduced to the fields that
    /// topologies send, and the ownership of their manager (SSA-11).
    Differs { current: Arc<Object>, desired: Arc<Object> },
}

/// Nodes by name, without missing ones.
pub type Nodes = BTreeMap<String, Arc<Object>>;

/// Objects of a kind in a namespace with all of these labels.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selection {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
}

/// Names of questions in messages and logs. Requests and objects contain values of variables, which are never shown
/// (DEC-34).
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
