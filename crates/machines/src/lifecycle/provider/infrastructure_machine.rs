//! Infrastructure machines: a machine, its Node, and the control plane components on it, in sequence (CT-8, CT-18.3,
//! CT-18.4, CT-19.3 to CT-19.9).
//!
//! Each part has a condition: first with what it waits for, then with its start time, then true.

use std::sync::Arc;

use core::time::Duration;

use serde_json::json;

use super::context::ProviderContext;
use super::delays::{BOOTSTRAPPED, delay};
use super::failures::{InjectedFault, by_settings, by_spec, is_numbered};
use super::virtual_node as node;
use crate::lifecycle::conditions::{self, ConditionState, SummaryPart, is_true, put, summary};
use crate::lifecycle::context::StepError;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::{remove_finalizer, set, set_annotation, text};
use crate::lifecycle::settings::FailingPart;
use crate::lifecycle::step::{ObjectWrite, Reconciliation};
use crate::lifecycle::workload_connection::has_foreign_control_plane;
use model::hub::contract::Contract;
use model::hub::{Object, label, paths};
use model::wire::conversion::embedded::EmbeddedKind;

/// Finalizer of infrastructure machines until the simulated machine is gone.
pub(super) const FINALIZER: &str = "lifecycle.topologist.dev/infrastructure-machine";
const VM: &str = "VMProvisioned";
const NODE: &str = "NodeProvisioned";
const ETCD: &str = "EtcdProvisioned";
/// Condition of a control plane machine whose API server responds.
pub(super) const API_SERVER: &str = "APIServerProvisioned";
const READY: &str = "Ready";
/// Pods of the control plane components.
const PODS: [(&str, &[&str]); 2] =
    [(ETCD, &["etcd"]), (API_SERVER, &["kube-apiserver", "kube-scheduler", "kube-controller-manager"])];

/// An infrastructure machine with its Machine.
struct InfrastructureMachine<'a> {
    ctx: &'a ProviderContext<'a>,
    machine: &'a Arc<Object>,
}

/// The next step of an infrastructure machine.
pub(super) fn step(
    ctx: &ProviderContext<'_>,
    machine: &Arc<Object>,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    let Some(mut after) = ctx.begin(Some(FINALIZER), step) else { return Ok(()) };
    if ctx.object.is_being_deleted() {
        delete(ctx, after, step);
        return Ok(());
    }
    if !is_numbered(ctx, machine, step)? {
        return Ok(());
    }
    let scenery = InfrastructureMachine { ctx, machine };
    let end = scenery.provide(&mut after, step);
    let ready = ready(&after, scenery.is_control_plane());
    put(&mut after, READY, &ready, ctx.context.now);
    step.update(ctx.object, after);
    end
}

impl InfrastructureMachine<'_> {
    /// The parts in sequence; each starts when the previous one is ready.
    fn provide(&self, after: &mut Object, step: &mut Reconciliation) -> Result<(), StepError> {
        let is_up = self.machine(after, step)? && self.node(after, step) && self.control_plane(after, step);
        if is_up && after.annotation(BOOTSTRAPPED).is_none() {
            set_annotation(after, BOOTSTRAPPED, "true");
        }
        Ok(())
    }

    fn is_control_plane(&self) -> bool {
        self.machine.label(label::CONTROL_PLANE).is_some()
    }

    fn failure(&self, part: FailingPart) -> Option<InjectedFault> {
        by_spec(self.ctx.object, part).or_else(|| by_settings(self.ctx, self.machine, part))
    }

    fn delay(&self, part: &str, timing: (&str, Duration)) -> Duration {
        delay(self.ctx.context.settings, self.ctx.object, &format!("spec.backend.inMemory.{part}"), timing)
    }

    /// The machine itself: provider ID, addresses and failure domain, then the flag (CT-8.2 to CT-8.6, CT-19.4).
    fn machine(&self, after: &mut Object, step: &mut Reconciliation) -> Result<bool, StepError> {
        let ctx = self.ctx;
        // An existing machine does not change with its spec (CT-8.7).
        if is_true(after, VM) && Flag::Provisioned.read(ctx.context, after)? {
            return Ok(true);
        }
        if !self.may_begin(after) {
            return Ok(false);
        }
        if let Some(failure) = self.failure(FailingPart::Infrastructure) {
            report_failure(ctx, after, &failure);
            if conditions::reason(after, VM) != failure.reason {
                step.warn("ProvisioningFailed", format!("Failed to provision the machine: {}", failure.message));
            }
            put(after, VM, &ConditionState::new(false, failure.reason, failure.message), ctx.context.now);
            return Ok(false);
        }
        let timings = &ctx.context.settings.timings;
        let lasts = self.delay("vm", ("infrastructure", timings.infrastructure)) + timings.controllers;
        if !ctx.is_over(after, VM, lasts, step) {
            return Ok(false);
        }
        self.report(after);
        step.event("Provisioned", "Provisioned the machine");
        Ok(true)
    }

    /// Whether the prerequisites of a machine exist (CT-18.3, CT-18.6, CT-19.3).
    fn may_begin(&self, after: &mut Object) -> bool {
        let ctx = self.ctx;
        let (reason, message) = if !ctx.has_infrastructure() {
            ("WaitingForClusterInfrastructure", "the infrastructure of the Cluster is not provisioned yet")
        } else if !text(self.machine, paths::machine::BOOTSTRAP_DATA_SECRET).is_empty() {
            return true;
        } else if !self.is_control_plane() && !ctx.is_initialized() {
            ("WaitingForControlPlaneInitialized", "the control plane of the Cluster is not initialized yet")
        } else {
            ("WaitingForBootstrapData", "the Machine has no bootstrap data yet")
        };
        ctx.wait(after, VM, reason, message);
        false
    }

    fn report(&self, after: &mut Object) {
        let name = self.ctx.object.name();
        set(after, paths::PROVIDER_ID, json!(node::provider_id(name)));
        let addresses = json!([{"type": "Hostname", "address": name}, {"type": "InternalDNS", "address": name}]);
        set(after, paths::status::ADDRESSES, addresses);
        match self.machine.failure_domain() {
            "" => {}
            domain => set(after, paths::status::FAILURE_DOMAIN, json!(domain)),
        }
        Flag::Provisioned.raise(self.ctx.context, after);
        self.ctx.done(after, VM);
    }

    /// The Node (CT-19.5). A deleted Node is not registered again, except with a new workload cluster.
    fn node(&self, after: &mut Object, step: &mut Reconciliation) -> bool {
        let ctx = self.ctx;
        if is_true(after, NODE) {
            return true;
        }
        let is_foreign = has_foreign_control_plane(ctx.context.settings, &ctx.cluster);
        if (is_foreign || !self.is_control_plane()) && !ctx.is_connected() {
            let message = "the API server of the workload cluster does not answer yet";
            ctx.wait(after, NODE, "WaitingForControlPlaneInitialized", message);
            return false;
        }
        if let Some(failure) = self.failure(FailingPart::Node) {
            put(after, NODE, &ConditionState::new(false, failure.reason, failure.message), ctx.context.now);
            return false;
        }
        if !ctx.is_over(after, NODE, self.delay("node", ("node", ctx.context.settings.timings.node)), step) {
            return false;
        }
        step.require(ObjectWrite::CreateIfAbsent { workload: Some(ctx.cluster_key()), object: self.described() });
        ctx.done(after, NODE);
        step.event("NodeProvisioned", format!("Created Node {}", ctx.object.name()));
        true
    }

    fn described(&self) -> Object {
        let ctx = self.ctx;
        let described = node::NodeDescription {
            name: ctx.object.name(),
            provider_id: node::provider_id(ctx.object.name()),
            version: self.machine.version(),
            is_control_plane: self.is_control_plane(),
            is_ready: self.failure(FailingPart::NodeReady).is_none(),
        };
        described.node(ctx.context.now)
    }

    /// The etcd member, then the API server, then the other components of a control plane machine (CT-19.6).
    fn control_plane(&self, after: &mut Object, step: &mut Reconciliation) -> bool {
        if !self.is_control_plane() {
            return true;
        }
        let timings = &self.ctx.context.settings.timings;
        self.part(after, ETCD, self.delay("etcd", ("etcd", timings.etcd)), step)
            && self.part(after, API_SERVER, self.delay("apiServer", ("apiServer", timings.api_server)), step)
    }

    /// A control plane component with its Pods; returns whether it is ready.
    fn part(&self, after: &mut Object, name: &str, lasts: Duration, step: &mut Reconciliation) -> bool {
        let ctx = self.ctx;
        if is_true(after, name) {
            return true;
        }
        if !ctx.is_over(after, name, lasts, step) {
            return false;
        }
        let workload = Some(ctx.cluster_key());
        let create = |object| ObjectWrite::CreateIfAbsent { workload: workload.clone(), object };
        self.pods(name).map(create).for_each(|write| step.require(write));
        ctx.done(after, name);
        true
    }

    /// The Pods of a component.
    fn pods(&self, part: &str) -> impl Iterator<Item = Object> {
        let names = PODS.iter().filter(move |(name, _)| *name == part).flat_map(|(_, pods)| *pods);
        names.map(|name| node::pod(self.ctx, name, self.machine.version()))
    }
}

/// The Node and the Pods of the started components.
pub(super) fn registered(ctx: &ProviderContext<'_>, machine: &Arc<Object>) -> Vec<Object> {
    let scenery = InfrastructureMachine { ctx, machine };
    let is_there = |part: &str| is_true(ctx.object, part);
    let node = is_there(NODE).then(|| scenery.described());
    let parts = [ETCD, API_SERVER].into_iter().filter(|part| is_there(part));
    node.into_iter().chain(parts.flat_map(|part| scenery.pods(part).collect::<Vec<_>>())).collect()
}

/// Conditions of the parts of a machine, in startup order.
pub(super) fn parts(is_control_plane: bool) -> &'static [&'static str] {
    if is_control_plane { &[VM, NODE, ETCD, API_SERVER] } else { &[VM, NODE] }
}

/// `Ready` of all parts, with the reason of the first part that is not ready (CT-19.8), which wide columns show.
fn ready(after: &Object, is_control_plane: bool) -> ConditionState {
    let names = parts(is_control_plane);
    let parts: Vec<SummaryPart<'_>> = names.iter().map(|name| SummaryPart::positive(name)).collect();
    let mut ready = summary(after, &parts, ["NotReady", "NotReady", "Ready"], |_, _, _| {});
    let missing = names.iter().find(|name| !is_true(after, name));
    let reason = missing.map(|name| conditions::reason(after, name)).filter(|reason| !reason.is_empty());
    ready.reason = reason.unwrap_or(ready.reason);
    ready
}

/// Reports a terminal failure, if the contract has fields for it (CT-6.7, CT-20.2). Kinds of the embedded provider
/// store it for their version of the older contract (CONV-017).
pub(super) fn report_failure(ctx: &ProviderContext<'_>, after: &mut Object, failure: &InjectedFault) {
    let is_embedded = EmbeddedKind::find(ctx.object.group(), ctx.object.kind()).is_some();
    let (reason, message) = match ctx.context.contract(ctx.object) {
        Contract::V1Beta1 => (paths::status::FAILURE_REASON, paths::status::FAILURE_MESSAGE),
        Contract::V1Beta2 if is_embedded => {
            (paths::status::DEPRECATED_FAILURE_REASON, paths::status::DEPRECATED_FAILURE_MESSAGE)
        }
        Contract::V1Beta2 => return,
    };
    set(after, reason, json!(failure.reason));
    set(after, message, json!(failure.message));
}

/// Deletes Node and Pods, then, after a delay, the machine (CT-18.4, CT-19.9).
fn delete(ctx: &ProviderContext<'_>, mut after: Object, step: &mut Reconciliation) {
    node::delete(ctx, step);
    if let Some(left) = ctx.left_since_deletion(ctx.context.settings.timings.deletion) {
        step.requeue_after(left);
    } else {
        remove_finalizer(&mut after, FINALIZER);
        step.event("Deleted", "Deleted the machine");
    }
    step.update(ctx.object, after);
}
