//! Workload clusters with an external control plane (MA-2.6, MA-8.1, MA-8.2, MA-27.12).
//!
//! ```text
//! Secret <cluster>-kubeconfig ─► probe, every 10 s ─► the same kubeconfig: connected while an answer is less than 50 s old
//!                                     └─► another one: new watches; connected when all kinds are listed
//! ```
//!
//! The owner of a Cluster controls this server: requests and the size of its objects are bounded (DEC-40). Nothing is
//! published.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{info, warn};

use super::kind_watch::{MOST, ObjectSizes, WatchProgress};
use super::store::{ConnectionChange, LifecycleStore};
use super::watches::{OF_WORKLOADS, WorkloadKind, follow_workload};
use crate::kubernetes::bounded::Bounded;
use crate::kubernetes::lease::Leadership;
use crate::kubernetes::workload::{WorkloadLink, Workloads};
use crate::telemetry::metrics::Metrics;
use model::hub::ObjectKey;

/// Interval of probes of a cluster and its Secret.
const PERIOD: Duration = Duration::from_secs(10);
/// The first delay after a failure without a connection; it doubles each time, up to `LONGEST`.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// Time after the last response for which a cluster counts as connected (MA-27.12).
const GRACE: Duration = Duration::from_secs(50);
/// Timeout of the first lists of all kinds.
const LISTING: Duration = Duration::from_mins(1);
/// Delay before the next attempt on a cluster whose objects exceed `MOST`.
const LEFT_ALONE: Duration = Duration::from_mins(5);
/// Capacity of the channel for reports of watches.
const REPORTS: usize = 64;

/// The followed workload clusters. Dropping it ends their watches.
pub(super) struct ExternalClusters {
    shared: Arc<FollowerContext>,
    running: Mutex<HashMap<ObjectKey, RunningFollower>>,
}

struct FollowerContext {
    workloads: Workloads,
    leadership: Leadership,
    store: Arc<LifecycleStore>,
    metrics: Arc<Metrics>,
}

struct RunningFollower {
    client: Arc<ClientSlot>,
    _task: JoinSet<()>,
}

/// The client of a cluster while it is connected.
type ClientSlot = Mutex<Option<kube::Client>>;

impl ExternalClusters {
    /// No followed clusters. `management` reads the Secrets.
    pub(super) fn new(
        management: kube::Client,
        leadership: Leadership,
        store: Arc<LifecycleStore>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let workloads = Workloads::unbounded(management);
        ExternalClusters {
            shared: Arc::new(FollowerContext { workloads, leadership, store, metrics }),
            running: Mutex::default(),
        }
    }

    /// Follows a workload cluster, unless it is followed already.
    pub(super) fn start(&self, cluster: &ObjectKey) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.contains_key(cluster) {
            return;
        }
        self.shared.store.followed(cluster, ConnectionChange::Begins);
        let (client, mut task) = (Arc::<ClientSlot>::default(), JoinSet::new());
        let follower = ClusterFollower {
            shared: self.shared.clone(),
            cluster: cluster.clone(),
            client: client.clone(),
            connection: None,
            wait: FIRST,
        };
        task.spawn(follower.run());
        running.insert(cluster.clone(), RunningFollower { client, _task: task });
    }

    /// Stops following it, and drops its objects.
    pub(super) fn stop(&self, cluster: &ObjectKey) {
        let stopped = self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(cluster);
        if stopped.is_some() {
            self.shared.workloads.forget(cluster);
            self.shared.store.followed(cluster, ConnectionChange::Ends);
        }
    }

    /// The client of a followed cluster; `None` if it is not followed.
    pub(super) fn client(&self, cluster: &ObjectKey) -> Option<Result<kube::Client, NotConnected>> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let client = running.get(cluster)?.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(client.ok_or_else(|| NotConnected(cluster.clone())))
    }
}

/// A workload cluster without a connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("workload cluster {0} is not connected")]
pub(super) struct NotConnected(pub ObjectKey);

/// Follows one workload cluster.
struct ClusterFollower {
    shared: Arc<FollowerContext>,
    cluster: ObjectKey,
    client: Arc<ClientSlot>,
    connection: Option<WorkloadConnection>,
    /// After the next failure.
    wait: Duration,
}

/// The watches of a workload cluster. Dropping it ends them.
struct WorkloadConnection {
    kubeconfig: Arc<[u8]>,
    bounded: Bounded,
    /// Kinds, and what their watches report.
    reports: mpsc::Receiver<(&'static str, WatchProgress)>,
    /// Since when watches fail.
    failing: HashMap<&'static str, (Instant, String)>,
    answered: Instant,
    _watches: JoinSet<()>,
}

impl ClusterFollower {
    async fn run(mut self) {
        loop {
            let pause = self.probe().await;
            self.pause(pause).await;
        }
    }

    /// Probes once; returns the delay before the next probe.
    async fn probe(&mut self) -> Duration {
        let link = match self.shared.workloads.probe(&self.cluster).await {
            Ok(link) => link,
            Err(error) => {
                let is_over = error.is_about_kubeconfig()
                    || self.connection.as_ref().is_none_or(|connection| connection.answered.elapsed() >= GRACE);
                return match (is_over, error.is_resting()) {
                    (false, _) => PERIOD,
                    // The failure before says more.
                    (true, true) if self.connection.is_none() => self.longer(),
                    (true, true) => self.disconnect("it does not answer".to_owned()),
                    (true, false) => self.disconnect(error.to_string()),
                };
            }
        };
        match &mut self.connection {
            Some(connection) if connection.kubeconfig == link.kubeconfig => {
                connection.answered = Instant::now();
                connection.bounded.answered();
                match connection.stale() {
                    Some(problem) => self.disconnect(problem),
                    None => PERIOD,
                }
            }
            _ => self.connect(link).await,
        }
    }

    /// Waits for the next probe; longer if the objects of the cluster exceed the limit.
    async fn pause(&mut self, pause: Duration) {
        let until = Instant::now() + pause;
        loop {
            let Some(connection) = &mut self.connection else { return tokio::time::sleep_until(until).await };
            match timeout_at(until, connection.reports.recv()).await {
                Ok(Some((_, WatchProgress::TooMuch))) => {
                    self.disconnect(too_much());
                    return sleep(LEFT_ALONE).await;
                }
                Ok(Some((kind, report))) => connection.note(kind, report),
                Ok(None) => return tokio::time::sleep_until(until).await,
                Err(_) => return,
            }
        }
    }

    /// Starts new watches; the cluster is connected when all kinds are listed, since a drain must see all Pods
    /// (MA-10.4).
    async fn connect(&mut self, link: WorkloadLink) -> Duration {
        if self.connection.is_some() {
            self.disconnect("its kubeconfig has changed".to_owned());
        }
        let mut connection = WorkloadConnection::open(&self.shared, &self.cluster, link);
        let (deadline, mut listed) = (Instant::now() + LISTING, HashSet::new());
        while listed.len() < OF_WORKLOADS.len() {
            match timeout_at(deadline, connection.reports.recv()).await {
                Ok(Some((kind, WatchProgress::Listed))) => {
                    listed.insert(kind);
                    connection.failing.remove(kind);
                }
                Ok(Some((_, WatchProgress::TooMuch))) => {
                    drop(connection);
                    self.disconnect(too_much());
                    return LEFT_ALONE;
                }
                Ok(Some((kind, report))) => {
                    connection.note(kind, report);
                    if let Some((_, problem)) = connection.failing.values().next() {
                        self.report(problem.clone());
                    }
                }
                Ok(None) | Err(_) => {
                    let problem = connection.failing.into_values().next().map(|(_, problem)| problem);
                    return self
                        .disconnect(problem.unwrap_or_else(|| "its objects cannot be listed in time".to_owned()));
                }
            }
        }
        self.wait = FIRST;
        let client = self.shared.leadership.writer(connection.bounded.client.clone());
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client);
        connection.answered = Instant::now();
        self.connection = Some(connection);
        self.shared.store.followed(&self.cluster, ConnectionChange::Connected);
        info!(cluster = %self.cluster, "Connected to the workload cluster");
        PERIOD
    }

    /// Closes the connection, if there is one, and reports why; returns the delay before the next attempt.
    fn disconnect(&mut self, problem: String) -> Duration {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).take();
        if self.connection.take().is_some() {
            warn!(cluster = %self.cluster, problem, "Lost the connection to the workload cluster");
        }
        self.report(problem);
        self.longer()
    }

    fn report(&self, problem: String) {
        self.shared.store.followed(&self.cluster, ConnectionChange::Disconnected(problem));
    }

    fn longer(&mut self) -> Duration {
        let wait = self.wait;
        self.wait = (wait * 2).min(LONGEST);
        wait
    }
}

fn too_much() -> String {
    format!("its objects take more than {} MiB", MOST / 1024 / 1024)
}

impl WorkloadConnection {
    fn open(shared: &FollowerContext, cluster: &ObjectKey, link: WorkloadLink) -> Self {
        let bounded = Bounded::new(link.client);
        let (sender, reports) = mpsc::channel(REPORTS);
        let (mut watches, taken) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
        for (group, kind) in OF_WORKLOADS {
            let (client, sizes) = (bounded.client.clone(), Some(ObjectSizes::new(taken.clone())));
            let name = format!("{kind} of workload cluster {cluster}");
            let workload_kind = WorkloadKind { group, kind, name, sizes };
            let reports = follow_workload(&shared.store, &shared.metrics, cluster, client, workload_kind);
            watches.spawn(forward(kind, reports, sender.clone()));
        }
        let kubeconfig = link.kubeconfig;
        WorkloadConnection {
            kubeconfig,
            bounded,
            reports,
            failing: HashMap::new(),
            answered: Instant::now(),
            _watches: watches,
        }
    }

    fn note(&mut self, kind: &'static str, report: WatchProgress) {
        match report {
            WatchProgress::Failed(problem) => {
                let now = Instant::now();
                self.failing.entry(kind).or_insert((now, String::new())).1 = problem;
            }
            WatchProgress::Listed | WatchProgress::Alive => drop(self.failing.remove(kind)),
            WatchProgress::TooMuch => {}
        }
    }

    /// Why the watched objects are outdated, although the server responds.
    fn stale(&self) -> Option<String> {
        let mut failing = self.failing.values().filter(|(since, _)| since.elapsed() >= GRACE);
        failing.next().map(|(_, problem)| problem.clone())
    }
}

/// Forwards the reports of the watch of a kind; of the reports that it is alive, only the first one after a failure.
async fn forward(
    kind: &'static str,
    reports: impl Stream<Item = WatchProgress>,
    sender: mpsc::Sender<(&'static str, WatchProgress)>,
) {
    let (mut reports, mut is_failing) = (pin!(reports), false);
    while let Some(report) = reports.next().await {
        if matches!(report, WatchProgress::Alive) && !is_failing {
            continue;
        }
        is_failing = matches!(report, WatchProgress::Failed(_));
        if sender.send((kind, report)).await.is_err() {
            return;
        }
    }
    // The server does not have this kind.
    let _ = sender.send((kind, WatchProgress::Listed)).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::lease::{Candidacy, Election};
    use crate::kubernetes::scripted::Script;

    impl ExternalClusters {
        /// No workload clusters, and no cluster of management.
        pub(in super::super) fn none(store: &Arc<LifecycleStore>) -> Self {
            let client = Script::default().client();
            let candidacy = Candidacy::new("default", "topologist", Duration::from_secs(15));
            let (_, leadership) = Election::new(client.clone(), candidacy, Arc::default());
            ExternalClusters::new(client, leadership, store.clone(), Arc::default())
        }
    }

    fn store() -> (Arc<LifecycleStore>, ObjectKey) {
        (Arc::new(LifecycleStore::new(Arc::default()).0), ObjectKey::new("ns", "c"))
    }

    fn state(store: &LifecycleStore, cluster: &ObjectKey) -> Option<(bool, Option<String>)> {
        store.with(|objects| objects.workload(cluster).map(|known| (known.is_reachable, known.problem.clone())))
    }

    #[test]
    fn the_store_knows_what_becomes_of_a_cluster_that_is_followed() {
        // MA-8.2, MA-27.12
        let (store, cluster) = store();
        store.followed(&cluster, ConnectionChange::Connected);
        assert_eq!(state(&store, &cluster), None, "it is not followed");
        store.followed(&cluster, ConnectionChange::Begins);
        assert_eq!(state(&store, &cluster), Some((false, None)));
        store.followed(&cluster, ConnectionChange::Disconnected("refused".to_owned()));
        assert_eq!(state(&store, &cluster), Some((false, Some("refused".to_owned()))));
        store.followed(&cluster, ConnectionChange::Connected);
        assert_eq!(state(&store, &cluster), Some((true, None)));
        store.followed(&cluster, ConnectionChange::Ends);
        store.followed(&cluster, ConnectionChange::Disconnected("late".to_owned()));
        assert_eq!(state(&store, &cluster), None);
    }

    #[tokio::test]
    async fn a_cluster_that_is_followed_is_written_to_only_while_it_is_connected() {
        let (store, cluster) = store();
        let followed = ExternalClusters::none(&store);
        assert!(followed.client(&cluster).is_none());
        followed.start(&cluster);
        assert_eq!(
            followed.client(&cluster).unwrap().err().unwrap().to_string(),
            "workload cluster ns/c is not connected"
        );
        followed.start(&cluster);
        followed.stop(&cluster);
        assert!(followed.client(&cluster).is_none() && state(&store, &cluster).is_none());
    }
}
