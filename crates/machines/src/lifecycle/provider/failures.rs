//! What fails although nothing is wrong: as the settings say, or as the spec of an object says.

use serde_json::Value;

use super::scene::Scene;
use crate::lifecycle::context::Fault;
use crate::lifecycle::fields::{created, set_annotation, text};
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::settings::FailingPart;
use crate::lifecycle::step::{Step, Write};
use model::hub::Object;

use std::sync::Arc;

/// Where an object says that it fails.
const PATH: &str = "spec.backend.inMemory.failure";
/// On a Cluster: the names of its Machines in the order in which they were made, as far as settings tell them apart.
const NUMBERED: &str = "lifecycle.topologist.dev/numbered-machines";

/// A failure, with the words that the object reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) reason: String,
    pub(super) message: String,
}

impl Failure {
    fn new(reason: &str, message: &str) -> Self {
        let or = |text: &str, otherwise: &str| if text.is_empty() { otherwise } else { text }.to_owned();
        Failure { reason: or(reason, "InjectedFailure"), message: or(message, "this failure was asked for") }
    }
}

/// What the spec of an infrastructure object says of a part.
pub(super) fn by_spec(object: &Object, part: FailingPart) -> Option<Failure> {
    let asked = match text(object, &format!("{PATH}.part")) {
        "bootstrap" => FailingPart::Bootstrap,
        "node" => FailingPart::Node,
        "nodeReady" => FailingPart::NodeReady,
        _ if object.at(PATH).is_some_and(Value::is_object) => FailingPart::Infrastructure,
        _ => return None,
    };
    let word = |name: &str| text(object, &format!("{PATH}.{name}"));
    (asked == part).then(|| Failure::new(word("reason"), word("message")))
}

/// What the settings say of a part of a Machine.
pub(super) fn by_settings(scene: &Scene<'_>, machine: &Object, part: FailingPart) -> Option<Failure> {
    let number = numbered(&scene.cluster).iter().position(|name| *name == machine.name()).map(|index| index + 1);
    let cluster = scene.cluster.key();
    let is_meant = scene.context.settings.failures.iter().any(|failure| {
        let is_machine = failure.machine.is_none_or(|wanted| number == usize::try_from(wanted).ok());
        failure.what == part && failure.is_of(&cluster) && is_machine
    });
    is_meant.then(|| Failure::new("", ""))
}

/// Whether a Machine has the number by which the settings may name it, or is beyond them; it gets one if it has not, after all that
/// were made before it, and the step ends. One write of the Cluster gives numbers, so that none is left out or given twice. What
/// replaces a Machine has another number.
///
/// # Errors
/// When Machines are not listed yet.
pub(super) fn is_numbered(scene: &Scene<'_>, machine: &Arc<Object>, step: &mut Step) -> Result<bool, Fault> {
    let numbers = scene.context.settings.failures.iter().filter_map(|failure| failure.machine);
    let most = numbers.max().and_then(|most| usize::try_from(most).ok()).unwrap_or_default();
    let known = numbered(&scene.cluster);
    if machine.is_being_deleted() || known.len() >= most || known.contains(&machine.name()) {
        return Ok(true);
    }
    let mut machines = scene.context.of_cluster(&GroupKind::core("Machine"), &scene.cluster_key())?;
    machines.retain(|one| !one.is_being_deleted() && !known.contains(&one.name()));
    machines.sort_by_key(|one| (created(one), one.name().to_owned()));
    let new = machines.iter().map(|one| one.name());
    let names: Vec<&str> = known.iter().copied().chain(new).take(most).collect();
    let mut after = (*scene.cluster).clone();
    set_annotation(&mut after, NUMBERED, &names.join(","));
    step.writes.push(Write::Update { workload: None, before: scene.cluster.clone(), after });
    Ok(false)
}

/// The Machines of a Cluster that have a number.
fn numbered(cluster: &Object) -> Vec<&str> {
    let names = cluster.annotation(NUMBERED).unwrap_or_default();
    names.split(',').filter(|name| !name.is_empty()).collect()
}
