//! Differences that an API server confirms, or not.

use serde_json::{Value, json};

use super::{SIZE, SMITH, action_and_part, blade};
use crate::topology::plan::{AppliedState, Certainty, DryRunServer, Plan, PlanStep, TopologySimulator};
use crate::topology::shim::Shim;
use crate::topology::testing::Scene;
use crate::topology::{Computation, Failure, Options};
use model::hub::names::{DeterministicNames, Names};
use model::hub::{ClusterClass, Object, ObjectKey, ResourceDefinition};
use model::world::{Answer, DryRun, DryRunCall, Facts, Found, Need, World};
use std::sync::{Arc, Mutex};

const GROUND: &str = "ForgeClusterTemplate ground";
const SITE: &str = "/spec/template/spec/site";

/// A world that was rolled out before its edits.
fn edited(edits: &[(&str, &str, Value)]) -> TopologySimulator {
    let before = Scene::new();
    let after = edits.iter().fold(before.clone(), |scene, (which, at, value)| scene.at(which, at, value.clone()));
    let mut old = before.simulator();
    old.roll_out(&blade());
    let mut fold = after.simulator();
    fold.take_over(&blade(), &old);
    fold
}

/// What is planned with an API server that answers dry runs like this, and the kinds that it is asked about in each
/// round.
fn planned(
    fold: &TopologySimulator,
    answer: impl Fn(&DryRunCall) -> Found<DryRun>,
) -> (Result<Plan, Failure>, Vec<Vec<String>>) {
    planned_with(fold, &mut DeterministicNames, answer)
}

/// The same, with ends of names from somewhere else.
pub(super) fn planned_with(
    fold: &TopologySimulator,
    names: &mut dyn Names,
    answer: impl Fn(&DryRunCall) -> Found<DryRun>,
) -> (Result<Plan, Failure>, Vec<Vec<String>>) {
    planned_in(|world| world, fold, names, answer)
}

/// The same in a world with other options.
fn planned_in(
    options: impl FnOnce(World) -> World,
    fold: &TopologySimulator,
    names: &mut dyn Names,
    answer: impl Fn(&DryRunCall) -> Found<DryRun>,
) -> (Result<Plan, Failure>, Vec<Vec<String>>) {
    let there = fold.facts();
    let (Found::Yes(cluster), Found::Yes(class)) =
        (there.cluster(&blade()), there.class(&ObjectKey::new("ns", "forge")))
    else {
        panic!("Cluster and class are there")
    };
    let facts = Facts::complete([(*cluster).clone()], [ClusterClass::clone(&class)]);
    let (mut world, objects) = (options(World::new(Arc::new(facts))), there.objects().unwrap());
    let labels = [("cluster.x-k8s.io/v1beta2".to_owned(), "v1beta2".to_owned())].into();
    let definition = ResourceDefinition { labels, ..ResourceDefinition::default() };
    let mut asked = Vec::new();
    for _ in 0..16 {
        let computation = Computation::from_world(&cluster, &world, names, &Options::new(false));
        let plan = computation.and_then(|one| Plan::from_computation(&one, &world, &AppliedState::default(), names));
        let needs = world.take_needs();
        if needs.is_empty() {
            return (plan, asked);
        }
        assert_eq!(plan.err(), Some(Failure::NotAsked));
        let mut dry = Vec::new();
        for need in needs {
            let answer = match &need {
                Need::Object(reference) => Answer::Object(objects.object(reference)),
                Need::List(selection) => Answer::List(Found::Yes(objects.list(selection))),
                Need::Definition(_) => Answer::Definition(Found::Yes(Arc::new(definition.clone()))),
                Need::DryRun(call) => {
                    dry.push(call.object.kind.clone());
                    Answer::DryRun(answer(call))
                }
                other => other.unanswered("nobody knows"),
            };
            world.pin(need, answer);
        }
        asked.extend(Some(dry).filter(|dry| !dry.is_empty()));
    }
    panic!("there is no end of needs");
}

/// The answer that two objects differ, which are what is there and what is sent, changed once more.
pub(super) fn differs(call: &DryRunCall, change: impl Fn(&mut Object, &mut Object)) -> Found<DryRun> {
    let read = |text: &str| Object::try_from(serde_json::from_str::<Value>(text).unwrap()).unwrap();
    let (mut current, mut desired) = (read(&call.current), read(&call.sent));
    change(&mut current, &mut desired);
    Found::Yes(DryRun::Differs { current: Arc::new(current), desired: Arc::new(desired) })
}

fn steps(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(action_and_part).collect()
}

#[test]
fn differences_that_the_api_server_would_not_store_are_none() {
    // DEC-15, ROT-07, SSA-13
    let fold = edited(&[(SMITH, SIZE, json!("SMALL")), (GROUND, SITE, json!("NORTH"))]);
    let (plan, asked) = planned(&fold, |_| Found::Yes(DryRun::Same));
    assert_eq!(steps(&plan.unwrap()), [""; 0]);
    assert_eq!(asked, [["ForgeCluster", "ForgeMachineTemplate"]], "both in one round");
    let unchanged = edited(&[]);
    assert_eq!(planned(&unchanged, |_| panic!("nothing differs")).1, [[""; 0]; 0]);
}

#[test]
fn only_differences_that_the_api_server_would_store_are_written() {
    // DEC-15, ROT-04, SSA-12, SSA-13
    let fold = edited(&[(SMITH, SIZE, json!("LARGE"))]);
    let same = |_: &mut Object, desired: &mut Object| desired.set("spec.template.spec.size", json!("large")).unwrap();
    let (plan, asked) = planned(&fold, |call| differs(call, same));
    let plan = plan.unwrap();
    assert_eq!(steps(&plan), ["rotate MachineDeployment/md/infrastructure", "apply MachineDeployment/md"]);
    let PlanStep { changes, certainty, .. } = &plan.steps[0];
    let to: Vec<_> = changes.iter().map(|change| (&*change.path, change.to.clone())).collect();
    assert_eq!((to, *certainty), (vec![("spec.template.spec.size", Some(json!("large")))], Certainty::Exact));
    // The machine deployment has to refer to the new template, which it is asked about then.
    assert_eq!(asked, [["ForgeMachineTemplate"], ["MachineDeployment"]]);

    // Below spec nothing differs after all: the template is changed in place.
    let metadata = |current: &mut Object, desired: &mut Object| {
        desired.set("spec", current.at("spec").unwrap().clone()).unwrap();
        desired.set("metadata.labels.late", json!("shift")).unwrap();
    };
    let (plan, _) = planned(&fold, |call| differs(call, metadata));
    let plan = plan.unwrap();
    assert_eq!(steps(&plan), ["apply MachineDeployment/md/infrastructure"]);
    assert_eq!(plan.steps[0].changes[0].path, "metadata.labels.late");
    assert!(plan.steps[0].uid.is_some());
}

#[test]
fn an_object_that_refers_to_a_new_template_needs_no_dry_run() {
    // DEC-120
    let fold = edited(&[(SMITH, SIZE, json!("LARGE")), (GROUND, SITE, json!("NORTH"))]);
    let same = |_: &mut Object, _: &mut Object| ();
    let (plan, asked) =
        planned_in(World::without_certain_dry_runs, &fold, &mut DeterministicNames, |call| differs(call, same));
    let plan = plan.unwrap();
    let want = ["apply infrastructure", "rotate MachineDeployment/md/infrastructure", "apply MachineDeployment/md"];
    assert_eq!(steps(&plan), want);
    assert_eq!(asked, [["ForgeCluster", "ForgeMachineTemplate"]], "but not about the MachineDeployment");
    let PlanStep { changes, certainty, .. } = &plan.steps[2];
    assert!(changes.iter().any(|change| change.path == "spec.template.spec.infrastructureRef.name"), "{changes:?}");
    assert_eq!(*certainty, Certainty::Exact);
    // Without a new template, a server is asked.
    let metadata = |current: &mut Object, desired: &mut Object| *desired = current.clone();
    let (plan, _) =
        planned_in(World::without_certain_dry_runs, &fold, &mut DeterministicNames, |call| differs(call, metadata));
    assert_eq!(steps(&plan.unwrap()), [""; 0]);
}

#[test]
fn fields_that_change_their_owner_only_are_written_in_place() {
    // SSA-13, ROT-04
    let fold = edited(&[(SMITH, SIZE, json!("LARGE"))]);
    let owners = |current: &mut Object, desired: &mut Object| {
        *desired = current.clone();
        desired.set("metadata.managedFields", json!([{"manager": "capi-topology"}])).unwrap();
    };
    let (plan, _) = planned(&fold, |call| differs(call, owners));
    let plan = plan.unwrap();
    assert_eq!(steps(&plan), ["apply MachineDeployment/md/infrastructure"]);
    assert!(plan.steps[0].changes.is_empty());
}

#[test]
fn an_object_that_the_api_server_rejects_fails_the_plan() {
    // SSA-09, RS-36
    let fold = edited(&[(GROUND, SITE, json!("nowhere"))]);
    let refused = "ForgeCluster ns/x failed to apply in a dry run: no";
    let (plan, _) = planned(&fold, |_| Found::Unreadable(refused.to_owned()));
    let plan = plan.unwrap();
    assert_eq!((steps(&plan), plan.failure.unwrap().to_string()), (vec![], refused.to_owned()));
}

#[test]
fn steps_before_a_rejection_are_written_and_no_unused_template_is_created() {
    // RS-12, RS-21, RS-32
    let brain = "ForgeMachineTemplate brain";
    let fold = edited(&[(GROUND, SITE, json!("south")), (brain, SIZE, json!("huge")), (SMITH, SIZE, json!("large"))]);
    let of = |fails: &str| {
        let (plan, _) = planned(&fold, |call| match call.object.kind == fails {
            true => Found::Unreadable("no".to_owned()),
            false => differs(call, |_, _| ()),
        });
        let plan = plan.unwrap();
        (steps(&plan), plan.failure.map(|failure| failure.to_string()))
    };
    let failed = Some("no".to_owned());
    let control_plane = ["rotate controlPlane/machines", "apply controlPlane", "delete controlPlane/machines"];
    let before = [&["apply infrastructure"][..], &control_plane].concat();
    let owned = |steps: &[&str]| steps.iter().map(|step| (*step).to_owned()).collect::<Vec<_>>();
    assert_eq!(of("KubeadmControlPlane"), (owned(&["apply infrastructure"]), failed.clone()));
    assert_eq!(of("MachineDeployment"), (owned(&before), failed));
    let all = [&before[..], &["rotate MachineDeployment/md/infrastructure", "apply MachineDeployment/md"]].concat();
    assert_eq!(of("nothing"), (owned(&all), None));
}

#[test]
fn a_new_infrastructure_cluster_is_noted_although_there_can_be_no_control_plane() {
    // RS-18
    let endpoint = json!({"host": 5});
    let scene = Scene::new().at("KubeadmControlPlaneTemplate", "/spec/template/spec/controlPlaneEndpoint", endpoint);
    let plan = planned(&scene.simulator(), |_| panic!("nothing is compared")).0.unwrap();
    assert_eq!(steps(&plan), ["create infrastructure", "apply cluster"]);
    let paths: Vec<_> = plan.steps[1].changes.iter().map(|change| &*change.path).collect();
    assert!(paths.contains(&"spec.infrastructureRef") && !paths.contains(&"spec.controlPlaneRef"), "{paths:?}");
    assert!(plan.failure.unwrap().to_string().contains("spec.controlPlaneEndpoint.host"));
}

#[test]
fn a_dry_run_uses_the_name_of_the_existing_object() {
    // SSA-05, SSA-07, SSA-09
    let fold = edited(&[(SMITH, SIZE, json!("LARGE"))]);
    planned(&fold, |call| {
        let (current, sent): (Value, Value) =
            (serde_json::from_str(&call.current).unwrap(), serde_json::from_str(&call.sent).unwrap());
        for field in ["name", "uid"] {
            assert_eq!(current["metadata"][field], sent["metadata"][field], "{field}");
        }
        assert_eq!(sent["spec"]["template"]["spec"]["size"], "LARGE");
        assert!(!format!("{call:?}").contains("LARGE"), "{call:?}");
        Found::Yes(DryRun::Same)
    })
    .0
    .unwrap();
}

#[test]
fn a_bootstrap_of_another_kind_is_not_tried() {
    // ROT-08
    let other = "bootstrap.cluster.x-k8s.io/v1beta1";
    let document = json!({"apiVersion": other, "kind": "OtherConfigTemplate",
        "metadata": {"namespace": "ns", "name": "smith"}, "spec": {"template": {"spec": {"a": 1}}}});
    let reference = json!({"apiVersion": other, "kind": "OtherConfigTemplate", "name": "smith"});
    let path = "/spec/workers/machineDeployments/0/bootstrap/templateRef";
    let mut old = Scene::new().simulator();
    old.roll_out(&blade());
    let mut fold = Scene::new().with(document).at("ClusterClass", path, reference).simulator();
    fold.take_over(&blade(), &old);
    let (plan, asked) = planned(&fold, |call| differs(call, |_, _| ()));
    assert_eq!(steps(&plan.unwrap()), ["rotate MachineDeployment/md/bootstrap", "apply MachineDeployment/md"]);
    assert_eq!(asked, [["MachineDeployment"]]);
}

#[test]
fn the_shim_is_created_first_and_deleted_when_the_cluster_owns_both() {
    // RS-14, RS-38, LBL-06, DEC-47: what the reference created is left to garbage collection
    let owner = |kind: &str, name: &str| json!({"apiVersion": "x/v0", "kind": kind, "name": name, "uid": "any"});
    let (cluster, shim) = (owner("Cluster", "blade"), owner("ConfigMap", "blade-shim"));
    let (other, former) = (owner("Cluster", "other"), owner("Secret", "blade-shim"));
    let rolled_out = |scene: Scene| {
        let mut fold = scene.simulator();
        fold.roll_out(&blade());
        fold
    };
    let plan = |fold: &TopologySimulator| planned(fold, |_| Found::Yes(DryRun::Same)).0.unwrap().shim;
    assert_eq!(plan(&Scene::new().simulator()), Shim::Create);
    for (ground, brain, want) in [
        (json!([]), json!([]), Shim::Keep),
        (json!([shim]), json!([shim]), Shim::Keep),
        (json!([shim, cluster]), json!([shim]), Shim::Keep),
        (json!([shim, cluster]), json!([shim, cluster]), Shim::Delete),
        (json!([cluster]), json!([shim, cluster]), Shim::Delete),
        (json!([cluster]), json!([cluster]), Shim::Keep),
        (json!([former, cluster]), json!([former, cluster]), Shim::Keep),
        (json!([former, cluster]), json!([shim, cluster]), Shim::Delete),
        (json!([shim, other]), json!([shim, cluster]), Shim::Keep),
    ] {
        let mut fold = rolled_out(Scene::new());
        for (kind, owners) in [("ForgeCluster", &ground), ("KubeadmControlPlane", &brain)] {
            let object = fold.objects_of(&blade()).into_iter().find(|one| one.kind() == kind).unwrap();
            let mut object = Object::clone(&object);
            object.set("metadata.ownerReferences", owners.clone()).unwrap();
            fold.facts_mut().objects_mut().unwrap().put(Arc::new(object));
        }
        assert_eq!(plan(&fold), want, "{ground} {brain}");
    }
}

/// A server that answers all dry runs alike, and keeps the kinds that it was asked about.
#[derive(Debug, Default)]
struct Alike {
    differs: bool,
    asked: Mutex<Vec<Vec<String>>>,
}

impl DryRunServer for Alike {
    fn answers(&self, calls: Vec<DryRunCall>) -> Vec<(DryRunCall, Found<DryRun>)> {
        self.asked.lock().unwrap().push(calls.iter().map(|call| call.object.kind.clone()).collect());
        let answer = |call: &DryRunCall| if self.differs { differs(call, |_, _| {}) } else { Found::Yes(DryRun::Same) };
        calls.into_iter().map(|call| (call.clone(), answer(&call))).collect()
    }
}

/// The rollout of edits with objects on a server, except for machine health checks.
fn tried(server: &Arc<Alike>) -> Vec<Vec<PlanStep>> {
    let mut fold = edited(&[(SMITH, SIZE, json!("SMALL")), (GROUND, SITE, json!("NORTH"))]);
    for (version, object) in fold.objects_of(&blade()).into_iter().enumerate() {
        let mut object = Object::clone(&object);
        object.set("metadata.resourceVersion", json!(version.to_string())).unwrap();
        fold.facts_mut().objects_mut().unwrap().put(Arc::new(object));
    }
    let outcome = fold.with_server(server.clone()).roll_out(&blade());
    assert_eq!(outcome.failure, None);
    outcome.rounds.into_iter().map(|round| round.steps).collect()
}

#[test]
fn a_plan_of_a_running_cluster_makes_dry_runs_for_existing_objects() {
    // DEC-43
    let same = Arc::new(Alike::default());
    assert_eq!(tried(&same), [[]; 0], "the server does not see what is different");
    assert_eq!(*same.asked.lock().unwrap(), [["ForgeCluster", "ForgeMachineTemplate"]], "side by side");

    let server = Arc::new(Alike { differs: true, ..Alike::default() });
    let rounds = tried(&server);
    let action_and_part: Vec<String> = rounds.iter().flatten().map(action_and_part).collect();
    let want = ["apply infrastructure", "rotate MachineDeployment/md/infrastructure", "apply MachineDeployment/md"];
    assert_eq!(action_and_part, want);
    assert!(rounds[0].iter().all(|step| step.certainty == Certainty::Exact), "{rounds:?}");
    let asked = server.asked.lock().unwrap().concat();
    assert_eq!(
        asked,
        ["ForgeCluster", "ForgeMachineTemplate", "MachineDeployment"],
        "nothing that was written is tried"
    );
}
