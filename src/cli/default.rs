//! `default`: objects with the defaults of the mutating webhook.

use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::Value;

use super::args::{DefaultArgs, ObjectFormat};
use super::empty::{self, ExpectedInput};
use super::errors::shown;
use super::findings::{Finding, Report, SourceTexts};
use super::offline::CommandInput;
use super::output;
use super::validate::report_problems;
use engine::file_review::ReviewSubject;

/// Prints every object of the files; prints nothing if one of them is denied, so that a part cannot be applied.
pub(super) fn run(options: &DefaultArgs) -> Result<ExitCode> {
    let case = CommandInput::read(&options.paths, &[], &options.input)?;
    let subjects = case.subjects(&options.rules.settings());
    let texts = SourceTexts::new(case.inputs());
    let report = Report::of_findings(denials(&subjects, &texts), &texts);
    report.write(&options.findings)?;
    if let Some(code) = report_problems(&case)? {
        return Ok(ExitCode::from(code));
    }
    if report.has_errors() {
        return Ok(ExitCode::from(1));
    }
    if subjects.is_empty()
        && let Some(code) = empty::check_found(ExpectedInput::Defaulted, &case, &options.input)?
    {
        return Ok(ExitCode::from(code));
    }
    let mut left = subjects.into_iter().peekable();
    let mut objects = Vec::new();
    for loaded in &case.new.objects {
        let subject = left.next_if(|subject| std::ptr::eq(subject.loaded, loaded));
        let mut object = loaded.manifest.value.clone();
        if let Some(verdict) = subject.and_then(|subject| subject.defaulted) {
            json_patch::patch(&mut object, &verdict.patch).context("a change does not fit the object")?;
        }
        objects.push(object);
    }
    output::data(&written(&objects, options.output)?)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn written(objects: &[Value], output: ObjectFormat) -> Result<String> {
    if output == ObjectFormat::Json {
        return Ok(serde_json::to_string_pretty(objects)? + "\n");
    }
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(object)?);
    }
    Ok(text)
}

/// Why the mutating webhook denies objects.
fn denials(subjects: &[ReviewSubject<'_>], texts: &SourceTexts<'_>) -> Vec<Finding> {
    let of = |subject: &ReviewSubject<'_>| {
        let errors = subject.denial().map(|verdict| shown(&verdict)).unwrap_or_default();
        errors.into_iter().map(|error| texts.error(subject.loaded, &error)).collect::<Vec<_>>()
    };
    subjects.iter().flat_map(of).collect()
}
