//! Edited objects, and the Clusters and classes that an edit affects.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::topology::class_references::{created_kinds, group_version, references};
use golang::json::StringMap;
use model::hub::deletion_hold::is_pause;
use model::hub::{Cluster, ClusterClass, Object, ObjectKey, ObjectRef, TemplateRef, annotation, label};
use model::world::{Facts, Found};

/// A create or update that the rules allow.
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
    /// A new Cluster: it has no machines, but its objects may be invalid.
    NewCluster(Arc<Cluster>),
    Template {
        old: Arc<Object>,
        new: Arc<Object>,
    },
    /// A new template: classes may refer to it already, and a template of this name may have been deleted.
    NewTemplate(Arc<Object>),
}

/// The identity of an edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditId {
    uid: String,
    generation: i64,
    hash: u64,
}

impl Edit {
    /// The edited object in messages.
    pub fn subject(&self) -> String {
        match self {
            Edit::Class { new, .. } => format!("class {}", new.metadata.key()),
            Edit::Cluster { new, .. } | Edit::NewCluster(new) => format!("Cluster {}", new.metadata.key()),
            Edit::Template { new, .. } | Edit::NewTemplate(new) => format!("{} {}", new.kind(), new.key()),
        }
    }

    /// The edited object, its generation before the edit, and a hash of its new state: an API server sends another
    /// review when it retries an edit after a conflict.
    pub fn id(&self) -> EditId {
        let mut hasher = DefaultHasher::new();
        let (uid, generation) = match self {
            Edit::Class { new, .. } => {
                new.spec.hash(&mut hasher);
                (new.metadata.uid.clone(), new.metadata.generation)
            }
            Edit::Cluster { new, .. } | Edit::NewCluster(new) => {
                (&new.spec.topology, &new.spec.cluster_network, new.spec.paused).hash(&mut hasher);
                [&new.metadata.labels, &new.metadata.annotations].map(user_metadata).hash(&mut hasher);
                (new.metadata.uid.clone(), new.metadata.generation)
            }
            Edit::Template { new, .. } | Edit::NewTemplate(new) => {
                new.at("spec").map(ToString::to_string).hash(&mut hasher);
                let generation = new.generation();
                (new.uid().to_owned(), generation.unwrap_or_default())
            }
        };
        EditId { uid, generation, hash: hasher.finish() }
    }

    /// Whether the edit can affect machines. Writes of status and references by controllers are skipped without cost.
    pub fn matters(&self) -> bool {
        match self {
            Edit::Class { old, new } => old.spec != new.spec,
            Edit::Cluster { old, new } => {
                changes_spec(old, new)
                    || user_metadata(&old.metadata.labels) != user_metadata(&new.metadata.labels)
                    || user_metadata(&old.metadata.annotations) != user_metadata(&new.metadata.annotations)
            }
            Edit::NewCluster(new) => new.topology().is_some(),
            Edit::NewTemplate(_) => true,
            Edit::Template { old, new } => old.at("spec") != new.at("spec"),
        }
    }

    /// The templates of infrastructure and control plane of a new Cluster, without which its topology is not computed.
    pub fn templates(&self, stored: &Facts) -> Vec<ObjectRef> {
        let Edit::NewCluster(new) = self else { return Vec::new() };
        let Some(key) = new.class_key() else { return Vec::new() };
        let Found::Yes(class) = stored.class(&key) else { return Vec::new() };
        let reference = |template: &TemplateRef| {
            let key = ObjectKey::new(&key.namespace, &template.name);
            ObjectRef::new(&template.api_version, &template.kind, key)
        };
        [&class.spec.infrastructure.template_ref, &class.spec.control_plane.template_ref].map(reference).to_vec()
    }

    /// The number of worker sets of an edited Cluster; `None` for other objects.
    pub fn worker_sets(&self) -> Option<usize> {
        let (Edit::Cluster { new, .. } | Edit::NewCluster(new)) = self else { return None };
        let workers = &new.spec.topology.workers;
        Some(workers.machine_deployments.len() + workers.machine_pools.len())
    }

    /// The kinds of objects that are created for a new Cluster, by `apiVersion` and kind.
    pub fn created_kinds(&self, stored: &Facts) -> BTreeSet<(String, String)> {
        match self {
            Edit::NewCluster(new) => {
                new.class_key().map(|class| created_kinds_of_class(stored, &class)).unwrap_or_default()
            }
            _ => BTreeSet::new(),
        }
    }

    /// Whether a single Cluster is edited, whose objects are checked against the schemas of their definitions.
    pub fn is_of_cluster(&self) -> bool {
        matches!(self, Edit::Cluster { .. } | Edit::NewCluster(_))
    }
}

/// Whether an edit changes the topology of a Cluster, apart from labels and annotations.
pub(super) fn changes_spec(old: &Cluster, new: &Cluster) -> bool {
    let pause = |cluster: &Cluster| (cluster.spec.paused, cluster.pause_annotation().map(str::to_owned));
    old.spec.topology != new.spec.topology
        || old.spec.cluster_network != new.spec.cluster_network
        || pause(old) != pause(new)
}

/// Labels and annotations that controllers set on Clusters during a rollout.
const OF_CONTROLLERS: [&str; 7] = [
    label::CLUSTER_NAME,
    label::OWNED,
    annotation::UPGRADE_STEP,
    annotation::PENDING_HOOKS,
    annotation::OK_TO_DELETE,
    annotation::LAST_APPLIED,
    annotation::ROLLED_OUT,
];

/// Labels or annotations without those of controllers. Patches may read all others, including those of Cluster API.
fn user_metadata(all: &StringMap) -> BTreeMap<String, String> {
    let mut all = all.to_map();
    all.retain(|name, value| match name.as_str() {
        annotation::PAUSED => is_pause(value),
        name => !OF_CONTROLLERS.contains(&name),
    });
    all
}

/// The Clusters that use a class.
pub(super) fn users(stored: &Facts, class: &ObjectKey) -> Vec<Arc<Cluster>> {
    let cluster = |key| if let Found::Yes(cluster) = stored.cluster(key) { Some(cluster) } else { None };
    stored.user_keys(class).filter_map(cluster).collect()
}

/// The kinds of objects that are created for Clusters of a class.
pub(super) fn created_kinds_of_class(facts: &Facts, class: &ObjectKey) -> BTreeSet<(String, String)> {
    match facts.class(class) {
        Found::Yes(class) => created_kinds(&class.spec),
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
        references(&class.spec).into_iter().any(|reference| refers_to(reference, group, kind, &template.name))
    };
    stored.class_keys_in(&template.namespace).filter(refers).cloned().collect()
}

/// Whether a reference of a class names this template, in any version of its kind.
pub(super) fn refers_to(reference: &TemplateRef, group: &str, kind: &str, name: &str) -> bool {
    (&*reference.kind, &*reference.name) == (kind, name) && group_version(reference).is_ok_and(|(of, _)| of == group)
}
