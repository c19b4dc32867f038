use super::EmbeddedVersion::{V1Alpha1, V1Beta1};
use super::*;
use crate::hub::annotation::CONVERSION_DATA;

fn object(kind: &str, version: EmbeddedVersion, spec: Value, status: Value) -> Value {
    let kind = EmbeddedKind::ALL.into_iter().find(|one| one.name == kind).unwrap();
    let mut object = json!({"apiVersion": format!("{}/{version}", kind.group), "kind": kind.name,
        "metadata": {"name": "one", "namespace": "ns"}, "spec": spec});
    if !status.is_null() {
        object["status"] = status;
    }
    object
}

fn to(version: EmbeddedVersion, object: &Value) -> Value {
    let mut object = object.clone();
    convert(EmbeddedKind::for_object(&object).unwrap(), &mut object, version, &KindVersions::new()).unwrap();
    object
}

fn has_annotation(object: &Value) -> bool {
    object["metadata"]["annotations"].get(CONVERSION_DATA).is_some()
}

/// Objects in both versions that convert without the annotation.
fn pairs() -> Vec<(Value, Value)> {
    let conditions = json!([{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2030-01-01T00:00:00Z"}]);
    let old_condition = json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}]);
    let pair = |kind: &str, old: [Value; 2], new: [Value; 2]| {
        let ([old_spec, old_status], [new_spec, new_status]) = (old, new);
        (object(kind, V1Alpha1, old_spec, old_status), object(kind, V1Beta1, new_spec, new_status))
    };
    let endpoint = json!({"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}});
    let old_reference = json!({"apiVersion": "infrastructure.topologist.dev/v1alpha1",
        "kind": "EmbeddedMachineTemplate",
        "name": "m", "namespace": "ns"});
    let new_reference = json!({"apiGroup": INFRASTRUCTURE, "kind": "EmbeddedMachineTemplate", "name": "m"});
    let metadata = json!({"labels": {"a": "b"}});
    vec![
        pair(
            "EmbeddedCluster",
            [
                endpoint.clone(),
                json!({"ready": true, "failureReason": "Quota", "failureMessage": "no quota",
                    "failureDomains": {"a": {"controlPlane": true},
                        "b": {"controlPlane": false, "attributes": {"c": "d"}}},
                    "conditions": old_condition, "v1beta2": {"conditions": conditions}}),
            ],
            [
                endpoint,
                json!({"initialization": {"provisioned": true},
                    "failureDomains": [{"name": "a", "controlPlane": true},
                        {"name": "b", "controlPlane": false, "attributes": {"c": "d"}}],
                    "conditions": conditions, "deprecated": {"v1beta1": {"conditions": old_condition,
                        "failureReason": "Quota", "failureMessage": "no quota"}}}),
            ],
        ),
        pair(
            "EmbeddedMachine",
            [
                json!({"providerID": "x://y"}),
                json!({"ready": false, "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}]}),
            ],
            [
                json!({"providerID": "x://y"}),
                json!({"initialization": {"provisioned": false},
                    "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}]}),
            ],
        ),
        pair(
            "EmbeddedConfig",
            [json!({}), json!({"ready": true, "dataSecretName": "s"})],
            [json!({}), json!({"initialization": {"dataSecretCreated": true}, "dataSecretName": "s"})],
        ),
        pair(
            "EmbeddedControlPlane",
            [
                json!({"replicas": 3, "version": "v1.32.0", "machineTemplate": {"metadata": metadata,
                    "infrastructureRef": old_reference, "nodeDrainTimeout": "1m30s", "nodeVolumeDetachTimeout": "0s",
                    "nodeDeletionTimeout": "10s", "readinessGates": [{"conditionType": "a"}]}}),
                json!({"initialized": true, "ready": true, "replicas": 2, "readyReplicas": 1, "unavailableReplicas": 2,
                    "updatedReplicas": 2, "v1beta2": {"availableReplicas": 1}, "version": "v1.32.0",
                    "versions": [{"version": "v1.32.0", "replicas": 2}]}),
            ],
            [
                json!({"replicas": 3, "version": "v1.32.0", "machineTemplate": {"metadata": metadata,
                    "spec": {"infrastructureRef": new_reference, "readinessGates": [{"conditionType": "a"}],
                        "deletion": {"nodeDrainTimeoutSeconds": 90, "nodeVolumeDetachTimeoutSeconds": 0,
                            "nodeDeletionTimeoutSeconds": 10}}}}),
                json!({"initialization": {"controlPlaneInitialized": true}, "replicas": 2, "readyReplicas": 1,
                    "upToDateReplicas": 2, "availableReplicas": 1, "version": "v1.32.0",
                    "versions": [{"version": "v1.32.0", "replicas": 2}]}),
            ],
        ),
        pair(
            "EmbeddedControlPlaneTemplate",
            [json!({"template": {"spec": {"machineTemplate": {"nodeDrainTimeout": "5m0s"}}}}), Value::Null],
            [
                json!({"template": {"spec": {"machineTemplate": {"spec": {"deletion": {"nodeDrainTimeoutSeconds": 300}}}}}}),
                Value::Null,
            ],
        ),
        pair(
            "EmbeddedMachineTemplate",
            [json!({"template": {"spec": {}}}), json!({"capacity": {"cpu": 2}})],
            [json!({"template": {"spec": {}}}), json!({"capacity": {"cpu": 2}})],
        ),
    ]
}

#[test]
fn each_version_has_the_fields_of_its_contract() {
    // CT-5.4, CT-5.10, CT-5.11, CT-6.7, CT-10.3, CONV-017
    for (old, new) in pairs() {
        assert_eq!(to(V1Beta1, &old), new);
        assert_eq!(to(V1Alpha1, &new), old);
        assert_eq!((to(V1Alpha1, &old), to(V1Beta1, &new)), (old, new), "an object in the version stays as it is");
    }
}

/// Objects with parts that the other version cannot represent.
fn awkward() -> Vec<Value> {
    let reference = |api_version: &str, kind: &str| {
        json!({"machineTemplate": {"infrastructureRef": {"apiVersion": api_version, "kind": kind, "name": "m"},
            "nodeDrainTimeout": "90s"}})
    };
    vec![
        object("EmbeddedCluster", V1Alpha1, json!({"controlPlaneEndpoint": {"host": "", "port": 0}}), Value::Null),
        object("EmbeddedCluster", V1Alpha1, json!({}), json!({"failureDomains": {"a": {}}, "failureReason": ""})),
        object("EmbeddedCluster", V1Beta1, json!({}), json!({"failureDomains": [{"name": "b"}, {"name": "a"}]})),
        object(
            "EmbeddedControlPlane",
            V1Alpha1,
            reference("infrastructure.topologist.dev/v1beta1", "EmbeddedMachineTemplate"),
            json!({"ready": false, "replicas": 3, "readyReplicas": 3, "unavailableReplicas": 1}),
        ),
        object(
            "EmbeddedControlPlane",
            V1Alpha1,
            reference("infrastructure.cluster.x-k8s.io/v1beta2", "DockerMachineTemplate"),
            Value::Null,
        ),
    ]
}

#[test]
fn nothing_is_lost_on_the_way_there_and_back() {
    // CONV-017
    for object in awkward() {
        let from = version(&object).unwrap();
        let other = if from == V1Alpha1 { V1Beta1 } else { V1Alpha1 };
        let there = to(other, &object);
        assert!(has_annotation(&there), "{there}");
        assert_eq!(to(from, &there), object);
    }
}

#[test]
fn a_part_that_was_changed_is_converted_and_the_other_still_comes_back() {
    // CONV-017
    let old = awkward().into_iter().find(|object| object["status"]["unavailableReplicas"] == 1).unwrap();
    let mut stored = to(V1Beta1, &old);
    stored["status"]["readyReplicas"] = json!(2);
    let read = to(V1Alpha1, &stored);
    assert_eq!(read["spec"], old["spec"], "the version of the reference, and how the timeout was written");
    assert_eq!(read["status"], json!({"ready": true, "replicas": 3, "readyReplicas": 2, "unavailableReplicas": 1}));
    stored["spec"]["replicas"] = json!(5);
    let read = to(V1Alpha1, &stored);
    let template = &read["spec"]["machineTemplate"];
    assert_eq!(template["infrastructureRef"]["apiVersion"], "infrastructure.topologist.dev/v1alpha1");
    assert_eq!((&template["nodeDrainTimeout"], &read["status"]["unavailableReplicas"]), (&json!("1m30s"), &json!(3)));
    assert!(!has_annotation(&read), "the annotation is of no use in this version");
}

#[test]
fn the_version_of_a_kind_of_others_is_looked_up() {
    // CONV-005, CONV-017
    let mut control_plane = object(
        "EmbeddedControlPlane",
        V1Beta1,
        json!({"machineTemplate": {"spec": {"infrastructureRef": {"apiGroup": "x.example.com", "kind": "Box",
            "name": "m"}}}}),
        Value::Null,
    );
    let kind = EmbeddedKind::for_object(&control_plane).unwrap();
    let box_kind = ("x.example.com".to_owned(), "Box".to_owned());
    assert_eq!(versions_needed(&control_plane, V1Alpha1), vec![box_kind.clone()]);
    assert_eq!(versions_needed(&control_plane, V1Beta1), vec![]);
    let unknown = convert(kind, &mut control_plane.clone(), V1Alpha1, &KindVersions::new()).unwrap_err();
    assert!(matches!(unknown, ConversionError::UnknownVersion { .. }), "{unknown}");
    convert(kind, &mut control_plane, V1Alpha1, &[(box_kind, Ok("v7".to_owned()))].into()).unwrap();
    let reference = &control_plane["spec"]["machineTemplate"]["infrastructureRef"];
    assert_eq!(*reference, json!({"apiVersion": "x.example.com/v7", "kind": "Box", "name": "m", "namespace": "ns"}));
}

#[test]
fn what_is_no_object_of_the_provider_is_not_converted() {
    for (api_version, kind, is_known) in [
        ("infrastructure.topologist.dev/v1alpha1", "EmbeddedMachine", true),
        ("infrastructure.topologist.dev/v1beta1", "EmbeddedMachine", true),
        ("infrastructure.topologist.dev/v1beta2", "EmbeddedMachine", false),
        ("infrastructure.topologist.dev/v1beta1", "EmbeddedConfig", false),
        ("infrastructure.cluster.x-k8s.io/v1beta1", "EmbeddedMachine", false),
        ("v1beta1", "EmbeddedMachine", false),
    ] {
        let object = json!({"apiVersion": api_version, "kind": kind});
        assert_eq!(EmbeddedKind::for_object(&object).is_some(), is_known, "{api_version} {kind}");
    }
    for wrong in [json!({"nodeDrainTimeout": "soon"}), json!({"nodeDrainTimeout": 5})] {
        let mut wrong = object("EmbeddedControlPlane", V1Alpha1, json!({"machineTemplate": wrong}), Value::Null);
        let kind = EmbeddedKind::for_object(&wrong).unwrap();
        let error = convert(kind, &mut wrong, V1Beta1, &KindVersions::new()).unwrap_err();
        assert!(matches!(error, ConversionError::Duration { .. }), "{error}");
    }
}
