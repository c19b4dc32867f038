//! Workload clusters whose control plane another controller runs: they are followed by the Secret `<cluster>-kubeconfig` (MA-2.6, MA-8.1).

use super::conditions::is_true;
use super::context::{Context, Fault};
use super::fields::{flag, reference};
use super::objects::GroupKind;
use super::settings::Settings;
use super::step::{Step, Write};
use model::hub::{Object, label};

const CONTROL_PLANE: &str = "spec.controlPlaneRef";
const INFRASTRUCTURE: &str = "spec.infrastructureRef";

/// Whether another controller runs the object that a Cluster refers to as its control plane.
pub(super) fn has_foreign_control_plane(settings: &Settings, cluster: &Object) -> bool {
    is_foreign(settings, cluster, CONTROL_PLANE)
}

fn is_foreign(settings: &Settings, object: &Object, path: &str) -> bool {
    let to = reference(object, path);
    to.is_defined() && !settings.plays(&GroupKind::to(&to))
}

/// Begins to follow the workload cluster of a Cluster, or ends it. A Cluster that is being deleted keeps its connection: its Machines
/// are drained.
///
/// # Errors
/// When the Machines are not listed yet.
pub(super) fn keep(context: &Context<'_>, cluster: &Object, step: &mut Step) -> Result<(), Fault> {
    let key = cluster.key();
    let (is_followed, is_connected) = (context.is_followed(&key), context.workload(&key).is_some());
    // An API server in this process is there for a reason.
    let on = if is_connected && !is_followed { false } else { is_wanted(context, cluster)? };
    if on != is_followed {
        step.writes.push(Write::Follow { workload: key, on });
    }
    Ok(())
}

/// A control plane has an API server once it is initialized; without a control plane object, that is when the infrastructure is there.
fn is_wanted(context: &Context<'_>, cluster: &Object) -> Result<bool, Fault> {
    if reference(cluster, CONTROL_PLANE).is_defined() {
        let is_initialized = is_true(cluster, "ControlPlaneInitialized");
        return Ok(is_initialized && has_foreign_control_plane(context.settings, cluster));
    }
    let is_alone = cluster.at("spec.topology").is_none()
        && is_foreign(context.settings, cluster, INFRASTRUCTURE)
        && flag(cluster, "status.initialization.infrastructureProvisioned");
    Ok(is_alone && !has_played_control_plane(context, cluster)?)
}

/// Whether one of the control plane Machines is of the embedded provider, which brings its own API server.
fn has_played_control_plane(context: &Context<'_>, cluster: &Object) -> Result<bool, Fault> {
    let machines = context.of_cluster(&GroupKind::core("Machine"), &cluster.key())?;
    let mut machines = machines.iter().filter(|machine| machine.label(label::CONTROL_PLANE).is_some());
    Ok(machines.any(|machine| !is_foreign(context.settings, machine, INFRASTRUCTURE)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::lifecycle::fold::Fold;
    use crate::lifecycle::settings::Provides;
    use crate::lifecycle::testing::{CLUSTER, cluster_key, core, fold_with};

    const EMBEDDED: &str = "controlplane.topologist.dev";

    fn scene(provides: Provides, external: &[&str], spec: Value, status: Value) -> Fold {
        let external = external.iter().map(|name| (*name).to_owned()).collect();
        let mut fold = fold_with(Settings { external, provides, ..Settings::default() });
        let mut cluster = core("Cluster", CLUSTER, spec);
        crate::lifecycle::put_at(&mut cluster, "status", status);
        fold.make(cluster);
        fold.objects.set_listed(&GroupKind::core("Machine"), None);
        fold
    }

    /// Whether the step of the Cluster asks to follow its workload cluster, or not to do it any more.
    fn asks(fold: &Fold) -> Option<bool> {
        let cluster = fold.core("Cluster", CLUSTER);
        let (mut step, context) = (Step::default(), Context::new(&fold.objects, &fold.settings, fold.now()));
        keep(&context, &cluster, &mut step).unwrap();
        match step.writes[..] {
            [] => None,
            [Write::Follow { ref workload, on }] => {
                assert_eq!(*workload, cluster_key());
                Some(on)
            }
            ref other => panic!("{other:?}"),
        }
    }

    fn control_plane(group: &str, kind: &str) -> Value {
        json!({"controlPlaneRef": {"apiGroup": group, "kind": kind, "name": "c"}})
    }

    fn initialized(status: &str) -> Value {
        json!({"conditions": [{"type": "ControlPlaneInitialized", "status": status, "reason": "Initialized"}]})
    }

    #[test]
    fn control_planes_of_others_are_followed_once_they_are_initialized() {
        // MA-2.6, MA-8.1
        let kubeadm = || control_plane("controlplane.cluster.x-k8s.io", "KubeadmControlPlane");
        let embedded = || control_plane(EMBEDDED, "EmbeddedControlPlane");
        let none: &[&str] = &[];
        for (case, provides, external, spec, status, want) in [
            ("kubeadm in a pod", Provides::Embedded, none, kubeadm(), "True", Some(true)),
            ("not initialized", Provides::Embedded, none, kubeadm(), "False", None),
            ("the embedded one", Provides::Embedded, none, embedded(), "True", None),
            ("all are played", Provides::Everything, none, kubeadm(), "True", None),
            ("an external kind", Provides::Everything, &["KubeadmControlPlane"], kubeadm(), "True", Some(true)),
            (
                "an embedded one left to others",
                Provides::Embedded,
                &["EmbeddedControlPlane"],
                embedded(),
                "True",
                Some(true),
            ),
        ] {
            assert_eq!(asks(&scene(provides, external, spec, initialized(status))), want, "{case}");
        }
    }

    #[test]
    fn following_begins_once_and_ends_with_its_reason() {
        let spec = control_plane("controlplane.cluster.x-k8s.io", "KubeadmControlPlane");
        let mut fold = scene(Provides::Embedded, &[], spec, initialized("True"));
        fold.objects.disconnect(&cluster_key(), Some("it did not answer in time".to_owned()));
        assert_eq!(asks(&fold), None, "it is followed already");
        fold.objects.workload_mut(&cluster_key()).is_reachable = true;
        assert_eq!(asks(&fold), None);
        let cluster = fold.core("Cluster", CLUSTER);
        fold.edit(&cluster, |it| crate::lifecycle::put_at(it, "spec.controlPlaneRef.apiGroup", json!(EMBEDDED)));
        assert_eq!(asks(&fold), Some(false), "now this process plays it");
        fold.objects.forget_workload(&cluster_key());
        fold.objects.workload_mut(&cluster_key()).is_reachable = true;
        assert_eq!(asks(&fold), None, "an API server in this process stays");
    }

    #[test]
    fn without_a_control_plane_object_the_infrastructure_decides() {
        let spec = json!({"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerCluster", "name": "i"}});
        let provisioned = || json!({"initialization": {"infrastructureProvisioned": true}});
        assert_eq!(asks(&scene(Provides::Embedded, &[], spec.clone(), json!({}))), None);
        assert_eq!(asks(&scene(Provides::Everything, &[], spec.clone(), provisioned())), None);
        let mut fold = scene(Provides::Embedded, &[], spec, provisioned());
        assert_eq!(asks(&fold), Some(true));
        let to = json!({"apiGroup": "infrastructure.topologist.dev", "kind": "EmbeddedMachine", "name": "m"});
        let mut machine = core("Machine", "m", json!({"clusterName": CLUSTER, "infrastructureRef": to}));
        crate::lifecycle::put_at(
            &mut machine,
            "metadata.labels",
            json!({
                "cluster.x-k8s.io/cluster-name": CLUSTER, "cluster.x-k8s.io/control-plane": "",
            }),
        );
        fold.make(machine);
        assert_eq!(asks(&fold), None, "the embedded machine brings its own API server");
    }
}
