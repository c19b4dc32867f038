//! Machines that are outdated before a plan, and times from which machines are replaced (ROLL-6, ROLL-10, ROLL-11).

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{blade, rolled};
use crate::topology::plan::{Rollout, TopologySimulator};
use crate::topology::testing::Scene;
use model::hub::{Object, annotation};
use model::world::ObjectSet;

const SET: &str = "/spec/topology/workers/machineDeployments/0";
const NOW: &str = "2030-02-01T00:00:00Z";
const MD: &str = "MachineDeployment/md";

/// Four workers with a strategy.
fn with_strategy(strategy: &str) -> Scene {
    Scene::new().at("Cluster", &format!("{SET}/replicas"), json!(4)).at(
        "Cluster",
        &format!("{SET}/rollout"),
        json!({"strategy": {"type": strategy}}),
    )
}

fn objects(fold: &mut TopologySimulator) -> &mut ObjectSet {
    fold.facts_mut().objects_mut().unwrap()
}

/// The plan from `before`, rolled out and with its objects changed by `edit`, to `after`.
fn change(before: &Scene, edit: impl FnOnce(&mut TopologySimulator), after: &Scene) -> Rollout {
    let mut old = before.simulator();
    assert_eq!(old.roll_out(&blade()).failure, None);
    edit(&mut old);
    let mut new = after.simulator().at(NOW.parse().unwrap());
    new.take_over(&blade(), &old);
    new.roll_out(&blade())
}

fn deployment(fold: &mut TopologySimulator) -> Object {
    let found = objects(fold).of_cluster(&blade()).find(|object| object.kind() == "MachineDeployment").cloned();
    Object::clone(&found.unwrap())
}

fn with_status(fold: &mut TopologySimulator, status: Value) {
    let mut deployment = deployment(fold);
    deployment.set("status", status).unwrap();
    objects(fold).put(Arc::new(deployment));
}

/// A Machine of the worker set, of a MachineSet if it has one.
fn machine(fold: &mut TopologySimulator, name: &str, version: &str, conditions: Value, set: &str) {
    let deployment = deployment(fold);
    let mut labels = json!(deployment.texts("spec.selector.matchLabels").unwrap());
    labels["cluster.x-k8s.io/set-name"] = json!(set);
    let machine = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"namespace": "ns", "name": name, "labels": labels},
        "spec": {"clusterName": "blade", "version": version},
        "status": {"conditions": conditions},
    });
    objects(fold).put(Arc::new(Object::try_from(machine).unwrap()));
}

fn up_to_date(status: &str) -> Value {
    json!([{"type": "UpToDate", "status": status}])
}

#[test]
fn machines_that_on_delete_has_left_outdated_go_with_another_strategy() {
    // ROLL-11
    type Edit = fn(&mut TopologySimulator);
    let set: Edit = |fold| {
        let template = deployment(fold).at("spec.template").cloned().unwrap();
        for (name, version) in [("new", "v1.33.0"), ("old", "v1.32.0")] {
            let mut template = template.clone();
            template["spec"]["version"] = json!(version);
            let set = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
                "metadata": {"namespace": "ns", "name": name, "labels": {"cluster.x-k8s.io/cluster-name": "blade"}},
                "spec": {"template": template}});
            objects(fold).put(Arc::new(Object::try_from(set).unwrap()));
            machine(fold, &format!("of-{name}"), "v1.33.0", json!([]), name);
        }
    };
    let cases: [(&str, Edit, i64); 6] = [
        (
            "counted by the MachineDeployment",
            |fold| with_status(fold, json!({"replicas": 4, "upToDateReplicas": 1})),
            3,
        ),
        ("counted in the older way", |fold| with_status(fold, json!({"replicas": 4, "updatedReplicas": 4})), 0),
        ("nothing is known", |_| {}, 0),
        (
            "by conditions",
            |fold| {
                machine(fold, "a", "v1.33.0", up_to_date("False"), "s");
                machine(fold, "b", "v1.32.0", up_to_date("True"), "s");
                with_status(fold, json!({"replicas": 4, "upToDateReplicas": 0}));
            },
            1,
        ),
        (
            "by versions",
            |fold| {
                machine(fold, "a", "v1.32.0", json!([]), "s");
                machine(fold, "b", "v1.33.0", up_to_date("Unknown"), "s");
            },
            1,
        ),
        ("by MachineSets", set, 1),
    ];
    for (case, edit, want) in cases {
        let outcome = change(&with_strategy("OnDelete"), edit, &with_strategy("RollingUpdate"));
        let want = if want == 0 { Vec::new() } else { vec![(MD.to_owned(), Some(want), "assumed")] };
        assert_eq!(rolled(&outcome), want, "{case}");
        assert_eq!(rolled(&change(&with_strategy("OnDelete"), edit, &with_strategy("OnDelete"))), [], "{case}");
    }
    let fewer = with_strategy("RollingUpdate").at("Cluster", &format!("{SET}/replicas"), json!(3));
    let edit: Edit = |fold| with_status(fold, json!({"replicas": 4, "upToDateReplicas": 2}));
    let outcome = change(&with_strategy("OnDelete"), edit, &fewer);
    let machines = outcome.rounds[0].rolls[0].machines;
    assert_eq!((machines.replaced, machines.removed), (Some(1), Some(1)), "an outdated machine is removed first");
}

#[test]
fn machines_that_a_deferred_upgrade_has_left_outdated_go_with_its_annotation() {
    // ROLL-10, UP-34
    let scene = Scene::new().at("Cluster", &format!("{SET}/replicas"), json!(4));
    let upgraded = scene.clone().at("Cluster", "/spec/topology/version", json!("v1.34.0"));
    let annotations = json!({"annotations": {annotation::DEFER_UPGRADE: ""}});
    let deferred = upgraded.clone().at("Cluster", &format!("{SET}/metadata"), annotations);
    let mut fold = scene.simulator();
    assert_eq!(fold.roll_out(&blade()).failure, None);
    let workers = |fold: &mut TopologySimulator, scene: &Scene| {
        let mut new = scene.simulator();
        new.take_over(&blade(), fold);
        let all = rolled(&new.roll_out(&blade()));
        *fold = new;
        all.into_iter().filter(|(object, ..)| object == MD).collect::<Vec<_>>()
    };
    assert_eq!(workers(&mut fold, &deferred), [], "the workers stay");
    assert_eq!(workers(&mut fold, &deferred), []);
    assert_eq!(workers(&mut fold, &upgraded), [(MD.to_owned(), Some(4), "exact")]);
}

#[test]
fn a_rollout_in_the_future_says_when_it_begins() {
    // ROLL-6, ROLL-10
    let before = with_strategy("RollingUpdate");
    let worker = |after: &str| before.clone().at("Cluster", &format!("{SET}/rollout/after"), json!(after));
    for (after, from) in [("2030-01-31T00:00:00Z", None), ("2030-02-01T08:49:27Z", Some("2030-02-01T08:49:27Z"))] {
        let outcome = change(&before, |_| {}, &worker(after));
        assert_eq!(rolled(&outcome), [(MD.to_owned(), Some(4), "assumed")], "{after}");
        let want = from.map(|from| from.parse::<Timestamp>().unwrap());
        assert_eq!(outcome.rounds[0].rolls[0].from, want, "{after}");
    }
    let outcome = change(
        &before,
        |_| {},
        &worker("2030-03-01T00:00:00Z").at("Cluster", &format!("{SET}/failureDomain"), json!("b")),
    );
    assert_eq!(outcome.rounds[0].rolls[0].from, None, "another change replaces all of them now");
}

#[test]
fn expiring_certificates_say_when_machines_are_due() {
    // ROLL-6
    let days = |days: i64| {
        let at = "/spec/template/spec/rollout/before/certificatesExpiryDays";
        Scene::new().at("KubeadmControlPlaneTemplate", at, json!(days))
    };
    let machines = |fold: &mut TopologySimulator| {
        for (name, expires) in
            [("a", "2030-02-11T00:00:00Z"), ("b", "2030-06-01T00:00:00Z"), ("c", "2030-05-01T00:00:00Z")]
        {
            let machine = json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {"namespace": "ns", "name": name, "labels": {
                    "cluster.x-k8s.io/cluster-name": "blade", "cluster.x-k8s.io/control-plane": ""}},
                "status": {"certificatesExpiryDate": expires},
            });
            objects(fold).put(Arc::new(Object::try_from(machine).unwrap()));
        }
    };
    let scene = Scene::new().at("Cluster", "/spec/topology/controlPlane/replicas", json!(3));
    let with = |number: i64| days(number).at("Cluster", "/spec/topology/controlPlane/replicas", json!(3));
    let outcome = change(&scene, machines, &with(10));
    let of_control_plane =
        outcome.rounds.iter().flat_map(|round| &round.rolls).find(|roll| roll.kind == "KubeadmControlPlane");
    assert_eq!(of_control_plane.map(|roll| roll.machines.replaced), Some(Some(1)));
    let notes = outcome.notes.join("\n");
    let want = "replaces 2 machines from 2030-04-21T00:00:00Z on, since their certificates expire within 10 days then \
                (ROLL-6)";
    assert!(notes.contains(want), "{notes}");
    let notes = change(&scene, machines, &with(365)).notes.join("\n");
    assert!(notes.contains("replaces its machines again and again: certificatesExpiryDays is 365"), "{notes}");
    let longer = json!({"certificateValidityPeriodDays": 1000});
    let at = "/spec/template/spec/kubeadmConfigSpec/clusterConfiguration";
    let both = |scene: Scene| scene.at("KubeadmControlPlaneTemplate", at, longer.clone());
    let notes = change(&both(scene.clone()), |_| {}, &both(with(365))).notes;
    assert_eq!(notes, [""; 0], "these certificates are valid for 1000 days");
    assert_eq!(change(&with(365), |_| {}, &with(365)).notes, [""; 0], "nothing changes");
}
