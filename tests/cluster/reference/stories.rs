//! Edits of Clusters whose machines Cluster API's own controllers make, replace and delete.

use serde_json::{Value, json};

use super::site::{Machine, Machines, Site, cluster};
use super::stack::{Midway, Stack};
use crate::harness::kubernetes::AuditedRequest;
use crate::harness::kustomize::USER;

/// The uids of the Machines of one set, or of the control plane.
fn of(machines: &Machines, set: Option<&str>) -> Vec<String> {
    let is_one = |machine: &Machine| machine.set.as_deref() == set;
    machines.iter().filter(|(_, machine)| is_one(machine)).map(|(uid, _)| uid.clone()).collect()
}

/// How many of these Machines are in both.
fn kept(before: &[String], after: &[String]) -> usize {
    before.iter().filter(|uid| after.contains(uid)).count()
}

/// Whether a Cluster has made so many Machines in its life, and those that it no longer has are gone.
fn has_made(site: &Site, count: usize, after: &Machines) {
    let lives = site.lives("one");
    let is_right = lives.iter().all(|life| life.is_gone != after.contains_key(&life.uid));
    assert!(lives.len() == count && is_right, "{count} Machines: {lives:#?}\n{after:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_field_replaces_the_control_plane_alone() {
    let site = Stack::shared().await.site("plane").await;
    site.apply(&cluster("one", "v1.33.0", 3, &[("md-0", 1)]));
    let before = site.settled("one").await;
    site.set_variable("one", "planeNote", "second");
    site.until("a Machine is made", async || site.lives("one").len() > before.len()).await;
    let after = site.settled("one").await;
    assert_eq!(of(&after, Some("md-0")), of(&before, Some("md-0")));
    assert_eq!(
        (of(&after, None).len(), kept(&of(&before, None), &of(&after, None))),
        (3, 0),
        "{before:#?}\n{after:#?}"
    );
    // Each is replaced once.
    has_made(&site, 4 + 3, &after);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_field_replaces_the_machines_of_its_set_alone() {
    let site = Stack::shared().await.site("worker").await;
    site.apply(&cluster("one", "v1.33.0", 1, &[("md-0", 2)]));
    let before = site.settled("one").await;
    site.set_variable("one", "workerNote", "second");
    site.until("a Machine is made", async || site.lives("one").len() > before.len()).await;
    let after = site.settled("one").await;
    assert_eq!(of(&after, None), of(&before, None));
    let (old, new) = (of(&before, Some("md-0")), of(&after, Some("md-0")));
    assert_eq!((new.len(), kept(&old, &new)), (2, 0), "{before:#?}\n{after:#?}");
    has_made(&site, 3 + 2, &after);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_on_delete_keeps_its_machines_until_they_are_deleted_or_it_rolls_again() {
    let site = Stack::shared().await.site("on-delete").await;
    let mut object = cluster("one", "v1.33.0", 1, &[("md-0", 2)]);
    site.apply(&object);
    let before = site.settled("one").await;
    let strategy = |kind: &str| json!({"strategy": {"type": kind}});
    object["spec"]["topology"]["workers"]["machineDeployments"][0]["rollout"] = strategy("OnDelete");
    site.apply(&object);
    object["spec"]["topology"]["variables"] = json!([{"name": "workerNote", "value": "second"}]);
    site.apply(&object);
    let outdated = async || {
        let sets = site.list("machinedeployments", "one");
        sets[0]["status"]["upToDateReplicas"] == 0
            && sets[0]["metadata"]["generation"] == sets[0]["status"]["observedGeneration"]
    };
    site.until("both Machines are outdated", outdated).await;
    assert_eq!(site.machines("one"), before);

    let victim = before.values().find(|machine| machine.set.is_some()).unwrap();
    site.kubectl.out(&["delete", "machine", &victim.name]);
    site.until("it is replaced", async || {
        let sets = site.list("machinedeployments", "one");
        sets[0]["status"]["upToDateReplicas"] == 1
            && sets[0]["status"]["availableReplicas"] == 2
            && site.machines("one").len() == 3
    })
    .await;
    let between = site.machines("one");
    assert_eq!(kept(&of(&before, Some("md-0")), &of(&between, Some("md-0"))), 1, "{before:#?}\n{between:#?}");

    object["spec"]["topology"]["workers"]["machineDeployments"][0]["rollout"] = strategy("RollingUpdate");
    site.apply(&object);
    site.until("the other is replaced", async || site.lives("one").len() == 5).await;
    let after = site.settled("one").await;
    assert_eq!(of(&after, None), of(&before, None));
    assert_eq!(kept(&of(&before, Some("md-0")), &of(&after, Some("md-0"))), 0, "{before:#?}\n{after:#?}");
    assert_eq!(kept(&of(&between, Some("md-0")), &of(&after, Some("md-0"))), 1, "{between:#?}\n{after:#?}");
    has_made(&site, 5, &after);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_replaces_each_machine_once_and_the_control_plane_first() {
    let site = Stack::shared().await.site("upgrade").await;
    let mut object = cluster("one", "v1.33.0", 1, &[("md-0", 2), ("md-1", 1)]);
    site.apply(&object);
    let before = site.settled("one").await;
    object["spec"]["topology"]["version"] = json!("v1.34.0");
    site.apply(&object);
    site.until("a Machine is made", async || site.lives("one").len() > before.len()).await;
    let after = site.settled("one").await;
    assert_eq!(after.len(), 4);
    assert!(after.values().all(|machine| machine.version == "v1.34.0"), "{after:#?}");
    let lives = site.lives("one");
    has_made(&site, 4 + 4, &after);
    assert!(lives[..4].iter().all(|life| before.contains_key(&life.uid)));
    assert_eq!(lives[4].machine.set, None, "{lives:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_goes_on_after_a_take_over_and_replaces_no_machine_twice() {
    let Midway { site, before, between } = Midway::shared().await;
    let of_version = |version: &str| between.values().filter(|machine| machine.version == version).count();
    assert_eq!((of_version("v1.33.0"), of_version("v1.34.0")), (3, 1), "{between:#?}");
    let after = site.settled("one").await;
    assert_eq!(after.len(), 3);
    assert!(after.values().all(|machine| machine.version == "v1.34.0"), "{after:#?}");
    assert!(!after.keys().any(|uid| before.contains_key(uid)));
    has_made(site, 3 + 3, &after);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clusters_of_constant_names_do_not_share_a_control_plane() {
    // DEC-36
    let site = Stack::shared().await.site("names").await;
    let mut class = site.applied("clusterclass/quick");
    class["metadata"]["name"] = json!("constant");
    class["spec"]["controlPlane"]["naming"] = json!({"template": "brain"});
    site.apply(&class);
    let named = |name: &str| {
        let mut object = cluster(name, "v1.33.0", 1, &[("md-0", 1)]);
        object["spec"]["topology"]["classRef"] = json!({"name": "constant"});
        object
    };
    site.apply(&named("first"));
    let machines = site.settled("first").await;
    let plane = || site.get("kubeadmcontrolplane/brain").map(|plane| plane["metadata"]["uid"].clone());
    let before = plane();
    assert!(before.is_some());

    site.apply(&named("second"));
    let is_refused = async || {
        let second = site.get("cluster/second").unwrap();
        let conditions = second["status"]["conditions"].as_array().into_iter().flatten();
        let condition = conditions.into_iter().find(|one| one["type"] == "TopologyReconciled");
        condition.is_some_and(|one| {
            let message = one["message"].as_str().unwrap_or_default();
            one["status"] == "False" && ["brain", "\"first\"", "\"second\""].iter().all(|text| message.contains(text))
        })
    };
    site.until("the second Cluster names the owner", is_refused).await;
    assert_eq!(site.get("cluster/second").unwrap()["spec"]["controlPlaneRef"], Value::Null);
    site.kubectl.out(&["delete", "cluster", "second", "--wait=false"]);
    site.until("the second is gone", async || site.get("cluster/second").is_none()).await;
    assert_eq!((plane(), site.settled("first").await), (before, machines));
}

/// The requests of topologist for the objects of a namespace, without watches and events.
fn requests(site: &Site) -> Vec<AuditedRequest> {
    let place = format!("/namespaces/{}/", site.namespace());
    let is_one = |request: &AuditedRequest| {
        request.user == USER && request.verb != "watch" && request.resource != "events" && request.uri.contains(&place)
    };
    site.stack.kubernetes.audited_requests().into_iter().filter(is_one).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_of_a_cluster_rarely_conflict_with_those_of_the_managers() {
    // RS-22, DEC-118
    let site = Stack::shared().await.site("conflicts").await;
    let names = ["a", "b", "c", "d", "e", "f"];
    for name in names {
        site.apply(&cluster(name, "v1.33.0", 1, &[("md-0", 1)]));
    }
    for name in names {
        site.settled(name).await;
    }
    site.set_variable("a", "workerNote", "second");
    site.settled("a").await;
    let requests = requests(&site);
    let is_conflict = |request: &&AuditedRequest| [409, 422].contains(&request.code);
    let conflicts: Vec<&AuditedRequest> = requests.iter().filter(is_conflict).collect();
    println!("{} requests, {} conflicts: {conflicts:#?}", requests.len(), conflicts.len());
    let of = |resource: &str| conflicts.iter().filter(|request| request.resource == resource).count();
    assert!(requests.len() > names.len() * 8 && of("clusters/status") <= 2, "{conflicts:#?}");
    // The managers add their finalizer to a new MachineSet when topologist does.
    assert!(conflicts.len() - of("machinesets") <= 4, "{} of {}: {conflicts:#?}", conflicts.len(), requests.len());
}
