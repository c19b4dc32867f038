//! `validate`: the verdicts of the API server and the webhook on objects in files.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use jiff::Timestamp;
use serde::Serialize;

use super::UNUSABLE;
use super::args::{OutputFormat, ValidateArgs};
use super::empty::{self, ExpectedInput};
use super::errors::{ErrorRow, shown};
use super::extensions::CommandExtensions;
use super::held_edits::held_edits;
use super::offline::{self, CommandInput};
use super::output::{self, Text};
use super::schemas::{self, Inspector};
use super::sizes::{SizedEdit, sized_edits};
use engine::admission::{AdmissionSettings, Operation};
use engine::comparison::held_edit::HeldEdit;
use engine::file_review::{LoadedObject, ObjectReview, ReviewSubject, UnknownFields};
use engine::impact::SizeVerdict;
use engine::topology::refusals::Checks;
use model::world::Facts;
use schema::field::{FieldError, RuleId, Warning};

/// Prints a verdict for every Cluster and ClusterClass.
pub(super) fn run(options: &ValidateArgs) -> Result<ExitCode> {
    let case = CommandInput::read(&options.paths, &options.old, &options.input)?.kept_as_stored();
    let extensions = CommandExtensions::open(&options.extensions, || case.objects(), None)?;
    let case = case.with_extensions(extensions.clone().map(|extensions| extensions as _));
    let settings = options.rules.settings();
    let subjects = case.subjects(&settings);
    let facts = Arc::new(case.facts(&subjects));
    let unknown_fields = if options.strict { UnknownFields::Deny } else { UnknownFields::Warn };
    let mut rows: Vec<ResultRow<'_>> = subjects
        .iter()
        .map(|subject| ResultRow::new(subject, offline::judge(subject, &facts, &settings, unknown_fields)))
        .collect();
    for SizedEdit { kind, key, verdict } in sized_edits(&case, &subjects, &facts, &settings) {
        let place = (&*kind, &*key.namespace, &*key.name);
        let SizeVerdict { denial, warnings } = verdict;
        let row = rows.iter_mut().find(|row| (row.kind, row.namespace, row.name) == place);
        if let Some(row) = row {
            row.warnings.extend(warnings.into_iter().map(|warning| warning.text));
        }
        if let Some(error) = denial {
            deny(&mut rows, &case, place, &error);
        }
    }
    let inspector = Inspector::new(&case, &facts, &settings);
    subjects.iter().zip(&mut rows).for_each(|(subject, row)| row.inspect(subject, &inspector));
    drop(inspector);
    // A server counts the machines of an edit that is allowed otherwise.
    if rows.iter().all(|row| row.allowed) {
        let ceiling = (&settings, options.ceiling.max_replaced_machines);
        hold(&mut rows, &case, &held_edits(&case, &subjects, &facts, ceiling, Timestamp::now()));
    }
    match options.output {
        OutputFormat::Text => {
            output::text(&text(&rows))?;
            schemas::note(&rows.iter().flat_map(|row| &row.schemas_not_checked).cloned().collect())?;
        }
        OutputFormat::Json => output::json(&rows)?,
    }
    let warned = options.fail_on_warnings && rows.iter().any(|row| !row.warnings.is_empty());
    let denied = rows.iter().any(|row| !row.allowed);
    let is_faulty = extensions.as_ref().is_some_and(|extensions| extensions.is_faulty());
    for reason in extensions.map(|extensions| extensions.finish(None)).transpose()?.unwrap_or_default() {
        output::message(reason)?;
    }
    if let Some(code) = report_problems(&case)? {
        return Ok(ExitCode::from(code));
    }
    let nothing =
        if rows.is_empty() { empty::check_found(ExpectedInput::Judged, &case, &options.input)? } else { None };
    Ok(ExitCode::from(nothing.unwrap_or(u8::from(denied || warned || is_faulty))))
}

/// Adds the denials of edits by a ceiling. Templates have rows only for these.
fn hold<'a>(rows: &mut Vec<ResultRow<'a>>, case: &'a CommandInput, held: &[HeldEdit]) {
    for held in held {
        deny(rows, case, held.object(), &held.error);
    }
}

/// Adds an error to the row of an object, by its kind, namespace and name.
fn deny<'a>(rows: &mut Vec<ResultRow<'a>>, case: &'a CommandInput, object: (&str, &str, &str), error: &FieldError) {
    let is_it = |kind: &str, namespace: &str, name: &str| (kind, namespace, name) == object;
    let mut files = case.new.objects.iter();
    let file = files.find(|loaded| {
        let key = &loaded.manifest.key;
        is_it(&loaded.manifest.kind, &key.namespace, &key.name)
    });
    let mut error = ErrorRow::from_error(error);
    file.into_iter().for_each(|loaded| error.locate(&loaded.manifest));
    if let Some(row) = rows.iter_mut().find(|row| is_it(row.kind, row.namespace, row.name)) {
        row.allowed = false;
        row.errors.push(error);
        return;
    }
    rows.extend(file.map(|loaded| ResultRow::from_template(loaded, error)));
}

/// Prints unreadable input and probable mistakes; returns the exit code if there is unreadable input.
pub(super) fn report_problems(case: &CommandInput) -> Result<Option<u8>> {
    let code = report_unreadable(case)?;
    if code.is_none() {
        empty::report_misspelled_kinds(case)?;
    }
    Ok(code)
}

/// Prints unreadable input; returns the exit code if there is any.
pub(super) fn report_unreadable(case: &CommandInput) -> Result<Option<u8>> {
    let each = || case.inputs().into_iter();
    for unreadable in each().flat_map(|input| &input.unreadable) {
        output::message(unreadable)?;
    }
    for passed_over in each().flat_map(|input| &input.passed_over) {
        output::message(format_args!("{passed_over}: passed over"))?;
    }
    if each().any(|input| !input.unreadable.is_empty()) {
        return Ok(Some(UNUSABLE));
    }
    Ok(None)
}

/// Why objects are denied, a line for each error.
pub(super) fn denials(subjects: &[ReviewSubject<'_>], facts: &Arc<Facts>, settings: &AdmissionSettings) -> Vec<String> {
    let of = |subject: &ReviewSubject<'_>| {
        let row = ResultRow::new(subject, offline::judge(subject, facts, settings, UnknownFields::Warn));
        let (file, line, kind, name) = (row.file, row.line, row.kind, &subject.loaded.manifest.key);
        let say = |error: &ErrorRow| format!("{file}:{line}: {kind} {name}: {}: {}", error.rule, error.rendered);
        row.errors.iter().map(say).collect::<Vec<_>>()
    };
    subjects.iter().flat_map(of).collect()
}

/// The result for one object in the output of `-o json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultRow<'a> {
    file: &'a str,
    #[serde(skip)]
    line: usize,
    api_version: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    operation: &'static str,
    allowed: bool,
    errors: Vec<ErrorRow>,
    warnings: Vec<String>,
    not_checked: Vec<RuleId>,
    /// The kinds of rendered objects whose CustomResourceDefinitions are not known.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    schemas_not_checked: BTreeSet<String>,
    patch: json_patch::Patch,
}

impl<'a> ResultRow<'a> {
    fn new(subject: &ReviewSubject<'a>, review: ObjectReview) -> Self {
        let (file, manifest) = (&subject.loaded.file, &subject.loaded.manifest);
        let mut errors: Vec<ErrorRow> = subject.defaulted.as_ref().map(shown).unwrap_or_default();
        errors.extend(review.schema_errors().map(ErrorRow::from_error));
        // Without a class name there is one thing to say, and defaulting has said it (CL-D-003).
        if errors.iter().all(|error| error.rule != "CL-D-003") {
            errors.extend(shown(&review.verdict));
        }
        if let Some(version) = manifest.version().filter(|_| !errors.is_empty() && review.misplaced.len() > 1) {
            errors.retain(|error| !error.follows_from(&review.misplaced));
            errors.insert(0, ErrorRow::other_version(version, &review.misplaced));
        }
        errors.iter_mut().for_each(|error| error.locate(manifest));
        let patch = subject.defaulted.as_ref().map(|verdict| verdict.printed_patch().clone()).unwrap_or_default();
        let warnings = review.verdict.warnings.into_iter().map(|Warning { text, .. }| text).chain(review.warnings);
        ResultRow {
            file,
            line: manifest.line,
            api_version: &manifest.api_version,
            kind: &manifest.kind,
            namespace: &manifest.key.namespace,
            name: &manifest.key.name,
            operation: subject.operation.name(),
            allowed: errors.is_empty(),
            errors,
            warnings: warnings.collect(),
            not_checked: review.verdict.not_checked,
            schemas_not_checked: BTreeSet::new(),
            patch,
        }
    }

    /// The result for an edit of a template, which is denied.
    fn from_template(loaded: &'a LoadedObject, error: ErrorRow) -> Self {
        let manifest = &loaded.manifest;
        ResultRow {
            file: &loaded.file,
            line: manifest.line,
            api_version: &manifest.api_version,
            kind: &manifest.kind,
            namespace: &manifest.key.namespace,
            name: &manifest.key.name,
            operation: Operation::Update.name(),
            allowed: false,
            errors: vec![error],
            warnings: Vec::new(),
            not_checked: Vec::new(),
            schemas_not_checked: BTreeSet::new(),
            patch: json_patch::Patch::default(),
        }
    }

    /// Adds the schema checks of the objects that an allowed object creates.
    fn inspect(&mut self, subject: &ReviewSubject<'_>, inspector: &Inspector<'_>) {
        let Some((kind, key)) = subject.stored().filter(|_| self.allowed) else { return };
        let Checks { refusals, unchecked, unusable } = inspector.checks(kind, key);
        self.warnings.extend(refusals.iter().map(ToString::to_string).chain(unusable));
        self.schemas_not_checked = unchecked;
    }
}

fn text(rows: &[ResultRow<'_>]) -> Text {
    let mut text = Text::default();
    for row in rows {
        let verdict = if row.allowed { "allowed" } else { "denied" };
        let operation = match row.operation {
            "CREATE" => "",
            "UPDATE" => " update",
            _ => " deletion",
        };
        let ResultRow { file, line, kind, namespace, name, .. } = row;
        text.line(format_args!("{file}:{line}: {kind} {namespace}/{name}:{operation} {verdict}"));
        row.errors.iter().for_each(|error| text.line(format_args!("  error {}: {}", error.rule, error.rendered)));
        row.warnings.iter().for_each(|warning| text.line(format_args!("  warning: {warning}")));
        if !row.not_checked.is_empty() {
            let rules = row.not_checked.join(", ");
            text.line(format_args!("  not checked, because the files do not hold the running cluster: {rules}"));
        }
    }
    let denied = rows.iter().filter(|row| !row.allowed).count();
    if !rows.is_empty() {
        text.line(format_args!("{} checked, {} allowed, {denied} denied", rows.len(), rows.len() - denied));
    }
    text
}
