//! Cluster, with its topology.

use super::deletion_hold::is_pause;
use super::{
    Condition, ContractRef, ControlPlaneHealthCheck, HealthCheck, MachineDeletion, MachineGate, Metadata, ObjectKey,
    RolloutSpec, Taint, TopologyMetadata, VariableOverrides, VariableValue, annotation,
};
use golang::json::{List, Rare, lenient};

lenient! {
    /// A Cluster.
    pub struct Cluster {
        pub metadata: Metadata,
        pub spec: ClusterSpec,
        pub status: ClusterStatus,
    }

    /// The desired state of a Cluster.
    pub struct ClusterSpec {
        pub paused: Option<bool>,
        pub availability_gates: List<MachineGate>,
        pub cluster_network: ClusterNetwork,
        pub control_plane_endpoint: ApiEndpoint,
        pub control_plane_ref: ContractRef,
        pub infrastructure_ref: ContractRef,
        pub topology: Topology,
    }

    /// The address ranges of a Cluster.
    pub struct ClusterNetwork {
        pub api_server_port: Option<i32>,
        pub pods: NetworkRanges,
        pub services: NetworkRanges,
        pub service_domain: String,
    }

    /// Address ranges in CIDR notation.
    pub struct NetworkRanges {
        pub cidr_blocks: List<String>,
    }

    /// Address of the API server of a workload cluster.
    pub struct ApiEndpoint {
        pub host: String,
        pub port: Option<i32>,
    }

    /// A managed topology.
    pub struct Topology {
        pub class_ref: ClassRef,
        pub version: String,
        pub control_plane: ControlPlaneTopology,
        pub workers: WorkersTopology,
        pub variables: List<VariableValue>,
    }

    /// The class of a topology; an empty namespace means that of the Cluster.
    pub struct ClassRef {
        pub name: String,
        pub namespace: String,
    }

    /// The control plane of a topology.
    pub struct ControlPlaneTopology {
        pub metadata: TopologyMetadata,
        pub replicas: Option<i32>,
        pub rollout: Rare<RolloutSpec>,
        pub health_check: ControlPlaneHealthCheck,
        pub deletion: Rare<MachineDeletion>,
        pub taints: List<Taint>,
        pub readiness_gates: List<MachineGate>,
        pub variables: VariableOverrides,
    }

    /// The workers of a topology.
    pub struct WorkersTopology {
        pub machine_deployments: List<MachineDeploymentTopology>,
        pub machine_pools: List<MachinePoolTopology>,
    }

    /// A machine deployment of a topology.
    pub struct MachineDeploymentTopology {
        pub metadata: TopologyMetadata,
        pub class: String,
        pub name: String,
        pub failure_domain: String,
        pub replicas: Option<i32>,
        pub health_check: Rare<HealthCheck>,
        pub deletion: Rare<MachineDeletion>,
        pub taints: List<Taint>,
        pub min_ready_seconds: Option<i32>,
        pub readiness_gates: List<MachineGate>,
        pub rollout: Rare<RolloutSpec>,
        pub variables: VariableOverrides,
    }

    /// A machine pool of a topology.
    pub struct MachinePoolTopology {
        pub metadata: TopologyMetadata,
        pub class: String,
        pub name: String,
        pub failure_domains: List<String>,
        pub deletion: Rare<MachineDeletion>,
        pub taints: List<Taint>,
        pub min_ready_seconds: Option<i32>,
        pub replicas: Option<i32>,
        pub variables: VariableOverrides,
    }

    /// The status of a Cluster, reduced to the fields that are read.
    pub struct ClusterStatus {
        pub observed_generation: i64,
        pub phase: String,
        pub conditions: List<Condition>,
        pub control_plane: ReplicaCounts,
    }

    /// Replica counts of a control plane in the status of its Cluster.
    pub struct ReplicaCounts {
        pub replicas: Option<i32>,
        pub up_to_date_replicas: Option<i32>,
    }
}

impl Topology {
    /// Whether the topology is not empty; `topology: {}` counts as no topology.
    pub fn is_defined(&self) -> bool {
        *self != Topology::default()
    }
}

impl AsRef<Metadata> for Cluster {
    fn as_ref(&self) -> &Metadata {
        &self.metadata
    }
}

impl Cluster {
    /// The topology, when it is defined.
    pub fn topology(&self) -> Option<&Topology> {
        self.spec.topology.is_defined().then_some(&self.spec.topology)
    }

    /// Namespace and name of the class; `None` without a topology.
    pub fn class_key(&self) -> Option<ObjectKey> {
        let class = &self.topology()?.class_ref;
        let namespace = if class.namespace.is_empty() { &self.metadata.namespace } else { &class.namespace };
        Some(ObjectKey::new(namespace, &class.name))
    }

    /// Whether a user has paused the Cluster (RS-05). A hold on its deletion does not count (DEC-56).
    pub fn is_paused(&self) -> bool {
        self.spec.paused == Some(true) || self.pause_annotation().is_some()
    }

    /// The value of the pause annotation.
    pub fn pause_annotation(&self) -> Option<&str> {
        self.annotation(annotation::PAUSED).filter(|value| is_pause(value))
    }

    /// The value of an annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.annotations.get(name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(value: serde_json::Value) -> Cluster {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_topology_is_defined_by_any_content() {
        for (topology, defined) in [
            (json!(null), false),
            (json!({}), false),
            (json!({"classRef": {}, "version": "", "controlPlane": {"metadata": {}}, "workers": {}}), false),
            (json!({"unknown": 1}), false),
            (json!({"version": "v1.33.0"}), true),
            (json!({"classRef": {"name": "c"}}), true),
            (json!({"variables": []}), true),
            (json!({"controlPlane": {"replicas": 0}}), true),
            (json!({"controlPlane": {"metadata": {"labels": {}}}}), true),
            (json!({"workers": {"machineDeployments": []}}), true),
            (json!({"workers": {"machineDeployments": null}}), false),
        ] {
            let case = topology.to_string();
            assert_eq!(cluster(json!({"spec": {"topology": topology}})).topology().is_some(), defined, "{case}");
        }
    }

    #[test]
    fn the_class_key_defaults_to_the_namespace_of_the_cluster() {
        for (spec, want) in [
            (json!({}), None),
            (json!({"topology": {"classRef": {"name": "c"}}}), Some("ns/c")),
            (json!({"topology": {"classRef": {"name": "c", "namespace": "other"}}}), Some("other/c")),
            (json!({"topology": {"version": "v1.33.0"}}), Some("ns/")),
        ] {
            let cluster = cluster(json!({"metadata": {"namespace": "ns", "name": "n"}, "spec": spec}));
            assert_eq!(cluster.class_key().map(|key| key.to_string()).as_deref(), want);
        }
    }

    #[test]
    fn decoding_forgives_absent_null_and_unknown_fields_but_not_types() {
        // ADM-003
        let lenient = json!({"metadata": {"name": null, "labels": {"a": null}},
            "spec": {"paused": null, "Topology": {"version": 1},
            "topology": {"workers": null, "variables": [{"name": "v", "value": null}]}}, "what": ["ever"]});
        let read = cluster(lenient);
        assert_eq!(read.metadata.labels.get("a"), Some(""));
        assert_eq!(read.spec.topology.variables.len(), 1);
        for wrong in [
            json!({"spec": {"paused": "yes"}}),
            json!({"spec": {"topology": {"controlPlane": {"replicas": 1.5}}}}),
            json!({"spec": {"topology": {"controlPlane": {"replicas": 3_000_000_000_i64}}}}),
            json!({"spec": {"topology": {"workers": {"machineDeployments": {}}}}}),
            json!({"spec": {"topology": {"workers": {"machineDeployments": [{"rollout": {"strategy": {"rollingUpdate": {"maxSurge": 1.5}}}}]}}}}),
            json!({"metadata": {"labels": {"a": 1}}}),
        ] {
            assert!(serde_json::from_value::<Cluster>(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
