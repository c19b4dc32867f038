//! The scale subresource: the replicas of an object as a separate object.

use serde_json::{Map, Value, json};

use crate::storage::kind_schema::ObjectFault;
use crate::storage::registry::{ServedResource, at_path, steps};
use crate::storage::status::ApiError;
use schema::field::{ErrorKind, ErrorValue};

/// The scale of an object; `None` if its kind has none.
pub(super) fn read_scale(resource: &ServedResource, object: &Value) -> Option<Value> {
    let paths = resource.scale.as_ref()?;
    let number = |path: &str| at_path(object, path).and_then(Value::as_i64).unwrap_or_default();
    let metadata = &object["metadata"];
    let mut own = Map::new();
    for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = metadata.get(name) {
            own.insert(name.to_owned(), value.clone());
        }
    }
    let mut spec = Map::new();
    if number(&paths.spec_replicas) != 0 {
        spec.insert("replicas".to_owned(), json!(number(&paths.spec_replicas)));
    }
    let mut status = json!({"replicas": number(&paths.status_replicas)});
    if let Some(selector) = at_path(object, &paths.label_selector).and_then(Value::as_str)
        && !paths.label_selector.is_empty()
        && !selector.is_empty()
    {
        status["selector"] = json!(selector);
    }
    Some(json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": own, "spec": spec, "status": status}))
}

/// The scale of an object with replicas.
///
/// # Errors
/// 500 without replicas, like a server.
pub(super) fn shown(resource: &ServedResource, object: &Value) -> Result<Value, ApiError> {
    let path = resource.scale.as_ref().map_or("", |scale| &scale.spec_replicas);
    if at_path(object, path).is_none() {
        return Err(ApiError::internal(format!("the spec replicas field {path:?} does not exist")));
    }
    read_scale(resource, object).ok_or_else(ApiError::no_such_path)
}

/// The object with the replicas of a scale.
pub(super) fn applied(resource: &ServedResource, object: &Value, scale: &Value) -> Option<Value> {
    let path = steps(&resource.scale.as_ref()?.spec_replicas);
    let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default();
    let mut object = object.clone();
    let mut at = &mut object;
    for step in path {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[step];
    }
    *at = json!(replicas);
    if let Some(version) = scale.pointer("/metadata/resourceVersion") {
        object["metadata"]["resourceVersion"] = version.clone();
    }
    Some(object)
}

/// Errors in the replicas of an object.
pub(super) fn fault(resource: &ServedResource, object: &Value) -> Option<ObjectFault> {
    let path = &resource.scale.as_ref()?.spec_replicas;
    let replicas = at_path(object, path)?;
    let is_number = replicas.as_i64().is_some_and(|count| (0..=i64::from(i32::MAX)).contains(&count));
    (!is_number).then(|| ObjectFault {
        kind: ErrorKind::Invalid,
        field: path.clone(),
        value: ErrorValue::bounded(replicas),
        detail: "should be a non-negative integer".to_owned(),
    })
}
