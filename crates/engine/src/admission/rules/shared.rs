//! Checks that several rules use, each under its own id.

use std::cell::LazyCell;
use std::collections::BTreeMap;

use crate::admission::AdmissionSettings;
use crate::admission::workers::WorkerKey;
use model::hub::contract::cloned_kind;
use model::hub::naming::{decimal_integer, is_int_or_percentage, label_key_faults, label_value_faults};
use model::hub::{
    Cluster, ClusterClassSpec, HealthCheck, IntOrString, RolloutStrategy, Taint, TemplateRef, TopologyMetadata,
    annotation, paths,
};
use schema::field::{Findings, Path, RuleId};

/// The ids of this file with their facts.
pub(in crate::admission) const LISTED: &[(RuleId, &str)] = &[
    ("TRF-001", "template_reference_has_a_name"),
    ("TRF-002", "template_reference_names_a_template_kind"),
    ("TRF-003", "template_reference_has_an_api_version"),
    ("DEC-44", "objects_keep_their_budget"),
    ("DEC-45", "references_can_be_part_of_a_url"),
    ("ROL-001", "rollout_bounds_are_ints_or_percentages"),
    ("ROL-002", "rollout_can_proceed"),
    ("HCK-001", "node_startup_timeout_is_off_or_long_enough"),
    ("HCK-002", "remediation_trigger_is_an_int_or_percentage"),
    ("HCK-003", "remediation_in_flight_is_an_int_or_percentage"),
    ("LBL-001", "label_keys_are_well_formed"),
    ("LBL-002", "label_values_are_well_formed"),
    ("LBL-003", "annotation_keys_are_well_formed"),
    ("LBL-004", "annotations_are_small_enough"),
    ("TNT-001", "taints_are_switched_on"),
    ("TNT-002", "taint_keys_are_not_reserved"),
    ("TNT-003", "taint_keys_are_well_formed"),
];

/// The most bytes that keys and values of annotations may have together (LBL-004).
const ANNOTATIONS_LIMIT: usize = 262_144;

/// A template reference can be resolved (TRF-001 to TRF-003); `holder` is the path of the object with the reference.
pub(super) fn template_reference(reference: &TemplateRef, holder: &Path, found: &mut Findings) {
    let path = holder.child("ref");
    found.run("TRF-001", |found| {
        if reference.name.is_empty() {
            found.required(path.child("name"), "name the template");
        }
    });
    found.run("TRF-002", |found| {
        if cloned_kind(&reference.kind).is_none_or(str::is_empty) {
            found.invalid(
                path.child("kind"),
                &*reference.kind,
                "the kind of a template ends in \"Template\", as in DockerClusterTemplate",
            );
        }
    });
    found.run("TRF-003", |found| {
        if reference.api_version.matches('/').count() > 1 {
            found.invalid(path.child("apiVersion"), &*reference.api_version, "must be <group>/<version>");
        } else if matches!(&*reference.api_version, "" | "/") {
            found.required(path.child("apiVersion"), "say <group>/<version>");
        }
    });
}

/// A rolling update has usable bounds (ROL-001, ROL-002).
pub(super) fn rollout_strategy(strategy: &RolloutStrategy, path: &Path, found: &mut Findings) {
    let update = &strategy.rolling_update;
    let path = path.child("rollingUpdate");
    found.run("ROL-001", |found| {
        int_or_percentage(update.max_unavailable.as_ref(), || path.child("maxUnavailable"), found);
        int_or_percentage(update.max_surge.as_ref(), || path.child("maxSurge"), found);
    });
    found.run("ROL-002", |found| {
        if (&update.max_unavailable, &update.max_surge) == (&Some(IntOrString::Int(0)), &Some(IntOrString::Int(0))) {
            let value = serde_json::json!({"maxUnavailable": 0, "maxSurge": 0});
            found.invalid(
                path.clone(),
                value,
                "maxUnavailable and maxSurge cannot both be 0: no machine could be replaced",
            );
        }
    });
}

/// A health check is usable (HCK-001, HCK-002).
pub(super) fn health_check(check: &HealthCheck, path: &Path, settings: &AdmissionSettings, found: &mut Findings) {
    let minimum = settings.minimum_node_startup_timeout_seconds;
    found.run("HCK-001", |found| {
        if let Some(seconds) = check.checks.node_startup_timeout_seconds
            && seconds != 0
            && seconds < minimum
        {
            let path = path.child("checks.nodeStartupTimeoutSeconds");
            found.invalid(path, seconds, format!("must be at least {minimum}, or 0 to switch the check off"));
        }
    });
    found.run("HCK-002", |found| {
        let trigger = check.remediation.trigger_if.unhealthy_less_than_or_equal_to.as_ref();
        int_or_percentage(trigger, || path.child("remediation.triggerIf.unhealthyLessThanOrEqualTo"), found);
    });
}

/// The number of machines in remediation is usable (HCK-003); `path` is that of the remediation.
pub(super) fn remediation_in_flight(check: &HealthCheck, path: &Path, found: &mut Findings) {
    found.run("HCK-003", |found| {
        int_or_percentage(check.remediation.max_in_flight.as_ref(), || path.child("maxInFlight"), found);
    });
}

/// IOP-001
fn int_or_percentage(value: Option<&IntOrString>, path: impl FnOnce() -> Path, found: &mut Findings) {
    if let Some(value) = value.filter(|value| !is_int_or_percentage(value)) {
        found.invalid(path(), value, "must be an integer or a percentage such as \"10%\"");
    }
}

/// Labels and annotations are well-formed (LBL-001 to LBL-004).
pub(super) fn metadata(metadata: &TopologyMetadata, path: &Path, found: &mut Findings) {
    for (key, value) in metadata.labels.iter() {
        found.run("LBL-001", |found| {
            label_key_faults(key).into_iter().for_each(|fault| found.invalid(path.child("labels"), key, fault));
        });
        found.run("LBL-002", |found| {
            label_value_faults(value).into_iter().for_each(|fault| found.invalid(path.child("labels"), value, fault));
        });
    }
    found.run("LBL-003", |found| {
        for (key, _) in metadata.annotations.iter() {
            let faults = label_key_faults(&key.to_lowercase());
            faults.into_iter().for_each(|fault| found.invalid(path.child("annotations"), key, fault));
        }
    });
    found.run("LBL-004", |found| {
        let bytes: usize = metadata.annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
        if bytes > ANNOTATIONS_LIMIT {
            found.too_long(
                path.child("annotations"),
                format!("may not be more than {ANNOTATIONS_LIMIT} bytes, and has {bytes}"),
            );
        }
    });
}

/// Taints may be set, and their keys may be used (TNT-001 to TNT-003).
pub(super) fn taints(taints: &[Taint], path: &Path, settings: &AdmissionSettings, found: &mut Findings) {
    found.run("TNT-001", |found| {
        if !settings.gates.machine_taint_propagation && !taints.is_empty() {
            found.forbidden(path.clone(), "taints need the feature gate MachineTaintPropagation");
        }
    });
    for (i, taint) in taints.iter().enumerate() {
        let path = path.index(i).child("key");
        found.run("TNT-002", |found| {
            if let Some(owner) = reserved_by(&taint.key) {
                found.invalid(path.clone(), &*taint.key, format!("this key is reserved for {owner}"));
            }
        });
        found.run("TNT-003", |found| {
            label_key_faults(&taint.key).into_iter().for_each(|fault| found.invalid(path.clone(), &*taint.key, fault));
        });
    }
}

/// The component that reserves a taint key (TNT-002).
fn reserved_by(key: &str) -> Option<&'static str> {
    match key {
        "node.cluster.x-k8s.io/uninitialized" | "node.cluster.x-k8s.io/outdated-revision" => Some("Cluster API"),
        "node.kubernetes.io/out-of-service" => None,
        "node-role.kubernetes.io/master" => Some("the past; use node-role.kubernetes.io/control-plane"),
        key if key.starts_with("node.kubernetes.io/") => Some("Kubernetes itself"),
        key if key.starts_with("node.cloudprovider.kubernetes.io/") => Some("cloud providers"),
        _ => None,
    }
}

/// Machine deployments whose replicas are set although an autoscaler manages them (CL-V-070).
///
/// `whose` ends each message, for errors about a Cluster in the denial of a class (CC-V-120).
pub(super) fn autoscaled_replicas(
    cluster: &Cluster,
    class: Option<&ClusterClassSpec>,
    whose: &str,
    found: &mut Findings,
) {
    for deployment in &cluster.spec.topology.workers.machine_deployments {
        let Some(replicas) = deployment.replicas else { continue };
        let path = Path::new(paths::cluster::TOPOLOGY_MACHINE_DEPLOYMENTS).key(&deployment.name).child("replicas");
        if is_autoscaled(&deployment.metadata) {
            let detail =
                format!("leave replicas to the autoscaler, whose annotations this machine deployment has{whose}");
            found.invalid(path.clone(), replicas, detail);
        }
        let class = class.and_then(|class| class.machine_deployment_class(&deployment.class));
        if let Some(class) = class.filter(|class| is_autoscaled(&class.metadata)) {
            let detail =
                format!("leave replicas to the autoscaler, whose annotations class {:?} has{whose}", class.class);
            found.invalid(path, replicas, detail);
        }
    }
}

/// Names the Cluster of an error in the review of its class (CC-V-120, DEC-1).
pub(super) fn whose(cluster: &Cluster) -> String {
    format!(" (Cluster {:?} in namespace {:?})", cluster.metadata.name, cluster.metadata.namespace)
}

/// The sizes of an autoscaler that are no integers, or a maximum below the minimum (DEC-72).
///
/// `workers` are the worker sets or classes, with their metadata and its path; `before` are those of the stored object.
/// Sizes that are stored already are left alone, so that other fields can be changed.
pub(super) fn autoscaler_sizes<'a>(
    workers: impl Iterator<Item = (WorkerKey<'a>, &'a TopologyMetadata, impl FnOnce() -> Path)>,
    before: impl Iterator<Item = (WorkerKey<'a>, &'a TopologyMetadata)>,
    found: &mut Findings,
) {
    let before = LazyCell::new(|| before.collect::<BTreeMap<_, _>>());
    for (key, metadata, path) in workers.filter(|(_, metadata, _)| is_autoscaled(metadata)) {
        if before.get(&key).is_none_or(|before| sizes(before) != sizes(metadata)) {
            check_sizes(metadata, &path().child("annotations"), found);
        }
    }
}

/// The annotations with the sizes of an autoscaler: minimum and maximum.
pub(super) const SIZES: [&str; 2] = [annotation::AUTOSCALER_MIN_SIZE, annotation::AUTOSCALER_MAX_SIZE];

fn sizes(metadata: &TopologyMetadata) -> [Option<&str>; 2] {
    SIZES.map(|name| metadata.annotations.get(name))
}

/// Whether the metadata of a worker set and of its class have both sizes of an autoscaler together.
pub(super) fn has_both_sizes(metadata: [&TopologyMetadata; 2]) -> bool {
    SIZES.iter().all(|name| metadata.iter().any(|one| one.annotations.contains_key(name)))
}

fn check_sizes(metadata: &TopologyMetadata, path: &Path, found: &mut Findings) {
    let written = sizes(metadata);
    let numbers = written.map(|text| decimal_integer(text?).and_then(|size| i32::try_from(size).ok()));
    for (name, (text, number)) in SIZES.into_iter().zip(written.into_iter().zip(numbers)) {
        if let (Some(text), None) = (text, number) {
            found.invalid(path.key(name), text, "must be an integer, the number of machines");
        }
    }
    if let ([Some(least), Some(most)], [_, Some(text)]) = (numbers, written)
        && most < least
    {
        found.invalid(path.key(SIZES[1]), text, format!("must not be below {least}, the minimum in {}", SIZES[0]));
    }
}

fn is_autoscaled(metadata: &TopologyMetadata) -> bool {
    SIZES.iter().any(|name| metadata.annotations.contains_key(name))
}

/// A machine deployment enables a health check that is not defined.
pub(super) fn lacks_health_check(own: &HealthCheck, of_class: &HealthCheck) -> bool {
    own.enabled == Some(true) && !own.is_defined() && !of_class.is_defined()
}
