//! `validate`: what the webhook would say of the objects in files.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use serde::Serialize;

use super::UNUSABLE;
use super::args::{Output, Rules, Validate};
use super::files::{self, Input, Loaded};
use crate::admission::{Operation, Outcome, Phase, Question, Request, Settings, Verdict};
use crate::field::{FieldError, RuleId, Warning};
use crate::hub::{Cluster, ClusterClass, Kind};
use crate::json;
use crate::wire::{Decode, Version};
use crate::world::Facts;

/// Prints a verdict for every Cluster and ClusterClass.
pub(super) fn run(options: &Validate) -> Result<ExitCode> {
    let input = files::read(&options.paths)?;
    let settings = options.rules.settings();
    let mut subjects: Vec<Subject<'_>> = input.objects.iter().filter_map(Subject::of).collect();
    let written = Arc::new(facts(&subjects));
    subjects.iter_mut().for_each(|subject| subject.default(&written, &settings));
    let facts = Arc::new(facts(&subjects));
    let rows: Vec<Row<'_>> = subjects.iter().map(|subject| subject.judge(&facts, &settings)).collect();
    let printed = match options.output {
        Output::Text => text(&rows),
        Output::Json => serde_json::to_string_pretty(&rows)? + "\n",
    };
    super::print(&printed)?;
    Ok(ExitCode::from(exit_code(&input, &rows)?))
}

fn exit_code(input: &Input, rows: &[Row<'_>]) -> Result<u8> {
    let mut messages = io::stderr().lock();
    for unreadable in &input.unreadable {
        writeln!(messages, "topologist: {unreadable}")?;
    }
    for passed_over in &input.passed_over {
        writeln!(messages, "topologist: {passed_over}: passed over")?;
    }
    if !input.unreadable.is_empty() {
        return Ok(UNUSABLE);
    }
    if input.objects.is_empty() {
        writeln!(messages, "topologist: nothing to validate: the input holds no objects")?;
        return Ok(UNUSABLE);
    }
    if rows.is_empty() {
        writeln!(messages, "topologist: no Cluster and no ClusterClass among {} objects", input.objects.len())?;
    }
    Ok(u8::from(rows.iter().any(|row| !row.allowed)))
}

impl Rules {
    /// The settings of the rules.
    pub fn settings(&self) -> Settings {
        Settings {
            gates: self.feature_gates,
            minimum_node_startup_timeout_seconds: self.minimum_node_startup_timeout,
            dependents: self.dependents,
            refuse_refs_with_topology: self.refuse_refs_with_topology,
            ..Settings::default()
        }
    }
}

/// An object that is judged.
struct Subject<'a> {
    loaded: &'a Loaded,
    kind: Kind,
    /// None for a version of our group that is not understood.
    version: Option<Version>,
    text: String,
    defaulted: Option<Verdict>,
}

impl<'a> Subject<'a> {
    fn of(loaded: &'a Loaded) -> Option<Self> {
        let kind = loaded.manifest.admitted_kind()?;
        let version = loaded.manifest.version();
        Some(Subject { loaded, kind, version, text: loaded.manifest.text(), defaulted: None })
    }

    /// Does what the mutating webhook would do.
    fn default(&mut self, facts: &Arc<Facts>, settings: &Settings) {
        let Some(Ok(question)) = self.question(Phase::Default) else { return };
        let verdict = question.settle(facts, settings);
        if let Ok(mut value) = json::value(&self.text)
            && json_patch::patch(&mut value, &verdict.patch).is_ok()
        {
            self.text = value.to_string();
        }
        self.defaulted = Some(verdict);
    }

    fn question(&self, phase: Phase) -> Option<Result<Question, Box<Verdict>>> {
        Some(Question::decode(&Request {
            phase,
            kind: self.kind,
            version: self.version?,
            operation: Operation::Create,
            name: &self.loaded.manifest.key.name,
            object: Some(&self.text),
            old_object: None,
        }))
    }

    fn judge(&self, facts: &Arc<Facts>, settings: &Settings) -> Row<'a> {
        let manifest = &self.loaded.manifest;
        let verdict = match self.question(Phase::Validate) {
            Some(Ok(question)) => question.settle(facts, settings),
            Some(Err(verdict)) => *verdict,
            None => {
                let known = Version::ALL.map(Version::name).join(", ");
                let reason =
                    format!("version {} of {} is not known; known are {known}", manifest.api_version, manifest.kind);
                Verdict::plain(self.kind, &manifest.key.name, Outcome::Undecodable(reason))
            }
        };
        Row::new(self.loaded, self.defaulted.as_ref(), verdict)
    }
}

fn facts(subjects: &[Subject<'_>]) -> Facts {
    let decoded = |kind| {
        subjects
            .iter()
            .filter(move |subject| subject.kind == kind)
            .filter_map(|subject| Some((subject.version?, &*subject.text)))
    };
    let clusters = decoded(Kind::Cluster).filter_map(|(version, text)| Cluster::decode(version, text).ok());
    let classes = decoded(Kind::ClusterClass).filter_map(|(version, text)| ClusterClass::decode(version, text).ok());
    Facts::of(clusters, classes)
}

/// The result for one object, as `-o json` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    file: &'a str,
    #[serde(skip)]
    line: usize,
    api_version: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    operation: &'static str,
    allowed: bool,
    errors: Vec<Shown>,
    warnings: Vec<String>,
    not_checked: Vec<RuleId>,
    patch: json_patch::Patch,
}

/// One error of a row.
#[derive(Debug, PartialEq, Serialize)]
struct Shown {
    rule: RuleId,
    r#type: &'static str,
    field: String,
    detail: String,
    #[serde(skip)]
    rendered: String,
}

impl<'a> Row<'a> {
    fn new(loaded: &'a Loaded, defaulted: Option<&Verdict>, verdict: Verdict) -> Self {
        let manifest = &loaded.manifest;
        let mut errors: Vec<Shown> = defaulted.map(shown).unwrap_or_default();
        // Without a class name there is one thing to say, and defaulting has said it (CL-D-003).
        if errors.iter().all(|error| error.rule != "CL-D-003") {
            errors.extend(shown(&verdict));
        }
        let patch = defaulted.map(|verdict| verdict.patch.clone()).unwrap_or_default();
        let warnings = verdict.warnings.into_iter().map(|Warning { text, .. }| text).collect();
        Row {
            file: &loaded.file,
            line: manifest.line,
            api_version: &manifest.api_version,
            kind: &manifest.kind,
            namespace: &manifest.key.namespace,
            name: &manifest.key.name,
            operation: Operation::Create.name(),
            allowed: errors.is_empty(),
            errors,
            warnings,
            not_checked: verdict.not_checked,
            patch,
        }
    }
}

fn shown(verdict: &Verdict) -> Vec<Shown> {
    let whole = |rule, r#type, message: &str| {
        vec![Shown { rule, r#type, field: String::new(), detail: message.to_owned(), rendered: message.to_owned() }]
    };
    match &verdict.outcome {
        Outcome::Allowed => Vec::new(),
        Outcome::Invalid(errors) => errors.iter().map(Shown::of).collect(),
        Outcome::Forbidden { rule, message, .. } => whole(rule, "Forbidden", message),
        Outcome::Undecodable(message) => whole("ADM-003", "BadRequest", message),
        Outcome::Unknown { rule, message } => whole(rule, "InternalError", message),
    }
}

impl Shown {
    fn of(error: &FieldError) -> Self {
        Shown {
            rule: error.rule,
            r#type: error.kind.reason(),
            field: error.path.to_string(),
            detail: error.detail.clone(),
            rendered: error.to_string(),
        }
    }
}

fn text(rows: &[Row<'_>]) -> String {
    let mut text = String::new();
    for row in rows {
        let verdict = if row.allowed { "allowed" } else { "denied" };
        text.push_str(&format!("{}:{}: {} {}/{}: {verdict}\n", row.file, row.line, row.kind, row.namespace, row.name));
        row.errors.iter().for_each(|error| text.push_str(&format!("  error {}: {}\n", error.rule, error.rendered)));
        row.warnings.iter().for_each(|warning| text.push_str(&format!("  warning: {warning}\n")));
    }
    let denied = rows.iter().filter(|row| !row.allowed).count();
    if !rows.is_empty() {
        text.push_str(&format!("{} judged, {} allowed, {denied} denied\n", rows.len(), rows.len() - denied));
    }
    text
}
