//! The parts of CustomResourceDefinitions that topologies need.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use schema::budget::Stop;
use schema::openapi::{ResourceSchema, SchemaAllowance};
use schema::ssa;

/// What is known of a kind: the labels that name its contracts (CT-3.3) and the schemas of its versions.
#[derive(Clone, Debug, Default)]
pub struct Definition {
    pub labels: BTreeMap<String, String>,
    /// Whether an API server has stored it, so that its labels are those of an installation; a manifest has no `metadata.uid`.
    pub is_stored: bool,
    /// `openAPIV3Schema` by version; empty where only metadata was read (CT-2.2).
    pub schemas: BTreeMap<String, Arc<Value>>,
    /// How objects of a version are merged, by version.
    pub structures: BTreeMap<String, ssa::MergeSchema>,
    /// What objects of a version may hold, by version; compiled when it is first asked for.
    pub compiled: BTreeMap<String, Arc<Compiled>>,
}

/// A schema that is compiled once.
#[derive(Debug)]
pub struct Compiled {
    openapi: Arc<Value>,
    schema: OnceLock<Result<ResourceSchema, String>>,
}

impl Compiled {
    /// A schema that has not been compiled yet.
    pub fn of(openapi: &Arc<Value>) -> Arc<Self> {
        Arc::new(Compiled { openapi: openapi.clone(), schema: OnceLock::new() })
    }

    fn get(&self) -> Result<&ResourceSchema, &str> {
        // Definitions are outside input: what a schema may take is bounded (DEC-44).
        let compile = || ResourceSchema::compile_within(self.openapi.clone(), &mut SchemaAllowance::new(Stop::never()));
        self.schema.get_or_init(compile).as_ref().map_err(String::as_str)
    }
}

impl PartialEq for Definition {
    fn eq(&self, other: &Self) -> bool {
        (&self.labels, self.is_stored, &self.schemas) == (&other.labels, other.is_stored, &other.schemas)
    }
}

impl Definition {
    /// Reads a CustomResourceDefinition; `None` for what is none.
    pub fn of(object: &Value) -> Option<Self> {
        if object.get("kind").and_then(Value::as_str) != Some("CustomResourceDefinition") {
            return None;
        }
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
        let labels = labels.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect();
        let versions = object.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
        let schema = |version: &Value| {
            let schema = version.pointer("/schema/openAPIV3Schema")?.clone();
            Some((version.get("name")?.as_str()?.to_owned(), Arc::new(schema)))
        };
        let schemas: BTreeMap<String, Arc<Value>> = versions.filter_map(schema).collect();
        let structures =
            schemas.iter().map(|(version, schema)| (version.clone(), ssa::MergeSchema::from_openapi(schema)));
        let compiled = schemas.iter().map(|(version, schema)| (version.clone(), Compiled::of(schema))).collect();
        let is_stored = object.pointer("/metadata/uid").and_then(Value::as_str).is_some_and(|uid| !uid.is_empty());
        Some(Definition { labels, is_stored, structures: structures.collect(), compiled, schemas })
    }

    /// What objects of a version may hold; `None` when its schema is not known.
    ///
    /// # Errors
    /// Why the schema cannot be used.
    pub fn resource_schema(&self, version: &str) -> Option<Result<&ResourceSchema, &str>> {
        Some(self.compiled.get(version)?.get())
    }

    /// How objects of a version are merged; lists as a whole when its schema is not known.
    pub fn structure(&self, version: &str) -> ssa::MergeSchema {
        self.structures.get(version).cloned().unwrap_or_else(ssa::MergeSchema::unknown)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_has_labels_and_schemas() {
        let read = Definition::of(&json!({
            "kind": "CustomResourceDefinition",
            "metadata": {"labels": {"cluster.x-k8s.io/v1beta2": "v1"}},
            "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object"}}}, {"name": "v2"}]},
        }));
        let read = read.unwrap();
        assert_eq!(read.labels["cluster.x-k8s.io/v1beta2"], "v1");
        assert_eq!(read.schemas.keys().collect::<Vec<_>>(), ["v1"]);
        assert!(!read.is_stored);
        let stored = json!({"kind": "CustomResourceDefinition", "metadata": {"uid": "u"}});
        assert!(Definition::of(&stored).unwrap().is_stored);
        assert!(Definition::of(&json!({"kind": "Cluster"})).is_none());
    }
}
