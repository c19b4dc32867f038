//! What a drain does with each Pod of a Node (MA-10.3, MA-10.4).

use std::sync::Arc;

use serde_json::Value;

use super::drain_rules::{Behavior, Rule};
use crate::lifecycle::context::Fault;
use crate::lifecycle::fields::{controller, items, text, time};
use crate::lifecycle::objects::{GroupKind, Workload};
use golang::calendar::{Moment, SECOND};
use model::hub::{Object, ObjectKey};

/// On a Pod: what a drain does with it, before all rules.
const DRAIN: &str = "cluster.x-k8s.io/drain";
/// On a Pod that stands for one that the kubelet runs by itself.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// What happens to a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It stays, and the drain does not wait for it.
    Skipped,
    Evicted,
    /// It ends by itself, and the drain waits for that.
    Awaited,
    /// It is about to go.
    Terminating,
}

/// A Pod, what happens to it, and when.
#[derive(Clone, Debug)]
pub(super) struct Drained {
    pub(super) pod: Arc<Object>,
    pub(super) fate: Fate,
    /// Pods of lower order go first.
    pub(super) order: i64,
    /// What is lost with the Pod.
    pub(super) warning: Option<&'static str>,
    /// Why its last eviction was refused (MA-10.6).
    pub(super) refusal: Option<String>,
}

/// What all Pods are judged by.
#[derive(Debug)]
pub(super) struct Circumstances<'a> {
    pub(super) workload: &'a Workload,
    pub(super) rules: &'a [Rule],
    /// Nothing is heard of the Node, so its Pods do not end by themselves (MA-10.2).
    pub(super) is_unreachable: bool,
    pub(super) now: Moment,
}

/// The Pods of a Node, in the order of namespaces and names.
pub(super) fn on_node(workload: &Workload, node: &str) -> Vec<Arc<Object>> {
    let kind = GroupKind::new("", "Pod");
    let pods = workload.all(&kind);
    pods.filter(|pod| text(pod, "spec.nodeName") == node).cloned().collect()
}

/// What happens to a Pod; the first filter that says so decides.
pub(super) fn judge(pod: &Arc<Object>, around: &Circumstances<'_>) -> Result<Drained, Fault> {
    let (fate, order) = fate(pod, around)?;
    let fate = if fate == Fate::Evicted && pod.is_being_deleted() { Fate::Terminating } else { fate };
    let refusal = around.workload.refusal(&pod.key()).filter(|_| fate == Fate::Evicted).map(str::to_owned);
    Ok(Drained { pod: pod.clone(), fate, order, warning: warning(pod), refusal })
}

fn fate(pod: &Object, around: &Circumstances<'_>) -> Result<(Fate, i64), Fault> {
    let is_left = is_left_behind(pod, around);
    if is_left || is_of_daemon_set(pod, around.workload) || pod.annotation(MIRROR).is_some() {
        return Ok((Fate::Skipped, 0));
    }
    match pod.label(DRAIN).map(|value| value.to_lowercase().replacen('-', "", 1)).as_deref() {
        Some("skip") => return Ok((Fate::Skipped, 0)),
        Some("waitcompleted") => return Ok((Fate::Awaited, 0)),
        _ => {}
    }
    for rule in around.rules {
        if rule.selects(pod, around.workload)? {
            return Ok(match rule.behavior {
                Behavior::Drain { order } => (Fate::Evicted, order),
                Behavior::Skip => (Fate::Skipped, 0),
                Behavior::WaitCompleted => (Fate::Awaited, 0),
            });
        }
    }
    Ok((Fate::Evicted, 0))
}

/// Whether a Pod of an unreachable Node has been terminating for more than a second.
fn is_left_behind(pod: &Object, around: &Circumstances<'_>) -> bool {
    let since = time(pod, "metadata.deletionTimestamp");
    let elapsed = since.and_then(|since| around.now.since(since));
    around.is_unreachable && elapsed.is_some_and(|nanos| nanos > SECOND)
}

/// Whether a DaemonSet that exists keeps the Pod running.
fn is_of_daemon_set(pod: &Object, workload: &Workload) -> bool {
    let is_finished = ["Succeeded", "Failed"].contains(&text(pod, "status.phase"));
    let owner = controller(pod).filter(|owner| owner.get("kind").is_some_and(|kind| kind == "DaemonSet"));
    let name = owner.and_then(|owner| owner.get("name")).and_then(Value::as_str);
    let exists = |name: &str| {
        workload.get(&GroupKind::new("apps", "DaemonSet"), &ObjectKey::new(pod.namespace(), name)).is_some()
    };
    !is_finished && name.is_some_and(exists)
}

fn warning(pod: &Object) -> Option<&'static str> {
    if items(pod, "spec.volumes").iter().any(|volume| volume.get("emptyDir").is_some()) {
        return Some("the data in its emptyDir volumes is lost");
    }
    controller(pod).is_none().then_some("no controller creates it again")
}
