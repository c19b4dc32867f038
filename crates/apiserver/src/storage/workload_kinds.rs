//! Built-in kinds of a workload cluster, besides those of every server: Nodes, Pods and related kinds.
//!
//! Schemas contain the fields that the program and kubectl read, and all map lists; other fields are preserved.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::builtin::Builtin;
use super::kinds::{BuiltinKind, everywhere, keyed, object, reference, registry, text, texts};
use super::registry::KindRegistry;
use model::hub::NODE_INFO;

const APPS: &str = "apps";
const STORAGE: &str = "storage.k8s.io";

/// The kinds of a workload cluster, shared by all of their APIs.
pub(crate) fn workload_registry() -> Arc<KindRegistry> {
    static KINDS: LazyLock<Arc<KindRegistry>> = LazyLock::new(|| {
        let own = [
            BuiltinKind::cluster_scoped(Builtin::Node, "", ("Node", "nodes", &["no"])).with_schema(node),
            BuiltinKind::namespaced(Builtin::Pod, "", ("Pod", "pods", &["po"])).with_schema(pod),
            BuiltinKind::namespaced(Builtin::DaemonSet, APPS, ("DaemonSet", "daemonsets", &["ds"]))
                .with_schema(daemon_set),
            BuiltinKind::namespaced(Builtin::Deployment, APPS, ("Deployment", "deployments", &["deploy"]))
                .with_schema(deployment),
            BuiltinKind::cluster_scoped(
                Builtin::PersistentVolume,
                "",
                ("PersistentVolume", "persistentvolumes", &["pv"]),
            )
            .with_schema(volume),
            BuiltinKind::namespaced(
                Builtin::PersistentVolumeClaim,
                "",
                ("PersistentVolumeClaim", "persistentvolumeclaims", &["pvc"]),
            )
            .with_schema(volume_claim),
            BuiltinKind::cluster_scoped(
                Builtin::VolumeAttachment,
                STORAGE,
                ("VolumeAttachment", "volumeattachments", &[]),
            )
            .with_schema(volume_attachment),
        ];
        registry(everywhere().into_iter().chain(own))
    });
    KINDS.clone()
}

/// An object that preserves unlisted fields.
fn open(properties: Value) -> Value {
    let mut schema = object(properties);
    schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
    schema
}

/// An open object with the keys of a map list.
fn entry(required: &[&str], properties: Value) -> Value {
    let mut schema = open(properties);
    schema["required"] = json!(required);
    schema
}

fn atomic(item: Value) -> Value {
    json!({"type": "array", "x-kubernetes-list-type": "atomic", "items": item})
}

fn number() -> Value {
    json!({"type": "integer", "format": "int32"})
}

fn flag() -> Value {
    json!({"type": "boolean"})
}

/// Quantities: strings such as `8Gi`, or numbers.
fn quantities() -> Value {
    json!({"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}})
}

fn conditions() -> Value {
    keyed(
        "type",
        entry(
            &["type", "status"],
            json!({"lastTransitionTime": time(), "message": text(), "reason": text(),
        "status": text(), "type": text()}),
        ),
    )
}

fn time() -> Value {
    json!({"type": "string", "nullable": true})
}

fn node() -> Value {
    object(json!({"spec": node_spec(), "status": node_status()}))
}

fn node_spec() -> Value {
    let taint =
        entry(&["key", "effect"], json!({"effect": text(), "key": text(), "timeAdded": time(), "value": text()}));
    let mut ranges = atomic(text());
    ranges["x-kubernetes-list-type"] = json!("set");
    open(json!({"podCIDR": text(), "podCIDRs": ranges, "providerID": text(), "taints": atomic(taint),
        "unschedulable": flag()}))
}

fn node_status() -> Value {
    let address = entry(&["type", "address"], json!({"address": text(), "type": text()}));
    let info: Value =
        NODE_INFO.into_iter().map(|name| (name.to_owned(), text())).collect::<serde_json::Map<_, _>>().into();
    let image = open(json!({"names": atomic(text()), "sizeBytes": {"type": "integer"}}));
    let attached = open(json!({"devicePath": text(), "name": text()}));
    open(json!({"addresses": keyed("type", address), "allocatable": quantities(), "capacity": quantities(),
        "conditions": conditions(), "images": atomic(image), "nodeInfo": open(info), "phase": text(),
        "volumesAttached": atomic(attached), "volumesInUse": atomic(text())}))
}

fn pod() -> Value {
    object(json!({"spec": pod_spec(), "status": pod_status()}))
}

/// A map list with several keys.
fn keyed_by(keys: &[&str], item: Value) -> Value {
    let mut list = keyed("", item);
    list["x-kubernetes-list-map-keys"] = json!(keys);
    list
}

fn container() -> Value {
    let variable = entry(&["name"], json!({"name": text(), "value": text()}));
    let port = entry(
        &["containerPort"],
        json!({"containerPort": number(), "hostPort": number(), "name": text(),
        "protocol": {"type": "string", "default": "TCP"}}),
    );
    let mount = entry(&["mountPath"], json!({"mountPath": text(), "name": text(), "readOnly": flag()}));
    let device = entry(&["devicePath"], json!({"devicePath": text(), "name": text()}));
    entry(
        &["name"],
        json!({"args": atomic(text()), "command": atomic(text()), "env": keyed("name", variable),
        "image": text(), "imagePullPolicy": text(), "name": text(),
        "ports": keyed_by(&["containerPort", "protocol"], port),
        "resources": open(json!({"limits": quantities(), "requests": quantities()})),
        "volumeDevices": keyed("devicePath", device), "volumeMounts": keyed("mountPath", mount)}),
    )
}

fn pod_spec() -> Value {
    let named = |properties: Value| keyed("name", entry(&["name"], properties));
    let toleration = open(json!({"effect": text(), "key": text(), "operator": text(), "value": text()}));
    let containers = keyed("name", container());
    let mut selector = texts();
    selector["x-kubernetes-map-type"] = json!("atomic");
    let mut spec = open(json!({"containers": containers, "ephemeralContainers": containers,
        "hostNetwork": flag(), "imagePullSecrets": named(json!({"name": text()})), "initContainers": containers,
        "nodeName": text(), "nodeSelector": selector, "priority": number(), "priorityClassName": text(),
        "restartPolicy": {"type": "string", "default": "Always"}, "serviceAccountName": text(),
        "terminationGracePeriodSeconds": {"type": "integer", "default": 30}, "tolerations": atomic(toleration),
        "volumes": named(json!({"name": text()}))}));
    spec["required"] = json!(["containers"]);
    spec
}

fn pod_status() -> Value {
    let state = open(json!({}));
    let container = entry(
        &["name"],
        json!({"image": text(), "name": text(), "ready": flag(), "restartCount": number(),
        "started": flag(), "state": state}),
    );
    let containers = atomic(container);
    let address = entry(&["ip"], json!({"ip": text()}));
    open(json!({"conditions": conditions(), "containerStatuses": containers, "hostIP": text(),
        "initContainerStatuses": containers, "message": text(), "nominatedNodeName": text(), "phase": text(),
        "podIP": text(), "podIPs": keyed("ip", address), "qosClass": text(), "reason": text(), "startTime": time()}))
}

/// The spec of a kind that creates Pods from a template.
fn of_template(own: Value) -> Value {
    let template = open(json!({"spec": pod_spec()}));
    let mut selector = open(json!({"matchLabels": texts()}));
    selector["x-kubernetes-map-type"] = json!("atomic");
    let mut spec = open(json!({"minReadySeconds": number(), "selector": selector, "template": template}));
    if let (Some(all), Value::Object(own)) = (spec["properties"].as_object_mut(), own) {
        all.extend(own);
    }
    spec["required"] = json!(["selector", "template"]);
    spec
}

/// The status of such a kind, with these counters.
fn counts(names: &[&str]) -> Value {
    let mut status = open(json!({"conditions": conditions(), "observedGeneration": {"type": "integer"}}));
    for name in names {
        status["properties"][name] = number();
    }
    status
}

fn daemon_set() -> Value {
    let status = counts(&[
        "currentNumberScheduled",
        "desiredNumberScheduled",
        "numberAvailable",
        "numberMisscheduled",
        "numberReady",
        "numberUnavailable",
        "updatedNumberScheduled",
    ]);
    object(json!({"spec": of_template(json!({})), "status": status}))
}

fn deployment() -> Value {
    let replicas = json!({"type": "integer", "format": "int32", "default": 1});
    let status = counts(&["availableReplicas", "readyReplicas", "replicas", "unavailableReplicas", "updatedReplicas"]);
    object(json!({"spec": of_template(json!({"paused": flag(), "replicas": replicas})), "status": status}))
}

fn volume() -> Value {
    let spec = open(json!({"accessModes": atomic(text()), "capacity": quantities(), "claimRef": reference(),
        "persistentVolumeReclaimPolicy": {"type": "string", "default": "Retain"}, "storageClassName": text(),
        "volumeMode": {"type": "string", "default": "Filesystem"}}));
    object(json!({"spec": spec, "status": open(json!({"message": text(), "phase": text(), "reason": text()}))}))
}

fn volume_claim() -> Value {
    let spec = open(json!({"accessModes": atomic(text()), "resources": open(json!({"requests": quantities()})),
        "storageClassName": text(), "volumeMode": {"type": "string", "default": "Filesystem"}, "volumeName": text()}));
    let status = open(json!({"accessModes": atomic(text()), "capacity": quantities(), "conditions": conditions(),
        "phase": text()}));
    object(json!({"spec": spec, "status": status}))
}

fn volume_attachment() -> Value {
    let spec = open(json!({"attacher": text(), "nodeName": text(),
        "source": open(json!({"persistentVolumeName": text()}))}));
    object(json!({"spec": spec, "status": open(json!({"attached": flag()}))}))
}
