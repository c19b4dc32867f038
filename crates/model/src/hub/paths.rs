//! Dotted paths of fields in untyped objects, for [`Object::at`](super::Object::at) and the other readers and writers.
//!
//! Paths of Cluster API's own kinds and of the embedded provider are here, and paths of other kinds if several places
//! read or write the field. Fields that most callers read in the same way have an accessor as well:
//! [`Object::provider_id`](super::Object::provider_id). Tables whose rows are paths stay where they are used.
//!
//! The fields of `cluster.x-k8s.io` are those of its
//! [v1beta2 types](https://pkg.go.dev/sigs.k8s.io/cluster-api/api/core/v1beta2).

/// Name of the Cluster, in all kinds of a Cluster.
pub const CLUSTER_NAME: &str = "spec.clusterName";
/// Zone of a Machine and of an infrastructure machine.
pub const FAILURE_DOMAIN: &str = "spec.failureDomain";
/// Infrastructure of a Cluster and of a Machine.
pub const INFRASTRUCTURE_REF: &str = "spec.infrastructureRef";
/// Template of the names of Machines, in workers and control planes.
pub const MACHINE_NAMING: &str = "spec.machineNaming.template";
/// Whether a Cluster or a MachineDeployment is paused.
pub const PAUSED: &str = "spec.paused";
/// Identity of the instance, in Machines, infrastructure machines and Nodes.
pub const PROVIDER_ID: &str = "spec.providerID";
/// Identities of the instances, in MachinePools and infrastructure machine pools.
pub const PROVIDER_ID_LIST: &str = "spec.providerIDList";
/// Desired number of machines, in workers and control planes.
pub const REPLICAS: &str = "spec.replicas";
/// Taints of a Machine and of a Node.
pub const TAINTS: &str = "spec.taints";
/// Template of the objects that workers and template kinds create.
pub const TEMPLATE: &str = "spec.template";
/// Spec of the objects that workers and template kinds create.
pub const TEMPLATE_SPEC: &str = "spec.template.spec";
/// Kubernetes version of a Machine and of a control plane.
pub const VERSION: &str = "spec.version";

/// Metadata of every kind: [ObjectMeta](https://pkg.go.dev/k8s.io/apimachinery/pkg/apis/meta/v1#ObjectMeta).
pub mod metadata {
    pub const ANNOTATIONS: &str = "metadata.annotations";
    pub const CREATION_TIMESTAMP: &str = "metadata.creationTimestamp";
    pub const DELETION_TIMESTAMP: &str = "metadata.deletionTimestamp";
    pub const FINALIZERS: &str = "metadata.finalizers";
    pub const GENERATION: &str = "metadata.generation";
    pub const LABELS: &str = "metadata.labels";
    pub const MANAGED_FIELDS: &str = "metadata.managedFields";
    pub const NAME: &str = "metadata.name";
    pub const NAMESPACE: &str = "metadata.namespace";
    pub const OWNER_REFERENCES: &str = "metadata.ownerReferences";
    pub const RESOURCE_VERSION: &str = "metadata.resourceVersion";
    pub const UID: &str = "metadata.uid";
}

/// Status of several kinds: Clusters, Machines, workers and the kinds of the provider contract.
pub mod status {
    pub const ADDRESSES: &str = "status.addresses";
    pub const AVAILABLE_REPLICAS: &str = "status.availableReplicas";
    pub const CONDITIONS: &str = "status.conditions";
    /// Conditions of v1beta2 in an object of v1beta1.
    pub const V1BETA2_CONDITIONS: &str = "status.v1beta2.conditions";
    /// Zone where the instance runs, in Machines and infrastructure machines.
    pub const FAILURE_DOMAIN: &str = "status.failureDomain";
    /// Zones, in Clusters and infrastructure clusters.
    pub const FAILURE_DOMAINS: &str = "status.failureDomains";
    /// Message of a terminal failure, in objects of v1beta1.
    pub const FAILURE_MESSAGE: &str = "status.failureMessage";
    /// Reason of a terminal failure, in objects of v1beta1.
    pub const FAILURE_REASON: &str = "status.failureReason";
    /// Message of a terminal failure, in objects of v1beta2.
    pub const DEPRECATED_FAILURE_MESSAGE: &str = "status.deprecated.v1beta1.failureMessage";
    /// Reason of a terminal failure, in objects of v1beta2.
    pub const DEPRECATED_FAILURE_REASON: &str = "status.deprecated.v1beta1.failureReason";
    /// Whether the infrastructure of a Cluster, Machine or MachinePool is provisioned.
    pub const INFRASTRUCTURE_PROVISIONED: &str = "status.initialization.infrastructureProvisioned";
    /// Whether the bootstrap data of a Machine or MachinePool exists.
    pub const BOOTSTRAP_DATA_CREATED: &str = "status.initialization.bootstrapDataSecretCreated";
    /// Whether the control plane of a Cluster is initialized, in Clusters and control planes.
    pub const CONTROL_PLANE_INITIALIZED: &str = "status.initialization.controlPlaneInitialized";
    /// Version of the kubelet, in Machines and Nodes.
    pub const KUBELET_VERSION: &str = "status.nodeInfo.kubeletVersion";
    pub const OBSERVED_GENERATION: &str = "status.observedGeneration";
    pub const PHASE: &str = "status.phase";
    pub const READY_REPLICAS: &str = "status.readyReplicas";
    pub const REPLICAS: &str = "status.replicas";
    /// Label selector of the machines as a string.
    pub const SELECTOR: &str = "status.selector";
    pub const UP_TO_DATE_REPLICAS: &str = "status.upToDateReplicas";
    /// Running versions and their number of machines.
    pub const VERSIONS: &str = "status.versions";
}

/// Clusters.
pub mod cluster {
    pub const CONTROL_PLANE_REF: &str = "spec.controlPlaneRef";
    /// Address of the API server; infrastructure clusters and control planes have the field as well.
    pub const CONTROL_PLANE_ENDPOINT: &str = "spec.controlPlaneEndpoint";
    pub const CONTROL_PLANE_ENDPOINT_HOST: &str = "spec.controlPlaneEndpoint.host";
    pub const CONTROL_PLANE_ENDPOINT_PORT: &str = "spec.controlPlaneEndpoint.port";
    pub const TOPOLOGY: &str = "spec.topology";
    pub const TOPOLOGY_CLASS_NAME: &str = "spec.topology.classRef.name";
    pub const TOPOLOGY_CLASS_NAMESPACE: &str = "spec.topology.classRef.namespace";
    pub const TOPOLOGY_CONTROL_PLANE: &str = "spec.topology.controlPlane";
    pub const TOPOLOGY_VARIABLES: &str = "spec.topology.variables";
    pub const TOPOLOGY_CONTROL_PLANE_VARIABLES: &str = "spec.topology.controlPlane.variables.overrides";
    pub const TOPOLOGY_MACHINE_DEPLOYMENTS: &str = "spec.topology.workers.machineDeployments";
    pub const TOPOLOGY_MACHINE_POOLS: &str = "spec.topology.workers.machinePools";
    pub const TOPOLOGY_VERSION: &str = "spec.topology.version";
    pub const AVAILABILITY_GATES: &str = "spec.availabilityGates";
    pub const POD_CIDR_BLOCKS: &str = "spec.clusterNetwork.pods.cidrBlocks";
    pub const SERVICE_CIDR_BLOCKS: &str = "spec.clusterNetwork.services.cidrBlocks";
    pub const SERVICE_DOMAIN: &str = "spec.clusterNetwork.serviceDomain";
    /// Counters of control plane Machines.
    pub const STATUS_CONTROL_PLANE: &str = "status.controlPlane";
    /// Counters of the Machines of workers.
    pub const STATUS_WORKERS: &str = "status.workers";
    /// Name of the class, in v1beta1.
    pub const TOPOLOGY_CLASS_V1BETA1: &str = "spec.topology.class";
    pub const TOPOLOGY_CONTROL_PLANE_HEALTH_CHECK: &str = "spec.topology.controlPlane.healthCheck";
}

/// ClusterClasses.
pub mod cluster_class {
    pub const CONTROL_PLANE: &str = "spec.controlPlane";
    pub const CONTROL_PLANE_MACHINES: &str = "spec.controlPlane.machineInfrastructure";
    pub const INFRASTRUCTURE: &str = "spec.infrastructure";
    pub const MACHINE_DEPLOYMENTS: &str = "spec.workers.machineDeployments";
    pub const MACHINE_POOLS: &str = "spec.workers.machinePools";
    pub const PATCHES: &str = "spec.patches";
    pub const VARIABLES: &str = "spec.variables";
    pub const CONTROL_PLANE_HEALTH_CHECK: &str = "spec.controlPlane.healthCheck";
    pub const CONTROL_PLANE_MACHINES_TEMPLATE: &str = "spec.controlPlane.machineInfrastructure.templateRef";
    pub const CONTROL_PLANE_METADATA: &str = "spec.controlPlane.metadata";
    pub const CONTROL_PLANE_TAINTS: &str = "spec.controlPlane.taints";
    pub const CONTROL_PLANE_TEMPLATE: &str = "spec.controlPlane.templateRef";
    pub const INFRASTRUCTURE_TEMPLATE: &str = "spec.infrastructure.templateRef";
    pub const KUBERNETES_VERSIONS: &str = "spec.kubernetesVersions";
    pub const WORKERS: &str = "spec.workers";
}

/// Machines.
pub mod machine {
    pub const BOOTSTRAP_CONFIG_REF: &str = "spec.bootstrap.configRef";
    pub const BOOTSTRAP_DATA_SECRET: &str = "spec.bootstrap.dataSecretName";
    /// When the certificates of a control plane Machine expire; KubeadmConfigs have the field as well.
    pub const CERTIFICATES_EXPIRY: &str = "status.certificatesExpiryDate";
    pub const MIN_READY_SECONDS: &str = "spec.minReadySeconds";
    pub const NODE_DELETION_TIMEOUT: &str = "spec.deletion.nodeDeletionTimeoutSeconds";
    pub const NODE_DRAIN_TIMEOUT: &str = "spec.deletion.nodeDrainTimeoutSeconds";
    pub const NODE_DRAIN_START: &str = "status.deletion.nodeDrainStartTime";
    pub const NODE_INFO: &str = "status.nodeInfo";
    pub const NODE_NAME: &str = "status.nodeRef.name";
    pub const NODE_VOLUME_DETACH_TIMEOUT: &str = "spec.deletion.nodeVolumeDetachTimeoutSeconds";
    pub const READINESS_GATES: &str = "spec.readinessGates";
    pub const BOOTSTRAP: &str = "spec.bootstrap";
    /// When the phase changed.
    pub const LAST_UPDATED: &str = "status.lastUpdated";
    pub const PRE_DRAIN_HOOK_START: &str = "status.deletion.waitForPreDrainHookStartTime";
    pub const PRE_TERMINATE_HOOK_START: &str = "status.deletion.waitForPreTerminateHookStartTime";
    pub const VOLUME_DETACH_START: &str = "status.deletion.waitForNodeVolumeDetachStartTime";
}

/// MachineDeployments, MachineSets and MachinePools.
pub mod worker {
    pub const BOOTSTRAP: &str = "spec.template.spec.bootstrap";
    pub const BOOTSTRAP_CONFIG_REF: &str = "spec.template.spec.bootstrap.configRef";
    pub const BOOTSTRAP_DATA_SECRET: &str = "spec.template.spec.bootstrap.dataSecretName";
    pub const DELETION_ORDER: &str = "spec.deletion.order";
    pub const FAILURE_DOMAIN: &str = "spec.template.spec.failureDomain";
    pub const INFRASTRUCTURE_REF: &str = "spec.template.spec.infrastructureRef";
    pub const MACHINE_ANNOTATIONS: &str = "spec.template.metadata.annotations";
    pub const MACHINE_CLUSTER_NAME: &str = "spec.template.spec.clusterName";
    pub const MACHINE_LABELS: &str = "spec.template.metadata.labels";
    pub const MATCH_EXPRESSIONS: &str = "spec.selector.matchExpressions";
    pub const MATCH_LABELS: &str = "spec.selector.matchLabels";
    /// How many machines are remediated at a time.
    pub const MAX_IN_FLIGHT: &str = "spec.remediation.maxInFlight";
    pub const MAX_SURGE: &str = "spec.rollout.strategy.rollingUpdate.maxSurge";
    pub const MAX_UNAVAILABLE: &str = "spec.rollout.strategy.rollingUpdate.maxUnavailable";
    pub const MIN_READY_SECONDS: &str = "spec.template.spec.minReadySeconds";
    pub const NODE_DELETION_TIMEOUT: &str = "spec.template.spec.deletion.nodeDeletionTimeoutSeconds";
    /// Nodes of a MachinePool.
    pub const NODE_REFS: &str = "status.nodeRefs";
    pub const READINESS_GATES: &str = "spec.template.spec.readinessGates";
    pub const ROLLOUT_AFTER: &str = "spec.rollout.after";
    pub const ROLLOUT_STRATEGY: &str = "spec.rollout.strategy.type";
    pub const SELECTOR: &str = "spec.selector";
    pub const TAINTS: &str = "spec.template.spec.taints";
    pub const VERSION: &str = "spec.template.spec.version";
    /// Zones of a MachinePool.
    pub const FAILURE_DOMAINS: &str = "spec.failureDomains";
    pub const MACHINE_METADATA: &str = "spec.template.metadata";
    pub const NODE_DRAIN_TIMEOUT: &str = "spec.template.spec.deletion.nodeDrainTimeoutSeconds";
    pub const NODE_VOLUME_DETACH_TIMEOUT: &str = "spec.template.spec.deletion.nodeVolumeDetachTimeoutSeconds";
    pub const ROLLOUT: &str = "spec.rollout";
    /// Type and settings of the strategy.
    pub const ROLLOUT_STRATEGY_SETTINGS: &str = "spec.rollout.strategy";
}

/// Control planes: the [contract](https://cluster-api.sigs.k8s.io/developer/providers/contracts/control-plane), and the
/// KubeadmControlPlane.
pub mod control_plane {
    /// Whether the control plane has no Machines.
    pub const IS_EXTERNAL: &str = "status.externalManagedControlPlane";
    pub const KUBEADM_CONFIG: &str = "spec.kubeadmConfigSpec";
    /// Infrastructure template of the Machines.
    pub const MACHINE_INFRASTRUCTURE_REF: &str = "spec.machineTemplate.spec.infrastructureRef";
    /// Infrastructure template of the Machines, in v1beta1.
    pub const MACHINE_INFRASTRUCTURE_REF_V1BETA1: &str = "spec.machineTemplate.infrastructureRef";
    /// Days before their expiry at which certificates are replaced: in v1beta2, and in v1beta1.
    pub const CERTIFICATES_EXPIRY_DAYS: [&str; 2] =
        ["spec.rollout.before.certificatesExpiryDays", "spec.rolloutBefore.certificatesExpiryDays"];
    /// Lowest running version.
    pub const STATUS_VERSION: &str = "status.version";
    /// Machines with the desired spec, in v1beta1.
    pub const UPDATED_REPLICAS: &str = "status.updatedReplicas";
    pub const UNAVAILABLE_REPLICAS: &str = "status.unavailableReplicas";
}

/// Bootstrap configurations:
/// the [contract](https://cluster-api.sigs.k8s.io/developer/providers/contracts/bootstrap-config), and the
/// KubeadmConfig.
pub mod bootstrap {
    pub const DATA_SECRET: &str = "status.dataSecretName";
    /// Settings of a control plane Machine that joins.
    pub const JOIN_CONTROL_PLANE: &str = "spec.joinConfiguration.controlPlane";
}

/// ExtensionConfigs of `runtime.cluster.x-k8s.io/v1beta2`.
pub mod extension_config {
    pub const HANDLERS: &str = "status.handlers";
    pub const NAMESPACE_SELECTOR: &str = "spec.namespaceSelector";
    pub const SETTINGS: &str = "spec.settings";
    pub const CA_BUNDLE: &str = "spec.clientConfig.caBundle";
    pub const CLIENT_CONFIG: &str = "spec.clientConfig";
    pub const SERVICE: &str = "spec.clientConfig.service";
    pub const SERVICE_PORT: &str = "spec.clientConfig.service.port";
    pub const URL: &str = "spec.clientConfig.url";
}

/// Pods of [core/v1](https://pkg.go.dev/k8s.io/api/core/v1#PodSpec); VolumeAttachments name their Node in the same way.
pub mod pod {
    pub const NODE_NAME: &str = "spec.nodeName";
    pub const VOLUMES: &str = "spec.volumes";
}

/// Nodes of [core/v1](https://pkg.go.dev/k8s.io/api/core/v1#NodeSpec).
pub mod node {
    pub const UNSCHEDULABLE: &str = "spec.unschedulable";
}

/// MachineHealthChecks.
pub mod health_check {
    pub const CURRENT_HEALTHY: &str = "status.currentHealthy";
    pub const EXPECTED_MACHINES: &str = "status.expectedMachines";
    pub const NODE_STARTUP_TIMEOUT: &str = "spec.checks.nodeStartupTimeoutSeconds";
    pub const REMEDIATION_TEMPLATE: &str = "spec.remediation.templateRef";
    pub const REMEDIATION_TRIGGER: &str = "spec.remediation.triggerIf";
    pub const REMEDIATIONS_ALLOWED: &str = "status.remediationsAllowed";
    pub const TARGETS: &str = "status.targets";
    pub const UNHEALTHY_MACHINE_CONDITIONS: &str = "spec.checks.unhealthyMachineConditions";
    pub const UNHEALTHY_NODE_CONDITIONS: &str = "spec.checks.unhealthyNodeConditions";
}

/// MachineDrainRules.
pub mod drain_rule {
    pub const BEHAVIOR: &str = "spec.drain.behavior";
    pub const MACHINES: &str = "spec.machines";
    pub const ORDER: &str = "spec.drain.order";
    pub const PODS: &str = "spec.pods";
}

/// Kinds of the embedded provider.
pub mod embedded {
    /// Settings of the simulated instances.
    pub const BACKEND: &str = "spec.backend.inMemory";
    /// Commands that a Machine runs.
    pub const COMMANDS: &str = "spec.commands";
    /// Zones that an infrastructure cluster reports.
    pub const FAILURE_DOMAINS: &str = "spec.failureDomains";
    /// Simulated failure of an instance.
    pub const FAILURE: &str = "spec.backend.inMemory.failure";
    /// Files of a Machine.
    pub const FILES: &str = "spec.files";
    /// Format of the bootstrap data.
    pub const FORMAT: &str = "spec.format";
}
