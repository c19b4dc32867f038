use serde_json::{Value, json};

use super::*;
use crate::topology::testing::Scene;

fn failure(scene: &Scene) -> String {
    scene.blueprint().unwrap_err().to_string()
}

#[test]
fn the_class_is_looked_up_by_its_name_and_namespace() {
    // BP-01
    assert_eq!(Scene::new().blueprint().unwrap().class.metadata.key(), ObjectKey::new("ns", "forge"));
    let elsewhere = Scene::new().at("Cluster", "/spec/topology/classRef/namespace", json!("other"));
    assert_eq!(elsewhere.blueprint(), Err(Failure::NoClass(ObjectKey::new("other", "forge"))));
    let mut class = Scene::new().document("ClusterClass").clone();
    class["metadata"]["namespace"] = json!("other");
    // The templates are those of the namespace of the class (BP-07).
    let missing = failure(&elsewhere.clone().with(class.clone()));
    assert_eq!(missing, "the template ForgeClusterTemplate other/ground was not found");
    let everything = elsewhere.without("Cluster").at("ClusterClass", "/metadata/name", json!("unused"));
    let mut cluster = Scene::new().document("Cluster").clone();
    cluster["spec"]["topology"]["classRef"]["namespace"] = json!("other");
    let mut everything = everything.with(class);
    for kind in [
        "ForgeClusterTemplate",
        "KubeadmControlPlaneTemplate",
        "ForgeMachineTemplate",
        "KubeadmConfigTemplate",
        "ForgeMachinePoolTemplate",
    ] {
        everything = everything.at(kind, "/metadata/namespace", json!("other"));
    }
    let blueprint = everything.with(cluster).blueprint().unwrap();
    assert_eq!(blueprint.class.metadata.key(), ObjectKey::new("other", "forge"));
    assert_eq!(blueprint.infrastructure.namespace(), "other");
}

#[test]
fn a_class_is_used_once_it_is_ready() {
    // BP-02
    let condition = |status: &str| json!([{"type": "VariablesReady", "status": status, "message": "conflict"}]);
    for (status, want) in [
        (json!({"observedGeneration": 1, "conditions": condition("True")}), None),
        (json!({"observedGeneration": 1, "conditions": condition("Unknown")}), None),
        (
            json!({"observedGeneration": 1, "conditions": condition("False")}),
            Some("its VariablesReady condition is False: conflict"),
        ),
        (json!({"observedGeneration": 1}), Some("it has no VariablesReady condition yet")),
        (json!({}), Some("it has no VariablesReady condition yet")),
        (
            json!({"observedGeneration": 3, "conditions": condition("True")}),
            Some("its generation 1 is not reconciled yet; the last reconciled generation is 3"),
        ),
        (
            json!({"conditions": condition("True")}),
            Some("its generation 1 is not reconciled yet; the last reconciled generation is 0"),
        ),
        (
            json!({"conditions": [
                {"type": "VariablesReady", "status": "True"},
                {"type": "RefVersionsUpToDate", "status": "Unknown", "message": "there is no such kind",
                    "observedGeneration": 1},
            ]}),
            Some("its generation 1 is not reconciled yet; the last reconciled generation is 0: there is no such kind"),
        ),
        (
            json!({"conditions": [
                {"type": "VariablesReady", "status": "True"},
                {"type": "RefVersionsUpToDate", "status": "Unknown", "message": "of before", "observedGeneration": 0},
            ]}),
            Some("its generation 1 is not reconciled yet; the last reconciled generation is 0"),
        ),
    ] {
        let scene = Scene::new().at("ClusterClass", "/status", status.clone());
        let found = scene.blueprint().map(|_| ()).map_err(|failure| failure.to_string());
        let want = want.map_or(Ok(()), |want| Err(format!("ClusterClass ns/forge is not ready: {want}")));
        assert_eq!(found, want, "{status}");
    }
    // Nothing else is looked at before (BP-02, BP-07).
    let scene = Scene::new().at("ClusterClass", "/status", json!({})).without("ForgeClusterTemplate");
    assert!(matches!(scene.blueprint(), Err(Failure::ClassNotReady { .. })));
}

/// A class with variables in its status; those of the spec are others.
fn with_variables() -> Scene {
    let definition =
        |schema: Value| json!({"from": "inline", "required": false, "schema": {"openAPIV3Schema": schema}});
    let disk = json!({
        "type": "object",
        "properties": {"size": {"type": "integer", "default": 20, "minimum": 1}, "kind": {"type": "string"}},
    });
    let zone = json!({"type": "string", "default": "a"});
    Scene::new()
        .at(
            "ClusterClass",
            "/spec/variables",
            json!([{"name": "other", "schema": {"openAPIV3Schema": {"type": "string"}}}]),
        )
        .at(
            "ClusterClass",
            "/status/variables",
            json!([
                {"name": "disk", "definitions": [definition(disk)]},
                {"name": "zone", "definitions": [definition(zone)]},
            ]),
        )
}

fn shown(values: &[VariableValue]) -> Vec<String> {
    let value = |one: &VariableValue| one.value.as_ref().map_or("none".to_owned(), |value| value.get().to_owned());
    values.iter().map(|one| format!("{}={}", one.name, value(one))).collect()
}

#[test]
fn variables_are_completed_by_the_status_of_the_class() {
    // BP-03 to BP-05
    let of = |name: &str, value: Value| json!({"name": name, "value": value});
    let overrides = |values: Value| json!({"overrides": values});
    let scene = with_variables()
        .at("Cluster", "/spec/topology/variables", json!([of("disk", json!({"kind": "fast"}))]))
        .at("Cluster", "/spec/topology/controlPlane", json!({"variables": overrides(json!([of("disk", json!({}))]))}))
        .at("Cluster", "/spec/topology/workers/machineDeployments/0/variables", overrides(json!([])))
        .at(
            "Cluster",
            "/spec/topology/workers/machinePools/0/variables",
            overrides(json!([of("zone", json!("b")), of("disk", json!({"size": 5}))])),
        );
    let blueprint = scene.blueprint().unwrap();
    let topology = blueprint.topology();
    assert_eq!(shown(&topology.variables), [r#"disk={"kind":"fast","size":20}"#, r#"zone="a""#]);
    assert_eq!(shown(&topology.control_plane.variables.overrides), [r#"disk={"size":20}"#], "nothing is added");
    let workers = &topology.workers;
    let overrides = &workers.machine_deployments[0].variables.overrides;
    assert!(overrides.is_present() && overrides.is_empty(), "an empty list stays");
    assert_eq!(shown(&workers.machine_pools[0].variables.overrides), [r#"zone="b""#, r#"disk={"size":5}"#]);
    let without = with_variables().blueprint().unwrap();
    assert_eq!(shown(&without.topology().variables), [r#"zone="a""#], "nothing without a default of its own");
}

#[test]
fn all_invalid_variables_are_reported_together() {
    // BP-03, BP-06
    let of = |name: &str, value: Value| json!([{"name": name, "value": value}]);
    let overrides = |values: Value| json!({"overrides": values});
    let scene = with_variables()
        .at("Cluster", "/spec/topology/variables", of("disk", json!({"size": 0})))
        .at("Cluster", "/spec/topology/controlPlane", json!({"variables": overrides(of("other", json!("x")))}))
        .at("Cluster", "/spec/topology/workers/machineDeployments/0/variables", overrides(of("disk", json!({"x": 1}))))
        .at("Cluster", "/spec/topology/workers/machinePools/0/variables", overrides(of("zone", json!(1))));
    let Err(Failure::InvalidCluster(errors)) = scene.blueprint() else { panic!("the variables do not fit") };
    let paths: Vec<_> = errors.iter().map(|error| error.path.to_string()).collect();
    assert_eq!(
        paths,
        [
            "spec.topology.variables[disk].value.size",
            "spec.topology.controlPlane.variables.overrides[other]",
            "spec.topology.workers.machineDeployments[md].variables.overrides[disk]",
            "spec.topology.workers.machinePools[mp].variables.overrides[zone].value",
        ]
    );
    // The class is ready and the templates do not matter yet (BP-03).
    assert!(matches!(scene.without("ForgeClusterTemplate").blueprint(), Err(Failure::InvalidCluster(_))));
}

#[test]
fn values_beyond_the_budget_that_are_stored_are_still_used() {
    // DEC-44: each keeps its own, and admission warns of the sum.
    let rule = json!([{"rule": "self.all(a, self.all(b, a <= b || a > b))"}]);
    let schema = json!({"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": rule});
    let names: Vec<String> = (0..20).map(|number| format!("v{number}")).collect();
    let numbers: Vec<u32> = (0..340).collect();
    let variable = |name: &String| json!({"name": name, "definitions": [{"schema": {"openAPIV3Schema": schema}}]});
    let value = |name: &String| json!({"name": name, "value": numbers});
    let scene = with_variables().at("ClusterClass", "/status/variables", names.iter().map(variable).collect()).at(
        "Cluster",
        "/spec/topology/variables",
        names.iter().map(value).collect(),
    );
    let blueprint = scene.blueprint();
    assert!(blueprint.is_ok(), "{:?}", blueprint.err());
}

#[test]
fn every_template_of_the_class_has_to_be_there() {
    // BP-07
    for which in [
        "ForgeClusterTemplate ground",
        "KubeadmControlPlaneTemplate brain",
        "ForgeMachineTemplate brain",
        "ForgeMachineTemplate smith",
        "KubeadmConfigTemplate smith",
        "ForgeMachinePoolTemplate crew",
        "KubeadmConfigTemplate crew",
    ] {
        let (kind, name) = which.split_once(' ').unwrap();
        // Also where no worker uses the class.
        let scene = Scene::without_workers().without(which);
        assert_eq!(failure(&scene), format!("the template {kind} ns/{name} was not found"));
    }
    let all = |scene: Scene| {
        scene.without("ForgeMachineTemplate").without("KubeadmConfigTemplate").without("ForgeMachinePoolTemplate")
    };
    assert!(failure(&all(Scene::new())).contains("ForgeMachineTemplate ns/brain"), "in this order");
}

#[test]
fn templates_are_read_in_the_version_of_the_reference() {
    // BP-07
    let other = "infrastructure.cluster.x-k8s.io/v1";
    let scene = Scene::new().at("ForgeClusterTemplate", "/apiVersion", json!(other));
    assert!(matches!(scene.blueprint(), Err(Failure::Unreadable(_))));
    let scene = scene.at("ClusterClass", "/spec/infrastructure/templateRef/apiVersion", json!(other));
    assert_eq!(scene.blueprint().unwrap().infrastructure.api_version(), other);
}

#[test]
fn a_blueprint_contains_every_worker_class_by_name() {
    // BP-08
    let blueprint = Scene::new().blueprint().unwrap();
    assert_eq!(blueprint.control_plane_machines.as_ref().unwrap().name(), "brain");
    let of = |kind, class: &str| {
        let templates = blueprint.templates(kind, "w", class)?;
        Ok::<_, Failure>((templates.infrastructure.kind().to_owned(), templates.bootstrap.name().to_owned()))
    };
    assert_eq!(of(WorkerKind::MachineDeployment, "smith"), Ok(("ForgeMachineTemplate".into(), "smith".into())));
    assert_eq!(of(WorkerKind::MachinePool, "crew"), Ok(("ForgeMachinePoolTemplate".into(), "crew".into())));
    assert!(matches!(of(WorkerKind::MachinePool, "smith"), Err(Failure::NoWorkerClass { .. })));
    let without = Scene::new().at("ClusterClass", "/spec/controlPlane/machineInfrastructure", json!(null));
    assert_eq!(without.blueprint().unwrap().control_plane_machines, None);
}

#[test]
fn all_templates_are_asked_for_in_one_round() {
    let scene = Scene::new();
    let cluster = scene.cluster();
    let (blueprint, rounds) = scene.gathered(|world| Blueprint::read(&cluster, world));
    assert_eq!((blueprint, rounds), (scene.blueprint(), 1));
}
