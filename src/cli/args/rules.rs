//! Flags of the admission rules, which the server and the commands share.

use clap::Args;
use clap::builder::BoolishValueParser;

use super::values::byte_size;
use crate::cli::named_values::{DEPENDENTS, DEPRECATED, named};
use engine::admission::{AdmissionSettings, Dependents, Deprecated, FeatureGates};

/// Switches of the admission rules.
#[derive(Clone, Debug, Args)]
pub struct RuleFlags {
    /// Feature gates, as Gate=true,Gate=false; the default names them all.
    #[arg(long, value_name = "GATES", default_value_t, env = "TOPOLOGIST_FEATURE_GATES")]
    pub feature_gates: FeatureGates,
    /// Minimum node startup timeout of a health check in seconds; 0 in the health check is always allowed.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(i32).range(0..),
        env = "TOPOLOGIST_MINIMUM_NODE_STARTUP_TIMEOUT")]
    pub minimum_node_startup_timeout: i32,
    /// How to treat a class change that breaks variables of existing Clusters.
    #[arg(long, value_name = "WHAT", default_value = "deny", value_parser = named(DEPENDENTS),
        env = "TOPOLOGIST_DEPENDENTS")]
    pub dependents: Dependents,
    /// Deny new Clusters that set infrastructureRef or controlPlaneRef together with a topology, instead of warning.
    #[arg(long, env = "TOPOLOGIST_REFUSE_REFS_WITH_TOPOLOGY", value_parser = BoolishValueParser::new())]
    pub refuse_refs_with_topology: bool,
    /// How to treat a Cluster that sets variables, or parts of them, that its ClusterClass marks as deprecated.
    #[arg(long, value_name = "WHAT", default_value = "warn", value_parser = named(DEPRECATED),
        env = "TOPOLOGIST_DEPRECATED")]
    pub deprecated: Deprecated,
    /// Maximum size of the topology of one Cluster, in bytes or as 512Ki or 64Mi: the bytes of all objects, each as
    /// large as its template, and of the variables that patches see. A larger one is not computed; a Cluster that needs
    /// it is invalid. In a server, the memory limit may lower it.
    #[arg(long, value_name = "SIZE", default_value = "64Mi", value_parser = byte_size,
        env = "TOPOLOGIST_COMPUTATION_LIMIT")]
    pub computation_limit: usize,
}

impl RuleFlags {
    /// The settings of the rules.
    pub fn settings(&self) -> AdmissionSettings {
        AdmissionSettings {
            gates: self.feature_gates,
            minimum_node_startup_timeout_seconds: self.minimum_node_startup_timeout,
            dependents: self.dependents,
            refuse_refs_with_topology: self.refuse_refs_with_topology,
            deprecated: self.deprecated,
            computation_limit: self.computation_limit,
            ..AdmissionSettings::default()
        }
    }
}

/// The ceiling of a server (DEC-53).
#[derive(Clone, Debug, Args)]
pub struct CeilingFlag {
    /// Report edits that replace or remove more machines than this as denied, as serve does with the same flag. The
    /// annotation topologist.dev/max-replaced-machines of a ClusterClass may set a lower number.
    #[arg(long, value_name = "NUMBER")]
    pub max_replaced_machines: Option<u32>,
}
