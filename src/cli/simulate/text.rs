//! A simulation for people.

use super::report::{SimulationReport, StuckWait, TimelineGroup, span, waits_of};
use crate::cli::output::Text;
use schema::field::counted;
use simulation::timeline::{ClusterTimeline, TimelineChange, TimelineEvent};

/// How many Clusters of a group, and how many events, are shown without --all.
const NAMES: usize = 20;
const EVENTS: usize = 60;
/// How many waits are shown in the totals.
const WAITS: usize = 10;

/// The source of the durations of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durations {
    /// They fit no environment, and the report says so.
    Default,
    /// The file of --timings.
    File,
}

/// The report, which begins with the totals.
pub(super) fn text(report: &SimulationReport<'_>, all: bool, durations: Durations) -> Text {
    let mut text = Text::default();
    add_totals(&mut text, report);
    if report.groups.len() > 1 {
        add_waits(&mut text, "", &report.waits(), if all { usize::MAX } else { WAITS });
    }
    let has_events = |group: &&TimelineGroup<'_>| {
        group.reason.is_some() || !group.timeline.events.is_empty() || report.groups.len() > 1
    };
    report.groups.iter().filter(has_events).for_each(|group| add_group(&mut text, group, all));
    if durations == Durations::Default && !report.has_nothing_to_do() {
        text.line("");
        text.line("Durations are defaults; use --timings to set those of your environment.");
    }
    text
}

fn add_totals(text: &mut Text, report: &SimulationReport<'_>) {
    let clusters = report.timeline.clusters.len();
    let done = clusters - report.stuck;
    let counted_clusters = counted(clusters, "Cluster");
    if report.has_nothing_to_do() {
        return text.line(format_args!("{counted_clusters}: nothing is left to do"));
    }
    let machines = counted(report.timeline.peak_machines, "machine");
    text.line(format_args!("{counted_clusters} in {}, at most {machines} at once", span(report.seconds)));
    if report.stuck > 0 {
        text.line(format_args!("{} stuck, {done} complete", counted(report.stuck, "Cluster")));
    }
}

/// What waited for what, from when until when.
fn add_waits(text: &mut Text, indent: &str, waits: &[StuckWait<'_>], most: usize) {
    if !waits.is_empty() {
        if indent.is_empty() {
            text.line("");
        }
        text.line(format_args!("{indent}Waiting:"));
    }
    for wait in waits.iter().take(most) {
        let until = wait.span.until.map_or("the end".to_owned(), span);
        let of = if wait.clusters > 1 { format!(" of {}", counted(wait.clusters, "Cluster")) } else { String::new() };
        let names = if wait.clusters > 1 { String::new() } else { format!(" {}", wait.few_names()) };
        let (from, kind, reason) = (span(wait.span.from), &wait.span.kind, &wait.reason);
        text.line(format_args!("{indent}  {from:>9} to {until:<9} {kind}{names}{of}: {reason}"));
    }
    if let Some(more @ 1..) = waits.len().checked_sub(most) {
        text.line(format_args!("{indent}  … and {more} more (--all lists them)"));
    }
}

fn add_group(text: &mut Text, group: &TimelineGroup<'_>, all: bool) {
    let ClusterTimeline { peak_machines, last, .. } = group.timeline;
    let most = if all { usize::MAX } else { NAMES };
    let title = match &*group.clusters {
        [one] => format!("Cluster {one}"),
        many => format!("{} with the same timeline", counted(many.len(), "Cluster")),
    };
    let each = if group.clusters.len() > 1 { " each" } else { "" };
    let machines = counted(*peak_machines, "machine");
    text.line("");
    text.line(format_args!("{title}: {}, at most {machines} at once{each}", span(*last)));
    if let [first, _, ..] = &*group.clusters {
        let shown: Vec<String> = group.clusters.iter().take(most).map(ToString::to_string).collect();
        let more = match group.clusters.len().checked_sub(most) {
            Some(more @ 1..) => format!(" and {more} more (--all lists them)"),
            _ => String::new(),
        };
        text.line(format_args!("  {}{more}", shown.join(", ")));
        text.line(format_args!("  Names below are those of {first}."));
    }
    if let Some(reason) = group.reason {
        text.line(format_args!("  Stuck: {reason}"));
    }
    if let Some(way) = group.way_out {
        text.line(format_args!("  help: {way}"));
    }
    add_events(text, group.timeline, all);
    add_waits(text, "  ", &waits_of(group.timeline), most);
}

/// A line of the table of events.
struct TableRow {
    t: i64,
    subject: String,
    what: String,
}

fn add_events(text: &mut Text, timeline: &ClusterTimeline, all: bool) {
    let rows: Vec<TableRow> =
        if all { timeline.events.iter().map(TableRow::from_event).collect() } else { combined(timeline) };
    let shown = if all { rows.len() } else { EVENTS };
    let width = rows.iter().take(shown).map(|row| row.subject.chars().count()).max().unwrap_or_default().min(60);
    for TableRow { t, subject, what } in rows.iter().take(shown) {
        text.line(format_args!("  {:>9}  {subject:<width$}  {what}", span(*t)));
    }
    if let Some(more @ 1..) = rows.len().checked_sub(shown) {
        text.line(format_args!("  … and {more} more events (--all lists them)"));
    }
}

impl TableRow {
    fn from_event(entry: &TimelineEvent) -> Self {
        let TimelineEvent { t, kind, name, change, because } = entry;
        TableRow { t: *t, subject: format!("{kind} {name}"), what: with_reason(&change.to_string(), because) }
    }
}

fn with_reason(what: &str, because: &str) -> String {
    if because.is_empty() { what.to_owned() } else { format!("{what} ({because})") }
}

/// The events without waits, with machines counted: those of one owner to which the same happens at the same time are
/// one line, and phases on the way are left out.
fn combined(timeline: &ClusterTimeline) -> Vec<TableRow> {
    let mut rows: Vec<(TableRow, usize)> = Vec::new();
    for entry in timeline.events.iter().filter(|entry| entry.change != TimelineChange::Waits) {
        let Some(machine) = timeline.machines.get(&entry.name).filter(|_| entry.kind == "Machine") else {
            rows.push((TableRow::from_event(entry), 0));
            continue;
        };
        let word = match &entry.change {
            TimelineChange::Running => "running".to_owned(),
            change @ (TimelineChange::Created | TimelineChange::Failed | TimelineChange::Gone) => change.to_string(),
            _ => continue,
        };
        let of = if machine.is_control_plane { "the control plane" } else { &*machine.owner };
        let what = match &*entry.because {
            because if entry.change == TimelineChange::Gone && !because.is_empty() => with_reason(&word, because),
            _ => with_reason(&word, &machine.version),
        };
        let is_same = |(row, count): &&mut (TableRow, usize)| {
            *count > 0 && row.t == entry.t && row.subject == of && row.what == what
        };
        match rows.iter_mut().rev().take_while(|(row, _)| row.t == entry.t).find(is_same) {
            Some((_, count)) => *count += 1,
            None => rows.push((TableRow { t: entry.t, subject: of.to_owned(), what }, 1)),
        }
    }
    let titled = |(row, count): (TableRow, usize)| match count {
        0 => row,
        count => TableRow { subject: format!("{} of {}", counted(count, "machine"), row.subject), ..row },
    };
    rows.into_iter().map(titled).collect()
}
