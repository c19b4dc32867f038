//! The labels of Namespaces, which decide whether an extension is called for their objects (RH-7.2).

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};

use super::address::InvalidSegment;
use super::expiring_cache::ExpiringCache;
use super::{address, describe};
use engine::extensions::Selector;
use golang::json::StringMap;

/// Time for which the labels of a Namespace are cached.
const LABELS: Duration = Duration::from_secs(5);
/// Capacity of the cache.
const ENTRIES: usize = 16_384;

/// Why the labels of a Namespace cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the labels of namespace {namespace:?} cannot be read: {source}")]
pub struct NamespaceError {
    namespace: String,
    source: NamespaceCause,
}

#[derive(Debug, thiserror::Error)]
enum NamespaceCause {
    #[error(transparent)]
    Malformed(#[from] InvalidSegment),
    #[error("timed out")]
    TimedOut(#[from] Elapsed),
    #[error("{}", describe(.0))]
    Api(#[from] kube::Error),
    #[error("it does not exist")]
    Missing,
}

/// Reads labels of Namespaces, and caches them for a short time.
pub(super) struct NamespaceLabels {
    client: kube::Client,
    labels: ExpiringCache<String, StringMap>,
}

impl fmt::Debug for NamespaceLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NamespaceLabels")
    }
}

impl NamespaceLabels {
    pub(super) fn new(client: kube::Client) -> Self {
        NamespaceLabels { client, labels: ExpiringCache::new(LABELS, ENTRIES) }
    }

    /// Whether a selector selects a namespace.
    ///
    /// # Errors
    /// When its labels cannot be read.
    pub(super) async fn are_selected(
        &self,
        selector: &Selector,
        namespace: &str,
        deadline: Instant,
    ) -> Result<bool, NamespaceError> {
        match selector {
            Selector::Nothing => Ok(false),
            Selector::Everything => Ok(true),
            Selector::Labels(_) => {
                let labels = self.labels(namespace, deadline).await;
                let labels = labels.map_err(|source| NamespaceError { namespace: namespace.to_owned(), source })?;
                Ok(selector.matches(&labels))
            }
        }
    }

    async fn labels(&self, namespace: &str, deadline: Instant) -> Result<StringMap, NamespaceCause> {
        if let Some(known) = self.labels.get(&namespace.to_owned()) {
            return Ok(known);
        }
        let one = address::one_of_cluster::<Namespace>(self.client.clone(), namespace)?;
        let found = timeout_at(deadline, one.get_opt()).await??.ok_or(NamespaceCause::Missing)?;
        let labels = StringMap::from(found.metadata.labels.unwrap_or_default());
        self.labels.put(namespace.to_owned(), labels.clone(), 1);
        Ok(labels)
    }
}
