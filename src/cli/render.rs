//! `render`: the desired objects of topologies.

use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::Value;

use super::args::RenderArgs;
use super::empty::{self, ExpectedInput};
use super::extensions::CommandExtensions;
use super::findings::{Finding, FindingObject, Report, SourceTexts, topology_findings};
use super::output;
use super::rollout::{self, RolloutSide};
use super::topologies::{self, Inspection};
use super::validate::{report_denials, report_problems};
use engine::file_review::LoadedObject;
use engine::topology::explanations;
use model::hub::{Kind, ObjectKey, paths};
use schema::field::{FieldPart, Level};

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
    if report_denials(&side, &subjects, &facts, &options.findings)? {
        return Ok(ExitCode::from(1));
    }
    let fold = side.fold(&facts);
    let clusters = rollout::clusters(fold.facts(), options.cluster.as_ref())?;
    if clusters.is_empty()
        && let Some(code) = empty::check_found(ExpectedInput::Rendered, side.case(), &options.input)?
    {
        return Ok(ExitCode::from(code));
    }
    let texts = SourceTexts::new(side.case().inputs());
    let (mut objects, mut findings, mut inspections) = (Vec::new(), Vec::new(), Vec::new());
    for cluster in &clusters {
        let loaded = find(&side, cluster).context("a Cluster is in no file")?;
        for reason in explanations::unknown_variables_of(cluster, fold.facts()) {
            let finding = Finding::new(Level::Warning, "DEC-5", format!("incomplete: {reason}"));
            findings.push(texts.finding((loaded, paths::cluster::TOPOLOGY_VARIABLES, FieldPart::Key), finding));
        }
        let mut inspection = Inspection::default();
        let made = topologies::inspect_computed(&fold, cluster, None, &mut inspection);
        objects.extend(made.into_iter().map(Value::from));
        let level = if options.incomplete { Level::Warning } else { Level::Error };
        let unanswered = std::mem::take(&mut inspection.unanswered).into_iter().map(|problem| (problem, level));
        let unknown = std::mem::take(&mut inspection.unknown).into_iter().map(|problem| (problem, Level::Error));
        inspection.problems.extend(unanswered.chain(unknown));
        inspections.push((loaded, inspection));
    }
    let problems = inspections.iter().flat_map(|(loaded, inspection)| {
        inspection.problems.iter().map(move |(problem, level)| (*level, problem, *loaded))
    });
    findings.extend(topology_findings(problems, side.case().inputs(), &texts));
    let judged = inspections.iter().map(|(loaded, _)| FindingObject::from_loaded(loaded)).collect();
    let report = Report::of_findings(findings, &texts).about(judged);
    report.write(&options.findings)?;
    let is_faulty = extensions.as_ref().is_some_and(|extensions| extensions.is_faulty());
    for reason in extensions.map(|extensions| extensions.finish(None)).transpose()?.unwrap_or_default() {
        output::message(reason)?;
    }
    topologies::note(inspections.iter().flat_map(|(_, inspection)| &inspection.unchecked))?;
    output::data(&super::default::written(&objects, options.output)?)?;
    Ok(ExitCode::from(u8::from(report.has_errors() || is_faulty)))
}

/// The Cluster in the files. Of several of a name, the last one of the new files counts, then one of the world.
fn find<'a>(side: &'a RolloutSide, cluster: &ObjectKey) -> Option<&'a LoadedObject> {
    let is_it = |loaded: &&LoadedObject| {
        loaded.manifest.admitted_kind() == Some(Kind::Cluster) && loaded.manifest.key == *cluster
    };
    let [new, old, world, crds] = side.case().inputs();
    [crds, old, world, new].into_iter().flat_map(|input| &input.objects).rfind(is_it)
}
