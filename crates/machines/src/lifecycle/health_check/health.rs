//! Health of machines (MA-19.2 to MA-19.5).

use std::sync::Arc;

use core::time::Duration;

use super::scope::CheckScope;
use crate::lifecycle::conditions::{self, is_true, since};
use crate::lifecycle::context::StepContext;
use crate::lifecycle::fields::{created, later, remaining};
use crate::lifecycle::objects::WorkloadObjects;
use golang::calendar::{Moment, format_seconds};
use model::hub::{Object, UnhealthyCondition, label};

/// On a Machine: requests its remediation.
const REMEDIATE: &str = "cluster.x-k8s.io/remediate-machine";
/// Default startup timeout of a Node, in seconds.
const STARTUP_TIMEOUT: i32 = 600;
/// Added to requeue times, since comparisons are strict (MA-19.4).
const STRICTLY: Duration = Duration::from_secs(1);

/// Health of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MachineHealth {
    Healthy,
    /// A condition is bad but its timeout has not passed; the duration is the next check time (MA-19.5).
    Pending(Option<Duration>),
    Unhealthy {
        reason: &'static str,
        message: String,
    },
}

/// The Node of a machine.
enum NodeLookup<'a> {
    /// The machine has no Node reference yet.
    NotYet,
    /// The workload cluster is not connected.
    Unseen,
    Gone,
    There(&'a Arc<Object>),
}

/// Evaluates the health of the machines of a Cluster.
pub(super) struct HealthEvaluator<'a> {
    scope: &'a CheckScope,
    now: Moment,
    workload: Option<&'a WorkloadObjects>,
    is_initialized: bool,
    is_provisioned: bool,
    /// The latest transition time of the Cluster conditions that must be true.
    since: Option<Moment>,
}

/// Results of the checks of a machine.
#[derive(Default)]
struct HealthFindings {
    of_machine: Vec<String>,
    of_node: Vec<String>,
    node_reason: &'static str,
    again: Option<Duration>,
}

impl<'a> HealthEvaluator<'a> {
    pub(super) fn new(context: &'a StepContext<'_>, scope: &'a CheckScope) -> Self {
        let cluster = &scope.cluster;
        HealthEvaluator {
            scope,
            now: context.now,
            workload: context.workload(&scope.key),
            is_initialized: is_true(cluster, "ControlPlaneInitialized"),
            is_provisioned: is_true(cluster, "InfrastructureReady"),
            since: true_since(cluster, "ControlPlaneInitialized").max(true_since(cluster, "InfrastructureReady")),
        }
    }

    /// The health of a machine; the first match counts.
    pub(super) fn verdict(&self, machine: &Object) -> MachineHealth {
        if machine.annotation(REMEDIATE).is_some() {
            let message = format!("Health check failed: the Machine has the annotation {REMEDIATE}");
            return MachineHealth::Unhealthy { reason: "HasRemediateAnnotation", message };
        }
        let node = self.node(machine);
        let mut found = HealthFindings::default();
        // MA-19.2
        let may_be_judged = self.is_initialized || machine.label(label::CONTROL_PLANE).is_some();
        if may_be_judged && self.is_provisioned {
            self.check_machine(machine, &mut found);
            self.check_node(machine, &node, &mut found);
        }
        let is_there = matches!(node, NodeLookup::There(_)) && !machine.is_being_deleted();
        found.verdict(is_there)
    }

    fn node(&self, machine: &Object) -> NodeLookup<'a> {
        let name = machine.node_name();
        if name.is_empty() {
            return NodeLookup::NotYet;
        }
        let Some(workload) = self.workload else { return NodeLookup::Unseen };
        workload.node(name).map_or(NodeLookup::Gone, NodeLookup::There)
    }

    fn check_machine(&self, machine: &Object, found: &mut HealthFindings) {
        for check in &*self.scope.checks.unhealthy_machine_conditions {
            if let Some(message) = self.check_condition(machine, check, &mut found.again) {
                found.of_machine.push(message);
            }
        }
    }

    fn check_node(&self, machine: &Object, node: &NodeLookup<'_>, found: &mut HealthFindings) {
        match node {
            NodeLookup::Unseen => {}
            NodeLookup::Gone => {
                found.fail("NodeDeleted", format!("Node {} is gone", machine.node_name()));
            }
            NodeLookup::NotYet => self.check_startup(machine, found),
            NodeLookup::There(node) => {
                for check in &*self.scope.checks.unhealthy_node_conditions {
                    if let Some(message) = self.check_condition(node, check, &mut found.again) {
                        found.fail("UnhealthyNode", message);
                    }
                }
            }
        }
    }

    /// Whether the startup timeout of the Node has passed.
    fn check_startup(&self, machine: &Object, found: &mut HealthFindings) {
        let seconds = self.scope.checks.node_startup_timeout_seconds.unwrap_or(STARTUP_TIMEOUT);
        let begun = created(machine).max(self.since).max(true_since(machine, "InfrastructureReady"));
        let Some(begun) = begun.filter(|_| seconds != 0) else { return };
        if self.is_over(begun, seconds, &mut found.again) {
            let lasted = format_seconds(seconds.into());
            found.fail("NodeStartupTimeout", format!("No Node has appeared within {lasted}"));
        }
    }

    /// Reports a condition whose status has exceeded its timeout.
    fn check_condition(
        &self,
        object: &Object,
        check: &UnhealthyCondition,
        again: &mut Option<Duration>,
    ) -> Option<String> {
        let UnhealthyCondition { r#type, status, timeout_seconds } = check;
        conditions::status(object, r#type).filter(|known| known.name() == status)?;
        let begun = since(object, r#type).or_else(|| created(object))?;
        let seconds = timeout_seconds.unwrap_or_default();
        let (kind, lasted) = (object.kind(), format_seconds(seconds.into()));
        let message = || format!("Condition {type} of the {kind} has been {status} for more than {lasted}");
        self.is_over(begun, seconds, again).then(message)
    }

    /// Whether more than a number of seconds has passed; otherwise records the next check time (MA-19.4).
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

impl HealthFindings {
    fn fail(&mut self, reason: &'static str, message: String) {
        self.node_reason = reason;
        self.of_node.push(message);
    }

    /// All messages, with the reason of the machine if one of its checks failed (MA-19.3).
    fn verdict(self, has_node: bool) -> MachineHealth {
        let reason = if self.of_machine.is_empty() { self.node_reason } else { "UnhealthyMachine" };
        let messages: Vec<String> = self.of_machine.into_iter().chain(self.of_node).collect();
        if !messages.is_empty() {
            return MachineHealth::Unhealthy {
                reason,
                message: format!("Health check failed: {}", messages.join("; ")),
            };
        }
        if has_node && self.again.is_none() { MachineHealth::Healthy } else { MachineHealth::Pending(self.again) }
    }
}

/// The transition time of a condition that is true.
fn true_since(object: &Object, name: &str) -> Option<Moment> {
    since(object, name).filter(|_| is_true(object, name))
}
