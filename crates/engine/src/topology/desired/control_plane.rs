//! The control plane.

use serde_json::{Value, json};

use super::draft::{contract_ref, labels_of_all};
use super::layers::{Layers, OptionalField as _, rfc3339};
use super::metadata::{MetadataEntry, MetadataLayers};
use super::{DesiredInputs, DesiredObject, clone, name_of, naming};
use crate::topology::contract::{contract_of, note_without_label};
use crate::topology::field_path::{self, FieldPath, MACHINE_METADATA};
use crate::topology::origin::Origin;
use crate::topology::upgrade::{ControlPlaneDecided, PlannedUpgrade};
use crate::topology::{Failure, current};
use golang::calendar;
use model::hub::contract::Contract;
use model::hub::contract::definition_name;
use model::hub::names::Names;
use model::hub::{ControlPlaneClass, ControlPlaneTopology, NameSubject, Object, group_of, paths, version_of};
use model::world::Found;

const LAYERS: Layers<'static> =
    Layers { topology_path: paths::cluster::TOPOLOGY_CONTROL_PLANE, class_path: paths::cluster_class::CONTROL_PLANE };

/// A control plane with its contract.
pub(super) struct ComputedControlPlane {
    pub(super) control_plane: DesiredObject,
    pub(super) contract: Contract,
    pub(super) assumed: bool,
    pub(super) warnings: Vec<String>,
}

/// The control plane (DS-12 to DS-21).
pub(super) fn compute<'a>(
    basis: DesiredInputs<'_>,
    machines: Option<&DesiredObject>,
    planned: PlannedUpgrade<'a>,
    names: &mut dyn Names,
) -> Result<(ComputedControlPlane, ControlPlaneDecided<'a>), Failure> {
    let (topology, class) = (&basis.blueprint.topology().control_plane, &basis.blueprint.class.spec.control_plane);
    let given = MetadataLayers {
        topology: &topology.metadata,
        class: &class.metadata,
        topology_path: LAYERS.topology_path,
        class_path: LAYERS.class_path,
    };
    let (labels, annotations) = (given.labels(), given.annotations());
    let mut object = cloned(basis, &labels, &annotations, names)?;
    let (contract, assumed) = contract_of(&object.object, basis.world)?;
    if let Some(machines) = machines {
        refer_to_machines(&mut object, &machines.object, contract, basis)?;
        add_machine_metadata(&mut object, &labels, &annotations, basis)?;
    }
    let mut warnings = add_replicas(&mut object, topology, basis)?;
    if assumed {
        warnings.extend(note_without_label(&object.object, basis.world));
    }
    add_fields_of_machines(&mut object, topology, class, contract)?;
    let decided = planned.decide_control_plane()?;
    object.set(paths::VERSION, decided.version().as_str(), Origin::Cluster(paths::cluster::TOPOLOGY_VERSION.into()))?;
    Ok((ComputedControlPlane { control_plane: object, contract, assumed, warnings }, decided))
}

/// A clone of the template of the class with the metadata of the control plane (DS-12). Like the infrastructure
/// cluster, it is not owned by the Cluster (DS-09).
fn cloned(
    basis: DesiredInputs<'_>,
    labels: &[MetadataEntry<'_>],
    annotations: &[MetadataEntry<'_>],
    names: &mut dyn Names,
) -> Result<DesiredObject, Failure> {
    let current = basis.current.control_plane.object.as_ref();
    let naming = &basis.blueprint.class.spec.control_plane.naming;
    let generated = naming::templated(&naming.template, NameSubject::Cluster, LAYERS.class_path, basis, names)?;
    let name = name_of(current).unwrap_or(generated);
    let mut object =
        clone::object(&basis.blueprint.control_plane, &name, clone::CloneMetadata { labels, annotations }, basis)?;
    object.keep_shim(current, basis)?;
    Ok(object)
}

/// Sets the reference to the template of the machines (DS-14).
fn refer_to_machines(
    object: &mut DesiredObject,
    machines: &Object,
    contract: Contract,
    basis: DesiredInputs<'_>,
) -> Result<(), Failure> {
    let path = field_path::INFRASTRUCTURE_REF.at(contract);
    let reference = match contract {
        Contract::V1Beta2 => contract_ref(machines),
        Contract::V1Beta1 => json!({
            "apiVersion": classic_version(machines, basis)?,
            "kind": machines.kind(),
            "name": machines.name(),
            "namespace": machines.namespace(),
        }),
    };
    object.set(path, reference, Origin::Topology)
}

/// The `apiVersion` of a classic reference: that of the current reference to the same kind, which a controller may have
/// raised.
fn classic_version<'a>(machines: &'a Object, basis: DesiredInputs<'a>) -> Result<&'a str, Failure> {
    let Some(control_plane) = &basis.current.control_plane.object else { return Ok(machines.api_version()) };
    let reference = current::machines_reference(control_plane, Contract::V1Beta1)?;
    let path = field_path::INFRASTRUCTURE_REF.at(Contract::V1Beta1);
    let version = control_plane.at(path).and_then(|reference| reference.get("apiVersion")?.as_str());
    let is_same = reference.api_group == machines.group() && reference.kind == machines.kind();
    Ok(version.filter(|_| is_same).unwrap_or(machines.api_version()))
}

const MACHINE_LABELS: &str = "spec.machineTemplate.metadata.labels";
const MACHINE_ANNOTATIONS: &str = "spec.machineTemplate.metadata.annotations";

/// Sets labels and annotations of the machines over those of the template; empty maps are not written (DS-15, CT-5.9,
/// CT-11.3). They are propagated to machines in place (LBL-03).
fn add_machine_metadata(
    object: &mut DesiredObject,
    labels: &[MetadataEntry<'_>],
    annotations: &[MetadataEntry<'_>],
    basis: DesiredInputs<'_>,
) -> Result<(), Failure> {
    object.overlay(MACHINE_LABELS, labels)?;
    object.overlay(MACHINE_LABELS, &labels_of_all(basis))?;
    object.overlay(MACHINE_ANNOTATIONS, annotations)?;
    let metadata = object.object.members_mut_at(MACHINE_METADATA)?;
    metadata.retain(|_, value| !value.is_null() && value.as_object().is_none_or(|map| !map.is_empty()));
    Ok(())
}

/// Sets the number of machines of the topology, if any (DS-16). If the schema of the kind has no such field, it is
/// omitted and a warning is returned (DEC-22).
fn add_replicas(
    object: &mut DesiredObject,
    topology: &ControlPlaneTopology,
    basis: DesiredInputs<'_>,
) -> Result<Vec<String>, Failure> {
    if topology.replicas.is_some() && !may_have_replicas(&object.object, basis)? {
        let path = [LAYERS.topology_path, ".replicas"].concat();
        return Ok(vec![format!("{path} is skipped because {} has no spec.replicas", object.object.kind())]);
    }
    LAYERS.set_from_topology(object, paths::REPLICAS, "replicas", &topology.replicas)?;
    Ok(Vec::new())
}

/// Whether a kind may have `spec.replicas`: without its schema, any field is possible.
fn may_have_replicas(object: &Object, basis: DesiredInputs<'_>) -> Result<bool, Failure> {
    let name = definition_name(group_of(object.api_version()), object.kind());
    let definition = match basis.world.definition(&name) {
        Found::Yes(definition) => definition,
        Found::Absent => return Ok(true),
        Found::Unreadable(reason) => return Err(Failure::Unreadable(reason)),
        Found::NotAsked => return Err(Failure::NotAsked),
    };
    let Some(schema) = definition.schemas.get(version_of(object.api_version())) else { return Ok(true) };
    let is_open = |node: &Value| node.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    let Some(spec) = schema.pointer("/properties/spec") else { return Ok(is_open(schema)) };
    Ok(is_open(schema) || is_open(spec) || spec.pointer("/properties/replicas").is_some())
}

/// Sets `rollout.after` and the fields of each machine (DS-17 to DS-19, CT-5.8, CT-11.3).
fn add_fields_of_machines(
    object: &mut DesiredObject,
    topology: &ControlPlaneTopology,
    class: &ControlPlaneClass,
    contract: Contract,
) -> Result<(), Failure> {
    LAYERS.set_from_topology(
        object,
        paths::worker::ROLLOUT_AFTER,
        "rollout.after",
        &rfc3339(&topology.rollout.after),
    )?;
    let (gates, taints) = (field_path::READINESS_GATES.at(contract), field_path::TAINTS.at(contract));
    LAYERS.set(object, gates, "readinessGates", &topology.readiness_gates, &class.readiness_gates)?;
    LAYERS.set(object, taints, "taints", &topology.taints, &class.taints)?;
    let (topology, class) = (&topology.deletion, &class.deletion);
    let mut timeout = |path: FieldPath, from: &str, topology, class| {
        let (topology, class) = (timeout(topology, contract), timeout(class, contract));
        LAYERS.set(object, path.at(contract), from, &topology, &class)
    };
    let (ours, theirs) = (topology.node_drain_timeout_seconds, class.node_drain_timeout_seconds);
    timeout(field_path::DRAIN_TIMEOUT, "deletion.nodeDrainTimeoutSeconds", ours, theirs)?;
    let (ours, theirs) = (topology.node_volume_detach_timeout_seconds, class.node_volume_detach_timeout_seconds);
    timeout(field_path::DETACH_TIMEOUT, "deletion.nodeVolumeDetachTimeoutSeconds", ours, theirs)?;
    let (ours, theirs) = (topology.node_deletion_timeout_seconds, class.node_deletion_timeout_seconds);
    timeout(field_path::DELETION_TIMEOUT, "deletion.nodeDeletionTimeoutSeconds", ours, theirs)
}

/// A timeout: whole seconds, or a duration in the older contract (DS-19).
fn timeout(seconds: Option<i32>, contract: Contract) -> Option<Value> {
    match contract {
        Contract::V1Beta2 => seconds.given(),
        Contract::V1Beta1 => seconds.map(|seconds| calendar::format_seconds(seconds.into()).into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::topology::testing::Scene;

    fn control_plane(scene: &Scene) -> DesiredObject {
        scene.desired().control_plane.control_plane
    }

    /// The scene in each contract.
    fn both() -> [(Contract, Scene); 2] {
        [(Contract::V1Beta2, Scene::new()), (Contract::V1Beta1, Scene::with_v1beta1_contract())]
    }

    #[test]
    fn the_contract_follows_from_the_version_of_the_desired_control_plane() {
        // DS-13, DEC-17, CT-3.10
        for (contract, scene) in both() {
            let computed = scene.compute().unwrap();
            assert_eq!((computed.contract, computed.assumed), (contract, true));
        }
        let name = "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io";
        let known = Scene::new().with_definition(name, &[("v1beta1", "v1beta2")], json!([]));
        let computed = known.compute().unwrap();
        assert_eq!((computed.contract, computed.assumed), (Contract::V1Beta1, false));
        let unknown = Scene::new().with_definition(name, &[("v1beta2", "v1")], json!([]));
        assert!(matches!(unknown.compute(), Err(Failure::NoContract { .. })));
    }

    #[test]
    fn metadata_of_the_topology_overrides_class_and_template() {
        // DS-12, DS-15, LBL-02, CT-11.3
        let metadata =
            |value: &str, own: &str| json!({"labels": {"a": value, own: ""}, "annotations": {"n": value, own: ""}});
        let all = json!({"labels": {"a": "t", "b": "t", "t": ""}, "annotations": {"n": "t", "t": ""}});
        let scene = Scene::new()
            .at("KubeadmControlPlaneTemplate", "/spec/template/metadata", all.clone())
            .at("KubeadmControlPlaneTemplate", "/spec/template/spec/machineTemplate", json!({"metadata": all}))
            .at("ClusterClass", "/spec/controlPlane/metadata", metadata("class", "c"))
            .at("Cluster", "/spec/topology/controlPlane", json!({"metadata": metadata("cluster", "o")}));
        let labels = json!({
            "a": "cluster", "b": "t", "t": "", "c": "", "o": "",
            "cluster.x-k8s.io/cluster-name": "blade", "topology.cluster.x-k8s.io/owned": "",
        });
        let made = control_plane(&scene);
        for (path, want) in [
            ("metadata.labels", labels.clone()),
            ("spec.machineTemplate.metadata.labels", labels),
            ("spec.machineTemplate.metadata.annotations", json!({"n": "cluster", "t": "", "c": "", "o": ""})),
        ] {
            assert_eq!(made.object.at(path), Some(&want), "{path}");
        }
        for (name, want) in [("n", "cluster"), ("t", ""), ("c", ""), ("o", "")] {
            assert_eq!(made.object.annotation(name), Some(want), "{name}");
        }
        let reserved =
            json!({"labels": {"topology.cluster.x-k8s.io/owned": "x", "cluster.x-k8s.io/cluster-name": "x"}});
        let made =
            control_plane(&Scene::new().at("Cluster", "/spec/topology/controlPlane", json!({"metadata": reserved})));
        assert_eq!(made.object.label("topology.cluster.x-k8s.io/owned"), Some(""));
        assert_eq!(made.object.label("cluster.x-k8s.io/cluster-name"), Some("blade"));
    }

    #[test]
    fn maps_of_machine_metadata_without_entries_are_not_written() {
        // DS-15, CT-5.9
        for metadata in [json!({"annotations": {}}), json!({"annotations": null}), json!({}), json!(null)] {
            let scene = Scene::new().at(
                "KubeadmControlPlaneTemplate",
                "/spec/template/spec/machineTemplate",
                json!({"metadata": metadata}),
            );
            let made = control_plane(&scene);
            let members = made.object.members_at(MACHINE_METADATA).unwrap().unwrap();
            assert_eq!(members.keys().collect::<Vec<_>>(), ["labels"], "{metadata}");
        }
        // Without machines the template has the only say.
        let metadata = json!({"metadata": {"annotations": {}}});
        let scene = Scene::new().at("ClusterClass", "/spec/controlPlane/machineInfrastructure", json!(null)).at(
            "KubeadmControlPlaneTemplate",
            "/spec/template/spec/machineTemplate",
            metadata.clone(),
        );
        assert_eq!(control_plane(&scene).object.at("spec.machineTemplate"), Some(&metadata));
    }

    #[test]
    fn the_reference_to_the_machines_has_the_form_of_the_contract() {
        // DS-14, DS-21
        for (contract, scene) in both() {
            let desired = scene.desired();
            let machines = desired.control_plane.machines.unwrap().object;
            let mut want = json!({"kind": "ForgeMachineTemplate", "name": machines.name()});
            let path = match contract {
                Contract::V1Beta2 => {
                    want["apiGroup"] = json!("infrastructure.cluster.x-k8s.io");
                    "spec.machineTemplate.spec.infrastructureRef"
                }
                Contract::V1Beta1 => {
                    want["apiVersion"] = json!("infrastructure.cluster.x-k8s.io/v1beta2");
                    want["namespace"] = json!("ns");
                    "spec.machineTemplate.infrastructureRef"
                }
            };
            assert_eq!(desired.control_plane.control_plane.object.at(path), Some(&want));
        }
    }

    #[test]
    fn a_classic_reference_keeps_the_version_that_a_controller_gave_it() {
        // DS-14
        let path = "/spec/machineTemplate/infrastructureRef/apiVersion";
        let raised = "infrastructure.cluster.x-k8s.io/v9";
        let version = |scene: &Scene| {
            let made = control_plane(scene);
            made.object.text("spec.machineTemplate.infrastructureRef.apiVersion").unwrap().unwrap().to_owned()
        };
        let scene = Scene::with_v1beta1_contract().applied().at("KubeadmControlPlane", path, json!(raised));
        assert_eq!(version(&scene), raised);
        // Another kind is another matter.
        let mut other = scene.document("KubeadmControlPlane").clone();
        other["spec"]["machineTemplate"]["infrastructureRef"]["kind"] = json!("AnvilTemplate");
        let reference = other["spec"]["machineTemplate"]["infrastructureRef"].clone();
        let anvil = json!({
            "apiVersion": raised, "kind": "AnvilTemplate",
            "metadata": {"namespace": "ns", "name": reference["name"],
                "labels": {"topology.cluster.x-k8s.io/owned": ""}},
        });
        let scene = scene.without("KubeadmControlPlane").with(other).with(anvil);
        assert_eq!(version(&scene), "infrastructure.cluster.x-k8s.io/v1beta2");
    }

    #[test]
    fn replicas_are_those_of_the_topology_or_of_the_template() {
        // DS-16
        for (topology, template, want) in [
            (json!(null), json!(null), None),
            (json!(null), json!(1), Some(json!(1))),
            (json!(3), json!(1), Some(json!(3))),
            (json!(0), json!(1), Some(json!(0))),
        ] {
            let scene = Scene::new().at("KubeadmControlPlaneTemplate", "/spec/template/spec/replicas", template).at(
                "Cluster",
                "/spec/topology/controlPlane",
                json!({"replicas": topology}),
            );
            assert_eq!(control_plane(&scene).object.at("spec.replicas"), want.as_ref());
        }
    }

    #[test]
    fn a_kind_that_has_no_replicas_gets_none() {
        // DEC-22
        let scene = Scene::new().at("Cluster", "/spec/topology/controlPlane", json!({"replicas": 3}));
        let spec = |spec| json!({"properties": {"spec": spec}});
        let open = json!({"x-kubernetes-preserve-unknown-fields": true});
        for (schema, is_written) in [
            (spec(json!({"properties": {"version": {}}})), false),
            (json!({"properties": {}}), false),
            (spec(json!({"properties": {"version": {}, "replicas": {}}})), true),
            (spec(open.clone()), true),
            (open, true),
            (json!(null), true),
        ] {
            let mut version = json!({"name": "v1beta2"});
            if !schema.is_null() {
                version["schema"] = json!({"openAPIV3Schema": schema});
            }
            let name = "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io";
            let known = scene.clone().with_definition(name, &[("v1beta2", "v1beta2")], json!([version]));
            let computed = known.compute().unwrap();
            let replicas = computed.desired.control_plane.control_plane.object.at("spec.replicas").cloned();
            assert_eq!((replicas.is_some(), computed.warnings.is_empty()), (is_written, is_written), "{schema}");
            if let [warning] = &*computed.warnings {
                let want =
                    "spec.topology.controlPlane.replicas is skipped because KubeadmControlPlane has no spec.replicas";
                assert_eq!(warning, want);
            }
        }
    }

    #[test]
    fn the_time_of_a_rollout_is_written_in_utc() {
        // DS-17
        for (_, scene) in both() {
            let rollout = json!({"rollout": {"after": "2030-01-02T03:04:05+01:00"}});
            let scene = scene.at("Cluster", "/spec/topology/controlPlane", rollout);
            assert_eq!(
                control_plane(&scene).object.at("spec.rollout"),
                Some(&json!({"after": "2030-01-02T02:04:05Z"}))
            );
        }
    }

    #[test]
    fn gates_and_taints_come_as_whole_lists() {
        // DS-18, DS-21, CT-5.8
        let gate = |name: &str| json!([{"conditionType": name, "polarity": "Negative"}]);
        let taint = |key: &str| json!([{"key": key, "effect": "NoSchedule", "propagation": "Always"}]);
        let nothing = || json!(null);
        for (contract, scene) in both() {
            let (gates, taints) = (field_path::READINESS_GATES.at(contract), field_path::TAINTS.at(contract));
            for (topology, class, template, want) in [
                (Some("t"), Some("c"), true, Some("t")),
                (None, Some("c"), true, Some("c")),
                (None, None, true, Some("p")),
                (None, None, false, None),
            ] {
                let given = |of: Option<&str>| match of {
                    Some(name) => json!({"readinessGates": gate(name), "taints": taint(name)}),
                    None => json!({}),
                };
                let mut machines = Object::default();
                if template {
                    machines.set(&gates.replace("spec.machineTemplate.", ""), gate("p")).unwrap();
                    machines.set(&taints.replace("spec.machineTemplate.", ""), taint("p")).unwrap();
                }
                let class = given(class);
                let scene = scene
                    .clone()
                    .at("KubeadmControlPlaneTemplate", "/spec/template/spec/machineTemplate", machines.into())
                    .at("ClusterClass", "/spec/controlPlane/readinessGates", class["readinessGates"].clone())
                    .at("ClusterClass", "/spec/controlPlane/taints", class["taints"].clone())
                    .at("Cluster", "/spec/topology/controlPlane", given(topology));
                let made = control_plane(&scene);
                assert_eq!(made.object.at(gates).cloned().unwrap_or_else(nothing), want.map_or_else(nothing, gate));
                assert_eq!(made.object.at(taints).cloned().unwrap_or_else(nothing), want.map_or_else(nothing, taint));
            }
        }
        // A list without entries is a list.
        let template = json!({"spec": {"taints": taint("p")}});
        let scene = Scene::new().at("KubeadmControlPlaneTemplate", "/spec/template/spec/machineTemplate", template).at(
            "Cluster",
            "/spec/topology/controlPlane",
            json!({"taints": []}),
        );
        assert_eq!(control_plane(&scene).object.at("spec.machineTemplate.spec.taints"), None);
    }

    #[test]
    fn timeouts_are_seconds_or_durations_and_independent_of_each_other() {
        // DS-19, DS-21
        let (drain, detach, deletion) =
            ("nodeDrainTimeoutSeconds", "nodeVolumeDetachTimeoutSeconds", "nodeDeletionTimeoutSeconds");
        let scene = |scene: Scene| {
            scene
                .at("ClusterClass", "/spec/controlPlane/machineInfrastructure", json!(null))
                .at("ClusterClass", "/spec/controlPlane/deletion", json!({drain: 600, detach: 90}))
                .at("Cluster", "/spec/topology/controlPlane", json!({"deletion": {drain: 0}}))
                .at("KubeadmControlPlaneTemplate", "/spec/template/spec/machineTemplate", json!({"x": 1}))
        };
        let made = control_plane(&scene(Scene::new()));
        let want = json!({"x": 1, "spec": {"deletion": {drain: 0, detach: 90}}});
        assert_eq!(made.object.at("spec.machineTemplate"), Some(&want));
        let older = scene(Scene::with_v1beta1_contract());
        let want = json!({"x": 1, "nodeDrainTimeout": "0s", "nodeVolumeDetachTimeout": "1m30s"});
        assert_eq!(control_plane(&older).object.at("spec.machineTemplate"), Some(&want));
        let older = older.at("Cluster", "/spec/topology/controlPlane/deletion", json!({deletion: 600}));
        let want = json!({
            "x": 1, "nodeDrainTimeout": "10m0s", "nodeVolumeDetachTimeout": "1m30s", "nodeDeletionTimeout": "10m0s",
        });
        assert_eq!(control_plane(&older).object.at("spec.machineTemplate"), Some(&want));
    }

    #[test]
    fn the_version_is_that_of_the_upgrade() {
        // DS-20
        let scene = Scene::new().at("KubeadmControlPlaneTemplate", "/spec/template/spec/version", json!("v1.0.0"));
        assert_eq!(control_plane(&scene).object.at("spec.version"), Some(&json!("v1.33.0")));
    }

    #[test]
    fn every_field_says_where_it_comes_from() {
        let scene = Scene::new()
            .at("ClusterClass", "/spec/controlPlane/taints", json!([{"key": "k", "effect": "NoSchedule"}]))
            .at("ClusterClass", "/spec/controlPlane/metadata", json!({"labels": {"a": "1", "x.y/a": "2"}}))
            .at(
                "Cluster",
                "/spec/topology/controlPlane",
                json!({"replicas": 3, "deletion": {"nodeDrainTimeoutSeconds": 1}}),
            );
        let made = control_plane(&scene);
        for (path, want) in [
            ("spec.kubeadmConfigSpec.format", "KubeadmControlPlaneTemplate brain"),
            ("spec.replicas", "Cluster spec.topology.controlPlane.replicas"),
            ("spec.machineTemplate.spec.taints[0].key", "ClusterClass spec.controlPlane.taints"),
            (
                "spec.machineTemplate.spec.deletion.nodeDrainTimeoutSeconds",
                "Cluster spec.topology.controlPlane.deletion.nodeDrainTimeoutSeconds",
            ),
            ("metadata.labels.a", "ClusterClass spec.controlPlane.metadata.labels.a"),
            ("spec.machineTemplate.metadata.labels.a", "ClusterClass spec.controlPlane.metadata.labels.a"),
            ("metadata.labels[x.y/a]", "ClusterClass spec.controlPlane.metadata.labels[x.y/a]"),
            ("metadata.labels[cluster.x-k8s.io/cluster-name]", "the topology itself"),
            ("metadata.name", "the topology itself"),
            ("spec.version", "Cluster spec.topology.version"),
        ] {
            assert_eq!(made.origins.decisive(path).unwrap().to_string(), want, "{path}");
        }
    }
}
