//! v1beta1 to the hub, by moving members of raw JSON.
//!
//! Members that have no counterpart stay where they are and are ignored by the hub's decoder, which also reports wrong
//! types. Rules CONV-002 to CONV-016, the way up.

use serde_json::{Map, Value, json};

use super::duration::whole_seconds;

/// What keeps a v1beta1 object from being read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum ConversionError {
    /// A duration that is not one (CONV-004).
    #[error("{path}: {text:?} is not a duration such as 5m30s")]
    Duration { path: String, text: String },
    /// A reference whose `apiVersion` has more than one `/` (CONV-005).
    #[error("{path}.apiVersion: {text:?} has more than one \"/\"")]
    ApiVersion { path: String, text: String },
}

type Members = Map<String, Value>;
type Outcome = Result<(), ConversionError>;

/// Reshapes a v1beta1 Cluster.
pub(super) fn cluster_to_hub(cluster: &mut Value) -> Outcome {
    if let Some(status) = object_at(cluster, &["status"]) {
        status_to_hub(status);
    }
    let Some(spec) = object_at(cluster, &["spec"]) else { return Ok(()) };
    for reference in ["controlPlaneRef", "infrastructureRef"] {
        contract_ref(spec, reference)?;
    }
    let Some(topology) = spec.get_mut("topology").and_then(Value::as_object_mut) else { return Ok(()) };
    // CONV-007
    move_into(topology, "class", &["classRef", "name"]);
    move_into(topology, "classNamespace", &["classRef", "namespace"]);
    let rollout_after = topology.remove("rolloutAfter").filter(|after| !after.is_null());
    if let Some(control_plane) = member(topology, "controlPlane") {
        machines(control_plane, "spec.topology.controlPlane")?;
    }
    each(topology, &["workers", "machineDeployments"], "spec.topology.workers.machineDeployments", worker_topology)?;
    each(topology, &["workers", "machinePools"], "spec.topology.workers.machinePools", worker_topology)?;
    if let Some(after) = rollout_after {
        spread_rollout_after(topology, &after);
    }
    Ok(())
}

/// Reshapes a v1beta1 ClusterClass.
pub(super) fn cluster_class_to_hub(class: &mut Value) -> Outcome {
    if let Some(status) = object_at(class, &["status"]) {
        status_to_hub(status);
        for variable in entries(status, &["variables"]) {
            for definition in variable.as_object_mut().into_iter().flat_map(|v| entries(v, &["definitions"])) {
                rename(definition, "metadata", "deprecatedV1Beta1Metadata");
            }
        }
    }
    let Some(spec) = object_at(class, &["spec"]) else { return Ok(()) };
    if let Some(infrastructure) = member(spec, "infrastructure") {
        rename_in(infrastructure, "ref", "templateRef");
    }
    // CONV-010
    move_into(spec, "infrastructureNamingStrategy", &["infrastructure", "naming"]);
    if let Some(control_plane) = member(spec, "controlPlane") {
        control_plane_class(control_plane)?;
    }
    each(spec, &["workers", "machineDeployments"], "spec.workers.machineDeployments", worker_class)?;
    each(spec, &["workers", "machinePools"], "spec.workers.machinePools", worker_class)?;
    for variable in entries(spec, &["variables"]) {
        rename(variable, "metadata", "deprecatedV1Beta1Metadata");
    }
    for patch in entries(spec, &["patches"]) {
        if let Some(external) = object_at(patch, &["external"]) {
            rename_in(external, "generateExtension", "generatePatchesExtension");
            rename_in(external, "validateExtension", "validateTopologyExtension");
        }
    }
    Ok(())
}

/// DEC-21: the rollout time of a v1beta1 topology holds for each part that has none of its own.
fn spread_rollout_after(topology: &mut Members, after: &Value) {
    let give = |part: &mut Members| {
        if let Some(rollout) = part.entry("rollout").or_insert_with(|| json!({})).as_object_mut() {
            rollout.entry("after").or_insert_with(|| after.clone());
        }
    };
    if let Some(control_plane) = topology.entry("controlPlane").or_insert_with(|| json!({})).as_object_mut() {
        give(control_plane);
    }
    entries(topology, &["workers", "machineDeployments"]).filter_map(Value::as_object_mut).for_each(give);
}

fn control_plane_class(control_plane: &mut Members) -> Outcome {
    rename_in(control_plane, "ref", "templateRef");
    if let Some(machines) = member(control_plane, "machineInfrastructure") {
        rename_in(machines, "ref", "templateRef");
    }
    rename_in(control_plane, "namingStrategy", "naming");
    machines(control_plane, "spec.controlPlane")
}

/// CONV-011: a worker class has no `template` level in the hub.
fn worker_class(class: &mut Members, path: &str) -> Outcome {
    if let Some(Value::Object(mut template)) = class.remove("template") {
        for part in ["bootstrap", "infrastructure"] {
            if let Some(mut holder) = template.remove(part) {
                rename(&mut holder, "ref", "templateRef");
                class.insert(part.to_owned(), holder);
            }
        }
        if let Some(metadata) = template.remove("metadata") {
            class.insert("metadata".to_owned(), metadata);
        }
    }
    rename_in(class, "namingStrategy", "naming");
    worker_topology(class, path)
}

fn worker_topology(worker: &mut Members, path: &str) -> Outcome {
    machines(worker, path)?;
    // CONV-008
    if let Some(Value::Object(mut strategy)) = worker.remove("strategy") {
        if let Some(rolling_update) = member(&mut strategy, "rollingUpdate")
            && let Some(order) = rolling_update.remove("deletePolicy")
        {
            put(worker, &["deletion", "order"], order);
        }
        if let Some(Value::Object(mut remediation)) = strategy.remove("remediation")
            && let Some(max_in_flight) = remediation.remove("maxInFlight")
        {
            put(worker, &["healthCheck", "remediation", "maxInFlight"], max_in_flight);
        }
        put(worker, &["rollout", "strategy"], Value::Object(strategy));
    }
    Ok(())
}

/// What control planes and workers share: deletion timeouts and the health check.
fn machines(part: &mut Members, path: &str) -> Outcome {
    for name in ["nodeDrainTimeout", "nodeVolumeDetachTimeout", "nodeDeletionTimeout"] {
        if let Some(seconds) = take_seconds(part, name, path)? {
            put(part, &["deletion", &format!("{name}Seconds")], seconds);
        }
    }
    if let Some(Value::Object(check)) = part.remove("machineHealthCheck") {
        health_check(part, check, &format!("{path}.machineHealthCheck"))?;
    }
    Ok(())
}

/// CONV-009
fn health_check(part: &mut Members, mut old: Members, path: &str) -> Outcome {
    let startup = take_seconds(&mut old, "nodeStartupTimeout", path)?;
    for list in ["unhealthyConditions", "unhealthyMachineConditions"] {
        for (i, condition) in old.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().enumerate() {
            let Some(condition) = condition.as_object_mut() else { continue };
            let seconds = take_seconds(condition, "timeout", &format!("{path}.{list}[{i}]"))?;
            condition.insert("timeoutSeconds".to_owned(), seconds.unwrap_or(json!(0)));
        }
    }
    let new = [
        (&["healthCheck", "enabled"][..], old.remove("enable")),
        (&["healthCheck", "checks", "nodeStartupTimeoutSeconds"], startup),
        (&["healthCheck", "checks", "unhealthyNodeConditions"], old.remove("unhealthyConditions")),
        (&["healthCheck", "checks", "unhealthyMachineConditions"], old.remove("unhealthyMachineConditions")),
        (&["healthCheck", "remediation", "triggerIf", "unhealthyLessThanOrEqualTo"], old.remove("maxUnhealthy")),
        (&["healthCheck", "remediation", "triggerIf", "unhealthyInRange"], old.remove("unhealthyRange")),
        (&["healthCheck", "remediation", "templateRef"], old.remove("remediationTemplate")),
    ];
    for (target, value) in new {
        if let Some(value) = value {
            put(part, target, value);
        }
    }
    Ok(())
}

/// CONV-016: legacy conditions move aside for those that v1beta1 keeps under `v1beta2`.
fn status_to_hub(status: &mut Members) {
    if let Some(conditions) = status.remove("conditions") {
        put(status, &["deprecated", "v1beta1", "conditions"], conditions);
    }
    if let Some(Value::Object(newer)) = status.remove("v1beta2") {
        status.extend(newer);
    }
}

/// CONV-005: a contract reference keeps the group of its `apiVersion` only.
fn contract_ref(spec: &mut Members, name: &str) -> Outcome {
    let Some(reference) = member(spec, name) else { return Ok(()) };
    let group = match reference.get("apiVersion").and_then(Value::as_str).unwrap_or_default() {
        text if text.matches('/').count() > 1 => {
            return Err(ConversionError::ApiVersion { path: format!("spec.{name}"), text: text.to_owned() });
        }
        text => text.split_once('/').map_or("", |(group, _)| group).to_owned(),
    };
    reference.insert("apiGroup".to_owned(), group.into());
    Ok(())
}

fn take_seconds(part: &mut Members, name: &str, path: &str) -> Result<Option<Value>, ConversionError> {
    match part.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => match whole_seconds(&text) {
            Some(seconds) => Ok(Some(seconds.into())),
            None => Err(ConversionError::Duration { path: format!("{path}.{name}"), text }),
        },
        Some(other) => Err(ConversionError::Duration { path: format!("{path}.{name}"), text: other.to_string() }),
    }
}

fn each(parent: &mut Members, list: &[&str], path: &str, edit: fn(&mut Members, &str) -> Outcome) -> Outcome {
    for (i, entry) in entries(parent, list).enumerate() {
        if let Some(entry) = entry.as_object_mut() {
            edit(entry, &format!("{path}[{i}]"))?;
        }
    }
    Ok(())
}

fn entries<'a>(parent: &'a mut Members, path: &[&str]) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    let (last, parents) = path.split_last().unwrap_or((&"", &[]));
    let mut at = Some(parent);
    for step in parents {
        at = at.and_then(|members| member(members, step));
    }
    at.and_then(|members| members.get_mut(*last)).and_then(Value::as_array_mut).into_iter().flatten()
}

fn member<'a>(parent: &'a mut Members, name: &str) -> Option<&'a mut Members> {
    parent.get_mut(name)?.as_object_mut()
}

fn object_at<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Members> {
    path.iter().try_fold(value, |value, step| value.get_mut(*step))?.as_object_mut()
}

fn rename(value: &mut Value, from: &str, to: &str) {
    if let Some(members) = value.as_object_mut() {
        rename_in(members, from, to);
    }
}

fn rename_in(members: &mut Members, from: &str, to: &str) {
    if let Some(value) = members.remove(from) {
        members.insert(to.to_owned(), value);
    }
}

fn move_into(members: &mut Members, from: &str, to: &[&str]) {
    if let Some(value) = members.remove(from) {
        put(members, to, value);
    }
}

/// Sets the member at `path`, creating objects on the way. What stands in the way and is no object is replaced.
fn put(members: &mut Members, path: &[&str], value: Value) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        members.insert((*first).to_owned(), value);
        return;
    }
    let next = members.entry(*first).or_insert_with(|| json!({}));
    if !next.is_object() {
        *next = json!({});
    }
    if let Some(next) = next.as_object_mut() {
        put(next, rest, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::{Cluster, ClusterClass};
    use crate::wire::{Decode, Version};

    /// The same object in both versions decodes to the same hub object.
    fn same<T: Decode + PartialEq + std::fmt::Debug>(old: &Value, new: &Value) {
        let old = T::decode(Version::V1Beta1, &old.to_string()).unwrap();
        assert_eq!(old, T::decode(Version::V1Beta2, &new.to_string()).unwrap());
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
                                "remediationTemplate": {"apiVersion": "r.example.com/v1", "kind": "RTemplate", "name": "r"}}}],
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
                                    "unhealthyNodeConditions": [{"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}]},
                                "remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": "40%"}}}},
                        "workers": {"machineDeployments": [{"class": "w", "name": "md",
                            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "0%"}}},
                            "deletion": {"order": "Oldest"},
                            "healthCheck": {"remediation": {"maxInFlight": 1, "triggerIf": {"unhealthyInRange": "[1-2]"},
                                "templateRef": {"apiVersion": "r.example.com/v1", "kind": "RTemplate", "name": "r"}}}}],
                            "machinePools": [{"class": "p", "name": "mp", "deletion": {"nodeDeletionTimeoutSeconds": 3600}}]},
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
                    "controlPlane": {"templateRef": tref("CTemplate"), "machineInfrastructure": {"templateRef": tref("MTemplate")},
                        "naming": {"template": "c"},
                        "healthCheck": {"remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": 1}}}},
                    "workers": {"machineDeployments": [{"class": "w", "naming": {"template": "w"},
                        "metadata": {"labels": {"a": "b"}}, "bootstrap": {"templateRef": tref("BTemplate")},
                        "infrastructure": {"templateRef": tref("MTemplate")}}]},
                    "variables": [{"name": "v", "required": true, "deprecatedV1Beta1Metadata": {"labels": {"x": "y"}},
                        "schema": {"openAPIV3Schema": {"type": "string"}}}],
                    "patches": [{"name": "p", "external": {"generatePatchesExtension": "g", "validateTopologyExtension": "v"}}],
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
                "workers": {"machineDeployments": [{"name": "a"}, {"name": "b", "rollout": {"after": "2025-01-01T00:00:00Z"}}]}}}}),
            &json!({"spec": {"topology": {"controlPlane": {"rollout": {"after": "2026-01-01T00:00:00Z"}},
                "workers": {"machineDeployments": [{"name": "a", "rollout": {"after": "2026-01-01T00:00:00Z"}},
                    {"name": "b", "rollout": {"after": "2025-01-01T00:00:00Z"}}]}}}}),
        );
    }

    #[test]
    fn what_cannot_be_converted_is_named() {
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
                "spec.topology.classRef.name: invalid type: integer `5`, expected a string",
            ),
        ] {
            let text = json!({"spec": spec}).to_string();
            assert_eq!(Cluster::decode(Version::V1Beta1, &text).unwrap_err(), want);
        }
    }
}
