//! A Cluster that is planned again and again, with machines that lag until a test moves them.

use serde_json::{Value, json};

use super::super::*;
use super::blade;
use crate::topology::hooks::DeletionGuard;
use crate::topology::status::{ReconcileOutcome, topology_reconciled};
use crate::topology::testing::Scene;
use golang::version::VersionText;
use model::hub::{Cluster, annotation, label};
use model::world::{Found, Record};

pub(super) const V31: &str = "v1.31.0";
pub(super) const V32: &str = "v1.32.0";
pub(super) const V33: &str = "v1.33.0";

/// The Cluster of the worked upgrade: machine deployments `md-a`, `md-b` and `md-c` with two Machines each, all of it
/// at v1.31.0 and at rest. Images follow the version of their part.
pub(super) struct Walk {
    scene: Scene,
    pub(super) fold: TopologySimulator,
}

/// What a plan goes by, what it does, and what is there once it is written.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) steps: Vec<PlanStep>,
    /// Versions without what they share: `32`.
    pub(super) control_plane: String,
    /// `31 31 31`.
    pub(super) deployments: String,
    /// `32 33 / 33`: of the control plane, and of its workers.
    pub(super) plans: String,
    /// The hooks that are pending.
    pub(super) marks: String,
    /// The annotation of the step.
    pub(super) step: String,
    /// The condition: `True`, or its message.
    pub(super) condition: String,
    pub(super) requeue_after_seconds: Option<u32>,
}

impl Walk {
    pub(super) fn new() -> Self {
        let names = ["md-a", "md-b", "md-c"];
        let deployments: Vec<Value> =
            names.iter().map(|name| json!({"name": name, "class": "smith", "replicas": 2})).collect();
        let mut scene = Scene::new()
            .at("ClusterClass", "/spec/kubernetesVersions", json!([V31, V32, V33]))
            .at("ClusterClass", "/spec/patches", json!([images()]))
            .at("Cluster", "/spec/topology/version", json!(V31))
            .at("Cluster", "/spec/topology/workers", json!({"machineDeployments": deployments}))
            .at("Cluster", "/status/conditions", json!([{"type": "ControlPlaneInitialized", "status": "True"}]));
        for name in names {
            for index in 0..2 {
                scene = scene.with(json!({
                    "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                    "metadata": {"namespace": "ns", "name": format!("{name}-{index}"), "labels": {
                        label::CLUSTER_NAME: "blade", label::OWNED: "", label::DEPLOYMENT_NAME: name}},
                    "spec": {"version": V31},
                }));
            }
        }
        let mut fold = scene.simulator_with_hooks();
        assert_eq!(fold.roll_out(&blade()).failure, None);
        Walk { scene, fold }
    }

    /// Changes a document as a user would; everything else is as it has become.
    pub(super) fn edit(&mut self, which: &str, pointer: &str, value: Value) {
        self.scene = self.scene.clone().at(which, pointer, value);
        let mut fold = self.scene.simulator_with_hooks();
        fold.take_over(&blade(), &self.fold);
        let mut cluster = Cluster::clone(&cluster(&fold));
        cluster.metadata.annotations = self.cluster().metadata.annotations.clone();
        fold.facts_mut().put_cluster(blade(), Record::readable(cluster));
        for machine in self.objects("Machine") {
            fold.facts_mut().objects_mut().unwrap().put(machine);
        }
        self.fold = fold;
    }

    /// Plans once and writes what is planned; no provider and no machine follows.
    pub(super) fn plan(&mut self) -> Row {
        let computed = self.fold.compute(&blade()).unwrap();
        let tracker = &computed.tracker;
        let run = ReconcileOutcome {
            cluster: &computed.observed.blueprint.cluster,
            class: None,
            tracker,
            error: None,
            is_too_large: false,
            guard: DeletionGuard::default(),
        };
        let reconciled = topology_reconciled(&run);
        let condition = if reconciled.is_true { "True".to_owned() } else { reconciled.message };
        let plan = self.fold.plan(&blade(), &mut Rollout::default()).unwrap();
        plan.steps.iter().for_each(|step| self.fold.write(&blade(), step).unwrap());
        let annotations = self.cluster().metadata.annotations.to_map();
        let annotation = |name: &str| annotations.get(name).cloned().unwrap_or_default();
        let short =
            |plan: &[VersionText]| plan.iter().map(|version| minor(version.as_str())).collect::<Vec<_>>().join(" ");
        let plans = format!("{} / {}", short(&tracker.control_plane.plan), short(&tracker.machine_deployments.plan));
        let version = |object: &Object, path: &str| minor(object.text(path).unwrap().unwrap_or_default());
        let deployments = self.objects("MachineDeployment");
        let deployments: Vec<_> =
            deployments.iter().map(|object| version(object, "spec.template.spec.version")).collect();
        Row {
            steps: plan.steps,
            control_plane: version(&self.objects("KubeadmControlPlane")[0], "spec.version"),
            deployments: deployments.join(" "),
            plans: plans.trim().to_owned(),
            marks: annotation(annotation::PENDING_HOOKS),
            step: minor(&annotation(annotation::UPGRADE_STEP)),
            condition: self.by_topology_names(condition),
            requeue_after_seconds: tracker.hooks.requeue_after_seconds(),
        }
    }

    /// The control plane runs the version that it is to have.
    pub(super) fn finish_control_plane(&mut self) {
        let mut object = Object::clone(&self.objects("KubeadmControlPlane")[0]);
        let version = object.at("spec.version").cloned().unwrap();
        object.set("status.version", version).unwrap();
        self.put(object);
    }

    /// The Machines of a machine deployment have its version.
    pub(super) fn finish(&mut self, name: &str) {
        let is_of = |object: &&Arc<Object>| object.label(label::DEPLOYMENT_NAME) == Some(name);
        let version = self.deployment(name).at("spec.template.spec.version").cloned().unwrap();
        for machine in self.objects("Machine").iter().filter(is_of) {
            let mut machine = Object::clone(machine);
            machine.set("spec.version", version.clone()).unwrap();
            self.put(machine);
        }
    }

    pub(super) fn deployment(&self, name: &str) -> Arc<Object> {
        let all = self.objects("MachineDeployment");
        all.into_iter().find(|object| object.label(label::DEPLOYMENT_NAME) == Some(name)).unwrap()
    }

    pub(super) fn control_plane(&self) -> Arc<Object> {
        self.objects("KubeadmControlPlane").remove(0)
    }

    pub(super) fn cluster(&self) -> Arc<Cluster> {
        cluster(&self.fold)
    }

    /// Objects of a kind, by name in the topology where they have one.
    fn objects(&self, kind: &str) -> Vec<Arc<Object>> {
        let mut objects = self.fold.objects_of(&blade());
        objects.retain(|object| object.kind() == kind);
        objects.sort_by_key(|object| (object.label(label::DEPLOYMENT_NAME).map(str::to_owned), object.key()));
        objects
    }

    fn put(&mut self, object: Object) {
        self.fold.facts_mut().objects_mut().unwrap().put(Arc::new(object));
    }

    fn by_topology_names(&self, text: String) -> String {
        let deployments = self.objects("MachineDeployment");
        deployments
            .iter()
            .fold(text, |text, object| text.replace(object.name(), object.label(label::DEPLOYMENT_NAME).unwrap()))
    }
}

fn cluster(fold: &TopologySimulator) -> Arc<Cluster> {
    let Found::Yes(cluster) = fold.facts().cluster(&blade()) else { panic!("the Cluster is there") };
    cluster
}

/// `v1.32.0` is `32`.
fn minor(version: &str) -> String {
    version.trim_start_matches("v1.").trim_end_matches(".0").to_owned()
}

/// A patch that names images after versions.
fn images() -> Value {
    let image = |of: Value, variable: &str| {
        json!({
            "selector": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "ForgeMachineTemplate",
                "matchResources": of},
            "jsonPatches": [{"op": "add", "path": "/spec/template/spec/image", "valueFrom": {"variable": variable}}],
        })
    };
    json!({"name": "images", "definitions": [
        image(json!({"controlPlane": true}), "builtin.controlPlane.version"),
        image(json!({"machineDeploymentClass": {"names": ["smith"]}}), "builtin.machineDeployment.version"),
    ]})
}
