//! API groups and their versions, in the order of discovery.

use std::cmp::Ordering;

use crate::storage::registry::KindRegistry;
use model::hub::contract::compare_versions;

/// The emulated release of Kubernetes.
pub(super) const RELEASE: &str = "v1.33.0";

/// Selects API groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupFilter {
    /// The core group.
    Core,
    Named,
}

/// The groups, sorted by name.
pub(super) fn groups(registry: &KindRegistry, which: GroupFilter) -> impl Iterator<Item = &str> {
    let mut names: Vec<&str> = registry.iter().map(|resource| &*resource.group).collect();
    names.dedup();
    names.into_iter().filter(move |name| name.is_empty() == (which == GroupFilter::Core))
}

/// The versions of a group, the preferred one first.
pub(super) fn versions<'a>(registry: &'a KindRegistry, group: &'a str) -> Vec<&'a str> {
    let mut versions: Vec<&str> = registry.group(group).map(|resource| &*resource.version).collect();
    versions.sort_by(|a, b| preference(a, b));
    versions.dedup();
    versions
}

fn preference(a: &str, b: &str) -> Ordering {
    compare_versions(b, a)
}

/// All groups with their versions.
pub(super) fn group_versions(registry: &KindRegistry) -> Vec<(&str, &str)> {
    let mut names: Vec<&str> = registry.iter().map(|resource| &*resource.group).collect();
    names.dedup();
    names
        .into_iter()
        .flat_map(|group| versions(registry, group).into_iter().map(move |version| (group, version)))
        .collect()
}
