//! Kinds that a server has from the start, and what it does to their objects besides.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::registry::{Column, Resource};
use super::structure::{Fault, Structure};
use crate::field::{ErrorKind, Shown};

/// A kind of the server itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builtin {
    ConfigMap,
    CustomResourceDefinition,
    Event,
    Lease,
    MutatingWebhookConfiguration,
    Namespace,
    Secret,
    ServiceAccount,
    ValidatingWebhookConfiguration,
}

impl Builtin {
    /// Whether an update may do without a resourceVersion.
    pub(in crate::embedded) fn may_be_updated_blindly(self) -> bool {
        matches!(self, Builtin::ConfigMap | Builtin::Event | Builtin::Namespace | Builtin::Secret)
    }

    /// Whether an update creates what is absent.
    pub(in crate::embedded) fn is_created_by_updates(self) -> bool {
        matches!(self, Builtin::Event | Builtin::Lease)
    }

    /// Whether a deletion answers with the object instead of a Status.
    pub(in crate::embedded) fn is_returned_when_deleted(self) -> bool {
        matches!(self, Builtin::ServiceAccount)
    }

    /// Whether the server counts changes of the spec.
    pub(in crate::embedded) fn has_generation(self) -> bool {
        matches!(
            self,
            Builtin::CustomResourceDefinition
                | Builtin::MutatingWebhookConfiguration
                | Builtin::ValidatingWebhookConfiguration
        )
    }

    /// Fields by which selectors may select, with their JSON paths.
    pub(in crate::embedded) fn selectable(self) -> &'static [(&'static str, &'static str)] {
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
            _ => &[],
        }
    }

    /// What objects of the kind have before anybody gives it to them, as far as it is still so.
    pub(in crate::embedded) fn blanks(self, object: &Value) -> Vec<&'static [&'static str]> {
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
            _ => &[],
        };
        let at = |path: &[&str]| path.iter().try_fold(object, |value, name| value.get(name));
        let is_blank = |value: &Value| value.is_null() || value.is_object() || value == "";
        all.iter().copied().filter(|path| at(path).is_none_or(is_blank)).collect()
    }

    /// Completes an object that is created or written.
    pub(in crate::embedded) fn complete(self, object: &mut Value) {
        match self {
            Builtin::Event => complete_event(object),
            Builtin::Namespace => complete_namespace(object),
            Builtin::Secret => complete_secret(object),
            _ => {}
        }
    }

    /// What the server does to a new object before it stores it.
    pub(in crate::embedded) fn prepare_new(self, object: &mut Value) {
        if self == Builtin::Namespace {
            object["status"] = json!({"phase": "Active"});
            let finalizers = object.pointer("/spec/finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
            let kubernetes = json!("kubernetes");
            if !finalizers.contains(&kubernetes) {
                object["spec"]["finalizers"] = finalizers.into_iter().chain([kubernetes]).collect();
            }
        }
    }

    /// What is wrong with an object that its schema cannot say.
    pub(in crate::embedded) fn faults(self, object: &Value, old: Option<&Value>) -> Vec<Fault> {
        match self {
            Builtin::Secret => secret_faults(object, old),
            Builtin::ConfigMap => immutable_faults(object, old, &["data", "binaryData"]),
            _ => Vec::new(),
        }
    }
}

/// Some fields of Events are there even when nobody has given them.
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

/// `stringData` is written into `data`, and a Secret without a type is opaque.
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

fn fault(kind: ErrorKind, field: &str, value: Shown, detail: &str) -> Fault {
    Fault { kind, field: field.to_owned(), value, detail: detail.to_owned() }
}

fn secret_faults(object: &Value, old: Option<&Value>) -> Vec<Fault> {
    let mut faults = immutable_faults(object, old, &["data"]);
    if let Some(old) = old
        && old.get("type") != object.get("type")
    {
        let value = object.get("type").map_or(Shown::NOTHING, Shown::bounded);
        faults.push(fault(ErrorKind::Invalid, "type", value, "field is immutable"));
    }
    faults
}

/// An object that is immutable keeps these fields, and stays immutable.
fn immutable_faults(object: &Value, old: Option<&Value>, fields: &[&str]) -> Vec<Fault> {
    let Some(old) = old.filter(|old| old.get("immutable") == Some(&Value::Bool(true))) else { return Vec::new() };
    let mut faults = Vec::new();
    let detail = "field is immutable when `immutable` is set";
    if object.get("immutable") != Some(&Value::Bool(true)) {
        faults.push(fault(ErrorKind::Forbidden, "immutable", Shown::NOTHING, detail));
    }
    let empty = Value::Object(Map::new());
    for name in fields {
        if old.get(name).unwrap_or(&empty) != object.get(name).unwrap_or(&empty) {
            faults.push(fault(ErrorKind::Forbidden, name, Shown::NOTHING, detail));
        }
    }
    faults
}

fn text() -> Value {
    json!({"type": "string"})
}

fn texts() -> Value {
    json!({"type": "object", "additionalProperties": text()})
}

fn bytes() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string", "format": "byte"}})
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn keyed(key: &str, item: Value) -> Value {
    json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key], "items": item})
}

/// A reference to an object.
fn reference() -> Value {
    let mut reference = object(json!({"apiVersion": text(), "fieldPath": text(), "kind": text(), "name": text(),
        "namespace": text(), "resourceVersion": text(), "uid": text()}));
    reference["x-kubernetes-map-type"] = json!("atomic");
    reference
}

fn config_map() -> Value {
    object(json!({"binaryData": bytes(), "data": texts(), "immutable": {"type": "boolean"}}))
}

fn secret() -> Value {
    object(json!({"data": bytes(), "immutable": {"type": "boolean"}, "stringData": texts(), "type": text()}))
}

fn namespace() -> Value {
    let time = json!({"type": "string"});
    let mut condition = object(
        json!({"lastTransitionTime": time, "message": text(), "reason": text(), "status": text(), "type": text()}),
    );
    condition["required"] = json!(["type", "status"]);
    object(json!({
        "spec": object(json!({"finalizers": {"type": "array", "items": text(), "x-kubernetes-list-type": "atomic"}})),
        "status": object(json!({"conditions": keyed("type", condition), "phase": text()})),
    }))
}

fn service_account() -> Value {
    let mut local = object(json!({"name": text()}));
    local["x-kubernetes-map-type"] = json!("atomic");
    object(json!({
        "automountServiceAccountToken": {"type": "boolean"},
        "imagePullSecrets": {"type": "array", "items": local, "x-kubernetes-list-type": "atomic"},
        "secrets": keyed("name", reference()),
    }))
}

fn lease() -> Value {
    let number = json!({"type": "integer", "format": "int32"});
    object(json!({"spec": object(json!({"acquireTime": text(), "holderIdentity": text(),
        "leaseDurationSeconds": number, "leaseTransitions": number, "preferredHolder": text(), "renewTime": text(),
        "strategy": text()}))}))
}

fn event() -> Value {
    let number = json!({"type": "integer", "format": "int32"});
    let source = object(json!({"component": text(), "host": text()}));
    let series = object(json!({"count": number, "lastObservedTime": text()}));
    object(json!({"action": text(), "count": number, "eventTime": {"type": "string", "nullable": true},
        "firstTimestamp": {"type": "string", "nullable": true}, "involvedObject": reference(),
        "lastTimestamp": {"type": "string", "nullable": true}, "message": text(), "reason": text(),
        "related": reference(), "reportingComponent": text(), "reportingInstance": text(), "series": series,
        "source": source, "type": text()}))
}

/// The same as `event`, as its newer group names the fields.
fn new_event() -> Value {
    let number = json!({"type": "integer", "format": "int32"});
    let source = object(json!({"component": text(), "host": text()}));
    let series = object(json!({"count": number, "lastObservedTime": text()}));
    object(json!({"action": text(), "deprecatedCount": number,
        "deprecatedFirstTimestamp": {"type": "string", "nullable": true},
        "deprecatedLastTimestamp": {"type": "string", "nullable": true}, "deprecatedSource": source,
        "eventTime": {"type": "string", "nullable": true}, "note": text(), "reason": text(), "regarding": reference(),
        "related": reference(), "reportingController": text(), "reportingInstance": text(), "series": series,
        "type": text()}))
}

/// Which fields of an Event its two groups name differently: the core group's name first.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Renames the fields of an Event as the group of the new version has them.
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

/// Of definitions only what is a list of a special kind; whether the rest makes sense is looked at where it is used.
fn custom_resource_definition() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut condition = open.clone();
    condition["required"] = json!(["type", "status"]);
    condition["properties"] = json!({"lastTransitionTime": text(), "message": text(), "reason": text(),
        "status": text(), "type": text()});
    let mut conditions = keyed("type", condition);
    conditions["nullable"] = json!(true);
    let names = object(json!({"categories": {"type": "array", "items": text()}, "kind": text(), "listKind": text(),
        "plural": text(), "shortNames": {"type": "array", "items": text()}, "singular": text()}));
    object(json!({"spec": open, "status": object(json!({"acceptedNames": names, "conditions": conditions,
        "storedVersions": {"type": "array", "items": text()}}))}))
}

struct Row {
    builtin: Builtin,
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    is_namespaced: bool,
    schema: Option<fn() -> Value>,
    is_storage: bool,
}

const fn row(
    builtin: Builtin,
    group: &'static str,
    version: &'static str,
    names: (&'static str, &'static str, &'static [&'static str]),
    is_namespaced: bool,
    schema: Option<fn() -> Value>,
) -> Row {
    let (kind, plural, short_names) = names;
    Row { builtin, group, version, kind, plural, short_names, is_namespaced, schema, is_storage: true }
}

/// The group of CustomResourceDefinitions.
pub(super) const EXTENSIONS: &str = "apiextensions.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
/// The newer group of Events.
pub(super) const EVENTS: &str = "events.k8s.io";

/// The kinds of the server itself.
pub(in crate::embedded) fn resources() -> Vec<Resource> {
    let mut rows = vec![
        row(Builtin::ConfigMap, "", "v1", ("ConfigMap", "configmaps", &["cm"]), true, Some(config_map)),
        row(Builtin::Event, "", "v1", ("Event", "events", &["ev"]), true, Some(event)),
        row(Builtin::Namespace, "", "v1", ("Namespace", "namespaces", &["ns"]), false, Some(namespace)),
        row(Builtin::Secret, "", "v1", ("Secret", "secrets", &[]), true, Some(secret)),
        row(
            Builtin::ServiceAccount,
            "",
            "v1",
            ("ServiceAccount", "serviceaccounts", &["sa"]),
            true,
            Some(service_account),
        ),
        row(Builtin::Lease, "coordination.k8s.io", "v1", ("Lease", "leases", &[]), true, Some(lease)),
        row(
            Builtin::CustomResourceDefinition,
            EXTENSIONS,
            "v1",
            ("CustomResourceDefinition", "customresourcedefinitions", &["crd", "crds"]),
            false,
            Some(custom_resource_definition),
        ),
        row(
            Builtin::MutatingWebhookConfiguration,
            ADMISSION,
            "v1",
            ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", &[]),
            false,
            None,
        ),
        row(
            Builtin::ValidatingWebhookConfiguration,
            ADMISSION,
            "v1",
            ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", &[]),
            false,
            None,
        ),
    ];
    let newer = row(Builtin::Event, EVENTS, "v1", ("Event", "events", &["ev"]), true, Some(new_event));
    rows.push(Row { is_storage: false, ..newer });
    rows.into_iter().map(Row::into_resource).collect()
}

impl Row {
    fn into_resource(self) -> Resource {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let schema = self.schema.map(|schema| {
            Arc::new(Structure::compile(schema()).expect("the schemas of this file have the shape of schemas"))
        });
        let is_definition = self.builtin == Builtin::CustomResourceDefinition;
        Resource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            kind: self.kind.to_owned(),
            list_kind: format!("{}List", self.kind),
            plural: self.plural.to_owned(),
            singular: self.kind.to_lowercase(),
            short_names: owned(self.short_names),
            categories: if is_definition { owned(&["api-extensions"]) } else { Vec::new() },
            is_namespaced: self.is_namespaced,
            has_status: is_definition || self.builtin == Builtin::Namespace,
            scale: None,
            columns: self.builtin.columns(),
            schema,
            is_storage: self.is_storage,
            is_served: true,
            storage_version: self.version.to_owned(),
            deprecation: None,
            selectable_fields: Vec::new(),
            builtin: Some(self.builtin),
        }
    }
}

impl Builtin {
    fn columns(self) -> Vec<Column> {
        let column = |name: &str, r#type: &str, json_path: &str| Column {
            name: name.to_owned(),
            r#type: r#type.to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            json_path: json_path.to_owned(),
        };
        let age = || column("Age", "date", ".metadata.creationTimestamp");
        match self {
            Builtin::Namespace => vec![column("Status", "string", ".status.phase"), age()],
            Builtin::Secret => vec![column("Type", "string", ".type"), age()],
            Builtin::Lease => vec![column("Holder", "string", ".spec.holderIdentity"), age()],
            Builtin::Event => vec![
                column("Last Seen", "date", ".lastTimestamp"),
                column("Type", "string", ".type"),
                column("Reason", "string", ".reason"),
                column("Message", "string", ".message"),
            ],
            _ => Vec::new(),
        }
    }
}
