//! Variables of topologies: definitions, defaults and validation.
//!
//! ```text
//! ClusterClass ─► definitions.rs ─► library.rs: Variables (compiled schemas) ─► values.rs: defaults (VAR-D), checks (VAR-V)
//!                                                    └► sample.rs: small valid values
//! valueFrom.variable of a patch ─► path.rs: what it leads to (TV-01)
//! ```

mod definitions;
mod class_cache;
mod path;
mod sample;
mod values;

pub use class_cache::{ClassCache, ClassSlot};
pub use definitions::{
    CompiledVariable, CompiledVariables, INLINE, current, expected_status, have_deprecated, status_variables,
};
pub use path::{PathError, VariablePath};
pub use sample::{AlternativeValue, SampleExtent, SampleValues};
pub use values::{SettleMode, ValueBudget, ValueChange, ValueList, settle, without_hint};
