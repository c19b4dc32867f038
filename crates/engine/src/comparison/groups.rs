//! Groups of Clusters with the same change (DEC-48).
//!
//! ```text
//! ClusterReport ─► SharedChange (without names of the Cluster: names.rs) ─► ChangeGroup ─► report.rs
//! ```

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::{Serialize, Serializer};

use super::cluster_report::{About, ChangeReport, ClusterReport, Fate, HeldReport, RollEffect, RollReport, StepReport};
use super::names::NamePlaceholders;
use crate::topology::plan::MachineCounts;
use model::hub::ObjectKey;

/// Clusters with the same change.
#[derive(Debug, Serialize)]
pub struct ChangeGroup {
    /// In descending order of replaced and removed machines.
    pub clusters: Vec<Member>,
    pub machines: MachineCounts,
    #[serde(flatten)]
    pub shared: SharedChange,
    /// Sums for each role.
    pub rolls: Vec<GroupRoll>,
    #[serde(skip)]
    pub deleted: usize,
    /// The report, if the group has a single Cluster.
    #[serde(skip)]
    pub alone: Option<Box<ClusterReport>>,
}

impl std::ops::Deref for ChangeGroup {
    type Target = SharedChange;

    fn deref(&self) -> &SharedChange {
        &self.shared
    }
}

/// A Cluster of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    pub key: ObjectKey,
    /// The minimum number of replaced and removed machines.
    pub affected: i64,
}

impl Serialize for Member {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.key)
    }
}

/// The common change of a group: without the names of objects and of the Cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SharedChange {
    #[serde(skip)]
    pub about: About,
    pub steps: Vec<GroupStep>,
    pub held: Vec<GroupHeldPart>,
    pub warnings: Vec<String>,
    pub errors: Vec<String>,
    #[serde(skip)]
    pub incomplete: Vec<String>,
    /// Whether its Clusters cannot be planned to their end.
    #[serde(skip)]
    pub fails: bool,
    /// Whether the API server would reject objects.
    #[serde(skip)]
    pub refuses: bool,
}

/// Equal writes of one or more objects.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupStep {
    pub action: &'static str,
    pub kind: String,
    pub role: &'static str,
    pub reason: String,
    pub certainty: &'static str,
    /// The differences.
    pub changes: Vec<ChangeReport>,
}

/// A part that waits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct GroupHeldPart {
    pub kind: String,
    pub reason: String,
}

/// The effect of a plan on the machines of a role.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRoll {
    pub kind: String,
    pub role: &'static str,
    #[serde(flatten)]
    pub effect: RollEffect,
}

impl ChangeGroup {
    /// A group with a single member.
    pub fn alone(report: ClusterReport) -> Self {
        let (_, group) = ChangeGroup::from_report(&report);
        ChangeGroup { alone: Some(Box::new(report)), ..group }
    }

    /// Whether its Clusters are samples of classes.
    pub fn is_sample(&self) -> bool {
        self.about.fate == Fate::Sample
    }

    /// Whether its Clusters are deleted.
    pub fn is_deleted(&self) -> bool {
        self.about.fate == Fate::Deleted
    }

    /// A group of one Cluster, and its id: the shared change in canonical order.
    pub fn from_report(report: &ClusterReport) -> (String, Self) {
        let names = NamePlaceholders::from_report(report);
        let shared = SharedChange::from_report(report, &names);
        let machines: MachineCounts = report.rolls.iter().map(|roll| roll.effect.machines).sum();
        let key = ObjectKey::new(&report.namespace, &report.name);
        let mut group = ChangeGroup {
            clusters: vec![Member { key, affected: affected(&machines) }],
            machines,
            rolls: Vec::new(),
            deleted: report.deleted,
            alone: None,
            shared,
        };
        group.add_rolls(report.rolls.iter().map(|roll| GroupRoll::from_report(roll, &names)));
        (group.shared.id(), group)
    }

    /// A copy of the group for an equivalent Cluster.
    #[must_use]
    pub fn for_equivalent(&self, key: ObjectKey) -> Self {
        let affected = affected(&self.machines);
        ChangeGroup {
            clusters: vec![Member { key, affected }],
            machines: self.machines,
            shared: self.shared.clone(),
            rolls: self.rolls.clone(),
            deleted: self.deleted,
            alone: None,
        }
    }

    /// Merges a group with the same change. Its entries keep the order of its first Cluster.
    pub fn join(&mut self, mut other: ChangeGroup) {
        if other.clusters.iter().map(|member| &member.key).min() < self.clusters.iter().map(|member| &member.key).min()
        {
            std::mem::swap(&mut self.shared, &mut other.shared);
        }
        self.clusters.append(&mut other.clusters);
        self.machines = [self.machines, other.machines].into_iter().sum();
        self.add_rolls(other.rolls);
        self.deleted += other.deleted;
        self.alone = None;
    }

    fn add_rolls(&mut self, rolls: impl IntoIterator<Item = GroupRoll>) {
        for roll in rolls {
            let is_same = |one: &&mut GroupRoll| {
                (&one.kind, one.role) == (&roll.kind, roll.role) && one.effect.is_alike(&roll.effect)
            };
            match self.rolls.iter_mut().find(is_same) {
                Some(sum) => sum.effect.add(&roll.effect),
                None => self.rolls.push(roll),
            }
        }
    }

    pub fn sort(&mut self) {
        self.clusters.sort_by(|one, other| other.affected.cmp(&one.affected).then_with(|| one.key.cmp(&other.key)));
        self.rolls.sort_by_key(GroupRoll::rank);
    }

    /// The sort key: samples last, then by replaced and removed machines, Clusters, and the name of the first.
    pub fn rank(&self) -> impl Ord {
        let first = self.clusters.first().map(|member| member.key.clone());
        let size = if self.has_content() { self.clusters.len() } else { 0 };
        (self.is_sample(), Reverse(self.affected()), Reverse(size), first)
    }

    /// How many machines are replaced or removed, at least.
    pub fn affected(&self) -> i64 {
        self.clusters.iter().fold(0, |sum, member| sum.saturating_add(member.affected))
    }

    /// Whether the group has changes, held parts or messages.
    pub fn has_content(&self) -> bool {
        let SharedChange { steps, held, warnings, errors, .. } = &self.shared;
        !(steps.is_empty() && self.rolls.is_empty() && held.is_empty() && errors.is_empty() && warnings.is_empty())
    }

    /// The parts that the plans of these Clusters leave out.
    pub fn incomplete(&self) -> Vec<String> {
        let several = match &*self.clusters {
            [one] => format!("Cluster {}", one.key),
            [first, rest @ ..] => format!("Cluster {} and {} more", first.key, rest.len()),
            [] => String::new(),
        };
        self.shared.incomplete.iter().map(|reason| reason.replacen("Cluster <cluster>", &several, 1)).collect()
    }
}

/// How many machines are replaced or removed, at least.
fn affected(machines: &MachineCounts) -> i64 {
    machines.replaced.unwrap_or(machines.at_least).saturating_add(machines.removed.unwrap_or_default())
}

impl SharedChange {
    fn from_report(report: &ClusterReport, names: &NamePlaceholders) -> Self {
        let texts = |texts: &[String]| distinct(texts.iter().map(|text| names.text(text)));
        SharedChange {
            about: report.about.clone(),
            steps: distinct(report.steps.iter().map(|step| GroupStep::from_report(step, names))),
            held: distinct(report.held.iter().map(|held| GroupHeldPart::from_report(held, names))),
            warnings: texts(&report.warnings),
            errors: texts(&report.errors),
            incomplete: texts(&report.incomplete),
            fails: report.fails,
            refuses: report.refuses,
        }
    }

    /// The id, independent of the order of steps: the order of worker sets differs between Clusters.
    fn id(&self) -> String {
        let texts = |all: &[String]| all.iter().cloned().collect::<BTreeSet<_>>();
        let steps: BTreeSet<String> = self.steps.iter().map(|step| serde_json::json!(step).to_string()).collect();
        let held: BTreeSet<&GroupHeldPart> = self.held.iter().collect();
        let messages = (texts(&self.warnings), texts(&self.errors), texts(&self.incomplete));
        format!("{:?}{steps:?}{held:?}{messages:?}", self.about)
    }
}

/// Distinct values in the order of their first occurrence.
fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    all.fold(Vec::new(), |mut distinct, one| {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
        distinct
    })
}

impl GroupStep {
    fn from_report(step: &StepReport, names: &NamePlaceholders) -> Self {
        let set = step.set.as_deref();
        GroupStep {
            action: step.action,
            kind: step.kind.clone(),
            role: step.role,
            reason: names.text(&step.reason),
            certainty: step.certainty,
            changes: step.changes.iter().flat_map(|change| names.changes(change, set)).collect(),
        }
    }
}

impl GroupHeldPart {
    fn from_report(held: &HeldReport, names: &NamePlaceholders) -> Self {
        GroupHeldPart { kind: held.kind.clone(), reason: names.text(&held.reason) }
    }
}

impl GroupRoll {
    fn from_report(roll: &RollReport, names: &NamePlaceholders) -> Self {
        GroupRoll {
            kind: roll.kind.clone(),
            role: roll.role,
            effect: RollEffect { reason: names.text(&roll.effect.reason), ..roll.effect.clone() },
        }
    }

    /// The sort key: descending by machines.
    fn rank(&self) -> impl Ord + use<> {
        (Reverse(affected(&self.effect.machines)), self.kind.clone(), self.role, self.effect.reason.clone())
    }
}
