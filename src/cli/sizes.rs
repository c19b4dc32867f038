//! Edits in files that make topologies too large to compute (DEC-58), with the verdicts of the webhook.

use std::sync::Arc;

use super::held_edits::template_edits;
use super::offline::CommandInput;
use super::rollout;
use engine::admission::{AdmissionSettings, EditedObject};
use engine::comparison::file_edits;
use engine::file_review::ReviewSubject;
use engine::impact::{Edit, SizeRules, SizeVerdict};
use model::hub::{Kind, Object, ObjectKey, ObjectRef};
use model::world::{Facts, Found, ObjectSet};
use server::webhook::breaking;

/// An edit with the verdict on the sizes of topologies after it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SizedEdit {
    pub kind: String,
    pub key: ObjectKey,
    pub verdict: SizeVerdict,
}

/// The edits of the new files of `case` with a verdict to report. `facts` are those after all edits.
pub(super) fn sized_edits(
    case: &CommandInput,
    subjects: &[ReviewSubject<'_>],
    facts: &Facts,
    settings: &AdmissionSettings,
) -> Vec<SizedEdit> {
    let stored = case.stored(subjects);
    let (before, after) = (stored.objects().cloned().unwrap_or_default(), case.objects());
    let edited = |subject: &ReviewSubject<'_>| match subject.edited()? {
        EditedObject::NewCluster(new) => Some(Edit::NewCluster(Arc::from(new))),
        edited => file_edits::from_edited(edited),
    };
    // Clusters are judged last, by their classes and templates as they will be.
    let of_clusters = subjects.iter().filter(|subject| subject.kind == Kind::Cluster).filter_map(edited);
    let of_classes = subjects.iter().filter(|subject| subject.kind == Kind::ClusterClass).filter_map(edited);
    let of_templates = template_edits(case, &stored).into_iter();
    let earlier = of_templates.chain(of_classes).map(|edit| sized(&edit, &stored, &before, settings));
    let later = of_clusters.map(|edit| sized(&edit, facts, &after, settings));
    earlier.chain(later).filter(|sized| sized.verdict != SizeVerdict::default()).collect()
}

fn sized(edit: &Edit, facts: &Facts, templates: &ObjectSet, settings: &AdmissionSettings) -> SizedEdit {
    let rules = SizeRules { limit: rollout::options(settings).limit, breaking: breaking(settings.dependents) };
    let template = |reference: &ObjectRef| -> Option<Arc<Object>> {
        if let Found::Yes(template) = templates.object(reference) { Some(template) } else { None }
    };
    let (kind, key) = match edit {
        Edit::Class { new, .. } => (Kind::ClusterClass.name(), new.metadata.key()),
        Edit::Cluster { new, .. } | Edit::NewCluster(new) => (Kind::Cluster.name(), new.metadata.key()),
        Edit::Template { new, .. } | Edit::NewTemplate(new) => (new.kind(), new.key()),
    };
    SizedEdit { kind: kind.to_owned(), key, verdict: SizeVerdict::for_edit(edit, facts, template, rules) }
}
