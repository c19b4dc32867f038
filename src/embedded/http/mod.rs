//! Requests and their answers.
//!
//! ```text
//! front.rs (a socket) ─► serve.rs ─► request.rs ─► read.rs, watch.rs ──────────────► answer.rs ─► table.rs
//!                                        │
//!                                        └─► write.rs, delete.rs ─ decode ─► patch ─► admit
//!                        discovery.rs, openapi.rs: what clients ask besides
//! ```

mod access;
mod admit;
mod age;
mod answer;
mod decode;
mod delete;
mod discovery;
pub mod front;
mod groups;
mod json_path;
mod openapi;
mod patch;
mod protobuf;
mod read;
mod request;
mod scale;
mod selector;
mod serve;
mod strategic;
mod table;
mod watch;
mod write;
