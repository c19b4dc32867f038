//! How many machines are replaced, removed and added.

use serde_json::{Value, json};

use super::{SIZE, SMITH, blade};
use crate::topology::plan::{MachineCounts, Rollout};
use crate::topology::testing::Scene;

const WORKER: &str = "/spec/topology/workers/machineDeployments/0";
const CONTROL_PLANE: &str = "/spec/topology/controlPlane";
const KUBEADM: &str = "KubeadmControlPlaneTemplate";
const CONFIG: &str = "/spec/template/spec/kubeadmConfigSpec";
const NOW: &str = "2030-06-01T00:00:00Z";

/// The rollout from `before`, once it is rolled out, to `after`, at a point in time.
fn change(before: &Scene, after: &Scene) -> Rollout {
    let mut old = before.simulator();
    assert_eq!(old.roll_out(&blade()).failure, None);
    let mut new = after.simulator().at(NOW.parse().unwrap());
    new.take_over(&blade(), &old);
    let outcome = new.roll_out(&blade());
    assert_eq!(outcome.failure, None);
    outcome
}

/// The same for a change of the Cluster.
fn of_cluster(before: &Scene, path: &str, value: Value) -> Rollout {
    change(before, &before.clone().at("Cluster", path, value))
}

fn machines(outcome: &Rollout) -> Vec<(String, MachineCounts)> {
    let rolls = outcome.rounds.iter().flat_map(|round| &round.rolls);
    rolls.map(|roll| (roll.part.to_string(), roll.machines)).collect()
}

fn held(outcome: &Rollout) -> Vec<String> {
    outcome.held.iter().map(|held| held.reason.to_string()).collect()
}

fn sized() -> Scene {
    Scene::new().at("Cluster", &format!("{CONTROL_PLANE}/replicas"), json!(3)).at(
        "Cluster",
        &format!("{WORKER}/replicas"),
        json!(4),
    )
}

fn worker(machines: MachineCounts) -> Vec<(String, MachineCounts)> {
    vec![("MachineDeployment/md".to_owned(), machines)]
}

fn control_plane(machines: MachineCounts) -> Vec<(String, MachineCounts)> {
    vec![("controlPlane".to_owned(), machines)]
}

fn replaced(number: i64) -> MachineCounts {
    MachineCounts { replaced: Some(number), at_least: number, ..MachineCounts::NONE }
}

#[test]
fn scaling_makes_and_deletes_machines() {
    // ROLL-12
    let outcome = |path: &str, to: i64| machines(&of_cluster(&sized(), &format!("{path}/replicas"), json!(to)));
    assert_eq!(outcome(WORKER, 1), worker(MachineCounts { removed: Some(3), ..MachineCounts::NONE }));
    assert_eq!(outcome(WORKER, 7), worker(MachineCounts { added: Some(3), ..MachineCounts::NONE }));
    assert_eq!(outcome(CONTROL_PLANE, 1), control_plane(MachineCounts { removed: Some(2), ..MachineCounts::NONE }));
    // Machines that go are not replaced.
    let after = sized().at("Cluster", &format!("{WORKER}/replicas"), json!(1)).at(SMITH, SIZE, json!("large"));
    let found = machines(&change(&sized(), &after));
    assert_eq!(found, worker(MachineCounts { removed: Some(3), ..replaced(1) }));
}

#[test]
fn replicas_that_are_removed_get_the_default_of_admission() {
    // ROLL-13
    let bounds = |least: &str, most: &str| {
        json!({"annotations": {
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": least,
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": most,
        }})
    };
    let metadata = format!("{WORKER}/metadata");
    for (scene, to, want) in [
        (sized(), 1, MachineCounts { removed: Some(3), ..MachineCounts::NONE }),
        (
            sized().at("Cluster", &metadata, bounds("2", "3")),
            3,
            MachineCounts { removed: Some(1), ..MachineCounts::NONE },
        ),
        (
            sized().at("Cluster", &metadata, bounds("6", "9")),
            6,
            MachineCounts { added: Some(2), ..MachineCounts::NONE },
        ),
    ] {
        let outcome = of_cluster(&scene, &format!("{WORKER}/replicas"), Value::Null);
        assert_eq!(machines(&outcome), worker(want));
        let change =
            outcome.rounds[0].steps.iter().flat_map(|step| &step.changes).find(|one| one.path == "spec.replicas");
        assert_eq!(change.unwrap().to, Some(json!(to)));
    }
    let scaled =
        sized().at("Cluster", &metadata, bounds("2", "9")).at("Cluster", &format!("{WORKER}/replicas"), Value::Null);
    let found = machines(&change(&scaled, &scaled.clone().at(SMITH, SIZE, json!("large"))));
    assert_eq!(found, worker(MachineCounts { replaced: None, at_least: 2, ..MachineCounts::NONE }));
}

#[test]
fn a_strategy_that_is_removed_gets_the_default_of_admission() {
    // MA-28.2.3
    let rolling =
        |surge: i64| json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": 0}});
    let of_type = |kind: &str| json!({"strategy": {"type": kind}});
    let (on_delete, rolling_update) = (of_type("OnDelete"), of_type("RollingUpdate"));
    for (before, after, want) in [
        (rolling(1), json!({"type": "RollingUpdate"}), json!([])),
        (rolling(3), json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0}}), json!([[3, 1]])),
        (json!({"type": "OnDelete"}), json!({}), json!([[on_delete, rolling_update]])),
    ] {
        let path = format!("{WORKER}/rollout/strategy");
        let outcome = of_cluster(&sized().at("Cluster", &path, before), &path, after);
        let changes = outcome.rounds.iter().flat_map(|round| &round.steps).flat_map(|step| &step.changes);
        let found: Vec<_> = changes.map(|change| json!([change.from, change.to])).collect();
        assert_eq!(Value::from(found), want);
    }
}

#[test]
fn new_workers_add_machines_and_deleted_workers_remove_them() {
    // ROLL-16
    let gone = of_cluster(&sized(), "/spec/topology/workers/machineDeployments", Value::Null);
    assert_eq!(machines(&gone), worker(MachineCounts { removed: Some(4), ..MachineCounts::NONE }));
    let mut more =
        json!([{"class": "smith", "name": "md", "replicas": 4}, {"class": "smith", "name": "more", "replicas": 2}]);
    more[0]["class"] = sized().cluster().spec.topology.workers.machine_deployments[0].class.clone().into();
    more[1]["class"] = more[0]["class"].clone();
    let new = of_cluster(&sized(), "/spec/topology/workers/machineDeployments", more);
    assert_eq!(
        machines(&new),
        [("MachineDeployment/more".to_owned(), MachineCounts { added: Some(2), ..MachineCounts::NONE })]
    );
}

#[test]
fn machines_that_are_replaced_on_deletion_are_outdated_until_then() {
    // ROLL-11
    let before = sized().at("Cluster", &format!("{WORKER}/rollout"), json!({"strategy": {"type": "OnDelete"}}));
    let outcome = change(&before, &before.clone().at(SMITH, SIZE, json!("large")));
    let want = MachineCounts { outdated_until_deleted: Some(4), at_least: 4, ..MachineCounts::NONE };
    assert_eq!(machines(&outcome), worker(want));
    let reason = &outcome.rounds[0].rolls[0].reason;
    assert!(reason.ends_with("; its strategy is OnDelete"), "{reason}");
}

#[test]
fn a_time_replaces_machines_now_or_later() {
    // ROLL-6, ROLL-10
    for (time, is_later) in [("2030-05-31T00:00:00Z", false), ("2030-06-02T00:00:00Z", true)] {
        let rollout = json!({"after": time});
        let outcome = of_cluster(&sized(), &format!("{WORKER}/rollout"), rollout.clone());
        assert_eq!(machines(&outcome), worker(replaced(4)), "{time}");
        assert_eq!(outcome.rounds[0].rolls[0].from.is_some(), is_later, "{time}");
        let outcome = of_cluster(&sized(), &format!("{CONTROL_PLANE}/rollout"), rollout);
        assert_eq!(machines(&outcome), control_plane(replaced(3)), "{time}");
        assert_eq!(outcome.rounds[0].rolls[0].from.is_some(), is_later, "{time}");
    }
}

#[test]
fn init_configuration_only_affects_the_machine_that_ran_kubeadm_init() {
    // ROLL-3, ROLL-4
    let init = format!("{CONFIG}/initConfiguration");
    let phases = json!({"skipPhases": ["addon/kube-proxy"]});
    // The machine that was initialized differs from those that joined already.
    let before = sized().at(KUBEADM, &init, json!({"skipPhases": ["addon/coredns"]}));
    let outcome = change(&before, &before.clone().at(KUBEADM, &init, phases.clone()));
    assert_eq!(machines(&outcome), control_plane(replaced(1)));
    assert_eq!(outcome.rounds[0].rolls[0].certainty.name(), "assumed");
    let outcome = change(&sized(), &sized().at(KUBEADM, &init, phases));
    assert_eq!(machines(&outcome), [], "it is as one that joins");
    for (path, number) in [
        ("clusterConfiguration", json!({"dns": {"imageTag": "v1"}})),
        ("joinConfiguration", json!({"discovery": {"tlsBootstrapToken": "x"}})),
    ] {
        let outcome = change(&sized(), &sized().at(KUBEADM, &format!("{CONFIG}/{path}"), number));
        assert_eq!((machines(&outcome), outcome.rounds.len()), (vec![], 1), "{path}");
    }
    let join = json!({"caCertPath": "/ca"});
    let outcome = change(&sized(), &sized().at(KUBEADM, &format!("{CONFIG}/joinConfiguration"), join));
    assert_eq!(machines(&outcome), control_plane(replaced(2)), "all but the one that was initialized");
}

#[test]
fn while_paused_nothing_is_replaced_and_what_would_be_is_held() {
    // ROLL-18
    let after = sized().at("Cluster", "/spec/paused", json!(true)).at(SMITH, SIZE, json!("large"));
    let outcome = change(&sized(), &after);
    assert_eq!(machines(&outcome), []);
    let [whole, deployment] = &held(&outcome)[..] else { panic!("{:?}", held(&outcome)) };
    assert!(whole.contains("spec.paused is true"), "{whole}");
    assert!(
        deployment.contains("its Cluster is paused; 4 machines would be replaced, since ForgeMachineTemplate"),
        "{deployment}"
    );
    let paused = json!({"annotations": {"cluster.x-k8s.io/paused": ""}});
    let before = sized().at("Cluster", &format!("{WORKER}/metadata"), paused);
    let outcome = change(&before, &before.clone().at(SMITH, SIZE, json!("large")));
    assert_eq!(machines(&outcome), []);
    assert!(held(&outcome).concat().contains("it is paused; 4 machines would be replaced"), "{:?}", held(&outcome));
}

#[test]
fn a_stricter_health_check_is_listed_as_a_note() {
    // ROLL-17
    let check = |seconds: i64| json!({"checks": {"nodeStartupTimeoutSeconds": seconds}});
    let before = sized().at("ClusterClass", "/spec/workers/machineDeployments/0/healthCheck", check(900));
    let of = |seconds: i64| {
        change(
            &before,
            &before.clone().at("ClusterClass", "/spec/workers/machineDeployments/0/healthCheck", check(seconds)),
        )
    };
    let (stricter, milder) = (of(60), of(1_800));
    assert!(stricter.notes.concat().contains("becomes stricter"), "{:?}", stricter.notes);
    assert_eq!((machines(&stricter), milder.notes.len(), milder.rounds.len()), (vec![], 0, 1));
}

#[test]
fn an_upgrade_cannot_be_undone() {
    let outcome = of_cluster(&sized(), "/spec/topology/version", json!("v1.33.1"));
    let upgrades: Vec<&String> =
        outcome.notes.iter().filter(|note| note.contains("going back is not possible")).collect();
    assert_eq!(upgrades.len(), 1, "{:?}", outcome.notes);
    assert!(
        upgrades[0].ends_with(&format!("from v1.33.1 to {}", sized().cluster().spec.topology.version)),
        "{upgrades:?}"
    );
    assert!(change(&sized(), &sized().at(SMITH, SIZE, json!("large"))).notes.is_empty());
}
