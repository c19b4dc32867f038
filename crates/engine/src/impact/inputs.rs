//! The facts before and after an edit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::bound::AffectedClusters;
use super::edit::{Edit, created_kinds_of_class, refers_to};
use crate::topology::class_references::{group_version, references};
use model::hub::contract::{definition_name, object_kind};
use model::hub::{Cluster, ClusterClass, Object, ObjectKey, ObjectRef, ResourceDefinition};
use model::variables;
use model::world::{Answer, DefinitionName, Facts, Found, Need, ObjectSet, Record};
use schema::budget::MemoryPool;

/// Maximum bytes of compiled variables of an edit beside those of the stored classes (DEC-44).
const COMPILED: usize = 32 << 20;

/// A fact that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{need}: {reason}")]
pub struct UnreadableFact {
    pub need: Box<Need>,
    pub reason: String,
}

/// The inputs of an edit's impact: the facts before and after it.
#[derive(Debug)]
pub struct ImpactInputs {
    pub(super) subject: String,
    pub(super) before: Facts,
    pub(super) after: Facts,
    /// By namespace and name.
    pub(super) clusters: Vec<Arc<Cluster>>,
    /// The classes of these Clusters, on both sides.
    classes: BTreeSet<ObjectKey>,
    /// The reason for which numbers may be wrong.
    pub(super) incomplete: Option<String>,
    /// The schemas of objects, by the names of definitions.
    pub(super) schemas: BTreeMap<String, Arc<ResourceDefinition>>,
    /// The ExtensionConfig of an extension that may update machines in place.
    pub(super) updater: Option<String>,
    /// The pool from which computations lease their memory.
    pub(super) memory: Option<Arc<MemoryPool>>,
}

impl ImpactInputs {
    /// The inputs of an edit among the stored Clusters and classes; `None` for an edit that cannot affect machines.
    ///
    /// It compiles the variables of an edited class, which can take a second.
    pub fn for_edit(edit: &Edit, stored: &Facts) -> Option<Self> {
        let AffectedClusters { clusters, classes } = AffectedClusters::for_edit(edit, stored)?;
        let (mut before, mut after) = (stored.clone(), stored.clone());
        match edit {
            Edit::Class { old, new } => {
                put_class(&mut before, old);
                put_class(&mut after, new);
            }
            Edit::Cluster { old, new } => {
                for (facts, cluster) in [(&mut before, old), (&mut after, new)] {
                    facts.put_cluster(cluster.metadata.key(), Record::Readable(cluster.clone()));
                }
                settle(&classes, [&mut before, &mut after]);
            }
            Edit::NewCluster(new) => {
                for facts in [&mut before, &mut after] {
                    facts.put_cluster(new.metadata.key(), Record::Readable(new.clone()));
                }
                settle(&classes, [&mut before, &mut after]);
            }
            Edit::Template { .. } | Edit::NewTemplate(_) => settle(&classes, [&mut before, &mut after]),
        }
        Some(ImpactInputs {
            subject: edit.subject(),
            before,
            after,
            clusters,
            classes,
            incomplete: None,
            schemas: BTreeMap::new(),
            updater: None,
            memory: None,
        })
    }

    /// The templates of all classes, and the definitions of their kinds and of the kinds of their objects.
    pub fn needs(&self) -> BTreeSet<Need> {
        let mut needs = BTreeSet::new();
        for facts in [&self.before, &self.after] {
            for key in &self.classes {
                let Found::Yes(class) = facts.class(key) else { continue };
                for reference in references(&class.spec) {
                    // Other references have been rejected by the review of the class.
                    let Ok((group, _)) = group_version(reference) else { continue };
                    let key = ObjectKey::new(&key.namespace, &reference.name);
                    needs.insert(Need::Object(ObjectRef::new(&reference.api_version, &reference.kind, key)));
                    needs.extend(
                        [&reference.kind, object_kind(&reference.kind)]
                            .map(|kind| Need::Definition(DefinitionName(definition_name(group, kind)))),
                    );
                }
            }
        }
        needs
    }

    /// The kinds of objects that are created for the edited Clusters, by `apiVersion` and kind.
    pub fn created_kinds(&self) -> BTreeSet<(String, String)> {
        self.classes.iter().flat_map(|class| created_kinds_of_class(&self.after, class)).collect()
    }

    /// Adds schemas, by the names of their definitions.
    #[must_use]
    pub fn with_schemas(self, schemas: BTreeMap<String, Arc<ResourceDefinition>>) -> Self {
        ImpactInputs { schemas, ..self }
    }

    /// Sets the ExtensionConfig of an extension that may update machines in place.
    #[must_use]
    pub fn with_updater(self, updater: Option<String>) -> Self {
        ImpactInputs { updater, ..self }
    }

    /// Sets the pool from which computations lease their memory, waiting for it if necessary.
    #[must_use]
    pub fn with_memory(self, memory: Arc<MemoryPool>) -> Self {
        ImpactInputs { memory: Some(memory), ..self }
    }

    /// Adds all facts that were read; other objects are absent. Templates share their specs with all copies of them.
    ///
    /// # Errors
    /// When a fact could not be read.
    pub fn with(mut self, edit: &Edit, answers: Vec<(Need, Answer)>) -> Result<Self, UnreadableFact> {
        let mut objects = ObjectSet::default();
        for (need, answer) in answers {
            if let Some(reason) = answer.unreadable() {
                let reason = reason.to_owned();
                return Err(UnreadableFact { need: Box::new(need), reason });
            }
            match (need, answer) {
                (_, Answer::Object(Found::Yes(object))) => objects.put(object.with_shared_spec()),
                (Need::Definition(DefinitionName(name)), Answer::Definition(Found::Yes(definition))) => {
                    objects.put_definition(name, definition);
                }
                _ => {}
            }
        }
        let mut edited = objects.clone();
        if let Edit::Template { new, .. } | Edit::NewTemplate(new) = edit {
            let read = objects.in_any_version(new.group(), new.kind(), &new.key()).cloned();
            let referred = read.as_ref().map(|read| read.api_version().to_owned()).or_else(|| self.version_of(new));
            let version = referred.as_deref().unwrap_or(new.api_version());
            if version != new.api_version() {
                let versions = [new.api_version(), version].map(|one| one.rsplit('/').next().unwrap_or_default());
                self.incomplete =
                    Some(format!("the template is edited as {}, but its class refers to {}", versions[0], versions[1]));
            }
            if let Edit::Template { old, .. } = edit {
                objects.put(as_version(old, version).with_shared_spec());
            }
            edited.put(as_version(new, version).with_shared_spec());
        }
        self.before = self.before.with_objects(objects);
        self.after = self.after.with_objects(edited);
        Ok(self)
    }

    /// The version in which a class refers to a template.
    fn version_of(&self, template: &Object) -> Option<String> {
        let key = template.key();
        let classes = self.classes.iter().filter(|class| class.namespace == key.namespace);
        let mut found = classes.filter_map(|class| match self.after.class(class) {
            Found::Yes(class) => {
                let mut all = references(&class.spec).into_iter();
                all.find(|one| refers_to(one, template.group(), template.kind(), &key.name))
                    .map(|one| one.api_version.clone())
            }
            _ => None,
        });
        found.next()
    }

    /// The classes of its Clusters, on both sides.
    pub(super) fn classes(&self) -> impl Iterator<Item = &ObjectKey> {
        self.classes.iter()
    }
}

/// Updates the status of stored classes that their controller has not reconciled yet: they may be edited together with
/// their templates and Clusters.
fn settle(classes: &BTreeSet<ObjectKey>, sides: [&mut Facts; 2]) {
    for facts in sides {
        for key in classes {
            if let Found::Yes(class) = facts.class(key) {
                put_class(facts, &class);
            }
        }
    }
}

/// Stores a class with the status that its controller will write. Its compiled variables are not cached with those of
/// the stored classes.
fn put_class(facts: &mut Facts, class: &ClusterClass) {
    let key = class.metadata.key();
    let is_stored = |stored: &ClusterClass| {
        stored.is_reconciled()
            && (&stored.spec, &stored.metadata.annotations) == (&class.spec, &class.metadata.annotations)
    };
    if matches!(facts.class(&key), Found::Yes(stored) if is_stored(&stored)) {
        return;
    }
    let mut class = class.clone();
    class.use_known_variables();
    class.status.variables = variables::expected_status(&class.spec, &class.status.variables).into();
    *facts = facts.clone().with_cache_capacity(COMPILED);
    facts.put_class(key, Record::readable(class));
}

/// An object with another version of its kind. Its fields are not converted, which only the provider can do;
/// differences between the sides stay the same.
fn as_version(object: &Arc<Object>, version: &str) -> Arc<Object> {
    if object.api_version() == version {
        return object.clone();
    }
    let mut members = object.members().clone();
    members.insert("apiVersion".to_owned(), version.into());
    Arc::new(Object::from(members))
}
