//! The facts before and after an edit, and the Clusters that it concerns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::hub::contract::definition_name;
use crate::hub::deletion_hold::is_pause;
use crate::hub::{Cluster, ClusterClass, Definition, Object, ObjectKey, ObjectRef, annotation};
use crate::json::StringMap;
use crate::topology::class_references::{group_version, made_kinds, references};
use crate::topology::nameless::has_no_names;
use crate::variables;
use crate::world::{Answer, DefinitionName, Facts, Found, Need, Objects, Record};

/// How many bytes of compiled variables an edit may keep beside those of the stored classes (DEC-44).
const COMPILED: usize = 32 << 20;

/// An update that is allowed so far.
#[derive(Clone, Debug)]
pub enum Edit {
    Class {
        old: Arc<ClusterClass>,
        new: Arc<ClusterClass>,
    },
    Cluster {
        old: Arc<Cluster>,
        new: Arc<Cluster>,
    },
    /// A Cluster that is created: no machine runs in it, but its objects may be wrong.
    NewCluster(Arc<Cluster>),
    Template {
        old: Arc<Object>,
        new: Arc<Object>,
    },
}

impl Edit {
    /// What is edited, as messages name it.
    pub fn subject(&self) -> String {
        match self {
            Edit::Class { new, .. } => format!("class {}", new.metadata.key()),
            Edit::Cluster { new, .. } | Edit::NewCluster(new) => format!("Cluster {}", new.metadata.key()),
            Edit::Template { new, .. } => format!("{} {}", new.kind(), new.key()),
        }
    }

    /// Whether the edit can change what machines are made from. Controllers write status and references of what users wrote, and
    /// that costs nothing here.
    pub fn matters(&self) -> bool {
        match self {
            Edit::Class { old, new } => old.spec != new.spec,
            Edit::Cluster { old, new } => {
                changes_spec(old, new)
                    || of_users(&old.metadata.labels) != of_users(&new.metadata.labels)
                    || of_users(&old.metadata.annotations) != of_users(&new.metadata.annotations)
            }
            Edit::NewCluster(new) => new.topology().is_some(),
            Edit::Template { old, new } => old.at("spec") != new.at("spec"),
        }
    }

    /// The versions of kinds of which a new Cluster gets objects, by `apiVersion` and kind.
    pub fn made_kinds(&self, stored: &Facts) -> BTreeSet<(String, String)> {
        match self {
            Edit::NewCluster(new) => new.class_key().map(|class| made_by(stored, &class)).unwrap_or_default(),
            _ => BTreeSet::new(),
        }
    }

    /// Whether it is about one Cluster, whose objects are checked against the schemas of their definitions.
    pub fn is_of_cluster(&self) -> bool {
        matches!(self, Edit::Cluster { .. } | Edit::NewCluster(_))
    }
}

/// Whether an edit changes what a Cluster asks for, apart from labels and annotations.
fn changes_spec(old: &Cluster, new: &Cluster) -> bool {
    let asked = |cluster: &Cluster| (cluster.spec.paused, cluster.pause_annotation().map(str::to_owned));
    old.spec.topology != new.spec.topology
        || old.spec.cluster_network != new.spec.cluster_network
        || asked(old) != asked(new)
}

/// Labels or annotations without those that controllers write in the course of a rollout.
fn of_users(all: &StringMap) -> BTreeMap<String, String> {
    let mut all = all.to_map();
    all.retain(|name, value| match name.as_str() {
        annotation::PAUSED => is_pause(value),
        name => !name.contains("cluster.x-k8s.io/"),
    });
    all
}

/// An edit with the facts that its impact follows from.
#[derive(Debug)]
pub struct Case {
    pub(super) subject: String,
    pub(super) before: Facts,
    pub(super) after: Facts,
    /// By namespace and name.
    pub(super) clusters: Vec<Arc<Cluster>>,
    /// The classes of these Clusters, on both sides.
    classes: BTreeSet<ObjectKey>,
    /// Why the numbers may be wrong.
    pub(super) incomplete: Option<String>,
    /// What objects may hold, by the names of definitions: nothing else of them is known.
    pub(super) schemas: BTreeMap<String, Arc<Definition>>,
    /// The ExtensionConfig of an extension that may update machines in place.
    pub(super) updater: Option<String>,
}

impl Case {
    /// The case of an edit among the stored Clusters and classes; `None` for one that cannot do anything to machines.
    ///
    /// It compiles the variables of an edited class, which can take a second.
    pub fn of(edit: &Edit, stored: &Facts) -> Option<Self> {
        if !edit.matters() {
            return None;
        }
        let (mut before, mut after) = (stored.clone(), stored.clone());
        let mut classes = BTreeSet::new();
        let clusters = match edit {
            Edit::Class { old, new } => {
                let key = new.metadata.key();
                put_class(&mut before, old);
                put_class(&mut after, new);
                let clusters = users(stored, &key);
                classes.insert(key);
                clusters
            }
            Edit::Cluster { old, new } => {
                for (facts, cluster) in [(&mut before, old), (&mut after, new)] {
                    classes.extend(cluster.class_key());
                    facts.put_cluster(cluster.metadata.key(), Record::Readable(cluster.clone()));
                }
                // A class that looks at no names looks at no labels and annotations either.
                let is_nameless = |key| matches!(stored.class(key), Found::Yes(class) if has_no_names(&class));
                if !changes_spec(old, new) && classes.iter().all(is_nameless) {
                    return None;
                }
                settle(&classes, [&mut before, &mut after]);
                vec![new.clone()]
            }
            Edit::NewCluster(new) => {
                classes.extend(new.class_key());
                for facts in [&mut before, &mut after] {
                    facts.put_cluster(new.metadata.key(), Record::Readable(new.clone()));
                }
                settle(&classes, [&mut before, &mut after]);
                vec![new.clone()]
            }
            Edit::Template { new, .. } => {
                classes.extend(classes_with(stored, new.group(), new.kind(), &new.key()));
                settle(&classes, [&mut before, &mut after]);
                classes.iter().flat_map(|class| users(stored, class)).collect()
            }
        };
        let is_managed = |cluster: &Arc<Cluster>| cluster.topology().is_some() && !cluster.metadata.is_being_deleted();
        let clusters: Vec<_> = clusters.into_iter().filter(is_managed).collect();
        (!clusters.is_empty()).then(|| Case {
            subject: edit.subject(),
            before,
            after,
            clusters,
            classes,
            incomplete: None,
            schemas: BTreeMap::new(),
            updater: None,
        })
    }

    /// The templates of all classes, and the definitions of their kinds and of those that they become.
    pub fn needs(&self) -> BTreeSet<Need> {
        let mut needs = BTreeSet::new();
        for facts in [&self.before, &self.after] {
            for key in &self.classes {
                let Found::Yes(class) = facts.class(key) else { continue };
                for reference in references(&class.spec) {
                    // A review of the class has said what is wrong with the others.
                    let Ok((group, _)) = group_version(reference) else { continue };
                    let key = ObjectKey::new(&key.namespace, &reference.name);
                    needs.insert(Need::Object(ObjectRef::new(&reference.api_version, &reference.kind, key)));
                    let made = reference.kind.strip_suffix("Template").unwrap_or(&reference.kind);
                    needs.extend(
                        [&reference.kind, made]
                            .map(|kind| Need::Definition(DefinitionName(definition_name(group, kind)))),
                    );
                }
            }
        }
        needs
    }

    /// The versions of kinds of which the edited Clusters get objects, by `apiVersion` and kind.
    pub fn made_kinds(&self) -> BTreeSet<(String, String)> {
        self.classes.iter().flat_map(|class| made_by(&self.after, class)).collect()
    }

    /// The case with the schemas that were read for it, by the names of their definitions.
    #[must_use]
    pub fn with_schemas(self, schemas: BTreeMap<String, Arc<Definition>>) -> Self {
        Case { schemas, ..self }
    }

    /// The case with the ExtensionConfig of an extension that may update machines in place.
    #[must_use]
    pub fn with_updater(self, updater: Option<String>) -> Self {
        Case { updater, ..self }
    }

    /// The case with all that was read for it: there is nothing else.
    ///
    /// # Errors
    /// What could not be read.
    pub fn with(mut self, edit: &Edit, answers: Vec<(Need, Answer)>) -> Result<Self, String> {
        let mut objects = Objects::default();
        for (need, answer) in answers {
            if let Some(reason) = answer.unreadable() {
                return Err(format!("{need}: {reason}"));
            }
            match (need, answer) {
                (_, Answer::Object(Found::Yes(object))) => objects.put(object),
                (Need::Definition(DefinitionName(name)), Answer::Definition(Found::Yes(definition))) => {
                    objects.put_definition(name, definition);
                }
                _ => {}
            }
        }
        let mut edited = objects.clone();
        if let Edit::Template { old, new } = edit {
            let read = objects.in_any_version(new.group(), new.kind(), &new.key()).cloned();
            let version = read.as_ref().map_or(new.api_version(), |read| read.api_version());
            if version != new.api_version() {
                let versions = [new.api_version(), version].map(|one| one.rsplit('/').next().unwrap_or_default());
                self.incomplete =
                    Some(format!("the template is edited as {}, but its class refers to {}", versions[0], versions[1]));
            }
            objects.put(as_version(old, version));
            edited.put(as_version(new, version));
        }
        self.before = self.before.with_objects(objects);
        self.after = self.after.with_objects(edited);
        Ok(self)
    }

    /// The classes of its Clusters, on both sides.
    pub(super) fn classes(&self) -> impl Iterator<Item = &ObjectKey> {
        self.classes.iter()
    }
}

/// Puts stored classes whose last edit their controller has not seen yet as it will leave them: they may be edited together with
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

/// Puts a class as its controller will leave it. What is compiled of it is not kept with the stored classes.
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
    *facts = facts.clone().keeping(COMPILED);
    facts.put_class(key, Record::readable(class));
}

/// An object of another version of its kind. Fields have the names of the version that they were written in, since only the provider
/// can convert them: the sides differ where they differed before.
fn as_version(object: &Arc<Object>, version: &str) -> Arc<Object> {
    if object.api_version() == version {
        return object.clone();
    }
    let mut members = object.members().clone();
    members.insert("apiVersion".to_owned(), version.into());
    Arc::new(Object::from(members))
}

fn users(stored: &Facts, class: &ObjectKey) -> Vec<Arc<Cluster>> {
    let cluster = |key| if let Found::Yes(cluster) = stored.cluster(key) { Some(cluster) } else { None };
    stored.user_keys(class).filter_map(cluster).collect()
}

/// The versions of kinds of which Clusters of a class get objects.
fn made_by(facts: &Facts, class: &ObjectKey) -> BTreeSet<(String, String)> {
    match facts.class(class) {
        Found::Yes(class) => made_kinds(&class.spec),
        _ => BTreeSet::new(),
    }
}

/// Whether a class refers to this template.
pub fn is_of_a_class(stored: &Facts, group: &str, kind: &str, template: &ObjectKey) -> bool {
    !classes_with(stored, group, kind, template).is_empty()
}

/// The classes that refer to a template, in any version of its kind.
pub fn classes_with(stored: &Facts, group: &str, kind: &str, template: &ObjectKey) -> Vec<ObjectKey> {
    let refers = |key: &&ObjectKey| {
        let Found::Yes(class) = stored.class(key) else { return false };
        references(&class.spec).into_iter().any(|reference| {
            (&*reference.kind, &*reference.name) == (kind, &*template.name)
                && group_version(reference).is_ok_and(|(of, _)| of == group)
        })
    };
    stored.class_keys_in(&template.namespace).filter(refers).cloned().collect()
}
