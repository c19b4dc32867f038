//! OpenAPI v3 schemas of variables.
//!
//! What lives here: [`Definition`], a schema node as a class author writes it (F-SCHEMA of the API types). The module
//! knows nothing of Cluster API.

mod definition;

pub use definition::{Definition, Metadata, ValidationRule};
