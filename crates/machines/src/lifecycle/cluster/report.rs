//! Conditions of a Cluster about itself and its two references, and the summary `Available` (MA-27.9, MA-27.10,
//! MA-27.12, MA-27.13).

use serde_json::Value;

use super::context::{ClusterContext, ReferencedObject};
use super::deletion::DeletionStage;
use crate::lifecycle::conditions::{
    ConditionState, ConditionStatus, Fallback, Priority, SummaryPart, get, is_true, mirror, put, summary,
};
use crate::lifecycle::contract::Flag;
use model::hub::contract::Contract;
use model::hub::{Object, paths};

/// The condition `Ready` of the infrastructure cluster (CT-6.8, CT-15.8).
const INFRASTRUCTURE_READY: &str = "InfrastructureReady";
const CONTROL_PLANE_AVAILABLE: &str = "ControlPlaneAvailable";
const CONTROL_PLANE_INITIALIZED: &str = "ControlPlaneInitialized";
const REMOTE_CONNECTION_PROBE: &str = "RemoteConnectionProbe";
const TOPOLOGY_RECONCILED: &str = "TopologyReconciled";
const DELETING: &str = "Deleting";
const LOST: &str = "The connection to the workload cluster is lost";
/// Reasons of missing objects.
const ABSENT: [&str; 2] = ["ObjectDoesNotExist", "ObjectDeleted"];
/// Reasons of a topology that is not reconciled because of an error; other reasons are progress.
const TOPOLOGY_ISSUES: [&str; 2] = ["ReconcileFailed", "ClusterClassNotReconciled"];

/// `InfrastructureReady` (CT-6.8), `ControlPlaneAvailable`, `ControlPlaneInitialized` and `RemoteConnectionProbe`.
pub(super) fn own_conditions(ctx: &ClusterContext<'_>, after: &mut Object) {
    let now = ctx.context.now;
    let infrastructure = MirroredCondition {
        part: &ctx.infrastructure,
        source: "Ready",
        done: after.is_infrastructure_provisioned(),
        path: Flag::Provisioned.path(Contract::V1Beta2),
        reasons: ("Ready", "NotReady"),
    };
    let control_plane = MirroredCondition {
        part: &ctx.control_plane,
        source: "Available",
        done: after.is_control_plane_initialized(),
        path: Flag::ControlPlaneInitialized.path(Contract::V1Beta2),
        reasons: ("Available", "NotAvailable"),
    };
    put(after, INFRASTRUCTURE_READY, &infrastructure.condition(ctx), now);
    put(after, CONTROL_PLANE_AVAILABLE, &control_plane.condition(ctx), now);
    let initialized = initialized(ctx, after);
    put(after, CONTROL_PLANE_INITIALIZED, &initialized, now);
    let probe = probe(ctx, after);
    put(after, REMOTE_CONNECTION_PROBE, &probe, now);
}

/// A condition copied from a referenced object (MA-27.10).
struct MirroredCondition<'a> {
    part: &'a ReferencedObject,
    source: &'a str,
    /// The flag stored in the Cluster.
    done: bool,
    path: &'a str,
    reasons: (&'a str, &'a str),
}

impl MirroredCondition<'_> {
    fn condition(&self, ctx: &ClusterContext<'_>) -> ConditionState {
        let MirroredCondition { part, source, done, path, reasons } = *self;
        if ctx.waits_for_topology(part) {
            return ConditionState::new(false, "ObjectDoesNotExist", WAITING);
        }
        if !part.is_set() {
            return ConditionState::new(true, reasons.0, "");
        }
        match &part.found {
            Some(found) => mirror(found, source, Fallback { flag: done, path, reasons }),
            None => self.missing(ctx.cluster.is_being_deleted()),
        }
    }

    fn missing(&self, is_deleting: bool) -> ConditionState {
        let (kind, name) = (&self.part.reference.kind, &self.part.reference.name);
        match (is_deleting, self.done) {
            (true, _) => ConditionState::new(false, "ObjectDeleted", format!("{kind} {name} has been deleted")),
            (false, true) => {
                let message = format!("{kind} {name} has been deleted while the Cluster still exists");
                ConditionState::new(false, "ObjectDeleted", message)
            }
            (false, false) => ConditionState::new(false, "ObjectDoesNotExist", format!("{kind} {name} does not exist")),
        }
    }
}

/// Message until the topology controller has set a reference.
const WAITING: &str = "Waiting for the topology of the Cluster to be reconciled";

/// Whether the control plane was initialized (MA-27.9).
fn initialized(ctx: &ClusterContext<'_>, after: &Object) -> ConditionState {
    let part = &ctx.control_plane;
    let is_known = is_true(after, CONTROL_PLANE_INITIALIZED);
    if is_known || after.is_control_plane_initialized() {
        return ConditionState::new(true, "Initialized", "");
    }
    if ctx.waits_for_topology(part) {
        return ConditionState::new(ConditionStatus::Unknown, "ObjectDoesNotExist", WAITING);
    }
    let message = match (&part.found, part.is_set()) {
        (None, true) => {
            let message = format!("{} {} does not exist", part.reference.kind, part.reference.name);
            return ConditionState::new(ConditionStatus::Unknown, "ObjectDoesNotExist", message);
        }
        (Some(found), _) => {
            format!("{} {} is false", found.kind(), Flag::ControlPlaneInitialized.path(Contract::V1Beta2))
        }
        (None, false) => "Waiting for the first control plane Machine to have a Node".to_owned(),
    };
    ConditionState::new(false, "NotInitialized", message)
}

/// Whether the API server of the workload cluster responds (MA-27.12).
fn probe(ctx: &ClusterContext<'_>, after: &Object) -> ConditionState {
    if ctx.context.workload(&ctx.key).is_some() {
        return ConditionState::new(true, "ProbeSucceeded", "");
    }
    let was_connected = get(after, REMOTE_CONNECTION_PROBE)
        .is_some_and(|it| it.status == ConditionStatus::True || it.message.starts_with(LOST));
    let message = if was_connected { LOST } else { "The workload cluster is not connected yet" };
    let problem = ctx.context.problem(&ctx.key).map(|problem| format!(": {problem}")).unwrap_or_default();
    ConditionState::new(false, "ProbeFailed", format!("{message}{problem}"))
}

/// `Deleting`, with the stage of the deletion as its reason.
pub(super) fn deleting(ctx: &ClusterContext<'_>, stage: Option<&DeletionStage>, after: &mut Object) {
    let condition = match stage {
        Some(stage) => ConditionState::new(true, stage.reason, &*stage.message),
        None => ConditionState::new(false, "NotDeleting", ""),
    };
    put(after, DELETING, &condition, ctx.context.now);
}

/// `Available`: the summary of the others and of the availability gates (MA-27.13).
pub(super) fn available(ctx: &ClusterContext<'_>, after: &mut Object) {
    let gates = gates(ctx);
    let mut parts = vec![
        SummaryPart::negative(DELETING),
        SummaryPart::positive(REMOTE_CONNECTION_PROBE),
        SummaryPart::positive(INFRASTRUCTURE_READY),
        SummaryPart::positive(CONTROL_PLANE_AVAILABLE),
        SummaryPart::positive("WorkersAvailable"),
    ];
    parts.extend(ctx.has_topology.then(|| SummaryPart::positive(TOPOLOGY_RECONCILED)));
    parts.extend(gates.iter().map(|(name, is_negative)| match is_negative {
        true => SummaryPart::negative(name),
        false => SummaryPart::positive(name),
    }));
    let is_deleting = ctx.cluster.is_being_deleted();
    let reasons = ["NotAvailable", "AvailableUnknown", "Available"];
    let condition =
        summary(after, &parts, reasons, |name, condition, priority| weigh(is_deleting, name, condition, priority));
    put(after, "Available", &condition, ctx.context.now);
}

/// Adjusts priorities and messages of conditions in the summary.
fn weigh(is_deleting: bool, name: &str, condition: &mut ConditionState, priority: &mut Priority) {
    let counts_less = match name {
        TOPOLOGY_RECONCILED => {
            condition.status == ConditionStatus::False && !TOPOLOGY_ISSUES.contains(&&*condition.reason)
        }
        INFRASTRUCTURE_READY | CONTROL_PLANE_AVAILABLE => is_deleting && ABSENT.contains(&&*condition.reason),
        _ => false,
    };
    if counts_less {
        *priority = Priority::Info;
    }
    if name == DELETING && condition.status == ConditionStatus::True {
        condition.message = format!("Deletion in progress, stage: {}", condition.reason);
    }
}

/// Availability gates of the Cluster, or of its class if it has none: condition type, and whether true is bad.
fn gates(ctx: &ClusterContext<'_>) -> Vec<(String, bool)> {
    const PATH: &str = paths::cluster::AVAILABILITY_GATES;
    let of_class = || ctx.class.as_ref().and_then(|class| class.at(PATH));
    let gates = ctx.cluster.at(PATH).or_else(of_class).and_then(Value::as_array).into_iter().flatten();
    let text = |gate: &Value, name: &str| gate.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    gates.map(|gate| (text(gate, "conditionType"), text(gate, "polarity") == "Negative")).collect()
}
