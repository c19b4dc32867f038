//! Switches of the admission rules.

use std::fmt;
use std::str::FromStr;

use schema::field::RuleId;

/// The default of [`AdmissionSettings::computation_limit`].
const COMPUTATION_LIMIT: usize = 64 << 20;

/// Settings of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionSettings {
    pub gates: FeatureGates,
    /// The smallest node startup timeout other than 0, in seconds (HCK-001).
    pub minimum_node_startup_timeout_seconds: i32,
    /// How to treat a change of a class that breaks Clusters (DEC-1).
    pub dependents: Dependents,
    /// Whether new Clusters with a topology are denied if they have references (DEC-20).
    pub refuse_refs_with_topology: bool,
    /// How to treat deprecated variables that a Cluster sets (VAR-V-040).
    pub deprecated: Deprecated,
    /// Maximum size of a Cluster's topology in bytes (DEC-58).
    pub computation_limit: usize,
    /// Whether denials are enforced (DEC-38).
    pub enforce: Enforce,
    /// Whether topologist runs the lifecycle of machines, so that their kinds are validated as well (MA-28).
    pub lifecycle: bool,
    /// A rule to skip as if it did not exist; tests use it to prove that every rule is needed.
    pub silenced: Option<RuleId>,
}

impl Default for AdmissionSettings {
    fn default() -> Self {
        AdmissionSettings {
            gates: FeatureGates::default(),
            minimum_node_startup_timeout_seconds: 30,
            dependents: Dependents::default(),
            refuse_refs_with_topology: false,
            deprecated: Deprecated::default(),
            computation_limit: COMPUTATION_LIMIT,
            enforce: Enforce::default(),
            lifecycle: false,
            silenced: None,
        }
    }
}

/// What happens when a change of a class breaks Clusters that use it (DEC-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dependents {
    /// The change is denied.
    #[default]
    Deny,
    /// The change is allowed with warnings.
    Warn,
    /// The Clusters are not checked.
    Off,
}

/// What happens when a Cluster sets what its class deprecates (VAR-V-040).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deprecated {
    /// The Cluster gets warnings.
    #[default]
    Warn,
    /// New uses are denied; the Cluster gets warnings about earlier ones.
    Deny,
}

/// Whether denials are meant (DEC-38).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Enforce {
    /// A denial denies.
    #[default]
    Deny,
    /// A denial becomes warnings, an audit annotation and a metric.
    Warn,
}

/// Feature gates (DEC-13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    /// ClusterClasses and topologies are enabled.
    pub cluster_topology: bool,
    /// Patches may call Runtime Extensions.
    pub runtime_sdk: bool,
    /// Machine pools are in sample Clusters; no admission rule reads it (CT-13.4).
    pub machine_pool: bool,
    /// Taints may be set in classes and topologies.
    pub machine_taint_propagation: bool,
}

impl Default for FeatureGates {
    fn default() -> Self {
        FeatureGates { cluster_topology: true, runtime_sdk: true, machine_pool: true, machine_taint_propagation: false }
    }
}

/// The names of all gates that are built, for messages.
pub(super) const GATE_NAMES: &str = "ClusterTopology, RuntimeSDK, MachinePool, MachineTaintPropagation";

/// An error in a list of feature gates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownGate {
    #[error("{0:?} is not of the form Gate=true or Gate=false")]
    Form(String),
    #[error("unknown feature gate {0:?}; known gates: {GATE_NAMES}")]
    Name(String),
    #[error("feature gate InPlaceUpdates cannot be true: in-place updates are not supported")]
    NotBuilt,
}

impl FromStr for FeatureGates {
    type Err = UnknownGate;

    /// Parses `A=true,B=false`; other gates keep their default, and the last value of a gate is used.
    fn from_str(text: &str) -> Result<Self, UnknownGate> {
        let mut gates = FeatureGates::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let form = || UnknownGate::Form(item.to_owned());
            let (name, value) = item.split_once('=').ok_or_else(form)?;
            let value: bool = value.trim().to_ascii_lowercase().parse().map_err(|_| form())?;
            match name.trim() {
                "ClusterTopology" => gates.cluster_topology = value,
                "RuntimeSDK" => gates.runtime_sdk = value,
                "MachinePool" => gates.machine_pool = value,
                "MachineTaintPropagation" => gates.machine_taint_propagation = value,
                "InPlaceUpdates" if value => return Err(UnknownGate::NotBuilt),
                "InPlaceUpdates" => {}
                other => return Err(UnknownGate::Name(other.to_owned())),
            }
        }
        Ok(gates)
    }
}

impl fmt::Display for FeatureGates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ClusterTopology={},RuntimeSDK={},MachinePool={},MachineTaintPropagation={}",
            self.cluster_topology, self.runtime_sdk, self.machine_pool, self.machine_taint_propagation
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feature_gates_are_read_in_the_kubernetes_format() {
        // CT-13.4
        // DEC-13
        let off = FeatureGates { cluster_topology: false, machine_taint_propagation: true, ..FeatureGates::default() };
        assert_eq!("ClusterTopology=false, MachineTaintPropagation=True".parse(), Ok(off));
        assert_eq!("".parse(), Ok(FeatureGates::default()));
        assert_eq!("InPlaceUpdates=false".parse(), Ok(FeatureGates::default()));
        assert_eq!(off.to_string().parse(), Ok(off));
        for (text, want) in [
            ("ClusterTopology", UnknownGate::Form("ClusterTopology".into())),
            ("ClusterTopology=yes", UnknownGate::Form("ClusterTopology=yes".into())),
            ("Nope=true", UnknownGate::Name("Nope".into())),
            ("InPlaceUpdates=true", UnknownGate::NotBuilt),
        ] {
            assert_eq!(text.parse::<FeatureGates>(), Err(want), "{text}");
        }
    }
}
