//! The infrastructure cluster.

use super::{DesiredInputs, DesiredObject, clone, name_of, naming};
use crate::topology::Failure;
use model::hub::names::Names;
use model::hub::{NameSubject, paths};

/// The infrastructure cluster (DS-08). The Cluster does not own it yet: providers start when they see that owner, which
/// Cluster API sets when the Cluster refers to the object (DS-09).
pub(super) fn compute(basis: DesiredInputs<'_>, names: &mut dyn Names) -> Result<DesiredObject, Failure> {
    let current = basis.current.infrastructure.as_ref();
    let naming = &basis.blueprint.class.spec.infrastructure.naming;
    let generated =
        naming::templated(&naming.template, NameSubject::Cluster, paths::cluster_class::INFRASTRUCTURE, basis, names)?;
    let name = name_of(current).unwrap_or(generated);
    let mut object = clone::object(&basis.blueprint.infrastructure, &name, clone::CloneMetadata::default(), basis)?;
    object.keep_shim(current, basis)?;
    Ok(object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::topology::testing::Scene;

    #[test]
    fn an_infrastructure_cluster_is_what_its_template_describes() {
        // DS-08, LBL-05: the labels of the template itself are the template's
        let scene = Scene::new().at("ForgeClusterTemplate", "/metadata/labels", json!({"of": "template"}));
        let object = scene.desired().infrastructure.object;
        assert_eq!((object.kind(), object.at("spec")), ("ForgeCluster", Some(&json!({"site": "north"}))));
        let labels = object.texts("metadata.labels").unwrap();
        assert_eq!(
            labels.into_keys().collect::<Vec<_>>(),
            ["cluster.x-k8s.io/cluster-name", "topology.cluster.x-k8s.io/owned"]
        );
    }

    #[test]
    fn infrastructure_cluster_and_control_plane_have_no_owner_but_the_shim() {
        // DS-09, DS-10, LBL-06, DEC-47: a Secret is the shim of the reference, and of earlier versions
        let shim = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "blade-shim", "uid": "s"});
        let former = json!({"apiVersion": "v1", "kind": "Secret", "name": "blade-shim", "uid": "f"});
        let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "blade", "uid": "c"});
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "other-shim", "uid": "o"});
        let remade = json!({"apiVersion": "v0", "kind": "ConfigMap", "name": "blade-shim", "uid": "another"});
        let namesake = json!({"apiVersion": "v1", "kind": "Service", "name": "blade-shim", "uid": "n"});
        for (owners, want) in [
            (json!(null), None),
            (json!([]), None),
            (json!([cluster, other, namesake]), None),
            (json!([cluster, shim]), Some(json!([shim]))),
            (json!([former, cluster]), Some(json!([former]))),
            (json!([former, cluster, shim]), Some(json!([former, shim]))),
            (json!([remade]), Some(json!([remade]))),
        ] {
            let scene = Scene::new().applied();
            let scene = scene.at("ForgeCluster", "/metadata/ownerReferences", owners.clone());
            let desired = scene.at("KubeadmControlPlane", "/metadata/ownerReferences", owners.clone()).desired();
            for object in [desired.infrastructure.object, desired.control_plane.control_plane.object] {
                assert_eq!(object.at("metadata.ownerReferences"), want.as_ref(), "{}: {owners}", object.kind());
            }
        }
        assert!(Scene::new().desired().infrastructure.object.at("metadata.ownerReferences").is_none());
    }
}
