//! Validation of `metadata`, which is equal for every kind.

use serde_json::{Map, Value, json};

use super::kind_schema::ObjectFault;
use super::registry::ServedResource;
use super::status::ApiError;
use model::hub::naming::{label_key_faults, label_value_faults, subdomain_faults};
use model::hub::paths;
use schema::field::{ErrorKind, ErrorValue};

/// Maximum bytes of all annotations of an object.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Type of a metadata field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MetadataType {
    Text,
    Number,
    Texts,
    TextList,
    Owners,
    Managers,
}

const FIELDS: [(&str, MetadataType); 15] = [
    ("annotations", MetadataType::Texts),
    ("creationTimestamp", MetadataType::Text),
    ("deletionGracePeriodSeconds", MetadataType::Number),
    ("deletionTimestamp", MetadataType::Text),
    ("finalizers", MetadataType::TextList),
    ("generateName", MetadataType::Text),
    ("generation", MetadataType::Number),
    ("labels", MetadataType::Texts),
    ("managedFields", MetadataType::Managers),
    ("name", MetadataType::Text),
    ("namespace", MetadataType::Text),
    ("ownerReferences", MetadataType::Owners),
    ("resourceVersion", MetadataType::Text),
    ("selfLink", MetadataType::Text),
    ("uid", MetadataType::Text),
];

/// Normalises metadata: drops unknown and empty fields, and returns the paths of unknown ones.
///
/// # Errors
/// 400 for fields with other types.
pub(crate) fn coerce(resource: &ServedResource, object: &mut Value) -> Result<Vec<String>, ApiError> {
    let wrong = |field: &str, found: &Value, wanted: &str| {
        let found = match found {
            Value::Number(_) => "number",
            Value::Bool(_) => "bool",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) | Value::Null => "object",
        };
        ApiError::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {kind}: json: cannot unmarshal {found} into Go struct field \
             ObjectMeta.metadata.{field} of type {wanted}",
            resource.version,
            kind = resource.kind
        ))
    };
    let Value::Object(members) = object else { return Err(ApiError::bad_request("the object is no object")) };
    let metadata = members.entry("metadata").or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    let Value::Object(metadata) = metadata else { return Err(wrong("", metadata, "v1.ObjectMeta")) };
    let mut unknown = Vec::new();
    for (name, value) in &*metadata {
        let Some((_, shape)) = FIELDS.iter().find(|(known, _)| known == name) else {
            unknown.push(format!("metadata.{name}"));
            continue;
        };
        let is_text = |value: &Value| value.is_string() || value.is_null();
        let (fits, wanted) = match (shape, value) {
            (_, Value::Null) => (true, ""),
            (MetadataType::Text, value) => (value.is_string(), "string"),
            (MetadataType::Number, value) => (value.is_i64(), "int64"),
            (MetadataType::Texts, Value::Object(entries)) => (entries.values().all(is_text), "string"),
            (MetadataType::Texts, _) => (false, "map[string]string"),
            (MetadataType::TextList, Value::Array(entries)) => (entries.iter().all(is_text), "string"),
            (MetadataType::TextList, _) => (false, "[]string"),
            (MetadataType::Owners | MetadataType::Managers, Value::Array(entries)) => {
                (entries.iter().all(Value::is_object), "struct")
            }
            (MetadataType::Owners, _) => (false, "[]v1.OwnerReference"),
            (MetadataType::Managers, _) => (false, "[]v1.ManagedFieldsEntry"),
        };
        if !fits {
            return Err(wrong(name, value, wanted));
        }
    }
    tidy(metadata);
    Ok(unknown)
}

/// Drops unknown and empty fields.
fn tidy(metadata: &mut Map<String, Value>) {
    metadata.retain(|name, value| {
        let is_empty = match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Object(entries) => entries.is_empty(),
            // An empty list of managers requests a reset.
            Value::Array(entries) => entries.is_empty() && name != "managedFields",
            _ => false,
        };
        !is_empty && name != "selfLink" && FIELDS.iter().any(|(known, _)| known == name)
    });
    for name in ["labels", "annotations"] {
        for (_, value) in metadata.get_mut(name).and_then(Value::as_object_mut).into_iter().flatten() {
            if value.is_null() {
                *value = json!("");
            }
        }
    }
}

fn invalid(field: &str, value: &str, detail: impl Into<String>) -> ObjectFault {
    ObjectFault {
        kind: ErrorKind::Invalid,
        field: field.to_owned(),
        value: ErrorValue::from(value),
        detail: detail.into(),
    }
}

fn required(field: &str, detail: &str) -> ObjectFault {
    ObjectFault {
        kind: ErrorKind::Required,
        field: field.to_owned(),
        value: ErrorValue::NOTHING,
        detail: detail.to_owned(),
    }
}

/// Errors in the metadata of an object.
pub(crate) fn faults(resource: &ServedResource, object: &Value) -> Vec<ObjectFault> {
    let empty = Map::new();
    let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut faults = Vec::new();
    let name = text("name");
    if name.is_empty() {
        faults.push(required(paths::metadata::NAME, "name or generateName is required"));
    }
    if !name.is_empty() {
        faults.extend(name_faults(resource, name).into_iter().map(|fault| invalid(paths::metadata::NAME, name, fault)));
    }
    let entries = |name: &str| metadata.get(name).and_then(Value::as_object).unwrap_or(&empty);
    for (key, value) in entries("labels") {
        let value = value.as_str().unwrap_or_default();
        faults.extend(label_key_faults(key).into_iter().map(|fault| invalid(paths::metadata::LABELS, key, fault)));
        faults
            .extend(label_value_faults(value).into_iter().map(|fault| invalid(paths::metadata::LABELS, value, fault)));
    }
    let mut size = 0;
    for (key, value) in entries("annotations") {
        size += key.len() + value.as_str().unwrap_or_default().len();
        let lower = key.to_lowercase();
        faults.extend(
            label_key_faults(&lower).into_iter().map(|fault| invalid(paths::metadata::ANNOTATIONS, key, fault)),
        );
    }
    if size > ANNOTATIONS_LIMIT {
        faults.push(ObjectFault {
            kind: ErrorKind::TooLong,
            field: paths::metadata::ANNOTATIONS.to_owned(),
            value: ErrorValue::NOTHING,
            detail: format!("may not be more than {ANNOTATIONS_LIMIT} bytes"),
        });
    }
    finalizer_faults(metadata, &mut faults);
    owner_faults(metadata, &mut faults);
    faults
}

fn finalizer_faults(metadata: &Map<String, Value>, faults: &mut Vec<ObjectFault>) {
    let finalizers = metadata.get("finalizers").and_then(Value::as_array);
    for finalizer in finalizers.into_iter().flatten().filter_map(Value::as_str) {
        let found = label_key_faults(finalizer);
        faults.extend(found.into_iter().map(|fault| invalid(paths::metadata::FINALIZERS, finalizer, fault)));
    }
}

fn owner_faults(metadata: &Map<String, Value>, faults: &mut Vec<ObjectFault>) {
    let owners = metadata.get("ownerReferences").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for owner in owners {
        for name in ["apiVersion", "kind", "name", "uid"] {
            if owner.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
                faults.push(invalid(&format!("metadata.ownerReferences.{name}"), "", "must not be empty"));
            }
        }
    }
    let controllers: Vec<&Value> =
        owners.iter().filter(|owner| owner.get("controller") == Some(&Value::Bool(true))).collect();
    if let [first, second, ..] = controllers.as_slice() {
        let name = |owner: &Value| {
            format!("{}/{}", owner["kind"].as_str().unwrap_or_default(), owner["name"].as_str().unwrap_or_default())
        };
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
            name(first),
            name(second)
        );
        faults.push(ObjectFault {
            kind: ErrorKind::Invalid,
            field: paths::metadata::OWNER_REFERENCES.to_owned(),
            value: ErrorValue::bounded(&json!(owners)),
            detail,
        });
    }
}

/// Errors in the name of an object of a kind.
fn name_faults(resource: &ServedResource, name: &str) -> Vec<String> {
    use super::builtin::Builtin;
    let mut faults = subdomain_faults(name);
    if resource.builtin == Some(Builtin::Namespace) && faults.is_empty() && (name.contains('.') || name.len() > 63) {
        faults.push(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
             end with an alphanumeric character"
                .to_owned(),
        );
    }
    faults
}

/// Checks immutable metadata of an update, and keeps omitted fields, as a server does.
pub(crate) fn keep(object: &mut Value, old: &Value) -> Vec<ObjectFault> {
    let mut faults = Vec::new();
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return faults };
    let before =
        |name: &str| old.get("metadata").and_then(|metadata| metadata.get(name)).filter(|value| !value.is_null());
    for name in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        match (metadata.get(name), before(name)) {
            (None, Some(value)) => {
                metadata.insert(name.to_owned(), value.clone());
            }
            (Some(given), found) if Some(given) != found => {
                let field = format!("metadata.{name}");
                faults.push(ObjectFault {
                    kind: ErrorKind::Invalid,
                    field,
                    value: ErrorValue::bounded(given),
                    detail: "field is immutable".to_owned(),
                });
            }
            _ => {}
        }
    }
    for name in ["generation", "generateName", "creationTimestamp"] {
        match before(name) {
            Some(value) => metadata.insert(name.to_owned(), value.clone()),
            None => metadata.remove(name),
        };
    }
    if before("deletionTimestamp").is_some() {
        let finalizers = |metadata: Option<&Value>| -> Vec<String> {
            let all = metadata.and_then(Value::as_array).into_iter().flatten();
            all.filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        let known = finalizers(before("finalizers"));
        let new: Vec<String> =
            finalizers(metadata.get("finalizers")).into_iter().filter(|name| !known.contains(name)).collect();
        if !new.is_empty() {
            faults.push(ObjectFault {
                kind: ErrorKind::Forbidden,
                field: paths::metadata::FINALIZERS.to_owned(),
                value: ErrorValue::NOTHING,
                detail: format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    new.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
                ),
            });
        }
    }
    faults
}
