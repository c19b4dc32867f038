//! Control planes (CT-10, MA-30.3): of Machines, one of which is made or replaced at a time, or without Machines.
//!
//! ```text
//! cleanup.rs: which Machine loses the hook that holds its deletion
//! template.rs: what its Machines are like ─┐
//! member.rs: what there is ────────────────┼─► outdated.rs: what differs ─► moves.rs: what to do next ─► making.rs: a new Machine
//!                                          └─► handed_down.rs: what running Machines get ─► report.rs: status and conditions
//! without_machines.rs: versions and flags that follow after a while
//! ```

mod cleanup;
mod handed_down;
mod making;
mod member;
mod moves;
mod outdated;
mod report;
mod template;
#[cfg(test)]
mod tests;
mod without_machines;

use serde_json::json;

use self::handed_down::Orders;
use self::member::{Member, members};
use self::moves::{Move, next_move};
use super::connection::connect;
use super::scene::{Scene, has_endpoint};
use crate::lifecycle::conditions::{Condition, put};
use crate::lifecycle::context::Fault;
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::{reference, remove_finalizer, remove_text, set};
use crate::lifecycle::hooks::CLEANUP;
use crate::lifecycle::step::{Step, Write};
use model::hub::{ContractRef, Object};

/// On control planes until their Machines are gone (CT-10.20).
pub(super) const FINALIZER: &str = "lifecycle.topologist.dev/control-plane";

/// The next step of a control plane.
pub(super) fn step(scene: &Scene<'_>, step: &mut Step) -> Result<(), Fault> {
    let Some(mut after) = scene.begin(Some(FINALIZER), step) else { return Ok(()) };
    let members = members(scene)?;
    if scene.object.is_being_deleted() {
        delete(scene, &members, after, step);
        return Ok(());
    }
    match template::infrastructure(scene)? {
        None => without_machines::step(scene, &mut after, step)?,
        Some(template) => {
            let end = of_machines(scene, &template, &members, &mut after, step);
            step.keep(end)?;
        }
    }
    step.update(scene.object, after);
    Ok(())
}

/// A control plane of Machines: what they should be, one move, and what there is to report.
fn of_machines(
    scene: &Scene<'_>,
    template: &ContractRef,
    members: &[Member],
    after: &mut Object,
    step: &mut Step,
) -> Result<(), Fault> {
    let outdated = outdated::all(scene, template, members, step);
    let has_api_server = members.iter().any(Member::has_api_server);
    initialize(scene, has_api_server, after, step)?;
    let chosen = next_move(scene, members, &outdated, after)?;
    let released = cleanup::released(scene, members, step);
    handed_down::all(scene, members, &outdated, &Orders { chosen: &chosen, released }, step);
    report::report(scene, members, &outdated, after)?;
    match chosen {
        Move::Create => making::make(scene, template, members, step),
        Move::Delete(member, why) => {
            step.tell("DeletedMachine", format!("Deleted Machine {}: {why}", member.machine.name()));
            step.delete(&member.machine);
            Ok(())
        }
        Move::Remediate(member) => {
            step.tell("RemediatedMachine", format!("Deleted unhealthy Machine {}", member.machine.name()));
            step.delete(&member.machine);
            Ok(())
        }
        Move::None => Ok(()),
    }
}

/// The flag and what comes with it, once an API server answers (CT-10.9, CT-10.17).
fn initialize(scene: &Scene<'_>, has_api_server: bool, after: &mut Object, step: &mut Step) -> Result<(), Fault> {
    const INITIALIZED: &str = "Initialized";
    if has_api_server && !scene.is_connected() {
        connect(scene, step)?;
    }
    if !Flag::ControlPlaneInitialized.read(scene.context, after)? {
        if !has_api_server || !scene.is_connected() {
            put(after, INITIALIZED, &Condition::new(false, "NotInitialized", ""), scene.context.now);
            return Ok(());
        }
        Flag::ControlPlaneInitialized.raise(scene.context, after);
        step.tell(INITIALIZED, "The API server of the control plane answers");
    }
    let is_alone = !reference(&scene.cluster, "spec.infrastructureRef").is_defined();
    if is_alone && !has_endpoint(&scene.cluster) && !has_endpoint(after) {
        let endpoint = &scene.context.settings.endpoint;
        set(after, "spec.controlPlaneEndpoint", json!({"host": endpoint.host, "port": endpoint.port}));
    }
    put(after, INITIALIZED, &Condition::new(true, INITIALIZED, ""), scene.context.now);
    Ok(())
}

/// The Machines go first, then, after a while, the object (CT-10.20).
fn delete(scene: &Scene<'_>, members: &[Member], mut after: Object, step: &mut Step) {
    let number = members.len();
    if number > 0 {
        for member in members {
            // No member has to leave an etcd that goes as a whole.
            let mut machine = (*member.machine).clone();
            if cleanup::is_used_by(scene.object) {
                remove_text(&mut machine, "metadata.annotations", CLEANUP);
            }
            step.update(&member.machine, machine);
            step.delete(&member.machine);
        }
        let message = format!("{number} Machines are being deleted");
        put(&mut after, "Deleting", &Condition::new(true, "WaitingForMachineDeletion", message), scene.context.now);
        step.update(scene.object, after);
        return;
    }
    if let Some(left) = scene.left_since_deletion(scene.context.settings.timings.deletion) {
        step.look_again(left);
    } else {
        if scene.is_hosted() && !reference(&scene.cluster, "spec.infrastructureRef").is_defined() {
            step.writes.push(Write::Connect { workload: scene.cluster_key(), up: false });
        }
        remove_finalizer(&mut after, FINALIZER);
    }
    step.update(scene.object, after);
}
