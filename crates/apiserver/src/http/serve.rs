//! Dispatch of requests.

use std::convert::Infallible;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use tower::service_fn;

use super::read;
use super::request::{ApiRequest, RequestTarget, Verb};
use super::response::ApiResponse;
use super::write::WriteOperation;
use super::{access, delete, discovery, watch};
use crate::Embedded;
use crate::storage::builtin::Builtin;
use crate::storage::status::ApiError;

/// Maximum body size in bytes.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

impl Embedded {
    /// An in-process client.
    pub fn client(&self) -> kube::Client {
        let embedded = self.clone();
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let embedded = embedded.clone();
            async move { Ok::<_, Infallible>(embedded.call(request).await) }
        });
        kube::Client::new(service, "default")
    }

    /// Answers a request; the body of a watch lasts until the watch ends.
    pub async fn call<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if self.0.closed.is_cancelled() {
            return ApiResponse::from(gone()).into_response();
        }
        let (head, body) = request.into_parts();
        let body = match Limited::new(body, BODY_LIMIT).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return ApiResponse::from(unread(&*error)).into_response(),
        };
        let call = ApiRequest::new(&head, body);
        match self.answer(&call).await {
            Ok(response) => response,
            Err(failure) => ApiResponse::from(failure).into_response(),
        }
    }

    async fn answer(&self, call: &ApiRequest) -> Result<Response<Body>, ApiError> {
        let registry = self.registry();
        let target = RequestTarget::parse(&call.path);
        let found = target
            .as_ref()
            .and_then(|target| Some((target, registry.get(&target.group, &target.version, &target.plural)?)));
        let Some((target, resource)) = found else {
            if let Some(answer) = access::answer(call)? {
                return Ok(answer.into_response());
            }
            if call.method != http::Method::GET {
                return Err(ApiError::no_such_path());
            }
            let is_own = |target: &RequestTarget| {
                let mut group = registry.group(&target.group);
                group.any(|resource| resource.builtin.is_some() && resource.version == target.version)
            };
            let unserved = || {
                if target.as_ref().is_some_and(is_own) { ApiError::no_such_kind() } else { ApiError::no_such_path() }
            };
            let answer = discovery::answer(&registry, &call.path, &call.accept).ok_or_else(unserved)?;
            return Ok(answer.into_response());
        };
        let is_known = match target.subresource.as_str() {
            "" => true,
            "status" => resource.has_status,
            "scale" => resource.scale.is_some(),
            "eviction" => resource.builtin.is_some_and(Builtin::can_be_evicted),
            _ => false,
        };
        let needs_namespace = resource.is_namespaced && !target.name.is_empty();
        if !is_known && resource.builtin.is_none() {
            return Err(ApiError::not_found(resource, &target.name));
        }
        if !is_known
            || (needs_namespace && target.namespace.is_empty())
            || (!resource.is_namespaced && !target.namespace.is_empty())
        {
            return Err(ApiError::no_such_path());
        }
        if target.subresource == "eviction" {
            return Ok(delete::evict(self, call, target, resource).await?.into_response());
        }
        let verb = call.verb(target, resource.builtin.is_none())?;
        let warnings: Vec<String> = resource.deprecation.iter().cloned().collect();
        let answer = match verb {
            Verb::Watch => return watch::watch(self, call, target, resource),
            Verb::Get => read::get(self, call, target, resource)?,
            Verb::List => read::list(|take| take(&self.state()), call, target, resource)?,
            Verb::Delete if target.subresource.is_empty() => delete::one(self, call, target, resource).await?,
            Verb::DeleteCollection => delete::many(self, call, target, resource).await?,
            Verb::Delete => return Err(ApiError::method_not_allowed()),
            Verb::Create if resource.is_namespaced && target.namespace.is_empty() => {
                return Err(ApiError::method_not_allowed());
            }
            Verb::Create | Verb::Update | Verb::Patch => {
                let write = WriteOperation {
                    embedded: self,
                    call,
                    target,
                    resource,
                    verb,
                    is_dry_run: call.is_dry_run()?,
                    validation: call.field_validation()?,
                    manager: call.manager(),
                    now: self.now(),
                    warnings: Vec::new(),
                };
                write.run().await?
            }
        };
        Ok(answer.with_warnings(warnings).into_response())
    }
}

/// The response after the API was closed.
fn gone() -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "the API server has stopped")
}

/// The error for a body that is too long or incomplete.
fn unread(error: &(dyn std::error::Error + Send + Sync + 'static)) -> ApiError {
    match error.is::<http_body_util::LengthLimitError>() {
        true => ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {BODY_LIMIT}"),
        ),
        false => ApiError::bad_request(format!("unable to read the body: {error}")),
    }
}
