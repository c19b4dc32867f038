//! What all parts of the page share: a color for each version, and texts that are safe in HTML.

use std::collections::{BTreeMap, BTreeSet};

use super::report::{SimulationReport, waits_of};
use simulation::timeline::MachineSpan;

/// The number of colors of versions; more versions begin again with the first one.
const COLORS: usize = 8;
/// The size of a square of a legend in pixels.
const SQUARE: usize = 14;

/// The color of each version on the page.
pub(super) struct Palette {
    versions: BTreeMap<(u64, u64, u64, String), usize>,
}

impl Palette {
    pub(super) fn for_report(report: &SimulationReport<'_>) -> Self {
        let mut versions: BTreeMap<_, usize> = machines(report).map(|machine| (order(&machine.version), 0)).collect();
        versions.values_mut().enumerate().for_each(|(i, color)| *color = i % COLORS);
        Palette { versions }
    }

    /// The class of the bars of a version.
    pub(super) fn class(&self, version: &str) -> String {
        format!("v{}", self.versions.get(&order(version)).copied().unwrap_or_default())
    }

    /// What the colors in the charts of machines mean.
    pub(super) fn legend(&self, report: &SimulationReport<'_>) -> String {
        let mut legend = String::new();
        for ((.., version), color) in &self.versions {
            let version = if version.is_empty() { "no version" } else { version };
            legend += &swatch(&[format!("v{color}")], &escaped(version));
        }
        let starting = machines(report).filter(|machine| starts(machine));
        let starting: BTreeSet<String> =
            starting.map(|machine| format!("{} starting", self.class(&machine.version))).collect();
        if !starting.is_empty() {
            legend += &swatch(&starting.into_iter().collect::<Vec<_>>(), "not running yet");
        }
        legend
    }
}

fn machines<'a>(report: &'a SimulationReport<'_>) -> impl Iterator<Item = &'a MachineSpan> {
    report.groups.iter().flat_map(|group| group.timeline.machines.values())
}

/// Whether a machine exists before it runs.
fn starts(machine: &MachineSpan) -> bool {
    machine.running.is_none_or(|running| machine.made.unwrap_or(0) < running)
}

/// What the colors in the list of Clusters mean.
pub(super) fn states(report: &SimulationReport<'_>) -> String {
    let waits = report.groups.iter().any(|group| !waits_of(group.timeline).is_empty());
    let known = [
        (report.stuck < report.timeline.clusters.len(), "done", "complete"),
        (report.stuck > 0, "stuck", "stuck"),
        (waits, "wait", "waiting"),
    ];
    let used = known.into_iter().filter(|(is_used, ..)| *is_used);
    used.map(|(_, class, text)| swatch(&[class.to_owned()], text)).collect()
}

/// The numbers of a version, so that v1.10.0 comes after v1.9.0, and its text.
fn order(version: &str) -> (u64, u64, u64, String) {
    let mut numbers = version.trim_start_matches('v').split(['.', '-', '+']).map(|part| part.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next(), version.to_owned())
}

/// A text with a square of each class: a class has one color, here and in charts.
fn swatch(classes: &[String], text: &str) -> String {
    let square = |(i, class): (usize, &String)| {
        format!("<rect class=\"{class}\" x=\"{}\" width=\"{SQUARE}\" height=\"{SQUARE}\"/>", i * SQUARE)
    };
    let squares: String = classes.iter().enumerate().map(square).collect();
    let width = classes.len() * SQUARE;
    format!(
        "<span class=\"key\"><svg width=\"{width}\" height=\"{SQUARE}\" aria-hidden=\"true\">{squares}</svg> \
         {text}</span>\n"
    )
}

/// A text in which nothing is read as HTML, and without control characters, which XML does not allow.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped() {
        assert_eq!(escaped(r#"<a href="x">&'"#), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
        assert_eq!(escaped("a\u{1b}b\nc"), "a b\nc");
    }

    #[test]
    fn versions_are_in_the_order_of_their_numbers() {
        assert!(
            order("v1.9.0") < order("v1.10.0") && order("v1.10.0") < order("v1.10.1") && order("") < order("v1.0.0")
        );
    }
}
