//! The template of the machines of the control plane.

use super::{DesiredInputs, DesiredObject, clone, name_of, naming};
use crate::topology::Failure;
use model::hub::names::Names;
use model::hub::paths;

/// The template of the control plane's machines, if the class has one (DS-11).
pub(super) fn compute(basis: DesiredInputs<'_>, names: &mut dyn Names) -> Result<Option<DesiredObject>, Failure> {
    let Some(template) = &basis.blueprint.control_plane_machines else { return Ok(None) };
    let name = name_of(basis.current.control_plane.machines.as_ref()).unwrap_or_else(|| {
        let prefix = format!("{}-", basis.cluster_name());
        naming::prefixed(&prefix, paths::cluster_class::CONTROL_PLANE_MACHINES, basis, names)
    });
    clone::template(template, &name, clone::CloneMetadata::default(), basis).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::topology::Failure;
    use crate::topology::testing::Scene;

    #[test]
    fn the_control_plane_has_a_template_of_its_machines_when_its_class_has_one() {
        // DS-11, DS-14, DS-15
        let machines = Scene::new().desired().control_plane.machines.unwrap().object;
        assert_eq!(
            (machines.kind(), machines.at("spec.template.spec.size")),
            ("ForgeMachineTemplate", Some(&json!("large")))
        );
        assert_eq!(machines.label("topology.cluster.x-k8s.io/owned"), Some(""));
        assert_eq!(machines.list("metadata.ownerReferences").unwrap().unwrap()[0]["kind"], "Cluster");
        let without = Scene::new().at("ClusterClass", "/spec/controlPlane/machineInfrastructure", json!(null));
        let without = without.desired().control_plane;
        assert_eq!((without.machines, without.control_plane.object.at("spec.machineTemplate")), (None, None));
    }

    #[test]
    fn a_control_plane_that_refers_to_no_machines_fails() {
        // DS-11, DS-14
        for scene in [Scene::new(), Scene::with_v1beta1_contract()] {
            let scene = scene.applied().at("KubeadmControlPlane", "/spec/machineTemplate", json!(null));
            assert!(matches!(scene.compute(), Err(Failure::NoReference { .. })));
        }
    }
}
