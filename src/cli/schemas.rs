//! Checks of objects of providers against the schemas of CustomResourceDefinitions, in commands.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Result;

use super::offline::CommandInput;
use super::output;
use super::rollout;
use engine::admission::AdmissionSettings;
use engine::sample_clusters::{self, Draft};
use engine::topology::class_references::{created_kinds, references};
use engine::topology::inspection::InspectedObjects;
use engine::topology::plan::TopologySimulator;
use engine::topology::refusals::Checks;
use model::hub::contract::definition_name;
use model::hub::{Kind, ObjectKey, ObjectRef, TemplateRef, group_of, version_of};
use model::variables::SampleExtent;
use model::world::{Class, Facts, Found, Record};

/// Prints once which kinds of objects were not checked.
pub(super) fn note(unchecked: &BTreeSet<String>) -> Result<()> {
    if !unchecked.is_empty() {
        let kinds: Vec<&str> = unchecked.iter().map(String::as_str).collect();
        output::message(format_args!(
            "not checked against CustomResourceDefinitions (give them with --crds): {}",
            kinds.join(", ")
        ))?;
    }
    Ok(())
}

/// The topologies of Clusters in files, and of sample Clusters of classes that no Cluster uses.
#[derive(Debug)]
pub(super) struct Inspector<'a> {
    fold: TopologySimulator,
    facts: &'a Arc<Facts>,
    settings: &'a AdmissionSettings,
}

impl<'a> Inspector<'a> {
    /// The topologies of these facts, with the objects and definitions of the files.
    pub(super) fn new(case: &CommandInput, facts: &'a Arc<Facts>, settings: &'a AdmissionSettings) -> Self {
        Inspector { fold: rollout::fold(case, facts, settings), facts, settings }
    }

    /// The checks of the objects of a Cluster, or of a sample Cluster of a class. Empty if the topology cannot be
    /// computed: `render` and `plan` report why.
    pub(super) fn checks(&self, kind: Kind, key: &ObjectKey) -> Checks {
        let class = match (kind, self.facts.cluster(key)) {
            (Kind::Cluster, Found::Yes(cluster)) => cluster.class_key(),
            (Kind::ClusterClass, _) => Some(key.clone()).filter(|class| self.facts.user_keys(class).next().is_none()),
            _ => None,
        };
        let Some(Found::Yes(class)) = class.map(|class| self.facts.class(&class)) else { return Checks::default() };
        if !self.has_templates(&class) {
            return Checks::default();
        }
        let made = created_kinds(&class.spec);
        let unchecked: BTreeSet<String> = made
            .iter()
            .filter(|(version, kind)| !self.has_schema(version, kind))
            .map(|(_, kind)| kind.clone())
            .collect();
        let is_worth_it = made.iter().any(|(version, kind)| self.has_schema(version, kind));
        let found = match kind {
            _ if !is_worth_it => None,
            Kind::ClusterClass => self.check_sample(key, &class),
            _ => inspect(&self.fold, key),
        };
        Checks { unchecked, ..found.unwrap_or_default() }
    }

    /// Whether the files contain all templates of a class, so that its objects can be checked.
    fn has_templates(&self, class: &Class) -> bool {
        let Some(objects) = self.fold.facts().objects() else { return false };
        let is_there = |reference: &&TemplateRef| {
            let key = ObjectKey::new(&class.metadata.namespace, &reference.name);
            let template = ObjectRef::new(&reference.api_version, &reference.kind, key);
            matches!(objects.object(&template), Found::Yes(_))
        };
        references(&class.spec).iter().all(is_there)
    }

    fn check_sample(&self, class: &ObjectKey, found: &Class) -> Option<Checks> {
        let version = sample_clusters::version(&[found], &[self.fold.facts()])?;
        let key = sample_clusters::key(class, &[self.facts]);
        SampleExtent::EACH.into_iter().find_map(|extent| {
            let draft = Draft::generate(found, &key, &version, extent, self.settings);
            let cluster = draft.admitted(self.facts, self.settings).ok()?;
            let mut fold = self.fold.clone();
            fold.facts_mut().put_cluster(key.clone(), Record::readable(cluster));
            inspect(&fold, &key)
        })
    }

    fn has_schema(&self, api_version: &str, kind: &str) -> bool {
        let definition = definition_name(group_of(api_version), kind);
        match self.fold.facts().objects().map(|objects| objects.definition(&definition)) {
            Some(Found::Yes(found)) => matches!(found.resource_schema(version_of(api_version)), Some(Ok(_))),
            _ => false,
        }
    }
}

fn inspect(fold: &TopologySimulator, cluster: &ObjectKey) -> Option<Checks> {
    Some(InspectedObjects::from_computation(fold.compute(cluster).ok()?, fold.facts()).ok()?.checks)
}
