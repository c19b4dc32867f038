//! What providers of control planes do.

use core::cmp::Ordering;

use super::{Change, Verdict, infrastructure};
use crate::topology::contract::Contract;
use crate::version::KubeVersion;

/// A control plane.
pub(super) fn judge(change: &Change<'_>, verdicts: &mut Vec<Verdict>) {
    infrastructure::endpoint(change, verdicts);
    kubeconfig(change, verdicts);
    counters(change, verdicts);
    version(change, verdicts);
    if change.after.is_none()
        && let [Some(before), Some(now)] = change.surroundings.map(|around| around.machines)
    {
        let machines = before.min(now);
        verdicts.push(Verdict::of(
            machines == 0,
            "CT-10.20",
            "the control plane went after its Machines",
            &format!("the control plane is gone and {machines} of its Machines are there"),
            "Keep the finalizer until the last Machine is gone",
        ));
    }
}

/// CT-10.10: with the flag comes the kubeconfig.
fn kubeconfig(change: &Change<'_>, verdicts: &mut Vec<Verdict>) {
    let Some(is_there) = change.now().has_kubeconfig.filter(|_| change.raises_flag()) else { return };
    verdicts.push(Verdict::of(
        is_there,
        "CT-10.10",
        "the Secret with the kubeconfig is there",
        "the flag turned true, and there is no Secret <cluster>-kubeconfig",
        "Create the Secret before the flag turns true",
    ));
}

/// CT-10.2: a control plane with replicas counts them.
fn counters(change: &Change<'_>, verdicts: &mut Vec<Verdict>) {
    let Some(after) = change.after.filter(|_| change.raises_flag()) else { return };
    if after.at("spec.replicas").is_none() {
        return;
    }
    let own = match change.contract {
        Contract::V1Beta1 => ["status.updatedReplicas", "status.unavailableReplicas"],
        Contract::V1Beta2 => ["status.upToDateReplicas", "status.availableReplicas"],
    };
    // A counter that is zero may be left out.
    let missing: Vec<&str> =
        ["status.replicas", "status.selector"].into_iter().filter(|path| after.at(path).is_none()).collect();
    let counted = ["status.readyReplicas"].into_iter().chain(own).filter(|path| after.at(path).is_some()).count();
    verdicts.push(match missing.first() {
        Some(path) => Verdict::broken(
            "CT-10.2",
            format!("spec.replicas is set and the flag turned true, and {path} is missing"),
            "Report replicas and selector, which the scale subresource reads",
        ),
        None => {
            Verdict::kept("CT-10.2", format!("replicas and selector are reported, and {counted} of 3 other counters"))
        }
    });
}

/// CT-10.4: the version in the status follows the one in the spec, and never runs ahead of it.
fn version(change: &Change<'_>, verdicts: &mut Vec<Verdict>) {
    const RULE: &str = "CT-10.4";
    let [was, is] = change.text("status.version");
    if was == is || is.is_empty() {
        return;
    }
    let [_, wanted] = change.text("spec.version");
    let parsed = |text: &str| KubeVersion::parse_tolerant(text).ok();
    let order = parsed(is).zip(parsed(wanted)).map(|(is, wanted)| is.precedence(&wanted));
    verdicts.push(Verdict::of(
        order != Some(Ordering::Greater),
        RULE,
        &format!("the version that runs is {is}"),
        &format!("status.version is {is}, and spec.version asks for {wanted}"),
        "Report the lowest version that runs in status.version",
    ));
}
