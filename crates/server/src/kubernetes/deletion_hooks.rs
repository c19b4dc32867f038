//! The hooks `BeforeClusterDelete` that may block the deletion of Clusters (DEC-56).

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;

use super::extension_configs::ExtensionConfigs;
use super::namespaces::NamespaceLabels;
use engine::extensions::Selector;

/// The ExtensionConfigs that may have handlers of `BeforeClusterDelete`, and the namespaces that they select.
pub struct DeletionHooks {
    namespaces: NamespaceLabels,
    configs: Arc<ExtensionConfigs>,
}

impl fmt::Debug for DeletionHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeletionHooks").field("configs", &self.configs).finish_non_exhaustive()
    }
}

impl DeletionHooks {
    /// The hooks of these ExtensionConfigs, which the caller keeps current.
    pub fn new(client: kube::Client, configs: Arc<ExtensionConfigs>) -> Self {
        DeletionHooks { namespaces: NamespaceLabels::new(client), configs }
    }

    /// Whether a hook may block the deletion of Clusters in a namespace. If that is unknown, a hook is assumed: the
    /// leader knows, and removes a hold without a hook.
    pub(crate) async fn may_block(&self, namespace: &str, deadline: Instant) -> bool {
        let selectors = self.configs.deletion_hooks().unwrap_or_else(|| vec![Selector::Everything]);
        for selector in selectors {
            if self.namespaces.are_selected(&selector, namespace, deadline).await.unwrap_or(true) {
                return true;
            }
        }
        false
    }
}
