//! Objects as rows of a table, which is how kubectl shows them.

use serde_json::{Value, json};

use super::registry::Resource;

/// A `meta.k8s.io/v1` Table of objects.
///
/// `list` is the metadata of the list; `include` says what comes with each row: `None`, `Metadata` or `Object`.
pub(super) fn render(resource: &Resource, objects: &[&Value], list: Value, include: &str) -> Value {
    let definitions = json!([
        {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
        {"name": "Age", "type": "date", "format": "", "description": "", "priority": 0},
    ]);
    let _ = resource;
    let row = |object: &&Value| {
        let mut row = json!({"cells": [object["metadata"]["name"], object["metadata"]["creationTimestamp"]]});
        match include {
            "None" => {}
            "Object" => row["object"] = (*object).clone(),
            _ => {
                row["object"] = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                    "metadata": object["metadata"]});
            }
        }
        row
    };
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list, "columnDefinitions": definitions,
        "rows": objects.iter().map(row).collect::<Vec<_>>()})
}
