//! Objects of providers: fields that the file does not mention, and that were not applied
//! before. Defaults of a provider are such fields.

use serde_json::{Map, Value};

use model::hub::annotation;
use model::wire::manifest::Manifest;
use schema::ssa::{FieldSet, ManagedFields, ManagedOperation, PathElement};

/// Copies the fields that the API server and webhooks have set in a stored object of a provider, if the stored object
/// records the applied fields. Without a record, the file is used unchanged.
pub fn keep_defaults(new: &mut Manifest, stored: &Manifest) {
    if new.api_version != stored.api_version || new.value == stored.value {
        return;
    }
    let Some(before) = LastAppliedFields::from_stored(&stored.value) else { return };
    let Some(spec) = stored.value.get("spec") else { return };
    let mut path = vec![PathElement::field("spec")];
    if let Some(kept) = before.applied_to(spec, new.value.get("spec"), &mut path)
        && let Some(members) = new.value.as_object_mut()
    {
        members.insert("spec".to_owned(), kept);
    }
}

/// The fields that were applied before.
enum LastAppliedFields {
    /// The annotation of `kubectl apply`.
    Configuration(Value),
    /// The field owners in `managedFields`.
    Fields(FieldSet),
}

impl LastAppliedFields {
    /// `None` if the object has no record.
    fn from_stored(stored: &Value) -> Option<Self> {
        let annotations = stored.pointer("/metadata/annotations");
        let text = annotations.and_then(|all| all.get(annotation::LAST_APPLIED)).and_then(Value::as_str);
        if let Some(configuration) = text.and_then(|text| golang::json::value(text).ok()) {
            return Some(LastAppliedFields::Configuration(configuration));
        }
        let entries = ManagedFields::all_of(stored).ok()?.into_iter();
        let applied = entries.filter(|entry| entry.operation == ManagedOperation::Apply).map(|entry| entry.fields);
        applied.reduce(|all, fields| all.union(&fields)).map(LastAppliedFields::Fields)
    }

    /// The stored value after a file has been applied; none if it is removed.
    fn applied_to(&self, stored: &Value, new: Option<&Value>, path: &mut Vec<PathElement>) -> Option<Value> {
        let Some(new) = new else { return (!self.has(path)).then(|| stored.clone()) };
        if self.is_same(path, new) {
            return Some(stored.clone());
        }
        let (Value::Object(old), Value::Object(members)) = (stored, new) else { return Some(new.clone()) };
        let mut merged = Map::new();
        for (name, value) in members {
            path.push(PathElement::field(name));
            let value = old.get(name).and_then(|old| self.applied_to(old, Some(value), path)).unwrap_or(value.clone());
            merged.insert(name.clone(), value);
            path.pop();
        }
        for (name, old) in old.iter().filter(|(name, _)| !members.contains_key(*name)) {
            path.push(PathElement::field(name));
            merged.extend(self.applied_to(old, None, path).map(|value| (name.clone(), value)));
            path.pop();
        }
        Some(Value::Object(merged))
    }

    /// Whether anything at or below a path was applied.
    fn has(&self, path: &[PathElement]) -> bool {
        match self {
            LastAppliedFields::Configuration(configuration) => at(configuration, path).is_some(),
            LastAppliedFields::Fields(fields) => fields.has_prefix(path),
        }
    }

    /// Whether the same value was applied before, so that a provider has changed the stored value.
    fn is_same(&self, path: &[PathElement], new: &Value) -> bool {
        match self {
            LastAppliedFields::Configuration(configuration) => at(configuration, path) == Some(new),
            LastAppliedFields::Fields(_) => false,
        }
    }
}

fn at<'a>(value: &'a Value, path: &[PathElement]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, step| match step {
        PathElement::Field(name) => value.get(&**name),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use golang::yaml::YamlDocument;
    use model::wire::manifest;

    fn template(metadata: &Value, spec: &Value) -> Manifest {
        let mut value = json!({"apiVersion": "g.io/v1", "kind": "T", "metadata": metadata, "spec": spec});
        value["metadata"]["name"] = json!("t");
        manifest::objects(YamlDocument { line: 1, value, ..YamlDocument::default() }).unwrap().remove(0)
    }

    #[test]
    fn defaults_stay_and_applied_fields_are_removed() {
        // DEC-43
        let applied = json!({"a": "A", "part": {"x": 1, "y": 2}, "list": [{"name": "n"}], "gone": {"z": 1}});
        let stored = json!({"a": "a", "part": {"x": 1, "y": 2, "default": 3}, "list": [{"name": "n", "default": 1}],
            "gone": {"z": 1, "default": 2}, "default": {"w": 1}});
        let file = json!({"a": "A", "part": {"x": 5}, "list": [{"name": "n"}]});
        let configuration = json!({"spec": applied}).to_string();
        let by_kubectl = json!({"annotations": {annotation::LAST_APPLIED: configuration}});
        let fields =
            json!({"f:spec": {"f:a": {}, "f:part": {"f:x": {}, "f:y": {}}, "f:list": {}, "f:gone": {"f:z": {}}}});
        let entry = json!({"manager": "a-user", "operation": "Apply", "apiVersion": "g.io/v1", "fieldsType": "FieldsV1",
            "fieldsV1": fields});
        let by_server = json!({"managedFields": [entry]});
        let kept = json!({"part": {"x": 5, "default": 3}, "default": {"w": 1}});
        for (metadata, a, list) in [
            (by_kubectl, json!("a"), json!([{"name": "n", "default": 1}])),
            // The record does not say which value was applied.
            (by_server, json!("A"), json!([{"name": "n"}])),
        ] {
            let mut want = kept.clone();
            (want["a"], want["list"]) = (a, list);
            let mut new = template(&json!({}), &file);
            keep_defaults(&mut new, &template(&metadata, &stored));
            assert_eq!(new.value["spec"], want, "{metadata}");
        }
        let mut new = template(&json!({}), &file);
        keep_defaults(&mut new, &template(&json!({}), &stored));
        assert_eq!(new.value["spec"], file, "nothing is known");
    }
}
