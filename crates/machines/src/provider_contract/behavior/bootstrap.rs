//! What providers of bootstrap data do.

use super::{Change, Secret, Verdict, has_flag};
use crate::lifecycle::wake::is_controlled_by;
use model::hub::{Object, label};

const NAME: &str = "status.dataSecretName";

/// A bootstrap configuration.
pub(super) fn judge(change: &Change<'_>, verdicts: &mut Vec<Verdict>) {
    let [was, is] = change.text(NAME);
    if change.raises_flag() {
        verdicts.push(Verdict::of(
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
        let message = format!("{NAME} was {was:?}, and is {is:?}");
        verdicts.push(Verdict::broken("CT-12.4", message, "Never change the name: Cluster API copies it once"));
    }
}

/// CT-12.2, CT-12.3: with the flag comes the Secret, which belongs to the configuration and names the Cluster.
fn data(change: &Change<'_>, verdicts: &mut Vec<Verdict>) {
    let Some(after) = change.after else { return };
    match &change.now().secret {
        Secret::Unknown => {}
        Secret::Absent => verdicts.push(Verdict::broken(
            "CT-12.3",
            "the flag turned true, and there is no Secret of the name in status.dataSecretName",
            "Create the Secret first, in the namespace of the configuration",
        )),
        Secret::There { metadata, .. } => verdicts.extend(belongs(after, metadata)),
    }
}

/// Everything that is wrong with the Secret, or that nothing is.
fn belongs(configuration: &Object, secret: &Object) -> Vec<Verdict> {
    const RULE: &str = "CT-12.2";
    let mut faults = Vec::new();
    if secret.label(label::CLUSTER_NAME).is_none() {
        let message = format!("the Secret with the data has no label {}", label::CLUSTER_NAME);
        faults.push(Verdict::broken(RULE, message, "Set the label to the name of the Cluster"));
    }
    if !is_controlled_by(secret, configuration) {
        faults.push(Verdict::broken(
            RULE,
            "the configuration is not the controller of the Secret with the data",
            "Set an owner reference with controller: true, so that the Secret is deleted with the configuration",
        ));
    }
    let kept = "the Secret with the data has the label of the Cluster, and the configuration is its controller";
    Verdict::kept_unless(faults, RULE, kept)
}

/// CT-12.7: a worker joins a control plane that is there.
fn joins(change: &Change<'_>, verdicts: &mut Vec<Verdict>) {
    let now = change.now();
    let (Some(cluster), Some(owner)) = (&now.cluster, &now.owner) else { return };
    if owner.label(label::CONTROL_PLANE).is_some() {
        return;
    }
    verdicts.push(Verdict::of(
        has_flag(Some(cluster), "status.initialization.controlPlaneInitialized"),
        "CT-12.7",
        "the data of a worker was made once the control plane was initialized",
        "the data of a worker was made before the control plane was initialized",
        "Wait for status.initialization.controlPlaneInitialized of the Cluster",
    ));
}
