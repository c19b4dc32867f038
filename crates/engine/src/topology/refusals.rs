//! Fields of a topology's objects that an API server would reject, by the schemas of their CustomResourceDefinitions.
//!
//! ```text
//! object to apply ─► defaults of the schema ─► types, bounds, enums, unknown fields, rules ─► RefusedField with its origin
//! ```
//!
//! A topology is applied with server-side apply, so unknown fields are rejected instead of dropped.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::origin::{Origin, Origins};
use model::hub::contract::definition_name;
use model::hub::{GROUP, Object, ObjectKey, ResourceDefinition, group_of, version_of};
use model::world::{Assumptions, Found, World};
use schema::budget::{Exceeded, Stop};
use schema::field::{ErrorKind, Path};
use schema::openapi::{DefaultsBudget, ResourceSchema, ValidationEffort, Violation};

/// Maximum number of rejected fields of one object.
const NAMED: usize = 20;
/// Maximum number of rejected fields of one topology; a field counts once for all objects of a kind.
const MOST: usize = 100;

/// A field that an API server would reject.
#[derive(Clone, Debug, PartialEq)]
pub struct RefusedField {
    /// The kind of the object.
    pub kind: String,
    /// The name of the object.
    pub name: String,
    /// The slots of other objects with the same rejected field.
    pub others: BTreeSet<String>,
    /// Empty for the object as a whole.
    pub field: String,
    pub error: ErrorKind,
    /// The problem, without values of the object (DEC-34).
    pub detail: String,
    /// The origin of the field; `None` for the engine itself.
    pub because: Option<Origin>,
    /// The class of the patch or of the template.
    pub class: ObjectKey,
    /// Whether it is an empty value of v1beta1 below a bound of a newer release: webhooks of older releases removed
    /// empty values before the bounds were checked.
    may_be_removed: bool,
    slot: String,
}

impl RefusedField {
    /// A rejected field of the object with this kind and name.
    pub fn new(
        (kind, name): (&str, &str),
        field: impl Into<String>,
        error: ErrorKind,
        detail: impl Into<String>,
        because: Option<Origin>,
        class: &ObjectKey,
    ) -> Self {
        RefusedField {
            kind: kind.to_owned(),
            name: name.to_owned(),
            others: BTreeSet::new(),
            field: field.into(),
            error,
            detail: detail.into(),
            because,
            class: class.clone(),
            may_be_removed: false,
            slot: String::new(),
        }
    }

    /// The kind of the object, its field and the problem, without the name, which the origin does not know.
    pub fn problem(&self) -> String {
        let RefusedField { kind, field, detail, .. } = self;
        let field = if field.is_empty() { String::new() } else { format!(": {field}") };
        format!("{kind}{field}: {detail}")
    }

    /// Whether webhooks of the provider may fix the problem: they run after the API server has checked the types of
    /// fields, and before it checks required fields.
    pub fn may_be_completed(&self) -> bool {
        self.error == ErrorKind::Required || self.may_be_removed
    }

    fn is_like(&self, other: &RefusedField) -> bool {
        self.field == other.field
            && (self.error, &self.kind, &self.detail) == (other.error, &other.kind, &other.detail)
            && self.because == other.because
    }
}

impl fmt::Display for RefusedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)?;
        if !self.others.is_empty() {
            f.write_str(" and others")?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.detail)?;
        match &self.because {
            Some(patch @ Origin::Patch(_)) => write!(f, " (written by {patch} of ClusterClass {})", self.class),
            Some(origin) => write!(f, " (from {origin})"),
            None => Ok(()),
        }
    }
}

/// A kind of objects that are not checked, because no schema of their version is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UncheckedKind {
    pub kind: String,
    pub group: String,
}

impl UncheckedKind {
    /// A kind in the group of an `apiVersion`.
    pub fn new(api_version: &str, kind: &str) -> Self {
        UncheckedKind { kind: kind.to_owned(), group: group_of(api_version).to_owned() }
    }

    /// The name of its CustomResourceDefinition.
    pub fn definition(&self) -> String {
        definition_name(&self.group, &self.kind)
    }
}

/// Reports name the kind only.
impl Serialize for UncheckedKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.kind)
    }
}

/// The results of checking the objects of a topology.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checks {
    pub refusals: Vec<RefusedField>,
    pub unchecked: BTreeSet<UncheckedKind>,
    /// Reasons for which known schemas were not used.
    pub unusable: BTreeSet<String>,
}

/// An object to check with its context.
#[derive(Clone, Copy, Debug)]
pub struct CheckedObject<'a> {
    /// The name of the object's slot in its topology.
    pub slot: &'a str,
    /// The applied object.
    pub sent: &'a Object,
    /// The merged object; equals the applied one if no object exists yet.
    pub merged: &'a Object,
    pub origins: &'a Origins,
    pub class: &'a ObjectKey,
}

impl Checks {
    /// Checks an object against the schema of its definition, if the world has one. Only objects of providers are
    /// checked, because topologist determines the fields of the others. `refused` is the reason of a failed merge.
    pub fn add(&mut self, subject: CheckedObject<'_>, world: &World, refused: Option<String>) {
        let sent = subject.sent;
        if sent.group() == GROUP {
            return;
        }
        let definition = definition_for_checks(sent, world);
        let release = definition.as_ref().and_then(|found| found.release.as_deref());
        let assumptions = world.assumptions();
        match definition.as_ref().and_then(|found| found.resource_schema(version_of(sent.api_version()))) {
            Some(Ok(schema)) => self.add_by(subject, KnownSchema { schema, release, assumptions }, refused),
            Some(Err(error)) => self.leave_out(sent, Some(&error.to_string())),
            None => self.leave_out(sent, None),
        }
    }

    /// Checks a template of a class as it is stored.
    pub fn add_template(&mut self, template: &Object, class: &ObjectKey, world: &World) {
        let origins = Origins::default();
        let subject =
            CheckedObject { slot: template.name(), sent: template, merged: template, origins: &origins, class };
        self.add(subject, world, None);
    }

    /// Records that an object is not checked, and the reason for which its schema, if any, cannot be used.
    fn leave_out(&mut self, object: &Object, reason: Option<&str>) {
        self.unchecked.insert(UncheckedKind::new(object.api_version(), object.kind()));
        if let Some(reason) = reason {
            let name = definition_name(object.group(), object.kind());
            let version = version_of(object.api_version());
            self.unusable.insert(format!("cannot use the schema of version {version} of {name}: {reason}"));
        }
    }

    /// Checks an object against a schema.
    fn add_by(&mut self, subject: CheckedObject<'_>, schema: KnownSchema<'_>, refused: Option<String>) {
        let as_a_whole = |reason| refused_field(subject, String::new(), ErrorKind::Invalid, reason);
        match refusals(subject, schema) {
            Ok(found) if found.is_empty() => refused.into_iter().for_each(|reason| self.put(as_a_whole(reason))),
            Ok(found) => found.into_iter().for_each(|refusal| self.put(refusal)),
            Err(reason) => self.leave_out(subject.sent, Some(&reason.to_string())),
        }
    }

    /// Adds the results of another computation.
    pub fn extend(&mut self, other: Checks) {
        other.refusals.into_iter().for_each(|refusal| self.put(refusal));
        self.unchecked.extend(other.unchecked);
        self.unusable.extend(other.unusable);
    }

    fn put(&mut self, refusal: RefusedField) {
        let has_room = self.refusals.len() < MOST;
        match self.refusals.iter_mut().find(|known| known.is_like(&refusal)) {
            Some(known) => {
                let slots = refusal.others.into_iter().chain([refusal.slot]).filter(|slot| *slot != known.slot);
                known.others.extend(slots);
            }
            None if has_room => self.refusals.push(refusal),
            None => {}
        }
    }
}

/// The definition of the kind of an object.
pub(super) fn definition_of(object: &Object, world: &World) -> Option<Arc<ResourceDefinition>> {
    match world.definition(&definition_name(object.group(), object.kind())) {
        Found::Yes(definition) => Some(definition),
        Found::Absent | Found::NotAsked | Found::Unreadable(_) => None,
    }
}

/// The definition by which an object is checked.
fn definition_for_checks(object: &Object, world: &World) -> Option<Arc<ResourceDefinition>> {
    world.definition_for_checks(&definition_name(object.group(), object.kind()))
}

/// A schema, and what webhooks add before it is checked.
#[derive(Clone, Copy, Debug)]
struct KnownSchema<'a> {
    schema: &'a ResourceSchema,
    /// The release that the schema was taken from, if it is included in the program.
    release: Option<&'a str>,
    assumptions: Option<&'a Assumptions>,
}

impl KnownSchema<'_> {
    /// Adds what webhooks add to an object, then the defaults of the schema.
    fn complete(self, object: &Object, value: &mut Value) -> Result<(), Exceeded> {
        if let Some(assumptions) = self.assumptions.filter(|assumptions| !assumptions.is_empty()) {
            assumptions.complete(object.api_version(), object.kind(), value);
        }
        KUBEADM.complete(object.api_version(), object.kind(), value);
        self.schema.complete_within(value, &mut DefaultsBudget::for_values())
    }
}

/// What the webhook of Cluster API's own control plane adds, as far as its schema requires it.
static KUBEADM: LazyLock<Assumptions> = LazyLock::new(|| {
    let mut assumptions = Assumptions::default();
    let strategy = json!({"spec": {"rollout": {"strategy": {"type": "RollingUpdate"}}}});
    assumptions.add("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane", &strategy);
    assumptions
});

/// Whether [`Checks::add`] checks an object: it belongs to a provider, and its definition has a usable schema.
pub(super) fn has_schema(object: &Object, world: &World) -> bool {
    let is_usable = |definition: Arc<ResourceDefinition>| {
        matches!(definition.resource_schema(version_of(object.api_version())), Some(Ok(_)))
    };
    object.group() != GROUP && definition_for_checks(object, world).is_some_and(is_usable)
}

/// The object with the defaults of the schema of its definition, as an API server stores it; unchanged without a usable
/// schema.
pub fn completed(object: Object, definition: Option<&ResourceDefinition>) -> Object {
    let schema = definition.and_then(|found| found.resource_schema(version_of(object.api_version())));
    let Some(Ok(schema)) = schema else { return object };
    let mut value = Value::from(object.clone());
    match schema.complete_within(&mut value, &mut DefaultsBudget::for_values()) {
        Ok(()) => Object::try_from(value).unwrap_or(object),
        Err(_) => object,
    }
}

/// The object as an API server would store it, by the definitions of the world.
pub(crate) fn completed_in(world: &World, object: Object) -> Object {
    let definition = definition_of(&object, world);
    completed(object, definition.as_deref())
}

/// The reason for which an object cannot be checked.
#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error(transparent)]
    Defaults(#[from] Exceeded),
    /// The detail of the violation that says which budget is exceeded (DEC-44).
    #[error("{0}")]
    Validation(String),
}

/// The fields of an object that an API server would reject.
fn refusals(subject: CheckedObject<'_>, known: KnownSchema<'_>) -> Result<Vec<RefusedField>, CheckError> {
    let (CheckedObject { sent, merged, .. }, KnownSchema { schema, .. }) = (subject, known);
    let dropped = schema.prune(&mut Value::from(sent.clone()));
    let mut value = Value::from(merged.clone());
    schema.prune(&mut value);
    known.complete(merged, &mut value)?;
    let stop = Stop::never();
    let mut violations = schema.violations_within(&value, None, &ValidationEffort::for_object(&stop));
    if let Some(exceeded) = violations.iter().find(|found| found.rule == "DEC-44") {
        return Err(CheckError::Validation(exceeded.detail.clone()));
    }
    if violations.is_empty() {
        violations = schema.rule_violations(&value, None);
    }
    let mut found: Vec<RefusedField> = dropped.into_iter().map(|field| unknown(subject, known, field)).collect();
    let is_ours = |violation: &&Violation| is_sent(sent, violation);
    found.extend(violations.iter().filter(is_ours).map(|violation| refusal(subject, &value, violation, known.release)));
    found.sort_by(|one, other| one.field.cmp(&other.field));
    let more = found.len().saturating_sub(NAMED);
    found.truncate(NAMED);
    if more > 0 {
        let detail = format!("{more} more fields would be refused");
        found.push(refused_field(subject, String::new(), ErrorKind::Invalid, detail));
    }
    Ok(found)
}

/// Whether a violation is in a field that the topology applies: other managers are responsible for their fields.
fn is_sent(sent: &Object, violation: &Violation) -> bool {
    let pointer = match violation.kind {
        ErrorKind::Required => violation.pointer.rsplit_once('/').map_or("", |(parent, _)| parent),
        _ => &violation.pointer,
    };
    sent.to_value().pointer(pointer).is_some()
}

fn unknown(subject: CheckedObject<'_>, released: KnownSchema<'_>, field: String) -> RefusedField {
    let meant = released.schema.meant_by(&subject.sent.to_value(), &field);
    let hint = meant.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
    // A newer release may have the field.
    let release = released.release.map(|release| format!(" in {release}")).unwrap_or_default();
    let detail = format!("unknown field{release}{hint}");
    refused_field(subject, field, ErrorKind::Forbidden, detail)
}

fn refusal(subject: CheckedObject<'_>, value: &Value, violation: &Violation, release: Option<&str>) -> RefusedField {
    let field = path_of(value, &violation.pointer);
    let detail = match violation.kind {
        ErrorKind::Required => "is required, unless a webhook of the provider sets it".to_owned(),
        ErrorKind::Duplicate => "is there twice".to_owned(),
        // The message of a rule may contain a value.
        _ if subject.origins.is_sensitive(&field) => "is not valid".to_owned(),
        _ => violation.detail.clone(),
    };
    let of_release = release.map(|release| format!(" ({release})")).unwrap_or_default();
    let is_empty = value.pointer(&violation.pointer).is_some_and(|value| match value {
        Value::String(text) => text.is_empty(),
        Value::Array(entries) => entries.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    });
    // A webhook cannot read a value of another type.
    let is_read = violation.kind != ErrorKind::TypeInvalid && version_of(subject.sent.api_version()) == "v1beta1";
    let refused = refused_field(subject, field, violation.kind, format!("{detail}{of_release}"));
    RefusedField { may_be_removed: release.is_some() && is_read && is_empty, ..refused }
}

fn refused_field(subject: CheckedObject<'_>, field: String, error: ErrorKind, detail: String) -> RefusedField {
    // An object as a whole has no single origin.
    let decisive = subject.origins.decisive(&field).filter(|_| !field.is_empty());
    let because = decisive.filter(|origin| **origin != Origin::Topology).cloned();
    let object = (subject.sent.kind(), subject.sent.name());
    RefusedField {
        slot: subject.slot.to_owned(),
        ..RefusedField::new(object, field, error, detail, because, subject.class)
    }
}

/// A JSON pointer in the notation of origin paths.
fn path_of(value: &Value, pointer: &str) -> String {
    let (mut path, mut here) = (Path::ROOT, Some(value));
    for step in pointer.split('/').skip(1) {
        let name = step.replace("~1", "/").replace("~0", "~");
        let position = name.parse::<usize>().ok();
        (path, here) = match (here, position) {
            (Some(Value::Array(entries)), Some(position)) => (path.index(position), entries.get(position)),
            (here, _) => (path.member(&name), here.and_then(|value| value.get(&name))),
        };
    }
    path.into_text().into_owned()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use serde_json::json;

    use super::*;
    use crate::topology::origin::PatchOrigin;

    fn schema(spec: &Value) -> ResourceSchema {
        let openapi = json!({"type": "object", "properties": {"spec": spec}});
        ResourceSchema::compile(Arc::new(openapi)).unwrap()
    }

    fn thing(name: &str, spec: &Value) -> Object {
        let metadata = json!({"name": name, "namespace": "ns"});
        Object::try_from(json!({"apiVersion": "g.io/v1", "kind": "Thing", "metadata": metadata, "spec": spec})).unwrap()
    }

    /// The rejected fields of objects; the last one is merged with an existing object.
    fn messages(schema: &ResourceSchema, objects: &[Object], merged: Option<&Object>) -> Vec<String> {
        let (mut checks, class) = (Checks::default(), ObjectKey::new("ns", "c"));
        let mut origins = Origins::default();
        origins.mark("", Origin::Template { kind: "ThingTemplate".into(), name: "t".into() });
        let patch = PatchOrigin {
            patch: "p".into(),
            definition: Some(0),
            operation: 1,
            variables: [].into(),
            is_sensitive: false,
        };
        origins.mark("spec.labels[a.b/c]", Origin::Patch(patch));
        for sent in objects {
            let merged = merged.unwrap_or(sent);
            checks.add_by(
                CheckedObject { slot: sent.name(), sent, merged, origins: &origins, class: &class },
                KnownSchema { schema, release: None, assumptions: None },
                None,
            );
        }
        checks.refusals.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_field_is_named_once_with_what_wrote_it() {
        let text = json!({"type": "string"});
        let labels = json!({"type": "object", "additionalProperties": text});
        let schema = schema(&json!({"type": "object", "properties": {"labels": labels, "size": {"type": "integer"}}}));
        let spec = json!({"labels": {"a.b/c": 1}, "size": "x", "sizes": 2});
        let want = [
            "Thing a and others: spec.labels[a.b/c]: must be of type string, and is integer; write it in quotes \
             (written by patch \"p\" definitions[0].jsonPatches[1] of ClusterClass ns/c)",
            "Thing a and others: spec.size: must be of type integer, and is string (from ThingTemplate t)",
            "Thing a and others: spec.sizes: unknown field; did you mean size? (from ThingTemplate t)",
        ];
        assert_eq!(messages(&schema, &[thing("a", &spec), thing("b", &spec)], None), want);
        let alone = want.map(|text| text.replace(" and others", ""));
        assert_eq!(messages(&schema, &[thing("a", &spec), thing("a", &spec)], None), alone, "the same object twice");
    }

    #[test]
    fn fields_of_other_managers_are_not_judged_and_fill_what_is_missing() {
        let whole = json!({"type": "object", "required": ["size"],
            "properties": {"size": {"type": "integer"}, "note": {"type": "string"}}});
        let schema = schema(&whole);
        let sent = thing("a", &json!({"note": "x"}));
        assert_eq!(messages(&schema, std::slice::from_ref(&sent), None).len(), 1, "size is required");
        let merged = thing("a", &json!({"note": "x", "size": 1}));
        assert_eq!(messages(&schema, std::slice::from_ref(&sent), Some(&merged)), Vec::<String>::new());
        let merged = thing("a", &json!({"note": "x", "size": "one"}));
        assert_eq!(messages(&schema, &[sent], Some(&merged)), Vec::<String>::new());
    }

    #[test]
    fn few_fields_of_very_many_are_named() {
        // DEC-44
        let schema = schema(&json!({"type": "object"}));
        let spec = |start: usize| -> Value {
            (start..start + 500).map(|number| (format!("f{number}"), Value::from(number))).collect()
        };
        let one = messages(&schema, &[thing("a", &spec(0))], None);
        assert_eq!((one.len(), one[NAMED].as_str()), (NAMED + 1, "Thing a: 480 more fields would be refused"));
        let many: Vec<Object> = (0..50).map(|number| thing("a", &spec(number * 500))).collect();
        assert_eq!(messages(&schema, &many, None).len(), MOST);
    }

    #[test]
    fn a_schema_that_takes_too_much_is_not_used() {
        // DEC-44
        let mut properties = serde_json::Map::new();
        for number in 0..2_000 {
            let mut pattern = String::new();
            write!(pattern, "^[a-z]{{1,{}}}$", 900 + number % 90).unwrap();
            properties.insert(format!("f{number}"), json!({"type": "string", "pattern": pattern}));
        }
        let openapi = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
        let definition = ResourceDefinition::from_object(
            &json!({"kind": "CustomResourceDefinition", "metadata": {"name": "things.g.io"},
            "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": openapi}}]}}),
        );
        let definition = definition.unwrap();
        let reason = definition.resource_schema("v1").unwrap().unwrap_err().to_string();
        assert!(reason.contains("exceeds the limit of"), "{reason}");
        assert!(definition.resource_schema("v2").is_none());
        let object = thing("a", &json!({}));
        assert_eq!(completed(object.clone(), Some(&definition)), object);
    }

    #[test]
    fn defaults_that_are_too_many_are_not_filled_in() {
        // DEC-44
        let wide = json!({"type": "object", "default": {},
            "properties": {"text": {"type": "string", "default": "x".repeat(100_000)}}});
        let list = json!({"type": "object", "properties": {"list": {"type": "array", "items": wide}}});
        let openapi = json!({"type": "object", "properties": {"spec": list}});
        let definition = ResourceDefinition::from_object(
            &json!({"kind": "CustomResourceDefinition", "metadata": {"name": "things.g.io"},
            "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": openapi}}]}}),
        );
        let few = completed(thing("a", &json!({"list": [{}]})), definition.as_ref());
        assert!(few.as_ref().pointer("/spec/list/0/text").is_some());
        let many = thing("a", &json!({"list": vec![json!({}); 100]}));
        assert_eq!(completed(many.clone(), definition.as_ref()), many);
    }
}
