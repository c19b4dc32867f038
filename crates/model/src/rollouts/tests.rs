use serde_json::{Value, json};

use super::RolloutOwner::{
    EmbeddedControlPlane, KubeadmControlPlane, MachineDeployment, MachinePool, OtherControlPlane, Rke2ControlPlane,
};
use super::*;

/// The effect of a change of one field with its rule: of several leaves, that of the last one.
fn effect(owner: RolloutOwner, path: &str, from: &Value, to: &Value) -> Option<(&'static str, RolloutEffect, Decider)> {
    let value = |value: &'_ Value| (!value.is_null()).then(|| value.clone());
    let (from, to) = (value(from), value(to));
    let leaves = differences(owner, "v1.33.2", path, from.as_ref(), to.as_ref());
    leaves.last().and_then(|leaf| rule_for(owner, &leaf.path)).map(|row| (row.rule, row.effect, row.decider))
}

/// The effects of a change from nothing to a value.
fn set(owner: RolloutOwner, path: &str) -> (&'static str, RolloutEffect) {
    let (rule, effect, _) = effect(owner, path, &Value::Null, &json!("x")).unwrap();
    (rule, effect)
}

#[test]
fn a_kubeadm_control_plane_replaces_machines_for_changes_of_their_configuration() {
    // ROLL-1, ROLL-2, ROLL-3, ROLL-6
    for (path, rule, want) in [
        ("spec.version", "ROLL-1", RolloutEffect::Replaces),
        ("spec.machineTemplate.spec.infrastructureRef.name", "ROLL-2", RolloutEffect::Replaces),
        ("spec.machineTemplate.spec.infrastructureRef.kind", "ROLL-2", RolloutEffect::Replaces),
        ("spec.machineTemplate.spec.infrastructureRef.apiGroup", "ROLL-2", RolloutEffect::Replaces),
        ("spec.machineTemplate.infrastructureRef.name", "ROLL-2", RolloutEffect::Replaces),
        ("spec.machineTemplate.infrastructureRef.kind", "ROLL-2", RolloutEffect::Replaces),
        ("spec.machineTemplate.infrastructureRef.apiVersion", "ROLL-2", RolloutEffect::ReplacesByGroup),
        ("spec.machineTemplate.infrastructureRef.namespace", "ROLL-2", RolloutEffect::Nothing),
        ("spec.kubeadmConfigSpec.files", "ROLL-3", RolloutEffect::Replaces),
        ("spec.kubeadmConfigSpec.joinConfiguration.nodeRegistration.taints", "ROLL-3", RolloutEffect::ReplacesJoined),
        ("spec.kubeadmConfigSpec.clusterConfiguration.apiServer.extraArgs", "ROLL-3", RolloutEffect::Replaces),
        ("spec.kubeadmConfigSpec.initConfiguration.skipPhases", "ROLL-3", RolloutEffect::ReplacesInitialized),
        ("spec.rollout.after", "ROLL-6", RolloutEffect::ReplacesAfter),
        ("spec.rolloutAfter", "ROLL-6", RolloutEffect::ReplacesAfter),
        ("spec.rollout.before.certificatesExpiryDays", "ROLL-6", RolloutEffect::ReplacesExpiring),
        ("spec.rolloutBefore.certificatesExpiryDays", "ROLL-6", RolloutEffect::ReplacesExpiring),
    ] {
        assert_eq!(set(KubeadmControlPlane, path), (rule, want), "{path}");
    }
}

#[test]
fn a_kubeadm_control_plane_does_not_compare_everything() {
    // ROLL-4
    let config = |path: &str| format!("spec.kubeadmConfigSpec.{path}");
    for (path, want) in [
        ("clusterConfiguration.controlPlaneEndpoint", RolloutEffect::Nothing),
        ("clusterConfiguration.dns.imageTag", RolloutEffect::InPlace),
        ("clusterConfiguration.apiServer.timeoutForControlPlane", RolloutEffect::Nothing),
        ("joinConfiguration.discovery.tlsBootstrapToken", RolloutEffect::Nothing),
        ("joinConfiguration.caCertPath", RolloutEffect::ReplacesJoined),
        ("joinConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds", RolloutEffect::Nothing),
        ("initConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds", RolloutEffect::Nothing),
    ] {
        assert_eq!(set(KubeadmControlPlane, &config(path)), ("ROLL-4", want), "{path}");
    }
}

#[test]
fn empty_fields_equal_absent_ones_after_defaulting() {
    // ROLL-5
    let config = "spec.kubeadmConfigSpec";
    let seen = |path: &str, from: Value, to: Value| {
        let path = format!("{config}.{path}");
        effect(KubeadmControlPlane, &path, &from, &to).is_some()
            || effect(KubeadmControlPlane, &path, &to, &from).is_some()
    };
    for (path, from, to) in [
        ("files", Value::Null, json!([])),
        ("clusterConfiguration", Value::Null, json!({"etcd": {"local": {"extraArgs": []}}})),
        ("joinConfiguration", json!({"nodeRegistration": {}}), json!({})),
        ("format", Value::Null, json!("cloud-config")),
        ("joinConfiguration.nodeRegistration", Value::Null, json!({"imagePullPolicy": "IfNotPresent"})),
        ("clusterConfiguration", json!({}), json!({"featureGates": {"ControlPlaneKubeletLocalMode": true}})),
    ] {
        assert!(!seen(path, from, to), "{path}");
    }
    for (path, from, to) in [
        ("joinConfiguration.nodeRegistration.taints", Value::Null, json!([])),
        ("format", Value::Null, json!("ignition")),
        ("files", json!([]), json!([{"path": "/a"}])),
        ("clusterConfiguration.featureGates.ControlPlaneKubeletLocalMode", Value::Null, json!(false)),
        ("clusterConfiguration.featureGates.Other", Value::Null, json!(true)),
    ] {
        assert!(seen(path, from, to), "{path}");
    }
    let gate = "spec.kubeadmConfigSpec.clusterConfiguration.featureGates.ControlPlaneKubeletLocalMode";
    for (version, is_seen) in [("v1.30.9", true), ("v1.31.0", false), ("v1.35.9", false), ("v1.36.0", true)] {
        let found = differences(KubeadmControlPlane, version, gate, None, Some(&json!(true)));
        assert_eq!(!found.is_empty(), is_seen, "{version}");
    }
}

#[test]
fn the_machine_that_was_initialized_is_compared_as_one_that_joined() {
    // ROLL-3
    let init = json!({"nodeRegistration": {"kubeletExtraArgs": [{"name": "a", "value": "b"}]}, "skipPhases": [],
        "localAPIEndpoint": {"bindPort": 1}, "bootstrapTokens": [{"token": "t"}],
        "timeouts": {"controlPlaneComponentHealthCheckSeconds": 9}});
    let join = json!({"nodeRegistration": {"kubeletExtraArgs": [{"name": "a", "value": "b"}]},
        "discovery": {"file": {}},
        "controlPlane": {"localAPIEndpoint": {"bindPort": 1}}});
    assert!(initialized_as_joined(Some(&init), Some(&join)));
    assert!(initialized_as_joined(None, None) && initialized_as_joined(Some(&json!({})), None));
    for path in ["/nodeRegistration/name", "/skipPhases", "/localAPIEndpoint", "/patches", "/timeouts"] {
        let mut other = init.clone();
        let (parent, name) = path.rsplit_once('/').unwrap();
        other.pointer_mut(parent).unwrap()[name] = json!({"x": "y"});
        assert!(!initialized_as_joined(Some(&other), Some(&join)), "{path}");
    }
}

#[test]
fn running_machines_of_control_planes_get_metadata_and_timeouts_in_place() {
    // ROLL-7, ROLL-14
    for owner in [KubeadmControlPlane, EmbeddedControlPlane, Rke2ControlPlane, OtherControlPlane] {
        for path in [
            "spec.machineTemplate.metadata.labels.a",
            "spec.machineTemplate.spec.deletion.nodeDrainTimeoutSeconds",
            "spec.machineTemplate.spec.deletion.nodeDeletionTimeoutSeconds",
            "spec.machineTemplate.spec.deletion.nodeVolumeDetachTimeoutSeconds",
            "spec.machineTemplate.spec.taints",
            "spec.machineTemplate.spec.readinessGates",
            "spec.machineTemplate.nodeDrainTimeout",
            "spec.machineTemplate.nodeDeletionTimeout",
            "spec.machineTemplate.nodeVolumeDetachTimeout",
            "spec.machineTemplate.readinessGates",
            "spec.machineTemplate.taints",
        ] {
            assert_eq!(set(owner, path), ("ROLL-7", RolloutEffect::InPlace), "{owner:?} {path}");
        }
        assert_eq!(set(owner, "spec.replicas").1, RolloutEffect::Scales, "{owner:?}");
    }
    for path in [
        "spec.machineNaming.template",
        "spec.machineNamingStrategy",
        "spec.remediation",
        "spec.rollout.strategy",
        "spec.anything",
    ] {
        assert_eq!(set(KubeadmControlPlane, path), ("ROLL-7", RolloutEffect::Nothing), "{path}");
    }
}

#[test]
fn of_other_control_planes_the_provider_decides() {
    // ROLL-14
    let change = |owner: RolloutOwner, path: &str| effect(owner, path, &json!("x"), &json!("y"));
    for path in ["spec.version", "spec.machineTemplate.infrastructureRef.name", "spec.serverConfig.cni", "spec.files"] {
        assert_eq!(
            change(Rke2ControlPlane, path),
            Some(("ROLL-14", RolloutEffect::Replaces, Decider::Provider)),
            "{path}"
        );
    }
    assert_eq!(set(Rke2ControlPlane, "spec.rolloutStrategy.type"), ("ROLL-14", RolloutEffect::Nothing));
    assert_eq!(change(OtherControlPlane, "spec.version"), Some(("ROLL-14", RolloutEffect::Replaces, Decider::Rule)));
    assert_eq!(change(OtherControlPlane, "spec.region"), Some(("ROLL-14", RolloutEffect::Replaces, Decider::Provider)));
    assert_eq!(
        change(EmbeddedControlPlane, "spec.config.motd"),
        Some(("ROLL-14", RolloutEffect::Replaces, Decider::Rule))
    );
    assert_eq!(RolloutOwner::control_plane("AWSManagedControlPlane"), OtherControlPlane);
}

#[test]
fn a_machine_deployment_compares_references_and_a_pool_leaves_it_to_its_provider() {
    // ROLL-9, ROLL-10, ROLL-12, ROLL-15
    for (path, want) in [
        ("spec.template.spec.version", RolloutEffect::Replaces),
        ("spec.template.spec.bootstrap.configRef.name", RolloutEffect::Replaces),
        ("spec.template.spec.bootstrap.configRef.apiVersion", RolloutEffect::ReplacesByGroup),
        ("spec.template.spec.bootstrap.dataSecretName", RolloutEffect::Replaces),
        ("spec.template.spec.infrastructureRef.name", RolloutEffect::Replaces),
        ("spec.template.spec.infrastructureRef.apiVersion", RolloutEffect::ReplacesByGroup),
        ("spec.template.spec.failureDomain", RolloutEffect::Replaces),
        ("spec.template.metadata.labels.a", RolloutEffect::InPlace),
        ("spec.template.spec.minReadySeconds", RolloutEffect::InPlace),
        ("spec.template.spec.readinessGates", RolloutEffect::InPlace),
        ("spec.template.spec.deletion.nodeDrainTimeoutSeconds", RolloutEffect::InPlace),
        ("spec.template.spec.taints", RolloutEffect::InPlace),
        ("spec.rollout.strategy.type", RolloutEffect::Nothing),
        ("spec.machineNaming.template", RolloutEffect::Nothing),
    ] {
        assert_eq!(set(MachineDeployment, path), ("ROLL-9", want), "{path}");
    }
    assert_eq!(set(MachineDeployment, "spec.rollout.after"), ("ROLL-10", RolloutEffect::ReplacesAfter));
    assert_eq!(set(MachineDeployment, "spec.rolloutAfter"), ("ROLL-10", RolloutEffect::ReplacesAfter));
    for owner in [MachineDeployment, MachinePool] {
        assert_eq!(set(owner, "spec.replicas"), ("ROLL-12", RolloutEffect::Scales));
    }
    for path in [
        "spec.template.spec.version",
        "spec.template.spec.bootstrap.configRef.name",
        "spec.template.spec.infrastructureRef.name",
    ] {
        let found = effect(MachinePool, path, &json!("x"), &json!("y"));
        assert_eq!(found, Some(("ROLL-15", RolloutEffect::Replaces, Decider::Provider)), "{path}");
    }
}

#[test]
fn every_rule_is_explained() {
    // DEC-50
    let docs = include_str!("../../../../docs/plan.md");
    let mut rules: Vec<String> = ROWS.iter().map(|row| row.rule.to_owned()).collect();
    rules.extend((1..=18).map(|number| format!("ROLL-{number}")));
    for rule in rules {
        assert!(docs.contains(&format!("\n| {rule} | ")), "{rule}");
    }
}
