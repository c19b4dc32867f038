//! Errors of arguments.

use engine::extensions::AddressError;

/// Why an argument cannot be read. clap adds the flag and the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// The argument has another form; the text says which one is expected.
    #[error("{0}")]
    Form(&'static str),
    /// The argument is not among the allowed values; the text says which ones are.
    #[error("{0}")]
    Range(&'static str),
    /// A path instead of the name of an environment variable.
    #[error("it is a path, and no environment variable has this name")]
    PathOfVariable,
    /// A name that Kubernetes does not allow, with its faults.
    #[error("{}", faults.join(", "))]
    InvalidName { faults: Vec<String> },
    /// A name of an ExtensionConfig that Kubernetes does not allow.
    #[error("the name {name:?} of an ExtensionConfig {fault}")]
    ExtensionName { name: String, fault: String },
    /// An invalid URL of an extension.
    #[error(transparent)]
    Url(#[from] AddressError),
    /// A name that is not among those of controllers.
    #[error("unknown controller {0:?}; use none, all, clusterclass, topology or topology-templates")]
    Controller(String),
    /// A size without a number, with another unit, or too large.
    #[error("{0:?} is not a size such as 512Mi or 1Gi")]
    Size(String),
    /// A memory limit below the minimum.
    #[error("{0} is less than 64Mi, which is too little to run")]
    SmallLimit(String),
}
