//! Infrastructure machines: a machine, its Node, and the parts of a control plane on it, one after the other (CT-8, CT-18.3, CT-18.4,
//! CT-19.3 to CT-19.9).
//!
//! Each part has a condition: it says what the part waits for, then since when it is on its way, then that it is there.

use std::sync::Arc;

use core::time::Duration;

use serde_json::json;

use super::delays::{BOOTSTRAPPED, delay};
use super::failures::{Failure, by_settings, by_spec, is_numbered};
use super::scene::Scene;
use super::virtual_node as node;
use crate::lifecycle::conditions::{self, Condition, Part, is_true, put, summary};
use crate::lifecycle::context::Fault;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::{remove_finalizer, set, set_annotation, text};
use crate::lifecycle::following::has_foreign_control_plane;
use crate::lifecycle::settings::FailingPart;
use crate::lifecycle::step::{Step, Write};
use model::hub::contract::Contract;
use model::hub::{Object, label};
use model::wire::conversion::embedded::EmbeddedKind;

/// On infrastructure machines until what they stand for is gone.
pub(super) const FINALIZER: &str = "lifecycle.topologist.dev/infrastructure-machine";
const VM: &str = "VMProvisioned";
const NODE: &str = "NodeProvisioned";
const ETCD: &str = "EtcdProvisioned";
/// The condition that is true once the API server of a control plane machine answers.
pub(super) const API_SERVER: &str = "APIServerProvisioned";
const READY: &str = "Ready";
/// The Pods of the parts of a control plane.
const PODS: [(&str, &[&str]); 2] =
    [(ETCD, &["etcd"]), (API_SERVER, &["kube-apiserver", "kube-scheduler", "kube-controller-manager"])];

/// An infrastructure machine with its Machine.
struct Scenery<'a> {
    scene: &'a Scene<'a>,
    machine: &'a Arc<Object>,
}

/// The next step of an infrastructure machine.
pub(super) fn step(scene: &Scene<'_>, machine: &Arc<Object>, step: &mut Step) -> Result<(), Fault> {
    let Some(mut after) = scene.begin(Some(FINALIZER), step) else { return Ok(()) };
    if scene.object.is_being_deleted() {
        delete(scene, after, step);
        return Ok(());
    }
    if !is_numbered(scene, machine, step)? {
        return Ok(());
    }
    let scenery = Scenery { scene, machine };
    let end = scenery.provide(&mut after, step);
    let ready = ready(&after, scenery.is_control_plane());
    put(&mut after, READY, &ready, scene.context.now);
    step.update(scene.object, after);
    end
}

impl Scenery<'_> {
    /// The parts one after the other; each begins when the one before it is there.
    fn provide(&self, after: &mut Object, step: &mut Step) -> Result<(), Fault> {
        let is_up = self.machine(after, step)? && self.node(after, step) && self.control_plane(after, step);
        if is_up && after.annotation(BOOTSTRAPPED).is_none() {
            set_annotation(after, BOOTSTRAPPED, "true");
        }
        Ok(())
    }

    fn is_control_plane(&self) -> bool {
        self.machine.label(label::CONTROL_PLANE).is_some()
    }

    fn failure(&self, part: FailingPart) -> Option<Failure> {
        by_spec(self.scene.object, part).or_else(|| by_settings(self.scene, self.machine, part))
    }

    fn delay(&self, part: &str, timing: (&str, Duration)) -> Duration {
        delay(self.scene.context.settings, self.scene.object, &format!("spec.backend.inMemory.{part}"), timing)
    }

    /// The machine itself: provider id, addresses and place, then the flag (CT-8.2 to CT-8.6, CT-19.4).
    fn machine(&self, after: &mut Object, step: &mut Step) -> Result<bool, Fault> {
        let scene = self.scene;
        // What exists stays as it is when its spec changes (CT-8.7).
        if is_true(after, VM) && Flag::Provisioned.read(scene.context, after)? {
            return Ok(true);
        }
        if !self.may_begin(after) {
            return Ok(false);
        }
        if let Some(failure) = self.failure(FailingPart::Infrastructure) {
            report_failure(scene, after, &failure);
            if conditions::reason(after, VM) != failure.reason {
                step.warn("ProvisioningFailed", format!("Failed to provision the machine: {}", failure.message));
            }
            put(after, VM, &Condition::new(false, failure.reason, failure.message), scene.context.now);
            return Ok(false);
        }
        let timings = &scene.context.settings.timings;
        let lasts = self.delay("vm", ("infrastructure", timings.infrastructure)) + timings.controllers;
        if !scene.is_over(after, VM, lasts, step) {
            return Ok(false);
        }
        self.report(after);
        step.tell("Provisioned", "Provisioned the machine");
        Ok(true)
    }

    /// Whether what a machine needs is there (CT-18.3, CT-18.6, CT-19.3).
    fn may_begin(&self, after: &mut Object) -> bool {
        let scene = self.scene;
        let (reason, message) = if !scene.has_infrastructure() {
            ("WaitingForClusterInfrastructure", "the infrastructure of the Cluster is not provisioned yet")
        } else if !text(self.machine, "spec.bootstrap.dataSecretName").is_empty() {
            return true;
        } else if !self.is_control_plane() && !scene.is_initialized() {
            ("WaitingForControlPlaneInitialized", "the control plane of the Cluster is not initialized yet")
        } else {
            ("WaitingForBootstrapData", "the Machine has no bootstrap data yet")
        };
        scene.wait(after, VM, reason, message);
        false
    }

    fn report(&self, after: &mut Object) {
        let name = self.scene.object.name();
        set(after, "spec.providerID", json!(node::provider_id(name)));
        let addresses = json!([{"type": "Hostname", "address": name}, {"type": "InternalDNS", "address": name}]);
        set(after, "status.addresses", addresses);
        match text(self.machine, "spec.failureDomain") {
            "" => {}
            domain => set(after, "status.failureDomain", json!(domain)),
        }
        Flag::Provisioned.raise(self.scene.context, after);
        self.scene.done(after, VM);
    }

    /// The Node (CT-19.5). A Node that is deleted later is not made again, except together with its workload cluster.
    fn node(&self, after: &mut Object, step: &mut Step) -> bool {
        let scene = self.scene;
        if is_true(after, NODE) {
            return true;
        }
        let is_foreign = has_foreign_control_plane(scene.context.settings, &scene.cluster);
        if (is_foreign || !self.is_control_plane()) && !scene.is_connected() {
            let message = "the API server of the workload cluster does not answer yet";
            scene.wait(after, NODE, "WaitingForControlPlaneInitialized", message);
            return false;
        }
        if let Some(failure) = self.failure(FailingPart::Node) {
            put(after, NODE, &Condition::new(false, failure.reason, failure.message), scene.context.now);
            return false;
        }
        if !scene.is_over(after, NODE, self.delay("node", ("node", scene.context.settings.timings.node)), step) {
            return false;
        }
        step.writes.push(Write::CreateIfAbsent { workload: Some(scene.cluster_key()), object: self.described() });
        scene.done(after, NODE);
        step.tell("NodeProvisioned", format!("Created Node {}", scene.object.name()));
        true
    }

    fn described(&self) -> Object {
        let scene = self.scene;
        let described = node::Described {
            name: scene.object.name(),
            provider_id: node::provider_id(scene.object.name()),
            version: text(self.machine, "spec.version"),
            is_control_plane: self.is_control_plane(),
            is_ready: self.failure(FailingPart::NodeReady).is_none(),
        };
        described.node(scene.context.now)
    }

    /// The etcd member, then the API server, then what else runs on a control plane machine (CT-19.6).
    fn control_plane(&self, after: &mut Object, step: &mut Step) -> bool {
        if !self.is_control_plane() {
            return true;
        }
        let timings = &self.scene.context.settings.timings;
        self.part(after, ETCD, self.delay("etcd", ("etcd", timings.etcd)), step)
            && self.part(after, API_SERVER, self.delay("apiServer", ("apiServer", timings.api_server)), step)
    }

    /// A part of the control plane with its Pods; whether it is there.
    fn part(&self, after: &mut Object, name: &str, lasts: Duration, step: &mut Step) -> bool {
        let scene = self.scene;
        if is_true(after, name) {
            return true;
        }
        if !scene.is_over(after, name, lasts, step) {
            return false;
        }
        let workload = Some(scene.cluster_key());
        let create = |object| Write::CreateIfAbsent { workload: workload.clone(), object };
        step.writes.extend(self.pods(name).map(create));
        scene.done(after, name);
        true
    }

    /// The Pods of a part.
    fn pods(&self, part: &str) -> impl Iterator<Item = Object> {
        let names = PODS.iter().filter(move |(name, _)| *name == part).flat_map(|(_, pods)| *pods);
        names.map(|name| node::pod(self.scene, name, text(self.machine, "spec.version")))
    }
}

/// The Node and the Pods of the parts that are there.
pub(super) fn registered(scene: &Scene<'_>, machine: &Arc<Object>) -> Vec<Object> {
    let scenery = Scenery { scene, machine };
    let is_there = |part: &str| is_true(scene.object, part);
    let node = is_there(NODE).then(|| scenery.described());
    let parts = [ETCD, API_SERVER].into_iter().filter(|part| is_there(part));
    node.into_iter().chain(parts.flat_map(|part| scenery.pods(part).collect::<Vec<_>>())).collect()
}

/// The conditions of the parts of a machine, in the order in which they come.
pub(super) fn parts(is_control_plane: bool) -> &'static [&'static str] {
    if is_control_plane { &[VM, NODE, ETCD, API_SERVER] } else { &[VM, NODE] }
}

/// `Ready` of all parts; its reason is that of the first part which is not there (CT-19.8), since wide columns show no more.
fn ready(after: &Object, is_control_plane: bool) -> Condition {
    let names = parts(is_control_plane);
    let parts: Vec<Part<'_>> = names.iter().map(|name| Part::positive(name)).collect();
    let mut ready = summary(after, &parts, ["NotReady", "NotReady", "Ready"], |_, _, _| {});
    let missing = names.iter().find(|name| !is_true(after, name));
    let reason = missing.map(|name| conditions::reason(after, name)).filter(|reason| !reason.is_empty());
    ready.reason = reason.unwrap_or(ready.reason);
    ready
}

/// Reports a failure that is not recovered from, where the contract has fields for it (CT-6.7, CT-20.2). Kinds of the embedded
/// provider keep them for their version of the older contract (CONV-017).
pub(super) fn report_failure(scene: &Scene<'_>, after: &mut Object, failure: &Failure) {
    let is_embedded = EmbeddedKind::find(scene.object.group(), scene.object.kind()).is_some();
    let (reason, message) = match scene.context.contract(scene.object) {
        Contract::V1Beta1 => ("status.failureReason", "status.failureMessage"),
        Contract::V1Beta2 if is_embedded => {
            ("status.deprecated.v1beta1.failureReason", "status.deprecated.v1beta1.failureMessage")
        }
        Contract::V1Beta2 => return,
    };
    set(after, reason, json!(failure.reason));
    set(after, message, json!(failure.message));
}

/// Node and Pods go, then, after a while, the machine (CT-18.4, CT-19.9).
fn delete(scene: &Scene<'_>, mut after: Object, step: &mut Step) {
    if scene.context.workload(&scene.cluster_key()).is_some() {
        node::delete(scene, step);
    }
    if let Some(left) = scene.left_since_deletion(scene.context.settings.timings.deletion) {
        step.look_again(left);
    } else {
        remove_finalizer(&mut after, FINALIZER);
        step.tell("Deleted", "Deleted the machine");
    }
    step.update(scene.object, after);
}
