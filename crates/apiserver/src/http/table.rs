//! Tables for kubectl: `application/json;as=Table;v=v1;g=meta.k8s.io`.
//!
//! Columns of custom kinds come from their definitions. Ages are relative to an argument.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells::{AGE, CommonColumn, UNKNOWN, count, length, since};
use super::json_path::JsonPath;
use super::workload_table;
use crate::storage::registry::{PrinterColumn, ServedResource};

/// What each row includes of its object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Include {
    Nothing,
    #[default]
    Metadata,
    Object,
}

/// A `meta.k8s.io/v1` Table of objects at the current time.
///
/// `metadata` is that of the list; `include` is `None`, `Metadata` or `Object`.
pub(super) fn render(resource: &ServedResource, objects: &[&Value], metadata: Value, include: &str) -> Value {
    let include = Include::from_name(include).unwrap_or_default();
    TableWriter::new(resource, include).table(objects, metadata, Timestamp::now(), true)
}

impl Include {
    /// Parses the query parameter `includeObject`.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "None" => Some(Include::Nothing),
            "" | "Metadata" => Some(Include::Metadata),
            "Object" => Some(Include::Object),
            _ => None,
        }
    }
}

/// Builder for tables of one kind.
#[derive(Debug)]
pub(super) struct TableWriter {
    columns: Vec<TableColumn>,
    include: Include,
}

/// A column with the source of its cells.
#[derive(Debug)]
struct TableColumn {
    definition: Value,
    cell: Cell,
}

/// Source of a cell.
#[derive(Debug)]
enum Cell {
    /// A value of the object, by column type.
    At {
        path: Option<JsonPath>,
        r#type: String,
    },
    Computed(fn(&Value, Timestamp) -> Value),
}

const NAME_DESCRIPTION: &str = "The name of the object, which no other of its kind has in the same namespace.";
const AGE_DESCRIPTION: &str = "How long ago the object was created.";

impl TableWriter {
    /// A builder for a kind, with `include` in each row.
    pub(super) fn new(resource: &ServedResource, include: Include) -> Self {
        let mut columns = vec![shown("Name", "string", "name", NAME_DESCRIPTION, 0, at(".metadata.name", "string"))];
        match builtin(&resource.group, &resource.plural) {
            Some(own) => columns.extend(own.iter().map(|own| {
                let (name, r#type, priority, cell) = *own;
                let description = if name == "Age" { AGE_DESCRIPTION } else { "" };
                shown(name, r#type, "", description, priority, Cell::Computed(cell))
            })),
            None if resource.columns.is_empty() => columns.push(age_column()),
            None => columns.extend(resource.columns.iter().map(TableColumn::new)),
        }
        if (&*resource.group, &*resource.plural) == ("", "events") {
            // Event tables omit the name, which does not describe the event.
            let mut name = columns.remove(0);
            name.definition["priority"] = json!(1);
            columns.push(name);
        }
        TableWriter { columns, include }
    }

    /// The table of these objects; `metadata` is that of their list. Only the first table of a watch lists the columns.
    pub(super) fn table(&self, objects: &[&Value], metadata: Value, now: Timestamp, with_columns: bool) -> Value {
        let columns = match with_columns {
            true => Value::Array(self.columns.iter().map(|column| column.definition.clone()).collect()),
            false => Value::Null,
        };
        let rows: Vec<Value> = objects.iter().map(|object| self.row(object, now)).collect();
        json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns,
            "rows": rows})
    }

    fn row(&self, object: &Value, now: Timestamp) -> Value {
        let cells: Vec<Value> = self.columns.iter().map(|column| column.cell.value(object, now)).collect();
        let mut row = json!({"cells": cells});
        match self.include {
            Include::Nothing => {}
            Include::Metadata => {
                row["object"] = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                    "metadata": object["metadata"]});
            }
            Include::Object => row["object"] = object.clone(),
        }
        row
    }
}

fn shown(name: &str, r#type: &str, format: &str, description: &str, priority: i64, cell: Cell) -> TableColumn {
    let definition =
        json!({"name": name, "type": r#type, "format": format, "description": description, "priority": priority});
    TableColumn { definition, cell }
}

fn at(path: &str, r#type: &str) -> Cell {
    Cell::At { path: JsonPath::parse(path), r#type: r#type.to_owned() }
}

fn age_column() -> TableColumn {
    shown("Age", "date", "", AGE_DESCRIPTION, 0, at(".metadata.creationTimestamp", "date"))
}

impl TableColumn {
    fn new(column: &PrinterColumn) -> Self {
        let PrinterColumn { name, r#type, format, description, priority, json_path } = column;
        shown(name, r#type, format, description, *priority, at(json_path, r#type))
    }
}

impl Cell {
    fn value(&self, object: &Value, now: Timestamp) -> Value {
        match self {
            Cell::At { path, r#type } => {
                path.as_ref().and_then(|path| path.first(object)).map_or(Value::Null, |value| typed(value, r#type, now))
            }
            Cell::Computed(compute) => compute(object, now),
        }
    }
}

/// A value as a cell of a column type; null if it has another type.
fn typed(value: &Value, r#type: &str, now: Timestamp) -> Value {
    match (r#type, value) {
        (_, Value::Null) => Value::Null,
        ("string", Value::String(_)) | ("boolean", Value::Bool(_)) | ("number", Value::Number(_)) => value.clone(),
        ("string", other) => json!(other.to_string()),
        #[allow(clippy::cast_possible_truncation, reason = "a column of integers shows no fractions")]
        ("integer", Value::Number(number)) => {
            number.as_i64().or_else(|| number.as_f64().map(|number| number as i64)).map_or(Value::Null, Value::from)
        }
        ("date", Value::String(text)) => json!(since(text, now)),
        _ => Value::Null,
    }
}

/// The columns of built-in kinds, besides the name.
fn builtin(group: &str, plural: &str) -> Option<&'static [CommonColumn]> {
    const NAMESPACE: &[CommonColumn] = &[("Status", "string", 0, |object, _| object["status"]["phase"].clone()), AGE];
    const SECRET: &[CommonColumn] = &[
        ("Type", "string", 0, |object, _| object["type"].clone()),
        ("Data", "integer", 0, |object, _| json!(count(object, "data"))),
        AGE,
    ];
    const CONFIG_MAP: &[CommonColumn] =
        &[("Data", "integer", 0, |object, _| json!(count(object, "data") + count(object, "binaryData"))), AGE];
    const EVENT: &[CommonColumn] = &[
        ("Last Seen", "string", 0, |object, now| json!(last_seen(object, now))),
        ("Type", "string", 0, |object, _| object["type"].clone()),
        ("Reason", "string", 0, |object, _| object["reason"].clone()),
        ("Object", "string", 0, |object, _| json!(subject(object))),
        ("Subobject", "string", 1, |object, _| object["involvedObject"]["fieldPath"].clone()),
        ("Source", "string", 1, |object, _| json!(source(object))),
        ("Message", "string", 0, |object, _| json!(object["message"].as_str().unwrap_or_default().trim())),
        ("First Seen", "string", 1, |object, now| json!(first_seen(object, now))),
        ("Count", "string", 1, |object, _| json!(times(object))),
    ];
    const ACCOUNT: &[CommonColumn] = &[("Secrets", "string", 0, |object, _| json!(length(object, "secrets"))), AGE];
    const WEBHOOKS: &[CommonColumn] = &[("Webhooks", "integer", 0, |object, _| json!(length(object, "webhooks"))), AGE];
    const LEASE: &[CommonColumn] =
        &[("Holder", "string", 0, |object, _| object["spec"]["holderIdentity"].clone()), AGE];
    const DEFINITION: &[CommonColumn] =
        &[("Created At", "date", 0, |object, _| object["metadata"]["creationTimestamp"].clone())];
    match (group, plural) {
        ("", "namespaces") => Some(NAMESPACE),
        ("", "secrets") => Some(SECRET),
        ("", "configmaps") => Some(CONFIG_MAP),
        ("" | "events.k8s.io", "events") => Some(EVENT),
        ("", "serviceaccounts") => Some(ACCOUNT),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations" | "validatingwebhookconfigurations") => {
            Some(WEBHOOKS)
        }
        ("coordination.k8s.io", "leases") => Some(LEASE),
        ("apiextensions.k8s.io", "customresourcedefinitions") => Some(DEFINITION),
        _ => workload_table::columns(group, plural),
    }
}

/// `kind/name` of the object of an event.
fn subject(event: &Value) -> String {
    let about = ["involvedObject", "regarding"].iter().find_map(|field| event.get(field)).unwrap_or(&Value::Null);
    let part = |field: &str| about[field].as_str().unwrap_or_default().to_owned();
    match part("name") {
        name if name.is_empty() => part("kind").to_lowercase(),
        name => format!("{}/{name}", part("kind").to_lowercase()),
    }
}

/// Reporter of an event.
fn source(event: &Value) -> String {
    let part = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let component = part(&event["source"]["component"]).or_else(|| part(&event["reportingComponent"]));
    let host = part(&event["source"]["host"]);
    component.into_iter().chain(host).collect::<Vec<_>>().join(", ")
}

/// The first of these fields with a time.
fn moment(event: &Value, fields: &[&str], now: Timestamp) -> String {
    let texts = fields.iter().filter_map(|pointer| event.pointer(pointer)?.as_str());
    texts.map(|text| since(text, now)).next().unwrap_or_else(|| UNKNOWN.to_owned())
}

fn last_seen(event: &Value, now: Timestamp) -> String {
    const FIELDS: [&str; 4] = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/firstTimestamp"];
    moment(event, &FIELDS, now)
}

fn first_seen(event: &Value, now: Timestamp) -> String {
    moment(event, &["/firstTimestamp", "/eventTime"], now)
}

/// Number of occurrences of an event.
fn times(event: &Value) -> String {
    let of = |pointer: &str| event.pointer(pointer).and_then(Value::as_i64).filter(|count| *count > 0);
    of("/series/count").or_else(|| of("/count")).unwrap_or(1).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::sample;

    fn resource(group: &str, plural: &str, columns: Vec<PrinterColumn>) -> ServedResource {
        ServedResource { columns, ..sample::resource(group, "v1", "Thing", plural) }
    }

    fn column(name: &str, r#type: &str, priority: i64, json_path: &str) -> PrinterColumn {
        let (name, r#type, json_path) = (name.to_owned(), r#type.to_owned(), json_path.to_owned());
        PrinterColumn { name, r#type, format: String::new(), description: String::new(), priority, json_path }
    }

    fn now() -> Timestamp {
        "2030-01-01T00:10:00Z".parse().unwrap()
    }

    fn rows(resource: &ServedResource, object: &Value) -> Value {
        TableWriter::new(resource, Include::Nothing).table(&[object], json!({}), now(), true)["rows"].clone()
    }

    #[test]
    fn columns_of_a_definition_show_values_of_their_type() {
        let things = resource(
            "example.com",
            "things",
            vec![
                column("Replicas", "integer", 0, ".spec.replicas"),
                column("Ready", "string", 0, ".status.conditions[?(@.type==\"Ready\")].status"),
                column("Names", "string", 10, ".spec.names"),
                column("Share", "number", 0, ".spec.share"),
                column("Paused", "boolean", 0, ".spec.paused"),
                column("Since", "date", 0, ".status.since"),
                column("Broken", "string", 0, ".spec..x"),
            ],
        );
        let metadata = json!({"name": "a", "resourceVersion": "7"});
        let object = |spec: Value, status: Value| json!({"metadata": metadata, "spec": spec, "status": status});
        let whole = object(
            json!({"replicas": 3, "names": ["x", 1], "share": 0.5, "paused": false}),
            json!({"conditions": [{"type": "Ready", "status": "True"}], "since": "2030-01-01T00:04:30.5Z"}),
        );
        let cells = json!(["a", 3, "True", "[\"x\",1]", 0.5, false, "5m30s", null]);
        assert_eq!(rows(&things, &whole), json!([{"cells": cells}]));
        let odd = object(json!({"replicas": "3", "names": 5, "share": "1", "paused": "no"}), json!({"since": "soon"}));
        assert_eq!(rows(&things, &odd)[0]["cells"], json!(["a", null, null, "5", null, null, "<invalid>", null]));
        let none = object(json!({"replicas": null}), json!({}));
        assert_eq!(rows(&things, &none)[0]["cells"], json!(["a", null, null, null, null, null, null, null]));

        let table = |include| TableWriter::new(&things, include).table(&[&whole], json!({}), now(), true);
        assert_eq!(table(Include::Nothing)["columnDefinitions"][3]["priority"], 10, "for -o wide");
        let metadata = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
            "metadata": whole["metadata"]});
        assert_eq!(table(Include::Metadata)["rows"][0]["object"], metadata);
        assert_eq!(table(Include::Object)["rows"][0]["object"], whole);
    }

    #[test]
    fn a_list_is_one_table_and_without_columns_the_age_is_shown() {
        let created = |name: &str, at: &str| json!({"metadata": {"name": name, "creationTimestamp": at}});
        let (a, b) = (created("a", "2030-01-01T00:09:00Z"), created("b", "2029-12-31T00:00:00Z"));
        let metadata = json!({"resourceVersion": "9", "continue": "more"});
        let tables = TableWriter::new(&resource("example.com", "things", vec![]), Include::Nothing);
        let table = tables.table(&[&a, &b], metadata.clone(), now(), true);
        assert_eq!(table["rows"], json!([{"cells": ["a", "60s"]}, {"cells": ["b", "24h"]}]));
        assert_eq!(table["metadata"], metadata);
        let names: Vec<_> = table["columnDefinitions"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
        assert_eq!(names, ["Name", "Age"]);
        assert_eq!(tables.table(&[&a], metadata, now(), false)["columnDefinitions"], Value::Null);
    }

    #[test]
    fn tables_of_builtin_kinds_have_the_columns_of_kubectl() {
        let at = "2030-01-01T00:00:00Z";
        let with = |members: Value| {
            let mut object = json!({"metadata": {"name": "n", "creationTimestamp": at}});
            object.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            object
        };
        for (group, plural, object, want) in [
            ("", "namespaces", json!({"status": {"phase": "Active"}}), json!(["n", "Active", "10m"])),
            ("", "secrets", json!({"type": "Opaque", "data": {"a": "", "b": ""}}), json!(["n", "Opaque", 2, "10m"])),
            ("", "configmaps", json!({"data": {"a": ""}, "binaryData": {"b": ""}}), json!(["n", 2, "10m"])),
            ("coordination.k8s.io", "leases", json!({"spec": {"holderIdentity": "me"}}), json!(["n", "me", "10m"])),
            ("apiextensions.k8s.io", "customresourcedefinitions", json!({}), json!(["n", at])),
            (
                "",
                "events",
                json!({"type": "Normal", "reason": "Made", "message": "made it\n", "lastTimestamp": "2030-01-01T00:09:00Z",
                    "firstTimestamp": at, "involvedObject": {"kind": "Cluster", "name": "c"}, "count": 3,
                    "source": {"component": "us"}}),
                json!(["60s", "Normal", "Made", "cluster/c", null, "us", "made it", "10m", "3", "n"]),
            ),
            (
                "",
                "events",
                json!({"eventTime": "2030-01-01T00:05:00.123456Z", "lastTimestamp": null, "reportingComponent": "us"}),
                json!(["5m", null, null, "", null, "us", "", "5m", "1", "n"]),
            ),
        ] {
            assert_eq!(rows(&resource(group, plural, vec![]), &with(object))[0]["cells"], want, "{plural}");
        }
        assert_eq!(Include::from_name("Everything"), None);
    }
}
