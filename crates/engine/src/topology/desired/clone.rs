//! Objects and templates that are cloned from the templates of the class.

use serde_json::{Map, Value};

use super::draft::labels_of_all;
use super::metadata::MetadataEntry;
use super::{DesiredInputs, DesiredObject};
use crate::topology::Failure;
use crate::topology::origin::{Origin, Origins};
use model::hub::contract::object_kind;
use model::hub::{Object, annotation, paths};

/// Additional metadata of a clone.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CloneMetadata<'a> {
    pub(super) labels: &'a [MetadataEntry<'a>],
    pub(super) annotations: &'a [MetadataEntry<'a>],
}

/// The object that a template describes (DS-04), with the metadata below `spec.template` instead of the template's
/// (LBL-05); the caller sets the owner.
pub(super) fn object(
    template: &Object,
    name: &str,
    extra: CloneMetadata<'_>,
    basis: DesiredInputs<'_>,
) -> Result<DesiredObject, Failure> {
    let empty = Map::new();
    let described = template.members_at(paths::TEMPLATE)?.unwrap_or(&empty);
    let mut members = without_system_fields(described);
    members.entry("apiVersion").or_insert_with(|| template.api_version().into());
    members.entry("kind").or_insert_with(|| object_kind(template.kind()).into());
    finished(members.into(), template, name, extra, basis)
}

/// A copy of a template of the class (DS-05) with the template's metadata (LBL-05), owned by the Cluster.
pub(super) fn template(
    template: &Object,
    name: &str,
    extra: CloneMetadata<'_>,
    basis: DesiredInputs<'_>,
) -> Result<DesiredObject, Failure> {
    let mut copy = template.clone();
    copy.remove("status");
    copy.members_mut_at("metadata")?.retain(|name, _| is_kept(name));
    let mut clone = finished(copy, template, name, extra, basis)?;
    clone.object.members_mut_at(paths::metadata::ANNOTATIONS)?.retain(|name, _| is_cloned(name));
    clone.own(&basis.blueprint.cluster)?;
    Ok(clone)
}

/// Whether clones of a template inherit an annotation. Annotations of topologist refer to an edit of the template
/// (DEC-53).
fn is_cloned(name: &str) -> bool {
    name != annotation::LAST_APPLIED && !name.starts_with("topologist.dev/")
}

/// Whether a member of the metadata is not managed by the server.
fn is_kept(name: &str) -> bool {
    matches!(name, "labels" | "annotations" | "ownerReferences")
}

/// The members without those that a server manages, which are never applied (SSA-02).
fn without_system_fields(members: &Map<String, Value>) -> Map<String, Value> {
    let kept = members.iter().filter(|(name, _)| *name != "status");
    let kept = kept.map(|(name, value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let kept = metadata.iter().filter(|(name, _)| is_kept(name));
            (name.clone(), kept.map(|(name, value)| (name.clone(), value.clone())).collect())
        }
        _ => (name.clone(), value.clone()),
    });
    kept.collect()
}

/// Name, namespace, labels and annotations of a clone.
fn finished(
    object: Object,
    template: &Object,
    name: &str,
    extra: CloneMetadata<'_>,
    basis: DesiredInputs<'_>,
) -> Result<DesiredObject, Failure> {
    let mut clone = DesiredObject { object, origins: Origins::default() };
    clone.origins.mark("", Origin::Template { kind: template.kind().into(), name: template.name().into() });
    clone.set(paths::metadata::NAME, name, Origin::Topology)?;
    clone.set(paths::metadata::NAMESPACE, basis.namespace(), Origin::Topology)?;
    clone.overlay(paths::metadata::LABELS, extra.labels)?;
    clone.overlay(paths::metadata::LABELS, &labels_of_all(basis))?;
    clone.overlay(paths::metadata::ANNOTATIONS, extra.annotations)?;
    clone.overlay(paths::metadata::ANNOTATIONS, &cloned_from(template, &template_kind(template)))?;
    Ok(clone)
}

/// `Kind.group` of a template.
fn template_kind(template: &Object) -> String {
    format!("{}.{}", template.kind(), template.group())
}

/// The annotations of a clone that name its template (DS-06).
fn cloned_from<'a>(template: &'a Object, kind: &'a str) -> [MetadataEntry<'a>; 2] {
    [
        MetadataEntry::from_engine(annotation::CLONED_FROM_NAME, template.name()),
        MetadataEntry::from_engine(annotation::CLONED_FROM_KIND, kind),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::topology::testing::Scene;
    use model::hub::annotation;

    #[test]
    fn an_object_is_what_its_template_describes() {
        // DS-04, LBL-02, LBL-05
        let described = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1", "kind": "Plot",
            "metadata": {
                "name": "x", "namespace": "x", "resourceVersion": "1", "finalizers": ["f"], "uid": "u", "selfLink": "s",
                "labels": {"mine": "1", "topology.cluster.x-k8s.io/owned": "no"},
                "annotations": {"note": "2", "cluster.x-k8s.io/cloned-from-name": "no"},
                "ownerReferences": [{"kind": "K", "name": "n"}],
            },
            "spec": {"site": "north", "nothing": null},
            "data": [1],
            "status": {"ready": true},
        });
        let scene = Scene::new()
            .at("ForgeClusterTemplate", "/spec/template", described)
            .at("ForgeClusterTemplate", "/metadata/labels", json!({"of-the-template": ""}))
            .at("ForgeClusterTemplate", "/metadata/annotations", json!({"of-the-template": ""}));
        let object = scene.desired().infrastructure.object;
        let want = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1", "kind": "Plot",
            "metadata": {
                "name": object.name(), "namespace": "ns",
                "labels": {"mine": "1", "cluster.x-k8s.io/cluster-name": "blade",
                    "topology.cluster.x-k8s.io/owned": ""},
                "annotations": {
                    "note": "2",
                    "cluster.x-k8s.io/cloned-from-name": "ground",
                    "cluster.x-k8s.io/cloned-from-groupkind": "ForgeClusterTemplate.infrastructure.cluster.x-k8s.io",
                },
                "ownerReferences": [{"kind": "K", "name": "n"}],
            },
            "spec": {"site": "north", "nothing": null},
            "data": [1],
        });
        assert_eq!(json!(object.members()), want);
        assert_ne!(object.name(), "x");
    }

    #[test]
    fn an_empty_template_gives_an_empty_object() {
        // DS-04
        for spec in [json!(null), json!({}), json!({"template": null})] {
            let object = Scene::new().at("ForgeClusterTemplate", "/spec", spec).desired().infrastructure.object;
            assert_eq!(object.reference().kind, "ForgeCluster");
            assert_eq!(object.api_version(), "infrastructure.cluster.x-k8s.io/v1beta2");
            assert_eq!((object.at("spec"), object.members().len()), (None, 3));
        }
        for spec in [json!("x"), json!({"template": []}), json!({"template": {"metadata": {"labels": 1}}})] {
            let failure = Scene::new().at("ForgeClusterTemplate", "/spec", spec).compute().unwrap_err();
            assert!(failure.to_string().contains("where an object"), "{failure}");
        }
    }

    #[test]
    fn a_template_is_copied_whole_and_gets_another_owner() {
        // DS-05, DS-06, LBL-05
        let metadata = json!({
            "name": "smith", "namespace": "ns", "resourceVersion": "1", "finalizers": ["f"], "uid": "u",
            "selfLink": "s",
            "generation": 3, "creationTimestamp": "2030-01-01T00:00:00Z", "managedFields": [{}],
            "labels": {"mine": "1"},
            "annotations": {annotation::LAST_APPLIED: "{}", "topologist.dev/approved-impact": "4",
                annotation::CONVERSION_DATA: "{}", "note": "2"},
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "name": "forge",
                "uid": "c"}],
        });
        let scene = Scene::new()
            .at("KubeadmConfigTemplate smith", "/metadata", metadata)
            .at("KubeadmConfigTemplate smith", "/spec/template/metadata", json!({"labels": {"inner": ""}}))
            .at("KubeadmConfigTemplate smith", "/status", json!({"capacity": {}}));
        let template = &scene.desired().machine_deployments[0].bootstrap.object;
        let want = json!({
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfigTemplate",
            "metadata": {
                "name": template.name(), "namespace": "ns",
                "labels": {
                    "mine": "1", "cluster.x-k8s.io/cluster-name": "blade", "topology.cluster.x-k8s.io/owned": "",
                    "topology.cluster.x-k8s.io/deployment-name": "md",
                },
                "annotations": {
                    annotation::CONVERSION_DATA: "{}", "note": "2",
                    "cluster.x-k8s.io/cloned-from-name": "smith",
                    "cluster.x-k8s.io/cloned-from-groupkind": "KubeadmConfigTemplate.bootstrap.cluster.x-k8s.io",
                },
                "ownerReferences": [
                    {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "blade",
                        "uid": "uid-of-blade"},
                ],
            },
            "spec": {"template": {"metadata": {"labels": {"inner": ""}}, "spec": {"format": "cloud-config"}}},
        });
        assert_eq!(json!(template.members()), want);
    }

    #[test]
    fn a_cluster_that_no_server_has_seen_is_an_owner_without_a_uid() {
        // DS-03
        let scene = Scene::new().at("Cluster", "/metadata/uid", json!(null));
        let machines = scene.desired().control_plane.machines.unwrap().object;
        let owner = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "blade"}]);
        assert_eq!(machines.at("metadata.ownerReferences"), Some(&owner));
    }
}
