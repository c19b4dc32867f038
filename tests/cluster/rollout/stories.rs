//! What users do to a topology, and what follows.

use std::collections::BTreeSet;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::crash::written;
use super::layer::{Trouble, Wire};
use super::site::{BOOTSTRAP, CONTROL_PLANE, CORE, INFRASTRUCTURE, MADE, Manager, Site, text};

on_both![
    a_cluster_becomes_a_topology_and_then_nothing_is_read_or_written_any_more,
    workers_are_scaled_added_and_removed,
    a_pool_of_an_autoscaler_has_its_minimum_until_it_is_scaled,
    a_variable_changes_objects_in_place_and_gives_templates_new_names,
    an_edited_template_of_a_class_rolls_every_cluster_of_the_class,
    health_checks_come_and_go,
    an_upgrade_goes_through_the_control_plane_first,
    fields_that_topologies_send_are_theirs_and_others_are_not,
    an_object_that_bears_the_name_already_is_taken_over,
    what_is_wrong_stands_in_the_condition_with_a_stable_text,
    a_paused_cluster_is_left_alone,
    a_deleted_cluster_is_not_made_again,
    lost_records_of_owners_are_mended_and_say_nothing,
];

/// A cluster of the bundle, rolled out.
async fn rolled_out(site: &Site) -> (Manager, std::sync::Arc<Wire>) {
    let wire = Wire::new(Trouble::None);
    site.provide().await;
    let manager = Manager::start(site, &wire);
    site.apply_file("cluster.yaml").await;
    site.reconciled("demo").await;
    (manager, wire)
}

/// The names of the objects of a kind that belong to a topology.
async fn owned(site: &Site, api_version: &str, kind: &str) -> BTreeSet<String> {
    let all = site.list(api_version, kind).await;
    let is_owned = |object: &&Value| object["metadata"]["labels"]["topology.cluster.x-k8s.io/owned"].is_string();
    all.iter().filter(is_owned).map(|object| text(object, "/metadata/name")).collect()
}

/// The machine deployment of a name in the topology.
async fn deployment(site: &Site, cluster: &str, name: &str) -> Option<Value> {
    let fits = |object: &Value| {
        let labels = &object["metadata"]["labels"];
        labels["topology.cluster.x-k8s.io/deployment-name"] == name
            && labels["cluster.x-k8s.io/cluster-name"] == cluster
    };
    site.list(CORE, "MachineDeployment").await.into_iter().find(fits)
}

async fn a_cluster_becomes_a_topology_and_then_nothing_is_read_or_written_any_more(site: Site) {
    // RS-07, RS-12, RS-14, RS-38, RS-39, LBL-01, LBL-06, PERF-09
    let (manager, wire) = rolled_out(&site).await;
    for (api_version, kind, count) in [
        (INFRASTRUCTURE, "EmbeddedCluster", 1),
        (CONTROL_PLANE, "EmbeddedControlPlane", 1),
        (INFRASTRUCTURE, "EmbeddedMachineTemplate", 3),
        (BOOTSTRAP, "EmbeddedConfigTemplate", 2),
        (BOOTSTRAP, "EmbeddedConfig", 1),
        (INFRASTRUCTURE, "EmbeddedMachinePool", 1),
        (CORE, "MachineDeployment", 2),
        (CORE, "MachinePool", 1),
        (CORE, "MachineHealthCheck", 3),
    ] {
        assert_eq!(owned(&site, api_version, kind).await.len(), count, "{kind}\n{}", site.state().await);
    }
    let cluster = site.cluster("demo").await;
    assert!(text(&cluster, "/spec/infrastructureRef/name").starts_with("demo-"), "{cluster}");
    assert!(text(&cluster, "/spec/controlPlaneRef/name").starts_with("demo-"), "{cluster}");
    site.until("the shim goes", || async { site.get("v1", "ConfigMap", "demo-shim").await.is_none().then_some(()) })
        .await;
    let before = written(&site, &manager).await;
    let requested = wire.requests();
    // Something happens that concerns no topology, and something that does and changes nothing.
    let note = json!({"metadata": {"annotations": {"a-user": "was here"}}});
    site.merge(CORE, "Cluster", "demo", note).await;
    site.until_quiet(&manager, "demo").await;
    assert_eq!(wire.requests(), requested);
    let after = site.versions().await;
    let of_others = |version: &&String| !version.starts_with("Cluster demo");
    assert!(before.iter().filter(of_others).eq(after.iter().filter(of_others)));
    let text = manager.metrics.render();
    assert!(
        text.contains("topologist_reconciles_total{controller=\"topology/cluster\",outcome=\"changed\"}"),
        "{text}"
    );
    let events = site.list("v1", "Event").await;
    let reported: Vec<_> =
        events.iter().map(|event| (event["reason"].clone(), event["involvedObject"]["kind"].clone())).collect();
    assert!(reported.contains(&(json!("TopologyCreate"), json!("Cluster"))), "{reported:?}");
    manager.stop().await;
}

async fn workers_are_scaled_added_and_removed(site: Site) {
    // RS-26, RS-28, RS-30, RS-33, DEL-03
    let (manager, _wire) = rolled_out(&site).await;
    let templates = owned(&site, INFRASTRUCTURE, "EmbeddedMachineTemplate").await;
    site.change("demo", |topology| topology["workers"]["machineDeployments"][0]["replicas"] = json!(5)).await;
    site.until("blue is scaled", || async {
        let blue = deployment(&site, "demo", "blue").await?;
        (blue["spec"]["replicas"] == 5).then_some(())
    })
    .await;
    assert_eq!(owned(&site, INFRASTRUCTURE, "EmbeddedMachineTemplate").await, templates, "scaling replaces no machine");
    let added = json!({"class": "default-worker", "name": "red", "replicas": 1});
    site.change("demo", |topology| {
        topology["workers"]["machineDeployments"].as_array_mut().unwrap().push(added);
        topology["workers"].as_object_mut().unwrap().remove("machinePools");
    })
    .await;
    site.until("red is there", || async { deployment(&site, "demo", "red").await }).await;
    site.until("the pool is gone", || async { site.list(CORE, "MachinePool").await.is_empty().then_some(()) }).await;
    site.change("demo", |topology| {
        topology["workers"]["machineDeployments"].as_array_mut().unwrap().retain(|one| one["name"] != "green");
    })
    .await;
    site.until("green is gone", || async { deployment(&site, "demo", "green").await.is_none().then_some(()) }).await;
    site.reconciled("demo").await;
    assert_eq!(owned(&site, CORE, "MachineHealthCheck").await.len(), 3, "one of the control plane, one of each worker");
    manager.stop().await;
}

async fn a_pool_of_an_autoscaler_has_its_minimum_until_it_is_scaled(site: Site) {
    // DEC-114, DS-31, DS-36
    const NAME: &str = "topology.cluster.x-k8s.io/pool-name";
    let (manager, _wire) = rolled_out(&site).await;
    let pool = async |name: &str| {
        let pools = site.list(CORE, "MachinePool").await;
        pools.into_iter().find(|pool| pool["metadata"]["labels"][NAME] == name)
    };
    let replicas = async |name: &str| pool(name).await.map(|pool| pool["spec"]["replicas"].clone());
    let sizes = |least: &str| {
        json!({
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": least,
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "5",
        })
    };
    // The replicas of one pool leave the topology; another one is new.
    site.change("demo", |topology| {
        let pools = topology["workers"]["machinePools"].as_array_mut().unwrap();
        let mut new = pools[0].clone();
        for (pool, least) in [(&mut pools[0], "1"), (&mut new, "3")] {
            pool.as_object_mut().unwrap().remove("replicas");
            pool["metadata"]["annotations"] = sizes(least);
        }
        new["name"] = json!("new");
        pools.push(new);
    })
    .await;
    site.until("the new pool has its minimum", async || (replicas("new").await? == 3).then_some(())).await;
    site.reconciled("demo").await;
    assert_eq!(replicas("pool").await, Some(json!(2)), "it keeps its number");
    for name in ["pool", "new"] {
        let scaled = Patch::Merge(json!({"spec": {"replicas": 4}}));
        let name = text(&pool(name).await.unwrap(), "/metadata/name");
        let autoscaler = PatchParams { field_manager: Some("autoscaler".to_owned()), ..PatchParams::default() };
        site.api(CORE, "MachinePool").patch(&name, &autoscaler, &scaled).await.unwrap();
    }
    site.change("demo", |topology| {
        for pool in topology["workers"]["machinePools"].as_array_mut().unwrap() {
            pool["metadata"]["labels"] = json!({"team": "a"});
        }
    })
    .await;
    for name in ["pool", "new"] {
        let has_label = async || (pool(name).await?["metadata"]["labels"]["team"] == "a").then_some(());
        site.until("the topology writes the pool", has_label).await;
        assert_eq!(replicas(name).await, Some(json!(4)), "{name}");
    }
    site.reconciled("demo").await;
    manager.stop().await;
}

async fn a_variable_changes_objects_in_place_and_gives_templates_new_names(site: Site) {
    // ROT-02 to ROT-05, ROT-10, RS-24, EV-05
    let (manager, _wire) = rolled_out(&site).await;
    let control_plane = owned(&site, CONTROL_PLANE, "EmbeddedControlPlane").await;
    let config = owned(&site, BOOTSTRAP, "EmbeddedConfig").await;
    let machines = owned(&site, INFRASTRUCTURE, "EmbeddedMachineTemplate").await;
    let before = deployment(&site, "demo", "blue").await.unwrap();
    site.change("demo", |topology| topology["variables"][0]["value"] = json!("be careful")).await;
    let bootstrap = "/spec/template/spec/bootstrap/configRef/name";
    let after = site
        .until("blue has another template", || async {
            let blue = deployment(&site, "demo", "blue").await?;
            (text(&blue, bootstrap) != text(&before, bootstrap)).then_some(blue)
        })
        .await;
    site.reconciled("demo").await;
    let template = site.get(BOOTSTRAP, "EmbeddedConfigTemplate", &text(&after, bootstrap)).await.unwrap();
    assert!(template.to_string().contains("be careful"), "{template}");
    assert_eq!(owned(&site, CONTROL_PLANE, "EmbeddedControlPlane").await, control_plane);
    let found = site.list(CONTROL_PLANE, "EmbeddedControlPlane").await;
    assert!(found[0].to_string().contains("be careful"), "{found:?}");
    assert_eq!(owned(&site, BOOTSTRAP, "EmbeddedConfig").await, config, "objects of pools are changed in place");
    assert_eq!(owned(&site, INFRASTRUCTURE, "EmbeddedMachineTemplate").await, machines, "nothing of them changed");
    let reported = site
        .until("the rotation is told", || async {
            let events = site.list("v1", "Event").await;
            let mut messages = events.iter().map(|event| text(event, "/message"));
            messages.find(|message| message.contains("(template rotation)"))
        })
        .await;
    assert!(reported.starts_with("Created EmbeddedConfigTemplate \""), "{reported}");
    manager.stop().await;
}

async fn an_edited_template_of_a_class_rolls_every_cluster_of_the_class(site: Site) {
    // DEC-29
    let (manager, _wire) = rolled_out(&site).await;
    for name in ["second", "third"] {
        let mut cluster = super::site::bundle("cluster.yaml").remove(0);
        cluster["metadata"]["name"] = json!(name);
        site.create(cluster).await;
        site.reconciled(name).await;
    }
    let mut before = Vec::new();
    let infrastructure = "/spec/template/spec/infrastructureRef/name";
    for cluster in ["demo", "second", "third"] {
        before.push(text(&deployment(&site, cluster, "blue").await.unwrap(), infrastructure));
    }
    let edit = json!({"spec": {"template": {"spec": {"backend": {"inMemory": {"node": {"provisioning": {"startupDuration": "7s"}}}}}}}});
    site.merge(INFRASTRUCTURE, "EmbeddedMachineTemplate", "embedded-worker-machine", edit).await;
    for (cluster, before) in ["demo", "second", "third"].into_iter().zip(before) {
        site.until(&format!("{cluster} rolls"), || async {
            let blue = deployment(&site, cluster, "blue").await?;
            let template = site.get(INFRASTRUCTURE, "EmbeddedMachineTemplate", &text(&blue, infrastructure)).await?;
            (text(&blue, infrastructure) != before && template.to_string().contains("\"7s\"")).then_some(())
        })
        .await;
        site.reconciled(cluster).await;
    }
    manager.stop().await;
}

async fn health_checks_come_and_go(site: Site) {
    // RS-19, RS-35
    let (manager, _wire) = rolled_out(&site).await;
    let blue = text(&deployment(&site, "demo", "blue").await.unwrap(), "/metadata/name");
    assert!(site.get(CORE, "MachineHealthCheck", &blue).await.is_some());
    site.change("demo", |topology| {
        topology["workers"]["machineDeployments"][0]["healthCheck"] = json!({"enabled": false});
    })
    .await;
    site.until("its health check is gone", || async {
        site.get(CORE, "MachineHealthCheck", &blue).await.is_none().then_some(())
    })
    .await;
    site.change("demo", |topology| {
        topology["workers"]["machineDeployments"][0].as_object_mut().unwrap().remove("healthCheck");
    })
    .await;
    site.until("it is back", || async { site.get(CORE, "MachineHealthCheck", &blue).await }).await;
    site.delete(CORE, "MachineHealthCheck", &blue).await;
    // DEL-14: what is deleted by hand is made again
    site.until("it is made again", || async { site.get(CORE, "MachineHealthCheck", &blue).await }).await;
    manager.stop().await;
}

async fn an_upgrade_goes_through_the_control_plane_first(site: Site) {
    // UP-24, UP-32, ST-10, ST-15, EV-03
    let (manager, _wire) = rolled_out(&site).await;
    let control_plane = owned(&site, CONTROL_PLANE, "EmbeddedControlPlane").await.pop_first().unwrap();
    site.change("demo", |topology| topology["version"] = json!("v1.34.0")).await;
    site.until("the workers have the version", || async {
        let blue = deployment(&site, "demo", "blue").await?;
        let plane = site.get(CONTROL_PLANE, "EmbeddedControlPlane", &control_plane).await?;
        let (workers, plane) = (text(&blue, "/spec/template/spec/version"), text(&plane, "/status/version"));
        assert!(workers == "v1.33.0" || plane == "v1.34.0", "workers at {workers}, control plane at {plane}");
        (workers == "v1.34.0").then_some(())
    })
    .await;
    site.reconciled("demo").await;
    assert_eq!(site.reported("demo").await.0, "ReconcileSucceeded");
    let cluster = site.cluster("demo").await;
    assert_eq!(cluster["status"]["controlPlane"]["upgradePlan"], Value::Null, "{cluster}");
    site.until("the step is marked no more", || async {
        let step =
            &site.cluster("demo").await["metadata"]["annotations"]["topology.internal.cluster.x-k8s.io/upgrade-step"];
        step.is_null().then_some(())
    })
    .await;
    let events = site.list("v1", "Event").await;
    let is_reported = |event: &Value| text(event, "/message").contains("with version change from v1.33.0 to v1.34.0");
    assert!(events.iter().any(is_reported), "{events:?}");
    manager.stop().await;
}

async fn fields_that_topologies_send_are_theirs_and_others_are_not(site: Site) {
    // SSA-01, SSA-05, ROT-07
    let (manager, _wire) = rolled_out(&site).await;
    let blue = text(&deployment(&site, "demo", "blue").await.unwrap(), "/metadata/name");
    let api = site.api(CORE, "MachineDeployment");
    let theirs = json!({
        "apiVersion": CORE, "kind": "MachineDeployment",
        "metadata": {"name": blue, "annotations": {"somebody": "else"}},
        "spec": {"replicas": 9},
    });
    let refused = api.patch(&blue, &PatchParams::apply("somebody"), &Patch::Apply(&theirs)).await.unwrap_err();
    assert!(refused.to_string().contains("capi-topology"), "{refused}");
    api.patch(&blue, &PatchParams::apply("somebody").force(), &Patch::Apply(&theirs)).await.unwrap();
    let found = site
        .until("the topology has its way", || async {
            let blue = deployment(&site, "demo", "blue").await?;
            (blue["spec"]["replicas"] == 2).then_some(blue)
        })
        .await;
    assert_eq!(found["metadata"]["annotations"]["somebody"], "else");
    manager.stop().await;
}

async fn an_object_that_bears_the_name_already_is_taken_over(site: Site) {
    // RS-13, DEC-36, CT-7.4
    let naming = json!({"spec": {"infrastructure": {"naming": {"template": "{{ .cluster.name }}"}}}});
    site.merge(CORE, "ClusterClass", "embedded", naming).await;
    site.create(json!({
        "apiVersion": INFRASTRUCTURE, "kind": "EmbeddedCluster",
        "metadata": {"name": "demo", "annotations": {"was": "here"}},
        "spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}},
    }))
    .await;
    let (manager, _wire) = rolled_out(&site).await;
    assert_eq!(owned(&site, INFRASTRUCTURE, "EmbeddedCluster").await, BTreeSet::from(["demo".to_owned()]));
    let found = site.get(INFRASTRUCTURE, "EmbeddedCluster", "demo").await.unwrap();
    assert_eq!(found["metadata"]["annotations"]["was"], "here");
    assert_eq!(found["spec"]["controlPlaneEndpoint"]["host"], "10.0.0.1");
    assert_eq!(text(&site.cluster("demo").await, "/spec/infrastructureRef/name"), "demo");
    manager.stop().await;
}

async fn what_is_wrong_stands_in_the_condition_with_a_stable_text(site: Site) {
    // ST-05, RS-09, RS-36
    let (manager, wire) = rolled_out(&site).await;
    let machines = "embedded-worker-machine";
    site.delete(INFRASTRUCTURE, "EmbeddedMachineTemplate", machines).await;
    site.until("the condition tells", || async {
        let (reason, message) = site.reported("demo").await;
        (reason == "ReconcileFailed" && message.contains(machines)).then_some(())
    })
    .await;
    let writes = wire.writes().len();
    let version = site.cluster("demo").await["metadata"]["resourceVersion"].clone();
    manager.until_retried().await;
    assert_eq!(site.cluster("demo").await["metadata"]["resourceVersion"], version, "trying again changes nothing");
    let of_clusters =
        |wire: &Wire| wire.writes().into_iter().skip(writes).filter(|w| w.path.contains("/clusters/")).count();
    assert_eq!(of_clusters(&wire), 0);
    let template =
        super::site::bundle("class.yaml").into_iter().find(|object| text(object, "/metadata/name") == machines);
    site.create(template.unwrap()).await;
    site.reconciled("demo").await;
    manager.stop().await;
}

async fn a_paused_cluster_is_left_alone(site: Site) {
    // RS-05, ST-04
    let (manager, _wire) = rolled_out(&site).await;
    site.merge(CORE, "Cluster", "demo", json!({"spec": {"paused": true}})).await;
    site.until("the condition tells", || async { (site.reported("demo").await.0 == "Paused").then_some(()) }).await;
    let before = written(&site, &manager).await;
    site.change("demo", |topology| topology["workers"]["machineDeployments"][0]["replicas"] = json!(7)).await;
    site.until_quiet(&manager, "demo").await;
    let of_others = |version: &&String| !version.starts_with("Cluster demo");
    assert!(before.iter().filter(of_others).eq(site.versions().await.iter().filter(of_others)));
    site.merge(CORE, "Cluster", "demo", json!({"spec": {"paused": null}})).await;
    site.until("blue is scaled", || async {
        (deployment(&site, "demo", "blue").await?["spec"]["replicas"] == 7).then_some(())
    })
    .await;
    manager.stop().await;
}

async fn lost_records_of_owners_are_mended_and_say_nothing(site: Site) {
    // SSA-20 to SSA-23, ST-17
    let (manager, _wire) = rolled_out(&site).await;
    let blue = text(&deployment(&site, "demo", "blue").await.unwrap(), "/metadata/name");
    let before = site.cluster("demo").await["status"].clone();
    site.merge(CORE, "MachineDeployment", &blue, json!({"metadata": {"managedFields": [{}]}})).await;
    let is_ours = |entry: &Value| entry["manager"] == "capi-topology" && entry["operation"] == "Apply";
    site.until("the record is mended", || async {
        let blue = deployment(&site, "demo", "blue").await?;
        let entries = blue["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        // The next apply owns all that it sends again.
        entries.iter().any(|entry| is_ours(entry) && entry["fieldsV1"]["f:spec"].is_object()).then_some(())
    })
    .await;
    written(&site, &manager).await;
    assert_eq!(site.cluster("demo").await["status"], before);
    manager.stop().await;
}

async fn a_deleted_cluster_is_not_made_again(site: Site) {
    // DEL-01, RS-05
    let (manager, wire) = rolled_out(&site).await;
    written(&site, &manager).await;
    let writes = wire.writes().len();
    site.delete(CORE, "Cluster", "demo").await;
    site.until("it is gone", || async { site.get(CORE, "Cluster", "demo").await.is_none().then_some(()) }).await;
    manager.until_idle().await;
    let owned = |object: &Value| {
        let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        owners.iter().any(|owner| owner["kind"] == "Cluster")
    };
    for (api_version, kind) in MADE {
        site.until("the garbage is collected", || async {
            let is_gone = !site.list(api_version, kind).await.iter().any(owned);
            (is_gone || !site.collects_garbage).then_some(())
        })
        .await;
    }
    // A run that had begun may still write to the Cluster itself, which the server refuses.
    let made = wire.writes().split_off(writes).into_iter().filter(|write| !write.path.contains("/clusters/demo"));
    assert_eq!(made.collect::<Vec<_>>(), []);
    for (api_version, kind) in MADE {
        let left = site.list(api_version, kind).await.iter().filter(|object| owned(object)).count();
        // Where the test runs no garbage collector, everything stays as it is.
        let stays = !site.collects_garbage && !matches!(kind, "MachineDeployment" | "MachinePool");
        assert_eq!(left > 0, stays, "{kind}: {left} left");
    }
    manager.stop().await;
}
