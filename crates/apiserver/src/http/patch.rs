//! The four kinds of patches: JSON patch ([RFC 6902](https://www.rfc-editor.org/rfc/rfc6902)), JSON merge patch
//! ([RFC 7386](https://www.rfc-editor.org/rfc/rfc7386)), strategic merge patch, and
//! [server-side apply](https://kubernetes.io/docs/reference/using-api/server-side-apply/).

use http::StatusCode;
use json_patch::{PatchOperation, TestOperation};
use serde_json::{Value, json};

use super::decode;
use super::write::{ObjectDraft, WriteOperation};
use crate::storage::definition::text;
use crate::storage::kind_schema::ObjectFault;
use crate::storage::metadata;
use crate::storage::shape;
use crate::storage::status::ApiError;
use schema::field::{ErrorKind, ErrorValue};
use schema::ssa::{self, ApplyRefused, ManagedFields, with_managers};

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

impl WriteOperation<'_> {
    /// Applies a patch to the live object; returns it with its managers.
    pub(super) fn patch(&mut self, live: Option<&Value>) -> Result<ObjectDraft, ApiError> {
        self.options_fit()?;
        if self.call.content_type == APPLY {
            return self.apply(live);
        }
        let live = live.ok_or_else(|| ApiError::not_found(self.resource, &self.target.name))?;
        let is_scale = self.target.subresource == "scale";
        let base = match is_scale {
            true => super::scale::read_scale(self.resource, live).ok_or_else(ApiError::no_such_path)?,
            false => live.clone(),
        };
        let body = std::str::from_utf8(&self.call.body).map_err(|_| ApiError::bad_request("the body is not UTF-8"))?;
        let patch = decode::json_body(body)?;
        let mut patched = base;
        match self.call.content_type.as_str() {
            JSON_PATCH => json_patched(&mut patched, patch.value)?,
            MERGE_PATCH => merge(&mut patched, patch.value)?,
            STRATEGIC_PATCH if self.resource.builtin.is_some() => {
                let schema = self.resource.schema.as_deref().map_or(&Value::Null, |schema| &*schema.openapi);
                super::strategic::merge(&mut patched, patch.value, schema)?;
            }
            _ => return Err(self.unsupported()),
        }
        let mut object = match is_scale {
            true => self.scaled(Some(live), &patched)?,
            false => self.read_patched(decode::DecodedBody { value: patched, complaints: patch.complaints })?,
        };
        let name = self.target.name.clone();
        self.placed(&mut object, &name)?;
        self.is_current(&object, live)?;
        let is_conditional = text(&object, "/metadata/resourceVersion") != text(live, "/metadata/resourceVersion");
        let object = self.managed(Some(live), object)?;
        Ok(ObjectDraft { object, is_conditional })
    }

    /// Decodes a patched object; strict complaints are about the patch.
    fn read_patched(&mut self, body: decode::DecodedBody) -> Result<Value, ApiError> {
        let shown = ErrorValue::bounded(&body.value);
        self.read(body).map_err(|failure| match failure.message.split_once("strict decoding error: ") {
            None => failure,
            Some((_, complaints)) => {
                let detail = format!("strict decoding error: {complaints}");
                let fault = ObjectFault { kind: ErrorKind::Invalid, field: "patch".to_owned(), value: shown, detail };
                ApiError::invalid("", "", "", vec![fault])
            }
        })
    }

    fn unsupported(&self) -> ApiError {
        let own = [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY];
        let accepted: Vec<&str> =
            own.into_iter().filter(|kind| *kind != STRATEGIC_PATCH || self.resource.builtin.is_some()).collect();
        decode::unsupported_media_type(&accepted)
    }

    /// Whether the options are valid for this kind of patch.
    fn options_fit(&self) -> Result<(), ApiError> {
        let is_apply = self.call.content_type == APPLY;
        let fault = match (is_apply, self.call.query.text("fieldManager"), self.call.query.has("force")) {
            (true, "", _) => (ErrorKind::Required, "fieldManager", "is required for apply patch"),
            (false, _, true) => (ErrorKind::Forbidden, "force", "may not be specified for non-apply patch"),
            _ => return Ok(()),
        };
        let (kind, field, detail) = fault;
        let fault =
            ObjectFault { kind, field: field.to_owned(), value: ErrorValue::NOTHING, detail: detail.to_owned() };
        Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", vec![fault]))
    }

    /// Server-side apply, which creates missing objects.
    fn apply(&mut self, live: Option<&Value>) -> Result<ObjectDraft, ApiError> {
        let body = decode::body(self.call)?;
        let config = body.value;
        if !config.is_object() {
            return Err(ApiError::bad_request("error decoding YAML: the configuration is no object"));
        }
        if config
            .pointer("/metadata/managedFields")
            .is_some_and(|managers| *managers != json!([]) && !managers.is_null())
        {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        self.is_of_kind(&config)?;
        if live.is_none() && !matches!(self.target.subresource.as_str(), "") {
            return Err(ApiError::not_found(self.resource, &self.target.name));
        }
        let uid = text(&config, "/metadata/uid");
        if live.is_none() && !uid.is_empty() {
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(ApiError::conflict(self.resource, &self.target.name, &why));
        }
        decode::complain(self.resource, body.complaints, Vec::new(), self.validation, &mut self.warnings)?;
        let (api_version, merging, reset) = (self.resource.api_version(), self.resource.merging(), self.reset());
        let convert = self.converter();
        let request = ssa::ApplyRequest {
            subresource: &self.target.subresource,
            reset: &reset,
            convert: Some(&convert),
            ..ssa::ApplyRequest::new(&self.manager, &api_version, &self.now, &merging)
        };
        let managers = match live.map(ManagedFields::all_of) {
            Some(Ok(managers)) => managers,
            Some(Err(why)) => return Err(ApiError::internal(why.to_string())),
            None => Vec::new(),
        };
        let force = self.call.query.flag("force");
        let applied = ssa::apply(live, &managers, &config, &request, force).map_err(|refused| match refused {
            ApplyRefused::Conflicts(conflicts) => ApiError::owned(&conflicts),
            other => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", other.to_string()),
        })?;
        let mut object = with_managers(applied.object, &applied.managers);
        metadata::coerce(self.resource, &mut object)?;
        let unknown = shape::shaped(self.resource, &mut object)?;
        decode::complain(self.resource, Vec::new(), unknown, self.validation, &mut self.warnings)?;
        let name = self.target.name.clone();
        self.placed(&mut object, &name)?;
        if let Some(live) = live {
            self.is_current(&config, live)?;
        }
        Ok(ObjectDraft { object, is_conditional: !text(&config, "/metadata/resourceVersion").is_empty() })
    }

    fn is_of_kind(&self, config: &Value) -> Result<(), ApiError> {
        let (given, wanted) = (text(config, "/apiVersion"), self.resource.api_version());
        if text(config, "/kind").is_empty() {
            return Err(ApiError::bad_request("Object 'Kind' is missing in the configuration"));
        }
        if given != wanted || text(config, "/kind") != self.resource.kind {
            return Err(ApiError::bad_request(format!(
                "the object to apply is {given}, Kind={}, and the path is that of {wanted}, Kind={}",
                text(config, "/kind"),
                self.resource.kind
            )));
        }
        Ok(())
    }
}

fn json_patched(object: &mut Value, patch: Value) -> Result<(), ApiError> {
    let patch: json_patch::Patch = serde_json::from_value(patch)
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    // As on kube-apiserver, a test for `null` holds for a missing value, if its parent is there.
    let is_missing = |object: &Value, operation: &PatchOperation| match operation {
        PatchOperation::Test(TestOperation { path, value: Value::Null }) => {
            let parent = path.parent().and_then(|parent| object.pointer(parent.as_str()));
            parent.is_some_and(Value::is_object) && object.pointer(path.as_str()).is_none()
        }
        _ => false,
    };
    let mut apply = |operation: PatchOperation| match is_missing(object, &operation) {
        true => Ok(()),
        false => json_patch::patch_unsafe(object, &json_patch::Patch(vec![operation])),
    };
    patch.0.into_iter().try_for_each(&mut apply).map_err(|error| {
        let mut failure = ApiError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            format!("the server rejected our request due to an error in our request: {error}"),
        );
        "the server rejected our request due to an error in our request".clone_into(&mut failure.message);
        failure
    })
}

fn merge(object: &mut Value, patch: Value) -> Result<(), ApiError> {
    if !patch.is_object() {
        return Err(ApiError::bad_request("error decoding patch: a merge patch is an object"));
    }
    json_patch::merge(object, &patch);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_for_null_holds_for_a_missing_value_of_an_object() {
        // As in evanphx/json-patch, which kube-apiserver uses.
        let object = json!({"a": {"b": 1, "c": null}, "d": [1]});
        for (path, value, holds) in [
            ("/a/x", json!(null), true),
            ("/a/c", json!(null), true),
            ("/x", json!(null), true),
            ("/a/b", json!(null), false),
            ("/a/x", json!(1), false),
            ("/x/y", json!(null), false),
            ("/d/1", json!(null), false),
            ("/a/b", json!(1), true),
        ] {
            let patch = json!([{"op": "test", "path": path, "value": value}, {"op": "add", "path": "/e", "value": 2}]);
            let mut patched = object.clone();
            assert_eq!(json_patched(&mut patched, patch).is_ok(), holds, "{path} {value}");
            assert_eq!(patched.get("e").is_some(), holds, "{path} {value}");
        }
    }
}
