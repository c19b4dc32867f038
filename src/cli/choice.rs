//! The Clusters of a plan or a simulation: all, or those that match `--cluster` and `--selector`.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use crate::cli::args::ClusterPattern;
use crate::cli::rollout;
use model::hub::{LabelRequirements, ObjectKey};
use model::world::{Facts, Found};
use schema::field::closest;

/// How many names a message lists.
const NAMES: usize = 8;

/// The selected Clusters with a topology of either side, by namespace and name; `others` exist as well, although they
/// do not decode.
///
/// # Errors
/// When a pattern or the selector matches no Cluster.
pub(super) fn clusters(
    sides: [&Facts; 2],
    others: &BTreeSet<ObjectKey>,
    patterns: &[ClusterPattern],
    selector: Option<&LabelRequirements>,
) -> Result<Vec<ObjectKey>> {
    let mut all = BTreeSet::new();
    for side in sides {
        all.extend(rollout::clusters(side, None)?);
    }
    for pattern in patterns {
        if !all.iter().chain(others).any(|key| pattern.matches(key)) {
            bail!(unmatched(pattern, &all, sides));
        }
    }
    let wanted = |key: &ObjectKey| patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(key));
    all.retain(wanted);
    if let Some(selector) = selector {
        let had_some = !all.is_empty();
        all.retain(|key| sides.iter().any(|side| has_labels(side, key, selector)));
        if had_some && all.is_empty() {
            bail!("no Cluster matches --selector");
        }
    }
    Ok(all.into_iter().collect())
}

/// Whether a plan of the selected Clusters includes a sample, which has no labels.
pub(super) fn wants_sample(
    sample: &ObjectKey,
    patterns: &[ClusterPattern],
    selector: Option<&LabelRequirements>,
) -> bool {
    selector.is_none() && (patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(sample)))
}

fn has_labels(side: &Facts, cluster: &ObjectKey, selector: &LabelRequirements) -> bool {
    match side.cluster(cluster) {
        Found::Yes(found) => selector.hold(|name| found.metadata.labels.get(name)),
        _ => false,
    }
}

/// The message about a pattern that matches no Cluster with a topology.
fn unmatched(pattern: &ClusterPattern, all: &BTreeSet<ObjectKey>, sides: [&Facts; 2]) -> String {
    let has_no_topology = |key: &&ObjectKey| pattern.matches(key);
    if let Some(key) = sides.iter().flat_map(|side| side.cluster_keys()).find(has_no_topology) {
        return format!("Cluster {key} has no topology");
    }
    let missing = match pattern.is_exact() {
        true => format!("there is no Cluster {pattern}"),
        false => format!("no Cluster matches {pattern}"),
    };
    match nearest(&pattern.to_string(), all) {
        names if names.is_empty() => format!("{missing}, and no other with a topology"),
        names => format!("{missing}; there is {names}"),
    }
}

/// Existing names, the closest first.
fn nearest(written: &str, all: &BTreeSet<ObjectKey>) -> String {
    let mut names: Vec<String> = all.iter().map(ToString::to_string).collect();
    let meant = closest(written, names.iter().map(String::as_str)).map(str::to_owned);
    names.sort_by_key(|name| Some(name) != meant.as_ref());
    let more = names.len().saturating_sub(NAMES);
    names.truncate(NAMES);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    names.join(", ") + &more
}
