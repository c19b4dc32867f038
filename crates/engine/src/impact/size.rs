//! Edits that make topologies too large to compute (DEC-58).
//!
//! Sizes are sums over stored objects, so that the verdict needs no computation. The affected Clusters of a class or
//! template are named as in DEC-1, without those that were too large before.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::edit::{Edit, classes_with, refers_to, users};
use crate::topology::size::{ClassSize, TopologyTooLarge};
use crate::topology::{SizeLimit, TopologySize};
use golang::json::Weight;
use model::hub::{Cluster, ClusterClass, Object, ObjectKey, ObjectRef, TemplateRef, annotation};
use model::world::{Facts, Found};
use schema::field::{ErrorKind, ErrorValue, FieldError, Path, RuleId, Warning, a_few, counted};

/// The sizes of classes by their keys, on one side of an edit.
#[derive(Debug)]
pub(super) struct ClassSizes(BTreeMap<ObjectKey, ClassSize>);

impl ClassSizes {
    /// The sizes of these classes with the templates among the facts.
    pub(super) fn for_classes<'c>(facts: &Facts, classes: impl Iterator<Item = &'c ObjectKey>) -> Self {
        let weight = |reference: &TemplateRef, namespace: &str| {
            let key = ObjectKey::new(namespace, &reference.name);
            match facts.objects()?.object(&ObjectRef::new(&reference.api_version, &reference.kind, key)) {
                Found::Yes(template) => Some(template.weight()),
                _ => None,
            }
        };
        let sizes = classes.filter_map(|key| {
            let Found::Yes(class) = facts.class(key) else { return None };
            let weigh = |reference: &TemplateRef| weight(reference, &key.namespace).unwrap_or_default();
            Some((key.clone(), ClassSize::from_class(&class, weigh)))
        });
        ClassSizes(sizes.collect())
    }

    /// The size of the topology of a Cluster; zero if its class is unknown.
    pub(super) fn topology_size(&self, facts: &Facts, key: &ObjectKey) -> TopologySize {
        let Found::Yes(cluster) = facts.cluster(key) else { return TopologySize::default() };
        let class = cluster.class_key().and_then(|class| self.0.get(&class));
        class.map(|class| class.topology(&cluster)).unwrap_or_default()
    }
}

/// The rule that denies topologies that are too large.
const RULE: RuleId = "DEC-58";
/// Maximum number of Clusters in an error.
const NAMED_CLUSTERS: usize = 5;

/// The error and the warnings of an edit about sizes of topologies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SizeVerdict {
    pub denial: Option<FieldError>,
    pub warnings: Vec<Warning>,
}

/// The treatment of edits that make topologies of stored Clusters too large (DEC-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Breaking {
    /// They are denied.
    #[default]
    Denied,
    /// They are allowed with a warning.
    Warned,
    /// The Clusters are not checked.
    Ignored,
}

/// The limit on topologies, and the treatment of edits that make those of stored Clusters too large.
#[derive(Clone, Copy, Debug)]
pub struct SizeRules {
    pub limit: SizeLimit,
    pub breaking: Breaking,
}

/// The inputs of sizes.
struct SizeInputs<'a, T> {
    stored: &'a Facts,
    template: T,
    rules: SizeRules,
}

impl SizeVerdict {
    /// The verdict on an edit; `template` returns known templates. Unknown ones have no weight.
    pub fn for_edit(
        edit: &Edit,
        stored: &Facts,
        template: impl Fn(&ObjectRef) -> Option<Arc<Object>>,
        rules: SizeRules,
    ) -> Self {
        let sizes = SizeInputs { stored, template, rules };
        match edit {
            Edit::NewCluster(new) => sizes.cluster_verdict(None, new),
            Edit::Cluster { old, new } => sizes.cluster_verdict(Some(old), new),
            Edit::Class { old, new } if old.spec != new.spec => sizes.class_verdict(old, new),
            Edit::Class { .. } => SizeVerdict::default(),
            Edit::Template { old, new } => sizes.template_verdict(Some(old), new),
            Edit::NewTemplate(new) => sizes.template_verdict(None, new),
        }
    }

    fn denied(path: Path, value: ErrorValue, detail: String) -> Self {
        let error = FieldError { rule: RULE, kind: ErrorKind::Invalid, path, value, detail };
        SizeVerdict { denial: Some(error), warnings: Vec::new() }
    }

    fn warned(text: String) -> Self {
        SizeVerdict { denial: None, warnings: vec![Warning::new(RULE, text)] }
    }
}

impl<T: Fn(&ObjectRef) -> Option<Arc<Object>>> SizeInputs<'_, T> {
    /// A new Cluster may not be too large, and a Cluster that is too large may not grow. One that stays the same is
    /// allowed: its class or templates may be fixed.
    fn cluster_verdict(&self, old: Option<&Cluster>, new: &Cluster) -> SizeVerdict {
        if new.topology().is_none() || new.metadata.is_being_deleted() {
            return SizeVerdict::default();
        }
        let size = |cluster: &Cluster| self.size(cluster);
        let Some(after) = size(new) else { return SizeVerdict::default() };
        let Err(error) = self.rules.limit.check(after) else { return SizeVerdict::default() };
        let path = Path::new("spec").child("topology").child("workers");
        let is_larger = |before: TopologySize| after.weight.beyond(before.weight) != Weight::default();
        if old.is_none_or(|old| size(old).is_none_or(is_larger)) {
            let workers = &new.spec.topology.workers;
            let sets = workers.machine_deployments.len() + workers.machine_pools.len();
            return SizeVerdict::denied(
                path,
                ErrorValue::bounded(&counted(sets, "worker set").into()),
                error.to_string(),
            );
        }
        SizeVerdict::warned(format!("{path}: {error}; the topology is not reconciled until then"))
    }

    fn class_verdict(&self, old: &ClusterClass, new: &ClusterClass) -> SizeVerdict {
        let key = new.metadata.key();
        let weigh = |reference: &TemplateRef| self.weight(reference, &key.namespace);
        let (before, after) = (ClassSize::from_edited(old, weigh), ClassSize::from_edited(new, weigh));
        let grown = self.grown([(&key, &before, &after)]);
        let allows = new.metadata.annotations.contains_key(annotation::ALLOW_BREAKING_CLUSTERS);
        self.dependents_verdict(grown, Path::new("spec"), allows, "ClusterClass")
    }

    fn template_verdict(&self, old: Option<&Arc<Object>>, new: &Arc<Object>) -> SizeVerdict {
        let (group, kind, key) = (new.group(), new.kind(), new.key());
        let with = |reference: &TemplateRef, edited: Weight| match refers_to(reference, group, kind, &key.name) {
            true => edited,
            false => self.weight(reference, &key.namespace),
        };
        let (lighter, heavier) = (old.map(|old| old.weight()).unwrap_or_default(), new.weight());
        let of_classes: Vec<(ObjectKey, ClassSize, ClassSize)> = classes_with(self.stored, group, kind, &key)
            .into_iter()
            .filter_map(|class| {
                let Found::Yes(found) = self.stored.class(&class) else { return None };
                let [before, after] =
                    [lighter, heavier].map(|edited| ClassSize::from_class(&found, |one| with(one, edited)));
                Some((class, before, after))
            })
            .collect();
        let grown = self.grown(of_classes.iter().map(|(class, before, after)| (class, before, after)));
        let allows = new.annotation(annotation::ALLOW_BREAKING_CLUSTERS).is_some();
        self.dependents_verdict(grown, Path::new("spec"), allows, kind)
    }

    /// The Clusters of these classes that become too large, with the error of each.
    fn grown<'c>(
        &self,
        classes: impl IntoIterator<Item = (&'c ObjectKey, &'c ClassSize, &'c ClassSize)>,
    ) -> Vec<(ObjectKey, TopologyTooLarge)> {
        let mut grown = Vec::new();
        if self.rules.breaking == Breaking::Ignored {
            return grown;
        }
        for (class, before, after) in classes {
            for cluster in users(self.stored, class) {
                let limit = self.rules.limit;
                let Err(error) = limit.check(after.topology(&cluster)) else { continue };
                if !cluster.metadata.is_being_deleted() && limit.check(before.topology(&cluster)).is_ok() {
                    grown.push((cluster.metadata.key(), error));
                }
            }
        }
        grown
    }

    fn dependents_verdict(
        &self,
        grown: Vec<(ObjectKey, TopologyTooLarge)>,
        path: Path,
        allows: bool,
        kind: &str,
    ) -> SizeVerdict {
        let Some((_, error)) = grown.first() else { return SizeVerdict::default() };
        let names: Vec<String> = grown.iter().map(|(key, _)| key.to_string()).collect();
        let clusters = if names.len() == 1 { "Cluster" } else { "Clusters" };
        let detail =
            format!("would break {clusters} {} at spec.topology.workers: {error}", a_few(&names, NAMED_CLUSTERS));
        if allows || self.rules.breaking == Breaking::Warned {
            return SizeVerdict::warned(format!("{path}: {detail}"));
        }
        let way_out = annotation::ALLOW_BREAKING_CLUSTERS;
        let detail = format!("{detail}; the annotation {way_out} on the {kind} turns this into a warning");
        SizeVerdict::denied(path, ErrorValue::bounded(&counted(names.len(), "Cluster").into()), detail)
    }

    /// The size of a Cluster's topology, if its class is known.
    fn size(&self, cluster: &Cluster) -> Option<TopologySize> {
        let key = cluster.class_key()?;
        let Found::Yes(class) = self.stored.class(&key) else { return None };
        Some(ClassSize::from_class(&class, |reference| self.weight(reference, &key.namespace)).topology(cluster))
    }

    fn weight(&self, reference: &TemplateRef, namespace: &str) -> Weight {
        let key = ObjectKey::new(namespace, &reference.name);
        let template = (self.template)(&ObjectRef::new(&reference.api_version, &reference.kind, key));
        template.map(|template| template.weight()).unwrap_or_default()
    }
}
