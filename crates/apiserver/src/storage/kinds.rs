//! Built-in kinds of every server and of a management cluster: names, schemas and columns.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::builtin::{Builtin, EVENTS, EXTENSIONS};
use super::kind_schema::KindSchema;
use super::registry::{KindRegistry, PrinterColumn, ScalePaths, ServedResource};

const ADMISSION: &str = "admissionregistration.k8s.io";
/// The version of all built-in kinds.
const VERSION: &str = "v1";

/// The kinds of a management cluster.
pub(crate) fn management_registry() -> Arc<KindRegistry> {
    static KINDS: LazyLock<Arc<KindRegistry>> =
        LazyLock::new(|| registry(everywhere().into_iter().chain(extensions())));
    KINDS.clone()
}

/// Compiles the schemas of kinds.
pub(super) fn registry(rows: impl Iterator<Item = BuiltinKind>) -> Arc<KindRegistry> {
    Arc::new(rows.map(BuiltinKind::into_resource).collect())
}

/// The built-in kinds of every server.
pub(super) fn everywhere() -> Vec<BuiltinKind> {
    let newer = BuiltinKind::namespaced(Builtin::Event, EVENTS, ("Event", "events", &["ev"])).with_schema(new_event);
    vec![
        BuiltinKind { is_storage: false, ..newer },
        BuiltinKind::namespaced(Builtin::ConfigMap, "", ("ConfigMap", "configmaps", &["cm"])).with_schema(config_map),
        BuiltinKind::namespaced(Builtin::Event, "", ("Event", "events", &["ev"])).with_schema(event),
        BuiltinKind::cluster_scoped(Builtin::Namespace, "", ("Namespace", "namespaces", &["ns"]))
            .with_schema(namespace),
        BuiltinKind::namespaced(Builtin::Secret, "", ("Secret", "secrets", &[])).with_schema(secret),
        BuiltinKind::namespaced(Builtin::Service, "", ("Service", "services", &["svc"])),
        BuiltinKind::namespaced(Builtin::ServiceAccount, "", ("ServiceAccount", "serviceaccounts", &["sa"]))
            .with_schema(service_account),
        BuiltinKind::namespaced(Builtin::Lease, "coordination.k8s.io", ("Lease", "leases", &[])).with_schema(lease),
    ]
}

/// Definitions of kinds, and webhook configurations.
fn extensions() -> Vec<BuiltinKind> {
    vec![
        BuiltinKind::cluster_scoped(
            Builtin::CustomResourceDefinition,
            EXTENSIONS,
            ("CustomResourceDefinition", "customresourcedefinitions", &["crd", "crds"]),
        )
        .with_schema(custom_resource_definition),
        BuiltinKind::cluster_scoped(
            Builtin::MutatingWebhookConfiguration,
            ADMISSION,
            ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", &[]),
        ),
        BuiltinKind::cluster_scoped(
            Builtin::ValidatingWebhookConfiguration,
            ADMISSION,
            ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", &[]),
        ),
    ]
}

/// Kind, resource and short names.
type KindNames = (&'static str, &'static str, &'static [&'static str]);

impl BuiltinKind {
    /// A kind of objects in namespaces, without a schema.
    pub(super) const fn namespaced(builtin: Builtin, group: &'static str, names: KindNames) -> Self {
        BuiltinKind { is_namespaced: true, ..BuiltinKind::cluster_scoped(builtin, group, names) }
    }

    /// A kind of objects without a namespace, without a schema.
    pub(super) const fn cluster_scoped(builtin: Builtin, group: &'static str, names: KindNames) -> Self {
        let (kind, plural, short_names) = names;
        BuiltinKind { builtin, group, kind, plural, short_names, is_namespaced: false, schema: None, is_storage: true }
    }

    /// The same with a schema.
    pub(super) const fn with_schema(self, schema: fn() -> Value) -> Self {
        BuiltinKind { schema: Some(schema), ..self }
    }

    fn into_resource(self) -> ServedResource {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let schema = self.schema.map(|schema| {
            Arc::new(KindSchema::compile(schema()).expect("the schemas of this file have the shape of schemas"))
        });
        let is_definition = self.builtin == Builtin::CustomResourceDefinition;
        ServedResource {
            group: self.group.to_owned(),
            version: VERSION.to_owned(),
            kind: self.kind.to_owned(),
            list_kind: format!("{}List", self.kind),
            plural: self.plural.to_owned(),
            singular: self.kind.to_lowercase(),
            short_names: owned(self.short_names),
            categories: if is_definition { owned(&["api-extensions"]) } else { Vec::new() },
            is_namespaced: self.is_namespaced,
            has_status: self.builtin.has_status(),
            scale: (self.builtin == Builtin::Deployment).then(ScalePaths::of_replicas),
            columns: self.builtin.columns(),
            schema,
            is_storage: self.is_storage,
            is_served: true,
            storage_version: VERSION.to_owned(),
            deprecation: None,
            selectable_fields: Vec::new(),
            builtin: Some(self.builtin),
        }
    }
}

impl Builtin {
    fn columns(self) -> Vec<PrinterColumn> {
        let column = |name: &str, r#type: &str, json_path: &str| PrinterColumn {
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

pub(super) struct BuiltinKind {
    builtin: Builtin,
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    is_namespaced: bool,
    schema: Option<fn() -> Value>,
    is_storage: bool,
}

/// Only the list types of definitions; the rest is validated where it is used.
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

pub(super) fn text() -> Value {
    json!({"type": "string"})
}

pub(super) fn texts() -> Value {
    json!({"type": "object", "additionalProperties": text()})
}

fn bytes() -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string", "format": "byte"}})
}

pub(super) fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

pub(super) fn keyed(key: &str, item: Value) -> Value {
    json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key], "items": item})
}

/// An object reference.
pub(super) fn reference() -> Value {
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

/// The schema of `event` with the field names of the newer group.
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
