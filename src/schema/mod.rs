//! OpenAPI v3 schemas of variables: checked when they are written, compiled once, applied to values often.
//!
//! ```text
//! Definition (as written) ─► check.rs ─► Schema (compiled) ─► acquit.rs    sees at a glance that all is well, or else
//!                              └─ Findings                 ├► default.rs   fills what is missing
//!                                                          ├► validate.rs  says what is wrong
//!                                                          ├► unknown.rs   names what nobody knows
//!                                                          └► cel/         runs rules on what is right so far
//! ```
//!
//! The dialect is that of Kubernetes: no `$ref`, no `nullable`, RE2 patterns, `x-kubernetes-…` extensions. A *core* node is
//! reached through `properties`, `additionalProperties` and `items` only; a *junctor* node stands below `allOf`, `anyOf`,
//! `oneOf` or `not`. Nothing here knows Cluster API.

mod acquit;
mod cel;
mod check;
mod default;
mod definition;
mod format;
mod node;
mod rules;
mod unknown;
mod validate;

pub use check::check;
pub use definition::{Definition, Metadata, ValidationRule};
pub use node::{SENSITIVE, Schema, Unusable};
pub use validate::Violation;
