//! Lifecycle hooks: their order, what they hold, and what they are told.

use serde_json::{Value, json};

use super::Site;
use crate::harness::extension::Reply;
use crate::harness::extension_hooks;
use crate::machines::server::{cluster, workers};

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
    // RH-19.1, RH-19.2, RH-19.3, RH-19.5, RH-19.6, RH-19.7, RH-19.8, RH-19.9, RH-19.10, RH-20.1, RH-20.6, HK-11 to
    // HK-22
    let site = with_all_hooks();
    site.server.run_cluster(&cluster(1, &json!([workers("a", 1)]), &json!([])));
    site.server.until("the creation is over", || site.lab.count("aftercontrolplaneinitialized") == 1);
    site.server.edit_topology(&json!({"version": "v1.34.0"}));
    site.server.until("the upgrade is over", || site.lab.count("afterclusterupgrade") == 1);
    site.server.kubectl.out(&["delete", "cluster/demo", "--timeout=60s"]);
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
    // RH-9.3, RH-18.3, RH-18.5, RH-19.5, RH-19.6, RH-19.7, RH-19.8, RH-19.9, RH-20.2, RH-20.4, RH-24.1, RH-24.2,
    // RH-24.3
    let site = with_all_hooks();
    site.server.run_cluster(&cluster(1, &json!([workers("a", 1)]), &json!([])));
    let holds = extension_hooks::holds(&site.lab, "v1.32.0", "v1.33.0");
    site.server.edit_topology(&json!({"version": "v1.33.0"}));
    for hold in holds {
        site.wait_for("TopologyReconciled", "ClusterUpgrading", &hold.words);
        let versions = |kind: &str, path: &str| -> Vec<Value> {
            site.server.list(kind).iter().map(|one| one.pointer(path).cloned().unwrap_or_default()).collect()
        };
        let workers = versions("machinedeployments", "/spec/template/spec/version");
        hold.check(&versions("embeddedcontrolplanes", "/spec/version"), &workers);
        hold.open();
    }
    site.server.until("the upgrade is over", || {
        crate::machines::server::condition(&site.cluster(), "TopologyReconciled").0 == "True"
    });
    assert!(site.cluster()["metadata"]["annotations"]["runtime.cluster.x-k8s.io/pending-hooks"].is_null());
}

#[test]
fn a_hook_is_not_called_again_while_it_blocks() {
    // RH-9.3, HK-05, PERF-03
    let site = with_all_hooks();
    site.lab.on("BeforeClusterCreate", "beforeclustercreate", |_| Reply::wait(600, "later"));
    site.server.kubectl.give(&cluster(1, &json!([]), &json!([])), &["create"]);
    site.wait_for("TopologyReconciled", "ClusterCreating", "BeforeClusterCreate: later");
    for round in 0..3 {
        site.server.merge("cluster/demo", &json!({"metadata": {"labels": {"round": round.to_string()}}}));
        site.server.until_quiet("cluster/demo");
    }
    assert_eq!(site.lab.count("beforeclustercreate"), 1);
    assert!(site.server.list("embeddedclusters").is_empty());
    // Nothing was made, so nothing has to be asked before it goes but its own hook.
    site.lab.on("BeforeClusterDelete", "beforeclusterdelete", |_| Reply::wait(1, "a backup runs"));
    site.server.kubectl.out(&["delete", "cluster/demo", "--wait=false"]);
    site.wait_for("TopologyReconciled", "Deleting", "BeforeClusterDelete: a backup runs");
    site.lab.on("BeforeClusterDelete", "beforeclusterdelete", |_| Reply::done());
    site.server.wait("cluster/demo", "delete");
}

/// The name of the handler that a request went to, without Discovery.
fn called(site: &Site) -> Vec<String> {
    site.lab.requests().into_iter().map(|(name, _)| name).filter(|name| name != "discovery").collect()
}

#[test]
fn of_several_extensions_the_first_failure_ends_a_hook_and_the_shortest_time_counts() {
    // RH-8.1, RH-8.2, RH-8.3, RH-8.4
    let site = Site::start();
    site.lab.on("BeforeClusterCreate", "b", |_| Reply::wait(2, "the backup runs"));
    site.lab.on("BeforeClusterCreate", "a", |_| Reply::failure("no room"));
    site.register(&json!({}));
    let other = crate::harness::extension::TestExtension::start();
    other.on("BeforeClusterCreate", "a", |_| Reply::wait(600, "the window is closed"));
    // `a.lab` comes before `a.other`, and that before `b.lab`.
    site.server.kubectl.give(&other.config("other", &json!({})), &["create"]);
    site.server.wait("extensionconfig/other", "condition=Discovered");
    site.server.kubectl.give(&cluster(1, &json!([]), &json!([])), &["create"]);
    site.wait_for("TopologyReconciled", "ReconcileFailed", "extension \"a.lab\"");
    site.server.until("it is tried again", || site.lab.count("a") >= 2);
    assert!(called(&site).iter().all(|name| name == "a"), "{:?}", called(&site));
    assert_eq!(other.count("a"), 0, "the extensions after the failure are not called");
    site.lab.on("BeforeClusterCreate", "a", |_| Reply::done());
    let words = "BeforeClusterCreate: the window is closed, the backup runs";
    site.wait_for("TopologyReconciled", "ClusterCreating", words);
    site.server.until("it is asked again after the shortest time", || other.count("a") >= 2);
    site.server.until("b comes after a", || called(&site).ends_with(&["a".to_owned(), "b".to_owned()]));
    other.on("BeforeClusterCreate", "a", |_| Reply::done());
    site.lab.on("BeforeClusterCreate", "b", |_| Reply::done());
    site.server.wait("cluster/demo", "condition=Available");
}

#[test]
fn a_paused_cluster_calls_nothing_and_goes_on_from_its_annotations() {
    // RH-24.4, RH-18.4
    let site = with_all_hooks();
    site.server.run_cluster(&cluster(1, &json!([]), &json!([])));
    site.lab.on("AfterControlPlaneUpgrade", "aftercontrolplaneupgrade", |_| Reply::wait(1, "not yet"));
    site.server.edit_topology(&json!({"version": "v1.33.0"}));
    site.wait_for("TopologyReconciled", "ClusterUpgrading", "AfterControlPlaneUpgrade: not yet");
    site.server.merge("cluster/demo", &json!({"spec": {"paused": true}}));
    site.wait_for("TopologyReconciled", "Paused", "");
    let calls = called(&site).len();
    // More than one if the write of a step met a conflict.
    let begun = site.lab.count("beforecontrolplaneupgrade");
    site.server.merge("cluster/demo", &json!({"metadata": {"labels": {"round": "1"}}}));
    site.server.until_quiet("cluster/demo");
    assert_eq!(called(&site).len(), calls, "{:?}", called(&site));
    site.lab.on("AfterControlPlaneUpgrade", "aftercontrolplaneupgrade", |_| Reply::done());
    site.server.merge("cluster/demo", &json!({"spec": {"paused": null}}));
    site.server.until("the upgrade is over", || site.lab.count("afterclusterupgrade") == 1);
    let again = site.lab.count("beforecontrolplaneupgrade");
    assert_eq!(again, begun, "the step is not begun again: {:?}", called(&site));
}

#[test]
fn a_cluster_without_a_topology_calls_nothing() {
    // RH-1.4
    let site = with_all_hooks();
    let plain = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "plain"},
        "spec": {"infrastructureRef": {"apiGroup": "infrastructure.topologist.dev", "kind": "EmbeddedCluster",
            "name": "plain"}}});
    site.server.kubectl.give(&plain, &["create"]);
    site.server.until_quiet("cluster/plain");
    site.server.kubectl.out(&["delete", "cluster/plain", "--timeout=30s"]);
    assert_eq!(called(&site), [""; 0]);
}

#[test]
fn an_annotation_holds_an_upgrade_without_an_extension() {
    // RH-19.4, HK-13
    let site = with_all_hooks();
    site.server.run_cluster(&cluster(1, &json!([]), &json!([])));
    let annotation = "before-upgrade.hook.cluster.cluster.x-k8s.io/window";
    site.server.kubectl.out(&["annotate", "cluster/demo", &format!("{annotation}=")]);
    site.server.edit_topology(&json!({"version": "v1.33.0"}));
    site.wait_for("TopologyReconciled", "ClusterUpgrading", &format!("annotation {annotation} is set"));
    assert_eq!(site.lab.count("beforeclusterupgrade"), 0);
    site.server.kubectl.out(&["annotate", "cluster/demo", &format!("{annotation}-")]);
    site.server.until("the upgrade is over", || site.lab.count("afterclusterupgrade") == 1);
}

#[test]
fn an_error_of_a_hook_fails_the_run_and_is_tried_again() {
    // RH-5.4, RH-8.2, RH-18.3, RH-19.2
    let site = with_all_hooks();
    site.lab.on("BeforeClusterCreate", "beforeclustercreate", |_| Reply::failure("no room"));
    site.server.kubectl.give(&cluster(1, &json!([]), &json!([])), &["create"]);
    site.wait_for("TopologyReconciled", "ReconcileFailed", "handler \"beforeclustercreate\" answered Failure: no room");
    site.lab.on("BeforeClusterCreate", "beforeclustercreate", |_| Reply::done());
    site.server.wait("cluster/demo", "condition=Available");
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
    site.server.merge("clusterclass/swift", &json!({"spec": {"upgrade": upgrade, "kubernetesVersions": null}}));
    site.server.run_cluster(&cluster(1, &json!([workers("a", 1)]), &json!([])));
    let history = site.server.history("embeddedcontrolplanes");
    site.server.edit_topology(&json!({"version": "v1.33.0"}));
    site.server.wait("embeddedcontrolplanes --all", "jsonpath={.status.version}=v1.33.0");
    site.server.wait("machinedeployments --all", "jsonpath={.spec.template.spec.version}=v1.33.0");
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
