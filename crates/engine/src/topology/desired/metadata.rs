//! Labels and annotations, from several sources.

use crate::topology::origin::Origin;
use golang::json::StringMap;
use model::hub::TopologyMetadata;
use schema::field::Path;

/// A label or an annotation with its origin.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MetadataEntry<'a> {
    pub(super) key: &'a str,
    pub(super) value: &'a str,
    pub(super) origin: Origin,
}

impl<'a> MetadataEntry<'a> {
    /// A label or an annotation that the engine sets.
    pub(super) fn from_engine(key: &'a str, value: &'a str) -> Self {
        MetadataEntry { key, value, origin: Origin::Topology }
    }
}

/// The metadata of a part of the topology in the Cluster and in its class.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetadataLayers<'a> {
    pub(super) topology: &'a TopologyMetadata,
    pub(super) class: &'a TopologyMetadata,
    /// The path of the part in the Cluster.
    pub(super) topology_path: &'a str,
    /// The path of its class in the ClusterClass.
    pub(super) class_path: &'a str,
}

impl<'a> MetadataLayers<'a> {
    /// Labels; those of the topology override those of the class (LBL-02).
    pub(super) fn labels(&self) -> Vec<MetadataEntry<'a>> {
        self.merged("labels", &self.topology.labels, &self.class.labels)
    }

    /// Annotations; those of the topology override those of the class (LBL-02).
    pub(super) fn annotations(&self) -> Vec<MetadataEntry<'a>> {
        self.merged("annotations", &self.topology.annotations, &self.class.annotations)
    }

    fn merged(&self, what: &str, topology: &'a StringMap, class: &'a StringMap) -> Vec<MetadataEntry<'a>> {
        let path = |part: &str, key: &str| Path::ROOT.child(part).child("metadata").child(what).member(key).into_text();
        let of_class = class.iter().filter(|(key, _)| !topology.contains_key(key)).map(|(key, value)| {
            let origin = Origin::Class(path(self.class_path, key));
            MetadataEntry { key, value, origin }
        });
        let of_topology = topology.iter().map(|(key, value)| {
            let origin = Origin::Cluster(path(self.topology_path, key));
            MetadataEntry { key, value, origin }
        });
        of_class.chain(of_topology).collect()
    }
}
