//! Verdicts on objects and plans of topologies: what topologist decides.
//!
//! ```text
//!  World ──┬─ admission    defaults → rules ──────────────────────────────► Verdict
//!          ├─ topology     blueprint → desired → patches → plan ──────────► Plan
//!          └─ impact       both sides of an edit, planned ────────────────► Impact
//!
//!  extensions              the protocol of Runtime Extensions: requests and answers
//!  file_apply              a file applied to a stored object: fields that stay
//!  file_review             reviews of objects in files
//!  sample_clusters         Clusters that a class describes, for classes that no Cluster uses
//!  comparison              two states of a fleet, planned and compared ──► ComparisonReport
//!  object_names            names of objects in texts, replaced so that texts of groups are equal
//! ```
//!
//! Everything here is a pure function: the same World gives the same result, byte for byte (DEC-12). There are no
//! sockets, files, clocks or random sources; all inputs are arguments.

pub mod admission;
pub mod topology;
pub mod impact;
pub mod extensions;
pub mod file_apply;
pub mod file_review;
pub mod sample_clusters;
pub mod comparison;
pub mod object_names;
