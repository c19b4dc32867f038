//! `plan --live --dry-run=server`: what changes of existing objects is asked of their API server, which stores nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use tokio::time::Instant;

use crate::cli::live::Connection;
use crate::hub::ObjectRef;
use crate::kubernetes::dry_run::{self, DryRunError, DryRuns};
use crate::telemetry::metrics::Metrics;
use crate::topology::plan::DryRunServer;
use crate::world::{DryRun, DryRunCall, Found};

/// How long one dry run may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// How many dry runs of a Cluster are made side by side.
const AT_A_TIME: usize = 16;

/// The API server of a running cluster.
#[derive(Debug)]
pub(super) struct Server {
    connection: Arc<Connection>,
    dry_runs: DryRuns,
    /// The kinds of which objects may not be applied, with what the API server said first, and how many objects.
    forbidden: Mutex<BTreeMap<String, (String, usize)>>,
}

impl Server {
    /// The API server that a connection leads to.
    pub(super) fn of(connection: Arc<Connection>) -> Arc<Self> {
        let dry_runs = DryRuns::new(connection.client(), Arc::new(Metrics::default()));
        Arc::new(Server { connection, dry_runs, forbidden: Mutex::default() })
    }

    /// What could not be tried, for people.
    pub(super) fn untried(&self) -> Vec<String> {
        let forbidden = self.forbidden.lock().unwrap_or_else(PoisonError::into_inner);
        let words = |(kind, (said, objects)): (&String, &(String, usize))| {
            let objects = if *objects == 1 { format!("1 {kind}") } else { format!("{objects} {kind}s") };
            format!("no permission for a dry run of {objects}, so their changes are assumed: {said}")
        };
        forbidden.iter().map(words).collect()
    }

    async fn answer(&self, call: &DryRunCall) -> Found<DryRun> {
        match self.dry_runs.attempt(call, Instant::now() + PATIENCE).await {
            Ok(found) => Found::Yes(found),
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

impl DryRunServer for Server {
    fn answers(&self, calls: Vec<DryRunCall>) -> Vec<(DryRunCall, Found<DryRun>)> {
        let answers = stream::iter(calls.into_iter().map(async |call| (self.answer(&call).await, call)));
        let answers = answers.buffer_unordered(AT_A_TIME).map(|(found, call)| (call, found));
        self.connection.block_on(answers.collect())
    }
}
