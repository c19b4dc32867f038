//! Loading of objects from files at startup.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::builtin::Builtin;
use super::definition::text;
use super::definition::{assumed, is_definition};
use super::kind_schema::ObjectFault;
use super::random;
use super::registry::ServedResource;
use super::shape::{self, storage_group};
use super::status::ApiError;
use super::store::{StoreKey, StoreState};
use crate::Embedded;
use model::hub::naming::{group_version_faults, kind_faults, resource_part_faults};
use schema::field::shortened;

/// Reason why an object cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {why}")]
pub struct LoadError {
    /// Kind, namespace and name of the object, as far as known.
    pub object: String,
    pub why: String,
}

impl Embedded {
    /// Stores objects unchanged and without admission: definitions first, then namespaces, then the rest.
    ///
    /// Kinds without a definition are served from then on, with all fields preserved. Required namespaces are created.
    /// Objects keep their uid, times and status. Objects whose owners are missing are collected at the end.
    ///
    /// # Errors
    /// Names the first object that lacks a name or kind, violates its definition, or exists already; objects before it
    /// are stored.
    pub fn load(&self, objects: Vec<Value>) -> Result<(), LoadError> {
        let now = self.now();
        let rank = |object: &Value| match object["kind"].as_str() {
            _ if is_definition(object) => 0,
            Some("Namespace") => 1,
            _ => 2,
        };
        let mut objects = objects;
        objects.sort_by_key(rank);
        let mut state = self.state();
        for object in &objects {
            let failed = |failure: ApiError| LoadError { object: described(object), why: failure.message };
            let resource = resource_of(&mut state, object, &objects).map_err(failed)?;
            store(&mut state, &resource, object.clone(), &now).map_err(failed)?;
            if is_definition(object) {
                state.settle(&now);
            }
        }
        state.settle(&now);
        Ok(())
    }
}

fn described(object: &Value) -> String {
    let (kind, namespace, name) =
        (text(object, "/kind"), text(object, "/metadata/namespace"), text(object, "/metadata/name"));
    let kind = if kind.is_empty() { "object without a kind" } else { kind };
    match namespace {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

/// The kind of an object, which is served from now on.
fn resource_of(state: &mut StoreState, object: &Value, all: &[Value]) -> Result<ServedResource, ApiError> {
    let (api_version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
    if api_version.is_empty() || kind.is_empty() {
        return Err(ApiError::bad_request("apiVersion or kind is missing"));
    }
    if let Some(resource) = state.registry.of_kind(api_version, kind) {
        return Ok((**resource).clone());
    }
    let (group, _) = api_version.split_once('/').unwrap_or(("", api_version));
    if let Some(other) = state.registry.group(group).find(|resource| resource.kind == kind) {
        return Err(ApiError::bad_request(format!(
            "{kind} is served as {}, not as {api_version}",
            other.api_version()
        )));
    }
    // They become URL segments (DEC-45).
    let version_faults = match api_version.contains('/') {
        true => group_version_faults(api_version),
        false => resource_part_faults(api_version),
    };
    for (field, value, faults) in [("apiVersion", api_version, version_faults), ("kind", kind, kind_faults(kind))] {
        if let Some(fault) = faults.first() {
            return Err(ApiError::bad_request(format!("{field} {:?}: {fault}", shortened(value))));
        }
    }
    // Either all objects of a kind are namespaced, or none is.
    let is_namespaced =
        all.iter().any(|other| text(other, "/kind") == kind && !text(other, "/metadata/namespace").is_empty());
    let resource = assumed(api_version, kind, is_namespaced);
    let mut registry = (*state.registry).clone();
    registry.replace(group, &resource.plural, vec![resource.clone()]);
    state.registry = registry.into();
    Ok(resource)
}

fn store(state: &mut StoreState, resource: &ServedResource, mut object: Value, now: &str) -> Result<(), ApiError> {
    shape::shaped(resource, &mut object)?;
    let name = text(&object, "/metadata/name").to_owned();
    let namespace = match (resource.is_namespaced, text(&object, "/metadata/namespace")) {
        (true, "") => "default".to_owned(),
        (true, namespace) => namespace.to_owned(),
        (false, _) => String::new(),
    };
    identify(&mut object, resource, &namespace, now);
    let mut faults: Vec<ObjectFault> = super::metadata::faults(resource, &object);
    match resource.builtin {
        Some(Builtin::CustomResourceDefinition) => {
            faults.extend(super::definition::faults(&object));
            if !object["status"].is_object() {
                super::definition::prepare_new(&mut object);
            }
        }
        Some(builtin) => {
            faults.extend(builtin.faults(&object, None));
            builtin.prepare_new(&mut object);
        }
        None => {}
    }
    if let Some(schema) = &resource.schema {
        faults.extend(schema.faults(&object, None));
        faults.extend(schema.broken_rules(&object, None, &faults));
    }
    if !faults.is_empty() {
        return Err(ApiError::invalid(&resource.group, &resource.kind, &name, faults));
    }
    let place = StoreKey::new(resource, &namespace, &name);
    if state.get(&place).is_some() {
        // Initial namespaces may be among the files.
        return if resource.builtin == Some(Builtin::Namespace) {
            Ok(())
        } else {
            Err(ApiError::already_exists(resource, &name))
        };
    }
    if !namespace.is_empty() && !state.has_namespace(&namespace) {
        make_namespace(state, &namespace, now);
    }
    let object = match state.registry.stored(storage_group(resource), &resource.plural) {
        Some(storage) => shape::converted(&state.registry, &object, storage)?,
        None => object,
    };
    state.put(&place, object);
    // Consequences are processed after all objects are loaded.
    Ok(())
}

fn identify(object: &mut Value, resource: &ServedResource, namespace: &str, now: &str) {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return };
    match namespace {
        "" => metadata.remove("namespace"),
        namespace => metadata.insert("namespace".to_owned(), json!(namespace)),
    };
    metadata.entry("uid").or_insert_with(|| json!(random::uid()));
    metadata.entry("creationTimestamp").or_insert_with(|| json!(now));
    if resource.builtin.is_none_or(Builtin::has_generation) {
        metadata.entry("generation").or_insert_with(|| json!(1));
    }
}

/// Creates the initial namespaces of a server.
pub(crate) fn make_namespaces(state: &mut StoreState, now: &str) {
    let names = BTreeSet::from(["default", "kube-system", "kube-public", "kube-node-lease"]);
    names.into_iter().for_each(|name| make_namespace(state, name, now));
    state.settle(now);
}

fn make_namespace(state: &mut StoreState, name: &str, now: &str) {
    let mut object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name,
        "uid": random::uid(), "creationTimestamp": now}});
    Builtin::Namespace.complete(&mut object);
    Builtin::Namespace.prepare_new(&mut object);
    state.put(&StoreKey { kind: "namespaces".into(), key: name.into() }, object);
}
