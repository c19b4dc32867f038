//! Reviews that wait for their evaluation, and the kind of thread that evaluates them.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::limits::INLINE;
use engine::admission::{DecodedRequest, EndPoint, Operation, RawRequest, Verdict, WrongReview};
use golang::json;
use model::hub::{GROUP, Kind, Metadata};
use model::wire::WireVersion;
use model::wire::review::AdmissionRequest;
use model::world::Scope;

/// Whether the object of a review is in the scope of this installation, before or after the change (DEC-37).
pub(super) fn is_in_scope(review: &AdmissionRequest<'_>, scope: &Scope) -> bool {
    #[derive(serde::Deserialize)]
    struct ReviewedObject {
        metadata: Metadata,
    }
    let namespace = review.namespace.as_deref().unwrap_or_default();
    if !scope.has_namespace(namespace) {
        return false;
    }
    if !scope.filters_labels() {
        return true;
    }
    let mut objects = [review.object, review.old_object].into_iter().flatten();
    // An object with unreadable metadata is reviewed.
    objects.any(|object| {
        json::decode::<ReviewedObject>(object.get()).map_or(true, |object| scope.has_labels(&object.metadata))
    })
}

/// The kind of thread that evaluates a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pool {
    /// The async thread, for work of less than a millisecond.
    Inline,
    /// A blocking thread: compiling a ClusterClass can take seconds.
    Blocking,
}

/// The input of one evaluation.
pub(super) enum ReviewInput {
    AsText(PendingReview),
    Decoded(Arc<DecodedRequest>),
}

impl ReviewInput {
    pub(super) fn question(self) -> Result<Arc<DecodedRequest>, Box<Verdict>> {
        match self {
            ReviewInput::AsText(asked) => asked.question().map(Arc::new),
            ReviewInput::Decoded(question) => Ok(question),
        }
    }
}

/// The reason for which an end point does not answer a review.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotReviewed {
    #[error(transparent)]
    WrongReview(#[from] WrongReview),
    #[error("subresources of {}.{GROUP} are not reviewed, {subresource} included", kind.name())]
    Subresource { kind: Kind, subresource: String },
    #[error("operation {0} is not reviewed; CREATE, UPDATE and DELETE are")]
    Operation(String),
}

/// A review whose objects are not decoded yet. The version of the end point does not matter: the review has group,
/// version and kind.
pub(super) struct PendingReview {
    end_point: EndPoint,
    version: WireVersion,
    operation: Operation,
    name: String,
    /// The objects, as parts of the body.
    object: Option<Bytes>,
    old_object: Option<Bytes>,
}

impl PendingReview {
    pub(super) fn for_end_point(
        end_point: EndPoint,
        review: &AdmissionRequest<'_>,
        body: &Bytes,
    ) -> Result<Self, NotReviewed> {
        let version = RawRequest::version_of(end_point.kind, &review.kind)?;
        if let Some(subresource) = review.sub_resource.as_deref().filter(|name| !name.is_empty()) {
            return Err(NotReviewed::Subresource { kind: end_point.kind, subresource: subresource.to_owned() });
        }
        let operation = Operation::from_name(&review.operation)
            .ok_or_else(|| NotReviewed::Operation(review.operation.clone().into_owned()))?;
        let part = |object: Option<&RawValue>| {
            let text = object.map(RawValue::get).filter(|text| *text != "null");
            text.map(|text| body.slice_ref(text.as_bytes()))
        };
        Ok(PendingReview {
            end_point,
            version,
            operation,
            name: review.name.as_deref().unwrap_or_default().to_owned(),
            object: part(review.object),
            old_object: part(review.old_object),
        })
    }

    pub(super) fn pool(&self) -> Pool {
        let objects = [&self.object, &self.old_object];
        let is_small = objects.into_iter().flatten().all(|object| object.len() <= INLINE);
        if is_small && self.end_point.kind != Kind::ClusterClass { Pool::Inline } else { Pool::Blocking }
    }

    fn question(&self) -> Result<DecodedRequest, Box<Verdict>> {
        let text = |part| str::from_utf8(part).expect("a part of a body that was read as text");
        DecodedRequest::decode(&RawRequest {
            phase: self.end_point.phase,
            kind: self.end_point.kind,
            version: self.version,
            operation: self.operation,
            name: &self.name,
            object: self.object.as_deref().map(text),
            old_object: self.old_object.as_deref().map(text),
            old_version: self.version,
        })
    }
}
