//! Counters of earlier API versions, which depend on Nodes (MA-18.5).

use core::time::Duration;

use serde_json::json;

use crate::lifecycle::conditions::{is_true, since};
use crate::lifecycle::context::StepContext;
use crate::lifecycle::digest::{Fingerprint, digest};
use crate::lifecycle::fields::{cluster_key, number, remaining, set, texts};
use crate::lifecycle::objects::WorkloadObjects;
use model::hub::{Object, paths};

/// Counts the machines of a set by their Nodes and template labels; returns when the next machine will have been ready
/// for the minimum time.
///
/// While Nodes are unknown, as after a restart, the counters are unchanged.
pub(super) fn count(context: &StepContext<'_>, after: &mut Object, machines: &[&Object]) -> Option<Duration> {
    let labels = texts(after, paths::worker::MACHINE_LABELS);
    let template = Fingerprint::new(&labels);
    let is_labeled = |machine: &&&Object| {
        let digest = digest(machine);
        let is_labeled =
            digest.is_selected(template) || labels.iter().all(|(name, value)| machine.label(name) == Some(value));
        if is_labeled {
            digest.note_selected(template);
        }
        is_labeled
    };
    put(after, "fullyLabeledReplicas", machines.iter().filter(is_labeled).count());
    let workload = cluster_key(after).and_then(|cluster| context.workload(&cluster))?;
    let nodes = machines.iter().filter_map(|machine| node(workload, machine));
    let ready: Vec<&Object> = nodes.filter(|node| is_true(node, "Ready")).collect();
    let seconds = number(after, paths::worker::MIN_READY_SECONDS).and_then(|seconds| u64::try_from(seconds).ok());
    let least = Duration::from_secs(seconds.unwrap_or_default());
    let left = |node: &&Object| since(node, "Ready").and_then(|since| remaining(since, least, context.now));
    let waiting: Vec<Duration> = if least.is_zero() { Vec::new() } else { ready.iter().filter_map(left).collect() };
    put(after, "readyReplicas", ready.len());
    put(after, "availableReplicas", ready.len().saturating_sub(waiting.len()));
    waiting.into_iter().min()
}

fn put(after: &mut Object, name: &str, number: usize) {
    set(after, &format!("status.deprecated.v1beta1.{name}"), json!(number));
}

fn node<'w>(workload: &'w WorkloadObjects, machine: &Object) -> Option<&'w Object> {
    let name = machine.node_name();
    workload.node(name).map(|node| &**node)
}
