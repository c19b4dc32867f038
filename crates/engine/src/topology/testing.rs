//! Small worlds for tests: a class with its templates, a Cluster, and the objects of its topology.
//!
//! ```text
//! Scene::new() ─ at, with, without ─► compute() ─► Desired
//!      ▲                                              │
//!      └───────────────── applied() ◄─────────────────┘  as if it had been written, with the references of the Cluster
//! ```

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test fails")]
#![allow(clippy::return_self_not_must_use, clippy::new_without_default, reason = "scenes are built up")]

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::blueprint::Blueprint;
use super::current::Current;
use super::desired::{self, Computed, Desired, DesiredObject};
use super::plan::TopologySimulator;
use super::upgrade::PlannedUpgrade;
use super::{Failure, Options, SizeLimit};
use golang::yaml;
use model::hub::names::{DeterministicNames, Names};
use model::hub::{Cluster, ClusterClass, Object, ObjectKey, ResourceDefinition};
use model::wire::{Decode, WireVersion};
use model::world::{Facts, ObjectSet, World, settle_at_once};

/// A class of every kind of part. Its providers follow the contract v1beta2.
const DOCUMENTS: &str = r#"
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: forge, namespace: ns, generation: 1}
spec:
  infrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: ForgeClusterTemplate, name: ground}}
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, name: brain}
    machineInfrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: ForgeMachineTemplate, name: brain}}
  workers:
    machineDeployments:
    - class: smith
      bootstrap: {templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfigTemplate, name: smith}}
      infrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: ForgeMachineTemplate, name: smith}}
    machinePools:
    - class: crew
      bootstrap: {templateRef: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfigTemplate, name: crew}}
      infrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: ForgeMachinePoolTemplate, name: crew}}
status:
  observedGeneration: 1
  conditions: [{type: VariablesReady, status: "True"}]
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: ForgeClusterTemplate
metadata: {name: ground, namespace: ns}
spec: {template: {spec: {site: north}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlaneTemplate
metadata: {name: brain, namespace: ns}
spec: {template: {spec: {kubeadmConfigSpec: {format: cloud-config}}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: ForgeMachineTemplate
metadata: {name: brain, namespace: ns}
spec: {template: {spec: {size: large}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: ForgeMachineTemplate
metadata: {name: smith, namespace: ns}
spec: {template: {spec: {size: small}}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: smith, namespace: ns}
spec: {template: {spec: {format: cloud-config}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: ForgeMachinePoolTemplate
metadata: {name: crew, namespace: ns}
spec: {template: {spec: {size: small}}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata: {name: crew, namespace: ns}
spec: {template: {spec: {format: cloud-config}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: blade, namespace: ns, uid: uid-of-blade}
spec:
  topology:
    classRef: {name: forge}
    version: v1.33.0
    workers:
      machineDeployments: [{name: md, class: smith}]
      machinePools: [{name: mp, class: crew}]
"#;

/// The documents of a world with one Cluster.
#[derive(Clone, Debug)]
pub struct Scene {
    documents: Vec<Value>,
}

impl Scene {
    /// Class `ns/forge` with templates and Cluster `ns/blade`: a machine deployment `md` and a machine pool `mp`,
    /// nothing else set, nothing made yet.
    pub fn new() -> Self {
        static SCENE: LazyLock<Scene> = LazyLock::new(|| Scene::from_yaml(DOCUMENTS));
        SCENE.clone()
    }

    /// The default scene without workers.
    pub fn without_workers() -> Self {
        Scene::new().at("Cluster", "/spec/topology/workers", json!({}))
    }

    /// The default scene with a control plane of the contract v1beta1.
    pub fn with_v1beta1_contract() -> Self {
        let old = "controlplane.cluster.x-k8s.io/v1beta1";
        Scene::new().at("KubeadmControlPlaneTemplate", "/apiVersion", json!(old)).at(
            "ClusterClass",
            "/spec/controlPlane/templateRef/apiVersion",
            json!(old),
        )
    }

    /// The world of these YAML documents.
    pub fn from_yaml(text: &str) -> Self {
        Scene { documents: yaml::documents(text).into_iter().map(|document| document.unwrap().value).collect() }
    }

    /// Sets what stands at a JSON pointer of the documents of a kind, or of one of them: `Kind` or `Kind name`. Parents
    /// are made; `null` takes away.
    pub fn at(mut self, which: &str, pointer: &str, value: Value) -> Self {
        let chosen: Vec<&mut Value> = self.documents.iter_mut().filter(|one| is(one, which)).collect();
        assert!(!chosen.is_empty(), "there is no {which}");
        for document in chosen {
            put(document, pointer, value.clone());
        }
        self
    }

    /// Adds a document.
    pub fn with(mut self, document: Value) -> Self {
        self.documents.push(document);
        self
    }

    /// Adds a CustomResourceDefinition with the labels of its contracts, such as `("v1beta2", "v1beta1_v1beta2")`.
    pub fn with_definition(self, name: &str, contracts: &[(&str, &str)], versions: Value) -> Self {
        let label = |(contract, versions): &(&str, &str)| (format!("cluster.x-k8s.io/{contract}"), json!(versions));
        let labels: Value = contracts.iter().map(label).collect();
        self.with(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name, "labels": labels}, "spec": {"versions": versions},
        }))
    }

    /// The same documents in another order.
    pub fn shuffled(mut self, mut seed: u64) -> Self {
        for last in (1..self.documents.len()).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            self.documents.swap(last, usize::try_from(seed >> 33).unwrap() % (last + 1));
        }
        self
    }

    /// Takes the documents `Kind` or `Kind name` away.
    pub fn without(mut self, which: &str) -> Self {
        let before = self.documents.len();
        self.documents.retain(|one| !is(one, which));
        assert_ne!(self.documents.len(), before, "there is no {which}");
        self
    }

    /// The document `Kind` or `Kind name`, which is the only one.
    pub fn document(&self, which: &str) -> &Value {
        let found: Vec<&Value> = self.documents.iter().filter(|one| is(one, which)).collect();
        assert_eq!(found.len(), 1, "{which}");
        found[0]
    }

    /// All documents.
    pub fn documents(&self) -> &[Value] {
        &self.documents
    }

    /// The facts.
    pub fn world(&self) -> World {
        world_of(&self.documents)
    }

    /// A simulator of the world.
    pub fn simulator(&self) -> TopologySimulator {
        TopologySimulator::new(facts_of(&self.documents), Options::new(false))
    }

    /// The same, in which topologies may not be larger than `limit`.
    pub fn simulator_within(&self, limit: SizeLimit) -> TopologySimulator {
        TopologySimulator::new(facts_of(&self.documents), Options::new(false).within(limit))
    }

    /// The same, with lifecycle hooks without registered extensions.
    pub fn simulator_with_hooks(&self) -> TopologySimulator {
        TopologySimulator::new(facts_of(&self.documents), Options::new(true))
    }

    /// The facts of an API server: Clusters and classes immediately, other facts when needed. Returns the result of
    /// `run` and the number of rounds.
    pub fn gathered<T>(&self, run: impl Fn(&World) -> T) -> (T, usize) {
        let known = self.documents.iter().filter(|one| is(one, "Cluster") || is(one, "ClusterClass"));
        let (there, known) = (facts_of(&self.documents), facts(&known.cloned().collect::<Vec<_>>()).0);
        let mut computed = 0;
        let compute = |world: &World| {
            computed += 1;
            run(world)
        };
        let result = settle_at_once(World::new(Arc::new(known)), compute, |need| there.answer(need)).unwrap();
        (result, computed - 1)
    }

    /// The Cluster as it is written.
    pub fn cluster(&self) -> Cluster {
        Cluster::decode(WireVersion::V1Beta2, &self.document("Cluster").to_string()).unwrap()
    }

    pub fn blueprint(&self) -> Result<Blueprint, Failure> {
        Blueprint::read(&self.cluster(), &self.world())
    }

    pub fn current(&self) -> Result<Current, Failure> {
        Current::read(&self.blueprint()?, &self.world())
    }

    /// The desired state without patches.
    pub fn compute(&self) -> Result<Computed, Failure> {
        self.compute_with(&mut DeterministicNames)
    }

    /// The same, with ends of names from somewhere else.
    pub fn compute_with(&self, names: &mut dyn Names) -> Result<Computed, Failure> {
        let world = self.world();
        let blueprint = Blueprint::read(&self.cluster(), &world)?;
        let current = Current::read(&blueprint, &world)?;
        let planned = PlannedUpgrade::new(&blueprint, &current, &world, &Options::new(false))?;
        desired::compute(&blueprint, &current, &world, planned, names).map(|(computed, _)| computed)
    }

    /// The desired state.
    pub fn desired(&self) -> Desired {
        self.compute().unwrap().desired
    }

    /// The same world once a desired state is written: objects are there with a uid, and the Cluster refers to them.
    pub fn after(mut self, desired: &Desired) -> Self {
        for written in objects(desired) {
            let mut object = Value::from(written.object.clone());
            put(&mut object, "/metadata/uid", json!(format!("uid-of-{}", written.object.name())));
            self.documents.retain(|one| key(one) != key(&object));
            self.documents.push(object);
        }
        let reference = |object: &Object| {
            let reference = object.contract_ref();
            json!({"apiGroup": reference.api_group, "kind": reference.kind, "name": reference.name})
        };
        let (ground, brain) = (&desired.infrastructure.object, &desired.control_plane.control_plane.object);
        self.at("Cluster", "/metadata/labels", json!(desired.cluster.labels))
            .at("Cluster", "/metadata/annotations", json!(desired.cluster.annotations))
            .at("Cluster", "/spec/infrastructureRef", reference(ground))
            .at("Cluster", "/spec/controlPlaneRef", reference(brain))
    }

    /// The same world once what the topology asks for is written.
    pub fn applied(self) -> Self {
        let desired = self.desired();
        self.after(&desired)
    }
}

/// All objects of a desired state, in the order in which they are computed; the Cluster is not among them.
pub fn objects(desired: &Desired) -> Vec<&DesiredObject> {
    let control_plane = &desired.control_plane;
    let mut all = vec![&desired.infrastructure];
    all.extend(&control_plane.machines);
    all.push(&control_plane.control_plane);
    all.extend(&control_plane.health_check);
    for worker in desired.machine_deployments.iter().chain(&desired.machine_pools) {
        all.extend([&worker.bootstrap, &worker.infrastructure, &worker.worker]);
        all.extend(&worker.health_check);
    }
    all
}

/// The world of these documents: Clusters and classes as they are stored, definitions, and other objects.
pub fn world_of(documents: &[Value]) -> World {
    World::new(Arc::new(facts_of(documents)))
}

/// The facts of all documents.
fn facts_of(documents: &[Value]) -> Facts {
    let (facts, objects) = facts(documents);
    facts.with_objects(objects)
}

fn facts(documents: &[Value]) -> (Facts, ObjectSet) {
    let (mut clusters, mut classes, mut objects) = (Vec::new(), Vec::new(), ObjectSet::default());
    for document in documents {
        let version = document["apiVersion"].as_str().and_then(WireVersion::from_api_version);
        match (document["kind"].as_str().unwrap(), version) {
            ("Cluster", Some(version)) => clusters.push(Cluster::decode(version, &document.to_string()).unwrap()),
            ("ClusterClass", Some(version)) => {
                classes.push(ClusterClass::decode(version, &document.to_string()).unwrap());
            }
            ("CustomResourceDefinition", _) => {
                let name = document["metadata"]["name"].as_str().unwrap().to_owned();
                objects.put_definition(name, Arc::new(ResourceDefinition::from_object(document).unwrap()));
            }
            _ => objects.put(Arc::new(Object::try_from(document.clone()).unwrap())),
        }
    }
    (Facts::complete(clusters, classes), objects)
}

fn key(document: &Value) -> (Value, ObjectKey) {
    let text = |name: &str| document["metadata"][name].as_str().unwrap_or_default();
    (document["kind"].clone(), ObjectKey::new(text("namespace"), text("name")))
}

fn is(document: &Value, which: &str) -> bool {
    let (kind, name) = which.split_once(' ').map_or((which, None), |(kind, name)| (kind, Some(name)));
    document["kind"] == *kind && name.is_none_or(|name| document["metadata"]["name"] == *name)
}

/// Sets what stands at a JSON pointer; an index that is the length of a list appends to it.
fn put(document: &mut Value, pointer: &str, value: Value) {
    let mut here = document;
    let steps: Vec<String> =
        pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
    let (member, parents) = steps.split_last().unwrap();
    for step in parents {
        here = match here {
            Value::Array(list) => &mut list[step.parse::<usize>().unwrap()],
            other => &mut other[step],
        };
    }
    match here {
        Value::Array(list) if member.parse() == Ok(list.len()) => list.push(value),
        Value::Array(list) => list[member.parse::<usize>().unwrap()] = value,
        Value::Object(members) if value.is_null() => drop(members.remove(member)),
        other => other[member] = value,
    }
}
