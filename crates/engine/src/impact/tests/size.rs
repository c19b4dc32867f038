//! Edits that make topologies too large (DEC-58).

use super::*;
use crate::topology::SizeLimit;

/// A limit that 20 worker sets keep, and 100 do not.
const RULES: SizeRules = SizeRules { limit: SizeLimit::for_text(100_000), breaking: Breaking::Denied };

fn with_sets(scene: &Scene, count: usize) -> Scene {
    let sets: Value = (0..count).map(|number| json!({"name": format!("set-{number}"), "class": "smith"})).collect();
    scene.clone().at("Cluster", "/spec/topology/workers/machineDeployments", sets)
}

fn verdict(stored: &Scene, edit: &Edit, rules: SizeRules) -> SizeVerdict {
    let facts = facts(stored);
    let template = |reference: &ObjectRef| match facts.objects()?.object(reference) {
        Found::Yes(template) => Some(template),
        _ => None,
    };
    SizeVerdict::for_edit(edit, &facts, template, rules)
}

fn update(before: &Scene, after: &Scene) -> Edit {
    Edit::Cluster { old: cluster(before), new: cluster(after) }
}

fn denial(verdict: &SizeVerdict) -> Option<(String, String)> {
    let error = verdict.denial.as_ref()?;
    assert!(verdict.warnings.is_empty());
    Some((error.path.to_string(), error.detail.clone()))
}

#[test]
fn a_cluster_that_is_too_large_is_invalid_when_it_is_created_or_grows() {
    let [small, large, larger] = [20, 100, 101].map(|count| with_sets(&Scene::new(), count));
    let invalid = |edit: &Edit| {
        let (path, detail) = denial(&verdict(&small, edit, RULES)).unwrap();
        assert_eq!(path, "spec.topology.workers");
        assert!(
            detail.contains("objects of the topology and their variables come to ")
                && detail.contains("limit of 97 KiB"),
            "{detail}"
        );
    };
    invalid(&Edit::NewCluster(cluster(&large)));
    invalid(&update(&small, &large));
    invalid(&update(&large, &larger));
    for edit in [Edit::NewCluster(cluster(&small)), update(&small, &small), update(&large, &small)] {
        assert_eq!(verdict(&small, &edit, RULES), SizeVerdict::default());
    }
}

#[test]
fn a_stored_cluster_that_stays_too_large_is_a_warning() {
    let large = with_sets(&Scene::new(), 100);
    let scaled = large.clone().at("Cluster", "/spec/topology/controlPlane/replicas", json!(5));
    for after in [scaled, with_sets(&Scene::new(), 90)] {
        let SizeVerdict { denial, warnings } = verdict(&large, &update(&large, &after), RULES);
        assert_eq!(denial, None);
        let [warning] = &*warnings else { panic!("{warnings:?}") };
        assert!(warning.text.starts_with("spec.topology.workers: the "), "{}", warning.text);
    }
    let deleted = large.clone().at("Cluster", "/metadata/deletionTimestamp", json!("2030-01-01T00:00:00Z"));
    assert_eq!(verdict(&large, &update(&large, &deleted), RULES), SizeVerdict::default());
}

#[test]
fn edits_of_classes_and_templates_name_the_clusters_that_become_too_large() {
    let stored = with_clusters(&with_sets(&Scene::new(), 20), ["a", "b"].map(str::to_owned).into_iter());
    let text = json!("x".repeat(20_000));
    let labels = stored.clone().at(
        "ClusterClass",
        "/spec/workers/machineDeployments/0/metadata",
        json!({"labels": {"l": text}}),
    );
    let class = class_edit(&stored, &labels);
    let template = |scene: &Scene| {
        let document = scene.document("KubeadmConfigTemplate smith").clone();
        Arc::new(Object::try_from(document).unwrap())
    };
    let filled = stored.clone().at("KubeadmConfigTemplate smith", "/spec/template/spec/text", text);
    let edited = Edit::Template { old: template(&stored), new: template(&filled) };
    let created = Edit::NewTemplate(template(&filled));
    for (edit, kind) in
        [(&class, "ClusterClass"), (&edited, "KubeadmConfigTemplate"), (&created, "KubeadmConfigTemplate")]
    {
        let (path, detail) = denial(&verdict(&stored, edit, RULES)).unwrap();
        assert_eq!(path, "spec");
        assert!(
            detail.starts_with("would break Clusters ns/a, ns/b, ns/blade at spec.topology.workers: the "),
            "{detail}"
        );
        let way_out = format!(
            "; the annotation unsafe.topologist.dev/allow-breaking-clusters on the {kind} turns this into a warning"
        );
        assert!(detail.ends_with(&way_out), "{detail}");
        let SizeVerdict { denial, warnings } =
            verdict(&stored, edit, SizeRules { breaking: Breaking::Warned, ..RULES });
        assert!(denial.is_none() && warnings[0].text.starts_with("spec: would break Clusters"), "{warnings:?}");
        let ignored = SizeRules { breaking: Breaking::Ignored, ..RULES };
        assert_eq!(verdict(&stored, edit, ignored), SizeVerdict::default());
    }
    // A topology that was too large before is no consequence of the edit.
    let large = with_sets(&stored, 100).without("Cluster a").without("Cluster b");
    assert_eq!(verdict(&large, &class_edit(&large, &labels), RULES), SizeVerdict::default());
    let allowed = labels.clone().at(
        "ClusterClass",
        "/metadata/annotations",
        json!({"unsafe.topologist.dev/allow-breaking-clusters": ""}),
    );
    let SizeVerdict { denial, warnings } = verdict(&stored, &class_edit(&stored, &allowed), RULES);
    assert!(denial.is_none() && warnings.len() == 1);
}

#[test]
fn clusters_wait_for_memory_and_the_others_of_an_edit_are_not_counted() {
    let stored = sized();
    let edit = class_edit(
        &stored,
        &stored.clone().at("ClusterClass", "/spec/controlPlane/machineInfrastructure", json!(null)),
    );
    let free = case(&stored, &edit).unwrap().with_memory(Arc::new(MemoryPool::new(64 << 20)));
    let mut compared = 0;
    free.compare(OPTIONS, Timestamp::UNIX_EPOCH, &Stop::never(), |clusters, _| compared += clusters);
    assert_eq!(compared, 1);
    // All memory is used by others until the time is over.
    let memory = Arc::new(MemoryPool::new(64 << 20));
    let _others = memory.take(memory.capacity(), &Stop::never()).unwrap();
    let _small: Vec<_> = std::iter::from_fn(|| memory.request(1 << 20).try_take()).collect();
    let looks = AtomicUsize::new(0);
    let stop = Stop::when(move || looks.fetch_add(1, Ordering::Relaxed) > 5);
    let case = case(&stored, &edit).unwrap().with_memory(memory.clone());
    case.compare(OPTIONS, Timestamp::UNIX_EPOCH, &stop, |_, change| panic!("{change:?}"));
}
