//! Phrases that text and Markdown share.

use engine::comparison::cluster_report::{About, ChangeReport, Fate, RollEffect, RollReport, StepReport};
use engine::comparison::groups::{ChangeGroup, GroupHeldPart, GroupRoll, GroupStep, Member};
use engine::comparison::report::ComparisonReport;
use engine::topology::plan::{MachineCounts, StepAction};
use schema::field::counted;

/// How many denials, and how many notes on what is not complete, are listed.
pub(super) const MESSAGES: usize = 20;
/// How many Clusters of a group are named.
pub(super) const NAMED: usize = 20;

/// `37 of 40 Clusters changed: 411 machines replaced, 2 removed; 3 objects deleted`.
pub(super) fn summary(report: &ComparisonReport) -> String {
    let summary = &report.summary;
    let clusters = counted(summary.clusters, "Cluster");
    let deleted = match summary.deleted_objects {
        0 => String::new(),
        deleted => format!("; {} deleted", counted(deleted, "object")),
    };
    let of_classes = of_classes(report);
    let planned = match summary.changed {
        0 if summary.clusters == 0 && !of_classes.is_empty() => of_classes.join("; "),
        0 if summary.failed == 0 && summary.refused == 0 => format!("{clusters}, nothing changes"),
        0 => clusters,
        changed => {
            let change = match (summary.deleted_clusters, changed - summary.deleted_clusters) {
                (0, _) => format!("{changed} of {clusters} changed"),
                (gone, 0) if gone == summary.clusters => format!("{} deleted", counted(gone, "Cluster")),
                (gone, 0) => format!("{gone} of {clusters} deleted"),
                (gone, changed) => format!("{changed} of {clusters} changed, {gone} deleted"),
            };
            format!("{change}: {}{deleted}", machines(&summary.machines))
        }
    };
    let planned = match summary.clusters {
        0 => planned,
        _ => [vec![planned], of_classes].concat().join("; "),
    };
    let failed = if summary.failed == 0 { String::new() } else { format!("; {} cannot be planned", summary.failed) };
    let refused = match summary.refused {
        0 => String::new(),
        refused => format!("; the API server would refuse objects of {}", counted(refused, "Cluster")),
    };
    let denied = if report.errors.is_empty() { "" } else { "; the change is denied" };
    let held = match report.held_edits.len() {
        0 => String::new(),
        held => format!("; {} held by a ceiling", counted(held, "edit")),
    };
    planned + &failed + &refused + denied + &held
}

/// Short descriptions of the changes of classes that no Cluster uses.
fn of_classes(report: &ComparisonReport) -> Vec<String> {
    let samples = || report.groups.iter().filter(|group| group.is_sample());
    let number =
        |holds: fn(&&ChangeGroup) -> bool| samples().filter(holds).map(|group| group.clusters.len()).sum::<usize>();
    let (samples, changed) = (number(|_| true), number(|group| !group.steps.is_empty()));
    let all = counted(samples, "sample Cluster");
    let mut phrases = Vec::new();
    match (samples, changed) {
        (0, _) => {}
        (_, 0) => phrases.push(format!("{all}, nothing changes")),
        _ => phrases.push(format!("{changed} of {all} changed")),
    }
    if report.groups.is_empty() && report.classes.is_empty() && !report.incomplete.is_empty() {
        phrases.push("no Cluster, nothing changes in the classes and their templates".to_owned());
    }
    if !report.classes.is_empty() {
        let number = report.classes.len();
        let classes = if number == 1 { "ClusterClass" } else { "ClusterClasses" };
        phrases.push(format!("{number} {classes} changed without a Cluster"));
    }
    phrases
}

/// `4 machines replaced, 2 removed`: the replaced ones are printed even if there are none.
pub(super) fn machines(machines: &MachineCounts) -> String {
    let MachineCounts { replaced, at_least, .. } = machines;
    let replaced = match (replaced, at_least) {
        (Some(1), _) => "1 machine replaced".to_owned(),
        (Some(replaced), _) => format!("{replaced} machines replaced"),
        (None, least) if *least > 0 => format!("at least {least} machines replaced"),
        (None, _) => "an unknown number of machines replaced".to_owned(),
    };
    let others = numbers(&MachineCounts { replaced: Some(0), ..*machines });
    [vec![replaced], others].concat().join(", ")
}

/// The numbers of machines that are not zero: `4 replaced`, `2 removed`.
fn numbers(machines: &MachineCounts) -> Vec<String> {
    let MachineCounts { replaced, removed, added, outdated_until_deleted, at_least } = machines;
    let shown = |number: &Option<i64>, what: &str, least: i64| match (number, least) {
        (Some(0), _) => None,
        (Some(number), _) => Some(format!("{number} {what}")),
        (None, least) if least > 0 => Some(format!("at least {least} {what}")),
        (None, _) => Some(format!("an unknown number {what}")),
    };
    let all = [
        shown(replaced, "replaced", *at_least),
        shown(removed, "removed", 0),
        shown(added, "added", 0),
        shown(outdated_until_deleted, "outdated until deleted", *at_least),
    ];
    all.into_iter().flatten().collect()
}

/// The Clusters of a group, their changes, and the effect on their machines.
pub(super) fn headline(group: &ChangeGroup) -> String {
    let has_machines = !group.steps.is_empty() && !matches!(group.about.fate, Fate::Sample | Fate::Class);
    let machines = if has_machines { format!(": {}", machines(&group.machines)) } else { String::new() };
    if let [one] = &*group.clusters {
        let title = match &group.alone {
            Some(report) => report.title.clone(),
            None => format!("Cluster {}", one.key),
        };
        return title + &machines;
    }
    let About { fate, topology } = &group.about;
    let topology = if topology.is_empty() { String::new() } else { format!(", {topology}") };
    let count = group.clusters.len();
    match fate {
        Fate::Stays | Fate::Class => format!("{count} Clusters{topology}{machines}"),
        Fate::Sample => format!("{count} sample Clusters{topology}"),
        Fate::New => format!("{count} new Clusters{topology}{machines}"),
        Fate::Deleted => format!("{count} Clusters are deleted{topology}{machines}"),
    }
}

/// The Clusters of a group by name, with the machines that are replaced or removed, and how many more there are.
pub(super) fn members(group: &ChangeGroup, most: usize) -> (Vec<String>, usize) {
    let name = |(i, member): (usize, &Member)| match member.affected {
        0 => member.key.to_string(),
        count if i == 0 => {
            format!("{} ({})", member.key, counted(usize::try_from(count).unwrap_or(usize::MAX), "machine"))
        }
        count => format!("{} ({count})", member.key),
    };
    let named = group.clusters.iter().take(most).enumerate().map(name).collect();
    (named, group.clusters.len().saturating_sub(most))
}

/// The Clusters with most machines that are replaced or removed, where there are several groups to look for them in.
pub(super) fn most_affected(report: &ComparisonReport) -> Option<String> {
    let groups = || report.groups.iter().filter(|group| !group.is_sample());
    let mut members: Vec<_> = groups().flat_map(|group| group.clusters.iter().take(5)).collect();
    members.retain(|member| member.affected > 0);
    members.sort_by(|one, other| other.affected.cmp(&one.affected).then_with(|| one.key.cmp(&other.key)));
    if members.len() < 2 || groups().filter(|group| group.has_content()).count() < 2 {
        return None;
    }
    let name = |member: &&Member| {
        format!("{} ({})", member.key, counted(usize::try_from(member.affected).unwrap_or(usize::MAX), "machine"))
    };
    Some(members.iter().take(5).map(name).collect::<Vec<_>>().join(", "))
}

/// A write of one object, or of all objects of its role.
pub(super) struct StepPhrase<'a> {
    pub action: &'static str,
    pub object: String,
    /// The name that the object takes the place of.
    pub replaces: Option<&'a str>,
    pub reason: &'a str,
    pub changes: &'a [ChangeReport],
}

impl<'a> StepPhrase<'a> {
    fn for_cluster(step: &'a StepReport) -> Self {
        StepPhrase {
            action: step.action,
            object: format!("{} {}", step.kind, step.name),
            replaces: step.replaces.as_deref(),
            reason: &step.reason,
            changes: &step.changes,
        }
    }

    fn of_group(step: &'a GroupStep) -> Self {
        let GroupStep { action, kind, role, reason, changes, .. } = step;
        let object = match *role {
            "" => kind.clone(),
            role if role == kind => kind.clone(),
            role => format!("{kind} ({role})"),
        };
        StepPhrase { action, object, replaces: None, reason, changes }
    }

    /// Why it is done, where no change of a field says so.
    pub(super) fn why(&self) -> Option<&'a str> {
        self.changes.is_empty().then_some(self.reason)
    }

    pub(super) fn is(&self, action: StepAction) -> bool {
        self.action == action.name()
    }
}

/// The text of a group. That of a single Cluster has the names of its objects.
pub(super) fn steps(group: &ChangeGroup) -> Vec<StepPhrase<'_>> {
    match &group.alone {
        Some(report) => report.steps.iter().map(StepPhrase::for_cluster).collect(),
        None => group.steps.iter().map(StepPhrase::of_group).collect(),
    }
}

/// The effect on machines, a line for each object or role.
pub(super) fn rolls(group: &ChangeGroup) -> Vec<String> {
    let of_cluster = |roll: &RollReport| rolled(&format!("{} {}", roll.kind, roll.name), &roll.effect);
    let of_group = |roll: &GroupRoll| rolled(&roll.kind, &roll.effect);
    match &group.alone {
        Some(report) => report.rolls.iter().map(of_cluster).collect(),
        None => group.rolls.iter().map(of_group).collect(),
    }
}

/// The alternative to a replacement of the machines.
fn proviso(in_place: Option<&str>, certainty: &str) -> String {
    match in_place {
        Some(extension) => format!(", or updated in place, if the extension {extension} agrees"),
        None if certainty == "provider" => ", if the provider replaces machines for this change".to_owned(),
        None => String::new(),
    }
}

/// The effect on the machines of one object, or of all objects of a role.
fn rolled(object: &str, effect: &RollEffect) -> String {
    let RollEffect { machines, at_a_time, from, in_place, certainty, reason } = effect;
    let from = from.as_ref().map(|from| format!(" from {from} on")).unwrap_or_default();
    let pace = match (machines.replaced, at_a_time) {
        (Some(0), _) | (_, None) => String::new(),
        (_, Some(pace)) => format!(", {pace} at a time"),
    };
    let proviso = proviso(in_place.as_deref(), certainty);
    let numbers = match numbers(machines) {
        none if none.is_empty() => "0 replaced".to_owned(),
        numbers => numbers.join(", "),
    };
    format!("machines of {object}: {numbers}{from}{pace}{proviso}, since {reason}")
}

/// What waits: the object, and why.
pub(super) fn held(group: &ChangeGroup) -> Vec<(String, &str)> {
    match &group.alone {
        Some(report) => {
            report.held.iter().map(|held| (format!("{} {}", held.kind, held.name), &*held.reason)).collect()
        }
        None => group.held.iter().map(|GroupHeldPart { kind, reason }| (kind.clone(), &**reason)).collect(),
    }
}

/// Warnings and errors.
pub(super) fn remarks(group: &ChangeGroup) -> (&[String], &[String]) {
    match &group.alone {
        Some(report) => (&report.warnings, &report.errors),
        None => (&group.warnings, &group.errors),
    }
}

/// Where a value comes from, and came from before.
pub(super) fn origin(change: &ChangeReport) -> String {
    let before = change.before.as_ref().map(|before| format!("; before: {before}")).unwrap_or_default();
    format!("{}{before}", change.because)
}

/// What the exit code means, unless there is nothing to say.
pub(super) fn exit(report: &ComparisonReport) -> Option<&'static str> {
    match report.exit_code() {
        1 if only_held(report) => Some("exit code 1: a ceiling holds the change"),
        1 if report.errors.is_empty() && report.summary.failed == 0 => {
            Some("exit code 1: the API server would refuse an object")
        }
        1 => Some("exit code 1: the change is denied, or a Cluster cannot be planned"),
        3 => Some("exit code 3: objects change in place or are new, and no machine is replaced or removed"),
        4 => Some("exit code 4: machines are replaced or removed"),
        5 => Some("exit code 5: objects are deleted and not replaced"),
        _ => None,
    }
}

/// Whether a ceiling is the only reason for exit code 1.
fn only_held(report: &ComparisonReport) -> bool {
    let fails = report.all().any(|group| !group.errors.is_empty());
    !report.held_edits.is_empty() && report.errors.is_empty() && !fails
}
