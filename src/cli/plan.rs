//! `plan`: what a change does to every Cluster.
//!
//! ```text
//! --from (or --live) ─► Fold, rolled out ─┐
//!                             ├─ for each Cluster: roll out ─► steps, rolls, what is held ─► text, JSON, Markdown
//! --to ───► Fold ─────────────┘
//! ```
//!
//! Both folds have sample Clusters of the classes that no Cluster uses (`samples.rs`).

mod classes;
mod report;
mod samples;
mod text;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::process::ExitCode;
use std::thread;

use anyhow::Result;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::args::{Input, Plan, PlanOutput};
use super::empty::{self, Wanted};
use super::offline::Subject;
use super::rollout::{self, Side};
use super::validate;
use crate::hub::ObjectKey;
use crate::topology::plan::{Fold, Outcome};
use crate::world::Found;
use report::{ClusterReport, Report};
use samples::{Half, Samples};

/// Prints what becomes of the Clusters on either side.
pub(super) fn run(options: &Plan) -> Result<ExitCode> {
    let (before, after) = sides(options)?;
    let (old, new) = (before.subjects(), after.subjects());
    if let Some(code) = unusable(&before, &after, &options.input)? {
        return Ok(ExitCode::from(code));
    }
    let facts = after.facts(&new);
    let denials = validate::denials(&new, &facts, after.settings());
    let old_facts = before.facts(&old);
    let now = options.now.unwrap_or_else(Timestamp::now);
    let (mut was, mut is) = (before.fold(&old_facts).at(now), after.fold(&facts).at(now));
    let samples = Samples::add(
        &mut Half { classes: classes(&old), facts: &old_facts, fold: &mut was },
        &mut Half { classes: classes(&new), facts: &facts, fold: &mut is },
        after.settings(),
        !options.live,
        options.cluster.as_ref(),
    );
    let clusters = all_clusters(&was, &is, options.cluster.as_ref())?;
    if clusters.is_empty()
        && samples.is_empty()
        && denials.is_empty()
        && let Some(code) = empty::settle(Wanted::Planned, after.case(), &options.input)?
    {
        return Ok(ExitCode::from(code));
    }
    let undecoded = after.undecoded_clusters(&facts);
    let clusters: Vec<ObjectKey> = clusters.into_iter().filter(|cluster| !undecoded.contains(cluster)).collect();
    let mut report = Report::of(in_parallel(&clusters, |cluster| samples.mark(compare(cluster, &was, &is))));
    samples.complete(&mut report);
    report.deny(denials);
    let printed = match options.output {
        PlanOutput::Text => text::plain(&report),
        PlanOutput::Markdown => text::markdown(&report),
        PlanOutput::Json => serde_json::to_string_pretty(&report)? + "\n",
    };
    super::print(&printed)?;
    Ok(ExitCode::from(report.exit_code()))
}

/// Says why the input cannot be used, and returns the exit code then.
fn unusable(before: &Side, after: &Side, flags: &Input) -> Result<Option<u8>> {
    for side in [before, after] {
        if let Some(code) = validate::unreadable(side.case())? {
            return Ok(Some(code));
        }
    }
    // The case of the new side holds the old one as well.
    empty::point_out_slips(after.case())?;
    match before.case().new.objects.is_empty() {
        true => Ok(empty::settle(Wanted::Compared, before.case(), flags)?),
        false => Ok(None),
    }
}

/// The classes of one side.
fn classes(subjects: &[Subject<'_>]) -> BTreeMap<ObjectKey, Value> {
    subjects.iter().filter_map(Subject::class).collect()
}

/// What is, and what is to be.
fn sides(options: &Plan) -> Result<(Side, Side)> {
    let (from, to) = (&options.from, &options.to);
    let after = Side::read(to, from, &options.input, &options.rules)?;
    if options.live {
        return after.with_cluster(options.kubeconfig.as_deref());
    }
    Ok((Side::read(from, &[], &options.input, &options.rules)?, after))
}

/// The Clusters with a topology of either side, by namespace and name.
fn all_clusters(before: &Fold, after: &Fold, wanted: Option<&ObjectKey>) -> Result<Vec<ObjectKey>> {
    let mut all = rollout::clusters(before.facts(), None)?;
    all.extend(rollout::clusters(after.facts(), None)?);
    all.sort();
    all.dedup();
    match wanted {
        Some(wanted) if all.contains(wanted) => Ok(vec![wanted.clone()]),
        Some(wanted) => rollout::clusters(after.facts(), Some(wanted)),
        None => Ok(all),
    }
}

/// What becomes of one Cluster; other Clusters have no say in it.
fn compare(cluster: &ObjectKey, before: &Fold, after: &Fold) -> ClusterReport {
    let mut old = before.clone();
    let (is_old, is_new) = (exists(before, cluster), exists(after, cluster));
    let settled = if is_old { old.settle(cluster) } else { Outcome::default() };
    if !is_new {
        return ClusterReport::deleted(cluster, &old);
    }
    let mut new = after.clone();
    if is_old {
        new.take_over(cluster, &old);
    }
    let outcome = new.roll_out(cluster);
    ClusterReport::of(cluster, before, after, settled, outcome)
}

fn exists(fold: &Fold, cluster: &ObjectKey) -> bool {
    matches!(fold.facts().cluster(cluster), Found::Yes(_) | Found::Unreadable(_))
}

/// Applies a function to each item, on all processors, and keeps the order.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let share = items.len().div_ceil(workers).max(1);
    thread::scope(|scope| {
        let work = &work;
        let shares: Vec<_> =
            items.chunks(share).map(|share| scope.spawn(move || share.iter().map(work).collect::<Vec<R>>())).collect();
        shares
            .into_iter()
            .flat_map(|share| share.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
