//! Facts from a Kubernetes API server.
//!
//! ```text
//! list_watch.rs ─► follow.rs ─┬─► watch.rs ─► cache.rs (Facts, swapped whole) ─► World      written.rs: objects as they arrive
//!                             │                └─ changes ─► gather.rs (Needs answered, with patience)
//!                             ├─► metadata.rs ─► contract.rs (definitions), templates.rs: what the leader looks at besides
//!                             └─► managed/ (what topologies made) ─► topology_gatherer.rs (Needs of a topology answered)
//!       gather.rs ─► impact_facts.rs (what impacts need, all in memory) ─┬─► contract.rs, extension_configs.rs, schemas.rs
//!                                                                        └─► class_templates.rs ─► template_store.rs
//!       gather.rs ─► live.rs (objects without a watch) ─► workload.rs ─► kubeconfig.rs (Nodes)
//! workload.rs ─► bounded.rs: a client of an API server that a tenant controls ─► controllers of machines
//! extensions.rs: what Runtime Extensions answer, and what is remembered of it (kept.rs) ─► topology_gatherer.rs
//! unlisted.rs: caches that cannot answer yet; overload.rs, retry_after.rs: an API server that is busy
//! extension_configs.rs: hooks of ExtensionConfigs, in each replica ─► deletion_hooks.rs: which deletions may have to wait ─► webhook
//! dry_run.rs (whether applying changes anything) ─┐
//! Plan ─► apply/ (server-side apply) ──────────────┴► untyped.rs (requests about objects of any kind)
//! versions.rs (API versions of referenced kinds, asked for one by one) ─► conversion
//! port_forward.rs (streams to a Service from outside of the cluster) ─► plan --live, simulate --live
//! address.rs: the paths of all these requests, checked
//! connection.rs: the client that sends them, history.rs: an API server that was restored from an older copy
//! lease.rs (which process leads and may write, and how much at a time: pace.rs), incumbent.rs (whether Cluster API's own controllers are at work)
//! ```

use jiff::Timestamp;

use golang::calendar::Moment;
use schema::field::chain;

pub(crate) use list_watch::Selection;

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
pub(crate) mod follow;
pub mod gather;
pub mod history;
pub mod impact_facts;
pub mod incumbent;
mod kept;
mod kubeconfig;
pub mod topology_gatherer;
pub mod lease;
mod list_watch;
mod live;
mod namespaces;
pub mod overload;
mod pace;
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
pub mod unlisted;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod untyped;
pub mod versions;
pub mod watch;
pub(crate) mod workload;
mod written;

/// The present moment.
pub(crate) fn moment() -> Moment {
    let now = Timestamp::now();
    Moment { seconds: now.as_second(), nanos: u32::try_from(now.subsec_nanosecond()).unwrap_or_default() }
}

/// An error of the client as the API server states it, or with everything that lies behind it.
pub(crate) fn describe(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error
        && !status.message.is_empty()
    {
        return status.message.clone();
    }
    if let kube::Error::Service(cause) = error
        && (cause.is::<address::Malformed>() || cause.is::<address::AnotherObject>())
    {
        return cause.to_string();
    }
    chain(error)
}
