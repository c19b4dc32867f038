//! What `plan` says, for people.

use serde_json::Value;

use super::report::{ChangeReport, ClusterReport, Report, RollReport, StepReport, Summary};
use super::samples;
use crate::topology::plan::Machines;

/// The longest value that is shown whole, in characters.
const LONGEST: usize = 96;

/// Lines for a terminal.
pub(super) fn plain(report: &Report) -> String {
    let mut text = String::new();
    report.errors.iter().for_each(|error| text.push_str(&format!("denied: {error}\n")));
    for cluster in report.all().filter(|cluster| says_something(cluster)) {
        text.push_str(&format!("{}\n", cluster.title));
        for step in &cluster.steps {
            text.push_str(&format!("  {:<6} {}\n", step.action, headline(step)));
            for change in &step.changes {
                let because = explained(change);
                for Place { path, from, to } in places(change) {
                    text.push_str(&format!("           {path}: {} → {}   ({because})\n", shown(from), shown(to)));
                }
            }
        }
        cluster.rolls.iter().for_each(|roll| text.push_str(&format!("  {}\n", rolled(roll))));
        for held in &cluster.held {
            text.push_str(&format!("  held   {} {}: {}\n", held.kind, held.name, held.reason));
        }
        cluster.warnings.iter().for_each(|warning| text.push_str(&format!("  warning: {warning}\n")));
        cluster.errors.iter().for_each(|error| text.push_str(&format!("  error: {error}\n")));
    }
    report.incomplete.iter().for_each(|reason| text.push_str(&format!("not complete: {reason}\n")));
    text.push_str(&format!("{}\n", summary(report)));
    text
}

/// A comment for a merge request.
pub(super) fn markdown(report: &Report) -> String {
    let mut text = format!("**{}**\n", summary(report));
    report.errors.iter().for_each(|error| text.push_str(&format!("\n> denied: {}\n", escaped(error))));
    for cluster in report.all().filter(|cluster| says_something(cluster)) {
        text.push_str(&format!("\n### {}\n\n", escaped(&cluster.title)));
        cluster.rolls.iter().for_each(|roll| text.push_str(&format!("- {}\n", escaped(&rolled(roll)))));
        for held in &cluster.held {
            text.push_str(&format!("- **held** {} `{}`: {}\n", held.kind, held.name, escaped(&held.reason)));
        }
        cluster.warnings.iter().for_each(|warning| text.push_str(&format!("- warning: {}\n", escaped(warning))));
        cluster.errors.iter().for_each(|error| text.push_str(&format!("- **error** {}\n", escaped(error))));
        if cluster.steps.is_empty() {
            continue;
        }
        text.push_str("\n| | object | field | from | to | because |\n|---|---|---|---|---|---|\n");
        for step in &cluster.steps {
            let object = format!("{} `{}`", step.kind, step.name);
            if step.changes.is_empty() {
                text.push_str(&format!("| {} | {object} | | | | {} |\n", step.action, escaped(&step.reason)));
            }
            for change in &step.changes {
                let because = escaped(&explained(change));
                for Place { path, from, to } in places(change) {
                    let (from, to) = (cell(from), cell(to));
                    text.push_str(&format!("| {} | {object} | `{path}` | {from} | {to} | {because} |\n", step.action));
                }
            }
        }
    }
    report.incomplete.iter().for_each(|reason| text.push_str(&format!("\nnot complete: {}\n", escaped(reason))));
    text
}

fn says_something(cluster: &ClusterReport) -> bool {
    let ClusterReport { steps, rolls, held, errors, warnings, .. } = cluster;
    !(steps.is_empty() && rolls.is_empty() && held.is_empty() && errors.is_empty() && warnings.is_empty())
}

fn headline(step: &StepReport) -> String {
    let replaces = step.replaces.as_ref().map(|old| format!(" in place of {old}")).unwrap_or_default();
    let reason = if step.changes.is_empty() { format!(": {}", step.reason) } else { String::new() };
    format!("{} {}{replaces}{reason}", step.kind, step.name)
}

/// A place in a changed value.
struct Place<'a> {
    path: String,
    from: &'a Value,
    to: &'a Value,
}

/// Where in a changed value the differences are: of a list of twenty files people want to see the one that differs.
fn places(change: &ChangeReport) -> Vec<Place<'_>> {
    let mut places = Vec::new();
    add_places(&change.path, &change.from, &change.to, &mut places);
    places
}

fn add_places<'a>(path: &str, from: &'a Value, to: &'a Value, places: &mut Vec<Place<'a>>) {
    match (from, to) {
        (Value::Object(before), Value::Object(after)) => {
            let new = after.keys().filter(|name| !before.contains_key(*name));
            for name in before.keys().chain(new) {
                let (from, to) = (before.get(name).unwrap_or(&Value::Null), after.get(name).unwrap_or(&Value::Null));
                if from != to {
                    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
                    let path = if is_plain { format!("{path}.{name}") } else { format!("{path}[{name}]") };
                    add_places(&path, from, to, places);
                }
            }
        }
        (Value::Array(before), Value::Array(after)) => add_places_of_lists(path, before, after, places),
        _ => places.push(Place { path: path.to_owned(), from, to }),
    }
}

/// What lies between the elements that both lists begin and end with.
fn add_places_of_lists<'a>(path: &str, before: &'a [Value], after: &'a [Value], places: &mut Vec<Place<'a>>) {
    let start = before.iter().zip(after).take_while(|(from, to)| from == to).count();
    let (before, after) = (&before[start..], &after[start..]);
    let end = before.iter().rev().zip(after.iter().rev()).take_while(|(from, to)| from == to).count();
    let (before, after) = (&before[..before.len() - end], &after[..after.len() - end]);
    let at = |i: usize| format!("{path}[{}]", start + i);
    if before.len() == after.len() {
        for (i, (from, to)) in before.iter().zip(after).enumerate().filter(|(_, (from, to))| from != to) {
            add_places(&at(i), from, to, places);
        }
        return;
    }
    let gone = before.iter().enumerate().map(|(i, from)| Place { path: at(i), from, to: &Value::Null });
    places.extend(gone);
    places.extend(after.iter().enumerate().map(|(i, to)| Place { path: at(i), from: &Value::Null, to }));
}

/// Where a value comes from, and came from before.
fn explained(change: &ChangeReport) -> String {
    let before = change.before.as_ref().map(|before| format!("; before: {before}")).unwrap_or_default();
    format!("{}{before}", change.because)
}

/// What becomes of the machines of one object.
fn rolled(roll: &RollReport) -> String {
    let pace = match (roll.machines.replaced, roll.at_a_time) {
        (Some(0), _) | (_, None) => String::new(),
        (_, Some(pace)) => format!(", {pace} at a time"),
    };
    let certainty = if roll.certainty == "provider" { ", if the provider decides so" } else { "" };
    let machines = numbers(&roll.machines).join(", ");
    format!("machines of {} {}: {machines}{pace}{certainty}, since {}", roll.kind, roll.name, roll.reason)
}

/// The numbers of machines that are not zero: `4 replaced`, `2 removed`.
fn numbers(machines: &Machines) -> Vec<String> {
    let Machines { replaced, removed, added, outdated_until_deleted, at_least } = machines;
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

fn summary(report: &Report) -> String {
    let summary = &report.summary;
    let failed = report.clusters.iter().filter(|cluster| !cluster.errors.is_empty()).count();
    let clusters = counted(summary.clusters, "Cluster");
    let of_classes = samples::summary(report);
    let planned = match summary.changed {
        0 if summary.clusters == 0 && !of_classes.is_empty() => of_classes.join("; "),
        0 if failed == 0 => format!("{clusters}, nothing changes"),
        0 => clusters,
        changed => format!("{changed} of {clusters} changed: {}", sums(summary)),
    };
    let planned = match summary.clusters {
        0 => planned,
        _ => [vec![planned], of_classes].concat().join("; "),
    };
    let failed = if failed == 0 { String::new() } else { format!("; {failed} cannot be planned") };
    let denied = if report.errors.is_empty() { "" } else { "; the change is denied" };
    planned + &failed + denied
}

/// `4 machines replaced, 2 removed, 1 object deleted`.
fn sums(summary: &Summary) -> String {
    let mut numbers = numbers(&summary.machines);
    if summary.machines.replaced == Some(0) {
        numbers.insert(0, "0 replaced".to_owned());
    }
    let machines = numbers.join(", ");
    format!("machines: {machines}; {} deleted", counted(summary.deleted_objects, "object"))
}

pub(super) fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A value on one line.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => "nothing".to_owned(),
        other => other.to_string(),
    };
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        value => format!("`{}`", shown(value).replace('`', "'").replace('|', "\\|")),
    }
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}
