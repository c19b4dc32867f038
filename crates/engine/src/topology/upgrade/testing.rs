//! A fleet of plain objects: a test lets the engine decide on it, applies the decisions, and plays the machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{PlannedUpgrade, Tracker};
use crate::topology::blueprint::Blueprint;
use crate::topology::current::{Current, CurrentControlPlane, CurrentWorker};
use crate::topology::hooks::{DeletionGuard, HookCaller, HookTracker};
use crate::topology::status::{ReconcileOutcome, TopologyReconciled, topology_reconciled};
use crate::topology::worker::{API_VERSION, WorkerKind};
use crate::topology::{Failure, Options};
use model::hub::{Cluster, ClusterClass, Hook, Object, ObjectKey, annotation, label};
use model::world::{Answer, Facts, Found, HookAnswer, Need, NodesOf, ObjectSet, PlannedVersions, World};

pub(in crate::topology) const MD: WorkerKind = WorkerKind::MachineDeployment;
pub(in crate::topology) const MP: WorkerKind = WorkerKind::MachinePool;

/// A topology and its current objects.
#[derive(Clone, Debug)]
pub(in crate::topology) struct Fleet {
    pub(in crate::topology) class: Value,
    pub(in crate::topology) cluster: Value,
    pub(in crate::topology) control_plane: Option<Value>,
    pub(in crate::topology) workers: BTreeMap<(WorkerKind, String), Worker>,
    pub(in crate::topology) has_hooks: bool,
    /// Files instead of an API server.
    pub(in crate::topology) is_offline: bool,
    /// The answers of extensions; other hooks have none.
    pub(in crate::topology) extensions: BTreeMap<Hook, HookAnswer>,
    pub(in crate::topology) planner: Option<PlannedVersions>,
    pub(in crate::topology) failing: Option<Hook>,
    /// The hooks that were called, with their requests.
    pub(in crate::topology) calls: Vec<(Hook, Value)>,
}

/// A machine deployment or pool and what runs on its machines.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::topology) struct Worker {
    pub(in crate::topology) version: String,
    pub(in crate::topology) machines: Vec<String>,
}

/// The decisions.
#[derive(Clone, Debug)]
pub(in crate::topology) struct Round {
    pub(in crate::topology) control_plane: String,
    /// By kind and name in the topology.
    pub(in crate::topology) workers: BTreeMap<(WorkerKind, String), String>,
    pub(in crate::topology) tracker: Tracker,
    pub(in crate::topology) marks_a_step: bool,
    pub(in crate::topology) condition: TopologyReconciled,
}

/// The name of the object of a worker.
pub(in crate::topology) fn object_name(topology_name: &str) -> String {
    format!("c-{topology_name}")
}

fn object(value: Value) -> Arc<Object> {
    Arc::new(Object::try_from(value).unwrap())
}

impl Fleet {
    /// A Cluster that has `version` everywhere, of a class that lists `versions`, with these machine deployments.
    pub(in crate::topology) fn at(version: &str, versions: &[&str], deployments: &[&str]) -> Self {
        let mut fleet = Fleet {
            class: json!({"kubernetesVersions": versions}),
            cluster: json!({
                "apiVersion": API_VERSION, "kind": "Cluster",
                "metadata": {"namespace": "ns", "name": "c", "annotations": {}},
                "spec": {
                    "infrastructureRef": {"apiGroup": "i", "kind": "Infra", "name": "i"},
                    "controlPlaneRef": {"apiGroup": "p", "kind": "ExampleControlPlane", "name": "cp"},
                    "topology": {"classRef": {"name": "class"}, "version": version, "workers": {}},
                },
            }),
            control_plane: Some(json!({
                "apiVersion": "p/v1beta2", "kind": "ExampleControlPlane",
                "metadata": {"namespace": "ns", "name": "cp"},
                "spec": {"version": version}, "status": {"version": version},
            })),
            workers: BTreeMap::new(),
            has_hooks: true,
            is_offline: false,
            extensions: BTreeMap::new(),
            planner: None,
            failing: None,
            calls: Vec::new(),
        };
        for name in deployments {
            fleet = fleet.with_worker(MD, name, version);
        }
        fleet
    }

    /// With a worker that is there.
    pub(in crate::topology) fn with_worker(mut self, kind: WorkerKind, name: &str, version: &str) -> Self {
        let machines = vec![version.to_owned(); 2];
        self.workers.insert((kind, name.to_owned()), Worker { version: version.to_owned(), machines });
        self.with_entry(kind, name)
    }

    /// With a worker that the topology asks for.
    pub(in crate::topology) fn with_entry(mut self, kind: WorkerKind, name: &str) -> Self {
        self.entries(kind).push(json!({"name": name, "class": "w"}));
        self
    }

    /// Asks for a version.
    pub(in crate::topology) fn to(mut self, version: &str) -> Self {
        self.cluster["spec"]["topology"]["version"] = json!(version);
        self
    }

    /// With an annotation of the Cluster.
    pub(in crate::topology) fn annotated(mut self, name: &str, value: &str) -> Self {
        self.cluster["metadata"]["annotations"][name] = json!(value);
        self
    }

    /// Annotates a worker in the topology, or takes the annotation off.
    pub(in crate::topology) fn annotate(&mut self, kind: WorkerKind, name: &str, annotation: &str, is_set: bool) {
        for entry in self.entries(kind).iter_mut().filter(|entry| entry["name"] == name) {
            entry["metadata"] = if is_set { json!({"annotations": {annotation: ""}}) } else { json!({}) };
        }
    }

    /// Takes a worker off the topology; it stays where it is.
    pub(in crate::topology) fn drop_entry(&mut self, kind: WorkerKind, name: &str) {
        self.entries(kind).retain(|entry| entry["name"] != name);
    }

    pub(in crate::topology) fn worker(&self, name: &str) -> &Worker {
        let found = self.workers.iter().find(|((_, worker), _)| worker == name);
        found.map(|(_, worker)| worker).unwrap()
    }

    pub(in crate::topology) fn worker_mut(&mut self, name: &str) -> &mut Worker {
        let found = self.workers.iter_mut().find(|((_, worker), _)| worker == name);
        found.map(|(_, worker)| worker).unwrap()
    }

    /// The value of the annotation of pending hooks.
    pub(in crate::topology) fn pending(&self) -> &str {
        self.cluster["metadata"]["annotations"][annotation::PENDING_HOOKS].as_str().unwrap_or_default()
    }

    /// The version that the control plane is to have.
    pub(in crate::topology) fn version(&self) -> &str {
        self.control_plane.as_ref().and_then(|object| object["spec"]["version"].as_str()).unwrap_or_default()
    }

    fn entries(&mut self, kind: WorkerKind) -> &mut Vec<Value> {
        let list = match kind {
            WorkerKind::MachineDeployment => "machineDeployments",
            WorkerKind::MachinePool => "machinePools",
        };
        let workers = &mut self.cluster["spec"]["topology"]["workers"];
        if workers[list].is_null() {
            workers[list] = json!([]);
        }
        workers[list].as_array_mut().unwrap()
    }

    /// Decides once more, on what there is now.
    pub(in crate::topology) fn decide(&mut self) -> Result<Round, Failure> {
        let class = json!({"metadata": {"namespace": "ns", "name": "class"}, "spec": self.class.clone()});
        let class: ClusterClass = serde_json::from_value(class).unwrap();
        let facts = Facts::complete([], [class]);
        let Found::Yes(class) = facts.class(&ObjectKey::new("ns", "class")) else { panic!("the class is there") };
        let cluster: Cluster = serde_json::from_value(self.cluster.clone()).unwrap();
        let blueprint = Blueprint {
            cluster,
            class,
            infrastructure: Arc::default(),
            control_plane: Arc::default(),
            control_plane_machines: None,
            machine_deployments: BTreeMap::new(),
            machine_pools: BTreeMap::new(),
        };
        let current = self.current();
        let options = Options::new(self.has_hooks);
        self.gather(facts, |world| compute(&blueprint, &current, world, options))
    }

    /// Calls hooks for the current Cluster; returns the tracker.
    pub(in crate::topology) fn ask<T>(
        &mut self,
        ask: impl Fn(&HookCaller<'_>, &mut HookTracker) -> Result<T, Failure>,
    ) -> Result<(T, HookTracker), Failure> {
        let cluster: Cluster = serde_json::from_value(self.cluster.clone()).unwrap();
        let options = Options::new(self.has_hooks);
        self.gather(Facts::default(), |world| {
            let mut tracker = HookTracker::for_cluster(&cluster);
            let answer = ask(&HookCaller::new(&cluster, world, &options), &mut tracker)?;
            Ok((answer, tracker))
        })
    }

    fn gather<T>(&mut self, facts: Facts, compute: impl Fn(&World) -> Result<T, Failure>) -> Result<T, Failure> {
        let facts = if self.is_offline { facts.with_objects(self.objects()) } else { facts };
        let mut world = World::new(Arc::new(facts));
        // A hook ends its round, and there are 16 of those.
        for _ in 0..16 {
            let result = compute(&world);
            let needs = world.take_needs();
            if needs.is_empty() {
                return result;
            }
            assert!(result.is_err(), "{needs:?}");
            assert!(needs.iter().filter(|need| matches!(need, Need::Hook(_))).count() <= 1, "{needs:?}");
            for need in needs {
                let answer = self.answer(&need);
                world.pin(need, answer);
            }
        }
        panic!("not done after 16 rounds")
    }

    /// Decides, writes what may be written, and reports.
    pub(in crate::topology) fn step(&mut self) -> Round {
        let round = self.decide().unwrap();
        self.apply(&round);
        round
    }

    /// Writes the decisions, except for what is frozen or must not be created.
    pub(in crate::topology) fn apply(&mut self, round: &Round) {
        let tracker = &round.tracker;
        if let Some(object) = &mut self.control_plane
            && !tracker.is_control_plane_frozen()
        {
            object["spec"]["version"] = json!(round.control_plane);
        }
        for ((kind, name), version) in &round.workers {
            match self.workers.get_mut(&(*kind, name.clone())) {
                Some(worker) if !tracker.is_worker_frozen(*kind, &object_name(name)) => {
                    worker.version.clone_from(version);
                }
                None if !tracker.is_pending_create(*kind, name) => {
                    let machines = vec![version.clone(); 2];
                    self.workers.insert((*kind, name.clone()), Worker { version: version.clone(), machines });
                }
                _ => {}
            }
        }
        let annotations = self.cluster["metadata"]["annotations"].as_object_mut().unwrap();
        match tracker.hooks.annotation() {
            Some(value) => annotations.insert(annotation::PENDING_HOOKS.to_owned(), json!(value)),
            None => annotations.remove(annotation::PENDING_HOOKS),
        };
        match round.marks_a_step {
            true => annotations.insert(annotation::UPGRADE_STEP.to_owned(), json!(round.control_plane)),
            false => annotations.remove(annotation::UPGRADE_STEP),
        };
    }

    /// The machines of the control plane have its version.
    pub(in crate::topology) fn finish_control_plane(&mut self) {
        if let Some(object) = &mut self.control_plane {
            object["status"] = json!({"version": object["spec"]["version"]});
        }
    }

    /// Whether machines of the control plane do not have its version.
    pub(in crate::topology) fn is_control_plane_rolling(&self) -> bool {
        self.control_plane.as_ref().is_some_and(|object| object["status"]["version"] != object["spec"]["version"])
    }

    /// The machines of a worker have its version.
    pub(in crate::topology) fn finish(&mut self, name: &str) {
        let worker = self.worker_mut(name);
        worker.machines = vec![worker.version.clone(); 2];
    }

    /// The workers whose machines do not have the version of their worker.
    pub(in crate::topology) fn rolling(&self) -> Vec<&str> {
        let behind = |worker: &Worker| worker.machines.iter().any(|machine| *machine != worker.version);
        self.workers.iter().filter(|(_, worker)| behind(worker)).map(|((_, name), _)| name.as_str()).collect()
    }

    fn current(&self) -> Current {
        let of = |kind: WorkerKind| {
            let workers = self.workers.iter().filter(|((of, _), _)| *of == kind);
            let current = workers.map(|((_, name), worker)| {
                let object = object(worker.object(kind, name));
                (name.clone(), CurrentWorker { object, bootstrap: None, infrastructure: None, health_check: None })
            });
            current.collect()
        };
        Current {
            infrastructure: None,
            control_plane: CurrentControlPlane {
                object: self.control_plane.clone().map(object),
                ..CurrentControlPlane::default()
            },
            machine_deployments: of(MD),
            machine_pools: of(MP),
        }
    }

    /// Machines and Nodes.
    fn objects(&self) -> ObjectSet {
        let mut objects = ObjectSet::default();
        for ((kind, name), worker) in &self.workers {
            for (index, version) in worker.machines.iter().enumerate() {
                objects.put(object(machine(*kind, name, index, version)));
            }
        }
        objects
    }

    fn answer(&mut self, need: &Need) -> Answer {
        match need {
            Need::List(selection) => Answer::List(Found::Yes(self.objects().list(selection))),
            Need::Nodes(NodesOf { cluster, names }) => {
                let nodes = self.objects().nodes(cluster).into_iter().filter(|(name, _)| names.contains(name));
                Answer::Nodes(Found::Yes(nodes.collect()))
            }
            Need::Object(reference) if reference.kind == "Cluster" => {
                Answer::Object(Found::Yes(object(self.cluster.clone())))
            }
            Need::Hook(call) => {
                self.calls.push((call.hook, serde_json::from_str(&call.request).unwrap()));
                Answer::Hook(match self.extensions.get(&call.hook) {
                    _ if self.failing == Some(call.hook) => Found::Unreadable("out of order".to_owned()),
                    Some(answer) => Found::Yes(answer.clone()),
                    None => Found::Absent,
                })
            }
            Need::GenerateUpgradePlan(_) => {
                let plan = self.planner.clone();
                Answer::GenerateUpgradePlan(plan.map_or(Found::Unreadable("out of order".to_owned()), Found::Yes))
            }
            other => other.unanswered("not part of this test"),
        }
    }
}

impl Worker {
    fn object(&self, kind: WorkerKind, name: &str) -> Value {
        let nodes: Vec<Value> = (0..self.machines.len()).map(|index| json!({"name": node_name(name, index)})).collect();
        json!({
            "apiVersion": API_VERSION, "kind": kind.name(),
            "metadata": {"namespace": "ns", "name": object_name(name)},
            "spec": {
                "selector": {"matchLabels": {label::CLUSTER_NAME: "c", kind.label(): name}},
                "template": {"spec": {"version": self.version}},
            },
            "status": if kind == MP { json!({"nodeRefs": nodes}) } else { json!({}) },
        })
    }
}

fn node_name(worker: &str, index: usize) -> String {
    format!("{worker}-{index}")
}

/// A Machine of a deployment, or a Node of a pool.
fn machine(kind: WorkerKind, worker: &str, index: usize, version: &str) -> Value {
    let name = node_name(worker, index);
    match kind {
        WorkerKind::MachineDeployment => json!({
            "apiVersion": API_VERSION, "kind": "Machine",
            "metadata": {"namespace": "ns", "name": name, "labels": {label::CLUSTER_NAME: "c", kind.label(): worker}},
            "spec": {"version": version},
        }),
        WorkerKind::MachinePool => json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "annotations": {
                "cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/cluster-namespace": "ns"}},
            "status": {"nodeInfo": {"kubeletVersion": version}},
        }),
    }
}

fn compute(blueprint: &Blueprint, current: &Current, world: &World, options: Options) -> Result<Round, Failure> {
    let of_control_plane = PlannedUpgrade::new(blueprint, current, world, &options)?.decide_control_plane()?;
    let control_plane = of_control_plane.version().to_string();
    let marks_a_step = of_control_plane.marks_a_step();
    let pending = of_control_plane.pending_hooks().clone();
    let decided = of_control_plane.decide_workers()?;
    assert_eq!(&pending, decided.state.tracker.hooks.pending(), "workers mark no hooks");
    let mut workers = BTreeMap::new();
    for kind in WorkerKind::ALL {
        for (position, entry) in kind.entries(blueprint.topology()).iter().enumerate() {
            workers.insert((kind, entry.name.to_owned()), decided.worker_version(kind, position).to_string());
        }
    }
    let tracker = decided.call_due_hooks()?;
    let run = ReconcileOutcome {
        cluster: &blueprint.cluster,
        class: None,
        tracker: &tracker,
        error: None,
        is_too_large: false,
        guard: DeletionGuard::default(),
    };
    let condition = topology_reconciled(&run);
    Ok(Round { control_plane, workers, tracker, marks_a_step, condition })
}
