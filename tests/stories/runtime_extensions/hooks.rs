//! Lifecycle hooks: their order, what they hold, and what they are told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::Site;
use crate::lab::Reply;
use crate::machines::ground::{cluster, workers};

pub(super) const HOOKS: [&str; 9] = [
    "BeforeClusterCreate",
    "AfterControlPlaneInitialized",
    "BeforeClusterUpgrade",
    "BeforeControlPlaneUpgrade",
    "AfterControlPlaneUpgrade",
    "BeforeWorkersUpgrade",
    "AfterWorkersUpgrade",
    "AfterClusterUpgrade",
    "BeforeClusterDelete",
];

/// A server whose extension has a handler for every hook, named as the hook in lower case.
fn with_all_hooks() -> Site {
    let site = Site::start();
    for hook in HOOKS {
        site.lab.on(hook, &hook.to_lowercase(), |_| Reply::done());
    }
    site.register(&json!({}));
    site
}

/// The kinds of the lifecycle requests in their order, without repetitions.
fn order(site: &Site) -> Vec<String> {
    let kinds = site.lab.requests().into_iter().map(|(_, body)| body["kind"].as_str().unwrap().to_owned());
    let mut kinds: Vec<String> = kinds.filter(|kind| kind != "DiscoveryRequest").collect();
    kinds.dedup();
    kinds.into_iter().map(|kind| kind.trim_end_matches("Request").to_owned()).collect()
}

#[test]
fn hooks_are_called_in_the_order_of_an_upgrade() {
    // RH-19.1 to RH-19.10, RH-20.6, HK-11 to HK-22
    let site = with_all_hooks();
    site.ground.run_cluster(&cluster(1, &json!([workers("a", 1)]), &json!([])));
    site.ground.until("the creation is over", || site.lab.count("aftercontrolplaneinitialized") == 1);
    site.ground.edit_topology(&json!({"version": "v1.34.0"}));
    site.ground.until("the upgrade is over", || site.lab.count("afterclusterupgrade") == 1);
    site.ground.kubectl.out(&["delete", "cluster/demo", "--timeout=60s"]);
    let step = ["BeforeControlPlaneUpgrade", "AfterControlPlaneUpgrade"];
    let want = [
        &HOOKS[..3],
        // To v1.33.0 the control plane goes alone: workers may skip it (RH-21.8).
        &step,
        &["BeforeControlPlaneUpgrade"],
        &HOOKS[4..],
    ]
    .concat();
    assert_eq!(order(&site), want);
    let upgrade = &site.lab.requests_of("beforeclusterupgrade")[0];
    assert_eq!(upgrade["fromKubernetesVersion"], "v1.32.0");
    assert_eq!(upgrade["toKubernetesVersion"], "v1.34.0");
    let versions = |name: &str| -> Vec<Value> {
        upgrade[name].as_array().unwrap().iter().map(|step| step["version"].clone()).collect()
    };
    assert_eq!(versions("controlPlaneUpgrades"), [json!("v1.33.0"), json!("v1.34.0")]);
    assert_eq!(versions("workersUpgrades"), [json!("v1.34.0")]);
    let sent = &upgrade["cluster"];
    assert_eq!((&sent["apiVersion"], &sent["kind"]), (&json!("cluster.x-k8s.io/v1beta2"), &json!("Cluster")));
    assert!(sent["status"].is_null() && sent["metadata"]["managedFields"].is_null(), "RH-18.1: {sent}");
}

#[test]
fn a_hook_that_blocks_holds_the_upgrade_where_it_stands() {
    // RH-9.3, RH-18.3, RH-18.5, RH-20.2, RH-24.1 to RH-24.3
    let site = with_all_hooks();
    site.ground.run_cluster(&cluster(1, &json!([workers("a", 1)]), &json!([])));
    let holds: Vec<Arc<AtomicBool>> = HOOKS[2..8]
        .iter()
        .map(|hook| {
            let (holds, own) = (Arc::new(AtomicBool::new(true)), hook.to_lowercase());
            let holding = holds.clone();
            site.lab.on(hook, &own, move |_| match holding.load(Ordering::SeqCst) {
                true => Reply::wait(1, "a person decides"),
                false => Reply::done(),
            });
            holds
        })
        .collect();
    site.ground.edit_topology(&json!({"version": "v1.33.0"}));
    for (hook, hold) in HOOKS[2..8].iter().zip(holds) {
        let words = format!("Following hooks are blocking upgrade: {hook}: a person decides");
        site.wait_for("TopologyReconciled", "ClusterUpgrading", &words);
        let versions = |kind: &str, path: &str| -> Vec<Value> {
            site.ground.list(kind).iter().map(|one| one.pointer(path).cloned().unwrap_or_default()).collect()
        };
        let control_plane = versions("embeddedcontrolplanes", "/spec/version");
        let deployments = versions("machinedeployments", "/spec/template/spec/version");
        let is_past = |name: &str| HOOKS.iter().position(|one| one == hook) > HOOKS.iter().position(|one| *one == name);
        let want = |is_new: bool| json!(if is_new { "v1.33.0" } else { "v1.32.0" });
        assert_eq!(control_plane, [want(is_past("BeforeControlPlaneUpgrade"))], "{hook}");
        assert_eq!(deployments, [want(is_past("BeforeWorkersUpgrade"))], "{hook}");
        hold.store(false, Ordering::SeqCst);
    }
    site.ground.until("the upgrade is over", || {
        crate::machines::ground::condition(&site.cluster(), "TopologyReconciled").0 == "True"
    });
    assert!(site.cluster()["metadata"]["annotations"]["runtime.cluster.x-k8s.io/pending-hooks"].is_null());
}

#[test]
fn a_hook_is_not_called_again_while_it_blocks() {
    // RH-9.3, HK-05, PERF-03
    let site = with_all_hooks();
    site.lab.on("BeforeClusterCreate", "beforeclustercreate", |_| Reply::wait(600, "later"));
    site.ground.kubectl.give(&cluster(1, &json!([]), &json!([])), &["create"]);
    site.wait_for("TopologyReconciled", "ClusterCreating", "BeforeClusterCreate: later");
    for round in 0..3 {
        site.ground.merge("cluster/demo", &json!({"metadata": {"labels": {"round": round.to_string()}}}));
        std::thread::sleep(std::time::Duration::from_millis(1200));
    }
    assert_eq!(site.lab.count("beforeclustercreate"), 1);
    assert!(site.ground.list("embeddedclusters").is_empty());
    // Nothing was made, so nothing has to be asked before it goes but its own hook.
    site.lab.on("BeforeClusterDelete", "beforeclusterdelete", |_| Reply::wait(1, "a backup runs"));
    site.ground.kubectl.out(&["delete", "cluster/demo", "--wait=false"]);
    site.wait_for("TopologyReconciled", "Deleting", "BeforeClusterDelete: a backup runs");
    site.lab.on("BeforeClusterDelete", "beforeclusterdelete", |_| Reply::done());
    site.ground.wait("cluster/demo", "delete");
}

#[test]
fn an_annotation_holds_an_upgrade_without_an_extension() {
    // RH-19.4, HK-13
    let site = with_all_hooks();
    site.ground.run_cluster(&cluster(1, &json!([]), &json!([])));
    let annotation = "before-upgrade.hook.cluster.cluster.x-k8s.io/window";
    site.ground.kubectl.out(&["annotate", "cluster/demo", &format!("{annotation}=")]);
    site.ground.edit_topology(&json!({"version": "v1.33.0"}));
    site.wait_for("TopologyReconciled", "ClusterUpgrading", &format!("annotation {annotation} is set"));
    assert_eq!(site.lab.count("beforeclusterupgrade"), 0);
    site.ground.kubectl.out(&["annotate", "cluster/demo", &format!("{annotation}-")]);
    site.ground.until("the upgrade is over", || site.lab.count("afterclusterupgrade") == 1);
}

#[test]
fn an_error_of_a_hook_fails_the_run_and_is_tried_again() {
    // RH-5.4, RH-8.2, RH-18.3, RH-19.2
    let site = with_all_hooks();
    site.lab.on("BeforeClusterCreate", "beforeclustercreate", |_| Reply::failure("no room"));
    site.ground.kubectl.give(&cluster(1, &json!([]), &json!([])), &["create"]);
    site.wait_for("TopologyReconciled", "ReconcileFailed", "handler \"beforeclustercreate\" answered Failure: no room");
    site.lab.on("BeforeClusterCreate", "beforeclustercreate", |_| Reply::done());
    site.ground.wait("cluster/demo", "condition=Available");
}

#[test]
fn a_plan_comes_from_an_extension() {
    // RH-21.1, RH-21.3, RH-21.10, UP-15, PERF-04
    let site = Site::start();
    site.lab.on("GenerateUpgradePlan", "plan", |request| {
        let from = request["fromControlPlaneKubernetesVersion"].as_str().unwrap().to_owned();
        let above = |versions: &[&str]| {
            let steps = versions.iter().filter(|version| ***version > *from);
            steps.map(|version| json!({"version": version})).collect::<Value>()
        };
        let control_plane = above(&["v1.32.5", "v1.33.0"]);
        Reply::success(json!({"controlPlaneUpgrades": control_plane, "workersUpgrades": [{"version": "v1.33.0"}]}))
    });
    site.register(&json!({}));
    let upgrade = json!({"external": {"generateUpgradePlanExtension": "plan.lab"}});
    site.ground.merge("clusterclass/swift", &json!({"spec": {"upgrade": upgrade, "kubernetesVersions": null}}));
    site.ground.run_cluster(&cluster(1, &json!([workers("a", 1)]), &json!([])));
    let history = site.ground.history("embeddedcontrolplanes");
    site.ground.edit_topology(&json!({"version": "v1.33.0"}));
    site.ground.wait("embeddedcontrolplanes --all", "jsonpath={.status.version}=v1.33.0");
    site.ground.wait("machinedeployments --all", "jsonpath={.spec.template.spec.version}=v1.33.0");
    let seen: Vec<String> = history
        .objects()
        .iter()
        .map(|object| object["spec"]["version"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert!(seen.contains(&"v1.32.5".to_owned()), "{seen:?}");
    let requests = site.lab.requests_of("plan");
    let way = |request: &Value| {
        ["fromControlPlaneKubernetesVersion", "fromWorkersKubernetesVersion", "toKubernetesVersion"]
            .map(|name| request[name].as_str().unwrap_or_default().to_owned())
    };
    let mut ways: Vec<[String; 3]> = requests.iter().map(way).collect();
    let count = ways.len();
    ways.dedup();
    assert_eq!(ways.len(), count, "each way is asked for once: {ways:?}");
}
