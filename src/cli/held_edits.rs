//! Edits in files that a ceiling would deny (DEC-59), with the numbers of the webhook.
//!
//! ```text
//! stored objects, new templates ─► each changed template ─► each changed ClusterClass ─► each changed Cluster
//!                                     └─ Case, Impact, Ceiling: as in a review; then the edit counts as stored
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::offline::{CommandInput, ReviewSubject};
use super::rollout;
use engine::admission::{AdmissionSettings, EditedObject};
use engine::comparison::held_edit::HeldEdit;
use engine::impact::{
    APPROVED_IMPACT, Ceiling, Edit, Impact, ImpactInputs as ImpactCase, MAX_REPLACED_MACHINES, is_of_a_class,
};
use engine::topology::Options;
use model::hub::{Kind, Object, ObjectKey};
use model::wire::manifest::Manifest;
use model::world::{Facts, ObjectSet, Record};
use schema::budget::Stop;
use server::kubernetes::sizes::worker_state;

/// Maximum time for counting the machines of all edits. After that, upper bounds are used, as in a review.
const TIME: Duration = Duration::from_mins(5);

/// The edits of the new files of `case` that a ceiling holds: that of `flag`, or those of classes. `facts` are those
/// after all edits. Other denials come first: no edit is denied for another reason.
pub(super) fn held_edits(
    case: &CommandInput,
    subjects: &[ReviewSubject<'_>],
    facts: &Facts,
    (settings, flag): (&AdmissionSettings, Option<u32>),
    now: Timestamp,
) -> Vec<HeldEdit> {
    let had_ceiling = |subject: &ReviewSubject<'_>| subject.had_text(MAX_REPLACED_MACHINES);
    if !Ceiling::is_set(facts, flag) && !subjects.iter().any(had_ceiling) {
        return Vec::new();
    }
    let mut stored = case.stored(subjects);
    put_sizes(&mut stored);
    let mut held = Vec::new();
    let ends = Instant::now() + TIME;
    let stop = Stop::when(move || Instant::now() >= ends);
    for edit in edits(case, subjects, &stored) {
        held.extend(hold(&edit, &stored, flag, (rollout::options(settings), now, &stop)));
        store(&mut stored, edit);
    }
    held
}

/// The edits in the assumed order of their application.
fn edits(case: &CommandInput, subjects: &[ReviewSubject<'_>], stored: &Facts) -> Vec<Edit> {
    let mut edits: Vec<Edit> = template_edits(case, stored);
    for kind in [Kind::ClusterClass, Kind::Cluster] {
        let of_kind = subjects.iter().filter(|subject| subject.kind == kind);
        edits.extend(of_kind.filter_map(ReviewSubject::edited).filter_map(edit));
    }
    edits
}

pub(super) fn edit(edited: EditedObject) -> Option<Edit> {
    match edited {
        EditedObject::Class { old, new } => Some(Edit::Class { old: Arc::from(old), new: Arc::from(new) }),
        EditedObject::Cluster { old, new } => Some(Edit::Cluster { old: Arc::from(old), new: Arc::from(new) }),
        EditedObject::NewCluster(_) => None,
    }
}

/// Templates of the new files that a class refers to before the change.
pub(super) fn template_edits(case: &CommandInput, stored: &Facts) -> Vec<Edit> {
    let (Some(known), changed) = (stored.objects(), case.objects()) else { return Vec::new() };
    let mut seen = BTreeSet::new();
    let written = case.new.objects.iter().map(|loaded| &loaded.manifest);
    let templates = written.filter(|manifest| manifest.admitted_kind().is_none()).filter_map(Manifest::object);
    let edit = |template: Object| {
        let (group, kind, key) = (template.group(), template.kind(), template.key());
        // An object may be in the files more than once.
        if !seen.insert((group.to_owned(), kind.to_owned(), key.clone())) || !is_of_a_class(stored, group, kind, &key) {
            return None;
        }
        let find = |objects: &ObjectSet| objects.in_any_version(group, kind, &key).cloned();
        Some(Edit::Template { old: find(known)?, new: find(&changed)? })
    };
    templates.filter_map(edit).collect()
}

/// The edit with its denial, if a ceiling holds it.
fn hold(edit: &Edit, stored: &Facts, flag: Option<u32>, means: Means<'_>) -> Option<HeldEdit> {
    let (case, impact) = impact(edit, stored, means)?;
    let error = Ceiling::from_inputs(&case, flag)?.denies(edit, &impact)?;
    let (kind, ObjectKey { namespace, name }) = match edit {
        Edit::Class { new, .. } => (Kind::ClusterClass.name(), new.metadata.key()),
        Edit::Cluster { new, .. } | Edit::NewCluster(new) => (Kind::Cluster.name(), new.metadata.key()),
        Edit::Template { new, .. } | Edit::NewTemplate(new) => (new.kind(), new.key()),
    };
    let machines = impact.machines.gone().max(impact.at_most);
    let message = error.detail.clone();
    Some(HeldEdit { kind: kind.to_owned(), namespace, name, machines, annotation: APPROVED_IMPACT, message, error })
}

/// Bounds and time of a computation.
type Means<'a> = (Options, Timestamp, &'a Stop);

/// The impact of the edit, with all facts at hand.
fn impact(edit: &Edit, stored: &Facts, (options, now, stop): Means<'_>) -> Option<(ImpactCase, Impact)> {
    let case = ImpactCase::for_edit(edit, stored)?;
    let answers = case.needs().into_iter().map(|need| {
        let answer = stored.answer(&need);
        (need, answer)
    });
    let answers = answers.collect();
    let case = case.with(edit, answers).ok()?;
    let mut tally = case.tally();
    case.compare(options, now, stop, |clusters, change| tally.add(clusters, change));
    let impact = tally.impact();
    Some((case, impact))
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
fn put_sizes(facts: &mut Facts) {
    let clusters: Vec<ObjectKey> = facts.cluster_keys().cloned().collect();
    let Some(objects) = facts.objects() else { return };
    let of_clusters = clusters.iter().flat_map(|cluster| objects.of_cluster(cluster));
    let deployments = of_clusters.filter(|object| object.kind() == "MachineDeployment");
    let states = deployments.filter_map(|object| {
        let (set, state) =
            worker_state(object.namespace(), &AsRef::<serde_json::Value>::as_ref(&**object).to_string())?;
        Some((object.key(), set, state))
    });
    let states: Vec<_> = states.collect();
    states.into_iter().for_each(|(deployment, set, state)| facts.put_worker_state(deployment, set, state));
}
