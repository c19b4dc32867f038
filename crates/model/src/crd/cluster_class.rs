//! Section "ClusterClass" of the API documentation, row by row.

use super::blocks::{
    API_VERSION, ClusterPart, KIND, deletion, gates, generations, health_check, metadata, min_ready_seconds,
    observed_generation, strategy, taints, template, variable_schema,
};
use super::schema::{SchemaBuilder, any_json, boolean, list, map_of, object, string};
use crate::wire::SchemaVersion::{self, V1Beta1, V1Beta2};

pub(super) fn spec(v: SchemaVersion) -> SchemaBuilder {
    object()
        .optional("availabilityGates", gates(v))
        .required_in_v1beta2(v, "controlPlane", control_plane(v))
        .required_in_v1beta2(v, "infrastructure", infrastructure(v))
        .in_v1beta1(v, |it| it.optional("infrastructureNamingStrategy", naming(v)))
        .optional("kubernetesVersions", list(string().len(1..=256)).items(1..=100).atomic())
        .optional("patches", list(patch(v)).items(v.least()..=1000).in_v1beta2(v, SchemaBuilder::atomic))
        .optional("upgrade", upgrade())
        .optional("variables", list(variable(v)).items(v.least()..=1000).in_v1beta2(v, SchemaBuilder::atomic))
        .optional("workers", workers(v))
}

fn infrastructure(v: SchemaVersion) -> SchemaBuilder {
    template(v).in_v1beta2(v, |it| it.optional("naming", naming(v)))
}

fn control_plane(v: SchemaVersion) -> SchemaBuilder {
    template(v)
        .with(deletion(v, ClusterPart::ControlPlane))
        .optional(v.pick("healthCheck", "machineHealthCheck"), health_check(v, ClusterPart::ControlPlane))
        .optional("machineInfrastructure", template(v))
        .optional("metadata", metadata(v))
        .optional(v.pick("naming", "namingStrategy"), naming(v))
        .optional("readinessGates", gates(v))
        .optional("taints", taints())
}

fn naming(v: SchemaVersion) -> SchemaBuilder {
    object().props(v.least()..).optional("template", string().len(1..=1024))
}

fn workers(v: SchemaVersion) -> SchemaBuilder {
    object()
        .props(v.least()..)
        .optional("machineDeployments", list(machine_deployment(v)).items(v.least()..=100).map_by(&["class"]))
        .optional("machinePools", list(machine_pool(v)).items(v.least()..=100).map_by(&["class"]))
}

fn machine_deployment(v: SchemaVersion) -> SchemaBuilder {
    let worker = worker(v, ClusterPart::MachineDeployment)
        .optional("failureDomain", string().len(1..=256))
        .optional(v.pick("healthCheck", "machineHealthCheck"), health_check(v, ClusterPart::MachineDeployment))
        .optional("readinessGates", gates(v));
    match v {
        V1Beta2 => worker.optional("rollout", object().props(1..).optional("strategy", strategy(v))),
        V1Beta1 => worker.optional("strategy", strategy(v)),
    }
}

fn machine_pool(v: SchemaVersion) -> SchemaBuilder {
    let domains = list(string().len(1..=256)).items(..=100).in_v1beta2(v, SchemaBuilder::atomic);
    worker(v, ClusterPart::MachinePool).optional("failureDomains", domains)
}

/// Common fields of machine deployments and machine pools.
fn worker(v: SchemaVersion, part: ClusterPart) -> SchemaBuilder {
    object()
        .with(worker_template(v))
        .required("class", string().len(1..=256))
        .with(deletion(v, part))
        .optional("minReadySeconds", min_ready_seconds(v))
        .optional(v.pick("naming", "namingStrategy"), naming(v))
        .optional("taints", taints())
}

/// The templates of a worker, one level deeper in v1beta1.
fn worker_template(v: SchemaVersion) -> SchemaBuilder {
    let templates = object()
        .required("bootstrap", template(v))
        .required("infrastructure", template(v))
        .optional("metadata", metadata(v));
    match v {
        V1Beta2 => templates,
        V1Beta1 => object().required("template", templates),
    }
}

fn patch(v: SchemaVersion) -> SchemaBuilder {
    object()
        .optional("definitions", list(patch_definition(v)).items(..=100).in_v1beta2(v, SchemaBuilder::atomic))
        .optional("description", string().len(1..=1024))
        .optional("enabledIf", string().len(1..=256))
        .optional("external", external_patch(v))
        .required("name", string().len(1..=256))
}

fn patch_definition(v: SchemaVersion) -> SchemaBuilder {
    object()
        .required("jsonPatches", list(json_patch()).items(v.least()..=100).in_v1beta2(v, SchemaBuilder::atomic))
        .required("selector", patch_selector(v))
}

fn json_patch() -> SchemaBuilder {
    let value_from = object().optional("template", string().len(1..=10240)).optional("variable", string().len(1..=256));
    object()
        .required("op", string().one_of(&["add", "replace", "remove"]))
        .required("path", string().len(1..=512))
        .optional("value", any_json())
        .optional("valueFrom", value_from)
}

fn patch_selector(v: SchemaVersion) -> SchemaBuilder {
    let api_version = v.pick(string().len(1..=317).matches(API_VERSION), string().len(1..=512));
    let kind = v.pick(string().len(1..=63).matches(KIND), string().len(1..=256));
    object().required("apiVersion", api_version).required("kind", kind).required("matchResources", matched_resources(v))
}

fn matched_resources(v: SchemaVersion) -> SchemaBuilder {
    object()
        .props(v.least()..)
        .optional("controlPlane", boolean())
        .optional("infrastructureCluster", boolean())
        .optional("machineDeploymentClass", class_names(v))
        .optional("machinePoolClass", class_names(v))
}

fn class_names(v: SchemaVersion) -> SchemaBuilder {
    let names = list(string().len(1..=256)).items(..=100).in_v1beta2(v, SchemaBuilder::atomic);
    object().optional("names", names)
}

fn external_patch(v: SchemaVersion) -> SchemaBuilder {
    object()
        .optional("discoverVariablesExtension", extension())
        .optional(v.pick("generatePatchesExtension", "generateExtension"), extension())
        .optional("settings", map_of(string()))
        .optional(v.pick("validateTopologyExtension", "validateExtension"), extension())
}

fn upgrade() -> SchemaBuilder {
    let external = object().props(1..).optional("generateUpgradePlanExtension", extension());
    object().props(1..).optional("external", external)
}

/// The name of a runtime extension.
fn extension() -> SchemaBuilder {
    string().len(1..=512)
}

fn variable(v: SchemaVersion) -> SchemaBuilder {
    variable_definition(v).required("name", string().len(1..=256))
}

/// Common fields of a variable of the class and a definition in its status.
fn variable_definition(v: SchemaVersion) -> SchemaBuilder {
    object()
        .optional(v.pick("deprecatedV1Beta1Metadata", "metadata"), metadata(v))
        .required("required", boolean())
        .required("schema", object().required("openAPIV3Schema", variable_schema(v)))
}

pub(super) fn status(v: SchemaVersion) -> SchemaBuilder {
    object()
        .props(v.least()..)
        .with(generations(v, object(), object()))
        .optional("observedGeneration", observed_generation(v))
        .optional("variables", list(status_variable(v)).items(..=1000).in_v1beta2(v, SchemaBuilder::atomic))
}

fn status_variable(v: SchemaVersion) -> SchemaBuilder {
    let definition = variable_definition(v).required("from", string().len(1..=256));
    object()
        .required("definitions", list(definition).items(v.least()..=100).in_v1beta2(v, SchemaBuilder::atomic))
        .optional("definitionsConflict", boolean())
        .required("name", string().len(1..=256))
}
