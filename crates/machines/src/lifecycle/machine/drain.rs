//! Draining a Node (MA-9.6, MA-9.7, MA-10).

use std::collections::BTreeMap;
use std::sync::Arc;

use core::time::Duration;

use serde_json::json;

use super::drain_rules;
use super::guards::{PASS, is_left_out};
use super::node_fields::is_unreachable;
use super::pods::{DrainContext, DrainedPod, PodAction, decide, on_node};
use super::reconcile::{DeletionWait, MachineReconcile};
use crate::lifecycle::context::StepError;
use crate::lifecycle::fields::{flag, remaining, set, stamp, text, time};
use crate::lifecycle::objects::WorkloadObjects;
use crate::lifecycle::step::ObjectWrite;
use model::hub::{Object, paths};

const EXCLUDED: &str = "machine.cluster.x-k8s.io/exclude-node-draining";
const REASON: &str = "DrainingNode";
/// Grace period in seconds for Pods of an unreachable Node, where no kubelet can stop them (MA-10.2).
const GRACE_OF_THE_LOST: u32 = 1;
/// Time after which a refused eviction is tried again. It is shorter than a pass, which may begin a little early.
const EVICTION_PASS: Duration = Duration::from_secs(15);
/// Maximum number of names in a line (MA-10.8).
const NAMES: usize = 3;
/// Maximum number of reasons of refused evictions in a message (MA-10.8).
const REFUSALS: usize = 5;

/// Drains the Node; `None` when the drain is complete or skipped.
pub(super) fn stage(work: &mut MachineReconcile<'_, '_>, name: &str) -> Result<Option<DeletionWait>, StepError> {
    if is_left_out(work, EXCLUDED, paths::machine::NODE_DRAIN_TIMEOUT, paths::machine::NODE_DRAIN_START) {
        return Ok(None);
    }
    // Stored before the drain begins, so that its progress is visible.
    if work.machine.at(paths::machine::NODE_DRAIN_START).is_none() {
        set(&mut work.machine, paths::machine::NODE_DRAIN_START, stamp(work.context.now));
        return Ok(Some(DeletionWait::new(REASON, format!("Drain of Node {name} begins"))));
    }
    let Some(workload) = work.workload() else {
        return Err(StepError::failed(format!("Node {name} cannot be drained: its cluster is not connected")));
    };
    let Some(node) = workload.node(name).cloned() else {
        return Ok(None);
    };
    let cordon = cordon(work, &node);
    let pods = judged(work, workload, &node)?;
    let pass = DrainPass::among(&pods);
    evict(work, &pass, cordon, is_unreachable(&node).then_some(GRACE_OF_THE_LOST));
    if pass.is_over() && !is_short(work) {
        return Ok(None);
    }
    work.step.requeue_after(PASS);
    Ok(Some(DeletionWait::new(REASON, pass.message(work, name))))
}

/// Cordons the Node (MA-10.1), together with its other changes; returns the write of another Node than that of the
/// Machine.
fn cordon(work: &mut MachineReconcile<'_, '_>, node: &Arc<Object>) -> Option<ObjectWrite> {
    if flag(node, paths::node::UNSCHEDULABLE) {
        return None;
    }
    let unschedulable = |node: &mut Object| set(node, paths::node::UNSCHEDULABLE, json!(true));
    if work.node.found().is_some_and(|known| known.name() == node.name()) {
        work.node_mut().into_iter().for_each(unschedulable);
        return None;
    }
    let mut after = (**node).clone();
    unschedulable(&mut after);
    Some(ObjectWrite::Update { workload: Some(work.cluster.key()), before: node.clone(), after })
}

/// Whether the configured drain time has not passed yet.
fn is_short(work: &mut MachineReconcile<'_, '_>) -> bool {
    let Some(begun) = time(&work.machine, paths::machine::NODE_DRAIN_START) else { return false };
    let left = remaining(begun, work.context.settings.timings.drain, work.context.now);
    left.into_iter().for_each(|left| work.step.requeue_after(left));
    left.is_some()
}

/// The action for each Pod of the Node that is not skipped.
fn judged(
    work: &MachineReconcile<'_, '_>,
    workload: &WorkloadObjects,
    node: &Object,
) -> Result<Vec<DrainedPod>, StepError> {
    let pods = on_node(workload, node.name());
    if pods.is_empty() {
        return Ok(Vec::new());
    }
    let rules = drain_rules::applicable(work)?;
    let around = DrainContext { workload, rules: &rules, is_unreachable: is_unreachable(node), now: work.context.now };
    let mut judged = pods.iter().map(|pod| decide(pod, &around)).collect::<Result<Vec<DrainedPod>, StepError>>()?;
    judged.retain(|drained| drained.fate != PodAction::Skipped);
    Ok(judged)
}

/// Evicts Pods after the Node is cordoned, since no Pod may be scheduled to a Node that is being drained. Those whose
/// last eviction was refused come last, and not before the next pass.
fn evict(work: &mut MachineReconcile<'_, '_>, pass: &DrainPass<'_>, cordon: Option<ObjectWrite>, grace: Option<u32>) {
    let mut writes: Vec<ObjectWrite> = cordon.into_iter().chain(work.take_node_write()).collect();
    let now = work.context.now;
    let may_be_evicted = |drained: &&DrainedPod| {
        drained.refusal.as_ref().is_none_or(|refusal| remaining(refusal.at, EVICTION_PASS, now).is_none())
    };
    let mut evicted: Vec<&DrainedPod> = pass.with_fate(PodAction::Evicted).copied().filter(may_be_evicted).collect();
    evicted.sort_by_key(|drained| drained.refusal.is_some());
    for drained in evicted {
        let pod = &drained.pod;
        let message = format!("Evicting Pod {}", pod.key());
        match drained.warning {
            Some(warning) => work.step.warn("EvictingPod", format!("{message}: {warning}")),
            None => work.step.event("EvictingPod", message),
        }
        writes.push(ObjectWrite::Evict { workload: work.cluster.key(), pod: pod.clone(), grace });
    }
    if !writes.is_empty() {
        work.step.attempt(writes);
    }
}

/// The Pods of the lowest order, which are drained now, and those of later orders (MA-10.5).
#[derive(Debug)]
struct DrainPass<'a> {
    now: Vec<&'a DrainedPod>,
    later: Vec<&'a DrainedPod>,
}

impl<'a> DrainPass<'a> {
    fn among(pods: &'a [DrainedPod]) -> Self {
        let lowest = pods.iter().map(|drained| drained.order).min().unwrap_or_default();
        let (now, later) = pods.iter().partition(|drained| drained.order == lowest);
        DrainPass { now, later }
    }

    fn with_fate(&self, fate: PodAction) -> impl Iterator<Item = &&'a DrainedPod> {
        self.now.iter().filter(move |drained| drained.fate == fate)
    }

    /// Whether no Pods remain to be evicted, awaited or terminated (MA-10.7).
    fn is_over(&self) -> bool {
        self.now.is_empty() && self.later.is_empty()
    }

    /// One line for each group of Pods (MA-10.8).
    fn message(&self, work: &MachineReconcile<'_, '_>, node: &str) -> String {
        let since = text(&work.machine, paths::machine::NODE_DRAIN_START);
        let mut lines = vec![format!("Drain of Node {node} is not complete yet (begun at {since})")];
        let mut add_line = |names: &[String], what: &str| {
            if !names.is_empty() {
                lines.push(format!("* {}: {what}", listed(names)));
            }
        };
        let names = |fate| self.with_fate(fate).map(|drained| drained.pod.key().to_string()).collect::<Vec<_>>();
        add_line(&names(PodAction::Terminating), "deletionTimestamp set, but still on the Node");
        let mut evicted: BTreeMap<Option<&str>, Vec<String>> = BTreeMap::new();
        for drained in self.with_fate(PodAction::Evicted) {
            evicted
                .entry(drained.refusal.as_ref().map(|refusal| &*refusal.reason))
                .or_default()
                .push(drained.pod.key().to_string());
        }
        add_line(&evicted.remove(&None).unwrap_or_default(), "being evicted");
        for (refusal, names) in evicted.iter().take(REFUSALS) {
            add_line(names, &format!("cannot be evicted yet: {}", refusal.unwrap_or_default()));
        }
        add_line(&names(PodAction::Awaited), "waiting until they complete");
        let mut orders: Vec<i64> = self.later.iter().map(|drained| drained.order).collect();
        orders.sort_unstable();
        for group in orders.chunk_by(|a, b| a == b) {
            let (count, order) = (group.len(), group.first().copied().unwrap_or_default());
            lines.push(format!("* {count} Pods of order {order} are drained afterwards"));
        }
        lines.join("\n")
    }
}

/// `Pod a`, or `Pods a, b, c, ... (N more)`.
fn listed(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMES).map(String::as_str).collect();
    let plural = if names.len() > 1 { "s" } else { "" };
    let more = match names.len().saturating_sub(NAMES) {
        0 => String::new(),
        more => format!(", ... ({more} more)"),
    };
    format!("Pod{plural} {}{more}", shown.join(", "))
}
