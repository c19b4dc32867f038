//! A ceiling on the machines that one edit may replace or remove, and the approval that lifts it (DEC-53).

use super::case::{Case, Edit};
use super::tally::Impact;
use super::words::{clusters_of, grouped, machines};
use crate::hub::ObjectKey;
use crate::json::StringMap;
use crate::world::{Facts, Found};

/// On a ClusterClass: how many machines one edit may replace or remove.
pub const MAX_REPLACED_MACHINES: &str = "topologist.dev/max-replaced-machines";
/// On the object that is edited: how many machines this edit may replace or remove, and a text such as a ticket.
pub const APPROVED_IMPACT: &str = "topologist.dev/approved-impact";

/// How many machines an edit may replace or remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ceiling {
    pub machines: i64,
    /// Where the number stands.
    source: String,
}

impl Ceiling {
    /// The lowest of the one of the process and those of the classes, before and after the edit.
    pub fn of(case: &Case, flag: Option<u32>) -> Option<Self> {
        let flag =
            flag.map(|machines| Ceiling { machines: machines.into(), source: "of --max-replaced-machines".to_owned() });
        let of_classes = [&case.before, &case.after]
            .into_iter()
            .flat_map(|facts| case.classes().filter_map(|key| Ceiling::of_class(facts, key)));
        flag.into_iter().chain(of_classes).min_by_key(|ceiling| ceiling.machines)
    }

    /// Whether any edit can be denied at all.
    pub fn is_set(stored: &Facts, flag: Option<u32>) -> bool {
        flag.is_some() || stored.class_keys().any(|key| Ceiling::of_class(stored, key).is_some())
    }

    fn of_class(facts: &Facts, key: &ObjectKey) -> Option<Self> {
        let Found::Yes(class) = facts.class(key) else { return None };
        let text = class.metadata.annotations.get(MAX_REPLACED_MACHINES)?;
        let ceiling = |machines, problem: &str| Ceiling {
            machines,
            source: format!("in annotation {MAX_REPLACED_MACHINES} of ClusterClass {key}{problem}"),
        };
        // A slip of the pen must not take the ceiling away.
        Some(text.trim().parse().map_or_else(
            |_| ceiling(0, ", which is not a number and so counts as 0"),
            |machines: u32| ceiling(machines.into(), ""),
        ))
    }

    /// Why an edit with this impact is denied; `None` when it stays below the ceiling, or is approved.
    pub fn denies(&self, edit: &Edit, impact: &Impact) -> Option<String> {
        if impact.certain <= self.machines {
            return None;
        }
        let approval = Approval::of(edit);
        if matches!(approval, Approval::For(machines) if machines >= impact.certain) {
            return None;
        }
        let gone = impact.machines.gone().max(impact.certain);
        let about = if impact.is_estimate() { "about " } else { "" };
        Some(format!(
            "this edit replaces or removes {about}{} in {about}{} of {}, more than the {} {}{}; to approve it, \
             set this annotation on {} in the same edit: {APPROVED_IMPACT}: \"{gone} <reason>\"",
            machines(gone, false),
            grouped(impact.affected),
            clusters_of(impact.clusters),
            grouped(self.machines),
            self.source,
            approval.problem(),
            edit.object(),
        ))
    }
}

/// What the edited object says of its impact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Approval {
    None,
    /// The annotation is that of an earlier edit.
    Old,
    NoNumber,
    For(i64),
}

impl Approval {
    fn of(edit: &Edit) -> Self {
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
            Edit::Template { old, new } => {
                let of = |object: &crate::hub::Object| {
                    StringMap::from(object.texts("metadata.annotations").unwrap_or_default())
                };
                (of(old), of(new))
            }
        }
    }

    /// The edited object, as messages name it.
    fn object(&self) -> String {
        match self {
            Edit::Class { new, .. } => format!("ClusterClass {}", new.metadata.key()),
            Edit::Cluster { .. } | Edit::NewCluster(_) | Edit::Template { .. } => self.subject(),
        }
    }
}
