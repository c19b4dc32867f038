//! Standard output and standard error of commands. No other module of a command writes there (DEC-64); `clippy.toml`
//! refuses it.
//!
//! ```text
//! messages with texts of input ─► Line ─► Text ─┬─► text       standard output
//!                                               └─► messages   standard error
//! YAML, JSON, scripts ────────────────────────────► data, json
//! ```
//!
//! A [`Line`] stays one line for any input, and contains no control sequences of terminals or CI systems.

#![expect(clippy::disallowed_methods, reason = "the one place that writes")]

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Write};

use anstream::AutoStream;
use anstyle::Style;
use clap::ColorChoice;
use serde::Serialize;

use schema::field::plain;
use server::telemetry::log::ERASE_LINE;

/// One line, made of parts. Control characters, line breaks and characters that change the direction of a text are
/// escaped in each part, and so are commands of CI systems in the whole line.
#[derive(Clone, Debug, Default)]
pub(super) struct Line(Vec<(Style, String)>);

impl Line {
    /// Adds a part.
    pub(super) fn text(self, text: impl fmt::Display) -> Self {
        self.painted(Style::new(), text)
    }

    /// Adds a part with a color.
    pub(super) fn painted(mut self, style: Style, text: impl fmt::Display) -> Self {
        self.0.push((style, plain(&text.to_string()).into_owned()));
        self
    }
}

impl<T: fmt::Display> From<T> for Line {
    fn from(text: T) -> Self {
        Line::default().text(text)
    }
}

/// A text that is one line.
pub(super) fn escaped(text: &str) -> String {
    rendered(&Line::from(text))
}

/// The line as it is printed.
fn rendered(line: &Line) -> String {
    let text: String = line.0.iter().map(|(_, text)| &**text).collect();
    let commands = commands(&text);
    let (mut rendered, mut start) = (String::with_capacity(text.len()), 0);
    for (style, text) in &line.0 {
        rendered.push_str(&style.render().to_string());
        let here = commands.iter().filter_map(|at| at.checked_sub(start)).filter(|at| *at < text.len());
        push_escaped(&mut rendered, text, here);
        rendered.push_str(&style.render_reset().to_string());
        start += text.len();
    }
    rendered
}

/// The positions of characters that begin a command of a CI system.
///
/// `::error::` is one where nothing but blanks is before it (GitHub Actions), `##[error]`, `##vso[task.setvariable]`
/// (Azure Pipelines) and `##teamcity[message]` are anywhere in a line.
fn commands(line: &str) -> Vec<usize> {
    let start = line.len() - line.trim_start().len();
    let first = line[start..].starts_with(':').then_some(start);
    let is_command = |(at, _): &(usize, &str)| {
        line[at + 2..].trim_start_matches(|c: char| c.is_ascii_alphanumeric()).starts_with('[')
    };
    // Of three signs, the last two begin a command.
    let marked = line.match_indices('#').filter(|(at, _)| line[at + 1..].starts_with('#')).filter(is_command);
    first.into_iter().chain(marked.map(|(at, _)| at)).collect()
}

/// Adds a text with the characters at these places, which are of one byte, in the form of Rust's escapes.
fn push_escaped(to: &mut String, text: &str, places: impl Iterator<Item = usize>) {
    let mut rest = 0;
    for at in places {
        to.push_str(&text[rest..at]);
        to.push_str(&format!("\\u{{{:x}}}", text.as_bytes()[at]));
        rest = at + 1;
    }
    to.push_str(&text[rest..]);
}

/// Lines for people.
#[derive(Clone, Debug, Default)]
pub(super) struct Text(String);

impl Text {
    /// Adds a line.
    pub(super) fn line(&mut self, line: impl Into<Line>) {
        self.0.push_str(&rendered(&line.into()));
        self.0.push('\n');
    }

    /// Adds lines that were laid out from escaped parts, with colors. Commands of CI systems are escaped.
    pub(super) fn rendered(&mut self, lines: &str) {
        for line in lines.lines() {
            push_escaped(&mut self.0, line, commands(line).into_iter());
            self.0.push('\n');
        }
    }

    /// The lines as a file has them.
    pub(super) fn without_colors(&self) -> String {
        anstream::adapter::strip_str(&self.0).to_string()
    }

    #[cfg(test)]
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Prints lines on standard output, without colors.
pub(super) fn text(text: &Text) -> io::Result<()> {
    colored(text, ColorChoice::Never)
}

/// Prints lines on standard output, with colors where they are wanted.
pub(super) fn colored(text: &Text, color: ColorChoice) -> io::Result<()> {
    let color = match color {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    };
    print(&mut AutoStream::new(io::stdout().lock(), color), |out| out.write_all(text.0.as_bytes()))
}

/// Prints YAML, JSON or a script as it is.
pub(super) fn data(data: &str) -> io::Result<()> {
    print(&mut io::stdout().lock(), |out| out.write_all(data.as_bytes()))
}

/// Prints a value as JSON.
pub(super) fn json(value: &impl Serialize) -> io::Result<()> {
    print(&mut BufWriter::new(io::stdout().lock()), |out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    })
}

/// Prints Markdown for a comment, which may be part of the log of a CI job as well.
pub(super) fn markdown(text: &str) -> io::Result<()> {
    data(&without_commands(text))
}

/// A document in which commands of CI systems are escaped.
pub(super) fn without_commands(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        push_escaped(&mut escaped, line, commands(line).into_iter());
    }
    escaped
}

/// Writes a result. If the reader closes the pipe early, that is no failure, and does not change the exit code.
fn print<W: Write>(out: &mut W, write: impl FnOnce(&mut W) -> io::Result<()>) -> io::Result<()> {
    match write(out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// Prints a message of the program on standard error.
pub(super) fn message(message: impl fmt::Display) -> io::Result<()> {
    let mut text = Text::default();
    text.line(format_args!("topologist: {message}"));
    messages(&text)
}

/// Prints lines on standard error, with colors if it is a terminal.
pub(super) fn messages(text: &Text) -> io::Result<()> {
    AutoStream::auto(io::stderr().lock()).write_all(text.0.as_bytes())
}

/// Prints a document on standard error as it is.
pub(super) fn data_beside(data: &str) -> io::Result<()> {
    io::stderr().lock().write_all(data.as_bytes())
}

/// Replaces the line of progress on standard error, which is a terminal.
pub(super) fn progress(text: &str) {
    let line = if text.is_empty() { String::new() } else { rendered(&Line::from(format_args!("{text} …"))) };
    let _ = write!(io::stderr(), "{ERASE_LINE}{line}");
}

/// Whether standard output is a terminal.
pub(super) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether standard error is a terminal.
pub(super) fn has_terminal_for_messages() -> bool {
    io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use anstyle::AnsiColor;

    use super::*;

    const RED: Style = AnsiColor::Red.on_default();

    fn text(line: impl Into<Line>) -> String {
        let mut text = Text::default();
        text.line(line);
        text.as_str().to_owned()
    }

    #[test]
    fn a_line_stays_one_line_without_anything_that_is_acted_on() {
        // DEC-64
        for (input, want) in [
            ("a.yaml:1: Cluster b/c: allowed", "a.yaml:1: Cluster b/c: allowed"),
            ("a\nOK: all fine\r\u{1b}[2K\u{9b}m\u{202e}", r"a\nOK: all fine\r\u{1b}[2K\u{9b}m\u{202e}"),
            ("::error::a", r"\u{3a}:error::a"),
            (" \u{a0}\u{3000}::add-mask::a", " \u{a0}\u{3000}\\u{3a}:add-mask::a"),
            ("a::error::b ::warning::", "a::error::b ::warning::"),
            ("a ##[error]b", r"a \u{23}#[error]b"),
            ("##vso[task.setvariable variable=a]b", r"\u{23}#vso[task.setvariable variable=a]b"),
            ("###teamcity[message text='a']", r"#\u{23}#teamcity[message text='a']"),
            ("## a comment [1], a[##b]", "## a comment [1], a[##b]"),
            ("é##[é##[", r"é\u{23}#[é\u{23}#["),
            ("", ""),
        ] {
            assert_eq!(text(input), format!("{want}\n"), "{input:?}");
        }
    }

    #[test]
    fn colors_are_ours_and_hide_no_command() {
        // DEC-64
        let line = Line::from("  ").painted(RED, ":").text(":error::a #").painted(RED, "#").text("[error]\u{1b}[0m");
        let want = "  \u{1b}[31m\\u{3a}\u{1b}[0m:error::a \\u{23}\u{1b}[31m#\u{1b}[0m[error]\\u{1b}[0m\n";
        assert_eq!(text(line), want);
    }
}
