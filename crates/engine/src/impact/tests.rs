//! What edits do to machines, on worlds of a class and its Clusters.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::topology::Options;
use crate::topology::plan::MachineCounts;
use crate::topology::testing::Scene;
use model::hub::{Cluster, ClusterClass, Object, ObjectKey, ObjectRef};
use model::world::{Facts, Found, WorkerSet, WorkerState};
use schema::budget::{MemoryPool, Stop};

mod properties;
mod released;
mod size;
mod unknown;

const OPTIONS: Options = Options::new(false);
const WORKER: &str = "/spec/topology/workers/machineDeployments/0";

/// Cluster `blade` with 3 + 4 machines, and a pool of 2.
fn sized() -> Scene {
    Scene::new()
        .at("Cluster", "/spec/topology/controlPlane/replicas", json!(3))
        .at("Cluster", &format!("{WORKER}/replicas"), json!(4))
        .at("Cluster", "/spec/topology/workers/machinePools/0/replicas", json!(2))
}

/// More Clusters like `blade`.
fn with_clusters(scene: &Scene, names: impl Iterator<Item = String>) -> Scene {
    let mut cluster = scene.document("Cluster").clone();
    names.fold(scene.clone(), |scene, name| {
        cluster["metadata"]["name"] = json!(name);
        scene.with(cluster.clone())
    })
}

fn facts(scene: &Scene) -> Facts {
    scene.simulator().facts().clone()
}

fn class(scene: &Scene) -> Arc<ClusterClass> {
    Arc::new(serde_json::from_value(scene.document("ClusterClass").clone()).unwrap())
}

fn cluster(scene: &Scene) -> Arc<Cluster> {
    Arc::new(serde_json::from_value(scene.document("Cluster").clone()).unwrap())
}

fn class_edit(before: &Scene, after: &Scene) -> Edit {
    Edit::Class { old: class(before), new: class(after) }
}

/// The case of an edit of `stored`, with everything that it needs.
fn case(stored: &Scene, edit: &Edit) -> Option<ImpactInputs> {
    case_among(&facts(stored), edit)
}

fn case_among(stored: &Facts, edit: &Edit) -> Option<ImpactInputs> {
    let case = ImpactInputs::for_edit(edit, stored)?;
    let answers = case.needs().into_iter().map(|need| (need.clone(), stored.answer(&need))).collect();
    Some(case.with(edit, answers).unwrap())
}

fn impact(stored: &Scene, edit: &Edit) -> Option<Impact> {
    impact_among(&facts(stored), edit)
}

fn impact_among(stored: &Facts, edit: &Edit) -> Option<Impact> {
    let case = case_among(stored, edit)?;
    let mut tally = case.tally();
    case.compare(OPTIONS, Timestamp::UNIX_EPOCH, &Stop::never(), |clusters, change| tally.add(clusters, change));
    Some(tally.impact())
}

fn warnings(impact: &Impact) -> Vec<String> {
    impact.warnings().into_iter().map(|warning| warning.text).collect()
}

/// The class with a file that every control plane machine gets.
fn with_file(scene: &Scene) -> Scene {
    let files =
        json!([{"op": "add", "path": "/spec/template/spec/kubeadmConfigSpec/files", "value": [{"path": "/a"}]}]);
    scene.clone().at(
        "ClusterClass",
        "/spec/patches",
        json!([{"name": "files", "definitions": [{
            "selector": {
                "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlaneTemplate",
                "matchResources": {"controlPlane": true},
            },
            "jsonPatches": files,
        }]}]),
    )
}

#[test]
fn machines_that_an_extension_may_update_in_place_are_counted_and_the_warning_names_them() {
    // DEC-42, RH-1.2
    let edit = class_edit(&sized(), &with_file(&sized()));
    let case = case(&sized(), &edit).unwrap().with_updater(Some("lab".to_owned()));
    let mut tally = case.tally();
    case.compare(OPTIONS, Timestamp::UNIX_EPOCH, &Stop::never(), |clusters, change| tally.add(clusters, change));
    let replaces = tally.impact();
    assert_eq!(
        warnings(&replaces),
        [
            "replaces 3 machines in 1 of 1 Cluster (class ns/forge)",
            "or machines are updated in place, if the extension lab agrees",
            "KubeadmControlPlane: spec.kubeadmConfigSpec.files changes (patch \"files\")",
        ]
    );
    let summary: Value = serde_json::from_str(&replaces.summary().unwrap()).unwrap();
    assert_eq!((&summary["inPlace"], &summary["machines"]["replaced"]), (&json!("lab"), &json!(3)));
}

#[test]
fn an_edit_of_a_class_counts_the_machines_of_all_its_clusters() {
    // DEC-42, DEC-48
    let before = with_clusters(&sized(), (0..59).map(|i| format!("blue-{i}")));
    let edit = class_edit(&sized(), &with_file(&sized()));
    let impact = impact(&before, &edit).unwrap();
    assert_eq!((impact.clusters, impact.compared, impact.affected, impact.machines.replaced), (60, 60, 60, 180));
    assert_eq!(
        warnings(&impact),
        [
            "replaces 180 machines in 60 of 60 Clusters (class ns/forge)",
            "KubeadmControlPlane: spec.kubeadmConfigSpec.files changes (patch \"files\")",
        ]
    );
    let summary: Value = serde_json::from_str(&impact.summary().unwrap()).unwrap();
    assert_eq!((&summary["machines"]["replaced"], &summary["groups"][0]["clusters"]), (&json!(180), &json!(60)));
}

#[test]
fn an_upgrade_plan_that_is_not_requested_breaks_no_topology() {
    // UP-15, DEC-53
    let upgrade = json!({"external": {"generateUpgradePlanExtension": "plan.lab"}});
    let stored = sized().at("ClusterClass", "/spec/upgrade", upgrade);
    let edited = stored.clone().at("Cluster", "/spec/topology/version", json!("v1.34.0"));
    let edit = Edit::Cluster { old: cluster(&stored), new: cluster(&edited) };
    let case = case(&stored, &edit).unwrap();
    let mut tally = case.tally();
    let options = Options::new(true);
    case.compare(options, Timestamp::UNIX_EPOCH, &Stop::never(), |clusters, change| tally.add(clusters, change));
    let impact = tally.impact();
    assert_eq!((impact.failing, impact.unknown), (0, 0));
    assert_eq!(
        warnings(&impact),
        ["the number of machines is incomplete: the upgrade plan of extension plan.lab is not known"]
    );
}

#[test]
fn equal_clusters_are_computed_once_and_those_that_differ_are_not_hidden() {
    let scene = with_clusters(&sized(), (0..99).map(|i| format!("blue-{i}")));
    let scene = scene.at("Cluster blue-7", &format!("{WORKER}/replicas"), json!(9));
    let edit = class_edit(&sized(), &with_file(&sized()));
    let (case, computed) = (case(&scene, &edit).unwrap(), AtomicUsize::new(0));
    let mut sizes = Vec::new();
    case.compare(OPTIONS, Timestamp::UNIX_EPOCH, &Stop::never(), |clusters, _| {
        computed.fetch_add(1, Ordering::Relaxed);
        sizes.push(clusters);
    });
    assert_eq!(sizes, [99, 1]);
}

#[test]
fn threads_share_the_clusters_of_an_edit_and_the_impact_does_not_depend_on_the_first() {
    let scene = with_clusters(&sized(), (0..39).map(|i| format!("c{i}")));
    let edit = class_edit(&sized(), &with_file(&sized()));
    let case = case(&scene, &edit).unwrap();
    let (groups, changes, all_take_part) = (case.groups(), Mutex::new(Vec::new()), Barrier::new(3));
    let queues = [groups.all(), groups.for_helper(NonZero::new(5).unwrap()), groups.all()];
    std::thread::scope(|scope| {
        for queue in queues {
            let (case, changes, all_take_part) = (&case, &changes, &all_take_part);
            scope.spawn(move || {
                let mut is_first = true;
                case.compare_groups(queue, OPTIONS, Timestamp::UNIX_EPOCH, &Stop::never(), |clusters, change| {
                    if std::mem::take(&mut is_first) {
                        all_take_part.wait();
                    }
                    changes.lock().unwrap().push((clusters, change));
                });
            });
        }
    });
    let mut changes = changes.into_inner().unwrap();
    changes.sort_by_key(|(_, change)| change.position);
    let mut by_one_thread = Vec::new();
    case.compare(OPTIONS, Timestamp::UNIX_EPOCH, &Stop::never(), |clusters, change| {
        by_one_thread.push((clusters, change));
    });
    assert_eq!((changes.len(), groups.len()), (40, 40));
    assert_eq!(changes, by_one_thread);
    let mut of_helper = Vec::new();
    let (fresh, left_out) = (case.groups(), NonZero::new(5).unwrap());
    case.compare_groups(fresh.for_helper(left_out), OPTIONS, Timestamp::UNIX_EPOCH, &Stop::never(), |_, change| {
        of_helper.push(change.position);
    });
    assert_eq!(of_helper, (0..35).collect::<Vec<_>>());
    // Every Cluster is an example of something.
    for (_, change) in &mut changes {
        (change.incomplete, change.endless) = (Some(change.cluster.to_string()), Some((9, 1)));
        change.fails = change.position % 2 == 1;
        change.failure = (change.position > 5).then(|| change.cluster.to_string());
        change.was_edited_in_pause = change.position % 4 == 2;
        change.rolls.iter_mut().for_each(|roll| roll.in_place = Some(change.cluster.to_string()));
    }
    let impacts = [false, true].map(|is_reversed| {
        changes.sort_by_key(|(_, change)| change.position);
        if is_reversed {
            changes.reverse();
        }
        let mut tally = case.tally();
        changes.iter().for_each(|(clusters, change)| tally.add(*clusters, change.clone()));
        tally.impact()
    });
    assert_eq!(impacts[0], impacts[1]);
    let [Impact { fails, in_place, uncounted, endless, .. }, _] = &impacts;
    assert!(fails.is_some() && in_place.is_some() && uncounted.is_some() && endless.is_some());
}

#[test]
fn what_is_not_compared_in_time_is_estimated() {
    // The names of these Clusters may be read as numbers, so that none stands for others.
    let scene = with_clusters(&sized(), (0..39).map(|i| format!("c{i}")));
    let edit = class_edit(&sized(), &with_file(&sized()));
    let case = case(&scene, &edit).unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let seen = done.clone();
    let stop = Stop::when(move || seen.load(Ordering::Relaxed) >= 10);
    let mut tally = case.tally();
    case.compare(OPTIONS, Timestamp::UNIX_EPOCH, &stop, |clusters, change| {
        done.fetch_add(1, Ordering::Relaxed);
        tally.add(clusters, change);
    });
    let impact = tally.impact();
    assert!(impact.is_estimate());
    assert_eq!((impact.compared, impact.machines.replaced, impact.certain), (10, 120, 30));
    assert_eq!(
        warnings(&impact)[0],
        "replaces about 120 machines in about 40 of 40 Clusters (class ns/forge; estimated from 10)"
    );
}

#[test]
fn an_estimate_does_not_depend_on_where_names_stand_in_the_alphabet() {
    // 20 Clusters with 1 machine come before 20 with 5; the first 10 that are compared are of both kinds.
    let control_plane = "/spec/topology/controlPlane/replicas";
    let large = with_clusters(&sized(), (0..20).map(|i| format!("c-x{i}"))).at("Cluster", control_plane, json!(5));
    let small = sized().at("Cluster", control_plane, json!(1)).document("Cluster").clone();
    let scene = (0..20).fold(large.without("Cluster blade"), |scene, i| {
        let mut cluster = small.clone();
        cluster["metadata"]["name"] = json!(format!("a-b{i}"));
        scene.with(cluster)
    });
    // With a naming template no Cluster stands for others.
    let named =
        |scene: Scene| scene.at("ClusterClass", "/spec/controlPlane/naming/template", json!("{{ .cluster.name }}-x"));
    let edit = class_edit(&named(sized()), &named(with_file(&sized())));
    let case = case(&named(scene), &edit).unwrap();
    let mut compared = Vec::new();
    case.compare(OPTIONS, Timestamp::UNIX_EPOCH, &Stop::never(), |clusters, change| {
        assert_eq!(clusters, 1);
        compared.push(change.cluster.name);
    });
    let large = compared[..10].iter().filter(|name| name.starts_with('c')).count();
    assert!((2..=8).contains(&large), "{compared:?}");
}

#[test]
fn edits_of_clusters_and_of_templates_are_compared_alike() {
    let scene = sized();
    let with = |path: &str, value: Value| {
        let new = cluster(&scene.clone().at("Cluster", path, value));
        impact(&scene, &Edit::Cluster { old: cluster(&scene), new })
    };
    let fewer = with(&format!("{WORKER}/replicas"), json!(1)).unwrap();
    assert_eq!(
        warnings(&fewer),
        [
            "removes 3 machines in 1 of 1 Cluster (Cluster ns/blade)",
            "MachineDeployment: the number of its replicas changes"
        ]
    );
    let newer = with("/spec/topology/version", json!("v1.34.0")).unwrap();
    assert_eq!(newer.machines.replaced, 9, "{newer:?}");
    let more = with(&format!("{WORKER}/replicas"), json!(7)).unwrap();
    assert_eq!((more.machines.added, warnings(&more), more.summary()), (3, vec![], None), "no machine goes");
    let template = |size: &str| {
        let scene = scene.clone().at("ForgeMachineTemplate smith", "/spec/template/spec/size", json!(size));
        Arc::new(Object::try_from(scene.document("ForgeMachineTemplate smith").clone()).unwrap())
    };
    let edit = Edit::Template { old: template("small"), new: template("large") };
    let impact = impact(&scene, &edit).unwrap();
    assert_eq!(
        warnings(&impact)[0],
        "replaces 4 machines in 1 of 1 Cluster (ForgeMachineTemplate ns/smith)",
        "{impact:?}"
    );
}

#[test]
fn a_class_that_its_controller_has_not_reconciled_yet_is_taken_as_it_will_be() {
    // DEC-53: one commit may edit a class, its templates and its Clusters.
    let edited = sized().at("ClusterClass", "/metadata/generation", json!(2));
    let unseen = edited.clone().at("ClusterClass", "/status", json!({}));
    let template = |size: &str| {
        let scene = sized().at("ForgeMachineTemplate smith", "/spec/template/spec/size", json!(size));
        Arc::new(Object::try_from(scene.document("ForgeMachineTemplate smith").clone()).unwrap())
    };
    let newer = cluster(&sized().at("Cluster", "/spec/topology/version", json!("v1.34.0")));
    for stored in [edited, unseen] {
        let edits = [
            (Edit::Template { old: template("small"), new: template("large") }, 4),
            (Edit::Cluster { old: cluster(&stored), new: newer.clone() }, 9),
        ];
        for (edit, machines) in edits {
            let impact = impact(&stored, &edit).unwrap();
            assert_eq!((impact.unknown, impact.certain), (0, machines), "{edit:?}");
        }
    }
}

#[test]
fn a_template_that_is_edited_in_another_version_counts_too() {
    // DEC-53: else a ceiling would hold edits of one version only.
    let template = |size: &str| {
        let scene = sized().at("ForgeMachineTemplate smith", "/spec/template/spec/size", json!(size));
        let mut template = scene.document("ForgeMachineTemplate smith").clone();
        template["apiVersion"] = json!("infrastructure.cluster.x-k8s.io/v1beta1");
        Arc::new(Object::try_from(template).unwrap())
    };
    let impact = impact(&sized(), &Edit::Template { old: template("small"), new: template("large") }).unwrap();
    assert_eq!((impact.unknown, impact.certain), (0, 4), "{impact:?}");
    let why =
        "the number of machines is incomplete: the template is edited as v1beta1, but its class refers to v1beta2";
    assert!(warnings(&impact).contains(&why.to_owned()), "{impact:?}");
}

#[test]
fn clusters_of_all_namespaces_count_but_not_those_that_go_or_have_no_topology() {
    // CC-V-100; what a paused Cluster holds back is not counted (ROLL-18).
    let like = |name: &str, namespace: &str| {
        let mut cluster = sized().document("Cluster").clone();
        (cluster["metadata"]["name"], cluster["metadata"]["namespace"]) = (json!(name), json!(namespace));
        cluster["spec"]["topology"]["classRef"] = json!({"name": "forge", "namespace": "ns"});
        cluster
    };
    let mut paused = like("paused", "ns");
    paused["spec"]["paused"] = json!(true);
    let mut going = like("going", "ns");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut of_another_class = like("mine", "other");
    of_another_class["spec"]["topology"]["classRef"] = json!({"name": "forge"});
    let mut unmanaged = like("unmanaged", "ns");
    unmanaged["spec"] = json!({});
    let all = [like("blue", "other"), paused, going, of_another_class, unmanaged];
    let stored = all.into_iter().fold(sized(), Scene::with);
    let template = |size: &str| {
        let scene = sized().at("ForgeMachineTemplate smith", "/spec/template/spec/size", json!(size));
        Arc::new(Object::try_from(scene.document("ForgeMachineTemplate smith").clone()).unwrap())
    };
    for (edit, machines) in [
        (class_edit(&sized(), &with_file(&sized())), 6),
        (Edit::Template { old: template("small"), new: template("large") }, 8),
    ] {
        let impact = impact(&stored, &edit).unwrap();
        assert_eq!((impact.clusters, impact.affected, impact.certain), (3, 2, machines), "{impact:?}");
    }
}

#[test]
fn what_cannot_do_anything_to_machines_costs_nothing() {
    let scene = sized();
    let old = cluster(&scene);
    let mut referring = Cluster::clone(&old);
    referring.spec.infrastructure_ref.name = "made".to_owned();
    referring.metadata.resource_version = "2".to_owned();
    let noted =
        json!({"topology.internal.cluster.x-k8s.io/upgrade-step": "v1.34.0", "cluster.x-k8s.io/cluster-name": "blade"});
    referring.metadata.annotations = serde_json::from_value(noted.clone()).unwrap();
    referring.metadata.labels = serde_json::from_value(noted).unwrap();
    assert!(case(&scene, &Edit::Cluster { old: old.clone(), new: Arc::new(referring) }).is_none());
    let value = "topologist.dev/before-cluster-delete uid=u since=2030-01-01T00:00:00Z";
    let mut held = Cluster::clone(&old);
    held.metadata.annotations = serde_json::from_value(json!({"cluster.x-k8s.io/paused": value})).unwrap();
    let written = Edit::Cluster { old: old.clone(), new: Arc::new(held) };
    assert!(case(&scene, &written).is_none(), "DEC-56: the hold on a deletion is no edit");
    assert!(case(&scene, &class_edit(&scene, &scene)).is_none());
    let mut labelled = Cluster::clone(&old);
    labelled.metadata.labels = serde_json::from_value(json!({"team": "a"})).unwrap();
    let labels = Edit::Cluster { old, new: Arc::new(labelled) };
    assert!(case(&scene, &labels).is_none(), "the class does not look at labels");
    let looking = scene.clone().at(
        "ClusterClass",
        "/spec/patches",
        json!([{"name": "looks", "enabledIf": "{{ .builtin.cluster.metadata.labels }}"}]),
    );
    assert!(case(&looking, &labels).is_some());
    let unused = scene.clone().without("Cluster");
    assert!(case(&unused, &class_edit(&scene, &with_file(&scene))).is_none(), "no Cluster uses the class");
}

/// The state of a MachineDeployment at the version of the topology, with its number of outdated machines.
fn state(replicas: i64, outdated: i64) -> WorkerState {
    WorkerState { replicas, outdated: Some(outdated), version: "v1.33.0".into() }
}

/// The Cluster with a MachineDeployment whose number of machines an autoscaler decides: 2 to 9.
fn autoscaled(scene: Scene) -> Scene {
    let bounds = json!({"annotations": {
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "2",
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "9",
    }});
    scene.at("Cluster", &format!("{WORKER}/metadata"), bounds).at("Cluster", &format!("{WORKER}/replicas"), Value::Null)
}

#[test]
fn sets_with_an_autoscaler_count_with_the_machines_that_they_have() {
    // DEC-53
    let scene = autoscaled(sized());
    let all = with_clusters(&scene, ["other".to_owned()].into_iter());
    let mut stored = facts(&all);
    let name = scene.document("Cluster")["spec"]["topology"]["workers"]["machineDeployments"][0]["name"].clone();
    let set =
        |cluster: &str| WorkerSet { cluster: ObjectKey::new("ns", cluster), name: name.as_str().unwrap().to_owned() };
    let first = |stored: &Facts, edit: &Edit| warnings(&impact_among(stored, edit).unwrap())[0].clone();
    let of_cluster = |path: &str, value: Value| {
        let changed = scene.clone().at("Cluster", path, value);
        Edit::Cluster { old: cluster(&scene), new: cluster(&changed) }
    };
    let newer = of_cluster("/spec/topology/version", json!("v1.34.0"));
    let without = of_cluster("/spec/topology/workers/machineDeployments", json!([]));
    stored.put_worker_state(ObjectKey::new("ns", "blade-md"), set("blade"), state(6, 0));
    assert!(first(&stored, &newer).starts_with("replaces 11 machines"), "3 + 6 + 2");
    assert!(first(&stored, &without).starts_with("removes 6 machines"));
    let template = "/spec/workers/machineDeployments/0/infrastructure/templateRef/name";
    let other_workers = class_edit(&scene, &scene.clone().at("ClusterClass", template, json!("brain")));
    stored.put_worker_state(ObjectKey::new("ns", "other-md"), set("other"), state(3, 0));
    let text = first(&stored, &other_workers);
    assert!(text.starts_with("replaces 9 machines in 2 of 2 Clusters"), "equal but for their sizes: {text}");
    stored.remove_worker_state(&ObjectKey::new("ns", "other-md"));
    let text = first(&stored, &other_workers);
    assert!(text.starts_with("replaces at least 8 machines in 2 of 2 Clusters"), "{text}");
}

#[test]
fn numbers_that_are_not_known_and_topologies_that_break_are_named() {
    let scaled = autoscaled(sized());
    let newer = cluster(&scaled.clone().at("Cluster", "/spec/topology/version", json!("v1.34.0")));
    let impact_of = impact(&scaled, &Edit::Cluster { old: cluster(&scaled), new: newer }).unwrap();
    assert!(
        warnings(&impact_of)[0].starts_with("replaces at least 7 machines"),
        "3 of the control plane, 2 of the pool, the minimum of the autoscaler: {impact_of:?}"
    );
    let removed = cluster(&scaled.clone().at("Cluster", "/spec/topology/workers/machineDeployments", json!([])));
    let impact_of = impact(&scaled, &Edit::Cluster { old: cluster(&scaled), new: removed }).unwrap();
    assert_eq!(warnings(&impact_of)[0], "removes an unknown number of machines in 1 of 1 Cluster (Cluster ns/blade)");
    let broken = sized().at(
        "ClusterClass",
        "/spec/patches",
        json!([{"name": "wrong", "definitions": [{
            "selector": {
                "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlaneTemplate",
                "matchResources": {"controlPlane": true},
            },
            "jsonPatches": [{"op": "remove", "path": "/spec/template/spec/nothing"}],
        }]}]),
    );
    let impact = impact(&sized(), &class_edit(&sized(), &broken)).unwrap();
    assert_eq!((impact.failing, impact.machines), (1, ImpactCounts::default()));
    let texts = warnings(&impact);
    assert_eq!((texts.len(), &*texts[0]), (2, "breaks the topology of 1 Cluster, such as ns/blade (class ns/forge)"));
    assert!(
        texts[1].starts_with("Cluster ns/blade: ") && texts[1].contains("has no \"nothing\""),
        "the reason: {texts:?}"
    );
}

#[test]
fn warnings_and_the_summary_stay_short() {
    // 120 characters, 4,096 bytes and 8 KiB
    let scene = (0..200).fold(sized(), |scene, i| {
        let mut cluster = sized().document("Cluster").clone();
        cluster["metadata"]["name"] = json!(format!("blue-{i}"));
        let set = |i: usize| json!({"class": "smith", "name": format!("set-{i}-{}", "x".repeat(20)), "replicas": 1});
        cluster["spec"]["topology"]["workers"]["machineDeployments"] = json!([set(i)]);
        scene.with(cluster)
    });
    let edit = class_edit(&sized(), &with_file(&sized()));
    let impact = Impact {
        groups: (0..500)
            .map(|i| ImpactGroup {
                clusters: 1,
                example: ObjectKey::new("ns", format!("blue-{i}-{}", "y".repeat(60))),
                machines: ImpactCounts::default(),
                reasons: [("KubeadmControlPlane".to_owned(), format!("spec.{} changes", "a.".repeat(80)))].into(),
            })
            .collect(),
        ..impact(&scene, &edit).unwrap()
    };
    let warnings = warnings(&impact);
    assert!(warnings.iter().all(|text| text.chars().count() <= 120), "{warnings:?}");
    assert!(warnings.iter().map(String::len).sum::<usize>() <= 4_096);
    assert!(warnings.last().unwrap().ends_with("more groups of Clusters"), "{warnings:?}");
    let summary = impact.summary().unwrap();
    assert!(summary.len() <= 8 << 10);
    assert!(serde_json::from_str::<Value>(&summary).unwrap()["groupsLeftOut"].as_u64() > Some(0));
}

/// What a plan of `before` and `after` does to Cluster `blade`.
fn planned(before: &Scene, after: &Scene) -> MachineCounts {
    let key = ObjectKey::new("ns", "blade");
    let (mut old, mut new) = (before.simulator(), after.simulator());
    assert!(matches!(old.facts().cluster(&key), Found::Yes(_)));
    old.settle(&key);
    new.take_over(&key, &old);
    new.roll_out(&key).rounds.iter().flat_map(|round| &round.rolls).map(|roll| roll.machines).sum()
}

#[test]
fn an_impact_has_the_numbers_of_a_plan() {
    // A change of each kind, alone and together with the others.
    type Flavour = (&'static str, fn(Scene) -> Scene);
    let flavours: [Flavour; 5] = [
        ("patch", |scene| with_file(&scene)),
        ("naming", |scene| {
            scene.at("ClusterClass", "/spec/controlPlane/naming/template", json!("x-{{ .cluster.name }}-{{ .random }}"))
        }),
        ("deadline", |scene| scene.at("ClusterClass", "/spec/workers/machineDeployments/0/minReadySeconds", json!(9))),
        ("labels", |scene| {
            scene.at("ClusterClass", "/spec/workers/machineDeployments/0/metadata", json!({"labels": {"a": "b"}}))
        }),
        ("failure domain", |scene| {
            scene.at("ClusterClass", "/spec/workers/machineDeployments/0/failureDomain", json!("east"))
        }),
    ];
    for chosen in 1..(1_usize << flavours.len()) {
        let names: Vec<_> = (0..flavours.len()).filter(|i| chosen >> i & 1 == 1).map(|i| flavours[i].0).collect();
        let after = (0..flavours.len()).filter(|i| chosen >> i & 1 == 1).fold(sized(), |scene, i| flavours[i].1(scene));
        let impact = impact(&sized(), &class_edit(&sized(), &after)).unwrap();
        let plan = planned(&sized(), &after);
        let found = (impact.machines.replaced, impact.machines.removed, impact.machines.added);
        assert_eq!(
            Some(found),
            plan.replaced.zip(plan.removed).zip(plan.added).map(|((a, b), c)| (a, b, c)),
            "{names:?}"
        );
    }
}

fn ceiling(edit: &Edit, stored: &Scene, flag: Option<u32>) -> Option<String> {
    let impact = impact(stored, edit).unwrap();
    Ceiling::from_inputs(&case(stored, edit).unwrap(), flag)?.denies(edit, &impact).map(|error| error.detail)
}

#[test]
fn a_ceiling_denies_what_is_not_approved_in_the_same_edit() {
    // DEC-53; the edit replaces 3 machines
    let annotated = |scene: &Scene, name: &str, value: &str| {
        scene.clone().at("ClusterClass", "/metadata/annotations", json!({name: value}))
    };
    let approved = |before: Option<&str>, after: Option<&str>| {
        let with = |scene: Scene, text: Option<&str>| {
            text.map_or(scene.clone(), |text| annotated(&scene, APPROVED_IMPACT, text))
        };
        class_edit(&with(sized(), before), &with(with_file(&sized()), after))
    };
    for (flag, before, after, want) in [
        (None, None, None, None),
        (Some(3), None, None, None),
        (
            Some(2),
            None,
            None,
            Some("replaces or removes 3 machines in 1 of 1 Cluster, more than the 2 of --max-replaced-machines;"),
        ),
        (
            Some(2),
            None,
            None,
            Some("on ClusterClass ns/forge in the same edit: topologist.dev/approved-impact: \"3 <reason>\""),
        ),
        (Some(2), None, Some("3"), None),
        (Some(2), None, Some("412 CHG0007"), None),
        (Some(2), None, Some("2 CHG0007"), Some("its approval is for 2 only")),
        (Some(2), None, Some("CHG0007"), Some("its approval does not begin with a number")),
        (Some(2), None, Some("-3"), Some("its approval does not begin with a number")),
        (Some(2), Some("3 CHG0007"), Some("3 CHG0007"), Some("its approval is that of an earlier edit")),
        (Some(2), Some("3 CHG0007"), Some("3 CHG0008"), None),
        (Some(2), Some("3 CHG0007"), None, Some("to approve it")),
    ] {
        let denied = ceiling(&approved(before, after), &sized(), flag);
        let is_as_wanted = match (&denied, want) {
            (None, None) => true,
            (Some(message), Some(want)) => message.contains(want),
            _ => false,
        };
        assert!(is_as_wanted, "{flag:?} {before:?} {after:?}: {denied:?}");
    }
}

#[test]
fn the_lowest_ceiling_counts_and_none_is_taken_away_by_the_edit_itself() {
    // DEC-53
    let limited = |scene: Scene, limit: &str| {
        scene.at("ClusterClass", "/metadata/annotations", json!({MAX_REPLACED_MACHINES: limit}))
    };
    let edit = |before: Option<&str>, after: Option<&str>| {
        let with = |scene: Scene, limit: Option<&str>| limit.map_or(scene.clone(), |limit| limited(scene, limit));
        class_edit(&with(sized(), before), &with(with_file(&sized()), after))
    };
    for (flag, before, after, denies) in [
        (None, Some("2"), Some("2"), true),
        (None, Some("2"), None, true),
        (None, Some("2"), Some("100"), true),
        (None, Some("100"), Some("2"), true),
        (None, Some("3"), Some("3"), false),
        (Some(2), Some("100"), Some("100"), true),
        (Some(100), Some("2"), Some("2"), true),
        (None, Some("two"), Some("two"), true),
    ] {
        let denied = ceiling(&edit(before, after), &sized(), flag);
        assert_eq!(denied.is_some(), denies, "{flag:?} {before:?} {after:?}: {denied:?}");
    }
    let denied = ceiling(&edit(Some("two"), Some("two")), &sized(), None).unwrap();
    assert!(denied.contains("which is not a number and so counts as 0"), "{denied}");
    // An edit of a Cluster is held by its class.
    let stored = limited(sized(), "2");
    let fewer = cluster(&stored.clone().at("Cluster", &format!("{WORKER}/replicas"), json!(1)));
    let edit = Edit::Cluster { old: cluster(&stored), new: fewer };
    let denied = ceiling(&edit, &stored, None).unwrap();
    assert!(denied.contains("set this annotation on Cluster ns/blade"), "{denied}");
}
