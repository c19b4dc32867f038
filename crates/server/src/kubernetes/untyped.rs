//! Requests about objects of any kind, for the writers.

use std::time::Duration;

use http::StatusCode;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::address::{self, AnotherObject, InvalidSegment, ObjectRequests};
use super::describe;
use super::live::selector;
use super::overload::ApiOverload;
use engine::topology::plan::MANAGER;
use model::hub::{Object, ObjectRef};
use model::world::Selection;

/// Timeout of one response; the API server waits for webhooks, each up to 30 seconds but usually 10.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum number of attempts on an API server that rejects requests unread, and the delay between them.
const ATTEMPTS: usize = 4;
const PAUSE: Duration = Duration::from_millis(500);
/// Objects per page of a list.
const PAGE: u32 = 500;
/// The field manager of writes other than applies (SSA-19).
const UPDATER: &str = "topologist";

/// Why a request to an API server failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiRequestError {
    #[error("{}", describe(.0))]
    Api(#[source] kube::Error),
    #[error("the API server did not answer in time")]
    TimedOut,
    #[error(transparent)]
    Malformed(#[from] InvalidSegment),
    #[error(transparent)]
    Another(#[from] AnotherObject),
    #[error("the labels are not a valid selector")]
    Labels,
    #[error("the API server returned something other than an object")]
    NoObject,
}

/// Whether a failed write may have changed the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteFailure {
    /// The API server rejected it: nothing was written.
    Rejected,
    /// The API server reports an internal error.
    ServerError,
    /// The API server did not answer.
    NoAnswer,
}

impl From<kube::Error> for ApiRequestError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Service(cause) => match cause.downcast::<InvalidSegment>() {
                Ok(malformed) => ApiRequestError::Malformed(*malformed),
                Err(cause) => ApiRequestError::Api(kube::Error::Service(cause)),
            },
            error => ApiRequestError::Api(error),
        }
    }
}

impl ApiRequestError {
    /// The status code of the response.
    fn code(&self) -> Option<u16> {
        match self {
            ApiRequestError::Api(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }

    /// Whether the object does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.code() == Some(StatusCode::NOT_FOUND.as_u16())
    }

    /// Whether the stored object differs from the expected one: another version, another uid, or it exists already.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(StatusCode::CONFLICT.as_u16())
    }

    /// Whether the API server refuses this for now, as it refuses evictions that a PodDisruptionBudget does not allow.
    pub(crate) fn is_too_many_requests(&self) -> bool {
        self.code() == Some(StatusCode::TOO_MANY_REQUESTS.as_u16())
    }

    /// The overload because of which there is no answer.
    pub(crate) fn overload(&self) -> Option<ApiOverload> {
        match self {
            ApiRequestError::Api(error) => ApiOverload::from_error(error),
            ApiRequestError::TimedOut => Some(ApiOverload::late(self)),
            _ => None,
        }
    }

    /// Whether the caller may not do this, or an admission webhook denied it.
    pub(super) fn is_forbidden(&self) -> bool {
        self.code() == Some(StatusCode::FORBIDDEN.as_u16())
    }

    /// Whether the object would not be what it has to be, or a patch does not fit it.
    pub(crate) fn is_invalid(&self) -> bool {
        self.code() == Some(StatusCode::UNPROCESSABLE_ENTITY.as_u16())
    }

    /// Whether the API server has answered.
    pub(crate) fn is_answer(&self) -> bool {
        self.write_failure() != WriteFailure::NoAnswer
    }

    /// Whether it is unknown if something was written, if this is the error of a write.
    pub(crate) fn may_have_written(&self) -> bool {
        !matches!(self, ApiRequestError::Another(_)) && self.write_failure() != WriteFailure::Rejected
    }

    /// Whether something may have been written, if this is the error of a write.
    pub(super) fn write_failure(&self) -> WriteFailure {
        match (self, self.code()) {
            (ApiRequestError::Malformed(_) | ApiRequestError::Labels, _) | (_, Some(400..=499)) => {
                WriteFailure::Rejected
            }
            (_, Some(_)) => WriteFailure::ServerError,
            (_, None) => WriteFailure::NoAnswer,
        }
    }
}

/// Applies an object as the manager of topologies, over what others have set (SSA-01, SSA-15). A dry run is one in
/// which nothing is stored.
pub(super) async fn apply(client: &kube::Client, object: &Object, is_dry: bool) -> Result<Object, ApiRequestError> {
    let params = PatchParams { dry_run: is_dry, ..PatchParams::apply(MANAGER).force() };
    patch(client, &object.reference(), &params, &Patch::Apply(&*object.to_value())).await
}

/// Changes an object by a patch that is not applied but an update (SSA-19).
pub(crate) async fn update(
    client: &kube::Client,
    object: &ObjectRef,
    change: &Patch<Value>,
) -> Result<Object, ApiRequestError> {
    let params = PatchParams { field_manager: Some(UPDATER.to_owned()), ..PatchParams::default() };
    patch(client, object, &params, change).await
}

/// Changes the status of an object by a patch.
pub(crate) async fn update_status(
    client: &kube::Client,
    object: &ObjectRef,
    change: &Patch<Value>,
) -> Result<Object, ApiRequestError> {
    let params = PatchParams { field_manager: Some(UPDATER.to_owned()), ..PatchParams::default() };
    let request = ObjectRequests::to(object)?.patch_status(&object.key.name, &params, change)?;
    read(object, answer(client, request).await?)
}

/// Evicts a Pod, with this many seconds to end instead of those in its spec.
pub(crate) async fn evict(client: &kube::Client, pod: &ObjectRef, grace: Option<u32>) -> Result<(), ApiRequestError> {
    let request = ObjectRequests::to(pod)?.evict(&pod.key.name, grace)?;
    // A disruption budget does not change its answer within a second.
    answer_once(client, request).await.map(drop)
}

async fn patch<P: serde::Serialize + std::fmt::Debug>(
    client: &kube::Client,
    object: &ObjectRef,
    params: &PatchParams,
    change: &Patch<P>,
) -> Result<Object, ApiRequestError> {
    let request = ObjectRequests::to(object)?.patch(&object.key.name, params, change)?;
    read(object, answer(client, request).await?)
}

/// The object; nothing when there is none.
pub(crate) async fn get(client: &kube::Client, object: &ObjectRef) -> Result<Option<Object>, ApiRequestError> {
    let request = ObjectRequests::to(object)?.get(&object.key.name)?;
    match answer(client, request).await {
        Err(error) if error.is_not_found() => Ok(None),
        found => found.and_then(|found| read(object, found)).map(Some),
    }
}

/// Makes an object that must not be there yet.
pub(crate) async fn create(client: &kube::Client, object: &Object) -> Result<Object, ApiRequestError> {
    let reference = object.reference();
    let params = PostParams { field_manager: Some(UPDATER.to_owned()), ..PostParams::default() };
    let body = object.as_ref().to_string().into_bytes();
    let request = ObjectRequests::to(&reference)?.create(&reference.key.name, &params, body)?;
    read(&reference, answer(client, request).await?)
}

/// Deletes an object, unless it has another uid than the one that is known; says whether there was one.
pub(crate) async fn delete(
    client: &kube::Client,
    object: &ObjectRef,
    uid: Option<&str>,
) -> Result<bool, ApiRequestError> {
    let preconditions = uid.map(|uid| Preconditions { uid: Some(uid.to_owned()), resource_version: None });
    let params = DeleteParams { preconditions, ..DeleteParams::default() };
    let request = ObjectRequests::to(object)?.delete(&object.key.name, &params)?;
    match answer(client, request).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

/// The metadata of the objects of a selection; nothing else of them is asked for. There are none of a kind that is not
/// served.
pub(super) async fn list_metadata(
    client: &kube::Client,
    selection: &Selection,
) -> Result<Vec<Object>, ApiRequestError> {
    match pages(client, selection, ObjectRequests::list_metadata).await {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        listed => listed,
    }
}

/// The objects of a selection, of a kind that has to be served.
pub(crate) async fn list(client: &kube::Client, selection: &Selection) -> Result<Vec<Object>, ApiRequestError> {
    pages(client, selection, ObjectRequests::list).await
}

/// Builds the request for a page of a list.
type ListRequest = fn(&ObjectRequests, &ListParams) -> Result<http::Request<Vec<u8>>, kube::Error>;

async fn pages(client: &kube::Client, selection: &Selection, ask: ListRequest) -> Result<Vec<Object>, ApiRequestError> {
    let requests = ObjectRequests::for_kind(&selection.api_version, &selection.kind, &selection.namespace)?;
    let labels = selector(selection).map_err(|_| ApiRequestError::Labels)?;
    let mut params = ListParams::default().limit(PAGE).labels(&labels);
    let mut all = Vec::new();
    loop {
        let request = ask(&requests, &params)?;
        let mut page = answer(client, request).await?;
        let items = match page.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            // An empty list of metadata has no list.
            Some(Value::Null) => Vec::new(),
            _ => return Err(ApiRequestError::NoObject),
        };
        for item in items {
            all.push(requests.checked(Object::try_from(item).map_err(|_| ApiRequestError::NoObject)?)?);
        }
        match page.pointer("/metadata/continue").and_then(Value::as_str).filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token.to_owned()),
            None => return Ok(all),
        }
    }
}

/// The requested object, and no other (DEC-45).
fn read(wanted: &ObjectRef, value: Value) -> Result<Object, ApiRequestError> {
    let found = Object::try_from(value).map_err(|_| ApiRequestError::NoObject)?;
    Ok(address::answered(wanted, found)?)
}

/// What the API server answers, in time. One that turns requests away unread is asked again.
async fn answer(client: &kube::Client, request: http::Request<Vec<u8>>) -> Result<Value, ApiRequestError> {
    let mut left = ATTEMPTS;
    loop {
        left -= 1;
        match answer_once(client, request.clone()).await {
            Err(error) if left > 0 && error.is_too_many_requests() => sleep(PAUSE).await,
            answer => return answer,
        }
    }
}

/// The response of the API server within [`PATIENCE`].
async fn answer_once(client: &kube::Client, request: http::Request<Vec<u8>>) -> Result<Value, ApiRequestError> {
    Ok(timeout(PATIENCE, client.request(request)).await.map_err(|_| ApiRequestError::TimedOut)??)
}
