//! The changes of an apply, computed without a server.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::apply::NEVER_OWNED;
use super::compare::paired;
use super::literal::equal;
use super::schema::{ListMerge, ListType, MapType, MergeType};
use super::validate::entries;
use super::{
    ApplyRequest, ElementPath, FieldSet, ManagedFields, ManagedOperation, MergeSchema, PathElement, SENT, apply,
    field_set, reduce,
};
use crate::field::Path;

/// Context of a comparison of an object with the object to be applied.
#[derive(Clone, Copy, Debug)]
pub struct ComparisonContext<'a> {
    /// The applying field manager.
    pub manager: &'a str,
    /// The type of the object; without a definition [`MergeSchema::unknown`], which treats lists as atomic.
    pub schema: &'a MergeSchema,
    /// Field owners of the live object. If the manager has no entry, [`as_applied`] creates one.
    pub managers: &'a [ManagedFields],
    /// Paths whose values and ownership are ignored (SSA-11, SSA-18).
    pub uncompared: &'a [&'a [&'a str]],
}

/// The changes of applying the desired object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApplyDifference {
    /// Changed values, sorted by path.
    pub changes: Vec<FieldChange>,
    /// Why the ownership of the manager's fields would change, or is unknown.
    pub ownership_changed: Option<OwnershipChange>,
}

/// One changed value.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// Path such as `spec.template.spec.taints[key=x].effect`; values added or removed as a whole are named as a whole.
    pub path: Path,
    /// `None` if the field is added.
    pub from: Option<Value>,
    /// `None` if the field is removed.
    pub to: Option<Value>,
    /// Whether the path is `spec` or below it.
    pub in_spec: bool,
}

/// Reasons why ownership would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnershipChange {
    /// The manager has never applied the object, or its entry is lost.
    NoEntry,
    /// The manager applied the object in this version; comparing its fields needs a conversion.
    OtherVersion(String),
    /// The manager would gain or lose fields.
    Fields { gained: FieldSet, lost: FieldSet },
    /// The objects do not match the schema, with the reason.
    Unknown(String),
}

impl ApplyDifference {
    /// Whether applying would change anything, including field ownership (SSA-13).
    pub fn changed(&self) -> bool {
        !self.changes.is_empty() || self.ownership_changed.is_some()
    }
}

/// The changes that a forced apply of `desired` would make in `live` (SSA-11, SSA-12, SSA-13).
///
/// `desired` is the object to be sent, reduced by [`reduce`]. The result is one-sided: if nothing is
/// [changed](ApplyDifference::changed), a server would change nothing either. A server may ignore a reported
/// difference, since it fills in defaults and its webhooks normalise values (DEC-15).
pub fn difference(live: &Value, desired: &Value, comparing: &ComparisonContext<'_>) -> ApplyDifference {
    let api_version = desired.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let uncompared: Vec<ElementPath> = comparing.uncompared.iter().map(|path| ElementPath::from_fields(path)).collect();
    let uncompared = FieldSet::from_paths(uncompared.iter().map(|path| path.0.as_slice()));
    let managers = comparing.managers;
    let request = ApplyRequest::new(comparing.manager, api_version, "", comparing.schema);
    let applied = match apply(Some(live), managers, desired, &request, true) {
        Ok(applied) => applied,
        Err(refused) => {
            let changes = changes(live, desired, comparing.schema, comparing.uncompared);
            return ApplyDifference { changes, ownership_changed: Some(OwnershipChange::Unknown(refused.to_string())) };
        }
    };
    let ownership_changed = ownership_change(managers, &applied.managers, comparing, api_version, &uncompared);
    let changes = match applied.changed {
        true => changes(live, &applied.object, comparing.schema, comparing.uncompared),
        false => Vec::new(),
    };
    ApplyDifference { changes, ownership_changed }
}

/// The entry of a manager after it applies `sent`.
pub fn as_applied(manager: &str, sent: &Value, schema: &MergeSchema) -> ManagedFields {
    ManagedFields {
        manager: manager.to_owned(),
        operation: ManagedOperation::Apply,
        api_version: sent.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned(),
        time: None,
        subresource: String::new(),
        fields: field_set(sent, schema).difference(&NEVER_OWNED),
    }
}

fn ownership_change(
    before: &[ManagedFields],
    after: &[ManagedFields],
    comparing: &ComparisonContext<'_>,
    api_version: &str,
    uncompared: &FieldSet,
) -> Option<OwnershipChange> {
    let is_own = |entry: &&ManagedFields| entry.is_of_applier(comparing.manager);
    let fields =
        |entry: Option<&ManagedFields>| entry.map(|entry| entry.fields.without(uncompared)).unwrap_or_default();
    let Some(own) = before.iter().find(is_own) else { return Some(OwnershipChange::NoEntry) };
    if own.api_version != api_version {
        return Some(OwnershipChange::OtherVersion(own.api_version.clone()));
    }
    let (before, after) = (fields(Some(own)), fields(after.iter().find(is_own)));
    let (gained, lost) = (after.difference(&before), before.difference(&after));
    (before != after).then_some(OwnershipChange::Fields { gained, lost })
}

/// Values that differ between two states of an object, of those that are sent and not `uncompared`, sorted by path.
pub fn changes(from: &Value, to: &Value, schema: &MergeSchema, uncompared: &[&[&str]]) -> Vec<FieldChange> {
    let [from, to] = [from, to].map(|object| without_empty_metadata(reduce(object, SENT, uncompared)));
    let mut walk = ChangeWalk { changes: Vec::new(), in_spec: false };
    walk.value(&Path::ROOT, Some(&from), Some(&to), &schema.0);
    walk.changes
}

/// The object as stored by a server: empty labels, annotations and owners are absent.
fn without_empty_metadata(mut object: Value) -> Value {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.retain(|_, value| match value {
            Value::Object(members) => !members.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Null => false,
            _ => true,
        });
    }
    object
}

struct ChangeWalk {
    changes: Vec<FieldChange>,
    in_spec: bool,
}

impl ChangeWalk {
    fn value(&mut self, path: &Path, from: Option<&Value>, to: Option<&Value>, of: &MergeType) {
        match (from, to) {
            (Some(from), Some(to)) if equal(from, to) => return,
            (Some(Value::Object(from)), Some(Value::Object(to))) => {
                if let Some(of) = of.atom().map.as_ref().filter(|of| !of.atomic) {
                    return self.maps(path, from, to, of);
                }
            }
            (Some(Value::Array(from)), Some(Value::Array(to))) => {
                if let Some(of) = of.atom().list.as_ref().filter(|of| of.merge != ListMerge::Atomic)
                    && self.lists(path, from, to, of).is_some()
                {
                    return;
                }
            }
            _ => {}
        }
        self.changes.push(FieldChange {
            path: path.clone(),
            from: from.cloned(),
            to: to.cloned(),
            in_spec: self.in_spec,
        });
    }

    fn maps(&mut self, path: &Path, from: &Map<String, Value>, to: &Map<String, Value>, of: &MapType) {
        for (name, from, to) in paired(Some(from), Some(to)) {
            let is_root = path.as_str().is_empty();
            self.in_spec = if is_root { name == "spec" } else { self.in_spec };
            let of = of.field(name).unwrap_or(&MergeType::Deduced);
            self.value(&PathElement::field(name).onto(path), from, to, of);
        }
    }

    /// `None` without any change if entries cannot be distinguished. The order of entries is ignored.
    fn lists(&mut self, path: &Path, from: &[Value], to: &[Value], of: &ListType) -> Option<()> {
        let (from, to) = (by_step(from, of)?, by_step(to, of)?);
        for step in from.keys().chain(to.keys().filter(|step| !from.contains_key(*step))) {
            self.value(&step.onto(path), from.get(step).copied(), to.get(step).copied(), &of.items);
        }
        Some(())
    }
}

fn by_step<'a>(items: &'a [Value], of: &ListType) -> Option<BTreeMap<PathElement, &'a Value>> {
    let by_step: BTreeMap<_, _> = entries(items, of)?.into_iter().zip(items).collect();
    (by_step.len() == items.len()).then_some(by_step)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn object(spec: &Value) -> Value {
        json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"}, "spec": spec})
    }

    fn schema() -> MergeSchema {
        let text = json!({"type": "string"});
        let taint = json!({"type": "object", "properties": {"key": text, "effect": text}});
        let taints = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"],
            "items": taint});
        let spec = json!({"type": "object", "properties": {"taints": taints, "a": text, "b": text, "list":
            {"type": "array", "items": text}}});
        MergeSchema::from_openapi(&json!({"type": "object", "properties": {"spec": spec}}))
    }

    fn comparing<'a>(schema: &'a MergeSchema, managers: &'a [ManagedFields]) -> ComparisonContext<'a> {
        ComparisonContext { manager: "engine", schema, managers, uncompared: &[] }
    }

    /// The stored object after applies by the engine and then by others.
    fn live(schema: &MergeSchema, engine: &Value, others: &[Value]) -> (Value, Vec<ManagedFields>) {
        let request = ApplyRequest::new("engine", "g/v1", NOW, schema);
        let first = apply(None, &[], engine, &request, true).unwrap();
        others.iter().fold((first.object, first.managers), |(object, managers), other| {
            let request = ApplyRequest { manager: "other", ..request };
            let applied = apply(Some(&object), &managers, other, &request, true).unwrap();
            (applied.object, applied.managers)
        })
    }

    fn spec_changed(difference: &ApplyDifference) -> bool {
        difference.changes.iter().any(|change| change.in_spec)
    }

    fn shown(difference: &ApplyDifference) -> Vec<(&str, Option<Value>, Option<Value>)> {
        difference.changes.iter().map(|c| (c.path.as_str(), c.from.clone(), c.to.clone())).collect()
    }

    /// SSA-13
    #[test]
    fn sending_the_applied_fields_again_changes_nothing() {
        let desired = object(&json!({"a": "1", "list": ["x"], "taints": [{"key": "k", "effect": "e"}]}));
        for schema in [schema(), MergeSchema::unknown()] {
            let foreign =
                json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"labels": {"theirs": "x"}}, "spec": {"b": "2"}});
            let (live, managers) = live(&schema, &desired, &[foreign]);
            let found = difference(&live, &desired, &comparing(&schema, &managers));
            assert_eq!(found, ApplyDifference::default());
            assert!(!found.changed() && !spec_changed(&found));
        }
    }

    /// SSA-01, SSA-12
    #[test]
    fn lists_follow_the_schema_and_are_atomic_without_one() {
        let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
        let before = object(&json!({"taints": [taint("x", "1"), taint("y", "1")]}));
        let after = object(&json!({"taints": [taint("y", "2"), taint("z", "1")]}));
        let known = schema();
        let (object, managers) = live(&known, &before, &[]);
        let found = difference(&object, &after, &comparing(&known, &managers));
        assert_eq!(
            shown(&found),
            [
                ("spec.taints[key=x]", Some(taint("x", "1")), None),
                ("spec.taints[key=y].effect", Some(json!("1")), Some(json!("2"))),
                ("spec.taints[key=z]", None, Some(taint("z", "1"))),
            ]
        );
        assert!(spec_changed(&found));
        let unknown = MergeSchema::unknown();
        let (object, managers) = live(&unknown, &before, &[]);
        let found = difference(&object, &after, &comparing(&unknown, &managers));
        let taints = |object: &Value| object.pointer("/spec/taints").cloned();
        assert_eq!(shown(&found), [("spec.taints", taints(&before), taints(&after))]);
    }

    /// SSA-01, LBL-04
    #[test]
    fn a_field_that_is_no_longer_sent_is_removed_unless_another_manager_owns_it() {
        let schema = schema();
        let first = object(&json!({"a": "1", "b": "2"}));
        let theirs = json!({"apiVersion": "g/v1", "kind": "K", "spec": {"b": "2"}});
        let (live, managers) = live(&schema, &first, &[theirs]);
        let found = difference(&live, &object(&json!({})), &comparing(&schema, &managers));
        assert_eq!(shown(&found), [("spec.a", Some(json!("1")), None)]);
        let found = difference(&live, &object(&json!({"a": "1"})), &comparing(&schema, &managers));
        assert_eq!(shown(&found), []);
        let Some(OwnershipChange::Fields { gained, lost }) = &found.ownership_changed else { panic!("{found:?}") };
        assert_eq!((gained.to_string().as_str(), lost.to_string().as_str()), ("{}", r#"{"f:spec":{"f:b":{}}}"#));
        assert!(found.changed() && !spec_changed(&found));
    }

    /// DEC-15
    #[test]
    fn an_entry_of_another_version_or_none_is_a_difference() {
        let schema = schema();
        let desired = object(&json!({"a": "1"}));
        let (live, mut managers) = live(&schema, &desired, &[]);
        let found = difference(&live, &desired, &comparing(&schema, &[]));
        assert_eq!((found.changes.as_slice(), &found.ownership_changed), (&[][..], &Some(OwnershipChange::NoEntry)));
        managers.iter_mut().for_each(|entry| entry.api_version = "g/v0".to_owned());
        let found = difference(&live, &desired, &comparing(&schema, &managers));
        assert_eq!(found.ownership_changed, Some(OwnershipChange::OtherVersion("g/v0".to_owned())));
        assert!(found.changed() && !spec_changed(&found));
        managers.iter_mut().for_each(|entry| entry.subresource = "status".to_owned());
        let found = difference(&live, &desired, &comparing(&schema, &managers));
        assert_eq!(found.ownership_changed, Some(OwnershipChange::NoEntry));
    }

    /// DEC-43
    #[test]
    fn without_managed_fields_the_objects_sent_before_decide_what_is_removed() {
        let schema = MergeSchema::unknown();
        let live = object(&json!({"a": "1", "b": "2", "c": {"d": 1}}));
        let desired = object(&json!({"a": "3"}));
        let entry = |sent: &Value| [as_applied("engine", sent, &schema)];
        let found = difference(&live, &desired, &comparing(&schema, &entry(&desired)));
        assert_eq!(shown(&found), [("spec.a", Some(json!("1")), Some(json!("3")))]);
        assert_eq!(found.ownership_changed, None);
        let sent = object(&json!({"a": "1", "b": "2"}));
        let found = difference(&live, &desired, &comparing(&schema, &entry(&sent)));
        let removed = ("spec.b", Some(json!("2")), None);
        assert_eq!(shown(&found), [("spec.a", Some(json!("1")), Some(json!("3"))), removed]);
        assert!(matches!(found.ownership_changed, Some(OwnershipChange::Fields { .. })));
        assert!(!difference(&live, &sent, &comparing(&schema, &entry(&sent))).changed());
        // An existing field that is newly applied becomes owned.
        let more = object(&json!({"a": "1", "b": "2", "c": {"d": 1}}));
        let found = difference(&live, &more, &comparing(&schema, &entry(&sent)));
        assert!(shown(&found).is_empty() && found.changed(), "{found:?}");
    }

    /// DEC-43
    #[test]
    fn a_record_shows_how_an_object_is_merged() {
        let known = schema();
        let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
        let before = object(&json!({"taints": [taint("x", "1"), taint("y", "1")], "list": ["a"], "a": "1"}));
        let (live, managers) = live(&known, &before, &[]);
        let recorded = MergeSchema::from_managed_fields(&managers, "g/v1", &live);
        assert!(recorded.fits(&before) && !recorded.fits(&object(&json!({"taints": [{"effect": "1"}]}))));
        for after in [
            object(&json!({"taints": [taint("y", "2"), taint("z", "1")], "list": ["b"]})),
            object(&json!({"a": "2"})),
            before,
        ] {
            let by = |schema: &MergeSchema| difference(&live, &after, &comparing(schema, &managers));
            assert_eq!(by(&recorded), by(&known), "{after}");
        }
    }

    /// SSA-11, SSA-18
    #[test]
    fn paths_that_are_not_compared_do_not_count() {
        let schema = MergeSchema::unknown();
        let sent = |annotations: Value, spec: Value| {
            let metadata = json!({"name": "n", "annotations": annotations});
            json!({"apiVersion": "g/v1", "kind": "K", "metadata": metadata, "spec": spec})
        };
        let first = sent(json!({"data": "1", "x": "y"}), json!({"endpoint": {"host": "h"}, "a": 1}));
        let (object, managers) = live(&schema, &first, &[]);
        let data: &[&[&str]] = &[&["metadata", "annotations", "data"]];
        let gone = sent(json!({"x": "y"}), json!({"a": 1}));
        let moved = sent(json!({"data": "2", "x": "y"}), json!({"endpoint": {"host": "h"}, "a": 1}));
        for (case, desired, uncompared, paths, ownership) in [
            ("all counts", &gone, &[][..], &["metadata.annotations.data", "spec.endpoint"][..], true),
            ("not the annotation", &gone, data, &["spec.endpoint"], true),
            ("the annotation counts", &moved, &[], &["metadata.annotations.data"], false),
            ("the annotation does not", &moved, data, &[], false),
        ] {
            let found =
                difference(&object, desired, &ComparisonContext { uncompared, ..comparing(&schema, &managers) });
            let found_paths: Vec<&str> = found.changes.iter().map(|change| change.path.as_str()).collect();
            assert_eq!((found_paths.as_slice(), found.ownership_changed.is_some()), (paths, ownership), "{case}");
        }
    }

    #[test]
    fn objects_that_do_not_fit_the_schema_take_the_full_path() {
        let schema = schema();
        let live = object(&json!({"unknown": 1}));
        let entry = [as_applied("engine", &live, &schema)];
        let found = difference(&live, &live, &comparing(&schema, &entry));
        assert!(
            matches!(found.ownership_changed, Some(OwnershipChange::Unknown(why)) if why.contains(".spec.unknown"))
        );
    }
}
