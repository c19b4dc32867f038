//! Schemas of served kinds, for validation and merging.

use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value;

pub(crate) use schema::openapi::ObjectFault;
use schema::openapi::{ResourceSchema, ResourceSchemaError};
use schema::ssa;

/// A schema compiled for validation and merging.
#[derive(Debug)]
pub struct KindSchema {
    /// The merge schema.
    pub merging: ssa::MergeSchema,
    schema: ResourceSchema,
}

impl KindSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// When it is not a schema, or a pattern is invalid.
    pub fn compile(openapi: Value) -> Result<Self, ResourceSchemaError> {
        let merging = ssa::MergeSchema::from_openapi(&openapi);
        Ok(KindSchema { merging, schema: ResourceSchema::compile(Arc::new(openapi))? })
    }
}

impl Deref for KindSchema {
    type Target = ResourceSchema;

    fn deref(&self) -> &ResourceSchema {
        &self.schema
    }
}
