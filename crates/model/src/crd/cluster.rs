//! Section "Cluster" of the API documentation, row by row.

use super::blocks::{
    ClusterPart, LABEL, SUBDOMAIN, contract_reference, control_plane_endpoint, deletion, failure_domains, gates,
    generations, health_check, metadata, min_ready_seconds, observed_generation, port, replica_counts, strategy,
    taints, upgrade_plan, variable_values, versions,
};
use super::schema::{SchemaBuilder, boolean, date_time, int32, list, object, string};
use crate::wire::SchemaVersion::{self, V1Beta1, V1Beta2};

const PHASES: &[&str] = &["Pending", "Provisioning", "Provisioned", "Deleting", "Failed", "Unknown"];

/// The spec of a Cluster (MA-1.5).
pub(super) fn spec(v: SchemaVersion) -> SchemaBuilder {
    object()
        .props(v.least()..)
        .optional("availabilityGates", gates(v))
        .optional("clusterNetwork", cluster_network(v))
        .optional("controlPlaneEndpoint", control_plane_endpoint(v))
        .optional("controlPlaneRef", contract_reference(v))
        .optional("infrastructureRef", contract_reference(v))
        .optional("paused", boolean())
        .optional("topology", topology(v))
}

fn cluster_network(v: SchemaVersion) -> SchemaBuilder {
    object()
        .props(v.least()..)
        .optional("apiServerPort", port(v))
        .optional("pods", network_ranges(v))
        .optional("serviceDomain", string().len(1..=253))
        .optional("services", network_ranges(v))
}

fn network_ranges(v: SchemaVersion) -> SchemaBuilder {
    let blocks = list(string().len(1..=43)).items(v.least()..=100).in_v1beta2(v, SchemaBuilder::atomic);
    object().required("cidrBlocks", blocks)
}

fn topology(v: SchemaVersion) -> SchemaBuilder {
    object()
        .with(class_reference(v))
        .optional("controlPlane", control_plane(v))
        .optional("variables", variable_values(v))
        .required("version", string().len(1..=256))
        .optional("workers", workers(v))
        .in_v1beta1(v, |it| it.optional("rolloutAfter", date_time()))
}

fn class_reference(v: SchemaVersion) -> SchemaBuilder {
    let name = string().len(1..=253);
    let namespace = string().len(1..=63).matches(LABEL);
    match v {
        V1Beta2 => {
            let class = object().required("name", name.matches(SUBDOMAIN)).optional("namespace", namespace);
            object().required("classRef", class)
        }
        V1Beta1 => object().required("class", name).optional("classNamespace", namespace),
    }
}

fn control_plane(v: SchemaVersion) -> SchemaBuilder {
    object()
        .props(v.least()..)
        .with(deletion(v, ClusterPart::ControlPlane))
        .with(switched_health_check(v, ClusterPart::ControlPlane))
        .optional("metadata", metadata(v))
        .optional("readinessGates", gates(v))
        .optional("replicas", int32())
        .optional("rollout", rollout())
        .optional("taints", taints())
        .optional("variables", overrides(v))
}

fn workers(v: SchemaVersion) -> SchemaBuilder {
    object()
        .props(v.least()..)
        .optional("machineDeployments", list(machine_deployment(v)).items(v.least()..=2000).map_by(&["name"]))
        .optional("machinePools", list(machine_pool(v)).items(v.least()..=2000).map_by(&["name"]))
}

fn machine_deployment(v: SchemaVersion) -> SchemaBuilder {
    worker(v, ClusterPart::MachineDeployment)
        .optional("failureDomain", string().len(1..=256))
        .with(switched_health_check(v, ClusterPart::MachineDeployment))
        .optional("readinessGates", gates(v))
        .optional("rollout", rollout().in_v1beta2(v, |it| it.optional("strategy", strategy(v))))
        .in_v1beta1(v, |it| it.optional("strategy", strategy(v)))
}

fn machine_pool(v: SchemaVersion) -> SchemaBuilder {
    let domains = list(string().len(1..=256)).items(v.least()..=100).in_v1beta2(v, SchemaBuilder::atomic);
    worker(v, ClusterPart::MachinePool).optional("failureDomains", domains)
}

/// Common fields of machine deployments and machine pools.
fn worker(v: SchemaVersion, part: ClusterPart) -> SchemaBuilder {
    object()
        .required("class", string().len(1..=256))
        .with(deletion(v, part))
        .optional("metadata", metadata(v))
        .optional("minReadySeconds", min_ready_seconds(v))
        .required("name", string().len(1..=63).in_v1beta2(v, |it| it.matches(SUBDOMAIN)))
        .optional("replicas", int32())
        .optional("taints", taints())
        .optional("variables", overrides(v))
}

/// A health check with the field `enabled`.
fn switched_health_check(v: SchemaVersion, part: ClusterPart) -> SchemaBuilder {
    let check = health_check(v, part).optional(v.pick("enabled", "enable"), boolean());
    object().optional(v.pick("healthCheck", "machineHealthCheck"), check)
}

fn rollout() -> SchemaBuilder {
    object().props(1..).optional("after", date_time())
}

fn overrides(v: SchemaVersion) -> SchemaBuilder {
    object().props(v.least()..).optional("overrides", variable_values(v))
}

pub(super) fn status(v: SchemaVersion) -> SchemaBuilder {
    let current = object().optional("controlPlane", replicas()).optional("workers", replicas());
    let legacy = object().optional("failureMessage", string().len(1..=10240)).optional("failureReason", string());
    object()
        .props(v.least()..)
        .with(generations(v, current, legacy))
        .optional("failureDomains", failure_domains(v))
        .with(initialization(v))
        .optional("observedGeneration", observed_generation(v))
        .optional("phase", string().one_of(PHASES))
}

fn replicas() -> SchemaBuilder {
    replica_counts()
        .optional("desiredReplicas", int32())
        .optional("upgradePlan", upgrade_plan())
        .optional("versions", versions())
}

fn initialization(v: SchemaVersion) -> SchemaBuilder {
    let done = object()
        .optional(v.pick("controlPlaneInitialized", "controlPlaneReady"), boolean())
        .optional(v.pick("infrastructureProvisioned", "infrastructureReady"), boolean());
    match v {
        V1Beta2 => object().optional("initialization", done.props(1..)),
        V1Beta1 => done,
    }
}
