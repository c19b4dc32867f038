//! Sample Clusters for classes that no Cluster uses (DEC-48).
//!
//! ```text
//! ClusterClass ─► variables: small valid values ─┐
//!             └─► each worker class once ────────┴─► Cluster ─► both end points of the webhook ─► as if it had been in a file
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::admission::{AdmissionOutcome, AdmissionSettings, DecodedRequest, Operation, Phase, RawRequest, Verdict};
use crate::topology::plan::uid;
use golang::json::{self, RawJson};
use model::hub::contract::{definition_name, object_kind};
use model::hub::{
    Cluster, ClusterClass, GROUP, Kind, MachineDeploymentClass, MachineDeploymentTopology, MachinePoolClass,
    MachinePoolTopology, ObjectKey, VariableValue, group_of, version_of,
};
use model::variables::{self, AlternativeValue, SampleExtent, SampleValues};
use model::wire::{Decode, WireVersion};
use model::world::{Class, Facts, Found, Record};

/// Kubernetes versions of samples, if the class lists none: the first that the control plane accepts. Distributions
/// demand their builds.
const VERSIONS: [&str; 4] = ["v1.34.0", "v1.34.0+rke2r1", "v1.34.0+k3s1", "v1.34.0+k0s.0"];
/// Machines of a control plane: the number in production, so that a rollout has the same steps.
const CONTROL_PLANE: u32 = 3;
/// Machines of each worker set.
const WORKERS: u32 = 1;
/// Maximum length of the name of a Cluster.
const LONGEST_NAME: usize = 63;

/// The name of the sample of a class, which no other Cluster has.
pub fn key(class: &ObjectKey, facts: &[&Facts]) -> ObjectKey {
    let is_taken = |key: &ObjectKey| facts.iter().any(|facts| facts.cluster(key) != Found::Absent);
    let numbered = (2..).map(|number| format!("sample-{number}-"));
    let prefixes = std::iter::once("sample-".to_owned()).chain(numbered);
    let keys = prefixes.map(|prefix| ObjectKey::new(&class.namespace, name(&prefix, &class.name)));
    keys.into_iter().find(|key| !is_taken(key)).unwrap_or_default()
}

/// A DNS label that ends with the name of a class, truncated if necessary.
fn name(prefix: &str, class: &str) -> String {
    let label = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = prefix.chars().chain(class.chars().map(label)).take(LONGEST_NAME).collect();
    name.trim_end_matches('-').to_owned()
}

/// A Kubernetes version that all of the classes offer: the last one of the first class that has a list. Without a list,
/// one that the definitions of the control planes accept, if they are known.
pub fn version(classes: &[&ClusterClass], facts: &[&Facts]) -> Option<String> {
    let mut lists = classes.iter().map(|class| &*class.spec.kubernetes_versions).filter(|list| !list.is_empty());
    let Some(first) = lists.next() else {
        let is_accepted = |version: &&str| {
            classes.iter().all(|class| facts.iter().all(|facts| accepts_version(class, facts, version)))
        };
        return Some(VERSIONS.into_iter().find(is_accepted).unwrap_or(VERSIONS[0]).to_owned());
    };
    let rest: Vec<&[String]> = lists.collect();
    first.iter().rev().find(|version| rest.iter().all(|list| list.contains(version))).cloned()
}

/// Whether the definition of a class's control plane, if it is known, accepts a version.
fn accepts_version(class: &ClusterClass, facts: &Facts, version: &str) -> bool {
    let template = &class.spec.control_plane.template_ref;
    let name = definition_name(group_of(&template.api_version), object_kind(&template.kind));
    let Some(Found::Yes(definition)) = facts.objects().map(|objects| objects.definition(&name)) else { return true };
    match definition.resource_schema(version_of(&template.api_version)) {
        Some(Ok(schema)) => schema.accepts(&["spec", "version"], &json!(version)),
        _ => true,
    }
}

/// A Cluster that a class describes.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The Cluster in the form of a file, in v1beta2.
    pub value: Value,
    /// Required variables without a value, with reasons.
    pub missing: Vec<String>,
}

/// The reason for which a draft is not admitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DraftError {
    /// No valid value was found for a variable.
    #[error("{0}")]
    MissingValue(String),
    /// The errors of the webhook's verdicts.
    #[error("{}", .0.join("; "))]
    Denied(Vec<String>),
}

impl Draft {
    /// Generates a Cluster with variables of that extent, and each worker class once.
    pub fn generate(
        class: &Class,
        key: &ObjectKey,
        version: &str,
        extent: SampleExtent,
        settings: &AdmissionSettings,
    ) -> Self {
        let definitions = variables::current(class).unwrap_or_default();
        let compiled = class.variables().unwrap_or_default();
        let SampleValues { values, missing } = SampleValues::generate(&definitions, &compiled, extent);
        let set: Vec<Value> = values.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        let mut topology = json!({
            "classRef": {"name": class.metadata.name},
            "version": version,
            "workers": workers(class, settings),
            "variables": set,
        });
        if class.spec.has_control_plane_machines() {
            topology["controlPlane"] = json!({"replicas": CONTROL_PLANE});
        }
        let value = json!({
            "apiVersion": format!("{GROUP}/{}", WireVersion::V1Beta2), "kind": "Cluster",
            "metadata": {"namespace": key.namespace, "name": key.name},
            "spec": {"clusterNetwork": network(), "topology": topology},
        });
        let messages = missing.into_iter().map(|(name, reason)| {
            let place = format!("{name}{}", reason.place);
            format!(
                "no valid value was found for the variable {place}: {}; add an example or a default to its schema, or \
                 a Cluster of the class to the files",
                reason.reason
            )
        });
        Draft { value, missing: messages.collect() }
    }

    /// Whether it sets variables, whose values are made up.
    pub fn has_variables(&self) -> bool {
        let variables = self.value.pointer("/spec/topology/variables").and_then(Value::as_array);
        variables.is_some_and(|variables| !variables.is_empty())
    }

    /// The Cluster after both end points of the webhook.
    ///
    /// # Errors
    /// When a variable has no value, or an end point denies the Cluster.
    pub fn admitted(&self, facts: &Arc<Facts>, settings: &AdmissionSettings) -> Result<Cluster, DraftError> {
        if let Some(missing) = self.missing.first() {
            return Err(DraftError::MissingValue(missing.clone()));
        }
        admitted(&self.value, facts, settings).map(identified).map_err(DraftError::Denied)
    }
}

/// A new Cluster like another one, with this value of a variable and with one set of workers of each class.
#[must_use]
pub fn varied(
    cluster: &Cluster,
    class: &ClusterClass,
    other: Option<&AlternativeValue>,
    settings: &AdmissionSettings,
) -> Cluster {
    let mut cluster = cluster.clone();
    (cluster.spec.infrastructure_ref, cluster.spec.control_plane_ref) = Default::default();
    let topology = &mut cluster.spec.topology;
    if let Some(AlternativeValue { variable, value, .. }) = other {
        let mut variables = std::mem::take(&mut topology.variables).into_vec();
        variables.retain(|set| set.name != *variable);
        let value = value.as_ref().map(RawJson::from_value);
        variables.extend(value.map(|value| VariableValue { name: variable.clone(), value: Some(value) }));
        topology.variables = variables.into();
    }
    let workers = &mut topology.workers;
    let mut taken: BTreeSet<String> = workers.machine_deployments.iter().map(|set| set.name.clone()).collect();
    taken.extend(workers.machine_pools.iter().map(|set| set.name.clone()));
    let mut deployments = std::mem::take(&mut workers.machine_deployments).into_vec();
    let mut known = BTreeSet::new();
    deployments.retain(|set| known.insert(set.class.clone()));
    for MachineDeploymentClass { class, .. } in &class.spec.workers.machine_deployments {
        if !known.contains(class) {
            let name = free_name(class, &mut taken);
            deployments.push(MachineDeploymentTopology { class: class.clone(), name, ..Default::default() });
        }
    }
    workers.machine_deployments = deployments.into();
    if settings.gates.machine_pool {
        let mut pools = std::mem::take(&mut workers.machine_pools).into_vec();
        let mut known = BTreeSet::new();
        pools.retain(|set| known.insert(set.class.clone()));
        for MachinePoolClass { class, .. } in &class.spec.workers.machine_pools {
            if !known.contains(class) {
                let name = free_name(class, &mut taken);
                pools.push(MachinePoolTopology { class: class.clone(), name, ..Default::default() });
            }
        }
        workers.machine_pools = pools.into();
    }
    cluster
}

/// A name for a set of workers of a class that no other set has.
fn free_name(class: &str, taken: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|number| format!("sample-{number}-"));
    let prefixes = std::iter::once("sample-".to_owned()).chain(numbered);
    let free = prefixes.map(|prefix| name(&prefix, class)).find(|name| taken.insert(name.clone()));
    free.unwrap_or_default()
}

/// A Cluster in v1beta2 after both end points of the webhook have admitted it; otherwise the errors of their verdicts.
fn admitted(cluster: &Value, facts: &Arc<Facts>, settings: &AdmissionSettings) -> Result<Cluster, Vec<String>> {
    let name = cluster.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let mut text = cluster.to_string();
    let defaulted = DecodedRequest::decode(&creation(Phase::Default, "", &text)).ok();
    let defaulted = defaulted.map(|request| request.settle(facts, settings));
    if let Some(verdict) = &defaulted
        && let Ok(mut value) = json::value(&text)
        && json_patch::patch(&mut value, &verdict.patch).is_ok()
    {
        text = value.to_string();
    }
    let validated = match DecodedRequest::decode(&creation(Phase::Validate, name, &text)) {
        Ok(request) => request.settle(facts, settings),
        Err(denied) => *denied,
    };
    let errors: Vec<String> = defaulted.iter().chain([&validated]).flat_map(errors).collect();
    match Cluster::decode(WireVersion::V1Beta2, &text) {
        Ok(cluster) if errors.is_empty() => Ok(cluster),
        _ => Err(errors),
    }
}

/// The request that creates a Cluster.
fn creation<'a>(phase: Phase, name: &'a str, cluster: &'a str) -> RawRequest<'a> {
    RawRequest {
        phase,
        kind: Kind::Cluster,
        version: WireVersion::V1Beta2,
        operation: Operation::Create,
        name,
        object: Some(cluster),
        old_object: None,
        old_version: WireVersion::V1Beta2,
    }
}

/// The errors of a verdict as texts.
fn errors(verdict: &Verdict) -> Vec<String> {
    match &verdict.outcome {
        AdmissionOutcome::Allowed => Vec::new(),
        AdmissionOutcome::Invalid(errors) => errors.iter().map(ToString::to_string).collect(),
        AdmissionOutcome::Forbidden { message, .. }
        | AdmissionOutcome::Undecodable(message)
        | AdmissionOutcome::Unknown { message, .. } => {
            vec![message.clone()]
        }
    }
}

/// The network of most files, which patches read.
fn network() -> Value {
    json!({
        "pods": {"cidrBlocks": ["192.168.0.0/16"]}, "services": {"cidrBlocks": ["10.128.0.0/12"]},
        "serviceDomain": "cluster.local",
    })
}

/// Each worker class once.
fn workers(class: &ClusterClass, settings: &AdmissionSettings) -> Value {
    let set = |(class, name): (&str, String)| json!({"class": class, "name": name, "replicas": WORKERS});
    let sets = |classes: Vec<&str>| names(classes).into_iter().map(set).collect::<Value>();
    let mut workers = Map::new();
    let deployments = class.spec.workers.machine_deployments.iter().map(|worker| &*worker.class).collect();
    workers.insert("machineDeployments".to_owned(), sets(deployments));
    if settings.gates.machine_pool {
        let pools = class.spec.workers.machine_pools.iter().map(|worker| &*worker.class).collect();
        workers.insert("machinePools".to_owned(), sets(pools));
    }
    workers.into()
}

/// Distinct names for worker sets: those of their classes if they are labels.
fn names(classes: Vec<&str>) -> Vec<(&str, String)> {
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    let named = classes.into_iter().map(|class| {
        let name = name("", class);
        let times = taken.entry(name.clone()).or_default();
        *times += 1;
        (class, if *times == 1 { name } else { self::name(&format!("{times}-"), &name) })
    });
    named.collect()
}

/// The Cluster with the metadata that an API server would set.
fn identified(mut cluster: Cluster) -> Cluster {
    cluster.metadata.uid = uid(GROUP, "Cluster", &cluster.metadata.key());
    cluster
}

/// The facts of a cluster with a sample of each class of `files` that no Cluster uses, so that the facts for its
/// topology are read.
pub fn with_samples(mut facts: Facts, files: &Facts) -> Facts {
    let settings = AdmissionSettings::default();
    for class in files.class_keys() {
        let is_used = [&facts, files].into_iter().any(|facts| facts.user_keys(class).next().is_some());
        let Found::Yes(found) = facts.class(class) else { continue };
        let Some(version) = version(&[&found], &[&facts, files]).filter(|_| !is_used) else { continue };
        let key = key(class, &[&facts, files]);
        let draft = Draft::generate(&found, &key, &version, SampleExtent::Whole, &settings);
        if let Ok(cluster) = Cluster::decode(WireVersion::V1Beta2, &draft.value.to_string()) {
            facts.put_cluster(key, Record::readable(identified(cluster)));
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::hub::ResourceDefinition;
    use model::world::ObjectSet;

    #[test]
    fn names_are_labels_and_different() {
        assert_eq!(name("sample-", "Quick.start"), "sample-quick-start");
        assert_eq!(name("sample-", &"a.".repeat(60)).len(), 62);
        let want = [("a.b", "a-b".to_owned()), ("a-b", "2-a-b".to_owned()), ("c", "c".to_owned())];
        assert_eq!(names(vec!["a.b", "a-b", "c"]), want);
        let class = ObjectKey::new("ns", "x");
        assert_eq!(key(&class, &[]), ObjectKey::new("ns", "sample-x"));
        let mut taken = Cluster::default();
        (taken.metadata.namespace, taken.metadata.name) = ("ns".to_owned(), "sample-x".to_owned());
        let facts = Facts::complete([taken], []);
        assert_eq!(key(&class, &[&facts]), ObjectKey::new("ns", "sample-2-x"));
    }

    #[test]
    fn the_version_is_one_that_both_classes_offer() {
        let class = |versions: &[&str]| -> ClusterClass {
            serde_json::from_value(json!({"spec": {"kubernetesVersions": versions}})).unwrap()
        };
        let (none, old, new) = (class(&[]), class(&["v1.32.0", "v1.33.0"]), class(&["v1.33.0", "v1.34.0"]));
        let version = |classes: &[&ClusterClass]| version(classes, &[]);
        assert_eq!(version(&[&none]).as_deref(), Some(VERSIONS[0]));
        assert_eq!(version(&[&old]).as_deref(), Some("v1.33.0"));
        assert_eq!(version(&[&none, &new]).as_deref(), Some("v1.34.0"));
        assert_eq!(version(&[&old, &new]).as_deref(), Some("v1.33.0"));
        assert_eq!(version(&[&old, &class(&["v1.34.0"])]), None);
    }

    #[test]
    fn the_version_is_one_that_the_control_plane_accepts() {
        let reference =
            json!({"apiVersion": "controlplane.example.com/v1", "kind": "BuildControlPlaneTemplate", "name": "t"});
        let class: ClusterClass =
            serde_json::from_value(json!({"spec": {"controlPlane": {"templateRef": reference}}})).unwrap();
        let facts = |pattern: &str| {
            let version = json!({"type": "object", "properties": {"version": {"type": "string", "pattern": pattern}}});
            let definition = json!({"kind": "CustomResourceDefinition", "spec": {"versions": [
                {"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": version}}}}]}});
            let mut objects = ObjectSet::default();
            let definition = ResourceDefinition::from_object(&definition).unwrap();
            objects.put_definition("buildcontrolplanes.controlplane.example.com".to_owned(), Arc::new(definition));
            Facts::default().with_objects(objects)
        };
        let chosen = |pattern: &str| version(&[&class], &[&facts(pattern)]);
        assert_eq!(chosen(r"(v\d\.\d{2}\.\d+\+rke2r\d)|^$").as_deref(), Some("v1.34.0+rke2r1"));
        assert_eq!(chosen("k0s").as_deref(), Some("v1.34.0+k0s.0"));
        assert_eq!(chosen("^v1").as_deref(), Some("v1.34.0"));
        assert_eq!(chosen("^never$").as_deref(), Some("v1.34.0"), "none is better");
    }
}
