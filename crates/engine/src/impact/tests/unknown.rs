//! What a ceiling counts where machines are not counted (DEC-59).

use super::*;

/// Cluster `blade` after its first rollout, with a class whose patch fits no template.
fn broken() -> Scene {
    let patch = json!([{"name": "wrong", "definitions": [{
        "selector": {
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlaneTemplate",
            "matchResources": {"controlPlane": true},
        },
        "jsonPatches": [{"op": "remove", "path": "/spec/template/spec/nothing"}],
    }]}]);
    rolled_out().at("ClusterClass", "/spec/patches", patch)
}

fn rolled_out() -> Scene {
    let reference = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "ForgeCluster", "name": "blade-x"});
    sized().at("Cluster", "/spec/infrastructureRef", reference)
}

fn denial(edit: &Edit, stored: &Scene, flag: u32, unknown: UnknownImpact) -> Option<String> {
    let impact = impact(stored, edit)?;
    let ceiling = Ceiling::from_inputs(&case(stored, edit).unwrap(), Some(flag))?.with_unknown(unknown);
    ceiling.denies(edit, &impact).map(|error| error.detail)
}

#[test]
fn all_machines_of_a_cluster_count_if_a_side_of_an_edit_cannot_be_computed() {
    // 3 + 4 + 2 machines
    let corrected = class_edit(&broken(), &with_file(&rolled_out()));
    let breaking = class_edit(&rolled_out(), &broken());
    for (stored, edit) in [(broken(), corrected), (rolled_out(), breaking)] {
        let denied = denial(&edit, &stored, 8, UnknownImpact::Bound).unwrap();
        let want = "this edit may replace or remove up to 9 machines in 1 Cluster (the topology of Cluster ns/blade \
                    cannot be computed: ";
        assert!(denied.starts_with(want), "{denied}");
        assert!(denied.ends_with("topologist.dev/approved-impact: \"9 <reason>\""), "{denied}");
        assert_eq!(denial(&edit, &stored, 9, UnknownImpact::Bound), None);
        assert_eq!(denial(&edit, &stored, 0, UnknownImpact::Warn), None);
    }
}

#[test]
fn no_machines_count_of_clusters_that_have_none_or_are_paused() {
    let edit = class_edit(&broken(), &with_file(&rolled_out()));
    let fresh = broken().at("Cluster", "/spec/infrastructureRef", json!({}));
    let paused = broken().at("Cluster", "/spec/paused", json!(true));
    for stored in [fresh, paused] {
        assert_eq!(denial(&edit, &stored, 0, UnknownImpact::Bound), None);
    }
    let scaled = broken().at("Cluster", "/status", json!({"controlPlane": {"replicas": 5}}));
    let denied = denial(&edit, &scaled, 8, UnknownImpact::Bound).unwrap();
    assert!(denied.contains("up to 11 machines"), "its status reports more than its topology: {denied}");
}

#[test]
fn clusters_that_are_not_computed_in_time_count_with_all_machines() {
    let stored = with_clusters(&rolled_out(), (0..39).map(|i| format!("c{i}")));
    let edit = class_edit(&rolled_out(), &with_file(&rolled_out()));
    let case = case(&stored, &edit).unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let seen = done.clone();
    let stop = Stop::when(move || seen.load(Ordering::Relaxed) >= 10);
    let mut tally = case.tally();
    case.compare(OPTIONS, Timestamp::UNIX_EPOCH, &stop, |clusters, change| {
        done.fetch_add(1, Ordering::Relaxed);
        tally.add(clusters, change);
    });
    let impact = tally.impact();
    // 10 Clusters whose control planes are replaced, and 30 of 9 machines each.
    assert_eq!((impact.certain, impact.at_most), (30, 300));
    let denied = Ceiling::from_inputs(&case, Some(200)).unwrap().denies(&edit, &impact).unwrap().detail;
    assert!(
        denied.contains("up to 300 machines in 40 Clusters (only 10 of 40 Clusters were computed in time)"),
        "{denied}"
    );
}

#[test]
fn a_removed_set_whose_number_of_machines_is_not_known_counts_with_the_most_that_it_may_have() {
    // The way around the ceiling that docs/impact.md had: 3 + 9 + 2 machines at the most
    let stored = autoscaled(rolled_out());
    let without = cluster(&stored.clone().at("Cluster", "/spec/topology/workers/machineDeployments", json!([])));
    let edit = Edit::Cluster { old: cluster(&stored), new: without };
    let denied = denial(&edit, &stored, 13, UnknownImpact::Bound).unwrap();
    assert!(denied.contains("up to 14 machines in 1 Cluster (the number of machines of some worker sets"), "{denied}");
    assert_eq!(denial(&edit, &stored, 14, UnknownImpact::Bound), None);
}

#[test]
fn a_template_that_is_created_counts_where_classes_refer_to_it() {
    let made = |name: &str| {
        let document = sized().document("ForgeMachineTemplate smith").clone();
        let mut object = Object::try_from(document).unwrap();
        object.set("metadata.name", json!(name)).unwrap();
        Edit::NewTemplate(Arc::new(object))
    };
    let missing = rolled_out().without("ForgeMachineTemplate smith");
    let denied = denial(&made("smith"), &missing, 8, UnknownImpact::Bound).unwrap();
    assert!(
        denied.contains("up to 9 machines") && denied.contains("set this annotation on ForgeMachineTemplate ns/smith"),
        "{denied}"
    );
    assert!(denied.contains("was not found"), "{denied}");
    assert!(case(&missing, &made("another")).is_none(), "no class refers to it");
    let fresh = sized().without("ForgeMachineTemplate smith");
    assert_eq!(denial(&made("smith"), &fresh, 0, UnknownImpact::Bound), None, "no machine runs yet");
}

#[test]
fn reasons_have_no_values_of_variables() {
    // DEC-34
    let schema =
        json!([{"name": "key", "required": true, "schema": {"openAPIV3Schema": {"type": "string", "enum": ["a"]}}}]);
    let definition = json!({"name": "key", "definitionsConflict": false,
        "definitions": [{"from": "inline", "required": true,
        "schema": {"openAPIV3Schema": {"type": "string", "enum": ["a"]}}}]});
    let stored = rolled_out()
        .at("Cluster", "/spec/topology/variables", json!([{"name": "key", "value": "s3cr3t"}]))
        .at("ClusterClass", "/spec/variables", schema)
        .at("ClusterClass", "/status/variables", json!([definition]));
    let impact = impact(&stored, &class_edit(&stored, &with_file(&stored))).unwrap();
    let message = [warnings(&impact).join("\n"), impact.summary().unwrap()].concat();
    assert!(
        message.contains("spec.topology.variables[key].value: Unsupported value") && !message.contains("s3cr3t"),
        "{message}"
    );
}
