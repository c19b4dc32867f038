//! Behavior of control plane providers.

use core::cmp::Ordering;

use super::{ObservedChange, RuleVerdict, Secret, infrastructure, members};
use golang::version::KubeVersion;
use model::hub::contract::Contract;
use model::hub::{Object, label, paths};

const KUBECONFIG: &str = "CT-10.10";

/// A control plane.
pub(super) fn judge(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    infrastructure::endpoint(change, verdicts);
    kubeconfig(change, verdicts);
    counters(change, verdicts);
    version(change, verdicts);
    members::judge(change, verdicts);
}

/// The kubeconfig exists with the flag (CT-10.10).
fn kubeconfig(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    let Some(after) = change.after.filter(|_| change.raises_flag()) else { return };
    match &change.now().secret {
        Secret::Unknown => {}
        Secret::Absent => verdicts.push(RuleVerdict::broken(
            KUBECONFIG,
            "the flag turned true, and there is no Secret <cluster>-kubeconfig",
            "Create the Secret before the flag turns true",
        )),
        Secret::There { metadata, is_of_the_type } => verdicts.extend(form(after, metadata, *is_of_the_type)),
    }
}

/// All errors in the form of the kubeconfig Secret, or that there are none.
fn form(control_plane: &Object, secret: &Object, is_of_the_type: Option<bool>) -> Vec<RuleVerdict> {
    let mut faults = Vec::new();
    if is_of_the_type == Some(false) {
        faults.push(RuleVerdict::broken(
            KUBECONFIG,
            "the type of the Secret with the kubeconfig is not cluster.x-k8s.io/secret",
            "Create the Secret with this type: it cannot be changed later",
        ));
    }
    if secret.label(label::CLUSTER_NAME).is_none() {
        let message = format!("the Secret with the kubeconfig has no label {}", label::CLUSTER_NAME);
        faults.push(RuleVerdict::broken(KUBECONFIG, message, "Set the label to the name of the Cluster"));
    }
    if !secret.owner_references().iter().any(|owner| owner.get("uid").is_some_and(|uid| uid == control_plane.uid())) {
        faults.push(RuleVerdict::disregarded(
            KUBECONFIG,
            "the control plane does not own the Secret with the kubeconfig",
            "Set an owner reference, so that the Secret is deleted with the control plane",
        ));
    }
    let kept = "the Secret with the kubeconfig is there, and the control plane owns it";
    RuleVerdict::kept_unless(faults, KUBECONFIG, kept)
}

/// A control plane with replicas reports counters (CT-10.2).
fn counters(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    let Some(after) = change.after.filter(|_| change.raises_flag()) else { return };
    if after.at(paths::REPLICAS).is_none() {
        return;
    }
    let own = match change.contract {
        Contract::V1Beta1 => [paths::control_plane::UPDATED_REPLICAS, paths::control_plane::UNAVAILABLE_REPLICAS],
        Contract::V1Beta2 => [paths::status::UP_TO_DATE_REPLICAS, paths::status::AVAILABLE_REPLICAS],
    };
    // Zero counters may be omitted.
    let missing: Vec<&str> = [paths::status::REPLICAS, paths::status::SELECTOR]
        .into_iter()
        .filter(|path| after.at(path).is_none())
        .collect();
    let counted =
        [paths::status::READY_REPLICAS].into_iter().chain(own).filter(|path| after.at(path).is_some()).count();
    verdicts.push(match missing.first() {
        Some(path) => RuleVerdict::broken(
            "CT-10.2",
            format!("spec.replicas is set and the flag turned true, and {path} is missing"),
            "Report replicas and selector, which the scale subresource reads",
        ),
        None => RuleVerdict::kept(
            "CT-10.2",
            format!("replicas and selector are reported, and {counted} of 3 other counters"),
        ),
    });
}

/// The version in the status follows the one in the spec, and is never newer (CT-10.4).
fn version(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    const RULE: &str = "CT-10.4";
    let [was, is] = change.text(paths::control_plane::STATUS_VERSION);
    if was == is || is.is_empty() {
        return;
    }
    let [_, wanted] = change.text(paths::VERSION);
    let parsed = |text: &str| KubeVersion::parse_tolerant(text).ok();
    let order = parsed(is).zip(parsed(wanted)).map(|(is, wanted)| is.precedence(&wanted));
    verdicts.push(RuleVerdict::kept_if(
        order != Some(Ordering::Greater),
        RULE,
        &format!("the version that runs is {is}"),
        &format!("status.version is {is}, and spec.version asks for {wanted}"),
        "Report the lowest version that runs in status.version",
    ));
}
