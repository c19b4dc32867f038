//! Facts from a Kubernetes API server.
//!
//! ```text
//! list_watch.rs ─► observations.rs ─┬─► watch.rs ─► cache.rs (Facts, swapped whole) ─► World
//!  raw_object.rs: objects as        │                └─ changes ─► gather.rs (answers to Needs, with patience)
//!  they were received               ├─► metadata.rs ─► contract.rs (definitions), templates.rs: further objects of the leader
//!                                   └─► managed/ (objects of topologies) ─► topology_gatherer.rs (answers to their Needs)
//!       gather.rs ─► impact_facts.rs (facts of impacts, all in memory) ──┬─► contract.rs, extension_configs.rs, schemas.rs
//!                                                                        └─► class_templates.rs ─► template_store.rs
//!       gather.rs ─► live.rs (objects without a watch) ─► workload.rs ─► kubeconfig.rs (Nodes)
//! workload.rs ─► bounded.rs: a client of an API server that a tenant controls ─► controllers of machines
//! extensions.rs: answers of Runtime Extensions, and their cache (expiring_cache.rs) ─► topology_gatherer.rs
//! unlisted.rs: caches that cannot answer yet; overload.rs, retry_after.rs: an API server that is busy
//! extension_configs.rs: hooks of ExtensionConfigs, in each replica ─► deletion_hooks.rs: which deletions may wait ─► webhook
//! dry_run.rs (whether applying changes anything) ─┐
//! Plan ─► apply/ (server-side apply) ──────────────┴► untyped.rs (requests about objects of any kind)
//! versions.rs (API versions of referenced kinds, read one by one) ─► conversion
//! port_forward.rs (streams to a Service from outside of the cluster) ─► plan --live, simulate --live
//! address.rs: the paths of all these requests, checked
//! connection.rs: the client that sends them, history.rs: an API server that was restored from an older copy
//! lease.rs (which process leads and may write), write_limiter.rs (concurrent writes),
//! incumbent.rs (whether Cluster API's own controllers run)
//! ```

use jiff::Timestamp;

use golang::calendar::Moment;
use schema::field::chain;

pub(crate) use list_watch::{SMALL_PAGE, WatchSelection};

pub mod address;
pub mod apply;
pub(crate) mod bounded;
pub mod cache;
mod class_templates;
mod class_uses;
pub mod connection;
pub mod contract;
pub mod deletion_hooks;
pub mod dry_run;
pub(crate) mod events;
pub mod extension_configs;
pub mod extensions;
pub(crate) mod observations;
pub mod gather;
pub mod history;
pub mod impact_facts;
pub mod incumbent;
mod expiring_cache;
mod kubeconfig;
pub mod topology_gatherer;
pub mod lease;
mod list_items;
mod list_watch;
mod live;
mod namespaces;
pub mod overload;
mod write_limiter;
pub mod managed;
pub mod metadata;
pub mod mitigation;
pub mod port_forward;
mod retry_after;
mod schemas;
pub mod sizes;
#[cfg(any(test, feature = "testing"))]
pub mod scripted;
mod template_store;
pub mod templates;
pub(crate) mod tested_patch;
pub mod unlisted;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod untyped;
pub mod versions;
pub mod watch;
pub(crate) mod workload;
mod raw_object;

/// The current time.
pub(crate) fn moment() -> Moment {
    let now = Timestamp::now();
    Moment { seconds: now.as_second(), nanos: u32::try_from(now.subsec_nanosecond()).unwrap_or_default() }
}

/// An error of the client: the message of the API server, or the error with all its sources.
pub(crate) fn describe(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error
        && !status.message.is_empty()
    {
        return status.message.clone();
    }
    if let kube::Error::Service(cause) = error
        && (cause.is::<address::InvalidSegment>() || cause.is::<address::AnotherObject>())
    {
        return cause.to_string();
    }
    chain(error)
}
