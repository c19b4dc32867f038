//! The quiet point: topologist has seen what was written, and no run is left to do.
//!
//! A test that proves that nothing happens writes something, waits for the quiet point after it, and looks. Metrics say
//! when that is, not a clock:
//!
//! * `topologist_watch_resource_version` says up to which version of its objects a watch has been processed;
//! * `topologist_reconciles_due` counts the objects whose run is in progress or due within a second. Runs that are due
//!   later are resyncs, and retries of what keeps failing.

use std::time::Duration;

use serde_json::Value;

use super::controllers::Controllers;
use super::server::Topologist;
use super::wait;

/// How often in a row nothing is left to do: what a watch has shown queues its objects a moment later.
const TIMES: usize = 4;

/// The time in which a provider of a test, which looks at all objects every 200 ms, has looked at them twice.
pub const PROVIDERS: Duration = Duration::from_millis(450);

/// What reports the metrics of topologist: a process, or controllers in this one.
pub trait Observed {
    fn render(&self) -> String;
}

impl Observed for Topologist {
    fn render(&self) -> String {
        self.admin_get("/metrics").1
    }
}

impl Observed for Controllers {
    fn render(&self) -> String {
        self.metrics.render()
    }
}

/// The quiet point, by the metrics of one process.
#[derive(Default)]
struct QuietPoint {
    /// The labels of the watches that show an object, and the version that they have to reach.
    watches: &'static [&'static str],
    version: i64,
    /// How many runs had ended when nothing was left to do, and how often in a row that was so.
    idle: Option<(i64, usize)>,
}

impl QuietPoint {
    /// The quiet point after this version of an object.
    fn after(object: &Value) -> Self {
        let watches: &[&str] = match object["kind"].as_str().unwrap_or_default() {
            "Cluster" => &["Cluster", "Managed", "machines"],
            "ClusterClass" => &["ClusterClass"],
            "ExtensionConfig" => &["ExtensionConfig"],
            "MachineDeployment" => &["MachineDeployment", "Managed", "machines"],
            kind => panic!("no watch is known for objects of the kind {kind:?}"),
        };
        let version = object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        QuietPoint { watches, version: version.expect("a stored object has a version"), idle: None }
    }

    fn is_reached(&mut self, metrics: &str) -> bool {
        let has_seen = self.watches.iter().all(|kind| {
            let labels = format!("{{kind=\"{kind}\"}}");
            // A process without such a watch has nothing to see.
            value(metrics, "topologist_watch_resource_version", &labels).is_none_or(|shown| shown >= self.version)
        });
        // A process that is gone reports nothing.
        let is_idle = !metrics.is_empty() && has_seen && sum(metrics, "topologist_reconciles_due") == 0;
        let runs = sum(metrics, "topologist_reconciles_total");
        let times = self.idle.filter(|(before, _)| *before == runs).map_or(0, |(_, times)| times);
        self.idle = is_idle.then_some((runs, times + 1));
        self.idle.is_some_and(|(_, times)| times >= TIMES)
    }
}

/// Waits until topologist has seen an object as it is now, and has nothing left to do.
#[track_caller]
pub fn until_quiet(topologist: &Topologist, object: &Value) {
    reach(QuietPoint::after(object), topologist);
}

/// Waits until nothing is left to do.
#[track_caller]
pub fn until_idle(topologist: &Topologist) {
    reach(QuietPoint::default(), topologist);
}

#[track_caller]
fn reach(mut point: QuietPoint, topologist: &Topologist) {
    let state = || format!("{}\n{}", lines(&topologist.render()), topologist.warnings());
    wait::until("nothing is left to do", wait::ROLLOUT, || point.is_reached(&topologist.render()), state);
}

/// [`until_quiet`] in a runtime.
pub async fn until_quiet_async(observed: &impl Observed, object: &Value) {
    reach_async(QuietPoint::after(object), observed).await;
}

/// [`until_idle`] in a runtime.
pub async fn until_idle_async(observed: &impl Observed) {
    reach_async(QuietPoint::default(), observed).await;
}

async fn reach_async(mut point: QuietPoint, observed: &impl Observed) {
    let is_reached = async || point.is_reached(&observed.render());
    wait::until_async("nothing is left to do", wait::ROLLOUT, is_reached, async || lines(&observed.render())).await;
}

/// Waits until a controller has failed twice more: the runs that follow a failure come after pauses that grow.
pub async fn until_retried(observed: &impl Observed, controller: &str) {
    let labels = format!("{{controller=\"{controller}\",outcome=\"failed\"}}");
    let failed = || value(&observed.render(), "topologist_reconciles_total", &labels).unwrap_or_default();
    let before = failed();
    let state = async || lines(&observed.render());
    wait::until_async("a failing run is tried again", wait::ROLLOUT, async || failed() >= before + 2, state).await;
}

fn value(metrics: &str, name: &str, labels: &str) -> Option<i64> {
    let rest = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(labels)?.strip_prefix(' '));
    rest?.parse().ok()
}

fn sum(metrics: &str, name: &str) -> i64 {
    let values = metrics.lines().filter(|line| line.starts_with(name) && !line.starts_with('#'));
    values.filter_map(|line| line.rsplit(' ').next()?.parse::<i64>().ok()).sum()
}

/// What metrics say of runs and watches.
fn lines(metrics: &str) -> String {
    let names = ["topologist_reconciles_due", "topologist_reconciles_total", "topologist_watch_resource_version"];
    let ours = metrics.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
    ours.map(|line| format!("{line}\n")).collect()
}
