//! Errors of hooks: an invalid request, a missing handler, an invalid answer.

use thiserror::Error;

/// An error of a request's body.
#[derive(Debug, Error)]
pub enum RequestBodyError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("the request is not an object")]
    NotAnObject,
    #[error("the request has no items")]
    NoItems,
}

/// An error of a response's body.
#[derive(Debug, Error)]
pub enum ResponseBodyError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("the body is empty")]
    Empty,
}

/// An answer that exceeds the memory limit once it is decoded. It does not count as a failed call: no failure policy
/// ignores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("it takes {} MiB once it is decoded, more than {} MiB", .bytes.div_ceil(1 << 20), .most >> 20)]
pub struct ResponseTooLarge {
    pub bytes: usize,
    pub most: usize,
}

/// An error of a handler's answer.
#[derive(Debug, Error)]
pub enum AnswerError {
    #[error("the answer of handler {handler:?} is invalid: {source}")]
    TooLarge { handler: String, source: ResponseTooLarge },
    #[error("the answer of handler {handler:?} is invalid: {reason}")]
    Invalid { handler: String, reason: String },
    #[error("the answer of handler {handler:?} is invalid: unknown status {status:?}; expected Success or Failure")]
    UnknownStatus { handler: String, status: String },
    /// The call failed, or its answer cannot be decoded; the failure policy decides about both (RH-7.3).
    #[error("the call of handler {handler:?} failed: {reason}")]
    Call { handler: String, reason: String },
    #[error("handler {handler:?} answered Failure: {message}")]
    Failure { handler: String, message: String },
    #[error(transparent)]
    Variable(#[from] serde_json::Error),
}

/// The reason for which an extension lacks a handler.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HandlerError {
    #[error("the handler {name:?} is for {hook}, not for {wanted}")]
    OtherHook { name: String, hook: &'static str, wanted: String },
    #[error("{config:?} has no handler {name:?}; it has: {}", .names.join(", "))]
    Missing { config: String, name: String, names: Vec<String> },
}
