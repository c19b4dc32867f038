//! The report of `plan` about all Clusters, in groups with a summary: `-o json` prints it unchanged.
//!
//! The report about a Cluster is dropped once it is part of its group, unless every Cluster is listed: thousands do not
//! fit into memory.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};

use super::cluster_report::ClusterReport;
use super::groups::ChangeGroup;
use super::held_edit::HeldEdit;
use crate::topology::plan::MachineCounts;
use crate::topology::refusals::UncheckedKind;
use model::hub::ObjectKey;

/// The report about all Clusters.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComparisonReport {
    /// Only if requested: text and Markdown only need the groups.
    pub clusters: Vec<ClusterReport>,
    /// Clusters with the same change, the most affected first (DEC-48).
    pub groups: Vec<ChangeGroup>,
    /// Classes that no Cluster uses, where no sample Cluster shows what changes.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "reports")]
    pub classes: Vec<ChangeGroup>,
    pub summary: Summary,
    /// Whether no part was left out.
    pub complete: bool,
    /// The parts left out, with reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<String>,
    /// Warnings about the plan as a whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The kinds of written objects that were not checked, because their CustomResourceDefinitions are not known.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub schemas_not_checked: BTreeSet<UncheckedKind>,
    /// The reasons for which the change would be denied.
    pub errors: Vec<String>,
    /// Edits that a ceiling holds until they are approved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held_edits: Vec<HeldEdit>,
}

/// Sums over all Clusters.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub clusters: usize,
    /// Clusters with changes.
    pub changed: usize,
    /// Those of them that are deleted.
    #[serde(skip)]
    pub deleted_clusters: usize,
    pub machines: MachineCounts,
    pub deleted_objects: usize,
    /// Clusters that cannot be planned.
    #[serde(skip)]
    pub failed: usize,
    /// Clusters with objects that the API server would reject.
    #[serde(skip)]
    pub refused: usize,
}

impl ComparisonReport {
    /// Adds classes that no Cluster uses, and the reasons for missing samples.
    pub fn add_classes(&mut self, classes: Vec<ClusterReport>, incomplete: Vec<String>) {
        self.summary.deleted_objects += classes.iter().map(|class| class.deleted).sum::<usize>();
        self.classes = classes.into_iter().map(ChangeGroup::alone).collect();
        self.incomplete.extend(incomplete);
        self.complete = self.incomplete.is_empty();
    }

    /// All groups: Clusters, samples, and classes without a sample.
    pub fn all(&self) -> impl Iterator<Item = &ChangeGroup> {
        self.groups.iter().chain(&self.classes)
    }

    /// 1 denied, held by a ceiling or not computable, 5 objects are deleted without replacement, 4 machines are
    /// replaced or removed, 3 other changes, 0 no changes (DEC-42).
    pub fn exit_code(&self) -> u8 {
        let any = |holds: fn(&ChangeGroup) -> bool| self.all().any(holds);
        match () {
            () if !self.errors.is_empty() || !self.held_edits.is_empty() || any(|group| !group.errors.is_empty()) => 1,
            () if any(|group| group.deleted > 0) => 5,
            () if any(|group| group.machines.affects_machines()) => 4,
            () if any(|group| !group.steps.is_empty()) => 3,
            () => 0,
        }
    }
}

/// Whether reports about Clusters are kept after grouping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Groups,
    Everything,
}

/// Reports of Clusters, in any order.
#[derive(Debug)]
pub struct ReportCollector {
    keep: Keep,
    groups: BTreeMap<String, ChangeGroup>,
    clusters: Vec<(String, ClusterReport)>,
    unchecked: BTreeSet<UncheckedKind>,
}

impl ReportCollector {
    pub fn new(keep: Keep) -> Self {
        ReportCollector { keep, groups: BTreeMap::new(), clusters: Vec::new(), unchecked: BTreeSet::new() }
    }

    /// Adds a Cluster to its group.
    pub fn add(&mut self, report: ClusterReport) {
        let (id, mut group) = ChangeGroup::from_report(&report);
        self.unchecked.extend(report.unchecked.iter().cloned());
        match self.keep {
            Keep::Groups if !self.groups.contains_key(&id) => group.alone = Some(Box::new(report)),
            Keep::Groups => {}
            Keep::Everything => self.clusters.push((id.clone(), report)),
        }
        self.join(id, group);
    }

    /// Adds a Cluster, and others with the same input; returns those whose plans may have another text nevertheless.
    pub fn add_equivalent(&mut self, report: ClusterReport, others: Vec<ObjectKey>) -> Vec<ObjectKey> {
        if others.is_empty() {
            self.add(report);
            return others;
        }
        let (id, group) = ChangeGroup::from_report(&report);
        self.add(report);
        // A name that is also a word of the text would be replaced in the text of its plan.
        let is_word = |key: &ObjectKey| id.contains(&key.name);
        if group.clusters.iter().any(|member| is_word(&member.key)) {
            return others;
        }
        let (apart, equal): (Vec<_>, Vec<_>) = others.into_iter().partition(is_word);
        for key in equal {
            self.join(id.clone(), group.for_equivalent(key));
        }
        apart
    }

    /// Adds groups that were collected elsewhere.
    pub fn merge(&mut self, other: ReportCollector) {
        self.clusters.extend(other.clusters);
        self.unchecked.extend(other.unchecked);
        other.groups.into_iter().for_each(|(id, group)| self.join(id, group));
    }

    fn join(&mut self, id: String, group: ChangeGroup) {
        match self.groups.get_mut(&id) {
            Some(there) => there.join(group),
            None => drop(self.groups.insert(id, group)),
        }
    }

    /// The report, in an order that does not depend on the order of additions.
    pub fn into_report(self, denials: Vec<String>) -> ComparisonReport {
        let mut groups: Vec<(String, ChangeGroup)> = self.groups.into_iter().collect();
        groups.iter_mut().for_each(|(_, group)| group.sort());
        groups.sort_by(|(_, one), (_, other)| one.rank().cmp(&other.rank()));
        let numbers: BTreeMap<&str, usize> = groups.iter().enumerate().map(|(i, (id, _))| (&**id, i)).collect();
        let number = |id: &str| numbers.get(id).copied().unwrap_or_default();
        let mut clusters: Vec<ClusterReport> = self
            .clusters
            .into_iter()
            .map(|(id, report)| ClusterReport { group: Some(number(&id)), ..report })
            .collect();
        clusters.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        let groups: Vec<ChangeGroup> = groups.into_iter().map(|(_, group)| group).collect();
        let incomplete = match self.keep {
            Keep::Everything => clusters.iter().flat_map(|cluster| cluster.incomplete.clone()).collect(),
            Keep::Groups => groups.iter().flat_map(ChangeGroup::incomplete).collect::<Vec<String>>(),
        };
        let summary = summary(&groups);
        ComparisonReport {
            clusters,
            groups,
            classes: Vec::new(),
            summary,
            complete: incomplete.is_empty(),
            incomplete,
            warnings: Vec::new(),
            schemas_not_checked: self.unchecked,
            errors: denials,
            held_edits: Vec::new(),
        }
    }
}

fn summary(groups: &[ChangeGroup]) -> Summary {
    // A sample has no machines.
    let real = || groups.iter().filter(|group| !group.is_sample());
    let clusters = |holds: fn(&&ChangeGroup) -> bool| real().filter(holds).map(|group| group.clusters.len()).sum();
    let all = |holds: fn(&&ChangeGroup) -> bool| groups.iter().filter(holds).map(|group| group.clusters.len()).sum();
    Summary {
        clusters: clusters(|_| true),
        changed: clusters(|group| !group.steps.is_empty()),
        deleted_clusters: clusters(|group| group.is_deleted() && !group.steps.is_empty()),
        machines: real().map(|group| group.machines).sum(),
        deleted_objects: real().map(|group| group.deleted).sum(),
        failed: all(|group| group.fails),
        refused: all(|group| group.refuses),
    }
}

/// Writes the reports of single Clusters and classes.
fn reports<S: Serializer>(groups: &[ChangeGroup], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(groups.iter().filter_map(|group| group.alone.as_deref()))
}
