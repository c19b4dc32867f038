//! Edits in files: which files edit stored objects, and which of these edits a ceiling holds (DEC-59).
//!
//! ```text
//! objects before ─► each edit in its order ─► ImpactInputs, Impact, Ceiling: as in a review ─► HeldEdit
//!       ▲                    │ then the edit counts as stored
//!       └────────────────────┘
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::held_edit::HeldEdit;
use crate::admission::EditedObject;
use crate::impact::{APPROVED_IMPACT, Ceiling, Edit, Impact, ImpactInputs, is_of_a_class, worker_state};
use crate::topology::Options;
use model::hub::{Kind, Object, ObjectKey};
use model::wire::manifest::Manifest;
use model::world::{Facts, ObjectSet, Record};
use schema::budget::Stop;

/// Options, time and limit of the computation of impacts.
#[derive(Debug)]
pub struct ImpactBounds<'a> {
    pub options: Options,
    pub now: Timestamp,
    pub stop: &'a Stop,
}

/// The edits that a ceiling holds: that of `flag`, or those of classes. Each edit counts as stored for later ones.
pub fn held(edits: Vec<Edit>, mut stored: Facts, flag: Option<u32>, bounds: &ImpactBounds<'_>) -> Vec<HeldEdit> {
    put_worker_states(&mut stored);
    let mut held = Vec::new();
    for edit in edits {
        held.extend(hold(&edit, &stored, flag, bounds));
        store(&mut stored, edit);
    }
    held
}

/// The edit of a stored Cluster or ClusterClass.
pub fn from_edited(edited: EditedObject) -> Option<Edit> {
    match edited {
        EditedObject::Class { old, new } => Some(Edit::Class { old: Arc::from(old), new: Arc::from(new) }),
        EditedObject::Cluster { old, new } => Some(Edit::Cluster { old: Arc::from(old), new: Arc::from(new) }),
        EditedObject::NewCluster(_) => None,
    }
}

/// The edits of templates that a class refers to; `changed` are the objects after all edits.
pub fn of_templates<'a>(
    written: impl IntoIterator<Item = &'a Manifest>,
    stored: &Facts,
    changed: &ObjectSet,
) -> Vec<Edit> {
    let Some(known) = stored.objects() else { return Vec::new() };
    let mut seen = BTreeSet::new();
    let written = written.into_iter().filter(|manifest| manifest.admitted_kind().is_none());
    let edit = |template: Object| {
        let (group, kind, key) = (template.group(), template.kind(), template.key());
        // An object may be in the files more than once.
        if !seen.insert((group.to_owned(), kind.to_owned(), key.clone())) || !is_of_a_class(stored, group, kind, &key) {
            return None;
        }
        let find = |objects: &ObjectSet| objects.in_any_version(group, kind, &key).cloned();
        Some(Edit::Template { old: find(known)?, new: find(changed)? })
    };
    written.filter_map(Manifest::object).filter_map(edit).collect()
}

/// The edit with its denial, if a ceiling holds it.
fn hold(edit: &Edit, stored: &Facts, flag: Option<u32>, bounds: &ImpactBounds<'_>) -> Option<HeldEdit> {
    let (inputs, impact) = impact(edit, stored, bounds)?;
    let error = Ceiling::from_inputs(&inputs, flag)?.denies(edit, &impact)?;
    let (kind, ObjectKey { namespace, name }) = match edit {
        Edit::Class { new, .. } => (Kind::ClusterClass.name(), new.metadata.key()),
        Edit::Cluster { new, .. } | Edit::NewCluster(new) => (Kind::Cluster.name(), new.metadata.key()),
        Edit::Template { new, .. } | Edit::NewTemplate(new) => (new.kind(), new.key()),
    };
    let machines = impact.machines.gone().max(impact.at_most);
    let message = error.detail.clone();
    Some(HeldEdit { kind: kind.to_owned(), namespace, name, machines, annotation: APPROVED_IMPACT, message, error })
}

/// The impact of the edit, with all facts at hand.
fn impact(edit: &Edit, stored: &Facts, bounds: &ImpactBounds<'_>) -> Option<(ImpactInputs, Impact)> {
    let inputs = ImpactInputs::for_edit(edit, stored)?;
    let answers = inputs.needs().into_iter().map(|need| {
        let answer = stored.answer(&need);
        (need, answer)
    });
    let inputs = inputs.with(edit, answers.collect()).ok()?;
    let mut tally = inputs.tally();
    let ImpactBounds { options, now, stop } = *bounds;
    inputs.compare(options, now, stop, |clusters, change| tally.add(clusters, change));
    let impact = tally.impact();
    Some((inputs, impact))
}

/// Counts an edit as stored.
fn store(stored: &mut Facts, edit: Edit) {
    match edit {
        Edit::Class { new, .. } => stored.put_class(new.metadata.key(), Record::readable(Arc::unwrap_or_clone(new))),
        Edit::Cluster { new, .. } | Edit::NewCluster(new) => {
            stored.put_cluster(new.metadata.key(), Record::Readable(new));
        }
        Edit::Template { new, .. } | Edit::NewTemplate(new) => {
            if let Some(objects) = stored.objects_mut() {
                objects.put(new);
            }
        }
    }
}

/// Adds the machines of MachineDeployments to the facts, as the watch of a server does.
fn put_worker_states(facts: &mut Facts) {
    let clusters: Vec<ObjectKey> = facts.cluster_keys().cloned().collect();
    let Some(objects) = facts.objects() else { return };
    let of_clusters = clusters.iter().flat_map(|cluster| objects.of_cluster(cluster));
    let deployments = of_clusters.filter(|object| object.kind() == "MachineDeployment");
    let states = deployments.filter_map(|object| {
        let (set, state) = worker_state(object.namespace(), &Object::as_ref(object).to_string())?;
        Some((object.key(), set, state))
    });
    let states: Vec<_> = states.collect();
    states.into_iter().for_each(|(deployment, set, state)| facts.put_worker_state(deployment, set, state));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::topology::testing::Scene;
    use golang::yaml::YamlDocument;
    use model::wire::manifest;

    fn with_workers(replicas: i64) -> Scene {
        Scene::new().at("Cluster", "/spec/topology/workers/machineDeployments/0/replicas", json!(replicas))
    }

    fn cluster_edit(before: &Scene, after: &Scene) -> Edit {
        let cluster = |scene: &Scene| Arc::new(serde_json::from_value(scene.document("Cluster").clone()).unwrap());
        Edit::Cluster { old: cluster(before), new: cluster(after) }
    }

    fn held_edits(edits: Vec<Edit>, flag: Option<u32>) -> Vec<i64> {
        let stop = Stop::never();
        let bounds = ImpactBounds { options: Options::new(false), now: Timestamp::UNIX_EPOCH, stop: &stop };
        let stored = with_workers(9).simulator().facts().clone();
        held(edits, stored, flag, &bounds).iter().map(|held| held.machines).collect()
    }

    #[test]
    fn an_edit_counts_as_stored_for_later_edits() {
        // DEC-59
        let edits = || {
            let [nine, five, four] = [9, 5, 4].map(with_workers);
            vec![cluster_edit(&nine, &five), cluster_edit(&five, &four)]
        };
        assert_eq!(held_edits(edits(), Some(0)), [4, 1]);
        assert_eq!(held_edits(edits(), Some(1)), [4]);
        assert_eq!(held_edits(edits(), None), Vec::<i64>::new(), "no class has a ceiling");
    }

    #[test]
    fn only_templates_of_classes_are_edits_and_once() {
        let scene = Scene::new();
        let stored = scene.simulator().facts().clone();
        let manifest = |value: &Value| {
            let document = YamlDocument { line: 1, value: value.clone(), ..YamlDocument::default() };
            manifest::objects(document).unwrap().remove(0)
        };
        let template = manifest(scene.document("KubeadmControlPlaneTemplate"));
        let other =
            manifest(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}}));
        let edits = of_templates([&template, &other, &template], &stored, stored.objects().unwrap());
        assert!(matches!(&edits[..], [Edit::Template { .. }]), "{edits:?}");
    }
}
