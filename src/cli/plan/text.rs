//! The output of `plan` as text.
//!
//! Colors are always in the text; they are removed where it is printed without them.

use anstyle::{AnsiColor, Style};
use engine::comparison::changed_values::places;
use engine::comparison::cluster_report::ChangeReport;
use engine::comparison::groups::ChangeGroup;
use engine::comparison::held_edit::HeldEdit;
use engine::comparison::report::ComparisonReport;

use super::phrases::{self, MESSAGES, NAMED, StepPhrase};
use super::values::{self, ValueDifference, difference};
use crate::cli::output::{Line, Text};
use engine::topology::plan::StepAction;

/// The width of lines with names.
const WIDTH: usize = 110;
/// How many lines of a value are shown.
const LINES: usize = 40;

const TITLE: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const RED: Style = AnsiColor::Red.on_default();
const GREEN: Style = AnsiColor::Green.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const CYAN: Style = AnsiColor::Cyan.on_default();

/// Lines for a terminal: totals, the most affected Clusters, then each group.
pub(super) fn text(report: &ComparisonReport, all: bool) -> Text {
    let most = |most: usize| if all { usize::MAX } else { most };
    let mut printer = Printer { text: Text::default(), lines: most(LINES) };
    let denied = Line::default().painted(RED, "denied").text(": ");
    printer.messages(&denied, &report.errors, most(MESSAGES));
    let held: Vec<String> = report.held_edits.iter().map(HeldEdit::text).collect();
    printer.messages(&Line::default().painted(RED, "will be held").text(": "), &held, most(MESSAGES));
    printer.line(Line::default().painted(TITLE, phrases::summary(report)));
    if let Some(clusters) = phrases::most_affected(report) {
        printer.line(format_args!("most affected: {clusters}"));
    }
    let groups: Vec<&ChangeGroup> = report.all().filter(|group| group.has_content()).collect();
    for group in &groups {
        printer.line("");
        printer.group(group, most(NAMED));
    }
    if !groups.is_empty() {
        printer.line("");
    }
    let warning = Line::default().painted(YELLOW, "warning:").text(" ");
    printer.messages(&warning, &report.warnings, most(MESSAGES));
    printer.messages(&Line::from("not complete: "), &report.incomplete, most(MESSAGES));
    if let Some(exit) = phrases::exit(report) {
        printer.line(Line::default().painted(DIM, exit));
    }
    printer.text
}

struct Printer {
    text: Text,
    /// How many lines of a value are shown.
    lines: usize,
}

impl Printer {
    fn line(&mut self, line: impl Into<Line>) {
        self.text.line(line);
    }

    fn messages(&mut self, start: &Line, messages: &[String], most: usize) {
        messages.iter().take(most).for_each(|message| self.line(start.clone().text(message)));
        if messages.len() > most {
            self.line(start.clone().text(format_args!("{} more; --all lists all", messages.len() - most)));
        }
    }

    fn group(&mut self, group: &ChangeGroup, named: usize) {
        self.line(Line::default().painted(TITLE, phrases::headline(group)));
        if group.clusters.len() > 1 {
            self.members(group, named);
        }
        phrases::steps(group).iter().for_each(|step| self.step(step));
        phrases::rolls(group).iter().for_each(|roll| self.line(format_args!("  {roll}")));
        for (object, reason) in phrases::held(group) {
            self.line(Line::from("  ").painted(YELLOW, "held").text(format_args!("   {object}: {reason}")));
        }
        let (warnings, errors) = phrases::remarks(group);
        for (color, level, remarks) in [(YELLOW, "warning:", warnings), (RED, "error:", errors)] {
            let start = Line::from("  ").painted(color, level).text(" ");
            remarks.iter().for_each(|remark| self.line(start.clone().text(remark)));
        }
    }

    /// Names, as many in a line as it holds.
    fn members(&mut self, group: &ChangeGroup, most: usize) {
        let (names, more) = phrases::members(group, most);
        let last = names.len().saturating_sub(1);
        let mut line = String::new();
        for (i, name) in names.iter().enumerate() {
            let name = if i < last { format!("{name},") } else { name.clone() };
            if !line.is_empty() && line.chars().count() + 1 + name.chars().count() > WIDTH {
                self.line(format_args!("  {}", std::mem::take(&mut line)));
            }
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(&name);
        }
        if more > 0 {
            line.push_str(&format!(" and {more} more (--all lists all)"));
        }
        self.line(format_args!("  {line}"));
    }

    fn step(&mut self, step: &StepPhrase<'_>) {
        let color = match () {
            () if step.is(StepAction::Delete) => RED,
            () if step.is(StepAction::Rotate) => YELLOW,
            () if step.is(StepAction::Create) => GREEN,
            () => CYAN,
        };
        let space = " ".repeat(7_usize.saturating_sub(step.action.len()));
        let replaces = step.replaces.map(|old| format!(" in place of {old}")).unwrap_or_default();
        let why = step.why().map(|why| format!(": {why}")).unwrap_or_default();
        let object = format_args!("{space}{}{replaces}{why}", step.object);
        self.line(Line::from("  ").painted(color, step.action).text(object));
        step.changes.iter().for_each(|change| self.change(change));
    }

    fn change(&mut self, change: &ChangeReport) {
        let origin = format!("({})", phrases::origin(change));
        for place in places(change) {
            let line = Line::from(format_args!("           {}:", place.path));
            let line = match difference(&place) {
                ValueDifference::Values { from, to } => {
                    line.text(" ").painted(RED, from).text(" → ").painted(GREEN, to)
                }
                ValueDifference::Within { before, from, to, after } => line
                    .text(format_args!(" {before}"))
                    .painted(RED, format_args!("«{from}»"))
                    .text(" → ")
                    .painted(GREEN, format_args!("«{to}»"))
                    .text(after),
                ValueDifference::Lines(lines) => {
                    self.line(line.text("   ").painted(DIM, &origin));
                    self.lines(&lines);
                    continue;
                }
            };
            self.line(line.text("   ").painted(DIM, &origin));
        }
    }

    fn lines(&mut self, lines: &[values::DiffLine]) {
        const INDENT: &str = "             ";
        for line in lines.iter().take(self.lines) {
            let indent = Line::from(INDENT);
            self.line(match line {
                values::DiffLine::Same(text) if text.is_empty() => indent,
                values::DiffLine::Same(text) => indent.text(format_args!("  {text}")),
                values::DiffLine::Gone(text) => indent.painted(RED, format_args!("- {text}")),
                values::DiffLine::New(text) => indent.painted(GREEN, format_args!("+ {text}")),
                values::DiffLine::Skipped => indent.text("…"),
            });
        }
        if lines.len() > self.lines {
            let more = lines.len() - self.lines;
            self.line(format_args!("{INDENT}… and {more} more lines (--all shows all)"));
        }
    }
}
