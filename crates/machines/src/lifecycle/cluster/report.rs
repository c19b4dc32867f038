//! Conditions of a Cluster about itself and its two references, and `Available`, their summary (MA-27.9, MA-27.10, MA-27.12,
//! MA-27.13).

use serde_json::Value;

use super::deletion::Stage;
use super::references::{INITIALIZED, PROVISIONED};
use super::scene::{Referenced, Scene};
use crate::lifecycle::conditions::{Condition, Fallback, Part, Priority, Status, get, is_true, mirror, put, summary};
use crate::lifecycle::contract::Flag;
use crate::lifecycle::fields::flag;
use model::hub::Object;
use model::hub::contract::Contract;

/// The condition `Ready` of the infrastructure cluster (CT-6.8, CT-15.8).
const INFRASTRUCTURE_READY: &str = "InfrastructureReady";
const CONTROL_PLANE_AVAILABLE: &str = "ControlPlaneAvailable";
const CONTROL_PLANE_INITIALIZED: &str = "ControlPlaneInitialized";
const REMOTE_CONNECTION_PROBE: &str = "RemoteConnectionProbe";
const TOPOLOGY_RECONCILED: &str = "TopologyReconciled";
const DELETING: &str = "Deleting";
const LOST: &str = "The connection to the workload cluster is lost";
/// Reasons of an object that is not there.
const ABSENT: [&str; 2] = ["ObjectDoesNotExist", "ObjectDeleted"];
/// Reasons of a topology that is not reconciled because something is wrong; others are on their way.
const TOPOLOGY_ISSUES: [&str; 2] = ["ReconcileFailed", "ClusterClassNotReconciled"];

/// `InfrastructureReady` (CT-6.8), `ControlPlaneAvailable`, `ControlPlaneInitialized` and `RemoteConnectionProbe`.
pub(super) fn own_conditions(scene: &Scene<'_>, after: &mut Object) {
    let now = scene.context.now;
    let infrastructure = Mirrored {
        part: &scene.infrastructure,
        source: "Ready",
        done: flag(after, PROVISIONED),
        path: Flag::Provisioned.path(Contract::V1Beta2),
        reasons: ("Ready", "NotReady"),
    };
    let control_plane = Mirrored {
        part: &scene.control_plane,
        source: "Available",
        done: flag(after, INITIALIZED),
        path: Flag::ControlPlaneInitialized.path(Contract::V1Beta2),
        reasons: ("Available", "NotAvailable"),
    };
    put(after, INFRASTRUCTURE_READY, &infrastructure.condition(scene), now);
    put(after, CONTROL_PLANE_AVAILABLE, &control_plane.condition(scene), now);
    let initialized = initialized(scene, after);
    put(after, CONTROL_PLANE_INITIALIZED, &initialized, now);
    let probe = probe(scene, after);
    put(after, REMOTE_CONNECTION_PROBE, &probe, now);
}

/// A condition that is copied from the object of a reference (MA-27.10).
struct Mirrored<'a> {
    part: &'a Referenced,
    source: &'a str,
    /// The flag that the Cluster keeps.
    done: bool,
    path: &'a str,
    reasons: (&'a str, &'a str),
}

impl Mirrored<'_> {
    fn condition(&self, scene: &Scene<'_>) -> Condition {
        let Mirrored { part, source, done, path, reasons } = *self;
        if scene.waits_for_topology(part) {
            return Condition::new(false, "ObjectDoesNotExist", WAITING);
        }
        if !part.is_set() {
            return Condition::new(true, reasons.0, "");
        }
        match &part.found {
            Some(found) => mirror(found, source, Fallback { flag: done, path, reasons }),
            None => self.missing(scene.cluster.is_being_deleted()),
        }
    }

    fn missing(&self, is_deleting: bool) -> Condition {
        let (kind, name) = (&self.part.reference.kind, &self.part.reference.name);
        match (is_deleting, self.done) {
            (true, _) => Condition::new(false, "ObjectDeleted", format!("{kind} {name} has been deleted")),
            (false, true) => {
                let message = format!("{kind} {name} has been deleted while the Cluster still exists");
                Condition::new(false, "ObjectDeleted", message)
            }
            (false, false) => Condition::new(false, "ObjectDoesNotExist", format!("{kind} {name} does not exist")),
        }
    }
}

/// What conditions say until the topology controller has set a reference.
const WAITING: &str = "Waiting for the topology of the Cluster to be reconciled";

/// Whether the control plane has ever answered (MA-27.9).
fn initialized(scene: &Scene<'_>, after: &Object) -> Condition {
    let part = &scene.control_plane;
    let is_known = is_true(after, CONTROL_PLANE_INITIALIZED);
    if is_known || flag(after, INITIALIZED) {
        return Condition::new(true, "Initialized", "");
    }
    if scene.waits_for_topology(part) {
        return Condition::new(Status::Unknown, "ObjectDoesNotExist", WAITING);
    }
    let message = match (&part.found, part.is_set()) {
        (None, true) => {
            let message = format!("{} {} does not exist", part.reference.kind, part.reference.name);
            return Condition::new(Status::Unknown, "ObjectDoesNotExist", message);
        }
        (Some(found), _) => {
            format!("{} {} is false", found.kind(), Flag::ControlPlaneInitialized.path(Contract::V1Beta2))
        }
        (None, false) => "Waiting for the first control plane Machine to have a Node".to_owned(),
    };
    Condition::new(false, "NotInitialized", message)
}

/// Whether the API server of the workload cluster answers (MA-27.12).
fn probe(scene: &Scene<'_>, after: &Object) -> Condition {
    if scene.context.workload(&scene.key).is_some() {
        return Condition::new(true, "ProbeSucceeded", "");
    }
    let was_connected =
        get(after, REMOTE_CONNECTION_PROBE).is_some_and(|it| it.status == Status::True || it.message.starts_with(LOST));
    let message = if was_connected { LOST } else { "The workload cluster is not connected yet" };
    let problem = scene.context.problem(&scene.key).map(|problem| format!(": {problem}")).unwrap_or_default();
    Condition::new(false, "ProbeFailed", format!("{message}{problem}"))
}

/// `Deleting`, with the stage of the deletion as its reason.
pub(super) fn deleting(scene: &Scene<'_>, stage: Option<&Stage>, after: &mut Object) {
    let condition = match stage {
        Some(stage) => Condition::new(true, stage.reason, &*stage.message),
        None => Condition::new(false, "NotDeleting", ""),
    };
    put(after, DELETING, &condition, scene.context.now);
}

/// `Available`: the summary of the others and of the availability gates (MA-27.13).
pub(super) fn available(scene: &Scene<'_>, after: &mut Object) {
    let gates = gates(scene);
    let mut parts = vec![
        Part::negative(DELETING),
        Part::positive(REMOTE_CONNECTION_PROBE),
        Part::positive(INFRASTRUCTURE_READY),
        Part::positive(CONTROL_PLANE_AVAILABLE),
        Part::positive("WorkersAvailable"),
    ];
    parts.extend(scene.has_topology.then(|| Part::positive(TOPOLOGY_RECONCILED)));
    parts.extend(gates.iter().map(|(name, is_negative)| match is_negative {
        true => Part::negative(name),
        false => Part::positive(name),
    }));
    let is_deleting = scene.cluster.is_being_deleted();
    let reasons = ["NotAvailable", "AvailableUnknown", "Available"];
    let condition =
        summary(after, &parts, reasons, |name, condition, priority| weigh(is_deleting, name, condition, priority));
    put(after, "Available", &condition, scene.context.now);
}

/// What counts less than it looks, and what is said shorter.
fn weigh(is_deleting: bool, name: &str, condition: &mut Condition, priority: &mut Priority) {
    let counts_less = match name {
        TOPOLOGY_RECONCILED => condition.status == Status::False && !TOPOLOGY_ISSUES.contains(&&*condition.reason),
        INFRASTRUCTURE_READY | CONTROL_PLANE_AVAILABLE => is_deleting && ABSENT.contains(&&*condition.reason),
        _ => false,
    };
    if counts_less {
        *priority = Priority::Info;
    }
    if name == DELETING && condition.status == Status::True {
        condition.message = format!("Deletion in progress, stage: {}", condition.reason);
    }
}

/// The availability gates of the Cluster, or those of its class where it has none: condition and whether true is bad.
fn gates(scene: &Scene<'_>) -> Vec<(String, bool)> {
    const PATH: &str = "spec.availabilityGates";
    let of_class = || scene.class.as_ref().and_then(|class| class.at(PATH));
    let gates = scene.cluster.at(PATH).or_else(of_class).and_then(Value::as_array).into_iter().flatten();
    let text = |gate: &Value, name: &str| gate.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    gates.map(|gate| (text(gate, "conditionType"), text(gate, "polarity") == "Negative")).collect()
}
