//! A ceiling on the machines that one edit may replace or remove, and the approval that lifts it (DEC-53, DEC-59).

use super::bound::AffectedClusters;
use super::edit::Edit;
use super::inputs::ImpactInputs;
use super::tally::Impact;
use super::warnings::{clusters_of, grouped, machines};
use crate::topology::plan::outlasts_certificates;
use golang::json::StringMap;
use model::hub::contract::cloned_kind;
use model::hub::{ClusterClass, Object, ObjectKey, paths};
use model::world::{Facts, Found};
use schema::field::{ErrorKind, ErrorValue, FieldError, Path, RuleId};

/// Annotation of a ClusterClass: the number of machines that one edit may replace or remove.
pub const MAX_REPLACED_MACHINES: &str = "topologist.dev/max-replaced-machines";
/// Annotation of the edited object: the number of machines that this edit may replace or remove, and a text such as a
/// ticket.
pub const APPROVED_IMPACT: &str = "topologist.dev/approved-impact";

/// The rule that denies edits above a ceiling.
const RULE: RuleId = "DEC-59";

/// How unknown numbers of machines count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownImpact {
    /// All machines that may be replaced or removed count.
    #[default]
    Bound,
    /// Unknown numbers do not count; there is only a warning.
    Warn,
}

/// The number of machines that an edit may replace or remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceiling {
    pub machines: i64,
    /// The source of the number.
    source: String,
    unknown: UnknownImpact,
}

impl Ceiling {
    /// The lowest ceiling of the process and the classes, before and after the edit.
    pub fn from_inputs(case: &ImpactInputs, flag: Option<u32>) -> Option<Self> {
        let of_classes = [&case.before, &case.after]
            .into_iter()
            .flat_map(|facts| case.classes().filter_map(|key| Ceiling::for_stored_class(facts, key)));
        Ceiling::lowest(flag, of_classes)
    }

    /// The lowest ceiling for an edit without inputs.
    pub fn for_edit(edit: &Edit, extent: &AffectedClusters, stored: &Facts, flag: Option<u32>) -> Option<Self> {
        let of_classes = extent.classes.iter().filter_map(|key| Ceiling::for_stored_class(stored, key));
        let edited = match edit {
            Edit::Class { old, new } => [Ceiling::for_class(old), Ceiling::for_class(new)],
            _ => [None, None],
        };
        Ceiling::lowest(flag, of_classes.chain(edited.into_iter().flatten()))
    }

    fn lowest(flag: Option<u32>, of_classes: impl Iterator<Item = Ceiling>) -> Option<Self> {
        let flag = flag.map(|machines| Ceiling::new(machines.into(), "of --max-replaced-machines".to_owned()));
        flag.into_iter().chain(of_classes).min_by_key(|ceiling| ceiling.machines)
    }

    fn new(machines: i64, source: String) -> Self {
        Ceiling { machines, source, unknown: UnknownImpact::default() }
    }

    /// Sets how unknown numbers of machines count.
    #[must_use]
    pub fn with_unknown(self, unknown: UnknownImpact) -> Self {
        Ceiling { unknown, ..self }
    }

    /// Whether any edit can be denied at all.
    pub fn is_set(stored: &Facts, flag: Option<u32>) -> bool {
        flag.is_some() || stored.class_keys().any(|key| Ceiling::for_stored_class(stored, key).is_some())
    }

    fn for_stored_class(facts: &Facts, key: &ObjectKey) -> Option<Self> {
        if let Found::Yes(class) = facts.class(key) { Ceiling::for_class(&class) } else { None }
    }

    fn for_class(class: &ClusterClass) -> Option<Self> {
        let text = class.metadata.annotations.get(MAX_REPLACED_MACHINES)?;
        let key = class.metadata.key();
        let ceiling = |machines, problem: &str| {
            Ceiling::new(machines, format!("in annotation {MAX_REPLACED_MACHINES} of ClusterClass {key}{problem}"))
        };
        // An invalid value must not remove the ceiling.
        Some(text.trim().parse().map_or_else(
            |_| ceiling(0, ", which is not a number and so counts as 0"),
            |machines: u32| ceiling(machines.into(), ""),
        ))
    }

    /// The error of an edit with this impact, at the annotation that would approve it; `None` if it is within the
    /// ceiling or approved.
    pub fn denies(&self, edit: &Edit, impact: &Impact) -> Option<FieldError> {
        let gone = match self.unknown {
            UnknownImpact::Bound => impact.at_most,
            UnknownImpact::Warn => impact.certain,
        };
        if gone <= self.machines {
            return None;
        }
        let approval = Approval::from_edit(edit);
        if matches!(approval, Approval::For(machines) if machines >= gone) {
            return None;
        }
        let detail = format!(
            "this edit {}, more than the {} {}{}; to approve it, set this annotation on {} in the same edit: \
             {APPROVED_IMPACT}: \"{} <reason>\"",
            claim(impact, gone),
            grouped(self.machines),
            self.source,
            approval.problem(),
            edit.object(),
            // Users expect the estimated number.
            gone.max(impact.machines.gone()),
        );
        let (kind, value) = match edit.approval() {
            None => (ErrorKind::Required, ErrorValue::NOTHING),
            Some(text) => (ErrorKind::Invalid, ErrorValue::bounded(&text.into())),
        };
        let path = Path::new("metadata").child("annotations").key(APPROVED_IMPACT);
        Some(FieldError { rule: RULE, kind, path, value, detail })
    }
}

/// The impact in the words of the message.
fn claim(impact: &Impact, gone: i64) -> String {
    if let Some(reason) = impact.uncounted.as_ref().filter(|_| gone > impact.certain) {
        let clusters = clusters_of(impact.clusters);
        return format!("may replace or remove up to {} in {clusters} ({reason})", machines(gone, false));
    }
    let about = if impact.is_estimate() { "about " } else { "" };
    format!(
        "replaces or removes {about}{} in {about}{} of {}",
        machines(gone.max(impact.machines.gone()), false),
        grouped(impact.affected),
        clusters_of(impact.clusters),
    )
}

/// The error of an edit after which machines of a control plane are replaced again and again: `certificatesExpiryDays`
/// exceeds the validity of certificates (ROLL-6). `found` contains both numbers of days.
pub fn endless(edit: &Edit, found: Option<(i64, i64)>) -> Option<FieldError> {
    let (days, validity) = found?;
    let path = match edit {
        Edit::Class { .. } => Path::new("spec").child("patches"),
        Edit::Cluster { .. } | Edit::NewCluster(_) => Path::new("spec").child("topology"),
        Edit::Template { .. } | Edit::NewTemplate(_) => return None,
    };
    Some(endless_at(path, (days, validity)))
}

/// The error of a template of a control plane, at the field itself; `None` if the old one had the same number.
pub fn endless_template(old: Option<&Object>, new: &Object) -> Option<FieldError> {
    let control_plane = |template: &Object| {
        let mut object = Object::default();
        let kind = cloned_kind(template.kind())?;
        object.set("kind", kind.into()).ok()?;
        object.set("spec", template.at(paths::TEMPLATE_SPEC)?.clone()).ok()?;
        outlasts_certificates(&object)
    };
    let found = control_plane(new)?;
    let is_new = old.and_then(control_plane).is_none_or(|before| before.0 != found.0);
    let path = ["template", "spec", "rollout", "before", "certificatesExpiryDays"];
    is_new.then(|| endless_at(path.iter().fold(Path::new("spec"), |path, name| path.child(name)), found))
}

fn endless_at(path: Path, (days, validity): (i64, i64)) -> FieldError {
    let detail = format!(
        "certificates of machines are valid for {validity} days, so with certificatesExpiryDays {days} the control \
         plane replaces its machines again and again; use a lower number"
    );
    FieldError { rule: "ROLL-6", kind: ErrorKind::Invalid, path, value: days.into(), detail }
}

/// The approval in the annotation of the edited object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Approval {
    None,
    /// The annotation is that of an earlier edit.
    Old,
    NoNumber,
    For(i64),
}

impl Approval {
    fn from_edit(edit: &Edit) -> Self {
        let (old, new) = edit.annotations();
        let Some(text) = new.get(APPROVED_IMPACT) else { return Approval::None };
        if old.get(APPROVED_IMPACT) == Some(text) {
            return Approval::Old;
        }
        let number = text.split_whitespace().next().unwrap_or_default();
        number.parse::<u32>().map_or(Approval::NoNumber, |number| Approval::For(number.into()))
    }

    fn problem(self) -> String {
        match self {
            Approval::None => String::new(),
            Approval::Old => ", and its approval is that of an earlier edit: change its number or its text".to_owned(),
            Approval::NoNumber => ", and its approval does not begin with a number".to_owned(),
            Approval::For(machines) => format!(", and its approval is for {} only", grouped(machines)),
        }
    }
}

impl Edit {
    /// The annotations before and after.
    fn annotations(&self) -> (StringMap, StringMap) {
        match self {
            Edit::Class { old, new } => (old.metadata.annotations.clone(), new.metadata.annotations.clone()),
            Edit::Cluster { old, new } => (old.metadata.annotations.clone(), new.metadata.annotations.clone()),
            Edit::NewCluster(new) => (StringMap::default(), new.metadata.annotations.clone()),
            Edit::Template { old, new } => (annotations_of(old), annotations_of(new)),
            Edit::NewTemplate(new) => (StringMap::default(), annotations_of(new)),
        }
    }

    /// The value of the annotation that approves the edit.
    fn approval(&self) -> Option<String> {
        self.annotations().1.get(APPROVED_IMPACT).map(str::to_owned)
    }

    /// The edited object in messages.
    fn object(&self) -> String {
        match self {
            Edit::Class { new, .. } => format!("ClusterClass {}", new.metadata.key()),
            _ => self.subject(),
        }
    }
}

fn annotations_of(object: &Object) -> StringMap {
    StringMap::from(object.texts(paths::metadata::ANNOTATIONS).unwrap_or_default())
}
