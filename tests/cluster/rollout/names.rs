//! Naming templates that give two owners one name: no object changes its owner (DEC-36).

use serde_json::{Value, json};

use super::layer::{Trouble, Wire};
use super::site::{BOOTSTRAP, CONTROL_PLANE, CORE, INFRASTRUCTURE, Manager, Site, bundle, text};

on_both![
    a_second_cluster_of_constant_names_leaves_the_first_alone,
    the_control_plane_of_an_unmanaged_cluster_is_left_alone,
    two_sets_of_one_name_are_an_error_and_nothing_is_written,
    a_set_of_another_cluster_keeps_its_owner,
    a_set_takes_the_name_of_one_that_left_when_that_is_gone,
];

const WORKERS: &str = "/spec/workers/machineDeployments/0/naming";

/// Sets a naming template of the class.
async fn name_by(site: &Site, pointer: &str, template: &str) {
    let patch = json!([{"op": "add", "path": pointer, "value": {"template": template}}]);
    let patch = kube::api::Patch::Json::<()>(serde_json::from_value(patch).unwrap());
    site.api(CORE, "ClusterClass").patch("embedded", &kube::api::PatchParams::default(), &patch).await.unwrap();
}

async fn start(site: &Site) -> (Manager, std::sync::Arc<Wire>) {
    let wire = Wire::new(Trouble::None);
    site.provide().await;
    (Manager::start(site, &wire), wire)
}

/// A Cluster of the bundle with another name and one machine deployment.
async fn create(site: &Site, name: &str, set: &str) {
    let mut cluster = bundle("cluster.yaml").remove(0);
    cluster["metadata"]["name"] = json!(name);
    cluster["spec"]["topology"]["workers"] =
        json!({"machineDeployments": [{"class": "default-worker", "name": set, "replicas": 1}]});
    site.create(cluster).await;
}

/// Waits until the condition of a Cluster names all of these.
async fn refused(site: &Site, cluster: &str, names: &[&str]) {
    site.until(&format!("the condition of {cluster} names {names:?}"), || async {
        let (reason, message) = site.reported(cluster).await;
        (reason == "ReconcileFailed" && names.iter().all(|name| message.contains(name))).then_some(())
    })
    .await;
}

/// What of an object must not change.
async fn owned(site: &Site, api_version: &str, kind: &str, name: &str) -> [Value; 3] {
    let object = site.get(api_version, kind, name).await.unwrap_or_else(|| panic!("{kind} {name} is there"));
    [object["metadata"]["uid"].clone(), object["metadata"]["labels"].clone(), object["spec"].clone()]
}

async fn a_second_cluster_of_constant_names_leaves_the_first_alone(site: Site) {
    let (manager, _wire) = start(&site).await;
    name_by(&site, "/spec/controlPlane/naming", "brain").await;
    create(&site, "first", "blue").await;
    site.reconciled("first").await;
    let brain = async || owned(&site, CONTROL_PLANE, "EmbeddedControlPlane", "brain").await;
    let check = async || owned(&site, CORE, "MachineHealthCheck", "brain").await;
    let before = (brain().await, check().await);
    create(&site, "second", "blue").await;
    refused(&site, "second", &["Cluster \"first\"", "Cluster \"second\"", "/brain"]).await;
    manager.until_retried().await;
    assert_eq!((brain().await, check().await), before, "\n{}", site.state().await);
    let second = site.cluster("second").await;
    assert_eq!(second["spec"]["controlPlaneRef"], Value::Null, "{second:#}");
    // Nothing of the first is reached from the second, so nothing of it is deleted.
    site.delete(CORE, "Cluster", "second").await;
    site.until("the second is gone", || async { site.get(CORE, "Cluster", "second").await.is_none().then_some(()) })
        .await;
    manager.until_idle().await;
    assert_eq!((brain().await, check().await), before);
    site.reconciled("first").await;
    manager.stop().await;
}

async fn the_control_plane_of_an_unmanaged_cluster_is_left_alone(site: Site) {
    let (manager, _wire) = start(&site).await;
    name_by(&site, "/spec/controlPlane/naming", "{{ .cluster.name }}-control-plane").await;
    site.create(json!({
        "apiVersion": CONTROL_PLANE, "kind": "EmbeddedControlPlane",
        "metadata": {"name": "demo-control-plane", "labels": {"cluster.x-k8s.io/cluster-name": "old"}},
        "spec": {"replicas": 5, "version": "v1.31.0"},
    }))
    .await;
    let before = owned(&site, CONTROL_PLANE, "EmbeddedControlPlane", "demo-control-plane").await;
    create(&site, "demo", "blue").await;
    refused(&site, "demo", &["Cluster \"old\"", "Cluster \"demo\"", "demo-control-plane"]).await;
    manager.until_retried().await;
    let after = owned(&site, CONTROL_PLANE, "EmbeddedControlPlane", "demo-control-plane").await;
    assert_eq!(after, before);
    // No template is made for it again and again.
    assert_eq!(
        site.list(INFRASTRUCTURE, "EmbeddedMachineTemplate").await.len(),
        templates_of_class(),
        "{}",
        site.state().await
    );
    name_by(&site, "/spec/controlPlane/naming", "{{ .cluster.name }}-brain").await;
    site.reconciled("demo").await;
    let cluster = site.cluster("demo").await;
    assert_eq!(text(&cluster, "/spec/controlPlaneRef/name"), "demo-brain");
    assert_eq!(owned(&site, CONTROL_PLANE, "EmbeddedControlPlane", "demo-control-plane").await, before);
    manager.stop().await;
}

/// How many machine templates the class has.
fn templates_of_class() -> usize {
    bundle("class.yaml").iter().filter(|object| text(object, "/kind") == "EmbeddedMachineTemplate").count()
}

async fn two_sets_of_one_name_are_an_error_and_nothing_is_written(site: Site) {
    let (manager, wire) = start(&site).await;
    name_by(&site, WORKERS, "{{ .cluster.name }}-workers").await;
    site.apply_file("cluster.yaml").await;
    refused(&site, "demo", &["\"blue\"", "\"green\"", "demo-workers", ".machineDeployment.topologyName"]).await;
    let writes = wire.writes().len();
    manager.until_retried().await;
    let of_others = wire.writes().into_iter().skip(writes).filter(|write| !write.path.contains("/clusters/"));
    assert_eq!(of_others.count(), 0);
    assert_eq!(site.list(CORE, "MachineDeployment").await.len(), 0);
    name_by(&site, WORKERS, "{{ .cluster.name }}-{{ .machineDeployment.topologyName }}").await;
    site.reconciled("demo").await;
    let sets = site.list(CORE, "MachineDeployment").await;
    let names: Vec<String> = sets.iter().map(|set| text(set, "/metadata/name")).collect();
    assert_eq!(names, ["demo-blue", "demo-green"]);
    manager.stop().await;
}

async fn a_set_of_another_cluster_keeps_its_owner(site: Site) {
    let (manager, _wire) = start(&site).await;
    name_by(&site, WORKERS, "workers-{{ .machineDeployment.topologyName }}").await;
    create(&site, "first", "blue").await;
    site.reconciled("first").await;
    let before = owned(&site, CORE, "MachineDeployment", "workers-blue").await;
    create(&site, "second", "blue").await;
    refused(
        &site,
        "second",
        &["Cluster \"first\"", "MachineDeployment \"blue\" of Cluster \"second\"", "/workers-blue"],
    )
    .await;
    manager.until_retried().await;
    assert_eq!(owned(&site, CORE, "MachineDeployment", "workers-blue").await, before);
    let templates = site.list(BOOTSTRAP, "EmbeddedConfigTemplate").await;
    let of_second =
        templates.iter().filter(|one| one["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == "second");
    assert_eq!(of_second.count(), 0);
    // Another set of the same topology has a name of its own.
    site.change("second", |topology| topology["workers"]["machineDeployments"][0]["name"] = json!("red")).await;
    site.reconciled("second").await;
    assert_eq!(owned(&site, CORE, "MachineDeployment", "workers-blue").await, before);
    manager.stop().await;
}

async fn a_set_takes_the_name_of_one_that_left_when_that_is_gone(site: Site) {
    // RS-26
    let (manager, _wire) = start(&site).await;
    name_by(&site, WORKERS, "{{ .cluster.name }}-workers").await;
    create(&site, "demo", "before").await;
    site.reconciled("demo").await;
    let uid = async || Some(site.get(CORE, "MachineDeployment", "demo-workers").await?["metadata"]["uid"].clone());
    let old = uid().await.unwrap();
    site.change("demo", |topology| topology["workers"]["machineDeployments"][0]["name"] = json!("after")).await;
    let new = site
        .until("the new set is there", || async {
            let set = site.get(CORE, "MachineDeployment", "demo-workers").await?;
            let is_new = set["metadata"]["labels"]["topology.cluster.x-k8s.io/deployment-name"] == "after";
            is_new.then(|| set["metadata"]["uid"].clone())
        })
        .await;
    assert_ne!(new, old);
    site.reconciled("demo").await;
    assert_eq!(uid().await, Some(new));
    manager.stop().await;
}
