//! Compatibility of ClusterClasses (CMP-001 to CMP-010).
//!
//! A Cluster that moves from the current class to the desired one keeps its objects, so their versions and templates
//! may change, but not their groups and kinds.

use super::{ClusterClassSpec, TemplateRef, paths};
use schema::field::{Findings, Path, RuleId};

/// Reports everything that is incompatible between `current` and `desired` (CMP-010).
pub fn check(current: &ClusterClassSpec, desired: &ClusterClassSpec, errors: &mut Findings) {
    for (rule, check) in RULES {
        errors.run(rule, |errors| check(current, desired, errors));
    }
}

/// The rule ids of this file with the facts that they state.
pub const LISTED: &[(RuleId, &str)] = &[
    ("CMP-001", "same_group_and_kind"),
    ("CMP-002", "infrastructure_keeps_its_kind"),
    ("CMP-003", "control_plane_keeps_its_kind"),
    ("CMP-004", "control_plane_machines_keep_their_kind"),
    ("CMP-005", "machine_deployments_keep_their_kind"),
    ("CMP-006", "machine_pools_keep_their_kind"),
];

type CompatibilityCheck = fn(&ClusterClassSpec, &ClusterClassSpec, &mut Findings);

const RULES: [(RuleId, CompatibilityCheck); 5] = [
    ("CMP-002", infrastructure_keeps_its_kind),
    ("CMP-003", control_plane_keeps_its_kind),
    ("CMP-004", control_plane_machines_keep_their_kind),
    ("CMP-005", machine_deployments_keep_their_kind),
    ("CMP-006", machine_pools_keep_their_kind),
];

/// The infrastructure cluster keeps its group and kind (CMP-002).
fn infrastructure_keeps_its_kind(current: &ClusterClassSpec, desired: &ClusterClassSpec, errors: &mut Findings) {
    let path = Path::new(paths::cluster_class::INFRASTRUCTURE_TEMPLATE);
    same_group_and_kind(&current.infrastructure.template_ref, &desired.infrastructure.template_ref, path, errors);
}

/// The control plane keeps its group and kind (CMP-003).
fn control_plane_keeps_its_kind(current: &ClusterClassSpec, desired: &ClusterClassSpec, errors: &mut Findings) {
    let path = Path::new(paths::cluster_class::CONTROL_PLANE_TEMPLATE);
    same_group_and_kind(&current.control_plane.template_ref, &desired.control_plane.template_ref, path, errors);
}

/// Control plane machines keep their group and kind, and are neither added nor removed (CMP-004).
fn control_plane_machines_keep_their_kind(
    current: &ClusterClassSpec,
    desired: &ClusterClassSpec,
    errors: &mut Findings,
) {
    let path = Path::new(paths::cluster_class::CONTROL_PLANE_MACHINES_TEMPLATE);
    let (old, new) = (&current.control_plane.machine_infrastructure, &desired.control_plane.machine_infrastructure);
    same_group_and_kind(&old.template_ref, &new.template_ref, path, errors);
}

/// Machines of a kept machine deployment class keep their group and kind; the bootstrap may change (CMP-005).
fn machine_deployments_keep_their_kind(current: &ClusterClassSpec, desired: &ClusterClassSpec, errors: &mut Findings) {
    let machines = |spec: &ClusterClassSpec| -> Vec<(String, TemplateRef)> {
        let classes = spec.workers.machine_deployments.iter();
        classes.map(|class| (class.class.clone(), class.infrastructure.template_ref.clone())).collect()
    };
    workers_keep_their_kind(&machines(current), &machines(desired), paths::cluster_class::MACHINE_DEPLOYMENTS, errors);
}

/// Machines of a kept machine pool class keep their group and kind; the bootstrap may change (CMP-006).
fn machine_pools_keep_their_kind(current: &ClusterClassSpec, desired: &ClusterClassSpec, errors: &mut Findings) {
    let machines = |spec: &ClusterClassSpec| -> Vec<(String, TemplateRef)> {
        let classes = spec.workers.machine_pools.iter();
        classes.map(|class| (class.class.clone(), class.infrastructure.template_ref.clone())).collect()
    };
    workers_keep_their_kind(&machines(current), &machines(desired), paths::cluster_class::MACHINE_POOLS, errors);
}

/// Compares the infrastructure of classes of the same name.
fn workers_keep_their_kind(
    current: &[(String, TemplateRef)],
    desired: &[(String, TemplateRef)],
    path: &'static str,
    errors: &mut Findings,
) {
    for (i, (name, new)) in desired.iter().enumerate() {
        for (_, old) in current.iter().filter(|(old, _)| old == name) {
            same_group_and_kind(old, new, Path::new(path).index(i).child("infrastructure.templateRef"), errors);
        }
    }
}

/// Group and kind are equal; version and name may differ (CMP-001).
fn same_group_and_kind(current: &TemplateRef, desired: &TemplateRef, path: Path, errors: &mut Findings) {
    errors.run("CMP-001", |errors| {
        for (field, what, old, new) in [
            ("apiVersion", "API group", current.group(), desired.group()),
            ("kind", "kind", &*current.kind, &*desired.kind),
        ] {
            if old != new {
                let detail = format!("{what} {} cannot become {}", named(old), named(new));
                errors.forbidden(path.child(field), detail);
            }
        }
    });
}

fn named(text: &str) -> String {
    if text.is_empty() { "(none)".to_owned() } else { format!("{text:?}") }
}
