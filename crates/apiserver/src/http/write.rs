//! Creates, updates and patches, in the order of an API server.
//!
//! ```text
//! live ─► draft (the request, merged) ─► managers ─► mutating admission ─► prepared ─► judged ─► validating admission
//!   ▲                                                                                                    │
//!   └──────────────── once more, after a write conflict ◄──────────── commit ◄─────┘
//! ```

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tokio::task::yield_now;
use tokio::time::Instant;

use super::decode::{self, DecodedBody};
use super::request::{ApiRequest, FieldValidation, RequestTarget, Verb};
use super::response::{ApiResponse, ResponseForm};
use crate::Embedded;
use crate::admission::AdmissionAttributes;
use crate::storage::builtin::Builtin;
use crate::storage::definition::{self, text};
use crate::storage::kind_schema::ObjectFault;
use crate::storage::metadata;
use crate::storage::random;
use crate::storage::registry::{KindRegistry, ServedResource};
use crate::storage::shape::{self, storage_group, viewed};
use crate::storage::status::ApiError;
use crate::storage::store::{StoreKey, StoreState};
use crate::storage::stored::{DeletionState, StoredEntry};
use model::hub::paths;
use schema::field::{ErrorKind, ErrorValue};
use schema::ssa::{self, ElementPath, FieldSet, ManagedFields, managers_of_update, same_but_for_times, with_managers};

/// Maximum time for retrying a write that does not depend on the stored object while it changes concurrently.
/// kube-apiserver has the same limit for patches.
const PATIENCE: Duration = Duration::from_secs(34);

/// A write in progress.
pub(super) struct WriteOperation<'a> {
    pub embedded: &'a Embedded,
    pub call: &'a ApiRequest,
    pub target: &'a RequestTarget,
    pub resource: &'a Arc<ServedResource>,
    pub verb: Verb,
    pub is_dry_run: bool,
    pub validation: FieldValidation,
    pub manager: String,
    /// RFC 3339, UTC, seconds.
    pub now: String,
    pub warnings: Vec<String>,
}

/// An object to be stored.
pub(super) struct ObjectDraft {
    pub object: Value,
    /// Whether the stored object must be unchanged since it was read.
    pub is_conditional: bool,
}

/// Outcome of a write.
enum WriteOutcome {
    Created(WrittenObject),
    Written(WrittenObject),
    /// The object has changed concurrently.
    Moved,
}

/// The written object.
enum WrittenObject {
    /// In the version of the request.
    Object(Value),
    /// As stored, if that is the version of the request.
    Stored(Arc<StoredEntry>),
}

impl WriteOperation<'_> {
    /// Runs the write.
    pub(super) async fn run(mut self) -> Result<ApiResponse, ApiError> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let given = self.warnings.len();
            let outcome = self.attempt().await;
            let (code, written) = match outcome {
                Ok(WriteOutcome::Created(written)) => (StatusCode::CREATED, written),
                Ok(WriteOutcome::Written(written)) => (StatusCode::OK, written),
                Ok(WriteOutcome::Moved) => {
                    self.warnings.truncate(given);
                    yield_now().await;
                    continue;
                }
                Err(failure) => return Ok(ApiResponse::from(failure).with_warnings(self.warnings)),
            };
            return Ok(self.answer(code, written).with_warnings(self.warnings));
        }
        Err(ApiError::modified(self.resource, &self.target.name))
    }

    fn answer(&self, code: StatusCode, written: WrittenObject) -> ApiResponse {
        let form = ResponseForm::negotiate(self.call);
        let object = match written {
            WrittenObject::Stored(stored) if form == ResponseForm::Whole && self.target.subresource != "scale" => {
                return ApiResponse::from_text(code, stored.text().clone());
            }
            WrittenObject::Stored(stored) => stored.decode(),
            WrittenObject::Object(object) => object,
        };
        match self.target.subresource.as_str() {
            "scale" => {
                ApiResponse::from_json(code, &super::scale::read_scale(self.resource, &object).unwrap_or(object))
            }
            _ => ApiResponse::from_json(code, &form.object(self.resource, object)),
        }
    }

    async fn attempt(&mut self) -> Result<WriteOutcome, ApiError> {
        let (registry, live) = {
            let state = self.embedded.state();
            self.namespace_takes(&state)?;
            let live = match self.verb == Verb::Create || self.target.name.is_empty() {
                true => None,
                false => state.get(&StoreKey::new(self.resource, &self.target.namespace, &self.target.name)).cloned(),
            };
            (state.registry.clone(), live)
        };
        let live_view = live.as_ref().map(|live| viewed(&registry, self.resource, live));
        let old = live_view.as_ref();
        let draft = self.draft(old)?;
        let is_conditional = draft.is_conditional;
        let mut object = draft.object;
        let name = text(&object, "/metadata/name").to_owned();
        let resource = self.resource.clone();
        let attributes = AdmissionAttributes {
            group: &resource.group,
            version: &resource.version,
            resource: &resource.plural,
            subresource: &self.target.subresource,
            operation: if old.is_some() { "UPDATE" } else { "CREATE" },
            namespace: &self.target.namespace,
        };
        let review = super::admit::WriteReview {
            attributes: &attributes,
            resource: &resource,
            name: &name,
            old,
            is_dry_run: self.is_dry_run,
            options: &self.call.options_kind(),
        };
        let admission = self.embedded.admission();
        let changed = review.mutate(admission.as_deref(), &mut object, &mut self.warnings).await?;
        if changed {
            shape::shaped(&resource, &mut object)?;
        }
        let (object, mut faults) = self.prepared(object, old);
        faults.extend(metadata::faults(&resource, &object));
        faults.extend(self.judged(&object, old));
        if let Some(schema) = &resource.schema {
            faults.extend(schema.broken_rules(&object, old, &faults));
        }
        if !faults.is_empty() {
            return Err(ApiError::invalid(&resource.group, &resource.kind, text(&object, "/metadata/name"), faults));
        }
        review.validate(admission.as_deref(), &object, &mut self.warnings).await?;
        self.commit(&registry, live.as_ref(), old, object, is_conditional)
    }

    /// Checks that the namespace exists and accepts new objects.
    fn namespace_takes(&self, state: &StoreState) -> Result<(), ApiError> {
        let namespace = &self.target.namespace;
        if self.verb == Verb::Create {
            definition::refuse_if_withdrawn(state, self.resource)?;
        }
        if namespace.is_empty() || !self.resource.is_namespaced {
            return Ok(());
        }
        if !state.has_namespace(namespace) {
            let exists = state.get(&StoreKey::new(self.resource, namespace, &self.target.name)).is_some();
            return if exists { Ok(()) } else { Err(ApiError::no_namespace(namespace)) };
        }
        if self.verb == Verb::Create && state.is_being_emptied(namespace) {
            let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
            let name = serde_json::from_slice::<Value>(&self.call.body).unwrap_or_default();
            let mut failure = ApiError::forbidden(self.resource, text(&name, "/metadata/name"), &why);
            failure.details.insert(
                "causes".to_owned(),
                json!([{"reason": "NamespaceTerminating", "message": format!("namespace {namespace} is being terminated"),
                    "field": paths::metadata::NAMESPACE}]),
            );
            return Err(failure);
        }
        Ok(())
    }

    /// The requested object with its managers.
    fn draft(&mut self, live: Option<&Value>) -> Result<ObjectDraft, ApiError> {
        match self.verb {
            Verb::Create => {
                let body = decode::body(self.call)?;
                let mut object = self.read(body)?;
                self.placed(&mut object, "")?;
                if !matches!(text(&object, "/metadata/resourceVersion"), "" | "0") {
                    let message = "resourceVersion should not be set on objects to be created";
                    return Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message));
                }
                self.named(&mut object);
                let object = self.managed(None, object)?;
                Ok(ObjectDraft { object, is_conditional: true })
            }
            Verb::Update => self.update(live),
            _ => self.patch(live),
        }
    }

    fn update(&mut self, live: Option<&Value>) -> Result<ObjectDraft, ApiError> {
        let body = decode::body(self.call)?;
        let mut object = match self.target.subresource.as_str() {
            "scale" => self.scaled(live, &body.value)?,
            _ => self.read(body)?,
        };
        let name = self.target.name.clone();
        self.placed(&mut object, &name)?;
        let may_create = self.resource.builtin.is_some_and(Builtin::is_created_by_updates);
        let Some(live) = live else {
            if !may_create || !self.target.subresource.is_empty() {
                return Err(ApiError::not_found(self.resource, &name));
            }
            let object = self.managed(None, object)?;
            return Ok(ObjectDraft { object, is_conditional: false });
        };
        self.expected(&object, live)?;
        let given = text(&object, "/metadata/resourceVersion");
        let is_conditional = !matches!(given, "" | "0");
        if !is_conditional && !self.resource.builtin.is_some_and(Builtin::may_be_updated_blindly) {
            return Err(unversioned(self.resource, &name));
        }
        let object = self.managed(Some(live), object)?;
        Ok(ObjectDraft { object, is_conditional })
    }

    /// The object with the replicas of a scale.
    pub(super) fn scaled(&self, live: Option<&Value>, scale: &Value) -> Result<Value, ApiError> {
        let live = live.ok_or_else(|| ApiError::not_found(self.resource, &self.target.name))?;
        super::scale::applied(self.resource, live, scale).ok_or_else(ApiError::no_such_path)
    }

    /// Whether the object satisfies the preconditions of the client.
    fn expected(&self, object: &Value, live: &Value) -> Result<(), ApiError> {
        let (uid, own) = (text(object, "/metadata/uid"), text(live, "/metadata/uid"));
        if !uid.is_empty() && uid != own {
            let place = StoreKey::new(self.resource, &self.target.namespace, &self.target.name);
            return Err(ApiError::another(self.resource, &place, &self.target.name, uid, own));
        }
        self.is_current(object, live)
    }

    /// Whether the object has the resourceVersion that the client sent, if any.
    pub(super) fn is_current(&self, object: &Value, live: &Value) -> Result<(), ApiError> {
        let given = text(object, "/metadata/resourceVersion");
        if !matches!(given, "" | "0") && given != text(live, "/metadata/resourceVersion") {
            return Err(ApiError::modified(self.resource, &self.target.name));
        }
        Ok(())
    }

    /// Decodes an object, with warnings as requested by the client.
    pub(super) fn read(&mut self, body: DecodedBody) -> Result<Value, ApiError> {
        decode::object(self.resource, body, self.validation, &mut self.warnings)
    }

    /// Sets name and namespace by the path; `name` is empty if the path does not contain it.
    pub(super) fn placed(&self, object: &mut Value, name: &str) -> Result<(), ApiError> {
        let given = text(object, "/metadata/name");
        if !name.is_empty() && given.is_empty() {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({name} based on URL) was undeterminable: name must be provided"
            )));
        }
        if !name.is_empty() && given != name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({given}) does not match the name on the URL ({name})"
            )));
        }
        let namespace = &self.target.namespace;
        let given = text(object, "/metadata/namespace");
        if !given.is_empty() && !namespace.is_empty() && given != namespace {
            return Err(ApiError::bad_request(match name {
                "" => {
                    "the namespace of the provided object does not match the namespace sent on the request".to_owned()
                }
                _ => format!(
                    "the namespace of the object ({given}) does not match the namespace on the request ({namespace})"
                ),
            }));
        }
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            match namespace.is_empty() {
                true => metadata.remove("namespace"),
                false => metadata.insert("namespace".to_owned(), json!(namespace)),
            };
        }
        Ok(())
    }

    /// Generates a name from `generateName`.
    fn named(&self, object: &mut Value) {
        let begin = text(object, "/metadata/generateName").to_owned();
        if text(object, "/metadata/name").is_empty() && !begin.is_empty() {
            object["metadata"]["name"] = json!(format!("{begin}{}", random::suffix()));
            // Namespaces have their name as a label.
            if let Some(builtin) = self.resource.builtin {
                builtin.complete(object);
            }
        }
    }

    /// Fields whose writes at this endpoint give no ownership.
    pub(super) fn reset(&self) -> FieldSet {
        let path = match self.target.subresource.as_str() {
            "status" => "spec",
            _ if self.resource.has_status => "status",
            _ => return FieldSet::default(),
        };
        FieldSet::from_paths([ElementPath::from_fields(&[path]).0.as_slice()])
    }

    /// The object with its managers after an update.
    pub(super) fn managed(&self, live: Option<&Value>, object: Value) -> Result<Value, ApiError> {
        let (api_version, merging, reset) = (self.resource.api_version(), self.resource.merging(), self.reset());
        let subresource = &self.target.subresource;
        let convert = self.converter();
        let request = ssa::ApplyRequest {
            subresource,
            reset: &reset,
            convert: Some(&convert),
            ..ssa::ApplyRequest::new(&self.manager, &api_version, &self.now, &merging)
        };
        let before = live.and_then(|live| ManagedFields::all_of(live).ok()).unwrap_or_default();
        let managers = managers_of_update(live.unwrap_or(&Value::Null), &object, subresource);
        let managers = ssa::update(live, &object, &managers, &request)
            .map_err(|refused| ApiError::internal(refused.to_string()))?;
        let is_same = live.is_some_and(|live| without_managers(live) == without_managers(&object));
        let managers = match (live, self.resource.builtin) {
            (None, Some(builtin)) => without_blanks(managers, &builtin.blanks(&object)),
            _ => managers,
        };
        let is_unchanged = is_same && same_but_for_times(&before, &managers);
        Ok(with_managers(object, if is_unchanged { &before } else { &managers }))
    }

    /// Converter of objects between versions of their kind.
    pub(super) fn converter(&self) -> impl Fn(&Value, &str) -> Result<ssa::ConvertedObject, ssa::NotConverted> + use<> {
        let registry = self.embedded.registry();
        let resource = self.resource.clone();
        move |object: &Value, api_version: &str| {
            let Some(to) = registry.of_kind(api_version, &resource.kind).filter(|to| to.plural == resource.plural)
            else {
                return Ok(None);
            };
            let object =
                shape::converted(&registry, object, to).map_err(|failure| ssa::NotConverted(failure.message))?;
            Ok(Some((object, to.merging())))
        }
    }

    /// The object in its stored form: with fields set by the server, and fields that this endpoint does not write.
    fn prepared(&self, mut object: Value, old: Option<&Value>) -> (Value, Vec<ObjectFault>) {
        let builtin = self.resource.builtin;
        let counts = builtin.is_none_or(Builtin::has_generation);
        let Some(old) = old else {
            if self.resource.has_status
                && !builtin.is_some_and(Builtin::is_created_with_status)
                && let Some(members) = object.as_object_mut()
            {
                members.remove("status");
            }
            self.born(&mut object, counts);
            match builtin {
                Some(Builtin::CustomResourceDefinition) => definition::prepare_new(&mut object),
                Some(builtin) => builtin.prepare_new(&mut object),
                None => {}
            }
            return (object, Vec::new());
        };
        if self.target.subresource == "status" {
            return (with_status(old, object), Vec::new());
        }
        // A server validates metadata twice, and reports errors twice.
        let faults = metadata::keep(&mut object, old);
        let faults = faults.iter().chain(&faults).cloned().collect();
        if self.resource.has_status
            && let Some(members) = object.as_object_mut()
        {
            match old.get("status") {
                Some(status) => members.insert("status".to_owned(), status.clone()),
                None => members.remove("status"),
            };
        }
        if builtin == Some(Builtin::Namespace)
            && let Some(finalizers) = old.pointer("/spec/finalizers")
        {
            object["spec"]["finalizers"] = finalizers.clone();
        }
        if counts && has_other_content(&object, old) {
            let generation = old.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
            object["metadata"]["generation"] = json!(generation + 1);
        }
        (object, faults)
    }

    /// Sets the identity of a new object.
    fn born(&self, object: &mut Value, counts: bool) {
        let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return };
        for name in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation", "resourceVersion"] {
            metadata.remove(name);
        }
        metadata.insert("uid".to_owned(), json!(random::uid()));
        metadata.insert("creationTimestamp".to_owned(), json!(self.now));
        if counts {
            metadata.insert("generation".to_owned(), json!(1));
        }
        if !self.resource.is_namespaced {
            metadata.remove("namespace");
        }
    }

    /// Errors of an object apart from its metadata.
    fn judged(&self, object: &Value, old: Option<&Value>) -> Vec<ObjectFault> {
        let mut faults = match self.resource.builtin {
            Some(Builtin::CustomResourceDefinition) => definition::faults(object),
            Some(builtin) => builtin.faults(object, old),
            None => Vec::new(),
        };
        if let Some(fault) = super::scale::fault(self.resource, object) {
            faults.push(fault);
        }
        faults.extend(shape::schema_faults(self.resource, object, old));
        faults
    }

    /// Stores the object, unless it is unchanged.
    fn commit(
        &self,
        registry: &KindRegistry,
        live: Option<&Arc<StoredEntry>>,
        old: Option<&Value>,
        object: Value,
        is_conditional: bool,
    ) -> Result<WriteOutcome, ApiError> {
        let name = text(&object, "/metadata/name").to_owned();
        let place = StoreKey::new(self.resource, &self.target.namespace, &name);
        let mut state = self.embedded.state();
        let current = state.get(&place);
        let has_moved = match (live, current) {
            (None, None) => false,
            (Some(live), Some(current)) => !Arc::ptr_eq(live, current),
            (None, Some(_)) if self.verb == Verb::Create => {
                return Err(ApiError::already_exists(self.resource, &name));
            }
            (None, Some(_)) | (Some(_), None) => true,
        };
        if has_moved {
            return match is_conditional && live.is_some() {
                true => Err(ApiError::modified(self.resource, &name)),
                false => Ok(WriteOutcome::Moved),
            };
        }
        self.namespace_takes(&state)?;
        if old == Some(&object) {
            return Ok(WriteOutcome::Written(WrittenObject::Object(object)));
        }
        let ended =
            |written| if old.is_some() { WriteOutcome::Written(written) } else { WriteOutcome::Created(written) };
        if self.is_dry_run {
            return Ok(ended(WrittenObject::Object(object)));
        }
        let holds = DeletionState::read(&object);
        if holds.is_being_deleted && !holds.any() {
            // Removed with its last state.
            state.remove(&place);
            state.settle(&self.now);
            return Ok(ended(WrittenObject::Object(object)));
        }
        let storage = registry.stored(storage_group(self.resource), &self.resource.plural);
        let storage = storage.filter(|storage| storage.api_version() != self.resource.api_version());
        let written = match storage {
            None => WrittenObject::Stored(state.put(&place, object)),
            Some(storage) => {
                let stored = state.put(&place, shape::converted(registry, &object, storage)?);
                let mut object = object;
                object["metadata"]["resourceVersion"] = json!(stored.version.to_string());
                WrittenObject::Object(object)
            }
        };
        if self.resource.builtin == Some(Builtin::Event) {
            state.note_event(&place, self.embedded.moment());
        }
        state.settle(&self.now);
        Ok(ended(written))
    }
}

/// The managers of a new object, without fields that objects of its kind have by default.
fn without_blanks(managers: Vec<ManagedFields>, blanks: &[&[&str]]) -> Vec<ManagedFields> {
    let blanks: Vec<ElementPath> = blanks.iter().map(|path| ElementPath::from_fields(path)).collect();
    let blanks = FieldSet::from_paths(blanks.iter().map(|path| path.0.as_slice()));
    let lean = |entry: ManagedFields| ManagedFields { fields: entry.fields.difference(&blanks), ..entry };
    managers.into_iter().map(lean).filter(|entry| !entry.fields.is_empty()).collect()
}

/// Whether two objects differ in fields that count for the generation: all but metadata.
fn has_other_content(object: &Value, old: &Value) -> bool {
    fn content(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
        object.as_object().into_iter().flatten().filter(|(name, _)| *name != "metadata")
    }
    !content(object).eq(content(old))
}

/// The object without its managers, and without optional server fields.
fn without_managers(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        for name in [
            "managedFields",
            "resourceVersion",
            "uid",
            "creationTimestamp",
            "generation",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ] {
            metadata.remove(name);
        }
    }
    object
}

/// The live object with the status and managers of the request.
fn with_status(old: &Value, mut update: Value) -> Value {
    let mut object = old.clone();
    let (status, managers) = (update["status"].take(), update["metadata"]["managedFields"].take());
    let Some(members) = object.as_object_mut() else { return object };
    match status {
        Value::Null => members.remove("status"),
        status => members.insert("status".to_owned(), status),
    };
    if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
        match managers {
            Value::Null => metadata.remove("managedFields"),
            managers => metadata.insert("managedFields".to_owned(), managers),
        };
    }
    object
}

fn unversioned(resource: &ServedResource, name: &str) -> ApiError {
    let fault = ObjectFault {
        kind: ErrorKind::Invalid,
        field: paths::metadata::RESOURCE_VERSION.to_owned(),
        value: ErrorValue::from(0),
        detail: "must be specified for an update".to_owned(),
    };
    let mut failure = ApiError::invalid(&resource.group, &resource.plural, name, vec![fault]);
    // A server formats this number differently.
    failure.message = failure.message.replace("Invalid value: 0:", "Invalid value: 0x0:");
    if let Some(Value::String(message)) =
        failure.details.get_mut("causes").and_then(|causes| causes.pointer_mut("/0/message"))
    {
        *message = message.replace("Invalid value: 0:", "Invalid value: 0x0:");
    }
    failure
}
