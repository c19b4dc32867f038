//! Checks by `managedFields` alone whether an object still has the applied fields.
//!
//! The entries show which lists and maps a server merges, so no schema is needed.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::literal::equal;
use super::set::FieldNode;
use super::{ElementPath, FieldSet, ManagedFields, PathElement};

/// Fields of every object that no entry lists.
const IDENTITY: [&[&str]; 5] =
    [&["apiVersion"], &["kind"], &["metadata", "name"], &["metadata", "namespace"], &["metadata", "uid"]];

/// Whether applying `sent` again would change nothing: it has exactly the fields of its manager's entry, with the
/// values of `live`.
///
/// Only true is conclusive: the entry does not say why the fields of a map are not listed, because the schema treats
/// the map as atomic, or because it was empty when applied. Maps that are not listed by field are therefore compared
/// only if `atomic` contains them; there `*` matches every entry of a list.
pub fn is_as_applied(
    live: &Value,
    sent: &Value,
    own: &ManagedFields,
    uncompared: &[&[&str]],
    atomic: &[&[&str]],
) -> bool {
    if sent.get("apiVersion").and_then(Value::as_str) != Some(&own.api_version) {
        return false;
    }
    let left_out: Vec<ElementPath> =
        IDENTITY.iter().chain(uncompared).map(|path| ElementPath::from_fields(path)).collect();
    let left_out = FieldSet::from_paths(left_out.iter().map(|path| path.0.as_slice()));
    // Only the members with left out parts are copied.
    let (reduced, whole): (Vec<_>, Vec<_>) = own.fields.nodes().partition(|(step, _)| left_out.has_node(step));
    let reduced = FieldSet::from_nodes(reduced).without(&left_out);
    let mut walk = AppliedCheck { path: Vec::new(), left_out: &left_out, atomic };
    let (Value::Object(sent), Value::Object(live)) = (sent, live) else { return false };
    walk.members(sent, live, reduced.nodes().chain(whole))
}

struct AppliedCheck<'a> {
    /// Field names, and `*` for list entries.
    path: Vec<&'a str>,
    left_out: &'a FieldSet,
    atomic: &'a [&'a [&'a str]],
}

impl<'a> AppliedCheck<'a> {
    fn value(&mut self, sent: &'a Value, live: &'a Value, fields: &FieldSet) -> bool {
        if fields.is_empty() {
            let is_whole = match sent {
                Value::Object(members) => members.is_empty() || self.atomic.contains(&self.path.as_slice()),
                _ => true,
            };
            return is_whole && equal(sent, live);
        }
        match (sent, live) {
            (Value::Object(sent), Value::Object(live)) => self.members(sent, live, fields.nodes()),
            (Value::Array(sent), Value::Array(live)) => self.items(sent, live, fields),
            _ => false,
        }
    }

    fn members<'f>(
        &mut self,
        sent: &'a Map<String, Value>,
        live: &'a Map<String, Value>,
        fields: impl Iterator<Item = (&'f PathElement, &'f FieldNode)>,
    ) -> bool {
        let mut listed: BTreeMap<&str, &FieldNode> = BTreeMap::new();
        for (step, node) in fields {
            let PathElement::Field(name) = step else { return false };
            listed.insert(name, node);
        }
        for (name, value) in sent {
            self.path.push(name);
            let is_same = match listed.remove(name.as_str()) {
                Some(node) => live.get(name).is_some_and(|live| self.value(value, live, &node.below)),
                None => self.is_left_out(value),
            };
            self.path.pop();
            if !is_same {
                return false;
            }
        }
        listed.is_empty()
    }

    /// Whether a value has nothing to compare.
    fn is_left_out(&self, value: &Value) -> bool {
        let path = ElementPath::from_fields(&self.path);
        if self.left_out.has(&path.0) {
            return true;
        }
        let Value::Object(members) = value else { return false };
        let below = |name: &String| {
            let member = [path.0.clone(), vec![PathElement::field(name)]].concat();
            self.left_out.has(&member)
        };
        !members.is_empty() && members.keys().all(below)
    }

    /// The entries of a merged list. Those of `live` may have others between them, in the same order.
    fn items(&mut self, sent: &'a [Value], live: &'a [Value], fields: &FieldSet) -> bool {
        let mut listed: Vec<(&PathElement, &FieldNode)> = fields.nodes().collect();
        let mut rest = live.iter();
        for item in sent {
            let Some(at) = listed.iter().position(|(step, _)| names(step, item)) else { return false };
            let (step, node) = listed.swap_remove(at);
            let Some(live) = rest.find(|live| names(step, live)) else { return false };
            self.path.push("*");
            let is_same = self.value(item, live, &node.below);
            self.path.pop();
            if !is_same {
                return false;
            }
        }
        listed.is_empty()
    }
}

/// Whether a step refers to this list entry.
pub(super) fn names(step: &PathElement, item: &Value) -> bool {
    match step {
        PathElement::Key(keys) => {
            keys.iter().all(|(name, key)| item.get(name).is_some_and(|value| equal(value, &key.0)))
        }
        PathElement::Value(value) => equal(item, &value.0),
        PathElement::Field(_) | PathElement::Index(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ssa::{ApplyRequest, MergeSchema, apply};

    const ATOMIC: &[&[&str]] = &[&["spec", "selector"], &["metadata", "ownerReferences", "*"]];
    const UNCOMPARED: &[&[&str]] = &[&["metadata", "annotations", "noise"]];

    fn schema() -> MergeSchema {
        let text = json!({"type": "string"});
        let zone = json!({"type": "object", "properties": {"name": text, "weight": {"type": "integer"}}});
        let zones = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": zone});
        let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": text});
        let whole = json!({"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text});
        let map = json!({"type": "object", "additionalProperties": text});
        let list = json!({"type": "array", "items": text});
        let properties = json!({"zones": zones, "set": set, "selector": whole, "whole": whole, "map": map, "list": list,
            "a": text, "b": text});
        let spec = json!({"type": "object", "properties": properties});
        MergeSchema::from_openapi(&json!({"type": "object", "properties": {"spec": spec}}))
    }

    fn object(spec: Value) -> Value {
        let owner = json!([{"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "u"}]);
        json!({"apiVersion": "g/v1", "kind": "K", "spec": spec, "metadata": {"name": "n", "uid": "u",
            "labels": {"x": "y"}, "annotations": {"noise": "1"}, "ownerReferences": owner}})
    }

    /// The object and its manager's entry after an apply, beside fields of another manager.
    fn applied(sent: &Value, others: &Value) -> (Value, ManagedFields) {
        let schema = schema();
        let request = ApplyRequest::new("engine", "g/v1", "2026-01-01T00:00:00Z", &schema);
        let first = apply(None, &[], sent, &request, true).unwrap();
        let other = ApplyRequest { manager: "other", ..request };
        let both = apply(Some(&first.object), &first.managers, others, &other, true).unwrap();
        let own = both.managers.into_iter().find(|entry| entry.manager == "engine").unwrap();
        (both.object, own)
    }

    fn full() -> Value {
        json!({"a": "1", "zones": [{"name": "x", "weight": 1}, {"name": "y", "weight": 2}], "set": ["p", "q"],
            "selector": {"k": "v"}, "map": {"m": "1", "n": "2"}, "list": ["1", "2"]})
    }

    fn none() -> Value {
        json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"}})
    }

    #[test]
    fn applied_fields_are_compared_and_fields_of_others_ignored() {
        // DEC-15, SSA-01
        let sent = object(full());
        let (live, own) = applied(&sent, &none());
        assert!(is_as_applied(&live, &sent, &own, UNCOMPARED, ATOMIC));
        let mut theirs = none();
        theirs["spec"] = json!({"b": "2", "zones": [{"name": "z", "weight": 9}], "set": ["r"], "map": {"o": "3"}});
        theirs["metadata"]["labels"] = json!({"theirs": "1"});
        let (live, own) = applied(&sent, &theirs);
        assert!(is_as_applied(&live, &sent, &own, UNCOMPARED, ATOMIC));
        let mut noisy = sent.clone();
        noisy["metadata"]["annotations"]["noise"] = json!("2");
        assert!(is_as_applied(&live, &noisy, &own, UNCOMPARED, ATOMIC));
    }

    #[test]
    fn any_difference_of_values_or_ownership_is_one() {
        // DEC-15
        let sent = object(full());
        let (live, own) = applied(&sent, &none());
        for (pointer, value) in [
            ("/spec/a", json!("2")),
            ("/spec/a", Value::Null),
            ("/spec/zones/0/weight", json!(5)),
            ("/spec/zones/0/name", json!("w")),
            ("/spec/zones", json!([{"name": "x", "weight": 1}])),
            ("/spec/zones", json!([{"name": "y", "weight": 2}, {"name": "x", "weight": 1}])),
            ("/spec/zones/1", json!({"name": "y"})),
            ("/spec/set", json!(["p"])),
            ("/spec/set", json!(["p", "q", "r"])),
            ("/spec/selector", json!({"k": "w"})),
            ("/spec/selector", json!({})),
            ("/spec/map", json!({"m": "1"})),
            ("/spec/map", json!({"m": "1", "n": "2", "o": "3"})),
            ("/spec/list", json!(["2", "1"])),
            ("/metadata/labels", json!({})),
            ("/metadata/ownerReferences/0/uid", json!("w")),
            ("/apiVersion", json!("g/v2")),
        ] {
            let mut other = sent.clone();
            *other.pointer_mut(pointer).unwrap() = value.clone();
            assert!(!is_as_applied(&live, &other, &own, UNCOMPARED, ATOMIC), "{pointer} {value} is sent");
            if pointer != "/apiVersion" {
                let mut changed = live.clone();
                *changed.pointer_mut(pointer).unwrap() = value.clone();
                let is_theirs = value == json!({"m": "1", "n": "2", "o": "3"}) || value == json!(["p", "q", "r"]);
                let is_same = is_as_applied(&changed, &sent, &own, UNCOMPARED, ATOMIC);
                assert_eq!(is_same, is_theirs, "{pointer} {value} is there");
            }
        }
        for (pointer, name) in [("/spec", "b"), ("/metadata/annotations", "other")] {
            let (mut more, mut there) = (sent.clone(), live.clone());
            for object in [&mut more, &mut there] {
                object.pointer_mut(pointer).unwrap()[name] = json!("2");
            }
            assert!(!is_as_applied(&there, &more, &own, UNCOMPARED, ATOMIC), "{name} is there, and another's");
        }
    }

    #[test]
    fn a_map_without_a_schema_is_compared_by_the_server() {
        // DEC-15
        for spec in [json!({"whole": {"k": "v"}}), json!({"map": {}})] {
            let sent = object(spec.clone());
            let (mut live, own) = applied(&sent, &none());
            let is_whole = spec["whole"].is_object();
            assert_eq!(is_as_applied(&live, &sent, &own, UNCOMPARED, ATOMIC), !is_whole, "{spec}");
            let mut filled = sent.clone();
            filled["spec"]["map"] = json!({"k": "v"});
            live["spec"]["map"] = json!({"k": "v"});
            assert!(!is_as_applied(&live, &filled, &own, UNCOMPARED, ATOMIC), "{spec}");
        }
    }
}
