//! The output of `plan` as a comment on a merge request. Its length is limited for any number of Clusters (DEC-48).

use super::phrases::{self, MESSAGES, NAMED, StepPhrase};
use super::values::{DiffLine, ValueDifference, difference};
use crate::cli::markdown;
use engine::comparison::changed_values::{ChangedValue, places};
use engine::comparison::cluster_report::ChangeReport;
use engine::comparison::groups::ChangeGroup;
use engine::comparison::held_edit::HeldEdit;
use engine::comparison::report::ComparisonReport;
use schema::field::counted;

/// The longest comment, in bytes: GitHub and GitLab take a little more.
const LONGEST: usize = 60_000;
/// What the table of groups may take of it.
const TABLE: usize = 20_000;
/// What the details of one group may take of it.
const DETAILS: usize = 16_000;
/// What is kept for saying what is left out.
const REST: usize = 600;
/// The longest message.
const MESSAGE: usize = 400;
/// How many lines of a value are shown.
const LINES: usize = 30;

/// A comment: totals, a table of the groups, then the details of each, as far as they fit.
pub(super) fn comment(report: &ComparisonReport) -> String {
    let mut text = format!("**{}**\n", markdown::text(&phrases::summary(report)));
    add_messages(&mut text, "denied: ", &report.errors);
    add_messages(&mut text, "will be held: ", &report.held_edits.iter().map(HeldEdit::text).collect::<Vec<_>>());
    let groups: Vec<&ChangeGroup> = report.all().filter(|group| group.has_content()).collect();
    if groups.len() > 1 {
        add_table(&mut text, &groups);
    }
    let mut shown = 0;
    let mut end = String::new();
    add_messages(&mut end, "warning: ", &report.warnings);
    add_messages(&mut end, "not complete: ", &report.incomplete);
    for group in &groups {
        let left = LONGEST.saturating_sub(text.len() + end.len() + REST);
        let Some(details) = details(group, groups.len() == 1, left.min(DETAILS)) else { break };
        text.push_str(&details);
        shown += 1;
    }
    if let Some(rest) = groups.get(shown..).filter(|rest| !rest.is_empty()) {
        let clusters: usize = rest.iter().map(|group| group.clusters.len()).sum();
        let left_out = format!("{} with {}", counted_groups(rest.len()), counted(clusters, "Cluster"));
        text.push_str(&format!("\nThe details of {left_out} are left out; `plan` without `-o markdown` has them.\n"));
    }
    text + &end
}

fn counted_groups(number: usize) -> String {
    counted(number, "group")
}

fn add_messages(text: &mut String, start: &str, messages: &[String]) {
    for message in messages.iter().take(MESSAGES) {
        text.push_str(&format!("\n> {start}{}\n", markdown::text(&shortened(message))));
    }
    if messages.len() > MESSAGES {
        text.push_str(&format!("\n> {start}{} more\n", messages.len() - MESSAGES));
    }
}

fn shortened(message: &str) -> String {
    match message.char_indices().nth(MESSAGE) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

/// A row for each group, as many as fit.
fn add_table(text: &mut String, groups: &[&ChangeGroup]) {
    text.push_str("\n| Clusters | | machines | changed objects |\n|---|---|---|---|\n");
    let end = text.len() + TABLE;
    for (i, group) in groups.iter().enumerate() {
        let row = row(group);
        if text.len() + row.len() > end {
            text.push_str(&format!("\nThe table leaves out {}.\n", counted_groups(groups.len() - i)));
            return;
        }
        text.push_str(&row);
    }
}

fn row(group: &ChangeGroup) -> String {
    let (names, more) = phrases::members(group, 3);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let machines = match () {
        () if !group.errors.is_empty() => "cannot be planned".to_owned(),
        () if group.steps.is_empty() => String::new(),
        () => phrases::machines(&group.machines),
    };
    let mut kinds: Vec<&str> = group.steps.iter().map(|step| &*step.kind).collect();
    kinds.dedup();
    let cells = [names.join(", ") + &more, group.about.topology.clone(), machines, kinds.join(", ")];
    format!("| {} |\n", cells.map(|cell| markdown::text(&shortened(&cell))).join(" | "))
}

/// A part that a reader can open; `None` when not even its beginning fits.
fn details(group: &ChangeGroup, is_open: bool, most: usize) -> Option<String> {
    let open = if is_open { " open" } else { "" };
    let headline = markdown::text(&shortened(&phrases::headline(group)));
    let mut part =
        MarkdownSection { text: format!("\n<details{open}><summary>{headline}</summary>\n\n"), most, left_out: 0 };
    if group.clusters.len() > 1 {
        let (names, more) = phrases::members(group, NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        part.add(&format!("Clusters: {}{more}\n\n", markdown::text(&names.join(", "))));
    }
    let (warnings, errors) = phrases::remarks(group);
    errors.iter().for_each(|error| part.add(&format!("- **error** {}\n", markdown::text(&shortened(error)))));
    warnings.iter().for_each(|warning| part.add(&format!("- warning: {}\n", markdown::text(&shortened(warning)))));
    phrases::rolls(group).iter().for_each(|roll| part.add(&format!("- {}\n", markdown::text(&shortened(roll)))));
    for (object, reason) in phrases::held(group) {
        part.add(&format!("- **held** {}: {}\n", markdown::text(&object), markdown::text(&shortened(reason))));
    }
    part.steps(&phrases::steps(group));
    part.finish()
}

struct MarkdownSection {
    text: String,
    most: usize,
    /// How many pieces did not fit.
    left_out: usize,
}

impl MarkdownSection {
    fn add(&mut self, piece: &str) {
        // What comes after a piece that did not fit is left out as well: the order is that of importance.
        if self.left_out > 0 || self.text.len() + piece.len() + 100 > self.most {
            self.left_out += 1;
        } else {
            self.text.push_str(piece);
        }
    }

    fn steps(&mut self, steps: &[StepPhrase<'_>]) {
        if steps.is_empty() {
            return;
        }
        self.add("\n| | object | field | from | to | because |\n|---|---|---|---|---|---|\n");
        let mut diffs = Vec::new();
        for step in steps {
            let object = markdown::text(&step.object);
            if let Some(why) = step.why() {
                self.add(&format!("| {} | {object} | | | | {} |\n", step.action, markdown::text(&shortened(why))));
            }
            for change in step.changes {
                for place in places(change) {
                    self.add(&change_row(step, &object, change, &place, &mut diffs));
                }
            }
        }
        for (object, path, lines) in diffs {
            self.add(&format!("\n{object} {path}:\n\n{}", diff(&lines)));
        }
    }

    fn finish(mut self) -> Option<String> {
        if self.text.len() + 100 > self.most {
            return None;
        }
        if self.left_out > 0 {
            self.text.push_str(&format!("\n{} more lines are left out.\n", self.left_out));
        }
        self.text.push_str("\n</details>\n");
        Some(self.text)
    }
}

/// A row of the table. A text of several lines is below the table.
fn change_row(
    step: &StepPhrase<'_>,
    object: &str,
    change: &ChangeReport,
    place: &ChangedValue<'_>,
    diffs: &mut Vec<(String, String, Vec<DiffLine>)>,
) -> String {
    let because = markdown::text(&shortened(&phrases::origin(change)));
    let path = markdown::code(&place.path);
    let (from, to) = match difference(place) {
        ValueDifference::Values { from, to } => {
            let cell = |value: &serde_json::Value, text: &str| {
                if value.is_null() { String::new() } else { markdown::code(text) }
            };
            (cell(place.from, &from), cell(place.to, &to))
        }
        ValueDifference::Within { before, from, to, after } => {
            (markdown::code(&format!("{before}«{from}»{after}")), markdown::code(&format!("{before}«{to}»{after}")))
        }
        ValueDifference::Lines(lines) => {
            diffs.push((object.to_owned(), path.clone(), lines));
            ("lines, below".to_owned(), String::new())
        }
    };
    format!("| {} | {object} | {path} | {from} | {to} | {because} |\n", step.action)
}

/// Lines with what is new and gone.
fn diff(lines: &[DiffLine]) -> String {
    let shown = |line: &DiffLine| match line {
        DiffLine::Same(text) => format!("  {text}"),
        DiffLine::Gone(text) => format!("- {text}"),
        DiffLine::New(text) => format!("+ {text}"),
        DiffLine::Skipped => "…".to_owned(),
    };
    let mut shown: Vec<String> = lines.iter().take(LINES).map(shown).collect();
    if lines.len() > LINES {
        shown.push(format!("… and {} more lines", lines.len() - LINES));
    }
    markdown::fenced("diff", &shown)
}
