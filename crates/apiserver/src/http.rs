//! HTTP requests and responses, as described by the [Kubernetes API
//! concepts](https://kubernetes.io/docs/reference/using-api/api-concepts/).
//!
//! ```text
//! front.rs (a socket) ─► serve.rs ─► request.rs ─► read.rs, watch.rs ──────────────► answer.rs ─► table.rs
//!                                        │
//!                                        └─► write.rs, delete.rs ─ decode ─► patch ─► admit
//!                        discovery.rs, openapi.rs: which kinds there are, and their schemas
//! ```

mod access;
mod admit;
mod age;
mod response;
mod cells;
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
mod workload_table;
mod write;
