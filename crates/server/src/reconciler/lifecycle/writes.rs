//! Executes the writes of a step; the responses of the API server are stored at once.

mod uncertain;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use json_patch::jsonptr::PointerBuf;
use json_patch::{PatchOperation, ReplaceOperation, TestOperation};
use kube::api::Patch;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use self::uncertain::{CreationResult, UncertainCreation, UncertainCreations};
use super::external_clusters::{ExternalClusters, NotConnected};
use super::store::LifecycleStore;
use super::watches::WorkloadWatches;
use super::workloads::{WorkloadClusters, WorkloadOpenError};
use crate::kubernetes::lease::NotLeading;
use crate::kubernetes::moment;
use crate::kubernetes::untyped::{self, ApiRequestError};
use crate::telemetry::metrics::Metrics;
use machines::lifecycle::{GroupKind, MachineCache, ObjectId, ObjectWrite, RefusedEviction, StepWrite};
use model::hub::{Object, ObjectKey, ObjectRef, label, paths};
use schema::field::shortened;

/// The type of Secrets of Cluster API (CT-10.10).
const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";

/// Maximum time of one pass of a drain; the next pass evicts the remaining Pods (MA-10.6).
const EVICTING: Duration = Duration::from_secs(10);
/// Time after the first failed attempt of a step, after which no other one begins: a webhook that does not respond takes
/// ten seconds of each.
const FAILING: Duration = Duration::from_secs(10);

/// Why the writes of a step did not all succeed.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error("this process is not the leader")]
    NotLeading,
    /// The stored state of an object is outdated.
    #[error("{reason}")]
    Conflict { id: Box<ObjectId>, reason: String },
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    NotConnected(#[from] NotConnected),
    #[error(transparent)]
    NotOpened(#[from] WorkloadOpenError),
    /// The API server did not answer, or is overloaded.
    #[error("{0}")]
    Unanswered(String),
    /// The API server did not say whether an object was created.
    #[error("{0}")]
    Uncertain(String),
}

impl WriteError {
    fn for_object(id: &ObjectId, error: ApiRequestError) -> Self {
        let reason = format!("{id}: {error}");
        match error {
            error if is_not_leading(&error) => WriteError::NotLeading,
            error if error.is_conflict() => WriteError::Conflict { id: Box::new(id.clone()), reason },
            error if error.is_answer() && error.overload().is_none() => WriteError::Failed(reason),
            _ => WriteError::Unanswered(reason),
        }
    }
}

fn is_not_leading(error: &ApiRequestError) -> bool {
    matches!(error, ApiRequestError::Api(kube::Error::Service(cause)) if cause.is::<NotLeading>())
}

/// The time of the evictions of a step.
#[derive(Default)]
struct EvictionTime {
    begun: Option<Instant>,
}

impl EvictionTime {
    /// Whether another eviction may begin; the first one starts the time.
    fn remain(&mut self) -> bool {
        self.begun.get_or_insert_with(Instant::now).elapsed() < EVICTING
    }
}

/// Failures that do not end a step.
#[derive(Default)]
struct AttemptFailures {
    /// The first one, and its time.
    first: Option<(WriteError, Instant)>,
    /// API servers that do not answer, which would each take the time of a timeout again.
    unreachable: HashSet<Option<ObjectKey>>,
}

impl AttemptFailures {
    /// Whether another attempt may begin.
    fn allow(&self, write: &ObjectWrite) -> bool {
        let is_unreachable = self.unreachable.iter().any(|one| one.as_ref() == write.workload());
        !is_unreachable && self.first.as_ref().is_none_or(|(_, at)| at.elapsed() < FAILING)
    }

    /// Notes a failure; returns one that ends the step.
    fn note(&mut self, workload: Option<ObjectKey>, error: WriteError) -> Result<(), WriteError> {
        match error {
            WriteError::NotLeading | WriteError::Conflict { .. } => return Err(error),
            WriteError::NotConnected(_) | WriteError::NotOpened(_) | WriteError::Unanswered(_) => {
                self.unreachable.insert(workload);
            }
            WriteError::Failed(_) | WriteError::Uncertain(_) => {}
        }
        self.first.get_or_insert_with(|| (error, Instant::now()));
        Ok(())
    }
}

/// A merge patch of a part of an object.
enum PatchPart {
    /// Everything but the status.
    Main(Map<String, Value>),
    Status(Map<String, Value>),
}

/// Executes the writes of steps.
pub(super) struct Writer {
    client: kube::Client,
    store: Arc<LifecycleStore>,
    workloads: Arc<dyn WorkloadClusters>,
    watches: WorkloadWatches,
    followed: ExternalClusters,
    uncertain: UncertainCreations,
}

impl Writer {
    pub(super) fn new(
        client: kube::Client,
        store: Arc<LifecycleStore>,
        workloads: Arc<dyn WorkloadClusters>,
        followed: ExternalClusters,
        metrics: Arc<Metrics>,
    ) -> Self {
        let watches = WorkloadWatches::new(store.clone(), metrics);
        Writer { client, store, workloads, watches, followed, uncertain: UncertainCreations::default() }
    }

    /// Executes the writes of a step in this order; returns the first failure.
    pub(super) async fn write(&self, writes: Vec<StepWrite>) -> Result<(), WriteError> {
        let (mut evictions, mut failures) = (EvictionTime::default(), AttemptFailures::default());
        for part in writes {
            match part {
                StepWrite::Required(write) if failures.first.is_some() => self.one(write.without_observation()).await?,
                StepWrite::Required(write) => self.one(write).await?,
                StepWrite::Attempted(writes) => self.attempt(writes, &mut evictions, &mut failures).await?,
            }
        }
        failures.first.map_or(Ok(()), |(error, _)| Err(error))
    }

    /// Executes writes until one fails. A failure is noted, unless it ends the step.
    async fn attempt(
        &self,
        writes: Vec<ObjectWrite>,
        evictions: &mut EvictionTime,
        failures: &mut AttemptFailures,
    ) -> Result<(), WriteError> {
        for write in writes {
            if !failures.allow(&write) {
                return Ok(());
            }
            let workload = write.workload().cloned();
            let written = match write {
                ObjectWrite::Evict { workload, pod, grace } if evictions.remain() => {
                    self.evict(&workload, &pod, grace).await
                }
                ObjectWrite::Evict { .. } => return Ok(()),
                other => self.one(other).await,
            };
            if let Err(error) = written {
                return failures.note(workload, error);
            }
        }
        Ok(())
    }

    /// Evicts a Pod. A refusal, for instance because of a disruption budget, does not stop the others; it is stored for
    /// the next pass (MA-10.6), in which a Pod without a response comes last as well.
    async fn evict(&self, workload: &ObjectKey, pod: &Object, grace: Option<u32>) -> Result<(), WriteError> {
        let id = id_of(Some(workload), pod);
        let (refusal, result) = match untyped::evict(&self.client(Some(workload))?, &reference(pod), grace).await {
            Ok(()) => (None, Ok(())),
            // It is gone already, even if the watch is behind.
            Err(error) if error.is_not_found() => (None, self.refresh(&id).await.map(drop)),
            Err(error) => {
                let reason = shortened(&error.to_string()).into_owned();
                let result = if error.is_answer() { Ok(()) } else { Err(WriteError::for_object(&id, error)) };
                (Some(RefusedEviction { reason, at: moment() }), result)
            }
        };
        self.store.note_eviction(workload, &pod.key(), refusal);
        result
    }

    async fn one(&self, write: ObjectWrite) -> Result<(), WriteError> {
        match write {
            ObjectWrite::Create { workload, objects } => self.create_all(workload.as_ref(), objects).await,
            ObjectWrite::CreateIfAbsent { workload, object } => match self.create(workload.as_ref(), &object).await {
                Ok(_) | Err(WriteError::Conflict { .. }) => Ok(()),
                Err(error) => Err(error),
            },
            ObjectWrite::Update { workload, before, after } => self.update(workload.as_ref(), &before, &after).await,
            ObjectWrite::Delete { workload, object } => self.delete(workload.as_ref(), &object).await,
            ObjectWrite::Evict { workload, pod, grace } => self.evict(&workload, &pod, grace).await,
            ObjectWrite::Connect { workload, up: true } => self.connect(&workload).await,
            ObjectWrite::Connect { workload, up: false } => {
                self.disconnect(&workload);
                Ok(())
            }
            ObjectWrite::Follow { workload, on: true } => {
                self.watches.stop(&workload);
                self.workloads.forget(&workload);
                self.followed.start(&workload);
                Ok(())
            }
            ObjectWrite::Follow { workload, on: false } => {
                self.followed.stop(&workload);
                Ok(())
            }
        }
    }

    /// Drops the workload cluster of a deleted Cluster. A hosted one is usually deleted with the infrastructure or the
    /// control plane; a Cluster may have neither.
    pub(super) fn forget_cluster(&self, cluster: &ObjectKey) {
        self.followed.stop(cluster);
        if self.workloads.get(cluster).is_some() {
            self.disconnect(cluster);
        }
    }

    /// Deletes the workload cluster, if it is hosted, and removes its objects.
    fn disconnect(&self, cluster: &ObjectKey) {
        self.watches.stop(cluster);
        self.workloads.forget(cluster);
        self.store.connected(cluster, false);
    }

    fn client(&self, workload: Option<&ObjectKey>) -> Result<kube::Client, WriteError> {
        match workload {
            None => Ok(self.client.clone()),
            Some(cluster) => match self.followed.client(cluster) {
                Some(followed) => Ok(followed?),
                None => match self.workloads.get(cluster) {
                    Some(opened) => Ok(opened.client),
                    None => Err(NotConnected(cluster.clone()).into()),
                },
            },
        }
    }

    /// The client for a new object. The first Node of a Cluster creates its workload cluster; one that was dropped
    /// because the Cluster is being deleted is not created again.
    fn client_for_new(&self, workload: Option<&ObjectKey>) -> Result<kube::Client, WriteError> {
        if let Some(cluster) = workload
            && self.followed.client(cluster).is_none()
            && self.store.with(|objects| is_wanted(objects, cluster))
        {
            return Ok(self.workloads.open(cluster)?.client);
        }
        self.client(workload)
    }

    /// Creates objects, all or none.
    async fn create_all(&self, workload: Option<&ObjectKey>, objects: Vec<Object>) -> Result<(), WriteError> {
        let mut made = Vec::new();
        for object in objects {
            match self.create(workload, &object).await {
                Ok(object) => made.push(object),
                Err(WriteError::Uncertain(reason)) => {
                    // The objects before it stay until it is known whether this object refers to them.
                    self.uncertain.note(UncertainCreation { object, before: made });
                    return Err(WriteError::Failed(reason));
                }
                Err(error) => {
                    for object in made.iter().rev() {
                        self.delete(workload, object).await?;
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    async fn create(&self, workload: Option<&ObjectKey>, object: &Object) -> Result<Object, WriteError> {
        let (client, id) = (self.client_for_new(workload)?, id_of(workload, object));
        let mut made = match workload {
            None => self.post(&client, object).await?,
            // Its objects have the same name in each step, and its API server may have ended for good.
            Some(_) => untyped::create(&client, object).await.map_err(|error| WriteError::for_object(&id, error))?,
        };
        // Most kinds have no status when they are created.
        if let Some(status) = object.at("status").filter(|status| made.at("status") != Some(status)) {
            // In any version: the step of the new object itself may have written it meanwhile.
            let patch = Patch::Merge(json!({"status": status}));
            let written = untyped::update_status(&client, &made.reference(), &patch).await;
            made = match written {
                Ok(written) => written,
                Err(error) if error.is_not_found() => {
                    let reason = format!("{id} was deleted right after its creation");
                    return Err(WriteError::Conflict { id: Box::new(id), reason });
                }
                Err(error) => return Err(WriteError::for_object(&id, error)),
            };
        }
        self.store.wrote(&id, made.clone());
        Ok(made)
    }

    /// Creates an object. If the response does not show whether it was created, reads it: otherwise the next step would
    /// create another one with another name, and delete the objects that the first one refers to.
    async fn post(&self, client: &kube::Client, object: &Object) -> Result<Object, WriteError> {
        let id = id_of(None, object);
        match untyped::create(client, object).await {
            Err(error) if !is_not_leading(&error) && error.may_have_written() => {
                match self.uncertain.look_up(client, object).await {
                    CreationResult::Made(found) => Ok(*found),
                    CreationResult::NotMade => Err(WriteError::for_object(&id, error)),
                    CreationResult::Unknown => Err(WriteError::Uncertain(format!("{id}: {error}"))),
                }
            }
            answered => answered.map_err(|error| WriteError::for_object(&id, error)),
        }
    }

    /// Finds out whether creations without a response, by a step of `owner`, succeeded.
    pub(super) async fn settle(&self, owner: &Object) -> Result<(), WriteError> {
        for UncertainCreation { object, before } in self.uncertain.for_owner(owner.uid()) {
            match uncertain::read(&self.client, &object).await {
                CreationResult::Made(found) => self.store.wrote(&id_of(None, &object), *found),
                CreationResult::NotMade => {
                    for object in before.iter().rev() {
                        self.delete(None, object).await?;
                    }
                }
                CreationResult::Unknown => {
                    let id = id_of(None, &object);
                    return Err(WriteError::Failed(format!("it is not known whether {id} was created")));
                }
            }
            self.uncertain.clear(owner.uid(), &object.reference());
        }
        Ok(())
    }

    /// Changes an object by two merge patches: one of everything but the status, and one of the status. Both name the
    /// version that the step has read. The status is written last, since it reports that the rest is done (CT-8.2,
    /// CT-18.1), unless the rest removes the last finalizer, which deletes the object.
    async fn update(&self, workload: Option<&ObjectKey>, before: &Object, after: &Object) -> Result<(), WriteError> {
        let (client, id) = (self.client(workload)?, id_of(workload, before));
        let reference = reference(before);
        let (main, status) = patches(before, after);
        let parts = [
            main.map(PatchPart::Main),
            status.map(|status| PatchPart::Status(Map::from_iter([("status".to_owned(), status)]))),
        ];
        let mut parts: Vec<PatchPart> = parts.into_iter().flatten().collect();
        if after.is_being_deleted() && !has_finalizers(after) {
            parts.reverse();
        }
        let mut version = before.at(paths::metadata::RESOURCE_VERSION).cloned().unwrap_or_default();
        for part in parts {
            let written = match part {
                PatchPart::Main(main) => untyped::update(&client, &reference, &versioned(main, &version)).await,
                PatchPart::Status(status) => {
                    untyped::update_status(&client, &reference, &versioned(status, &version)).await
                }
            };
            let written = match written {
                Ok(written) => written,
                Err(error) => return Err(self.refused(&id, error).await),
            };
            version = written.at(paths::metadata::RESOURCE_VERSION).cloned().unwrap_or_default();
            self.wrote_or_removed(&id, written);
        }
        Ok(())
    }

    /// Stores a written object, or removes it if the update removed the last finalizer of an object that is being
    /// deleted.
    fn wrote_or_removed(&self, id: &ObjectId, written: Object) {
        if written.is_being_deleted() && !has_finalizers(&written) {
            self.store.removed(id, Some(written.uid()));
        } else {
            self.store.wrote(id, written);
        }
    }

    /// The error of a failed write of a stored object. If the object was not found, it is read again: it may have been
    /// deleted while its watch had a gap, and the next step must see that.
    async fn refused(&self, id: &ObjectId, error: ApiRequestError) -> WriteError {
        if !error.is_not_found() {
            return WriteError::for_object(id, error);
        }
        let reason = format!("{id}: {error}");
        match self.refresh(id).await {
            Ok(true) => WriteError::Conflict { id: Box::new(id.clone()), reason },
            // It is there. What is missing is another object, or the API server does not serve its status.
            Ok(false) => WriteError::Failed(reason),
            Err(error) => error,
        }
    }

    /// Reads a stored object again after a conflict with the API server; returns whether its stored state changed.
    pub(super) async fn refresh(&self, id: &ObjectId) -> Result<bool, WriteError> {
        let Some(known) = self.store.with(|objects| objects.get(id).cloned()) else { return Ok(true) };
        let client = self.client(id.workload.as_ref())?;
        let found = untyped::get(&client, &known.reference()).await;
        let Some(found) = found.map_err(|error| WriteError::Failed(format!("{id}: {error}")))? else {
            self.store.removed(id, Some(known.uid()));
            return Ok(true);
        };
        let version = |object: &Object| object.at(paths::metadata::RESOURCE_VERSION).cloned();
        let differs = version(&found) != version(&known);
        self.store.seen(id, found);
        Ok(differs)
    }

    async fn delete(&self, workload: Option<&ObjectKey>, object: &Object) -> Result<(), WriteError> {
        let (client, id) = (self.client(workload)?, id_of(workload, object));
        match untyped::delete(&client, &reference(object), Some(object.uid())).await {
            Ok(true) => Ok(()),
            // It was gone already, even if the watch is behind.
            Ok(false) => {
                self.store.removed(&id, Some(object.uid()));
                Ok(())
            }
            Err(error) => Err(WriteError::for_object(&id, error)),
        }
    }

    /// Opens a workload cluster, and publishes its kubeconfig (CT-10.10).
    async fn connect(&self, cluster: &ObjectKey) -> Result<(), WriteError> {
        self.followed.stop(cluster);
        let opened = self.workloads.open(cluster)?;
        self.publish(cluster, &opened.kubeconfig).await?;
        if !self.watches.has(cluster) {
            self.watches.start(cluster, &opened.client);
        }
        self.store.connected(cluster, true);
        Ok(())
    }

    /// Writes the Secret `<cluster>-kubeconfig`; the credentials of one from an earlier process are invalid.
    async fn publish(&self, cluster: &ObjectKey, kubeconfig: &str) -> Result<(), WriteError> {
        let Some((object, owner)) = self.store.with(|objects| owned(objects, cluster)) else { return Ok(()) };
        let secret = kubeconfig_secret(&object, &owner, kubeconfig);
        let id = ObjectId::for_object(&secret);
        match untyped::create(&self.client, &secret).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_conflict() => match self.replace(&secret, [&owner, &object]).await {
                Ok(true) => Ok(()),
                Ok(false) => Err(WriteError::Failed(format!("{id} exists and is not of Cluster {cluster}"))),
                Err(error) => Err(WriteError::for_object(&id, error)),
            },
            Err(error) => Err(WriteError::for_object(&id, error)),
        }
    }

    /// Replaces the Secret if one of the objects is its owner; the Cluster owns one that was created without a control
    /// plane.
    async fn replace(&self, secret: &Object, owners: [&Object; 2]) -> Result<bool, ApiRequestError> {
        for owner in owners {
            match untyped::update(&self.client, &secret.reference(), &replacement(owner, secret)).await {
                Ok(_) => return Ok(true),
                Err(error) if error.is_invalid() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

/// Whether the Cluster exists, and so does the object with which its workload cluster is deleted. A Cluster that is
/// being deleted may wait for a hook for a long time before they are.
fn is_wanted(objects: &MachineCache, cluster: &ObjectKey) -> bool {
    let Some(cluster) = objects.get(&ObjectId::core("Cluster", &cluster.namespace, &cluster.name)) else {
        return false;
    };
    let (infrastructure, control_plane) = (cluster.infrastructure_ref(), cluster.control_plane_ref());
    let host = if infrastructure.is_defined() { infrastructure } else { control_plane };
    let host = ObjectId::new(GroupKind::for_reference(&host), ObjectKey::new(cluster.namespace(), &*host.name));
    !cluster.is_being_deleted() || objects.get(&host).is_some_and(|host| !host.is_being_deleted())
}

/// A Cluster, and the owner of its kubeconfig: the control plane, or the Cluster itself without one.
fn owned(objects: &MachineCache, cluster: &ObjectKey) -> Option<(Arc<Object>, Arc<Object>)> {
    let object = objects.get(&ObjectId::core("Cluster", &cluster.namespace, &cluster.name))?;
    let text =
        |name: &str| object.at(&format!("spec.controlPlaneRef.{name}")).and_then(Value::as_str).unwrap_or_default();
    let control_plane = ObjectId::new(
        GroupKind::new(text("apiGroup"), text("kind")),
        ObjectKey::new(&*cluster.namespace, text("name")),
    );
    Some((object.clone(), objects.get(&control_plane).unwrap_or(object).clone()))
}

/// The Secret with the kubeconfig of a workload cluster.
fn kubeconfig_secret(cluster: &Object, owner: &Object, kubeconfig: &str) -> Object {
    let owner = json!({
        "apiVersion": owner.api_version(), "kind": owner.kind(), "name": owner.name(), "uid": owner.uid(),
    });
    Object::try_from(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": format!("{}-kubeconfig", cluster.name()),
            "namespace": cluster.namespace(),
            "labels": {label::CLUSTER_NAME: cluster.name()},
            "ownerReferences": [owner],
        },
        "type": SECRET_TYPE,
        "data": {"value": STANDARD.encode(kubeconfig)},
    }))
    .unwrap_or_default()
}

/// The patch that replaces owner and data of a Secret from an earlier process; it applies only to the same owner.
fn replacement(owner: &Object, secret: &Object) -> Patch<Value> {
    let pointer = |path: &[&str]| PointerBuf::from_tokens(path.iter().copied());
    let test = |path: &[&str], value: Value| PatchOperation::Test(TestOperation { path: pointer(path), value });
    let replace = |path: &[&str]| {
        let value = secret.at(&path.join(".")).cloned().unwrap_or_default();
        PatchOperation::Replace(ReplaceOperation { path: pointer(path), value })
    };
    let operations = vec![
        test(&["type"], json!(SECRET_TYPE)),
        test(&["metadata", "ownerReferences", "0", "uid"], json!(owner.uid())),
        replace(&["metadata", "ownerReferences"]),
        replace(&["data"]),
    ];
    Patch::Json(json_patch::Patch(operations))
}

fn has_finalizers(object: &Object) -> bool {
    !object.finalizers().is_empty()
}

fn id_of(workload: Option<&ObjectKey>, object: &Object) -> ObjectId {
    ObjectId { workload: workload.cloned(), ..ObjectId::for_object(object) }
}

fn reference(object: &Object) -> ObjectRef {
    object.reference()
}

/// The merge patches from one object to another: everything but the status, and the status.
fn patches(before: &Object, after: &Object) -> (Option<Map<String, Value>>, Option<Value>) {
    let (before, after) = (before.members(), after.members());
    let mut main = Map::new();
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    for name in names.filter(|name| *name != "status") {
        if let Some(change) = change(before.get(name), after.get(name)) {
            main.insert(name.clone(), change);
        }
    }
    let status = change(before.get("status"), after.get("status"));
    ((!main.is_empty()).then_some(main), status)
}

/// The merge patch of a changed value; `None` if it is equal.
fn change(before: Option<&Value>, after: Option<&Value>) -> Option<Value> {
    match (before, after) {
        (before, after) if before == after => None,
        (_, None) => Some(Value::Null),
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
            let changes = names.filter_map(|name| Some((name.clone(), change(before.get(name), after.get(name))?)));
            Some(Value::Object(changes.collect()))
        }
        (_, Some(after)) => Some(after.clone()),
    }
}

/// A merge patch that applies to this version only.
fn versioned(mut patch: Map<String, Value>, version: &Value) -> Patch<Value> {
    let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("resourceVersion".to_owned(), version.clone());
    }
    Patch::Merge(Value::Object(patch))
}

#[cfg(test)]
mod tests;
