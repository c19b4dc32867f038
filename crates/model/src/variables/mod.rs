//! Variables of topologies: definitions, defaults and validation.
//!
//! ```text
//! ClusterClass ─► definitions.rs ─► library.rs: Variables (compiled schemas) ─► values.rs: defaults (VAR-D), checks (VAR-V)
//!                                                    └► sample.rs: small valid values
//! valueFrom.variable of a patch ─► path.rs: what it leads to (TV-01)
//! ```

mod definitions;
mod library;
mod path;
mod sample;
mod values;

pub use definitions::{INLINE, Variable, Variables, current, deprecate, expected_status, status_variables};
pub use library::{Library, Slot};
pub use path::{PathError, VariablePath};
pub use sample::{Extent, Sample};
pub use values::{Mode, ValueBudget, ValueChange, settle, without_hint};
