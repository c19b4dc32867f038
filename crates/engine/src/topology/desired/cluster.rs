//! The Cluster itself.

use super::{DesiredCluster, DesiredInputs};
use crate::topology::upgrade::ControlPlaneDecided;
use model::hub::{Object, annotation, label, paths};

/// The fields of the Cluster that the engine sets (DS-22).
pub(super) fn compute(
    basis: DesiredInputs<'_>,
    infrastructure: &Object,
    control_plane: &Object,
    decided: &ControlPlaneDecided<'_>,
) -> DesiredCluster {
    let metadata = &basis.blueprint.cluster.metadata;
    let mut labels = metadata.labels.to_map();
    labels.insert(label::CLUSTER_NAME.to_owned(), metadata.name.clone());
    labels.insert(label::OWNED.to_owned(), String::new());
    let mut annotations = metadata.annotations.to_map();
    let mut put = |name: &str, value: Option<String>| match value {
        Some(value) => drop(annotations.insert(name.to_owned(), value)),
        None => drop(annotations.remove(name)),
    };
    put(annotation::UPGRADE_STEP, step(control_plane, decided));
    put(annotation::PENDING_HOOKS, pending_hooks(decided));
    let (infrastructure_ref, control_plane_ref) = (infrastructure.contract_ref(), control_plane.contract_ref());
    DesiredCluster { labels, annotations, infrastructure_ref, control_plane_ref }
}

/// The version of new machines during an upgrade to a later version (DS-23).
fn step(control_plane: &Object, decided: &ControlPlaneDecided<'_>) -> Option<String> {
    let version = || control_plane.at(paths::VERSION)?.as_str().map(str::to_owned);
    decided.marks_a_step().then(version).flatten()
}

/// The pending hooks, sorted (HK-02).
fn pending_hooks(decided: &ControlPlaneDecided<'_>) -> Option<String> {
    let hooks: Vec<&str> = decided.pending_hooks().iter().map(String::as_str).collect();
    (!hooks.is_empty()).then(|| hooks.join(","))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::super::DesiredCluster;
    use crate::topology::testing::Scene;

    #[test]
    fn the_cluster_gets_labels_and_references() {
        // DS-22
        let scene = Scene::new()
            .at("Cluster", "/metadata/labels", json!({"mine": "1", "topology.cluster.x-k8s.io/owned": "x"}))
            .at("Cluster", "/metadata/annotations", json!({"note": "2"}));
        let desired = scene.desired();
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let want = DesiredCluster {
            labels: BTreeMap::from([
                text("mine", "1"),
                text("cluster.x-k8s.io/cluster-name", "blade"),
                text("topology.cluster.x-k8s.io/owned", ""),
            ]),
            annotations: BTreeMap::from([text("note", "2")]),
            infrastructure_ref: desired.infrastructure.object.contract_ref(),
            control_plane_ref: desired.control_plane.control_plane.object.contract_ref(),
        };
        assert_eq!(want.infrastructure_ref.api_group, "infrastructure.cluster.x-k8s.io");
        assert_eq!(desired.cluster, want);
    }

    #[test]
    fn a_step_that_is_over_is_no_longer_marked() {
        // DS-23
        let scene = Scene::new().applied().at(
            "Cluster",
            "/metadata/annotations",
            json!({"topology.internal.cluster.x-k8s.io/upgrade-step": "v1.33.0"}),
        );
        assert_eq!(scene.desired().cluster.annotations, BTreeMap::new());
    }

    #[test]
    fn during_an_upgrade_the_cluster_has_the_step_of_its_control_plane() {
        // DS-23
        let made = Scene::new().applied().at("Cluster", "/spec/topology/version", json!("v1.34.0"));
        for (is_at, want) in [("v1.33.0", "v1.34.0"), ("v1.32.0", "v1.33.0")] {
            // A control plane that is still on its way to its version takes no other one.
            let desired = made.clone().at("KubeadmControlPlane", "/status", json!({"version": is_at})).desired();
            let annotations =
                BTreeMap::from([("topology.internal.cluster.x-k8s.io/upgrade-step".to_owned(), want.to_owned())]);
            assert_eq!(desired.cluster.annotations, annotations, "at {is_at}");
            let control_plane = desired.control_plane.control_plane.object;
            assert_eq!(control_plane.at("spec.version"), Some(&json!(want)));
        }
    }

    #[test]
    fn hooks_that_are_pending_stay_so_while_no_hook_is_called() {
        // HK-01, HK-02
        let pending = "AfterClusterUpgrade,BeforeWorkersUpgrade";
        let annotations = json!({"runtime.cluster.x-k8s.io/pending-hooks": pending});
        let desired = Scene::new().applied().at("Cluster", "/metadata/annotations", annotations.clone()).desired();
        assert_eq!(json!(desired.cluster.annotations), annotations);
    }
}
