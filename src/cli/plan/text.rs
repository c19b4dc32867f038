//! What `plan` says, for people.

use serde_json::Value;

use super::report::{ChangeReport, ClusterReport, Report, RollReport, StepReport};
use super::samples;

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
                let because = &change.because;
                for Place { path, from, to } in places(change) {
                    text.push_str(&format!("           {path}: {} → {}   ({because})\n", shown(from), shown(to)));
                }
            }
        }
        cluster.rolls.iter().for_each(|roll| text.push_str(&format!("  rolls  {}\n", rolled(roll))));
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
        cluster.rolls.iter().for_each(|roll| text.push_str(&format!("- **rolls** {}\n", escaped(&rolled(roll)))));
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
                let because = escaped(&change.because);
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

fn rolled(roll: &RollReport) -> String {
    let machines = match roll.machines {
        Some(machines) => counted(usize::try_from(machines).unwrap_or_default(), "machine"),
        None => "all machines, however many there are".to_owned(),
    };
    let pace = roll.at_a_time.map(|pace| format!(", {pace} at a time")).unwrap_or_default();
    let certainty = match roll.certainty {
        "provider" => ", if the provider decides so",
        _ => "",
    };
    format!("{} {}: {machines}{pace}{certainty}, since {}", roll.kind, roll.name, roll.reason)
}

fn summary(report: &Report) -> String {
    let real = || report.clusters.iter().filter(|cluster| !cluster.sample);
    let changed = real().filter(|cluster| !cluster.steps.is_empty()).count();
    let unknown = real().flat_map(|cluster| &cluster.rolls).filter(|roll| roll.machines.is_none()).count();
    let more = if unknown == 0 { String::new() } else { format!(" and those of {unknown} sets without a number") };
    let summary = &report.summary;
    let failed = report.clusters.iter().filter(|cluster| !cluster.errors.is_empty()).count();
    let clusters = counted(summary.clusters, "Cluster");
    let of_classes = samples::summary(report);
    let planned = match changed {
        0 if summary.clusters == 0 && !of_classes.is_empty() => of_classes.join("; "),
        0 if failed == 0 => format!("{clusters}, nothing changes"),
        0 => clusters,
        _ => format!(
            "{changed} of {clusters} changed: {}{more} replaced, {} deleted",
            counted(usize::try_from(summary.rolled_machines).unwrap_or_default(), "machine"),
            counted(summary.deleted_objects, "object")
        ),
    };
    let planned = match summary.clusters {
        0 => planned,
        _ => [vec![planned], of_classes].concat().join("; "),
    };
    let failed = if failed == 0 { String::new() } else { format!("; {failed} cannot be planned") };
    let denied = if report.errors.is_empty() { "" } else { "; the change is denied" };
    planned + &failed + denied
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
