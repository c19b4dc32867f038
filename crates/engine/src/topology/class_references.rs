//! The templates that a class refers to.

use std::collections::{BTreeMap, BTreeSet};

use model::hub::{ClusterClassSpec, TemplateRef, contract, paths};

/// The templates of a class, each once: infrastructure, control plane and its machines, then for each class of workers
/// bootstrap and infrastructure (CCR-03). They are read and reported in the version of the reference (DEC-30).
pub fn references(spec: &ClusterClassSpec) -> Vec<&TemplateRef> {
    located_references(spec).into_iter().map(|(_, reference)| reference).collect()
}

/// [`references`], each with the path of the first part of the class that has it.
pub fn located_references(spec: &ClusterClassSpec) -> Vec<(String, &TemplateRef)> {
    let control_plane = &spec.control_plane;
    let mut all = vec![
        (paths::cluster_class::INFRASTRUCTURE_TEMPLATE.to_owned(), &spec.infrastructure.template_ref),
        (paths::cluster_class::CONTROL_PLANE_TEMPLATE.to_owned(), &control_plane.template_ref),
        (
            paths::cluster_class::CONTROL_PLANE_MACHINES_TEMPLATE.to_owned(),
            &control_plane.machine_infrastructure.template_ref,
        ),
    ];
    let mut add_workers = |list: &str, position: usize, bootstrap, infrastructure| {
        all.push((format!("{list}[{position}].bootstrap.templateRef"), bootstrap));
        all.push((format!("{list}[{position}].infrastructure.templateRef"), infrastructure));
    };
    for (position, class) in spec.workers.machine_deployments.iter().enumerate() {
        let (bootstrap, infrastructure) = (&class.bootstrap.template_ref, &class.infrastructure.template_ref);
        add_workers(paths::cluster_class::MACHINE_DEPLOYMENTS, position, bootstrap, infrastructure);
    }
    for (position, class) in spec.workers.machine_pools.iter().enumerate() {
        let (bootstrap, infrastructure) = (&class.bootstrap.template_ref, &class.infrastructure.template_ref);
        add_workers(paths::cluster_class::MACHINE_POOLS, position, bootstrap, infrastructure);
    }
    let mut distinct: Vec<(String, &TemplateRef)> = Vec::new();
    for (path, reference) in all {
        if reference.is_defined() && distinct.iter().all(|(_, known)| *known != reference) {
            distinct.push((path, reference));
        }
    }
    distinct
}

/// The kinds of objects that are created for Clusters of a class, by `apiVersion` and kind: machine deployments get
/// copies of templates, other parts get objects of the template's kind.
pub fn created_kinds(spec: &ClusterClassSpec) -> BTreeSet<(String, String)> {
    let control_plane = &spec.control_plane;
    let deployments = spec.workers.machine_deployments.iter();
    let copied = deployments.flat_map(|class| [&class.bootstrap.template_ref, &class.infrastructure.template_ref]);
    let copied = copied.chain([&control_plane.machine_infrastructure.template_ref]);
    let pools = spec.workers.machine_pools.iter();
    let made = pools.flat_map(|class| [&class.bootstrap.template_ref, &class.infrastructure.template_ref]);
    let made = made.chain([&spec.infrastructure.template_ref, &control_plane.template_ref]);
    let kind = |reference: &TemplateRef, kind: &str| {
        reference.is_defined().then(|| (reference.api_version.clone(), kind.to_owned()))
    };
    let copied = copied.filter_map(|reference| kind(reference, &reference.kind));
    copied.chain(made.filter_map(|reference| kind(reference, contract::object_kind(&reference.kind)))).collect()
}

/// Group and version of a reference; the group of a core kind is empty.
///
/// # Errors
/// When the `apiVersion` is not `group/version` or `version`, or kind or name are missing.
pub fn group_version(reference: &TemplateRef) -> Result<(&str, &str), ReferenceError> {
    let TemplateRef { api_version, kind, name } = reference;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let is_whole = !version.is_empty() && !version.contains('/') && !kind.is_empty() && !name.is_empty();
    if is_whole { Ok((group, version)) } else { Err(ReferenceError::Incomplete(reference.clone())) }
}

/// A reference to an outdated version of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutdatedReference {
    pub kind: String,
    pub name: String,
    pub current: String,
    pub latest: String,
}

impl OutdatedReference {
    /// Compares a reference with the newest version in the labels of the definition of its kind (CCR-05).
    ///
    /// # Errors
    /// When the definition names no version for a supported contract.
    pub fn find(reference: &TemplateRef, labels: &BTreeMap<String, String>) -> Result<Option<Self>, ReferenceError> {
        let (group, current) = group_version(reference)?;
        let Some(latest) = contract::newest_version(labels) else {
            return Err(ReferenceError::NoContract(contract::definition_name(group, &reference.kind)));
        };
        Ok((latest != current).then(|| OutdatedReference {
            kind: reference.kind.clone(),
            name: reference.name.clone(),
            current: current.to_owned(),
            latest: latest.to_owned(),
        }))
    }
}

/// An error of a template reference.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReferenceError {
    #[error("the reference {:?} to {} {:?} is not complete", .0.api_version, .0.kind, .0.name)]
    Incomplete(TemplateRef),
    #[error("CustomResourceDefinition {0} has no label with versions for contract v1beta2 or v1beta1")]
    NoContract(String),
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(value: Value) -> ClusterClassSpec {
        serde_json::from_value(value).unwrap()
    }

    fn holder(kind: &str, name: &str) -> Value {
        json!({"templateRef": {"apiVersion": "g/v1", "kind": kind, "name": name}})
    }

    #[test]
    fn every_reference_is_followed_once_and_in_order() {
        // CCR-03
        let worker = |bootstrap: &str, machine: &str| {
            json!({"bootstrap": holder("B", bootstrap),
                "infrastructure": holder("M", machine)})
        };
        let mut control_plane = holder("CP", "cp");
        control_plane["machineInfrastructure"] = holder("M", "cp");
        let spec = spec(json!({
            "infrastructure": holder("IC", "ic"),
            "controlPlane": control_plane,
            "workers": {
                "machineDeployments": [worker("a", "cp"), worker("a", "b")],
                "machinePools": [worker("p", "b"), {}],
            },
        }));
        let seen: Vec<_> = references(&spec).iter().map(|r| format!("{}/{}", r.kind, r.name)).collect();
        assert_eq!(seen, ["IC/ic", "CP/cp", "M/cp", "B/a", "M/b", "B/p"]);
        let paths: Vec<String> = located_references(&spec).into_iter().map(|(path, _)| path).collect();
        assert_eq!(
            paths[3..],
            [
                "spec.workers.machineDeployments[0].bootstrap.templateRef",
                "spec.workers.machineDeployments[1].infrastructure.templateRef",
                "spec.workers.machinePools[0].bootstrap.templateRef",
            ]
        );
        assert!(references(&ClusterClassSpec::default()).is_empty());
    }

    #[test]
    fn machine_deployments_get_templates_and_the_rest_gets_objects() {
        let spec = spec(json!({
            "infrastructure": holder("ICTemplate", "ic"),
            "controlPlane": {"templateRef": {"apiVersion": "g/v2", "kind": "CPTemplate", "name": "cp"},
                "machineInfrastructure": holder("MTemplate", "m")},
            "workers": {
                "machineDeployments": [{"bootstrap": holder("BTemplate", "b"),
                    "infrastructure": holder("MTemplate", "x")}],
                "machinePools": [{"bootstrap": holder("BTemplate", "b"), "infrastructure": holder("PTemplate", "p")},
                    {}],
            },
        }));
        let seen: Vec<String> =
            created_kinds(&spec).into_iter().map(|(version, kind)| format!("{version} {kind}")).collect();
        assert_eq!(seen, ["g/v1 B", "g/v1 BTemplate", "g/v1 IC", "g/v1 MTemplate", "g/v1 P", "g/v2 CP"]);
    }

    #[test]
    fn the_same_name_in_another_version_or_kind_is_another_reference() {
        // CCR-03
        let spec = spec(json!({
            "infrastructure": {"templateRef": {"apiVersion": "g/v1", "kind": "A", "name": "n"}},
            "controlPlane": {"templateRef": {"apiVersion": "g/v2", "kind": "A", "name": "n"}},
            "workers": {"machineDeployments": [{"bootstrap": holder("B", "n")}]},
        }));
        assert_eq!(references(&spec).len(), 3);
    }

    #[test]
    fn references_are_compared_with_the_newest_version() {
        // CCR-05
        let labels = BTreeMap::from([("cluster.x-k8s.io/v1beta2".to_owned(), "v1beta1_v1beta2".to_owned())]);
        let reference =
            |version: &str| TemplateRef { api_version: version.to_owned(), kind: "ATemplate".into(), name: "n".into() };
        assert_eq!(OutdatedReference::find(&reference("g/v1beta2"), &labels), Ok(None));
        let outdated = OutdatedReference::find(&reference("g/v1beta1"), &labels).unwrap().unwrap();
        assert_eq!((&*outdated.current, &*outdated.latest), ("v1beta1", "v1beta2"));
        let error = OutdatedReference::find(&reference("g/v1"), &BTreeMap::new()).unwrap_err().to_string();
        assert_eq!(
            error,
            "CustomResourceDefinition atemplates.g has no label with versions for contract v1beta2 or v1beta1"
        );
        for broken in ["", "g/", "g/v1/x"] {
            assert!(
                matches!(OutdatedReference::find(&reference(broken), &labels), Err(ReferenceError::Incomplete(_))),
                "{broken}"
            );
        }
    }
}
