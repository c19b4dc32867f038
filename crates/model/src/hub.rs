//! The one model of Cluster API's kinds: the v1beta2 shape, read leniently.
//!
//! Every admission rule and every computation uses these types, and their field names are those of error paths.
//! Decoding is lenient (`json`); rules are strict, and report paths.
//!
//! ```text
//! wire (v1beta1, v1beta2) ──► hub ──► world, admission, topology
//! ```

mod blocks;
mod cluster;
mod cluster_class;
pub mod compatibility;
pub mod condition;
pub mod contract;
pub mod control_plane;
mod definition;
pub mod deletion_hold;
mod hook;
mod label_requirements;
pub mod machine_defaults;
mod machines;
mod metadata;
mod name_template;
pub mod names;
pub mod naming;
mod object;
pub mod paths;
mod plural;

pub use blocks::*;
pub use cluster::*;
pub use cluster_class::*;
pub use definition::{LazySchema, ResourceDefinition};
pub use deletion_hold::DeletionHold;
pub use hook::Hook;
pub use label_requirements::LabelRequirements;
pub use machines::*;
pub use metadata::{Metadata, ObjectKey, annotation, label};
pub use name_template::{NameParts, NameSubject, NameTemplateError, default_name, name_from, prefixed_name};
pub use object::{Object, ObjectRef, SharedValues, WrongType, group_of, type_of, version_of};

/// The API group of Cluster and ClusterClass.
pub const GROUP: &str = "cluster.x-k8s.io";

/// The field manager of the objects of topologies (SSA-01, DEC-30).
pub const TOPOLOGY_MANAGER: &str = "capi-topology";

/// A kind known to the admission rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Cluster,
    ClusterClass,
    MachineDeployment,
    MachineSet,
    Machine,
    MachineHealthCheck,
}

impl Kind {
    /// The kinds that are always validated, also in files.
    pub const ALL: [Kind; 2] = [Kind::Cluster, Kind::ClusterClass];

    /// The kinds that are validated if topologist manages machines (MA-28). They exist in v1beta2 only.
    pub const OF_MACHINES: [Kind; 4] =
        [Kind::MachineDeployment, Kind::MachineSet, Kind::Machine, Kind::MachineHealthCheck];

    /// `Cluster`, `ClusterClass`.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Cluster => "Cluster",
            Kind::ClusterClass => "ClusterClass",
            Kind::MachineDeployment => "MachineDeployment",
            Kind::MachineSet => "MachineSet",
            Kind::Machine => "Machine",
            Kind::MachineHealthCheck => "MachineHealthCheck",
        }
    }

    /// The resource name in REST paths.
    pub const fn plural(self) -> &'static str {
        match self {
            Kind::Cluster => "clusters",
            Kind::ClusterClass => "clusterclasses",
            Kind::MachineDeployment => "machinedeployments",
            Kind::MachineSet => "machinesets",
            Kind::Machine => "machines",
            Kind::MachineHealthCheck => "machinehealthchecks",
        }
    }

    /// The kind `name`, if it is always validated.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::openapi::{Schema, SchemaDefinition};

    /// A new field must fit as well: rarely used values are `Rare`, common ones `SharedValue`.
    #[test]
    fn types_with_thousands_of_values_are_small() {
        for (what, bytes, most) in [
            ("a Cluster", size_of::<Cluster>(), 832),
            ("a machine deployment of a Cluster", size_of::<MachineDeploymentTopology>(), 224),
            ("a machine pool of a Cluster", size_of::<MachinePoolTopology>(), 184),
            ("a value of a variable", size_of::<VariableValue>(), 40),
            ("a variable of a class", size_of::<VariableDefinition>(), 80),
            ("a variable of a status", size_of::<StatusVariableDefinition>(), 80),
            ("a node of a schema as written", size_of::<SchemaDefinition>(), 464),
            ("a node of a compiled schema", size_of::<Schema>(), 464),
        ] {
            assert!(bytes <= most, "{what} takes {bytes} bytes");
        }
    }
}
