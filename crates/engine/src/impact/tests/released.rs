//! Machines that are outdated before an edit (DEC-59).

use super::*;

const SET: &str = "md-0";

fn set_name(scene: &Scene) -> String {
    let set = &scene.document("Cluster")["spec"]["topology"]["workers"]["machineDeployments"][0];
    set["name"].as_str().unwrap_or(SET).to_owned()
}

fn with_state(scene: &Scene, state: WorkerState) -> Facts {
    let mut stored = facts(scene);
    let set = WorkerSet { cluster: ObjectKey::new("ns", "blade"), name: set_name(scene) };
    stored.put_worker_state(ObjectKey::new("ns", "blade-md"), set, state);
    stored
}

fn cluster_edit(before: &Scene, after: &Scene) -> Edit {
    Edit::Cluster { old: cluster(before), new: cluster(after) }
}

fn strategy(scene: Scene, strategy: &str) -> Scene {
    scene.at("Cluster", &format!("{WORKER}/rollout"), json!({"strategy": {"type": strategy}}))
}

#[test]
fn a_strategy_that_replaces_outdated_machines_counts_them() {
    // ROLL-11
    let (before, after) = (strategy(sized(), "OnDelete"), strategy(sized(), "RollingUpdate"));
    let counted = |state: WorkerState| {
        impact_among(&with_state(&before, state), &cluster_edit(&before, &after)).map(|impact| impact.certain)
    };
    assert_eq!(counted(state(4, 3)), Some(3));
    assert_eq!(counted(state(4, 0)), Some(0));
    assert_eq!(counted(WorkerState { outdated: None, ..state(4, 0) }), Some(4), "they may all be outdated");
}

#[test]
fn machines_that_are_replaced_already_are_not_counted_again() {
    // An upgrade of 3 + 4 + 2 machines; two workers and one of the control plane are outdated before it.
    let after = sized().at("Cluster", "/spec/topology/version", json!("v1.34.0"));
    let counted = |before: &Scene, after: &Scene, outdated: i64| {
        impact_among(&with_state(before, state(4, outdated)), &cluster_edit(before, after)).unwrap().certain
    };
    assert_eq!(counted(&sized(), &after, 0), 9);
    assert_eq!(counted(&sized(), &after, 2), 7);
    let rolling = sized().at("Cluster", "/status", json!({"controlPlane": {"replicas": 3, "upToDateReplicas": 2}}));
    assert_eq!(counted(&rolling, &after, 2), 6);
    let [patient, later] = [sized(), after].map(|scene| strategy(scene, "OnDelete"));
    assert_eq!(counted(&patient, &later, 2), 5, "the four workers stay");
}

#[test]
fn an_upgrade_counts_when_it_is_not_deferred_any_more() {
    // UP-34
    let defers = |name: &str| {
        let annotations = json!({"annotations": {format!("topology.cluster.x-k8s.io/{name}"): ""}});
        sized().at("Cluster", &format!("{WORKER}/metadata"), annotations)
    };
    for before in [defers("defer-upgrade"), defers("hold-upgrade-sequence")] {
        let counted = |version: &str, after: &Scene| {
            let state = WorkerState { version: version.into(), ..state(4, 0) };
            impact_among(&with_state(&before, state), &cluster_edit(&before, after)).unwrap().certain
        };
        let version = sized().document("Cluster")["spec"]["topology"]["version"].as_str().unwrap().to_owned();
        assert_eq!(counted("v1.32.0", &sized()), 4);
        assert_eq!(counted(&version, &sized()), 0, "nothing waits");
        let newer = sized().at("Cluster", "/spec/topology/version", json!("v1.34.0"));
        assert_eq!(counted("v1.32.0", &newer), 9, "each machine counts once");
    }
}

/// Cluster `blade` as it is paused, with a record of what its objects were made from.
fn paused(scene: &Scene, record: Option<&str>) -> Scene {
    let annotations = record.map_or(json!({}), |record| json!({"topologist.dev/rolled-out": record}));
    let reference = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "ForgeCluster", "name": "blade-x"});
    let scene = scene.clone().at("Cluster", "/spec/infrastructureRef", reference);
    scene.at("Cluster", "/spec/paused", json!(true)).at("Cluster", "/metadata/annotations", annotations)
}

#[test]
fn a_cluster_that_is_resumed_counts_if_it_was_edited_while_it_was_paused() {
    let key = ObjectKey::new("ns", "blade");
    let recorded = |scene: &Scene| {
        crate::topology::rollout_record::record(&scene.simulator().compute(&key).unwrap().observed.blueprint)
    };
    let own = recorded(&sized());
    assert_eq!(own, recorded(&sized()));
    assert_ne!(own, recorded(&with_file(&sized())));
    let large = |scene: Scene| scene.at("ForgeMachineTemplate smith", "/spec/template/spec/size", json!("large"));
    let scaled = |scene: Scene| scene.at("Cluster", &format!("{WORKER}/replicas"), json!(1));
    let resume = |scene: &Scene, record: Option<&str>| {
        let before = paused(scene, record);
        let after = before.clone().at("Cluster", "/spec/paused", json!(false));
        impact(&before, &cluster_edit(&before, &after)).unwrap()
    };
    let impact_of_nothing = resume(&sized(), Some(&own));
    assert_eq!((impact_of_nothing.at_most, warnings(&impact_of_nothing)), (0, vec![]), "nothing was edited");
    for (edited, machines) in [(with_file(&sized()), 9), (large(sized()), 9), (scaled(sized()), 6)] {
        let impact = resume(&edited, Some(&own));
        assert_eq!((impact.certain, impact.at_most), (0, machines));
        let bound = format!("may replace or remove up to {machines} machines in 1 Cluster (Cluster ns/blade)");
        let reason = "Cluster ns/blade, its class or their templates were edited while it was paused".to_owned();
        assert_eq!(warnings(&impact), [bound, reason]);
    }
    let empty = sized().at("Cluster", "/spec/topology/controlPlane/replicas", json!(0)).at(
        "Cluster",
        "/spec/topology/workers",
        json!({}),
    );
    let nothing_to_replace = resume(&with_file(&empty), Some(&own));
    assert_eq!((nothing_to_replace.at_most, warnings(&nothing_to_replace)), (0, vec![]));
    for other in [None, Some("0.0.1-0123456789abcdef"), Some("by hand")] {
        let impact = resume(&large(sized()), other);
        assert_eq!(impact.at_most, 0, "{other:?}");
        assert!(warnings(&impact)[0].contains("the Cluster was paused"), "{impact:?}");
    }
}

#[test]
fn what_else_an_edit_changes_that_resumes_a_cluster_counts() {
    let before = paused(&sized(), None);
    let newer = before.clone().at("Cluster", "/spec/paused", json!(false)).at(
        "Cluster",
        "/spec/topology/version",
        json!("v1.34.0"),
    );
    assert_eq!(impact(&before, &cluster_edit(&before, &newer)).unwrap().certain, 9);
}

#[test]
fn templates_with_more_days_than_certificates_are_valid_for_are_invalid() {
    // ROLL-6
    let template = |kind: &str, days: i64, validity: Option<i64>| {
        let mut spec = json!({"rollout": {"before": {"certificatesExpiryDays": days}}});
        if let Some(validity) = validity {
            spec["kubeadmConfigSpec"] = json!({"clusterConfiguration": {"certificateValidityPeriodDays": validity}});
        }
        let document = json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"namespace": "ns", "name": "a"}, "spec": {"template": {"spec": spec}}});
        Object::try_from(document).unwrap()
    };
    let kubeadm = "KubeadmControlPlaneTemplate";
    for (new, old, is_invalid) in [
        (template(kubeadm, 9999, None), None, true),
        (template(kubeadm, 365, None), None, true),
        (template(kubeadm, 364, None), None, false),
        (template(kubeadm, 400, Some(800)), None, false),
        (template(kubeadm, 100, Some(90)), None, true),
        (template(kubeadm, 9999, None), Some(template(kubeadm, 9999, None)), false),
        (template(kubeadm, 9998, None), Some(template(kubeadm, 9999, None)), true),
        (template("ForgeControlPlaneTemplate", 9999, None), None, false),
    ] {
        let error = endless_template(old.as_ref(), &new);
        assert_eq!(error.is_some(), is_invalid, "{new:?}");
        let path = "spec.template.spec.rollout.before.certificatesExpiryDays";
        assert!(error.is_none_or(|error| error.path.to_string() == path));
    }
}

/// The class with a patch that sets the days from a variable of the Cluster.
fn with_days(scene: Scene, days: i64) -> Scene {
    let schema = json!({"openAPIV3Schema": {"type": "integer", "default": 60}});
    let definition = json!({"from": "inline", "required": false, "schema": schema});
    let selector = json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlaneTemplate",
        "matchResources": {"controlPlane": true},
    });
    let rollout = json!({"template": "before:\n  certificatesExpiryDays: {{ .days }}\n"});
    let operations = json!([{"op": "add", "path": "/spec/template/spec/rollout", "valueFrom": rollout}]);
    scene
        .at("ClusterClass", "/spec/variables", json!([{"name": "days", "required": false, "schema": schema}]))
        .at(
            "ClusterClass",
            "/status/variables",
            json!([{"name": "days", "definitionsConflict": false, "definitions": [definition]}]),
        )
        .at(
            "ClusterClass",
            "/spec/patches",
            json!([{"name": "renews", "definitions": [{"selector": selector, "jsonPatches": operations}]}]),
        )
        .at("Cluster", "/spec/topology/variables", json!([{"name": "days", "value": days}]))
}

#[test]
fn a_cluster_whose_patches_set_more_days_than_certificates_are_valid_for_is_invalid() {
    // DEC-59, ROLL-6
    for (days, is_invalid) in [(364, false), (365, true), (9999, true)] {
        let stored = with_days(sized(), 60);
        let new = with_days(sized(), days);
        let created = Edit::NewCluster(cluster(&new));
        let inspection = case(&stored, &created).unwrap().inspect(OPTIONS, &Stop::never()).unwrap();
        let edited = cluster_edit(&stored, &new);
        let found = impact(&stored, &edited).unwrap().endless;
        for error in [endless(&created, inspection.endless), endless(&edited, found)] {
            assert_eq!(
                error.as_ref().map(|error| error.path.to_string()),
                is_invalid.then(|| "spec.topology".to_owned())
            );
            assert!(error.is_none_or(|error| error.rule == "ROLL-6"));
        }
    }
}

#[test]
fn a_cluster_keeps_days_that_are_stored() {
    // DEC-59: an edit of something else is not about them.
    let stored = with_days(sized(), 9999);
    let scaled = stored.clone().at("Cluster", &format!("{WORKER}/replicas"), json!(5));
    let labelled = stored.clone().at("Cluster", "/metadata/labels", json!({"team": "blue"}));
    let upgraded = stored.clone().at("Cluster", "/spec/topology/version", json!("v1.34.0"));
    for edited in [scaled, labelled, upgraded] {
        let Some(impact) = impact(&stored, &cluster_edit(&stored, &edited)) else { continue };
        assert_eq!(impact.endless, None);
        assert!(!warnings(&impact).join(" ").contains("certificatesExpiryDays"), "{impact:?}");
    }
    let other = cluster_edit(&stored, &with_days(sized(), 9998));
    assert_eq!(impact(&stored, &other).unwrap().endless, Some((9998, 365)), "another number is an edit of it");
}
