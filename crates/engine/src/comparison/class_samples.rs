//! Classes that no Cluster uses: a sample Cluster for each on both sides, or a comparison of its templates and patches
//! (DEC-48).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::class_changes::{self, ClassesByName, ComparedClass};
use super::cluster_report::{ClusterReport, Fate};
use super::report::ComparisonReport;
use crate::admission::AdmissionSettings;
use crate::sample_clusters::{self, Draft, DraftError};
use crate::topology::Failure;
use crate::topology::plan::TopologySimulator;
use model::hub::{Cluster, ClusterClass, ObjectKey};
use model::variables::SampleExtent;
use model::world::{Class, Facts, Found, Record};

/// The state before or after the change.
#[derive(Debug)]
pub struct ComparedSide<'a> {
    /// Its classes, those of a cluster included.
    pub classes: ClassesByName,
    /// The facts for the verdicts of the webhook.
    pub facts: &'a Arc<Facts>,
    /// The simulator of topologies.
    pub fold: &'a mut TopologySimulator,
}

/// The samples of classes that no Cluster uses.
#[derive(Debug, Default)]
pub struct ClassSamples {
    /// The sample Clusters, with the class of each and whether its class is new.
    clusters: BTreeMap<ObjectKey, Sample>,
    /// Classes without a sample, and those that only one side has.
    classes: Vec<ClusterReport>,
    incomplete: Vec<String>,
    /// Classes of which no Cluster can be created any more, with reasons.
    broken: Vec<String>,
}

#[derive(Debug)]
struct Sample {
    class: ObjectKey,
    version: String,
    is_new: bool,
    /// The warning if the sides have different samples.
    warning: Option<String>,
    /// Differences that the sample may not show.
    differences: Option<ClusterReport>,
}

/// The reason for which a class has no sample Cluster.
#[derive(Debug, thiserror::Error)]
enum SampleError {
    #[error("the class lists no Kubernetes version both before and after the change")]
    NoCommonVersion,
    #[error("before the change: {0}")]
    BeforeChange(#[source] Box<SampleError>),
    #[error(transparent)]
    Draft(#[from] DraftError),
    #[error(transparent)]
    Topology(Failure),
}

/// The sample Cluster on both sides, if the class exists on both.
struct SamplePair {
    old: Option<Cluster>,
    new: Cluster,
    warning: Option<String>,
}

impl SamplePair {
    /// Adds the Clusters to their sides.
    fn put(
        self,
        class: &ObjectKey,
        key: &ObjectKey,
        differences: Option<ClusterReport>,
        before: &mut ComparedSide<'_>,
        after: &mut ComparedSide<'_>,
    ) -> Sample {
        let SamplePair { old, new, warning } = self;
        let version = new.spec.topology.version.clone();
        let is_new = old.is_none();
        if let Some(old) = old {
            before.fold.facts_mut().put_cluster(key.clone(), Record::readable(old));
        }
        after.fold.facts_mut().put_cluster(key.clone(), Record::readable(new));
        Sample { class: class.clone(), version, is_new, warning, differences }
    }
}

impl ClassSamples {
    /// Adds sample Clusters to both sides, for all classes of the files that no Cluster uses; `removes` tells whether a
    /// class that only the old side has is deleted, and `wants` whether the plan includes a Cluster.
    pub fn add(
        before: &mut ComparedSide<'_>,
        after: &mut ComparedSide<'_>,
        settings: &AdmissionSettings,
        removes: bool,
        wants: impl Fn(&ObjectKey) -> bool,
    ) -> Self {
        let mut samples = ClassSamples::default();
        let (old, new): (Vec<_>, Vec<_>) =
            (before.classes.keys().cloned().collect(), after.classes.keys().cloned().collect());
        let gone = old.iter().filter(|class| removes && !new.contains(class));
        for class in new.iter().chain(gone) {
            let key = sample_clusters::key(class, &[before.fold.facts(), after.fold.facts()]);
            let is_used =
                [before.fold.facts(), after.fold.facts()].iter().any(|facts| facts.user_keys(class).next().is_some());
            if is_used || !wants(&key) {
                continue;
            }
            if new.contains(class) {
                samples.add_class(class, &key, before, after, settings);
            } else {
                samples.classes.push(class_changes::removed(class));
            }
        }
        samples
    }

    fn add_class(
        &mut self,
        class: &ObjectKey,
        key: &ObjectKey,
        before: &mut ComparedSide<'_>,
        after: &mut ComparedSide<'_>,
        settings: &AdmissionSettings,
    ) {
        // Unreadable classes are denied or reported elsewhere.
        let Found::Yes(new) = after.facts.class(class) else { return };
        let old = match before.classes.contains_key(class).then(|| before.facts.class(class)) {
            None => None,
            Some(Found::Yes(old)) => Some(old),
            Some(_) => return self.miss(class, "cannot read the class before the change"),
        };
        let sides = ComparedClass {
            before: (&before.classes, before.fold.facts()),
            after: (&after.classes, after.fold.facts()),
            classes: (old.as_ref().map(|old| &***old), &new),
        };
        let differences = class_changes::changed(class, &sides);
        let attempt = Attempt { key, old: old.as_ref(), new: &new, before, after, settings };
        match attempt.pair() {
            Ok(pair) => {
                let sample = pair.put(class, key, differences, before, after);
                self.clusters.insert(key.clone(), sample);
            }
            Err(reason) if attempt.breaks_class() => {
                self.broken
                    .push(format!("no sample Cluster of ClusterClass {class} can be created any more: {reason}"));
                self.classes.extend(differences);
            }
            Err(reason) => {
                self.miss(class, &reason.to_string());
                self.classes.extend(differences);
                self.classes.extend(old.is_none().then(|| class_changes::created(class)));
            }
        }
    }

    /// Records the reason for which a class has no sample.
    fn miss(&mut self, class: &ObjectKey, reason: &str) {
        self.incomplete
            .push(format!("cannot generate a sample Cluster of ClusterClass {class}, which no Cluster uses: {reason}"));
    }

    /// Whether there are no samples and no classes.
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty() && self.classes.is_empty() && self.incomplete.is_empty() && self.broken.is_empty()
    }

    /// Marks a report of a sample Cluster.
    pub fn mark(&self, mut report: ClusterReport) -> ClusterReport {
        let key = ObjectKey::new(&report.namespace, &report.name);
        let Some(Sample { class, version, is_new, warning, .. }) = self.clusters.get(&key) else { return report };
        let is_new = if *is_new { " is new" } else { "" };
        report.title = format!(
            "ClusterClass {class}{is_new}: sample Cluster {key} ({version}) of the class, generated from its schemas"
        );
        report.warnings.extend(warning.clone());
        report.sample = true;
        report.about.fate = Fate::Sample;
        report
    }

    /// Adds the entries of classes without a sample, and of those whose sample shows no difference.
    pub fn complete(mut self, report: &mut ComparisonReport) {
        let changed: BTreeSet<ObjectKey> = report
            .groups
            .iter()
            .filter(|group| group.is_sample() && !(group.steps.is_empty() && group.errors.is_empty()))
            .flat_map(|group| group.clusters.iter().map(|member| member.key.clone()))
            .collect();
        let shows = |key: &ObjectKey| changed.contains(key);
        let hidden = self.clusters.iter_mut().filter(|(key, _)| !shows(key));
        self.classes.extend(hidden.filter_map(|(_, sample)| sample.differences.take()));
        report.errors.extend(self.broken);
        report.add_classes(self.classes, self.incomplete);
    }
}

/// The inputs for the sample of one class.
struct Attempt<'a, 'b> {
    key: &'a ObjectKey,
    old: Option<&'a Arc<Class>>,
    new: &'a Arc<Class>,
    before: &'a ComparedSide<'b>,
    after: &'a ComparedSide<'b>,
    settings: &'a AdmissionSettings,
}

impl Attempt<'_, '_> {
    /// The sample of the old class if it is valid on both sides, else that of the new class, else one for each side.
    ///
    /// # Errors
    /// When no sample is valid.
    fn pair(&self) -> Result<SamplePair, SampleError> {
        let all: Vec<&ClusterClass> = self.old.into_iter().chain([self.new]).map(|class| &***class).collect();
        let version = sample_clusters::version(&all, &[self.before.fold.facts(), self.after.fold.facts()])
            .ok_or(SampleError::NoCommonVersion)?;
        let draft = |class: &Class, extent| Draft::generate(class, self.key, &version, extent, self.settings);
        let mut reason = None;
        for class in self.old.into_iter().chain([self.new]) {
            for extent in SampleExtent::EACH {
                let draft = draft(class, extent);
                match self.judged(self.old.is_some().then_some(&draft), &draft) {
                    Ok(pair) => return Ok(pair),
                    Err(error) => drop(reason.get_or_insert(error)),
                }
            }
        }
        let reason = reason.expect("at least the new class is tried");
        let Some(old) = self.old else { return Err(reason) };
        for extent in SampleExtent::EACH {
            if let Ok(pair) = self.judged(Some(&draft(old, extent)), &draft(self.new, extent)) {
                let warning = Some(format!(
                    "the sample differs before and after the change, because no sample is valid for both: {reason}"
                ));
                return Ok(SamplePair { warning, ..pair });
            }
        }
        Err(reason)
    }

    /// Whether the class had sample Clusters before the change, and has none after it, for reasons that do not depend on
    /// values that were made up.
    fn breaks_class(&self) -> bool {
        let Some(old) = self.old else { return false };
        let sample = |class: &Class, side: &ComparedSide<'_>, extent| {
            let version = sample_clusters::version(&[class], &[side.fold.facts()])?;
            let draft = Draft::generate(class, self.key, &version, extent, self.settings);
            Some((draft.has_variables(), self.side(&draft, side, &|_| true)))
        };
        let is_possible = |extent| matches!(sample(old, self.before, extent), Some((_, Ok(_))));
        let is_refused = |extent| match sample(self.new, self.after, extent) {
            Some((_, Err(SampleError::Draft(DraftError::Denied(_))))) => true,
            Some((has_variables, Err(SampleError::Topology(failure)))) => !(has_variables && is_of_values(&failure)),
            _ => false,
        };
        SampleExtent::EACH.into_iter().any(is_possible) && SampleExtent::EACH.into_iter().any(is_refused)
    }

    /// Both drafts, if they are valid on their sides.
    fn judged(&self, old: Option<&Draft>, new: &Draft) -> Result<SamplePair, SampleError> {
        let before = |error| SampleError::BeforeChange(Box::new(error));
        let old = old.map(|old| self.side(old, self.before, &|_| true).map_err(before)).transpose()?;
        // Errors in the files are reported by the plan.
        let new = self.side(new, self.after, &is_of_values)?;
        Ok(SamplePair { old, new, warning: None })
    }

    /// Checks a draft on one side; it is invalid if its topology fails and `counts` accepts the failure.
    fn side(
        &self,
        draft: &Draft,
        half: &ComparedSide<'_>,
        counts: &dyn Fn(&Failure) -> bool,
    ) -> Result<Cluster, SampleError> {
        let cluster = draft.admitted(half.facts, self.settings)?;
        let mut fold = half.fold.clone();
        fold.facts_mut().put_cluster(self.key.clone(), Record::readable(cluster.clone()));
        match fold.compute(self.key) {
            Err(failure) if counts(&failure) => Err(SampleError::Topology(failure)),
            _ => Ok(cluster),
        }
    }
}

/// Whether a failure depends on values of variables.
fn is_of_values(failure: &Failure) -> bool {
    matches!(failure, Failure::Patches(_) | Failure::InvalidCluster(_) | Failure::Naming { .. } | Failure::WrongType(_))
}
