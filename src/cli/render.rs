//! `render`: the desired objects of topologies.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::Value;

use super::args::RenderArgs;
use super::empty::{self, ExpectedInput};
use super::extensions::CommandExtensions;
use super::output;
use super::rollout::{self, RolloutSide};
use super::schemas;
use super::validate::{denials, report_problems};
use engine::topology::explanations;
use engine::topology::inspection::InspectedObjects;
use engine::topology::patches::Trace;
use engine::topology::refusals::Checks;

/// Prints the objects of every Cluster, or of one.
pub(super) fn run(options: &RenderArgs) -> Result<ExitCode> {
    let side = RolloutSide::read(&options.paths, &[], &options.input, &options.rules)?;
    if let Some(code) = report_problems(side.case())? {
        return Ok(ExitCode::from(code));
    }
    let extensions = CommandExtensions::open(&options.extensions, || side.case().objects(), None)?;
    let side = side.with_extensions(extensions.clone().map(|extensions| extensions as _));
    let subjects = side.subjects();
    let facts = side.facts(&subjects);
    let denials = denials(&subjects, &facts, side.settings());
    for denial in &denials {
        output::message(format_args!("denied: {denial}"))?;
    }
    if !denials.is_empty() {
        return Ok(ExitCode::from(1));
    }
    let fold = side.fold(&facts);
    let clusters = rollout::clusters(fold.facts(), options.cluster.as_ref())?;
    if clusters.is_empty()
        && let Some(code) = empty::check_found(ExpectedInput::Rendered, side.case(), &options.input)?
    {
        return Ok(ExitCode::from(code));
    }
    let mut objects = Vec::new();
    let mut has_failed = false;
    let mut all = Checks::default();
    for cluster in clusters {
        for reason in explanations::unknown_variables_of(&cluster, fold.facts()) {
            output::message(format_args!("Cluster {cluster}: incomplete: {reason}"))?;
        }
        match fold.compute(&cluster) {
            Ok(computation) => {
                for note in notes(&computation.warnings, &computation.trace) {
                    output::message(format_args!("Cluster {cluster}: {note}"))?;
                }
                for unavailable in &computation.unavailable {
                    has_failed = true;
                    output::message(format_args!("Cluster {cluster}: {unavailable}"))?;
                }
                let InspectedObjects { objects: made, checks } =
                    InspectedObjects::from_computation(computation, fold.facts())?;
                objects.extend(made.into_iter().map(Value::from));
                for refusal in &checks.refusals {
                    has_failed |= !refusal.may_be_completed();
                    output::message(format_args!("Cluster {cluster}: {refusal}"))?;
                }
                all.extend(checks);
            }
            Err(failure) => {
                has_failed = true;
                let failure = explanations::explain(&failure, fold.facts());
                output::message(format_args!("Cluster {cluster}: {failure}"))?;
            }
        }
    }
    has_failed |= extensions.as_ref().is_some_and(|extensions| extensions.is_faulty());
    for reason in extensions.map(|extensions| extensions.finish(None)).transpose()?.unwrap_or_default() {
        output::message(reason)?;
    }
    for reason in &all.unusable {
        output::message(reason)?;
    }
    schemas::note(&all.unchecked)?;
    output::data(&super::default::written(&objects, options.output)?)?;
    Ok(ExitCode::from(u8::from(has_failed)))
}

/// Notes about a topology that can be computed.
fn notes(warnings: &[String], trace: &Trace) -> Vec<String> {
    let undefined = trace.undefined.iter().map(ToString::to_string);
    let not_asked = trace.not_asked.iter().map(|call| format!("not complete: {call}"));
    let ineffective = trace.ineffective.iter().map(ToString::to_string);
    warnings.iter().cloned().chain(undefined).chain(ineffective).chain(not_asked).collect()
}
