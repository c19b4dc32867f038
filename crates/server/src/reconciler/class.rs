//! One run of the ClusterClass reconciler. It sets no finalizer, so classes can be deleted at any time (CCR-14).
//!
//! Every write names the resourceVersion that it was computed from. So the API server rejects a write that was delayed
//! until another process led, and no write reverts changes of other clients.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::Patch;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{info, warn};

use super::backoff::{Backoff, DelayedWrite};
use super::postponed::Postponed;
use super::raw::{ClassReadError, RawClass};
use super::runs::{self, RunOutcome};
use super::{add, in_our_name, now};
use crate::kubernetes::address::{self, InvalidSegment, ObjectApi};
use crate::kubernetes::cache::Cache;
use crate::kubernetes::contract::{DefinitionError, Definitions};
use crate::kubernetes::describe;
use crate::kubernetes::events::{EventReason, QueuedEvent, Recorder};
use crate::kubernetes::extensions::{ExtensionCaller, ExtensionError};
use crate::kubernetes::lease::{Leadership, NotLeading};
use crate::kubernetes::metadata::ObjectMetadata;
use crate::kubernetes::overload::ApiOverload;
use crate::kubernetes::templates::{ObjectKind, Templates};
use crate::kubernetes::unlisted::Unlisted;
use crate::telemetry::metrics::Metrics;
use engine::admission::{clusters_that_break, usable_variables};
use engine::topology::class_references::{OutdatedReference, ReferenceError, group_version, references};
use engine::topology::class_status::{self, References};
use engine::topology::class_variables::{ClassVariables, Discovered, VariableDiscoveryError};
use model::hub::{ClusterClass, GROUP, Kind, ObjectKey, ObjectRef, TemplateRef, contract};
use model::wire::{Decode, WireVersion};
use model::world::{Facts, Found, Record, World};
use schema::budget::Stop;
use schema::field::{a_few, counted, shortened};

/// Maximum time for which a run waits for new watches.
const PATIENCE: Duration = Duration::from_secs(5);
/// Timeout for the variables of an extension; the timeout of the handler is shorter.
const DISCOVERY: Duration = Duration::from_secs(35);
/// Timeout of the search for Clusters that new variables break.
const JUDGING: Duration = Duration::from_secs(5);
/// Maximum number of them that an event names.
const NAMED_CLUSTERS: usize = 10;
const BREAKS: EventReason = EventReason::warning("TopologyBroken");
/// Maximum number of retries of a write after conflicts.
const CONFLICTS: usize = 3;

/// Why a run was incomplete.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReconcileError {
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    #[error("the object cannot be read: {0}")]
    Unreadable(#[from] ClassReadError),
    /// The status tells it.
    #[error("{}", .0.join("; "))]
    Incomplete(Vec<String>),
    /// Nothing is concluded without this cache (DEC-100).
    #[error("{0}")]
    Unlisted(Unlisted),
    /// The API server is busy. The conditions of the class report it once it lasts (DEC-106).
    #[error(transparent)]
    Overloaded(ApiOverload),
    #[error("the class has changed since it was read")]
    Conflict,
    /// The watch has not shown the last write yet.
    #[error("a change of the class is pending")]
    Stale,
    #[error("the status cannot be written: {}", describe(.0))]
    Status(#[source] kube::Error),
    #[error(transparent)]
    Held(#[from] DelayedWrite),
    #[error("timed out after a minute")]
    Late,
}

/// Why a reference could not be resolved.
#[derive(Debug, thiserror::Error)]
enum ReferenceFailure {
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// It cannot become part of a URL (DEC-45).
    #[error("cannot resolve the reference to {kind} {name}: {error}")]
    Malformed { kind: String, name: String, error: InvalidSegment },
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    #[error("{kind} {name} does not exist in version {version}")]
    Missing { kind: String, name: String, version: String },
    #[error("{kind} {name} cannot be read: {}", describe(.error))]
    Unreadable { kind: String, name: String, error: kube::Error },
    #[error("the owner references of {kind} {name} cannot be written: {}", describe(.error))]
    Unwritten { kind: String, name: String, error: kube::Error },
    #[error("the owner references of {kind} {name} kept changing while they were written")]
    Contended { kind: String, name: String },
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
}

impl ReferenceFailure {
    /// The overload that caused the failure.
    fn overload(&self) -> Option<ApiOverload> {
        match self {
            ReferenceFailure::Unreadable { error, .. } | ReferenceFailure::Unwritten { error, .. } => {
                ApiOverload::from_error(error)
            }
            _ => None,
        }
    }

    /// Whether the definition or the template does not exist.
    fn is_missing(&self) -> bool {
        matches!(self, ReferenceFailure::Definition(DefinitionError::Missing(_)) | ReferenceFailure::Missing { .. })
    }

    /// Whether the reference itself is wrong.
    fn is_malformed(&self) -> bool {
        matches!(self, ReferenceFailure::Malformed { .. } | ReferenceFailure::Reference(ReferenceError::Incomplete(_)))
    }
}

/// The resolved references of a class, and the failures.
struct ResolvedReferences {
    references: References,
    failures: Vec<String>,
    /// The overload of the API server, if there is nothing else wrong.
    overload: Option<ApiOverload>,
    /// Whether a template got a new owner.
    took_any: bool,
}

/// The dependencies of all runs.
pub(super) struct ClassReconciler {
    /// Writes only while this process leads.
    pub writer: kube::Client,
    pub leadership: Leadership,
    pub definitions: Definitions,
    pub templates: Arc<Templates>,
    pub backoff: Backoff,
    pub postponed: Postponed,
    /// Runtime Extensions are asked for variables; `None` while the feature gate is off.
    pub extensions: Option<Arc<ExtensionCaller>>,
    /// The Clusters, which variables may not fit any more.
    pub cache: Arc<Cache>,
    pub events: Recorder,
    pub metrics: Arc<Metrics>,
}

impl ClassReconciler {
    /// Whether runs no longer wait for this cache.
    pub(super) fn has(&self, unlisted: &Unlisted) -> bool {
        match unlisted {
            Unlisted::Definitions => *self.definitions.listed().borrow(),
            unlisted => self.extensions.as_ref().is_none_or(|extensions| extensions.has(unlisted)),
        }
    }

    /// Brings the status of a class and the owners of its templates up to date (CCR-02).
    pub(super) async fn run(&self, class: &RawClass) -> Result<RunOutcome, ReconcileError> {
        self.leadership.may_write()?;
        if self.backoff.is_stale(&class.key(), class.version()) {
            return Err(ReconcileError::Stale);
        }
        if !class_status::reports_paused(&class.value) {
            let status = class_status::with_paused(&class.value, &now());
            self.write_status(class, &status).await?;
            return Ok(RunOutcome::Changed);
        }
        if class_status::is_paused(&class.value) || class.metadata().deletion_timestamp.is_some() {
            return Ok(RunOutcome::LeftAlone);
        }
        let hub = class.hub.as_ref().map_err(ClassReadError::clone)?;
        let ResolvedReferences { references, mut failures, overload, took_any } =
            self.references(class, hub).await.map_err(ReconcileError::Unlisted)?;
        // A failure because another process leads is not a failure of the class.
        self.leadership.may_write()?;
        if self.backoff.is_silent_about(&class.key(), overload.as_ref()) {
            return Err(ReconcileError::Overloaded(overload.unwrap_or_default()));
        }
        let variables = match excess(hub).await {
            Some(reason) => ClassVariables::Unreadable(reason),
            None => self.variables(class, hub).await.map_err(ReconcileError::Unlisted)?,
        };
        let status = class_status::reconciled(&class.value, &references, &variables, &now());
        let differs = !class_status::is_equivalent(class.value.get("status"), &status);
        if differs {
            let broken = self.broken(hub, &variables).await;
            self.write_status(class, &status).await?;
            self.warn_of(class, &broken).await;
        }
        let problem = variables.problem();
        match (overload, problem) {
            (Some(overload), None) => return Err(ReconcileError::Overloaded(overload)),
            (_, problem) => failures.extend(problem.map(|problem| problem.to_string())),
        }
        match failures.is_empty() {
            true if differs || took_any => Ok(RunOutcome::Changed),
            true => Ok(RunOutcome::Unchanged),
            false => Err(ReconcileError::Incomplete(failures)),
        }
    }

    /// Resolves every reference, even if others fail (CCR-03 to CCR-05).
    ///
    /// # Errors
    /// While no definition is known.
    async fn references(&self, class: &RawClass, hub: &ClusterClass) -> Result<ResolvedReferences, Unlisted> {
        let deadline = Instant::now() + PATIENCE;
        let (mut all_outdated, mut failures, mut took_any) = (Vec::new(), Vec::new(), false);
        for reference in references(&hub.spec) {
            match self.reference(class, reference, deadline).await {
                Ok((outdated, took)) => {
                    all_outdated.extend(outdated);
                    took_any |= took;
                }
                Err(ReferenceFailure::Definition(DefinitionError::NotListed)) => return Err(Unlisted::Definitions),
                Err(failure) => failures.push(failure),
            }
        }
        let overloads: Option<Vec<ApiOverload>> = failures.iter().map(ReferenceFailure::overload).collect();
        let malformed = failures.iter().filter(|failure| failure.is_malformed()).map(ToString::to_string);
        let malformed: Vec<String> = malformed.collect();
        let missing: Vec<String> =
            failures.iter().filter(|failure| failure.is_missing()).map(ToString::to_string).collect();
        let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
        let overload = overloads.unwrap_or_default().into_iter().reduce(ApiOverload::and);
        let overload = overload.map(|overload| overload.because(failures.join("; ")));
        let references = match (failures.is_empty(), malformed.is_empty()) {
            (true, _) => References::Checked(all_outdated),
            (false, true) => References::Failed { has_others: missing.len() < failures.len(), missing },
            (false, false) => References::Malformed(malformed),
        };
        Ok(ResolvedReferences { references, failures, overload, took_any })
    }

    async fn reference(
        &self,
        class: &RawClass,
        reference: &TemplateRef,
        deadline: Instant,
    ) -> Result<(Option<OutdatedReference>, bool), ReferenceFailure> {
        let (group, version) = group_version(reference)?;
        let key = ObjectKey::new(class.key().namespace, &reference.name);
        let kind = ObjectKind { group: group.into(), version: version.into(), kind: reference.kind.clone() };
        let served = kind.resource().and_then(|resource| resource.one::<ObjectMetadata>(self.writer.clone(), &key));
        let template = served.map_err(|error| {
            let (kind, name) = (shortened(&reference.kind).into_owned(), shortened(&reference.name).into_owned());
            ReferenceFailure::Malformed { kind, name, error }
        })?;
        // Without a definition the kind is not served, which would look like a missing template (CT-4.6).
        let definition = contract::definition_name(group, &reference.kind);
        let labels = self.definitions.labels(&definition, deadline).await?;
        let took = self.own(class, &kind, &key, &template, deadline).await?;
        Ok((OutdatedReference::find(reference, &labels)?, took))
    }

    /// Makes the class an owner of a template (CCR-04); returns whether that is new.
    async fn own(
        &self,
        class: &RawClass,
        kind: &ObjectKind,
        key: &ObjectKey,
        one: &ObjectApi<ObjectMetadata>,
        deadline: Instant,
    ) -> Result<bool, ReferenceFailure> {
        let named = || (kind.kind.clone(), key.name.clone());
        let unreadable = |error| {
            let (kind, name) = named();
            ReferenceFailure::Unreadable { kind, name, error }
        };
        let mut found = self.templates.get(kind, key, deadline).await.map_err(unreadable)?;
        for _ in 0..CONFLICTS {
            let Some(template) = found else {
                let ((kind_name, name), version) = (named(), kind.version.clone());
                return Err(ReferenceFailure::Missing { kind: kind_name, name, version });
            };
            let Some(patch) = ownership(&template, &owner(class)) else { return Ok(false) };
            self.leadership.may_write()?;
            match one.patch(&in_our_name(), &Patch::Merge(patch)).await {
                Ok(_) => {
                    info!(class = %class.key(), kind = kind.kind, template = key.name,
                        "Added a ClusterClass as owner of a template");
                    return Ok(true);
                }
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    found = self.templates.look_up(kind, key).await.map_err(unreadable)?;
                }
                Err(error) => {
                    let (kind, name) = named();
                    return Err(ReferenceFailure::Unwritten { kind, name, error });
                }
            }
        }
        let (kind, name) = named();
        Err(ReferenceFailure::Contended { kind, name })
    }

    /// Calls every extension that defines variables, in the order of the patches, even after one has failed (CCR-07,
    /// RH-16.3).
    ///
    /// # Errors
    /// While the extensions are not listed yet.
    async fn variables(&self, class: &RawClass, hub: &ClusterClass) -> Result<ClassVariables, Unlisted> {
        let Some(extensions) = &self.extensions else { return Ok(ClassVariables::from_class(&class.value, &[])) };
        let mut discovered = Vec::new();
        for (patch, external) in hub.spec.discovering_patches() {
            let (name, settings) = (&external.discover_variables_extension, external.settings.to_map());
            let answer = extensions.variables(&class.key(), name, &settings, Instant::now() + DISCOVERY).await;
            let variables = match answer {
                Ok(variables) => checked(name, variables).await,
                Err(ExtensionError::Unlisted(unlisted)) => return Err(unlisted),
                Err(failed) => Err(VariableDiscoveryError::NoAnswer(failed.to_string())),
            };
            discovered.push(Discovered { patch: patch.name.clone(), variables });
        }
        let variables = ClassVariables::from_class(&class.value, &discovered);
        Ok(match (variables.list(), discovered.is_empty()) {
            (Some(list), false) => with_variables(class, list).await.map_or(variables, ClassVariables::Unreadable),
            _ => variables,
        })
    }

    /// The Clusters that are valid with the variables of the status, and invalid with those that extensions define now.
    async fn broken(&self, hub: &ClusterClass, variables: &ClassVariables) -> Vec<(ObjectKey, String)> {
        let ClassVariables::Settled(list) = variables else { return Vec::new() };
        if hub.spec.discovering_patches().next().is_none() || hub.status.variables.is_empty() {
            return Vec::new();
        }
        let text = json!({"status": {"variables": list}}).to_string();
        let Ok(after) = ClusterClass::decode(WireVersion::V1Beta2, &text) else { return Vec::new() };
        let (facts, key) = (self.cache.facts(), hub.metadata.key());
        let clusters = facts.user_keys(&key).filter_map(|key| match facts.cluster(key) {
            Found::Yes(cluster) => Some(cluster),
            _ => None,
        });
        let (before, clusters) = (hub.status.variables.to_vec(), clusters.collect::<Vec<_>>());
        let until = std::time::Instant::now() + JUDGING;
        let judge = move || {
            let stop = Stop::when(move || std::time::Instant::now() >= until);
            clusters_that_break(&before, &after.status.variables, &clusters, &World::closed(Arc::default()).until(stop))
        };
        // Schemas are compiled, and a class can have thousands of Clusters.
        tokio::task::spawn_blocking(judge).await.unwrap_or_default()
    }

    /// Writes an event about the Clusters that break, before they fail one by one.
    async fn warn_of(&self, class: &RawClass, broken: &[(ObjectKey, String)]) {
        let Some((_, fault)) = broken.first() else { return };
        self.metrics.broken_by_discovery.inc_by(u64::try_from(broken.len()).unwrap_or(u64::MAX));
        let names: Vec<String> = broken.iter().map(|(key, _)| key.to_string()).collect();
        let clusters = counted(names.len(), "Cluster");
        let message = format!(
            "the variables that extensions define now do not fit {clusters}: {}; the first of them: {fault}",
            a_few(&names, NAMED_CLUSTERS)
        );
        warn!(class = %class.key(), clusters, fault, "Variables that extensions define do not fit Clusters any more");
        let (object, uid) = reference(class);
        self.events.write(vec![QueuedEvent::now(&object, &uid, BREAKS, message)]).await;
    }

    /// Reports a persistent failure, if there is one.
    pub(super) async fn report(&self, class: &RawClass, message: Option<String>) {
        let (object, uid) = reference(class);
        runs::report(&self.events, &object, &uid, message).await;
    }

    async fn write_status(&self, class: &RawClass, status: &Value) -> Result<(), ReconcileError> {
        let (key, metadata) = (class.key(), class.metadata());
        self.leadership.may_write()?;
        self.backoff.before_write(&key, class.value.get("status"))?;
        // A merge patch would leave out every null of a schema, and a test of the version would not be answered as a
        // conflict.
        let patch = json_patch::Patch(vec![
            add(["metadata", "resourceVersion"], json!(class.version())),
            add(["status"], status.clone()),
        ]);
        let one = address::one::<RawClass>(self.writer.clone(), &key);
        let one = one.map_err(|malformed| ReconcileError::Status(malformed.into()))?;
        match one.patch_status(&in_our_name(), &Patch::Json::<()>(patch)).await {
            Ok(written) => {
                self.backoff.wrote(&key, written.value.get("status"));
                // A write that changes nothing leaves the version as it is, and no event follows.
                if written.version() != class.version() {
                    self.backoff.replaced(&key, class.version());
                }
                info!(class = %key, generation = metadata.generation, "Updated the status of a ClusterClass");
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => Err(ReconcileError::Conflict),
            Err(error) => Err(ReconcileError::Status(error)),
        }
    }
}

/// The variables of an extension, if they are valid (RH-16.4).
async fn checked(extension: &str, variables: Arc<[Value]>) -> Result<Arc<[Value]>, VariableDiscoveryError> {
    let extension = extension.to_owned();
    // Schemas and rules are compiled, which is too long for an async thread.
    let check = move || usable_variables(&extension, variables).map_err(VariableDiscoveryError::InvalidVariables);
    tokio::task::spawn_blocking(check)
        .await
        .unwrap_or_else(|error| Err(VariableDiscoveryError::NoAnswer(error.to_string())))
}

/// Why reviews cannot use a class with these variables; `None` if they can.
async fn with_variables(class: &RawClass, variables: &[Value]) -> Option<String> {
    let mut value = class.value.clone();
    let status = value.as_object_mut()?.entry("status").or_insert_with(|| json!({}));
    status.as_object_mut()?.insert("variables".to_owned(), Value::Array(variables.to_vec()));
    match ClusterClass::decode(WireVersion::V1Beta2, &value.to_string()) {
        Ok(class) => excess(&Arc::new(class)).await,
        Err(reason) => Some(reason),
    }
}

/// Why reviews cannot use a class although it decodes: it exceeds the limits of a class (DEC-44).
async fn excess(class: &Arc<ClusterClass>) -> Option<String> {
    let class = ClusterClass::clone(class);
    // Compiling can take a second, which is too long for an async thread.
    let compiled = tokio::task::spawn_blocking(move || Facts::default().compile(class)).await.ok()?;
    match compiled {
        Record::Unreadable { reason, .. } => Some(reason.to_string()),
        Record::Readable(_) => None,
    }
}

/// The reference to a class and its uid, for events.
fn reference(class: &RawClass) -> (ObjectRef, String) {
    let object = ObjectRef::new(format!("{GROUP}/{}", WireVersion::V1Beta2), Kind::ClusterClass.name(), class.key());
    (object, class.metadata().uid.clone().unwrap_or_default())
}

fn owner(class: &RawClass) -> OwnerReference {
    let metadata = class.metadata();
    OwnerReference {
        api_version: format!("{GROUP}/{}", WireVersion::V1Beta2),
        kind: Kind::ClusterClass.name().to_owned(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        controller: None,
        block_owner_deletion: None,
    }
}

/// The merge patch that adds an owner and keeps all others, unless it is an owner already (CCR-04).
///
/// An entry for the same owner in another API version, or for a former class of that name, is replaced (CT-15.2).
fn ownership(template: &ObjectMetadata, owner: &OwnerReference) -> Option<Value> {
    let metadata = &template.metadata;
    let mut owners = metadata.owner_references.clone().unwrap_or_default();
    let group = |reference: &OwnerReference| reference.api_version.split_once('/').map(|(group, _)| group.to_owned());
    let is_same =
        |other: &OwnerReference| (&other.kind, &other.name, group(other)) == (&owner.kind, &owner.name, group(owner));
    let is_exact =
        |other: &OwnerReference| is_same(other) && (&other.api_version, &other.uid) == (&owner.api_version, &owner.uid);
    if owners.iter().any(is_exact) {
        return None;
    }
    let at = owners.iter().position(is_same).unwrap_or(owners.len());
    owners.retain(|other| !is_same(other));
    owners.insert(at.min(owners.len()), owner.clone());
    Some(json!({"metadata": {"resourceVersion": metadata.resource_version, "ownerReferences": owners}}))
}
