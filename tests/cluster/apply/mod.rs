//! Plans are carried out on a real API server, and dry runs decide what is in them.

mod normalizing;
mod stage;

use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use topologist::hub::Object;
use topologist::kubernetes::mitigation::mitigate;
use topologist::topology::plan::Certainty;
use topologist::topology::shim::Shim;

use self::stage::{BOOTSTRAP, CONTROL_PLANE, CORE, INFRASTRUCTURE, MADE, Stage, steps};

const MACHINES: (&str, &str) = (INFRASTRUCTURE, "ForgeMachineTemplate");
const GROUND: (&str, &str) = (INFRASTRUCTURE, "ForgeCluster");
const BRAIN: (&str, &str) = (CONTROL_PLANE, "KubeadmControlPlane");
const DEPLOYMENT: (&str, &str) = (CORE, "MachineDeployment");

#[tokio::test]
async fn a_topology_is_written_once() {
    // RS-12, RS-14, RS-22, RS-38, RS-39, SSA-01, LBL-01, EV-01, EV-07, EV-08
    let stage = Stage::new("written").await;
    let planned = stage.plan().await.unwrap();
    assert_eq!(planned.plan.shim, Shim::Create);
    let outcome = stage.apply(&planned).await;
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    let want = [
        "POST configmaps",
        "PATCH forgeclusters",
        "PATCH machinehealthchecks",
        "PATCH forgemachinetemplates",
        "PATCH kubeadmcontrolplanes",
        "PATCH clusters",
        "PATCH forgemachinetemplates",
        "PATCH kubeadmconfigtemplates",
        "PATCH machinedeployments",
        "PATCH machinehealthchecks",
        "PATCH forgemachinepools",
        "PATCH kubeadmconfigs",
        "PATCH machinepools",
    ];
    assert_eq!(stage.requests(), (want.map(str::to_owned).to_vec(), 0));
    assert_eq!(outcome.written.len(), want.len() - 1);
    let cluster = stage.cluster().await;
    assert_eq!(
        outcome.cluster.unwrap().as_ref()["metadata"]["resourceVersion"],
        cluster["metadata"]["resourceVersion"]
    );
    // DEC-47
    let shim = serde_json::to_value(stage.api("v1", "ConfigMap").get("blade-shim").await.unwrap()).unwrap();
    assert_eq!(shim["metadata"]["ownerReferences"][0]["uid"], cluster["metadata"]["uid"]);
    assert_eq!(outcome.shim, shim["metadata"]["uid"].as_str().map(str::to_owned));
    assert!(stage.api("v1", "Secret").list(&ListParams::default()).await.unwrap().items.is_empty());
    let shim = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "blade-shim", "uid": shim["metadata"]["uid"]});
    for kind in MADE {
        for object in stage.made(kind).await {
            let managers: Vec<_> = object["metadata"]["managedFields"]
                .as_array()
                .unwrap()
                .iter()
                .map(|entry| (entry["manager"].as_str().unwrap(), entry["operation"].as_str().unwrap()))
                .collect();
            assert_eq!(managers, [("capi-topology", "Apply")], "{object:#}");
            let owners = &object["metadata"]["ownerReferences"];
            match kind.1 {
                "ForgeCluster" | "KubeadmControlPlane" => assert_eq!(*owners, json!([shim])),
                "MachineDeployment" | "MachinePool" => assert_eq!(*owners, Value::Null),
                _ => assert_eq!(owners[0]["uid"], cluster["metadata"]["uid"], "{object:#}"),
            }
        }
    }
    let (ground, brain) = (stage.name_of(GROUND).await, stage.name_of(BRAIN).await);
    assert_eq!(cluster["spec"]["infrastructureRef"]["name"], *ground);
    assert_eq!(cluster["spec"]["controlPlaneRef"]["name"], *brain);
    assert_eq!(cluster["metadata"]["labels"]["topology.cluster.x-k8s.io/owned"], "");
    let events = stage.events().await;
    for want in [
        format!("Normal TopologyCreate: Created ForgeCluster \"{ground}\""),
        format!("Normal TopologyCreate: Created KubeadmControlPlane \"{brain}\""),
        format!("Normal TopologyCreate: Created MachineHealthCheck \"{brain}\""),
    ] {
        assert_eq!(events.get(&want), Some(&1), "{want}: {events:#?}");
    }
    // The references to the new objects have no event of their own.
    assert_eq!(events.len(), 11, "{events:#?}");

    // Nothing is to be done before somebody else does something, and nobody has to be asked to know that.
    let again = stage.plan().await.unwrap();
    assert_eq!((steps(&again), again.plan.shim, stage.requests()), (vec![], Shim::Keep, (vec![], 0)));
}

#[tokio::test]
async fn values_that_a_provider_normalizes_are_no_difference() {
    // DEC-15, SSA-07 to SSA-14, ROT-07, PERF-01
    let stage = Stage::new("normalized").await;
    let configuration = normalizing::webhook(&stage.namespace).await;
    stage.kubernetes.apply_yaml(&configuration.to_string()).await;
    stage.until_normalized().await;
    stage.settle().await;
    let size = async || {
        let deployment = stage.one(DEPLOYMENT).await;
        let name = &deployment["spec"]["template"]["spec"]["infrastructureRef"]["name"];
        let templates = stage.made(MACHINES).await;
        let template = templates.into_iter().find(|one| one["metadata"]["name"] == *name).unwrap();
        template["spec"]["template"]["spec"]["size"].clone()
    };
    assert_eq!(size().await, "small", "and not Small, as it is applied");
    let count = |name: &str| {
        let text = stage.metrics.render();
        let line = format!("topologist_ssa_cache_{name}_total{{controller=\"topology\"}} ");
        text.lines().find_map(|found| found.strip_prefix(&line)?.parse::<u32>().ok()).unwrap_or_default()
    };
    let (hits, misses) = (count("hits"), count("misses"));
    for _ in 0..2 {
        assert_eq!((steps(&stage.plan().await.unwrap()), stage.requests()), (vec![], (vec![], 0)));
    }
    assert_eq!((count("hits") - hits, count("misses")), (2, misses));
    assert!(misses > 0);

    // Another way to write the same is asked for, once; another size is another.
    let write = async |size: &str| {
        stage.edit("user", MACHINES, "smith", json!({"spec": {"template": {"spec": {"size": size}}}})).await;
    };
    write("SMALL").await;
    assert_eq!((steps(&stage.plan().await.unwrap()), stage.requests()), (vec![], (vec![], 2)));
    assert_eq!((steps(&stage.plan().await.unwrap()), stage.requests()), (vec![], (vec![], 0)));
    write("LARGE").await;
    let planned = stage.roll_out().await;
    assert_eq!(steps(&planned), ["rotate MachineDeployment/md/infrastructure", "apply MachineDeployment/md"]);
    let change = &planned.plan.steps[0].changes[0];
    assert_eq!((&change.from, &change.to), (&Some(json!("small")), &Some(json!("large"))));
    assert_eq!(size().await, "large");
    assert_eq!(steps(&stage.plan().await.unwrap()), [""; 0]);
}

#[tokio::test]
async fn the_shim_is_deleted_when_the_cluster_owns_its_objects() {
    // RS-14, RS-38, LBL-06, DS-10
    let stage = Stage::new("shim").await;
    stage.roll_out().await;
    let maps = stage.api("v1", "ConfigMap");
    let uid = stage.cluster().await["metadata"]["uid"].clone();
    for kind in [GROUND, BRAIN] {
        let planned = stage.roll_out().await;
        assert_eq!((steps(&planned), planned.plan.shim), (vec![], Shim::Keep));
        assert!(maps.get_opt("blade-shim").await.unwrap().is_some());
        let name = stage.name_of(kind).await;
        let mut owners = stage.one(kind).await["metadata"]["ownerReferences"].clone();
        let cluster = json!({"apiVersion": CORE, "kind": "Cluster", "name": "blade", "uid": uid});
        owners.as_array_mut().unwrap().push(cluster);
        stage.edit("core", kind, &name, json!({"metadata": {"ownerReferences": owners}})).await;
    }
    let planned = stage.roll_out().await;
    assert_eq!((steps(&planned), planned.plan.shim), (vec![], Shim::Delete));
    assert!(maps.get_opt("blade-shim").await.unwrap().is_none());
    // It is gone already, and nothing is wrong with that.
    assert_eq!(stage.roll_out().await.plan.shim, Shim::Delete);
    // Another object of that name is not ours to delete.
    let theirs =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "blade-shim"}, "data": {"a": "b"}});
    maps.create(&PostParams::default(), &serde_json::from_value(theirs).unwrap()).await.unwrap();
    assert_eq!(stage.roll_out().await.plan.shim, Shim::Delete);
    assert!(maps.get_opt("blade-shim").await.unwrap().is_some());
}

#[tokio::test]
async fn another_object_with_the_name_of_the_shim_is_not_changed() {
    // DEC-47
    let stage = Stage::new("foreign-shim").await;
    let maps = stage.api("v1", "ConfigMap");
    let theirs =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "blade-shim"}, "data": {"a": "b"}});
    maps.create(&PostParams::default(), &serde_json::from_value(theirs).unwrap()).await.unwrap();
    let outcome = stage.apply(&stage.plan().await.unwrap()).await;
    let want = format!(
        "ConfigMap {}/blade-shim exists and does not belong to this Cluster; delete or rename it",
        stage.namespace
    );
    assert_eq!(outcome.error.unwrap().to_string(), want);
    assert!(outcome.written.is_empty());
    maps.delete("blade-shim", &DeleteParams::default()).await.unwrap();
    stage.roll_out().await;
    assert!(stage.api("v1", "ConfigMap").get("blade-shim").await.unwrap().metadata.owner_references.is_some());
}

#[tokio::test]
async fn objects_owned_by_a_secret_shim_and_the_secret_are_not_changed() {
    // DEC-47, DS-10: the reference, and earlier versions, use a Secret.
    let stage = Stage::new("former-shim").await;
    stage.roll_out().await;
    let uid = stage.cluster().await["metadata"]["uid"].clone();
    let cluster = json!({"apiVersion": CORE, "kind": "Cluster", "name": "blade", "uid": uid});
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "blade-shim", "ownerReferences": [cluster]}});
    let secrets = stage.api("v1", "Secret");
    let secret = secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let former = json!({"apiVersion": "v1", "kind": "Secret", "name": "blade-shim", "uid": secret.metadata.uid});
    for kind in [GROUND, BRAIN] {
        let name = stage.name_of(kind).await;
        let owners = json!({"metadata": {"ownerReferences": [former, cluster]}});
        stage.edit("core", kind, &name, owners).await;
    }
    stage.requests();
    let planned = stage.roll_out().await;
    assert_eq!(planned.plan.shim, Shim::Keep);
    let (writes, _) = stage.requests();
    assert!(!writes.iter().any(|write| write.contains("secrets")), "{writes:?}");
    for kind in [GROUND, BRAIN] {
        let owners = stage.one(kind).await["metadata"]["ownerReferences"].clone();
        assert!(owners.as_array().unwrap().contains(&former), "{owners}");
    }
    assert!(secrets.get_opt("blade-shim").await.unwrap().is_some());
    assert_eq!(steps(&stage.plan().await.unwrap()), [""; 0]);
}

#[tokio::test]
async fn a_change_writes_only_changed_objects() {
    // ROT-02 to ROT-06, RS-21, RS-30, RS-39, EV-02 to EV-05, DEC-15
    let stage = Stage::new("change").await;
    stage.settle().await;
    let md = stage.name_of(DEPLOYMENT).await;
    let old = stage.one(DEPLOYMENT).await["spec"]["template"]["spec"]["infrastructureRef"]["name"].clone();

    stage.edit_cluster(json!({"spec": {"topology": {"variables": [{"name": "size", "value": "huge"}]}}})).await;
    let planned = stage.roll_out().await;
    assert_eq!(steps(&planned), ["rotate MachineDeployment/md/infrastructure", "apply MachineDeployment/md"]);
    let changes: Vec<_> = planned.plan.steps[0].changes.iter().map(|change| &*change.path).collect();
    assert_eq!((changes, planned.plan.steps[0].certainty), (vec!["spec.template.spec.size"], Certainty::Exact));
    assert_eq!(stage.requests().0, ["PATCH forgemachinetemplates", "PATCH machinedeployments"]);
    let new = stage.one(DEPLOYMENT).await["spec"]["template"]["spec"]["infrastructureRef"]["name"].clone();
    assert_ne!(new, old);
    let size = async |name: &Value| {
        let templates = stage.made(MACHINES).await;
        let found = templates.into_iter().find(|one| one["metadata"]["name"] == *name);
        found.map(|one| one["spec"]["template"]["spec"]["size"].clone())
    };
    assert_eq!((size(&old).await, size(&new).await), (Some(json!("Small")), Some(json!("huge"))));
    let events = stage.events().await;
    let replaced = format!(
        "Normal TopologyCreate: Created ForgeMachineTemplate {new} as a replacement for {old} (template \
         rotation)"
    );
    let updated = format!("Normal TopologyUpdate: Updated MachineDeployment \"{md}\"");
    assert_eq!((events.get(&replaced), events.get(&updated)), (Some(&1), Some(&1)), "{events:#?}");
    assert_eq!((steps(&stage.plan().await.unwrap()), stage.requests().0), (vec![], vec![]));

    // Of a control plane the old template goes at once, and nobody is told.
    let template = |size: &str| json!({"spec": {"template": {"spec": {"size": size}}}});
    stage.edit("user", MACHINES, "brain", template("larger")).await;
    let want = ["rotate controlPlane/machines", "apply controlPlane", "delete controlPlane/machines"];
    assert_eq!(steps(&stage.roll_out().await), want);
    let want = ["PATCH forgemachinetemplates", "PATCH kubeadmcontrolplanes", "DELETE forgemachinetemplates"];
    assert_eq!(stage.requests().0, want);
    assert_eq!(stage.made(MACHINES).await.len(), 3, "the new one, and both of the machine deployment");

    // Metadata alone is changed in place.
    stage.edit("user", MACHINES, "smith", json!({"metadata": {"labels": {"shift": "late"}}})).await;
    assert_eq!(steps(&stage.roll_out().await), ["apply MachineDeployment/md/infrastructure"]);
    let reported = format!("Normal TopologyUpdate: Updated ForgeMachineTemplate {new} (metadata changes)");
    let events = stage.events().await;
    assert!(events.contains_key(&reported), "{events:#?}");

    // A version is told of, and everything comes at once.
    stage.edit_cluster(json!({"spec": {"topology": {"version": "v1.33.1"}}})).await;
    assert_eq!(steps(&stage.roll_out().await), ["apply controlPlane", "apply cluster"]);
    let brain = stage.name_of(BRAIN).await;
    let reported = format!(
        "Normal TopologyUpdate: Updated KubeadmControlPlane \"{brain}\" with version change from v1.33.0 to \
         v1.33.1"
    );
    let events = stage.events().await;
    assert!(events.contains_key(&reported), "{events:#?}");
}

#[tokio::test]
async fn fields_of_others_stay_and_own_fields_are_removed() {
    // SSA-01, LBL-04, ROT-07
    let stage = Stage::new("owners").await;
    stage.settle().await;
    let (ground, brain) = (stage.name_of(GROUND).await, stage.name_of(BRAIN).await);
    stage
        .edit("provider", GROUND, &ground, json!({"spec": {"note": "theirs"}, "metadata": {"labels": {"x": "y"}}}))
        .await;
    let theirs = json!({"kubeadmConfigSpec": {"clusterConfiguration": {"apiServer": {"extraArgs": [
        {"name": "v", "value": "2"}, {"name": "profiling", "value": "false"}, {"name": "theirs", "value": "1"}]}}}});
    stage.edit("provider", BRAIN, &brain, json!({ "spec": theirs })).await;
    assert_eq!(steps(&stage.plan().await.unwrap()), [""; 0]);

    // An edit of a field that is sent is undone.
    stage.edit("intruder", GROUND, &ground, json!({"spec": {"site": "south"}})).await;
    assert_eq!(steps(&stage.roll_out().await), ["apply infrastructure"]);
    let site = stage.one(GROUND).await["spec"].clone();
    assert_eq!((&site["site"], &site["note"]), (&json!("north"), &json!("theirs")));

    let arguments = json!([{"name": "v", "value": "2"}]);
    let spec = json!({"kubeadmConfigSpec": {"clusterConfiguration": {"apiServer": {"extraArgs": arguments}}}});
    let template = json!({"spec": {"template": {"spec": spec}}});
    stage.edit("user", (CONTROL_PLANE, "KubeadmControlPlaneTemplate"), "brain", template).await;
    let without_site = json!({"spec": {"template": {"spec": {"site": null}}}});
    stage.edit("user", (INFRASTRUCTURE, "ForgeClusterTemplate"), "ground", without_site).await;
    assert_eq!(steps(&stage.roll_out().await), ["apply infrastructure", "apply controlPlane"]);
    let spec = stage.one(BRAIN).await["spec"].clone();
    let left = &spec["kubeadmConfigSpec"]["clusterConfiguration"]["apiServer"]["extraArgs"];
    let names: Vec<_> = left.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    // The provider has sent the whole list, and owns only what it has added.
    assert_eq!(names, ["v", "theirs"]);
    assert_eq!(stage.one(GROUND).await["spec"]["site"], Value::Null);
    // Repeated events are counted.
    let reported = format!("Normal TopologyUpdate: Updated ForgeCluster \"{ground}\"");
    assert_eq!(stage.events().await.get(&reported), Some(&2));
    assert_eq!(steps(&stage.plan().await.unwrap()), [""; 0]);
}

#[tokio::test]
async fn an_object_of_that_name_is_taken_over() {
    // RS-13, DEC-36
    let named = |document: &mut Value| {
        if document["kind"] == "ClusterClass" {
            document["spec"]["infrastructure"]["naming"] = json!({"template": "{{ .cluster.name }}"});
        }
    };
    let stage = Stage::with("adopted", named).await;
    let found = json!({"metadata": {"name": "blade"}, "spec": {"site": "south", "note": "mine"}});
    stage.create(GROUND, found).await;
    stage.roll_out().await;
    let ground = stage.one(GROUND).await;
    assert_eq!((&ground["spec"]["site"], &ground["spec"]["note"]), (&json!("north"), &json!("mine")));
}

#[tokio::test]
async fn an_object_that_another_writer_creates_first_is_not_written_over() {
    // RS-13, DEC-36: the plan knows nothing of it, and the API server refuses to write over it.
    let stage = Stage::new("overtaken").await;
    let planned = stage.plan().await.unwrap();
    let create = planned.plan.steps.iter().find(|step| step.object.kind == BRAIN.1).unwrap();
    let name = create.object.key.name.clone();
    let spec = json!({"replicas": 5, "version": "v1.31.0"});
    let labels = json!({"cluster.x-k8s.io/cluster-name": "other", "topology.cluster.x-k8s.io/owned": ""});
    let theirs = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
    stage.create(BRAIN, theirs).await;
    let before = stage.one(BRAIN).await;
    let error = stage.apply(&planned).await.error.unwrap();
    let message = error.to_string();
    assert!(message.contains("Cluster \"other\"") && message.contains("Cluster \"blade\""), "{message}");
    let after = stage.one(BRAIN).await;
    assert_eq!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    // The infrastructure cluster is noted, and the template for the control plane is gone (RS-18, RS-21).
    let cluster = stage.cluster().await;
    assert!(cluster["spec"]["infrastructureRef"]["name"].is_string());
    assert_eq!(cluster["spec"]["controlPlaneRef"], Value::Null);
    assert!(stage.made(MACHINES).await.is_empty());
}

#[tokio::test]
async fn an_object_that_was_replaced_is_neither_changed_nor_created_again() {
    // SSA-05, RS-33
    let stage = Stage::new("replaced").await;
    stage.settle().await;
    let ground = stage.name_of(GROUND).await;
    stage
        .edit(
            "user",
            (INFRASTRUCTURE, "ForgeClusterTemplate"),
            "ground",
            json!({"spec": {"template": {"spec": {"site": "west"}}}}),
        )
        .await;
    let planned = stage.plan().await.unwrap();
    assert_eq!(steps(&planned), ["apply infrastructure"]);
    stage.api(GROUND.0, GROUND.1).delete(&ground, &DeleteParams::default()).await.unwrap();
    let error = stage.apply(&planned).await.error.unwrap();
    assert!(error.is_conflict(), "{error}");
    assert!(error.to_string().contains(&ground), "{error}");
    assert!(stage.made(GROUND).await.is_empty());

    let stage = Stage::new("namesake").await;
    stage.settle().await;
    let md = stage.name_of(DEPLOYMENT).await;
    stage.edit_cluster(json!({"spec": {"topology": {"workers": {"machineDeployments": null}}}})).await;
    let planned = stage.plan().await.unwrap();
    assert_eq!(steps(&planned), ["delete MachineDeployment/md/healthCheck", "delete MachineDeployment/md"]);
    // No controller deletes its templates and removes the finalizer.
    stage.edit("user", DEPLOYMENT, &md, json!({"metadata": {"finalizers": null}})).await;
    stage.api(DEPLOYMENT.0, DEPLOYMENT.1).delete(&md, &DeleteParams::default()).await.unwrap();
    stage.create(DEPLOYMENT, json!({"metadata": {"name": md}, "spec": {}})).await;
    let error = stage.apply(&planned).await.error.unwrap();
    assert!(error.is_conflict(), "{error}");
    assert!(stage.api(DEPLOYMENT.0, DEPLOYMENT.1).get_opt(&md).await.unwrap().is_some());
}

#[tokio::test]
async fn removed_workers_are_deleted_and_existing_ones_not_created_again() {
    // RS-27, RS-33, RS-34, DEL-03, EV-06
    let stage = Stage::new("workers").await;
    stage.settle().await;
    let workers = |names: &[&str]| {
        let workers: Vec<_> = names.iter().map(|name| json!({"name": name, "class": "smith", "replicas": 1})).collect();
        json!({"spec": {"topology": {"workers": {"machineDeployments": workers, "machinePools": null}}}})
    };
    let (md, mp) = (stage.name_of(DEPLOYMENT).await, stage.name_of((CORE, "MachinePool")).await);
    stage.edit_cluster(workers(&["other", "third"])).await;
    let planned = stage.plan().await.unwrap();
    let label = json!({"cluster.x-k8s.io/cluster-name": "blade", "topology.cluster.x-k8s.io/owned": "",
        "topology.cluster.x-k8s.io/deployment-name": "other"});
    stage.create(DEPLOYMENT, json!({"metadata": {"name": "already", "labels": label}, "spec": {}})).await;
    stage.requests();
    let outcome = stage.apply(&planned).await;
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    let want = [
        "PATCH forgemachinetemplates",
        "PATCH kubeadmconfigtemplates",
        "PATCH machinedeployments",
        "PATCH machinehealthchecks",
        "DELETE machinehealthchecks",
        "DELETE machinedeployments",
        "DELETE machinepools",
    ];
    assert_eq!(stage.requests().0, want);
    let left = stage.made(DEPLOYMENT).await;
    // What is deleted waits for the controller that deletes its templates.
    let left = left.iter().filter(|one| one["metadata"]["deletionTimestamp"].is_null());
    let left: Vec<_> =
        left.map(|one| &one["metadata"]["labels"]["topology.cluster.x-k8s.io/deployment-name"]).collect();
    assert_eq!(left, [&json!("other"), &json!("third")]);
    let events = stage.events().await;
    for reported in [
        format!("Normal TopologyDelete: Deleted MachineDeployment \"{md}\""),
        format!("Normal TopologyDelete: Deleted MachinePool \"{mp}\""),
        format!("Normal TopologyDelete: Deleted MachineHealthCheck \"{md}\""),
    ] {
        assert!(events.contains_key(&reported), "{reported}: {events:#?}");
    }
}

#[tokio::test]
async fn a_cluster_that_others_write_still_gets_its_references() {
    // RS-18, RS-22, RS-23
    let stage = Stage::new("busy").await;
    let planned = stage.plan().await.unwrap();
    let pending = json!({"runtime.cluster.x-k8s.io/pending-hooks": "SomeHook"});
    stage.edit_cluster(json!({"metadata": {"labels": {"mine": "yes"}, "annotations": pending}})).await;
    let outcome = stage.apply(&planned).await;
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    let cluster = stage.cluster().await;
    assert!(cluster["spec"]["controlPlaneRef"]["name"].is_string());
    assert_eq!(cluster["metadata"]["labels"]["mine"], "yes");
    assert_eq!(cluster["metadata"]["annotations"], pending);

    // Where somebody has decided otherwise, nothing is overwritten.
    let stage = Stage::new("decided").await;
    let planned = stage.plan().await.unwrap();
    let theirs = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "ForgeCluster", "name": "theirs"});
    stage.edit_cluster(json!({"spec": {"infrastructureRef": theirs}})).await;
    let error = stage.apply(&planned).await.error.unwrap();
    assert_eq!(
        (error.is_conflict(), error.to_string()),
        (true, format!("Cluster {}/blade has changed since it was read", stage.namespace))
    );
    assert_eq!(stage.cluster().await["spec"]["infrastructureRef"], theirs);
}

#[tokio::test]
async fn lost_managed_fields_are_repaired_before_anything_is_applied() {
    // SSA-20 to SSA-23
    let stage = Stage::new("mended").await;
    stage.settle().await;
    let cluster = async || {
        let mut cluster = stage.cluster().await;
        (cluster["apiVersion"], cluster["kind"]) = (json!(CORE), json!("Cluster"));
        Object::try_from(cluster).unwrap()
    };
    let mended = async || mitigate(&stage.client, &cluster().await, stage.everything().await.iter()).await;
    assert!(!mended().await.unwrap());

    let (ground, brain) = (stage.name_of(GROUND).await, stage.name_of(BRAIN).await);
    let lose = async |kind: (&str, &str), name: &str| {
        let lost = Patch::Merge(json!({"metadata": {"managedFields": [{}]}}));
        stage.api(kind.0, kind.1).patch(name, &PatchParams::default(), &lost).await.unwrap();
    };
    for (kind, name) in [(GROUND, &*ground), (BRAIN, &*brain), ((CORE, "Cluster"), "blade")] {
        lose(kind, name).await;
    }
    assert!(mended().await.unwrap());
    assert!(!mended().await.unwrap());
    let managers = |object: &Value| {
        let entries = object["metadata"]["managedFields"].as_array().unwrap().clone();
        entries.iter().map(|entry| entry["manager"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(managers(&stage.one(GROUND).await), ["capi-topology"]);
    assert_eq!(managers(&stage.cluster().await), ["manager"]);

    // What the control plane does not send any more goes, although the record was lost in between.
    let spec = json!({"kubeadmConfigSpec": {"clusterConfiguration": {"apiServer": {"extraArgs": [{"name": "v",
        "value": "2"}]}}}});
    let template = json!({"spec": {"template": {"spec": spec}}});
    stage.edit("user", (CONTROL_PLANE, "KubeadmControlPlaneTemplate"), "brain", template).await;
    assert_eq!(steps(&stage.roll_out().await), ["apply infrastructure", "apply controlPlane"]);
    let brain = stage.one(BRAIN).await;
    let arguments = &brain["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]["apiServer"]["extraArgs"];
    assert_eq!(*arguments, json!([{"name": "v", "value": "2"}]));
    assert_eq!(managers(&brain)[0], "capi-topology");
    assert_eq!(steps(&stage.plan().await.unwrap()), [""; 0]);
}

#[tokio::test]
async fn a_rejected_dry_run_fails_the_plan() {
    // SSA-09, RS-36
    let stage = Stage::new("refused").await;
    stage.settle().await;
    let weights =
        json!({"spec": {"template": {"spec": {"zones": [{"name": "a", "weight": 1}, {"name": "b", "weight": 9}]}}}});
    stage.edit("user", MACHINES, "smith", weights).await;
    assert_eq!(steps(&stage.plan().await.unwrap())[0], "rotate MachineDeployment/md/infrastructure");
    let site = json!({"spec": {"template": {"spec": {"site": 5}}}});
    stage.edit("user", (INFRASTRUCTURE, "ForgeClusterTemplate"), "ground", site).await;
    let failure = async || stage.plan().await.unwrap().plan.failure.unwrap().to_string();
    let error = failure().await;
    let ground = stage.name_of(GROUND).await;
    let want = format!("ForgeCluster {}/{ground} failed to apply in a dry run: ", stage.namespace);
    assert!(error.starts_with(&want), "{error}");
    assert!(error.contains("spec.site"), "{error}");
    assert_eq!(error, failure().await);
    assert!(stage.made((BOOTSTRAP, "KubeadmConfigTemplate")).await.len() == 1);
}
