//! The special behaviour of built-in kinds.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::kind_schema::ObjectFault;
use schema::field::{ErrorKind, ErrorValue};

/// The group of CustomResourceDefinitions.
pub(super) const EXTENSIONS: &str = "apiextensions.k8s.io";
/// The newer group of Events.
pub(super) const EVENTS: &str = "events.k8s.io";

/// A built-in kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    ConfigMap,
    CustomResourceDefinition,
    DaemonSet,
    Deployment,
    Event,
    Lease,
    MutatingWebhookConfiguration,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Secret,
    Service,
    ServiceAccount,
    ValidatingWebhookConfiguration,
    VolumeAttachment,
}

impl Builtin {
    /// Whether an update may omit the resourceVersion.
    pub(crate) fn may_be_updated_blindly(self) -> bool {
        matches!(
            self,
            Builtin::ConfigMap
                | Builtin::DaemonSet
                | Builtin::Deployment
                | Builtin::Event
                | Builtin::Namespace
                | Builtin::Node
                | Builtin::PersistentVolume
                | Builtin::PersistentVolumeClaim
                | Builtin::Pod
                | Builtin::Secret
        )
    }

    /// Whether `status` is a subresource.
    pub(super) fn has_status(self) -> bool {
        matches!(
            self,
            Builtin::CustomResourceDefinition
                | Builtin::DaemonSet
                | Builtin::Deployment
                | Builtin::Namespace
                | Builtin::Node
                | Builtin::PersistentVolume
                | Builtin::PersistentVolumeClaim
                | Builtin::Pod
                | Builtin::VolumeAttachment
        )
    }

    /// Whether a new object keeps its status: a Node reports it when created.
    pub(crate) fn is_created_with_status(self) -> bool {
        self == Builtin::Node
    }

    /// Whether objects of the kind can be evicted.
    pub(crate) fn can_be_evicted(self) -> bool {
        self == Builtin::Pod
    }

    /// Whether an update creates a missing object.
    pub(crate) fn is_created_by_updates(self) -> bool {
        matches!(self, Builtin::Event | Builtin::Lease)
    }

    /// Whether a deletion responds with the object instead of a Status.
    pub(crate) fn is_returned_when_deleted(self) -> bool {
        matches!(
            self,
            Builtin::PersistentVolume | Builtin::PersistentVolumeClaim | Builtin::Pod | Builtin::ServiceAccount
        )
    }

    /// Whether the server maintains the generation.
    pub(crate) fn has_generation(self) -> bool {
        matches!(
            self,
            Builtin::CustomResourceDefinition
                | Builtin::DaemonSet
                | Builtin::Deployment
                | Builtin::MutatingWebhookConfiguration
                | Builtin::ValidatingWebhookConfiguration
        )
    }

    /// How selectors read an absent field: booleans are false.
    pub(crate) fn absent(self, field: &str) -> &'static str {
        match (self, field) {
            (Builtin::Node, "spec.unschedulable") | (Builtin::Pod, "spec.hostNetwork") => "false",
            _ => "",
        }
    }

    /// Selectable fields with their JSON paths.
    pub(crate) fn selectable(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Builtin::Event => &[
                ("involvedObject.kind", ".involvedObject.kind"),
                ("involvedObject.namespace", ".involvedObject.namespace"),
                ("involvedObject.name", ".involvedObject.name"),
                ("involvedObject.uid", ".involvedObject.uid"),
                ("involvedObject.apiVersion", ".involvedObject.apiVersion"),
                ("involvedObject.resourceVersion", ".involvedObject.resourceVersion"),
                ("involvedObject.fieldPath", ".involvedObject.fieldPath"),
                ("reason", ".reason"),
                ("reportingComponent", ".reportingComponent"),
                ("source", ".source.component"),
                ("type", ".type"),
            ],
            Builtin::Secret => &[("type", ".type")],
            Builtin::Namespace => &[("status.phase", ".status.phase"), ("name", ".metadata.name")],
            Builtin::Node => &[("spec.unschedulable", ".spec.unschedulable")],
            Builtin::PersistentVolume | Builtin::PersistentVolumeClaim => &[("name", ".metadata.name")],
            Builtin::Pod => &[
                ("spec.nodeName", ".spec.nodeName"),
                ("spec.restartPolicy", ".spec.restartPolicy"),
                ("spec.schedulerName", ".spec.schedulerName"),
                ("spec.serviceAccountName", ".spec.serviceAccountName"),
                ("spec.hostNetwork", ".spec.hostNetwork"),
                ("status.phase", ".status.phase"),
                ("status.podIP", ".status.podIP"),
                ("status.nominatedNodeName", ".status.nominatedNodeName"),
            ],
            _ => &[],
        }
    }

    /// Fields that the server defaults, as far as they are unchanged.
    pub(crate) fn blanks(self, object: &Value) -> Vec<&'static [&'static str]> {
        let all: &[&'static [&'static str]] = match self {
            Builtin::CustomResourceDefinition => &[&["spec"], &["spec", "names"]],
            Builtin::Event => &[
                &["eventTime"],
                &["reportingComponent"],
                &["reportingController"],
                &["reportingInstance"],
                &["source"],
                &["deprecatedSource"],
            ],
            Builtin::Lease | Builtin::Namespace => &[&["spec"], &["status"]],
            Builtin::Node => &[&["spec"]],
            _ => &[],
        };
        let at = |path: &[&str]| path.iter().try_fold(object, |value, name| value.get(name));
        let is_blank = |value: &Value| value.is_null() || value.is_object() || value == "";
        all.iter().copied().filter(|path| at(path).is_none_or(is_blank)).collect()
    }

    /// Completes an object that is created or updated.
    pub(crate) fn complete(self, object: &mut Value) {
        match self {
            Builtin::Event => complete_event(object),
            Builtin::Namespace => complete_namespace(object),
            Builtin::Secret => complete_secret(object),
            _ => {}
        }
    }

    /// Completes a new object before it is stored.
    pub(crate) fn prepare_new(self, object: &mut Value) {
        match self {
            Builtin::Namespace => prepare_new_namespace(object),
            Builtin::Pod | Builtin::PersistentVolume | Builtin::PersistentVolumeClaim
                if object.pointer("/status/phase").is_none() =>
            {
                object["status"]["phase"] = json!("Pending");
            }
            Builtin::DaemonSet | Builtin::Deployment | Builtin::Node => {
                for name in ["spec", "status"] {
                    if !object[name].is_object() {
                        object[name] = json!({});
                    }
                }
            }
            _ => {}
        }
    }

    /// Errors of an object beyond its schema.
    pub(crate) fn faults(self, object: &Value, old: Option<&Value>) -> Vec<ObjectFault> {
        match self {
            Builtin::Secret => secret_faults(object, old),
            Builtin::ConfigMap => immutable_faults(object, old, &["data", "binaryData"]),
            Builtin::Node => node_faults(object, old),
            _ => Vec::new(),
        }
    }
}

/// Fields of Events that are present even if no client has set them.
fn complete_event(object: &mut Value) {
    let is_newer = object["apiVersion"].as_str().is_some_and(|version| version.starts_with(EVENTS));
    let Value::Object(members) = object else { return };
    members.entry("eventTime").or_insert(Value::Null);
    if !is_newer {
        members.entry("reportingComponent").or_insert_with(|| json!(""));
        members.entry("reportingInstance").or_insert_with(|| json!(""));
    }
}

fn complete_namespace(object: &mut Value) {
    let Some(name) = object.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned) else { return };
    if name.is_empty() {
        return;
    }
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        if labels.is_null() {
            *labels = json!({});
        }
        if let Value::Object(labels) = labels {
            labels.insert("kubernetes.io/metadata.name".to_owned(), json!(name));
        }
    }
}

fn prepare_new_namespace(object: &mut Value) {
    object["status"] = json!({"phase": "Active"});
    let finalizers = object.pointer("/spec/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    let kubernetes = json!("kubernetes");
    if !finalizers.contains(&kubernetes) {
        object["spec"]["finalizers"] = finalizers.into_iter().chain([kubernetes]).collect();
    }
}

/// Merges `stringData` into `data`, and defaults the type of a Secret.
fn complete_secret(object: &mut Value) {
    let Value::Object(members) = object else { return };
    if let Some(Value::Object(texts)) = members.remove("stringData") {
        let data = members.entry("data").or_insert_with(|| json!({}));
        if data.is_null() {
            *data = json!({});
        }
        if let Value::Object(data) = data {
            for (name, text) in texts {
                data.insert(name, json!(STANDARD.encode(text.as_str().unwrap_or_default())));
            }
        }
    }
    let kind = members.entry("type").or_insert_with(|| json!(""));
    if kind.as_str().is_none_or(str::is_empty) {
        *kind = json!("Opaque");
    }
}

fn fault(kind: ErrorKind, field: &str, value: ErrorValue, detail: &str) -> ObjectFault {
    ObjectFault { kind, field: field.to_owned(), value, detail: detail.to_owned() }
}

fn secret_faults(object: &Value, old: Option<&Value>) -> Vec<ObjectFault> {
    let mut faults = immutable_faults(object, old, &["data"]);
    if let Some(old) = old
        && old.get("type") != object.get("type")
    {
        let value = object.get("type").map_or(ErrorValue::NOTHING, ErrorValue::bounded);
        faults.push(fault(ErrorKind::Invalid, "type", value, "field is immutable"));
    }
    faults
}

/// A Node keeps its provider ID.
fn node_faults(object: &Value, old: Option<&Value>) -> Vec<ObjectFault> {
    let provider = |node: &Value| {
        node.pointer("/spec/providerID").and_then(Value::as_str).filter(|id| !id.is_empty()).map(str::to_owned)
    };
    let Some(before) = old.and_then(provider) else { return Vec::new() };
    if provider(object).as_deref() == Some(&*before) {
        return Vec::new();
    }
    let detail = "node updates may not change providerID except from \"\" to valid";
    vec![fault(ErrorKind::Forbidden, "spec.providerID", ErrorValue::NOTHING, detail)]
}

/// An immutable object keeps these fields, and stays immutable.
fn immutable_faults(object: &Value, old: Option<&Value>, fields: &[&str]) -> Vec<ObjectFault> {
    let Some(old) = old.filter(|old| old.get("immutable") == Some(&Value::Bool(true))) else { return Vec::new() };
    let mut faults = Vec::new();
    let detail = "field is immutable when `immutable` is set";
    if object.get("immutable") != Some(&Value::Bool(true)) {
        faults.push(fault(ErrorKind::Forbidden, "immutable", ErrorValue::NOTHING, detail));
    }
    let empty = Value::Object(Map::new());
    for name in fields {
        if old.get(name).unwrap_or(&empty) != object.get(name).unwrap_or(&empty) {
            faults.push(fault(ErrorKind::Forbidden, name, ErrorValue::NOTHING, detail));
        }
    }
    faults
}

/// Fields of Events with different names in the two groups: the name in the core group first.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Renames the fields of an Event for the group of the new version.
pub(super) fn convert_event(event: &mut Value, api_version: &str) {
    let Value::Object(members) = event else { return };
    for (core, new) in EVENT_FIELDS {
        let (from, to) = if api_version == "v1" { (new, core) } else { (core, new) };
        if let Some(value) = members.remove(from) {
            members.insert(to.to_owned(), value);
        }
    }
    if api_version == "v1" {
        for name in ["reportingComponent", "reportingInstance"] {
            members.entry(name).or_insert_with(|| json!(""));
        }
    } else {
        members.retain(|name, value| !(name.starts_with("reporting") && value == ""));
    }
}
