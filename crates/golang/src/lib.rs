//! What Go does with versions, times, regular expressions, YAML, JSON and templates.
//!
//! ```text
//!  json ◄── yaml ◄──┐
//!  version ◄────────┼── template
//!  regexp ◄─────────┤
//!  calendar ◄───────┘     fnv
//! ```
//!
//! Cluster API and kube-apiserver are written in Go, and users write what Go's libraries accept. What these modules
//! return is what Go returns, which tests compare with recorded answers. Nothing in this crate knows Kubernetes, and it
//! has no sockets, files, clocks or random sources.

pub mod json;
pub mod calendar;
pub mod fnv;
pub mod version;
pub mod regexp;
pub mod yaml;
pub mod template;

/// The macro `lenient!` names this crate as its callers do.
extern crate self as golang;
