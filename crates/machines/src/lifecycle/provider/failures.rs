//! Injected failures, from the settings or the spec of an object.

use serde_json::Value;

use super::context::ProviderContext;
use crate::lifecycle::context::StepError;
use crate::lifecycle::fields::{created, set_annotation, text};
use crate::lifecycle::objects::GroupKind;
use crate::lifecycle::settings::FailingPart;
use crate::lifecycle::step::{ObjectWrite, Reconciliation};
use model::hub::{Object, paths};

use std::sync::Arc;

/// Path of the injected failure in a spec.
const PATH: &str = paths::embedded::FAILURE;
/// On a Cluster: names of its Machines in creation order, if settings refer to their numbers.
const NUMBERED: &str = "lifecycle.topologist.dev/numbered-machines";

/// A failure with the reason and message that the object reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InjectedFault {
    pub(super) reason: String,
    pub(super) message: String,
}

impl InjectedFault {
    fn new(reason: &str, message: &str) -> Self {
        let or = |text: &str, otherwise: &str| if text.is_empty() { otherwise } else { text }.to_owned();
        InjectedFault { reason: or(reason, "InjectedFailure"), message: or(message, "this failure was asked for") }
    }
}

/// The failure of a part in the spec of an infrastructure object.
pub(super) fn by_spec(object: &Object, part: FailingPart) -> Option<InjectedFault> {
    let requested = match text(object, &format!("{PATH}.part")) {
        "bootstrap" => FailingPart::Bootstrap,
        "node" => FailingPart::Node,
        "nodeReady" => FailingPart::NodeReady,
        _ if object.at(PATH).is_some_and(Value::is_object) => FailingPart::Infrastructure,
        _ => return None,
    };
    let word = |name: &str| text(object, &format!("{PATH}.{name}"));
    (requested == part).then(|| InjectedFault::new(word("reason"), word("message")))
}

/// The failure of a part of a Machine in the settings.
pub(super) fn by_settings(ctx: &ProviderContext<'_>, machine: &Object, part: FailingPart) -> Option<InjectedFault> {
    let number = numbered(&ctx.cluster).iter().position(|name| *name == machine.name()).map(|index| index + 1);
    let cluster = ctx.cluster.key();
    let is_meant = ctx.context.settings.failures.iter().any(|failure| {
        let is_machine = failure.machine.is_none_or(|wanted| number == usize::try_from(wanted).ok());
        failure.what == part && failure.is_of(&cluster) && is_machine
    });
    is_meant.then(|| InjectedFault::new("", ""))
}

/// Whether a Machine has the number by which settings may refer to it, or is beyond all of them; otherwise assigns one,
/// after all Machines created before it, and the step ends. One write of the Cluster assigns numbers, so that none is
/// skipped or repeated. A replacement Machine gets a new number.
///
/// # Errors
/// When Machines are not listed yet.
pub(super) fn is_numbered(
    ctx: &ProviderContext<'_>,
    machine: &Arc<Object>,
    step: &mut Reconciliation,
) -> Result<bool, StepError> {
    let numbers = ctx.context.settings.failures.iter().filter_map(|failure| failure.machine);
    let most = numbers.max().and_then(|most| usize::try_from(most).ok()).unwrap_or_default();
    let known = numbered(&ctx.cluster);
    if machine.is_being_deleted() || known.len() >= most || known.contains(&machine.name()) {
        return Ok(true);
    }
    let mut machines = ctx.context.of_cluster(&GroupKind::core("Machine"), &ctx.cluster_key())?;
    machines.retain(|one| !one.is_being_deleted() && !known.contains(&one.name()));
    machines.sort_by_key(|one| (created(one), one.name().to_owned()));
    let new = machines.iter().map(|one| one.name());
    let names: Vec<&str> = known.iter().copied().chain(new).take(most).collect();
    let mut after = (*ctx.cluster).clone();
    set_annotation(&mut after, NUMBERED, &names.join(","));
    step.require(ObjectWrite::Update { workload: None, before: ctx.cluster.clone(), after });
    Ok(false)
}

/// The numbered Machines of a Cluster.
fn numbered(cluster: &Object) -> Vec<&str> {
    let names = cluster.annotation(NUMBERED).unwrap_or_default();
    names.split(',').filter(|name| !name.is_empty()).collect()
}
