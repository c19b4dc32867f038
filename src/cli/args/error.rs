//! Errors of arguments.

use engine::extensions::AddressError;

/// Why an argument cannot be read. clap adds the flag and the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// It has another form; the text says which one is expected.
    #[error("{0}")]
    Form(&'static str),
    /// It is not among the allowed values; the text says which ones are.
    #[error("{0}")]
    Range(&'static str),
    #[error("it is a path, and no environment variable has this name")]
    PathOfVariable,
    #[error("{}", .0.join(", "))]
    Name(Vec<String>),
    #[error("the name {name:?} of an ExtensionConfig {fault}")]
    ExtensionName { name: String, fault: String },
    #[error(transparent)]
    Url(#[from] AddressError),
    #[error("unknown controller {0:?}; use none, all, clusterclass, topology or topology-templates")]
    Controller(String),
    #[error("{0:?} is not a size such as 512Mi or 1Gi")]
    Size(String),
    #[error("{0} is less than 64Mi, which is too little to run")]
    SmallLimit(String),
}
