//! Worlds of files, in which topologies are computed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};

use super::args;
use super::discovered::VariableServer;
use super::live::{self, ClusterConnection, Reach};
use super::offline::CommandInput;
use engine::admission::AdmissionSettings;
use engine::file_review::ReviewSubject;
use engine::topology::plan::{TopologySimulator, uid};
use engine::topology::{Options, SizeLimit};
use model::crd;
use model::hub::{Cluster, Kind, Object, ObjectKey};
use model::world::{Facts, Found, Record};
use schema::openapi::Violation;

/// The files of one side, and the reviews of their objects.
#[derive(Debug)]
pub(super) struct RolloutSide {
    case: CommandInput,
    settings: AdmissionSettings,
}

/// What rolls out a topology.
impl RolloutSide {
    /// Reads files; they replace the files `old`.
    ///
    /// # Errors
    /// When a path cannot be read at all.
    pub(super) fn read(
        paths: &[PathBuf],
        old: &[PathBuf],
        input: &args::InputFlags,
        rules: &args::RuleFlags,
    ) -> Result<Self> {
        Ok(RolloutSide { case: CommandInput::read(paths, old, input)?.kept_as_stored(), settings: rules.settings() })
    }

    /// Reads files that replace those of `before`.
    ///
    /// # Errors
    /// When a path cannot be read at all.
    pub(super) fn after(before: &RolloutSide, paths: &[PathBuf]) -> Result<Self> {
        let case = CommandInput::after(paths, &before.case)?.kept_as_stored();
        Ok(RolloutSide { case, settings: before.settings.clone() })
    }

    /// A running cluster, and the files of this side applied to it.
    ///
    /// # Errors
    /// When the cluster cannot be read.
    pub(super) fn with_cluster(self, connection: &ClusterConnection, reach: Reach) -> Result<(Self, Self)> {
        let RolloutSide { case, settings } = self;
        let files = {
            let subjects = case.subjects(&settings);
            case.facts(&subjects).with_objects(case.objects())
        };
        let live = live::read(connection, &files, self::options(&settings), reach)?;
        let after = RolloutSide { case: case.applied_to(&live).kept_as_stored(), settings: settings.clone() };
        Ok((RolloutSide { case: CommandInput::from_live(live), settings }, after))
    }

    /// The same, with calls of extensions.
    pub(super) fn with_extensions(self, extensions: Option<Arc<dyn VariableServer>>) -> Self {
        RolloutSide { case: self.case.with_extensions(extensions), ..self }
    }

    /// The objects that were read.
    pub(super) fn case(&self) -> &CommandInput {
        &self.case
    }

    /// The settings of the rules.
    pub(super) fn settings(&self) -> &AdmissionSettings {
        &self.settings
    }

    /// The reviewed objects, after their defaults.
    pub(super) fn subjects(&self) -> Vec<ReviewSubject<'_>> {
        self.case.subjects(&self.settings)
    }

    /// The facts of the reviews.
    pub(super) fn facts(&self, subjects: &[ReviewSubject<'_>]) -> Arc<Facts> {
        Arc::new(self.case.facts(subjects))
    }

    /// Clusters of the files that cannot be decoded: only the reason of their denial is known.
    pub(super) fn undecoded_clusters(&self, facts: &Facts) -> BTreeSet<ObjectKey> {
        let objects = self.case.new.objects.iter().map(|loaded| &loaded.manifest);
        let clusters = objects.filter(|manifest| manifest.admitted_kind() == Some(Kind::Cluster));
        let is_decoded = |key: &ObjectKey| matches!(facts.cluster(key), Found::Yes(_));
        clusters.map(|manifest| manifest.key.clone()).filter(|key| !is_decoded(key)).collect()
    }

    /// A world of only these facts and the files, in which the objects have their defaults.
    pub(super) fn fold(&self, facts: &Facts) -> TopologySimulator {
        fold(&self.case, facts, &self.settings)
    }
}

/// Clusters with texts, lists or maps that are larger than the API schema allows, each with its errors (DEC-44).
/// Computing their topologies could take any amount of time and memory.
pub(super) fn oversized(subjects: &[ReviewSubject<'_>]) -> BTreeMap<ObjectKey, Vec<String>> {
    let of = |cluster: Object| {
        let found = crd::oversized(Kind::Cluster, cluster.as_ref()).into_iter();
        let detail_at = |Violation { place, detail, .. }| format!("{}: {detail}", place.trim_start_matches('.'));
        let all: Vec<String> = found.map(detail_at).collect();
        (!all.is_empty()).then(|| (cluster.key(), all))
    };
    subjects.iter().filter_map(ReviewSubject::cluster).filter_map(of).collect()
}

/// The options of computations by these settings.
pub(super) fn options(settings: &AdmissionSettings) -> Options {
    Options::new(settings.gates.runtime_sdk).within(SizeLimit::for_text(settings.computation_limit))
}

/// See [`RolloutSide::fold`].
pub(super) fn fold(case: &CommandInput, facts: &Facts, settings: &AdmissionSettings) -> TopologySimulator {
    let mut objects = case.objects();
    if case.extensions().is_some() {
        // Extensions are sent Clusters as they are written.
        case.clusters().for_each(|cluster| objects.put(Arc::new(cluster)));
    }
    let mut facts = facts.clone().with_objects(objects);
    identify(&mut facts);
    let fold = TopologySimulator::new(facts, options(settings));
    match case.extensions() {
        Some(extensions) => fold.with_extensions(extensions),
        None => fold,
    }
}

/// Gives Clusters of files an identity, as an API server would.
fn identify(facts: &mut Facts) {
    let keys: Vec<ObjectKey> = facts.cluster_keys().cloned().collect();
    for key in keys {
        let Found::Yes(found) = facts.cluster(&key) else { continue };
        if found.metadata.uid.is_empty() {
            let mut cluster = Cluster::clone(&found);
            cluster.metadata.uid = uid(model::hub::GROUP, "Cluster", &key);
            facts.put_cluster(key, Record::readable(cluster));
        }
    }
}

/// The Clusters for a command: those with a topology, or the one with this name.
///
/// # Errors
/// When there is no Cluster with this name, or it has no topology.
pub(super) fn clusters(facts: &Facts, wanted: Option<&ObjectKey>) -> Result<Vec<ObjectKey>> {
    // What a Cluster that does not decode asks for is not known.
    let has_topology = |key: &&ObjectKey| match facts.cluster(key) {
        Found::Yes(one) => one.topology().is_some(),
        Found::Unreadable(_) => true,
        Found::Absent | Found::NotAsked => false,
    };
    let all: Vec<ObjectKey> = facts.cluster_keys().filter(has_topology).cloned().collect();
    let Some(wanted) = wanted else { return Ok(all) };
    if all.contains(wanted) {
        return Ok(vec![wanted.clone()]);
    }
    match facts.cluster(wanted) {
        Found::Yes(_) => bail!("Cluster {wanted} has no topology"),
        _ if all.is_empty() => bail!("there is no Cluster {wanted}, and no other with a topology"),
        _ => {
            let names: Vec<_> = all.iter().map(ToString::to_string).collect();
            bail!("there is no Cluster {wanted}; there is {}", names.join(", "))
        }
    }
}
