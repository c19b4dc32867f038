//! CustomResourceDefinitions: the kinds they define, and their status.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::builtin::EXTENSIONS;
use super::kind_schema::{KindSchema, ObjectFault};
use super::registry::{KindRegistry, PrinterColumn, ScalePaths, ServedResource, qualified};
use super::status::ApiError;
use super::store::{StoreKey, StoreState};
use model::hub::naming::{kind_faults, resource_part_faults, subdomain_faults};
use schema::field::{ErrorKind, ErrorValue};
use schema::openapi::ResourceSchemaError;
use schema::ssa;

/// Path of the schema in a version.
const SCHEMA: &str = "/schema/openAPIV3Schema";

/// A string inside an object; empty if absent.
pub(crate) fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn texts(value: &Value, pointer: &str) -> Vec<String> {
    list(value, pointer).iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

fn is_true(value: &Value, name: &str) -> bool {
    value.get(name) == Some(&Value::Bool(true))
}

/// The invalid schema of a version of a definition.
#[derive(Debug, thiserror::Error)]
#[error("version {version:?}: {source}")]
pub(super) struct VersionSchemaError {
    version: String,
    source: ResourceSchemaError,
}

/// The served versions of a definition.
///
/// # Errors
/// When a schema is invalid.
pub(super) fn resources(definition: &Value) -> Result<Vec<ServedResource>, VersionSchemaError> {
    let versions = list(definition, "/spec/versions");
    let storage =
        versions.iter().find(|version| is_true(version, "storage")).map_or("", |version| text(version, "/name"));
    let mut resources = Vec::new();
    for version in versions.iter().filter(|version| is_true(version, "served") || is_true(version, "storage")) {
        let schema = match version.pointer(SCHEMA) {
            Some(schema) => Some(Arc::new(
                KindSchema::compile(schema.clone())
                    .map_err(|source| VersionSchemaError { version: text(version, "/name").to_owned(), source })?,
            )),
            None => None,
        };
        resources.push(resource(definition, version, storage, schema));
    }
    Ok(resources)
}

fn resource(definition: &Value, version: &Value, storage: &str, schema: Option<Arc<KindSchema>>) -> ServedResource {
    let name = |field: &str| text(definition, &format!("/spec/names/{field}")).to_owned();
    let kind = name("kind");
    let or = |name: String, default: String| if name.is_empty() { default } else { name };
    let group = text(definition, "/spec/group").to_owned();
    let scale = version.pointer("/subresources/scale").map(|scale| ScalePaths {
        spec_replicas: text(scale, "/specReplicasPath").to_owned(),
        status_replicas: text(scale, "/statusReplicasPath").to_owned(),
        label_selector: text(scale, "/labelSelectorPath").to_owned(),
    });
    let own = text(version, "/name").to_owned();
    let deprecation = is_true(version, "deprecated").then(|| {
        let warning = text(version, "/deprecationWarning").to_owned();
        or(warning, format!("{} {kind} is deprecated", super::registry::api_version(&group, &own)))
    });
    ServedResource {
        list_kind: or(name("listKind"), format!("{kind}List")),
        plural: name("plural"),
        singular: or(name("singular"), kind.to_lowercase()),
        short_names: texts(definition, "/spec/names/shortNames"),
        categories: texts(definition, "/spec/names/categories"),
        is_namespaced: text(definition, "/spec/scope") != "Cluster",
        has_status: version.pointer("/subresources/status").is_some(),
        scale,
        columns: list(version, "/additionalPrinterColumns").iter().map(column).collect(),
        schema,
        is_storage: own == storage,
        is_served: is_true(version, "served"),
        storage_version: storage.to_owned(),
        deprecation,
        selectable_fields: list(version, "/selectableFields")
            .iter()
            .map(|field| text(field, "/jsonPath").to_owned())
            .collect(),
        builtin: None,
        group,
        kind,
        version: own,
    }
}

fn column(column: &Value) -> PrinterColumn {
    PrinterColumn {
        name: text(column, "/name").to_owned(),
        r#type: text(column, "/type").to_owned(),
        format: text(column, "/format").to_owned(),
        description: text(column, "/description").to_owned(),
        priority: column.get("priority").and_then(Value::as_i64).unwrap_or_default(),
        json_path: text(column, "/jsonPath").to_owned(),
    }
}

/// Defaults of a definition.
pub(super) fn complete(definition: &mut Value) {
    let kind = text(definition, "/spec/names/kind").to_owned();
    let Some(Value::Object(spec)) = definition.get_mut("spec") else { return };
    if let Some(Value::Object(names)) = spec.get_mut("names") {
        let is_empty =
            |names: &Map<String, Value>, name| names.get(name).and_then(Value::as_str).is_none_or(str::is_empty);
        if is_empty(names, "singular") {
            names.insert("singular".to_owned(), json!(kind.to_lowercase()));
        }
        if is_empty(names, "listKind") {
            names.insert("listKind".to_owned(), json!(format!("{kind}List")));
        }
    }
    spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
}

/// Errors of a definition.
pub(crate) fn faults(definition: &Value) -> Vec<ObjectFault> {
    let mut faults = Vec::new();
    let mut required = |pointer: &str, field: &str| {
        if text(definition, pointer).is_empty() {
            faults.push(ObjectFault {
                kind: ErrorKind::Required,
                field: field.to_owned(),
                value: ErrorValue::NOTHING,
                detail: String::new(),
            });
        }
    };
    required("/spec/group", "spec.group");
    required("/spec/scope", "spec.scope");
    required("/spec/names/plural", "spec.names.plural");
    required("/spec/names/kind", "spec.names.kind");
    let invalid = |field: &str, value: Value, detail: &str| ObjectFault {
        kind: ErrorKind::Invalid,
        field: field.to_owned(),
        value: ErrorValue::bounded(&value),
        detail: detail.to_owned(),
    };
    let name = text(definition, "/metadata/name");
    let wanted = qualified(text(definition, "/spec/names/plural"), text(definition, "/spec/group"));
    if name != wanted {
        faults.push(invalid("metadata.name", json!(name), "must be spec.names.plural+\".\"+spec.group"));
    }
    let versions = list(definition, "/spec/versions");
    // Each becomes a URL segment (DEC-45).
    let mut names = vec![
        ("spec.group".to_owned(), text(definition, "/spec/group"), subdomain_faults as fn(&str) -> Vec<String>),
        ("spec.names.plural".to_owned(), text(definition, "/spec/names/plural"), resource_part_faults),
        ("spec.names.kind".to_owned(), text(definition, "/spec/names/kind"), kind_faults),
    ];
    for (i, version) in versions.iter().enumerate() {
        names.push((format!("spec.versions[{i}].name"), text(version, "/name"), resource_part_faults));
    }
    for (field, text, check) in names {
        // Missing fields are reported separately.
        if !text.is_empty() || field.starts_with("spec.versions") {
            faults.extend(check(text).into_iter().map(|detail| invalid(&field, json!(text), &detail)));
        }
    }
    if versions.iter().filter(|version| is_true(version, "storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        faults.push(invalid("spec.versions", json!(texts_of(versions)), detail));
    }
    if !versions.iter().any(|version| is_true(version, "storage")) {
        faults.push(invalid("status.storedVersions", json!([]), "must have at least one stored version"));
    }
    for (i, version) in versions.iter().enumerate() {
        let field = format!("spec.versions[{i}].schema.openAPIV3Schema");
        match version.pointer(SCHEMA) {
            None => faults.push(ObjectFault {
                kind: ErrorKind::Required,
                field,
                value: ErrorValue::NOTHING,
                detail: "schemas are required".to_owned(),
            }),
            Some(schema) => {
                if let Err(why) = KindSchema::compile(schema.clone()) {
                    faults.push(invalid(&field, json!("(schema)"), &why.to_string()));
                }
            }
        }
    }
    faults.extend(metadata_faults(versions));
    faults
}

/// Schemas that specify more of the root `metadata` than a server allows.
///
/// Like kube-apiserver, one schema that all versions share is reported once, as `spec.validation`:
/// <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema>
fn metadata_faults(versions: &[Value]) -> Vec<ObjectFault> {
    let schemas: Vec<Option<&Value>> = versions.iter().map(|version| version.pointer(SCHEMA)).collect();
    let is_shared = schemas.iter().all(|schema| Some(schema) == schemas.first());
    let reported = if is_shared { 1 } else { schemas.len() };
    let mut faults = Vec::new();
    for (i, schema) in schemas.into_iter().enumerate().take(reported) {
        let metadata = schema.and_then(|schema| schema.pointer("/properties/metadata"));
        if metadata.is_some_and(|metadata| !restricts_names_only(metadata)) {
            let parent = if is_shared { "spec.validation".to_owned() } else { format!("spec.versions[{i}].schema") };
            faults.push(ObjectFault {
                kind: ErrorKind::Forbidden,
                field: format!("{parent}.openAPIV3Schema.properties[metadata]"),
                value: ErrorValue::NOTHING,
                detail:
                    "must not specify anything other than name and generateName, but metadata is implicitly specified"
                        .to_owned(),
            });
        }
    }
    faults
}

/// Whether a schema of `metadata` has only a type, a default, and the properties `name` and `generateName`.
fn restricts_names_only(metadata: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    };
    let are_names = |properties: &Value| {
        properties.as_object().is_some_and(|names| names.keys().all(|name| ["name", "generateName"].contains(&&**name)))
    };
    metadata.as_object().is_some_and(|members| {
        members.iter().all(|(name, value)| match &**name {
            "type" | "default" => true,
            "properties" => are_names(value),
            _ => is_empty(value),
        })
    })
}

fn texts_of(versions: &[Value]) -> Vec<String> {
    versions.iter().map(|version| text(version, "/name").to_owned()).collect()
}

/// Completes a new definition.
pub(crate) fn prepare_new(definition: &mut Value) {
    let stored: Vec<String> = list(definition, "/spec/versions")
        .iter()
        .filter(|version| is_true(version, "storage"))
        .map(|version| text(version, "/name").to_owned())
        .collect();
    definition["status"] =
        json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": stored});
}

/// The status of a definition whose kind is served.
fn accepted(definition: &Value, now: &str) -> Value {
    let mut status = definition.get("status").cloned().unwrap_or_else(|| json!({}));
    status["acceptedNames"] = definition.pointer("/spec/names").cloned().unwrap_or_default();
    let mut stored = texts(&status, "/storedVersions");
    for version in list(definition, "/spec/versions").iter().filter(|version| is_true(version, "storage")) {
        let name = text(version, "/name");
        if !stored.iter().any(|known| known == name) {
            stored.push(name.to_owned());
        }
    }
    status["storedVersions"] = json!(stored);
    let mut conditions = list(&status, "/conditions").to_vec();
    for (kind, reason, message) in [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ] {
        if !conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True") {
            conditions.retain(|condition| condition["type"] != kind);
            conditions.push(json!({"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason,
                "message": message}));
        }
    }
    status["conditions"] = json!(conditions);
    status
}

/// The definition with the server as the owner of its status fields.
fn owned_by_server(before: &Value, after: Value, now: &str, registry: &KindRegistry) -> Value {
    let Some(resource) = registry.stored(EXTENSIONS, "customresourcedefinitions") else { return after };
    let (api_version, merging) = (resource.api_version(), resource.merging());
    let request = ssa::ApplyRequest {
        subresource: "status",
        ..ssa::ApplyRequest::new("kube-apiserver", &api_version, now, &merging)
    };
    let managers = ssa::managers_of_update(before, &after, "status");
    match ssa::update(Some(before), &after, &managers, &request) {
        Ok(managers) => ssa::with_managers(after, &managers),
        Err(_) => after,
    }
}

/// Marks a definition as terminating.
pub(super) fn terminate(definition: &mut Value, now: &str) {
    let mut conditions = list(definition, "/status/conditions").to_vec();
    conditions.push(json!({"type": "Terminating", "status": "True", "lastTransitionTime": now,
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"}));
    definition["status"]["conditions"] = json!(conditions);
}

impl StoreState {
    /// Serves the current kind of a definition, or stops serving it.
    pub(super) fn serve(&mut self, place: &StoreKey, now: &str) {
        let (plural, group) = place.key.split_once('.').unwrap_or((&place.key, ""));
        let mut registry = (*self.registry).clone();
        let Some(definition) = self.get(place).cloned() else {
            registry.replace(group, plural, Vec::new());
            self.registry = Arc::new(registry);
            let kind: Arc<str> = place.key.clone();
            self.forget_kind(&kind);
            return;
        };
        let definition = definition.decode();
        let status = accepted(&definition, now);
        if definition.get("status") != Some(&status) {
            let mut value = definition.clone();
            value["status"] = status;
            let value = owned_by_server(&definition, value, now, &registry);
            self.put(place, value);
        }
        // Invalid definitions were rejected when they were written.
        let Ok(served) = resources(&definition) else { return };
        let storage = served.iter().find(|resource| resource.is_storage).cloned();
        registry.replace(group, plural, served);
        self.registry = Arc::new(registry);
        if let Some(storage) = storage {
            self.reread(&place.key, |object| {
                let mut object = object.clone();
                object["apiVersion"] = json!(storage.api_version());
                if let Some(schema) = &storage.schema {
                    schema.prune(&mut object);
                    schema.complete(&mut object);
                }
                object
            });
        }
    }
}

/// Stops creations of a kind that is being removed.
pub(crate) fn refuse_if_withdrawn(state: &StoreState, resource: &ServedResource) -> Result<(), ApiError> {
    if resource.builtin.is_none() && state.withdrawn.contains_key(&resource.qualified()) {
        let message = "create not allowed while custom resource definition is terminating";
        return Err(ApiError::new(http::StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message));
    }
    Ok(())
}

/// The kind of objects without a definition: all fields are preserved, and `status` is a subresource.
pub(super) fn assumed(api_version: &str, kind: &str, is_namespaced: bool) -> ServedResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let plural = model::hub::contract::plural(kind);
    let definition = json!({
        "spec": {"group": group, "scope": if is_namespaced { "Namespaced" } else { "Cluster" },
            "names": {"kind": kind, "plural": plural}},
    });
    let version = json!({"name": version, "served": true, "storage": true, "subresources": {"status": {}}});
    let name = text(&version, "/name").to_owned();
    resource(&definition, &version, &name, None)
}

/// Whether an object is a CustomResourceDefinition.
pub(super) fn is_definition(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
        && object["apiVersion"].as_str().is_some_and(|version| version.starts_with(EXTENSIONS))
}
