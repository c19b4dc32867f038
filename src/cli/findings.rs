//! Findings of commands: one model for all output formats (DEC-62).
//!
//! ```text
//! errors of rules ──────┐                    ┌─► text, short    terminals, editors
//! warnings ─────────────┼─► Finding ─► Report┼─► json           programs
//! problems of topologies┘      ▲             ├─► sarif, github  code scanning, annotations
//!                        SourceTexts         └─► junit, markdown
//! ```

mod github;
mod junit;
mod markdown;
mod repository;
mod sarif;
mod source;
mod template_text;
mod text;
mod topology;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;

use super::args::{FailOn, FindingFlags, FindingsFormat, FindingsOutput, ObjectFindingFlags};
use super::atomic_file;
use super::output::{self, Text};
use engine::file_review::LoadedObject;
use schema::field::{Level, RuleId};

pub(super) use source::SourceTexts;
pub(super) use topology::topology_findings;

/// A problem that a command found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    pub severity: Level,
    /// The id of the rule.
    pub id: RuleId,
    /// The message, without the path.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// The object that it is in.
    pub object: FindingObject,
    /// The path of the field in the version of the file, or else in v1beta2; empty for the object as a whole.
    pub path: String,
    /// The same path with the names of patches, variables and workers, for people.
    #[serde(skip)]
    pub named_path: String,
    /// Its place in a file; `None` if no file has the object.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Other objects that belong to the problem, at most [`RELATED`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<RelatedObject>,
    /// How many other objects belong to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related_count: Option<usize>,
}

/// An object of a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FindingObject {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

/// A range in one line of a file. Lines and columns count from 1, columns in characters; the end is behind the last
/// character.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Place {
    pub file: String,
    pub line: usize,
    pub column: usize,
    pub end_line: usize,
    pub end_column: usize,
}

/// An object that belongs to a finding, such as the Cluster for which a patch fails.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RelatedObject {
    pub object: FindingObject,
    /// The path of a field that the finding depends on; empty for the object as a whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The same path with names, for people.
    #[serde(skip)]
    pub named_path: String,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

/// Maximum number of other objects of a finding.
const RELATED: usize = 20;

/// The JSON Schema of the JSON format.
pub(super) const SCHEMA: &str = include_str!("findings/schema.json");

/// The version of the JSON format.
const FORMAT_VERSION: u32 = 2;

/// Findings, the worst last, with what else a command prints about the objects that it judged.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a, O> {
    version: u32,
    findings: Vec<Finding>,
    /// One entry for each judged object.
    objects: Vec<O>,
    summary: BTreeMap<&'static str, usize>,
    /// The judged objects.
    #[serde(skip)]
    judged: Vec<FindingObject>,
    #[serde(skip)]
    texts: &'a SourceTexts<'a>,
    /// The lines below the findings in texts for people.
    #[serde(skip)]
    verdicts: Vec<String>,
}

impl FindingObject {
    pub(super) fn from_loaded(loaded: &LoadedObject) -> Self {
        let manifest = &loaded.manifest;
        FindingObject {
            api_version: manifest.api_version.clone(),
            kind: manifest.kind.clone(),
            namespace: manifest.key.namespace.clone(),
            name: manifest.key.name.clone(),
        }
    }

    /// `ClusterClass default/base`
    pub(super) fn title(&self) -> String {
        let FindingObject { kind, namespace, name, .. } = self;
        if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
    }
}

impl Finding {
    /// A finding that is in no object and no file yet.
    pub(super) fn new(severity: Level, id: RuleId, message: impl Into<String>) -> Self {
        Finding {
            severity,
            id,
            message: message.into(),
            fix: None,
            object: FindingObject::default(),
            path: String::new(),
            named_path: String::new(),
            place: None,
            related: Vec::new(),
            related_count: None,
        }
    }

    /// `file:line:column: severity[id]: object: path: message`
    pub(super) fn line(&self) -> String {
        let place = self.place.as_ref().map(|Place { file, line, column, .. }| format!("{file}:{line}:{column}: "));
        let (title, object) = (self.title(), self.object.title());
        format!("{}{title}: {object}: {}", place.unwrap_or_default(), self.sentence())
    }

    /// The message after its path.
    fn sentence(&self) -> String {
        match self.named_path.is_empty() {
            true => self.message.clone(),
            false => format!("{}: {}", self.named_path, self.message),
        }
    }

    /// `error[PAT-011]`
    fn title(&self) -> String {
        format!("{}[{}]", self.severity, self.id)
    }
}

impl<'a> Report<'a, ()> {
    /// A report of a command that prints something else as well.
    pub(super) fn of_findings(findings: Vec<Finding>, texts: &'a SourceTexts<'a>) -> Self {
        Report::new(findings, Vec::new(), Vec::new(), texts)
    }

    /// The same, with the objects that were judged.
    pub(super) fn about(self, judged: Vec<FindingObject>) -> Self {
        Report { judged, ..self }
    }
}

impl<'a, O: Serialize> Report<'a, O> {
    /// A report of findings in any order.
    pub(super) fn new(
        mut findings: Vec<Finding>,
        objects: Vec<O>,
        judged: Vec<FindingObject>,
        texts: &'a SourceTexts<'a>,
    ) -> Self {
        findings.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.place.cmp(&b.place)));
        let count = |level| findings.iter().filter(|finding| finding.severity == level).count();
        let summary = [("errors", count(Level::Error)), ("warnings", count(Level::Warning))].into();
        Report { version: FORMAT_VERSION, findings, objects, summary, judged, texts, verdicts: Vec::new() }
    }

    /// Adds a number to the summary.
    pub(super) fn count(&mut self, what: &'static str, number: usize) {
        self.summary.insert(what, number);
    }

    /// Adds a line below the findings in texts for people.
    pub(super) fn verdict(&mut self, line: String) {
        self.verdicts.push(line);
    }

    /// Whether there is an error.
    pub(super) fn has_errors(&self) -> bool {
        self.has(Level::Error)
    }

    /// Whether the findings make a command fail.
    pub(super) fn fails(&self, flags: &FindingFlags) -> bool {
        self.has_errors() || (flags.fail_on() == FailOn::Warning && self.has(Level::Warning))
    }

    /// 1 if the findings make a command fail, else 0.
    pub(super) fn exit_code(&self, flags: &FindingFlags) -> ExitCode {
        ExitCode::from(u8::from(self.fails(flags)))
    }

    /// Prints the report in the format of the flags; returns the exit code.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub(super) fn finish(self, flags: &FindingFlags) -> Result<ExitCode> {
        let code = self.exit_code(flags);
        let report = if flags.quiet { self.failures_only(flags) } else { self };
        report.print(flags)?;
        Ok(code)
    }

    fn has(&self, level: Level) -> bool {
        self.findings.iter().any(|finding| finding.severity == level)
    }

    /// The report without verdicts, and without findings that do not make a command fail.
    #[must_use]
    pub(super) fn failures_only(mut self, flags: &FindingFlags) -> Self {
        self.findings.retain(|finding| finding.severity == Level::Error || flags.fail_on() == FailOn::Warning);
        self.verdicts.clear();
        self
    }

    /// Prints the report on standard output in the format of the flags.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub(super) fn print(&self, flags: &FindingFlags) -> Result<()> {
        match self.rendered(flags.output)? {
            Rendered::Text(text) => output::colored(&text, flags.color)?,
            Rendered::Data(data) => output::data(&data)?,
        }
        Ok(())
    }

    /// Writes the report beside the objects that a command prints: to files and standard error.
    ///
    /// # Errors
    /// When a file or standard error cannot be written.
    pub(super) fn write(&self, flags: &ObjectFindingFlags) -> Result<()> {
        // People read standard error, unless it has another format.
        let text = FindingsOutput { format: FindingsFormat::Text, file: None };
        let default = flags.findings.iter().all(|output| output.file.is_some()).then_some(&text);
        for FindingsOutput { format, file } in default.into_iter().chain(&flags.findings) {
            let rendered = self.rendered(*format)?;
            match (rendered, file) {
                (Rendered::Text(text), None) => output::messages(&text)?,
                (Rendered::Data(data), None) => output::data_beside(&data)?,
                (rendered, Some(file)) => {
                    let text = match rendered {
                        Rendered::Text(text) => text.without_colors(),
                        Rendered::Data(data) => data,
                    };
                    let unwritable = || format!("cannot write {}", file.display());
                    atomic_file::write(file, &text, 0o666).with_context(unwritable)?;
                }
            }
        }
        Ok(())
    }

    fn rendered(&self, format: FindingsFormat) -> Result<Rendered> {
        Ok(match format {
            FindingsFormat::Text => Rendered::Text(text::text(self)),
            FindingsFormat::Short => Rendered::Text(text::short(self)),
            FindingsFormat::Json => Rendered::Data(serde_json::to_string_pretty(self)? + "\n"),
            FindingsFormat::Sarif => Rendered::Data(serde_json::to_string_pretty(&sarif::log(&self.findings))? + "\n"),
            FindingsFormat::Junit => {
                Rendered::Data(output::without_commands(&junit::suites(&self.findings, &self.judged)?))
            }
            FindingsFormat::Github => Rendered::Data(github::annotations(&self.findings)),
            FindingsFormat::Markdown => {
                Rendered::Data(output::without_commands(&markdown::comment(&self.findings, &self.verdicts)))
            }
        })
    }
}

/// A report in a format.
enum Rendered {
    /// Lines for people.
    Text(Text),
    /// A document for programs.
    Data(String),
}
