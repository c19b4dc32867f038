//! The stories of kubectl and the embedded API, told to a real API server: where the two differ, the embedded one is
//! wrong.

use std::sync::OnceLock;

use crate::harness::kubectl::Kubectl;
use crate::harness::kubectl_stories;
use crate::harness::kubernetes::Kubernetes;

/// A namespace of one's own on the shared server, which knows gadgets.
fn gadget_namespace() -> Kubectl {
    static DEFINED: OnceLock<()> = OnceLock::new();
    let kubernetes = Kubernetes::shared();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let namespace = runtime.block_on(kubernetes.namespace("kubectl"));
    DEFINED.get_or_init(|| runtime.block_on(kubernetes.apply_yaml(&kubectl_stories::gadgets().to_string())));
    Kubectl::within(kubernetes.kubeconfig().to_owned(), namespace)
}

kubectl_stories::stories!(gadget_namespace);
