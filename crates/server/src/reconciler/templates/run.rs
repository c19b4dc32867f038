//! One run for a MachineDeployment or MachineSet of a topology.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use json_patch::jsonptr::PointerBuf;
use json_patch::{PatchOperation, RemoveOperation, TestOperation};
use kube::api::{ApiResource, Patch};
use serde_json::json;
use tokio::time::{Instant, sleep};
use tracing::info;

use super::key_of;
use crate::kubernetes::cache::Cache;
use crate::kubernetes::contract::{DefinitionError, Definitions};
use crate::kubernetes::events::Recorder;
use crate::kubernetes::lease::{Leadership, NotLeading};
use crate::kubernetes::metadata::ObjectMetadata;
use crate::kubernetes::metadata::cluster_of;
use crate::kubernetes::untyped::{self, ApiRequestError};
use crate::reconciler::backoff::Backoff;
use crate::reconciler::runs::RunOutcome;
use engine::topology::templates_in_use::{MachineOwner, deployment_of, unused};
use model::hub::{self, ContractRef, Object, ObjectKey, ObjectRef, WrongType, annotation, contract, label};
use model::world::{Found, Selection};

/// The version in which Cluster API's own kinds are read.
const API_VERSION: &str = "cluster.x-k8s.io/v1beta2";
/// Maximum time for which a run waits for new watches.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of attempts to remove a finalizer, and the delay between them (DEL-10).
const ATTEMPTS: usize = 3;
const PAUSE: Duration = Duration::from_millis(50);

/// Why a run was incomplete.
#[derive(Debug, thiserror::Error)]
pub(super) enum TemplateRunError {
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    #[error("the object has no label {}", label::CLUSTER_NAME)]
    NoCluster,
    #[error("Cluster {0} does not exist")]
    NoSuchCluster(ObjectKey),
    #[error("Cluster {0} cannot be read: {1}")]
    Cluster(ObjectKey, String),
    #[error("the object has no owner of kind MachineDeployment and no label {}", label::MACHINE_DEPLOYMENT_NAME)]
    NoDeployment,
    #[error(transparent)]
    WrongType(#[from] WrongType),
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    #[error("CustomResourceDefinition {0} has no contract label")]
    NoContract(String),
    #[error("{what} cannot be {done}: {error}")]
    Request { what: String, done: &'static str, error: ApiRequestError },
    #[error("the object has changed since it was read")]
    Conflict,
    #[error("timed out after a minute")]
    Late,
}

/// The dependencies of all runs.
pub(super) struct TemplateReconciler {
    pub maker: MachineOwner,
    /// How the API server names the kind.
    pub resource: ApiResource,
    pub client: kube::Client,
    /// Writes only while this process leads.
    pub writer: kube::Client,
    pub leadership: Leadership,
    pub cache: Arc<Cache>,
    pub definitions: Definitions,
    pub events: Recorder,
    pub backoff: Backoff,
}

/// The state of the Cluster of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClusterStanding {
    GoesOn,
    Paused,
    Gone,
}

impl TemplateReconciler {
    /// Adds the finalizer to an object of a topology (MA-29.1). Removes it once the templates of an object that is
    /// being deleted are cleaned up (DEL-05).
    pub(super) async fn run(&self, object: &ObjectMetadata) -> Result<RunOutcome, TemplateRunError> {
        self.leadership.may_write()?;
        let metadata = &object.metadata;
        let has = |names: &Option<BTreeMap<String, String>>, name: &str| {
            names.as_ref().is_some_and(|names| names.contains_key(name))
        };
        let is_ours = has(&metadata.labels, label::OWNED) && self.is_in_scope(object);
        if !is_ours || has(&metadata.annotations, annotation::PAUSED) {
            return Ok(RunOutcome::LeftAlone);
        }
        let is_leaving = metadata.deletion_timestamp.is_some();
        let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
        let has_finalizer = finalizers.iter().any(|name| name == self.maker.finalizer());
        let standing = self.standing(object, is_leaving).await?;
        if !is_leaving && !has_finalizer {
            return self.add_finalizer(object).await;
        }
        match standing {
            _ if !is_leaving || !has_finalizer => Ok(RunOutcome::Unchanged),
            ClusterStanding::Paused => Ok(RunOutcome::LeftAlone),
            ClusterStanding::GoesOn | ClusterStanding::Gone => self.clean_up(&key_of(object)).await,
        }
    }

    /// Whether the object is in the scope of this installation (DEC-37, RS-04).
    fn is_in_scope(&self, object: &ObjectMetadata) -> bool {
        let facts = self.cache.facts();
        let (scope, key) = (facts.scope(), key_of(object));
        let labels = object.metadata.labels.clone().unwrap_or_default().into();
        scope.has(&hub::Metadata { namespace: key.namespace, labels, ..hub::Metadata::default() })
    }

    /// The state of the Cluster of an object. A missing Cluster is an error for an existing object. An object that is
    /// being deleted must not be blocked, so for it a Cluster is missing only if the API server says so (DEL-05,
    /// DEC-11).
    async fn standing(&self, object: &ObjectMetadata, is_leaving: bool) -> Result<ClusterStanding, TemplateRunError> {
        let key = match cluster_of(object) {
            Some(key) => key,
            None if is_leaving => return Ok(ClusterStanding::Gone),
            None => return Err(TemplateRunError::NoCluster),
        };
        match self.cache.facts().cluster(&key) {
            Found::Yes(cluster) if cluster.spec.paused == Some(true) => Ok(ClusterStanding::Paused),
            Found::Yes(_) => Ok(ClusterStanding::GoesOn),
            Found::Absent if is_leaving => {
                // The watch of Clusters may lag behind that of the object.
                let cluster = ObjectRef::new(API_VERSION, "Cluster", key.clone());
                match self.get(&cluster).await? {
                    None => Ok(ClusterStanding::Gone),
                    Some(cluster) if cluster.is_paused() => Ok(ClusterStanding::Paused),
                    Some(_) => Ok(ClusterStanding::GoesOn),
                }
            }
            Found::Absent => Err(TemplateRunError::NoSuchCluster(key)),
            Found::Unreadable(reason) => Err(TemplateRunError::Cluster(key, reason)),
            Found::NotAsked => Err(TemplateRunError::Cluster(key, "Clusters are not listed yet".to_owned())),
        }
    }

    async fn add_finalizer(&self, object: &ObjectMetadata) -> Result<RunOutcome, TemplateRunError> {
        let metadata = &object.metadata;
        let mut finalizers = metadata.finalizers.clone().unwrap_or_default();
        finalizers.push(self.maker.finalizer().to_owned());
        // It applies to this version of the object only, so that the finalizers of others stay.
        let patch = json!({"metadata": {"resourceVersion": metadata.resource_version, "finalizers": finalizers}});
        let reference = self.reference(&key_of(object));
        match untyped::update(&self.writer, &reference, &Patch::Merge(patch)).await {
            Ok(_) => {
                info!(finalizer = self.maker.finalizer(), "Added a finalizer");
                Ok(RunOutcome::Changed)
            }
            Err(error) if error.is_not_found() => Ok(RunOutcome::Unchanged),
            Err(error) if error.is_conflict() => Err(TemplateRunError::Conflict),
            Err(error) => Err(failed(&reference, "changed", error)),
        }
    }

    /// Deletes the templates and the health check of an object that is being deleted, and then its finalizer (DEL-06,
    /// DEL-07, MA-29.3). Any error keeps the finalizer.
    async fn clean_up(&self, key: &ObjectKey) -> Result<RunOutcome, TemplateRunError> {
        let Some(leaving) = self.get(&self.reference(key)).await? else { return Ok(RunOutcome::Unchanged) };
        if !leaving.is_being_deleted() {
            // Another one of the same name.
            return Err(TemplateRunError::Conflict);
        }
        let unused = match self.maker {
            MachineOwner::Deployment => unused(&leaving, &self.sets(key).await?, None)?,
            MachineOwner::Set => {
                let owner =
                    ObjectKey::new(&key.namespace, deployment_of(&leaving).ok_or(TemplateRunError::NoDeployment)?);
                let sets = self.sets(&owner).await?;
                let deployment = ObjectRef::new(API_VERSION, MachineOwner::Deployment.kind(), owner);
                unused(&leaving, &sets, self.get(&deployment).await?.as_ref())?
            }
        };
        for template in unused {
            self.delete_template(&template, &key.namespace).await?;
        }
        if self.maker == MachineOwner::Deployment {
            // DEL-04: the health check has the name of its deployment.
            let check = ObjectRef::new(API_VERSION, "MachineHealthCheck", key.clone());
            self.delete(&check, "Deleted the MachineHealthCheck of a MachineDeployment").await?;
        }
        self.remove_finalizer(leaving).await?;
        Ok(RunOutcome::Changed)
    }

    /// The current MachineSets of a MachineDeployment.
    async fn sets(&self, deployment: &ObjectKey) -> Result<Vec<Object>, TemplateRunError> {
        let selection = Selection {
            api_version: API_VERSION.to_owned(),
            kind: MachineOwner::Set.kind().to_owned(),
            namespace: deployment.namespace.clone(),
            labels: BTreeMap::from([(label::MACHINE_DEPLOYMENT_NAME.to_owned(), deployment.name.clone())]),
        };
        let listed = untyped::list(&self.client, &selection).await;
        listed.map_err(|error| TemplateRunError::Request {
            what: format!("the MachineSets of {deployment}"),
            done: "listed",
            error,
        })
    }

    /// Deletes a template in the version that its definition names as the newest (DEL-09, CS-08).
    async fn delete_template(&self, template: &ContractRef, namespace: &str) -> Result<(), TemplateRunError> {
        let ContractRef { api_group, kind, name } = template;
        let definition = contract::definition_name(api_group, kind);
        let labels = self.definitions.labels(&definition, Instant::now() + PATIENCE).await?;
        let version = contract::newest_version(&labels).ok_or(TemplateRunError::NoContract(definition))?;
        let template = ObjectRef::new(format!("{api_group}/{version}"), kind, ObjectKey::new(namespace, name));
        self.delete(&template, "Deleted an unused template").await
    }

    async fn delete(&self, object: &ObjectRef, log_message: &'static str) -> Result<(), TemplateRunError> {
        match untyped::delete(&self.writer, object, None).await {
            Ok(true) => info!(kind = object.kind, name = object.key.name, "{log_message}"),
            Ok(false) => {}
            Err(error) => return Err(failed(object, "deleted", error)),
        }
        Ok(())
    }

    /// Removes this one finalizer, and leaves concurrent changes of other finalizers (DEL-10).
    async fn remove_finalizer(&self, leaving: Object) -> Result<(), TemplateRunError> {
        let reference = self.reference(&leaving.key());
        let uid = leaving.uid().to_owned();
        let mut found = Some(leaving);
        for attempt in 1.. {
            let Some(patch) = found.as_ref().and_then(|object| removal(object, self.maker.finalizer(), &uid)) else {
                return Ok(());
            };
            match untyped::update(&self.writer, &reference, &Patch::Json(patch)).await {
                Ok(_) => {
                    info!(finalizer = self.maker.finalizer(), "Removed a finalizer");
                    return Ok(());
                }
                Err(error) if error.is_not_found() => return Ok(()),
                // Its finalizers are not those that they were.
                Err(error) if attempt < ATTEMPTS && (error.is_invalid() || error.is_conflict()) => {
                    sleep(PAUSE).await;
                    found = self.get(&reference).await?;
                }
                Err(error) => return Err(failed(&reference, "let go", error)),
            }
        }
        Ok(())
    }

    async fn get(&self, reference: &ObjectRef) -> Result<Option<Object>, TemplateRunError> {
        untyped::get(&self.client, reference).await.map_err(|error| failed(reference, "read", error))
    }

    pub(super) fn reference(&self, key: &ObjectKey) -> ObjectRef {
        ObjectRef::new(API_VERSION, self.maker.kind(), key.clone())
    }
}

fn failed(object: &ObjectRef, done: &'static str, error: ApiRequestError) -> TemplateRunError {
    TemplateRunError::Request { what: format!("{} {}", object.kind, object.key), done, error }
}

/// The patch that removes one finalizer of an object, if it has the finalizer and this uid.
fn removal(object: &Object, finalizer: &str, uid: &str) -> Option<json_patch::Patch> {
    let finalizers = object.finalizers();
    let at = finalizers.iter().position(|name| name == finalizer).filter(|_| object.uid() == uid)?;
    let path = PointerBuf::from_tokens(["metadata", "finalizers", &at.to_string()]);
    let is = |path: PointerBuf, value: &str| PatchOperation::Test(TestOperation { path, value: value.into() });
    Some(json_patch::Patch(vec![
        is(PointerBuf::from_tokens(["metadata", "uid"]), uid),
        is(path.clone(), finalizer),
        PatchOperation::Remove(RemoveOperation { path }),
    ]))
}
