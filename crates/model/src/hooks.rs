//! What both sides of a call of a Runtime Extension know, in the
//! [Runtime SDK](https://cluster-api.sigs.k8s.io/tasks/experimental-features/runtime-sdk/) of Cluster API.

/// The group of all hooks.
pub const GROUP: &str = "hooks.runtime.cluster.x-k8s.io";
/// The only version of the hooks (RH-4.4).
pub const VERSION: &str = "v1alpha1";
/// The most bytes of a request or an answer; a longer one is an error (RH-4.10, DEC-46).
pub const MAX_BODY: usize = 20 * 1024 * 1024;

/// What becomes of a call that fails (RH-7.3, RH-7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// It counts as an answer that asks for nothing.
    Ignore,
    /// It is an error.
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
