//! OpenAPI v3 schemas of variables: checked when they are written, compiled once, applied to values often.
//!
//! Keywords are those of [OpenAPI v3](https://spec.openapis.org/oas/v3.0.3#schema-object), as far as the
//! [structural schemas](https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema)
//! of Kubernetes allow them.
//!
//! ```text
//! Definition (as written) ─► check.rs ─► Schema (compiled) ─► fast_path.rs    accepts most valid values at once, or else
//!                              └─ Findings                 ├► default.rs   fills what is missing
//!                                                          ├► validate.rs  says what is wrong
//!                                                          ├► unknown.rs   names unknown fields
//!                                                          ├► deprecated.rs  names deprecated parts
//!                                                          ├► validations.rs  runs rules (`cel`) on what is right so far
//!                                                          ├► sample.rs    makes a small value that is valid
//!                                                          └► resource.rs  the same for whole objects of a kind
//! ```
//!
//! The dialect is that of Kubernetes: no `$ref`, no `nullable`, RE2 patterns, `x-kubernetes-…` extensions. A *core*
//! node is reached through `properties`, `additionalProperties` and `items` only; a *junctor* node stands below
//! `allOf`, `anyOf`, `oneOf` or `not`. Nothing here is specific to Cluster API.

mod fast_path;
mod allowance;
mod check;
mod declared;
mod default;
mod definition;
mod deprecated;
mod field_path;
mod format;
mod keywords;
mod kind;
mod node;
mod outline;
mod resource;
mod rules;
mod sample;
mod unknown;
mod validate;
mod validations;

pub use crate::cel::CelCost;
pub use allowance::{
    AllowanceUsage, Breach, DefaultSize, DefaultsBudget, Footprint, SchemaAllowance, ValidationEffort,
};
pub use check::check;
pub use definition::{ChildStep, NodeMetadata, SchemaDefinition, ValidationRule};
pub use deprecated::{DEPRECATED, DeprecatedPart};
pub use fast_path::FastVerdict;
pub use node::{SENSITIVE, Schema, SchemaError};
pub use resource::{ObjectFault, ResourceSchema, ResourceSchemaError, without_descriptions};
pub use sample::{Alternative, Breadth, NoSample};
pub use validate::Violation;
