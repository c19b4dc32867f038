//! How a machine is (MA-19.2 to MA-19.5).

use std::sync::Arc;

use core::time::Duration;

use super::scope::Scope;
use crate::lifecycle::conditions::{get, is_true, since};
use crate::lifecycle::context::Context;
use crate::lifecycle::fields::{created, later, remaining, text};
use crate::lifecycle::objects::Workload;
use golang::calendar::{Moment, format_seconds};
use model::hub::{Object, UnhealthyCondition, label};

/// On a Machine: it has to be remediated.
const REMEDIATE: &str = "cluster.x-k8s.io/remediate-machine";
/// How long a machine may be without a Node, in seconds.
const STARTUP_TIMEOUT: i32 = 600;
/// What is added before looking again, since comparisons are strict (MA-19.4).
const STRICTLY: Duration = Duration::from_secs(1);

/// How a machine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Healthy,
    /// Neither: something is not as it should be, but not for long enough; after which time to look again (MA-19.5).
    Pending(Option<Duration>),
    Unhealthy {
        reason: &'static str,
        message: String,
    },
}

/// The Node of a machine.
enum Node<'a> {
    /// The machine names none yet.
    NotYet,
    /// The workload cluster is not connected.
    Unseen,
    Gone,
    There(&'a Arc<Object>),
}

/// Judges the machines of a Cluster.
pub(super) struct Judge<'a> {
    scope: &'a Scope,
    now: Moment,
    workload: Option<&'a Workload>,
    is_initialized: bool,
    is_provisioned: bool,
    /// The latest of the times since when the conditions of the Cluster are true.
    since: Option<Moment>,
}

/// What checks have found.
#[derive(Default)]
struct Findings {
    of_machine: Vec<String>,
    of_node: Vec<String>,
    node_reason: &'static str,
    again: Option<Duration>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(context: &'a Context<'_>, scope: &'a Scope) -> Self {
        let cluster = &scope.cluster;
        Judge {
            scope,
            now: context.now,
            workload: context.workload(&scope.key),
            is_initialized: is_true(cluster, "ControlPlaneInitialized"),
            is_provisioned: is_true(cluster, "InfrastructureReady"),
            since: true_since(cluster, "ControlPlaneInitialized").max(true_since(cluster, "InfrastructureReady")),
        }
    }

    /// How a machine is; the first that fits.
    pub(super) fn verdict(&self, machine: &Object) -> Verdict {
        if machine.annotation(REMEDIATE).is_some() {
            let message = format!("Health check failed: the Machine has the annotation {REMEDIATE}");
            return Verdict::Unhealthy { reason: "HasRemediateAnnotation", message };
        }
        let node = self.node(machine);
        let mut found = Findings::default();
        // MA-19.2
        let may_be_judged = self.is_initialized || machine.label(label::CONTROL_PLANE).is_some();
        if may_be_judged && self.is_provisioned {
            self.check_machine(machine, &mut found);
            self.check_node(machine, &node, &mut found);
        }
        let is_there = matches!(node, Node::There(_)) && !machine.is_being_deleted();
        found.verdict(is_there)
    }

    fn node(&self, machine: &Object) -> Node<'a> {
        let name = text(machine, "status.nodeRef.name");
        if name.is_empty() {
            return Node::NotYet;
        }
        let Some(workload) = self.workload else { return Node::Unseen };
        workload.node(name).map_or(Node::Gone, Node::There)
    }

    fn check_machine(&self, machine: &Object, found: &mut Findings) {
        for check in &*self.scope.checks.unhealthy_machine_conditions {
            if let Some(message) = self.check_condition(machine, check, &mut found.again) {
                found.of_machine.push(message);
            }
        }
    }

    fn check_node(&self, machine: &Object, node: &Node<'_>, found: &mut Findings) {
        match node {
            Node::Unseen => {}
            Node::Gone => found.fail("NodeDeleted", format!("Node {} is gone", text(machine, "status.nodeRef.name"))),
            Node::NotYet => self.check_startup(machine, found),
            Node::There(node) => {
                for check in &*self.scope.checks.unhealthy_node_conditions {
                    if let Some(message) = self.check_condition(node, check, &mut found.again) {
                        found.fail("UnhealthyNode", message);
                    }
                }
            }
        }
    }

    /// Whether a machine has waited too long for its Node.
    fn check_startup(&self, machine: &Object, found: &mut Findings) {
        let seconds = self.scope.checks.node_startup_timeout_seconds.unwrap_or(STARTUP_TIMEOUT);
        let begun = created(machine).max(self.since).max(true_since(machine, "InfrastructureReady"));
        let Some(begun) = begun.filter(|_| seconds != 0) else { return };
        if self.is_over(begun, seconds, &mut found.again) {
            let lasted = format_seconds(seconds.into());
            found.fail("NodeStartupTimeout", format!("No Node has appeared within {lasted}"));
        }
    }

    /// What is wrong when a condition has had a status for too long.
    fn check_condition(
        &self,
        object: &Object,
        check: &UnhealthyCondition,
        again: &mut Option<Duration>,
    ) -> Option<String> {
        let UnhealthyCondition { r#type, status, timeout_seconds } = check;
        get(object, r#type).filter(|condition| condition.status.name() == status)?;
        let begun = since(object, r#type).or_else(|| created(object))?;
        let seconds = timeout_seconds.unwrap_or_default();
        let (kind, lasted) = (object.kind(), format_seconds(seconds.into()));
        let message = || format!("Condition {type} of the {kind} has been {status} for more than {lasted}");
        self.is_over(begun, seconds, again).then(message)
    }

    /// Whether more than a number of seconds has passed; otherwise notes when to look again (MA-19.4).
    fn is_over(&self, begun: Moment, seconds: i32, again: &mut Option<Duration>) -> bool {
        let lasts = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        if later(begun, lasts) < self.now {
            return true;
        }
        let left = remaining(begun, lasts, self.now).unwrap_or_default() + STRICTLY;
        *again = Some(again.map_or(left, |known| known.min(left)));
        false
    }
}

impl Findings {
    fn fail(&mut self, reason: &'static str, message: String) {
        self.node_reason = reason;
        self.of_node.push(message);
    }

    /// All messages, under the reason of the machine if one of its checks has failed (MA-19.3).
    fn verdict(self, has_node: bool) -> Verdict {
        let reason = if self.of_machine.is_empty() { self.node_reason } else { "UnhealthyMachine" };
        let messages: Vec<String> = self.of_machine.into_iter().chain(self.of_node).collect();
        if !messages.is_empty() {
            return Verdict::Unhealthy { reason, message: format!("Health check failed: {}", messages.join("; ")) };
        }
        if has_node && self.again.is_none() { Verdict::Healthy } else { Verdict::Pending(self.again) }
    }
}

/// Since when a condition is true, if it is.
fn true_since(object: &Object, name: &str) -> Option<Moment> {
    since(object, name).filter(|_| is_true(object, name))
}
