//! Templates: their schema, and whether objects can be created from them (CT-7.1, CT-7.3, CT-9.1, CT-9.2, CT-9.4,
//! CT-9.5, CT-11.1, CT-12.8, CT-13.3, CT-14.1).

use serde_json::Value;

use super::comparison::TemplateComparison;
use super::definition::{DefinitionVersion, ProviderDefinition, ProviderRole};
use super::field_types::FieldType::{Quantities, Text, TextMap};
use super::field_types::{FieldLookup, FieldType, find};
use super::finding::ContractFinding;

/// Fields that a topology sets in the control plane, which a template may lack (CT-11.1).
const SUPPLIED: [&str; 6] = [
    "spec.machineTemplate",
    "spec.machineTemplate.infrastructureRef",
    "spec.machineTemplate.spec",
    "spec.machineTemplate.spec.infrastructureRef",
    "spec.replicas",
    "spec.version",
];
/// Fields that a template leaves to the provider or topology.
const LEFT_OUT: [(ProviderRole, &str, &str); 3] = [
    (ProviderRole::ControlPlane, "replicas", "the topology sets it"),
    (ProviderRole::ControlPlane, "version", "the topology sets it"),
    (ProviderRole::InfrastructureMachinePool, "providerIDList", "the provider sets it in each pool"),
];
/// Other fields of a template, with their types.
const OTHERS: [(&str, FieldType, &str); 5] = [
    ("spec.template.metadata.labels", TextMap, "CT-7.1"),
    ("spec.template.metadata.annotations", TextMap, "CT-7.1"),
    ("status.capacity", Quantities, "CT-9.4"),
    ("status.nodeInfo.architecture", Text, "CT-9.4"),
    ("status.nodeInfo.operatingSystem", Text, "CT-9.4"),
];

/// The rule about the schema of templates of a role.
const fn shape(role: ProviderRole) -> &'static str {
    match role {
        ProviderRole::InfrastructureCluster => "CT-7.1",
        ProviderRole::InfrastructureMachine => "CT-9.1",
        ProviderRole::InfrastructureMachinePool => "CT-13.3",
        ProviderRole::BootstrapConfig => "CT-12.8",
        ProviderRole::ControlPlane => "CT-11.1",
    }
}

/// Checks a template, and compares it with the kind of its objects.
pub(super) fn check(
    definition: &ProviderDefinition<'_>,
    role: ProviderRole,
    kind: &str,
    others: &[&ProviderDefinition<'_>],
    findings: &mut Vec<ContractFinding>,
) {
    let Some((_, version)) = definition.read() else { return };
    let Some(schema) = version.schema else { return };
    let mut found = Vec::new();
    found.extend(payload(schema, role));
    found.extend(metadata(schema, role));
    found.extend(other_fields(schema));
    found.extend(left_out(schema, role));
    found.extend(endpoint(schema, role));
    found.extend(updates(schema, role));
    let object = others.iter().find(|other| other.group == definition.group && other.kind == kind);
    match object {
        None => found.push(without_object(definition, kind)),
        Some(object) => found.extend(compared(schema, version, object, role)),
    }
    findings.extend(found.into_iter().map(|finding| finding.of_version(version.name)));
}

fn payload(schema: &Value, role: ProviderRole) -> Option<ContractFinding> {
    (find(schema, "spec.template.spec") == FieldLookup::Missing).then(|| {
        ContractFinding::error(shape(role), "spec.template.spec", "the template does not say what is made from it")
            .with_remediation("put the spec of the objects under spec.template.spec")
    })
}

/// Checks labels and annotations for created objects.
fn metadata(schema: &Value, role: ProviderRole) -> Option<ContractFinding> {
    let is_missing = |part: &&str| find(schema, &format!("spec.template.metadata.{part}")) == FieldLookup::Missing;
    let part = ["labels", "annotations"].into_iter().find(is_missing)?;
    let message = format!("{part} of a template are dropped, so objects that are made from it do not get them");
    let remediation = "add spec.template.metadata with labels and annotations, as maps of strings";
    Some(
        ContractFinding::warning(shape(role), format!("spec.template.metadata.{part}"), message)
            .with_remediation(remediation),
    )
}

fn other_fields(schema: &Value) -> Vec<ContractFinding> {
    let of = |(path, holds, rule): &(&str, FieldType, &'static str)| {
        let FieldLookup::Known(node) = find(schema, path) else { return None };
        let (place, difference) = holds.mismatch(node, path)?;
        Some(ContractFinding::error(rule, place, difference).with_remediation(format!("make {path} {}", holds.words())))
    };
    OTHERS.iter().filter_map(of).collect()
}

fn left_out(schema: &Value, role: ProviderRole) -> Vec<ContractFinding> {
    let fields = LEFT_OUT.iter().filter(|(of, ..)| *of == role);
    let has = |name: &str| matches!(find(schema, &format!("spec.template.spec.{name}")), FieldLookup::Known(_));
    let finding = |(_, name, why): &(ProviderRole, &str, &str)| {
        let message = format!("the template has this field, although {why}");
        ContractFinding::warning(shape(role), format!("spec.template.spec.{name}"), message)
            .with_remediation("remove it from the template")
    };
    fields.filter(|(_, name, _)| has(name)).map(finding).collect()
}

/// The endpoint of a Cluster is unknown in its template.
fn endpoint(schema: &Value, role: ProviderRole) -> Option<ContractFinding> {
    let FieldLookup::Known(spec) = find(schema, "spec.template.spec") else { return None };
    let required = spec.get("required").and_then(Value::as_array).into_iter().flatten();
    let is_required = required.filter_map(Value::as_str).any(|name| name == "controlPlaneEndpoint");
    (role == ProviderRole::InfrastructureCluster && is_required).then(|| {
        let message = "the template requires an endpoint, which a class cannot know";
        ContractFinding::error("CT-7.3", "spec.template.spec.controlPlaneEndpoint", message)
            .with_remediation("make it optional")
    })
}

/// The rule that a dry run may change a template of a role, by which a topology checks whether it must be rotated.
const fn dry_run(role: ProviderRole) -> Option<&'static str> {
    match role {
        ProviderRole::InfrastructureMachine => Some("CT-9.2"),
        ProviderRole::BootstrapConfig => Some("CT-9.5"),
        ProviderRole::InfrastructureMachinePool => Some("CT-13.3"),
        ProviderRole::InfrastructureCluster | ProviderRole::ControlPlane => None,
    }
}

/// Transition rules of a schema cannot allow a dry run, as a webhook can.
fn updates(schema: &Value, role: ProviderRole) -> Vec<ContractFinding> {
    let (Some(id), FieldLookup::Known(spec)) = (dry_run(role), find(schema, "spec")) else { return Vec::new() };
    let finding = |(path, text): (String, String)| {
        let message = format!("the rule {text:?} denies dry runs too, by which a topology finds out what to replace");
        let remediation =
            "deny updates in a webhook that lets dry runs with the annotation topology.cluster.x-k8s.io/dry-run pass";
        ContractFinding::error(id, path, message).with_remediation(remediation)
    };
    let mut all = Vec::new();
    transitions(spec, "spec", &mut all);
    all.into_iter().map(finding).collect()
}

/// Transition rules at and below a path.
fn transitions(node: &Value, path: &str, all: &mut Vec<(String, String)>) {
    let rules = node.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
    let texts = rules.filter_map(|rule| rule.get("rule").and_then(Value::as_str));
    all.extend(texts.filter(|text| text.contains("oldSelf")).map(|text| (path.to_owned(), text.to_owned())));
    let fields = node.get("properties").and_then(Value::as_object).into_iter().flatten();
    let below = fields.map(|(name, field)| (field, format!("{path}.{name}")));
    let entries = [("items", "[]"), ("additionalProperties", "[*]")]
        .into_iter()
        .filter_map(|(keyword, end)| Some((node.get(keyword)?, format!("{path}{end}"))));
    below.chain(entries).for_each(|(node, path)| transitions(node, &path, all));
}

fn without_object(definition: &ProviderDefinition<'_>, kind: &str) -> ContractFinding {
    let message = format!("not compared: the files have no definition of {kind} in group {}", definition.group);
    ContractFinding::warning("CT-1.2", "spec.names.kind", message)
        .with_remediation(format!("check the definition of {kind} together with this one"))
}

/// Objects of a template have the version of the template.
fn compared(
    schema: &Value,
    version: &DefinitionVersion<'_>,
    object: &ProviderDefinition<'_>,
    role: ProviderRole,
) -> Vec<ContractFinding> {
    let served = object.version(version.name).filter(|version| version.is_served);
    let Some(served) = served else {
        let message = format!("{} does not serve version {}, in which it is made", object.kind, version.name);
        let remediation = format!("serve {} of {} too", version.name, object.kind);
        return vec![ContractFinding::error("CT-14.1", "spec.versions", message).with_remediation(remediation)];
    };
    let theirs = served.schema.map(|schema| find(schema, "spec"));
    let (FieldLookup::Known(ours), Some(FieldLookup::Known(theirs))) = (find(schema, "spec.template.spec"), theirs)
    else {
        return Vec::new();
    };
    let supplied: &[&str] = if role == ProviderRole::ControlPlane { &SUPPLIED } else { &[] };
    let mut comparison = TemplateComparison { rule: shape(role), kind: object.kind, supplied, findings: Vec::new() };
    comparison.compare(ours, theirs, "spec");
    comparison.findings
}
