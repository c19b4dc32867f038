//! Labels and annotations, from several sources.

use crate::topology::origin::Origin;
use golang::json::StringMap;
use model::hub::TopologyMetadata;
use schema::field::Path;

/// A label or an annotation, and what gives it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry<'a> {
    pub(super) key: &'a str,
    pub(super) value: &'a str,
    pub(super) origin: Origin,
}

impl<'a> Entry<'a> {
    /// One that the engine decides.
    pub(super) fn of_engine(key: &'a str, value: &'a str) -> Self {
        Entry { key, value, origin: Origin::Topology }
    }
}

/// The metadata that the Cluster and its class give to a part of the topology.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'a> {
    pub(super) topology: &'a TopologyMetadata,
    pub(super) class: &'a TopologyMetadata,
    /// Where the part stands in the Cluster.
    pub(super) topology_path: &'a str,
    /// Where its class stands in the ClusterClass.
    pub(super) class_path: &'a str,
}

impl<'a> Given<'a> {
    /// Labels, those of the topology over those of the class (LBL-02).
    pub(super) fn labels(&self) -> Vec<Entry<'a>> {
        self.merged("labels", &self.topology.labels, &self.class.labels)
    }

    /// Annotations, those of the topology over those of the class (LBL-02).
    pub(super) fn annotations(&self) -> Vec<Entry<'a>> {
        self.merged("annotations", &self.topology.annotations, &self.class.annotations)
    }

    fn merged(&self, what: &str, topology: &'a StringMap, class: &'a StringMap) -> Vec<Entry<'a>> {
        let path = |part: &str, key: &str| Path::ROOT.child(part).child("metadata").child(what).member(key).into_text();
        let of_class = class.iter().filter(|(key, _)| !topology.contains_key(key)).map(|(key, value)| {
            let origin = Origin::Class(path(self.class_path, key));
            Entry { key, value, origin }
        });
        let of_topology = topology.iter().map(|(key, value)| {
            let origin = Origin::Cluster(path(self.topology_path, key));
            Entry { key, value, origin }
        });
        of_class.chain(of_topology).collect()
    }
}
