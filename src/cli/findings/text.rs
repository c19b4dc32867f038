//! Findings for people, as rustc and cargo print them, and a line each for editors.

use std::collections::BTreeMap;

use annotate_snippets::{AnnotationKind, Element, Level as Title, Origin, Renderer, Snippet};

use super::{Finding, FindingObject, Place, RelatedObject, Report, SourceTexts};
use crate::cli::output::Text;
use schema::field::{Level, counted, plain};

/// The width of the lines of a file; messages are not cut.
const WIDTH: usize = 80;

/// Maximum number of other objects that a finding names; the rest is counted.
const NAMED: usize = 3;

/// Findings with their lines, then the verdicts.
pub(super) fn text<O>(report: &Report<'_, O>) -> Text {
    let mut text = Text::default();
    for group in groups(&report.findings, true) {
        text.rendered(&rendered(&group, report.texts));
        text.line("");
    }
    report.verdicts.iter().for_each(|line| text.line(line));
    text
}

/// One line for each finding: `file:line:column: severity[id]: object: path: message`.
pub(super) fn short<O>(report: &Report<'_, O>) -> Text {
    let mut text = Text::default();
    for Group { first, others, .. } in groups(&report.findings, false) {
        let also = if others.is_empty() { String::new() } else { format!(" (and {})", others_named(&others)) };
        text.line(format_args!("{}{also}", first.line()));
        if let Some(fix) = &first.fix {
            text.line(format_args!("  help: {fix}"));
        }
    }
    report.verdicts.iter().for_each(|line| text.line(line));
    text
}

/// Findings that are equal but for their object, such as those of many Clusters of a class, or but for their field, such as
/// those of all patches that select the same kind.
struct Group<'a> {
    first: &'a Finding,
    /// Those of other objects.
    others: Vec<&'a Finding>,
    /// Those of other fields of the same object.
    elsewhere: Vec<&'a Finding>,
}

fn groups(findings: &[Finding], merges_fields: bool) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut known = BTreeMap::new();
    for finding in findings {
        let key = (finding.id, &finding.message, &finding.named_path, &finding.object.kind, finding.severity);
        let position = *known.entry(key).or_insert(groups.len());
        match groups.get_mut(position) {
            Some(group) => group.others.push(finding),
            None => groups.push(Group { first: finding, others: Vec::new(), elsewhere: Vec::new() }),
        }
    }
    if !merges_fields {
        return groups;
    }
    // Other fields of the same objects.
    let mut merged: Vec<Group<'_>> = Vec::new();
    let mut known = BTreeMap::new();
    for group in groups {
        let Finding { id, message, object, severity, .. } = group.first;
        let objects: Vec<&FindingObject> = group.others.iter().map(|other| &other.object).collect();
        let position = *known.entry((*id, message, *severity, object, objects)).or_insert(merged.len());
        match merged.get_mut(position) {
            Some(first) => first.elsewhere.push(group.first),
            None => merged.push(group),
        }
    }
    merged
}

/// `Cluster prod/b, Cluster prod/c and 198 others`
fn others_named(others: &[&Finding]) -> String {
    let names: Vec<String> = others.iter().take(NAMED).map(|other| other.object.title()).collect();
    match others.len() - names.len() {
        0 => names.join(", "),
        more => format!("{} and {}", names.join(", "), counted(more, "other")),
    }
}

fn rendered(group: &Group<'_>, texts: &SourceTexts<'_>) -> String {
    let Group { first, others, elsewhere } = group;
    let level = match first.severity {
        Level::Error => Title::ERROR,
        Level::Warning => Title::WARNING,
    };
    let title = level.primary_title(plain(&first.message).into_owned()).id(first.id);
    let mut elements: Vec<Element<'_>> = first.place.iter().map(|place| shown(place, texts)).collect();
    let field = match first.named_path.is_empty() {
        true => String::new(),
        false => format!("{} of ", first.named_path),
    };
    let note = |text: String| Title::NOTE.message(plain(&text).into_owned());
    elements.push(note(format!("{field}{}", first.object.title())).into());
    for other in elsewhere.iter().take(NAMED) {
        let place = other.place.as_ref().map(|place| format!(" ({}:{})", place.file, place.line));
        elements.push(note(format!("and {}{}", other.named_path, place.unwrap_or_default())).into());
    }
    if let Some(more @ 1..) = elsewhere.len().checked_sub(NAMED) {
        elements.push(note(format!("and {}", counted(more, "other field"))).into());
    }
    if !others.is_empty() {
        elements.push(note(format!("the same for {}", others_named(others))).into());
    }
    let (objects, fields): (Vec<_>, Vec<_>) = first.related.iter().partition(|related| related.path.is_empty());
    let place = |related: &RelatedObject| {
        related.place.as_ref().map(|place| format!(" ({}:{})", place.file, place.line)).unwrap_or_default()
    };
    for related in objects.into_iter().take(NAMED) {
        elements.push(note(format!("for {}{}", related.object.title(), place(related))).into());
    }
    for related in fields.into_iter().take(NAMED) {
        let RelatedObject { object, named_path, .. } = related;
        elements.push(note(format!("depends on {named_path} of {}{}", object.title(), place(related))).into());
    }
    if let Some(more @ 1..) = first.related_count.and_then(|count| count.checked_sub(NAMED)) {
        elements.push(note(format!("for {more} more")).into());
    }
    if let Some(fix) = &first.fix {
        elements.push(Title::HELP.message(plain(fix).into_owned()).into());
    }
    Renderer::styled().term_width(WIDTH).render(&[title.elements(elements)])
}

/// The line of a place with a mark, or the place alone.
fn shown<'a>(place: &Place, texts: &SourceTexts<'_>) -> Element<'a> {
    let Place { file, line, column, end_column, .. } = place;
    let path = plain(file).into_owned();
    let (from, to) = (column.saturating_sub(1), end_column.saturating_sub(1));
    let Some(text) = texts.line(place) else {
        return Origin::path(path).line(*line).char_column(*column).into();
    };
    let length = to.saturating_sub(from);
    let part = |skip: usize, take: usize| plain(&text.chars().skip(skip).take(take).collect::<String>()).into_owned();
    let (before, marked, after) = (part(0, from), part(from, length), part(from + length, usize::MAX));
    let span = before.len()..before.len() + marked.len();
    Snippet::source(format!("{before}{marked}{after}"))
        .line_start(*line)
        .path(path)
        .annotation(AnnotationKind::Primary.span(span))
        .into()
}
