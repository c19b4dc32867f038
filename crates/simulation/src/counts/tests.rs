//! Comparison of the machine counts in plans with the machines that rollouts replace, remove and add: for generated
//! edits, and for edits with former differences (ROLL-1 to ROLL-18, DEC-42).

use std::fs;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;
use engine::topology::plan::Roll;
use engine::topology::testing::Scene;
use machines::lifecycle::settings::Timings;

const BEGIN: &str = "2030-01-01T00:00:00Z";
/// Time of the edit; the times of `rollout.after` are before and after it.
const NOW: &str = "2030-02-01T00:00:00Z";
const MONTH: Duration = Duration::from_hours(31 * 24);
/// Maximum duration of a rollout.
const HOUR: Duration = Duration::from_hours(1);
const PASSED: &str = "2030-01-31T00:00:00Z";
const FUTURE: &str = "2030-06-01T00:00:00Z";
const VERSIONS: [&str; 5] = ["v1.31.0", "v1.31.4", "v1.32.1", "v1.33.0", "v1.34.2"];
const SMITH: &str = "ForgeMachineTemplate smith";
const CONFIG: &str = "/spec/template/spec/kubeadmConfigSpec";

/// Machines per part: replaced, removed, added, and outdated until deleted.
type Counts = BTreeMap<String, [i64; 4]>;

/// A change of a document: which document, path, and new value.
type DocumentChange = (&'static str, String, Value);

fn with(scene: Scene, settings: &[DocumentChange]) -> Scene {
    settings.iter().fold(scene, |scene, (which, at, value)| scene.at(which, at, value.clone()))
}

fn cluster_of(scene: &Scene) -> Object {
    Object::try_from(scene.document("Cluster").clone()).unwrap()
}

/// The world of a scene without its Cluster, which a simulation creates.
fn topologies(scene: &Scene) -> Topologies {
    let mut topologies = scene.simulator();
    topologies.facts_mut().remove_cluster(&cluster_of(scene).key());
    topologies
}

/// The rolls of a plan of the edit.
fn planned(before: &Scene, after: &Scene) -> Vec<Roll> {
    let key = cluster_of(before).key();
    let mut old = before.simulator();
    assert_eq!(old.settle(&key).failure, None);
    let mut new = after.simulator().at(NOW.parse().unwrap());
    new.take_over(&key, &old);
    let rollout = new.roll_out(&key);
    assert_eq!(rollout.failure, None);
    rollout.rounds.into_iter().flat_map(|round| round.rolls).collect()
}

/// A rollout on a virtual clock, settled before the edit.
struct RolloutScenario {
    simulation: Simulation,
    key: ObjectKey,
    /// Machines deleted by the user because they were outdated.
    deleted: BTreeMap<String, i64>,
}

impl RolloutScenario {
    fn for_scene(scene: &Scene) -> Self {
        let settings = MachineSettings { timings: Timings::NONE, runtime_hooks: false, ..MachineSettings::default() };
        let cluster = cluster_of(scene);
        let mut simulation = Simulation::new(topologies(scene), settings, Moment::parse(BEGIN).unwrap());
        simulation.put_cluster(&cluster).unwrap();
        let mut world = RolloutScenario { simulation, key: cluster.key(), deleted: BTreeMap::new() };
        world.run();
        world.simulation.machines.pass(MONTH);
        world.run();
        world.simulation.restart();
        world
    }

    fn run(&mut self) {
        let end = self.simulation.run(HOUR, |_| ());
        assert_eq!(end, End::Converged, "{:#?}", self.simulation.timeline.clusters[&self.key].events);
    }

    /// Makes the edit, like `kubectl apply` of all files.
    fn edit(&mut self, before: &Scene, after: &Scene) {
        for document in after.documents().iter().filter(|document| !before.documents().contains(document)) {
            if document["kind"] != "Cluster" && document["kind"] != "ClusterClass" {
                self.simulation.put(&Object::try_from(document.clone()).unwrap()).unwrap();
            }
        }
        let after_facts = topologies(after);
        let into = self.simulation.topologies_mut().facts_mut();
        for key in after_facts.facts().class_keys() {
            let Found::Yes(class) = after_facts.facts().class(key) else { panic!("{key} can be read") };
            into.put_compiled(key.clone(), Record::Readable(class));
        }
        self.simulation.put_cluster(&cluster_of(after)).unwrap();
    }

    /// Runs to the end, and deletes machines that are still outdated.
    fn finish(&mut self) -> Counts {
        const TIMES: usize = 10;
        for _ in 0..TIMES {
            let end = self.simulation.run(HOUR, |_| ());
            let outdated = self.outdated();
            if outdated.is_empty() {
                assert_eq!(end, End::Converged, "{:#?}", self.simulation.timeline.clusters[&self.key].events);
                return self.counts();
            }
            for (id, part) in outdated {
                *self.deleted.entry(part).or_default() += 1;
                self.simulation.delete(&id);
            }
        }
        panic!("machines are outdated after they were deleted {TIMES} times: {:?}", self.outdated());
    }

    /// The outdated Machines whose strategy is `OnDelete`.
    fn outdated(&self) -> Vec<(ObjectId, String)> {
        let objects = self.simulation.objects();
        let of = |kind: &str| objects.of_cluster(&GroupKind::core(kind), &self.key);
        let is_on_delete = |name: &str| {
            of("MachineDeployment").iter().any(|deployment| {
                deployment.label(model::hub::label::DEPLOYMENT_NAME) == Some(name)
                    && deployment.at("spec.rollout.strategy.type") == Some(&json!("OnDelete"))
            })
        };
        let machines = of("Machine");
        let outdated = machines.iter().filter(|machine| conditions::is_false(machine, "UpToDate"));
        let of_part = outdated.filter_map(|machine| {
            let name = machine.label(model::hub::label::DEPLOYMENT_NAME).filter(|name| is_on_delete(name))?;
            Some((ObjectId::for_object(machine), format!("MachineDeployment/{name}")))
        });
        of_part.collect()
    }

    /// Deletes the Cluster, and runs to the end.
    fn delete_cluster(&mut self) -> Counts {
        self.simulation.delete(&cluster_id(&self.key));
        self.simulation.run(HOUR, |_| ());
        self.counts()
    }

    /// The machines deleted with their Cluster: the desired number of each object, as in plans (ROLL-16).
    fn predicted_deletion(&self) -> Counts {
        let all = self.simulation.objects().everything_of(&self.key);
        let part = |object: &Object| match object.kind() {
            "MachineDeployment" => {
                Some(format!("MachineDeployment/{}", object.label(model::hub::label::DEPLOYMENT_NAME)?))
            }
            kind => kind.ends_with("ControlPlane").then(|| "controlPlane".to_owned()),
        };
        let number = |object: &Object| object.at("spec.replicas").and_then(Value::as_i64).filter(|number| *number > 0);
        all.iter().filter_map(|object| Some((part(object)?, [0, number(object)?, 0, 0]))).collect()
    }

    /// Counts of Machines since the edit.
    fn counts(&self) -> Counts {
        let mut events: BTreeMap<String, (i64, i64)> = BTreeMap::new();
        for machine in self.simulation.timeline.clusters[&self.key].machines.values() {
            let part = match machine.is_control_plane {
                true => "controlPlane".to_owned(),
                false => format!("MachineDeployment/{}", machine.owner),
            };
            let (made, gone) = events.entry(part).or_default();
            *made += i64::from(machine.made.is_some());
            *gone += i64::from(machine.gone.is_some());
        }
        let counts = events.into_iter().map(|(part, (made, gone))| {
            let deleted = self.deleted.get(&part).copied().unwrap_or_default();
            let (removed, added) = ((gone - made).max(0), (made - gone).max(0));
            (part, [gone - removed - deleted, removed, added, deleted])
        });
        counts.filter(|(_, counts)| *counts != [0; 4]).collect()
    }
}

/// The numbers of a plan; unknown ones are taken from the actual counts, if those are not lower and the plan gives a
/// reason.
fn reported_counts(rolls: &[Roll], actual: &Counts) -> Counts {
    let mut predicted = Counts::new();
    let is_counted = |roll: &&Roll| {
        matches!(roll.part, TopologyPart::ControlPlane | TopologyPart::Worker(_, _)) && roll.kind != "MachinePool"
    };
    for roll in rolls.iter().filter(is_counted) {
        let part = roll.part.to_string();
        let machines = roll.machines;
        let known = actual.get(&part).copied().unwrap_or_default();
        // Times in the future are after the end of these rollouts.
        let replaced = if roll.from.is_none() { machines.replaced } else { Some(0) };
        let numbers = [replaced, machines.removed, machines.added, machines.outdated_until_deleted];
        let sums = predicted.entry(part.clone()).or_default();
        for (i, number) in numbers.into_iter().enumerate() {
            if number.is_none() {
                assert!(roll.reason.contains("number of its machines"), "{}", roll.reason);
                assert!(known[0] + known[3] >= machines.at_least, "{part}: {known:?}, {machines:?}");
            }
            sums[i] += number.unwrap_or(known[i]);
        }
    }
    predicted.retain(|_, counts| *counts != [0; 4]);
    predicted
}

/// Planned and actual counts.
fn compared(before: &Scene, after: &Scene) -> (Counts, Counts, Vec<Roll>) {
    let rolls = planned(before, after);
    let mut world = RolloutScenario::for_scene(before);
    world.edit(before, after);
    let actual = world.finish();
    (reported_counts(&rolls, &actual), actual, rolls)
}

/// Circumstances of an edit.
#[derive(Clone, Copy, Debug)]
enum Circumstance {
    None,
    /// The Cluster is paused with the edit, and resumed later (ROLL-18).
    Paused,
    /// The Cluster is deleted instead (ROLL-16).
    Deleted,
}

/// Planned and actual counts of an edit in a circumstance.
fn compared_in(circumstance: Circumstance, before: &Scene, after: &Scene) -> (Counts, Counts, Vec<Roll>) {
    match circumstance {
        Circumstance::None => compared(before, after),
        Circumstance::Paused => {
            let paused = after.clone().at("Cluster", "/spec/paused", json!(true));
            let mut world = RolloutScenario::for_scene(before);
            world.edit(before, &paused);
            world.simulation.run(HOUR, |_| ());
            let nothing = Counts::new();
            assert_eq!(
                reported_counts(&planned(before, &paused), &nothing),
                nothing,
                "the plan of a pause replaces nothing"
            );
            assert_eq!(world.counts(), nothing, "nothing happens during a pause");
            let rolls = planned(before, after);
            world.edit(&paused, after);
            let actual = world.finish();
            (reported_counts(&rolls, &actual), actual, rolls)
        }
        Circumstance::Deleted => {
            let mut world = RolloutScenario::for_scene(before);
            let predicted = world.predicted_deletion();
            (predicted, world.delete_cluster(), Vec::new())
        }
    }
}

fn circumstances() -> impl Strategy<Value = Circumstance> {
    select(vec![
        Circumstance::None,
        Circumstance::None,
        Circumstance::None,
        Circumstance::Paused,
        Circumstance::Deleted,
    ])
}

/// Equal planned and actual counts of an edit.
fn of_edit(before: &Scene, after: &Scene) -> Counts {
    let (predicted, actual, rolls) = compared(before, after);
    assert_eq!(predicted, actual, "{rolls:#?}");
    actual
}

fn of_part(part: &str, counts: [i64; 4]) -> Counts {
    Counts::from([(part.to_owned(), counts)])
}

const MD: &str = "MachineDeployment/md";

/// A control plane of three, and one set of two workers.
fn forge() -> Scene {
    with(
        Scene::new(),
        &[
            ("ClusterClass", "/spec/kubernetesVersions".to_owned(), json!(VERSIONS)),
            ("Cluster", "/spec/topology/controlPlane/replicas".to_owned(), json!(3)),
            ("Cluster", "/spec/topology/version".to_owned(), json!("v1.31.0")),
            (
                "Cluster",
                "/spec/topology/workers".to_owned(),
                json!({"machineDeployments": [{"name": "md", "class": "smith", "replicas": 2}]}),
            ),
        ],
    )
}

/// A scene with another kind of control plane: a known provider, or an unknown one (ROLL-14).
fn with_control_plane(scene: &Scene, kind: &str) -> Scene {
    let template = json!(format!("{kind}Template"));
    let scene = scene.clone().at("ClusterClass", "/spec/controlPlane/templateRef/kind", template.clone());
    scene.at("KubeadmControlPlaneTemplate", "/kind", template)
}

/// A patch that writes the topology version into the configuration of workers.
fn versioned_configuration() -> Value {
    patch(
        "KubeadmConfigTemplate",
        "bootstrap",
        json!({"machineDeploymentClass": {"names": ["*"]}}),
        json!({
            "path": "/spec/template/spec/files",
            "valueFrom": {"template": "[{path: /etc/version, content: {{ .builtin.cluster.topology.version }}}]"},
        }),
    )
}

fn patch(kind: &str, group: &str, resources: Value, mut operation: Value) -> Value {
    operation["op"] = json!("add");
    let api_version = format!("{group}.cluster.x-k8s.io/v1beta2");
    let selector = json!({"apiVersion": api_version, "kind": kind, "matchResources": resources});
    json!({"name": kind.to_lowercase(), "definitions": [{"selector": selector, "jsonPatches": [operation]}]})
}

#[test]
fn a_change_of_workers_that_comes_with_an_upgrade_replaces_their_machines_once() {
    // DEC-41, MA-17.2, MA-17.5
    let before = forge().at("ClusterClass", "/spec/patches", json!([versioned_configuration()]));
    let after = before.clone().at("Cluster", "/spec/topology/version", json!("v1.33.0"));
    let mut want = of_part(MD, [2, 0, 0, 0]);
    want.insert("controlPlane".to_owned(), [6, 0, 0, 0]);
    assert_eq!(of_edit(&before, &after), want);
    // Workers added meanwhile start with the new version.
    let after = after.at("Cluster", "/spec/topology/workers/machineDeployments/0/replicas", json!(4));
    want.insert(MD.to_owned(), [2, 0, 2, 0]);
    assert_eq!(of_edit(&before, &after), want);
}

#[test]
fn another_build_of_a_version_replaces_all_machines_once() {
    // DEC-71
    let builds = ["v1.33.1+rke2r1", "v1.33.1+rke2r2"];
    let at = |version: &str| forge().at("Cluster", "/spec/topology/version", json!(version));
    for listed in [json!(builds), json!([builds[1], builds[0]]), Value::Null] {
        for [from, to] in [builds, [builds[1], builds[0]]] {
            let [before, after] =
                [from, to].map(|version| at(version).at("ClusterClass", "/spec/kubernetesVersions", listed.clone()));
            let mut want = of_part(MD, [2, 0, 0, 0]);
            want.insert("controlPlane".to_owned(), [3, 0, 0, 0]);
            assert_eq!(of_edit(&before, &after), want, "{from} {to} {listed}");
        }
    }
    // A build of the next minor version, and then another build of it.
    let before = at("v1.32.4+rke2r1").at(
        "ClusterClass",
        "/spec/kubernetesVersions",
        json!(["v1.32.4+rke2r1", builds[0], builds[1]]),
    );
    let mut want = of_part(MD, [2, 0, 0, 0]);
    want.insert("controlPlane".to_owned(), [3, 0, 0, 0]);
    assert_eq!(of_edit(&before, &before.clone().at("Cluster", "/spec/topology/version", json!(builds[1]))), want);
}

#[test]
fn a_version_that_goes_back_is_one_step_with_the_annotation() {
    // UPG-003: admission allows it.
    let at = |version: &str| {
        let workers = json!({"machineDeployments": [
            {"name": "md", "class": "smith", "replicas": 2}, {"name": "more", "class": "smith", "replicas": 1},
        ]});
        let annotations = json!({"unsafe.topology.cluster.x-k8s.io/disable-update-version-check": ""});
        let scene = forge().at("Cluster", "/spec/topology/workers", workers);
        scene.at("Cluster", "/spec/topology/version", json!(version)).at(
            "Cluster",
            "/metadata/annotations",
            annotations,
        )
    };
    for to in ["v1.33.0", "v1.31.4"] {
        let mut want = of_part(MD, [2, 0, 0, 0]);
        want.insert("MachineDeployment/more".to_owned(), [1, 0, 0, 0]);
        want.insert("controlPlane".to_owned(), [3, 0, 0, 0]);
        assert_eq!(of_edit(&at("v1.34.2"), &at(to)), want, "{to}");
    }
}

#[test]
fn replicas_that_are_not_set_are_those_of_admission() {
    // ROLL-13, MA-28.3
    let before = forge().at("Cluster", "/spec/topology/controlPlane/replicas", Value::Null).at(
        "Cluster",
        "/spec/topology/workers/machineDeployments/0/replicas",
        Value::Null,
    );
    let after = before.clone().at("Cluster", "/spec/topology/version", json!("v1.31.4"));
    let mut want = of_part(MD, [1, 0, 0, 0]);
    want.insert("controlPlane".to_owned(), [1, 0, 0, 0]);
    assert_eq!(of_edit(&before, &after), want);
    let after = before.clone().at("Cluster", "/spec/topology/workers/machineDeployments/0/replicas", json!(3));
    assert_eq!(of_edit(&before, &after), of_part(MD, [0, 0, 2, 0]));
}

#[test]
fn a_number_that_an_autoscaler_sets_is_not_known_and_the_plan_reports_it() {
    // ROLL-13
    let bound = |name: &str| format!("cluster.x-k8s.io/cluster-api-autoscaler-node-group-{name}-size");
    let worker = json!({
        "name": "md", "class": "smith", "metadata": {"annotations": {bound("min"): "2", bound("max"): "5"}},
    });
    let before = forge().at("Cluster", "/spec/topology/workers/machineDeployments/0", worker);
    let after = before.clone().at(SMITH, "/spec/template/spec/size", json!("huge"));
    let (_, actual, rolls) = compared(&before, &after);
    assert_eq!(actual, of_part(MD, [2, 0, 0, 0]));
    let [roll] = &rolls[..] else { panic!("{rolls:#?}") };
    assert_eq!((roll.machines.replaced, roll.machines.at_least), (None, 2));
    assert!(
        roll.reason.ends_with("; an autoscaler sets the number of its machines, which is not in the files"),
        "{}",
        roll.reason
    );
}

#[test]
fn of_control_plane_machines_that_are_too_many_the_outdated_ones_go() {
    // ROLL-3, ROLL-12
    let init = format!("{CONFIG}/initConfiguration");
    let phases = |name: &str| json!({"skipPhases": [name]});
    let before = forge().at("KubeadmControlPlaneTemplate", &init, phases("addon/coredns"));
    let edited = before.clone().at("KubeadmControlPlaneTemplate", &init, phases("addon/kube-proxy"));
    assert_eq!(of_edit(&before, &edited), of_part("controlPlane", [1, 0, 0, 0]));
    let fewer = edited.at("Cluster", "/spec/topology/controlPlane/replicas", json!(1));
    assert_eq!(of_edit(&before, &fewer), of_part("controlPlane", [0, 2, 0, 0]));
}

#[test]
fn what_machines_join_with_does_not_concern_the_one_that_was_initialized() {
    // ROLL-3
    let join = |name: &str| json!({"skipPhases": [name]});
    let at = |scene: Scene, part: &str, name: &str| {
        scene.at("KubeadmControlPlaneTemplate", &format!("{CONFIG}/{part}"), join(name))
    };
    let joins = at(forge(), "joinConfiguration", "preflight");
    assert_eq!(of_edit(&forge(), &joins), of_part("controlPlane", [2, 0, 0, 0]));
    // The machine that ran `kubeadm init` then equals one that joins.
    let both = at(at(forge(), "initConfiguration", "preflight"), "joinConfiguration", "addon");
    let as_joined = at(at(forge(), "initConfiguration", "addon"), "joinConfiguration", "preflight");
    assert_eq!(of_edit(&both, &as_joined), of_part("controlPlane", [2, 0, 0, 0]));
}

#[test]
fn a_control_plane_without_machine_templates_has_no_machines() {
    // ROLL-14
    let before = forge().at("ClusterClass", "/spec/controlPlane/machineInfrastructure", Value::Null);
    for (path, value) in [("controlPlane/replicas", json!(5)), ("controlPlane/metadata", json!({"labels": {"a": "b"}}))]
    {
        let after = before.clone().at("Cluster", &format!("/spec/topology/{path}"), value);
        assert_eq!(of_edit(&before, &after), Counts::new());
    }
}

#[test]
fn a_time_that_has_passed_replaces_machines_and_one_in_the_future_does_not() {
    // ROLL-6, ROLL-10
    for (time, want) in [(PASSED, [[3, 0, 0, 0], [2, 0, 0, 0]]), (FUTURE, [[0; 4]; 2])] {
        for (path, part, want) in
            [("controlPlane", "controlPlane", want[0]), ("workers/machineDeployments/0", MD, want[1])]
        {
            let after = forge().at("Cluster", &format!("/spec/topology/{path}/rollout"), json!({"after": time}));
            let mut want = of_part(part, want);
            want.retain(|_, counts| *counts != [0; 4]);
            assert_eq!(of_edit(&forge(), &after), want, "{part} {time}");
        }
    }
    // The machine that ran `kubeadm init` still equals one that joins: nothing is replaced before the time.
    let template = "KubeadmControlPlaneTemplate";
    let after = forge().at(template, &format!("{CONFIG}/initConfiguration"), json!({"skipPhases": ["addon/coredns"]}));
    let timed = |scene: Scene| scene.at("Cluster", "/spec/topology/controlPlane/rollout", json!({"after": FUTURE}));
    assert_eq!(of_edit(&forge(), &timed(after)), Counts::new());
    // The only machine ran `kubeadm init`, so a change of joining machines replaces none of them now.
    let single = forge().at("Cluster", "/spec/topology/controlPlane/replicas", json!(1));
    let after =
        single.clone().at(template, &format!("{CONFIG}/joinConfiguration"), json!({"skipPhases": ["preflight"]}));
    assert_eq!(of_edit(&single, &timed(after)), Counts::new());
    // Only the machines that joined are replaced now, or they are those that are too many.
    let after =
        timed(forge().at(template, &format!("{CONFIG}/joinConfiguration"), json!({"skipPhases": ["preflight"]})));
    assert_eq!(of_edit(&forge(), &after), of_part("controlPlane", [2, 0, 0, 0]));
    let fewer = after.at("Cluster", "/spec/topology/controlPlane/replicas", json!(1));
    assert_eq!(of_edit(&forge(), &fewer), of_part("controlPlane", [0, 2, 0, 0]));
}

/// The class of the embedded provider, with a Cluster like that of [`forge`].
fn embedded() -> Scene {
    let path = testing::fixture("embedded");
    let text = |name: &str| fs::read_to_string(path.join(name)).unwrap();
    let workers = json!({"machineDeployments": [{"name": "md", "class": "default-worker", "replicas": 2}]});
    let scene = Scene::from_yaml(&format!("{}\n---\n{}", text("class.yaml"), text("cluster.yaml")));
    let variables = scene.document("ClusterClass")["spec"]["variables"].as_array().unwrap().iter().map(|variable| {
        let definition = json!({"from": "inline", "required": false, "schema": variable["schema"]});
        json!({"name": variable["name"], "definitionsConflict": false, "definitions": [definition]})
    });
    let conditions = json!([{"type": "VariablesReady", "status": "True"}]);
    let status = json!({"conditions": conditions, "variables": variables.collect::<Vec<_>>()});
    scene.at("ClusterClass", "/status", status).at("Cluster", "/metadata/uid", json!("uid-of-demo")).at(
        "Cluster",
        "/spec/topology/workers",
        workers,
    )
}

/// A set of workers.
fn workers(name: &'static str, class: &'static str) -> impl Strategy<Value = Value> {
    let strategies = vec![
        json!({}),
        json!({}),
        json!({"rollout": {"strategy": {"type": "OnDelete"}}}),
        json!({"rollout": {"strategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}}),
        json!({"rollout": {"strategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": "50%", "maxUnavailable": "50%"}}}}),
        json!({"rollout": {"after": PASSED}}),
        json!({"rollout": {"after": FUTURE}}),
    ];
    let members = vec![
        json!({"failureDomain": "rack-1"}),
        json!({"metadata": {"labels": {"team": "red"}}}),
        json!({"minReadySeconds": 3}),
        json!({"deletion": {"nodeDrainTimeoutSeconds": 5}}),
    ];
    (proptest::option::of(0..4), select(strategies), subsequence(members, 0..=2)).prop_map(
        move |(replicas, strategy, members)| {
            let mut set = json!({"name": name, "class": class});
            for part in members.into_iter().chain([strategy]) {
                set.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
            }
            set["replicas"] = replicas.map_or(Value::Null, |number: i32| json!(number));
            if set["replicas"].is_null() {
                set.as_object_mut().unwrap().remove("replicas");
            }
            set
        },
    )
}

/// Changes of a Cluster, and its index in the list of versions.
fn clusters(class: &'static str, versions: usize) -> impl Strategy<Value = (Vec<DocumentChange>, usize)> {
    let sets = ["md", "more"].map(|name| workers(name, class).boxed()).to_vec();
    let sets = subsequence(vec![0_usize, 1], 1..=2)
        .prop_flat_map(move |chosen| chosen.into_iter().map(|at| sets[at].clone()).collect::<Vec<_>>());
    let control_plane = select(vec![
        json!({}),
        json!({}),
        json!({"metadata": {"labels": {"a": "b"}}}),
        json!({"rollout": {"after": PASSED}}),
        json!({"rollout": {"after": FUTURE}}),
    ]);
    (sets, select(vec![1, 1, 3]), control_plane, 0..versions, 1_u8..3).prop_map(
        |(sets, replicas, mut control_plane, version, limit)| {
            control_plane["replicas"] = json!(replicas);
            let limit = json!({"topology.cluster.x-k8s.io/upgrade-concurrency": limit.to_string()});
            let settings = vec![
                ("Cluster", "/spec/topology/workers".to_owned(), json!({"machineDeployments": sets})),
                ("Cluster", "/spec/topology/controlPlane".to_owned(), control_plane),
                ("Cluster", "/metadata/annotations".to_owned(), limit),
            ];
            (settings, version)
        },
    )
}

/// Changes of patches and template fields.
fn of_forge() -> impl Strategy<Value = Vec<DocumentChange>> {
    let machine = |builtin: &str| json!({"path": "/spec/template/spec/image", "valueFrom": {"variable": builtin}});
    let workers = json!({"machineDeploymentClass": {"names": ["*"]}});
    let patches = vec![
        versioned_configuration(),
        patch("ForgeMachineTemplate", "infrastructure", workers, machine("builtin.machineDeployment.version")),
        patch(
            "ForgeMachineTemplate",
            "infrastructure",
            json!({"controlPlane": true}),
            machine("builtin.controlPlane.version"),
        ),
    ];
    let kubeadm = "KubeadmControlPlaneTemplate";
    let all: Vec<DocumentChange> = vec![
        (SMITH, "/spec/template/spec/size".to_owned(), json!("huge")),
        ("ForgeMachineTemplate brain", "/spec/template/spec/size".to_owned(), json!("huge")),
        ("KubeadmConfigTemplate smith", "/spec/template/spec/files".to_owned(), json!([{"path": "/a"}])),
        ("ForgeClusterTemplate ground", "/spec/template/spec/site".to_owned(), json!("south")),
        (kubeadm, format!("{CONFIG}/files"), json!([{"path": "/a"}])),
        (kubeadm, format!("{CONFIG}/initConfiguration"), json!({"skipPhases": ["addon/coredns"]})),
        (kubeadm, format!("{CONFIG}/joinConfiguration"), json!({"skipPhases": ["preflight"]})),
        (kubeadm, format!("{CONFIG}/clusterConfiguration"), json!({"dns": {"imageTag": "v1"}})),
        (kubeadm, "/spec/template/metadata".to_owned(), json!({"labels": {"a": "b"}})),
        (SMITH, "/metadata/annotations".to_owned(), json!({"a": "b"})),
    ];
    (subsequence(patches, 0..=2), subsequence(all, 0..=2)).prop_map(|(patches, mut settings)| {
        settings.push(("ClusterClass", "/spec/patches".to_owned(), json!(patches)));
        settings
    })
}

/// Changes for the embedded provider.
fn of_embedded() -> impl Strategy<Value = Vec<DocumentChange>> {
    let variables = vec![
        json!({"name": "motd", "value": "another"}),
        json!({"name": "workerStartup", "value": "3s"}),
        json!({"name": "kubeletArgs", "value": [{"name": "v", "value": "9"}]}),
    ];
    let startup = "/spec/template/spec/backend/inMemory/vm/provisioning/startupDuration";
    let all: Vec<DocumentChange> = vec![
        ("EmbeddedMachineTemplate embedded-control-plane-machine", startup.to_owned(), json!("4s")),
        (
            "EmbeddedConfigTemplate embedded-worker-bootstrap",
            "/spec/template/spec/format".to_owned(),
            json!("ignition"),
        ),
    ];
    (subsequence(variables, 0..=2), subsequence(all, 0..=1)).prop_map(|(variables, mut settings)| {
        settings.push(("Cluster", "/spec/topology/variables".to_owned(), json!(variables)));
        settings
    })
}

/// One side of an edit: changes of templates and the class, changes of the Cluster, and its index in the list of
/// versions.
type EditSide = (Vec<DocumentChange>, (Vec<DocumentChange>, usize));

/// A scene before and after an edit; versions do not decrease.
fn edit(base: &Scene, [one, other]: [EditSide; 2], versions: &[&str]) -> (Scene, Scene) {
    let (before, after) = if one.1.1 <= other.1.1 { (one, other) } else { (other, one) };
    let scene = |(templates, (cluster, version)): EditSide| {
        with(with(base.clone(), &templates), &cluster).at("Cluster", "/spec/topology/version", json!(versions[version]))
    };
    let (templates, (mut cluster, version)) = before;
    for (_, _, value) in &mut cluster {
        // A time that has passed would have replaced the machine that ran `kubeadm init`, which files do not tell.
        *value = serde_json::from_str(&value.to_string().replace(PASSED, FUTURE)).unwrap();
    }
    (scene((templates, (cluster, version))), scene(after))
}

/// Number of edits for each provider, overridden by `MACHINE_COUNTS`.
fn cases() -> u32 {
    std::env::var("MACHINE_COUNTS").map_or(40, |text| text.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 64, ..ProptestConfig::default() })]

    #[test]
    fn plans_of_kubeadm_control_planes_count_what_happens(
        one in (of_forge(), clusters("smith", VERSIONS.len())),
        other in (of_forge(), clusters("smith", VERSIONS.len())),
        circumstance in circumstances(),
    ) {
        let (before, after) = edit(&forge(), [one, other], &VERSIONS);
        let (predicted, actual, rolls) = compared_in(circumstance, &before, &after);
        prop_assert_eq!(predicted, actual, "{:?}: {:#?}", circumstance, rolls);
    }

    #[test]
    fn plans_of_other_control_planes_count_what_happens(
        one in (of_forge(), clusters("smith", VERSIONS.len())),
        other in (of_forge(), clusters("smith", VERSIONS.len())),
        kind in select(vec!["RKE2ControlPlane", "SmithControlPlane"]),
        circumstance in circumstances(),
    ) {
        let (before, after) = edit(&forge(), [one, other], &VERSIONS);
        let (before, after) = (with_control_plane(&before, kind), with_control_plane(&after, kind));
        let (predicted, actual, rolls) = compared_in(circumstance, &before, &after);
        prop_assert_eq!(predicted, actual, "{:?} {}: {:#?}", circumstance, kind, rolls);
    }

    #[test]
    fn plans_of_the_embedded_provider_count_what_happens(
        one in (of_embedded(), clusters("default-worker", 4)),
        other in (of_embedded(), clusters("default-worker", 4)),
        circumstance in circumstances(),
    ) {
        let versions = ["v1.32.0", "v1.32.9", "v1.33.5", "v1.34.2"];
        let (before, after) = edit(&embedded(), [one, other], &versions);
        let (predicted, actual, rolls) = compared_in(circumstance, &before, &after);
        prop_assert_eq!(predicted, actual, "{:?}: {:#?}", circumstance, rolls);
    }
}

#[test]
fn a_run_with_too_many_steps_and_one_that_is_stopped_say_so() {
    let scene = Scene::new();
    let cluster = cluster_of(&scene);
    let run = |limit: StepLimit, stop: Stop| {
        let settings = MachineSettings { timings: Timings::NONE, runtime_hooks: false, ..MachineSettings::default() };
        let simulation = Simulation::new(topologies(&scene), settings, Moment::parse(BEGIN).unwrap());
        let mut simulation = simulation.with_step_limit(limit).until(stop);
        simulation.put_cluster(&cluster).unwrap();
        let end = simulation.run(HOUR, |_| ());
        assert!(!simulation.ran_out, "more virtual time is not enough");
        (end, simulation.steps())
    };
    let stuck = |reason: StuckReason| End::Stuck(BTreeMap::from([(cluster.key(), reason)]));
    let (end, all) = run(StepLimit::default(), Stop::never());
    assert_eq!(end, End::Converged);
    assert_eq!(run(StepLimit { base: all, of_a_machine: 0 }, Stop::never()), (End::Converged, all));
    let (end, steps) = run(StepLimit { base: all / 2, of_a_machine: 0 }, Stop::never());
    assert!(all / 2 < steps && steps < all, "{steps} of {all}");
    assert_eq!(end, stuck(StuckReason::Exhausted { steps }));
    let (end, steps) = run(StepLimit::default(), Stop::when(|| true));
    assert!(steps < all, "{steps} of {all}");
    assert_eq!(end, stuck(StuckReason::Stopped));
}

/// Number of steps of an upgrade of a Cluster with this number of workers.
fn steps_of_upgrade(workers: i64) -> u64 {
    let sized = |version: &str| {
        with(
            forge(),
            &[
                ("Cluster", "/spec/topology/version".to_owned(), json!(version)),
                ("Cluster", "/spec/topology/workers/machineDeployments/0/replicas".to_owned(), json!(workers)),
            ],
        )
    };
    let (before, after) = (sized("v1.32.1"), sized("v1.33.0"));
    let mut scenario = RolloutScenario::for_scene(&before);
    let start = scenario.simulation.machines.steps();
    scenario.edit(&before, &after);
    scenario.run();
    scenario.simulation.machines.steps() - start
}

#[test]
fn a_machine_takes_as_many_steps_among_many_as_among_few() {
    // Each change of the number of a set must not concern all of its machines.
    let [few, twice, four_times] = [10, 20, 40].map(steps_of_upgrade);
    let (first, second) = (twice - few, four_times - twice);
    assert!(second < 21 * first / 10, "{few} steps for 10 workers, {twice} for 20 and {four_times} for 40");
}
