//! Requests in, answers out.

use std::convert::Infallible;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use tower::service_fn;

use super::answer::Answer;
use super::read;
use super::request::{Call, Target, Verb};
use super::write::Write;
use super::{access, delete, discovery, watch};
use crate::Embedded;
use crate::storage::builtin::Builtin;
use crate::storage::status::Failure;

/// The longest body, in bytes.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

impl Embedded {
    /// A client in the same process.
    pub fn client(&self) -> kube::Client {
        let embedded = self.clone();
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let embedded = embedded.clone();
            async move { Ok::<_, Infallible>(embedded.call(request).await) }
        });
        kube::Client::new(service, "default")
    }

    /// Answers a request; the body of a watch goes on until the watch ends.
    pub async fn call<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if self.0.closed.is_cancelled() {
            return Answer::from(gone()).into_response();
        }
        let (head, body) = request.into_parts();
        let body = match Limited::new(body, BODY_LIMIT).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return Answer::from(unread(&*error)).into_response(),
        };
        let call = Call::new(&head, body);
        match self.answer(&call).await {
            Ok(response) => response,
            Err(failure) => Answer::from(failure).into_response(),
        }
    }

    async fn answer(&self, call: &Call) -> Result<Response<Body>, Failure> {
        let registry = self.registry();
        let target = Target::parse(&call.path);
        let found = target
            .as_ref()
            .and_then(|target| Some((target, registry.get(&target.group, &target.version, &target.plural)?)));
        let Some((target, resource)) = found else {
            if let Some(answer) = access::answer(call)? {
                return Ok(answer.into_response());
            }
            if call.method != http::Method::GET {
                return Err(Failure::no_such_path());
            }
            let is_own = |target: &Target| {
                let mut group = registry.group(&target.group);
                group.any(|resource| resource.builtin.is_some() && resource.version == target.version)
            };
            let nobody =
                || if target.as_ref().is_some_and(is_own) { Failure::no_such_kind() } else { Failure::no_such_path() };
            let answer = discovery::answer(&registry, &call.path, &call.accept).ok_or_else(nobody)?;
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
            return Err(Failure::not_found(resource, &target.name));
        }
        if !is_known
            || (needs_namespace && target.namespace.is_empty())
            || (!resource.is_namespaced && !target.namespace.is_empty())
        {
            return Err(Failure::no_such_path());
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
            Verb::Delete => return Err(Failure::method_not_allowed()),
            Verb::Create if resource.is_namespaced && target.namespace.is_empty() => {
                return Err(Failure::method_not_allowed());
            }
            Verb::Create | Verb::Update | Verb::Patch => {
                let write = Write {
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

/// The cluster of this API is gone.
fn gone() -> Failure {
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "the API server has stopped")
}

/// A body that is too long, or did not arrive.
fn unread(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Failure {
    match error.is::<http_body_util::LengthLimitError>() {
        true => Failure::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {BODY_LIMIT}"),
        ),
        false => Failure::bad_request(format!("unable to read the body: {error}")),
    }
}
