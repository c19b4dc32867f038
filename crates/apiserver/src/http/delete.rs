//! Deletion of one object and of collections.

use std::sync::Arc;

use http::StatusCode;
use model::garbage::Propagation;
use serde_json::{Value, json};

use super::admit::WriteReview;
use super::decode;
use super::read::{list_metadata, selected};
use super::request::{ApiRequest, RequestTarget};
use super::response::{ApiResponse, ResponseForm};
use super::selector::ObjectSelector;
use crate::Embedded;
use crate::admission::AdmissionAttributes;
use crate::storage::builtin::Builtin;
use crate::storage::collect::marked;
use crate::storage::definition::text;
use crate::storage::kind_schema;
use crate::storage::registry::ServedResource;
use crate::storage::shape::viewed;
use crate::storage::status::{ApiError, deleted};
use crate::storage::store::StoreKey;
use crate::storage::stored::StoredEntry;

/// Maximum number of attempts while the object changes concurrently.
const ATTEMPTS: usize = 6;

/// Options of a deletion.
#[derive(Clone, Debug, Default)]
struct DeleteOptions {
    propagation: Option<Propagation>,
    uid: String,
    version: String,
    is_dry_run: bool,
}

impl DeleteOptions {
    /// Parses the options from the body, or else from the query.
    fn parse(call: &ApiRequest) -> Result<Self, ApiError> {
        let body = if call.body.is_empty() { None } else { Some(decode::body(call)?.value) };
        DeleteOptions::from_body(call, body.as_ref())
    }

    /// The options of a body, or else of the query.
    fn from_body(call: &ApiRequest, body: Option<&Value>) -> Result<Self, ApiError> {
        let mut options = DeleteOptions { is_dry_run: call.is_dry_run()?, ..DeleteOptions::default() };
        let mut propagation = call.query.text("propagationPolicy").to_owned();
        let mut orphans = call.query.has("orphanDependents").then(|| call.query.flag("orphanDependents"));
        if let Some(body) = body {
            if !body.is_object() {
                return Err(ApiError::bad_request("the body of a deletion holds its options"));
            }
            text(body, "/preconditions/uid").clone_into(&mut options.uid);
            text(body, "/preconditions/resourceVersion").clone_into(&mut options.version);
            options.is_dry_run |= body["dryRun"].as_array().is_some_and(|all| all.iter().any(|value| value == "All"));
            if !text(body, "/propagationPolicy").is_empty() {
                text(body, "/propagationPolicy").clone_into(&mut propagation);
            }
            orphans = body.get("orphanDependents").and_then(Value::as_bool).or(orphans);
        }
        options.propagation = match propagation.as_str() {
            "" => orphans.map(|orphans| if orphans { Propagation::Orphan } else { Propagation::Background }),
            "Background" => Some(Propagation::Background),
            "Foreground" => Some(Propagation::Foreground),
            "Orphan" => Some(Propagation::Orphan),
            other => {
                let fault = kind_schema::ObjectFault {
                    kind: schema::field::ErrorKind::NotSupported,
                    field: "propagationPolicy".to_owned(),
                    value: schema::field::ErrorValue::from(other),
                    detail: "supported values: \"Foreground\", \"Background\", \"Orphan\"".to_owned(),
                };
                return Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", vec![fault]));
            }
        };
        Ok(options)
    }
}

/// A deletion in progress.
struct DeleteOperation<'a> {
    embedded: &'a Embedded,
    call: &'a ApiRequest,
    resource: &'a Arc<ServedResource>,
    options: DeleteOptions,
    now: String,
    warnings: Vec<String>,
}

/// Result of a deletion.
struct Deleted {
    /// The deleted object, or the object with finalizers.
    object: Value,
    is_gone: bool,
}

/// Deletes an object.
pub(super) async fn one(
    embedded: &Embedded,
    call: &ApiRequest,
    target: &RequestTarget,
    resource: &Arc<ServedResource>,
) -> Result<ApiResponse, ApiError> {
    let options = DeleteOptions::parse(call)?;
    let place = StoreKey::new(resource, &target.namespace, &target.name);
    let mut deletion = DeleteOperation { embedded, call, resource, options, now: embedded.now(), warnings: Vec::new() };
    let outcome = deletion.delete(&place, &target.name).await?;
    let is_returned = resource.builtin.is_some_and(Builtin::is_returned_when_deleted);
    let answer = match outcome {
        Deleted { object, is_gone: true } if !is_returned => {
            ApiResponse::from_json(StatusCode::OK, &deleted(resource, &target.name, text(&object, "/metadata/uid")))
        }
        Deleted { object, .. } => {
            ApiResponse::from_json(StatusCode::OK, &ResponseForm::negotiate(call).object(resource, object))
        }
    };
    Ok(answer.with_warnings(deletion.warnings))
}

/// Evicts a Pod: deletes it immediately, since disruption budgets are not supported (CT-19.11).
pub(super) async fn evict(
    embedded: &Embedded,
    call: &ApiRequest,
    target: &RequestTarget,
    resource: &Arc<ServedResource>,
) -> Result<ApiResponse, ApiError> {
    if call.method != http::Method::POST {
        return Err(ApiError::method_not_allowed());
    }
    let eviction = decode::body(call)?.value;
    // The path determines the kind, so the body may omit it.
    if !matches!(text(&eviction, "/kind"), "" | "Eviction") {
        return Err(ApiError::bad_request("the body of an eviction holds an Eviction of policy/v1"));
    }
    if !matches!(text(&eviction, "/metadata/name"), name if name.is_empty() || name == target.name) {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = DeleteOptions::from_body(call, eviction.get("deleteOptions").filter(|options| !options.is_null()))?;
    let place = StoreKey::new(resource, &target.namespace, &target.name);
    let mut deletion = DeleteOperation { embedded, call, resource, options, now: embedded.now(), warnings: Vec::new() };
    deletion.delete(&place, &target.name).await?;
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(ApiResponse::from_json(StatusCode::CREATED, &status).with_warnings(deletion.warnings))
}

/// Deletes all selected objects, and responds with the list of them.
pub(super) async fn many(
    embedded: &Embedded,
    call: &ApiRequest,
    target: &RequestTarget,
    resource: &Arc<ServedResource>,
) -> Result<ApiResponse, ApiError> {
    let selector = ObjectSelector::parse(resource, call.query.text("labelSelector"), call.query.text("fieldSelector"))?;
    let options = DeleteOptions::parse(call)?;
    let (places, version, registry) = {
        let state = embedded.state();
        let places = selected(&state, resource, &target.namespace, &selector);
        (places, state.version, state.registry.clone())
    };
    let mut deletion = DeleteOperation { embedded, call, resource, options, now: embedded.now(), warnings: Vec::new() };
    let mut list = ResponseForm::negotiate(call).list(&registry, resource);
    for place in places {
        let name = place.key.rsplit('/').next().unwrap_or_default().to_owned();
        match deletion.delete(&place, &name).await {
            Ok(outcome) => list.push_object(outcome.object),
            Err(failure) if failure.code == StatusCode::NOT_FOUND => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(list.into_answer(list_metadata(resource, version)).with_warnings(deletion.warnings))
}

impl DeleteOperation<'_> {
    async fn delete(&mut self, place: &StoreKey, name: &str) -> Result<Deleted, ApiError> {
        for _ in 0..ATTEMPTS {
            let (live, registry) = {
                let state = self.embedded.state();
                let live = state.get(place).cloned().ok_or_else(|| ApiError::not_found(self.resource, name))?;
                (live, state.registry.clone())
            };
            let view = viewed(&registry, self.resource, &live);
            self.expected(&live, name)?;
            self.forbidden(name)?;
            self.review(place, name, &view).await?;
            let mut state = self.embedded.state();
            if state.get(place).is_none_or(|current| !Arc::ptr_eq(current, &live)) {
                continue;
            }
            if self.options.is_dry_run {
                let object = marked(&view, Some(self.resource), self.options.propagation, &self.now);
                let is_gone = object.pointer("/metadata/finalizers").is_none()
                    && self.resource.builtin != Some(Builtin::Namespace);
                return Ok(Deleted { object: if is_gone { view } else { object }, is_gone });
            }
            let left = state.delete(place, self.options.propagation, &self.now);
            state.settle(&self.now);
            drop(state);
            let object = left.as_ref().map(|left| viewed(&registry, self.resource, left));
            let is_gone = object.is_none();
            return Ok(Deleted { object: object.unwrap_or(view), is_gone });
        }
        Err(ApiError::modified(self.resource, name))
    }

    /// Whether the object satisfies the preconditions of the client.
    fn expected(&self, live: &StoredEntry, name: &str) -> Result<(), ApiError> {
        let DeleteOptions { uid, version, .. } = &self.options;
        let why = if !uid.is_empty() && **uid != *live.uid {
            format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
                 deleted and then recreated",
                live.uid
            )
        } else if !version.is_empty() && *version != live.version.to_string() {
            format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). \
                 The object might have been modified",
                live.version
            )
        } else {
            return Ok(());
        };
        // A server uses the kind here instead of the plural.
        let mut kind = (**self.resource).clone();
        kind.plural.clone_from(&kind.kind);
        Err(ApiError::conflict(&kind, name, &why))
    }

    /// Namespaces that cannot be deleted.
    fn forbidden(&self, name: &str) -> Result<(), ApiError> {
        let is_lasting = matches!(name, "default" | "kube-system" | "kube-public");
        if self.resource.builtin == Some(Builtin::Namespace) && is_lasting {
            return Err(ApiError::forbidden(self.resource, name, "this namespace may not be deleted"));
        }
        Ok(())
    }

    async fn review(&mut self, place: &StoreKey, name: &str, old: &Value) -> Result<(), ApiError> {
        let Some(admission) = self.embedded.admission() else { return Ok(()) };
        let attributes = AdmissionAttributes {
            group: &self.resource.group,
            version: &self.resource.version,
            resource: &self.resource.plural,
            subresource: "",
            operation: "DELETE",
            namespace: place.namespace(),
        };
        let options = self.call.options_kind();
        let review = WriteReview {
            attributes: &attributes,
            resource: self.resource,
            name,
            old: Some(old),
            is_dry_run: self.options.is_dry_run,
            options: &options,
        };
        review.mutate(Some(&*admission), &mut Value::Null, &mut self.warnings).await?;
        review.validate(Some(&*admission), &Value::Null, &mut self.warnings).await
    }
}
