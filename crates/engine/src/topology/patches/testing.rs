//! A small topology with everything that patches can be about.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Trace, apply};
use crate::topology::blueprint::{Blueprint, WorkerTemplates};
use crate::topology::desired::{Desired, DesiredCluster, DesiredControlPlane, DesiredObject, DesiredWorker};
use crate::topology::origin::{Origin, Origins};
use crate::topology::worker::WorkerKind;
use crate::topology::{Failure, Options};
use model::hub::contract::{Contract, object_kind};
use model::hub::{ClusterClass, Object, annotation, label};
use model::world::{Answer, Facts, Found, Need, ObjectSet, PatchAnswer, World};

/// A class, a Cluster of it, and how they are computed.
#[derive(Clone)]
pub(super) struct Case {
    pub class: Value,
    pub cluster: Value,
    /// By kind and name.
    pub templates: Vec<Value>,
    pub contract: Contract,
    pub has_extensions: bool,
    pub is_offline: bool,
    /// The answers of extensions, in the order of the calls.
    pub answers: Vec<Found<PatchAnswer>>,
}

/// The result of a case.
#[derive(Debug)]
pub(super) struct Patched {
    pub before: Desired,
    pub desired: Desired,
    pub trace: Trace,
    /// The requests to extensions, as JSON.
    pub requests: Vec<Value>,
}

pub(super) const INFRASTRUCTURE: &str = "infrastructure.example.com/v1";
pub(super) const BOOTSTRAP: &str = "bootstrap.example.com/v1";
pub(super) const CONTROL_PLANE: &str = "controlplane.example.com/v1";

fn template(api_version: &str, kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {
            "namespace": "ns", "name": name, "labels": {"of": "template"},
            "annotations": {annotation::LAST_APPLIED: "{}", annotation::CONVERSION_DATA: "{}"},
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {"template": {
            "metadata": {"labels": {"of": "product"}},
            "spec": {"from": name, "list": ["a", "b"], "map": {"x": 1, "y": {"z": true}}},
        }},
    })
}

fn reference(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"templateRef": {"apiVersion": api_version, "kind": kind, "name": name}})
}

/// A topology of a control plane, two machine deployments of one class, and a machine pool.
pub(super) fn case() -> Case {
    let deployment = |name: &str| json!({"name": name, "class": "worker", "replicas": 2});
    Case {
        class: json!({
            "metadata": {"namespace": "ns", "name": "class", "generation": 1},
            "spec": {
                "infrastructure": reference(INFRASTRUCTURE, "FooClusterTemplate", "cluster"),
                "controlPlane": {
                    "templateRef": {"apiVersion": CONTROL_PLANE, "kind": "FooControlPlaneTemplate", "name": "cp"},
                    "machineInfrastructure": reference(INFRASTRUCTURE, "FooMachineTemplate", "cp-machine"),
                },
                "workers": {
                    "machineDeployments": [{
                        "class": "worker",
                        "bootstrap": reference(BOOTSTRAP, "FooConfigTemplate", "worker-config"),
                        "infrastructure": reference(INFRASTRUCTURE, "FooMachineTemplate", "worker-machine"),
                    }],
                    "machinePools": [{
                        "class": "pool",
                        "bootstrap": reference(BOOTSTRAP, "FooConfigTemplate", "pool-config"),
                        "infrastructure": reference(INFRASTRUCTURE, "FooMachinePoolTemplate", "pool-machine"),
                    }],
                },
            },
            "status": {
                "observedGeneration": 1,
                "conditions": [{"type": "VariablesReady", "status": "True"}],
                "variables": [],
            },
        }),
        cluster: json!({
            "metadata": {"namespace": "ns", "name": "one", "uid": "uid-one", "labels": {"team": "a"}},
            "spec": {
                "clusterNetwork": {
                    "serviceDomain": "cluster.local",
                    "services": {"cidrBlocks": ["10.0.0.0/16"]},
                    "pods": {"cidrBlocks": ["10.1.0.0/16", "fd00::/64"]},
                },
                "topology": {
                    "classRef": {"name": "class"},
                    "version": "v1.33.0",
                    "controlPlane": {"replicas": 3},
                    "workers": {
                        "machineDeployments": [deployment("md-1"), deployment("md-2")],
                        "machinePools": [{"name": "mp-1", "class": "pool"}],
                    },
                },
            },
        }),
        templates: vec![
            template(INFRASTRUCTURE, "FooClusterTemplate", "cluster"),
            template(CONTROL_PLANE, "FooControlPlaneTemplate", "cp"),
            template(INFRASTRUCTURE, "FooMachineTemplate", "cp-machine"),
            template(BOOTSTRAP, "FooConfigTemplate", "worker-config"),
            template(INFRASTRUCTURE, "FooMachineTemplate", "worker-machine"),
            template(BOOTSTRAP, "FooConfigTemplate", "pool-config"),
            template(INFRASTRUCTURE, "FooMachinePoolTemplate", "pool-machine"),
        ],
        contract: Contract::V1Beta2,
        has_extensions: true,
        is_offline: false,
        answers: Vec::new(),
    }
}

/// A patch of one definition.
pub(super) fn patch(selector: Value, operations: Value) -> Value {
    json!({"name": "p", "definitions": [{"selector": selector, "jsonPatches": operations}]})
}

/// Selects a kind of template for these uses.
pub(super) fn selector(api_version: &str, kind: &str, uses: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "matchResources": uses})
}

/// Selects the infrastructure cluster.
pub(super) fn infrastructure() -> Value {
    selector(INFRASTRUCTURE, "FooClusterTemplate", json!({"infrastructureCluster": true}))
}

/// Selects the control plane.
pub(super) fn control_plane() -> Value {
    selector(CONTROL_PLANE, "FooControlPlaneTemplate", json!({"controlPlane": true}))
}

/// Selects the machines of machine deployments.
pub(super) fn machines() -> Value {
    selector(INFRASTRUCTURE, "FooMachineTemplate", json!({"machineDeploymentClass": {"names": ["worker"]}}))
}

/// Selects the bootstrap objects of machine pools.
pub(super) fn pool_configs() -> Value {
    selector(BOOTSTRAP, "FooConfigTemplate", json!({"machinePoolClass": {"names": ["pool"]}}))
}

impl Case {
    pub(super) fn patches(mut self, patches: Value) -> Self {
        self.class["spec"]["patches"] = patches;
        self
    }

    /// One definition that selects something and does one thing.
    pub(super) fn operation(self, selector: Value, operation: Value) -> Self {
        self.patches(json!([patch(selector, json!([operation]))]))
    }

    /// Defines a variable.
    pub(super) fn defined(self, name: &str, schema: Value) -> Self {
        self.defined_by("inline", name, schema)
    }

    /// Defines a variable by a patch.
    pub(super) fn defined_by(mut self, from: &str, name: &str, schema: Value) -> Self {
        let variables = self.class["status"]["variables"].as_array_mut().unwrap();
        let definition = json!({"from": from, "schema": {"openAPIV3Schema": schema}});
        match variables.iter_mut().find(|variable| variable["name"] == name) {
            Some(variable) => variable["definitions"].as_array_mut().unwrap().push(definition),
            None => variables.push(json!({"name": name, "definitions": [definition]})),
        }
        self
    }

    /// Defines a variable that the Cluster sets.
    pub(super) fn with(self, name: &str, value: Value) -> Self {
        self.defined(name, json!({"x-kubernetes-preserve-unknown-fields": true})).set(name, value)
    }

    /// Sets a variable.
    pub(super) fn set(mut self, name: &str, value: Value) -> Self {
        let variables = &mut self.cluster["spec"]["topology"]["variables"];
        if variables.is_null() {
            *variables = json!([]);
        }
        variables.as_array_mut().unwrap().push(json!({"name": name, "value": value}));
        self
    }

    /// Sets an override, at a pointer below the topology.
    pub(super) fn overridden(mut self, part: &str, name: &str, value: Value) -> Self {
        let part = self.cluster["spec"]["topology"].pointer_mut(part).unwrap();
        if part["variables"].is_null() {
            part["variables"] = json!({"overrides": []});
        }
        let overrides = part["variables"]["overrides"].as_array_mut().unwrap();
        overrides.push(json!({"name": name, "value": value}));
        self
    }

    pub(super) fn answering(mut self, answers: impl IntoIterator<Item = Found<PatchAnswer>>) -> Self {
        self.answers.extend(answers);
        self
    }

    fn template(&self, name: &str) -> Arc<Object> {
        let template = self.templates.iter().find(|template| template["metadata"]["name"] == name);
        Arc::new(Object::try_from(template.unwrap().clone()).unwrap())
    }

    pub(super) fn blueprint(&self, world: &World) -> Blueprint {
        let cluster: model::hub::Cluster = serde_json::from_value(self.cluster.clone()).unwrap();
        let Found::Yes(class) = world.class_at_once(&model::hub::ObjectKey::new("ns", "class")) else { panic!() };
        let workers = |class: &str, bootstrap: &str, infrastructure: &str| {
            let (bootstrap, infrastructure) = (self.template(bootstrap), self.template(infrastructure));
            [(class.to_owned(), WorkerTemplates { bootstrap, infrastructure })].into()
        };
        let has_machines = class.spec.has_control_plane_machines();
        Blueprint {
            infrastructure: self.template("cluster"),
            control_plane: self.template("cp"),
            control_plane_machines: has_machines.then(|| self.template("cp-machine")),
            machine_deployments: workers("worker", "worker-config", "worker-machine"),
            machine_pools: workers("pool", "pool-config", "pool-machine"),
            cluster,
            class,
        }
    }

    pub(super) fn world(&self) -> World {
        let class: ClusterClass = serde_json::from_value(self.class.clone()).unwrap();
        let facts = Facts::complete([], [class]);
        World::new(Arc::new(if self.is_offline { facts.with_objects(ObjectSet::default()) } else { facts }))
    }

    pub(super) fn run(&self) -> Result<Patched, Failure> {
        self.run_on(|_| {})
    }

    /// Runs the patches on objects that `edit` has changed.
    pub(super) fn run_on(&self, edit: impl Fn(&mut Desired)) -> Result<Patched, Failure> {
        let mut world = self.world();
        let blueprint = self.blueprint(&world);
        let mut before = desired(&blueprint);
        edit(&mut before);
        let options = Options::new(self.has_extensions);
        let mut answers = self.answers.iter();
        let mut requests = Vec::new();
        loop {
            let mut desired = before.clone();
            let result = apply(&blueprint, self.contract, &mut desired, &world, &options);
            let needs = world.take_needs();
            let Some(need) = needs.first() else {
                return result.map(|trace| Patched { before, desired, trace, requests });
            };
            assert_eq!((result, needs.len()), (Err(Failure::NotAsked), 1), "one extension at a time");
            let Need::Patch(call) = need else { panic!("{need:?}") };
            requests.push(serde_json::from_str(&call.request).unwrap());
            let answer = answers.next().expect("an answer for each call").clone();
            world.pin(need.clone(), Answer::Patch(answer));
        }
    }

    /// The failure as text.
    pub(super) fn failure(&self) -> String {
        self.run().map(|outcome| outcome.trace).unwrap_err().to_string()
    }
}

impl Patched {
    pub(super) fn infrastructure(&self) -> &Object {
        &self.desired.infrastructure.object
    }

    pub(super) fn control_plane(&self) -> &Object {
        &self.desired.control_plane.control_plane.object
    }

    pub(super) fn machines(&self, position: usize) -> &Object {
        &self.desired.machine_deployments[position].infrastructure.object
    }

    pub(super) fn pool_config(&self) -> &Object {
        &self.desired.machine_pools[0].bootstrap.object
    }

    /// The names of the objects that are other than before.
    pub(super) fn changed(&self) -> Vec<&str> {
        let (before, after) = (objects(&self.before), objects(&self.desired));
        let changed = before.into_iter().zip(after).filter(|(before, after)| before.object != after.object);
        changed.map(|(_, after)| after.object.name()).collect()
    }
}

/// All objects, in order.
pub(super) fn objects(desired: &Desired) -> Vec<&DesiredObject> {
    let control_plane = &desired.control_plane;
    let mut objects = vec![&desired.infrastructure, &control_plane.control_plane];
    objects.extend(&control_plane.machines);
    for worker in desired.machine_deployments.iter().chain(&desired.machine_pools) {
        objects.extend([&worker.worker, &worker.bootstrap, &worker.infrastructure]);
    }
    objects
}

/// The computed object of a template, with the fields that patches use.
fn computed(template: &Object, name: &str, is_template: bool, topology_label: Option<(&str, &str)>) -> DesiredObject {
    let mut labels = json!({label::CLUSTER_NAME: "one", label::OWNED: ""});
    labels["of"] = json!(if is_template { "template" } else { "product" });
    if let Some((name, value)) = topology_label {
        labels[name] = json!(value);
    }
    let annotations = json!({
        annotation::CLONED_FROM_NAME: template.name(),
        annotation::CLONED_FROM_KIND: format!("{}.{}", template.kind(), template.group()),
    });
    let metadata = json!({"namespace": "ns", "name": name, "labels": labels, "annotations": annotations});
    let kind = if is_template { template.kind() } else { object_kind(template.kind()) };
    let spec = if is_template { template.at("spec") } else { template.at("spec.template.spec") };
    let object = json!({"apiVersion": template.api_version(), "kind": kind, "metadata": metadata, "spec": spec});
    let mut origins = Origins::default();
    origins.mark("", Origin::Template { kind: template.kind().into(), name: template.name().into() });
    origins.mark("metadata.labels", Origin::Topology);
    DesiredObject { object: Object::try_from(object).unwrap(), origins }
}

pub(super) fn desired(blueprint: &Blueprint) -> Desired {
    let topology = blueprint.topology();
    let mut control_plane = computed(&blueprint.control_plane, "one-cp", false, None);
    control_plane.object.set("spec.version", json!(topology.version)).unwrap();
    control_plane.origins.mark("spec.version", Origin::Topology);
    if let Some(replicas) = topology.control_plane.replicas {
        control_plane.object.set("spec.replicas", json!(replicas)).unwrap();
    }
    let machines = blueprint.control_plane_machines.as_ref().map(|template| {
        let reference = json!({"kind": template.kind(), "name": "one-cp-machine"});
        control_plane.object.set("spec.machineTemplate.spec.infrastructureRef", reference).unwrap();
        computed(template, "one-cp-machine", true, None)
    });
    let workers = |kind: WorkerKind| {
        let entries = kind.entries(topology).into_iter();
        let worker = entries.map(|entry| {
            let name = entry.name;
            let templates = blueprint.templates(kind, name, entry.class).unwrap();
            let label = Some((kind.label(), name));
            let is_template = kind == WorkerKind::MachineDeployment;
            let metadata = json!({"namespace": "ns", "name": format!("one-{name}"), "labels": {kind.label(): name}});
            let mut object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind.name(), "metadata": metadata,
                "spec": {"template": {"spec": {"version": topology.version}}}});
            if is_template {
                object["spec"]["replicas"] = json!(2);
            }
            DesiredWorker {
                kind,
                topology_name: name.to_owned(),
                class: entry.class.to_owned(),
                worker: DesiredObject { object: Object::try_from(object).unwrap(), origins: Origins::default() },
                bootstrap: computed(&templates.bootstrap, &format!("one-{name}-config"), is_template, label),
                infrastructure: computed(&templates.infrastructure, &format!("one-{name}-machine"), is_template, label),
                health_check: None,
            }
        });
        worker.collect()
    };
    let (machine_deployments, machine_pools) =
        (workers(WorkerKind::MachineDeployment), workers(WorkerKind::MachinePool));
    let texts = |map: Value| serde_json::from_value(map).unwrap();
    Desired {
        infrastructure: computed(&blueprint.infrastructure, "one-cluster", false, None),
        control_plane: DesiredControlPlane { control_plane, machines, health_check: None },
        cluster: DesiredCluster {
            labels: texts(json!({"team": "a", label::OWNED: ""})),
            annotations: texts(json!({annotation::UPGRADE_STEP: "v1.32.0", annotation::LAST_APPLIED: "{}"})),
            ..DesiredCluster::default()
        },
        machine_deployments,
        machine_pools,
    }
}
