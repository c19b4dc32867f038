use std::collections::{BTreeMap, BTreeSet};

use super::SchemaVersion::{V1Beta1, V1Beta2};
use super::*;
use crate::hub::Kind::{Cluster, ClusterClass};
use crate::wire::conversion::embedded::EmbeddedKind;

const MD: &str = "spec.topology.workers.machineDeployments[]";
const MD_CLASS: &str = "spec.workers.machineDeployments[]";
const SELECTOR: &str = "spec.patches[].definitions[].selector";
const VARIABLE: &str = "spec.variables[].schema.openAPIV3Schema";

/// The node at a path such as `spec.patches[].external.settings.*`.
fn at<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    path.replace("[]", ".[]").split('.').try_fold(schema, |node, segment| match segment {
        "[]" => node.get("items"),
        "*" => node.get("additionalProperties"),
        name => node.get("properties")?.get(name),
    })
}

/// Whether the parent of a path requires its last segment.
fn is_required(schema: &Value, path: &str) -> bool {
    let (parent, name) = path.rsplit_once('.').unwrap_or(("", path));
    let parent = if parent.is_empty() { Some(schema) } else { at(schema, parent) };
    parent.and_then(|parent| parent["required"].as_array()).is_some_and(|names| names.contains(&json!(name)))
}

/// Every node with its path.
fn walk<'a>(path: &str, node: &'a Value, visit: &mut impl FnMut(&str, &'a Value)) {
    visit(path, node);
    for (name, child) in node["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}.{name}"), child, visit);
    }
    for (step, keyword) in [("[]", "items"), (".*", "additionalProperties")] {
        if let Some(child) = node.get(keyword) {
            walk(&format!("{path}{step}"), child, visit);
        }
    }
}

/// Every version of every definition, with a name.
fn versions() -> Vec<(String, Value)> {
    let versions = |definition: Value| -> Vec<(String, Value)> {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap();
        let versions = definition["spec"]["versions"].as_array().unwrap();
        versions.iter().map(|version| (format!("{kind} {}", version["name"]), version.clone())).collect()
    };
    definitions().into_iter().flat_map(versions).collect()
}

fn for_every_node(mut check: impl FnMut(&str, &Value)) {
    for (what, version) in versions() {
        walk(&format!("{what} "), &version["schema"]["openAPIV3Schema"], &mut check);
    }
}

fn pins(kind: Kind, version: SchemaVersion, rows: Vec<(String, &str, Value)>) {
    let schema = schema(kind, version);
    for (path, keyword, want) in rows {
        let node = at(&schema, &path).unwrap_or_else(|| panic!("{kind:?} {version:?} has no {path}"));
        assert_eq!(node.get(keyword).unwrap_or(&Value::Null), &want, "{kind:?} {version:?} {path} {keyword}");
    }
}

#[test]
fn a_cluster_is_constrained_in_v1beta2() {
    let checks = format!("{MD}.healthCheck.checks");
    pins(
        Cluster,
        V1Beta2,
        vec![
            ("spec.clusterNetwork.apiServerPort".into(), "maximum", json!(65535)),
            ("spec.clusterNetwork.pods.cidrBlocks".into(), "maxItems", json!(100)),
            ("spec.clusterNetwork.pods.cidrBlocks".into(), "x-kubernetes-list-type", json!("atomic")),
            ("spec.clusterNetwork.pods.cidrBlocks[]".into(), "maxLength", json!(43)),
            // CT-4.1, CT-4.2
            ("spec.controlPlaneRef".into(), "required", json!(["apiGroup", "kind", "name"])),
            ("spec.controlPlaneRef.apiGroup".into(), "pattern", json!(blocks::SUBDOMAIN)),
            ("spec.controlPlaneRef.apiGroup".into(), "maxLength", json!(253)),
            ("spec.controlPlaneRef.kind".into(), "pattern", json!(blocks::KIND)),
            ("spec.controlPlaneRef.kind".into(), "maxLength", json!(63)),
            ("spec.controlPlaneRef.name".into(), "pattern", json!(blocks::SUBDOMAIN)),
            ("spec.controlPlaneRef.name".into(), "maxLength", json!(253)),
            ("spec.topology.classRef.name".into(), "pattern", json!(blocks::SUBDOMAIN)),
            ("spec.topology.classRef.namespace".into(), "pattern", json!(blocks::LABEL)),
            ("spec.topology.controlPlane.rollout.after".into(), "format", json!("date-time")),
            ("spec.topology.variables".into(), "x-kubernetes-list-map-keys", json!(["name"])),
            ("spec.topology.variables[].value".into(), "x-kubernetes-preserve-unknown-fields", json!(true)),
            ("spec.topology.workers.machinePools[].failureDomains".into(), "minItems", json!(1)),
            (MD.into(), "required", json!(["class", "name"])),
            (format!("{MD}.deletion.order"), "enum", json!(["Random", "Newest", "Oldest"])),
            (format!("{MD}.deletion.nodeDrainTimeoutSeconds"), "minimum", json!(0)),
            (format!("{MD}.rollout.strategy.rollingUpdate.maxSurge"), "x-kubernetes-int-or-string", json!(true)),
            (format!("{MD}.taints"), "x-kubernetes-list-map-keys", json!(["key", "effect"])),
            (format!("{MD}.healthCheck.remediation.triggerIf.unhealthyInRange"), "maxLength", json!(32)),
            (format!("{checks}.unhealthyMachineConditions[].type"), "maxLength", json!(316)),
            (format!("{checks}.unhealthyMachineConditions[].timeoutSeconds"), "format", json!("int32")),
            (format!("{checks}.unhealthyNodeConditions"), "x-kubernetes-list-type", json!("atomic")),
            ("status.conditions".into(), "maxItems", json!(32)),
            ("status.controlPlane.versions[].replicas".into(), "minimum", json!(1)),
            ("status.deprecated.v1beta1.failureMessage".into(), "maxLength", json!(10240)),
            ("status.failureDomains".into(), "x-kubernetes-list-map-keys", json!(["name"])),
            ("status.initialization.controlPlaneInitialized".into(), "type", json!("boolean")),
            ("status.observedGeneration".into(), "minimum", json!(1)),
        ],
    );
}

#[test]
fn a_cluster_is_looser_and_shaped_differently_in_v1beta1() {
    let check = format!("{MD}.machineHealthCheck");
    pins(
        Cluster,
        V1Beta1,
        vec![
            ("spec.clusterNetwork.apiServerPort".into(), "maximum", Value::Null),
            ("spec.clusterNetwork.pods.cidrBlocks".into(), "minItems", Value::Null),
            ("spec.clusterNetwork.pods.cidrBlocks".into(), "x-kubernetes-list-type", Value::Null),
            ("spec.clusterNetwork.pods.cidrBlocks[]".into(), "maxLength", json!(43)),
            ("spec.controlPlaneEndpoint.host".into(), "minLength", Value::Null),
            ("spec.controlPlaneRef".into(), "required", Value::Null),
            ("spec.topology".into(), "required", json!(["class", "version"])),
            ("spec.topology.class".into(), "pattern", Value::Null),
            ("spec.topology.classNamespace".into(), "pattern", json!(blocks::LABEL)),
            ("spec.topology.controlPlane.nodeDrainTimeout".into(), "type", json!("string")),
            ("spec.topology.controlPlane.rollout".into(), "minProperties", json!(1)),
            ("spec.topology.rolloutAfter".into(), "format", json!("date-time")),
            ("spec.topology.variables[].definitionFrom".into(), "maxLength", json!(256)),
            (format!("{MD}.name"), "pattern", Value::Null),
            (format!("{MD}.strategy"), "required", Value::Null),
            (format!("{MD}.strategy.type"), "enum", json!(["RollingUpdate", "OnDelete"])),
            (format!("{MD}.strategy.rollingUpdate.deletePolicy"), "enum", json!(["Random", "Newest", "Oldest"])),
            (format!("{MD}.strategy.remediation.maxInFlight"), "x-kubernetes-int-or-string", json!(true)),
            (format!("{MD}.taints"), "minItems", json!(1)),
            (format!("{check}.enable"), "type", json!("boolean")),
            (format!("{check}.unhealthyRange"), "maxLength", json!(32)),
            (format!("{check}.unhealthyConditions[]"), "required", json!(["status", "timeout", "type"])),
            (format!("{check}.unhealthyConditions[].timeout"), "type", json!("string")),
            (format!("{check}.unhealthyMachineConditions"), "minItems", json!(1)),
            (format!("{check}.remediationTemplate.fieldPath"), "type", json!("string")),
            ("status.conditions[].severity".into(), "maxLength", json!(32)),
            ("status.failureDomains.*.controlPlane".into(), "type", json!("boolean")),
            ("status.v1beta2.conditions[].reason".into(), "maxLength", json!(1024)),
            ("status.v1beta2.workers.upgradePlan".into(), "maxItems", json!(32)),
        ],
    );
}

#[test]
fn a_class_is_constrained_in_v1beta2() {
    let rules = format!("{VARIABLE}.x-kubernetes-validations");
    pins(
        ClusterClass,
        V1Beta2,
        vec![
            ("spec".into(), "required", json!(["controlPlane", "infrastructure"])),
            ("spec.controlPlane.machineInfrastructure.templateRef.apiVersion".into(), "maxLength", json!(317)),
            ("spec.infrastructure.naming.template".into(), "maxLength", json!(1024)),
            ("spec.kubernetesVersions[]".into(), "maxLength", json!(256)),
            ("spec.patches".into(), "x-kubernetes-list-type", json!("atomic")),
            ("spec.patches[].definitions".into(), "minItems", Value::Null),
            ("spec.patches[].definitions[].jsonPatches".into(), "minItems", json!(1)),
            ("spec.patches[].definitions[].jsonPatches[].op".into(), "enum", json!(["add", "replace", "remove"])),
            ("spec.patches[].external.settings.*".into(), "type", json!("string")),
            (format!("{SELECTOR}.apiVersion"), "pattern", json!(blocks::API_VERSION)),
            (format!("{SELECTOR}.kind"), "maxLength", json!(63)),
            ("spec.workers.machineDeployments".into(), "x-kubernetes-list-map-keys", json!(["class"])),
            (MD_CLASS.into(), "required", json!(["bootstrap", "class", "infrastructure"])),
            (format!("{MD_CLASS}.rollout.strategy"), "required", json!(["type"])),
            (format!("{VARIABLE}.required"), "minItems", json!(1)),
            (format!("{VARIABLE}.properties"), "x-kubernetes-preserve-unknown-fields", json!(true)),
            (format!("{VARIABLE}.maximum"), "format", json!("int64")),
            (rules.clone(), "x-kubernetes-list-map-keys", json!(["rule"])),
            (format!("{rules}[].reason"), "default", json!("FieldValueInvalid")),
            ("status.variables[].definitions".into(), "minItems", json!(1)),
            ("status.variables[]".into(), "required", json!(["definitions", "name"])),
        ],
    );
}

#[test]
fn a_class_is_looser_and_shaped_differently_in_v1beta1() {
    pins(
        ClusterClass,
        V1Beta1,
        vec![
            ("spec".into(), "required", Value::Null),
            ("spec.controlPlane".into(), "required", json!(["ref"])),
            ("spec.controlPlane.ref".into(), "required", Value::Null),
            ("spec.infrastructureNamingStrategy.template".into(), "maxLength", json!(1024)),
            ("spec.kubernetesVersions".into(), "minItems", json!(1)),
            ("spec.patches".into(), "minItems", Value::Null),
            ("spec.patches[].external.generateExtension".into(), "maxLength", json!(512)),
            (format!("{SELECTOR}.apiVersion"), "maxLength", json!(512)),
            (format!("{SELECTOR}.kind"), "pattern", Value::Null),
            ("spec.variables[].metadata.labels.*".into(), "type", json!("string")),
            (MD_CLASS.into(), "required", json!(["class", "template"])),
            (format!("{MD_CLASS}.template"), "required", json!(["bootstrap", "infrastructure"])),
            (format!("{MD_CLASS}.template.metadata"), "minProperties", Value::Null),
            (format!("{MD_CLASS}.strategy.type"), "enum", json!(["RollingUpdate", "OnDelete"])),
            (format!("{VARIABLE}.required"), "minItems", Value::Null),
            (format!("{VARIABLE}.required[]"), "maxLength", json!(256)),
            ("status.v1beta2.conditions".into(), "x-kubernetes-list-map-keys", json!(["type"])),
        ],
    );
}

#[test]
fn each_version_has_only_its_own_fields() {
    for (kind, version, path) in [
        (Cluster, V1Beta1, "spec.topology.classRef"),
        (Cluster, V1Beta1, "spec.topology.controlPlane.deletion"),
        (Cluster, V1Beta1, "status.initialization"),
        (Cluster, V1Beta2, "spec.topology.class"),
        (Cluster, V1Beta2, "spec.topology.rolloutAfter"),
        (Cluster, V1Beta2, "spec.topology.variables[].definitionFrom"),
        (Cluster, V1Beta2, "spec.topology.controlPlane.deletion.order"),
        (Cluster, V1Beta2, "spec.topology.controlPlane.healthCheck.remediation.maxInFlight"),
        (Cluster, V1Beta2, "spec.topology.workers.machinePools[].healthCheck"),
        (Cluster, V1Beta2, "spec.topology.workers.machinePools[].rollout"),
        (Cluster, V1Beta2, "status.controlPlane.upgradePlan[].replicas"),
        (Cluster, V1Beta2, "status.v1beta2"),
        (ClusterClass, V1Beta1, "spec.infrastructure.naming"),
        (ClusterClass, V1Beta1, "spec.workers.machineDeployments[].rollout"),
        (ClusterClass, V1Beta2, "spec.controlPlane.healthCheck.enabled"),
        (ClusterClass, V1Beta2, "spec.workers.machineDeployments[].template"),
    ] {
        assert_eq!(at(&schema(kind, version), path), None, "{kind:?} {version:?} {path}");
    }
}

#[test]
fn v1beta2_insists_on_more_fields() {
    for (kind, new, old, in_v1beta1) in [
        (Cluster, "spec", "spec", false),
        (Cluster, "spec.topology.version", "spec.topology.version", true),
        (Cluster, "spec.topology.classRef.name", "spec.topology.class", true),
        (ClusterClass, "spec", "spec", false),
        (ClusterClass, "spec.controlPlane", "spec.controlPlane", false),
        (ClusterClass, "spec.infrastructure", "spec.infrastructure", false),
        (ClusterClass, "spec.infrastructure.templateRef", "spec.infrastructure.ref", true),
    ] {
        assert!(is_required(&schema(kind, V1Beta2), new), "{kind:?} {new}");
        assert_eq!(is_required(&schema(kind, V1Beta1), old), in_v1beta1, "{kind:?} {old}");
    }
}

#[test]
fn empty_objects_are_refused_in_v1beta2() {
    let check = |kind, paths: &[&str]| {
        let schema = schema(kind, V1Beta2);
        for path in paths {
            assert_eq!(at(&schema, path).map(|node| &node["minProperties"]), Some(&json!(1)), "{kind:?} {path}");
        }
    };
    check(
        Cluster,
        &[
            "spec",
            "spec.clusterNetwork",
            "spec.controlPlaneEndpoint",
            "spec.topology.controlPlane",
            "spec.topology.controlPlane.deletion",
            "spec.topology.controlPlane.healthCheck",
            "spec.topology.controlPlane.healthCheck.checks",
            "spec.topology.controlPlane.healthCheck.remediation",
            "spec.topology.controlPlane.healthCheck.remediation.triggerIf",
            "spec.topology.controlPlane.metadata",
            "spec.topology.controlPlane.rollout",
            "spec.topology.controlPlane.variables",
            "spec.topology.workers",
            "spec.topology.workers.machineDeployments[].deletion",
            "spec.topology.workers.machineDeployments[].healthCheck",
            "spec.topology.workers.machineDeployments[].metadata",
            "spec.topology.workers.machineDeployments[].rollout",
            "spec.topology.workers.machineDeployments[].rollout.strategy",
            "spec.topology.workers.machineDeployments[].rollout.strategy.rollingUpdate",
            "spec.topology.workers.machineDeployments[].variables",
            "spec.topology.workers.machinePools[].deletion",
            "spec.topology.workers.machinePools[].metadata",
            "spec.topology.workers.machinePools[].variables",
            "status",
            "status.initialization",
        ],
    );
    check(
        ClusterClass,
        &[
            "spec.controlPlane.deletion",
            "spec.controlPlane.healthCheck",
            "spec.controlPlane.metadata",
            "spec.controlPlane.naming",
            "spec.infrastructure.naming",
            "spec.patches[].definitions[].selector.matchResources",
            "spec.upgrade",
            "spec.upgrade.external",
            "spec.variables[].deprecatedV1Beta1Metadata",
            "spec.variables[].schema.openAPIV3Schema",
            "spec.variables[].schema.openAPIV3Schema.x-metadata",
            "spec.workers",
            "spec.workers.machineDeployments[].deletion",
            "spec.workers.machineDeployments[].healthCheck",
            "spec.workers.machineDeployments[].metadata",
            "spec.workers.machineDeployments[].naming",
            "spec.workers.machineDeployments[].rollout",
            "spec.workers.machineDeployments[].rollout.strategy",
            "spec.workers.machineDeployments[].rollout.strategy.rollingUpdate",
            "spec.workers.machinePools[].deletion",
            "spec.workers.machinePools[].metadata",
            "spec.workers.machinePools[].naming",
            "status",
            "status.variables[].definitions[].deprecatedV1Beta1Metadata",
            "status.variables[].definitions[].schema.openAPIV3Schema",
        ],
    );
}

#[test]
fn health_checks_leave_own_conditions_alone() {
    let own = ["Ready", "Available", "HealthCheckSucceeded", "OwnerRemediated", "ExternallyRemediated"];
    let rule = format!("!(self in [{}])", own.map(|name| format!("'{name}'")).join(","));
    let mut places = 0;
    for_every_node(|path, node| {
        let is_of_checks = !path.starts_with("ExtensionConfig");
        if let Some(rules) = node.get("x-kubernetes-validations").filter(|_| is_of_checks) {
            assert!(path.ends_with(".unhealthyMachineConditions[].type"), "{path}");
            assert_eq!(rules[0]["rule"], rule, "{path}");
            places += 1;
        }
    });
    assert_eq!(places, 9, "control plane and machine deployments, two kinds, two versions; and the check itself");
}

#[test]
fn every_node_is_structural() {
    for_every_node(|path, node| {
        let stands_for_a_type = ["x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"]
            .iter()
            .any(|extension| node[extension] == true);
        assert!(node["type"].is_string() || stands_for_a_type, "{path}");
        assert!(!(node.get("properties").is_some() && node.get("additionalProperties").is_some()), "{path}");
        assert_eq!(node["type"] == "array", node.get("items").is_some(), "{path}");
    });
}

#[test]
fn every_key_of_a_list_map_is_required_in_its_entries() {
    for_every_node(|path, node| {
        assert_eq!(node["x-kubernetes-list-type"] == "map", node.get("x-kubernetes-list-map-keys").is_some(), "{path}");
        for key in node["x-kubernetes-list-map-keys"].as_array().into_iter().flatten() {
            assert_eq!(node["items"]["type"], "object", "{path}");
            assert!(node["items"]["required"].as_array().is_some_and(|names| names.contains(key)), "{path} {key}");
        }
    });
}

#[test]
fn required_names_are_fields() {
    for_every_node(|path, node| {
        for name in node["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            assert!(node["properties"].get(name).is_some(), "{path} {name}");
        }
    });
}

#[test]
fn definitions_are_called_as_clients_expect() {
    // CT-2.1
    let core = [
        "clusters cl",
        "clusterclasses cc",
        "machinedeployments md",
        "machinesets ms",
        "machines ma",
        "machinehealthchecks mhc",
        "machinepools mp",
        "extensionconfigs ext",
    ];
    let names = |definition: &Value| {
        let (name, names) = (&definition["metadata"]["name"], &definition["spec"]["names"]);
        let scope = if names["kind"] == "ExtensionConfig" { "Cluster" } else { "Namespaced" };
        assert_eq!(definition["spec"]["scope"], scope, "{name}");
        assert_eq!(names["categories"], json!(["cluster-api"]), "{name}");
        assert_eq!(*name, json!(format!("{}.{}", names["plural"].as_str()?, definition["spec"]["group"].as_str()?)));
        Some(format!("{} {}", names["plural"].as_str()?, names["shortNames"][0].as_str().unwrap_or_default()))
    };
    assert_eq!(cluster_api().iter().filter_map(names).collect::<Vec<_>>(), core);
    let embedded: Vec<String> = embedded_provider()
        .iter()
        .filter_map(|definition| Some(definition["spec"]["names"]["kind"].as_str()?.to_owned()))
        .collect();
    let roles = ["Cluster", "Machine", "MachinePool", "Config", "ControlPlane"];
    let want = roles.map(|role| [format!("Embedded{role}"), format!("Embedded{role}Template")]).concat();
    assert_eq!(embedded, want, "a kind and what it is cloned from (CT-1.2)");
    assert_eq!(definitions().len(), 18);
}

#[test]
fn kinds_in_one_version_name_it_as_that_of_the_contract() {
    // CT-3.3, CT-3.4
    let versions = |definition: &Value| definition["spec"]["versions"].as_array().unwrap().len();
    let (single, converted): (Vec<_>, Vec<_>) = cluster_api().into_iter().partition(|one| versions(one) == 1);
    assert!(converted.len() == 3 && converted.iter().all(|one| one["spec"].get("conversion").is_some()));
    for definition in single {
        let versions = definition["spec"]["versions"].as_array().unwrap();
        assert_eq!(versions.len(), 1, "nothing converts {}", definition["metadata"]["name"]);
        assert_eq!((&versions[0]["served"], &versions[0]["storage"]), (&json!(true), &json!(true)));
        let labels = &definition["metadata"]["labels"];
        assert_eq!(*labels, json!({"cluster.x-k8s.io/v1beta2": versions[0]["name"]}));
        assert_eq!(definition["spec"].get("conversion"), None);
    }
}

#[test]
fn kinds_of_the_embedded_provider_have_a_version_of_each_contract() {
    // CT-3.1, CT-3.2, CT-3.3, CONV-017
    let of_cluster = definition(Cluster)["spec"]["conversion"].clone();
    for definition in embedded_provider() {
        let name = &definition["metadata"]["name"];
        let labels = json!({"cluster.x-k8s.io/v1beta2": "v1beta1", "cluster.x-k8s.io/v1beta1": "v1alpha1"});
        assert_eq!(definition["metadata"]["labels"], labels, "{name}");
        let versions = definition["spec"]["versions"].as_array().unwrap().iter();
        let facts: Vec<_> = versions.map(|one| json!([one["name"], one["served"], one["storage"]])).collect();
        assert_eq!(facts, [json!(["v1beta1", true, true]), json!(["v1alpha1", true, false])], "{name}");
        assert_eq!(definition["spec"]["conversion"], of_cluster, "{name}");
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap();
        let group = definition["spec"]["group"].as_str().unwrap();
        assert!(EmbeddedKind::find(group, kind).is_some(), "{name} is converted");
    }
    assert_eq!(embedded_provider().len(), EmbeddedKind::ALL.len());
}

#[test]
fn templates_have_no_status_and_replicas_can_be_scaled() {
    // CT-7.1, CT-10.2
    let replicas = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let mut selected = replicas.clone();
    selected["labelSelectorPath"] = json!(".status.selector");
    for (what, version) in versions() {
        let kind = what.split(' ').next().unwrap();
        let scale = version["subresources"].get("scale");
        match kind {
            "MachineDeployment" | "MachineSet" | "EmbeddedControlPlane" => {
                assert_eq!(scale, Some(&selected), "{what}");
            }
            "MachinePool" => assert_eq!(scale, Some(&replicas), "{what}"),
            _ => assert_eq!(scale, None, "{what}"),
        }
        let has_status = version["schema"]["openAPIV3Schema"]["properties"].get("status").is_some();
        assert_eq!(version["subresources"].get("status").is_some(), has_status, "{what}");
        // The capacity of a machine is known before it exists (CT-9.4).
        assert_eq!(has_status, !kind.ends_with("Template") || kind == "EmbeddedMachineTemplate", "{what}");
    }
}

#[test]
fn paths_of_the_provider_contract_exist() {
    // CT-5.4
    let all: std::collections::BTreeMap<_, _> = versions().into_iter().collect();
    for (kind, paths) in [
        (
            "EmbeddedCluster",
            "spec.controlPlaneEndpoint.host spec.controlPlaneEndpoint.port status.initialization.provisioned \
                 status.failureDomains[].name status.failureDomains[].controlPlane status.failureDomains[].attributes",
        ),
        (
            "EmbeddedMachine",
            "spec.providerID status.initialization.provisioned status.addresses[].type status.addresses[].address \
                 status.failureDomain",
        ),
        (
            "EmbeddedMachinePool",
            "spec.providerIDList[] status.initialization.provisioned status.replicas status.infrastructureMachineKind",
        ),
        ("EmbeddedConfig", "status.initialization.dataSecretCreated status.dataSecretName"),
        (
            "EmbeddedControlPlane",
            "spec.controlPlaneEndpoint.host spec.version spec.replicas spec.rollout.after \
                 spec.machineTemplate.metadata.labels spec.machineTemplate.metadata.annotations \
                 spec.machineTemplate.spec.infrastructureRef.apiGroup spec.machineTemplate.spec.infrastructureRef.kind \
                 spec.machineTemplate.spec.infrastructureRef.name spec.machineTemplate.spec.readinessGates[] \
                 spec.machineTemplate.spec.taints[] spec.machineTemplate.spec.deletion.nodeDrainTimeoutSeconds \
                 spec.machineTemplate.spec.deletion.nodeVolumeDetachTimeoutSeconds \
                 spec.machineTemplate.spec.deletion.nodeDeletionTimeoutSeconds \
                 status.initialization.controlPlaneInitialized status.version status.versions[].version \
                 status.versions[].replicas status.replicas status.readyReplicas status.upToDateReplicas \
                 status.availableReplicas status.selector status.externalManagedControlPlane",
        ),
        ("EmbeddedMachineTemplate", "spec.template.metadata.labels spec.template.spec status.capacity.*"),
        ("EmbeddedControlPlaneTemplate", "spec.template.spec.machineTemplate.metadata.labels"),
    ] {
        let schema = &all[&format!("{kind} \"v1beta1\"")]["schema"]["openAPIV3Schema"];
        for path in paths.split_whitespace() {
            assert!(at(schema, path).is_some(), "{kind} has no {path}");
        }
        let is_template = kind.ends_with("Template");
        assert!(is_template || at(schema, "status.conditions[].reason").is_some(), "{kind}");
    }
}

#[test]
fn paths_of_the_older_provider_contract_exist() {
    // CT-5.4, CT-6.7, CT-10.3
    let all: std::collections::BTreeMap<_, _> = versions().into_iter().collect();
    let failure =
        "status.failureReason status.failureMessage status.v1beta2.conditions[].reason status.conditions[].type";
    for (kind, paths) in [
        ("EmbeddedCluster", "spec.controlPlaneEndpoint.host status.ready status.failureDomains.*.controlPlane"),
        ("EmbeddedMachine", "spec.providerID status.ready status.addresses[].type status.failureDomain"),
        ("EmbeddedMachinePool", "spec.providerIDList[] status.ready status.replicas"),
        ("EmbeddedConfig", "status.ready status.dataSecretName"),
        (
            "EmbeddedControlPlane",
            "spec.version spec.replicas spec.machineTemplate.metadata.labels \
                 spec.machineTemplate.infrastructureRef.apiVersion spec.machineTemplate.infrastructureRef.namespace \
                 spec.machineTemplate.readinessGates[] spec.machineTemplate.nodeDrainTimeout \
                 spec.machineTemplate.nodeVolumeDetachTimeout spec.machineTemplate.nodeDeletionTimeout \
                 status.initialized status.ready status.version status.replicas status.readyReplicas \
                 status.updatedReplicas status.unavailableReplicas status.selector",
        ),
        ("EmbeddedControlPlaneTemplate", "spec.template.spec.machineTemplate.nodeDrainTimeout"),
    ] {
        let schema = &all[&format!("{kind} \"v1alpha1\"")]["schema"]["openAPIV3Schema"];
        let failure = if kind.ends_with("Template") { "" } else { failure };
        for path in paths.split_whitespace().chain(failure.split_whitespace()) {
            assert!(at(schema, path).is_some(), "{kind} has no {path}");
        }
        for path in
            ["status.initialization", "status.deprecated", "spec.machineTemplate.spec", "status.upToDateReplicas"]
        {
            assert!(at(schema, path).is_none(), "{kind} has {path}");
        }
    }
}

#[test]
fn printer_columns_show_what_the_schema_has() {
    // CONV-007, CONV-016, DEC-7
    for (what, version) in versions() {
        let schema = &version["schema"]["openAPIV3Schema"];
        for column in version["additionalPrinterColumns"].as_array().unwrap() {
            let path = column["jsonPath"].as_str().unwrap_or_default().trim_start_matches('.').to_owned();
            let path = path.split("[?").next().unwrap_or_default();
            assert!(path.starts_with("metadata.") || at(schema, path).is_some(), "{what} {column}");
        }
    }
}

#[test]
fn both_versions_are_served_one_is_stored_and_the_other_is_deprecated() {
    for kind in Kind::ALL {
        let definition = definition(kind);
        let versions = definition["spec"]["versions"].as_array().unwrap();
        let facts: Vec<_> = versions
            .iter()
            .map(|version| (&version["name"], &version["served"], &version["storage"], &version["deprecated"]))
            .collect();
        let (yes, no) = (&json!(true), &json!(false));
        let want = [(&json!("v1beta2"), yes, yes, &Value::Null), (&json!("v1beta1"), yes, no, yes)];
        assert_eq!(facts, want, "{kind:?}");
        let warning = versions[1]["deprecationWarning"].as_str().unwrap();
        assert!(warning.contains(kind.name()) && warning.len() <= 256, "{warning}");
    }
}

#[test]
fn every_kind_and_field_has_a_description_of_its_own() {
    let mut sentences: BTreeMap<String, String> = BTreeMap::new();
    for (what, version) in versions() {
        let kind = what.split_once(' ').unwrap().0;
        let schema = &version["schema"]["openAPIV3Schema"];
        walk(kind, schema, &mut |path, node| {
            if path.ends_with("[]") || path.ends_with(".*") {
                return;
            }
            if path == format!("{kind}.metadata") {
                assert_eq!(node.get("description"), None, "the API server rejects it");
                return;
            }
            let sentence = node["description"].as_str().unwrap_or_else(|| panic!("{what}: {path} has no description"));
            assert!(sentence.ends_with('.') && sentence.len() < 120, "{path}: {sentence}");
            let other = sentences.insert(path.to_owned(), sentence.to_owned());
            assert!(other.is_none_or(|other| other == sentence), "{path} differs between versions");
        });
    }
}

#[test]
fn every_description_describes_a_field() {
    let mut paths: BTreeSet<String> = BTreeSet::new();
    for (what, version) in versions() {
        let kind = what.split_once(' ').unwrap().0;
        walk(kind, &version["schema"]["openAPIV3Schema"], &mut |path, _| {
            paths.insert(path.replace("[]", "").replace(".*", ""));
        });
    }
    let unused = descriptions::ends_of_paths().filter(|end| !paths.iter().any(|path| descriptions::ends(path, end)));
    assert_eq!(unused.collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn schemas_that_objects_are_validated_with_have_no_descriptions() {
    for (kind, version) in [(Cluster, V1Beta2), (ClusterClass, V1Beta1), (Kind::Machine, V1Beta2)] {
        walk("", &schema(kind, version), &mut |path, node| {
            assert!(node.get("description").is_none(), "{kind:?} {path}");
        });
    }
}

#[test]
fn machines_and_those_that_make_them_have_their_fields() {
    // MA-1.1, MA-1.2, MA-1.3, MA-1.4, MA-1.5
    let machine = [
        "clusterName",
        "bootstrap.configRef",
        "bootstrap.dataSecretName",
        "infrastructureRef",
        "version",
        "providerID",
    ]
    .into_iter()
    .chain(["failureDomain", "minReadySeconds", "readinessGates[].conditionType", "readinessGates[].polarity"])
    .chain(["deletion.nodeDrainTimeoutSeconds", "deletion.nodeVolumeDetachTimeoutSeconds"])
    .chain(["deletion.nodeDeletionTimeoutSeconds"])
    .chain(["taints[].key", "taints[].value", "taints[].effect", "taints[].propagation"]);
    let machine_status =
        ["conditions", "initialization.infrastructureProvisioned", "initialization.bootstrapDataSecretCreated"]
            .into_iter()
            .chain([
                "nodeRef.name",
                "nodeInfo",
                "lastUpdated",
                "addresses",
                "failureDomain",
                "phase",
                "certificatesExpiryDate",
            ])
            .chain(["observedGeneration", "deletion.nodeDrainStartTime", "deletion.waitForNodeVolumeDetachStartTime"])
            .chain(["deletion.waitForPreDrainHookStartTime", "deletion.waitForPreTerminateHookStartTime"])
            .chain([
                "deprecated.v1beta1.conditions",
                "deprecated.v1beta1.failureReason",
                "deprecated.v1beta1.failureMessage",
            ]);
    let set = ["clusterName", "replicas", "selector", "template.metadata", "template.spec", "machineNaming.template"];
    let set = set.into_iter().chain(["deletion.order"]);
    let set_status = ["selector", "replicas", "readyReplicas", "availableReplicas", "upToDateReplicas", "versions"];
    let set_status = set_status.into_iter().chain(["observedGeneration", "conditions"]);
    let deployment = ["rollout.after", "rollout.strategy.type", "rollout.strategy.rollingUpdate.maxSurge", "paused"]
        .into_iter()
        .chain(["rollout.strategy.rollingUpdate.maxUnavailable", "remediation.maxInFlight"]);
    let cluster =
        ["paused", "controlPlaneEndpoint", "infrastructureRef", "controlPlaneRef", "topology", "availabilityGates"];
    let cluster_status =
        ["initialization.infrastructureProvisioned", "initialization.controlPlaneInitialized", "failureDomains"];
    let cluster_status = cluster_status.into_iter();
    let cluster_status = cluster_status.chain(["phase", "controlPlane", "workers", "conditions", "observedGeneration"]);
    for (kind, spec, status) in [
        ("Machine", machine.collect::<Vec<_>>(), machine_status.collect::<Vec<_>>()),
        ("MachineSet", set.clone().collect(), set_status.clone().collect()),
        ("MachineDeployment", set.chain(deployment).collect(), set_status.chain(["phase"]).collect()),
        ("Cluster", cluster.to_vec(), cluster_status.collect()),
    ] {
        let wanted = format!("{kind} \"v1beta2\"");
        let (_, version) = versions().into_iter().find(|(what, _)| *what == wanted).unwrap();
        let schema = &version["schema"]["openAPIV3Schema"];
        for (part, paths) in [("spec", spec), ("status", status)] {
            let missing: Vec<_> = paths.iter().filter(|path| at(schema, &format!("{part}.{path}")).is_none()).collect();
            assert!(missing.is_empty(), "{part} of a {kind} has no {missing:?}");
        }
    }
}
