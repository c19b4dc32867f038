//! Paths to fields and typed field errors, rendered as Kubernetes renders them.
//!
//! What lives here: [`Path`], [`FieldError`], the collector [`Findings`], [`Level`], [`closest`] for hints, and
//! [`plain`] for texts of others. Nothing here knows a kind; the module may use `std` and the JSON value type only. The
//! rendering is the API server's:
//!
//! ```text
//! <path>: <rendered type>: <value>: <detail>
//! spec.topology.version: Invalid value: "v1.30": must be a full semantic version
//! ```

mod closest;
mod error;
mod level;
mod path;
mod plain;

pub use closest::closest;
pub use error::{
    ErrorKind, ErrorValue, FieldError, FieldPart, Findings, RuleId, Warning, a_few, chain, counted, enumerated, join,
    shortened,
};
pub use level::Level;
pub use path::{Path, lengthen, point};
pub use plain::{plain, plain_lines};
