//! Tasks in the background.

use std::future::Future;

use tokio::task::JoinSet;

/// Runs a task that must not end before the process does.
pub(super) fn supervise(
    tasks: &mut JoinSet<&'static str>,
    name: &'static str,
    task: impl Future<Output = ()> + Send + 'static,
) {
    tasks.spawn(async move {
        task.await;
        name
    });
}
