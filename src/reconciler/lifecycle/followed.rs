//! Workload clusters whose control plane another controller runs (MA-2.6, MA-8.1, MA-8.2, MA-27.12).
//!
//! ```text
//! Secret <cluster>-kubeconfig ─► probe, every 10 s ─► the same kubeconfig: connected while an answer is less than 50 s old
//!                                     └─► another one: new watches; connected when all kinds are listed
//! ```
//!
//! The owner of a Cluster controls this server: requests are bounded (DEC-40), and so is what it shows. Nothing is published.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{info, warn};

use super::store::{Following, Store};
use super::watches::{OF_WORKLOADS, Whole};
use crate::hub::{Object, ObjectKey};
use crate::kubernetes::Selection;
use crate::kubernetes::address::Resource;
use crate::kubernetes::bounded::Bounded;
use crate::kubernetes::follow::{self, Observation, WatchedKind};
use crate::kubernetes::lease::Leadership;
use crate::kubernetes::workload::{Link, Workloads};
use crate::lifecycle::{GroupKind, ObjectId, put_at};
use crate::telemetry::metrics::Metrics;

/// How often a cluster is asked whether it answers, and whether its Secret has changed.
const PERIOD: Duration = Duration::from_secs(10);
/// The first wait after a failure without a connection; each further one is twice as long, up to `LONGEST`.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// How long a connection counts after the last answer (MA-27.12).
const GRACE: Duration = Duration::from_secs(50);
/// How long the first lists of all kinds may take together.
const LISTING: Duration = Duration::from_mins(1);
/// How much the objects of one workload cluster may take, in bytes of JSON, and how long a cluster with more is left alone.
const MOST: usize = 256 * 1024 * 1024;
const LEFT_ALONE: Duration = Duration::from_mins(5);
/// Large parts of objects that no step looks at.
const LARGE: [&str; 6] = [
    "metadata.managedFields",
    "spec.containers",
    "spec.initContainers",
    "status.containerStatuses",
    "status.initContainerStatuses",
    "status.images",
];
/// How many reports of watches may wait.
const REPORTS: usize = 64;

/// The workload clusters that are followed. Their watches end with this.
pub(super) struct Followed {
    shared: Arc<Shared>,
    running: Mutex<HashMap<ObjectKey, Running>>,
}

struct Shared {
    workloads: Workloads,
    leadership: Leadership,
    store: Arc<Store>,
    metrics: Arc<Metrics>,
}

struct Running {
    client: Arc<Slot>,
    _task: JoinSet<()>,
}

/// The client of a cluster while it is connected.
type Slot = Mutex<Option<kube::Client>>;

impl Followed {
    /// None yet. `management` reads the Secrets.
    pub(super) fn new(
        management: kube::Client,
        leadership: Leadership,
        store: Arc<Store>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let workloads = Workloads::unbounded(management);
        Followed { shared: Arc::new(Shared { workloads, leadership, store, metrics }), running: Mutex::default() }
    }

    /// Follows a workload cluster, unless that is so already.
    pub(super) fn start(&self, cluster: &ObjectKey) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.contains_key(cluster) {
            return;
        }
        self.shared.store.followed(cluster, Following::Begins);
        let (client, mut task) = (Arc::<Slot>::default(), JoinSet::new());
        let follower = Follower {
            shared: self.shared.clone(),
            cluster: cluster.clone(),
            client: client.clone(),
            connection: None,
            wait: FIRST,
        };
        task.spawn(follower.run());
        running.insert(cluster.clone(), Running { client, _task: task });
    }

    /// Does not follow it any more, and forgets what is in it.
    pub(super) fn stop(&self, cluster: &ObjectKey) {
        let stopped = self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(cluster);
        if stopped.is_some() {
            self.shared.workloads.forget(cluster);
            self.shared.store.followed(cluster, Following::Ends);
        }
    }

    /// The client of a cluster that is followed; nothing if it is not followed.
    pub(super) fn client(&self, cluster: &ObjectKey) -> Option<Result<kube::Client, String>> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let client = running.get(cluster)?.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(client.ok_or_else(|| format!("workload cluster {cluster} is not connected")))
    }
}

/// Follows one workload cluster.
struct Follower {
    shared: Arc<Shared>,
    cluster: ObjectKey,
    client: Arc<Slot>,
    connection: Option<Connection>,
    /// After the next failure.
    wait: Duration,
}

/// The watches of a workload cluster, which end with this.
struct Connection {
    kubeconfig: Arc<[u8]>,
    bounded: Bounded,
    reports: mpsc::Receiver<Report>,
    /// Since when watches fail.
    failing: HashMap<&'static str, (Instant, String)>,
    answered: Instant,
    _watches: JoinSet<()>,
}

/// What the watch of a kind has come to.
enum Report {
    /// All objects of the kind are here, or the server does not have the kind.
    Listed(&'static str),
    Failed(&'static str, String),
    /// It goes on after a failure.
    Alive(&'static str),
    /// The objects of the cluster take too much.
    TooMuch,
}

impl Follower {
    async fn run(mut self) {
        loop {
            let pause = self.turn().await;
            self.pause(pause).await;
        }
    }

    /// Asks once, and says when to ask again.
    async fn turn(&mut self) -> Duration {
        let link = match self.shared.workloads.probe(&self.cluster).await {
            Ok(link) => link,
            Err(error) => {
                let is_over = error.is_about_kubeconfig()
                    || self.connection.as_ref().is_none_or(|connection| connection.answered.elapsed() >= GRACE);
                return match (is_over, error.is_resting()) {
                    (false, _) => PERIOD,
                    // The failure before says more.
                    (true, true) if self.connection.is_none() => self.longer(),
                    (true, true) => self.lose("it does not answer".to_owned()),
                    (true, false) => self.lose(error.to_string()),
                };
            }
        };
        match &mut self.connection {
            Some(connection) if connection.kubeconfig == link.kubeconfig => {
                connection.answered = Instant::now();
                connection.bounded.answered();
                match connection.stale() {
                    Some(problem) => self.lose(problem),
                    None => PERIOD,
                }
            }
            _ => self.connect(link).await,
        }
    }

    /// Waits for the next turn; a cluster that shows too much is left alone for longer.
    async fn pause(&mut self, pause: Duration) {
        let until = Instant::now() + pause;
        loop {
            let Some(connection) = &mut self.connection else { return tokio::time::sleep_until(until).await };
            match timeout_at(until, connection.reports.recv()).await {
                Ok(Some(Report::TooMuch)) => {
                    self.lose(too_much());
                    return sleep(LEFT_ALONE).await;
                }
                Ok(Some(report)) => connection.note(report),
                Ok(None) => return tokio::time::sleep_until(until).await,
                Err(_) => return,
            }
        }
    }

    /// Watches the cluster anew; it is connected when all kinds are listed, since a drain must see all Pods (MA-10.4).
    async fn connect(&mut self, link: Link) -> Duration {
        if self.connection.is_some() {
            self.lose("its kubeconfig has changed".to_owned());
        }
        let mut connection = Connection::open(&self.shared, &self.cluster, link);
        let (deadline, mut listed) = (Instant::now() + LISTING, HashSet::new());
        while listed.len() < OF_WORKLOADS.len() {
            match timeout_at(deadline, connection.reports.recv()).await {
                Ok(Some(Report::Listed(kind))) => {
                    listed.insert(kind);
                    connection.failing.remove(kind);
                }
                Ok(Some(Report::TooMuch)) => {
                    drop(connection);
                    self.lose(too_much());
                    return LEFT_ALONE;
                }
                Ok(Some(report)) => {
                    connection.note(report);
                    if let Some((_, problem)) = connection.failing.values().next() {
                        self.say(problem.clone());
                    }
                }
                Ok(None) | Err(_) => {
                    let problem = connection.failing.into_values().next().map(|(_, problem)| problem);
                    return self.lose(problem.unwrap_or_else(|| "its objects cannot be listed in time".to_owned()));
                }
            }
        }
        self.wait = FIRST;
        let client = self.shared.leadership.writer(connection.bounded.client.clone());
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client);
        connection.answered = Instant::now();
        self.connection = Some(connection);
        self.shared.store.followed(&self.cluster, Following::Connected);
        info!(cluster = %self.cluster, "Connected to the workload cluster");
        PERIOD
    }

    /// Ends the connection, if there is one, and says why; returns when to try again.
    fn lose(&mut self, problem: String) -> Duration {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).take();
        if self.connection.take().is_some() {
            warn!(cluster = %self.cluster, problem, "Lost the connection to the workload cluster");
        }
        self.say(problem);
        self.longer()
    }

    fn say(&self, problem: String) {
        self.shared.store.followed(&self.cluster, Following::Disconnected(problem));
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

impl Connection {
    fn open(shared: &Shared, cluster: &ObjectKey, link: Link) -> Self {
        let bounded = Bounded::new(link.client);
        let (sender, reports) = mpsc::channel(REPORTS);
        let (mut watches, taken) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
        for (group, kind) in OF_WORKLOADS {
            let watch = Watch {
                store: shared.store.clone(),
                cluster: cluster.clone(),
                group,
                kind,
                group_kind: GroupKind::new(group, kind),
                sender: sender.clone(),
                sizes: Sizes { of: HashMap::new(), all: taken.clone() },
            };
            watches.spawn(watch.run(bounded.client.clone(), shared.metrics.clone()));
        }
        let kubeconfig = link.kubeconfig;
        Connection {
            kubeconfig,
            bounded,
            reports,
            failing: HashMap::new(),
            answered: Instant::now(),
            _watches: watches,
        }
    }

    fn note(&mut self, report: Report) {
        match report {
            Report::Failed(kind, problem) => {
                let now = Instant::now();
                self.failing.entry(kind).or_insert((now, String::new())).1 = problem;
            }
            Report::Listed(kind) | Report::Alive(kind) => drop(self.failing.remove(kind)),
            Report::TooMuch => {}
        }
    }

    /// Why what is known is too old, although the server answers.
    fn stale(&self) -> Option<String> {
        let mut failing = self.failing.values().filter(|(since, _)| since.elapsed() >= GRACE);
        failing.next().map(|(_, problem)| problem.clone())
    }
}

/// The watch of one kind of a workload cluster.
struct Watch {
    store: Arc<Store>,
    cluster: ObjectKey,
    group: &'static str,
    kind: &'static str,
    group_kind: GroupKind,
    sender: mpsc::Sender<Report>,
    sizes: Sizes,
}

impl Watch {
    async fn run(mut self, client: kube::Client, metrics: Arc<Metrics>) {
        let api = Resource::known(self.group, "v1", self.kind).anywhere::<Whole>(client);
        let name = format!("{} of workload cluster {}", self.kind, self.cluster);
        let watched = WatchedKind { metric: "workloads", kind: name, version: "v1".to_owned(), ends_if_unserved: true };
        let (mut seen, mut is_failing) = (follow::follow(api, Selection::default(), watched, metrics), false);
        while let Some(seen) = seen.next().await {
            let report = match seen {
                Observation::There { object, .. } => self.there(object),
                Observation::Gone(object) => {
                    self.gone(&object);
                    None
                }
                Observation::Listed { keys, .. } => {
                    self.store.listed_in(&self.cluster, &self.group_kind, &keys);
                    self.sizes.retain(|key| keys.contains(key));
                    Some(Report::Listed(self.kind))
                }
                Observation::Failed(fault) => Some(Report::Failed(self.kind, fault.status(&format!("{}s", self.kind)))),
                Observation::Alive => None,
            };
            let report = report.or_else(|| is_failing.then_some(Report::Alive(self.kind)));
            let Some(report) = report else { continue };
            is_failing = matches!(report, Report::Failed(..));
            if self.sender.send(report).await.is_err() {
                return;
            }
        }
        // The server does not have this kind.
        let _ = self.sender.send(Report::Listed(self.kind)).await;
    }

    fn id(&self, object: &Whole) -> ObjectId {
        let key = follow::key_of(object);
        ObjectId { workload: Some(self.cluster.clone()), kind: self.group_kind.clone(), key }
    }

    fn there(&mut self, whole: Whole) -> Option<Report> {
        let id = self.id(&whole);
        let object = self.trimmed(whole.object);
        if !self.sizes.take(&id.key, serde_json::to_vec(&object.members()).map_or(0, |text| text.len())) {
            return Some(Report::TooMuch);
        }
        self.store.seen(&id, object);
        None
    }

    /// An object without large parts that no step looks at. The items of a list have no type of their own.
    fn trimmed(&self, mut object: Object) -> Object {
        LARGE.iter().for_each(|path| drop(object.remove(path)));
        let version = if self.group.is_empty() { "v1".to_owned() } else { format!("{}/v1", self.group) };
        put_at(&mut object, "apiVersion", version.into());
        put_at(&mut object, "kind", self.kind.into());
        object
    }

    fn gone(&mut self, object: &Whole) {
        let id = self.id(object);
        self.sizes.take(&id.key, 0);
        self.store.removed(&id, Some(object.object.uid()));
    }
}

/// How much the objects of a kind take, and those of all kinds of a cluster.
struct Sizes {
    of: HashMap<ObjectKey, usize>,
    all: Arc<AtomicUsize>,
}

impl Sizes {
    /// Notes the size of an object, nothing for one that is gone; says whether there is room for it.
    fn take(&mut self, key: &ObjectKey, size: usize) -> bool {
        let before = match size {
            0 => self.of.remove(key),
            size => self.of.insert(key.clone(), size),
        };
        let before = before.unwrap_or_default();
        let all = self.all.fetch_add(size, Ordering::Relaxed) + size;
        self.all.fetch_sub(before, Ordering::Relaxed);
        all - before <= MOST
    }

    fn retain(&mut self, is_there: impl Fn(&ObjectKey) -> bool) {
        let gone: Vec<ObjectKey> = self.of.keys().filter(|key| !is_there(key)).cloned().collect();
        for key in gone {
            self.take(&key, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::kubernetes::lease::{Candidacy, Election};
    use crate::kubernetes::scripted::Script;

    impl Followed {
        /// No workload clusters, and no cluster of management.
        pub(in super::super) fn none(store: &Arc<Store>) -> Self {
            let client = Script::default().client();
            let candidacy = Candidacy::new("default", "topologist", Duration::from_secs(15));
            let (_, leadership) = Election::new(client.clone(), candidacy, Arc::default());
            Followed::new(client, leadership, store.clone(), Arc::default())
        }
    }

    fn store() -> (Arc<Store>, ObjectKey) {
        (Arc::new(Store::new(Arc::default()).0), ObjectKey::new("ns", "c"))
    }

    fn state(store: &Store, cluster: &ObjectKey) -> Option<(bool, Option<String>)> {
        store.with(|objects| objects.workload(cluster).map(|known| (known.is_reachable, known.problem.clone())))
    }

    #[test]
    fn the_store_knows_what_becomes_of_a_cluster_that_is_followed() {
        // MA-8.2, MA-27.12
        let (store, cluster) = store();
        store.followed(&cluster, Following::Connected);
        assert_eq!(state(&store, &cluster), None, "it is not followed");
        store.followed(&cluster, Following::Begins);
        assert_eq!(state(&store, &cluster), Some((false, None)));
        store.followed(&cluster, Following::Disconnected("refused".to_owned()));
        assert_eq!(state(&store, &cluster), Some((false, Some("refused".to_owned()))));
        store.followed(&cluster, Following::Connected);
        assert_eq!(state(&store, &cluster), Some((true, None)));
        let watch = watch(&store, &cluster, "Node");
        let node = json!({"metadata": {"name": "n", "uid": "1", "resourceVersion": "1"}});
        store.seen(&watch.id(&whole(&node)), watch.trimmed(whole(&node).object));
        let nodes =
            || store.with(|objects| objects.workload(&cluster).map(|known| known.all(&watch.group_kind).count()));
        assert_eq!(nodes(), Some(1));
        store.listed_in(&cluster, &watch.group_kind, &[ObjectKey::new("", "n")].into());
        assert_eq!(nodes(), Some(1));
        store.listed_in(&cluster, &watch.group_kind, &[].into());
        assert_eq!(nodes(), Some(0), "a list that lacks it says that it is gone");
        store.followed(&cluster, Following::Ends);
        store.followed(&cluster, Following::Disconnected("late".to_owned()));
        assert_eq!(state(&store, &cluster), None);
    }

    fn whole(object: &Value) -> Whole {
        serde_json::from_value(object.clone()).unwrap()
    }

    fn watch(store: &Arc<Store>, cluster: &ObjectKey, kind: &'static str) -> Watch {
        let sizes = Sizes { of: HashMap::new(), all: Arc::default() };
        let (store, cluster, sender) = (store.clone(), cluster.clone(), mpsc::channel(1).0);
        Watch { store, cluster, group: "", kind, group_kind: GroupKind::new("", kind), sender, sizes }
    }

    #[test]
    fn items_of_lists_get_their_type_and_lose_what_no_step_looks_at() {
        let (store, cluster) = store();
        let pod = json!({"metadata": {"name": "p", "namespace": "d"}, "spec": {"nodeName": "n", "containers": [{"env": []}]}});
        let trimmed = watch(&store, &cluster, "Pod").trimmed(whole(&pod).object);
        let want = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d"}, "spec": {"nodeName": "n"}});
        assert_eq!(Value::Object(trimmed.members().clone()), want);
    }

    #[test]
    fn the_objects_of_a_cluster_have_a_sum() {
        let mut sizes = Sizes { of: HashMap::new(), all: Arc::default() };
        let [a, b] = ["a", "b"].map(|name| ObjectKey::new("", name));
        assert!(sizes.take(&a, MOST - 1) && sizes.take(&a, MOST));
        assert!(!sizes.take(&b, 1), "there is no room");
        assert!(sizes.take(&a, 0) && sizes.take(&b, MOST - 1));
        sizes.retain(|_| false);
        assert_eq!(sizes.all.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_cluster_that_is_followed_is_written_to_only_while_it_is_connected() {
        let (store, cluster) = store();
        let followed = Followed::none(&store);
        assert!(followed.client(&cluster).is_none());
        followed.start(&cluster);
        assert_eq!(followed.client(&cluster).unwrap().err().unwrap(), "workload cluster ns/c is not connected");
        followed.start(&cluster);
        followed.stop(&cluster);
        assert!(followed.client(&cluster).is_none() && state(&store, &cluster).is_none());
    }
}
