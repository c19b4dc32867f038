//! Whether Cluster API's own controllers run: they hold a Lease of a known name, in any namespace.
//!
//! Two controllers of the same objects overwrite each other, so ours wait until that Lease is no longer renewed. As
//! with our own, renewals are observed here; times in the Lease are not compared with the clock here.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::lease::holder;
use super::observations::{Observation, WatchedKind, key_of};
use super::{WatchSelection, address, observations};
use crate::telemetry::metrics::Metrics;
use model::hub::ObjectKey;

/// The Lease of Cluster API's core controllers.
pub const LEASE: &str = "controller-leader-election-capi";
/// Duration of a Lease that has none.
const DEFAULT_DURATION: Duration = Duration::from_secs(15);
/// Interval in which expiry is checked.
const LOOK: Duration = Duration::from_secs(1);

/// Whether Cluster API's controllers run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Incumbent {
    /// It takes as long as a Lease lasts to tell a holder from one that is gone.
    #[default]
    Unknown,
    /// Why this is unknown. The API server does not let this client watch the Lease, or it is tried again.
    Untold {
        reason: String,
        is_forbidden: bool,
    },
    Absent,
    /// `namespace/name` of the Lease, and who holds it.
    Present {
        lease: String,
        holder: String,
    },
}

/// The observed Leases of that name.
#[derive(Debug, Default)]
struct ObservedLeases {
    seen: BTreeMap<ObjectKey, ObservedLease>,
    listed: bool,
    /// Why renewals may go unseen now, and whether the API server has forbidden to see them.
    trouble: Option<(String, bool)>,
}

#[derive(Debug)]
struct ObservedLease {
    spec: LeaseSpec,
    since: Instant,
    /// Whether it was renewed before our eyes.
    renewed: bool,
}

impl ObservedLease {
    fn is_over(&self) -> bool {
        let seconds = self.spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        self.since.elapsed() >= seconds.filter(|seconds| *seconds > 0).map_or(DEFAULT_DURATION, Duration::from_secs)
    }
}

impl ObservedLeases {
    fn apply(&mut self, seen: Observation<Lease>) {
        self.trouble = None;
        match seen {
            Observation::There { object, .. } => self.see(object),
            Observation::Gone(lease) => drop(self.seen.remove(&key_of(&lease))),
            Observation::Listed { keys, .. } => {
                self.seen.retain(|key, _| keys.contains(key));
                self.listed = true;
            }
            Observation::Alive => {}
            Observation::Failed(fault) => self.trouble = Some((fault.to_string(), fault.is_forbidden())),
        }
    }

    fn see(&mut self, lease: Lease) {
        let (key, spec) = (key_of(&lease), lease.spec.unwrap_or_default());
        let renewed = match self.seen.get(&key) {
            Some(before) if before.spec == spec => return,
            before => before.is_some(),
        };
        self.seen.insert(key, ObservedLease { spec, since: Instant::now(), renewed });
    }

    fn incumbent(&self) -> Incumbent {
        if let Some((reason, is_forbidden)) = self.trouble.clone() {
            return Incumbent::Untold { reason, is_forbidden };
        }
        if !self.listed {
            return Incumbent::Unknown;
        }
        let held = || self.seen.iter().filter_map(|(key, seen)| Some((key, seen, holder(&seen.spec)?)));
        let alive = || held().filter(|(_, seen, _)| !seen.is_over());
        match (alive().find(|(_, seen, _)| seen.renewed), alive().next()) {
            (Some((key, _, holder)), _) => Incumbent::Present { lease: key.to_string(), holder: holder.to_owned() },
            (None, Some(_)) => Incumbent::Unknown,
            (None, None) => Incumbent::Absent,
        }
    }
}

/// The state of the incumbent, and the future that keeps it current, which never ends.
pub fn follow(client: kube::Client, metrics: Arc<Metrics>) -> (watch::Receiver<Incumbent>, impl Future<Output = ()>) {
    let (sender, receiver) = watch::channel(Incumbent::Unknown);
    let follow = async move {
        let selection = WatchSelection::by_name(LEASE);
        let kind = WatchedKind::own("Lease", "coordination.k8s.io/v1");
        let mut seen = observations::follow(address::anywhere::<Lease>(client), selection, kind, metrics);
        let mut leases = ObservedLeases::default();
        loop {
            tokio::select! {
                Some(seen) = seen.next() => leases.apply(seen),
                () = sleep(LOOK) => {}
            }
            sender.send_if_modified(|known| {
                let now = leases.incumbent();
                let differs = *known != now;
                *known = now;
                differs
            });
        }
    };
    (receiver, follow)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::time::advance;

    use kube::runtime::watcher::Event;

    use super::*;
    use crate::kubernetes::observations::ListProgress;
    use crate::kubernetes::scripted::{Script, ScriptedAnswer, status};

    fn lease(namespace: &str, holder: &str, renewed: &str) -> Lease {
        let spec: Value = json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed});
        serde_json::from_value(json!({"metadata": {"namespace": namespace, "name": LEASE}, "spec": spec})).unwrap()
    }

    const ONCE: &str = "2026-01-01T00:00:00.000000Z";
    const AGAIN: &str = "2026-01-01T00:00:02.000000Z";

    fn listed(all: Vec<Lease>) -> ObservedLeases {
        let (mut leases, mut lists) = (ObservedLeases::default(), ListProgress::default());
        leases.apply(lists.seen(Event::Init));
        all.into_iter().for_each(|lease| leases.apply(lists.seen(Event::InitApply(lease))));
        assert_eq!(leases.incumbent(), Incumbent::Unknown, "the list is not complete");
        leases.apply(lists.seen(Event::InitDone));
        leases
    }

    fn there(object: Lease) -> Observation<Lease> {
        Observation::There { object, in_list: false }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_is_renewed_is_held() {
        let mut leases = listed(vec![lease("capi-system", "pod", ONCE)]);
        assert_eq!(leases.incumbent(), Incumbent::Unknown);
        advance(Duration::from_secs(2)).await;
        leases.apply(there(lease("capi-system", "pod", AGAIN)));
        let present = Incumbent::Present { lease: format!("capi-system/{LEASE}"), holder: "pod".into() };
        assert_eq!(leases.incumbent(), present);
        advance(Duration::from_secs(15)).await;
        assert_eq!(leases.incumbent(), Incumbent::Absent, "it has not been renewed for as long as it lasts");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_without_renewals_blocks_only_until_it_expires() {
        let mut leases = listed(vec![lease("capi-system", "pod", ONCE)]);
        advance(Duration::from_secs(14)).await;
        leases.apply(there(lease("capi-system", "pod", ONCE)));
        assert_eq!(leases.incumbent(), Incumbent::Unknown);
        advance(Duration::from_secs(1)).await;
        assert_eq!(leases.incumbent(), Incumbent::Absent);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_known_counts_again_as_soon_as_the_watch_is_open_again() {
        // The Lease of a manager that is gone stays without events, and kube-apiserver sends a bookmark once a minute.
        let script = Script::default();
        let path = "/apis/coordination.k8s.io/v1/leases";
        let list = json!({"metadata": {"resourceVersion": "7"}, "items": []});
        script.get(path, &["limit="], ScriptedAnswer::ok(list));
        let end = json!({"type": "ERROR", "object": status(500, "InternalError")});
        script.get(path, &["resourceVersion=7"], ScriptedAnswer::OpenWatch(vec![(Duration::from_secs(9), end)]));
        for _ in 0..4 {
            script.get(path, &["resourceVersion=7"], ScriptedAnswer::error(500, "InternalError"));
        }
        script.get(path, &["resourceVersion=7"], ScriptedAnswer::OpenWatch(vec![]));
        let (mut known, follow) = super::follow(script.client(), Arc::default());
        let task = tokio::spawn(follow);
        for is_it in [(|known| *known == Incumbent::Absent) as fn(&Incumbent) -> bool, |known| {
            matches!(known, Incumbent::Untold { .. })
        }] {
            known.wait_for(is_it).await.unwrap();
        }
        let failed = Instant::now();
        known.wait_for(|known| *known == Incumbent::Absent).await.unwrap();
        assert!(failed.elapsed() < Duration::from_secs(30), "{:?}", failed.elapsed());
        assert_eq!(script.left(), 0, "the server was back");
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_a_free_and_a_deleted_lease_have_no_holder() {
        assert_eq!(listed(vec![]).incumbent(), Incumbent::Absent);
        assert_eq!(listed(vec![lease("a", "", ONCE)]).incumbent(), Incumbent::Absent);
        let mut leases = listed(vec![lease("a", "pod", ONCE), lease("b", "", ONCE)]);
        leases.apply(there(lease("b", "pod", AGAIN)));
        assert!(matches!(leases.incumbent(), Incumbent::Present { lease, .. } if lease.starts_with("b/")));
        leases.apply(Observation::Gone(lease("b", "pod", AGAIN)));
        leases.apply(Observation::Gone(lease("a", "pod", ONCE)));
        assert_eq!(leases.incumbent(), Incumbent::Absent);
    }
}
