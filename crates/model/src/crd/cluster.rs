//! Section "Cluster" of the API documentation, row by row.

use super::blocks::{
    LABEL, Part, SUBDOMAIN, contract_reference, control_plane_endpoint, deletion, failure_domains, gates, generations,
    health_check, metadata, min_ready_seconds, observed_generation, port, replica_counts, strategy, taints,
    upgrade_plan, variable_values, versions,
};
use super::schema::{Schema, boolean, date_time, int32, list, object, string};
use crate::wire::Shape::{self, V1Beta1, V1Beta2};

const PHASES: &[&str] = &["Pending", "Provisioning", "Provisioned", "Deleting", "Failed", "Unknown"];

/// The spec of a Cluster (MA-1.5).
pub(super) fn spec(v: Shape) -> Schema {
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

fn cluster_network(v: Shape) -> Schema {
    object()
        .props(v.least()..)
        .optional("apiServerPort", port(v))
        .optional("pods", network_ranges(v))
        .optional("serviceDomain", string().len(1..=253))
        .optional("services", network_ranges(v))
}

fn network_ranges(v: Shape) -> Schema {
    let blocks = list(string().len(1..=43)).items(v.least()..=100).in_v1beta2(v, Schema::atomic);
    object().required("cidrBlocks", blocks)
}

fn topology(v: Shape) -> Schema {
    object()
        .with(class_reference(v))
        .optional("controlPlane", control_plane(v))
        .optional("variables", variable_values(v))
        .required("version", string().len(1..=256))
        .optional("workers", workers(v))
        .in_v1beta1(v, |it| it.optional("rolloutAfter", date_time()))
}

fn class_reference(v: Shape) -> Schema {
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

fn control_plane(v: Shape) -> Schema {
    object()
        .props(v.least()..)
        .with(deletion(v, Part::ControlPlane))
        .with(switched_health_check(v, Part::ControlPlane))
        .optional("metadata", metadata(v))
        .optional("readinessGates", gates(v))
        .optional("replicas", int32())
        .optional("rollout", rollout())
        .optional("taints", taints())
        .optional("variables", overrides(v))
}

fn workers(v: Shape) -> Schema {
    object()
        .props(v.least()..)
        .optional("machineDeployments", list(machine_deployment(v)).items(v.least()..=2000).map_by(&["name"]))
        .optional("machinePools", list(machine_pool(v)).items(v.least()..=2000).map_by(&["name"]))
}

fn machine_deployment(v: Shape) -> Schema {
    worker(v, Part::MachineDeployment)
        .optional("failureDomain", string().len(1..=256))
        .with(switched_health_check(v, Part::MachineDeployment))
        .optional("readinessGates", gates(v))
        .optional("rollout", rollout().in_v1beta2(v, |it| it.optional("strategy", strategy(v))))
        .in_v1beta1(v, |it| it.optional("strategy", strategy(v)))
}

fn machine_pool(v: Shape) -> Schema {
    let domains = list(string().len(1..=256)).items(v.least()..=100).in_v1beta2(v, Schema::atomic);
    worker(v, Part::MachinePool).optional("failureDomains", domains)
}

/// What machine deployments and machine pools have in common.
fn worker(v: Shape, part: Part) -> Schema {
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

/// A health check that a topology can switch on or off.
fn switched_health_check(v: Shape, part: Part) -> Schema {
    let check = health_check(v, part).optional(v.pick("enabled", "enable"), boolean());
    object().optional(v.pick("healthCheck", "machineHealthCheck"), check)
}

fn rollout() -> Schema {
    object().props(1..).optional("after", date_time())
}

fn overrides(v: Shape) -> Schema {
    object().props(v.least()..).optional("overrides", variable_values(v))
}

pub(super) fn status(v: Shape) -> Schema {
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

fn replicas() -> Schema {
    replica_counts()
        .optional("desiredReplicas", int32())
        .optional("upgradePlan", upgrade_plan())
        .optional("versions", versions())
}

fn initialization(v: Shape) -> Schema {
    let done = object()
        .optional(v.pick("controlPlaneInitialized", "controlPlaneReady"), boolean())
        .optional(v.pick("infrastructureProvisioned", "infrastructureReady"), boolean());
    match v {
        V1Beta2 => object().optional("initialization", done.props(1..)),
        V1Beta1 => done,
    }
}
