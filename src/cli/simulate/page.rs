//! A simulation as one page without other files: the fleet first, and the charts of a group of Clusters when it is opened.

use super::chart;
use super::palette::{self, Palette, escaped};
use super::report::{Group, Report, span};
use crate::field::counted;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The whole page.
pub(super) fn page(report: &Report<'_>) -> String {
    let palette = Palette::of(report);
    let clusters = report.timeline.clusters.len();
    let stuck = match report.stuck {
        0 => String::new(),
        stuck => format!(", <strong class=\"bad\">{stuck} stuck</strong>"),
    };
    let title = format!("{} in {}", counted(clusters, "Cluster"), span(report.seconds));
    let totals = format!("at most {} at once{stuck}", counted(report.timeline.peak_machines, "machine"));
    let count = chart::count(report.groups.iter().map(|group| (group.timeline, group.clusters.len())), report.seconds);
    let groups: String = report.groups.iter().map(|group| of_group(group, report, &palette)).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Rollout: {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{title}</h1>\n<p>{totals}</p>\n<p class=\"legend\">\n{}</p>\n\
         <h2>Machines</h2>\n{count}\
         <h2>Clusters</h2>\n<p class=\"legend\">\n{}</p>\n<p class=\"search\"><input id=\"search\" type=\"search\" placeholder=\"Find a Cluster\" aria-label=\"Find a Cluster\"></p>\n\
         {groups}</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        palette.legend(),
        palette::swatch("done", "complete")
            + &palette::swatch("stuck", "stuck")
            + &palette::swatch("wait", "something waits")
    )
}

fn of_group(group: &Group<'_>, report: &Report<'_>, palette: &Palette) -> String {
    let names: Vec<String> = group.clusters.iter().map(|key| escaped(&key.to_string())).collect();
    let first = names.first().cloned().unwrap_or_default();
    let title = match names.len() {
        1 => first.clone(),
        many => format!("{first} <span class=\"more\">and {} more</span>", many - 1),
    };
    let (timeline, is_stuck) = (group.timeline, group.reason.is_some());
    let state = if is_stuck { "<strong class=\"bad\">stuck</strong>, " } else { "" };
    let each = if names.len() > 1 { " each" } else { "" };
    let facts = format!("{state}{}, at most {}{each}", span(timeline.last), counted(timeline.peak_machines, "machine"));
    let bar = chart::bar(timeline, is_stuck, report.seconds);
    let mut content = String::new();
    if let Some(reason) = group.reason {
        content += &format!("<p class=\"bad\">{}</p>\n", escaped(reason));
    }
    if let Some(way) = group.way_out {
        content += &format!("<p>Way out: {}</p>\n", escaped(way));
    }
    if names.len() > 1 {
        content += &format!("<p class=\"names\">{}</p>\n<p>The charts show {first}.</p>\n", names.join(", "));
    }
    content += &chart::machines(timeline, report.seconds, palette);
    content += &chart::count([(timeline, 1)], report.seconds);
    let open = if report.groups.len() == 1 { " open" } else { "" };
    format!(
        "<details{open} class=\"group\" data-names=\"{}\">\n<summary><span class=\"name\">{title}</span> <span class=\"facts\">{facts}</span>\n{bar}</summary>\n{content}</details>\n",
        names.join(" ")
    )
}
