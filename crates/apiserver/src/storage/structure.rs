//! The schema of a kind that is served: what objects may hold, and how they are merged.

use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value;

pub(crate) use schema::openapi::ObjectFault;
use schema::openapi::ResourceSchema;
use schema::ssa;

/// A schema in the forms in which a server uses it.
#[derive(Debug)]
pub struct Structure {
    /// How objects are merged.
    pub merging: ssa::MergeSchema,
    schema: ResourceSchema,
}

impl Structure {
    /// Compiles a schema.
    ///
    /// # Errors
    /// When it has not the shape of a schema, or a pattern cannot be used.
    pub fn compile(openapi: Value) -> Result<Self, String> {
        let merging = ssa::MergeSchema::from_openapi(&openapi);
        Ok(Structure { merging, schema: ResourceSchema::compile(Arc::new(openapi))? })
    }
}

impl Deref for Structure {
    type Target = ResourceSchema;

    fn deref(&self) -> &ResourceSchema {
        &self.schema
    }
}
