//! The labels of CustomResourceDefinitions, which say what contract a version follows (CT-2.2, CS-08). Nothing else of them is
//! read or kept (PERF-07).

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use kube::api::ApiResource;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::time::{Instant, timeout_at};

use super::Selection;
use super::address::Resource;
use super::follow::{Change, WatchedKind};
use super::metadata::{self, Metadata};
use crate::telemetry::metrics::Metrics;

/// Why the definition of a kind cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// No error about the object that was asked for, which may exist for all we know (CT-4.6).
    #[error("CustomResourceDefinition {0} does not exist")]
    Missing(String),
    #[error("CustomResourceDefinitions are not listed yet")]
    NotListed,
}

/// The definitions of a cluster, found by the name that the provider contract prescribes.
#[derive(Clone, Debug)]
pub struct Definitions {
    store: Store<Metadata>,
    resource: ApiResource,
}

impl Definitions {
    /// The definitions, and what keeps them current; `changed` learns the name of a definition, or nothing when any
    /// may be different.
    pub fn follow(
        client: kube::Client,
        metrics: Arc<Metrics>,
        changed: impl Fn(Option<&str>) + Send,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let served = Resource::known("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let resource = served.as_api().clone();
        let changed = move |change: Change<'_, Metadata>| match change {
            Change::One(definition) => changed(Some(definition.metadata.name.as_deref().unwrap_or_default())),
            Change::All => changed(None),
        };
        let api = served.anywhere(client);
        let (objects, follow) = metadata::follow(
            api,
            resource.clone(),
            Selection::default(),
            WatchedKind::own("CustomResourceDefinition", "v1"),
            metrics,
            changed,
        );
        (Definitions { store: objects.store().clone(), resource }, follow)
    }

    /// The labels of a definition; waits for the first list until `deadline` at the latest.
    ///
    /// # Errors
    /// When there is no such definition, or none is known yet.
    pub async fn labels(&self, name: &str, deadline: Instant) -> Result<BTreeMap<String, String>, DefinitionError> {
        match timeout_at(deadline, self.store.wait_until_ready()).await {
            Ok(Ok(())) => {}
            _ => return Err(DefinitionError::NotListed),
        }
        let found = self.store.get(&ObjectRef::new_with(name, self.resource.clone()));
        let found = found.ok_or_else(|| DefinitionError::Missing(name.to_owned()))?;
        Ok(found.metadata.labels.clone().unwrap_or_default())
    }
}
