//! OpenAPI schemas of all kinds for kubectl: v3 with one document per group version, and v2 in one document for older
//! clients.
//!
//! `kubectl explain` reads fields from it, and kubectl checks the parameters of patches for field validation and dry
//! runs.

use ring::digest;
use serde_json::{Map, Value, json};

use super::groups::{RELEASE, group_versions};
use crate::storage::registry::{KindRegistry, ServedResource, api_version};

/// Name prefix of common schemas.
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// List of documents (`/openapi/v3`). The hash in a URL changes with its document.
pub(super) fn index(registry: &KindRegistry) -> Value {
    let entry = |(group, version): (&str, &str)| {
        let path = root(group, version);
        let hash = digest::digest(&digest::SHA256, document(registry, group, version).to_string().as_bytes());
        let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
        let address = format!("/openapi/v3{path}?hash={hash}");
        (path.trim_start_matches('/').to_owned(), json!({"serverRelativeURL": address}))
    };
    json!({"paths": group_versions(registry).into_iter().map(entry).collect::<Map<_, _>>()})
}

/// The document of a group version (`/openapi/v3/apis/G/V`); without paths if it does not exist.
pub(super) fn document(registry: &KindRegistry, group: &str, version: &str) -> Value {
    let (mut paths, mut schemas) = (Map::new(), common());
    for resource in registry.group(group).filter(|resource| resource.version == version) {
        paths.extend(paths_of(resource));
        schemas.extend(schemas_of(resource));
    }
    json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// All schemas in one v2 document (`/openapi/v2`).
pub(super) fn whole(registry: &KindRegistry) -> Value {
    let mut definitions = common();
    definitions.extend(registry.iter().flat_map(|resource| schemas_of(resource)));
    definitions.values_mut().for_each(older);
    json!({"swagger": "2.0", "info": info(), "paths": {}, "definitions": definitions})
}

/// A v2 document in protobuf with title and version only: without it kubectl cannot report an unknown kind.
///
/// Its fields are `swagger` (1), and `info` (2) with `title` (1) and `version` (2).
pub(super) fn without_schemas() -> String {
    let field = |number: u8, text: &str| {
        let length = u8::try_from(text.len()).unwrap_or_default();
        format!("{}{}{text}", char::from(number << 3 | 2), char::from(length))
    };
    let info = field(1, "Kubernetes") + &field(2, RELEASE);
    field(1, "2.0") + &field(2, &info)
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": RELEASE})
}

/// `/api/v1`, `/apis/example.com/v1`.
fn root(group: &str, version: &str) -> String {
    format!("/{}/{}", if group.is_empty() { "api" } else { "apis" }, api_version(group, version))
}

fn kind_of(resource: &ServedResource) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Schema name of a kind: the reversed group, in the style of Go packages.
fn schema_name(resource: &ServedResource, kind: &str) -> String {
    let ServedResource { group, version, builtin, .. } = resource;
    match (group.split_once('.'), builtin) {
        (None, Some(_)) => format!("io.k8s.api.{}.{version}.{kind}", if group.is_empty() { "core" } else { group }),
        (Some(("apiextensions", _)), Some(_)) => {
            format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}.{kind}")
        }
        (Some((first, _)), Some(_)) => format!("io.k8s.api.{first}.{version}.{kind}"),
        (_, None) => {
            let backwards: Vec<&str> = group.rsplit('.').collect();
            format!("{}.{version}.{kind}", backwards.join("."))
        }
    }
}

/// The schemas of a kind and of its list.
fn schemas_of(resource: &ServedResource) -> [(String, Value); 2] {
    let (kind, list_kind) = (&resource.kind, &resource.list_kind);
    let name = schema_name(resource, kind);
    let mut schema = match &resource.schema {
        Some(structure) => Value::clone(&structure.openapi),
        None => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    };
    as_resource(&mut schema);
    schema["x-kubernetes-group-version-kind"] = json!([kind_of(resource)]);
    let items =
        json!({"description": format!("List of {}.", resource.plural), "type": "array", "items": reference(&name)});
    let list = json!({
        "description": format!("{list_kind} is a list of {kind}."),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": string(API_VERSION),
            "kind": string(KIND),
            "metadata": {"description": "Metadata of the list.", "allOf": [reference(&format!("{META}.ListMeta"))]},
            "items": items,
        },
        "x-kubernetes-group-version-kind": [
            {"group": resource.group, "version": resource.version, "kind": list_kind},
        ],
    });
    [(name, schema), (schema_name(resource, list_kind), list)]
}

const API_VERSION: &str = "The group and version of the schema that this object follows.";
const KIND: &str = "The kind of the object, in CamelCase.";
const METADATA: &str = "Standard metadata of objects: name, labels, owners and more.";

/// Adds the fields of every object, also to embedded objects.
fn as_resource(schema: &mut Value) {
    embed(schema);
    let own = schema.pointer("/properties/metadata/description").and_then(Value::as_str).unwrap_or(METADATA).to_owned();
    let parts = [
        ("apiVersion", string(API_VERSION)),
        ("kind", string(KIND)),
        ("metadata", json!({"description": own, "allOf": [reference(&format!("{META}.ObjectMeta"))]})),
    ];
    if !schema.is_object() {
        *schema = json!({"type": "object"});
    }
    let has_properties = schema.get("properties").is_some_and(Value::is_object);
    if !has_properties {
        schema["properties"] = json!({});
    }
    for (name, part) in parts {
        schema["properties"][name] = part;
    }
}

/// Completes schemas of embedded objects.
fn embed(schema: &mut Value) {
    let Some(keywords) = schema.as_object_mut() else { return };
    if let Some(properties) = keywords.get_mut("properties").and_then(Value::as_object_mut) {
        for node in properties.values_mut() {
            embed_node(node);
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(node) = keywords.get_mut(keyword) {
            embed_node(node);
        }
    }
}

fn embed_node(node: &mut Value) {
    if node.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
        as_resource(node);
    } else {
        embed(node);
    }
}

/// The paths of a kind and its subresources.
fn paths_of(resource: &ServedResource) -> Vec<(String, Value)> {
    let root = root(&resource.group, &resource.version);
    let all = format!("{root}/{}", resource.plural);
    let collection = match resource.is_namespaced {
        true => format!("{root}/namespaces/{{namespace}}/{}", resource.plural),
        false => all.clone(),
    };
    let operations = Operations { resource, name: schema_name(resource, &resource.kind) };
    let item = format!("{collection}/{{name}}");
    let mut paths = Vec::new();
    if resource.is_namespaced {
        paths.push((all, operations.path(&[], &["get list"])));
    }
    paths.push((collection, operations.path(&[], &["get list", "post", "delete collection"])));
    paths.push((item.clone(), operations.path(&["name"], &["get", "put", "patch", "delete"])));
    if resource.has_status {
        paths.push((format!("{item}/status"), operations.path(&["name"], &["get", "put", "patch"])));
    }
    if resource.scale.is_some() {
        let scale = Operations { resource, name: format!("{META}.Scale") };
        paths.push((format!("{item}/scale"), scale.path(&["name"], &["get", "put", "patch"])));
    }
    paths
}

/// Operations on one kind.
struct Operations<'a> {
    resource: &'a ServedResource,
    /// Name of the schema of the request and response object.
    name: String,
}

/// Media types of patches; built-in kinds support one more.
const PATCHES: [&str; 3] =
    ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];

/// Parameters of operations: name, type and description.
const WRITING: [(&str, &str, &str); 3] = [
    ("dryRun", "string", "With All, the request is checked and nothing is stored."),
    ("fieldManager", "string", "The field manager of the fields that are written."),
    ("fieldValidation", "string", "How to treat unknown and repeated fields: Ignore, Warn or Strict."),
];
const FORCE: (&str, &str, &str) = ("force", "boolean", "Whether an apply takes over fields of other field managers.");
const DELETING: [(&str, &str, &str); 3] = [
    ("dryRun", "string", "With All, the request is checked and nothing is deleted."),
    ("gracePeriodSeconds", "integer", "Seconds before the object is deleted."),
    ("propagationPolicy", "string", "How to treat objects that this object owns: Orphan, Background or Foreground."),
];
const LISTING: [(&str, &str, &str); 9] = [
    ("allowWatchBookmarks", "boolean", "Whether a watch sends BOOKMARK events with its current resourceVersion."),
    ("continue", "string", "The continue token of the previous page of the list."),
    ("fieldSelector", "string", "Selects objects by the values of fields."),
    ("labelSelector", "string", "Selects objects by labels."),
    ("limit", "integer", "Maximum number of objects in a page of the list."),
    ("resourceVersion", "string", "The resourceVersion after which a watch starts, or that a list must have reached."),
    ("resourceVersionMatch", "string", "How a list uses resourceVersion: Exact or NotOlderThan."),
    ("timeoutSeconds", "integer", "Timeout of a list or watch in seconds."),
    ("watch", "boolean", "Whether to watch for changes instead of listing."),
];

impl Operations<'_> {
    fn path(&self, parameters: &[&str], operations: &[&str]) -> Value {
        let namespace = self.resource.is_namespaced.then_some("namespace").into_iter();
        let schema = || json!({"type": "string", "uniqueItems": true});
        let in_path = |name: &str| json!({"name": name, "in": "path", "required": true, "schema": schema()});
        let is_list_of_all = parameters.is_empty() && operations.len() == 1;
        let namespace = namespace.filter(|_| !is_list_of_all);
        let parameters: Vec<Value> = parameters.iter().copied().chain(namespace).map(in_path).collect();
        let mut path = json!({"parameters": parameters});
        for operation in operations {
            let (method, what) = operation.split_once(' ').unwrap_or((operation, ""));
            path[method] = self.operation(method, what);
        }
        path
    }

    fn operation(&self, method: &str, what: &str) -> Value {
        let action = match (method, what) {
            ("get", "list") => "list",
            ("delete", "collection") => "deletecollection",
            ("delete", _) => "delete",
            ("get", _) => "get",
            ("post", _) => "post",
            ("put", _) => "put",
            _ => "patch",
        };
        let parameters: Vec<(&str, &str, &str)> = match action {
            "list" | "deletecollection" => LISTING.into(),
            "delete" => DELETING.into(),
            "post" | "put" => WRITING.into(),
            "patch" => WRITING.into_iter().chain([FORCE]).collect(),
            _ => Vec::new(),
        };
        let parameter = |(name, r#type, description): (&str, &str, &str)| {
            json!({"name": name, "in": "query", "description": description,
                "schema": {"type": r#type, "uniqueItems": true}})
        };
        let answered = match action {
            "list" => schema_name(self.resource, &self.resource.list_kind),
            "delete" | "deletecollection" => format!("{META}.Status"),
            _ => self.name.clone(),
        };
        let content = |name: &str| json!({"application/json": {"schema": reference(name)}});
        let mut operation = json!({
            "parameters": parameters.into_iter().map(parameter).collect::<Vec<_>>(),
            "responses": {"200": {"description": "OK", "content": content(&answered)}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind_of(self.resource),
        });
        match action {
            "post" | "put" => operation["requestBody"] = json!({"required": true, "content": content(&self.name)}),
            "patch" => {
                let patch = |media: &str| (media.to_owned(), json!({"schema": reference(&format!("{META}.Patch"))}));
                let content: Map<_, _> = PATCHES.into_iter().map(patch).collect();
                operation["requestBody"] = json!({"required": true, "content": content});
            }
            _ => {}
        }
        operation
    }
}

/// Common schemas of all documents.
fn common() -> Map<String, Value> {
    let list = object(
        "Metadata of a list.",
        json!({
            "resourceVersion": string("The resourceVersion of the list, from which a watch can start."),
            "continue": string("The token for the next page, if there is one."),
            "remainingItemCount": integer("Number of objects in the pages that follow."),
            "selfLink": string("No longer used."),
        }),
    );
    let scale = object(
        "The desired and the current number of replicas of an object.",
        json!({
            "apiVersion": string(API_VERSION),
            "kind": string(KIND),
            "metadata": reference(&format!("{META}.ObjectMeta")),
            "spec": object("The desired state.", json!({"replicas": integer("Desired number of replicas.")})),
            "status": object(
                "The current state.",
                json!({
                    "replicas": integer("Current number of replicas."),
                    "selector": string("The label selector of the replicas."),
                }),
            ),
        }),
    );
    let named = [
        ("ObjectMeta", object_metadata()),
        ("OwnerReference", owner_reference()),
        ("ManagedFieldsEntry", managed_fields()),
        ("ListMeta", list),
        ("Status", status()),
        ("Scale", scale),
        ("Patch", json!({"description": "A patch of an object.", "type": "object"})),
    ];
    named.into_iter().map(|(name, schema)| (format!("{META}.{name}"), schema)).collect()
}

fn object_metadata() -> Value {
    let map = |description: &str| {
        json!({"description": description, "type": "object",
            "additionalProperties": {"type": "string", "default": ""}})
    };
    object(
        METADATA,
        json!({
            "name": string("The name. It is unique among the objects of the kind in the namespace."),
            "generateName": string("Prefix of a name that the server generates if name is empty."),
            "namespace": string("The namespace. It is empty for cluster-scoped objects."),
            "labels": map("Keys and values that selectors can use."),
            "annotations": map("Keys and values for other purposes than selection."),
            "uid": string("A unique id of the object. An object that is created again with the same name has another one."),
            "resourceVersion": string("The version of the stored object. It changes with every write."),
            "generation": integer("A number that increases with every change of the desired state."),
            "creationTimestamp": time("When the object was created."),
            "deletionTimestamp": time("When deletion was requested. It is set only while the object is being deleted."),
            "deletionGracePeriodSeconds": integer("Seconds that the deletion may take."),
            "finalizers": {"description": "Finalizers: controllers that must do their work before the object is deleted.", "type": "array",
                "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "ownerReferences": {"description": "Owners of this object. It is deleted when all owners are deleted.", "type": "array",
                "items": reference(&format!("{META}.OwnerReference")), "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["uid"]},
            "managedFields": {"description": "Which field manager owns which fields.", "type": "array",
                "items": reference(&format!("{META}.ManagedFieldsEntry")), "x-kubernetes-list-type": "atomic"},
            "selfLink": string("No longer used."),
        }),
    )
}

fn owner_reference() -> Value {
    let mut owner = object(
        "An object that owns this object.",
        json!({
            "apiVersion": string("The group and version of the owner."),
            "kind": string("The kind of the owner."),
            "name": string("The name of the owner."),
            "uid": string("The uid of the owner."),
            "controller": boolean("Whether the owner is the controller that manages the object."),
            "blockOwnerDeletion": boolean("Whether a foreground deletion of the owner waits until this object is deleted."),
        }),
    );
    owner["required"] = json!(["apiVersion", "kind", "name", "uid"]);
    owner["x-kubernetes-map-type"] = json!("atomic");
    owner
}

fn managed_fields() -> Value {
    object(
        "The fields that one field manager owns.",
        json!({
            "manager": string("The name of the field manager."),
            "operation": string("How the fields were written: Apply or Update."),
            "apiVersion": string("The API version in which the fields were written."),
            "time": time("When the fields were last written."),
            "fieldsType": string("The format of fieldsV1: FieldsV1."),
            "fieldsV1": {"description": "The fields as a tree of their names.", "type": "object"},
            "subresource": string("The subresource through which they were written."),
        }),
    )
}

fn status() -> Value {
    object(
        "The result of a request.",
        json!({
            "apiVersion": string(API_VERSION),
            "kind": string(KIND),
            "metadata": reference(&format!("{META}.ListMeta")),
            "status": string("Success or Failure."),
            "message": string("A message for people."),
            "reason": string("The reason of a failure as one word, for programs."),
            "code": integer("The HTTP status code."),
            "details": {"description": "More data about the reason.", "type": "object"},
        }),
    )
}

fn object(description: &str, properties: Value) -> Value {
    json!({"description": description, "type": "object", "properties": properties})
}

fn string(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn integer(description: &str) -> Value {
    json!({"type": "integer", "format": "int64", "description": description})
}

fn boolean(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

fn time(description: &str) -> Value {
    json!({"type": "string", "format": "date-time", "description": description})
}

/// Rewrites an OpenAPI v3 schema for v2, which has fewer keywords.
fn older(schema: &mut Value) {
    if let Some(Value::String(address)) = schema.get_mut("$ref") {
        *address = address.replace("#/components/schemas/", "#/definitions/");
    }
    let Some(keywords) = schema.as_object_mut() else { return };
    if let Some(Value::Array(only)) = keywords.remove("allOf")
        && let [only] = only.as_slice()
        && let Some(Value::String(address)) = only.get("$ref")
    {
        keywords.insert("$ref".to_owned(), json!(address.replace("#/components/schemas/", "#/definitions/")));
    }
    for keyword in ["anyOf", "oneOf", "not", "nullable"] {
        keywords.remove(keyword);
    }
    if let Some(properties) = keywords.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(older);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(node) = keywords.get_mut(keyword) {
            older(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::kind_schema::KindSchema;
    use crate::storage::registry::ScalePaths;
    use crate::storage::sample;

    fn registry() -> KindRegistry {
        let schema = json!({"type": "object", "description": "A thing.", "properties": {
            "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": {
                "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
                "template": {"type": "object", "x-kubernetes-embedded-resource": true,
                    "x-kubernetes-preserve-unknown-fields": true},
                "size": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            }},
        }});
        let mut thing = sample::resource("example.com", "v1", "Thing", "things");
        thing.schema = Some(KindSchema::compile(schema).unwrap().into());
        thing.has_status = true;
        let paths = [".spec.replicas", ".status.replicas", ""].map(str::to_owned);
        let [spec_replicas, status_replicas, label_selector] = paths;
        thing.scale = Some(ScalePaths { spec_replicas, status_replicas, label_selector });
        let mut registry = KindRegistry::default();
        registry.replace("example.com", "things", vec![thing]);
        registry.replace("", "others", vec![sample::resource("", "v1", "Other", "others")]);
        registry
    }

    #[test]
    fn a_patch_of_every_kind_can_be_validated_and_tried() {
        let registry = registry();
        for (group, path) in [
            ("example.com", "/apis/example.com/v1/namespaces/{namespace}/things/{name}"),
            ("", "/api/v1/namespaces/{namespace}/others/{name}"),
        ] {
            let document = document(&registry, group, "v1");
            let patch = &document["paths"][path]["patch"];
            let names: Vec<_> = patch["parameters"].as_array().unwrap().iter().map(|p| p["name"].as_str()).collect();
            assert_eq!(names, [Some("dryRun"), Some("fieldManager"), Some("fieldValidation"), Some("force")], "{path}");
            assert_eq!(patch["x-kubernetes-group-version-kind"]["group"], group);
        }
    }

    #[test]
    fn a_schema_keeps_its_extensions_and_has_what_every_object_has() {
        let document = document(&registry(), "example.com", "v1");
        let schemas = &document["components"]["schemas"];
        let thing = &schemas["com.example.v1.Thing"];
        assert_eq!(
            thing["x-kubernetes-group-version-kind"],
            json!([{"group": "example.com", "version": "v1", "kind": "Thing"}])
        );
        assert_eq!(thing["properties"]["spec"]["properties"]["list"]["x-kubernetes-list-map-keys"], json!(["name"]));
        let metadata = &thing["properties"]["metadata"]["allOf"][0]["$ref"];
        assert_eq!(metadata, "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
        assert_eq!(
            &thing["properties"]["spec"]["properties"]["template"]["properties"]["metadata"]["allOf"][0]["$ref"],
            metadata
        );
        assert_eq!(
            schemas["com.example.v1.ThingList"]["properties"]["items"]["items"]["$ref"],
            "#/components/schemas/com.example.v1.Thing"
        );
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
            match value {
                Value::Object(members) => {
                    found.extend(members.get("$ref").and_then(Value::as_str));
                    members.values().for_each(|member| references(member, found));
                }
                Value::Array(elements) => elements.iter().for_each(|element| references(element, found)),
                _ => {}
            }
        }
        let registry = registry();
        for document in [document(&registry, "example.com", "v1"), document(&registry, "", "v1"), whole(&registry)] {
            let mut found = Vec::new();
            references(&document, &mut found);
            assert!(found.len() > 5);
            for reference in found {
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(pointer).is_some(), "{reference}");
            }
        }
        assert!(!whole(&registry).to_string().contains("anyOf"));
    }

    #[test]
    fn the_index_names_every_document_with_a_hash_of_its_content() {
        let mut registry = registry();
        let before = index(&registry);
        let address =
            |index: &Value, path: &str| index["paths"][path]["serverRelativeURL"].as_str().unwrap().to_owned();
        let things = address(&before, "apis/example.com/v1");
        assert!(things.starts_with("/openapi/v3/apis/example.com/v1?hash="), "{things}");
        let others = address(&before, "api/v1");
        registry.replace("example.com", "more", vec![sample::resource("example.com", "v1", "More", "more")]);
        let after = index(&registry);
        assert_ne!(address(&after, "apis/example.com/v1"), things);
        assert_eq!(address(&after, "api/v1"), others);
    }
}
