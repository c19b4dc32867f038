//! The output of `plan` as text.
//!
//! Colors are always in the text; the printer removes them where they are not wanted.

use anstyle::{AnsiColor, Style};

use super::collected::Report;
use super::groups::Group;
use super::report::ChangeReport;
use super::values::{Difference, Line, escaped, places};
use super::words::{self, MESSAGES, NAMED, Step};
use crate::topology::plan::Action;

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
pub(super) fn plain(report: &Report, all: bool) -> String {
    let most = |most: usize| if all { usize::MAX } else { most };
    let mut text = Text { all: String::new(), lines: most(LINES) };
    text.messages(&format!("{}: ", painted(RED, "denied")), &report.errors, most(MESSAGES));
    text.line("", &painted(TITLE, &words::summary(report)));
    if let Some(clusters) = words::most_affected(report) {
        text.line("", &format!("most affected: {clusters}"));
    }
    let groups: Vec<&Group> = report.all().filter(|group| group.says_something()).collect();
    for group in &groups {
        text.line("", "");
        text.group(group, most(NAMED));
    }
    if !groups.is_empty() {
        text.line("", "");
    }
    text.messages(&format!("{} ", painted(YELLOW, "warning:")), &report.warnings, most(MESSAGES));
    text.messages("not complete: ", &report.incomplete, most(MESSAGES));
    if let Some(exit) = words::exit(report) {
        text.line("", &painted(DIM, exit));
    }
    text.all
}

struct Text {
    all: String,
    /// How many lines of a value are shown.
    lines: usize,
}

impl Text {
    fn line(&mut self, indent: &str, line: &str) {
        self.all.push_str(indent);
        self.all.push_str(line);
        self.all.push('\n');
    }

    fn messages(&mut self, start: &str, messages: &[String], most: usize) {
        messages.iter().take(most).for_each(|message| self.line("", &format!("{start}{}", escaped(message))));
        if messages.len() > most {
            self.line("", &format!("{start}{} more; --all lists all", messages.len() - most));
        }
    }

    fn group(&mut self, group: &Group, named: usize) {
        self.line("", &painted(TITLE, &words::headline(group)));
        if group.clusters.len() > 1 {
            self.members(group, named);
        }
        words::steps(group).iter().for_each(|step| self.step(step));
        words::rolls(group).iter().for_each(|roll| self.line("  ", &escaped(roll)));
        for (object, reason) in words::held(group) {
            self.line("  ", &format!("{}   {object}: {}", painted(YELLOW, "held"), escaped(reason)));
        }
        let (warnings, errors) = words::remarks(group);
        warnings.iter().for_each(|said| self.line("  ", &format!("{} {}", painted(YELLOW, "warning:"), escaped(said))));
        errors.iter().for_each(|said| self.line("  ", &format!("{} {}", painted(RED, "error:"), escaped(said))));
    }

    /// Names, as many in a line as it holds.
    fn members(&mut self, group: &Group, most: usize) {
        let (names, more) = words::members(group, most);
        let last = names.len().saturating_sub(1);
        let mut line = String::new();
        for (i, name) in names.iter().enumerate() {
            let name = if i < last { format!("{name},") } else { name.clone() };
            if !line.is_empty() && line.chars().count() + 1 + name.chars().count() > WIDTH {
                self.line("  ", &std::mem::take(&mut line));
            }
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(&name);
        }
        if more > 0 {
            line.push_str(&format!(" and {more} more (--all lists all)"));
        }
        self.line("  ", &line);
    }

    fn step(&mut self, step: &Step<'_>) {
        let color = match () {
            () if step.is(Action::Delete) => RED,
            () if step.is(Action::Rotate) => YELLOW,
            () if step.is(Action::Create) => GREEN,
            () => CYAN,
        };
        let action = painted(color, step.action);
        let space = " ".repeat(7_usize.saturating_sub(step.action.len()));
        let replaces = step.replaces.map(|old| format!(" in place of {old}")).unwrap_or_default();
        let why = step.why().map(|why| format!(": {}", escaped(why))).unwrap_or_default();
        self.line("  ", &format!("{action}{space}{}{replaces}{why}", step.object));
        step.changes.iter().for_each(|change| self.change(change));
    }

    fn change(&mut self, change: &ChangeReport) {
        let origin = painted(DIM, &format!("({})", escaped(&words::origin(change))));
        let (gone, new) = (|text: &str| painted(RED, text), |text: &str| painted(GREEN, text));
        for place in places(change) {
            let path = escaped(&place.path);
            let shown = match place.difference() {
                Difference::Values { from, to } => format!("{} → {}", gone(&from), new(&to)),
                Difference::Within { before, from, to, after } => {
                    format!("{before}{} → {}{after}", gone(&format!("«{from}»")), new(&format!("«{to}»")))
                }
                Difference::Lines(lines) => {
                    self.line("           ", &format!("{path}:   {origin}"));
                    self.lines(&lines);
                    continue;
                }
            };
            self.line("           ", &format!("{path}: {shown}   {origin}"));
        }
    }

    fn lines(&mut self, lines: &[Line]) {
        const INDENT: &str = "             ";
        for line in lines.iter().take(self.lines) {
            let shown = match line {
                Line::Same(text) => format!("  {text}"),
                Line::Gone(text) => painted(RED, &format!("- {text}")),
                Line::New(text) => painted(GREEN, &format!("+ {text}")),
                Line::Skipped => "…".to_owned(),
            };
            self.line(INDENT, shown.trim_end());
        }
        if lines.len() > self.lines {
            self.line(INDENT, &format!("… and {} more lines (--all shows all)", lines.len() - self.lines));
        }
    }
}

fn painted(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}
