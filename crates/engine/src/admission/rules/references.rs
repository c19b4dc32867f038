//! References of objects, whose parts become parts of URLs (DEC-45).
//!
//! The schema of v1beta2 has these patterns; that of v1beta1 does not, although its objects are stored and resolved in
//! the same way. Missing parts are checked by other rules.

use std::collections::BTreeSet;

use super::class_change;
use model::hub::naming::{dns_label_faults, group_version_faults, kind_faults, subdomain_faults};
use model::hub::{Cluster, ClusterClass, ContractRef, MachineHealthCheck, Remediation, TemplateRef, paths};
use schema::field::{Findings, Path, RuleId, shortened};

pub(super) const RULE: RuleId = "DEC-45";

/// A part of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReferencePart {
    ApiVersion,
    /// The `apiVersion` of a template, which TRF-003 checks if it is incomplete.
    TemplateApiVersion,
    Group,
    Kind,
    Namespace,
    Name,
}

/// A text that cannot be a part of a URL.
#[derive(Clone, Debug)]
pub(super) struct MalformedReference<'a> {
    path: Path,
    kind: ReferencePart,
    text: &'a str,
    faults: Vec<String>,
}

/// The faults of a text; none for a missing one.
fn faults(kind: ReferencePart, text: &str) -> Vec<String> {
    match kind {
        _ if text.is_empty() => Vec::new(),
        ReferencePart::TemplateApiVersion | ReferencePart::ApiVersion => group_version_faults(text),
        ReferencePart::Group | ReferencePart::Name => subdomain_faults(text),
        ReferencePart::Kind => kind_faults(text),
        ReferencePart::Namespace => dns_label_faults(text),
    }
}

/// Whether TRF-003 reports an apiVersion.
fn is_reported_by_trf_003(text: &str) -> bool {
    text == "/" || text.matches('/').count() > 1
}

/// Every part of a reference can be part of a URL.
///
/// The API of v1beta1 accepts such references. So a part gets a warning instead if the old object had a malformed part
/// at the same path.
pub(super) fn can_be_part_of_a_url(
    new: Vec<MalformedReference<'_>>,
    old: &[MalformedReference<'_>],
    found: &mut Findings,
) {
    if new.is_empty() {
        return;
    }
    let known: BTreeSet<(ReferencePart, &str)> = old.iter().map(|part| (part.kind, part.text)).collect();
    let places: BTreeSet<String> = old.iter().map(|part| part.path.to_string()).collect();
    for MalformedReference { path, kind, text, faults } in new {
        if kind == ReferencePart::TemplateApiVersion && is_reported_by_trf_003(text) {
            continue;
        }
        if known.contains(&(kind, text)) || places.contains(&path.to_string()) {
            let (text, fault) = (shortened(text), faults.join(", and "));
            found.warn_at(&path, format!("{text:?} {fault}; this reference is not followed"));
        } else {
            faults.into_iter().for_each(|fault| found.invalid(path.clone(), text, fault));
        }
    }
}

/// Collects the malformed references of an object.
#[derive(Default)]
struct ReferenceFaults<'a>(Vec<MalformedReference<'a>>);

impl<'a> ReferenceFaults<'a> {
    fn note(&mut self, kind: ReferencePart, text: &'a str, path: impl FnOnce() -> Path) {
        let faults = faults(kind, text);
        if !faults.is_empty() {
            self.0.push(MalformedReference { path: path(), kind, text, faults });
        }
    }

    fn template(&mut self, reference: &'a TemplateRef, holder: &Path) {
        // The established paths have `ref` here (DEC-4).
        let at = |field| holder.child("ref").child(field);
        self.note(ReferencePart::TemplateApiVersion, &reference.api_version, || at("apiVersion"));
        self.note(ReferencePart::Kind, &reference.kind, || at("kind"));
        self.note(ReferencePart::Name, &reference.name, || at("name"));
    }

    fn contract(&mut self, reference: &'a ContractRef, path: &'static str) {
        let at = |field| Path::new(path).child(field);
        self.note(ReferencePart::Group, &reference.api_group, || at("apiGroup"));
        self.note(ReferencePart::Kind, &reference.kind, || at("kind"));
        self.note(ReferencePart::Name, &reference.name, || at("name"));
    }

    fn remediation(&mut self, remediation: &'a Remediation, path: impl Fn() -> Path) {
        let reference = &remediation.template_ref;
        let at = |field| path().child("remediation.templateRef").child(field);
        self.note(ReferencePart::ApiVersion, &reference.api_version, || at("apiVersion"));
        self.note(ReferencePart::Kind, &reference.kind, || at("kind"));
        self.note(ReferencePart::Name, &reference.name, || at("name"));
    }
}

/// The references of a class: its templates, and those of remediation.
pub(super) fn malformed_in_class(class: &ClusterClass) -> Vec<MalformedReference<'_>> {
    let (spec, mut parts) = (&class.spec, ReferenceFaults::default());
    parts.template(&spec.infrastructure.template_ref, &Path::new(paths::cluster_class::INFRASTRUCTURE));
    parts.template(&spec.control_plane.template_ref, &Path::new(paths::cluster_class::CONTROL_PLANE));
    let machines = &spec.control_plane.machine_infrastructure.template_ref;
    parts.template(machines, &Path::new(paths::cluster_class::CONTROL_PLANE_MACHINES));
    let workers = &spec.workers;
    for (i, class) in workers.machine_deployments.iter().enumerate() {
        let path = Path::new(paths::cluster_class::MACHINE_DEPLOYMENTS).index(i).child("template");
        parts.template(&class.bootstrap.template_ref, &path.child("bootstrap"));
        parts.template(&class.infrastructure.template_ref, &path.child("infrastructure"));
    }
    for (i, class) in workers.machine_pools.iter().enumerate() {
        let path = Path::new(paths::cluster_class::MACHINE_POOLS).index(i).child("template");
        parts.template(&class.bootstrap.template_ref, &path.child("bootstrap"));
        parts.template(&class.infrastructure.template_ref, &path.child("infrastructure"));
    }
    parts.remediation(&spec.control_plane.health_check.remediation, class_change::control_plane_health_check);
    for class in &workers.machine_deployments {
        let path = || class_change::machine_deployment(&class.class).child("healthCheck");
        parts.remediation(&class.health_check.remediation, path);
    }
    parts.0
}

/// The references of a Cluster: its infrastructure and control plane, its class, and templates of remediation.
pub(super) fn malformed_in_cluster(cluster: &Cluster) -> Vec<MalformedReference<'_>> {
    let (spec, topology, mut parts) = (&cluster.spec, &cluster.spec.topology, ReferenceFaults::default());
    parts.contract(&spec.infrastructure_ref, paths::INFRASTRUCTURE_REF);
    parts.contract(&spec.control_plane_ref, paths::cluster::CONTROL_PLANE_REF);
    parts.note(ReferencePart::Name, &topology.class_ref.name, || Path::new(paths::cluster::TOPOLOGY_CLASS_NAME));
    parts.note(ReferencePart::Namespace, &topology.class_ref.namespace, || {
        Path::new(paths::cluster::TOPOLOGY_CLASS_NAMESPACE)
    });
    let control_plane = || Path::new(paths::cluster::TOPOLOGY_CONTROL_PLANE_HEALTH_CHECK);
    parts.remediation(&topology.control_plane.health_check.remediation, control_plane);
    for deployment in &topology.workers.machine_deployments {
        let path =
            || Path::new(paths::cluster::TOPOLOGY_MACHINE_DEPLOYMENTS).key(&deployment.name).child("healthCheck");
        parts.remediation(&deployment.health_check.remediation, path);
    }
    parts.0
}

/// The reference of a MachineHealthCheck.
pub(super) fn malformed_in_health_check(check: &MachineHealthCheck) -> Vec<MalformedReference<'_>> {
    let mut parts = ReferenceFaults::default();
    parts.remediation(&check.spec.remediation, || Path::new("spec"));
    parts.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn valid_references_have_no_errors() {
        // DEC-45
        let reference = json!({"apiGroup": "g.io", "kind": "Thing", "name": "n"});
        let class = json!({"name": "class", "namespace": "shared"});
        let cluster: Cluster =
            serde_json::from_value(json!({"spec": {"infrastructureRef": reference, "topology": {"classRef": class}}}))
                .unwrap();
        assert!(malformed_in_cluster(&cluster).is_empty());
        assert!(
            malformed_in_cluster(&Cluster::default()).is_empty()
                && malformed_in_class(&ClusterClass::default()).is_empty()
        );
    }
}
