//! Topologies and classes that chance puts together, patches included.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Map, Value, json};

use std::sync::Arc;

use super::super::Rollout;
use super::{SIZE, SMITH, blade, change, edited, edits};
use crate::topology::testing::Scene;
use model::hub::{Object, annotation};

const VERSIONS: [&str; 5] = ["v1.31.0", "v1.31.4", "v1.32.1", "v1.33.0", "v1.34.2"];

/// A definition of a patch for templates of a kind in a use.
fn definition(kind: &str, resources: Value, operations: Value) -> Value {
    let group = match kind {
        "KubeadmConfigTemplate" => "bootstrap",
        "KubeadmControlPlaneTemplate" => "controlplane",
        _ => "infrastructure",
    };
    let api_version = format!("{group}.cluster.x-k8s.io/v1beta2");
    let selector = json!({"apiVersion": api_version, "kind": kind, "matchResources": resources});
    json!({"selector": selector, "jsonPatches": operations})
}

fn add(path: &str, source: Value) -> Value {
    let mut operation = Map::from_iter([("op".to_owned(), json!("add")), ("path".to_owned(), json!(path))]);
    operation.extend(source.as_object().unwrap().clone());
    Value::Object(operation)
}

fn variable(name: &str) -> Value {
    json!({"valueFrom": {"variable": name}})
}

fn template(text: &str) -> Value {
    json!({"valueFrom": {"template": text}})
}

/// Typical patches of versions, variables and names; none inserts a name into the object with this name.
fn patches() -> impl Strategy<Value = Vec<Value>> {
    let (workers, control_plane) =
        (json!({"machineDeploymentClass": {"names": ["sm*"]}}), json!({"controlPlane": true}));
    let (pools, cluster) = (json!({"machinePoolClass": {"names": ["*"]}}), json!({"infrastructureCluster": true}));
    let spec = |member: &str| format!("/spec/template/spec/{member}");
    let (machine, bootstrap) = ("ForgeMachineTemplate", "KubeadmConfigTemplate");
    let all = [
        definition(machine, workers.clone(), json!([add(&spec("size"), variable("size"))])),
        definition(
            machine,
            workers.clone(),
            json!([add(&spec("image"), variable("builtin.machineDeployment.version"))]),
        ),
        definition(
            machine,
            control_plane.clone(),
            json!([add(&spec("image"), variable("builtin.controlPlane.version"))]),
        ),
        definition(machine, control_plane.clone(), json!([{"op": "remove", "path": spec("size")}])),
        definition(
            bootstrap,
            workers.clone(),
            json!([
                add(&spec("machine"), variable("builtin.machineDeployment.infrastructureRef.name")),
                add(
                    &spec("of"),
                    template("{{ .builtin.machineDeployment.topologyName }} of {{ .builtin.machineDeployment.name }}")
                ),
            ]),
        ),
        definition(
            bootstrap,
            workers,
            json!([
                add("/spec/template/metadata", json!({"value": {"labels": {"patched": "yes"}}})),
                add(
                    &spec("files"),
                    template("[{path: /etc/{{ .size }}, content: {{ .builtin.cluster.topology.version }}}]")
                ),
            ]),
        ),
        definition(
            bootstrap,
            pools.clone(),
            json!([add(&spec("pool"), variable("builtin.machinePool.bootstrap.configRef.name"))]),
        ),
        definition("ForgeMachinePoolTemplate", pools, json!([add(&spec("size"), variable("size"))])),
        definition(
            "ForgeClusterTemplate",
            cluster.clone(),
            json!([
                add(&spec("version"), variable("builtin.cluster.topology.version")),
                add("/spec/template/metadata", json!({"value": {"annotations": {"patched": "yes"}}})),
            ]),
        ),
        // What is only there during an upgrade is visible as well (BV-04).
        definition(
            "ForgeClusterTemplate",
            cluster,
            json!([add(&spec("marks"), template("{{ .builtin.cluster.metadata.annotations | toJson | quote }}")),]),
        ),
        definition(
            "KubeadmControlPlaneTemplate",
            control_plane,
            json!([
                add(&spec("kubeadmConfigSpec/files"), json!({"value": [{"path": "/a"}]})),
                add(&spec("kubeadmConfigSpec/files/-"), template("path: /etc/{{ .builtin.controlPlane.version }}")),
                {"op": "replace", "path": spec("kubeadmConfigSpec/format"), "value": "ignition"},
            ]),
        ),
    ];
    let enabled = select(vec!["", "true", "{{ eq .size \"huge\" }}", "false"]);
    (subsequence(all.to_vec(), 0..=all.len()), proptest::collection::vec(enabled, all.len())).prop_map(
        |(chosen, enabled)| {
            let patch = |(at, (definition, enabled)): (usize, (Value, &str))| {
                json!({"name": format!("p{at}"), "enabledIf": enabled, "definitions": [definition]})
            };
            chosen.into_iter().zip(enabled).enumerate().map(patch).collect()
        },
    )
}

/// A worker with all fields that a topology may set.
fn worker(name: &'static str, class: &'static str) -> impl Strategy<Value = Value> {
    let members = vec![
        ("replicas", json!(3)),
        ("metadata", json!({"labels": {"team": "red"}, "annotations": {"note": "n"}})),
        ("minReadySeconds", json!(9)),
        ("deletion", json!({"nodeDrainTimeoutSeconds": 5})),
        ("variables", json!({"overrides": [{"name": "size", "value": "huge"}]})),
        ("taints", json!([{"key": "a", "effect": "NoSchedule", "propagation": "Always"}])),
    ];
    subsequence(members.clone(), 0..=members.len()).prop_map(move |members| {
        let mut worker = Map::from_iter([("name".to_owned(), json!(name)), ("class".to_owned(), json!(class))]);
        worker.extend(members.into_iter().map(|(name, value)| (name.to_owned(), value)));
        Value::Object(worker)
    })
}

fn chosen(workers: Vec<BoxedStrategy<Value>>) -> impl Strategy<Value = Vec<Value>> {
    let count = workers.len();
    workers.prop_flat_map(move |workers| subsequence(workers, 0..=count).prop_shuffle())
}

/// The status of a class with the variable `size`.
fn size_variable() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "string", "default": "medium"}});
    let definition = json!({"from": "inline", "required": false, "schema": schema});
    json!([{"name": "size", "definitionsConflict": false, "definitions": [definition]}])
}

/// A Cluster, its class and its templates.
fn scenes() -> impl Strategy<Value = (Scene, usize)> {
    let deployments = ["a", "b", "c"].map(|name| worker(name, "smith").boxed()).to_vec();
    let pools = ["p", "q"].map(|name| worker(name, "crew").boxed()).to_vec();
    let of_cluster = (chosen(deployments), chosen(pools), 0..VERSIONS.len(), proptest::option::of(1_u8..6), 1_u8..3);
    (of_cluster, patches(), edits(), proptest::option::of(select(vec!["small", "huge"]))).prop_map(
        |((deployments, pools, version, replicas, limit), patches, edits, size)| {
            // Edits of workers would be about others.
            let edits: Vec<_> = edits.into_iter().filter(|(_, at, _)| !at.contains("topology/workers")).collect();
            let size: Vec<Value> = size.into_iter().map(|size| json!({"name": "size", "value": size})).collect();
            let scene = edited(&edits)
                .at("ClusterClass", "/spec/kubernetesVersions", json!(VERSIONS))
                .at("ClusterClass", "/spec/patches", json!(patches))
                .at("ClusterClass", "/status/variables", size_variable())
                .at(
                    "Cluster",
                    "/metadata/annotations",
                    json!({"topology.cluster.x-k8s.io/upgrade-concurrency": limit.to_string()}),
                )
                .at("Cluster", "/spec/topology/version", json!(VERSIONS[version]))
                .at("Cluster", "/spec/topology/variables", json!(size))
                .at(
                    "Cluster",
                    "/spec/topology/workers",
                    json!({"machineDeployments": deployments, "machinePools": pools}),
                );
            let scene = match replicas {
                Some(replicas) => scene.at("Cluster", "/spec/topology/controlPlane/replicas", json!(replicas)),
                None => scene,
            };
            (scene, version)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// RS-39, PE-32, DEC-12: planning twice is the same, a plan after the plan is empty, and everything has the version
    /// of the topology then.
    #[test]
    fn rollouts_with_patches_are_repeatable_and_finish(one in scenes(), other in scenes()) {
        // Versions do not fall.
        let (before, after) = if one.1 <= other.1 { (one, other) } else { (other, one) };
        let outcome = change(&before.0, &after.0);
        prop_assert_eq!(&outcome.failure, &None);
        prop_assert_eq!(&outcome.held, &[]);
        let again = change(&before.0, &after.0);
        prop_assert_eq!(&outcome.rounds, &again.rounds);
        let shuffled = change(&before.0.clone().shuffled(7), &after.0.clone().shuffled(11));
        prop_assert_eq!(&outcome.rounds, &shuffled.rounds);
        let mut old = before.0.simulator();
        old.roll_out(&blade());
        let mut new = after.0.simulator();
        new.take_over(&blade(), &old);
        new.roll_out(&blade());
        let last = new.roll_out(&blade());
        prop_assert_eq!(&last.rounds, &[]);
        let version = json!(VERSIONS[after.1]);
        for object in new.objects_of(&blade()) {
            let path = match object.kind() {
                "KubeadmControlPlane" => "spec.version",
                "MachineDeployment" | "MachinePool" => "spec.template.spec.version",
                _ => continue,
            };
            prop_assert_eq!(object.at(path), Some(&version), "{}", object.name());
        }
    }

    /// UP-32, UP-41: one plan for workers that upgrade one after the other has the same steps as a plan for each of
    /// them.
    #[test]
    fn upgrades_planned_ahead_are_those_planned_one_by_one(
        one in scenes(), other in scenes(), deferred in proptest::option::of((0_usize..3, any::<bool>())), hooks in any::<bool>(),
    ) {
        let (before, after) = if one.1 <= other.1 { (one.0, other.0) } else { (other.0, one.0) };
        let after = match deferred {
            Some((at, holds)) => defer(after, at, holds),
            None => after,
        };
        let [(ahead, objects), (each, want)] = [false, true].map(|one_by_one| upgraded(&before, &after, hooks, one_by_one));
        prop_assert_eq!(&ahead.rounds, &each.rounds);
        prop_assert_eq!((&ahead.held, &ahead.failure), (&each.held, &each.failure));
        prop_assert_eq!((&ahead.notes, &ahead.warnings), (&each.notes, &each.warnings));
        prop_assert_eq!(&ahead.tracker, &each.tracker);
        prop_assert_eq!(objects, want);
    }

    /// BP-14: what admission keeps out ends in an error or in a plan, and never in a panic.
    #[test]
    fn objects_that_admission_would_deny_cause_no_panic(wrong in subsequence(nonsense(), 1..=4), is_new in any::<bool>()) {
        let scene = wrong.into_iter().fold(Scene::new(), |scene, (which, at, value)| scene.at(which, at, value));
        let outcome = if is_new { scene.simulator().roll_out(&blade()) } else { change(&Scene::new(), &scene) };
        if let Some(failure) = outcome.failure {
            prop_assert!(!failure.to_string().is_empty());
        }
    }
}

/// The rollout from one scene to the other, and the objects after it.
fn upgraded(before: &Scene, after: &Scene, hooks: bool, is_one_by_one: bool) -> (Rollout, Vec<Arc<Object>>) {
    let [mut old, mut new] =
        [before, after].map(|scene| if hooks { scene.simulator_with_hooks() } else { scene.simulator() });
    old.roll_out(&blade());
    new.is_one_by_one = is_one_by_one;
    new.take_over(&blade(), &old);
    let outcome = new.roll_out(&blade());
    (outcome, new.objects_of(&blade()))
}

/// UP-32: a patch that reads the name of a rotated template rotates another one before the next worker upgrades.
#[test]
fn names_of_rotated_templates_reach_a_worker_before_the_next_one_upgrades() {
    // The patch leaves the first worker alone.
    let overrides = json!({"overrides": [{"name": "size", "value": "huge"}]});
    let workers = json!([
        {"name": "a", "class": "smith", "replicas": 2},
        {"name": "b", "class": "smith", "replicas": 2, "variables": overrides},
        {"name": "c", "class": "smith", "replicas": 2, "variables": overrides},
    ]);
    for name in ["builtin.machineDeployment.infrastructureRef.name", "builtin.machineDeployment.infrastructureRef"] {
        let operations = |value| json!([add("/spec/template/spec/note", value)]);
        let smiths = json!({"machineDeploymentClass": {"names": ["smith"]}});
        let image = operations(variable("builtin.machineDeployment.version"));
        let of_name = operations(template(&format!("{{{{ .{name} | toJson | quote }}}}")));
        let patch = json!([{"name": "p", "enabledIf": "{{ eq .size \"huge\" }}", "definitions": [
            definition("ForgeMachineTemplate", smiths.clone(), image),
            definition("KubeadmConfigTemplate", smiths, of_name),
        ]}]);
        let scene = |version: &str| {
            Scene::new()
                .at("ClusterClass", "/spec/kubernetesVersions", json!(VERSIONS))
                .at("ClusterClass", "/spec/patches", patch.clone())
                .at("ClusterClass", "/status/variables", size_variable())
                .at("Cluster", "/spec/topology/version", json!(version))
                .at("Cluster", "/spec/topology/workers", json!({"machineDeployments": workers}))
        };
        let (before, after) = (scene(VERSIONS[0]), scene(VERSIONS[1]));
        let [(ahead, objects), (each, want)] =
            [false, true].map(|one_by_one| upgraded(&before, &after, false, one_by_one));
        assert_eq!(each.failure, None);
        assert_eq!(ahead.rounds, each.rounds, "{name}");
        assert_eq!(objects, want, "{name}");
    }
}

/// The machine deployment at a position is deferred, or holds those that follow, if there is one.
fn defer(scene: Scene, at: usize, holds: bool) -> Scene {
    let place = format!("/spec/topology/workers/machineDeployments/{at}");
    if scene.document("Cluster").pointer(&place).is_none() {
        return scene;
    }
    let name = if holds { annotation::HOLD_UPGRADE_SEQUENCE } else { annotation::DEFER_UPGRADE };
    scene.at("Cluster", &format!("{place}/metadata"), json!({"annotations": {name: ""}}))
}

/// What no admitted Cluster or class holds.
fn nonsense() -> Vec<(&'static str, &'static str, Value)> {
    let workers = "/spec/topology/workers";
    let patch = |patch: Value| ("ClusterClass", "/spec/patches", json!([patch]));
    let definition = |selector: Value, operations: Value| {
        let definition = json!({"selector": selector, "jsonPatches": operations});
        patch(json!({"name": "p", "definitions": [definition]}))
    };
    let any = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "ForgeMachineTemplate",
        "matchResources": {"controlPlane": true, "machineDeploymentClass": {"names": ["*", "a*b*", ""]}}});
    vec![
        ("Cluster", "/spec/topology/version", json!("nonsense")),
        ("Cluster", "/spec/topology/version", json!("")),
        ("Cluster", "/spec/topology/version", json!("v1.99.0")),
        ("Cluster", "/spec/topology/version", json!("v1.2.3")),
        ("Cluster", "/spec/topology/classRef/name", json!("")),
        ("Cluster", "/spec/topology/classRef/namespace", json!("elsewhere")),
        ("Cluster", "/metadata/annotations", json!({"topology.cluster.x-k8s.io/upgrade-concurrency": "-9"})),
        (
            "Cluster",
            workers,
            json!({"machineDeployments": [{"name": "md", "class": "smith"}, {"name": "md", "class": "smith"}]}),
        ),
        ("Cluster", workers, json!({"machineDeployments": [{"name": "", "class": ""}]})),
        ("Cluster", workers, json!({"machinePools": [{"name": "mp", "class": "nobody"}]})),
        ("Cluster", "/spec/topology/variables", json!([{"name": "x", "value": null}, {"name": "x"}])),
        ("Cluster", "/spec/topology/controlPlane/replicas", json!(-1)),
        ("Cluster", "/spec/topology/controlPlane/rollout", json!({"after": "tomorrow"})),
        ("Cluster", "/spec/topology/controlPlane/deletion", json!({"nodeDrainTimeoutSeconds": i32::MIN})),
        ("ClusterClass", "/spec/kubernetesVersions", json!(["v1.33.0", "junk", "v1.31.0", ""])),
        ("ClusterClass", "/spec/infrastructure/naming", json!({"template": "{{"})),
        ("ClusterClass", "/spec/controlPlane/naming", json!({"template": "{{ .cluster.name.x }}"})),
        (
            "ClusterClass",
            "/spec/workers/machineDeployments/0/rollout",
            json!({"strategy": {"type": "?",
            "rollingUpdate": {"maxSurge": "many", "maxUnavailable": -7}}}),
        ),
        ("ClusterClass", "/spec/workers/machineDeployments", json!([])),
        ("ClusterClass", "/spec/controlPlane/machineInfrastructure", json!(null)),
        ("ClusterClass", "/spec/infrastructure/templateRef", json!({})),
        ("ClusterClass", "/status/observedGeneration", json!(7)),
        // The inner before the outer, so that both can be set.
        (SMITH, SIZE, json!([{"deep": [[[1e300]]]}])),
        (SMITH, "/spec/template", json!("text")),
        (SMITH, "/spec", json!(null)),
        ("KubeadmControlPlaneTemplate", "/spec/template/spec", json!([1])),
        ("ForgeClusterTemplate", "/metadata/labels", json!({"a": 1})),
        ("ForgeClusterTemplate", "/spec/template/spec/controlPlaneEndpoint", json!({"host": 7, "port": "x"})),
        patch(json!({"name": ""})),
        patch(json!({"name": "p", "external": {}})),
        patch(json!({"name": "p", "enabledIf": "{{ .nope.x }}", "definitions": [{}]})),
        definition(json!({}), json!([{"op": "frobnicate"}])),
        definition(any.clone(), json!([{"op": "remove", "path": ""}])),
        definition(any.clone(), json!([{"op": "add", "path": "x", "value": 1}])),
        definition(any.clone(), json!([{"op": "add", "path": "/spec/template/spec/a/b", "valueFrom": {}}])),
        definition(any, json!([{"op": "add", "path": "/spec/~9", "valueFrom": {"variable": "builtin.[]]x[["}}])),
    ]
}
