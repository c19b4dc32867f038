//! Groups of kinds and their versions, in the order in which clients get them.

use std::cmp::Ordering;

use crate::storage::registry::Registry;
use model::hub::contract::compare_versions;

/// The release of Kubernetes whose behaviour is followed.
pub(super) const RELEASE: &str = "v1.33.0";

/// Which groups are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Groups {
    /// The one without a name.
    Core,
    Named,
}

/// The groups, sorted by name.
pub(super) fn groups(registry: &Registry, which: Groups) -> impl Iterator<Item = &str> {
    let mut names: Vec<&str> = registry.iter().map(|resource| &*resource.group).collect();
    names.dedup();
    names.into_iter().filter(move |name| name.is_empty() == (which == Groups::Core))
}

/// The versions of a group, the one to prefer first.
pub(super) fn versions<'a>(registry: &'a Registry, group: &'a str) -> Vec<&'a str> {
    let mut versions: Vec<&str> = registry.group(group).map(|resource| &*resource.version).collect();
    versions.sort_by(|a, b| preference(a, b));
    versions.dedup();
    versions
}

fn preference(a: &str, b: &str) -> Ordering {
    compare_versions(b, a)
}

/// All groups in all their versions.
pub(super) fn group_versions(registry: &Registry) -> Vec<(&str, &str)> {
    let mut names: Vec<&str> = registry.iter().map(|resource| &*resource.group).collect();
    names.dedup();
    names
        .into_iter()
        .flat_map(|group| versions(registry, group).into_iter().map(move |version| (group, version)))
        .collect()
}
