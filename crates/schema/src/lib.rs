//! What an API server does with schemas, CEL rules, defaults and field owners.
//!
//! ```text
//!  field ◄──┬── cel ◄──┐
//!  budget ◄─┴──────────┼── openapi      compile, default, prune, validate
//!                      │
//!  field ◄─────────────┴── ssa          server-side apply
//! ```
//!
//! It handles objects and schemas as JSON and no kind of Cluster API. It has no sockets, files, clocks or random
//! sources: a computation with a deadline polls a [`Stop`](budget::Stop).

pub mod field;
pub mod budget;
pub mod cel;
pub mod openapi;
pub mod ssa;
