//! `plan --live --dry-run=server`: what changes of existing objects is asked of their API server, which stores nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use tokio::time::Instant;

use crate::cli::live::ClusterConnection;
use engine::topology::plan::DryRunServer;
use model::hub::ObjectRef;
use model::world::{DryRun, DryRunCall, Found};
use server::kubernetes::dry_run::{self, DryRunError, DryRuns};
use server::telemetry::metrics::Metrics;

/// How long one dry run may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long all dry runs of a plan may take.
const TOGETHER: Duration = Duration::from_mins(10);
/// How many dry runs of a Cluster are made side by side.
const AT_A_TIME: usize = 16;

/// The API server of a running cluster.
#[derive(Debug)]
pub(super) struct ClusterDryRuns {
    connection: Arc<ClusterConnection>,
    attempts: Attempts,
}

/// The dry runs of a plan.
#[derive(Debug)]
struct Attempts {
    dry_runs: DryRuns,
    /// The kinds of which objects may not be applied, with what the API server said first, and how many objects.
    forbidden: Mutex<BTreeMap<String, (String, usize)>>,
    deadline: Deadline,
}

/// The time in which all dry runs end, from the first one on, and the number of those that found none left.
#[derive(Debug, Default)]
struct Deadline {
    ends: OnceLock<Instant>,
    late: AtomicUsize,
}

impl Deadline {
    /// When a dry run has to end; none if the time is over.
    fn next(&self) -> Option<Instant> {
        let now = Instant::now();
        let ends = *self.ends.get_or_init(|| now + TOGETHER);
        (now < ends).then(|| ends.min(now + PATIENCE))
    }

    /// Whether the time is over.
    fn is_over(&self) -> bool {
        self.ends.get().is_some_and(|ends| Instant::now() >= *ends)
    }

    /// Counts a dry run that did not end in time.
    fn note_late(&self) {
        self.late.fetch_add(1, Ordering::Relaxed);
    }

    /// What could not be tried in time, for people.
    fn warning(&self) -> Option<String> {
        let (late, minutes) = (self.late.load(Ordering::Relaxed), TOGETHER.as_secs() / 60);
        (late > 0)
            .then(|| format!("dry runs ended after {minutes} minutes; changes that are assumed since then: {late}"))
    }
}

impl ClusterDryRuns {
    /// The API server that a connection leads to.
    pub(super) fn new(connection: Arc<ClusterConnection>) -> Arc<Self> {
        let attempts = Attempts::new(connection.client());
        Arc::new(ClusterDryRuns { connection, attempts })
    }

    /// What could not be tried, for people.
    pub(super) fn untried(&self) -> Vec<String> {
        self.attempts.untried()
    }
}

impl Attempts {
    fn new(client: kube::Client) -> Self {
        let dry_runs = DryRuns::new(client, Arc::new(Metrics::default()));
        Attempts { dry_runs, forbidden: Mutex::default(), deadline: Deadline::default() }
    }

    fn untried(&self) -> Vec<String> {
        let forbidden = self.forbidden.lock().unwrap_or_else(PoisonError::into_inner);
        let words = |(kind, (reason, objects)): (&String, &(String, usize))| {
            let objects = if *objects == 1 { format!("1 {kind}") } else { format!("{objects} {kind}s") };
            format!("no permission for a dry run of {objects}, so their changes are assumed: {reason}")
        };
        forbidden.iter().map(words).chain(self.deadline.warning()).collect()
    }

    async fn answers(&self, calls: Vec<DryRunCall>) -> Vec<(DryRunCall, Found<DryRun>)> {
        let answers = stream::iter(calls.into_iter().map(async |call| (self.answer(&call).await, call)));
        answers.buffer_unordered(AT_A_TIME).map(|(found, call)| (call, found)).collect().await
    }

    async fn answer(&self, call: &DryRunCall) -> Found<DryRun> {
        let Some(ends) = self.deadline.next() else {
            self.deadline.note_late();
            return Found::Absent;
        };
        match self.dry_runs.attempt(call, ends).await {
            Ok(found) => Found::Yes(found),
            // It had less time than others, so this is no failure of its object.
            Err(_) if self.deadline.is_over() => {
                self.deadline.note_late();
                Found::Absent
            }
            Err(error) if error.is_forbidden() && self.lacks_permission(&call.object).await => {
                self.note_forbidden(&call.object, &error);
                Found::Absent
            }
            Err(error) => Found::Unreadable(dry_run::unreadable(&call.object, &error)),
        }
    }

    async fn lacks_permission(&self, object: &ObjectRef) -> bool {
        matches!(self.dry_runs.may_apply(object).await, Ok(false))
    }

    fn note_forbidden(&self, object: &ObjectRef, error: &DryRunError) {
        let mut forbidden = self.forbidden.lock().unwrap_or_else(PoisonError::into_inner);
        forbidden.entry(object.kind.clone()).or_insert_with(|| (error.to_string(), 0)).1 += 1;
    }
}

impl DryRunServer for ClusterDryRuns {
    fn answers(&self, calls: Vec<DryRunCall>) -> Vec<(DryRunCall, Found<DryRun>)> {
        self.connection.block_on(self.attempts.answers(calls))
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use model::hub::ObjectKey;

    #[tokio::test(start_paused = true)]
    async fn the_dry_runs_of_a_plan_have_a_sum() {
        let (deadline, began) = (Deadline::default(), Instant::now());
        assert_eq!(deadline.next(), Some(began + PATIENCE));
        tokio::time::advance(TOGETHER.saturating_sub(Duration::from_secs(1))).await;
        assert_eq!((deadline.next(), deadline.warning()), (Some(began + TOGETHER), None));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((deadline.next(), deadline.is_over()), (None, true));
        (0..2).for_each(|_| deadline.note_late());
        let want = "dry runs ended after 10 minutes; changes that are assumed since then: 2";
        assert_eq!(deadline.warning().as_deref(), Some(want));
    }

    /// An API server that takes this time for each answer.
    fn slow(time: Duration) -> kube::Client {
        let answer = move |_: Request<Body>| async move {
            tokio::time::sleep(time).await;
            Ok::<_, std::io::Error>(Response::new(axum::body::Body::from(forge().to_string())))
        };
        kube::Client::new(tower::service_fn(answer), "default")
    }

    fn forge() -> Value {
        json!({"apiVersion": "g.io/v1", "kind": "Forge", "metadata": {"namespace": "ns", "name": "f", "uid": "u"},
            "spec": {}})
    }

    /// The dry run of an object in this version.
    fn call(version: usize) -> DryRunCall {
        DryRunCall {
            object: ObjectRef::new("g.io/v1", "Forge", ObjectKey::new("ns", "f")),
            version: version.to_string(),
            current: forge().to_string(),
            sent: forge().to_string(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_plan_waits_for_a_slow_api_server_for_ten_minutes_and_assumes_the_rest() {
        let (attempts, began) = (Attempts::new(slow(Duration::from_secs(23))), Instant::now());
        let answers = attempts.answers((0..1000).map(call).collect()).await;
        assert_eq!(began.elapsed(), TOGETHER);
        let count = |is: fn(&Found<DryRun>) -> bool| answers.iter().filter(|(_, found)| is(found)).count();
        let (tried, assumed) = (count(|found| matches!(found, Found::Yes(_))), count(|found| *found == Found::Absent));
        assert!(tried >= 100 && assumed >= 100 && tried + assumed == 1000, "{tried} and {assumed}");
        let want = format!("dry runs ended after 10 minutes; changes that are assumed since then: {assumed}");
        assert_eq!(attempts.untried(), [want]);
        // One that takes too long by itself is a failure.
        let attempts = Attempts::new(slow(PATIENCE + Duration::from_secs(1)));
        let answers = attempts.answers(vec![call(0)]).await;
        assert!(matches!(&answers[..], [(_, Found::Unreadable(_))]), "{answers:?}");
        assert!(attempts.untried().is_empty());
    }
}
