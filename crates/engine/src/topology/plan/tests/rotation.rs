//! Which templates are replaced and which objects stay, and what patches make of it.

use serde_json::{Value, json};

use std::sync::Arc;

use super::super::*;
use super::{SIZE, SMITH, action_and_part, blade, change, steps};
use crate::topology::Failure;
use crate::topology::testing::{Scene, objects};
use model::hub::{Cluster, label};
use model::world::{Found, Record};

const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io/v1beta2";

/// A patch that writes a variable into the templates of machine deployments of a kind.
pub(super) fn noting(api_version: &str, kind: &str, variable: &str) -> Value {
    json!({"name": "note", "definitions": [{
        "selector": {"apiVersion": api_version, "kind": kind,
            "matchResources": {"machineDeploymentClass": {"names": ["smith"]}}},
        "jsonPatches": [{"op": "add", "path": "/spec/template/spec/note", "valueFrom": {"variable": variable}}],
    }]})
}

fn patched(patch: Value) -> Scene {
    Scene::new().at("ClusterClass", "/spec/patches", json!([patch]))
}

#[test]
fn templates_of_machines_are_replaced_and_objects_change_in_place() {
    // ROT-01, ROT-10, RS-17, RS-24
    for (template, want) in [
        (SMITH, &["rotate MachineDeployment/md/infrastructure", "apply MachineDeployment/md"][..]),
        ("KubeadmConfigTemplate smith", &["rotate MachineDeployment/md/bootstrap", "apply MachineDeployment/md"]),
        (
            "ForgeMachineTemplate brain",
            &["rotate controlPlane/machines", "apply controlPlane", "delete controlPlane/machines"],
        ),
        ("ForgeClusterTemplate ground", &["apply infrastructure"]),
        ("KubeadmControlPlaneTemplate brain", &["apply controlPlane"]),
        ("ForgeMachinePoolTemplate crew", &["apply MachinePool/mp/infrastructure"]),
        ("KubeadmConfigTemplate crew", &["apply MachinePool/mp/bootstrap"]),
    ] {
        let before = Scene::new();
        let outcome = change(&before, &before.clone().at(template, SIZE, json!("other")));
        assert_eq!(steps(&outcome), want, "{template}");
        let names: Vec<_> = objects(&before.desired()).iter().map(|one| one.object.name().to_owned()).collect();
        for step in &outcome.rounds[0].steps {
            let is_old = names.contains(&step.object.key.name);
            assert_eq!(is_old, step.action != StepAction::Rotate, "{template}: {}", action_and_part(step));
        }
    }
}

#[test]
fn annotations_that_a_plan_removes_are_read_by_the_patches_of_the_next_plan() {
    // PE-09, HK-12
    let template = "{{ if .builtin.cluster.metadata.annotations }}some{{ else }}none{{ end }}";
    let mut patch = noting(INFRASTRUCTURE, "ForgeMachineTemplate", "");
    patch["definitions"][0]["jsonPatches"][0]["valueFrom"] = json!({"template": template});
    let mut fold = patched(patch).simulator_with_hooks();
    // The Cluster gets the annotation when it is created.
    assert_eq!(fold.settle(&blade()).failure, None);
    let rotated = ["rotate MachineDeployment/md/infrastructure", "apply MachineDeployment/md"];
    assert_eq!(steps(&fold.roll_out(&blade())), rotated);
    let Found::Yes(stored) = fold.facts().cluster(&blade()) else { panic!("no Cluster") };
    let mut cluster = Cluster::clone(&stored);
    let initialized = json!([{"type": "ControlPlaneInitialized", "status": "True"}]);
    cluster.status.conditions = serde_json::from_value(initialized).unwrap();
    fold.facts_mut().put_cluster(blade(), Record::readable(cluster));
    let outcome = fold.roll_out(&blade());
    assert_eq!(steps(&outcome), [&["apply cluster"], &rotated[..]].concat());
    assert_eq!(outcome.rounds.len(), 2);
}

#[test]
fn a_field_that_another_manager_has_applied_stays_after_further_writes() {
    // ROT-02, DEC-43
    let mut fold = Scene::new().at(SMITH, "/spec/template/spec/zone", json!("a")).simulator();
    assert_eq!(fold.settle(&blade()).failure, None);
    let objects = fold.facts_mut().objects_mut().unwrap();
    let is_of_workers = |object: &&Arc<Object>| {
        object.kind() == "ForgeMachineTemplate" && object.label(label::DEPLOYMENT_NAME).is_some()
    };
    let mut template = Object::clone(objects.of_cluster(&blade()).find(is_of_workers).unwrap());
    let mut entries = template.list("metadata.managedFields").unwrap().unwrap().clone();
    let fields = json!({"f:spec": {"f:template": {"f:spec": {"f:size": {}, "f:extra": {}}}}});
    template.set("spec.template.spec.extra", json!(1)).unwrap();
    entries.push(json!({"manager": "kubectl", "operation": "Apply", "apiVersion": INFRASTRUCTURE,
        "fieldsType": "FieldsV1", "fieldsV1": fields}));
    template.set("metadata.managedFields", Value::from(entries)).unwrap();
    objects.put(Arc::new(template));
    let mut change = |edit: fn(&mut Object)| {
        let objects = fold.facts_mut().objects_mut().unwrap();
        let key = ObjectKey::new("ns", "smith");
        let mut template = Object::clone(
            objects.in_any_version("infrastructure.cluster.x-k8s.io", "ForgeMachineTemplate", &key).unwrap(),
        );
        edit(&mut template);
        objects.put(Arc::new(template));
        let outcome = fold.roll_out(&blade());
        steps(&outcome)
    };
    let in_place = ["apply MachineDeployment/md/infrastructure"];
    assert_eq!(change(|template| template.set("metadata.labels.team", json!("a")).unwrap()), in_place);
    // Only the owners of the field change.
    assert_eq!(change(|template| drop(template.remove("spec.template.spec.size"))), in_place);
}

#[test]
fn owners_are_written_after_their_templates_and_health_checks_first() {
    // RS-30, RS-12
    let check = |seconds: i64| json!({"checks": {"nodeStartupTimeoutSeconds": seconds}});
    let path = "/spec/topology/workers/machineDeployments/0/healthCheck";
    let before = Scene::new().at("Cluster", path, check(1));
    let after = Scene::new().at("Cluster", path, check(2)).at(SMITH, SIZE, json!("large")).at(
        "KubeadmConfigTemplate smith",
        SIZE,
        json!("large"),
    );
    let want = [
        "apply MachineDeployment/md/healthCheck",
        "rotate MachineDeployment/md/infrastructure",
        "rotate MachineDeployment/md/bootstrap",
        "apply MachineDeployment/md",
    ];
    assert_eq!(steps(&change(&before, &after)), want);
}

#[test]
fn a_name_of_a_template_in_another_template_rotates_twice() {
    // BV-06: names are those before the rotation
    let variable = "builtin.machineDeployment.infrastructureRef.name";
    let before = patched(noting(BOOTSTRAP, "KubeadmConfigTemplate", variable));
    let outcome = change(&before, &before.clone().at(SMITH, SIZE, json!("large")));
    assert_eq!(outcome.failure, None);
    let rounds: Vec<Vec<String>> =
        outcome.rounds.iter().map(|round| round.steps.iter().map(action_and_part).collect()).collect();
    let rotate =
        |part: &str| vec![format!("rotate MachineDeployment/md/{part}"), "apply MachineDeployment/md".to_owned()];
    assert_eq!(rounds, [rotate("infrastructure"), rotate("bootstrap")]);
    let [first, second] = &outcome.rounds[..] else { panic!("two plans") };
    let note = &second.steps[0].changes[0];
    assert_eq!(
        (&*note.path, &note.from),
        ("spec.template.spec.note", &first.steps[0].replaces.as_ref().map(|old| json!(old)))
    );
    assert_eq!(note.to, Some(json!(first.steps[0].object.key.name)));
}

#[test]
fn a_template_that_contains_its_own_name_rotates_in_every_run() {
    // DEC-35, BV-06, PE-32, CT-9.3
    for (api_version, kind, variable) in [
        (INFRASTRUCTURE, "ForgeMachineTemplate", "builtin.machineDeployment.infrastructureRef.name"),
        (BOOTSTRAP, "KubeadmConfigTemplate", "builtin.machineDeployment.bootstrap.configRef.name"),
    ] {
        let scene = patched(noting(api_version, kind, variable));
        let mut fold = scene.simulator();
        assert_eq!(fold.roll_out(&blade()).failure, None, "nothing has been rotated yet");
        let template = format!("{kind} smith");
        let outcome = change(&scene, &scene.clone().at(&template, SIZE, json!("huge")));
        let Some(Failure::Fighting { object, path }) = outcome.failure else { panic!("{:?}", outcome.failure) };
        assert_eq!((&*object.kind, &*path), (kind, "spec.template.spec.note"));
        let rotations =
            outcome.rounds.iter().flat_map(|round| &round.steps).filter(|step| step.action == StepAction::Rotate);
        assert_eq!(rotations.count(), 3);
        // The same patch may write a name that stays.
        let stays = patched(noting(api_version, kind, "builtin.machineDeployment.name"));
        assert_eq!(steps(&change(&stays, &stays.clone().at(&template, SIZE, json!("huge")))).len(), 2);
    }
}

#[test]
fn an_object_that_has_the_generated_name_is_taken_over_and_no_other() {
    // DEC-36, RS-13, ROT-12
    let scene = Scene::new();
    let desired = scene.desired();
    let own = objects(&desired);
    let like = |object: &Object, name: &str| {
        json!({"apiVersion": object.api_version(), "kind": object.kind(),
            "metadata": {"namespace": "ns", "name": name, "uid": format!("of-{name}"), "labels": {"mine": "yes"}},
            "spec": {"site": "south", "kept": 1}})
    };
    for one in own.iter().filter(|one| one.object.kind().starts_with("Forge")) {
        let object = &one.object;
        let world = scene.clone().with(like(object, object.name())).with(like(object, "orphan"));
        let mut fold = world.simulator();
        let outcome = fold.roll_out(&blade());
        assert_eq!(steps(&outcome), steps(&scene.simulator().roll_out(&blade())));
        let create = outcome.rounds[0].steps.iter().find(|step| step.object == object.reference()).unwrap();
        assert_eq!(create.action, StepAction::Create);
        assert_eq!(create.applied.as_ref().unwrap().uid(), "", "SSA-05: whatever is there is taken over");
        let is = |name: &str| {
            let reference = ObjectRef { key: ObjectKey::new("ns", name), ..object.reference() };
            let model::world::Found::Yes(found) = fold.facts().objects().unwrap().object(&reference) else {
                panic!("{name} is there")
            };
            Value::from(Object::clone(&found))
        };
        let taken = is(object.name());
        assert_eq!(
            (&taken["metadata"]["labels"]["mine"], &taken["spec"]["kept"]),
            (&json!("yes"), &json!(1)),
            "LBL-04"
        );
        assert_eq!(taken["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"], "blade", "ours are forced");
        assert_eq!(is("orphan"), like(object, "orphan"));
        assert_eq!(steps(&fold.roll_out(&blade())), [""; 0], "RS-39");
    }
}

#[test]
fn a_replaced_template_is_not_used_again() {
    // ROT-12, ROT-06
    let (small, large) = (Scene::new(), Scene::new().at(SMITH, SIZE, json!("large")));
    let mut fold = small.simulator();
    fold.roll_out(&blade());
    let mut names = vec![small.desired().machine_deployments[0].infrastructure.object.name().to_owned()];
    for scene in [&large, &small, &large] {
        let mut next = scene.simulator();
        next.take_over(&blade(), &fold);
        let outcome = next.roll_out(&blade());
        let [rotation, _] = &outcome.rounds[0].steps[..] else { panic!("{:?}", steps(&outcome)) };
        assert_eq!(rotation.replaces.as_ref(), names.last());
        assert!(!names.contains(&rotation.object.key.name), "{names:?}");
        names.push(rotation.object.key.name.clone());
        fold = next;
    }
    let left = fold.objects_of(&blade()).into_iter().filter(|object| names.contains(&object.name().to_owned()));
    assert_eq!(left.count(), 4, "machine sets may still refer to them");
}

#[test]
fn a_computation_does_not_change_its_inputs() {
    // DS-02: patches change copies of the templates
    let scene = patched(noting(INFRASTRUCTURE, "ForgeMachineTemplate", "builtin.machineDeployment.version"));
    let fold = scene.simulator();
    let computed = fold.compute(&blade()).unwrap();
    let template = &computed.desired.machine_deployments[0].infrastructure.object;
    assert_eq!(template.at("spec.template.spec.note"), Some(&json!("v1.33.0")));
    assert_eq!(Ok(computed.observed.blueprint.clone()), scene.blueprint());
    let there = |fold: &TopologySimulator| fold.facts().objects().unwrap().iter().cloned().collect::<Vec<_>>();
    assert_eq!(there(&fold), there(&scene.simulator()));
}

#[test]
fn desired_objects_have_no_empty_and_no_undecided_fields() {
    // SSA-02, SSA-17, DS-03
    fn no_nulls(value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::Array(list) => list.iter().all(no_nulls),
            Value::Object(members) => members.values().all(no_nulls),
            _ => true,
        }
    }
    let check = json!({"checks": {"nodeStartupTimeoutSeconds": 1}});
    let scene = Scene::new().at("Cluster", "/spec/topology/workers/machineDeployments/0/healthCheck", check);
    for step in &scene.simulator().roll_out(&blade()).rounds[0].steps {
        let sent = Value::from(Object::clone(step.applied.as_ref().unwrap()));
        assert!(no_nulls(&sent), "{sent}");
        let members: Vec<_> = sent.as_object().unwrap().keys().map(String::as_str).collect();
        assert!(members.iter().all(|name| ["apiVersion", "kind", "metadata", "spec"].contains(name)), "{members:?}");
    }
}
