//! Constants of the protocol of Runtime Extensions, in the
//! [Runtime SDK](https://cluster-api.sigs.k8s.io/tasks/experimental-features/runtime-sdk/) of Cluster API.

/// The group of all hooks.
pub const GROUP: &str = "hooks.runtime.cluster.x-k8s.io";
/// The only version of the hooks (RH-4.4).
pub const VERSION: &str = "v1alpha1";
/// Maximum size of a request or response in bytes (RH-4.10, DEC-46).
pub const MAX_BODY: usize = 20 * 1024 * 1024;

/// Treatment of failed calls (RH-7.3, RH-7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// A failed call counts as a response without an effect.
    Ignore,
    /// A failed call is an error.
    Fail,
}

impl FailurePolicy {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            FailurePolicy::Ignore => "Ignore",
            FailurePolicy::Fail => "Fail",
        }
    }
}
