//! The life of Clusters of the bundle and of the older contract.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use topologist::yaml;

use super::server::{Installation, SHARED, Shared};
use super::story::{MACHINES, NODES, Story, contents, nothing_was_forbidden, version};
use crate::harness::server::command;
use crate::rollout::site::{CORE, INFRASTRUCTURE, Site, text};

/// `check-provider --live` for a kind in the namespace of a story.
struct Following(Child);

impl Following {
    fn start(installation: &Installation, story: &Story<'_>, kind: &str) -> Self {
        let mut command =
            command(&["check-provider", "-o", "json", "--live", kind, "--namespace", &story.site.namespace]);
        command.arg("--kubeconfig").arg(installation.kubernetes.kubeconfig());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut message = BufReader::new(child.stderr.take().unwrap()).lines();
        while !message.next().expect("it ends before it follows").unwrap().contains("following") {}
        std::thread::spawn(move || message.for_each(drop));
        Following(child)
    }

    /// The totals.
    fn end(self) -> Value {
        kill_process(Pid::from_child(&self.0), Signal::INT).unwrap();
        let output = self.0.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str(text.lines().last().unwrap()).unwrap()
    }
}

/// The objects of `fixtures/machines/older.yaml`, whose class names v1alpha1 alone, and a Cluster of it.
fn of_the_older_contract() -> Vec<Value> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/machines/older.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let mut all: Vec<Value> = yaml::documents(&text).into_iter().map(|document| document.unwrap().value).collect();
    for object in &mut all {
        object["metadata"].as_object_mut().unwrap().remove("namespace");
    }
    let workers = json!({"machineDeployments": [{"class": "worker", "name": "a", "replicas": 1}]});
    all.push(json!({"apiVersion": CORE, "kind": "Cluster", "metadata": {"name": "older"}, "spec": {"topology": {
        "classRef": {"name": "older"}, "version": "v1.33.0", "controlPlane": {"replicas": 1}, "workers": workers}}}));
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_class_that_names_the_older_contract_rolls_out_and_upgrades() {
    // CONV-017, CT-3.2, CT-3.11, CT-5.4
    const OLDER: &str = "infrastructure.topologist.dev/v1alpha1";
    let shared = Shared::get().await;
    let site =
        Site::on(shared.installation.kubernetes.client(), shared.installation.kubernetes.namespace(SHARED).await).await;
    let log = Box::new(|| shared.topologist.log_text());
    let story = Story { site, cluster: "older", log, before: BTreeSet::new() };
    for object in of_the_older_contract() {
        story.site.create(object).await;
    }
    story.until_running("all Machines run", 2, |_| true).await;
    let older = story.site.list(OLDER, "EmbeddedMachine").await;
    assert!(older.iter().all(|one| one["status"]["ready"] == true), "{older:#?}");
    let newer = story.site.list(INFRASTRUCTURE, "EmbeddedMachine").await;
    assert!(newer.iter().all(|one| one["status"]["initialization"]["provisioned"] == true), "{newer:#?}");
    story.site.change("older", |topology| topology["version"] = json!("v1.34.0")).await;
    story.until_running("all Machines have the new version", 2, |machine| version(machine) == "v1.34.0").await;
    let control_plane = story.site.list("controlplane.topologist.dev/v1alpha1", "EmbeddedControlPlane").await.remove(0);
    let template = &control_plane["spec"]["machineTemplate"];
    assert_eq!(
        (&template["nodeDrainTimeout"], &template["infrastructureRef"]["apiVersion"]),
        (&json!("90s"), &json!(OLDER))
    );
    let of_cluster = |one: &Value| one["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == "older";
    let templates = story.site.list(OLDER, "EmbeddedMachineTemplate").await;
    assert_eq!(templates.iter().filter(|one| of_cluster(one)).count(), 2, "none was replaced");
    story.site.delete(CORE, "Cluster", "older").await;
    story.until("the Cluster is gone", || async { story.site.cluster("older").await.is_null().then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_run_scale_upgrade_and_change_until_the_cluster_goes_and_nothing_is_left() {
    // CT-16.2, CT-16.5, MA-27.16, ROLL-1
    let shared = Shared::get().await;
    let story = Story::begin(&shared.installation, "demo", || shared.topologist.log_text()).await;
    let following = Following::start(&shared.installation, &story, "EmbeddedMachine");
    let first = story.until_running("all Machines run", MACHINES, |_| true).await;
    story.until_nodes(NODES, "v1.33.0").await;

    let blue = |replicas: usize| {
        move |topology: &mut Value| topology["workers"]["machineDeployments"][0]["replicas"] = json!(replicas)
    };
    story.site.change("demo", blue(4)).await;
    let more = story.until_running("the Machines are two more", MACHINES + 2, |_| true).await;
    let names = |machines: &[Value]| machines.iter().map(|one| text(one, "/metadata/name")).collect::<BTreeSet<_>>();
    assert!(names(&more).is_superset(&names(&first)), "a change of replicas replaces no Machine");
    story.site.change("demo", blue(1)).await;
    story.until_running("the Machines are fewer", MACHINES - 1, |_| true).await;

    let [still, foreseen] = [None, Some("v1.34.0")].map(|version| story.foreseen(&shared.installation, version));
    let (still, foreseen) = (still.await, foreseen.await);
    assert_eq!(still["events"], json!([]), "nothing is left to do");
    let count = |field: &str| {
        let machines = foreseen["machines"].as_array().unwrap().iter();
        machines.filter(|one| one[field].is_i64() && one["version"] == "v1.34.0").count()
    };
    // The two instances of the pool count like Machines.
    assert_eq!((count("made"), foreseen["outcome"].as_str()), (MACHINES - 1 + 2, Some("converged")));

    story.site.change("demo", |topology| topology["version"] = json!("v1.34.0")).await;
    let at_it = |machine: &Value| version(machine) == "v1.34.0";
    let upgraded = story.until_running("all Machines are upgraded", MACHINES - 1, at_it).await;
    story.until_nodes(NODES - 1, "v1.34.0").await;

    let old = names(&upgraded);
    story.site.change("demo", |topology| topology["variables"][0]["value"] = json!("another greeting")).await;
    let is_new = |machine: &Value| !old.contains(&text(machine, "/metadata/name"));
    story.until_running("a new greeting replaces all Machines", MACHINES - 1, is_new).await;

    story.site.delete(CORE, "Cluster", "demo").await;
    story.until("nothing is left", || async { (contents(&story.site).await == story.before).then_some(()) }).await;
    let totals = following.end();
    assert_eq!((&totals["errors"], &totals["broken"]), (&json!(0), &json!([])), "{totals}");
    let kept: BTreeSet<&str> = totals["kept"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(["CT-8.2", "CT-8.6", "CT-15.6", "CT-18.3"].iter().all(|rule| kept.contains(rule)), "{totals}");
    shared.controller_manager.collects_garbage(story.site.client.clone(), &story.site.namespace).await;
    nothing_was_forbidden(&shared.topologist);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_third_machine_reports_its_failure_and_is_replaced_on_request_of_its_health_check() {
    // CT-19.8, MA-15.7, MA-19.8, MA-19.13
    let shared = Shared::get().await;
    // One of four workers may be unhealthy: the class allows 40%.
    let workers = json!({"machineDeployments": [{"class": "default-worker", "name": "blue", "replicas": 4}]});
    let change = |topology: &mut Value| topology["workers"] = workers;
    let story = Story::begin_with(&shared.installation, "failing", || shared.topologist.log_text(), change).await;
    let reason = |machine: &Value| {
        let conditions = machine["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|one| one["type"] == "InfrastructureReady").map(|one| text(&one, "/reason"))
    };
    let failing = || async {
        let machines = story.site.list(CORE, "Machine").await;
        let failed = machines.iter().find(|machine| reason(machine).as_deref() == Some("InjectedFailure"));
        failed.map(|machine| text(machine, "/metadata/name"))
    };
    let name = story.until("a Machine says that its provider fails", failing).await;
    let cluster = story.site.cluster("failing").await;
    let numbered = text(&cluster, "/metadata/annotations/lifecycle.topologist.dev~1numbered-machines");
    assert_eq!(numbered.split(',').nth(2), Some(&*name), "{numbered}");
    let requested = json!({"metadata": {"annotations": {"cluster.x-k8s.io/remediate-machine": ""}}});
    story.site.merge(CORE, "Machine", &name, requested).await;
    let is_another = |machine: &Value| text(machine, "/metadata/name") != name;
    story.until_running("another Machine runs in its place", 3 + 4, is_another).await;
    nothing_was_forbidden(&shared.topologist);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pre_drain_hook_holds_a_deleted_machine_until_it_is_gone() {
    // MA-9.5, MA-15.4: a Machine that is being deleted counts until it is gone.
    let shared = Shared::get().await;
    let story = Story::begin(&shared.installation, "hooked", || shared.topologist.log_text()).await;
    let machines = story.until_running("all Machines run", MACHINES, |_| true).await;
    let is_worker =
        |machine: &&Value| machine["metadata"]["labels"]["topology.cluster.x-k8s.io/deployment-name"] == "blue";
    let name = text(machines.iter().find(is_worker).unwrap(), "/metadata/name");
    let hook = |value: Value| json!({"metadata": {"annotations": {"pre-drain.delete.hook.machine.cluster.x-k8s.io/test": value}}});
    story.site.merge(CORE, "Machine", &name, hook(json!("tester"))).await;
    story.site.delete(CORE, "Machine", &name).await;
    story
        .until("the Machine waits for the hook", || async {
            let machine = story.site.get(CORE, "Machine", &name).await?;
            machine["status"]["conditions"].to_string().contains("WaitingForPreDrainHook").then_some(())
        })
        .await;
    story.site.merge(CORE, "Machine", &name, hook(Value::Null)).await;
    story.until_running("the Machine is gone", MACHINES, |machine| text(machine, "/metadata/name") != name).await;
    story.until_nodes(NODES, "v1.33.0").await;
    nothing_was_forbidden(&shared.topologist);
}
