//! Accessors for common fields. A value that is missing, or of another type, reads as empty.
//!
//! Callers that report a wrong type read the same [paths] with [`Object::text`], [`Object::integer`] and
//! [`Object::list`].

use serde_json::{Map, Value};

use super::Object;
use crate::hub::{ContractRef, paths};

/// Metadata of every kind.
impl Object {
    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.text_or_empty(paths::metadata::NAME)
    }

    /// `metadata.namespace`.
    pub fn namespace(&self) -> &str {
        self.text_or_empty(paths::metadata::NAMESPACE)
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.text_or_empty(paths::metadata::UID)
    }

    /// `metadata.resourceVersion`.
    pub fn resource_version(&self) -> &str {
        self.text_or_empty(paths::metadata::RESOURCE_VERSION)
    }

    /// `metadata.generation`.
    pub fn generation(&self) -> Option<i64> {
        self.number(paths::metadata::GENERATION)
    }

    /// Whether the object has a deletion timestamp.
    pub fn is_being_deleted(&self) -> bool {
        self.at(paths::metadata::DELETION_TIMESTAMP).is_some()
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels()?.get(name)?.as_str()
    }

    /// `metadata.labels`.
    pub fn labels(&self) -> Option<&Map<String, Value>> {
        self.at(paths::metadata::LABELS)?.as_object()
    }

    /// The value of an annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations()?.get(name)?.as_str()
    }

    /// `metadata.annotations`.
    pub fn annotations(&self) -> Option<&Map<String, Value>> {
        self.at(paths::metadata::ANNOTATIONS)?.as_object()
    }

    /// `metadata.ownerReferences`.
    pub fn owner_references(&self) -> &[Value] {
        self.items(paths::metadata::OWNER_REFERENCES)
    }

    /// The controlling one of the owner references.
    pub fn controller(&self) -> Option<&Value> {
        self.owner_references().iter().find(|owner| owner.get("controller") == Some(&Value::Bool(true)))
    }

    /// `metadata.finalizers`.
    pub fn finalizers(&self) -> &[Value] {
        self.items(paths::metadata::FINALIZERS)
    }

    /// Whether `metadata.finalizers` has this entry.
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers().iter().any(|finalizer| finalizer == name)
    }
}

/// Fields of Clusters, of what belongs to them, and of Nodes.
impl Object {
    /// `spec.clusterName`.
    pub fn cluster_name(&self) -> &str {
        self.text_or_empty(paths::CLUSTER_NAME)
    }

    /// `spec.paused`, in Clusters and MachineDeployments.
    pub fn is_paused(&self) -> bool {
        self.is_true(paths::PAUSED)
    }

    /// `status.phase`.
    pub fn phase(&self) -> &str {
        self.text_or_empty(paths::status::PHASE)
    }

    /// `status.conditions`.
    pub fn conditions(&self) -> &[Value] {
        self.items(paths::status::CONDITIONS)
    }

    /// `status.initialization.infrastructureProvisioned`, in Clusters, Machines and MachinePools.
    pub fn is_infrastructure_provisioned(&self) -> bool {
        self.is_true(paths::status::INFRASTRUCTURE_PROVISIONED)
    }

    /// `status.initialization.bootstrapDataSecretCreated`, in Machines and MachinePools.
    pub fn is_bootstrap_data_created(&self) -> bool {
        self.is_true(paths::status::BOOTSTRAP_DATA_CREATED)
    }

    /// `status.initialization.controlPlaneInitialized`, in Clusters.
    pub fn is_control_plane_initialized(&self) -> bool {
        self.is_true(paths::status::CONTROL_PLANE_INITIALIZED)
    }

    /// Whether a Cluster has `spec.topology`.
    pub fn has_topology(&self) -> bool {
        self.at(paths::cluster::TOPOLOGY).is_some()
    }

    /// Whether `spec.controlPlaneEndpoint` has a host and a port, in Clusters and the objects of providers (CT-6.4).
    pub fn has_control_plane_endpoint(&self) -> bool {
        !self.text_or_empty(paths::cluster::CONTROL_PLANE_ENDPOINT_HOST).is_empty()
            && self.number(paths::cluster::CONTROL_PLANE_ENDPOINT_PORT).unwrap_or_default() != 0
    }

    /// `spec.infrastructureRef`, in Clusters and Machines.
    pub fn infrastructure_ref(&self) -> ContractRef {
        self.contract_ref_at(paths::INFRASTRUCTURE_REF)
    }

    /// `spec.controlPlaneRef`, in Clusters.
    pub fn control_plane_ref(&self) -> ContractRef {
        self.contract_ref_at(paths::cluster::CONTROL_PLANE_REF)
    }

    /// The reference at a path (CT-4.1).
    pub fn contract_ref_at(&self, path: &str) -> ContractRef {
        let members = self.at(path).and_then(Value::as_object);
        let read = |name: &str| members.and_then(|it| it.get(name)?.as_str()).unwrap_or_default().to_owned();
        ContractRef { api_group: read("apiGroup"), kind: read("kind"), name: read("name") }
    }

    /// `spec.version`, in Machines and control planes.
    pub fn version(&self) -> &str {
        self.text_or_empty(paths::VERSION)
    }

    /// `spec.replicas`, in workers and control planes.
    pub fn replicas(&self) -> Option<i64> {
        self.number(paths::REPLICAS)
    }

    /// `status.replicas`, in workers and control planes.
    pub fn status_replicas(&self) -> Option<i64> {
        self.number(paths::status::REPLICAS)
    }

    /// `status.observedGeneration`.
    pub fn observed_generation(&self) -> Option<i64> {
        self.number(paths::status::OBSERVED_GENERATION)
    }

    /// `spec.template.spec.version`, in workers.
    pub fn machine_version(&self) -> &str {
        self.text_or_empty(paths::worker::VERSION)
    }

    /// `spec.providerID`, in Machines, infrastructure machines and Nodes.
    pub fn provider_id(&self) -> &str {
        self.text_or_empty(paths::PROVIDER_ID)
    }

    /// `spec.providerIDList`, in MachinePools and infrastructure machine pools.
    pub fn provider_id_list(&self) -> &[Value] {
        self.items(paths::PROVIDER_ID_LIST)
    }

    /// `spec.failureDomain`, in Machines.
    pub fn failure_domain(&self) -> &str {
        self.text_or_empty(paths::FAILURE_DOMAIN)
    }

    /// `status.nodeRef.name`, in Machines.
    pub fn node_name(&self) -> &str {
        self.text_or_empty(paths::machine::NODE_NAME)
    }

    /// `status.nodeInfo.kubeletVersion`, in Machines and Nodes.
    pub fn kubelet_version(&self) -> &str {
        self.text_or_empty(paths::status::KUBELET_VERSION)
    }

    /// `spec.taints`, in Machines and Nodes.
    pub fn taints(&self) -> &[Value] {
        self.items(paths::TAINTS)
    }
}

/// The value of a type at a path, or the empty one.
impl Object {
    /// The string at a path; empty if it is missing or not a string.
    pub(super) fn text_or_empty(&self, path: &str) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    fn is_true(&self, path: &str) -> bool {
        self.at(path).and_then(Value::as_bool).unwrap_or_default()
    }

    fn number(&self, path: &str) -> Option<i64> {
        self.at(path).and_then(Value::as_i64)
    }

    fn items(&self, path: &str) -> &[Value] {
        self.at(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }
}
