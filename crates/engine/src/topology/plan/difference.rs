//! The fields of an object that a topology changes, with the origin of each change.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::{AppliedState, Certainty, ChangedField, LastApplied, OF_SERVER};
use crate::topology::Failure;
use crate::topology::origin::{Origins, is_below};
use crate::topology::refusals::{completed, definition_of};
use model::hub::contract::definition_name;
use model::hub::{GROUP, Object, ResourceDefinition, TOPOLOGY_MANAGER, paths, version_of};
use model::world::{DryRun, DryRunCall, Found, World};
use schema::ssa::{self, ComparisonContext, ElementPath, FieldSet, ManagedFields, MergeSchema, OwnershipChange};

/// The time of all writes to facts. The order of field managers requires one; no output contains it.
const NOW: &str = "1970-01-01T00:00:00Z";

/// The field manager of everything that a topology applies, by server-side apply (SSA-01, DEC-30).
pub const MANAGER: &str = TOPOLOGY_MANAGER;

/// The endpoint of infrastructure clusters and control planes. An empty endpoint is not applied (SSA-03): the endpoint
/// of the provider stays when the object is changed in place (CT-7.4).
const HOST: &[&str] = &["spec", "controlPlaneEndpoint", "host"];
/// See [`HOST`].
const PORT: &[&str] = &["spec", "controlPlaneEndpoint", "port"];
/// Applied fields that are not compared (SSA-11, SSA-18).
pub(super) const UNCOMPARED: &[&[&str]] = &[
    &["metadata", "annotations", "cluster.x-k8s.io/conversion-data"],
    &["metadata", "annotations", "topology.cluster.x-k8s.io/dry-run"],
    // The uid is a precondition, not a field: it prevents the creation of a deleted object.
    &["metadata", "uid"],
];

/// The field of the finalizers of an object.
pub const FINALIZERS_FIELD: &[&str] = &["metadata", "finalizers"];

/// Atomic maps in Cluster API's own kinds: owners, as in any object, and selectors. `*` stands for every entry of a
/// list.
const ATOMIC: &[&[&str]] = &[&["metadata", "ownerReferences", "*"], &["spec", "selector"]];

/// The changes of an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ObjectDifference {
    pub changes: Vec<ChangedField>,
    /// Whether any change is below `spec`.
    pub is_in_spec: bool,
    /// Whether the field owners change.
    pub changes_owners: bool,
    pub certainty: Certainty,
}

/// The facts that objects are compared with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison<'a> {
    pub world: &'a World,
    pub applied: &'a AppliedState,
}

impl ObjectDifference {
    /// The difference of an object that is new.
    pub(super) fn none() -> Self {
        ObjectDifference { changes: Vec::new(), is_in_spec: false, changes_owners: false, certainty: Certainty::Exact }
    }

    /// The difference between objects of two kinds, which are not compared field by field (ROT-08).
    pub(super) fn between_kinds(current: &Object, sent: &Object, origins: &Origins) -> Self {
        let because = origins.decisive("spec").cloned();
        let (from, to) = (Some(current.kind().into()), Some(sent.kind().into()));
        let change = ChangedField { path: "kind".to_owned(), from, to, because, was: None, is_sensitive: false };
        ObjectDifference { changes: vec![change], is_in_spec: true, ..ObjectDifference::none() }
    }

    /// The difference to the object that a server would store (SSA-12, SSA-13); a change of field owners alone counts.
    fn confirmed(
        current: &Object,
        desired: &Object,
        schema: &MergeSchema,
        origins: &Origins,
        old: Option<&Origins>,
    ) -> Self {
        let owners = |object: &Object| object.at(paths::metadata::MANAGED_FIELDS).cloned();
        let changes = ssa::changes(&current.to_value(), &desired.to_value(), schema, UNCOMPARED);
        ObjectDifference {
            changes_owners: owners(current) != owners(desired),
            certainty: Certainty::Exact,
            ..ObjectDifference::from_values(changes, origins, old)
        }
    }

    /// Changed values with their new and previous origins.
    fn from_values(values: Vec<ssa::FieldChange>, origins: &Origins, old: Option<&Origins>) -> Self {
        let is_in_spec = values.iter().any(|value| value.in_spec);
        let changes = values.into_iter().map(|value| change(value, origins, old)).collect();
        ObjectDifference { changes, is_in_spec, changes_owners: false, certainty: Certainty::Assumed }
    }

    /// Adds changes of other fields.
    pub(super) fn add(&mut self, changes: Vec<ChangedField>) {
        let is_there = |change: &ChangedField| self.changes.iter().any(|other| is_below(&change.path, &other.path));
        let more: Vec<ChangedField> = changes.into_iter().filter(|change| !is_there(change)).collect();
        self.changes.extend(more);
    }

    /// Whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && !self.changes_owners
    }
}

impl Comparison<'_> {
    /// The changes that applying `sent` would make (SSA-11 to SSA-13, DEC-15). Values that are equal here are equal on
    /// the server; whether different values differ there, a dry run decides if there is a server. Missing facts count
    /// as no difference, so that one round records all needs of a plan; the result is invalid then.
    pub(super) fn compare(
        &self,
        current: &Object,
        sent: &Object,
        origins: &Origins,
    ) -> Result<ObjectDifference, Failure> {
        let Some(applied) = self.applied.of_unchanged(current) else {
            return self.compare_fields(current, sent, origins);
        };
        // A full comparison gives the same, and takes longer.
        let difference = if applied.object.is_same_besides(sent, OF_SERVER) {
            ObjectDifference::none()
        } else if let Some(difference) = self.compare_applied(applied, current, sent, origins)? {
            difference
        } else {
            return self.compare_fields(current, sent, origins);
        };
        #[cfg(test)]
        {
            let full = self.compare_fields(current, sent, origins)?;
            assert_eq!(difference, ObjectDifference { changes_owners: false, ..full }, "{sent:?}");
        }
        Ok(difference)
    }

    /// The changes of an object that nothing else has changed since it was applied the last time. `None` if the result
    /// may differ from the applied fields: a schema may complete it, other managers may own fields, a changed field has
    /// another value already, or only owners change.
    fn compare_applied(
        &self,
        applied: &LastApplied,
        current: &Object,
        sent: &Object,
        origins: &Origins,
    ) -> Result<Option<ObjectDifference>, Failure> {
        let completes = |definition: Arc<ResourceDefinition>| {
            matches!(definition.resource_schema(version_of(sent.api_version())), Some(Ok(_)))
        };
        if !applied.is_rolled_out
            || !self.world.is_offline()
            || current.at(paths::metadata::RESOURCE_VERSION).is_some()
            || applied.object.api_version() != sent.api_version()
            || definition_of(sent, self.world).is_some_and(completes)
        {
            return Ok(None);
        }
        let (before, after) = (applied.object.to_value(), sent.to_value());
        // What is stored for an empty value depends on the members that it had.
        if has_empty_value(&before) || has_empty_value(&after) {
            return Ok(None);
        }
        let recorded = recorded(current)?;
        if recorded.iter().any(|entry| !entry.is_of_applier(MANAGER)) {
            return Ok(None);
        }
        let schema = match schema_by(self.world, sent, Some((current, &recorded))) {
            Err(Failure::NotAsked) => return Ok(None),
            schema => schema?,
        };
        let changes = ssa::changes(&before, &after, &schema, UNCOMPARED);
        let is_applied = |change: &ssa::FieldChange| {
            let path = change.path.as_str();
            !path.contains('[') && current.read(path).is_ok_and(|value| value == change.from.as_ref())
        };
        if changes.is_empty() || !changes.iter().all(is_applied) {
            return Ok(None);
        }
        Ok(Some(ObjectDifference::from_values(changes, origins, Some(&applied.origins))))
    }

    fn compare_fields(&self, current: &Object, sent: &Object, origins: &Origins) -> Result<ObjectDifference, Failure> {
        let (recorded, compared) = (recorded(current)?, ComparedValues::new(current, sent));
        // This check works without a definition.
        if compared.is_as_applied(&recorded) {
            return Ok(ObjectDifference::none());
        }
        let schema = match schema_by(self.world, sent, Some((current, &recorded))) {
            Err(Failure::NotAsked) => return Ok(ObjectDifference::none()),
            schema => schema?,
        };
        let version = current.text(paths::metadata::RESOURCE_VERSION)?.unwrap_or_default().to_owned();
        let local = self.compare_locally(&compared, recorded, origins, &schema, self.world.is_tried(&version));
        if local.is_empty() {
            return Ok(local);
        }
        let call = DryRunCall {
            object: sent.reference(),
            version,
            current: compared.current_value.to_string(),
            sent: compared.sent_value.to_string(),
        };
        match self.world.dry_run(call) {
            Found::Yes(DryRun::Same) | Found::NotAsked => Ok(ObjectDifference::none()),
            Found::Yes(DryRun::Differs { current, desired }) => {
                let old = self.applied.get(&sent.reference()).map(|before| &*before.origins);
                Ok(ObjectDifference::confirmed(&current, &desired, &schema, origins, old))
            }
            Found::Absent => Ok(local),
            Found::Unreadable(reason) => Err(Failure::Unreadable(reason)),
        }
    }

    /// The changes of an object that refers to a template which the same plan creates. No server has to be asked whether
    /// it changes, since no server has a reference to that template (DEC-120).
    pub(super) fn compare_certain(
        &self,
        current: &Object,
        sent: &Object,
        origins: &Origins,
    ) -> Result<ObjectDifference, Failure> {
        if self.world.is_offline() || !self.world.skips_certain_dry_runs() {
            return self.compare(current, sent, origins);
        }
        let (recorded, compared) = (recorded(current)?, ComparedValues::new(current, sent));
        let schema = match schema_by(self.world, sent, Some((current, &recorded))) {
            Err(Failure::NotAsked) => return Ok(ObjectDifference::none()),
            schema => schema?,
        };
        let local = self.compare_locally(&compared, recorded, origins, &schema, false);
        Ok(ObjectDifference { certainty: Certainty::Exact, ..local })
    }

    /// The changes that applying the sent object would make, computed without a server; `recorded` are the entries of
    /// the current object. With `is_tried`, a dry run follows, so values are not assumed to be normalized by a
    /// provider.
    fn compare_locally(
        &self,
        compared: &ComparedValues<'_>,
        recorded: Vec<ManagedFields>,
        origins: &Origins,
        schema: &MergeSchema,
        is_tried: bool,
    ) -> ObjectDifference {
        let ComparedValues { current, sent, current_value, sent_value } = compared;
        let before = self.applied.get(&current.reference());
        let managers = if self.world.is_offline() {
            let managers = owners_by(recorded.clone(), current, before, sent, schema);
            if managers != recorded && compared.is_as_applied(&managers) {
                return ObjectDifference::none();
            }
            managers
        } else {
            recorded
        };
        let own = managers.iter().find(|entry| entry.is_of_applier(MANAGER));
        let comparing = ComparisonContext { manager: MANAGER, schema, managers: &managers, uncompared: UNCOMPARED };
        let mut found = ssa::difference(current_value, sent_value, &comparing);
        if let Some(before) = before.filter(|before| before.is_rolled_out && !is_tried) {
            let edits = ssa::changes(&before.object.to_value(), sent_value, schema, UNCOMPARED);
            let taken = taken_paths(found.ownership_changed.as_ref(), own);
            found.changes.retain(|change| is_edited(change, &edits) || is_taken(change, &taken));
            if edits.is_empty() && found.changes.is_empty() {
                return ObjectDifference::none();
            }
        }
        if !is_tried {
            self.confirm(current, sent, schema, &managers, &mut found.changes);
        }
        let changes_owners = found.ownership_changed.is_some();
        let difference = ObjectDifference::from_values(found.changes, origins, before.map(|before| &*before.origins));
        ObjectDifference { changes_owners, ..difference }
    }
}

/// The current and the sent object, with their values.
struct ComparedValues<'a> {
    current: &'a Object,
    sent: &'a Object,
    current_value: Cow<'a, Value>,
    sent_value: Cow<'a, Value>,
}

impl<'a> ComparedValues<'a> {
    fn new(current: &'a Object, sent: &'a Object) -> Self {
        ComparedValues { current, sent, current_value: current.to_value(), sent_value: sent.to_value() }
    }

    /// Whether the values to apply equal the last applied ones, and the object still has them.
    fn is_as_applied(&self, managers: &[ManagedFields]) -> bool {
        let own = managers.iter().find(|entry| entry.is_of_applier(MANAGER));
        let atomic = if self.sent.group() == GROUP { ATOMIC } else { ATOMIC.get(..1).unwrap_or_default() };
        own.is_some_and(|own| ssa::is_as_applied(&self.current_value, &self.sent_value, own, UNCOMPARED, atomic))
    }
}

impl Comparison<'_> {
    /// Drops the changes that defaults of a known schema undo: an API server sets defaults before it compares.
    fn confirm(
        &self,
        current: &Object,
        sent: &Object,
        schema: &MergeSchema,
        managers: &[ManagedFields],
        changes: &mut Vec<ssa::FieldChange>,
    ) {
        if changes.is_empty() || !self.world.is_offline() {
            return;
        }
        let Some(definition) = definition_of(sent, self.world) else { return };
        if !matches!(definition.resource_schema(version_of(sent.api_version())), Some(Ok(_))) {
            return;
        }
        let stored = completed(current.clone(), Some(&definition));
        // Merge errors are reported elsewhere.
        let Ok(result) = merged(&stored.to_value(), managers, sent, schema) else { return };
        let result = completed(result, Some(&definition));
        let confirmed = ssa::changes(&stored.to_value(), &result.to_value(), schema, UNCOMPARED);
        changes.retain(|change| is_edited(change, &confirmed));
    }
}

/// Whether a value is or contains a null or an empty map.
fn has_empty_value(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_empty_value),
        Value::Object(members) => members.is_empty() || members.values().any(has_empty_value),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Whether a value differs because the desired value has changed. If the desired value is the same as before, the
/// server has normalized it, and the stored value stays (DEC-43).
fn is_edited(change: &ssa::FieldChange, edits: &[ssa::FieldChange]) -> bool {
    let path = change.path.as_str();
    change.to.is_none() && !edits.is_empty()
        || edits.iter().any(|edit| is_below(edit.path.as_str(), path) || is_below(path, edit.path.as_str()))
}

/// Desired paths that `managedFields` does not list as ours. An entry without labels, which all objects of a topology
/// have, was not created by applying them: it marks a lost record (SSA-22).
fn taken_paths(change: Option<&OwnershipChange>, own: Option<&ManagedFields>) -> Vec<String> {
    let is_applied = |own: &&ManagedFields| own.fields.has_prefix(&ElementPath::from_fields(&["metadata", "labels"]).0);
    let Some(OwnershipChange::Fields { gained, .. }) = change else { return Vec::new() };
    let Some(own) = own.filter(is_applied) else { return Vec::new() };
    let paths = gained.paths().into_iter().filter(|path| !own.fields.has_prefix(&path.0));
    paths.map(|path| path.to_path().to_string()).collect()
}

/// Whether another field manager has changed a desired field, so that it is set back. A value that a provider
/// normalizes stays ours in `managedFields`.
fn is_taken(change: &ssa::FieldChange, taken: &[String]) -> bool {
    let path = change.path.as_str();
    change.to.is_some() && taken.iter().any(|taken| is_below(taken, path) || is_below(path, taken))
}

/// The entries of an object's field managers. The finalizer with which a MachineDeployment is created is no part of the
/// desired state (DEC-119).
pub(super) fn recorded(object: &Object) -> Result<Vec<ManagedFields>, Failure> {
    static FINALIZERS: LazyLock<ElementPath> = LazyLock::new(|| ElementPath::from_fields(FINALIZERS_FIELD));
    let mut entries = ManagedFields::all_in(object.at(paths::metadata::MANAGED_FIELDS))
        .map_err(|error| Failure::Unreadable(error.to_string()))?;
    // Few objects have it: every comparison comes here.
    let has_it = |entry: &&mut ManagedFields| entry.is_of_applier(MANAGER) && entry.fields.has_prefix(&FINALIZERS.0);
    for own in entries.iter_mut().filter(has_it) {
        own.fields = own.fields.without(&FieldSet::from_paths([FINALIZERS.0.as_slice()]));
    }
    Ok(entries)
}

/// The field owners of an object from a file: those of `managedFields`; without an entry of ours, we own the fields
/// that were applied before; if those are unknown as well, the fields that are applied now (DEC-43).
pub(super) fn owners(
    current: &Object,
    before: Option<&LastApplied>,
    sent: &Object,
    schema: &MergeSchema,
) -> Result<Vec<ManagedFields>, Failure> {
    Ok(owners_by(recorded(current)?, current, before, sent, schema))
}

/// The same, from the recorded entries of the object.
fn owners_by(
    recorded: Vec<ManagedFields>,
    current: &Object,
    before: Option<&LastApplied>,
    sent: &Object,
    schema: &MergeSchema,
) -> Vec<ManagedFields> {
    let mut managers = in_version(recorded, sent.api_version(), current);
    let is_own = |entry: &ManagedFields| entry.is_of_applier(MANAGER);
    if !managers.iter().any(|entry| is_own(entry) && entry.api_version == sent.api_version()) {
        managers.retain(|entry| !is_own(entry));
        // The earlier object may be in another version with other field names.
        let before = before.map(|before| &*before.object).filter(|applied| applied.api_version() == sent.api_version());
        let applied = before.unwrap_or(sent);
        managers.push(ssa::as_applied(MANAGER, &applied.to_value(), schema));
    }
    managers
}

/// The recorded entries of an object's field managers. Entries of another version count as entries of this one if the
/// object has all their fields, because the field names are equal then. No server converts the other entries.
fn in_version(mut managers: Vec<ManagedFields>, version: &str, object: &Object) -> Vec<ManagedFields> {
    let is_other = |entry: &&mut ManagedFields| entry.api_version != version && entry.subresource.is_empty();
    for entry in managers.iter_mut().filter(is_other) {
        if ssa::has_fields(&object.to_value(), &entry.fields) {
            version.clone_into(&mut entry.api_version);
        }
    }
    managers
}

/// The reason for which a server would refuse to apply an object.
#[derive(Debug, thiserror::Error)]
pub(super) enum MergeError {
    #[error(transparent)]
    Refused(#[from] ssa::ApplyRefused),
    #[error("it is {found}")]
    NoObject { found: &'static str },
}

/// The result of applying `sent` to an object, with the entries of its field managers.
///
/// # Errors
/// The reason for which a server would refuse to apply it.
pub(super) fn applied(
    live: Option<&Value>,
    managers: &[ManagedFields],
    sent: &Object,
    schema: &MergeSchema,
) -> Result<(Value, Vec<ManagedFields>), MergeError> {
    let request = ssa::ApplyRequest::new(MANAGER, sent.api_version(), NOW, schema);
    let ssa::AppliedObject { object, managers, .. } = ssa::apply(live, managers, &sent.to_value(), &request, true)?;
    Ok((object, managers))
}

/// The result of applying `sent` to an object. Its `managedFields` stay as they are.
///
/// # Errors
/// See [`applied`].
pub(super) fn merged(
    live: &Value,
    managers: &[ManagedFields],
    sent: &Object,
    schema: &MergeSchema,
) -> Result<Object, MergeError> {
    let (object, _) = applied(Some(live), managers, sent, schema)?;
    object_from(object)
}

/// The object with this value.
///
/// # Errors
/// When the value is not an object.
pub(super) fn object_from(value: Value) -> Result<Object, MergeError> {
    Object::try_from(value).map_err(|found| MergeError::NoObject { found })
}

/// The merge structure of an object. Without a definition, it is derived from the field owners, and other lists are
/// atomic.
pub(super) fn schema(world: &World, object: &Object, current: Option<&Object>) -> Result<MergeSchema, Failure> {
    let Some(current) = current else { return schema_by(world, object, None) };
    schema_by(world, object, Some((current, &recorded(current)?)))
}

/// The same, with the recorded entries of the current object.
fn schema_by(
    world: &World,
    object: &Object,
    current: Option<(&Object, &[ManagedFields])>,
) -> Result<MergeSchema, Failure> {
    match world.definition(&definition_name(object.group(), object.kind())) {
        Found::Yes(definition) => Ok(definition.structure(version_of(object.api_version()))),
        Found::Absent => {
            let Some((current, recorded)) = current else { return Ok(MergeSchema::unknown()) };
            let managers = in_version(recorded.to_vec(), object.api_version(), current);
            let current = current.to_value();
            let schema = MergeSchema::from_managed_fields(&managers, object.api_version(), &current);
            let fits = schema.fits(&current) && schema.fits(&object.to_value());
            Ok(if fits { schema } else { MergeSchema::unknown() })
        }
        Found::Unreadable(reason) => Err(Failure::Unreadable(reason)),
        Found::NotAsked => Err(Failure::NotAsked),
    }
}

/// A change with the origins of its new and its previous value.
fn change(value: ssa::FieldChange, origins: &Origins, old: Option<&Origins>) -> ChangedField {
    let ssa::FieldChange { path, from, to, .. } = value;
    let path = path.to_string();
    let because = to.as_ref().and_then(|_| origins.decisive(&path).cloned());
    let is_sensitive = origins.is_sensitive(&path) || old.is_some_and(|old| old.is_sensitive(&path));
    let was = old.and_then(|old| old.decisive(&path).cloned());
    ChangedField { path, from, to, because, was, is_sensitive }
}

/// The applied form of a desired object of any kind (SSA-02 to SSA-05, SSA-17), without an empty endpoint of an
/// infrastructure cluster or control plane (SSA-03).
///
/// # Errors
/// When the endpoint has a value of the wrong type.
pub fn sent(desired: &Object) -> Result<Object, Failure> {
    let mut ignored: Vec<&[&str]> = Vec::new();
    if desired.read(paths::cluster::CONTROL_PLANE_ENDPOINT)?.is_some() {
        if desired.text(paths::cluster::CONTROL_PLANE_ENDPOINT_HOST)? == Some("") {
            ignored.push(HOST);
        }
        if desired.integer(paths::cluster::CONTROL_PLANE_ENDPOINT_PORT)? == Some(0) {
            ignored.push(PORT);
        }
    }
    if ignored.is_empty() && desired.is_reduced(ssa::SENT) {
        return Ok(desired.clone());
    }
    let reduced: Value = ssa::reduce(&desired.to_value(), ssa::SENT, &ignored);
    Object::try_from(reduced).map_err(|found| Failure::Unreadable(format!("the object to apply is {found}")))
}
