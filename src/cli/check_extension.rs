//! `check-extension`: calls Runtime Extensions as the controllers would, and reports where they differ from what
//! callers expect.
//!
//! ```text
//! --files ─► topologies ─► PatchCall ─► ExtensionChecker ─► the extension ─► the answer is used
//!                                          └─► the same request with changes (extensions::behavior) ─► findings
//! ```

mod checker;
mod report;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::Value;

use super::args::{CheckExtensionArgs, FindingsFormat, ObjectFindingFlags};
use super::empty::{self, ExpectedInput};
use super::findings::SourceTexts;
use super::output;
use super::rollout::{self, RolloutSide};
use super::sources::{self, FILE_LIMIT};
use super::validate::{report_denials, report_problems};
use checker::{ExpectedCluster, ExtensionChecker};
use engine::file_review::ReviewSubject;
use engine::sample_clusters::{self, Draft};
use engine::topology::plan::TopologySimulator;
use model::hub::ObjectKey;
use model::variables::SampleExtent;
use model::world::{Facts, Found, Record};
use report::ExtensionReport;
use server::extension_client::Client;

/// Calls every handler that may be called, and prints the findings.
pub(super) fn run(options: &CheckExtensionArgs) -> Result<ExitCode> {
    let read = options
        .extension_ca
        .as_ref()
        .map(|file| sources::content(file, FILE_LIMIT).with_context(|| format!("cannot read {}", file.display())));
    let client = Client::trusting(read.transpose()?.as_deref()).context("--extension-ca")?;
    let side = RolloutSide::read(&options.files, &[], &options.input, &options.rules)?;
    if let Some(code) = report_problems(side.case())? {
        return Ok(ExitCode::from(code));
    }
    let lab = Arc::new(ExtensionChecker::discover(&options.extensions, client, &side.case().objects())?);
    let side = side.with_extensions(Some(lab.clone()));
    let subjects = side.subjects();
    let facts = side.facts(&subjects);
    for problem in lab.problems() {
        output::message(problem)?;
    }
    if report_denials(&side, &subjects, &facts, &ObjectFindingFlags::default())? {
        return Ok(ExitCode::from(1));
    }
    if !options.files.is_empty() {
        let fold = with_samples(side.fold(&facts), &facts, &side)?;
        let clusters = rollout::clusters(fold.facts(), None)?;
        if clusters.is_empty()
            && let Some(code) = empty::check_found(ExpectedInput::Rendered, side.case(), &options.input)?
        {
            return Ok(ExitCode::from(code));
        }
        lab.expect(expected(fold.facts(), &clusters));
        for cluster in clusters {
            if let Err(failure) = fold.compute(&cluster) {
                output::message(format_args!("Cluster {cluster}: {failure}"))?;
            }
        }
    }
    let classes: Vec<(ObjectKey, Value)> = subjects.iter().filter_map(ReviewSubject::class).collect();
    lab.check_others(&classes);
    let report = ExtensionReport::from_checker(&lab);
    let texts = SourceTexts::new([]);
    let findings = report.findings(&texts);
    if (options.format_version, options.findings.output) == (1, FindingsFormat::Json) {
        output::json(&report)?;
        return Ok(findings.exit_code(&options.findings));
    }
    findings.finish(&options.findings)
}

/// Adds a Cluster for each class that no Cluster uses.
fn with_samples(mut fold: TopologySimulator, facts: &Arc<Facts>, side: &RolloutSide) -> Result<TopologySimulator> {
    for class in facts.class_keys() {
        let Found::Yes(found) = facts.class(class) else { continue };
        let Some(version) =
            sample_clusters::version(&[&found], &[facts]).filter(|_| facts.user_keys(class).next().is_none())
        else {
            continue;
        };
        let key = sample_clusters::key(class, &[facts]);
        let drafts = SampleExtent::EACH.map(|extent| {
            Draft::generate(&found, &key, &version, extent, side.settings()).admitted(facts, side.settings())
        });
        match drafts.into_iter().reduce(Result::or) {
            Some(Ok(cluster)) => fold.facts_mut().put_cluster(key, Record::readable(cluster)),
            Some(Err(problem)) => {
                output::message(format_args!("ClusterClass {class}: no sample Cluster: {problem}"))?;
            }
            None => {}
        }
    }
    Ok(fold)
}

/// The known data of the Clusters whose topologies are computed.
fn expected(facts: &Facts, clusters: &[ObjectKey]) -> BTreeMap<ObjectKey, ExpectedCluster> {
    let of_cluster = |key: &ObjectKey| {
        let Found::Yes(cluster) = facts.cluster(key) else { return None };
        let class_key = cluster.class_key()?;
        let Found::Yes(class) = facts.class(&class_key) else { return None };
        let variables = class.variables().unwrap_or_default();
        let always = variables.iter().filter(|variable| variable.required || variable.has_default);
        let always_set = always.map(|variable| variable.name.clone()).collect();
        Some((key.clone(), ExpectedCluster { class: class_key, always_set }))
    };
    clusters.iter().filter_map(of_cluster).collect()
}
