//! `plan`: the effect of a change on every Cluster.
//!
//! ```text
//! --from (or --live) ─► Fold, rolled out ─┐
//!                             ├─ for each Cluster: roll out ─► ClusterReport ─► groups of the same change ─► Report
//! --to ───► Fold ─────────────┘                                                             text, JSON, Markdown ◄─┘
//! ```
//!
//! Both folds have sample Clusters of the classes that no Cluster uses (`engine::comparison::class_samples`).

mod dry_run;
mod markdown;
mod text;
mod values;
mod phrases;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::Result;
use jiff::Timestamp;
use serde_json::Value;

use super::args::extensions::ExtensionFlags as Flags;
use super::args::{DryRunMode, InputFlags, PlanArgs, PlanFormat};
use super::choice;
use super::empty::{self, ExpectedInput};
use super::extensions::CommandExtensions;
use super::findings::{Finding, SourceTexts};
use super::held_edits::held_edits;
use super::live::{ClusterConnection, Reach};
use super::output;
use super::progress_bar::{OF_CLUSTERS, ProgressBar};
use super::rollout::{self, RolloutSide};
use super::topologies;
use super::validate;
use dry_run::ClusterDryRuns;
use engine::comparison::class_samples::{ClassSamples, ComparedSide};
use engine::comparison::cluster_report::ClusterReport;
use engine::comparison::compare;
use engine::comparison::report::{ComparisonReport, Keep, ReportCollector};
use engine::file_review::ReviewSubject;
use engine::topology::equivalent_clusters::{EquivalentClusters, grouped, ungrouped};
use model::hub::{Kind, ObjectKey};

/// Prints the plans of the Clusters of both sides.
pub(super) fn run(options: &PlanArgs) -> Result<ExitCode> {
    let started = Instant::now();
    let PlanSides { before, after, connection } = sides(options)?;
    let server = connection.clone().filter(|_| options.dry_run == DryRunMode::Server).map(ClusterDryRuns::new);
    if let Some(code) = unusable(&before, &after, &options.input)? {
        return Ok(ExitCode::from(code));
    }
    let extensions = extensions(options, &after, connection.as_deref())?;
    let [before, after] = [(before, &extensions[0]), (after, &extensions[1])]
        .map(|(side, extensions)| side.with_extensions(extensions.clone().map(|extensions| extensions as _)));
    let now = options.now.unwrap_or_else(Timestamp::now);
    let old = before.subjects();
    let (old_facts, old_classes, large_before) = (before.facts(&old), classes(&old), rollout::oversized(&old));
    let mut was = before.fold(&old_facts).at(now);
    drop(old);
    drop(before);
    let new = after.subjects();
    let (facts, new_classes, large) = (after.facts(&new), classes(&new), rollout::oversized(&new));
    let denied = validate::denials(&new, &facts, after.settings(), &SourceTexts::new(after.case().inputs()));
    let mut denials: Vec<String> = denied.iter().map(Finding::line).collect();
    let only_before = large_before.iter().filter(|(cluster, _)| !large.contains_key(*cluster));
    for (cluster, errors) in only_before {
        denials.extend(errors.iter().map(|error| format!("Cluster {cluster}, before the change: {error}")));
    }
    let ceiling = (after.settings(), options.ceiling.max_replaced_machines);
    let held = if denials.is_empty() { held_edits(after.case(), &new, &facts, ceiling, now) } else { Vec::new() };
    drop(new);
    let mut is = after.fold(&facts).at(now);
    if let Some(server) = &server {
        is = is.with_server(server.clone());
    }
    let samples = ClassSamples::add(
        &mut ComparedSide { classes: old_classes, facts: &old_facts, fold: &mut was },
        &mut ComparedSide { classes: new_classes, facts: &facts, fold: &mut is },
        after.settings(),
        !options.live,
        |sample| choice::wants_sample(sample, &options.clusters, options.selector.as_ref()),
    );
    let mut unplanned = after.undecoded_clusters(&facts);
    unplanned.extend(large.into_keys().chain(large_before.into_keys()));
    let clusters =
        choice::clusters([was.facts(), is.facts()], &unplanned, &options.clusters, options.selector.as_ref())?;
    if clusters.is_empty()
        && samples.is_empty()
        && denials.is_empty()
        && held.is_empty()
        && let Some(code) = empty::check_found(ExpectedInput::Planned, after.case(), &options.input)?
    {
        return Ok(ExitCode::from(code));
    }
    let clusters: Vec<ObjectKey> = clusters.into_iter().filter(|cluster| !unplanned.contains(cluster)).collect();
    let progress = ProgressBar::new(clusters.len(), OF_CLUSTERS, started);
    let denied: BTreeSet<ObjectKey> = denied
        .iter()
        .filter(|finding| finding.object.kind == Kind::Cluster.name())
        .map(|finding| ObjectKey::new(&finding.object.namespace, &finding.object.name))
        .collect();
    let compare = |cluster: &ObjectKey| {
        let mut report = samples.mark(compare(cluster, &was, &is));
        // The denial says why the version cannot be reached.
        if report.lacks_upgrade_plan && denied.contains(cluster) {
            report.errors = vec!["not planned, because its edit is denied".to_owned()];
        }
        report
    };
    let keep = if options.output == PlanFormat::Json { Keep::Everything } else { Keep::Groups };
    // Equal objects of two Clusters may have unequal answers of a server.
    let is_alone = keep == Keep::Everything || server.is_some() || extensions.iter().any(Option::is_some);
    let clusters = if is_alone { ungrouped(clusters) } else { grouped(clusters, &was, &is) };
    let collected = in_parallel(&clusters, keep, &progress, compare);
    drop(progress);
    let mut report = collected.into_report(denials);
    report.held_edits = held;
    samples.complete(&mut report);
    report.warnings = server.map(|server| server.untried()).unwrap_or_default();
    for extensions in extensions.into_iter().flatten() {
        let reasons = extensions.finish(None)?;
        report
            .warnings
            .extend(reasons.into_iter().filter(|reason| !report.warnings.contains(reason)).collect::<Vec<_>>());
    }
    print(&report, options)?;
    if options.output != PlanFormat::Json {
        topologies::note(&report.schemas_not_checked)?;
    }
    Ok(ExitCode::from(report.exit_code()))
}

/// Writes the plan in the requested format.
fn print(report: &ComparisonReport, options: &PlanArgs) -> io::Result<()> {
    match options.output {
        PlanFormat::Text => output::colored(&text::text(report, options.all), options.color),
        PlanFormat::Markdown => output::markdown(&markdown::comment(report)),
        PlanFormat::Json => output::json(report),
    }
}

/// Prints why the input cannot be used, and returns the exit code in that case.
fn unusable(before: &RolloutSide, after: &RolloutSide, flags: &InputFlags) -> Result<Option<u8>> {
    for side in [before, after] {
        if let Some(code) = validate::report_unreadable(side.case())? {
            return Ok(Some(code));
        }
    }
    // The case of the new side holds the old one as well.
    empty::report_misspelled_kinds(after.case())?;
    match before.case().new.objects.is_empty() {
        true => Ok(empty::check_found(ExpectedInput::Compared, before.case(), flags)?),
        false => Ok(None),
    }
}

/// The classes of one side.
fn classes(subjects: &[ReviewSubject<'_>]) -> BTreeMap<ObjectKey, Value> {
    subjects.iter().filter_map(ReviewSubject::class).collect()
}

/// The current state, the desired state, and the cluster that they were read from.
struct PlanSides {
    before: RolloutSide,
    after: RolloutSide,
    connection: Option<Arc<ClusterConnection>>,
}

fn sides(options: &PlanArgs) -> Result<PlanSides> {
    let (from, to) = (&options.from, &options.to);
    if options.live {
        let after = RolloutSide::read(to, from, &options.input, &options.rules)?;
        let connection = ClusterConnection::open(options.kubeconfig.as_deref())?;
        let (before, after) = after.with_cluster(&connection, Reach::Topologies)?;
        return Ok(PlanSides { before, after, connection: Some(Arc::new(connection)) });
    }
    let before = RolloutSide::read(from, &[], &options.input, &options.rules)?;
    let after = RolloutSide::after(&before, to)?;
    Ok(PlanSides { before, after, connection: None })
}

/// The extensions of each side: the same for both, unless flags name different ones.
fn extensions(
    options: &PlanArgs,
    after: &RolloutSide,
    cluster: Option<&ClusterConnection>,
) -> Result<[Option<Arc<CommandExtensions>>; 2]> {
    let objects = || after.case().objects();
    let open = |flags: &Flags| CommandExtensions::open(&flags.with(&options.hooks), objects, cluster);
    if !options.sides.differ() {
        let both = open(&options.extensions)?;
        return Ok([both.clone(), both]);
    }
    let [from, to] = [&options.sides.extension_from, &options.sides.extension_to];
    Ok([open(&options.extensions.over(from))?, open(&options.extensions.over(to))?])
}

/// Compares Clusters on all processors; a report goes into its group at once.
fn in_parallel(
    clusters: &[EquivalentClusters],
    keep: Keep,
    progress: &ProgressBar,
    compare: impl Fn(&ObjectKey) -> ClusterReport + Sync,
) -> ReportCollector {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut collected = ReportCollector::new(keep);
        while let Some(EquivalentClusters { first, others }) = clusters.get(next.fetch_add(1, Ordering::Relaxed)) {
            let apart = collected.add_equivalent(compare(first), others.clone());
            progress.add(1 + others.len() - apart.len());
            for cluster in apart {
                collected.add(compare(&cluster));
                progress.add(1);
            }
        }
        collected
    };
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(clusters.len());
    thread::scope(|scope| {
        let shares: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let shares =
            shares.into_iter().map(|share| share.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        shares.fold(ReportCollector::new(keep), |mut all, share| {
            all.merge(share);
            all
        })
    })
}
