//! The table of requests with the functions that answer them.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::exemptions::is_unexamined;
use super::oversize::Oversize;
use super::rules::class::{OversizedValue, OversizedValues};
use super::rules::{class, cluster, machine, machine_group, machine_health_check};
use super::undecodable_clusters::changes_metadata_alone;
use super::{AdmissionOutcome, AdmissionSettings, Verdict, defaults};
use golang::json;
use model::crd;
use model::hub::{Cluster, ClusterClass, GROUP, Kind, Machine, MachineGroup, MachineHealthCheck, Metadata};
use model::wire::review::GroupVersionKind;
use model::wire::{Decode, Reference, WireVersion, as_hub_json, references};
use model::world::{Facts, Found, World, settle_at_once};
use schema::budget::Stop;

/// The operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    /// The operation called `name` in a review.
    pub fn from_name(name: &str) -> Option<Operation> {
        match name {
            "CREATE" => Some(Operation::Create),
            "UPDATE" => Some(Operation::Update),
            "DELETE" => Some(Operation::Delete),
            _ => None,
        }
    }

    /// `CREATE`, `UPDATE`, `DELETE`.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        }
    }
}

/// The two halves of an admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The mutating end point: defaults.
    Default,
    /// The validating end point: rules.
    Validate,
}

/// A path of the server (ADM-001).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndPoint {
    pub phase: Phase,
    pub kind: Kind,
    pub version: WireVersion,
    pub path: &'static str,
}

/// Every end point. ClusterClasses are defaulted in v1beta1 only (ADM-002, CC-D-001, DEC-3).
pub const END_POINTS: [EndPoint; 7] = [
    EndPoint {
        phase: Phase::Default,
        kind: Kind::Cluster,
        version: WireVersion::V1Beta2,
        path: "/mutate-cluster-x-k8s-io-v1beta2-cluster",
    },
    EndPoint {
        phase: Phase::Default,
        kind: Kind::Cluster,
        version: WireVersion::V1Beta1,
        path: "/mutate-cluster-x-k8s-io-v1beta1-cluster",
    },
    EndPoint {
        phase: Phase::Default,
        kind: Kind::ClusterClass,
        version: WireVersion::V1Beta1,
        path: "/mutate-cluster-x-k8s-io-v1beta1-clusterclass",
    },
    EndPoint {
        phase: Phase::Validate,
        kind: Kind::Cluster,
        version: WireVersion::V1Beta2,
        path: "/validate-cluster-x-k8s-io-v1beta2-cluster",
    },
    EndPoint {
        phase: Phase::Validate,
        kind: Kind::Cluster,
        version: WireVersion::V1Beta1,
        path: "/validate-cluster-x-k8s-io-v1beta1-cluster",
    },
    EndPoint {
        phase: Phase::Validate,
        kind: Kind::ClusterClass,
        version: WireVersion::V1Beta2,
        path: "/validate-cluster-x-k8s-io-v1beta2-clusterclass",
    },
    EndPoint {
        phase: Phase::Validate,
        kind: Kind::ClusterClass,
        version: WireVersion::V1Beta1,
        path: "/validate-cluster-x-k8s-io-v1beta1-clusterclass",
    },
];

/// The end points for machines. They exist if topologist runs the lifecycle of machines (MA-28).
pub const MACHINE_END_POINTS: [EndPoint; 8] = [
    machine_end_point(Phase::Default, Kind::MachineDeployment, "/mutate-cluster-x-k8s-io-v1beta2-machinedeployment"),
    machine_end_point(Phase::Default, Kind::MachineSet, "/mutate-cluster-x-k8s-io-v1beta2-machineset"),
    machine_end_point(Phase::Default, Kind::Machine, "/mutate-cluster-x-k8s-io-v1beta2-machine"),
    machine_end_point(Phase::Default, Kind::MachineHealthCheck, "/mutate-cluster-x-k8s-io-v1beta2-machinehealthcheck"),
    machine_end_point(Phase::Validate, Kind::MachineDeployment, "/validate-cluster-x-k8s-io-v1beta2-machinedeployment"),
    machine_end_point(Phase::Validate, Kind::MachineSet, "/validate-cluster-x-k8s-io-v1beta2-machineset"),
    machine_end_point(Phase::Validate, Kind::Machine, "/validate-cluster-x-k8s-io-v1beta2-machine"),
    machine_end_point(
        Phase::Validate,
        Kind::MachineHealthCheck,
        "/validate-cluster-x-k8s-io-v1beta2-machinehealthcheck",
    ),
];

const fn machine_end_point(phase: Phase, kind: Kind, path: &'static str) -> EndPoint {
    EndPoint { phase, kind, version: WireVersion::V1Beta2, path }
}

/// The webhook rules of an end point: the requests that an API server sends to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebhookRules {
    pub phase: Phase,
    pub kind: Kind,
    pub path: &'static str,
    /// Versions of the group `cluster.x-k8s.io`.
    pub versions: &'static [WireVersion],
    /// Whether the match policy is `Exact`: writes in other versions are not sent instead of being converted.
    pub is_exact: bool,
}

/// The rules of all webhooks in the order of the calls: mutating before validating ones. With `lifecycle`, those of
/// machines are included (MA-28). Defaults of classes depend on the namespaces of their references, which only v1beta1
/// has. So classes are defaulted in v1beta1 only, and validated in the version of the request (DEC-3).
pub fn webhook_rules(lifecycle: bool) -> Vec<WebhookRules> {
    const NEW: &[WireVersion] = &[WireVersion::V1Beta2];
    const OLD: &[WireVersion] = &[WireVersion::V1Beta1];
    const BOTH: &[WireVersion] = &[WireVersion::V1Beta1, WireVersion::V1Beta2];
    let of_topologies = END_POINTS.iter().filter_map(|&EndPoint { phase, kind, version, path }| {
        let (versions, is_exact) = match (phase, kind, version) {
            (Phase::Default, Kind::ClusterClass, _) => (OLD, true),
            (Phase::Validate, Kind::ClusterClass, WireVersion::V1Beta2) => (BOTH, false),
            (_, _, WireVersion::V1Beta2) => (NEW, false),
            _ => return None,
        };
        Some(WebhookRules { phase, kind, path, versions, is_exact })
    });
    let of_machines = MACHINE_END_POINTS.iter().filter(|_| lifecycle);
    let of_machines = of_machines.map(|&EndPoint { phase, kind, path, .. }| WebhookRules {
        phase,
        kind,
        path,
        versions: NEW,
        is_exact: false,
    });
    let mut all: Vec<WebhookRules> = of_topologies.chain(of_machines).collect();
    all.sort_by_key(|hook| hook.phase);
    all
}

impl WebhookRules {
    /// The operations for which the webhook is called.
    pub const fn operations(&self) -> &'static [Operation] {
        match (self.phase, self.kind) {
            (Phase::Validate, Kind::Cluster | Kind::ClusterClass) => {
                &[Operation::Create, Operation::Update, Operation::Delete]
            }
            _ => &[Operation::Create, Operation::Update],
        }
    }
}

/// An undecoded request: an object as text, and the operation on it.
#[derive(Clone, Copy, Debug)]
pub struct RawRequest<'a> {
    pub phase: Phase,
    pub kind: Kind,
    pub version: WireVersion,
    pub operation: Operation,
    /// The name in the request, for objects that do not decode and for deletions.
    pub name: &'a str,
    pub object: Option<&'a str>,
    pub old_object: Option<&'a str>,
    /// The version of the old object: in a review that of the new object, in files possibly another one.
    pub old_version: WireVersion,
}

impl RawRequest<'_> {
    fn is_unexamined(&self) -> bool {
        match (self.operation, self.old_object, self.object) {
            (Operation::Update, Some(old), Some(new)) => is_unexamined(self.kind, old, new),
            _ => false,
        }
    }

    /// The version of a review's object, if it is an object of `kind`.
    ///
    /// # Errors
    /// The error names the expected kind.
    pub fn version_of(kind: Kind, review: &GroupVersionKind<'_>) -> Result<WireVersion, WrongReview> {
        let versions = if Kind::ALL.contains(&kind) { &WireVersion::ALL[..] } else { &[WireVersion::V1Beta2] };
        let version = WireVersion::from_name(&review.version).filter(|version| versions.contains(version));
        match version {
            Some(version) if review.group == GROUP && review.kind == kind.name() => Ok(version),
            _ => Err(WrongReview {
                expected: kind,
                versions,
                group: review.group.clone().into_owned(),
                version: review.version.clone().into_owned(),
                kind: review.kind.clone().into_owned(),
            }),
        }
    }
}

/// A review about an object of another kind or version than its path answers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this path answers reviews of {} in {GROUP}, versions {}; the review is about {kind} in {group}/{version}",
    expected.name(),
    versions.iter().map(|version| version.name()).collect::<Vec<_>>().join(", ")
)]
pub struct WrongReview {
    pub expected: Kind,
    pub versions: &'static [WireVersion],
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// An error in the objects of a request.
#[derive(Debug, thiserror::Error)]
enum RequestDecodeError {
    #[error("the review has no object")]
    NoObject,
    #[error("the review has no oldObject")]
    NoOldObject,
    #[error("the object does not decode: {0}")]
    Object(String),
    #[error("the stored object (oldObject) does not decode: {0}")]
    OldObject(String),
    #[error("the oldObject is too large")]
    OldObjectTooLarge,
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// A decoded request. It is answered again each time its world has more facts.
#[derive(Debug)]
pub struct DecodedRequest {
    kind: Kind,
    name: String,
    subject: RequestSubject,
}

#[derive(Debug)]
enum RequestSubject {
    /// The object has too many values to be decoded (DEC-44).
    Oversize {
        oversize: Oversize,
        as_before: bool,
    },
    /// Nothing to check: a deletion at the mutating end point (ADM-008), an update of an object that is being deleted
    /// (DEC-16), or of the hold on a deletion alone (DEC-56).
    AlwaysAllowed,
    /// The deletion of a Cluster, which is always allowed (CL-V-080).
    DeleteCluster {
        old: Box<Cluster>,
    },
    DefaultCluster {
        new: Box<Cluster>,
        old: Option<Box<Cluster>>,
    },
    ValidateCluster {
        new: Box<Cluster>,
        old: Option<Box<Cluster>>,
    },
    DefaultClass {
        namespace: String,
        references: Vec<Reference>,
    },
    ValidateClass {
        new: Box<ClusterClass>,
        old: Option<Box<ClusterClass>>,
        references: Vec<Reference>,
        sizes: OversizedValues,
    },
    DeleteClass {
        old: Box<ClusterClass>,
    },
    Machine(Box<ReviewedObject<Machine>>),
    MachineGroup(Box<ReviewedObject<MachineGroup>>),
    MachineHealthCheck(Box<ReviewedObject<MachineHealthCheck>>),
}

/// The parts of a ClusterClass in v1beta1 that are larger than v1beta2 allows.
fn oversized_values(request: &RawRequest<'_>) -> OversizedValues {
    let size = |object: &Value, pointer: &str| match object.pointer(pointer) {
        Some(Value::Array(elements)) => elements.len(),
        Some(Value::Object(members)) => members.len(),
        Some(Value::String(text)) => text.chars().count(),
        _ => 0,
    };
    let oversized = |version, text: Option<&str>| {
        let object = text.and_then(|text| as_hub_json(version, text, request.kind));
        let of = |object: &Value| -> Vec<OversizedValue> {
            let found = crd::oversized(request.kind, object).into_iter();
            found.map(|violation| OversizedValue { size: size(object, &violation.pointer), violation }).collect()
        };
        object.as_ref().map(of).unwrap_or_default()
    };
    let new = oversized(request.version, request.object);
    let old = if new.is_empty() { Vec::new() } else { oversized(request.old_version, request.old_object) };
    OversizedValues { new, old }
}

/// An object of a kind whose rules need no other objects.
#[derive(Debug)]
struct ReviewedObject<T> {
    phase: Phase,
    new: T,
    old: Option<Box<T>>,
    /// The new object as it was sent, for defaults.
    raw: Value,
}

/// A new Cluster, or an object before and after an update.
#[derive(Debug)]
pub enum EditedObject {
    NewCluster(Box<Cluster>),
    Class { old: Box<ClusterClass>, new: Box<ClusterClass> },
    Cluster { old: Box<Cluster>, new: Box<Cluster> },
}

impl DecodedRequest {
    /// The edited object of a validating request.
    pub fn into_edited(self) -> Option<EditedObject> {
        match self.subject {
            RequestSubject::ValidateClass { new, old: Some(old), .. } => Some(EditedObject::Class { old, new }),
            RequestSubject::ValidateCluster { new, old: Some(old) } => Some(EditedObject::Cluster { old, new }),
            RequestSubject::ValidateCluster { new, old: None } => Some(EditedObject::NewCluster(new)),
            _ => None,
        }
    }

    /// The Cluster of a validating request for its deletion.
    pub fn deleted_cluster(&self) -> Option<&Cluster> {
        match &self.subject {
            RequestSubject::DeleteCluster { old } => Some(old),
            _ => None,
        }
    }

    /// Decodes a request.
    ///
    /// # Errors
    /// The verdict on a request whose object does not decode (ADM-003).
    pub fn decode(request: &RawRequest<'_>) -> Result<DecodedRequest, Box<Verdict>> {
        let undecodable =
            |reason| Box::new(Verdict::plain(request.kind, request.name, AdmissionOutcome::Undecodable(reason)));
        let (name, subject) = match Self::subject(request) {
            Ok(decoded) => decoded,
            Err(_) if request.is_unexamined() => (request.name.to_owned(), RequestSubject::AlwaysAllowed),
            Err(error) => return Err(undecodable(error.to_string())),
        };
        Ok(DecodedRequest { kind: request.kind, name, subject })
    }

    fn subject(request: &RawRequest<'_>) -> Result<(String, RequestSubject), RequestDecodeError> {
        if request.operation != Operation::Delete
            && let Some(oversize) = request.object.and_then(Oversize::find)
        {
            let before = request.old_object.and_then(Oversize::find);
            let as_before = before.is_some_and(|before| oversize.is_as_before(&before));
            return Ok((request.name.to_owned(), RequestSubject::Oversize { oversize, as_before }));
        }
        match (request.phase, request.kind, request.operation) {
            (Phase::Default, _, Operation::Delete) => Ok((request.name.to_owned(), RequestSubject::AlwaysAllowed)),
            (Phase::Default, Kind::ClusterClass, _) => {
                let (new, _old) = (new_object::<ClusterClass>(request)?, previous_object::<ClusterClass>(request)?);
                let namespace = new.metadata.namespace.clone();
                Ok(examined(request, new, |_| RequestSubject::DefaultClass {
                    namespace,
                    references: references_of(request),
                }))
            }
            (Phase::Default, Kind::Cluster, _) => Ok(match edited_cluster(request)? {
                Some((new, old)) => examined(request, new, |new| RequestSubject::DefaultCluster { new, old }),
                None => (request.name.to_owned(), RequestSubject::AlwaysAllowed),
            }),
            (Phase::Validate, Kind::Cluster, Operation::Delete) if is_oversize(request.old_object) => {
                Ok((request.name.to_owned(), RequestSubject::AlwaysAllowed))
            }
            (Phase::Validate, Kind::Cluster, Operation::Delete) => {
                Ok(match old_object::<Cluster>(request) {
                    Ok(old) => (old.metadata.name.clone(), RequestSubject::DeleteCluster { old: Box::new(old) }),
                    Err(reason) if request.old_object.is_none() => return Err(reason),
                    // Unreadable objects can be deleted (DEC-103).
                    Err(_) => (request.name.to_owned(), RequestSubject::AlwaysAllowed),
                })
            }
            (Phase::Validate, Kind::ClusterClass, Operation::Delete) => {
                let old = deleted_class(request)?;
                Ok((old.metadata.name.clone(), RequestSubject::DeleteClass { old: Box::new(old) }))
            }
            (_, kind, Operation::Delete) if Kind::OF_MACHINES.contains(&kind) => {
                Ok((request.name.to_owned(), RequestSubject::AlwaysAllowed))
            }
            (_, Kind::Machine, _) => reviewed(request, RequestSubject::Machine),
            (_, Kind::MachineDeployment | Kind::MachineSet, _) => reviewed(request, RequestSubject::MachineGroup),
            (_, Kind::MachineHealthCheck, _) => reviewed(request, RequestSubject::MachineHealthCheck),
            (Phase::Validate, Kind::Cluster, _) => Ok(match edited_cluster(request)? {
                Some((new, old)) => examined(request, new, |new| RequestSubject::ValidateCluster { new, old }),
                None => (request.name.to_owned(), RequestSubject::AlwaysAllowed),
            }),
            (Phase::Validate, Kind::ClusterClass, _) => {
                let (new, old) = (new_object::<ClusterClass>(request)?, previous_object(request)?);
                Ok(examined(request, new, |new| RequestSubject::ValidateClass {
                    new,
                    old,
                    references: references_of(request),
                    sizes: oversized_values(request),
                }))
            }
        }
    }

    /// The kind of the object.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The name of the object.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the answer is possible without compiling schemas or templates.
    pub fn is_quick(&self, world: &World) -> bool {
        let (RequestSubject::DefaultCluster { new, .. } | RequestSubject::ValidateCluster { new, .. }) = &self.subject
        else {
            return true;
        };
        match new.class_key().map(|key| world.class_at_once(&key)) {
            Some(Found::Yes(class)) => class.is_compiled(),
            _ => true,
        }
    }

    /// The verdict with these facts only: objects that they lack are absent, and nothing is gathered.
    pub fn settle(&self, facts: &Arc<Facts>, settings: &AdmissionSettings) -> Verdict {
        self.settle_until(facts, settings, &Stop::never())
    }

    /// The verdict with these facts, or an incomplete one if `stop` is due.
    pub fn settle_until(&self, facts: &Arc<Facts>, settings: &AdmissionSettings, stop: &Stop) -> Verdict {
        let world = World::closed(facts.clone()).until(stop.clone());
        settle_at_once(world, |world| self.answer(world, settings), |need| facts.answer(need))
            .unwrap_or_else(|unsettled| Verdict::unsettled(self.kind, &self.name, &unsettled))
    }

    /// The verdict with the facts of `world`. It is valid only if `world` recorded no need.
    pub fn answer(&self, world: &World, settings: &AdmissionSettings) -> Verdict {
        let mut verdict = match &self.subject {
            RequestSubject::AlwaysAllowed => Verdict::plain(self.kind, "", AdmissionOutcome::Allowed),
            RequestSubject::DeleteCluster { old } => cluster::validate_delete(old),
            RequestSubject::Oversize { oversize, as_before } => oversize.verdict(self.kind, *as_before, settings),
            RequestSubject::DefaultCluster { new, old } => {
                defaults::cluster::default(new, old.as_deref(), world, settings)
            }
            RequestSubject::ValidateCluster { new, old } => cluster::validate(new, old.as_deref(), world, settings),
            RequestSubject::DefaultClass { namespace, references } => {
                defaults::cluster_class::default(namespace, references, settings)
            }
            RequestSubject::ValidateClass { new, old, references, sizes } => {
                let written = class::WrittenClass { new, old: old.as_deref(), references, sizes };
                class::validate(written, world, settings)
            }
            RequestSubject::DeleteClass { old } => class::validate_delete(old, world, settings),
            RequestSubject::Machine(reviewed) => match (reviewed.phase, &reviewed.new, reviewed.old.as_deref()) {
                (Phase::Default, new, _) => defaults::machine::default(new, reviewed.raw.clone(), settings),
                (Phase::Validate, new, old) => machine::validate(new, old, settings),
            },
            RequestSubject::MachineGroup(reviewed) => match (reviewed.phase, &reviewed.new, reviewed.old.as_deref()) {
                (Phase::Default, new, old) => {
                    defaults::machine_group::default(self.kind, new, old, reviewed.raw.clone(), settings)
                }
                (Phase::Validate, new, old) => machine_group::validate(self.kind, new, old, settings),
            },
            RequestSubject::MachineHealthCheck(reviewed) => {
                match (reviewed.phase, &reviewed.new, reviewed.old.as_deref()) {
                    (Phase::Default, new, _) => {
                        defaults::machine_health_check::default(new, reviewed.raw.clone(), settings)
                    }
                    (Phase::Validate, new, old) => machine_health_check::validate(new, old, settings),
                }
            }
        };
        if world.stop().has_stopped() {
            // A verdict from incomplete findings would be wrong (DEC-44).
            let outcome = AdmissionOutcome::Unknown { rule: "DEC-44", message: STOPPED.to_owned() };
            verdict = Verdict::plain(self.kind, "", outcome);
        }
        verdict.name.clone_from(&self.name);
        verdict
    }
}

/// The verdict on a review that took too long.
const STOPPED: &str =
    "the review took longer than the caller's timeout; make the object smaller or simpler, or try again";

/// The name and the subject of a request for an object whose rules need no other objects.
fn reviewed<T: Decode + AsRef<Metadata>>(
    request: &RawRequest<'_>,
    subject: impl FnOnce(Box<ReviewedObject<T>>) -> RequestSubject,
) -> Result<(String, RequestSubject), RequestDecodeError> {
    let (new, old) = (new_object::<T>(request)?, previous_object::<T>(request)?);
    let raw = json::value(request.object.unwrap_or_default())?;
    Ok(examined(request, new, |new| subject(Box::new(ReviewedObject { phase: request.phase, new: *new, old, raw }))))
}

/// The namespaces of references in a v1beta1 class, which the hub does not have (DEC-3).
fn references_of(request: &RawRequest<'_>) -> Vec<Reference> {
    request.object.map(|text| references(request.version, text)).unwrap_or_default()
}

fn is_oversize(object: Option<&str>) -> bool {
    object.and_then(Oversize::find).is_some()
}

fn new_object<T: Decode>(request: &RawRequest<'_>) -> Result<Box<T>, RequestDecodeError> {
    let text = request.object.ok_or(RequestDecodeError::NoObject)?;
    T::decode(request.version, text).map(Box::new).map_err(RequestDecodeError::Object)
}

fn old_object<T: Decode>(request: &RawRequest<'_>) -> Result<T, RequestDecodeError> {
    let text = request.old_object.ok_or(RequestDecodeError::NoOldObject)?;
    T::decode(request.old_version, text).map_err(RequestDecodeError::OldObject)
}

/// The deletion of a class. An unreadable class can be deleted too (DEC-44): the Clusters that use it are found by its
/// name.
fn deleted_class(request: &RawRequest<'_>) -> Result<ClusterClass, RequestDecodeError> {
    #[derive(Deserialize)]
    struct PartialObjectMetadata {
        metadata: Metadata,
    }
    let old =
        if is_oversize(request.old_object) { Err(RequestDecodeError::OldObjectTooLarge) } else { old_object(request) };
    old.or_else(|error| {
        let named = request.old_object.and_then(|text| json::decode::<PartialObjectMetadata>(text).ok());
        let named = named.filter(|named| !named.metadata.name.is_empty());
        named
            .map(|PartialObjectMetadata { metadata }| ClusterClass { metadata, ..ClusterClass::default() })
            .ok_or(error)
    })
}

fn previous_object<T: Decode>(request: &RawRequest<'_>) -> Result<Option<Box<T>>, RequestDecodeError> {
    // An old object that is too large is not decoded, and the new object is validated like a created one.
    match request.operation {
        Operation::Update if is_oversize(request.old_object) => Ok(None),
        Operation::Update => old_object(request).map(Box::new).map(Some),
        Operation::Create | Operation::Delete => Ok(None),
    }
}

/// A Cluster and its state before an update.
type EditedCluster = (Box<Cluster>, Option<Box<Cluster>>);

/// A created or updated Cluster with its old state; `None` if the old state does not decode and only the metadata
/// changes. A Cluster that becomes readable is validated like a created one (DEC-103).
fn edited_cluster(request: &RawRequest<'_>) -> Result<Option<EditedCluster>, RequestDecodeError> {
    let old = match previous_object(request) {
        Ok(old) => old,
        Err(reason) if request.old_object.is_none() => return Err(reason),
        Err(_) if keeps_content(request) => return Ok(None),
        Err(_) => None,
    };
    Ok(Some((new_object(request)?, old)))
}

/// Whether an update only changes metadata.
fn keeps_content(request: &RawRequest<'_>) -> bool {
    request.old_object.zip(request.object).is_some_and(|(old, new)| changes_metadata_alone(old, new))
}

/// The name and the subject of a request, unless it is not examined (DEC-16, DEC-56).
fn examined<T: AsRef<Metadata>>(
    request: &RawRequest<'_>,
    new: Box<T>,
    subject: impl FnOnce(Box<T>) -> RequestSubject,
) -> (String, RequestSubject) {
    let metadata: &Metadata = (*new).as_ref();
    let name = metadata.name.clone();
    if request.is_unexamined() {
        return (name, RequestSubject::AlwaysAllowed);
    }
    (name, subject(new))
}
