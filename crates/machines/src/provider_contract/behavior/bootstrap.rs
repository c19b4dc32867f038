//! Behavior of bootstrap providers.

use super::{ObservedChange, RuleVerdict, Secret, has_flag};
use crate::lifecycle::dependents::is_controlled_by;
use model::hub::{Object, label, paths};

/// A bootstrap configuration.
pub(super) fn judge(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    let [was, is] = change.text(paths::bootstrap::DATA_SECRET);
    if change.raises_flag() {
        verdicts.push(RuleVerdict::kept_if(
            !is.is_empty(),
            "CT-12.3",
            "the name of the Secret is reported with the flag, or before it",
            "the flag turned true before status.dataSecretName was set",
            "Set status.dataSecretName in the same request as the flag, or before it",
        ));
        data(change, verdicts);
        joins(change, verdicts);
    }
    if change.after.is_some() && !was.is_empty() && was != is {
        let message = format!("status.dataSecretName was {was:?}, and is {is:?}");
        verdicts.push(RuleVerdict::broken("CT-12.4", message, "Never change the name: Cluster API copies it once"));
    }
}

/// The Secret exists with the flag, is owned by the configuration and names the Cluster (CT-12.2, CT-12.3).
fn data(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    let Some(after) = change.after else { return };
    match &change.now().secret {
        Secret::Unknown => {}
        Secret::Absent => verdicts.push(RuleVerdict::broken(
            "CT-12.3",
            "the flag turned true, and there is no Secret of the name in status.dataSecretName",
            "Create the Secret first, in the namespace of the configuration",
        )),
        Secret::There { metadata, .. } => verdicts.extend(belongs(after, metadata)),
    }
}

/// All errors of the Secret, or that there are none.
fn belongs(configuration: &Object, secret: &Object) -> Vec<RuleVerdict> {
    const RULE: &str = "CT-12.2";
    let mut faults = Vec::new();
    if secret.label(label::CLUSTER_NAME).is_none() {
        let message = format!("the Secret with the data has no label {}", label::CLUSTER_NAME);
        faults.push(RuleVerdict::broken(RULE, message, "Set the label to the name of the Cluster"));
    }
    if !is_controlled_by(secret, configuration) {
        faults.push(RuleVerdict::broken(
            RULE,
            "the configuration is not the controller of the Secret with the data",
            "Set an owner reference with controller: true, so that the Secret is deleted with the configuration",
        ));
    }
    let kept = "the Secret with the data has the label of the Cluster, and the configuration is its controller";
    RuleVerdict::kept_unless(faults, RULE, kept)
}

/// A worker joins an initialized control plane (CT-12.7).
fn joins(change: &ObservedChange<'_>, verdicts: &mut Vec<RuleVerdict>) {
    let now = change.now();
    let (Some(cluster), Some(owner)) = (&now.cluster, &now.owner) else { return };
    if owner.label(label::CONTROL_PLANE).is_some() {
        return;
    }
    verdicts.push(RuleVerdict::kept_if(
        has_flag(Some(cluster), paths::status::CONTROL_PLANE_INITIALIZED),
        "CT-12.7",
        "the data of a worker was made once the control plane was initialized",
        "the data of a worker was made before the control plane was initialized",
        "Wait for status.initialization.controlPlaneInitialized of the Cluster",
    ));
}
