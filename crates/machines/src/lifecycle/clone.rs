//! Objects made from templates (CT-14).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::fields::{map_mut, set};
use model::hub::contract::object_kind;
use model::hub::{Object, annotation, label, paths};

/// Metadata that a clone gets in addition to its template.
#[derive(Clone, Debug, Default)]
pub(super) struct CloneExtras {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    /// The only owner reference.
    pub(super) owner: Option<Value>,
}

/// The object that a template describes, with a name, for a Cluster (CT-14.1).
pub(super) fn clone(template: &Object, name: &str, cluster: &str, extra: CloneExtras) -> Object {
    let mut object = Object::from(template.at(paths::TEMPLATE).and_then(Value::as_object).cloned().unwrap_or_default());
    let described = |what: &str| -> Map<String, Value> {
        template.at(&format!("spec.template.metadata.{what}")).and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let (mut labels, mut annotations) = (described("labels"), described("annotations"));
    labels.extend(extra.labels.into_iter().map(|(name, value)| (name, json!(value))));
    labels.insert(label::CLUSTER_NAME.to_owned(), json!(cluster));
    annotations.extend(extra.annotations.into_iter().map(|(name, value)| (name, json!(value))));
    annotations.insert(annotation::CLONED_FROM_NAME.to_owned(), json!(template.name()));
    let kind = format!("{}.{}", template.kind(), template.group());
    annotations.insert(annotation::CLONED_FROM_KIND.to_owned(), json!(kind));
    // The metadata of the template itself is not copied, everything else is (CT-14.2).
    object.remove("metadata");
    object.remove("status");
    let metadata = map_mut(&mut object, "metadata");
    metadata.insert("name".to_owned(), json!(name));
    metadata.insert("namespace".to_owned(), json!(template.namespace()));
    metadata.insert("labels".to_owned(), Value::Object(labels));
    metadata.insert("annotations".to_owned(), Value::Object(annotations));
    if let Some(owner) = extra.owner {
        metadata.insert("ownerReferences".to_owned(), json!([owner]));
    }
    if object.api_version().is_empty() {
        set(&mut object, "apiVersion", json!(template.api_version()));
    }
    if object.kind().is_empty() {
        set(&mut object, "kind", json!(object_kind(template.kind())));
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_has_what_its_template_describes_and_says_where_it_is_from() {
        // CT-14.1, CT-14.2
        let template = Object::try_from(json!({
            "apiVersion": "infrastructure.example.com/v1", "kind": "FooMachineTemplate",
            "metadata": {"name": "small", "namespace": "ns", "labels": {"own": "no"}},
            "spec": {"template": {
                "metadata": {
                    "labels": {"a": "1", "b": "1"},
                    "annotations": {"cluster.x-k8s.io/cloned-from-name": "no", "note": "x"},
                    "finalizers": ["f"], "uid": "u", "resourceVersion": "7",
                },
                "spec": {"size": 3},
            }},
        }))
        .unwrap();
        let extra = CloneExtras {
            labels: BTreeMap::from([("b".to_owned(), "2".to_owned())]),
            annotations: BTreeMap::new(),
            owner: Some(json!({"name": "set"})),
        };
        let clone = clone(&template, "m-1", "demo", extra);
        let want = json!({
            "apiVersion": "infrastructure.example.com/v1", "kind": "FooMachine",
            "metadata": {
                "name": "m-1", "namespace": "ns",
                "labels": {"a": "1", "b": "2", "cluster.x-k8s.io/cluster-name": "demo"},
                "annotations": {
                    "note": "x", "cluster.x-k8s.io/cloned-from-name": "small",
                    "cluster.x-k8s.io/cloned-from-groupkind": "FooMachineTemplate.infrastructure.example.com",
                },
                "ownerReferences": [{"name": "set"}],
            },
            "spec": {"size": 3},
        });
        assert_eq!(*clone.as_ref(), want);
    }
}
