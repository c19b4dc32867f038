//! Behavior of control plane providers towards their Machines.

use serde_json::Value;

use super::{ObservedChange, RuleVerdict};
use crate::lifecycle::conditions;
use model::hub::contract::Contract;
use model::hub::{Object, label, naming, paths};

const CONTROL_PLANE_NAME: &str = "cluster.x-k8s.io/control-plane-name";

/// The Machines of a control plane.
pub(super) fn judge(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    let [Some(earlier), Some(now)] = change.surroundings.map(|around| around.machines.as_deref()) else { return };
    match change.after {
        Some(after) => {
            for machine in now.iter().filter(|machine| !contains(earlier, machine)) {
                verdicts.push(made(after, machine));
                verdicts.extend(placed(change, machine));
            }
            let stayed: Vec<&Object> = now.iter().filter(|machine| contains(earlier, machine)).collect();
            verdicts.extend(up_to_date(change, &stayed));
        }
        None => verdicts.push(outlived(earlier.len().min(now.len()))),
    }
}

fn contains(machines: &[Object], wanted: &Object) -> bool {
    machines.iter().any(|machine| machine.uid() == wanted.uid())
}

/// A control plane is deleted after its Machines (CT-10.20).
fn outlived(machines: usize) -> RuleVerdict {
    RuleVerdict::kept_if(
        machines == 0,
        "CT-10.20",
        "the control plane went after its Machines",
        &format!("the control plane is gone and {machines} of its Machines are there"),
        "Keep the finalizer until the last Machine is gone",
    )
}

/// A new Machine has owner, labels, version and references (CT-10.12).
fn made(control_plane: &Object, machine: &Object) -> RuleVerdict {
    const RULE: &str = "CT-10.12";
    let name = machine.name();
    let missing = missing(machine);
    if !missing.is_empty() {
        let message = format!("the new Machine {name} has no {}", missing.join(", no "));
        return RuleVerdict::broken(
            RULE,
            message,
            "Create Machines with labels, name of the Cluster, version and references",
        );
    }
    let wanted = control_plane.name();
    let is_long = wanted.len() > naming::LABEL_LIMIT;
    match machine.label(CONTROL_PLANE_NAME).is_some_and(|value| is_long || value == wanted) {
        true => RuleVerdict::kept(RULE, format!("the new Machine {name} has its labels, version and references")),
        false => RuleVerdict::disregarded(
            RULE,
            format!("the new Machine {name} has no label {CONTROL_PLANE_NAME} with the name of the control plane"),
            "Set the label to the name of the control plane, or to a hash if the name has more than 63 characters",
        ),
    }
}

/// Missing fields of a control plane Machine.
fn missing(machine: &Object) -> Vec<&'static str> {
    let has = |path: &str| machine.at(path).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    let has_data = has("spec.bootstrap.configRef.name") || has(paths::machine::BOOTSTRAP_DATA_SECRET);
    let wanted = [
        (machine.label(label::CONTROL_PLANE) == Some(""), "empty label cluster.x-k8s.io/control-plane"),
        (machine.label(label::CLUSTER_NAME).is_some(), "label cluster.x-k8s.io/cluster-name"),
        (has(paths::CLUSTER_NAME), paths::CLUSTER_NAME),
        (has(paths::VERSION), paths::VERSION),
        (has("spec.infrastructureRef.name"), paths::INFRASTRUCTURE_REF),
        (has_data, paths::machine::BOOTSTRAP_CONFIG_REF),
    ];
    wanted.into_iter().filter(|(is_there, _)| !is_there).map(|(_, what)| what).collect()
}

/// A new Machine is in a failure domain for control planes, if the Cluster has any (CT-10.14).
fn placed(change: &ObservedChange<'_>, machine: &Object) -> Option<RuleVerdict> {
    const RULE: &str = "CT-10.14";
    let domains = change.now().cluster.as_ref()?.at(paths::status::FAILURE_DOMAINS)?.as_array()?;
    let is_fit = |domain: &&Value| domain.get("controlPlane") == Some(&Value::Bool(true));
    let fit: Vec<&Value> = domains.iter().filter(is_fit).filter_map(|domain| domain.get("name")).collect();
    if fit.is_empty() {
        return None;
    }
    let (name, domain) = (machine.name(), machine.at(paths::FAILURE_DOMAIN));
    let of = domain
        .and_then(Value::as_str)
        .map_or("no failure domain".to_owned(), |name| format!("the failure domain {name}"));
    Some(match domain.is_some_and(|domain| fit.contains(&domain)) {
        true => RuleVerdict::kept(RULE, format!("the new Machine {name} is in {of}")),
        false => RuleVerdict::broken(
            RULE,
            format!("the new Machine {name} is in {of}, and the Cluster has some for control planes"),
            "Choose one of status.failureDomains of the Cluster that has controlPlane: true",
        ),
    })
}

/// Machines have the condition `UpToDate` when the control plane counts them, or has the flag (CT-10.15). A control
/// plane may count a Machine first and set its condition in the next reconcile, so only those counted before this
/// change must have it.
fn up_to_date(change: &ObservedChange<'_>, machines: &[&Object]) -> Option<RuleVerdict> {
    const RULE: &str = "CT-10.15";
    let [was, is] = change.at(match change.contract {
        Contract::V1Beta1 => paths::control_plane::UPDATED_REPLICAS,
        Contract::V1Beta2 => paths::status::UP_TO_DATE_REPLICAS,
    });
    if machines.is_empty() || (was == is && !change.raises_flag()) {
        return None;
    }
    let counted = was.and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok()).unwrap_or_default();
    let without: Vec<_> = machines.iter().filter(|machine| conditions::get(machine, "UpToDate").is_none()).collect();
    let excused = machines.len().saturating_sub(counted);
    match without.as_slice() {
        [] => Some(RuleVerdict::kept(RULE, "the Machines have the condition UpToDate")),
        [machine, ..] if without.len() > excused => Some(RuleVerdict::disregarded(
            RULE,
            format!("the Machine {} has no condition UpToDate", machine.name()),
            "Set the condition on each Machine: Cluster API does it for MachineDeployments only",
        )),
        _ => None,
    }
}
