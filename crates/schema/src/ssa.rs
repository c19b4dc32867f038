//! Server-side apply as functions over JSON values: which manager owns which field, and what an apply changes.
//!
//! It follows [Server-Side Apply](https://kubernetes.io/docs/reference/using-api/server-side-apply/): merging, field
//! ownership, conflicts, and the entries of `metadata.managedFields`.
//!
//! ```text
//!  CRD schema ─► Schema ──────────────┐
//!                                     ▼
//!  live object, its managers ─►  apply / update  ─► object, managers    or Conflicts
//!                                     ▲
//!  configuration ─► reduce ───────────┴─► difference: what applying it would change, without a server
//! ```
//!
//! The steps are those of an API server, so that the result is the same: the object is merged by its schema; fields
//! that the manager applied before and does not apply now are removed, unless another manager owns them; each entry of
//! `metadata.managedFields` loses the fields that other managers have changed.
//!
//! The code that stores objects does the rest, in the order of a server. After [`apply`]: fill in defaults; keep live
//! values that the endpoint does not write; validate, since a map whose entries were all removed may leave a null; drop
//! empty labels, annotations, owners and finalizers. Before [`update`]: prune and fill in defaults. After it: keep the
//! old entries if the object is unchanged and [`same_but_for_times`] holds; keep live values that the endpoint does not
//! write, which `update` still sees as they were sent.
//!
//! The module uses the metadata of Kubernetes objects, and nothing specific to Cluster API. It may use `field` and
//! `json`.

mod fast_path;
mod apply;
mod compare;
mod difference;
mod element;
mod last_applied;
mod literal;
mod managers;
mod merge;
mod owned;
mod reduce;
mod remove;
mod schema;
mod set;
mod validate;

pub use apply::{
    AppliedObject, ApplyRefused, ApplyRequest, Conflict, Convert, ConvertedObject, NotConverted, apply,
    check_configuration, update,
};
pub use compare::FieldComparison;
pub use difference::{
    ApplyDifference, ComparisonContext, FieldChange, OwnershipChange, as_applied, changes, difference,
};
pub use element::{ElementPath, PathElement, PathElementError};
pub use fast_path::is_as_applied;
pub use last_applied::ANNOTATION as LAST_APPLIED;
pub use literal::ListKey;
pub use managers::{
    InvalidManagedFields, ManagedFields, ManagedOperation, managers_of_update, same_but_for_times, with_managers,
};
pub use owned::{field_set, has_fields};
pub use reduce::{SENT, is_reduced, reduce};
pub use schema::MergeSchema;
pub use set::{FieldSet, FieldSetError};

#[cfg(test)]
mod tests;
