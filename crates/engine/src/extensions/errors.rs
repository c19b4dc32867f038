//! Why a hook gives no result: a request that cannot be made, a handler that is not registered, an answer that cannot be used.

use thiserror::Error;

/// Why a request cannot be completed.
#[derive(Debug, Error)]
pub enum RequestBodyError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("the request is not an object")]
    NotAnObject,
    #[error("the request has no items")]
    NoItems,
}

/// Why the body of a response is no answer.
#[derive(Debug, Error)]
pub enum ResponseBodyError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("the body is empty")]
    Empty,
}

/// An answer that takes more bytes of memory than it may once it is decoded. It is no call that failed: no failure policy ignores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("it takes {} MiB once it is decoded, more than {} MiB", .bytes.div_ceil(1 << 20), .most >> 20)]
pub struct ResponseTooLarge {
    pub bytes: usize,
    pub most: usize,
}

/// Why the answer of a handler gives no result.
#[derive(Debug, Error)]
pub enum AnswerError {
    #[error("the answer of handler {handler:?} is invalid: {source}")]
    TooLarge { handler: String, source: ResponseTooLarge },
    #[error("the answer of handler {handler:?} is invalid: unknown status {status:?}; expected Success or Failure")]
    UnknownStatus { handler: String, status: String },
    /// The call failed, or its answer cannot be decoded; both are up to the failure policy (RH-7.3).
    #[error("the call of handler {handler:?} failed: {reason}")]
    Call { handler: String, reason: String },
    #[error("handler {handler:?} answered Failure: {message}")]
    Failure { handler: String, message: String },
    #[error(transparent)]
    Variable(#[from] serde_json::Error),
}

/// Why an extension does not have a handler.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HandlerError {
    #[error("the handler {name:?} is for {hook}, not for {wanted}")]
    OtherHook { name: String, hook: &'static str, wanted: String },
    #[error("{config:?} has no handler {name:?}; it has: {}", .names.join(", "))]
    Missing { config: String, name: String, names: Vec<String> },
}
