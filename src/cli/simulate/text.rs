//! A simulation for people.

use super::report::{Group, Report, Wait, span, waits_of};
use crate::field::counted;
use crate::simulation::timeline::{ClusterTimeline, Entry};

/// How many Clusters of a group, and how many events, are shown without --all.
const NAMES: usize = 20;
const EVENTS: usize = 60;
/// How many waits are shown in the totals.
const WAITS: usize = 10;

/// The report, which begins with the totals. It says where times are defaults, which fit no environment.
pub(super) fn plain(report: &Report<'_>, all: bool, has_default_times: bool) -> String {
    let mut text = totals(report);
    if report.groups.len() > 1 {
        text += &waits(&report.waits(), if all { usize::MAX } else { WAITS });
    }
    let has_events =
        |group: &&Group<'_>| group.reason.is_some() || !group.timeline.events.is_empty() || report.groups.len() > 1;
    for group in report.groups.iter().filter(has_events) {
        text += &of_group(group, all);
    }
    if has_default_times && !report.has_nothing_to_do() {
        text += "\nDurations are defaults; use --timings to set those of your environment.\n";
    }
    text
}

fn totals(report: &Report<'_>) -> String {
    let clusters = report.timeline.clusters.len();
    let done = clusters - report.stuck;
    if report.has_nothing_to_do() {
        return format!("{}: nothing is left to do\n", counted(clusters, "Cluster"));
    }
    let mut text = format!(
        "{} in {}, at most {} at once",
        counted(clusters, "Cluster"),
        span(report.seconds),
        counted(report.timeline.peak_machines, "machine")
    );
    text += &match (report.stuck, done) {
        (0, _) => "\n".to_owned(),
        (stuck, _) => format!("\n{} stuck, {done} complete\n", counted(stuck, "Cluster")),
    };
    text
}

/// What waited for what, from when until when.
fn waits(waits: &[Wait<'_>], most: usize) -> String {
    let mut text = String::new();
    if !waits.is_empty() {
        text += "\nWaiting:\n";
    }
    for wait in waits.iter().take(most) {
        let until = wait.span.until.map_or("the end".to_owned(), span);
        let of = if wait.clusters > 1 { format!(" of {}", counted(wait.clusters, "Cluster")) } else { String::new() };
        let names = if wait.clusters > 1 { String::new() } else { format!(" {}", wait.few_names()) };
        let kind = &wait.span.kind;
        text += &format!("  {:>9} to {until:<9} {kind}{names}{of}: {}\n", span(wait.span.from), wait.reason);
    }
    if let Some(more @ 1..) = waits.len().checked_sub(most) {
        text += &format!("  … and {more} more (--all lists them)\n");
    }
    text
}

fn of_group(group: &Group<'_>, all: bool) -> String {
    let ClusterTimeline { peak_machines, last, .. } = group.timeline;
    let most = if all { usize::MAX } else { NAMES };
    let (title, example) = match &*group.clusters {
        [one] => (format!("Cluster {one}"), String::new()),
        many => {
            let shown: Vec<String> = many.iter().take(most).map(ToString::to_string).collect();
            let more = match many.len().checked_sub(most) {
                Some(more @ 1..) => format!(" and {more} more (--all lists them)"),
                _ => String::new(),
            };
            let first = many.first().map(ToString::to_string).unwrap_or_default();
            (
                format!("{} with the same timeline", counted(many.len(), "Cluster")),
                format!("  {}{more}\n  Names below are those of {first}.\n", shown.join(", ")),
            )
        }
    };
    let each = if group.clusters.len() > 1 { " each" } else { "" };
    let machines = counted(*peak_machines, "machine");
    let mut text = format!("\n{title}: {}, at most {machines} at once{each}\n{example}", span(*last));
    if let Some(reason) = group.reason {
        text += &format!("  Stuck: {reason}\n");
    }
    if let Some(way) = group.way_out {
        text += &format!("  Way out: {way}\n");
    }
    text += &events(group.timeline, all);
    text += &indented(&waits(&waits_of(group.timeline), most));
    text
}

fn indented(text: &str) -> String {
    text.lines().filter(|line| !line.is_empty()).map(|line| format!("  {line}\n")).collect()
}

/// A line of the table of events.
struct Row {
    t: i64,
    subject: String,
    what: String,
}

fn events(timeline: &ClusterTimeline, all: bool) -> String {
    let rows: Vec<Row> = if all { timeline.events.iter().map(Row::of).collect() } else { combined(timeline) };
    let shown = if all { rows.len() } else { EVENTS };
    let width = rows.iter().take(shown).map(|row| row.subject.chars().count()).max().unwrap_or_default().min(60);
    let mut text = String::new();
    for Row { t, subject, what } in rows.iter().take(shown) {
        text += &format!("  {:>9}  {subject:<width$}  {what}\n", span(*t));
    }
    if let Some(more @ 1..) = rows.len().checked_sub(shown) {
        text += &format!("  … and {more} more events (--all lists them)\n");
    }
    text
}

impl Row {
    fn of(entry: &Entry) -> Self {
        let Entry { t, kind, name, what, because } = entry;
        Row { t: *t, subject: format!("{kind} {name}"), what: with_reason(what, because) }
    }
}

fn with_reason(what: &str, because: &str) -> String {
    if because.is_empty() { what.to_owned() } else { format!("{what} ({because})") }
}

/// The events without waits, with machines counted: those of one owner to which the same happens at the same time are one line, and
/// phases on the way are left out.
fn combined(timeline: &ClusterTimeline) -> Vec<Row> {
    let mut rows: Vec<(Row, usize)> = Vec::new();
    for entry in timeline.events.iter().filter(|entry| entry.what != "waits") {
        let Some(machine) = timeline.machines.get(&entry.name).filter(|_| entry.kind == "Machine") else {
            rows.push((Row::of(entry), 0));
            continue;
        };
        if !["created", "Running", "Failed", "gone"].contains(&&*entry.what) {
            continue;
        }
        let of = if machine.is_control_plane { "the control plane" } else { &*machine.owner };
        let word = if entry.what == "Running" { "running" } else { &*entry.what };
        let what = match &*entry.because {
            because if entry.what == "gone" && !because.is_empty() => with_reason(word, because),
            _ => with_reason(word, &machine.version),
        };
        let is_same =
            |(row, count): &&mut (Row, usize)| *count > 0 && row.t == entry.t && row.subject == of && row.what == what;
        match rows.iter_mut().rev().take_while(|(row, _)| row.t == entry.t).find(is_same) {
            Some((_, count)) => *count += 1,
            None => rows.push((Row { t: entry.t, subject: of.to_owned(), what }, 1)),
        }
    }
    let titled = |(row, count): (Row, usize)| match count {
        0 => row,
        count => Row { subject: format!("{} of {}", counted(count, "machine"), row.subject), ..row },
    };
    rows.into_iter().map(titled).collect()
}
