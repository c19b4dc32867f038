//! Templates: their shape, and that their objects can be made (CT-7.1, CT-7.3, CT-9.1, CT-9.2, CT-9.4, CT-9.5, CT-11.1, CT-12.8,
//! CT-13.3, CT-14.1).

use serde_json::Value;

use super::comparison::Comparison;
use super::definition::{Definition, Role, Version};
use super::finding::Finding;
use super::holds::Holds::{Quantities, Text, TextMap};
use super::holds::{Holds, Place, find};

/// What a topology sets in the control plane, so that a template need not have it (CT-11.1).
const SUPPLIED: [&str; 6] = [
    "spec.machineTemplate",
    "spec.machineTemplate.infrastructureRef",
    "spec.machineTemplate.spec",
    "spec.machineTemplate.spec.infrastructureRef",
    "spec.replicas",
    "spec.version",
];
/// What a template leaves to the provider or to the topology.
const LEFT_OUT: [(Role, &str, &str); 3] = [
    (Role::ControlPlane, "replicas", "the topology sets it"),
    (Role::ControlPlane, "version", "the topology sets it"),
    (Role::InfrastructureMachinePool, "providerIDList", "the provider sets it in each pool"),
];
/// Other fields of a template, and what they hold.
const OTHERS: [(&str, Holds, &str); 5] = [
    ("spec.template.metadata.labels", TextMap, "CT-7.1"),
    ("spec.template.metadata.annotations", TextMap, "CT-7.1"),
    ("status.capacity", Quantities, "CT-9.4"),
    ("status.nodeInfo.architecture", Text, "CT-9.4"),
    ("status.nodeInfo.operatingSystem", Text, "CT-9.4"),
];

/// The rule about the shape of templates of a role.
const fn shape(role: Role) -> &'static str {
    match role {
        Role::InfrastructureCluster => "CT-7.1",
        Role::InfrastructureMachine => "CT-9.1",
        Role::InfrastructureMachinePool => "CT-13.3",
        Role::BootstrapConfig => "CT-12.8",
        Role::ControlPlane => "CT-11.1",
    }
}

/// Checks a template and compares it with the kind that is made from it.
pub(super) fn check(
    definition: &Definition<'_>,
    role: Role,
    kind: &str,
    others: &[&Definition<'_>],
    findings: &mut Vec<Finding>,
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

fn payload(schema: &Value, role: Role) -> Option<Finding> {
    (find(schema, "spec.template.spec") == Place::Missing).then(|| {
        Finding::error(shape(role), "spec.template.spec", "the template does not say what is made from it")
            .way_out("put the spec of the objects under spec.template.spec")
    })
}

/// Labels and annotations that a class gives to what is made.
fn metadata(schema: &Value, role: Role) -> Option<Finding> {
    let is_missing = |part: &&str| find(schema, &format!("spec.template.metadata.{part}")) == Place::Missing;
    let part = ["labels", "annotations"].into_iter().find(is_missing)?;
    let message = format!("{part} of a template are dropped, so objects that are made from it do not get them");
    let way_out = "add spec.template.metadata with labels and annotations, as maps of strings";
    Some(Finding::warning(shape(role), format!("spec.template.metadata.{part}"), message).way_out(way_out))
}

fn other_fields(schema: &Value) -> Vec<Finding> {
    let of = |(path, holds, rule): &(&str, Holds, &'static str)| {
        let Place::Known(node) = find(schema, path) else { return None };
        let (place, difference) = holds.mismatch(node, path)?;
        Some(Finding::error(rule, place, difference).way_out(format!("make {path} {}", holds.words())))
    };
    OTHERS.iter().filter_map(of).collect()
}

fn left_out(schema: &Value, role: Role) -> Vec<Finding> {
    let fields = LEFT_OUT.iter().filter(|(of, ..)| *of == role);
    let has = |name: &str| matches!(find(schema, &format!("spec.template.spec.{name}")), Place::Known(_));
    let finding = |(_, name, why): &(Role, &str, &str)| {
        let message = format!("the template has this field, although {why}");
        Finding::warning(shape(role), format!("spec.template.spec.{name}"), message)
            .way_out("remove it from the template")
    };
    fields.filter(|(_, name, _)| has(name)).map(finding).collect()
}

/// The endpoint of a Cluster is not known when its template is written.
fn endpoint(schema: &Value, role: Role) -> Option<Finding> {
    let Place::Known(spec) = find(schema, "spec.template.spec") else { return None };
    let required = spec.get("required").and_then(Value::as_array).into_iter().flatten();
    let is_required = required.filter_map(Value::as_str).any(|name| name == "controlPlaneEndpoint");
    (role == Role::InfrastructureCluster && is_required).then(|| {
        let message = "the template requires an endpoint, which a class cannot know";
        Finding::error("CT-7.3", "spec.template.spec.controlPlaneEndpoint", message).way_out("make it optional")
    })
}

/// The rule that a dry run may change a template of a role: a topology learns from it whether it must replace the template.
const fn dry_run(role: Role) -> Option<&'static str> {
    match role {
        Role::InfrastructureMachine => Some("CT-9.2"),
        Role::BootstrapConfig => Some("CT-9.5"),
        Role::InfrastructureMachinePool => Some("CT-13.3"),
        Role::InfrastructureCluster | Role::ControlPlane => None,
    }
}

/// Rules of the schema about the old value cannot let a dry run pass, as a webhook can.
fn updates(schema: &Value, role: Role) -> Vec<Finding> {
    let (Some(id), Place::Known(spec)) = (dry_run(role), find(schema, "spec")) else { return Vec::new() };
    let finding = |(path, text): (String, String)| {
        let message = format!("the rule {text:?} denies dry runs too, by which a topology finds out what to replace");
        let way_out =
            "deny updates in a webhook that lets dry runs with the annotation topology.cluster.x-k8s.io/dry-run pass";
        Finding::error(id, path, message).way_out(way_out)
    };
    let mut all = Vec::new();
    transitions(spec, "spec", &mut all);
    all.into_iter().map(finding).collect()
}

/// The rules about the old value at and below a path.
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

fn without_object(definition: &Definition<'_>, kind: &str) -> Finding {
    let message = format!("not compared: the files have no definition of {kind} in group {}", definition.group);
    Finding::warning("CT-1.2", "spec.names.kind", message)
        .way_out(format!("check the definition of {kind} together with this one"))
}

/// What is made from a template has the version of the template.
fn compared(schema: &Value, version: &Version<'_>, object: &Definition<'_>, role: Role) -> Vec<Finding> {
    let served = object.version(version.name).filter(|version| version.is_served);
    let Some(served) = served else {
        let message = format!("{} does not serve version {}, in which it is made", object.kind, version.name);
        let way_out = format!("serve {} of {} too", version.name, object.kind);
        return vec![Finding::error("CT-14.1", "spec.versions", message).way_out(way_out)];
    };
    let theirs = served.schema.map(|schema| find(schema, "spec"));
    let (Place::Known(ours), Some(Place::Known(theirs))) = (find(schema, "spec.template.spec"), theirs) else {
        return Vec::new();
    };
    let supplied: &[&str] = if role == Role::ControlPlane { &SUPPLIED } else { &[] };
    let mut comparison = Comparison { rule: shape(role), kind: object.kind, supplied, findings: Vec::new() };
    comparison.compare(ours, theirs, "spec");
    comparison.findings
}
