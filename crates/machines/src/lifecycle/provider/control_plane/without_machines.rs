//! Control planes without Machines, such as those that a cloud manages (CT-10.16, ROLL-14).

use serde_json::json;

use super::super::scene::Scene;
use super::initialize;
use crate::lifecycle::conditions::{self, Condition, is_true, observe_generation, put};
use crate::lifecycle::context::Fault;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::{remaining, set, text};
use crate::lifecycle::step::Step;
use model::hub::Object;
use model::hub::contract::Contract;

const AVAILABLE: &str = "Available";
const ROLLING_OUT: &str = "RollingOut";

/// The next step: the flag after a while, and after each change of the version that version after a while.
pub(super) fn step(scene: &Scene<'_>, after: &mut Object, step: &mut Step) -> Result<(), Fault> {
    set(after, "status.externalManagedControlPlane", json!(true));
    if !Flag::ControlPlaneInitialized.read(scene.context, after)? {
        if !scene.has_infrastructure() {
            let message = "the infrastructure of the Cluster is not provisioned yet";
            scene.wait(after, AVAILABLE, "WaitingForClusterInfrastructure", message);
            return Ok(());
        }
        if !scene.is_over(after, AVAILABLE, scene.context.settings.timings.control_plane, step) {
            return Ok(());
        }
    }
    initialize(scene, true, after, step)?;
    if Flag::ControlPlaneInitialized.read(scene.context, after)? {
        follow(scene, after, step);
        put(after, AVAILABLE, &Condition::new(true, AVAILABLE, ""), scene.context.now);
        observe_generation(after);
    }
    Ok(())
}

/// The version, and the replicas where the kind has them.
fn follow(scene: &Scene<'_>, after: &mut Object, step: &mut Step) {
    let wanted = text(scene.object, "spec.version").to_owned();
    let known = text(after, "status.version").to_owned();
    if wanted != known && (known.is_empty() || has_rolled_out(scene, after, step)) {
        set(after, "status.version", json!(wanted));
        if !known.is_empty() {
            step.tell("Upgraded", format!("The control plane is at version {wanted}"));
        }
    }
    if text(after, "status.version") == wanted {
        put(after, ROLLING_OUT, &Condition::new(false, "NotRollingOut", ""), scene.context.now);
    }
    replicas(scene, after);
}

/// Whether the time is over that a change of the version takes.
fn has_rolled_out(scene: &Scene<'_>, after: &mut Object, step: &mut Step) -> bool {
    if !is_true(after, ROLLING_OUT) {
        let message = format!("Upgrading to version {}", text(scene.object, "spec.version"));
        put(after, ROLLING_OUT, &Condition::new(true, ROLLING_OUT, message), scene.context.now);
    }
    let now = scene.context.now;
    let begun = conditions::since(after, ROLLING_OUT).unwrap_or(now);
    let left = remaining(begun, scene.context.settings.timings.control_plane, now);
    left.into_iter().for_each(|left| step.look_again(left));
    left.is_none()
}

fn replicas(scene: &Scene<'_>, after: &mut Object) {
    let Some(replicas) = scene.object.at("spec.replicas").cloned() else { return };
    let names: &[&str] = match scene.context.contract(scene.object) {
        Contract::V1Beta1 => &["replicas", "readyReplicas", "updatedReplicas"],
        Contract::V1Beta2 => &["replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"],
    };
    names.iter().for_each(|name| set(after, &format!("status.{name}"), replicas.clone()));
}
