//! JSON patches that apply as long as the values which they change, and those that they were computed from, are as they
//! were (DEC-118).
//!
//! A write of other fields by another client, such as the status, is no conflict then. A request that arrives late
//! changes nothing if what it tests was changed since.

use std::collections::BTreeSet;

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation};
use serde_json::{Value, json};

use model::hub::Object;

/// A patch of an object in a state that was read.
pub(crate) struct TestedPatch<'a> {
    base: &'a Value,
    tests: Vec<PatchOperation>,
    changes: Vec<PatchOperation>,
    /// Parents that the object does not have.
    made: BTreeSet<PointerBuf>,
}

impl<'a> TestedPatch<'a> {
    /// An empty patch of an object, which does not apply to a later object of its name, or once it is being deleted.
    pub(crate) fn for_object(base: &'a Object) -> Self {
        let mut patch =
            TestedPatch { base: base.as_ref(), tests: Vec::new(), changes: Vec::new(), made: BTreeSet::new() };
        patch.test(&["metadata", "uid"]);
        patch.test(&["metadata", "deletionTimestamp"]);
        patch
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Requires that a value stays as it is. On kube-apiserver, `null` stands for a missing one as well.
    pub(crate) fn test(&mut self, path: &[&str]) {
        let path = pointer(path);
        let value = self.base.pointer(path.as_str()).cloned().unwrap_or_default();
        self.tests.push(PatchOperation::Test(TestOperation { path, value }));
    }

    /// Requires that the spec stays as it is.
    pub(crate) fn test_spec(&mut self) {
        self.test(&["metadata", "generation"]);
    }

    /// Adds a change without a test of its former value.
    pub(crate) fn change(&mut self, operation: PatchOperation) {
        self.changes.push(operation);
    }

    /// Changes a value that has to be as it is until then; `None` removes it.
    pub(crate) fn set(&mut self, path: &[&str], value: Option<Value>) {
        let here = self.base.pointer(pointer(path).as_str()).filter(|here| !here.is_null());
        if value.is_none() && here.is_none() {
            return;
        }
        let mut has_parents = true;
        for (length, _) in path.iter().enumerate().skip(1) {
            has_parents = self.ensure_parent(path.get(..length).unwrap_or_default()) && has_parents;
        }
        if has_parents {
            self.test(path);
        }
        let path = pointer(path);
        self.changes.push(match value {
            Some(value) => PatchOperation::Add(AddOperation { path, value }),
            None => PatchOperation::Remove(RemoveOperation { path }),
        });
    }

    /// Creates an object at a path unless there is one; returns whether there is.
    fn ensure_parent(&mut self, path: &[&str]) -> bool {
        let at = pointer(path);
        if self.base.pointer(at.as_str()).is_some_and(Value::is_object) {
            return true;
        }
        if self.made.insert(at.clone()) {
            // Nothing can be below a parent that is missing as well.
            let above = pointer(path.get(..path.len() - 1).unwrap_or_default());
            if self.base.pointer(above.as_str()).is_some_and(Value::is_object) {
                self.test(path);
            }
            self.changes.push(PatchOperation::Add(AddOperation { path: at, value: json!({}) }));
        }
        false
    }

    /// Changes the status, field by field. Conditions are changed by their places in a list, which are tested.
    pub(crate) fn set_status(&mut self, status: &Value) {
        self.set_below(&mut vec!["status".to_owned()], status);
    }

    fn set_below(&mut self, path: &mut Vec<String>, wanted: &Value) {
        let tokens: Vec<&str> = path.iter().map(String::as_str).collect();
        let here = self.base.pointer(pointer(&tokens).as_str());
        match (here, wanted) {
            (Some(here), wanted) if here == wanted => {}
            (Some(Value::Object(here)), Value::Object(wanted)) => {
                for (name, value) in wanted {
                    path.push(name.clone());
                    self.set_below(path, value);
                    path.pop();
                }
                for name in here.keys().filter(|name| !wanted.contains_key(*name)) {
                    path.push(name.clone());
                    self.set(&path.iter().map(String::as_str).collect::<Vec<_>>(), None);
                    path.pop();
                }
            }
            (Some(Value::Array(here)), Value::Array(wanted))
                if tokens.last() == Some(&"conditions") && wanted.len() >= here.len() =>
            {
                for (position, value) in wanted.iter().enumerate() {
                    self.set_condition(&tokens, position, here.get(position), value);
                }
            }
            _ => self.set(&tokens, Some(wanted.clone())),
        }
    }

    fn set_condition(&mut self, list: &[&str], position: usize, here: Option<&Value>, wanted: &Value) {
        if here == Some(wanted) {
            return;
        }
        let index = position.to_string();
        let value = wanted.clone();
        let change = if here.is_some() {
            self.test(&[list, &[&index]].concat());
            PatchOperation::Replace(ReplaceOperation { path: pointer(&[list, &[&index]].concat()), value })
        } else {
            // Otherwise a write that arrives late would add the condition once more.
            self.test(list);
            PatchOperation::Add(AddOperation { path: pointer(&[list, &["-"]].concat()), value })
        };
        self.changes.push(change);
    }

    /// The patch with its tests.
    pub(crate) fn tested(&self) -> kube::api::Patch<Value> {
        kube::api::Patch::Json(Patch(self.tests.iter().chain(&self.changes).cloned().collect()))
    }

    /// The patch of the version that was read, and of no other, without its tests.
    pub(crate) fn versioned(&self) -> kube::api::Patch<Value> {
        let version = self.base.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
        let path = pointer(&["metadata", "resourceVersion"]);
        let version = PatchOperation::Add(AddOperation { path, value: version });
        kube::api::Patch::Json(Patch([version].into_iter().chain(self.changes.iter().cloned()).collect()))
    }
}

#[cfg(test)]
impl TestedPatch<'_> {
    /// The object after the changes.
    pub(crate) fn applied(&self) -> Value {
        let mut object = self.base.clone();
        json_patch::patch(&mut object, &self.changes).expect("changes fit the object that they were made for");
        object
    }
}

fn pointer(path: &[&str]) -> PointerBuf {
    PointerBuf::from_tokens(path.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        Object::try_from(value).unwrap()
    }

    fn operations(patch: &kube::api::Patch<Value>) -> Patch {
        let kube::api::Patch::Json(patch) = patch else { panic!() };
        patch.clone()
    }

    fn cluster() -> Value {
        let condition = |kind: &str| json!({"type": kind, "status": "False"});
        json!({"metadata": {"uid": "u", "generation": 3, "resourceVersion": "7", "labels": {"a/b": "1"}}, "spec": {},
            "status": {"phase": "P", "conditions": [condition("Other"), condition("TopologyReconciled")]}})
    }

    /// The operations as JSON, one in a line.
    fn lines(patch: &TestedPatch<'_>) -> Vec<String> {
        operations(&patch.tested()).0.iter().map(|operation| serde_json::to_string(operation).unwrap()).collect()
    }

    #[test]
    fn changed_values_have_to_be_as_they_were() {
        // DEC-118
        let base = object(cluster());
        let mut patch = TestedPatch::for_object(&base);
        assert!(patch.is_empty());
        patch.set(&["metadata", "labels", "a/b"], Some(json!("2")));
        patch.set(&["metadata", "annotations", "c"], Some(json!("3")));
        patch.set(&["metadata", "annotations", "d"], Some(json!("4")));
        patch.set(&["metadata", "annotations", "gone"], None);
        patch.set(&["spec", "infrastructureRef"], Some(json!({"name": "x"})));
        patch.test_spec();
        assert_eq!(
            lines(&patch),
            [
                r#"{"op":"test","path":"/metadata/uid","value":"u"}"#,
                r#"{"op":"test","path":"/metadata/deletionTimestamp","value":null}"#,
                r#"{"op":"test","path":"/metadata/labels/a~1b","value":"1"}"#,
                r#"{"op":"test","path":"/metadata/annotations","value":null}"#,
                r#"{"op":"test","path":"/spec/infrastructureRef","value":null}"#,
                r#"{"op":"test","path":"/metadata/generation","value":3}"#,
                r#"{"op":"add","path":"/metadata/labels/a~1b","value":"2"}"#,
                r#"{"op":"add","path":"/metadata/annotations","value":{}}"#,
                r#"{"op":"add","path":"/metadata/annotations/c","value":"3"}"#,
                r#"{"op":"add","path":"/metadata/annotations/d","value":"4"}"#,
                r#"{"op":"add","path":"/spec/infrastructureRef","value":{"name":"x"}}"#,
            ]
        );
        let mut changed = cluster();
        json_patch::patch(&mut changed, &operations(&patch.versioned())).unwrap();
        assert_eq!(changed["metadata"]["annotations"], json!({"c": "3", "d": "4"}));
        assert_eq!(changed["metadata"]["resourceVersion"], "7");
    }

    #[test]
    fn a_status_is_changed_without_the_conditions_of_others() {
        // ST-18, DEC-118
        let base = object(cluster());
        let mut wanted = cluster()["status"].take();
        wanted["conditions"][1]["status"] = json!("True");
        wanted["conditions"].as_array_mut().unwrap().push(json!({"type": "New"}));
        wanted["deprecated"] = json!({"v1beta1": {"conditions": []}});
        wanted.as_object_mut().unwrap().remove("phase");
        let mut patch = TestedPatch::for_object(&base);
        patch.set_status(&wanted);
        assert_eq!(
            lines(&patch)[2..],
            [
                r#"{"op":"test","path":"/status/conditions/1","value":{"status":"False","type":"TopologyReconciled"}}"#,
                r#"{"op":"test","path":"/status/conditions","value":[{"status":"False","type":"Other"},{"status":"False","type":"TopologyReconciled"}]}"#,
                r#"{"op":"test","path":"/status/deprecated","value":null}"#,
                r#"{"op":"test","path":"/status/phase","value":"P"}"#,
                r#"{"op":"replace","path":"/status/conditions/1","value":{"status":"True","type":"TopologyReconciled"}}"#,
                r#"{"op":"add","path":"/status/conditions/-","value":{"type":"New"}}"#,
                r#"{"op":"add","path":"/status/deprecated","value":{"v1beta1":{"conditions":[]}}}"#,
                r#"{"op":"remove","path":"/status/phase"}"#,
            ]
        );
        let mut changed = cluster();
        json_patch::patch(&mut changed, &operations(&patch.versioned())).unwrap();
        assert_eq!(changed["status"], wanted);
        let mut none = cluster();
        none.as_object_mut().unwrap().remove("status");
        let none = object(none);
        let mut patch = TestedPatch::for_object(&none);
        patch.set_status(&wanted);
        assert_eq!(lines(&patch)[2], r#"{"op":"test","path":"/status","value":null}"#);
    }
}
