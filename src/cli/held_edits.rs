//! Edits in files that a ceiling would deny (DEC-59), with the numbers of the webhook.
//!
//! ```text
//! stored objects, new templates ─► each changed template ─► each changed ClusterClass ─► each changed Cluster
//!                                     └─ engine::comparison::file_edits
//! ```

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::offline::CommandInput;
use super::rollout;
use engine::admission::AdmissionSettings;
use engine::comparison::file_edits::{self, ImpactBounds};
use engine::comparison::held_edit::HeldEdit;
use engine::file_review::ReviewSubject;
use engine::impact::{Ceiling, Edit, MAX_REPLACED_MACHINES};
use model::hub::Kind;
use model::world::Facts;
use schema::budget::Stop;

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
    let stored = case.stored(subjects);
    let ends = Instant::now() + TIME;
    let stop = Stop::when(move || Instant::now() >= ends);
    let bounds = ImpactBounds { options: rollout::options(settings), now, stop: &stop };
    file_edits::held(edits(case, subjects, &stored), stored, flag, &bounds)
}

/// The edits in the assumed order of their application.
fn edits(case: &CommandInput, subjects: &[ReviewSubject<'_>], stored: &Facts) -> Vec<Edit> {
    let mut edits: Vec<Edit> = template_edits(case, stored);
    for kind in [Kind::ClusterClass, Kind::Cluster] {
        let of_kind = subjects.iter().filter(|subject| subject.kind == kind);
        edits.extend(of_kind.filter_map(ReviewSubject::edited).filter_map(file_edits::from_edited));
    }
    edits
}

/// Templates of the new files that a class refers to before the change.
pub(super) fn template_edits(case: &CommandInput, stored: &Facts) -> Vec<Edit> {
    let written = case.new.objects.iter().map(|loaded| &loaded.manifest);
    file_edits::of_templates(written, stored, &case.objects())
}
