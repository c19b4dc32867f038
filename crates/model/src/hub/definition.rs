//! CustomResourceDefinitions, reduced to the parts that topologies need.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use schema::budget::Stop;
use schema::openapi::{ResourceSchema, ResourceSchemaError, SchemaAllowance};
use schema::ssa;

/// Contract labels (CT-3.3) and version schemas of a kind.
#[derive(Clone, Debug, Default)]
pub struct ResourceDefinition {
    pub labels: BTreeMap<String, String>,
    /// Whether it comes from an API server, so that its labels are those of an installation; a manifest has no
    /// `metadata.uid`.
    pub is_stored: bool,
    /// The release that it was taken from, such as `Cluster API v1.14.2`, if it is included in the program.
    pub release: Option<String>,
    /// `openAPIV3Schema` by version; empty if only metadata is known (CT-2.2).
    pub schemas: BTreeMap<String, Arc<Value>>,
    /// Merge schemas by version.
    pub structures: BTreeMap<String, ssa::MergeSchema>,
    /// Validation schemas by version, compiled on first use.
    pub compiled: BTreeMap<String, Arc<LazySchema>>,
}

/// A schema that is compiled on first use.
#[derive(Debug)]
pub struct LazySchema {
    openapi: Arc<Value>,
    schema: OnceLock<Result<ResourceSchema, ResourceSchemaError>>,
}

impl LazySchema {
    /// A schema that has not been compiled yet.
    pub fn new(openapi: &Arc<Value>) -> Arc<Self> {
        Arc::new(LazySchema { openapi: openapi.clone(), schema: OnceLock::new() })
    }

    fn get(&self) -> Result<&ResourceSchema, &ResourceSchemaError> {
        // Definitions are untrusted input, so schemas are bounded (DEC-44).
        let compile = || ResourceSchema::compile_within(self.openapi.clone(), &mut SchemaAllowance::new(Stop::never()));
        self.schema.get_or_init(compile).as_ref()
    }
}

impl PartialEq for ResourceDefinition {
    fn eq(&self, other: &Self) -> bool {
        (&self.labels, self.is_stored, &self.schemas) == (&other.labels, other.is_stored, &other.schemas)
    }
}

impl ResourceDefinition {
    /// Reads a CustomResourceDefinition; `None` for other objects.
    pub fn from_object(object: &Value) -> Option<Self> {
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
        let compiled = schemas.iter().map(|(version, schema)| (version.clone(), LazySchema::new(schema))).collect();
        let is_stored = object.pointer("/metadata/uid").and_then(Value::as_str).is_some_and(|uid| !uid.is_empty());
        let structures = structures.collect();
        Some(ResourceDefinition { labels, is_stored, release: None, structures, compiled, schemas })
    }

    /// The validation schema of a version; `None` if unknown.
    ///
    /// # Errors
    /// The reason why the schema cannot be compiled.
    pub fn resource_schema(&self, version: &str) -> Option<Result<&ResourceSchema, &ResourceSchemaError>> {
        Some(self.compiled.get(version)?.get())
    }

    /// The merge schema of a version; if it is unknown, lists are atomic.
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
        let read = ResourceDefinition::from_object(&json!({
            "kind": "CustomResourceDefinition",
            "metadata": {"labels": {"cluster.x-k8s.io/v1beta2": "v1"}},
            "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object"}}}, {"name": "v2"}]},
        }));
        let read = read.unwrap();
        assert_eq!(read.labels["cluster.x-k8s.io/v1beta2"], "v1");
        assert_eq!(read.schemas.keys().collect::<Vec<_>>(), ["v1"]);
        assert!(!read.is_stored);
        let stored = json!({"kind": "CustomResourceDefinition", "metadata": {"uid": "u"}});
        assert!(ResourceDefinition::from_object(&stored).unwrap().is_stored);
        assert!(ResourceDefinition::from_object(&json!({"kind": "Cluster"})).is_none());
    }
}
