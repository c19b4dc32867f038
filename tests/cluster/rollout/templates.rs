//! What becomes of templates that a rollout leaves behind.

use std::sync::Arc;

use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use topologist::kubernetes::cache::Cache;
use topologist::kubernetes::contract::Definitions;
use topologist::kubernetes::lease::{Candidacy, Election};
use topologist::kubernetes::watch;
use topologist::reconciler::setup::Setup;
use topologist::reconciler::templates::TemplatesController;
use topologist::telemetry::metrics::Metrics;
use topologist::world::{Facts, Scope};

use super::layer::{Trouble, Wire};
use super::site::{BOOTSTRAP, CORE, INFRASTRUCTURE, Manager, Site, text};

const CONFIG: &str = "/spec/template/spec/bootstrap/configRef/name";
const MACHINE: &str = "/spec/template/spec/infrastructureRef/name";

/// The controllers of templates in a namespace, until this is dropped.
fn clean_up(site: &Site) -> JoinSet<()> {
    let (client, metrics) = (site.client.clone(), Arc::new(Metrics::default()));
    let scope = Scope::new(std::slice::from_ref(&site.namespace), None).unwrap();
    let cache = Arc::new(Cache::new(Facts::not_listed(&watch::WATCHED).within(scope)));
    let candidacy = Candidacy::new(&*site.namespace, "templates", std::time::Duration::from_secs(6));
    let (election, leadership) = Election::new(client.clone(), candidacy, metrics.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(watch::keep_current(client.clone(), cache.clone(), metrics.clone()));
    tasks.spawn(election.run(CancellationToken::new()));
    let setup = Setup { client: client.clone(), leadership: leadership.clone(), cache, extensions: None, metrics };
    let controller = Arc::new(TemplatesController(setup));
    let run = move || {
        let controller = controller.clone();
        Definitions::beside(client.clone(), Arc::default(), |definitions| controller.run(definitions))
    };
    tasks.spawn(async move { leadership.while_leading(run).await });
    tasks
}

/// The machine deployment of a name in the topology, once it has its finalizer.
async fn deployment(site: &Site, name: &str) -> Value {
    site.until(&format!("{name} has a finalizer"), || async {
        let all = site.list(CORE, "MachineDeployment").await;
        let label = &"topology.cluster.x-k8s.io/deployment-name";
        let found = all.into_iter().find(|one| one["metadata"]["labels"][label] == name)?;
        let finalizers = found["metadata"]["finalizers"].as_array()?;
        finalizers.contains(&json!("machinedeployment.topology.cluster.x-k8s.io")).then_some(found)
    })
    .await
}

/// Makes a MachineSet for a machine deployment as it is, as Cluster API would, and waits until it has its finalizer.
async fn make_set(site: &Site, name: &str, deployment: &Value) {
    let owner = json!({"apiVersion": CORE, "kind": "MachineDeployment", "name": deployment["metadata"]["name"],
        "uid": deployment["metadata"]["uid"], "controller": true});
    let mut labels = deployment["metadata"]["labels"].clone();
    labels["cluster.x-k8s.io/deployment-name"] = deployment["metadata"]["name"].clone();
    let spec = json!({"clusterName": "demo", "replicas": 1, "selector": deployment["spec"]["selector"],
        "template": deployment["spec"]["template"]});
    site.create(json!({"apiVersion": CORE, "kind": "MachineSet",
        "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]}, "spec": spec}))
        .await;
    site.until(&format!("{name} has a finalizer"), || async {
        let found = site.get(CORE, "MachineSet", name).await?;
        found["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty()).then_some(())
    })
    .await;
}

async fn is_gone(site: &Site, api_version: &str, kind: &str, name: &str) {
    let what = format!("{kind} {name} is gone");
    site.until(&what, || async { site.get(api_version, kind, name).await.is_none().then_some(()) }).await;
}

/// A rotation and the removal of a worker leave no template behind, and take none away that is in use.
async fn templates_go_with_the_last_machines_that_were_made_from_them(site: Site) {
    // DEL-04, DEL-06 to DEL-11
    let wire = Wire::new(Trouble::None);
    site.provide().await;
    let manager = Manager::start(&site, &wire);
    let _cleaner = clean_up(&site);
    site.apply_file("cluster.yaml").await;
    site.reconciled("demo").await;
    let before = deployment(&site, "blue").await;
    make_set(&site, "blue-old", &before).await;

    // A new template of machines, and the same bootstrap template.
    site.change("demo", |topology| {
        let variables = topology["variables"].as_array_mut().unwrap();
        variables.retain(|variable| variable["name"] != "workerStartup");
        variables.push(json!({"name": "workerStartup", "value": "7s"}));
    })
    .await;
    let after = site
        .until("blue has another template", || async {
            let blue = deployment(&site, "blue").await;
            (text(&blue, MACHINE) != text(&before, MACHINE)).then_some(blue)
        })
        .await;
    assert_eq!(text(&after, CONFIG), text(&before, CONFIG));
    make_set(&site, "blue-new", &after).await;
    let template = |deployment: &Value| text(deployment, MACHINE);
    assert!(site.get(INFRASTRUCTURE, "EmbeddedMachineTemplate", &template(&before)).await.is_some());
    site.delete(CORE, "MachineSet", "blue-old").await;
    is_gone(&site, CORE, "MachineSet", "blue-old").await;
    assert_eq!(site.get(INFRASTRUCTURE, "EmbeddedMachineTemplate", &template(&before)).await, None);
    assert!(site.get(BOOTSTRAP, "EmbeddedConfigTemplate", &text(&after, CONFIG)).await.is_some());

    // The worker goes: its health check with it, its templates with its last set.
    let name = text(&after, "/metadata/name");
    site.change("demo", |topology| {
        topology["workers"]["machineDeployments"].as_array_mut().unwrap().retain(|one| one["name"] != "blue");
    })
    .await;
    is_gone(&site, CORE, "MachineDeployment", &name).await;
    is_gone(&site, CORE, "MachineHealthCheck", &name).await;
    // Where garbage is collected the set goes by itself.
    let _ = site.api(CORE, "MachineSet").delete("blue-new", &DeleteParams::default()).await;
    is_gone(&site, CORE, "MachineSet", "blue-new").await;
    is_gone(&site, INFRASTRUCTURE, "EmbeddedMachineTemplate", &template(&after)).await;
    is_gone(&site, BOOTSTRAP, "EmbeddedConfigTemplate", &text(&after, CONFIG)).await;
    let green = deployment(&site, "green").await;
    assert!(site.get(INFRASTRUCTURE, "EmbeddedMachineTemplate", &template(&green)).await.is_some());
    manager.stop().await;
}

/// An edit of a class that is taken back while machines of before are still there: the content is that of before, under
/// a new name (ROT-12, `docs/operations.md`, "Going back"), and no template is left behind.
async fn an_edit_that_is_taken_back_in_the_middle_leaves_nothing_behind(site: Site) {
    const NODE: &str = "/spec/template/spec/backend/inMemory/node/provisioning/startupDuration";
    let wire = Wire::new(Trouble::None);
    site.provide().await;
    let manager = Manager::start(&site, &wire);
    let _cleaner = clean_up(&site);
    site.apply_file("cluster.yaml").await;
    site.reconciled("demo").await;
    let template = async |deployment: &Value| {
        site.get(INFRASTRUCTURE, "EmbeddedMachineTemplate", &text(deployment, MACHINE)).await.unwrap()
    };
    let edit = async |duration: &Value| {
        let edit = json!({"spec": {"template": {"spec": {"backend": {"inMemory": {"node": {"provisioning": {
            "startupDuration": duration}}}}}}}});
        site.merge(INFRASTRUCTURE, "EmbeddedMachineTemplate", "embedded-worker-machine", edit).await;
    };
    let rolled = async |before: &Value| {
        let is_another = async || {
            let blue = deployment(&site, "blue").await;
            (text(&blue, MACHINE) != text(before, MACHINE)).then_some(blue)
        };
        let blue = site.until("blue has another template", is_another).await;
        site.reconciled("demo").await;
        blue
    };
    let first = deployment(&site, "blue").await;
    let original = template(&first).await;
    make_set(&site, "blue-first", &first).await;

    edit(&json!("7s")).await;
    let second = rolled(&first).await;
    assert_eq!(template(&second).await.pointer(NODE), Some(&json!("7s")));
    make_set(&site, "blue-second", &second).await;
    edit(original.pointer(NODE).unwrap()).await;
    let third = rolled(&second).await;
    assert_eq!(template(&third).await["spec"], original["spec"]);
    assert_ne!(text(&third, MACHINE), text(&first, MACHINE), "ROT-12");
    assert_eq!(text(&third, CONFIG), text(&first, CONFIG), "what was not edited is the same template all the time");

    // Machines of both are replaced, and their sets go.
    make_set(&site, "blue-third", &third).await;
    for (set, deployment) in [("blue-second", &second), ("blue-first", &first)] {
        site.delete(CORE, "MachineSet", set).await;
        is_gone(&site, CORE, "MachineSet", set).await;
        is_gone(&site, INFRASTRUCTURE, "EmbeddedMachineTemplate", &text(deployment, MACHINE)).await;
    }
    let owned = |object: &&Value| object["metadata"]["labels"]["topology.cluster.x-k8s.io/deployment-name"] == "blue";
    for (api_version, kind, in_use) in
        [(INFRASTRUCTURE, "EmbeddedMachineTemplate", MACHINE), (BOOTSTRAP, "EmbeddedConfigTemplate", CONFIG)]
    {
        let left: Vec<String> =
            site.list(api_version, kind).await.iter().filter(owned).map(|one| text(one, "/metadata/name")).collect();
        assert_eq!(left, [text(&third, in_use)], "nothing is left behind");
    }
    manager.stop().await;
}

on_both![
    templates_go_with_the_last_machines_that_were_made_from_them,
    an_edit_that_is_taken_back_in_the_middle_leaves_nothing_behind,
];
