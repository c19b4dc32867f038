//! What providers of bootstrap data do.

use super::{Change, Verdict, has_flag};
use crate::hub::label;

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
        joins(change, verdicts);
    }
    if change.after.is_some() && !was.is_empty() && was != is {
        let message = format!("{NAME} was {was:?}, and is {is:?}");
        verdicts.push(Verdict::broken("CT-12.4", message, "Never change the name: Cluster API copies it once"));
    }
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
