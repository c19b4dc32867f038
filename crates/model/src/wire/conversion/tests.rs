//! Conversion rules one by one, and round trips without loss.

use proptest::prelude::*;

use super::*;
use crate::hub::{Cluster, ClusterClass, annotation};
use crate::wire::Decode;

/// The same object in both versions decodes to the same hub object.
fn same<T: Decode + PartialEq + std::fmt::Debug>(old: &Value, new: &Value) {
    let old = T::decode(WireVersion::V1Beta1, &old.to_string()).unwrap();
    assert_eq!(old, T::decode(WireVersion::V1Beta2, &new.to_string()).unwrap());
}

#[test]
fn a_v1beta1_cluster_reads_like_its_v1beta2_form() {
    // CONV-005, CONV-007, CONV-008, CONV-009, CONV-004
    same::<Cluster>(
        &json!({
            "metadata": {"name": "c", "namespace": "ns"},
            "spec": {
                "paused": true,
                "controlPlaneRef": {"apiVersion": "cp.example.com/v1", "kind": "Cp", "name": "x", "namespace": "ns"},
                "infrastructureRef": {"apiVersion": "v1", "kind": "Infra", "name": "y"},
                "topology": {
                    "class": "k", "classNamespace": "classes", "version": "v1.33.0",
                    "controlPlane": {"nodeDrainTimeout": "1m30s", "replicas": 3,
                        "machineHealthCheck": {"enable": true, "maxUnhealthy": "40%", "nodeStartupTimeout": "10m",
                            "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeout": "300s"}]}},
                    "workers": {"machineDeployments": [{"class": "w", "name": "md",
                        "strategy": {"type": "RollingUpdate", "remediation": {"maxInFlight": 1},
                            "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "0%", "deletePolicy": "Oldest"}},
                        "machineHealthCheck": {"unhealthyRange": "[1-2]",
                            "remediationTemplate": {"apiVersion": "r.example.com/v1", "kind": "RTemplate",
                                "name": "r"}}}],
                        "machinePools": [{"class": "p", "name": "mp", "nodeDeletionTimeout": "1h"}]},
                    "variables": [{"name": "v", "value": 1, "definitionFrom": "inline"}],
                },
            },
        }),
        &json!({
            "metadata": {"name": "c", "namespace": "ns"},
            "spec": {
                "paused": true,
                "controlPlaneRef": {"apiGroup": "cp.example.com", "kind": "Cp", "name": "x"},
                "infrastructureRef": {"kind": "Infra", "name": "y"},
                "topology": {
                    "classRef": {"name": "k", "namespace": "classes"}, "version": "v1.33.0",
                    "controlPlane": {"deletion": {"nodeDrainTimeoutSeconds": 90}, "replicas": 3,
                        "healthCheck": {"enabled": true,
                            "checks": {"nodeStartupTimeoutSeconds": 600,
                                "unhealthyNodeConditions": [{"type": "Ready", "status": "Unknown",
                                    "timeoutSeconds": 300}]},
                            "remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": "40%"}}}},
                    "workers": {"machineDeployments": [{"class": "w", "name": "md",
                        "rollout": {"strategy": {"type": "RollingUpdate",
                            "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "0%"}}},
                        "deletion": {"order": "Oldest"},
                        "healthCheck": {"remediation": {"maxInFlight": 1, "triggerIf": {"unhealthyInRange": "[1-2]"},
                            "templateRef": {"apiVersion": "r.example.com/v1", "kind": "RTemplate", "name": "r"}}}}],
                        "machinePools": [{"class": "p", "name": "mp",
                            "deletion": {"nodeDeletionTimeoutSeconds": 3600}}]},
                    "variables": [{"name": "v", "value": 1}],
                },
            },
        }),
    );
}

#[test]
fn a_v1beta1_class_reads_like_its_v1beta2_form() {
    // CONV-006, CONV-010, CONV-011, CONV-016
    let tref = |kind: &str| json!({"apiVersion": "x.example.com/v1", "kind": kind, "name": "t"});
    same::<ClusterClass>(
        &json!({
            "metadata": {"name": "k", "generation": 1},
            "spec": {
                "infrastructure": {"ref": tref("ITemplate")}, "infrastructureNamingStrategy": {"template": "i"},
                "controlPlane": {"ref": tref("CTemplate"), "machineInfrastructure": {"ref": tref("MTemplate")},
                    "namingStrategy": {"template": "c"}, "machineHealthCheck": {"maxUnhealthy": 1}},
                "workers": {"machineDeployments": [{"class": "w", "namingStrategy": {"template": "w"}, "template": {
                    "metadata": {"labels": {"a": "b"}}, "bootstrap": {"ref": tref("BTemplate")},
                    "infrastructure": {"ref": tref("MTemplate")}}}]},
                "variables": [{"name": "v", "required": true, "metadata": {"labels": {"x": "y"}},
                    "schema": {"openAPIV3Schema": {"type": "string"}}}],
                "patches": [{"name": "p", "external": {"generateExtension": "g", "validateExtension": "v"}}],
            },
            "status": {"observedGeneration": 1, "conditions": [{"type": "VariablesReady", "status": "False"}],
                "v1beta2": {"conditions": [{"type": "VariablesReady", "status": "True"}]}},
        }),
        &json!({
            "metadata": {"name": "k", "generation": 1},
            "spec": {
                "infrastructure": {"templateRef": tref("ITemplate"), "naming": {"template": "i"}},
                "controlPlane": {"templateRef": tref("CTemplate"),
                    "machineInfrastructure": {"templateRef": tref("MTemplate")},
                    "naming": {"template": "c"},
                    "healthCheck": {"remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": 1}}}},
                "workers": {"machineDeployments": [{"class": "w", "naming": {"template": "w"},
                    "metadata": {"labels": {"a": "b"}}, "bootstrap": {"templateRef": tref("BTemplate")},
                    "infrastructure": {"templateRef": tref("MTemplate")}}]},
                "variables": [{"name": "v", "required": true, "deprecatedV1Beta1Metadata": {"labels": {"x": "y"}},
                    "schema": {"openAPIV3Schema": {"type": "string"}}}],
                "patches": [{"name": "p", "external": {"generatePatchesExtension": "g",
                    "validateTopologyExtension": "v"}}],
            },
            "status": {"observedGeneration": 1, "conditions": [{"type": "VariablesReady", "status": "True"}]},
        }),
    );
}

#[test]
fn the_rollout_time_of_a_v1beta1_topology_reaches_every_part_without_one() {
    // DEC-21
    same::<Cluster>(
        &json!({"spec": {"topology": {"rolloutAfter": "2026-01-01T00:00:00Z",
            "controlPlane": null,
            "workers": {"machineDeployments": [{"name": "a", "rollout": null},
                {"name": "b", "rollout": {"after": "2025-01-01T00:00:00Z"}}]}}}}),
        &json!({"spec": {"topology": {"controlPlane": {"rollout": {"after": "2026-01-01T00:00:00Z"}},
            "workers": {"machineDeployments": [{"name": "a", "rollout": {"after": "2026-01-01T00:00:00Z"}},
                {"name": "b", "rollout": {"after": "2025-01-01T00:00:00Z"}}]}}}}),
    );
}

#[test]
fn fields_of_v1beta2_are_unknown_in_v1beta1() {
    same::<Cluster>(
        &json!({"spec": {"infrastructureRef": {"apiGroup": "g", "kind": "K"},
            "topology": {"classRef": {"name": "k"}, "version": "v1.33.0",
            "controlPlane": {"healthCheck": {"enabled": true}, "deletion": 5},
            "workers": {"machineDeployments": [{"name": "a", "rollout": {"strategy": 5}, "deletion": 5}],
                "machinePools": [{"name": "p", "strategy": 5, "machineHealthCheck": 5, "deletion": 5}]}}}}),
        &json!({"spec": {"infrastructureRef": {"kind": "K"}, "topology": {"version": "v1.33.0",
            "workers": {"machineDeployments": [{"name": "a"}], "machinePools": [{"name": "p"}]}}}}),
    );
    let tref = json!({"apiVersion": "x.example.com/v1", "kind": "XTemplate", "name": "t"});
    same::<ClusterClass>(
        &json!({"spec": {"infrastructure": {"templateRef": tref, "naming": 5},
            "controlPlane": {"templateRef": tref, "naming": 5},
            "workers": {"machineDeployments": [{"class": "w", "bootstrap": {"templateRef": tref}, "metadata": 5,
                "template": {}}]},
            "patches": [{"name": "p", "external": {"generatePatchesExtension": "g"}}]}}),
        &json!({"spec": {"workers": {"machineDeployments": [{"class": "w"}]},
            "patches": [{"name": "p", "external": {}}]}}),
    );
}

#[test]
fn a_wrong_type_is_reported_wherever_it_stands() {
    // ADM-003
    for spec in [
        json!({"topology": {"controlPlane": {"machineHealthCheck": 5}}}),
        json!({"topology": {"controlPlane": {"machineHealthCheck": []}}}),
        json!({"topology": {"workers": {"machineDeployments": [{"strategy": "x"}]}}}),
        json!({"topology": {"workers": {"machineDeployments": [{"strategy": {"remediation": 5}}]}}}),
        json!({"infrastructureRef": {"apiVersion": 5}}),
        json!({"infrastructureRef": {"namespace": 5}}),
    ] {
        assert!(Cluster::decode(WireVersion::V1Beta1, &json!({"spec": spec}).to_string()).is_err(), "{spec}");
    }
    for spec in [
        json!({"workers": {"machinePools": [{"template": 5}]}}),
        json!({"infrastructure": {"ref": {"uid": 5}}}),
        json!({"workers": {"machineDeployments": [{"template": {"bootstrap": {"ref": {"namespace": []}}}}]}}),
    ] {
        assert!(ClusterClass::decode(WireVersion::V1Beta1, &json!({"spec": spec}).to_string()).is_err(), "{spec}");
    }
}

#[test]
fn values_that_cannot_be_converted_are_named() {
    for (spec, want) in [
        (
            json!({"topology": {"controlPlane": {"nodeDrainTimeout": "soon"}}}),
            r#"spec.topology.controlPlane.nodeDrainTimeout: "soon" is not a duration such as 5m30s"#,
        ),
        (
            json!({"infrastructureRef": {"apiVersion": "a/b/c"}}),
            r#"spec.infrastructureRef.apiVersion: "a/b/c" has more than one "/""#,
        ),
        (
            json!({"topology": {"class": 5}}),
            "spec.topology.classRef.name: invalid type: integer `5`, expected a string; write it in quotes",
        ),
    ] {
        let text = json!({"spec": spec}).to_string();
        assert_eq!(Cluster::decode(WireVersion::V1Beta1, &text).unwrap_err(), want);
    }
}

#[test]
fn fields_that_only_v1beta2_can_omit_read_the_same() {
    // CONV-001, CONV-002, CONV-003, CONV-012, CONV-014, CONV-015
    let read = |spec: Value| {
        let object = json!({"metadata": {"name": "c", "labels": {"a": "b"}}, "spec": spec});
        let cluster = Cluster::decode(WireVersion::V1Beta1, &object.to_string()).unwrap();
        assert_eq!((&*cluster.metadata.name, cluster.metadata.labels.get("a")), ("c", Some("b")));
        cluster.spec
    };
    let paused = |spec: Value| read(spec).paused.unwrap_or_default();
    assert_eq!(
        (paused(json!({})), paused(json!({"paused": false})), paused(json!({"paused": true}))),
        (false, false, true)
    );
    assert!(!read(json!({"topology": {}})).topology.is_defined());
    assert_eq!(
        read(json!({"clusterNetwork": {"pods": {}}})).cluster_network,
        read(json!({"clusterNetwork": {}})).cluster_network
    );
    let value = read(json!({"topology": {"variables": [{"name": "v", "value": 1, "definitionFrom": "patch"}]}}));
    assert_eq!(value.topology.variables.len(), 1);
    let domain = |text: Value| {
        let deployment = json!({"class": "a", "name": "b", "failureDomain": text});
        read(json!({"topology": {"workers": {"machineDeployments": [deployment]}}})).topology.workers
    };
    assert_eq!(domain(json!("")), domain(Value::Null));
    let class = json!({"metadata": {"name": "c"},
        "spec": {"variables": [{"name": "v", "schema": {}}], "patches": [{"name": "p"}]}});
    let class = ClusterClass::decode(WireVersion::V1Beta1, &class.to_string()).unwrap();
    assert!(!class.spec.variables[0].required);
    assert!(!class.spec.patches[0].definitions.is_present());
}

/// An object with the members of every object.
fn object(kind: Kind, version: WireVersion, spec: &Value, status: &Value) -> Value {
    let api_version = format!("{GROUP}/{version}");
    let mut object = json!({
        "apiVersion": api_version, "kind": kind.name(),
        "metadata": {"name": "x", "namespace": "ns", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    });
    for (name, part) in [("spec", spec), ("status", status)] {
        if !part.is_null() {
            object[name] = part.clone();
        }
    }
    object
}

/// Converts with API version `v7` for all references.
fn converted(kind: Kind, object: &Value, to: WireVersion) -> Value {
    let versions = versions_needed(kind, object, to).into_iter().map(|kind| (kind, Ok("v7".to_owned()))).collect();
    let mut object = object.clone();
    convert(kind, &mut object, to, &versions).unwrap_or_else(|error| panic!("{error}: {object}"));
    object
}

fn up(kind: Kind, spec: &Value) -> Value {
    converted(kind, &object(kind, WireVersion::V1Beta1, spec, &Value::Null), WireVersion::V1Beta2)["spec"].clone()
}

fn down(kind: Kind, spec: &Value) -> Value {
    converted(kind, &object(kind, WireVersion::V1Beta2, spec, &Value::Null), WireVersion::V1Beta1)["spec"].clone()
}

#[test]
fn metadata_is_carried_over_but_for_the_annotation() {
    // CONV-001, CONV-013
    let new = object(Kind::Cluster, WireVersion::V1Beta2, &json!({"paused": false}), &json!({"phase": "Pending"}));
    let old = converted(Kind::Cluster, &new, WireVersion::V1Beta1);
    let text = old["metadata"]["annotations"][annotation::CONVERSION_DATA].as_str().unwrap();
    let mut whole = new.clone();
    whole.as_object_mut().unwrap().remove("metadata");
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), whole);
    let mut metadata = old["metadata"].clone();
    metadata["annotations"].as_object_mut().unwrap().remove(annotation::CONVERSION_DATA);
    assert_eq!(metadata, new["metadata"]);
    assert_eq!(converted(Kind::Cluster, &old, WireVersion::V1Beta2), new);
}

#[test]
fn a_malformed_conversion_annotation_is_ignored_and_removed() {
    // CONV-013
    for text in ["", "{", "5", "[]", "null", r#"{"spec":5}"#, r#"{"spec":{"paused":"no"}}"#] {
        let mut old = object(Kind::Cluster, WireVersion::V1Beta1, &json!({"paused": false}), &Value::Null);
        old["metadata"]["annotations"] = json!({annotation::CONVERSION_DATA: text});
        let new = converted(Kind::Cluster, &old, WireVersion::V1Beta2);
        assert_eq!(new["metadata"].get("annotations"), None, "{text}");
        assert_eq!(new.get("spec"), None, "{text}");
    }
}

#[test]
fn an_annotation_stays_within_what_the_api_server_stores() {
    // CONV-013: the essential data of a large object is preserved as well.
    let patch = |name: &str, text: &str| {
        json!({"name": name, "definitions": [{"selector": {"matchResources": {"controlPlane": false,
            "infrastructureCluster": true}},
            "jsonPatches": [{"op": "add", "path": "/x", "valueFrom": {"template": text}}]}]})
    };
    let patches: Vec<_> = (0..100).map(|i| patch(&format!("p{i}"), &"x".repeat(9_000))).collect();
    let new = object(
        Kind::ClusterClass,
        WireVersion::V1Beta2,
        &json!({"infrastructure": {"templateRef": {"name": "t"}}, "patches": patches}),
        &Value::Null,
    );
    let old = converted(Kind::ClusterClass, &new, WireVersion::V1Beta1);
    let kept = old["metadata"]["annotations"][annotation::CONVERSION_DATA].as_str().unwrap();
    assert!(kept.len() < 64 * 1024, "{}", kept.len());
    assert_eq!(converted(Kind::ClusterClass, &old, WireVersion::V1Beta2), new);

    let mut full = new.clone();
    full["metadata"]["annotations"] = json!({"mine": "x".repeat(256 * 1024 - 4)});
    let old = converted(Kind::ClusterClass, &full, WireVersion::V1Beta1);
    assert_eq!(old["metadata"], full["metadata"], "there is no room for anything");
}

#[test]
fn a_false_of_v1beta1_is_absent_unless_v1beta2_had_it() {
    // CONV-002
    assert_eq!(up(Kind::Cluster, &json!({"paused": false})), Value::Null);
    assert_eq!(up(Kind::Cluster, &json!({"paused": true})), json!({"paused": true}));
    let schema = |flag: bool| {
        json!({"type": "object", "uniqueItems": flag, "properties": {"uniqueItems": {"exclusiveMaximum": flag}},
            "items": {"exclusiveMinimum": flag}, "additionalProperties": {"x-kubernetes-preserve-unknown-fields": flag},
            "not": {"x-kubernetes-int-or-string": flag}, "allOf": [{}, {"uniqueItems": flag}],
            "default": {"uniqueItems": false}})
    };
    let class = |flag: bool| {
        let matched = json!({"controlPlane": flag, "infrastructureCluster": flag});
        json!({"variables": [{"name": "v", "required": flag, "schema": {"openAPIV3Schema": schema(flag)}}],
            "patches": [{"name": "p", "definitions": [{"selector": {"matchResources": matched}}]}]})
    };
    let without = up(Kind::ClusterClass, &class(false));
    assert_eq!(without["patches"][0]["definitions"][0]["selector"]["matchResources"], Value::Null);
    assert_eq!(
        without["variables"][0],
        json!({"name": "v", "required": false, "schema": {"openAPIV3Schema": {"type": "object",
            "properties": {"uniqueItems": {}}, "items": {}, "additionalProperties": {}, "not": {}, "allOf": [{}, {}],
            "default": {"uniqueItems": false}}}})
    );
    assert_eq!(up(Kind::ClusterClass, &class(true)), class(true));

    // A typed client omits false, changes a field, and reorders variables.
    let status = json!({"variables": [{"name": "v", "definitionsConflict": false, "definitions": [
        {"from": "a", "required": false, "schema": {"openAPIV3Schema": schema(false)}},
        {"from": "b", "required": false, "schema": {"openAPIV3Schema": {"uniqueItems": false}}}]}]});
    let mut new = object(Kind::ClusterClass, WireVersion::V1Beta2, &class(false), &status);
    new["spec"]["variables"]
        .as_array_mut()
        .unwrap()
        .insert(0, json!({"name": "first", "required": true, "schema": {"openAPIV3Schema": {}}}));
    let mut old = converted(Kind::ClusterClass, &new, WireVersion::V1Beta1);
    forget_false(&mut old["spec"]);
    forget_false(&mut old["status"]);
    old["spec"]["variables"].as_array_mut().unwrap().rotate_left(1);
    old["status"]["variables"][0]["definitions"].as_array_mut().unwrap().rotate_left(1);
    let mut want = new.clone();
    want["spec"]["variables"].as_array_mut().unwrap().rotate_left(1);
    want["status"]["variables"][0]["definitions"].as_array_mut().unwrap().rotate_left(1);
    // The default of a schema belongs to the client.
    for schema in
        ["/spec/variables/0/schema/openAPIV3Schema", "/status/variables/0/definitions/1/schema/openAPIV3Schema"]
    {
        want.pointer_mut(schema).unwrap()["default"] = json!({});
    }
    let mut got = converted(Kind::ClusterClass, &old, WireVersion::V1Beta2);
    for class in [&mut got, &mut want] {
        class["spec"].as_object_mut().unwrap().remove("infrastructure");
        omitted_fields::remove_empty("ClusterClass", class);
    }
    assert_eq!(got, want);

    let mut old = converted(
        Kind::Cluster,
        &object(
            Kind::Cluster,
            WireVersion::V1Beta2,
            &json!({"paused": false}),
            &json!({"initialization": {"controlPlaneInitialized": false}}),
        ),
        WireVersion::V1Beta1,
    );
    assert_eq!(old["status"], json!({"controlPlaneReady": false}));
    old["status"] = json!({"controlPlaneReady": false, "infrastructureReady": false, "phase": "Pending"});
    old["spec"] = json!({"topology": {"class": "c"}});
    let new = converted(Kind::Cluster, &old, WireVersion::V1Beta2);
    assert_eq!(new["spec"], json!({"paused": false, "topology": {"classRef": {"name": "c"}}}));
    assert_eq!(new["status"], json!({"initialization": {"controlPlaneInitialized": false}, "phase": "Pending"}));
}

fn forget_false(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| *member != json!(false));
            members.values_mut().for_each(forget_false);
        }
        Value::Array(entries) => entries.iter_mut().for_each(forget_false),
        _ => {}
    }
}

#[test]
fn booleans_of_definitions_and_domains_are_always_written() {
    // CONV-003, CONV-016
    let status = json!({"failureDomains": {"b": {"attributes": {"x": "y"}}, "a": {"controlPlane": true}, "c": null}});
    let old = object(Kind::Cluster, WireVersion::V1Beta1, &Value::Null, &status);
    let new = converted(Kind::Cluster, &old, WireVersion::V1Beta2);
    let want = json!([{"name": "a", "controlPlane": true},
        {"name": "b", "controlPlane": false, "attributes": {"x": "y"}},
        {"name": "c", "controlPlane": false}]);
    assert_eq!(new["status"]["failureDomains"], want);
    let want = json!({"a": {"controlPlane": true}, "b": {"controlPlane": false, "attributes": {"x": "y"}},
        "c": {"controlPlane": false}});
    assert_eq!(converted(Kind::Cluster, &new, WireVersion::V1Beta1)["status"]["failureDomains"], want);
    let variables = json!({"variables": [{"name": "v"}]});
    let want = json!({"variables": [{"name": "v", "required": false}]});
    assert_eq!(up(Kind::ClusterClass, &variables), want);
    assert_eq!(down(Kind::ClusterClass, &variables), want);
}

#[test]
fn durations_become_whole_seconds_and_durations_again() {
    // CONV-004: only the fraction and the notation are lost.
    let part = |timeout: &str| json!({"topology": {"controlPlane": {"nodeDrainTimeout": timeout}}});
    for (old, seconds, back) in
        [("300s", 300, "5m0s"), ("500ms", 0, "0s"), ("-1.9s", -1, "-1s"), ("1000000h", i32::MAX, "596523h14m7s")]
    {
        let new = up(Kind::Cluster, &part(old));
        assert_eq!(new, json!({"topology": {"controlPlane": {"deletion": {"nodeDrainTimeoutSeconds": seconds}}}}));
        assert_eq!(down(Kind::Cluster, &new), part(back));
    }
    let check =
        json!({"topology": {"controlPlane": {"machineHealthCheck": {"unhealthyConditions": [{"type": "Ready"}]}}}});
    let want = json!({"topology": {"controlPlane": {"healthCheck": {"checks": {"unhealthyNodeConditions": [{"type": "Ready", "timeoutSeconds": 0}]}}}}});
    assert_eq!(up(Kind::Cluster, &check), want);
    let mut without = want.clone();
    without
        .pointer_mut("/topology/controlPlane/healthCheck/checks/unhealthyNodeConditions/0")
        .unwrap()
        .as_object_mut()
        .unwrap()
        .remove("timeoutSeconds");
    let back = down(Kind::Cluster, &without);
    assert_eq!(
        back.pointer("/topology/controlPlane/machineHealthCheck/unhealthyConditions/0/timeout"),
        Some(&json!("0s"))
    );
}

#[test]
fn contract_references_lose_their_namespace_and_get_a_version() {
    // CONV-005, CT-4.4
    let full = json!({"apiVersion": "a.example.com/v1", "kind": "A", "name": "a", "namespace": "other", "uid": "u",
        "resourceVersion": "1", "fieldPath": "f"});
    let new =
        up(Kind::Cluster, &json!({"controlPlaneRef": full, "infrastructureRef": {"apiVersion": "v1", "kind": "B"}}));
    let want = json!({"controlPlaneRef": {"apiGroup": "a.example.com", "kind": "A", "name": "a"},
        "infrastructureRef": {"kind": "B"}});
    assert_eq!(new, want);
    let back = down(Kind::Cluster, &new);
    let want = json!({"controlPlaneRef": {"apiVersion": "a.example.com/v7", "kind": "A", "name": "a",
        "namespace": "ns"},
        "infrastructureRef": {"kind": "B", "namespace": "ns"}});
    assert_eq!(back, want);
    for undefined in [json!({}), json!({"namespace": "x"}), json!({"apiVersion": "", "name": ""})] {
        assert_eq!(up(Kind::Cluster, &json!({ "controlPlaneRef": undefined })), Value::Null);
    }
    assert_eq!(down(Kind::Cluster, &json!({"controlPlaneRef": {"apiGroup": "", "kind": ""}})), json!({}));
}

#[test]
fn an_unknown_version_and_an_impossible_group_fail_the_conversion() {
    // CONV-005
    let spec = json!({"infrastructureRef": {"apiGroup": "a.example.com", "kind": "A", "name": "a"}});
    let new = object(Kind::Cluster, WireVersion::V1Beta2, &spec, &Value::Null);
    let needed = versions_needed(Kind::Cluster, &new, WireVersion::V1Beta1);
    assert_eq!(needed, [("a.example.com".to_owned(), "A".to_owned())]);
    assert_eq!(versions_needed(Kind::Cluster, &new, WireVersion::V1Beta2), []);
    let unknown = UnknownKindVersion::NoDefinition { definition: "as.a.example.com".to_owned() };
    let versions = needed.into_iter().map(|kind| (kind, Err(unknown.clone()))).collect();
    let error = convert(Kind::Cluster, &mut new.clone(), WireVersion::V1Beta1, &versions).unwrap_err();
    let want = "spec.infrastructureRef: the API version of A.a.example.com is not known: \
                CustomResourceDefinition as.a.example.com does not exist";
    assert_eq!(error.to_string(), want);
    let mut old =
        object(Kind::Cluster, WireVersion::V1Beta1, &json!({"controlPlaneRef": {"apiVersion": "a/b/c"}}), &Value::Null);
    let error = convert(Kind::Cluster, &mut old, WireVersion::V1Beta2, &KindVersions::new()).unwrap_err();
    assert_eq!(error.to_string(), "spec.controlPlaneRef.apiVersion: \"a/b/c\" has more than one \"/\"");
}

#[test]
fn template_references_lose_their_namespace_and_get_that_of_the_class() {
    // CONV-006
    let full = json!({"apiVersion": "a.example.com/v1", "kind": "A", "name": "a", "namespace": "other", "uid": "u"});
    let new = up(
        Kind::ClusterClass,
        &json!({"infrastructure": {"ref": full}, "controlPlane": {"ref": {"namespace": "x"},
        "machineInfrastructure": {"ref": {}}}}),
    );
    let reference = json!({"apiVersion": "a.example.com/v1", "kind": "A", "name": "a"});
    assert_eq!(new, json!({"infrastructure": {"templateRef": reference}}));
    let worker = json!({"machineDeployments": [{"class": "w"}]});
    let check = json!({"remediation": {"templateRef": reference}});
    let back = down(
        Kind::ClusterClass,
        &json!({"infrastructure": {"templateRef": reference},
        "controlPlane": {"machineInfrastructure": {"templateRef": {"name": ""}}, "healthCheck": check},
        "workers": worker}),
    );
    let placed = json!({"apiVersion": "a.example.com/v1", "kind": "A", "name": "a", "namespace": "ns"});
    let empty = json!({"ref": {"namespace": "ns"}});
    let want = json!({"infrastructure": {"ref": placed},
        "controlPlane": {"ref": {"namespace": "ns"}, "machineHealthCheck": {"remediationTemplate": placed}},
        "workers": {"machineDeployments": [{"class": "w",
            "template": {"bootstrap": empty, "infrastructure": empty}}]}});
    assert_eq!(back, want);
}

#[test]
fn strategies_are_created_as_soon_as_one_of_their_parts_is_set() {
    // CONV-008, CONV-009
    let worker = |parts: Value| json!({"topology": {"workers": {"machineDeployments": [parts]}}});
    for (old, new) in [
        (
            json!({"strategy": {"remediation": {"maxInFlight": 1}}}),
            json!({"healthCheck": {"remediation": {"maxInFlight": 1}}}),
        ),
        (json!({"strategy": {"rollingUpdate": {"deletePolicy": "Oldest"}}}), json!({"deletion": {"order": "Oldest"}})),
        (json!({"strategy": {"type": "OnDelete"}}), json!({"rollout": {"strategy": {"type": "OnDelete"}}})),
        (
            json!({"rollout": {"after": "t"}, "strategy": {"rollingUpdate": {"maxSurge": "1%"}}}),
            json!({"rollout": {"after": "t", "strategy": {"rollingUpdate": {"maxSurge": "1%"}}}}),
        ),
        (json!({"machineHealthCheck": {"enable": false}}), json!({"healthCheck": {"enabled": false}})),
    ] {
        assert_eq!(up(Kind::Cluster, &worker(old.clone())), worker(new.clone()));
        assert_eq!(down(Kind::Cluster, &worker(new)), worker(old));
    }
    for empty in [
        json!({"strategy": {}}),
        json!({"strategy": {"rollingUpdate": {}, "remediation": null}}),
        json!({"machineHealthCheck": {}}),
    ] {
        assert_eq!(up(Kind::Cluster, &worker(empty)), worker(json!({})));
    }
}

#[test]
fn conversion_to_v1beta2_drops_definition_from_and_moves_rollout_after() {
    // CONV-012, DEC-21
    let value = |from: bool| {
        if from {
            json!({"name": "v", "value": {"definitionFrom": 1}, "definitionFrom": "inline"})
        } else {
            json!({"name": "v", "value": {"definitionFrom": 1}})
        }
    };
    let topology = |from: bool, more: Value| {
        let mut topology = json!({"class": "c", "variables": [value(from)],
            "controlPlane": {"variables": {"overrides": [value(from)]}, "rollout": {"after": "own"}},
            "workers": {"machineDeployments": [{"variables": {"overrides": [value(from)]}},
                {"rollout": {"after": "own"}}],
                "machinePools": [{"variables": {"overrides": [value(from)]}}]}});
        topology.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "topology": topology })
    };
    let new = up(Kind::Cluster, &topology(true, json!({"rolloutAfter": "all"})));
    let mut want = topology(false, json!({"classRef": {"name": "c"}}));
    want["topology"].as_object_mut().unwrap().remove("class");
    want["topology"]["workers"]["machineDeployments"][0]["rollout"] = json!({"after": "all"});
    assert_eq!(new, want);
}

#[test]
fn empty_values_are_absent() {
    // CONV-010, CONV-014, CONV-015
    let empty = json!({"clusterNetwork": {"pods": {}, "apiServerPort": 0, "serviceDomain": ""},
        "controlPlaneEndpoint": {"host": "", "port": 0},
        "topology": {"class": "c", "controlPlane": {"metadata": {}, "variables": {}}, "variables": [],
            "workers": {"machineDeployments": [{"failureDomain": "", "metadata": {}}], "machinePools": []}}});
    let want = json!({"topology": {"classRef": {"name": "c"}, "workers": {"machineDeployments": [{}]}}});
    assert_eq!(up(Kind::Cluster, &empty), want);
    assert_eq!(up(Kind::Cluster, &json!({"topology": {"workers": {"machinePools": []}}})), Value::Null);
    // Zeros that have a meaning stay, and so does everything inside of a value.
    let kept = json!({"topology": {"controlPlane": {"replicas": 0},
        "variables": [{"name": "v", "value": {"a": "", "b": []}}]}});
    assert_eq!(up(Kind::Cluster, &kept), kept);
    let status =
        json!({"observedGeneration": 0, "failureDomains": {}, "conditions": [], "v1beta2": {"conditions": []}});
    let old = object(Kind::Cluster, WireVersion::V1Beta1, &json!({"paused": true}), &status);
    let deprecated = json!({"deprecated": {"v1beta1": {}}});
    assert_eq!(converted(Kind::Cluster, &old, WireVersion::V1Beta2)["status"], deprecated);
    assert_eq!(
        down(Kind::Cluster, &json!({"clusterNetwork": {"services": {}}, "topology": {"controlPlane": {}}})),
        json!({})
    );
    let class = json!({"infrastructureNamingStrategy": {"template": ""}, "controlPlane": {"namingStrategy": {}},
        "patches": [{"name": "p", "enabledIf": "", "definitions": []}, {"name": "q"}]});
    // PAT-005: a patch with an empty list of definitions differs from one without.
    let want = json!({"patches": [{"name": "p", "definitions": []}, {"name": "q"}]});
    assert_eq!(up(Kind::ClusterClass, &class), want);
}

#[test]
fn conditions_of_a_status_are_converted() {
    // CONV-016
    let old = json!({"conditions": [1], "failureReason": "r", "failureMessage": "m", "controlPlaneReady": true,
        "infrastructureReady": true,
        "v1beta2": {"conditions": [2], "controlPlane": {"replicas": 1}, "workers": {"replicas": 2}},
        "observedGeneration": 3});
    let new = json!({"conditions": [2], "controlPlane": {"replicas": 1}, "workers": {"replicas": 2},
        "observedGeneration": 3,
        "deprecated": {"v1beta1": {"conditions": [1], "failureReason": "r", "failureMessage": "m"}},
        "initialization": {"controlPlaneInitialized": true, "infrastructureProvisioned": true}});
    let object = |version, status| object(Kind::Cluster, version, &Value::Null, status);
    assert_eq!(converted(Kind::Cluster, &object(WireVersion::V1Beta1, &old), WireVersion::V1Beta2)["status"], new);
    assert_eq!(converted(Kind::Cluster, &object(WireVersion::V1Beta2, &new), WireVersion::V1Beta1)["status"], old);
}

#[test]
fn unknown_fields_at_paths_that_do_not_move_survive() {
    let spec = json!({"x": 1, "clusterNetwork": {"x": 1},
        "topology": {"x": 1, "workers": {"x": [null, 1.5], "machineDeployments": [{"x": {"y": "z"}}]}}});
    let mut cluster = object(Kind::Cluster, WireVersion::V1Beta1, &spec, &json!({"x": 1}));
    cluster["x"] = json!("y");
    let there = converted(Kind::Cluster, &cluster, WireVersion::V1Beta2);
    assert_eq!((&there["spec"], &there["status"], &there["x"]), (&cluster["spec"], &cluster["status"], &cluster["x"]));
    let back = converted(Kind::Cluster, &there, WireVersion::V1Beta1);
    assert_eq!((&back["spec"], &back["status"], &back["x"]), (&cluster["spec"], &cluster["status"], &cluster["x"]));
}

#[test]
fn a_version_that_an_object_has_already_changes_nothing() {
    for (version, name) in [(WireVersion::V1Beta1, "v1beta1"), (WireVersion::V1Beta2, "v1beta2")] {
        let mut same = json!({"apiVersion": format!("{GROUP}/{name}"), "metadata": {}, "spec": {"paused": false}});
        let before = same.clone();
        convert(Kind::Cluster, &mut same, version, &KindVersions::new()).unwrap();
        assert_eq!(same, before);
    }
    for wrong in
        [json!(5), json!([]), json!({}), json!({"apiVersion": "v1"}), json!({"apiVersion": "example.com/v1beta2"})]
    {
        let error = convert(Kind::Cluster, &mut wrong.clone(), WireVersion::V1Beta2, &KindVersions::new()).unwrap_err();
        assert_eq!(error, ConversionError::NotOurs, "{wrong}");
    }
}

/// Objects generated from the CRD schemas.
mod shaped {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::sample::select;

    use super::*;
    use crate::crd;
    use schema::field::Findings;

    const TEXTS: [&str; 14] = [
        "a",
        "b-c",
        "a.b",
        "Ready",
        "x.example.com/v1",
        "[1-2]",
        "True",
        "2026-01-01T00:00:00Z",
        "$x",
        "A B",
        "Oldest",
        "example.com/Type",
        "Z_z",
        "",
    ];

    /// A value that a schema accepts; `name` is its field name.
    fn value(name: &str, schema: &Value) -> BoxedStrategy<Value> {
        let is = |keyword: &str| schema[keyword] == true;
        if name.ends_with("imeout") && schema["type"] == "string" {
            return select(vec!["0s", "10s", "5m0s", "300s", "1h30m", "500ms"]).prop_map(Value::from).boxed();
        }
        if name == "apiVersion" && schema.get("pattern").is_none() {
            return select(vec!["", "v1", "x.example.com/v1"]).prop_map(Value::from).boxed();
        }
        if let Some(values) = schema["enum"].as_array() {
            return select(values.clone()).boxed();
        }
        if is("x-kubernetes-int-or-string") {
            return prop_oneof![Just(json!(1)), Just(json!("40%"))].boxed();
        }
        if is("x-kubernetes-preserve-unknown-fields") {
            return free(name);
        }
        match schema["type"].as_str().unwrap() {
            "object" => members(schema),
            "array" => list(name, schema),
            "string" if schema["format"] == "date-time" => Just(json!("2026-01-01T00:00:00Z")).boxed(),
            "string" => text(schema),
            "integer" => {
                let bound = |keyword: &str, otherwise| schema[keyword].as_i64().unwrap_or(otherwise);
                (bound("minimum", -3)..=bound("maximum", 1_000_000)).prop_map(Value::from).boxed()
            }
            "boolean" => any::<bool>().prop_map(Value::from).boxed(),
            other => panic!("{other}"),
        }
    }

    fn text(schema: &Value) -> BoxedStrategy<Value> {
        let pattern = regex::Regex::new(schema["pattern"].as_str().unwrap_or("")).unwrap();
        let least = schema["minLength"].as_u64().unwrap_or(0);
        // The one CEL rule of the schemas.
        let is_free = |text: &str| schema.get("x-kubernetes-validations").is_none() || text != "Ready";
        let fit = |text: &&str| pattern.is_match(text) && text.len() as u64 >= least && is_free(text);
        select(TEXTS.into_iter().filter(fit).collect::<Vec<_>>()).prop_map(Value::from).boxed()
    }

    fn members(schema: &Value) -> BoxedStrategy<Value> {
        if let Some(values) = schema.get("additionalProperties") {
            let entries = vec((select(vec!["a", "b", "c"]), value("", values)), 0..3);
            return entries.prop_map(|entries| entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()).boxed();
        }
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let fields = schema["properties"].as_object().into_iter().flatten();
        let mut all = Vec::new();
        for (name, field) in fields {
            let (key, value) = (name.clone(), value(name, field));
            let value = match required.contains(&json!(name)) {
                true => value.prop_map(Some).boxed(),
                false => option::weighted(0.4, value).boxed(),
            };
            all.push(value.prop_map(move |value| value.map(|value| (key.clone(), value))).boxed());
        }
        let least = schema["minProperties"].as_u64().unwrap_or(0);
        all.prop_map(|members| Value::Object(members.into_iter().flatten().collect()))
            .prop_filter("it must not be empty", move |value| value.as_object().unwrap().len() as u64 >= least)
            .boxed()
    }

    fn list(name: &str, schema: &Value) -> BoxedStrategy<Value> {
        let least = usize::try_from(schema["minItems"].as_u64().unwrap_or(0)).unwrap();
        let keys: Vec<String> = schema["x-kubernetes-list-map-keys"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|key| key.as_str().unwrap().to_owned())
            .collect();
        vec(value(name, &schema["items"]), least..=least.max(2))
            .prop_map(move |mut entries| {
                let mut seen = std::collections::BTreeSet::new();
                let of = |entry: &Value| keys.iter().map(|key| entry[key].to_string()).collect::<Vec<_>>();
                entries.retain(|entry| keys.is_empty() || seen.insert(of(entry)));
                Value::Array(entries)
            })
            .boxed()
    }

    /// Values of schemaless fields.
    fn free(name: &str) -> BoxedStrategy<Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u32>().prop_map(|n| json!(f64::from(n) / 8.0)),
            select(TEXTS.to_vec()).prop_map(Value::from),
            Just(json!({"paused": false, "ref": {}, "nodeDrainTimeout": "300s"})),
        ];
        match name {
            "properties" => vec((select(vec!["a", "uniqueItems"]), node()), 0..3)
                .prop_map(|entries| entries.into_iter().map(|(name, node)| (name.to_owned(), node)).collect())
                .boxed(),
            "items" | "additionalProperties" | "not" => node(),
            "allOf" | "oneOf" | "anyOf" => vec(node(), 0..3).prop_map(Value::from).boxed(),
            _ => leaf.boxed(),
        }
    }

    fn node() -> BoxedStrategy<Value> {
        let leaf = (any::<bool>(), any::<Option<bool>>()).prop_map(|(default, unique)| {
            let mut node = json!({"type": "boolean", "default": default});
            if let Some(unique) = unique {
                node["uniqueItems"] = json!(unique);
            }
            node
        });
        leaf.prop_recursive(3, 8, 2, |inner| {
            prop_oneof![
                inner.clone().prop_map(|node| json!({"items": node, "x-kubernetes-int-or-string": false})),
                inner.clone().prop_map(|node| json!({"properties": {"not": node}})),
                vec(inner, 0..2).prop_map(|nodes| json!({"anyOf": nodes})),
            ]
        })
        .boxed()
    }

    fn shaped(kind: Kind, version: WireVersion) -> BoxedStrategy<Value> {
        let schema = crd::schema(kind, version.schema_version());
        let parts = (value("", &schema["properties"]["spec"]), option::of(value("", &schema["properties"]["status"])));
        parts.prop_map(move |(spec, status)| object(kind, version, &spec, &status.unwrap_or_default())).boxed()
    }

    fn any_shaped(version: WireVersion) -> impl Strategy<Value = (Kind, Value)> {
        select(Kind::ALL.to_vec()).prop_flat_map(move |kind| shaped(kind, version).prop_map(move |value| (kind, value)))
    }

    /// A v1beta1 object without parts that v1beta2 lacks, and without values that are meaningless in v1beta1.
    fn normal(name: &str, value: Value) -> Value {
        const FLAGS: [&str; 12] = [
            "paused",
            "controlPlane",
            "infrastructureCluster",
            "uniqueItems",
            "exclusiveMaximum",
            "exclusiveMinimum",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-int-or-string",
            "definitionsConflict",
            "controlPlaneReady",
            "infrastructureReady",
            "required",
        ];
        const ANYTHING: [&str; 4] = ["value", "default", "example", "enum"];
        const NUMBERS: [&str; 3] = ["apiServerPort", "port", "observedGeneration"];
        match value {
            value if ANYTHING.contains(&name) => value,
            Value::Object(members) => {
                let is_reference =
                    ["ref", "remediationTemplate", "controlPlaneRef", "infrastructureRef"].contains(&name);
                let kept = members.into_iter().filter(|(key, _)| {
                    let place = ["namespace", "uid", "resourceVersion", "fieldPath"].contains(&&**key);
                    !(is_reference && place) && key != "definitionFrom"
                });
                let kept = kept.map(|(key, member)| {
                    let member = match (&*key, name, member.as_str()) {
                        ("apiVersion", "controlPlaneRef" | "infrastructureRef", Some(text)) => {
                            json!(text.split_once('/').map_or("", |(group, _)| group))
                        }
                        _ => normal(&key, member),
                    };
                    (key, member)
                });
                let is_nothing = |key: &str, member: &Value| match member {
                    Value::Bool(false) => FLAGS.contains(&key),
                    Value::String(text) => text.is_empty(),
                    Value::Object(members) => members.is_empty(),
                    Value::Array(entries) => entries.is_empty(),
                    Value::Number(number) => NUMBERS.contains(&key) && number.as_i64() == Some(0),
                    _ => false,
                };
                Value::Object(kept.filter(|(key, member)| !is_nothing(key, member)).collect())
            }
            Value::Array(entries) => entries.into_iter().map(|entry| normal("", entry)).collect(),
            Value::String(text) if name.ends_with("imeout") => {
                let seconds = golang::calendar::whole_seconds(&text).unwrap();
                json!(golang::calendar::format_seconds(seconds.into()))
            }
            other => other,
        }
    }

    fn without_annotation(mut object: Value) -> Value {
        object["metadata"]["annotations"].as_object_mut().unwrap().remove(annotation::CONVERSION_DATA);
        object
    }

    proptest! {
        #![proptest_config(testing::cases(48))]

        #[test]
        fn v1beta2_round_trips_exactly((kind, new) in any_shaped(WireVersion::V1Beta2)) {
            let old = converted(kind, &new, WireVersion::V1Beta1);
            prop_assert_eq!(converted(kind, &old, WireVersion::V1Beta2), new);
        }

        #[test]
        fn v1beta2_round_trips_when_another_field_changed((kind, mut new) in any_shaped(WireVersion::V1Beta2)) {
            // Only an unchanged object preserves the order of failure domains.
            if let Some(status) = new.get_mut("status").and_then(Value::as_object_mut) {
                status.remove("failureDomains");
                status.remove("deprecated");
            }
            let mut old = converted(kind, &new, WireVersion::V1Beta1);
            old["changed"] = json!(true);
            let mut back = converted(kind, &old, WireVersion::V1Beta2);
            prop_assert_eq!(back.as_object_mut().unwrap().remove("changed"), Some(json!(true)));
            omitted_fields::remove_empty(kind.name(), &mut new);
            prop_assert_eq!(back, new);
        }

        #[test]
        fn converted_objects_are_valid_in_v1beta1((kind, new) in any_shaped(WireVersion::V1Beta2)) {
            let old = converted(kind, &new, WireVersion::V1Beta1);
            let mut found = Findings::default();
            let unknown = crd::check(kind, SchemaVersion::V1Beta1, &old, &mut found);
            prop_assert!(unknown.is_empty(), "{unknown:?}");
            let (errors, ..) = found.into_parts();
            prop_assert!(errors.is_empty(), "{errors:?}");
        }

        #[test]
        fn v1beta1_round_trips_except_fields_that_v1beta2_lacks((kind, mut old) in any_shaped(WireVersion::V1Beta1)) {
            // DEC-21
            if let Some(topology) = old.pointer_mut("/spec/topology").and_then(Value::as_object_mut) {
                topology.remove("rolloutAfter");
            }
            let new = converted(kind, &old, WireVersion::V1Beta2);
            let back = converted(kind, &new, WireVersion::V1Beta1);
            prop_assert_eq!(normal("", without_annotation(back.clone())), normal("", old));
            prop_assert_eq!(converted(kind, &back, WireVersion::V1Beta2), new);
        }
    }
}
