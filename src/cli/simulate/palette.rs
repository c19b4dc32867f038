//! What all parts of the page share: a color for each version, and texts that are safe in HTML.

use std::collections::BTreeMap;

use super::report::Report;

/// The number of colors of versions; more versions begin again with the first one.
const COLORS: usize = 8;

/// Which color a version has on the whole page.
pub(super) struct Palette {
    versions: BTreeMap<(u64, u64, u64, String), usize>,
}

impl Palette {
    pub(super) fn of(report: &Report<'_>) -> Self {
        let machines = report.groups.iter().flat_map(|group| group.timeline.machines.values());
        let mut versions: BTreeMap<_, usize> = machines.map(|machine| (order(&machine.version), 0)).collect();
        versions.values_mut().enumerate().for_each(|(i, color)| *color = i % COLORS);
        Palette { versions }
    }

    /// The class of the bars of a version.
    pub(super) fn class(&self, version: &str) -> String {
        format!("v{}", self.versions.get(&order(version)).copied().unwrap_or_default())
    }

    pub(super) fn legend(&self) -> String {
        let mut legend = String::new();
        for ((.., version), color) in &self.versions {
            let version = if version.is_empty() { "no version" } else { version };
            legend += &swatch(&format!("v{color}"), &escaped(version));
        }
        legend + &swatch("starting", "not running yet") + &swatch("wait", "waiting")
    }
}

/// The numbers of a version, so that v1.10.0 comes after v1.9.0, and its text.
fn order(version: &str) -> (u64, u64, u64, String) {
    let mut numbers = version.trim_start_matches('v').split(['.', '-', '+']).map(|part| part.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next(), version.to_owned())
}

pub(super) fn swatch(class: &str, text: &str) -> String {
    format!(
        "<span class=\"key\"><svg width=\"14\" height=\"14\" aria-hidden=\"true\"><rect class=\"{class}\" width=\"14\" height=\"14\"/></svg> {text}</span>\n"
    )
}

/// A text in which nothing is read as HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
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
    }

    #[test]
    fn versions_are_in_the_order_of_their_numbers() {
        assert!(
            order("v1.9.0") < order("v1.10.0") && order("v1.10.0") < order("v1.10.1") && order("") < order("v1.0.0")
        );
    }
}
