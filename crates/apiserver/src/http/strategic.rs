//! Strategic merge patches for built-in kinds: map lists are merged by their keys
//! ([specification](https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md)).

use serde_json::{Map, Value, json};

use crate::storage::status::ApiError;

/// Merges a patch into an object by the schema of its kind.
///
/// # Errors
/// 400 for an invalid patch.
pub(super) fn merge(object: &mut Value, patch: Value, schema: &Value) -> Result<(), ApiError> {
    let Value::Object(mut patch) = patch else {
        return Err(ApiError::bad_request("error decoding patch: a strategic merge patch is an object"));
    };
    if let Some(metadata) = patch.remove("metadata") {
        let schema = json!({"properties": {
            "finalizers": {"x-kubernetes-list-type": "set"},
            "ownerReferences": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"]},
        }});
        value(&mut object["metadata"], metadata, &schema);
    }
    value(object, Value::Object(patch), schema);
    Ok(())
}

fn value(target: &mut Value, patch: Value, schema: &Value) {
    match patch {
        Value::Object(patch) => members(target, patch, schema),
        Value::Array(patch) => match (schema["x-kubernetes-list-type"].as_str(), &mut *target) {
            (Some("map"), Value::Array(entries)) => keyed(entries, patch, schema),
            (Some("set"), Value::Array(entries)) => {
                for entry in patch {
                    if !entries.contains(&entry) {
                        entries.push(entry);
                    }
                }
            }
            _ => *target = Value::Array(patch.into_iter().filter(|entry| entry.get("$patch").is_none()).collect()),
        },
        scalar => *target = scalar,
    }
}

fn members(target: &mut Value, mut patch: Map<String, Value>, schema: &Value) {
    let directive = patch.remove("$patch");
    patch.remove("$retainKeys");
    if directive == Some(json!("replace")) || !target.is_object() {
        *target = json!({});
    }
    if directive == Some(json!("delete")) {
        *target = Value::Null;
        return;
    }
    let Value::Object(members) = target else { return };
    for (name, patch) in patch {
        if name.starts_with("$setElementOrder/") {
            continue;
        }
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            let gone = patch.as_array().cloned().unwrap_or_default();
            if let Some(Value::Array(entries)) = members.get_mut(list) {
                entries.retain(|entry| !gone.contains(entry));
            }
            continue;
        }
        if patch.is_null() {
            members.remove(&name);
            continue;
        }
        let node = schema.get("properties").and_then(|properties| properties.get(&name));
        let node = node.or_else(|| schema.get("additionalProperties")).unwrap_or(&Value::Null);
        value(members.entry(name).or_insert(Value::Null), patch, node);
    }
}

/// Merges entries with equal keys.
fn keyed(entries: &mut Vec<Value>, patch: Vec<Value>, schema: &Value) {
    let keys: Vec<&str> =
        schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if patch.iter().any(|entry| entry["$patch"] == "replace") {
        *entries = patch.into_iter().filter(|entry| entry.get("$patch").is_none()).collect();
        return;
    }
    for patch in patch {
        let found = entries.iter().position(|entry| keys.iter().all(|key| entry.get(key) == patch.get(key)));
        let is_gone = patch["$patch"] == "delete";
        match found {
            Some(at) if is_gone => drop(entries.remove(at)),
            Some(at) => {
                if let Some(entry) = entries.get_mut(at) {
                    value(entry, patch, &schema["items"]);
                }
            }
            None if is_gone => {}
            None => entries.push(patch),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_merged_by_uid_and_finalizers_as_a_set() {
        let mut object = json!({"metadata": {"finalizers": ["a"], "labels": {"x": "1", "y": "2"},
            "ownerReferences": [{"uid": "1", "name": "one"}, {"uid": "2", "name": "two"}]}, "data": {"k": "v"}});
        let patch = json!({"metadata": {"finalizers": ["b"], "labels": {"x": null},
            "ownerReferences": [{"uid": "2", "controller": true}, {"$patch": "delete", "uid": "1"}],
            "$setElementOrder/ownerReferences": [{"uid": "2"}]}, "data": {"l": "w"}});
        merge(&mut object, patch, &Value::Null).unwrap();
        let want = json!({"metadata": {"finalizers": ["a", "b"], "labels": {"y": "2"},
            "ownerReferences": [{"uid": "2", "name": "two", "controller": true}]}, "data": {"k": "v", "l": "w"}});
        assert_eq!(object, want);
        let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}, "data": {"$patch": "replace", "n": "x"}});
        merge(&mut object, patch, &Value::Null).unwrap();
        assert_eq!((&object["metadata"]["finalizers"], &object["data"]), (&json!(["b"]), &json!({"n": "x"})));
        assert!(merge(&mut object, json!([]), &Value::Null).is_err());
    }
}
