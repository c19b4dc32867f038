use serde_json::{Value, json};

use super::*;
use crate::topology::testing::Scene;

const OWNED: &str = "/metadata/labels/topology.cluster.x-k8s.io~1owned";

fn failure(scene: &Scene) -> Failure {
    scene.current().unwrap_err()
}

#[test]
fn a_new_cluster_has_no_current_objects() {
    // CS-02, CS-03, CS-09
    assert_eq!(Scene::new().current(), Ok(Current::default()));
}

#[test]
fn existing_objects_are_read() {
    // CS-01
    let health_check = json!({"checks": {"nodeStartupTimeoutSeconds": 1}});
    for scene in [Scene::new(), Scene::with_v1beta1_contract()] {
        let scene = scene
            .at("ClusterClass", "/spec/controlPlane/healthCheck", health_check.clone())
            .at("ClusterClass", "/spec/workers/machineDeployments/0/healthCheck", health_check.clone())
            .applied();
        let (current, desired) = (scene.current().unwrap(), scene.desired());
        let name = |object: &Option<Arc<Object>>| object.as_ref().map(|object| object.name().to_owned());
        let wanted = |object: &crate::topology::desired::DesiredObject| Some(object.object.name().to_owned());
        assert_eq!(name(&current.infrastructure), wanted(&desired.infrastructure));
        let (found, made) = (&current.control_plane, &desired.control_plane);
        assert_eq!(name(&found.object), wanted(&made.control_plane));
        assert_eq!(name(&found.machines), made.machines.as_ref().and_then(wanted));
        assert_eq!(name(&found.health_check), wanted(&made.control_plane), "CS-05");
        for (kind, topology_name) in [(WorkerKind::MachineDeployment, "md"), (WorkerKind::MachinePool, "mp")] {
            let (found, made) = (&current.workers(kind)[topology_name], &desired.workers(kind)[0]);
            assert_eq!(Some(found.object.name().to_owned()), wanted(&made.worker));
            assert_eq!(name(&found.bootstrap), wanted(&made.bootstrap));
            assert_eq!(name(&found.infrastructure), wanted(&made.infrastructure));
            let check = (kind == WorkerKind::MachineDeployment).then(|| found.object.name().to_owned());
            assert_eq!(name(&found.health_check), check, "CS-11");
        }
    }
}

#[test]
fn referenced_objects_must_exist() {
    // CS-02 to CS-04, CS-10, CS-12
    let made = Scene::new().applied();
    let current = made.current().unwrap();
    let (md, mp) = (&current.machine_deployments["md"], &current.machine_pools["mp"]);
    for object in [
        &current.infrastructure,
        &current.control_plane.object,
        &current.control_plane.machines,
        &md.bootstrap,
        &md.infrastructure,
        &mp.bootstrap,
        &mp.infrastructure,
    ] {
        let reference = object.as_ref().unwrap().reference();
        let which = format!("{} {}", reference.kind, reference.key.name);
        let missing = failure(&made.clone().without(&which));
        assert_eq!(missing, Failure::NotFound { what: "the referenced object", object: reference.clone() });
        let foreign = failure(&made.clone().at(&which, OWNED, json!(null)));
        assert_eq!(foreign, Failure::Foreign { object: reference.clone() }, "CS-13");
        // The value of the label means nothing.
        assert!(made.clone().at(&which, OWNED, json!("x")).current().is_ok());
    }
}

#[test]
fn below_a_control_plane_whose_class_has_no_machines_nothing_is_read() {
    // CS-04, CS-05
    let made = Scene::new().applied();
    let desired = made.desired();
    let target = desired.control_plane.control_plane.object.name();
    let check = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
        "metadata": {"namespace": "ns", "name": target},
    });
    let made = made.with(check);
    assert!(made.current().unwrap().control_plane.health_check.is_some());
    let machines = desired.control_plane.machines.unwrap().object;
    let scene = made
        .at("ClusterClass", "/spec/controlPlane/machineInfrastructure", json!(null))
        .without(&format!("ForgeMachineTemplate {}", machines.name()));
    let found = scene.current().unwrap().control_plane;
    assert!(found.object.is_some() && found.machines.is_none() && found.health_check.is_none());
}

#[test]
fn an_incomplete_reference_to_a_machine_template_is_an_error() {
    // CS-04
    for (scene, path, members) in [
        (Scene::new(), "/spec/machineTemplate/spec/infrastructureRef", &["apiGroup", "kind", "name"][..]),
        (
            Scene::with_v1beta1_contract(),
            "/spec/machineTemplate/infrastructureRef",
            &["apiVersion", "kind", "name", "namespace"],
        ),
    ] {
        let made = scene.applied();
        for member in members {
            let scene = made.clone().at("KubeadmControlPlane", &format!("{path}/{member}"), json!(null));
            assert!(matches!(failure(&scene), Failure::NoReference { .. }), "{path} {member}");
            let scene = made.clone().at("KubeadmControlPlane", &format!("{path}/{member}"), json!(1));
            assert!(matches!(failure(&scene), Failure::WrongType(_)), "{path} {member}");
        }
    }
}

#[test]
fn objects_are_read_in_the_version_of_the_template_of_their_class() {
    // CS-07
    let made = Scene::new().applied();
    let definition = "forgeclusters.infrastructure.cluster.x-k8s.io";
    // The newest version is another one, which would be unreadable here.
    let scene = made.with_definition(definition, &[("v1beta2", "v1beta2_v1")], json!([]));
    assert_eq!(
        scene.current().unwrap().infrastructure.unwrap().api_version(),
        "infrastructure.cluster.x-k8s.io/v1beta2"
    );
}

#[test]
fn objects_of_another_kind_than_the_class_makes_are_read_in_their_newest_version() {
    // CS-06, CS-07
    let made = Scene::new().applied();
    let desired = made.desired();
    let old = &desired.machine_deployments[0].bootstrap.object;
    let api_version = "bootstrap.cluster.x-k8s.io/v1";
    let other = json!({
        "apiVersion": api_version, "kind": "RakeConfigTemplate",
        "metadata": {"namespace": "ns", "name": old.name(), "labels": {"topology.cluster.x-k8s.io/owned": ""}},
    });
    let kind = "/spec/template/spec/bootstrap/configRef/kind";
    let scene = made.with(other).at("MachineDeployment", kind, json!("RakeConfigTemplate"));
    let version = |scene: &Scene| {
        let current = scene.current()?;
        Ok(current.machine_deployments["md"].bootstrap.as_ref().unwrap().api_version().to_owned())
    };
    assert_eq!(version(&scene), Ok(api_version.to_owned()), "files hold what they hold");
    let definition = "rakeconfigtemplates.bootstrap.cluster.x-k8s.io";
    let known = |labels: &[(&str, &str)]| version(&scene.clone().with_definition(definition, labels, json!([])));
    assert_eq!(known(&[("v1beta1", "v2"), ("v1beta2", "v1beta1_v1")]), Ok(api_version.to_owned()));
    assert!(matches!(known(&[("v1beta1", "v1_v2")]), Err(Failure::Unreadable(_))), "the newest is v2");
}

#[test]
fn a_definition_that_a_cluster_holds_names_the_versions_of_a_contract() {
    // CS-08, DEC-17
    let made = Scene::new().applied();
    let bootstrap = made.desired().machine_deployments[0].bootstrap.object.name().to_owned();
    let api_version = "bootstrap.cluster.x-k8s.io/v1";
    let definition = "rakeconfigtemplates.bootstrap.cluster.x-k8s.io";
    let scene = made
        .with_definition("kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", &[("v1beta2", "v1beta2")], json!([]))
        .with_definition(definition, &[], json!([]))
        .with(json!({
            "apiVersion": api_version, "kind": "RakeConfigTemplate",
            "metadata": {"namespace": "ns", "name": bootstrap, "labels": {"topology.cluster.x-k8s.io/owned": ""}},
        }))
        .at("MachineDeployment", "/spec/template/spec/bootstrap/configRef/kind", json!("RakeConfigTemplate"));
    let version = |current: Result<Current, Failure>| {
        current.map(|current| current.machine_deployments["md"].bootstrap.as_ref().unwrap().api_version().to_owned())
    };
    assert_eq!(version(scene.current()), Ok(api_version.to_owned()), "a manifest may lack the label");
    let no_version = Err(Failure::NoVersion { definition: definition.to_owned() });
    let cluster = scene.cluster();
    let (live, _) = scene.gathered(|world| Current::read(&Blueprint::read(&cluster, world)?, world));
    assert_eq!(version(live), no_version, "an API server");
    let exported = scene.at(&format!("CustomResourceDefinition {definition}"), "/metadata/uid", json!("u"));
    assert_eq!(version(exported.current()), no_version, "what was read from an API server");
}

#[test]
fn a_worker_that_was_removed_from_the_topology_is_still_read() {
    // CS-09, CS-10
    let scene = Scene::new().applied().at("Cluster", "/spec/topology/workers", json!({}));
    let current = scene.current().unwrap();
    assert!(current.machine_deployments["md"].bootstrap.is_some());
    assert!(current.machine_pools["mp"].infrastructure.is_some());
}

#[test]
fn a_worker_with_an_unknown_class_is_an_error() {
    // CS-10, CS-12
    let made = Scene::new().applied();
    for list in ["machineDeployments", "machinePools"] {
        let scene = made.clone().at("Cluster", &format!("/spec/topology/workers/{list}/0/class"), json!("nope"));
        assert!(matches!(failure(&scene), Failure::NoWorkerClass { .. }), "{list}");
    }
}

#[test]
fn workers_are_those_with_the_labels_of_the_topology() {
    // CS-09, CS-12
    let made = Scene::new().applied();
    for kind in ["MachineDeployment", "MachinePool"] {
        for (pointer, value) in [
            (OWNED, json!(null)),
            (OWNED, json!("x")),
            ("/metadata/labels/cluster.x-k8s.io~1cluster-name", json!("other")),
            ("/metadata/namespace", json!("other")),
        ] {
            let current = made.clone().at(kind, pointer, value).current().unwrap();
            let found = if kind == "MachinePool" { &current.machine_pools } else { &current.machine_deployments };
            assert!(found.is_empty(), "{kind} {pointer}");
        }
    }
}

#[test]
fn topology_names_of_workers_exist_and_are_unique() {
    // CS-09, CS-12
    let made = Scene::new().applied();
    for (kind, label) in [("MachineDeployment", label::DEPLOYMENT_NAME), ("MachinePool", label::POOL_NAME)] {
        let pointer = format!("/metadata/labels/{}", label.replace('/', "~1"));
        for value in [json!(null), json!("")] {
            let scene = made.clone().at(kind, &pointer, value);
            assert!(matches!(failure(&scene), Failure::NoTopologyName { .. }), "{kind}");
        }
        let mut twin = made.document(kind).clone();
        twin["metadata"]["name"] = json!("twin");
        let Failure::SameTopologyName { first, second, .. } = failure(&made.clone().with(twin)) else {
            panic!("two of {kind}")
        };
        assert_eq!((first.starts_with("blade-"), &*second), (true, "twin"));
    }
}

#[test]
fn incomplete_references_of_a_worker_are_an_error() {
    // CS-10, CS-12
    let made = Scene::new().applied();
    for kind in ["MachineDeployment", "MachinePool"] {
        for path in ["/spec/template/spec/bootstrap/configRef", "/spec/template/spec/infrastructureRef"] {
            for (member, value) in
                [("", json!(null)), ("/kind", json!("")), ("/name", json!(null)), ("/apiGroup", json!(null))]
            {
                let scene = made.clone().at(kind, &format!("{path}{member}"), value);
                assert!(matches!(failure(&scene), Failure::NoReference { .. }), "{kind} {path}{member}");
            }
        }
    }
}

#[test]
fn the_templates_of_a_machine_deployment_that_is_being_deleted_are_not_read() {
    // CS-10, CS-11, CS-12
    let health_check = json!({"checks": {"nodeStartupTimeoutSeconds": 1}});
    let made =
        Scene::new().at("ClusterClass", "/spec/workers/machineDeployments/0/healthCheck", health_check).applied();
    let current = made.current().unwrap();
    let deleting = |kind: &str, gone: &Option<Arc<Object>>| {
        let gone = gone.as_ref().unwrap();
        made.clone()
            .at(kind, "/metadata/deletionTimestamp", json!("2030-01-01T00:00:00Z"))
            .without(&format!("{} {}", gone.kind(), gone.name()))
            .current()
    };
    let found = deleting("MachineDeployment", &current.machine_deployments["md"].bootstrap).unwrap();
    let found = &found.machine_deployments["md"];
    assert!(found.bootstrap.is_none() && found.infrastructure.is_none() && found.health_check.is_some());
    // Odd, and established: a machine pool is not exempt.
    let found = deleting("MachinePool", &current.machine_pools["mp"].bootstrap);
    assert!(matches!(found, Err(Failure::NotFound { .. })));
}

#[test]
fn current_objects_are_requested_level_by_level() {
    let kinds = ["forgemachinetemplates.infrastructure", "kubeadmcontrolplanes.controlplane"];
    let mut scene = Scene::new().applied();
    for kind in kinds {
        let name = format!("{kind}.cluster.x-k8s.io");
        scene = scene.with_definition(&name, &[("v1beta2", "v1beta2")], Value::Null);
    }
    let cluster = scene.cluster();
    let (current, rounds) = scene.gathered(|world| Current::read(&Blueprint::read(&cluster, world)?, world));
    assert_eq!(current, scene.current());
    // Templates; objects and lists; what these refer to and the definition of the control plane; the template of its
    // machines.
    assert_eq!(rounds, 4);
}
