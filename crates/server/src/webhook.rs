//! The HTTPS service that kube-apiserver calls: requests and responses of
//! [admission webhooks](https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/) and
//! [conversion webhooks](https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/#webhook-conversion).
//!
//! ```text
//! socket ─► server.rs (limits, TLS handshake, HTTP/1.1 and HTTP/2) ─► review.rs ──► admission
//!              └─ certificates::tls                                │     ├─ kubernetes::gather
//!                                                                  │     └─ queue.rs (which review runs next)
//!                                                                  │     fair_queue.rs (which work gets a thread next)
//!                                                                  └─► conversion.rs ─► wire
//! impact.rs: the effect of an allowed edit on machines, as warnings
//! routes.rs: the paths that are served
//! extension_configs.rs: reviews of ExtensionConfigs
//! holds.rs: holds on the deletion of Clusters; deletions.rs: reviews of deletions of their objects
//! templates.rs: reviews of the templates of classes, only for their impact; template_deletions.rs: their deletions,
//! which template_guard.rs denies
//! scales.rs: reviews of the scale of worker sets, only for a warning; pool_reader.rs: the labels of MachinePools
//! probes.rs: liveness, readiness and metrics, on a separate port
//! ```

mod impact_events;
mod pending_review;
mod body;
mod connection;
pub mod conversion;
pub mod deletions;
pub mod extension_configs;
pub mod holds;
mod impact;
pub mod limits;
mod connection_limiter;
pub mod probes;
mod queue;
mod plain_review;
mod pool_reader;
mod rejection;
pub mod review;
pub mod routes;
pub mod scales;
pub mod server;
pub mod template_deletions;
mod template_guard;
pub mod templates;
#[cfg(test)]
mod testing;
mod fair_queue;
mod warning_limiter;

pub use impact::breaking;
