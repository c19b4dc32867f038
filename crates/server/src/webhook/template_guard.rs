//! The guard of templates that classes in use refer to (DEC-110).
//!
//! ```text
//! DELETE ─► exempt? ─► class in use that refers to it? ─► namespace in deletion? ─► wait for the watches ─► denied
//!            allowed            no: allowed                   yes: allowed            no longer in use: allowed
//! ```
//!
//! Classes and Clusters come from the watches. One Namespace is read from the API server, and only if the template is
//! in use. A client that deletes Clusters or a class just before the template is ahead of the watches, so a denial
//! waits for them.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use super::limits::LAST_ROUND;
use super::pending_review::is_in_scope;
use crate::kubernetes::cache::Cache;
use crate::kubernetes::{address, describe};
use engine::impact::classes_with;
use golang::json;
use model::hub::{Metadata, ObjectKey, annotation, label};
use model::wire::review::AdmissionRequest;
use model::world::{Facts, Found};
use schema::field::{a_few, counted};

/// Maximum time that a denial waits for the watches.
const PATIENCE: Duration = Duration::from_millis(500);
/// Maximum number of reviews that wait for the watches; others are answered at once.
const WAITERS: usize = 64;
/// Maximum number of classes that a denial names.
const NAMED: usize = 3;

/// Denies the deletion of templates in use.
pub(super) struct TemplateGuard {
    /// Reads Namespaces, where there is an API server.
    client: Option<kube::Client>,
    waiters: Semaphore,
}

impl fmt::Debug for TemplateGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TemplateGuard")
    }
}

/// A class with Clusters.
#[derive(Debug, PartialEq, Eq)]
struct ClassInUse {
    class: ObjectKey,
    clusters: usize,
}

impl fmt::Display for ClassInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.class, counted(self.clusters, "Cluster"))
    }
}

/// The fields of a template that are read.
#[derive(Deserialize)]
struct ReviewedTemplate {
    metadata: Metadata,
}

impl TemplateGuard {
    pub(super) fn new(client: Option<kube::Client>) -> Self {
        TemplateGuard { client, waiters: Semaphore::new(WAITERS) }
    }

    /// Why a template cannot be deleted.
    pub(super) async fn denial(
        &self,
        review: &AdmissionRequest<'_>,
        cache: &Cache,
        deadline: Instant,
    ) -> Option<String> {
        let object: ReviewedTemplate = json::decode(review.old_object?.get()).ok()?;
        if review.operation != "DELETE" || is_exempt(&object.metadata) || !is_in_scope(review, cache.facts().scope()) {
            return None;
        }
        // The deletion of a collection is reviewed for each object, and the request has no name.
        let (group, kind, key) = (&*review.kind.group, &*review.kind.kind, object.metadata.key());
        let deadline = deadline.checked_sub(LAST_ROUND).unwrap_or(deadline);
        // Before the first look at the facts, so that no change is missed.
        let mut changes = cache.changes();
        let in_use = || classes_in_use(&cache.facts(), group, kind, &key);
        if in_use().is_empty() || self.is_terminating(&key.namespace, deadline).await {
            return None;
        }
        let waiter = self.waiters.try_acquire();
        let until = if waiter.is_ok() { deadline.min(Instant::now() + PATIENCE) } else { Instant::now() };
        let classes = loop {
            let classes = in_use();
            if classes.is_empty() {
                return None;
            }
            if timeout_at(until, changes.changed()).await.is_err() {
                break classes;
            }
        };
        let classes: Vec<String> = classes.iter().map(ToString::to_string).collect();
        let (class, allow) = (a_few(&classes, NAMED), annotation::DELETE_TEMPLATE_IN_USE);
        Some(format!(
            "{kind} {key} cannot be deleted because it is used by ClusterClass {class}; to delete it anyway, set the \
             annotation {allow} on it"
        ))
    }

    /// Whether a namespace is being deleted. The namespace controller deletes its objects in any order.
    async fn is_terminating(&self, namespace: &str, deadline: Instant) -> bool {
        let Some(client) = &self.client else { return false };
        let Ok(one) = address::one_of_cluster::<Namespace>(client.clone(), namespace) else { return false };
        match timeout_at(deadline, one.get_opt()).await {
            Ok(Ok(found)) => found.is_none_or(|found| found.metadata.deletion_timestamp.is_some()),
            Ok(Err(error)) => {
                warn!(namespace, error = describe(&error), "Failed to read a Namespace");
                false
            }
            Err(_) => false,
        }
    }
}

/// Whether a template can be deleted although a class refers to it.
fn is_exempt(metadata: &Metadata) -> bool {
    let exempting = [
        annotation::CLONED_FROM_NAME,
        annotation::CLONED_FROM_KIND,
        annotation::DELETE_FOR_MOVE,
        annotation::DELETE_TEMPLATE_IN_USE,
    ];
    metadata.is_being_deleted()
        || metadata.labels.get(label::OWNED).is_some()
        || exempting.iter().any(|name| metadata.annotations.get(name).is_some())
}

/// The classes that refer to a template and have Clusters; neither the class nor all of its Clusters are being deleted.
fn classes_in_use(facts: &Facts, group: &str, kind: &str, template: &ObjectKey) -> Vec<ClassInUse> {
    let is_leaving = |key: &ObjectKey| matches!(facts.cluster(key), Found::Yes(one) if one.metadata.is_being_deleted());
    let in_use = |class: ObjectKey| {
        let Found::Yes(found) = facts.class(&class) else { return None };
        let clusters = facts.user_keys(&class).filter(|key| !is_leaving(key)).count();
        (!found.metadata.is_being_deleted() && clusters > 0).then_some(ClassInUse { class, clusters })
    };
    classes_with(facts, group, kind, template).into_iter().filter_map(in_use).collect()
}

#[cfg(test)]
mod tests;
