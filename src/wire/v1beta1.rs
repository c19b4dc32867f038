//! v1beta1 to the hub, by moving members of raw JSON.
//!
//! Names that only the hub has are taken out first: v1beta1 does not know them, so they mean nothing there. Other members
//! without a counterpart stay where they are and are ignored by the hub's decoder. What has the wrong type is moved all
//! the same, and the decoder reports it. Rules CONV, the way up.

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
    /// A member of an object reference that is not text, and that the hub does not read.
    #[error("{path}: invalid type, expected a string")]
    NoText { path: String },
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
    forget(topology, &["classRef"]);
    // CONV-007
    move_into(topology, "class", &["classRef", "name"]);
    move_into(topology, "classNamespace", &["classRef", "namespace"]);
    let rollout_after = topology.remove("rolloutAfter").filter(|after| !after.is_null());
    if let Some(control_plane) = member(topology, "controlPlane") {
        machines(control_plane, "spec.topology.controlPlane")?;
    }
    each(topology, &["workers", "machineDeployments"], "spec.topology.workers.machineDeployments", machine_deployment)?;
    each(topology, &["workers", "machinePools"], "spec.topology.workers.machinePools", timeouts)?;
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
        forget(infrastructure, &["naming"]);
        template_holder(infrastructure, "spec.infrastructure")?;
    }
    // CONV-010
    move_into(spec, "infrastructureNamingStrategy", &["infrastructure", "naming"]);
    if let Some(control_plane) = member(spec, "controlPlane") {
        control_plane_class(control_plane)?;
    }
    each(spec, &["workers", "machineDeployments"], "spec.workers.machineDeployments", |class, path| {
        worker_class(class, path)?;
        machine_deployment(class, path)
    })?;
    each(spec, &["workers", "machinePools"], "spec.workers.machinePools", |class, path| {
        worker_class(class, path)?;
        timeouts(class, path)
    })?;
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
        if let Some(rollout) = object_or_new(part, "rollout")
            && rollout.get("after").is_none_or(Value::is_null)
        {
            rollout.insert("after".to_owned(), after.clone());
        }
    };
    if let Some(control_plane) = object_or_new(topology, "controlPlane") {
        give(control_plane);
    }
    entries(topology, &["workers", "machineDeployments"]).filter_map(Value::as_object_mut).for_each(give);
}

/// A member that is an object, made where it is absent or null; `None` where it is something else.
fn object_or_new<'a>(members: &'a mut Members, name: &str) -> Option<&'a mut Members> {
    let member = members.entry(name).or_insert(Value::Null);
    if member.is_null() {
        *member = json!({});
    }
    member.as_object_mut()
}

fn control_plane_class(control_plane: &mut Members) -> Outcome {
    template_holder(control_plane, "spec.controlPlane")?;
    if let Some(machines) = member(control_plane, "machineInfrastructure") {
        template_holder(machines, "spec.controlPlane.machineInfrastructure")?;
    }
    rename_in(control_plane, "namingStrategy", "naming");
    machines(control_plane, "spec.controlPlane")
}

/// CONV-011: a worker class has no `template` level in the hub.
fn worker_class(class: &mut Members, path: &str) -> Outcome {
    forget(class, &["metadata", "bootstrap", "infrastructure"]);
    match class.remove("template") {
        Some(Value::Object(mut template)) => {
            for part in ["bootstrap", "infrastructure"] {
                if let Some(mut holder) = template.remove(part) {
                    if let Some(holder) = holder.as_object_mut() {
                        template_holder(holder, &format!("{path}.template.{part}"))?;
                    }
                    class.insert(part.to_owned(), holder);
                }
            }
            if let Some(metadata) = template.remove("metadata") {
                class.insert("metadata".to_owned(), metadata);
            }
        }
        Some(wrong) => drop(class.insert("bootstrap".to_owned(), wrong)),
        None => {}
    }
    rename_in(class, "namingStrategy", "naming");
    Ok(())
}

/// CONV-006: an object that holds a reference to a template.
fn template_holder(holder: &mut Members, path: &str) -> Outcome {
    rename_in(holder, "ref", "templateRef");
    match member(holder, "templateRef") {
        Some(reference) => object_reference(reference, &format!("{path}.ref")),
        None => Ok(()),
    }
}

/// The members of an object reference that the hub has no place for.
fn object_reference(reference: &Members, path: &str) -> Outcome {
    let is_wrong = |name: &&str| reference.get(*name).is_some_and(|value| !value.is_string() && !value.is_null());
    match ["namespace", "uid", "resourceVersion", "fieldPath"].iter().find(|name| is_wrong(name)) {
        Some(name) => Err(ConversionError::NoText { path: format!("{path}.{name}") }),
        None => Ok(()),
    }
}

/// What only machine deployments have, besides what they share with control planes.
fn machine_deployment(worker: &mut Members, path: &str) -> Outcome {
    if let Some(rollout) = member(worker, "rollout") {
        forget(rollout, &["strategy"]);
    }
    machines(worker, path)?;
    // CONV-008
    let Some(mut strategy) = worker.remove("strategy") else { return Ok(()) };
    if let Some(strategy) = strategy.as_object_mut() {
        if let Some(order) = member(strategy, "rollingUpdate").and_then(|update| update.remove("deletePolicy")) {
            put(worker, &["deletion", "order"], order);
        }
        match strategy.remove("remediation") {
            Some(Value::Object(mut remediation)) => {
                if let Some(max_in_flight) = remediation.remove("maxInFlight") {
                    put(worker, &["healthCheck", "remediation", "maxInFlight"], max_in_flight);
                }
            }
            Some(Value::Null) | None => {}
            Some(wrong) => put(worker, &["healthCheck", "remediation"], wrong),
        }
    }
    put(worker, &["rollout", "strategy"], strategy);
    Ok(())
}

/// What control planes and machine deployments share: deletion timeouts and the health check.
fn machines(part: &mut Members, path: &str) -> Outcome {
    forget(part, &["healthCheck"]);
    timeouts(part, path)?;
    match part.remove("machineHealthCheck") {
        Some(Value::Object(check)) => health_check(part, check, &format!("{path}.machineHealthCheck")),
        Some(wrong) => {
            part.insert("healthCheck".to_owned(), wrong);
            Ok(())
        }
        None => Ok(()),
    }
}

/// Deletion timeouts, which all machines have (CONV-004).
fn timeouts(part: &mut Members, path: &str) -> Outcome {
    forget(part, &["deletion"]);
    for name in ["nodeDrainTimeout", "nodeVolumeDetachTimeout", "nodeDeletionTimeout"] {
        if let Some(seconds) = take_seconds(part, name, path)? {
            put(part, &["deletion", &format!("{name}Seconds")], seconds);
        }
    }
    Ok(())
}

/// CONV-009
fn health_check(part: &mut Members, mut old: Members, path: &str) -> Outcome {
    if let Some(template) = member(&mut old, "remediationTemplate") {
        object_reference(template, &format!("{path}.remediationTemplate"))?;
    }
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
    let path = format!("spec.{name}");
    object_reference(reference, &path)?;
    let group = match reference.remove("apiVersion") {
        Some(Value::String(text)) if text.matches('/').count() > 1 => {
            return Err(ConversionError::ApiVersion { path, text });
        }
        Some(Value::String(text)) => text.split_once('/').map_or("", |(group, _)| group).into(),
        Some(wrong) => wrong,
        None => Value::Null,
    };
    reference.insert("apiGroup".to_owned(), group);
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

/// Takes out names that v1beta1 does not know.
fn forget(members: &mut Members, names: &[&str]) {
    for name in names {
        members.remove(*name);
    }
}

fn rename(value: &mut Value, from: &str, to: &str) {
    if let Some(members) = value.as_object_mut() {
        rename_in(members, from, to);
    }
}

/// Renames a member; one that has the new name already is none of v1beta1's.
fn rename_in(members: &mut Members, from: &str, to: &str) {
    members.remove(to);
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
                "controlPlane": null,
                "workers": {"machineDeployments": [{"name": "a", "rollout": null}, {"name": "b", "rollout": {"after": "2025-01-01T00:00:00Z"}}]}}}}),
            &json!({"spec": {"topology": {"controlPlane": {"rollout": {"after": "2026-01-01T00:00:00Z"}},
                "workers": {"machineDeployments": [{"name": "a", "rollout": {"after": "2026-01-01T00:00:00Z"}},
                    {"name": "b", "rollout": {"after": "2025-01-01T00:00:00Z"}}]}}}}),
        );
    }

    #[test]
    fn names_that_only_the_hub_has_mean_nothing_in_v1beta1() {
        same::<Cluster>(
            &json!({"spec": {"infrastructureRef": {"apiGroup": "g", "kind": "K"}, "topology": {"classRef": {"name": "k"}, "version": "v1.33.0",
                "controlPlane": {"healthCheck": {"enabled": true}, "deletion": 5},
                "workers": {"machineDeployments": [{"name": "a", "rollout": {"strategy": 5}, "deletion": 5}],
                    "machinePools": [{"name": "p", "strategy": 5, "machineHealthCheck": 5, "deletion": 5}]}}}}),
            &json!({"spec": {"infrastructureRef": {"kind": "K"}, "topology": {"version": "v1.33.0",
                "workers": {"machineDeployments": [{"name": "a"}], "machinePools": [{"name": "p"}]}}}}),
        );
        let tref = json!({"apiVersion": "x.example.com/v1", "kind": "XTemplate", "name": "t"});
        same::<ClusterClass>(
            &json!({"spec": {"infrastructure": {"templateRef": tref, "naming": 5}, "controlPlane": {"templateRef": tref, "naming": 5},
                "workers": {"machineDeployments": [{"class": "w", "bootstrap": {"templateRef": tref}, "metadata": 5, "template": {}}]},
                "patches": [{"name": "p", "external": {"generatePatchesExtension": "g"}}]}}),
            &json!({"spec": {"workers": {"machineDeployments": [{"class": "w"}]}, "patches": [{"name": "p", "external": {}}]}}),
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
            assert!(Cluster::decode(Version::V1Beta1, &json!({"spec": spec}).to_string()).is_err(), "{spec}");
        }
        for spec in [
            json!({"workers": {"machinePools": [{"template": 5}]}}),
            json!({"infrastructure": {"ref": {"uid": 5}}}),
            json!({"workers": {"machineDeployments": [{"template": {"bootstrap": {"ref": {"namespace": []}}}}]}}),
        ] {
            assert!(ClusterClass::decode(Version::V1Beta1, &json!({"spec": spec}).to_string()).is_err(), "{spec}");
        }
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
                "spec.topology.classRef.name: invalid type: integer `5`, expected a string; write it in quotes",
            ),
        ] {
            let text = json!({"spec": spec}).to_string();
            assert_eq!(Cluster::decode(Version::V1Beta1, &text).unwrap_err(), want);
        }
    }

    #[test]
    fn what_only_one_version_can_leave_out_reads_the_same() {
        // CONV-001, CONV-002, CONV-003, CONV-012, CONV-014, CONV-015
        let read = |spec: Value| {
            let object = json!({"metadata": {"name": "c", "labels": {"a": "b"}}, "spec": spec});
            let cluster = Cluster::decode(Version::V1Beta1, &object.to_string()).unwrap();
            assert_eq!((&*cluster.metadata.name, &*cluster.metadata.labels["a"]), ("c", "b"));
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
        let class = json!({"metadata": {"name": "c"}, "spec": {"variables": [{"name": "v", "schema": {}}], "patches": [{"name": "p"}]}});
        let class = ClusterClass::decode(Version::V1Beta1, &class.to_string()).unwrap();
        assert!(!class.spec.variables[0].required);
        assert!(!class.spec.patches[0].definitions.is_present());
    }
}
