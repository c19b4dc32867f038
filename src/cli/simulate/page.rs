//! A simulation as one page without other files: the fleet first, and the charts of a group of Clusters when it is
//! opened.
//!
//! Apart from its style and its script, the page is well-formed XML.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::chart::{self, Scale};
use super::palette::{Palette, escaped, states};
use super::report::{SimulationReport, TimelineGroup, span};
use super::text::Durations;
use model::hub::ObjectKey;
use schema::field::{a_few, counted};
use simulation::timeline::ClusterTimeline;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Maximum number of classes that are named; the rest is counted.
const NAMED: usize = 5;

/// What a simulation is about.
pub(super) struct PageContext {
    pub durations: Durations,
    /// The time at which it begins.
    pub start: Timestamp,
    /// The classes of its Clusters.
    pub classes: BTreeSet<ObjectKey>,
}

/// The whole page.
pub(super) fn page(report: &SimulationReport<'_>, context: &PageContext) -> String {
    let title = title(report);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>Rollout: {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{title}</h1>\n{}{}{}</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        origin(context),
        machines(report),
        clusters(report)
    )
}

/// The classes, the time and the durations of a simulation.
fn origin(context: &PageContext) -> String {
    let PageContext { durations, start, classes } = context;
    let names: Vec<String> = classes.iter().map(|class| escaped(&class.to_string())).collect();
    let title = if names.len() == 1 { "ClusterClass" } else { "ClusterClasses" };
    let durations = match durations {
        Durations::Default => "durations are defaults; --timings sets those of an environment",
        Durations::File => "durations of the file of --timings",
    };
    let classes = if names.is_empty() { String::new() } else { format!("{title} {}, ", a_few(&names, NAMED)) };
    format!("<div class=\"origin\">{classes}from {start:.0}; {durations}</div>\n")
}

fn title(report: &SimulationReport<'_>) -> String {
    let clusters = counted(report.timeline.clusters.len(), "Cluster");
    match report.has_nothing_to_do() {
        true => format!("{clusters}: nothing is left to do"),
        false => format!("{clusters} in {}", span(report.seconds)),
    }
}

/// The machines of all Clusters together.
fn machines(report: &SimulationReport<'_>) -> String {
    let peak = report.timeline.peak_machines;
    let stuck = match report.stuck {
        0 => String::new(),
        stuck => format!(", <strong class=\"bad\">{stuck} stuck</strong>"),
    };
    let timelines = report.groups.iter().map(|group| (group.timeline, group.clusters.len()));
    let count = chart::count(timelines, peak, &of_fleet(report));
    format!("<p>at most {} at once{stuck}</p>\n<h2>Machines</h2>\n{count}", counted(peak, "machine"))
}

/// The scale of what is about all Clusters.
fn of_fleet(report: &SimulationReport<'_>) -> Scale {
    Scale::new(report.seconds, report.stuck > 0)
}

/// The list of groups of Clusters.
fn clusters(report: &SimulationReport<'_>) -> String {
    let palette = Palette::for_report(report);
    let search =
        "<p><input id=\"search\" type=\"search\" placeholder=\"Find a Cluster\" aria-label=\"Find a Cluster\"/></p>\n";
    let search = if report.timeline.clusters.len() > 1 { search } else { "" };
    let groups: String = report.groups.iter().map(|group| of_group(group, report, &palette)).collect();
    format!(
        "<h2>Clusters</h2>\n<p class=\"legend\">\n{}</p>\n<p class=\"legend\">\n{}</p>\n{search}{groups}",
        states(report),
        palette.legend(report)
    )
}

fn of_group(group: &TimelineGroup<'_>, report: &SimulationReport<'_>, palette: &Palette) -> String {
    let names: Vec<String> = group.clusters.iter().map(|key| escaped(&key.to_string())).collect();
    let title = match &*names {
        [first, _, ..] => format!("{first} <span class=\"more\">and {} more</span>", names.len() - 1),
        _ => names.concat(),
    };
    let bar = chart::bar(group.timeline, group.reason.is_some(), &of_fleet(report));
    let open = if report.groups.len() == 1 { " open=\"\"" } else { "" };
    let stuck = if group.reason.is_some() { " failed" } else { "" };
    format!(
        "<details{open} class=\"group{stuck}\" data-names=\"{}\">\n\
         <summary><span class=\"name\">{title}</span> <span class=\"facts\">{}</span>\n{bar}</summary>\n\
         {}{}</details>\n",
        names.join(" "),
        facts(group),
        explained(group, &names),
        charts(group, report, palette)
    )
}

/// How long a group takes, and how many machines it has.
fn facts(group: &TimelineGroup<'_>) -> String {
    let ClusterTimeline { last, events, peak_machines, .. } = group.timeline;
    let state = match group.reason {
        Some(_) => format!("<strong class=\"bad\">stuck</strong> after {}", span(*last)),
        None if group.timeline.is_gone => format!("deleted after {}", span(*last)),
        None if events.is_empty() => "nothing is left to do".to_owned(),
        None => span(*last),
    };
    let each = if group.clusters.len() > 1 { " each" } else { "" };
    format!("{state}, at most {}{each}", counted(*peak_machines, "machine"))
}

/// Why a group is stuck, and which Clusters it has.
fn explained(group: &TimelineGroup<'_>, names: &[String]) -> String {
    let mut text = String::new();
    if let Some(reason) = group.reason {
        text += &format!("<p class=\"bad\">{}</p>\n", escaped(&reason.to_string()));
    }
    if let Some(way) = group.way_out {
        text += &format!("<p>help: {}</p>\n", escaped(way));
    }
    if let [first, _, ..] = names {
        text += &format!("<p class=\"names\">{}</p>\n<p>The charts show {first}.</p>\n", names.join(", "));
    }
    text
}

/// The charts of the first Cluster of a group, over its own time; where nothing happens, over the time of all.
fn charts(group: &TimelineGroup<'_>, report: &SimulationReport<'_>, palette: &Palette) -> String {
    let timeline = group.timeline;
    let scale = match timeline.last {
        0 => of_fleet(report),
        last => Scale::new(last, group.reason.is_some()),
    };
    let machines = chart::machines(timeline, &scale, palette);
    // The chart at the top of the page is that of its only Cluster.
    let count = match report.timeline.clusters.len() {
        1 => String::new(),
        _ => chart::count([(timeline, 1)], timeline.peak_machines, &scale),
    };
    machines + &count
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use simulation::timeline::{HeldSpan, MachineSpan, Timeline, TimelineChange, TimelineEvent};

    /// A text that would be read as HTML.
    fn strange(what: &str) -> String {
        format!("\"'><i>{what}&")
    }

    #[test]
    fn names_versions_and_reasons_are_escaped_everywhere() {
        let machine = MachineSpan { owner: strange("owner"), version: strange("version"), ..MachineSpan::default() };
        let [kind, name, reason] = ["kind", "name", "reason"].map(strange);
        let held = HeldSpan { kind, name, reason, from: 0, until: Some(3) };
        let event = ["kind", "name", "what", "because"].map(strange);
        let [kind, name, what, because] = event;
        let timeline = ClusterTimeline {
            machines: [(strange("machine"), machine)].into(),
            holds: vec![held],
            events: vec![TimelineEvent { t: 3, kind, name, change: TimelineChange::Phase(what), because }],
            last: 3,
            ..ClusterTimeline::default()
        };
        let clusters =
            ["blue", "green"].map(|name| (ObjectKey::new(strange("space"), strange(name)), timeline.clone()));
        let timeline = Timeline::merge(clusters.into());
        let classes = [ObjectKey::new(strange("space"), strange("class"))].into();
        let context = PageContext { durations: Durations::Default, start: Timestamp::UNIX_EPOCH, classes };
        let page = page(&SimulationReport::from_timeline(&timeline, &BTreeMap::new(), false), &context);
        assert!(!page.contains("<i>") && !page.contains("&\""), "{page}");
        for what in ["space", "blue", "green", "class", "machine", "owner", "version", "kind", "name", "reason"] {
            assert!(page.contains(&format!("&quot;&#39;&gt;&lt;i&gt;{what}&amp;")), "{what}: {page}");
        }
    }
}
