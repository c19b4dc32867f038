//! What a server makes of applies, patches and updates, and what [`topologist::ssa`] says that it makes of them.
//!
//! Sequences of writes by several managers are made up from a seed. Each write is sent, and computed from what the
//! server had; object, managed fields and conflicts are compared. Where they differ, `ssa` is wrong.

use std::collections::BTreeMap;

use http::Request;
use kube::Client;
use serde_json::{Map, Value, json};
use topologist::ssa::{
    self, ApplyRefused, Conflict, ElementPath, FieldSet, ManagedFields, ManagedOperation, MergeSchema,
    managers_of_update, same_but_for_times, with_managers,
};

use crate::harness::chance::Chance;
use crate::harness::kubernetes::Kubernetes;
use crate::harness::wait::{self, SOON};

/// How many objects are written to, and how often each; as much as takes a few seconds.
const OBJECTS: u64 = 50;
const WRITES: usize = 10;

const GROUP: &str = "ssa.topologist.dev";

/// Every way in which maps and lists are merged, and what is nested in them; some of it differs between the versions.
fn schema(version: &str) -> Value {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    let texts = json!({"type": "object", "additionalProperties": text});
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": text});
    let keyed = |keys: &[&str], item: Value| {
        let mut list = json!({"type": "array", "x-kubernetes-list-type": "map", "items": item});
        list["x-kubernetes-list-map-keys"] = json!(keys);
        list
    };
    let inner = json!({"type": "object", "required": ["id"], "properties": {"id": number, "v": text}});
    let entry = json!({"type": "object", "required": ["name"], "properties": {"name": text, "value": text, "tags": set,
        "inner": keyed(&["id"], inner), "options": texts}});
    let port = json!({"type": "object", "required": ["port"], "properties": {"port": number, "note": text,
        "protocol": {"type": "string", "default": "TCP"}}});
    let pair = json!({"type": "object", "properties": {"x": text, "y": number}});
    let nested = json!({"type": "object", "properties": {"a": text, "b": pair, "c": texts}});
    let mut loose = pair.clone();
    loose["x-kubernetes-preserve-unknown-fields"] = json!(true);
    loose["properties"]["strict"] = pair.clone();
    let mut whole = pair.clone();
    whole["x-kubernetes-map-type"] = json!(if version == "v1" { "atomic" } else { "granular" });
    let maybe_list = if version == "v1" { "atomic" } else { "set" };
    let spec = json!({"type": "object", "properties": {
        "text": text, "number": number, "flag": {"type": "boolean"}, "nested": nested, "texts": texts,
        "parts": {"type": "object", "additionalProperties": pair}, "whole": whole,
        "wholeTexts": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text},
        "entries": keyed(&["name"], entry), "ports": keyed(&["port", "protocol"], port), "set": set,
        "numbers": {"type": "array", "x-kubernetes-list-type": "set", "items": number},
        "list": {"type": "array", "items": pair},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "anything": {"x-kubernetes-preserve-unknown-fields": true}, "loose": loose,
        "size": {"x-kubernetes-int-or-string": true},
        "maybe": {"type": "string", "nullable": true},
        "maybeTexts": {"type": "object", "nullable": true, "additionalProperties": text},
        "maybeSet": {"type": "array", "nullable": true, "x-kubernetes-list-type": "set", "items": text},
        "maybeList": {"type": "array", "nullable": true, "x-kubernetes-list-type": maybe_list, "items": text},
        "template": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": nested}},
    }});
    json!({"type": "object", "properties": {"spec": spec, "status": nested}})
}

/// A kind on the server, in a namespace of its own.
struct Things {
    client: Client,
    namespace: String,
    plural: &'static str,
    schemas: [(&'static str, MergeSchema); 2],
}

impl Things {
    /// Installs a kind whose versions differ in nothing but their schema.
    async fn install(plural: &'static str) -> Self {
        let kubernetes = Kubernetes::shared();
        kubernetes.apply_yaml(&Self::definition(plural, ["v1", "v2"].map(schema)).to_string()).await;
        let schemas = ["v1", "v2"].map(|version| (version, MergeSchema::from_openapi(&schema(version))));
        Things { client: kubernetes.client(), namespace: kubernetes.namespace("ssa").await, plural, schemas }
    }

    fn definition(plural: &str, schemas: [Value; 2]) -> Value {
        let [first, second] = schemas;
        let version = |name: &str, storage: bool, schema: Value| {
            json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}}})
        };
        let names = json!({"kind": format!("{plural}-thing").replace('-', ""), "plural": plural});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{GROUP}")},
            "spec": {"group": GROUP, "scope": "Namespaced", "names": names,
                "versions": [version("v1", true, first), version("v2", false, second)]}})
    }

    /// What it takes to be an object of the kind.
    fn type_of(&self, version: &str) -> Value {
        json!({"apiVersion": format!("{GROUP}/{version}"), "kind": format!("{}thing", self.plural)})
    }

    /// The object in another version, and the schema of that.
    fn converted(&self, object: &Value, api_version: &str) -> ssa::ConvertedObject {
        let (version, schema) = self.schemas.iter().find(|(version, _)| format!("{GROUP}/{version}") == api_version)?;
        let mut object = object.clone();
        object["apiVersion"] = json!(format!("{GROUP}/{version}"));
        Some((object, schema.clone()))
    }
}

/// Makes a value up.
type Maker = fn(&mut Chance) -> Value;

impl Chance {
    fn text(&mut self) -> Value {
        json!(self.pick(&["1", "2", "<3>"]))
    }

    fn texts(&mut self) -> Value {
        self.some(&["k", "l.m/n", "o"]).into_iter().map(|key| (key, self.text())).collect()
    }

    /// Each field with some probability.
    fn fields(&mut self, percent: usize, fields: &[(&str, Maker)]) -> Value {
        let mut object = Map::new();
        for (name, value) in fields {
            if self.percent(percent) {
                object.insert((*name).to_owned(), value(self));
            }
        }
        Value::Object(object)
    }

    fn part(&mut self) -> Value {
        self.fields(50, &[("x", Self::text), ("y", |chance| json!(chance.below(3)))])
    }

    fn nested(&mut self) -> Value {
        self.fields(50, &[("a", Self::text), ("b", Self::part), ("c", Self::texts)])
    }

    fn set(&mut self) -> Value {
        json!(self.some(&["a", "b", "c", "<d>", "e"]))
    }

    fn entries(&mut self) -> Value {
        let names = self.some(&["p", "q", "r", "s"]);
        let entry = |name| {
            let mut entry = self.fields(
                40,
                &[("value", Self::text), ("tags", Self::set), ("inner", Self::inner), ("options", Self::texts)],
            );
            entry["name"] = json!(name);
            entry
        };
        names.into_iter().map(entry).collect()
    }

    fn inner(&mut self) -> Value {
        let ids = self.some(&[1, 2, 3]);
        let inner = |id| {
            let mut inner = self.fields(60, &[("v", Self::text)]);
            inner["id"] = json!(id);
            inner
        };
        ids.into_iter().map(inner).collect()
    }

    fn ports(&mut self) -> Value {
        let ports = self.some(&[(80, Some("TCP")), (80, Some("UDP")), (81, None), (82, Some("TCP")), (83, None)]);
        let port = |(port, protocol): (i32, Option<&str>)| {
            let mut item = self.fields(50, &[("note", Self::text)]);
            item["port"] = json!(port);
            if let Some(protocol) = protocol {
                item["protocol"] = json!(protocol);
            }
            item
        };
        ports.into_iter().map(port).collect()
    }

    fn loose(&mut self) -> Value {
        self.fields(50, &[("x", Self::text), ("strict", Self::part), ("new", Self::texts), ("list", Self::set)])
    }

    fn anything(&mut self) -> Value {
        match self.below(4) {
            0 => self.text(),
            1 => self.set(),
            2 => json!(self.below(3)),
            _ => self.nested(),
        }
    }

    fn template(&mut self) -> Value {
        let metadata = self.fields(50, &[("labels", Self::texts_of_labels), ("finalizers", Self::finalizers)]);
        let spec = self.nested();
        json!({"apiVersion": "v1", "kind": "Inner", "metadata": metadata, "spec": spec})
    }

    fn finalizers(&mut self) -> Value {
        json!(self.some(&["t.dev/a", "t.dev/b", "t.dev/c"]))
    }

    fn owners(&mut self) -> Value {
        let uids = self.some(&["1", "2"]);
        let owner = |uid| json!({"apiVersion": "v1", "kind": "Secret", "name": self.pick(&["m", "n"]), "uid": uid});
        uids.into_iter().map(owner).collect()
    }

    fn metadata(&mut self) -> Value {
        self.fields(
            25,
            &[
                ("labels", Self::texts_of_labels),
                ("annotations", Self::texts),
                ("finalizers", Self::finalizers),
                ("ownerReferences", Self::owners),
            ],
        )
    }

    fn texts_of_labels(&mut self) -> Value {
        self.some(&["k", "l.m/n", "o"]).into_iter().map(|key| (key, json!(self.pick(&["1", "2"])))).collect()
    }

    fn spec(&mut self) -> Value {
        self.fields(
            22,
            &[
                ("text", Self::text),
                ("number", |chance| json!(chance.below(3))),
                ("flag", |chance| json!(chance.percent(50))),
                ("nested", Self::nested),
                ("texts", Self::texts),
                ("parts", |chance| chance.some(&["u", "v"]).into_iter().map(|key| (key, chance.part())).collect()),
                ("whole", Self::part),
                ("wholeTexts", Self::texts),
                ("entries", Self::entries),
                ("ports", Self::ports),
                ("set", Self::set),
                ("numbers", |chance| json!(chance.some(&[1, 2, 3]))),
                ("list", |chance| json!([chance.part(), chance.part()])),
                ("free", Self::nested),
                ("anything", Self::anything),
                ("loose", Self::loose),
                ("size", |chance| chance.pick(&[json!(1), json!("1"), json!("50%")])),
                ("template", Self::template),
                ("maybe", |chance| chance.or_null(Self::text)),
                ("maybeTexts", |chance| chance.or_null(Self::texts)),
                ("maybeSet", |chance| chance.or_null(Self::set)),
                ("maybeList", |chance| chance.or_null(Self::set)),
            ],
        )
    }

    fn or_null(&mut self, value: Maker) -> Value {
        if self.percent(40) { Value::Null } else { value(self) }
    }

    /// A configuration that is refused, or would be if it were not for one server or another.
    fn mistake(&mut self) -> Value {
        self.pick(&[
            json!({"text": 1}),
            json!({"number": "1"}),
            json!({"flag": "true"}),
            json!({"unknown": 1}),
            json!({"nested": {"b": {"unknown": {}}}}),
            json!({"nested": []}),
            json!({"nested": "x"}),
            json!({"texts": {"a": {}}}),
            json!({"whole": {"unknown": 1}}),
            json!({"entries": [{"name": "p"}, {"name": "p", "value": "1"}]}),
            json!({"entries": [{"value": "1"}]}),
            json!({"entries": ["p"]}),
            json!({"entries": [null]}),
            json!({"entries": {}}),
            json!({"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]}),
            json!({"set": ["a", "a"]}),
            json!({"set": ["a", null]}),
            json!({"set": [{}]}),
            json!({"set": [["a"]]}),
            json!({"numbers": [1, "1"]}),
            json!({"list": [{"x": 1}]}),
            json!({"list": [null, "x"]}),
            json!({"loose": {"strict": {"unknown": 1}}}),
            json!({"loose": {"strict": {"x": 1}}}),
            json!({"template": {"metadata": {"unknown": 1}}}),
            json!({"entries": [{"name": "p", "inner": [{"id": 1}, {"id": 1}]}]}),
            json!({"entries": [{"name": 1}]}),
            json!({"text": 1.5}),
        ])
    }

    fn config(&mut self) -> Value {
        json!({"metadata": self.metadata(), "spec": self.spec()})
    }

    fn write(&mut self) -> Write {
        let subresource = if self.percent(15) { "status" } else { "" };
        let mut body = self.config();
        if !subresource.is_empty() || self.percent(10) {
            body["status"] = self.nested();
        }
        let verb = match self.below(10) {
            0 if self.percent(30) => {
                body["spec"] = self.mistake();
                Verb::Apply { force: true }
            }
            0..6 => Verb::Apply { force: self.percent(50) },
            6..8 => Verb::Patch,
            _ => Verb::Update,
        };
        let version = if self.percent(20) { "v2" } else { "v1" };
        Write { verb, version, manager: self.pick(&["ann", "bob", "eve"]), subresource, body }
    }
}

/// How an object is written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verb {
    Apply { force: bool },
    Patch,
    Update,
}

/// One request to the server.
#[derive(Debug)]
struct Write {
    verb: Verb,
    version: &'static str,
    manager: &'static str,
    subresource: &'static str,
    body: Value,
}

impl Write {
    /// The body as it is sent for an object that is like this now.
    fn completed(mut self, live: Option<&Value>, chance: &mut Chance) -> Self {
        let Some(live) = live else {
            self.subresource = "";
            self.verb = if self.verb == Verb::Patch { Verb::Update } else { self.verb };
            return self;
        };
        match self.verb {
            Verb::Apply { .. } => {}
            Verb::Patch => {
                for (name, _) in live["spec"].as_object().into_iter().flatten().filter(|_| chance.percent(15)) {
                    self.body["spec"][name] = Value::Null;
                }
            }
            Verb::Update => {
                let mut object = live.clone();
                if let Value::Object(spec) = &mut object["spec"] {
                    spec.retain(|_, _| !chance.percent(15));
                }
                for part in ["metadata", "spec", "status"] {
                    for (name, value) in self.body[part].as_object().into_iter().flatten() {
                        object[part][name] = value.clone();
                    }
                }
                self.body = object;
            }
        }
        self
    }

    async fn send(&self, things: &Things, name: &str, exists: bool) -> (Value, Option<Value>) {
        let all = format!("/apis/{GROUP}/{}/namespaces/{}/{}", self.version, things.namespace, things.plural);
        let one = match self.subresource {
            "" => format!("{all}/{name}"),
            subresource => format!("{all}/{name}/{subresource}"),
        };
        let manager = self.manager;
        let body = self.complete(things, name);
        let (method, url, content) = match self.verb {
            Verb::Apply { force } => {
                ("PATCH", format!("{one}?fieldManager={manager}&force={force}"), "apply-patch+yaml")
            }
            Verb::Patch => ("PATCH", format!("{one}?fieldManager={manager}"), "merge-patch+json"),
            Verb::Update if exists => ("PUT", format!("{one}?fieldManager={manager}"), "json"),
            Verb::Update => ("POST", format!("{all}?fieldManager={manager}"), "json"),
        };
        let request = Request::builder().method(method).uri(url);
        let request = request.header("Content-Type", format!("application/{content}"));
        match things.client.request::<Value>(request.body(body.to_string().into_bytes()).unwrap()).await {
            Ok(object) => (answered(&object), Some(object)),
            Err(kube::Error::Api(status)) => {
                let causes = status.details.iter().flat_map(|details| &details.causes);
                let causes: Vec<_> = causes.map(|cause| (cause.message.clone(), cause.field.clone())).collect();
                (refused(&status.message, causes), None)
            }
            Err(error) => panic!("no answer: {error}"),
        }
    }

    /// The body with what identifies the object.
    fn complete(&self, things: &Things, name: &str) -> Value {
        let mut body = self.body.clone();
        if self.verb != Verb::Patch {
            json_patch::merge(&mut body["metadata"], &json!({"name": name}));
            body["apiVersion"] = things.type_of(self.version)["apiVersion"].take();
            body["kind"] = things.type_of(self.version)["kind"].take();
        }
        body
    }

    /// What `ssa` says that the server answers, in the second in which it answered.
    fn predicted(&self, live: Option<&Value>, things: &Things, name: &str, now: &str) -> Value {
        let reset = match self.subresource {
            "" => FieldSet::from_paths([ElementPath::from_fields(&["status"]).0.as_slice()]),
            _ => FieldSet::from_paths([ElementPath::from_fields(&["spec"]).0.as_slice()]),
        };
        let body = self.complete(things, name);
        let api_version = format!("{GROUP}/{}", self.version);
        let (_, schema) = things.converted(&Value::Null, &api_version).unwrap();
        let live = live.and_then(|live| things.converted(live, &api_version)).map(|(live, _)| live);
        let live = live.as_ref();
        let convert = |object: &Value, version: &str| {
            let mut object = object.clone();
            // The server writes the metadata of objects within anew when it converts.
            if let Some(Value::Object(metadata)) = object.pointer_mut("/spec/template/metadata") {
                metadata.insert("creationTimestamp".to_owned(), Value::Null);
            }
            Ok(things.converted(&object, version))
        };
        let request = ssa::ApplyRequest {
            subresource: self.subresource,
            reset: &reset,
            convert: Some(&convert),
            ..ssa::ApplyRequest::new(self.manager, &api_version, now, &schema)
        };
        let before = live.and_then(|live| ManagedFields::all_of(live).ok()).unwrap_or_default();
        let (object, managers) = match self.verb {
            Verb::Apply { force } => match ssa::apply(live, &before, &body, &request, force) {
                Ok(applied) => (read(applied.object), applied.managers),
                Err(ApplyRefused::Conflicts(conflicts)) => {
                    let causes = conflicts.iter().map(|conflict| (conflict.to_string(), conflict.path.to_string()));
                    return refused(&Conflict::message(&conflicts), causes.collect());
                }
                Err(other) => return refused(&other.to_string(), Vec::new()),
            },
            Verb::Patch | Verb::Update => {
                let mut object = body;
                if let (Verb::Patch, Some(live)) = (self.verb, live) {
                    object = live.clone();
                    json_patch::merge(&mut object, &self.body);
                }
                let object = read(object);
                let managers = managers_of_update(live.unwrap_or(&Value::Null), &object, self.subresource);
                let managers = ssa::update(live, &object, &managers, &request).unwrap();
                let is_same = live.is_some_and(|live| answered(live)["content"] == answered(&object)["content"]);
                match is_same && same_but_for_times(&before, &managers) {
                    true => (object, before),
                    false => (object, managers),
                }
            }
        };
        answered(&with_managers(self.stored(live, object), &managers))
    }

    /// What is stored of an object: what an end point does not write stays.
    fn stored(&self, live: Option<&Value>, object: Value) -> Value {
        let mut stored = match (self.subresource, live) {
            ("", _) | (_, None) => object.clone(),
            (_, Some(live)) => live.clone(),
        };
        let status = if self.subresource.is_empty() { live } else { Some(&object) };
        match status.and_then(|object| object.get("status")) {
            Some(status) => stored["status"] = status.clone(),
            None => drop(stored.as_object_mut().unwrap().remove("status")),
        }
        stored
    }
}

/// An object as the server reads it: with defaults, without unknown fields, and without what is empty in its metadata.
fn read(mut object: Value) -> Value {
    for port in object.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten() {
        port.as_object_mut().unwrap().entry("protocol").or_insert(json!("TCP"));
    }
    // A null of any type may be stored, and is gone when it is read.
    if object.pointer("/spec/anything").is_some_and(Value::is_null) {
        object["spec"].as_object_mut().unwrap().remove("anything");
    }
    if let Some(Value::Object(strict)) = object.pointer_mut("/spec/loose/strict") {
        strict.retain(|name, _| name != "unknown");
    }
    for metadata in ["/metadata", "/spec/template/metadata"] {
        match object.pointer_mut(metadata) {
            Some(Value::Object(metadata)) => {
                metadata.retain(|_, value| ![json!({}), json!([]), json!(null)].contains(value));
            }
            Some(nothing @ Value::Null) => *nothing = json!({}),
            _ => {}
        }
    }
    object
}

/// What is compared of a refusal: the message, and of each conflict with whom and where.
fn refused(message: &str, mut causes: Vec<(String, String)>) -> Value {
    causes.sort();
    json!({"message": message, "causes": causes})
}

/// What is compared of an object.
fn answered(object: &Value) -> Value {
    let mut content = object.clone();
    let mut managers = json!([]);
    if let Some(Value::Object(metadata)) = content.get_mut("metadata") {
        managers = metadata.remove("managedFields").unwrap_or(managers);
        for own in ["name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"] {
            metadata.remove(own);
        }
    }
    json!({"content": content, "managers": managers})
}

/// When the server says that the request was made.
fn time_of(write: &Write, answer: &Value) -> String {
    let operation = match write.verb {
        Verb::Apply { .. } => ManagedOperation::Apply,
        Verb::Patch | Verb::Update => ManagedOperation::Update,
    };
    let is_own = |entry: &&Value| {
        entry["manager"] == write.manager
            && entry["operation"] == operation.as_str()
            && entry["subresource"].as_str().unwrap_or_default() == write.subresource
            && entry["apiVersion"] == format!("{GROUP}/{}", write.version)
    };
    let all = answer["managers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let first = all.iter().find(|entry| entry["manager"] == "before-first-apply");
    let times = [all.iter().find(is_own), first].map(|entry| entry.and_then(|entry| entry["time"].as_str()));
    times.into_iter().flatten().next().unwrap_or_default().to_owned()
}

/// Why the server, after it has applied a configuration, does not store the object: it has a null in place of a map or
/// list of which everything was removed although somebody owns it, or the object within lost its type.
fn unfit(content: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    if let Value::Object(members) = content {
        members.iter().for_each(|(name, value)| nulls(value, name.clone(), &mut paths));
    }
    if content["spec"]["template"].is_object() && content["spec"]["template"]["kind"].is_null() {
        paths.push("spec.template.apiVersion".to_owned());
    }
    paths
}

fn nulls(value: &Value, path: String, paths: &mut Vec<String>) {
    const ALLOWED: [&str; 4] = ["spec.maybe", "spec.free.", "spec.anything.", "spec.loose.new"];
    match value {
        Value::Null if !ALLOWED.iter().any(|allowed| path.starts_with(allowed)) => paths.push(path),
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| nulls(value, format!("{path}.{name}"), paths));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, value)| nulls(value, format!("{path}[{i}]"), paths));
        }
        _ => {}
    }
}

/// Answers that were compared.
#[derive(Default)]
struct Comparison {
    compared: usize,
    not_stored: usize,
    /// Applies that were said to change nothing.
    skipped: usize,
    differing: Vec<String>,
}

impl Comparison {
    /// Sends a write and compares the answers; returns the object as it is then.
    async fn compare(&mut self, things: &Things, name: &str, live: Option<Value>, write: Write) -> Option<Value> {
        let (answer, object) = write.send(things, name, live.is_some()).await;
        let predicted = write.predicted(live.as_ref(), things, name, &time_of(&write, &answer));
        self.compared += 1;
        if let (Some(live), Some(object)) = (&live, &object) {
            self.skip_unchanged(things, name, live, &write, object);
        }
        if unfit(&predicted["content"]).iter().any(|path| answer["causes"][0][1] == *path) {
            self.not_stored += 1;
        } else if predicted != answer {
            self.differing.push(format!(
                "{name} by {} with {:?} {} {}, from ours to the server's {}\nof {}\non {}",
                write.manager,
                write.verb,
                write.version,
                write.subresource,
                json!(json_patch::diff(&predicted, &answer)),
                write.body,
                live.as_ref().unwrap_or(&Value::Null)
            ));
        }
        object.or(live)
    }

    /// Says without the server whether an apply changes anything, and looks at whether it did.
    fn skip_unchanged(&mut self, things: &Things, name: &str, live: &Value, write: &Write, object: &Value) {
        let body = write.complete(things, name);
        let desired = ssa::reduce(&body, ssa::SENT, &[]);
        if write.verb != (Verb::Apply { force: true }) || !write.subresource.is_empty() || desired != body {
            return;
        }
        let (live, schema) = things.converted(live, &format!("{GROUP}/{}", write.version)).unwrap();
        let managers = ManagedFields::all_of(&live).unwrap();
        let own = |managers: &[ManagedFields]| {
            let is_own = |entry: &&ManagedFields| {
                entry.manager == write.manager
                    && entry.operation == ManagedOperation::Apply
                    && entry.subresource.is_empty()
            };
            managers.iter().find(is_own).map(|entry| (entry.api_version.clone(), entry.fields.clone()))
        };
        let found = ssa::difference(
            &live,
            &desired,
            &ssa::ComparisonContext { manager: write.manager, schema: &schema, managers: &managers, uncompared: &[] },
        );
        let (before, after) = (own(&managers), own(&ManagedFields::all_of(object).unwrap()));
        let content_changes = answered(&live)["content"] != answered(object)["content"];
        // Who has no entry may get none, by sending nothing that can be owned.
        let known = before.is_some() || content_changes;
        if known && found.changed() != (content_changes || before != after) {
            self.differing.push(format!("{name}: {found:?}\nof {body}\non {live}"));
        }
        self.skipped += usize::from(!found.changed());
    }

    fn finish(self) {
        let shown: Vec<_> = self.differing.iter().take(3).map(String::as_str).collect();
        assert!(
            shown.is_empty(),
            "{} of {} answers differ:\n{}",
            self.differing.len(),
            self.compared,
            shown.join("\n\n")
        );
        assert!(self.not_stored * 10 <= self.compared, "{} of {} are not stored", self.not_stored, self.compared);
    }
}

#[tokio::test]
async fn objects_owners_and_conflicts_are_those_of_the_server() {
    let things = Things::install("things").await;
    let mut comparison = Comparison::default();
    for seed in 0..OBJECTS {
        let mut chance = Chance(seed);
        let mut live: Option<Value> = None;
        let mut sent: BTreeMap<_, Value> = BTreeMap::new();
        for _ in 0..WRITES {
            let mut write = chance.write().completed(live.as_ref(), &mut chance);
            if matches!(write.verb, Verb::Apply { .. }) {
                let before = sent.entry((write.manager, write.subresource)).or_insert(Value::Null);
                if before.is_object() && chance.percent(30) {
                    write.body = before.clone();
                    if chance.percent(50) {
                        write.body["spec"]["text"] = chance.text();
                    }
                }
                *before = write.body.clone();
            }
            live = comparison.compare(&things, &format!("seed-{seed}"), live, write).await;
        }
    }
    assert!(comparison.skipped > 0, "no apply was said to change nothing");
    comparison.finish();
}

fn apply(manager: &'static str, body: Value) -> Write {
    Write { verb: Verb::Apply { force: true }, version: "v1", manager, subresource: "", body }
}

fn patch(manager: &'static str, body: Value) -> Write {
    Write { verb: Verb::Patch, ..apply(manager, body) }
}

#[tokio::test]
async fn removed_managed_fields_are_recorded_anew() {
    let things = Things::install("forgotten").await;
    let mut comparison = Comparison::default();
    let forget = json!({"metadata": {"managedFields": [{}]}});
    for (name, first) in [("kept", json!({"text": "1", "set": ["a"]})), ("changed", json!({"text": "2", "number": 1}))]
    {
        let mut live = None;
        for write in [
            apply("ann", json!({"spec": {"text": "1", "set": ["a", "b"]}})),
            patch("bob", forget.clone()),
            patch("bob", json!({"spec": {"number": 2}})),
            apply("eve", json!({"spec": first})),
            apply("eve", json!({"spec": {}})),
            patch("bob", json!({"metadata": {"managedFields": []}})),
            patch("bob", json!({"metadata": {"managedFields": null}})),
            apply("eve", json!({"spec": {"flag": true}})),
        ] {
            live = comparison.compare(&things, name, live, write).await;
        }
    }
    comparison.finish();
}

#[tokio::test]
async fn kubectl_takes_over_fields_of_client_side_apply() {
    let things = Things::install("migrated").await;
    let mut comparison = Comparison::default();
    let applied = json!({"apiVersion": things.type_of("v1")["apiVersion"], "kind": things.type_of("v1")["kind"],
        "metadata": {"annotations": {}}, "spec": {"text": "1", "number": 1, "texts": {"k": "<1>"}}});
    for (name, annotation) in [
        ("known", applied.to_string()),
        ("unreadable", "{".to_owned()),
        ("of-another-version", applied.to_string().replace("/v1", "/v2")),
        ("empty", String::new()),
    ] {
        let mut created = applied.clone();
        created["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = json!(annotation);
        let create = Write { verb: Verb::Update, ..apply("kubectl-client-side-apply", created) };
        let gently = |spec: Value| {
            let body = json!({"metadata": {"annotations": {"x": "y"}}, "spec": spec});
            Write { verb: Verb::Apply { force: false }, ..apply("kubectl", body) }
        };
        let mut live = None;
        for write in [
            create,
            gently(json!({"text": "2", "texts": {"k": "2"}})),
            patch("bob", json!({"spec": {"number": 2, "text": "3"}})),
            gently(json!({"text": "4", "texts": {"k": "2"}})),
            gently(json!({"number": 3})),
            gently(json!({"texts": {"k": "2"}})),
            gently(json!({"texts": {"k": "2"}})),
        ] {
            live = comparison.compare(&things, name, live, write).await;
        }
    }
    comparison.finish();
}

#[tokio::test]
async fn the_oldest_of_many_updates_are_merged() {
    let things = Things::install("many").await;
    let mut comparison = Comparison::default();
    let managers = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"];
    let mut live = comparison.compare(&things, "x", None, apply("z", json!({"spec": {"text": "1"}}))).await;
    for (i, manager) in managers.into_iter().enumerate() {
        let write = patch(manager, json!({"spec": {"texts": {manager: "1"}}}));
        let version = if i % 4 == 1 { "v2" } else { "v1" };
        live = comparison.compare(&things, "x", live, Write { version, ..write }).await;
    }
    let owners = live.as_ref().and_then(|live| live["metadata"]["managedFields"].as_array()).unwrap();
    assert!(owners.iter().any(|entry| entry["manager"] == "ancient-changes") && owners.len() <= 11, "{owners:?}");
    comparison.finish();
}

#[tokio::test]
async fn a_map_that_becomes_atomic_is_owned_as_a_whole() {
    let mut things = Things::install("hardened").await;
    let mut comparison = Comparison::default();
    let mut live = None;
    for (manager, key) in [("ann", "a"), ("bob", "b"), ("eve", "c")] {
        let texts = json!({"spec": {"texts": {key: "1"}, "entries": [{"name": key}]}});
        live = comparison.compare(&things, "x", live, apply(manager, texts)).await;
    }
    let mut hard = schema("v1");
    hard["properties"]["spec"]["properties"]["texts"]["x-kubernetes-map-type"] = json!("atomic");
    hard["properties"]["spec"]["properties"]["entries"]["x-kubernetes-list-type"] = json!("atomic");
    hard["properties"]["spec"]["properties"]["entries"].as_object_mut().unwrap().remove("x-kubernetes-list-map-keys");
    let definition = Things::definition("hardened", [hard.clone(), schema("v2")]);
    Kubernetes::shared().apply_yaml(&definition.to_string()).await;
    things.schemas[0].1 = MergeSchema::from_openapi(&hard);
    let probe = apply("probe", json!({"spec": {"texts": {"a": "1"}}}));
    let is_hard = |answer: &Value| answer["managers"][0]["fieldsV1"]["f:spec"]["f:texts"] == json!({});
    let is_served = async || is_hard(&probe.send(&things, "probe", true).await.0);
    wait::until_async("the new schema is served", SOON, is_served, wait::nothing).await;
    for write in [
        apply("ann", json!({"spec": {"texts": {"a": "2"}, "entries": []}})),
        patch("bob", json!({"spec": {"texts": {"c": "1"}}})),
        apply("eve", json!({"spec": {"texts": {"c": "1"}, "entries": [{"name": "c"}]}})),
    ] {
        live = comparison.compare(&things, "x", live, write).await;
    }
    comparison.finish();
}
