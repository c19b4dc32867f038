//! Variables of topologies: which there are, what they become, and what is wrong with them.
//!
//! ```text
//! ClusterClass ─► definitions.rs ─► Variables (compiled schemas) ─► values.rs: defaults (VAR-D), then checks (VAR-V)
//! ```

mod definitions;
mod values;

pub use definitions::{INLINE, Variable, Variables, status_variables};
pub use values::{Change, Mode, settle};
