//! Reads of objects and lists, at the current or an earlier resourceVersion.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::request::{ApiRequest, RequestTarget};
use super::response::{ApiResponse, ResponseForm};
use super::selector::ObjectSelector;
use crate::Embedded;
use crate::storage::registry::{KindRegistry, ServedResource};
use crate::storage::shape::viewed;
use crate::storage::status::ApiError;
use crate::storage::store::{self, KeyRange, StoreKey, StoreState, StoredObjects, within};

/// Message for an expired page.
const PAGE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can \
    start a new list without the continue parameter, or use the continue token in this response to retrieve the \
    remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were \
    created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// The requested version; 0 for any.
pub(super) fn version_of(text: &str) -> Result<u64, ApiError> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        let message = format!("Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax");
        ApiError::bad_request(format!("resourceVersion: {message}"))
    })
}

/// The error for a version in the future.
pub(super) fn too_new(wanted: u64, current: u64) -> ApiError {
    let mut failure = ApiError::new(
        StatusCode::GATEWAY_TIMEOUT,
        "Timeout",
        format!("Timeout: Too large resource version: {wanted}, current: {current}"),
    );
    let cause = json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
    failure.details.insert("causes".to_owned(), cause);
    failure.details.insert("retryAfterSeconds".to_owned(), json!(1));
    failure
}

/// Answers with an object.
pub(super) fn get(
    embedded: &Embedded,
    call: &ApiRequest,
    target: &RequestTarget,
    resource: &ServedResource,
) -> Result<ApiResponse, ApiError> {
    let wanted = version_of(call.query.text("resourceVersion"))?;
    let place = StoreKey::new(resource, &target.namespace, &target.name);
    let (stored, registry) = {
        let state = embedded.state();
        if wanted > state.version {
            return Err(too_new(wanted, state.version));
        }
        let stored = state.get(&place).cloned().ok_or_else(|| ApiError::not_found(resource, &target.name))?;
        (stored, state.registry.clone())
    };
    if target.subresource == "scale" {
        let scale = super::scale::shown(resource, &viewed(&registry, resource, &stored))?;
        return Ok(ApiResponse::from_json(StatusCode::OK, &scale));
    }
    Ok(ApiResponse::from_text(StatusCode::OK, ResponseForm::negotiate(call).text(&registry, resource, &stored)))
}

/// Position of the next page.
struct Continue {
    /// `None` if pages need not be consistent.
    version: Option<u64>,
    after: String,
}

impl Continue {
    fn parse(text: &str) -> Result<Option<Self>, ApiError> {
        if text.is_empty() {
            return Ok(None);
        }
        let read = || {
            let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
            let token: Value = serde_json::from_slice(&bytes).ok()?;
            let version = token.get("rv")?.as_i64()?;
            let after = token.get("start")?.as_str()?.trim_end_matches('\0').to_owned();
            Some(Continue { version: u64::try_from(version).ok(), after })
        };
        read()
            .map(Some)
            .ok_or_else(|| ApiError::bad_request("continue key is not valid: it was not made by this server"))
    }

    fn text(&self) -> String {
        let version = self.version.and_then(|version| i64::try_from(version).ok()).unwrap_or(-1);
        let token = json!({"v": "meta.k8s.io/v1", "rv": version, "start": format!("{}\0", self.after)});
        URL_SAFE_NO_PAD.encode(token.to_string())
    }
}

/// The objects of a kind at a version, or the requested range of them.
struct Snapshot {
    objects: StoredObjects,
    version: u64,
    registry: Arc<KindRegistry>,
}

/// Responds with a list of objects. The lock of `state` is held only for taking a snapshot.
pub(super) fn list(
    state: impl FnOnce(&mut dyn FnMut(&StoreState)),
    call: &ApiRequest,
    target: &RequestTarget,
    resource: &ServedResource,
) -> Result<ApiResponse, ApiError> {
    let selector = ObjectSelector::parse(resource, call.query.text("labelSelector"), call.query.text("fieldSelector"))?;
    let page = Continue::parse(call.query.text("continue"))?;
    let wanted = version_of(call.query.text("resourceVersion"))?;
    let is_exact = call.query.text("resourceVersionMatch") == "Exact";
    let prefix = if target.namespace.is_empty() { String::new() } else { format!("{}/", target.namespace) };
    let part = KeyRange { prefix: &prefix, cluster: selector.cluster() };
    let mut snapshot = Err(ApiError::internal("there is no snapshot"));
    state(&mut |state| snapshot = snapshot_of(state, resource, part, page.as_ref(), wanted, is_exact));
    let snapshot = snapshot?;
    let limit = call.query.number("limit").and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
    let after = page.as_ref().map_or("", |page| &page.after);
    let mut items = ResponseForm::negotiate(call).list(&snapshot.registry, resource);
    let mut metadata = list_metadata(resource, snapshot.version);
    let mut last: Option<&Arc<str>> = None;
    let from = if after > &*prefix { after } else { &prefix };
    let all = store::from(&snapshot.objects, from).take_while(|(key, _)| key.starts_with(&prefix));
    let mut all = all.filter(|(key, _)| after.is_empty() || &***key > after);
    while let Some((key, stored)) = all.next() {
        if !selector.selects(&snapshot.registry, resource, stored) {
            continue;
        }
        if limit.is_some_and(|limit| items.len() >= limit) {
            let version = page.as_ref().map_or(Some(snapshot.version), |page| page.version);
            let next = Continue { version, after: last.map(ToString::to_string).unwrap_or_default() };
            metadata.insert("continue".to_owned(), json!(next.text()));
            if selector.is_everything() {
                metadata.insert("remainingItemCount".to_owned(), json!(all.count() + 1));
            }
            break;
        }
        last = Some(key);
        items.push(stored);
    }
    Ok(items.into_answer(metadata))
}

/// The metadata of a list; lists of custom kinds always have a continue token, which may be empty.
pub(super) fn list_metadata(resource: &ServedResource, version: u64) -> Map<String, Value> {
    let mut metadata = Map::from_iter([("resourceVersion".to_owned(), json!(version.to_string()))]);
    if resource.builtin.is_none() {
        metadata.insert("continue".to_owned(), json!(""));
    }
    metadata
}

fn snapshot_of(
    state: &StoreState,
    resource: &ServedResource,
    part: KeyRange<'_>,
    page: Option<&Continue>,
    wanted: u64,
    is_exact: bool,
) -> Result<Snapshot, ApiError> {
    let kind = resource.store_name();
    let snapshot = |objects, version| Ok(Snapshot { objects, version, registry: state.registry.clone() });
    let now = || snapshot(state.objects_of(&kind, part), state.version);
    if wanted > state.version {
        return Err(too_new(wanted, state.version));
    }
    if let Some(page) = page {
        let Some(version) = page.version else { return now() };
        if let Some(objects) = state.objects_at(&kind, version) {
            return snapshot(objects, version);
        }
        let mut failure = ApiError::expired(PAGE_EXPIRED);
        let inconsistent = Continue { version: None, after: page.after.clone() };
        failure.metadata = json!({"continue": inconsistent.text()});
        return Err(failure);
    }
    if is_exact && wanted > 0 {
        let objects = state.objects_at(&kind, wanted).ok_or_else(|| {
            ApiError::expired(format!("The resourceVersion for the provided list is too old: {wanted}"))
        })?;
        return snapshot(objects, wanted);
    }
    now()
}

/// The keys of the selected objects of a kind, for deleting a collection.
pub(super) fn selected(
    state: &StoreState,
    resource: &ServedResource,
    namespace: &str,
    selector: &ObjectSelector,
) -> Vec<StoreKey> {
    let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    let kind: Arc<str> = resource.store_name().into();
    let objects = state.objects_of(&kind, KeyRange { prefix: &prefix, cluster: selector.cluster() });
    within(&objects, &prefix)
        .filter(|(_, stored)| selector.selects(&state.registry, resource, stored))
        .map(|(key, _)| StoreKey { kind: kind.clone(), key: key.clone() })
        .collect()
}
