//! Workload clusters with an external control plane: connected by the Secret `<cluster>-kubeconfig` (MA-2.6, MA-8.1).

use super::conditions::is_true;
use super::context::{StepContext, StepError};
use super::objects::GroupKind;
use super::settings::MachineSettings;
use super::step::{ObjectWrite, Reconciliation};
use model::hub::{Object, label, paths};

/// Whether the control plane of a Cluster has an external controller.
pub(super) fn has_foreign_control_plane(settings: &MachineSettings, cluster: &Object) -> bool {
    is_foreign(settings, cluster, paths::cluster::CONTROL_PLANE_REF)
}

fn is_foreign(settings: &MachineSettings, object: &Object, path: &str) -> bool {
    let to = object.contract_ref_at(path);
    to.is_defined() && !settings.plays(&GroupKind::for_reference(&to))
}

/// Connects the workload cluster of a Cluster, or disconnects it. A Cluster that is being deleted stays connected, so
/// that its Machines are drained.
///
/// # Errors
/// When the Machines are not listed yet.
pub(super) fn reconcile_connection(
    context: &StepContext<'_>,
    cluster: &Object,
    step: &mut Reconciliation,
) -> Result<(), StepError> {
    let key = cluster.key();
    let (is_followed, is_connected) = (context.is_followed(&key), context.workload(&key).is_some());
    // An API server in this process stays connected.
    let on = if is_connected && !is_followed { false } else { should_connect(context, cluster)? };
    if on != is_followed {
        step.require(ObjectWrite::Follow { workload: key, on });
    }
    Ok(())
}

/// Whether the control plane has an API server: once it is initialized; without a control plane object, once the
/// infrastructure is provisioned.
fn should_connect(context: &StepContext<'_>, cluster: &Object) -> Result<bool, StepError> {
    if cluster.control_plane_ref().is_defined() {
        let is_initialized = is_true(cluster, "ControlPlaneInitialized");
        return Ok(is_initialized && has_foreign_control_plane(context.settings, cluster));
    }
    let is_alone = !cluster.has_topology()
        && is_foreign(context.settings, cluster, paths::INFRASTRUCTURE_REF)
        && cluster.is_infrastructure_provisioned();
    Ok(is_alone && !has_played_control_plane(context, cluster)?)
}

/// Whether a control plane Machine is of the embedded provider, which has an API server in this process.
fn has_played_control_plane(context: &StepContext<'_>, cluster: &Object) -> Result<bool, StepError> {
    let machines = context.of_cluster(&GroupKind::core("Machine"), &cluster.key())?;
    let mut machines = machines.iter().filter(|machine| machine.label(label::CONTROL_PLANE).is_some());
    Ok(machines.any(|machine| !is_foreign(context.settings, machine, paths::INFRASTRUCTURE_REF)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::lifecycle::settings::ProvidedKinds;
    use crate::lifecycle::simulator::MachineSimulator;
    use crate::lifecycle::step::StepWrite;
    use crate::lifecycle::testing::{CLUSTER, cluster_key, core, fold_with};

    const EMBEDDED: &str = "controlplane.topologist.dev";

    fn setup(provides: ProvidedKinds, external: &[&str], spec: Value, status: Value) -> MachineSimulator {
        let external = external.iter().map(|name| (*name).to_owned()).collect();
        let mut simulator = fold_with(MachineSettings { external, provides, ..MachineSettings::default() });
        let mut cluster = core("Cluster", CLUSTER, spec);
        crate::lifecycle::set_field(&mut cluster, "status", status);
        simulator.make(cluster);
        simulator.objects.set_listed(&GroupKind::core("Machine"), None);
        simulator
    }

    /// Whether the step of the Cluster connects its workload cluster, or disconnects it.
    fn is_connection_requested(simulator: &MachineSimulator) -> Option<bool> {
        let cluster = simulator.core("Cluster", CLUSTER);
        let (mut step, context) =
            (Reconciliation::default(), StepContext::new(&simulator.objects, &simulator.settings, simulator.now()));
        reconcile_connection(&context, &cluster, &mut step).unwrap();
        match step.writes[..] {
            [] => None,
            [StepWrite::Required(ObjectWrite::Follow { ref workload, on })] => {
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
            ("kubeadm in a pod", ProvidedKinds::Embedded, none, kubeadm(), "True", Some(true)),
            ("not initialized", ProvidedKinds::Embedded, none, kubeadm(), "False", None),
            ("the embedded one", ProvidedKinds::Embedded, none, embedded(), "True", None),
            ("all are played", ProvidedKinds::Everything, none, kubeadm(), "True", None),
            ("an external kind", ProvidedKinds::Everything, &["KubeadmControlPlane"], kubeadm(), "True", Some(true)),
            (
                "an embedded one left to others",
                ProvidedKinds::Embedded,
                &["EmbeddedControlPlane"],
                embedded(),
                "True",
                Some(true),
            ),
        ] {
            assert_eq!(is_connection_requested(&setup(provides, external, spec, initialized(status))), want, "{case}");
        }
    }

    #[test]
    fn following_begins_once_and_ends_with_its_reason() {
        let spec = control_plane("controlplane.cluster.x-k8s.io", "KubeadmControlPlane");
        let mut simulator = setup(ProvidedKinds::Embedded, &[], spec, initialized("True"));
        simulator.objects.disconnect(&cluster_key(), Some("it did not answer in time".to_owned()));
        assert_eq!(is_connection_requested(&simulator), None, "it is followed already");
        simulator.objects.workload_mut(&cluster_key()).is_reachable = true;
        assert_eq!(is_connection_requested(&simulator), None);
        let cluster = simulator.core("Cluster", CLUSTER);
        simulator
            .edit(&cluster, |it| crate::lifecycle::set_field(it, "spec.controlPlaneRef.apiGroup", json!(EMBEDDED)));
        assert_eq!(is_connection_requested(&simulator), Some(false), "now this process plays it");
        simulator.objects.forget_workload(&cluster_key());
        simulator.objects.workload_mut(&cluster_key()).is_reachable = true;
        assert_eq!(is_connection_requested(&simulator), None, "an API server in this process stays");
    }

    #[test]
    fn without_a_control_plane_object_the_infrastructure_decides() {
        let spec = json!({"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerCluster",
            "name": "i"}});
        let provisioned = || json!({"initialization": {"infrastructureProvisioned": true}});
        assert_eq!(is_connection_requested(&setup(ProvidedKinds::Embedded, &[], spec.clone(), json!({}))), None);
        assert_eq!(is_connection_requested(&setup(ProvidedKinds::Everything, &[], spec.clone(), provisioned())), None);
        let mut simulator = setup(ProvidedKinds::Embedded, &[], spec, provisioned());
        assert_eq!(is_connection_requested(&simulator), Some(true));
        let to = json!({"apiGroup": "infrastructure.topologist.dev", "kind": "EmbeddedMachine", "name": "m"});
        let mut machine = core("Machine", "m", json!({"clusterName": CLUSTER, "infrastructureRef": to}));
        crate::lifecycle::set_field(
            &mut machine,
            "metadata.labels",
            json!({
                "cluster.x-k8s.io/cluster-name": CLUSTER, "cluster.x-k8s.io/control-plane": "",
            }),
        );
        simulator.make(machine);
        assert_eq!(is_connection_requested(&simulator), None, "the embedded machine brings its own API server");
    }
}
