//! Action of a drain for each Pod of a Node (MA-10.3, MA-10.4).

use std::sync::Arc;

use serde_json::Value;

use super::drain_rules::{Behavior, DrainRule};
use crate::lifecycle::context::StepError;
use crate::lifecycle::fields::{items, text, time};
use crate::lifecycle::objects::{GroupKind, RefusedEviction, WorkloadObjects};
use golang::calendar::{Moment, SECOND};
use model::hub::{Object, ObjectKey, paths};

/// On a Pod: the action of a drain, with precedence over all rules.
const DRAIN: &str = "cluster.x-k8s.io/drain";
/// On mirror Pods of static Pods.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The action for a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodAction {
    /// Not evicted, and not waited for.
    Skipped,
    Evicted,
    /// Not evicted, and waited for.
    Awaited,
    /// Already terminating.
    Terminating,
}

/// A Pod with its action and order.
#[derive(Clone, Debug)]
pub(super) struct DrainedPod {
    pub(super) pod: Arc<Object>,
    pub(super) fate: PodAction,
    /// Pods of lower order are drained first.
    pub(super) order: i64,
    /// Data that is lost with the Pod.
    pub(super) warning: Option<&'static str>,
    /// The last refused eviction (MA-10.6).
    pub(super) refusal: Option<RefusedEviction>,
}

/// Inputs for deciding about Pods.
#[derive(Debug)]
pub(super) struct DrainContext<'a> {
    pub(super) workload: &'a WorkloadObjects,
    pub(super) rules: &'a [DrainRule],
    /// The Node is unreachable, so its Pods do not terminate by themselves (MA-10.2).
    pub(super) is_unreachable: bool,
    pub(super) now: Moment,
}

/// The Pods of a Node, sorted by namespace and name.
pub(super) fn on_node(workload: &WorkloadObjects, node: &str) -> Vec<Arc<Object>> {
    let kind = GroupKind::new("", "Pod");
    let pods = workload.all(&kind);
    pods.filter(|pod| text(pod, paths::pod::NODE_NAME) == node).cloned().collect()
}

/// The action for a Pod; the first matching filter decides.
pub(super) fn decide(pod: &Arc<Object>, around: &DrainContext<'_>) -> Result<DrainedPod, StepError> {
    let (fate, order) = fate(pod, around)?;
    let fate = if fate == PodAction::Evicted && pod.is_being_deleted() { PodAction::Terminating } else { fate };
    let refusal = around.workload.refusal(&pod.key()).filter(|_| fate == PodAction::Evicted).cloned();
    Ok(DrainedPod { pod: pod.clone(), fate, order, warning: warning(pod), refusal })
}

fn fate(pod: &Object, around: &DrainContext<'_>) -> Result<(PodAction, i64), StepError> {
    let is_left = is_left_behind(pod, around);
    if is_left || is_of_daemon_set(pod, around.workload) || pod.annotation(MIRROR).is_some() {
        return Ok((PodAction::Skipped, 0));
    }
    match pod.label(DRAIN).map(|value| value.to_lowercase().replacen('-', "", 1)).as_deref() {
        Some("skip") => return Ok((PodAction::Skipped, 0)),
        Some("waitcompleted") => return Ok((PodAction::Awaited, 0)),
        _ => {}
    }
    for rule in around.rules {
        if rule.selects(pod, around.workload)? {
            return Ok(match rule.behavior {
                Behavior::Drain { order } => (PodAction::Evicted, order),
                Behavior::Skip => (PodAction::Skipped, 0),
                Behavior::WaitCompleted => (PodAction::Awaited, 0),
            });
        }
    }
    Ok((PodAction::Evicted, 0))
}

/// Whether a Pod of an unreachable Node has been terminating for more than a second.
fn is_left_behind(pod: &Object, around: &DrainContext<'_>) -> bool {
    let since = time(pod, paths::metadata::DELETION_TIMESTAMP);
    let elapsed = since.and_then(|since| around.now.since(since));
    around.is_unreachable && elapsed.is_some_and(|nanos| nanos > SECOND)
}

/// Whether an existing DaemonSet controls the Pod.
fn is_of_daemon_set(pod: &Object, workload: &WorkloadObjects) -> bool {
    let is_finished = ["Succeeded", "Failed"].contains(&pod.phase());
    let owner = pod.controller().filter(|owner| owner.get("kind").is_some_and(|kind| kind == "DaemonSet"));
    let name = owner.and_then(|owner| owner.get("name")).and_then(Value::as_str);
    let exists = |name: &str| {
        workload.get(&GroupKind::new("apps", "DaemonSet"), &ObjectKey::new(pod.namespace(), name)).is_some()
    };
    !is_finished && name.is_some_and(exists)
}

fn warning(pod: &Object) -> Option<&'static str> {
    if items(pod, paths::pod::VOLUMES).iter().any(|volume| volume.get("emptyDir").is_some()) {
        return Some("the data in its emptyDir volumes is lost");
    }
    pod.controller().is_none().then_some("no controller creates it again")
}
