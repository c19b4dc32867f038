//! Columns of the kinds of workload clusters, as shown by kubectl.

use serde_json::{Value, json};

use super::cells::{AGE, CommonColumn, UNKNOWN};

const NONE: &str = "<none>";

/// The columns of a kind of workload clusters, besides the name.
pub(super) fn columns(group: &str, plural: &str) -> Option<&'static [CommonColumn]> {
    match (group, plural) {
        ("", "nodes") => Some(NODE),
        ("", "pods") => Some(POD),
        ("", "persistentvolumes") => Some(VOLUME),
        ("", "persistentvolumeclaims") => Some(CLAIM),
        ("apps", "daemonsets") => Some(DAEMON_SET),
        ("apps", "deployments") => Some(DEPLOYMENT),
        ("storage.k8s.io", "volumeattachments") => Some(ATTACHMENT),
        _ => None,
    }
}

const NODE: &[CommonColumn] = &[
    ("Status", "string", 0, |node, _| json!(node_status(node))),
    ("Roles", "string", 0, |node, _| json!(roles(node))),
    AGE,
    ("Version", "string", 0, |node, _| text(node, "/status/nodeInfo/kubeletVersion", "")),
    ("Internal-IP", "string", 1, |node, _| json!(address(node, "InternalIP"))),
    ("External-IP", "string", 1, |node, _| json!(address(node, "ExternalIP"))),
    ("OS-Image", "string", 1, |node, _| text(node, "/status/nodeInfo/osImage", UNKNOWN)),
    ("Kernel-Version", "string", 1, |node, _| text(node, "/status/nodeInfo/kernelVersion", UNKNOWN)),
    ("Container-Runtime", "string", 1, |node, _| text(node, "/status/nodeInfo/containerRuntimeVersion", UNKNOWN)),
];

const POD: &[CommonColumn] = &[
    ("Ready", "string", 0, |pod, _| json!(ready_containers(pod))),
    ("Status", "string", 0, |pod, _| json!(pod_status(pod))),
    ("Restarts", "string", 0, |pod, _| json!(restarts(pod).to_string())),
    AGE,
    ("IP", "string", 1, |pod, _| text(pod, "/status/podIP", NONE)),
    ("Node", "string", 1, |pod, _| text(pod, "/spec/nodeName", NONE)),
    ("Nominated Node", "string", 1, |pod, _| text(pod, "/status/nominatedNodeName", NONE)),
    ("Readiness Gates", "string", 1, |_, _| json!(NONE)),
];

const DAEMON_SET: &[CommonColumn] = &[
    ("Desired", "integer", 0, |set, _| json!(number(set, "/status/desiredNumberScheduled"))),
    ("Current", "integer", 0, |set, _| json!(number(set, "/status/currentNumberScheduled"))),
    ("Ready", "integer", 0, |set, _| json!(number(set, "/status/numberReady"))),
    ("Up-to-date", "integer", 0, |set, _| json!(number(set, "/status/updatedNumberScheduled"))),
    ("Available", "integer", 0, |set, _| json!(number(set, "/status/numberAvailable"))),
    ("Node Selector", "string", 0, |set, _| json!(labels(set, "/spec/template/spec/nodeSelector"))),
    AGE,
    ("Containers", "string", 1, |set, _| json!(containers(set, "name"))),
    ("Images", "string", 1, |set, _| json!(containers(set, "image"))),
    ("Selector", "string", 1, |set, _| json!(labels(set, "/spec/selector/matchLabels"))),
];

const DEPLOYMENT: &[CommonColumn] = &[
    ("Ready", "string", 0, |deployment, _| {
        json!(format!("{}/{}", number(deployment, "/status/readyReplicas"), number(deployment, "/spec/replicas")))
    }),
    ("Up-to-date", "integer", 0, |deployment, _| json!(number(deployment, "/status/updatedReplicas"))),
    ("Available", "integer", 0, |deployment, _| json!(number(deployment, "/status/availableReplicas"))),
    AGE,
    ("Containers", "string", 1, |deployment, _| json!(containers(deployment, "name"))),
    ("Images", "string", 1, |deployment, _| json!(containers(deployment, "image"))),
    ("Selector", "string", 1, |deployment, _| json!(labels(deployment, "/spec/selector/matchLabels"))),
];

const VOLUME: &[CommonColumn] = &[
    ("Capacity", "string", 0, |volume, _| text(volume, "/spec/capacity/storage", "")),
    ("Access Modes", "string", 0, |volume, _| json!(access_modes(volume, "/spec/accessModes"))),
    ("Reclaim Policy", "string", 0, |volume, _| text(volume, "/spec/persistentVolumeReclaimPolicy", "")),
    ("Status", "string", 0, |volume, _| json!(phase(volume))),
    ("Claim", "string", 0, |volume, _| json!(claim(volume))),
    ("StorageClass", "string", 0, |volume, _| text(volume, "/spec/storageClassName", "")),
    ("Reason", "string", 0, |volume, _| text(volume, "/status/reason", "")),
    AGE,
    ("VolumeMode", "string", 1, |volume, _| text(volume, "/spec/volumeMode", "<unset>")),
];

const CLAIM: &[CommonColumn] = &[
    ("Status", "string", 0, |claim, _| json!(phase(claim))),
    ("Volume", "string", 0, |claim, _| text(claim, "/spec/volumeName", "")),
    ("Capacity", "string", 0, |claim, _| text(claim, "/status/capacity/storage", "")),
    ("Access Modes", "string", 0, |claim, _| json!(access_modes(claim, "/status/accessModes"))),
    ("StorageClass", "string", 0, |claim, _| text(claim, "/spec/storageClassName", "")),
    AGE,
    ("VolumeMode", "string", 1, |claim, _| text(claim, "/spec/volumeMode", "<unset>")),
];

const ATTACHMENT: &[CommonColumn] = &[
    ("Attacher", "string", 0, |attachment, _| text(attachment, "/spec/attacher", "")),
    ("PV", "string", 0, |attachment, _| text(attachment, "/spec/source/persistentVolumeName", "")),
    ("Node", "string", 0, |attachment, _| text(attachment, "/spec/nodeName", "")),
    ("Attached", "boolean", 0, |attachment, _| json!(attachment.pointer("/status/attached") == Some(&json!(true)))),
    AGE,
];

/// A string of an object, or a placeholder if it is absent.
fn text(object: &Value, pointer: &str, absent: &str) -> Value {
    let text = object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    json!(text.unwrap_or(absent))
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

fn entries<'v>(object: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn is_true(object: &Value, name: &str) -> bool {
    object.get(name) == Some(&Value::Bool(true))
}

fn is_being_deleted(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null())
}

/// Whether the Node is ready and schedulable.
fn node_status(node: &Value) -> String {
    let ready = entries(node, "/status/conditions").find(|condition| condition["type"] == "Ready");
    let ready = match ready.map(|condition| condition["status"] == "True") {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    };
    let is_cordoned = node.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
    if is_cordoned { format!("{ready},SchedulingDisabled") } else { ready.to_owned() }
}

/// Roles of a Node by its labels, sorted.
fn roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    let role = |(name, value): (&String, &Value)| match name.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role.to_owned()).filter(|role| !role.is_empty()),
        None if name == "kubernetes.io/role" => value.as_str().filter(|role| !role.is_empty()).map(str::to_owned),
        None => None,
    };
    let mut roles: Vec<String> = labels.filter_map(role).collect();
    roles.sort();
    roles.dedup();
    if roles.is_empty() { NONE.to_owned() } else { roles.join(",") }
}

fn address(node: &Value, kind: &str) -> String {
    let found = entries(node, "/status/addresses").find(|address| address["type"] == kind);
    found.and_then(|address| address["address"].as_str()).unwrap_or(NONE).to_owned()
}

fn ready_containers(pod: &Value) -> String {
    let ready = entries(pod, "/status/containerStatuses").filter(|status| is_true(status, "ready")).count();
    format!("{ready}/{}", entries(pod, "/spec/containers").count())
}

fn restarts(pod: &Value) -> i64 {
    entries(pod, "/status/containerStatuses").map(|status| number(status, "/restartCount")).sum()
}

/// Status of a Pod in one word: the reason why it or a container does not run, or else its phase.
fn pod_status(pod: &Value) -> String {
    let reason = pod.pointer("/status/reason").and_then(Value::as_str).filter(|reason| !reason.is_empty());
    if is_being_deleted(pod) {
        return if reason == Some("NodeLost") { UNKNOWN_STATUS } else { "Terminating" }.to_owned();
    }
    // The first container with a reason counts.
    if let Some(why) = entries(pod, "/status/containerStatuses").find_map(stopped) {
        let runs = entries(pod, "/status/containerStatuses").any(|status| status.pointer("/state/running").is_some());
        return if why == "Completed" && runs { "Running".to_owned() } else { why };
    }
    reason.map_or_else(|| phase(pod), str::to_owned)
}

const UNKNOWN_STATUS: &str = "Unknown";

/// Reason why a container does not run; `None` if it runs, or is unknown.
fn stopped(status: &Value) -> Option<String> {
    let said = |pointer: &str| status.pointer(pointer).and_then(Value::as_str).filter(|reason| !reason.is_empty());
    if let Some(reason) = said("/state/waiting/reason").or_else(|| said("/state/terminated/reason")) {
        return Some(reason.to_owned());
    }
    let ended = status.pointer("/state/terminated")?;
    Some(match number(ended, "/signal") {
        0 => format!("ExitCode:{}", number(ended, "/exitCode")),
        signal => format!("Signal:{signal}"),
    })
}

fn phase(object: &Value) -> String {
    let is_volume = matches!(object["kind"].as_str(), Some("PersistentVolume" | "PersistentVolumeClaim"));
    if is_volume && is_being_deleted(object) {
        return "Terminating".to_owned();
    }
    object.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A field of the containers of a template, comma-separated.
fn containers(object: &Value, field: &str) -> String {
    let each = entries(object, "/spec/template/spec/containers").filter_map(|container| container[field].as_str());
    each.collect::<Vec<_>>().join(",")
}

fn labels(object: &Value, pointer: &str) -> String {
    let labels = object.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    let mut labels: Vec<String> =
        labels.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default())).collect();
    labels.sort();
    if labels.is_empty() { NONE.to_owned() } else { labels.join(",") }
}

fn access_modes(object: &Value, pointer: &str) -> String {
    let short = |mode: &Value| match mode.as_str()? {
        "ReadWriteOnce" => Some("RWO"),
        "ReadOnlyMany" => Some("ROX"),
        "ReadWriteMany" => Some("RWX"),
        "ReadWriteOncePod" => Some("RWOP"),
        _ => None,
    };
    entries(object, pointer).filter_map(short).collect::<Vec<_>>().join(",")
}

/// `namespace/name` of the claim of a volume.
fn claim(volume: &Value) -> String {
    let part = |name: &str| volume["spec"]["claimRef"][name].as_str().unwrap_or_default();
    if part("name").is_empty() { String::new() } else { format!("{}/{}", part("namespace"), part("name")) }
}
