//! The part of an object that is sent.

use serde_json::{Map, Value};

/// Paths that are sent; others stay with their owners (SSA-02).
pub const SENT: &[&[&str]] = &[
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "uid"],
    &["metadata", "labels"],
    &["metadata", "annotations"],
    &["metadata", "ownerReferences"],
    &["spec"],
];

/// An object reduced to allowed paths without ignored ones (SSA-02, SSA-03, SSA-04).
///
/// Keeps every allowed path with its ancestors and descendants, except ignored paths. A map that becomes empty is
/// removed; one that was empty stays. Lists are kept as a whole.
#[must_use]
pub fn reduce(object: &Value, allowed: &[&[&str]], ignored: &[&[&str]]) -> Value {
    let Value::Object(members) = object else { return object.clone() };
    let allowed = filtered(members, &mut Vec::new(), &|path| match path {
        path if allowed.iter().any(|allowed| path.starts_with(allowed)) => RetainedPart::Whole,
        path if allowed.iter().any(|allowed| allowed.starts_with(path)) => RetainedPart::Some,
        _ => RetainedPart::Nothing,
    });
    if ignored.is_empty() {
        return Value::Object(allowed);
    }
    Value::Object(filtered(&allowed, &mut Vec::new(), &|path| match path {
        path if ignored.contains(&path) => RetainedPart::Nothing,
        path if ignored.iter().any(|ignored| ignored.starts_with(path)) => RetainedPart::Some,
        _ => RetainedPart::Whole,
    }))
}

/// Whether [`reduce`] with these paths, and none to ignore, would keep all of an object.
#[must_use]
pub fn is_reduced(object: &Value, allowed: &[&[&str]]) -> bool {
    match object {
        Value::Object(members) => stays(members, &mut Vec::new(), allowed),
        _ => true,
    }
}

fn stays<'a>(members: &'a Map<String, Value>, path: &mut Vec<&'a str>, allowed: &[&[&str]]) -> bool {
    members.iter().all(|(name, value)| {
        path.push(name);
        let is_whole = allowed.iter().any(|allowed| path.starts_with(allowed));
        let is_above = allowed.iter().any(|allowed| allowed.starts_with(path));
        let is_left = match value {
            _ if is_whole => true,
            Value::Object(members) if is_above => stays(members, path, allowed),
            _ => is_above,
        };
        path.pop();
        is_left
    })
}

/// The retained part of the value at a path.
enum RetainedPart {
    Whole,
    /// Some fields of a map; other values stay unchanged.
    Some,
    Nothing,
}

fn filtered<'a>(
    members: &'a Map<String, Value>,
    path: &mut Vec<&'a str>,
    part: &impl Fn(&[&str]) -> RetainedPart,
) -> Map<String, Value> {
    let mut left = Map::new();
    for (name, value) in members {
        path.push(name);
        let value = match (part(path), value) {
            (RetainedPart::Nothing, _) => None,
            (RetainedPart::Some, Value::Object(members)) if !members.is_empty() => {
                Some(filtered(members, path, part)).filter(|left| !left.is_empty()).map(Value::Object)
            }
            (RetainedPart::Some | RetainedPart::Whole, value) => Some(value.clone()),
        };
        path.pop();
        left.extend(value.map(|value| (name.clone(), value)));
    }
    left
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// SSA-02
    #[test]
    fn only_what_is_allowed_is_sent() {
        let object = json!({
            "apiVersion": "v1", "kind": "K", "status": {"a": 1}, "other": {},
            "metadata": {"name": "n", "namespace": "ns", "uid": "u", "generation": 3, "resourceVersion": "7",
                "labels": {"a": "b"}, "annotations": {}, "ownerReferences": [{"uid": "o"}], "finalizers": ["f"]},
            "spec": {"a": {}, "list": [{"status": 1}]},
        });
        let sent = json!({
            "apiVersion": "v1", "kind": "K",
            "metadata": {"name": "n", "namespace": "ns", "uid": "u", "labels": {"a": "b"}, "annotations": {},
                "ownerReferences": [{"uid": "o"}]},
            "spec": {"a": {}, "list": [{"status": 1}]},
        });
        assert_eq!(reduce(&object, SENT, &[]), sent);
        assert!(!is_reduced(&object, SENT) && is_reduced(&sent, SENT));
    }

    /// SSA-03
    #[test]
    fn ignored_paths_are_dropped_from_what_is_allowed() {
        let ignored: &[&[&str]] = &[&["spec", "endpoint", "host"], &["spec", "endpoint", "port"]];
        for (spec, left) in [
            (json!({"endpoint": {"host": "", "port": 0, "x": 1}}), json!({"spec": {"endpoint": {"x": 1}}})),
            (json!({"endpoint": {"host": ""}, "y": 1}), json!({"spec": {"y": 1}})),
            (json!({"endpoint": "text"}), json!({"spec": {"endpoint": "text"}})),
        ] {
            assert_eq!(reduce(&json!({"spec": spec, "status": 1}), SENT, ignored), left);
        }
    }

    /// SSA-04
    #[test]
    fn maps_that_become_empty_go_and_maps_that_were_empty_stay() {
        let ignored: &[&[&str]] = &[&["spec", "a", "b"]];
        assert_eq!(reduce(&json!({"spec": {"a": {"b": 1}}}), SENT, ignored), json!({}));
        assert_eq!(reduce(&json!({"spec": {"a": {}}}), SENT, ignored), json!({"spec": {"a": {}}}));
        assert_eq!(reduce(&json!({"spec": {"a": [{"b": 1}]}}), SENT, ignored), json!({"spec": {"a": [{"b": 1}]}}));
        assert_eq!(reduce(&json!({"metadata": {"generation": 1}, "spec": {}}), SENT, &[]), json!({"spec": {}}));
        assert_eq!(reduce(&json!({"metadata": {}}), SENT, &[]), json!({"metadata": {}}));
        for whole in [json!({"metadata": {}}), json!({"metadata": "text"}), json!({"spec": {"status": 1}}), json!([1])]
        {
            assert!(is_reduced(&whole, SENT) && reduce(&whole, SENT, &[]) == whole, "{whole}");
        }
        assert!(!is_reduced(&json!({"metadata": {"generation": 1}, "spec": {}}), SENT));
        assert_eq!(reduce(&json!([1]), SENT, ignored), json!([1]));
    }
}
