//! Each finding, by one defect in the definitions of the embedded provider, which have none.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::finding::Level::{self, Error, Warning};
use super::{CheckedDefinition, Kustomization, check, order};
use model::crd;

/// A change of a definition: kind, path, and new value; `None` removes it.
type DefinitionEdit = (&'static str, String, Option<Value>);
/// An expected finding: level, rule, kind and field.
type ExpectedFinding = (Level, &'static str, &'static str, &'static str);

/// The pointer to a field in the schema of the only version.
fn field(path: &str) -> String {
    let steps = path.split('.').map(|step| match step.strip_suffix("[]") {
        Some(list) => format!("/properties/{list}/items"),
        None => format!("/properties/{step}"),
    });
    format!("/spec/versions/0/schema/openAPIV3Schema{}", steps.collect::<String>())
}

fn set(kind: &'static str, place: impl Into<String>, value: Value) -> DefinitionEdit {
    (kind, place.into(), Some(value))
}

fn without(kind: &'static str, place: impl Into<String>) -> DefinitionEdit {
    (kind, place.into(), None)
}

fn name_of(definition: &Value) -> &str {
    definition["spec"]["names"]["kind"].as_str().unwrap()
}

/// The changed definitions of the embedded provider.
fn provider(edits: &[DefinitionEdit]) -> Vec<Value> {
    let mut all = crd::embedded_provider();
    for (kind, place, value) in edits {
        let definition = all.iter_mut().find(|definition| name_of(definition) == *kind).unwrap();
        let (parent, last) = place.rsplit_once('/').unwrap();
        let last = last.replace("~1", "/");
        let parent = definition.pointer_mut(parent).unwrap_or_else(|| panic!("{kind} has no {parent}"));
        let parent = parent.as_object_mut().unwrap();
        match value {
            Some(value) => drop(parent.insert(last, value.clone())),
            None => drop(parent.remove(&last).unwrap_or_else(|| panic!("{kind} has no {place}"))),
        }
    }
    all
}

fn checked(manifests: &[Value]) -> Vec<CheckedDefinition> {
    check(&manifests.iter().collect::<Vec<_>>(), &BTreeMap::new())
}

fn found(checked: &[CheckedDefinition]) -> Vec<(Level, &'static str, &str, &str)> {
    let rows = checked.iter().flat_map(|one| one.findings.iter().map(move |finding| (&one.kind, finding)));
    rows.map(|(kind, finding)| (finding.level, finding.rule, kind.as_str(), finding.field.as_str())).collect()
}

fn finds(case: &str, edits: &[DefinitionEdit], wanted: &[ExpectedFinding]) {
    let all = checked(&provider(edits));
    assert_eq!(found(&all), wanted, "{case}: {all:#?}");
    assert!(all.iter().all(|one| one.findings.is_sorted_by_key(|finding| order(finding.rule))), "{case}");
    for finding in all.iter().flat_map(|one| &one.findings) {
        assert!(!finding.message.is_empty() && !finding.remediation.is_empty(), "{case}: {finding:?}");
    }
}

const LABELS: &str = "/metadata/labels";
const SUBRESOURCES: &str = "/spec/versions/0/subresources";

/// A definition for the older contract: its flags, counters and failure domains.
fn older(kind: &'static str, fields: &[(&str, Value)]) -> Vec<DefinitionEdit> {
    let label = set(kind, LABELS, json!({"cluster.x-k8s.io/v1beta1": "v1beta1"}));
    let fields = fields.iter().map(|(path, node)| set(kind, field(path), node.clone()));
    [label].into_iter().chain(fields).collect()
}

#[test]
fn the_embedded_provider_keeps_the_contract() {
    let all = checked(&crd::embedded_provider());
    assert_eq!(found(&all), []);
    assert_eq!(all.len(), 10);
    for one in &all {
        assert!(one.role.is_some(), "{}", one.kind);
        assert_eq!((one.contract.as_deref(), one.version.as_deref()), (Some("v1beta2"), Some("v1beta1")));
    }
    assert_eq!(all.iter().filter(|one| one.is_template).count(), 5);
}

#[test]
fn kinds_of_cluster_api_and_helpers_have_no_role() {
    // CT-1.1
    let mut identity = crd::embedded_provider().remove(0);
    identity["spec"]["names"]["kind"] = json!("FooClusterIdentity");
    for one in checked(&[crd::cluster_api(), vec![identity]].concat()) {
        assert_eq!((one.role, one.findings), (None, Vec::new()), "{}", one.kind);
    }
}

#[test]
fn names_scope_labels_and_versions_are_those_that_controllers_look_for() {
    for (case, edits, wanted) in [
        // CT-1.3
        (
            "scope",
            vec![set("EmbeddedCluster", "/spec/scope", json!("Cluster"))],
            vec![(Error, "CT-1.3", "EmbeddedCluster", "spec.scope")],
        ),
        (
            "no schema",
            vec![without("EmbeddedConfig", "/spec/versions/0/schema")],
            vec![(Error, "CT-1.3", "EmbeddedConfig", "schema.openAPIV3Schema")],
        ),
        // CT-1.4
        (
            "list kind",
            vec![set("EmbeddedMachine", "/spec/names/listKind", json!("Machines"))],
            vec![(Error, "CT-1.4", "EmbeddedMachine", "spec.names.listKind")],
        ),
        // CT-7.2
        (
            "list kind and label of a template",
            vec![
                set("EmbeddedClusterTemplate", "/spec/names/listKind", json!("Templates")),
                without("EmbeddedClusterTemplate", LABELS),
            ],
            vec![
                (Error, "CT-1.4", "EmbeddedClusterTemplate", "spec.names.listKind"),
                (Error, "CT-3.5", "EmbeddedClusterTemplate", "metadata.labels"),
            ],
        ),
        // CT-2.1, CT-2.10
        (
            "name",
            vec![set("EmbeddedMachine", "/metadata/name", json!("machines.infrastructure.topologist.dev"))],
            vec![(Error, "CT-2.1", "EmbeddedMachine", "metadata.name")],
        ),
        (
            "name of a template",
            vec![set("EmbeddedConfigTemplate", "/metadata/name", json!("configs.bootstrap.topologist.dev"))],
            vec![(Error, "CT-2.10", "EmbeddedConfigTemplate", "metadata.name")],
        ),
        // CT-3.3, CT-3.5
        (
            "no label",
            vec![without("EmbeddedConfig", LABELS)],
            vec![(Error, "CT-3.5", "EmbeddedConfig", "metadata.labels")],
        ),
        (
            "an empty label",
            vec![set("EmbeddedConfig", LABELS, json!({"cluster.x-k8s.io/v1beta2": ""}))],
            vec![(Error, "CT-3.5", "EmbeddedConfig", "metadata.labels")],
        ),
        // CT-3.2
        (
            "a contract that is too old",
            vec![set("EmbeddedConfig", LABELS, json!({"cluster.x-k8s.io/v1alpha4": "v1beta1"}))],
            vec![(Error, "CT-3.5", "EmbeddedConfig", "metadata.labels")],
        ),
        // CT-3.4
        (
            "older versions that are not there",
            vec![set("EmbeddedConfig", LABELS, json!({"cluster.x-k8s.io/v1beta2": "v1alpha2_v1alpha3_v1beta1"}))],
            vec![(Warning, "CT-3.4", "EmbeddedConfig", "metadata.labels[cluster.x-k8s.io/v1beta2]")],
        ),
        (
            "a version that is not served",
            vec![set("EmbeddedConfigTemplate", "/spec/versions/0/served", json!(false))],
            vec![(Error, "CT-3.4", "EmbeddedConfigTemplate", "metadata.labels[cluster.x-k8s.io/v1beta2]")],
        ),
    ] {
        finds(case, &edits, &wanted);
    }
}

#[test]
fn sources_without_labels_are_checked_by_the_contract_of_their_schema() {
    // CT-3.5, CT-20.2
    let sources = |edits: &[DefinitionEdit]| {
        let mut all = provider(edits);
        all.iter_mut().for_each(|one| drop(one["metadata"].as_object_mut().unwrap().remove("labels")));
        all
    };
    let all = checked(&sources(&[]));
    let first = "EmbeddedCluster";
    assert_eq!(found(&all), [(Warning, "CT-3.5", first, "metadata.labels")], "once");
    assert!(all.iter().all(|one| one.contract.as_deref() == Some("v1beta2")), "{all:#?}");
    let fix = &all.iter().find(|one| one.kind == first).unwrap().findings[0].remediation;
    assert!(fix.starts_with("add the label cluster.x-k8s.io/v1beta2: v1beta1, "), "{fix}");
    // The other checks run.
    let broken = sources(&[set("EmbeddedMachine", format!("{}/type", field("spec.providerID")), json!("integer"))]);
    let rules: Vec<&str> = found(&checked(&broken)).into_iter().map(|(_, rule, ..)| rule).collect();
    assert_eq!(rules.iter().filter(|rule| **rule == "CT-3.5").count(), 1);
    assert!(rules.contains(&"CT-8.1"), "{rules:?}");
    // A definition of an installation has to have the label.
    let mut stored = sources(&[]);
    stored.iter_mut().for_each(|one| one["metadata"]["uid"] = json!("u"));
    assert!(found(&checked(&stored)).iter().all(|(level, rule, ..)| (*level, *rule) == (Error, "CT-3.5")));
    // The labels of a kustomization count.
    let labels = [("cluster.x-k8s.io/v1beta1".to_owned(), "v1beta1".to_owned())].into();
    let kustomization = Arc::new(Kustomization { file: "config/crd/kustomization.yaml".to_owned(), labels });
    let manifests = sources(&[]);
    let kustomizations = (0..manifests.len()).map(|index| (index, kustomization.clone())).collect();
    let all = check(&manifests.iter().collect::<Vec<_>>(), &kustomizations);
    assert!(all.iter().all(|one| one.contract.as_deref() == Some("v1beta1")), "{all:#?}");
    let said = found(&all).into_iter().filter(|(_, rule, ..)| *rule == "CT-3.5").collect::<Vec<_>>();
    assert_eq!(said, [(Warning, "CT-3.5", first, "metadata.labels")]);
    // A contract that is too old is none (CT-3.2).
    let labels = [("cluster.x-k8s.io/v1alpha4".to_owned(), "v1beta1".to_owned())].into();
    let older = Arc::new(Kustomization { labels, ..Kustomization::default() });
    let kustomizations = (0..manifests.len()).map(|index| (index, older.clone())).collect();
    let all = check(&manifests.iter().collect::<Vec<_>>(), &kustomizations);
    assert!(found(&all).iter().all(|(level, rule, ..)| (*level, *rule) == (Error, "CT-3.5")), "{all:#?}");
}

#[test]
fn objects_have_a_status_of_their_own() {
    // CT-6.1, CT-8.1, CT-10.1, CT-12.1, CT-13.1
    for (kind, rule) in [
        ("EmbeddedCluster", "CT-6.1"),
        ("EmbeddedMachine", "CT-8.1"),
        ("EmbeddedControlPlane", "CT-10.1"),
        ("EmbeddedConfig", "CT-12.1"),
        ("EmbeddedMachinePool", "CT-13.1"),
    ] {
        let edits = [without(kind, format!("{SUBRESOURCES}/status"))];
        finds(kind, &edits, &[(Error, rule, kind, "subresources.status")]);
    }
}

#[test]
fn fields_of_the_contract_are_there() {
    for (kind, path, rule) in [
        // CT-6.1, CT-8.1, CT-10.1, CT-12.1, CT-13.1
        ("EmbeddedCluster", "status.initialization.provisioned", "CT-6.1"),
        ("EmbeddedMachine", "status.initialization.provisioned", "CT-8.1"),
        ("EmbeddedMachine", "spec.providerID", "CT-8.1"),
        ("EmbeddedMachinePool", "status.initialization.provisioned", "CT-13.1"),
        ("EmbeddedMachinePool", "spec.providerIDList", "CT-13.1"),
        ("EmbeddedMachinePool", "status.replicas", "CT-13.1"),
        ("EmbeddedConfig", "status.initialization.dataSecretCreated", "CT-12.1"),
        ("EmbeddedConfig", "status.dataSecretName", "CT-12.1"),
        ("EmbeddedControlPlane", "status.initialization.controlPlaneInitialized", "CT-10.1"),
        ("EmbeddedControlPlane", "spec.version", "CT-10.1"),
        // CT-10.2
        ("EmbeddedControlPlane", "status.selector", "CT-10.2"),
        ("EmbeddedControlPlane", "status.replicas", "CT-10.2"),
        ("EmbeddedControlPlane", "status.readyReplicas", "CT-10.2"),
        ("EmbeddedControlPlane", "status.availableReplicas", "CT-10.2"),
        ("EmbeddedControlPlane", "status.upToDateReplicas", "CT-10.2"),
        // CT-11.2
        ("EmbeddedControlPlane", "spec.machineTemplate.spec.infrastructureRef", "CT-11.2"),
    ] {
        finds(path, &[without(kind, field(path))], &[(Error, rule, kind, path)]);
    }
}

#[test]
fn a_flag_in_another_place_is_no_flag() {
    // CT-20.3
    let flag = json!({"type": "object", "properties": {"provisioned": {"type": "boolean"}}});
    for kind in ["EmbeddedCluster", "EmbeddedMachine"] {
        let edits = [
            set(kind, field("status.infrastructure"), flag.clone()),
            without(kind, field("status.initialization.provisioned")),
        ];
        let rule = if kind == "EmbeddedCluster" { "CT-6.1" } else { "CT-8.1" };
        finds(kind, &edits, &[(Error, rule, kind, "status.initialization.provisioned")]);
    }
}

#[test]
fn fields_of_the_contract_have_its_types() {
    let text = || json!({"type": "string"});
    for (kind, path, node, place, rule) in [
        ("EmbeddedCluster", "status.initialization.provisioned", text(), "status.initialization.provisioned", "CT-6.1"),
        // CT-5.11, CT-6.6
        (
            "EmbeddedCluster",
            "status.failureDomains",
            json!({"type": "object", "additionalProperties": {"type": "object"}}),
            "status.failureDomains",
            "CT-5.11",
        ),
        (
            "EmbeddedCluster",
            "status.failureDomains[].controlPlane",
            text(),
            "status.failureDomains[].controlPlane",
            "CT-5.11",
        ),
        // CT-6.7
        ("EmbeddedMachine", "spec.providerID", json!({"type": "integer"}), "spec.providerID", "CT-8.1"),
        // CT-8.3, CT-8.4, CT-8.5
        ("EmbeddedMachine", "status.failureDomain", json!({"type": "integer"}), "status.failureDomain", "CT-8.3"),
        (
            "EmbeddedMachine",
            "status.addresses",
            json!({"type": "array", "items": text()}),
            "status.addresses[].type",
            "CT-8.4",
        ),
        ("EmbeddedMachine", "status.interruptible", text(), "status.interruptible", "CT-8.5"),
        // CT-10.16, CT-5.14, CT-10.13
        (
            "EmbeddedControlPlane",
            "status.externalManagedControlPlane",
            text(),
            "status.externalManagedControlPlane",
            "CT-10.16",
        ),
        (
            "EmbeddedControlPlane",
            "status.versions",
            json!({"type": "array", "items": text()}),
            "status.versions[].version",
            "CT-5.14",
        ),
        ("EmbeddedControlPlane", "spec.replicas", text(), "spec.replicas", "CT-10.2"),
        // CT-13.1, CT-13.2
        ("EmbeddedMachinePool", "spec.providerIDList", text(), "spec.providerIDList", "CT-13.1"),
        (
            "EmbeddedMachinePool",
            "status.infrastructureMachineKind",
            json!({"type": "object"}),
            "status.infrastructureMachineKind",
            "CT-13.2",
        ),
        // CT-15.9
        ("EmbeddedConfig", "status.conditions", json!({"type": "object"}), "status.conditions", "CT-15.9"),
        (
            "EmbeddedConfig",
            "status.conditions[].status",
            json!({"type": "boolean"}),
            "status.conditions[].status",
            "CT-15.9",
        ),
    ] {
        finds(path, &[set(kind, field(path), node)], &[(Error, rule, kind, place)]);
    }
    // CT-6.2: in the template too, so that both are equal.
    let host = |kind, at: &str| set(kind, field(&format!("{at}.controlPlaneEndpoint.port")), text());
    let edits = [host("EmbeddedCluster", "spec"), host("EmbeddedClusterTemplate", "spec.template.spec")];
    finds("port", &edits, &[(Error, "CT-6.2", "EmbeddedCluster", "spec.controlPlaneEndpoint.port")]);
}

#[test]
fn an_endpoint_has_the_bounds_of_its_contract() {
    // CT-6.2
    let endpoint = |host: Value, port: Value| {
        let schema = |kind, at: &str| {
            [("host", &host), ("port", &port)]
                .map(|(name, node)| set(kind, field(&format!("{at}.controlPlaneEndpoint.{name}")), node.clone()))
        };
        [schema("EmbeddedCluster", "spec"), schema("EmbeddedClusterTemplate", "spec.template.spec")].concat()
    };
    let text = |least: Value, most: Value| json!({"type": "string", "minLength": least, "maxLength": most});
    let number = |least: Value, most: Value| json!({"type": "integer", "minimum": least, "maximum": most});
    let (host, port) = (|| text(json!(1), json!(512)), || number(json!(1), json!(65535)));
    let above_zero = json!({"type": "integer", "minimum": 0, "exclusiveMinimum": true, "maximum": 65535});
    let below_zero = json!({"type": "integer", "minimum": 1, "maximum": 65535, "exclusiveMaximum": true});
    let (newer, [of_host, of_port]) = ("v1beta2", ["spec.controlPlaneEndpoint.host", "spec.controlPlaneEndpoint.port"]);
    let none = Value::Null;
    for (case, contract, host, port, wanted) in [
        ("the bounds", newer, host(), port(), None),
        ("an exclusive bound that is the same", newer, host(), above_zero, None),
        ("no bounds of the host", newer, json!({"type": "string"}), port(), Some((of_host, "has no bounds"))),
        (
            "an empty host",
            newer,
            text(none.clone(), json!(512)),
            port(),
            Some((of_host, "accepts up to 512 characters")),
        ),
        ("a shorter host", newer, text(json!(1), json!(253)), port(), Some((of_host, "accepts 1 to 253 characters"))),
        ("a longer host", newer, text(json!(1), none), port(), Some((of_host, "accepts 1 characters or more"))),
        ("the port 0", newer, host(), number(json!(0), json!(65535)), Some((of_port, "accepts 0 to 65535"))),
        ("a lower port", newer, host(), below_zero, Some((of_port, "accepts 1 to 65534"))),
        ("no bounds", "v1beta1", json!({"type": "string"}), json!({"type": "integer"}), None),
        ("no empty host", "v1beta1", host(), json!({"type": "integer"}), Some((of_host, "refuses an empty host"))),
        ("no port 0", "v1beta1", json!({"type": "string"}), port(), Some((of_port, "refuses the port 0"))),
    ] {
        let mut edits = endpoint(host, port);
        if contract == "v1beta1" {
            edits.extend(older("EmbeddedCluster", &[("status.ready", json!({"type": "boolean"}))]));
            edits.push(without("EmbeddedCluster", field("status.failureDomains")));
        }
        let all = checked(&provider(&edits));
        let found: Vec<_> = all.iter().flat_map(|one| &one.findings).collect();
        let rows: Vec<_> = found.iter().map(|one| (one.level, one.rule, &*one.field)).collect();
        let path = wanted.map(|(path, _)| (Warning, "CT-6.2", path));
        assert_eq!(rows, path.into_iter().collect::<Vec<_>>(), "{case}: {found:?}");
        let words = wanted.map(|(_, words)| words);
        assert!(words.is_none_or(|words| found[0].message.contains(words)), "{case}: {found:?}");
    }
}

#[test]
fn an_open_schema_may_hold_any_field() {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let edits = [
        set("EmbeddedConfig", field("status"), open.clone()),
        set("EmbeddedConfig", field("spec"), open.clone()),
        set("EmbeddedConfigTemplate", field("spec.template.spec"), open),
    ];
    finds("open", &edits, &[]);
}

#[test]
fn what_is_recommended_is_a_warning() {
    for (case, edits, wanted) in [
        // CT-15.8
        (
            "no conditions",
            vec![without("EmbeddedMachine", field("status.conditions"))],
            vec![(Warning, "CT-15.8", "EmbeddedMachine", "status.conditions")],
        ),
        // CT-20.2
        (
            "a terminal failure",
            vec![set("EmbeddedMachine", field("status.failureReason"), json!({"type": "string"}))],
            vec![(Warning, "CT-20.2", "EmbeddedMachine", "status.failureReason")],
        ),
        // CT-6.7
        (
            "a terminal failure of another type",
            vec![set("EmbeddedMachine", field("status.failureMessage"), json!({"type": "array"}))],
            vec![
                (Error, "CT-6.7", "EmbeddedMachine", "status.failureMessage"),
                (Warning, "CT-20.2", "EmbeddedMachine", "status.failureMessage"),
            ],
        ),
        // CT-10.4
        (
            "no versions",
            ["spec.version", "status.version", "status.versions"]
                .map(|path| without("EmbeddedControlPlane", field(path)))
                .to_vec(),
            vec![(Warning, "CT-10.4", "EmbeddedControlPlane", "spec.version")],
        ),
        (
            "a version that is wanted only",
            ["status.version", "status.versions"].map(|path| without("EmbeddedControlPlane", field(path))).to_vec(),
            vec![(Error, "CT-10.1", "EmbeddedControlPlane", "status.version")],
        ),
        // CT-10.2
        (
            "the selector of the scale subresource",
            vec![without("EmbeddedControlPlane", format!("{SUBRESOURCES}/scale/labelSelectorPath"))],
            vec![(Error, "CT-10.2", "EmbeddedControlPlane", "subresources.scale.labelSelectorPath")],
        ),
        (
            "several, by their numbers",
            ["status.conditions", "status.selector"].map(|path| without("EmbeddedControlPlane", field(path))).to_vec(),
            vec![
                (Error, "CT-10.2", "EmbeddedControlPlane", "status.selector"),
                (Warning, "CT-15.8", "EmbeddedControlPlane", "status.conditions"),
            ],
        ),
    ] {
        finds(case, &edits, &wanted);
    }
}

#[test]
fn of_machine_pools_either_flag_is_read() {
    // CT-13.1, CT-20.1
    let kind = "EmbeddedMachinePool";
    let older_flag = set(kind, field("status.ready"), json!({"type": "boolean"}));
    let alone = [older_flag, without(kind, field("status.initialization.provisioned"))];
    finds("the older flag", &alone, &[(Warning, "CT-13.1", kind, "status.initialization.provisioned")]);
    let all = checked(&provider(&alone));
    let finding = all.iter().flat_map(|one| &one.findings).next().unwrap();
    assert_eq!(finding.message, "the schema has status.ready alone");
    let fix = &finding.remediation;
    assert!(fix.contains("report both") && fix.contains("Cluster API v1.14 only status.ready"), "{fix}");
}

#[test]
fn the_older_contract_has_fields_of_its_own() {
    let boolean = || json!({"type": "boolean"});
    let map = json!({"type": "object",
        "additionalProperties": {"type": "object", "properties": {"controlPlane": boolean()}}});
    // CT-5.4, CT-5.10
    let endpoint = json!({"type": "object", "properties": {"host": {"type": "string", "maxLength": 512},
        "port": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 65535}}});
    let same = set("EmbeddedClusterTemplate", field("spec.template.spec.controlPlaneEndpoint"), endpoint.clone());
    let fields = [("status.ready", boolean()), ("spec.controlPlaneEndpoint", endpoint)];
    let list = [older("EmbeddedCluster", &fields), vec![same.clone()]].concat();
    let good = [list.clone(), older("EmbeddedCluster", &[("status.failureDomains", map)])].concat();
    finds("all fields", &good, &[]);
    finds("a list", &list, &[(Error, "CT-5.10", "EmbeddedCluster", "status.failureDomains")]);
    let machine = older("EmbeddedMachine", &[]);
    finds("the flag of the newer one", &machine, &[(Error, "CT-8.1", "EmbeddedMachine", "status.ready")]);
    let all = checked(&provider(&machine));
    let message = &all.iter().flat_map(|one| &one.findings).next().unwrap().message;
    assert!(message.contains("status.initialization.provisioned belongs to the other contract"), "{message}");
    // CT-10.2, CT-11.2
    let control_plane = older("EmbeddedControlPlane", &[("status.initialized", boolean())]);
    let wanted = ["status.unavailableReplicas", "status.updatedReplicas"];
    let wanted = wanted.map(|path| (Error, "CT-10.2", "EmbeddedControlPlane", path));
    let reference = (Error, "CT-11.2", "EmbeddedControlPlane", "spec.machineTemplate.infrastructureRef");
    finds("counters", &control_plane, &[&wanted[..], &[reference]].concat());
}

#[test]
fn kinds_of_other_groups_are_of_a_provider_if_they_name_a_contract() {
    let definition = |labels: Value| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "clusters.databases.example.com", "labels": labels},
            "spec": {"group": "databases.example.com", "names": {"kind": "Cluster", "plural": "clusters"},
                "scope": "Namespaced", "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]}})
    };
    let findings = |labels| checked(&[definition(labels)]).iter().map(|one| one.findings.len()).sum::<usize>();
    assert_eq!(findings(json!({})), 0, "a database is no infrastructure");
    assert!(findings(json!({"cluster.x-k8s.io/v1beta2": "v1"})) > 0);
}

#[test]
fn a_template_gives_only_what_its_objects_accept() {
    const SPEC: &str = "spec.template.spec";
    let (config, template) = ("EmbeddedConfig", "EmbeddedConfigTemplate");
    let here = |path: &str| format!("{SPEC}.{path}");
    let both = |path: &str, ours: Value, theirs: Value| {
        vec![set(template, field(&here(path)), ours), set(config, field(&format!("spec.{path}")), theirs)]
    };
    let with = |mut node: Value, more: Value| {
        node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        node
    };
    let text = |more| with(json!({"type": "string"}), more);
    let whole = |more| with(json!({"type": "integer"}), more);
    let texts = |more| with(json!({"type": "array", "items": {"type": "string"}}), more);
    // CT-12.8
    for (case, ours, theirs, level) in [
        ("another type", text(json!({})), json!({"type": "integer"}), Error),
        ("a shorter text", text(json!({})), text(json!({"maxLength": 5})), Error),
        ("a shorter text than before", text(json!({"maxLength": 9})), text(json!({"maxLength": 5})), Error),
        ("a text that is not empty", text(json!({})), text(json!({"minLength": 1})), Error),
        ("a pattern", text(json!({"pattern": "a"})), text(json!({"pattern": "b"})), Error),
        ("fewer values", text(json!({"enum": ["a", "b"]})), text(json!({"enum": ["a"]})), Error),
        ("values", text(json!({})), text(json!({"enum": ["a"]})), Error),
        ("null", text(json!({"nullable": true})), text(json!({})), Error),
        (
            "less than a number",
            whole(json!({"maximum": 5})),
            whole(json!({"maximum": 5, "exclusiveMaximum": true})),
            Error,
        ),
        ("a smaller number", whole(json!({"format": "int64"})), whole(json!({"format": "int32"})), Error),
        ("no duplicates", texts(json!({})), texts(json!({"x-kubernetes-list-type": "set"})), Error),
        ("another default", text(json!({"default": "a"})), text(json!({"default": "b"})), Warning),
        ("no default", text(json!({"default": "a"})), text(json!({})), Warning),
        ("a rule", text(json!({})), text(json!({"x-kubernetes-validations": [{"rule": "self != 'a'"}]})), Warning),
        ("any of", text(json!({})), text(json!({"anyOf": [{"maxLength": 1}]})), Warning),
    ] {
        finds(case, &both("more", ours, theirs), &[(level, "CT-12.8", template, "spec.template.spec.more")]);
    }
    for (case, ours, theirs) in [
        ("a longer text", text(json!({"maxLength": 5})), text(json!({"maxLength": 9}))),
        ("no limit", text(json!({"maxLength": 5, "minLength": 1, "pattern": "a"})), text(json!({}))),
        ("more values", text(json!({"enum": ["a"]})), text(json!({"enum": ["a", "b"]}))),
        ("a lower maximum", whole(json!({"maximum": 4})), whole(json!({"maximum": 5, "exclusiveMaximum": true}))),
        ("a larger number", whole(json!({"format": "int32"})), whole(json!({"format": "int64"}))),
        (
            "duplicates",
            texts(json!({"x-kubernetes-list-type": "set"})),
            texts(json!({"x-kubernetes-list-type": "atomic"})),
        ),
        (
            "any name",
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
        ),
        (
            "a rule about the old value",
            text(json!({})),
            text(json!({"x-kubernetes-validations": [{"rule": "self == oldSelf"}]})),
        ),
    ] {
        finds(case, &both("more", ours, theirs), &[]);
    }
    let lost = [set(template, field(&here("more")), text(json!({})))];
    finds("a field that is lost", &lost, &[(Error, "CT-12.8", template, "spec.template.spec.more")]);
    let nested = [set(template, field(&here("files[].more")), text(json!({})))];
    finds(
        "a field that is lost in a list",
        &nested,
        &[(Error, "CT-12.8", template, "spec.template.spec.files[].more")],
    );
    let open = [set(template, format!("{}/x-kubernetes-preserve-unknown-fields", field(SPEC)), json!(true))];
    finds("unknown fields", &open, &[(Error, "CT-12.8", template, "spec.template.spec")]);
}

#[test]
fn fields_that_only_objects_have_are_optional_or_have_a_default() {
    let (config, template) = ("EmbeddedConfig", "EmbeddedConfigTemplate");
    let required = set(config, format!("{}/required", field("spec")), json!(["more"]));
    let more = |node: Value| set(config, field("spec.more"), node);
    let optional = [more(json!({"type": "string"}))];
    finds("optional", &optional, &[]);
    let needed = [more(json!({"type": "string"})), required.clone()];
    finds("required", &needed, &[(Warning, "CT-12.8", template, "spec.template.spec.more")]);
    let with_default = [more(json!({"type": "string", "default": "a"})), required];
    finds("with a default", &with_default, &[]);
}

#[test]
fn templates_have_their_shape() {
    let text = || json!({"type": "string"});
    for (case, edits, wanted) in [
        // CT-7.1, CT-9.1, CT-11.1, CT-12.8, CT-13.3
        (
            "no payload",
            vec![without("EmbeddedClusterTemplate", field("spec.template.spec"))],
            vec![(Error, "CT-7.1", "EmbeddedClusterTemplate", "spec.template.spec")],
        ),
        (
            "no metadata",
            vec![without("EmbeddedMachineTemplate", field("spec.template.metadata"))],
            vec![(Warning, "CT-9.1", "EmbeddedMachineTemplate", "spec.template.metadata.labels")],
        ),
        (
            "no annotations",
            vec![without("EmbeddedMachinePoolTemplate", field("spec.template.metadata.annotations"))],
            vec![(Warning, "CT-13.3", "EmbeddedMachinePoolTemplate", "spec.template.metadata.annotations")],
        ),
        (
            "labels",
            vec![set("EmbeddedClusterTemplate", field("spec.template.metadata.labels"), text())],
            vec![(Error, "CT-7.1", "EmbeddedClusterTemplate", "spec.template.metadata.labels")],
        ),
        // CT-9.4
        (
            "capacity",
            vec![set("EmbeddedMachineTemplate", field("status.capacity"), text())],
            vec![(Error, "CT-9.4", "EmbeddedMachineTemplate", "status.capacity")],
        ),
        (
            "a provider id in a template, as many providers have it",
            vec![set(
                "EmbeddedMachineTemplate",
                field("spec.template.spec.providerID"),
                json!({"type": "string", "minLength": 1, "maxLength": 512}),
            )],
            vec![],
        ),
        (
            "replicas in a template",
            vec![set(
                "EmbeddedControlPlaneTemplate",
                field("spec.template.spec.replicas"),
                json!({"type": "integer", "format": "int32", "minimum": 0}),
            )],
            vec![(Warning, "CT-11.1", "EmbeddedControlPlaneTemplate", "spec.template.spec.replicas")],
        ),
        // CT-7.3
        (
            "an endpoint",
            vec![set(
                "EmbeddedClusterTemplate",
                format!("{}/required", field("spec.template.spec")),
                json!(["controlPlaneEndpoint"]),
            )],
            vec![(Error, "CT-7.3", "EmbeddedClusterTemplate", "spec.template.spec.controlPlaneEndpoint")],
        ),
        // CT-14.1
        (
            "another version",
            vec![
                set("EmbeddedConfigTemplate", "/spec/versions/0/name", json!("v1")),
                set("EmbeddedConfigTemplate", LABELS, json!({"cluster.x-k8s.io/v1beta2": "v1"})),
            ],
            vec![(Error, "CT-14.1", "EmbeddedConfigTemplate", "spec.versions")],
        ),
    ] {
        finds(case, &edits, &wanted);
    }
    // CT-1.2
    let alone: Vec<Value> =
        crd::embedded_provider().into_iter().filter(|one| name_of(one) == "EmbeddedConfigTemplate").collect();
    assert_eq!(found(&checked(&alone)), [(Warning, "CT-1.2", "EmbeddedConfigTemplate", "spec.names.kind")]);
}

#[test]
fn groups_of_others_are_granted_by_a_role() {
    // CT-1.5, CT-16.1, CT-16.2
    let mut definition = crd::embedded_provider().into_iter().find(|one| name_of(one) == "EmbeddedConfig").unwrap();
    definition["spec"]["group"] = json!("bootstrap.example.com");
    definition["metadata"]["name"] = json!("embeddedconfigs.bootstrap.example.com");
    let role = |label: Value, group: &str, verbs: Value| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
               "metadata": {"name": "manager", "labels": {"cluster.x-k8s.io/aggregate-to-manager": label}},
               "rules": [{"apiGroups": [group], "resources": ["embeddedconfigs"], "verbs": verbs}]})
    };
    let all = || json!(["create", "delete", "get", "list", "patch", "update", "watch"]);
    let group = "bootstrap.example.com";
    for (case, roles, wanted) in [
        ("no role", vec![], Some((Warning, "CT-16.1"))),
        ("granted", vec![role(json!("true"), group, all())], None),
        ("by a star", vec![role(json!("true"), "*", json!(["*"]))], None),
        ("without the label", vec![role(json!("false"), group, all())], Some((Error, "CT-16.1"))),
        ("another group", vec![role(json!("true"), "example.com", all())], Some((Error, "CT-16.1"))),
        ("fewer verbs", vec![role(json!("true"), group, json!(["get", "list", "watch"]))], Some((Error, "CT-16.2"))),
    ] {
        let manifests = [vec![definition.clone()], roles].concat();
        let wanted: Vec<_> =
            wanted.into_iter().map(|(level, rule)| (level, rule, "EmbeddedConfig", "spec.group")).collect();
        assert_eq!(found(&checked(&manifests)), wanted, "{case}");
    }
    for family in ["bootstrap", "controlplane", "infrastructure"] {
        definition["spec"]["group"] = json!(format!("{family}.cluster.x-k8s.io"));
        definition["metadata"]["name"] = json!(format!("embeddedconfigs.{family}.cluster.x-k8s.io"));
        assert_eq!(found(&checked(&[definition.clone()])), [], "{family}");
    }
}

/// The definition of a kind of another group, and a bound ClusterRole of its provider.
fn owned(kind: &str, group: &str, rules: &Value) -> Vec<Value> {
    let mut definition = crd::embedded_provider().into_iter().find(|one| name_of(one) == kind).unwrap();
    let plural = definition["spec"]["names"]["plural"].as_str().unwrap().to_owned();
    definition["spec"]["group"] = json!(group);
    definition["metadata"]["name"] = json!(format!("{plural}.{group}"));
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "own"},
        "rules": rules});
    let binding = |name: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"kind": "ClusterRole", "name": name}})
    };
    vec![definition, role, binding("own"), binding("system:auth-delegator")]
}

fn granted(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

#[test]
fn a_provider_may_do_its_own_work() {
    // CT-16.3, CT-16.5
    const GROUP: &str = "bootstrap.cluster.x-k8s.io";
    const READ: [&str; 3] = ["get", "list", "watch"];
    const ALL: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];
    let own = |verbs: &[&str]| granted(GROUP, &["embeddedconfigs"], verbs);
    let status = || granted(GROUP, &["*/status"], &["patch"]);
    let finalizers = || granted(GROUP, &["embeddedconfigs/finalizers"], &["update"]);
    let core = || granted("cluster.x-k8s.io", &["clusters", "machines"], &READ);
    let secrets = || granted("", &["secrets"], &["create", "get"]);
    let named = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"], "resourceNames": ["one"]});
    let writes = ["get", "list", "patch", "watch"];
    for (case, rules, wanted) in [
        ("all of it", json!([own(&ALL), status(), finalizers(), core(), secrets()]), None),
        ("by stars", json!([granted("*", &["*"], &["*"])]), None),
        ("no finalizers", json!([own(&ALL), status(), core(), secrets()]), Some((Warning, "CT-16.3", "finalizers"))),
        ("no status", json!([own(&ALL), finalizers(), core(), secrets()]), Some((Error, "CT-16.5", "configs/status"))),
        (
            "neither created nor deleted",
            json!([own(&writes), status(), finalizers(), core(), secrets()]),
            Some((Warning, "CT-16.5", "create, delete, update of embeddedconfigs")),
        ),
        (
            "only read",
            json!([own(&READ), status(), finalizers(), core(), secrets()]),
            Some((Error, "CT-16.5", "create, delete, patch, update of embeddedconfigs")),
        ),
        (
            "no Clusters and Machines",
            json!([own(&ALL), status(), finalizers(), secrets()]),
            Some((Error, "CT-16.5", "get, list, watch of clusters; get, list, watch of machines")),
        ),
        ("no Secrets", json!([own(&ALL), status(), finalizers(), core()]), Some((Error, "CT-16.5", "secrets"))),
        (
            "one Secret by its name",
            json!([own(&ALL), status(), finalizers(), core(), named]),
            Some((Error, "CT-16.5", "create, get of secrets")),
        ),
        ("a kind that is not named", json!([core(), secrets()]), None),
    ] {
        let all = checked(&owned("EmbeddedConfig", GROUP, &rules));
        let rows = wanted.map(|(level, rule, _)| (level, rule, "EmbeddedConfig", "spec.group"));
        assert_eq!(found(&all), rows.into_iter().collect::<Vec<_>>(), "{case}: {all:#?}");
        let words = wanted.map(|(_, _, words)| words);
        assert!(words.is_none_or(|words| all[0].findings[0].message.contains(words)), "{case}: {all:#?}");
    }
    // Infrastructure machines need no Secrets, and control no objects.
    let group = "infrastructure.cluster.x-k8s.io";
    let rules = json!([granted(group, &["embeddedmachines", "embeddedmachines/status"], &ALL), core()]);
    assert_eq!(found(&checked(&owned("EmbeddedMachine", group, &rules))), []);
}

#[test]
fn access_that_the_files_do_not_show_is_not_judged() {
    // CT-16.5
    const GROUP: &str = "bootstrap.cluster.x-k8s.io";
    let files = owned("EmbeddedConfig", GROUP, &json!([granted(GROUP, &["embeddedconfigs"], &["get"])]));
    let count = |files: &[Value]| found(&checked(files)).len();
    assert!(count(&files) > 0);
    assert_eq!(count(&files[..2]), 0, "no binding");
    let without_role = [files[0].clone(), files[2].clone()];
    assert_eq!(count(&without_role), 0, "the role is not in the files");
    let elsewhere = json!({"kind": "RoleBinding", "metadata": {"name": "x"}, "roleRef": {"kind": "Role", "name": "x"}});
    assert_eq!(count(&[files.clone(), vec![elsewhere]].concat()), 0, "another bound role is not in the files");
    // A role may aggregate rules of others by label.
    let mut collecting = files.clone();
    collecting[1]["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"part-of": "own"}}]});
    let part = json!({"kind": "ClusterRole", "metadata": {"name": "part", "labels": {"part-of": "own"}},
        "rules": [granted("*", &["*"], &["*"])]});
    assert_eq!(count(&[collecting, vec![part]].concat()), 0, "collected");
}

#[test]
fn a_template_can_be_changed_by_a_dry_run() {
    const SPEC: &str = "spec.template.spec";
    let rule = |text: &str| json!([{"rule": text, "message": "immutable"}]);
    let keyword = "/x-kubernetes-validations";
    for (kind, rule_id) in [
        // CT-9.2, CT-9.5, CT-13.3
        ("EmbeddedMachineTemplate", "CT-9.2"),
        ("EmbeddedConfigTemplate", "CT-9.5"),
        ("EmbeddedMachinePoolTemplate", "CT-13.3"),
    ] {
        let edits = [set(kind, field(SPEC) + keyword, rule("self == oldSelf"))];
        finds(kind, &edits, &[(Error, rule_id, kind, SPEC)]);
    }
    let below = [set("EmbeddedConfigTemplate", field("spec.template.spec.files[]") + keyword, rule("oldSelf == self"))];
    finds("below", &below, &[(Error, "CT-9.5", "EmbeddedConfigTemplate", "spec.template.spec.files[]")]);
    for (case, kind, text) in [
        ("templates that are changed in place", "EmbeddedClusterTemplate", "self == oldSelf"),
        ("a rule about the new value", "EmbeddedMachineTemplate", "has(self.backend)"),
    ] {
        finds(case, &[set(kind, field(SPEC) + keyword, rule(text))], &[]);
    }
}

#[test]
fn a_release_says_whose_it_is_and_which_contract_it_has() {
    // CT-17.1, CT-17.2
    const PROVIDER: &str = "cluster.x-k8s.io/provider";
    let labelled = |value: Option<&str>| {
        let mut all = crd::embedded_provider();
        all.retain(|one| ["EmbeddedConfig", "EmbeddedMachine"].contains(&name_of(one)));
        for definition in &mut all {
            definition["metadata"]["labels"][PROVIDER] = json!("bootstrap-embedded");
        }
        let labels = all[0]["metadata"]["labels"].as_object_mut().unwrap();
        match value {
            Some(value) => drop(labels.insert(PROVIDER.to_owned(), json!(value))),
            None => drop(labels.remove(PROVIDER)),
        }
        all
    };
    let label = "metadata.labels[cluster.x-k8s.io/provider]";
    let first = labelled(None).first().map(|one| name_of(one).to_owned()).unwrap();
    for (value, is_good) in [
        (Some("bootstrap-embedded"), true),
        (Some("control-plane-embedded"), true),
        (Some("runtime-extension-a"), true),
        (None, false),
        (Some("embedded"), false),
        (Some("bootstrap-"), false),
        (Some("cluster-api"), false),
    ] {
        let wanted = if is_good { vec![] } else { vec![(Warning, "CT-17.1", &*first, label)] };
        assert_eq!(found(&checked(&labelled(value))), wanted, "{value:?}");
    }
    let metadata = |series: Value| {
        json!({"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Metadata",
            "releaseSeries": series})
    };
    let row = |minor: u32, contract: &str| json!({"major": 1, "minor": minor, "contract": contract});
    for (case, more, is_good) in [
        ("the newest agrees", vec![metadata(json!([row(9, "v1beta1"), row(10, "v1beta2")]))], true),
        ("the newest is another", vec![metadata(json!([row(10, "v1alpha4"), row(9, "v1beta2")]))], false),
        ("none", vec![metadata(json!([]))], false),
        ("of two providers", vec![metadata(json!([])), metadata(json!([]))], true),
    ] {
        let mut all = crd::embedded_provider();
        all.retain(|one| name_of(one) == "EmbeddedConfig");
        let wanted = if is_good { vec![] } else { vec![(Error, "CT-17.2", "EmbeddedConfig", "metadata.labels")] };
        assert_eq!(found(&checked(&[all, more].concat())), wanted, "{case}");
    }
}
